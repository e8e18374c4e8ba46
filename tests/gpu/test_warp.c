// SPDX-License-Identifier: Apache-2.0
// test_warp.c: instructions of a warp and a block against what the PTX manual says of them, and one
// small kernel for each fault that the interpreter has to find.
#include "tests/gpu/snippet.h"

enum { THREADS_MAX = 256, SEEDS = 4 };

// Registers of a body: %t thread, %l lane, %w warp, %d result, which each thread stores; %in and
// %out addresses of 256 words, of which `in` holds 0, 1, 2, …; shared array s of 4096 bytes; %s its
// address.
static const char head[] =
    ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 128 .b8 s[4096];\n"
    ".visible .entry k(.param .u64 pin, .param .u64 pout)\n{\n"
    ".reg .b16 %h; .reg .b32 %t, %l, %w, %d, %e, %f, %g, %s, %a<16>; .reg .b64 %in, %out, %me, %x, "
    "%y;\n"
    ".reg .pred %p, %q; .reg .f32 %c<8>;\n"
    "ld.param.u64 %in, [pin]; ld.param.u64 %out, [pout]; mov.u32 %t, %tid.x; mov.u32 %l, %laneid;\n"
    "shr.u32 %w, %t, 5; mov.u32 %s, s; mul.wide.u32 %me, %t, 4; mov.b32 %d, 0;\n";
static const char tail[] = "\nadd.s64 %out, %out, %me; st.global.u32 [%out], %d;\nret;\n}\n";

static bool same_values; // may be written by several lanes and warps

static bool run_body(const char *body, unsigned blocks, unsigned threads, uint64_t seed,
                     uint32_t *out, char *text) {
    char source[SNIPPET_BYTES];
    snprintf(source, sizeof source, "%s%s%s", head, body, tail);
    struct ptx_module *m = ptx_load(source, strlen(source), SNIPPET_TARGET, text);
    if (!m)
        return false;
    size_t bytes = THREADS_MAX * sizeof *out;
    uint64_t params[2] = {ptx_alloc(bytes), ptx_alloc(bytes)};
    uint32_t *in = ptx_host(params[0], bytes);
    for (uint32_t n = 0; n < THREADS_MAX; n++)
        in[n] = n;
    ptx_wrote(params[0], bytes);
    struct ptx_launch l = {.grid = {blocks, 1, 1},
                           .block = {threads, 1, 1},
                           .seed = seed,
                           .params = params,
                           .same_values = same_values};
    bool ran = ptx_run(ptx_find(m, "k"), &l, text) == 0;
    memcpy(out, ptx_host(params[1], bytes), bytes);
    ptx_free(params[0]);
    ptx_free(params[1]);
    ptx_unload(m);
    return ran;
}

typedef uint32_t expected(uint32_t thread);

static void warp_gives(const char *what, const char *body, unsigned threads, expected *want) {
    uint32_t out[THREADS_MAX] = {0};
    char text[PTX_TEXT_MAX] = "";
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        bool good = run_body(body, 1, threads, seed, out, text);
        uint32_t n = 0;
        while (good && n < threads && out[n] == want(n))
            n++;
        if (!good || n < threads) {
            fail("%s (seed %" PRIu64 ")", what, seed);
            diag("  %s thread %u: got %x, want %x", text, n, n < threads ? out[n] : 0, want(n));
            return;
        }
    }
    pass("%s", what);
}

static void faults(const char *what, const char *body, unsigned blocks, unsigned threads,
                   const char *why) {
    uint32_t out[THREADS_MAX];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char text[PTX_TEXT_MAX] = "it ran";
        if (!run_body(body, blocks, threads, seed, out, text) && strstr(text, why))
            continue;
        fail("found: %s (seed %" PRIu64 ")", what, seed);
        diag("  got: %s", text);
        diag("  want: …%s…", why);
        return;
    }
    pass("found: %s", what);
}

