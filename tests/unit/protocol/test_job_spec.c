// SPDX-License-Identifier: Apache-2.0
// lib/protocol/job_spec: what is written is read again, each bound, and what is refused.
#include "protocol/job_spec.h"
#include "tests/tap.h"

static struct arena a;
static struct err e;

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define RUN  "[run]\nid = \"r\"\nnode = \"n\"\ncommand = [\"x\"]\n"

static int parse(const char *text, struct job_spec *s) {
    e = (struct err){0};
    return job_spec_parse(&a, text, strlen(text), s, &e);
}

static void test_defaults(void) {
    struct job_spec s;
    is_int(parse(RUN, &s), 0, "a run with its three keys is read%s", e.text);
    is_str(s.run, "r", "the id of the run is read");
    is_str(s.name, "r", "the name of the run is read");
    is_str(s.node, "n", "the name of the node is read");
    is_int(s.node_rank, 0, "the default rank of a node is 0");
    is_int(s.nnodes_min, 1, "a job has at least one node by default");
    is_int(s.nnodes_max, 1, "a job has at most one node by default");
    is_str(s.nproc_per_node, "1", "a node has one process by default");
    is_str(s.address, "127.0.0.1", "the default address is loopback");
    is_str(s.workdir, "", "the default working folder is the root");
    is_int(s.command_count, 1, "the command has one word");
    is_str(s.command[0], "x", "the command has its word");
    is_str(s.command[1], NULL, "the command ends with NULL");
    is_int(s.shutdown_timeout_ms, 30000, "workers have half a minute to end by default");
    is_int(s.join_timeout_ms, 600000, "ten minutes to join");
    is_int(s.max_time_ms, 0, "the time is not limited by default");
    is_int(s.sample_ms, 0, "an older dtctl asks for no samples");
    is_int(s.max_restarts + s.agent_starts + s.env_count + s.input_count + s.torchrun_count, 0,
           "there are no restarts, variables, inputs or options by default");
    ok(!s.has_key && !s.setup && s.created_ms == 0, "there is no key and no setup by default");
    ok(!s.bundle_hash && !job_needs_setup(&s), "without an environment nothing has to be prepared");
    is_int(parse(RUN "nproc_per_node = 3\n", &s), 0, "a number of processes is read");
    is_str(s.nproc_per_node, "3", "the number of processes is text");
}

static const struct job_deal deal = {
    .shard = 2, .uneven = 3, .shuffled = true, .seed = 77, .replicas = 2, .extracts = true};

// The inputs, the setup and the copies of the state, as test_round_trip writes them.
static void test_parts(const struct job_spec *r) {
    is_int(r->input_count, 3, "the inputs are read back");
    ok(strcmp(r->inputs[0].name, "i") == 0 && strcmp(r->inputs[0].path, "data/i") == 0 &&
           strcmp(r->inputs[0].mode, "sharded") == 0,
       "the first input is read back");
    ok(!r->inputs[0].streamed && r->inputs[1].streamed, "a streamed input stays one");
    const struct job_deal *d = r->inputs[0].deal;
    ok(d && d->shard == 2 && d->uneven == 3 && d->shuffled && d->seed == 77 && d->replicas == 2 &&
           d->extracts,
       "the rule of a dealt input stays the same");
    ok(strcmp(r->inputs[1].path, "/k") == 0 && strcmp(r->inputs[1].mode, "replicated") == 0,
       "every node has all of an input");
    is_str(r->inputs[2].archives, "t-tars", "the folder of an input's archives is read back");
    ok(r->inputs[2].listed && !r->inputs[0].listed, "a listed input stays one");
    ok(r->state_replicas == 2 && r->state_every_ms == 16, "the copies of the state are read back");
    ok(strcmp(r->setup, "pip") == 0 && strcmp(r->setup_hash, HASH) == 0, "the setup is read back");
}

