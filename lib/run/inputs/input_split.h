// SPDX-License-Identifier: Apache-2.0
// Splits objects among the nodes that read them: largest first, each to the reader with the fewest
// bytes. Pure: the same sizes and readers give the same split on every machine. The parts of two
// readers differ by at most the largest object.
#ifndef RUN_INPUT_SPLIT_H
#define RUN_INPUT_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INPUT_SPLIT_OBJECT_BYTES = 64 << 10 }; // what a request costs beside its bytes

// owners[i]: the node that reads object i. At least one of `nodes` must be a reader.
void input_split(const uint64_t *sizes, size_t count, const bool *readers, size_t nodes,
                 size_t *owners);

#endif
