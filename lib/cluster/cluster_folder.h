// SPDX-License-Identifier: Apache-2.0
// The operator's folder of one cluster, `.dtctl/<cluster>/`: paths, lock, inventory, list of runs.
//
//     struct cluster c;
//     cluster_open(&c, &arena, ".", "demo", e); // sets names; creates nothing
//     cluster_lock(&c, "up", CLUSTER_LOCK_WAIT_MS_MAX, e);
//     cluster_save(&c, &inventory, e);
//     cluster_close(&c);
//
// Writes are atomic. A second program on one cluster waits; on timeout ERR_BUSY names the holder.
#ifndef CLUSTER_CLUSTER_FOLDER_H
#define CLUSTER_CLUSTER_FOLDER_H

#include "base/arena.h"
#include "base/err.h"
#include "cluster/inventory.h"

#include <stdbool.h>

enum {
    CLUSTER_LOCK_WAIT_MS_MAX = 30 * 1000,
    CLUSTER_RUNS_MAX = 100 * 1000,
    CLUSTER_RUN_NAME_BYTES_MAX = 128,
};

struct cluster {
    struct arena *arena;
    const char *name;
    const char *base;           // absolute folder that contains .dtctl
    const char *dir;            // <base>/.dtctl/<name>
    const char *inventory_path; // <dir>/cluster.toml
    const char *known_hosts_path, *key_path, *runs_dir, *nodes_dir, *lock_path;
    const char *reached_path; // nodes of the last successful check (fleet/network_check.c)
    int lock_fd;              // -1 while not locked
    bool made;                // created by this program
};

int cluster_open(struct cluster *c, struct arena *a, const char *base, const char *name,
                 struct err *e);
void cluster_close(struct cluster *c);                // releases the lock
int cluster_create(struct cluster *c, struct err *e); // creates the folder, mode 0700
// Removes the folder if this program created it and it contains only a lock and an owner file, but
// no run. The lock must be held.
void cluster_discard(struct cluster *c);
// wait_ms 0: one attempt. While waiting, one log line names the holder.
int cluster_lock(struct cluster *c, const char *purpose, int wait_ms, struct err *e);
void cluster_unlock(struct cluster *c);

bool cluster_exists(const struct cluster *c);
// ERR_NOT_FOUND, with the next step, when the cluster is not up.
int cluster_load(const struct cluster *c, struct inventory *out, struct err *e);
int cluster_save(const struct cluster *c, const struct inventory *inv, struct err *e);
int cluster_forget(const struct cluster *c,
                   struct err *e); // removes the inventory; does not touch nodes

// Names of all clusters below base/.dtctl, sorted; NULL-terminated.
int cluster_list(struct arena *a, const char *base, char ***names, struct err *e);

// Runs, newest first (names contain the time); NULL-terminated.
int cluster_runs(const struct cluster *c, char ***runs, size_t *count, struct err *e);
char *cluster_run_dir(const struct cluster *c, const char *run);
// Finds a run by full name, by the name of its task (the newest run of the task) or by a unique
// prefix; the newest one for text NULL or "".
int cluster_find_run(const struct cluster *c, const char *text, const char **run, struct err *e);
// True for a run of the task: its name is <task>-<stamp>-<rand>.
bool cluster_run_is_of(const char *run, const char *task);
// The number of runs of the task; 0 if `run` is not one of them, or if the runs cannot be listed.
size_t cluster_task_runs(const struct cluster *c, const char *run, const char *task);
// The creation time in a run's name <task>-<YYYYmmdd>T<HHMMSS>Z-<rand>; NULL if it has none.
const char *cluster_run_stamp(const char *run);

#endif
