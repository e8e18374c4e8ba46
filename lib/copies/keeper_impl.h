// SPDX-License-Identifier: Apache-2.0
// Internals of the keeper's process. Private to lib/copies.
#ifndef COPIES_KEEPER_IMPL_H
#define COPIES_KEEPER_IMPL_H

#include "copies/content_transfer.h"
#include "copies/keeper.h"
#include "copies/replica_placement.h"
#include "copies/state_transfer.h"

enum {
    KEEPER_ORDER_BYTES_MAX = 160 << 10,
    KEEPER_BUSY_MS = 1000, // until a state that is being written is looked at again
    KEEPER_KILL_MS = 10,   // between two looks whether a killed publisher is gone
    KEEPER_LATE = 10,      // intervals without a whole state until it is logged
    KEEPER_INBOUND_MAX = 16,
    KEEPER_IDLE_MS_MAX = 60 * 1000, // of a connection; a disk may be slow
    KEEPER_TRIES_MAX = 3,           // to get a state that a node has
};

enum keeper_published { KEEPER_NEW, KEEPER_SAME, KEEPER_NOT_WHOLE, KEEPER_FAILED };

struct holder { // another node
    const char *name, *address;
    int port;
    int64_t has; // number of its newest copy of this node's state
    bool failed; // in this search, or since its failure was logged
};

enum keeper_task {
    TASK_NONE,
    TASK_SEND,   // a generation to ring[at]
    TASK_FIND,   // which node has the newest copy
    TASK_RESTORE // from ring[at]
};

struct keeper_state {
    const struct keeper_spec *spec;
    struct arena arena;
    struct loop *loop;
    int fd;
    struct watch orders;
    const char *own, *copies; // folders

    struct arena ring_arena;
    struct holder ring[REPLICA_PEERS_MAX]; // the nodes that follow, then those that stand by
    int count, states;                     // the first ones may have copies of this node's state
    int64_t round;
    int rank, nodes;     // of the round
    const char *heir_of; // a node that is gone, whose state this new one takes over; "": none

    // the inputs of the round, in one more process
    struct child redeal;
    bool redeals, redeal_waits; // the one of the last round has not ended
    struct cas store;           // for connections that ask for content
    bool store_open;
    struct content_look look;   // of its objects
    struct content_item *known; // heap: content of all inputs, by hash
    size_t known_count;

    // publishing, in one more process
    struct child publisher;
    bool publishing;
    struct timer next;
    int64_t whole_ms;   // when the state was last seen whole
    bool warned, warns; // that it has not been whole for long: done, and being done

    // connections of others
    struct inbound *inbound;
    int inbound_count;
    bool receives; // one of them sends a state

    // this node's connection
    enum keeper_task task;
    struct channel link;
    struct timer limit, soon, busy;
    int at;
    const char *wanted; // whose state is searched
    int best, tries;
    int64_t best_number;
    struct state_sender sender;
    struct state_receiver receiver;
};

_Noreturn void keeper_main(const struct keeper_spec *spec, int fd);
void keeper_send_note(const struct keeper_state *s, const struct wire_msg *note);
void keeper_close_others(int kept);    // all descriptors but the standard ones and this one
bool keeper_is_name(const char *name); // of a node, as a folder
void keeper_ready(struct keeper_state *s, const char *why); // sends KEEPER_READY

// keeper_publish.c
// late_ms: a state that is not whole now has not been so for that long, which is said with the
// reason; 0: nothing is said of it.
enum keeper_published keeper_publish(const struct keeper_spec *spec, const char *own,
                                     int64_t late_ms);
// Makes the state of the newest generation the run's state, unless that has newer files.
int keeper_restore(const struct keeper_spec *spec, const char *own, struct err *e);

// keeper_inputs.c
void keeper_deal(struct keeper_state *s); // begins the dealing of inputs for the round
// Opens the store, and finds what may be asked for.
int keeper_open_store(struct keeper_state *s, struct err *e);

// keeper_server.c
void keeper_accept(struct keeper_state *s, int fd); // takes fd

// keeper_client.c
void keeper_send(struct keeper_state *s);   // to the next holder that lacks the newest generation
void keeper_search(struct keeper_state *s); // for this node's state; KEEPER_READY follows
void keeper_stop(struct keeper_state *s);   // drops the task
// Begins a connection to the keeper of another node; link->ctx is the caller's.
int keeper_connect(const struct keeper_state *s, const struct holder *h, struct channel *link,
                   struct loop *loop, const struct channel_events *on, struct err *e);

#endif
