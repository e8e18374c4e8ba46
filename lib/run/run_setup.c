// SPDX-License-Identifier: Apache-2.0
// The operator's side of [setup], and of unpacking env.bundle; lib/node/node_setup.c is the node's.
#include "run/run_setup.h"

#include "base/json.h"
#include "fleet/hashing.h"
#include "sys/file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 64 * 1024 };

// ---- files for the nodes ------------------------------------------------------------------------

static bool is_sent(const struct manifest *m, const char *path) {
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->entries[i].path, path) == 0)
            return true;
    return false;
}

// The files keep their paths, below the folder that the script runs in.
static int add_needs(struct run_start *l, struct manifest *needs, struct err *e) {
    struct arena *a = l->context->arena;
    const struct option_list *list = &l->context->config->setup.needs;
    struct manifest_rules rules = {.ignore_default = true};
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->items[i];
        while (str_starts(path, "./"))
            path += 2;
        if (!file_is_safe_relative(path, strlen(path)))
            return err_set(e, ERR_CONFIG, "'%s' is not below the current folder", path);
        if (manifest_add_path(needs, path, path, &rules, e) < 0)
            return err_wrap(e, "'%s'", path);
    }
    for (size_t i = 0; i < needs->count; i++) {
        struct manifest_entry entry = needs->entries[i];
        entry.path = file_join(a, run_node_dir(a, l->run.id, "work"), entry.path);
        if (!is_sent(l->common, entry.path) && manifest_append(l->common, &entry, e) < 0)
            return -1;
    }
    return needs->count ? hashing_run(l->context, needs, e) : 0;
}

// bundle: hash of the environment that the script runs in; NULL: none.
static void key_of(unsigned char key[HASH_BYTES], const char *script, const struct manifest *needs,
                   const char *bundle) {
    unsigned char part[HASH_BYTES];
    struct hash h;
    hash_init(&h);
    hash_of(part, script, strlen(script));
    hash_add(&h, part, sizeof part);
    manifest_digest(needs, part);
    hash_add(&h, part, sizeof part);
    if (bundle)
        hash_add(&h, bundle, strlen(bundle));
    hash_final(&h, key);
}

int run_start_setup(struct run_start *l, struct err *e) {
    struct context *c = l->context;
    const char *script = c->config->setup.run;
    unsigned char key[HASH_BYTES];
    if (!script[strspn(script, " \t\n")])
        return 0;
    struct manifest *needs = manifest_new();
    int rc = add_needs(l, needs, e);
    if (rc == 0) {
        char *hex = arena_new(c->arena, char, HASH_HEX_BYTES);
        key_of(key, script, needs, l->spec.bundle_hash);
        hash_hex(hex, key);
        l->spec.setup = script;
        l->spec.setup_hash = hex;
        l->setup_dir = run_path(&c->cluster, &l->run, "setup");
    }
    manifest_free(needs);
    return rc < 0 ? err_wrap(e, "%s", config_where(c->config, "setup.needs")) : 0;
}

// ---- one node -----------------------------------------------------------------------------------

static void on_answer(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct node_setup *s = ctx;
    (void)r;
    strbuf_add(&s->answer, p, len);
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct node_setup *s = ctx;
    struct err ignored = {0};
    (void)r;
    (void)file_write_all(s->log_fd, p, len, &ignored);
    size_t take = len < SETUP_TAIL_BYTES_MAX ? len : SETUP_TAIL_BYTES_MAX;
    strbuf_add(&s->tail, (const char *)p + len - take, take);
    if (s->tail.len > SETUP_TAIL_BYTES_MAX)
        strbuf_consume(&s->tail, s->tail.len - SETUP_TAIL_BYTES_MAX);
}

static void read_answer(struct node_setup *s) {
    struct arena a = {0};
    struct json *j = NULL;
    struct err ignored = {0};
    if (json_parse(&a, strbuf_cstr(&s->answer), s->answer.len, &j, &ignored) == 0)
        s->ran = json_get_bool(j, "ran", false);
    arena_fini(&a);
}

