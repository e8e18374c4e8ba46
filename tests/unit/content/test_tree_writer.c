// SPDX-License-Identifier: Apache-2.0
// Entries below a destination folder: files, folders and links, what they replace, and that no link
// in a path is followed.
#include "base/str.h"
#include "content/tree_writer.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <errno.h>
#include <unistd.h>

static char folder[] = "/tmp/test_tree_writer.XXXXXX";
static struct arena arena;
static struct err e;

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static const char *in(const char *path) {
    return file_join(&arena, folder, path);
}

// Begins with the folder `out` as a line of sh makes it; the current folder is above it.
static void begin(struct place *p, bool replace, const char *make) {
    if (!holds(arena_printf(&arena, "rm -rf * .[!.]*; %s", make)))
        bail_out("%s", make);
    e = (struct err){0};
    if (tree_open(p, in("out"), replace, &e) < 0)
        bail_out("%s", e.text);
}

static struct manifest_entry entry(const char *path) {
    return (struct manifest_entry){.path = path, .kind = MANIFEST_FILE, .mode = 0644, .size = 3};
}

static int put(struct place *p, const char *path, const char *text) {
    struct manifest_entry n = entry(path);
    struct stat st;
    return tree_bytes(p, &n, text, strlen(text), &st, &e);
}

// ---- the destination ----------------------------------------------------------------------------

static void test_open(void) {
    enum { PATH_BYTES_MAX = FILE_PATH_BYTES_MAX - 64 };
    static char longer[PATH_BYTES_MAX + 2];
    struct place p;
    is_int(tree_open(&p, "", false, &e), -1, "an empty path is refused");
    tree_close(&p);
    for (size_t i = 0; i <= PATH_BYTES_MAX; i++)
        longer[i] = i % 100 ? 'x' : '/';
    is_int(tree_open(&p, longer, false, &e), -1, "a long path is refused");
    is_str(e.text, "the destination path is empty or too long", "the error has the reason");
    is_int(e.code, ERR_LIMIT, "the path has a limit");
    tree_close(&p);
    longer[PATH_BYTES_MAX] = '\0';
    is_int(tree_open(&p, longer, false, &e), 0, "the longest path is taken: %s", e.text);
    tree_close(&p);
    begin(&p, false, "echo 1 >file");
    tree_close(&p);
    is_int(tree_open(&p, in("file"), false, &e), -1, "a file is no destination");
    has_str(e.text, arena_printf(&arena, "cannot open the folder '%s'", in("file")),
            "the error has the path");
    tree_close(&p);
    is_int(tree_open(&p, in("out///"), false, &e), 0, "slashes may follow the path");
    is_str(p.dest, in("out"), "slashes behind the path do not count");
    is_str(p.staging, p.dest, "entries are built in the destination");
    tree_close(&p);
    ok(holds("[ \"$(ls -A)\" = file ]"), "a destination without entries is not made");
    is_int(tree_open(&p, "/", false, &e), 0, "the root is a folder");
    is_str(p.dest, "/", "the root keeps its slash");
    tree_close(&p);
}

static void test_close(void) {
    struct place p;
    begin(&p, true, "mkdir out && echo old >out/old");
    ok(strcmp(p.staging, p.dest) != 0, "a folder that replaces another one is built beside it");
    is_int(put(&p, "a/b", "new"), 0, "an entry is written: %s", e.text);
    ok(holds("[ \"$(ls -A out)\" = old ] && [ \"$(ls -A | wc -l)\" = 2 ]"),
       "the destination is as before");
    tree_close(&p);
    ok(holds("[ \"$(ls -A)\" = out ] && [ \"$(cat out/old)\" = old ]"),
       "without a switch nothing is left");
    begin(&p, false, "mkdir -p out/sub");
    is_int(put(&p, "sub/a", "new"), 0, "an entry is written in the destination: %s", e.text);
    tree_close(&p);
    ok(holds("[ \"$(cat out/sub/a)\" = new ] && [ \"$(ls -A out)\" = sub ]"),
       "the entry is there and nothing else");
}

