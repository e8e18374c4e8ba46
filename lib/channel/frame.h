// SPDX-License-Identifier: Apache-2.0
// Messages between agents: length-prefixed frames on one TCP connection per agent, to the
// coordinator. Pure.
//
//     frame   = u32 length | u8 type | fields | seal      length counts all bytes after it
//     fields  = in the order of WIRE_MESSAGES: number as i64, text and data as u32 length + bytes,
//               nodes and failures as u32 count + their own fields; all little-endian
//     seal    = first 16 bytes of HMAC-SHA256(session key, side | counter | type | fields); only on
//               keyed connections, from WIRE_JOIN on
//
// Greeting. The agent sends four bytes WIRE_MAGIC and HELLO (version, run, its nonce). The
// coordinator answers CHALLENGE (its nonce, and a proof over both nonces that it has the run's
// key). The agent answers PROOF. Both sides derive the session key from key and nonces. If neither
// side has a key, proofs are empty; a key on one side only is an error. Another version is answered
// with REFUSE. Then the agent sends JOIN, or RESUME for an existing session (replay.h).
//
// Numbers and texts are bounded when decoded. A frame that does not match its type exactly is an
// error, after which the connection must be closed.
#ifndef CHANNEL_FRAME_H
#define CHANNEL_FRAME_H

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "protocol/failure.h"

#include <stdbool.h>
#include <stdint.h>

#define WIRE_MAGIC        "DTRN"
#define WIRE_MAGIC_COPIES "CDTR" // of connections that carry copies of states (lib/copies)

enum {
    WIRE_VERSION = 5,
    WIRE_NONCE_BYTES = 16,
    WIRE_SEAL_BYTES = 16,
    WIRE_FRAME_BYTES_MAX = 8 << 20,
    WIRE_GREETING_BYTES_MAX = 1024, // limit before authentication
    WIRE_TEXT_BYTES_MAX = 64 << 10,
    WIRE_NODES_MAX = 16384,
    WIRE_FAILURES_MAX = 256,
    WIRE_DATA_BYTES_MAX = 256 << 10,
    WIRE_ROUNDS_DEAD = 4,
};

struct wire_node {
    int64_t node_rank, port;
    int64_t incarnation; // of its agent
    int64_t rounds;      // QUORUM_ bits of its electorates; WIRE_ROUNDS_DEAD
    const char *name, *address;
};

// Every field that a message can have: type, name.
// clang-format off
#define WIRE_FIELDS(NUM, TEXT)                                                                     \
    NUM(version) NUM(keyed) NUM(seq) NUM(round) NUM(restarts) NUM(max_restarts) NUM(node_rank)     \
    NUM(incarnation) NUM(port) NUM(store_port) NUM(nproc) NUM(group_rank) NUM(group_world)         \
    NUM(rank) NUM(world_size) NUM(role_rank) NUM(role_world) NUM(master_port) NUM(present)         \
    NUM(expected) NUM(signal) NUM(grace_ms) NUM(state) NUM(final) NUM(members) NUM(term)           \
    NUM(round_term) NUM(tie_breaker) NUM(tie_breaker_last) NUM(committed) NUM(stamp) NUM(left_ms)  \
    NUM(crashes) NUM(kind) NUM(granted) NUM(unaffiliated) NUM(age_ms) NUM(leader_term) NUM(leader) \
    NUM(attempt) NUM(session) NUM(connection) NUM(taken) NUM(number) NUM(bytes) NUM(file)          \
    NUM(offset) TEXT(run) TEXT(nonce) TEXT(proof) TEXT(name) TEXT(address) TEXT(role)              \
    TEXT(reason) TEXT(master_addr)
// clang-format on

enum wire_field {
    WIRE_F_END,
#define WIRE_ENUM(name) WIRE_F_##name,
    WIRE_FIELDS(WIRE_ENUM, WIRE_ENUM)
#undef WIRE_ENUM
        WIRE_F_nodes,
    WIRE_F_failures,
    WIRE_F_data,
};

