// SPDX-License-Identifier: Apache-2.0
// One pass over a foreign archive: names, limits, and how members are written.
#include "content/archive_pass.h"
#include "tests/unit/content/archive_made.h"
#include "tests/unit/shell.h"

#include <unistd.h>

static char folder[] = "/tmp/test_archive_pass.XXXXXX";
static struct arena arena;
static struct err e;

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

// ---- names --------------------------------------------------------------------------------------

static void test_plain(void) {
    static const struct {
        const char *written, *plain;
    } cases[] = {
        {"bin", "bin"},
        {"bin/", "bin"},
        {"bin///", "bin"},
        {"./bin/", "bin"},
        {".//bin", "bin"},
        {"././a/b", "a/b"},
        {".", ""},
        {"./", ""},
        {"./.", ""},
        {"/", "/"},
        {"//", "/"},
        {"", ""},
        {".hidden", ".hidden"},
        {"..", ".."},
        {"../a", "../a"},
        {"a/./b", "a/./b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(archive_pass_plain(arena_strdup(&arena, cases[i].written)), cases[i].plain,
               "'%s' is plain", cases[i].written);
}

// Opens a pass over the archive that was made.
static void open_pass(struct archive_pass *p) {
    *p = (struct archive_pass){0};
    e = (struct err){0};
    tar_open_input(&p->tar, tar_input_memory(archive.data, archive.len));
}

static int next_of(char type, const char *name) {
    struct archive_pass p;
    begin();
    member(type, name, "", "0000644", "");
    end();
    open_pass(&p);
    int rc = archive_pass_next(&p, &e);
    tar_close(&p.tar);
    return rc;
}

static const char *nested(int folders) {
    struct strbuf name = {0};
    for (int i = 0; i < folders; i++)
        strbuf_adds(&name, "d/");
    strbuf_addc(&name, 'f');
    const char *text = arena_strdup(&arena, strbuf_cstr(&name));
    strbuf_fini(&name);
    return text;
}

// A member whose name is in a record before it.
static int next_of_long(const char *name) {
    struct archive_pass p;
    begin();
    member('L', "././@LongLink", "", "0000644", name);
    file("short", "");
    end();
    open_pass(&p);
    int rc = archive_pass_next(&p, &e);
    tar_close(&p.tar);
    return rc;
}

static void test_names(void) {
    static const char *const bad[] = {"../x", "/x", "a/../x", "a//b", ".."};
    is_int(next_of('0', "a/b"), 1, "a file is a member");
    is_int(next_of('5', "./"), 1, "the archive itself is a folder");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        is_int(next_of('0', bad[i]), -1, "'%s' is refused", bad[i]);
        is_str(e.text,
               arena_printf(&arena, "member '%s' has a name that leads out of its folder", bad[i]),
               "the error has the member");
        is_int(e.code, ERR_FORMAT, "the archive is at fault");
    }
    is_int(next_of('0', "./"), -1, "a file without a name is refused");
    static const char devices[] = {'3', '4', '6'};
    for (size_t i = 0; i < sizeof devices; i++) {
        is_int(next_of(devices[i], "x"), -1, "a member of type %c is refused", devices[i]);
        has_str(e.text, "member 'x' is neither a file, a folder nor a link",
                "the error has the kinds");
    }
    is_int(next_of_long(nested(ARCHIVE_DEPTH_MAX)), 1, "a file may lie deep: %s", e.text);
    is_int(next_of_long(nested(ARCHIVE_DEPTH_MAX + 1)), -1, "deeper is refused");
    is_int(e.code, ERR_LIMIT, "the depth has a limit");
    has_str(e.text, "lies in more than 128 folders", "the error has the limit");
}

static int stop_now(void *ctx, uint64_t bytes, struct err *why) {
    const uint64_t *limit = ctx;
    return bytes < *limit ? 0 : err_set(why, ERR_INTERRUPTED, "stopped by the test");
}

