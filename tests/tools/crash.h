// SPDX-License-Identifier: Apache-2.0
// The possible states of files after a power failure. Included once, by each program of tests/tools
// that checks them.
//
// Calls that change files below a folder are recorded while the real functions run: such a program
// has its own open, write, fsync, rename, mkdir, unlinkat and so on. Then the machine "stops" after
// each call. All that fsync promised is present: a file's content after fsync of the file, a name
// after fsync of its folder, everything after syncfs. Of the rest any part may be present, in any
// order that keeps the order of calls with the same name; content may be partial. Each such state
// is created and read as at a start: a complete version must exist, and it must not be older than
// the last one that was reported as written. Pillai et al., "All file systems are not created
// equal", OSDI 2014.
#ifndef TESTS_TOOLS_CRASH_H
#define TESTS_TOOLS_CRASH_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OPS_MAX = 512, PENDING_MAX = 10, SUBSETS_MAX = 64, VERSIONS = 4, PATH_BYTES = 256 };

enum kind {
    MAKE_DIR,
    CREATE,
    WRITE,
    SYNC,
    SYNC_DIR,
    SYNC_DISK,
    RENAME,
    EXCHANGE,
    REMOVE,
    REMOVE_DIR
};

struct op {
    enum kind kind;
    char path[PATH_BYTES], to[PATH_BYTES]; // below the root
    ino_t inode;                           // of what was made; numbers are used again
    int id, parent;                        // of what was made, written or synced; of its folder
    char *data;
    size_t len;
    int done; // versions that were reported as written before it
};

static struct op ops[OPS_MAX];
static int op_count, versions_done;
static const char *root; // recorded below it; NULL: nothing is
static bool no_exchange, no_sync;

// ---- the recorder -------------------------------------------------------------------------------
#if defined(__x86_64__)
static long raw(long n, long a, long b, long c, long d, long e) {
    long r;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    if (r < 0) {
        errno = (int)-r;
        return -1;
    }
    return r;
}
#elif defined(__aarch64__)
static long raw(long n, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                     x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    if (x0 < 0) {
        errno = (int)-x0;
        return -1;
    }
    return x0;
}
#endif

static bool below(const char *path) {
    size_t n = root ? strlen(root) : 0;
    return root && strncmp(path, root, n) == 0 && (path[n] == '/' || !path[n]);
}

static ino_t inode_of(const char *path) {
    struct stat st = {0};
    return stat(path, &st) < 0 ? 0 : st.st_ino;
}

// The call, counted from 1, that made what has that inode now; 0: the root.
static int maker(ino_t inode) {
    int i = op_count;
    while (i > 0 && !((ops[i - 1].kind == CREATE || ops[i - 1].kind == MAKE_DIR) &&
                      ops[i - 1].inode == inode))
        i--;
    return i;
}

static int parent_of(const char *path) {
    struct arena a = {0};
    int id = maker(inode_of(file_dir(&a, path)));
    arena_fini(&a);
    return id;
}

static struct op *note(enum kind kind, const char *path) {
    if (op_count == OPS_MAX)
        bail_out("more than %d calls", OPS_MAX);
    struct op *o = &ops[op_count];
    *o = (struct op){.kind = kind, .done = versions_done, .parent = parent_of(path)};
    snprintf(o->path, sizeof o->path, "%s", path + strlen(root));
    bool made = kind == CREATE || kind == MAKE_DIR;
    o->inode = made ? inode_of(path) : 0;
    o->id = made ? op_count + 1 : 0;
    op_count++;
    return o;
}

static const char *path_of(int fd, char out[PATH_BYTES]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    return out;
}

static const char *full(int dir, const char *name, char out[2 * PATH_BYTES]) {
    char at[PATH_BYTES];
    if (dir == AT_FDCWD || name[0] == '/')
        snprintf(out, 2 * PATH_BYTES, "%s", name);
    else
        snprintf(out, 2 * PATH_BYTES, "%s/%s", path_of(dir, at), name);
    return out;
}

static int open_at(int dir, const char *name, int flags, int mode) {
    char path[2 * PATH_BYTES];
    bool made = (flags & O_CREAT) && below(full(dir, name, path)) && !file_exists(path);
    int fd = (int)raw(SYS_openat, dir, (long)name, flags, mode, 0);
    if (fd >= 0 && made)
        note(CREATE, path);
    return fd;
}

int recorded_open(const char *path, int flags, ...) __asm__("open");
int recorded_open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return open_at(AT_FDCWD, path, flags, mode);
}

