// SPDX-License-Identifier: Apache-2.0
// Items that come over a channel in pieces: the receiver asks for pieces in order, with so many on
// their way at most, and they come in that order. Both transfers of this layer are made of it.
//
//     receiver  WIRE_STATE_GET …                    WIRE_STATE_GET …
//     sender                      WIRE_STATE_DATA …
//
//     transfer_window_begin(&w, count);      // asks
//     last = transfer_window_take(&w, m, e); // for each WIRE_STATE_DATA; m is the next piece
//     if (!transfer_window_is_complete(&w)) transfer_window_continue(&w);
//
// The caller's numbers of items go over the wire. Not more than `max` pieces bounds the memory of
// both sides.
#ifndef COPIES_TRANSFER_WINDOW_H
#define COPIES_TRANSFER_WINDOW_H

#include "channel/channel.h"

struct transfer_window {
    struct loop *loop;
    struct channel *link;
    int max;    // on their way
    bool paced; // pauses as long as they took: at most half of the connection is used
    int64_t (*number)(const struct transfer_window *w, size_t k); // of item k, on the wire
    uint64_t (*size)(const struct transfer_window *w, size_t k);  // more than 0
    // inner
    size_t count, asked, taken;
    uint64_t asked_at, taken_at; // offsets in the items `asked` and `taken`
    int under_way;
    struct timer pace;
    int64_t burst_ms; // when the pieces on their way were asked for
};

// w: loop, link, max, paced, number, size. Items 0 … count - 1 are to come.
void transfer_window_begin(struct transfer_window *w, size_t count);
// Returns 1 for the last piece of an item, 0 for another one, -1 (ERR_FORMAT): it was not asked
// for, or comes out of turn. w->taken and w->taken_at are its place until transfer_window_took.
int transfer_window_take(struct transfer_window *w, const struct wire_msg *m, struct err *e);
void transfer_window_took(struct transfer_window *w, const struct wire_msg *m); // it is stored
bool transfer_window_is_complete(const struct transfer_window *w);
void transfer_window_continue(struct transfer_window *w); // asks for more when it is time
void transfer_window_stop(struct transfer_window *w);

// The sender's side: a WIRE_STATE_GET asks for bytes that an item of this size has.
bool transfer_window_is_request(const struct wire_msg *m, uint64_t size);

#endif
