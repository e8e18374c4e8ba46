// SPDX-License-Identifier: Apache-2.0
// Activations that are kept in bfloat16: the loss and the gradients of a network that keeps reals,
// within what eight significant bits allow; less memory; the same bits in stages, with blocks that
// run again and with several threads; and networks that cannot keep them.
#include "nn/network.h"
#include "nn/stage.h"
#include "tests/tap.h"

enum { BATCH = 4, CLASSES = 10, STAGES_MAX = 3 };

static struct nn_model model, part[STAGES_MAX];

static void build(const char *text) {
    struct nn_model_spec spec = {.name = text, .h = 32, .w = 32, .c = 3, .classes = CLASSES};
    struct err e;
    if (model_build(&model, &spec, &e) < 0)
        bail_out("%s", e.text);
}

static struct network_config config_of(const struct nn_model *m, const struct kernel_backend *k,
                                       enum kernel_keep keep) {
    return (struct network_config){.model = m,
                                   .backend = k,
                                   .kernel = {.keep = keep},
                                   .type = KERNEL_BF16,
                                   .batch = BATCH,
                                   .eval_batch = BATCH};
}

static void open_net(struct network *net, const struct network_config *c) {
    struct err e;
    if (network_open(net, c, &e) < 0)
        bail_out("%s", e.text);
    network_init(net, 5);
}

static void feed(struct network *net, enum network_mode mode) {
    size_t count = layer_elements(&net->model->layer[0], BATCH);
    float *x = malloc(count * sizeof *x);
    int32_t labels[BATCH];
    for (size_t i = 0; i < count; i++)
        x[i] = sinf((float)(i * 7 % 1013));
    for (int i = 0; i < BATCH; i++)
        labels[i] = (i * 7 + 3) % CLASSES;
    network_set_input(net, mode, BATCH, x);
    network_labels(net, labels, BATCH);
    free(x);
}

static double loss_of(struct network *net) {
    struct loss_totals t;
    network_loss(net, BATCH, 0.1, 1.0 / BATCH);
    network_losses(net, &t);
    return t.loss_sum / BATCH;
}

static double run_step(struct network *net) {
    feed(net, NETWORK_TRAIN);
    network_forward(net, BATCH, NETWORK_TRAIN);
    double loss = loss_of(net);
    network_backward(net, BATCH, false, 1, net->model->layers);
    return loss;
}

static const float *grads_of(const struct network *net) {
    return (const float *)(const void *)net->grads;
}

// The distance of two gradients, relative to the length of the second one.
static double distance(const struct network *a, const struct network *b) {
    double apart = 0, length = 0;
    for (size_t i = 0; i < b->model->param_elements; i++) {
        double x = (double)grads_of(a)[i], y = (double)grads_of(b)[i];
        apart += (x - y) * (x - y);
        length += y * y;
    }
    return sqrt(apart / length);
}

// memory: that activations need, as a share of that of reals; apart: of the gradients; at most.
static void test_near(const char *text, const struct kernel_backend *k, double memory,
                      double apart) {
    struct network kept, reals;
    struct network_config keeps = config_of(&model, k, KERNEL_KEEP_ALWAYS);
    struct network_config never = config_of(&model, k, KERNEL_KEEP_NEVER);
    open_net(&kept, &keeps);
    open_net(&reals, &never);
    is_int(kept.store, KERNEL_BF16, "%s, %s: activations are kept in bfloat16", text, k->name);
    is_int(reals.store, KERNEL_FLOAT, "%s, %s: activations stay reals where that is asked for",
           text, k->name);
    ok((double)kept.arena_bytes <= memory * (double)reals.arena_bytes,
       "%s, %s: activations need %zu bytes instead of %zu", text, k->name, kept.arena_bytes,
       reals.arena_bytes);
    double loss = run_step(&kept), exact = run_step(&reals), d = distance(&kept, &reals);
    near(loss, exact, 0.02, "%s, %s: the loss is near that of reals", text, k->name);
    ok(d > 0 && d < apart, "%s, %s: the gradients are %.3g from those of reals", text, k->name, d);
    feed(&kept, NETWORK_EVAL);
    network_forward(&kept, BATCH, NETWORK_EVAL);
    feed(&reals, NETWORK_EVAL);
    network_forward(&reals, BATCH, NETWORK_EVAL);
    near(loss_of(&kept), loss_of(&reals), 0.03, "%s, %s: an evaluation is near that of reals", text,
         k->name);
    network_close(&kept);
    network_close(&reals);
}

