// SPDX-License-Identifier: Apache-2.0
// Transforms of Winograd's convolution for one instruction set; included by isa_*.c after
// micro_body.h. The points are 0, a, -a, b, infinity, -b, and the first five for the smaller tiles:
// both sizes share the values of a filter. Winograd (1980), Lavin and Gray (2016); a = 3/4 and
// b = 3/2 lose a quarter of the digits that 1 and 2 lose, and all their products are exact.
// Not a header to include anywhere else.

#ifdef MR

// The norm of a point, the product of its distances to the others of six, divides the filter on
// the way in and the filter's gradient on the way out.
#define WG_A      0.75F
#define WG_B      1.5F
#define WG_A2     (WG_A * WG_A)
#define WG_B2     (WG_B * WG_B)
#define WG_NORM_0 (WG_A2 * WG_B2)
#define WG_NORM_A (2 * WG_A2 * (WG_A2 - WG_B2))
#define WG_NORM_B (2 * WG_B2 * (WG_B2 - WG_A2))
#ifndef WG_ADD // a test counts these places and makes each of them wrong
#define WG_ADD(factor, x, y) V_FMA(V_SET1(factor), x, y)
#define WG_MUL(factor, x)    (V_SET1(factor) * (x))
#endif

INLINE void source_six(const vec *d, vec *v) {
    vec even_a = WG_ADD(-WG_B2, d[2], d[4]), odd_a = WG_ADD(-WG_B2, d[1], d[3]);
    vec even_b = WG_ADD(-WG_A2, d[2], d[4]), odd_b = WG_ADD(-WG_A2, d[1], d[3]);
    v[0] = WG_ADD(WG_NORM_0, d[0], WG_ADD(-(WG_A2 + WG_B2), d[2], d[4]));
    v[1] = WG_ADD(WG_A, odd_a, even_a);
    v[2] = WG_ADD(-WG_A, odd_a, even_a);
    v[3] = WG_ADD(WG_B, odd_b, even_b);
    v[4] = WG_ADD(WG_NORM_0, d[1], WG_ADD(-(WG_A2 + WG_B2), d[3], d[5]));
    v[5] = WG_ADD(-WG_B, odd_b, even_b);
}

// Each value times its point + b, which is what the norms of six points have more than those of
// five.
INLINE void source_five(const vec *d, vec *v) {
    vec low = WG_ADD(-WG_A2, d[0], d[2]), high = WG_ADD(-WG_A2, d[1], d[3]);
    vec lean = WG_ADD(-WG_A * WG_B, d[1], d[3]), fat = WG_ADD(WG_A * WG_B, d[1], d[3]);
    v[0] = WG_ADD(-WG_B2, low, WG_MUL(WG_B, high));
    v[1] = WG_MUL(WG_A + WG_B, WG_ADD(WG_A - WG_B, d[2], lean));
    v[2] = WG_MUL(WG_B - WG_A, WG_ADD(-(WG_A + WG_B), d[2], fat));
    v[3] = WG_MUL(2 * WG_B, high);
    v[4] = WG_ADD(-WG_B, high, WG_ADD(-WG_A2, d[2], d[4]));
}

INLINE void grad_four(const vec *d, vec *v) {
    vec even_a = WG_ADD(WG_A2, d[2], d[0]), odd_a = WG_ADD(WG_A2, d[3], d[1]);
    vec even_b = WG_ADD(WG_B2, d[2], d[0]), odd_b = WG_ADD(WG_B2, d[3], d[1]);
    v[0] = d[0];
    v[1] = WG_ADD(WG_A, odd_a, even_a);
    v[2] = WG_ADD(-WG_A, odd_a, even_a);
    v[3] = WG_ADD(WG_B, odd_b, even_b);
    v[4] = d[3];
    v[5] = WG_ADD(-WG_B, odd_b, even_b);
}

