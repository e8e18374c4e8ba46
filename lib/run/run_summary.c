// SPDX-License-Identifier: Apache-2.0
// The outcome of a run.
#include "run/run_summary.h"

#include "base/str.h"
#include "cluster/nodeset.h"
#include "follow/events_merge.h"
#include "run/results/results_archive.h"
#include "run/results/results_owner.h"
#include "run/results/results_upload.h"
#include "sys/file.h"

#include <math.h>
#include <string.h>

enum { TAIL_LINES_SHOWN_MAX = 20, ROUNDS_SHOWN_MAX = 8 };

// ---- summary.json ------------------------------------------------------------------------------

static void json_ranks(struct json_out *j, const struct history_node *n) {
    json_array(j, "ranks");
    for (int i = 0; i < n->rank_count; i++) {
        const struct history_rank *r = &n->ranks[i];
        json_object(j, NULL);
        json_int(j, "rank", r->rank);
        json_int(j, "local_rank", r->local_rank);
        json_str(j, "state", r->ended ? "exited" : r->started ? "no-status" : "not-started");
        if (r->ended)
            json_int(j, "status", r->status);
        else
            json_null(j, "status");
        json_str(j, "signal", r->signal);
        json_str(j, "reason", r->reason);
        json_int(j, "ms", r->ms);
        json_end(j);
    }
    json_end(j);
}

static void json_nodes(const struct summary *s, struct json_out *j) {
    const struct follow *f = s->follow;
    json_array(j, "nodes");
    for (size_t i = 0; i < f->count; i++) {
        const struct follow_node *n = &f->nodes[i];
        json_object(j, NULL);
        json_str(j, "name", n->node->info->name);
        json_int(j, "node_rank", (int64_t)i);
        json_str(j, "state", n->state[0] ? n->state : n->no_status ? "no-status" : "running");
        json_str(j, "error", n->no_status ? n->err.text : NULL);
        json_bool(j, "in_last_round", f->history.nodes[i].round == f->history.round);
        json_str(j, "gone", f->history.nodes[i].gone_why);
        json_ranks(j, &f->history.nodes[i]);
        json_end(j);
    }
    json_end(j);
}

static void json_history(const struct summary *s, struct json_out *j) {
    json_array(j, "history");
    for (const struct history_round *r = s->follow->history.rounds; r; r = r->next) {
        json_object(j, NULL);
        json_int(j, "round", r->round);
        json_int(j, "time_ms", r->time_ms);
        json_int(j, "nodes", r->nodes);
        json_int(j, "world_size", r->world_size);
        json_int(j, "restarts", r->restarts);
        json_str(j, "reason", r->reason);
        json_end(j);
    }
    json_end(j);
}

static void json_failure(const struct summary *s, struct json_out *j) {
    const struct history_failure *f = run_history_root(&s->follow->history);
    if (!f) {
        json_null(j, "failure");
        return;
    }
    json_object(j, "failure");
    json_str(j, "node", f->node);
    json_int(j, "rank", f->rank);
    json_int(j, "local_rank", f->local_rank);
    json_int(j, "pid", f->pid);
    json_int(j, "status", f->status);
    json_str(j, "signal", f->signal);
    json_str(j, "message", f->message);
    json_str(j, "tail", f->tail);
    json_str(j, "evidence", f->evidence);
    json_end(j);
}

static void json_tags(const struct run *r, struct json_out *j) {
    if (r->tags.count == 0)
        return;
    json_object(j, "tags");
    for (size_t i = 0; i < r->tags.count; i++)
        json_str(j, r->tags.items[i].name, r->tags.items[i].value);
    json_end(j);
}

static void json_metrics(const struct summary *s, struct json_out *j) {
    json_object(j, "metrics");
    for (size_t i = 0; i < s->follow->metrics.count; i++) {
        const struct metric *m = &s->follow->metrics.metrics[i];
        json_object(j, m->name);
        json_int(j, "count", (int64_t)m->count);
        if (m->count) {
            json_num(j, "first", m->first);
            json_num(j, "last", m->last);
            json_num(j, "min", m->min);
            json_num(j, "max", m->max);
        }
        json_end(j);
    }
    json_end(j);
}