// ---- what instructions give
// ----------------------------------------------------------------------
static uint32_t shifted_down(uint32_t t) {
    return t % 32 < 31 ? t + 1 : t;
}
static uint32_t shifted_up(uint32_t t) {
    return t % 32 >= 2 ? t - 2 : t;
}
static uint32_t crossed(uint32_t t) {
    return t ^ 5;
}
static uint32_t broadcast(uint32_t t) {
    return t / 8 * 8 + 3;
}
static uint32_t in_range(uint32_t t) {
    return t % 32 < 31;
}
static uint32_t odd_lanes(uint32_t t) {
    return (void)t, 0xaaaaaaaa;
}
static uint32_t one(uint32_t t) {
    return (void)t, 1;
}
static uint32_t zero(uint32_t t) {
    return (void)t, 0;
}
static uint32_t same_quarter(uint32_t t) {
    return 0xffu << t % 32 / 8 * 8;
}
static uint32_t sum_of_warp(uint32_t t) {
    return t / 32 * 32 * 32 + 496;
}
static uint32_t least_signed(uint32_t t) {
    return (void)t, (uint32_t)-31;
}
static uint32_t other_end(uint32_t t) {
    return 127 - t;
}
static uint32_t half_mask(uint32_t t) {
    return t % 32 < 16 ? 0xffff : 0xffff0000;
}
static uint32_t counted(uint32_t t) {
    return t % 5 + 1;
}
static uint32_t negated(uint32_t t) {
    return 0 - t;
}
static uint32_t hundred(uint32_t t) {
    return (void)t, 128;
}
static uint32_t masks(uint32_t t) {
    return (1u << t % 32) - 1;
}
static uint32_t copied(uint32_t t) {
    return t ^ 64;
}
static uint32_t padded(uint32_t t) {
    return t % 4 < 2 ? t : 0;
}

static void shuffles(void) {
    warp_gives("cvt.s64.s32 of the low half of a wide register",
               "neg.s32 %e, %t; cvt.u64.u32 %x, %e; cvt.u64.u32 %y, %t; shl.b64 %y, %y, 40;"
               "or.b64 %x, %x, %y; cvt.s64.s32 %y, %x; cvt.u32.u64 %d, %y;",
               64, negated);
    warp_gives("cvt.u64.u32 of the low half of a wide register",
               "neg.s32 %e, %t; cvt.u64.u32 %x, %e; cvt.u64.u32 %y, %t; shl.b64 %y, %y, 40;"
               "or.b64 %x, %x, %y; cvt.u64.u32 %y, %x; cvt.u32.u64 %d, %y;",
               64, negated);
    warp_gives("shfl.down", "shfl.sync.down.b32 %d, %t, 1, 31, -1;", 64, shifted_down);
    warp_gives("shfl.up", "shfl.sync.up.b32 %d, %t, 2, 0, -1;", 64, shifted_up);
    warp_gives("shfl.bfly", "shfl.sync.bfly.b32 %d, %t, 5, 31, -1;", 64, crossed);
    warp_gives("shfl.idx in segments of 8", "shfl.sync.idx.b32 %d, %t, 3, 0x181f, -1;", 64,
               broadcast);
    warp_gives("shfl says whether the source is in range",
               "shfl.sync.down.b32 %e|%p, %t, 1, 31, -1; selp.b32 %d, 1, 0, %p;", 64, in_range);
    warp_gives("vote.ballot",
               "and.b32 %e, %t, 1; setp.ne.s32 %p, %e, 0; vote.sync.ballot.b32 %d, %p, -1;", 64,
               odd_lanes);
    warp_gives("vote.any",
               "setp.eq.s32 %p, %l, 7; vote.sync.any.pred %q, %p, -1; selp.b32 %d, 1, 0, %q;", 32,
               one);
    warp_gives("vote.all",
               "setp.ne.s32 %p, %l, 7; vote.sync.all.pred %q, %p, -1; selp.b32 %d, 1, 0, %q;", 32,
               zero);
    warp_gives("vote.uni",
               "setp.lt.s32 %p, %l, 40; vote.sync.uni.pred %q, %p, -1; selp.b32 %d, 1, 0, %q;", 32,
               one);
    warp_gives("match.any", "shr.u32 %e, %l, 3; match.any.sync.b32 %d, %e, -1;", 64, same_quarter);
    warp_gives("match.all", "match.all.sync.b32 %d|%p, %l, -1;", 32, zero);
    warp_gives("redux.add", "redux.sync.add.u32 %d, %t, -1;", 64, sum_of_warp);
    warp_gives("redux.min of signed", "neg.s32 %e, %l; redux.sync.min.s32 %d, %e, -1;", 64,
               least_signed);
    warp_gives("elect.sync gives its predicate to the lane that it names",
               "elect.sync %e|%p, -1; setp.eq.u32 %q, %e, %l; xor.pred %p, %p, %q; selp.b32 %d, 0, "
               "1, %p;",
               64, one);
    warp_gives("elect.sync elects one lane, and the same one again",
               "elect.sync %e|%p, -1; elect.sync _|%q, -1; and.pred %p, %p, %q;\n"
               "selp.b32 %d, 1, 0, %p; redux.sync.add.u32 %d, %d, -1;",
               64, one);
    warp_gives("elect.sync elects a lane of those that execute it",
               "mov.u32 %d, 1; setp.lt.u32 %p, %l, 16; @%p bra A;\n"
               "elect.sync %e|%q, 0xffff0000; setp.ge.u32 %q, %e, 16; selp.b32 %d, 1, 0, %q; A:",
               64, one);
    warp_gives("lanemask_lt", "mov.u32 %d, %lanemask_lt;", 64, masks);
    warp_gives(
        "activemask in a branch",
        "setp.lt.u32 %p, %l, 16; @%p bra A; activemask.b32 %d; bra B; A: activemask.b32 %d; B:", 64,
        half_mask);
    warp_gives("a loop whose lanes leave one by one",
               "rem.u32 %e, %t, 5; L: add.s32 %d, %d, 1; setp.lt.u32 %p, %e, %d; @!%p bra L;", 64,
               counted);
}