// ---- files --------------------------------------------------------------------------------------

static int fail_half(void *ctx, int fd, struct err *why) {
    (void)ctx;
    return write(fd, "ha", 2) == 2 ? err_set(why, ERR_NET, "half of it is missing") : -1;
}

static void test_files(bool replace) {
    struct place p;
    struct stat st;
    const char *how = replace ? "beside" : "in place";
    struct manifest_entry n = entry("a/tool");
    begin(&p, replace, "umask 022");
    mode_t mask = umask(0077);
    n.mode = 0755;
    n.mtime_ns = INT64_C(1600000000123456789);
    is_int(tree_bytes(&p, &n, "one", 3, &st, &e), 0, "%s: a file is written: %s", how, e.text);
    umask(mask);
    is_int(st.st_mode & 07777, 0755, "%s: a umask does not count", how);
    is_int(st.st_size, 3, "%s: the result has the size", how);
    is_int(st.st_mtim.tv_sec, 1600000000, "%s: the file has its time", how);
    is_int(st.st_mtim.tv_nsec, 123456789, "%s: the time is exact", how);
    n.path = "a/secret";
    n.mode = 0600;
    n.mtime_ns = 0;
    is_int(tree_bytes(&p, &n, "", 0, &st, &e), 0, "%s: a file may be empty", how);
    is_int(st.st_mode & 07777, 0600, "%s: a file may be private", how);
    ok(st.st_mtim.tv_sec > 1600000000, "%s: a file without a time is new", how);
    n.path = "a/half";
    is_int(tree_write(&p, &n, fail_half, NULL, &st, &e), -1, "%s: content may be missing", how);
    has_str(e.text, arena_printf(&arena, "'%s/a/half': half of it is missing", in("out")),
            "the error has the file and the reason");
    is_int(e.code, ERR_NET, "the error is the content's");
    const char *left =
        arena_printf(&arena, "[ \"$(ls -A %s/a | xargs)\" = 'secret tool' ]", p.staging);
    ok(holds(left), "%s: nothing is left of an unfinished file", how);
    tree_close(&p);
}

// The destination has entries of other kinds, also outside of it by a link.
static void test_replaced(void) {
    struct place p;
    begin(&p, false,
          "mkdir -p out/folder/full outside && echo 1 >out/file && echo 1 >outside/x &&"
          "ln -s ../outside out/link && ln -s ../outside/x out/last");
    is_int(put(&p, "link/x", "new"), 0, "a file is written below a link: %s", e.text);
    is_int(put(&p, "file/x", "new"), 0, "a file is written below a file: %s", e.text);
    is_int(put(&p, "last", "new"), 0, "a file is written over a link: %s", e.text);
    ok(holds("[ \"$(cat outside/x)\" = 1 ] && [ -d out/link ] && [ ! -L out/link ] &&"
             "[ -d out/file ] && [ ! -L out/last ]"),
       "links and files give their place to folders, and no link is followed");
    is_int(put(&p, "folder", "new"), -1, "a folder is not replaced by a file");
    has_str(e.text, arena_printf(&arena, "cannot write '%s/folder'", in("out")),
            "the error has the name");
    struct manifest_entry n = entry("folder");
    is_int(tree_remove(&p, &n, &e), -1, "a folder is not removed");
    has_str(e.text, arena_printf(&arena, "cannot replace '%s/folder'", in("out")),
            "the error has the folder");
    n.path = "nothing";
    is_int(tree_remove(&p, &n, &e), 0, "a file that is not there need not be removed");
    n.path = "last";
    is_int(tree_remove(&p, &n, &e), 0, "a file is removed: %s", e.text);
    tree_close(&p);
    ok(holds("[ \"$(ls -A out | xargs)\" = 'file folder link' ]"), "no temporary name is left");
}

