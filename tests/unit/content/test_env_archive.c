// SPDX-License-Identifier: Apache-2.0
// The archive of an environment: what is accepted, what is refused, and that nothing of a refused
// or unfinished one is left.
#include "base/str.h"
#include "content/env_archive.h"
#include "sys/file.h"
#include "tests/unit/content/archive_made.h"
#include "tests/unit/shell.h"

#include <unistd.h>

static char folder[] = "/tmp/test_env_archive.XXXXXX";
static struct arena arena;
static struct err e;

// ---- archives -----------------------------------------------------------------------------------

static int check(struct env_archive *out) {
    e = (struct err){0};
    return env_archive_check_input(tar_input_memory(archive.data, archive.len), out, NULL, NULL,
                                   &e);
}

// ---- checking -----------------------------------------------------------------------------------

static void test_accepted(void) {
    struct env_archive f;
    begin();
    member('5', "./", "", "0000755", "");
    member('5', "./bin/", "", "0000755", "");
    file("./bin/tool", "12345");
    symlink_to("./lib64", "lib");
    symlink_to("./lib/a/up", "../../bin/tool");
    end();
    is_int(check(&f), 0, "an archive of the content of a folder is accepted%s", e.text);
    is_uint(f.total.entries, 4, "the members are counted");
    is_uint(f.total.bytes, 5, "the bytes of the files are counted");
    is_uint(f.total.disk_bytes, 8192, "the file and the folder take one block of a disk each");
    is_uint(f.top_len, 0, "nothing is cut off the names");
    is_str(f.interpreter, "", "nothing of the node is needed");
    begin();
    member('5', "my env/", "", "0000755", "");
    file("my env/bin/tool", "");
    file("my env/pyvenv.cfg", "");
    symlink_to("my env/bin/python3", "/usr/bin/python3.11");
    symlink_to("my env/bin/python", "python3");
    end();
    is_int(check(&f), 0, "a venv below one folder is accepted%s", e.text);
    is_uint(f.top_len, 7, "the folder's name is cut off");
    is_str(f.interpreter, "/usr/bin/python3.11", "the interpreter of the node is reported");
}

// An archive with one more member than it needs.
static void refused(char type, const char *name, const char *link, const char *why,
                    const char *what) {
    struct env_archive f;
    begin();
    file("bin/tool", "");
    member(type, name, link, "0000644", "");
    end();
    is_int(check(&f), -1, "%s", what);
    has_str(e.text, why, "%s: the error has the reason", what);
}

static void test_refused(void) {
    static const char out[] = "leads out of its folder";
    refused('0', "../x", "", out, "a file above the folder");
    refused('0', "/etc/x", "", out, "an absolute name");
    refused('0', "bin/../../x", "", out, "a name that goes up in the middle");
    refused('5', "..", "", out, "the folder above");
    refused('0', "./../x", "", out, "a file above behind a dot");
    refused('2', "bin/x", "/etc", out, "an absolute link");
    refused('2', "x", "..", out, "a link to the folder above");
    refused('2', "bin/x", "../../y", out, "a link that rises too far");
    refused('2', "bin/x", "../bin/../../y", out, "a link that rises later");
    refused('2', "bin/sh", "/bin/sh", out, "a link to a program of the node");
    refused('2', "bin/python3", "/usr/../python3", out, "an interpreter whose path goes up");
    refused('2', "bin/x", "", "a link to nothing", "a link without a target");
    refused('1', "bin/x", "../../y", out, "a hard link above the folder");
    refused('1', "bin/x", "/etc/passwd", out, "a hard link to an absolute name");
    refused('3', "bin/null", "", "neither a file", "a character device");
    refused('4', "bin/disk", "", "neither a file", "a block device");
    refused('6', "bin/pipe", "", "neither a file", "a pipe");
    refused('S', "bin/holes", "", "neither a file", "a sparse file");
    refused('2', "bin/python3", "/usr/bin/python3", "without pyvenv.cfg",
            "an interpreter of the node in what is no venv");
}

// Archives whose members contradict one another.
static void test_conflicts(void) {
    struct env_archive f;
    refused('0', "bin", "", "'bin' is a file, and a folder before it", "a file over a folder");
    refused('2', "bin", "lib", "'bin' is a link, and a folder before it", "a link over a folder");
    refused('5', "bin/tool/", "", "is a folder, and a file before it", "a folder over a file");
    refused('0', "bin/tool/a/x", "", "lies below 'bin/tool', which is a file before it",
            "a file below a file");
    refused('1', "bin/x", "bin/none", "is a link to 'bin/none', which is no file before it",
            "a hard link to a file that is not there");
    refused('1', "bin/x", "bin", "is a link to 'bin', which is no file", "a hard link to a folder");
    begin();
    file("bin/tool", "");
    symlink_to("lib64", "lib");
    file("lib64/x", "");
    end();
    is_int(check(&f), -1, "a file below a link is refused");
    has_str(e.text, "'lib64/x' lies below 'lib64', which is a link before it", "both are named");
    begin();
    file("bin/tool", "");
    file("lib64/x", "");
    symlink_to("lib64", "lib");
    end();
    is_int(check(&f), -1, "a link in place of a folder with files is refused");
    begin();
    file("bin/tool", "");
    symlink_to("lib64", "lib");
    member('5', "lib64/", "", "0000755", "");
    end();
    is_int(check(&f), -1, "a folder in place of a link is refused");
    begin();
    for (int i = 0; i < 3000; i++)
        file(arena_printf(&arena, "bin/%d", i), "");
    for (int i = 0; i < 3000; i++)
        member('1', arena_printf(&arena, "%d/x", i), arena_printf(&arena, "bin/%d", i), "0000644",
               "");
    end();
    is_int(check(&f), 0, "many names do not conflict%s", e.text);
    is_uint(f.total.entries, 6000, "all are counted");
}

