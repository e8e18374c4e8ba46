// SPDX-License-Identifier: Apache-2.0
// memory.c: the device's memory. Each byte has the number of the block that wrote it last, 0 for
// unwritten and 1 for the host. This reveals reads of unwritten memory, and blocks of one launch
// that access one byte without an atomic.
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum { BY_NOBODY, BY_HOST, SERIAL_FIRST };
#define DEVICE_BASE  ((u64)0x300000000000)
#define DEVICE_ALIGN ((u64)1 << 12)
#define DEVICE_GAP   ((u64)1 << 20) // between allocations, so that an overrun meets none

struct allocation {
    u64 base;
    size_t bytes;
    u8 *data;
    u32 *by;
};
static struct allocation *table; // by base
static size_t n_allocations, allocations_cap;
static u64 next_base = DEVICE_BASE;
static u32 next_serial = SERIAL_FIRST;
static u32 launch_serial; // the first of the launch that runs

u64 ptx_alloc(size_t bytes) {
    if (n_allocations == allocations_cap) {
        size_t cap = allocations_cap ? 2 * allocations_cap : 64;
        struct allocation *more = realloc(table, cap * sizeof *more);
        if (!more)
            return 0;
        table = more;
        allocations_cap = cap;
    }
    struct allocation a = {.base = next_base, .bytes = bytes};
    a.data = calloc(bytes ? bytes : 1, 1);
    a.by = calloc(bytes ? bytes : 1, sizeof *a.by);
    if (!a.data || !a.by) {
        free(a.data);
        free(a.by);
        return 0;
    }
    next_base += (bytes + DEVICE_GAP + DEVICE_ALIGN) / DEVICE_ALIGN * DEVICE_ALIGN;
    table[n_allocations++] = a;
    return a.base;
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
    free(a->data);
    free(a->by);
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
    for (size_t n = 0; a && n < bytes; n++)
        a->by[address - a->base + n] = BY_HOST;
}

int ptx_written(u64 address, size_t bytes) {
    struct allocation *a = holding(address, bytes);
    bool all = a != NULL;
    for (size_t n = 0; a && n < bytes; n++)
        all &= a->by[address - a->base + n] != BY_NOBODY;
    return all;
}

void ptx_copied(u64 to, u64 from, size_t bytes) {
    struct allocation *a = holding(to, bytes), *b = holding(from, bytes);
    for (size_t n = 0; a && b && n < bytes; n++)
        a->by[to - a->base + n] = b->by[from - b->base + n] ? BY_HOST : BY_NOBODY;
}

u32 global_serial(u32 blocks) {
    if (next_serial > UINT32_MAX - blocks)
        fault("too many blocks in one process");
    launch_serial = next_serial;
    next_serial += blocks;
    return launch_serial;
}

// ---- accesses of a kernel ----------------------------------------------------------------------
static struct allocation *checked(const char *what, u64 address, u32 bytes) {
    static size_t last;
    struct allocation *a = last < n_allocations ? &table[last] : NULL;
    if (!a || address < a->base || address - a->base > a->bytes ||
        bytes > a->bytes - (address - a->base))
        a = holding(address, bytes);
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
    last = (size_t)(a - table);
    return a;
}

u8 *global_read(struct warp *w, u64 address, u32 bytes) {
    struct allocation *a = checked("read", address, bytes);
    const u32 *by = a->by + (address - a->base);
    u32 mine = w->b->serial, unwritten = 0, foreign = 0;
    for (u32 n = 0; n < bytes; n++) {
        unwritten |= by[n] == BY_NOBODY;
        foreign |= by[n] >= launch_serial && by[n] != mine;
    }
    if (unwritten)
        fault("read of %u bytes that nobody wrote, at offset %llu of an allocation of %zu bytes",
              bytes, (unsigned long long)(address - a->base), a->bytes);
    if (foreign && !w->b->synchronised)
        fault("race: read at offset %llu of an allocation of %zu bytes of what another block of "
              "this launch wrote",
              (unsigned long long)(address - a->base), a->bytes);
    return a->data + (address - a->base);
}

u8 *global_write(struct warp *w, u64 address, u32 bytes) {
    struct allocation *a = checked("write", address, bytes);
    u32 *by = a->by + (address - a->base), mine = w->b->serial, foreign = 0;
    for (u32 n = 0; n < bytes; n++) {
        foreign |= by[n] >= launch_serial && by[n] != mine;
        by[n] = mine;
    }
    if (foreign && !w->b->synchronised)
        fault("race: write at offset %llu of an allocation of %zu bytes over what another block of "
              "this launch wrote",
              (unsigned long long)(address - a->base), a->bytes);
    return a->data + (address - a->base);
}

u8 *global_atomic(struct warp *w, u64 address, u32 bytes) {
    struct allocation *a = checked("atomic", address, bytes);
    u32 *by = a->by + (address - a->base), unwritten = 0;
    for (u32 n = 0; n < bytes; n++) {
        unwritten |= by[n] == BY_NOBODY;
        by[n] = w->b->serial;
    }
    if (unwritten)
        fault("atomic on %u bytes that nobody wrote, at offset %llu of an allocation of %zu bytes",
              bytes, (unsigned long long)(address - a->base), a->bytes);
    return a->data + (address - a->base);
}
