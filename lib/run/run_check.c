// SPDX-License-Identifier: Apache-2.0
// Checks of a run before a cluster exists. A command line that cannot work creates and starts
// nothing.
#include "run/run_start.h"

#include "provider/provider.h"
#include "run/inputs/input_elastic.h"
#include "run/inputs/input_from_run.h"
#include "run/inputs/input_remote.h"
#include "sys/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

// Text " (is ':sharted' meant as …?)" for an unknown mode.
static const char *guess_mode(struct arena *a, const char *source) {
    static const char *const modes[] = {"replicated", "sharded", NULL};
    const char *colon = strrchr(source, ':');
    const char *near = colon ? cli_nearest(a, colon + 1, modes) : "";
    return *near ? arena_printf(a, "; '%s' is no mode%s", colon, near) : "";
}

static int check_shares(const struct context *s, struct err *e) {
    const struct config *c = s->config;
    bool elastic = !c->job.once && c->job.nodes.min != c->job.nodes.max;
    bool spares = !c->job.once && c->job.nodes.max && c->job.spares;
    for (size_t i = 0; (elastic || spares) && i < c->inputs.count; i++)
        if (config_input_is_sharded(config_input(c, i)) &&
            input_elastic_check(c, config_input(c, i), e) < 0)
            return -1;
    return 0;
}

// Nodes read these themselves, so nothing of them is here.
static int check_remote(const struct config *c, const struct config_input *in, struct err *e) {
    if (in->unit == CONFIG_UNIT_SAMPLE)
        return err_set(e, ERR_CONFIG,
                       "unit = sample needs the archives on this computer, and the nodes read '%s' "
                       "(try: unit = file)",
                       in->source);
    if (c->job.replace_nodes && in->on_change == CONFIG_CHANGE_KEEP)
        return err_set(e, ERR_CONFIG,
                       "on_change = keep: a node that replaces another one reads '%s' again, which "
                       "may have the kept content no longer (try: on_change = refuse, or without "
                       "--replace-nodes)",
                       in->source);
    return 0;
}

static int check_stream(const struct config *c, const struct config_input *in, struct err *e) {
    if (!config_input_is_streamed(in))
        return 0;
    if (in->unit == CONFIG_UNIT_SAMPLE)
        return err_set(e, ERR_CONFIG,
                       "deliver = %s: unit = sample makes archives for every node, which are sent "
                       "before the first rank starts (try: unit = file)",
                       in->deliver);
    if (c->job.detach && !input_remote_is(in->source))
        return err_set(e, ERR_CONFIG,
                       "deliver = %s: dtctl serves the files of this computer while it follows the "
                       "run (try: without --detach, or deliver = copy)",
                       in->deliver);
    if (c->compat_sagemaker)
        return err_set(e, ERR_CONFIG,
                       "deliver = %s: with compat.sagemaker programs open files in the folder of a "
                       "channel (try: deliver = copy)",
                       in->deliver);
    return 0;
}

static int check_extract(const struct config_input *in, struct err *e) {
    return !config_input_is_extracted(in) || in->unit != CONFIG_UNIT_SAMPLE
               ? 0
               : err_set(e, ERR_CONFIG,
                         "deliver = extract: unit = sample deals the members of archives, and "
                         "makes archives of them (try: unit = file)");
}

