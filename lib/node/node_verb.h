// SPDX-License-Identifier: Apache-2.0
// The verbs of `dtrun --node` and their common parts: arguments, records, answers, folders of runs
// (node_protocol.h).
#ifndef NODE_NODE_VERB_H
#define NODE_NODE_VERB_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "protocol/node_protocol.h"

#include <stdbool.h>

enum {
    NODE_AGENT_WAIT_MS = 2000, // for the agent of a run, to show its state
    NODE_STOP_MARGIN_MS = 25000,
    NODE_OWNER_BYTES_MAX = 64,
    NODE_OWNER_TEXT_BYTES_MAX = 1024
};

struct node_call {
    int argc;
    char **argv;      // argv[0] is the verb
    char *const *env; // of the program
};
// A verb of `dtrun --node`: prints according to node_protocol.h and returns the exit status.
typedef int node_verb(const struct node_call *c);
#define X(code, name, function, arguments, text) node_verb node_##function;
NODE_VERBS(X)
#undef X

struct node_args {    // arguments of the verbs; absent ones are NULL
    const char *root; // absolute
    const char *run;
    const char *from, *only, *grace_ms, *signal, *owner, *text, *input, *bundle, *known;
    bool all, force, once, again, join, discard, fetched, gather, kinds, closed, sample;
};

// Folders of a run whose finished files are fetched while it is active.
extern const char *const node_closed_folders[];

// Parses "--root DIR --run RUN …"; need_run: --run is required.
int node_args(struct arena *a, const struct node_call *c, bool need_run, struct node_args *out,
              struct err *e);
char *node_run_dir(struct arena *a, const struct node_args *args, const char *run);
bool node_is_run(struct arena *a, const struct node_args *args, const char *run);
// The id of the run's cluster (`own`); NULL: no cluster with a mark here. NODE_OWNER_UNKNOWN: it
// cannot be read; this is no cluster's id.
#define NODE_OWNER_UNKNOWN "?"
const char *node_run_owner(struct arena *a, const struct node_args *args, const char *run);
// True when the run's results have been fetched.
bool node_run_is_fetched(struct arena *a, const struct node_args *args, const char *run);
// Waits until the agent closes the connection.
int node_await_end(int fd, int64_t wait_ms, struct err *e);
// Reads one record from standard input; ERR_TIMEOUT after timeout_ms.
int node_read_record(struct arena *a, int timeout_ms, char **text, size_t *len, struct err *e);
// Writes all bytes to standard output; -1 when the reader is gone.
int node_write(const void *p, size_t len);
int node_answer(const struct strbuf *line); // a JSON line, with the newline added
int node_answer_event(const char *event);   // {"event":"…"}
// Prints the error event and returns its exit status.
int node_fail(const struct err *e);
// Reads status.json, NULL if it is unreadable; *state: the state. A run without a final state whose
// agent is gone is NODE_LOST. *alive_fd (may be NULL): a connection to the agent, or -1.
const struct json *node_run_state(struct arena *a, const char *run_dir, enum node_state *state,
                                  int *alive_fd);

#endif
