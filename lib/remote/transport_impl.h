// SPDX-License-Identifier: Apache-2.0
// The interface between the kinds of transports and transport.c: common part of links and runs,
// delivery of events. Private to lib/remote.
//
// Lifetime: a kind embeds the common structs as first members and allocates them. A closed link or
// run gets no further callback. It stays in memory until the kind frees it in one of its own loop
// callbacks (transport_run_release, transport_link_release), so callers may close anything at any
// time.
#ifndef REMOTE_TRANSPORT_IMPL_H
#define REMOTE_TRANSPORT_IMPL_H

#include "remote/transport.h"

enum transport_state { TRANSPORT_OPENING, TRANSPORT_UP, TRANSPORT_DOWN };

struct transport_link {
    const struct transport *kind;
    struct arena arena; // copies of target's strings
    const struct transport_env *env;
    struct transport_target target;
    const struct transport_link_events *events;
    void *ctx;
    enum transport_state state;
    bool closed;                // by the caller
    struct transport_run *runs; // newest first
    struct transport_run *parked;
    const char *parked_as; // in the arena
    int run_count;         // neither closed nor ended
    int64_t round_trip_us; // 0: unknown
};

// Input of a command. Bytes from `start` are unsent. The memory does not move between a refused
// write and its repetition unless bytes were taken in between.
struct transport_input {
    char *data;
    size_t start, len, room;
};

struct transport_run {
    struct transport_link *link;
    struct transport_run *next;
    const struct transport_run_events *events;
    void *ctx;
    void (*drop)(void *ctx); // called when the run is freed; may be NULL
    struct transport_input input;
    bool input_ended, room_wanted;
    bool ended;  // on_end was called
    bool closed; // by the caller
};

// Deliver events to the caller; no-ops after it has closed the object.
void transport_notify_open(struct transport_link *l);
// Ends all runs as lost, then calls on_down.
void transport_notify_down(struct transport_link *l, const struct err *e);
void transport_notify_output(struct transport_run *r, bool is_stderr, const void *p, size_t len);
void transport_notify_end(struct transport_run *r, const struct transport_end *end);
void transport_notify_lost(struct transport_run *r, const struct err *e);

// The pending input, and a report of how much was sent (may call on_room).
const void *transport_input_peek(const struct transport_run *r, size_t *len);
void transport_input_sent(struct transport_run *r, size_t len);

// Parks a run whose command waits for work, for the next user of that name. It is closed when its
// slot is needed or another run is parked. The caller must not use it any more.
void transport_run_park(struct transport_run *r, const char *name);
// Returns the parked run of that name with a new owner, or NULL.
struct transport_run *transport_run_unpark(struct transport_link *l, const char *name,
                                           const struct transport_run_events *events, void *ctx);

void transport_run_release(struct transport_run *r);   // unlinks and frees
void transport_link_release(struct transport_link *l); // frees the common part; no run may remain

#endif
