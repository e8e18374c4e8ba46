// SPDX-License-Identifier: Apache-2.0
// What `mpirun` says to a process that it started: Open MPI (OMPI_*), and everything that speaks
// PMI with MPICH's variables (PMI_*, MPI_LOCAL*: MPICH, Intel MPI, MVAPICH). Pure: environment in,
// facts out; all memory is in the arena.
#ifndef LAUNCH_MPI_H
#define LAUNCH_MPI_H

#include "base/arena.h"
#include "base/err.h"

enum { MPI_RANKS_MAX = 1 << 20 };

struct mpi_place {
    const char *run;    // name of the run, the same for all its processes; "" when not told
    const char *leader; // address of the host where mpirun is, "" when not told
    int rank, size;     // of processes
    int local, tasks;   // which on this node, and how many there
    int nodes;          // size / tasks
};

// 1: started by mpirun; 0: not; -1: e. Every node must have as many processes.
int mpi_read(struct arena *a, char *const *env, struct mpi_place *out, struct err *e);
// The first address that is not the loopback in "<name>;tcp://A,B:PORT;…" (Open MPI's URI), or "".
const char *mpi_uri_address(struct arena *a, const char *uri);

#endif
