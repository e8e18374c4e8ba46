// SPDX-License-Identifier: Apache-2.0
// Reads, writes, locks and removes files and folders.
#include "sys/file.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "sys/atomic_file.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

void file_close_scope(int *fd) {
    if (*fd >= 0)
        close(*fd);
}

// offset -1: the current position.
static int write_fully(int fd, const char *c, size_t len, off_t offset, struct err *e) {
    while (len) {
        ssize_t n = offset < 0 ? write(fd, c, len) : pwrite(fd, c, len, offset);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "cannot write");
        c += n;
        len -= (size_t)n;
        offset += offset < 0 ? 0 : n;
    }
    return 0;
}

int file_write_all(int fd, const void *p, size_t len, struct err *e) {
    return write_fully(fd, p, len, -1, e);
}

int file_print(const char *text, struct err *e) {
    if (file_write_all(STDOUT_FILENO, text, strlen(text), e) == 0 || errno == EPIPE)
        return 0;
    return err_wrap(e, "standard output");
}

int file_write_at(int fd, const void *p, size_t len, uint64_t offset, struct err *e) {
    return write_fully(fd, p, len, (off_t)offset, e);
}

int file_read_all(int fd, void *p, size_t len, struct err *e) {
    char *c = p;
    while (len) {
        ssize_t n = read(fd, c, len);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "cannot read");
        if (n == 0)
            return err_set(e, ERR_FORMAT, "file ends %zu bytes early", len);
        c += n;
        len -= (size_t)n;
    }
    return 0;
}

// Signals that ask the program to end, where it blocks them, end the wait and stay pending.
static int wait_readable(int fd, const char *path, struct err *e) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    auto_close int signals = signalfd(-1, &set, SFD_CLOEXEC);
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return err_errno(e, ERR_SYS, "cannot read '%s'", path);
    return fds[0].revents || !fds[1].revents
               ? 0
               : err_set(e, ERR_INTERRUPTED, "cannot read '%s': stopped by a signal", path);
}

static int read_file(struct arena *a, const char *path, bool piped, size_t bytes_max, char **data,
                     size_t *len, struct err *e) {
    // Without O_NONBLOCK, the open of a named pipe would wait for a writer.
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "cannot read '%s'", path);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", path);
    if (S_ISDIR(st.st_mode))
        return err_set(e, ERR_SYS, "cannot read '%s': it is a folder", path);
    if (!piped && S_ISFIFO(st.st_mode))
        return err_set(e, ERR_SYS, "cannot read '%s': it is a pipe", path);
    if ((uint64_t)st.st_size > bytes_max)
        return err_set(e, ERR_LIMIT, "'%s' has %lld bytes, limit %zu", path, (long long)st.st_size,
                       bytes_max);
    struct strbuf buf;
    strbuf_init(&buf, bytes_max);
    bool wait = piped;
    for (;;) { // not only st_size bytes: pipes and /proc files say 0
        char chunk[65536];
        if (wait && wait_readable(fd, path, e) < 0) {
            strbuf_fini(&buf);
            return -1;
        }
        ssize_t n = read(fd, chunk, sizeof chunk);
        wait = n < 0 && piped && errno == EAGAIN;
        if (wait || err_interrupted(n))
            continue;
        if (n < 0) {
            err_errno(e, ERR_SYS, "cannot read '%s'", path);
            strbuf_fini(&buf);
            return -1;
        }
        if (n == 0)
            break;
        strbuf_add(&buf, chunk, (size_t)n);
        if (buf.overflow) {
            strbuf_fini(&buf);
            return err_set(e, ERR_LIMIT, "'%s' has more than %zu bytes", path, bytes_max);
        }
    }
    *data = arena_strndup(a, strbuf_cstr(&buf), buf.len);
    *len = buf.len;
    strbuf_fini(&buf);
    return 0;
}

int file_read(struct arena *a, const char *path, size_t bytes_max, char **data, size_t *len,
              struct err *e) {
    return read_file(a, path, false, bytes_max, data, len, e);
}

int file_read_piped(struct arena *a, const char *path, size_t bytes_max, char **data, size_t *len,
                    struct err *e) {
    return read_file(a, path, true, bytes_max, data, len, e);
}

// ---- writing ------------------------------------------------------------------------------------

int file_sync_dir(const char *path, struct err *e) {
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL && errno != EROFS))
        return err_errno(e, ERR_SYS, "cannot sync folder '%s'", path);
    return 0;
}

int file_sync_disk(const char *path, struct err *e) {
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd) < 0)
        return err_errno(e, ERR_SYS, "cannot write the disk of '%s'", path);
    return 0;
}

void file_write_back(int fd, uint64_t from, uint64_t len) {
    (void)sync_file_range(fd, (off_t)from, (off_t)len, SYNC_FILE_RANGE_WRITE);
}

int file_write_atomic(const char *path, const void *p, size_t len, mode_t mode, struct err *e) {
    struct atomic_file f;
    if (atomic_file_open(&f, path, mode, e) < 0)
        return -1;
    int rc = fchmod(f.fd, mode) < 0 ? err_errno(e, ERR_SYS, "cannot set the mode of '%s'", path)
                                    : file_write_all(f.fd, p, len, e);
    if (rc == 0)
        return atomic_file_commit(&f, e);
    atomic_file_abort(&f);
    return err_wrap(e, "'%s'", path);
}

int file_append(const char *path, const void *p, size_t len, struct err *e) {
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", path);
    if (file_write_all(fd, p, len, e) < 0)
        return err_wrap(e, "'%s'", path);
    return 0;
}