static void show_tail(const struct node_setup *s) {
    struct context *c = s->node->fleet->context;
    const char *text = strbuf_cstr((struct strbuf *)&s->tail);
    const char *line = text;
    if (s->tail.len == SETUP_TAIL_BYTES_MAX && strchr(text, '\n')) // the first line is a part
        line = strchr(text, '\n') + 1;
    while (*line) {
        size_t len = strcspn(line, "\r\n");
        if (len)
            screen_note(c->screen, "[%s setup] %s", s->node->info->name,
                        str_printable(c->arena, line, len));
        line += len + (line[len] != '\0');
    }
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct node_setup *s = ctx;
    struct err e = {0};
    struct transport_result all = {
        .end = *end, .out = strbuf_cstr(&s->answer), .out_len = s->answer.len, .err_text = ""};
    (void)r;
    s->run = NULL;
    if (fleet_answer(&all, &e) == 0)
        read_answer(s);
    else
        show_tail(s);
    node_setup_close(s);
    s->on_over(s, &e);
}

static void on_limit(struct timer *t) {
    struct node_setup *s = container_of(t, struct node_setup, limit);
    struct err e = {0};
    err_set(&e, ERR_TIMEOUT, "the setup takes longer than %lld s (setup.timeout)",
            (long long)s->start->context->config->setup.timeout_ms / 1000);
    show_tail(s);
    node_setup_close(s);
    s->on_over(s, &e);
}

static int open_log(struct node_setup *s, struct err *e) {
    struct arena *a = s->start->context->arena;
    const char *name = arena_printf(a, "%s.log", s->node->info->name);
    const char *path = file_join(a, s->start->setup_dir, name);
    if (file_make_dirs(s->start->setup_dir, 0755, e) < 0)
        return -1;
    s->log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return s->log_fd < 0 ? err_errno(e, ERR_SYS, "cannot write '%s'", path) : 0;
}

int node_setup_begin(struct node_setup *s, struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_answer, .on_error = on_output, .on_end = on_end};
    struct fleet_node *n = s->node;
    struct context *c = n->fleet->context;
    struct job_spec spec = s->start->spec;
    struct strbuf text = {0};
    spec.node = n->info->name;
    spec.address = n->info->address;
    strbuf_init(&s->answer, ANSWER_BYTES_MAX);
    strbuf_init(&s->tail, 2 * SETUP_TAIL_BYTES_MAX);
    if (open_log(s, e) < 0)
        return -1;
    job_spec_format(&spec, false, &text);
    char *rest = arena_printf(c->arena, "--run %s", spec.run);
    s->run = transport_run(
        n->link, &(struct transport_command){.line = fleet_line(n, NODE_VERB_SETUP, rest)}, &events,
        s, e);
    int result = s->run ? fleet_send_record(s->run, &text, e) : -1;
    strbuf_fini(&text);
    if (result < 0)
        node_setup_close(s);
    else // standard input stays open: its end stops the script
        timer_start(c->loop, &s->limit, c->config->setup.timeout_ms, on_limit);
    return result;
}

void node_setup_close(struct node_setup *s) {
    if (s->run)
        transport_run_close(s->run);
    s->run = NULL;
    timer_stop(&s->limit);
    if (s->log_fd > 0)
        close(s->log_fd);
    s->log_fd = 0;
    strbuf_fini(&s->answer);
    strbuf_fini(&s->tail);
}

// ---- all nodes ----------------------------------------------------------------------------------

static void on_ready(struct node_setup *s, const struct err *e) {
    if (!e->code && !s->ran)
        fleet_state(s->node, "was ready");
    fleet_done(s->node, e);
}

static int begin(struct fleet_node *n, struct err *e) {
    return node_setup_begin(n->work, e);
}

int node_setup_each(struct run_start *l, struct fleet *f, struct err *e) {
    if (!job_needs_setup(&l->spec))
        return 0;
    struct node_setup *all = arena_new(l->context->arena, struct node_setup, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        all[i] = (struct node_setup){.node = &f->nodes[i], .start = l, .on_over = on_ready};
        f->nodes[i].work = &all[i];
    }
    int rc = fleet_each(f, "setup", begin, e);
    for (size_t i = 0; i < f->count; i++) {
        node_setup_close(&all[i]);
        f->nodes[i].work = NULL;
    }
    return rc;
}