static void test_stop(void) {
    struct archive_pass p;
    uint64_t limit = 0;
    begin();
    file("a", "text");
    end();
    open_pass(&p);
    p.ticks = (struct content_ticks){stop_now, &limit};
    is_int(archive_pass_next(&p, &e), -1, "the caller may stop between members");
    is_int(e.code, ERR_INTERRUPTED, "the error is the caller's");
    tar_close(&p.tar);
    open_pass(&p);
    is_int(archive_pass_next(&p, &e), 1, "without a caller there is a member");
    is_str(p.name, "a", "the member has its name");
    is_int(archive_pass_next(&p, &e), 0, "the archive has an end");
    tar_close(&p.tar);
}

// ---- totals -------------------------------------------------------------------------------------

static int count(struct archive_pass *p, enum tar_type type, uint64_t size) {
    e = (struct err){0};
    p->entry.type = type;
    p->entry.size = size;
    return archive_pass_count(p, &e);
}

static void test_count(void) {
    struct archive_pass p = {0};
    is_int(count(&p, TAR_FILE, 0), 0, "an empty file is counted");
    is_uint(p.total.disk_bytes, 0, "an empty file takes no block of a disk");
    is_int(count(&p, TAR_FILE, 1), 0, "a byte is counted");
    is_uint(p.total.disk_bytes, 4096, "a byte takes a block");
    is_int(count(&p, TAR_FILE, 4096), 0, "a block is counted");
    is_uint(p.total.disk_bytes, 8192, "a whole block is one");
    is_int(count(&p, TAR_FILE, 4097), 0, "more than a block is counted");
    is_uint(p.total.disk_bytes, 16384, "a byte more takes one more");
    is_int(count(&p, TAR_FOLDER, 0), 0, "a folder is counted");
    is_int(count(&p, TAR_SYMLINK, 0), 0, "a link is counted");
    is_uint(p.total.disk_bytes, 20480, "a folder takes a block, and a link none");
    is_uint(p.total.entries, 6, "each member counts");
    is_uint(p.total.bytes, 8194, "files have their bytes");

    p.total = (struct archive_total){.entries = ARCHIVE_ENTRIES_MAX - 1};
    is_int(count(&p, TAR_FILE, 1), 0, "the last member that is allowed is counted");
    is_int(count(&p, TAR_FILE, 1), -1, "one more is refused");
    is_int(e.code, ERR_LIMIT, "members have a limit");
    is_str(e.text, "it has more than 4000000 members", "the error has the limit of members");
    p.total = (struct archive_total){.bytes = ARCHIVE_BYTES_MAX - 10};
    is_int(count(&p, TAR_FILE, 11), -1, "a byte too many is refused");
    is_str(e.text, "its files have more than 1099511627776 bytes",
           "the error has the limit of bytes");
    is_int(count(&p, TAR_FILE, UINT64_MAX), -1, "a size that overflows is refused");
    is_int(count(&p, TAR_FILE, 10), 0, "the last byte that is allowed is counted");
}

// ---- writing ------------------------------------------------------------------------------------

// Writes every member that is checked, without the first bytes of its name, below a folder.
static int write_all(size_t drop, const char *below) {
    struct archive_pass p;
    struct place to;
    int rc;
    if (!holds("rm -rf out && mkdir out"))
        bail_out("no folder");
    open_pass(&p);
    if (tree_open(&to, file_join(&arena, folder, "out"), false, &e) < 0)
        bail_out("%s", e.text);
    while ((rc = archive_pass_next(&p, &e)) > 0)
        if ((rc = archive_pass_write(&p, &to, drop, below, &e)) < 0)
            break;
    tree_close(&to);
    tar_close(&p.tar);
    return rc;
}

