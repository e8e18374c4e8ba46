// SPDX-License-Identifier: Apache-2.0
// Tasks of SkyPilot: one document of YAML.
#include "convert/convert.h"
#include "convert/convert_script.h"
#include "convert/convert_yaml.h"

#include "base/env.h"

#include <string.h>

struct task {
    const char *cloud;
    bool foreign; // not AWS
    struct convert_from accelerators_from;
    const char *accelerators; // "A100:8"
    bool has_type;
    struct convert_script script;
    const char *run;
    int run_line;
};

static const char *text_of(const struct convert_walk *w, const struct json *v) {
    const char *text = convert_field_text(w->draft->arena, v);
    return text ? text : "";
}

// ---- machines -----------------------------------------------------------------------------------

// Machines of other clouds have no settings here.
static enum convert_next take_resources(struct convert_walk *w, const struct json *v) {
    struct task *t = w->state;
    const char *infra = json_get_str(v, "infra", "aws");
    t->cloud = json_get_str(v, "cloud", arena_strndup(w->draft->arena, infra, strcspn(infra, "/")));
    t->foreign = strcasecmp(t->cloud, "aws") != 0 && strcmp(t->cloud, "*") != 0;
    if (t->foreign)
        convert_draft_note(w->draft, w->from,
                           "%s has no provider: make the machines there, and name them in "
                           "hosts.list with cluster.provider = \"hosts\"",
                           t->cloud);
    return t->foreign ? CONVERT_DONE : CONVERT_INSIDE;
}

static enum convert_next take_cloud(struct convert_walk *w, const struct json *v) {
    (void)v;
    convert_field_set(w, "cluster.provider", "aws");
    return CONVERT_DONE;
}

// "aws/us-east-1/us-east-1a"; "*" is any.
static enum convert_next take_infra(struct convert_walk *w, const struct json *v) {
    static const char *const keys[] = {NULL, "aws.region", "aws.zones"};
    char **parts;
    size_t count = str_split(w->draft->arena, text_of(w, v), '/', &parts);
    convert_field_set(w, "cluster.provider", "aws");
    for (size_t i = 1; i < count && i < 3; i++) {
        if (strcmp(parts[i], "*") == 0 || !*parts[i])
            continue;
        if (i == 1)
            convert_field_set(w, keys[i], parts[i]);
        else
            convert_draft_add(w->draft, w->from, keys[i], parts[i]);
    }
    return CONVERT_DONE;
}

static enum convert_next take_zone(struct convert_walk *w, const struct json *v) {
    if (*text_of(w, v))
        convert_draft_add(w->draft, w->from, "aws.zones", text_of(w, v));
    return CONVERT_DONE;
}

// "A100:8", {A100: 8}, or several of them, of which the first is taken.
static enum convert_next take_accelerators(struct convert_walk *w, const struct json *v) {
    struct task *t = w->state;
    struct arena *a = w->draft->arena;
    t->accelerators_from = w->from;
    if (v->type == JSON_OBJECT && v->child)
        t->accelerators = arena_printf(a, "%s:%s", v->child->key, text_of(w, v->child));
    else if (v->type == JSON_ARRAY && v->child)
        t->accelerators = text_of(w, v->child);
    else
        t->accelerators = text_of(w, v);
    if (v->len > 1 && v->type != JSON_STR)
        convert_draft_note(w->draft, w->from, "only %s is taken: nodes have one type",
                           t->accelerators);
    return CONVERT_DONE;
}

static enum convert_next take_type(struct convert_walk *w, const struct json *v) {
    struct task *t = w->state;
    t->has_type = *text_of(w, v) && convert_field_set(w, "aws.instance_type", text_of(w, v));
    return CONVERT_DONE;
}

