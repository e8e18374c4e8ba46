// SPDX-License-Identifier: Apache-2.0
// Inspections of data sets: counts, sizes, first images and bad ones; and the folders of shapes
// that are made for tests.
#include "data/data_inspect.h"
#include "data/data_make_shapes.h"
#include "data/jpeg.h"
#include "data/jpeg_write.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

static struct arena a;
static struct err e;
static struct data_inspection o;
static char root[] = "/tmp/test_data_inspect.XXXXXX";

static const char *in(const char *path) {
    return file_join(&a, root, path);
}

static void put(const char *path, const void *data, size_t len) {
    if (file_make_dirs(file_dir(&a, in(path)), 0755, &e) < 0 ||
        file_write_atomic(in(path), data, len, 0644, &e) < 0)
        bail_out("%s", e.text);
}

// A picture of one colour; its bytes.
static size_t picture(const char *path, int width, int height) {
    unsigned char *jpeg;
    size_t len, size = (size_t)width * (size_t)height * 3;
    uint8_t *rgb = arena_new(&a, uint8_t, size);
    memset(rgb, 100, size);
    if (jpeg_write(rgb, width, height, &jpeg, &len, &e) < 0)
        bail_out("%s", e.text);
    put(path, jpeg, len);
    free(jpeg);
    return len;
}

static int inspect(const char *folder, int threads) {
    return data_inspect(&(struct dataset_config){.source = in(folder),
                                                 .kind = "imagefolder",
                                                 .split = DATASET_TRAIN,
                                                 .threads = threads},
                        &a, &o, &e);
}

// ---- inspections --------------------------------------------------------------------------------

static void test_sizes(int threads) {
    size_t bytes = picture("small/train/cat/a.jpg", 8, 20) +
                   picture("small/train/cat/b.jpg", 16, 6) +
                   picture("small/train/dog/c.jpg", 12, 10);
    put("small/train/dog/d.jpg", "no picture", 10);
    is_int(inspect("small", threads), 0, "a folder is inspected by %d threads", threads);
    is_str(o.kind, "imagefolder", "the kind is that of the source with %d", threads);
    ok(o.samples == 4 && o.classes == 2 && strcmp(o.class_names[0], "cat") == 0 &&
           strcmp(o.class_names[1], "dog") == 0,
       "the classes have their names with %d", threads);
    ok(o.class_samples[0] == 2 && o.class_samples[1] == 2,
       "bad images count in their classes with %d", threads);
    is_int(o.bytes, bytes + 10, "all bytes are counted with %d", threads);
    ok(o.width_min == 8 && o.width_max == 16 && o.height_min == 6 && o.height_max == 20,
       "sizes have bounds with %d", threads);
    near(o.width_mean, 12, 1e-12, "widths have a mean with %d", threads);
    near(o.height_mean, 12, 1e-12, "heights have a mean with %d", threads);
    is_int(o.firsts, 3, "the first good images are listed with %d", threads);
    ok(o.first[0].index == 0 && o.first[0].width == 8 && o.first[0].height == 20 &&
           o.first[0].label == 0 && o.first[2].label == 1 && o.first[1].width == 16,
       "an image has number, size and class with %d", threads);
    has_str(o.first[1].where, "cat/b.jpg", "an image has its place with %d", threads);
    is_int(o.bad, 1, "one image is bad with %d", threads);
    is_int(o.bad_named[0].index, 3, "the bad image has its number with %d", threads);
    has_str(o.bad_named[0].why, "dog/d.jpg': ", "the bad image has its place with %d", threads);
}

static void test_many(void) {
    enum { BAD = 30, GOOD = 12 };
    for (int i = 0; i < GOOD; i++)
        picture(arena_printf(&a, "many/train/x/a%02d.jpg", i), 4 + i, 4);
    for (int i = 0; i < BAD; i++)
        put(arena_printf(&a, "many/train/x/b%02d.jpg", i), "bad", 3);
    for (int threads = 1; threads <= 4; threads += 3) {
        is_int(inspect("many", threads), 0, "many images are inspected by %d threads", threads);
        is_int(o.bad, BAD, "all bad images are counted by %d threads", threads);
        bool sorted = true;
        for (uint32_t i = 0; i < DATA_INSPECT_BAD_NAMED; i++) {
            const char *name = arena_printf(&a, "x/b%02u.jpg': ", i);
            sorted &= o.bad_named[i].index == GOOD + i && strstr(o.bad_named[i].why, name);
        }
        ok(sorted, "the first bad images are named by %d threads", threads);
        is_int(o.firsts, DATA_INSPECT_FIRST, "first images have a limit with %d threads", threads);
        is_int(o.first[DATA_INSPECT_FIRST - 1].index, DATA_INSPECT_FIRST - 1,
               "the first images are the first of all with %d threads", threads);
        ok(o.width_max == 4 + GOOD - 1 && o.width_min == 4, "all images count with %d threads",
           threads);
    }
}

