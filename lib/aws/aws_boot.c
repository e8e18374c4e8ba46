// SPDX-License-Identifier: Apache-2.0
// Boots nodes. Each node is in one state; callbacks move it on:
//
//     CONNECTING -> (login) -> WAITING -> (ready) -> ROTATING -> (key) -> DONE
//         ^  └── lost, refused: pause, again ──┘
//
// A lost connection always leads back to CONNECTING. Every step may be repeated; the programs on
// the node ensure this. One deadline applies to all steps.
#include "aws/aws_boot.h"

#include "aws/aws_instance_types.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/nodeset.h"
#include "fleet/fleet.h"
#include "remote/known_hosts.h"
#include "remote/transport.h"

#include <stdio.h>
#include <string.h>

enum {
    LOG_LINES_SHOWN_MAX = 40,
    LATE_MS = 2000,   // before the deadline, a connected node reports its progress
    WAIT_NEVER = 3,   // exit statuses of WAIT_LINE: cloud-init has ended without a ready node
    WAIT_TOO_LONG = 4 // cloud-init has not ended
};

// Waits until the readiness file exists, cloud-init ends without writing the file, or the given
// number of seconds passes; then prints the file. Unless the node is ready, the log of cloud-init
// is written to standard error.
static const char WAIT_LINE[] =
    "f=/var/lib/dtctl/ready; n=0; read -r up _ </proc/uptime; end=$((${up%%.*}+%lld)); "
    "log() { l=/var/log/cloud-init-output.log; { cat $l || sudo -n cat $l; } 2>/dev/null | "
    "grep -v '^ci-info:' | tail -n 30 >&2; exit $1; }; "
    "while [ ! -s $f ]; do "
    "if [ -e /run/cloud-init/result.json ]; then n=$((n+1)); [ $n -lt 15 ] || { "
    "cloud-init status --long >&2 2>&1; log %d; }; fi; "
    "read -r up _ </proc/uptime; [ ${up%%.*} -lt $end ] || log %d; "
    "sleep 0.2; done; cat $f; ! grep -q '^status=failed' $f || (log 0)";
static const char ROTATE_LINE[] = "sudo -n /usr/local/lib/dtctl/rotate-host-key";

struct node;

struct boot {
    struct context *context;
    struct boot_progress *phases;
    struct transport_env env;
    struct node *nodes;
    size_t count, busy;
    int64_t deadline_ms;
    struct timer deadline;
};

struct node {
    struct boot *boot;
    struct aws_boot_node *public;
    struct transport_link *link;
    struct timer timer;
    int64_t login_refused_ms; // time of the first refusal; 0: none
    struct err last;          // why the last login failed
    bool entered, done;       // entered: a login succeeded once
};

// ---- one node -----------------------------------------------------------------------------------

static void connect_again(struct timer *t);

static void finish(struct node *n, const struct err *e) {
    struct boot *b = n->boot;
    n->done = true;
    b->busy--;
    timer_stop(&n->timer);
    transport_close(n->link);
    n->link = NULL;
    if (!e)
        return;
    n->public->failed = true;
    n->public->err = *e;
    boot_progress_fail(b->phases, n->public->row, e->text);
}

// Adds the time limit to the error when the limit ended the wait.
static void fail(struct node *n, const struct err *why) {
    char limit[STR_HUMAN_BYTES_MAX];
    struct err e = *why;
    str_human_ms(limit, aws_boot_timeout_ms(&n->boot->context->config->aws));
    if (e.code == ERR_NET || e.code == ERR_TIMEOUT || e.code == ERR_NO_STATUS) {
        n->public->silent = !n->entered;
        err_set(&e, ERR_TIMEOUT, "%s in %s (aws.boot_timeout): %s",
                n->entered ? "it did not become ready" : "it did not answer", limit, why->text);
    }
    finish(n, &e);
}

