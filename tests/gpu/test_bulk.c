// SPDX-License-Identifier: Apache-2.0
// test_bulk.c: mbarriers and bulk copies that they count, of bytes and of boxes of a tensor map;
// and what their rules forbid. Where a box's chunks lie in shared memory is written here row by
// row, and not by bits of addresses as in the interpreter.
#include "tests/gpu/bulk_snippet.h"

// ---- boxes -------------------------------------------------------------------------------------
static void tensor_input(const struct ptx_tensor *t) {
    memset(in_there, 0, sizeof in_there);
    in_end = (size_t)(t->pitch * (ROWS - 1) + COLUMNS * t->bytes);
    for (size_t row = 0; row < ROWS; row++)
        fill(row * t->pitch, row * t->pitch + COLUMNS * t->bytes);
}

// The byte of an element, or 0.
static uint8_t byte_of(const struct ptx_tensor *t, int x, int y, unsigned byte) {
    bool there = x >= 0 && x < COLUMNS && y >= 0 && y < ROWS;
    return there ? in_bytes[(unsigned)y * t->pitch + (unsigned)x * t->bytes + byte] : 0;
}

static void box(unsigned bytes, unsigned swizzle, unsigned rows, int x, int y, int line) {
    struct ptx_tensor t = tensor(bytes, swizzle, rows);
    struct run r = {.map = &t, .x = x, .y = y, .threads = THREADS};
    uint8_t got[SHARED] = {0};
    unsigned width = t.box[0] * bytes, wrong = 0;
    char body[2048], text[PTX_TEXT_MAX] = "";
    tensor_input(&t);
    snprintf(body, sizeof body,
             "%s%s@!%%p bra W; add.u32 %%e, %%s, %d; prefetch.tensormap [%%m];\n%s%u;\n%s"
             "[%%e], [%%m, {%%x, %%y}], [%%b];\n%sSTORE",
             "mul.lo.u32 %e, %t, 64; add.u32 %e, %e, %s; mov.b32 %i, 0;\n"
             "F: st.shared.b32 [%e], 0x5a5a5a5a; add.u32 %e, %e, 4; add.u32 %i, %i, 1;\n"
             "setp.lt.u32 %q, %i, 16; @%q bra F; fence.proxy.async.shared::cta;\n",
             INIT, 128 * line, EXPECT, width * rows, TENSOR, WAIT("W", "0"));
    bool ran = run_with(body, &r, 3, got, text);
    for (unsigned row = 0; row < rows; row++)
        for (unsigned k = 0; k < width; k++) {
            int at = place((int)width, line, (int)row, (int)k / 16) + (int)k % 16 + 128 * line;
            wrong += got[at] != byte_of(&t, x + (int)(k / bytes), y + (int)row, k % bytes);
            got[at] = 0x5a;
        }
    for (int n = 0; n < SHARED; n++)
        wrong += got[n] != 0x5a; // beside the box
    if (!ok(ran && !wrong, "a box of %u rows of %u bytes from (%d, %d), elements of %u, line %d",
            rows, width, x, y, bytes, line))
        diag("  %s, %u bytes are wrong", text, wrong);
}

static void boxes(void) {
    static const int from[][2] = {{0, 0}, {3, 2}, {-3, -2}, {11, 5}, {13, 0}, {0, 7}, {-64, -20}};
    for (unsigned bytes = 1; bytes <= 8; bytes *= 2)
        for (unsigned swizzle = 16; swizzle <= 128; swizzle *= 2)
            box(bytes, swizzle == 16 ? 0 : swizzle, 12, 1, -1, 0);
    for (size_t n = 0; n < sizeof from / sizeof *from; n++)
        box(2, 128, 9, from[n][0], from[n][1], 0);
    for (int line = 1; line < 8; line += 3)
        box(4, 128, 8, 0, 0, line), box(4, 64, 8, 0, 0, line), box(4, 32, 8, 0, 0, line);
    box(2, 0, 256, 0, 0, 0);
    box(8, 0, 1, 12, 6, 0);
}

