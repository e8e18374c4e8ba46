// SPDX-License-Identifier: Apache-2.0
// The history of a run: rounds, attempts, exits, the first failure; hostile events change nothing.
#include "follow/run_history.h"
#include "tests/tap.h"

static const char *const NODES[] = {"n0", "n1"};

struct fixture {
    struct arena arena, scratch;
    struct run_history history;
};

static const char *add(struct fixture *f, size_t node, const char *line) {
    const struct json *event = NULL;
    const char *kind = run_history_add(&f->history, &f->scratch, node, line, strlen(line), &event);
    arena_reset(&f->scratch);
    return kind;
}

static void open_fixture(struct fixture *f) {
    *f = (struct fixture){0};
    run_history_init(&f->history, &f->arena, NODES, 2);
}

static void close_fixture(struct fixture *f) {
    arena_fini(&f->arena);
    arena_fini(&f->scratch);
}

static void rounds_and_losses(void) {
    struct fixture f;
    open_fixture(&f);
    add(&f, 0, "{\"kind\":\"round\",\"time_ms\":5,\"round\":0,\"nodes\":2,\"reason\":\"\"}");
    is_int(f.history.nodes[1].announced, false, "the node is not announced as preempted");
    add(&f, 0, "{\"kind\":\"notice\",\"peer\":\"n1\",\"reason\":\"lease\",\"left_ms\":1}");
    is_int(f.history.nodes[1].announced, true, "the node is announced as preempted");
    add(&f, 0, "{\"kind\":\"node-lost\",\"peer\":\"n1\",\"reason\":\"it is silent\"}");
    is_str(f.history.nodes[1].gone_why, "it is silent", "the reason of a node's end is known");
    add(&f, 0,
        "{\"kind\":\"round\",\"time_ms\":9,\"round\":1,\"nodes\":1,\"world_size\":1,"
        "\"reason\":\"node n1 is gone\"}");
    add(&f, 1, "{\"kind\":\"round\",\"time_ms\":8,\"round\":1,\"nodes\":1,\"reason\":\"late\"}");
    is_int(f.history.round_count, 2, "each round is kept once");
    const struct history_round *second = f.history.rounds->next;
    is_int(second->time_ms, 9, "the second round has its time");
    is_str(second->reason, "node n1 is gone", "the second round has its reason");
    is_int(second->nodes, 1, "the second round has its number of nodes");
    ok(second->next == NULL, "no other round is kept");
    add(&f, 0, "{\"kind\":\"node-joined\",\"peer\":\"n1\"}");
    ok(!f.history.nodes[1].lost && !f.history.nodes[1].gone_why, "a node that is back is not gone");
    close_fixture(&f);
}

