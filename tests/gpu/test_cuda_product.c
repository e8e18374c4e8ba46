// SPDX-License-Identifier: Apache-2.0
// GEMM and convolution of kernels/cuda against the reference. The bound of each element: a sum of k
// products in float is off by at most k + 3 roundings of the sum of their magnitudes, which the
// reference makes of absolute operands. It computes before the launch: see case_changes.h.
#include "tests/gpu/cuda_case.h"

static const char *const type_names[KERNEL_TYPES] = {"float", "bf16", "half", "tf32"};

// The device multiplies the first so many types.
static int types(void) {
    return device_capability() >= CUDA_TF32_CAPABILITY_MIN ? KERNEL_TYPES : KERNEL_TF32;
}

// With `no_number` the first element of a has all bits of its fraction, which must not be rounded.
static void gemm_with(struct gemm_args a, int no_number, const char *what) {
    size_t na = (size_t)(a.trans_a ? a.k : a.m) * (size_t)a.lda, nc = (size_t)a.m * (size_t)a.ldc;
    size_t nb = (size_t)(a.trans_b ? a.n : a.k) * (size_t)a.ldb;
    case_begin(cuda_gemm_workspace(a.type, a.m, a.n, a.k));
    float *ha = host_random(na), *hb = host_random(nb), *hc = host_random(nc);
    float *bias = a.bias ? host_random((size_t)a.n) : NULL;
    if (no_number)
        memcpy(ha, &(uint32_t){0x7fffffff}, sizeof *ha);
    struct gemm_args device = a, size = a;
    device.a = device_floats(ha, na), device.b = device_floats(hb, nb);
    device.c = a.beta != 0 || a.ldc != a.n ? device_floats(hc, nc) : device_empty(nc * sizeof *hc);
    device.bias = bias ? device_floats(bias, (size_t)a.n) : NULL;
    size.a = host_absolute(ha, na), size.b = host_absolute(hb, nb), size.c = host_absolute(hc, nc);
    size.bias = bias ? host_absolute(bias, (size_t)a.n) : NULL;
    size.alpha = fabs(a.alpha), size.beta = fabs(a.beta);
    kernels_reference.gemm(test.reference, &size);
    a.a = ha, a.b = hb, a.c = hc, a.bias = bias;
    kernels_reference.gemm(test.reference, &a);
    cuda_gemm(&test.queue, &device);
    case_close(device.c, a.c, size.c, nc, (a.k + 3) * CASE_UNIT, what);
    case_end();
}

static void gemm_case(struct gemm_args a, const char *what) {
    gemm_with(a, 0, what);
}

enum { WHAT_BYTES = 160 };

// shape: m, n, k. Rows are `gap` elements longer than they need to be.
static struct gemm_args gemm_of(const int shape[3], int way, int gap, enum kernel_type type) {
    int m = shape[0], n = shape[1], k = shape[2];
    struct gemm_args a = {.type = type,
                          .m = m,
                          .n = n,
                          .k = k,
                          .trans_a = way & 1,
                          .trans_b = way >> 1 & 1,
                          .alpha = way == 1 ? -0.5 : 1};
    a.lda = (a.trans_a ? m : k) + gap, a.ldb = (a.trans_b ? k : n) + gap, a.ldc = n + gap;
    return a;
}

static void gemm_name(char what[WHAT_BYTES], const char *kind, const struct gemm_args *a) {
    snprintf(what, WHAT_BYTES, "%s %s %d x %d x %d %c%c", kind, type_names[a->type], a->m, a->n,
             a->k, "nt"[a->trans_a], "nt"[a->trans_b]);
}

static void gemm(void) {
    static const int shapes[][3] = {{1, 1, 1},     {5, 3, 7},    {64, 64, 16}, {65, 70, 33},
                                    {100, 17, 90}, {7, 9, 1000}, {3, 66, 130}, {128, 10, 64},
                                    {4, 3, 0},     {0, 3, 5}};
    char what[WHAT_BYTES];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int way = 0; way < 4 * types(); way++) {
            struct gemm_args a = gemm_of(shapes[i], way, way % 3, (enum kernel_type)(way / 4));
            a.beta = way == 2 || way == 5 ? 0.75 : 0;
            a.relu = way == 3 || way == 7;
            a.bias = way & 2 ? &a : NULL;
            gemm_name(what, "gemm", &a);
            gemm_case(a, what);
        }
    for (int type = 0; type < types(); type++) {
        struct gemm_args a = gemm_of(shapes[1], 0, 0, (enum kernel_type)type);
        gemm_name(what, "gemm of what is no number", &a);
        gemm_with(a, 1, what);
    }
}

