// SPDX-License-Identifier: Apache-2.0
// Checkpoints with a change: what a file may lack, and the error for each other change.
#include "nn/checkpoint.h"

#include "base/arena.h"
#include "nn/safetensors.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

static char dir[] = "/tmp/test_checkpoint_read.XXXXXX";
static struct err e;
static struct nn_model mlp, resnet;
static struct arena keep;

static void build(struct nn_model *m, const char *name, int side) {
    struct nn_model_spec spec = {
        .name = name, .stem = "cifar", .h = side, .w = side, .c = 3, .classes = 4};
    if (model_build(m, &spec, &e) < 0)
        bail_out("%s", e.text);
}

// ---- a file with a change ----------------------------------------------------------------------

enum { TENSOR_BYTES_MAX = 1 << 20 };

struct change {
    const char *meta, *value;  // metadata; value NULL: left out
    const char *tensor, *name; // name NULL: left out
    int type, ndim;            // -1: as it is
    uint64_t dim[2];           // with ndim
    double number;             // of all elements, where it is not 0
};

static void put(struct safetensors_writer *w, const void *bytes, size_t len) {
    if (safetensors_put(w, bytes, len, &e) < 0)
        bail_out("%s", e.text);
}

// The bytes that were there, and nothing behind them; or one number.
static void put_tensor(struct safetensors_writer *w, const struct safetensors_tensor *t,
                       double number, const char *bytes, size_t len) {
    static const char nothing[1 << 16];
    size_t wanted = (size_t)(t->end - t->begin), first = len < wanted ? len : wanted;
    float narrow = (float)number;
    if (fabs(number) > 0 || isnan(number)) {
        for (size_t at = 0; at < wanted; at += sizeof narrow)
            put(w, &narrow, sizeof narrow);
        return;
    }
    put(w, bytes, first);
    for (size_t left = wanted - first, n; left > 0; left -= n) {
        n = left < sizeof nothing ? left : sizeof nothing;
        put(w, nothing, n);
    }
}

static void change(const char *from, const char *to, const struct change *c) {
    static char bytes[TENSOR_BYTES_MAX];
    struct safetensors_file f;
    struct safetensors_writer w;
    struct arena a = {0};
    struct safetensors_header h = {0};
    if (safetensors_open(&f, &a, from, &e) < 0)
        bail_out("%s", e.text);
    h.tensors = arena_new(&a, struct safetensors_tensor, f.header.count);
    h.meta = arena_new(&a, struct safetensors_meta, f.header.meta_count);
    const struct safetensors_tensor **old =
        arena_new(&a, const struct safetensors_tensor *, f.header.count);
    for (size_t i = 0; i < f.header.count; i++) {
        struct safetensors_tensor t = f.header.tensors[i];
        bool it = c->tensor && strcmp(t.name, c->tensor) == 0;
        if (it && !c->name)
            continue;
        if (it) {
            t.name = c->name;
            t.type = c->type >= 0 ? (enum safetensors_type)c->type : t.type;
            t.ndim = c->ndim >= 0 ? c->ndim : t.ndim;
            for (int d = 0; d < c->ndim; d++)
                t.dim[d] = c->dim[d];
        }
        old[h.count] = &f.header.tensors[i];
        h.tensors[h.count++] = t;
    }
    for (size_t i = 0; i < f.header.meta_count; i++) {
        struct safetensors_meta m = f.header.meta[i];
        bool it = c->meta && strcmp(m.key, c->meta) == 0;
        m.value = it ? c->value : m.value;
        if (m.value)
            h.meta[h.meta_count++] = m;
    }
    if (safetensors_create(&w, to, &h, &e) < 0)
        bail_out("%s", e.text);
    for (size_t i = 0; i < h.count; i++) {
        size_t len = (size_t)(old[i]->end - old[i]->begin);
        bool it = c->tensor && c->name && strcmp(h.tensors[i].name, c->name) == 0;
        if (len > sizeof bytes || safetensors_read(&f, old[i], bytes, len, &e) < 0)
            bail_out("%s", e.text);
        put_tensor(&w, &h.tensors[i], it ? c->number : 0, bytes, len);
    }
    if (safetensors_commit(&w, &e) < 0)
        bail_out("%s", e.text);
    safetensors_close(&f);
    arena_fini(&a);
}

static const char *in(const char *folder, const char *file) {
    return file_join(&keep, file_join(&keep, dir, folder), file);
}

