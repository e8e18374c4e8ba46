// SPDX-License-Identifier: Apache-2.0
// Content by hash from one node's content store to that of another one, over a channel.
//
//     receiver  WIRE_CONTENT_ASK                       WIRE_STATE_GET …
//     sender                      WIRE_CONTENT_HAVE                     WIRE_STATE_DATA …
//
// The receiver sends hashes, and the sender answers with one bit for each: it has this content. An
// answer without bits says that it still looks: after a reboot it hashes what it has again. GET and
// DATA name content by its place in that list. The sender sends only content of the inputs of
// its run. The receiver hashes what comes before it is stored. The owner of the channel calls
// content_sender_… and content_receiver_… for its messages, and closes it.
#ifndef COPIES_CONTENT_TRANSFER_H
#define COPIES_CONTENT_TRANSFER_H

#include "channel/channel.h"
#include "content/cas.h"
#include "copies/transfer_window.h"

enum {
    CONTENT_ITEMS_MAX = WIRE_DATA_BYTES_MAX / HASH_BYTES, // of one question
    CONTENT_PIECES = 16,                                  // on their way
    CONTENT_STEP_BYTES = 32 << 20,                        // hashed in one event of the loop
    CONTENT_LOOKS_MS = 5000,                              // between two answers without bits
    CONTENT_TURN_MS = 20, // until a sender looks again whether another one still hashes
};

struct content_item {
    unsigned char hash[HASH_BYTES];
    uint64_t size; // more than 0
};

int content_order(const void *x, const void *y); // by hash, for qsort
// True when the store has this content. After cas_load.
bool content_is_here(struct cas *c, const struct content_item *item);

// The object that is hashed again: one at a time for all senders of a store, since the others want
// the same ones.
struct content_look {
    struct cas_check check;
    const struct content_sender *by; // NULL: none is hashed
};

struct content_sender {
    struct loop *loop;
    struct cas *cas;
    struct content_look *look;        // of all senders of the store; must outlive them
    const struct content_item *known; // what may be asked for, by hash
    size_t known_count;
    // inner
    struct channel *link;
    struct timer step;
    int64_t said_ms;            // when the last answer was sent
    struct content_item *asked; // heap; size 0: not here
    size_t asked_count, looked; // the first ones have been looked for
    int fd;                     // of asked[open - 1]
    size_t open;
    unsigned char *small; // content of asked[open - 1], when it is small; heap
};

// Answers WIRE_CONTENT_ASK, WIRE_STATE_GET. ERR_FORMAT: the other side breaks the protocol. The
// answer to ASK may come later, from the loop; l must be open until content_sender_close.
int content_sender_ask(struct content_sender *s, struct channel *l, const struct wire_msg *m,
                       struct err *e);
int content_sender_get(struct content_sender *s, struct channel *l, const struct wire_msg *m,
                       struct err *e);
bool content_sender_looks(const struct content_sender *s); // an answer is due
void content_sender_close(struct content_sender *s);

struct content_receiver;
// ERR_NONE: the sender has sent all that it has. ERR_HASH: it sent other content.
typedef void content_receiver_end(struct content_receiver *r, const struct err *e);
struct content_receiver {
    struct loop *loop; // NULL: closed
    struct channel *link;
    struct cas *cas;
    const struct content_item *items; // at most CONTENT_ITEMS_MAX
    size_t count;
    bool *came;   // by item: it is in the store now
    int *holders; // by item: counts senders that have it, and nothing is sent; NULL: receive
    bool paced;   // pauses as long as the pieces took: at most half of the connection is used
    content_receiver_end *on_end;
    void *ctx;
    // inner
    size_t *wanted; // items that the sender has; NULL: it has not answered. Heap
    size_t wanted_count;
    struct transfer_window window; // of wanted
    struct cas_part part;          // of the item that comes, when it is large
    bool part_open;
    uint64_t bytes; // that have come
};

void content_receiver_open(struct content_receiver *r); // asks. r: all up to ctx
void content_receiver_message(struct content_receiver *r, const struct wire_msg *m);
void content_receiver_close(struct content_receiver *r); // no callback; no-op on a closed one

#endif
