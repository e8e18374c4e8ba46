// SPDX-License-Identifier: Apache-2.0
// Finds the results of an earlier run that are the input of another one.
#include "run/inputs/input_from_run.h"

#include "base/log.h"
#include "fleet/fleet_runs.h"
#include "fleet/fleet_transfer.h"
#include "run/results/results_archive.h"
#include "run/results/results_bring.h"
#include "run/results/results_owner.h"
#include "run/task.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "run:"

struct reference {
    const char *task, *run, *part, *sub; // run, sub: "" when not given
};

// ---- words --------------------------------------------------------------------------------------

bool input_from_run_is(const char *source) {
    return str_starts(source, PREFIX);
}

static int parse(struct arena *a, const char *source, struct reference *out, struct err *e) {
    static const char *const parts[] = {"output", "model", "state", "source", NULL};
    const char *text = source + strlen(PREFIX), *slash = strchr(text, '/');
    const char *at = slash ? memchr(text, '@', (size_t)(slash - text)) : NULL;
    if (!slash || slash == text || at == text || (at && at + 1 == slash))
        return err_set(e, ERR_CONFIG,
                       "'%.200s' is not run:TASK[@RUN]/PART[/SUB], where PART is output, model, "
                       "state or source",
                       source);
    const char *part = slash + 1, *end = strchrnul(part, '/');
    out->task = arena_strndup(a, text, (size_t)((at ? at : slash) - text));
    out->run = at ? arena_strndup(a, at + 1, (size_t)(slash - at - 1)) : "";
    out->part = arena_strndup(a, part, (size_t)(end - part));
    out->sub = *end ? end + 1 : "";
    size_t known = 0;
    while (parts[known] && strcmp(parts[known], out->part) != 0)
        known++;
    if (!parts[known])
        return err_set(e, ERR_CONFIG,
                       "'%.200s': '%.100s' is none of output, model, state, source%s", source,
                       out->part, cli_nearest(a, out->part, parts));
    if (*out->sub && !file_is_safe_relative(out->sub, strlen(out->sub)))
        return err_set(e, ERR_CONFIG, "'%.200s': '%.100s' is not a path below a folder", source,
                       out->sub);
    return 0;
}

const char *input_from_run_task(struct arena *a, const char *source, const char **run) {
    struct reference ref;
    struct err ignored = {0};
    if (!input_from_run_is(source) || parse(a, source, &ref, &ignored) < 0)
        return NULL;
    *run = ref.run;
    return ref.task;
}

// ---- the run ------------------------------------------------------------------------------------

static int find_named(const struct context *s, const struct reference *ref, struct run *out,
                      struct err *e) {
    const char *id = NULL;
    if (cluster_find_run(&s->cluster, ref->run, &id, e) < 0 ||
        run_load(&s->cluster, id, out, e) < 0)
        return -1;
    return strcmp(out->name, ref->task) == 0
               ? 0
               : err_set(e, ERR_CONFIG, "run '%s' is one of task '%s', not of '%s'", id, out->name,
                         ref->task);
}

// The newest run that has finished, or that may have by now. Runs that failed are passed over.
static int find_newest(const struct context *s, const struct reference *ref, struct run *out,
                       struct err *e) {
    struct run_walk walk;
    struct run r;
    const char *failed = NULL, *state = NULL;
    if (run_walk_open(&walk, &s->cluster, e) < 0)
        return -1;
    while (run_walk_next(&walk, &r)) {
        if (strcmp(r.name, ref->task) != 0)
            continue;
        if (strcmp(r.state, "finished") == 0 || !run_is_over(&r)) {
            *out = r;
            return 0;
        }
        if (!failed) {
            failed = r.id;
            state = r.state;
        }
    }
    return failed ? err_set(e, ERR_CONFIG,
                            "no run of task '%s' has finished; the newest one, '%s', "
                            "is '%s'",
                            ref->task, failed, state)
                  : err_set(e, ERR_CONFIG, "cluster '%s' has no run of task '%s' (try: dtctl ps)",
                            s->cluster.name, ref->task);
}

static int find(const struct context *s, const char *source, struct reference *ref, struct run *out,
                struct err *e) {
    if (parse(s->arena, source, ref, e) < 0)
        return -1;
    if (*ref->run ? find_named(s, ref, out, e) < 0 : find_newest(s, ref, out, e) < 0) {
        e->code = ERR_CONFIG;
        return err_wrap(e, "'%.200s'", source);
    }
    return 0;
}