static void write_checkpoint(const struct nn_model *m, const char *folder, int states,
                             const struct optimizer *o) {
    struct checkpoint_image c;
    struct epoch_record epochs[2] = {{.images = 3}, {.images = 4}};
    struct train_position at = {.step = 7,
                                .epoch = 2,
                                .consumed = 5,
                                .samples = 6,
                                .seed = 8,
                                .data = 9,
                                .tracked = 10,
                                .epochs_done = 2,
                                .best_top1 = 1.5,
                                .loss_scale = 512,
                                .loss_scale_good = 3,
                                .epoch_loss_sum = 2.5,
                                .epoch_top1_sum = 3.5,
                                .epoch_images = 4.5,
                                .epoch_seconds = 5.5};
    checkpoint_image_init(&c, m, states);
    for (size_t i = 0; i < m->param_elements; i++) {
        c.params[i] = (float)(i + 1);
        for (int s = 0; s < states; s++)
            c.state[s][i] = (float)(1000 * (s + 1)) + (float)i;
    }
    for (size_t i = 0; i < m->stat_elements; i++)
        c.stats[i] = (float)(2 * i + 1);
    checkpoint_image_note(&c, o, &at, epochs);
    if (checkpoint_write(&c, file_join(&keep, dir, folder), 1, &e) < 0)
        bail_out("%s", e.text);
    checkpoint_image_fini(&c);
}

// ---- the position ------------------------------------------------------------------------------

static const struct {
    const char *key, *value, *error; // value NULL: left out; error NULL: it may
} metas[] = {
    {"step", NULL, "metadata lacks 'step'"},
    {"step", "-1", "metadata 'step': "},
    {"step", "0", NULL},
    {"epoch", NULL, "metadata lacks 'epoch'"},
    {"consumed", "x", "metadata 'consumed': "},
    {"samples", NULL, "metadata lacks 'samples'"},
    {"seed", NULL, "metadata lacks 'seed'"},
    {"data", NULL, NULL},
    {"data", "-1", "metadata 'data': "},
    {"best_top1", NULL, "metadata lacks 'best_top1'"},
    {"best_top1", "nan", "metadata 'best_top1': "},
    {"epoch_loss_sum", NULL, "metadata lacks 'epoch_loss_sum'"},
    {"epoch_top1_sum", NULL, "metadata lacks 'epoch_top1_sum'"},
    {"epoch_images", NULL, "metadata lacks 'epoch_images'"},
    {"epoch_seconds", "1e301", "metadata 'epoch_seconds': "},
    {"loss_scale", NULL, NULL},
    {"loss_scale_good", NULL, "metadata lacks 'loss_scale_good'"},
    {"loss_scale", "0.00006103515625", NULL},
    {"loss_scale", "0.0000610351562", "metadata 'loss_scale' is 6.10352e-05, not between"},
    {"loss_scale", "16777216", NULL},
    {"loss_scale", "16777217", "metadata 'loss_scale' is 1.67772e+07, not between"},
    {"loss_scale_good", "1999", NULL},
    {"loss_scale_good", "2000", "'loss_scale_good' is 2000, not between 0 and 1999"},
    {"loss_scale_good", "-1", "'loss_scale_good' is -1, not between 0 and 1999"},
};

static void test_position(void) {
    struct train_position at;
    const char *from = in("plain/checkpoint-0000000007", "state.safetensors");
    const char *home = file_join(&keep, dir, "meta");
    if (file_make_dirs(home, 0755, &e) < 0)
        bail_out("%s", e.text);
    for (size_t i = 0; i < sizeof metas / sizeof *metas; i++) {
        const struct change c = {.meta = metas[i].key, .value = metas[i].value};
        change(from, in("meta", "state.safetensors"), &c);
        err_clear(&e);
        is_int(checkpoint_peek(home, &at, &e), metas[i].error ? -1 : 0,
               "position %zu, %s, has its verdict", i, metas[i].key);
        if (metas[i].error)
            has_str(e.text, metas[i].error, "position %zu has its error", i);
        is_int(e.code != ERR_NONE, metas[i].error != NULL, "position %zu has its code", i);
        if (!metas[i].value && strcmp(metas[i].key, "data") == 0)
            is_int(at.data, 0, "an older checkpoint has no digest of the data");
        if (!metas[i].value && strcmp(metas[i].key, "loss_scale") == 0)
            near(fabs(at.loss_scale) + fabs(at.loss_scale_good), 0, 0,
                 "an older checkpoint has no scale of the loss");
    }
    is_int(checkpoint_peek(file_join(&keep, dir, "plain/checkpoint-0000000007"), &at, &e), 0,
           "the position is read as it is");
    ok(at.step == 7 && at.epoch == 2 && at.consumed == 5 && at.samples == 6 && at.seed == 8 &&
           at.data == 9,
       "all integers are read");
    near(at.best_top1 + at.epoch_loss_sum + at.epoch_top1_sum + at.epoch_images + at.epoch_seconds,
         17.5, 0, "all numbers are read");
    ok(at.loss_scale >= 512 && at.loss_scale_good >= 3, "the scale of the loss is read");
}

