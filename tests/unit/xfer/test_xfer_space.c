// SPDX-License-Identifier: Apache-2.0
// The receiver refuses a list that the disks of its store and destination have no space for, before
// content travels. Small file systems of known size stand in for the disks.
#include "tests/unit/xfer/memory.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

enum { MIB = 1 << 20, SHARED = PLACE_LINK_BYTES_MIN, FILES_MAX = 3 };

static bool mount_disks(void) {
    static const struct {
        const char *name, *type, *size;
    } disks[] = {{"24", "tmpfs", "size=24m"},
                 {"24b", "tmpfs", "size=24m"},
                 {"8", "tmpfs", "size=8m"},
                 {"shares", "ramfs", NULL}}; // can share bytes, says that it has no space
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return false;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    for (size_t i = 0; i < sizeof disks / sizeof *disks; i++)
        if (mkdir(path_of(disks[i].name), 0755) < 0 ||
            mount(disks[i].type, path_of(disks[i].name), disks[i].type, 0, disks[i].size) < 0)
            return false;
    return true;
}

static uint64_t free_of(const char *disk) {
    struct statvfs v;
    if (statvfs(path_of(disk), &v) < 0)
        bail_out("no disk '%s'", disk);
    return (uint64_t)v.f_bavail * v.f_frsize;
}

// The receiver's answer to a list; content does not follow.
static int answer_to(const struct manifest *m, const char *dest, const char *store, bool keep,
                     struct err *e) {
    struct receive_config config = {
        .dest = path_of(dest), .store = path_of(store), .keep = keep, .acks = true};
    struct run t = {0};
    if (xfer_receive_open(&t.r, &config, e) < 0)
        bail_out("%s", e->text);
    int rc = run_list(&t, m);
    *e = t.err;
    ok(rc < 0 || t.ready, "a list without an error is answered");
    xfer_receive_close(&t.r);
    xfer_send_plan_fini(&t.plan);
    xfer_unpacker_fini(&t.to_r);
    xfer_unpacker_fini(&t.to_s);
    strbuf_fini(&t.forth);
    strbuf_fini(&t.back);
    return rc;
}

// The answer to new files of these sizes; 0 ends them.
static int answer_to_new(const uint64_t *sizes, const char *dest, const char *store, bool keep,
                         struct err *e) {
    struct manifest *m = manifest_new();
    for (size_t i = 0; i < FILES_MAX && sizes[i]; i++) {
        const char *name = arena_printf(&arena, "f%zu", i);
        struct manifest_entry n = {.path = name,
                                   .kind = MANIFEST_FILE,
                                   .size = sizes[i],
                                   .hash = {1 + (unsigned char)i},
                                   .hashed = true};
        if (manifest_append(m, &n, e) < 0)
            bail_out("%s", e->text);
    }
    int rc = answer_to(m, dest, store, keep, e);
    manifest_free(m);
    return rc;
}

