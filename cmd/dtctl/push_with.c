// SPDX-License-Identifier: Apache-2.0
// Checks libraries before they are sent.
#include "push_with.h"

#include "base/str.h"
#include "sys/file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// A library: its name in --with, its file's name on the nodes, the functions that it must export.
static const struct library {
    const char *name, *file;
    const char *symbol, *symbol_new; // of every version, of those that are new enough
    const char *needed;
} LIBRARIES[] = {
    {"nccl", "libnccl.so.2", "ncclGetUniqueId", "ncclCommSplit", "NCCL 2.18 or newer"},
};

// A part of the file; NULL when the file does not have all of it.
static const void *part(const char *data, size_t len, uint64_t at, uint64_t bytes) {
    return at <= len && bytes <= len - at ? data + at : NULL;
}

// The program header of the first segment of this type, or of the one that holds an address.
static const Elf64_Phdr *segment(const char *data, size_t len, unsigned type, uint64_t address) {
    const Elf64_Ehdr *head = (const void *)data;
    for (unsigned i = 0; i < head->e_phnum; i++) {
        uint64_t at = head->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
        const Elf64_Phdr *h =
            at % _Alignof(Elf64_Phdr) ? NULL : part(data, len, at, sizeof(Elf64_Phdr));
        if (h && h->p_type == type &&
            (type != PT_LOAD || (address >= h->p_vaddr && address - h->p_vaddr < h->p_filesz)))
            return h;
    }
    return NULL;
}

// The string table of the functions that a library exports and imports. NULL: there is none.
static const char *names(const char *data, size_t len, size_t *bytes) {
    const Elf64_Phdr *h = segment(data, len, PT_DYNAMIC, 0);
    const Elf64_Dyn *d = h && h->p_offset % _Alignof(Elf64_Dyn) == 0
                             ? part(data, len, h->p_offset, h->p_filesz)
                             : NULL;
    uint64_t address = 0;
    *bytes = 0;
    for (uint64_t i = 0; d && i < h->p_filesz / sizeof *d; i++) {
        address = d[i].d_tag == DT_STRTAB ? d[i].d_un.d_ptr : address;
        *bytes = d[i].d_tag == DT_STRSZ ? d[i].d_un.d_val : *bytes;
    }
    const Elf64_Phdr *load = segment(data, len, PT_LOAD, address);
    return load ? part(data, len, load->p_offset + (address - load->p_vaddr), *bytes) : NULL;
}

static bool has(const char *text, size_t bytes, const char *symbol) {
    return memmem(text, bytes, symbol, strlen(symbol) + 1) != NULL;
}

// Nodes are x86-64.
static int check_bytes(const char *data, size_t len, const struct library *l, const char *path,
                       struct err *e) {
    const Elf64_Ehdr *head = (const void *)data;
    size_t bytes = 0;
    if (len < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_type != ET_DYN)
        return err_set(e, ERR_FORMAT, "'%s' is no shared library (try: the file %s of %s)", path,
                       l->file, l->needed);
    if (head->e_machine != EM_X86_64)
        return err_set(e, ERR_FORMAT, "'%s' is for another processor; nodes are x86-64", path);
    const char *text = names(data, len, &bytes);
    if (!text || !has(text, bytes, l->symbol))
        return err_set(e, ERR_FORMAT, "'%s' is not %s: it has no %s", path, l->file, l->symbol);
    if (!has(text, bytes, l->symbol_new))
        return err_set(e, ERR_FORMAT, "'%s' is too old: it has no %s (try: %s)", path,
                       l->symbol_new, l->needed);
    return 0;
}

static int check_file(const struct library *l, const char *path, struct err *e) {
    struct stat st;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(e, ERR_NOT_FOUND, "'%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return err_set(e, ERR_FORMAT, "'%s' is no shared library", path);
    size_t len = (size_t)st.st_size;
    char *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return err_errno(e, ERR_SYS, "cannot read '%s'", path);
    int result = check_bytes(data, len, l, path, e);
    munmap(data, len);
    return result;
}

int push_with_add(struct manifest *m, const char *text, struct err *e) {
    struct manifest_rules rules = {0};
    size_t len = strcspn(text, "=");
    for (size_t i = 0; i < sizeof LIBRARIES / sizeof *LIBRARIES; i++) {
        const struct library *l = &LIBRARIES[i];
        if (strlen(l->name) != len || memcmp(l->name, text, len) != 0)
            continue;
        if (!text[len] || !text[len + 1])
            return err_set(e, ERR_USAGE, "--with %s: no file is named (try: --with %s=FILE)", text,
                           l->name);
        char real[PATH_MAX]; // the name of a package's library is a symbolic link
        const char *path = text + len + 1;
        if (!realpath(path, real))
            return err_errno(e, ERR_NOT_FOUND, "'%s'", path);
        return check_file(l, real, e) < 0 ? -1 : manifest_add_path(m, real, l->file, &rules, e);
    }
    return err_set(e, ERR_USAGE, "--with %s: unknown library (try: --with nccl=FILE)", text);
}
