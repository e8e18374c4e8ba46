// SPDX-License-Identifier: Apache-2.0
// The reachability matrix. With many nodes a subset is checked that still detects every partition:
// peers at distances 1, 2, 4 … and the first nodes.
//
// File `reached` of the cluster has a line for each node of the last successful check. Pairs of
// unchanged nodes in it are not checked again.
#include "fleet/network_check.h"

#include "cluster/cluster_folder.h"
#include "sys/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
    REASONS_SHOWN_MAX = 4,
    ANSWER_BYTES_MAX = 4096,
    ALL_PAIRS_NODES_MAX = 32, // with more nodes each asks a logarithmic number of peers
    FIRST_NODES = 3,          // asked by all nodes, since they may become coordinator
};

struct reach_node {
    struct transport_run *run; // the listener
    struct strbuf out;
    int port;   // 0 until it listens
    bool known; // one of the nodes of the last successful check
};

// ---- listening ---------------------------------------------------------------------------------

static void on_listen_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    struct fleet_node *n = ctx;
    struct reach_node *w = n->work;
    strbuf_add(&w->out, p, len);
    if (w->out.len > ANSWER_BYTES_MAX || !memchr(w->out.data, '\n', w->out.len) || w->port)
        return;
    struct arena a = {0};
    struct json *j = NULL;
    struct err e = {0};
    if (json_parse(&a, w->out.data, strcspn(w->out.data, "\n"), &j, &e) == 0) {
        w->port = (int)json_get_int(j, "port", 0);
        if (w->port == 0)
            err_set(&e, ERR_FAILED, "it cannot listen on %s: %s", n->info->address,
                    json_get_str(j, "text", "no reason given"));
    }
    arena_fini(&a);
    fleet_done(n, &e);
}

static void on_listen_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    (void)r;
    struct fleet_node *n = ctx;
    struct reach_node *w = n->work;
    struct err e = {0};
    w->run = NULL;
    err_set(&e, ERR_FAILED, "the check of its ports ended early (%s)",
            end->err ? end->err->text : "by itself");
    fleet_done(n, &e);
}

static int start_listening(struct fleet_node *n, struct err *e) {
    static const struct transport_run_events events = {.on_output = on_listen_output,
                                                       .on_end = on_listen_end};
    struct arena *a = n->fleet->context->arena;
    struct reach_node *w = n->work;
    char *line =
        fleet_line(n, NODE_VERB_PROBE,
                   arena_printf(a, "--listen %s --name %s", n->info->address, n->info->name));
    w->run = transport_run(n->link, &(struct transport_command){.line = line}, &events, n, e);
    return w->run ? 0 : -1;
}

// ---- connecting --------------------------------------------------------------------------------

static const char *words_of(struct arena *a, const struct json *j, const char *key,
                            const char *otherwise) {
    const char *text = json_get_str(j, key, otherwise);
    return str_printable(a, text, strlen(text));
}

// Parses one line of a prober's answer; appends failures to the list.
static void read_answer(struct arena *a, const char *line, struct strbuf *bad, size_t *bad_count) {
    struct json *j = NULL;
    struct err e = {0};
    if (!line[0] || json_parse(a, line, strlen(line), &j, &e) < 0 || json_get_bool(j, "ok", false))
        return;
    if ((*bad_count)++ < REASONS_SHOWN_MAX)
        strbuf_addf(bad, "%s%s (%s)", bad->len ? ", " : "", words_of(a, j, "peer", "?"),
                    words_of(a, j, "why", "no reason given"));
}

const char *network_check_remedy(const struct fleet *f) {
    size_t kinds[2] = {0};
    for (size_t i = 0; i < f->count; i++)
        kinds[strchr(f->nodes[i].info->address, ':') != NULL]++;
    return kinds[0] && kinds[1]
               ? "some addresses are IPv4 and some IPv6: list addresses of one kind"
               : "open all TCP ports between the nodes";
}

