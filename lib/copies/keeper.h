// SPDX-License-Identifier: Apache-2.0
// Nodes of a run keep copies of each other's states (state.replicas), and the files of inputs that
// each round deals anew (copies/input_redeal.h). A process of its own, the keeper, does all of it,
// so that no disk delays the agent's heartbeats. It ends with its agent.
//
//     runs/RUN/generations/        this node's own (content/generation.h)
//     runs/RUN/copies/NODE/        those of other nodes
//     runs/RUN/generations/here    this disk has begun a round; absent: the state may be elsewhere
//
// At every interval the keeper publishes what has changed as one generation and sends it to the
// holders (copies/replica_placement.h), one after the other. It receives one at a time.
// Connections come in at the agent's port with WIRE_MAGIC_COPIES; the agent passes them on unread.
//
//     keeper_open(&k, loop, &spec, on_note, e);
//     keeper_ring(&k, &m);          // WIRE_COPIES: at the begin of a round
//     … on_note KEEPER_READY, KEEPER_INPUTS …  // workers may start
//     keeper_close(&k);
#ifndef COPIES_KEEPER_H
#define COPIES_KEEPER_H

#include "channel/channel.h"
#include "protocol/job_spec.h"
#include "sys/loop.h"

enum {
    KEEPER_REPLICAS_MAX = 15,
    KEEPER_AGAIN_MS = 1000, // until a keeper that died is started again
};

// kind of WIRE_STATE_NOTE
enum keeper_note {
    KEEPER_READY,    // number: the round. The state is here, or no node has one. reason: "" or why
                     // a copy that exists could not be had
    KEEPER_COPIED,   // to node `name`: generation `number`, `bytes` were sent
    KEEPER_RESTORED, // from node `name`: generation `number`, `bytes`; reason: whose state it was
    KEEPER_DEALT,    // number: the round. This node has its share of input `name`; it has taken
                     // `file` files of it from other nodes, `bytes`
    KEEPER_LACKS,    // number: the round. `file` files of the share `group_rank` of `group_world`
                     // of input `name` are on no node
    KEEPER_INPUTS,   // number: the round. All shares are here; or reason: why not
    KEEPER_KEPT,     // number: the round. This node has the copies of input `name` that it is to
                     // keep; it has taken `file` files, `bytes`
};

struct keeper_spec {     // outlives the keeper
    const char *run_dir; // NULL: no keeper
    const char *node;    // the name of this node
    int64_t every_ms;
    int replicas;                   // of the state on so many other nodes; 0: none
    const char *store, *locks;      // for inputs: the node's content store, folder of its locks
    const struct job_input *inputs; // that are dealt anew, with absolute paths
    int input_count;
    int64_t source_ms;            // for files that no node has to come from the operator's side
    struct channel_secret secret; // magic: WIRE_MAGIC_COPIES
};

struct keeper;
typedef void keeper_noted(struct keeper *k, const struct wire_msg *m);
struct keeper {
    struct loop *loop; // NULL: closed
    const struct keeper_spec *spec;
    keeper_noted *on_note;
    pid_t pid;
    int fd;
    struct watch watch;
    struct timer again;
    struct strbuf ring; // the last order
    void *ctx;
};

int keeper_open(struct keeper *k, struct loop *loop, const struct keeper_spec *spec,
                keeper_noted *on_note, struct err *e);
void keeper_close(struct keeper *k); // no-op on a closed one
void keeper_ring(struct keeper *k, const struct wire_msg *m);
void keeper_adopt(struct keeper *k, int fd); // takes fd
// True when workers have to wait for KEEPER_READY in this round. With inputs they always wait for
// KEEPER_INPUTS.
bool keeper_is_needed(const struct keeper *k, int round);

#endif
