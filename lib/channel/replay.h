// SPDX-License-Identifier: Apache-2.0
// What an agent and its coordinator tell each other, over as many connections as it takes. Pure:
// bytes and counts in, bytes out; each side owns one.
//
// A session begins with JOIN and outlives the connection: when that breaks, the agent opens another
// one and says which session it resumes and how many of the coordinator's messages it has taken;
// the coordinator answers with how many of the agent's it has. What is missing on either side is
// sent again, and goes first: each message is taken once, and in order. Beats are not kept; they
// carry the counts, so that what has arrived is forgotten soon.
//
//     replay_open(&s, id, connection);
//     replay_keep(&s, frame, len);      // of each message that is sent
//     replay_take(&s);                  // for each message that comes
//     replay_acked(&s, count, e);       // the other side has taken so many
//     while ((frame = replay_unacked(&s, &at, &len))) { send it again }
//
// Who may resume: the agent process that joined (its incarnation), in its one session (id: random,
// told only to it), with a connection newer than the last one (agents number theirs), so that an
// old request that was held up takes nothing over. All of it is sealed with the run's key
// (frame.h).
#ifndef CHANNEL_REPLAY_H
#define CHANNEL_REPLAY_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { SESSION_KEPT_BYTES_MAX = 16 << 20 };

struct replay {     // zero-initialised: none
    int64_t id;     // 0: not told yet
    bool open, cut; // cut: the connection broke; nothing is sent before it is resumed
    int64_t sent, acked, taken;
    struct strbuf kept; // messages acked + 1 … sent, each behind its length
};

void replay_open(struct replay *s, int64_t id); // forgets what was
void replay_close(struct replay *s);            // safe on a closed one
void replay_keep(struct replay *s, const void *message, size_t len);
void replay_take(struct replay *s);
bool replay_can_resume(const struct replay *s); // it began, and all that is missing is kept
// ERR_FORMAT: a count that cannot be.
int replay_acked(struct replay *s, int64_t count, struct err *e);
// The messages to send again, in order; *at is 0 at first. NULL after the last one.
const char *replay_unacked(const struct replay *s, size_t *at, size_t *len);

#endif