int recorded_openat(int dir, const char *name, int flags, ...) __asm__("openat");
int recorded_openat(int dir, const char *name, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    return open_at(dir, name, flags, mode);
}

static void note_written(int fd, const void *p, ssize_t n) {
    char path[PATH_BYTES];
    struct stat st;
    if (n <= 0 || !below(path_of(fd, path)) || fstat(fd, &st) < 0)
        return;
    struct op *o = note(WRITE, path);
    o->id = maker(st.st_ino);
    o->len = (size_t)n;
    o->data = malloc((size_t)n);
    memcpy(o->data, p, (size_t)n);
}

ssize_t recorded_write(int fd, const void *p, size_t len) __asm__("write");
ssize_t recorded_write(int fd, const void *p, size_t len) {
    ssize_t n = raw(SYS_write, fd, (long)p, (long)len, 0, 0);
    note_written(fd, p, n);
    return n;
}

// At the end of the file, each time.
ssize_t recorded_pwrite(int fd, const void *p, size_t len, off_t at) __asm__("pwrite");
ssize_t recorded_pwrite(int fd, const void *p, size_t len, off_t at) {
    struct stat st;
    must(fstat(fd, &st) == 0 && (!root || st.st_size == at));
    ssize_t n = raw(SYS_pwrite64, fd, (long)p, (long)len, at, 0);
    note_written(fd, p, n);
    return n;
}

int recorded_syncfs(int fd) __asm__("syncfs");
int recorded_syncfs(int fd) {
    char path[PATH_BYTES];
    if (below(path_of(fd, path)) && !no_sync)
        note(SYNC_DISK, path);
    return 0; // the machine does not really stop
}

int recorded_fsync(int fd) __asm__("fsync");
int recorded_fsync(int fd) {
    char path[PATH_BYTES];
    struct stat st;
    if (below(path_of(fd, path)) && fstat(fd, &st) == 0 && !no_sync)
        note(S_ISDIR(st.st_mode) ? SYNC_DIR : SYNC, path)->id = maker(st.st_ino);
    return 0;
}

static int make_dir(int dir, const char *name, mode_t mode) {
    char path[2 * PATH_BYTES];
    int r = (int)raw(SYS_mkdirat, dir, (long)name, mode, 0, 0);
    if (r == 0 && below(full(dir, name, path)) && strcmp(path, root) != 0)
        note(MAKE_DIR, path);
    return r;
}

int recorded_mkdir(const char *path, mode_t mode) __asm__("mkdir");
int recorded_mkdir(const char *path, mode_t mode) {
    return make_dir(AT_FDCWD, path, mode);
}

int recorded_mkdirat(int dir, const char *name, mode_t mode) __asm__("mkdirat");
int recorded_mkdirat(int dir, const char *name, mode_t mode) {
    return make_dir(dir, name, mode);
}

static int rename_as(enum kind kind, const char *from, const char *to, unsigned flags) {
    struct op *o = below(from) ? note(kind, from) : NULL;
    if (o)
        snprintf(o->to, sizeof o->to, "%s", to + strlen(root));
    int r = (int)raw(SYS_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, flags);
    op_count -= o && r < 0;
    return r;
}

int recorded_rename(const char *from, const char *to) __asm__("rename");
int recorded_rename(const char *from, const char *to) {
    return rename_as(RENAME, from, to, 0);
}

int recorded_renameat(int from_dir, const char *from, int to_dir,
                      const char *to) __asm__("renameat");
int recorded_renameat(int from_dir, const char *from, int to_dir, const char *to) {
    char a[2 * PATH_BYTES], b[2 * PATH_BYTES];
    return rename_as(RENAME, full(from_dir, from, a), full(to_dir, to, b), 0);
}

// Only the exchange uses it.
long recorded_syscall(long n, ...) __asm__("syscall");
long recorded_syscall(long n, ...) {
    va_list ap;
    va_start(ap, n);
    (void)va_arg(ap, int);
    const char *from = va_arg(ap, const char *);
    (void)va_arg(ap, int);
    const char *to = va_arg(ap, const char *);
    va_end(ap);
    must(n == SYS_renameat2);
    if (no_exchange) {
        errno = EINVAL;
        return -1;
    }
    return rename_as(EXCHANGE, from, to, RENAME_EXCHANGE);
}

static int take_away(int dir, const char *name, int flags) {
    char path[2 * PATH_BYTES];
    struct op *o = below(full(dir, name, path))
                       ? note(flags & AT_REMOVEDIR ? REMOVE_DIR : REMOVE, path)
                       : NULL;
    int r = (int)raw(SYS_unlinkat, dir, (long)name, flags, 0, 0);
    op_count -= o && r < 0;
    return r;
}

