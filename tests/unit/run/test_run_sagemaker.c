// SPDX-License-Identifier: Apache-2.0
// Hyperparameters, metrics and the entry point in SageMaker's form: types of values, their order,
// and which word of the command is the script.
#include "run/run_sagemaker.h"
#include "tests/tap.h"

#include <string.h>

static struct arena arena;
static struct config config;
static struct context context;
static struct inventory_node node = {.name = "n0"};
static size_t indices[] = {0};
static struct run_start l;

static void begin(const char *const *command, size_t count) {
    context = (struct context){.arena = &arena, .config = &config};
    l = (struct run_start){.context = &context,
                           .inventory = {.nodes = &node, .count = 1},
                           .indices = indices,
                           .node_count = 1};
    l.run.command = (const char **)(uintptr_t)command;
    l.run.command_count = count;
    config.compat_sagemaker = true;
    run_sagemaker_fill(&l);
}

static const char *value_of(const char *name) {
    for (int i = 0; i < (int)l.spec.sagemaker_count; i++)
        if (strcmp(l.spec.sagemaker[i].name, name) == 0)
            return l.spec.sagemaker[i].value;
    return NULL;
}

static void test_values(void) {
    static struct option_pair pairs[] = {{"lr", "0.10"},   {"e", "3"},      {"on", "true"},
                                         {"off", "false"}, {"name", "x y"}, {"list", "[1,2]"},
                                         {"text", "\"3\""}};
    static struct option_pair metrics[] = {{"loss", "loss=([0-9.]+)"}, {"acc", "acc"}};
    static const char *const command[] = {"python3", "train.py"};
    config.hyperparameters = (struct option_map){pairs, 7};
    config.metrics = (struct option_map){metrics, 2};
    begin(command, 2);
    is_str(value_of("hyperparameters"),
           "{\"lr\":\"0.10\",\"e\":\"3\",\"on\":\"true\",\"off\":\"false\",\"name\":\"x y\","
           "\"list\":\"[1,2]\",\"text\":\"\\\"3\\\"\"}",
           "in the file all hyperparameters are texts");
    is_str(value_of("hps"),
           "{\"lr\":0.1,\"e\":3,\"on\":true,\"off\":false,\"name\":\"x y\",\"list\":[1,2],"
           "\"text\":\"\\\"3\\\"\"}",
           "for a program hyperparameters have their types");
    is_str(run_sagemaker_values(&arena, &config.hyperparameters), value_of("hps"),
           "the typed hyperparameters can be had alone");
    is_str(value_of("user_args"),
           "[\"-e\",\"3\",\"--list\",\"[1,2]\",\"--lr\",\"0.1\",\"--name\",\"x y\",\"--off\","
           "\"False\",\"--on\",\"True\",\"--text\",\"\\\"3\\\"\"]",
           "arguments are in order of their names, as Python prints them");
    is_str(
        value_of("metrics"),
        "[{\"Name\":\"loss\",\"Regex\":\"loss=([0-9.]+)\"},{\"Name\":\"acc\",\"Regex\":\"acc\"}]",
        "metrics have their names and expressions");
    is_str(value_of("instance_type"), "local", "a node without a type is local");
    is_str(value_of("region"), "", "a local node has no region");
    node.instance_type = "g6.xlarge";
    begin(command, 2);
    is_str(value_of("instance_type"), "g6.xlarge",
           "the type of an instance is that of the first node");
    node.instance_type = "";
    config.hyperparameters = config.metrics = (struct option_map){0};
    begin(command, 2);
    ok(strcmp(value_of("hyperparameters"), "{}") == 0 && strcmp(value_of("user_args"), "[]") == 0 &&
           strcmp(value_of("metrics"), "[]") == 0,
       "a run may have no hyperparameters and no metrics");
}

static void test_entry_point(void) {
    static const struct {
        const char *words[4];
        const char *script;
    } rows[] = {
        {{"python3", "-u", "src/train.py"}, "src/train.py"},
        {{"./run.sh", "a.py"}, "run.sh"},
        {{"/bin/bash", "-c", "python3 x.py; y.sh"}, "bash"},
        {{"bash", "$SCRIPT.sh", "b.sh"}, "b.sh"},
        {{"/usr/bin/train"}, "train"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t count = 0;
        while (count < 4 && rows[i].words[count])
            count++;
        begin(rows[i].words, count);
        is_str(value_of("entry_point"), rows[i].script, "the script of command %zu is %s", i,
               rows[i].script);
    }
    static struct option_pair own[] = {{"A", "b"}, {"SAGEMAKER_PROGRAM", "mine.py"}};
    config.env = (struct option_map){own, 2};
    begin(rows[0].words, 3);
    is_str(value_of("entry_point"), "mine.py", "the user's own script goes before the command's");
    config.env = (struct option_map){0};
}

int main(void) {
    static const char *const command[] = {"true"};
    test_values();
    test_entry_point();
    begin(command, 1);
    l.spec.sagemaker_count = 0;
    l.spec.sagemaker = NULL;
    config.compat_sagemaker = false;
    run_sagemaker_fill(&l);
    ok(!l.spec.sagemaker && l.spec.sagemaker_count == 0, "other runs have none of this");
    arena_fini(&arena);
    return done_testing();
}
