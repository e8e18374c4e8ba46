// SPDX-License-Identifier: Apache-2.0
// test_bulk_store.c: bulk copies from shared memory to that of the device, of bytes and of boxes of
// a tensor map; their groups; and what their rules forbid.
#include "tests/gpu/bulk_snippet.h"

// Copies SHARED bytes of the input to shared memory.
#define LOAD                                                                                       \
    "mul.wide.u32 %z, %t, 64; add.s64 %o, %in, %z; mul.lo.u32 %e, %t, 64; add.u32 %e, %e, %s;\n"   \
    "mov.b32 %i, 0;\nF: ld.global.b32 %d, [%o]; st.shared.b32 [%e], %d; add.s64 %o, %o, 4;\n"      \
    "add.u32 %e, %e, 4; add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 16; @%q bra F;\n"
#define PROXY     "fence.proxy.async.shared::cta;\n"
#define READY     LOAD PROXY "bar.sync 0;\n"
#define TO_GLOBAL "cp.async.bulk.global.shared::cta.bulk_group "
#define TO_BOX    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m, {%x, %y}], "
#define COMMIT    "cp.async.bulk.commit_group;\n"
#define WAIT_ALL  "cp.async.bulk.wait_group 0;\n"
#define WAIT_READ "cp.async.bulk.wait_group.read 0;\n"
#define START     READY "@!%p bra E;\n" TO_GLOBAL "[%out], [%s], 512;\n"

// With every seed the output begins with bytes of the input, and nothing else is written.
static void stores(const char *body, int bytes, const char *what) {
    struct run r = {.threads = THREADS};
    uint8_t got[SHARED] = {0};
    char text[PTX_TEXT_MAX] = "";
    plain_input();
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        bool good = run_with(body, &r, seed, got, text);
        for (int n = 0; n < SHARED; n++)
            good &= got[n] == (n < bytes ? in_bytes[n] : UNTOUCHED);
        if (good)
            continue;
        fail("%s (seed %" PRIu64 ")", what, seed);
        diag("  %s", text);
        return;
    }
    pass("%s", what);
}

static void groups(void) {
    stores(START COMMIT WAIT_ALL "E:", 512, "bytes that a thread copies and waits for");
    stores(START COMMIT TO_GLOBAL "[%out+512], [%s+512], 1024;\n" COMMIT
                                  "cp.async.bulk.wait_group 1; ld.global.b32 %d, [%out+508];\n"
                                  "st.global.b32 [%out+508], %d;\n" WAIT_ALL "E:",
           1536, "two groups, of which the first one has been waited for");
    stores(START COMMIT WAIT_READ "st.shared.b32 [%s], 7;\nE:", 512,
           "what has been read may be overwritten");
    stores(READY TO_GLOBAL "[%out], [%s], 16;\n" COMMIT WAIT_READ, 16,
           "the same bytes that every thread copies");
    stores(START COMMIT WAIT_ALL TO_GLOBAL "[%out+512], [%s+512], 16;\n" COMMIT WAIT_READ "E:", 528,
           "a group behind one that was waited for");
}

// ---- boxes -------------------------------------------------------------------------------------
static void box(unsigned bytes, unsigned swizzle, unsigned rows, int x, int y) {
    struct ptx_tensor t = tensor(bytes, swizzle, rows);
    struct run r = {.map = &t, .to_out = true, .x = x, .y = y, .threads = THREADS};
    uint8_t got[SHARED] = {0}, want[SHARED];
    char text[PTX_TEXT_MAX] = "";
    int width = (int)(t.box[0] * bytes), wrong = 0;
    plain_input();
    memset(want, UNTOUCHED, SHARED);
    for (int row = 0; row < (int)rows; row++)
        for (int k = 0; k < width; k++) {
            int column = x + k / (int)bytes;
            if (column >= 0 && column < COLUMNS && y + row >= 0 && y + row < ROWS)
                want[(y + row) * (int)t.pitch + column * (int)bytes + k % (int)bytes] =
                    in_bytes[place(width, 0, row, k / 16) + k % 16];
        }
    bool ran =
        run_with(READY "@!%p bra E;\n" TO_BOX "[%s];\n" COMMIT WAIT_ALL "E:", &r, 3, got, text);
    for (int n = 0; n < SHARED; n++)
        wrong += got[n] != want[n];
    if (!ok(ran && !wrong, "a box of %u rows of %d bytes to (%d, %d), elements of %u", rows, width,
            x, y, bytes))
        diag("  %s, %d bytes are wrong", text, wrong);
}

