// SPDX-License-Identifier: Apache-2.0
// Choices of the CPU's kernels by shape alone: groups of taps, tiles of Winograd's form and where
// that form is used; and the memory and threads of a context.
#include "kernels/cpu/conv_plan.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/winograd.h"
#include "tests/tap.h"

#include <errno.h>
#include <sched.h>

// ---- groups of taps ----------------------------------------------------------------------------

// NULL, or the rule that a plan breaks: each position once, each of its taps at its source.
static const char *wrong_plan(const struct axis_plan *p, int in, int out, int k, int stride,
                              int pad, bool data) {
    int positions = data ? in : out, sources = data ? out : in, seen[64] = {0};
    unsigned char used[conv_taps_max] = {0};
    for (int g = 0; g < p->groups; g++) {
        const struct axis_group *a = &p->group[g];
        for (int i = 0; i < a->count; i++) {
            int at = a->first + i * a->step, taps = 0;
            if (at < 0 || at >= positions || seen[at]++)
                return "a position";
            for (int tap = 0; tap < k; tap++) { // those that read a source
                int y = at + pad - tap, source = data ? y / stride : at * stride - pad + tap;
                taps += (!data || (y >= 0 && y % stride == 0)) && source >= 0 && source < sources;
            }
            if (a->taps != taps)
                return "the number of taps";
            for (int j = 0; j < a->taps; j++) {
                int tap = p->slot_tap[a->slot + j], source = a->src + i * a->src_step + j;
                used[a->slot + j] = 1;
                if (source < 0 || source >= sources ||
                    (data ? source * stride + tap != at + pad : at * stride + tap != source + pad))
                    return "a source";
            }
        }
    }
    for (int i = 0; i < positions; i++)
        if (!seen[i])
            return "a lost position";
    return memcmp(used, p->slot_used, sizeof used) == 0 ? NULL : "the slots in use";
}

static void test_axes(void) {
    int plans = 0, wrong = 0;
    for (int in = 1; in <= 17; in++)
        for (int k = 1; k <= 7; k++)
            for (int stride = 1; stride <= 4; stride++)
                for (int pad = 0; pad < k + 2; pad++) {
                    int out = kernel_conv_out(in, k, stride, pad);
                    struct axis_plan p;
                    if (in + 2 * pad < k || out < 1)
                        continue;
                    for (int data = 0; data < 2; data++, plans++) {
                        (data ? axis_plan_data : axis_plan_forward)(&p, in, out, k, stride, pad);
                        const char *why = wrong_plan(&p, in, out, k, stride, pad, data);
                        if (why && wrong++ < 5)
                            diag("in %d k %d stride %d pad %d data %d: %s", in, k, stride, pad,
                                 data, why);
                    }
                }
    is_int(wrong, 0, "%d plans have each position once, with its taps", plans);
    static const struct {
        int in, k, stride, pad, forward, data;
    } groups[] = {{32, 3, 1, 1, 3, 3}, {32, 3, 2, 1, 2, 3}, {32, 1, 1, 0, 1, 1},
                  {32, 1, 2, 0, 1, 2}, {32, 7, 2, 3, 4, 7}, {32, 5, 1, 0, 1, 9},
                  {3, 3, 1, 3, 7, 1},  {1, 3, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        struct axis_plan p;
        int in = groups[i].in, k = groups[i].k, stride = groups[i].stride, pad = groups[i].pad;
        axis_plan_forward(&p, in, kernel_conv_out(in, k, stride, pad), k, stride, pad);
        is_int(p.groups, groups[i].forward, "positions of %d with the same taps share a group", in);
        axis_plan_data(&p, in, kernel_conv_out(in, k, stride, pad), k, stride, pad);
        is_int(p.groups, groups[i].data, "positions of the gradient of case %zu share groups", i);
    }
}

// ---- Winograd's tiles --------------------------------------------------------------------------

static void test_tiles(void) {
    static const struct {
        int outputs, tiles, big;
    } axes[] = {{1, 1, 0}, {2, 1, 0}, {3, 1, 0},  {4, 1, 1},  {5, 2, 0},  {6, 2, 0},  {7, 2, 1},
                {8, 2, 2}, {9, 3, 0}, {10, 3, 1}, {11, 3, 2}, {12, 3, 3}, {32, 8, 8}, {14, 4, 2}};
    int wrong = 0;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        struct winograd_grid g = winograd_grid_of(3, axes[i].outputs, 6);
        ok(g.y.tiles == axes[i].tiles && g.y.big == axes[i].big && g.tiles == 3 * g.y.tiles * 2,
           "%d outputs are cut into tiles", axes[i].outputs);
        int next = 0; // tiles follow each other, and cover the outputs
        for (int64_t k = 0; k < g.tiles; k++) {
            struct winograd_tile t = winograd_tile_at(&g, k);
            int ty = (int)(k % (g.tiles / 3)) / g.x.tiles;
            if (k % (g.tiles / 3) == 0)
                next = 0;
            wrong += t.image != k / (g.tiles / 3) || t.x != (k % 2 ? 3 : 0) || t.y != next ||
                     t.nx != winograd_points - 1 || t.ny != winograd_points - (ty >= g.y.big);
            if (k % 2)
                next += t.ny - 2;
        }
        wrong += next < axes[i].outputs;
    }
    is_int(wrong, 0, "tiles follow each other in rows, image by image");
}

