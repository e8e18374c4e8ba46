// SPDX-License-Identifier: Apache-2.0
// The words of a run's command, its name, its environment and the settings that its record keeps;
// and commands that contradict each other.
#include "run/run_start.h"

#include "fleet/embedded_files.h"
#include "tests/tap.h"

#include "tests/unit/conf/config_fixture.h"

#include <sys/stat.h>

enum { NODES = 4 };

// In place of the table that the build makes.
extern struct embed_file embed_files[2];
struct embed_file embed_files[2] = {{.name = "dttrain", .sha256 = "0123456789abcdef0123"}};

static char root[] = "/tmp/test_run_command.XXXXXX";
static struct context context = {.arena = &a, .config = &c};
static struct run_start start;
static struct err e;

// words behind "--": the command; NULL: none is given.
static int command(const char *words, const char *file, const char *line) {
    char **all = NULL;
    size_t count = line ? str_split(&a, line, ' ', &all) : 0;
    const char *problem = load("train", words, file, NULL);
    if (*problem)
        bail_out("'%s': %s", words, problem);
    const struct run_start_request request = {.command = (const char *const *)all,
                                              .command_count = count};
    start = (struct run_start){.context = &context};
    err_clear(&e);
    return run_start_command(&start, &request, &e);
}

// "NAME: WORD|WORD…"
static const char *words_of(void) {
    const char *text = arena_printf(&a, "%s:", start.run.name);
    for (size_t i = 0; i < start.run.command_count; i++)
        text = arena_printf(&a, "%s%s%s", text, i ? "|" : " ", start.run.command[i]);
    return start.run.command[start.run.command_count] ? "no end" : text;
}

