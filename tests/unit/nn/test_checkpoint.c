// SPDX-License-Identifier: Apache-2.0
// Checkpoints: what is written is what is read, on disk it has torchvision's names and shapes, old
// ones go, and what does not fit is refused.
#include "base/arena.h"
#include "nn/checkpoint.h"
#include "nn/safetensors.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/test_checkpoint.XXXXXX";
static struct nn_model model, other;

static void open_network(struct network *net, const struct nn_model *m) {
    struct err e;
    struct network_config c = {.model = m, .backend = &kernels_reference, .batch = 1, .states = 2};
    if (network_open(net, &c, &e) < 0)
        bail_out("%s", e.text);
}

static void build(struct nn_model *m, int classes) {
    struct err e;
    struct nn_model_spec spec = {.name = "resnet18(width=16)",
                                 .stem = "imagenet",
                                 .h = 32,
                                 .w = 32,
                                 .c = 3,
                                 .classes = classes};
    if (model_build(m, &spec, &e) < 0)
        bail_out("%s", e.text);
}

static const struct nn_param *param(const char *name) {
    for (int i = 0; i < model.params; i++)
        if (strcmp(model.param[i].name, name) == 0)
            return &model.param[i];
    bail_out("no parameter %s", name);
}

static bool same(const char *a, const char *b, size_t elements) {
    return memcmp(a, b, elements * sizeof(float)) == 0;
}

// Every number of the network is given a value of its own, alignment gaps excepted.
static void fill(struct network *net) {
    float *state[2] = {(float *)(void *)net->state[0], (float *)(void *)net->state[1]};
    network_init(net, 3);
    for (int i = 0; i < model.params; i++)
        for (size_t j = 0; j < model.param[i].count; j++) {
            size_t at = model.param[i].begin + j;
            state[0][at] = (float)at * 1e-7f;
            state[1][at] = (float)at * 2e-7f + 1;
        }
    for (int i = 0; i < model.stats; i++)
        for (int j = 0; j < model.stat[i].channels; j++) {
            float mean = (float)(i + j), var = (float)(i + 2 * j) + 0.5f;
            network_set(net, net->stats, model.stat[i].mean + (size_t)j, 1, &mean);
            network_set(net, net->stats, model.stat[i].var + (size_t)j, 1, &var);
        }
    net->tracked = 77;
}

static void test_round_trip(const struct checkpoint_image *image, struct network *net) {
    struct network back;
    struct optimizer o = {.kind = TRAIN_ADAM};
    struct checkpoint_image c;
    struct err e;
    char path[FILE_PATH_BYTES_MAX];
    open_network(&back, &model);
    checkpoint_image_init(&c, &model, 2);
    is_int(checkpoint_write(image, dir, 2, &e), 0, "a checkpoint is written");
    checkpoint_path(dir, image->at.step, path, sizeof path);
    is_int(checkpoint_read(&c, &o, path, &e), 0, "a checkpoint is read");
    checkpoint_image_give(&c, &back);
    const struct train_position at = c.at;
    ok(same(back.params, net->params, model.param_elements), "parameters are restored");
    ok(same(back.stats, net->stats, model.stat_elements), "running statistics are restored");
    ok(same(back.state[0], net->state[0], model.param_elements), "first moments are restored");
    ok(same(back.state[1], net->state[1], model.param_elements), "second moments are restored");
    is_int(back.tracked, 77, "the number of batches tracked is restored");
    ok(at.step == 1234 && at.epoch == 3 && at.consumed == 640 && at.samples == 1000 &&
           at.seed == 9 && at.data == 77777777777,
       "the position is restored");
    is_int(o.step, 1230, "the step of the optimizer is restored");
    near(at.best_top1, 61.25, 0, "the best accuracy is restored");
    near(at.loss_scale, 2048, 0, "the scale of the loss is restored");
    near(at.loss_scale_good, 17, 0, "the updates since it changed are restored");
    is_int(at.epochs_done, 3, "the number of epochs is restored");
    near(c.epochs[2].test_top5, 99.5, 0, "recorded epochs have their numbers");
    o.kind = TRAIN_SGD;
    is_int(checkpoint_read(&c, &o, path, &e), -1, "a checkpoint of another optimizer is refused");
    has_str(e.text, "train.optimizer", "the error names the option train.optimizer");
    checkpoint_image_fini(&c);
    network_close(&back);
}

