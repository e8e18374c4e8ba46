// SPDX-License-Identifier: Apache-2.0
// The agent's part in copies of states and dealt inputs: the workers of a round start once, when
// state and inputs of that round are here. The keeper and the rest of the agent are stand-ins.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <unistd.h>

// ---- stand-ins ----------------------------------------------------------------------------------

static keeper_noted *note;
static int opened, started, lost, rings;
static int64_t lease_end_ms;
static bool idle, needs_state;
static char addresses[256]; // of the last ring

int keeper_open(struct keeper *k, struct loop *loop, const struct keeper_spec *spec,
                keeper_noted *on_note, struct err *e) {
    (void)e;
    k->loop = loop;
    k->spec = spec;
    note = on_note;
    opened++;
    return 0;
}

void keeper_close(struct keeper *k) {
    k->loop = NULL;
}

void keeper_ring(struct keeper *k, const struct wire_msg *m) {
    (void)k;
    addresses[0] = '\0';
    for (int64_t i = 0; i < m->node_count; i++)
        snprintf(addresses + strlen(addresses), sizeof addresses - strlen(addresses), "%s=%s ",
                 m->nodes[i].name, m->nodes[i].address);
    rings++;
}

bool keeper_is_needed(const struct keeper *k, int round) {
    (void)k;
    return needs_state && round > 0;
}

bool workers_is_idle(const struct workers *w) {
    (void)w;
    return idle;
}

int64_t election_lease_end(const struct election *e) {
    (void)e;
    return lease_end_ms;
}

void agent_start_round(struct agent *a) {
    (void)a;
    started++;
}

void agent_coordinator_lost(struct agent *a, const char *why, int64_t silent_ms) {
    (void)a;
    if (strcmp(why, "this agent was stopped for too long") == 0 && silent_ms == 0)
        lost++;
}

// ---- an agent -----------------------------------------------------------------------------------

static char folder[] = "/tmp/test_agent_copies.XXXXXX", path[sizeof folder + 16];
static struct arena arena;
static struct agent agent;
static struct agent_config config;

// In round 3, waiting for what is said.
static void begin(bool state, bool inputs) {
    struct err e;
    static const struct job_deal deals[2] = {{.extracts = false}, {.extracts = true}};
    static const struct job_input dealt[] = {{.name = "a-b", .path = "/d/a", .deal = &deals[0]},
                                             {.name = "c", .path = "/d/c", .deal = &deals[1]}};
    config = (struct agent_config){
        .keeper = {.run_dir = "/run", .inputs = dealt, .input_count = inputs ? 2 : 0}};
    agent = (struct agent){.config = &config, .round = 3, .joined = true};
    if (events_open(&agent.events, path, "n0", &e) < 0 || agent_copies_open(&agent, &e) < 0)
        bail_out("%s", e.text);
    needs_state = state;
    idle = true;
    lease_end_ms = INT64_MAX;
    started = lost = 0;
    is_int(agent_copies_wait(&agent), state || inputs, "the workers %s",
           state || inputs ? "wait" : "may start at once");
}

static void end(void) {
    events_close(&agent.events);
    agent_copies_close(&agent);
}

static void say(enum keeper_note kind, int64_t round, const char *reason) {
    note(&agent.keeper,
         &(struct wire_msg){
             .type = WIRE_STATE_NOTE, .kind = kind, .number = round, .name = "", .reason = reason});
}

static void test_order(void) {
    begin(false, false);
    say(KEEPER_READY, 3, "");
    is_int(started, 0, "a word that no round waits for starts nothing");
    end();
    begin(true, false);
    say(KEEPER_READY, 2, "");
    is_int(started, 0, "the state of another round starts nothing");
    say(KEEPER_READY, 3, "");
    say(KEEPER_READY, 3, "");
    is_int(started, 1, "the state of the round starts its workers once");
    end();
    begin(true, true);
    say(KEEPER_READY, 3, "");
    is_int(started, 0, "the workers still wait for inputs");
    say(KEEPER_INPUTS, 2, "");
    say(KEEPER_INPUTS, -1, "");
    say(KEEPER_INPUTS, (1LL << 32) + 3, "");
    is_int(started, 0, "inputs of another round start nothing");
    say(KEEPER_INPUTS, 3, "no such file");
    is_int(started, 1, "the inputs of the round start its workers");
    is_str(agent.inputs_reason, "no such file", "the reason is kept for the round");
    say(KEEPER_INPUTS, 3, "later");
    is_str(agent.inputs_reason, "no such file", "the first word of a round counts");
    is_int(started, 1, "a second word starts nothing");
    end();
    begin(true, true);
    say(KEEPER_INPUTS, 3, "");
    is_int(started, 0, "the workers still wait for the state");
    say(KEEPER_READY, 3, "");
    is_int(started, 1, "the state comes last");
    end();
}

static void test_early(void) {
    begin(false, true);
    agent.round = 2; // the round is not known yet
    agent_copies_wait(&agent);
    say(KEEPER_INPUTS, 3, "");
    is_int(started, 0, "inputs of a later round start nothing");
    agent.round = 3;
    ok(!agent_copies_wait(&agent), "the workers of that round start at once");
    say(KEEPER_INPUTS, INT32_MAX, "");
    is_int(agent.inputs_round, INT32_MAX, "the last round there can be is a round");
    say(KEEPER_INPUTS, INT32_MAX + 1LL, "");
    is_int(agent.inputs_round, INT32_MAX, "a number beyond it is none");
    say(KEEPER_INPUTS, 0, "");
    is_int(agent.inputs_round, 0, "the first round is a round");
    end();
}