int file_make_dirs(const char *path, mode_t mode, struct err *e) {
    char part[FILE_PATH_BYTES_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return err_set(e, ERR_LIMIT, "path of %zu bytes, limit %d", n, FILE_PATH_BYTES_MAX - 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return err_errno(e, ERR_SYS, "cannot create folder '%s'", part);
    }
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(e, ERR_SYS, "cannot create folder '%s'", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_EXISTS, "'%s' exists and is not a folder", path);
    return 0;
}

// ---- removing -----------------------------------------------------------------------------------

enum { REMOVE_DEPTH_MAX = 256 };

static int remove_at(int dir, const char *name, int depth, struct err *e);

static int remove_children(int fd, const char *name, int depth, struct err *e) {
    if (depth >= REMOVE_DEPTH_MAX) {
        close(fd);
        return err_set(e, ERR_LIMIT, "'%s' lies deeper than %d folders", name, REMOVE_DEPTH_MAX);
    }
    struct file_entries in = file_entries_at(fd, name);
    int rc = 0;
    while (rc == 0 && file_entries_next(&in))
        rc = remove_at(in.fd, in.name, depth + 1, e);
    return file_entries_close(&in, rc, e);
}

static int remove_at(int dir, const char *name, int depth, struct err *e) {
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_errno(e, ERR_SYS, "cannot remove '%s'", name);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES &&
        fchmodat(dir, name, 0700, 0) == 0) // our own folder, made read-only
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot remove '%s'", name);
    if (remove_children(fd, name, depth, e) < 0)
        return err_wrap(e, "%s", name);
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_errno(e, ERR_SYS, "cannot remove folder '%s'", name);
    return 0;
}

int file_remove_tree(const char *path, struct err *e) {
    return remove_at(AT_FDCWD, path, 0, e);
}

static void remove_empty_at(int dir, const char *name, int depth) {
    struct file_entries in =
        file_entries_at(openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), name);
    while (depth < REMOVE_DEPTH_MAX && file_entries_next(&in))
        remove_empty_at(in.fd, in.name, depth + 1);
    (void)file_entries_close(&in, 0, NULL);
    (void)unlinkat(dir, name, AT_REMOVEDIR); // the kernel removes only empty ones
}

void file_remove_empty(const char *path) {
    remove_empty_at(AT_FDCWD, path, 0);
}

bool file_is_absent(const char *path) {
    struct stat st;
    return lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

bool file_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

// ---- paths --------------------------------------------------------------------------------------

char *file_join(struct arena *a, const char *dir, const char *name) {
    if (name[0] == '/' || dir[0] == '\0')
        return arena_strdup(a, name);
    size_t n = strlen(dir);
    return arena_printf(a, "%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

const char *file_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *file_dir(struct arena *a, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return arena_strdup(a, ".");
    return arena_strndup(a, path, slash == path ? 1 : (size_t)(slash - path));
}

char *file_absolute(struct arena *a, const char *path, struct err *e) {
    char cwd[FILE_PATH_BYTES_MAX];
    if (path[0] == '/')
        return arena_strdup(a, path);
    if (!getcwd(cwd, sizeof cwd)) {
        err_errno(e, ERR_SYS, "cannot find the working folder");
        return NULL;
    }
    return str_eq(path, ".") ? arena_strdup(a, cwd) : file_join(a, cwd, path);
}

bool file_is_safe_relative(const char *path, size_t len) {
    enum { COMPONENT_BYTES_MAX = 255 };
    if (len == 0 || len >= FILE_PATH_BYTES_MAX || memchr(path, '\0', len))
        return false;
    size_t start = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && path[i] != '/')
            continue;
        size_t n = i - start;
        if (n == 0 || n > COMPONENT_BYTES_MAX)
            return false;
        if (path[start] == '.' && (n == 1 || (n == 2 && path[start + 1] == '.')))
            return false;
        start = i + 1;
    }
    return true;
}

// ---- locks and space ----------------------------------------------------------------------------

int file_lock_fd(int fd, short type, bool wait) {
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    return fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &whole);
}

int file_lock(const char *path, const char *purpose, int wait_ms, int *fd_out, struct err *e) {
    enum { RETRY_MS = 20, HOLDER_BYTES_MAX = 200 };
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot open lock '%s'", path);
    int64_t deadline_ms = clock_mono_ms() + wait_ms;
    while (file_lock_fd(fd, F_WRLCK, false) < 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
            err_errno(e, ERR_SYS, "cannot lock '%s'", path);
            close(fd);
            return -1;
        }
        if (clock_mono_ms() >= deadline_ms) {
            char holder[HOLDER_BYTES_MAX + 1];
            ssize_t n = pread(fd, holder, HOLDER_BYTES_MAX, 0);
            holder[n > 0 ? n : 0] = '\0';
            holder[strcspn(holder, "\n")] = '\0';
            close(fd);
            return err_set(e, ERR_BUSY, "'%s' is locked by %s", path,
                           holder[0] ? holder : "another process");
        }
        // There is no timed form; a lock is contended by people, not by loops.
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000}, NULL);
    }
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_nlink == 0) {
        close(fd);
        return err_set(e, ERR_NOT_FOUND, "the holder of lock '%s' removed it", path);
    }
    char text[HOLDER_BYTES_MAX];
    int n = snprintf(text, sizeof text, "pid %d: %s\n", (int)getpid(), purpose);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) < 0) {
        err_errno(e, ERR_SYS, "cannot write lock '%s'", path);
        close(fd);
        return -1;
    }
    *fd_out = fd;
    return 0;
}

int file_disk_free(const char *path, uint64_t *bytes, struct err *e) {
    struct statvfs v;
    if (statvfs(path, &v) < 0)
        return err_errno(e, ERR_SYS, "cannot ask for free space at '%s'", path);
    *bytes = (uint64_t)v.f_bavail * v.f_frsize;
    return 0;
}
