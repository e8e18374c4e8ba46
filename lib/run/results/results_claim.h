// SPDX-License-Identifier: Apache-2.0
// Prepares the results folder for the results of a run.
#ifndef RUN_RESULTS_CLAIM_H
#define RUN_RESULTS_CLAIM_H

#include "cluster/run_record.h"
#include "ui/context.h"

// Marks the results folder as the run's (results_owner.h). If another run owns the folder, or it
// has files without an owner, this run gets a folder of its own in it: run->output_dir changes.
// Removes outdated results there: of the run that this one resumes, or of an earlier fetch.
int results_claim(struct context *s, struct run *run, struct err *e);

#endif
