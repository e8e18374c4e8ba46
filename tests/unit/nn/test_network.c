// SPDX-License-Identifier: Apache-2.0
// A network's memory and its limit, numbers to and from it, losses and squares that are read later,
// views, and layers that are no longer trained.
#include "nn/network.h"

#include "tests/tap.h"

#include <errno.h>

enum { BATCH = 3, EVAL = 5, PAGE = 4096 };

static struct err e;
static struct nn_model mlp, resnet;
static struct network net;

static void build(struct nn_model *m, const char *name, int side) {
    struct nn_model_spec spec = {
        .name = name, .stem = "cifar", .h = side, .w = side, .c = 3, .classes = 4};
    if (model_build(m, &spec, &e) < 0)
        bail_out("%s", e.text);
}

static struct network_config config_of(const struct nn_model *m) {
    return (struct network_config){.model = m,
                                   .backend = &kernels_reference,
                                   .batch = BATCH,
                                   .eval_batch = EVAL,
                                   .views = 2,
                                   .states = 2};
}

static void open_net(const struct network_config *c) {
    err_clear(&e);
    if (network_open(&net, c, &e) < 0)
        bail_out("%s", e.text);
}

// ---- memory ------------------------------------------------------------------------------------

static size_t pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

// The parts are on pages, one behind the other, and each has its room.
static void test_memory(void) {
    struct network_config c = config_of(&resnet);
    c.state_elements = 1000;
    c.slots = 2;
    open_net(&c);
    size_t real = net.k->real_bytes, stats = resnet.stat_elements * real;
    const struct {
        const char *at, *name;
        size_t bytes;
    } parts[] = {{net.params, "parameters", resnet.param_elements * real},
                 {net.grads, "gradients", (resnet.param_elements + NETWORK_TAIL) * real},
                 {net.state[0], "the first state", 1000 * real},
                 {net.state[1], "the second state", 1000 * real},
                 {net.stats, "statistics", stats},
                 {net.apart, "statistics apart", stats},
                 {net.slow, "slow statistics", stats},
                 {net.views, "views", (size_t)EVAL * 4 * real},
                 {net.arena, "activations", net.arena_bytes},
                 {(char *)net.labels, "labels", EVAL * sizeof(int32_t)},
                 {(char *)net.losses, "losses", NETWORK_LOSSES_MAX * sizeof(struct loss_totals)},
                 {(char *)net.squares, "squares", (size_t)resnet.layers * sizeof(double)}};
    const char *at = net.memory;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        ok(parts[i].at == at, "%s follow the part before", parts[i].name);
        at += pages(parts[i].bytes);
    }
    is_uint(net.memory_bytes, (size_t)(at - net.memory), "the memory ends with its last part");
    ok(net.arena_bytes == net.train.bytes + 2 * net.train.kept_bytes ||
           net.arena_bytes == net.eval.bytes,
       "activations have the room of both slots");
    is_uint(network_arena_bytes(&net, KERNEL_FLOAT, false), net.arena_bytes,
            "activations in this type have these bytes");
    float one = 0;
    network_get(&net, net.stats, resnet.stat[0].var, 1, &one);
    near(one, 1, 0, "variances are 1 in the beginning");
    network_get(&net, net.stats, resnet.stat[0].mean, 1, &one);
    near(one, 0, 0, "means are 0 in the beginning");
    network_close(&net);
    ok(!net.k && !net.memory, "a closed network has nothing");
    c.views = 1;
    c.eval_batch = 0;
    c.states = 0;
    open_net(&c);
    ok(!net.views, "one view needs no sum");
    is_uint(net.eval.bytes, 0, "without an evaluation there is no plan of one");
    network_close(&net);
}

static void *no_memory(struct kernel_ctx *ctx, size_t bytes) {
    (void)ctx, (void)bytes;
    return NULL;
}

static int no_thread(struct kernel_ctx **ctx, const struct kernel_config *cfg) {
    (void)ctx;
    return cfg->threads == 7 ? -EAGAIN : -EPERM;
}

