// SPDX-License-Identifier: Apache-2.0
// Reads and moves deadlines.
#include "aws/aws_lease.h"

#include "aws/aws_cluster.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/nodeset.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum { STAMP_BYTES_MAX = 64, YEAR_S = 365 * 86400 };
static const int64_t DEADLINE_S_MAX = 99999999999;

// put NAME NUMBER: writes a file by rename, so that the systemd unit never reads a partial file.
// Prints the name if the number changed.
static const char PUT_WORDS[] =
    "umask 022; d=/var/lib/dtctl; put() { [ \"$(cat $d/$1 2>/dev/null)\" = $2 ] || "
    "{ echo $2 >$d/$1.$$ && mv -f $d/$1.$$ $d/$1 && echo $1; }; }; ";

struct lease_work {
    const char *line;
    const char *answer; // "" until the node answers
};

// ---- the decided end ----------------------------------------------------------------------------

static const char *path_of(struct context *s) {
    return file_join(s->arena, s->cluster.dir, "terraform/lease");
}

int64_t aws_lease_decided(struct context *s) {
    char *text;
    size_t len;
    struct err ignored = {0};
    if (file_read(s->arena, path_of(s), STAMP_BYTES_MAX, &text, &len, &ignored) < 0)
        return 0;
    int64_t at_ms = clock_of_iso(text);
    return at_ms > clock_wall_ms() ? at_ms : 0;
}

int aws_lease_decide(struct context *s, int64_t wall_ms, struct err *e) {
    char stamp[CLOCK_ISO_BYTES];
    const char *text = arena_printf(s->arena, "%.19sZ\n", clock_iso(stamp, wall_ms));
    return file_write_atomic(path_of(s), text, strlen(text), 0600, e);
}

void aws_lease_forget(struct context *s) {
    unlink(path_of(s));
}

struct aws_lease_end aws_lease_choose(int64_t now_ms, int64_t ttl_ms, const struct aws_vars *before,
                                      int64_t decided_ms, bool running) {
    static const int64_t ahead_ms_max = (int64_t)AWS_LEASE_AHEAD_S_MAX * 1000;
    struct aws_lease_end end = {0};
    bool other = before && before->ttl_s != ttl_ms / 1000;
    int64_t made_ms = before ? clock_of_iso(before->expires) : 0;
    if (!other && (decided_ms > now_ms || made_ms > now_ms)) {
        end.at_ms = decided_ms > now_ms ? decided_ms : made_ms;
        return end;
    }
    int64_t for_ms = ttl_ms ? ttl_ms : (int64_t)YEAR_S * 1000;
    end.moved = other && running;
    end.cut = end.moved && for_ms > ahead_ms_max;
    end.at_ms = (now_ms + (end.cut ? ahead_ms_max : for_ms)) / 1000 * 1000;
    return end;
}

// ---- deadlines on nodes -------------------------------------------------------------------------

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct lease_work *w = n->work;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0)
        w->answer = arena_strndup(n->fleet->context->arena, r->out, r->out_len);
    fleet_done(n, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    struct lease_work *w = n->work;
    return transport_collect(n->link, w->line, NULL, 0, on_answer, n, e);
}

// Runs the same line on every reachable node; the answers are in *work.
static int ask(struct fleet *f, const char *line, struct lease_work **work, struct err *e) {
    *work = arena_new(f->context->arena, struct lease_work, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        (*work)[i] = (struct lease_work){line, ""};
        f->nodes[i].work = &(*work)[i];
    }
    return fleet_each(f, NULL, start, e);
}

int aws_lease_get(struct fleet *f, int64_t *wall_ms, struct err *e) {
    struct lease_work *work;
    *wall_ms = 0;
    // A node without a lease has no such file. The deadline that the node set itself is readable by
    // root only.
    if (ask(f,
            "cat /var/lib/dtctl/lease 2>/dev/null || "
            "sudo -n cat /var/lib/dtctl/own/lease 2>/dev/null || true",
            &work, e) < 0)
        return -1;
    for (size_t i = 0; i < f->count; i++) {
        struct err no_number = {0};
        int64_t at_s = 0;
        const char *line =
            arena_strndup(f->context->arena, work[i].answer, strcspn(work[i].answer, "\r\n"));
        if (str_parse_i64(line, 0, DEADLINE_S_MAX, &at_s, &no_number) == 0 && at_s &&
            (*wall_ms == 0 || at_s * 1000 < *wall_ms))
            *wall_ms = at_s * 1000;
    }
    return 0;
}

int aws_lease_set(struct fleet *f, int64_t wall_ms, struct err *e) {
    struct context *s = f->context;
    struct lease_work *work;
    const char *line =
        arena_printf(s->arena, "%sput lease %lld", PUT_WORDS, (long long)(wall_ms / 1000));
    if (ask(f, line, &work, e) < 0)
        return -1;
    return fleet_failures(f) == f->count ? 0 : aws_lease_decide(s, wall_ms, e);
}

