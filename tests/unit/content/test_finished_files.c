// SPDX-License-Identifier: Apache-2.0
// Finished files: what is linked, listed and dropped.
#include "content/finished_files.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = {"output", "model", NULL};
static char run[] = "/tmp/test-closed-XXXXXX";
static struct arena arena;

static const char *in(const char *path) {
    return file_join(&arena, run, path);
}

static void put(const char *path, const char *text) {
    struct err e = {0};
    file_make_dirs(file_dir(&arena, in(path)), 0755, &e);
    FILE *f = fopen(in(path), "we");
    fputs(text, f);
    fclose(f);
}

// An mtime of long ago, which programs may set.
static void age(const char *path) {
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    utimensat(AT_FDCWD, in(path), old, AT_SYMLINK_NOFOLLOW);
}

static struct finished_files take(const char *known) {
    struct finished_files c;
    struct err e = {0};
    ok(finished_files_take(&c, run, folders, known, &e) == 0, "taken %s", e.text);
    return c;
}

static bool has(const char *path) {
    return file_exists(in(path));
}

static void test_take(void) {
    put("output/a", "one");
    put("output/deep/b", "two");
    put("model/m", "three");
    is_int(take("").files, 0, "nothing that has just changed is finished");
    ok(has("closed/list") && !has("closed/output/a"), "the list is there, and no file");
    usleep(1100000);
    int fd = open(in("output/a"), O_WRONLY | O_CLOEXEC);
    struct finished_files c = take("");
    is_int(c.files, 2, "a file that is open for writing is not finished");
    ok(!has("closed/output/a") && has("closed/output/deep/b") && has("closed/model/m"),
       "the others are linked");
    close(fd);
    c = take(c.digest);
    is_int(c.files, 3, "the closed file is finished, too");
    ok(c.is_new, "the digest is new");
    struct stat before, after;
    stat(in("closed/output/a"), &before);
    c = take(c.digest);
    stat(in("closed/output/a"), &after);
    ok(!c.is_new && c.files == 3, "nothing is new then");
    ok(before.st_ctim.tv_nsec == after.st_ctim.tv_nsec &&
           before.st_ctim.tv_sec == after.st_ctim.tv_sec,
       "the links stay, and with them the ctime");
    put("output/a", "other");
    c = take(c.digest);
    ok(c.is_new && c.files == 2 && !has("closed/output/a"),
       "a file that has just changed is left out");
    age("output/a");
    c = take(c.digest);
    is_int(c.files, 2, "an old mtime does not make a new change old");
    unlink(in("output/deep/b"));
    (void)take(c.digest);
    ok(!has("closed/output/deep"), "the link of a removed file goes, with its folder");
    symlink("a", in("output/link"));
    (void)take(c.digest);
    ok(has("closed/output/link"), "a symbolic link is finished");
}

static void test_drop(void) {
    struct err e = {0};
    char disk[FINISHED_FILES_DISK_BYTES], again[FINISHED_FILES_DISK_BYTES];
    is_int(finished_files_disk(in("closed/list"), disk, &e), 0, "the disk has a name");
    put("here/output/a", "old");
    put("here/output/gone/x", "old");
    put("here/output/kept", "old");
    put("here/other", "old");
    put("output/kept", "busy");
    is_int(finished_files_list(run, folders, &e), 0, "the list is written anew");
    is_int(finished_files_disk(in("closed/list"), again, &e), 0, "the new list names the disk");
    is_str(again, disk, "the name of the disk is as before");
    is_int(finished_files_drop(in("here"), in("closed/list"), folders, &e), 0, "files are dropped");
    ok(!has("here/output/gone"), "a file that the list lacks is removed");
    ok(has("here/output/a") && has("here/output/kept"), "the files of the list stay");
    ok(has("here/other"), "files outside the folders stay");
    static const char *const bad[] = {"", "short", "0123456789abcdef0123456789abcdeg",
                                      "0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("bad", bad[i]);
        is_int(finished_files_drop(in("here"), in("bad"), folders, &e), -1, "refused: '%s'",
               bad[i]);
        is_int(e.code, ERR_FORMAT, "the error says that it is no list");
        ok(has("here/output/a"), "nothing was removed");
    }
    is_int(finished_files_drop(in("here"), in("absent"), folders, &e), -1,
           "an absent list is an error");
    file_remove_tree(in("closed"), &e);
    is_int(finished_files_list(run, folders, &e), 0, "no list is no error");
    ok(!has("closed/list"), "no list is written");
    struct finished_files c = take("");
    (void)c;
    is_int(finished_files_disk(in("closed/list"), again, &e), 0, "a new list names its disk");
    ok(strcmp(again, disk) != 0, "the disk has another name");
}

int main(void) {
    struct err e = {0};
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    mkdtemp(run);
    test_take();
    test_drop();
    file_remove_tree(run, &e);
    arena_fini(&arena);
    return done_testing();
}
