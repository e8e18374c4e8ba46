// SPDX-License-Identifier: Apache-2.0
// Settings of runs, side by side.
#include "run/compare/compare_settings.h"

#include "base/array.h"
#include "base/name_map.h"
#include "cluster/nodeset.h"
#include "protocol/job_spec.h"
#include "run/task.h"
#include "sys/file.h"

#include <string.h>

static const char *printable(struct arena *a, const char *text) {
    return str_printable(a, text, strlen(text));
}

static void add(struct compare_settings *s, struct arena *a, const char *name, const char *value) {
    array_grow_in(a, s->items, &s->room, s->count + 1);
    s->items[s->count++] =
        (struct compare_setting){.name = printable(a, name), .value = printable(a, value)};
}

static void add_text(struct compare_settings *s, struct arena *a, const char *name,
                     const char *value) {
    if (value && value[0])
        add(s, a, name, value);
}

static void add_number(struct compare_settings *s, struct arena *a, const char *name, int64_t n) {
    add(s, a, name, arena_printf(a, "%lld", (long long)n));
}

static void add_digest(struct compare_settings *s, struct arena *a, const char *name,
                       const char *digest) {
    if (!digest || !digest[0])
        return;
    add(s, a, name, arena_strndup(a, digest, strnlen(digest, COMPARE_DIGITS)));
    s->items[s->count - 1].is_digest = true;
}

static void add_map(struct compare_settings *s, struct arena *a, const char *prefix,
                    const struct option_map *map) {
    for (size_t i = 0; i < map->count; i++)
        add(s, a, arena_printf(a, "%s%s", prefix, map->items[i].name), map->items[i].value);
}

// ---- the command --------------------------------------------------------------------------------

static bool is_flag(const char *word) {
    return str_starts(word, "--") && word[2];
}

// "--lr" of "--lr=0.1".
static const char *flag_name(struct arena *a, const char *word) {
    return arena_strndup(a, word, strcspn(word, "="));
}

static bool is_hyperparameter(struct arena *a, const struct run *r, const char *flag,
                              const char *value) {
    const char *name = arena_printf(a, "hyperparameters.%s", flag + 2);
    for (size_t i = 0; i < r->settings.count; i++)
        if (strcmp(r->settings.items[i].name, name) == 0)
            return strcmp(r->settings.items[i].value, value) == 0;
    return false;
}

// The words before the first flag are the command, and each flag is a setting with the words that
// follow it; a flag that is given again has its number. Hyperparameters that dtctl has added as
// flags have settings of their own.
static void add_command(struct compare_settings *s, struct arena *a, const struct run *r) {
    size_t at = 0;
    struct name_map seen = {0};
    struct strbuf text = {0};
    while (at < r->command_count && !is_flag(r->command[at])) {
        strbuf_addf(&text, "%s%s", at ? " " : "", str_shell_quote(a, r->command[at]));
        at++;
    }
    add_text(s, a, "command", strbuf_cstr(&text));
    while (at < r->command_count) {
        const char *word = r->command[at++], *name = flag_name(a, word);
        const char *equals = strchr(word, '=');
        strbuf_clear(&text);
        strbuf_adds(&text, equals ? equals + 1 : "");
        for (; at < r->command_count && !is_flag(r->command[at]); at++)
            strbuf_addf(&text, "%s%s", text.len ? " " : "", r->command[at]);
        const char *value = text.len ? arena_strdup(a, text.data) : "given";
        if (is_hyperparameter(a, r, name, value))
            continue;
        size_t *times = name_map_find(&seen, name);
        if (!times)
            name_map_put(&seen, name, times = arena_new(a, size_t, 1));
        add(s, a, ++*times == 1 ? name : arena_printf(a, "%s (%zu)", name, *times), value);
    }
    name_map_fini(&seen);
    strbuf_fini(&text);
}

// ---- inputs.json --------------------------------------------------------------------------------

// Without a login and a query, which can be a key to the object.
static const char *public_source(struct arena *a, const char *source) {
    const char *scheme = strstr(source, "://");
    if (!scheme)
        return source;
    const char *host = scheme + 3, *query = strpbrk(host, "?#"), *slash = strchr(host, '/');
    size_t len = query ? (size_t)(query - source) : strlen(source);
    const char *stop = slash && slash < source + len ? slash : source + len;
    const char *login = memrchr(host, '@', (size_t)(stop - host));
    const char *from = login ? login + 1 : host;
    return arena_printf(a, "%.*s%.*s%s", (int)(host - source), source, (int)(source + len - from),
                        from, query ? "?…" : "");
}

static void add_input(struct compare_settings *s, struct arena *a, const struct json *in) {
    static const char *const texts[] = {"mode", "run"}, *const numbers[] = {"files", "bytes",
                                                                            "samples", "replicas"};
    const char *name = json_get_str(in, "name", NULL), *source = json_get_str(in, "source", NULL);
    if (!name)
        return;
    const char *prefix = arena_printf(a, "inputs.%s", name);
    add_text(s, a, arena_printf(a, "%s.source", prefix), source ? public_source(a, source) : NULL);
    add_digest(s, a, arena_printf(a, "%s.digest", prefix), json_get_str(in, "digest", NULL));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_text(s, a, arena_printf(a, "%s.%s", prefix, texts[i]),
                 json_get_str(in, texts[i], NULL));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct json *v = json_get(in, numbers[i]);
        if (v && v->type == JSON_INT)
            add_number(s, a, arena_printf(a, "%s.%s", prefix, numbers[i]), v->integer);
    }
}