// ---- mbarriers ---------------------------------------------------------------------------------
// With every seed the first words of shared memory are those of `in`.
static void copies(const char *body, int bytes, const char *what) {
    struct run r = {.threads = THREADS};
    uint8_t got[SHARED] = {0};
    char text[PTX_TEXT_MAX] = "";
    plain_input();
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (run_with(body, &r, seed, got, text) && memcmp(got, in_bytes, (size_t)bytes) == 0)
            continue;
        fail("%s (seed %" PRIu64 ")", what, seed);
        diag("  %s", text);
        return;
    }
    pass("%s", what);
}

// Each thread stores the word at 4 %t of the shared memory.
#define WORD                                                                                       \
    "shl.b32 %e, %t, 2; mul.wide.u32 %o, %t, 4; add.s64 %out, %out, %o; add.u32 %e, %e, %s;\n"     \
    "ld.shared.b32 %d, [%e]; st.global.b32 [%out], %d;\n"

static void phases(void) {
    copies(INIT "@!%p bra W;\n" EXPECT "512;\n" BYTES_512 WAIT("W", "0") WORD, 256,
           "bytes that are expected before they are copied");
    copies(INIT "@!%p bra W;\n" BYTES_512
                "nanosleep.u32 1; nanosleep.u32 1; nanosleep.u32 1;\n" EXPECT
                "512;\n" WAIT("W", "0") WORD,
           256, "bytes that may come before they are expected");
    copies("@!%p bra I; mbarrier.init.shared::cta.b64 [%b], 1; fence.proxy.async.shared::cta;\n"
           "I: bar.sync 0; @!%p bra W;\n"
           "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 128;\n"
           "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%b], 128;\n" BULK
           "[%s], [%in], 128, [%b]; " BULK "[%s+128], [%in+128], 128, [%b];\n"
           "mbarrier.arrive.shared::cta.b64 _, [%b];\n" WAIT("W", "0") WORD,
           256, "bytes that are expected in two parts, and an arrival behind them");
    copies("@!%p bra I; mbarrier.init.shared::cta.b64 [%b], 65; " FENCE "I: bar.sync 0;\n"
           "mbarrier.arrive.shared::cta.b64 %z, [%b]; @!%p bra W;\n" EXPECT "256;\n" BULK
           "[%s], [%in], 256, [%b];\nW: mbarrier.test_wait.shared::cta.b64 %q, [%b], %z; @!%q bra "
           "W;\n" WORD,
           256, "an arrival of each thread, whose state names the phase");
    copies(INIT
           "@!%p bra W;\n" EXPECT "256;\n" BULK
           "[%s], [%in], 256, [%b];\n" WAIT("W", "0") "setp.ne.u32 %r, %w, 0; @%r bra N;\n" WORD
                                                      "N: bar.sync 0; @!%r bra X;\n" WORD "X:",
           256, "a barrier hands on what a wait has seen");
    copies(
        "@!%p bra I; mbarrier.init.shared.b64 [%b], 1; mbarrier.init.shared.b64 [%b+8], 2;\n" FENCE
        "I: bar.sync 0; mov.b32 %i, 0; shl.b32 %e, %l, 2; mul.wide.u32 %o, %l, 4;\n"
        "add.s64 %out, %out, %o; add.u32 %e, %e, %s;\n"
        "L: and.b32 %f, %i, 1; @!%p bra W; setp.eq.u32 %r, %i, 0; @%r bra G; xor.b32 %a0, %f, 1;\n"
        "E: mbarrier.try_wait.parity.shared.b64 %q, [%b+8], %a0; @!%q bra E;\n"
        "G: " EXPECT "128;\n" BULK "[%s], [%in], 128, [%b]; add.s64 %in, %in, 128;\n"
        "W: mbarrier.try_wait.parity.shared.b64 %q, [%b], %f; @!%q bra W;\n"
        "ld.shared.b32 %a1, [%e]; setp.eq.u32 %q, %w, %f; @%q st.global.b32 [%out], %a1;\n"
        "add.s64 %out, %out, 128; setp.eq.u32 %r, %l, 0;\n"
        "@%r mbarrier.arrive.shared.b64 _, [%b+8];\n"
        "add.u32 %i, %i, 1; setp.lt.u32 %r, %i, 6; @%r bra L;",
        768, "a stage that is filled again when its readers have arrived");
}

