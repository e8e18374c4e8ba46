// SPDX-License-Identifier: Apache-2.0
// Copies between host and GPU, and failures: a buffer is not written again before its last copy has
// ended, the first failure stays, and nothing is kept when a context closes.
#include "kernels/cuda/cuda_params.h"
#include "tests/unit/gpu/driver_fake.h"
#include "tests/unit/turned_clock.h"

#include <errno.h>

static const struct kernel_backend *const k = &gpu_kernels;
static struct gpu *gpu;
static struct kernel_ctx *ctx;

static int begin(void) {
    const struct kernel_config config = {.device = gpu};
    ctx = NULL;
    return k->open(&ctx, &config);
}

static void set_up(void) {
    struct err e = {0};
    fake_reset();
    if (gpu_open(&gpu, 0, false, &e) < 0 || begin() < 0)
        bail_out("no context: %s", e.text);
}

static void tear_down(const char *what) {
    k->close(ctx);
    gpu_close(gpu);
    is_int(fake.live, 0, "%s: memory, streams and events are given back", what);
}

// From now on, behind `good` more calls.
static void breaks(enum driver_call c, int good) {
    fake.code[c] = FAKE_ERROR;
    fake.good[c] = fake.calls[c] + good;
}

static void pattern(unsigned char *p, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)((i * 31 + i / 4096 + seed) % 251);
}

// ---- copies -------------------------------------------------------------------------------------

static const size_t SIZES[] = {1,
                               GPU_SMALL_BYTES,
                               GPU_SMALL_BYTES + 1,
                               GPU_STAGE_BYTES + 1,
                               GPU_PACE_BYTES,
                               GPU_PACE_BYTES + 1,
                               (GPU_STAGES + 2) * (size_t)GPU_PACE_BYTES + 5};

static void round_trips(void) {
    set_up();
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        size_t n = SIZES[i];
        unsigned char *here = malloc(n), *back = malloc(n);
        pattern(here, n, (unsigned)i);
        void *there = k->mem_alloc(ctx, n);
        int before = fake.calls[CALL_copy_in];
        k->mem_write(ctx, there, here, n);
        is_int(fake.calls[CALL_copy_in] - before, (long long)((n - 1) / GPU_PACE_BYTES + 1),
               "%zu bytes go to the GPU in copies of at most %d", n, GPU_PACE_BYTES);
        k->mem_read(ctx, back, there, n);
        ok(memcmp(here, back, n) == 0, "%zu bytes come back as they went", n);
        k->mem_free(ctx, there, 1);
        free(here), free(back);
    }
    ok(!k->failure(ctx), "no copy has failed");
    tear_down("copies");
}

// More writes than there are buffers, and nothing waits in between.
static void many_writes(size_t each, size_t count) {
    unsigned char *here = malloc(each), *back = malloc(each * count);
    bool same = true;
    set_up();
    unsigned char *there = k->mem_alloc(ctx, each * count);
    for (size_t i = 0; i < count; i++) {
        pattern(here, each, (unsigned)i);
        k->mem_write(ctx, there + i * each, here, each);
    }
    k->mem_read(ctx, back, there, each * count);
    for (size_t i = 0; i < count; i++) {
        pattern(here, each, (unsigned)i);
        same &= memcmp(here, back + i * each, each) == 0;
    }
    ok(same, "%zu writes of %zu bytes keep apart", count, each);
    k->mem_free(ctx, there, 1);
    tear_down("many writes");
    free(here), free(back);
}

static void clean_memory(void) {
    unsigned char back[3] = {9, 9, 9};
    set_up();
    void *there = k->mem_alloc(ctx, sizeof back), *none = k->mem_alloc(ctx, 0);
    k->mem_read(ctx, back, there, sizeof back);
    ok(!back[0] && !back[1] && !back[2], "memory is clean");
    ok(none != NULL, "no bytes have an address");
    breaks(CALL_memory_alloc, 0);
    ok(!k->mem_alloc(ctx, 1), "without memory there is none");
    ok(!k->failure(ctx), "an allocation that is refused is no failure of the GPU");
    k->mem_free(ctx, there, sizeof back);
    k->mem_free(ctx, none, 0);
    tear_down("clean memory");
}