// Checkpoints of f32, and older ones, have no scale of the loss; one out of bounds is refused.
static void test_loss_scale(struct checkpoint_image *image) {
    static const struct {
        double scale, good;
        const char *refused;
    } cases[] = {{0, 0, NULL},
                 {1.0 / (1 << 14), 1999, NULL},
                 {1 << 24, 0, NULL},
                 {1e-6, 0, "'loss_scale' is 1e-06, not between"},
                 {1e9, 0, "'loss_scale' is 1e+09, not between"},
                 {1024, 2000, "'loss_scale_good' is 2000, not between 0 and 1999"},
                 {1024, -1, "'loss_scale_good' is -1, not between 0 and 1999"}};
    const struct train_position before = image->at;
    struct train_position at;
    struct arena a = {0};
    struct safetensors_file f;
    struct err e;
    char path[FILE_PATH_BYTES_MAX];
    checkpoint_path(dir, image->at.step, path, sizeof path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        image->at.loss_scale = cases[i].scale, image->at.loss_scale_good = cases[i].good;
        is_int(checkpoint_write(image, dir, 2, &e), 0, "a checkpoint is written");
        is_int(checkpoint_peek(path, &at, &e), cases[i].refused ? -1 : 0, "scale %g, good %g",
               cases[i].scale, cases[i].good);
        if (cases[i].refused)
            has_str(e.text, cases[i].refused, "the error names the value and its bounds");
        else
            ok(at.loss_scale == cases[i].scale && at.loss_scale_good == cases[i].good,
               "both are restored");
    }
    image->at = before;
    image->at.loss_scale = 0;
    if (checkpoint_write(image, dir, 2, &e) < 0 ||
        safetensors_open(&f, &a, file_join(&a, path, "state.safetensors"), &e) < 0)
        bail_out("%s", e.text);
    ok(!safetensors_get_meta(&f.header, "loss_scale"), "none is written where there is none");
    safetensors_close(&f);
    arena_fini(&a);
    image->at = before;
    is_int(checkpoint_write(image, dir, 2, &e), 0, "the checkpoint is written again");
}

static void test_on_disk(struct network *net) {
    struct arena a = {0};
    struct safetensors_file f;
    struct err e;
    char path[FILE_PATH_BYTES_MAX];
    checkpoint_path(dir, 1234, path, sizeof path);
    is_int(safetensors_open(&f, &a, file_join(&a, path, "model.safetensors"), &e), 0,
           "the file of the model is opened");
    is_uint(f.header.count, 62 + 3 * 20,
            "the file has 62 parameters and three tensors for each of 20 batch norms");
    enum { IN = 16, OUT = 32 };
    const struct safetensors_tensor *t = safetensors_find(&f.header, "layer2.0.conv1.weight");
    ok(t && t->ndim == 4 && t->dim[0] == OUT && t->dim[1] == IN && t->dim[2] == 3 && t->dim[3] == 3,
       "a convolution is out, in, 3, 3");
    float w[OUT * IN * 9];
    is_int(safetensors_read(&f, t, w, sizeof w, &e), 0, "the tensor is read");
    const float *memory = (float *)(void *)net->params + param("layer2.0.conv1.weight")->begin;
    near(w[(5 * IN + 7) * 9 + 2 * 3 + 1], memory[((5 * 3 + 2) * 3 + 1) * IN + 7], 0,
         "a weight is at its place");
    t = safetensors_find(&f.header, "bn1.num_batches_tracked");
    ok(t && t->type == SAFETENSORS_I64 && t->ndim == 0 && t->begin % 8 == 0,
       "num_batches_tracked is one 64-bit integer");
    is_str(safetensors_get_meta(&f.header, "format"), "pt", "metadata names the format");
    safetensors_close(&f);
    arena_fini(&a);
}

