// SPDX-License-Identifier: Apache-2.0
// dtctl init, config, completion, version: commands about dtctl itself.
#include "command.h"

#include "base/log.h"
#include "build_info.h"
#include "fleet/bundle.h"
#include "provider/provider.h"
#include "sys/file.h"

#include <string.h>

extern char **environ;

enum { LISTED_MAX = 1000 }; // names that a shell gets

// ---- init --------------------------------------------------------------------------------------

struct init_flags {
    bool all;
};

static const struct option_row INIT_ROWS[] = {
    {.flag = "all",
     .letter = 'a',
     .verbs = "init",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct init_flags, all),
     .marks = OPTION_NO_ENV,
     .help = "Every key, those that are not given as comments with their defaults."},
};
static const struct option_table INIT_TABLE = {"Init", INIT_ROWS, 1};

// By provider: keys that a new file always has.
static const char *const INIT_KEYS[][6] = {
    [CONFIG_LOCAL] = {"cluster.provider", "cluster.nodes"},
    [CONFIG_HOSTS] = {"cluster.provider", "hosts.list"},
    [CONFIG_AWS] = {"cluster.provider", "cluster.nodes", "aws.region", "aws.instance_type",
                    "aws.operator_cidrs"},
};

static int run_init(struct context *s, const struct cli_rest *rest, const void *flags,
                    struct err *e) {
    (void)rest;
    const struct init_flags *f = flags;
    const struct config *c = s->config;
    const char *path = s->config->file;
    struct strbuf text = {0};
    const struct provider *p = provider_of(c);
    struct option_pair pair = {NULL, NULL};
    struct option_map found = {&pair, 0};
    found.count = p->discover && p->discover(s, &pair);
    // This provider needs hosts.
    bool lacks_hosts =
        c->cluster.provider == CONFIG_HOSTS && c->hosts.list.count + c->hosts.host.count == 0;
    render_init(&text, &c->set, &found, f->all ? NULL : INIT_KEYS[c->cluster.provider]);
    int result = 0;
    if (s->config->dry_run)
        screen_write(s->screen, text.data, text.len);
    else if (file_exists(path) && !s->config->yes)
        result = err_set(e, ERR_EXISTS, "'%s' is there already (-y replaces it)", path);
    else
        result = file_write_atomic(path, text.data, text.len, 0644, e);
    strbuf_clear(&text);
    if (result == 0 && !s->config->dry_run) {
        struct json_out j;
        screen_event(&text, &j, "wrote");
        json_str(&j, "file", path);
        screen_event_end(s->screen, &text, &j);
        screen_out(s->screen, "wrote %s; next: %s\n", path,
                   lacks_hosts ? "name your hosts in it, in [hosts]; then dtctl up" : "dtctl up");
    }
    strbuf_fini(&text);
    return result;
}

const struct command cmd_init = {
    .verb = {.name = "init",
             .summary = "write dtctl.toml",
             .text = "Writes the keys that flags and variables set, each with its meaning. Keys "
                     "that are not in the file have their defaults. Provider aws: the region of "
                     "AWS_DEFAULT_REGION or of the profile in ~/.aws/config is written, too.",
             .examples = "dtctl init --provider hosts --host 'ubuntu@gpu[01-02]'   # two hosts\n"
                         "dtctl init --all   # a file to choose from\n"},
    .rows = &INIT_TABLE,
    .flags_bytes = sizeof(struct init_flags),
    .marks = COMMAND_ANY_CONFIG,
    .run = run_init,
};

// ---- config ------------------------------------------------------------------------------------

struct config_flags {
    bool given;
};

static const struct option_row CONFIG_ROWS[] = {
    {.flag = "given",
     .verbs = "config",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct config_flags, given),
     .marks = OPTION_NO_ENV,
     .help = "Leave out keys that have their defaults."},
};
static const struct option_table CONFIG_TABLE = {"Config", CONFIG_ROWS, 1};
static const char *const CONFIG_WORDS[] = {"show", "check", NULL};

