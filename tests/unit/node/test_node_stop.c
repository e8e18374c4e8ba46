// SPDX-License-Identifier: Apache-2.0
// Verbs that end or clean: the stop of a run, whose agent is a process of the test; snapshots of
// its state; and the removal of content that no file has.
#include "content/cas.h"
#include "content/hash_cache.h"
#include "tests/unit/node/agent_process.h"
#include "tests/unit/node/waits_pass.h"
#include "tests/unit/shell.h"

#include <fcntl.h>
#include <sys/stat.h>

static void begin_run(void) {
    begin();
    put("runs/r1/job.toml", "");
}

// ---- stops --------------------------------------------------------------------------------------

enum how { ENDS, ANSWERS, STAYS };

// Keeps the first command in the file "command".
static void serve(int door, const void *how) {
    char command[256] = "";
    for (;;) {
        int fd = agent_accept(door);
        if (recv(fd, command, sizeof command - 1, 0) > 0)
            break;
        close(fd); // of another verb
    }
    put("command", command);
    while (*(const enum how *)how == STAYS)
        pause();
}

// The command that the agent of a run gets.
static const char *stopped(const char *words, enum how how) {
    begin_run();
    pid_t agent = agent_start("r1", serve, &how);
    is_int(verb(node_stop, "", arena_printf(&a, "--run r1%s", words)), how == STAYS,
           "a stop with%s has its exit status", *words ? words : " nothing");
    agent_end(agent);
    return text_of("command");
}

static void test_stop(void) {
    is_str(stopped("", ENDS), "{\"op\":\"stop\",\"signal\":15}\n", "the agent has its own grace");
    is_str(said, "{\"event\":\"stopping\"}\n{\"event\":\"stopped\"}", "the stop is reported");
    is_str(stopped(" --grace-ms 500 --signal INT", ENDS),
           "{\"op\":\"stop\",\"signal\":2,\"grace_ms\":500}\n", "signal and grace are handed on");
    is_str(stopped(" --grace-ms 0", ENDS), "{\"op\":\"stop\",\"signal\":15,\"grace_ms\":0}\n",
           "the grace may be nothing");
    begin_run();
    is_int(verb(node_stop, "", "--run r1"), 0, "a run without an agent has stopped");
    is_str(said, "{\"event\":\"stopped\"}", "there was nothing to stop");
}

static void test_stop_waits(void) {
    waits_pass = true;
    stopped(" --grace-ms 1000", STAYS);
    has_str(said,
            arena_printf(&a, "the agent did not end within %d ms", 1000 + NODE_STOP_MARGIN_MS),
            "the agent has its grace and a margin");
    stopped("", STAYS);
    has_str(said,
            arena_printf(&a, "the agent did not end within %d ms", 60000 + NODE_STOP_MARGIN_MS),
            "an unknown grace is a minute");
    waits_pass = false;
}

static void test_stop_words(void) {
    static const char *const bad[] = {"--run r1 --grace-ms -1", "--run r1 --grace-ms 604800001",
                                      "--run r1 --grace-ms x", "--run r1 --signal NONE",
                                      "--run r2"};
    begin_run();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(verb(node_stop, "", bad[i]) > 0, "the words %s are refused", bad[i]);
    has_str(said, "run 'r2' is not known on this node", "the error names the run");
    is_int(verb(node_stop, "", "--run r1 --grace-ms 604800000"), 0, "a week is the longest grace");
}

// ---- snapshots ----------------------------------------------------------------------------------

static const char *digest(void) {
    const char *at = strstr(said, "\"digest\":\"");
    return at ? arena_strndup(&a, at + 10, strcspn(at + 10, "\"")) : "";
}