static int check_inputs(const struct context *s, struct err *e) {
    const struct config *c = s->config;
    for (size_t i = 0; i < c->inputs.count; i++) {
        const struct config_input *in = config_input(c, i);
        bool in_file =
            in->place.source != OPTION_DEFAULT; // flags and variables set all inputs at once
        const char *place =
            option_place_text(s->arena, in_file ? &in->place : option_place(&c->set, "inputs"));
        struct stat st;
        if (config_input_check(in, e) < 0 || check_stream(c, in, e) < 0 || check_extract(in, e) < 0)
            return err_wrap(e, "%s: input '%s'", place, in->name);
        if (input_from_run_is(in->source)) {
            if (input_from_run_check(s, in->source, e) < 0)
                return err_wrap(e, "%s: input '%s'", place, in->name);
            continue;
        }
        if (input_remote_is(in->source)) {
            if (check_remote(c, in, e) < 0)
                return err_wrap(e, "%s: input '%s'", place, in->name);
            continue;
        }
        if (option_is_address(in->source))
            return err_set(e, ERR_CONFIG,
                           "%s: input '%s': '%s' is not available: an input is a path on this "
                           "computer, s3://BUCKET/KEY, https://… or run:TASK/PART",
                           place, in->name, in->source);
        if (stat(in->source, &st) < 0)
            return err_set(e, ERR_CONFIG, "%s: input '%s': '%s': %s%s", place, in->name, in->source,
                           strerror(errno), guess_mode(s->arena, in->source));
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
            return err_set(e, ERR_CONFIG, "%s: input '%s': '%s' is neither a file nor a folder",
                           place, in->name, in->source);
        if (config_input_is_sharded(in) && !S_ISDIR(st.st_mode))
            return err_set(e, ERR_CONFIG,
                           "%s: input '%s': '%s' is one file; only a folder can be sharded", place,
                           in->name, in->source);
    }
    return 0;
}

static int check_files(const struct context *s, struct err *e) {
    const struct option_list *files = &s->config->job.files;
    struct stat st;
    for (size_t i = 0; i < files->count; i++)
        if (stat(files->items[i], &st) < 0)
            return err_errno(e, ERR_CONFIG, "--file '%s'", files->items[i]);
    return 0;
}

static int check_resume(const struct context *s, struct err *e) {
    const char *wish = s->config->train.resume, *id = NULL;
    struct stat st;
    if (!wish[0] || strcmp(wish, "auto") == 0 || strcmp(wish, "never") == 0 ||
        (strchr(wish, '/') && stat(wish, &st) == 0))
        return 0;
    if (cluster_find_run(&s->cluster, wish, &id, e) == 0)
        return 0;
    e->code = ERR_CONFIG;
    return err_wrap(e, "%s", config_where(s->config, "train.resume"));
}

static int check_task(const struct config *c, struct err *e) {
    const struct option_sections *x = &c->sections;
    for (size_t i = 0; i < x->count; i++)
        if (strcmp(x->names[i], c->job.task) == 0)
            return 0;
    if (!c->job.task[0])
        return 0;
    return err_set(e, ERR_CONFIG, "--task: '%s' has no task '%s'%s", c->file, c->job.task,
                   x->count ? cli_nearest(c->set.arena, c->job.task, x->names) : "");
}

// Metrics are read from what the ranks print.
static int check_fetch(const struct config *c, struct err *e) {
    if (c->metrics.count && !(result_kinds_of(&c->output_fetch) & RESULT_LOGS))
        return err_set(e, ERR_CONFIG,
                       "%s: without logs what the ranks print stays on the nodes, and metric '%s' "
                       "cannot be read (try: logs in outputs.fetch)",
                       config_where(c, "outputs.fetch"), c->metrics.items[0].name);
    return 0;
}

static int check_copies(const struct config *c, struct err *e) {
    if (c->state_every_ms || !c->state_replicas || !option_given(&c->set, "state.replicas"))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "%s: states are copied every state.every, which is 0 (try: --set "
                   "state.every=60s)",
                   config_where(c, "state.replicas"));
}

int run_start_check(struct context *s, struct err *e) {
    const struct config *c = s->config;
    if (check_task(c, e) < 0 || check_fetch(c, e) < 0 || check_copies(c, e) < 0 ||
        check_inputs(s, e) < 0 || check_shares(s, e) < 0 || check_files(s, e) < 0 ||
        run_start_bundle_check(c, e) < 0 || check_resume(s, e) < 0)
        return -1;
    if (c->job.replace_nodes && !provider_of(c)->take_down && !cluster_exists(&s->cluster))
        return err_set(e, ERR_CONFIG, "%s: provider %s makes no machines",
                       config_where(c, "train.replace_nodes"), provider_of(c)->name);
    return 0;
}
