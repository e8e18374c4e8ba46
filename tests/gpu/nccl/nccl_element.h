// SPDX-License-Identifier: Apache-2.0
// nccl_element.h: elements of NCCL's types, by their numbers in nccl.h.
#ifndef GPU_NCCL_NCCL_ELEMENT_H
#define GPU_NCCL_NCCL_ELEMENT_H
#include <stddef.h>

enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, TYPES };

size_t element_bytes(int type);
double element_get(const void *p, size_t i, int type);
void element_put(void *p, size_t i, int type, double v); // to nearest, ties to even
#endif
