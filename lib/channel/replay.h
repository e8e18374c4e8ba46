// SPDX-License-Identifier: Apache-2.0
// A session between an agent and its coordinator, over any number of connections. Pure; each side
// owns one.
//
// A session begins with JOIN and outlives the connection. After a break the agent opens another
// connection and sends the session's id and the number of received messages; the coordinator
// replies with its own number. Missing messages are resent first, so each message is received once
// and in order. Heartbeats are not stored; they carry the counts, so that acknowledged messages are
// freed soon.
//
//     replay_open(&s, id, connection);
//     replay_keep(&s, frame, len); // for each sent message
//     replay_take(&s); // for each received message
//     replay_acked(&s, count, e); // the other side has received `count` messages
//     while ((frame = replay_unacked(&s, &at, &len))) { send it again }
//
// Only the agent process that joined (its incarnation) may resume, in its own session (id: random,
// sent only to it), with a connection newer than the last one (agents number them). A delayed old
// request therefore takes nothing over. All messages are sealed with the run's key (frame.h).
#ifndef CHANNEL_REPLAY_H
#define CHANNEL_REPLAY_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { SESSION_KEPT_BYTES_MAX = 16 << 20 };

struct replay {     // zero-initialised: none
    int64_t id;     // 0: not assigned yet
    bool open, cut; // cut: the connection broke; sending waits for the resume
    int64_t sent, acked, taken;
    struct strbuf kept; // messages acked + 1 … sent, each after its length
};

void replay_open(struct replay *s, int64_t id); // discards the old session
void replay_close(struct replay *s);            // safe on a closed one
void replay_keep(struct replay *s, const void *message, size_t len);
void replay_take(struct replay *s);
bool replay_can_resume(const struct replay *s); // it has begun, and all missing messages are stored
// ERR_FORMAT: an impossible count.
int replay_acked(struct replay *s, int64_t count, struct err *e);
// The messages to resend, in order; *at is 0 at first. NULL after the last one.
const char *replay_unacked(const struct replay *s, size_t *at, size_t *len);

#endif
