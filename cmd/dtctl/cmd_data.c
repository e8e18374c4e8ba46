// SPDX-License-Identifier: Apache-2.0
// dtctl data: looks through a data set of the native trainer, packs one, makes one for tests.
#include "command.h"
#include "data_nodes.h"

#include "base/clock.h"
#include "base/str.h"
#include "data/data_index.h"
#include "data/data_inspect.h"
#include "data/data_make_shapes.h"
#include "data/data_pack.h"
#include "data/shard_index.h"
#include "run/inputs/index_bucket.h"
#include "run/inputs/input_remote.h"
#include "sys/file.h"
#include "ui/progress.h"

#include <stdio.h>
#include <string.h>

struct data_flags {
    const char *kind, *split;
    int64_t image_size, resize, images, test_images, seed, threads, shard_size;
    bool skip_bad;
};

enum { SHARD_BYTES_MAX_TB = 1 };
static const char *const SPLITS[] = {"all", "train", "test", NULL};

#define FLAG(name, of, kind_of)                                                                    \
    .flag = name, .verbs = "data", .type = kind_of, .offset = offsetof(struct data_flags, of),     \
    .marks = OPTION_NO_ENV

static const struct option_row ROWS[] = {
    {FLAG("kind", kind, OPTION_STRING), .arg = "KIND",
     .help = "Kind of the source: cifar10, imagefolder, webdataset or tar; empty: detected from "
             "the files."},
    {FLAG("split", split, OPTION_STRING), .text = "all", .arg = "SPLIT",
     .help = "Part of the data set: train, test or all."},
    {FLAG("image-size", image_size, OPTION_INT), .text = "0", .min = 0,
     .max = DATASET_IMAGE_SIZE_MAX, .arg = "PIXELS",
     .help = "Width and height of the images, in pixels. pack to .dtpack: 0 keeps the size of the "
             "data. make-shapes: 0 is 32."},
    {FLAG("resize", resize, OPTION_INT), .text = "0", .min = 0, .max = 2 * DATASET_IMAGE_SIZE_MAX,
     .arg = "PIXELS",
     .help = "pack to .dtpack: shorter side, in pixels, before the middle is cut out; 0 is the "
             "image size."},
    {FLAG("shard-size", shard_size, OPTION_BYTES), .text = "256M", .min = DATA_PACK_SHARD_BYTES_MIN,
     .max = (int64_t)SHARD_BYTES_MAX_TB << 40, .arg = "SIZE",
     .help = "pack to shards: size of a shard."},
    {FLAG("skip-bad", skip_bad, OPTION_BOOL), .text = "false",
     .help = "pack: name and leave out images that cannot be decoded, instead of ending."},
    {FLAG("images", images, OPTION_INT), .text = "2000", .min = 1, .max = 10000000, .arg = "N",
     .help = "make-shapes: number of training images."},
    {FLAG("test-images", test_images, OPTION_INT), .text = "500", .min = 0, .max = 10000000,
     .arg = "N", .help = "make-shapes: number of test images."},
    {FLAG("seed", seed, OPTION_INT), .text = "0", .min = 0, .max = INT32_MAX, .arg = "N",
     .help = "make-shapes: seed of the random numbers."},
    {FLAG("decode-threads", threads, OPTION_INT), .text = "0", .min = 0, .max = 256, .arg = "N",
     .help = "Number of threads that decode images; 0: one per CPU."},
};
static const struct option_table TABLE = {"Data", ROWS, sizeof ROWS / sizeof ROWS[0]};

// ---- shared ------------------------------------------------------------------------------------

struct data {
    struct context *s;
    const struct data_flags *flags;
    struct progress progress;
    const char *row;
    const char *unit; // of what is counted
};

static const char *const split_names[DATASET_SPLITS] = {"train", "test"};

