// SPDX-License-Identifier: Apache-2.0
// bulk.c: cp.async.bulk and cp.async.bulk.tensor: copies to shared memory that one thread asks for,
// and that count to the tx-count of an mbarrier. They are made in parts, which arrive in any order
// and as late as the block can continue without them; with an odd seed some arrive early. A tensor
// map is 128 bytes of which only this file knows the meaning, as on a GPU.
#include "bulk.h"

#include <stdio.h>
#include <string.h>

enum {
    TENSOR_ALIGN = 128,
    MAP_ALIGN = 64,
    BOX_MAX = 256,
    MAP_WORDS = 16,
    PARTS_MAX = 4, // of a copy
    SWIZZLE_MAX = 128,
};
#define MAP_MARK  ((u64)0x50414d5f544d55ff) // no number of anything else
#define DIM_MAX   ((u64)1 << 32)
#define PITCH_MAX ((u64)1 << 40)

// ---- tensor maps -------------------------------------------------------------------------------
static const char *wrong(const struct ptx_tensor *t) {
    u64 row = (u64)t->box[0] * t->bytes;
    if (t->bytes == 0 || t->bytes > 8 || t->bytes & (t->bytes - 1))
        return "the element's size";
    if (t->address % CHUNK)
        return "the address is not aligned to 16 bytes";
    for (int n = 0; n < 2; n++)
        if (t->dim[n] == 0 || t->dim[n] > DIM_MAX || t->box[n] == 0 || t->box[n] > BOX_MAX)
            return "a dimension or the box";
    if (t->pitch % CHUNK || t->pitch >= PITCH_MAX)
        return "rows that do not lie a multiple of 16 bytes apart";
    if (t->pitch < t->dim[0] * t->bytes)
        return "rows that overlap";
    if (row % CHUNK)
        return "the box's rows are not whole chunks of 16 bytes";
    if (t->swizzle & (t->swizzle - 1) || t->swizzle == CHUNK || t->swizzle > SWIZZLE_MAX)
        return "the swizzle";
    if (t->swizzle && row != t->swizzle)
        return row > t->swizzle ? "the box's rows are wider than the swizzle"
                                : "rows narrower than the swizzle, which are not modelled";
    return NULL;
}

int ptx_tensor_map(void *to, const struct ptx_tensor *t, char *text) {
    const char *why = wrong(t);
    u64 word[MAP_WORDS] = {MAP_MARK,  t->address, t->dim[0], t->dim[1], t->pitch,
                           t->box[0], t->box[1],  t->bytes,  t->swizzle};
    if (!why && (uintptr_t)to % MAP_ALIGN)
        why = "the map's own alignment";
    if (why)
        snprintf(text, PTX_TEXT_MAX, "tensor map: %s", why);
    else
        memcpy(to, word, sizeof word);
    return why ? -1 : 0;
}

// The map at the generic address of operand k, which is in the parameters.
static struct ptx_tensor map_at(struct warp *w, const struct insn *i, int k, int lane) {
    u64 address = lane_address(w, i, k, lane), word[MAP_WORDS];
    if ((address & WINDOW_MASK) != PARAM_WINDOW)
        fault("'%s' with a tensor map outside of the kernel's parameters, which is not modelled",
              i->name);
    if (address % MAP_ALIGN)
        fault("'%s' with a tensor map that is not aligned to %d bytes", i->name, MAP_ALIGN);
    for (u32 n = 0; n < MAP_WORDS; n++)
        memcpy(&word[n], space_read(w, SP_GENERIC, address + n * sizeof *word, sizeof *word, lane),
               sizeof *word);
    if (word[0] != MAP_MARK)
        fault("'%s' where no tensor map is", i->name);
    return (struct ptx_tensor){.address = word[1],
                               .dim = {word[2], word[3]},
                               .pitch = word[4],
                               .box = {(u32)word[5], (u32)word[6]},
                               .bytes = (u32)word[7],
                               .swizzle = (u32)word[8]};
}

// ---- rows --------------------------------------------------------------------------------------
// Where a chunk of a copy lies: bits 7 to 9 of its address turn bits 4 to 6.
u32 bulk_chunk_at(const struct bulk *c, u32 row, u32 byte) {
    u32 at = c->shared + row * c->row_bytes + byte;
    return at ^ (at >> 7 & (c->width / CHUNK - 1)) << 4;
}

