// SPDX-License-Identifier: Apache-2.0
// Taking over a cluster that another folder, or another computer, brought up: its records are read
// from one of its nodes, opened with its login key, and become this folder's.
//
//     adopt_cluster(context, "ubuntu@203.0.113.7", "id_ed25519", &adopted, e);
//
// The first node's host key cannot be known yet. Nothing secret is said to it, and nothing that it
// says is believed unless the cluster's key sealed it; host keys are among that, and every node is
// reached again by them.
#ifndef AWS_AWS_ADOPT_H
#define AWS_AWS_ADOPT_H

#include "provider/provider.h"

enum { ADOPT_BYTES_MAX = 64 << 20 /* of all records of one node */ };

// login: [user@]address[:port] of a node that has the record. The context's cluster must not exist
// here, and must be called as the record says. ERR_SOME_FAILED when it is adopted, and nodes could
// not be asked about their runs.
int adopt_cluster(struct context *s, const char *login, const char *key_path,
                  struct provider_adopted *out, struct err *e);

#endif