static void test_refused_whole(void) {
    struct env_archive f;
    begin();
    file("lib/x", "");
    end();
    is_int(check(&f), -1, "an archive without bin is refused");
    has_str(e.text, "no folder bin (try: conda-pack", "the error says how to make one");
    begin();
    file("one/bin/x", "");
    file("two/bin/x", "");
    end();
    is_int(check(&f), -1, "two folders with a bin each are refused");
    begin();
    file("one/bin/x", "");
    symlink_to("one/lib", "../two");
    end();
    is_int(check(&f), -1, "a link out of the only folder is refused");
    has_str(e.text, "'one/lib' is a link", "the link is named");
    begin();
    struct strbuf pax = {0}, name = {0};
    for (int i = 0; i <= ARCHIVE_DEPTH_MAX; i++)
        strbuf_adds(&name, "a/");
    strbuf_addc(&name, 'x');
    strbuf_addf(&pax, "%d path=%s\n", (int)name.len + 10, strbuf_cstr(&name));
    file("bin/tool", "");
    member('x', "pax", "", "0000644", strbuf_cstr(&pax));
    file("long", "");
    end();
    is_int(check(&f), -1, "a file in too many folders is refused");
    has_str(e.text, "more than 128 folders", "the error has the limit");
    strbuf_fini(&pax);
    strbuf_fini(&name);
}

// ---- unpacking ----------------------------------------------------------------------------------

static const char *in(const char *name) {
    return file_join(&arena, folder, name);
}

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static int unpack(const char *dest, content_tick *tick, void *ctx) {
    struct env_archive f;
    const char *path = in("archive");
    e = (struct err){0};
    if (file_write_atomic(path, archive.data, archive.len, 0644, &e) < 0 ||
        env_archive_check(path, &f, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    return env_archive_unpack(path, &f, in(dest), tick, ctx, &e);
}

static void test_unpack(void) {
    static char big[3 << 20];
    memset(big, 'b', sizeof big - 1);
    begin();
    member('5', "E/", "", "0000500", "");
    member('5', "E/bin/", "", "0000555", "");
    member('0', "E/bin/tool", "", "0004755", "tool");
    file("E/lib/big", big);
    member('0', "E/lib/locked", "", "0000000", "locked");
    member('1', "E/lib/second", "E/bin/tool", "0000644", "");
    symlink_to("E/lib64", "lib");
    file("E/twice", "first");
    file("E/twice", "second");
    symlink_to("E/became", "bin");
    file("E/became", "a file");
    file("E/link", "became a link");
    symlink_to("E/link", "bin");
    member('5', "E/bin/", "", "0000555", "");
    member('5', "E/empty", "", "0000755", "");
    end();
    is_int(unpack("env", NULL, NULL), 0, "an environment is unpacked%s", e.text);
    ok(holds("[ \"$(cat env/bin/tool)\" = tool ] && [ -d env/empty ] && [ ! -e env/E ]"),
       "the files are there, without the folder around them");
    ok(holds("[ \"$(stat -c %a env/bin/tool)\" = 755 ] && [ \"$(stat -c %a env/bin)\" = 755 ]"),
       "a program stays one and is not setuid; folders can be written");
    ok(holds("[ \"$(stat -c %a env/lib/locked)\" = 600 ]"), "the owner can read every file");
    ok(holds("[ \"$(stat -c %Y env/bin/tool)\" = 1610612736 ]"), "times of files are kept");
    ok(holds("[ \"$(stat -c %i env/bin/tool)\" = \"$(stat -c %i env/lib/second)\" ]"),
       "a hard link is a second name");
    ok(holds("[ \"$(readlink env/lib64)\" = lib ] && [ $(wc -c <env/lib64/big) = 3145727 ]"),
       "a link and a large file are unpacked");
    ok(holds("[ \"$(cat env/twice)\" = second ] && [ \"$(cat env/became)\" = 'a file' ] &&"
             " [ ! -L env/became ] && [ \"$(readlink env/link)\" = bin ]"),
       "the last of several members of one name stays");
    ok(holds("[ \"$(ls)\" = \"$(printf 'archive\\nenv')\" ]"), "nothing else is left");
}

static int stop_later(void *ctx, uint64_t bytes, struct err *why) {
    (void)bytes;
    int *left = ctx;
    return --*left > 0 ? 0 : err_set(why, ERR_INTERRUPTED, "stopped by the test");
}

static void test_unfinished(void) {
    int left = 2;
    begin();
    file("bin/one", "1");
    file("bin/two", "2");
    file("bin/three", "3");
    end();
    is_int(unpack("stopped", stop_later, &left), -1, "the caller stops the work");
    is_int(e.code, ERR_INTERRUPTED, "the error is the caller's");
    ok(holds("! ls -d stopped* 2>/dev/null"), "nothing of it is left");
    begin();
    file("bin/one", "1");
    is_int(check(&(struct env_archive){0}), -1, "an archive that is cut is refused");
    has_str(e.text, "the archive is cut", "the error says so");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    test_accepted();
    test_refused();
    test_conflicts();
    test_refused_whole();
    test_unpack();
    test_unfinished();
    if (file_remove_tree(folder, &e) < 0)
        diag("%s", e.text);
    strbuf_fini(&archive);
    arena_fini(&arena);
    return done_testing();
}
