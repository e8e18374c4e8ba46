// SPDX-License-Identifier: Apache-2.0
// snippet.h: one PTX instruction at a time: operands in, result out.
#ifndef TESTS_GPU_SNIPPET_H
#define TESTS_GPU_SNIPPET_H
#include "tests/gpu/emu/ptx.h"
#include "tests/tap.h"

#include <string.h>

enum { SNIPPET_BYTES = 8192, SNIPPET_TARGET = 100 };

// Registers of a snippet: %ha … %hd of 16 bits, %a … %d of 32, %qa … %qd of 64, %p and %q
// predicates
// (%p is set when the third operand is not zero). The result is what `out` names.
static const char snippet_head[] =
    ".version 9.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 out, .param .u64 pa, .param .u64 pb, .param .u64 pc)\n{\n"
    ".reg .b16 %ha, %hb, %hc, %hd; .reg .b32 %a, %b, %c, %d, %e; .reg .b64 %qa, %qb, %qc, %qd, "
    "%o;\n"
    ".reg .pred %p, %q, %r;\n"
    "ld.param.u64 %o, [out]; cvta.to.global.u64 %o, %o;\n"
    "ld.param.b64 %qa, [pa]; ld.param.b64 %qb, [pb]; ld.param.b64 %qc, [pc];\n"
    "ld.param.b32 %a, [pa]; ld.param.b32 %b, [pb]; ld.param.b32 %c, [pc];\n"
    "ld.param.b16 %ha, [pa]; ld.param.b16 %hb, [pb]; ld.param.b16 %hc, [pc];\n"
    "setp.ne.s32 %p, %c, 0; setp.ne.s32 %q, %c, 0;\n"
    "mov.b32 %d, 0; mov.b64 %qd, 0; mov.b32 %e, 0;\n";

TAP_UNUSED static void snippet_source(char *to, const char *insn, const char *out) {
    char line[256];
    if (out[1] == 'p' || out[1] == 'r')
        snprintf(line, sizeof line, "selp.b32 %%d, 1, 0, %s; st.global.b32 [%%o], %%d", out);
    else
        snprintf(line, sizeof line, "st.global.%s [%%o], %s",
                 out[1] == 'q'   ? "b64"
                 : out[1] == 'h' ? "b16"
                                 : "b32",
                 out);
    snprintf(to, SNIPPET_BYTES, "%s%s\n%s;\nret;\n}\n", snippet_head, insn, line);
}

// Runs a snippet with one thread. False, and why in text, when it is refused or faults.
TAP_UNUSED static bool snippet_run(const char *insn, const char *out, const uint64_t in[3],
                                   uint64_t *got, char *text) {
    char source[SNIPPET_BYTES];
    snippet_source(source, insn, out);
    struct ptx_module *m = ptx_load(source, strlen(source), SNIPPET_TARGET, text);
    if (!m)
        return false;
    uint64_t to = ptx_alloc(8), params[4] = {to, in[0], in[1], in[2]};
    struct ptx_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params};
    bool ran = ptx_run(ptx_find(m, "k"), &l, text) == 0;
    *got = 0;
    memcpy(got, ptx_host(to, 8), out[1] == 'q' ? 8 : out[1] == 'h' ? 2 : 4);
    ptx_free(to);
    ptx_unload(m);
    return ran;
}

// One test point: the bits of the result.
TAP_UNUSED static void gives(const char *insn, const char *out, uint64_t a, uint64_t b, uint64_t c,
                             uint64_t want) {
    char text[PTX_TEXT_MAX] = "";
    uint64_t got = 0;
    bool ran = snippet_run(insn, out, (const uint64_t[]){a, b, c}, &got, text);
    if (!ok(ran && got == want, "%s  a=%" PRIx64 " b=%" PRIx64 " c=%" PRIx64, insn, a, b, c))
        diag("  %s got %" PRIx64 ", want %" PRIx64, text, got, want);
}

// A module of any text must be refused with a message that contains `why`.
TAP_UNUSED static void refused(const char *source, const char *why) {
    char text[PTX_TEXT_MAX] = "";
    struct ptx_module *m = ptx_load(source, strlen(source), SNIPPET_TARGET, text);
    has_str(m ? "it was loaded" : text, why, "refused: %s", why);
    if (m)
        ptx_unload(m);
}

// An instruction must be refused.
TAP_UNUSED static void refused_insn(const char *insn, const char *why) {
    char source[SNIPPET_BYTES];
    snippet_source(source, insn, "%d");
    refused(source, why);
}

TAP_UNUSED static uint64_t F(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
TAP_UNUSED static uint64_t D(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
#endif