static void workspace(void) {
    struct cuda_queue *q;
    set_up();
    q = &gpu_context_of(ctx)->queue;
    void *first = q->workspace;
    is_int(k->reserve(ctx, 1), 0, "a workspace that is large enough stays");
    ok(q->workspace == first && q->workspace_bytes == CUDA_WORKSPACE_BYTES_MIN,
       "the first workspace is still there");
    is_int(k->reserve(ctx, CUDA_WORKSPACE_BYTES_MIN + 1), 0, "a larger one is made");
    is_uint(q->workspace_bytes, CUDA_WORKSPACE_BYTES_MIN + 1,
            "the larger one has the size that was asked for");
    void *larger = q->workspace;
    breaks(CALL_memory_alloc, 0);
    is_int(k->reserve(ctx, CUDA_WORKSPACE_BYTES_MIN + 2), -ENOMEM, "memory may be short");
    ok(q->workspace == larger && q->workspace_bytes == CUDA_WORKSPACE_BYTES_MIN + 1,
       "the workspace is then the one before");
    tear_down("workspace");
}

static void late_reads(void) {
    unsigned char here[LATE_READS][LATE_BYTES_MAX], back[LATE_BYTES_MAX];
    void *there[LATE_READS];
    bool same = true;
    set_up();
    for (int i = 0; i < LATE_READS; i++) {
        pattern(here[i], sizeof here[i], (unsigned)i);
        there[i] = k->mem_alloc(ctx, sizeof here[i]);
        k->mem_write(ctx, there[i], here[i], sizeof here[i]);
        k->read_start(ctx, i, there[i], sizeof here[i]);
    }
    for (int i = 0; i < LATE_READS; i++) {
        k->read_end(ctx, i, back, sizeof back);
        same &= memcmp(back, here[i], sizeof back) == 0;
        k->mem_free(ctx, there[i], 1);
    }
    ok(same, "results that are read late are those of their slots");
    tear_down("late reads");
}

// ---- images -------------------------------------------------------------------------------------

enum { IMAGE_BYTES = 2 * 3 * 3, IMAGES = 5 };

// The images that the kernel is given are those of `pixels`.
static bool given(const uint8_t *const *src, const unsigned char *pixels, void *out) {
    struct image_params p = {0};
    const struct image_args a = {.n = IMAGES,
                                 .src_h = 2,
                                 .src_w = 3,
                                 .channels = 3,
                                 .dst_h = 2,
                                 .dst_w = 3,
                                 .src = src,
                                 .std = {1, 1, 1, 1},
                                 .out = out};
    unsigned char back;
    bool same = true;
    fake.params = &p, fake.params_bytes = sizeof p;
    k->image_normalize(ctx, &a);
    fake.params = NULL;
    k->mem_read(ctx, &back, out, 1); // all copies have ended
    for (int i = 0; i < IMAGES; i++)
        same &= memcmp(p.src[i], pixels + i * IMAGE_BYTES, IMAGE_BYTES) == 0;
    return same;
}

