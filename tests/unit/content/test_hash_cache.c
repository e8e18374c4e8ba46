// SPDX-License-Identifier: Apache-2.0
// The cache of hashes: its slots, its file and other users of the file.
#include "content/hash_cache.h"

#include "base/bytes.h"
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BOOT_BYTES = 36, ENTRY_BYTES = 5 * 8 + HASH_BYTES };

static char folder[] = "/tmp/test_hash_cache.XXXXXX";
static struct arena arena;
static struct err e;

static const char *in_folder(const char *name) {
    return file_join(&arena, folder, name);
}

// A file that exists for the cache alone; each has a hash of its own.
static struct stat file_of(uint64_t device, uint64_t inode) {
    struct stat st = {.st_dev = device, .st_ino = inode, .st_size = 3};
    st.st_mtim.tv_sec = 5;
    st.st_ctim.tv_sec = 6;
    return st;
}

static void put(struct hash_cache *c, const struct stat *st, int more) {
    unsigned char hash[HASH_BYTES];
    uint64_t key[] = {st->st_dev, st->st_ino, (uint64_t)more};
    hash_of(hash, key, sizeof key);
    hash_cache_put(c, st, hash, HASH_CACHE_OWN);
}

// The cache has the hash that put() gave it.
static bool has(struct hash_cache *c, const struct stat *st, int more) {
    unsigned char want[HASH_BYTES], got[HASH_BYTES];
    uint64_t key[] = {st->st_dev, st->st_ino, (uint64_t)more};
    hash_of(want, key, sizeof key);
    return hash_cache_get(c, st, got) && memcmp(want, got, sizeof got) == 0;
}

static bool has_file(struct hash_cache *c, uint64_t inode) {
    struct stat st = file_of(1, inode);
    return has(c, &st, 0);
}

static void save_file(const char *path, uint64_t inode) {
    struct hash_cache c;
    struct stat st = file_of(1, inode);
    hash_cache_open(&c, path, false);
    put(&c, &st, 0);
    is_int(hash_cache_save(&c, &e), 0, "the cache with file %d is saved", (int)inode);
    hash_cache_fini(&c);
}

// ---- slots --------------------------------------------------------------------------------------

// 767 files are as many as the first table takes, so that many of them meet in one slot.
static void test_slots(void) {
    const char *path = in_folder("slots");
    struct hash_cache c;
    int good = 0, count = 0;
    hash_cache_open(&c, path, false);
    for (uint64_t i = 0; i < 767; i++, count++) {
        struct stat st = file_of(1 + i % 10, 1 + i / 10);
        put(&c, &st, 0);
    }
    is_uint(c.room, 1024, "the table is as full as it gets");
    for (uint64_t i = 0; i < 767; i++) {
        struct stat st = file_of(1 + i % 10, 1 + i / 10);
        good += has(&c, &st, 0);
    }
    is_int(good, count, "each file of one inode number on ten devices has its own hash");
    struct stat absent = file_of(11, 1);
    unsigned char hash[HASH_BYTES];
    ok(!hash_cache_get(&c, &absent, hash), "an inode number on a further device is not found");
    is_int(hash_cache_save(&c, &e), 0, "a full table is saved");
    hash_cache_fini(&c);
    hash_cache_open(&c, path, false);
    good = 0;
    for (uint64_t i = 0; i < 767; i++) {
        struct stat st = file_of(1 + i % 10, 1 + i / 10);
        good += has(&c, &st, 0);
    }
    is_int(good, count, "each file of a saved table has its own hash");
    is_uint(c.count, (unsigned)count, "a saved table has each file once");
    struct stat more = file_of(12, 1);
    put(&c, &more, 0);
    is_uint(c.room, 2048, "one more file makes a larger table");
    hash_cache_fini(&c);
}

