// SPDX-License-Identifier: Apache-2.0
// crash_states SECONDS SEED FOLDER: what a power loss may leave of checkpoints and of files that
// are written atomically.
//
// Calls that change files below a folder are recorded while the real functions run: this program
// has its own open, write, fsync, rename, mkdir, unlinkat and syscall. Then the machine "stops"
// after each of them. What fsync promised is there: a file's content after fsync of the file, a
// name after fsync of its folder. Of the rest any part may be there, in any order that keeps the
// order of calls with the same name; content may be there in part. Each such state is laid out and
// read as a start does it: there must be a whole version, and none older than the last one that was
// reported as written. Pillai et al., "All file systems are not created equal", OSDI 2014.
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "nn/checkpoint.h"
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

enum kind { MAKE_DIR, CREATE, WRITE, SYNC, SYNC_DIR, RENAME, EXCHANGE, REMOVE, REMOVE_DIR };

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

int recorded_open(const char *path, int flags, ...) __asm__("open");
int recorded_open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    int mode = flags & O_CREAT ? va_arg(ap, int) : 0;
    va_end(ap);
    bool made = (flags & O_CREAT) && below(path) && !file_exists(path);
    int fd = (int)raw(SYS_openat, AT_FDCWD, (long)path, flags, mode, 0);
    if (fd >= 0 && made)
        note(CREATE, path);
    return fd;
}

ssize_t recorded_write(int fd, const void *p, size_t len) __asm__("write");
ssize_t recorded_write(int fd, const void *p, size_t len) {
    char path[PATH_BYTES];
    struct stat st;
    ssize_t n = raw(SYS_write, fd, (long)p, (long)len, 0, 0);
    if (n > 0 && below(path_of(fd, path)) && fstat(fd, &st) == 0) {
        struct op *o = note(WRITE, path);
        o->id = maker(st.st_ino);
        o->len = (size_t)n;
        o->data = malloc((size_t)n);
        memcpy(o->data, p, (size_t)n);
    }
    return n;
}

int recorded_fsync(int fd) __asm__("fsync");
int recorded_fsync(int fd) {
    char path[PATH_BYTES];
    struct stat st;
    if (below(path_of(fd, path)) && fstat(fd, &st) == 0 && !no_sync)
        note(S_ISDIR(st.st_mode) ? SYNC_DIR : SYNC, path)->id = maker(st.st_ino);
    return 0; // the machine does not really stop
}

