// SPDX-License-Identifier: Apache-2.0
// The node's side of push and fetch, as frames on standard input and output. Blocking. A push may
// take content from another node, and pass it on (xfer_relay.h).
//
//     dtrun --node push --root DIR
//     dtrun --node fetch --root DIR

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "content/cas.h"
#include "node/node_verb.h"
#include "node/push_destination.h"
#include "node/push_results.h"
#include "sys/file.h"
#include "xfer/xfer_frame.h"
#include "xfer/xfer_give.h"
#include "xfer/xfer_receiver.h"
#include "xfer/xfer_relay.h"
#include "xfer/xfer_sender.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    NODE_READ_BYTES = 256 << 10,
    NODE_USED_BYTES_MAX = 1 << 20, // before remaining bytes are moved to the front
};

struct node {
    struct arena arena;
    const char *root;
    char *const *env;
    struct strbuf in, out;
    size_t in_used;
    struct xfer_unpacker unpacker;
    int64_t look_wall_ns, look_cpu_ns; // at the last measurement
    uint64_t look_bytes, written;
    bool fast; // the CPU, not the connection, would be the bottleneck
};

static int node_open(struct node *n, const struct node_call *c, struct err *e) {
    const int argc = c->argc;
    char **argv = c->argv;
    n->env = c->env;
    // A closed connection is reported as an error of write().
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    for (int i = 1; i < argc; i++) {
        if (!str_eq(argv[i], "--root") || i + 1 == argc)
            return err_set(e, ERR_USAGE, "%s: usage: --root DIR", argv[0]);
        n->root = argv[++i];
    }
    if (!n->root)
        return err_set(e, ERR_USAGE, "%s: --root is needed", argv[0]);
    if (file_make_dirs(n->root, 0700, e) < 0)
        return -1;
    n->root = file_absolute(&n->arena, n->root, e);
    return n->root ? 0 : -1;
}

static int node_flush(struct node *n, struct err *e) {
    if (n->out.len && file_write_all(1, n->out.data, n->out.len, e) < 0)
        return err_wrap(e, "the connection was cut");
    n->written += n->out.len;
    strbuf_clear(&n->out);
    return 0;
}

// Ends with an exit status; reports an error to the other side as a frame, and on standard error.
static int node_close(struct node *n, int rc, struct err *e) {
    struct err ignored;
    if (rc < 0) {
        xfer_wire_fail(&n->out, e);
        fprintf(stderr, "%s\n", e->text);
    }
    (void)node_flush(n, &ignored);
    strbuf_fini(&n->in);
    strbuf_fini(&n->out);
    xfer_unpacker_fini(&n->unpacker);
    arena_fini(&n->arena);
    return rc < 0 ? err_status(e->code) : 0;
}

// Takes the next frame of standard input, which is valid until more is read. 0: there is none.
static int node_take(struct node *n, struct xfer_frame *f, const void **wire, struct err *e) {
    *wire = n->in.data ? n->in.data + n->in_used : "";
    int rc = xfer_wire_take(&n->unpacker, *wire, n->in.len - n->in_used, f, e);
    n->in_used += rc > 0 ? f->wire_bytes : 0;
    return rc;
}

static int node_read(struct node *n, struct err *e) {
    if (n->in_used == n->in.len || n->in_used >= NODE_USED_BYTES_MAX) {
        strbuf_consume(&n->in, n->in_used);
        n->in_used = 0;
    }
    ssize_t got = read(0, strbuf_reserve(&n->in, NODE_READ_BYTES), NODE_READ_BYTES);
    if (err_interrupted(got))
        return 0;
    if (got < 0)
        return err_errno(e, ERR_NET, "the connection was cut");
    if (got == 0)
        return err_set(e, ERR_NET, "the connection was cut");
    n->in.len += (size_t)got;
    return 0;
}

// Reads the next frame (blocking), which is valid until the next call.
static int node_frame(struct node *n, struct xfer_frame *f, struct err *e) {
    const void *wire;
    int rc;
    while ((rc = node_take(n, f, &wire, e)) == 0)
        if (node_read(n, e) < 0)
            return -1;
    return rc;
}

static void node_greet(struct node *n) {
    unsigned char version[4];
    bytes_store(version, XFER_VERSION, 4);
    xfer_wire_frame(&n->out, XFER_HELLO, version, sizeof version);
}