static void test_grown(void) {
    struct hash_cache c;
    int good = 0;
    hash_cache_open(&c, NULL, false);
    for (uint64_t i = 1; i <= 3000; i++) {
        struct stat st = file_of(1, i);
        put(&c, &st, 0);
    }
    for (uint64_t i = 1; i <= 3000; i++)
        good += has_file(&c, i);
    is_int(good, 3000, "a table that has grown has every file");
    is_uint(c.count, 3000, "a table that has grown has each file once");
    ok(!has_file(&c, 3001), "a table that has grown has no other file");
    is_int(hash_cache_save(&c, &e), 0, "a cache without a file has nothing to save");
    hash_cache_renew(&c);
    ok(has_file(&c, 3000), "a cache without a file is not renewed");
    hash_cache_fini(&c);
}

// ---- what has to be equal -----------------------------------------------------------------------

static void test_changed_files(void) {
    struct hash_cache c;
    struct stat st = file_of(1, 7), other = st;
    hash_cache_open(&c, NULL, false);
    put(&c, &st, 0);
    ok(has(&c, &st, 0), "an unchanged file is found");
    other.st_size = 4;
    ok(!has(&c, &other, 0), "a file with another size is not found");
    other = st;
    other.st_mtim.tv_nsec = 1;
    ok(!has(&c, &other, 0), "a file with another mtime is not found");
    other = st;
    other.st_ctim.tv_nsec = 1;
    ok(!has(&c, &other, 0), "a file with another ctime is not found");
    put(&c, &other, 1);
    ok(has(&c, &other, 1) && !has(&c, &st, 0), "a new hash of a file is in place of the old one");
    is_uint(c.count, 1, "a file with a new hash counts once");
    other.st_ino = 0;
    put(&c, &other, 0);
    is_uint(c.count, 1, "a file without an inode number is left out");
    hash_cache_fini(&c);
}

static void test_fresh(void) {
    unsigned char hash[HASH_BYTES] = {1};
    struct hash_cache c;
    struct stat st = file_of(1, 7);
    int64_t ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000;
    hash_cache_open(&c, NULL, false);
    hash_cache_put(&c, &st, hash, ctime_ns + HASH_CACHE_FRESH_NS - 1);
    ok(!hash_cache_get(&c, &st, hash), "a file that is too fresh is left out");
    hash_cache_put(&c, &st, hash, ctime_ns + HASH_CACHE_FRESH_NS);
    ok(hash_cache_get(&c, &st, hash), "a file that has just aged enough is kept");
    st = file_of(1, 8);
    st.st_ctim.tv_sec = 4000000000;
    hash_cache_put(&c, &st, hash, HASH_CACHE_OWN);
    ok(hash_cache_get(&c, &st, hash), "a fresh file of this process alone is kept");
    hash_cache_fini(&c);
}

// ---- the file -----------------------------------------------------------------------------------

// Magic, boot id, count, one entry and a checksum, as other versions of the program write them.
static size_t file_bytes(char *to, const char *magic, const char *boot, uint64_t count,
                         const struct stat *st) {
    const uint64_t values[] = {st->st_dev, st->st_ino, (uint64_t)st->st_size, 5000000000,
                               6000000000};
    uint64_t key[] = {st->st_dev, st->st_ino, 0};
    size_t len = 8 + BOOT_BYTES + 8;
    memcpy(to, magic, 8);
    memcpy(to + 8, boot, BOOT_BYTES);
    bytes_store(to + 8 + BOOT_BYTES, count, 8);
    for (size_t i = 0; i < 5; i++, len += 8)
        bytes_store(to + len, values[i], 8);
    hash_of((unsigned char *)to + len, key, sizeof key);
    len += HASH_BYTES;
    hash_of((unsigned char *)to + len, to, len);
    return len + HASH_BYTES;
}

static void write_bytes(const char *path, const char *bytes, size_t len) {
    if (file_write_atomic(path, bytes, len, 0600, &e) < 0)
        bail_out("%s", e.text);
}

static bool is_found(const char *path, bool bound_to_boot, const struct stat *st) {
    struct hash_cache c;
    hash_cache_open(&c, path, bound_to_boot);
    bool found = has(&c, st, 0);
    hash_cache_fini(&c);
    return found;
}

