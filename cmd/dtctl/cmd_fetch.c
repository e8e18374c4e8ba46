// SPDX-License-Identifier: Apache-2.0
// dtctl fetch: results of a run, or any path of the nodes, to this computer.
#include "command.h"

#include "base/str.h"
#include "cluster/nodeset.h"
#include "content/tree_merge.h"
#include "fleet/fleet_runs.h"
#include "fleet/fleet_transfer.h"
#include "fleet/local_work.h"
#include "run/monitor.h"
#include "run/results/output_published.h"
#include "run/results/results_archive.h"
#include "run/results/results_owner.h"
#include "run/results/results_upload.h"
#include "sys/file.h"

#include <string.h>

struct fetch_flags {
    const char *node, *to;
    struct option_list paths, kinds;
    bool merge, work;
};

static const struct option_row ROWS[] = {
    {.flag = "path",
     .letter = 'p',
     .verbs = "fetch",
     .type = OPTION_LIST,
     .arg = "PATH",
     .offset = offsetof(struct fetch_flags, paths),
     .marks = OPTION_NO_ENV,
     .help = "Path on the nodes, instead of a run's results; relative to dtctl's folder on the "
             "node unless it starts with / or ~/; may be repeated."},
    {.flag = "node",
     .letter = 'w',
     .verbs = "fetch",
     .type = OPTION_STRING,
     .arg = "NODES",
     .offset = offsetof(struct fetch_flags, node),
     .marks = OPTION_NO_ENV,
     .help = "With --path: only from these nodes, such as gpu[01-04]."},
    {.flag = "to",
     .verbs = "fetch",
     .type = OPTION_STRING,
     .text = "fetched",
     .arg = "DIR",
     .offset = offsetof(struct fetch_flags, to),
     .marks = OPTION_NO_ENV,
     .help = "With --path: destination folder on this computer; it gets one folder per node."},
    {.flag = "fetch",
     .verbs = "fetch",
     .type = OPTION_LIST,
     .arg = "KINDS",
     .offset = offsetof(struct fetch_flags, kinds),
     .marks = OPTION_NO_ENV,
     .check = result_kinds_check,
     .help = "Only these kinds of a run's results, such as logs,model; without it all of output, "
             "model, state and logs."},
    {.flag = "work",
     .verbs = "fetch",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct fetch_flags, work),
     .marks = OPTION_NO_ENV,
     .help = "Also fetch files that the run made in its working folders, to work/ of its results."},
    {.flag = "merge",
     .verbs = "fetch",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct fetch_flags, merge),
     .marks = OPTION_NO_ENV,
     .help = "With --path: merge all nodes into one folder; files with one name and different "
             "content are an error."},
};
static const struct option_table TABLE = {"Fetch", ROWS, sizeof ROWS / sizeof ROWS[0]};

struct fetch {
    const struct fetch_flags *flags;
    const char *cache;
    const char **dests; // one per node
};

static struct xfer *start(void *ctx, struct fleet_node *n, const struct xfer_events *events,
                          struct err *e) {
    const struct fetch *f = ctx;
    struct xfer_fetch_spec spec = {
        .program = n->facts.program,
        .root = n->facts.root,
        .paths = f->flags->paths.items,
        .dest = f->dests[n->index],
        .hash_cache_path = f->cache,
    };
    return xfer_fetch(n->link, &spec, events, n, e);
}

static int merge(struct context *s, const struct fetch_flags *f, const struct fleet *fleet,
                 const char *const *dests, struct err *e) {
    const char **folders = arena_new(s->arena, const char *, fleet->count + 1);
    const char **names = arena_new(s->arena, const char *, fleet->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < fleet->count; i++)
        if (!fleet->nodes[i].failed) {
            folders[count] = dests[i];
            names[count++] = fleet->nodes[i].info->name;
        }
    struct local_work w;
    local_work_begin(&w, s, "merge");
    int result = count ? tree_merge(f->to, folders, names, &w.ticks, e) : 0;
    local_work_end(&w);
    return result;
}

