// SPDX-License-Identifier: Apache-2.0
// From options to data sets, samplers and loaders: which images are read how, by how many threads,
// and what is refused.
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/data/pictures.h"
#include "trainer/trainer_impl.h"

#include <unistd.h>

static struct err e;
static char dir[64];
static struct train_config options;
static struct trainer_config config;
static struct trainer t;

// One rank with the built-in images.
static void reset(void) {
    trainer_data_close(&t);
    options = (struct train_config){.dataset = TRAIN_DATA_SHAPES,
                                    .train_size = 12,
                                    .test_size = 7,
                                    .eval = true,
                                    .eval_batch = 4,
                                    .normalize = TRAIN_NORM_CIFAR10,
                                    .bad_samples_max = 3,
                                    .flip = true,
                                    .crop_pad = 2,
                                    .seed = 9};
    config = (struct trainer_config){.options = &options,
                                     .comm = {.world = 1, .local_world = 1, .nodes = 1}};
    t = (struct trainer){.config = &config,
                         .options = &options,
                         .world = 1,
                         .mesh = {.world = 1, .data = 1, .pipe = 1},
                         .shards = 1,
                         .micro_batch = 5};
    CPU_ZERO(&t.allowed);
    CPU_SET(0, &t.allowed);
    err_clear(&e);
}

static void put(const char *name, int w, int h) {
    char path[200];
    unsigned char *data;
    size_t len = make_jpeg(&data, w, h, 3, PLAIN);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    *strrchr(path, '/') = 0;
    if (file_make_dirs(path, 0755, &e) < 0)
        bail_out("%s", e.text);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (file_write_atomic(path, data, len, 0644, &e) < 0)
        bail_out("%s", e.text);
    free(data);
}

// ---- the built-in images -----------------------------------------------------------------------

static void test_shapes(void) {
    reset();
    is_int(trainer_data_open(&t, &e), 0, "the built-in images open: %s", e.text);
    ok(t.train.samples == 12 && t.test.samples == 7, "both parts have the sizes of the options");
    is_int(t.shares[DATASET_TRAIN].images, 12, "all images are this node's");
    ok(t.data_digest > 0, "the images have a digest");
    ok(t.augment.flip && !t.augment.alternate && t.augment.crop_pad == 2 && t.augment.seed == 9,
       "augmentation has the options");
    near(t.augment.mean[1], 0.4822, 1e-6, "the mean of green is CIFAR-10's");
    near(t.augment.std[2], 0.2616, 1e-6, "the deviation of blue is CIFAR-10's");
    const struct sampler_config *s = &t.shard[0].sampler.config, *v = &t.eval.sampler.config;
    ok(s->samples == 12 && s->world == 1 && s->rank == 0 && s->shuffle && s->seed == 9,
       "training reads all images in random order");
    ok(s->tail == SAMPLER_PAD && v->tail == SAMPLER_EXACT, "an evaluation sees each image once");
    ok(v->samples == 7 && !v->shuffle, "an evaluation reads images in their order");
    sampler_start(&t.shard[0].sampler, 0, 0);
    loader_start(t.shard[0].loader, &t.shard[0].sampler, true);
    is_uint(loader_batches(t.shard[0].loader), 3, "training has batches of 5 of 12 images");
    const struct loader_batch *b = loader_next(t.shard[0].loader);
    ok(b && b->n == 5 && !b->x && b->src[0], "a batch has stored pixels, and no numbers");
    sampler_start(&t.eval.sampler, 0, 0);
    loader_start(t.eval.loader, &t.eval.sampler, false);
    is_uint(loader_batches(t.eval.loader), 2, "an evaluation has batches of 4 of 7 images");
    is_int(trainer_decode_threads(&t, &t.train), 0, "stored pixels need no threads");
    is_uint(trainer_data_bytes(&t), (12 + 7) * 32 * 32 * 3, "the images are counted in memory");

    reset();
    double mean[3] = {0.1, 0.2, 0.3}, std[3] = {0.4, 0.5, 0.6};
    options.mean = (struct option_reals){mean, 3};
    options.std = (struct option_reals){std, 2};
    options.drop_last = true;
    options.eval = false;
    is_int(trainer_data_open(&t, &e), 0, "images without a test part open");
    near(t.augment.mean[2], 0.3, 1e-6, "the options have the mean");
    near(t.augment.std[1], 0.5, 1e-6, "the options have two deviations");
    near(t.augment.std[2], 0.2616, 1e-6, "the third deviation is CIFAR-10's");
    ok(t.test.samples == 0 && !t.eval.loader, "without an evaluation no test images are opened");
    is_int(t.shard[0].sampler.config.tail, SAMPLER_DROP,
           "the tail is left out where that is asked");

    // Two ranks side by side, the second; and one that does the work of three.
    reset();
    t.mesh = (struct mesh){.world = 2, .data = 2, .pipe = 1};
    t.world = t.shards = 2;
    t.data_rank = t.rank = 1;
    is_int(trainer_data_open(&t, &e), 0, "the second of two ranks opens its images");
    s = &t.shard[0].sampler.config;
    ok(s->rank == 1 && s->world == 2, "the second of two ranks trains on its share");
    ok(v->rank == 1 && v->world == 2, "the second of two ranks evaluates its share");
    reset();
    t.shards = 3;
    is_int(trainer_data_open(&t, &e), 0, "a rank does the work of three");
    for (int i = 0; i < 3; i++) {
        s = &t.shard[i].sampler.config;
        ok(s->rank == i && s->world == 3, "share %d is one of three", i);
    }
    ok(v->rank == 0 && v->world == 1, "an evaluation is not shared out to itself");
}

