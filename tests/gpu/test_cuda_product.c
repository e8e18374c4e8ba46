// SPDX-License-Identifier: Apache-2.0
// GEMM and convolution of kernels/cuda: shapes, types, what is kept in bfloat16, sizes of tiles,
// and the bytes that are moved.
#include "tests/gpu/sum_cases.h"

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
            a.from = a.beta != 0 && i % 2 ? &a : NULL;
            gemm_name(what, "gemm", &a);
            gemm_case(a, what);
        }
    for (int i = 0; i < 7 * 8; i++) { // all that can be kept in bfloat16, by all ways
        struct gemm_args a = gemm_of(shapes[i / 8], i % 4, i % 3, KERNEL_BF16);
        gemm_keeps(&a, (i + i / 8) % 7 + 1);
        a.beta = i % 4 ? 0.75 : 0;
        a.from = i % 4 > 1 ? &a : NULL;
        a.relu = i % 5 == 3;
        a.bias = i % 2 ? &a : NULL;
        gemm_name(what, "gemm", &a);
        gemm_case(a, what);
    }
    for (int type = 0; type <= types(); type++) { // the last one is kept in bfloat16
        bool kept = type == types();
        struct gemm_args a = gemm_of(shapes[1], 0, 0, kept ? KERNEL_BF16 : (enum kernel_type)type);
        if (kept)
            gemm_keeps(&a, 4);
        gemm_name(what, "gemm of what is no number", &a);
        gemm_with(a, 1, what);
    }
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
        for (int type = 0; type <= types(); type++) {
            struct conv2d_shape s = shapes[i];
            int odd = (int)i & 1, at;
            if (type < types())
                s.type = (enum kernel_type)type;
            else
                conv_keeps(&s, (int)i % 3 + 1);
            at = conv_name(what, "conv", &s);
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
        for (int type = KERNEL_BF16; type <= end; type++) {
            a.from = way == 1 ? &a : NULL;
            a.type = type < end ? (enum kernel_type)type : KERNEL_BF16;
            if (type == end)
                gemm_keeps(&a, 7 - (way + i) % 4);
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
    for (int n = 0; n < 3 * (types() + 1 - KERNEL_BF16); n++) {
        int pass = n % 3, type = KERNEL_BF16 + n / 3, tf32 = type == KERNEL_TF32;
        struct conv2d_shape s = large_convs[i].shape;
        if (large_convs[i].tf32 == (tf32 ? 0 : 2))
            continue;
        if (type < types())
            s.type = (enum kernel_type)type;
        else
            conv_keeps(&s, 3 - (int)i % 3);
        int at = conv_name(what, "large conv", &s);
        snprintf(what + at, sizeof what - (size_t)at, "%s", names[pass]);
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

// A row without numbers leaves them in shared memory, where numbers that are added come in other
// products: results of other rows are numbers.
static void large_no_numbers(void) {
    static const int shape[3] = {136, 144, 96};
    char what[WHAT_BYTES];
    for (int type = KERNEL_BF16; type < types(); type++) {
        struct gemm_args a = gemm_of(shape, 0, 0, (enum kernel_type)type);
        gemm_name(what, "large gemm with a row of no numbers", &a);
        gemm_with(a, 41, what);
    }
}

// Operands that are in memory as they would be packed, but for their ends: rows and columns are
// whole chunks, and no stages. Tensor maps need no more. Half of a chunk they do need.
static void large_kept(void) {
    char what[WHAT_BYTES];
    for (int n = 0; n < 12; n++) {
        int way = n % 3, odd = n / 3 % 2, whole = n / 6;
        const int shape[3] = {136, 144, whole ? 160 : 136}; // rows are terms, too
        struct gemm_args a = gemm_of(shape, way, odd ? 4 : 8, KERNEL_BF16);
        gemm_keeps(&a, 7);
        gemm_name(what, "large gemm", &a);
        gemm_case(a, what);
        used(test.capability >= 80, what);
        bool maps = test.capability == CUDA_HOPPER_CAPABILITY && !test.no_maps;
        int packs = odd ? 2 : maps || whole ? 0 : 2;
        is_int(test.packs, test.capability >= 80 ? packs : 0, "%s: operands that are packed", what);
    }
}

static void large(void) {
    large_kept();
    for (size_t i = 0; i < sizeof large_gemms / sizeof *large_gemms; i++)
        large_gemm(large_gemms[i], (int)i);
    for (size_t i = 0; i < sizeof large_convs / sizeof *large_convs; i++)
        large_conv(i);
    large_ends();
    large_no_numbers();
}

// The bytes that a convolution of stride 1 has to move. A tile of one operand is read once for each
// tile of the other one, and nothing outside of the image is. Large tiles pack their operands
// first, which reads floats and writes words of the type; words in memory they read as they are.
// Splits are written and added up.
enum conv_pass { FORWARD, DATA, WEIGHT };
static int conv_floor(const struct conv2d_shape *s, enum conv_pass pass) {
    int side = test.large ? 128 : 64, word = s->type == KERNEL_TF32 ? 4 : 2;
    int of_x = s->x_store ? 2 : 4, of_y = s->y_store ? 2 : 4; // bytes
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
    int of_a = pass == FORWARD ? of_x : of_y, of_b = pass == WEIGHT ? of_x : 4;
    int of_c = pass == FORWARD ? of_y : pass == DATA ? of_x : 4;
    int tiles_m = (m + side - 1) / side, tiles_n = (n + side - 1) / side;
    int splits = CUDA_WORKSPACE_BYTES_MIN / (side * side * 4) / (tiles_m * tiles_n);
    splits = splits > k / 64 ? k / 64 : splits;
    int all_x = s->n * s->h * s->w * s->c, all_w = s->o * taps * s->c, all_y = pixels * s->o;
    int packed = (of_a == 4 ? pass == FORWARD ? all_x : all_y : 0) +
                 (of_b == 4 ? pass == WEIGHT ? all_x : all_w : 0);
    int bias = test.large && splits <= 1 ? tiles_m : m; // times that it is read
    return (test.large ? word : of_a) * a * tiles_n + (test.large ? word : of_b) * b * tiles_m +
           (splits > 1 ? 2 * 4 * splits * m * n : 0) + of_c * m * n +
           (pass == FORWARD ? 4 * bias * n : 0) + (test.large ? (4 + word) * packed : 0);
}

// All passes of a convolution move exactly the floor; whole tiles have whole sectors and no
// conflicts, too.
static void conv_counts(const struct conv2d_shape *s, int whole) {
    static const char *const names[] = {"conv", "data gradient", "weight gradient"};
    static void (*const run[])(const struct conv2d_shape *s, int odd,
                               const char *what) = {conv_forward, conv_data, conv_weight};
    char what[WHAT_BYTES];
    for (int pass = FORWARD; pass <= WEIGHT; pass++) {
        snprintf(what, sizeof what, "%s %s, kept %c%c, of %s tiles: bytes", names[pass],
                 type_names[s->type], "-x"[s->x_store != 0], "-y"[s->y_store != 0],
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
    for (int way = 0; way < 4 * (types() + 1); way++) {
        int type = way / 4, kept = type == types();
        struct gemm_args a = {.type = kept ? KERNEL_BF16 : (enum kernel_type)type,
                              .m = M,
                              .n = N,
                              .k = K,
                              .trans_a = way & 1,
                              .trans_b = way >> 1 & 1,
                              .alpha = 1,
                              .ldc = N};
        a.lda = a.trans_a ? M : K, a.ldb = a.trans_b ? K : N;
        if (kept)
            gemm_keeps(&a, 7);
        gemm_case(a, "gemm of whole tiles");
        case_counts("gemm of whole tiles");
        case_moved((kept ? 2 : 4) * (M * K * (N / TILE) + N * K * (M / TILE) + M * N),
                   "a tile is read once for each tile of the other operand");
    }
    for (int type = 0; type < types(); type++) {
        struct conv2d_shape s = {1, 8, 8, 32, 64, 3, 3, 1, 1, (enum kernel_type)type, 0, 0};
        conv_counts(&s, 1);
        s = (struct conv2d_shape){2, 9, 7, 5, 70, 3, 3, 1, 1, (enum kernel_type)type, 0, 0};
        conv_counts(&s, 0);
    }
    for (int kept = 1; kept < 4; kept++) {
        struct conv2d_shape s = {1, 8, 8, 32, 64, 3, 3, 1, 1, KERNEL_BF16, 0, 0};
        conv_keeps(&s, kept);
        conv_counts(&s, 1);
        s = (struct conv2d_shape){2, 9, 7, 5, 70, 3, 3, 1, 1, KERNEL_BF16, 0, 0};
        conv_keeps(&s, kept);
        conv_counts(&s, 0);
    }
}

// The same of large tiles. Operands are packed: read once as floats, written and read in the type;
// or they are bfloat16 in memory, and so is the result.
static void large_gemm_counts(int ways) {
    enum { M = 128, N = 256, K = 128, TILE = 128 };
    for (int n = 0; n < ways; n++) {
        int way = n % 3, kept = n < 3, bytes = n < 6 ? 2 : 4;
        struct gemm_args a = {.type = n < 6 ? KERNEL_BF16 : KERNEL_TF32,
                              .m = M,
                              .n = N,
                              .k = K,
                              .trans_a = way == 1,
                              .trans_b = way == 2,
                              .alpha = 1,
                              .ldc = N};
        a.lda = a.trans_a ? M : K, a.ldb = a.trans_b ? K : N;
        if (kept)
            gemm_keeps(&a, 7);
        gemm_case(a, "gemm of large tiles");
        case_counts("gemm of large tiles");
        enum { SPLITS = K / 64, PARTIAL = SPLITS * 2 * 4 * M * N }; // written and added up
        case_few_bytes((kept ? 0 : 4 + bytes) * (M * K + N * K) +
                           bytes * (M * K * (N / TILE) + N * K * (M / TILE)) + PARTIAL +
                           (kept ? 2 : 4) * M * N,
                       "gemm of large tiles");
    }
}

static void large_counts(void) {
    struct conv2d_shape s = {2, 8, 8, 128, 128, 3, 3, 1, 1, KERNEL_BF16, 0, 0};
    large_gemm_counts(types() > KERNEL_TF32 ? 9 : 6);
    conv_counts(&s, 1);
    for (int kept = 1; kept < 4; kept++) {
        conv_keeps(&s, kept);
        conv_counts(&s, 1);
    }
    for (int type = KERNEL_BF16; type <= KERNEL_HALF; type++) {
        s = (struct conv2d_shape){1, 14, 16, 160, 160, 1, 3, 1, 1, (enum kernel_type)type, 0, 0};
        conv_counts(&s, 0);
    }
    conv_keeps(&s, 3);
    conv_counts(&s, 0);
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
    large_kept();
    large_no_numbers();
    test.one_split = 1, test.no_maps = 0;
    large_conv(1), large_conv(10);
    test.one_split = 0;
}

static void hopper_edges(void) {
    if (device_capability() != CUDA_HOPPER_CAPABILITY)
        return;
    large_gemm(large_gemms[3], 3);
    large_conv(0);
    large_kept();
    large_conv(2);
    large_conv(11);
    large_ends();
    large_no_numbers();
}

static void hopper_counts(void) {
    struct conv2d_shape s = {2, 8, 8, 128, 128, 1, 3, 1, 1, KERNEL_BF16, 0, 0};
    if (device_capability() != CUDA_HOPPER_CAPABILITY)
        return;
    large_gemm_counts(9);
    conv_counts(&s, 1);
    conv_keeps(&s, 3);
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
                                                  {"acts", acts},
                                                  {"sums", sums},
                                                  {"sum_counts", sum_counts},
                                                  {"conv", conv},
                                                  {"large", large},
                                                  {"counts", counts},
                                                  {"large_counts", large_counts},
                                                  {"hopper", hopper},
                                                  {"hopper_edges", hopper_edges},
                                                  {"hopper_counts", hopper_counts}};
    return case_main(argc, argv, families, 11);
}
