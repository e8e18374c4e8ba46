// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd's convolution on single tiles, beside sums in double; and whether this
// comparison would notice a wrong constant: every coefficient is made wrong by a hundredth in turn.
#include "kernels/cpu/isa.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

// The instruction set of this test: definitions that winograd_body.h needs.
#define MR 4
#define VL 4
#define NR 8
#if TAP_SANITIZED // inlined everywhere, clang takes half a minute
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif
typedef float vec __attribute__((vector_size(16)));
typedef int vmask;
#define V_MASK(n)      (n)
#define V_SET1(x)      ((vec){(x), (x), (x), (x)})
#define V_FMA(a, b, c) ((a) * (b) + (c))

static int planted = -1; // the coefficient that is wrong; -1: none

static float coefficient(int site, float value) {
    return site == planted ? value * 1.01F : value;
}
enum { SITES_BEFORE = __COUNTER__ };
#define WG_ADD(factor, x, y)                                                                       \
    (V_SET1(coefficient(__COUNTER__ - SITES_BEFORE - 1, factor)) * (x) + (y))
#define WG_MUL(factor, x) (V_SET1(coefficient(__COUNTER__ - SITES_BEFORE - 1, factor)) * (x))

static vec V_LOAD(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void V_STORE(float *p, vec v) {
    memcpy(p, &v, sizeof v);
}

static vec load_part(const float *p, int whole, vmask mask) {
    (void)whole, (void)mask; // every tile here has whole vectors
    return V_LOAD(p);
}

static void store_vec(const struct tile_out *o, float *c, const float *bias, vec acc, int whole,
                      vmask mask) {
    (void)o, (void)bias, (void)whole, (void)mask;
    V_STORE(c, acc);
}

#include "kernels/cpu/winograd_body.h"

enum { SITES = __COUNTER__ - SITES_BEFORE - 1, TILES = 20 };

// Three matrices turn a filter, pixels and their products into outputs. An error of rounding grows
// by at most the product of their sums of sizes, along both axes: 27.4 for four outputs, 19.5 for
// three, 33.1 for a filter's gradient. No number is rounded more than ten times on its way.
static const double GROWTH = 33.2 * 33.2, ROUNDINGS = 10, UNIT = 1.0 / (1 << 24);

struct tile {
    float pixel[36][VL], other[16][VL]; // other: taps [3][3], or gradients [ny - 2][nx - 2]
    float at_points[2][36][VL], out[16][VL];
};

static void to_planes(struct tile *t, enum winograd_in_kind kind, int ny, int nx) {
    int source = kind == WINOGRAD_SOURCE, width = kind == WINOGRAD_GRAD ? nx - 2 : source ? nx : 3;
    int count = (kind == WINOGRAD_GRAD ? ny - 2 : source ? ny : 3) * width;
    float(*from)[VL] = source ? t->pixel : t->other;
    struct winograd_in in = {.kind = kind, .ny = ny, .nx = nx, .channels = VL, .plane = VL};
    for (int i = 0; i < count; i++) {
        int place = 6 * (i / width) + i % width;
        in.at[place] = in.soon[place] = from[i];
    }
    for (int k = 0; k < winograd_classes; k++)
        in.out[k] = t->at_points[!source][0];
    winograd_to_points(&in);
}

// Outputs of a tile, or the gradient of its taps, into t->out [rows][cols].
static void by_points(struct tile *t, int weight, int ny, int nx) {
    int rows = weight ? 3 : ny - 2, cols = weight ? 3 : nx - 2;
    to_planes(t, WINOGRAD_SOURCE, ny, nx);
    to_planes(t, weight ? WINOGRAD_GRAD : WINOGRAD_FILTER, ny, nx);
    for (int p = 0; p < 36; p++)
        for (int l = 0; l < VL; l++) // a weight gradient adds nothing at points that a tile lacks
            t->at_points[0][p][l] =
                p / 6 < ny && p % 6 < nx ? t->at_points[0][p][l] * t->at_points[1][p][l] : 0;
    struct winograd_out out = {.ny = ny, .nx = nx, .channels = VL, .plane = VL};
    out.kind = weight ? WINOGRAD_FILTER_GRAD : WINOGRAD_RESULT;
    for (int k = 0; k < winograd_classes; k++)
        out.from[k] = t->at_points[0][0];
    for (int i = 0; i < rows * cols; i++)
        out.at[4 * (i / cols) + i % cols] = t->out[i];
    winograd_from_points(&out);
}

// The largest difference from the definition, of one random tile.
static double error_of(int weight, int ny, int nx) {
    struct tile t = {0};
    double worst = 0;
    int rows = weight ? 3 : ny - 2, cols = weight ? 3 : nx - 2;
    int high = weight ? ny - 2 : 3, wide = weight ? nx - 2 : 3; // of `other`
    for (int i = 0; i < 36 * VL; i++)
        t.pixel[i / VL][i % VL] = random_float();
    for (int i = 0; i < 16 * VL; i++)
        t.other[i / VL][i % VL] = random_float();
    by_points(&t, weight, ny, nx);
    for (int i = 0; i < rows * cols * VL; i++) {
        int y = i / VL / cols, x = i / VL % cols, l = i % VL;
        double sum = 0;
        for (int j = 0; j < high * wide; j++)
            sum += (double)t.pixel[(y + j / wide) * nx + x + j % wide][l] * (double)t.other[j][l];
        double d = fabs((double)t.out[i / VL][l] - sum);
        worst = d <= worst ? worst : d; // a NaN counts
    }
    return worst;
}

static double worst_error(int weight) {
    double worst = 0;
    for (int i = 0; i < TILES; i++) {
        double d = error_of(weight, 6 - i % 2, 6 - i / 2 % 2);
        worst = d <= worst ? worst : d;
    }
    return worst;
}

int main(void) {
    const double bound = GROWTH * ROUNDINGS * UNIT;
    double forward = worst_error(0), weight = worst_error(1);
    ok(forward < bound, "outputs of tiles: %.1e, at most %.1e", forward, bound);
    ok(weight < bound, "gradients of taps: %.1e, at most %.1e", weight, bound);
    int missed = 0;
    for (planted = 0; planted < SITES; planted++)
        if (worst_error(0) < bound && worst_error(1) < bound) {
            diag("coefficient %d may be wrong and is not noticed", planted);
            missed++;
        }
    ok(SITES > 50, "the transforms have %d coefficients", SITES);
    is_int(missed, 0, "each of them is noticed when it is wrong by a hundredth");
    return done_testing();
}
