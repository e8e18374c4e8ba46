// SPDX-License-Identifier: Apache-2.0
// The packed form of a data set, byte by byte: where everything lies, which counts are possible,
// and which header is refused for which reason.
#include "data/packed.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SAMPLES = 5, HEIGHT = 2, WIDTH = 3, CHANNELS = 4, NAMES_BYTES = 9, NAMES_AT = 160 };
enum { LABELS_AT = 4096, PIXELS_AT = 8192, FILE_BYTES = PIXELS_AT + SAMPLES * 24 };

static const char *const names[] = {"cat", "birds"};
static const struct packed_info sound = {.samples = SAMPLES,
                                         .height = HEIGHT,
                                         .width = WIDTH,
                                         .channels = CHANNELS,
                                         .classes = 2,
                                         .class_names = names,
                                         .kind = "folder",
                                         .key = "0123456789abcdef0123456789abcde"};

static unsigned char *made; // FILE_BYTES

static void make(void) {
    struct packed_writer w;
    struct packed p;
    struct err e;
    if (packed_create(&w, NULL, &sound, &e) < 0)
        bail_out("%s", e.text);
    for (int i = 0; i < SAMPLES; i++)
        w.labels[i] = i % 2;
    for (int i = 0; i < SAMPLES * 24; i++)
        w.pixels[i] = (uint8_t)i;
    is_int(packed_commit(&w, &p, &e), 0, "a packed set in memory is handed over");
    is_uint(p.map_bytes, FILE_BYTES, "the set ends with its last pixel");
    made = aligned_alloc(64, (FILE_BYTES + 63) / 64 * 64);
    memcpy(made, p.map, FILE_BYTES);
    packed_close(&p);
    ok(!p.map, "a closed set has no memory");
}

static void test_bytes(void) {
    static const struct {
        int at, bytes;
        uint64_t value;
        const char *about;
    } fields[] = {{8, 4, 1, "version"},
                  {12, 4, CHANNELS, "number of channels"},
                  {16, 4, SAMPLES, "number of samples"},
                  {20, 4, HEIGHT, "height"},
                  {24, 4, WIDTH, "width"},
                  {28, 4, 2, "number of classes"},
                  {32, 8, NAMES_AT, "place of the names"},
                  {40, 8, NAMES_BYTES + 1, "length of the names"},
                  {48, 8, LABELS_AT, "place of the labels"},
                  {56, 8, PIXELS_AT, "place of the pixels"},
                  {64, 8, FILE_BYTES, "length of the file"}};
    is_mem(made, 8, "DTPACK\0\1", 8, "a packed set begins with its magic");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        is_uint(bytes_load(made + fields[i].at, fields[i].bytes), fields[i].value,
                "the header has the %s", fields[i].about);
    is_str((char *)made + 72, "folder", "the header has the kind");
    is_mem(made + 96, 32, sound.key, 32, "the header has the key");
    is_mem(made + NAMES_AT, NAMES_BYTES + 1, "cat\0birds", NAMES_BYTES + 1, "names follow it");
    is_uint(bytes_load(made + LABELS_AT + 4, 4), 1, "labels lie on a page");
    is_int(made[PIXELS_AT + 100], 100, "pixels lie on a page");
}

static void test_read(void) {
    struct packed p;
    struct err e;
    is_int(packed_parse(&p, made, FILE_BYTES, &e), 0, "the bytes of a set are read");
    ok(p.info.samples == SAMPLES && p.info.height == HEIGHT && p.info.width == WIDTH &&
           p.info.channels == CHANNELS && p.info.classes == 2,
       "the counts are read");
    is_str(p.info.class_names[0], "cat", "the first name is read");
    is_str(p.info.class_names[1], "birds", "the last name is read");
    is_str(p.info.kind, "folder", "the kind is read");
    is_mem(p.info.key, 32, sound.key, 32, "the key is read");
    ok(p.labels[3] == 1 && p.labels[4] == 0 && p.pixels[119] == 119, "samples are read");
    packed_close(&p);
}

// ---- counts ------------------------------------------------------------------------------------

