// SPDX-License-Identifier: Apache-2.0
// The inventory: which nodes a cluster has, as TOML in `.dtctl/<cluster>/cluster.toml`. Written by
// a provider's `up`, read by everything else; for provider aws Terraform renders it.
//
//     format = 1
//     name = "demo"
//     provider = "hosts"
//     created = "2026-01-02T03:04:05.678Z"
//     [[node]]
//     name = "gpu01"
//     transport = "ssh"                 # or "local"
//     user = "ubuntu"                   # ssh only; absent: as ~/.ssh/config says
//     host = "gpu01.lab"                # ssh only
//     port = 22                         # ssh only; absent: as ~/.ssh/config says
//     address = "10.0.0.11"             # numeric, how the nodes reach each other
//     root = ".dtctl"                   # dtctl's folder there; relative to the login's home
//     instance_id = "i-0123456789abcdef0"    # provider aws, with the next five
//     instance_type = "g6.xlarge"
//     zone = "us-east-1a"
//     purchase = "on-demand"            # or "spot", "reservation", "capacity-block"
//     launched = "2026-01-02T03:04:05.678Z"  # when dtctl first saw it
//     config_hash = "…"                 # of what cloud-init is told, as it would be rendered now
//     …                                 # facts that `up` found: arch, cpus, …
//
// What Terraform renders has no `created` and no `launched`: they would differ in every plan.
//
// The file is input from outside: everything is checked. Pure but for memory, all in the arena.
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
    const char *name; // unique, fit for a file name
    enum inventory_transport transport;
    const char *user; // NULL: not given
    const char *host; // NULL for local
    int port;         // 0: not given
    const char *address;
    const char *root;
    const char *host_key; // "ssh-ed25519 AAAA…" to expect, or NULL
    const char *arch;     // "" when not known yet
    const char *dtrun;    // sha256 of the agent that `up` put there, or ""
    const char *instance_id, *instance_type, *zone, *purchase, *launched; // "" or NULL: none
    const char *config_hash;                                              // "" or NULL: none
    int64_t cpus, gpus, memory_bytes;
};

struct inventory {
    const char *name, *provider;
    const char *created; // "" when not known
    struct inventory_node *nodes;
    size_t count;
};

// file is for messages only. Every error of the file is reported at once, as file:line:column.
int inventory_parse(struct arena *a, const char *text, size_t len, const char *file,
                    struct inventory *out, struct err *e);
void inventory_format(const struct inventory *inv, struct strbuf *out);

// Index of the node, or -1.
int inventory_find(const struct inventory *inv, const char *name);
const char *inventory_transport_name(enum inventory_transport t);

// The chosen nodes of `wanted` (a node set of names; NULL: all) as indices in inventory order.
// ERR_NOT_FOUND suggests the nearest name.
int inventory_select(struct arena *a, const struct inventory *inv, const char *wanted,
                     size_t **indices, size_t *count, struct err *e);

#endif