static void test_round_trip(void) {
    static const char *const command[] = {"/bin/sh", "-c", "a \"b\"\n", NULL};
    struct job_pair env[] = {{"A", "1"}, {"B", ""}}, torchrun[] = {{"rdzv-id", "x"}};
    struct job_pair sagemaker[] = {{"hps", "{\"a\": \"\\n\"}"}};
    struct job_input inputs[] = {{.name = "i", .path = "data/i", .mode = "sharded", .deal = &deal},
                                 {.name = "k", .path = "/k", .streamed = true},
                                 {.name = "t", .path = "t", .archives = "t-tars", .listed = true}};
    struct job_spec s, r;
    struct strbuf text = {0}, again = {0};
    job_spec_init(&s);
    s.run = "run-1", s.name = "name", s.node = "node7", s.node_rank = 6, s.nnodes_min = 2;
    s.nnodes_max = 9, s.nproc_per_node = "gpu", s.max_restarts = 4, s.agent_starts = 5;
    s.has_key = true, s.address = "10.0.0.7", s.workdir = "w", s.command = command;
    s.command_count = 3, s.shutdown_timeout_ms = 11, s.join_timeout_ms = 12, s.max_time_ms = 13;
    s.created_ms = 14, s.sample_ms = 15, s.env = env, s.env_count = 2;
    s.inputs = inputs, s.input_count = 3;
    s.state_replicas = 2, s.state_every_ms = 16;
    s.setup = "pip", s.setup_hash = s.bundle_hash = HASH;
    s.torchrun = torchrun, s.torchrun_count = 1, s.sagemaker = sagemaker, s.sagemaker_count = 1;
    for (int i = 0; i < JOB_KEY_BYTES; i++)
        s.key[i] = (unsigned char)(i * 7);
    job_spec_format(&s, true, &text);
    is_int(parse(strbuf_cstr(&text), &r), 0, "a full job is written and read%s", e.text);
    job_spec_format(&r, true, &again);
    is_str(strbuf_cstr(&again), strbuf_cstr(&text), "the job that was read is written alike");
    strbuf_fini(&again);
    ok(strcmp(r.run, s.run) == 0 && strcmp(r.name, s.name) == 0 && strcmp(r.node, s.node) == 0,
       "the names are read back");
    is_int(r.node_rank, 6, "node_rank is read back");
    is_int(r.nnodes_min, 2, "nnodes_min is read back");
    is_int(r.nnodes_max, 9, "nnodes_max is read back");
    is_str(r.nproc_per_node, "gpu", "nproc_per_node is read back");
    is_int(r.max_restarts, 4, "max_restarts");
    is_int(r.agent_starts, 5, "agent_starts is read back");
    ok(r.has_key && memcmp(r.key, s.key, JOB_KEY_BYTES) == 0, "the key is read back");
    is_str(r.address, "10.0.0.7", "the address is read back");
    is_str(r.workdir, "w", "the working folder is read back");
    is_int(r.command_count, 3, "the words of the command are read back");
    ok(strcmp(r.command[1], "-c") == 0 && strcmp(r.command[2], command[2]) == 0,
       "the words of the command read back");
    is_int(r.shutdown_timeout_ms, 11, "shutdown_timeout_ms is read back");
    is_int(r.join_timeout_ms, 12, "join_timeout_ms");
    is_int(r.max_time_ms, 13, "max_time_ms is read back");
    ok(r.created_ms == 14 && r.sample_ms == 15, "created_ms and sample_ms are read back");
    is_int(r.env_count, 2, "the variables are read back");
    ok(strcmp(r.env[0].name, "A") == 0 && strcmp(r.env[0].value, "1") == 0 &&
           strcmp(r.env[1].name, "B") == 0 && strcmp(r.env[1].value, "") == 0,
       "the variables keep their order");
    is_int(r.torchrun_count, 1, "the options of torchrun are read back");
    ok(strcmp(r.torchrun[0].name, "rdzv-id") == 0 && strcmp(r.torchrun[0].value, "x") == 0,
       "the option has its name and value");
    is_int(r.sagemaker_count, 1, "the records for SageMaker are read");
    is_str(r.sagemaker[0].value, sagemaker[0].value, "JSON inside the job reads back");
    test_parts(&r);
    is_str(r.bundle_hash, HASH, "the hash of the environment is read back");
    is_str(job_bundle_dir(&a, HASH), "envs/bundle-0123456789abcdef",
           "the folder of the environment is named after its hash");
    strbuf_fini(&text);
    job_spec_format(&s, false, &text);
    ok(!strstr(strbuf_cstr(&text), "key"), "on disk there is no key");
    is_int(parse(strbuf_cstr(&text), &r), 0, "the written job is read");
    ok(!r.has_key, "the job on disk has no key");
    strbuf_fini(&text);
}

