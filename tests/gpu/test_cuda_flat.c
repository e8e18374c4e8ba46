// SPDX-License-Identifier: Apache-2.0
// Flat buffers, optimizers and the step of kernels/cuda against the reference.
#include "tests/gpu/cuda_case.h"

// ---- flat buffers -----------------------------------------------------------------------------
static void sum_squares_case(size_t n) {
    case_begin(0);
    float *x = host_random(n);
    double want, got, *d_sum = device_empty(sizeof got);
    REFERENCE(sum_squares, n, x, &want);
    cuda_sum_squares(&test.queue, n, device_floats(x, n), d_sum);
    memcpy(&got, device_bytes(d_sum, sizeof got), sizeof got);
    ok(fabs(got - want) <= 1e-14 * (double)n * want, "sum of squares: wrong result unless %g is %g",
       got, want);
    case_end();
}

// Tensors begin `from` numbers behind an aligned address.
static void map_case(enum kernel_type s, size_t n, size_t from) {
    struct cuda_queue *q = &test.queue;
    case_begin(0);
    float *x = host_tensor(s, n + from), *b = host_tensor(s, n + from), *y = host_random(n);
    float *one = host_random(n);
    for (size_t i = 0; i < n; i++)
        x[from + i] *= 4, one[i] = 4;
    char *d_x = device_tensor(s, x, n + from), *d_b = device_tensor(s, b, n + from);
    char *d_y = device_room(s, n + from);
    size_t skip = tensor_bytes(s, from);
    x += from, b += from, d_x += skip, d_b += skip, d_y += skip;
    cuda_relu_forward(q, s, n, d_x, d_y);
    REFERENCE(relu_forward, n, x, y);
    case_tensor(s, d_y, y, NULL, n, 0, "relu");
    cuda_relu_backward(q, s, n, d_x, d_b, d_y);
    REFERENCE(relu_backward, n, x, b, y);
    case_tensor(s, d_y, y, NULL, n, 0, "relu: gradient");
    cuda_gelu_forward(q, s, n, d_x, d_y);
    REFERENCE(gelu_forward, n, x, y);
    case_tensor(s, d_y, y, one, n, roundings(8), "gelu");
    cuda_gelu_backward(q, s, n, d_x, d_b, d_y);
    REFERENCE(gelu_backward, n, x, b, y);
    case_tensor(s, d_y, y, one, n, roundings(12), "gelu: gradient");
    cuda_add(q, s, n, d_x, d_b, d_b);
    REFERENCE(add, n, x, b, b);
    case_tensor(s, d_b, b, NULL, n, 0, "add");
    cuda_zero(q, s, n, d_y);
    REFERENCE(zero, n, y);
    case_tensor(s, d_y, y, NULL, n, 0, "zero");
    case_end();
}

static void flat_case(size_t n) {
    map_case(KERNEL_FLOAT, n, 0), map_case(KERNEL_BF16, n, 0), map_case(KERNEL_BF16, n, 1);
    case_begin(0);
    float *x = host_random(n), *b = host_random(n), *one = host_random(n);
    for (size_t i = 0; i < n; i++)
        x[i] *= 4, one[i] = 4;
    void *d_x = device_floats(x, n), *d_b = device_floats(b, n);
    cuda_axpy(&test.queue, n, 0.3, d_x, d_b);
    REFERENCE(axpy, n, 0.3, x, b);
    case_close(d_b, b, one, n, roundings(3), "axpy");
    cuda_scale(&test.queue, n, -0.7, d_x);
    REFERENCE(scale, n, -0.7, x);
    case_close(d_x, x, NULL, n, roundings(1), "scale");
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
    memcpy(&x[0], &(uint32_t){0x7f800001}, sizeof *x); // as a number, it would round to infinity
    cuda_narrow(&test.queue, 1, device_floats(x, 1), d_wire);
    cuda_widen(&test.queue, 1, d_wire, d_back);
    ok(isnan(*(const float *)device_bytes(d_back, sizeof *got)),
       "a bfloat16 of what is no number is none: wrong result");
    case_end();
}

