// SPDX-License-Identifier: Apache-2.0
// The runs of a node, and one of them with a sample of its agent and the ends of its logs. The
// agent is a process of the test.
#include "tests/unit/node/agent_process.h"

static void put_run(const char *run, const char *status) {
    put(arena_printf(&a, "runs/%s/job.toml", run), "");
    if (status)
        put(arena_printf(&a, "runs/%s/status.json", run), status);
}

static void serve(int door, const void *answer) {
    for (;;) {
        char command[64];
        int fd = agent_accept(door);
        if (fd >= 0 && recv(fd, command, sizeof command, 0) > 0 && *(const char *)answer &&
            send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
            return;
    }
}

// An agent that gives this answer to each command. "": none.
static pid_t agent(const char *run, const char *answer) {
    return agent_start(run, serve, answer);
}

static int status(const char *words) {
    return verb(node_status, "", words);
}

static void test_list(void) {
    begin();
    is_int(status(""), 0, "a node may have no runs");
    is_str(said, "", "there is nothing to list");
    put("owners/me", "me\n");
    put_run("young", "{\"run\":\"young\",\"state\":\"finished\",\"created_ms\":20}");
    put_run("old", "{\"run\":\"old\",\"state\":\"running\",\"created_ms\":10,\"pid\":7}");
    put_run("bare", NULL);
    put_run("anew", NULL);
    put("runs/old/owner", "me\n");
    put("runs/old/fetched", "1\n");
    put("runs/half/output/f", "");
    put_run(".hidden", NULL);
    is_int(status(""), 0, "runs are listed");
    is_str(said,
           "{\"run\":\"anew\",\"state\":\"lost\",\"owner\":null,\"fetched\":false}\n"
           "{\"run\":\"bare\",\"state\":\"lost\",\"owner\":null,\"fetched\":false}\n"
           "{\"run\":\"old\",\"state\":\"lost\",\"created_ms\":10,\"pid\":7,\"owner\":\"me\","
           "\"fetched\":true}\n"
           "{\"run\":\"young\",\"state\":\"finished\",\"created_ms\":20,\"owner\":null,"
           "\"fetched\":false}",
           "the oldest one is first, then by name; a run without an agent is lost");
    pid_t pid = agent("old", "");
    status("");
    has_str(said, "{\"run\":\"old\",\"state\":\"running\",", "a run with an agent is active");
    agent_end(pid);
    is_int(status("--run young"), 0, "one run is shown");
    is_str(said,
           "{\"run\":\"young\",\"state\":\"finished\",\"created_ms\":20,\"owner\":null,"
           "\"fetched\":false}",
           "the run has its line");
    ok(status("--run half") != 0, "a folder that is no run is not known");
    has_str(said, "run 'half' is not known on this node", "the error names the run");
    ok(status("--all --what") != 0, "unknown words are refused");
}

// The text of a file with so many lines of ten bytes.
static const char *lines(int count) {
    struct strbuf text = {0};
    for (int i = 0; i < count; i++)
        strbuf_addf(&text, "%09d\n", i);
    const char *all = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return all;
}

static void test_sample(void) {
    static const char running[] = "{\"run\":\"r1\",\"state\":\"running\",\"round\":2,\"workers\":["
                                  "{\"rank\":4,\"local_rank\":1},{\"rank\":0,\"local_rank\":3}]}";
    begin();
    put_run("r1", running);
    put("runs/r1/attempt_2/3/stdout.log", "out\n");
    put("runs/r1/attempt_2/3/stderr.log", lines(2000));
    put("runs/r1/output/metrics.jsonl", lines(1000));
    pid_t pid = agent("r1", "{\"every_ms\":500,\"sample\":{\"cpu\":7},\"more\":1}\n");
    is_int(status("--run r1 --sample"), 0, "a sample is asked for");
    has_str(said,
            "\"fetched\":false,\"every_ms\":500,\"sample\":{\"cpu\":7},\"tail\":{\"stdout\":"
            "\"out\\n\",\"stderr\":\"\\n",
            "the agent's sample and rank 0's logs follow");
    ok(!strstr(said, "more"), "nothing else of the answer does");
    has_str(said, "000001999\\n\",\"metrics\":\"\\n", "the end of a log is shown");
    has_str(said, "000000999\\n\"}}", "the end of the metrics is shown");
    ok(strstr(said, "\"stderr\":\"\\n000000362\\n"),
       "a log has its last 16 KiB, from the beginning of a line");
    ok(strstr(said, "\"metrics\":\"\\n000000181\\n"), "metrics have their last 8 KiB");
    status("--run r1");
    ok(!strstr(said, "sample") && !strstr(said, "tail"), "without the word there is none");
    agent_end(pid);
    pid = agent("r1", "[]\n");
    status("--run r1 --sample");
    has_str(said, "\"silent\":true,\"tail\":", "an answer that is no object is none");
    agent_end(pid);
    pid = agent("r1", "{\"sample\":null}\n");
    status("--run r1 --sample");
    has_str(said, "\"fetched\":false,\"sample\":null,\"tail\":", "an older agent has no interval");
    put_run("r1",
            "{\"state\":\"running\",\"round\":2,\"workers\":[{\"rank\":1,\"local_rank\":3}]}");
    status("--run r1 --sample");
    ok(!strstr(said, "tail"), "a node without rank 0 has no logs of it");
    put_run("r1", "{\"state\":\"running\",\"workers\":[{\"rank\":0,\"local_rank\":3}]}");
    status("--run r1 --sample");
    ok(!strstr(said, "tail"), "before the first round there are no logs");
    put_run("r1",
            "{\"state\":\"running\",\"round\":0,\"workers\":[{\"rank\":0,\"local_rank\":0}]}");
    status("--run r1 --sample");
    has_str(said, "\"tail\":{\"metrics\":", "logs may not be there yet");
    agent_end(pid);
    put_run("r1", running);
    status("--run r1 --sample");
    ok(!strstr(said, "tail"), "a run that is over has no sample");
}

int main(void) {
    node_root_open();
    test_list();
    test_sample();
    node_root_close();
    return done_testing();
}
