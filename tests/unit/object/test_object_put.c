// SPDX-License-Identifier: Apache-2.0
// Files to a bucket: whole ones and files in parts, what is there already or copied by the server,
// and what a failure of one file means for the others. The bucket is a stand-in.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "object/object_put.h"

#include "sys/file.h"
#include "tests/unit/object/bucket_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/md5.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 8, SMALL = 10, LARGE = 2 * OBJECT_PART_BYTES + 1 };

static struct err e;
static struct arena arena;
static char dir[] = "/tmp/test_object_put.XXXXXX";
static struct s3 s3;
static struct manifest_entry entries[FILES_MAX];
static struct manifest files = {.entries = entries};
static struct object_put put;
static uint64_t last_done, last_total, before_last; // of the last reports
static int progress_result, reports;
static enum { READS, READS_PIECES, READS_NOTHING, READS_BADLY } disk;

static int on_progress(void *ctx, uint64_t done, uint64_t total, struct err *why) {
    (void)ctx;
    reports++;
    before_last = last_done;
    last_done = done;
    last_total = total;
    return progress_result ? err_set(why, ERR_INTERRUPTED, "that is enough") : 0;
}

ssize_t pread(int fd, void *buf, size_t nbytes, off_t offset) {
    static bool interrupted;
    char piece[999];
    if (disk == READS)
        return syscall(SYS_pread64, fd, buf, nbytes, offset);
    interrupted = disk == READS_PIECES && !interrupted;
    if (disk == READS_NOTHING)
        return 0;
    if (disk == READS_BADLY || interrupted) {
        errno = interrupted ? EINTR : EIO;
        return -1;
    }
    ssize_t n =
        syscall(SYS_pread64, fd, piece, nbytes < sizeof piece ? nbytes : sizeof piece, offset);
    if (n > 0)
        memcpy(buf, piece, (size_t)n);
    return n;
}

static void add(const char *path, uint64_t size) {
    char *source = arena_printf(&arena, "%s/%zu", dir, files.count);
    struct stat st;
    int fd = open(source, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || pwrite(fd, path, strlen(path) < size ? strlen(path) : size, 0) < 0 ||
        ftruncate(fd, (off_t)size) < 0 || fstat(fd, &st) < 0)
        bail_out("no file");
    close(fd);
    entries[files.count++] = (struct manifest_entry){
        .path = path,
        .source = source,
        .size = size,
        .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
        .kind = MANIFEST_FILE};
    files.bytes += size;
}

static void begin(const char *prefix) {
    memset(&fake, 0, sizeof fake);
    fake.log = fake.body = "";
    files.count = 0;
    files.bytes = 0;
    progress_result = reports = 0;
    last_done = before_last = 0;
    disk = READS;
    put = (struct object_put){.s3 = &s3,
                              .bucket = "bucket",
                              .prefix = prefix,
                              .files = &files,
                              .on_progress = on_progress};
    err_clear(&e);
}

static void again(void) {
    fake.log = "";
    put.count = put.there = put.links = put.copied = put.changed = put.stay = 0;
    put.sent = 0;
    err_clear(&e);
}

static int run(void) {
    int rc = object_put_all(&put, &e);
    fake.calls = 0; // those that the end of an upload gives up
    return rc;
}

// ---- files --------------------------------------------------------------------------------------

