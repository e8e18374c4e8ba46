// SPDX-License-Identifier: Apache-2.0
// warpgroup.c: wgmma: products of four warps, whose operands lie in shared memory as descriptors
// say (the chapter "Asynchronous warpgroup level matrix instructions" of the PTX manual). The first
// operand may be in registers. Sums change when a warp waits for them. Until then nothing may touch
// their registers or write what they read. Each warp counts as a reader of all of both operands.
#include "emu.h"

#include <stdlib.h>
#include <string.h>

enum {
    GROUP_WARPS = 4,
    GROUP_ROWS = 64,
    WARP_ROWS = 16,
    COLUMNS_MAX = 256,
    DEPTH_MAX = 16,
    CHUNK = 16, // bytes
    TERM_BYTES = 32,
    A_REGISTERS = 4,
};
// Knowledge of a register of the sums, or of the first operand, of some wgmma.mma_async: it is one,
// it was accessed since a fence, a product will change it, a product still reads it.
enum { IS_SUM = 1, TOUCHED = 2, PENDING = 4, READING = 8 };

// An operand as a descriptor says. W bytes, the width of its swizzle, of a row or a term lie side
// by side. turned: memory is contiguous along the rows.
struct matrix {
    u32 start, leading, stride, width;
    bool turned;
};

// An instruction that the four warps have issued; all must issue the same, in this order.
struct issue {
    const struct insn *i;
    u64 a, b;
};

struct product { // that was not waited for
    const struct insn *i;
    u64 a, b;
    bool adds;
    u32 group; // number of its commit_group
};

// ---- registers ---------------------------------------------------------------------------------
static void product(struct warp *w, const struct insn *i, u32 mask);

// The registers of an operand by number: of 32 lanes of 4 bytes each.
static u32 register_at(const struct operand *o, u32 n) {
    return o->r[n] / (4 * LANES);
}
static bool has_registers(const struct operand *o) {
    return o->kind == O_REGISTERS || o->kind == O_ADDRESS;
}
static bool in_registers(const struct insn *i) { // the first operand
    return i->op[1].n > 1;
}
static u8 states_of(const u8 *state, const struct operand *o) {
    u8 all = 0;
    for (u32 n = 0; has_registers(o) && n < o->n; n++)
        all |= (u8)(state[register_at(o, n)] | (o->wide ? state[register_at(o, n) + 1] : 0));
    return all;
}

void products_prepare(struct ptx_kernel *k) {
    for (struct insn *i = k->code; i < k->code + k->n; i++)
        if (i->run == product && !k->sums)
            k->sums = module_memory(k->module, k->reg_bytes / (4 * LANES) + 1);
    for (struct insn *i = k->code; k->sums && i < k->code + k->n; i++)
        for (int o = 0; i->run == product && o <= in_registers(i); o++)
            for (u32 n = 0; n < i->op[o].n; n++)
                k->sums[register_at(&i->op[o], n)] = IS_SUM;
    for (struct insn *i = k->code; k->sums && i < k->code + k->n; i++)
        for (u32 n = 0; n < i->n_operands; n++)
            i->touches_sums |= i->run != product && (states_of(k->sums, &i->op[n]) & IS_SUM);
}

void products_touch(struct warp *w, const struct insn *i) {
    for (u32 k = 0; k < i->n_operands; k++) {
        const struct operand *o = &i->op[k];
        if (states_of(w->sums, o) & (PENDING | READING))
            fault("'%s' touches a register of a wgmma.mma_async that was not waited for", i->name);
        for (u32 n = 0; has_registers(o) && n < o->n; n++)
            for (u32 at = register_at(o, n); at <= register_at(o, n) + o->wide; at++)
                w->sums[at] |= w->sums[at] & IS_SUM ? TOUCHED : 0;
    }
}