static void test_none_good(void) {
    put("none/train/x/a.jpg", "bad", 3);
    is_int(inspect("none", 1), 0, "a folder of bad images is inspected");
    ok(o.samples == 1 && o.bad == 1 && o.firsts == 0 && o.width_max == 0 && o.width_mean == 0 &&
           o.height_mean == 0,
       "a folder of bad images has no sizes");
    is_int(inspect("absent", 1), -1, "a folder that is absent is an error");
}

// ---- shapes -------------------------------------------------------------------------------------

static int progress_calls, ends_at;

static int on_progress(void *ctx, uint64_t done, uint64_t total, struct err *err) {
    (void)ctx, (void)done, (void)total;
    return ++progress_calls == ends_at ? err_set(err, ERR_FAILED, "called off") : 0;
}

static void test_shapes(void) {
    struct data_shapes t = {.dir = in("shapes"), .train = 12, .test = 5, .size = 24, .seed = 3};
    if (data_make_shapes(&t, on_progress, NULL, &e) < 0)
        bail_out("%s", e.text);
    is_int(inspect("shapes", 1), 0, "shapes are a folder of images");
    ok(o.samples == 12 && o.width_min == 24 && o.width_max == 24 && o.height_min == 24 &&
           o.bad == 0,
       "shapes have their number and size");
    has_str(o.first[0].where, ".jpg", "shapes are JPEG files");
    is_int(data_inspect(&(struct dataset_config){.source = in("shapes"),
                                                 .kind = "imagefolder",
                                                 .split = DATASET_TEST,
                                                 .threads = 1},
                        &a, &o, &e),
           0, "shapes have a test part");
    is_int(o.samples, 5, "the test part has its number");
    is_int(data_make_shapes(&t, NULL, NULL, &e), -1, "a folder with files is refused");
    t.dir = in("again");
    t.test = 0;
    is_int(data_make_shapes(&t, NULL, NULL, &e), 0, "a part may be empty");
    ok(file_is_absent(in("again/test")), "an empty part has no folder");
    is_int(inspect("again", 1), 0, "the other part is there");
    char *one, *other;
    size_t len, other_len;
    const char *place = strstr(o.first[0].where, "train/");
    const char *path = arena_strndup(&a, place, strcspn(place, "'"));
    if (file_read(&a, in(file_join(&a, "shapes", path)), 1 << 20, &one, &len, &e) < 0 ||
        file_read(&a, in(file_join(&a, "again", path)), 1 << 20, &other, &other_len, &e) < 0)
        bail_out("%s", e.text);
    is_mem(one, len, other, other_len, "the same seed gives the same bytes");
    t.dir = in("called-off");
    ends_at = progress_calls + 1;
    int result = data_make_shapes(&t, on_progress, NULL, &e);
    ok(result < 0 ? strstr(e.text, "called off") != NULL : progress_calls < ends_at,
       "the work can be called off");
}

static void test_jpeg(void) {
    enum { WIDTH = 16, HEIGHT = 8 };
    uint8_t rgb[WIDTH * HEIGHT * 3];
    unsigned char *jpeg;
    const uint8_t *back;
    size_t len;
    int width, height;
    struct jpeg *reader;
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        rgb[3 * i] = i / WIDTH < HEIGHT / 2 ? 250 : 5; // the upper half is red
        rgb[3 * i + 1] = 5;
        rgb[3 * i + 2] = i / WIDTH < HEIGHT / 2 ? 5 : 250;
    }
    if (jpeg_write(rgb, WIDTH, HEIGHT, &jpeg, &len, &e) < 0 || jpeg_open(&reader, &e) < 0 ||
        jpeg_decode(reader, jpeg, len, &back, &width, &height, &e) < 0)
        bail_out("%s", e.text);
    ok(width == WIDTH && height == HEIGHT, "a written image has its size");
    ok(back[0] > 200 && back[2] < 60, "the first pixel is red");
    size_t last = sizeof rgb - 3;
    ok(back[last] < 60 && back[last + 2] > 200, "the last pixel is blue");
    jpeg_close(reader);
    free(jpeg);
    is_int(jpeg_write(rgb, 0, 8, &jpeg, &len, &e), -1, "an image without pixels is refused");
    ok(!jpeg && strncmp(e.text, "cannot make a JPEG image: ", 26) == 0, "the error is libjpeg's");
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("no folder");
    test_jpeg();
    test_sizes(1);
    test_sizes(3);
    test_many();
    test_none_good();
    test_shapes();
    file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
