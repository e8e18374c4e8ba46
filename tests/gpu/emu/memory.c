// SPDX-License-Identifier: Apache-2.0
// memory.c: the device's memory. Each byte has the number of the block that wrote it last, 0 for
// unwritten and 1 for the host. This reveals reads of unwritten memory, and blocks of one launch
// that access one byte without an atomic. One number is enough for a word until something writes a
// part of a word of the allocation.
#include "emu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BY_NOBODY, BY_HOST, SERIAL_FIRST };
#define DEVICE_BASE  ((u64)0x300000000000)
#define DEVICE_ALIGN ((u64)1 << 12)
#define DEVICE_GAP   ((u64)1 << 20) // between allocations, so that an overrun meets none

enum { WORD = 4, OF_BYTES = 0, OF_WORDS = 2 };
struct allocation {
    u64 base;
    size_t bytes;
    u8 *data;
    u32 *by;
    u32 shift; // OF_WORDS or OF_BYTES
};
static struct allocation *table; // by base
static size_t n_allocations, allocations_cap;
static u64 next_base = DEVICE_BASE;
static u32 next_serial = SERIAL_FIRST;
static u32 launch_serial; // the first of the launch that runs

// Zeros; many of them are pages that nothing has touched yet. Under the address sanitizer all are
// of the heap.
#ifdef __SANITIZE_ADDRESS__
#define PAGES_FROM SIZE_MAX
#else
#define PAGES_FROM ((size_t)1 << 16)
#endif
static void *zeros(size_t bytes) {
    if (bytes < PAGES_FROM)
        return calloc(bytes ? bytes : 1, 1);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}
// A test forks for each change of a kernel (case_changes.h): to copy this memory page by page, as
// the copy writes to it, is a part of that time.
void not_for_copies(void *at, size_t bytes) {
    madvise(at, bytes, MADV_HUGEPAGE);
    madvise(at, bytes, MADV_WIPEONFORK);
}
static void free_zeros(void *at, size_t bytes) {
    if (at && bytes >= PAGES_FROM)
        munmap(at, bytes);
    else
        free(at);
}
static size_t by_bytes(const struct allocation *a) {
    return ((a->bytes + (a->shift == OF_WORDS ? WORD - 1 : 0)) >> a->shift) * sizeof *a->by;
}

u64 ptx_alloc(size_t bytes) {
    if (n_allocations == allocations_cap) {
        size_t cap = allocations_cap ? 2 * allocations_cap : 64;
        struct allocation *more = realloc(table, cap * sizeof *more);
        if (!more)
            return 0;
        table = more;
        allocations_cap = cap;
    }
    struct allocation a = {.base = next_base, .bytes = bytes, .shift = OF_WORDS};
    a.data = zeros(bytes);
    a.by = zeros(by_bytes(&a));
    if (!a.data || !a.by) {
        free_zeros(a.data, bytes);
        free_zeros(a.by, by_bytes(&a));
        return 0;
    }
    next_base += (bytes + DEVICE_GAP + DEVICE_ALIGN) / DEVICE_ALIGN * DEVICE_ALIGN;
    table[n_allocations++] = a;
    return a.base;
}

// From now on each byte has its number.
static void number_bytes(struct allocation *a) {
    u32 *words = a->by;
    size_t had = by_bytes(a);
    if (a->shift == OF_BYTES)
        return;
    a->shift = OF_BYTES;
    a->by = zeros(by_bytes(a));
    if (!a->by)
        abort();
    for (size_t n = 0; n < a->bytes; n++)
        a->by[n] = words[n / WORD];
    free_zeros(words, had);
}