// ---- four warps that do the same ---------------------------------------------------------------
void group_together(struct warp *w, const struct insn *i, u32 mask, u64 a, u64 b) {
    u32 first = w->id / GROUP_WARPS * GROUP_WARPS, done = UINT32_MAX;
    const unsigned *size = w->b->launch->block;
    struct warpgroup *g = &w->b->warpgroup[w->id / GROUP_WARPS];
    if (mask != ALL_LANES)
        fault("'%s' is executed by lanes %08x: all must", i->name, mask);
    if ((first + GROUP_WARPS) * LANES > size[0] * size[1] * size[2])
        fault("'%s' in warp %u, which is not one of four whole warps", i->name, w->id);
    g->issue = grown(g->issue, g->n, &g->cap, sizeof *g->issue);
    if (w->issued == g->n)
        g->issue[g->n++] = (struct issue){i, a, b};
    const struct issue *same = &g->issue[w->issued++];
    if (same->i != i || same->a != a || same->b != b)
        fault(
            "a warp executes '%s' of line %u where another of its four executes '%s' of line %u%s",
            i->name, i->line, same->i->name, same->i->line,
            same->i == i ? " with other descriptors" : "");
    for (u32 n = first; n < first + GROUP_WARPS; n++)
        done = w->b->warp[n].issued < done ? w->b->warp[n].issued : done;
    if (done == g->n)
        for (u32 n = g->n = 0; n < GROUP_WARPS; n++)
            w->b->warp[first + n].issued = 0;
}

void products_end(struct block *b) {
    for (u32 n = 0; n < b->n_warps; n++)
        if (b->warp[n].issued != b->warpgroup[n / GROUP_WARPS].n)
            fault("block (%u, %u, %u) of '%s' ends where warp %u has executed fewer wgmma or "
                  "setmaxnreg than another of its four",
                  b->index[0], b->index[1], b->index[2], b->k->name, n);
}

// ---- operands ----------------------------------------------------------------------------------
static u64 the_same(const struct warp *w, const struct insn *i, int k) {
    u64 v = lane_value(w, &i->op[k], 0, 0);
    for (int l = 1; l < LANES; l++)
        if (lane_value(w, &i->op[k], 0, l) != v)
            fault("lanes of '%s' have several descriptors", i->name);
    return v;
}

// Addresses and offsets are in units of 16 bytes, 14 bits each.
static struct matrix matrix_of(u64 d, bool turned) {
    static const u8 width[] = {16, 128, 64, 32};
    const u64 reserved = 0x3ff1c000c000c000;
    if (d & reserved)
        fault("descriptor %016llx has bits that are reserved", (unsigned long long)d);
    if (d >> 49 & 7)
        fault("descriptor %016llx has a base offset, which is not modelled", (unsigned long long)d);
    return (struct matrix){.start = (u32)(d & 0x3fff) * 16,
                           .leading = (u32)(d >> 16 & 0x3fff) * 16,
                           .stride = (u32)(d >> 32 & 0x3fff) * 16,
                           .width = width[d >> 62],
                           .turned = turned};
}

// Where a chunk of 16 bytes lies: chunk `along` of row `across`, or turned of term `across`. Bits 7
// to 9 of an address turn its bits 4 to 6, as many of them as chunks lie side by side.
static u32 chunk_at(const struct matrix *m, u32 across, u32 along) {
    u32 side = m->width / CHUNK, at = m->start + across % 8 * m->width;
    if (m->width == CHUNK)
        at += m->turned ? across / 8 * m->leading + along * m->stride
                        : across / 8 * m->stride + along * m->leading;
    else
        at += across / 8 * m->stride + along % side * CHUNK +
              (m->turned ? along / side * m->leading : 0);
    return at ^ (at >> 7 & (side - 1)) << 4;
}

// Each chunk of so many rows begins to be read, or has been read. A row has 32 bytes of terms.
static void read_chunks(struct warp *w, const struct matrix *m, u32 rows, u32 depth, bool begins) {
    u32 across = m->turned ? depth : rows, fenced = begins ? shared_fenced(w) : 0;
    u32 along = (m->turned ? rows * (TERM_BYTES / depth) : TERM_BYTES) / CHUNK;
    for (u32 n = 0; n < across; n++)
        for (u32 c = 0; c < along; c++)
            if (begins)
                shared_product_begins(w, "read by wgmma.mma_async", fenced, chunk_at(m, n, c),
                                      CHUNK);
            else
                shared_product_ends(w, chunk_at(m, n, c), CHUNK);
}

static float number(const u8 *at, enum type t) {
    u32 bits = 0;
    float v;
    memcpy(&bits, at, t == T_TF32 ? 4 : 2);
    if (t != T_TF32)
        return t == T_BF16 ? bfloat_to(bits) : half_to(bits);
    bits &= ~0x1fffu; // the low 13 bits of each float do not count
    memcpy(&v, &bits, sizeof v);
    return v;
}

