// SPDX-License-Identifier: Apache-2.0
// Images that are read when they are needed: from folders, class archives and shards, as from the
// packed form; random parts that depend on nothing but seed, epoch and number; bad samples.
#include "data/dataset.h"
#include "data/index.h"
#include "data/loader.h"
#include "data/webdataset.h"

#include "sys/file.h"
#include "sys/proc.h"
#include "tests/tap.h"
#include "tests/unit/data/pictures.h"

#include <unistd.h>

static struct err e;
static char dir[64];

enum { CLASSES = 3, EACH = 9, SIDE = 24 };

static const char *in_dir(const char *name) {
    static char path[8][512];
    static int turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static int shell(const char *script) {
    char command[2048];
    snprintf(command, sizeof command, "cd %s && { %s\n}", dir, script);
    const char *const argv[] = {"sh", "-c", command, NULL};
    const struct proc_spec spec = {.argv = argv, .env = environ, .in = -1, .out = -1, .err = 2};
    char *out = NULL;
    int status = 0;
    if (proc_run(&spec, &out, 65536, 60000, &status, &e) < 0)
        bail_out("%s", e.text);
    free(out);
    return status;
}

static void put_file(const char *path, const void *data, size_t len) {
    char parent[512];
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = 0;
    if (file_make_dirs(parent, 0755, &e) < 0)
        bail_out("%s", e.text);
    FILE *f = fopen(path, "w"); // many: none has to reach the disk
    if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0)
        bail_out("cannot write %s", path);
}

// set/train/<class>/NN.jpg and set/val; class archives, shards, and the same under other names.
static void make_data(void) {
    static const char *const class[CLASSES] = {"ant", "bee", "cow"};
    char name[96], number[16];
    unsigned char *data;
    for (int k = 0; k < CLASSES; k++)
        for (int i = 0; i < EACH; i++) {
            int n = k * EACH + i;
            size_t len = make_jpeg(&data, 60 + n % 5 * 17, 50 + n % 4 * 23, n,
                                   (enum jpeg_style)(n % STYLES));
            snprintf(name, sizeof name, "set/train/%s/%02d.jpg", class[k], i);
            put_file(in_dir(name), data, len);
            snprintf(name, sizeof name, "set/train/%s/._%02d.jpg", class[k], i);
            put_file(in_dir(name), "mac", 3); // macOS
            snprintf(name, sizeof name, "set/val/%s/%02d.jpg", class[k], i);
            if (i < 4)
                put_file(in_dir(name), data, len);
            snprintf(name, sizeof name, "raw/%06d.jpg", n);
            put_file(in_dir(name), data, len);
            snprintf(name, sizeof name, "raw/%06d.cls", n);
            snprintf(number, sizeof number, "%d\n", k);
            put_file(in_dir(name), number, strlen(number));
            free(data);
        }
    if (shell("mkdir -p flat shards/train shards/val && for c in ant bee cow; do "
              "tar cf flat/$c.tar -C set/train/$c .; done; echo x > flat/._ant.tar\n"
              "echo '{}' > raw/000003.json; cd raw && "
              "tar cf ../shards/train/000000.tar 00000* && tar cf ../shards/train/000001.tar "
              "00001* && tar cf ../shards/train/000002.tar 00002* && "
              "tar cf ../shards/val/000000.tar 00000*; cp ../shards/train/*.tar ../raw/ && "
              "mkdir ../wds && mv *.tar ../wds") != 0)
        bail_out("tar does not work here");
}

// ---- the same images from everywhere ------------------------------------------------------------

static void read_all(const struct dataset *d, uint64_t epoch, uint8_t *out, int32_t *labels) {
    struct dataset_reader *r;
    if (dataset_reader_open(&r, d, &e) < 0)
        bail_out("%s", e.text);
    for (uint32_t i = 0; i < d->samples; i++)
        if (dataset_read(r, i, 7, epoch, out + i * d->image_bytes, &labels[i], &e) < 0)
            bail_out("%s", e.text);
    dataset_reader_close(r);
}