// Buffers of one shape: x, w, dy, bias with their absolute values.
struct conv_buffers {
    size_t nx, nw, ny;
    float *x, *w, *dy, *bias;
};

static struct conv_buffers conv_begin(const struct conv2d_shape *s) {
    int oh = kernel_conv_out(s->h, s->kh, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->kw, s->stride, s->pad);
    case_begin(cuda_conv2d_workspace(s));
    struct conv_buffers b = {.nx = (size_t)s->n * s->h * s->w * s->c,
                             .nw = (size_t)s->o * s->kh * s->kw * s->c,
                             .ny = ((size_t)s->n * oh * ow * s->o)};
    b.x = host_random(b.nx), b.w = host_random(b.nw), b.dy = host_random(b.ny);
    b.bias = host_random((size_t)s->o);
    return b;
}

static void conv_forward(const struct conv2d_shape *s, int relu, const char *what) {
    struct conv_buffers b = conv_begin(s);
    float *want = host_bytes(b.ny * sizeof *want), *size = host_bytes(b.ny * sizeof *size);
    void *y = device_empty(b.ny * sizeof *want);
    const float *bias = relu ? b.bias : NULL;
    kernels_reference.conv2d_forward(test.reference, s, b.x, b.w, bias, relu, want);
    kernels_reference.conv2d_forward(test.reference, s, host_absolute(b.x, b.nx),
                                     host_absolute(b.w, b.nw), host_absolute(b.bias, (size_t)s->o),
                                     0, size);
    cuda_conv2d_forward(&test.queue, s, device_floats(b.x, b.nx), device_floats(b.w, b.nw),
                        bias ? device_floats(bias, (size_t)s->o) : NULL, relu, y);
    case_close(y, want, size, b.ny, (s->kh * s->kw * s->c + 3) * CASE_UNIT, what);
    case_end();
}

static void conv_data(const struct conv2d_shape *s, int accumulate, const char *what) {
    struct conv_buffers b = conv_begin(s);
    float *want = host_random(b.nx), *size = host_absolute(want, b.nx);
    void *dx = accumulate ? device_floats(want, b.nx) : device_empty(b.nx * sizeof *want);
    kernels_reference.conv2d_backward_data(test.reference, s, b.dy, b.w, want, accumulate);
    kernels_reference.conv2d_backward_data(test.reference, s, host_absolute(b.dy, b.ny),
                                           host_absolute(b.w, b.nw), size, accumulate);
    cuda_conv2d_backward_data(&test.queue, s, device_floats(b.dy, b.ny), device_floats(b.w, b.nw),
                              dx, accumulate);
    case_close(dx, want, size, b.nx, (s->kh * s->kw * s->o + 3) * CASE_UNIT, what);
    case_end();
}

// x has no number at `no_number`, unless that is 0.
static void conv_weight_with(const struct conv2d_shape *s, size_t no_number, int accumulate,
                             const char *what) {
    struct conv_buffers b = conv_begin(s);
    if (no_number)
        b.x[no_number] = NAN;
    float *want = host_random(b.nw), *size = host_absolute(want, b.nw);
    void *dw = accumulate ? device_floats(want, b.nw) : device_empty(b.nw * sizeof *want);
    kernels_reference.conv2d_backward_weight(test.reference, s, b.x, b.dy, want, accumulate);
    kernels_reference.conv2d_backward_weight(test.reference, s, host_absolute(b.x, b.nx),
                                             host_absolute(b.dy, b.ny), size, accumulate);
    cuda_conv2d_backward_weight(&test.queue, s, device_floats(b.x, b.nx), device_floats(b.dy, b.ny),
                                dw, accumulate);
    size_t pixels = b.ny / (size_t)s->o;
    case_close(dw, want, size, b.nw, (double)(pixels + 3) * CASE_UNIT, what);
    case_end();
}