static int run_config(struct context *s, const struct cli_rest *rest, const void *flags,
                      struct err *e) {
    const struct config_flags *f = flags;
    const char *what = rest->count ? rest->args[0] : "show";
    struct strbuf text = {0};
    if (strcmp(what, "check") == 0) { // a mistake has ended dtctl before
        const char *idle = config_without_effect(s->config);
        if (*idle)
            log_warn(idle, "%s", "");
        screen_out(s->screen, "%s\n",
                   s->config->file_found ? "the configuration is fine"
                                         : "there is no configuration file; defaults hold");
        return 0;
    }
    if (strcmp(what, "show") != 0)
        return err_set(e, ERR_USAGE, "config takes show or check, not '%s'", what);
    if (s->config->json)
        render_show_json(&text, &s->config->set, f->given);
    else
        render_show(&text, &s->config->set, f->given);
    screen_write(s->screen, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
    return 0;
}

const struct command cmd_config = {
    .verb = {.name = "config",
             .summary = "show every setting and where it came from",
             .args = "[show|check]",
             .words = CONFIG_WORDS},
    .rows = &CONFIG_TABLE,
    .flags_bytes = sizeof(struct config_flags),
    .args_max = 1,
    .run = run_config,
};

// ---- completion, and manual pages for the build ------------------------------------------------

// The cluster that the words of a command line are about, as far as they can be read.
static int cluster_of(struct arena *a, const struct cli_rest *words, struct cluster *c,
                      struct err *e) {
    struct config config;
    struct cli_rest rest;
    struct err ignored = {0};
    const char *name = NULL;
    int used = 0;
    config_open(&config, a, "dtctl");
    config_verb(&config, (int)words->command_count, words->command, &name, &used, &ignored);
    const struct command *about = name ? command_find(name) : NULL;
    void *flags = about ? arena_alloc(a, about->flags_bytes + 1, 16, 1) : NULL;
    struct config_verb verb = {name, about ? about->rows : NULL, flags};
    config_load(&config, &verb, (int)words->command_count - used, words->command + used, environ,
                &rest, &ignored);
    return cluster_open(c, a, config.file_found ? file_dir(a, config.file) : ".",
                        config.cluster.name, e);
}

// Names on record that are fit for a shell, one per line. Nothing is asked over the network.
static int list_names(struct context *s, const char *what, const struct cli_rest *words,
                      struct err *e) {
    struct cluster c;
    struct inventory inv = {0};
    char **names = NULL;
    size_t count = 0;
    if (cluster_of(s->arena, words, &c, e) < 0)
        return -1;
    if (str_eq(what, "runs"))
        cluster_runs(&c, &names, &count, e);
    else if (str_eq(what, "clusters"))
        cluster_list(s->arena, c.base, &names, e);
    else if (cluster_exists(&c) && cluster_load(&c, &inv, e) == 0) {
        names = arena_new(s->arena, char *, inv.count + 1);
        for (size_t i = 0; i < inv.count; i++)
            names[i] = arena_strdup(s->arena, inv.nodes[i].name);
    }
    for (size_t i = 0; names && names[i] && i < LISTED_MAX; i++)
        if (str_is_name(names[i], INVENTORY_NAME_BYTES_MAX + CLUSTER_RUN_NAME_BYTES_MAX))
            screen_out(s->screen, "%s\n", names[i]);
    err_clear(e); // an unreadable record gives no names
    return 0;
}

static const char *const LISTS[] = {"runs", "nodes", "clusters", NULL};

static int run_completion(struct context *s, const struct cli_rest *rest, const void *flags,
                          struct err *e) {
    (void)flags;
    const char *what = rest->args[0];
    struct option_set set;
    struct strbuf text = {0};
    struct config defaults;
    int result = 0;
    for (size_t i = 0; LISTS[i]; i++)
        if (str_eq(what, LISTS[i]))
            return list_names(s, what, rest, e);
    // A set of its own, with the flags of every command and no values from here.
    config_open(&defaults, s->arena, "dtctl");
    set = defaults.set;
    command_all_options(&set, s->arena);
    if (strcmp(what, "man") == 0)
        render_man(&text, &set, &command_program);
    else if (strcmp(what, "man5") == 0)
        render_man_file(&text, &set, &command_program, "dtctl.toml");
    else
        result = render_completion(&text, &set, &command_program, what, e);
    screen_write(s->screen, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
    return result;
}

const struct command cmd_completion = {
    .verb = {.name = "completion",
             .summary = "print completions for bash, zsh or fish",
             .args = "SHELL",
             .text = "Prints what the shell needs to complete commands, flags, choices, and the "
                     "names of runs, nodes and clusters that are on record here. `man` and `man5` "
                     "instead of a shell print the manual pages dtctl(1) and "
                     "dtctl.toml(5).",
             .examples = "source <(dtctl completion bash)\n",
             .words = render_shells},
    .marks = COMMAND_ANY_CONFIG | COMMAND_FOR_SHELL | COMMAND_REST,
    .args_min = 1,
    .args_max = 1,
    .run = run_completion,
};

// ---- version -----------------------------------------------------------------------------------

static int run_version(struct context *s, const struct cli_rest *rest, const void *flags,
                       struct err *e) {
    (void)rest;
    (void)flags;
    (void)e;
    struct screen *screen = s->screen;
    struct strbuf text = {0};
    struct json_out j;
    char packed[STR_HUMAN_BYTES_MAX], size[STR_HUMAN_BYTES_MAX];
    screen_event(&text, &j, "version");
    json_str(&j, "version", DTCTL_VERSION);
    json_str(&j, "build_date", DTCTL_BUILD_DATE);
    json_str(&j, "third_party", DTCTL_THIRD_PARTY);
    json_array(&j, "carries");
    for (size_t i = 0; embed_at(i); i++) {
        json_object(&j, NULL);
        json_str(&j, "name", embed_at(i)->name);
        json_str(&j, "sha256", embed_at(i)->sha256);
        json_int(&j, "bytes", (int64_t)embed_at(i)->size);
        json_end(&j);
    }
    json_end(&j);
    screen_event_end(screen, &text, &j);
    screen_out(screen, "dtctl %s%s%s\n", DTCTL_VERSION, DTCTL_BUILD_DATE[0] ? ", " : "",
               DTCTL_BUILD_DATE);
    if (!s->config->verbose)
        return 0;
    screen_out(screen, "\nlinked libraries and patches:\n%s", DTCTL_THIRD_PARTY);
    screen_out(screen, "\ncarries:\n");
    for (size_t i = 0; embed_at(i); i++)
        screen_out(screen, "  %-28s %10s (%s packed)  sha256 %s\n", embed_at(i)->name,
                   str_human_bytes(size, embed_at(i)->size),
                   str_human_bytes(packed, embed_at(i)->size_packed), embed_at(i)->sha256);
    return 0;
}

const struct command cmd_version = {
    .verb = {.name = "version", .summary = "print the version; with -v what is linked and carried"},
    .marks = COMMAND_ANY_CONFIG,
    .run = run_version,
};