// True when a retry may help: no answer yet, or a login refused while users are being created.
static bool may_try_again(struct node *n, const struct err *e) {
    int64_t now = clock_mono_ms();
    if (e->code == ERR_AUTH) {
        n->login_refused_ms = n->login_refused_ms ? n->login_refused_ms : now;
        return now - n->login_refused_ms < AWS_BOOT_LOGIN_MS_MAX;
    }
    return e->code == ERR_NET || e->code == ERR_TIMEOUT || e->code == ERR_NO_STATUS;
}

static void again_or_fail(struct node *n, const struct err *e) {
    transport_close(n->link);
    n->link = NULL;
    n->last = *e;
    if (!may_try_again(n, e)) {
        fail(n, e);
        return;
    }
    log_debug("node does not answer yet", "node=%s reason=\"%s\"", n->public->info->name, e->text);
    timer_start(n->boot->context->loop, &n->timer, AWS_BOOT_PAUSE_MS, connect_again);
}

static void on_down(struct transport_link *l, void *ctx, const struct err *e) {
    (void)l;
    again_or_fail(ctx, e);
}

// ---- the host key -------------------------------------------------------------------------------

static void on_rotated(void *ctx, const struct transport_result *r) {
    struct node *n = ctx;
    struct arena *a = n->boot->context->arena;
    struct err e = {0};
    void *blob;
    size_t len;
    if (r->end.how == TRANSPORT_LOST) // on_down starts over
        return;
    char *key = arena_strndup(a, r->out, r->out_len);
    key[strcspn(key, "\r\n")] = 0;
    if (r->end.how != TRANSPORT_EXITED || r->end.status != 0)
        err_set(&e, ERR_FAILED, "it could not make a host key of its own: %s",
                str_printable(a, r->err_text, strcspn(r->err_text, "\n")));
    else if (known_hosts_parse_key(a, key, &blob, &len, &e) < 0)
        err_wrap(&e, "the host key it made");
    else
        n->public->info->host_key = key;
    if (!e.code)
        boot_progress_reach(n->boot->phases, n->public->row, PHASE_CLOUD_INIT);
    finish(n, e.code ? &e : NULL);
}

// ---- cloud-init ---------------------------------------------------------------------------------

static void show_log(struct node *n, const struct transport_result *r) {
    struct arena a = {0};
    char **lines = NULL;
    size_t count = str_split(&a, r->err_text, '\n', &lines);
    size_t from = count > LOG_LINES_SHOWN_MAX ? count - LOG_LINES_SHOWN_MAX : 0;
    for (size_t i = from; i < count; i++)
        if (lines[i][0])
            screen_note(n->boot->context->screen, "  %s | %s", n->public->info->name,
                        str_printable(&a, lines[i], strlen(lines[i])));
    arena_fini(&a);
}

static void judge(struct node *n, const struct transport_result *r, struct err *e) {
    struct aws_ready ready;
    bool too_long = r->end.how == TRANSPORT_EXITED && r->end.status == WAIT_TOO_LONG;
    show_log(n, r);
    if (r->end.how != TRANSPORT_EXITED || r->end.status != 0) {
        err_set(e, too_long ? ERR_TIMEOUT : ERR_FAILED,
                "cloud-init %s; its last lines are above (all of it on the node: "
                "/var/log/cloud-init-output.log)",
                too_long ? "has not ended" : "failed");
        return;
    }
    aws_ready_parse(n->boot->context->arena, r->out, r->out_len, &ready);
    if (ready.status == AWS_READY_DEGRADED)
        log_warn("a node is degraded", "node=%s problems=\"%s\"", n->public->info->name,
                 ready.problems);
    else if (ready.status != AWS_READY_OK)
        err_set(e, ERR_FAILED, "its own checks failed: %s",
                ready.problems[0] ? ready.problems : "no reason given");
}

