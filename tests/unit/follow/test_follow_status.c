// SPDX-License-Identifier: Apache-2.0
// The end of a run that was followed: its state from those of two nodes, and the names of logs.
#include "base/str.h"
#include "follow/follow.h"
#include "tests/unit/follow/follow_fixture.h"

#include <sys/stat.h>

static const struct follow_view NOTHING;

// ---- states -------------------------------------------------------------------------------------

static void finals(void) {
    static const char *const final[] = {"finished", "failed", "stopped", "lost"};
    static const char *const other[] = {"starting", "joining", "running",   "waiting",
                                        "stopping", "",        "unheard of"};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++)
        ok(follow_is_final(final[i]), "'%s' is final", final[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        ok(!follow_is_final(other[i]), "'%s' is not final", other[i]);
}

static void set(struct follow_node *n, const char *state, int exit_status) {
    n->over = true;
    n->exit_status = exit_status;
    snprintf(n->state, sizeof n->state, "%s", state);
}

static void states(void) {
    // Each node exits with a status of its own: 10 and 11.
    static const struct {
        const char *first, *second, *coordinator, *state;
        int exit_status;
        const char *about;
    } cases[] = {
        {"finished", "finished", "n0", "finished", 10, "a run that finished on all nodes"},
        {"finished", "failed", "n0", "finished", 10, "a node that was cut off"},
        {"failed", "finished", "n0", "finished", 11, "a coordinator that was cut off"},
        {"finished", "", NULL, "finished", 10, "a node that was given up"},
        {"", "finished", NULL, "finished", 11, "a first node that was given up"},
        {"failed", "failed", NULL, "failed", 10, "a failure without a coordinator"},
        {"failed", "failed", "n1", "failed", 11, "the coordinator's failure"},
        {"failed", "stopped", "n1", "stopped", 11, "the coordinator's word against another"},
        {"stopped", "failed", NULL, "failed", 11, "no coordinator among failures"},
        {"stopped", "failed", "n0", "stopped", 10, "a coordinator that was stopped"},
        {"stopped", "failed", "n9", "failed", 11, "a coordinator that is not of this run"},
        {"failed", "lost", "n1", "failed", 10, "a coordinator that vanished"},
        {"lost", "stopped", "n0", "stopped", 11, "a first coordinator that vanished"},
        {"failed", "", "n1", "failed", 10, "a coordinator that was given up"},
        {"lost", "lost", "n0", "lost", 10, "a run that vanished"},
        {"lost", "", NULL, "lost", 10, "a run that vanished from one node"},
        {"", "", "n0", "lost", 4, "a run that was given up"},
    };
    struct follow_fixture f;
    fixture_make(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct follow_node nodes[2] = {{.node = &f.fleet_nodes[0]}, {.node = &f.fleet_nodes[1]}};
        struct follow follow = {.nodes = nodes, .count = 2};
        int status = -1;
        follow.history.coordinator = cases[i].coordinator;
        set(&nodes[0], cases[i].first, 10);
        set(&nodes[1], cases[i].second, 11);
        is_str(follow_state(&follow, &status), cases[i].state, "%s has a state", cases[i].about);
        is_int(status, cases[i].exit_status, "%s has an exit status", cases[i].about);
        for (int n = 0; n < 2; n++) {
            nodes[n].over = false;
            is_str(follow_state(&follow, &status), "", "node %d has not ended", n);
            is_int(status, 0, "a run that is not over has no exit status");
            nodes[n].over = true;
        }
    }
    struct follow_node nodes[2] = {{.node = &f.fleet_nodes[0]}, {.node = &f.fleet_nodes[1]}};
    struct follow follow = {.nodes = nodes, .count = 2};
    int status = -1;
    set(&nodes[0], "finished", 0);
    set(&nodes[1], "stopping", 0);
    is_str(follow_state(&follow, &status), "", "a node whose state is not final has not ended");
    fixture_remove(&f);
}

// ---- logs ---------------------------------------------------------------------------------------

static const char *log_of(struct follow_fixture *f, const char *node, const char *name) {
    char *text;
    size_t len;
    struct err e = {0};
    const char *dir = run_path(&f->context.cluster, &f->run, "logs");
    return file_read(&f->arena, arena_printf(&f->arena, "%s/%s/%s", dir, node, name), 4096, &text,
                     &len, &e) < 0
               ? "absent"
               : text;
}

static void names(void) {
    struct follow_fixture f;
    struct err e = {0};
    fixture_make(&f);
    if (follow_open(&f.follow, &f.context, &f.fleet, &f.run, &NOTHING, NULL, &e) < 0)
        bail_out("%s", e.text);
    fixture_bytes(&f, 0, "events.jsonl",
                  "{\"kind\":\"round\",\"round\":0,\"nproc\":2,\"rank\":4}\n");
    fixture_bytes(&f, 0, "attempt_0/1/stdout.log", "old out\n");
    fixture_bytes(&f, 0, "attempt_0/1/stderr.log", "old err\n");
    fixture_bytes(&f, 0, "events.jsonl",
                  "{\"kind\":\"round\",\"round\":1,\"nproc\":2,\"rank\":0}\n");
    fixture_bytes(&f, 0, "attempt_1/0/stdout.log", "new out\n");
    fixture_bytes(&f, 0, "attempt_1/0/stderr.log", "new err\n");
    fixture_bytes(&f, 0, "attempt_1/7/stdout.log", "no rank\n");
    fixture_bytes(&f, 0, "output/metrics.jsonl", "{\"loss\":1}\n");
    fixture_bytes(&f, 1, "attempt_3/0/stderr.log", "no rounds\n");
    is_int(follow_name_logs(&f.follow, &e), 0, "logs get names: %s", e.text);
    is_str(log_of(&f, "n0", "0.out"), "new out\n", "the newest output has its rank as its name");
    is_str(log_of(&f, "n0", "0.err"), "new err\n", "the newest errors have theirs");
    is_str(log_of(&f, "n0", "5.attempt0.out"), "old out\n", "earlier output has its attempt");
    is_str(log_of(&f, "n0", "5.attempt0.err"), "old err\n", "earlier errors have theirs");
    is_str(log_of(&f, "n0", "local7.attempt1.out"), "no rank\n",
           "a log without a rank has the number on its node");
    is_str(log_of(&f, "n1", "local0.attempt3.err"), "no rounds\n",
           "a node without rounds has logs, too");
    fixture_bytes(&f, 0, "attempt_1/0/stdout.log", "and more\n");
    is_int(follow_name_logs(&f.follow, &e), 0, "names are given anew: %s", e.text);
    is_str(log_of(&f, "n0", "0.out"), "new out\nand more\n", "a log has its later lines");
    const char *dir = run_path(&f.context.cluster, &f.run, "logs");
    const char *taken = arena_printf(&f.arena, "%s/n0/0.err", dir);
    if (unlink(taken) < 0 || file_make_dirs(taken, 0700, &e) < 0)
        bail_out("no folder");
    is_int(follow_name_logs(&f.follow, &e), -1, "a folder may have the name of a log");
    has_str(e.text, arena_printf(&f.arena, "cannot replace '%s'", taken), "the error has the name");
    file_remove_tree(dir, &e);
    if (file_write_atomic(dir, "", 0, 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(follow_name_logs(&f.follow, &e), -1, "a file may have the name of the folder");
    follow_close(&f.follow);
    fixture_remove(&f);
}

// Logs on another file system cannot be second names of what came.
static void elsewhere(void) {
    struct follow_fixture f;
    struct stat st;
    struct err e = {0};
    char other[] = "/dev/shm/dtctl-follow-XXXXXX";
    fixture_make(&f);
    const char *logs = run_path(&f.context.cluster, &f.run, "logs");
    if (!mkdtemp(other) || symlink(other, logs) < 0 ||
        follow_open(&f.follow, &f.context, &f.fleet, &f.run, &NOTHING, NULL, &e) < 0)
        bail_out("no other file system: %s", e.text);
    fixture_bytes(&f, 0, "attempt_0/0/stdout.log", "text\n");
    for (int again = 0; again < 2; again++)
        is_int(follow_name_logs(&f.follow, &e), 0, "logs elsewhere get names: %s", e.text);
    is_str(log_of(&f, "n0", "local0.attempt0.out"), "text\n", "a log elsewhere is read");
    ok(lstat(arena_printf(&f.arena, "%s/n0/local0.attempt0.out", logs), &st) == 0 &&
           S_ISLNK(st.st_mode),
       "a log elsewhere is a symbolic link");
    follow_close(&f.follow);
    file_remove_tree(other, &e);
    fixture_remove(&f);
}

int main(void) {
    finals();
    states();
    names();
    elsewhere();
    return done_testing();
}
