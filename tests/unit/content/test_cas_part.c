// SPDX-License-Identifier: Apache-2.0
// Parts of large content: their map of units, their locks, and files that change under them.
#include "content/cas.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UNITS = 20, SIZE = (UNITS - 1) * CAS_UNIT_BYTES + 100 };

static struct arena a;
static char dir[] = "/tmp/test_cas_part.XXXXXX";
static struct cas c;
static struct err e;
static const unsigned char NAME[HASH_BYTES] = {7};

static const char *part_path(void) {
    return arena_strdup(&a, cas_part_path(&c, NAME, ".part"));
}

static const char *map_path(void) {
    return arena_strdup(&a, cas_part_path(&c, NAME, ".map"));
}

static int mode_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int)(st.st_mode & 07777) : -1;
}

static void open_part(struct cas_part *p, uint64_t size) {
    if (cas_part_open(&c, p, NAME, size, &e) < 0)
        bail_out("%s", e.text);
}

static void mark(const struct cas_part *p, uint32_t unit, const char *as) {
    if (pwrite(p->map_fd, as, 1, unit) != 1)
        bail_out("cannot write the map");
}

// ---- the map ------------------------------------------------------------------------------------

static void test_map(void) {
    static const uint32_t there[] = {0, 7, 8, 15, 16, 19};
    struct cas_part p;
    uint32_t count = 5, good = 0;
    open_part(&p, SIZE);
    is_uint(p.units, UNITS, "a started unit counts");
    ok(!cas_part_have(&c, &a, NAME, SIZE, &count) && count == 0, "a new part has no unit");
    mark(&p, 2, "\2");
    ok(!cas_part_have(&c, &a, NAME, SIZE, &count) && count == 0, "another byte is no unit");
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        mark(&p, there[i], "\1");
    unsigned char *bits = cas_part_have(&c, &a, NAME, SIZE, &count);
    is_uint(count, 6, "the units that are there are counted");
    is_mem(bits, 3, "\x81\x81\x09", 3, "each unit has its bit");
    (void)cas_part_have(&c, &a, NAME, 8 * (uint64_t)CAS_UNIT_BYTES, &count);
    is_uint(count, 2, "units behind the end do not count");
    for (uint32_t unit = 0; unit < UNITS; unit++)
        mark(&p, unit, "\1");
    ok(cas_part_complete(&p), "a part with all units is complete");
    for (uint32_t unit = 0; unit < UNITS; unit++) {
        mark(&p, unit, "\0");
        good += !cas_part_complete(&p);
        mark(&p, unit, "\1");
    }
    is_uint(good, UNITS, "a part without any one unit is not complete");
    is_int(ftruncate(p.map_fd, UNITS - 1), 0, "the map is cut");
    ok(!cas_part_complete(&p), "a part with a short map is not complete");
    unlink(part_path());
    ok(!cas_part_have(&c, &a, NAME, SIZE, &count) && count == 0, "a map without its part is empty");
    cas_part_discard(&c, &p);
    ok(file_exists(map_path()), "a part that is no longer at its name leaves the map");
    unlink(map_path());
    open_part(&p, SIZE);
    mark(&p, 0, "\1");
    ok(mode_of(part_path()) == 0600 && mode_of(map_path()) == 0600,
       "the files of a part are for their owner alone");
    cas_part_discard(&c, &p);
    ok(!file_exists(map_path()) && !file_exists(part_path()), "both files of a part are removed");
    ok(p.fd == -1 && p.map_fd == -1, "a part that was removed is closed");
}

static void test_open(void) {
    struct cas_part p;
    const char *map = map_path(), *part = part_path();
    if (mkdir(map, 0700) < 0)
        bail_out("mkdir");
    is_int(cas_part_open(&c, &p, NAME, SIZE, &e), -1, "a map that is a folder is refused");
    is_int(e.code, ERR_SYS, "a map that is a folder is an error of the system");
    has_str(e.text, map, "the error names the map");
    rmdir(map);
    unlink(part);
    if (symlink("/dev/null", part) < 0)
        bail_out("symlink");
    is_int(cas_part_open(&c, &p, NAME, SIZE, &e), -1, "a part that is a link is refused");
    ok(!file_exists(map), "a part that is refused has no map");
    unlink(part);
}

// ---- locks --------------------------------------------------------------------------------------

// Another open file of the map could not lock the unit.
static bool is_locked(uint32_t unit) {
    auto_close int fd = open(map_path(), O_RDWR | O_CLOEXEC);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = unit, .l_len = 1};
    if (fd < 0 || fcntl(fd, F_OFD_GETLK, &l) < 0)
        bail_out("no lock can be read");
    return l.l_type != F_UNLCK;
}

static void lock(int fd, uint32_t unit) {
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = unit, .l_len = 1};
    if (fcntl(fd, F_OFD_SETLK, &l) < 0)
        bail_out("cannot lock the map");
}

static void test_locks(void) {
    struct cas_part p;
    open_part(&p, SIZE);
    auto_close int other = open(map_path(), O_RDWR | O_CLOEXEC);
    lock(other, 0);
    lock(other, 2);
    is_int(cas_part_write(&p, CAS_UNIT_BYTES, "piece", 5, &e), 0,
           "a unit is written while others are locked");
    ok(is_locked(0) && !is_locked(1) && is_locked(2), "a written unit is free again");
    lock(p.map_fd, 4);
    is_int(cas_part_write(&p, 3 * (uint64_t)CAS_UNIT_BYTES, "piece", 5, &e), 0,
           "a unit is written beside one of the same process");
    ok(!is_locked(3) && is_locked(4), "the unit beside it stays locked");
    cas_part_discard(&c, &p);
}

