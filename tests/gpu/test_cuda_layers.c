// SPDX-License-Identifier: Apache-2.0
// Pooling, loss, images, tokens, attention, flat buffers and optimizers of kernels/cuda against the
// reference.
#include "tests/gpu/cuda_case.h"

#define REFERENCE(op, ...) kernels_reference.op(test.reference, __VA_ARGS__)

static double roundings(int n) {
    return n * CASE_UNIT;
}

// ---- pooling ----------------------------------------------------------------------------------
static void maxpool_case(struct pool2d_shape s) {
    int oh = kernel_conv_out(s.h, s.k, s.stride, s.pad);
    int ow = kernel_conv_out(s.w, s.k, s.stride, s.pad);
    size_t nx = (size_t)s.n * s.h * s.w * s.c, ny = (size_t)s.n * oh * ow * s.c;
    case_begin(0);
    float *x = host_random(nx), *y = host_random(ny), *dy = host_random(ny), *dx = host_random(nx);
    uint8_t *index = host_bytes(ny);
    for (size_t i = 0; i < nx; i++)
        x[i] = rintf(x[i] * 4); // equals: the first one wins
    if (nx > 20)
        x[nx / 2] = NAN;
    void *d_y = device_empty(ny * sizeof *y), *d_dx = device_empty(nx * sizeof *x);
    uint8_t *d_index = device_empty(ny);
    cuda_maxpool_forward(&test.queue, &s, device_floats(x, nx), d_y, d_index);
    REFERENCE(maxpool_forward, &s, x, y, index);
    case_close(d_y, y, NULL, ny, 0, "max pool");
    is_int(memcmp(device_bytes(d_index, ny), index, ny), 0, "max pool: indexes");
    cuda_maxpool_backward(&test.queue, &s, device_floats(dy, ny), d_index, d_dx);
    REFERENCE(maxpool_backward, &s, dy, index, dx);
    case_close(d_dx, dx, NULL, nx, roundings(s.k * s.k), "max pool: gradient");
    case_end();
}

static void pool(void) {
    maxpool_case((struct pool2d_shape){2, 8, 8, 8, 3, 2, 1});
    maxpool_case((struct pool2d_shape){1, 5, 7, 3, 2, 2, 0});
    maxpool_case((struct pool2d_shape){1, 1, 1, 1, 1, 1, 0});
    maxpool_case((struct pool2d_shape){1, 9, 6, 2, 2, 3, 0}); // windows with gaps between
    maxpool_case((struct pool2d_shape){1, 6, 6, 5, 5, 1, 2});
    for (int i = 0; i < 3; i++) {
        int n = i + 1, hw = i * 24 + 1, c = 10 - i * 3;
        size_t nx = (size_t)n * hw * c, ny = (size_t)n * c;
        case_begin(0);
        float *x = host_random(nx), *y = host_random(ny), *dx = host_random(nx);
        void *d_y = device_empty(ny * sizeof *y), *d_dx = device_empty(nx * sizeof *x);
        cuda_avgpool_forward(&test.queue, n, hw, c, device_floats(x, nx), d_y);
        REFERENCE(avgpool_forward, n, hw, c, x, y);
        case_close(d_y, y, NULL, ny, roundings(2), "average pool");
        cuda_avgpool_backward(&test.queue, n, hw, c, device_floats(y, ny), d_dx);
        REFERENCE(avgpool_backward, n, hw, c, y, dx);
        case_close(d_dx, dx, NULL, nx, roundings(2), "average pool: gradient");
        case_end();
    }
}

