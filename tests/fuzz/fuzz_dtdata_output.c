// SPDX-License-Identifier: Apache-2.0
// The output of dtdata on the operator's computer: any bytes, in pieces of the length that the
// first byte says. The last byte is its exit status. A list for the nodes is whole lines, and a
// failure has a text.
#include "run/dtdata_program.h"
#include "run/inputs/input_renew.h"

#include "base/json.h"
#include "protocol/source_frames.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUTPUT_BYTES_MAX = 4096 };

static void check_list(const struct strbuf *text) {
    struct strbuf out = {0};
    struct arena a = {0};
    struct json *j;
    struct err e = {0};
    int64_t ends_ms = -1;
    if (input_renew_lines("set", text, &out, &ends_ms, &e) < 0) {
        must(e.code && e.text[0]);
    } else {
        source_clock_set(out.data, 1234567890123);
        must(json_parse(&a, out.data, strlen(SOURCE_CLOCK_LINE), &j, &e) == 0);
        must(json_get_int(j, "now", 0) == 1234567890123);
        must(out.data[out.len - 1] == '\n');
        const char *last = memrchr(out.data, '{', out.len);
        must(json_parse(&a, last, (size_t)(out.data + out.len - last), &j, &e) == 0);
        must(json_get_int(j, "ends", -1) == ends_ms);
    }
    strbuf_fini(&out);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena = {0};
    struct config config = {0};
    struct context context = {.arena = &arena, .config = &config};
    struct dtdata_program p = {
        .context = &context, .alone = true, .bytes_max = OUTPUT_BYTES_MAX, .from = -1, .to = -1};
    struct err e = {0};
    size_t step = size ? data[0] + 1U : 1, end = size ? size - 1 : 0;
    p.to = memfd_create("answers", MFD_CLOEXEC);
    must(p.to >= 0);
    int result = 0;
    for (size_t at = 1; result == 0 && at < end; at += step)
        result =
            dtdata_program_take(&p, (const char *)data + at, step < end - at ? step : end - at, &e);
    must(result == 0 || e.code == ERR_LIMIT);
    must(p.text.len + p.begun.len <= OUTPUT_BYTES_MAX && p.waited_ms == 0);
    if (result == 0) {
        int status = (size ? data[size - 1] & 3 : 0) << 8;
        must((dtdata_program_ended(&p, status, &e) < 0) == (status != 0));
        must(status == 0 || (e.code && e.text[0]));
        check_list(&p.text);
    }
    dtdata_program_close(&p);
    arena_fini(&arena);
    prctl(PR_SET_DUMPABLE, 1); // an account has switched that off, and leaks are looked for
    return 0;
}
