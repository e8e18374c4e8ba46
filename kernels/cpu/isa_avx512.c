// SPDX-License-Identifier: Apache-2.0
// Inner loops for AVX-512 (F, BW, DQ, VL). Built with those flags; run only where usable() says so.
#if defined(__AVX512F__)
#include <immintrin.h>
#include <math.h>

#include "kernels/cpu/avx512_body.h"
#include "kernels/cpu/isa.h"

#define MR        12
#define TILE_FNS  TILE_FNS_12
#define TILE_ROW  TILE_ROW_12
#define V_SQRT(v) _mm512_sqrt_ps(v)

#include "kernels/cpu/micro_body.h"
#include "kernels/cpu/span_body.h"
#include "kernels/cpu/token_body.h"
#include "kernels/cpu/winograd_body.h"

static int usable(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

ISA_TABLE(isa_avx512, "avx512", usable);
#endif
