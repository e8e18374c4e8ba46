// SPDX-License-Identifier: Apache-2.0
// Opening data sets: which sizes and numbers are possible, which packed file of the cache is meant,
// and which size images have that are kept as they are.
#include "data/dataset.h"
#include "data/layout.h"
#include "data/packed.h"

#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/data/pictures.h"

#include <dirent.h>
#include <unistd.h>

static struct err e;
static char dir[64];

static const char *in_dir(const char *name) {
    static char path[2][200];
    static int turn;
    char *p = path[turn++ % 2];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static void put(const char *name, const void *bytes, size_t len) {
    char parent[200];
    snprintf(parent, sizeof parent, "%s", in_dir(name));
    *strrchr(parent, '/') = 0;
    if (file_make_dirs(parent, 0755, &e) < 0 ||
        file_write_atomic(in_dir(name), bytes, len, 0644, &e) < 0)
        bail_out("%s", e.text);
}

static void put_picture(const char *name, int w, int h) {
    unsigned char *data;
    size_t len = make_jpeg(&data, w, h, 3, PLAIN);
    put(name, data, len);
    free(data);
}

// ---- numbers -----------------------------------------------------------------------------------

static const struct {
    struct dataset_config c;
    const char *error; // NULL: it is possible
} numbers[] = {
    {{.source = "shapes", .image_size = -1}, "image size -1 is not in 1 to 1024 (0: as stored)"},
    {{.source = "shapes", .image_size = 1025}, "image size 1025 is not in 1 to 1024"},
    {{.source = "shapes", .image_size = 1024}, "has images of 32 pixels, not 1024"},
    {{.source = "shapes", .image_size = 1}, "has images of 32 pixels, not 1"},
    {{.source = "shapes", .image_size = 32}, NULL},
    {{.source = "shapes", .resize = -1}, "size before the crop -1 is not in 0 to 2048"},
    {{.source = "shapes", .resize = 2049}, "size before the crop 2049 is not in 0 to 2048"},
    {{.source = "shapes", .resize = 2048}, NULL},
    {{.source = "shapes", .bad_max = -1}, "-1 bad samples are not in 0 to 4095"},
    {{.source = "shapes", .bad_max = 4096}, "4096 bad samples are not in 0 to 4095"},
    {{.source = "shapes", .bad_max = 4095}, NULL},
    {{.source = "shapes", .random_crop = true, .stream = true},
     "a random part is only cut from JPEG files, not from shapes"},
};

static void test_numbers(void) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct dataset_config c = numbers[i].c;
        struct dataset d;
        err_clear(&e);
        c.samples_max = 3;
        is_int(dataset_open(&d, &c, &e), numbers[i].error ? -1 : 0,
               "numbers %zu have their verdict", i);
        has_str(e.text, numbers[i].error ? numbers[i].error : "", "numbers %zu have their error",
                i);
        is_int(e.code, numbers[i].error ? ERR_CONFIG : ERR_NONE, "numbers %zu have their code", i);
        dataset_close(&d);
    }
}

// Guarded pixels: an image is as long as it says, and the same in memory and one by one.
static void test_shapes(void) {
    struct dataset all, one;
    struct dataset_reader *r;
    struct dataset_config c = {.source = "shapes", .samples_max = 12, .stream = true};
    uint8_t image[32 * 32 * 3 + 8];
    int32_t label;
    if (dataset_open(&one, &c, &e) < 0 || dataset_reader_open(&r, &one, &e) < 0)
        bail_out("%s", e.text);
    c.stream = false;
    if (dataset_open(&all, &c, &e) < 0)
        bail_out("%s", e.text);
    memset(image, 0x5a, sizeof image);
    is_int(dataset_read(r, 11, 0, 0, image, &label, &e), 0, "an image is read by its number");
    is_mem(image, 32 * 32 * 3, dataset_image(&all, 11), 32 * 32 * 3,
           "the image is that of the set");
    is_mem(image + 32 * 32 * 3, 8, "ZZZZZZZZ", 8, "no byte behind the image is written");
    is_int(label, 1, "the image has its label");
    is_uint(dataset_memory_bytes(&all), 12 * 32 * 32 * 3, "pixels in memory are counted");
    int64_t digest[2] = {0}; // checkpoints have it
    ok(dataset_digest(&all, &digest[0], &e) == 0 && dataset_digest(&one, &digest[1], &e) == 0,
       "data sets have digests");
    is_int(digest[0], 54686579043264827, "the digest is that of every other version");
    is_int(digest[1], digest[0], "the digest is the same image by image");
    dataset_reader_close(r);
    dataset_close(&one);
    dataset_close(&all);
    c = (struct dataset_config){.source = "shapes", .stream = true};
    is_int(dataset_open(&one, &c, &e), 0, "shapes open in their usual number");
    is_uint(one.samples, 8000, "8000 images are for training");
    dataset_close(&one);
    c.split = DATASET_TEST;
    is_int(dataset_open(&one, &c, &e), 0, "shapes of the test split open");
    is_uint(one.samples, 2000, "2000 images are for the test");
    dataset_close(&one);
}

