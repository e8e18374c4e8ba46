// SPDX-License-Identifier: Apache-2.0
// Loads the configuration of dtctl from all its sources.
#include "conf/config.h"

#include "base/env.h"
#include "base/str.h"
#include "sys/file.h"

#include <string.h>
#include <sys/stat.h>

enum { NAME_BYTES_MAX = 64 };

// A task has the keys of [task], [train] and [setup] by themselves, and these tables.
static const char *const TASK_TABLES[] = {"inputs", "outputs",         "state", "env",    "metrics",
                                          "setup",  "hyperparameters", "train", "compat", "monitor",
                                          NULL};
static const char *const TASK_KEYS[] = {"task", "train", NULL};
static const char *const TASK_REFUSED[] = {"name", NULL}; // the section's name is the task's

void config_open(struct config *c, struct arena *a, const char *program, char *const *env) {
    *c = (struct config){0};
    option_set_init(&c->set, a, program, "DTCTL_", env);
    c->set.style = OPTION_STYLE_UNDERSCORES; // as torchrun's users type its flags
    c->sections = (struct option_sections){.table = "tasks",
                                           .whole = TASK_TABLES,
                                           .own = TASK_KEYS,
                                           .refused = TASK_REFUSED,
                                           .variable = "DTCTL_TASK_"};
    c->set.sections = &c->sections;
    option_set_add(&c->set, &options_config, c);
    option_set_add(&c->set, &options_metrics, c);
    option_set_add(&c->set, &options_aws, c);
    option_set_add(&c->set, &options_job, c);
    option_set_add(&c->set, &options_train, &c->train);
    option_set_add(&c->set, &options_rate, &c->train);
    option_set_add(&c->set, &options_parallel, &c->train);
    option_set_add(&c->set, &options_torchrun, c);
}

int config_verb(struct config *c, int argc, const char *const *argv, const char **verb, int *used,
                struct err *e) {
    struct cli_rest rest;
    cli_scan(&c->set, NULL, CLI_UNTIL_VERB, argc, argv, &rest);
    *verb = rest.used < argc && !rest.dashes ? argv[rest.used] : NULL;
    *used = rest.used + (*verb != NULL);
    return option_set_finish(&c->set, e);
}

static const char *env_value(const struct config *c, const char *name) {
    const char *value = env_get(c->set.env, name);
    return value && value[0] ? value : NULL;
}

const char *const config_worker_variables[] = {
    "DTCTL_RUN",         "DTCTL_NODE",        "DTCTL_NODES",
    "DTCTL_ROUND",       "DTCTL_TASK",        "DTCTL_TASK_*",
    "DTCTL_SHARD_INDEX", "DTCTL_SHARD_COUNT", "DTCTL_OUTPUT_DIR",
    "DTCTL_MODEL_DIR",   "DTCTL_STATE_DIR",   "DTCTL_CACHE_DIR",
    "DTCTL_SETUP_DIR",   "DTCTL_INPUT_*",     NULL};

const char *config_unknown_env(const struct config *c) {
    // The build and the tests have these.
    static const char *const build[] = {"DTCTL_ARCHIVES",    "DTCTL_BIN",    "DTCTL_BUILD",
                                        "DTCTL_CACHE",       "DTCTL_PYTHON", "DTCTL_SRC",
                                        "DTCTL_NO_UPSTREAM", "DTCTL_TEST_*", NULL};
    enum { BUILD = sizeof build / sizeof build[0] - 1 };
    const char *others[BUILD + sizeof config_worker_variables / sizeof config_worker_variables[0]];
    memcpy(others, build, sizeof build);
    if (env_value(c, "DTCTL_RUN")) // called by a worker
        memcpy(others + BUILD, config_worker_variables, sizeof config_worker_variables);
    return option_unknown_env(&c->set, others);
}

// A missing file is an error only if the user named it.
static int read_file(struct config *c, const char *argument, struct err *e) {
    const char *name = env_value(c, "DTCTL_CONFIG");
    bool flag = cli_has(&c->set, "config", &name), named = flag || name || argument;
    if (flag && argument)
        return err_set(e, ERR_USAGE, "the file is named twice: '%s' and --config", argument);
    name = argument ? argument : name;
    char *text;
    size_t len;
    c->file = name ? name : c->file;
    if (file_read_piped(c->set.arena, c->file, CONFIG_FILE_BYTES_MAX, &text, &len, e) < 0) {
        struct stat st;
        if (e->code == ERR_NOT_FOUND && !named && lstat(c->file, &st) < 0) {
            err_clear(e);
            return 0;
        }
        e->code = ERR_CONFIG;
        return argument ? err_set(e, ERR_CONFIG, "%s (for a command: dtctl train -- %s)",
                                  arena_strdup(c->set.arena, e->text), argument)
                        : err_wrap(e, "configuration");
    }
    c->file_found = true;
    option_set_file(&c->set, c->file, text, len);
    return 0;
}