static void blocks(void) {
    warp_gives(
        "a barrier lets warps see each other",
        "shl.b32 %e, %t, 2; add.s32 %e, %e, %s; st.shared.u32 [%e], %t; bar.sync 0;\n"
        "sub.s32 %f, 127, %t; shl.b32 %f, %f, 2; add.s32 %f, %f, %s; ld.shared.u32 %d, [%f];",
        128, other_end);
    warp_gives("atom.shared.add counts every thread",
               "setp.eq.s32 %p, %t, 0; @%p st.shared.u32 [%s], 0; bar.sync 0; atom.shared.add.u32 "
               "%e, [%s], 1;\n"
               "bar.sync 0; ld.shared.u32 %d, [%s];",
               128, hundred);
    warp_gives(
        "cp.async of other warps' words, waited for and behind a barrier",
        "shl.b32 %e, %t, 2; add.s32 %e, %e, %s; add.s64 %x, %in, %me;\n"
        "cp.async.ca.shared.global [%e], [%x], 4; cp.async.commit_group; cp.async.wait_group 0;\n"
        "bar.sync 0; xor.b32 %f, %t, 64; shl.b32 %f, %f, 2; add.s32 %f, %f, %s;\n"
        "ld.shared.u32 %d, [%f];",
        128, copied);
    warp_gives("cp.async fills with zeros what the source does not have",
               "setp.ne.u32 %p, %t, 0; and.b32 %e, %t, 3; setp.eq.u32 %p, %e, 0; @!%p bra W;\n"
               "shl.b32 %f, %t, 2; add.s32 %f, %f, %s; add.s64 %x, %in, %me;\n"
               "cp.async.cg.shared.global [%f], [%x], 16, 8;\n"
               "W: cp.async.wait_all; bar.sync 0; shl.b32 %f, %t, 2; add.s32 %f, %f, %s; "
               "ld.shared.u32 %d, [%f];",
               64, padded);
    warp_gives("an mbarrier hands a bulk copy over",
               "setp.ne.s32 %p, %t, 0; add.s32 %g, %s, 2048; @%p bra I;\n"
               "mbarrier.init.shared.b64 [%g], 1; fence.mbarrier_init.release.cluster;\n"
               "I: bar.sync 0; @%p bra W;\n"
               "mbarrier.arrive.expect_tx.shared.b64 %x, [%g], 512;\n"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%in], "
               "512, [%g];\n"
               "W: mbarrier.try_wait.parity.shared.b64 %q, [%g], 0; @!%q bra W;\n"
               "xor.b32 %f, %t, 64; shl.b32 %f, %f, 2; add.s32 %f, %f, %s; ld.shared.u32 %d, [%f];",
               128, copied);
    warp_gives(
        "lanes that leave a loop one by one meet before a barrier that precedes it in the text",
        "rem.u32 %e, %t, 5; bra L; B: bar.sync 0; bra E;\n"
        "L: add.s32 %d, %d, 1; setp.lt.u32 %p, %e, %d; @%p bra B; bra L; E:",
        64, counted);
    warp_gives("lanes that take a detour behind a barrier meet before it",
               "mov.u32 %d, 1; setp.lt.u32 %p, %l, 16; @%p bra D; B: bar.sync 0; bra E;\n"
               "D: setp.lt.u32 %q, %l, 4; @%q bra B; mov.u32 %d, 1; bra B; E:",
               64, one);
    warp_gives("atom.cas",
               "mov.u32 %d, 1; st.shared.u32 [%s], 5; atom.shared.cas.b32 %e, [%s], 5, 9;\n"
               "ld.shared.u32 %f, [%s]; setp.eq.s32 %p, %f, 9; selp.b32 %d, 1, 0, %p;",
               1, one);
    warp_gives("a branch finds the label of its own scope, or of the nearest one around it",
               "{ bra N; add.u32 %d, %d, 2; N: add.u32 %d, %d, 1; }\n"
               "{ { bra N; } add.u32 %d, %d, 4; N: add.u32 %d, %d, 8; }\n"
               "setp.eq.u32 %p, %d, 9; selp.b32 %d, 1, 0, %p;",
               32, one);
    warp_gives("generic addresses reach shared memory",
               "cvta.shared.u64 %x, s; add.s64 %x, %x, %me; st.u32 [%x], %t; ld.u32 %e, [%x];\n"
               "setp.eq.s32 %p, %e, %t; selp.b32 %d, 1, 0, %p;",
               64, one);
    warp_gives("generic addresses reach parameters",
               "mov.b64 %x, pin; cvta.param.u64 %x, %x; ld.u64 %y, [%x];\n"
               "setp.eq.s64 %p, %y, %in; selp.b32 %d, 1, 0, %p;",
               64, one);
}