// ---- the cache ---------------------------------------------------------------------------------

static int cached(void) {
    int n = 0;
    DIR *d = opendir(in_dir("cache"));
    for (struct dirent *x; (x = readdir(d));)
        n += strstr(x->d_name, ".dtpack") && !strstr(x->d_name, ".lock");
    closedir(d);
    return n;
}

static void test_cache(void) {
    static const char *const cats[] = {"cat"}, *const cars[] = {"car"}, *const two[] = {"ca", "t"};
    const struct dataset like[] = {{.classes = 1, .class_names = cats},
                                   {.classes = 1, .class_names = cars},
                                   {.classes = 2, .class_names = two}};
    struct dataset_config c[10];
    struct dataset d;
    for (size_t i = 0; i < 10; i++)
        c[i] = (struct dataset_config){
            .source = "shapes", .samples_max = 2, .cache_dir = in_dir("cache"), .threads = 1};
    c[1].seed = 1;
    c[2].samples_max = 3;
    c[3].split = DATASET_TEST;
    c[4].image_size = 32;
    c[5].resize = 64;
    c[6].on_bad = DATASET_BAD_SKIP;
    for (size_t i = 0; i < 3; i++)
        c[7 + i].like = &like[i];
    for (size_t i = 0; i < 10; i++)
        for (int again = 0; again < 2; again++) {
            char folder[200];
            snprintf(folder, sizeof folder, "%s", in_dir("cache"));
            c[i].cache_dir = folder;
            is_int(dataset_open(&d, &c[i], &e), 0, "data set %zu opens, time %d", i, again);
            is_int(d.from_cache, again, "data set %zu is decoded once, time %d", i, again);
            is_uint(d.samples, i == 2 ? 3 : 2, "data set %zu has its samples, time %d", i, again);
            dataset_close(&d);
        }
    is_int(cached(), 10, "each data set has a file of its own");
}

