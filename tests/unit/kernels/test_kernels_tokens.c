// SPDX-License-Identifier: Apache-2.0
// The kernels of vision transformers: every gradient of the reference in double precision against
// finite differences of its own forward pass, then every instruction set that this machine has
// against that reference, with one and with several threads.
#include "kernels/kernels.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

enum { OUTS_MAX = 6, INS_MAX = 6, THREADS = 3 };

// One case: inputs and outputs as doubles, run by any backend.
struct runner {
    const struct kernel_backend *k;
    struct kernel_ctx *ctx;
};

struct buffers {
    void *in[INS_MAX], *out[OUTS_MAX];
};

struct kase {
    const char *what;
    void (*forward)(const struct runner *r, const struct buffers *b, const int *size);
    void (*backward)(const struct runner *r, const struct buffers *b, const int *size);
    int size[8];
    int ins, outs;
    // in: what is differentiated first, then dy; out: y, what is kept, then the gradients of the
    // first inputs in their order, out[grad + i] that of in[i].
    int diffs, dy, grad;
    size_t in_len[INS_MAX], out_len[OUTS_MAX];
    double tolerance;
    enum kernel_type type;  // KERNEL_BF16: inputs are numbers of bfloat16
    double exact[OUTS_MAX]; // a tolerance of this output alone, or 0
    struct buffers want;    // of the reference in double precision, made once
};

static size_t workspace(const struct runner *r, size_t bytes) {
    if (r->k->reserve(r->ctx, bytes) != 0)
        bail_out("out of memory");
    return bytes;
}

// ---- layer norm: size = rows, cols, residual, accumulate ---------------------------------------

static void ln_forward(const struct runner *r, const struct buffers *b, const int *size) {
    struct layernorm_args a = {.rows = size[0], .cols = size[1], .eps = 1e-5};
    a.x = b->in[0], a.gamma = b->in[1], a.beta = b->in[2], a.y = b->out[0];
    a.save_mean = b->out[1], a.save_invstd = b->out[2];
    if (size[2])
        a.residual = b->in[4], a.sum = b->in[5];
    r->k->layernorm_forward(r->ctx, &a);
}

static void ln_backward(const struct runner *r, const struct buffers *b, const int *size) {
    struct layernorm_grad_args a = {.rows = size[0], .cols = size[1], .accumulate = size[3]};
    workspace(r, r->k->layernorm_workspace(r->ctx, size[0], size[1]));
    a.x = size[2] ? b->in[5] : b->in[0], a.dy = b->in[3], a.gamma = b->in[1];
    a.save_mean = b->out[1], a.save_invstd = b->out[2];
    a.dx = b->out[3], a.dgamma = b->out[4], a.dbeta = b->out[5];
    a.dsum = size[4] ? b->in[4] : NULL;
    r->k->layernorm_backward(r->ctx, &a);
}

static struct kase ln_case(const char *what, int rows, int cols, int residual, int accumulate,
                           int dsum) {
    struct kase c = {what,
                     ln_forward,
                     ln_backward,
                     {rows, cols, residual, accumulate, dsum},
                     6,
                     6,
                     .diffs = accumulate || dsum ? 0 : 3,
                     .dy = 3,
                     .grad = 3,
                     .tolerance = 3e-5};
    size_t n = (size_t)rows * cols;
    const size_t in[] = {n, cols, cols, n, n, n}, out[] = {n, rows, rows, n, cols, cols};
    memcpy(c.in_len, in, sizeof in), memcpy(c.out_len, out, sizeof out);
    return c;
}

// ---- GELU: size = n ----------------------------------------------------------------------------

static void gelu_forward(const struct runner *r, const struct buffers *b, const int *size) {
    r->k->gelu_forward(r->ctx, (size_t)size[0], b->in[0], b->out[0]);
}

static void gelu_backward(const struct runner *r, const struct buffers *b, const int *size) {
    r->k->gelu_backward(r->ctx, (size_t)size[0], b->in[0], b->in[1], b->out[1]);
}

static struct kase gelu_case(const char *what, int n) {
    struct kase c = {what, gelu_forward, gelu_backward, {n},       2,
                     2,    .diffs = 1,   .dy = 1,       .grad = 1, .tolerance = 1e-6};
    for (int i = 0; i < 2; i++)
        c.in_len[i] = c.out_len[i] = (size_t)n;
    return c;
}

// ---- attention: size = n, t, heads, d, keys, type ----------------------------------------------