static void found(void) {
    faults("a read past an allocation", "add.s64 %x, %in, %me; ld.global.u32 %d, [%x+1000];", 1, 32,
           "of an allocation of 1024 bytes");
    faults("a read before an allocation", "ld.global.u32 %d, [%in+-4];", 1, 1,
           "where nothing is allocated");
    faults("a misaligned read", "ld.global.u32 %d, [%in+2];", 1, 1, "not aligned");
    faults("a misaligned vector", "ld.global.v2.u32 {%d, %e}, [%in+4];", 1, 1, "not aligned");
    faults("a read of global memory nobody wrote", "ld.global.u32 %d, [%out];", 1, 1,
           "nobody wrote");
    faults("a read of shared memory nobody wrote", "ld.shared.u32 %d, [%s];", 1, 1, "nobody wrote");
    faults("a write to a parameter", "mov.b64 %x, pin; cvta.param.u64 %x, %x; st.u32 [%x], 7;", 1,
           1, "constant memory");
    faults("a read behind the parameters",
           "mov.b64 %x, pin; cvta.param.u64 %x, %x; ld.u64 %y, [%x+16];", 1, 1,
           "behind the parameters");
    faults("a write past shared memory", "st.shared.u32 [%s+4096], %t;", 1, 1,
           "of 4096 bytes of shared");
    faults("a read before a barrier",
           "shl.b32 %e, %t, 2; add.s32 %e, %e, %s; st.shared.u32 [%e], %t;\n"
           "xor.b32 %f, %e, 128; bar.warp.sync -1; bar.sync 1, 64; bar.sync 0; st.shared.u32 [%e], "
           "%l;\n"
           "ld.shared.u32 %d, [%f];",
           1, 64, "race: ");
    faults("two warps that write one word", "setp.eq.u32 %p, %l, 0; @%p st.shared.u32 [%s], %t;", 1,
           64, "race: write");
    faults("a write over what another warp still reads",
           "shl.b32 %e, %t, 2; add.s32 %e, %e, %s; st.shared.u32 [%e], %t; bar.sync 0;\n"
           "xor.b32 %f, %e, 128; ld.shared.u32 %d, [%f]; st.shared.u32 [%e], %l;",
           1, 64, "race: ");
    faults("a lane that reads what another lane wrote",
           "shl.b32 %e, %t, 2; add.s32 %e, %e, %s; st.shared.u32 [%e], %t;\n"
           "xor.b32 %f, %e, 4; ld.shared.u32 %d, [%f];",
           1, 32, "another lane of the warp wrote");
    faults("a lane that writes over what others read",
           "shl.b32 %e, %t, 2; add.s32 %e, %e, %s; st.shared.u32 [%e], %t; bar.warp.sync -1;\n"
           "xor.b32 %f, %e, 4; ld.shared.u32 %d, [%f]; st.shared.u32 [%e], %l;",
           1, 32, "another lane of the warp read");
    faults("lanes that write one word", "st.global.u32 [%out], %t;", 1, 32,
           "race: lanes 0 and 1 of the warp");
    faults("lanes that write one shared word", "st.shared.u32 [%s], %t;", 1, 32, "race: lanes 0");
    faults("an elect.sync whose lanes are elsewhere",
           "setp.lt.u32 %p, %l, 7; @%p bra A; elect.sync %e|%q, -1; A:", 1, 32, "of which only");
    faults("an elect.sync without a predicate", "elect.sync %e, -1;", 1, 32, "without a predicate");
    faults("a division by zero", "mov.u32 %d, 0; div.u32 %e, %t, %d;", 1, 1, "division by zero");
    faults("a remainder by zero", "mov.u32 %d, 0; rem.s32 %e, %t, %d;", 1, 1, "division by zero");
    faults("a barrier in divergent code", "setp.lt.u32 %p, %l, 7; @%p bra A; bar.sync 0; A:", 1, 32,
           "barrier in divergent code");
    faults("a shuffle whose lanes are elsewhere",
           "setp.lt.u32 %p, %l, 7; @%p bra A; shfl.sync.down.b32 %d, %t, 1, 31, -1; A:", 1, 32,
           "of which only");
    faults("a shuffle that does not name its lanes", "shfl.sync.down.b32 %d, %t, 1, 31, 0xffff;", 1,
           32, "names 0000ffff");
    faults("a shuffle from a lane outside of its mask",
           "setp.lt.u32 %p, %l, 7; @!%p bra A; shfl.sync.idx.b32 %d, %t, 9, 31, 0x7f; A:", 1, 32,
           "does not execute");
}