static void images(void) {
    unsigned char all[2][IMAGES * IMAGE_BYTES], first[2][sizeof *all];
    const uint8_t *src[IMAGES];
    set_up();
    void *out = k->mem_alloc(ctx, IMAGES * IMAGE_BYTES * sizeof(float));
    for (unsigned i = 0; i < 2; i++) {
        pattern(all[i], sizeof *all, 100 * i);
        pattern(first[i], sizeof *all, 100 * i);
    }
    for (int i = 0; i < IMAGES; i++)
        src[i] = all[0] + i * IMAGE_BYTES;
    ok(given(src, first[0], out), "images come from the host, in their order");
    fake.left = 2 * sizeof *all - 1;
    is_int(k->image_keep(ctx, all[0], sizeof *all), -ENOMEM,
           "images that need more than half of what is left are not kept");
    all[0][0] = first[0][0] = 77;
    ok(given(src, first[0], out), "such images come from the host");
    fake.left = 2 * sizeof *all;
    is_int(k->image_keep(ctx, all[0], sizeof *all), 0, "images that need half of it are kept");
    memset(all[0], 1, sizeof *all);
    ok(given(src, first[0], out), "the kernel reads the copy that was kept");
    for (int i = 0; i < IMAGES; i += 2) { // the first and the last image of each kind
        src[i] = all[1] + i * IMAGE_BYTES;
        memcpy(first[0] + i * IMAGE_BYTES, first[1] + i * IMAGE_BYTES, IMAGE_BYTES);
    }
    ok(given(src, first[0], out), "images of one batch may be kept or not");
    is_int(k->image_keep(ctx, all[1], sizeof *all), 0, "a second set of images is kept");
    memset(all[1], 1, sizeof *all);
    ok(given(src, first[0], out), "the kernel reads from both copies");
    is_int(k->image_keep(ctx, all[1], 1), -ENOMEM, "a third set is not kept");
    ok(!k->failure(ctx), "images that are not kept are no failure");
    k->mem_free(ctx, out, 1);
    tear_down("images");
    set_up();
    breaks(CALL_memory_alloc, 0);
    is_int(k->image_keep(ctx, all[0], 1), -ENOMEM, "no image is kept where there is no memory");
    ok(!k->failure(ctx), "missing memory for images is no failure");
    tear_down("no memory for images");
}

// ---- failures -----------------------------------------------------------------------------------

static void opening_fails(void) {
    static const enum driver_call each[] = {CALL_context_use, CALL_stream_new, CALL_memory_alloc};
    struct err e = {0};
    const struct kernel_config none = {.device = NULL};
    is_int(k->open(&ctx, &none), -EINVAL, "without a GPU there is no context");
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        fake_reset();
        if (gpu_open(&gpu, 0, false, &e) < 0)
            bail_out("%s", e.text);
        breaks(each[i], 0);
        is_int(begin(), -ENOMEM, "a context needs call %d", each[i]);
        gpu_close(gpu);
        is_int(fake.live, 0, "call %d: what was made is given back", each[i]);
    }
}

static void reads_fail(enum driver_call c, const char *what) {
    static unsigned char back[2 * GPU_PACE_BYTES];
    set_up();
    void *there = k->mem_alloc(ctx, sizeof back);
    memset(back, 7, sizeof back);
    k->mem_write(ctx, there, back, sizeof back);
    breaks(c, 1);
    k->mem_read(ctx, back, there, sizeof back);
    has_str(k->failure(ctx), what, "the failure says what failed");
    has_str(k->failure(ctx), "NVIDIA Test", "the failure names the GPU");
    ok(back[0] == 7 && back[GPU_PACE_BYTES - 1] == 7, "the part before the failure was read");
    ok(!back[GPU_PACE_BYTES] && !back[sizeof back - 1], "the rest is zero");
    const char *first = k->failure(ctx);
    breaks(CALL_fill, 0);
    k->mem_free(ctx, k->mem_alloc(ctx, 1), 1);
    has_str(k->failure(ctx), what, "the first failure stays");
    const char *why = NULL;
    k->capture_begin(ctx);
    ok(!k->capture_end(ctx, &why), "nothing is captured behind a failure");
    is_str(why, k->failure(ctx), "the reason is the failure");
    int launched = fake.calls[CALL_launch];
    k->zero(ctx, 4, there);
    k->replay(ctx, there);
    is_int(fake.calls[CALL_launch], launched, "nothing is launched behind a failure");
    is_int(fake.calls[CALL_graph_launch], 0, "no graph is, either");
    ok(first == k->failure(ctx), "the context keeps its words");
    unsigned char late[4] = {1, 1, 1, 1};
    k->read_start(ctx, 0, there, sizeof late);
    k->read_end(ctx, 0, late, sizeof late);
    ok(!late[0] && !late[3], "a late read behind a failure is zero");
    k->mem_free(ctx, there, 1);
    tear_down("a failure");
}

static int looks, others;

static int look(void *arg) {
    is_int(*(int *)arg, 42, "the function that watches gets its argument");
    return ++looks < 2 ? others : -1;
}