static void test_refused(void) {
    struct checkpoint_image c;
    struct arena a = {0};
    struct err e;
    char path[FILE_PATH_BYTES_MAX];
    build(&other, 7);
    checkpoint_image_init(&c, &other, 0);
    checkpoint_path(dir, 1234, path, sizeof path);
    const char *file = file_join(&a, path, "model.safetensors");
    is_int(checkpoint_read_model(&c, file, false, &e), -1, "a model with other classes is refused");
    has_str(e.text, "fc.weight", "the error names the tensor that differs");
    has_str(e.text, "train.new_head", "the error names the option train.new_head");
    size_t head = other.param[other.params - 1].begin;
    c.params[head] = 3.5f;
    is_int(checkpoint_read_model(&c, file, true, &e), 0, "a model without its last layer is read");
    near(c.params[head], 3.5, 0, "the last layer keeps its weights");
    near(c.stats[other.stat[3].mean + 1], 4, 0, "the rest is that of the file");
    checkpoint_image_fini(&c);
    arena_fini(&a);
}

// ---- files of others ----

static uint16_t to_bf16(float v) { // exact for what test_foreign writes
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static uint16_t to_f16(float v) { // of small multiples of 1/8
    int exponent;
    float fraction = frexpf(fabsf(v), &exponent);
    unsigned sign = v < 0 ? 0x8000 : 0;
    if (v == 0)
        return (uint16_t)sign;
    return (uint16_t)(sign | (unsigned)(exponent + 14) << 10 |
                      ((unsigned)(fraction * 2048) & 1023));
}

// The mlp, each number a small multiple of 1/8, under prefixed names and in some type.
static void write_foreign(const char *path, enum safetensors_type type, const char *prefix) {
    struct arena a = {0};
    struct safetensors_writer w;
    struct err e;
    struct safetensors_header h = {.count = (size_t)other.params};
    h.tensors = arena_new(&a, struct safetensors_tensor, h.count);
    for (size_t i = 0; i < h.count; i++) {
        int dim[4];
        h.tensors[i].name = arena_printf(&a, "%s%s", prefix, other.param[i].name);
        h.tensors[i].type = type;
        h.tensors[i].ndim = model_disk_shape(&other.param[i], dim);
        for (int d = 0; d < h.tensors[i].ndim; d++)
            h.tensors[i].dim[d] = (uint64_t)dim[d];
    }
    if (safetensors_create(&w, path, &h, &e) < 0)
        bail_out("%s", e.text);
    for (size_t i = 0; i < h.count; i++)
        for (size_t j = 0; j < other.param[i].count; j++) {
            float v = (float)((int)(i + j) % 17 - 8) / 8;
            double wide = (double)v;
            uint16_t half = type == SAFETENSORS_BF16 ? to_bf16(v) : to_f16(v);
            const void *from = type == SAFETENSORS_F64   ? (const void *)&wide
                               : type == SAFETENSORS_F32 ? (const void *)&v
                                                         : (const void *)&half;
            safetensors_put(&w, from, safetensors_type_bytes(type), &e);
        }
    is_int(safetensors_commit(&w, &e), 0, "weights are written in %s%s",
           safetensors_type_name(type), *prefix ? ", with a prefix" : "");
    arena_fini(&a);
}

static void test_foreign(void) {
    static const enum safetensors_type types[] = {SAFETENSORS_F32, SAFETENSORS_F64, SAFETENSORS_F16,
                                                  SAFETENSORS_BF16};
    struct arena a = {0};
    struct checkpoint_image c;
    struct err e;
    struct nn_model_spec spec = {
        .name = "mlp", .hidden = {9}, .nhidden = 1, .h = 1, .w = 1, .c = 3, .classes = 4};
    const char *path = file_join(&a, dir, "foreign.safetensors");
    if (model_build(&other, &spec, &e) < 0)
        bail_out("%s", e.text);
    checkpoint_image_init(&c, &other, 0);
    for (int k = 0; k < 8; k++) {
        write_foreign(path, types[k / 2], k % 2 ? "module." : "");
        memset(c.params, 0, other.param_elements * sizeof *c.params);
        is_int(checkpoint_read_model(&c, path, false, &e), 0, "weights of this type are read");
        int wrong = 0;
        for (int i = 0; i < other.params; i++)
            for (size_t j = 0; j < other.param[i].count; j++)
                wrong += c.params[other.param[i].begin + j] != (float)((i + (int)j) % 17 - 8) / 8;
        is_int(wrong, 0, "weights of this type are exact");
    }
    write_foreign(path, SAFETENSORS_BF16, "model.");
    is_int(checkpoint_read_model(&c, path, false, &e), -1,
           "weights with another prefix are refused");
    write_foreign(path, SAFETENSORS_I16, "");
    is_int(checkpoint_read_model(&c, path, false, &e), -1, "weights of integers are refused");
    has_str(e.text, "is I16, not F32, F64, F16 or BF16", "the error names the type");
    checkpoint_image_fini(&c);
    arena_fini(&a);
}

static void build_vit(struct nn_model *m, int side) {
    struct err e;
    struct nn_model_spec spec = {
        .name = "vit(dim=16,depth=1,heads=2,patch=4)", .h = side, .w = side, .c = 3, .classes = 4};
    if (model_build(m, &spec, &e) < 0)
        bail_out("%s", e.text);
}

// A vision transformer of 8 x 8 pixels begins one of 16 x 16: only the positions are interpolated.
static void test_positions(void) {
    struct arena a = {0};
    struct nn_model small = {0}, large = {0};
    struct checkpoint_image from, to;
    struct err e = {0};
    char path[FILE_PATH_BYTES_MAX];
    const struct nn_param *p = NULL;
    build_vit(&small, 8);
    build_vit(&large, 16);
    checkpoint_image_init(&from, &small, 0);
    checkpoint_image_init(&to, &large, 0);
    for (size_t i = 0; i < small.param_elements; i++)
        from.params[i] = 0.5f;
    from.at.step = 5;
    const char *home = file_join(&a, dir, "vit");
    is_int(checkpoint_write(&from, home, 1, &e), 0,
           "a vision transformer of 2 x 2 patches is saved");
    checkpoint_path(home, 5, path, sizeof path);
    is_int(checkpoint_read_model(&to, file_join(&a, path, "model.safetensors"), false, &e), 0,
           "one of 4 x 4 patches reads it: %s", e.text);
    int wrong = 0;
    for (int i = 0; i < large.params; i++) {
        const struct nn_param *q = &large.param[i];
        p = strcmp(q->name, "pos_embed") == 0 ? q : p;
        for (size_t j = 0; j < q->count; j++)
            wrong += fabsf(to.params[q->begin + j] - 0.5f) > 1e-5f;
    }
    is_int(wrong, 0, "all weights are those of the file, and positions are between them");
    is_uint(p ? p->count : 0, 17 * 16,
            "there is one position for each patch and one for the class token");
    checkpoint_image_fini(&from);
    checkpoint_image_fini(&to);
    model_free(&small);
    model_free(&large);
    arena_fini(&a);
}

static void begin_write(struct checkpoint_thread *w, const struct network *net,
                        const struct train_position *at) {
    const struct optimizer o = {.kind = TRAIN_ADAM};
    const struct epoch_record epochs[3] = {{0}};
    checkpoint_image_take(checkpoint_thread_image(w), net);
    checkpoint_image_note(checkpoint_thread_image(w), &o, at, epochs);
    checkpoint_thread_go(w);
}

static void test_writer(struct network *net, struct train_position *at) {
    struct checkpoint_thread *w;
    struct stat st;
    struct err e;
    int64_t steps[8];
    is_int(checkpoint_thread_open(&w, &model, 2, dir, 2, NULL, &e), 0, "the writing thread starts");
    for (at->step = 2000; at->step < 2003; at->step++) {
        is_int(checkpoint_thread_wait(w, &e), 0, "step %d is written", (int)at->step);
        begin_write(w, net, at);
        float changed = (float)at->step; // the copy is taken: training continues at once
        network_set(net, net->params, 0, 1, &changed);
    }
    is_int(checkpoint_thread_wait(w, &e), 0, "all checkpoints are written");
    is_int(checkpoint_list(dir, steps, 8, NULL), 2, "two are kept");
    ok(steps[0] == 2002 && steps[1] == 2001, "the newest two are kept");
    char path[FILE_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/.checkpoint.new", dir);
    ok(stat(path, &st) < 0, "no unfinished checkpoint is left");
    checkpoint_thread_close(w);
    struct arena a = {0};
    const char *blocked = file_join(&a, dir, "file");
    is_int(file_write_atomic(blocked, "", 0, 0644, &e), 0, "a file where the folder should be");
    is_int(checkpoint_thread_open(&w, &model, 2, file_join(&a, blocked, "state"), 2, NULL, &e), 0,
           "a writer that cannot write");
    begin_write(w, net, at);
    is_int(checkpoint_thread_wait(w, &e), -1, "a failed write is an error of the wait");
    has_str(e.text, "checkpoint at step 2003", "the error names the step");
    is_int(checkpoint_thread_wait(w, &e), 0, "a failed write is reported once");
    arena_fini(&a);
    checkpoint_thread_close(w);
}

static int64_t consumed(const char *path) {
    struct train_position at;
    struct err e;
    return checkpoint_peek(path, &at, &e) < 0 ? -1 : at.consumed;
}

// The writer dies at some point of replacing a checkpoint by one of the same step.
static void test_replaced(struct checkpoint_image *image) {
    struct arena a = {0};
    struct err e;
    char path[FILE_PATH_BYTES_MAX];
    const char *home = file_join(&a, dir, "replaced");
    const char *finished = file_join(&a, home, ".checkpoint.new");
    const char *old = file_join(&a, home, ".checkpoint.old");
    checkpoint_path(home, 1234, path, sizeof path);
    image->at.consumed = 1;
    is_int(checkpoint_write(image, home, 1, &e), 0, "a checkpoint is written");
    image->at.consumed = 2;
    is_int(checkpoint_write(image, home, 1, &e), 0, "the same checkpoint is written again");
    is_int(consumed(path), 2, "the new checkpoint replaces the old one");
    ok(!file_exists(finished) && !file_exists(old), "nothing else is left");
    is_int(rename(path, finished), 0, "a finished checkpoint is left without its name");
    checkpoint_adopt(home);
    is_int(consumed(path), 2, "a finished checkpoint gets its name at the next start");
    is_int(rename(path, finished), 0, "a finished checkpoint is left without its name again");
    is_int(truncate(file_join(&a, finished, "model.safetensors"), 1000), 0,
           "the model of the checkpoint is cut");
    checkpoint_adopt(home);
    ok(!file_exists(path), "a cut checkpoint gets no name");
    image->at.consumed = 3;
    is_int(checkpoint_write(image, home, 1, &e), 0,
           "the next checkpoint takes the place of a cut one");
    is_int(rename(path, old), 0, "an old checkpoint is left under its temporary name");
    checkpoint_adopt(home);
    int64_t step;
    is_int(checkpoint_list(home, &step, 1, NULL), 0,
           "an old checkpoint under a temporary name is not listed");
    arena_fini(&a);
}

int main(void) {
    struct network net;
    struct checkpoint_image image;
    struct err e;
    struct optimizer o = {.kind = TRAIN_ADAM, .step = 1230};
    struct train_position at = {.step = 1234,
                                .epoch = 3,
                                .consumed = 640,
                                .samples = 1000,
                                .seed = 9,
                                .data = 77777777777,
                                .tracked = 77,
                                .epochs_done = 3,
                                .best_top1 = 61.25,
                                .loss_scale = 2048,
                                .loss_scale_good = 17};
    struct epoch_record epochs[3] = {[2] = {.test_top5 = 99.5}};
    if (!mkdtemp(dir))
        bail_out("mkdtemp");
    build(&model, 10);
    open_network(&net, &model);
    fill(&net);
    checkpoint_image_init(&image, &model, 2);
    checkpoint_image_take(&image, &net);
    checkpoint_image_note(&image, &o, &at, epochs);
    test_round_trip(&image, &net);
    test_loss_scale(&image);
    test_on_disk(&net);
    test_refused();
    test_foreign();
    test_positions();
    test_replaced(&image);
    test_writer(&net, &at);
    checkpoint_image_fini(&image);
    network_close(&net);
    file_remove_tree(dir, &e);
    return done_testing();
}
