// SPDX-License-Identifier: Apache-2.0
// Installing the agent on a node that the test is: the scripts, when the program is sent, what the
// node's answers mean, agents that stay.
#include "xfer/agent_bootstrap.h"

#include "base/clock.h"
#include "tests/tap.h"
#include "tests/unit/transport_fake.h"
#include "xfer/xfer_impl.h"

enum { SIZE = (2 << 20) + 100 };

static struct arena arena;
static struct err e, why;
static struct loop *loop;
static struct transport_link *node_link;
static int dones;
static bool has_facts;
static struct node_facts facts;
static char program_path[64];
static uint64_t progress, progress_all;
static unsigned char program[SIZE];
static const char sha[] = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
static const char other_sha[] = "0086b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";

static void on_progress(void *ctx, uint64_t done, uint64_t all) {
    (void)ctx;
    progress = done;
    progress_all = all;
}

static void on_done(void *ctx, const struct node_facts *f, const struct err *error) {
    (void)ctx;
    dones++;
    has_facts = f != NULL;
    ok(!f != !error, "facts come, or an error");
    if (error) {
        why = *error;
    } else if (f) {
        facts = *f;
        snprintf(program_path, sizeof program_path, "%s", f->program);
    }
}

static const struct agent_install_events events = {on_progress, on_done};

static const char *hello(const char *hash, const char *more) {
    return arena_printf(&arena,
                        "{\"program\":\"/r/bin/dtrun\",\"root\":\"/r\",\"cpus\":2,\"sha256\":"
                        "\"%s\"%s}\n",
                        hash, more);
}

static void begin(bool stay) {
    struct agent_install_spec spec = {
        .root = "~/a b", .data = program, .size = SIZE, .sha256 = sha, .stay = stay};
    loop_once(loop, 0);
    transport_close(node_link);
    fake_free_all();
    node_link = fake_link(loop, NULL, NULL);
    dones = 0;
    has_facts = false;
    progress = progress_all = 0;
    facts = (struct node_facts){0};
    why = (struct err){0};
    if (agent_install(node_link, &spec, &events, NULL, &e) < 0)
        bail_out("%s", e.text);
}

static void say(const char *text) {
    fake_say(fake_run(0), text, strlen(text));
}

// The node reads all that is sent to its newest command.
static void take_all(void) {
    while (fake_take(fake_run(0), SIZE_MAX))
        ;
}

static void test_there(void) {
    begin(false);
    const char *line = fake_run(0)->line;
    ok(str_starts(line, "exec sh -c "), "a shell of the node runs the script");
    has_str(line, "R=~/", "the script has the folder");
    has_str(line, "/bin/dtrun-6b86b273ff34fce1; ", "the program has the start of its hash");
    has_str(line, "= x86_64 ]", "the script compares the processor");
    has_str(line, "exit 94", "the script has a status for another processor");
    has_str(line, "exit 93", "the script has a status for no program");
    ok(!strstr(line, "--stay") && !strstr(line, "cat >"), "the script sends nothing");
    take_all();
    ok(fake_run(0)->got_end && fake_run(0)->got.len == 0, "the input is empty");
    int64_t ms = clock_wall_ms();
    say("Welcome!\n");
    say(hello(sha, arena_printf(&arena,
                                ",\"clock_ms\":%lld,\"gpus\":3,\"memory_bytes\":5,"
                                "\"disk_free_bytes\":6,\"version\":\"1\"",
                                (long long)ms + 7000)));
    is_int(dones, 0, "the end is awaited");
    fake_exit(fake_run(0), 0);
    is_int(dones, 1, "there is one result");
    ok(has_facts && !facts.uploaded, "the program was there");
    is_str(program_path, "/r/bin/dtrun", "the path of the program comes");
    ok(facts.cpus == 2 && facts.gpus == 3 && facts.memory_bytes == 5 && facts.disk_free_bytes == 6,
       "the numbers come");
    ok(facts.clock_skew_ms > 6000 && facts.clock_skew_ms < 8000, "the clocks are compared: %lld",
       (long long)facts.clock_skew_ms);
    is_int(fake_run_count(), 1, "nothing more is started");
}

