// SPDX-License-Identifier: Apache-2.0
// The whole step on the fast kernels: the same as on the reference ones, the same bits whatever the
// number of threads and the size that was planned for, optimizers as torch.optim defines them, and
// no allocation once it runs.
#include "base/arena.h"
#include "nn/optimizer.h"
#include "tests/tap.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 8, CLASSES = 10 };

static struct nn_model model;
static size_t image_elements;

static void open_typed(struct network *net, const struct kernel_backend *k, int batch, int threads,
                       enum kernel_type type) {
    struct err e;
    struct network_config c = {.model = &model,
                               .backend = k,
                               .kernel = {.threads = threads, .keep = KERNEL_KEEP_NEVER},
                               .type = type,
                               .batch = batch,
                               .eval_batch = batch,
                               .states = 2};
    if (network_open(net, &c, &e) < 0)
        bail_out("%s", e.text);
    network_init(net, 5);
}

static void open_network(struct network *net, const struct kernel_backend *k, int batch,
                         int threads) {
    open_typed(net, k, batch, threads, KERNEL_FLOAT);
}

// Deterministic pixels and labels for n samples.
static void feed(struct network *net, int n, enum network_mode mode) {
    float *x = network_input(net, mode);
    int32_t labels[BATCH];
    uint32_t state = 2463534242u;
    for (size_t i = 0; i < image_elements * (size_t)n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    for (int i = 0; i < n; i++)
        labels[i] = (i * 7 + 3) % CLASSES;
    network_labels(net, labels, n);
}

static double step(struct network *net, struct optimizer *o, int n) {
    struct loss_totals t;
    feed(net, n, NETWORK_TRAIN);
    network_forward(net, n, NETWORK_TRAIN);
    network_loss(net, n, 0.1, 1.0 / n);
    network_losses(net, &t);
    network_backward(net, n, false, 1, model.layers);
    if (o) {
        optimizer_begin(o);
        optimizer_apply(o, net, 1e-3, 1, 0, model.param_elements / 2, 0);
        optimizer_apply(o, net, 1e-3, 1, model.param_elements / 2, model.param_elements + 16,
                        model.param_elements / 2);
    }
    return t.loss_sum / n;
}

static const float *reals(const char *buffer) {
    return (const float *)(const void *)buffer;
}

// Largest difference relative to the largest value.
static double difference(const float *a, const float *b, size_t n) {
    double most = 0, scale = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]), v = fabs((double)b[i]);
        most = d > most || d != d ? d : most;
        scale = v > scale ? v : scale;
    }
    return most / scale;
}

// Filters of a parameter whose gradients differ. Where two values of a pooling window, or a value
// and ReLU's zero, are apart by no more than rounding, the backends may rightly choose differently,
// and one filter's gradient goes another way.
static int filters_apart(const struct nn_param *p, const float *a, const float *b) {
    size_t row = p->count / (size_t)p->out;
    double scale = 0;
    int far = 0;
    for (size_t i = 0; i < p->count; i++)
        scale = fmax(scale, fabs((double)b[p->begin + i]));
    for (size_t o = 0; o < (size_t)p->out; o++) {
        double most = 0;
        for (size_t i = 0; i < row; i++) {
            size_t at = p->begin + o * row + i;
            double d = fabs((double)a[at] - (double)b[at]);
            most = d > most || d != d ? d : most;
        }
        far += !(most <= 3e-4 * scale);
    }
    return far;
}

static void test_backends(void) {
    struct network fast, plain;
    open_network(&fast, &kernels_cpu, BATCH, 1);
    open_network(&plain, &kernels_reference, BATCH, 1);
    near(step(&fast, NULL, BATCH), step(&plain, NULL, BATCH), 1e-5, "the loss is the reference's");
    int far = 0;
    for (int i = 0; i < model.params; i++)
        far += filters_apart(&model.param[i], reals(fast.grads), reals(plain.grads));
    ok(far <= 2, "the gradients are the reference's, but for %d filters", far);
    near(difference(reals(fast.stats), reals(plain.stats), model.stat_elements), 0, 1e-5,
         "the running statistics are the reference's");
    feed(&fast, BATCH, NETWORK_EVAL);
    feed(&plain, BATCH, NETWORK_EVAL);
    network_forward(&fast, BATCH, NETWORK_EVAL);
    network_forward(&plain, BATCH, NETWORK_EVAL);
    near(difference(network_logits(&fast), network_logits(&plain), BATCH * CLASSES), 0, 1e-4,
         "the logits in evaluation are the reference's");
    network_close(&fast);
    network_close(&plain);
}

