// SPDX-License-Identifier: Apache-2.0
// Sends files to a node (push) and fetches files from it (fetch), content-addressed. The receiver
// first gets the list with hashes and replies with the entries that it lacks. Only their content is
// sent, packed in large frames over the standard streams of `dtrun --node push|fetch`, compressed
// when that helps. The receiver verifies each file by SHA-256 and renames it into place. The next
// attempt reuses what an interrupted one has stored.
//
//     struct xfer *x = xfer_push(link, &spec, &events, ctx, e); // on_end follows
//
// Ownership: an xfer is a heap object of this module, valid until on_end returns or xfer_cancel.
// The spec's strings are copied; the link and the manifest must outlive the xfer. Several transfers
// may run at once, also on one link. Errors name the node and the file.
#ifndef XFER_XFER_H
#define XFER_XFER_H

#include "base/err.h"
#include "content/manifest.h"
#include "remote/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    XFER_CONNECTIONS_MAX = 16,
    XFER_CONNECTIONS_DEFAULT = 4, // used only for amounts of data that justify them
};

struct xfer;
struct fanout;

struct xfer_progress {
    uint64_t bytes_done, bytes_total; // content that is sent; existing content is not counted
    uint64_t bytes_wire;              // after compression
    size_t files_done, files_total;   // files that are sent
    size_t files_all;                 // in the manifest
    uint64_t bytes_all;
    const char *phase; // "connect", "compare", "send", "receive", "place"
};

struct xfer_events {
    // At most every 50 ms, and when the phase changes; may be NULL.
    void (*on_progress)(struct xfer *x, void *ctx, const struct xfer_progress *p);
    // The last callback; e->code is ERR_NONE on success.
    void (*on_end)(struct xfer *x, void *ctx, const struct err *e, const struct xfer_progress *p);
};

enum xfer_mode {
    XFER_MERGE,   // files of the manifest are added or replaced one by one; others stay
    XFER_REPLACE, // the destination becomes equal to the manifest in one step
};

// Findings of a push whose content is on the nodes alone; in memory of the caller.
struct xfer_peers {
    bool *lacks;   // by entry of the manifest: no other node could give it
    size_t lacked; // files that the node lacked at first
    bool gives;    // set by the caller: the node only gives; it gets and places nothing
};

struct xfer_push_spec {
    const char *program; // node_facts.program
    const char *root;    // node_facts.root
    const char *dest;    // folder on the node: below root unless absolute or "~/…"
    enum xfer_mode mode;
    const struct manifest *manifest; // with hashes
    int connections;                 // 0: XFER_CONNECTIONS_DEFAULT
    bool no_compress;
    struct fanout *fanout; // pushes that may pass content from node to node (fanout.h); or NULL
    // NULL: content is read here. Else nodes of the group that have content give it to the others;
    // a node that lacks some in the end places nothing more, which is no error.
    struct xfer_peers *peers;
    const char *address; // at which the other nodes reach this one; numeric; NULL: unknown
    // Results of earlier runs, as RUN/PART below `runs` of the root, from whose files the node
    // takes content that its store lacks (content/cas_donor.h); NULL: none. PART: output, model,
    // state or work. owner: the id of the cluster, whose mark the runs must have.
    const char *const *results;
    const char *owner;
};

struct xfer_fetch_spec {
    const char *program, *root;
    const char *const *paths; // on the node: below root unless absolute or "~/…"; NULL-terminated.
                              // "DIR/" fetches the content of a folder, "DIR" the folder itself
    const char *dest;            // local folder, created when absent; one per node
    const char *hash_cache_path; // NULL: none
    const char *const *exclude;  // ignore patterns; NULL: none
    bool missing_ok;             // a missing path is no error
    bool no_compress;
};

struct xfer *xfer_push(struct transport_link *l, const struct xfer_push_spec *spec,
                       const struct xfer_events *events, void *ctx, struct err *e);
struct xfer *xfer_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx, struct err *e);
void xfer_cancel(struct xfer *x); // no callback; received data is kept for the next attempt

#endif