// ---- loss -------------------------------------------------------------------------------------
static void xent_case(int rows, int classes, double smoothing, int broken) {
    size_t n = (size_t)rows * (size_t)classes;
    case_begin(0);
    float *z = host_random(n), *dz = host_random(n), *size = host_random(n);
    int32_t *labels = host_bytes((size_t)rows * sizeof *labels);
    for (size_t i = 0; i < n; i++)
        z[i] = rintf(z[i] * 20) / 2; // with equal ones
    for (int i = 0; i < rows; i++)
        labels[i] = (i * 7 + 3) % classes;
    if (broken)
        z[n / 2] = NAN;
    struct loss_totals want, *d = device_empty(sizeof want), got;
    struct softmax_xent_args a = {rows, classes, z, labels, smoothing, 1.0 / rows, dz, NULL},
                             at = a;
    at.logits = at.dlogits = device_floats(z, n);
    at.labels = device_copy(labels, (size_t)rows * sizeof *labels);
    cuda_softmax_xent(&test.queue, &at, d);
    REFERENCE(softmax_xent, &a, &want);
    memcpy(&got, device_bytes(d, sizeof got), sizeof got);
    for (size_t i = 0; i < n; i++)
        size[i] = (float)((fabs((double)dz[i] * rows) + 1) / rows);
    // exp(z - max) has the roundings of z - max, at most 20 units, and of exp itself
    if (!broken)
        case_close(at.dlogits, dz, size, n, roundings(classes / 32 + 32), "loss: gradient");
    ok(got.top1 == want.top1 && got.top5 == want.top5 && got.rows == want.rows,
       "loss: %d, %d of %d are right", (int)want.top1, (int)want.top5, rows);
    ok(broken ? isnan(got.loss_sum)
              : fabs(got.loss_sum - want.loss_sum) <=
                    (20 + fabs(want.loss_sum)) * rows * roundings(classes / 32 + 8),
       "loss: wrong result unless %g is %g", got.loss_sum, want.loss_sum);
    case_end();
}

static void loss(void) {
    xent_case(1, 2, 0, 0), xent_case(9, 10, 0.1, 0), xent_case(300, 5, 0, 0);
    xent_case(17, 100, 0.2, 0), xent_case(4, 10, 0, 1);
}

static void image(void) {
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
                           .offset_y = top,
                           .offset_x = left,
                           .flip = flip,
                           .mean = {0.5, 0.4, 0.3},
                           .std = {0.25, 0.2, 0.3},
                           .out = out},
                      d = a;
    d.src = device_copy(d_src, sizeof d_src), d.offset_y = device_copy(top, sizeof top);
    d.offset_x = device_copy(left, sizeof left), d.flip = device_copy(flip, sizeof flip);
    d.out = d_out = device_empty(N * TO_H * TO_W * C * sizeof *out);
    cuda_image_normalize(&test.queue, &d);
    REFERENCE(image_normalize, &a);
    float *size = host_bytes(N * TO_H * TO_W * C * sizeof *size);
    for (int i = 0; i < N * TO_H * TO_W * C; i++)
        size[i] = 5; // the largest of either term
    case_close(d_out, out, size, N * TO_H * TO_W * C, roundings(3), "images");
    case_end();
}

// ---- tokens and attention ---------------------------------------------------------------------
static void tokens_case(struct tokens_shape s, int first, int pos, int accumulate) {
    int t = s.p + first;
    size_t nx = (size_t)s.n * s.p * s.d, ny = (size_t)s.n * t * s.d, w = (size_t)s.d;
    size_t places = (size_t)t * s.d;
    case_begin(0);
    float *x = host_random(nx), *y = host_random(ny), *head = host_random(w);
    float *place = host_random(places), *dx = host_random(nx);
    void *d_y = device_empty(ny * sizeof *y), *d_dx = device_empty(nx * sizeof *x);
    void *d_head = first ? device_floats(head, w) : NULL;
    void *d_place = pos ? device_floats(place, places) : NULL;
    cuda_tokens_forward(&test.queue, &s, device_floats(x, nx), d_head, d_place, d_y);
    REFERENCE(tokens_forward, &s, x, first ? head : NULL, pos ? place : NULL, y);
    case_close(d_y, y, NULL, ny, 0, "tokens");
    cuda_tokens_backward(&test.queue, &s, d_y, d_dx, d_head, d_place, accumulate);
    REFERENCE(tokens_backward, &s, y, dx, first ? head : NULL, pos ? place : NULL, accumulate);
    case_close(d_dx, dx, NULL, nx, 0, "tokens: dx");
    if (first)
        case_close(d_head, head, NULL, w, roundings(1), "tokens: class token");
    if (pos)
        case_close(d_place, place, NULL, places, roundings(1), "tokens: positions");
    float *one = host_random((size_t)s.n * s.d);
    void *d_one = device_empty((size_t)s.n * s.d * sizeof *one);
    cuda_first_token_forward(&test.queue, s.n, t, s.d, d_y, d_one);
    REFERENCE(first_token_forward, s.n, t, s.d, y, one);
    case_close(d_one, one, NULL, (size_t)s.n * s.d, 0, "first token");
    cuda_first_token_backward(&test.queue, s.n, t, s.d, d_one, d_y);
    REFERENCE(first_token_backward, s.n, t, s.d, one, y);
    case_close(d_y, y, NULL, ny, 0, "first token: gradient");
    case_end();
}