static void test_snapshot(void) {
    begin_run();
    is_int(verb(node_snapshot, "", "--run r1"), 0, "a run may have no state");
    has_str(said, "{\"event\":\"snapshot\",\"new\":false,\"whole\":true,\"reason\":null,",
            "no state is not new");
    has_str(said, "\"files\":0,\"bytes\":0}", "no state has no files");
    put("runs/r1/state/model", "text");
    waits_pass = true;
    is_int(verb(node_snapshot, "", "--run r1"), 0, "a state has a snapshot");
    waits_pass = false;
    has_str(said, "{\"event\":\"snapshot\",\"new\":true,\"whole\":true,\"reason\":null,",
            "the state is new");
    has_str(said, "\"files\":1,\"bytes\":4}", "the state is counted");
    is_str(text_of("runs/r1/snapshot/model"), "text", "the snapshot has the file");
    const char *known = digest();
    verb(node_snapshot, "", arena_printf(&a, "--run r1 --known %s", known));
    has_str(said, "\"new\":false,\"whole\":true", "a known state is not new");
    verb(node_snapshot, "", arena_printf(&a, "--run r1 --known %s0", known));
    has_str(said, "\"new\":true", "another known state is another");
    verb(node_snapshot, "", arena_printf(&a, "--run r1 --again --known %s", known));
    has_str(said, "\"new\":false,\"whole\":true,\"reason\":null", "the snapshot was not written");
    is_str(text_of("runs/r1/snapshot/model"), "absent", "a snapshot that was taken is removed");
    put("runs/r1/snapshot/model", "later");
    verb(node_snapshot, "", arena_printf(&a, "--run r1 --again --known %s", known));
    has_str(said, "\"whole\":false,\"reason\":\"a finished file was written again\"",
            "a snapshot that was written is not whole");
    ok(verb(node_snapshot, "", "--run r2") > 0, "an unknown run has no snapshot");
    has_str(said, "run 'r2' is not known on this node", "the error names the run");
    ok(verb(node_snapshot, "", "--run r2 --closed") > 0, "an unknown run has no finished files");
    has_str(said, "run 'r2' is not known on this node",
            "the error of finished files names it, too");
    is_int(verb(node_snapshot, "", "--run r1 --closed"), 0, "a run may have no finished files");
    has_str(said, "\"files\":0,\"bytes\":0}", "no finished files are counted");
    verb(node_snapshot, "", arena_printf(&a, "--run r1 --closed --known %s", digest()));
    has_str(said, "\"new\":false,\"whole\":true,\"reason\":null", "known files are not new");
}

// ---- content that no file has -------------------------------------------------------------------

static void test_prune_words(void) {
    static const char *const bad[] = {"", "--older-than-ms", "--older-than-ms -1",
                                      "--older-than-ms x", "--other 1"};
    begin_run();
    is_int(verb(node_prune, "", "--older-than-ms 0"), 0, "a node may have no store");
    is_str(said, "{\"event\":\"pruned\",\"removed\":0,\"removed_bytes\":0}",
           "no content is removed");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(verb(node_prune, "", bad[i]) > 0, "the words '%s' are refused", bad[i]);
}

// Small content in the store, two hours old; the file "kept" has some of it.
static void fill_store(void) {
    static const char *const texts[] = {"gone", "kept content"};
    unsigned char hash[2][HASH_BYTES];
    struct cas cas;
    struct stat st;
    begin_run();
    put("deep/kept", texts[1]);
    if (cas_open(&cas, in("cas"), &error) < 0 || cas_load(&cas, &error) < 0)
        bail_out("%s", error.text);
    for (int i = 0; i < 2; i++) {
        hash_of(hash[i], texts[i], strlen(texts[i]));
        if (cas_add_small(&cas, hash[i], texts[i], strlen(texts[i]), &error) < 0)
            bail_out("%s", error.text);
    }
    if (stat(in("deep/kept"), &st) < 0)
        bail_out("no file");
    hash_cache_put(cas.hashes, &st, hash[1], HASH_CACHE_OWN);
    if (cas_flush(&cas, &error) < 0 || hash_cache_save(cas.hashes, &error) < 0 ||
        cas_close(&cas, false, &error) < 0 ||
        shell(arena_printf(&a, "find %s -type f -exec touch -d '2 hours ago' {} +", in("cas"))) !=
            0)
        bail_out("no store: %s", error.text);
}

static void test_prune(void) {
    fill_store();
    is_int(verb(node_prune, "", "--older-than-ms 7260000"), 0, "young content is looked at");
    has_str(said, "\"removed\":0,", "young content stays");
    is_int(verb(node_prune, "", "--older-than-ms 7140000 --dry-run"), 0, "old content is counted");
    has_str(said, "\"removed\":1,\"removed_bytes\":4}", "content that no file has is counted");
    is_int(verb(node_prune, "", "--older-than-ms 7140000"), 0, "old content is removed");
    has_str(said, "\"removed\":1,\"removed_bytes\":4}", "content that no file has is removed");
    verb(node_prune, "", "--older-than-ms 0");
    has_str(said, "\"removed\":0,", "the content of the file stays");
}

int main(void) {
    node_root_open();
    test_stop();
    test_stop_waits();
    test_stop_words();
    test_snapshot();
    test_prune_words();
    test_prune();
    node_root_close();
    return done_testing();
}
