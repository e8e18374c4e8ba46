// SPDX-License-Identifier: Apache-2.0
// lib/conf/config, train_config and the renderers: every row of dtctl's and dttrain's tables is
// walked, so that flags, file, environment, help, manual, completions and example cannot drift.
#include "base/bucket_name.h"
#include "conf/render.h"
#include "tests/unit/conf/config_fixture.h"

#include <ctype.h>

static const char *const verbs[] = {"init",       "plan",    "bench", "up",   "status", "train",
                                    "run",        "exec",    "ssh",   "push", "fetch",  "logs",
                                    "ps",         "stop",    "down",  "gc",   "doctor", "config",
                                    "completion", "version", NULL};
static const char *folder; // scratch, removed at the end

static const struct render_program *program(void) {
    static struct render_verb all[32];
    static const struct render_verb *list[32];
    static const struct render_program p = {.name = "dtctl",
                                            .summary = "train on a cluster",
                                            .version = "1.2",
                                            .synopsis = "[FLAGS] COMMAND",
                                            .text = "One.\n\n.Two-\\",
                                            .verbs = list};
    for (int i = 0; verbs[i]; list[i] = &all[i], i++)
        all[i] = (struct render_verb){.name = verbs[i], .summary = "do it's \"thing\""};
    return &p;
}

static const char *value_of(const struct option_set *s, const struct option_bound *b,
                            const struct option_row *r) {
    struct strbuf out = {0};
    (void)s;
    option_format(&out, r, (const char *)b->target + r->offset);
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

// The first of these that the row's own check lets pass.
static const char *sample_checked(const struct option_row *r) {
    char **texts;
    size_t count = str_split(
        &a,
        "1 us-east-1 us-east-1a g5.xlarge ami-12345678 spot 10.0.0.0/16 vpc-12345678 cr-12345678 "
        "subnet-12345678 s3://bucket/f http://h:1 timeout=1 /srv/d mlp(hidden=3) gpipe logs login "
        "arn:aws:iam::1:policy/p",
        ' ', &texts);
    for (size_t i = 0; i < count; i++) {
        struct err e = {0};
        if (r->check(texts[i], &e) == 0)
            return texts[i];
    }
    return "1";
}

// A text, other than the default, that the row takes.
static const char *sample(const struct option_row *r) {
    switch (r->type) {
    case OPTION_BOOL: return str_eq(r->text, "true") ? "false" : "true";
    case OPTION_CHOICE: return r->choices[str_eq(r->text, r->choices[0])];
    case OPTION_COUNT: return "auto";
    case OPTION_INT: return arena_printf(&a, "%.0f", r->min + 1);
    case OPTION_REAL: return arena_printf(&a, "%.17g", (r->min + r->max) / 4);
    case OPTION_DURATION: return r->min > 1500 ? "20s" : "1500ms";
    case OPTION_BYTES: return "8KiB";
    case OPTION_RANGE: return "1:3";
    case OPTION_INTS: return "7,8,9";
    case OPTION_REALS: return "0.25,0.5,0.75";
    case OPTION_MAP: return "A=x(1)y";
    case OPTION_RECORDS: return "in=/data:sharded";
    case OPTION_PATH:
    case OPTION_PATHS: return "/some/where";
    default: return r->check ? sample_checked(r) : "text";
    }
}

// A row that asks something of another one is alone here.
static const char *but_for_rules(const struct option_row *r, const char *problems) {
    return r->rules && strstr(problems, r->rules->other) ? "" : problems;
}

// The flag, the variable, the file and --set all bring the same value to the same place.
static void test_row(const struct option_row *given, const char *verb) {
    const char *text = sample(given), *values[4] = {0};
    const struct option_bound *b;
    const char *name = option_row_name(given);
    if (given->flag) {
        const char *word = arena_printf(&a, "--%s=%s", given->flag, text);
        is_str(load(verb, word, NULL, NULL), "", "%s %s", verb, word);
        for (size_t t = 0; t < c.set.table_count; t++)
            for (size_t i = 0; i < c.set.tables[t].table->count; i++)
                if (&c.set.tables[t].table->rows[i] == given) {
                    values[0] = value_of(&c.set, &c.set.tables[t], given);
                    is_int(c.set.tables[t].places[i].source, OPTION_FLAG, "a flag sets %s", name);
                }
    }
    const char *variable = option_row_env(&a, &c.set, given);
    if (variable && given->key) {
        const char *why = load(verb, "", NULL, arena_printf(&a, "%s=%s", variable, text));
        is_str(but_for_rules(given, why), "", "%s=%s", variable, text);
        option_find(&c.set, given->key, &b);
        values[1] = value_of(&c.set, b, given);
        is_int(option_place(&c.set, given->key)->source, OPTION_ENV, "a variable sets %s", name);
    }
    if (!given->key || given->type == OPTION_RECORDS)
        return;
    load("train", arena_printf(&a, "--set=%s=%s", given->key, text), NULL, NULL);
    option_find(&c.set, given->key, &b);
    values[2] = value_of(&c.set, b, given);
    is_int(option_place(&c.set, given->key)->source, OPTION_FLAG, "%s is set by --set", name);
    const char *why = load(verb, "", arena_printf(&a, "%s = %s\n", given->key, values[2]), NULL);
    is_str(but_for_rules(given, why), "", "%s is read from the file", name);
    values[3] = value_of(&c.set, b, given);
    is_int(option_place(&c.set, given->key)->source, OPTION_FILE, "%s is set by a file", name);
    for (int i = 0; i < 4; i++)
        if (values[i])
            is_str(values[i], values[3], "%s: all four sources give the same value (%d)", name, i);
}

static void test_rows(void) {
    const struct option_table *tables[] = {&options_config,   &options_metrics, &options_aws,
                                           &options_job,      &options_train,   &options_rate,
                                           &options_parallel, &options_torchrun};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct option_row *r = &tables[t]->rows[i];
            char **first;
            bool all = option_row_has_verb(r, NULL);
            if (!all)
                str_split(&a, r->verbs, ' ', &first);
            if (str_eq(r->flag, "help") || str_eq(r->flag, "config") || str_eq(r->flag, "set") ||
                str_eq(r->key, "hosts.host"))
                continue; // tested by themselves
            test_row(r, all ? "status" : first[0]);
        }
}