static struct attention_shape attention_of(const int *z) {
    return (struct attention_shape){z[0], z[1], z[2], z[3], z[4], (enum kernel_type)z[5], 0};
}

static void attention_forward(const struct runner *r, const struct buffers *b, const int *size) {
    const struct attention_shape s = attention_of(size);
    workspace(r, r->k->attention_workspace(r->ctx, &s));
    r->k->attention_forward(r->ctx, &s, b->in[0], b->out[0], b->out[1]);
}

static void attention_backward(const struct runner *r, const struct buffers *b, const int *size) {
    const struct attention_shape s = attention_of(size);
    r->k->attention_backward(r->ctx, &s, b->in[0], b->out[0], b->out[1], b->in[1], b->out[2]);
}

static struct kase attention_case(const char *what, int n, int t, int heads, int d, int keys) {
    struct kase c = {
        what,       attention_forward, attention_backward, {n, t, heads, d, keys}, 2, 3,
        .diffs = 1, .dy = 1,           .grad = 2,          .tolerance = 3e-5};
    size_t y = (size_t)n * t * heads * d, lse = (size_t)n * heads * t;
    size_t qkv = keys ? y + 2 * (size_t)n * keys * heads * d : 3 * y;
    c.in_len[0] = qkv, c.in_len[1] = y;
    c.out_len[0] = y, c.out_len[1] = lse, c.out_len[2] = qkv;
    return c;
}

// With exact inputs two operands are rounded: the exponentials, and dS. Each is within 2^-9 of what
// it is, and sums of such terms are not larger than the largest result by more than a factor of
// two. Logarithms of sums are as in float.
static struct kase attention_bf16_case(const char *what, int n, int t, int heads, int d, int keys) {
    struct kase c = attention_case(what, n, t, heads, d, keys);
    c.size[5] = c.type = KERNEL_BF16;
    c.exact[1] = c.tolerance;
    c.tolerance = 1.0 / 256;
    return c;
}

// ---- tokens: size = n, p, d, class token, positions, accumulate --------------------------------

static void tokens_forward(const struct runner *r, const struct buffers *b, const int *size) {
    const struct tokens_shape s = {size[0], size[1], size[2], 0};
    r->k->tokens_forward(r->ctx, &s, b->in[0], size[3] ? b->in[1] : NULL, size[4] ? b->in[2] : NULL,
                         b->out[0]);
}

static void tokens_backward(const struct runner *r, const struct buffers *b, const int *size) {
    const struct tokens_shape s = {size[0], size[1], size[2], 0};
    r->k->tokens_backward(r->ctx, &s, b->in[3], b->out[1], size[3] ? b->out[2] : NULL,
                          size[4] ? b->out[3] : NULL, size[5]);
}

static struct kase tokens_case(const char *what, int n, int p, int d, int first, int accumulate) {
    struct kase c = {what,
                     tokens_forward,
                     tokens_backward,
                     {n, p, d, first, first, accumulate},
                     4,
                     4,
                     .diffs = accumulate ? 0
                              : first    ? 3
                                         : 1,
                     .dy = 3,
                     .grad = 1,
                     .tolerance = 1e-5};
    size_t x = (size_t)n * p * d, t = (size_t)p + (size_t)first;
    const size_t in[] = {x, d, t * d, n * t * d}, out[] = {n * t * d, x, d, t * d};
    memcpy(c.in_len, in, sizeof in), memcpy(c.out_len, out, sizeof out);
    return c;
}

// size = n, t, d
static void first_forward(const struct runner *r, const struct buffers *b, const int *size) {
    r->k->first_token_forward(r->ctx, size[0], size[1], size[2], b->in[0], b->out[0]);
}

static void first_backward(const struct runner *r, const struct buffers *b, const int *size) {
    r->k->first_token_backward(r->ctx, size[0], size[1], size[2], b->in[1], b->out[1]);
}

static struct kase first_case(const char *what, int n, int t, int d) {
    struct kase c = {what, first_forward, first_backward, {n, t, d}, 2,
                     2,    .diffs = 1,    .dy = 1,        .grad = 1};
    c.in_len[0] = c.out_len[1] = (size_t)n * t * d;
    c.in_len[1] = c.out_len[0] = (size_t)n * d;
    return c;
}

// size = conv2d_shape: patches of any size
static struct conv2d_shape patch_shape(const int *z) {
    return (struct conv2d_shape){z[0], z[1], z[2], z[3],         z[4], z[5],
                                 z[5], z[5], 0,    KERNEL_FLOAT, 0,    0};
}