static void conv_weight(const struct conv2d_shape *s, int accumulate, const char *what) {
    conv_weight_with(s, 0, accumulate, what);
}

static void conv(void) {
    static const struct conv2d_shape shapes[] = {
        {2, 5, 7, 3, 5, 3, 3, 1, 1, 0, 0, 0},   {2, 8, 8, 8, 16, 3, 3, 2, 1, 0, 0, 0},
        {1, 6, 5, 4, 70, 1, 1, 2, 0, 0, 0, 0},  {1, 9, 9, 3, 6, 7, 7, 2, 3, 0, 0, 0},
        {3, 4, 4, 20, 9, 3, 3, 1, 1, 0, 0, 0},  {1, 7, 6, 2, 3, 2, 3, 3, 1, 0, 0, 0},
        {2, 1, 1, 65, 66, 3, 3, 1, 1, 0, 0, 0}, {1, 8, 8, 3, 12, 4, 4, 4, 0, 0, 0, 0},
        {2, 9, 10, 5, 8, 1, 1, 1, 0, 0, 0, 0},  {1, 5, 5, 1, 1, 5, 5, 1, 4, 0, 0, 0},
        {2, 1, 1, 3, 4, 1, 1, 3, 0, 0, 0, 0},   {1, 17, 17, 4, 6, 3, 3, 2, 1, 0, 0, 0}};
    char what[WHAT_BYTES];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int type = 0; type < types(); type++) {
            struct conv2d_shape s = shapes[i];
            int odd = (int)i & 1, at;
            s.type = (enum kernel_type)type;
            at = snprintf(what, sizeof what,
                          "conv %s %dx%dx%dx%d-%d k%dx%d s%d p%d: ", type_names[type], s.n, s.h,
                          s.w, s.c, s.o, s.kh, s.kw, s.stride, s.pad);
            snprintf(what + at, sizeof what - (size_t)at, "forward");
            conv_forward(&s, odd, what);
            snprintf(what + at, sizeof what - (size_t)at, "data gradient");
            conv_data(&s, odd, what);
            snprintf(what + at, sizeof what - (size_t)at, "weight gradient");
            conv_weight(&s, odd, what);
        }
}

// The last case had large tiles, or not; on 9.0 they are wgmma's.
static void used(int large, const char *what) {
    bool hopper = large && test.capability == CUDA_HOPPER_CAPABILITY;
    is_int(test.large > 0, large, "%s: the size of its tiles", what);
    is_int(test.hopper > 0, hopper, "%s: wgmma", what);
}
static void used_maps(int maps, const char *what) {
    bool tma = maps && test.capability == CUDA_HOPPER_CAPABILITY && !test.no_maps;
    is_int(test.tma > 0, tma, "%s: tensor maps", what);
}

// Shapes of one or a few large tiles, with odd edges. All ways of a matrix, several stages, splits.
enum { FEW_IMAGES = 4 }; // of which weight gradients in tf32 have small tiles
static const int large_gemms[][3] = {
    {128, 128, 64}, {130, 136, 96}, {129, 131, 123}, {150, 140, 130}};
static const struct {
    struct conv2d_shape shape;
    int large[3]; // by pass
    int tf32;     // 0: in types of 16 bits alone; 1: in tf32, too; 2: in tf32 alone
} large_convs[] = {
    {{2, 9, 8, 32, 136, 3, 3, 1, 1, 0, 0, 0}, {1, 0, 1}, 1},
    {{1, 23, 24, 128, 160, 1, 1, 2, 0, 0, 0, 0}, {1, 1, 1}, 1},
    {{1, 12, 11, 160, 160, 2, 3, 1, 1, 0, 0, 0}, {1, 1, 1}, 1}, // taps end inside splits
    {{4, 12, 11, 128, 64, 2, 3, 2, 1, 0, 0, 0}, {0, 1, 0}, 0},
    {{1, 12, 11, 24, 128, 3, 3, 1, 2, 0, 0, 0}, {0, 0, 1}, 0},
    {{1, 12, 11, 20, 128, 3, 3, 1, 2, 0, 0, 0}, {0, 0, 0}, 0},
    {{8, 4, 4, 20, 128, 3, 3, 1, 1, 0, 0, 0}, {0, 0, 1}, 2}, // a shorter chunk
    {{8, 4, 4, 22, 128, 3, 3, 1, 1, 0, 0, 0}, {0, 0, 0}, 2},
    {{1, 12, 11, 48, 136, 2, 2, 1, 1, 0, 0, 0}, {1, 0, 1}, 2}, // a shorter stage
    {{1, 12, 11, 128, 80, 2, 3, 1, 1, 0, 0, 0}, {0, 1, 0}, 2},
    // Weight gradients in tf32: images of one stage, of less or more, and padded ones.
    {{24, 2, 3, 16, 128, 3, 3, 1, 1, 0, 0, 0}, {1, 0, 1}, 2},
    {{7, 5, 5, 36, 136, 3, 3, 1, 1, 0, 0, 0}, {0, 0, 1}, 2},
    {{8, 18, 1, 48, 128, 3, 1, 1, 0, 0, 0, 0}, {1, 0, 1}, 2},
    {{14, 7, 8, 32, 128, 2, 3, 2, 1, 0, 0, 0}, {1, 0, 1}, 2},
    {{5, 6, 5, 32, 128, 3, 3, 1, 1, 0, 0, 0}, {1, 0, 1}, 2}};

