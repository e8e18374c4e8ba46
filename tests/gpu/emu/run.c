// SPDX-License-Identifier: Apache-2.0
// run.c: runs a kernel. Lanes of a warp that are at the same instruction continue together; of
// several groups the one at the instruction of the least rank goes first, so that they meet again
// behind a branch (order.c). Warps of a block, and blocks, take turns in an order that the seed
// decides.
#include "emu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define INSNS_OF_BLOCK_MAX ((u64)1 << 32) // a block that executes more does not end
enum { TURN_INSNS_MAX = 400, POLL_INSNS_MAX = 64, FRUITLESS_MAX = 100000, AWAITING_MAX = 4000 };
enum { BULK_TURNS = 4 }; // with an odd seed bulk copies arrive early, too, one in so many turns

struct ptx_counts counts;
static jmp_buf failed;
static char *failed_text;
static struct warp *running;

void fault(const char *fmt, ...) {
    char what[PTX_TEXT_MAX / 2];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const struct warp *w = running;
    if (w && w->at)
        snprintf(failed_text, PTX_TEXT_MAX,
                 "%s; kernel '%s', block (%u, %u, %u), warp %u, line %u: %s", what, w->b->k->name,
                 w->b->index[0], w->b->index[1], w->b->index[2], w->id, w->at->line, w->at->name);
    else
        snprintf(failed_text, PTX_TEXT_MAX, "%s", what);
    longjmp(failed, 1);
}

void *grown(void *list, u32 n, u32 *cap, size_t bytes) {
    if (n < *cap)
        return list;
    *cap = *cap ? 2 * *cap : 64;
    list = realloc(list, *cap * bytes);
    if (!list)
        abort();
    return list;
}

u32 random_below(u64 *state, u32 n) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (u32)((*state >> 33) % n);
}

struct ptx_counts ptx_take_counts(void) {
    struct ptx_counts c = counts;
    counts = (struct ptx_counts){0};
    return c;
}

// ---- one warp ----------------------------------------------------------------------------------
// Brings the group that goes first to the front, joins those that are at the same instruction, and
// returns the rank at which the next one waits.
static u32 choose_group(struct warp *w) {
    const struct insn *code = w->b->k->code;
    u32 next = UINT32_MAX;
    for (u32 n = 1; n < w->n_groups; n++)
        if (code[w->group[n].pc].rank < code[w->group[0].pc].rank) {
            struct lanes swap = w->group[0];
            w->group[0] = w->group[n];
            w->group[n] = swap;
        }
    for (u32 n = 1; n < w->n_groups;) {
        if (w->group[n].pc == w->group[0].pc) {
            w->group[0].mask |= w->group[n].mask;
            w->group[n] = w->group[--w->n_groups];
        } else {
            u32 rank = code[w->group[n].pc].rank;
            next = rank < next ? rank : next;
            n++;
        }
    }
    return next;
}

static void branch(struct warp *w, const struct insn *i, u32 taken) {
    struct lanes *g = &w->group[0];
    if (taken == g->mask) {
        g->pc = i->target;
        return;
    }
    g->pc++;
    if (taken) {
        g->mask &= ~taken;
        w->group[w->n_groups++] = (struct lanes){i->target, taken};
    }
}

static void leave(struct warp *w, u32 lanes) {
    struct lanes *g = &w->group[0];
    w->live &= ~lanes;
    g->mask &= ~lanes;
    g->pc++;
    if (!g->mask)
        *g = w->group[--w->n_groups];
    if (!w->live)
        async_end(w);
}

// Runs until the warp ends, stops, or has executed `budget` instructions; returns how many it did.
static u64 run_warp(struct warp *w, u64 budget) {
    const struct insn *code = w->b->k->code;
    u64 done = 0, lanes = 0;
    u32 next = choose_group(w);
    running = w;
    w->stop = STOP_NONE;
    while (w->live && !w->stop && done < budget) {
        struct lanes *g = &w->group[0];
        const struct insn *i = &code[g->pc];
        u32 mask = g->mask;
        if (i->guard >= 0)
            mask &= i->guard_negated ? ~w->pred[i->guard] : w->pred[i->guard];
        w->at = i;
        done++;
        lanes += (u32)__builtin_popcount(mask);
        if (i->flow == F_BRANCH) {
            if (change_seen)
                change_watch_branch(i, g->mask, mask);
            branch(w, i, mask);
            next = choose_group(w);
            continue;
        }
        if (i->flow == F_EXIT) {
            leave(w, mask);
            next = w->n_groups ? choose_group(w) : UINT32_MAX;
            continue;
        }
        if (mask && i->touches_sums)
            products_touch(w, i);
        if (mask)
            i->run(w, i, mask);
        if (code[++g->pc].rank >= next)
            next = choose_group(w);
    }
    counts.warp_insns += done;
    counts.lane_insns += lanes;
    return done;
}

