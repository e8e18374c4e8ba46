// SPDX-License-Identifier: Apache-2.0
// The fields of tar headers and records at their limits: full fields without a NUL behind them, the
// longest names and records, the largest sizes.
#include "content/tar.h"

#include "base/arena.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <sys/stat.h>
#include <unistd.h>

static struct err e;
static unsigned char archive[3 << 20];
static size_t archive_len;
static struct tar_entry member;

// ---- archives -----------------------------------------------------------------------------------

struct field {
    size_t at;
    const char *text; // without its NUL
};

static void header(char type, const struct field *fields) {
    unsigned char *b = archive + archive_len;
    unsigned sum = 0;
    char digits[9];
    memset(b, 0, TAR_BLOCK_BYTES);
    memcpy(b, "name", 4);
    memcpy(b + 100, "0000644", 7);
    memcpy(b + 124, "00000000000", 11);
    memcpy(b + 257, "ustar\00000", 8);
    b[156] = (unsigned char)type;
    for (const struct field *f = fields; f && f->text; f++)
        memcpy(b + f->at, f->text, strlen(f->text));
    memset(b + 148, ' ', 8);
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += b[i];
    snprintf(digits, sizeof digits, "%08o", sum);
    memcpy(b + 148, digits, 8);
    archive_len += TAR_BLOCK_BYTES;
}

static void data(const char *text, size_t len) {
    memcpy(archive + archive_len, text, len);
    archive_len += len;
    for (; archive_len % TAR_BLOCK_BYTES; archive_len++)
        archive[archive_len] = 0;
}

static void record(char type, const char *text, size_t len) {
    char size[12];
    snprintf(size, sizeof size, "%011o", (unsigned)len);
    header(type, (struct field[]){{124, size}, {0, NULL}});
    data(text, len);
}

static void pax(const char *text) {
    record('x', text, strlen(text));
}

static void finish(void) {
    memset(archive + archive_len, 0, 2 * TAR_BLOCK_BYTES);
    archive_len += 2 * TAR_BLOCK_BYTES;
}

// The first member of the archive, which begins anew afterwards.
static int first(void) {
    struct tar t;
    err_clear(&e);
    finish();
    tar_open_input(&t, tar_input_memory(archive, archive_len));
    int r = tar_next(&t, &member, &e);
    tar_close(&t);
    archive_len = 0;
    return r;
}

static int first_of(char type, const struct field *fields) {
    header(type, fields);
    return first();
}
#define FIRST(type, ...) first_of(type, (struct field[]){__VA_ARGS__, {0, NULL}})

static char *repeated(struct arena *a, char c, size_t len) {
    char *text = arena_new(a, char, len + 1);
    memset(text, c, len);
    return text;
}

// ---- fields -------------------------------------------------------------------------------------

static void test_full_fields(struct arena *a) {
    const char *name = repeated(a, 'n', 100), *link = repeated(a, 'l', 100);
    const char *prefix = repeated(a, 'p', 155);
    ok(FIRST('0', {0, name}, {100, "0000644"}) == 1, "a name fills its field");
    is_str(member.path, name, "the name ends with its field");
    ok(FIRST('2', {157, link}) == 1, "a target fills its field");
    is_str(member.link, link, "the target ends with its field");
    ok(FIRST('0', {345, prefix}, {500, "x"}) == 1, "a prefix fills its field");
    is_str(member.path, arena_printf(a, "%s/name", prefix), "the prefix ends with its field");
    ok(FIRST('0', {100, "00000755"}, {108, "7"}) == 1, "a mode fills its field");
    is_int(member.mode, 0755, "the mode ends with its field");
    ok(FIRST('0', {124, "000000000005"}, {136, "7"}) == 1, "a size fills its field");
    is_uint(member.size, 5, "the size ends with its field");
    ok(FIRST('0', {136, "000000000017"}) == 1, "a time fills its field");
    is_int(member.mtime_s, 15, "the time ends with its field");
    ok(FIRST('0', {257, "ustar  "}, {345, "prefix"}) == 1, "GNU's old magic is read");
    is_str(member.path, "name", "GNU's old magic has no prefix");
}

