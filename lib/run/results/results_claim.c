// SPDX-License-Identifier: Apache-2.0
// Prepares the results folder for the results of a run.
#include "run/results/results_claim.h"

#include "run/results/results_archive.h"
#include "run/results/results_owner.h"
#include "run/run_start.h"
#include "sys/file.h"

// A run may continue in the results folder of the run that it resumed. It replaces the trainer's
// files, which always belong to one run.
static int take_over(struct context *s, const struct run *run, struct err *e) {
    static const char *const set[] = {"model", "state", "summary.json", "metrics.jsonl"};
    for (size_t i = 0; run->native && i < sizeof set / sizeof set[0]; i++)
        if (file_remove_tree(file_join(s->arena, run->output_dir, set[i]), e) < 0)
            return -1;
    return 0;
}

// Removes the archives that this run, or the one that it resumed, has in the folder. They would be
// old, and a file of the run may have the name of one.
static int drop_archives(struct context *s, struct run *run, const char *owner, struct err *e) {
    struct run earlier = {0};
    struct err unreadable = {0};
    if (str_eq(owner, run->resumes) && run_load(&s->cluster, owner, &earlier, &unreadable) < 0)
        return 0;
    bool ours = str_eq(owner, run->id) && run->archives != RUN_ARCHIVES_NONE;
    if (!ours && earlier.archives == RUN_ARCHIVES_NONE)
        return 0;
    if (results_archive_remove(run->output_dir, e) < 0)
        return -1;
    run->archives = RUN_ARCHIVES_NONE;
    return run_save(&s->cluster, run, e);
}

int results_claim(struct context *s, struct run *run, struct err *e) {
    const char *owner = results_owner_of(s->arena, run->output_dir);
    if (owner[0] && drop_archives(s, run, owner, e) < 0)
        return -1;
    if (owner[0] && str_eq(owner, run->resumes) && take_over(s, run, e) < 0)
        return -1;
    bool foreign = !owner[0] && results_owner_is_foreign(run->output_dir);
    if (foreign || (owner[0] && !str_eq(owner, run->id) && !str_eq(owner, run->resumes))) {
        const char *what = foreign ? "files that are no results"
                                   : arena_printf(s->arena, "the results of run %s by now", owner);
        const char *near = run_near_path(s->arena, run->output_dir);
        screen_note(s->screen, "'%s' holds %s; those of %s go to %s/%s", near, what, run->id, near,
                    run->id);
        run->output_dir = file_join(s->arena, run->output_dir, run->id);
    }
    return results_owner_set(run->output_dir, run->id, e);
}
