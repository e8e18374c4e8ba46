// SPDX-License-Identifier: Apache-2.0
// Runs dtdata and waits for its end.
#include "run/dtdata.h"

#include "base/clock.h"
#include "base/json.h"
#include "run/dtdata_program.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEP_MS = 100, READ_BYTES = 64 << 10 };

// Reads to the end of the program's output.
static int collect(struct dtdata_program *p, const struct dtdata_call *call, struct err *e) {
    static char bytes[READ_BYTES];
    int64_t began = clock_mono_ms();
    for (;;) {
        struct pollfd wait = {.fd = p->from, .events = POLLIN};
        int ready = poll(&wait, 1, STEP_MS);
        if (call->on_progress)
            call->on_progress(call->ctx, p->done, p->total);
        if (context_interrupt(p->context))
            return err_set(e, ERR_INTERRUPTED, "stopped by a signal");
        if (call->ms_max && clock_mono_ms() - began - p->waited_ms > call->ms_max)
            return err_set(e, ERR_TIMEOUT, DTDATA_PROGRAM " has not ended within %lld s",
                           (long long)(call->ms_max / 1000));
        if (ready <= 0)
            continue;
        ssize_t n = read(p->from, bytes, sizeof bytes);
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            return n < 0 ? err_errno(e, ERR_SYS, "cannot read from " DTDATA_PROGRAM) : 0;
        if (dtdata_program_take(p, bytes, (size_t)n, e) < 0)
            return -1;
    }
}

int dtdata_run(struct context *s, const struct dtdata_call *call, char **text, struct err *e) {
    struct dtdata_program p;
    int status = 0, result = dtdata_program_start(&p, s, call, e);
    if (result == 0) {
        struct err ignored;
        result = collect(&p, call, e);
        if (result < 0)
            kill(p.pid, SIGKILL);
        while (err_interrupted(waitpid(p.pid, &status, 0)))
            ;
        int ended = dtdata_program_ended(&p, status, result < 0 ? &ignored : e);
        result = result < 0 ? -1 : ended;
    }
    *text = heap_realloc(NULL, p.text.len + 1);
    memcpy(*text, strbuf_cstr(&p.text), p.text.len + 1);
    dtdata_program_close(&p);
    return result;
}

int dtdata_account(struct context *s, struct dtdata_account *out, struct err *e) {
    enum { ANSWER_BYTES_MAX = 64 << 10, ACCOUNT_MS_MAX = 150 * 1000 };
    const char *args[] = {"account", NULL};
    const struct dtdata_call call = {
        .args = args, .bytes_max = ANSWER_BYTES_MAX, .ms_max = ACCOUNT_MS_MAX};
    char *text = NULL;
    struct json *j;
    int result = dtdata_run(s, &call, &text, e);
    if (result == 0)
        result = json_parse(s->arena, text, strlen(text), &j, e);
    if (result == 0)
        *out = (struct dtdata_account){.from = json_get_str(j, "from", "?"),
                                       .region = json_get_str(j, "region", "?"),
                                       .ends_ms = json_get_int(j, "ends", 0)};
    free(text);
    return result;
}
