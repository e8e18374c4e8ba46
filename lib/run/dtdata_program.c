// SPDX-License-Identifier: Apache-2.0
// Starts dtdata from memory, and takes what it prints.
#include "run/dtdata_program.h"

#include "base/json.h"
#include "fleet/embedded_files.h"
#include "run/dtdata_user.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARGS_MAX = 8 };

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
    const char *reason = json_get_str(j, "text", "");
    return err_set(e, found, "%s", reason[0] ? reason : DTDATA_PROGRAM " gives no reason");
}

static void read_progress(struct dtdata_program *p, const char *line, size_t len) {
    struct arena a = {0};
    struct json *j;
    struct err ignored = {0};
    if (json_parse(&a, line, len, &j, &ignored) == 0) {
        p->done = (uint64_t)json_get_int(j, "done", 0);
        p->total = (uint64_t)json_get_int(j, "total", 0);
    }
    arena_fini(&a);
}

// Lines {"done":N,"total":N} do not become text, so that a long copy does not fill it. Nor do those
// about the user's account.
static void take_lines(struct dtdata_program *p) {
    static const char PROGRESS[] = "{\"done\":", ASK[] = "{\"ask\":", FOUND[] = "{\"account\":";
    const char *end, *line = p->begun.data, *after = line + p->begun.len;
    for (; (end = memchr(line, '\n', (size_t)(after - line))); line = end + 1)
        if (strncmp(line, PROGRESS, sizeof PROGRESS - 1) == 0)
            read_progress(p, line, (size_t)(end - line));
        else if ((strncmp(line, ASK, sizeof ASK - 1) == 0 ||
                  strncmp(line, FOUND, sizeof FOUND - 1) == 0) &&
                 dtdata_user_take(p->context, line, (size_t)(end - line), p->to, p->alone,
                                  &p->waited_ms))
            explicit_bzero((char *)(uintptr_t)line, (size_t)(end - line));
        else
            strbuf_add(&p->text, line, (size_t)(end + 1 - line));
    strbuf_consume(&p->begun, (size_t)(line - p->begun.data));
}

int dtdata_program_take(struct dtdata_program *p, const char *bytes, size_t len, struct err *e) {
    if (p->text.len + p->begun.len + len > p->bytes_max)
        return err_set(e, ERR_LIMIT, DTDATA_PROGRAM " prints more than %zu bytes", p->bytes_max);
    strbuf_add(&p->begun, bytes, len);
    take_lines(p);
    return 0;
}

int dtdata_program_ended(struct dtdata_program *p, int status, struct err *e) {
    struct arena a = {0};
    strbuf_add(&p->text, strbuf_cstr(&p->begun), p->begun.len);
    strbuf_clear(&p->begun);
    int result = status == 0 ? 0 : failure(&a, strbuf_cstr(&p->text), status, e);
    arena_fini(&a);
    return result;
}

static int start(struct dtdata_program *p, const char *const *argv, int in, struct err *e) {
    int ends[2], answers[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot make a pipe");
    p->from = ends[0];
    auto_close int out = ends[1];
    if (pipe2(answers, O_CLOEXEC) < 0)
        return err_errno(e, ERR_SYS, "cannot make a pipe");
    p->to = answers[1];
    auto_close int questions = answers[0];
    const struct proc_spec spec = {.argv = argv,
                                   .env = p->context->env,
                                   .in = in > 0 ? in : questions,
                                   .out = out,
                                   .err = -1,
                                   .new_group = true, // Ctrl-C is dtctl's to handle
                                   .parent_death_signal = SIGTERM};
    p->pid = proc_start(&spec, e);
    return p->pid < 0 ? -1 : 0;
}

int dtdata_program_start(struct dtdata_program *p, struct context *s,
                         const struct dtdata_call *call, struct err *e) {
    struct arena a = {0};
    const char *argv[ARGS_MAX + 5] = {NULL}, *profile = dtdata_user_profile(s);
    size_t count = 0;
    *p = (struct dtdata_program){
        .context = s, .alone = call->alone, .bytes_max = call->bytes_max, .from = -1, .to = -1};
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
        result = start(p, argv, call->in, e);
    }
    if (result < 0)
        dtdata_program_close(p);
    arena_fini(&a);
    return result;
}

void dtdata_program_close(struct dtdata_program *p) {
    if (p->from >= 0)
        close(p->from);
    if (p->to >= 0)
        close(p->to);
    p->from = p->to = -1;
    strbuf_fini(&p->text);
    strbuf_fini(&p->begun);
}
