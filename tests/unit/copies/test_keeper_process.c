// SPDX-License-Identifier: Apache-2.0
// The intervals of a keeper: when a state is published, when it is looked at again, and how often
// the user reads that it is late. The keeper is in this process, and publishes in others.
#include "copies/keeper_impl.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/unit/copies/pauses_pass.h"
#include "tests/unit/said.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVERY_MS = 5000, ROUNDS_MAX = 400 };

static struct err e;
static struct arena arena;
static struct loop *loop;
static struct screen notes;
static char root[] = "/tmp/test_keeper_process.XXXXXX";
static struct keeper_spec spec = {.node = "n0", .run_dir = root, .replicas = 1};
static struct keeper_state state;
static int agent = -1; // its end of the notes

// ---- files --------------------------------------------------------------------------------------

static const char *at(const char *path) {
    return file_join(&arena, root, path);
}

static void put(const char *path) {
    static int count;
    const char *text = arena_printf(&arena, "%d", ++count);
    unlink(at(path));
    if (file_make_dirs(file_dir(&arena, at(path)), 0755, &e) < 0 ||
        file_append(at(path), text, strlen(text), &e) < 0)
        bail_out("cannot write '%s'", path);
}

static void write_on(void) {
    put("state/model");
}

// ---- a keeper -----------------------------------------------------------------------------------