// Progress counts images, so the row shows text instead of a transfer rate.
static int on_progress(void *ctx, uint64_t done, uint64_t total, struct err *e) {
    struct data *d = ctx;
    char words[64];
    snprintf(words, sizeof words, "%llu of %llu %s", (unsigned long long)done,
             (unsigned long long)total, d->unit);
    progress_state(&d->progress, 0, words);
    progress_show(&d->progress, clock_mono_ms());
    return context_check(d->s, e);
}

static void begin(struct data *d, const char *operation, const char *row) {
    d->row = row;
    progress_init(&d->progress, d->s->arena, d->s->screen, operation, &d->row, 1, clock_mono_ms());
}

static void end(struct data *d, int result, const char *words) {
    progress_end(&d->progress, 0, result == 0, result == 0 ? words : "the error follows");
    // In plain style the error is enough.
    d->progress.rows[0].reported |= result != 0 && d->s->screen->style == SCREEN_PLAIN;
    progress_fini(&d->progress, clock_mono_ms());
}

static int check_words(const struct data_flags *f, struct err *e) {
    for (size_t i = 0; SPLITS[i]; i++)
        if (str_eq(f->split, SPLITS[i]))
            return 0;
    return err_set(e, ERR_USAGE, "--split takes all, train or test, not '%s'", f->split);
}

static bool wants(const struct data_flags *f, int split) {
    return str_eq(f->split, "all") || str_eq(f->split, split_names[split]);
}

static struct dataset_config config_of(struct data *d, const char *source, int split) {
    const struct data_flags *f = d->flags;
    return (struct dataset_config){.source = source,
                                   .kind = f->kind && f->kind[0] ? f->kind : NULL,
                                   .split = (enum dataset_split)split,
                                   .image_size = (int)f->image_size,
                                   .resize = (int)f->resize,
                                   .on_bad = f->skip_bad ? DATASET_BAD_SKIP : DATASET_BAD_REFUSE,
                                   .bad_max = DATASET_BAD_MAX - 1,
                                   .threads = (int)f->threads,
                                   .progress = on_progress,
                                   .progress_ctx = d};
}

// A split that the user did not name may be missing.
static bool may_lack(const struct data_flags *f, int split, const struct err *e) {
    return split == DATASET_TEST && str_eq(f->split, "all") && e->code == ERR_NOT_FOUND;
}

// ---- inspect -----------------------------------------------------------------------------------

static void show_json(struct context *s, const char *source, int split,
                      const struct data_inspection *n) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "data-inspected");
    json_str(&j, "source", source);
    json_str(&j, "kind", n->kind);
    json_str(&j, "split", split_names[split]);
    json_int(&j, "samples", n->samples);
    json_int(&j, "bytes", (int64_t)n->bytes);
    json_object(&j, "classes");
    for (int i = 0; i < n->classes; i++)
        json_int(&j, n->class_names[i], n->class_samples[i]);
    json_end(&j);
    json_object(&j, "sizes");
    json_int(&j, "width_min", n->width_min);
    json_int(&j, "width_max", n->width_max);
    json_num(&j, "width_mean", n->width_mean);
    json_int(&j, "height_min", n->height_min);
    json_int(&j, "height_max", n->height_max);
    json_num(&j, "height_mean", n->height_mean);
    json_end(&j);
    json_array(&j, "first");
    for (int i = 0; i < n->firsts; i++) {
        json_object(&j, NULL);
        json_int(&j, "width", n->first[i].width);
        json_int(&j, "height", n->first[i].height);
        json_int(&j, "label", n->first[i].label);
        json_str(&j, "where", n->first[i].where);
        json_end(&j);
    }
    json_end(&j);
    json_int(&j, "bad", n->bad);
    json_array(&j, "bad_samples");
    for (uint32_t i = 0; i < n->bad && i < DATA_INSPECT_BAD_NAMED; i++)
        json_str(&j, NULL, n->bad_named[i].why);
    json_end(&j);
    screen_event_end(s->screen, &text, &j);
}