const char *config_kept_path(const struct config *c) {
    struct arena *a = c->set.arena;
    const char *base = c->file_found ? file_dir(a, c->file) : ".";
    return arena_printf(a, "%s/.dtctl/%s/up.toml", base, c->cluster.name);
}

static int read_kept(struct config *c, struct err *e) {
    const char *path = config_kept_path(c);
    char *text;
    size_t len;
    if (!str_is_name(c->cluster.name, NAME_BYTES_MAX) || file_is_absent(path))
        return 0;
    if (file_read(c->set.arena, path, CONFIG_FILE_BYTES_MAX, &text, &len, e) < 0)
        return err_wrap(e, "configuration");
    option_set_kept(&c->set, path, text, len);
    return 0;
}

// SageMaker's names of instance types are those of EC2 behind "ml.".
static void take_sagemaker_type(struct aws_config *aws) {
    static const char prefix[] = "ml.";
    if (!aws->instance_type || !str_starts(aws->instance_type, prefix))
        return;
    aws->sagemaker_type = aws->instance_type;
    aws->instance_type += strlen(prefix);
}

int config_load(struct config *c, const struct config_verb *v, int argc, const char *const *argv,
                struct cli_rest *rest, struct err *e) {
    if (v->rows)
        option_set_add(&c->set, v->rows, v->target);
    cli_scan(&c->set, v->verb, 0, argc, argv, rest);
    if (cli_has(&c->set, "help", NULL)) {
        c->help = true;
        return 0;
    }
    cli_has(&c->set, "task", &c->sections.chosen);
    // `init` writes the missing file, with the values given.
    int missing = read_file(c, v->takes_file && rest->count ? rest->args[0] : NULL, e);
    option_set_env(&c->set, c->set.env);
    cli_apply(&c->set);
    if (missing < 0 || read_kept(c, e) < 0)
        return -1;
    train_recipe_apply(&c->set);
    config_check_names(c);
    if (option_set_finish(&c->set, e) < 0)
        return -1;
    take_sagemaker_type(&c->aws);
    return 0;
}

const struct config_host *config_host(const struct config *c, size_t i) {
    must(i < c->hosts.host.count);
    return (const struct config_host *)c->hosts.host.items + i;
}

const struct config_input *config_input(const struct config *c, size_t i) {
    must(i < c->inputs.count);
    return (const struct config_input *)c->inputs.items + i;
}

const char *config_where(const struct config *c, const char *key) {
    const struct option_place *place = option_place(&c->set, key);
    const char *text = option_place_text(c->set.arena, place);
    if (place->source == OPTION_DEFAULT)
        return key;
    return str_ends(text, key) ? text : arena_printf(c->set.arena, "%s: %s", text, key);
}

// Key prefixes that have an effect only with certain providers: bits of their numbers.
static const struct {
    const char *key;
    unsigned providers;
} PROVIDER_KEYS[] = {
    {"aws.", 1u << CONFIG_AWS},
    {"lease.", 1u << CONFIG_AWS},
    {"hosts.", 1u << CONFIG_HOSTS},
    {"cluster.nodes", 1u << CONFIG_LOCAL | 1u << CONFIG_AWS},
    {"ssh.", 1u << CONFIG_HOSTS | 1u << CONFIG_AWS},
};

// "local and aws"
static const char *provider_names(struct arena *a, const char *const *names, unsigned providers) {
    const char *text = "";
    for (size_t i = 0; names[i]; i++)
        if (providers & 1u << i)
            text = *text ? arena_printf(a, "%s and %s", text, names[i]) : names[i];
    return text;
}

const char *config_without_effect(const struct config *c) {
    struct arena *a = c->set.arena;
    const char *const *names = option_find(&c->set, "cluster.provider", NULL)->choices;
    const char *provider = names[c->cluster.provider], *text = "";
    bool chosen = option_place(&c->set, "cluster.provider")->source > OPTION_FILE;
    size_t more = 0;
    for (size_t t = 0; t < c->set.table_count; t++)
        for (size_t i = 0; i < c->set.tables[t].table->count; i++) {
            const struct option_row *r = &c->set.tables[t].table->rows[i];
            enum option_source source = c->set.tables[t].places[i].source;
            size_t k = 0, count = sizeof PROVIDER_KEYS / sizeof PROVIDER_KEYS[0];
            while (k < count && !(r->key && str_starts(r->key, PROVIDER_KEYS[k].key)))
                k++;
            if (k == count || source == OPTION_DEFAULT || source == OPTION_KEPT ||
                (chosen && source == OPTION_FILE) ||
                PROVIDER_KEYS[k].providers & 1u << c->cluster.provider)
                continue;
            if (*text)
                more++;
            else
                text = arena_printf(a, "%s has no effect: it is for provider %s, and this is %s",
                                    config_where(c, r->key),
                                    provider_names(a, names, PROVIDER_KEYS[k].providers), provider);
        }
    return more ? arena_printf(a, "%s (and %zu more such key%s)", text, more, str_plural(more))
                : text;
}
