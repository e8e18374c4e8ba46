// SPDX-License-Identifier: Apache-2.0
// dtctl path: prints the folder with the results of a run, for scripts.
#include "command.h"

#include "run/inputs/input_from_run.h"
#include "run/results/output_published.h"
#include "run/results/results_owner.h"
#include "sys/file.h"

struct path_flags {
    bool s3, live;
};

static const struct option_row ROWS[] = {
    {.flag = "s3",
     .verbs = "path",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct path_flags, s3),
     .marks = OPTION_NO_ENV,
     .help = "Print the s3:// address to which the results were uploaded (outputs.s3)."},
    {.flag = "live",
     .verbs = "path",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct path_flags, live),
     .marks = OPTION_NO_ENV,
     .help = "Print the folder with what has come of an active run (outputs.every): "
             "NODE/output and NODE/model."},
};
static const struct option_table TABLE = {"Path", ROWS, sizeof ROWS / sizeof ROWS[0]};

// All that there is of the results stayed on the nodes, or is lost.
static bool is_elsewhere(const struct run *r) {
    return (r->left || r->lost_count) && !results_owner_has_files(r->output_dir);
}

// Why nothing of the results is here.
static int refuse(struct context *s, const struct run *r, struct err *e) {
    if (r->left)
        return err_set(e, ERR_NOT_FOUND,
                       "the results of run '%s' are not here: %s on the nodes only "
                       "(try: dtctl fetch %s)",
                       r->id, result_kinds_words(s->arena, r->left), r->id);
    return err_set(e, ERR_NOT_FOUND, "the results of run '%s' are lost: no node has them any more",
                   r->id);
}

static void show(struct context *s, const struct run *r, bool here) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "path");
    json_str(&j, "run", r->id);
    json_str(&j, "name", r->name);
    json_str(&j, "state", r->state);
    json_str(&j, "path", r->output_dir);
    json_bool(&j, "here", here);
    if (r->s3[0]) {
        json_str(&j, "s3", r->s3);
        json_bool(&j, "uploaded", r->uploaded);
    }
    const char *left[RESULT_KINDS];
    size_t left_count = result_kinds_names(r->left, left);
    json_array(&j, "left");
    for (size_t i = 0; i < left_count; i++)
        json_str(&j, NULL, left[i]);
    json_end(&j);
    json_array(&j, "lost");
    for (size_t i = 0; i < r->lost_count; i++)
        json_str(&j, NULL, r->lost[i]);
    json_end(&j);
    screen_event_end(s->screen, &text, &j);
}

static int print_s3(struct context *s, const struct run *r, struct err *e) {
    if (!r->s3[0])
        return err_set(e, ERR_NOT_FOUND, "run '%s' was started without outputs.s3", r->id);
    if (!r->uploaded)
        return err_set(e, ERR_NOT_FOUND,
                       "the results of run '%s' are not in %s (try: dtctl fetch %s)", r->id, r->s3,
                       r->id);
    screen_out(s->screen, "%s\n", r->s3);
    return 0;
}

static int print_live(struct context *s, const struct run *r, struct err *e) {
    const char *live = output_published_path(s, r, NULL);
    if (!r->output_every_ms)
        return err_set(e, ERR_NOT_FOUND, "run '%s' was started without outputs.every", r->id);
    if (run_is_over(r) && r->fetched)
        return err_set(e, ERR_NOT_FOUND, "run '%s' is over, and its results are in %s", r->id,
                       r->output_dir);
    if (file_is_absent(live))
        return err_set(e, ERR_NOT_FOUND,
                       "nothing of run '%s' has come yet (try: dtctl logs -f %s, which fetches it)",
                       r->id, r->id);
    screen_out(s->screen, "%s\n", live);
    return 0;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct path_flags *f = flags;
    struct run r;
    if (f->live && f->s3)
        return err_set(e, ERR_USAGE, "path takes --live or --s3, not both");
    const char *text = rest->count ? rest->args[0] : "";
    if (input_from_run_named(s, text, &r, e) < 0)
        return -1;
    if (run_is_over(&r) && !str_eq(r.state, "finished") && !str_eq(text, r.id))
        screen_note(s->screen, "run '%s' is '%s', not finished", r.id, r.state);
    bool owner = results_owner_is_here(s->arena, &r), elsewhere = is_elsewhere(&r);
    bool here = owner && !elsewhere;
    show(s, &r, here);
    if (f->live)
        return print_live(s, &r, e);
    if (f->s3)
        return print_s3(s, &r, e);
    if (here) {
        screen_out(s->screen, "%s\n", r.output_dir);
        return 0;
    }
    if (!run_is_over(&r))
        return err_set(e, ERR_BUSY,
                       "run '%s' is not over, as far as this side knows (try: dtctl logs -f %s, "
                       "which brings its results)",
                       r.id, r.id);
    if (r.fetched && elsewhere)
        return refuse(s, &r, e);
    if (r.fetched)
        return err_set(e, ERR_NOT_FOUND, "'%s' does not hold the results of run '%s' any more",
                       run_near_path(s->arena, r.output_dir), r.id);
    return err_set(e, ERR_NOT_FOUND, "the results of run '%s' are not here (try: dtctl fetch %s)",
                   r.id, r.id);
}

const struct command cmd_path = {
    .verb = {.name = "path",
             .summary = "print the folder with a run's results",
             .args = "[RUN]",
             .text =
                 "Prints the absolute path of the folder with the results of a run, by default "
                 "the newest. RUN may also be TASK@RUN, or a task, whose newest run is meant; a "
                 "line on standard error says how it ended when it has not finished. Below "
                 "that folder are output files, model/ and state/. When the results are not here, "
                 "path prints only an error that says what to do. It asks no node.",
             .examples = "cd \"$(dtctl path train)\"   # the newest run of task train\n"
                         "cp \"$(dtctl path)/model/model.safetensors\" .   # the newest run\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct path_flags),
    .args_max = 1,
    .run = run,
};