#define START(bytes) INIT "@!%p bra W;\n" EXPECT bytes ";\n" BYTES_512

#define SHOWN "in flight|was not waited for|nobody wrote"

static void forbidden(void) {
    faults(START("512") "W: bar.sync 0;\n" WORD, SHOWN, "a read without a wait");
    faults(START("512") "ld.shared.b32 %d, [%s];\n" WAIT("W", "0"), "bytes in flight",
           "a read before the wait");
    faults(START("512") WAIT("W", "1") WORD, SHOWN, "a wait for the phase before");
    faults(START("512") "W: setp.eq.u32 %r, %w, 0; @!%r bra N;\n" WAIT("V", "0") "N:" WORD, SHOWN,
           "a warp that does not wait");
    faults(START("528") WAIT("W", "0"), "phase 0 expects 0 more arrivals and 16 more bytes",
           "more bytes expected than are copied");
    faults(START("512") WAIT("W", "0") "@!%p bra V;\n" EXPECT "16;\n" WAIT("V", "1"),
           "phase 1 expects 0 more arrivals and 16 more bytes", "bytes that nobody copies");
    faults(INIT "@!%p bra W;\n" BYTES_512 WAIT("W", "0"),
           "phase 0 expects 1 more arrivals and -512 more bytes", "bytes without an arrival");
    faults(START("512") WAIT("W", "0") WORD "@!%p bra V;\n" EXPECT
                                            "512;\n" BYTES_512 WAIT("V", "1"),
           "race: |in flight|phase 2 expects 1 more arrivals",
           "a copy over what other warps still read");
    faults(START("512") BYTES_512 WAIT("W", "0"), "in flight", "a copy over another one");
    faults("@!%p bra I; mbarrier.init.shared::cta.b64 [%b], 1;\nI: bar.sync 0; @!%p bra W;\n" EXPECT
           "512;\n" BYTES_512 WAIT("W", "0"),
           "no fence.mbarrier_init", "an initialisation without a fence");
    faults("@!%p bra S; st.shared.b32 [%s], 7;\nS:" START("512") WAIT("W", "0"),
           "no fence.proxy.async followed", "a copy over a store without a fence");
    faults("@!%p bra I; mbarrier.init.shared::cta.b64 [%b], 1; " FENCE "I:\n" WAIT("W", "0"),
           "mbarrier", "an initialisation that other warps have not seen");
    faults(INIT "@!%p bra W;\n" EXPECT "0x100000;\nW:", "of 1048576 bytes",
           "too many bytes expected");
    faults(INIT "@!%p bra W;\nmbarrier.expect_tx.shared::cta.b64 [%b], 0x100000;\nW:",
           "a tx-count of 1048576", "a tx-count that is too large");
    faults(INIT "mbarrier.arrive.shared::cta.b64 _, [%b];", "arrivals at an mbarrier that expects",
           "more arrivals than are expected");
    faults(INIT "@!%p bra W; mbarrier.arrive.shared::cta.b64 _, [%b], 0;\nW:", "0 arrivals",
           "no arrival");
    faults(INIT WAIT("W", "2"), "a parity of 2", "a parity that there is not");
    faults(INIT "@!%p bra W; mbarrier.arrive.shared::cta.b64 %z, [%b];\n"
                "mbarrier.arrive.shared::cta.b64 _, [%b];\n"
                "mbarrier.test_wait.shared::cta.b64 %q, [%b], %z;\nW:",
           "for phase 0 of an mbarrier in phase 2", "a wait for a phase long past");
    faults(INIT "@!%p bra W; mbarrier.init.shared::cta.b64 [%b], 1;\nW:", "initialised twice",
           "an mbarrier that is initialised again");
    faults("mbarrier.init.shared::cta.b64 [%b], 0;", "for 0 arrivals", "an mbarrier for nobody");
    faults("mbarrier.init.shared::cta.b64 [%b+4], 1;", "not aligned",
           "an mbarrier that is misaligned");
    faults(INIT "@!%p bra W; mbarrier.inval.shared::cta.b64 [%b];\n"
                "mbarrier.arrive.shared::cta.b64 _, [%b];\nW:",
           "no mbarrier was initialised", "an mbarrier behind its end");
    faults(INIT "@!%p bra W; st.shared.b32 [%b+4], 7;\nW:", "where an mbarrier is",
           "a store to an mbarrier");
    faults(INIT "@!%p bra W; ld.shared.b32 %d, [%b];\nW:", "where an mbarrier is",
           "a load of an mbarrier");
    faults(INIT "@!%p bra W;\n" EXPECT "24;\n" BULK "[%s], [%in], 24, [%b];\nW:", "multiples of 16",
           "a size that is no multiple of 16");
    faults(INIT "@!%p bra W;\n" EXPECT "16;\n" BULK "[%s+8], [%in], 16, [%b];\nW:",
           "multiples of 16", "a misaligned destination");
    faults(INIT "@!%p bra W;\n" EXPECT "32;\n" BULK "[%s], [%in+8176], 32, [%b];\nW:",
           "of an allocation", "a source beyond an allocation");
    faults(INIT "@!%p bra W;\n" EXPECT "512;\n" BULK "[%s+3904], [%in], 512, [%b];\nW:", "shared",
           "a destination beyond shared memory");
    faults(INIT "setp.eq.u32 %r, %t, 32; @!%p bra V; st.shared.b32 [%s], 7;\n"
                "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%b];\nV:\n" WAIT(
                    "W", "0") "@%r ld.shared.b32 %d, [%s];",
           "race: ", "an arrival that is relaxed, and hands over nothing");
}

