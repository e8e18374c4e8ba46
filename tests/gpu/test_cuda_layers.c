// SPDX-License-Identifier: Apache-2.0
// Pooling, loss, images, tokens and attention of kernels/cuda against the reference.
#include "tests/gpu/cuda_case.h"

// ---- pooling ----------------------------------------------------------------------------------
static void maxpool_case(struct pool2d_shape s) {
    int oh = kernel_conv_out(s.h, s.k, s.stride, s.pad);
    int ow = kernel_conv_out(s.w, s.k, s.stride, s.pad);
    size_t nx = (size_t)s.n * s.h * s.w * s.c, ny = (size_t)s.n * oh * ow * s.c;
    s.store = test.store;
    case_begin(0);
    float *x = host_random(nx), *y = host_random(ny), *dx = host_random(nx);
    float *dy = host_tensor(s.store, ny);
    uint8_t *index = host_bytes(ny);
    for (size_t i = 0; i < nx; i++)
        x[i] = rintf(x[i] * 4); // equals: the first one wins
    if (nx > 20)
        x[nx / 2] = NAN;
    struct pool2d_shape plain = s;
    plain.store = KERNEL_FLOAT;
    void *d_y = device_room(s.store, ny), *d_dx = device_room(s.store, nx);
    uint8_t *d_index = device_empty(ny);
    cuda_maxpool_forward(&test.queue, &s, device_tensor(s.store, x, nx), d_y, d_index);
    REFERENCE(maxpool_forward, &plain, x, y, index);
    case_tensor(s.store, d_y, y, NULL, ny, 0, "max pool");
    is_int(memcmp(device_bytes(d_index, ny), index, ny), 0, "max pool: indexes");
    cuda_maxpool_backward(&test.queue, &s, device_tensor(s.store, dy, ny), d_index, d_dx);
    REFERENCE(maxpool_backward, &plain, dy, index, dx);
    for (size_t i = 0; i < nx; i++)
        x[i] = (float)(s.k * s.k); // terms may cancel
    case_tensor(s.store, d_dx, dx, x, nx, roundings(s.k * s.k), "max pool: gradient");
    case_end();
}

static void pools(void) {
    enum kernel_type store = test.store;
    maxpool_case((struct pool2d_shape){2, 8, 8, 8, 3, 2, 1, 0});
    maxpool_case((struct pool2d_shape){1, 5, 7, 3, 2, 2, 0, 0});
    maxpool_case((struct pool2d_shape){1, 1, 1, 1, 1, 1, 0, 0});
    maxpool_case((struct pool2d_shape){1, 9, 6, 2, 2, 3, 0, 0}); // windows with gaps between
    maxpool_case((struct pool2d_shape){1, 6, 6, 5, 5, 1, 2, 0});
    maxpool_case((struct pool2d_shape){1, 14, 15, 2, 11, 3, 4, 0});
    maxpool_case((struct pool2d_shape){1, 10, 11, 3, 9, 1, 4, 0});
    static const int sizes[] = {1, 25, 49, 8, 15, 3};
    for (int i = 0; i < 6; i++) {
        int n = i + 1, hw = sizes[i], c = 10 - i;
        size_t nx = (size_t)n * hw * c, ny = (size_t)n * c;
        case_begin(0);
        float *x = host_tensor(store, nx), *y = host_random(ny), *dx = host_random(nx);
        void *d_y = device_room(store, ny), *d_dx = device_room(store, nx);
        cuda_avgpool_forward(&test.queue, store, n, hw, c, device_tensor(store, x, nx), d_y);
        REFERENCE(avgpool_forward, n, hw, c, x, y);
        case_tensor(store, d_y, y, NULL, ny, roundings(2), "average pool");
        host_rounded(store, y, ny);
        cuda_avgpool_backward(&test.queue, store, n, hw, c, device_tensor(store, y, ny), d_dx);
        REFERENCE(avgpool_backward, n, hw, c, y, dx);
        case_tensor(store, d_dx, dx, NULL, nx, roundings(2), "average pool: gradient");
        case_end();
    }
}
static void pool(void) {
    case_stores(pools);
}

