// SPDX-License-Identifier: Apache-2.0
// Items that come over a channel in pieces: the taker asks for pieces in order, with so many on
// their way at most, and they come in that order. Both transfers of this layer are made of it.
//
//     taker    WIRE_STATE_GET …                        WIRE_STATE_GET …
//     giver                        WIRE_STATE_DATA …
//
//     pieces_begin(&p, count);                   // asks
//     last = pieces_take(&p, m, e);              // for each WIRE_STATE_DATA; m is the next piece
//     if (!pieces_are_here(&p)) pieces_continue(&p);
//
// The caller's numbers of items go over the wire. Not more than `max` pieces bounds the memory of
// both sides.
#ifndef COPIES_PIECES_H
#define COPIES_PIECES_H

#include "channel/channel.h"

struct pieces {
    struct loop *loop;
    struct channel *link;
    int max;    // on their way
    bool paced; // pauses as long as they took: at most half of the connection is used
    int64_t (*number)(const struct pieces *p, size_t k); // of item k, on the wire
    uint64_t (*size)(const struct pieces *p, size_t k);  // more than 0
    // inner
    size_t count, asked, taken;
    uint64_t asked_at, taken_at; // offsets in the items `asked` and `taken`
    int under_way;
    struct timer pace;
    int64_t burst_ms; // when the pieces on their way were asked for
};

// p: loop, link, max, paced, number, size. Items 0 … count - 1 are to come.
void pieces_begin(struct pieces *p, size_t count);
// Returns 1 for the last piece of an item, 0 for another one, -1 (ERR_FORMAT): it was not asked
// for, or comes out of turn. p->taken and p->taken_at are its place until pieces_took.
int pieces_take(struct pieces *p, const struct wire_msg *m, struct err *e);
void pieces_took(struct pieces *p, const struct wire_msg *m); // it is stored
bool pieces_are_here(const struct pieces *p);
void pieces_continue(struct pieces *p); // asks for more when it is time
void pieces_stop(struct pieces *p);

// The giver's side: a WIRE_STATE_GET asks for bytes that an item of this size has.
bool pieces_asked_rightly(const struct wire_msg *m, uint64_t size);

#endif
