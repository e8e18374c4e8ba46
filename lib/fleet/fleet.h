// SPDX-License-Identifier: Apache-2.0
// A fleet: connections to many nodes, and steps that run on all of them at once.
//
//     struct fleet f;
//     fleet_open(&f, context, &inventory, indices, count);
//     fleet_connect(&f, e); // every node: connected, agent installed, facts read
//     fleet_each(&f, "stop", start_stop, e); // one step; start_stop calls fleet_done later
//     if (fleet_failures(&f)) fleet_report(&f);
//     fleet_close(&f);
//
// A node that fails in a step keeps its error and is left out of later steps. A step does not stop
// at the first failure; the caller inspects the nodes afterwards. One thread, one loop.
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "protocol/node_protocol.h"
#include "remote/transport.h"
#include "ui/context.h"
#include "ui/progress.h"
#include "xfer/agent_bootstrap.h"

enum {
    FLEET_RETRIES_MAX = 3,
    FLEET_RETRY_PAUSE_MS = 500,
    FLEET_ANSWER_MS_MAX = 120000, // of a login shell to its first command
    FLEET_MOVING_NODES_MAX = 16,  // transfers of content at once; each takes about 2 MB here
};

struct fleet;

struct fleet_node {
    struct fleet *fleet;
    size_t index; // index in the fleet
    struct inventory_node *info;
    struct transport_link *link;
    bool up;              // connected
    bool ready;           // the agent is installed; facts are known
    bool busy;            // takes part in the current step
    bool begun;           // its part of the step has been started
    bool installs;        // the agent is being asked or installed
    bool queued;          // waits until fewer nodes install
    bool absent;          // the node is no longer in the cluster and cannot be connected to
    bool failed;          // err holds the reason
    const char *left_out; // reason for leaving it out of steps without a failure; or NULL
    struct err err;
    struct node_facts facts; // strings in the context's arena
    void *work;              // used by the step or the caller
    int64_t started_ms;
    struct timer answer; // runs while the agent is being asked or installed
};

struct fleet {
    struct context *context;
    struct transport_env env;
    struct fleet_node *nodes;
    size_t count, busy;
    size_t under_way;  // busy nodes that have been started
    size_t installing; // number of installing nodes
    struct progress progress;
    bool has_progress;
    bool transfers; // set before connecting: agents stay running for the transfers that follow
    struct timer tick;
    // Called for a link that fails outside a step; NULL: the node is marked failed.
    void (*on_lost)(struct fleet_node *n, const struct err *e);
    // Called when a link made by fleet_link outside a step is up and the agent is installed; may be
    // NULL.
    void (*on_back)(struct fleet_node *n);
    const void *agent; // bytes of dtrun, decompressed when needed
    size_t agent_size;
    const char *agent_sha256;
    int64_t answer_ms; // longest time without an answer or progress of a node that installs
};

// Settings of connections: configuration, and the cluster's own key and known hosts.
struct transport_env fleet_env(struct context *s);

typedef int fleet_start(struct fleet_node *n, struct err *e);

// indices NULL: every node of the inventory. Does not connect.
void fleet_open(struct fleet *f, struct context *s, struct inventory *inv, const size_t *indices,
                size_t count);
void fleet_close(struct fleet *f);

// Connects to every node that has not failed. want_agent: also installs the agent where needed and
// reads facts. -1 only when interrupted or when no attempt was possible.
int fleet_connect(struct fleet *f, bool want_agent, struct err *e);
// Connects one node (again); on_open or on_lost follows. For reconnecting.
int fleet_link(struct fleet_node *n, struct err *e);
void fleet_unlink(struct fleet_node *n); // closes the connection or the attempt; no callback

// Runs start on every node that has not failed and waits until fleet_done was called for each.
// operation names the progress rows; NULL: none. -1 (ERR_INTERRUPTED) when a signal came, also
// before the call; the signal stays pending in the context.
int fleet_each(struct fleet *f, const char *operation, fleet_start *start, struct err *e);
// The same with at most at_once nodes in progress.
int fleet_each_of(struct fleet *f, const char *operation, fleet_start *start, size_t at_once,
                  struct err *e);
// The same for a step that can be continued, such as a transfer. Nodes that lose their connection
// are reconnected and started again, up to FLEET_RETRIES_MAX times. At most FLEET_MOVING_NODES_MAX
// nodes are in progress: more cost memory and are not faster.
int fleet_each_resumed(struct fleet *f, const char *operation, fleet_start *start, struct err *e);
// The same with at most at_once nodes in progress.
int fleet_each_resumed_of(struct fleet *f, const char *operation, fleet_start *start,
                          size_t at_once, struct err *e);
// Ends the step for this node; e NULL or ERR_NONE: success. Safe to call twice.
void fleet_done(struct fleet_node *n, const struct err *e);
void fleet_fail(struct fleet_node *n, const struct err *e); // marks a node as failed outside a step

// Reports progress of the step for one node.
void fleet_amount(struct fleet_node *n, uint64_t done, uint64_t total);
void fleet_state(struct fleet_node *n, const char *text);

// `<program> --node <verb> --root <root> <rest>` as a shell line; the caller quotes rest.
char *fleet_line(struct fleet_node *n, enum node_verb_code verb, const char *rest);
// Sends a record of node_protocol.h to a verb: a job specification or a roster. ERR_LIMIT when the
// connection does not take all of it at once.
int fleet_send_record(struct transport_run *run, const struct strbuf *text, struct err *e);
// Parses the answer of an agent verb. 0 when it exited with 0; else the error that it printed as
// JSON, its text on standard error, or a missing status.
int fleet_answer(const struct transport_result *r, struct err *e);

size_t fleet_failures(const struct fleet *f);
void fleet_report(struct fleet *f); // prints one error per failed node, and JSON events
// Returns 0 when no node failed; else ERR_SOME_FAILED with the folded names of the failed nodes.
int fleet_verdict(const struct fleet *f, const char *what, struct err *e);

#endif