// Bytes of a chunk that exist: from *from on.
u32 bulk_there(const struct bulk *c, u32 row, u32 byte, u32 *from) {
    u32 end = c->before + c->there < byte + CHUNK ? c->before + c->there : byte + CHUNK;
    *from = c->before > byte ? c->before : byte;
    return row < c->rows_before || row >= c->rows_before + c->rows_there || *from >= end
               ? 0
               : end - *from;
}

// Reads what exists of a chunk in parts that are aligned; without `to` it is checked alone.
static void read_chunk(struct warp *w, const struct bulk *c, u32 row, u32 byte, u8 *to) {
    u32 from = byte, n = bulk_there(c, row, byte, &from);
    u64 address = c->global + row * c->pitch + from;
    u64 whole = (address | n) & -(address | n);
    whole = whole > CHUNK ? CHUNK : whole;
    for (u32 at = 0; at < n; at += (u32)whole) {
        const u8 *bytes = global_read(w, address + at, (u32)whole);
        if (to)
            memcpy(to + from - byte + at, bytes, whole);
    }
}

void bulk_count(const struct bulk *c) {
    u64 first = c->global + c->before;
    for (u32 row = c->rows_before; c->there && row < c->rows_before + c->rows_there; row++) {
        u64 at = first + row * c->pitch;
        counts.global_bytes += c->there;
        counts.global_sectors += (at + c->there - 1) / SECTOR - at / SECTOR + 1;
    }
    counts.global_requests++;
}

// Puts the copy under way, in parts.
static void begin(struct warp *w, struct bulk c, u32 lane) {
    struct block *b = w->b;
    const struct mbarrier *m = mbarrier_at(b, c.mbarrier);
    if (!m->fenced)
        fault("'%s' with an mbarrier behind whose initialisation no fence.mbarrier_init or "
              "fence.proxy.async followed",
              w->at->name);
    b->has_bulk = true;
    bulk_count(&c);
    for (u32 row = 0; row < c.rows; row++)
        for (u32 byte = 0; byte < c.row_bytes; byte += CHUNK) {
            read_chunk(w, &c, row, byte, NULL);
            shared_bulk_begins(w, bulk_chunk_at(&c, row, byte), CHUNK, lane);
        }
    u32 parts = 1 + (b->launch->seed ? random_below(&b->rng, PARTS_MAX) : 0), done = 0;
    for (u32 n = 0; n < parts; n++) {
        struct bulk part = c;
        u32 end = (u32)((u64)c.rows * (n + 1) / parts), last = c.rows_before + c.rows_there;
        part.rows = end - done;
        part.shared += done * c.row_bytes, part.global += done * c.pitch;
        part.rows_before = c.rows_before > done ? c.rows_before - done : 0;
        part.rows_there = last > done + part.rows_before ? last - done - part.rows_before : 0;
        done = end;
        if (!part.rows)
            continue;
        b->bulk = grown(b->bulk, b->n_bulk, &b->bulk_cap, sizeof *b->bulk);
        b->bulk[b->n_bulk++] = part;
    }
}

bool bulk_complete_one(struct block *b) {
    if (b->n_bulk == 0)
        return false;
    u32 n = random_below(&b->rng, b->n_bulk), time = shadow_time();
    struct bulk c = b->bulk[n];
    b->bulk[n] = b->bulk[--b->n_bulk];
    for (u32 row = 0; row < c.rows; row++)
        for (u32 byte = 0; byte < c.row_bytes; byte += CHUNK) {
            u32 at = bulk_chunk_at(&c, row, byte);
            memset(b->shared + at, 0, CHUNK);
            read_chunk(c.w, &c, row, byte, b->shared + at);
            shared_bulk_arrived(c.w, at, CHUNK, time);
        }
    struct mbarrier *m = mbarrier_at(b, c.mbarrier);
    m->clock[AGENT] = time;
    m->filled = m->phase + 1;
    mbarrier_bytes(b, m, -(s64)c.rows * c.row_bytes);
    return true;
}

