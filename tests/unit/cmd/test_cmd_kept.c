// SPDX-License-Identifier: Apache-2.0
// dtctl state and dtctl data: what nodes keep between runs is listed and removed, states are
// pulled, and what is here goes with it.
#include "tests/unit/cmd/nodes_fake.h"

static const char *kept_by[NODES], *status_of[NODES];

static const char *answer(size_t node, const char *verb, const char *words) {
    (void)words;
    if (str_eq(verb, "kept"))
        return kept_by[node];
    return str_eq(verb, "status") ? status_of[node] : "{}\n";
}

// A line of `kept`; it changed two hours ago.
static const char *kept(const char *kind, const char *name, int files, int bytes) {
    return arena_printf(&nodes_arena,
                        "{\"kind\":\"%s\",\"name\":\"%s\",\"files\":%d,\"bytes\":%d,"
                        "\"changed_ms\":%lld}\n",
                        kind, name, files, bytes, (long long)clock_wall_ms() - 2 * 3600 * 1000);
}

static const char *join(const char *x, const char *y) {
    return arena_printf(&nodes_arena, "%s%s", x, y);
}

static void begin(const char *n0, const char *n1, const char *n2) {
    kept_by[0] = n0;
    kept_by[1] = n1;
    kept_by[2] = n2;
    for (size_t i = 0; i < NODES; i++) {
        status_of[i] = "";
        nodes_down[i] = nodes_silent[i] = false;
    }
}