static void test_numbers(void) {
    ok(FIRST('0', {124, "         12 "}) == 1 && member.size == 10, "spaces surround a number");
    ok(FIRST('0', {124, "            "}) == 1 && member.size == 0, "spaces alone are zero");
    ok(FIRST('0', {124, "00000000008"}) < 0, "a digit above 7 is refused");
    ok(FIRST('0', {124, "0000000000/"}) < 0, "a byte below 0 is refused");
    has_str(e.text, "malformed number", "the error names the number");
    ok(FIRST('0', {124, "\x80           "}) < 0 && e.code == ERR_LIMIT,
       "a huge number of base 256 is above the limit");
    ok(FIRST('0', {124, "\x81"}) < 0, "a number of base 256 has no more than the bytes behind");
    ok(FIRST('0', {100, "0107755"}) == 1 && member.mode == 07755, "a mode has permissions alone");
    ok(FIRST('0', {100, "x"}) == 1 && member.mode == 0, "a damaged mode is 0");
    ok(FIRST('0', {136, "x"}) == 1 && member.mtime_s == 0, "a damaged time is 0");
    // 9223372036 s are as many as fit into nanoseconds.
    ok(FIRST('0', {136, "104560276404"}) == 1 && member.mtime_s == INT64_MAX / 1000000000,
       "the last time of 64 bits is read");
    ok(FIRST('0', {136, "104560276405"}) == 1 && member.mtime_s == 0,
       "a time above 64 bits of nanoseconds is 0");
}

static void test_types(void) {
    static const struct {
        char type;
        enum tar_type is;
    } types[] = {{0, TAR_FILE},      {'0', TAR_FILE},   {'7', TAR_FILE},  {'1', TAR_HARD_LINK},
                 {'2', TAR_SYMLINK}, {'5', TAR_FOLDER}, {'3', TAR_OTHER}, {'S', TAR_OTHER}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ok(FIRST(types[i].type, {124, "00000000001"}, {157, "to"}) == 1 &&
               member.type == types[i].is,
           "an entry of type %d is known", types[i].type);
        is_uint(member.size, types[i].is == TAR_FILE, "a file alone has data: %d", types[i].type);
        bool link = types[i].is == TAR_SYMLINK || types[i].is == TAR_HARD_LINK;
        is_str(member.link, link ? "to" : "", "a link alone has a target: %d", types[i].type);
    }
}

// A link may state a size, and no data is behind it.
static void test_link_size(void) {
    struct tar t;
    header('2', (struct field[]){{124, "00000001000"}, {157, "to"}, {0, NULL}});
    header('0', (struct field[]){{0, "next"}, {0, NULL}});
    finish();
    tar_open_input(&t, tar_input_memory(archive, archive_len));
    ok(tar_next(&t, &member, &e) == 1 && member.type == TAR_SYMLINK, "a link has a size");
    ok(tar_next(&t, &member, &e) == 1, "an entry is behind the link");
    is_str(member.path, "next", "the entry behind the link is read");
    is_uint(member.offset, 2 * TAR_BLOCK_BYTES, "the data of an entry are behind its header");
    is_str(member.link, "", "the target of the link does not stay");
    is_int(tar_next(&t, &member, &e), 0, "the archive ends");
    tar_close(&t);
    archive_len = 0;
}

static void test_cut(void) {
    struct tar t;
    header('0', (struct field[]){{124, "00000000005"}, {0, NULL}});
    err_clear(&e);
    tar_open_input(&t, tar_input_memory(archive, archive_len));
    is_int(tar_next(&t, &member, &e), 1, "an entry has no data behind it");
    is_int(tar_next(&t, &member, &e), -1, "the archive has no second entry");
    has_str(e.text, "in the middle of an entry", "the error says where the archive ends");
    tar_close(&t);
    archive_len = 0;
}

// ---- records ------------------------------------------------------------------------------------

