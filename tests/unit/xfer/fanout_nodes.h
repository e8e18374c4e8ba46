// SPDX-License-Identifier: Apache-2.0
// Pushes of one fan-out to nodes that are the test: what each hears, and what it says it lacks.
#ifndef TESTS_UNIT_XFER_FANOUT_NODES_H
#define TESTS_UNIT_XFER_FANOUT_NODES_H

#include "tests/unit/xfer/push_node.h"
#include "xfer/fanout.h"

// Files by name, of these sizes: 'a', 'b' and 'f' are large, the others small. A chain for 'a'
// saves enough, one for 'f' a byte too little.
enum { FILES = 6, NODES_MAX = 4 };
static const size_t sizes[FILES] = {5 << 20, FANOUT_SAVED_BYTES_MIN,    1000, 100,
                                    10,      FANOUT_SAVED_BYTES_MIN - 1};

struct node {
    struct transport_link *link;
    struct xfer *x;
    struct fake_run *run;
    struct xfer_unpacker u;
    size_t used;
    struct xfer_progress last;
    int ends;
    struct err err;
    // since the last hear()
    int heard[XFER_TYPE_COUNT];
    uint64_t content;
    struct xfer_relay_peer from, to;
    struct strbuf gives;         // "a:2 " has two units
    struct strbuf content_names; // of the content, in its order
};
static struct node nodes[NODES_MAX];
static struct manifest *list;

static inline size_t sum_of(const char *names) {
    size_t bytes = 0;
    for (const char *c = names; *c; c++)
        bytes += *c == 'A' ? sizes[0] - CAS_UNIT_BYTES : sizes[*c - 'a'];
    return bytes;
}