static void test_layout(void) {
    const char *path = in_folder("layout");
    struct hash_cache c;
    struct stat st = file_of(3, 9);
    char want[512], boot[BOOT_BYTES], other[BOOT_BYTES] = "another boot", *got;
    size_t len;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
    if (fd < 0 || read(fd, boot, sizeof boot) != sizeof boot)
        bail_out("no boot id");
    close(fd);
    hash_cache_open(&c, path, false);
    put(&c, &st, 0);
    is_int(hash_cache_save(&c, &e), 0, "a cache of one file is saved");
    hash_cache_fini(&c);
    if (file_read(&arena, path, sizeof want, &got, &len, &e) < 0)
        bail_out("%s", e.text);
    size_t size = file_bytes(want, "dthash1\n", boot, 1, &st);
    struct stat made;
    is_int(stat(path, &made) == 0 ? made.st_mode & 07777 : 0, 0600, "the file is its owner's");
    is_mem(got, len, want, size, "the file has the layout of other versions");
    ok(is_found(path, true, &st), "a file of this boot counts");
    write_bytes(path, want, file_bytes(want, "dthash1\n", other, 1, &st));
    ok(is_found(path, false, &st), "a file of another boot counts");
    ok(!is_found(path, true, &st), "a file of another boot does not count where a crash matters");
    write_bytes(path, want, file_bytes(want, "dthash2\n", boot, 1, &st));
    ok(!is_found(path, false, &st), "a file of another kind is ignored");
    write_bytes(path, want, file_bytes(want, "dthash1\n", boot, 2, &st));
    ok(!is_found(path, false, &st), "a file with fewer entries than it says is ignored");
    write_bytes(path, want, file_bytes(want, "dthash1\n", boot, 0, &st));
    ok(!is_found(path, false, &st), "a file with more entries than it says is ignored");
    (void)file_bytes(want, "dthash1\n", boot, 1, &st);
    for (size_t cut = 0; cut < size; cut++) {
        write_bytes(path, want, cut);
        if (is_found(path, false, &st))
            fail("a file that is cut at %zu is ignored", cut);
    }
    pass("a file that is cut anywhere is ignored");
    want[size - 1] ^= 1;
    write_bytes(path, want, size);
    ok(!is_found(path, false, &st), "a file with another checksum is ignored");
}

static uint64_t inode_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static void test_save(void) {
    const char *path = in_folder("sub/save");
    struct hash_cache c;
    struct stat st = file_of(1, 1);
    hash_cache_open(&c, path, false);
    is_int(hash_cache_save(&c, &e), 0, "an unchanged cache is not saved");
    put(&c, &st, 0);
    is_int(hash_cache_save(&c, &e), -1, "a cache cannot be saved in an absent folder");
    if (file_make_dirs(in_folder("sub"), 0700, &e) < 0)
        bail_out("%s", e.text);
    is_int(hash_cache_save(&c, &e), 0, "a cache that could not be saved is saved later");
    ok(is_found(path, false, &st), "a cache that is saved later has its file");
    uint64_t before = inode_of(path);
    is_int(hash_cache_save(&c, &e), 0, "a saved cache is not changed");
    is_uint(inode_of(path), before, "an unchanged cache is not written again");
    hash_cache_fini(&c);
}

// ---- other users of the file --------------------------------------------------------------------

// Gives the file other bytes and another time, and leaves its inode number.
static void rewrite(const char *path, const char *from) {
    char *data;
    size_t len;
    if (file_read(&arena, from, 1 << 20, &data, &len, &e) < 0)
        bail_out("%s", e.text);
    const struct timespec times[] = {{.tv_sec = 1}, {.tv_sec = 1}};
    auto_close int fd = open(path, O_WRONLY | O_TRUNC);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len || futimens(fd, times) < 0)
        bail_out("cannot write '%s'", path);
}

