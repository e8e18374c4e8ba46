// SPDX-License-Identifier: Apache-2.0
// Adopts a cluster that was made from another folder or computer. Reads its records from one of its
// nodes, opens them with the cluster's login key, and writes them to this folder.
//
//     aws_adopt_cluster(context, "ubuntu@203.0.113.7", "id_ed25519", &adopted, e);
//
// The host key of the first node is unknown at this point. dtctl sends it no secret, and accepts
// only data sealed with the cluster's key. That data contains all host keys, by which every node is
// then contacted again.
#ifndef AWS_AWS_ADOPT_H
#define AWS_AWS_ADOPT_H

#include "provider/provider.h"

enum { ADOPT_BYTES_MAX = 64 << 20 /* of all records of one node */ };

// login: [user@]address[:port] of a node that has the record. The context's cluster must have the
// name in the record. If it is here with the same login key, login is of one of its nodes, and all
// are asked for runs that are not here; with another key it is an error. ERR_SOME_FAILED: the
// cluster is adopted, but some nodes could not be asked about their runs. After other errors it is
// as before.
int aws_adopt_cluster(struct context *s, const char *login, const char *key_path,
                      struct provider_adopted *out, struct err *e);

#endif
