// SPDX-License-Identifier: Apache-2.0
// Computes the whitening filters from patches of images.
#include "nn/whiten.h"

#include "base/arena.h"
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SWEEPS_MAX = 100 };
static const double WHITEN_EPS = 5e-4; // added to each eigenvalue

void whiten_begin(struct whiten *w, int patch, int channels) {
    size_t size = (size_t)patch * (size_t)patch * (size_t)channels;
    must(size <= WHITEN_PATCH_MAX);
    *w = (struct whiten){.patch = patch,
                         .channels = channels,
                         .size = (int)size,
                         .sum = heap_alloc(size * size * sizeof(double))};
}

void whiten_end(struct whiten *w) {
    free(w->sum);
    *w = (struct whiten){0};
}

static void add_patch(struct whiten *w, const double *x) {
    size_t n = (size_t)w->size;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i; k < n; k++)
            w->sum[i * n + k] += x[i] * x[k];
    w->patches++;
}

void whiten_add(struct whiten *w, const uint8_t *image, int height, int width, const float *mean,
                const float *std) {
    size_t c = (size_t)w->channels, row = (size_t)width * c, across = (size_t)w->patch * c;
    double x[WHITEN_PATCH_MAX] = {0}, table[4][256];
    for (size_t k = 0; k < c; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = (b / 255.0 - (double)mean[k]) / (double)std[k];
    for (int top = 0; top + w->patch <= height; top++)
        for (int left = 0; left + w->patch <= width; left++) {
            const uint8_t *from = image + (size_t)top * row + (size_t)left * c;
            for (size_t y = 0; y < (size_t)w->patch; y++)
                for (size_t i = 0; i < across; i++)
                    x[y * across + i] = table[i % c][from[y * row + i]];
            add_patch(w, x);
        }
}

// Rotates rows and columns p and q so that a[p][q] becomes 0.
static void rotate(double *a, double *v, size_t n, size_t p, size_t q) {
    double apq = a[p * n + q], theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
    double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (size_t k = 0; k < n; k++) {
        double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (size_t k = 0; k < n; k++) {
        double x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
        x = v[p * n + k];
        y = v[q * n + k];
        v[p * n + k] = c * x - s * y;
        v[q * n + k] = s * x + c * y;
    }
}

static double off_diagonal(const double *a, size_t n) {
    double sum = 0;
    for (size_t p = 0; p < n; p++)
        for (size_t q = p + 1; q < n; q++)
            sum += a[p * n + q] * a[p * n + q];
    return sum;
}

static void sort_rows(double *value, double *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t most = i;
        for (size_t k = i + 1; k < n; k++)
            most = value[k] > value[most] ? k : most;
        double x = value[i];
        value[i] = value[most];
        value[most] = x;
        for (size_t k = 0; k < n; k++) {
            x = v[i * n + k];
            v[i * n + k] = v[most * n + k];
            v[most * n + k] = x;
        }
    }
}

// Jacobi's method of 1846: every rotation makes the part off the diagonal smaller.
void whiten_eigen(double *a, int n_, double *value, double *v) {
    size_t n = (size_t)n_;
    double all = 0;
    memset(v, 0, n * n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i * n + i] = 1;
    for (size_t i = 0; i < n * n; i++)
        all += a[i] * a[i];
    for (int sweep = 0; sweep < SWEEPS_MAX && off_diagonal(a, n) > 1e-30 * all; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                if (a[p * n + q] * a[p * n + q] > 1e-40 * all)
                    rotate(a, v, n, p, q);
    for (size_t i = 0; i < n; i++)
        value[i] = a[i * n + i];
    sort_rows(value, v, n);
}

void whiten_filters(const struct whiten *w, float *filters) {
    size_t n = (size_t)w->size;
    double *a = heap_alloc(n * n * sizeof *a), *v = heap_alloc(n * n * sizeof *v);
    double value[WHITEN_PATCH_MAX];
    must(w->patches > 0);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            a[i * n + k] = w->sum[i < k ? i * n + k : k * n + i] / (double)w->patches;
    whiten_eigen(a, w->size, value, v);
    for (size_t i = 0; i < n; i++) {
        double root = sqrt((value[i] > 0 ? value[i] : 0) + WHITEN_EPS);
        for (size_t k = 0; k < n; k++) {
            filters[i * n + k] = (float)(v[i * n + k] / root);
            filters[(n + i) * n + k] = -filters[i * n + k];
        }
    }
    free(a);
    free(v);
}
