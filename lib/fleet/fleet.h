// SPDX-License-Identifier: Apache-2.0
// A fleet: connections to many nodes, and steps that run on all of them at once.
//
//     struct fleet f;
//     fleet_open(&f, context, &inventory, indices, count);
//     fleet_connect(&f, e);                    // every node: logged in, agent there, facts known
//     fleet_each(&f, "stop", start_stop, e);   // one step; start_stop calls fleet_done later
//     if (fleet_failures(&f)) fleet_report(&f);
//     fleet_close(&f);
//
// A node that fails in a step keeps its error and takes no part in later steps. Nothing here stops
// at the first failure: the caller looks at the nodes afterwards. One thread, one loop.
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "remote/transport.h"
#include "ui/context.h"
#include "ui/progress.h"
#include "xfer/agent_bootstrap.h"

enum {
    FLEET_RETRIES_MAX = 3,
    FLEET_RETRY_PAUSE_MS = 500,
    FLEET_MOVING_NODES_MAX = 32, // that content is moved to or from at once
};

struct fleet;

struct fleet_node {
    struct fleet *fleet;
    size_t index; // in the fleet
    struct inventory_node *info;
    struct transport_link *link;
    bool up;              // logged in
    bool ready;           // the agent is there; facts are known
    bool busy;            // takes part in the step that is going on
    bool begun;           // its part of the step has been started
    bool installs;        // the agent is asked, or put there
    bool queued;          // that waits until fewer nodes do it
    bool absent;          // the cluster has no such node any more: there is nothing to connect to
    bool failed;          // err says why
    const char *left_out; // why it takes no part in the steps, without having failed; or NULL
    struct err err;
    struct node_facts facts; // strings in the context's arena
    void *work;              // of the step or the caller
    int64_t started_ms;
};

struct fleet {
    struct context *context;
    struct transport_env env;
    struct fleet_node *nodes;
    size_t count, busy;
    size_t under_way;  // busy nodes that have begun
    size_t installing; // nodes
    struct progress progress;
    bool has_progress;
    bool transfers; // set before connecting: the agents stay for what is sent or fetched
    struct timer tick;
    // A link that was lost, or could not be made, outside a step; NULL: the node is marked failed.
    void (*on_lost)(struct fleet_node *n, const struct err *e);
    // A link that fleet_link made outside a step is up, and the agent is there; may be NULL.
    void (*on_back)(struct fleet_node *n);
    const void *agent; // dtrun's bytes, unpacked at need
    size_t agent_size;
    const char *agent_sha256;
};

// How connections are made, by the configuration and the cluster's own key and known hosts.
struct transport_env fleet_env(struct context *s);

typedef int fleet_start(struct fleet_node *n, struct err *e);

// indices NULL: every node of the inventory. Nothing connects yet.
void fleet_open(struct fleet *f, struct context *s, struct inventory *inv, const size_t *indices,
                size_t count);
void fleet_close(struct fleet *f);

// Logs in to every node that has not failed. want_agent: then makes sure of the agent and asks it
// for facts. -1 only when interrupted or when nothing could be tried.
int fleet_connect(struct fleet *f, bool want_agent, struct err *e);
// Starts a connection of one node (again); on_open or on_lost follow. For reconnecting.
int fleet_link(struct fleet_node *n, struct err *e);
void fleet_unlink(struct fleet_node *n); // drops the connection, also one being made; no callback

// Runs start on every node that has not failed and waits until each was given to fleet_done.
// operation names the progress rows; NULL: none are shown. -1 (ERR_INTERRUPTED) when a signal came,
// also one before it; that stays with the context.
int fleet_each(struct fleet *f, const char *operation, fleet_start *start, struct err *e);
// The same, with at most at_once nodes served at a time.
int fleet_each_of(struct fleet *f, const char *operation, fleet_start *start, size_t at_once,
                  struct err *e);
// The same for a step that can go on where it was cut, such as a transfer: nodes whose connection
// was lost in it are reached again, and start is run for them anew, FLEET_RETRIES_MAX times. At
// most FLEET_MOVING_NODES_MAX nodes are served at once: more make nothing faster, and cost memory
// each.
int fleet_each_resumed(struct fleet *f, const char *operation, fleet_start *start, struct err *e);
// The step is over for this node; e NULL or ERR_NONE: well. Safe to call twice.
void fleet_done(struct fleet_node *n, const struct err *e);
void fleet_fail(struct fleet_node *n, const struct err *e); // outside a step

// Progress of the step for one node.
void fleet_amount(struct fleet_node *n, uint64_t done, uint64_t total);
void fleet_state(struct fleet_node *n, const char *text);

// `<program> --node <verb> --root <root> <rest>` as a shell line; rest is quoted by the caller.
char *fleet_line(struct fleet_node *n, const char *verb, const char *rest);
// What an agent verb answered: 0 when it exited with 0; else the error it gave as JSON, or its
// words on standard error, or that there was no status.
int fleet_answer(const struct transport_result *r, struct err *e);

size_t fleet_failures(const struct fleet *f);
void fleet_report(struct fleet *f); // one error per failed node, and JSON events
// 0 when no node failed; else ERR_SOME_FAILED with the folded names of the failed ones.
int fleet_verdict(const struct fleet *f, const char *what, struct err *e);

#endif