// ---- loss -------------------------------------------------------------------------------------
enum { XENT_NAN = 1, XENT_NAN_ROW, XENT_EVAL = 4, XENT_SCALED = 8 };
static void xent_case(int rows, int classes, double smoothing, int variant) {
    int broken = variant & 3;
    size_t n = (size_t)rows * (size_t)classes;
    case_begin(0);
    float *z = host_random(n), *dz = host_random(n), *size = host_random(n);
    int32_t *labels = host_bytes((size_t)rows * sizeof *labels);
    for (size_t i = 0; i < n; i++)
        z[i] = rintf(z[i] * 20) / 2; // with equal ones
    for (int i = 0; i < rows; i++) {
        labels[i] = (i * 7 + 3) % classes;
        for (int k = 0; i > 2 && k < i % 7; k++) // so many are larger, or equal and earlier
            z[(size_t)i * classes + (labels[i] + 37 * (k + 1)) % classes] = k % 2 ? 22 : 21;
        if (i > 2)
            z[(size_t)i * classes + labels[i]] = 21;
    }
    if (broken == XENT_NAN)
        z[n / 2] = NAN;
    if (broken == XENT_NAN_ROW) // every class of a row, that of the label too
        for (int j = 0; j < classes; j++)
            z[j] = NAN;
    struct loss_totals want, *d = device_empty(sizeof want), got;
    struct softmax_xent_args a = {rows, classes, z, labels, smoothing, 1.0 / rows, dz, NULL},
                             at = a;
    at.logits = at.dlogits = device_floats(z, n);
    at.labels = device_copy(labels, (size_t)rows * sizeof *labels);
    if (variant & XENT_EVAL)
        at.dlogits = NULL, memcpy(dz, z, n * sizeof *z), a.dlogits = size;
    struct kernel_step step = {.loss_scale = 4};
    if (variant & XENT_SCALED)
        at.step = device_copy(&step, sizeof step), at.grad_scale /= step.loss_scale;
    cuda_softmax_xent(&test.queue, &at, d);
    REFERENCE(softmax_xent, &a, &want);
    memcpy(&got, device_bytes(d, sizeof got), sizeof got);
    for (size_t i = 0; i < n; i++)
        size[i] = (float)((fabs((double)dz[i] * rows) + 1) / rows);
    // exp(z - max) has the roundings of z - max, at most 20 units, and of exp itself
    if (!broken)
        case_close(at.logits, dz, size, n, roundings(classes / 32 + 32), "loss: gradient");
    ok(got.top1 == want.top1 && got.top5 == want.top5 && got.rows == want.rows,
       "loss: %d, %d of %d are right", (int)want.top1, (int)want.top5, rows);
    ok(broken ? isnan(got.loss_sum)
              : fabs(got.loss_sum - want.loss_sum) <=
                    (20 * rows + fabs(want.loss_sum)) * roundings(classes / 32 + 8),
       "loss: wrong result unless %g is %g", got.loss_sum, want.loss_sum);
    case_end();
}

static void loss(void) {
    xent_case(1, 2, 0, 0), xent_case(9, 10, 0.1, 0), xent_case(300, 5, 0, 0);
    xent_case(17, 100, 0.2, 0), xent_case(4, 10, 0, XENT_NAN);
    xent_case(4, 10, 0, XENT_NAN_ROW), xent_case(4, 2, 0, XENT_NAN_ROW);
    xent_case(9, 20, 0.1, XENT_EVAL), xent_case(9, 20, 0.1, XENT_SCALED);
    xent_case(2300, 11, 0.1, 0), xent_case(40, 291, 0.1, 0); // loops that run several times
}

