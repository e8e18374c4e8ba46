// SPDX-License-Identifier: Apache-2.0
// Parses the environment of a process started by `mpirun`: Open MPI (OMPI_*), and launchers with
// PMI and MPICH's variables (PMI_*, MPI_LOCAL*: MPICH, Intel MPI, MVAPICH). Pure; all memory is in
// the arena.
#ifndef LAUNCH_MPI_H
#define LAUNCH_MPI_H

#include "base/arena.h"
#include "base/err.h"

enum { MPI_RANKS_MAX = 1 << 20 };

struct mpi_place {
    const char *run;    // name of the run, the same for all its processes; "" when missing
    const char *leader; // name or address of the host of mpirun, "" when missing
    int rank, size;     // of processes
    int local, tasks;   // index on this node, and number of processes there
    int nodes;          // size / tasks
};

// 1: started by mpirun; 0: not; -1: error. Every node must have the same number of processes. With
// all processes on one node, `leader` is never empty: loopback stands in.
int mpi_read(struct arena *a, char *const *env, struct mpi_place *out, struct err *e);
// The first address except loopback in "<name>;tcp://A,B:PORT;…" (Open MPI's URI), or "".
const char *mpi_uri_address(struct arena *a, const char *uri);
// The host of mpirun in "prterun-HOST-PID@JOB" (PMIX_NAMESPACE of Open MPI 5, which PRRTE makes of
// its own host name), or "".
const char *mpi_namespace_host(struct arena *a, const char *name);

#endif
