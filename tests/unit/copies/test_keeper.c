// SPDX-License-Identifier: Apache-2.0
// Keepers of three nodes, each in its process: states are published and copied to other nodes, and
// come back after their loss. The agents are parts of the test.
#include "copies/keeper_impl.h"

#include "base/clock.h"
#include "content/generation.h"
#include "sys/file.h"
#include "sys/listener.h"
#include "sys/net.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"
#include "tests/unit/copies/pauses_pass.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 3, EVERY_MS = 100, WAIT_MS = 20000 };

static struct err e;
static struct arena arena;
static struct loop *loop;
static char root[] = "/tmp/test_keeper.XXXXXX";
static const unsigned char key[] = "a key of 32 bytes for this test.";

static struct node { // an agent
    struct keeper_spec spec;
    struct keeper keeper;
    struct listener door;
    int port;
    char notes[1024]; // "ready 0;copied n1 3;…"
    int64_t number;   // of the last generation in a note
} nodes[NODES];

// ---- agents -------------------------------------------------------------------------------------

static const char *in(int i, const char *path) {
    return file_join(&arena, nodes[i].spec.run_dir, path);
}

static void on_note(struct keeper *k, const struct wire_msg *m) {
    struct node *n = container_of(k, struct node, keeper);
    size_t len = strlen(n->notes);
    char *at = n->notes + len;
    size_t room = sizeof n->notes - len;
    if (m->kind == KEEPER_READY)
        snprintf(at, room, "ready %d%s;", (int)m->number, m->reason);
    else if (m->kind == KEEPER_COPIED)
        snprintf(at, room, "copied %s %d;", m->name, (int)m->bytes);
    else if (m->kind == KEEPER_RESTORED)
        snprintf(at, room, "restored %s of %s %d;", m->name, m->reason, (int)m->bytes);
    if (m->kind != KEEPER_READY)
        n->number = m->number;
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    (void)peer;
    keeper_adopt(&container_of(l, struct node, door)->keeper, fd);
}

static void start(int i) {
    if (keeper_open(&nodes[i].keeper, loop, &nodes[i].spec, on_note, &e) < 0)
        bail_out("%s", e.text);
}

static void end(int i) {
    pid_t pid = nodes[i].keeper.pid;
    keeper_close(&nodes[i].keeper);
    waitpid(pid, NULL, 0);
}

static void open_nodes(void) {
    for (int i = 0; i < NODES; i++) {
        struct node *n = &nodes[i];
        int fd;
        const char *name = arena_printf(&arena, "n%d", i);
        n->spec = (struct keeper_spec){
            .run_dir = file_join(&arena, root, name),
            .node = name,
            .every_ms = EVERY_MS,
            .replicas = 1,
            .secret = {
                .run = "r1", .key = key, .key_len = sizeof key - 1, .magic = WIRE_MAGIC_COPIES}};
        if (net_listen("127.0.0.1", 0, &fd, &n->port, &e) < 0 ||
            listener_open(&n->door, loop, fd, "keepers", on_accept, &e) < 0)
            bail_out("%s", e.text);
        start(i);
    }
}

// The ring of node i, as digits of the nodes after it.
static void ring(int i, int round, int rank, int world, const char *after, const char *heir_of) {
    struct wire_node list[NODES] = {{.name = ""}};
    struct wire_msg m = {.type = WIRE_COPIES,
                         .round = round,
                         .group_rank = rank,
                         .group_world = world,
                         .name = heir_of,
                         .nodes = list};
    for (; after[m.node_count]; m.node_count++) {
        const struct node *n = &nodes[after[m.node_count] - '0'];
        list[m.node_count] =
            (struct wire_node){.name = n->spec.node, .address = "127.0.0.1", .port = n->port};
    }
    nodes[i].notes[0] = '\0';
    keeper_ring(&nodes[i].keeper, &m);
}