static void test_paths(void) {
    char part[257];
    struct place p;
    memset(part, 'n', sizeof part);
    part[256] = '\0';
    begin(&p, false, "true");
    is_int(put(&p, arena_printf(&arena, "%s/x", part + 1), "new"), 0,
           "a folder's name may have 255 bytes: %s", e.text);
    is_int(put(&p, arena_printf(&arena, "%s/x", part), "new"), -1, "256 bytes are refused");
    has_str(e.text, strerror(ENAMETOOLONG), "the error has the reason");
    // The folder that was used last is remembered.
    static const char *const paths[] = {"a/x", "ab/x", "a/y", "b/x", "top", "a/b/x", "a/z"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        is_int(put(&p, paths[i], paths[i]), 0, "'%s' is written: %s", paths[i], e.text);
    tree_close(&p);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        ok(holds(arena_printf(&arena, "[ \"$(cat out/%s)\" = %s ]", paths[i], paths[i])),
           "'%s' is at its place", paths[i]);
}

// ---- what is there ------------------------------------------------------------------------------

static void test_existing(void) {
    struct place p;
    struct stat st;
    char target[16];
    begin(&p, false,
          "mkdir -p out/a out/b && echo 1 >out/a/x && echo 12 >out/b/x &&"
          "ln -s a out/l && ln -s x out/a/to-x");
    is_int(tree_stat(&p, "a/x", &st), 0, "a file is found");
    is_int(st.st_size, 2, "the file has its size");
    is_int(tree_stat(&p, "b/x", &st), 0, "a file in another folder is found");
    is_int(st.st_size, 3, "the other file has its size");
    is_int(tree_stat(&p, "a/to-x", &st), 0, "a link is found");
    ok(S_ISLNK(st.st_mode), "the link itself is found");
    is_int(tree_stat(&p, "l/x", &st), -1, "nothing is found through a link");
    is_int(tree_stat(&p, "a/nothing", &st), -1, "a missing file is not found");
    is_int(errno, ENOENT, "the error is its absence");
    is_int(tree_read_link(&p, "a/to-x", target, sizeof target), 1, "a link is read");
    is_mem(target, 1, "x", 1, "the link has its target");
    int fd = tree_open_existing(&p, "a/x");
    ok(fd >= 0, "a file is opened");
    close(fd);
    is_int(tree_open_existing(&p, "a/to-x"), -1, "a link is not opened");
    is_int(tree_open_existing(&p, "l/x"), -1, "nothing is opened through a link");
    tree_close(&p);
    begin(&p, false, "true");
    errno = 0;
    is_int(tree_stat(&p, "x", &st), -1, "a destination that is not there has no files");
    is_int(errno, ENOENT, "the absence of a destination is the error");
    is_int(tree_read_link(&p, "x", target, sizeof target), -1,
           "a destination that is not there has no links");
    is_int(tree_open_existing(&p, "x"), -1, "a destination that is not there has nothing to open");
    is_int(put(&p, "a/x", "new"), 0, "a file is written: %s", e.text);
    is_int(tree_stat(&p, "a/x", &st), 0, "a file that was written just now is found");
    tree_close(&p);
}

static void test_keep(void) {
    struct place p;
    struct stat st;
    struct manifest_entry n = entry("a/x");
    begin(&p, true, "mkdir -p out/a && echo 1 >out/a/x && chmod 600 out/a/x");
    is_int(tree_keep(&p, &n, &st, &e), 0, "a file is taken over: %s", e.text);
    is_int(st.st_size, 2, "the result has the size of a kept file");
    is_int(e.code, ERR_NONE, "a file that is taken over is no error");
    ok(holds(arena_printf(&arena, "[ out/a/x -ef %s/a/x ]", p.staging)), "both are one file");
    n.mode = 0640;
    is_int(tree_mode(&p, &n, &st, &e), 0, "the file gets its mode: %s", e.text);
    is_int(st.st_mode & 07777, 0640, "the result has the mode");
    n.path = "a/nothing";
    is_int(tree_keep(&p, &n, &st, &e), -1, "a missing file is not taken over");
    has_str(e.text, arena_printf(&arena, "cannot take over '%s/a/nothing'", in("out")),
            "the error has the file");
    is_int(tree_mode(&p, &n, &st, &e), -1, "a missing file has no mode");
    has_str(e.text, arena_printf(&arena, "cannot set the mode of '%s/a/nothing'", in("out")),
            "the error has the missing file");
    tree_close(&p);
}

// ---- folders and links --------------------------------------------------------------------------

static void test_folders(void) {
    struct place p;
    struct manifest_entry n = {.path = "a/b", .kind = MANIFEST_FOLDER, .mode = 0500};
    begin(&p, false, "mkdir -p out outside && echo 1 >out/file && ln -s ../outside out/link");
    is_int(tree_folder(&p, &n, &e), 0, "a folder is made: %s", e.text);
    is_int(tree_folder(&p, &n, &e), 0, "a folder may be there already: %s", e.text);
    is_int(tree_folder_mode(&p, &n, &e), 0, "a folder gets its mode: %s", e.text);
    ok(holds("[ \"$(stat -c %a out/a/b)\" = 700 ]"), "the owner of a folder may still change it");
    n.mode = 0750;
    is_int(tree_folder_mode(&p, &n, &e), 0, "a folder gets another mode: %s", e.text);
    ok(holds("[ \"$(stat -c %a out/a/b)\" = 750 ]"), "the group may read the folder");
    n.path = "file";
    is_int(tree_folder(&p, &n, &e), 0, "a folder takes the place of a file: %s", e.text);
    n.path = "link";
    is_int(tree_folder(&p, &n, &e), 0, "a folder takes the place of a link: %s", e.text);
    ok(holds("[ -d out/file ] && [ -d out/link ] && [ ! -L out/link ] && [ -d outside ]"),
       "both are folders, and the link's target stays");
    n.path = "nothing";
    is_int(tree_folder_mode(&p, &n, &e), -1, "a missing folder has no mode");
    has_str(e.text, arena_printf(&arena, "cannot set the mode of '%s/nothing'", in("out")),
            "the error has the missing folder");
    tree_close(&p);
}

static void test_links(void) {
    struct place p;
    struct manifest_entry n = {.path = "a/l", .target = "../x", .kind = MANIFEST_LINK};
    begin(&p, false, "mkdir -p out/folder/full && echo 1 >out/x && ln -s x out/to-x");
    is_int(tree_link(&p, &n, &e), 0, "a link is made: %s", e.text);
    n.target = "../y";
    is_int(tree_link(&p, &n, &e), 0, "a link takes the place of another one: %s", e.text);
    ok(holds("[ \"$(readlink out/a/l)\" = ../y ]"), "the link has its new target");
    n.path = "folder";
    is_int(tree_link(&p, &n, &e), -1, "a link does not take the place of a folder");
    has_str(e.text, arena_printf(&arena, "cannot write '%s/folder'", in("out")),
            "the error has the link");
    n.path = "a/h";
    is_int(tree_hard_link(&p, &n, "x", &e), 0, "a second name is given: %s", e.text);
    is_int(tree_hard_link(&p, &n, "x", &e), 0, "a second name may be there already: %s", e.text);
    ok(holds("[ out/a/h -ef out/x ] && [ \"$(stat -c %h out/x)\" = 2 ]"),
       "both names are one file");
    static const char *const none[] = {"nothing", "folder", "to-x", "nothing/x", "to-x/x"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        is_int(tree_hard_link(&p, &n, none[i], &e), -1, "'%s' is no file", none[i]);
        is_int(e.code, ERR_NOT_FOUND, "there is no such file");
        is_str(e.text,
               arena_printf(&arena, "'a/h' is a link to '%s', which is no file before it", none[i]),
               "the error has both names");
    }
    n.path = "folder";
    is_int(tree_hard_link(&p, &n, "x", &e), -1, "a folder does not become a second name");
    tree_close(&p);
    ok(holds("! find out -name '.dtctl*' | grep . && [ \"$(stat -c %h out/x)\" = 2 ]"),
       "no temporary name is left");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_open();
    test_close();
    test_files(false);
    test_files(true);
    test_replaced();
    test_paths();
    test_existing();
    test_keep();
    test_folders();
    test_links();
    file_remove_tree(folder, &e);
    arena_fini(&arena);
    return done_testing();
}
