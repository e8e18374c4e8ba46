// SPDX-License-Identifier: Apache-2.0
// Archives in the results folder of a run (outputs.archive): output.tar.zst with all files but
// state and model, and model.tar.zst with the model. Both have the paths of the folder, sorted, so
// unpacking them there gives the same files; equal files give equal bytes. A kind without files has
// no archive.
#ifndef RUN_RESULTS_ARCHIVE_H
#define RUN_RESULTS_ARCHIVE_H

#include "cluster/run_record.h"
#include "ui/context.h"

// Names in the results folder.
#define RESULTS_ARCHIVE_OUTPUT "output.tar.zst"
#define RESULTS_ARCHIVE_MODEL  "model.tar.zst"

enum { RESULTS_ARCHIVES = 2 };
const char *results_archive_name(int i); // i below RESULTS_ARCHIVES

enum { RESULTS_ARCHIVE_ZSTD_LEVEL = 3, RESULTS_ARCHIVE_READ_BYTES = 256 * 1024 };

// The results are here, and their archives are not.
bool results_archive_is_due(const struct run *run);
// Writes the archives of the kinds that are here. Sets run->archives and saves the record. The
// results folder has to be the run's. ERR_EXISTS: a file of the run has the name of an archive.
int results_archive(struct context *s, struct run *run, struct err *e);
// Removes the archives, before files of another run come into the folder.
int results_archive_remove(const char *dir, struct err *e);

#endif