// ---- one block ---------------------------------------------------------------------------------
static void fill(u8 *reg, bool wide, u64 v) {
    for (int l = 0; l < LANES; l++) {
        if (wide)
            ((u64 *)(void *)reg)[l] = v;
        else
            ((u32 *)(void *)reg)[l] = (u32)v;
    }
}

static u32 special_value(const struct warp *w, enum special s, u32 lane) {
    const struct block *b = w->b;
    const unsigned *size = b->launch->block, *grid = b->launch->grid;
    u32 t = w->id * LANES + lane;
    switch (s) {
    case S_TID_X: return t % size[0];
    case S_TID_Y: return t / size[0] % size[1];
    case S_TID_Z: return t / size[0] / size[1];
    case S_NTID_X:
    case S_NTID_Y:
    case S_NTID_Z: return size[s - S_NTID_X];
    case S_CTAID_X:
    case S_CTAID_Y:
    case S_CTAID_Z: return b->index[s - S_CTAID_X];
    case S_NCTAID_X:
    case S_NCTAID_Y:
    case S_NCTAID_Z: return grid[s - S_NCTAID_X];
    case S_LANEID: return lane;
    case S_WARPID: return w->id;
    case S_LANEMASK_EQ: return 1u << lane;
    case S_LANEMASK_LT: return (1u << lane) - 1;
    case S_LANEMASK_LE: return (2u << lane) - 1;
    case S_LANEMASK_GT: return ~((2u << lane) - 1);
    case S_LANEMASK_GE: return ~((1u << lane) - 1);
    case S_DYNAMIC_SMEM_SIZE: return (u32)b->launch->dynamic_shared;
    case S_NSMID: return 1;
    case S_CLOCK: return (u32)counts.warp_insns;
    case S_DYNAMIC_BASE: return b->k->dynamic_at;
    default: return 0;
    }
}

// Does it differ between blocks of a launch?
static bool of_block(enum special s) {
    return (s >= S_CTAID_X && s <= S_CTAID_Z) || s == S_CLOCK;
}

static void begin_warp(struct warp *w, u32 threads, bool first) {
    const struct ptx_kernel *k = w->b->k;
    u32 left = threads - w->id * LANES;
    w->live = left >= LANES ? ALL_LANES : (1u << left) - 1;
    w->group[0] = (struct lanes){0, w->live};
    w->n_groups = 1;
    w->stop = STOP_NONE;
    w->n_copies = w->committed = 0;
    w->n_products = w->product_groups = w->issued = 0;
    w->fenced_sums = false;
    w->awaits = -1;
    w->storing = 0;
    memset(w->bulk_committed, 0, sizeof w->bulk_committed);
    w->registers = k->registers;
    if (w->sums)
        memcpy(w->sums, k->sums, k->reg_bytes / (4 * LANES) + 1);
    w->at = NULL;
    for (int s = 1; s < S_COUNT; s++)
        for (u32 l = 0; k->special[s] && l < LANES && (first || of_block((enum special)s)); l++)
            ((u32 *)(void *)(w->reg + k->special[s]))[l] = special_value(w, (enum special)s, l);
}

// The barriers at which everybody is that they wait for.
static void release(struct block *b) {
    u32 live = 0;
    for (u32 n = 0; n < b->n_warps; n++)
        live |= (u32)(b->warp[n].live != 0) << n;
    for (u32 k = 0; k < BARRIERS; k++) {
        struct barrier *r = &b->barrier[k];
        if (!r->arrived || (r->expected ? r->threads < r->expected : (r->arrived & live) != live))
            continue;
        if (r->expected && r->threads > r->expected)
            fault("%u threads arrived at barrier %u, which is for %u", r->threads, k, r->expected);
        for (u32 n = 0; n < b->n_warps; n++) {
            struct warp *w = &b->warp[n];
            if (w->stop != STOP_BARRIER || w->barrier != k)
                continue;
            clock_learn(w, r->clock);
            w->stop = STOP_NONE;
        }
        *r = (struct barrier){0};
        b->progress++;
    }
}

static _Noreturn void stuck(struct block *b, const char *why) {
    mbarrier_deadlock(b);
    for (u32 n = 0; n < b->n_warps; n++)
        if (b->warp[n].live) {
            running = &b->warp[n];
            break;
        }
    fault("%s", why);
}