// Types of EC2 with so many GPUs of a kind; the smallest type of each.
static const struct {
    const char *accelerators, *type;
} TYPES[] = {
    {"T4:1", "g4dn.xlarge"},        {"T4:4", "g4dn.12xlarge"},
    {"T4:8", "g4dn.metal"},         {"A10G:1", "g5.xlarge"},
    {"A10G:4", "g5.12xlarge"},      {"A10G:8", "g5.48xlarge"},
    {"L4:1", "g6.xlarge"},          {"L4:4", "g6.12xlarge"},
    {"L4:8", "g6.48xlarge"},        {"L40S:1", "g6e.xlarge"},
    {"L40S:4", "g6e.12xlarge"},     {"L40S:8", "g6e.48xlarge"},
    {"V100:1", "p3.2xlarge"},       {"V100:4", "p3.8xlarge"},
    {"V100:8", "p3.16xlarge"},      {"V100-32GB:8", "p3dn.24xlarge"},
    {"A100:8", "p4d.24xlarge"},     {"A100-80GB:8", "p4de.24xlarge"},
    {"H100:1", "p5.4xlarge"},       {"H100:8", "p5.48xlarge"},
    {"H200:8", "p5en.48xlarge"},    {"B200:8", "p6-b200.48xlarge"},
    {"B300:8", "p6-b300.48xlarge"},
};

static void set_type(struct convert_draft *d, const struct task *t) {
    if (t->has_type || !t->accelerators || !*t->accelerators)
        return;
    const char *wanted = strchr(t->accelerators, ':')
                             ? t->accelerators
                             : arena_printf(d->arena, "%s:1", t->accelerators);
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++)
        if (strcasecmp(wanted, TYPES[i].accelerators) == 0) {
            convert_draft_set(d, t->accelerators_from, "aws.instance_type", TYPES[i].type);
            return;
        }
    convert_draft_note(d, t->accelerators_from,
                       "no type of EC2 is known with %s; set aws.instance_type", wanted);
}

static enum convert_next take_spot(struct convert_walk *w, const struct json *v) {
    convert_draft_add(w->draft, w->from, "aws.fallback",
                      v->type == JSON_BOOL && v->boolean ? "spot" : "on-demand");
    return CONVERT_DONE;
}

// "100", "100+", "100GB".
static enum convert_next take_disk(struct convert_walk *w, const struct json *v) {
    const char *text = text_of(w, v);
    size_t digits = strspn(text, "0123456789");
    if (digits &&
        (!text[digits] || strcmp(text + digits, "+") == 0 || strcasecmp(text + digits, "gb") == 0))
        convert_field_set(w, "aws.root_gb", arena_strndup(w->draft->arena, text, digits));
    else
        convert_draft_note(w->draft, w->from, "left out: set aws.root_gb");
    return CONVERT_DONE;
}

static enum convert_next take_image(struct convert_walk *w, const struct json *v) {
    const char *text = text_of(w, v);
    if (str_starts(text, "ami-"))
        convert_field_set(w, "aws.image", text);
    else
        convert_draft_note(w->draft, w->from,
                           "left out: dtctl runs no containers, and aws.image takes ami-…; install "
                           "what the program needs in setup.run");
    return CONVERT_DONE;
}

static void set_idle(struct convert_walk *w, const char *text) {
    size_t digits = strspn(text, "0123456789");
    if (!digits)
        convert_draft_note(w->draft, w->from, "left out: set lease.idle");
    else
        convert_field_set(w, "lease.idle",
                          text[digits] ? text : arena_printf(w->draft->arena, "%sm", text));
}

// 10, "10m", true, {idle_minutes: 10, down: true}
static enum convert_next take_autostop(struct convert_walk *w, const struct json *v) {
    const struct json *minutes = json_get(v, "idle_minutes");
    static const char *const known[] = {"idle_minutes", "down", NULL};
    convert_field_others(w, v, known);
    if (v->type == JSON_BOOL && !v->boolean) {
        convert_field_set(w, "lease.idle", "0s");
        return CONVERT_DONE;
    }
    set_idle(w, text_of(w, minutes ? minutes : v));
    if (!json_get_bool(v, "down", false))
        convert_draft_note(w->draft, w->from,
                           "an idle node ends; it does not stop, and its disk goes with it");
    return CONVERT_DONE;
}

