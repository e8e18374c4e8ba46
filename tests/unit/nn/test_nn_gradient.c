// SPDX-License-Identifier: Apache-2.0
// Every layer's gradient, and those of whole residual networks, against central differences of the
// loss in double precision. Two kinds of probes: single elements of every parameter, and one random
// direction through all parameters at once.
#include "base/arena.h"
#include "nn/network.h"
#include "tests/tap.h"

enum { PROBES = 6, BATCH_MAX = 8 };
static const double STEP = 1e-5, SMOOTHING = 0.1;

static const uint64_t SEED = 88172645463325252u;
static uint64_t random_state;
static double random_unit(void) { // xorshift64 of Marsaglia; in [-1, 1)
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) * 0x1p-52 - 1;
}

struct probe {
    struct network net;
    int n;
    double *input;
    size_t input_count;
};

static double loss_of(struct probe *p) {
    struct loss_totals t;
    memcpy(network_input(&p->net, NETWORK_TRAIN_APART), p->input, p->input_count * sizeof(double));
    network_forward(&p->net, p->n, NETWORK_TRAIN_APART);
    network_loss(&p->net, p->n, SMOOTHING, 1.0 / p->n);
    network_losses(&p->net, &t);
    return t.loss_sum / p->n;
}

static void begin(struct probe *p, const struct nn_model *m, int n) {
    struct err e;
    struct network_config c = {.model = m, .backend = &kernels_reference_f64, .batch = n};
    if (network_open(&p->net, &c, &e) < 0)
        bail_out("%s", e.text);
    network_init(&p->net, 7);
    random_state = SEED; // the same numbers whichever models came before
    double *params = (double *)(void *)p->net.params;
    for (int i = 0; i < m->params; i++) // off the special values 0 and 1 of batch norm and biases
        for (size_t j = 0; j < m->param[i].count; j++)
            params[m->param[i].begin + j] += 0.1 * random_unit() * (m->param[i].vector ? 1 : 0.1);
    p->n = n;
    p->input_count = layer_elements(&m->layer[0], n);
    p->input = heap_alloc(p->input_count * sizeof *p->input);
    for (size_t i = 0; i < p->input_count; i++)
        p->input[i] = random_unit();
    int32_t labels[BATCH_MAX];
    for (int i = 0; i < n; i++)
        labels[i] = (3 * i + 1) % m->classes;
    network_labels(&p->net, labels, n);
}

static double relative(double got, double want, double floor) {
    return fabs(got - want) / (fabs(got) + fabs(want) + floor);
}

// The worst of some elements of one parameter.
static double probe_elements(struct probe *p, const struct nn_param *param, const double *grads) {
    double *params = (double *)(void *)p->net.params, worst = 0;
    for (int i = 0; i < PROBES; i++) {
        size_t at = param->begin + (size_t)((random_unit() + 1) / 2 * (double)param->count);
        double old = params[at];
        params[at] = old + STEP;
        double up = loss_of(p);
        params[at] = old - STEP;
        double down = loss_of(p);
        params[at] = old;
        double r = relative(grads[at], (up - down) / (2 * STEP), 1e-4);
        worst = r > worst ? r : worst;
    }
    return worst;
}

static double probe_direction(struct probe *p, const double *grads) {
    const struct nn_model *m = p->net.model;
    double *params = (double *)(void *)p->net.params;
    double *old = heap_alloc(m->param_elements * sizeof *old);
    double *v = heap_alloc(m->param_elements * sizeof *v), want = 0, side[2];
    double step = 1e-5 / sqrt((double)m->param_elements * (double)m->layers);
    memcpy(old, params, m->param_elements * sizeof *old);
    memset(v, 0, m->param_elements * sizeof *v);
    for (int k = 0; k < m->params; k++)
        for (size_t j = 0; !m->param[k].fixed && j < m->param[k].count; j++) {
            size_t i = m->param[k].begin + j;
            v[i] = random_unit();
            want += v[i] * grads[i];
        }
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < m->param_elements; i++)
            params[i] = old[i] + (s ? -1 : 1) * step * v[i];
        side[s] = loss_of(p);
    }
    memcpy(params, old, m->param_elements * sizeof *old);
    free(old);
    free(v);
    return relative((side[0] - side[1]) / (2 * step), want, 1e-4);
}

