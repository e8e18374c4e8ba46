// SPDX-License-Identifier: Apache-2.0
// Inner loops in portable C with the compiler's vector types: any processor.
#include <math.h>
#include <string.h>

#include "kernels/cpu/isa.h"

#define VL       4
#define MR       4
#define NV       2
#define TILE_FNS TILE_FNS_4
#define TILE_ROW TILE_ROW_4
typedef float vec __attribute__((vector_size(16)));
typedef int vmask; // how many lanes from the first
#define V_SET1(x)         ((vec){(x), (x), (x), (x)})
#define V_LOAD(p)         load_first(p, VL)
#define V_LOADM(p, m)     load_first(p, m)
#define V_STORE(p, v)     store_first(p, VL, v)
#define V_STOREM(p, m, v) store_first(p, m, v)
#define V_MASK(n)         ((n) < VL ? (n) : VL)
#define V_FMA(a, b, c)    ((a) * (b) + (c))
#define V_RELU(v)         relu_lanes(v)
#define V_SQRT(v)         sqrt_lanes(v)

static inline vec load_first(const float *p, int n) {
    vec v = {0, 0, 0, 0};
    if (n == VL)
        memcpy(&v, p, sizeof v);
    else
        for (int i = 0; i < n; i++)
            v[i] = p[i];
    return v;
}

static inline void store_first(float *p, int n, vec v) {
    if (n == VL)
        memcpy(p, &v, sizeof v);
    else
        for (int i = 0; i < n; i++)
            p[i] = v[i];
}

static inline vec relu_lanes(vec v) {
    for (int i = 0; i < VL; i++)
        v[i] = v[i] < 0 ? 0 : v[i];
    return v;
}

static inline vec sqrt_lanes(vec v) {
#if defined(__SSE__)
    return __builtin_ia32_sqrtps(v);
#else
    for (int i = 0; i < VL; i++)
        v[i] = sqrtf(v[i]);
    return v;
#endif
}

#include "kernels/cpu/micro_body.h"
#include "kernels/cpu/span_body.h"
#include "kernels/cpu/token_body.h"
#include "kernels/cpu/winograd_body.h"

static int usable(void) {
    return 1;
}

ISA_TABLE(isa_base, "base", usable);
