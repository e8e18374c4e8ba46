// SPDX-License-Identifier: Apache-2.0
// Answers of nodes about files that stay on them: how they are asked, sums, limits of what is
// believed, nodes that have lost the run or cannot answer.
#include "run/results/work_left.h"

#include "tests/unit/fleet_fake.h"

static struct err e;
static struct run run;
static struct work_left left;

static void begin(const char *n0, const char *n1, const char *n2) {
    run = (struct run){.id = "r7", .bring = RESULT_ALL};
    fake_fleet_begin(n0, n1, n2);
}

// Asks, and checks the line that the nodes get.
static void ask(int rank0, const char *rest) {
    is_int(work_left_ask(&fleet, &run, rank0, &left, &e), 0, "the nodes are asked%s", rest);
    for (struct fake_run *r = fake_runs; r; r = r->older)
        is_str(r->line, arena_printf(&arena, "/p --node work-left --root /r --run r7%s", rest),
               "a node gets the line%s", rest);
    fake_fleet_end();
}

static const char *names_of(const struct work_left *w) {
    const char *text = "";
    for (size_t i = 0; i < w->name_count; i++)
        text = arena_printf(&arena, "%s%s%s", text, i ? " " : "", w->names[i]);
    return text;
}

#define FILES(files, bytes) "{\"files\":" files ",\"bytes\":" bytes "}"

static void test_files(void) {
    begin("{\"files\":2,\"bytes\":10,\"names\":[\"a\",\"b\",7]}\n",
          "{\"files\":1,\"bytes\":0,\"names\":[\"b\",\"c\",\"d\",\"e\"]}\n", "{\"files\":0}\n");
    ask(-1, "");
    is_int(left.files, 3, "files of all nodes are added");
    is_int(left.bytes, 10, "bytes of all nodes are added");
    is_str(names_of(&left), "a b c d", "the first names are kept, each once");
    ok(!left.kinds_unknown && !left.gone[0], "nothing is unknown");

    begin("{\"files\":2,\"bytes\":10}\n", "{\"files\":5,\"bytes\":7}\n", "{}\n");
    ask(1, "");
    is_int(left.files, 5, "only one node counts where files of rank 0 alone are wanted");

    begin("{\"files\":2,\"bytes\":10}\n", "{}\n", "{}\n");
    run.native = true;
    ask(-1, "");
    is_int(left.files, 0, "the trainer has no working folder");

    begin("{}\n", "{}\n", "{}\n");
    run.bring_work = true;
    ask(-1, " --gather");
}