// Products in bfloat16: the reference's but for values that rounding throws to another side, and
// not float's. Weights and statistics stay floats.
static void test_bf16(void) {
    struct network fast, plain, whole;
    open_network(&whole, &kernels_cpu, BATCH, 1);
    open_typed(&fast, &kernels_cpu, BATCH, 1, KERNEL_BF16);
    open_typed(&plain, &kernels_reference, BATCH, 1, KERNEL_BF16);
    double mine = step(&fast, NULL, BATCH), theirs = step(&plain, NULL, BATCH);
    double exact = step(&whole, NULL, BATCH);
    near(mine, theirs, 2e-3, "bf16: the loss is the reference's");
    ok(fabs(mine - exact) > 1e-6 && fabs(mine - exact) < 0.05,
       "bf16: the loss is near that of float");
    near(difference(reals(fast.stats), reals(plain.stats), model.stat_elements), 0, 2e-3,
         "bf16: the running statistics are the reference's");
    network_close(&fast);
    network_close(&plain);
    network_close(&whole);
}

static void test_bits(void) {
    struct network one, two, large;
    struct optimizer o[3];
    for (int i = 0; i < 3; i++)
        o[i] = (struct optimizer){.kind = TRAIN_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    for (int i = 0; i < 3; i++)
        optimizer_open(&o[i], &model);
    open_network(&one, &kernels_cpu, BATCH - 3, 1);
    open_network(&two, &kernels_cpu, BATCH - 3, 2);
    open_network(&large, &kernels_cpu, BATCH, 1);
    for (int i = 0; i < 2; i++) {
        step(&one, &o[0], BATCH - 3);
        step(&two, &o[1], BATCH - 3);
        step(&large, &o[2], BATCH - 3);
    }
    size_t bytes = model.param_elements * sizeof(float);
    ok(memcmp(one.params, two.params, bytes) == 0, "two threads give the bits of one");
    ok(memcmp(one.params, large.params, bytes) == 0,
       "a plan for larger batches gives the same bits");
    network_close(&one);
    network_close(&two);
    network_close(&large);
    for (int i = 0; i < 3; i++)
        optimizer_close(&o[i]);
}

// One element of the parameters, by torch.optim's formulas in double.
static void test_optimizers(void) {
    static const struct optimizer cases[] = {
        {.kind = TRAIN_SGD, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
        {.kind = TRAIN_SGD, .momentum = 0.9},
        {.kind = TRAIN_ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01},
        {.kind = TRAIN_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct network net;
        struct optimizer o = cases[i];
        open_network(&net, &kernels_cpu, 1, 1);
        optimizer_open(&o, &model);
        size_t at = model.param[3].begin + 1;
        double p = 0.5, m = 0, v = 0, lr = 0.1;
        network_set(&net, net.params, at, 1, &(float){0.5f});
        for (int t = 1; t <= 3; t++) {
            float grad = 0.3f * (float)t - 0.5f;
            double g = (double)grad;
            network_set(&net, net.grads, at, 1, &grad);
            optimizer_begin(&o);
            optimizer_apply(&o, &net, lr, 1, 0, model.param_elements, 0);
            if (o.kind == TRAIN_ADAMW)
                p -= lr * o.weight_decay * p;
            else
                g += o.weight_decay * p;
            if (o.kind == TRAIN_SGD) {
                m = o.momentum * m + g;
                p -= lr * (o.nesterov ? g + o.momentum * m : m);
                continue;
            }
            m = o.beta1 * m + (1 - o.beta1) * g;
            v = o.beta2 * v + (1 - o.beta2) * g * g;
            p -= lr * (m / (1 - pow(o.beta1, t))) / (sqrt(v / (1 - pow(o.beta2, t))) + o.eps);
        }
        near(reals(net.params)[at], p, 1e-6, "%s%s: three updates", train_optimizer_words[o.kind],
             o.nesterov ? " with nesterov" : "");
        optimizer_close(&o);
        network_close(&net);
    }
}

// One pass by hand: torchvision's constants, and nothing written but what belongs to the model.
static void test_constants(void) {
    struct network net;
    struct optimizer o = {.kind = TRAIN_SGD, .weight_decay = 0.5};
    open_network(&net, &kernels_cpu, BATCH, 1);
    optimizer_open(&o, &model);
    float mean, var, x;
    const struct nn_stat *s = &model.stat[0];
    step(&net, NULL, BATCH);
    is_int(net.tracked, 1, "a training pass is counted");
    network_forward(&net, BATCH, NETWORK_TRAIN_APART);
    network_forward(&net, BATCH, NETWORK_EVAL);
    is_int(net.tracked, 1, "a pass that keeps the running statistics is not counted");
    network_get(&net, net.stats, s->mean, 1, &mean);
    network_get(&net, net.apart, s->mean, 1, &x);
    near(mean, x, 1e-6 * fabs((double)x), "both kinds of statistics see the same batch");
    feed(&net, BATCH, NETWORK_TRAIN);
    network_forward(&net, BATCH, NETWORK_TRAIN);
    network_get(&net, net.stats, s->mean, 1, &x);
    near((double)x / (double)mean, 1.9, 1e-4, "a running mean takes a tenth of each batch's");
    network_get(&net, net.stats, s->var, 1, &var);
    ok(var > 0.8f, "a running variance keeps nine tenths");
    size_t most = model.param_elements;
    float tail[NETWORK_TAIL];
    for (int i = 0; i < NETWORK_TAIL; i++)
        tail[i] = 1;
    network_set(&net, net.grads, most, NETWORK_TAIL, tail);
    float *next = (float *)(void *)(net.params + most * sizeof(float)), before = next[0];
    optimizer_apply(&o, &net, 1, 1, 0, most + NETWORK_TAIL, 0);
    near(next[0], before, 0, "bytes behind the parameters do not change");
    optimizer_close(&o);
    network_close(&net);
}

static int reserve_none(struct kernel_ctx *ctx, size_t bytes) {
    (void)ctx;
    return bytes ? -ENOMEM : 0;
}

static void test_too_large(void) {
    struct kernel_backend poor = kernels_cpu;
    struct network net;
    struct err e;
    struct network_config c = {.model = &model,
                               .backend = &kernels_cpu,
                               .batch = BATCH,
                               .states = 2,
                               .memory_bytes_max = 20 << 20,
                               .copy_bytes = 1};
    is_int(network_open(&net, &c, &e), -1, "a plan above the memory there is is refused");
    has_str(e.text, "there are 21.0 MB", "the error has the memory that the machine has");
    has_str(e.text, "a smaller model", "the error suggests a smaller model");
    c.memory_bytes_max = (size_t)1 << 40;
    is_int(network_open(&net, &c, &e), 0, "a plan that fits is accepted");
    c.memory_bytes_max = net.memory_bytes + net.workspace_bytes + 1;
    ok(net.workspace_bytes > 0, "the kernels need memory, too");
    network_close(&net);
    is_int(network_open(&net, &c, &e), 0, "a plan may take all of the memory");
    network_close(&net);
    c.memory_bytes_max--;
    is_int(network_open(&net, &c, &e), -1, "the kernels and the copy for checkpoints count");
    poor.reserve = reserve_none, c.backend = &poor, c.memory_bytes_max = 0;
    is_int(network_open(&net, &c, &e), -1, "a backend may have less memory than it should");
    has_str(e.text, "of memory and less is left: ", "the error has the numbers of the plan");
}

static int allocations;
static void count_malloc(const volatile void *p, size_t size) {
    (void)p;
    (void)size;
    allocations++;
}
static void count_free(const volatile void *p) {
    (void)p;
}
// The sanitizer's own, where the program was built with it.
extern int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                       size_t),
                                                     void (*on_free)(const volatile void *))
    __attribute__((weak));

static void test_allocations(void) {
    struct network net;
    struct optimizer o = {.kind = TRAIN_SGD, .momentum = 0.9};
    if (!__sanitizer_install_malloc_and_free_hooks) {
        skip(1, "allocations are counted in the sanitizer build only");
        return;
    }
    open_network(&net, &kernels_cpu, BATCH, 2);
    optimizer_open(&o, &model);
    __sanitizer_install_malloc_and_free_hooks(count_malloc, count_free);
    allocations = 0;
    for (int i = 0; i < 3; i++)
        step(&net, &o, BATCH);
    is_int(allocations, 0, "three steps allocate nothing");
    free(heap_alloc(1));
    ok(allocations > 0, "the allocation counter works");
    optimizer_close(&o);
    network_close(&net);
}

// ---- limits ----

enum { USER_OF_NOBODY = 54321, NO_LIMIT = 77 };

// Opens the network under a limit of one process; 0 when the error has the code and the options.
static int open_limited(void) {
    struct network net;
    struct err e = {0};
    struct rlimit one = {1, 1};
    struct network_config c = {.model = &model,
                               .backend = &kernels_cpu,
                               .kernel = {.threads = 8},
                               .batch = BATCH,
                               .eval_batch = BATCH};
    // The kernel does not limit root.
    if ((geteuid() == 0 && setuid(USER_OF_NOBODY) < 0) || setrlimit(RLIMIT_NPROC, &one) < 0)
        return NO_LIMIT;
    if (network_open(&net, &c, &e) == 0)
        return NO_LIMIT;
    diag("%s", e.text);
    return e.code == ERR_LIMIT && strstr(e.text, "8 kernel threads") &&
                   strstr(e.text, "ulimit -u") && strstr(e.text, "train.threads")
               ? 0
               : 1;
}

static void test_process_limit(void) {
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        bail_out("fork");
    if (child == 0)
        _exit(open_limited());
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_LIMIT)
        skip(1, "the number of processes has no limit here");
    else
        is_int(status, 0, "threads above the limit of processes: the error has both remedies");
}

int main(void) {
    struct err e;
    struct nn_model_spec spec = {.name = "resnet18(width=32)",
                                 .stem = "imagenet",
                                 .h = 33,
                                 .w = 33,
                                 .c = 3,
                                 .classes = CLASSES};
    if (model_build(&model, &spec, &e) < 0)
        bail_out("%s", e.text);
    image_elements = layer_elements(&model.layer[0], 1);
    if (!TAP_SANITIZED) {
        test_backends();
        test_bf16();
        test_bits();
    }
    test_process_limit();
    test_optimizers();
    test_constants();
    test_too_large();
    test_allocations();
    return done_testing();
}