static void on_waited(void *ctx, const struct transport_result *r) {
    struct node *n = ctx;
    struct err e = {0};
    if (r->end.how == TRANSPORT_LOST)
        return;
    judge(n, r, &e);
    if (e.code) {
        fail(n, &e);
        return;
    }
    if (!n->public->first_key[0]) {
        boot_progress_reach(n->boot->phases, n->public->row, PHASE_CLOUD_INIT);
        finish(n, NULL);
    } else if (transport_collect(n->link, ROTATE_LINE, NULL, 0, on_rotated, n, &e) < 0) {
        again_or_fail(n, &e);
    }
}

// ---- the login ----------------------------------------------------------------------------------

static void on_open(struct transport_link *l, void *ctx) {
    struct node *n = ctx;
    struct err e = {0};
    struct boot *b = n->boot;
    int64_t left_ms = b->deadline_ms - clock_mono_ms() - LATE_MS;
    n->entered = true;
    boot_progress_reach(b->phases, n->public->row, PHASE_SSH);
    boot_progress_say(b->phases, n->public->row, "waiting for cloud-init");
    const char *line =
        arena_printf(b->context->arena, WAIT_LINE, (long long)(left_ms > 0 ? left_ms / 1000 : 0),
                     WAIT_NEVER, WAIT_TOO_LONG);
    if (transport_collect(l, line, NULL, 0, on_waited, n, &e) < 0)
        again_or_fail(n, &e);
}

static const struct transport_link_events LINK_EVENTS = {on_open, on_down};

static const char *given(const char *text) {
    return text && *text ? text : NULL;
}

static void connect_again(struct timer *t) {
    struct node *n = container_of(t, struct node, timer);
    const struct inventory_node *i = n->public->info;
    const struct config *c = n->boot->context->config;
    struct err e = {0};
    struct transport_target target = {
        .node = i->name,
        .host = i->host,
        .user = given(i->user),
        .port = i->port,
        .host_key = n->public->first_key[0] ? n->public->first_key : given(i->host_key),
        .proxy_jump = given(c->ssh.proxy_jump),
        .folder = i->root,
    };
    n->link = transport_open(&transport_ssh, &n->boot->env, &target, &LINK_EVENTS, n, &e);
    if (!n->link)
        again_or_fail(n, &e);
}

// Ends all waiting, also for nodes that have stopped reporting.
static void on_deadline(struct timer *t) {
    struct boot *b = container_of(t, struct boot, deadline);
    for (size_t i = 0; i < b->count; i++) {
        struct node *n = &b->nodes[i];
        struct err e = {0};
        err_set(&e, ERR_TIMEOUT, "%s",
                n->last.code ? n->last.text
                : n->entered ? "it no longer says how far it is"
                             : "the login has not ended");
        if (!n->done)
            fail(n, &e);
    }
}

int64_t aws_boot_timeout_ms(const struct aws_config *aws) {
    return aws->boot_timeout_ms                              ? aws->boot_timeout_ms
           : aws_instance_types_is_metal(aws->instance_type) ? AWS_BOOT_METAL_MS
                                                             : AWS_BOOT_MS;
}

int aws_boot(struct context *s, struct boot_progress *p, struct aws_boot_node *nodes, size_t count,
             struct err *e) {
    struct node *all = arena_new(s->arena, struct node, count + 1);
    struct boot b = {.context = s, .phases = p, .nodes = all, .count = count, .busy = count};
    int64_t timeout_ms = aws_boot_timeout_ms(&s->config->aws);
    b.deadline_ms = clock_mono_ms() + timeout_ms;
    b.env = fleet_env(s);
    b.env.connect_timeout_ms = AWS_BOOT_CONNECT_MS_MAX;
    timer_start(s->loop, &b.deadline, timeout_ms, on_deadline);
    for (size_t i = 0; i < count; i++) {
        all[i] = (struct node){.boot = &b, .public = &nodes[i]};
        boot_progress_say(p, nodes[i].row, "waiting for ssh");
        timer_start(s->loop, &all[i].timer, 0, connect_again);
    }
    while (b.busy > 0 && !context_interrupt(s))
        loop_once(s->loop, -1);
    bool stopped = b.busy > 0;
    timer_stop(&b.deadline);
    for (size_t i = 0; i < count; i++)
        if (!all[i].done)
            finish(&all[i], NULL);
    if (stopped)
        return err_set(
            e, ERR_INTERRUPTED,
            "stopped while nodes boot; they run: dtctl up continues with them, dtctl down "
            "ends them");
    return 0;
}