static void tokens(void) {
    tokens_case((struct tokens_shape){2, 5, 12}, 1, 1, 0);
    tokens_case((struct tokens_shape){3, 4, 33}, 1, 0, 1);
    tokens_case((struct tokens_shape){1, 1, 1}, 0, 1, 1);
    tokens_case((struct tokens_shape){4, 9, 40}, 0, 1, 0);
}

// Inputs are below 1: a score is below sqrt(d), off by at most d roundings of that; so are
// probabilities, whose relative error is that of the score. Sums are convex, or over t such terms.
static void attention_case(struct attention_shape s) {
    char what[96];
    int keys = s.keys ? s.keys : s.t;
    size_t row = (size_t)s.heads * s.d, ny = ((size_t)s.n * s.t) * row;
    size_t n = (size_t)s.n * (size_t)(s.t + 2 * keys) * row, nl = (size_t)s.n * s.heads * s.t;
    double score = sqrt((double)s.d) * (s.d + 4) * CASE_UNIT;
    case_begin(cuda_attention_workspace(&s));
    float *qkv = host_random(n), *y = host_random(ny), *dy = host_random(ny), *d = host_random(n);
    float *lse = host_random(nl), *size = host_random(n), *one = host_random(n);
    void *d_qkv = device_floats(qkv, n), *d_y = device_empty(ny * sizeof *y);
    void *d_lse = device_empty(nl * sizeof *lse), *d_d = device_empty(n * sizeof *d);
    for (size_t i = 0; i < n; i++)
        one[i] = 1, size[i] = (float)(4 * s.t * sqrt((double)s.d));
    cuda_attention_forward(&test.queue, &s, d_qkv, d_y, d_lse);
    REFERENCE(attention_forward, &s, qkv, y, lse);
    int at = snprintf(what, sizeof what, "attention %d x %d x %d x %d, %d keys: ", s.n, s.t,
                      s.heads, s.d, s.keys);
    snprintf(what + at, sizeof what - (size_t)at, "y");
    case_close(d_y, y, one, ny, 2 * score + roundings(keys), what);
    snprintf(what + at, sizeof what - (size_t)at, "logarithms of sums");
    case_close(d_lse, lse, one, nl, score + roundings(keys + 8), what);
    cuda_attention_backward(&test.queue, &s, d_qkv, d_y, d_lse, device_floats(dy, ny), d_d);
    REFERENCE(attention_backward, &s, qkv, y, lse, dy, d);
    snprintf(what + at, sizeof what - (size_t)at, "gradient");
    case_close(d_d, d, size, n, score + roundings(8), what);
    case_end();
}

static void attention(void) {
    attention_case((struct attention_shape){1, 1, 1, 1, 0});
    attention_case((struct attention_shape){2, 17, 3, 8, 0});
    attention_case((struct attention_shape){1, 40, 2, 33, 0});
    attention_case((struct attention_shape){2, 33, 1, 64, 0});
    attention_case((struct attention_shape){1, 20, 2, 100, 0});
    attention_case((struct attention_shape){2, 35, 2, 16, 9});
    attention_case((struct attention_shape){1, 5, 1, 200, 34});
    attention_case((struct attention_shape){1, 32, 2, 64, 0});
    case_counts("attention of whole tiles");
}

