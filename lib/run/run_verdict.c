// SPDX-License-Identifier: Apache-2.0
// The exit status, from the state of the run and of its results.
#include "run/run_verdict.h"

#include "run/results/results_archive.h"
#include "run/results/results_upload.h"

#include <string.h>

int run_verdict(const struct follow *f, bool exit_code) {
    const struct run *run = f->run;
    const struct history_failure *root = run_history_root(&f->history);
    bool finished = strcmp(run->state, "finished") == 0;
    if (exit_code && root && !finished)
        return root->status ? root->status : 1;
    if (strcmp(run->state, "lost") == 0)
        return err_status(ERR_NO_STATUS);
    if (!finished)
        return err_status(ERR_FAILED);
    if (!run->fetched)
        return err_status(ERR_SOME_FAILED);
    if (results_archive_is_due(run) || results_upload_is_due(run))
        return err_status(ERR_FAILED);
    return run->lost_count ? err_status(ERR_NO_STATUS) : 0;
}