// ---- tensor maps -------------------------------------------------------------------------------
static void refused_map(struct ptx_tensor t, size_t misaligned, const char *why) {
    static _Alignas(128) uint8_t map[2 * PTX_TENSOR_MAP_BYTES];
    char text[PTX_TEXT_MAX] = "it was made";
    bool made = ptx_tensor_map(map + misaligned, &t, text) == 0;
    has_str(made ? "it was made" : text, why, "no tensor map: %s", why);
}

static void maps(void) {
    const struct ptx_tensor good = {.address = 4096,
                                    .dim = {COLUMNS, ROWS},
                                    .pitch = 32,
                                    .box = {64, 128},
                                    .bytes = 2,
                                    .swizzle = 128};
    struct ptx_tensor t;
    char text[PTX_TEXT_MAX] = "";
    static _Alignas(128) uint8_t map[PTX_TENSOR_MAP_BYTES];
    ok(ptx_tensor_map(map, &good, text) == 0, "a tensor map is made %s", text);
    refused_map(good, 32, "alignment");
    t = good, t.address += 8, refused_map(t, 0, "aligned to 16");
    t = good, t.pitch += 8, refused_map(t, 0, "multiple of 16");
    t = good, t.pitch = (uint64_t)1 << 40, refused_map(t, 0, "multiple of 16");
    t = good, t.pitch = 16, refused_map(t, 0, "overlap");
    t = good, t.dim[0] = 0, refused_map(t, 0, "dimension");
    t = good, t.dim[1] = ((uint64_t)1 << 32) + 1, refused_map(t, 0, "dimension");
    t = good, t.box[1] = 257, refused_map(t, 0, "the box");
    t = good, t.box[1] = 0, refused_map(t, 0, "the box");
    t = good, t.box[0] = 12, refused_map(t, 0, "whole chunks");
    t = good, t.box[0] = 128, refused_map(t, 0, "wider than the swizzle");
    t = good, t.box[0] = 32, refused_map(t, 0, "not modelled");
    t = good, t.swizzle = 48, refused_map(t, 0, "the swizzle");
    t = good, t.bytes = 3, refused_map(t, 0, "element's size");
}