// Code of some compilers writes one value with several lanes and warps.
static void several_writers(void) {
    static const char shared[] =
        "st.shared.v2.u32 [%s], {0, 1}; bar.sync 0; ld.shared.u32 %d, [%s+4];";
    static const char global[] = "st.global.u16 [%in], 1; ld.global.u32 %d, [%in];";
    faults("lanes that write one value", shared, 1, 32, "race: lanes");
    faults("lanes that write one value to global memory", global, 1, 32, "race: lanes");
    faults("warps that write one value", "setp.eq.u32 %p, %l, 0; @%p st.shared.u32 [%s], 1;", 1, 64,
           "race: write");
    same_values = true;
    warp_gives("a launch may allow that lanes and warps write one value", shared, 128, one);
    warp_gives("a launch may allow that lanes write one value to global memory", global, 32, one);
    faults("warps of which one writes another value, where one value is allowed",
           "setp.eq.u32 %p, %w, 1; selp.b32 %e, 7, 263, %p; st.shared.u32 [%s], %e;", 1, 64,
           "race: write");
    faults("lanes of which one writes another value, where one value is allowed",
           "setp.eq.u32 %p, %l, 5; selp.b32 %e, 7, 263, %p; st.shared.u32 [%s], %e;", 1, 32,
           "race: lanes");
    faults("a write of one value over what another warp reads, where one value is allowed",
           "st.shared.u32 [%s], 1; bar.sync 0; ld.shared.u32 %d, [%s]; setp.ne.u32 %p, %l, 0;\n"
           "@%p bra E; ld.shared.u32 %e, [%s]; st.shared.u32 [%s], 1; E:",
           1, 64, "race: write");
    same_values = false;
}