static inline struct manifest *make_list(void) {
    static unsigned char *data;
    struct manifest *m = manifest_new();
    data = data ? data : heap_alloc(6 << 20);
    for (size_t i = 0; i < 6 << 20; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    for (int i = 0; i < FILES; i++)
        if (manifest_add_bytes(m, (char[]){(char)('a' + i), 0}, data + i, sizes[i], 0644, &e) < 0)
            bail_out("%s", e.text);
    if (manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    return m;
}

static void node_progress(struct xfer *x, void *ctx, const struct xfer_progress *p) {
    (void)x;
    ((struct node *)ctx)->last = *p;
}

static void node_end(struct xfer *x, void *ctx, const struct err *why,
                     const struct xfer_progress *p) {
    struct node *n = ctx;
    (void)x;
    n->ends++;
    n->err = *why;
    n->last = *p;
    n->x = NULL;
}

static inline char name_of(const unsigned char *hash) {
    for (size_t i = 0; i < list->count; i++)
        if (memcmp(list->entries[i].hash, hash, HASH_BYTES) == 0)
            return list->entries[i].path[0];
    return '?';
}

static inline void note_name(struct node *n, char name) {
    size_t len = n->content_names.len;
    if (len == 0 || n->content_names.data[len - 1] != name)
        strbuf_add(&n->content_names, &name, 1);
}

static inline void note_content(struct node *n, const struct xfer_frame *f) {
    if (f->type == XFER_CHUNK) {
        note_name(n, name_of(f->data));
        n->content += f->len - HASH_BYTES - 16;
    }
    for (size_t at = 0; f->type == XFER_BATCH && at < f->len;) {
        uint64_t bytes = bytes_load(f->data + at + HASH_BYTES, 4);
        note_name(n, name_of(f->data + at));
        n->content += bytes;
        at += HASH_BYTES + 4 + bytes;
    }
}

static inline void note_gives(struct node *n, const struct xfer_frame *f) {
    struct bytes_reader r = bytes_reader(f->data, f->len);
    struct xfer_need need;
    while (xfer_get_need(&r, list, &need, &e) > 0) {
        unsigned lacking = 0;
        for (unsigned u = 0; u < need.units; u++)
            lacking += !need.have || !(need.have[u / 8] >> (u % 8) & 1);
        strbuf_addf(&n->gives, "%c:%u ", 'a' + (int)need.index, lacking);
    }
}

// The node reads what has come.
static inline void hear(struct node *n) {
    struct xfer_frame f;
    memset(n->heard, 0, sizeof n->heard);
    n->content = 0;
    strbuf_clear(&n->gives);
    strbuf_clear(&n->content_names);
    for (int i = 0; i < 3; i++) {
        loop_once(loop, 0);
        while (fake_take(n->run, SIZE_MAX))
            ;
    }
    while (xfer_wire_take(&n->u, n->run->got.data + n->used, n->run->got.len - n->used, &f, &e) >
           0) {
        n->used += f.wire_bytes;
        n->heard[f.type]++;
        note_content(n, &f);
        if (f.type == XFER_RELAY_GIVE)
            note_gives(n, &f);
        if (f.type == XFER_RELAY_FROM || f.type == XFER_RELAY_TO)
            (void)xfer_get_relay_peer(&f, &arena, f.type == XFER_RELAY_TO ? &n->to : &n->from, &e);
    }
}

// How many frames of this type the node hears now.
static inline int hears(struct node *n, enum xfer_type type) {
    hear(n);
    return n->heard[type];
}

static inline bool hears_nothing(struct node *n) {
    hear(n);
    for (int i = 0; i < XFER_TYPE_COUNT; i++)
        if (n->heard[i])
            return false;
    return true;
}

// Starts a push to a node of the group; it reads the list and greets.
static inline struct node *join(struct fanout *g, int i, const char *address,
                                struct xfer_peers *peers) {
    static const struct xfer_events node_events = {node_progress, node_end};
    struct node *n = &nodes[i];
    struct xfer_push_spec spec = spec_of(list);
    spec.fanout = g;
    spec.address = address;
    spec.peers = peers;
    spec.no_compress = true;
    spec.connections = 1;
    *n = (struct node){.link = fake_link(loop, NULL, NULL)};
    n->x = xfer_push(n->link, &spec, &node_events, n, &e);
    if (!n->x)
        bail_out("%s", e.text);
    n->run = fake_run(0);
    hear(n);
    say_hello(n->run);
    return n;
}

// The node lacks these files: all of each; of 'A' the second unit alone.
static inline void lacks(struct node *n, const char *names) {
    static const unsigned char first_unit = 1;
    struct strbuf b = {0};
    for (const char *c = names; *c; c++) {
        uint32_t index = (uint32_t)(*c == 'A' ? 0 : *c - 'a');
        struct xfer_need need = {.index = index, .have = *c == 'A' ? &first_unit : NULL};
        need.units =
            sizes[index] > XFER_SMALL_BYTES_MAX ? (uint32_t)cas_unit_count(sizes[index]) : 0;
        xfer_put_need(&b, &need);
    }
    if (b.len)
        say(n->run, XFER_NEED, b.data, b.len);
    say(n->run, XFER_NEED_END, NULL, 0);
    strbuf_fini(&b);
}

static inline void says_port(struct node *n, uint32_t port) {
    unsigned char bytes[4];
    bytes_store(bytes, port, 4);
    say(n->run, XFER_RELAY_PORT, bytes, 4);
}

static inline void says_received(struct node *n, uint64_t content) {
    unsigned char bytes[8];
    bytes_store(bytes, content, 8);
    say(n->run, XFER_ACK, bytes, 8);
}

static inline void says_result(struct node *n) {
    static const unsigned char result[16] = {0};
    say(n->run, XFER_RESULT, result, 16);
    loop_once(loop, 0);
}

// Ends what has not ended, and forgets all nodes.
static inline void part(struct fanout *g) {
    for (int i = 0; i < NODES_MAX; i++) {
        xfer_cancel(nodes[i].x);
        xfer_unpacker_fini(&nodes[i].u);
        strbuf_fini(&nodes[i].gives);
        strbuf_fini(&nodes[i].content_names);
    }
    loop_once(loop, 0);
    for (int i = 0; i < NODES_MAX; i++)
        if (nodes[i].link)
            transport_close(nodes[i].link);
    memset(nodes, 0, sizeof nodes);
    fanout_free(g);
    fake_free_all();
}

#endif