static void patch_forward(const struct runner *r, const struct buffers *b, const int *size) {
    const struct conv2d_shape s = patch_shape(size);
    workspace(r, r->k->conv2d_workspace(r->ctx, &s));
    r->k->conv2d_forward(r->ctx, &s, b->in[0], b->in[1], b->in[2], 0, b->out[0]);
}

static void patch_backward(const struct runner *r, const struct buffers *b, const int *size) {
    const struct conv2d_shape s = patch_shape(size);
    size_t rows = (size_t)s.n * (size_t)(s.h / s.kh) * (size_t)(s.w / s.kw);
    r->k->conv2d_backward_data(r->ctx, &s, b->in[3], b->in[1], b->out[1], size[6]);
    r->k->conv2d_backward_weight(r->ctx, &s, b->in[0], b->in[3], b->out[2], size[6]);
    workspace(r, r->k->bias_workspace(r->ctx, (int64_t)rows, s.o));
    r->k->bias_backward(r->ctx, (int64_t)rows, s.o, b->in[3], b->out[3], size[6]);
}

static struct kase patch_case(const char *what, int n, int side, int c, int o, int patch,
                              int accumulate) {
    struct kase k = {what,
                     patch_forward,
                     patch_backward,
                     {n, side, side + 1, c, o, patch, accumulate},
                     4,
                     4,
                     .diffs = accumulate ? 0 : 3,
                     .dy = 3,
                     .grad = 1,
                     .tolerance = 3e-5};
    size_t x = (size_t)n * side * (side + 1) * c, w = (size_t)o * patch * patch * c;
    size_t y = (size_t)n * (side / patch) * ((side + 1) / patch) * o;
    const size_t in[] = {x, w, o, y}, out[] = {y, x, w, o};
    memcpy(k.in_len, in, sizeof in), memcpy(k.out_len, out, sizeof out);
    return k;
}

// ---- the two proofs ----------------------------------------------------------------------------

// Values of the case in the elements of a backend; every call gives the same ones.
static struct buffers new_buffers(const struct runner *r, const struct kase *c, uint64_t seed) {
    struct buffers b = {{0}, {0}};
    random_state = seed;
    for (int i = 0; i < c->ins + c->outs; i++) {
        size_t n = i < c->ins ? c->in_len[i] : c->out_len[i - c->ins];
        void **at = i < c->ins ? &b.in[i] : &b.out[i - c->ins];
        *at = malloc(n * r->k->real_bytes + 8);
        for (size_t j = 0; j < n; j++) {
            float v = 2 * random_float();
            if (c->type == KERNEL_BF16) {
                uint32_t bits;
                memcpy(&bits, &v, sizeof bits);
                bits &= 0xffff0000U;
                memcpy(&v, &bits, sizeof bits);
            }
            if (r->k->real_bytes == sizeof(float))
                ((float *)*at)[j] = v;
            else
                ((double *)*at)[j] = (double)v;
        }
    }
    return b;
}

static void free_buffers(struct buffers *b) {
    for (int i = 0; i < INS_MAX; i++)
        free(b->in[i]);
    for (int i = 0; i < OUTS_MAX; i++)
        free(b->out[i]);
}

static double loss(const struct runner *r, const struct kase *c, const struct buffers *b) {
    double sum = 0;
    c->forward(r, b, c->size);
    for (size_t i = 0; i < c->out_len[0]; i++)
        sum += ((double *)b->out[0])[i] * ((double *)b->in[c->dy])[i];
    return sum;
}

// Central differences at up to 80 places of every input.
static void check_gradients(const struct runner *r, const struct kase *c) {
    struct buffers b = new_buffers(r, c, 2463534242U);
    const double h = 1e-5;
    c->forward(r, &b, c->size);
    c->backward(r, &b, c->size);
    for (int i = 0; i < c->diffs; i++) {
        double worst = 0, *x = b.in[i];
        const double *grad = b.out[c->grad + i];
        for (size_t j = 0; j < c->in_len[i]; j += c->in_len[i] / 80 + 1) {
            double keep = x[j];
            x[j] = keep + h;
            double up = loss(r, c, &b);
            x[j] = keep - h;
            double down = loss(r, c, &b);
            x[j] = keep;
            double d = fabs((up - down) / (2 * h) - grad[j]) / (1 + fabs(grad[j]));
            worst = d <= worst ? worst : d; // a NaN counts
        }
        if (!ok(worst < 1e-7, "the gradient of %s is right, input %d", c->what, i))
            diag("worst relative difference %.3g", worst);
    }
    free_buffers(&b);
}