static void large_gemm(const int shape[3], int i) {
    char what[WHAT_BYTES];
    int end = i % 3 || types() == KERNEL_TF32 ? KERNEL_TF32 : KERNEL_TYPES;
    for (int way = 0; way < 4; way++) {
        struct gemm_args a = gemm_of(shape, way, (way + i) % 3, KERNEL_BF16);
        a.beta = way % 2 ? 0.75 : 0;
        a.relu = way > 1;
        a.bias = way != 1 ? &a : NULL;
        for (int type = KERNEL_BF16; type < end; type++) {
            a.type = (enum kernel_type)type;
            gemm_name(what, "large gemm", &a);
            gemm_case(a, what);
            used(a.m >= 128 && way != 3 && test.capability >= 80, what);
            used_maps(a.m >= 128 && way != 3, what);
        }
    }
}

static void large_conv(size_t i) {
    static const char *const names[] = {"forward", "data gradient", "weight gradient"};
    static void (*const run[])(const struct conv2d_shape *s, int odd,
                               const char *what) = {conv_forward, conv_data, conv_weight};
    char what[WHAT_BYTES];
    for (int n = 0; n < 3 * (types() - KERNEL_BF16); n++) {
        int pass = n % 3, tf32 = n / 3 == KERNEL_TF32 - KERNEL_BF16;
        struct conv2d_shape s = large_convs[i].shape;
        s.type = (enum kernel_type)(KERNEL_BF16 + n / 3);
        if (large_convs[i].tf32 == (tf32 ? 0 : 2))
            continue;
        snprintf(what, sizeof what, "large conv %s %dx%dx%dx%d-%d k%dx%d s%d p%d: %s",
                 type_names[s.type], s.n, s.h, s.w, s.c, s.o, s.kh, s.kw, s.stride, s.pad,
                 names[pass]);
        run[pass](&s, (int)i & 1, what);
        int few = tf32 && pass == 2 && s.n < FEW_IMAGES;
        used(large_convs[i].large[pass] && !few && test.capability >= 80, what);
    }
}

// Terms beyond the last one would be positions of a row below: some taps have no other term of that
// pixel, so that their sums stay numbers.
static void large_ends(void) {
    const struct conv2d_shape s = {8, 5, 5, 16, 128, 3, 3, 1, 1, KERNEL_TF32, 0, 0};
    if (types() > KERNEL_TF32)
        conv_weight_with(&s, (size_t)(s.h - 1) * s.w * s.c, 0, "no term beyond the last is read");
}

static void large(void) {
    for (size_t i = 0; i < sizeof large_gemms / sizeof *large_gemms; i++)
        large_gemm(large_gemms[i], (int)i);
    for (size_t i = 0; i < sizeof large_convs / sizeof *large_convs; i++)
        large_conv(i);
    large_ends();
}

