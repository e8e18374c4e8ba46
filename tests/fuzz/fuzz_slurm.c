// SPDX-License-Identifier: Apache-2.0
// Slurm's and mpirun's texts: any bytes are refused with words or give names that are safe to use.
#include "base/arena.h"
#include "base/hostlist.h"
#include "launch/mpi.h"
#include "launch/slurm.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    struct err e = {0};
    char **names;
    size_t count;
    int tasks = 0;
    char *text = arena_strndup(&a, (const char *)data, size);
    if (slurm_nodelist(&a, text, &names, &count, &e) < 0) {
        must(e.code != ERR_NONE && e.text[0]);
    } else {
        must(count >= 1 && count <= SLURM_NODES_MAX);
        for (size_t i = 0; i < count; i++)
            must(names[i][0] && names[i][0] != '-' && strlen(names[i]) <= HOSTLIST_NAME_BYTES_MAX &&
                 !strpbrk(names[i], " ,;$`'\"/\n[]"));
    }
    for (int node = 0; node < 3; node++)
        must(slurm_tasks_of(text, node, &tasks, &e) < 0 ||
             (tasks >= 1 && tasks <= SLURM_TASKS_MAX));
    must(!strpbrk(mpi_uri_address(&a, text), ",;/ "));
    must(!strpbrk(mpi_namespace_host(&a, text), ",;/ @:"));
    arena_fini(&a);
    return 0;
}
