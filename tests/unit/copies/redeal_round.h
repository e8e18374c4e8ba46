// SPDX-License-Identifier: Apache-2.0
// A round of the process that brings a share to a node, with two other nodes. The input has six
// files: f0 to f3 are small, f4 and f5 are objects.
#ifndef TESTS_UNIT_COPIES_REDEAL_ROUND_H
#define TESTS_UNIT_COPIES_REDEAL_ROUND_H

#include "copies/input_redeal.h"

#include "content/deal.h"
#include "content/generation.h"
#include "sys/file.h"
#include "sys/net.h"
#include "sys/proc.h"
#include "tests/tap.h"
#include "tests/unit/copies/input_list.h"
#include "tests/unit/shell.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS = 2, NOTES_MAX = 16, FILES = 6 };

struct peer { // another node of the round
    int fd;
    struct watch watch;
    struct channel link;
    struct cas cas;
    struct content_look look;
    struct content_sender sender;
    bool hostile;
    int asked;
};

static struct err e;
static struct arena arena;
static char folder[] = "/tmp/test_input_redeal.XXXXXX";
static struct loop *loop;
static struct peer peers[PEERS];
static struct keeper_state state;
static struct keeper_spec spec;
static struct job_deal rule = {.shard = DEAL_COUNT};
static struct job_input input = {.name = "set", .mode = "sharded", .deal = &rule};
static struct content_item items[FILES];
static struct {
    enum keeper_note kind;
    int64_t round, files, bytes;
    char reason[ERR_TEXT_BYTES_MAX];
} notes[NOTES_MAX];
static int note_count;
static bool over;
static struct child child;

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

// ---- the other nodes ----------------------------------------------------------------------------

static struct peer *peer_of(struct channel *l) {
    return container_of(l, struct peer, link);
}

static void on_ready(struct channel *l) {
    (void)l;
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    static char wrong[WIRE_DATA_BYTES_MAX];
    struct peer *p = peer_of(l);
    struct wire_msg data = {.type = WIRE_STATE_DATA,
                            .file = m->file,
                            .offset = m->offset,
                            .data = wrong,
                            .data_len = m->bytes};
    p->asked += m->type == WIRE_CONTENT_ASK;
    if (m->type == WIRE_CONTENT_ASK)
        (void)content_sender_ask(&p->sender, l, m, &e);
    else if (p->hostile)
        channel_send(l, &data);
    else
        (void)content_sender_get(&p->sender, l, m, &e);
}

static void on_end(struct channel *l, const struct err *why) {
    (void)l;
    (void)why;
}

static void on_accept(struct watch *w, unsigned events) {
    static const struct channel_events table = {on_ready, on_message, on_end};
    struct peer *p = container_of(w, struct peer, watch);
    struct net_address from;
    int fd = net_accept(p->fd, &from, &e);
    (void)events;
    channel_close(&p->link);
    if (fd >= 0 &&
        channel_open(&p->link, loop, fd, CHANNEL_COORDINATOR, false, &spec.secret, &table, &e) < 0)
        bail_out("%s", e.text);
}

static void open_peer(int i) {
    struct peer *p = &peers[i];
    int port;
    if (net_listen("127.0.0.1", 0, &p->fd, &port, &e) < 0 ||
        watch_start(loop, &p->watch, p->fd, LOOP_READ, on_accept, &e) < 0 ||
        cas_open(&p->cas, arena_printf(&arena, "%s/peer%d", folder, i), &e) < 0)
        bail_out("%s", e.text);
    p->sender = (struct content_sender){
        .loop = loop, .cas = &p->cas, .look = &p->look, .known = items, .known_count = FILES};
    state.ring[i] = (struct holder){
        .name = arena_printf(&arena, "peer%d", i), .address = "127.0.0.1", .port = port};
    state.count = i + 1;
}

// ---- files --------------------------------------------------------------------------------------