// ---- flat buffers -----------------------------------------------------------------------------
static void flat_case(size_t n) {
    case_begin(0);
    float *x = host_random(n), *b = host_random(n), *y = host_random(n), *one = host_random(n);
    for (size_t i = 0; i < n; i++)
        x[i] *= 4, one[i] = 4;
    void *d_x = device_floats(x, n), *d_b = device_floats(b, n), *d_y = device_floats(y, n);
    cuda_relu_forward(&test.queue, n, d_x, d_y);
    REFERENCE(relu_forward, n, x, y);
    case_close(d_y, y, NULL, n, 0, "relu");
    cuda_relu_backward(&test.queue, n, d_x, d_b, d_y);
    REFERENCE(relu_backward, n, x, b, y);
    case_close(d_y, y, NULL, n, 0, "relu: gradient");
    cuda_gelu_forward(&test.queue, n, d_x, d_y);
    REFERENCE(gelu_forward, n, x, y);
    case_close(d_y, y, one, n, roundings(8), "gelu");
    cuda_gelu_backward(&test.queue, n, d_x, d_b, d_y);
    REFERENCE(gelu_backward, n, x, b, y);
    case_close(d_y, y, one, n, roundings(12), "gelu: gradient");
    cuda_add(&test.queue, n, d_x, d_b, d_b);
    REFERENCE(add, n, x, b, b);
    case_close(d_b, b, NULL, n, 0, "add");
    cuda_axpy(&test.queue, n, 0.3, d_x, d_b);
    REFERENCE(axpy, n, 0.3, x, b);
    case_close(d_b, b, one, n, roundings(3), "axpy");
    cuda_scale(&test.queue, n, -0.7, d_x);
    REFERENCE(scale, n, -0.7, x);
    case_close(d_x, x, NULL, n, roundings(1), "scale");
    double want, got, *d_sum = device_empty(sizeof got);
    REFERENCE(sum_squares, n, x, &want);
    cuda_sum_squares(&test.queue, n, device_floats(x, n), d_sum);
    memcpy(&got, device_bytes(d_sum, sizeof got), sizeof got);
    ok(fabs(got - want) <= 1e-14 * (double)n * want, "sum of squares: wrong result unless %g is %g",
       got, want);
    cuda_zero(&test.queue, n, d_y);
    REFERENCE(zero, n, y);
    case_close(d_y, y, NULL, n, 0, "zero");
    case_end();
}

// The first step of Adam from empty moments: they are 1 - beta times a gradient, or its square. The
// factor has to be a rounding of 1 - beta in double: 1 minus a rounded beta is off by 16 and by 216
// roundings.
static void adam_first_case(size_t n) {
    case_begin(0);
    float *p = host_random(n), *g = host_random(n), *m = host_random(n), *v = host_random(n);
    for (size_t i = 0; i < n; i++)
        m[i] = v[i] = 0;
    struct optim_range all = {0, n, 0, 1};
    struct adam_args a = {&all, 1, p, g, m, v, 0.02, 0.99, 0.999, 1e-8, 1, 1, 0, NULL}, d_a = a;
    d_a.p = device_floats(p, n), d_a.g = device_floats(g, n);
    d_a.m = device_floats(m, n), d_a.v = device_floats(v, n);
    cuda_adam(&test.queue, &d_a);
    REFERENCE(adam, &a);
    case_close(d_a.m, m, NULL, n, roundings(2), "adam: first moment of the first step");
    case_close(d_a.v, v, NULL, n, roundings(3), "adam: second moment of the first step");
    case_end();
}

// Rounding to bfloat16 against the nearest of the two neighbours, and back.
static void wire_case(size_t n) {
    static const float edges[] = {0.0f,     -0.0f,     1.00390625f, 1.01171875f, 0x1.fffp127f,
                                  INFINITY, -INFINITY, 0x1p-149f,   -0x1.02p0f,  -0x1.010002p0f};
    enum { EDGES = sizeof edges / sizeof *edges };
    case_begin(0);
    float *x = host_random(n), *back = host_random(n);
    for (size_t i = 0; i < n && i < EDGES; i++)
        x[i] = edges[i];
    float *d_x = device_floats(x, n), *d_back = device_empty(n * sizeof *d_back);
    void *d_wire = device_empty(n * 2);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        uint32_t down = bits & 0xffff0000, up = down + 0x10000, rest = bits & 0xffff;
        bits = rest > 0x8000 || (rest == 0x8000 && (down >> 16 & 1)) ? up : down;
        memcpy(&back[i], &bits, sizeof bits);
    }
    cuda_narrow(&test.queue, n, d_x, d_wire);
    cuda_widen(&test.queue, n, d_wire, d_back);
    const float *got = device_bytes(d_back, n * sizeof *got);
    ok(memcmp(got, back, n * sizeof *got) == 0, "%zu numbers to bfloat16 and back: wrong result",
       n);
    x[0] = NAN;
    cuda_narrow(&test.queue, 1, device_floats(x, 1), d_wire);
    cuda_widen(&test.queue, 1, d_wire, d_back);
    ok(isnan(*(const float *)device_bytes(d_back, sizeof *got)),
       "a bfloat16 of what is no number is none: wrong result");
    case_end();
}