// Numbers of bytes of an allocation.
struct numbers {
    u32 *by;
    size_t n;
};
static inline struct numbers numbers_of(const struct allocation *a, u64 offset, size_t bytes) {
    size_t first = offset >> a->shift;
    return (struct numbers){a->by + first,
                            bytes ? ((offset + bytes - 1) >> a->shift) - first + 1 : 0};
}
// The same for a write: no byte beyond these has one of these numbers.
static inline struct numbers numbers_to_write(struct allocation *a, u64 offset, size_t bytes) {
    bool whole = offset % WORD == 0 && (bytes % WORD == 0 || offset + bytes == a->bytes);
    if (a->shift == OF_WORDS && !whole)
        number_bytes(a);
    return numbers_of(a, offset, bytes);
}

// The last allocation whose base is not above address; NULL where there is none.
static struct allocation *below(u64 address) {
    size_t low = 0, high = n_allocations;
    while (table && low < high) {
        size_t middle = (low + high) / 2;
        if (table[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &table[low - 1] : NULL;
}

static struct allocation *holding(u64 address, size_t bytes) {
    struct allocation *a = below(address);
    return a && address - a->base <= a->bytes && bytes <= a->bytes - (address - a->base) ? a : NULL;
}

int ptx_free(u64 address) {
    struct allocation *a = below(address);
    if (!a || a->base != address)
        return -1;
    free_zeros(a->data, a->bytes);
    free_zeros(a->by, by_bytes(a));
    memmove(a, a + 1, (size_t)(table + n_allocations - a - 1) * sizeof *a);
    n_allocations--;
    return 0;
}

void *ptx_host(u64 address, size_t bytes) {
    struct allocation *a = holding(address, bytes);
    return a ? a->data + (address - a->base) : NULL;
}

u64 ptx_allocation(u64 address, size_t *bytes) {
    struct allocation *a = holding(address, 1);
    *bytes = a ? a->bytes : 0;
    return a ? a->base : 0;
}

void ptx_wrote(u64 address, size_t bytes) {
    struct allocation *a = holding(address, bytes);
    if (!a)
        return;
    struct numbers to = numbers_to_write(a, address - a->base, bytes);
    for (size_t n = 0; n < to.n; n++)
        to.by[n] = BY_HOST;
}

int ptx_written(u64 address, size_t bytes) {
    const struct allocation *a = holding(address, bytes);
    struct numbers of = a ? numbers_of(a, address - a->base, bytes) : (struct numbers){0};
    bool all = a != NULL;
    for (size_t n = 0; n < of.n; n++)
        all &= of.by[n] != BY_NOBODY;
    return all;
}

void ptx_copied(u64 to, u64 from, size_t bytes) {
    struct allocation *a = holding(to, bytes), *b = holding(from, bytes);
    if (!a || !b)
        return;
    u64 at = to - a->base, of = from - b->base;
    bool words = a->shift == OF_WORDS && b->shift == OF_WORDS && of % WORD == 0;
    if (!words)
        number_bytes(a);
    struct numbers n = numbers_to_write(a, at, bytes);
    u32 step = 1u << a->shift;
    for (size_t q = 0; q < n.n; q++)
        n.by[q] = b->by[(of + q * step) >> b->shift] ? BY_HOST : BY_NOBODY;
}

u32 global_serial(u32 blocks) {
    if (next_serial > UINT32_MAX - blocks)
        fault("too many blocks in one process");
    launch_serial = next_serial;
    next_serial += blocks;
    return launch_serial;
}

// ---- accesses of a kernel ----------------------------------------------------------------------
// holding(), which looks first at the allocation that was accessed last.
static inline struct allocation *accessed(u64 address, size_t bytes) {
    static size_t last;
    struct allocation *a = last < n_allocations ? &table[last] : NULL;
    if (a && address >= a->base && address - a->base <= a->bytes &&
        bytes <= a->bytes - (address - a->base))
        return a;
    if ((a = holding(address, bytes)))
        last = (size_t)(a - table);
    return a;
}

static struct allocation *checked(const char *what, u64 address, u32 bytes) {
    struct allocation *a = accessed(address, bytes);
    if (!a) {
        struct allocation *near = below(address);
        if (!near)
            fault("%s of %u bytes at 0x%llx, where nothing is allocated", what, bytes,
                  (unsigned long long)address);
        fault("%s of %u bytes at offset %llu of an allocation of %zu bytes", what, bytes,
              (unsigned long long)(address - near->base), near->bytes);
    }
    if (address & (bytes - 1))
        fault("%s of %u bytes at offset %llu, which is not aligned to it", what, bytes,
              (unsigned long long)(address - a->base));
    return a;
}

// Is there a byte that is not written, or that another block of this launch wrote?
struct found {
    u32 unwritten, foreign;
};
static inline struct found look(const struct warp *w, struct numbers at) {
    struct found f = {0};
    u32 mine = w->b->serial, first = launch_serial;
    for (size_t n = 0; n < at.n; n++)
        f.unwritten |= at.by[n] == BY_NOBODY;
    for (size_t n = 0; n < at.n; n++)
        f.foreign |= (at.by[n] >= first) & (at.by[n] != mine);
    return f;
}
static inline void number(struct numbers at, u32 serial) {
    for (size_t n = 0; n < at.n; n++)
        at.by[n] = serial;
}
static inline struct numbers one(struct numbers at) { // as most accesses have
    return (struct numbers){at.by, 1};
}

u8 *global_read(struct warp *w, u64 address, u32 bytes) {
    struct allocation *a = checked("read", address, bytes);
    struct numbers at = numbers_of(a, address - a->base, bytes);
    struct found f = at.n == 1 ? look(w, one(at)) : look(w, at);
    if (f.unwritten)
        fault("read of %u bytes that nobody wrote, at offset %llu of an allocation of %zu bytes",
              bytes, (unsigned long long)(address - a->base), a->bytes);
    if (f.foreign && !w->b->synchronised)
        fault("race: read at offset %llu of an allocation of %zu bytes of what another block of "
              "this launch wrote",
              (unsigned long long)(address - a->base), a->bytes);
    return a->data + (address - a->base);
}

u8 *global_write(struct warp *w, u64 address, u32 bytes) {
    struct allocation *a = checked("write", address, bytes);
    struct numbers at = numbers_to_write(a, address - a->base, bytes);
    struct found f = at.n == 1 ? look(w, one(at)) : look(w, at);
    if (f.foreign && !w->b->synchronised)
        fault("race: write at offset %llu of an allocation of %zu bytes over what another block of "
              "this launch wrote",
              (unsigned long long)(address - a->base), a->bytes);
    number(at, w->b->serial);
    return a->data + (address - a->base);
}

u8 *global_atomic(struct warp *w, u64 address, u32 bytes) {
    struct allocation *a = checked("atomic", address, bytes);
    struct numbers at = numbers_to_write(a, address - a->base, bytes);
    if (look(w, at).unwritten)
        fault("atomic on %u bytes that nobody wrote, at offset %llu of an allocation of %zu bytes",
              bytes, (unsigned long long)(address - a->base), a->bytes);
    number(at, w->b->serial);
    return a->data + (address - a->base);
}

// ---- rows: what lanes access that lies side by side --------------------------------------------
static struct allocation *row_in(u64 address, u32 each, u32 lanes) {
    return address & (each - 1) ? NULL : accessed(address, (size_t)each * lanes);
}

u8 *global_read_row(struct warp *w, u64 address, u32 each, u32 lanes) {
    const struct allocation *a = row_in(address, each, lanes);
    if (!a)
        return NULL;
    struct found f = look(w, numbers_of(a, address - a->base, (size_t)each * lanes));
    return f.unwritten || (f.foreign && !w->b->synchronised) ? NULL : a->data + (address - a->base);
}

u8 *global_write_row(struct warp *w, u64 address, u32 each, u32 lanes) {
    struct allocation *a = row_in(address, each, lanes);
    if (!a)
        return NULL;
    struct numbers at = numbers_to_write(a, address - a->base, (size_t)each * lanes);
    if (look(w, at).foreign && !w->b->synchronised)
        return NULL;
    number(at, w->b->serial);
    return a->data + (address - a->base);
}