// Every instruction set against the reference; products of float operands are not rounded alike.
static void test_backends(const char *text, double apart) {
    static const char *const isas[] = {"avx512-amx", "avx512-bf16", "avx512", "avx2", "base"};
    struct network fast, plain;
    struct network_config c = config_of(&model, &kernels_reference, KERNEL_KEEP_ALWAYS);
    struct err e;
    open_net(&plain, &c);
    double want = run_step(&plain);
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        c = config_of(&model, &kernels_cpu, KERNEL_KEEP_ALWAYS);
        c.kernel.isa = isas[i];
        if (network_open(&fast, &c, &e) < 0) {
            skip(1, "this machine has no %s", isas[i]);
            continue;
        }
        network_init(&fast, 5);
        near(run_step(&fast), want, 2e-3, "%s, %s: the loss is the reference's", text, isas[i]);
        ok(distance(&fast, &plain) < apart, "%s, %s: the gradients are %.3g from the reference's",
           text, isas[i], distance(&fast, &plain));
        network_close(&fast);
    }
    network_close(&plain);
}

static bool same_gradient(const struct network *a, const struct network *b) {
    return memcmp(a->grads, b->grads, b->model->param_elements * sizeof(float)) == 0;
}

// One after the other, as the ranks of a pipeline compute them.
static double step_stages(struct network *net, int stages) {
    size_t bytes[STAGES_MAX];
    for (int i = 0; i < stages; i++) {
        const struct nn_model *m = net[i].model;
        bytes[i] = layer_elements(&m->layer[m->layers - 1], BATCH) * sizeof(uint16_t);
        feed(&net[i], NETWORK_TRAIN);
        if (i > 0)
            memcpy(network_input(&net[i], NETWORK_TRAIN),
                   network_output(&net[i - 1], NETWORK_TRAIN), bytes[i - 1]);
        network_forward(&net[i], BATCH, NETWORK_TRAIN);
    }
    double loss = loss_of(&net[stages - 1]);
    for (int i = stages - 1; i >= 0; i--) {
        if (i < stages - 1)
            memcpy(network_output_gradient(&net[i]), network_input_gradient(&net[i + 1]), bytes[i]);
        network_backward(&net[i], BATCH, false, 1, net[i].model->layers);
    }
    return loss;
}

static void test_bits(const char *text, const struct kernel_backend *k) {
    struct network whole, other, net[STAGES_MAX];
    struct network_config c = config_of(&model, k, KERNEL_KEEP_ALWAYS);
    int first[STAGES_MAX + 1], same = 0;
    struct err e;
    open_net(&whole, &c);
    double loss = run_step(&whole);
    c.recompute = true, c.kernel.threads = 3;
    open_net(&other, &c);
    near(run_step(&other), loss, 0,
         "%s, %s: three threads and blocks that run again: the same loss", text, k->name);
    ok(same_gradient(&other, &whole), "%s, %s: the gradients have the same bits", text, k->name);
    c = config_of(NULL, k, KERNEL_KEEP_ALWAYS);
    c.slots = 2;
    if (stage_cut(&model, STAGES_MAX, first, &e) < 0)
        bail_out("%s", e.text);
    for (int i = 0; i < STAGES_MAX; i++) {
        stage_model(&part[i], &model, first[i], first[i + 1]);
        c.model = &part[i];
        open_net(&net[i], &c);
        memcpy(net[i].params, whole.params + part[i].param_begin * sizeof(float),
               part[i].param_elements * sizeof(float));
    }
    near(step_stages(net, STAGES_MAX), loss, 0, "%s, %s: stages have the same loss", text, k->name);
    for (int i = 0; i < STAGES_MAX; i++) {
        same += memcmp(net[i].grads, whole.grads + part[i].param_begin * sizeof(float),
                       part[i].param_elements * sizeof(float)) == 0;
        network_close(&net[i]);
    }
    is_int(same, STAGES_MAX, "%s, %s: the gradients of stages have the same bits", text, k->name);
    network_close(&whole);
    network_close(&other);
}