// ---- push -------------------------------------------------------------------------------------

// Reports to dtctl that the node behind gets no more.
static void relay_lost(struct node *n, const struct err *why) {
    struct strbuf b = {0};
    xfer_put_str(&b, why->text);
    xfer_wire_frame(&n->out, XFER_RELAY_LOST, b.data, b.len);
    strbuf_fini(&b);
}

static int relay_from(struct node *n, struct relay *relay, const struct xfer_relay_peer *p) {
    struct err ignored;
    unsigned char port[4];
    int at = 0;
    if (xfer_relay_listen(relay, p, &at, &ignored) < 0)
        at = 0; // dtctl then sends to this node itself
    bytes_store(port, (uint64_t)at, sizeof port);
    xfer_wire_frame(&n->out, XFER_RELAY_PORT, port, sizeof port);
    return 1;
}

static int relay_to(struct node *n, struct relay *relay, const struct xfer_relay_peer *p) {
    struct err why;
    if (xfer_relay_connect(relay, p, &why) < 0)
        relay_lost(n, &why);
    else
        xfer_wire_frame(&n->out, XFER_RELAY_READY, NULL, 0);
    return 1;
}

static int relay_give(struct node *n, struct receive *r, struct relay *relay,
                      const struct xfer_frame *f, struct err *e) {
    struct err why = {0};
    bool lost;
    if (xfer_give(r, relay, f, &lost, &why, e) < 0)
        return -1;
    if (lost)
        relay_lost(n, &why);
    return 1;
}

// The relay's part of a frame from dtctl or (from_peer) from the node before. 1: the frame is the
// relay's alone, 0: it is the receiver's, too.
static int relay_frame(struct node *n, struct receive *r, struct relay *relay,
                       const struct xfer_frame *f, const void *wire, bool from_peer,
                       struct err *e) {
    struct xfer_relay_peer peer;
    struct err why;
    if (!from_peer && (f->type == XFER_RELAY_FROM || f->type == XFER_RELAY_TO)) {
        if (xfer_get_relay_peer(f, &n->arena, &peer, e) < 0)
            return -1;
        return f->type == XFER_RELAY_FROM ? relay_from(n, relay, &peer) : relay_to(n, relay, &peer);
    }
    if (!from_peer && f->type == XFER_RELAY_GIVE)
        return relay_give(n, r, relay, f, e);
    if (f->type == XFER_RELAY_END && !relay->active)
        return 1; // both dtctl and the node before say it
    if (from_peer && f->type != XFER_BATCH && f->type != XFER_CHUNK && f->type != XFER_BAD &&
        f->type != XFER_RELAY_END)
        return xfer_wire_unexpected(f, e);
    if (relay->active && xfer_relay_send(relay, wire, f->wire_bytes, &why) < 0)
        relay_lost(n, &why);
    if (f->type == XFER_RELAY_END)
        xfer_relay_close(relay);
    return 0;
}

// Waits for bytes of dtctl or of the node before. 1: the node before is gone.
static int push_wait(struct node *n, struct relay *relay, struct err *e) {
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN},
                            {.fd = xfer_relay_fd(relay), .events = POLLIN}};
    struct err why;
    if (fds[1].fd < 0)
        return node_read(n, e);
    if (poll(fds, 2, -1) < 0)
        return errno == EINTR ? 0 : err_errno(e, ERR_SYS, "cannot wait for content");
    if (fds[0].revents && node_read(n, e) < 0)
        return -1;
    return fds[1].revents && xfer_relay_read(relay, &why) < 0;
}

enum frame_source { FROM_DTCTL, FROM_PEER, PEER_GONE };