// "KEY least most"; both are accepted, their neighbours refused.
static void test_bounds(void) {
    const int64_t day = 86400000;
    static const char state[] = RUN "[state]\nevery_ms = 1\n";
    static const char often[] = RUN "[state]\nreplicas = 1\n";
    static const char input[] = RUN "[inputs.x]\npath = \"p\"\nshard = \"key\"\n";
    const struct {
        const char *text, *key;
        int64_t min, max;
    } rows[] = {
        {RUN, "node_rank", 0, JOB_NODES_MAX - 1},    {RUN, "nnodes_max", 1, JOB_NODES_MAX},
        {RUN, "max_restarts", 0, 1 << 20},           {RUN, "agent_starts", 0, 1 << 20},
        {RUN, "shutdown_timeout_ms", 0, 7 * day},    {RUN, "join_timeout_ms", 0, 7 * day},
        {RUN, "max_time_ms", 0, JOB_DAYS_MAX * day}, {RUN, "sample_ms", 0, day},
        {state, "replicas", 1, JOB_REPLICAS_MAX},    {often, "every_ms", 1, JOB_DAYS_MAX * day},
        {input, "replicas", 0, JOB_REPLICAS_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 4; k++) {
            struct job_spec s;
            int64_t v = k < 2 ? rows[i].min - k : rows[i].max + (k - 2);
            const char *text =
                arena_printf(&a, "%s%s = %lld\n", rows[i].text, rows[i].key, (long long)v);
            is_int(parse(text, &s), k % 2 ? -1 : 0, "the limits of %s decide about %lld",
                   rows[i].key, (long long)v);
            if (k % 2)
                has_str(e.text, rows[i].key, "the error names the key");
        }
    struct job_spec s;
    is_int(parse(RUN "nnodes_min = 2\nnnodes_max = 2\n", &s), 0,
           "two nodes at least and at most are accepted");
    is_int(parse(RUN "nnodes_min = 3\nnnodes_max = 2\n", &s), -1,
           "three nodes at least and two at most are refused");
    is_int(parse(RUN "nnodes_min = 0\nnnodes_max = 2\n", &s), -1, "no node at least is refused");
    is_int(parse(RUN "nnodes_min = 16384\nnnodes_max = 16384\n", &s), 0,
           "all nodes that are possible are accepted");
}

// Names as long as they may be, and one byte longer.
static void test_names(void) {
    static const struct {
        const char *name, *begin, *end;
        size_t max;
    } rows[] = {
        {"an id", "[run]\nid = \"", "\"\nnode = \"n\"\ncommand = [\"x\"]\n", JOB_RUN_BYTES_MAX},
        {"an input's name", RUN "[inputs.", "]\npath = \"p\"\n", 64},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t more = 0; more < 2; more++) {
            struct job_spec s;
            size_t len = rows[i].max + more;
            char *name = arena_new(&a, char, len + 1);
            memset(name, 'x', len);
            name[len] = '\0';
            is_int(parse(arena_printf(&a, "%s%s%s", rows[i].begin, name, rows[i].end), &s),
                   more ? -1 : 0, "%s of %zu bytes is %s", rows[i].name, len,
                   more ? "refused" : "accepted");
        }
}

// A node has to be prepared for a setup, for an environment, and for archives of any input.
static void test_preparation(void) {
    static const struct {
        const char *name, *text;
        bool needed;
    } rows[] = {
        {"plain inputs", RUN "[inputs.x]\npath = \"p\"\n[inputs.y]\npath = \"q\"\n", false},
        {"archives of the first input",
         RUN "[inputs.x]\npath = \"p\"\narchives = \"t\"\n[inputs.y]\npath = \"q\"\n", true},
        {"archives of the last input",
         RUN "[inputs.x]\npath = \"p\"\n[inputs.y]\npath = \"q\"\narchives = \"t\"\n", true},
        {"a setup", RUN "[setup]\nrun = \"x\"\nhash = \"" HASH "\"\n", true},
        {"an environment", RUN "[bundle]\nhash = \"" HASH "\"\n", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_spec s;
        is_int(parse(rows[i].text, &s), 0, "a job with %s is read%s", rows[i].name, e.text);
        ok(job_needs_setup(&s) == rows[i].needed, "%s are %sprepared", rows[i].name,
           rows[i].needed ? "" : "not ");
    }
}

static void test_refused(void) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"[run]\nnode = \"n\"\ncommand = [\"x\"]\n", "run.id"},
        {"[run]\nid = \"r\"\ncommand = [\"x\"]\n", "run.node"},
        {"[run]\nid = \"../r\"\nnode = \"n\"\ncommand = [\"x\"]\n", "does not fit a folder's name"},
        {"[run]\nid = \"r\"\nnode = \"n\"\n", "run.command"},
        {"[run]\nid = \"r\"\nnode = \"n\"\ncommand = []\n", "0 words"},
        {"[run]\nid = \"r\"\nnode = \"n\"\ncommand = [\"\"]\n", "1 words"},
        {RUN "address = \"host\"\n", "not numeric"},
        {RUN "key = \"00\"\n", "run.key is not 32"},
        {RUN "[env]\nA = 1\n", "env.A is not a plain string"},
        {RUN "[env]\n\"\" = \"1\"\n", "not a plain string"},
        {RUN "[env]\n\"a=b\" = \"1\"\n", "not a plain string"},
        {RUN "[env]\na = \"1\\u0000\"\n", "not a plain string"},
        {RUN "[env]\n\"a\\u0000b\" = \"1\"\n", "not a plain string"},
        {RUN "[torchrun]\na = true\n", "torchrun.a is not"},
        {RUN "[inputs.x]\nmode = \"sharded\"\n", "input 'x'"},
        {RUN "[inputs.x]\npath = \"p\"\nshard = \"half\"\n", "shard 'half' is no value"},
        {RUN "[inputs.x]\npath = \"p\"\nshard = \"key\"\nuneven = \"no\"\n", "uneven 'no' is"},
        {RUN "[inputs.x]\npath = \"p\"\nshard = \"key\"\nreplicas = 16\n", "replicas"},
        {RUN "[inputs.\"../x\"]\npath = \"p\"\n", "no plain name"},
        {RUN "[setup]\nrun = \"x\"\n", "setup.hash"},
        {RUN "[setup]\nhash = \"" HASH "\"\n", "setup.run"},
        {RUN "[setup]\nrun = \"\"\nhash = \"" HASH "\"\n", "setup.hash or setup.run"},
        {RUN "[setup]\nrun = \"x\"\nhash = \"../../x\"\n", "setup.hash or setup.run"},
        {RUN "[bundle]\n", "bundle.hash"},
        {RUN "[bundle]\nhash = \"../../x\"\n", "bundle.hash is no value"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_spec s;
        is_int(parse(rows[i].text, &s), -1, "the job is refused: %s", rows[i].why);
        has_str(e.text, rows[i].why, "the error has the reason");
    }
}