static void test_words(void) {
    static const struct {
        const char *words, *file, *line, *want;
    } cases[] = {
        {"", NULL, "prog a b", "prog: prog|a|b"},
        {"", NULL, "x.py a", "x: python3|-u|x.py|a"},
        {"", NULL, "x.sh a", "x: bash|x.sh|a"},
        {"", NULL, "dir/x.py", "x: python3|-u|dir/x.py"},
        {"", NULL, "./run.sh", "run: ./run.sh"},
        {"", NULL, "run.sh", "run: bash|run.sh"},
        {"", NULL, "python y.py", "y: python|y.py"},
        {"--name=n", NULL, "prog", "n: prog"},
        {"--shell=echo a; b", NULL, NULL, "echo: bash|-c|echo a; b|bash"},
        {"--shell=x.py|true", NULL, NULL, "x.py: bash|-c|x.py|true|bash"},
        {"", "[train]\ncommand = [\"list\", \"w\"]\n", NULL, "list: list|w"},
        {"", "[train]\ncommand = [\"list\", \"w\"]\n", "line", "line: line"},
        {"", "[train]\nshell = \"file\"\n", "line", "line: line"},
        {"--shell=flag", "[train]\ncommand = [\"list\"]\n", NULL, "flag: bash|-c|flag|bash"},
        {"", "[hyperparameters]\nlr = 0.5\nname = \"b\"\n", "prog a",
         "prog: prog|a|--lr|0.5|--name|b"},
        {"", "[hyperparameters]\nlr = 0.5\n[train]\nshell = \"run \\\"$@\\\"\"\n", NULL,
         "run: bash|-c|run \"$@\"|bash|--lr|0.5"},
        {"", NULL, NULL, "resnet18: bin/dttrain-0123456789abcdef|--config|train.toml"},
        {"--set=train.model=vit_tiny(patch=8)", NULL, NULL,
         "vit_tiny: bin/dttrain-0123456789abcdef|--config|train.toml"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        // A '|' in a shell line would part the words.
        const char *words = i == 9 ? "--shell=x.py" : cases[i].words;
        const char *want = i == 9 ? "x: bash|-c|x.py|bash" : cases[i].want;
        is_int(command(words, cases[i].file, cases[i].line), 0, "command %zu is taken: %s", i,
               e.text);
        is_str(words_of(), want, "command %zu has its words and its name", i);
        ok(start.native == (i >= 16) && start.run.native == start.native,
           "command %zu is that of the trainer or not", i);
    }
}

static void test_refused(void) {
    static const struct {
        const char *words, *file, *line, *want;
    } cases[] = {
        {"--shell=a", NULL, "b", "a command is given too (after --); choose one of them"},
        {"", "[train]\nshell = \"a\"\ncommand = [\"b\"]\n", NULL, "choose one of them"},
        {"--once|--nodes=2", NULL, "b", "task.once runs one process on one node"},
        {"--once|--nproc-per-node=2", NULL, "b", "task.once runs one process"},
        {"--once|--spares=1", NULL, "b", "task.once runs one process"},
        {"", "[hyperparameters]\nlr = 0.5\n", NULL, "(try: --set train.lr=0.5)"},
        {"--set=compat.sagemaker=true", NULL, NULL, "it is for commands, not for the native"},
        {"--env-bundle=x.tar", NULL, NULL, "env.bundle.archive"},
        {"", "[inputs.a]\nsource = \"x\"\n[inputs.d]\nsource = \"x\"\ndeliver = \"extract\"\n",
         NULL, "input 'd': deliver = extract is for commands"},
        {"", "[inputs.d]\nsource = \"x\"\ndeliver = \"extract\"\n", NULL, "input 'd': deliver"},
        {"", "[train]\ncommand = [\"\"]\n", NULL, "the name of the program is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        is_int(command(cases[i].words, cases[i].file, cases[i].line), -1, "command %zu is refused",
               i);
        has_str(e.text, cases[i].want, "command %zu is refused with its reason", i);
    }
    const char *empty[] = {"", NULL};
    const struct run_start_request request = {.command = empty, .command_count = 1};
    (void)command("", NULL, "true");
    is_int(run_start_command(&start, &request, &e), -1, "an empty word is no program");
    has_str(e.text, "after --: the name of the program is empty (is a variable not set?)",
            "the error has the likely cause");
    embed_files[0].name = "other";
    is_int(command("", NULL, NULL), -1, "without the trainer a command is needed");
    has_str(e.text, "carries no trainer", "the error says what is missing");
    embed_files[0].name = "dttrain";
    is_int(command("--once", NULL, "b"), 0, "one process runs once: %s", e.text);
}

static void test_bench(void) {
    const char *flags[] = {"--bench", "5", NULL}, *prog[] = {"prog", NULL};
    struct run_start_request request = {.bench = flags};
    (void)command("", NULL, NULL);
    start = (struct run_start){.context = &context};
    is_int(run_start_command(&start, &request, &e), 0, "the trainer measures: %s", e.text);
    is_str(words_of(), "resnet18: bin/dttrain-0123456789abcdef|--config|train.toml|--bench|5",
           "the trainer has the flags");
    ok(start.measures, "a run that measures is known");
    request = (struct run_start_request){.bench = flags, .command = prog, .command_count = 1};
    start = (struct run_start){.context = &context};
    ok(run_start_command(&start, &request, &e) == 0 && !start.measures,
       "a command does not measure");
    (void)command("", NULL, NULL);
    ok(!start.measures, "a run that trains does not measure");
}

static void test_command_check(void) {
    (void)command("--shell=a", "[train]\ncommand = [\"b\"]\n", "c");
    is_int(run_start_command_check(&c, &e), 0, "a flag goes before the file");
    (void)command("", "[train]\ncommand = [\"\"]\n", "c");
    is_int(run_start_command_check(&c, &e), -1, "the file has an empty program");
    (void)command("", "[train]\nshell = \"a\"\ncommand = [\"b\"]\n", "c");
    is_int(run_start_command_check(&c, &e), -1, "the file has two commands");
    (void)command("", NULL, "c");
    is_int(run_start_command_check(&c, &e), 0, "the file has no command");
}

static void test_container(void) {
    const char *set = "--set=compat.sagemaker=true";
    if (file_write_atomic("train", "#!/bin/sh\n", 10, 0755, &e) < 0)
        bail_out("%s", e.text);
    is_int(command(set, "[hyperparameters]\nlr = 0.5\n", NULL), 0, "a container has its program");
    is_str(words_of(), "train: ./train|train", "the program gets one word");
    is_int(command(set, NULL, "/opt/train"), 0, "the program may have a folder");
    is_str(words_of(), "train: /opt/train|train", "the folder is kept");
    is_int(command(set, NULL, "train a"), 0, "a program with more words is a command");
    is_str(words_of(), "train: train|a", "the command has its own words");
    is_int(command("", NULL, NULL), 0, "without the setting there is no container");
    ok(start.native, "the trainer runs then");
    if (chmod("train", 0644) < 0)
        bail_out("chmod");
    is_int(command(set, NULL, NULL), -1, "a file that is not executable is no program");
    unlink("train");
}

// ---- the environment ----------------------------------------------------------------------------

// "NAME=VALUE", with a bar behind the user's.
static const char *environment(const char *file, const char *line) {
    const char *text = "";
    if (command("", file, line) < 0)
        bail_out("%s", e.text);
    static struct inventory_node node;
    static size_t index;
    start.inventory = (struct inventory){.nodes = &node, .count = 1};
    start.indices = &index;
    start.node_count = 1;
    job_spec_init(&start.spec);
    run_start_env(&start);
    for (int i = 0; i < start.spec.env_count; i++)
        text = arena_printf(&a, "%s%s%s=%s", text,
                            i == start.own_env_count ? "| "
                            : i                      ? " "
                                                     : "",
                            start.spec.env[i].name, start.spec.env[i].value);
    return text;
}

static void test_environment(void) {
    is_str(environment("[env]\nA = \"1\"\nB = \"2\"\n", "prog"), "A=1 B=2| PYTHONUNBUFFERED=1",
           "the user's variables come first");
    is_str(environment("[env]\nA = \"1\"\nPYTHONUNBUFFERED = \"0\"\n", "prog"),
           "A=1 PYTHONUNBUFFERED=0", "the user's own setting is kept");
    is_str(environment("[env]\nPYTHONUNBUFFERED = \"0\"\nA = \"1\"\n", "prog"),
           "PYTHONUNBUFFERED=0 A=1", "the place of the setting does not matter");
    is_str(environment("[env]\nA = \"1\"\n", NULL), "A=1", "the trainer needs no other");
    has_str(environment("[hyperparameters]\nlr = 0.5\nb = 2\n[env]\nA = \"1\"\n", "prog"),
            "SM_HP_LR=0.5 SM_HP_B=2 A=1", "hyperparameters are variables");
}

// ---- the record ---------------------------------------------------------------------------------

static const char *record(const char *file, const char *line) {
    const char *text;
    if (command("", file, line) < 0)
        bail_out("%s", e.text);
    start.node_count = 0;
    run_start_settings(&start);
    text = "";
    for (size_t i = 0; i < start.run.settings.count; i++)
        text = arena_printf(&a, "%s%s%s=%s", text, i ? " " : "", start.run.settings.items[i].name,
                            start.run.settings.items[i].value);
    return text;
}

static void test_record(void) {
    const char *file = "[hyperparameters]\nlr = 0.5\nb = 2\n[env]\nA = \"1\"\nB = \"1\"\n";
    is_str(record(file, "prog"), "hyperparameters.lr=0.5 hyperparameters.b=2",
           "the record has the hyperparameters");
    const struct option_map *env = &start.run.env;
    ok(env->count == 2 && str_eq(env->items[0].name, "A") && strlen(env->items[0].value) == 16,
       "the record has digests of variables");
    ok(!str_eq(env->items[0].value, env->items[1].value), "a digest depends on the name");
    const char *before = env->items[0].value;
    (void)record(file, "prog");
    is_str(start.run.env.items[0].value, before, "a digest stays");
    (void)record("[env]\nA = \"2\"\n", "prog");
    ok(!str_eq(start.run.env.items[0].value, before), "a digest depends on the value");
    ok(start.run.version && start.run.version[0], "the record has the version");
    has_str(record("[train]\nepochs = 77\n", NULL), "train.epochs=77", "the trainer has settings");
}

static void test_types(void) {
    static const char *const types[NODES] = {"big", "small", "big", ""};
    struct inventory_node nodes[NODES] = {{0}};
    size_t order[NODES] = {1, 0, 2, 3};
    for (int i = 0; i < NODES; i++)
        nodes[i].instance_type = types[i];
    (void)command("", NULL, "prog");
    start.inventory = (struct inventory){.nodes = nodes, .count = NODES};
    start.indices = order;
    start.node_count = NODES;
    run_start_settings(&start);
    is_str(start.run.types, "small,big", "each type is there once, in the order of the nodes");
    nodes[0].instance_type = nodes[2].instance_type = nodes[1].instance_type = NULL;
    run_start_settings(&start);
    is_str(start.run.types, "", "nodes may have no type");
}

int main(void) {
    if (!mkdtemp(root) || chdir(root) < 0 ||
        file_write_atomic("run.sh", "#!/bin/sh\n", 10, 0755, &e) < 0 ||
        file_write_atomic("x.py", "", 0, 0755, &e) < 0)
        bail_out("no folder");
    test_words();
    test_refused();
    test_bench();
    test_command_check();
    test_container();
    test_environment();
    test_record();
    test_types();
    if (chdir("/") < 0 || file_remove_tree(root, &e) < 0)
        bail_out("the folder stays");
    arena_fini(&a);
    return done_testing();
}