static void test_not_wanted(void) {
    static bool *const no[] = {&agent.over, &agent.stop_requested, &agent.round_failed};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        begin(true, false);
        *no[i] = true;
        say(KEEPER_READY, 3, "");
        is_int(started + lost, 0, "the state comes too late (%zu)", i);
        end();
    }
    begin(true, false);
    agent.joined = false;
    say(KEEPER_READY, 3, "");
    is_int(started + lost, 0, "an agent without a coordinator starts no workers");
    end();
    begin(true, false);
    idle = false;
    say(KEEPER_READY, 3, "");
    is_int(started + lost, 0, "workers of before are awaited");
    end();
    begin(true, false);
    lease_end_ms = clock_mono_ms();
    say(KEEPER_READY, 3, "");
    ok(!started && lost == 1, "a lease that has ended is a lost coordinator");
    end();
}

static void test_events(void) {
    static const struct {
        enum keeper_note kind;
        const char *want;
    } cases[] = {
        {KEEPER_COPIED, "\"kind\":\"state-copied\",\"peer\":\"n1\",\"number\":7,\"bytes\":10}"},
        {KEEPER_RESTORED, "\"kind\":\"state-restored\",\"peer\":\"n1\",\"number\":7,\"bytes\":10,"
                          "\"of\":\"n2\"}"},
        {KEEPER_DEALT, "\"kind\":\"input-dealt\",\"round\":7,\"input\":\"n1\",\"files\":5,"
                       "\"bytes\":10}"},
        {KEEPER_KEPT, "\"kind\":\"input-kept\",\"round\":7,\"input\":\"n1\",\"files\":5,"
                      "\"bytes\":10}"},
        {KEEPER_LACKS, "\"kind\":\"input-lacking\",\"round\":7,\"input\":\"n1\",\"files\":5,"
                       "\"group_rank\":2,\"nodes\":4}"},
    };
    struct err e;
    char *text;
    size_t len;
    begin(false, false);
    unlink(path);
    end();
    begin(false, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        note(&agent.keeper, &(struct wire_msg){.kind = cases[i].kind,
                                               .number = 7,
                                               .name = "n1",
                                               .reason = "n2",
                                               .bytes = 10,
                                               .file = 5,
                                               .group_rank = 2,
                                               .group_world = 4});
    end();
    if (file_read(&arena, path, 1 << 16, &text, &len, &e) < 0)
        bail_out("%s", e.text);
    char **lines;
    is_uint(str_split(&arena, text, '\n', &lines), sizeof cases / sizeof *cases + 1,
            "each word of the keeper is an event");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        has_str(lines[i], cases[i].want, "event %zu says all of it", i);
}

static void test_ring(void) {
    struct wire_node nodes[] = {{.name = "n0", .address = "127.0.0.1"},
                                {.name = "n1", .address = "10.0.0.2"}};
    begin(false, false);
    snprintf(agent.peer.address, sizeof agent.peer.address, "10.0.0.1");
    rings = 0;
    agent_copies_ring(&agent, &(struct wire_msg){.nodes = nodes, .node_count = 2});
    is_str(addresses, "n0=10.0.0.1 n1=10.0.0.2 ", "loopback is the address of the peer");
    is_int(rings, 1, "the keeper gets one ring");
    is_str(nodes[0].address, "127.0.0.1", "the message stays as it was");
    end();
}

static void test_variables(void) {
    static const struct job_pair want[] = {
        {"DTCTL_INPUT_A_B", "/d/a-of4.2"},
        {"DTCTL_INPUT_A_B_LIST", "/run/inputs/a-b-of4.2.jsonl"},
        {"DTCTL_INPUT_C", "/d/c-of4.2-extracted"},
        {"DTCTL_INPUT_C_LIST", "/run/inputs/c-of4.2.jsonl"},
    };
    begin(false, true);
    agent.group_world = 4;
    agent.group_rank = 2;
    agent_copies_env(&agent);
    agent_copies_env(&agent);
    is_int(agent.facts.input_count, 4, "each input has two variables");
    for (int i = 0; i < 4 && i < agent.facts.input_count; i++) {
        is_str(agent.facts.inputs[i].name, want[i].name, "variable %d has its name", i);
        is_str(agent.facts.inputs[i].value, want[i].value, "variable %d has its value", i);
    }
    end();
    begin(false, false);
    agent_copies_env(&agent);
    is_int(agent.facts.input_count, 0, "a run without dealt inputs has no variables of them");
    end();
}

int main(void) {
    struct err e;
    if (!mkdtemp(folder))
        bail_out("no folder");
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    test_order();
    test_early();
    test_not_wanted();
    test_events();
    test_ring();
    test_variables();
    opened = 0;
    config.keeper.run_dir = NULL;
    is_int(agent_copies_open(&agent, &e), 0, "an agent without a folder needs no keeper");
    is_int(opened, 0, "no keeper is started");
    is_int(agent.inputs_round, -1, "no round has inputs yet");
    file_remove_tree(folder, &e);
    arena_fini(&arena);
    return done_testing();
}