static void test_tables(void) {
    struct strbuf b = {0};
    config_open(&c, &a, "dtctl", NULL);
    if (!is_int(option_verify(&c.set, verbs, &b), 0, "dtctl's tables have no faults"))
        diag("%s", strbuf_cstr(&b));
    // Variables that the agent sets for workers must not be options.
    int clashes = 0;
    for (size_t t = 0; t < c.set.table_count; t++)
        for (size_t i = 0; i < c.set.tables[t].table->count; i++) {
            const char *env = option_row_env(&a, &c.set, &c.set.tables[t].table->rows[i]);
            for (const char *const *w = config_worker_variables; env && *w; w++)
                clashes += strcmp(env, *w) == 0 || str_starts(env, "DTCTL_INPUT_");
        }
    is_int(clashes, 0, "no option's variable is one of the workers'");
    strbuf_fini(&b);
}

// ---- texts made from the tables ----------------------------------------------------------------
static void test_texts(void) {
    struct strbuf help = {0}, man = {0}, file = {0}, show = {0}, json = {0}, shell[3] = {0};
    struct err e;
    struct render_verb train = {.name = "train", .summary = "train"};
    config_open(&c, &a, "dtctl", NULL);
    const struct render_program *p = program();
    render_help_verb(&help, &c.set, p, &train, 0);
    render_man(&man, &c.set, p);
    render_man_file(&file, &c.set, p, "dtctl.toml");
    render_show(&show, &c.set, false);
    render_show_json(&json, &c.set, false);
    for (int i = 0; render_shells[i]; i++)
        is_int(render_completion(&shell[i], &c.set, p, render_shells[i], &e), 0, "%s",
               render_shells[i]);
    is_int(render_completion(&shell[0], &c.set, p, "csh", &e), -1, "csh is refused");
    int missing = 0;
    for (size_t t = 0; t < c.set.table_count; t++)
        for (size_t i = 0; i < c.set.tables[t].table->count; i++) {
            const struct option_row *r = &c.set.tables[t].table->rows[i];
            const char *flag = r->flag ? arena_printf(&a, "--%s", r->flag) : "";
            struct strbuf escaped = {0}; // as roff writes hyphens
            for (const char *q = flag; *q; q++)
                strbuf_adds(&escaped, *q == '-' ? "\\-" : (char[]){*q, 0});
            bool fine =
                !r->flag ||
                (strstr(strbuf_cstr(&man), strbuf_cstr(&escaped)) &&
                 strstr(strbuf_cstr(&shell[0]), flag) && strstr(strbuf_cstr(&shell[1]), flag) &&
                 strstr(strbuf_cstr(&shell[2]), arena_printf(&a, " -l %s", r->flag)));
            if (r->flag && option_row_has_verb(r, "train"))
                fine = fine && strstr(strbuf_cstr(&help), flag);
            if (r->key)
                fine = fine && (r->marks & OPTION_HIDDEN || strstr(strbuf_cstr(&file), r->key)) &&
                       strstr(strbuf_cstr(&show), arena_printf(&a, "%s = ", r->key)) &&
                       strstr(strbuf_cstr(&json), arena_printf(&a, "\"key\":\"%s\"", r->key));
            if (!fine)
                diag("%s is missing somewhere", option_row_name(r));
            missing += !fine;
            strbuf_fini(&escaped);
        }
    is_int(missing, 0, "every row is in help, manual, completions and lists");
    has_str(strbuf_cstr(&man), "\n\\&.Two\\-\\e\n", "roff's own characters are escaped");
    has_str(strbuf_cstr(&man), ".SH EXIT STATUS", "the manual has the exit status");
    strbuf_fini(&help), strbuf_fini(&man), strbuf_fini(&file), strbuf_fini(&show);
    strbuf_fini(&json);
    for (int i = 0; i < 3; i++)
        strbuf_fini(&shell[i]);
}