// Whether another warp uses it before or behind the initialisation is a matter of chance.
static void unseen(void) {
    struct run r = {.threads = THREADS};
    uint8_t got[SHARED] = {0};
    char text[PTX_TEXT_MAX] = "";
    bool found = false;
    plain_input();
    for (uint64_t seed = 0; seed < SEEDS && !found; seed++)
        found = !run_with("@!%p bra I; mbarrier.init.shared::cta.b64 [%b], 1; " FENCE "I:\n"
                          "@!%p bra W; mbarrier.arrive.shared::cta.b64 _, [%b];\n" WAIT("W", "0"),
                          &r, seed, got, text) &&
                strstr(text, "race: use of an mbarrier");
    ok(found, "fault: an mbarrier is used without a barrier behind its initialisation");
}

static void ends(void) {
    struct run r = {.threads = THREADS};
    plain_input();
    faults_of(START("512") "W: bar.sync 0;", &r, "bulk copies under way|that it did not wait for",
              "a block that ends before its copies");
    r.late = true;
    faults_of(INIT "@!%p bra W;\n" EXPECT "256;\n" BYTES_512 WAIT("W", "0") WORD
              "bar.sync 0;\n"
              "add.u32 %e, %e, 256; ld.shared.b32 %d, [%e];",
              &r, "in flight|expects", "fewer bytes expected than are copied");
}

static void tensors(void) {
    struct ptx_tensor t = tensor(2, 128, 8), beyond = t, far = t;
    struct run r = {.map = &t, .threads = THREADS}, none = {.threads = THREADS};
    beyond.dim[1]++, far.dim[0]++;
    tensor_input(&t);
    faults_of(INIT "@!%p bra W;\n" EXPECT "1024;\n" TENSOR "[%s+64], [%m, {%x, %y}], [%b];\nW:", &r,
              "not aligned to 128 bytes", "a box at a misaligned address");
    faults_of(INIT "@!%p bra W;\n" EXPECT "1024;\nadd.s64 %m, %m, 32;\n" BOX "W:", &r,
              "not aligned to 64 bytes", "a misaligned tensor map");
    faults_of(INIT "@!%p bra W;\n" EXPECT "1024;\n" BOX "W:", &none, "where no tensor map is",
              "a tensor map that is none");
    faults_of(INIT "@!%p bra W;\n" EXPECT "1024;\nmov.b64 %m, %in;\n" BOX "W:", &r,
              "outside of the kernel's parameters", "a tensor map elsewhere");
    faults_of(INIT "@!%p bra W;\n" EXPECT "1000;\n" BOX WAIT("W", "0") WORD, &r,
              "in flight|expects", "fewer bytes expected than a box has");
    faults_of(INIT "@!%p bra W;\n" EXPECT "1040;\n" BOX WAIT("W", "0"), &r, "and 16 more bytes",
              "more bytes expected than a box has");
    r.map = &beyond;
    faults_of(INIT "@!%p bra W;\n" EXPECT "1024;\n" BOX "W:", &r, "of an allocation",
              "a tensor map of more rows than are allocated");
    r.map = &far;
    faults_of(INIT "@!%p bra W;\n" EXPECT "1024;\n" BOX "W:", &r, "nobody wrote",
              "a tensor map of more columns than are there");
    refused_insn("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%a], [%qa, {%b, %b, %b}], [%c];",
                 "is not known: '.3d'");
    refused_insn(TENSOR "[%a], [%qa, {%b}], [%c];", "has 1 coordinates");
    refused_insn(
        "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%a], [%qa, {%b, %b}], [%c];",
        "is not known: '.im2col'");
}

int main(void) {
    boxes();
    phases();
    forbidden();
    unseen();
    ends();
    maps();
    tensors();
    return done_testing();
}