// COUNT entries of a table, or words of the command.
static int parse_many(const char *head, const char *const each[2], int count, const char *tail) {
    struct strbuf text = {0};
    struct job_spec s;
    strbuf_adds(&text, head);
    for (int i = 0; i < count; i++)
        strbuf_addf(&text, "%s%d%s", each[0], i, each[1]);
    strbuf_adds(&text, tail);
    int result = parse(strbuf_cstr(&text), &s);
    strbuf_fini(&text);
    return result;
}

static void test_counts(void) {
    static const char *const inputs[] = {"[inputs.i", "]\npath = \"p\"\n"};
    static const char *const env[] = {"E", " = \"\"\n"}, *const word[] = {"\"", "\","};
    static const char words[] = "[run]\nid = \"r\"\nnode = \"n\"\ncommand = [";
    is_int(parse_many(RUN, inputs, JOB_INPUTS_MAX, ""), 0,
           "as many inputs as are possible are accepted");
    is_int(parse_many(RUN, inputs, JOB_INPUTS_MAX + 1, ""), -1,
           "more inputs than the limit are refused");
    is_int(e.code, ERR_LIMIT, "more inputs are a limit error");
    is_int(parse_many(RUN "[env]\n", env, JOB_ENV_MAX, ""), 0,
           "as many variables as the limit are accepted");
    is_int(parse_many(RUN "[env]\n", env, JOB_ENV_MAX + 1, ""), -1,
           "more variables than the limit are refused");
    is_int(parse_many(words, word, JOB_ARGS_MAX, "]\n"), 0,
           "as many words as the limit are accepted");
    is_int(parse_many(words, word, JOB_ARGS_MAX + 1, "]\n"), -1,
           "more words than the limit are refused");
}

