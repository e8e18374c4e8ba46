// SPDX-License-Identifier: Apache-2.0
// Follows a run on all its nodes. Events, worker lines and metrics arrive as they are written and
// are kept on the operator's side. A dropped connection is made again and continues at the same
// offset.
//
//     struct follow f;
//     follow_open(&f, context, &fleet, &run, &view, ctx, e);
//     int over = follow_wait(&f, e);       // until the run is over everywhere, or f.leave is set
//     follow_close(&f);
//
// The fleet's nodes are in the order of the run's node ranks. Nodes that the fleet failed to reach
// are tried again. The caller owns everything; files are written below runs/<run>/.
#ifndef FOLLOW_FOLLOW_H
#define FOLLOW_FOLLOW_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"
#include "follow/line_times.h"
#include "follow/log_mirror.h"
#include "follow/log_since.h"
#include "follow/metrics.h"
#include "follow/run_history.h"

enum {
    FOLLOW_RETRY_MS_MIN = 200,
    FOLLOW_RETRY_MS_MAX = 5000,
    FOLLOW_LOST_MS_MAX = 15 * 1000,         // for a node, after the run is over elsewhere
    FOLLOW_GONE_MS_MAX = 2000,              // the same, for a node that the others continue without
    FOLLOW_UNREACHABLE_MS_MAX = 600 * 1000, // for all nodes together
};

struct follow;

struct follow_node {
    struct follow *follow;
    struct fleet_node *node;
    size_t index;
    struct transport_run *run;
    struct strbuf in;
    struct strbuf from; // offsets that are not sent yet
    struct mirror mirror;
    struct line_times times;
    struct timer retry;
    int64_t retry_ms;
    int64_t lost_ms; // monotonic time when the node became unreachable; 0: reachable
    bool over;       // its end is known, or it was given up
    bool no_status;  // given up without a final state
    bool restarting; // its agent has vanished and is being restarted
    bool all_files;  // with events_only: its logs come, too, since its end is announced
    char state[FOLLOW_STATE_BYTES_MAX];
    int exit_status;
    struct err err; // why it is unreachable, or was given up
};

struct follow_line { // of a worker's stdout or stderr
    const struct follow_node *node;
    const struct follow_file *file;
    int rank;           // -1: not known
    int64_t written_ms; // wall clock of the node; 0: not known
    const char *text;
    size_t len;
};

// Callbacks for output to a person or a program. Each may be NULL.
struct follow_view {
    void (*on_line)(void *ctx, const struct follow_line *line);
    // The newest state of an unfinished line that is drawn again and again, as a progress bar is.
    void (*on_update)(void *ctx, const struct follow_line *line);
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
    struct run_history history;
    struct metric_set metrics;
    struct log_since since; // lines of before are not shown
    struct follow_node *nodes;
    size_t count;
    struct mirror_open_files open_files; // of all mirrors
    struct arena scratch;                // for one line
    struct timer tick;
    bool timed;       // the lines of workers have their times; always with metrics
    bool until_now;   // ask the nodes for existing data only
    bool events_only; // what the ranks print stays on the nodes, unless a node is about to end
    bool goes_on;     // with until_now: incomplete lines are left for the next follow
    bool replaying;   // replay of old events: only the history receives them
    bool awaits;      // lost nodes may come back as other machines
    int held;         // transfers that follow_wait waits for
    bool leave;       // set by the view or a signal: stop following
    bool stopping;    // the agents were asked to stop
    // Called for a node whose agent has vanished, or (is_new) that does not know the run. True: the
    // callee will call follow_again or follow_stays_lost.
    bool (*restart)(void *ctx, struct follow_node *n, bool is_new); // NULL: lost nodes stay lost
    void *restart_ctx;
    int64_t over_ms, unreachable_ms; // monotonic; 0: not yet
    const char *events_path, *metrics_path;
    struct err write_err; // first failure to write on this side
    struct err local_err; // a local failure to reach nodes; waiting does not help
};

int follow_open(struct follow *f, struct context *s, struct fleet *fleet, struct run *run,
                const struct follow_view *view, void *ctx, struct err *e);
// Returns 0 when the run is over on every node (see nodes[].no_status). Errors: ERR_INTERRUPTED
// when leave was set, ERR_NO_STATUS when no node could be reached for too long, ERR_LIMIT when this
// side has no free descriptors.
int follow_wait(struct follow *f, struct err *e);
void follow_close(struct follow *f);
void follow_again(struct follow_node *n);
void follow_stays_lost(struct follow_node *n);
// A replacement machine takes the place of a node that is not connected. It is followed from now
// on, whatever the state of the old machine. A connection attempt to the old machine is dropped.
void follow_replaced(struct follow_node *n);
// Asks the agents to stop the run on all nodes; returns at once.
void follow_stop_run(struct follow *f, const char *why);
// Links every worker's log under its rank: logs/<node>/<rank>.{out,err}.
int follow_name_logs(struct follow *f, struct err *e);
// The state of the whole run, derived from the nodes' states; "" while it is not over.
const char *follow_state(const struct follow *f, int *exit_status);

// ---- between follow.c and follow_dispatch.c ----
// A mirror_line_cb; its context is a struct follow_node.
void follow_take_line(void *ctx, const struct mirror_file *file, const char *line, size_t len);
// A line of a worker's log, each once and in order. is_new: it has just come from the node, so it
// is of now where the node recorded no time.
struct follow_line follow_line_of(struct follow_node *n, const struct mirror_file *file,
                                  const char *text, size_t len, bool is_new);
void follow_keep_error(struct follow *f, const struct err *e);
bool follow_is_final(const char *state);

#endif
