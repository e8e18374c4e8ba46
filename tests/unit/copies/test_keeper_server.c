// SPDX-License-Identifier: Apache-2.0
// Answers of a keeper to other nodes: offers of states, questions for them, connections beyond
// the limit, idle ones, and those that break the protocol. The test is the other nodes.
#include "copies/keeper_impl.h"

#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS = KEEPER_INBOUND_MAX + 2, ROUNDS_MAX = 200 };

static struct err e;
static struct arena arena;
static struct loop *loop;
static char root[] = "/tmp/test_keeper_server.XXXXXX";
static const char *from; // generations of another node
static struct keeper_spec spec = {
    .node = "n0", .replicas = 1, .secret = {.run = "r1", .magic = WIRE_MAGIC_COPIES}};
static struct keeper_state state;

static struct peer { // another node
    struct channel link;
    struct state_sender sender;
    bool sends; // it answers requests of the keeper
    bool ready, ended;
    const char *got; // "offer n1 5;end 5 1 ;…"
} peers[PEERS];

// ---- other nodes --------------------------------------------------------------------------------

static void on_ready(struct channel *l) {
    ((struct peer *)l->ctx)->ready = true;
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct peer *p = l->ctx;
    if (m->type == WIRE_STATE_END)
        p->got = arena_printf(&arena, "%send %d %d %s;", p->got, (int)m->number, (int)m->final,
                              m->reason);
    else if (m->type == WIRE_STATE_OFFER)
        p->got = arena_printf(&arena, "%soffer %s %d;", p->got, m->name, (int)m->number);
    else if (m->type == WIRE_STATE_GET)
        p->got = arena_printf(&arena, "%sget;", p->got);
    else
        p->got = arena_printf(&arena, "%sdata;", p->got);
    if (m->type == WIRE_STATE_GET && p->sends && state_sender_get(&p->sender, l, m, &e) < 0)
        bail_out("%s", e.text);
}

static void on_end(struct channel *l, const struct err *why) {
    (void)why;
    ((struct peer *)l->ctx)->ended = true;
}

static void turn(void) {
    for (int i = 0; i < 20; i++)
        loop_once(loop, 0);
}

static void connect_peer(int i) {
    static const struct channel_events events = {on_ready, on_message, on_end};
    struct peer *p = &peers[i];
    int fds[2];
    *p = (struct peer){.got = ""};
    p->link.ctx = p;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ||
        channel_open(&p->link, loop, fds[0], CHANNEL_AGENT, false, &spec.secret, &events, &e) < 0)
        bail_out("no link: %s", e.text);
    keeper_accept(&state, fds[1]);
    for (int n = 0; n < ROUNDS_MAX && !p->ready; n++)
        loop_once(loop, 50);
}

static void leave(int i) {
    state_sender_close(&peers[i].sender);
    channel_close(&peers[i].link);
    turn();
}

static void say(int i, struct wire_msg m) {
    channel_send(&peers[i].link, &m);
    turn();
}

static void hears(int i, const char *want, const char *about) {
    for (int n = 0; n < ROUNDS_MAX && !peers[i].ended && strlen(peers[i].got) < strlen(want); n++)
        loop_once(loop, 50);
    is_str(peers[i].got, want, "%s", about);
    peers[i].got = "";
}

static void ends(int i, const char *about) {
    for (int n = 0; n < ROUNDS_MAX && !peers[i].ended; n++)
        loop_once(loop, 50);
    ok(peers[i].ended, "%s", about);
    leave(i);
}

// Offers the generation with this number; its content is the newest one of `from`.
static void offer(int i, const char *name, int64_t number, bool sends) {
    struct state_sender *s = &peers[i].sender;
    if (!s->manifest && state_sender_open(s, from, generation_newest(from), &e) < 0)
        bail_out("%s", e.text);
    peers[i].sends = sends;
    say(i, (struct wire_msg){.type = WIRE_STATE_OFFER,
                             .name = name,
                             .number = number,
                             .bytes = (int64_t)s->list_len});
}

// ---- states -------------------------------------------------------------------------------------

