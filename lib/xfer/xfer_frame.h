// SPDX-License-Identifier: Apache-2.0
// Frames between the two ends of a push or fetch. Pure. All integers are little-endian; a string is
// a u16 length and bytes.
//
// A frame is u32 payload length, u8 type, u8 flags (1: zstd, the payload is then u32 plain length
// and one zstd frame), u16 zero, and the payload. Sequence:
//
//     sender                              receiver
//     HELLO (push: destination; fetch: paths) → ← HELLO
//     ENTRIES… ENTRIES_END                 →
//                                          ← NEED… NEED_END
//     BATCH (small files), CHUNK (pieces)… → ← ACK (push: content bytes taken so far)
//     DONE (unless no file is needed)      →
//                                          ← PROGRESS…, RESULT
//     FAIL from either side ends the transfer at any time.
//
// In a push, dtctl is the sender and the node the receiver; in a fetch the roles are reversed.
// Additional connections of a push carry only HELLO, BATCH, CHUNK, DONE and their answers.
//
// Nodes that lack the same content can form a chain after NEED_END (fanout.h):
//
//     dtctl                                node
//     RELAY_FROM (to all but the first)    →
//                                          ← RELAY_PORT
//     RELAY_TO (to all but the last)       →
//                                          ← RELAY_READY, or RELAY_LOST now or later
//     BATCH, CHUNK, RELAY_END (the first)  → the same frames to the next node
//                                          ← ACK, NEED… NEED_END: what is still lacking
//
// In a push whose content is on the nodes alone (peers), the first node of a chain gets
// RELAY_GIVE…, which names entries and units as NEED does, and sends them to the next node from its
// own store. Every node waits for DONE. A node that still lacks files then places nothing more.
//
// Between two nodes each side first proves that it has the key of RELAY_FROM and RELAY_TO.
#ifndef XFER_XFER_FRAME_H
#define XFER_XFER_FRAME_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/str.h"
#include "content/cas.h"
#include "content/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    XFER_VERSION = 4,
    XFER_HEAD_BYTES = 8,
    XFER_FRAME_BYTES_MAX = 2 << 20, // plain and packed
    XFER_SMALL_BYTES_MAX =
        CAS_SMALL_BYTES_MAX,      // files up to this size are sent whole, many in a frame
    XFER_BATCH_BYTES = 512 << 10, // approximate content of one BATCH
    XFER_ACK_BYTES = 1 << 20,
    XFER_PATHS_MAX = 10000,
    XFER_RELAY_KEY_BYTES = 32,
    XFER_BUSY_PERCENT = 80, // of one CPU: above it this process is the bottleneck, not the network
    // The fastest level of zstd produces about 400 MB/s. A connection that carries more than half
    // of that uncompressed gains nothing.
    XFER_COMPRESS_BELOW_BYTES_PER_S = 200000000,
};

// type, name for messages
#define XFER_TYPES(X)                                                                              \
    X(XFER_HELLO, "hello")                                                                         \
    X(XFER_ENTRIES, "entries")                                                                     \
    X(XFER_ENTRIES_END, "entries-end")                                                             \
    X(XFER_NEED, "need")                                                                           \
    X(XFER_NEED_END, "need-end")                                                                   \
    X(XFER_BATCH, "batch")                                                                         \
    X(XFER_CHUNK, "chunk")                                                                         \
    X(XFER_ACK, "ack")                                                                             \
    X(XFER_DONE, "done")                                                                           \
    X(XFER_BAD, "bad")                                                                             \
    X(XFER_PROGRESS, "progress")                                                                   \
    X(XFER_RESULT, "result")                                                                       \
    X(XFER_RELAY_FROM, "relay-from")                                                               \
    X(XFER_RELAY_TO, "relay-to")                                                                   \
    X(XFER_RELAY_PORT, "relay-port")                                                               \
    X(XFER_RELAY_READY, "relay-ready")                                                             \
    X(XFER_RELAY_LOST, "relay-lost")                                                               \
    X(XFER_RELAY_END, "relay-end")                                                                 \
    X(XFER_RELAY_GIVE, "relay-give")                                                               \
    X(XFER_FAIL, "fail")

enum xfer_type {
    XFER_NONE,
#define X(id, name) id,
    XFER_TYPES(X)
#undef X
        XFER_TYPE_COUNT
};

struct xfer_frame {
    enum xfer_type type;
    const unsigned char *data; // plain
    size_t len;
    size_t wire_bytes; // with header
};