// Pixels of a tile at a corner; those outside of the image are zeros.
static void test_pixels(void) {
    static float image[2 * 5 * 4 * 3], zeros[3];
    const struct winograd_images from = {.at = image, .h = 5, .w = 4, .c = 3};
    const float *at[winograd_points * winograd_points];
    int wrong = 0, count = 0;
    for (int fewer = 0; fewer < 3; fewer++)
        for (int pad = 0; pad < 3; pad++)
            for (int y = 0; y < 5; y += 3)
                for (int x = 0; x < 4; x += 3) {
                    const struct winograd_tile t = {.image = 1, .y = y, .x = x, .ny = 6, .nx = 5};
                    winograd_pixels(&from, &t, pad, fewer, zeros, at);
                    for (int i = 0; i < 6 - fewer; i++)
                        for (int j = 0; j < 5 - fewer; j++, count++) {
                            int row = y - pad + i, column = x - pad + j;
                            bool in = row >= 0 && row < 5 && column >= 0 && column < 4;
                            const float *want =
                                in ? image + (((1 * 5) + row) * 4 + column) * 3 : zeros;
                            wrong += at[winograd_points * i + j] != want;
                        }
                }
    is_int(wrong, 0, "%d pixels are those of the image, or zeros", count);
    struct winograd_rows rows = {.count = {0}};
    const struct winograd_tile tiles[] = {
        {.ny = 6, .nx = 6}, {.ny = 5, .nx = 6}, {.ny = 5, .nx = 5}};
    for (int i = 0; i < 3; i++)
        winograd_count(&rows, &tiles[i]);
    ok(rows.count[0] == 3 && rows.count[1] == 1 && rows.count[2] == 2 && rows.count[3] == 1,
       "each tile counts for the planes that it has points in");
    static const size_t planes[][2] = {{1, 16},  {16, 16}, {17, 48}, {32, 48},
                                       {33, 48}, {48, 48}, {49, 80}};
    for (size_t i = 0; i < sizeof planes / sizeof *planes; i++)
        is_uint(winograd_plane(planes[i][0]), planes[i][1], "a plane of %zu floats has odd lines",
                planes[i][0]);
}

// The least images for which the form is used; 0: it never is.
static int images(int (*wins)(const struct kernel_ctx *, const struct conv2d_shape *),
                  const struct kernel_ctx *ctx, struct conv2d_shape s) {
    enum { MOST = 1 << 16 };
    s.n = MOST;
    if (!wins(ctx, &s))
        return 0;
    int low = 0; // it is not used
    for (int high = MOST; high - low > 1;) {
        int middle = low + (high - low) / 2;
        s.n = middle;
        *(wins(ctx, &s) ? &high : &low) = middle;
        if (high - low == 1)
            return high;
    }
    return 1;
}