// Adding the same gradient again doubles it.
static void check_added(struct probe *p, const double *grads, const char *title) {
    const struct nn_model *m = p->net.model;
    double doubled = 0;
    loss_of(p);
    network_backward(&p->net, p->n, true, 1, m->layers);
    for (size_t i = 0; i < m->param_elements; i++) {
        double d = fabs(((double *)(void *)p->net.grads)[i] - 2 * grads[i]);
        doubled = d > doubled ? d : doubled;
    }
    ok(doubled < 1e-9, "%s: the same gradient is doubled when it is added twice", title);
}

// small: every parameter by itself, too.
static void check(struct nn_model *m, const char *title, int n, bool small) {
    struct err e;
    struct probe p = {0};
    if (model_end(m, &e) < 0)
        bail_out("%s", e.text);
    begin(&p, m, n);
    loss_of(&p);
    network_backward(&p.net, n, false, 1, m->layers);
    size_t bytes = m->param_elements * sizeof(double);
    double *grads = heap_alloc(bytes);
    memcpy(grads, p.net.grads, bytes);
    if (small)
        check_added(&p, grads, title);
    for (int i = 0; i < m->params; i++)
        for (size_t j = 0; m->param[i].fixed && j < m->param[i].count; j++)
            if (grads[m->param[i].begin + j] != 0 && j == 0)
                fail("%s: %s is fixed and has a gradient", title, m->param[i].name);
    for (int i = 0; small && i < m->params; i++)
        if (!m->param[i].fixed)
            near(probe_elements(&p, &m->param[i], grads), 0, 1e-5, "%s: %s", title,
                 m->param[i].name);
    near(probe_direction(&p, grads), 0, 1e-5, "%s: the derivative along all parameters is right",
         title);
    free(grads);
    free(p.input);
    network_close(&p.net);
}

static void check_linear(struct nn_model *m) {
    model_begin(m);
    int at = model_input(m, 3, 2, 4);
    at = model_linear(m, "fc1", at, 7, true);
    at = model_linear(m, "fc2", at, 6, true);
    model_linear(m, "fc3", at, 5, false);
    check(m, "linear with relu", 5, true);
}

// A layer is the products of its weights with the numbers of a sample, times a scale if it has one,
// plus a bias if it has one.
static void check_products(struct nn_model *m) {
    enum { IN = 6, OUT = 3, N = 2 };
    for (int scaled = 0; scaled < 2; scaled++) {
        struct probe p = {0};
        struct err e;
        double worst = 0;
        model_begin(m);
        int at = model_input(m, 1, 2, 3);
        if (scaled)
            model_scaled(m, "fc", at, OUT, 0.25);
        else
            model_linear(m, "fc", at, OUT, false);
        if (model_end(m, &e) < 0)
            bail_out("%s", e.text);
        begin(&p, m, N);
        loss_of(&p);
        const double *logits = network_logits(&p.net);
        const double *params = (const double *)(const void *)p.net.params;
        for (int i = 0; i < N * OUT; i++) {
            double sum = 0;
            for (int k = 0; k < IN; k++)
                sum += p.input[i / OUT * IN + k] * params[i % OUT * IN + k];
            sum = scaled ? sum * 0.25 : sum + params[m->param[1].begin + (size_t)(i % OUT)];
            worst = fmax(worst, fabs(sum - logits[i]));
        }
        near(worst, 0, 1e-12, "%s: the logits are the products", scaled ? "scaled" : "linear");
        free(p.input);
        network_close(&p.net);
    }
}

