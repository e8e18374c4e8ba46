// SPDX-License-Identifier: Apache-2.0
// The receiving end of a transfer, on a node (push) or here (fetch): a state machine that takes
// frames, returns frames, and does its disk work in steps for an event loop.
//
//     xfer_receive_open(&r, &config, e);
//     xfer_receive_frame(&r, &frame, &out, e); // for each received frame
//     while ((rc = xfer_receive_step(&r, &out, e)) > 0) …; // 0: waits for frames, or r.finished
//     xfer_receive_close(&r);
//
// Data of an unfinished transfer is kept for the next attempt. With keep (a push), all data is
// synced to disk before the result is sent. A fetch leaves the sync to its caller, which knows when
// the last node has finished.
#ifndef XFER_XFER_RECEIVER_H
#define XFER_XFER_RECEIVER_H

#include "base/arena.h"
#include "base/err.h"
#include "content/cas.h"
#include "content/cas_donor.h"
#include "content/manifest.h"
#include "content/tree_writer.h"
#include "xfer/xfer_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECEIVE_STEP_ENTRIES = 512,    // compared per step
    RECEIVE_STEP_BYTES = 32 << 20, // hashed or copied per step, of all its files
    RECEIVE_PROGRESS_MS = 200,
};

struct receive_config {
    const char *dest;  // folder; NULL for an additional connection of a push, which only stores
    const char *store; // folder of struct cas
    struct hash_cache *hashes; // without keep: owned and saved by the caller; NULL: none
    bool replace;
    bool keep; // content stays in the store for later transfers
    bool acks;
    bool peers; // content comes from other nodes alone: DONE ends the transfer, complete or not
    bool gives; // with peers: this node gets and places nothing
    struct cas_donor *donor; // of content that the store lacks; the caller's; NULL: none
};

enum receive_phase {
    RECEIVE_LIST,    // receiving entries
    RECEIVE_COMPARE, // comparing with existing files
    RECEIVE_CONTENT, // receiving; also places what is complete
    RECEIVE_FINISH,  // verify and place the rest
    RECEIVE_MODES,
    RECEIVE_FINISHED,
};

struct receive {
    struct arena arena;
    struct receive_config config;
    struct cas cas;
    struct place place;
    struct manifest *m;
    unsigned char *states; // enum entry_state, per entry
    uint32_t *same;        // next entry with the same content + 1
    uint32_t *index;       // open addressing by hash: first entry + 1
    size_t index_room;
    enum receive_phase phase;
    size_t cursor;
    bool changes; // the destination differs from the list
    struct strbuf needs;
    struct cas_part part; // the part being received or verified
    bool part_open, verifying;
    struct cas_part old; // a large file at the destination that is being compared
    bool old_open;
    struct tree_copy copy;  // of the entry at the cursor
    const char *placing;    // its content, which is verified; NULL: not yet
    struct cas_check check; // of an object of the store that is hashed again
    bool donor_works;       // on the content at the cursor
    uint64_t most;          // may be hashed or copied in this step
    uint64_t need_bytes, got_bytes, acked_bytes;
    size_t need_files, got_files, placed;
    int64_t progress_ms, acked_ms;
    size_t bad;
    struct err bad_first;
    size_t strays, stray_first; // omitted links that lead out of the folder
};

int xfer_receive_open(struct receive *r, const struct receive_config *config, struct err *e);
int xfer_receive_frame(struct receive *r, const struct xfer_frame *f, struct strbuf *out,
                       struct err *e);
int xfer_receive_step(struct receive *r, struct strbuf *out, struct err *e);
void xfer_receive_close(struct receive *r);

// Shared by the files xfer_receiver*.c.
enum entry_state {
    ENTRY_NEW,    // not compared yet
    ENTRY_SAME,   // present at the destination
    ENTRY_MODE,   // present at the destination with another mode
    ENTRY_STORED, // present in the store
    ENTRY_NEEDED, // must be received
    ENTRY_PLACED,
    ENTRY_BAD,
};
static inline void xfer_receive_spend(struct receive *r, uint64_t bytes) {
    r->most -= bytes < r->most ? bytes : r->most;
}
// Hashes as many further bytes as this step may. 1: reached the end, 0: not yet.
int xfer_receive_hash(struct receive *r, struct cas_part *p, struct err *e);
uint32_t xfer_receive_find(const struct receive *r,
                           const unsigned char hash[HASH_BYTES]); // index + 1, or 0
int xfer_receive_save(struct receive *r, struct err *e);          // saves the cache of hashes
// Tells the sender how much has come: at times, or now.
void xfer_receive_acknowledge(struct receive *r, struct strbuf *out, bool now);
int xfer_receive_compare(struct receive *r, struct strbuf *out, struct err *e);
// After a relay, complete or not: requests what is still lacking; without such files it finishes.
int xfer_receive_again(struct receive *r, struct strbuf *out, struct err *e);
int xfer_receive_finish(struct receive *r, struct strbuf *out, struct err *e);
// Places a file of a push while others still arrive: it is in the store, or all of its bytes have
// come, in order. Files that may be shared, or would take long, and files of a fetch wait for the
// end.
int xfer_receive_place(struct receive *r, size_t i, struct err *e);
// Verifies a large file whose units have all arrived, and puts the content into the store. 0: it is
// there, or it was damaged and is removed (the entry stays needed).
int xfer_receive_verify(struct receive *r, size_t i, struct err *e);
void xfer_receive_result(struct receive *r, uint64_t files, struct strbuf *out); // the last frame
void xfer_receive_bad(struct receive *r, size_t entry, const struct err *why);
static inline bool xfer_receive_is_small(const struct manifest_entry *n) {
    return n->size <= XFER_SMALL_BYTES_MAX;
}

#endif