static void two_rounds(void) {
    struct fixture f;
    int started = 0, ended = 0;
    open_fixture(&f);
    add(&f, 0, "{\"kind\":\"joined\",\"coordinator\":\"n0\"}");
    is_str(f.history.coordinator, "n0", "the coordinator is known");
    add(&f, 0, "{\"kind\":\"waiting\",\"reason\":\"here: n0; missing: n1\"}");
    is_str(f.history.waiting, "n1", "the missing node is kept");
    add(&f, 0,
        "{\"kind\":\"round\",\"round\":0,\"nodes\":2,\"nproc\":2,\"rank\":0,\"world_size\":4}");
    add(&f, 1,
        "{\"kind\":\"round\",\"round\":0,\"nodes\":2,\"nproc\":2,\"rank\":2,\"world_size\":4}");
    ok(f.history.waiting == NULL, "no node is missing any more");
    is_int(f.history.world_size, 4, "the world size is known");
    is_int(run_history_rank_of(&f.history, 1, 0, 1), 3, "ranks are known before a worker runs");
    is_int(run_history_rank_of(&f.history, 1, 1, 1), -1, "ranks of another attempt are unknown");
    add(&f, 1,
        "{\"kind\":\"workers-started\",\"time_ms\":50,\"round\":0,\"attempt\":0,\"pids\":[7,8]}");
    is_int(run_history_rank_of(&f.history, 1, 0, 1), 3, "the rank behind a log folder is known");
    is_int(f.history.nodes[1].ranks[1].pid, 8, "a worker's pid is kept");
    run_history_count(&f.history, &started, &ended);
    is_int(started, 2, "two have started");
    add(&f, 1,
        "{\"kind\":\"worker-exited\",\"round\":0,\"local_rank\":1,\"status\":137,"
        "\"signal\":\"SIGKILL\",\"ms\":9}");
    is_int(f.history.nodes[1].ranks[1].status, 137, "a worker's exit status is kept");
    is_str(f.history.nodes[1].ranks[1].signal, "SIGKILL", "a worker's signal is kept");
    add(&f, 1,
        "{\"kind\":\"round\",\"round\":1,\"restarts\":1,\"nodes\":1,\"nproc\":2,\"rank\":0,"
        "\"world_size\":2}");
    add(&f, 1, "{\"kind\":\"workers-started\",\"round\":1,\"attempt\":1,\"pids\":[]}");
    is_int(run_history_rank_of(&f.history, 1, 1, 1), 1, "another attempt has other ranks");
    is_int(run_history_rank_of(&f.history, 1, 0, 1), 3, "the earlier attempt keeps its ranks");
    is_int(f.history.restarts, 1, "the restarts are counted");
    add(&f, 1, "{\"kind\":\"worker-exited\",\"round\":0,\"local_rank\":0,\"status\":1}");
    ok(!f.history.nodes[1].ranks[0].ended, "an exit of an old round changes nothing");
    add(&f, 1, "{\"kind\":\"finished\",\"time_ms\":99,\"restarts\":1}");
    is_str(f.history.nodes[1].state, "finished", "the end of the node is known");
    close_fixture(&f);
}

static void failures(void) {
    struct fixture f;
    open_fixture(&f);
    ok(run_history_root(&f.history) == NULL, "nothing failed yet");
    add(&f, 0, "{\"kind\":\"failure\",\"peer\":\"n0\",\"round\":0,\"rank\":0,\"failed_ms\":10}");
    add(&f, 0, "{\"kind\":\"failure\",\"peer\":\"n1\",\"round\":1,\"rank\":3,\"failed_ms\":30}");
    add(&f, 0,
        "{\"kind\":\"failure\",\"peer\":\"n0\",\"round\":1,\"rank\":1,\"failed_ms\":20,"
        "\"tail\":\"boom\"}");
    is_int(run_history_root(&f.history)->rank, 1,
           "the root cause is the earliest failure of the last round");
    is_str(run_history_root(&f.history)->tail, "boom", "the root failure has its last line");
    add(&f, 0,
        "{\"kind\":\"failure\",\"peer\":\"n1\",\"round\":1,\"rank\":2,\"failed_ms\":40,"
        "\"root\":true}");
    is_int(run_history_root(&f.history)->rank, 2, "a marked failure is the root");
    is_str(run_history_root(&f.history)->node, "n1", "the root failure has its node");
    is_uint(f.history.failure_count, 4, "four failures are kept");
    add(&f, 1, "{\"kind\":\"failure\",\"peer\":\"n0\",\"round\":1,\"rank\":1,\"failed_ms\":20}");
    is_uint(f.history.failure_count, 4, "the same failure from another node is not added");
    is_str(f.history.failures[2].tail, "boom",
           "the same failure from another node changes nothing");
    for (int i = 0; i < 200; i++) {
        char line[80];
        snprintf(line, sizeof line,
                 "{\"kind\":\"failure\",\"peer\":\"n0\",\"round\":0,\"rank\":%d}", i);
        add(&f, 0, line);
    }
    is_uint(f.history.failure_count, HISTORY_FAILURES_MAX, "failures above the limit are not kept");
    close_fixture(&f);
}

// True when another node has already reported the event of this line.
static bool is_known(struct fixture *f, size_t node, const char *line) {
    const struct json *event;
    arena_reset(&f->scratch);
    run_history_add(&f->history, &f->scratch, node, line, strlen(line), &event);
    return run_history_is_known(&f->history, node, event);
}

