// SPDX-License-Identifier: Apache-2.0
// Bootstrap: installs the agent program (dtrun) on a node that has only a shell, and reads facts
// about the node. `<root>/bin/dtrun-<first 16 hex digits of sha256>` is reused if it sends a valid
// hello. Otherwise the bytes are sent through `cat`, verified by hash on the node, and renamed into
// place.
//
// Takes ownership of nothing; strings of node_facts are valid during the callback only.
#ifndef XFER_AGENT_BOOTSTRAP_H
#define XFER_AGENT_BOOTSTRAP_H

#include "base/err.h"
#include "remote/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The output of `dtrun --node hello` (node_hello.c writes it).
struct node_facts {
    const char *program; // path of the agent on the node, absolute
    const char *root;    // the node's dtctl folder, absolute
    const char *version; // version of dtctl
    const char *sha256;  // of the program file, 64 hex digits
    const char *arch;    // uname -m
    const char *kernel;  // uname -r
    const char *hostname;
    const char *user;
    int cpus; // available to a process
    int gpus; // NVIDIA devices of the kernel driver
    uint64_t memory_bytes;
    uint64_t disk_free_bytes; // of root, for an ordinary user
    int64_t clock_ms;         // wall clock of the node at its hello
    int64_t clock_skew_ms; // clock of the node minus local clock, corrected by half the round trip
    bool uploaded;         // the program was not installed before
};

struct agent_install_spec {
    const char *root; // on the node; "~/…" or absolute
    const void *data; // bytes of dtrun, kept by the caller until the callback
    size_t size;
    const char *sha256; // 64 hex digits of data
    bool stay;          // keep the agent running for the transfers that follow
};

// on_done: exactly one of facts and e is NULL. on_progress may be NULL.
struct agent_install_events {
    void (*on_progress)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
    void (*on_done)(void *ctx, const struct node_facts *facts, const struct err *e);
};

int agent_install(struct transport_link *l, const struct agent_install_spec *spec,
                  const struct agent_install_events *events, void *ctx, struct err *e);

// Parses the line that `--node hello` prints. Pure; strings are in the arena.
struct arena;
int agent_install_parse(struct arena *a, const char *text, size_t len, struct node_facts *f,
                        struct err *e);

#endif