// The bytes that a convolution of stride 1 has to move. A tile of one operand is read once for each
// tile of the other one, and nothing outside of the image is. Large tiles pack their operands
// first, which reads floats and writes words of the type. Splits are written and added up.
enum conv_pass { FORWARD, DATA, WEIGHT };
static int conv_floor(const struct conv2d_shape *s, enum conv_pass pass) {
    int side = test.large ? 128 : 64, bytes = test.large && s->type != KERNEL_TF32 ? 2 : 4;
    int oh = kernel_conv_out(s->h, s->kh, 1, s->pad), ow = kernel_conv_out(s->w, s->kw, 1, s->pad);
    int taps = s->kh * s->kw, pixels = s->n * oh * ow, inside = 0;
    for (int at = 0; at < oh * ow * taps; at++) {
        int y = at / taps / ow + at % taps / s->kw - s->pad;
        int x = at / taps % ow + at % taps % s->kw - s->pad;
        inside += s->n * (y >= 0 && y < s->h && x >= 0 && x < s->w);
    }
    int m = pass == FORWARD ? pixels : pass == DATA ? s->n * s->h * s->w : s->o;
    int n = pass == FORWARD ? s->o : pass == DATA ? s->c : taps * s->c;
    int k = pass == FORWARD ? taps * s->c : pass == DATA ? taps * s->o : pixels;
    int a = pass == FORWARD ? inside * s->c : pass == DATA ? inside * s->o : m * k;
    int b = pass == WEIGHT ? inside * s->c : n * k;
    int tiles_m = (m + side - 1) / side, tiles_n = (n + side - 1) / side;
    int splits = CUDA_WORKSPACE_BYTES_MIN / (side * side * 4) / (tiles_m * tiles_n);
    splits = splits > k / 64 ? k / 64 : splits;
    int of_x = s->n * s->h * s->w * s->c, of_w = s->o * taps * s->c, of_dy = pixels * s->o;
    int packed = of_x + of_w + of_dy - (pass == FORWARD ? of_dy : pass == DATA ? of_x : of_w);
    return bytes * (a * tiles_n + b * tiles_m) + (splits > 1 ? 2 * 4 * splits * m * n : 0) +
           4 * m * n * (pass == FORWARD ? 2 : 1) + // with the bias
           (test.large ? (4 + bytes) * packed : 0);
}

// All passes of a convolution move exactly the floor; whole tiles have whole sectors and no
// conflicts, too.
static void conv_counts(const struct conv2d_shape *s, int whole) {
    static const char *const names[] = {"conv", "data gradient", "weight gradient"};
    static void (*const run[])(const struct conv2d_shape *s, int odd,
                               const char *what) = {conv_forward, conv_data, conv_weight};
    char what[WHAT_BYTES];
    for (int pass = FORWARD; pass <= WEIGHT; pass++) {
        snprintf(what, sizeof what, "%s %s of %s tiles: bytes", names[pass], type_names[s->type],
                 whole ? "whole" : "odd");
        run[pass](s, pass == FORWARD, what);
        case_moved(conv_floor(s, (enum conv_pass)pass), what);
        if (whole)
            case_counts(what);
    }
}

// Whole tiles: shared memory without conflicts, whole sectors, and no byte of a tile read twice.
static void counts(void) {
    enum { M = 128, N = 64, K = 48, TILE = 64 };
    for (int way = 0; way < 4 * types(); way++) {
        struct gemm_args a = {.type = (enum kernel_type)(way / 4),
                              .m = M,
                              .n = N,
                              .k = K,
                              .trans_a = way & 1,
                              .trans_b = way >> 1 & 1,
                              .alpha = 1,
                              .ldc = N};
        a.lda = a.trans_a ? M : K, a.ldb = a.trans_b ? K : N;
        gemm_case(a, "gemm of whole tiles");
        case_counts("gemm of whole tiles");
        case_moved(4 * (M * K * (N / TILE) + N * K * (M / TILE) + M * N),
                   "a tile is read once for each tile of the other operand");
    }
    for (int type = 0; type < types(); type++) {
        struct conv2d_shape s = {1, 8, 8, 32, 64, 3, 3, 1, 1, (enum kernel_type)type, 0, 0};
        conv_counts(&s, 1);
        s = (struct conv2d_shape){2, 9, 7, 5, 70, 3, 3, 1, 1, (enum kernel_type)type, 0, 0};
        conv_counts(&s, 0);
    }
}

