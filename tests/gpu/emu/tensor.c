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

// Passes over the banks beyond the first, for 8 rows of 16 bytes, each in four banks.
static void count_rows(const u64 *address) {
    u8 in_banks[BANKS * 4 / ROW_BYTES] = {0}, most = 0;
    for (int r = 0; r < PART; r++) {
        u8 here = ++in_banks[address[r] / ROW_BYTES % (BANKS * 4 / ROW_BYTES)];
        most = here > most ? here : most;
    }
    counts.shared_requests++;
    counts.shared_conflicts += most - 1u;
}

static void row_addresses(struct warp *w, const struct insn *i, int operand, u32 part, u64 *to) {
    for (int r = 0; r < PART; r++)
        to[r] = shared_offset(i, lane_address(w, i, operand, (int)part * PART + r));
}

static void ldmatrix(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *d = &i->op[0];
    all_lanes(i, mask);
    parts(i, d);
    u16 part[4][PART][PART];
    for (u32 p = 0; p < d->n; p++) {
        u64 address[PART];
        row_addresses(w, i, 1, p, address);
        for (int r = 0; r < PART; r++)
            memcpy(part[p][r], shared_read(w, address[r], ROW_BYTES, LANES), ROW_BYTES);
        count_rows(address);
    }
    for (u32 p = 0; p < d->n; p++) { // four lanes hold a row, or a column
        u16 *to = REGN(0, p);
        if (HAS(TRANS))
            for (int n = 0; n < PART * PART; n++)
                to[n] = part[p][n % PART][n / PART];
        else
            memcpy(to, part[p], sizeof part[p]);
    }
}

static void stmatrix(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *s = &i->op[1];
    all_lanes(i, mask);
    parts(i, s);
    for (u32 p = 0; p < s->n; p++) {
        u16 part[PART][PART];
        const u16 *from = REGN(1, p);
        u64 address[PART];
        if (HAS(TRANS))
            for (int n = 0; n < PART * PART; n++)
                part[n % PART][n / PART] = from[n];
        else
            memcpy(part, from, sizeof part);
        row_addresses(w, i, 0, p, address);
        for (int r = 0; r < PART; r++)
            memcpy(shared_write(w, address[r], ROW_BYTES, LANES), part[r], ROW_BYTES);
        count_rows(address);
    }
}

// ---- mma.sync: D = A B + C, 16 x 8, depth 4, 8 or 16 -------------------------------------------
struct tile {
    float a[ROWS][DEPTH_MAX], b[DEPTH_MAX][COLUMNS], c[ROWS][COLUMNS];
};

// 16-bit operands: each register holds 8 rows of 8 neighbours along the depth; of B 8 columns.
static void load_halves(const struct warp *w, const struct insn *i, struct tile *t, int depth) {
    float part[PART][PART];
    bool bf = i->type2 == T_BF16;
    for (int n = 0; n < depth / 4 + depth / 8; n++) {
        bool is_b = n >= depth / 4;
        int q = is_b ? n - depth / 4 : n;
        const u16 *v = REGN(is_b ? 2 : 1, q);
        for (int k = 0; k < PART * PART && bf; k++)
            part[k / PART][k % PART] = bfloat_to(v[k]);
        for (int k = 0; k < PART * PART && !bf; k++)
            part[k / PART][k % PART] = half_to(v[k]);
        for (int r = 0; r < PART && !is_b; r++)
            memcpy(&t->a[r + (q & 1) * PART][(q >> 1) * PART], part[r], sizeof part[r]);
        for (int k = 0; k < PART && is_b; k++)
            for (int c = 0; c < COLUMNS; c++)
                t->b[q * PART + k][c] = part[c][k];
    }
}

// tf32: the low 13 bits of each float do not count. A register holds 8 rows or columns of 4.
static void load_tf32(const struct warp *w, const struct insn *i, struct tile *t, int depth) {
    for (int n = 0; n < depth / 2; n++) {
        const u32 *v = REGN(1, n);
        for (int l = 0; l < LANES; l++)
            t->a[l / 4 + (n & 1) * 8][l % 4 + (n >> 1) * 4] = bits_float(v[l] & ~0x1fffu);
    }
    for (int n = 0; n < depth / 4; n++) {
        const u32 *v = REGN(2, n);
        for (int l = 0; l < LANES; l++)
            t->b[l % 4 + n * 4][l / 4] = bits_float(v[l] & ~0x1fffu);
    }
}

// Registers 2h and 2h + 1 hold the even and odd columns of eight rows.
static void load_sums(const struct warp *w, const struct insn *i, struct tile *t) {
    for (int h = 0; h < 2; h++) {
        const float *even = REGN(3, 2 * h), *odd = REGN(3, 2 * h + 1);
        float *to = t->c[h * PART];
        for (int l = 0; l < LANES; l++) {
            to[2 * l] = even[l];
            to[2 * l + 1] = odd[l];
        }
    }
}
static void store_sums(const struct warp *w, const struct insn *i, const struct tile *t) {
    for (int h = 0; h < 2; h++) {
        float *even = REGN(0, 2 * h), *odd = REGN(0, 2 * h + 1);
        const float *from = t->c[h * PART];
        for (int l = 0; l < LANES; l++) {
            even[l] = from[2 * l];
            odd[l] = from[2 * l + 1];
        }
    }
}
// The same in halves: one register for eight rows.
static void load_half_sums(const struct warp *w, const struct insn *i, struct tile *t) {
    for (int n = 0; n < ROWS * COLUMNS; n++)
        t->c[n / COLUMNS][n % COLUMNS] =
            half_to(((const u16 *)REGN(3, n / (PART * PART)))[n % (PART * PART)]);
}
static void store_half_sums(const struct warp *w, const struct insn *i, const struct tile *t) {
    for (int n = 0; n < ROWS * COLUMNS; n++)
        ((u16 *)REGN(0, n / (PART * PART)))[n % (PART * PART)] =
            (u16)half_from((long double)t->c[n / COLUMNS][n % COLUMNS], R_NEAREST);
}

// Each sum gets its terms in their order.
typedef float columns __attribute__((vector_size(COLUMNS * sizeof(float)), aligned(4)));
static inline void multiply(struct tile *t, int depth) {
    for (int r = 0; r < ROWS; r++) {
        columns sum = *(const columns *)(const void *)t->c[r];
        for (int k = 0; k < depth; k++)
            sum += t->a[r][k] * *(const columns *)(const void *)t->b[k];
        *(columns *)(void *)t->c[r] = sum;
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
    if (i->type == T_F16)
        load_half_sums(w, i, &t);
    else
        load_sums(w, i, &t);
    if (depth == 16)
        multiply(&t, 16);
    else
        multiply(&t, depth);
    if (i->type == T_F16)
        store_half_sums(w, i, &t);
    else
        store_sums(w, i, &t);
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
