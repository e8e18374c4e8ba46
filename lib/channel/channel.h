// SPDX-License-Identifier: Apache-2.0
// One authenticated connection between an agent and the coordinator: greeting, sealed frames, both
// sides. Owns the socket.
//
//     link_open(&l, loop, fd, LINK_AGENT, &secret, &events, e);
//     … on_ready; link_send(&l, &msg) … on_message … on_end
//
// Until on_ready no message of the owner passes either way. After on_end the link is closed and its
// memory may be reused. link_close inside any callback is safe.
#ifndef CHANNEL_CHANNEL_H
#define CHANNEL_CHANNEL_H

#include "base/arena.h"
#include "base/err.h"
#include "channel/frame.h"
#include "channel/replay.h"
#include "sys/conn.h"

enum link_side { LINK_AGENT = 0, LINK_COORDINATOR = 1 };
enum {
    LINK_GREETING_MS_MAX = 5000,
    LINK_CONNECT_MS_MAX = 5000,
    LINK_OUT_BYTES_MAX = 16 << 20,
};

struct link_secret { // the caller's, must outlive the link
    const char *run;
    const unsigned char *key; // key_len 0: no key, no proof, no seals
    size_t key_len;
};

struct link;
struct link_events {
    void (*on_ready)(struct link *l);
    void (*on_message)(struct link *l, const struct wire_msg *m); // texts live until it returns
    // ERR_NONE: closed by the peer; ERR_NET: broken; ERR_FAILED: the peer has said why it hangs up.
    void (*on_end)(struct link *l, const struct err *e);
};

enum link_stage { LINK_IDLE, LINK_WAIT_HELLO, LINK_WAIT_CHALLENGE, LINK_WAIT_PROOF, LINK_READY };

struct link {
    struct conn conn;
    enum link_side side;
    enum link_stage stage;
    const struct link_secret *secret;
    const struct link_events *events;
    struct wire_seals seals;
    struct timer greeting;
    struct arena arena; // of one message
    struct strbuf scratch;
    bool magic_seen, refused_final;
    char nonces[2][WIRE_NONCE_TEXT_BYTES]; // by side
    void *ctx;
};

// fd: connected, or (connecting) with connect(2) in progress. ctx must be set before.
int link_open(struct link *l, struct loop *loop, int fd, enum link_side side, bool connecting,
              const struct link_secret *secret, const struct link_events *events, struct err *e);
void link_send(struct link *l, const struct wire_msg *m);
// As part of the session, now or when it is resumed; and what is missing, once more.
void link_tell(struct link *l, struct session *s, const struct wire_msg *m);
void link_tell_again(struct link *l, const struct session *s);
// Says why and hangs up after it is sent; no on_end. final: trying again makes no sense.
void link_refuse(struct link *l, bool final, const char *reason);
void link_close(struct link *l); // no callback; safe on a closed one
bool link_is_open(const struct link *l);

#endif
