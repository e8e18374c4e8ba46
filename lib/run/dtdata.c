// SPDX-License-Identifier: Apache-2.0
// Runs dtdata from memory and collects what it prints.
#include "run/dtdata.h"

#include "base/clock.h"
#include "base/json.h"
#include "fleet/embedded_files.h"
#include "run/dtdata_user.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 8, STEP_MS = 100, READ_BYTES = 64 << 10 };

// The program in memory: no folder of this computer has to allow programs.
static int open_program(struct arena *a, struct err *e) {
    const struct embed_file *file = embedded_find(DTDATA_PROGRAM);
    if (!file)
        return err_set(e, ERR_FAILED,
                       "this dtctl carries no " DTDATA_PROGRAM ": it was built without it");
    const void *data = embedded_unpack(a, file, e);
    if (!data)
        return -1;
    int fd = memfd_create(DTDATA_PROGRAM, MFD_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot unpack " DTDATA_PROGRAM);
    if (file_write_all(fd, data, file->size, e) == 0)
        return fd;
    close(fd);
    return -1;
}

// The error that the program has printed as its last line.
static int failure(struct arena *a, const char *text, int status, struct err *e) {
    const char *line = strstr(text, "{\"event\":\"error\"");
    struct json *j;
    struct err ignored = {0};
    if (!line || json_parse(a, line, strcspn(line, "\n"), &j, &ignored) < 0)
        return err_set(e, ERR_FAILED, DTDATA_PROGRAM " ended with status %d",
                       proc_status_code(status));
    const char *code = json_get_str(j, "code", "");
    enum err_code found = ERR_FAILED;
    for (int i = ERR_NONE + 1; i <= ERR_NO_STATUS; i++)
        found = strcmp(err_name((enum err_code)i), code) == 0 ? (enum err_code)i : found;
    return err_set(e, found, "%s", json_get_str(j, "text", "no reason given"));
}

struct collected {
    struct context *context;
    int to; // standard input of the program
    bool alone;
    struct strbuf text, begun; // complete lines; the line that is not complete yet
    uint64_t done, total;
    int64_t waited_ms; // for the user
};

static void read_progress(struct collected *out, const char *line, size_t len) {
    struct arena a = {0};
    struct json *j;
    struct err ignored = {0};
    if (json_parse(&a, line, len, &j, &ignored) == 0) {
        out->done = (uint64_t)json_get_int(j, "done", 0);
        out->total = (uint64_t)json_get_int(j, "total", 0);
    }
    arena_fini(&a);
}

// Lines {"done":N,"total":N} do not become text, so that a long copy does not fill it. Nor do those
// about the user's account.
static void take_lines(struct collected *out) {
    static const char PROGRESS[] = "{\"done\":", ASK[] = "{\"ask\":", FOUND[] = "{\"account\":";
    const char *end, *line = out->begun.data, *after = line + out->begun.len;
    for (; (end = memchr(line, '\n', (size_t)(after - line))); line = end + 1)
        if (strncmp(line, PROGRESS, sizeof PROGRESS - 1) == 0)
            read_progress(out, line, (size_t)(end - line));
        else if ((strncmp(line, ASK, sizeof ASK - 1) == 0 ||
                  strncmp(line, FOUND, sizeof FOUND - 1) == 0) &&
                 dtdata_user_take(out->context, line, (size_t)(end - line), out->to, out->alone,
                                  &out->waited_ms))
            explicit_bzero((char *)(uintptr_t)line, (size_t)(end - line));
        else
            strbuf_add(&out->text, line, (size_t)(end + 1 - line));
    strbuf_consume(&out->begun, (size_t)(line - out->begun.data));
}

// Reads to the end of the program's output.
static int collect(struct context *s, int fd, const struct dtdata_call *call, struct collected *out,
                   struct err *e) {
    static char bytes[READ_BYTES];
    int64_t began = clock_mono_ms();
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, STEP_MS);
        if (call->on_progress)
            call->on_progress(call->ctx, out->done, out->total);
        if (context_interrupt(s))
            return err_set(e, ERR_INTERRUPTED, "stopped by a signal");
        if (call->ms_max && clock_mono_ms() - began - out->waited_ms > call->ms_max)
            return err_set(e, ERR_TIMEOUT, DTDATA_PROGRAM " has not ended within %lld s",
                           (long long)(call->ms_max / 1000));
        if (ready <= 0)
            continue;
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? err_errno(e, ERR_SYS, "cannot read from " DTDATA_PROGRAM) : 0;
        if (out->text.len + out->begun.len + (size_t)n > call->bytes_max)
            return err_set(e, ERR_LIMIT, DTDATA_PROGRAM " prints more than %zu bytes",
                           call->bytes_max);
        strbuf_add(&out->begun, bytes, (size_t)n);
        take_lines(out);
    }
}

static int run(struct context *s, struct arena *a, const char *const *argv,
               const struct dtdata_call *call, struct collected *out, struct err *e) {
    int ends[2], answers[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot make a pipe");
    auto_close int from = ends[0];
    if (pipe2(answers, O_CLOEXEC) < 0) {
        close(ends[1]);
        return err_errno(e, ERR_SYS, "cannot make a pipe");
    }
    auto_close int to = answers[1];
    out->context = s;
    out->to = to;
    out->alone = call->alone;
    struct proc_spec spec = {.argv = argv,
                             .env = s->env,
                             .in = call->in > 0 ? call->in : answers[0],
                             .out = ends[1],
                             .err = -1,
                             .new_group = true, // Ctrl-C is dtctl's to handle
                             .parent_death_signal = SIGTERM};
    pid_t pid = proc_start(&spec, e);
    close(ends[1]);
    close(answers[0]);
    if (pid < 0)
        return -1;
    int result = collect(s, from, call, out, e);
    if (result < 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return result == 0 && status != 0 ? failure(a, strbuf_cstr(&out->text), status, e) : result;
}

int dtdata_run(struct context *s, const struct dtdata_call *call, char **text, struct err *e) {
    struct arena a = {0};
    struct collected out = {0};
    const char *argv[ARGS_MAX + 5] = {NULL}, *profile = dtdata_user_profile(s);
    size_t count = 0;
    auto_close int fd = open_program(&a, e);
    int result = fd < 0 ? -1 : 0;
    if (result == 0) {
        argv[count++] = arena_printf(&a, "/proc/self/fd/%d", fd);
        argv[count++] = "--asks";
        if (profile) {
            argv[count++] = "--profile";
            argv[count++] = profile;
        }
        for (size_t i = 0; i < ARGS_MAX && call->args[i]; i++)
            argv[count++] = call->args[i];
        result = run(s, &a, argv, call, &out, e);
    }
    strbuf_add(&out.text, strbuf_cstr(&out.begun), out.begun.len);
    *text = heap_realloc(NULL, out.text.len + 1);
    memcpy(*text, strbuf_cstr(&out.text), out.text.len + 1);
    strbuf_fini(&out.text);
    strbuf_fini(&out.begun);
    arena_fini(&a);
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