static void show_classes(struct context *s, const struct data_inspection *n) {
    enum { SHOWN = 12 };
    uint32_t least = UINT32_MAX, most = 0;
    for (int i = 0; i < n->classes; i++) {
        least = n->class_samples[i] < least ? n->class_samples[i] : least;
        most = n->class_samples[i] > most ? n->class_samples[i] : most;
    }
    screen_out(s->screen, "  %d class%s of %u to %u images\n", n->classes,
               n->classes == 1 ? "" : "es", least, most);
    for (int i = 0; i < n->classes && i < SHOWN; i++) {
        const char *name = str_printable(s->arena, n->class_names[i], strlen(n->class_names[i]));
        screen_out(s->screen, "    %5d  %-24s %u\n", i, name, n->class_samples[i]);
    }
    if (n->classes > SHOWN)
        screen_out(s->screen, "    … and %d more (all of them: --json)\n", n->classes - SHOWN);
}

static void show(struct context *s, const char *source, int split,
                 const struct data_inspection *n) {
    char bytes[STR_HUMAN_BYTES_MAX];
    screen_out(s->screen, "%s, %s: %s, %u image%s, %s\n", source, split_names[split], n->kind,
               n->samples, str_plural(n->samples), str_human_bytes(bytes, n->bytes));
    show_classes(s, n);
    screen_out(s->screen, "  width %d to %d, %.0f in the mean; height %d to %d, %.0f in the mean\n",
               n->width_min, n->width_max, n->width_mean, n->height_min, n->height_max,
               n->height_mean);
    for (int i = 0; i < n->firsts; i++)
        screen_out(s->screen, "    %4d x %-4d  class %d  %s\n", n->first[i].width,
                   n->first[i].height, n->first[i].label, n->first[i].where);
    for (uint32_t i = 0; i < n->bad && i < DATA_INSPECT_BAD_NAMED; i++)
        screen_out(s->screen, "  bad: %s\n", n->bad_named[i].why);
    if (n->bad > DATA_INSPECT_BAD_NAMED)
        screen_out(s->screen, "  … and %u more\n", n->bad - DATA_INSPECT_BAD_NAMED);
}

static int inspect(struct data *d, const char *source, struct err *e) {
    uint32_t bad = 0;
    for (int split = 0; split < DATASET_SPLITS; split++) {
        struct data_inspection n;
        struct dataset_config c = config_of(d, source, split);
        if (!wants(d->flags, split))
            continue;
        begin(d, "inspect", split_names[split]);
        int result = data_inspect(&c, d->s->arena, &n, e);
        if (result < 0 && may_lack(d->flags, split, e)) {
            screen_note(d->s->screen, "%s has no test part", source);
            err_clear(e);
            continue;
        }
        end(d, result, "read");
        if (result < 0)
            return -1;
        show_json(d->s, source, split, &n);
        show(d->s, source, split, &n);
        bad += n.bad;
    }
    return bad == 0 ? 0
                    : err_set(e, ERR_FAILED,
                              "%u image%s of '%s' cannot be decoded (try: "
                              "train.on_bad_sample=skip, or dtctl data pack --skip-bad)",
                              bad, str_plural(bad), source);
}

// ---- pack --------------------------------------------------------------------------------------

static void show_packed(struct context *s, const char *to, int split, const struct data_packed *p) {
    char bytes[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "data-packed");
    json_str(&j, "to", to);
    json_str(&j, "split", split_names[split]);
    json_int(&j, "samples", p->samples);
    json_int(&j, "files", p->shards);
    json_int(&j, "bytes", (int64_t)p->bytes);
    json_int(&j, "bad", p->bad);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%s: %u %s image%s, %s in %u file%s", to, p->samples, split_names[split],
               str_plural(p->samples), str_human_bytes(bytes, p->bytes), p->shards,
               str_plural(p->shards));
    screen_out(s->screen, p->bad ? ", %u left out\n" : "\n", p->bad);
}

