// SPDX-License-Identifier: Apache-2.0
// The history of a run, assembled from the agents' events (protocol/node_protocol.h): rounds, place
// and end of each rank, first failure. Pure: events in, facts out; input is not trusted. Texts in
// the history and in the events it returns are safe to print on a terminal. All memory is in the
// arena.
#ifndef FOLLOW_RUN_HISTORY_H
#define FOLLOW_RUN_HISTORY_H

#include "base/arena.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HISTORY_RANKS_MAX = 65536,
    HISTORY_FAILURES_MAX = 64,
    HISTORY_ROUNDS_MAX = 1024, // kept individually; later ones are only counted
    HISTORY_TAIL_BYTES_MAX = 16 * 1024,
    HISTORY_LOCAL_MAX = 1024,     // ranks of one node
    HISTORY_ATTEMPTS_MAX = 65536, // attempts of one node
};

struct history_rank {
    int rank, local_rank;
    int pid;
    bool started, ended;
    int status;         // shell's convention, after its end
    const char *signal; // NULL: none
    const char *reason; // why it was stopped; NULL: it ended by itself
    int64_t ms;
};

// Log folders are named by attempt. An attempt maps to the ranks that it had on this node.
struct history_attempt {
    int attempt, first_rank, rank_count;
    struct history_attempt *next;
};

struct history_node {
    const char *name;
    struct history_attempt *attempts; // newest first
    int attempt_count;
    int round; // -1: no round yet
    int first_rank, rank_count, world_size;
    struct history_rank *ranks; // of the latest round, by local rank
    int rank_room;
    bool joined, left, lost;
    bool announced;          // its preemption was announced
    const char *gone_why;    // why it left or was lost; NULL: present, or not reported
    int64_t gone_ms;         // wall clock of that report
    int64_t here_ms;         // wall clock of the last report that it is present
    const char *state, *why; // of its own "finished", "failed" or "stopped" event; NULL: none yet
    int64_t ended_ms;
};

// A round, as the first node reported it.
struct history_round {
    int round, restarts, nodes, world_size;
    const char *reason; // why the round before ended; "" for the first
    int64_t time_ms;    // wall clock
    struct history_round *next;
};

struct history_failure {
    const char *node;
    int round, rank, local_rank, pid, status;
    const char *signal, *message, *tail, *evidence;
    int64_t failed_ms; // wall clock
    bool root;
    const char *reporter; // the node that reported it first
    int64_t seq;          // of that report
};

struct run_history {
    struct arena *arena;
    struct history_node *nodes;
    size_t node_count;
    int round, restarts, world_size, nodes_in_round;
    struct history_round *rounds, *last_round; // oldest first
    int round_count;
    const char *coordinator;
    const char *waiting; // names of missing nodes while nodes join; NULL: none
    struct history_failure failures[HISTORY_FAILURES_MAX];
    size_t failure_count;
    int64_t first_started_ms; // wall clock of the first start of workers; 0: not yet
};

void run_history_init(struct run_history *s, struct arena *a, const char *const *nodes,
                      size_t count);
// Takes one line of a node's events.jsonl. Returns its kind, or NULL when the line is no event.
// *event is valid until the given scratch arena is reset.
const char *run_history_add(struct run_history *s, struct arena *scratch, size_t node,
                            const char *line, size_t len, const struct json **event);
// The rank of log folder attempt_N/<local rank>; -1 when unknown.
int run_history_rank_of(const struct run_history *s, size_t node, int attempt, int local_rank);
const struct history_failure *run_history_root(const struct run_history *s); // NULL: nothing failed
// True when the same event has been reported already, by another node or by this one.
bool run_history_is_known(const struct run_history *s, size_t node, const struct json *event);
// Number of ranks of the latest round that have started, and that have ended.
void run_history_count(const struct run_history *s, int *started, int *ended);

#endif