// ---- all of a run -------------------------------------------------------------------------------

static void add_hashes(struct compare_settings *s, struct arena *a, const struct run *r) {
    static const char *const parts[] = {"files", "setup", "after"};
    for (size_t i = 0; r->key && i < sizeof parts / sizeof *parts; i++)
        add_digest(s, a, parts[i], task_key_part(a, r->key, parts[i]));
}

static const char *range(struct arena *a, const struct run *r) {
    return r->nodes_min == r->nodes_max ? arena_printf(a, "%d", r->nodes_min)
                                        : arena_printf(a, "%d:%d", r->nodes_min, r->nodes_max);
}

static void add_outputs(struct compare_settings *s, struct arena *a, const struct run *r) {
    char every[STR_HUMAN_BYTES_MAX];
    add(s, a, "outputs.fetch", result_kinds_words(a, r->wanted));
    add(s, a, "outputs.merge", config_merge_words[r->merge]);
    add(s, a, "outputs.archive", config_archive_words[r->archive]);
    add(s, a, "outputs.work", r->bring_work ? "true" : "false");
    if (r->output_every_ms)
        add(s, a, "outputs.every", str_human_ms(every, r->output_every_ms));
}

static void add_new(struct compare_settings *s, struct arena *a, const struct run *r) {
    size_t from = s->count;
    add_text(s, a, "aws.instance_type", r->types);
    add_text(s, a, "dtctl", r->version);
    add_map(s, a, "", &r->settings);
    for (size_t i = 0; i < r->env.count; i++)
        add_digest(s, a, arena_printf(a, "env.%s (digest)", r->env.items[i].name),
                   r->env.items[i].value);
    for (size_t i = from; i < s->count; i++)
        s->items[i].is_new = true;
}

void compare_settings_of(struct arena *a, const struct run *r, const struct json *inputs,
                         struct compare_settings *out) {
    *out = (struct compare_settings){.is_old = !r->version || !r->version[0]};
    add_text(out, a, "task", r->name);
    add_command(out, a, r);
    add_new(out, a, r);
    add_hashes(out, a, r);
    const struct json *list = inputs ? json_get(inputs, "inputs") : NULL;
    size_t left = JOB_INPUTS_MAX;
    for (const struct json *in = list ? list->child : NULL; in && left; in = in->next, left--)
        add_input(out, a, in);
    add_text(out, a, "cluster.provider", r->provider);
    add_text(out, a, "nodes", nodeset_fold(a, r->nodes, r->node_count));
    add(out, a, "train.nodes", range(a, r));
    add_text(out, a, "train.nproc_per_node", r->nproc);
    add_number(out, a, "train.max_restarts", r->max_restarts);
    add_text(out, a, "resumes", r->resumes);
    add_map(out, a, "metrics.", &r->metrics);
    add_map(out, a, "aws.tags.", &r->tags);
    add_outputs(out, a, r);
}

// ---- side by side -------------------------------------------------------------------------------

// A run whose record is too old to have the setting does not differ in it.
static bool differs(const struct compare_row *row, const bool *unknown, size_t count) {
    const char *first = NULL;
    bool seen = false;
    for (size_t i = 0; i < count; i++) {
        if (unknown[i])
            continue;
        if (seen && !str_eq(first, row->values[i]))
            return true;
        first = row->values[i];
        seen = true;
    }
    return false;
}

void compare_settings_rows(struct arena *a, const struct compare_settings *runs, size_t count,
                           struct compare_row **rows, size_t *row_count) {
    struct name_map by_name = {0};
    struct compare_row *out = NULL;
    bool *unknown = arena_new(a, bool, count), *is_new = NULL;
    size_t n = 0, room = 0, new_room = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < runs[i].count; k++) {
            const struct compare_setting *x = &runs[i].items[k];
            size_t *place = name_map_find(&by_name, x->name);
            if (!place) {
                array_grow_in(a, out, &room, n + 1);
                array_grow_in(a, is_new, &new_room, n + 1);
                out[n] = (struct compare_row){x->name, arena_new(a, const char *, count), false};
                is_new[n] = x->is_new;
                place = arena_new(a, size_t, 1);
                *place = n++;
                name_map_put(&by_name, x->name, place);
            }
            must(out);
            out[*place].values[i] = x->value;
        }
    for (size_t r = 0; r < n; r++) {
        for (size_t i = 0; i < count; i++)
            unknown[i] = is_new[r] && runs[i].is_old;
        out[r].differs = differs(&out[r], unknown, count);
    }
    name_map_fini(&by_name);
    *rows = out;
    *row_count = n;
}