static void write_files(void) {
    if (!holds("mkdir set && for i in 0 1 2 3; do head -c 1$i /dev/zero >set/f$i; done && for i in "
               "4 5; do head -c 600000 /dev/zero | tr '\\0' $i >set/f$i; done"))
        bail_out("no files");
    struct manifest *m = input_list_write(&arena, arena_printf(&arena, "%s/set", folder),
                                          job_deal_list(&arena, spec.run_dir, "set"));
    for (size_t i = 0; i < FILES; i++) {
        memcpy(items[i].hash, m->entries[i].hash, HASH_BYTES);
        items[i].size = m->entries[i].size;
    }
    qsort(items, FILES, sizeof *items, content_order);
    manifest_free(m);
}

static void give(int i, const char *name) {
    unsigned char hash[HASH_BYTES];
    struct cas *c = &peers[i].cas;
    struct cas_part part;
    const char *path;
    char *text;
    size_t len;
    if (file_read(&arena, arena_printf(&arena, "%s/set/%s", folder, name), 1 << 20, &text, &len,
                  &e) < 0)
        bail_out("%s", e.text);
    hash_of(hash, text, len);
    if (len <= CAS_SMALL_BYTES_MAX) {
        if (cas_add_small(c, hash, text, len, &e) < 0)
            bail_out("%s", e.text);
        return;
    }
    if (cas_part_open(c, &part, hash, len, &e) < 0 || cas_part_write(&part, 0, text, len, &e) < 0 ||
        cas_part_hash(&part, len, &e) <= 0 || cas_part_finish(c, &part, &path, &e) < 0)
        bail_out("%s", e.text);
    cas_part_close(&part);
}

// ---- a round ------------------------------------------------------------------------------------

static void on_child(struct child *c, int status) {
    (void)c;
    over = true;
    is_int(status, 0, "the process ends by itself");
}

static void take_notes(int fd) {
    char text[4096];
    ssize_t n;
    note_count = 0;
    while ((n = recv(fd, text, sizeof text, MSG_DONTWAIT)) > 0 && note_count < NOTES_MAX) {
        struct wire_msg m;
        size_t used;
        if (frame_take(&arena, text, (size_t)n, sizeof text, &m, &used, NULL, &e) != 1)
            bail_out("a note is damaged: %s", e.text);
        notes[note_count].kind = (enum keeper_note)m.kind;
        notes[note_count].round = m.number;
        notes[note_count].files = m.file;
        notes[note_count].bytes = m.bytes;
        snprintf(notes[note_count++].reason, sizeof notes->reason, "%s", m.reason);
    }
}

// The kinds of the notes of a round, as digits.
static int run_round(int rank) {
    int pair[2], kinds = 0;
    state.round++;
    state.rank = rank;
    state.nodes = 3;
    over = false;
    for (int i = 0; i < PEERS; i++)
        peers[i].asked = 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        bail_out("no socket pair");
    state.fd = pair[1];
    pid_t pid = fork();
    if (pid == 0)
        input_redeal_main(&state);
    close(pair[1]);
    if (pid < 0 || child_start(loop, &child, pid, on_child, &e) < 0)
        bail_out("no process");
    while (!over)
        loop_once(loop, 1000);
    take_notes(pair[0]);
    close(pair[0]);
    for (int i = 0; i < note_count; i++)
        kinds = kinds * 10 + (int)notes[i].kind;
    return kinds;
}

// ---- the test -----------------------------------------------------------------------------------

static void redeal_begin(void) {
    loop = loop_open(&e);
    if (!loop || !mkdtemp(folder))
        bail_out("no folder: %s", e.text);
    spec = (struct keeper_spec){.run_dir = arena_printf(&arena, "%s/run", folder),
                                .node = "self",
                                .secret = {.run = "x", .magic = WIRE_MAGIC_COPIES},
                                .store = arena_printf(&arena, "%s/cas", folder),
                                .inputs = &input,
                                .input_count = 1,
                                .source_ms = 300};
    input.path = arena_printf(&arena, "%s/inputs/set", folder);
    state.spec = &spec;
    write_files();
    for (int i = 0; i < PEERS; i++)
        open_peer(i);
}

static int redeal_end(void) {
    shell(arena_printf(&arena, "rm -rf %s", folder));
    arena_fini(&arena);
    return done_testing();
}

#endif
