// SPDX-License-Identifier: Apache-2.0
// Uploads results by dtdata.
#include "run/results/results_upload.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "run/dtdata.h"
#include "run/monitor.h"
#include "run/results/results_owner.h"
#include "ui/progress.h"

#include <stdlib.h>
#include <string.h>

int results_upload_check(struct context *s, struct err *e) {
    const char *args[] = {"check", s->config->output_s3, NULL};
    char *text = NULL;
    if (!s->config->output_s3[0])
        return 0;
    const struct dtdata_call call = {.args = args,
                                     .bytes_max = RESULTS_UPLOAD_ANSWER_BYTES_MAX,
                                     .ms_max = RESULTS_UPLOAD_CHECK_MS_MAX};
    int result = dtdata_run(s, &call, &text, e);
    free(text);
    return result < 0 ? err_wrap(e, "%s: results cannot be written to '%s'",
                                 config_where(s->config, "outputs.s3"), s->config->output_s3)
                      : 0;
}

const char *results_upload_uri(const struct context *s, const struct run *run) {
    const char *base = s->config->output_s3;
    size_t len = strlen(base);
    while (len && base[len - 1] == '/')
        len--;
    return len ? arena_printf(s->arena, "%.*s/%s/runs/%s", (int)len, base, run->name, run->id) : "";
}

bool results_upload_is_wanted(const struct run *run) {
    return run->s3 && run->s3[0];
}

bool results_upload_is_due(const struct run *run) {
    return results_upload_is_wanted(run) && run->fetched && !run->uploaded;
}

static void show_result(struct context *s, const struct run *run, const struct json *j) {
    char size[STR_HUMAN_BYTES_MAX];
    int64_t links = json_get_int(j, "links", 0);
    int64_t files = json_get_int(j, "end", 0), stay = json_get_int(j, "stay", 0);
    int64_t there = json_get_int(j, "there", 0) + json_get_int(j, "copied", 0);
    screen_note(s->screen, "uploaded %lld file%s to %s (%s sent, %lld of them were there)",
                (long long)files, str_plural(files), run->s3,
                str_human_bytes(size, (uint64_t)json_get_int(j, "sent", 0)), (long long)there);
    if (stay)
        screen_note(s->screen,
                    "%lld object%s of %s/live could not be removed; their files are among the "
                    "results (try: remove them with a key that may delete objects)",
                    (long long)stay, str_plural(stay), run->s3);
    if (links)
        screen_note(s->screen,
                    "%lld symbolic link%s of the results %s only here: a bucket has no links",
                    (long long)links, str_plural(links), links == 1 ? "is" : "are");
}

static const char *bucket_of(struct arena *a, const char *uri) {
    const char *name = strncmp(uri, "s3://", 5) == 0 ? uri + 5 : uri;
    return arena_strndup(a, name, strcspn(name, "/"));
}

static void show(void *ctx, uint64_t done, uint64_t total) {
    struct progress *p = ctx;
    progress_set(p, 0, done, total);
    progress_show(p, clock_mono_ms());
}

// j: the program's last line; NULL: the upload has failed.
static void end_progress(struct context *s, struct progress *p, const struct json *j) {
    char size[STR_HUMAN_BYTES_MAX], time[STR_HUMAN_BYTES_MAX];
    int64_t now = clock_mono_ms();
    const char *state =
        j ? arena_printf(s->arena, "%s in %s",
                         str_human_bytes(size, (uint64_t)json_get_int(j, "sent", 0)),
                         str_human_ms(time, now - p->started_ms))
          : "not all of it is there";
    progress_end(p, 0, j != NULL, state);
    progress_show(p, now);
    progress_fini(p, now);
}

int results_upload(struct context *s, struct run *run, struct err *e) {
    const char *kinds = result_kinds_list(s->arena, (RESULT_OUTPUT | RESULT_MODEL) & ~run->left);
    const char *args[] = {"results", run->output_dir, run_path(&s->cluster, run, "logs"),
                          run->s3,   kinds,           NULL};
    struct json *j;
    struct progress progress;
    const struct dtdata_call call = {.args = args,
                                     .bytes_max = RESULTS_UPLOAD_ANSWER_BYTES_MAX,
                                     .on_progress = show,
                                     .ctx = &progress};
    char *text = NULL;
    if (!str_eq(results_owner_of(s->arena, run->output_dir), run->id))
        return err_set(e, ERR_NOT_FOUND, "'%s' does not hold the results of run '%s'",
                       run_near_path(s->arena, run->output_dir), run->id);
    const char *bucket = bucket_of(s->arena, run->s3);
    progress_init(&progress, s->arena, s->screen, "upload", &bucket, 1, clock_mono_ms());
    int result = dtdata_run(s, &call, &text, e);
    if (result == 0)
        result = json_parse(s->arena, text, strlen(text), &j, e);
    free(text);
    end_progress(s, &progress, result == 0 ? j : NULL);
    if (result == 0) {
        run->uploaded = true;
        show_result(s, run, j);
    }
    monitor_note(s, run, "uploaded", "to", run->s3, "complete", result == 0 ? "yes" : "no", NULL);
    if (result == 0)
        return run_save(&s->cluster, run, e);
    return err_wrap(e, "results of run '%s' are here and not in %s (try: dtctl fetch %s)", run->id,
                    run->s3, run->id);
}
