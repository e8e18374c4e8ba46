// SPDX-License-Identifier: Apache-2.0
// A keeper that sends its state to the nodes of its ring, or searches there for the state: the
// nodes that it asks, their answers and failures, and what the agent hears. The test is the nodes.
#include "copies/keeper_impl.h"

#include "base/str.h"
#include "sys/file.h"
#include "sys/listener.h"
#include "tests/tap.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NODES = 3, ROUNDS_MAX = 200, NUMBER = 5000 };

static struct err e;
static struct arena arena;
static struct loop *loop;
static struct screen notes;
static char root[] = "/tmp/test_keeper_client.XXXXXX";
static const char *theirs; // generations of this node's state that others have
static struct keeper_spec spec = {.node = "n0",
                                  .every_ms = 1 << 30, // nothing is published
                                  .secret = {.run = "r1", .magic = WIRE_MAGIC_COPIES}};
static struct keeper_state state;
static int agent = -1; // its end of the notes

enum answer { TAKES, HAS, REFUSES, IS_BUSY, IS_SILENT, LEAVES, BABBLES, SPOILS, OFFERS };

static struct node { // another node
    struct listener door;
    int port;
    struct channel *link; // the newest one; NULL: none
    struct state_sender sender;
    enum answer answer;
    int64_t number; // of its copy; 0: none
    bool left;
} nodes[NODES];
static const char *heard; // "1 ask n0;2 offer n0;…": messages to the nodes

// ---- other nodes --------------------------------------------------------------------------------

static void on_ready(struct channel *l) {
    (void)l;
}

static void end_with(struct channel *l, int64_t number, bool whole, const char *reason) {
    channel_send(l,
                 &(struct wire_msg){
                     .type = WIRE_STATE_END, .number = number, .final = whole, .reason = reason});
}

static void on_offer(struct node *n, struct channel *l, const struct wire_msg *m) {
    if (n->answer == TAKES) // asks for a part of the list, then says that it has all
        channel_send(
            l, &(struct wire_msg){.type = WIRE_STATE_GET, .file = STATE_TRANSFER_LIST, .bytes = 8});
    else if (n->answer == HAS)
        end_with(l, m->number, true, "");
    else if (n->answer == OFFERS) { // to a node that offers itself
        channel_send(l, &(struct wire_msg){.type = WIRE_STATE_OFFER,
                                           .name = m->name,
                                           .number = m->number + 1,
                                           .bytes = (int64_t)n->sender.list_len});
        end_with(l, m->number, false, "its disk is full");
    } else if (n->answer == REFUSES)
        end_with(l, m->number, false, "its disk is full");
    else if (n->answer == IS_BUSY)
        end_with(l, m->number, false, "");
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct node *n = l->ctx;
    static const char *const names[] = {"ask", "offer", "get", "other"};
    int what = m->type == WIRE_STATE_ASK     ? 0
               : m->type == WIRE_STATE_OFFER ? 1
               : m->type == WIRE_STATE_GET   ? 2
                                             : 3;
    if (what < 2 || n->answer == OFFERS)
        heard = arena_printf(&arena, "%s%d %s %s;", heard, (int)(n - nodes), names[what], m->name);
    if (n->answer == BABBLES)
        channel_send(l, &(struct wire_msg){.type = WIRE_STATE_ASK, .name = "n0"});
    else if (n->answer == LEAVES)
        n->left = true;
    else if (what == 1)
        on_offer(n, l, m);
    else if (what == 0 && n->answer != IS_SILENT && n->number)
        channel_send(l, &(struct wire_msg){.type = WIRE_STATE_OFFER,
                                           .name = m->name,
                                           .number = n->number,
                                           .bytes = (int64_t)n->sender.list_len});
    else if (what == 0 && n->answer != IS_SILENT)
        end_with(l, 0, false, "");
    else if (what == 2 && n->answer == SPOILS)
        end_with(l, 0, false, "its disk fails");
    else if (what == 2 && state_sender_get(&n->sender, l, m, &e) < 0)
        bail_out("%s", e.text);
    else if (m->type == WIRE_STATE_DATA && n->answer == TAKES)
        end_with(l, generation_newest(state.own), true, "");
}

static void on_end(struct channel *l, const struct err *why) {
    (void)why;
    channel_close(l);
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    static const struct channel_events events = {on_ready, on_message, on_end};
    struct node *n = container_of(l, struct node, door);
    (void)peer;
    if (n->link)
        channel_close(n->link);
    n->link = arena_new(&arena, struct channel, 1);
    n->link->ctx = n;
    if (channel_open(n->link, loop, fd, CHANNEL_COORDINATOR, false, &spec.secret, &events, &e) < 0)
        bail_out("%s", e.text);
}

