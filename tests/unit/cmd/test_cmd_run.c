// SPDX-License-Identifier: Apache-2.0
// dtctl run: the order of tasks, the command line of each, what ends the command, and what is
// printed. Each task is this program with the word "train".
#include "tests/unit/cmd/nodes_fake.h"

#include <stdio.h>

// ---- dtctl train --------------------------------------------------------------------------------

// Notes its words, then ends as the file status-TASK has it, "5" or "active"; without that file
// the task has finished.
static int train(int argc, char **argv) {
    const char *task = "";
    char status[16] = "0", path[128];
    FILE *ran = fopen("ran", "a"), *file;
    for (int i = 2; ran && i < argc; i++) {
        task = str_starts(argv[i], "--task=") ? argv[i] + 7 : task;
        if (!str_starts(argv[i], "--config="))
            fprintf(ran, "%s%s", argv[i], i + 1 < argc ? " " : ";");
    }
    snprintf(path, sizeof path, "status-%s", task);
    if ((file = fopen(path, "r"))) {
        if (!fgets(status, sizeof status, file))
            return 99;
        fclose(file);
    }
    if (!ran || fclose(ran) != 0 || !getcwd(nodes_folder, sizeof nodes_folder))
        return 99;
    if (str_eq(status, "kept"))
        return 0;
    struct run r = nodes_run(arena_printf(&nodes_arena, "%s-20260101T000000Z-00000a", task),
                             str_eq(status, "active") ? "started" : "finished", true);
    r.created_ms = clock_wall_ms();
    nodes_keep_run(&r);
    arena_fini(&nodes_arena);
    return (int)strtol(status, NULL, 10);
}

// ---- tests --------------------------------------------------------------------------------------

static void put(const char *path, const char *text) {
    if (file_write_atomic(path, text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

// The command lines since the last call, without the file.
static const char *ran(void) {
    char *text = (char *)(uintptr_t) "";
    size_t len;
    struct err e = {0};
    (void)file_read(&nodes_arena, "ran", 1 << 16, &text, &len, &e);
    unlink("ran");
    return text;
}

static void test_order(void) {
    put("dtctl.toml", "[cluster]\nname = \"c\"\n"
                      "[tasks.last]\ncommand = [\"true\"]\nafter = [\"first\", \"middle\"]\n"
                      "[tasks.first]\ncommand = [\"true\"]\n"
                      "[tasks.middle]\ncommand = [\"true\"]\nif_changed = false\n"
                      "[tasks.middle.inputs.x]\nsource = \"run:first/output\"\n");
    is_int(dtctl("run", "--dry-run", NULL), 0, "tasks are planned: %s", dtctl_err.text);
    is_str(said(),
           "task     first (1 of 3)\ntask     middle (2 of 3), after first\n"
           "task     last (3 of 3), after first, middle\n",
           "each task comes after those that it needs");
    is_str(ran(), "", "a dry run runs no task");
    is_int(dtctl("run", NULL), 0, "tasks run: %s", dtctl_err.text);
    is_str(ran(), "--task=first --if-changed;--task=middle;--task=last --if-changed;",
           "each task is run by dtctl train");
    is_str(said(), "task     first (1 of 3)\ntask     middle (2 of 3)\ntask     last (3 of 3)\n",
           "the user reads which task runs");
    dtctl("run", "--force", "--task", "middle", NULL);
    is_str(ran(), "--task=first --force;--task=middle --force;",
           "one task runs, with those that it needs");
    dtctl("run", "--json", "--task", "first", NULL);
    has_str(
        dtctl_out(),
        "\"task\":\"first\",\"run\":\"first-20260101T000000Z-00000a\",\"stood_in\":false,\"ms\":",
        "the event has the run of the task");
    put("status-first", "kept");
    dtctl("run", "--json", "--task", "first", NULL);
    has_str(dtctl_out(), "\"stood_in\":true,", "a run of before stands in for the task");
    unlink("status-first");
    ran();
}

static void test_failures(void) {
    put("status-first", "5");
    is_int(dtctl("run", NULL), 5, "the status of a task that fails is that of the command");
    has_str(said(), "task 'first' failed; not started: middle, last",
            "the user reads which tasks are not started");
    is_str(ran(), "--task=first --if-changed;", "no task runs behind one that fails");
    unlink("status-first");
    put("status-middle", "active");
    is_int(dtctl("run", NULL), 1, "a task that is active has no result");
    has_str(dtctl_err.text,
            "task 'middle' is active as run middle-20260101T000000Z-00000a (try: dtctl logs -f ",
            "the error names the run");
    has_str(dtctl_err.text, "; not started: last", "the error names the tasks behind it");
    ran();
    unlink("status-middle");
    put("status-gone", "kept");
    put("dtctl.toml", "[cluster]\nname = \"c\"\n[tasks.gone]\ncommand = [\"true\"]\n");
    is_int(dtctl("run", NULL), 1, "a task without a run is an error");
    is_str(dtctl_err.text, "task 'gone' has left no run", "the error names the task");
    is_int(dtctl("run", "--task", "gon", NULL), 2, "a task has to be in the file");
    has_str(dtctl_err.text, "--task: '", "the error names the flag");
    has_str(dtctl_err.text, "' has no task 'gon'", "the error names the task that is not there");
    put("dtctl.toml", "[cluster]\nname = \"c\"\n[tasks.a]\ncommand = [\"x\"]\ndetach = true\n");
    is_int(dtctl("run", NULL), 2, "a task cannot be left alone");
    has_str(dtctl_err.text, "task 'a': ", "the error names the task that would be left");
    put("dtctl.toml", "[cluster]\nname = \"c\"\n");
    is_int(dtctl("run", NULL), 2, "a file without tasks is an error");
    has_str(dtctl_err.text, "has no [tasks.NAME] (try: dtctl train, which runs one command)",
            "the error has the next step");
    unlink("dtctl.toml");
    is_int(dtctl("run", NULL), 1, "a file has to be there");
    is_str(dtctl_err.text, "there is no 'dtctl.toml' here (try: dtctl run FILE)",
           "the error names the file");
}

int main(int argc, char **argv) {
    if (argc > 1 && str_eq(argv[1], "train"))
        return train(argc, argv);
    nodes_open();
    test_order();
    test_failures();
    nodes_close();
    return done_testing();
}