static int fetch_paths(struct context *s, const struct fetch_flags *f, struct err *e) {
    struct inventory inv;
    struct fleet fleet;
    struct transfer_totals totals = {0};
    size_t *indices = NULL, count = 0;
    char size[STR_HUMAN_BYTES_MAX];
    if (cluster_load(&s->cluster, &inv, e) < 0 ||
        inventory_select(s->arena, &inv, f->node, &indices, &count, e) < 0)
        return -1;
    if (s->config->dry_run) {
        for (size_t i = 0; i < count; i++)
            screen_out(s->screen, "would fetch %zu path%s of %s to %s/%s\n", f->paths.count,
                       str_plural(f->paths.count), inv.nodes[indices[i]].name, f->to,
                       inv.nodes[indices[i]].name);
        return 0;
    }
    fleet_open(&fleet, s, &inv, indices, count);
    fleet.transfers = true;
    struct fetch work = {
        .flags = f,
        .cache = file_join(s->arena, s->cluster.dir, "hashes"),
        .dests = arena_new(s->arena, const char *, count + 1),
    };
    for (size_t i = 0; i < count; i++)
        work.dests[i] = file_join(s->arena, f->to, inv.nodes[indices[i]].name);
    int result = fleet_connect(&fleet, true, e);
    if (result == 0)
        result = fleet_transfer_each(&fleet, "fetch", start, &work, &totals, e);
    fleet_report(&fleet);
    if (result == 0)
        result = fleet_verdict(&fleet, "fetch", e);
    if (result == 0 && f->merge)
        result = merge(s, f, &fleet, work.dests, e);
    if (result == 0 && totals.files_all)
        result = file_sync_disk(f->to, e);
    fleet_close(&fleet);
    if (result < 0)
        return -1;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "fetched");
    json_str(&j, "to", f->to);
    json_int(&j, "files", (int64_t)totals.files_all);
    json_int(&j, "bytes", (int64_t)totals.bytes_all);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%zu file%s, %s in %s\n", totals.files_all, str_plural(totals.files_all),
               str_human_bytes(size, totals.bytes_all), f->to);
    return 0;
}

static bool all_is_lost(const struct run *r) {
    return r->lost_count == r->node_count && r->lost_kinds == RESULT_ALL;
}

// Whether the fetched results are still in their folder; a run that never started has none.
static bool is_here(struct context *s, const struct run *r) {
    return r->start_ms == 0 || all_is_lost(r) ||
           str_eq(results_owner_of(s->arena, r->output_dir), r->id);
}

// ", but its state is on the nodes only (try: …)" of the kinds that were not asked for.
static const char *but_left(struct context *s, const struct run *r) {
    return r->left ? arena_printf(s->arena, ", and its %s on the nodes only (try: dtctl fetch %s)",
                                  result_kinds_words(s->arena, r->left), r->id)
                   : "";
}

static int refuse_lost(struct context *s, const struct run *r, struct err *e) {
    const char *lost = nodeset_fold(s->arena, r->lost, r->lost_count);
    if (all_is_lost(r))
        return err_set(e, ERR_NO_STATUS,
                       "the results of run '%s' are lost: no node has them any more", r->id);
    if (r->lost_kinds != RESULT_ALL)
        return err_set(e, ERR_NO_STATUS, "of run '%s', these results of %s are lost: %s", r->id,
                       lost, result_kinds_words(s->arena, r->lost_kinds));
    return err_set(e, ERR_NO_STATUS, "the part of the results of run '%s' that %s had is lost",
                   r->id, lost);
}

static int show_here(struct context *s, const struct run *r, struct err *e) {
    const char *lost = r->lost_count ? nodeset_fold(s->arena, r->lost, r->lost_count) : NULL;
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "here");
    json_str(&j, "run", r->id);
    json_str(&j, "to", r->output_dir);
    json_str(&j, "lost", lost);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "results of %s are here: %s%s\n", r->id, r->output_dir, but_left(s, r));
    return lost ? refuse_lost(s, r, e) : 0;
}

// The exit status of a fetch that was done.
static int verdict(const struct run *r, const struct monitor_options *o) {
    if (r->lost_count)
        return err_status(ERR_NO_STATUS);
    if (o->rest && ((o->work && r->work_left) || (r->left & *o->kinds)))
        return err_status(ERR_SOME_FAILED);
    // Fetching went well even when the run did not.
    if (results_archive_is_due(r) || results_upload_is_due(r))
        return err_status(ERR_FAILED);
    return r->fetched || !run_is_over(r) ? 0 : err_status(ERR_SOME_FAILED);
}

