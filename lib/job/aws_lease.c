// SPDX-License-Identifier: Apache-2.0
// Reading and moving deadlines.
#include "job/aws_lease.h"

#include "base/clock.h"
#include "job/aws_cluster.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

enum { STAMP_BYTES_MAX = 64 };
static const int64_t DEADLINE_S_MAX = 99999999999;

struct lease_work {
    int64_t deadline_s; // 0: it said none
    const char *line;
};

static const char *path_of(struct session *s) {
    return file_join(s->arena, s->cluster.dir, "terraform/lease");
}

const char *aws_lease_extended(struct session *s) {
    char *text;
    size_t len;
    struct err ignored = {0};
    if (file_read(s->arena, path_of(s), STAMP_BYTES_MAX, &text, &len, &ignored) < 0)
        return NULL;
    text[strcspn(text, "\r\n")] = 0;
    return text[0] ? text : NULL;
}

void aws_lease_forget(struct session *s) {
    unlink(path_of(s));
}

static void on_answer(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct lease_work *w = n->work;
    struct err e = {0}, no_number = {0};
    char *text = arena_strndup(n->fleet->session->arena, r->out, r->out_len);
    text[strcspn(text, "\r\n")] = 0;
    if (fleet_answer(r, &e) == 0 && text[0] &&
        str_parse_i64(text, 0, DEADLINE_S_MAX, &w->deadline_s, &no_number) < 0)
        w->deadline_s = 0;
    fleet_done(n, &e);
}

static int start(struct fleet_node *n, struct err *e) {
    struct lease_work *w = n->work;
    return transport_collect(n->link, w->line, NULL, 0, on_answer, n, e);
}

static struct lease_work *prepare(struct fleet *f, const char *line) {
    struct lease_work *work = arena_new(f->session->arena, struct lease_work, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        work[i].line = line;
        f->nodes[i].work = &work[i];
    }
    return work;
}

int aws_lease_get(struct fleet *f, int64_t *wall_ms, struct err *e) {
    // A node without a lease has no file; the deadline it made itself is root's.
    struct lease_work *work =
        prepare(f, "cat /var/lib/dtctl/lease 2>/dev/null || "
                   "sudo -n cat /var/lib/dtctl/own/lease 2>/dev/null || true");
    *wall_ms = 0;
    if (fleet_each(f, NULL, start, e) < 0)
        return -1;
    for (size_t i = 0; i < f->count; i++) {
        int64_t at = work[i].deadline_s * 1000;
        if (at && (*wall_ms == 0 || at < *wall_ms))
            *wall_ms = at;
    }
    return 0;
}

int aws_lease_set(struct fleet *f, int64_t wall_ms, struct err *e) {
    struct session *s = f->session;
    char stamp[CLOCK_ISO_BYTES];
    // Renamed into place, so that the unit that reads it never sees half of it.
    prepare(f, arena_printf(s->arena,
                            "umask 022; f=/var/lib/dtctl/lease; echo %lld > $f.$$ && "
                            "mv -f $f.$$ $f && cat $f",
                            (long long)(wall_ms / 1000)));
    if (fleet_each(f, NULL, start, e) < 0)
        return -1;
    const char *text = arena_printf(s->arena, "%.19sZ\n", clock_iso(stamp, wall_ms));
    if (fleet_failures(f) == f->count)
        return 0;
    return file_write_atomic(path_of(s), text, strlen(text), 0600, e);
}

int aws_lease_gone(struct session *s, const struct inventory *inv, bool *gone, struct err *e) {
    struct terraform t;
    struct aws_found found = {0};
    const char *region;
    if (aws_cluster_region(s, &region, e) < 0 || terraform_open(&t, s, region, e) < 0 ||
        aws_sweep_find(&t, region, inv->name, NULL, 0, &found, e) < 0)
        return -1;
    for (size_t i = 0; i < inv->count; i++) {
        gone[i] = inv->nodes[i].instance_id && inv->nodes[i].instance_id[0];
        for (size_t k = 0; k < found.count; k++)
            if (str_eq(found.items[k].id, inv->nodes[i].instance_id))
                gone[i] = false;
    }
    return 0;
}
