// SPDX-License-Identifier: Apache-2.0
// Parts of glibc 2.28 that its shared library lacks, because start files and a static library have
// them: constructors, and the functions that read a file's status. The objects of this program are
// compiled with musl's headers, whose struct stat is the kernel's, like glibc's.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void hook(int argc, char **argv, char **env);
extern hook *__init_array_start[], *__init_array_end[];
extern void (*__fini_array_start[])(void), (*__fini_array_end[])(void);

void floor_init(int argc, char **argv, char **env);
void floor_fini(void);

void floor_init(int argc, char **argv, char **env) {
    for (hook **h = __init_array_start; h < __init_array_end; h++)
        (*h)(argc, argv, env);
}

void floor_fini(void) {
    for (void (**h)(void) = __fini_array_end; h > __fini_array_start;)
        (*--h)();
}

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags) {
    return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

int stat(const char *restrict path, struct stat *restrict st) {
    return fstatat(AT_FDCWD, path, st, 0);
}

int lstat(const char *restrict path, struct stat *restrict st) {
    return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *st) {
    return (int)syscall(SYS_fstat, fd, st);
}