static void test_new_files(void) {
    static const struct {
        const char *name, *dest, *store;
        bool keep;
        uint64_t sizes[FILES_MAX];
        const char *error; // NULL: there is space
    } rows[] = {
        {"a kept file is placed as a copy", "24/d", "24/s", true, {SHARED - 1}, "33.6 MB"},
        {"a kept file is shared", "24/d", "24/s", true, {SHARED}, NULL},
        {"a file that is not kept is there once", "24/d", "24/d/s", false, {SHARED - 1}, NULL},
        {"all files are counted", "24/d", "24/s", true, {SHARED, 3 * MIB, 3 * MIB}, "29.4 MB"},
        {"two files have space", "24/d", "24/s", true, {SHARED, 3 * MIB}, NULL},
        {"each of two disks has one copy", "24/d", "24b/s", true, {SHARED - 1, 7 * MIB}, NULL},
        {"the disk of the store is too small", "24/d", "8/s", true, {9 * MIB}, "9.4 MB"},
        {"the disk of the destination is too small", "8/d", "24/s", true, {9 * MIB}, "9.4 MB"},
        {"disks apart share no file", "8/d", "24/s", true, {SHARED}, "16.8 MB"},
        {"parts that are not kept have their own disk", "8/d", "24/s", false, {9 * MIB}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        int rc = answer_to_new(rows[i].sizes, rows[i].dest, rows[i].store, rows[i].keep, &e);
        is_int(rc, rows[i].error ? -1 : 0, "%s", rows[i].name);
        if (!rows[i].error)
            continue;
        is_int(e.code, ERR_LIMIT, "%s: the error is of a limit", rows[i].name);
        has_str(e.text, arena_printf(&arena, "needs %s more", rows[i].error),
                "%s: the error has the bytes", rows[i].name);
    }
}

// Of the smallest disk.
static void test_all_space(void) {
    static const struct {
        const char *name, *dest, *store;
        bool keep;
        unsigned copies;
    } rows[] = {{"parts", "8/d", "8/d/s", false, 1},
                {"a store with its destination", "8/d", "8/s", true, 2},
                {"a store alone", "24/d", "8/s", true, 1},
                {"a destination alone", "8/d", "24/s", true, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *dest = rows[i].dest, *store = rows[i].store;
        struct err e = {0};
        (void)answer_to_new((const uint64_t[FILES_MAX]){1}, dest, store, rows[i].keep, &e);
        uint64_t size = free_of("8") / rows[i].copies;
        is_int(answer_to_new((const uint64_t[FILES_MAX]){size}, dest, store, rows[i].keep, &e), 0,
               "%s may take all free space%s", rows[i].name, e.text);
        is_int(answer_to_new((const uint64_t[FILES_MAX]){size + 1}, dest, store, rows[i].keep, &e),
               -1, "%s may not take one byte more", rows[i].name);
    }
}

// Leaves so many bytes of a disk.
static void fill(const char *disk, const char *file, uint64_t leave) {
    uint64_t bytes = free_of(disk);
    if (bytes < leave || shell(arena_printf(&arena, "head -c %ju /dev/zero >%s/%s",
                                            (uintmax_t)(bytes - leave), path_of(disk), file)) != 0)
        bail_out("cannot fill '%s'", disk);
}

static void remove_dest(void) {
    if (shell(arena_printf(&arena, "rm -r %s/d", path_of("24b"))) != 0)
        bail_out("no folder to remove");
}

// Content that is here already.
static void test_old_files(void) {
    struct err e = {0};
    struct run t = {0};
    char *bytes = heap_alloc(6 * MIB);
    memset(bytes, 'x', 6 * MIB);
    put("old/file", bytes, 6 * MIB, 0644);
    free(bytes);
    struct manifest *m = scan("old");
    is_int(transfer(&t, m, "24b/d", "24b/s", false, true), 0, "a file is sent%s", t.err.text);
    (void)plan_bytes(&t);
    fill("24b", "fill", 5 * MIB);
    is_int(answer_to(m, "24b/d", "24b/s", true, &e), 0,
           "a file that is in its place needs no space%s", e.text);
    remove_dest();
    is_int(answer_to(m, "24b/d", "24b/s", true, &e), 0, "a copy of a stored file has space%s",
           e.text);
    remove_dest();
    fill("24b", "more", 5 * MIB);
    is_int(answer_to(m, "24b/d", "24b/s", true, &e), -1, "a copy of a stored file needs space");
    has_str(e.text, "needs 6.3 MB more", "the error has the bytes of the copy");
    manifest_free(m);
}

// A file system that can share the bytes of two files copies only files of batches.
static void test_shared_bytes(void) {
    static const struct {
        const char *name;
        size_t size;
        int result;
    } rows[] = {{"a stored file as small as those in batches is copied", XFER_SMALL_BYTES_MAX, -1},
                {"a stored file that is larger shares its bytes", XFER_SMALL_BYTES_MAX + 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct err e = {0};
        struct run t = {0};
        char *bytes = heap_alloc(rows[i].size);
        memset(bytes, 'a' + (int)i, rows[i].size);
        put(arena_printf(&arena, "batch%zu/file", i), bytes, rows[i].size, 0644);
        free(bytes);
        struct manifest *m = scan(arena_printf(&arena, "batch%zu", i));
        is_int(transfer(&t, m, "plain", "plain-store", false, true), 0, "a file is sent%s",
               t.err.text);
        (void)plan_bytes(&t);
        if (shell(arena_printf(&arena, "cp -a %s %s/s%zu", path_of("plain-store"),
                               path_of("shares"), i)) != 0)
            bail_out("no copy of the store");
        is_int(answer_to(m, "shares/d", arena_printf(&arena, "shares/s%zu", i), true, &e),
               rows[i].result, "%s", rows[i].name);
        manifest_free(m);
    }
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    if (!mount_disks()) {
        skip(1, "this machine mounts no small disk for a test");
    } else {
        test_new_files();
        test_all_space();
        test_old_files();
        test_shared_bytes();
    }
    shell(arena_printf(&arena, "cd /; umount %s/24 %s/24b %s/8 %s/shares; rm -rf %s", folder,
                       folder, folder, folder, folder));
    arena_fini(&arena);
    return done_testing();
}