static void publish(const char *folder, const char *text) {
    struct manifest *m = manifest_new();
    struct strbuf list = {0};
    if (generation_begin(folder, &e) < 0 ||
        file_write_atomic(file_join(&arena, generation_new(&arena, folder), "model"), text,
                          strlen(text), 0600, &e) < 0 ||
        manifest_add_path(m, generation_new(&arena, folder), "", &(struct manifest_rules){0}, &e) <
            0 ||
        manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    generation_encode(m, &list);
    if (generation_publish(folder, generation_next(folder), list.data, list.len, &e) < 0)
        bail_out("%s", e.text);
    strbuf_fini(&list);
    manifest_free(m);
}

static int64_t copy_of(const char *name) {
    return generation_newest(file_join(&arena, state.copies, name));
}

static void test_offers(void) {
    connect_peer(0);
    offer(0, "n1", 50, true);
    hears(0, "get;get;end 50 1 ;", "a state that is new is fetched, and its end is announced");
    is_int(copy_of("n1"), 50, "the copy has the number of the state");
    ok(!state.receives, "a state that has come makes room for the next one");
    offer(0, "n1", 50, true);
    hears(0, "end 50 1 ;", "a state that is here is not fetched again");
    offer(0, "n1", 49, true);
    hears(0, "end 49 1 ;", "an older state is not fetched");
    offer(0, "n1", 51, true);
    hears(0, "get;end 51 1 ;", "the content of the copy before is not fetched again");
    offer(0, "n2", 7, true);
    hears(0, "get;get;end 7 1 ;", "another node has a copy of its own");
    is_int(copy_of("n2"), 7, "the other node's copy has its number");
    leave(0);
    connect_peer(0);
    say(0, (struct wire_msg){.type = WIRE_STATE_OFFER, .name = "n1", .number = 60, .bytes = -1});
    ok(!state.receives, "an offer that cannot be taken makes room for the next one");
    hears(0, "end 0 0 a generation is offered that cannot be;", "the refusal has a reason");
    leave(0);
}

static void test_busy(void) {
    connect_peer(0);
    connect_peer(1);
    offer(0, "n1", 70, false);
    hears(0, "get;", "the first of two senders is asked for its list");
    offer(1, "n2", 70, true);
    hears(1, "end 70 0 ;", "the second one is sent away without a reason");
    ok(!peers[1].ended, "the second one may stay");
    leave(0);
    ok(!state.receives, "a sender that leaves makes room");
    offer(1, "n2", 70, true);
    hears(1, "get;end 70 1 ;", "the second one is taken then");
    offer(1, "n2", 80, false);
    offer(1, "n2", 90, false);
    ends(1, "a second offer before the end of the first one ends the connection");
    ok(!state.receives && state.inbound_count == 0, "nothing of both connections is left");
}

static void test_asks(void) {
    connect_peer(0);
    say(0, (struct wire_msg){.type = WIRE_STATE_ASK, .name = "n9"});
    hears(0, "end 0 0 ;", "there is no copy of an unknown node");
    say(0, (struct wire_msg){.type = WIRE_STATE_ASK, .name = "../copies/n1"});
    hears(0, "end 0 0 ;", "a path is no name of a node");
    say(0, (struct wire_msg){.type = WIRE_STATE_ASK, .name = "n1"});
    hears(0, "offer n1 51;", "the newest copy is offered");
    say(0, (struct wire_msg){
               .type = WIRE_STATE_GET, .file = STATE_TRANSFER_LIST, .offset = 0, .bytes = 8});
    hears(0, "data;", "its list is sent");
    say(0, (struct wire_msg){.type = WIRE_STATE_ASK, .name = "n9"});
    hears(0, "end 0 0 ;", "another question has its own answer");
    say(0, (struct wire_msg){
               .type = WIRE_STATE_GET, .file = STATE_TRANSFER_LIST, .offset = 0, .bytes = 8});
    ok(str_starts(peers[0].got, "end 0 0 ") && strlen(peers[0].got) > strlen("end 0 0 ;"),
       "nothing is sent that was not offered: %s", peers[0].got);
    leave(0);
}

static void test_wrong(void) {
    static const char *const names[] = {"", "..", "a/b", "/n1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        connect_peer(0);
        say(0, (struct wire_msg){.type = WIRE_STATE_OFFER, .name = names[i], .number = 99});
        ends(0, arena_printf(&arena, "an offer of '%s' ends the connection", names[i]));
    }
    connect_peer(0);
    say(0,
        (struct wire_msg){.type = WIRE_STATE_NOTE, .kind = KEEPER_READY, .name = "", .reason = ""});
    ends(0, "a message that is for the agent ends the connection");
}

// ---- connections --------------------------------------------------------------------------------

static void test_idle(void) {
    connect_peer(0);
    clock_turn(loop, KEEPER_IDLE_MS_MAX - CLOCK_STEP_MS);
    ok(!peers[0].ended, "a connection may be idle for a minute");
    say(0, (struct wire_msg){.type = WIRE_STATE_ASK, .name = "n9"});
    clock_turn(loop, KEEPER_IDLE_MS_MAX - CLOCK_STEP_MS);
    ok(!peers[0].ended && state.inbound_count == 1, "a message makes it a minute again");
    clock_turn(loop, CLOCK_STEP_MS);
    turn();
    is_int(state.inbound_count, 0, "an idle connection ends");
    ends(0, "the other side sees the end of an idle connection");
}

static void test_many(void) {
    for (int i = 0; i < KEEPER_INBOUND_MAX; i++)
        connect_peer(i);
    offer(0, "n1", 100, false);
    is_int(state.inbound_count, KEEPER_INBOUND_MAX, "as many connections are open as may be");
    ok(!peers[1].ended, "no connection makes room before one is needed");
    connect_peer(KEEPER_INBOUND_MAX);
    turn();
    ok(peers[1].ended && !peers[0].ended && !peers[2].ended,
       "the oldest connection that sends nothing makes room");
    ok(peers[KEEPER_INBOUND_MAX].ready, "the new connection is open");
    peers[0].sends = true;
    for (int i = 1; i <= KEEPER_INBOUND_MAX; i++)
        leave(i);
    is_int(state.inbound_count, 1, "connections that were left are gone");
    leave(0);
    is_int(state.inbound_count, 0, "no connection is left");
}

int main(void) {
    clock_stop();
    loop = loop_open(&e);
    if (!mkdtemp(root) || !loop)
        bail_out("no folder or loop");
    from = file_join(&arena, root, "from");
    state = (struct keeper_state){.spec = &spec, .loop = loop, .fd = -1};
    state.copies = file_join(&arena, root, "copies");
    if (file_make_dirs(from, 0700, &e) < 0)
        bail_out("%s", e.text);
    publish(from, "text");
    test_offers();
    test_busy();
    test_asks();
    test_wrong();
    test_idle();
    test_many();
    loop_close(loop);
    is_int(file_remove_tree(root, &e), 0, "the folder is removed");
    arena_fini(&arena);
    return done_testing();
}
