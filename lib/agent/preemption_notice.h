// SPDX-License-Identifier: Apache-2.0
// The preemption notice of a node, written by systemd units on the node: a file of "key=value"
// lines, replaced as a whole.
//
//     kind=spot-terminate|spot-stop|spot-hibernate|rebalance|lease|idle
//     deadline=<seconds since 1970>        0 or absent: unknown
//     node=<name>                          the preempted node; absent: this node
//
// Other keys and empty lines are skipped. Parsing is pure. The watch calls back when the file
// appears, changes or disappears, also when its folder is created later.
//
//     preemption_watch_start(&w, loop, "/run/dtctl/notice", on_notice, e);
//     … on_notice(w, &n), n->kind NOTICE_NONE when it was withdrawn …
//     preemption_watch_stop(&w);
#ifndef AGENT_PREEMPTION_NOTICE_H
#define AGENT_PREEMPTION_NOTICE_H

#include "base/err.h"
#include "sys/file_changes.h"
#include "sys/loop.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    NOTICE_BYTES_MAX = 4096,
    NOTICE_NODE_BYTES_MAX = 256,
    NOTICE_PATH_BYTES_MAX = 1024,
    NOTICE_FOLDERS_MAX = 64, // between the root and the file
};

// kind, word, whether the node is preempted at the deadline
#define NOTICE_KINDS(X)                                                                            \
    X(NOTICE_NONE, "none", false)                                                                  \
    X(NOTICE_SPOT_TERMINATE, "spot-terminate", true)                                               \
    X(NOTICE_SPOT_STOP, "spot-stop", true)                                                         \
    X(NOTICE_SPOT_HIBERNATE, "spot-hibernate", true)                                               \
    X(NOTICE_REBALANCE, "rebalance", false)                                                        \
    X(NOTICE_LEASE, "lease", true)                                                                 \
    X(NOTICE_IDLE, "idle", false)

enum notice_kind {
#define X(code, word, ends) code,
    NOTICE_KINDS(X)
#undef X
};

struct notice {
    enum notice_kind kind;
    int64_t deadline_s; // wall clock; 0: unknown
    char node[NOTICE_NODE_BYTES_MAX];
};

// ERR_FORMAT names the line; a file without a kind is an error, too.
int preemption_notice_parse(const char *text, size_t len, struct notice *out, struct err *e);
const char *preemption_notice_word(enum notice_kind kind); // "spot-stop"
bool preemption_ends_node(enum notice_kind kind);

struct notice_watch;
typedef void notice_cb(struct notice_watch *w, const struct notice *n);
struct notice_watch {
    struct loop *loop; // NULL while stopped
    notice_cb *cb;
    struct watch watch;
    struct timer first;
    struct file_changes changes;
    int folder;   // its watch
    bool puzzled; // the file is malformed, which was logged
    char path[NOTICE_PATH_BYTES_MAX];
    struct notice last;
};

// Calls back from the loop, also for an existing file. path is absolute.
int preemption_watch_start(struct notice_watch *w, struct loop *loop, const char *path,
                           notice_cb *cb, struct err *e);
void preemption_watch_stop(struct notice_watch *w); // no-op when stopped

#endif