// ---- tensors of the state ----------------------------------------------------------------------

static const struct {
    struct change c;
    const char *error;
} states[] = {
    {{.tensor = "epochs"}, "the table of epochs is missing or malformed"},
    {{.tensor = "epochs", .name = "epochs", .type = SAFETENSORS_F32, .ndim = -1},
     "the table of epochs is missing or malformed"},
    {{.tensor = "epochs", .name = "epochs", .type = -1, .ndim = 1, .dim = {14}},
     "the table of epochs is missing or malformed"},
    {{.tensor = "epochs", .name = "epochs", .type = -1, .ndim = 2, .dim = {2, 6}},
     "the table of epochs is missing or malformed"},
    {{.tensor = "epochs", .name = "epochs", .type = -1, .ndim = 2, .dim = {65537, 7}},
     "the table of epochs is missing or malformed"},
    {{.tensor = "epochs", .name = "epochs", .type = -1, .ndim = 2, .dim = {65536, 7}}, NULL},
    {{.meta = "optimizer", .value = "sgd"},
     "is a checkpoint of optimizer 'sgd', the run uses 'adam': set train.optimizer to it"},
    {{.meta = "optimizer"}, "is a checkpoint of optimizer '', the run uses 'adam'"},
    {{.meta = "optimizer_step"}, "metadata lacks 'optimizer_step'"},
    {{.tensor = "exp_avg.fc1.weight"}, "there is no tensor 'exp_avg.fc1.weight'"},
    {{.tensor = "exp_avg_sq.fc2.bias"}, "there is no tensor 'exp_avg_sq.fc2.bias'"},
    {{.tensor = "exp_avg.fc1.bias",
      .name = "exp_avg.fc1.bias",
      .type = -1,
      .ndim = -1,
      .number = (double)INFINITY},
     "tensor 'exp_avg.fc1.bias' holds inf: training had diverged when it was written"},
};

static int read_again(struct checkpoint_image *c, struct optimizer *o, const struct change *change_,
                      const char *folder) {
    const char *home = file_join(&keep, dir, "changed");
    const char *old = in(folder, "checkpoint-0000000007");
    if (file_make_dirs(home, 0755, &e) < 0)
        bail_out("%s", e.text);
    change(file_join(&keep, old, "state.safetensors"), in("changed", "state.safetensors"), change_);
    change(file_join(&keep, old, "model.safetensors"), in("changed", "model.safetensors"),
           &(struct change){0});
    err_clear(&e);
    return checkpoint_read(c, o, home, &e);
}

static void test_states(void) {
    struct checkpoint_image c;
    struct optimizer o = {.kind = TRAIN_ADAM};
    checkpoint_image_init(&c, &mlp, 2);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        is_int(read_again(&c, &o, &states[i].c, "plain"), states[i].error ? -1 : 0,
               "state %zu has its verdict", i);
        if (states[i].error)
            has_str(e.text, states[i].error, "state %zu has its error", i);
    }
    is_int(read_again(&c, &o, &(struct change){0}, "plain"), 0, "a state is read as it is");
    ok(c.at.epochs_done == 2 && c.epochs[1].images >= 4, "the epochs are read");
    is_int(o.step, 11, "the optimizer's step is read");
    is_int(c.at.optimizer_kind, TRAIN_ADAM, "the optimizer's kind is known");
    checkpoint_image_fini(&c);
}