static enum convert_next take_labels(struct convert_walk *w, const struct json *v) {
    const char *path = w->from.name;
    for (const struct json *c = v->child; c; c = c->next)
        convert_field_pair(w, "aws.tags", path, c);
    return CONVERT_DONE;
}

// ---- the task -----------------------------------------------------------------------------------

static enum convert_next take_nodes(struct convert_walk *w, const struct json *v) {
    struct task *t = w->state;
    t->script.nodes_min = t->script.nodes_max = (struct convert_number){w->from, text_of(w, v)};
    return CONVERT_DONE;
}

static enum convert_next take_run(struct convert_walk *w, const struct json *v) {
    struct task *t = w->state;
    t->run = text_of(w, v);
    t->run_line = v->line + (strchr(t->run, '\n') != NULL); // a block begins below its key
    return CONVERT_DONE;
}

static enum convert_next take_workdir(struct convert_walk *w, const struct json *v) {
    const char *text = v->type == JSON_STR ? v->str : json_get_str(v, "url", "");
    static const char *const known[] = {"url", NULL};
    convert_field_others(w, v, known);
    if (strcmp(text, ".") != 0 && *text)
        convert_draft_note(w->draft, w->from,
                           "run dtctl train in %s: the current folder is sent, and the command "
                           "runs in it",
                           text);
    else
        convert_draft_needless(w->draft, w->from);
    return CONVERT_DONE;
}

static enum convert_next take_envs(struct convert_walk *w, const struct json *v) {
    const char *path = w->from.name;
    for (const struct json *c = v->child; v->type == JSON_OBJECT && c; c = c->next) {
        struct convert_from from = {c->line, arena_printf(w->draft->arena, "%s.%s", path, c->key)};
        if (c->type == JSON_NULL)
            convert_draft_note(w->draft, from, "it has no value here; set it in [env] or by --env");
        else
            convert_field_pair(w, "env", path, c);
    }
    return CONVERT_DONE;
}

// True when an input has that variable: DTCTL_INPUT_A is that of "a" and "A".
static bool has_input(const struct convert_draft *d, const char *name) {
    const char *variable = env_variable(d->arena, "", name);
    for (size_t i = 0; i < d->entry_count; i++)
        if (str_starts(d->entries[i].table, "inputs.") &&
            strcmp(env_variable(d->arena, "", d->entries[i].table + strlen("inputs.")), variable) ==
                0)
            return true;
    return false;
}

// Letters, digits, '_' and '-' of the last part of a path, as the name of an input.
// A name that is taken gets a number.
static const char *input_name(const struct convert_draft *d, const char *path) {
    struct arena *a = d->arena;
    char *copy = arena_strdup(a, path);
    size_t len = strlen(copy);
    while (len && copy[len - 1] == '/')
        copy[--len] = '\0';
    char *slash = strrchr(copy, '/'), *name = slash ? slash + 1 : copy;
    for (char *p = name; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *p))
            *p = '_';
    const char *one = name;
    for (int i = 2; has_input(d, one); i++)
        one = arena_printf(a, "%s_%d", name, i);
    return one;
}