static void test_help(void) {
    struct strbuf b = {0};
    struct render_verb up = {.name = "up",
                             .summary = "make the cluster",
                             .args = "[NODE]",
                             .text = "Some words.\n\nMore words.",
                             .examples = "  dtctl up --nodes 4"};
    config_open(&c, &a, "dtctl", NULL);
    render_help_verb(&b, &c.set, program(), &up, 60);
    has_str(strbuf_cstr(&b), "Usage: dtctl up [FLAGS] [NODE]\n\nSome words.\n\nMore words.\n",
            "the help begins with usage and text");
    has_str(strbuf_cstr(&b),
            "      --nodes N             Number of nodes to make;\n"
            "                            provider hosts uses all listed\n"
            "                            machines. Default: 2.\n",
            "the help wraps the line of a flag");
    has_str(strbuf_cstr(&b), "  -c, --cluster CLUSTER     Name", "general flags are shown");
    ok(!strstr(strbuf_cstr(&b), "--detach"), "the help has no flag of another command");
    has_str(strbuf_cstr(&b), "Examples:\n  dtctl up --nodes 4\n", "the help has examples");
    size_t widest = 0;
    for (const char *p = strbuf_cstr(&b); *p; p += strcspn(p, "\n") + 1)
        widest = strcspn(p, "\n") > widest ? strcspn(p, "\n") : widest;
    ok(widest <= 60, "no line is wider than asked for (%zu)", widest);
    strbuf_clear(&b);
    render_help(&b, &c.set, program(), 0);
    has_str(strbuf_cstr(&b), "  completion                do it's", "commands are listed");
    strbuf_fini(&b);
}

// ---- the example file ------------------------------------------------------------------------
static void is_default(const char *what) {
    struct config d;
    int differ = 0;
    config_open(&d, &a, "dtctl", NULL);
    for (size_t t = 0; t < c.set.table_count; t++)
        for (size_t i = 0; i < c.set.tables[t].table->count; i++) {
            const struct option_row *r = &c.set.tables[t].table->rows[i];
            const char *got = value_of(&c.set, &c.set.tables[t], r);
            const char *want = value_of(&d.set, &d.set.tables[t], r);
            if (r->key && strcmp(got, want) != 0)
                differ++, diag("%s is %s, not %s", r->key, got, want);
        }
    is_int(differ, 0, "%s", what);
}

