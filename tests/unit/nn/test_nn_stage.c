// SPDX-License-Identifier: Apache-2.0
// Stages: where a model can be cut and where it is, what a stage has of it, and that the stages one
// after the other compute what the whole model does, to the last bit, with several batches under
// way.
#include "nn/network.h"
#include "nn/stage.h"
#include "tests/tap.h"

enum { STAGES_MAX = 16, BATCH = 2, SLOTS = 3 };

static struct nn_model model, part[STAGES_MAX];
static int first[STAGES_MAX + 1];

static void build(const char *text) {
    struct nn_model_spec spec = {.name = text, .h = 32, .w = 32, .c = 3, .classes = 10};
    struct err e;
    if (model_build(&model, &spec, &e) < 0)
        bail_out("%s", e.text);
}

static int64_t work(int from, int to) {
    int64_t sum = 0;
    for (int i = from; i < to; i++)
        sum += stage_layer_work(&model, i);
    return sum;
}

static void test_cut(const char *text, int stages, double most) {
    struct err e;
    build(text);
    if (!ok(stage_cut(&model, stages, first, &e) == 0, "%s is cut into %d stages", text, stages))
        return;
    int64_t largest = 0;
    size_t params = 0, elements = 0, stats = 0;
    bool inner = true;
    for (int i = 0; i < stages; i++) {
        int64_t w = work(first[i], first[i + 1]);
        largest = w > largest ? w : largest;
        stage_model(&part[i], &model, first[i], first[i + 1]);
        inner = inner && part[i].param_begin == elements && part[i].stat_begin == stats &&
                part[i].has_before == (i > 0) && part[i].has_after == (i < stages - 1);
        params += part[i].param_count;
        elements += part[i].param_elements;
        stats += part[i].stat_elements;
    }
    ok(inner && params == model.param_count && elements == model.param_elements &&
           stats == model.stat_elements,
       "the stages share out all parameters");
    double share = (double)largest * stages / (double)work(0, model.layers);
    ok(share < most, "the largest has %.2f of an equal share", share);
}

static void test_refused(void) {
    static const char *const blocks[] = {"layer2.0", "layer4.0"};
    static const char *const inside[] = {"layer2.0.bn2"}, *const none[] = {"layer9"};
    static const char *const back[] = {"layer4.0", "layer2.0"}, *const end[] = {"avgpool"};
    struct err e;
    build("resnet18");
    is_int(stage_cut(&model, 64, first, &e), -1, "resnet18 cannot be cut into 64 stages");
    has_str(e.text, "can be cut into", "the error has the highest number of stages");
    is_int(stage_cut_at(&model, blocks, 2, first, &e), 0, "the model is cut before two blocks");
    is_str(model.layer[first[1]].name, "layer2.0.conv1", "the first cut is before layer2.0");
    is_int(stage_cut_at(&model, inside, 1, first, &e), -1, "a cut inside a block is refused");
    has_str(e.text, "layer2.0.bn2", "the error names the layer inside the block");
    is_int(stage_cut_at(&model, none, 1, first, &e), -1,
           "a cut before an unknown layer is refused");
    is_int(stage_cut_at(&model, back, 2, first, &e), -1, "cuts in another order are refused");
    build("resnet18");
    int r = stage_cut_at(&model, end, 1, first, &e);
    ok(r == 0, "a last stage may begin with a layer without parameters");
}

// ---- the same numbers ----

static struct network whole, net[STAGES_MAX];

static void open_net(struct network *n, const struct nn_model *m, int slots) {
    struct network_config c = {
        .model = m, .backend = &kernels_reference, .batch = BATCH, .slots = slots};
    struct err e;
    if (network_open(n, &c, &e) < 0)
        bail_out("%s", e.text);
    network_init(n, 5);
}

static size_t bytes_of(const struct nn_model *m, int layer) {
    return layer_elements(&m->layer[layer], BATCH) * sizeof(float);
}