static void test_limit(void) {
    struct network_config c = config_of(&mlp);
    c.copy_bytes = 5000;
    open_net(&c);
    size_t all = net.memory_bytes + 5000 + net.workspace_bytes;
    network_close(&net);
    c.memory_bytes_max = all;
    is_int(network_open(&net, &c, &e), 0, "memory that is just enough is enough");
    network_close(&net);
    c.memory_bytes_max = all - 1;
    is_int(network_open(&net, &c, &e), -1, "a byte less is not");
    is_int(e.code, ERR_LIMIT, "missing memory is a limit error");
    has_str(e.text, " of memory and there are ", "the error has both sizes");
    has_str(e.text, " of activations for 3 images, ", "the error has the images");
    has_str(e.text, "5.0 kB for checkpoints", "the error has the memory of checkpoints");
    has_str(e.text, "(try: a smaller model)", "a large model is the reason");
    ok(!net.k, "a refused network is closed");
    c = config_of(&resnet);
    c.batch = 64;
    c.memory_bytes_max = 1 << 20;
    is_int(network_open(&net, &c, &e), -1, "a large batch is refused");
    is_str(e.text,
           "the plan needs 213 MB of memory and there are 1.0 MB: 207 MB of activations for 64 "
           "images, 3.0 MB of weights and gradients, 3.0 MB of optimizer state, 0 B for "
           "checkpoints, 0 B for the kernels (try: a lower train.batch or train.eval_batch)",
           "the error has all sizes, and the batch is the reason");
    struct kernel_backend poor = kernels_reference;
    poor.mem_alloc = no_memory;
    c = config_of(&mlp);
    c.backend = &poor;
    is_int(network_open(&net, &c, &e), -1, "memory may be missing");
    has_str(e.text, " of memory and less is left: ", "the error says that less is left");
    poor.open = no_thread;
    c.kernel.threads = 7;
    is_int(network_open(&net, &c, &e), -1, "threads may be missing");
    is_str(e.text,
           "no thread can be made for 7 kernel threads (try: ulimit -u, or a lower train.threads)",
           "the error has the number of threads");
    is_int(e.code, ERR_LIMIT, "missing threads are a limit error");
    c.kernel.threads = 8;
    is_int(network_open(&net, &c, &e), -1, "kernels may be refused");
    has_str(e.text, "kernels with 8 threads: Operation not permitted", "the error has the reason");
    is_int(e.code, ERR_SYS, "kernels that are refused are an error of the system");
}

// ---- numbers -----------------------------------------------------------------------------------

static void test_numbers(const struct kernel_backend *backend) {
    struct network_config c = config_of(&mlp);
    const float in[5] = {1.5f, -2, 3, 0.25f, 7};
    float out[7] = {0};
    c.backend = backend;
    open_net(&c);
    network_set(&net, net.params, 2, 5, in);
    network_get(&net, net.params, 1, 7, out);
    is_mem(out + 1, sizeof in, in, sizeof in, "%s: numbers come back from their places",
           backend->name);
    near(fabsf(out[0]) + fabsf(out[6]), 0, 0, "%s: numbers beside them stay", backend->name);
    network_set(&net, net.grads, 0, 5, in);
    network_squares(&net, 2, net.grads);
    network_squares(&net, 3, net.grads + 2 * net.k->real_bytes);
    near(network_squares_sum(&net), 1.5 * 1.5 + 4 + 9 + 0.0625 + 49, 1e-6,
         "%s: squares are added up", backend->name);
    near(network_squares_sum(&net), 0, 0, "%s: squares are added up once", backend->name);
    network_close(&net);
}

// More sums than are read at once.
static void test_squares(void) {
    struct network_config c = config_of(&resnet);
    c.eval_batch = c.views = 0;
    open_net(&c);
    double want = 0;
    static const int counts[] = {1, 63, 64, 65, -1};
    for (int k = 0; k < 5; k++) {
        int count = counts[k] < 0 ? resnet.layers : counts[k];
        want = 0;
        for (int i = 0; i < count; i++) {
            float v = (float)(i + 1);
            network_set(&net, net.grads, (size_t)i, 1, &v);
            network_squares(&net, 1, net.grads + (size_t)i * net.k->real_bytes);
            want += (double)v * (double)v;
        }
        near(network_squares_sum(&net), want, 1e-6, "%d sums of squares are added up", count);
    }
    network_close(&net);
}

// ---- losses and views --------------------------------------------------------------------------

