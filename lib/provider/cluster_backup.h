// SPDX-License-Identifier: Apache-2.0
// Records: a backup of a cluster's folder on its own nodes, so that another folder can use the
// cluster when the first one is lost. A record is one line of text, sealed with the cluster's login
// key: nodes can neither read nor change it. The login key and one reachable node suffice to adopt
// the cluster (aws_adopt.h). Clusters without a login key of their own have no records.
//
//     .dtctl/record             of the cluster, on RECORD_NODES_MAX nodes; by `up` and `extend`
//     .dtctl/runs/<run>/record  of a run, on its nodes; by `train`
//
// dtctl-record-1 <kind> <base64 of the sealed TOML>
#ifndef PROVIDER_CLUSTER_BACKUP_H
#define PROVIDER_CLUSTER_BACKUP_H

#include "base/aes_gcm.h"
#include "cluster/run_record.h"
#include "content/manifest.h"
#include "fleet/fleet.h"

enum {
    RECORD_NODES_MAX = 3,                 // nodes with the cluster's record
    RECORD_LINE_BYTES_MAX = 24 << 20,     // of base64
    RECORD_KEY_FILE_BYTES_MAX = 64 << 10, // private key file of the seal
};

enum record_kind { RECORD_CLUSTER, RECORD_RUN };

// Puts the cluster's record onto its nodes. A failure is a warning, since the cluster works without
// records. Uses the nodes' work. -1 only when interrupted.
int cluster_backup_leave(struct fleet *f, struct err *e);
// Adds the run's record to the files for its nodes; the text is in the context's arena.
int cluster_backup_add_run(struct context *s, const struct run *r, struct manifest *m,
                           struct err *e);

// ---- parts that are pure, or touch this computer alone ----
// Derives the sealing key from a private key file (from its base64 body, independent of line
// lengths).
int cluster_backup_key(struct arena *a, const char *path, unsigned char key[AES_GCM_KEY_BYTES],
                       struct err *e);
// One line with its newline, in the arena.
int cluster_backup_close(struct arena *a, const unsigned char key[AES_GCM_KEY_BYTES],
                         enum record_kind kind, const char *text, size_t len, const char **line,
                         struct err *e);
// The kind of a line (without newline); -1: not a record.
int cluster_backup_kind_of(const char *line, size_t len);
int cluster_backup_open(struct arena *a, const unsigned char key[AES_GCM_KEY_BYTES],
                        enum record_kind kind, const char *line, size_t len, char **text,
                        size_t *text_len, struct err *e);

// Files of the cluster's folder in a record, in the order of writing; NULL-terminated.
extern const char *const record_files[];

#endif