static void json_names(struct json_out *j, const char *key, const char *const *names,
                       size_t count) {
    json_array(j, key);
    for (size_t i = 0; i < count; i++)
        json_str(j, NULL, names[i]);
    json_end(j);
}

static void json_kinds(struct json_out *j, const char *key, unsigned kinds) {
    const char *names[RESULT_KINDS];
    json_names(j, key, names, result_kinds_names(kinds, names));
}

// The layout of a command's files below output_dir.
static void json_layout(const struct summary *s, struct json_out *j) {
    if (s->run->native)
        return;
    json_object(j, "layout");
    json_str(j, "merge", config_merge_words[s->run->merge]);
    json_str(j, "state", "state/NODE");
    if (s->collect) {
        json_int(j, "differing", (int64_t)s->collect->collisions.apart);
        json_str(j, "differing_first", s->collect->collisions.first);
    }
    json_end(j);
}

static void json_head(const struct summary *s, struct json_out *j) {
    const struct run *r = s->run;
    json_str(j, "run", r->id);
    json_str(j, "name", r->name);
    json_str(j, "cluster", r->cluster);
    json_str(j, "provider", r->provider);
    json_str(j, "state", r->state);
    json_int(j, "exit_status", r->exit_status);
    json_array(j, "command");
    for (size_t i = 0; i < r->command_count; i++)
        json_str(j, NULL, r->command[i]);
    json_end(j);
    json_int(j, "created_ms", r->created_ms);
    json_int(j, "world_size", s->follow->history.world_size);
    json_int(j, "rounds", s->follow->history.round + 1);
    json_int(j, "restarts", s->follow->history.restarts);
}

void run_summary_json(const struct summary *s, struct strbuf *out) {
    const struct run *r = s->run;
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_head(s, &j);
    json_object(&j, "phases_ms");
    json_int(&j, "push", r->push_ms);
    json_int(&j, "setup", r->setup_ms);
    json_int(&j, "start", r->start_ms);
    json_int(&j, "train", r->train_ms);
    json_int(&j, "fetch", r->fetch_ms);
    json_end(&j);
    json_int(&j, "pushed_bytes", (int64_t)r->push_bytes);
    json_int(&j, "fetched_bytes", (int64_t)r->fetch_bytes);
    json_bool(&j, "fetched", r->fetched);
    json_names(&j, "lost", r->lost, r->lost_count);
    json_kinds(&j, "left", r->fetched ? r->left : 0);
    json_int(&j, "work_left", r->work_left);
    json_str(&j, "resumes", r->resumes && r->resumes[0] ? r->resumes : NULL);
    json_str(&j, "output_dir", r->output_dir);
    if (results_upload_is_wanted(r)) {
        json_str(&j, "s3", r->s3);
        json_bool(&j, "uploaded", r->uploaded);
    }
    if (r->archive)
        json_bool(&j, "archived", r->archives == RUN_ARCHIVES_WHOLE);
    json_layout(s, &j);
    if (s->trainer) {
        json_num(&j, "images_per_s", json_get_num(s->trainer, "images_per_s", 0));
        json_num(&j, "final_loss", json_get_num(s->trainer, "final_loss", (double)NAN));
        json_num(&j, "accuracy", json_get_num(s->trainer, "final_acc1", (double)NAN));
        struct json trainer = *s->trainer;
        trainer.key = "trainer";
        json_value(&j, &trainer);
    }
    json_metrics(s, &j);
    json_tags(r, &j);
    json_history(s, &j);
    json_failure(s, &j);
    json_nodes(s, &j);
    json_end(&j);
    strbuf_addc(out, '\n');
}

// ---- the last screen ---------------------------------------------------------------------------

static void line_file(const struct summary *s, struct strbuf *out, const char *label,
                      const char *path) {
    if (results_owner_has_files(path))
        strbuf_addf(out, "  %-9s%s\n", label, run_near_path(s->arena, path));
}