static void told_twice(void) {
    static const char failure[] =
        "{\"kind\":\"failure\",\"seq\":4,\"peer\":\"n0\",\"round\":2,\"rank\":1}";
    static const char root[] =
        "{\"kind\":\"failure\",\"seq\":5,\"peer\":\"n0\",\"round\":2,\"rank\":1,\"root\":true}";
    struct fixture f;
    open_fixture(&f);
    ok(!is_known(&f, 1, failure), "a failure reported by one node is new");
    is_str(run_history_root(&f.history)->node, "n0", "the root failure is of another node");
    ok(is_known(&f, 0, failure), "a failure reported by a second node is known");
    ok(is_known(&f, 1, root), "a failure that the first reporter repeats as the root is known");
    ok(!is_known(&f, 1, failure), "the first reporter is the first again when all is read again");
    ok(!is_known(&f, 0, "{\"kind\":\"joined\",\"coordinator\":\"n0\"}"),
       "an event of the node itself is new");
    close_fixture(&f);
}

static void hostile(void) {
    static const char *const lines[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"kind\":5}",
        "{\"kind\":\"nonsense\"}",
        "{\"kind\":\"round\"}",
        "{\"kind\":\"round\",\"round\":-5,\"nproc\":4}",
        "{\"kind\":\"round\",\"round\":0,\"nproc\":99999999}",
        "{\"kind\":\"round\",\"round\":0,\"nproc\":-1}",
        "{\"kind\":\"workers-started\",\"pids\":\"x\"}",
        "{\"kind\":\"worker-exited\",\"round\":0,\"local_rank\":5000000}",
        "{\"kind\":\"worker-exited\",\"round\":-1,\"local_rank\":-1}",
        "{\"kind\":\"failure\",\"peer\":7,\"tail\":[1]}",
        "{\"kind\":\"node-lost\",\"peer\":\"nobody\"}",
        "{\"kind\":\"notice\",\"peer\":{}}",
        "{\"kind\":\"waiting\",\"missing\":[1,{},null]}",
    };
    struct fixture f;
    int started = 0, ended = 0;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        add(&f, i % 2, lines[i]);
    is_int(add(&f, 7, "{\"kind\":\"joined\"}") != NULL, 0, "a node that is not there is refused");
    run_history_count(&f.history, &started, &ended);
    is_int(started + ended, 0, "nothing was believed");
    is_int(run_history_rank_of(&f.history, 0, 0, 0), -1, "no rank was invented");
    close_fixture(&f);
}

#define TITLE "\\u001b]0;P\\u0007" // sets the title of a terminal

// Texts of nodes end up on a terminal: no control byte but the line feeds of a text of several
// lines.
static bool is_safe(const char *text, bool lines) {
    for (const char *c = text; c && *c; c++)
        if ((unsigned char)*c < 0x20 && !(lines && *c == '\n'))
            return false;
    return text && *text;
}

static void escapes(void) {
    struct fixture f;
    open_fixture(&f);
    add(&f, 0, "{\"kind\":\"node-lost\",\"peer\":\"n1\",\"reason\":\"" TITLE "\"}");
    ok(is_safe(f.history.nodes[1].gone_why, false), "the reason of a loss is safe to print");
    add(&f, 0,
        "{\"kind\":\"failure\",\"peer\":\"n1\",\"round\":0,\"rank\":0,"
        "\"tail\":\"a\\n" TITLE "b\",\"message\":\"" TITLE "\\nc\"}");
    const struct history_failure *root = run_history_root(&f.history);
    ok(root && is_safe(root->tail, true), "the last lines of a failure are safe to print");
    ok(root && is_safe(root->message, true), "the message of a failure is safe to print");
    close_fixture(&f);
}

int main(void) {
    two_rounds();
    rounds_and_losses();
    failures();
    told_twice();
    hostile();
    escapes();
    return done_testing();
}