// variant: 1 momentum or decoupled, 2 nesterov, 4 scalars from the device, 8 which say not to apply
static void optimizer_case(size_t n, int variant, int adam) {
    case_begin(0);
    float *p = host_random(n), *g = host_random(n), *m = host_random(n);
    float *v = host_absolute(host_random(n), n), *one = host_random(n);
    struct optim_range ranges[70], all[2] = {{0, n / 3, 0.1, 1}, {n / 3 + 1, n, 0, 0.5}};
    for (size_t i = 0; i < 70; i++) // more than one launch takes
        ranges[i] = (struct optim_range){i * 2, i * 2 + 1, 0.01 * (double)i, 1};
    int many = n == 300;
    void *d_p = device_floats(p, n), *d_g = device_floats(g, n), *d_m = device_floats(m, n);
    void *d_v = device_floats(v, n);
    struct kernel_step step = {.lr = 0.02,
                               .grad_scale = 0.5,
                               .correct1 = 1 - pow(0.9, 3),
                               .correct2 = 1 - pow(0.999, 3),
                               .apply = !(variant & 8)};
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
    if (adam)
        cuda_adam(&test.queue, &d_a);
    else
        cuda_sgd(&test.queue, &d_s);
    if (adam && step.apply != 0)
        REFERENCE(adam, &a);
    else if (step.apply != 0)
        REFERENCE(sgd, &s);
    case_close(d_p, p, one, n, roundings(6), adam ? "adam" : "sgd");
    case_close(d_m, m, one, n, roundings(4), adam ? "adam: first moment" : "sgd: momentum");
    case_close(d_v, v, one, n, roundings(4), "second moment");
    case_end();
}

// A grid has a most of blocks, so threads of long buffers loop; here those of short ones do.
static void flat(void) {
    flat_case(1), flat_case(255), flat_case(1000), wire_case(1), wire_case(1000);
    sum_squares_case(1), sum_squares_case(1000), sum_squares_case((size_t)1024 * 256 * 9 + 5);
    test.blocks_most = 1;
    flat_case(2600), wire_case(2600);
    for (int variant = 0; variant < 8; variant++)
        optimizer_case(7900, variant, 0), optimizer_case(7900, variant, 1);
    test.blocks_most = 0;
    optimizer_case(70, 4 | 8, 0), optimizer_case(70, 4 | 8, 1);
    for (int variant = 0; variant < 8; variant++) {
        optimizer_case(70, variant, 0), optimizer_case(70, variant, 1);
        optimizer_case(300, variant, variant & 1);
    }
    adam_first_case(300);
}

// ---- the step itself --------------------------------------------------------------------------
// One step with these squares and this loss; what the device makes of *s.
static void judge(struct kernel_step *s, double squares, double loss, int scaling) {
    enum { GRADS = 2900, SQUARES = 11 };
    struct loss_totals losses[2] = {{loss, 3, 5, 8}, {1, 2, 4, 8}};
    double parts[SQUARES] = {squares / 2, [4] = squares / 4, [SQUARES - 1] = squares / 4};
    float bad = squares < (double)INFINITY ? 1 : (float)squares;
    float grads[GRADS] = {
        [7] = bad, [299] = bad, [2650] = bad, [2700] = 2}; // the last bad one counts
    float tail[8] = {0};
    case_begin(0);
    const void *d_losses = device_copy(losses, sizeof losses);
    const void *d_grads = device_copy(grads, sizeof grads);
    double *d_parts = device_copy(parts, sizeof parts);
    struct kernel_step got[2];
    for (int alone = 0; alone < 2; alone++) { // without other ranks there is no tail
        struct kernel_step *d = device_copy(s, sizeof *s);
        float *d_tail = alone ? NULL : device_copy(tail, sizeof tail);
        struct step_totals_args t = {d,      d_losses, 2,       1.0 / 16,
                                     d_tail, 1,        d_parts, alone ? SQUARES : 0};
        struct step_judge_args j = {d,     d_tail,  d_parts, SQUARES, 0.9,
                                    0.999, scaling, d_grads, GRADS};
        cuda_step_totals(&test.queue, &t);
        cuda_step_judge(&test.queue, &j);
        memcpy(&got[alone], device_bytes(d, sizeof *s), sizeof *s);
    }
    uint64_t bits[2][sizeof *s / sizeof(uint64_t)]; // all members are doubles
    memcpy(bits, got, sizeof bits);
    ok(memcmp(bits[0], bits[1], sizeof bits[0]) == 0,
       "step: wrong result unless one rank is enough");
    *s = got[0];
    case_end();
}