// ---- pieces and hashes --------------------------------------------------------------------------

static int put(struct cas_part *p, uint64_t at, size_t len) {
    static char bytes[CAS_UNIT_BYTES + 1];
    return cas_part_write(p, at, bytes, len, &e);
}

static void test_pieces(void) {
    struct cas_part p;
    open_part(&p, 2 * CAS_UNIT_BYTES + 10);
    ok(put(&p, 0, CAS_UNIT_BYTES + 1) < 0 && e.code == ERR_FORMAT, "a piece ends with its unit");
    ok(put(&p, 2 * CAS_UNIT_BYTES, 11) < 0, "a piece ends with the file");
    ok(put(&p, 2 * CAS_UNIT_BYTES + 10, 1) < 0, "no piece begins at the end");
    ok(put(&p, 0, 0) < 0, "a piece has a byte");
    is_int(put(&p, 0, CAS_UNIT_BYTES - 1), 0, "a unit is written but for a byte");
    is_uint(p.hashed, 0, "a unit that is not complete is not hashed");
    ok(put(&p, CAS_UNIT_BYTES - 2, 1) < 0, "a piece follows the one before");
    is_int(put(&p, CAS_UNIT_BYTES - 1, 1), 0, "the last byte of a unit is a piece");
    is_uint(p.hashed, CAS_UNIT_BYTES, "a complete unit is hashed at once");
    is_int(put(&p, 2 * CAS_UNIT_BYTES, 10), 0, "the last unit may come early");
    is_uint(p.hashed, CAS_UNIT_BYTES, "a unit behind a hole is not hashed");
    is_int(put(&p, CAS_UNIT_BYTES, CAS_UNIT_BYTES), 0, "a unit is one piece");
    is_uint(p.hashed, 2 * CAS_UNIT_BYTES, "a unit that fills the hole is hashed");
    ok(cas_part_complete(&p), "every unit is there");
    is_int(cas_part_hash(&p, 1, &e), 1, "the rest is hashed");
    is_uint(p.hashed, p.size, "each byte is hashed");
    cas_part_discard(&c, &p);
}

static void test_hash(void) {
    enum { BYTES = 3 * CAS_PIECE_BYTES };
    struct cas_part p;
    open_part(&p, BYTES);
    is_int(ftruncate(p.fd, BYTES + 5), 0, "the file is longer than the content");
    is_int(cas_part_hash(&p, 0, &e), 0, "no byte is asked for");
    is_uint(p.hashed, 0, "no byte is hashed");
    is_int(cas_part_hash(&p, 1, &e), 0, "one byte is asked for");
    is_uint(p.hashed, CAS_PIECE_BYTES, "a piece is hashed for a byte");
    is_int(cas_part_hash(&p, CAS_PIECE_BYTES + 1, &e), 1, "a byte more takes a piece more");
    is_uint(p.hashed, BYTES, "bytes behind the content are not hashed");
    is_int(cas_part_hash(&p, 1, &e), 1, "no byte is hashed twice");
    cas_part_discard(&c, &p);
    open_part(&p, BYTES);
    is_int(ftruncate(p.fd, BYTES - 1), 0, "the file is a byte short");
    is_int(cas_part_hash(&p, UINT64_MAX, &e), -1, "a short file is refused");
    is_int(e.code, ERR_HASH, "a short file is an error of hashes");
    has_str(e.text, "shorter", "the error says that the file is shorter");
    int folder = open(dir, O_RDONLY | O_CLOEXEC), own = p.fd;
    p.fd = folder;
    is_int(cas_part_hash(&p, 1, &e), -1, "a file that cannot be read is refused");
    is_int(e.code, ERR_SYS, "a file that cannot be read is an error of the system");
    p.fd = own;
    close(folder);
    cas_part_discard(&c, &p);
}

// ---- names --------------------------------------------------------------------------------------

// A part of which the hash is known at its end.
static void test_adopt(void) {
    struct cas_part p;
    unsigned char real[HASH_BYTES];
    const char *path;
    hash_of(real, "bytes", 5);
    open_part(&p, 5);
    ok(cas_part_write(&p, 0, "bytes", 5, &e) == 0 && cas_part_hash(&p, 5, &e) == 1,
       "the part is hashed");
    is_int(cas_part_adopt(&c, &p, &path, &e), 0, "the part becomes an object");
    is_str(path, cas_object_path(&c, real), "the object has the name of its hash");
    ok(cas_has_object(&c, real, 5) && !cas_has_object(&c, NAME, 5), "the object is known by it");
    ok(!file_exists(map_path()) && !file_exists(part_path()), "no file of the part is left");
    cas_part_close(&p);
    open_part(&p, 5);
    memcpy(p.hash, real, sizeof real);
    ok(cas_part_elsewhere(&c, &p, &path), "content that is there needs no part");
    is_str(path, cas_object_path(&c, real), "the path is that of the object");
    p.size = 6;
    ok(!cas_part_elsewhere(&c, &p, &path), "content of another size is elsewhere");
    cas_part_close(&p);
}

int main(void) {
    if (!mkdtemp(dir) || cas_open(&c, dir, &e) < 0 || cas_load(&c, &e) < 0)
        bail_out("no store");
    test_map();
    test_open();
    test_locks();
    test_pieces();
    test_hash();
    test_adopt();
    cas_close(&c, false, &e);
    (void)file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
