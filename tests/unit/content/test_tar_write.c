// SPDX-License-Identifier: Apache-2.0
// Archives that are written, read back by the reader of archives: names, links and sizes that ustar
// has room for, and longer ones; plain and compressed.
#include "content/tar.h"
#include "content/tar_write.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;
static char dir[] = "/tmp/dtctl-tar-XXXXXX";
static char longest[TAR_WRITE_LONG_NAME_BYTES_MAX + 1];
static char data[3 << 20];

enum { LONG_NAME_BYTES = 100, DATA_BYTES = sizeof data };

static int create(const char *name) {
    int fd = -1;
    if (chdir(dir) < 0 || (fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0)
        bail_out("no file in %s", dir);
    return fd;
}

static void put(struct tar_writer *w, struct tar_write_entry x, const char *bytes) {
    if (tar_write_begin(w, &x, &e) < 0)
        bail_out("%s", e.text);
    for (uint64_t at = 0, piece = 700001; at < x.size; at += piece) {
        piece = x.size - at < piece ? x.size - at : piece;
        if (tar_write_data(w, bytes + at, piece, &e) < 0)
            bail_out("%s", e.text);
    }
}

static void write_all(const char *name, bool zstd) {
    char over[LONG_NAME_BYTES + 1] = {0};
    struct tar_writer w;
    int fd = create(name);
    memset(over, 'o', LONG_NAME_BYTES);
    if (zstd && tar_write_open_zstd(&w, fd, 3, &e) < 0)
        bail_out("%s", e.text);
    if (!zstd)
        tar_write_open(&w, fd);
    put(&w, (struct tar_write_entry){.name = "folder", .folder = true, .mode = 0755}, NULL);
    put(&w, (struct tar_write_entry){.name = "folder/run", .mode = 0755, .size = 3}, "abc");
    put(&w, (struct tar_write_entry){.name = "folder/none", .mode = 0600}, NULL);
    put(&w, (struct tar_write_entry){.name = "link", .link = "folder/run", .mode = 0777}, NULL);
    put(&w, (struct tar_write_entry){.name = "far", .link = longest, .mode = 0777}, NULL);
    put(&w, (struct tar_write_entry){.name = over, .mode = 0644, .size = 512}, data);
    put(&w, (struct tar_write_entry){.name = longest, .mode = 0644, .size = DATA_BYTES}, data);
    is_int(tar_write_file(&w, "last", "xyz", 3, &e), 0, "a whole file is written");
    is_int(tar_write_end(&w, &e), 0, "%s is written", name);
    close(fd);
}

// The next entry is this one, with these bytes.
static void check(struct tar *t, enum tar_type type, const char *name, const char *link,
                  unsigned mode, uint64_t size, const char *bytes) {
    static struct tar_entry x;
    static char got[DATA_BYTES];
    is_int(tar_next(t, &x, &e), 1, "the archive has another entry");
    is_str(x.path, name, "the entry has its name of %zu bytes", strlen(name));
    is_int(x.type, type, "the entry has its type");
    is_str(x.link, link, "the entry has its link of %zu bytes", strlen(link));
    is_uint(x.mode, mode, "the entry has its mode");
    is_uint(x.size, size, "the entry has its size");
    ok(size == 0 || (tar_read(t, got, size, &e) == 0 && memcmp(got, bytes, size) == 0),
       "the entry has the bytes that were written");
}

static void read_all(const char *name) {
    char over[LONG_NAME_BYTES + 1] = {0};
    static struct tar_entry x;
    struct tar t;
    memset(over, 'o', LONG_NAME_BYTES);
    if (tar_open(&t, name, &e) < 0)
        bail_out("%s", e.text);
    check(&t, TAR_FOLDER, "folder/", "", 0755, 0, NULL);
    check(&t, TAR_FILE, "folder/run", "", 0755, 3, "abc");
    check(&t, TAR_FILE, "folder/none", "", 0600, 0, NULL);
    check(&t, TAR_SYMLINK, "link", "folder/run", 0777, 0, NULL);
    check(&t, TAR_SYMLINK, "far", longest, 0777, 0, NULL);
    check(&t, TAR_FILE, over, "", 0644, 512, data);
    check(&t, TAR_FILE, longest, "", 0644, DATA_BYTES, data);
    check(&t, TAR_FILE, "last", "", 0644, 3, "xyz");
    is_int(tar_next(&t, &x, &e), 0, "the archive has no further entry");
    tar_close(&t);
}

// Eleven octal digits are too few for this size.
static void large(void) {
    const uint64_t size = UINT64_C(9) << 30;
    struct tar_writer w;
    struct tar t;
    static struct tar_entry x;
    int fd = create("large");
    tar_write_open(&w, fd);
    const struct tar_write_entry entry = {.name = "large", .mode = 0644, .size = size};
    is_int(tar_write_begin(&w, &entry, &e), 0, "an entry of 9 GiB is written");
    is_int(tar_write_data(&w, data, DATA_BYTES, &e), 0, "the first bytes of the entry are written");
    tar_write_abort(&w);
    close(fd);
    if (tar_open(&t, "large", &e) < 0)
        bail_out("%s", e.text);
    is_int(tar_next(&t, &x, &e), 1, "the entry of 9 GiB is read");
    is_uint(x.size, size, "the entry has its whole size");
    tar_close(&t);
}

static void full(void) {
    struct tar_writer w;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || tar_write_open_zstd(&w, fd, 3, &e) < 0)
        bail_out("no /dev/full");
    is_int(tar_write_file(&w, "a", "b", 1, &e), 0, "a small file is in memory");
    is_int(tar_write_end(&w, &e), -1, "a full disk is an error of the end");
    has_str(e.text, "No space left", "the error says it");
    close(fd);
    err_clear(&e);
}

int main(void) {
    struct stat plain, packed;
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    for (size_t i = 0; i < sizeof longest - 1; i++)
        longest[i] = i % 100 == 99 ? '/' : 'l';
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (char)(i * i >> 7);
    write_all("plain", false);
    write_all("packed", true);
    read_all("plain");
    read_all("packed");
    ok(stat("plain", &plain) == 0 && stat("packed", &packed) == 0 &&
           packed.st_size < plain.st_size && plain.st_size % TAR_BLOCK_BYTES == 0,
       "the compressed one is smaller");
    large();
    full();
    file_remove_tree(dir, &e);
    return done_testing();
}
