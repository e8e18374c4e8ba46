// SPDX-License-Identifier: Apache-2.0
// Command lines that cannot work are refused before a cluster exists: each with its reason, and its
// neighbour that can work.
#include "run/run_start.h"

#include "tests/unit/conf/config_fixture.h"

#include <sys/stat.h>

static char root[] = "/tmp/test_run_check.XXXXXX";
static struct context context = {.arena = &a, .config = &c};
static struct err e;

// NULL in `want`: the command line can work. Words and the file are those of `dtctl train`.
struct check {
    const char *words, *file, *want;
};

static void try_all(const struct check *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct check *x = &cases[i];
        const char *words = arena_printf(&a, "%s%s--|true", x->words, *x->words ? "|" : "");
        const char *problem = load("train", words, x->file, NULL);
        if (*problem)
            bail_out("'%s': %s", x->words, problem);
        context.cluster = (struct cluster){0};
        err_clear(&e);
        if (cluster_open(&context.cluster, &a, ".", "c", &e) < 0)
            bail_out("%s", e.text);
        int r = run_start_check(&context, &e);
        const char *about = *x->words ? x->words : arena_printf(&a, "file %zu of a table", i);
        is_int(r, x->want ? -1 : 0, "'%s' %s: %s", about, x->want ? "is refused" : "can work",
               e.text);
        if (x->want) {
            has_str(e.text, x->want, "'%s' is refused with its reason", about);
            is_int(e.code, ERR_CONFIG, "'%s' is an error of the configuration", about);
        }
    }
}
#define TRY(cases) try_all(cases, sizeof(cases) / sizeof *(cases))

#define INPUT(more) "[inputs.two]\nsource = \"set\"\n[inputs.data]\nsource = \"set\"\n" more

static void test_sources(void) {
    static const struct check cases[] = {
        {"--input=data=set", NULL, NULL},
        {"--input=data=one", NULL, NULL},
        {"--input=data=set|--input=more=none", NULL,
         "--input: input 'more': 'none': No such file or directory"},
        {"--input=data=set:sharted", NULL, "; ':sharted' is no mode (did you mean 'sharded'?)"},
        {"--input=data=none:x", NULL, "'none:x': No such file or directory"},
        {"--input=data=pipe", NULL, "'pipe' is neither a file nor a folder"},
        {"--input=data=set:sharded", NULL, NULL},
        {"--input=data=one:sharded", NULL, "'one' is one file; only a folder can be sharded"},
        {"--input=data=ftp://x/y", NULL, "'ftp://x/y' is not available: an input is a path"},
        {"--input=data=https://x/y", NULL, NULL},
        {"--input=data=s3://bucket/key", NULL, NULL},
        {"--input=data=run:task", NULL, "input 'data'"},
        {"", "[inputs.data]\nsource = \"none\"\n", "dtctl.toml:1:"},
    };
    TRY(cases);
}

static void test_keys(void) {
    static const struct check cases[] = {
        {"", INPUT("deliver = \"stream\"\n"), NULL},
        {"", INPUT("deliver = \"stream\"\nmode = \"sharded\"\nunit = \"sample\"\n"),
         "deliver = stream: unit = sample makes archives for every node"},
        {"", INPUT("mode = \"sharded\"\nunit = \"sample\"\n"), NULL},
        {"--detach", INPUT("deliver = \"stream\"\n"), "deliver = stream: dtctl serves the files"},
        {"--detach", INPUT(""), NULL},
        {"--detach", "[inputs.data]\nsource = \"https://x/y\"\ndeliver = \"stream\"\n", NULL},
        {"--set=compat.sagemaker=true", INPUT("deliver = \"stream\"\n"),
         "deliver = stream: with compat.sagemaker"},
        {"--set=compat.sagemaker=true", INPUT(""), NULL},
        {"", INPUT("deliver = \"extract\"\n"), NULL},
        {"", INPUT("deliver = \"extract\"\nmode = \"sharded\"\nunit = \"sample\"\n"),
         "deliver = extract: unit = sample deals the members"},
        {"", "[inputs.data]\nsource = \"s3://b/k\"\nmode = \"sharded\"\nunit = \"sample\"\n",
         "unit = sample needs the archives on this computer, and the nodes read 's3://b/k'"},
        {"", "[inputs.data]\nsource = \"s3://b/k\"\non_change = \"keep\"\n", NULL},
        {"--replace-nodes", "[inputs.data]\nsource = \"s3://b/k\"\non_change = \"keep\"\n",
         "on_change = keep: a node that replaces another one reads 's3://b/k' again"},
        {"--replace-nodes", "[inputs.data]\nsource = \"s3://b/k\"\n",
         "provider local makes no machines"},
    };
    TRY(cases);
}