static int pack_pixels(struct data *d, const char *source, const char *to, struct err *e) {
    int split = str_eq(d->flags->split, "test") ? DATASET_TEST : DATASET_TRAIN;
    struct dataset_config c = config_of(d, source, split);
    struct data_packed p;
    if (str_eq(d->flags->split, "all"))
        screen_note(d->s->screen,
                    "a .dtpack file holds one part: this is train; the other one: --split test");
    begin(d, "pack", split_names[split]);
    int result = data_pack_pixels(&c, to, &p, e);
    end(d, result, "written");
    if (result == 0)
        show_packed(d->s, to, split, &p);
    return result;
}

static int pack_shards(struct data *d, const char *source, const char *to, struct err *e) {
    static const char *const folders[DATASET_SPLITS] = {"train", "val"};
    for (int split = 0; split < DATASET_SPLITS; split++) {
        struct dataset_config c = config_of(d, source, split);
        struct data_packed p;
        if (!wants(d->flags, split))
            continue;
        const char *dir = file_join(d->s->arena, to, folders[split]);
        begin(d, "pack", split_names[split]);
        int result = data_pack_shards(&c, dir, (uint64_t)d->flags->shard_size, &p, e);
        if (result < 0 && may_lack(d->flags, split, e)) {
            screen_note(d->s->screen, "%s has no test part", source);
            err_clear(e);
            continue;
        }
        end(d, result, "written");
        if (result < 0)
            return -1;
        show_packed(d->s, dir, split, &p);
    }
    return 0;
}

static int pack(struct data *d, const char *source, const char *to, struct err *e) {
    return str_ends(to, ".dtpack") ? pack_pixels(d, source, to, e) : pack_shards(d, source, to, e);
}

// ---- index --------------------------------------------------------------------------------------

static int make_index(struct data *d, const char *dir, struct err *e) {
    struct data_indexed x;
    struct strbuf text = {0};
    struct json_out j;
    d->unit = "shards";
    begin(d, "index", dir);
    int result = input_remote_is(dir) ? index_bucket(d->s, dir, on_progress, d, &x, e)
                                      : data_index(dir, on_progress, d, &x, e);
    end(d, result, "written");
    if (result < 0)
        return -1;
    screen_event(&text, &j, "data-indexed");
    json_str(&j, "to", dir);
    json_int(&j, "folders", x.folders);
    json_int(&j, "shards", x.shards);
    json_int(&j, "samples", x.samples);
    screen_event_end(d->s->screen, &text, &j);
    screen_out(d->s->screen, "%s: %u images of %u shard%s are in %u index file%s (%s)\n", dir,
               x.samples, x.shards, str_plural(x.shards), x.folders, str_plural(x.folders),
               SHARD_INDEX_FILE);
    return 0;
}

// ---- make-shapes -------------------------------------------------------------------------------

static int make_shapes(struct data *d, const char *dir, struct err *e) {
    const struct data_flags *f = d->flags;
    const struct data_shapes t = {.dir = dir,
                                  .train = (uint32_t)f->images,
                                  .test = (uint32_t)f->test_images,
                                  .size = f->image_size ? (int)f->image_size : 32,
                                  .seed = (uint64_t)f->seed};
    struct strbuf text = {0};
    struct json_out j;
    begin(d, "make-shapes", dir);
    int result = data_make_shapes(&t, on_progress, d, e);
    end(d, result, "made");
    if (result < 0)
        return -1;
    screen_event(&text, &j, "data-made");
    json_str(&j, "to", dir);
    json_int(&j, "train_images", t.train);
    json_int(&j, "test_images", t.test);
    json_int(&j, "size", t.size);
    screen_event_end(d->s->screen, &text, &j);
    screen_out(d->s->screen,
               "%s: %u images to train on and %u to evaluate on, %d x %d, 10 classes; next: "
               "dtctl train --input data=%s\n",
               dir, t.train, t.test, t.size, t.size, str_shell_quote(d->s->arena, dir));
    return 0;
}