// ---- instructions ------------------------------------------------------------------------------
static u32 mbarrier_of(struct warp *w, const struct insn *i, int k, int lane) {
    return (u32)mbarrier_used(w, i, k, 1u << lane)->address;
}

struct bulk bulk_of_bytes(struct warp *w, const struct insn *i, int shared, int global, int lane) {
    u64 at = shared_offset(i, lane_address(w, i, shared, lane));
    u64 other = lane_address(w, i, global, lane);
    u32 bytes = (u32)lane_value(w, &i->op[2], 0, lane);
    if (bytes == 0 || bytes % CHUNK || at % CHUNK || other % CHUNK)
        fault("cp.async.bulk of %u bytes: size and addresses must be multiples of 16", bytes);
    return (struct bulk){.shared = (u32)at,
                         .rows = bytes / CHUNK,
                         .row_bytes = CHUNK,
                         .width = CHUNK,
                         .global = other,
                         .pitch = CHUNK,
                         .there = CHUNK,
                         .rows_there = bytes / CHUNK,
                         .w = w};
}
static void bulk_by(struct warp *w, const struct insn *i, int lane) {
    struct bulk c = bulk_of_bytes(w, i, 0, 1, lane);
    c.mbarrier = mbarrier_of(w, i, 3, lane);
    begin(w, c, (u32)lane);
}
static void bulk(struct warp *w, const struct insn *i, u32 mask) {
    EACH(bulk_by(w, i, l));
}

// How many of `box` elements from `at` on lie before 0, and how many below `dim`.
static void clip(s64 at, u32 box, u64 dim, u32 *before, u32 *inside) {
    s64 first = at < 0 ? 0 : at, end = at + box < (s64)dim ? at + (s64)box : (s64)dim;
    *before = (u32)(at < 0 ? (-at < box ? -at : box) : 0);
    *inside = end > first ? (u32)(end - first) : 0;
}

struct bulk bulk_of_box(struct warp *w, const struct insn *i, int shared, int map, int lane) {
    struct ptx_tensor t = map_at(w, i, map, lane);
    const struct operand *place = &i->op[map + 1];
    u64 at = shared_offset(i, lane_address(w, i, shared, lane));
    s64 x = (s32)lane_value(w, place, 0, lane), y = (s32)lane_value(w, place, 1, lane);
    struct bulk c = {.shared = (u32)at,
                     .rows = t.box[1],
                     .row_bytes = t.box[0] * t.bytes,
                     .width = t.swizzle ? t.swizzle : CHUNK,
                     .global = t.address + (u64)(x * (s64)t.bytes) + (u64)y * t.pitch,
                     .pitch = t.pitch,
                     .w = w};
    if (at % TENSOR_ALIGN)
        fault("'%s' at shared offset %llu, which is not aligned to %d bytes", i->name,
              (unsigned long long)at, TENSOR_ALIGN);
    clip(x, t.box[0], t.dim[0], &c.before, &c.there);
    clip(y, t.box[1], t.dim[1], &c.rows_before, &c.rows_there);
    c.before *= t.bytes, c.there *= t.bytes;
    return c;
}
static void tensor_by(struct warp *w, const struct insn *i, int lane) {
    struct bulk c = bulk_of_box(w, i, 0, 1, lane);
    c.mbarrier = mbarrier_of(w, i, 3, lane);
    begin(w, c, (u32)lane);
}
static void tensor(struct warp *w, const struct insn *i, u32 mask) {
    EACH(tensor_by(w, i, l));
}

static void prefetch(struct warp *w, const struct insn *i, u32 mask) {
    EACH((void)map_at(w, i, 0, l));
}

#define BULK_MODS (MOD(ASYNC) | MOD(SHARED) | MOD(GLOBAL) | MOD(COMPLETE_TX))
const struct op ops_bulk[] = {
    {"cp", 0, 0, BULK_MODS, "mmwm", bulk, 0, MOD(BULK)},
    {"cp", 0, 0, BULK_MODS | MOD(BULK) | MOD(D2), "macm", tensor, 0, MOD(TENSOR)},
    {"prefetch", 0, 0, 0, "m", prefetch, 0, MOD(TENSORMAP)},
    {0},
};