// Archives and uploads results that are here, where that is still to be done.
static int pass_on(struct context *s, struct run *r, struct err *e) {
    bool archive = results_archive_is_due(r), upload = results_upload_is_due(r);
    if (s->config->dry_run) {
        if (archive)
            screen_out(s->screen, "would archive %s in %s\n", r->id, r->output_dir);
        if (upload)
            screen_out(s->screen, "would upload %s to %s\n", r->id, r->s3);
        return 0;
    }
    if (archive && results_archive(s, r, e) < 0)
        return -1;
    return upload ? results_upload(s, r, e) : 0;
}

static int fetch_run(struct context *s, const char *name, const struct fetch_flags *f,
                     struct err *e) {
    struct run_fleet r;
    int status = 0;
    unsigned kinds = f->kinds.count ? result_kinds_of(&f->kinds) : RESULT_ALL;
    struct monitor_options o = {.quiet_lines = true, .only_rank = -1, .until_now = true};
    if (fleet_runs_open_or_here(&r, s, name, e) < 0)
        return -1;
    bool here = run_is_over(&r.run) && r.run.fetched && is_here(s, &r.run);
    if (here) // a node may have what was lost again
        kinds &= r.run.left | (r.run.lost_count ? r.run.lost_kinds : 0);
    o.kinds = &kinds;
    o.work = f->work;
    o.rest = here && (kinds || (f->work && r.run.work_left));
    if (here && !o.rest && pass_on(s, &r.run, e) < 0)
        return -1;
    if (here && !o.rest)
        return show_here(s, &r.run, e);
    if (s->config->dry_run) {
        const char *what =
            kinds == RESULT_ALL || !kinds
                ? ""
                : arena_printf(s->arena, "%s of ", result_kinds_words(s->arena, kinds));
        screen_out(s->screen, "would fetch %s%s from %zu node%s to %s\n", what, r.run.id,
                   r.run.node_count, str_plural(r.run.node_count), r.run.output_dir);
        return 0;
    }
    o.again = r.run.fetched;
    r.run.fetched = o.rest;
    r.fleet.transfers = true;
    int result = fleet_connect(&r.fleet, true, e);
    if (result == 0)
        result = monitor_run(&r.fleet, &r.run, &o, &status, e);
    if (result == 0 && !run_is_over(&r.run))
        screen_note(s->screen,
                    "run %s is still going; its results come when it is over (its logs "
                    "up to now are in %s%s%s)",
                    r.run.id, run_path(&s->cluster, &r.run, "logs"),
                    r.run.output_every_ms ? ", files that came in " : "",
                    r.run.output_every_ms ? output_published_path(s, &r.run, NULL) : "");
    fleet_close(&r.fleet);
    if (result < 0)
        return -1;
    return here && r.run.lost_count ? refuse_lost(s, &r.run, e) : verdict(&r.run, &o);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct fetch_flags *f = flags;
    if (f->paths.count && rest->count)
        return err_set(e, ERR_USAGE, "fetch takes a run or --path, not both");
    if (f->paths.count && f->kinds.count)
        return err_set(e, ERR_USAGE, "--fetch is for the results of a run, not for --path");
    if (f->paths.count && f->work)
        return err_set(e, ERR_USAGE, "--work is for the results of a run, not for --path");
    return f->paths.count ? fetch_paths(s, f, e)
                          : fetch_run(s, rest->count ? rest->args[0] : NULL, f, e);
}

const struct command cmd_fetch = {
    .verb = {.name = "fetch",
             .summary = "bring results, or any files, from the nodes",
             .args = "[RUN]",
             .text =
                 "Fetches output, model, state and logs of a run (by default the newest) to this "
                 "computer, and verifies them by hash. The kinds that outputs.fetch left on "
                 "the nodes are fetched, too. Files that are here already are not sent again. "
                 "With outputs.s3, fetch also uploads the files that are not there yet. train "
                 "fetches by itself; fetch is for runs that train did not follow to their end.",
             .examples =
                 "dtctl fetch   # the newest run's results\n"
                 "dtctl fetch RUN --fetch state   # what outputs.fetch left out, of one kind\n"
                 "dtctl fetch --path /var/log/dmesg --to logs   # a file of every node\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct fetch_flags),
    .args_max = 1,
    .run = run,
};