int recorded_unlinkat(int dir, const char *name, int flags) __asm__("unlinkat");
int recorded_unlinkat(int dir, const char *name, int flags) {
    return take_away(dir, name, flags);
}

int recorded_unlink(const char *path) __asm__("unlink");
int recorded_unlink(const char *path) {
    return take_away(AT_FDCWD, path, 0);
}

int recorded_rmdir(const char *path) __asm__("rmdir");
int recorded_rmdir(const char *path) {
    return take_away(AT_FDCWD, path, AT_REMOVEDIR);
}

// ---- what may be left ---------------------------------------------------------------------------
static bool is_entry(const struct op *o) {
    return o->kind != WRITE && o->kind != SYNC && o->kind != SYNC_DIR && o->kind != SYNC_DISK;
}

// a is b, or a folder above it.
static bool covers(const char *a, const char *b) {
    size_t n = strlen(a);
    return n > 0 && strncmp(a, b, n) == 0 && (!b[n] || b[n] == '/');
}

// Whether op j can only be there when op i is: they share a name, or i made, moved or removed a
// folder that j goes through, or j removes a folder that i emptied.
static bool needs(const struct op *j, const struct op *i) {
    if (covers(i->path, j->path) || covers(i->to, j->path))
        return true;
    if (*j->to && (covers(i->path, j->to) || covers(i->to, j->to)))
        return true;
    return j->kind == REMOVE_DIR && covers(j->path, i->path);
}

static void close_up(bool *in, int count) { // everything that what is in needs
    for (int j = count - 1; j >= 0; j--)
        for (int i = 0; in[j] && i < j; i++)
            if (is_entry(&ops[i]) && is_entry(&ops[j]) && needs(&ops[j], &ops[i]))
                in[i] = true;
}

static void promised(bool *in, int count) {
    memset(in, 0, OPS_MAX * sizeof *in);
    for (int s = 0; s < count; s++)
        for (int i = 0; i < s; i++)
            if (is_entry(&ops[i]) && (ops[s].kind == SYNC_DISK ||
                                      (ops[s].kind == SYNC_DIR && ops[i].parent == ops[s].id)))
                in[i] = true;
    close_up(in, count);
}

static uint64_t random_state;
static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

// The bytes of a file that are there: all up to the last fsync, and a random part of the rest.
static size_t bytes_left(int id, int count) {
    size_t sure = 0, all = 0;
    for (int i = 0; i < count; i++) {
        all += ops[i].kind == WRITE && ops[i].id == id ? ops[i].len : 0;
        if (ops[i].kind == SYNC_DISK || (ops[i].kind == SYNC && ops[i].id == id))
            sure = all;
    }
    if (sure == all)
        return all;
    uint32_t choice = random_below(4);
    return choice == 0 ? sure : choice == 1 ? all : sure + random_below((uint32_t)(all - sure));
}

static void put_file(const char *path, int id, int count) {
    FILE *f = fopen(path, "w");
    size_t left = bytes_left(id, count);
    for (int i = 0; f && i < count && left; i++) {
        if (ops[i].kind != WRITE || ops[i].id != id)
            continue;
        size_t n = ops[i].len < left ? ops[i].len : left;
        left -= fwrite(ops[i].data, 1, n, f);
    }
    if (!f || fclose(f) != 0)
        bail_out("cannot write %s", path);
}

static void lay_out(const char *dir, const bool *in, int count) {
    struct err e;
    char path[2 * PATH_BYTES], to[2 * PATH_BYTES];
    if (file_remove_tree(dir, &e) < 0 || file_make_dirs(dir, 0755, &e) < 0)
        bail_out("%s", e.text);
    for (int i = 0; i < count; i++) {
        const struct op *o = &ops[i];
        if (!in[i])
            continue;
        snprintf(path, sizeof path, "%s%s", dir, o->path);
        snprintf(to, sizeof to, "%s%s", dir, o->to);
        switch (o->kind) {
        case MAKE_DIR: mkdir(path, 0755); break;
        case CREATE: put_file(path, o->id, count); break;
        case RENAME: rename(path, to); break;
        case EXCHANGE: rename_as(EXCHANGE, path, to, RENAME_EXCHANGE); break;
        case REMOVE: unlinkat(AT_FDCWD, path, 0); break;
        case REMOVE_DIR: unlinkat(AT_FDCWD, path, AT_REMOVEDIR); break;
        default: break;
        }
    }
}