int recorded_mkdir(const char *path, mode_t mode) __asm__("mkdir");
int recorded_mkdir(const char *path, mode_t mode) {
    int r = (int)raw(SYS_mkdirat, AT_FDCWD, (long)path, mode, 0, 0);
    if (r == 0 && below(path) && strcmp(path, root) != 0)
        note(MAKE_DIR, path);
    return r;
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

// lib/nn has no other use of it than the exchange.
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

int recorded_unlinkat(int dir, const char *name, int flags) __asm__("unlinkat");
int recorded_unlinkat(int dir, const char *name, int flags) {
    char at[PATH_BYTES], path[2 * PATH_BYTES];
    if (dir == AT_FDCWD || name[0] == '/')
        snprintf(path, sizeof path, "%s", name);
    else
        snprintf(path, sizeof path, "%s/%s", path_of(dir, at), name);
    struct op *o = below(path) ? note(flags & AT_REMOVEDIR ? REMOVE_DIR : REMOVE, path) : NULL;
    int r = (int)raw(SYS_unlinkat, dir, (long)name, flags, 0, 0);
    op_count -= o && r < 0;
    return r;
}

// ---- what may be left ---------------------------------------------------------------------------
static bool is_entry(const struct op *o) {
    return o->kind != WRITE && o->kind != SYNC && o->kind != SYNC_DIR;
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
        for (int i = 0; i < s && ops[s].kind == SYNC_DIR; i++)
            if (is_entry(&ops[i]) && ops[i].parent == ops[s].id)
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
        sure = ops[i].kind == SYNC && ops[i].id == id ? all : sure;
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

// ---- what is written, and read -----------------------------------------------------------------
static struct nn_model model;
static struct network net;

static void take(struct checkpoint_image *image, int version, int64_t step) {
    struct optimizer o = {.kind = OPTIMIZER_SGD, .momentum = 0.9};
    struct train_position at = {.step = step, .consumed = version, .samples = 100};
    struct epoch_record none = {0};
    float v = (float)version;
    network_set(&net, net.params, 0, 1, &v);
    checkpoint_image_take(image, &net, &o, &at, &none);
}

// The version that a start would go on from; 0: none.
static int read_checkpoint(const char *dir) {
    int64_t steps[VERSIONS];
    checkpoint_adopt(dir);
    int count = checkpoint_list(dir, steps, VERSIONS);
    for (int i = 0; i < count; i++) {
        char path[FILE_PATH_BYTES_MAX];
        struct optimizer o = {.kind = OPTIMIZER_SGD, .momentum = 0.9};
        struct train_position at;
        static struct epoch_record epochs[CHECKPOINT_EPOCHS_MAX];
        struct err why;
        float v;
        checkpoint_path(dir, steps[i], path, sizeof path);
        if (checkpoint_read(&net, &o, path, &at, epochs, &why) < 0)
            continue;
        network_get(&net, net.params, 0, 1, &v);
        return (int64_t)v == at.consumed ? (int)v : 0; // both files are of one version
    }
    return 0;
}

static int read_file(const char *dir) {
    struct arena a = {0};
    struct err why;
    char *text;
    size_t len;
    int64_t version = 0;
    if (file_read(&a, file_join(&a, dir, "f"), 1 << 20, &text, &len, &why) == 0 &&
        (len != 5000 || str_parse_i64(text + 4990, 0, 100, &version, &why) < 0))
        version = 0;
    arena_fini(&a);
    return (int)version;
}

struct scenario {
    const char *name;
    int64_t steps; // between two versions; 0: each replaces the one before
    bool file;     // one file by file_write_atomic instead of checkpoints
    bool no_exchange;
    bool remove_first, no_sync; // faults made on purpose: they must be found
};

static void write_version(const struct scenario *c, struct checkpoint_image *image, int version) {
    struct err e;
    char path[FILE_PATH_BYTES_MAX], text[5001];
    int64_t step = 4 + c->steps * version;
    int r;
    if (c->file) {
        snprintf(text, sizeof text, "%05000d", version);
        snprintf(path, sizeof path, "%s/f", root);
        r = file_write_atomic(path, text, 5000, 0644, &e);
    } else {
        take(image, version, step);
        checkpoint_path(root, step, path, sizeof path);
        if (c->remove_first)
            file_remove_tree(path, &e);
        r = checkpoint_write(image, root, 1, &e);
    }
    if (r < 0)
        bail_out("%s", e.text);
    versions_done = version;
}

static void record(const struct scenario *c, const char *dir) {
    struct checkpoint_image image;
    struct err e;
    for (int i = 0; i < op_count; i++)
        free(ops[i].data);
    op_count = versions_done = 0;
    if (file_remove_tree(dir, &e) < 0 || file_make_dirs(dir, 0755, &e) < 0)
        bail_out("%s", e.text);
    checkpoint_image_init(&image, &net);
    no_exchange = c->no_exchange;
    no_sync = c->no_sync;
    root = dir;
    for (int v = 1; v < VERSIONS; v++)
        write_version(c, &image, v);
    root = NULL;
    checkpoint_image_fini(&image);
}

static int states, faults, first_fault;

static void try(const struct scenario *c, const char *dir, const bool *in, int count, int done) {
    lay_out(dir, in, count);
    int found = c->file ? read_file(dir) : read_checkpoint(dir);
    states++;
    if (found >= done || done == 0)
        return;
    if (faults++ == 0)
        first_fault = count;
    if (faults > 3 || c->remove_first || c->no_sync)
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

static void setup(void) {
    struct nn_model_spec spec = {
        .name = "mlp", .hidden = {2}, .nhidden = 1, .h = 1, .w = 1, .c = 3, .classes = 2};
    struct network_config config = {
        .model = &model, .backend = &kernels_reference, .batch = 1, .states = 1};
    struct err e;
    if (model_build(&model, &spec, &e) < 0 || network_open(&net, &config, &e) < 0)
        bail_out("%s", e.text);
}

int main(int argc, char **argv) {
    static const struct scenario all[] = {
        {.name = "checkpoints one after the other", .steps = 4},
        {.name = "checkpoints of one step"},
        {.name = "the same, without an exchange of names", .no_exchange = true},
        {.name = "files written atomically", .file = true},
        {.name = "the old one is removed first", .remove_first = true},
        {.name = "checkpoints without fsync", .steps = 4, .no_sync = true},
        {.name = "files without fsync", .file = true, .no_sync = true},
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    struct arena a = {0};
    struct err e;
    int64_t seconds, seed;
    if (argc != 4 || str_parse_i64(argv[1], 0, 1 << 20, &seconds, &e) < 0 ||
        str_parse_i64(argv[2], 0, INT64_MAX, &seed, &e) < 0)
        bail_out("usage: crash_states SECONDS SEED FOLDER");
    int64_t until = clock_mono_ms() + seconds * 1000;
    random_state = (uint64_t)seed;
    log_open("crash_states", LOG_ERROR, LOG_PLAIN);
    setup();
    int found[COUNT] = {0}, rounds = 0, total = 0;
    do {
        rounds++;
        for (int i = 0; i < COUNT; i++) {
            record(&all[i], file_join(&a, argv[3], "made"));
            faults = 0;
            bool on_purpose = all[i].remove_first || all[i].no_sync;
            for (int count = 1; count <= op_count && !(on_purpose && found[i] + faults); count++)
                stop_after(&all[i], file_join(&a, argv[3], "left"), count);
            found[i] += faults;
            total += on_purpose ? 0 : faults;
        }
    } while (clock_mono_ms() < until && total == 0);
    for (int i = 0; i < COUNT; i++) {
        if (all[i].remove_first || all[i].no_sync)
            ok(found[i] > 0, "%s: that is found", all[i].name);
        else
            is_int(found[i], 0, "%s: there is always a whole version", all[i].name);
    }
    diag("crash: seed=%s rounds=%d states=%d faults=%d", argv[2], rounds, states, total);
    network_close(&net);
    arena_fini(&a);
    return done_testing();
}
