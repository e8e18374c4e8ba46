// SPDX-License-Identifier: Apache-2.0
// The readiness file.
#include "aws/aws_ready.h"

#include "base/log.h"
#include "cluster/nodeset.h"

#include <string.h>

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
    const char *runs; // config_hash of the node; NULL: it was not asked
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

// The nodes that have not passed their checks since they booted, or else those that have and are
// configured otherwise than they should be; folded; NULL: none.
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