static int roster(const char *text, struct roster *r) {
    e = (struct err){0};
    return job_roster_parse(&a, text, strlen(text), r, &e);
}

static void test_roster(void) {
    struct roster_node nodes[] = {{2, "c", "10.0.0.3", 65535},
                                  {0, "a", "10.0.0.1", 1},
                                  {16383, "z", "::1", 80},
                                  {1, "b", "10.0.0.2", 29500}};
    struct roster r, out = {nodes, 4};
    struct strbuf text = {0};
    job_roster_format(&out, &text);
    is_int(roster(strbuf_cstr(&text), &r), 0, "a roster is written and read%s", e.text);
    is_int(r.count, 4, "the roster has all nodes");
    is_str(r.nodes[0].name, "a", "the nodes are sorted by rank");
    is_str(r.nodes[1].name, "b", "the second node has its name");
    is_int(r.nodes[1].port, 29500, "the second node has its port");
    is_str(r.nodes[2].address, "10.0.0.3", "the third node has its address");
    is_int(r.nodes[3].rank, 16383, "the last node has the highest rank");
    strbuf_fini(&text);
#define NODE(rank, port, address)                                                                  \
    "[[node]]\nrank = " rank "\nport = " port "\nname = \"n\"\naddress = \"" address "\"\n"
    is_int(roster("", &r), -1, "an empty roster is refused");
    is_int(roster(NODE("0", "1", "::1") NODE("0", "2", "::1"), &r), -1,
           "a rank that is given twice is refused");
    has_str(e.text, "rank 0 is given twice", "the error names the rank");
    is_int(roster(NODE("-1", "1", "::1"), &r), -1, "a negative rank is refused");
    is_int(roster(NODE("16384", "1", "::1"), &r), -1, "a rank above the limit is refused");
    is_int(roster(NODE("0", "0", "::1"), &r), -1, "port 0 is refused");
    is_int(roster(NODE("0", "65536", "::1"), &r), -1, "port 65536 is refused");
    is_int(roster(NODE("0", "1", "host"), &r), -1, "a name instead of an address is refused");
    has_str(e.text, "'host' is not numeric", "the error names the address");
    is_int(roster("[[node]]\nrank = 0\nport = 1\naddress = \"::1\"\n", &r), -1,
           "a node without a name is refused");
    has_str(e.text, "roster, node 1", "the error has the place of the node");
}

int main(void) {
    test_defaults();
    test_round_trip();
    test_bounds();
    test_names();
    test_preparation();
    test_refused();
    test_counts();
    test_roster();
    is_str(job_setup_dir(&a, "ab"), "setup/ab", "the folder of a setup is named after its hash");
    arena_fini(&a);
    return done_testing();
}