// Rows from `first` on, by term.
static void load(const struct warp *w, const struct matrix *m, enum type t, u32 first, u32 rows,
                 float (*to)[COLUMNS_MAX]) {
    u32 size = t == T_TF32 ? 4 : 2, depth = TERM_BYTES / size, many = CHUNK / size;
    for (u32 r = 0; r < rows; r += m->turned ? many : 1)
        for (u32 k = 0; k < depth; k += m->turned ? 1 : many) {
            u32 row = first + r,
                at = m->turned ? chunk_at(m, k, row / many) : chunk_at(m, row, k / many);
            for (u32 n = 0; n < many; n++)
                to[m->turned ? k : k + n][m->turned ? r + n : r] =
                    number(w->b->shared + at + n * size, t);
        }
}

// ---- sums --------------------------------------------------------------------------------------
// Register n of a lane.
static u32 sum_row(u32 lane, u32 n) {
    return lane / 4 + n / 2 % 2 * 8;
}
static u32 sum_column(u32 lane, u32 n) {
    return n / 4 * 8 + lane % 4 * 2 + n % 2;
}

// The first operand in registers: of 8 rows and 16 bytes of terms each, of which a lane has 4.
static void load_registers(const struct warp *w, const struct operand *o, enum type t,
                           float (*to)[COLUMNS_MAX]) {
    u32 size = t == T_TF32 ? 4 : 2, many = 4 / size;
    for (u32 r = 0; r < A_REGISTERS; r++)
        for (u32 l = 0; l < LANES; l++)
            for (u32 n = 0; n < many; n++)
                to[r / 2 * 4 * many + l % 4 * many + n][l / 4 + r % 2 * 8] =
                    number(w->reg + o->r[r] + 4 * l + n * size, t);
}

static void multiply(struct warp *w, const struct product *p, const struct matrix *ma,
                     const struct matrix *mb) {
    static float a[DEPTH_MAX][COLUMNS_MAX], b[DEPTH_MAX][COLUMNS_MAX], sum[WARP_ROWS][COLUMNS_MAX];
    const struct operand *d = &p->i->op[0];
    enum type t = (enum type)p->i->type2;
    u32 columns = p->i->columns, depth = t == T_TF32 ? 8 : 16;
    if (in_registers(p->i))
        load_registers(w, &p->i->op[1], t, a);
    else
        load(w, ma, t, w->id % GROUP_WARPS * WARP_ROWS, WARP_ROWS, a);
    load(w, mb, t, 0, columns, b);
    for (u32 n = 0; n < d->n; n++)
        for (u32 l = 0; l < LANES; l++) {
            float *at = &sum[sum_row(l, n)][sum_column(l, n)];
            *at = p->adds ? ((const float *)(const void *)(w->reg + d->r[n]))[l] : 0.0f;
        }
    for (u32 r = 0; r < WARP_ROWS; r++)
        for (u32 k = 0; k < depth; k++)
            for (u32 c = 0; c < columns; c++)
                sum[r][c] += a[k][r] * b[k][c];
    for (u32 n = 0; n < d->n; n++)
        for (u32 l = 0; l < LANES; l++)
            ((float *)(void *)(w->reg + d->r[n]))[l] = sum[sum_row(l, n)][sum_column(l, n)];
}

// ---- instructions ------------------------------------------------------------------------------
static bool is_turned(const struct insn *i, int operand) {
    return i->n_operands > operand && i->op[operand].imm == 1;
}

// The first operand has no transposition where it is in registers, and none has for tf32.
static struct matrix second_matrix(const struct insn *i, u64 descriptor) {
    return matrix_of(descriptor, is_turned(i, in_registers(i) ? 6 : 7));
}

static void check_form(const struct insn *i) {
    u32 n = i->type2 == T_TF32 ? 6 : in_registers(i) ? 7 : 8;
    if (i->n_operands != n)
        fault("'%s' has %u operands, not %u", i->name, i->n_operands, n);
    if (in_registers(i) && i->op[1].n != A_REGISTERS)
        fault("'%s' has %u registers for its first operand", i->name, i->op[1].n);
    if (i->columns == 0 || i->columns > COLUMNS_MAX || i->columns % 8)
        fault("'%s' has %u columns", i->name, i->columns);
    if (i->op[0].n != i->columns / 2u)
        fault("'%s' has %u registers for its sums", i->name, i->op[0].n);
    if (i->op[4].imm != 1 || i->op[5].imm != 1)
        fault("'%s' negates an operand, which is not modelled", i->name);
}

