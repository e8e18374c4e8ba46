// SPDX-License-Identifier: Apache-2.0
// The plan of a run, which train shows before the start.
#include "train_plan.h"

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/render_row.h"
#include "run/inputs/input_record.h"
#include "run/run_forecast.h"
#include "ui/screen.h"

#include <string.h>

static const char *command_text(struct arena *a, const struct run *r) {
    struct strbuf text = {0};
    for (size_t i = 0; i < r->command_count; i++)
        strbuf_addf(&text, "%s%s", i ? " " : "", str_shell_quote(a, r->command[i]));
    char *copy = arena_strdup(a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

// ---- the deal of sharded inputs -----------------------------------------------------------------

static const char *count_text(struct arena *a, size_t n, const char *what) {
    return arena_printf(a, "%zu %s%s", n, what, str_plural(n));
}

// ", 6 to 7 files each" when the counts of the nodes differ.
static const char *spread_text(const struct run_start *l, const struct run_start_input *in) {
    size_t least = SIZE_MAX, most = 0;
    for (size_t n = 0; n < (size_t)l->run.nodes_max; n++) { // spare nodes have no share
        size_t count = in->samples ? in->share[n].samples : in->share[n].files;
        least = count < least ? count : least;
        most = count > most ? count : most;
    }
    return least == most
               ? ""
               : arena_printf(l->context->arena, ", %zu to %s each", least,
                              count_text(l->context->arena, most, in->samples ? "sample" : "file"));
}

static void show_deal(const struct run_start *l, const struct run_start_input *in) {
    struct context *s = l->context;
    char size[STR_HUMAN_BYTES_MAX];
    for (size_t n = 0; n < l->node_count; n++) {
        const struct run_start_share *share = &in->share[n];
        struct strbuf line = {0};
        strbuf_addf(&line, "%s: %s, ", l->run.nodes[n], count_text(s->arena, share->files, "file"));
        if (in->samples)
            strbuf_addf(&line, "%s, ", count_text(s->arena, share->samples, "sample"));
        strbuf_adds(&line, str_human_bytes(size, share->bytes));
        for (size_t i = 0; i < share->files && i < RUN_START_NAMES_MAX; i++)
            strbuf_addf(&line, "%s%s", i ? ", " : ": ",
                        str_printable(s->arena, share->names[i], strlen(share->names[i])));
        if (share->files > RUN_START_NAMES_MAX)
            strbuf_addf(&line, ", and %zu more", share->files - RUN_START_NAMES_MAX);
        screen_note(s->screen, "           %s", strbuf_cstr(&line));
        strbuf_fini(&line);
    }
}

static void show_input(const struct run_start *l, const struct run_start_input *in) {
    static const char *const rules[] = {"size", "key", "count"};
    struct context *s = l->context;
    char size[STR_HUMAN_BYTES_MAX];
    const char *samples =
        in->samples ? arena_printf(s->arena, "%s, ", count_text(s->arena, in->samples, "sample"))
                    : "";
    screen_note(s->screen, "input    %s: %s, %s%s, %s%s%s%s", in->name,
                count_text(s->arena, in->manifest->files, "file"), samples,
                str_human_bytes(size, in->manifest->bytes),
                in->share ? "a share to every node by " : "all to every node",
                in->share ? rules[config_input_shard(in->config)] : "",
                in->share ? spread_text(l, in) : "",
                config_input_is_streamed(in->config)    ? ", streamed"
                : config_input_is_extracted(in->config) ? ", archives are unpacked on the nodes"
                                                        : "");
    if (in->run)
        screen_note(s->screen, "           from run %s", in->run);
    if (in->kept)
        screen_note(s->screen, "           kept as run %s had it; the source has changed",
                    in->kept);
    else if (in->changed_since)
        screen_note(s->screen, "           changed since run %s", in->changed_since);
    if (in->elastic)
        screen_note(s->screen,
                    "           dealt anew when nodes come or go; replicas of each file: %lld",
                    (long long)in->config->replicas);
    if (in->share && s->config->dry_run)
        show_deal(l, in);
}

void train_plan_inputs(struct context *s, const struct input_look *look) {
    char size[STR_HUMAN_BYTES_MAX];
    for (size_t i = 0; i < look->count; i++) {
        const struct run_start_input *in = &look->inputs[i];
        if (in->manifest)
            screen_note(s->screen, "input    %s: %s, %s, %s", in->name,
                        count_text(s->arena, in->manifest->files, "file"),
                        str_human_bytes(size, in->manifest->bytes),
                        config_input_is_sharded(in->config) ? "a share to every node"
                                                            : "all to every node");
    }
}

// ---- the plan -----------------------------------------------------------------------------------

// Prints the settings of the native trainer and their sources, without defaults.
static void show_settings(const struct run_start *l) {
    const struct option_set *set = &l->context->config->set;
    struct arena *a = l->context->arena;
    for (struct render_each x = {0}; render_next(&x, set);) {
        if (!str_starts(x.row->key ? x.row->key : "", "train.") || !x.value ||
            x.place->source == OPTION_DEFAULT)
            continue;
        struct strbuf value = {0};
        option_format(&value, x.row, x.value);
        screen_note(l->context->screen, "setting  %s = %s (%s)", x.row->key, strbuf_cstr(&value),
                    option_place_text(a, x.place));
        strbuf_fini(&value);
    }
}

void train_plan_show(const struct run_start *l) {
    struct context *s = l->context;
    const struct run *r = &l->run;
    char size[STR_HUMAN_BYTES_MAX];
    screen_note(s->screen, "run      %s", r->id);
    bool trains = l->native && !l->measures;
    screen_note(s->screen, "command  %s", trains ? "native trainer" : command_text(s->arena, r));
    if (trains && s->config->dry_run)
        show_settings(l);
    int spares = (int)r->node_count - r->nodes_max;
    struct strbuf nodes = {0};
    strbuf_addf(&nodes, "%d", r->nodes_max);
    if (r->nodes_min != r->nodes_max)
        strbuf_addf(&nodes, " (at least %d)", r->nodes_min);
    if (spares > 0)
        strbuf_addf(&nodes, ", %d spare%s", spares, str_plural(spares));
    screen_note(s->screen, "nodes    %s, %s process%s each", strbuf_cstr(&nodes), r->nproc,
                strcmp(r->nproc, "1") == 0 ? "" : "es");
    strbuf_fini(&nodes);
    screen_note(s->screen, "sends    %zu file%s, %s%s", l->common->files,
                str_plural(l->common->files), str_human_bytes(size, l->common->bytes),
                l->work_is_implicit ? ", the current folder among them" : "");
    for (size_t i = 0; i < l->input_count; i++)
        show_input(l, &l->inputs[i]);
    if (r->wanted != RESULT_ALL)
        screen_note(s->screen, "fetches  %s of the results, the rest stays on the nodes",
                    r->wanted ? result_kinds_words(s->arena, r->wanted) : "nothing");
    if (r->s3[0])
        screen_note(s->screen, "uploads  %s", r->s3);
    if (l->resume_run && l->native)
        screen_note(s->screen,
                    "resumes  %s at epoch %lld, step %lld (--resume never starts at the beginning)",
                    l->resume_run, (long long)l->resume_at.epoch, (long long)l->resume_at.step);
    else if (l->resume_run)
        screen_note(s->screen,
                    "resumes  %s with the state of %zu node%s (--resume never starts "
                    "at the beginning)",
                    l->resume_run, l->resume_nodes, str_plural(l->resume_nodes));
}

void train_plan_event(const struct run_start *l, const char *kind) {
    const struct run *r = &l->run;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, kind);
    json_str(&j, "run", r->id);
    json_str(&j, "name", r->name);
    json_str(&j, "cluster", r->cluster);
    json_bool(&j, "native", l->native);
    json_array(&j, "command");
    for (size_t i = 0; i < r->command_count; i++)
        json_str(&j, NULL, r->command[i]);
    json_end(&j);
    json_array(&j, "nodes");
    for (size_t i = 0; i < r->node_count; i++)
        json_str(&j, NULL, r->nodes[i]);
    json_end(&j);
    json_int(&j, "files", (int64_t)l->common->files);
    json_int(&j, "bytes", (int64_t)l->common->bytes);
    input_record_json(l, &j);
    json_str(&j, "bundle", l->spec.bundle_hash);
    json_str(&j, "resumes", l->resume_run);
    if (l->resume_run && l->native) {
        json_int(&j, "resumes_epoch", l->resume_at.epoch);
        json_int(&j, "resumes_step", l->resume_at.step);
    }
    json_str(&j, "output_dir", r->output_dir);
    if (r->s3[0])
        json_str(&j, "s3", r->s3);
    screen_event_end(l->context->screen, &text, &j);
}

// ---- the needs of the trainer's run -------------------------------------------------------------

// The sizes of images and classes are in data that only the nodes read.
static bool sizes_are_elsewhere(const struct run_start *l) {
    const struct train_config *t = &l->context->config->train;
    const char *name = t->data[0] ? t->data : "data";
    for (size_t i = 0; i < l->input_count; i++)
        if (l->inputs[i].remote && str_eq(l->inputs[i].name, name))
            return t->image_size == 0 || t->classes == 0;
    return false;
}

int train_plan_forecast(const struct run_start *l, struct err *e) {
    struct context *s = l->context;
    if (sizes_are_elsewhere(l)) {
        log_info("the needs of the run are not known: its data is not on this computer",
                 "try=\"train.image_size and train.classes\"");
        return 0;
    }
    struct json *tree;
    const char *answer;
    bool json = s->screen->style == SCREEN_JSON;
    if (run_forecast(l, json, &answer, e) < 0 ||
        (json && json_parse(s->arena, answer, strlen(answer), &tree, e) < 0)) {
        if (e->code == ERR_CONFIG)
            return -1;
        log_warn("the needs of the run are not known", "reason=\"%s\"", e->text);
        return 0;
    }
    if (!json) {
        screen_out(s->screen, "%s", answer);
        return 0;
    }
    struct strbuf text = {0};
    struct json_out j;
    tree->key = "forecast";
    screen_event(&text, &j, "forecast");
    json_str(&j, "run", l->run.id);
    json_value(&j, tree);
    screen_event_end(s->screen, &text, &j);
    return 0;
}