static void put(const char *path, const char *text) {
    path = file_join(&nodes_arena, nodes_folder, path);
    if (file_make_dirs(file_dir(&nodes_arena, path), 0700, &dtctl_err) < 0 ||
        file_write_atomic(path, text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

static bool is_there(const char *path) {
    return file_exists(file_join(&nodes_arena, nodes_folder, path));
}

static size_t lines(const char *text) {
    size_t count = 0;
    for (; (text = strchr(text, '\n')); text++)
        count++;
    return count;
}

// Without the row of names.
static const char *row(int n) {
    const char *at = dtctl_out();
    while (n-- > 0 && at)
        at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at ? arena_strndup(&nodes_arena, at, strcspn(at, "\n")) : "";
}

// ---- states -------------------------------------------------------------------------------------

static void make_runs(void) {
    struct run r = nodes_run("a-1", "finished", true);
    nodes_keep_run(&r);
    r = nodes_run("a-2", "finished", true);
    r.left = RESULT_STATE | RESULT_LOGS;
    nodes_keep_run(&r);
    r = nodes_run("b-1", "started", false);
    nodes_keep_run(&r);
    put(".dtctl/c/runs/b-1/published/n1/3/state/f", "12345");
    put(".dtctl/c/runs/b-1/published/n1/2/state/f", "1");
}

static void test_state_ls(void) {
    begin(join(kept("state", "a-2", 1, 1000), kept("state", "x-1", 1, 1)),
          kept("state", "a-2", 4, 2000000), kept("input", "data-1", 5, 50));
    is_int(dtctl("state", "ls", NULL), 0, "states are listed: %s", dtctl_err.text);
    is_uint(lines(dtctl_out()), 4, "each state has a row");
    is_str(row(0),
           "RUN                                          NODE               FILES       SIZE      "
           "AGE",
           "the rows have names");
    is_str(row(2),
           "a-2                                          n0                     1     1.0 kB  "
           "2:00:00",
           "a row has the run, the node, the files, the size and the age");
    has_str(row(3), " n1                     4     2.0 MB ", "each node has its row");
    has_str(row(1), "b-1 ", "the newest run comes first");
    has_str(row(1), " here, of n1            1        5 B ",
            "of states that came here each node's newest one is listed");
    is_int(dtctl("state", "ls", "b", NULL), 0, "the states of a task are listed");
    is_uint(lines(dtctl_out()), 2, "states of other tasks are not listed");
    is_int(dtctl("state", "ls", "a-2", NULL), 0, "the states of a run are listed");
    is_uint(lines(dtctl_out()), 3, "states of other runs are not listed");
    is_int(dtctl("state", "ls", "none", NULL), 0, "no state is no error");
    is_str(said(), "no run has left a state for none\n", "the user reads that there is none");
    is_str(dtctl_out(), "", "no state has no rows");
    put("out/.dtctl-run", "a-1\n");
    put("out/state/g", "1234567");
    nodes_down[2] = true;
    is_int(dtctl("state", "ls", NULL), 3, "a node that does not answer is an exit status");
    has_str(said(), "no route", "the user reads of the node");
    has_str(dtctl_out(), "a-2 ", "the states of other nodes are listed");
}

static void test_state_rm(void) {
    begin(kept("state", "a-2", 1, 1000), kept("state", "a-2", 4, 2000),
          join(kept("state", "x-1", 1, 1), kept("state", "b-1", 1, 1)));
    is_int(dtctl("state", "rm", "none", "-y", NULL), 1, "a state that is not there is an error");
    has_str(dtctl_err.text, "no run 'none' has a state (try: dtctl state ls)",
            "the error has the next step");
    is_int(dtctl("state", "rm", "a", "--dry-run", NULL), 0, "a dry run of state rm succeeds");
    has_str(dtctl_out(), "would remove the state of a-2\n", "the run is shown");
    ok(!strstr(nodes_asked(), "drop"), "nothing goes");
    is_int(dtctl("state", "rm", "a", NULL), 2, "without a terminal the question needs -y");
    has_str(dtctl_err.text, "remove the state of 2 runs, 1 of them without a copy here?",
            "the question has the number of runs");
    has_str(said(), "  a-2, on its nodes, and not here\n", "the user reads where the state is");
    has_str(said(), "  a-1, here\n", "the user reads of a state that is here alone");
    ok(is_there("out/state/g"), "the state that is here stays without an answer");
    status_of[1] = "{\"run\":\"a-2\",\"state\":\"running\"}\n";
    is_int(dtctl("state", "rm", "a", "-y", NULL), 1, "the state of an active run stays");
    is_str(dtctl_err.text, "run 'a-2' is running (try: dtctl stop a-2)", "the error has the run");
    status_of[1] = "{\"run\":\"a-2\",\"state\":\"finished\"}\n";
    nodes_down[2] = true;
    is_int(dtctl("state", "rm", "a", "-y", NULL), 3, "a node that does not answer is a status");
    ok(!is_there("out/state"), "the state that is here is removed");
    ok(nodes_run_now("a-2").left & RESULT_STATE, "a state may be left on that node");
    nodes_down[2] = false;
    is_int(dtctl("state", "rm", "a", "-y", NULL), 0, "states are removed: %s", dtctl_err.text);
    is_str(dtctl_out(), "removed the state of 1 run\n", "the user reads of it");
    const char *asked = nodes_asked();
    has_str(asked, "n0 drop --run a-2;", "a node removes the state");
    has_str(asked, "n1 drop --run a-2;", "each node removes its state");
    ok(!strstr(asked, "n2 drop"), "states of other runs stay");
    is_int((int)nodes_run_now("a-2").left, RESULT_LOGS, "no state is left on the nodes");
    is_int(dtctl("state", "rm", "b-1", "-y", NULL), 0, "a state that is here is removed");
    ok(!is_there(".dtctl/c/runs/b-1/published"), "states that came here are removed");
}

static void test_state_words(void) {
    is_int(dtctl("state", "other", NULL), 2, "another word is refused");
    is_int(dtctl("state", "rm", NULL), 2, "a removal needs a run");
    is_int(dtctl("state", "pull", "a-1", "--to", "x", "--dry-run", NULL), 0,
           "a dry run of state pull succeeds");
    is_str(dtctl_out(), "would pull the state of a-1 to x\n", "the run and the folder are shown");
    ok(!is_there("x"), "nothing is pulled");
}

// ---- inputs -------------------------------------------------------------------------------------

static void begin_inputs(void) {
    begin(join(kept("input", "data-0123-of3.1", 2, 2000), kept("state", "a-1", 1, 1)),
          join(kept("input", "data-0123", 9, 9000), kept("environment", "bundle-77", 3, 30)),
          kept("input", "my-data-4567-of10", 1, 1));
}

static void test_data_ls(void) {
    begin_inputs();
    is_int(dtctl("data", "ls", NULL), 0, "inputs are listed: %s", dtctl_err.text);
    is_uint(lines(dtctl_out()), 5, "each folder has a row, and states have none");
    is_str(row(0), "INPUT            NODE               FILES       SIZE      AGE  FOLDER",
           "the rows of inputs have names");
    is_str(row(1), "bundle           n1                     3       30 B  2:00:00  bundle-77",
           "an environment has its row");
    has_str(row(2), "data             n1 ", "an input has its name");
    has_str(row(3), "data             n0 ", "a share has the name of its input");
    has_str(row(4), "my-data          n2 ", "a name may have a dash");
    dtctl("data", "ls", "data", NULL);
    is_uint(lines(dtctl_out()), 3, "one input can be listed");
    dtctl("data", "ls", "data-0123", NULL);
    is_uint(lines(dtctl_out()), 2, "one folder can be listed");
    dtctl("data", "ls", "none", NULL);
    is_str(said(), "there are no inputs and no environments on the nodes\n",
           "the user reads that there are none");
    nodes_silent[1] = true;
    is_int(dtctl("data", "ls", NULL), 3, "a node that is lost is an exit status");
    is_uint(lines(dtctl_out()), 3, "the inputs of other nodes are listed");
}

static void test_data_rm(void) {
    begin_inputs();
    is_int(dtctl("data", "rm", "data", "--dry-run", NULL), 0, "a dry run of data rm succeeds");
    is_str(dtctl_out(), "would remove data-0123 from n1\nwould remove data-0123-of3.1 from n0\n",
           "each folder that would go is listed");
    is_int(dtctl("data", "rm", "data", NULL), 2, "the question needs -y");
    has_str(dtctl_err.text, "'remove 2 folders of 'data', 11.0 kB?'",
            "the question has the number of folders and their size");
    is_int(dtctl("data", "rm", "none", "-y", NULL), 1, "an input that is not there is an error");
    is_str(dtctl_err.text, "no node has an input 'none', nor an environment (try: dtctl data ls)",
           "the error names the input");
    is_int(dtctl("data", "rm", "data", "-y", NULL), 0, "inputs are removed");
    is_str(dtctl_out(), "removed 2 folders of 'data'\n", "the number of folders is shown");
    const char *asked = nodes_asked();
    has_str(asked, "n0 drop --input data-0123-of3.1;", "a node removes its share");
    has_str(asked, "n1 drop --input data-0123;", "a node removes its copy");
    is_int(dtctl("data", "rm", "bundle", "-y", NULL), 0, "environments are removed");
    is_str(dtctl_out(), "removed 1 folder of 'bundle'\n", "one folder is one");
    has_str(nodes_asked(), "n1 drop --bundle bundle-77;", "a node removes its environment");
    nodes_down[0] = nodes_down[1] = nodes_down[2] = true;
    is_int(dtctl("data", "rm", "data", "-y", NULL), 3, "nodes that do not answer are a status");
}

static void test_data_words(void) {
    is_int(dtctl("data", "other", NULL), 2, "another word of data is refused");
    is_str(dtctl_err.text, "data takes inspect, pack, index, make-shapes, ls or rm, not 'other'",
           "the error has the words");
    is_int(dtctl("data", "pack", "x", NULL), 2, "pack needs two arguments");
    is_str(dtctl_err.text, "data pack takes SOURCE and DESTINATION", "the error has them");
    is_int(dtctl("data", "ls", "x", "y", NULL), 2, "ls takes one argument");
    is_int(dtctl("data", "inspect", "x", "--split", "some", NULL), 2, "a split has three names");
    is_str(dtctl_err.text, "--split takes all, train or test, not 'some'", "the error names it");
    is_int(dtctl("data", "rm", NULL), 2, "rm needs an argument");
}

int main(void) {
    nodes_open();
    nodes_answer = answer;
    make_runs();
    test_state_ls();
    test_state_rm();
    test_state_words();
    test_data_ls();
    test_data_rm();
    test_data_words();
    nodes_close();
    return done_testing();
}