static void test_plan(const char *text) {
    int bad = 0;
    for (int slots = 1; slots <= 2; slots++)
        for (int again = 0; again < 2; again++) {
            const struct memory_plan_spec spec = {.n = BATCH,
                                                  .real_bytes = sizeof(float),
                                                  .training = true,
                                                  .slots = slots,
                                                  .recompute = again,
                                                  .store = KERNEL_BF16};
            struct memory_plan p;
            struct err e;
            memory_plan_make(&p, &model, &spec);
            if (memory_plan_verify(&p, &model, &spec, &e) < 0)
                diag("%s", e.text), bad++;
            memory_plan_free(&p);
        }
    is_int(bad, 0, "%s: every pass finds its tensors", text);
}

// Networks whose images or logits are in a layer that does not mix types, and those of products in
// float, keep reals.
static void test_reals(void) {
    struct network net;
    build("vit(dim=24,depth=1,heads=2,patch=8)");
    struct network_config c = config_of(&model, &kernels_reference, KERNEL_KEEP_ALWAYS);
    c.type = KERNEL_FLOAT;
    open_net(&net, &c);
    is_int(net.store, KERNEL_FLOAT, "products in float: activations stay reals");
    network_close(&net);
    c.type = KERNEL_BF16, c.reals = true;
    open_net(&net, &c);
    is_int(net.store, KERNEL_FLOAT, "a rank that agreed on reals keeps them");
    network_close(&net);
    model_begin(&model);
    struct err e;
    int at = model_maxpool(&model, "pool", model_input(&model, 32, 32, 3), 2, 2, 0);
    model_linear(&model, "fc", at, CLASSES, false);
    if (model_end(&model, &e) < 0)
        bail_out("%s", e.text);
    c = config_of(&model, &kernels_reference, KERNEL_KEEP_ALWAYS);
    open_net(&net, &c);
    is_int(net.store, KERNEL_FLOAT, "a model that pools its images keeps reals");
    network_close(&net);
}

// apart: from the gradients of reals; 0: not compared, since batch norm of a few rows makes any
// rounding a large difference. So it does with products in bfloat16 alone: theirs are 0.2 from
// those of floats in the case of resnet18. backends: from those of the reference.
int main(void) {
    static const struct {
        const char *text;
        double memory, apart, backends;
    } cases[] = {{"mlp(hidden=40,24,16)", 0.99, 0.05, 0.02},
                 {"vit(dim=24,depth=2,heads=2,patch=8)", 0.65, 0.05, 0.02},
                 {"linformer(dim=24,depth=2,heads=2,patch=8,keys=5)", 0.65, 0.05, 0.02},
                 {"linformer(dim=40,depth=1,heads=1,patch=4,keys=16,pool=mean)", 0.65, 0.05, 0.02},
                 {"resnet18(stem=cifar,width=8)", 0.55, 0.4, 0.3},
                 {"resnet50(stem=imagenet,width=8)", 0.6, 0, 0.1},
                 {"airbench(width=8)", 0.55, 0.5, 0.02}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        build(cases[i].text);
        test_plan(cases[i].text);
        for (int cpu = 0; cpu < 2; cpu++) {
            const struct kernel_backend *k = cpu ? &kernels_cpu : &kernels_reference;
            if (cases[i].apart > 0)
                test_near(cases[i].text, k, cases[i].memory, cases[i].apart);
            test_bits(cases[i].text, k);
        }
        test_backends(cases[i].text, cases[i].backends);
    }
    test_reals();
    model_free(&model);
    for (int i = 0; i < STAGES_MAX; i++)
        model_free(&part[i]);
    return done_testing();
}