static void found_between(void) {
    faults(
        "bytes of cp.async that nobody waited for",
        "cp.async.ca.shared.global [%s], [%in], 4; cp.async.commit_group; ld.shared.u32 %d, [%s];",
        1, 1, "bytes in flight");
    faults("a wait that leaves one group too many",
           "cp.async.ca.shared.global [%s], [%in], 4; cp.async.commit_group;\n"
           "cp.async.wait_group 1; ld.shared.u32 %d, [%s];",
           1, 1, "bytes in flight");
    faults(
        "a forgotten commit",
        "cp.async.ca.shared.global [%s], [%in], 4; cp.async.wait_group 0; ld.shared.u32 %d, [%s];",
        1, 1, "bytes in flight");
    faults("a warp that ends before its copies", "cp.async.ca.shared.global [%s], [%in], 4;", 1, 1,
           "did not wait for");
    faults("cp.async without a barrier behind it",
           "shl.b32 %e, %t, 2; add.s32 %e, %e, %s; add.s64 %x, %in, %me;\n"
           "cp.async.ca.shared.global [%e], [%x], 4; cp.async.wait_all;\n"
           "xor.b32 %f, %e, 128; ld.shared.u32 %d, [%f];",
           1, 64, "shared ");
    faults("two blocks that write one word", "st.global.u32 [%out], %t;", 2, 1,
           "another block of this launch");
    faults(
        "a block that reads what another wrote",
        "mov.u32 %e, %ctaid.x; mul.wide.u32 %x, %e, 4; add.s64 %y, %in, %x; st.global.u32 [%y], "
        "%e;\n"
        "xor.b32 %e, %e, 1; mul.wide.u32 %x, %e, 4; add.s64 %y, %in, %x; ld.global.u32 %d, [%y];",
        2, 1, "another block of this launch");
    faults("an mbarrier that nobody completes",
           "mbarrier.init.shared.b64 [%s], 2; W: mbarrier.try_wait.parity.shared.b64 %p, [%s], 0;\n"
           "@!%p bra W;",
           1, 1, "mbarrier that nobody completes");
    faults("warps that wait at different barriers",
           "setp.lt.u32 %p, %w, 1; @%p bra A; bar.sync 1; bra B; A: bar.sync 2; B:", 1, 64,
           "deadlock");
    faults("trap", "trap;", 1, 1, "trap");
    faults(
        "mma in a branch",
        "setp.lt.u32 %p, %l, 7; @%p bra A; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d}, [%s]; A:",
        1, 32, "all must");
}

int main(void) {
    shuffles();
    blocks();
    found();
    several_writers();
    found_between();
    return done_testing();
}
