// SPDX-License-Identifier: Apache-2.0
// Follows a run on all its nodes: events, worker lines and metrics come in as they are written, and
// are kept on the operator's side. A connection that drops is made again, and goes on where it was.
//
//     struct follow f;
//     follow_open(&f, context, &fleet, &run, &view, ctx, e);
//     int over = follow_wait(&f, e);       // until the run is over everywhere, or f.leave is set
//     follow_close(&f);
//
// The fleet's nodes are in the order of the run's node ranks, and it may have failed to reach some:
// they are tried again. Everything is the caller's; files are written below runs/<run>/.
#ifndef RUN_FOLLOW_H
#define RUN_FOLLOW_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"
#include "run/log_mirror.h"
#include "run/metrics.h"
#include "run/run_history.h"

enum {
    FOLLOW_RETRY_MS_MIN = 200,
    FOLLOW_RETRY_MS_MAX = 5000,
    FOLLOW_LOST_MS_MAX = 15 * 1000,         // for a node, once the run is over elsewhere
    FOLLOW_GONE_MS_MAX = 2000,              // the same, for one that the others go on without
    FOLLOW_UNREACHABLE_MS_MAX = 600 * 1000, // for all nodes together
};

struct follow;

struct follow_node {
    struct follow *follow;
    struct fleet_node *node;
    size_t index;
    struct transport_run *run;
    struct strbuf in;
    struct strbuf from; // of the offsets, what is not sent yet
    struct mirror mirror;
    struct timer retry;
    int64_t retry_ms;
    int64_t lost_ms; // monotonic time since when it is out of reach; 0: it is not
    bool over;       // its end is known, or it was given up
    bool no_status;  // given up without a word about the end
    bool reviving;   // its agent has vanished and is being started again
    char state[FOLLOW_STATE_BYTES_MAX];
    int exit_status;
    struct err err; // why it is out of reach, or was given up
};

// What a person or a program gets to see; all may be NULL.
struct follow_view {
    void (*on_line)(void *ctx, const struct follow_node *n, const struct follow_file *file,
                    int rank, const char *line,
                    size_t len); // stdout and stderr; rank -1: not known
    // A line that is not over and takes the place of its last state, as a progress bar does.
    void (*on_update)(void *ctx, const struct follow_node *n, const struct follow_file *file,
                      int rank, const char *line, size_t len);
    void (*on_event)(void *ctx, const struct follow_node *n, const char *kind,
                     const struct json *event);
    void (*on_metric)(void *ctx, const struct follow_node *n, int rank, const char *name,
                      double value);
    void (*on_native)(void *ctx, const struct json *record); // a line of the trainer's metrics
    void (*on_lost)(void *ctx, const struct follow_node *n, const struct err *e);
    void (*on_back)(void *ctx, const struct follow_node *n);
    void (*on_over)(void *ctx, const struct follow_node *n); // its end is known, or it is given up
    void (*on_tick)(void *ctx);                              // several times a second
};

struct follow {
    struct context *context;
    struct fleet *fleet;
    struct run *run;
    const struct follow_view *view;
    void *ctx;
    struct story story;
    struct metric_set metrics;
    struct follow_node *nodes;
    size_t count;
    struct arena scratch; // of one line
    struct timer tick;
    bool until_now; // ask the nodes for what they have, and not for more
    bool goes_on;   // with until_now: lines that are not complete are left to who goes on
    bool replaying; // old events are only told to the story
    bool awaits;    // lost nodes may come back as other machines
    int held;       // transfers that follow_wait waits for
    bool leave;     // set by the view or a signal: stop following
    bool stopping;  // the agents were asked to stop
    // Asked about a node whose agent has vanished, or (is_new) that does not know the run; true:
    // follow_again or follow_stays_lost comes.
    bool (*revive)(void *ctx, struct follow_node *n, bool is_new); // NULL: nobody
    void *revive_ctx;
    int64_t over_ms, unreachable_ms; // monotonic; 0: not so
    const char *events_path, *metrics_path;
    struct err write_err; // first failure to write on this side
    struct err local_err; // what this side lacks to reach a node: no waiting helps
};

int follow_open(struct follow *f, struct context *s, struct fleet *fleet, struct run *run,
                const struct follow_view *view, void *ctx, struct err *e);
// 0 when the run is over on every node (see nodes[].no_status), ERR_INTERRUPTED when leave was set,
// ERR_NO_STATUS when no node could be reached for too long, ERR_LIMIT when this side has no free
// descriptors.
int follow_wait(struct follow *f, struct err *e);
void follow_close(struct follow *f);
void follow_again(struct follow_node *n);
void follow_stays_lost(struct follow_node *n);
// Another machine has taken the place of a node that is not connected, whatever became of the last
// one: it is followed now. A connection that is being made is dropped, as it was to that one.
void follow_replaced(struct follow_node *n);
// Asks the agents to stop the run on all nodes; returns at once.
void follow_stop_run(struct follow *f, const char *why);
// Gives every worker's file its name by rank: logs/<node>/<rank>.{out,err}.
int follow_name_logs(struct follow *f, struct err *e);
// The state of the whole run from what the nodes said; "" while it is not over.
const char *follow_state(const struct follow *f, int *exit_status);

// ---- between follow.c and follow_lines.c ----
// A mirror_line_cb; its context is a struct follow_node.
void follow_take_line(void *ctx, const struct mirror_file *file, const char *line, size_t len);
void follow_keep_error(struct follow *f, const struct err *e);
bool follow_is_final(const char *state);

#endif