static void test_init(void) {
    struct strbuf b = {0}, active = {0};
    config_open(&c, &a, "dtctl", NULL);
    render_init(&b, &c.set, NULL, NULL);
    is_str(load("status", "", strbuf_cstr(&b), NULL), "", "the example file loads");
    is_default("the defaults hold");
    for (const char *p = strbuf_cstr(&b); *p; p += strcspn(p, "\n") + 1) {
        size_t name = *p == '#' ? strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_0123456789") : 0;
        bool key = name && str_starts(p + 1 + name, " = ");
        strbuf_add(&active, p + key, strcspn(p, "\n") + 1 - key);
    }
    is_str(load("status", "", strbuf_cstr(&active), NULL), "", "all example keys load");
    is_default("the defaults hold again");
    int from_file = 0, keys = 0;
    for (size_t t = 0; t < c.set.table_count; t++)
        for (size_t i = 0; i < c.set.tables[t].table->count; i++) {
            const struct option_row *r = &c.set.tables[t].table->rows[i];
            bool plain = r->key && r->type != OPTION_MAP && r->type != OPTION_RECORDS;
            keys += plain;
            from_file += plain && c.set.tables[t].places[i].source == OPTION_FILE;
        }
    is_int(from_file, keys, "every key is in it");
    is_str(load("train", "--nodes=1:2|--env=A=b c|--input=i=/d:sharded|--metric=l=x(.)|--|echo|a b",
                "[[hosts.host]]\naddress = 'h'\n", NULL),
           "", "example values load");
    strbuf_clear(&b);
    render_init(&b, &c.set, NULL, NULL);
    has_str(strbuf_cstr(&b), "\nnodes = \"1:2\"\n", "given values are active");
    has_str(strbuf_cstr(&b), "\n#epochs = 10\n", "the others are not");
    is_str(load("status", "", strbuf_cstr(&b), NULL), "", "the example file with values loads");
    ok(c.job.nodes.max == 2 && c.job.command.count == 2 && c.inputs.count == 1 &&
           config_input(&c, 0)->mode == CONFIG_SHARDED && c.hosts.host.count == 1 &&
           strcmp(c.env.items[0].value, "b c") == 0,
       "example values are read back");
    strbuf_fini(&b);
    strbuf_fini(&active);
}

// ---- dtctl -----------------------------------------------------------------------------------
static void test_verb(void) {
    static const char *const argv[] = {"-c", "lab", "--json", "up", "--nodes", "3", NULL};
    static const char *const no_verb[] = {"--help", NULL};
    static const char *const wrong[] = {"--jsn", "up", NULL};
    const char *verb;
    int used;
    struct err e;
    config_open(&c, &a, "dtctl", NULL);
    is_int(config_verb(&c, 6, argv, &verb, &used, &e), 0, "flags may stand in front of the verb");
    is_str(verb, "up", "the verb is found");
    struct config_verb v = {.verb = verb};
    is_int(config_load(&c, &v, 6 - used, argv + used, &rest, &e), 0, "flags around the verb load");
    ok(c.json && c.cluster.nodes == 3 && strcmp(c.cluster.name, "lab") == 0, "both flags count");
    config_open(&c, &a, "dtctl", NULL);
    is_int(config_verb(&c, 1, no_verb, &verb, &used, &e), 0, "a command line may lack a verb");
    ok(!verb && cli_has(&c.set, "help", NULL), "--help needs no verb");
    config_open(&c, &a, "dtctl", NULL);
    is_int(config_verb(&c, 2, wrong, &verb, &used, &e), -1, "a wrong flag is refused");
    is_str(e.text, "--jsn: unknown flag (did you mean '--json'?)", "suggests the nearest");
    is_int(err_status(e.code), 2, "a usage error exits with 2");
}

static void refused(const char *verb, const char *flag, const char *want) {
    struct err e;
    config_open(&c, &a, "dtctl", NULL);
    is_int(config_load(&c, &(struct config_verb){.verb = verb}, 1, &flag, &rest, &e), -1,
           "%s has no flag %s", verb, flag);
    is_str(e.text,
           arena_printf(&a, "%.*s: unknown flag (did you mean '--%s'?)", (int)strcspn(flag, "="),
                        flag, want),
           "the error has ours");
}

