// SPDX-License-Identifier: Apache-2.0
// tensor.c: matrix instructions of a warp: ldmatrix, stmatrix, mma.sync. The layout of fragments is
// that of the chapter "Matrix multiply-accumulate" of the PTX manual: lane l holds row l/4 of its
// 8x8 parts, and columns 2(l mod 4) and the next.
#include "emu.h"

#include <string.h>

enum { ROWS = 16, COLUMNS = 8, DEPTH_MAX = 16, PART = 8, ROW_BYTES = 16 };

static void all_lanes(const struct insn *i, u32 mask) {
    if (mask != ALL_LANES)
        fault("'%s' is executed by lanes %08x: all must", i->name, mask);
}

static void parts(const struct insn *i, const struct operand *o) {
    u32 n = HAS(X4) ? 4 : HAS(X2) ? 2 : 1;
    if (o->n != n)
        fault("'%s' has %u registers", i->name, o->n);
}

// Passes over the banks beyond the first, for 8 rows of 16 bytes.
static void count_rows(const u64 *address) {
    u32 in_bank[BANKS] = {0}, most = 0;
    for (int r = 0; r < PART; r++)
        for (u32 n = 0; n < ROW_BYTES / 4; n++) {
            u32 here = ++in_bank[(address[r] / 4 + n) % BANKS];
            most = here > most ? here : most;
        }
    counts.shared_requests++;
    counts.shared_conflicts += most - 1;
}

static void ldmatrix(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *d = &i->op[0];
    all_lanes(i, mask);
    parts(i, d);
    u16 part[4][PART][PART];
    for (u32 p = 0; p < d->n; p++) {
        u64 address[PART];
        for (int r = 0; r < PART; r++) {
            address[r] = shared_offset(i, lane_address(w, i, 1, (int)p * PART + r));
            memcpy(part[p][r], shared_read(w, address[r], ROW_BYTES, LANES), ROW_BYTES);
        }
        count_rows(address);
    }
    bool turned = HAS(TRANS);
    for (u32 p = 0; p < d->n; p++)
        for (int l = 0; l < LANES; l++) {
            int r = l / 4, c = l % 4 * 2;
            u32 low = turned ? part[p][c][r] : part[p][r][c];
            u32 high = turned ? part[p][c + 1][r] : part[p][r][c + 1];
            set_lane(w, d, p, l, high << 16 | low);
        }
}

static void stmatrix(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *s = &i->op[1];
    all_lanes(i, mask);
    parts(i, s);
    bool turned = HAS(TRANS);
    for (u32 p = 0; p < s->n; p++) {
        u16 part[PART][PART];
        u64 address[PART];
        for (int l = 0; l < LANES; l++) {
            int r = l / 4, c = l % 4 * 2;
            u32 v = (u32)lane_value(w, s, p, l);
            *(turned ? &part[c][r] : &part[r][c]) = (u16)v;
            *(turned ? &part[c + 1][r] : &part[r][c + 1]) = (u16)(v >> 16);
        }
        for (int r = 0; r < PART; r++) {
            address[r] = shared_offset(i, lane_address(w, i, 0, (int)p * PART + r));
            memcpy(shared_write(w, address[r], ROW_BYTES, LANES), part[r], ROW_BYTES);
        }
        count_rows(address);
    }
}

// ---- mma.sync: D = A B + C, 16 x 8, depth 4, 8 or 16
// ---------------------------------------------
struct tile {
    float a[ROWS][DEPTH_MAX], b[DEPTH_MAX][COLUMNS], c[ROWS][COLUMNS];
};

static float half_at(u32 v, int upper, bool bf) {
    u32 h = upper ? v >> 16 : v & 0xffff;
    return bf ? bfloat_to(h) : half_to(h);
}

// 16-bit operands: each register holds two neighbours along the depth.
static void load_halves(struct warp *w, const struct insn *i, struct tile *t, int depth) {
    bool bf = i->type2 == T_BF16;
    for (int n = 0; n < depth / 4; n++)
        for (int l = 0; l < LANES; l++) {
            u32 v = (u32)lane_value(w, &i->op[1], (u32)n, l);
            float *to = &t->a[l / 4 + (n & 1) * 8][l % 4 * 2 + (n >> 1) * 8];
            to[0] = half_at(v, 0, bf);
            to[1] = half_at(v, 1, bf);
        }
    for (int n = 0; n < depth / 8; n++)
        for (int l = 0; l < LANES; l++) {
            u32 v = (u32)lane_value(w, &i->op[2], (u32)n, l);
            int k = l % 4 * 2 + n * 8;
            t->b[k][l / 4] = half_at(v, 0, bf);
            t->b[k + 1][l / 4] = half_at(v, 1, bf);
        }
}

