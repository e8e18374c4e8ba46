// SPDX-License-Identifier: Apache-2.0
// A run of one node that can be saved; tests change what they are about.
#ifndef TESTS_UNIT_RUN_PLAIN_RUN_H
#define TESTS_UNIT_RUN_PLAIN_RUN_H

#include "cluster/run_record.h"

static inline struct run plain_run(const char *id) {
    static const char *names[] = {"n0"};
    static const char *words[] = {"train", NULL};
    return (struct run){.id = id,
                        .name = "task",
                        .cluster = "c",
                        .provider = "local",
                        .state = "ended",
                        .nproc = "1",
                        .nodes = names,
                        .node_count = 1,
                        .nodes_min = 1,
                        .nodes_max = 1,
                        .command = words,
                        .command_count = 1,
                        .version = "",
                        .types = "",
                        .key = "",
                        .resumes = "",
                        .s3 = "",
                        .output_dir = "/x"};
}

#endif