// A checkpoint may lack the average of weights, and the momentum of rounds.
static void test_lacking(void) {
    struct optimizer plain = {.kind = TRAIN_ADAM, .step = 11}, o = plain;
    struct checkpoint_image c;
    o.ema = 0.5;
    o.rounds = true;
    o.outer_momentum = 0.9;
    int all = optimizer_states(&o);
    is_int(all, 4, "there are two moments, an average and the momentum of rounds");
    checkpoint_image_init(&c, &mlp, all);
    memset(c.state[3], 1, mlp.param_elements * sizeof(float));
    is_int(read_again(&c, &o, &(struct change){0}, "plain"), 0,
           "a checkpoint without an average is read: %s", e.text);
    is_mem(c.state[2], mlp.param_elements * sizeof(float), c.params,
           mlp.param_elements * sizeof(float), "the average begins with the weights");
    int others = 0;
    for (size_t i = 0; i < mlp.param_elements; i++)
        others += fabsf(c.state[3][i]) > 0;
    is_int(others, 0, "the momentum of rounds begins with nothing");
    write_checkpoint(&mlp, "full", all, &o);
    is_int(read_again(&c, &o, &(struct change){0}, "full"), 0, "a checkpoint with all is read");
    size_t at = mlp.param[1].begin;
    near(c.state[2][at], 3000 + (double)at, 0, "the average is that of the checkpoint");
    near(c.state[3][at], 4000 + (double)at, 0, "the momentum of rounds is, too");
    is_int(read_again(&c, &o, &(struct change){.tensor = "ema.fc2.bias"}, "full"), -1,
           "half an average is refused");
    has_str(e.text, "there is no tensor 'ema.fc2.bias'", "the error names the missing part");
    checkpoint_image_fini(&c);
}

// ---- the model ---------------------------------------------------------------------------------

#define TRACKED "bn1.num_batches_tracked"
static const struct {
    struct change c;
    const char *error;
    int64_t tracked;
} tensors[] = {
    {{.tensor = TRACKED, .name = TRACKED, .type = SAFETENSORS_U64, .ndim = -1},
     "tensor '" TRACKED "' is U64, not I64",
     0},
    {{.tensor = TRACKED, .name = TRACKED, .type = -1, .ndim = 1, .dim = {1}},
     "tensor '" TRACKED "' has another shape than here",
     0},
    {{.tensor = TRACKED}, NULL, 10},
    {{.tensor = "bn1.running_mean"}, "there is no tensor 'bn1.running_mean'", 0},
    {{.tensor = "bn1.running_var", .name = "x", .type = -1, .ndim = -1},
     "there is no tensor 'bn1.running_var' (is it of another model?)",
     0},
    {{.tensor = "bn1.weight", .name = "bn1.weight", .type = -1, .ndim = 1, .dim = {9}},
     "tensor 'bn1.weight' has another shape than here: another model, stem, image size or number "
     "of classes (for other classes: train.new_head)?",
     0},
    {{.tensor = "bn1.weight", .name = "bn1.weight", .type = -1, .ndim = 2, .dim = {8, 1}},
     "tensor 'bn1.weight' has another shape",
     0},
    {{.tensor = "fc.bias", .name = "fc.bias", .type = -1, .ndim = -1, .number = (double)NAN},
     "tensor 'fc.bias' holds nan: training had diverged when it was written",
     0},
    {{0}, NULL, 10},
};

static void test_model(void) {
    struct checkpoint_image c;
    checkpoint_image_init(&c, &resnet, 0);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        change(in("stats/checkpoint-0000000007", "model.safetensors"),
               in("stats", "model.safetensors"), &tensors[i].c);
        err_clear(&e);
        is_int(checkpoint_read_model(&c, in("stats", "model.safetensors"), false, &e),
               tensors[i].error ? -1 : 0, "model %zu has its verdict", i);
        if (tensors[i].error)
            has_str(e.text, tensors[i].error, "model %zu has its error", i);
        else
            is_int(c.at.tracked, tensors[i].tracked, "model %zu has its batches", i);
    }
    near(c.stats[resnet.stat[0].mean + 2], 2 * (double)(resnet.stat[0].mean + 2) + 1, 0,
         "the mean is that of the file");
    near(c.stats[resnet.stat[0].var + 2], 2 * (double)(resnet.stat[0].var + 2) + 1, 0,
         "the variance is that of the file");
    checkpoint_image_fini(&c);
}

int main(void) {
    struct optimizer adam = {.kind = TRAIN_ADAM, .step = 11};
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    build(&mlp, "mlp(hidden=3)", 2);
    build(&resnet, "resnet18(width=8)", 32);
    write_checkpoint(&mlp, "plain", 2, &adam);
    write_checkpoint(&resnet, "stats", 0, &adam);
    test_position();
    test_states();
    test_lacking();
    test_model();
    model_free(&mlp);
    model_free(&resnet);
    arena_fini(&keep);
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