// Folded names of the nodes whose answer contains the word; NULL: none.
static const char *changed(struct fleet *f, const struct lease_work *work, const char *word) {
    struct arena *a = f->context->arena;
    const char **names = arena_new(a, const char *, f->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        if (!f->nodes[i].failed && strstr(work[i].answer, word))
            names[count++] = f->nodes[i].info->name;
    return count ? nodeset_fold(a, names, count) : NULL;
}

int aws_lease_settle(struct fleet *f, struct err *e) {
    struct context *s = f->context;
    int64_t until = aws_lease_decided(s), idle_ms = s->config->lease.idle_ms;
    struct lease_work *work;
    char stamp[CLOCK_ISO_BYTES], text[STR_HUMAN_BYTES_MAX];
    const char *line =
        arena_printf(s->arena, "%sput idle_s %lld", PUT_WORDS, (long long)(idle_ms / 1000));
    if (until)
        line = arena_printf(s->arena, "%s && put lease %lld", line, (long long)(until / 1000));
    if (ask(f, line, &work, e) < 0)
        return -1;
    const char *names = changed(f, work, "lease");
    if (names)
        screen_note(s->screen, "%s: the lease ends in %s now (%.16sZ)", names,
                    str_human_ms(text, until - clock_wall_ms()), clock_iso(stamp, until));
    names = changed(f, work, "idle_s");
    if (names && idle_ms)
        screen_note(s->screen, "%s: ends after %s without a run, a login or use of GPUs now", names,
                    str_human_ms(text, idle_ms));
    else if (names)
        screen_note(s->screen, "%s: does not end for being idle any more", names);
    return 0;
}

int aws_lease_tag(struct context *s, int64_t wall_ms, struct err *e) {
    struct terraform t;
    struct terraform_result r;
    char stamp[CLOCK_ISO_BYTES];
    const char *region;
    if (!terraform_was_used(s)) // a copy of the folder, or a folder that shares the state
        return 0;
    if (aws_cluster_region(s, &region, e) < 0 ||
        terraform_open(&t, s, &aws_terraform, region, e) < 0)
        return -1;
    // All other variables, and the state, stay as the last up left them.
    const char *args[] = {
        "-refresh=false",
        arena_printf(s->arena, "-var=expires=%.19sZ", clock_iso(stamp, wall_ms / 1000 * 1000)),
        NULL};
    screen_note(s->screen, "tagging the instances with the new end …");
    if (terraform_apply(&t, "infra", args, NULL, NULL, &r, e) < 0)
        return -1;
    if (r.interrupted)
        return terraform_failure(&t, &r, "extend", e);
    if (r.status != 0)
        log_warn(
            "the nodes have the new end, but their tag dtctl-expires has the old one until the "
            "next up",
            "reason=\"%s\" log=%s", r.problem, t.log_path);
    return 0;
}

// ---- nodes that do not answer -------------------------------------------------------------------

// The state of an instance in AWS; "": no such instance.
static const char *state_of(const struct aws_found *found, const char *id) {
    for (size_t i = 0; i < found->count; i++)
        if (str_eq(found->items[i].id, id))
            return found->items[i].state;
    return "";
}

static int ask_aws(struct context *s, const char *cluster, struct aws_found *found, struct err *e) {
    struct terraform t;
    struct aws_gone none = {0};
    struct aws_wish wish = {.cluster = cluster, .paid_only = true, .ending = true};
    if (aws_cluster_region(s, &wish.region, e) < 0 ||
        terraform_open(&t, s, &aws_terraform, wish.region, e) < 0 ||
        aws_sweep_find(&t, &wish, &none, found, e) < 0)
        return -1;
    aws_sweep_forget(&t);
    return 0;
}

static void explain_lost(struct fleet_node *n, const char *state, bool *gone) {
    *gone = !state[0] || str_eq(state, "shutting-down") || str_eq(state, "terminated");
    if (str_eq(state, "shutting-down"))
        err_set(
            &n->err, ERR_NOT_FOUND,
            "AWS is ending it (shutting-down); dtctl up waits for that and creates another one");
    else if (*gone)
        err_set(&n->err, ERR_NOT_FOUND, "AWS has ended it; dtctl up creates another one");
    else if (!str_eq(state, "running"))
        err_set(&n->err, ERR_NOT_FOUND,
                "AWS says that %s is %s (try: start it there, or dtctl up --replace %s)",
                n->info->instance_id, state, n->info->name);
}

const bool *aws_lease_gone(struct fleet *f, const struct inventory *inv) {
    bool *gone = arena_new(f->context->arena, bool, inv->count);
    struct aws_found found = {0};
    struct err e = {0};
    if (fleet_failures(f) == 0)
        return gone;
    screen_note(f->context->screen, "asking AWS about nodes that do not answer …");
    if (ask_aws(f->context, inv->name, &found, &e) < 0) {
        log_warn("cannot ask AWS about nodes that do not answer", "reason=\"%s\"", e.text);
        return gone;
    }
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        if (n->failed && n->info->instance_id && n->info->instance_id[0])
            explain_lost(n, state_of(&found, n->info->instance_id), &gone[n->info - inv->nodes]);
    }
    return gone;
}
