// SPDX-License-Identifier: Apache-2.0
// One authenticated connection between an agent and the coordinator: greeting and sealed frames,
// for both sides. Owns the socket.
//
//     channel_open(&l, loop, fd, CHANNEL_AGENT, &secret, &events, e);
//     … on_ready; channel_send(&l, &msg) … on_message … on_end
//
// Before on_ready no message of the owner is sent or received. After on_end the link is closed and
// its memory may be reused. channel_close is safe inside any callback.
#ifndef CHANNEL_CHANNEL_H
#define CHANNEL_CHANNEL_H

#include "base/arena.h"
#include "base/err.h"
#include "channel/frame.h"
#include "channel/proof.h"
#include "channel/replay.h"
#include "sys/conn.h"

enum channel_side { CHANNEL_AGENT = 0, CHANNEL_COORDINATOR = 1 };
enum {
    LINK_GREETING_MS_MAX = 5000,
    LINK_CONNECT_MS_MAX = 5000,
    LINK_OUT_BYTES_MAX = 16 << 20,
};

struct channel_secret { // owned by the caller, must outlive the link
    const char *run;
    const unsigned char *key; // key_len 0: no key, no proof, no seals
    size_t key_len;
    const char *magic; // first four bytes of the connection; NULL: WIRE_MAGIC
};

struct channel;
struct channel_events {
    void (*on_ready)(struct channel *l);
    void (*on_message)(struct channel *l,
                       const struct wire_msg *m); // texts are valid until it returns
    // ERR_NONE: closed by the peer; ERR_NET: broken; ERR_FAILED: the peer gave a reason.
    void (*on_end)(struct channel *l, const struct err *e);
};

enum channel_stage {
    CHANNEL_IDLE,
    CHANNEL_WAIT_HELLO,
    CHANNEL_WAIT_CHALLENGE,
    CHANNEL_WAIT_PROOF,
    CHANNEL_READY
};

struct channel {
    struct conn conn;
    enum channel_side side;
    enum channel_stage stage;
    const struct channel_secret *secret;
    const struct channel_events *events;
    struct wire_seals seals;
    struct timer greeting;
    struct arena arena; // of one message
    struct strbuf scratch;
    bool magic_seen, refused_final;
    char nonces[2][WIRE_NONCE_TEXT_BYTES]; // by side
    void *ctx;
};

// fd: connected, or (connecting) with connect(2) in progress. ctx must be set before.
int channel_open(struct channel *l, struct loop *loop, int fd, enum channel_side side,
                 bool connecting, const struct channel_secret *secret,
                 const struct channel_events *events, struct err *e);
void channel_send(struct channel *l, const struct wire_msg *m);
// Sends a message as part of the session, now or after a resume; and sends missing messages again.
void channel_send_kept(struct channel *l, struct replay *s, const struct wire_msg *m);
void channel_send_again(struct channel *l, const struct replay *s);
// Sends a reason, then closes the link without on_end. final: the peer should not retry.
void channel_refuse(struct channel *l, bool final, const char *reason);
void channel_close(struct channel *l); // no callback; safe on a closed one
bool channel_is_open(const struct channel *l);

#endif