INLINE void grad_three(const vec *d, vec *v) {
    vec even = WG_ADD(WG_A2, d[2], d[0]);
    v[0] = d[0];
    v[1] = WG_ADD(WG_A, d[1], even);
    v[2] = WG_ADD(-WG_A, d[1], even);
    v[3] = WG_ADD(WG_B, d[1], WG_ADD(WG_B2, d[2], d[0]));
    v[4] = d[2];
}

INLINE void filter_three(const vec *d, vec *v) {
    vec even_a = WG_MUL(1 / WG_NORM_A, WG_ADD(WG_A2, d[2], d[0]));
    vec even_b = WG_MUL(1 / WG_NORM_B, WG_ADD(WG_B2, d[2], d[0]));
    v[0] = WG_MUL(1 / WG_NORM_0, d[0]);
    v[1] = WG_ADD(WG_A / WG_NORM_A, d[1], even_a);
    v[2] = WG_ADD(-WG_A / WG_NORM_A, d[1], even_a);
    v[3] = WG_ADD(WG_B / WG_NORM_B, d[1], even_b);
    v[4] = d[2];
    v[5] = WG_ADD(-WG_B / WG_NORM_B, d[1], even_b);
}

INLINE void result_four(const vec *v, vec *y) {
    vec sum_a = v[1] + v[2], difference_a = v[1] - v[2];
    vec sum_b = v[3] + v[5], difference_b = v[3] - v[5];
    y[0] = v[0] + (sum_a + sum_b);
    y[1] = WG_ADD(WG_B, difference_b, WG_MUL(WG_A, difference_a));
    y[2] = WG_ADD(WG_B2, sum_b, WG_MUL(WG_A2, sum_a));
    y[3] = WG_ADD(WG_B2 * WG_B, difference_b, WG_ADD(WG_A2 * WG_A, difference_a, v[4]));
}

INLINE void result_three(const vec *v, vec *y) {
    vec sum = v[1] + v[2], difference = v[1] - v[2];
    y[0] = v[0] + (sum + v[3]);
    y[1] = WG_ADD(WG_B, v[3], WG_MUL(WG_A, difference));
    y[2] = WG_ADD(WG_B2, v[3], WG_ADD(WG_A2, sum, v[4]));
}

INLINE void filter_grad_three(const vec *v, vec *y) {
    vec sum_a = v[1] + v[2], difference_a = v[1] - v[2];
    vec sum_b = v[3] + v[5], difference_b = v[3] - v[5];
    y[0] = WG_ADD(1 / WG_NORM_B, sum_b, WG_ADD(1 / WG_NORM_A, sum_a, WG_MUL(1 / WG_NORM_0, v[0])));
    y[1] = WG_ADD(WG_B / WG_NORM_B, difference_b, WG_MUL(WG_A / WG_NORM_A, difference_a));
    y[2] = WG_ADD(WG_B2 / WG_NORM_B, sum_b, WG_ADD(WG_A2 / WG_NORM_A, sum_a, v[4]));
}

INLINE void to_points(const enum winograd_in_kind kind, const int points, const vec *d, vec *v) {
    if (kind == WINOGRAD_FILTER)
        filter_three(d, v);
    else if (kind == WINOGRAD_SOURCE && points == 6)
        source_six(d, v);
    else if (kind == WINOGRAD_SOURCE)
        source_five(d, v);
    else if (points == 6)
        grad_four(d, v);
    else
        grad_three(d, v);
}

INLINE void from_points(const enum winograd_out_kind kind, const int points, const vec *v, vec *y) {
    if (kind == WINOGRAD_FILTER_GRAD)
        filter_grad_three(v, y);
    else if (points == 6)
        result_four(v, y);
    else
        result_three(v, y);
}