// tf32: the low 13 bits of each float do not count.
static float tf32_at(struct warp *w, const struct operand *o, u32 n, int l) {
    u32 bits = (u32)lane_value(w, o, n, l) & ~0x1fffu;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static void load_tf32(struct warp *w, const struct insn *i, struct tile *t, int depth) {
    for (int n = 0; n < depth / 2; n++)
        for (int l = 0; l < LANES; l++)
            t->a[l / 4 + (n & 1) * 8][l % 4 + (n >> 1) * 4] = tf32_at(w, &i->op[1], (u32)n, l);
    for (int n = 0; n < depth / 4; n++)
        for (int l = 0; l < LANES; l++)
            t->b[l % 4 + n * 4][l / 4] = tf32_at(w, &i->op[2], (u32)n, l);
}

static void accumulators(struct warp *w, const struct insn *i, int k, struct tile *t, bool store) {
    const struct operand *o = &i->op[k];
    bool half = i->type == T_F16;
    for (int n = 0; n < 4; n++)
        for (int l = 0; l < LANES; l++) {
            float *at = &t->c[l / 4 + (n >> 1) * 8][l % 4 * 2 + (n & 1)];
            u32 was = (u32)lane_value(w, o, (u32)(half ? n / 2 : n), l), bits;
            if (!store && half)
                *at = half_at(was, n & 1, false);
            else if (!store)
                memcpy(at, &was, sizeof *at);
            else if (half) {
                u32 h = half_from((long double)*at, R_NEAREST);
                set_lane(w, o, (u32)n / 2, l,
                         n & 1 ? (was & 0xffff) | h << 16 : (was & 0xffff0000) | h);
            } else {
                memcpy(&bits, at, sizeof bits);
                set_lane(w, o, (u32)n, l, bits);
            }
        }
}

static void registers(const struct insn *i, int depth, bool halves) {
    u32 a = (u32)(halves ? depth / 4 : depth / 2), b = a / 2, c = i->type == T_F16 ? 2 : 4;
    if (i->op[0].n != c || i->op[1].n != a || i->op[2].n != b || i->op[3].n != c)
        fault("'%s' has %u, %u, %u, %u registers", i->name, i->op[0].n, i->op[1].n, i->op[2].n,
              i->op[3].n);
}

static void mma(struct warp *w, const struct insn *i, u32 mask) {
    struct tile t;
    int depth = HAS(M16N8K16) ? 16 : HAS(M16N8K8) ? 8 : 4;
    bool halves = i->type2 != T_TF32;
    all_lanes(i, mask);
    registers(i, depth, halves);
    counts.mma++;
    if (halves)
        load_halves(w, i, &t, depth);
    else
        load_tf32(w, i, &t, depth);
    accumulators(w, i, 3, &t, false);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < depth; k++)
            for (int c = 0; c < COLUMNS; c++)
                t.c[r][c] += t.a[r][k] * t.b[k][c];
    accumulators(w, i, 0, &t, true);
}

#define LAYOUT (MOD(SYNC) | MOD(ALIGNED) | MOD(ROW) | MOD(COL))
#define MATRIX (MOD(SYNC) | MOD(ALIGNED) | MOD(M8N8) | MOD(TRANS) | MOD(SHARED))
const struct op ops_tensor[] = {
    {"ldmatrix", TYPE(B16), 0, MATRIX, "xm", ldmatrix, 0, MOD(X1) | MOD(X2) | MOD(X4)},
    {"stmatrix", TYPE(B16), 0, MATRIX, "mx", stmatrix, 0, MOD(X1) | MOD(X2) | MOD(X4)},
    {"mma", TYPE(F32), TYPE(F16) | TYPE(BF16), LAYOUT, "xxxx", mma, 0,
     MOD(M16N8K16) | MOD(M16N8K8)},
    {"mma", TYPE(F16), TYPE(F16), LAYOUT, "xxxx", mma, 0, MOD(M16N8K16) | MOD(M16N8K8)},
    {"mma", TYPE(F32), TYPE(TF32), LAYOUT, "xxxx", mma, 0, MOD(M16N8K4) | MOD(M16N8K8)},
    {0},
};
