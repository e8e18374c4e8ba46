// SPDX-License-Identifier: Apache-2.0
// The readiness file.
#include "job/aws_ready.h"

#include "base/log.h"

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

static void judge(const struct fleet_node *n, const struct aws_ready *ready) {
    const char *wanted = n->info->config_hash ? n->info->config_hash : "";
    if (!ready->config_hash[0])
        log_warn("a node has not passed its checks since it booted; dtctl ssh to it and look at "
                 "journalctl -u dtctl-boot",
                 "node=%s", n->info->name);
    else if (wanted[0] && strcmp(wanted, ready->config_hash) != 0)
        log_warn("a node is configured otherwise than the configuration says (lease, login, or "
                 "dtctl's own scripts); dtctl up --replace makes it anew",
                 "node=%s runs=%.12s wanted=%.12s", n->info->name, ready->config_hash, wanted);
}

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct aws_ready ready;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0) {
        aws_ready_parse(n->fleet->session->arena, r->out, r->out_len, &ready);
        judge(n, &ready);
    }
    fleet_done(n, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    return transport_collect(n->link, "cat /var/lib/dtctl/ready 2>/dev/null || true", NULL, 0,
                             on_answer, n, e);
}

int aws_ready_check(struct fleet *f, struct err *e) {
    return fleet_each(f, NULL, start, e);
}