// Marks the registers of a product, or takes marks away.
static void mark(struct warp *w, const struct insn *i, bool under_way) {
    for (int o = 0; o <= in_registers(i); o++)
        for (u32 n = 0; n < i->op[o].n; n++) {
            u8 *state = &w->sums[register_at(&i->op[o], n)], bit = o ? READING : PENDING;
            *state = under_way ? *state | bit : *state & (u8)~bit;
        }
}

static void check_registers(const struct warp *w, const struct insn *i) {
    u8 sums = states_of(w->sums, &i->op[0]);
    u8 terms = in_registers(i) ? states_of(w->sums, &i->op[1]) : 0;
    if (!w->fenced_sums)
        fault("'%s' without a wgmma.fence before it", i->name);
    if ((sums | terms) & TOUCHED)
        fault("registers of '%s' were touched and no wgmma.fence followed", i->name);
    if ((sums & READING) || (terms & PENDING))
        fault("'%s' has a register of its own sums or terms in common with a wgmma.mma_async that "
              "was not waited for",
              i->name);
}

static void product(struct warp *w, const struct insn *i, u32 mask) {
    const struct operand *scale = &i->op[3];
    check_form(i);
    u64 a = in_registers(i) ? 0 : the_same(w, i, 1), b = the_same(w, i, 2);
    struct matrix ma = matrix_of(a, is_turned(i, 6)), mb = second_matrix(i, b);
    u32 depth = i->type2 == T_TF32 ? 8 : 16;
    u32 adds = scale->is_imm ? (scale->imm ? ALL_LANES : 0) : predicate(w, scale);
    group_together(w, i, mask, a, b);
    if (adds && adds != ALL_LANES)
        fault("lanes of '%s' differ in whether it adds", i->name);
    check_registers(w, i);
    if (!in_registers(i))
        read_chunks(w, &ma, GROUP_ROWS, depth, true);
    read_chunks(w, &mb, i->columns, depth, true);
    mark(w, i, true);
    w->products = grown(w->products, w->n_products, &w->products_cap, sizeof *w->products);
    w->products[w->n_products++] = (struct product){i, a, b, adds != 0, w->product_groups};
    counts.mma++;
}

static void finish(struct warp *w, const struct product *p) {
    const struct insn *i = p->i;
    struct matrix a = matrix_of(p->a, is_turned(i, 6)), b = second_matrix(i, p->b);
    u32 depth = i->type2 == T_TF32 ? 8 : 16;
    multiply(w, p, &a, &b);
    if (!in_registers(i))
        read_chunks(w, &a, GROUP_ROWS, depth, false);
    read_chunks(w, &b, i->columns, depth, false);
    mark(w, i, false);
}

static void fence(struct warp *w, const struct insn *i, u32 mask) {
    group_together(w, i, mask, 0, 0);
    w->fenced_sums = true;
    for (u32 n = 0; w->sums && n <= w->b->k->reg_bytes / (4 * LANES); n++)
        w->sums[n] &= (u8)~TOUCHED;
}

static void commit_group(struct warp *w, const struct insn *i, u32 mask) {
    group_together(w, i, mask, 0, 0);
    w->product_groups++;
}

static void wait_group(struct warp *w, const struct insn *i, u32 mask) {
    u32 may_stay = (u32)i->op[0].imm, n = 0;
    group_together(w, i, mask, 0, 0);
    while (n < w->n_products && w->products[n].group + may_stay < w->product_groups)
        finish(w, &w->products[n++]);
    w->n_products -= n;
    memmove(w->products, w->products + n, w->n_products * sizeof *w->products);
    for (u32 q = 0; q < w->n_products; q++) // of a sum of several groups
        mark(w, w->products[q].i, true);
}

#define FORM (MOD(SYNC) | MOD(ALIGNED) | MOD(M64))
const struct op ops_warpgroup[] = {
    {"wgmma", TYPE(F32), TYPE(F16) | TYPE(BF16), FORM, "xQqPii?ii", product, 0, MOD(MMA_ASYNC)},
    {"wgmma", TYPE(F32), TYPE(TF32), FORM, "xQqPii", product, 0, MOD(MMA_ASYNC)},
    {"wgmma", 0, 0, MOD(SYNC) | MOD(ALIGNED), "", fence, 0, MOD(FENCE)},
    {"wgmma", 0, 0, MOD(SYNC) | MOD(ALIGNED), "", commit_group, 0, MOD(COMMIT_GROUP)},
    {"wgmma", 0, 0, MOD(SYNC) | MOD(ALIGNED), "i", wait_group, 0, MOD(WAIT_GROUP)},
    {0},
};
