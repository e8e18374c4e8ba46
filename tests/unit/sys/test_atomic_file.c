// SPDX-License-Identifier: Apache-2.0
// Files that are replaced as a whole, with a fault at each system call: the old file stays, no
// temporary file is left, and no descriptor.
#include "sys/atomic_file.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_FILTER = 77, WRONG = 1 };

static char folder[] = "/tmp/test_atomic_file.XXXXXX";
static char path[sizeof folder + 8];

// Where a call begins to fail: before open, between open and write, or before commit.
enum stage { OPENING, WRITING, COMMITTING };

struct fault {
    const char *what;
    enum stage stage;
    int calls[3]; // any of these; 0: none
    enum { ANY, FILE_ONLY, FOLDER_ONLY } of;
    bool replaced; // the new file is in place all the same
};

static const struct fault faults[] = {
    {"cannot create", OPENING, {SYS_openat, SYS_open}, ANY, false},
    {"write", WRITING, {SYS_write}, ANY, false},
    {"cannot sync '", COMMITTING, {SYS_fsync}, FILE_ONLY, false},
    {"cannot rename", COMMITTING, {SYS_rename, SYS_renameat, SYS_renameat2}, ANY, false},
    {"cannot sync folder", COMMITTING, {SYS_openat, SYS_open}, ANY, true},
    {"cannot sync folder", COMMITTING, {SYS_fsync}, FOLDER_ONLY, true},
};

// From now on the calls fail with EIO; with FILE_ONLY for this descriptor, else for all others.
static int forbid(const struct fault *f, int fd) {
    for (int i = 0; i < 3 && f->calls[i]; i++) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)f->calls[i], 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)fd, f->of == FOLDER_ONLY,
                     f->of == FILE_ONLY),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof code / sizeof *code, code};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
            return -1;
    }
    return 0;
}

static int replace(const struct fault *f, struct err *e) {
    struct atomic_file file;
    int rc;
    if (f && f->stage == OPENING && forbid(f, -1) < 0)
        _exit(NO_FILTER);
    if (atomic_file_open(&file, path, 0600, e) < 0)
        return -1;
    if (f && f->stage == WRITING && forbid(f, -1) < 0)
        _exit(NO_FILTER);
    if (file_write_all(file.fd, "new", 3, e) < 0) {
        atomic_file_abort(&file);
        rc = -1;
    } else {
        if (f && f->stage == COMMITTING && forbid(f, file.fd) < 0)
            _exit(NO_FILTER);
        rc = atomic_file_commit(&file, e);
    }
    return file.fd == -1 && !file.path && !file.temporary ? rc : 2;
}

static int next_fd(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

// In a process of its own: a filter cannot be taken off.
static int replace_with(const struct fault *f) {
    pid_t pid = fork();
    if (pid == 0) {
        struct err e = {0};
        int before = next_fd(), rc = replace(f, &e);
        bool right = rc == -1 && e.code == ERR_SYS && strstr(e.text, f->what) &&
                     strstr(e.text, strerror(EIO)) && next_fd() == before;
        _exit(right ? 0 : WRONG);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int files_in_folder(void) {
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *i; d && (i = readdir(d));)
        count += i->d_name[0] != '.';
    if (d)
        closedir(d);
    return count;
}

static const char *content(void) {
    static char text[16];
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f)
        fclose(f);
    return text;
}

static void test_faults(void) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct fault *f = &faults[i];
        struct err e;
        is_int(file_write_atomic(path, "old", 3, 0600, &e), 0, "an old file is written");
        int status = replace_with(f);
        if (status == NO_FILTER) {
            skip(3, "this kernel filters no system calls");
            continue;
        }
        is_int(status, 0, "'%s' is the error, and nothing stays open", f->what);
        is_str(content(), f->replaced ? "new" : "old", "the file has the expected content");
        is_int(files_in_folder(), 1, "no temporary file is left");
    }
}

static void test_whole(void) {
    struct atomic_file f = {0};
    struct err e;
    struct stat st;
    atomic_file_abort(&f);
    is_int(replace(NULL, &e), 0, "without a fault the file is replaced");
    is_str(content(), "new", "the file is replaced");
    is_int(atomic_file_open(&f, path, 0666, &e), 0, "the file is opened");
    is_int(write(f.fd, "x", 1), 1, "a byte is written to the new file");
    is_str(content(), "new", "the unfinished file is not visible");
    atomic_file_abort(&f);
    atomic_file_abort(&f);
    is_int(files_in_folder(), 1, "an aborted file is removed");
    umask(027);
    is_int(atomic_file_open(&f, path, 0666, &e), 0, "the file is opened again");
    is_int(write(f.fd, "x", 1), 1, "a byte is written to the second file");
    is_int(atomic_file_commit_unsynced(&f, &e), 0, "the file is committed without a sync");
    is_str(content(), "x", "the file is replaced");
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640, "the mode follows the umask");
    is_int(files_in_folder(), 1, "no other file is left");
    is_int(atomic_file_open(&f, "/nowhere/at/all", 0600, &e), -1,
           "a folder that is not there is refused");
    has_str(e.text, "cannot create '/nowhere/at/all.tmp-", "the error names the missing folder");
}

// A rename would put a file in place of any of them.
static void test_no_file(void) {
    struct err e;
    struct stat st;
    unlink(path);
    is_int(mkfifo(path, 0600), 0, "a pipe is made");
    is_int(file_write_atomic(path, "x", 1, 0600, &e), -1, "a pipe is not replaced");
    has_str(e.text, "no file", "the error says so");
    ok(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode), "the pipe stays");
    unlink(path);
    if (mknod(path, S_IFCHR | 0600, makedev(1, 7)) == 0) {
        is_int(file_write_atomic(path, "x", 1, 0600, &e), -1, "a device is not replaced");
        ok(lstat(path, &st) == 0 && S_ISCHR(st.st_mode), "the device stays");
    } else {
        skip(2, "only root can make a device");
    }
    unlink(path);
    is_int(symlink("target", path), 0, "a link is made");
    is_int(file_write_atomic(path, "x", 1, 0600, &e), 0, "a link is replaced: %s", e.text);
    ok(lstat(path, &st) == 0 && S_ISREG(st.st_mode), "a file takes its place");
}

int main(void) {
    struct err e;
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    snprintf(path, sizeof path, "%s/file", folder);
    test_whole();
    test_faults();
    test_no_file();
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    return done_testing();
}
