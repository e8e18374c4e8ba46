// SPDX-License-Identifier: Apache-2.0
// The folder in which the parts of split archives of one run lie while dtctl follows the run:
// .dtctl/<cluster>/parts/<run>, held by the lock <run>.lock beside it. The next dtctl that splits
// archives removes folders whose holder is gone.
#ifndef RUN_INPUT_PARTS_H
#define RUN_INPUT_PARTS_H

#include "cluster/cluster_folder.h"

struct input_parts {
    const char *dir; // NULL: none
    int lock_fd;
};

enum { INPUT_PARTS_WAIT_MS_MAX = 60 * 1000 }; // for another dtctl that removes folders

// Makes the folder unless it is there. Strings are in the cluster's arena.
int input_parts_open(struct input_parts *p, const struct cluster *c, const char *run,
                     struct err *e);
void input_parts_close(struct input_parts *p); // removes it; safe on a zeroed one

#endif