static void lost_ranks(void) {
    static int arg = 42;
    unsigned char back = 7;
    set_up();
    void *there = k->mem_alloc(ctx, 1);
    k->while_waiting(ctx, look, &arg);
    fake.hangs = true;
    k->mem_read(ctx, &back, there, 1);
    fake.hangs = false;
    is_int(looks, 2, "a wait asks until the other ranks are lost");
    has_str(k->failure(ctx), "waits for ranks that are lost", "the failure says who is missing");
    is_int(back, 0, "nothing was read");
    k->mem_free(ctx, there, 1);
    tear_down("lost ranks");
}

static void captures(void) {
    const char *why = NULL;
    set_up();
    k->capture_begin(ctx);
    void *captured = k->capture_end(ctx, &why);
    ok(captured != NULL, "work is captured");
    k->replay(ctx, captured);
    is_int(fake.calls[CALL_graph_launch], 1, "captured work is launched");
    k->capture_free(ctx, captured);
    breaks(CALL_graph_make, 0);
    k->capture_begin(ctx);
    ok(!k->capture_end(ctx, &why), "a graph that cannot be made is none");
    is_str(why, "CUDA_ERROR_TEST", "the reason is the driver's");
    breaks(CALL_capture_begin, 0);
    k->capture_begin(ctx);
    int ends = fake.calls[CALL_capture_end];
    ok(!k->capture_end(ctx, &why), "a capture that did not begin has no work");
    is_int(fake.calls[CALL_capture_end], ends, "such a capture is not ended, either");
    ok(!k->failure(ctx), "a capture that is refused is no failure: the steps run without");
    tear_down("captures");
}

static void beside(void) {
    set_up();
    ok(k->beside_done(ctx, 3), "a mark that was never set is reached");
    k->beside_await(ctx, 3);
    is_int(fake.calls[CALL_stream_wait], 0, "nothing waits for it");
    void *stream = k->beside_begin(ctx, 0);
    ok(stream && stream == k->beside_begin(ctx, 0), "collectives of a queue have one stream");
    ok(stream != k->beside_begin(ctx, BESIDE_QUEUES - 1), "another queue has another stream");
    is_int(fake.calls[CALL_stream_wait], 3, "each of them comes after the operations before");
    k->beside_end(ctx, 0, 3);
    fake.hangs = true;
    ok(!k->beside_done(ctx, 3), "a mark that is not reached is under way");
    fake.hangs = false;
    k->beside_await(ctx, 3);
    is_int(fake.calls[CALL_stream_wait], 4, "operations wait for a mark");
    tear_down("collectives");
}

static void tensor_maps(void) {
    static const unsigned char operand[1];
    const struct cuda_matrix m = {
        .at = operand, .type = KERNEL_BF16, .rows = 1, .columns = 64, .pitch = 128, .box_rows = 1};
    struct cuda_tensor_map map;
    set_up();
    struct cuda_queue *q = &gpu_context_of(ctx)->queue;
    is_int(q->tensor_map(q, &m, &map), 0, "the driver makes tensor maps");
    breaks(CALL_tensor_map, 0);
    is_int(q->tensor_map(q, &m, &map), -1, "a tensor map that the driver refuses is none");
    ok(!k->failure(ctx), "such a refusal is no failure of the GPU");
    tear_down("tensor maps");
    struct err e = {0};
    fake_reset(), fake.older = true;
    if (gpu_open(&gpu, 0, false, &e) < 0 || begin() < 0)
        bail_out("no context: %s", e.text);
    ok(!gpu_context_of(ctx)->queue.tensor_map, "a driver without tensor maps is good enough");
    tear_down("a driver without tensor maps");
}

