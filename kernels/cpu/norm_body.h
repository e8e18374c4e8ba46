// SPDX-License-Identifier: Apache-2.0
// Column sums and batch norm over a few rows of numbers of one type, which are widened when they
// are read and rounded when they are written; included by span_body.h with NUM, NORM, NUM_GET and
// NUM_PUT, which it undefines. Not a header to include anywhere else.

#ifdef NUM

static void NORM(column_sums)(int64_t rows, int cols, const void *from, float *sum) {
    const NUM *x = from;
    for (int c = 0; c < cols; c++)
        sum[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const NUM *a = x + r * cols, *b = a + cols, *d = b + cols, *e = d + cols;
        VECTOR for (int c = 0; c < cols; c++) sum[c] +=
            (NUM_GET(a[c]) + NUM_GET(b[c])) + (NUM_GET(d[c]) + NUM_GET(e[c]));
    }
    for (; r < rows; r++)
        VECTOR for (int c = 0; c < cols; c++) sum[c] += NUM_GET(x[r * cols + c]);
}

// Two passes over a block that is still in the cache: no cancellation.
static void NORM(column_moments)(int64_t rows, int cols, const void *from, float *mean, float *m2) {
    const NUM *x = from;
    NORM(column_sums)(rows, cols, from, mean);
    for (int c = 0; c < cols; c++) {
        mean[c] /= (float)rows;
        m2[c] = 0;
    }
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const NUM *a = x + r * cols, *b = a + cols, *d = b + cols, *e = d + cols;
        VECTOR for (int c = 0; c < cols; c++) {
            float m = mean[c], da = NUM_GET(a[c]) - m, db = NUM_GET(b[c]) - m;
            float dd = NUM_GET(d[c]) - m, de = NUM_GET(e[c]) - m;
            m2[c] += (da * da + db * db) + (dd * dd + de * de);
        }
    }
    for (; r < rows; r++)
        VECTOR for (int c = 0; c < cols; c++) {
            float d = NUM_GET(x[r * cols + c]) - mean[c];
            m2[c] += d * d;
        }
}

// out = (x - mean) * scale + shift (+ residual) (then ReLU).
static void NORM(bn_apply)(const struct bn_span *s) {
    const float *mean = s->mean, *scale = s->scale, *shift = s->shift;
    const float floor = s->relu ? 0 : -INFINITY;
    for (int64_t r = 0; r < s->rows; r++) {
        const NUM *x = (const NUM *)s->x + r * s->cols;
        NUM *out = (NUM *)s->out + r * s->cols;
        if (s->residual) {
            const NUM *res = (const NUM *)s->residual + r * s->cols;
            VECTOR for (int c = 0; c < s->cols; c++) {
                float v = (NUM_GET(x[c]) - mean[c]) * scale[c] + shift[c] + NUM_GET(res[c]);
                out[c] = NUM_PUT(v < floor ? floor : v);
            }
        } else {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float v = (NUM_GET(x[c]) - mean[c]) * scale[c] + shift[c];
                out[c] = NUM_PUT(v < floor ? floor : v);
            }
        }
    }
}

// out = sum of dz, out2 = sum of dz * (x - mean), down the columns of this block.
static void NORM(bn_grad_sums)(const struct bn_span *s) {
    float *sum = s->out, *dot = s->out2;
    const float *mean = s->mean;
    for (int c = 0; c < s->cols; c++)
        sum[c] = dot[c] = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        const NUM *x = (const NUM *)s->x + r * s->cols, *dy = (const NUM *)s->dy + r * s->cols;
        if (s->relu) {
            const NUM *y = (const NUM *)s->y + r * s->cols;
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = NUM_GET(y[c]) > 0 ? NUM_GET(dy[c]) : 0;
                sum[c] += dz;
                dot[c] += dz * (NUM_GET(x[c]) - mean[c]);
            }
        } else {
            VECTOR for (int c = 0; c < s->cols; c++) {
                sum[c] += NUM_GET(dy[c]);
                dot[c] += NUM_GET(dy[c]) * (NUM_GET(x[c]) - mean[c]);
            }
        }
    }
}

// out = scale * (dz - shift - (x - mean) * slope); out2 = dz if there is an out2.
static void NORM(bn_grad_apply)(const struct bn_span *s) {
    const float *mean = s->mean, *scale = s->scale, *shift = s->shift, *slope = s->slope;
    for (int64_t r = 0; r < s->rows; r++) {
        const NUM *x = (const NUM *)s->x + r * s->cols, *dy = (const NUM *)s->dy + r * s->cols;
        const NUM *y = s->relu ? (const NUM *)s->y + r * s->cols : NULL;
        NUM *out = (NUM *)s->out + r * s->cols;
        NUM *out2 = s->out2 ? (NUM *)s->out2 + r * s->cols : NULL;
        if (y && out2) {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = NUM_GET(y[c]) > 0 ? NUM_GET(dy[c]) : 0;
                out[c] = NUM_PUT(scale[c] * (dz - shift[c] - (NUM_GET(x[c]) - mean[c]) * slope[c]));
                out2[c] = NUM_PUT(dz);
            }
        } else if (y) {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = NUM_GET(y[c]) > 0 ? NUM_GET(dy[c]) : 0;
                out[c] = NUM_PUT(scale[c] * (dz - shift[c] - (NUM_GET(x[c]) - mean[c]) * slope[c]));
            }
        } else {
            VECTOR for (int c = 0; c < s->cols; c++) {
                float dz = NUM_GET(dy[c]);
                out[c] = NUM_PUT(scale[c] * (dz - shift[c] - (NUM_GET(x[c]) - mean[c]) * slope[c]));
                if (out2)
                    out2[c] = NUM_PUT(dz);
            }
        }
    }
}

#undef NUM
#undef NORM
#undef NUM_GET
#undef NUM_PUT
#endif
