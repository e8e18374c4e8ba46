// SPDX-License-Identifier: Apache-2.0
// terraform.tfvars.json: what the module in infra/ is told, written and read back. Pure.
//
// The file is also the memory of what was chosen once and must stay as long as the cluster lives:
// zone, way to buy, end of the lease, and the host keys of nodes that were not reached yet.
#ifndef AWS_AWS_TFVARS_H
#define AWS_AWS_TFVARS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "conf/aws_config.h"

#include <stddef.h>
#include <stdint.h>

// A host key in OpenSSH's formats, good for the first login only; "" and "": none.
struct aws_vars_key {
    const char *private_key, *public_key;
};

struct aws_vars {
    const char *cluster, *owner, *expires, *region, *purchase;
    const char *made; // random, of the first apply: whoever has another one means another cluster
    const char *zone; // NULL: the module takes the first one that offers the type
    size_t nodes;
    const char **names;        // nodes of them
    struct aws_vars_key *keys; // nodes of them, or NULL
    const char *ssh_public_key;
    const char **operator_cidrs;
    size_t operator_cidr_count;
    int64_t ttl_s, idle_s;
};

void aws_vars_write(struct strbuf *out, const struct aws_config *c, const struct aws_vars *v);
// Strings in the arena; what is missing is "" (zone: NULL), 0 or NULL.
int aws_vars_read(struct arena *a, const char *text, size_t len, struct aws_vars *out,
                  struct err *e);

// backend_override.tf.json: where the state is; and the provider block's twin for the S3 backend.
// path: of the local state. state: "s3://bucket/folder" or "".
void aws_vars_backend(struct strbuf *out, const struct aws_config *c, const char *region,
                      const char *cluster, const char *path);

// "s3://bucket/folder" in its two parts; folder "" when there is none.
void aws_vars_split_s3(struct arena *a, const char *url, const char **bucket, const char **folder);

#endif