static void begin(int every_ms) {
    int fds[2];
    static const char *const paths[] = {"generations", "state"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (file_remove_tree(at(paths[i]), &e) < 0)
            bail_out("%s", e.text);
    put("state/model");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        bail_out("no agent");
    spec.every_ms = every_ms;
    agent = fds[1];
    state = (struct keeper_state){.spec = &spec,
                                  .loop = loop,
                                  .fd = fds[0],
                                  .own = at("generations"),
                                  .copies = at("copies"),
                                  .round = 3,
                                  .nodes = 2,
                                  .heir_of = ""};
    state.whole_ms = clock_mono_ms();
    in_pause = NULL;
    said_clear();
}

static void wait_published(void) {
    for (int i = 0; i < ROUNDS_MAX && state.publishing; i++)
        loop_once(loop, 50);
    if (state.publishing)
        bail_out("a publisher ends");
}

static void end(void) {
    wait_published();
    keeper_stop(&state);
    timer_stop(&state.next);
    close(state.fd);
    close(agent);
    arena_fini(&state.arena);
}

// That much later a state is published, and not a moment before.
static void publishes_after(int64_t ms, const char *about) {
    clock_ahead_ms += ms - 1;
    loop_once(loop, 0);
    ok(!state.publishing, "%s is not published too early", about);
    clock_ahead_ms += 1;
    loop_once(loop, 0);
    ok(state.publishing, "%s is published after %d ms", about, (int)ms);
    wait_published();
}

static const char *noted(void) {
    static char text[64 << 10];
    const char *all = "";
    ssize_t n;
    while ((n = recv(agent, text, sizeof text, MSG_DONTWAIT)) > 0) {
        struct wire_msg m;
        size_t used;
        if (frame_take(&arena, text, (size_t)n, sizeof text, &m, &used, NULL, &e) != 1)
            bail_out("%s", e.text);
        all = arena_printf(&arena, "%s%s %d %s;", all, m.kind == KEEPER_READY ? "ready" : "other",
                           (int)m.number, m.reason);
    }
    return all;
}

// ---- points -------------------------------------------------------------------------------------

static void test_names(void) {
    static const struct {
        const char *name;
        bool good;
    } rows[] = {{"n0", true},  {"a.b-c", true}, {"", false},   {".", false},
                {"..", false}, {"a/b", false},  {"/a", false}, {"a/", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ok(keeper_is_name(rows[i].name) == rows[i].good, "the name '%s' is %s", rows[i].name,
           rows[i].good ? "one of a node" : "refused");
}

static void test_intervals(void) {
    begin(EVERY_MS);
    keeper_ready(&state, "why");
    is_str(noted(), "ready 3 why;", "the agent hears of the round and the reason");
    ok(file_exists(at("generations/here")), "the state of this disk is marked");
    publishes_after(EVERY_MS, "the first state");
    int64_t number = generation_newest(state.own);
    ok(number > 0, "the first state is a generation");
    publishes_after(EVERY_MS, "the same state");
    is_int(generation_newest(state.own), number, "the same state is no new generation");
    clock_ahead_ms += EVERY_MS / 2;
    keeper_ready(&state, "");
    publishes_after(EVERY_MS / 2, "a state in a later round");
    state.task = TASK_FIND;
    clock_ahead_ms += EVERY_MS;
    loop_once(loop, 0);
    ok(!state.publishing, "nothing is published while a state is searched");
    state.task = TASK_NONE;
    publishes_after(KEEPER_BUSY_MS, "the state after a search");
    state.task = TASK_RESTORE;
    clock_ahead_ms += EVERY_MS;
    loop_once(loop, 0);
    ok(!state.publishing, "nothing is published while a state comes back");
    state.task = TASK_SEND;
    publishes_after(KEEPER_BUSY_MS, "the state beside a copy that is sent");
    state.task = TASK_NONE;
    end();
}

static void test_busy(void) {
    begin(EVERY_MS);
    in_pause = write_on;
    keeper_ready(&state, "");
    publishes_after(EVERY_MS, "a state that is being written");
    publishes_after(KEEPER_BUSY_MS, "a state that was being written");
    is_int(generation_newest(state.own), 0, "a state that is not whole is no generation");
    end();
    begin(KEEPER_BUSY_MS / 2);
    in_pause = write_on;
    keeper_ready(&state, "");
    publishes_after(KEEPER_BUSY_MS / 2, "a state of short intervals");
    publishes_after(KEEPER_BUSY_MS / 2, "a state of short intervals that was being written");
    end();
    begin(EVERY_MS);
    if (file_write_atomic(at("generations"), "", 0, 0600, &e) < 0)
        bail_out("%s", e.text);
    keeper_ready(&state, "");
    has_str(said(), "cannot mark the state of this node", "the user reads that there is no mark");
    publishes_after(EVERY_MS, "a state without a folder");
    publishes_after(EVERY_MS, "a state that could not be published");
    unlink(at("generations"));
    end();
}

static void test_late(void) {
    begin(EVERY_MS);
    in_pause = write_on;
    keeper_ready(&state, "");
    clock_ahead_ms += (int64_t)KEEPER_LATE * EVERY_MS;
    loop_once(loop, 0);
    wait_published();
    is_str(said(), "", "a state may be late for ten intervals");
    publishes_after(KEEPER_BUSY_MS, "a late state");
    has_str(said(),
            "the state is never whole for a second, so no other node has a copy seconds=51 ",
            "the user reads how late the state is");
    said_clear();
    publishes_after(KEEPER_BUSY_MS, "a state that is later still");
    is_str(said(), "", "the user reads once that the state is late");
    in_pause = NULL;
    publishes_after(KEEPER_BUSY_MS, "a state that is whole again");
    in_pause = write_on;
    put("state/model");
    clock_ahead_ms += (int64_t)KEEPER_LATE * EVERY_MS;
    loop_once(loop, 0);
    wait_published();
    is_str(said(), "", "the time is counted from the last whole state");
    publishes_after(KEEPER_BUSY_MS, "a state that is late again");
    has_str(said(), "seconds=51 ", "the user reads again that a state is late");
    end();
}

static void test_search(void) {
    begin(EVERY_MS);
    keeper_ready(&state, "");
    clock_ahead_ms += EVERY_MS;
    loop_once(loop, 0);
    noted();
    ok(state.publishing, "a state is being published");
    keeper_search(&state);
    is_str(noted(), "", "a search waits for the publisher");
    wait_published();
    clock_ahead_ms += KEEPER_KILL_MS;
    loop_once(loop, 0);
    is_str(noted(), "ready 3 ;", "a search without other nodes is over at once");
    end();
}

int main(void) {
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    said_open(&notes);
    clock_stop();
    loop = loop_open(&e);
    if (!mkdtemp(root) || !loop)
        bail_out("no folder or loop");
    test_names();
    test_intervals();
    test_busy();
    test_late();
    test_search();
    said_close(&notes);
    loop_close(loop);
    is_int(file_remove_tree(root, &e), 0, "the folder is removed");
    arena_fini(&arena);
    return done_testing();
}