// Columns first, then rows. The pixels of a tile lie too far apart for a processor to foresee them:
// those of the next tile are fetched meanwhile, which halves the time.
INLINE void winograd_in_n(const struct winograd_in *t, const enum winograd_in_kind kind,
                          const int ny, const int nx) {
    const int rows = kind == WINOGRAD_FILTER ? 3 : kind == WINOGRAD_GRAD ? ny - 2 : ny;
    const int cols = kind == WINOGRAD_FILTER ? 3 : kind == WINOGRAD_GRAD ? nx - 2 : nx;
    for (int c = 0; c < t->channels; c += VL) {
        int whole = t->channels - c >= VL;
        vmask tail = V_MASK(whole ? VL : t->channels - c);
        ptrdiff_t to = c / NR * t->panel + c % NR;
        vec mid[6][6];
#pragma GCC unroll 6
        for (int x = 0; x < cols; x++) {
            vec d[6], v[6];
#pragma GCC unroll 6
            for (int y = 0; y < rows; y++) {
                d[y] = load_part(t->at[6 * y + x] + c, whole, tail);
                if (kind != WINOGRAD_FILTER)
                    __builtin_prefetch(t->soon[6 * y + x] + c);
            }
            to_points(kind, ny, d, v);
#pragma GCC unroll 6
            for (int i = 0; i < ny; i++)
                mid[i][x] = v[i];
        }
#pragma GCC unroll 6
        for (int i = 0; i < ny; i++) {
            vec v[6];
            to_points(kind, nx, mid[i], v);
#pragma GCC unroll 6
            for (int j = 0; j < nx; j++)
                V_STORE(t->out[(i == 5) + 2 * (j == 5)] + (6 * i + j) * t->plane + to, v[j]);
        }
    }
}

INLINE void winograd_out_n(const struct winograd_out *t, const enum winograd_out_kind kind,
                           const int ny, const int nx) {
    const int rows = kind == WINOGRAD_FILTER_GRAD ? 3 : ny - 2;
    const int cols = kind == WINOGRAD_FILTER_GRAD ? 3 : nx - 2;
    for (int c = 0; c < t->channels; c += VL) {
        int whole = t->channels - c >= VL;
        vmask tail = V_MASK(whole ? VL : t->channels - c);
        struct tile_out out = {.alpha = 1, .beta = t->accumulate ? 1 : 0, .relu = t->relu};
        vec mid[6][6];
#pragma GCC unroll 6
        for (int j = 0; j < nx; j++) {
            vec v[6], y[4];
#pragma GCC unroll 6
            for (int i = 0; i < ny; i++)
                v[i] = V_LOAD(t->from[(i == 5) + 2 * (j == 5)] + (6 * i + j) * t->plane + c);
            from_points(kind, ny, v, y);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++)
                mid[i][j] = y[i];
        }
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            vec y[4];
            from_points(kind, nx, mid[i], y);
#pragma GCC unroll 6
            for (int j = 0; j < cols; j++)
                if (t->at[4 * i + j])
                    store_vec(&out, t->at[4 * i + j] + c, t->bias ? t->bias + c : NULL, y[j], whole,
                              tail);
        }
    }
}

#define WG_SIZES(way, kind)                                                                        \
    do {                                                                                           \
        if (t->ny == 6 && t->nx == 6)                                                              \
            way(t, kind, 6, 6);                                                                    \
        else if (t->ny == 6)                                                                       \
            way(t, kind, 6, 5);                                                                    \
        else if (t->nx == 6)                                                                       \
            way(t, kind, 5, 6);                                                                    \
        else                                                                                       \
            way(t, kind, 5, 5);                                                                    \
    } while (0)

static void winograd_to_points(const struct winograd_in *t) {
    if (t->kind == WINOGRAD_FILTER)
        winograd_in_n(t, WINOGRAD_FILTER, 6, 6);
    else if (t->kind == WINOGRAD_SOURCE)
        WG_SIZES(winograd_in_n, WINOGRAD_SOURCE);
    else
        WG_SIZES(winograd_in_n, WINOGRAD_GRAD);
}

static void winograd_from_points(const struct winograd_out *t) {
    if (t->kind == WINOGRAD_FILTER_GRAD)
        winograd_out_n(t, WINOGRAD_FILTER_GRAD, 6, 6);
    else
        WG_SIZES(winograd_out_n, WINOGRAD_RESULT);
}

#endif
