// SPDX-License-Identifier: Apache-2.0
// Asks the trainer for the needs of a run.
#include "run/run_forecast.h"

#include "base/env.h"
#include "conf/render.h"
#include "conf/train_config.h"
#include "fleet/embedded_files.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FORECAST_BYTES_MAX = 4 << 20, FORECAST_MS_MAX = 120 * 1000, WORDS_MAX = 16 };

// A file without a name, for a program that opens /proc/self/fd.
static int nameless(const char *name, const void *data, size_t len, struct err *e) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "memory for %s", name);
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, (const char *)data + done, len - done);
        if (n <= 0) {
            err_errno(e, ERR_SYS, "memory for %s", name);
            close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    return fd;
}

// Paths of inputs are where the operator has them.
static char *const *environment(const struct run_start *l) {
    struct arena *a = l->context->arena;
    char *const *own = l->context->env;
    size_t count = 0, n = 0;
    while (own[count])
        count++;
    char **env = arena_new(a, char *, count + l->input_count + 1);
    for (size_t i = 0; i < l->input_count; i++)
        env[n++] = arena_printf(a, "%s=%s", env_variable(a, "DTCTL_INPUT_", l->inputs[i].name),
                                l->inputs[i].source);
    memcpy(env + n, own, count * sizeof *env);
    return env;
}

static int run_program(const struct run_start *l, bool json, int program, int settings, char **out,
                       struct err *e) {
    struct arena *a = l->context->arena;
    const struct run *r = &l->run;
    struct err ignored;
    int64_t each = 1;
    int status, n = 0;
    if (str_parse_i64(r->nproc, 1, INT32_MAX, &each, &ignored) < 0)
        each = 1; // as many as a node has processors or GPUs
    const char *argv[WORDS_MAX] = {arena_printf(a, "/proc/self/fd/%d", program)};
    argv[++n] = "--config";
    argv[++n] = arena_printf(a, "/proc/self/fd/%d", settings);
    argv[++n] = "--plan";
    argv[++n] = "--ranks";
    argv[++n] = arena_printf(a, "%lld", (long long)each * r->nodes_max);
    argv[++n] = "--ranks-per-node";
    argv[++n] = arena_printf(a, "%lld", (long long)each);
    if (json)
        argv[++n] = "--json";
    const int keep[] = {program, settings, -1};
    const struct proc_spec spec = {.argv = argv,
                                   .env = environment(l),
                                   .in = -1,
                                   .out = -1,
                                   .err = STDERR_FILENO,
                                   .keep = keep};
    if (proc_run(&spec, out, FORECAST_BYTES_MAX, FORECAST_MS_MAX, &status, e) < 0)
        return -1;
    int code = proc_status_code(status);
    if (code == err_status(ERR_CONFIG))
        return err_set(e, ERR_CONFIG,
                       "no run can have these settings: dttrain --plan refuses them");
    return code == 0 ? 0
                     : err_set(e, ERR_FAILED,
                               "dttrain --plan on this computer ended with status %d", code);
}

int run_forecast(const struct run_start *l, bool json, const char **out, struct err *e) {
    struct arena *a = l->context->arena;
    const struct embed_file *file = embedded_find("dttrain"); // it counts for GPUs, too
    struct strbuf text = {0};
    char *answer = NULL;
    const void *bytes = file ? embedded_unpack(a, file, e) : NULL;
    if (!bytes)
        return file ? -1 : err_set(e, ERR_FAILED, "this dtctl carries no native trainer");
    render_toml(&text, &l->context->config->set, train_tables);
    int program = nameless("dttrain", bytes, file->size, e);
    int settings = program < 0 ? -1 : nameless("train.toml", strbuf_cstr(&text), text.len, e);
    int r = settings < 0 ? -1 : run_program(l, json, program, settings, &answer, e);
    *out = r == 0 ? arena_strdup(a, answer) : NULL;
    free(answer);
    if (settings >= 0)
        close(settings);
    if (program >= 0)
        close(program);
    strbuf_fini(&text);
    return r;
}