static void turn(int wait_ms) {
    loop_once(loop, wait_ms);
    for (int i = 0; i < NODES; i++)
        if (nodes[i].left) {
            nodes[i].left = false;
            channel_close(nodes[i].link);
        }
}

// ---- the agent ----------------------------------------------------------------------------------

// Notes to the agent, as "copied n1 5000 8;ready 3 why;…".
static const char *noted(void) {
    static char text[64 << 10];
    const char *all = "";
    ssize_t n;
    while ((n = recv(agent, text, sizeof text, MSG_DONTWAIT)) > 0) {
        struct wire_msg m;
        size_t used;
        if (frame_take(&arena, text, (size_t)n, sizeof text, &m, &used, NULL, &e) != 1)
            bail_out("%s", e.text);
        all = m.kind == KEEPER_READY
                  ? arena_printf(&arena, "%sready %d %s;", all, (int)m.number, m.reason)
                  : arena_printf(&arena, "%s%s %s %s%s;", all,
                                 m.kind == KEEPER_COPIED ? "copied" : "restored", m.name,
                                 m.bytes ? "some" : "none", m.number == NUMBER ? " newest" : "");
    }
    return all;
}

// The task is over.
static void run(void) {
    for (int i = 0; i < ROUNDS_MAX && state.task != TASK_NONE; i++)
        turn(10);
    for (int i = 0; i < 10; i++)
        turn(0);
}

static void begin(int replicas, const enum answer answers[NODES], const int64_t numbers[NODES]) {
    static const char *const names[NODES] = {"n1", "n2", "n3"};
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        bail_out("no agent");
    spec.replicas = replicas;
    agent = fds[1];
    state = (struct keeper_state){.spec = &spec,
                                  .loop = loop,
                                  .fd = fds[0],
                                  .own = file_join(&arena, root, "generations"),
                                  .copies = file_join(&arena, root, "copies"),
                                  .count = NODES,
                                  .states = NODES,
                                  .round = 3,
                                  .nodes = NODES + 1,
                                  .heir_of = ""};
    for (int i = 0; i < NODES; i++) {
        nodes[i].answer = answers[i];
        nodes[i].number = numbers ? numbers[i] : 0;
        state.ring[i] =
            (struct holder){.name = names[i], .address = "127.0.0.1", .port = nodes[i].port};
    }
    heard = "";
    said_clear();
}

static void end(void) {
    keeper_stop(&state);
    timer_stop(&state.next);
    timer_stop(&state.busy);
    for (int i = 0; i < NODES; i++)
        if (nodes[i].link)
            channel_close(nodes[i].link);
    turn(0);
    close(state.fd);
    close(agent);
    arena_fini(&state.arena);
}

// ---- sending ------------------------------------------------------------------------------------

static void test_sends(void) {
    begin(2, (const enum answer[]){TAKES, HAS, TAKES}, NULL);
    keeper_send(&state);
    run();
    is_str(heard, "0 offer n0;1 offer n0;",
           "as many nodes as there are copies are offered a state");
    ok(state.ring[0].has == NUMBER && state.ring[1].has == NUMBER && !state.ring[2].has,
       "the numbers of their copies are known");
    is_str(noted(), "", "a copy without any bytes of files is not announced");
    heard = "";
    keeper_send(&state);
    run();
    is_str(heard, "", "a state that all have is not offered again");
    state.ring[1].has = NUMBER - 1;
    keeper_send(&state);
    run();
    is_str(heard, "1 offer n0;", "an older copy is replaced");
    state.states = 0;
    state.ring[0].has = 0;
    heard = "";
    keeper_send(&state);
    run();
    is_str(heard, "", "a node that is alone offers nothing");
    end();
}

static void test_refusals(void) {
    begin(3, (const enum answer[]){REFUSES, BABBLES, LEAVES}, NULL);
    keeper_send(&state);
    run();
    is_str(heard, "0 offer n0;1 offer n0;2 offer n0;",
           "a node that refuses keeps none from a copy");
    has_str(said(), "a node has no copy of this node's newest state", "the user reads of it");
    has_str(said(), "holder=n1 reason=\"its disk is full\"", "the reason is that of the node");
    has_str(said(), "holder=n2 reason=\"it breaks the protocol\"",
            "a node that says other things has broken the protocol");
    has_str(said(), "holder=n3 reason=\"", "a node that leaves has no copy");
    said_clear();
    keeper_send(&state);
    run();
    is_str(said(), "", "a failure is logged once");
    for (int i = 0; i < NODES; i++)
        nodes[i].answer = HAS;
    keeper_send(&state);
    run();
    ok(!state.ring[0].failed && !state.ring[2].failed, "a copy ends the failure");
    is_str(noted(), "", "nothing is announced");
    end();
}