// A tensor map has the matrix's shape, and boxes of 128 bytes.
static void map_shapes(void) {
    static const unsigned char operand[1];
    static const struct {
        enum kernel_type type;
        int map_type;
        unsigned columns;
    } types[] = {{KERNEL_BF16, CU_TENSOR_MAP_BFLOAT16, 64},
                 {KERNEL_HALF, CU_TENSOR_MAP_FLOAT16, 64},
                 {KERNEL_TF32, CU_TENSOR_MAP_FLOAT32, 32}};
    struct cuda_tensor_map map;
    set_up();
    struct cuda_queue *q = &gpu_context_of(ctx)->queue;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct cuda_matrix m = {.at = operand,
                                      .type = types[i].type,
                                      .rows = 5,
                                      .columns = 70,
                                      .pitch = 288,
                                      .box_rows = 3};
        is_int(q->tensor_map(q, &m, &map), 0, "a tensor map of type %zu is made", i);
        ok(fake.map.type == types[i].map_type && fake.map.box_columns == types[i].columns,
           "a box of type %zu has 128 bytes of columns", i);
        ok(fake.map.columns == 70 && fake.map.rows == 5 && fake.map.pitch == 288 &&
               fake.map.box_rows == 3,
           "a tensor map of type %zu has the matrix's shape", i);
    }
    tear_down("shapes of tensor maps");
}

// Functions have 48 KiB of shared memory by themselves, and more only when it is asked for.
static void shared_memory(void) {
    static const struct {
        unsigned bytes;
        int calls; // of function_set so far
    } cases[] = {{0, 0},        {48 << 10, 0}, {(48 << 10) + 1, 1}, {(48 << 10) + 1, 1},
                 {48 << 10, 1}, {64 << 10, 2}, {(64 << 10) - 1, 2}, {(64 << 10) + 1, 3}};
    const unsigned grid[] = {3, 4, 5};
    int params = 0;
    set_up();
    struct cuda_queue *q = &gpu_context_of(ctx)->queue;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        q->launch(q, (enum cuda_kernel)0, grid, 96, cases[i].bytes, &params);
        is_int(fake.calls[CALL_function_set], cases[i].calls,
               "a launch with %u bytes, the %zuth, asks for memory as often as needed",
               cases[i].bytes, i);
        const unsigned want[] = {3, 4, 5, 96, cases[i].bytes};
        is_mem(fake.launch, sizeof want, want, sizeof want, "launch %zu has its shape", i);
    }
    is_int(fake.shared, (64 << 10) + 1, "a function gets as much as a launch needs");
    breaks(CALL_function_set, 0);
    int launches = fake.calls[CALL_launch];
    q->launch(q, (enum cuda_kernel)0, grid, 96, 100 << 10, &params);
    is_int(fake.calls[CALL_launch], launches, "without its memory a function is not launched");
    ok(k->failure(ctx) != NULL, "memory that is refused is a failure");
    tear_down("shared memory");
}

// Two looks find other ranks at work, each after most of the limit; then none is.
static int busy_looks;

static int look_busy(void *arg) {
    (void)arg;
    clock_ahead_ms += busy_looks < 3 ? GPU_STALL_MS_MAX - 1000 : GPU_STALL_MS_MAX + 1;
    return busy_looks++ < 3;
}

static void stalls(void) {
    unsigned char back = 7;
    set_up();
    void *there = k->mem_alloc(ctx, 1);
    k->while_waiting(ctx, look_busy, NULL);
    fake.hangs = true;
    k->mem_read(ctx, &back, there, 1);
    fake.hangs = false;
    is_int(busy_looks, 4, "a wait lasts while other ranks are the reason, and its limit longer");
    has_str(k->failure(ctx), "has not finished its work in 300 s", "the failure has the limit");
    k->mem_free(ctx, there, 1);
    tear_down("a GPU that hangs");
}

int main(void) {
    round_trips();
    many_writes(GPU_SMALL_BYTES, 2 * GPU_SMALL_STAGES + 1);
    many_writes(GPU_SMALL_BYTES + 1, 2 * GPU_STAGES + 1);
    clean_memory();
    workspace();
    tensor_maps();
    late_reads();
    images();
    opening_fails();
    reads_fail(CALL_copy_out, "copying from the GPU");
    reads_fail(CALL_event_record, "copying from the GPU");
    lost_ranks();
    map_shapes();
    shared_memory();
    stalls();
    captures();
    beside();
    return done_testing();
}