// The values that every backend is given, and what it makes of them.
static struct buffers results(const struct runner *r, const struct kase *c) {
    struct buffers b = new_buffers(r, c, 88172645463325252U);
    c->forward(r, &b, c->size);
    c->backward(r, &b, c->size);
    return b;
}

static void check_same(const struct runner *one, const struct runner *many, const struct kase *c,
                       const char *isa) {
    struct buffers alone = results(one, c), shared = results(many, c);
    for (int o = 0; o < c->outs; o++) {
        double worst = 0, scale = 1;
        for (size_t i = 0; i < c->out_len[o]; i++) {
            double want = ((double *)c->want.out[o])[i];
            double d = fabs((double)((float *)alone.out[o])[i] - want);
            worst = d <= worst ? worst : d; // a NaN counts
            scale = fabs(want) > scale ? fabs(want) : scale;
        }
        double limit = c->exact[o] > 0 ? c->exact[o] : c->tolerance;
        bool same = memcmp(alone.out[o], shared.out[o], c->out_len[o] * sizeof(float)) == 0;
        if (!ok(worst <= limit * scale && same, "%s: %s is right, output %d", isa, c->what, o))
            diag("worst difference %.3g of %.3g; thread counts %s", worst, scale,
                 same ? "agree" : "differ");
    }
    free_buffers(&alone), free_buffers(&shared);
}

// Far from zero GELU is x or nothing, and softmax is the largest score's: nothing may overflow.
static void check_extremes(const struct runner *r, const char *isa) {
    const float x[8] = {-100, -12, -5, -0.0F, 0, 5, 12, 3e4F};
    float y[8], dy[8] = {1, 1, 1, 1, 1, 1, 1, 1}, dx[8];
    r->k->gelu_forward(r->ctx, 8, x, y);
    r->k->gelu_backward(r->ctx, 8, x, dy, dx);
    ok(fabsf(y[0]) < 1e-6F && fabsf(y[1]) < 1e-6F && y[3] <= 0 && y[4] >= 0 && y[7] == 3e4F,
       "%s: GELU is right far from zero", isa);
    near(y[2], -1.4332581e-6, 5e-7, "%s: GELU of -5 is right", isa);
    ok(fabsf(dx[0]) < 1e-6F && fabsf(dx[3] - 0.5F) < 1e-6F && fabsf(dx[7] - 1) < 1e-6F,
       "%s: the gradient of GELU is right", isa);
    struct attention_shape s = {1, 2, 1, 1, 0, KERNEL_FLOAT, 0};
    const float qkv[6] = {3e4F, 1e3F, 7, 3e4F, -1e3F, 9}; // q, k, v of two tokens
    float out[2], lse[2];
    workspace(r, r->k->attention_workspace(r->ctx, &s));
    r->k->attention_forward(r->ctx, &s, qkv, out, lse);
    ok(out[0] == 7 && out[1] == 7 && lse[0] == 3e7F, "%s: scores of millions", isa);
    const float bad[6] = {1, NAN, 7, 1, 2, 9};
    r->k->attention_forward(r->ctx, &s, bad, out, lse);
    ok(out[0] != out[0] && lse[1] != lse[1], "%s: a NaN shows", isa);
    s.type = KERNEL_BF16;
    workspace(r, r->k->attention_workspace(r->ctx, &s));
    r->k->attention_forward(r->ctx, &s, bad, out, lse);
    ok(out[0] != out[0] && lse[1] != lse[1], "%s: a NaN shows in bf16", isa);
}

static void check_instruction_set(const char *isa, struct kase *const *cases, int count) {
    struct runner one = {&kernels_cpu, NULL}, many = {&kernels_cpu, NULL};
    int rc = one.k->open(&one.ctx, &(struct kernel_config){.isa = isa});
    if (rc == -95) { // ENOTSUP
        skip(1, "this machine has no %s", isa);
        return;
    }
    if (rc != 0 || many.k->open(&many.ctx, &(struct kernel_config){.isa = isa, .threads = THREADS}))
        bail_out("cannot open %s", isa);
    for (int c = 0; c < count; c++)
        check_same(&one, &many, cases[c], isa);
    check_extremes(&one, isa);
    one.k->close(one.ctx), many.k->close(many.ctx);
}