static void text_figures(const struct summary *s, struct strbuf *out) {
    const struct json *t = s->trainer;
    if (t)
        strbuf_addf(out, "  %-9s", "result");
    if (t && json_get_int(t, "epochs_done", 0) > 0) // before, there is no figure for the whole data
        strbuf_addf(out, "%.2f %% top-1, loss %.4f, ", json_get_num(t, "final_acc1", 0),
                    json_get_num(t, "final_loss", 0));
    if (t)
        strbuf_addf(out, "%.1f images/s, %lld steps\n", json_get_num(t, "images_per_s", 0),
                    (long long)json_get_int(t, "steps", 0));
    for (size_t i = 0; i < s->follow->metrics.count; i++) {
        const struct metric *m = &s->follow->metrics.metrics[i];
        if (m->count)
            strbuf_addf(out, "  %-8s %g (from %g, %llu value%s)\n", m->name, m->last, m->first,
                        (unsigned long long)m->count, str_plural(m->count));
    }
}

// One line per restarted round with its reason, one per node that did not return.
static void text_history(const struct summary *s, struct strbuf *out) {
    const struct run_history *t = &s->follow->history;
    char age[STR_HUMAN_BYTES_MAX];
    int shown = 0, later = t->round_count > 1 ? t->round_count - 1 : 0;
    for (const struct history_round *r = t->rounds ? t->rounds->next : NULL; r; r = r->next) {
        if (later - shown++ > ROUNDS_SHOWN_MAX)
            continue;
        strbuf_addf(out, "  %-9s%d after %s, %d rank%s on %d node%s: ", "round", r->round,
                    str_human_ms(age, r->time_ms - t->rounds->time_ms), r->world_size,
                    str_plural(r->world_size), r->nodes, str_plural(r->nodes));
        screen_foreign(out, r->reason, strlen(r->reason));
        strbuf_addc(out, '\n');
    }
    for (size_t i = 0; i < t->node_count; i++)
        if ((t->nodes[i].lost || t->nodes[i].left) && t->nodes[i].round != t->round) {
            strbuf_addf(out, "  %-9s%s, and the run went on without it%s%s\n", "lost",
                        t->nodes[i].name, t->nodes[i].gone_why ? ": " : "",
                        t->nodes[i].gone_why ? t->nodes[i].gone_why : "");
        }
}

// Kinds of results that outputs.fetch leaves on the nodes.
static void text_left(const struct summary *s, struct strbuf *out) {
    const struct run *r = s->run;
    char size[STR_HUMAN_BYTES_MAX];
    int64_t files = 0, bytes = 0;
    if (!r->fetched || !r->left)
        return;
    for (int i = 0; s->collect && i < RESULT_KINDS; i++)
        if (r->left & 1U << i) {
            files += s->collect->work_left.kinds[i].files;
            bytes += s->collect->work_left.kinds[i].bytes;
        }
    strbuf_addf(out, "  %-9s%s", "left", result_kinds_words(s->arena, r->left));
    if (files)
        strbuf_addf(out, ", %lld file%s, %s,", (long long)files, str_plural(files),
                    str_human_bytes(size, (uint64_t)bytes));
    strbuf_addf(out, " on the nodes only (try: dtctl fetch %s", r->id);
    if (r->left & (r->left - 1)) // more than one
        strbuf_addf(out, ", or with --fetch %s", result_kinds_list(s->arena, r->left & -r->left));
    strbuf_adds(out, ")\n");
}

static const char *lost_what(const struct summary *s) {
    const struct run *r = s->run;
    return r->lost_kinds == RESULT_ALL ? "part of the results"
                                       : result_kinds_words(s->arena, r->lost_kinds);
}

