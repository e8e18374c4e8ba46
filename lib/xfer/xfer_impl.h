// SPDX-License-Identifier: Apache-2.0
// What push and fetch share on the operator's side. Only for lib/remote.
#ifndef XFER_XFER_IMPL_H
#define XFER_XFER_IMPL_H

#include "xfer/xfer.h"
#include "xfer/xfer_frame.h"

enum {
    XFER_TICK_MS = 50,
    XFER_STDERR_BYTES_MAX = 4096,
    XFER_FAR_US = 3000, // round trip from which sshd's window of 2 MB holds one connection back
};

struct xfer {
    struct transport_link *link; // not to be used once `ended`: the caller may close it first
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
    void (*destroy)(struct xfer *x); // frees, x included
    bool ended, in_callback, cancelled;
    int64_t load_wall_ns, load_cpu_ns;
    int busy_percent; // CPU time of this process per wall time, lately
    uint64_t load_wire;
    uint64_t wire_rate; // bytes per second on the connections, lately
};

// One run of the agent and the frames from it.
struct xfer_channel {
    struct transport_run *run;
    struct strbuf in, err_text, out;
    size_t out_sent;
    struct xfer_unpacker unpacker;
    bool in_ended;
    bool stays; // the agent will take another verb after this one
};

void xfer_start(struct xfer *x, struct transport_link *l, const struct xfer_events *events,
                void *ctx);
// Ends it soon, with on_end from the loop; only the first call counts.
void xfer_finish(struct xfer *x, const struct err *e);
// The same at once, for the last callback of a run: a caller that hears of a lost link has then
// heard of the transfers on it before. x is gone afterwards.
void xfer_finish_now(struct xfer *x, const struct err *e);
void xfer_free(struct xfer *x); // the common part, then x

// Takes over an agent that stayed, or starts one.
int xfer_channel_open(struct xfer_channel *c, struct transport_link *l, const char *program,
                      const char *verb, const char *root, const struct transport_run_events *events,
                      void *ctx, struct err *e);
void xfer_channel_close(struct xfer_channel *c);
// Keeps the agent for the next transfer on this link; it waits for its verb.
void xfer_channel_park(struct transport_run *r, const char *program, const char *root);
// Sends what is in c->out as far as there is room; true when all is out.
bool xfer_channel_flush(struct xfer_channel *c);
// Why the agent's end came too early.
void xfer_channel_explain(const struct xfer_channel *c, const struct transport_end *end,
                          const char *node, struct err *e);

#endif