static void check_conv(struct nn_model *m) {
    model_begin(m);
    int at = model_input(m, 7, 6, 3);
    at = model_conv(m, "a", at, 4, 3, 1, 1, true);
    at = model_conv(m, "b", at, 5, 3, 2, 1, true);
    at = model_conv(m, "c", at, 6, 1, 2, 0, false);
    at = model_avgpool(m, "pool", at);
    model_linear(m, "fc", at, 4, false);
    check(m, "convolutions", 3, true);
}

static void check_norm(struct nn_model *m) {
    model_begin(m);
    int at = model_input(m, 6, 6, 3);
    at = model_conv(m, "conv", at, 4, 3, 1, 1, false);
    at = model_batchnorm(m, "plain", at, -1, false);
    at = model_batchnorm(m, "relu", at, -1, true);
    at = model_maxpool(m, "max", at, 3, 2, 1);
    model_linear(m, "fc", at, 4, false);
    check(m, "batch norm and max pooling", 4, true);
}

static int small_block(struct nn_model *m, const char *prefix, int in, int planes, int stride) {
    char name[32];
    snprintf(name, sizeof name, "%s.conv1", prefix);
    int at = model_conv(m, name, in, planes, 3, stride, 1, false);
    snprintf(name, sizeof name, "%s.bn1", prefix);
    at = model_batchnorm(m, name, at, -1, true);
    snprintf(name, sizeof name, "%s.conv2", prefix);
    at = model_conv(m, name, at, planes, 3, 1, 1, false);
    int shortcut = in;
    if (stride != 1) {
        snprintf(name, sizeof name, "%s.down", prefix);
        shortcut = model_conv(m, name, in, planes, 1, stride, 0, false);
        snprintf(name, sizeof name, "%s.downbn", prefix);
        shortcut = model_batchnorm(m, name, shortcut, -1, false);
    }
    snprintf(name, sizeof name, "%s.bn2", prefix);
    return model_batchnorm(m, name, at, shortcut, true);
}

static void check_small_resnet(struct nn_model *m) {
    model_begin(m);
    int at = model_input(m, 16, 16, 3);
    at = model_conv(m, "conv1", at, 4, 7, 2, 3, false);
    at = model_batchnorm(m, "bn1", at, -1, true);
    at = model_maxpool(m, "maxpool", at, 3, 2, 1);
    at = small_block(m, "one", at, 4, 1);
    at = small_block(m, "two", at, 4, 1);
    at = small_block(m, "three", at, 8, 2);
    at = model_avgpool(m, "avgpool", at);
    model_linear(m, "fc", at, 5, false);
    check(m, "small resnet", 4, true);
}

// Before activation: batch norm reads what the join behind it reads, too, and a layer may read one
// tensor twice. Neither can add to a gradient that is there.
static void check_shared(struct nn_model *m) {
    model_begin(m);
    int at = model_input(m, 6, 6, 3), trunk;
    at = trunk = model_conv(m, "conv1", at, 4, 3, 1, 1, true);
    at = model_batchnorm(m, "bn1", at, -1, true);
    at = model_conv(m, "conv2", at, 4, 3, 1, 1, false);
    at = trunk = model_batchnorm(m, "join1", at, trunk, false);
    at = model_maxpool(m, "max", at, 3, 1, 1);
    at = model_batchnorm(m, "join2", at, trunk, true);
    at = model_batchnorm(m, "twice", at, at, false);
    at = model_avgpool(m, "avg", at);
    model_linear(m, "fc", at, 4, false);
    check(m, "shared inputs", 4, true);
}

