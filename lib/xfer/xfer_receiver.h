// SPDX-License-Identifier: Apache-2.0
// The receiving end of a transfer, on a node (push) or here (fetch): a state machine that takes
// frames, gives frames, and does its disk work in steps, so that an event loop can run it.
//
//     receive_open(&r, &config, e);
//     receive_frame(&r, &frame, &out, e);                  // for each frame that came
//     while ((rc = receive_step(&r, &out, e)) > 0) …;      // 0: waits for frames, or r.finished
//     receive_close(&r);
//
// What arrived is kept for the next attempt when it is closed unfinished. With keep (a push), all
// of it is on the disk before the result is sent; a fetch leaves that to its caller, who knows when
// the last node is through.
#ifndef XFER_XFER_RECEIVER_H
#define XFER_XFER_RECEIVER_H

#include "base/arena.h"
#include "base/err.h"
#include "content/cas.h"
#include "content/manifest.h"
#include "content/tree_writer.h"
#include "xfer/xfer_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECEIVE_STEP_ENTRIES = 512,    // looked at per step
    RECEIVE_STEP_BYTES = 32 << 20, // hashed per step
    RECEIVE_PROGRESS_MS = 200,
};

struct receive_config {
    const char *dest;          // folder; NULL for a further connection of a push, which only stores
    const char *store;         // folder of struct cas
    struct hash_cache *hashes; // without keep: the caller's, who saves it; NULL: none
    bool replace;
    bool keep; // content stays in the store for later transfers
    bool acks;
};

enum receive_phase {
    RECEIVE_LIST,    // entries come
    RECEIVE_COMPARE, // what is there already?
    RECEIVE_CONTENT,
    RECEIVE_FINISH, // verify and put in place
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
    bool changes; // something differs from what is at the destination
    struct strbuf needs;
    struct cas_part part; // being received, or verified
    bool part_open, verifying;
    struct cas_part old; // a large file at the destination that is being compared
    bool old_open;
    uint64_t need_bytes, got_bytes, acked_bytes;
    size_t need_files, got_files, placed;
    int64_t progress_ms;
    size_t bad;
    struct err bad_first;
    size_t strays, stray_first; // links that lead out of the folder, which are left out
};

int receive_open(struct receive *r, const struct receive_config *config, struct err *e);
int receive_frame(struct receive *r, const struct xfer_frame *f, struct strbuf *out, struct err *e);
int receive_step(struct receive *r, struct strbuf *out, struct err *e);
void receive_close(struct receive *r);

// Between xfer_receiver.c, xfer_receiver.c and xfer_receiver_finish.c.
enum entry_state {
    ENTRY_NEW,    // not looked at
    ENTRY_SAME,   // the destination has it
    ENTRY_MODE,   // the destination has the content, with another mode
    ENTRY_STORED, // the content is in the store
    ENTRY_NEEDED, // the content must come
    ENTRY_PLACED,
    ENTRY_BAD,
};
uint32_t receive_find(const struct receive *r, const unsigned char hash[HASH_BYTES]); // + 1, or 0
int receive_save(struct receive *r, struct err *e); // the cache of hashes
int receive_compare(struct receive *r, struct strbuf *out, struct err *e);
int receive_finish(struct receive *r, struct strbuf *out, struct err *e);
void receive_result(struct receive *r, uint64_t files, struct strbuf *out); // the last frame
void receive_bad(struct receive *r, size_t entry, const struct err *why);
static inline bool receive_is_small(const struct manifest_entry *n) {
    return n->size <= XFER_SMALL_BYTES_MAX;
}

#endif