static void on_connected(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct arena a = {0};
    struct err e = {0};
    struct strbuf bad = {0};
    size_t bad_count = 0;
    char **lines = NULL;
    if (fleet_answer(r, &e) == 0) {
        size_t count = str_split(&a, r->out, '\n', &lines);
        for (size_t i = 0; i < count; i++)
            read_answer(&a, lines[i], &bad, &bad_count);
        if (bad_count)
            err_set(&e, ERR_NET, "it does not reach %zu of its peers: %s%s; %s", bad_count,
                    strbuf_cstr(&bad), bad_count > REASONS_SHOWN_MAX ? " …" : "",
                    network_check_remedy(n->fleet));
    }
    strbuf_fini(&bad);
    arena_fini(&a);
    fleet_done(n, &e);
}

bool network_check_asks(size_t from, size_t to, size_t count) {
    size_t distance = (to + count - from) % count;
    return from != to &&
           (count <= ALL_PAIRS_NODES_MAX || to < FIRST_NODES || (distance & (distance - 1)) == 0);
}

static int start_connecting(struct fleet_node *n, struct err *e) {
    struct fleet *f = n->fleet;
    struct strbuf peers = {0};
    bool known = ((const struct reach_node *)n->work)->known;
    for (size_t i = 0; i < f->count; i++) {
        const struct fleet_node *to = &f->nodes[i];
        const struct reach_node *w = to->work;
        if (!to->failed && w && w->port && !(known && w->known) &&
            network_check_asks(n->index, i, f->count))
            strbuf_addf(&peers, "%s %s %d\n", to->info->name, to->info->address, w->port);
    }
    int result = 0;
    if (peers.len)
        result = transport_collect(n->link, fleet_line(n, NODE_VERB_PROBE, "--connect"),
                                   strbuf_cstr(&peers), peers.len, on_connected, n, e);
    else
        fleet_done(n, NULL);
    strbuf_fini(&peers);
    return result;
}

// ---- earlier results ---------------------------------------------------------------------------

static const char *line_of(struct arena *a, const struct inventory_node *n) {
    return arena_printf(a, "%s %s %s", n->name, n->address,
                        n->instance_id && *n->instance_id ? n->instance_id : "-");
}

// Returns the number of new or changed nodes.
static size_t recall(struct fleet *f, const char *path, struct reach_node *work) {
    struct arena a = {0};
    struct err ignored = {0};
    char *text = NULL, **lines = NULL;
    size_t len = 0, count = 0, unknown = 0;
    if (file_read(&a, path, INVENTORY_BYTES_MAX, &text, &len, &ignored) == 0)
        count = str_split(&a, text, '\n', &lines);
    for (size_t i = 0; i < f->count; i++) {
        const char *line = line_of(&a, f->nodes[i].info);
        for (size_t k = 0; k < count && !work[i].known; k++)
            work[i].known = strcmp(lines[k], line) == 0;
        unknown += !work[i].known && !f->nodes[i].failed;
    }
    arena_fini(&a);
    return unknown;
}

static int remember(const struct fleet *f, const char *path, struct err *e) {
    struct arena a = {0};
    struct strbuf text = {0};
    for (size_t i = 0; i < f->count; i++)
        strbuf_addf(&text, "%s\n", line_of(&a, f->nodes[i].info));
    int result = file_write_atomic(path, strbuf_cstr(&text), text.len, 0600, e);
    strbuf_fini(&text);
    arena_fini(&a);
    return result;
}

int network_check(struct fleet *f, struct err *e) {
    struct context *s = f->context;
    const char *path = s->cluster.reached_path;
    struct reach_node *work = arena_new(s->arena, struct reach_node, f->count + 1);
    if (recall(f, path, work) == 0)
        return 0;
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_SYS, "cannot remove '%s'", path);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = &work[i];
    int result = fleet_each(f, NULL, start_listening, e);
    if (result == 0)
        result = fleet_each(f, NULL, start_connecting, e);
    for (size_t i = 0; i < f->count; i++) {
        struct reach_node *w = f->nodes[i].work;
        if (w->run)
            transport_run_close(w->run);
        strbuf_fini(&w->out);
        f->nodes[i].work = NULL;
    }
    if (result == 0 && fleet_failures(f) == 0)
        result = remember(f, path, e);
    return result;
}