// ---- command -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    size_t args_min, args_max;
    const char *takes;
} VERBS[] = {{"inspect", 2, 2, "SOURCE"},       {"pack", 3, 3, "SOURCE and DESTINATION"},
             {"index", 2, 2, "FOLDER"},         {"make-shapes", 2, 2, "FOLDER"},
             {"ls", 1, 2, "at most one INPUT"}, {"rm", 2, 2, "INPUT"}};
static const char *const WORDS[] = {"inspect", "pack", "index", "make-shapes", "ls", "rm", NULL};
enum { INSPECT, PACK, INDEX, MAKE_SHAPES, LS, RM, VERBS_COUNT };

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    struct data d = {.s = s, .flags = flags, .unit = "images"};
    const char *verb = rest->args[0], *one = rest->count > 1 ? rest->args[1] : NULL;
    size_t i = 0;
    while (i < VERBS_COUNT && !str_eq(verb, VERBS[i].name))
        i++;
    if (i == VERBS_COUNT)
        return err_set(e, ERR_USAGE,
                       "data takes inspect, pack, index, make-shapes, ls or rm, not '%s'", verb);
    if (rest->count < VERBS[i].args_min || rest->count > VERBS[i].args_max)
        return err_set(e, ERR_USAGE, "data %s takes %s", verb, VERBS[i].takes);
    if (i == LS)
        return data_nodes_list(s, one, e);
    if (i == RM)
        return data_nodes_remove(s, one, e);
    if (check_words(flags, e) < 0 || context_signals(s, e) < 0)
        return -1;
    if (i == INSPECT)
        return inspect(&d, one, e);
    if (i == INDEX)
        return make_index(&d, one, e);
    return i == PACK ? pack(&d, one, rest->args[2], e) : make_shapes(&d, one, e);
}

const struct command cmd_data = {
    .verb = {.name = "data",
             .summary = "look through, pack, index or make a data set; list or remove inputs",
             .args = "inspect SOURCE | pack SOURCE DESTINATION | index FOLDER | make-shapes FOLDER "
                     "| ls [INPUT] | rm INPUT",
             .words = WORDS,
             .text =
                 "inspect decodes every image of SOURCE and shows classes, counts, sizes, the "
                 "first images and the bad ones. It fails when an image is bad. pack writes "
                 "webdataset shards with the unchanged JPEG files to the folder DESTINATION "
                 "(train/000000.tar, val/000000.tar). When DESTINATION ends in .dtpack, pack "
                 "writes one part as pixels of one size; training maps that file and decodes "
                 "nothing. index writes a file shards.dtindex beside the shards of FOLDER, as pack "
                 "does: where each sample is. FOLDER may be s3://BUCKET/PREFIX: every shard is "
                 "read once through this computer, and the files are put into the bucket. With it "
                 "the shards can be streamed (deliver = "
                 "stream). make-shapes writes the built-in shapes as a folder of JPEG files. "
                 "The same input gives the same bytes. SOURCE takes the values of train.data.\n\n"
                 "ls lists the inputs that earlier runs have left on the nodes, and the "
                 "environments of env.bundle under the name bundle; rm removes one, by its name "
                 "or by its folder, when no run is active on its node. It asks first, and needs "
                 "-y without a terminal. A later run that needs it sends it again.",
             .examples = "dtctl data inspect imagenet/train\n"
                         "dtctl data pack imagenet shards --shard-size 512M --skip-bad\n"
                         "dtctl data pack photos photos.dtpack --image-size 224 --resize 256\n"
                         "dtctl data index shards   # then copy the folder to a bucket\n"
                         "dtctl data index s3://bucket/shards   # shards that are there already\n"
                         "dtctl data make-shapes shapes --images 1000 --image-size 64\n"
                         "dtctl data ls   # inputs on the nodes, with their sizes\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct data_flags),
    .args_min = 1,
    .args_max = 3,
    .run = run,
};
