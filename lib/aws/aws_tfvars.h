// SPDX-License-Identifier: Apache-2.0
// terraform.tfvars.json, the input of the module in infra/: writer and reader. Pure.
//
// The file also keeps choices that must not change while the cluster exists: zone, purchase option,
// placement, end of the lease, and host keys of nodes that were not reached yet.
#ifndef AWS_AWS_TFVARS_H
#define AWS_AWS_TFVARS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "conf/config.h"

#include <stddef.h>
#include <stdint.h>

// A host key in OpenSSH's formats, valid for the first login only; "" and "": none.
struct aws_vars_key {
    const char *private_key, *public_key;
};

struct aws_vars {
    const char *cluster, *owner, *expires, *region, *purchase;
    const char *made; // random, from the first apply; identifies the cluster
    const char *zone; // NULL: the module takes the first zone that offers the type
    bool outside_group;
    size_t nodes;
    const char **names;        // one per node
    struct aws_vars_key *keys; // one per node, or NULL
    const char *ssh_public_key;
    const char **operator_cidrs;
    size_t operator_cidr_count;
    int64_t ttl_s, idle_s;
};

void aws_vars_write(struct strbuf *out, const struct aws_config *c, const struct aws_vars *v);
// Parses the file. Strings are in the arena; missing members are "" (zone: NULL), 0 or NULL.
int aws_vars_read(struct arena *a, const char *text, size_t len, struct aws_vars *out,
                  struct err *e);

// The option that sets a variable; NULL: none does.
const char *aws_vars_option(const struct config *c, const char *variable);

// backend_override.tf.json: the place of the state, and a copy of the provider block for the S3
// backend. path: of the local state. state: "s3://bucket/folder" or "".
void aws_vars_backend(struct strbuf *out, const struct aws_config *c, const char *region,
                      const char *cluster, const char *path);

// Splits "s3://bucket/folder"; folder may be "".
void aws_vars_split_s3(struct arena *a, const char *url, const char **bucket, const char **folder);

#endif