static void test_counts(void) {
    static const struct {
        uint32_t samples, height, width, channels, classes;
        bool possible;
    } cases[] = {{1, 1, 1, 1, 1, true},     {0, 1, 1, 1, 1, false},     {1, 0, 1, 1, 1, false},
                 {1, 65535, 1, 1, 1, true}, {1, 65536, 1, 1, 1, false}, {1, 1, 0, 1, 1, false},
                 {1, 1, 65535, 1, 1, true}, {1, 1, 65536, 1, 1, false}, {1, 1, 1, 0, 1, false},
                 {1, 1, 1, 4, 1, true},     {1, 1, 1, 5, 1, false},     {1, 1, 1, 1, 0, false},
                 {1, 1, 1, 1, 2, true}};
    struct packed_writer w;
    struct err e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct packed_info info = {.samples = cases[i].samples,
                                   .height = cases[i].height,
                                   .width = cases[i].width,
                                   .channels = cases[i].channels,
                                   .classes = cases[i].classes,
                                   .class_names = names};
        err_clear(&e);
        is_int(packed_create(&w, NULL, &info, &e), cases[i].possible ? 0 : -1,
               "%u samples of %u x %u x %u in %u classes are %spossible", info.samples, info.height,
               info.width, info.channels, info.classes, cases[i].possible ? "" : "im");
        is_int(e.code, cases[i].possible ? ERR_NONE : ERR_FORMAT, "counts %zu have their code", i);
        packed_abort(&w);
    }
}

// 16 MiB of names, with the end of each.
static void test_names(void) {
    char *longest = malloc(PACKED_NAMES_BYTES_MAX + 1);
    const char *one[] = {longest};
    struct packed_info info = sound;
    info.classes = 1;
    info.class_names = one;
    for (int more = 0; more < 2; more++) {
        struct packed_writer w;
        struct err e;
        memset(longest, 'n', PACKED_NAMES_BYTES_MAX);
        longest[PACKED_NAMES_BYTES_MAX - 1 + more] = 0;
        is_int(packed_create(&w, NULL, &info, &e), more ? -1 : 0, "%d more than 16 MiB of names",
               more);
        if (more)
            is_str(e.text, "class names of 16777217 bytes for 1 classes (at most 16777216)",
                   "the error has the limit of names");
        packed_abort(&w);
    }
    free(longest);
}

// ---- headers that are refused ------------------------------------------------------------------

static unsigned char *changed(int at, size_t bytes, uint64_t value, bool hashed) {
    static unsigned char *copy;
    free(copy);
    copy = aligned_alloc(64, (FILE_BYTES + 63) / 64 * 64);
    memcpy(copy, made, FILE_BYTES);
    bytes_store(copy + at, value, bytes);
    struct hash h;
    hash_init(&h);
    hash_add(&h, copy, 128);
    hash_add(&h, copy + NAMES_AT, NAMES_BYTES + 1);
    if (hashed)
        hash_final(&h, copy + 128);
    return copy;
}

static void test_headers(void) {
    static const struct {
        int at;
        size_t bytes;
        uint64_t value;
        bool hashed;
        enum err_code code;
        const char *error;
    } cases[] = {
        {0, 1, 'd', true, ERR_FORMAT, "not a packed data set (no such header)"},
        {7, 1, 2, true, ERR_FORMAT, "not a packed data set (no such header)"},
        {8, 4, 2, true, ERR_FORMAT, "packed form of version 2, this program reads 1"},
        {16, 4, 0, true, ERR_FORMAT, "0 samples of 2 x 3 x 4 in 2 classes make no data set"},
        {16, 4, 6, true, ERR_FORMAT, "packed data set of 8312 bytes where its header says 8336"},
        {40, 8, 1, true, ERR_LIMIT, "class names of 1 bytes for 2 classes"},
        {40, 8, PACKED_NAMES_BYTES_MAX + 1, true, ERR_LIMIT, "class names of 16777217 bytes"},
        {40, 8, 2, false, ERR_HASH, "header does not match its hash"},
        {32, 8, NAMES_AT + 1, true, ERR_FORMAT, "where its header says 8312"},
        {48, 8, LABELS_AT + 1, true, ERR_FORMAT, "where its header says 8312"},
        {56, 8, PIXELS_AT + 1, true, ERR_FORMAT, "where its header says 8312"},
        {64, 8, FILE_BYTES + 1, true, ERR_FORMAT, "where its header says 8312"},
        {72, 1, 'F', false, ERR_HASH, "header does not match its hash"},
        {127, 1, 'F', false, ERR_HASH, "header does not match its hash"},
        {128, 1, 0, false, ERR_HASH, "header does not match its hash"},
        {159, 1, 0, false, ERR_HASH, "header does not match its hash"},
        {NAMES_AT, 1, 'r', false, ERR_HASH, "header does not match its hash"},
        {NAMES_AT + NAMES_BYTES, 1, 'r', true, ERR_FORMAT, "class name 1 is missing"},
        {LABELS_AT, 4, 2, true, ERR_FORMAT, "sample 0 has label 2 of 2 classes"},
        {LABELS_AT + 16, 4, 2, true, ERR_FORMAT, "sample 4 has label 2 of 2 classes"},
        {LABELS_AT + 16, 4, UINT32_MAX, true, ERR_FORMAT, "sample 4 has label -1 of 2 classes"}};
    struct packed p;
    struct err e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned char *b =
            changed(cases[i].at, cases[i].bytes, cases[i].value, cases[i].hashed);
        is_int(packed_parse(&p, b, FILE_BYTES, &e), -1, "header %zu is refused", i);
        has_str(e.text, cases[i].error, "header %zu has its error", i);
        is_int(e.code, cases[i].code, "header %zu has its code", i);
    }
    is_int(packed_parse(&p, changed(72, 1, 'F', true), FILE_BYTES, &e), 0, "another kind is read");
    packed_close(&p);
    // 16 TiB are the limit: 4096 images of 4 GiB.
    unsigned char *b = changed(12, 4, 4, true);
    bytes_store(b + 16, 4096, 4);
    bytes_store(b + 20, 32768, 4);
    bytes_store(b + 24, 32768, 4);
    is_int(packed_parse(&p, b, FILE_BYTES, &e), -1, "a file of 16 TiB does not have 8 KiB");
    is_str(e.text, "packed data set of 8312 bytes where its header says 17592186064896",
           "a file may have 16 TiB of pixels");
    bytes_store(b + 16, 4097, 4);
    is_int(packed_parse(&p, b, FILE_BYTES, &e), -1, "a file of more than 16 TiB is refused");
    is_str(e.text, "4097 images of 4294967296 bytes are above the limit of 17592186044416 bytes",
           "the error has the limit of a file");
    is_int(e.code, ERR_LIMIT, "more than 16 TiB are a limit error");
}