static void test_packed(void) {
    static const char *const names[] = {"x"};
    static const struct {
        uint32_t height, width;
        int size;
        bool fits;
    } cases[] = {
        {8, 8, 8, true}, {8, 8, 9, false}, {8, 6, 8, false}, {8, 6, 6, false}, {8, 6, 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct packed_info info = {.samples = 1,
                                   .height = cases[i].height,
                                   .width = cases[i].width,
                                   .channels = 3,
                                   .classes = 1,
                                   .class_names = names,
                                   .kind = "tar"};
        struct packed_writer w;
        struct packed p;
        struct dataset d;
        if (packed_create(&w, in_dir("x.dtpack"), &info, &e) < 0 || packed_commit(&w, &p, &e) < 0)
            bail_out("%s", e.text);
        packed_close(&p);
        struct dataset_config c = {.source = in_dir("x.dtpack"), .image_size = cases[i].size};
        is_int(dataset_open(&d, &c, &e), cases[i].fits ? 0 : -1, "a packed file of %u x %u for %d",
               info.height, info.width, cases[i].size);
        if (!cases[i].fits)
            has_str(e.text, "' holds images of 8 x ", "packed file %zu has its error", i);
        else
            ok(d.height == 8 && d.width == (int)info.width && d.from_cache &&
                   d.image_bytes == (size_t)8 * info.width * 3,
               "packed file %zu has its size", i);
        dataset_close(&d);
        unlink(in_dir("x.dtpack"));
    }
}

// ---- images as they are stored -----------------------------------------------------------------

static void sizes(const char *folder, struct dataset_config c, const char *error, int w, int h) {
    struct dataset d;
    char path[200];
    snprintf(path, sizeof path, "%s", in_dir(folder));
    err_clear(&e);
    c.source = path;
    c.alone = true;
    c.threads = 1;
    is_int(dataset_open(&d, &c, &e), error ? -1 : 0, "images of '%s' have their verdict", folder);
    has_str(e.text, error ? error : "", "images of '%s' have their error", folder);
    if (!error)
        ok(d.width == w && d.height == h, "images of '%s' are %d x %d", folder, d.width, d.height);
    dataset_close(&d);
}

static void test_stored(void) {
    const struct dataset_config stream = {.stream = true}, plain = {.stream = false};
    put_picture("wide/a/0.jpg", 1024, 2);
    sizes("wide", stream, NULL, 1024, 2);
    put_picture("high/a/0.jpg", 2, 1024);
    sizes("high", plain, NULL, 2, 1024);
    put_picture("wider/a/0.jpg", 1025, 2);
    sizes("wider", stream, "images of 1025 x 2 are too large to keep as they are (at most 1024)", 0,
          0);
    put_picture("higher/a/0.jpg", 2, 1025);
    sizes("higher", plain, "images of 2 x 1025 are too large to keep as they are", 0, 0);
    put("first/a/0.jpg", "no picture", 10);
    put_picture("first/a/1.jpg", 12, 10);
    sizes("first", stream, "not a readable JPEG image", 0, 0);
    const struct dataset_config skip = {.stream = true, .on_bad = DATASET_BAD_SKIP, .bad_max = 2};
    sizes("first", skip, NULL, 12, 10);
    put("none/a/0.jpg", "no picture", 10);
    put("none/a/1.jpg", "no picture", 10);
    sizes("none", skip, "all 2 samples are bad: '", 0, 0);
    sizes("wide", (struct dataset_config){.random_crop = true, .stream = true},
          "a random part needs the image size that it is brought to", 0, 0);
    sizes("wide", (struct dataset_config){.image_size = 64, .resize = 63},
          "images of 64 pixels cannot be cut from 63", 0, 0);
    sizes("wide", (struct dataset_config){.image_size = 64, .resize = 64}, NULL, 64, 64);
    sizes("wide", (struct dataset_config){.image_size = 1, .stream = true}, NULL, 1, 1);
}

static void test_unknown(void) {
    ok(layout_is_jpeg("a.jpg") && layout_is_jpeg("A.JPEG") && !layout_is_jpeg(".jpg") &&
           !layout_is_jpeg(".jpeg") && !layout_is_jpeg("jpg") && !layout_is_jpeg("a.jpgx"),
       "an image has a name before its ending");
    struct dataset d;
    struct dataset_config c = {.source = dir};
    put("five", "DTPAC", 5);
    is_int(dataset_open(&d, &c, &e), -1, "a folder of none of the kinds is refused");
    has_str(e.text, "is none of the known data sets: shapes (the word shapes), cifar10 (",
            "the error has all kinds");
    has_str(e.text, "packed (a file made from one)", "the error has the packed form");
    is_int(e.code, ERR_FORMAT, "an unknown folder is a format error");
    c.source = in_dir("five");
    is_int(dataset_open(&d, &c, &e), -1, "five bytes are no packed file");
    has_str(e.text, "is none of the known data sets", "five bytes are of no kind");
    put("six", "DTPACK", 6);
    c.source = in_dir("six");
    is_int(dataset_open(&d, &c, &e), -1, "six bytes are no whole packed file");
    has_str(e.text, "is not a packed data set (too small)", "six bytes are a packed file's first");
    c = (struct dataset_config){.source = "shapes", .kind = "packd"};
    is_int(dataset_open(&d, &c, &e), -1, "an unknown kind is refused");
    is_str(e.text, "there is no kind of data set called 'packd'; nearest is packed",
           "the error has the nearest kind");
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-config-test.XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    test_numbers();
    test_shapes();
    test_cache();
    test_packed();
    test_stored();
    test_unknown();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