static void test_flags_of_others(void) {
    refused("up", "--num_nodes=4", "nodes");
    refused("up", "--use-spot", "fallback");
    refused("train", "--gpus=8", "nproc-per-node");
    refused("train", "--timeout=8h", "max-time");
    refused("train", "--output-dir=x", "output");
    refused("train", "--max-rest=3", "max-restarts");
}

// All keys with a bucket have one rule, that of base/bucket_name.h.
static void test_buckets(void) {
    static const char *const keys[] = {"aws.s3", "aws.state", "outputs.s3"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *good = arena_printf(&a, "--set=%s=s3://b.1/x", keys[i]);
        const char *bad = arena_printf(&a, "--set=%s=s3://b1-/x", keys[i]);
        is_str(load("train", good, "", NULL), "", "%s takes a bucket", keys[i]);
        has_str(load("train", bad, "", NULL), "a bucket has " BUCKET_NAME_RULE,
                "%s refuses a name that no bucket has", keys[i]);
    }
}

static void test_load(void) {
    is_str(load("up", "", NULL, NULL), "", "the configuration may lack a file");
    ok(c.cluster.provider == CONFIG_LOCAL && c.cluster.nodes == 2 && !c.file_found,
       "the default is provider local with two nodes");
    is_str(load("up", "-f|none.toml", NULL, NULL),
           "configuration: cannot read 'none.toml': No such file or directory",
           "a file that was named must exist");
    is_str(load("up", "", NULL, "DTCTL_CONFIG=none.toml"),
           "configuration: cannot read 'none.toml': No such file or directory", "no file is found");
    is_str(load("up", "--nodes=x", "[cluster]\nnodes = 0\n", "DTCTL_SSH_PORT=-1"),
           "dtctl.toml:2:9: cluster.nodes: 0 is below the minimum 1\n"
           "DTCTL_SSH_PORT: -1 is below the minimum 0\n"
           "--nodes: 'x' is not a whole number",
           "problems of all sources are reported at once");
    is_str(load("up", "--nodes=x|--help", "[cluster]\nnodes = 0\n", NULL), "",
           "--help is before all that");
    ok(c.help, "--help is recognised before the file is read");
    is_str(load("up", "--host=u@gpu[01-04].lab:2222", "[hosts]\nlist = ['a']\n", NULL), "",
           "hosts are read from a flag");
    ok(c.hosts.list.count == 1 && strcmp(c.hosts.list.items[0], "u@gpu[01-04].lab:2222") == 0,
       "a flag replaces the list");
    is_str(config_where(&c, "hosts.list"), "--host: hosts.list", "a later error names the flag");
    is_str(load("train", "--input=a=/x|--input=b=y:z:sharded|--input=c=/w:replicated", NULL, NULL),
           "", "inputs are read from flags");
    is_str(config_input(&c, 1)->source, "y:z", "a source may have a colon");
    is_int(config_input(&c, 1)->mode, CONFIG_SHARDED, "the mode of an input is read");
    is_str(load("train", "--nproc-per-node=gpu", NULL, NULL), "", "'gpu' is accepted");
    is_int(c.job.nproc_per_node, CONFIG_NPROC_GPU, "'gpu' is a negative number");
    is_str(load("train", "--tee=0:3,1:1|--redirects=2", NULL, NULL), "", "streams");
    is_str(load("train", "--tee=0:4", NULL, NULL),
           "--tee: '0:4' is neither 0, 1, 2 or 3 nor LOCAL_RANK:N,LOCAL_RANK:N…", "4 is refused");
    is_str(load("train", "--metric=l=loss", NULL, NULL),
           "--metric: expression 'loss': it has no group (try: put the number between "
           "parentheses)",
           "a metric without a group is refused");
    is_str(load("train", "--metric=l=x=([0-9+)", NULL, NULL),
           "--metric: expression 'x=([0-9+)': missing terminating ] for character class, at "
           "character 9 of 9",
           "a bad expression is refused");
    is_str(load("train", NULL, "[metrics]\nx = \"a\"\n", NULL),
           "dtctl.toml:2:5: metrics.x: expression 'a': it has no group (try: put the number "
           "between parentheses)",
           "an expression in the file is checked");
    is_str(load("train", "--metric=train:loss=train_loss=(.*?);", NULL, NULL), "",
           "a name and an expression as in SageMaker are read");
    is_str(load("train", "--env=A-B=1", NULL, NULL),
           "--env: 'A-B' is not a valid name of a variable: use letters, digits and '_', and no "
           "digit first",
           "a name that is no variable's is refused");
    is_str(load("train", "--input=../x=/d", NULL, NULL),
           "--input: '../x' is not a valid name of an input: use letters, digits, '_' and '-', at "
           "most 64, and a letter first",
           "an input's name becomes a path");
    is_str(load("up", "-c|../x", NULL, NULL),
           "-c: '../x' is not a valid name: use letters, digits, '.', '_' and '-', at most 64, and "
           "a letter or digit first",
           "a cluster's name becomes a path, too");
    is_str(load("up", "--host=-oProxyCommand=x", NULL, NULL),
           "--host: '-oProxyCommand=x' is not [USER@]ADDRESS[:PORT]", "a host is no flag");
    ok(strstr(load("up", "--host=n[1-99999]", NULL, NULL), "'n[1-99999]'"), "the list is too long");
}