static void test_rewritten(void) {
    const char *path = in_folder("rewritten"), *other = in_folder("other");
    struct hash_cache c;
    struct stat st = file_of(1, 3);
    save_file(path, 1);
    save_file(other, 2);
    hash_cache_open(&c, path, false);
    ok(has_file(&c, 1), "the file is read at the first question");
    rewrite(path, other);
    ok(!has_file(&c, 2), "a file is read once");
    put(&c, &st, 0);
    is_int(hash_cache_save(&c, &e), 0, "a cache is saved over a file that was rewritten");
    ok(has_file(&c, 1) && has_file(&c, 2) && has_file(&c, 3),
       "the entries of a rewritten file are kept");
    hash_cache_fini(&c);
    hash_cache_open(&c, path, false);
    ok(has_file(&c, 1) && has_file(&c, 2) && has_file(&c, 3), "all entries are saved");
    hash_cache_fini(&c);
}

// The file has another inode number and the same time.
static void test_replaced(void) {
    const char *path = in_folder("replaced"), *other = in_folder("other2");
    const struct timespec times[] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct hash_cache c;
    struct stat st = file_of(1, 3), first = file_of(1, 2);
    save_file(path, 1);
    save_file(other, 2);
    utimensat(AT_FDCWD, path, times, 0);
    utimensat(AT_FDCWD, other, times, 0);
    hash_cache_open(&c, path, false);
    ok(has_file(&c, 1), "the first file is read");
    if (rename(other, path) < 0)
        bail_out("rename");
    put(&c, &st, 0);
    ok(hash_cache_save(&c, &e) == 0 && has_file(&c, 2), "the entries of a new file are kept");
    hash_cache_fini(&c);
    hash_cache_open(&c, path, false);
    put(&c, &first, 5);
    is_int(hash_cache_save(&c, &e), 0, "a cache is saved before it reads the file");
    ok(has(&c, &first, 5), "the entry of this process is newer than that of the file");
    save_file(other, 4);
    rewrite(path, other);
    ok(!has_file(&c, 4), "a file that was read for saving is not read again");
    hash_cache_fini(&c);
}

// Two processes save at the same time, one entry after another.
static void test_processes(void) {
    enum { SAVES = 20 };
    const char *path = in_folder("processes");
    struct hash_cache c;
    int status, good = 0, ended = 0;
    for (uint64_t child = 0; child < 2; child++)
        if (fork() == 0) {
            for (uint64_t i = 0; i < SAVES; i++) {
                struct stat st = file_of(1, 1 + 2 * i + child);
                hash_cache_open(&c, path, false);
                put(&c, &st, 0);
                int result = hash_cache_save(&c, &e);
                hash_cache_fini(&c);
                if (result < 0)
                    _exit(1);
            }
            _exit(0);
        }
    while (wait(&status) > 0)
        ended += status == 0;
    is_int(ended, 2, "two processes save one file");
    hash_cache_open(&c, path, false);
    for (uint64_t i = 1; i <= 2 * SAVES; i++)
        good += has_file(&c, i);
    is_int(good, 2 * SAVES, "no entry of two processes is lost");
    hash_cache_fini(&c);
}

// A cache with file 2, which is not saved, in the state that each case needs.
static void open_unsaved(struct hash_cache *c, const char *path, bool reads) {
    struct stat st = file_of(1, 2);
    hash_cache_open(c, path, false);
    if (reads)
        ok(has_file(c, 1), "the saved entry is read");
    put(c, &st, 0);
}

static void test_renew(void) {
    const char *path = in_folder("renewed"), *other = in_folder("other3");
    struct hash_cache c;
    save_file(path, 1);
    save_file(other, 3);
    open_unsaved(&c, path, true);
    hash_cache_renew(&c);
    ok(has_file(&c, 2), "an unsaved entry stays while the file is as it was");
    rewrite(path, other);
    hash_cache_renew(&c);
    ok(!has_file(&c, 2) && !has_file(&c, 1) && has_file(&c, 3),
       "the entries of a rewritten file are in place of the unsaved ones");
    hash_cache_fini(&c);
    save_file(path, 1);
    open_unsaved(&c, path, true);
    save_file(path, 4);
    hash_cache_renew(&c);
    ok(!has_file(&c, 2) && has_file(&c, 4),
       "the entries of a new file are in place of the unsaved ones");
    hash_cache_fini(&c);
    open_unsaved(&c, path, false);
    hash_cache_renew(&c);
    ok(has_file(&c, 2), "an unsaved entry stays where the file was not read");
    hash_cache_fini(&c);
    open_unsaved(&c, path, true);
    unlink(path);
    hash_cache_renew(&c);
    ok(has_file(&c, 2) && has_file(&c, 1), "all entries stay when the file is removed");
    hash_cache_fini(&c);
}