static const int32_t labels[SLOTS][BATCH] = {{1, 2}, {3, 4}, {5, 6}};

static void fill(void *input, int slot) {
    float *x = input;
    for (size_t i = 0; i < bytes_of(&model, 0) / sizeof *x; i++)
        x[i] = sinf((float)(i * 7 + (size_t)slot * 13));
}

static double run_whole(void) {
    double sum = 0;
    for (int s = 0; s < SLOTS; s++) {
        struct loss_totals loss;
        fill(network_input(&whole, NETWORK_TRAIN), s);
        network_labels(&whole, labels[s], BATCH);
        network_forward(&whole, BATCH, NETWORK_TRAIN);
        network_loss(&whole, BATCH, 0, 0.5);
        network_losses(&whole, &loss);
        network_backward(&whole, BATCH, s > 0, 1, model.layers);
        sum += loss.loss_sum;
    }
    return sum;
}

// All batches forward, then all backward.
static double run_stages(int stages) {
    double sum = 0;
    for (int s = 0; s < SLOTS; s++)
        for (int i = 0; i < stages; i++) {
            struct network *n = &net[i];
            struct loss_totals loss;
            network_select(n, s);
            if (i == 0)
                fill(network_input(n, NETWORK_TRAIN), s);
            else
                memcpy(network_input(n, NETWORK_TRAIN), network_output(n - 1, NETWORK_TRAIN),
                       bytes_of(n->model, 0));
            network_forward(n, BATCH, NETWORK_TRAIN);
            if (i < stages - 1)
                continue;
            network_labels(n, labels[s], BATCH);
            network_loss(n, BATCH, 0, 0.5);
            network_losses(n, &loss);
            sum += loss.loss_sum;
        }
    for (int s = 0; s < SLOTS; s++)
        for (int i = stages - 1; i >= 0; i--) {
            struct network *n = &net[i];
            network_select(n, s);
            if (i < stages - 1)
                memcpy(network_output_gradient(n), network_input_gradient(n + 1),
                       bytes_of(n->model, n->model->layers - 1));
            network_backward(n, BATCH, s > 0, 1, n->model->layers);
        }
    return sum;
}

static void test_numbers(const char *text, int stages) {
    struct err e;
    build(text);
    open_net(&whole, &model, 1);
    double loss = run_whole();
    if (stage_cut(&model, stages, first, &e) < 0)
        bail_out("%s", e.text);
    for (int i = 0; i < stages; i++) {
        stage_model(&part[i], &model, first[i], first[i + 1]);
        open_net(&net[i], &part[i], SLOTS);
    }
    near(run_stages(stages), loss, 0, "%s in %d stages has the same loss", text, stages);
    int same = 0;
    for (int i = 0; i < stages; i++) {
        size_t real = sizeof(float), n = part[i].param_elements * real;
        same += memcmp(net[i].params, whole.params + part[i].param_begin * real, n) == 0 &&
                memcmp(net[i].grads, whole.grads + part[i].param_begin * real, n) == 0 &&
                memcmp(net[i].stats, whole.stats + part[i].stat_begin * real,
                       part[i].stat_elements * real) == 0;
        network_close(&net[i]);
    }
    is_int(same, stages, "weights, gradients and running statistics are the same bit for bit");
    network_close(&whole);
}

int main(void) {
    test_cut("mlp(hidden=64,64,64)", 2, 2);
    test_cut("resnet18", 2, 1.2);
    test_cut("resnet50", 4, 1.2);
    test_cut("resnet50(stem=cifar)", 8, 1.3);
    test_cut("vit_tiny(patch=4)", 4, 1.2);
    test_refused();
    test_numbers("mlp(hidden=20,16,12)", 3);
    test_numbers("vit(dim=16,depth=2,heads=2,patch=8)", 3);
    test_numbers("resnet18(width=16)", 4);
    model_free(&model);
    for (int i = 0; i < STAGES_MAX; i++)
        model_free(&part[i]);
    return done_testing();
}