// part: the last of the notes.
static void wait_notes(int i, const char *part) {
    int64_t until = clock_mono_ms() + WAIT_MS;
    while (!strstr(nodes[i].notes, part) && clock_mono_ms() < until)
        loop_once(loop, 50);
}

static void is_noted(int i, const char *want, const char *what) {
    wait_notes(i, want);
    is_str(nodes[i].notes, want, "%s", what);
    nodes[i].notes[0] = '\0';
}

// ---- files --------------------------------------------------------------------------------------

// A publisher sees the whole file or none.
static void put(int i, const char *path, const char *text) {
    if (file_make_dirs(file_dir(&arena, in(i, path)), 0755, &e) < 0 ||
        file_write_atomic(in(i, "part"), text, strlen(text), 0640, &e) < 0 ||
        rename(in(i, "part"), in(i, path)) < 0)
        bail_out("cannot write '%s'", path);
}

static const char *text_of(int i, const char *path) {
    char *text;
    size_t len;
    return file_read(&arena, in(i, path), 4096, &text, &len, &e) < 0 ? "absent" : text;
}

static const char *copy_of(int holder, const char *owner, const char *path) {
    const char *folder = in(holder, arena_printf(&arena, "copies/%s", owner));
    char *text;
    size_t len;
    return file_read(
               &arena,
               file_join(&arena, generation_path(&arena, folder, generation_newest(folder)), path),
               4096, &text, &len, &e) < 0
               ? "absent"
               : text;
}

// Without a keeper. The publisher of one that has just ended may write for a moment.
static void lose(int i, const char *path) {
    for (int tries = 100; file_remove_tree(in(i, path), &e) < 0; tries--)
        if (tries == 0)
            bail_out("%s", e.text);
}

// ---- points -------------------------------------------------------------------------------------

static void test_first_round(void) {
    put(0, "state/model", "one");
    ring(0, 0, 0, 2, "1", "");
    is_noted(0, "ready 0;copied n1 3;", "the first round begins at once, and its state is copied");
    is_str(copy_of(1, "n0", "model"), "one", "the other node has the file");
    is_int(generation_newest(in(1, "copies/n0")), nodes[0].number, "the copy has its number");
    is_int(generation_newest(in(0, "generations")), nodes[0].number, "the node has the same one");
    put(0, "state/deep/more", "four");
    is_noted(0, "copied n1 4;", "a later state is copied without the content that is there");
    is_str(copy_of(1, "n0", "model"), "one", "the copy is whole");
    is_str(copy_of(1, "n0", "deep/more"), "four", "the copy has the new file");
    is_str(copy_of(2, "n0", "model"), "absent", "a third node has no copy");
}

static void test_needed(void) {
    ok(!keeper_is_needed(&nodes[0].keeper, 0), "the first round needs no state");
    ok(!keeper_is_needed(&nodes[0].keeper, 1), "a state that is here is not waited for");
    ok(keeper_is_needed(&nodes[2].keeper, 1), "a new node waits for a state");
    ok(!keeper_is_needed(&nodes[2].keeper, 0), "a new node of the first round waits for nothing");
    nodes[2].spec.replicas = 0;
    ok(!keeper_is_needed(&nodes[2].keeper, 1), "without copies there is nothing to wait for");
    nodes[2].spec.replicas = 1;
    static struct keeper closed;
    ok(!keeper_is_needed(&closed, 1), "a closed keeper is not needed");
    keeper_close(&closed);
}

static void test_restore(void) {
    end(0);
    lose(0, "");
    if (file_make_dirs(in(0, ""), 0755, &e) < 0)
        bail_out("%s", e.text);
    start(0);
    int64_t number = nodes[0].number;
    ring(0, 1, 0, 2, "1", "");
    is_noted(0, "restored n1 of n0 7;ready 1;", "a lost state comes back from the other node");
    is_int(nodes[0].number, number, "the state is the newest one");
    is_str(text_of(0, "state/model"), "one", "the state has its file");
    is_str(text_of(0, "state/deep/more"), "four", "the state has the file in a folder");
    ok(!keeper_is_needed(&nodes[0].keeper, 2), "the state is here again");
    ring(0, 2, 0, 2, "1", "");
    is_noted(0, "ready 2;", "the next round begins at once");
}