static void test_losses(void) {
    struct network_config c = config_of(&mlp);
    struct loss_totals out[NETWORK_LOSSES_MAX];
    const int32_t labels[EVAL] = {0, 1, 2, 3, 0};
    open_net(&c); // weights are 0, and so are all logits
    network_labels(&net, labels, EVAL);
    network_forward(&net, EVAL, NETWORK_EVAL);
    is_int(net.tracked, 0, "an evaluation is no training pass");
    is_int(network_losses(&net, out), 0, "no loss was computed");
    for (int i = 0; i < NETWORK_LOSSES_MAX; i++)
        network_loss(&net, i % EVAL + 1, 0, 0);
    is_int(network_losses(&net, out), NETWORK_LOSSES_MAX, "losses wait until they are read");
    int wrong = 0;
    for (int i = 0; i < NETWORK_LOSSES_MAX; i++)
        wrong += fabs(out[i].loss_sum - (i % EVAL + 1) * log(4)) > 1e-5;
    is_int(wrong, 0, "losses are read in their order");
    is_int(network_losses(&net, out), 0, "losses are read once");
    network_forward(&net, BATCH, NETWORK_TRAIN);
    network_forward(&net, BATCH, NETWORK_TRAIN_APART);
    network_forward(&net, BATCH, NETWORK_PROBE);
    is_int(net.tracked, 1, "passes that update the running statistics are counted");
    network_forward(&net, BATCH, NETWORK_TRAIN);
    network_loss(&net, BATCH, 0, 0.5);
    float d[4] = {0};
    network_get(&net, network_output_gradient(&net), 4, 4, d);
    near(d[0], 0.125, 1e-6, "the gradient of a logit is scaled");
    near(d[1], -0.375, 1e-6, "the gradient of the label's logit is scaled");
    network_close(&net);
}

static void test_views(void) {
    struct network_config c = config_of(&mlp);
    const float first[4] = {1, 2, 3, 4}, second[4] = {5, 0, -1, 8};
    float out[4];
    open_net(&c);
    for (int again = 0; again < 2; again++) {
        char *logits = network_output(&net, NETWORK_EVAL);
        network_set(&net, logits, 0, 4, first);
        network_view(&net, 1, 0.25, true, false);
        network_get(&net, logits, 0, 4, out);
        is_mem(out, sizeof out, first, sizeof first, "a first view stays, time %d", again);
        network_set(&net, logits, 0, 4, second);
        network_view(&net, 1, 0.5, false, true);
        network_get(&net, logits, 0, 4, out);
        ok(fabsf(out[0] - 2.75f) < 1e-6f && fabsf(out[1] - 0.5f) < 1e-6f &&
               fabsf(out[2] - 0.25f) < 1e-6f && fabsf(out[3] - 5) < 1e-6f,
           "the logits of both views are added up, time %d", again);
    }
    network_close(&net);
}

// ---- a first layer that stays ------------------------------------------------------------------

static void test_settled(void) {
    struct network_config c = config_of(&mlp);
    open_net(&c);
    size_t end = mlp.param[2].begin, count = mlp.param_elements;
    float *ones = malloc(count * sizeof *ones), *got = malloc(count * sizeof *got);
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    network_set(&net, net.grads, 0, count, ones);
    network_settle(&net);
    is_uint(net.settled_elements, end, "the first layer's weights and shifts stay");
    ok(net.settled > 0 && mlp.layer[net.settled].param == 2,
       "the second layer with parameters is the first that is trained");
    network_get(&net, net.grads, 0, count, got);
    int zeros = 0;
    for (size_t i = 0; i < count; i++)
        zeros += got[i] < 0.5f;
    ok((size_t)zeros == end && got[end] > 0.5f, "the first layer's gradients are 0");
    int was = net.settled;
    network_set(&net, net.grads, 0, count, ones);
    network_settle(&net);
    network_get(&net, net.grads, 0, 1, got);
    ok(net.settled == was && got[0] > 0.5f, "a layer is settled once");
    network_close(&net);
    mlp.has_before = true;
    open_net(&c);
    network_settle(&net);
    ok(net.settled == 0 && net.settled_elements == 0, "a stage behind another has no first layer");
    network_close(&net);
    mlp.has_before = false;
    free(ones);
    free(got);
}

int main(void) {
    build(&mlp, "mlp(hidden=6)", 2);
    build(&resnet, "resnet50(width=8)", 32);
    test_memory();
    test_limit();
    test_numbers(&kernels_reference);
    test_numbers(&kernels_reference_f64);
    test_squares();
    test_losses();
    test_views();
    test_settled();
    model_free(&mlp);
    model_free(&resnet);
    return done_testing();
}
