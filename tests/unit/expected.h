// SPDX-License-Identifier: Apache-2.0
// Long texts that a module makes, compared with parts of a file beside the test. A part stands
// behind a line "=== NAME". With an argument a test prints what its file has to be:
//
//     expected_open("tests/unit/conf/render.txt", argc);
//     render_man(&out, …);
//     is_expected(&out, "manual"); // empties out
//     return expected_end();
#ifndef TESTS_UNIT_EXPECTED_H
#define TESTS_UNIT_EXPECTED_H

#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"

static struct arena expected_arena;
static char *expected_text;
static bool expected_prints;

TAP_UNUSED static void expected_open(const char *path, int argc) {
    const char *source = getenv("DTCTL_SRC");
    struct err e;
    size_t len;
    expected_prints = argc > 1;
    if (file_read(&expected_arena,
                  arena_printf(&expected_arena, "%s/%s", source && *source ? source : ".", path),
                  1 << 20, &expected_text, &len, &e) < 0)
        bail_out("%s", e.text);
}

TAP_UNUSED static void expected_compare(const char *got, const char *want, const char *name) {
    const char *end = strstr(want, "\n=== ");
    size_t len = end ? (size_t)(end - want) + 1 : strlen(want), same = 0;
    while (same < len && got[same] == want[same])
        same++;
    if (ok(same == len && !got[len], "the text '%s' is as expected", name))
        return;
    const char *from = got + same - (same < 40 ? same : 40);
    tap_bytes("got", from, strnlen(from, 80));
    tap_bytes("want", want + (from - got), strnlen(want + (from - got), 80));
}

TAP_UNUSED static void is_expected(struct strbuf *out, const char *name) {
    const char *mark = arena_printf(&expected_arena, "=== %s\n", name), *got = strbuf_cstr(out);
    const char *want = strstr(expected_text, mark);
    if (expected_prints)
        printf("%s%s", mark, got);
    else if (!want)
        fail("the file has no text '%s'", name);
    else
        expected_compare(got, want + strlen(mark), name);
    strbuf_clear(out);
}

// Status for main.
TAP_UNUSED static int expected_end(void) {
    arena_fini(&expected_arena);
    return expected_prints ? 0 : done_testing();
}

#endif
