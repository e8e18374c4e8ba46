// SPDX-License-Identifier: Apache-2.0
// Bootstrap: puts the agent program (dtrun) on a node that has nothing but a shell, and asks it
// what the node is. `<root>/bin/dtrun-<first 16 hex of sha256>` is used as it is when it says
// hello; otherwise the bytes go there through `cat`, are verified there by hash, and renamed into
// place.
//
// Owns nothing of the caller; all strings of node_facts are valid during the callback only.
#ifndef XFER_AGENT_BOOTSTRAP_H
#define XFER_AGENT_BOOTSTRAP_H

#include "base/err.h"
#include "remote/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What `dtrun --node hello` says (node_transfer.h writes it).
struct node_facts {
    const char *program; // path of the agent on the node, absolute
    const char *root;    // the node's dtctl folder, absolute
    const char *version; // of dtctl it was built with
    const char *sha256;  // of the program file, 64 hex digits
    const char *arch;    // uname -m
    const char *kernel;  // uname -r
    const char *hostname;
    const char *user;
    int cpus; // that a process may use
    int gpus; // NVIDIA devices the kernel driver shows
    uint64_t memory_bytes;
    uint64_t disk_free_bytes; // of root, for an ordinary user
    int64_t clock_ms;         // wall clock there when it said hello
    int64_t clock_skew_ms;    // there minus here, halved round trip taken off
    bool uploaded;            // the program was not there before
};

struct agent_install_spec {
    const char *root; // on the node; "~/…" or absolute
    const void *data; // dtrun's bytes, kept by the caller until the callback
    size_t size;
    const char *sha256; // 64 hex digits of data
    bool stay;          // transfers follow: the agent stays, so that they need not start it again
};

// on_done: exactly one of facts and e is NULL. on_progress may be NULL.
struct agent_install_events {
    void (*on_progress)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
    void (*on_done)(void *ctx, const struct node_facts *facts, const struct err *e);
};

int agent_install(struct transport_link *l, const struct agent_install_spec *spec,
                  const struct agent_install_events *events, void *ctx, struct err *e);

// Pure: reads the line that `--node hello` printed; strings are in the arena.
struct arena;
int agent_install_parse(struct arena *a, const char *text, size_t len, struct node_facts *f,
                        struct err *e);

#endif