// Files that are not in their usual place, or nowhere.
static void text_layout(const struct summary *s, struct strbuf *out) {
    const struct run *r = s->run;
    if (s->collect && s->collect->collisions.apart) {
        size_t apart = s->collect->collisions.apart;
        strbuf_addf(
            out,
            "  %-9s%zu file%s differ%s between nodes and lie%s below the nodes' names: ", "apart",
            apart, str_plural(apart), apart == 1 ? "s" : "", apart == 1 ? "s" : "");
        screen_foreign(out, s->collect->collisions.first, strlen(s->collect->collisions.first));
        strbuf_addc(out, '\n');
    }
    if (r->work_left && s->collect) {
        const struct work_left *w = &s->collect->work_left;
        char size[STR_HUMAN_BYTES_MAX];
        strbuf_addf(out,
                    "  %-9s%lld new file%s in the working folders, %s, on the nodes only: ", "left",
                    (long long)r->work_left, str_plural(r->work_left),
                    str_human_bytes(size, (uint64_t)w->bytes));
        for (size_t i = 0; i < w->name_count; i++) {
            strbuf_adds(out, i ? ", " : "");
            screen_foreign(out, w->names[i], strlen(w->names[i]));
        }
        strbuf_addf(out, "%s (try: dtctl fetch %s --work)\n",
                    r->work_left > (int64_t)w->name_count ? " …" : "", r->id);
    }
    if (r->lost_count == 0)
        return;
    strbuf_addf(out, "  %-9sthe %s that %s had: %s\n", "lost", lost_what(s),
                nodeset_fold(s->arena, r->lost, r->lost_count),
                r->lost_count == 1 ? "the node does not have it any more"
                                   : "the nodes do not have it any more");
    for (size_t i = 0; i < r->lost_count; i++)
        line_file(s, out, "of it",
                  file_join(s->arena, run_path(&s->context->cluster, r, "incoming"), r->lost[i]));
}

void run_summary_text(const struct summary *s, struct strbuf *out) {
    const struct run *r = s->run;
    const struct cluster *c = &s->context->cluster;
    char push[STR_HUMAN_BYTES_MAX], start[STR_HUMAN_BYTES_MAX], train[STR_HUMAN_BYTES_MAX];
    char setup[STR_HUMAN_BYTES_MAX], fetch[STR_HUMAN_BYTES_MAX], sent[STR_HUMAN_BYTES_MAX],
        got[STR_HUMAN_BYTES_MAX];
    strbuf_addf(out, "\n%s: %s", r->id, r->state);
    if (s->follow->history.world_size)
        strbuf_addf(out, ", %d rank%s on %d node%s", s->follow->history.world_size,
                    str_plural(s->follow->history.world_size), s->follow->history.nodes_in_round,
                    str_plural(s->follow->history.nodes_in_round));
    if (s->follow->history.restarts)
        strbuf_addf(out, ", %d restart%s", s->follow->history.restarts,
                    str_plural(s->follow->history.restarts));
    strbuf_addf(out, "\n  %-9spush %s (%s), ", "time", str_human_ms(push, r->push_ms),
                str_human_bytes(sent, r->push_bytes));
    if (r->setup_ms)
        strbuf_addf(out, "setup %s, ", str_human_ms(setup, r->setup_ms));
    strbuf_addf(out, "start %s, train %s, fetch %s (%s)\n", str_human_ms(start, r->start_ms),
                str_human_ms(train, r->train_ms), str_human_ms(fetch, r->fetch_ms),
                str_human_bytes(got, r->fetch_bytes));
    text_history(s, out);
    text_figures(s, out);
    if (str_eq(results_owner_of(s->arena, r->output_dir), r->id)) {
        line_file(s, out, "model", file_join(s->arena, r->output_dir, "model"));
        line_file(s, out, "state", file_join(s->arena, r->output_dir, "state"));
        line_file(s, out, "output", r->output_dir);
        for (int i = 0; r->archives == RUN_ARCHIVES_WHOLE && i < RESULTS_ARCHIVES; i++)
            line_file(s, out, "archive",
                      file_join(s->arena, r->output_dir, results_archive_name(i)));
    }
    line_file(s, out, "metrics", run_path(c, r, "metrics.jsonl"));
    line_file(s, out, "logs", run_path(c, r, "logs"));
    line_file(s, out, "events", run_path(c, r, "events.jsonl"));
    strbuf_addf(out, "  %-9s%s\n", "summary",
                run_near_path(s->arena, run_path(c, r, "summary.json")));
    if (results_upload_is_wanted(r) && r->uploaded)
        strbuf_addf(out, "  %-9s%s\n", "s3", r->s3);
    text_layout(s, out);
    text_left(s, out);
    if (!r->fetched)
        strbuf_addf(out, "  results of some nodes are not here yet (try: dtctl fetch %s)\n", r->id);
}

