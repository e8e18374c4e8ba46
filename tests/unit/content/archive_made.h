// SPDX-License-Identifier: Apache-2.0
// A tar archive in memory, for tests.
//
//     begin(); file("a", "text"); symlink_to("b", "a"); end(); // archive.data, archive.len
#ifndef DTCTL_TESTS_UNIT_CONTENT_ARCHIVE_MADE_H
#define DTCTL_TESTS_UNIT_CONTENT_ARCHIVE_MADE_H

#include "base/str.h"
#include "content/tar.h"
#include "tests/tap.h"

static struct strbuf archive;

TAP_UNUSED static void member(char type, const char *name, const char *link, const char *mode,
                              const char *data) {
    unsigned char b[TAR_BLOCK_BYTES] = {0};
    unsigned sum = 0;
    size_t len = strlen(data);
    memcpy(b, name, strnlen(name, 100));
    memcpy(b + 100, mode, strlen(mode));
    snprintf((char *)b + 124, 12, "%011o", (unsigned)len);
    memcpy(b + 136, "14000000000", 12); // in January 2021
    b[156] = (unsigned char)type;
    memcpy(b + 157, link, strnlen(link, 100));
    memcpy(b + 257, "ustar\00000", 8);
    memset(b + 148, ' ', 8);
    for (int i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += b[i];
    snprintf((char *)b + 148, 8, "%06o", sum);
    strbuf_add(&archive, b, sizeof b);
    strbuf_add(&archive, data, len);
    while (archive.len % TAR_BLOCK_BYTES)
        strbuf_addc(&archive, 0);
}

TAP_UNUSED static void file(const char *name, const char *data) {
    member('0', name, "", "0000644", data);
}

TAP_UNUSED static void symlink_to(const char *name, const char *target) {
    member('2', name, target, "0000777", "");
}

TAP_UNUSED static void end(void) {
    static const char zeros[2 * TAR_BLOCK_BYTES];
    strbuf_add(&archive, zeros, sizeof zeros);
}

TAP_UNUSED static void begin(void) {
    archive.len = 0;
}

#endif
