// SPDX-License-Identifier: Apache-2.0
// The inventory: the nodes of a cluster, as TOML in `.dtctl/<cluster>/cluster.toml`. Written by a
// provider's `up`; for provider aws Terraform renders it.
//
//     format = 1
//     name = "demo"
//     provider = "hosts"
//     created = "2026-01-02T03:04:05.678Z"
//     [[node]]
//     name = "gpu01"
//     transport = "ssh"                 # or "local"
//     user = "ubuntu"                   # ssh only; absent: from ~/.ssh/config
//     host = "gpu01.lab"                # ssh only
//     port = 22                         # ssh only; absent: from ~/.ssh/config
//     address = "10.0.0.11"             # numeric, how the nodes reach each other
//     root = ".dtctl"                   # dtctl's folder there; relative to the login's home
//     instance_id = "i-0123456789abcdef0"    # provider aws, with the next five
//     instance_type = "g6.xlarge"
//     zone = "us-east-1a"
//     purchase = "on-demand"            # or "spot", "reservation", "capacity-block"
//     launched = "2026-01-02T03:04:05.678Z"  # when dtctl first saw it
//     config_hash = "…"                 # of the current user data of a new node
//     …                                 # facts that `up` found: arch, cpus, …
//
// Terraform's text has no `created` and no `launched`, since they would differ in every plan.
//
// The file is untrusted input. Pure; all memory is in the arena.
#ifndef CLUSTER_INVENTORY_H
#define CLUSTER_INVENTORY_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    INVENTORY_FORMAT = 1,
    INVENTORY_NODES_MAX = 4096,
    INVENTORY_BYTES_MAX = 8 * 1024 * 1024,
    INVENTORY_NAME_BYTES_MAX = 64,
    INVENTORY_TEXT_BYTES_MAX = 2047,
};

enum inventory_transport { INVENTORY_LOCAL, INVENTORY_SSH };

struct inventory_node {
    const char *name; // unique, valid as a file name
    enum inventory_transport transport;
    const char *user; // NULL: not set
    const char *host; // NULL for local
    int port;         // 0: not set
    const char *address;
    const char *root;
    const char *host_key; // expected key "ssh-ed25519 AAAA…", or NULL
    const char *arch;     // "" when unknown
    const char *dtrun;    // sha256 of the agent that `up` installed, or ""
    const char *instance_id, *instance_type, *zone, *purchase, *launched; // "" or NULL: none
    const char *config_hash;                                              // "" or NULL: none
    int64_t cpus, gpus, memory_bytes;
};

struct inventory {
    const char *name, *provider;
    const char *created; // "" when unknown
    struct inventory_node *nodes;
    size_t count;
};

// file is for messages only. All errors of the file are reported at once, as file:line:column.
int inventory_parse(struct arena *a, const char *text, size_t len, const char *file,
                    struct inventory *out, struct err *e);
void inventory_format(const struct inventory *inv, struct strbuf *out);

// Index of the node, or -1.
int inventory_find(const struct inventory *inv, const char *name);
const char *inventory_transport_name(enum inventory_transport t);

// Selects the nodes of `wanted` (a node set of names, or of hosts or addresses that one node alone
// has; NULL: all) as indices in inventory order.
// ERR_NOT_FOUND suggests the nearest name.
int inventory_select(struct arena *a, const struct inventory *inv, const char *wanted,
                     size_t **indices, size_t *count, struct err *e);

#endif
