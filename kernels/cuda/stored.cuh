// SPDX-License-Identifier: Apache-2.0
// Tensors in memory as float or as bfloat16 (kernels/stored.h). A kernel that reads and writes
// little else has its loop once for either type of element; read and write then choose by pointer.
// Where a tensor is a small part of a kernel, struct numbers looks at its type.
#ifndef DTCTL_KERNELS_CUDA_STORED_CUH
#define DTCTL_KERNELS_CUDA_STORED_CUH
#include "kernels/cuda/cuda_params.h"

typedef uint16_t bf16_word; // the upper half of a float

// To nearest, ties to even; what is no number stays so.
__device__ __forceinline__ bf16_word narrowed(float v) {
#if __CUDA_ARCH__ >= 800
    bf16_word word;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(word) : "f"(v));
    return word;
#else
    uint32_t bits = __float_as_uint(v);
    return v != v ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
}
__device__ __forceinline__ float widened(bf16_word word) {
    return __uint_as_float((uint32_t)word << 16);
}

__device__ __forceinline__ float read(const float *x, int64_t i) {
    return x[i];
}
__device__ __forceinline__ float read(const bf16_word *x, int64_t i) {
    return widened(x[i]);
}
__device__ __forceinline__ void write(float *y, int64_t i, float v) {
    y[i] = v;
}
__device__ __forceinline__ void write(bf16_word *y, int64_t i, float v) {
    y[i] = narrowed(v);
}

// So many neighbours at once, at a multiple of their bytes.
template <class T, int PER> struct alignas(sizeof(T) * PER) neighbours { T v[PER]; };
template <int PER, class T>
__device__ __forceinline__ void read(float (&v)[PER], const T *x, int64_t i) {
    neighbours<T, PER> n = *(const neighbours<T, PER> *)(x + i);
    for (int k = 0; k < PER; k++)
        v[k] = read(n.v, k);
}
template <int PER, class T>
__device__ __forceinline__ void write(T *y, int64_t i, const float (&v)[PER]) {
    neighbours<T, PER> n;
    for (int k = 0; k < PER; k++)
        write(n.v, k, v[k]);
    *(neighbours<T, PER> *)(y + i) = n;
}

// Calls f with the type of a tensor, and the neighbours of a thread: of bfloat16 two, where that is
// possible, as many bytes as of floats.
#define OF_STORED(p, f, ...)                                                                       \
    do {                                                                                           \
        if (!(p).bf16)                                                                             \
            f<float, 1>(__VA_ARGS__);                                                              \
        else if ((p).pairs)                                                                        \
            f<bf16_word, 2>(__VA_ARGS__);                                                          \
        else                                                                                       \
            f<bf16_word, 1>(__VA_ARGS__);                                                          \
    } while (0)

// Numbers of either type. Without `either` they are floats, whatever bf16 says.
template <bool either> struct numbers {
    const char *at;
    bool bf16;
    __device__ __forceinline__ numbers() {}
    __device__ __forceinline__ numbers(const void *x, bool bf16)
        : at((const char *)x), bf16(bf16) {}
    __device__ __forceinline__ float operator[](int64_t i) const {
        return either && bf16 ? widened(((const bf16_word *)at)[i]) : ((const float *)at)[i];
    }
    __device__ __forceinline__ int bytes() const {
        return either && bf16 ? sizeof(bf16_word) : sizeof(float);
    }
    __device__ __forceinline__ numbers operator+(int64_t n) const {
        return numbers(at + n * bytes(), bf16);
    }
    // A number as it is after it has been put.
    __device__ __forceinline__ float rounded(float v) const {
        return either && bf16 ? widened(narrowed(v)) : v;
    }
    __device__ __forceinline__ void put(int64_t i, float v) const {
        if (either && bf16)
            ((bf16_word *)at)[i] = narrowed(v);
        else
            ((float *)at)[i] = v;
    }
};
#endif
