// SPDX-License-Identifier: Apache-2.0
// lib/sys/file_entries: folders that exist, are missing, are none, or cannot be read to their end.
#include "base/str.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int count(struct file_entries *in) {
    int n = 0;
    while (file_entries_next(in))
        n++;
    return n;
}

static void test_folders(struct arena *a, const char *dir) {
    struct err e = {0};
    const char *missing = file_join(a, dir, "missing"), *file = file_join(a, dir, "two");
    struct file_entries in = file_entries_open(dir);
    is_int(count(&in), 2, "each entry comes once, without . and ..");
    is_int(file_entries_close(&in, 0, &e), 0, "a folder was read to its end");
    in = file_entries_open(missing);
    ok(in.is_missing && !file_entries_next(&in), "a missing folder has no entries");
    is_int(file_entries_close(&in, 0, &e), 0, "a missing folder is no error");
    in = file_entries_open(file);
    is_int(count(&in), 0, "a file has no entries");
    is_int(file_entries_close(&in, 0, &e), -1, "a file is an error");
    ok(str_starts(e.text, "cannot read the folder") && strstr(e.text, file),
       "the error names the path: %s", e.text);
    in = file_entries_open(file);
    is_int(file_entries_close(&in, -7, NULL), -7, "the caller's own error is passed on");
}

static void test_failure(struct arena *a, const char *dir) {
    struct err e = {0};
    int file = open(file_join(a, dir, "two"), O_RDONLY | O_CLOEXEC);
    struct file_entries in = file_entries_open(dir);
    dup2(file, in.fd); // the kernel refuses to list a file
    is_int(count(&in), 0, "a folder that cannot be read shows no entries");
    is_int(in.error, ENOTDIR, "the reason is kept");
    ok(!file_entries_next(&in), "no entry follows a failure");
    is_int(file_entries_close(&in, 0, &e), -1, "a folder that cannot be read is an error");
    close(file);
    errno = EMFILE;
    in = file_entries_at(-1, dir);
    is_int(file_entries_close(&in, 0, &e), -1, "a folder that could not be opened is an error");
    ok(strstr(e.text, strerror(EMFILE)) != NULL, "the error has the reason: %s", e.text);
}

int main(void) {
    struct arena a = {0};
    struct err e = {0};
    char dir[] = "/tmp/dtctl-entries.XXXXXX";
    if (!mkdtemp(dir) || file_make_dirs(file_join(&a, dir, "one"), 0755, &e) < 0 ||
        file_write_atomic(file_join(&a, dir, "two"), "", 0, 0600, &e) < 0)
        bail_out("no folder: %s", e.text);
    test_folders(&a, dir);
    test_failure(&a, dir);
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
