// SPDX-License-Identifier: Apache-2.0
// The objects of a node's streamed inputs: which are in its content store, which come, and what is
// read next. Readers that wait come first, in turn; then objects are fetched ahead in the order of
// the list, from the one that was asked for last, up to the input's window. Where the cache is
// smaller than the data, the object that was read longest ago is removed.
//
// A reader of few bytes gets them by a request of its own when their unit is still to come, so that
// samples from all over the data do not wait for all of it. The unit brings these bytes once more;
// STREAM_ALONE_PART bounds how many.
//
//     stream_store_open(&s, dir, e);
//     in = stream_store_input(&s, "train", window, cache_max); stream_store_add(&s, in, &want, …);
//     stream_store_scan(&s, e);                 // what is there already
//     s.http = http_open(…); for (;;) stream_store_step(&s, fd, ms, e);
//
// One thread; nothing is called from outside stream_store_step but the functions below.
#ifndef STREAM_STREAM_STORE_H
#define STREAM_STREAM_STORE_H

#include "object/known_hashes.h"
#include "object/object_check.h"
#include "object/object_range.h"

#include <sys/types.h>

enum {
    STREAM_INPUTS_MAX = 64,
    STREAM_OBJECTS_MAX = 200000,       // of all inputs
    STREAM_SPARE_BYTES = 64 << 20,     // of the disk
    STREAM_ALONE_BYTES_MAX = 1 << 20,  // of such a request
    STREAM_ALONE_WHOLE_MAX = 16 << 20, // of an object, where the server may know no ranges
    STREAM_ALONE_PART = 8,             // the bytes of an input that come so: 1 of 8
    STREAM_AHEAD_CALLS_MAX = 12        // under way when fetching ahead begins another one
};

enum stream_state {
    STREAM_ABSENT,
    STREAM_COMING,   // or a part of it has come
    STREAM_CHECKING, // all of it has come; its hash is computed
    STREAM_WHOLE
};

struct stream_input {
    const char *name;
    uint64_t window, cache_max; // bytes; cache_max 0: the disk alone limits it
    uint64_t total;             // objects of the whole input, on all nodes
    size_t first, count;        // its objects, in the order of reading
    uint64_t bytes;             // of all its objects
    uint64_t unread;            // of objects that were fetched ahead and not asked for yet
    uint64_t kept;              // of objects that are on the disk, or come
    uint64_t alone;             // that readers got by requests of their own
    bool ranged, whole_only;    // its server has sent a range, or all of an object in its place
    size_t missing;             // objects that are not whole
    size_t next;                // where fetching ahead continues
    bool reported_whole;
    int64_t ends_ms;                       // of its addresses, monotonic; 0: none
    int64_t asked_ms;                      // for new ones; 0: not since they are as they are
    bool sent_over;                        // the end of the run was asked for
    struct stream_object *oldest, *newest; // on the disk, by their last use
};

struct stream_coming;

struct stream_object {
    struct object_want want;
    const char *path; // in the input
    uint64_t index;   // in the whole input
    struct stream_input *input;
    enum stream_state state;
    bool packed; // WHOLE, in a pack of the store
    bool unread;
    uint32_t readers;
    unsigned char hash[HASH_BYTES]; // WHOLE
    struct stream_coming *coming;
    char *url;          // want.url, when it was renewed; NULL: it is the first one
    int64_t listed_ms;  // by a renewal, monotonic; 0: never
    bool changed, gone; // as the newest renewal has it
    struct err *why;    // the newest try has failed; NULL: none has
    struct stream_object *older, *newer;
};

struct stream_reader {
    struct stream_object *object; // NULL: idle
    uint64_t at, end;             // what is still to be read
    bool asks;                    // a request of its own is under way
    char *own;                    // its bytes own_from … own_end - 1; NULL: they have not come
    uint64_t own_from, own_end;
    int fd;      // of a whole object; -1: not open
    char *small; // content from a pack
    struct stream_reader *before, *after;
};

struct stream_slot {
    struct object_range range;
    struct stream_store *store;
    struct stream_object *object; // NULL: idle
    bool alone;                   // bytes of a reader, no units
    bool urgent;                  // a reader waits for them
    struct stream_reader *reader; // NULL: it has gone
};

struct stream_store {
    struct arena arena;
    struct cas cas;
    struct known known;
    struct http *http;
    struct stream_input inputs[STREAM_INPUTS_MAX];
    size_t input_count;
    struct stream_object *objects;
    size_t count, room;
    struct stream_slot slots[OBJECT_CALLS_MAX];
    struct stream_reader *first, *last; // readers, in the order of their turns
    struct object_checks checks;
    uint64_t to_come;               // bytes of the missing units of objects that come
    uint64_t read, evicted, served; // bytes: from servers, removed, to readers
    // Asks the operator's computer for the range of a slot; NULL: it cannot be reached now.
    void (*ask)(void *ctx, size_t slot, const struct stream_slot *x);
    void *ask_ctx;
    // An object cannot be had; all objects of an input are there. NULL: not called.
    void (*on_failed)(void *ctx, const struct stream_object *o);
    void (*on_whole)(void *ctx, const struct stream_input *in);
    void *ctx;
};

int stream_store_open(struct stream_store *s, const char *dir, struct err *e);
void stream_store_close(struct stream_store *s); // also closes s->http
struct stream_input *stream_store_input(struct stream_store *s, const char *name, struct err *e);
// Appends to the newest input. Strings are the caller's.
int stream_store_add(struct stream_store *s, const struct object_want *want, const char *path,
                     uint64_t index, struct err *e);
int stream_store_scan(struct stream_store *s, struct err *e);
// Looks anew, in a process that has not fetched anything yet: another one has changed the store.
int stream_store_reopen(struct stream_store *s, const char *dir, struct err *e);

// Works for at most timeout_ms, or until fd is readable.
int stream_store_step(struct stream_store *s, int fd, int timeout_ms, struct err *e);

// Asks for a part of an object. An object that had failed is tried again.
void stream_reader_begin(struct stream_store *s, struct stream_reader *r, struct stream_object *o,
                         uint64_t from, uint64_t len);
// Bytes from r->at on that can be read now; 0: wait, or r->object->why says why they never come.
uint64_t stream_reader_ready(struct stream_store *s, struct stream_reader *r);
// Reads at most len of them and moves r->at; 0: they are gone, and come again.
ssize_t stream_reader_read(struct stream_store *s, struct stream_reader *r, void *buf, size_t len,
                           struct err *e);
void stream_reader_end(struct stream_store *s, struct stream_reader *r);

#endif