static void test_shared(void) {
    const char *path = in_folder("shared");
    struct stat st = file_of(1, 1);
    struct hash_cache *a = hash_cache_share(path), *other = hash_cache_share(in_folder("shared2"));
    struct hash_cache *b = hash_cache_share(path);
    ok(a == b, "two users of a path share one cache");
    ok(a != other, "users of another path have another cache");
    put(a, &st, 0);
    hash_cache_unshare(a);
    ok(!file_exists(path), "a shared cache is not saved before its last user leaves");
    ok(has(b, &st, 0), "a shared cache stays until its last user leaves");
    hash_cache_unshare(b);
    ok(is_found(path, false, &st), "the last user of a shared cache saves it");
    hash_cache_unshare(other);
    hash_cache_unshare(NULL);
    char bytes[512], boot[BOOT_BYTES] = "another boot";
    write_bytes(path, bytes, file_bytes(bytes, "dthash1\n", boot, 1, &st));
    a = hash_cache_share(path);
    ok(has(a, &st, 0), "a shared cache has the entries of another boot");
    hash_cache_unshare(a);
    a = hash_cache_share("/nonexistent/hashes");
    put(a, &st, 0);
    hash_cache_unshare(a);
    a = hash_cache_share("/nonexistent/hashes");
    ok(!has(a, &st, 0), "a shared cache that cannot be saved is forgotten");
    hash_cache_unshare(a);
}

// ---- hashing ------------------------------------------------------------------------------------

static uint64_t ticked;

static int on_tick(void *ctx, uint64_t bytes, struct err *err) {
    ticked += bytes;
    return ctx ? err_set(err, ERR_INTERRUPTED, "it is enough") : 0;
}

static void test_file(void) {
    enum { BYTES = 600000, HASHED = 300000 };
    char *data = heap_alloc(BYTES);
    unsigned char want[HASH_BYTES], got[HASH_BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7 + i / 251);
    write_bytes(in_folder("data"), data, BYTES);
    auto_close int fd = open(in_folder("data"), O_RDONLY), dir = open(folder, O_RDONLY);
    struct content_ticks ticks = {.tick = on_tick};
    hash_of(want, data, HASHED);
    is_int(hash_cache_file(fd, HASHED, got, &ticks, &e), 0, "a part of a file is hashed");
    is_mem(got, HASH_BYTES, want, HASH_BYTES, "bytes behind the part do not count");
    is_uint(ticked, HASHED, "every byte of the part is counted");
    hash_of(want, data, 1);
    ok(hash_cache_file(fd, 1, got, NULL, &e) == 0 && memcmp(got, want, HASH_BYTES) == 0,
       "one byte is hashed");
    hash_of(want, data, 0);
    ok(hash_cache_file(fd, 0, got, NULL, &e) == 0 && memcmp(got, want, HASH_BYTES) == 0,
       "no byte is hashed");
    is_int(hash_cache_file(fd, BYTES + 1, got, NULL, &e), -1, "a shorter file is refused");
    is_int(e.code, ERR_HASH, "a shorter file is an error of hashes");
    is_int(hash_cache_file(dir, 1, got, NULL, &e), -1, "a folder has no bytes");
    is_int(e.code, ERR_SYS, "a folder is an error of the system");
    ticks.ctx = &ticks;
    is_int(hash_cache_file(fd, HASHED, got, &ticks, &e), -1, "the caller ends the work");
    is_int(e.code, ERR_INTERRUPTED, "the error of the caller is kept");
    free(data);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    test_slots();
    test_grown();
    test_changed_files();
    test_fresh();
    test_layout();
    test_save();
    test_rewritten();
    test_replaced();
    test_processes();
    test_renew();
    test_shared();
    test_file();
    (void)file_remove_tree(folder, &e);
    arena_fini(&arena);
    return done_testing();
}