// The warps that can continue; of these one is picked.
static struct warp *pick(struct block *b) {
    struct warp *ready[WARPS_MAX];
    u32 n_ready = 0, n_live = 0;
    for (u32 n = 0; n < b->n_warps; n++) {
        n_live += b->warp[n].live != 0;
        if (b->warp[n].live && b->warp[n].stop != STOP_BARRIER)
            ready[n_ready++] = &b->warp[n];
    }
    if (n_live == 0)
        return NULL;
    if (n_ready == 0)
        stuck(b, "deadlock: every warp waits at a barrier");
    u32 first = 0; // that does not only wait
    while (first < n_ready && ready[first]->stop == STOP_YIELD)
        first++;
    return b->launch->seed || first == n_ready ? ready[random_below(&b->rng, n_ready)]
                                               : ready[first];
}

static void run_block(struct block *b, u32 threads, bool first) {
    u64 executed = 0, fruitless = 0;
    shadow_clear(b);
    b->synchronised = false;
    b->n_mbarriers = b->n_bulk = b->n_bulk_stores = b->spare_registers = 0;
    b->has_bulk = false;
    for (u32 n = 0; n <= WARPS_MAX / 4; n++)
        b->warpgroup[n].n = 0;
    memset(b->barrier, 0, sizeof b->barrier);
    for (u32 n = 0; n < b->n_warps; n++)
        begin_warp(&b->warp[n], threads, first);
    for (struct warp *w; (w = pick(b));) {
        u64 before = b->progress;
        u64 turn = run_warp(w, b->launch->seed ? 1 + random_below(&b->rng, TURN_INSNS_MAX)
                                               : TURN_INSNS_MAX * (u64)1000);
        if (w->stop == STOP_BARRIER || !w->live)
            release(b);
        executed += turn;
        // A turn of a few instructions may be part of a loop that only waits.
        if (b->progress != before || w->stop == STOP_BARRIER || !w->live ||
            (turn > POLL_INSNS_MAX && w->stop != STOP_YIELD))
            fruitless = 0;
        else if (++fruitless > 2 * b->n_warps &&
                 (async_complete_arrival(b) || bulk_complete_one(b)))
            fruitless = 0;
        if (b->launch->seed % 2 && b->n_bulk && random_below(&b->rng, BULK_TURNS) == 0)
            bulk_complete_one(b);
        if (fruitless > (mbarriers_awaited(b) ? AWAITING_MAX : FRUITLESS_MAX))
            stuck(b, "deadlock: every warp polls for what does not come");
        if (executed > (b->launch->insns_max ? b->launch->insns_max : INSNS_OF_BLOCK_MAX))
            fault("the block does not end");
    }
    running = NULL;
    products_end(b);
    if (b->n_bulk)
        fault("block (%u, %u, %u) of '%s' ends with bulk copies under way", b->index[0],
              b->index[1], b->index[2], b->k->name);
    mbarrier_end(b);
    bulk_store_end(b);
    counts.blocks++;
}

// ---- limits and parameters of a kernel ---------------------------------------------------------
size_t ptx_param_count(const struct ptx_kernel *k) {
    return k->params;
}
size_t ptx_static_shared(const struct ptx_kernel *k) {
    return k->shared_bytes;
}
unsigned ptx_threads_max(const struct ptx_kernel *k) {
    return k->threads_max;
}
void ptx_param(const struct ptx_kernel *k, size_t n, size_t *offset, size_t *bytes) {
    *offset = k->param_offset[n];
    *bytes = k->param_size[n];
}

// ---- one launch --------------------------------------------------------------------------------
// Launches share one mapping: pages of zeros took a third of a small kernel's time. Under the
// address sanitizer each launch has memory of its own, as large as it says.
enum room {
    ROOM_SHARED,
    ROOM_LOCAL,
    ROOM_WARPS,
    ROOM_REGISTERS,
    ROOM_PREDICATES = ROOM_REGISTERS + WARPS_MAX,
    ROOM_SUMS = ROOM_PREDICATES + WARPS_MAX,
    ROOMS = ROOM_SUMS + WARPS_MAX
};
#ifdef __SANITIZE_ADDRESS__
static void *room(u32 which, size_t n) {
    static void *at[ROOMS];
    free(at[which]);
    if (posix_memalign(&at[which], 64, n ? n : 1))
        abort();
    return memset(at[which], 0, n);
}
#else
#define ROOM_BYTES ((size_t)1 << 30) // of addresses
static void *room(u32 which, size_t n) {
    static u8 *all;
    static size_t used;
    if (!all) {
        all = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (all == MAP_FAILED)
            abort();
        not_for_copies(all, ROOM_BYTES);
    }
    u8 *at = all + (which == ROOM_SHARED ? 0 : used);
    n = (n + 63) / 64 * 64;
    if ((size_t)(at - all) + n > ROOM_BYTES)
        fault("a launch takes more than %zu bytes of the interpreter", ROOM_BYTES);
    used = (size_t)(at - all) + n;
    return memset(at, 0, n);
}
#endif

