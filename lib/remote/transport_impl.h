// SPDX-License-Identifier: Apache-2.0
// What the kinds of transports share with transport.c: the common part of links and runs, and how
// events reach the caller. Only for lib/remote.
//
// Lifetime: a kind embeds the common structs as first members and allocates them. A closed link or
// run gets no callback any more but stays in memory until the kind takes it away from one of its
// own loop callbacks (transport_run_release, transport_link_release), so that callers may close
// anything at any time.
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
    int run_count;         // those not closed and not ended
    int64_t round_trip_us; // 0: not known yet
};

// Input of a command: bytes from `start` are unsent; memory does not move between a refused write
// and its repetition unless bytes were taken in between.
struct transport_input {
    char *data;
    size_t start, len, room;
};

struct transport_run {
    struct transport_link *link;
    struct transport_run *next;
    const struct transport_run_events *events;
    void *ctx;
    void (*drop)(void *ctx); // when the run is freed, however it ended; may be NULL
    struct transport_input input;
    bool input_ended, paused, room_wanted;
    bool ended;  // on_end was called
    bool closed; // by the caller
};

// Events to the caller; they do nothing when it has closed the thing.
void transport_tell_open(struct transport_link *l);
// Ends all runs as lost, then on_down.
void transport_tell_down(struct transport_link *l, const struct err *e);
void transport_tell_output(struct transport_run *r, bool is_stderr, const void *p, size_t len);
void transport_tell_end(struct transport_run *r, const struct transport_end *end);
void transport_tell_lost(struct transport_run *r, const struct err *e);

// Input that is waiting, and how much of it went out (may call on_room).
const void *transport_input_peek(const struct transport_run *r, size_t *len);
void transport_input_sent(struct transport_run *r, size_t len);

// A run whose command waits for something to do is parked under a name for whoever needs one like
// it next; closed when its place is needed, or another is parked. Its owner forgets it.
void transport_run_park(struct transport_run *r, const char *name);
// The parked run of that name with a new owner, or NULL.
struct transport_run *transport_run_unpark(struct transport_link *l, const char *name,
                                           const struct transport_run_events *events, void *ctx);

void transport_run_release(struct transport_run *r);   // unlinks and frees
void transport_link_release(struct transport_link *l); // frees the common part; no runs are left

#endif