// The same of large tiles. Operands are packed: read once as floats, written and read in the type.
static void large_gemm_counts(int ways) {
    enum { M = 128, N = 256, K = 128, TILE = 128 };
    for (int n = 0; n < ways; n++) {
        int way = n % 3, bytes = n < 3 ? 2 : 4;
        struct gemm_args a = {.type = n < 3 ? KERNEL_BF16 : KERNEL_TF32,
                              .m = M,
                              .n = N,
                              .k = K,
                              .trans_a = way == 1,
                              .trans_b = way == 2,
                              .alpha = 1,
                              .ldc = N};
        a.lda = a.trans_a ? M : K, a.ldb = a.trans_b ? K : N;
        gemm_case(a, "gemm of large tiles");
        case_counts("gemm of large tiles");
        enum { SPLITS = K / 64, PARTIAL = SPLITS * 2 * 4 * M * N }; // written and added up
        case_few_bytes((4 + bytes) * (M * K + N * K) +
                           bytes * (M * K * (N / TILE) + N * K * (M / TILE)) + PARTIAL + 4 * M * N,
                       "gemm of large tiles");
    }
}

static void large_counts(void) {
    struct conv2d_shape s = {2, 8, 8, 128, 128, 3, 3, 1, 1, KERNEL_BF16, 0, 0};
    large_gemm_counts(types() > KERNEL_TF32 ? 6 : 3);
    conv_counts(&s, 1);
    for (int type = KERNEL_BF16; type <= KERNEL_HALF; type++) {
        s = (struct conv2d_shape){1, 14, 16, 160, 160, 1, 3, 1, 1, (enum kernel_type)type, 0, 0};
        conv_counts(&s, 0);
    }
    for (int odd = 0; odd < (types() > KERNEL_TF32 ? 2 : 0); odd++) {
        int wide = 128 + 16 * odd;
        s = (struct conv2d_shape){8, 4, 4, wide, wide, 1, 3, 1, 1, KERNEL_TF32, 0, 0};
        conv_counts(&s, !odd);
    }
}

// A device of 9.0 has wgmma. Its operands differ by where they lie in shared memory alone: some of
// the shapes are enough. First every kernel with all terms in one block, so that memory of stages
// is used again; then edges and splits. GEMM has tensor maps, and copies without them.
static void hopper(void) {
    static const int long_terms[] = {129, 131, 331};
    if (device_capability() != CUDA_HOPPER_CAPABILITY)
        return;
    test.one_split = 1;
    large_gemm(long_terms, 3);
    test.one_split = 0, test.no_maps = 1;
    large_gemm(large_gemms[2], 3);
    test.one_split = 1, test.no_maps = 0;
    large_conv(1), large_conv(10);
    test.one_split = 0;
}

static void hopper_edges(void) {
    if (device_capability() != CUDA_HOPPER_CAPABILITY)
        return;
    large_gemm(large_gemms[3], 3);
    large_conv(0);
    large_conv(2);
    large_conv(11);
    large_ends();
}

static void hopper_counts(void) {
    struct conv2d_shape s = {2, 8, 8, 128, 128, 1, 3, 1, 1, KERNEL_BF16, 0, 0};
    if (device_capability() != CUDA_HOPPER_CAPABILITY)
        return;
    large_gemm_counts(6);
    conv_counts(&s, 1);
    for (int type = KERNEL_BF16; type <= KERNEL_HALF; type++) {
        s = (struct conv2d_shape){1, 14, 16, 160, 160, 1, 3, 1, 1, (enum kernel_type)type, 0, 0};
        conv_counts(&s, 0);
    }
    s = (struct conv2d_shape){8, 4, 4, 144, 144, 1, 3, 1, 1, KERNEL_TF32, 0, 0};
    conv_counts(&s, 0);
    s = (struct conv2d_shape){8, 4, 4, 128, 128, 1, 3, 1, 1, KERNEL_TF32, 0, 0};
    conv_counts(&s, 1);
}

int main(int argc, char **argv) {
    static const struct case_family families[] = {{"gemm", gemm},
                                                  {"conv", conv},
                                                  {"large", large},
                                                  {"counts", counts},
                                                  {"large_counts", large_counts},
                                                  {"hopper", hopper},
                                                  {"hopper_edges", hopper_edges},
                                                  {"hopper_counts", hopper_counts}};
    return case_main(argc, argv, families, 8);
}
