// SPDX-License-Identifier: Apache-2.0
// crash_states SECONDS SEED FOLDER: what a power loss (crash.h) may leave of checkpoints and of
// files that are written atomically.
#include "nn/checkpoint.h"
#include "tests/tools/crash.h"

static struct nn_model model;
static struct network net;
static struct checkpoint_image image;

static void take(int version, int64_t step) {
    struct optimizer o = {.kind = TRAIN_SGD, .momentum = 0.9};
    struct train_position at = {.step = step, .consumed = version, .samples = 100};
    struct epoch_record none = {0};
    float v = (float)version;
    network_set(&net, net.params, 0, 1, &v);
    checkpoint_image_take(&image, &net);
    checkpoint_image_note(&image, &o, &at, &none);
}

// The version from which a start would resume; 0: none.
static int read_checkpoint(const char *dir) {
    int64_t steps[VERSIONS];
    checkpoint_adopt(dir);
    int count = checkpoint_list(dir, steps, VERSIONS, NULL);
    for (int i = 0; i < count; i++) {
        char path[FILE_PATH_BYTES_MAX];
        struct optimizer o = {.kind = TRAIN_SGD, .momentum = 0.9};
        struct err why;
        checkpoint_path(dir, steps[i], path, sizeof path);
        if (checkpoint_read(&image, &o, path, &why) < 0)
            continue;
        int version = (int)image.params[0];
        return version == image.at.consumed ? version : 0; // both files are of one version
    }
    return 0;
}

static int read_file(const char *dir) {
    struct arena a = {0};
    struct err why;
    char *text;
    size_t len;
    int64_t version = 0;
    if (file_read(&a, file_join(&a, dir, "f"), 1 << 20, &text, &len, &why) == 0 &&
        (len != 5000 || str_parse_i64(text + 4990, 0, 100, &version, &why) < 0))
        version = 0;
    arena_fini(&a);
    return (int)version;
}

static void write_checkpoint(const struct scenario *c, int version) {
    struct err e;
    char path[FILE_PATH_BYTES_MAX];
    int64_t step = 4 + c->steps * version;
    take(version, step);
    checkpoint_path(root, step, path, sizeof path);
    if (c->too_early)
        file_remove_tree(path, &e);
    if (checkpoint_write(&image, root, 1, &e) < 0)
        bail_out("%s", e.text);
}

static void write_file(const struct scenario *c, int version) {
    (void)c;
    struct err e;
    char path[FILE_PATH_BYTES_MAX], text[5001];
    snprintf(text, sizeof text, "%05000d", version);
    snprintf(path, sizeof path, "%s/f", root);
    if (file_write_atomic(path, text, 5000, 0644, &e) < 0)
        bail_out("%s", e.text);
}

static void setup(void) {
    struct nn_model_spec spec = {
        .name = "mlp", .hidden = {2}, .nhidden = 1, .h = 1, .w = 1, .c = 3, .classes = 2};
    struct network_config config = {
        .model = &model, .backend = &kernels_reference, .batch = 1, .states = 1};
    struct err e;
    if (model_build(&model, &spec, &e) < 0 || network_open(&net, &config, &e) < 0)
        bail_out("%s", e.text);
}

#define CHECKPOINT  .write = write_checkpoint, .read = read_checkpoint
#define FILE_ATOMIC .write = write_file, .read = read_file

int main(int argc, char **argv) {
    // steps: between two versions; 0: each replaces the one before.
    static const struct scenario all[] = {
        {"checkpoints one after the other", CHECKPOINT, .steps = 4},
        {"checkpoints of one step", CHECKPOINT},
        {"the same, without an exchange of names", CHECKPOINT, .no_exchange = true},
        {"files written atomically", FILE_ATOMIC},
        {"the old one is removed first", CHECKPOINT, .too_early = true},
        {"checkpoints without fsync", CHECKPOINT, .steps = 4, .no_sync = true},
        {"files without fsync", FILE_ATOMIC, .no_sync = true},
    };
    setup();
    checkpoint_image_init(&image, &model, 1);
    int status = crash_main(argc, argv, all, sizeof all / sizeof all[0]);
    checkpoint_image_fini(&image);
    network_close(&net);
    return status;
}