// ---- a folder of pictures ----------------------------------------------------------------------

static void folder(const char *name) {
    static char path[200];
    reset();
    snprintf(path, sizeof path, "%s/%s", dir, name);
    config.data = path;
    options.dataset = TRAIN_DATA_AUTO;
    options.eval = false;
}

static void test_sizes(void) {
    folder("set");
    is_int(trainer_data_open(&t, &e), 0, "a folder opens: %s", e.text);
    ok(t.train.pixels && t.train.width == 40, "images are decoded once, as they are stored");
    is_int(t.train.samples, 4, "a folder of four images is four images");

    folder("set");
    options.random_resized_crop = true;
    options.eval = true;
    options.decode_threads = 1;
    is_int(trainer_data_open(&t, &e), 0, "random parts of images open: %s", e.text);
    ok(!t.train.pixels && !t.test.pixels, "images with random parts are read one by one");
    ok(t.train.width == 224 && t.test.width == 224, "random parts are of 224 pixels");
    is_uint(trainer_data_bytes(&t),
            dataset_memory_bytes(&t.train) + dataset_memory_bytes(&t.test) +
                4U * (5 + 4) * 224 * 224 * 3,
            "four batches of each part are in memory beside the index");

    folder("set");
    options.random_resized_crop = true;
    options.image_size = 16;
    options.eval_resize = 15;
    options.eval = true;
    options.decode_threads = 1;
    is_int(trainer_data_open(&t, &e), -1, "16 pixels are not cut from 15");
    has_str(e.text, "test data: ", "the error names the test data");
    has_str(e.text, "images of 16 pixels cannot be cut from 15", "the error has both sizes");

    folder("set");
    options.decode = TRAIN_DECODE_STREAM;
    is_int(trainer_data_open(&t, &e), 0, "a folder opens image by image");
    ok(!t.train.pixels && t.train.width == 40, "images are read when they are needed");

    folder("set");
    options.decode = TRAIN_DECODE_ONCE;
    options.random_resized_crop = true;
    is_int(trainer_data_open(&t, &e), -1, "random parts of images that are decoded once");
    has_str(e.text, "train.random_resized_crop cuts another part in every epoch",
            "the error says that there is another part in every epoch");
}