static void begin_launch(struct block *b) {
    const struct ptx_kernel *k = b->k;
    b->shared = room(ROOM_SHARED, b->shared_bytes);
    b->local = room(ROOM_LOCAL, (size_t)k->local_bytes * LANES * b->n_warps);
    b->warp = room(ROOM_WARPS, b->n_warps * sizeof *b->warp);
    for (u32 n = 0; n < b->n_warps; n++) {
        struct warp *w = &b->warp[n];
        *w = (struct warp){.b = b, .id = n, .reg = room(ROOM_REGISTERS + n, k->reg_bytes)};
        w->pred = room(ROOM_PREDICATES + n, (k->n_predicates + 1) * sizeof *w->pred);
        if (k->sums)
            w->sums = room(ROOM_SUMS + n, k->reg_bytes / (4 * LANES) + 1);
        for (u32 c = 0; c < k->n_constants; c++)
            fill(w->reg + k->constant[c].at, k->constant[c].wide, k->constant[c].value);
        if (k->dynamic_wide)
            fill(w->reg + k->dynamic_wide, true, k->dynamic_at);
    }
}

static void end_launch(struct block *b) {
    for (u32 n = 0; b->warp && n < b->n_warps; n++) {
        free(b->warp[n].copies);
        free(b->warp[n].products);
    }
    for (u32 n = 0; n <= WARPS_MAX / 4; n++)
        free(b->warpgroup[n].issue);
    free(b->mbarrier);
    free(b->bulk);
    bulk_store_free(b);
}

static void check_launch(const struct ptx_kernel *k, const struct ptx_launch *l) {
    u64 threads = (u64)l->block[0] * l->block[1] * l->block[2];
    u64 blocks = (u64)l->grid[0] * l->grid[1] * l->grid[2];
    if (threads == 0 || blocks == 0 || blocks > UINT32_MAX)
        fault("launch of '%s' with %llu threads and %llu blocks", k->name,
              (unsigned long long)threads, (unsigned long long)blocks);
    if (threads > k->threads_max)
        fault("launch of '%s' with %llu threads, its limit is %u", k->name,
              (unsigned long long)threads, k->threads_max);
    if (l->dynamic_shared + k->shared_bytes > PTX_SHARED_MAX)
        fault("launch of '%s' with %zu bytes of shared memory, the limit is %d", k->name,
              l->dynamic_shared + k->shared_bytes, PTX_SHARED_MAX);
}

static u32 common_divisor(u32 a, u32 b) {
    return b ? common_divisor(b, a % b) : a;
}

int ptx_run(struct ptx_kernel *k, const struct ptx_launch *l, char *text) {
    static struct block b; // static: it is read after longjmp
    b = (struct block){.k = k, .launch = l, .rng = l->seed * 0x9e3779b97f4a7c15ull + 1};
    failed_text = text;
    running = NULL;
    if (setjmp(failed)) {
        end_launch(&b);
        return -1;
    }
    check_launch(k, l);
    u32 threads = l->block[0] * l->block[1] * l->block[2];
    u32 blocks = l->grid[0] * l->grid[1] * l->grid[2], step = 1, from = 0;
    b.n_warps = (threads + LANES - 1) / LANES;
    b.shared_bytes = k->dynamic_at + (u32)l->dynamic_shared;
    begin_launch(&b);
    if (l->seed) {
        step = 1 + random_below(&b.rng, blocks);
        from = random_below(&b.rng, blocks);
        while (common_divisor(step, blocks) != 1)
            step++;
    }
    u32 serial = global_serial(blocks);
    for (u32 n = 0; n < blocks; n++) {
        u32 at = (u32)(((u64)n * step + from) % blocks);
        b.index[0] = at % l->grid[0];
        b.index[1] = at / l->grid[0] % l->grid[1];
        b.index[2] = at / l->grid[0] / l->grid[1];
        b.serial = serial + n;
        run_block(&b, threads, n == 0);
    }
    counts.launches++;
    end_launch(&b);
    return 0;
}