static void test_sizes(void) {
    static const struct {
        uint64_t size, want;
    } cases[] = {{0, 8 << 20},
                 {1, 8 << 20},
                 {(uint64_t)10000 * (8 << 20), 8 << 20},
                 {(uint64_t)10000 * (8 << 20) + 1, 9 << 20},
                 {OBJECT_PUT_BYTES_MAX, UINT64_C(550502400)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = object_put_part_bytes(cases[i].size);
        is_uint(bytes, cases[i].want, "the parts of a file of %llu bytes",
                (unsigned long long)cases[i].size);
        ok(bytes * OBJECT_PARTS_MAX >= cases[i].size, "the parts are not too many");
    }
}

static void test_files(void) {
    begin("a/b");
    add("empty", 0);
    add("large", LARGE);
    add("part", OBJECT_PART_BYTES);
    add("small", SMALL);
    entries[files.count++] = (struct manifest_entry){.path = "way", .kind = MANIFEST_LINK};
    fake_put("a/b/large", "x", LARGE); // of another object
    is_int(run(), 0, "files are sent");
    is_str(fake.log,
           "LIST a/b/ 0; PUT a/b/empty 0; POST a/b/large?uploads= 0; "
           "PUT a/b/large?partNumber=1?uploadId=id1 8388608; "
           "PUT a/b/large?partNumber=2?uploadId=id1 8388608; "
           "PUT a/b/large?partNumber=3?uploadId=id1 1; POST a/b/large?uploadId=id1 339; "
           "PUT a/b/part 8388608; PUT a/b/small 10; LIST a/b/ 0; ",
           "a large file goes in parts, after the others are there");
    ok(strncmp(fake.body, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;",
               69) == 0 &&
           strstr(fake.body, "&quot;</ETag></Part></CompleteMultipartUpload>"),
       "the parts are listed with their ETags");
    is_uint(put.count, 4, "four files are in the bucket");
    is_uint(put.links, 1, "a link is not");
    is_uint(put.there, 0, "none was there");
    is_uint(put.sent, LARGE + OBJECT_PART_BYTES + SMALL, "the bytes are counted");
    ok(last_done == files.bytes && last_total == files.bytes, "the end is reported");
    fake_put("a/b/large", "00000000000000000000000000000000-3", LARGE);
    entries[3].size = SMALL;
    again();
    is_int(run(), 0, "the same files are sent again");
    ok(put.there == 3 && put.count == 4 && put.sent == LARGE, "only a file of other bytes goes");
}

static const char *md5_of(const struct manifest_entry *file, size_t from, size_t len) {
    unsigned char digest[MD5_DIGEST_LENGTH];
    char *text, hex[2 * MD5_DIGEST_LENGTH + 1];
    size_t size;
    if (file_read(&arena, file->source, LARGE, &text, &size, &e) < 0)
        bail_out("%s", e.text);
    MD5((unsigned char *)text + from, len, digest);
    str_hex(hex, digest, sizeof digest);
    return arena_strdup(&arena, hex);
}

// The disk gives a part of what is asked for, and is interrupted; a file is as long as two parts.
static void test_reads(void) {
    enum { TWO = 2 * OBJECT_PART_BYTES, SOME = 4996 };
    begin("");
    add("a", TWO);
    add("b", SOME);
    int fd = open(entries[1].source, O_WRONLY);
    for (int i = 0; i < SOME; i++)
        if (pwrite(fd, &i, 1, i) != 1)
            bail_out("the file cannot be written");
    struct stat st;
    fstat(fd, &st);
    close(fd);
    entries[1].mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    disk = READS_PIECES;
    is_int(run(), 0, "files are read in pieces");
    is_str(fake_find("b")->etag, md5_of(&entries[1], 0, SOME), "the bytes are those of the file");
    has_str(fake.body, md5_of(&entries[0], OBJECT_PART_BYTES, OBJECT_PART_BYTES),
            "the second part has its bytes");
    ok(!strstr(fake.log, "partNumber=3"), "there is no third part");
    static const char *const why[] = {
        [READS_NOTHING] = "has become shorter", [READS_BADLY] = "cannot read '"};
    for (int bad = READS_NOTHING; bad <= READS_BADLY; bad++) {
        begin("");
        add("b", SOME);
        disk = bad;
        is_int(run(), -1, "a file cannot be read");
        ok(strstr(e.text, why[bad]) && e.code == (bad == READS_NOTHING ? ERR_HASH : ERR_SYS),
           "the error says why: %s", why[bad]);
    }
    for (uint64_t more = 0; more < 2; more++) {
        begin("");
        add("b", SOME);
        entries[0].size = OBJECT_PUT_BYTES_MAX + more;
        is_int(run(), -1, "a file of 5 TiB is not here");
        has_str(e.text, more ? "larger than 5 TiB" : "has changed", "no larger one is begun");
    }
}

static void test_progress(void) {
    for (int step_ms = 99; step_ms <= 100; step_ms++) {
        begin("");
        add("a", SMALL);
        add("b", 2 * SMALL);
        add("c", 3 * SMALL);
        fake_put("b", md5_of(&entries[1], 0, 2 * SMALL), 2 * SMALL);
        clock_stop();
        clock_ahead_ms += 1000;
        fake.step_ms = step_ms;
        is_int(run(), 0, "files are sent while the clock runs");
        is_uint(put.there, 1, "one of them is there");
        // The first step always has a report.
        is_int(reports, step_ms == 100 ? 3 : 2, "the progress is reported every 100 ms");
        is_uint(before_last, step_ms == 100 ? 6 * SMALL : 3 * SMALL,
                "the progress has all files so far");
    }
    clock_stands.tv_sec = 0;
}

static void test_many(void) {
    static const char *const names[FILES_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    begin("");
    for (int i = 0; i < FILES_MAX; i++)
        add(names[i], SMALL);
    is_int(run(), 0, "many files are sent");
    is_int(fake.most, OBJECT_PUTS_MAX, "four requests go at a time");
    is_uint(put.count, FILES_MAX, "all are there");
    ok(fake_find("a") && fake_find("h"), "without a prefix keys are the paths");
}

static void test_since(void) {
    begin("");
    add("same", SMALL);
    static const struct {
        int64_t after_ms;
        uint64_t size;
        bool there;
    } cases[] = {{2001, SMALL, true}, {2000, SMALL, false}, {2001, SMALL + 1, false}};
    struct stat st;
    stat(entries[0].source, &st);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        again();
        fake_put("same", "fedcba9876543210fedcba9876543210", cases[i].size);
        put.since_ms = (int64_t)st.st_ctim.tv_sec * 1000 + cases[i].after_ms;
        is_int(run(), 0, "a file that may have changed is looked at");
        is_uint(put.there, cases[i].there, "one that was not touched is as it was (%zu)", i);
    }
}

// ---- copies and mirrors -------------------------------------------------------------------------

static void test_copies(void) {
    begin("m");
    add("n/f", SMALL);
    add("o/f", 0);
    add("o/g", 0);
    is_int(run(), 0, "files of two folders are sent");
    const struct s3_object sent = *fake_find("m/n/f");
    for (int i = 0; i < 3; i++) {
        fake.count = 0;
        fake_put("m/live/x/n/f", sent.etag, SMALL);
        fake_put("m/live/x/o/f", md5_of(&entries[1], 0, 0), 0);
        put.copies = "live/";
        fake.copies = i == 0;
        fake.fails = i == 2 ? "PUT m/n/f" : NULL;
        fake.code = ERR_AUTH;
        again();
        is_int(run(), i == 2 ? -1 : 0, "an object may be copied (%d)", i);
        ok(put.copied == (i == 0 ? 2 : 0) && put.sent == (i == 0 ? 0 : SMALL),
           "a file that the server does not copy is sent (%d)", i);
    }
    has_str(e.text, "'s3://bucket/m/n/f': the server refuses", "the error names the object");
    has_str(fake.log, "LIST m/n/ 0; LIST m/o/ 0; LIST m/live/ 0; ",
            "only the folders of files are listed");
    unlink(entries[0].source);
    fake.fails = NULL;
    again();
    is_int(run(), -1, "a file is gone");
    has_str(e.text, "'s3://bucket/m/n/f': cannot open", "the error names object and file");
}

static void test_mirror(void) {
    begin("m");
    add("x/f", SMALL);
    put.mirrors = "x/";
    fake_put("m/x/old", "x", 1);
    fake_put("m/y/old", "x", 1);
    is_int(run(), 0, "a folder is mirrored");
    ok(fake_find("m/x/f") && !fake_find("m/x/old") && fake_find("m/y/old"),
       "objects that are no files go, in the folder alone");
    fake_put("m/x/old", "x", 1);
    fake.fails = "DELETE";
    fake.code = ERR_AUTH;
    again();
    is_int(run(), 0, "an object that may not be removed is no failure");
    is_uint(put.stay, 1, "the object is counted");
}

// ---- failures -----------------------------------------------------------------------------------

static void test_failures(void) {
    static const struct {
        const char *fails, *spoils, *hides;
        enum err_code code;
        bool tolerant, kms;
        enum err_code want; // ERR_NONE: it succeeds
        bool rest;          // the other file is sent all the same
    } cases[] = {
        {.fails = "PUT a ", .code = ERR_AUTH, .want = ERR_NONE, .rest = true}, // another name
        {.fails = "PUT a", .code = ERR_AUTH, .want = ERR_AUTH},
        {.fails = "PUT a", .code = ERR_AUTH, .tolerant = true, .want = ERR_AUTH, .rest = true},
        {.fails = "PUT a", .code = ERR_LIMIT, .tolerant = true, .want = ERR_LIMIT, .rest = true},
        {.fails = "PUT a", .code = ERR_NET, .tolerant = true, .want = ERR_NET},
        {.spoils = "PUT a", .want = ERR_HASH},
        {.spoils = "PUT a", .kms = true, .want = ERR_NONE, .rest = true},
        {.spoils = "PUT a", .tolerant = true, .want = ERR_NONE, .rest = true},
        {.hides = "PUT z", .want = ERR_HASH},
        {.fails = "partNumber=2", .code = ERR_NET, .want = ERR_NET},
        {.fails = "?uploads=", .code = ERR_AUTH, .want = ERR_AUTH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool in_parts = cases[i].fails && strchr("p?", cases[i].fails[0]);
        begin("");
        add("a", in_parts ? LARGE : SMALL);
        add("z", SMALL);
        put.tolerant = cases[i].tolerant;
        fake.fails = cases[i].fails;
        fake.spoils = cases[i].spoils;
        fake.hides = cases[i].hides;
        fake.code = cases[i].code;
        fake.has_kms = cases[i].kms;
        is_int(run(), cases[i].want ? -1 : 0, "failure %zu: the result", i);
        is_int(e.code, cases[i].want, "failure %zu: its kind", i);
        if (cases[i].rest)
            ok(fake_find("z") != NULL, "failure %zu: the other file is sent", i);
        if (cases[i].want)
            has_str(e.text, cases[i].hides ? "'s3://bucket/z'" : "'s3://bucket/a'",
                    "failure %zu: the error names the object", i);
        ok((strstr(fake.log, "DELETE a?uploadId=id1") != NULL) ==
               (cases[i].fails && cases[i].fails[0] == 'p'),
           "failure %zu: parts are taken back", i);
    }
}

static void test_changes(void) {
    for (int tolerant = 0; tolerant < 2; tolerant++) {
        begin("");
        add("a", SMALL);
        add("b", SMALL);
        add("z", SMALL);
        entries[0].mtime_ns++;
        unlink(entries[1].source);
        put.tolerant = tolerant;
        is_int(run(), tolerant ? 0 : -1, "files change meanwhile");
        is_uint(put.changed, tolerant ? 2 : 0, "both are counted, if that is no failure");
        is_uint(put.count, tolerant ? 1 : 0, "the other one is sent");
        if (!tolerant)
            has_str(e.text, "has changed while it was sent", "the error says so");
    }
    begin("");
    add("a", LARGE);
    add("z", SMALL);
    put.tolerant = true;
    fake.fails = "partNumber=1";
    fake.code = ERR_AUTH;
    is_int(run(), -1, "a part is refused");
    ok(fake_find("z") && strstr(fake.log, "DELETE a?uploadId=id1"),
       "the upload is taken back before the other file is sent");
    begin("");
    add("a", (uint64_t)5 * OBJECT_PART_BYTES);
    add("z", SMALL);
    put.tolerant = true;
    fake.fails = "partNumber=2";
    fake.code = ERR_AUTH;
    is_int(run(), -1, "a part is refused while others are under way");
    ok(fake_find("z") && strstr(fake.log, "partNumber=1") && !strstr(fake.log, "partNumber=3") &&
           !strstr(fake.log, "partNumber=5"),
       "the parts under way are given up");
    begin("");
    add("a", LARGE);
    fake.no_etag = true;
    is_int(run(), -1, "an answer without an ETag is a failure");
    ok(strstr(e.text, "has no ETag") && strstr(fake.log, "DELETE a?uploadId=id1"),
       "the parts are taken back");
    begin("");
    add("a", SMALL);
    fake_put("a", "x", SMALL + 1);
    fake.hides = "PUT a";
    is_int(run(), -1, "an object of another size is a failure");
    has_str(e.text, "is of another size in the bucket", "the error says so");
    begin("");
    add("a", SMALL);
    progress_result = -1;
    is_int(run(), -1, "the caller ends it");
    is_int(e.code, ERR_INTERRUPTED, "the error is the caller's");
    char name[URI_KEY_BYTES_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    for (int more = 0; more < 2; more++) {
        name[URI_KEY_BYTES_MAX + more] = '\0';
        begin("");
        add(name, SMALL);
        is_int(run(), more ? -1 : 0, "a key has %d bytes", URI_KEY_BYTES_MAX + more);
        name[URI_KEY_BYTES_MAX] = 'n';
    }
}

static void test_check(void) {
    begin("p");
    is_int(object_put_check(&put, &e), 0, "the permissions are there");
    is_str(fake.log,
           "LIST p/ 1; POST p/.dtctl-check?uploads= 0; DELETE p/.dtctl-check?uploadId=id1 0; ",
           "an upload begins and is taken back");
    static const char *const refused[] = {"POST", "DELETE"};
    for (size_t i = 0; i < 2; i++) {
        fake.fails = refused[i];
        fake.code = ERR_AUTH;
        is_int(object_put_check(&put, &e), -1, "%s is refused", refused[i]);
        is_int(e.code, ERR_AUTH, "the error is the server's");
    }
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    test_sizes();
    test_files();
    test_reads();
    test_progress();
    test_many();
    test_since();
    test_copies();
    test_mirror();
    test_failures();
    test_changes();
    test_check();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    arena_fini(&fake_arena);
    arena_fini(&arena);
    return done_testing();
}
