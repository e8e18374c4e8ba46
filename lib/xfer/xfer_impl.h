// SPDX-License-Identifier: Apache-2.0
// The common part of push and fetch on the operator's side. Private to lib/xfer.
#ifndef XFER_XFER_IMPL_H
#define XFER_XFER_IMPL_H

#include "protocol/node_protocol.h"
#include "xfer/xfer.h"
#include "xfer/xfer_frame.h"

enum {
    XFER_TICK_MS = 50,
    XFER_STDERR_BYTES_MAX = 4096,
    XFER_FAR_US = 3000, // from this round trip on, sshd's window of 2 MB limits one connection
};

struct xfer {
    struct transport_link *link; // not valid once `ended`: the caller may have closed it
    struct loop *loop;
    const char *node;
    const struct xfer_events *events;
    void *ctx;
    struct arena arena;
    struct xfer_progress progress;
    struct err err;
    struct timer tick, finish;
    void (*on_tick)(struct xfer *x);
    void (*stop)(struct xfer *x);    // closes runs and links
    void (*destroy)(struct xfer *x); // frees x and all its parts
    bool ended, in_callback, cancelled;
    int64_t load_wall_ns, load_cpu_ns;
    int busy_percent; // recent CPU time of this process per wall time
    uint64_t load_wire;
    uint64_t wire_rate; // recent bytes per second on the connections
};

// One run of the agent and the frames it sends.
struct xfer_channel {
    struct transport_run *run;
    struct strbuf in, err_text, out;
    size_t out_sent;
    struct xfer_unpacker unpacker;
    bool in_ended;
    bool stays; // the agent accepts another verb after this one
};

void xfer_start(struct xfer *x, struct transport_link *l, const struct xfer_events *events,
                void *ctx);
// Ends the transfer; on_end follows from the loop. Later calls have no effect.
void xfer_finish(struct xfer *x, const struct err *e);
// Ends the transfer at once, from the last callback of a run. A caller thus learns the end of a
// transfer before the loss of its link. x is freed.
void xfer_finish_now(struct xfer *x, const struct err *e);
void xfer_free(struct xfer *x); // the common part, then x

// Reuses an agent that stayed, or starts one.
int xfer_channel_open(struct xfer_channel *c, struct transport_link *l, const char *program,
                      enum node_verb_code verb, const char *root,
                      const struct transport_run_events *events, void *ctx, struct err *e);
void xfer_channel_close(struct xfer_channel *c);
// Keeps the agent, which waits for its next verb, for the next transfer on this link.
void xfer_channel_park(struct transport_run *r, const char *program, const char *root);
// Sends from c->out while there is room; true when all is sent.
bool xfer_channel_flush(struct xfer_channel *c);
// Describes the premature end of the agent.
void xfer_channel_explain(const struct xfer_channel *c, const struct transport_end *end,
                          const char *node, struct err *e);

#endif