// Unpacks frames; owns one buffer.
struct xfer_unpacker {
    unsigned char *plain;
    void *zstd;
};

// Takes one frame from the front of p. 1: a frame (valid until the next call or until the bytes
// change), 0: more bytes are needed, -1: malformed.
int xfer_wire_take(struct xfer_unpacker *u, const void *p, size_t len, struct xfer_frame *out,
                   struct err *e);
void xfer_unpacker_fini(struct xfer_unpacker *u);

// Packs the frames of one stream. A payload is built in place: the bytes appended to `out` between
// begin and end. `compress` allows compression; data that does not shrink is sent plain, and some
// of the following frames are then not tried. Packers share a buffer: one thread packs.
struct xfer_packer {
    int skip, skip_next;
};
size_t xfer_wire_begin(struct strbuf *out, enum xfer_type type); // for xfer_wire_end
void xfer_wire_end(struct xfer_packer *k, struct strbuf *out, size_t begin, bool compress);
// Without compression.
void xfer_wire_frame(struct strbuf *out, enum xfer_type type, const void *p, size_t len);
void xfer_wire_fail(struct strbuf *out, const struct err *e);
int xfer_wire_read_fail(const struct xfer_frame *f, struct err *e); // always -1
int xfer_wire_unexpected(const struct xfer_frame *f, struct err *e);

void xfer_put_uint(struct strbuf *b, uint64_t v, size_t width);
void xfer_put_str(struct strbuf *b, const char *s);
// NULL (and r->bad) when the string is truncated, too long or contains a NUL; in the arena.
const char *xfer_get_str(struct bytes_reader *r, struct arena *a, size_t len_max);

// Appends the next frame of a manifest's entries, of about `bytes_max`; advances *next. True after
// the last entry: ENTRIES_END is then appended.
bool xfer_wire_entries(struct xfer_packer *k, struct strbuf *out, const struct manifest *m,
                       size_t *next, size_t bytes_max, bool compress);
int xfer_get_entries(const struct xfer_frame *f, struct manifest *m, struct err *e);

// The first frame of a push.
struct xfer_push_hello {
    uint32_t version;
    bool extra; // an additional connection: carries content only
    bool replace;
    bool peers; // content comes from other nodes alone
    bool gives; // to other nodes; the node places nothing
    const char *dest;
    const char *owner;    // id of the cluster
    const char **results; // RUN/PART of that cluster: files that the node may take content from
};
void xfer_put_push_hello(struct strbuf *b, const struct xfer_push_hello *h);
int xfer_get_push_hello(const struct xfer_frame *f, struct arena *a, struct xfer_push_hello *h,
                        struct err *e);

// The first frame of a fetch.
struct xfer_fetch_hello {
    uint32_t version;
    bool missing_ok, compress;
    const char **paths, **exclude; // NULL-terminated
};
void xfer_put_fetch_hello(struct strbuf *b, const struct xfer_fetch_hello *h);
int xfer_get_fetch_hello(const struct xfer_frame *f, struct arena *a, struct xfer_fetch_hello *h,
                         struct err *e);

// One file that the receiver lacks: all of a small file, or the missing units of a large one.
struct xfer_need {
    uint32_t index;            // in the manifest
    uint32_t units;            // 0: small
    const unsigned char *have; // one bit per unit that exists, or NULL: none
};
void xfer_put_need(struct strbuf *b, const struct xfer_need *n);
// 1: an entry, 0: end of the frame, -1: malformed.
int xfer_get_need(struct bytes_reader *r, const struct manifest *m, struct xfer_need *n,
                  struct err *e);

// RELAY_FROM: listen on address (port 0); RELAY_TO: connect to the node that listens there.
struct xfer_relay_peer {
    const char *address;
    uint32_t port;
    unsigned char key[XFER_RELAY_KEY_BYTES];
};
void xfer_put_relay_peer(struct strbuf *b, const struct xfer_relay_peer *p);
int xfer_get_relay_peer(const struct xfer_frame *f, struct arena *a, struct xfer_relay_peer *p,
                        struct err *e);

struct xfer_result {
    uint64_t files, bytes; // placed
};

_Static_assert(XFER_BATCH_BYTES + MANIFEST_FILE_BYTES_MAX / CAS_UNIT_BYTES / 8 + 64 <
                   XFER_FRAME_BYTES_MAX,
               "the missing units of the largest file fit into a frame");

#endif