// variant: 1 momentum or decoupled, 2 nesterov, 4 scalars from the device
static void optimizer_case(size_t n, int variant, int adam) {
    case_begin(0);
    float *p = host_random(n), *g = host_random(n), *m = host_random(n);
    float *v = host_absolute(host_random(n), n), *one = host_random(n);
    struct optim_range ranges[70], all[2] = {{0, n / 3, 0.1, 1}, {n / 3 + 1, n, 0, 0.5}};
    for (size_t i = 0; i < 70; i++) // more than one launch takes
        ranges[i] = (struct optim_range){i * 2, i * 2 + 1, 0.01 * (double)i, 1};
    int many = n >= 200;
    void *d_p = device_floats(p, n), *d_g = device_floats(g, n), *d_m = device_floats(m, n);
    void *d_v = device_floats(v, n);
    struct kernel_step step = {.lr = 0.02,
                               .grad_scale = 0.5,
                               .correct1 = 1 - pow(0.9, 3),
                               .correct2 = 1 - pow(0.999, 3),
                               .apply = 1};
    struct kernel_step *d_step = variant & 4 ? device_copy(&step, sizeof step) : NULL;
    struct sgd_args s = {many ? ranges : all,
                         many ? 70 : 2,
                         p,
                         g,
                         variant & 1 ? m : NULL,
                         0.02,
                         variant & 1 ? 0.9 : 0,
                         0.5,
                         variant >> 1 & 1,
                         NULL};
    struct adam_args a = {
        many ? ranges : all, many ? 70 : 2, p, g, m, v, 0.02, 0.9, 0.999, 1e-8, 0.5, 3,
        variant & 1,         NULL};
    struct sgd_args d_s = s;
    struct adam_args d_a = a;
    d_s.p = d_a.p = d_p, d_s.g = d_a.g = d_g, d_a.m = d_m, d_a.v = d_v;
    d_s.momentum_buf = s.momentum_buf ? d_m : NULL;
    d_s.step = d_a.now = d_step;
    if (d_step) // those of the arguments are not looked at
        d_s.lr = d_a.lr = 100, d_s.grad_scale = d_a.grad_scale = -100, d_a.step = 1;
    for (size_t i = 0; i < n; i++)
        one[i] = 3;
    if (adam) {
        cuda_adam(&test.queue, &d_a);
        REFERENCE(adam, &a);
    } else {
        cuda_sgd(&test.queue, &d_s);
        REFERENCE(sgd, &s);
    }
    case_close(d_p, p, one, n, roundings(6), adam ? "adam" : "sgd");
    case_close(d_m, m, one, n, roundings(4), adam ? "adam: first moment" : "sgd: momentum");
    case_close(d_v, v, one, n, roundings(4), "second moment");
    case_end();
}

static void flat(void) {
    flat_case(1), flat_case(255), flat_case(1000), wire_case(1), wire_case(1000);
    for (int variant = 0; variant < 8; variant++) {
        optimizer_case(70, variant, 0), optimizer_case(70, variant, 1);
        optimizer_case(300, variant, variant & 1);
    }
    adam_first_case(300);
}

