// SPDX-License-Identifier: Apache-2.0
// The verbs of `dtrun --node`, and what they have in common: arguments, records, answers, run
// folders (node_protocol.h).
#ifndef NODE_NODE_VERB_H
#define NODE_NODE_VERB_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "protocol/node_protocol.h"

#include <stdbool.h>

enum { NODE_STOP_MARGIN_MS = 25000, NODE_OWNER_BYTES_MAX = 64, NODE_OWNER_TEXT_BYTES_MAX = 1024 };

struct node_call {
    int argc;
    char **argv;      // argv[0] is the verb
    char *const *env; // of the program
};
// A verb of `dtrun --node`: prints as node_protocol.h says and returns the exit status.
typedef int node_verb(const struct node_call *c);
node_verb node_hello; // one line of JSON (agent_bootstrap.h names the fields), --stay: more verbs
node_verb node_push, node_fetch, node_prune;
node_verb node_probe, node_start, node_follow, node_status, node_stop;
node_verb node_own, node_fetched, node_clean, node_left;

struct node_args {    // what the verbs take; absent ones are NULL
    const char *root; // absolute
    const char *run;
    const char *from, *only, *grace_ms, *signal, *owner, *text;
    bool all, force, once, again, join, discard, fetched, gather;
};

// Reads "--root DIR --run RUN …"; need_run: the run must be named.
int node_args(struct arena *a, const struct node_call *c, bool need_run, struct node_args *out,
              struct err *e);
char *node_run_dir(struct arena *a, const struct node_args *args, const char *run);
bool node_is_run(struct arena *a, const struct node_args *args, const char *run);
// The id of the cluster that the run is of (`own`); NULL: of none that has its mark here.
const char *node_run_owner(struct arena *a, const struct node_args *args, const char *run);
// Whether somebody has the run's results elsewhere.
bool node_run_is_fetched(struct arena *a, const struct node_args *args, const char *run);
// Waits until the agent's end of the connection closes.
int node_await_end(int fd, int64_t wait_ms, struct err *e);
// One record from standard input; ERR_TIMEOUT after timeout_ms.
int node_read_record(struct arena *a, int timeout_ms, char **text, size_t *len, struct err *e);
// Writes all of it to standard output; -1 when nobody reads any more.
int node_write(const void *p, size_t len);
int node_answer(const struct strbuf *line); // a JSON line, with the newline added
int node_answer_event(const char *event);   // {"event":"…"}
// Prints the error event and gives its exit status.
int node_fail(const struct err *e);
// What status.json says, NULL if it cannot be read; state in *state. A run whose agent is gone
// without a final state is NODE_LOST. *alive_fd (may be NULL): a connection to the agent, or -1.
const struct json *node_run_state(struct arena *a, const char *run_dir, enum node_state *state,
                                  int *alive_fd);

#endif
