// SPDX-License-Identifier: Apache-2.0
// Runs on a node have owners and may be fetched; both decide about what is removed. A verb runs in
// a process of its own, as on a node; so does an agent.
#include "tests/unit/node/agent_process.h"

#include <sys/stat.h>

// A run that is over, of a cluster (NULL: without a mark).
static void put_run(const char *run, const char *owner, bool fetched) {
    put(arena_printf(&a, "runs/%s/job.toml", run), "");
    put(arena_printf(&a, "runs/%s/status.json", run), "{\"state\":\"finished\"}");
    if (owner)
        put(arena_printf(&a, "runs/%s/owner", run), arena_printf(&a, "%s\n", owner));
    if (fetched)
        put(arena_printf(&a, "runs/%s/fetched", run), "1\n");
}

#define OWN(words)     verb(node_own, "", words)
#define FETCHED(words) verb(node_fetched, "", words)
#define CLEAN(words)   verb(node_clean, "", words)

static void serve(int door, const void *ends_ms) {
    agent_accept(door);
    poll(NULL, 0, *(const int *)ends_ms);
}

// An agent of the run in that state. Some time after its first client it ends.
static pid_t agent(const char *run, const char *state, int ends_ms) {
    pid_t pid = agent_start(run, serve, &ends_ms);
    put(arena_printf(&a, "runs/%s/status.json", run),
        arena_printf(&a, "{\"state\":\"%s\",\"pid\":%d}", state, (int)pid));
    return pid;
}

// ---- marks --------------------------------------------------------------------------------------

static void test_own(void) {
    char long_text[NODE_OWNER_TEXT_BYTES_MAX + 2];
    begin();
    is_int(OWN("--owner id1 --text ann's+cluster"), 0, "a cluster owns the node");
    is_str(said, "{\"event\":\"owned\"}", "the answer says so");
    is_str(text_of("owners/id1"), "ann's cluster\n", "the mark has the text");
    is_int(OWN("--owner id2 --text another"), 0, "a second cluster owns it, too");
    is_int(OWN("--owner id3 --text ann's+cluster"), 0, "the first one has a new id");
    is_str(text_of("owners/id1"), "absent", "the mark of its old id is removed");
    is_str(text_of("owners/id2"), "another\n", "the other cluster's mark stays");
    is_str(text_of("owners/id3"), "ann's cluster\n", "the new mark stays");
    put("owners/.hidden", "ann's cluster\n");
    is_int(OWN("--owner id3 --text ann's+cluster"), 0, "a mark is written again");
    is_str(text_of("owners/.hidden"), "ann's cluster\n", "hidden files are no marks");
    ok(OWN("--owner id1") != 0, "a mark needs a text");
    has_str(said, "needs --owner and --text of at most 1024 bytes", "the error says so");
    ok(OWN("--text x") != 0, "a mark needs an owner");
    memset(long_text, 'x', sizeof long_text);
    long_text[NODE_OWNER_TEXT_BYTES_MAX + 1] = '\0';
    ok(OWN(arena_printf(&a, "--owner id4 --text %s", long_text)) != 0, "a text may be too long");
    is_str(text_of("owners/id4"), "absent", "there is no mark with such a text");
    is_int(OWN(arena_printf(&a, "--owner id4 --text %s", long_text + 1)), 0,
           "the longest text is one byte shorter");
}

static void test_fetched(void) {
    begin();
    put_run("r1", NULL, false);
    is_int(FETCHED("--run r1"), 0, "a run is marked as fetched");
    is_str(said, "{\"event\":\"fetched\"}", "the answer says so");
    is_str(text_of("runs/r1/fetched"), "1\n", "the run has the mark");
    ok(FETCHED("--run r2") != 0, "an unknown run is not marked");
    has_str(said, "\"code\":\"not-found\",\"text\":\"run 'r2' is not known on this node\"",
            "the error names the run");
    put_run("r3", NULL, false);
    pid_t pid = agent("r3", "running", 60000);
    ok(FETCHED("--run r3") != 0, "a run that is active is not marked");
    has_str(said, "\"code\":\"busy\",\"text\":\"run 'r3' is running\"", "the error has its state");
    agent_end(pid);
    pid = agent("r3", "finished", 60000);
    is_int(FETCHED("--run r3"), 0, "a run whose agent is about to end is marked");
    agent_end(pid);
    put_run("r4", NULL, false);
    put("runs/r4/status.json", "{\"state\":\"running\"}");
    is_int(FETCHED("--run r4"), 0, "a run that is lost is marked");
}

// ---- removing one run ---------------------------------------------------------------------------

static void test_clean_run(void) {
    begin();
    put_run("r1", NULL, true);
    put("runs/r1/output/f", "12345");
    is_int(CLEAN("--run r1"), 0, "a run that was fetched is removed");
    ok(!file_exists(in("runs/r1")), "the run's folder is gone");
    has_str(said, "{\"event\":\"cleaned\",\"removed_bytes\":", "the answer has the bytes");
    ok(!strstr(said, "\"removed_bytes\":0,"), "removed bytes are counted");
    has_str(said, ",\"others\":[],\"left\":[]}", "of one run nothing more is said");
    put_run("r2", NULL, false);
    ok(CLEAN("--run r2") != 0, "a run that was not fetched stays");
    has_str(said, "the results of run 'r2' were not fetched (try: dtctl fetch r2)",
            "the error says how to fetch it");
    is_int(CLEAN("--run r2 --discard"), 0, "the results may be given up");
    ok(!file_exists(in("runs/r2")), "the folder of the run is gone, too");
    put("owners/me", "me\n");
    put("owners/you", "you\n");
    put_run("r3", "you", true);
    ok(CLEAN("--run r3 --owner me") != 0, "the run of another cluster stays");
    has_str(said, "run 'r3' belongs to another cluster", "the error says whose it is");
    is_int(CLEAN("--run r3 --owner you"), 0, "the cluster of the run may remove it");
    put_run("r4", "gone", true);
    is_int(CLEAN("--run r4 --owner me"), 0, "a run whose cluster is not here is anyone's");
    put_run("r5", "you", true);
    is_int(CLEAN("--run r5"), 0, "without an owner each run may be removed");
    put("runs/half/f", "x");
    is_int(CLEAN("--run half"), 0, "a folder that is no run yet needs no fetch");
    ok(CLEAN("") != 0, "a run has to be named");
    has_str(said, "--run or --all is missing", "the error says so");
}

