// SPDX-License-Identifier: Apache-2.0
// How a buffer is cut into chunks and pieces of parts: every element once, within a chunk's room,
// whatever the count, and back to where it came from. No rank runs.
#include "comm/hier.h"

#include "comm/element.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT_STEPS = 3, WORLD_MAX = 65536 };

static const struct element *const types[] = {&element_byte, &element_bf16, &element_f32,
                                              &element_f64};
enum { TYPES = sizeof types / sizeof *types };

// ---- chunks -------------------------------------------------------------------------------------

static size_t room_of(const struct hier *h) {
    return h->nodes == 1 ? SHM_CHUNK_BYTES_LOCAL : SHM_CHUNK_BYTES_NODES;
}

// NULL, or the rule that the chunks of a count break. Their numbers continue from chunk to chunk.
static const char *wrong_chunks(struct hier *h, const struct comm_work *w, bool parts,
                                size_t step) {
    size_t all = parts ? w->each : w->count, bytes = w->type->bytes, at = 0;
    size_t chunks = hier_chunk_count(h, w, parts);
    if (chunks != all / step + (all % step > 0))
        return "their number";
    for (size_t i = 0; i < chunks; i++) {
        uint32_t q = h->next;
        struct hier_chunk c = hier_chunk(h, w, parts, i);
        if (c.q != q || h->next != q + 1)
            return "their numbers";
        if (c.first != at || c.count == 0 || c.count > step)
            return "their places";
        if (c.stride < c.count || c.stride * bytes % HIER_UNIT_BYTES ||
            (c.stride - c.count) * bytes >= HIER_UNIT_BYTES)
            return "their strides";
        if ((parts ? c.stride * (size_t)h->world : c.count) * bytes > room_of(h))
            return "their room";
        at += c.count;
    }
    return at == all ? NULL : "their sum";
}

static void test_chunks(int world, int nodes, bool parts) {
    struct hier h = {.world = world, .nodes = nodes, .next = HIER_FIRST_CHUNK};
    const char *wrong = NULL;
    size_t count = 0;
    for (int t = 0; t < TYPES && !wrong; t++) {
        // As large as it can be: whole lines of the cache for each part, where there is room.
        size_t piece = parts ? room_of(&h) / (size_t)world : room_of(&h), unit = 64;
        size_t bytes = piece >= unit ? piece / unit * unit : piece / HIER_UNIT_BYTES * 16;
        size_t step = bytes / types[t]->bytes;
        for (size_t k = 0; k < COUNT_STEPS && !wrong; k++)
            for (int near = -2; near <= 2 && !wrong; near++) {
                count = k * step + (size_t)near;
                if (k == 0 && near < 1)
                    continue;
                const struct comm_work w = {.type = types[t],
                                            .count = parts ? count * (size_t)world : count,
                                            .each = count};
                wrong = wrong_chunks(&h, &w, parts, step);
            }
    }
    ok(!wrong, "%d ranks on %d nodes cut %s into chunks", world, nodes,
       parts ? "parts" : "a buffer");
    if (wrong)
        diag("%s of %zu elements", wrong, count);
}

// ---- pieces -------------------------------------------------------------------------------------

enum { WORLD = 5, NODES = 3, EACH = 9, COUNT = WORLD * EACH - 12, GUARD = 0x55 };

static int rank_at[WORLD] = {2, 0, 4, 1, 3}, first_place[NODES + 1] = {0, 2, 3, 5};
static struct ring_segment segment[NODES];

static void test_places(void) {
    static const int nodes[WORLD] = {0, 2, 0, 2, 1};
    const struct hier h = {
        .world = WORLD, .nodes = NODES, .rank_at = rank_at, .first_place = first_place};
    for (int p = 0; p < WORLD; p++)
        is_int(hier_place_of(&h, rank_at[p]), p, "rank %d is at place %d", rank_at[p], p);
    for (int r = 0; r < WORLD; r++)
        is_int(hier_node_of(&h, r), nodes[r], "rank %d is on node %d", r, nodes[r]);
}

// Element i of a part of a rank, of the pieces that are in the buffer.
static bool is_there(int rank, size_t i) {
    return i < EACH && (size_t)rank * EACH + i < COUNT;
}

static void test_pieces(const struct element *type, size_t first, size_t count, int but) {
    struct hier h = {.world = WORLD,
                     .nodes = NODES,
                     .rank_at = rank_at,
                     .first_place = first_place,
                     .segment = segment};
    unsigned char buf[COUNT * 8], back[COUNT * 8], chunk[WORLD * (EACH + 16) * 8];
    const struct comm_work in = {.type = type, .buf = buf, .count = COUNT, .each = EACH};
    const struct comm_work out = {.type = type, .buf = back, .count = COUNT, .each = EACH};
    size_t unit = HIER_UNIT_BYTES / type->bytes, bytes = type->bytes;
    const struct hier_chunk c = {
        .first = first, .count = count, .stride = (count + unit - 1) / unit * unit};
    int lost = 0, strange = 0;
    for (size_t i = 0; i < COUNT * bytes; i++)
        buf[i] = (unsigned char)(i * 7 + 1);
    memset(chunk, GUARD, sizeof chunk);
    memset(back, GUARD, sizeof back);
    hier_pack(&h, &in, &c, (char *)chunk, 1, WORLD, but);
    for (int p = 0; p < WORLD; p++)
        for (size_t i = 0; i < count * bytes; i++) {
            size_t k = (size_t)rank_at[p] * EACH * bytes + first * bytes + i;
            bool goes = p >= 1 && p != but && is_there(rank_at[p], first + i / bytes);
            strange += chunk[(size_t)p * c.stride * bytes + i] != (goes ? buf[k] : GUARD);
        }
    hier_unpack(&h, &out, &c, (const char *)chunk, 1, WORLD, but);
    for (int r = 0; r < WORLD; r++)
        for (size_t i = 0; is_there(r, i); i++) {
            int p = hier_place_of(&h, r);
            bool came = p >= 1 && p != but && i >= first && i < first + count;
            for (size_t b = 0; b < bytes; b++) {
                size_t k = ((size_t)r * EACH + i) * bytes + b;
                lost += back[k] != (came ? buf[k] : GUARD);
            }
        }
    ok(lost == 0 && strange == 0, "elements %zu to %zu of parts of %s go there and back, but %d",
       first, first + count, type->name, but);
    const struct ring_segment *s = hier_segments(&h, &c);
    ok(s[0].first == 0 && s[0].count == 2 * c.stride && s[1].first == 2 * c.stride &&
           s[1].count == c.stride && s[2].first == 3 * c.stride && s[2].count == 2 * c.stride,
       "each node has a segment of the chunk");
}

int main(void) {
    static const int worlds[] = {2, 3, 7, 8, 255, 256};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        for (int nodes = 1; nodes <= 2; nodes++) {
            test_chunks(worlds[i], nodes, false);
            test_chunks(worlds[i], nodes, true);
        }
    test_chunks(WORLD_MAX / 2, 300, true);
    test_chunks(WORLD_MAX, 300, true); // no room for a line of the cache
    test_places();
    for (int t = 0; t < TYPES; t++) {
        test_pieces(types[t], 0, EACH, -1);
        test_pieces(types[t], 0, 4, 3);
        test_pieces(types[t], 4, 4, 0);
        test_pieces(types[t], 8, 1, 2);
    }
    return done_testing();
}