static uint8_t all[2][CLASSES * EACH * SIDE * SIDE * 3];
static int32_t label[2][CLASSES * EACH];

static void test_sources(void) {
    static const struct {
        const char *source, *kind;
    } SAME[] = {{"set", "imagefolder"},
                {"set/train", "imagefolder"},
                {"flat", "tar"},
                {"shards", "webdataset"},
                {"wds", "webdataset"}};
    struct dataset once, d;
    struct dataset_config c = {.source = in_dir("set"), .image_size = SIDE, .resize = SIDE + 4};
    if (dataset_open(&once, &c, &e) < 0)
        bail_out("%s", e.text);
    is_uint(once.samples, CLASSES * EACH, "decoded once: files of macOS are left out");
    c.stream = true;
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
        c.source = in_dir(SAME[i].source);
        if (!is_int(dataset_open(&d, &c, &e), 0, "%s is read when needed", SAME[i].source)) {
            diag("%s", e.text);
            continue;
        }
        is_str(d.kind, SAME[i].kind, "the data set is of kind %s", SAME[i].kind);
        ok(!d.pixels && d.samples == once.samples && d.height == SIDE && d.classes == CLASSES,
           "a streamed data set has sizes and keeps no pixels");
        read_all(&d, 0, all[0], label[0]);
        ok(memcmp(all[0], once.pixels, sizeof all[0]) == 0 &&
               memcmp(label[0], once.labels, sizeof label[0]) == 0,
           "streamed images and labels equal those of the packed form, byte for byte");
        dataset_close(&d);
    }
    dataset_close(&once);
}

// ---- draws --------------------------------------------------------------------------------------

// Images and labels by sample number, as `world` ranks of so many threads load them.
static void load_epoch(const struct dataset *d, int world, int threads, uint64_t epoch, int which) {
    memset(all[which], 0, sizeof all[which]);
    for (int rank = 0; rank < world; rank++) {
        struct sampler_config sc = {.samples = d->samples,
                                    .rank = rank,
                                    .world = world,
                                    .shuffle = true,
                                    .tail = SAMPLER_EXACT,
                                    .seed = 3};
        struct loader_config lc = {.data = d,
                                   .augment = {.flip = true, .seed = 3},
                                   .batch = 5,
                                   .threads = threads,
                                   .raw = true};
        struct sampler s;
        struct loader *l;
        const struct loader_batch *b;
        if (sampler_open(&s, &sc, &e) < 0 || loader_open(&l, &lc, &e) < 0)
            bail_out("%s", e.text);
        sampler_start(&s, epoch, 0);
        loader_start(l, &s, true);
        while ((b = loader_next(l)))
            for (int i = 0; i < b->n; i++) {
                uint8_t *to = all[which] + b->index[i] * d->image_bytes;
                memcpy(to, b->src[i], d->image_bytes);
                to[0] ^= b->flip[i]; // the mirror comes later, and belongs to the sample
                label[which][b->index[i]] = b->labels[i];
            }
        if (loader_failed(l, &e) < 0)
            bail_out("%s", e.text);
        loader_close(l);
        sampler_close(&s);
    }
}