// Totals of many micro-batches and ranges, with and without a tail for the other ranks.
static void totals_case(int n, int squares, int tailed) {
    struct loss_totals *losses = host_bytes((size_t)n * sizeof *losses), all = {0};
    double *parts = host_bytes((size_t)squares * sizeof *parts), sum = 0;
    struct kernel_step s = {.request = {1, 2}}, got;
    case_begin(0);
    for (int i = 0; i < n; i++) {
        losses[i] = (struct loss_totals){i + 1, i % 3, i % 5, 8};
        all.loss_sum += losses[i].loss_sum, all.top1 += losses[i].top1, all.top5 += losses[i].top5;
    }
    for (int i = 0; i < squares; i++)
        sum += parts[i] = 1 << i;
    struct kernel_step *d = device_copy(&s, sizeof s);
    float tail[5] = {0}, *d_tail = tailed ? device_copy(tail, sizeof tail) : NULL;
    struct step_totals_args a = {d,
                                 device_copy(losses, (size_t)n * sizeof *losses),
                                 n,
                                 0.5,
                                 d_tail,
                                 tailed ? 1 : 4,
                                 device_copy(parts, (size_t)squares * sizeof *parts),
                                 squares};
    cuda_step_totals(&test.queue, &a);
    memcpy(&got, device_bytes(d, sizeof got), sizeof got);
    if (tailed)
        memcpy(tail, device_bytes(d_tail, sizeof tail), sizeof tail);
    double ranks = tailed ? 1 : 4,
           want[] = {all.loss_sum / 2, (double)all.top1 / 2, (double)all.top5 / 2, 1, 2};
    int good = got.own_loss == all.loss_sum && (tailed || got.totals[5] == sum);
    for (int i = 0; i < 5; i++)
        good &= want[i] / ranks == (tailed ? (double)tail[i] : got.totals[i]);
    ok(good, "step: wrong result unless %d losses and %d squares are added up", n, squares);
    case_end();
}

static struct kernel_step new_step(double scale) {
    return (struct kernel_step){
        .lr = 1, .clip = 0.5, .request = {0, 1}, .loss_scale = scale, .power1 = 1, .power2 = 1};
}

static void step(void) {
    struct kernel_step s = new_step(1);
    for (int n = 1; n < 12; n++)
        totals_case(n, 12 - n, n & 1), totals_case(n, n + 5, ~n & 1);
    judge(&s, 4, 7, 0);
    ok(fabs(s.totals[0] - 0.5) < 1e-6 && fabs(s.totals[1] - 5.0 / 16) < 1e-6 && s.totals[3] == 0 &&
           s.totals[4] == 1 && s.totals[5] == 4 && s.own_loss == 8,
       "step: wrong result unless the totals are these");
    ok(s.apply == 1 && fabs(s.grad_scale - 0.5 / (2 + 1e-6)) < 1e-12 && s.updates == 1 &&
           fabs(s.correct1 - 0.1) < 1e-12 && fabs(s.correct2 - 0.001) < 1e-12,
       "step: wrong result unless the norm is clipped");
    judge(&s, (double)INFINITY, 7, 0);
    ok(s.apply == 0 && s.halted == 1 && s.updates == 1, "step: wrong result unless it halts");
    ok(s.culprit == 2651, "step: wrong result unless the gradient is noted");
    judge(&s, 4, 7, 0);
    ok(s.apply == 0 && s.culprit == 2651, "step: wrong result unless it stays halted");
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
    s = new_step(1);
    judge(&s, 4, (double)INFINITY, 0);
    ok(s.apply == 0 && s.halted == 1, "step: wrong result unless an infinite loss halts");
    s = new_step(8);
    judge(&s, (double)NAN, (double)NAN, 1);
    ok(s.apply == 0 && s.halted == 1 && s.loss_scale == 8,
       "step: wrong result unless a loss that is no number halts where gradients overflow");
    s = new_step(STEP_SCALE_LEAST);
    judge(&s, (double)NAN, 7, 1);
    ok(s.apply == 0 && s.halted == 1 && s.culprit == 2651,
       "step: wrong result unless the least loss scale halts");
    s = new_step(STEP_SCALE_MOST), s.good = STEP_SCALE_UPDATES - 1;
    judge(&s, 1, 7, 1);
    ok(s.loss_scale == STEP_SCALE_MOST && s.good == 0,
       "step: wrong result unless the loss scale has a limit");
}

int main(int argc, char **argv) {
    static const struct case_family families[] = {{"flat", flat}, {"step", step}};
    return case_main(argc, argv, families, 2);
}