static void test_refused(void) {
    folder("set");
    options.eval = true;
    put("set/test/a/0.jpg", 40, 32);
    put("set/test/b/1.jpg", 40, 32);
    is_int(trainer_data_open(&t, &e), -1, "test images of another size are refused");
    is_str(e.text, "training images are 40x30, test images 40x32: set train.image_size",
           "the error has the sizes");
    folder("set");
    options.eval = true;
    options.image_size = 8;
    is_int(trainer_data_open(&t, &e), 0, "images of one size are accepted: %s", e.text);
    folder("set");
    options.dataset = TRAIN_DATA_CIFAR10;
    is_int(trainer_data_open(&t, &e), -1, "a folder is not CIFAR-10");
    has_str(e.text, "training data: ", "the error names the training data");
    reset();
    options.dataset = TRAIN_DATA_IMAGEFOLDER;
    is_int(trainer_data_open(&t, &e), -1, "a kind of data without data is refused");
    has_str(e.text, "train.dataset names a kind of data, and there is none (try: set train.data",
            "the error asks for data");
    is_int(e.code, ERR_CONFIG, "missing data is an error of configuration");
}

// ---- bad samples -------------------------------------------------------------------------------

// Pictures that are cut are bad.
static void test_bad(void) {
    static const char *const names[] = {"bad/train/a/1.jpg", "bad/train/a/3.jpg",
                                        "bad/train/b/0.jpg", "bad/test/b/1.jpg"};
    struct comm_config one = {.world = 1, .cpu = -1};
    char path[200];
    for (int i = 0; i < 4; i++) {
        put(names[i], 40, 30);
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (truncate(path, 30) < 0)
            bail_out("cannot cut '%s'", path);
    }
    put("bad/train/a/0.jpg", 40, 30);
    put("bad/train/a/2.jpg", 40, 30);
    put("bad/train/b/1.jpg", 40, 30);
    put("bad/test/a/0.jpg", 40, 30);
    folder("bad");
    options.eval = true;
    options.image_size = 8;
    options.on_bad_sample = TRAIN_BAD_SKIP;
    if (comm_open(&t.comm, NULL, &one, &e) < 0 || trainer_data_open(&t, &e) < 0)
        bail_out("%s", e.text);
    is_int(trainer_data_bad(&t, &e), 0, "bad samples are counted");
    ok(t.bad_train == 3 && t.bad_test == 1, "bad samples are counted in each part");
    t.bad_train = t.bad_test = 0;
    options.eval = false;
    is_int(trainer_data_bad(&t, &e), 0, "bad samples are counted without an evaluation");
    ok(t.bad_train == 3 && t.bad_test == 0, "without an evaluation no test sample is bad");
    t.bad_train = 0;
    options.on_bad_sample = TRAIN_BAD_REFUSE;
    is_int(trainer_data_bad(&t, &e), 0, "where none is skipped none is counted");
    is_int(t.bad_train, 0, "where none is skipped none is bad");
    comm_close(t.comm);
}

// ---- threads -----------------------------------------------------------------------------------

static void test_threads(void) {
    static const struct {
        int64_t wanted;
        int allowed, local_world;
        double quota;
        int threads;
    } cases[] = {{0, 8, 1, 0, 8},   {0, 8, 2, 0, 4}, {0, 8, 0, 0, 8},   {0, 8, 1, 2.5, 3},
                 {0, 80, 1, 0, 64}, {3, 8, 2, 0, 3}, {64, 1, 1, 0, 64}, {65, 1, 1, 0, 64},
                 {-1, 8, 1, 0, 1},  {0, 1, 16, 0, 1}};
    folder("set");
    options.decode = TRAIN_DECODE_STREAM;
    if (trainer_data_open(&t, &e) < 0)
        bail_out("%s", e.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CPU_ZERO(&t.allowed);
        for (int k = 0; k < cases[i].allowed; k++)
            CPU_SET(k, &t.allowed);
        options.decode_threads = cases[i].wanted;
        config.comm.local_world = cases[i].local_world;
        t.limits.cpus = cases[i].quota;
        is_int(trainer_decode_threads(&t, &t.train), cases[i].threads,
               "threads %zu: %d of %d ranks on %d processors", i, cases[i].threads,
               cases[i].local_world, cases[i].allowed);
    }
}

// ---- a survey ----------------------------------------------------------------------------------