static void test_offered(void) {
    begin(1, (const enum answer[]){OFFERS, HAS, HAS}, NULL);
    keeper_send(&state);
    run();
    is_str(heard, "0 offer n0;", "a node that sends a state asks for none");
    has_str(said(), "holder=n1 reason=\"its disk is full\"", "the answer to the offer counts");
    end();
}

static void test_few(void) {
    begin(3, (const enum answer[]){REFUSES, REFUSES, HAS}, NULL);
    state.states = 2;
    keeper_send(&state);
    run();
    is_str(heard, "0 offer n0;1 offer n0;", "nodes that stand by are offered no state");
    end();
}

static void test_busy(void) {
    begin(2, (const enum answer[]){IS_BUSY, REFUSES, HAS}, NULL);
    keeper_send(&state);
    run();
    is_str(heard, "0 offer n0;1 offer n0;", "a busy node is left for the next one");
    ok(!strstr(said(), "holder=n1") && !state.ring[0].failed, "a busy node has not failed");
    nodes[0].answer = nodes[1].answer = HAS;
    heard = "";
    clock_ahead_ms += KEEPER_BUSY_MS - 1;
    run();
    is_str(heard, "", "a busy node is not asked at once");
    clock_ahead_ms += 1;
    turn(0);
    run();
    is_str(heard, "0 offer n0;1 offer n0;", "a busy node is asked again a second later");
    end();
}

static void wait_heard(void) {
    for (int i = 0; i < ROUNDS_MAX && !*heard; i++)
        turn(10);
}

static void test_silent(void) {
    begin(1, (const enum answer[]){IS_SILENT, HAS, HAS}, NULL);
    keeper_send(&state);
    wait_heard();
    heard = "";
    keeper_send(&state);
    turn(0);
    is_str(heard, "", "one task is done at a time");
    clock_ahead_ms += KEEPER_IDLE_MS_MAX - 1;
    turn(0);
    is_int(state.task, TASK_SEND, "a node has a minute to answer");
    clock_ahead_ms += 1;
    run();
    is_int(state.task, TASK_NONE, "a silent node is given up");
    has_str(said(), "holder=n1 reason=\"it does not answer\"", "the user reads that it is silent");
    end();
}

static void test_addresses(void) {
    static const struct {
        const char *address;
        int port;
    } rows[] = {{"localhost", 80}, {"", 80}, {"127.0.0.1", 0}, {"127.0.0.1", 65536}};
    begin(1, (const enum answer[]){HAS, HAS, HAS}, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct channel link = {.ctx = NULL};
        const struct holder h = {.address = rows[i].address, .port = rows[i].port};
        is_int(keeper_connect(&state, &h, &link, loop, NULL, &e), -1, "'%s' port %d is refused",
               h.address, h.port);
        is_str(e.text, arena_printf(&arena, "'%s' is not an address", h.address),
               "the error names '%s' port %d", h.address, h.port);
    }
    state.ring[0].address = "nowhere";
    keeper_send(&state);
    run();
    has_str(said(), "holder=n1 reason=\"'nowhere' is not an address\"",
            "a node without an address has no copy");
    end();
}

// ---- searching ----------------------------------------------------------------------------------

static const char *state_text(void) {
    char *text;
    size_t len;
    return file_read(&arena, file_join(&arena, root, "state/model"), 100, &text, &len, &e) < 0
               ? "absent"
               : text;
}