static void test_newer_state(void) {
    end(0);
    lose(0, "generations");
    put(0, "state/model", "mine");
    start(0);
    ring(0, 3, 0, 2, "1", "");
    wait_notes(0, "ready 3;");
    has_str(nodes[0].notes, "ready 3;", "a round with a newer state begins");
    is_str(text_of(0, "state/model"), "mine", "a state that was written later stays");
}

static void test_heir(void) {
    ring(2, 4, 1, 2, "1", "n0");
    wait_notes(2, "ready 4;");
    has_str(nodes[2].notes, "restored n1 of n0 ", "a new node takes the state of one that is gone");
    has_str(nodes[2].notes, ";ready 4;", "the round of the new node begins");
    ok(strcmp(text_of(2, "state/deep/more"), "four") == 0, "the new node has the state");
    ring(1, 4, 0, 2, "2", "");
    is_noted(1, "ready 4;", "a node without a state of its own begins without one");
    is_str(text_of(1, "state/model"), "absent", "the state of others is not taken");
}

// The holders are the first nodes of the ring, as many as there are copies.
static void test_holders(void) {
    for (int i = 0; i < NODES; i++) {
        end(i);
        lose(i, "");
        if (file_make_dirs(in(i, ""), 0755, &e) < 0)
            bail_out("%s", e.text);
        nodes[i].spec.replicas = 2;
        start(i);
    }
    put(0, "state/model", "text");
    ring(0, 0, 0, 3, "12", "");
    is_noted(0, "ready 0;copied n1 4;copied n2 4;", "two nodes have copies");
    ring(0, 1, 0, 2, "21", "");
    put(0, "state/model", "other");
    wait_notes(0, "copied n2 5;");
    ok(!strstr(nodes[0].notes, "copied n1"), "a node that stands by gets no copy");
    is_str(copy_of(1, "n0", "model"), "text", "the copy of that node is the old one");
    is_str(copy_of(2, "n0", "model"), "other", "the other node of the round has the new one");
}

static void test_away(void) {
    end(1);
    ring(0, 2, 0, 3, "12", "");
    put(0, "state/model", "later on");
    for (int i = 0; i < 200 && strcmp(copy_of(2, "n0", "model"), "later on") != 0; i++)
        loop_once(loop, 50);
    is_str(copy_of(2, "n0", "model"), "later on",
           "a node that is away keeps no other from its copy");
    end(0);
    lose(0, "generations");
    lose(0, "state");
    start(0);
    ring(0, 3, 0, 3, "12", "");
    wait_notes(0, "ready 3;");
    has_str(nodes[0].notes, "restored n2 of n0 ", "the state comes from a node that is there");
    is_str(text_of(0, "state/model"), "later on", "the newest state is back");
    start(1);
}

static void test_orders(void) {
    static const int wrong[][2] = {{0, 0}, {2, 2}, {-1, 2}, {0, JOB_NODES_MAX + 1}, {0, -1}};
    for (int i = 0; i < 5; i++)
        ring(0, 5, wrong[i][0], wrong[i][1], "", "");
    ring(0, 6, JOB_NODES_MAX - 1, JOB_NODES_MAX, "", "");
    is_noted(0, "ready 6;", "an order outside the bounds is ignored");
}