// ---- stopping ----------------------------------------------------------------------------------
struct scenario {
    const char *name;
    void (*write)(const struct scenario *c, int version); // below `root`; it must not fail
    int (*read)(const char *dir); // the version that a start finds; 0: none; -1: one that never was
    int64_t steps;                // the program's own, like too_early
    bool no_exchange;             // of two names
    bool too_early, no_sync;      // faults made on purpose: they must be found
};

static void record(const struct scenario *c, const char *dir) {
    struct err e;
    for (int i = 0; i < op_count; i++)
        free(ops[i].data);
    op_count = versions_done = 0;
    if (file_remove_tree(dir, &e) < 0 || file_make_dirs(dir, 0755, &e) < 0)
        bail_out("%s", e.text);
    no_exchange = c->no_exchange;
    no_sync = c->no_sync;
    root = dir;
    for (int v = 1; v < VERSIONS; v++) {
        c->write(c, v);
        versions_done = v;
    }
    root = NULL;
}

static int states, faults;

static void try(const struct scenario *c, const char *dir, const bool *in, int count, int done) {
    lay_out(dir, in, count);
    int found = c->read(dir);
    states++;
    if (found >= done)
        return;
    if (++faults > 3 || c->too_early || c->no_sync)
        return;
    diag("%s: stopped after call %d of %d: version %d of %d is left", c->name, count, op_count,
         found, done);
    for (int i = 0; i < count; i++)
        if (is_entry(&ops[i]))
            diag("  %s call %d: kind %d %s %s", in[i] ? "done" : "lost", i, (int)ops[i].kind,
                 ops[i].path, ops[i].to);
}

// Every closed subset of what may be missing where that is little, else some of them.
static void stop_after(const struct scenario *c, const char *dir, int count) {
    bool sure[OPS_MAX], in[OPS_MAX];
    int pending[OPS_MAX], open_ops = 0;
    int done = count < op_count ? ops[count].done : versions_done;
    promised(sure, count);
    for (int i = 0; i < count; i++)
        if (is_entry(&ops[i]) && !sure[i])
            pending[open_ops++] = i;
    uint32_t all = open_ops <= PENDING_MAX ? 1u << open_ops : SUBSETS_MAX;
    uint32_t tries = all < SUBSETS_MAX ? all : SUBSETS_MAX;
    for (uint32_t t = 0; t < tries; t++) {
        memcpy(in, sure, sizeof in);
        for (int i = 0; i < open_ops; i++)
            in[pending[i]] = tries == all && open_ops <= PENDING_MAX ? t >> i & 1
                             : t == 0                                ? true
                                                                     : random_below(2);
        close_up(in, count);
        try(c, dir, in, count, done);
    }
}

static bool on_purpose(const struct scenario *c) {
    return c->too_early || c->no_sync;
}

// PROGRAM SECONDS SEED FOLDER
static int crash_main(int argc, char **argv, const struct scenario *all, int count) {
    struct arena a = {0};
    struct err e;
    int64_t seconds, seed;
    if (argc != 4 || str_parse_i64(argv[1], 0, 1 << 20, &seconds, &e) < 0 ||
        str_parse_i64(argv[2], 0, INT64_MAX, &seed, &e) < 0)
        bail_out("usage: %s SECONDS SEED FOLDER", file_base(argv[0]));
    int64_t until = clock_mono_ms() + seconds * 1000;
    int *found = arena_new(&a, int, (size_t)count), rounds = 0, total = 0;
    random_state = (uint64_t)seed;
    log_open("crash", LOG_ERROR, LOG_PLAIN);
    do {
        rounds++;
        for (int i = 0; i < count; i++) {
            record(&all[i], file_join(&a, argv[3], "made"));
            faults = 0;
            for (int n = 1; n <= op_count && !(on_purpose(&all[i]) && found[i] + faults); n++)
                stop_after(&all[i], file_join(&a, argv[3], "left"), n);
            found[i] += faults;
            total += on_purpose(&all[i]) ? 0 : faults;
        }
    } while (clock_mono_ms() < until && total == 0);
    for (int i = 0; i < count; i++) {
        if (on_purpose(&all[i]))
            ok(found[i] > 0, "%s: that is found", all[i].name);
        else
            is_int(found[i], 0, "%s: there is always a whole version", all[i].name);
    }
    diag("%s: seed=%s rounds=%d states=%d faults=%d", file_base(argv[0]), argv[2], rounds, states,
         total);
    arena_fini(&a);
    return done_testing();
}

#endif