// However long the epoch, the pixels of so many batches are there, and threads that are ahead wait.
static void test_ring(void) {
    enum { DEPTH = 3 };
    struct dataset d;
    struct dataset_config c = {.source = in_dir("flat"), .image_size = SIDE, .stream = true};
    struct sampler_config sc = {.samples = CLASSES * EACH,
                                .rank = 0,
                                .world = 1,
                                .shuffle = true,
                                .tail = SAMPLER_EXACT,
                                .seed = 3};
    struct loader_config lc = {.data = &d, .batch = 2, .threads = 4, .depth = DEPTH, .raw = true};
    struct sampler s;
    struct loader *l;
    const struct loader_batch *b;
    const uint8_t *place[DEPTH + 1] = {0};
    int places = 0, batches = 0, wrong = 0;
    if (dataset_open(&d, &c, &e) < 0 || sampler_open(&s, &sc, &e) < 0 ||
        loader_open(&l, &lc, &e) < 0)
        bail_out("%s", e.text);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        sampler_start(&s, epoch, 0);
        loader_start(l, &s, true);
        while ((b = loader_next(l))) {
            uint8_t first = b->pixels[0];
            usleep(500); // time for the threads to run into this batch, if they could
            wrong += b->pixels[0] != first || b->number != (uint64_t)(batches++ % 14);
            int k = 0;
            while (k < places && place[k] != b->pixels)
                k++;
            if (k == places && places <= DEPTH)
                place[places++] = b->pixels;
        }
    }
    is_int(batches, 4 * 14, "four epochs of batches");
    is_int(places, DEPTH, "lie in three places");
    is_int(wrong, 0, "no batch is written to while it is used");
    loader_close(l);
    sampler_close(&s);
    dataset_close(&d);
    lc.batch = LOADER_BATCH_MAX;
    c.image_size = 1024;
    if (dataset_open(&d, &c, &e) < 0)
        bail_out("%s", e.text);
    is_int(loader_open(&l, &lc, &e), -1, "batches above the memory for them");
    is_int(e.code, ERR_LIMIT, "batches above the memory limit are a limit error");
    dataset_close(&d);
}

static void test_draws(void) {
    struct dataset d;
    struct dataset_config c = {
        .source = in_dir("flat"), .image_size = SIDE, .stream = true, .random_crop = true};
    if (dataset_open(&d, &c, &e) < 0)
        bail_out("%s", e.text);
    load_epoch(&d, 1, 0, 4, 0);
    for (int world = 1; world <= 3; world++)
        for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
            load_epoch(&d, world, threads, 4, 1);
            ok(memcmp(all[0], all[1], sizeof all[0]) == 0 &&
                   memcmp(label[0], label[1], sizeof label[0]) == 0,
               "%d ranks of %d threads see the samples of one thread", world, threads);
        }
    load_epoch(&d, 1, 1, 5, 1);
    int same = 0;
    for (uint32_t i = 0; i < d.samples; i++)
        same += memcmp(all[0] + i * d.image_bytes, all[1] + i * d.image_bytes, d.image_bytes) == 0;
    is_int(same, 0, "the next epoch cuts every image elsewhere");
    dataset_close(&d);
    c.image_size = 0;
    is_int(dataset_open(&d, &c, &e), -1, "a random part needs a size");
    c.image_size = SIDE;
    c.source = "shapes";
    is_int(dataset_open(&d, &c, &e), -1, "a random part needs JPEG files");
}

// ---- bad samples --------------------------------------------------------------------------------

