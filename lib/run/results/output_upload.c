// SPDX-License-Identifier: Apache-2.0
// Copies finished files of an active run to the bucket of its results.
#include "run/results/output_upload.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "run/monitor.h"
#include "run/results/output_published.h"
#include "run/results/results_upload.h"
#include "sys/file.h"

static void on_next(struct timer *t);

static void later(struct output_upload *u) {
    timer_start(u->follow->context->loop, &u->next, u->outputs->every_ms, on_next);
}

static const char *address_of(struct arena *a, const struct run *run) {
    return arena_printf(a, "%s/live", run->s3);
}

// Returns the number of files that changed or went meanwhile.
static int64_t note(const struct output_upload *u, const struct strbuf *text) {
    const struct follow *f = u->follow;
    struct arena a = {0};
    struct json *j;
    struct err ignored;
    int64_t changed = 0;
    if (json_parse(&a, strbuf_cstr(text), text->len, &j, &ignored) == 0) {
        changed = json_get_int(j, "changed", 0);
        monitor_note(f->context, f->run, "output-uploaded", "to", address_of(&a, f->run), "files",
                     arena_printf(&a, "%lld", (long long)json_get_int(j, "end", 0)), "bytes",
                     arena_printf(&a, "%lld", (long long)json_get_int(j, "sent", 0)), NULL);
    }
    arena_fini(&a);
    return changed;
}

// Failures in a row are shown for the first, second, fourth, eighth … time.
static void failed(struct output_upload *u, const struct err *e) {
    unsigned n = ++u->failures;
    if ((n & (n - 1)) == 0)
        log_warn("finished files are not in the bucket yet", "to='%s/live' tries=%u reason=\"%s\"",
                 u->follow->run->s3, n, e->text);
}

static void on_over(struct dtdata_beside *d, const struct strbuf *text, const struct err *e) {
    struct output_upload *u = container_of(d, struct output_upload, program);
    if (e->code) {
        failed(u, e);
        return;
    }
    u->failures = 0;
    u->since_ms = u->began_ms;
    u->sent = note(u, text) ? -1 : u->kept; // what has changed is sent at the next turn
}

static int begin(struct output_upload *u, struct err *e) {
    struct arena a = {0};
    struct follow *f = u->follow;
    const char *args[] = {"live", u->folder, address_of(&a, f->run),
                          arena_printf(&a, "%lld", (long long)u->since_ms), NULL};
    const struct dtdata_call call = {
        .args = args, .bytes_max = OUTPUT_UPLOAD_ANSWER_BYTES_MAX, .ms_max = OUTPUT_UPLOAD_MS_MAX};
    u->kept = u->outputs->kept;
    u->began_ms = clock_wall_ms();
    int result = dtdata_beside_start(&u->program, f->context, &call, on_over, e);
    arena_fini(&a);
    return result;
}

// The dtctl that fetches the files holds their lock.
static void on_next(struct timer *t) {
    struct output_upload *u = container_of(t, struct output_upload, next);
    struct err e = {0};
    later(u);
    if (dtdata_beside_runs(&u->program) || u->outputs->lock < 0 || u->sent == u->outputs->kept ||
        file_is_absent(u->folder))
        return;
    if (begin(u, &e) < 0)
        failed(u, &e);
}

void output_upload_open(struct output_upload *u, struct follow *f, const struct publish *outputs) {
    *u = (struct output_upload){.outputs = outputs, .sent = -1};
    if (!outputs->follow || !results_upload_is_wanted(f->run))
        return;
    u->follow = f;
    u->folder = output_published_path(f->context, f->run, NULL);
    later(u);
}

void output_upload_close(struct output_upload *u) {
    if (!u->follow)
        return;
    timer_stop(&u->next);
    dtdata_beside_stop(&u->program);
    u->follow = NULL;
}