static void test_active(void) {
    begin();
    put_run("r1", NULL, true);
    pid_t pid = agent("r1", "running", 60000);
    ok(CLEAN("--run r1") != 0, "an active run stays");
    has_str(said, "run 'r1' is running (try: dtctl stop r1)", "the error says how to stop it");
    is_int(kill(pid, 0), 0, "the agent works on");
    agent_end(pid);
    pid = agent("r1", "running", 60000);
    is_int(CLEAN("--run r1 --force"), 0, "an active run can be forced to end");
    int status = 0;
    is_int(waitpid(pid, &status, 0), pid, "the agent has ended");
    ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the agent was killed");
    ok(!file_exists(in("runs/r1")), "the run is gone");
    put_run("r2", NULL, true);
    pid = agent("r2", "finished", 300);
    is_int(CLEAN("--run r2"), 0, "the end of an agent whose run is over is waited for");
    waitpid(pid, &status, 0);
    ok(WIFEXITED(status), "an agent that ends by itself is not killed");
}

// ---- removing all -------------------------------------------------------------------------------

static void test_clean_all(void) {
    begin();
    put("owners/me", "my cluster\n");
    put_run("r1", "me", true);
    put_run("r2", "me", false);
    put("cas/x", "x");
    put("hashes", "x");
    put("of the user", "x");
    ok(CLEAN("--all --owner me") != 0, "a run that was not fetched stops the removal");
    ok(file_exists(in("runs/r1")), "nothing is removed then");
    is_int(verb(node_clean, "r0\nr2\n", "--all --owner me --fetched"), 0,
           "the caller knows what was fetched");
    has_str(said, "\"others\":[],\"left\":[\"of the user\"]}", "the answer names what is left");
    ok(!file_exists(in("runs")) && !file_exists(in("cas")) && !file_exists(in("hashes")) &&
           !file_exists(in("owners")),
       "all that dtctl has made is gone");
    is_str(text_of("of the user"), "x", "files of the user stay");
    begin();
    put("owners/me", "my cluster\n");
    put("owners/you", "your cluster\n");
    put_run("r1", "me", false);
    put_run("r2", "you", false);
    put_run("r3", NULL, false);
    put("cas/x", "x");
    put("runs/half/f", "x");
    is_int(CLEAN("--all --owner me --discard"), 0, "two clusters use the node");
    has_str(said, "\"others\":[\"your cluster\"],\"left\":[]}", "the answer names the other one");
    ok(!file_exists(in("runs/r1")) && !file_exists(in("runs/r3")) && !file_exists(in("runs/half")),
       "runs of the cluster and of none are gone");
    ok(file_exists(in("runs/r2")) && file_exists(in("cas/x")),
       "files that the other cluster uses stay");
    is_str(text_of("owners/me"), "absent", "the mark of the cluster is gone");
    is_str(text_of("owners/you"), "your cluster\n", "the other mark stays");
    is_int(CLEAN("--all --discard"), 0, "without an owner all is removed");
    ok(!file_exists(root), "an empty root is removed");
}

static void test_all_active(void) {
    begin();
    put("owners/you", "you\n");
    put_run("r1", NULL, true);
    put_run("r2", NULL, true);
    pid_t pid = agent("r2", "running", 60000);
    ok(CLEAN("--all --owner me") != 0, "an active run stops the removal");
    ok(file_exists(in("runs/r1")), "the runs before it stay");
    put("runs/r2/owner", "you\n");
    is_int(CLEAN("--all --owner me"), 0, "the active run of another cluster does not");
    ok(!file_exists(in("runs/r1")) && file_exists(in("runs/r2")),
       "the run of the other cluster stays");
    agent_end(pid);
}

// Roots of several nodes on one computer.
static void test_roots(void) {
    const char *first = root;
    root = file_join(&a, folder, "c/nodes/n0");
    begin();
    put("bin/x", "x");
    root = file_join(&a, folder, "c/nodes/n1");
    put("bin/x", "x");
    is_int(CLEAN("--all"), 0, "one node of two is removed");
    ok(!file_exists(root) && file_exists(file_join(&a, folder, "c/nodes/n0")),
       "the other one stays");
    root = file_join(&a, folder, "c/nodes/n0");
    is_int(CLEAN("--all"), 0, "the last node is removed");
    ok(!file_exists(file_join(&a, folder, "c")), "the folders around the nodes are gone");
    root = file_join(&a, folder, "c/others/n0");
    begin();
    put("bin/x", "x");
    is_int(CLEAN("--all"), 0, "a root elsewhere is removed");
    ok(file_exists(file_join(&a, folder, "c/others")), "the folders around it stay");
    root = first;
}

int main(void) {
    node_root_open();
    test_own();
    test_fetched();
    test_clean_run();
    test_active();
    test_clean_all();
    test_all_active();
    test_roots();
    node_root_close();
    return done_testing();
}