// Numbers on both sides of each limit.
static void test_limits(void) {
    static const struct {
        const char *answer;
        int64_t files, bytes;
    } rows[] = {
        {"{\"files\":2147483647,\"bytes\":1}\n", INT32_MAX, 1},
        {"{\"files\":2147483648,\"bytes\":1}\n", 0, 0},
        {"{\"files\":1,\"bytes\":2251799813685247}\n", 1, INT64_MAX / 4096},
        {"{\"files\":1,\"bytes\":2251799813685248}\n", 0, 0},
        {"{\"files\":1,\"bytes\":-1}\n", 0, 0},
        {"{\"files\":-1,\"bytes\":1}\n", 0, 0},
        {"{\"files\":0,\"bytes\":1}\n", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(rows[i].answer, "{}\n", "{}\n");
        ask(-1, "");
        is_int(left.files, rows[i].files, "row %zu: the number of files is believed or not", i);
        is_int(left.bytes, rows[i].bytes, "row %zu: the number of bytes is believed or not", i);
    }
}

#define KINDS(logs, output, model, state)                                                          \
    "{\"kinds\":{\"logs\":" logs ",\"output\":" output ",\"model\":" model ",\"state\":" state     \
    "}}\n"
#define NONE FILES("0", "0")

static void test_kinds(void) {
    begin(KINDS(NONE, FILES("2", "20"), NONE, FILES("1", "5")),
          KINDS(NONE, FILES("3", "1"), NONE, NONE), KINDS(NONE, NONE, NONE, NONE));
    run.bring = RESULT_OUTPUT;
    ask(-1, " --kinds");
    is_int(left.kinds[1].files, 5, "files of a kind are added");
    is_int(left.kinds[1].bytes, 21, "bytes of all nodes are added");
    is_int(left.kinds[3].files, 1, "files of another kind are its own");
    is_uint(work_left_kinds(&left, RESULT_ALL), RESULT_OUTPUT | RESULT_STATE,
            "kinds with a file are left");
    is_uint(work_left_kinds(&left, RESULT_STATE | RESULT_MODEL), RESULT_STATE,
            "other kinds are not asked for");

    begin(KINDS(NONE, FILES("2", "20"), FILES("1", "1"), FILES("1", "5")),
          KINDS(NONE, FILES("3", "1"), NONE, FILES("1", "5")), KINDS(NONE, NONE, NONE, NONE));
    run.left = RESULT_STATE;
    ask(1, " --kinds");
    is_int(left.kinds[1].files, 3, "output counts on the node of rank 0");
    is_int(left.kinds[2].files, 0, "a model counts there, too");
    is_int(left.kinds[3].files, 2, "states count on every node");

    begin(KINDS(NONE, NONE, FILES("2", "9"), NONE), KINDS(NONE, NONE, FILES("3", "4"), NONE),
          KINDS(NONE, NONE, FILES("3", "5"), NONE));
    run.native = true;
    run.bring = 0;
    ask(-1, " --kinds");
    is_int(left.kinds[2].files, 3, "the trainer's nodes have the same, and the most counts");
    is_int(left.kinds[2].bytes, 4, "the bytes are those of the node with most files");
}

static void test_unknown(void) {
    static const struct {
        const char *answer;
        bool unknown;
    } rows[] = {
        {"{}\n", true},
        {KINDS(NONE, NONE, NONE, FILES("-1", "0")), true},
        {KINDS(NONE, NONE, NONE, FILES("0", "-1")), true},
        {KINDS(NONE, NONE, NONE, FILES("2147483648", "0")), true},
        {KINDS(NONE, NONE, NONE, FILES("2147483647", "0")), false},
        {KINDS("7", NONE, NONE, NONE), true},
        {"no object\n", true},
        {"!failed", true},
        {KINDS(NONE, NONE, NONE, NONE), false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(rows[i].answer, KINDS(NONE, NONE, NONE, NONE), KINDS(NONE, NONE, NONE, NONE));
        run.bring = 0;
        ask(-1, " --kinds");
        is_int(left.kinds_unknown, rows[i].unknown, "row %zu: kinds are known or not", i);
        is_int(nodes[0].failed, false, "row %zu: no node fails for that", i);
        if (rows[i].unknown)
            is_uint(work_left_kinds(&left, RESULT_MODEL), RESULT_MODEL,
                    "row %zu: unknown kinds may be left", i);
    }
}

static void test_gone(void) {
    begin("!not-found", "!failed", "{\"files\":1,\"bytes\":2}\n");
    ask(-1, "");
    ok(left.gone[0] && !left.gone[1] && !left.gone[2],
       "a node that does not know the run is named");
    ok(!nodes[0].failed && !nodes[1].failed, "neither of them fails for that");
    is_int(left.files, 1, "the others count");
    ok(left.kinds_unknown, "of theirs nothing is known");

    begin("!not-found", "!failed", "{}\n");
    run.bring_work = true;
    ask(-1, " --gather");
    ok(left.gone[0] && !nodes[0].failed, "a node without the run has nothing to prepare");
    ok(nodes[1].failed && !nodes[2].failed, "a node that cannot prepare its files has failed");
    is_str(nodes[1].err.text, "why", "its error is the node's");
}

int main(void) {
    fake_fleet_init();
    test_files();
    test_limits();
    test_kinds();
    test_unknown();
    test_gone();
    fake_fleet_fini();
    return done_testing();
}
