// SPDX-License-Identifier: Apache-2.0
// dtctl path: prints the folder with the results of a run, for scripts.
#include "command.h"

#include "run/input_run.h"
#include "run/results_owner.h"

static void tell(struct context *s, const struct run *r, bool here) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "path");
    json_str(&j, "run", r->id);
    json_str(&j, "name", r->name);
    json_str(&j, "state", r->state);
    json_str(&j, "path", r->output_dir);
    json_bool(&j, "here", here);
    json_array(&j, "lost");
    for (size_t i = 0; i < r->lost_count; i++)
        json_str(&j, NULL, r->lost[i]);
    json_end(&j);
    screen_event_end(s->screen, &text, &j);
    if (here)
        screen_out(s->screen, "%s\n", r->output_dir);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)flags;
    struct run r;
    if (input_run_named(s, rest->count ? rest->args[0] : "", &r, e) < 0)
        return -1;
    bool here = results_owner_is_here(s->arena, &r);
    tell(s, &r, here);
    if (here)
        return 0;
    if (!run_is_over(&r))
        return err_set(e, ERR_BUSY,
                       "run '%s' is not over, as far as this side knows (try: dtctl logs -f %s, "
                       "which brings its results)",
                       r.id, r.id);
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
             .text = "Prints the absolute path of the folder with the results of a run, by default "
                     "the newest. RUN may also be a task, whose newest run that has not failed is "
                     "meant, or "
                     "TASK@RUN. Below that "
                     "folder are output files, model/ and state/. When the results are not here, "
                     "path prints only an error that says what to do. It asks no node.",
             .examples = "cd \"$(dtctl path train)\"   # the newest run of task train\n"
                         "cp \"$(dtctl path)/model/model.safetensors\" .   # the newest run\n"},
    .args_max = 1,
    .run = run,
};