static void test_survey(void) {
    folder("set");
    is_int(trainer_data_survey(&t, &e), 0, "a folder is surveyed");
    ok(!t.train.pixels && t.train.samples == 4 && t.train.width == 40, "a survey has no pixels");
    folder("absent");
    is_int(trainer_data_survey(&t, &e), -1, "absent data is not surveyed");
    is_int(e.code, ERR_NOT_FOUND, "absent data is not found");
    has_str(e.text, "data on this computer (try: train.image_size and train.classes, and a plan",
            "the error asks for size and classes");
    folder("absent");
    options.image_size = 64;
    options.classes = 5;
    is_int(trainer_data_survey(&t, &e), 0, "size and classes are enough for a survey");
    ok(t.train.height == 64 && t.train.width == 64 && t.train.channels == 3 &&
           t.train.classes == 5 && t.train.samples == 0 && strcmp(t.train.kind, "unknown") == 0,
       "a survey without data has the sizes of the options");
    is_uint(trainer_data_bytes(&t), 0, "data that is not here takes no memory");
    folder("absent");
    options.image_size = 64;
    is_int(trainer_data_survey(&t, &e), -1, "a size alone is not enough for a survey");
    folder("absent");
    options.classes = 5;
    is_int(trainer_data_survey(&t, &e), -1, "classes alone are not enough for a survey");
    reset();
    options.image_size = 32;
    options.classes = 5;
    is_int(trainer_data_survey(&t, &e), 0, "the built-in images are surveyed");
    is_int(t.train.classes, 10, "the built-in images have their own classes");
    reset();
    options.dataset = TRAIN_DATA_AUTO;
    options.image_size = 32;
    options.classes = 5;
    is_int(trainer_data_survey(&t, &e), 0, "without data the built-in images are surveyed");
    is_int(t.train.samples, 12, "the built-in images have their number");
    reset();
    options.dataset = TRAIN_DATA_CIFAR10;
    options.image_size = 32;
    options.classes = 5;
    is_int(trainer_data_survey(&t, &e), 0, "data of a kind, without a path, is surveyed");
    is_int(t.train.classes, 5, "data of a kind has the classes of the options");
    folder("set");
    options.image_size = 1025;
    options.classes = 5;
    is_int(trainer_data_survey(&t, &e), -1, "data that is here is looked at");
    has_str(e.text, "image size 1025 is not in 1 to 1024", "the error is that of the data");
}

// A store in which a key comes at the third look.
static int looks;

static int get(void *ctx, const char *key, void *value, size_t cap, size_t *len, int timeout_ms,
               struct err *error) {
    (void)key, (void)cap, (void)timeout_ms;
    if (++looks < 3)
        return err_set(error, *(enum err_code *)ctx, "no key");
    memcpy(value, "x", 1);
    *len = 1;
    return 0;
}

static void test_await(void) {
    enum err_code code = ERR_TIMEOUT;
    sig_atomic_t stop = 0;
    char value[4];
    size_t len = 0;
    reset();
    config.comm.kv = (struct comm_kv){NULL, get, &code};
    config.stop = &stop;
    is_int(trainer_data_await(&t, "k", value, sizeof value, &len, &e), 0, "a key is waited for");
    ok(len == 1 && looks == 3, "a key comes at the third look");
    code = ERR_NET;
    looks = 0;
    is_int(trainer_data_await(&t, "k", value, sizeof value, &len, &e), -1,
           "a store that is lost is not waited for");
    is_int(looks, 1, "a store that is lost is asked once");
    stop = 1;
    looks = 0;
    is_int(trainer_data_await(&t, "k", value, sizeof value, &len, &e), -1, "a signal ends a wait");
    is_str(e.text, "stopped by a signal before the first step", "the error names the signal");
    is_int(looks, 0, "behind a signal the store is not asked");
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-data-test.XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "set/train/%c/%d.jpg", 'a' + i % 2, i);
        put(name, 40, 30);
        if (i == 0)
            put("set/test/a/0.jpg", 40, 30);
        if (i == 1)
            put("set/test/b/1.jpg", 40, 30);
    }
    test_shapes();
    test_sizes();
    test_bad();
    test_threads();
    test_survey();
    test_await();
    test_refused();
    trainer_data_close(&t);
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