static void forget(void) {
    static const char *const paths[] = {"generations", "state", "copies"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (file_remove_tree(file_join(&arena, root, paths[i]), &e) < 0)
            bail_out("%s", e.text);
}

static void search(void) {
    forget();
    keeper_search(&state);
    run();
}

static void test_finds(void) {
    begin(3, (const enum answer[]){TAKES, TAKES, TAKES}, (const int64_t[]){7, 9, 8});
    search();
    is_str(heard, "0 ask n0;1 ask n0;2 ask n0;1 ask n0;0 offer n0;1 offer n0;2 offer n0;",
           "all are asked, the newest one gives, and the holders are offered the state");
    is_str(noted(), "restored n2 some;ready 3 ;", "the agent hears of the state, then of the end");
    is_str(state_text(), "text", "the state is here");
    is_int(generation_newest(state.own), 9, "the state has its number");
    ok(file_exists(file_join(&arena, state.own, "here")), "the node has a state from now on");
    end();
    begin(0, (const enum answer[]){TAKES, TAKES, TAKES}, (const int64_t[]){7, 7, 0});
    search();
    is_str(heard, "0 ask n0;1 ask n0;2 ask n0;0 ask n0;", "of equal copies the first one is taken");
    end();
    begin(1, (const enum answer[]){TAKES, TAKES, TAKES}, (const int64_t[]){0, 0, 6});
    search();
    is_str(noted(), "restored n3 some;ready 3 ;", "a node that is no holder now may have a copy");
    end();
}

static void test_none(void) {
    begin(3, (const enum answer[]){TAKES, BABBLES, LEAVES}, NULL);
    search();
    is_str(heard, "0 ask n0;1 ask n0;2 ask n0;", "each node is asked once");
    is_str(noted(), "ready 3 ;", "a node without any copy begins without a state");
    is_str(said(), "", "the lack of copies is no error");
    end();
    begin(3, (const enum answer[]){TAKES, TAKES, TAKES}, NULL);
    state.heir_of = "n8";
    search();
    is_str(heard, "0 ask n0;1 ask n0;2 ask n0;0 ask n8;1 ask n8;2 ask n8;",
           "the state of a node that is gone is searched then");
    is_str(noted(), "ready 3 ;", "a state that no node has is not waited for");
    end();
    begin(0, (const enum answer[]){TAKES, IS_SILENT, TAKES}, (const int64_t[]){0, 0, 4});
    forget();
    keeper_search(&state);
    for (int i = 0; i < ROUNDS_MAX && !strstr(heard, "1 ask"); i++)
        turn(10);
    clock_ahead_ms += KEEPER_IDLE_MS_MAX;
    run();
    is_str(noted(), "restored n3 some;ready 3 ;", "a silent node is passed over");
    end();
}

static void test_fails(void) {
    begin(0, (const enum answer[]){SPOILS, TAKES, TAKES}, (const int64_t[]){9, 5, 4});
    search();
    is_str(heard, "0 ask n0;1 ask n0;2 ask n0;0 ask n0;1 ask n0;2 ask n0;1 ask n0;",
           "after a failure the other nodes are asked again");
    is_str(noted(), "restored n2 some;ready 3 ;", "the next copy is taken");
    has_str(said(), "a copy of this node's state cannot be had reason=\"its disk fails\"",
            "the user reads of the failure");
    end();
    begin(3, (const enum answer[]){SPOILS, SPOILS, SPOILS}, (const int64_t[]){9, 5, 4});
    search();
    is_str(noted(), "ready 3 its disk fails;", "the agent hears why no copy could be had");
    has_str(said(), "this node begins without its state, of which another node has a copy",
            "the user reads that the state is lost");
    is_str(state_text(), "absent", "nothing is restored");
    end();
}

// ---- all ----------------------------------------------------------------------------------------

static void publish(const char *folder, int64_t number) {
    struct manifest *m = manifest_new();
    struct strbuf list = {0};
    if (file_make_dirs(folder, 0700, &e) < 0 || generation_begin(folder, &e) < 0 ||
        file_write_atomic(file_join(&arena, generation_new(&arena, folder), "model"), "text", 4,
                          0600, &e) < 0 ||
        manifest_add_path(m, generation_new(&arena, folder), "", &(struct manifest_rules){0}, &e) <
            0 ||
        manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    generation_encode(m, &list);
    if (generation_publish(folder, number, list.data, list.len, &e) < 0)
        bail_out("%s", e.text);
    strbuf_fini(&list);
    manifest_free(m);
}

int main(void) {
    said_open(&notes);
    clock_stop();
    loop = loop_open(&e);
    if (!mkdtemp(root) || !loop)
        bail_out("no folder or loop");
    spec.run_dir = root;
    theirs = file_join(&arena, root, "theirs");
    publish(theirs, 1);
    for (int i = 0; i < NODES; i++) {
        int fd;
        if (state_sender_open(&nodes[i].sender, theirs, 1, &e) < 0 ||
            net_listen("127.0.0.1", 0, &fd, &nodes[i].port, &e) < 0 ||
            listener_open(&nodes[i].door, loop, fd, "keepers", on_accept, &e) < 0)
            bail_out("%s", e.text);
    }
    publish(file_join(&arena, root, "generations"), NUMBER);
    test_sends();
    test_refusals();
    test_offered();
    test_few();
    test_busy();
    test_silent();
    test_addresses();
    test_finds();
    test_none();
    test_fails();
    for (int i = 0; i < NODES; i++) {
        state_sender_close(&nodes[i].sender);
        listener_close(&nodes[i].door);
    }
    said_close(&notes);
    loop_close(loop);
    is_int(file_remove_tree(root, &e), 0, "the folder is removed");
    arena_fini(&arena);
    return done_testing();
}
