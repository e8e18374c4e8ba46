// SPDX-License-Identifier: Apache-2.0
// bulk_snippet.h: kernels of a few lines with bulk copies and mbarriers: shared memory, input and
// output of the device, and a tensor map of one of these.
#ifndef TESTS_GPU_BULK_SNIPPET_H
#define TESTS_GPU_BULK_SNIPPET_H
#include "tests/gpu/snippet.h"

enum {
    THREADS = 64,
    SHARED = 4096,
    WORDS = SHARED / 4,
    IN_BYTES = 8192,
    SEEDS = 8,
    PER_THREAD = WORDS / THREADS,
    TEXT_BYTES = 1 << 14,
    UNTOUCHED = 0x5a, // bytes of the output that no lane writes
};

// Registers: %t thread, %l lane, %p whether it is thread 0, %in and %out addresses, %m that of the
// tensor map, %x and %y coordinates, %s the address of SHARED bytes, %b that of mbarriers behind
// them, 64 bytes. STORE writes the shared memory to %out, each thread PER_THREAD words.
static const char head[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 1024 .b8 s[4160];\n"
    ".visible .entry k(.param .align 128 .b8 pmap[128], .param .u64 pin, .param .u64 pout,\n"
    ".param .u32 px, .param .u32 py)\n{\n"
    ".reg .b32 %t, %l, %w, %d, %e, %f, %s, %b, %x, %y, %i, %a<4>; .reg .b64 %in, %out, %m, %o, "
    "%z;\n"
    ".reg .pred %p, %q, %r;\n"
    "ld.param.u64 %in, [pin]; ld.param.u64 %out, [pout]; ld.param.u32 %x, [px];\n"
    "ld.param.u32 %y, [py]; mov.b64 %m, pmap; cvta.param.u64 %m, %m; mov.u32 %t, %tid.x;\n"
    "mov.u32 %l, %laneid; shr.u32 %w, %t, 5; setp.eq.u32 %p, %t, 0; mov.u32 %s, s;\n"
    "add.u32 %b, %s, 4096; mov.b32 %d, 0;\n";

#define FENCE  "fence.mbarrier_init.release.cluster;\n"
#define INIT   "@!%p bra I; mbarrier.init.shared::cta.b64 [%b], 1; " FENCE "I: bar.sync 0;\n"
#define EXPECT "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%b], "
#define BULK   "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
#define TENSOR "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
#define BOX    TENSOR "[%s], [%m, {%x, %y}], [%b];\n"
#define WAIT(label, parity)                                                                        \
    label ": mbarrier.try_wait.parity.shared::cta.b64 %q, [%b], " parity "; @!%q bra " label ";\n"
#define BYTES_512 BULK "[%s], [%in], 512, [%b];\n"

struct run {
    const struct ptx_tensor *map; // its address is that of `in`, or of `out`
    bool to_out;
    int x, y;
    unsigned threads;
    bool late; // with seeds alone that let bytes arrive as late as they may
};

static void source_of(char *to, const char *body) {
    int n = snprintf(to, TEXT_BYTES, "%s", head);
    for (const char *at = body; *at; at++)
        if (strncmp(at, "STORE", 5) == 0) {
            n += snprintf(to + n, (size_t)(TEXT_BYTES - n),
                          "mul.wide.u32 %%o, %%t, %d; add.s64 %%out, %%out, %%o;\n"
                          "mul.lo.u32 %%e, %%t, %d; add.u32 %%e, %%e, %%s;\n",
                          4 * PER_THREAD, 4 * PER_THREAD);
            for (int k = 0; k < PER_THREAD; k++)
                n += snprintf(to + n, (size_t)(TEXT_BYTES - n),
                              "ld.shared.b32 %%d, [%%e+%d]; st.global.b32 [%%out+%d], %%d;\n",
                              4 * k, 4 * k);
            at += 4;
        } else {
            to[n++] = *at;
        }
    if (snprintf(to + n, (size_t)(TEXT_BYTES - n), "\nret;\n}\n") >= TEXT_BYTES - n)
        bail_out("the text of a snippet is too long");
}

// Bytes of `in` are those that the caller has written there.
static uint8_t in_bytes[IN_BYTES], in_there[IN_BYTES];
static size_t in_end; // the allocation's

static bool run_with(const char *body, const struct run *r, uint64_t seed, uint8_t *out,
                     char *text) {
    static char source[TEXT_BYTES];
    struct {
        _Alignas(128) uint8_t map[PTX_TENSOR_MAP_BYTES];
        uint64_t in, out;
        int32_t x, y;
    } params = {.x = r->x, .y = r->y};
    source_of(source, body);
    struct ptx_module *m = ptx_load(source, strlen(source), SNIPPET_TARGET, text);
    if (!m)
        return false;
    params.in = ptx_alloc(in_end), params.out = ptx_alloc(SHARED);
    memcpy(ptx_host(params.in, in_end), in_bytes, in_end);
    memset(ptx_host(params.out, SHARED), UNTOUCHED, SHARED);
    for (size_t n = 0; n < in_end; n++)
        if (in_there[n])
            ptx_wrote(params.in + n, 1);
    bool ran = true;
    if (r->map) {
        struct ptx_tensor t = *r->map;
        t.address = r->to_out ? params.out : params.in;
        ran = ptx_tensor_map(params.map, &t, text) == 0;
    }
    struct ptx_launch l = {
        .grid = {1, 1, 1}, .block = {r->threads, 1, 1}, .params = &params, .seed = seed};
    ran = ran && ptx_run(ptx_find(m, "k"), &l, text) == 0;
    memcpy(out, ptx_host(params.out, SHARED), SHARED);
    ptx_free(params.in);
    ptx_free(params.out);
    ptx_unload(m);
    return ran;
}

static void fill(size_t from, size_t end) {
    for (size_t n = from; n < end; n++)
        in_there[n] = 1, in_bytes[n] = (uint8_t)(n * 37 + n / 256 * 11 + 5);
}
static void plain_input(void) {
    memset(in_there, 0, sizeof in_there);
    in_end = IN_BYTES;
    fill(0, IN_BYTES);
}

// Where chunk `chunk` of row `row` of a box lies, that begins `line` times 128 bytes behind a
// multiple of 1024.
static int place(int width, int line, int row, int chunk) {
    int rows = 128 / width; // that fill 128 bytes
    int turn = (row / rows + line) % (width / 16);
    return row * width + (chunk ^ turn) * 16;
}

// 13 columns and 7 rows; behind the last column nothing is written, and nothing is allocated behind
// the last one of the last row.
enum { COLUMNS = 13, ROWS = 7 };
static struct ptx_tensor tensor(unsigned bytes, unsigned swizzle, unsigned rows) {
    return (struct ptx_tensor){.dim = {COLUMNS, ROWS},
                               .pitch = (COLUMNS * bytes + 31) / 16 * 16,
                               .box = {(swizzle ? swizzle : 16) / bytes, rows},
                               .bytes = bytes,
                               .swizzle = swizzle};
}

// Whether the text has one of the parts of `why`, which | separates.
static bool says(const char *text, const char *why) {
    for (const char *end; *why; why = *end ? end + 1 : end) {
        char part[128];
        end = why + strcspn(why, "|");
        snprintf(part, sizeof part, "%.*s", (int)(end - why), why);
        if (strstr(text, part))
            return true;
    }
    return false;
}

// With every seed.
static void faults_of(const char *body, const struct run *r, const char *why, const char *what) {
    uint8_t got[SHARED] = {0};
    char text[PTX_TEXT_MAX] = "";
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (r->late && seed % 2)
            continue;
        snprintf(text, sizeof text, "it ran");
        if (!run_with(body, r, seed, got, text) && says(text, why))
            continue;
        fail("fault: %s (seed %" PRIu64 ")", what, seed);
        diag("  '%s', not '%s'", text, why);
        return;
    }
    pass("fault: %s", what);
}
static void faults(const char *body, const char *why, const char *what) {
    struct run r = {.threads = THREADS};
    plain_input();
    faults_of(body, &r, why, what);
}

#endif