static void test_shares(void) {
    static const struct check cases[] = {
        {"--nodes=2:4", INPUT("mode = \"sharded\"\n"), NULL},
        {"--nodes=2:4", INPUT("mode = \"sharded\"\nuneven = \"drop\"\n"),
         "input 'data' is sharded, and a run with MIN:MAX nodes"},
        {"--nodes=2:4", "[inputs.data]\nsource = \"set\"\nmode = \"sharded\"\nuneven = \"drop\"\n",
         "input 'data' is sharded"},
        {"--nodes=2", INPUT("mode = \"sharded\"\nuneven = \"drop\"\n"), NULL},
        {"--nodes=2:4", INPUT(""), NULL},
        {"--nodes=2|--spares=1", INPUT("mode = \"sharded\"\nuneven = \"drop\"\n"),
         "input 'data' is sharded, and a run with spare nodes"},
        {"--nodes=2|--spares=1", INPUT("mode = \"sharded\"\n"), NULL},
        {"--nodes=2:4", INPUT("mode = \"sharded\"\nunit = \"sample\"\n"),
         "which unit = sample does not allow (try: unit = file"},
    };
    TRY(cases);
}

static void test_others(void) {
    static const struct check cases[] = {
        {"--file=one", NULL, NULL},
        {"--file=one|--file=none", NULL, "--file 'none': No such file or directory"},
        {"--file=none|--file=one", NULL, "--file 'none': No such file or directory"},
        {"--task=a", "[tasks.a]\n[tasks.b]\n", NULL},
        {"--task=b", "[tasks.a]\n[tasks.b]\n", NULL},
        {"--task=bb", "[tasks.a]\n[tasks.bc]\n", "has no task 'bb' (did you mean 'bc'?)"},
        {"", "[tasks.a]\n", NULL},
        {"--set=outputs.fetch=model", "[metrics]\nloss = \"Loss (.*)\"\n",
         "metric 'loss' cannot be read (try: logs in outputs.fetch)"},
        {"--set=outputs.fetch=logs,model", "[metrics]\nloss = \"Loss (.*)\"\n", NULL},
        {"--set=outputs.fetch=model", NULL, NULL},
        {"--set=state.replicas=1", NULL, "states are copied every state.every, which is 0"},
        {"--set=state.replicas=1|--set=state.every=60s", NULL, NULL},
        {"--set=state.replicas=0", NULL, NULL},
        {"--set=train.resume=auto", NULL, NULL},
        {"--set=train.resume=never", NULL, NULL},
        {"--set=train.resume=set/file", NULL, NULL},
        {"--set=train.resume=set/none", NULL, "train.resume"},
        {"--set=train.resume=set", NULL, "train.resume"},
        {"--replace-nodes", NULL, "provider local makes no machines"},
    };
    TRY(cases);
}

int main(void) {
    if (!mkdtemp(root) || chdir(root) < 0 || mkdir("set", 0700) < 0 || mkfifo("pipe", 0600) < 0 ||
        file_write_atomic("one", "x", 1, 0600, &e) < 0 ||
        file_write_atomic("set/file", "x", 1, 0600, &e) < 0)
        bail_out("no folder");
    test_sources();
    test_keys();
    test_shares();
    test_others();
    if (chdir("/") < 0 || file_remove_tree(root, &e) < 0)
        bail_out("the folder stays");
    arena_fini(&a);
    return done_testing();
}