static void test_sent(void) {
    static const int statuses[] = {93, 126, 1, 0};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        begin(i % 2);
        if (i == 3)
            say(hello(other_sha, "")); // another program under the name
        fake_exit(fake_run(0), statuses[i]);
        is_int(dones, 0, "status %d: the program is sent", statuses[i]);
        is_int(fake_run_count(), 2, "status %d: a second command runs", statuses[i]);
        const char *line = fake_run(0)->line;
        has_str(line, "cat >", "the script takes the program");
        has_str(line, arena_printf(&arena, "-eq %d ]", SIZE), "the script compares the size");
        has_str(line, arena_printf(&arena, "--sha256 %s", sha), "the script has the hash");
        has_str(line, "exit 95", "the script has a status for a cut program");
        has_str(line, "exit 96", "the script has a status for the folder");
        has_str(line, "exit 97", "the script has a status for the disk");
        ok(!strstr(line, "--stay"), "an upload does not stay");
        is_uint(progress_all, SIZE, "the size is known");
        is_uint(progress, 0, "nothing has gone");
        fake_take(fake_run(0), 300 << 10);
        ok(progress > 0 && progress <= 300 << 10, "a part has gone");
        take_all();
        is_uint(fake_run(0)->got.len, SIZE, "all bytes are sent");
        ok(memcmp(fake_run(0)->got.data, program, SIZE) == 0, "they are the program's");
        ok(fake_run(0)->got_end, "the input has an end");
        say(hello(sha, ""));
        fake_exit(fake_run(0), 0);
        ok(dones == 1 && has_facts && facts.uploaded, "the node has it");
    }
}