int input_from_run_named(const struct context *s, const char *text, struct run *out,
                         struct err *e) {
    const char *at = strchr(text, '@'), *id = NULL;
    struct reference ref = {.task = at ? arena_strndup(s->arena, text, (size_t)(at - text)) : text,
                            .run = at ? at + 1 : ""};
    if (at && (at == text || !at[1]))
        return err_set(e, ERR_USAGE, "'%.200s' is neither RUN nor TASK@RUN", text);
    if (at)
        return find_named(s, &ref, out, e);
    return cluster_find_run(&s->cluster, text, &id, e) < 0 ? -1 : run_load(&s->cluster, id, out, e);
}

int input_from_run_check(const struct context *s, const char *source, struct err *e) {
    struct reference ref;
    struct run r;
    if (find(s, source, &ref, &r, e) < 0)
        return -1;
    return run_is_over(&r) && strcmp(r.state, "finished") != 0
               ? err_set(e, ERR_CONFIG, "'%.200s': run '%s' is '%s', not finished", source, r.id,
                         r.state)
               : 0;
}

// ---- bringing -----------------------------------------------------------------------------------

// Fetches the results. The record of the run is up to date afterwards.
static int bring_results(struct context *s, struct run *r, unsigned kind, struct err *e) {
    const struct results_wish wish = {.kinds = kind};
    if (s->config->dry_run)
        return err_set(e, ERR_NOT_FOUND,
                       "the results of run '%s' are not here, and a dry run does not fetch them "
                       "(try: dtctl fetch %s)",
                       r->id, r->id);
    return results_bring(s, r->id, &wish, r, e);
}

static int check_whole(const struct context *s, const struct run *r, unsigned kind, struct err *e) {
    if (!run_is_over(r))
        return err_set(e, ERR_BUSY, "run '%s' is still going (try: dtctl logs -f %s)", r->id,
                       r->id);
    if (strcmp(r->state, "finished") != 0)
        return err_set(e, ERR_CONFIG, "run '%s' is '%s', not finished", r->id, r->state);
    if (r->lost_count)
        return err_set(e, ERR_NO_STATUS, "the part of the results of run '%s' that %s had is lost",
                       r->id, r->lost[0]);
    if (!results_owner_is_here(s->arena, r) || (r->left & kind))
        return err_set(e, ERR_NO_STATUS,
                       "the results of run '%s' cannot be fetched (try: dtctl "
                       "fetch %s)",
                       r->id, r->id);
    return 0;
}

// ---- the folder of the command ------------------------------------------------------------------

struct from_run {
    const struct run *run;
    const char *dest;
    bool begun;
};

// From the first node that can be reached.
static struct xfer *start(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                          struct err *e) {
    struct from_run *from = ctx;
    if (from->begun || n->failed)
        return NULL;
    from->begun = true;
    struct context *s = n->fleet->context;
    const char *paths[] = {run_node_dir(s->arena, from->run->id, "work/"), NULL};
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = paths,
        .dest = from->dest,
        .hash_cache_path = file_join(s->arena, s->cluster.dir, "hashes"),
    };
    return xfer_fetch(n->link, &spec, events, n, e);
}

// A copy from an earlier time is used again, since the run is over.
static int bring_source(struct context *s, const struct run *r, const char *dest, struct err *e) {
    struct run_fleet runs;
    struct transfer_totals totals = {0};
    const char *part = arena_printf(s->arena, "%s.part", dest);
    struct from_run from = {.run = r, .dest = part};
    if (file_exists(dest))
        return 0;
    if (s->config->dry_run)
        return err_set(e, ERR_NOT_FOUND,
                       "the source of run '%s' is on its nodes, and a dry run "
                       "does not fetch it",
                       r->id);
    if (fleet_runs_open(&runs, s, r->id, e) < 0)
        return -1;
    runs.fleet.transfers = true;
    int result = fleet_connect(&runs.fleet, true, e);
    if (result == 0)
        result = fleet_transfer_each(&runs.fleet, "fetch", start, &from, &totals, e);
    if (result == 0)
        result = fleet_verdict(&runs.fleet, "fetch", e);
    fleet_close(&runs.fleet);
    if (result == 0 && rename(part, dest) < 0)
        return err_errno(e, ERR_SYS, "cannot rename '%s'", part);
    return result;
}