static void add_tail(const struct summary *s, struct strbuf *out, const char *tail) {
    size_t len = strlen(tail), from = len, lines = 0;
    while (from > 0 && lines < TAIL_LINES_SHOWN_MAX)
        if (tail[--from] == '\n' && from + 1 < len)
            lines++;
    if (from > 0 || (len && tail[0] == '\n'))
        from++;
    char **parts = NULL;
    size_t count = str_split(s->arena, tail + from, '\n', &parts);
    for (size_t i = 0; i < count; i++) {
        if (i + 1 == count && !parts[i][0])
            break;
        strbuf_adds(out, "    | ");
        screen_foreign(out, parts[i], strlen(parts[i]));
        strbuf_addc(out, '\n');
    }
}

static const char CRASH_LOOP[] =
    "crash loop: "; // prefix of the reason that rendezvous_restarts.c gives

// The agents of a lost run could not say why it ended.
static void add_vanished(const struct summary *s, struct strbuf *out) {
    const char **names = arena_new(s->arena, const char *, s->follow->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < s->follow->count; i++)
        if (str_eq(s->follow->nodes[i].state, node_state_name(NODE_LOST)))
            names[count++] = s->follow->nodes[i].node->info->name;
    if (count)
        strbuf_addf(out,
                    "\nthe agent%s of %s vanished in mid-run: the host was restarted, or the agent "
                    "was killed (the same dtctl train resumes from the state that is left)\n",
                    count == 1 ? "" : "s", nodeset_fold(s->arena, names, count));
}

void run_summary_failure(const struct summary *s, struct strbuf *out) {
    const struct history_failure *f = run_history_root(&s->follow->history);
    if (!f && str_eq(s->run->state, node_state_name(NODE_LOST)))
        add_vanished(s, out);
    if (!f) {
        // A node that left reports its own reason unless the run finished.
        bool finished = str_eq(s->run->state, "finished");
        for (size_t i = 0; i < s->follow->count && !finished; i++)
            if (s->follow->history.nodes[i].why) {
                strbuf_addf(out, "\n%s\n", s->follow->history.nodes[i].why);
                break;
            }
        return;
    }
    strbuf_addf(out, "\nrank %d on node '%s' failed first: ", f->rank, f->node);
    if (f->signal)
        strbuf_addf(out, "ended by %s\n", f->signal);
    else
        strbuf_addf(out, "exit status %d\n", f->status);
    if (f->evidence)
        add_tail(s, out, f->evidence);
    if (f->message && f->message[0])
        add_tail(s, out, f->message);
    else if (f->tail && f->tail[0])
        add_tail(s, out, f->tail);
    size_t others = 0;
    for (size_t i = 0; i < s->follow->history.failure_count; i++)
        others += &s->follow->history.failures[i] != f;
    if (others)
        strbuf_addf(out, "  %zu more failure%s came after it\n", others, str_plural(others));
    for (size_t i = 0; i < s->follow->count; i++) {
        const char *why = s->follow->history.nodes[i].why;
        if (!why || !str_starts(why, CRASH_LOOP))
            continue;
        strbuf_addf(out, "  not started again: %s (--rdzv-conf crash_loop=0 continues)\n", why);
        break;
    }
    const char *log = arena_printf(
        s->arena, "%s/%s/%d.err", run_path(&s->context->cluster, s->run, "logs"), f->node, f->rank);
    if (file_is_absent(log))
        log = arena_printf(s->arena, "%s/%s/%d.out", run_path(&s->context->cluster, s->run, "logs"),
                           f->node, f->rank);
    if (file_exists(log))
        strbuf_addf(out, "  all of its output: %s\n", run_near_path(s->arena, log));
    else if (s->run->left & RESULT_LOGS)
        strbuf_addf(out, "  all of its output is on the node (try: dtctl logs %s)\n", s->run->id);
}

// ---- events.jsonl ------------------------------------------------------------------------------

int run_summary_merge_events(const struct follow *f, struct err *e) {
    struct arena a = {0};
    const char **paths = arena_new(&a, const char *, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        paths[i] = file_join(&a, f->nodes[i].mirror.dir, "events.jsonl");
    paths[f->count] = run_path(&f->context->cluster, f->run, "operator.jsonl");
    int rc = events_merge(paths, f->count + 1, f->events_path, e);
    arena_fini(&a);
    return rc;
}