// ---- files -------------------------------------------------------------------------------------

static void put(const char *path, size_t bytes) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, made, bytes) != (ssize_t)bytes)
        bail_out("cannot write '%s'", path);
    close(fd);
}

static void test_files(void) {
    char dir[] = "/tmp/dtctl-packed-test.XXXXXX", path[64];
    struct packed_writer w;
    struct packed p;
    struct stat st;
    struct err e;
    if (!mkdtemp(dir))
        bail_out("no folder");
    snprintf(path, sizeof path, "%s/x", dir);
    is_int(packed_open(&p, path, &e), -1, "an absent file is not opened");
    is_int(e.code, ERR_NOT_FOUND, "an absent file is not found");
    is_int(packed_open(&p, dir, &e), -1, "a folder is not opened");
    has_str(e.text, "is not a packed data set (too small)", "a folder is no packed data set");
    put(path, PACKED_HEAD_BYTES - 1);
    is_int(packed_open(&p, path, &e), -1, "a file of less than a header is not opened");
    has_str(e.text, "is not a packed data set (too small)", "the error says that it is too small");
    put(path, PACKED_HEAD_BYTES);
    is_int(packed_open(&p, path, &e), -1, "a file of a header is not opened");
    has_str(e.text, "packed data set of 160 bytes where its header says 8312",
            "the error has the length of the file");
    put(path, FILE_BYTES);
    is_int(packed_open(&p, path, &e), 0, "a whole file is opened");
    is_uint(p.map_bytes, FILE_BYTES, "a whole file is mapped");
    packed_close(&p);
    unlink(path);
    is_int(packed_create(&w, path, &sound, &e), 0, "a file is begun");
    memcpy(w.labels, made + LABELS_AT, 4 * SAMPLES);
    memcpy(w.pixels, made + PIXELS_AT, 24 * SAMPLES);
    is_int(packed_commit(&w, &p, &e), 0, "a file is finished");
    is_mem(p.map, p.map_bytes, made, FILE_BYTES, "a file has the bytes of a set in memory");
    packed_close(&p);
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644, "all users may read a finished file");
    is_uint(st.st_size, FILE_BYTES, "a finished file has its length");
    // A set with a label that is not possible is no set.
    unlink(path);
    is_int(packed_create(&w, path, &sound, &e), 0, "a file is begun again");
    w.labels[0] = 2;
    is_int(packed_commit(&w, &p, &e), -1, "a label that is not possible is found");
    is_int(packed_create(&w, NULL, &sound, &e), 0, "a set in memory is begun again");
    w.labels[0] = 2;
    is_int(packed_commit(&w, &p, &e), -1, "a label that is not possible is found in memory");
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
}

int main(void) {
    make();
    test_bytes();
    test_read();
    test_counts();
    test_names();
    test_headers();
    test_files();
    free(made);
    return done_testing();
}