static void boxes(void) {
    static const int to[][2] = {{0, 0}, {3, 2}, {-3, -2}, {11, 5}, {13, 0}, {0, 7}, {-64, -20}};
    for (unsigned bytes = 1; bytes <= 8; bytes *= 2)
        for (unsigned swizzle = 16; swizzle <= 128; swizzle *= 2)
            box(bytes, swizzle == 16 ? 0 : swizzle, 12, 1, -1);
    for (size_t n = 0; n < sizeof to / sizeof *to; n++)
        box(2, 128, 9, to[n][0], to[n][1]);
}

// ---- what is forbidden -------------------------------------------------------------------------
static void forbidden(void) {
    const char *unread = "still read its shared memory";
    faults(LOAD "bar.sync 0; @!%p bra E;\n" TO_GLOBAL "[%out], [%s], 512;\nE:",
           "no fence.proxy.async followed", "a copy of what was stored, without a fence");
    faults(LOAD PROXY "@!%p bra E;\n" TO_GLOBAL "[%out], [%s], 4096;\nE:", "race: |nobody wrote",
           "a copy of what other warps store, without a barrier");
    faults("@!%p bra E;\n" TO_GLOBAL "[%out], [%s], 512;\nE:", "nobody wrote",
           "a copy of what nobody wrote");
    faults(START COMMIT "st.shared.b32 [%s], 7;\nE:", "or bulk copy reads",
           "what a copy reads is overwritten before the wait");
    faults(START COMMIT TO_GLOBAL "[%out+512], [%s+512], 16;\n" COMMIT
                                  "cp.async.bulk.wait_group.read 1; st.shared.b32 [%s+512], 7;\nE:",
           "or bulk copy reads", "a wait that leaves the group whose bytes are overwritten");
    faults(START WAIT_ALL "E:", unread, "a copy that is in no group");
    faults(START COMMIT "E:", unread, "a block that ends before its copies have read");
    faults(START COMMIT "E: setp.eq.u32 %q, %t, 1; @%q cp.async.bulk.wait_group 0;", unread,
           "a wait of another thread");
    faults(START COMMIT WAIT_READ "ld.global.b32 %d, [%out];\nE:", "nobody wrote",
           "a read of what a copy writes, which was waited for its reads alone");
    faults(START COMMIT WAIT_READ TO_GLOBAL "[%out+512], [%s+512], 24;\nE:", "multiples of 16",
           "a size that is no multiple of 16");
    faults(READY TO_GLOBAL "[%out+8], [%s], 16;\n", "multiples of 16", "a misaligned destination");
    faults(READY TO_GLOBAL "[%out], [%s+8], 16;\n", "multiples of 16", "a misaligned source");
    faults(READY TO_GLOBAL "[%out+4080], [%s], 32;\n" COMMIT WAIT_ALL, "of an allocation",
           "a destination beyond an allocation");
    faults(READY TO_GLOBAL "[%out], [%s+3904], 512;\n", "of shared memory",
           "a source beyond shared memory");
}

static void maps(void) {
    struct ptx_tensor t = tensor(2, 128, 8), beyond = t;
    struct run r = {.map = &t, .to_out = true, .threads = THREADS}, none = {.threads = THREADS};
    plain_input();
    faults_of(READY TO_BOX "[%s+64];\n", &r, "not aligned to 128 bytes",
              "a box from a misaligned address");
    faults_of(READY TO_BOX "[%s];\n", &none, "where no tensor map is", "a tensor map that is none");
    beyond.dim[1] = SHARED, r.map = &beyond, r.y = SHARED / 32;
    faults_of(READY TO_BOX "[%s];\n" COMMIT WAIT_ALL, &r, "of an allocation",
              "a tensor map of more rows than are allocated");
    refused_insn("cp.async.bulk.tensor.2d.global.shared::cta [%qa, {%b, %b}], [%c];",
                 "']' is expected");
}

int main(void) {
    groups();
    boxes();
    forbidden();
    maps();
    return done_testing();
}
