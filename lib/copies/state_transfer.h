// SPDX-License-Identifier: Apache-2.0
// One generation of a state (content/generation.h) over a channel. The receiver asks for the list,
// then for the content that it lacks, in pieces; at most STATE_TRANSFER_PIECES of them are on their
// way, which bounds the memory of both sides.
//
//     sender    WIRE_STATE_OFFER                   WIRE_STATE_DATA …
//     receiver                    WIRE_STATE_GET …                   WIRE_STATE_END
//
// Content of the generation before it in the same folder is linked and not sent. Every file is
// compared with its SHA-256 before the generation is published. The owner of the channel calls
// state_sender_get and state_receiver_data for its messages, and closes it.
#ifndef COPIES_STATE_TRANSFER_H
#define COPIES_STATE_TRANSFER_H

#include "channel/channel.h"
#include "content/generation.h"
#include "copies/transfer_window.h"

enum {
    STATE_TRANSFER_PIECE_BYTES = WIRE_DATA_BYTES_MAX,
    STATE_TRANSFER_PIECES = 4,
    STATE_TRANSFER_DISK_SPARE_BYTES = 64 << 20, // stay free on the receiver's disk
    STATE_TRANSFER_LIST = -1,                   // number of the list, as a file
};

struct state_sender {
    struct arena arena;
    const char *state; // folder of the files
    int64_t number;
    char *list;
    size_t list_len;
    struct manifest *manifest; // NULL: closed
    int fd;                    // of `open`; -1: none
    int64_t open;
    uint64_t sent; // bytes of files
};

int state_sender_open(struct state_sender *s, const char *folder, int64_t number, struct err *e);
void state_sender_close(struct state_sender *s);
void state_sender_offer(const struct state_sender *s, struct channel *l, const char *owner);
// Answers WIRE_STATE_GET. ERR_FORMAT: it asks for what there is not.
int state_sender_get(struct state_sender *s, struct channel *l, const struct wire_msg *m,
                     struct err *e);

struct state_receiver;
typedef void state_receiver_end(struct state_receiver *r,
                                const struct err *e); // ERR_NONE: it is published
struct state_receiver {
    struct loop *loop; // NULL: closed
    struct channel *link;
    struct arena arena;
    const char *folder; // of generations; the caller's
    int64_t number, list_len;
    bool paced; // pauses as long as the pieces took: at most half of the connection is used
    state_receiver_end *on_end;
    void *ctx;
    // inner
    struct strbuf list;
    struct manifest *manifest; // NULL: the list is not complete
    size_t *wanted;            // entries to fetch
    size_t wanted_count;
    struct transfer_window window; // of the list, then of wanted
    int fd;                        // of the file that comes; -1: not begun
    struct hash hash;
    uint64_t fetched; // bytes
};

// r: loop, link, folder, paced, on_end, ctx. m: the offer.
int state_receiver_open(struct state_receiver *r, const struct wire_msg *m, struct err *e);
void state_receiver_data(struct state_receiver *r, const struct wire_msg *m); // WIRE_STATE_DATA
void state_receiver_close(struct state_receiver *r); // no callback; no-op on a closed one

#endif