// ---- all of it ----------------------------------------------------------------------------------

static int find_part(struct context *s, const struct reference *ref, struct run *r,
                     struct input_from_run *out, struct err *e) {
    static const char *const no_output[] = {"/model", "/state", "/work", OWNER_MARK, NULL};
    static const char *const no_archive[] = {"/model",
                                             "/state",
                                             "/work",
                                             OWNER_MARK,
                                             "/" RESULTS_ARCHIVE_OUTPUT,
                                             "/" RESULTS_ARCHIVE_MODEL,
                                             NULL};
    struct arena *a = s->arena;
    unsigned kind = 0;
    struct err no_kind = {0};
    (void)result_kinds_parse(ref->part, &kind, &no_kind); // the source is none
    if ((!results_owner_is_here(s->arena, r) || (r->left & kind)) &&
        bring_results(s, r, kind, e) < 0)
        return -1;
    if (check_whole(s, r, kind, e) < 0)
        return -1;
    if (strcmp(ref->part, "source") == 0) {
        out->path = run_path(&s->cluster, r, "source");
        if (bring_source(s, r, out->path, e) < 0)
            return -1;
    } else if (strcmp(ref->part, "output") == 0) {
        out->path = r->output_dir;
        out->ignore = r->archives == RUN_ARCHIVES_NONE ? no_output : no_archive;
        out->ignore = *ref->sub ? NULL : out->ignore;
    } else {
        out->path = file_join(a, r->output_dir, ref->part);
    }
    if (*ref->sub)
        out->path = file_join(a, out->path, ref->sub);
    bool source = strcmp(ref->part, "source") == 0;
    out->on_nodes = file_join(a, r->id, source ? "work" : ref->part);
    return 0;
}

// Files of a model, or of a folder of the output, lie in a folder of each node where nodes differ.
// The source that names those of the first such node; NULL: none.
static const char *find_apart(struct arena *a, const char *source, const struct reference *ref,
                              const struct run *r, const char *path) {
    bool model = strcmp(ref->part, "model") == 0;
    bool folder = strcmp(ref->part, "output") == 0 && *ref->sub;
    if ((!model && !folder) || r->native || r->node_count < 2 || r->merge == CONFIG_MERGE_RANK0)
        return NULL;
    const char *below = path + strlen(r->output_dir);
    for (size_t i = 0; i < r->node_count; i++) {
        const char *own = arena_printf(a, "%s%s", r->nodes[i], below);
        if (file_exists(file_join(a, r->output_dir, own)))
            return arena_printf(a, "%.*s/output/%s", (int)strcspn(source, "/"), source, own);
    }
    return NULL;
}

// All of the output has the folders of nodes, in which a file or a model file of one name differs.
static void warn_folders(struct arena *a, const char *source, const struct reference *ref,
                         const struct run *r) {
    const char *first = NULL;
    size_t count = 0;
    if (strcmp(ref->part, "output") != 0 || *ref->sub || r->native || r->node_count < 2 ||
        r->merge != CONFIG_MERGE_AUTO)
        return;
    for (size_t i = 0; i < r->node_count; i++)
        if (file_exists(file_join(a, r->output_dir, r->nodes[i]))) {
            first = first ? first : r->nodes[i];
            count++;
        }
    if (count)
        log_warn("an input has the files that differ between the nodes of its run in a folder of "
                 "each node",
                 "input=%s folders=%zu first=%s", source, count, first);
}

int input_from_run_find(struct context *s, const char *source, struct input_from_run *out,
                        struct err *e) {
    struct reference ref;
    struct run r;
    *out = (struct input_from_run){0};
    if (find(s, source, &ref, &r, e) < 0)
        return -1;
    if (find_part(s, &ref, &r, out, e) < 0)
        return err_wrap(e, "'%.200s'", source);
    out->run = r.id;
    const char *apart = find_apart(s->arena, source, &ref, &r, out->path);
    warn_folders(s->arena, source, &ref, &r);
    if (!file_exists(out->path))
        return err_set(e, ERR_CONFIG, "'%.200s': run '%s' left no %s%s%s%s", source, r.id, ref.part,
                       *ref.sub ? "/" : "", ref.sub,
                       apart ? arena_printf(s->arena, " (try: %s)", apart) : "");
    if (apart)
        log_warn("an input lacks the files that differ between the nodes of its run",
                 "input=%s others=%s", source, apart);
    return 0;
}