static const struct {
    struct conv2d_shape s; // without images
    int forward, data, weight;
} shapes[] = {
    {{.h = 32, .w = 32, .c = 64, .o = 64, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 1, 1, 1},
    {{.h = 32, .w = 32, .c = 15, .o = 64, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 0, 0, 0},
    {{.h = 32, .w = 32, .c = 64, .o = 15, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 0, 0, 0},
    {{.h = 32, .w = 32, .c = 16, .o = 16, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 1, 1, 1},
    {{.h = 16, .w = 16, .c = 128, .o = 128, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 1, 1, 1},
    {{.h = 8, .w = 8, .c = 256, .o = 256, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 1, 1, 3},
    {{.h = 4, .w = 4, .c = 512, .o = 512, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 21, 21, 21},
    {{.h = 8, .w = 8, .c = 362, .o = 362, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 1, 1, 3},
    {{.h = 8, .w = 8, .c = 363, .o = 363, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 4, 4, 4},
    {{.h = 7, .w = 7, .c = 64, .o = 64, .kh = 3, .kw = 3, .stride = 1, .pad = 0}, 4, 6, 12},
    {{.h = 5, .w = 5, .c = 64, .o = 64, .kh = 3, .kw = 3, .stride = 1, .pad = 2}, 6, 4, 17},
    {{.h = 14, .w = 16, .c = 32, .o = 96, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 1, 1, 1},
    {{.h = 2, .w = 2, .c = 64, .o = 64, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 0, 0, 0},
    {{.h = 3, .w = 3, .c = 256, .o = 512, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 12, 12, 36},
    {{.h = 8, .w = 8, .c = 256, .o = 512, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 1, 1, 3},
    {{.h = 8, .w = 8, .c = 513, .o = 256, .kh = 3, .kw = 3, .stride = 1, .pad = 1}, 4, 4, 4},
};

static void test_rule(void) {
    struct kernel_ctx ctx = {.workers = 1};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int got[] = {images(winograd_forward_wins, &ctx, shapes[i].s),
                     images(winograd_data_wins, &ctx, shapes[i].s),
                     images(winograd_weight_wins, &ctx, shapes[i].s)};
        is_int(got[0], shapes[i].forward, "shape %zu needs so many images forward", i);
        is_int(got[1], shapes[i].data, "shape %zu needs so many images for its data", i);
        is_int(got[2], shapes[i].weight, "shape %zu needs so many images for its weights", i);
    }
    struct conv2d_shape s = {.n = 1, .h = 4, .w = 4, .c = 1, .o = 1, .kh = 3, .kw = 3, .stride = 1};
    ok(!winograd_forward_wins(&ctx, &s), "few channels are no reason for the form");
    ctx.winograd = KERNEL_WINOGRAD_ALWAYS;
    ok(winograd_forward_wins(&ctx, &s), "the form is used wherever it can be, if asked for");
    static const struct conv2d_shape others[] = {
        {.kh = 1, .kw = 3, .stride = 1},
        {.kh = 3, .kw = 1, .stride = 1},
        {.kh = 3, .kw = 3, .stride = 2},
        {.kh = 3, .kw = 3, .stride = 1, .pad = 3},
        {.kh = 3, .kw = 3, .stride = 1, .type = KERNEL_BF16},
        {.kh = 3, .kw = 3, .stride = 1, .x_store = KERNEL_BF16},
        {.kh = 3, .kw = 3, .stride = 1, .y_store = KERNEL_BF16}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ok(!winograd_exists(&ctx, &others[i]), "there is no such form of shape %zu", i);
    s.pad = 2;
    ok(winograd_exists(&ctx, &s), "a margin of two is part of the form");
    ctx.winograd = KERNEL_WINOGRAD_NEVER;
    ok(!winograd_exists(&ctx, &s), "the form is not used, if asked for");
}

// ---- contexts ----------------------------------------------------------------------------------

static void test_memory(void) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, (1 << 20) - 1, 1 << 20, (2 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = ctx_mem_alloc(NULL, sizes[i]);
        size_t align = sizes[i] < 1 << 20 ? 64 : 2 << 20;
        bool clean = true;
        for (size_t k = 0; k < sizes[i]; k++)
            clean &= p[k] == 0;
        ok(p && (uintptr_t)p % align == 0 && clean, "%zu bytes are clean, and aligned to %zu",
           sizes[i], align);
        memset(p, 1, sizes[i]);
        ctx_mem_free(NULL, p, sizes[i]);
    }
    ok(!ctx_mem_alloc(NULL, SIZE_MAX - 5), "more than there can be is refused");
    struct kernel_ctx *ctx;
    struct kernel_config c = {.threads = 1025};
    is_int(ctx_open(&ctx, &c, NULL, "none"), -EINVAL, "1025 threads are refused");
    c.threads = 0;
    is_int(ctx_open(&ctx, &c, NULL, "none"), 0, "a context has at least the caller");
    is_int(ctx->workers, 1, "the caller works alone");
    is_int(ctx_reserve(ctx, 100), 0, "a workspace is made");
    void *first = ctx->work;
    ok(ctx_reserve(ctx, 100) == 0 && ctx->work == first && ctx->work_bytes == 100,
       "a workspace that is large enough stays");
    is_int(ctx_reserve(ctx, 101), 0, "a larger workspace is made");
    is_uint(ctx->work_bytes, 101, "a larger workspace has its size");
    is_int(ctx_reserve(ctx, SIZE_MAX - 5), -ENOMEM, "a workspace may be too large");
    is_uint(ctx->work_bytes, 101, "the workspace is then the one before");
    ctx_close(ctx);
}

static int worked[4], runs_on[4];

static void work(void *arg, int worker, int workers) {
    worked[worker] += workers + *(int *)arg;
    runs_on[worker] = sched_getcpu();
}

static void test_threads(void) {
    cpu_set_t before, after;
    struct thread_pool *pool;
    int ten = 10, cpu = sched_getcpu(), bad[] = {cpu, -1}, far[] = {cpu, 1 << 20};
    const int one[] = {cpu, cpu, cpu};
    if (sched_getaffinity(0, sizeof before, &before) < 0 || thread_pool_open(&pool, 3, one) < 0)
        bail_out("no threads");
    for (int i = 0; i < 3; i++)
        thread_pool_run(pool, work, &ten);
    ok(worked[0] == 39 && worked[1] == 39 && worked[2] == 39 && worked[3] == 0,
       "each worker runs once in each run");
    ok(runs_on[0] == cpu && runs_on[1] == cpu && runs_on[2] == cpu, "workers are pinned");
    ok(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_COUNT(&after) == 1,
       "the caller is pinned");
    thread_pool_close(pool);
    ok(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after),
       "the caller gets its processors back");
    is_int(thread_pool_open(&pool, 2, bad), -EINVAL, "processor -1 is refused");
    is_int(thread_pool_open(&pool, 2, far), -EINVAL, "a processor beyond all sets is refused");
    ok(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after),
       "a refused pool leaves the caller its processors");
}

int main(void) {
    test_axes();
    test_tiles();
    test_pixels();
    test_rule();
    test_memory();
    test_threads();
    return done_testing();
}