// ---- the readiness file -------------------------------------------------------------------------

enum { READY_BYTES_MAX = 65536 };

void aws_ready_parse(struct arena *a, const char *text, size_t len, struct aws_ready *out) {
    static const char *const words[] = {"ok", "degraded", "failed", NULL};
    struct strbuf problems = {0};
    char **lines = NULL;
    *out = (struct aws_ready){.status = AWS_READY_UNKNOWN, .config_hash = ""};
    const char *copy = arena_strndup(a, text, len < READY_BYTES_MAX ? len : READY_BYTES_MAX);
    size_t count = str_split(a, copy, '\n', &lines);
    for (size_t i = 0; i < count; i++) {
        const char *line = str_printable(a, lines[i], strlen(lines[i]));
        const char *equals = strchr(line, '=');
        if (!equals)
            continue;
        if (str_starts(line, "config_hash="))
            out->config_hash = equals + 1;
        for (int k = 0; str_starts(line, "status=") && words[k]; k++)
            if (strcmp(equals + 1, words[k]) == 0)
                out->status = k;
        if (str_starts(line, "check.") && strcmp(equals + 1, "ok") != 0)
            strbuf_addf(&problems, "%s%.*s: %s", problems.len ? "; " : "", (int)(equals - line - 6),
                        line + 6, equals + 1);
    }
    out->problems = arena_strdup(a, strbuf_cstr(&problems));
    strbuf_fini(&problems);
}

struct ready_work {
    const char *runs; // config_hash of the node; NULL: not asked
};

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct ready_work *w = n->work;
    struct aws_ready ready;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0) {
        aws_ready_parse(n->fleet->context->arena, r->out, r->out_len, &ready);
        w->runs = ready.config_hash;
    }
    fleet_done(n, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    return transport_collect(n->link, "cat /var/lib/dtctl/ready 2>/dev/null || true", NULL, 0,
                             on_answer, n, e);
}

// Folded names of the nodes that have not passed their checks since they booted, or else of nodes
// that passed but have an outdated configuration; NULL: none.
static const char *those(struct fleet *f, bool unchecked) {
    struct arena *a = f->context->arena;
    const char **names = arena_new(a, const char *, f->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        const struct ready_work *w = f->nodes[i].work;
        const char *wanted = f->nodes[i].info->config_hash;
        bool other = w->runs && w->runs[0] && wanted && wanted[0] && strcmp(w->runs, wanted) != 0;
        if (unchecked ? w->runs && !w->runs[0] : other)
            names[count++] = f->nodes[i].info->name;
    }
    return count ? nodeset_fold(a, names, count) : NULL;
}

int aws_ready_check(struct fleet *f, struct err *e) {
    struct context *s = f->context;
    struct ready_work *work = arena_new(s->arena, struct ready_work, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = &work[i];
    if (fleet_each(f, NULL, start, e) < 0)
        return -1;
    const char *names = those(f, true);
    if (names)
        log_warn("nodes have not passed their checks since they booted; dtctl ssh to one and look "
                 "at journalctl -u dtctl-boot",
                 "cluster=%s nodes=%s", s->cluster.name, names);
    names = those(f, false);
    if (names)
        log_warn(arena_printf(s->arena,
                              "nodes are configured otherwise than this dtctl and its "
                              "configuration would do it now (login, metadata, or dtctl's own "
                              "scripts); they stay in use, and dtctl up --replace '%s' makes them "
                              "anew",
                              names),
                 "cluster=%s nodes=%s", s->cluster.name, names);
    return 0;
}