// A keeper knows a part of the nodes of a large run.
static void test_large(void) {
    enum { MANY = REPLICA_PEERS_MAX + 44 };
    static struct wire_node list[MANY];
    struct wire_msg m = {.type = WIRE_COPIES,
                         .round = 6,
                         .group_world = MANY + 1,
                         .name = "",
                         .nodes = list,
                         .node_count = MANY};
    pid_t before = nodes[0].keeper.pid;
    for (int i = 0; i < MANY; i++)
        list[i] = (struct wire_node){
            .name = arena_printf(&arena, "m%d", i), .address = "127.0.0.1", .port = 1};
    nodes[0].notes[0] = '\0';
    keeper_ring(&nodes[0].keeper, &m);
    is_noted(0, "ready 6;", "a round may have more nodes than a keeper knows");
    ok(nodes[0].keeper.pid == before, "the keeper is the same process");
}

static void test_killed(void) {
    pid_t before = nodes[0].keeper.pid;
    kill(before, SIGKILL);
    for (int i = 0; i < 200 && nodes[0].keeper.fd >= 0; i++)
        loop_once(loop, 50);
    ok(nodes[0].keeper.fd < 0, "the end of a killed keeper is seen");
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    keeper_adopt(&nodes[0].keeper, fd);
    ok(close(fd) < 0 && errno == EBADF, "connections are closed meanwhile");
    clock_ahead_ms += KEEPER_AGAIN_MS;
    is_noted(0, "ready 6;", "another one gets the last order");
    ok(nodes[0].keeper.pid != before, "the keeper is another process");
}

// ---- publishing in this process -----------------------------------------------------------------

static void write_on(void) {
    put(0, "state/model", arena_printf(&arena, "%lld", (long long)clock_ahead_ms));
}

static void test_publish(void) {
    const char *own = in(0, "generations"), *large = in(0, "state/large");
    const struct keeper_spec *spec = &nodes[0].spec;
    enum { LARGE_BYTES = 8 << 20 };
    lose(0, "state");
    lose(0, "generations");
    is_int(keeper_publish(spec, own, 0), KEEPER_SAME, "no state needs no generation");
    put(0, "state/model", "one");
    int fd = open(large, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, LARGE_BYTES) < 0 || symlink("model", in(0, "state/newest")) < 0)
        bail_out("cannot write '%s'", large);
    close(fd);
    is_int(keeper_publish(spec, own, 0), KEEPER_NEW, "a state is published");
    int64_t number = generation_newest(own);
    is_int(keeper_publish(spec, own, 0), KEEPER_SAME, "the same state is published once");
    is_int(generation_newest(own), number, "the generation stays");
    put(0, "state/model", "two");
    uint64_t before = bytes_read();
    is_int(keeper_publish(spec, own, 0), KEEPER_NEW, "a changed state is published");
    ok(generation_newest(own) > number, "the new generation has a higher number");
    if (before)
        ok(bytes_read() - before < LARGE_BYTES / 2, "a large file that stays is not read again");
    else
        skip(1, "this kernel does not count bytes");
    write_on();
    in_pause = write_on;
    is_int(keeper_publish(spec, own, 1), KEEPER_NOT_WHOLE, "a state that changes is not whole");
    in_pause = NULL;
    lose(0, "state");
    is_int(keeper_restore(spec, own, &e), 0, "a generation becomes the state");
    is_str(text_of(0, "state/model"), "two", "the state is the newest one");
    char target[16] = "";
    ok(readlink(in(0, "state/newest"), target, sizeof target - 1) == 5 &&
           strcmp(target, "model") == 0,
       "a link is a link again");
    lose(0, "generations");
    is_int(keeper_restore(spec, own, &e), -1, "without a generation there is nothing to restore");
}

int main(void) {
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    loop = loop_open(&e);
    if (!mkdtemp(root) || !loop)
        bail_out("no folder or loop");
    open_nodes();
    test_first_round();
    test_needed();
    test_restore();
    test_newer_state();
    test_heir();
    test_holders();
    test_away();
    test_orders();
    test_large();
    test_killed();
    for (int i = 0; i < NODES; i++) {
        end(i);
        listener_close(&nodes[i].door);
    }
    test_publish();
    loop_close(loop);
    file_remove_tree(root, &e);
    arena_fini(&arena);
    return done_testing();
}
