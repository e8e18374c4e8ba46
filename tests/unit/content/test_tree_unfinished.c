// SPDX-License-Identifier: Apache-2.0
// A writer that is killed leaves an unfinished file; the next one removes it, and no other file.
#include "base/str.h"
#include "content/tree_writer.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/test_tree_unfinished.XXXXXX";
static struct arena arena;
static struct err e;

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static struct manifest_entry entry(const char *path) {
    return (struct manifest_entry){.path = path, .kind = MANIFEST_FILE, .mode = 0644, .size = 4};
}

static void write_one(struct place *p, const char *path) {
    struct manifest_entry n = entry(path);
    struct stat st;
    is_int(tree_bytes(p, &n, "text", 4, &st, &e), 0, "'%s' is written: %s", path, e.text);
}

static int stay(void *ctx, int fd, struct err *err) {
    const int *ready = ctx;
    (void)err;
    if (write(fd, "te", 2) != 2 || write(*ready, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

// A process that is in the middle of 'sub/half' of folder `dest`.
static pid_t writer(const char *dest) {
    int ready[2];
    char byte;
    if (pipe(ready) < 0)
        bail_out("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        struct manifest_entry n = entry("sub/half");
        struct place p;
        struct stat st;
        if (tree_open(&p, dest, false, &e) == 0)
            (void)tree_write(&p, &n, stay, &ready[1], &st, &e);
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        bail_out("the writer ends: %s", e.text);
    close(ready[0]);
    return pid;
}

static void killed(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void later(const char *dest) {
    struct place p;
    is_int(tree_open(&p, dest, false, &e), 0, "a later writer opens the folder");
    write_one(&p, "sub/whole");
    tree_close(&p);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    const char *dest = file_join(&arena, folder, "dest");
    must(holds("mkdir -p dest/sub other/sub && touch dest/sub/.dtctl-0123456789abcdef-0 "
               "other/.dtctl-keep && ln -s ../other dest/link"));

    pid_t first = writer(dest), second = writer(dest);
    ok(holds("[ $(ls -A dest/sub | grep -c '^\\.dtctl-') = 3 ]"), "two writers work");
    killed(first);
    later(dest);
    ok(holds("[ $(ls -A dest/sub | grep -c '^\\.dtctl-') = 2 ]"),
       "the later writer removes the file of the killed one alone");
    ok(holds("[ $(ls -A dest/.dtctl-unfinished | wc -l) = 1 ]"), "one mark is left");
    killed(second);
    later(dest);
    ok(holds("[ \"$(ls -A dest/sub | xargs)\" = '.dtctl-0123456789abcdef-0 whole' ]"),
       "a file that no mark names stays");
    ok(holds("[ \"$(ls -A dest | xargs)\" = 'link sub' ]"), "the marks are gone with their folder");
    ok(holds("[ \"$(ls -A other | xargs)\" = '.dtctl-keep sub' ]"), "no link is followed");

    must(holds("rm -r dest/sub/* && ln -s ../other dest/.dtctl-unfinished"));
    later(dest);
    ok(holds("[ -e dest/sub/whole ] && [ \"$(ls -A other | xargs)\" = '.dtctl-keep sub' ]"),
       "a link in the place of the marks is not followed");
    (void)shell(arena_printf(&arena, "rm -rf %s", folder));
    arena_fini(&arena);
    return done_testing();
}
