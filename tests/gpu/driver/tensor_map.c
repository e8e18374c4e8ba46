// SPDX-License-Identifier: Apache-2.0
// tensor_map.c: tensor maps of the stand-in: matrices of words without interleaving.
// EMU_TENSOR_MAPS=0 refuses all of them.
#include "tests/gpu/driver/driver.h"

enum { RANK = 2, CAPABILITY_MIN = 90, TYPES = 13 };

// Of an element by CUtensorMapDataType.
static const uint32_t type_bytes[TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
static const uint32_t swizzle_bytes[] = {0, 32, 64, 128}; // by CUtensorMapSwizzle

API CUresult cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address,
                                    const uint64_t *dim, const uint64_t *stride,
                                    const uint32_t *box, const uint32_t *element_stride,
                                    int interleave, int swizzle, int promotion, int fill) {
    char text[PTX_TEXT_MAX];
    bool known = type >= 0 && type < TYPES && rank == RANK && interleave == 0 && fill == 0 &&
                 swizzle >= 0 && swizzle < 4 && promotion >= 0 && promotion < 4;
    if (!driver_setting("EMU_TENSOR_MAPS", 1))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (driver_setting("EMU_CC", 80) < CAPABILITY_MIN)
        return driver_fail(CUDA_ERROR_INVALID_VALUE, "a tensor map for a device below 9.0");
    if (!known || element_stride[0] != 1 || element_stride[1] != 1)
        return driver_fail(CUDA_ERROR_INVALID_VALUE,
                           "a tensor map of rank %u, type %d, swizzle %d is not known", rank, type,
                           swizzle);
    struct ptx_tensor t = {.address = (uint64_t)(uintptr_t)address,
                           .dim = {dim[0], dim[1]},
                           .pitch = stride[0],
                           .box = {box[0], box[1]},
                           .bytes = type_bytes[type],
                           .swizzle = swizzle_bytes[swizzle]};
    return ptx_tensor_map(map, &t, text) ? driver_fail(CUDA_ERROR_INVALID_VALUE, "%s", text) : 0;
}