// Waits for the next frame of dtctl or of the node before. PEER_GONE: without a frame.
static int push_next(struct node *n, struct relay *relay, struct xfer_frame *f, const void **wire,
                     enum frame_source *source, struct err *e) {
    for (;;) {
        int rc = relay->from_fd >= 0 ? xfer_relay_take(relay, f, wire, e) : 0;
        *source = rc < 0 ? PEER_GONE : FROM_PEER;
        if (rc != 0)
            return 0;
        *source = FROM_DTCTL;
        rc = node_take(n, f, wire, e);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
        *source = PEER_GONE;
        rc = push_wait(n, relay, e);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
}

// Handles the next frame. A node before that is gone, or sends what it must not, ends the relay
// here and for the nodes behind.
static int push_frame(struct node *n, struct receive *r, struct relay *relay, struct err *e) {
    struct xfer_frame f;
    const void *wire;
    enum frame_source source;
    if (push_next(n, relay, &f, &wire, &source, e) < 0)
        return -1;
    if (source != PEER_GONE) {
        int rc = relay_frame(n, r, relay, &f, wire, source == FROM_PEER, e);
        if (rc == 0)
            rc = xfer_receive_frame(r, &f, &n->out, e);
        if (rc >= 0 || source == FROM_DTCTL || e->code != ERR_FORMAT)
            return rc < 0 ? -1 : 0;
    }
    static const unsigned char end[XFER_HEAD_BYTES] = {[4] = XFER_RELAY_END};
    f = (struct xfer_frame){.type = XFER_RELAY_END, .wire_bytes = sizeof end};
    int rc = relay_frame(n, r, relay, &f, end, false, e);
    return rc == 0 ? xfer_receive_frame(r, &f, &n->out, e) : rc < 0 ? -1 : 0;
}

static int push_loop(struct node *n, struct receive *r, struct relay *relay, struct err *e) {
    while (r->phase != RECEIVE_FINISHED) {
        int rc;
        while ((rc = xfer_receive_step(r, &n->out, e)) > 0)
            if (node_flush(n, e) < 0)
                return -1;
        if (rc < 0 || node_flush(n, e) < 0)
            return -1;
        if (r->phase == RECEIVE_FINISHED)
            break;
        if (push_frame(n, r, relay, e) < 0)
            return -1;
    }
    return node_flush(n, e);
}

static int receive(struct node *n, const struct xfer_push_hello *hello, struct cas_donor *donor,
                   struct err *e) {
    struct receive r;
    struct relay relay = RELAY_CLOSED;
    char *dest = hello->extra
                     ? NULL
                     : push_destination(&n->arena, n->env, n->root, hello->dest, hello->replace, e);
    if (!dest && !hello->extra)
        return -1;
    struct receive_config config = {
        .dest = dest,
        .store = file_join(&n->arena, n->root, "cas"),
        .replace = hello->replace,
        .keep = true,
        .acks = true,
        .peers = hello->peers && !hello->extra,
        .gives = hello->gives,
        .donor = *hello->results ? donor : NULL,
    };
    int rc = xfer_receive_open(&r, &config, e);
    if (rc == 0)
        rc = push_loop(n, &r, &relay, e);
    xfer_relay_close(&relay);
    xfer_receive_close(&r);
    return rc;
}

static int push(struct node *n, struct err *e) {
    struct xfer_push_hello hello;
    struct cas_donor donor;
    struct xfer_frame f;
    node_greet(n);
    if (node_flush(n, e) < 0 || node_frame(n, &f, e) < 0 ||
        xfer_get_push_hello(&f, &n->arena, &hello, e) < 0)
        return -1;
    cas_donor_open(&donor, file_join(&n->arena, n->root, "hashes"));
    int rc = push_results(&n->arena, n->root, &hello, &donor, e);
    if (rc == 0)
        rc = receive(n, &hello, &donor, e);
    cas_donor_close(&donor);
    return rc;
}

int node_push(const struct node_call *c) {
    struct node n = {0};
    struct err e = {0};
    int rc = node_open(&n, c, &e);
    if (rc == 0)
        rc = push(&n, &e);
    return node_close(&n, rc, &e);
}

// ---- fetch ------------------------------------------------------------------------------------

static int add_paths(struct node *n, const struct xfer_fetch_hello *h, struct manifest *m,
                     struct err *e) {
    struct manifest_rules rules = {.own_too = true, .ignore = h->exclude};
    for (const char **p = h->paths; *p; p++) {
        char *path = push_destination_path(&n->arena, n->env, n->root, *p);
        size_t len = strlen(path);
        bool content = len > 1 && path[len - 1] == '/';
        while (len > 1 && path[len - 1] == '/')
            path[--len] = '\0';
        const char *name = content ? "" : file_base(path);
        if (manifest_add_path(m, path, name, &rules, e) == 0)
            continue;
        if (e->code != ERR_NOT_FOUND || !h->missing_ok)
            return -1;
        err_clear(e);
    }
    return 0;
}

static int on_hashed(void *ctx, uint64_t done, uint64_t total) {
    struct node *n = ctx;
    struct err e;
    unsigned char counts[16];
    bytes_store(counts, done, 8);
    bytes_store(counts + 8, total, 8);
    xfer_wire_frame(&n->out, XFER_PROGRESS, counts, sizeof counts);
    return node_flush(n, &e);
}

static int send_list(struct node *n, const struct manifest *m, bool compress, struct err *e) {
    struct xfer_packer packer = {0};
    int rc = 0;
    bool ended = false;
    for (size_t next = 0; rc == 0 && !ended;) {
        ended = xfer_wire_entries(&packer, &n->out, m, &next, XFER_BATCH_BYTES, compress);
        rc = node_flush(n, e);
    }
    return rc;
}

// Compression pays while the connection is the bottleneck.
static void look_at_load(struct node *n) {
    struct timespec t;
    int64_t wall = clock_mono_ns();
    int64_t passed = wall - n->look_wall_ns;
    if (passed < 50000000)
        return;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    int64_t cpu = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    double rate = (double)(n->written - n->look_bytes) * 1e9 / (double)passed;
    n->fast = (cpu - n->look_cpu_ns) * 100 > passed * XFER_BUSY_PERCENT ||
              rate > XFER_COMPRESS_BELOW_BYTES_PER_S;
    n->look_wall_ns = wall;
    n->look_cpu_ns = cpu;
    n->look_bytes = n->written;
}

static int send_content(struct node *n, struct send_plan *plan, bool compress, struct err *e) {
    struct send_stream s;
    struct xfer_frame f;
    int rc;
    xfer_send_plan_ready(plan);
    xfer_send_stream_init(&s, plan, false);
    while ((rc = xfer_send_stream_fill(&s, &n->out, compress && !n->fast, e)) > 0) {
        if ((rc = node_flush(n, e)) < 0)
            break;
        look_at_load(n);
    }
    xfer_send_stream_fini(&s);
    if (rc < 0)
        return -1;
    if (plan->files) // a receiver that needs no file continues by itself
        xfer_wire_frame(&n->out, XFER_DONE, NULL, 0);
    if (node_flush(n, e) < 0 || node_frame(n, &f, e) < 0)
        return -1;
    return f.type == XFER_RESULT ? 0 : xfer_wire_unexpected(&f, e);
}

static int fetch_manifest(struct node *n, const struct xfer_fetch_hello *h, struct manifest *m,
                          struct err *e) {
    struct send_plan plan;
    struct xfer_frame f = {0};
    const char *cache = file_join(&n->arena, n->root, "hashes");
    if (add_paths(n, h, m, e) < 0 || manifest_hash(m, cache, on_hashed, n, e) < 0 ||
        send_list(n, m, h->compress, e) < 0)
        return -1;
    xfer_send_plan_init(&plan, m);
    int rc;
    while ((rc = node_frame(n, &f, e)) > 0 && f.type == XFER_NEED)
        if ((rc = xfer_send_plan_need(&plan, &f, e)) < 0)
            break;
    if (rc >= 0)
        rc = f.type == XFER_NEED_END ? send_content(n, &plan, h->compress, e)
                                     : xfer_wire_unexpected(&f, e);
    xfer_send_plan_fini(&plan);
    return rc;
}

int node_fetch(const struct node_call *c) {
    struct node n = {0};
    struct err e = {0};
    struct xfer_fetch_hello hello;
    struct xfer_frame f;
    int rc = node_open(&n, c, &e);
    if (rc == 0) {
        node_greet(&n);
        rc = node_flush(&n, &e);
    }
    if (rc == 0 && (rc = node_frame(&n, &f, &e)) > 0)
        rc = xfer_get_fetch_hello(&f, &n.arena, &hello, &e);
    if (rc == 0) {
        struct manifest *m = manifest_new();
        rc = fetch_manifest(&n, &hello, m, &e);
        manifest_free(m);
    }
    return node_close(&n, rc, &e);
}
