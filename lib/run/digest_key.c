// SPDX-License-Identifier: Apache-2.0
// Reads or makes the key; of two programs that make it at once, the second one takes the first's.
#include "run/digest_key.h"

#include "base/hash.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void make_key(char key[DIGEST_KEY_BYTES]) {
    unsigned char bits[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    hash_random(bits, sizeof bits);
    hash_hex(hex, bits);
    memcpy(key, hex, DIGEST_KEY_BYTES);
}

// The file is locked. A program that was killed has left a shorter one.
static int read_or_make(int fd, const char *path, char key[DIGEST_KEY_BYTES], struct err *e) {
    ssize_t n = pread(fd, key, DIGEST_KEY_BYTES, 0);
    if (n < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", path);
    if (n == DIGEST_KEY_BYTES)
        return 0;
    make_key(key);
    if (file_write_at(fd, key, DIGEST_KEY_BYTES, 0, e) < 0 || fsync(fd) < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", path);
    return 0;
}

int digest_key_read(struct context *s, char key[DIGEST_KEY_BYTES], struct err *e) {
    const char *path = file_join(s->arena, s->cluster.dir, "digest.key");
    int make = s->config->dry_run ? 0 : O_CREAT;
    auto_close int fd = open(path, O_RDWR | make | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 && errno == ENOENT && !make) {
        make_key(key);
        return 0;
    }
    if (fd < 0 || file_lock_fd(fd, F_WRLCK, true) < 0)
        return err_errno(e, ERR_SYS, "cannot open '%s'", path);
    return read_or_make(fd, path, key, e);
}
