// SPDX-License-Identifier: Apache-2.0
// Inspections of data sets with bad samples: those of the lowest numbers are named, in order, by
// any number of threads.
#include "data/data_inspect.h"

#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/data/pictures.h"

#include <unistd.h>

static struct err e;
static char dir[64];
static uint64_t stored; // bytes of the good samples, and of the bad ones

static void put(const char *class, int number, const void *bytes, size_t len) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, class);
    if (file_make_dirs(path, 0755, &e) < 0)
        bail_out("%s", e.text);
    snprintf(path, sizeof path, "%s/%s/%02d.jpg", dir, class, number);
    if (file_write_atomic(path, bytes, len, 0644, &e) < 0)
        bail_out("%s", e.text);
    stored += len;
}

static void put_picture(const char *class, int number, int w, int h) {
    unsigned char *data;
    size_t len = make_jpeg(&data, w, h, number, PLAIN);
    put(class, number, data, len);
    free(data);
}

// A large picture without its end, which threads find bad later than the small ones behind it.
static void put_late(const char *class, int number) {
    unsigned char *data;
    size_t len = make_jpeg(&data, 1200, 900, number, PLAIN);
    put(class, number, data, len - len / 8);
    free(data);
}

// A good picture with bytes between two of its segments that belong to none.
static void put_strange(const char *class, int number, int w, int h) {
    enum { SECOND = 20, MORE = 3 };
    unsigned char *data;
    size_t len = make_jpeg(&data, w, h, number, PLAIN);
    unsigned char *more = malloc(len + MORE);
    memcpy(more, data, SECOND);
    memset(more + SECOND, 'x', MORE);
    memcpy(more + SECOND + MORE, data + SECOND, len - SECOND);
    put(class, number, more, len + MORE);
    free(more);
    free(data);
}

static void inspected(struct arena *a, struct data_inspection *n, int threads) {
    const struct dataset_config c = {.source = dir, .alone = true, .threads = threads};
    is_int(data_inspect(&c, a, n, &e), 0, "a folder is inspected by %d threads", threads);
}

// 22 bad samples among 35: those of the lowest numbers are named, in order.
static void test_bad(int threads) {
    struct arena a = {0};
    struct data_inspection n;
    char place[16];
    inspected(&a, &n, threads);
    is_uint(n.bad, 22, "bad samples are counted by %d threads", threads);
    is_uint(n.samples, 35, "bad samples are samples for %d threads", threads);
    is_uint(n.bytes, stored, "bad samples have bytes for %d threads", threads);
    int wrong = 0;
    for (uint32_t i = 0; i < DATA_INSPECT_BAD_NAMED; i++) {
        uint32_t index = 3 + i / 2 * 3 + i % 2; // two of three, after the first three
        snprintf(place, sizeof place, "owl/%02u.jpg", index - 3);
        if (n.bad_named[i].index != index || !strstr(n.bad_named[i].why, place))
            diag("%u: %u %s", i, n.bad_named[i].index, n.bad_named[i].why), wrong++;
    }
    is_int(wrong, 0, "the first 20 bad samples are named in order by %d threads", threads);
    has_str(n.bad_named[0].why, "owl/00.jpg': ", "a bad sample has its place and its reason");
    is_int(n.firsts, DATA_INSPECT_FIRST, "no more than 8 pictures are first for %d threads",
           threads);
    ok(n.first[2].index == 2 && n.first[3].index == 5 && n.first[7].index == 17,
       "bad samples are not among the first pictures of %d threads", threads);
    ok(n.width_min == 10 && n.height_max == 40, "bad samples have no size for %d threads", threads);
    is_uint(n.class_samples[2], 30, "bad samples belong to their class for %d threads", threads);
    arena_fini(&a);
}

static void test_refused(void) {
    struct arena a = {0};
    struct data_inspection n;
    struct dataset_config c = {.source = "/does/not/exist"};
    is_int(data_inspect(&c, &a, &n, &e), -1, "a source that does not exist is refused");
    is_int(e.code, ERR_NOT_FOUND, "the source is not found");
    c = (struct dataset_config){.source = "shapes", .samples_max = 5, .threads = 2};
    is_int(data_inspect(&c, &a, &n, &e), 0, "a source of pixels is inspected");
    ok(n.samples == 5 && n.width_min == 32 && n.width_max == 32 && n.height_mean > 31.9 &&
           n.bytes == 5U * 32 * 32 * 3,
       "pixels have their size");
    arena_fini(&a);
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-inspect-test.XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    put_picture("cat", 0, 30, 11);
    put_strange("cat", 1, 20, 40);
    put_picture("dog", 0, 10, 21);
    for (int i = 0; i < 30; i++)
        if (i % 3 == 2)
            put_picture("owl", i, 16, 16);
        else if (i > 0)
            put("owl", i, "no picture", 10);
    put_late("owl", 0);
    for (int i = 0; i < 2; i++)
        put("zoo", i, "no picture", 10);
    test_bad(1);
    test_bad(4);
    test_refused();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
