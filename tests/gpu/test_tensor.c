// SPDX-License-Identifier: Apache-2.0
// test_tensor.c: ldmatrix, stmatrix and mma.sync in every form that the interpreter knows.
// Fragments are laid out here from the tables of the PTX manual, element by element, and not as the
// interpreter does.
#include "tests/gpu/snippet.h"

enum { LANES = 32, ROWS = 16, COLUMNS = 8, WORDS = 16, BYTES = 4 * LANES * WORDS };

// Lane l has words in[16 l …] and stores out[16 l …]: registers %a0 … %a15, %d0 … %d3.
static int head(char *p) {
    int n =
        snprintf(p, 4096, "%s",
                 ".version 9.0\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 s[512];\n"
                 ".visible .entry k(.param .u64 pin, .param .u64 pout)\n{\n"
                 ".reg .b32 %a<16>, %d<4>, %l, %s, %t; .reg .b64 %x, %y, %o;\n"
                 "ld.param.u64 %x, [pin]; ld.param.u64 %y, [pout]; mov.u32 %l, %laneid;\n"
                 "mul.wide.u32 %o, %l, 64; add.s64 %x, %x, %o; add.s64 %y, %y, %o; mov.u32 %s, s;\n"
                 "shl.b32 %t, %l, 4; add.s32 %t, %t, %s;\n");
    for (int k = 0; k < 16; k++)
        n += snprintf(p + n, 64, "ld.global.b32 %%a%d, [%%x+%d];\n", k, 4 * k);
    for (int k = 0; k < 4; k++)
        n += snprintf(p + n, 64, "mov.b32 %%d%d, 0;\n", k);
    return n;
}

static bool run_words(const char *insn, const uint32_t *in, uint32_t *out, char *text) {
    char source[SNIPPET_BYTES], *p = source;
    p += head(p);
    p += snprintf(p, 4096, "%s\n", insn);
    for (int n = 0; n < 4; n++)
        p += snprintf(p, 64, "st.global.b32 [%%y+%d], %%d%d;\n", 4 * n, n);
    snprintf(p, 16, "ret;\n}\n");
    struct ptx_module *m = ptx_load(source, strlen(source), SNIPPET_TARGET, text);
    if (!m)
        return false;
    uint64_t params[2] = {ptx_alloc(BYTES), ptx_alloc(BYTES)};
    memcpy(ptx_host(params[0], BYTES), in, BYTES);
    ptx_wrote(params[0], BYTES);
    struct ptx_launch l = {.grid = {1, 1, 1}, .block = {LANES, 1, 1}, .params = params};
    bool ran = ptx_run(ptx_find(m, "k"), &l, text) == 0;
    memcpy(out, ptx_host(params[1], BYTES), BYTES);
    ptx_free(params[0]);
    ptx_free(params[1]);
    ptx_unload(m);
    return ran;
}

// ---- mma: A is 16 x depth, B depth x 8, C 16 x 8; small whole numbers, so that sums are exact
// -----------
static int at_a(int r, int k) {
    return (r * 5 + k * 3) % 9 - 4;
}
static int at_b(int k, int c) {
    return (k * 7 + c * 2) % 11 - 5;
}
static int at_c(int r, int c) {
    return (r + c * 3) % 7 - 3;
}

enum kind { BF16, F16, TF32 };

static uint32_t element(int v, enum kind kind) {
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
    uint32_t sign = v < 0, size = (uint32_t)(v < 0 ? -v : v);
    if (kind == F16)
        return halves[size] | sign << 15;
    uint32_t bits = (uint32_t)F((float)v);
    return kind == BF16 ? bits >> 16 : bits | 0x1fff; // the low bits of tf32 do not count
}

// Register n of a lane for 16-bit types: two neighbours along the depth; for tf32 one element.
static uint32_t fragment_a(int lane, int n, enum kind kind) {
    int row = lane / 4 + (n % 2 ? 8 : 0);
    if (kind == TF32)
        return element(at_a(row, lane % 4 + (n < 2 ? 0 : 4)), kind);
    int k = lane % 4 * 2 + (n < 2 ? 0 : 8);
    return element(at_a(row, k), kind) | element(at_a(row, k + 1), kind) << 16;
}
static uint32_t fragment_b(int lane, int n, enum kind kind) {
    int column = lane / 4;
    if (kind == TF32)
        return element(at_b(lane % 4 + 4 * n, column), kind);
    int k = lane % 4 * 2 + 8 * n;
    return element(at_b(k, column), kind) | element(at_b(k + 1, column), kind) << 16;
}