// How a sent program fails.
static void test_failures(void) {
    static const struct {
        int status, code;
        const char *said, *text;
    } rows[] = {
        {94, ERR_FAILED, "aarch64\n",
         "node n1: its processor is aarch64, and this dtctl carries an agent for x86_64 only"},
        {95, ERR_NET, "x", "node n1: the agent arrived incomplete; try again"},
        {96, ERR_SYS, "mkdir: no\n \n", "node n1: cannot make the folder '~/a b': mkdir: no"},
        {97, ERR_SYS, "", "node n1: cannot write the agent below '~/a b': nothing"},
        {126, ERR_SYS, "no",
         "node n1: the agent cannot be run there (is '~/a b' on a file system mounted noexec?): "
         "no"},
        {127, ERR_SYS, "no",
         "node n1: the agent cannot be run there (is '~/a b' on a file system mounted noexec?): "
         "no"},
        {125, ERR_FAILED, "no", "node n1: the agent failed with status 125; it said: no"},
        {128, ERR_FAILED, "\x1b[1m", "node n1: the agent failed with status 128; it said: "},
        {93, ERR_FAILED, "",
         "node n1: its login shell ended with status 93 and said nothing; may this login run "
         "commands? (try: ssh n1 true)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(false);
        fake_say_error(fake_run(0), "of the first command");
        fake_exit(fake_run(0), 93);
        fake_say_error(fake_run(0), rows[i].said);
        fake_exit(fake_run(0), rows[i].status);
        ok(dones == 1 && !has_facts, "status %d: there is no agent", rows[i].status);
        is_int(why.code, rows[i].code, "status %d: the code says why", rows[i].status);
        ok(str_starts(why.text, rows[i].text), "status %d: the text says why: %s", rows[i].status,
           why.text);
        ok(!strchr(why.text, '\x1b'), "status %d: no control byte passes", rows[i].status);
    }
    begin(false);
    fake_say_error(fake_run(0), "riscv64\n");
    fake_exit(fake_run(0), 94);
    is_int(fake_run_count(), 1, "no program is sent to another processor");
    has_str(why.text, "is riscv64", "the error names it");

    begin(false);
    transport_notify_lost(&fake_run(0)->r, &(struct err){ERR_TIMEOUT, "node n1: gone"});
    is_int(fake_run_count(), 1, "no program is sent over a lost connection");
    is_int(why.code, ERR_TIMEOUT, "the error is the connection's");
    is_str(why.text, "installing the agent: node n1: gone", "the error says what was done");

    begin(false);
    fake_exit(fake_run(0), 93);
    say(hello(other_sha, ""));
    fake_exit(fake_run(0), 0);
    is_int(why.code, ERR_HASH, "another program than was sent is refused");
    is_str(why.text, "node n1: the agent there is not what was sent", "the error says so");

    begin(false);
    fake_exit(fake_run(0), 93);
    say("no hello\n");
    fake_exit(fake_run(0), 0);
    is_str(why.text, "node n1: the agent sent no hello", "a program without a hello is refused");

    begin(false);
    fake_refuses = 1;
    fake_exit(fake_run(0), 93);
    is_str(why.text, "node n1: no more commands", "a node that starts no second command is named");
}

static void test_stays(void) {
    begin(true);
    has_str(fake_run(0)->line, " --stay", "the agent is asked to stay");
    take_all();
    ok(!fake_run(0)->got_end, "the input stays open");
    say("{\"program\":\"/r/bin/dtrun\"");
    is_int(dones, 0, "half a hello is awaited");
    say(hello(sha, "") + strlen("{\"program\":\"/r/bin/dtrun\""));
    ok(dones == 1 && has_facts, "the hello suffices");
    ok(node_link->parked == &fake_run(0)->r && !fake_run(0)->is_closed, "the agent waits");

    begin(true);
    say(hello(other_sha, ""));
    is_int(dones, 0, "the end of another program is awaited");
    take_all();
    ok(fake_run(0)->got_end, "the input ends");
    fake_exit(fake_run(0), 0);
    is_int(fake_run_count(), 2, "the right one is sent");
}

static void test_refused(void) {
    struct agent_install_spec spec = {
        .root = "/r", .data = program, .size = SIZE, .sha256 = "6b86"};
    is_int(agent_install(node_link, &spec, &events, NULL, &e), -1, "half a hash is refused");
    has_str(e.text, "hash is malformed", "the error says so");
    spec.sha256 = sha;
    spec.size = 19;
    is_int(agent_install(node_link, &spec, &events, NULL, &e), -1, "half a header is refused");
    has_str(e.text, "known processor", "the error says so");
    spec.size = SIZE;
    program[18] = 63;
    is_int(agent_install(node_link, &spec, &events, NULL, &e), -1, "another machine is refused");
    program[18] = 183;
    spec.size = 20;
    int before = fake_run_count();
    is_int(agent_install(node_link, &spec, &events, NULL, &e), 0, "a whole header suffices");
    is_int(fake_run_count(), before + 1, "a command runs");
    has_str(fake_run(0)->line, "= aarch64 ]", "the script has the program's processor");
    fake_exit(fake_run(0), 94);
    program[0] = 'x';
    is_int(agent_install(node_link, &spec, &events, NULL, &e), -1, "no ELF file is refused");
    program[0] = 0x7f;
    program[18] = 62;
    fake_refuses = 1;
    is_int(agent_install(node_link, &spec, &events, NULL, &e), -1,
           "a node that starts no command is an error");
}

// A hello that lacks one thing.
static void test_hellos(void) {
    static const struct {
        const char *program, *root, *hash;
        int cpus;
        bool good;
    } rows[] = {
        {"/p", "/r", sha, 1, true},      {"/p", "/r", sha, 0, false}, {"/p", "/r", sha, -1, false},
        {"/p", "/r", sha + 1, 1, false}, {"/p", "/r", "", 1, false},  {"p", "/r", sha, 1, false},
        {"/p", "~/r", sha, 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = arena_printf(
            &arena, "{\"program\":\"%s\",\"root\":\"%s\",\"sha256\":\"%s\",\"cpus\":%d}\n",
            rows[i].program, rows[i].root, rows[i].hash, rows[i].cpus);
        is_int(agent_install_parse(&arena, text, strlen(text), &facts, &e), rows[i].good ? 0 : -1,
               "hello %zu is taken or refused", i);
        if (!rows[i].good)
            has_str(e.text, "lacks program, root, sha256 or cpus", "the error says what it lacks");
    }
}

int main(void) {
    if (!(loop = loop_open(&e)))
        bail_out("cannot start");
    memcpy(program, "\177ELF", 4);
    program[18] = 62;
    for (size_t i = 20; i < SIZE; i++)
        program[i] = (unsigned char)(i * 31 + i / 977);
    node_link = fake_link(loop, NULL, NULL);
    test_there();
    test_sent();
    test_failures();
    test_stays();
    test_refused();
    test_hellos();
    transport_close(node_link);
    fake_free_all();
    loop_close(loop);
    arena_fini(&arena);
    return done_testing();
}
