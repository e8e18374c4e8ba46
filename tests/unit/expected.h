// SPDX-License-Identifier: Apache-2.0
// Long texts that a module makes, compared with parts of a file beside the test. A part stands
// behind a line "=== NAME". With an argument a test writes its file anew:
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
static const char *expected_path;
static struct strbuf expected_new;
static bool expected_writes;

TAP_UNUSED static void expected_open(const char *path, int argc) {
    const char *source = getenv("DTCTL_SRC");
    struct err e;
    size_t len;
    expected_writes = argc > 1;
    expected_path = arena_printf(&expected_arena, "%s/%s", source && *source ? source : ".", path);
    if (!expected_writes &&
        file_read(&expected_arena, expected_path, 1 << 20, &expected_text, &len, &e) < 0)
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
    const char *want = expected_writes ? NULL : strstr(expected_text, mark);
    if (expected_writes)
        strbuf_addf(&expected_new, "%s%s", mark, got);
    else if (!want)
        fail("the file has no text '%s'", name);
    else
        expected_compare(got, want + strlen(mark), name);
    strbuf_clear(out);
}

// Status for main.
TAP_UNUSED static int expected_end(void) {
    struct err e;
    if (expected_writes &&
        file_write_atomic(expected_path, expected_new.data, expected_new.len, 0644, &e) < 0)
        bail_out("%s", e.text);
    strbuf_fini(&expected_new);
    arena_fini(&expected_arena);
    return expected_writes ? 0 : done_testing();
}

#endif
