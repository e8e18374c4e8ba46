// SPDX-License-Identifier: Apache-2.0
// The sending end of a transfer: a plan of what to send, made from the receiver's requests, and one
// stream per connection that turns the plan into frames. All streams take work from one plan.
// Unacknowledged work of a closed stream returns to the plan.
//
// Reads local files (blocking, in pieces). The manifest belongs to the caller and must outlive the
// plan.
#ifndef XFER_XFER_SENDER_H
#define XFER_XFER_SENDER_H

#include "base/err.h"
#include "base/str.h"
#include "content/manifest.h"
#include "xfer/xfer_frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SEND_BATCH_FILES_MAX = 4096 };

// A range of small files, or one unit of a large file.
struct send_unit {
    uint32_t first, count; // small: range of plan->small
    uint32_t entry, unit;  // large file, when count is 0
    uint32_t bytes;
};

struct send_plan {
    const struct manifest *m;
    uint32_t *small; // entries
    size_t small_count, small_room;
    struct send_unit *units;
    size_t count, room;
    size_t front, back;      // units not yet assigned: [front, back)
    struct send_unit *again; // returned units
    size_t again_count, again_room;
    bool *bad; // per entry: could not be read
    uint64_t bytes;
    size_t files;
};

void xfer_send_plan_init(struct send_plan *p, const struct manifest *m);
void xfer_send_plan_fini(struct send_plan *p);
int xfer_send_plan_need(struct send_plan *p, const struct xfer_frame *f,
                        struct err *e); // a NEED frame
// Adds what any of some plans of the same manifest has; before they and this one are ready.
void xfer_send_plan_unite(struct send_plan *to, const struct send_plan *const *from, size_t count);
// Adds what a plan has but for entries with a mark.
void xfer_send_plan_without(struct send_plan *to, const struct send_plan *from,
                            const unsigned char *marks);
void xfer_send_plan_ready(struct send_plan *p);       // after the last NEED
bool xfer_send_plan_empty(const struct send_plan *p); // all work is assigned

// The work of one connection: units in order, kept until acknowledged.
struct send_stream {
    struct send_plan *plan;
    bool from_back; // takes units from the end of the plan, so that two streams meet in the middle
    struct xfer_packer packer;
    struct send_unit *out; // ring of units in transit
    size_t out_first, out_count, out_room;
    bool active;       // the last unit of `out` is being sent
    uint32_t position; // bytes (large) or files (small) of that unit already sent
    int fd;
    uint32_t fd_entry;
    uint64_t sent, acked; // content bytes
    uint64_t retired;     // content bytes of units that are complete at the far end
};

void xfer_send_stream_init(struct send_stream *s, struct send_plan *p, bool from_back);
void xfer_send_stream_fini(struct send_stream *s);
// Appends one frame. 1: appended, 0: nothing to send now. Reports unreadable files to the receiver.
int xfer_send_stream_fill(struct send_stream *s, struct strbuf *out, bool compress, struct err *e);
int xfer_send_stream_ack(struct send_stream *s, uint64_t content_bytes, struct err *e);
void xfer_send_stream_return(struct send_stream *s); // returns unacknowledged work to the plan

#endif
