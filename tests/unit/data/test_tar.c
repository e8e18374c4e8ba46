// SPDX-License-Identifier: Apache-2.0
// The tar reader on archives built here byte by byte, and the layout rules.
#include "content/tar.h"
#include "data/layout.h"

#include "tests/tap.h"

#include <zstd.h>

static struct err e;

static unsigned char archive[1 << 20];
static size_t archive_len;

static void put(const void *p, size_t n) {
    memcpy(archive + archive_len, p, n);
    archive_len += n;
}

static void pad(void) {
    while (archive_len % TAR_BLOCK_BYTES)
        archive[archive_len++] = 0;
}

static void header(const char *name, const char *prefix, char type, const char *size) {
    unsigned char b[TAR_BLOCK_BYTES] = {0};
    memcpy(b, name, strnlen(name, 100));
    memcpy(b + 100, "0000644", 8);
    memcpy(b + 124, size, strlen(size));
    b[156] = (unsigned char)type;
    memcpy(b + 257, "ustar\00000", 8);
    memcpy(b + 345, prefix, strlen(prefix));
    memset(b + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += b[i];
    snprintf((char *)b + 148, 8, "%06o", sum);
    put(b, sizeof b);
}

static void entry(const char *name, const char *prefix, char type, const char *data) {
    char size[13];
    snprintf(size, sizeof size, "%011o", (unsigned)strlen(data));
    header(name, prefix, type, size);
    put(data, strlen(data));
    pad();
}

static void finish(void) {
    memset(archive + archive_len, 0, 1024);
    archive_len += 1024;
}

// "path=data;" for each file.
static const char *listing(struct tar_input *in, int *result) {
    static char out[8192];
    struct tar t;
    struct tar_entry member;
    char data[4096];
    out[0] = 0;
    err_clear(&e);
    tar_open_input(&t, in);
    int r;
    while ((r = tar_next(&t, &member, &e)) > 0) {
        if (member.type != TAR_FILE)
            continue;
        if (member.size < sizeof data && tar_read(&t, data, member.size, &e) < 0) {
            r = -1;
            break;
        }
        size_t at = strlen(out);
        snprintf(out + at, sizeof out - at, "%s=%.*s;", member.path, (int)member.size, data);
    }
    tar_close(&t);
    *result = r;
    return out;
}

static const char *memory_listing(int *result) {
    return listing(tar_input_memory(archive, archive_len), result);
}

static void test_kinds(void) {
    int r;
    char path[300], want[700], record[400], text[500];
    memset(path, 'p', 250);
    memcpy(path, "train/", 6);
    path[250] = 0;
    archive_len = 0;
    entry("train/", "", '5', "");
    entry("train/a.jpg", "", '0', "hello");
    entry("old.jpg", "", 0, "v7");
    entry("b.jpg", "some/prefix", '0', "");
    entry("././@LongLink", "", 'L', path);
    entry("short", "", '0', "long");
    snprintf(record, sizeof record, "path=%s\n", path);
    size_t len = strlen(record) + 4; // "NNN "
    snprintf(text, sizeof text, "%zu %s", len, record);
    entry("pax", "", 'x', text);
    entry("short", "", '0', "pax");
    entry("link.jpg", "", '2', "");
    entry("pax", "", 'g', "20 comment=whatever\n");
    entry("last.jpg", "", '0', "end");
    finish();
    snprintf(want, sizeof want,
             "train/a.jpg=hello;old.jpg=v7;some/prefix/b.jpg=;%s=long;%s=pax;"
             "last.jpg=end;",
             path, path);
    is_str(memory_listing(&r), want, "ustar, old, prefix, long link, pax, links, globals");
    is_int(r, 0, "the archive is read to its end");

    for (int blocks = 0; blocks < 3; blocks++) { // down to the end of the last member
        archive_len -= blocks > 0 ? 512 : 1;
        memory_listing(&r);
        is_int(r, -1, "cut %d blocks before the end", blocks);
        archive_len += blocks == 0;
    }
    has_str(e.text, "without its two closing blocks",
            "the error says that the closing blocks are missing");
    archive_len -= 508; // the padding of "end" less one byte
    memory_listing(&r);
    is_int(r, -1, "a file without its last padding is incomplete");
    archive_len -= 3;
    memory_listing(&r);
    is_int(r, -1, "an archive that ends inside a file is an error");
    has_str(e.text, "ends in the middle", "the error says that the archive ends in the middle");

    archive_len = 0;
    char pax_size[] = "9 size=5\n";
    entry("pax", "", 'x', pax_size);
    header("big.jpg", "", '0', "00000000000");
    put("12345", 5);
    pad();
    finish();
    is_str(memory_listing(&r), "big.jpg=12345;", "a size from a pax record");

    archive_len = 0;
    header("base256", "", '0', "\x80");
    archive[124 + 11] = 4;
    memset(archive + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += archive[i];
    snprintf((char *)archive + 148, 8, "%06o", sum);
    put("abcd", 4);
    pad();
    finish();
    is_str(memory_listing(&r), "base256=abcd;", "a size in base 256");
}

static void test_hostile(void) {
    int r;
    archive_len = 0;
    entry("a", "", '0', "x");
    archive[0] ^= 1;
    memory_listing(&r);
    is_int(r, -1, "a wrong checksum");
    static const char *const sizes[] = {"77777777777", "8888", "-1", "\xff\xff\xff\xff"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        archive_len = 0;
        header("a", "", '0', sizes[i]);
        memory_listing(&r);
        is_int(r, -1, "size field %zu of a file that is not there", i);
    }
    static const char *const records[] = {"x",
                                          "5 abc\n",
                                          "999999 path=a\n",
                                          "12 pathxabcd\n",
                                          "0 path=a\n",
                                          "14 size=99x99\n",
                                          "9path=ab\n",
                                          "12",
                                          "11 path=abc",
                                          "4 =\n"};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        archive_len = 0;
        entry("pax", "", 'x', records[i]);
        entry("a", "", '0', "x");
        finish();
        memory_listing(&r);
        bool good = i == sizeof records / sizeof records[0] - 1;
        is_int(r, good ? 0 : -1, "pax record %zu", i);
    }
    static char longest[TAR_PATH_BYTES_MAX + 100];
    memset(longest, 'a', sizeof longest - 1);
    archive_len = 0;
    entry("././@LongLink", "", 'L', longest);
    memory_listing(&r);
    is_int(r, -1, "a name above the limit");
    is_int(e.code, ERR_LIMIT, "a name above the limit is a limit error");
    archive_len = 0;
    memory_listing(&r);
    is_int(r, -1, "nothing at all is no archive");
    finish();
    memory_listing(&r);
    is_int(r, 0, "an empty one has its two blocks");
    archive_len = 512;
    entry("a", "", '0', "x");
    finish();
    memory_listing(&r);
    is_int(r, -1, "a single block of zeros does not end it");
}

static void test_zstd(void) {
    static unsigned char packed[1 << 20];
    int r;
    archive_len = 0;
    entry("one.jpg", "", '0', "1");
    entry("two.jpg", "", '0', "22");
    finish();
    size_t n = ZSTD_compress(packed, sizeof packed, archive, archive_len, 3);
    FILE *f = tmpfile();
    fwrite(packed, 1, n, f);
    fflush(f);
    rewind(f);
    is_str(listing(tar_input_zstd(fileno(f), &e), &r), "one.jpg=1;two.jpg=22;", "through zstd");
    is_int(r, 0, "a zstd archive is read to its end");
    FILE *cut = tmpfile();
    fwrite(packed, 1, n / 2, cut);
    fflush(cut);
    rewind(cut);
    listing(tar_input_zstd(fileno(cut), &e), &r);
    is_int(r, -1, "a cut stream is an error");
    FILE *plain = tmpfile();
    fwrite(archive, 1, archive_len, plain);
    fflush(plain);
    is_str(listing(tar_input_file(fileno(plain)), &r), "one.jpg=1;two.jpg=22;",
           "an archive is read from a file");
    rewind(plain);
    listing(tar_input_zstd(fileno(plain), &e), &r);
    is_int(r, -1, "a plain archive is no zstd stream");
    has_str(e.text, "zstd", "the error names zstd");
    fclose(f);
    fclose(cut);
    fclose(plain);
}

static void test_layout(void) {
    struct arena a = {0};
    struct layout l;
    layout_init(&l, &a, DATASET_TRAIN);
    static const char *const paths[] = {
        "./set/train/dog/b.jpg", "set/train/cat/z.JPEG", "set/train/cat/sub/a.jpg",
        "set/train/cat/B.jpg",   "set/train/readme.txt", "set/test/dog/x.jpg",
        "set/train/notes/x.txt", "other/a/b.jpg",        "set/train/cat/._z.jpg"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        is_int(layout_add(&l, paths[i], i, 0, 0, &e), i < 4, "%s", paths[i]);
    is_int(layout_finish(&l, &e), 0, "finishes");
    is_uint(l.count, 4, "the list has four items");
    is_int(l.class_count, 2, "a class without images is not counted");
    is_str(l.class_names[0], "cat", "sorted");
    const uint64_t order[4] = {3, 1, 2, 0};
    for (size_t i = 0; i < 4; i++)
        is_uint(l.items[i].offset, order[i], "item %zu in torchvision's order", i);
    layout_fini(&l);

    layout_init(&l, &a, DATASET_TEST);
    layout_add(&l, "train/a/1.jpg", 0, 0, 0, &e);
    layout_add(&l, "train/c/1.jpg", 0, 0, 0, &e);
    layout_add(&l, "val/a/1.jpg", 1, 0, 0, &e);
    layout_add(&l, "test/c/1.jpg", 2, 0, 0, &e);
    layout_add(&l, "val/a/2.jpg", 3, 0, 0, &e);
    is_int(layout_finish(&l, &e), 0, "test and val");
    ok(l.count == 1 && l.items[0].offset == 2, "test is preferred");
    is_int(l.items[0].label, 1, "an item of the test split has the class id of training");
    layout_fini(&l);

    layout_init(&l, &a, DATASET_TEST);
    layout_add(&l, "train/a/1.jpg", 0, 0, 0, &e);
    layout_add(&l, "test/b/1.jpg", 0, 0, 0, &e);
    is_int(layout_finish(&l, &e), -1, "a class that has no training images");
    has_str(e.text, "test/b/1.jpg", "the error names the class without training images");
    is_int(layout_add(&l, "test/b/1.png", 0, 0, 0, &e), -1, "a PNG is refused, not skipped");
    layout_fini(&l);
    layout_init(&l, &a, DATASET_TRAIN);
    is_int(layout_finish(&l, &e), -1, "nothing at all");
    is_int(e.code, ERR_NOT_FOUND, "an empty archive is not found");
    layout_fini(&l);
    arena_fini(&a);
}

static void test_links(void) {
    static const struct {
        char record; // in front of the member; 0: none
        const char *text, *want;
    } rows[] = {{0, "", "in the header"},
                {'K', "of GNU's record", "of GNU's record"},
                {'x', "24 linkpath=of a record\n", "of a record"}};
    struct tar t;
    struct tar_entry member;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int type = '1'; type <= '2'; type++) {
            archive_len = 0;
            if (rows[i].record)
                entry("record", "", rows[i].record, rows[i].text);
            size_t at = archive_len;
            header("name", "", (char)type, "00000000005");
            memcpy(archive + at + 157, "in the header", 13);
            archive[at + 100] = 'x';
            memset(archive + at + 148, ' ', 8);
            unsigned sum = 0;
            for (int k = 0; k < TAR_BLOCK_BYTES; k++)
                sum += archive[at + (size_t)k];
            snprintf((char *)archive + at + 148, 8, "%06o", sum);
            entry("file", "", '0', "data");
            finish();
            tar_open_input(&t, tar_input_memory(archive, archive_len));
            is_int(tar_next(&t, &member, &e), 1, "a link of type %c", type);
            is_int(member.type, type == '1' ? TAR_HARD_LINK : TAR_SYMLINK, "the type of the link");
            is_str(member.link, rows[i].want, "the target of the link");
            is_uint(member.mode, 0, "a damaged mode counts as none");
            is_int(tar_next(&t, &member, &e), 1, "a link has no data");
            is_str(member.link, "", "the target counts for one member");
            is_uint(member.mode, 0644, "the mode of a file");
            tar_close(&t);
        }
}

int main(void) {
    test_kinds();
    test_links();
    test_hostile();
    test_zstd();
    test_layout();
    return done_testing();
}
