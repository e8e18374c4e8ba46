// SPDX-License-Identifier: Apache-2.0
// Fetches, at an interval, files that the nodes of a followed run have finished. The node links
// them (lib/node/node_snapshot.c), this side fetches the links. struct publish_kind says which
// files.
//
//     publish_open(&p, &follow, &kind, every_ms); // every_ms 0: nothing
//     … follow_wait …
//     publish_close(&p); // drops transfers in progress
//
// Of the native trainer, whose nodes have equal results, the first node in reach gives its own.
// Failures are warnings: the run continues.
#ifndef RUN_PUBLISH_H
#define RUN_PUBLISH_H

#include "follow/follow.h"
#include "xfer/xfer.h"

enum {
    PUBLISH_BUSY_MS = 1000, // until a node is asked again whose files are being written
    PUBLISH_LATE = 10,      // intervals without a success until the user is warned
};

struct publish;
struct publish_node;

struct publish_kind {
    const char *what;   // "state", for messages
    const char *option; // of the verb `snapshot`, with a space in front; ""
    const char *folder; // of the run's on the node, with a slash at its end
    bool hashes;        // of files that stay here are cached
    bool checks;        // the node is asked afterwards whether the files have stayed as they were
    int failures_max;   // in a row, without a warning
    void (*init)(struct publish_node *x); // of a node; NULL: nothing
    // False: not now. NULL: always.
    bool (*may)(struct publish_node *x);
    // The folder for the files, prepared; NULL: error.
    const char *(*dest)(struct publish_node *x, struct arena *a, struct err *e);
    int (*keep)(struct publish_node *x, struct err *e); // once the files are there
    // Writes the event of the run (MONITOR_NOTES).
    void (*note)(const struct publish_node *x, const char *files, const char *bytes);
};

struct publish_node {
    struct publish *all;
    struct follow_node *node;
    struct timer next;
    struct xfer *xfer; // NULL: no transfer
    bool asks;         // an answer of the node is due
    bool warned;
    int failures;                // in a row
    char digest[HASH_HEX_BYTES]; // of what is being fetched
    char known[HASH_HEX_BYTES];  // of what came last; "": nothing
    int64_t number;              // for the kind
    int64_t newest_ms;           // monotonic; at first, when the run was followed
    int64_t files, bytes;        // of a generation; else, those that came this time
};

struct publish {
    const struct publish_kind *kind;
    struct follow *follow; // NULL: closed
    int64_t every_ms;
    struct publish_node *nodes;
    int lock;     // for the kind; -1: none
    int64_t kept; // how often something has come
};

void publish_open(struct publish *p, struct follow *f, const struct publish_kind *kind,
                  int64_t every_ms);
void publish_close(struct publish *p);

#endif
