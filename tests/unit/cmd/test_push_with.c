// SPDX-License-Identifier: Apache-2.0
// push --with reads a library of another maker: every byte of a small one is changed, and the file
// is cut at every length. Nothing outside of the file is read (sanitizer build), and a library
// without its names is refused.
#include "cmd/dtctl/push_with.h"
#include "tests/tap.h"

#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES "\0ncclGetUniqueId\0ncclCommSplit"

static char file[] = "/tmp/push_with.XXXXXX";
static struct err e;

// Two segments, a table of two entries, and the names.
static const struct image {
    Elf64_Ehdr head;
    Elf64_Phdr load, dynamic;
    Elf64_Dyn table[3];
    char names[sizeof NAMES];
} GOOD = {
    .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
             .e_type = ET_DYN,
             .e_machine = EM_X86_64,
             .e_phoff = offsetof(struct image, load),
             .e_phnum = 2},
    .load = {.p_type = PT_LOAD, .p_vaddr = 0x1000, .p_filesz = sizeof(struct image)},
    .dynamic = {.p_type = PT_DYNAMIC,
                .p_offset = offsetof(struct image, table),
                .p_filesz = sizeof GOOD.table},
    .table = {{DT_STRTAB, {0x1000 + offsetof(struct image, names)}}, {DT_STRSZ, {sizeof NAMES}}},
    .names = NAMES,
};

static int add(int fd, const void *data, size_t len) {
    char text[64];
    struct manifest *m = manifest_new();
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, len, 0) != (ssize_t)len)
        bail_out("cannot write the library");
    snprintf(text, sizeof text, "nccl=%s", file);
    int result = push_with_add(m, text, &e);
    manifest_free(m);
    return result;
}

static void test_changed(int fd) {
    static const unsigned char VALUES[] = {0, 1, 7, 0x80, 0xff};
    int taken = 0, tried = 0;
    for (size_t at = 0; at < sizeof GOOD; at++)
        for (size_t v = 0; v < sizeof VALUES; v++, tried++) {
            struct image changed = GOOD;
            ((unsigned char *)&changed)[at] = VALUES[v];
            taken += add(fd, &changed, sizeof changed) == 0;
        }
    ok(taken > 0 && taken < tried, "%d of %d changed libraries are taken", taken, tried);
}

static void test_far(int fd) {
    static const uint64_t FAR[] = {UINT64_MAX, UINT64_MAX - 8, INT64_MAX, 1ull << 32, sizeof GOOD};
    static const size_t FIELDS[] = {
        offsetof(struct image, head.e_phoff),        offsetof(struct image, load.p_offset),
        offsetof(struct image, load.p_vaddr),        offsetof(struct image, dynamic.p_offset),
        offsetof(struct image, table[0].d_un.d_ptr), offsetof(struct image, table[1].d_un.d_val)};
    for (size_t f = 0; f < sizeof FIELDS / sizeof *FIELDS; f++)
        for (size_t v = 0; v < sizeof FAR / sizeof *FAR; v++) {
            struct image changed = GOOD;
            memcpy((char *)&changed + FIELDS[f], &FAR[v], sizeof FAR[v]);
            is_int(add(fd, &changed, sizeof changed), -1,
                   "a place outside of the file is refused: %zu, %zu", f, v);
        }
}

// A refusal names the first of these that is wrong.
static void test_reasons(int fd) {
    enum { NAME = offsetof(struct image, names) + 1, NEW = NAME + sizeof "ncclGetUniqueId" };
    static const struct {
        size_t at, len; // the byte that changes, and bytes of the file
        unsigned char to;
        const char *text;
    } cases[] = {
        {0, sizeof GOOD, 0x7e, "is no shared library"},
        {3, sizeof GOOD, 'X', "is no shared library"},
        {EI_CLASS, sizeof GOOD, ELFCLASS32, "is no shared library"},
        {offsetof(Elf64_Ehdr, e_type), sizeof GOOD, ET_EXEC, "is no shared library"},
        {0, sizeof(Elf64_Ehdr) - 1, 0x7f, "is no shared library"},
        {0, 1, 0x7f, "is no shared library"},
        {0, sizeof(Elf64_Ehdr), 0x7f, "it has no ncclGetUniqueId"},
        {offsetof(Elf64_Ehdr, e_machine), sizeof GOOD, EM_AARCH64, "is for another processor"},
        {NAME, sizeof GOOD, 'N', "it has no ncclGetUniqueId"},
        {NAME + strlen("ncclGetUniqueI"), sizeof GOOD, 'D', "it has no ncclGetUniqueId"},
        {NAME + strlen("ncclGetUniqueId"), sizeof GOOD, 's', "it has no ncclGetUniqueId"},
        {NEW, sizeof GOOD, 'N', "is too old: it has no ncclCommSplit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct image changed = GOOD;
        ((unsigned char *)&changed)[cases[i].at] = cases[i].to;
        is_int(add(fd, &changed, cases[i].len), -1, "library %zu is refused", i);
        has_str(e.text, cases[i].text, "library %zu has its reason", i);
    }
    is_int(add(fd, &GOOD, 0), -1, "an empty file is refused");
    has_str(e.text, "is no shared library", "an empty file is no library");
}

static void test_cut(int fd) {
    int taken = 0;
    for (size_t len = 0; len < sizeof GOOD; len++)
        taken += add(fd, &GOOD, len) == 0;
    // The last bytes are those of alignment.
    ok(taken < 8, "a library that is cut is refused (%d are not)", taken);
}

int main(void) {
    int fd = mkstemp(file);
    if (fd < 0)
        bail_out("mkstemp");
    is_int(add(fd, &GOOD, sizeof GOOD), 0, "a library with both names is taken");
    test_changed(fd);
    test_far(fd);
    test_cut(fd);
    test_reasons(fd);
    close(fd);
    unlink(file);
    return done_testing();
}