int main(void) {
    static const char *const isas[] = {"avx512-amx", "avx512", "avx2", "base"};
    enum { ISAS = sizeof isas / sizeof isas[0] };
    struct kase small[] = {
        ln_case("layer norm", 5, 7, 0, 0, 0),
        ln_case("layer norm of a sum", 4, 9, 1, 0, 0),
        gelu_case("GELU", 40),
        attention_case("attention", 2, 5, 2, 3, 0),
        attention_case("attention over one token", 1, 1, 1, 4, 0),
        attention_case("attention over fewer keys", 2, 5, 2, 3, 2),
        attention_case("attention over more keys", 2, 2, 1, 3, 7),
        tokens_case("tokens with a class token", 2, 3, 4, 1, 0),
        tokens_case("bare tokens", 2, 3, 4, 0, 0),
        first_case("first token", 3, 4, 5),
        patch_case("patches of 3", 2, 7, 2, 5, 3, 0),
        patch_case("patches of 18", 1, 37, 1, 2, 18, 0),
    };
    struct kase large[] = {
        ln_case("layer norm 300x192", 300, 192, 0, 0, 0),
        ln_case("layer norm of a sum 197x77", 197, 77, 1, 1, 1),
        ln_case("layer norm 3x1", 3, 1, 0, 1, 0),
        ln_case("layer norm 70x16", 70, 16, 1, 0, 1),
        gelu_case("GELU of 40001", 40001),
        attention_case("attention 2x197, 3 heads of 64", 2, 197, 3, 64, 0),
        attention_case("attention 3x50, 2 heads of 33", 3, 50, 2, 33, 0),
        attention_case("attention 1x300, 1 head of 8", 1, 300, 1, 8, 0),
        attention_case("attention 4x1, 2 heads of 5", 4, 1, 2, 5, 0),
        attention_case("attention 3x50 over 64 keys, 2 heads of 16", 3, 50, 2, 16, 64),
        attention_case("attention 2x197 over 33 keys, 3 heads of 7", 2, 197, 3, 7, 33),
        attention_bf16_case("bf16 attention 2x197, 3 heads of 64", 2, 197, 3, 64, 0),
        attention_bf16_case("bf16 attention 3x50, 2 heads of 33", 3, 50, 2, 33, 0),
        attention_bf16_case("bf16 attention 1x300, 1 head of 8", 1, 300, 1, 8, 0),
        attention_bf16_case("bf16 attention 4x1, 2 heads of 5", 4, 1, 2, 5, 0),
        attention_bf16_case("bf16 attention 2x64, 2 heads of 32", 2, 64, 2, 32, 0),
        attention_bf16_case("bf16 attention 3x50 over 64 keys, 2 heads of 16", 3, 50, 2, 16, 64),
        attention_bf16_case("bf16 attention 2x197 over 33 keys, 3 heads of 7", 2, 197, 3, 7, 33),
        attention_bf16_case("bf16 attention 1x70 over 1100 keys, 1 head of 65", 1, 70, 1, 65, 1100),
        tokens_case("tokens 5x49x70 with a class token", 5, 49, 70, 1, 1),
        tokens_case("bare tokens 3x7x9", 3, 7, 9, 0, 0),
        first_case("first token 5x9x33", 5, 9, 33),
        patch_case("patches of 32", 3, 64, 3, 40, 32, 0),
        patch_case("patches of 16, accumulated", 2, 50, 3, 33, 16, 1),
        patch_case("patches of 2 in many blocks", 9, 33, 5, 7, 2, 1),
    };
    struct runner exact = {&kernels_reference_f64, NULL};
    if (exact.k->open(&exact.ctx, &(struct kernel_config){0}) != 0)
        bail_out("cannot open %s", exact.k->name);
    enum { SMALL = sizeof small / sizeof small[0], LARGE = sizeof large / sizeof large[0] };
    struct kase *cases[SMALL + LARGE];
    for (int i = 0; i < SMALL + LARGE; i++) {
        cases[i] = i < SMALL ? &small[i] : &large[i - SMALL];
        cases[i]->want = results(&exact, cases[i]);
    }
    for (int i = 0; i < SMALL; i++)
        check_gradients(&exact, &small[i]);
    for (int i = 0; i < ISAS; i++)
        check_instruction_set(isas[i], cases, SMALL + LARGE);
    for (int i = 0; i < SMALL + LARGE; i++)
        free_buffers(&cases[i]->want);
    exact.k->close(exact.ctx);
    return done_testing();
}