// type, fields. Directions: > agent to coordinator, < coordinator to agent, >> agent to any agent.
// The electorate of a round (quorum.h) is round_term, round, holders, committed, members and nodes.
// Only the first candidates get all nodes; the others get the first COORDINATOR_CANDIDATES_MAX.
#define F(name) WIRE_F_##name
#define WIRE_MESSAGES(X)                                                                           \
    X(WIRE_HELLO, F(version), F(keyed), F(run), F(nonce))       /* > */                            \
    X(WIRE_CHALLENGE, F(version), F(keyed), F(nonce), F(proof)) /* < */                            \
    X(WIRE_PROOF, F(proof))                                     /* > */                            \
    X(WIRE_REFUSE, F(final), F(reason))                         /* <> */                           \
    X(WIRE_JOIN, F(incarnation), F(name), F(node_rank), F(address), F(port), F(store_port),        \
      F(nproc), F(role), F(round), F(term), F(connection)) /* > */                                 \
    X(WIRE_JOINED, F(present), F(expected), F(name), F(term), F(incarnation), F(attempt),          \
      F(restarts), F(crashes), F(round_term), F(round), F(tie_breaker), F(tie_breaker_last),       \
      F(committed), F(members), F(nodes), F(session))                   /* < */                    \
    X(WIRE_RESUME, F(incarnation), F(session), F(connection), F(taken)) /* > */                    \
    X(WIRE_RESUMED, F(incarnation), F(taken))                           /* < */                    \
    X(WIRE_BEAT, F(seq), F(stamp), F(left_ms), F(round_term), F(round), F(committed),              \
      F(taken))                                         /* <> */                                   \
    X(WIRE_WAITING, F(present), F(expected), F(reason)) /* < */                                    \
    X(WIRE_ROUND, F(round), F(restarts), F(max_restarts), F(group_rank), F(group_world), F(rank),  \
      F(world_size), F(role_rank), F(role_world), F(master_addr), F(master_port), F(reason),       \
      F(left_ms), F(crashes), F(round_term), F(tie_breaker), F(tie_breaker_last), F(committed),    \
      F(members), F(nodes))               /* < */                                                  \
    X(WIRE_ALLOW, F(round), F(nodes))     /* < */                                                  \
    X(WIRE_FAILED, F(round), F(failures)) /* > */                                                  \
    X(WIRE_DONE, F(round))                /* > */                                                  \
    X(WIRE_STOP, F(round), F(final), F(reason), F(signal), F(grace_ms), F(restarts),               \
      F(crashes))                                                           /* < */                \
    X(WIRE_STOPPED, F(round), F(store_port))                                /* > */                \
    X(WIRE_STOP_RUN, F(reason), F(signal), F(grace_ms))                     /* > */                \
    X(WIRE_LEAVE, F(reason))                                                /* > */                \
    X(WIRE_NOTICE, F(name), F(reason), F(grace_ms))                         /* <> */               \
    X(WIRE_FINISH, F(state), F(restarts), F(round), F(reason), F(failures)) /* < */                \
    X(WIRE_ASK, F(kind), F(term), F(round_term), F(round), F(incarnation), F(name), F(address),    \
      F(port)) /* >> */                                                                            \
    X(WIRE_ANSWER, F(kind), F(seq), F(term), F(granted), F(unaffiliated), F(incarnation),          \
      F(age_ms), F(leader_term), F(leader), F(name), F(address), F(port), F(attempt), F(restarts), \
      F(crashes))                                                              /* and back */      \
    X(WIRE_COPIES, F(round), F(group_rank), F(group_world), F(name), F(nodes)) /* < */             \
    X(WIRE_STATE_ASK, F(name))                        /* copies: lib/copies */                     \
    X(WIRE_STATE_OFFER, F(name), F(number), F(bytes)) /* copies */                                 \
    X(WIRE_STATE_GET, F(file), F(offset), F(bytes))   /* copies */                                 \
    X(WIRE_STATE_DATA, F(file), F(offset), F(data))   /* copies */                                 \
    X(WIRE_STATE_END, F(number), F(final), F(reason)) /* copies */                                 \
    X(WIRE_CONTENT_ASK, F(data))                      /* copies */                                 \
    X(WIRE_CONTENT_HAVE, F(data))                     /* copies */                                 \
    X(WIRE_STATE_NOTE, F(kind), F(name), F(number), F(file), F(bytes), F(group_rank),              \
      F(group_world), F(reason)) /* copies */

enum wire_type {
    WIRE_NONE,
#define X(type, ...) type,
    WIRE_MESSAGES(X)
#undef X
        WIRE_TYPE_COUNT
};
#undef F

struct wire_msg {
    enum wire_type type;
#define WIRE_NUM(name)  int64_t name;
#define WIRE_TEXT(name) const char *name; /* NULL is sent as "" and decoded as "" */
    WIRE_FIELDS(WIRE_NUM, WIRE_TEXT)
#undef WIRE_NUM
#undef WIRE_TEXT
    struct wire_node *nodes;
    int64_t node_count;
    struct worker_failure *failures;
    int64_t failure_count;
    const void *data; // decoded: of the arena
    int64_t data_len;
};

// Seals of one connection. Zero-initialised: no seals.
struct wire_seals {
    bool on;
    unsigned char key[HASH_BYTES];
    int side; // 0 agent, 1 coordinator: the side that uses this struct
    uint64_t sent, received;
};

const char *frame_name(enum wire_type type); // "join"
bool frame_is_kept(enum wire_type type);     // counted and resent by a session (replay.h)

// Appends one frame; frame_put_again: a stored frame that was made without seals.
void frame_put(struct strbuf *out, const struct wire_msg *m, struct wire_seals *seals);
void frame_put_again(struct strbuf *out, const char *frame, size_t len, struct wire_seals *seals);
// Decodes the frame at p. 1: *m is set (texts in the arena), *used is its size; 0: more bytes are
// needed; -1: ERR_FORMAT, ERR_LIMIT or ERR_AUTH (wrong seal).
int frame_take(struct arena *a, const void *p, size_t len, size_t frame_bytes_max,
               struct wire_msg *m, size_t *used, struct wire_seals *seals, struct err *e);

#endif