static enum convert_next take_mounts(struct convert_walk *w, const struct json *v) {
    struct convert_draft *d = w->draft;
    for (const struct json *c = v->child; v->type == JSON_OBJECT && c; c = c->next) {
        struct convert_from from = {c->line, arena_printf(d->arena, "file_mounts.%s", c->key)};
        static const char *const known[] = {"name", "source", "mode", "store", "persistent", NULL};
        w->from = from;
        convert_field_others(w, c, known);
        const char *source = c->type == JSON_OBJECT ? json_get_str(c, "source", "") : text_of(w, c);
        const char *name = input_name(d, c->key);
        bool bucket = strstr(source, "://") != NULL;
        if (!*source ||
            (bucket && !str_starts(source, "s3://") && !str_starts(source, "https://"))) {
            convert_draft_note(
                d, from,
                "left out: an input is a path of this computer, s3://… or https://…; "
                "what the program writes belongs in $DTCTL_OUTPUT_DIR");
            continue;
        }
        if (convert_draft_input(d, from, name, "source", source))
            convert_draft_note(d, from,
                               "the program finds it at $%s, and not at that path; what it writes "
                               "belongs in $DTCTL_OUTPUT_DIR",
                               env_variable(d->arena, "DTCTL_INPUT_", name));
        for (const struct json *m = c->type == JSON_OBJECT ? c->child : NULL; m; m = m->next)
            if (str_is_one_of(m->key, known) && strcmp(m->key, "source") != 0)
                convert_draft_needless(
                    d, (struct convert_from){m->line,
                                             arena_printf(d->arena, "%s.%s", from.name, m->key)});
    }
    return CONVERT_DONE;
}

static enum convert_next take_recovery(struct convert_walk *w, const struct json *v) {
    const struct json *count = json_get(v, "max_restarts_on_errors");
    static const char *const known[] = {"max_restarts_on_errors", "strategy", NULL};
    convert_field_others(w, v, known);
    if (count)
        convert_field_set(w, "train.max_restarts", text_of(w, count));
    convert_draft_note(w->draft, w->from,
                       "train.replace_nodes replaces lost instances while dtctl follows the run; "
                       "it needs train.max_restarts");
    return CONVERT_DONE;
}

// ---- the table ----------------------------------------------------------------------------------

#define ONE_TYPE "nodes have one type; set aws.instance_type"

const struct convert_field convert_sky_fields[] = {
    {.name = "name", .key = "train.name"},
    CONVERT_TYPED("workdir", "", take_workdir, "the folder that dtctl train runs in",
                  CONVERT_TEXT | CONVERT_MAP),
    CONVERT_TAKE("num_nodes", "train.nodes", take_nodes, "also cluster.nodes"),
    CONVERT_TYPED("resources", "aws", take_resources, "of AWS; other clouds have no provider",
                  CONVERT_MAP),
    CONVERT_TAKE("resources.cloud", "cluster.provider", take_cloud, "`aws`"),
    CONVERT_TAKE("resources.infra", "aws.region", take_infra, "also cluster.provider, aws.zones"),
    {.name = "resources.region", .key = "aws.region"},
    CONVERT_TAKE("resources.zone", "aws.zones", take_zone, NULL),
    CONVERT_TAKE("resources.instance_type", "aws.instance_type", take_type, NULL),
    CONVERT_TYPED("resources.accelerators", "aws.instance_type", take_accelerators,
                  "the smallest type with that number",
                  CONVERT_SINGLE | CONVERT_LIST | CONVERT_MAP),
    CONVERT_NONE("resources.accelerator_args", ONE_TYPE),
    CONVERT_NONE("resources.cpus", ONE_TYPE),
    CONVERT_NONE("resources.memory", ONE_TYPE),
    CONVERT_NONE("resources.any_of",
                 "dtctl tries zones and ways to buy, and no other types or clouds"),
    CONVERT_NONE("resources.ordered",
                 "dtctl tries zones and ways to buy, and no other types or clouds"),
    CONVERT_TYPED("resources.use_spot", "aws.fallback", take_spot, "`spot` or `on-demand`",
                  CONVERT_BOOL),
    CONVERT_TYPED("resources.job_recovery", "train.max_restarts", take_recovery, NULL,
                  CONVERT_TEXT | CONVERT_MAP),
    CONVERT_TYPED("resources.spot_recovery", "train.max_restarts", take_recovery, NULL,
                  CONVERT_TEXT | CONVERT_MAP),
    CONVERT_TAKE("resources.disk_size", "aws.root_gb", take_disk, NULL),
    CONVERT_NONE("resources.disk_tier", "set aws.root_iops and aws.root_throughput"),
    CONVERT_NONE("resources.local_disk", "local disks are not mounted; mount one in setup.run"),
    CONVERT_NONE("resources.network_tier",
                 "aws.efa takes all network cards of the type by default"),
    CONVERT_TAKE("resources.image_id", "aws.image", take_image, "`ami-…`"),
    CONVERT_TYPED("resources.autostop", "lease.idle", take_autostop, NULL,
                  CONVERT_SINGLE | CONVERT_MAP),
    CONVERT_TYPED("resources.labels", "aws.tags", take_labels, NULL, CONVERT_MAP),
    CONVERT_NONE("resources.ports",
                 "nodes open no ports to the outside; use ssh -L through dtctl ssh"),
    CONVERT_NONE("resources.job_group", "there is no queue"),
    CONVERT_NONE("resources.priority", "there is no queue"),
    {.name = "setup", .key = "setup.run"},
    CONVERT_TAKE("run", "train.command", take_run, "or train.shell, where bash is needed"),
    CONVERT_TYPED("envs", "env", take_envs, NULL, CONVERT_MAP),
    CONVERT_NONE("secrets",
                 "give them by --env when the run starts; they are not written to a file"),
    CONVERT_TYPED("file_mounts", "inputs.NAME", take_mounts,
                  "paths of this computer, s3://… and https://…", CONVERT_MAP),
    CONVERT_NONE("storage_mounts", "name data in [inputs.NAME]"),
    CONVERT_NONE("volumes", "dtctl mounts no volumes; name data in [inputs.NAME]"),
    CONVERT_NONE("inputs", "name data in [inputs.NAME]"),
    CONVERT_NONE("outputs", "results come back by themselves, or go to outputs.s3"),
    CONVERT_NONE("service", "dtctl serves no models"),
    CONVERT_NONE("pool", "a cluster has one user"),
    CONVERT_NONE("event_callback", "let a script read dtctl train --json"),
    CONVERT_NONE("config", "settings of SkyPilot itself"),
    CONVERT_NONE("experimental", "settings of SkyPilot itself"),
    {.name = NULL},
};