// Odd sizes everywhere. The pixels of three images make 15 and 6 patches.
static void check_transformers(struct nn_model *m) {
    static const struct {
        const char *text;
        int h, w;
    } cases[] = {
        {"vit(dim=6,depth=2,heads=3,mlp=2,patch=3)", 9, 15},
        {"vit(dim=5,depth=1,heads=1,mlp=1,patch=1)", 3, 1},
        {"linformer(dim=6,depth=2,heads=2,mlp=3,patch=2,keys=3)", 4, 6},
        {"linformer(dim=4,depth=1,heads=4,mlp=1,patch=2,keys=9,pool=mean)", 4, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e;
        struct nn_model_spec spec = {
            .name = cases[i].text, .h = cases[i].h, .w = cases[i].w, .c = 3, .classes = 5};
        if (model_build(m, &spec, &e) < 0)
            bail_out("%s", e.text);
        check(m, cases[i].text, 3, true);
    }
}

// A settled layer has no gradient, and the others have the one they had.
static void check_settled(struct nn_model *m) {
    struct probe p = {0};
    begin(&p, m, 2);
    loss_of(&p);
    network_backward(&p.net, 2, false, 1, m->layers);
    size_t bytes = m->param_elements * sizeof(double);
    double *grads = heap_alloc(bytes);
    memcpy(grads, p.net.grads, bytes);
    network_settle(&p.net);
    size_t first = p.net.settled_elements, differ = 0, left = 0;
    loss_of(&p);
    network_backward(&p.net, 2, false, 1, m->layers);
    for (size_t i = 0; i < m->param_elements; i++) {
        double g = ((double *)(void *)p.net.grads)[i];
        left += i < first && g != 0;
        differ += i >= first && g != grads[i];
    }
    ok(first > 0 && first < m->param_elements, "%s: %zu numbers are settled", m->text, first);
    is_uint(left + differ, 0, "the other gradients stay, and these are 0");
    free(grads);
    free(p.input);
    network_close(&p.net);
}

static void check_airbench(struct nn_model *m) {
    struct err e;
    struct nn_model_spec spec = {
        .name = "airbench(width=3,patch=3,divisor=2)", .h = 26, .w = 29, .c = 3, .classes = 5};
    if (model_build(m, &spec, &e) < 0)
        bail_out("%s", e.text);
    check(m, spec.name, 2, true);
    check_settled(m);
    spec = (struct nn_model_spec){.name = "airbench", .h = 32, .w = 32, .c = 3, .classes = 10};
    if (model_build(m, &spec, &e) < 0)
        bail_out("%s", e.text);
    is_uint(m->param_count, 1972792,
            "airbench: parameters, whitening and scales of norms included");
    spec.h = 20;
    is_int(model_build(m, &spec, &e), -1, "too small an image is refused");
    spec.h = 32;
    spec.name = "airbench(patch=9)";
    is_int(model_build(m, &spec, &e), -1, "too large a patch is refused");
    has_str(e.text, "the limit is 8", "the message has the limit");
    spec.name = "resnet18(stem=cifar)";
    spec.w = spec.h = 8;
    if (model_build(m, &spec, &e) < 0)
        bail_out("%s", e.text);
    if (!TAP_SANITIZED)
        check_settled(m);
}

int main(void) {
    static struct nn_model m;
    struct err e;
    check_linear(&m);
    check_products(&m);
    check_conv(&m);
    check_norm(&m);
    check_shared(&m);
    check_small_resnet(&m);
    static const char *const stems[] = {"imagenet", "cifar"};
    for (int i = 0; i < 2; i++) {
        struct nn_model_spec spec = {.name = "resnet18",
                                     .stem = stems[i],
                                     .h = i ? 9 : 33, // 2 x 2 pixels in the last stage
                                     .w = i ? 9 : 33,
                                     .c = 3,
                                     .classes = 10};
        if (model_build(&m, &spec, &e) < 0)
            bail_out("%s", e.text);
        is_uint(m.param_count, i ? 11173962 : 11181642,
                "resnet18 with stem %s has its number of parameters", stems[i]);
        spec.name = "resnet18(width=16)";
        if (model_build(&m, &spec, &e) < 0)
            bail_out("%s", e.text);
        check(&m, stems[i], 2, false);
    }
    check_transformers(&m);
    check_airbench(&m);
    return done_testing();
}