static void test_bad(void) {
    struct dataset d, once;
    struct dataset_config c = {
        .source = in_dir("bad"), .image_size = SIDE, .stream = true, .random_crop = true};
    uint32_t list[DATASET_BAD_MAX];
    char source[128];
    snprintf(source, sizeof source, "%s", c.source);
    c.source = source;
    if (shell("cp -r set bad && echo no > bad/train/bee/03.jpg && : > bad/train/bee/04.jpg && "
              "head -c 300 set/train/cow/08.jpg > bad/train/cow/08.jpg") != 0)
        bail_out("cp");
    if (dataset_open(&d, &c, &e) < 0)
        bail_out("%s", e.text);
    struct sampler_config sc = {.samples = d.samples, .world = 1, .tail = SAMPLER_EXACT, .seed = 3};
    struct loader_config lc = {.data = &d, .batch = 4, .threads = 2, .raw = true};
    struct sampler s;
    struct loader *l;
    if (sampler_open(&s, &sc, &e) < 0 || loader_open(&l, &lc, &e) < 0)
        bail_out("%s", e.text);
    loader_start(l, &s, true);
    int batches = 0;
    while (loader_next(l))
        batches++;
    is_int(loader_failed(l, &e), -1, "a bad sample ends the pass");
    is_int(batches, 3, "the pass ends at the batch of the bad sample");
    has_str(e.text, "bad/train/bee/03.jpg", "the error names the bad sample");
    loader_close(l);
    dataset_close(&d);

    c.on_bad = DATASET_BAD_SKIP;
    c.bad_max = 3;
    if (dataset_open(&d, &c, &e) < 0)
        bail_out("%s", e.text);
    load_epoch(&d, 1, 0, 0, 0);
    load_epoch(&d, 2, 5, 0, 1);
    ok(memcmp(all[0], all[1], sizeof all[0]) == 0, "left out, another takes its place");
    is_uint(dataset_bad_list(&d, list), 3, "all are counted, once");
    ok(list[0] == 12 && list[1] == 13 && list[2] == 26, "skipped samples are listed by number");
    ok(label[0][12] == 1 && label[0][26] == 0, "the last one's place takes the first");
    dataset_close(&d);
    c.random_crop = c.stream = false;
    c.cache_dir = in_dir("cache");
    for (int again = 0; again < 2; again++) {
        if (dataset_open(&once, &c, &e) < 0)
            bail_out("%s", e.text);
        ok(once.from_cache == again && once.labels[26] == 0 &&
               memcmp(dataset_image(&once, 12), dataset_image(&once, 14), once.image_bytes) == 0,
           "decoded once, the same ones");
        is_uint(dataset_bad_list(&once, list), 3, "counted %s", again ? "from the cache" : "too");
        dataset_close(&once);
    }
    c.bad_max = 2;
    c.cache_dir = NULL;
    is_int(dataset_open(&d, &c, &e), -1, "more bad samples than the limit are an error");
    has_str(e.text, "above the limit of 2", "the error has the limit of bad samples");
}

static void test_archives_bad(void) {
    struct dataset d;
    char path[128];
    struct dataset_config c = {.source = path, .image_size = SIDE, .stream = true};
    snprintf(path, sizeof path, "%s", in_dir("cut"));
    if (shell("cp -r flat cut && head -c 4000 flat/bee.tar > cut/bee.tar && cp -r flat gz && "
              "gzip gz/bee.tar && mkdir nocls label odd && cd raw && tar cf ../nocls/0.tar "
              "000000.cls 000000.jpg 000001.jpg && cp 000001.cls x.cls && "
              "echo one > 000001.cls && tar cf ../label/0.tar 000001.cls 000001.jpg && "
              "cp 000002.jpg 000002.png && tar cf ../odd/0.tar 000002.cls 000002.png") != 0)
        bail_out("tar");
    is_int(dataset_open(&d, &c, &e), -1, "a cut archive is refused");
    ok(strstr(e.text, "cut/bee.tar") && strstr(e.text, "byte"),
       "the error names the truncated archive and the place");
    c.on_bad = DATASET_BAD_SKIP;
    is_int(
        dataset_open(&d, &c, &e), -1,
        "a truncated archive is refused although bad samples are skipped: its samples are unknown");
    static const struct {
        const char *name, *says;
    } REFUSED[] = {{"gz", "gunzip"},
                   {"nocls", "no .cls beside it"},
                   {"label", "label is not a number"},
                   {"odd", "only JPEG"}};
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        snprintf(path, sizeof path, "%s", in_dir(REFUSED[i].name));
        is_int(dataset_open(&d, &c, &e), -1, "%s is refused", REFUSED[i].name);
        has_str(e.text, REFUSED[i].says, "the refusal has the reason");
    }
}

// Class and member have the longest names that a file and an archive allow, together 4,338 bytes.
static void test_names_long(void) {
    struct dataset d;
    struct dataset_config c = {.source = in_dir("long"), .image_size = SIDE, .stream = true};
    if (shell("mkdir long && class=$(printf 'c%.0s' $(seq 250)) && "
              "member=$(printf 'm%.0s' $(seq 4083)).jpg && "
              "tar cf long/$class.tar --transform \"s,.*,$member,\" -C raw 000000.jpg") != 0)
        bail_out("tar");
    if (is_int(dataset_open(&d, &c, &e), 0, "a long class and a long member")) {
        is_uint(d.samples, 1, "the member with a long name is a sample");
        dataset_close(&d);
    }
}