static const struct convert_variable VARIABLES[] = {
    {"SKYPILOT_NODE_RANK", "$GROUP_RANK", NULL, false},
    {"SKYPILOT_NUM_NODES", "$GROUP_WORLD_SIZE", "nodes", false},
    {"SKYPILOT_NUM_GPUS_PER_NODE", "$LOCAL_WORLD_SIZE", "gpu", false},
    {"SKYPILOT_TASK_ID", "$DTCTL_RUN", NULL, false},
    {"SKYPILOT_NODE_IPS", NULL, NULL, false},
    {NULL, NULL, NULL, false},
};

int convert_sky_read(struct convert_draft *d, const char *text, size_t len, struct err *e) {
    struct task t = {.script = {.draft = d, .what = "run", .variables = VARIABLES}};
    struct convert_walk w = {.draft = d, .fields = convert_sky_fields, .state = &t};
    struct json *root;
    if (convert_yaml_parse(d->arena, text, len, &root, e) < 0)
        return -1;
    if (!json_get(root, "run") && !json_get(root, "setup") && !json_get(root, "resources"))
        return err_set(e, ERR_CONFIG,
                       "line 1: this is no task of SkyPilot: it has none of run, setup, resources");
    convert_field_tree(&w, root);
    set_type(d, &t);
    if (convert_draft_has(d, "aws.instance_type") && !convert_draft_has(d, "cluster.provider"))
        convert_draft_set(d, (struct convert_from){0, "resources"}, "cluster.provider", "aws");
    const struct json *run = json_get(root, "run");
    if (!run || run->type == JSON_NULL) {
        convert_draft_note(d, (struct convert_from){0, "run"},
                           "it names no program; set train.command");
        t.script.empty = true;
    } else if (run->type != JSON_STR) {
        return err_set(e, ERR_CONFIG, "line %d: run is no text", run->line);
    } else if (t.run) {
        convert_script_read(&t.script, t.run, strlen(t.run), t.run_line);
    }
    return convert_script_finish(&t.script, e);
}