static void product(const char *insn, int depth, enum kind kind) {
    uint32_t in[LANES * WORDS] = {0}, out[LANES * WORDS];
    char text[PTX_TEXT_MAX] = "";
    int a = kind == TF32 ? depth / 2 : depth / 4, wrong = 0;
    for (int l = 0; l < LANES; l++) {
        for (int n = 0; n < a; n++)
            in[l * WORDS + n] = fragment_a(l, n, kind);
        for (int n = 0; n < a / 2; n++)
            in[l * WORDS + 4 + n] = fragment_b(l, n, kind);
        for (int n = 0; n < 4; n++)
            in[l * WORDS + 8 + n] = (uint32_t)F((float)at_c(l / 4 + n / 2 * 8, l % 4 * 2 + n % 2));
    }
    bool ran = run_words(insn, in, out, text);
    for (int l = 0; ran && l < LANES; l++)
        for (int n = 0; n < 4; n++) {
            int r = l / 4 + n / 2 * 8, c = l % 4 * 2 + n % 2, want = at_c(r, c);
            for (int k = 0; k < depth; k++)
                want += at_a(r, k) * at_b(k, c);
            wrong += out[l * WORDS + n] != (uint32_t)F((float)want);
        }
    if (!ok(ran && wrong == 0, "%.*s", (int)strcspn(insn, " "), insn))
        diag("  %s, %d elements are wrong", text, wrong);
}

// ---- ldmatrix and stmatrix: row r of part p holds 16-bit elements 64 p + 8 r + c
// --------------------------
static void matrices(const char *insn, int parts, bool turned) {
    uint32_t in[LANES * WORDS] = {0}, out[LANES * WORDS];
    char text[PTX_TEXT_MAX] = "";
    int wrong = 0;
    for (int l = 0; l < LANES; l++)
        for (int n = 0; n < 4; n++)
            in[l * WORDS + n] = (uint32_t)(8 * l + 2 * n) | (uint32_t)(8 * l + 2 * n + 1) << 16;
    bool ran = run_words(insn, in, out, text);
    for (int l = 0; ran && l < LANES; l++)
        for (int p = 0; p < parts; p++) {
            int r = l / 4, c = l % 4 * 2;
            uint32_t low = (uint32_t)(64 * p + (turned ? 8 * c + r : 8 * r + c));
            uint32_t high = (uint32_t)(64 * p + (turned ? 8 * (c + 1) + r : 8 * r + c + 1));
            wrong += out[l * WORDS + p] != (low | high << 16);
        }
    if (!ok(ran && wrong == 0, "%s", strchr(insn, '\n') + 1))
        diag("  %s, %d words are wrong", text, wrong);
}

// ldmatrix reads the data that stmatrix wrote.
static void there_and_back(void) {
    uint32_t in[LANES * WORDS] = {0}, out[LANES * WORDS];
    char text[PTX_TEXT_MAX] = "";
    int wrong = 0;
    for (int l = 0; l < LANES * WORDS; l++)
        in[l] = (uint32_t)l * 2654435761u;
    bool ran = run_words("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%t], {%a0, %a1, %a2, %a3};\n"
                         "bar.warp.sync -1;\n"
                         "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%d0, %d1, %d2, %d3}, [%t];",
                         in, out, text);
    for (int l = 0; ran && l < LANES; l++)
        wrong += memcmp(&in[l * WORDS], &out[l * WORDS], 16) != 0;
    ok(ran && wrong == 0, "stmatrix and ldmatrix are inverse");
}

#define FILL       "st.shared.v4.b32 [%t], {%a0, %a1, %a2, %a3}; bar.warp.sync -1;\n"
#define ACCUMULATE "{%a8, %a9, %a10, %a11};"

int main(void) {
    product("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%d0, %d1, %d2, %d3},\n"
            "{%a0, %a1, %a2, %a3}, {%a4, %a5}, " ACCUMULATE,
            16, BF16);
    product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3},\n"
            "{%a0, %a1, %a2, %a3}, {%a4, %a5}, " ACCUMULATE,
            16, F16);
    product("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%d0, %d1, %d2, %d3},\n"
            "{%a0, %a1}, {%a4}, " ACCUMULATE,
            8, BF16);
    product("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3},\n"
            "{%a0, %a1}, {%a4}, " ACCUMULATE,
            8, F16);
    product("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%d0, %d1, %d2, %d3},\n"
            "{%a0, %a1, %a2, %a3}, {%a4, %a5}, " ACCUMULATE,
            8, TF32);
    product("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%d0, %d1, %d2, %d3},\n"
            "{%a0, %a1}, {%a4}, " ACCUMULATE,
            4, TF32);
    matrices(FILL "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%d0}, [%t];", 1, false);
    matrices(FILL "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%d0, %d1}, [%t];", 2, false);
    matrices(FILL "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%d0, %d1, %d2, %d3}, [%t];", 4, false);
    matrices(FILL "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%d0, %d1, %d2, %d3}, [%t];", 4,
             true);
    there_and_back();
    return done_testing();
}