static void test_write(void) {
    begin();
    member('5', "top/", "", "0000700", "");
    member('5', "top/empty/", "", "0000755", "");
    member('0', "top/a/tool", "", "0004755", "one");
    member('0', "top/sealed", "", "0000000", "two");
    member('1', "top/hard", "top/a/tool", "0000644", "");
    symlink_to("top/soft", "a/tool");
    file("top/twice", "an earlier file");
    file("top/twice", "a later file");
    end();
    is_int(write_all(4, "in/"), 0, "members are written: %s", e.text);
    ok(holds("[ \"$(cd out && find . | sort | xargs)\" = "
             "'. ./in ./in/a ./in/a/tool ./in/empty ./in/hard ./in/sealed ./in/soft ./in/twice' ]"),
       "members lie below the folder, without what is dropped of their names");
    ok(holds("[ \"$(cat out/in/a/tool out/in/sealed out/in/twice)\" = 'onetwoa later file' ]"),
       "files have their content, and a later file takes the place of an earlier one");
    ok(holds("[ \"$(stat -c %a out/in/a/tool out/in/sealed | xargs)\" = '755 600' ]"),
       "setuid does not count, and the owner may read and write");
    ok(holds("[ \"$(stat -c %Y out/in/a/tool)\" = 1610612736 ]"), "files have their time");
    ok(holds("[ out/in/hard -ef out/in/a/tool ] && [ \"$(readlink out/in/soft)\" = a/tool ]"),
       "links lead to where they led in the archive");
    is_int(write_all(0, ""), 0, "nothing has to be dropped: %s", e.text);
    ok(holds(
           "[ -f out/top/a/tool ] && [ -d out/top/empty ] && [ out/top/hard -ef out/top/a/tool ]"),
       "members lie where the archive has them");
}

static void test_refused(void) {
    begin();
    file("top/a", "one");
    member('1', "top/b", "tip/a", "0000644", "");
    end();
    is_int(write_all(4, ""), -1, "a link out of what is kept is refused");
    has_str(e.text, "'b' is a link to ''", "the error has the link");
    begin();
    member('1', "b", "a", "0000644", "");
    file("a", "one");
    end();
    is_int(write_all(0, ""), -1, "a link to a later file is refused");
    is_int(e.code, ERR_NOT_FOUND, "the error is a file that is not there");

    struct archive_pass p = {.name = "x", .entry = {.path = "x", .type = TAR_OTHER}};
    struct place to;
    if (tree_open(&to, file_join(&arena, folder, "out"), false, &e) < 0)
        bail_out("%s", e.text);
    is_int(archive_pass_write(&p, &to, 0, "", &e), -1, "a device is not written");
    is_str(e.text, "member 'x' is of no known kind", "the error has the member");
    tree_close(&to);
}

static void test_large(void) {
    enum { LARGE = (1 << 20) + (1 << 19) };
    struct archive_pass p;
    struct place to;
    char *data = arena_alloc(&arena, 1, 1, LARGE + 1);
    for (int i = 0; i < LARGE; i++)
        data[i] = (char)('a' + i % 7);
    data[LARGE] = '\0';
    begin();
    file("large", data);
    end();
    is_int(write_all(0, ""), 0, "a file of several pieces is written: %s", e.text);
    char *text = NULL;
    size_t len = 0;
    is_int(file_read(&arena, file_join(&arena, folder, "out/large"), 2 * LARGE, &text, &len, &e), 0,
           "the file is read: %s", e.text);
    ok(len == LARGE && memcmp(text, data, LARGE) == 0, "all pieces are in their order");
    uint64_t limit = 1 << 20;
    open_pass(&p);
    p.ticks = (struct content_ticks){stop_now, &limit};
    if (tree_open(&to, file_join(&arena, folder, "out"), false, &e) < 0 ||
        archive_pass_next(&p, &e) != 1)
        bail_out("%s", e.text);
    is_int(archive_pass_write(&p, &to, 0, "", &e), -1, "the caller may stop between pieces");
    is_int(e.code, ERR_INTERRUPTED, "the error of a piece is the caller's");
    tree_close(&to);
    tar_close(&p.tar);
    ok(holds("[ -z \"$(ls -A out)\" ]"), "nothing is left of an unfinished file");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_plain();
    test_names();
    test_stop();
    test_count();
    test_write();
    test_refused();
    test_large();
    file_remove_tree(folder, &e);
    strbuf_fini(&archive);
    arena_fini(&arena);
    return done_testing();
}