static void image_case(int moved, int flips, int reflect) {
    enum { N = 3, H = 7, W = 5, C = 3, TO_H = 6, TO_W = 8 };
    case_begin(0);
    uint8_t *bytes = host_bytes(N * H * W * C), flip[N] = {0, 1, 1};
    int16_t top[N] = {-2, 0, 3}, left[N] = {1, -4, 0};
    const uint8_t *src[N], *d_src[N];
    float *out = host_random(N * TO_H * TO_W * C), *d_out;
    for (int i = 0; i < N * H * W * C; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (int i = 0; i < N; i++) {
        src[i] = bytes + i * H * W * C;
        d_src[i] = device_copy(src[i], H * W * C);
    }
    struct image_args a = {.n = N,
                           .src_h = H,
                           .src_w = W,
                           .channels = C,
                           .dst_h = TO_H,
                           .dst_w = TO_W,
                           .src = src,
                           .offset_y = moved ? top : NULL,
                           .offset_x = moved ? left : NULL,
                           .flip = flips ? flip : NULL,
                           .reflect = reflect,
                           .mean = {0.5, 0.4, 0.3},
                           .std = {0.25, 0.2, 0.3},
                           .out = out},
                      d = a;
    d.src = device_copy(d_src, sizeof d_src);
    d.offset_y = moved ? device_copy(top, sizeof top) : NULL;
    d.offset_x = moved ? device_copy(left, sizeof left) : NULL;
    d.flip = flips ? device_copy(flip, sizeof flip) : NULL;
    d.out = d_out = device_empty(N * TO_H * TO_W * C * sizeof *out);
    cuda_image_normalize(&test.queue, &d);
    REFERENCE(image_normalize, &a);
    float *size = host_bytes(N * TO_H * TO_W * C * sizeof *size);
    for (int i = 0; i < N * TO_H * TO_W * C; i++)
        size[i] = 5; // the largest of either term
    case_close(d_out, out, size, N * TO_H * TO_W * C, roundings(3), "images");
    case_end();
}
static void image(void) {
    image_case(1, 1, 0), image_case(0, 1, 0), image_case(1, 0, 0), image_case(0, 0, 0);
    image_case(1, 1, 1);
}

// ---- tokens and attention ---------------------------------------------------------------------
static void tokens_case(struct tokens_shape s, int first, int pos, int accumulate) {
    int t = s.p + first;
    size_t nx = (size_t)s.n * s.p * s.d, ny = (size_t)s.n * t * s.d, w = (size_t)s.d;
    size_t places = (size_t)t * s.d;
    struct tokens_shape plain = s;
    enum kernel_type store = s.store = test.store;
    case_begin(0);
    float *x = host_tensor(store, nx), *y = host_random(ny), *head = host_random(w);
    float *place = host_random(places), *dx = host_random(nx);
    void *d_y = device_room(store, ny), *d_dx = device_room(store, nx);
    void *d_head = first ? device_floats(head, w) : NULL;
    void *d_place = pos ? device_floats(place, places) : NULL;
    cuda_tokens_forward(&test.queue, &s, device_tensor(store, x, nx), d_head, d_place, d_y);
    REFERENCE(tokens_forward, &plain, x, first ? head : NULL, pos ? place : NULL, y);
    case_tensor(store, d_y, y, NULL, ny, 0, "tokens");
    host_rounded(store, y, ny);
    cuda_tokens_backward(&test.queue, &s, d_y, d_dx, d_head, d_place, accumulate);
    REFERENCE(tokens_backward, &plain, y, dx, first ? head : NULL, pos ? place : NULL, accumulate);
    case_tensor(store, d_dx, dx, NULL, nx, 0, "tokens: dx");
    if (first)
        case_close(d_head, head, NULL, w, roundings(1), "tokens: class token");
    if (pos)
        case_close(d_place, place, NULL, places, roundings(1), "tokens: positions");
    float *one = host_random((size_t)s.n * s.d);
    void *d_one = device_room(store, (size_t)s.n * s.d);
    cuda_first_token_forward(&test.queue, store, s.n, t, s.d, d_y, d_one);
    REFERENCE(first_token_forward, s.n, t, s.d, y, one);
    case_tensor(store, d_one, one, NULL, (size_t)s.n * s.d, 0, "first token");
    cuda_first_token_backward(&test.queue, store, s.n, t, s.d, d_one, d_y);
    REFERENCE(first_token_backward, s.n, t, s.d, one, y);
    case_tensor(store, d_y, y, NULL, ny, 0, "first token: gradient");
    case_end();
}

static void all_tokens(void) {
    tokens_case((struct tokens_shape){2, 5, 12, 0}, 1, 1, 0);
    tokens_case((struct tokens_shape){3, 4, 33, 0}, 1, 0, 1);
    tokens_case((struct tokens_shape){1, 1, 1, 0}, 0, 1, 1);
    tokens_case((struct tokens_shape){4, 9, 40, 0}, 0, 1, 0);
    tokens_case((struct tokens_shape){13, 3, 40, 0}, 1, 1, 1);
}
static void tokens(void) {
    case_stores(all_tokens);
}

// Inputs are below 1: a score is below sqrt(d), off by at most d roundings of that; so are
// probabilities, whose relative error is that of the score. Sums are convex, or over t such terms.
// `opposed` queries and keys have scores of about -`opposed`.
static void attention_case(struct attention_shape s, int opposed) {
    char what[96];
    int keys = s.keys ? s.keys : s.t;
    size_t row = (size_t)s.heads * s.d, ny = ((size_t)s.n * s.t) * row;
    size_t n = (size_t)s.n * (size_t)(s.t + 2 * keys) * row, nl = (size_t)s.n * s.heads * s.t;
    double score = (sqrt((double)s.d) + opposed) * (s.d + 4) * CASE_UNIT;
    struct attention_shape plain = s;
    enum kernel_type store = s.store = test.store;
    case_begin(cuda_attention_workspace(&s));
    float *qkv = host_random(n), *y = host_random(ny), *d = host_random(n);
    float *dy = host_tensor(store, ny);
    float *lse = host_random(nl), *size = host_random(n), *one = host_random(n);
    for (size_t i = 0; i < n; i++) {
        size_t part = s.keys ? (i < ny ? 0 : 1 + (i - ny) / row % 2) : i / row % 3;
        one[i] = 1, size[i] = (float)((part ? s.t : 1) * 4 * (sqrt((double)s.d) + opposed));
        if (opposed && part < 2)
            qkv[i] = part ? -1 : (float)(opposed / sqrt((double)s.d));
    }
    host_rounded(store, qkv, n);
    void *d_qkv = device_tensor(store, qkv, n), *d_y = device_room(store, ny);
    void *d_lse = device_empty(nl * sizeof *lse), *d_d = device_room(store, n);
    cuda_attention_forward(&test.queue, &s, d_qkv, d_y, d_lse);
    REFERENCE(attention_forward, &plain, qkv, y, lse);
    int at = snprintf(what, sizeof what, "attention %d x %d x %d x %d, %d keys: ", s.n, s.t,
                      s.heads, s.d, s.keys);
    snprintf(what + at, sizeof what - (size_t)at, "y");
    case_tensor(store, d_y, y, one, ny, 2 * score + roundings(keys), what);
    snprintf(what + at, sizeof what - (size_t)at, "logarithms of sums");
    case_close(d_lse, lse, one, nl, score + roundings(keys + 8), what);
    d_y = device_tensor(store, host_rounded(store, y, ny), ny);
    cuda_attention_backward(&test.queue, &s, d_qkv, d_y, d_lse, device_tensor(store, dy, ny), d_d);
    REFERENCE(attention_backward, &plain, qkv, y, lse, dy, d);
    snprintf(what + at, sizeof what - (size_t)at, "gradient");
    case_tensor(store, d_d, d, size, n, score + roundings(8), what);
    case_end();
}

static void attentions(void) {
    attention_case((struct attention_shape){1, 1, 1, 1, 0, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){2, 17, 3, 8, 0, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){1, 40, 2, 33, 0, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){2, 33, 1, 64, 0, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){1, 20, 2, 100, 0, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){2, 35, 2, 16, 9, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){1, 5, 1, 200, 34, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){1, 70, 1, 70, 35, KERNEL_FLOAT, 0}, 0);
    attention_case((struct attention_shape){1, 17, 1, 70, 64, KERNEL_FLOAT, 0}, 0);
    // exp(0 - lse) of rows beyond the last, which are zeros, is infinite.
    attention_case((struct attention_shape){1, 17, 1, 16, 0, KERNEL_FLOAT, 0}, 200);
    attention_case((struct attention_shape){1, 17, 1, 72, 0, KERNEL_FLOAT, 0}, 200);
    attention_case((struct attention_shape){1, 32, 2, 64, 0, KERNEL_FLOAT, 0}, 0);
    case_counts("attention of whole tiles");
}
static void attention(void) {
    case_stores(attentions);
}

int main(int argc, char **argv) {
    static const struct case_family families[] = {{"pool", pool},
                                                  {"loss", loss},
                                                  {"image", image},
                                                  {"tokens", tokens},
                                                  {"attention", attention}};
    return case_main(argc, argv, families, 5);
}
