// SPDX-License-Identifier: Apache-2.0
// Whitening: eigenvectors against their definition, and filters whose outputs on the same patches
// are uncorrelated and of variance 1.
#include "nn/whiten.h"
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state = 12345;
static double unit(void) {
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 24);
}

// The largest part of A v - value v, and of v v' - 1, over all vectors.
static void test_eigen(int n, bool same) {
    double a[64], copy[64], value[8], v[64], worst = 0, apart = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++)
            a[i * n + k] = a[k * n + i] = same ? i == k : unit() - 0.5;
    memcpy(copy, a, sizeof copy);
    whiten_eigen(a, n, value, v);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            double sum = -value[i] * v[i * n + k], dot = i == k ? -1 : 0;
            for (int j = 0; j < n; j++) {
                sum += copy[k * n + j] * v[i * n + j];
                dot += v[i * n + j] * v[k * n + j];
            }
            worst = fmax(worst, fabs(sum));
            apart = fmax(apart, fabs(dot));
        }
    ok(worst < 1e-12 && apart < 1e-12, "eigenvectors of %d x %d are right: %.0e, %.0e", n, n, worst,
       apart);
    for (int i = 1; i < n; i++)
        if (value[i] > value[i - 1])
            fail("the largest eigenvalue is not first");
}

static void test_filters(void) {
    enum { H = 40, W = 30, P = 2, N = P * P * 3 };
    static const float mean[3] = {0.4f, 0.5f, 0.45f}, std[3] = {0.25f, 0.2f, 0.3f};
    uint8_t image[H * W * 3];
    float filters[2 * N * N];
    double apart = 0, worst = 0, minus = 0, sums[N][N] = {{0}}, products[N * N] = {0}, value[N],
           vectors[N * N];
    struct whiten w;
    for (int i = 0; i < H * W * 3; i++) // neighbours are alike
        image[i] = (uint8_t)(i < 3 ? 100 : (image[i - 3] * 3 + (int)(unit() * 255)) / 4);
    whiten_begin(&w, P, 3);
    whiten_add(&w, image, H, W, mean, std);
    is_int(w.patches, (H - 1) * (W - 1), "all patches are counted");
    whiten_filters(&w, filters);
    for (int top = 0; top + P <= H; top++)
        for (int left = 0; left + P <= W; left++) {
            double x[N], y[N] = {0};
            for (int i = 0; i < N; i++) {
                int at = ((top + i / (P * 3)) * W + left) * 3 + i % (P * 3), c = i % 3;
                x[i] = (image[at] / 255.0 - (double)mean[c]) / (double)std[c];
            }
            for (int f = 0; f < N; f++)
                for (int i = 0; i < N; i++) {
                    y[f] += (double)filters[f * N + i] * x[i];
                    products[f * N + i] += x[f] * x[i] / (double)w.patches;
                }
            for (int f = 0; f < N; f++)
                for (int g = 0; g < N; g++)
                    sums[f][g] += y[f] * y[g] / (double)w.patches;
        }
    whiten_eigen(products, N, value, vectors);
    for (int f = 0; f < N; f++)
        for (int g = 0; g < N; g++) {
            if (f == g)
                worst = fmax(worst, fabs(sums[f][f] - value[f] / (value[f] + 5e-4)));
            else
                apart = fmax(apart, fabs(sums[f][g]));
        }
    for (int i = 0; i < N * N; i++)
        minus = fmax(minus, fabs((double)(filters[N * N + i] + filters[i])));
    ok(apart < 1e-5, "outputs are uncorrelated: %.0e", apart);
    ok(worst < 1e-5, "outputs have variance 1 but for 5e-4 beside each eigenvalue: %.0e", worst);
    ok(minus <= 0, "each filter is there with the other sign");
    whiten_end(&w);
}

int main(void) {
    for (int n = 1; n <= 8; n++)
        test_eigen(n, false);
    test_eigen(4, true);
    test_filters();
    return done_testing();
}