// ---- other --------------------------------------------------------------------------------------

static void test_val(void) {
    struct dataset train, val;
    struct dataset_config c = {.source = in_dir("flat"), .image_size = SIDE, .stream = true};
    if (dataset_open(&train, &c, &e) < 0)
        bail_out("%s", e.text);
    struct dataset_config v = {.source = in_dir("two"),
                               .image_size = SIDE,
                               .stream = true,
                               .split = DATASET_TEST,
                               .alone = true,
                               .like = &train};
    if (shell("mkdir -p two && cp -r set/val/bee set/val/cow two/ && mkdir -p new/dog && "
              "cp set/val/bee/00.jpg new/dog/") != 0)
        bail_out("cp");
    is_int(dataset_open(&val, &v, &e), 0, "other data to evaluate on, with two of three classes");
    ok(val.samples == 8 && val.labels[0] == 1 && val.labels[7] == 2,
       "evaluation data has the class ids of training");
    dataset_close(&val);
    v.source = in_dir("new");
    is_int(dataset_open(&val, &v, &e), -1, "a class that training does not have");
    has_str(e.text, "dog/00.jpg", "the error names the first image of an unknown class");
    v.source = in_dir("flat");
    v.alone = false;
    v.like = NULL;
    is_int(dataset_open(&val, &v, &e), -1, "class archives without a test part have none");
    dataset_close(&train);
}

static void test_names(void) {
    size_t key;
    int32_t v;
    is_int(webdataset_name("a/b.c/000.jpg", &key), WEBDATASET_IMAGE, "an image");
    is_uint(key, 9, "an image has its key");
    is_int(webdataset_name("000.CLS", &key), WEBDATASET_LABEL, "a label");
    is_int(webdataset_name("x.seg.jpg", &key), WEBDATASET_OTHER, "a field of two parts is another");
    webdataset_name("a/._000.jpg", &key);
    is_uint(key, 0, "files of macOS belong to no sample");
    is_int(webdataset_label("12\n", 3, &v, &e), 0, "a number");
    is_int(v, 12, "a number is read as a label");
    is_int(webdataset_label("12a", 3, &v, &e), -1, "'12a' is no label");
    is_int(webdataset_label("", 0, &v, &e), -1, "an empty text is no label");
    is_int(webdataset_label("99999999999", 11, &v, &e), -1, "a large one");
    is_int(e.code, ERR_LIMIT, "a large label is a limit error");
}

#if !TAP_SANITIZED
static long resident_bytes(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        bail_out("no /proc/self/statm");
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}
#endif

static void test_million(void) {
    enum { MILLION = 1000000 };
    struct index x = {0};
#if !TAP_SANITIZED
    long before = resident_bytes();
#endif
    for (uint32_t i = 0; i < MILLION; i++)
        if (index_add(&x, NULL, (uint64_t)i * 1000, 1000, i % 1000, (int32_t)(i % 1000), &e) < 0)
            bail_out("%s", e.text);
    ok(index_bytes(&x) <= 32 * (uint64_t)MILLION, "an index of a million samples has %llu MB",
       (unsigned long long)index_bytes(&x) / 1000000);
#if !TAP_SANITIZED
    long grown = resident_bytes() - before;
    ok(grown < 40L * MILLION, "the index makes the process %ld MB larger", grown / 1000000);
#endif
    ok(x.entry[MILLION - 1].at == 999999000 && x.label[MILLION - 1] == 999,
       "the index has a million samples");
    index_close(&x);
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-stream-test.XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    make_data();
    test_sources();
    test_ring();
    test_draws();
    test_bad();
    test_archives_bad();
    test_names_long();
    test_val();
    test_names();
    test_million();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