// ---- unknown variables ----
static const char *unknown(const char *first, const char *second) {
    char *environ_[] = {arena_strdup(&a, first), second ? arena_strdup(&a, second) : NULL, NULL};
    config_open(&c, &a, "dtctl", environ_);
    return config_unknown_env(&c);
}

static void test_unknown_env(void) {
    is_str(unknown("DTCTL_NODES=secret", NULL),
           "DTCTL_NODES (did you mean DTCTL_CLUSTER_NODES or DTCTL_TRAIN_NODES?)",
           "a variable without its table gets suggestions, and its value is not shown");
    is_str(unknown("DTCTL_CLUSTER_NODE=3", NULL),
           "DTCTL_CLUSTER_NODE (did you mean DTCTL_CLUSTER_NODES?)", "a name may lack a letter");
    is_str(unknown("DTCTL_QQQQQQQQQQ=1", "DTCTL_\033[2J=1"), "DTCTL_QQQQQQQQQQ, DTCTL_\\x1b[2J",
           "names of unknown variables are printable");
    is_str(unknown("DTCTL_CLUSTER_NODES=3", "DTCTL_CONFIG=x"), "", "known variables are no error");
    is_str(unknown("DTCTL_NODES=", "DTCTLX=1"), "", "empty and other variables are ignored");
    is_str(unknown("DTCTL_RUN=r", "DTCTL_INPUT_DATA=/d"), "", "variables of a worker are known");
    is_str(unknown("DTCTL_OUTPUT_DIR=/d", NULL),
           "DTCTL_OUTPUT_DIR (did you mean DTCTL_OUTPUTS_DIR?)", "outside of a run they are not");
    is_str(unknown("DTCTL_TEST_PYTHON=/p", "DTCTL_SRC=/s"), "", "build variables are no error");
    char *many[1002] = {NULL};
    for (int i = 0; i < 1001; i++)
        many[i] = arena_printf(&a, "DTCTL_QQQQQQQQQQ_%d=1", i);
    config_open(&c, &a, "dtctl", many);
    const char *text = config_unknown_env(&c);
    ok(strlen(text) < OPTION_ENV_BYTES_MAX + 32 && str_ends(text, " more"),
       "a thousand unknown variables give one short line");
}

int main(void) {
    char path[] = "/tmp/dtctl-config-XXXXXX";
    struct err e;
    folder = mkdtemp(path);
    if (!folder || chdir(folder) < 0)
        bail_out("no scratch folder");
    test_tables();
    test_rows();
    test_texts();
    test_help();
    test_init();
    test_verb();
    test_flags_of_others();
    test_buckets();
    test_load();
    test_unknown_env();
    arena_fini(&a);
    if (chdir("/") < 0 || file_remove_tree(folder, &e) < 0)
        bail_out("%s", e.text);
    return done_testing();
}
