// SPDX-License-Identifier: Apache-2.0
// One generation of a state (content/generation.h) over a channel. The taker asks for the list,
// then for the content that it lacks, in pieces; at most TRANSFER_PIECES of them are on their way,
// which bounds the memory of both sides.
//
//     giver    WIRE_STATE_OFFER                          WIRE_STATE_DATA …
//     taker                      WIRE_STATE_GET …                          WIRE_STATE_END
//
// Content of the generation before it in the same folder is linked and not sent. Every file is
// compared with its SHA-256 before the generation is published. The owner of the channel calls
// giver_get and taker_data for its messages, and closes it.
#ifndef COPIES_TRANSFER_H
#define COPIES_TRANSFER_H

#include "channel/channel.h"
#include "content/generation.h"
#include "copies/pieces.h"

enum {
    TRANSFER_PIECE_BYTES = WIRE_DATA_BYTES_MAX,
    TRANSFER_PIECES = 4,
    TRANSFER_DISK_SPARE_BYTES = 64 << 20, // stay free on the taker's disk
    TRANSFER_LIST = -1,                   // number of the list, as a file
};

struct giver {
    struct arena arena;
    const char *state; // folder of the files
    int64_t number;
    char *list;
    size_t list_len;
    struct manifest *manifest; // NULL: closed
    int fd;                    // of `open`; -1: none
    int64_t open;
    uint64_t given; // bytes of files
};

int giver_open(struct giver *g, const char *folder, int64_t number, struct err *e);
void giver_close(struct giver *g);
void giver_offer(const struct giver *g, struct channel *l, const char *owner);
// Answers WIRE_STATE_GET. ERR_FORMAT: it asks for what there is not.
int giver_get(struct giver *g, struct channel *l, const struct wire_msg *m, struct err *e);

struct taker;
typedef void taker_end(struct taker *t, const struct err *e); // ERR_NONE: it is published
struct taker {
    struct loop *loop; // NULL: closed
    struct channel *link;
    struct arena arena;
    const char *folder; // of generations; the caller's
    int64_t number, list_len;
    bool paced; // pauses as long as the pieces took: at most half of the connection is used
    taker_end *on_end;
    void *ctx;
    // inner
    struct strbuf list;
    struct manifest *manifest; // NULL: the list is not complete
    size_t *wanted;            // entries to fetch
    size_t wanted_count;
    struct pieces pieces; // of the list, then of wanted
    int fd;               // of the file that comes; -1: not begun
    struct hash hash;
    uint64_t fetched; // bytes
};

// t: loop, link, folder, paced, on_end, ctx. m: the offer.
int taker_open(struct taker *t, const struct wire_msg *m, struct err *e);
void taker_data(struct taker *t, const struct wire_msg *m); // WIRE_STATE_DATA
void taker_close(struct taker *t);                          // no callback; no-op on a closed one

#endif