// ---- the step itself --------------------------------------------------------------------------
// One step with these squares and this loss; what the device makes of *s.
static void judge(struct kernel_step *s, double squares, double loss, int scaling) {
    struct loss_totals losses[2] = {{loss, 3, 5, 8}, {1, 2, 4, 8}};
    double two[2] = {squares, 0};
    float grads[700] = {[299] = squares < (double)INFINITY ? 1 : (float)squares, [650] = 2};
    float tail[8] = {0};
    case_begin(0);
    struct kernel_step *d = device_copy(s, sizeof *s);
    float *d_tail = device_copy(tail, sizeof tail);
    double *d_two = device_copy(two, sizeof two);
    struct step_totals_args t = {
        d, device_copy(losses, sizeof losses), 2, 1.0 / 16, d_tail, 1, d_two, 0};
    struct step_judge_args j = {
        d, d_tail, d_two, 2, 0.9, 0.999, scaling, device_copy(grads, sizeof grads), 700};
    cuda_step_totals(&test.queue, &t);
    cuda_step_judge(&test.queue, &j);
    memcpy(s, device_bytes(d, sizeof *s), sizeof *s);
    case_end();
}

static struct kernel_step new_step(double scale) {
    return (struct kernel_step){
        .lr = 1, .clip = 0.5, .request = {0, 1}, .loss_scale = scale, .power1 = 1, .power2 = 1};
}

static void step(void) {
    struct kernel_step s = new_step(1);
    judge(&s, 4, 7, 0);
    ok(fabs(s.totals[0] - 0.5) < 1e-6 && fabs(s.totals[1] - 5.0 / 16) < 1e-6 && s.totals[3] == 0 &&
           s.totals[4] == 1 && s.totals[5] == 4 && s.own_loss == 8,
       "step: wrong result unless the totals are these");
    ok(s.apply == 1 && fabs(s.grad_scale - 0.5 / (2 + 1e-6)) < 1e-12 && s.updates == 1 &&
           fabs(s.correct1 - 0.1) < 1e-12 && fabs(s.correct2 - 0.001) < 1e-12,
       "step: wrong result unless the norm is clipped");
    judge(&s, (double)INFINITY, 7, 0);
    ok(s.apply == 0 && s.halted == 1 && s.updates == 1, "step: wrong result unless it halts");
    ok(s.culprit == 300, "step: wrong result unless the gradient is noted");
    judge(&s, 4, 7, 0);
    ok(s.apply == 0 && s.culprit == 300, "step: wrong result unless it stays halted");
    s.culprit = 5;
    judge(&s, (double)INFINITY, 7, 0);
    ok(s.culprit == 5, "step: wrong result unless the first step that halts is noted");
    s = new_step(8), s.clip = 0;
    judge(&s, 64, 7, 1);
    ok(s.apply == 1 && s.grad_scale == 0.125 && s.totals[5] == 1 && s.good == 1,
       "step: wrong result unless the loss scale is taken out");
    judge(&s, (double)NAN, 7, 1);
    ok(s.apply == 0 && s.halted == 0 && s.loss_scale == 4 && s.good == 0 && s.updates == 1,
       "step: wrong result unless an overflow leaves out one update");
    s.good = STEP_SCALE_UPDATES - 1;
    judge(&s, 1, 7, 1);
    ok(s.apply == 1 && s.loss_scale == 8 && s.good == 0 && s.grad_scale == 0.25,
       "step: wrong result unless the loss scale grows");
    judge(&s, 1, (double)NAN, 1);
    ok(s.apply == 0 && s.halted == 1, "step: wrong result unless a loss that is no number halts");
    s = new_step(STEP_SCALE_LEAST);
    judge(&s, (double)NAN, 7, 1);
    ok(s.apply == 0 && s.halted == 1 && s.culprit == 300,
       "step: wrong result unless the least loss scale halts");
    s = new_step(STEP_SCALE_MOST), s.good = STEP_SCALE_UPDATES - 1;
    judge(&s, 1, 7, 1);
    ok(s.loss_scale == STEP_SCALE_MOST && s.good == 0,
       "step: wrong result unless the loss scale has a limit");
}

int main(int argc, char **argv) {
    static const struct case_family families[] = {
        {"pool", pool},           {"loss", loss}, {"image", image}, {"tokens", tokens},
        {"attention", attention}, {"flat", flat}, {"step", step}};
    return case_main(argc, argv, families, 7);
}