static void test_names(struct arena *a) {
    const char *most = repeated(a, 'n', TAR_PATH_BYTES_MAX - 1);
    const char *more = repeated(a, 'n', TAR_PATH_BYTES_MAX);
    record('L', most, strlen(most));
    record('K', most, strlen(most) - 1);
    header('2', NULL);
    is_int(first(), 1, "the longest name is read");
    is_str(member.path, most, "the longest name is whole");
    is_uint(strlen(member.link), TAR_PATH_BYTES_MAX - 2, "the target has the size of its record");
    record('L', more, strlen(more));
    header('0', NULL);
    ok(first() < 0 && e.code == ERR_LIMIT, "a name of one byte more is refused");
    has_str(e.text, "a name of 4096 bytes (at most 4095)", "the error has the limit");
    record('K', more, strlen(more));
    header('0', NULL);
    ok(first() < 0 && e.code == ERR_LIMIT, "a target of one byte more is refused");
    pax(arena_printf(a, "4106 path=%s\n", most));
    header('0', NULL);
    is_int(first(), 1, "the longest name of a pax record is read");
    is_str(member.path, most, "the longest name of a pax record is whole");
    pax(arena_printf(a, "4107 path=%s\n", more));
    header('0', NULL);
    ok(first() < 0 && e.code == ERR_LIMIT, "a name of a pax record of one byte more is refused");
    record('x', "10 path=a\0\n", 11);
    header('0', NULL);
    ok(first() < 0, "a pax record has its length");
    record('x', "11 path=a\0\n", 11);
    header('0', NULL);
    ok(first() < 0 && e.code == ERR_FORMAT, "a NUL in a name is refused");
    pax("14 path=first\n18 linkpath=there\n");
    header('2', (struct field[]){{157, "here"}, {0, NULL}});
    ok(first() == 1 && strcmp(member.path, "first") == 0 && strcmp(member.link, "there") == 0,
       "two lines of a pax record count");
}

static void test_other_keys(void) {
    pax("8 pat=a\n11 pathx=a\n14 linkpaty=b\n13 linkpat=c\n8 siz=9\n11 sizes=9\n");
    header('2', (struct field[]){{157, "here"}, {0, NULL}});
    ok(first() == 1 && strcmp(member.path, "name") == 0 && strcmp(member.link, "here") == 0,
       "other keys of a pax record do not count");
    pax("9 puth=a\n14 linkputh=b\n9 sixe=7\n");
    header('0', NULL);
    ok(first() == 1 && strcmp(member.path, "name") == 0 && member.size == 0,
       "keys of the same length do not count");
}

// A record counts for the entry after it, and for no other one.
static void test_scope(void) {
    struct tar t;
    pax("14 path=first\n");
    record('L', "other", 5);
    header('0', NULL);
    header('0', (struct field[]){{0, "second"}, {0, NULL}});
    record('g', "14 path=fault\n", 14);
    header('0', (struct field[]){{0, "third"}, {0, NULL}});
    finish();
    tar_open_input(&t, tar_input_memory(archive, archive_len));
    ok(tar_next(&t, &member, &e) == 1 && strcmp(member.path, "other") == 0,
       "the last record before an entry counts");
    ok(tar_next(&t, &member, &e) == 1 && strcmp(member.path, "second") == 0,
       "a record does not count for the second entry");
    ok(tar_next(&t, &member, &e) == 1 && strcmp(member.path, "third") == 0,
       "the path of a global record does not count");
    tar_close(&t);
    archive_len = 0;
}

static void test_record_size(struct arena *a) {
    char *most = repeated(a, 'c', TAR_EXTRA_BYTES_MAX + 1);
    memcpy(most, "1048576 comment=", 16);
    most[TAR_EXTRA_BYTES_MAX - 1] = '\n';
    record('x', most, TAR_EXTRA_BYTES_MAX);
    header('0', NULL);
    is_int(first(), 1, "the largest record is read: %s", e.text);
    record('x', most, TAR_EXTRA_BYTES_MAX + 1);
    header('0', NULL);
    ok(first() < 0 && e.code == ERR_LIMIT, "a record of one byte more is refused");
    has_str(e.text, "1048577 bytes", "the error has the bytes of the record");
}

static void test_pax_sizes(void) {
    pax("11 size=5\n");
    header('0', NULL);
    ok(first() < 0, "a pax line of a byte less than it says is refused");
    pax("9 size=5\n");
    record('L', "long", 4);
    header('0', NULL);
    ok(first() == 1 && member.size == 5, "the size of a pax record is not that of a record");
    pax("23 size=70368744177664\n");
    header('0', NULL);
    ok(first() == 1 && member.size == TAR_BYTES_MAX, "the largest size is read: %s", e.text);
    pax("23 size=70368744177665\n");
    header('0', NULL);
    ok(first() < 0 && e.code == ERR_LIMIT, "a size of one byte more is above the limit");
    pax("26 size=70368744177665000\n");
    header('0', NULL);
    ok(first() < 0 && e.code == ERR_FORMAT, "digits behind a size above the limit are refused");
    pax("9 size=:\n");
    header('0', NULL);
    ok(first() < 0, "a byte above 9 is no digit");
    pax("9 size=/\n");
    header('0', NULL);
    ok(first() < 0, "a byte below 0 is no digit");
    pax("8 size=\n");
    header('0', (struct field[]){{124, "00000000007"}, {0, NULL}});
    ok(first() == 1 && member.size == 0, "an empty size is 0");
}

