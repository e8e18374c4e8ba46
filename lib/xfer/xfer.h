// SPDX-License-Identifier: Apache-2.0
// Moving files to a node (push) and from it (fetch), content-addressed: the receiving side gets the
// list with hashes first and says what it lacks; only that travels, packed in large frames over the
// standard streams of `dtrun --node push|fetch`, compressed when that helps, each file verified
// by SHA-256 where it arrives, and put in place by rename. What a cut leaves behind is used by the
// next attempt.
//
//     struct xfer *x = xfer_push(link, &spec, &events, ctx, e);   // on_end follows
//
// Ownership: an xfer is a heap object of this module, valid until on_end returns or xfer_cancel.
// The spec's strings are copied; the link and the manifest must outlive the xfer. Several at once
// are fine, also on one link. Errors name the node and the file.
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
    XFER_CONNECTIONS_DEFAULT = 4, // used only when there is enough to send to pay for them
};

struct xfer;

struct xfer_progress {
    uint64_t bytes_done, bytes_total; // content that travels; what is there already is not counted
    uint64_t bytes_wire;              // after compression
    size_t files_done, files_total;   // files that travel
    size_t files_all;                 // in the manifest
    uint64_t bytes_all;
    const char *phase; // "connect", "compare", "send", "receive", "place"
};

struct xfer_events {
    // At most every 50 ms and at changes of phase; may be NULL.
    void (*on_progress)(struct xfer *x, void *ctx, const struct xfer_progress *p);
    // Last one; e->code is ERR_NONE when all is in place.
    void (*on_end)(struct xfer *x, void *ctx, const struct err *e, const struct xfer_progress *p);
};

enum xfer_mode {
    XFER_MERGE,   // files of the manifest are added or replaced one by one, others stay
    XFER_REPLACE, // the destination becomes exactly the manifest, switched over in one step
};

struct xfer_push_spec {
    const char *program; // node_facts.program
    const char *root;    // node_facts.root
    const char *dest;    // folder on the node: below root unless absolute or "~/…"
    enum xfer_mode mode;
    const struct manifest *manifest; // hashed
    int connections;                 // 0: XFER_CONNECTIONS_DEFAULT
    bool no_compress;
};

struct xfer_fetch_spec {
    const char *program, *root;
    const char *const *paths; // on the node: below root unless absolute or "~/…"; NULL-terminated.
                              // A folder with a trailing '/' gives its content, without: itself
    const char *dest;            // local folder, made when absent; one per node
    const char *hash_cache_path; // NULL: none
    const char *const *exclude;  // ignore patterns; NULL: none
    bool missing_ok;             // a path that is not there is no error
    bool no_compress;
};

struct xfer *xfer_push(struct transport_link *l, const struct xfer_push_spec *spec,
                       const struct xfer_events *events, void *ctx, struct err *e);
struct xfer *xfer_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx, struct err *e);
void xfer_cancel(struct xfer *x); // no callback; what has arrived is kept for the next attempt
const char *xfer_node_name(const struct xfer *x);

#endif
