// SPDX-License-Identifier: Apache-2.0
// The part of the results that one node has sent. Each kind arrives in a folder of its own, so that
// names in one kind never meet those of another, or the unfinished files of a transfer:
//
//     PART/output/…  PART/model/…  PART/state/…  PART/gathered/work/…
//     PART/whole/…   all of them as they lie in the results folder; made by results_kinds_join
//
// The results folder has names of dtctl's own: model, state, work and the owner's mark. A file or
// folder of the output with such a name, or with one that underscores follow, gets one underscore
// more. Its place therefore depends on no other file, and no two names become one.
#ifndef RUN_RESULTS_KINDS_H
#define RUN_RESULTS_KINDS_H

#include "base/arena.h"
#include "base/err.h"

// Beside kinds: the list of files of output and model (content/finished_files.h), as PART/list.
enum { RESULTS_KINDS_LIST = 32 };

// The paths to fetch of these kinds (enum result_kind, RESULT_WORK) below the run's folder on a
// node, NULL-terminated.
const char **results_kinds_paths(struct arena *a, const char *run, unsigned kinds);

// Moves these kinds into PART/whole and returns that folder; NULL for an error. May be called again
// after an interruption. fresh: all files of the kinds have come in this fetch, and what an earlier
// one left in PART/whole is removed. *renamed: the first entry of the output that gets another
// name; NULL: none.
const char *results_kinds_join(struct arena *a, const char *part, unsigned kinds, bool fresh,
                               const char **renamed, struct err *e);

#endif