// ---- the limit of an archive --------------------------------------------------------------------

// Headers come from the archive; data are never read.
struct endless {
    struct tar_input in;
    size_t at;
};

static int read_endless(struct tar_input *in, void *buf, uint64_t len, struct err *err) {
    struct endless *x = (struct endless *)in;
    (void)err;
    if (!buf)
        return 1;
    memcpy(buf, archive + x->at, (size_t)len);
    x->at += (size_t)len;
    return 1;
}

static int second_after(uint64_t size) {
    struct endless in = {.in.read = read_endless};
    struct tar t;
    unsigned char base256[13] = {0x80};
    for (int i = 0; i < 8; i++)
        base256[11 - i] = (unsigned char)(size >> (8 * i));
    header('0', NULL);
    unsigned char *b = archive;
    unsigned sum = 0;
    char digits[9];
    memcpy(b + 124, base256, 12);
    memset(b + 148, ' ', 8);
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += b[i];
    snprintf(digits, sizeof digits, "%08o", sum);
    memcpy(b + 148, digits, 8);
    header('0', NULL);
    finish();
    archive_len = 0;
    tar_open_input(&t, &in.in);
    if (tar_next(&t, &member, &e) != 1 || member.size != size)
        bail_out("the first entry");
    int r = tar_next(&t, &member, &e);
    tar_close(&t);
    return r;
}

static void test_archive_size(void) {
    is_int(second_after(TAR_BYTES_MAX - 2 * TAR_BLOCK_BYTES), 1, "the largest archive is read");
    is_int(second_after(TAR_BYTES_MAX - TAR_BLOCK_BYTES), -1,
           "an archive of one block more is refused");
    is_int(e.code, ERR_LIMIT, "a large archive is an error of limits");
}

// ---- files --------------------------------------------------------------------------------------

static int open_file(struct arena *a, const char *path, const char *bytes, size_t len) {
    struct tar t;
    err_clear(&e);
    if (file_write_atomic(path, bytes, len, 0600, &e) < 0)
        bail_out("%s", e.text);
    (void)a;
    int r = tar_open(&t, path, &e);
    if (r == 0)
        r = t.seekable;
    tar_close(&t);
    tar_close(&t);
    return r;
}

static void test_open(struct arena *a) {
    char folder[] = "/tmp/test_tar_fields.XXXXXX";
    struct tar t;
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    const char *path = file_join(a, folder, "archive");
    is_int(tar_open(&t, path, &e), -1, "an absent archive is refused");
    is_int(e.code, ERR_NOT_FOUND, "an absent archive is not found");
    tar_close(&t);
    is_int(tar_open(&t, file_join(a, folder, "archive/x/y"), &e), -1, "no folder, no archive");
    ok(open_file(a, path, "\x1f\x8b", 2) < 0, "two bytes of gzip are refused");
    has_str(e.text, "gunzip", "the error says how to go on");
    is_int(open_file(a, path, "\x1f", 1), 1, "one byte of gzip may be anything");
    is_int(open_file(a, path, "\x1fx", 2), 1, "the first byte of gzip alone is not gzip");
    is_int(open_file(a, path, "x\x8b", 2), 1, "the second byte of gzip alone is not gzip");
    is_int(open_file(a, path, "\x28\xb5\x2f\xfd", 4), 0, "four bytes of zstd are a stream");
    is_int(open_file(a, path, "\x28\xb5\x2f", 3), 1, "three bytes of zstd may be anything");
    is_int(open_file(a, path, "\x28\xb5\x2f\xfc", 4), 1, "other bytes are a plain archive");
    is_int(open_file(a, path, "", 0), 1, "an empty file is a plain archive");
    (void)file_remove_tree(folder, &e);
}

int main(void) {
    struct arena a = {0};
    test_full_fields(&a);
    test_numbers();
    test_types();
    test_link_size();
    test_cut();
    test_names(&a);
    test_other_keys();
    test_scope();
    test_record_size(&a);
    test_pax_sizes();
    test_archive_size();
    test_open(&a);
    arena_fini(&a);
    return done_testing();
}
