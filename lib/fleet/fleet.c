// SPDX-License-Identifier: Apache-2.0
// Connects to many nodes and runs steps on all of them at once.
//
// A step marks each node busy and starts it; callbacks of the loop end it with fleet_done. Waiting,
// signals and progress are handled in one function.
#include "fleet/fleet.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/nodeset.h"
#include "fleet/embedded_files.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>

static const struct transport *const TRANSPORTS[] = {
    [INVENTORY_LOCAL] = &transport_local,
    [INVENTORY_SSH] = &transport_ssh,
};

static const char *given(const char *text) {
    return text && *text ? text : NULL;
}

struct transport_env fleet_env(struct context *s) {
    const struct config *c = s->config;
    return (struct transport_env){
        .loop = s->loop,
        .env = s->env,
        .ssh_config_path = !option_given(&c->set, "ssh.config") ? NULL
                           : c->ssh.config_file[0]              ? c->ssh.config_file
                                                                : "none",
        .identity_files = c->ssh.identity_files.items,
        .identity_file_count = c->ssh.identity_files.count,
        .identity_path = file_exists(s->cluster.key_path) ? s->cluster.key_path : NULL,
        .known_hosts_path = s->cluster.known_hosts_path,
        .accept_host_keys = c->ssh.accept_host_keys,
        .connect_timeout_ms = c->ssh.connect_timeout_ms,
        .keepalive_ms = c->ssh.keepalive_ms,
    };
}

void fleet_open(struct fleet *f, struct context *s, struct inventory *inv, const size_t *indices,
                size_t count) {
    *f = (struct fleet){.context = s,
                        .count = indices ? count : inv->count,
                        .env = fleet_env(s),
                        .answer_ms = FLEET_ANSWER_MS_MAX};
    f->nodes = arena_new(s->arena, struct fleet_node, f->count ? f->count : 1);
    for (size_t i = 0; i < f->count; i++) {
        f->nodes[i].fleet = f;
        f->nodes[i].index = i;
        f->nodes[i].info = &inv->nodes[indices ? indices[i] : i];
    }
}

void fleet_close(struct fleet *f) {
    timer_stop(&f->tick);
    for (size_t i = 0; i < f->count; i++) {
        timer_stop(&f->nodes[i].answer);
        transport_close(f->nodes[i].link);
        f->nodes[i].link = NULL;
        f->nodes[i].up = false;
    }
}

void fleet_fail(struct fleet_node *n, const struct err *e) {
    if (n->failed)
        return;
    n->failed = true;
    n->err = *e;
}

void fleet_done(struct fleet_node *n, const struct err *e) {
    struct fleet *f = n->fleet;
    bool well = !e || e->code == ERR_NONE;
    if (!n->busy)
        return;
    n->busy = false;
    f->busy--;
    f->under_way -= n->begun;
    n->begun = false;
    if (!well)
        fleet_fail(n, e);
    if (f->has_progress) {
        char took[STR_HUMAN_BYTES_MAX], size[STR_HUMAN_BYTES_MAX], words[64];
        struct progress_row *row = &f->progress.rows[n->index];
        str_human_ms(took, clock_mono_ms() - n->started_ms);
        if (row->total)
            snprintf(words, sizeof words, "%s in %s", str_human_bytes(size, row->total), took);
        else
            snprintf(words, sizeof words, "done in %s", took);
        progress_end(&f->progress, n->index, well, well ? words : n->err.text);
        // In plain style fleet_report prints the failure.
        row->reported |= !well && f->context->screen->style == SCREEN_PLAIN;
    }
}

void fleet_amount(struct fleet_node *n, uint64_t done, uint64_t total) {
    if (n->fleet->has_progress && n->busy)
        progress_set(&n->fleet->progress, n->index, done, total);
}

void fleet_state(struct fleet_node *n, const char *text) {
    if (n->fleet->has_progress && n->busy)
        progress_state(&n->fleet->progress, n->index, text);
}

static void on_tick(struct timer *t) {
    struct fleet *f = container_of(t, struct fleet, tick);
    progress_show(&f->progress, clock_mono_ms());
    timer_start(f->context->loop, t, PROGRESS_DRAW_MS, on_tick);
}

static void open_progress(struct fleet *f, const char *operation) {
    const char **names = arena_new(f->context->arena, const char *, f->count ? f->count : 1);
    for (size_t i = 0; i < f->count; i++)
        names[i] = f->nodes[i].info->name;
    progress_init(&f->progress, f->context->arena, f->context->screen, operation, names, f->count,
                  clock_mono_ms());
    f->has_progress = true;
    for (size_t i = 0; i < f->count; i++) {
        const struct fleet_node *n = &f->nodes[i];
        const char *why = n->failed ? n->err.text : n->left_out;
        progress_state(&f->progress, i,
                       why ? arena_printf(f->context->arena, "left out: %s", why) : "waiting");
        f->progress.rows[i].ended = f->progress.rows[i].reported = why != NULL;
    }
    timer_start(f->context->loop, &f->tick, PROGRESS_DRAW_MS, on_tick);
}

static void close_progress(struct fleet *f) {
    timer_stop(&f->tick);
    if (f->has_progress)
        progress_fini(&f->progress, clock_mono_ms());
    f->has_progress = false;
}

// Starts waiting nodes in order, from *next on.
static void start_nodes(struct fleet *f, fleet_start *start, size_t at_once, size_t *next) {
    for (; *next < f->count && f->under_way < at_once; (*next)++) {
        struct fleet_node *n = &f->nodes[*next];
        struct err why = {0};
        if (!n->busy)
            continue;
        n->begun = true;
        n->started_ms = clock_mono_ms();
        f->under_way++;
        if (start(n, &why) < 0)
            fleet_done(n, &why);
    }
}

int fleet_each_of(struct fleet *f, const char *operation, fleet_start *start, size_t at_once,
                  struct err *e) {
    struct context *s = f->context;
    size_t next = 0;
    if (context_check(s, e) < 0)
        return -1;
    if (operation)
        open_progress(f, operation);
    for (size_t i = 0; i < f->count; i++) {
        f->nodes[i].busy = !f->nodes[i].failed && !f->nodes[i].left_out;
        f->busy += f->nodes[i].busy;
    }
    start_nodes(f, start, at_once, &next);
    while (f->busy > 0 && !s->interrupt) {
        loop_once(s->loop, -1);
        start_nodes(f, start, at_once, &next);
    }
    close_progress(f);
    if (f->busy == 0)
        return 0;
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].busy = f->nodes[i].begun = false;
    f->busy = f->under_way = 0;
    return context_check(s, e);
}

int fleet_each(struct fleet *f, const char *operation, fleet_start *start, struct err *e) {
    return fleet_each_of(f, operation, start, f->count, e);
}

// ---- connecting --------------------------------------------------------------------------------

static int start_install(struct fleet_node *n, struct err *e);
static void link_lost(struct fleet_node *n, const struct err *e);

// Ends the agent installation of a node, so that the next node may begin.
static void install_over(struct fleet_node *n) {
    struct fleet *f = n->fleet;
    timer_stop(&n->answer);
    f->installing -= n->installs;
    n->installs = n->queued = false;
    for (size_t i = 0; i < f->count && f->installing < FLEET_MOVING_NODES_MAX; i++) {
        struct err e = {0};
        if (f->nodes[i].queued && start_install(&f->nodes[i], &e) < 0)
            link_lost(&f->nodes[i], &e);
    }
}

void fleet_unlink(struct fleet_node *n) {
    transport_close(n->link);
    n->link = NULL;
    n->up = n->ready = false; // another machine may be there on reconnection
    install_over(n);
}

static void link_lost(struct fleet_node *n, const struct err *e) {
    fleet_unlink(n);
    if (n->busy)
        fleet_done(n, e);
    else if (n->fleet->on_lost)
        n->fleet->on_lost(n, e);
    else
        fleet_fail(n, e);
}

static void on_link_down(struct transport_link *l, void *ctx, const struct err *e) {
    (void)l;
    link_lost(ctx, e);
}

static void link_ready(struct fleet_node *n) {
    if (n->busy)
        fleet_done(n, NULL);
    else if (n->fleet->on_back)
        n->fleet->on_back(n);
}

static void on_installed(void *ctx, const struct node_facts *facts, const struct err *e) {
    struct fleet_node *n = ctx;
    struct arena *a = n->fleet->context->arena;
    install_over(n);
    if (!facts && n->busy)
        fleet_done(n, e);
    else if (!facts)
        link_lost(n, e);
    if (!facts)
        return;
    n->facts = *facts;
    n->facts.program = arena_strdup(a, facts->program);
    n->facts.root = arena_strdup(a, facts->root);
    n->facts.version = arena_strdup(a, facts->version);
    n->facts.sha256 = arena_strdup(a, facts->sha256);
    n->facts.arch = arena_strdup(a, facts->arch);
    n->facts.kernel = arena_strdup(a, facts->kernel);
    n->facts.hostname = arena_strdup(a, facts->hostname);
    n->facts.user = arena_strdup(a, facts->user);
    n->ready = true;
    link_ready(n);
}

// A connection can be alive while its login shell waits for something.
static void on_no_answer(struct timer *t) {
    struct fleet_node *n = container_of(t, struct fleet_node, answer);
    char time[STR_HUMAN_BYTES_MAX];
    struct err e;
    (void)err_set(&e, ERR_TIMEOUT,
                  "node %s: the login runs no command: no answer for %s; does a line of ~/.bashrc "
                  "or the file server of the home folder hang? (try: ssh %s true)",
                  n->info->name, str_human_ms(time, n->fleet->answer_ms), n->info->name);
    link_lost(n, &e);
}

static void await_answer(struct fleet_node *n) {
    timer_start(n->fleet->context->loop, &n->answer, n->fleet->answer_ms, on_no_answer);
}

static void on_install_progress(void *ctx, uint64_t done, uint64_t total) {
    fleet_amount(ctx, done, total);
    await_answer(ctx);
}

static int start_install(struct fleet_node *n, struct err *e) {
    static const struct agent_install_events events = {on_install_progress, on_installed};
    struct fleet *f = n->fleet;
    struct agent_install_spec spec = {n->info->root, f->agent, f->agent_size, f->agent_sha256,
                                      f->transfers};
    n->queued = f->installing >= FLEET_MOVING_NODES_MAX;
    if (n->queued)
        return 0;
    n->installs = true;
    f->installing++;
    fleet_state(n, "asking the agent");
    await_answer(n);
    return agent_install(n->link, &spec, &events, n, e);
}

static void on_link_open(struct transport_link *l, void *ctx) {
    (void)l;
    struct fleet_node *n = ctx;
    struct err e = {0};
    n->up = true;
    if (!n->fleet->agent || n->ready)
        link_ready(n);
    else if (start_install(n, &e) < 0)
        link_lost(n, &e);
}

static const struct transport_link_events LINK_EVENTS = {on_link_open, on_link_down};

int fleet_link(struct fleet_node *n, struct err *e) {
    const struct config *c = n->fleet->context->config;
    const struct inventory_node *i = n->info;
    struct transport_target target = {
        .node = i->name,
        .host = i->host,
        .user = given(i->user) ? i->user : given(c->ssh.user),
        .port = i->port ? i->port : (int)c->ssh.port,
        .host_key = given(i->host_key),
        .proxy_jump = given(c->ssh.proxy_jump),
        .folder = i->root,
    };
    n->link = transport_open(TRANSPORTS[i->transport], &n->fleet->env, &target, &LINK_EVENTS, n, e);
    return n->link ? 0 : -1;
}

static int start_connect(struct fleet_node *n, struct err *e) {
    if (n->ready || (n->up && !n->fleet->agent)) {
        fleet_done(n, NULL);
        return 0;
    }
    fleet_state(n, "connecting");
    return n->up ? start_install(n, e) : fleet_link(n, e);
}

int fleet_connect(struct fleet *f, bool want_agent, struct err *e) {
    const char *ssh_config = f->env.ssh_config_path;
    if (ssh_config && strcmp(ssh_config, "none") != 0 && file_is_absent(ssh_config))
        return err_set(e, ERR_CONFIG, "ssh.config: there is no file '%s'", ssh_config);
    if (want_agent && !f->agent) {
        const struct embed_file *file = embedded_find("dtrun");
        if (!file)
            return err_set(e, ERR_FAILED, "this dtctl carries no agent: it was built without one");
        f->agent = embedded_unpack(f->context->arena, file, e);
        if (!f->agent)
            return -1;
        f->agent_size = file->size;
        f->agent_sha256 = file->sha256;
    }
    return fleet_each(f, "connect", start_connect, e);
}

// ---- answers and verdicts ----------------------------------------------------------------------

int fleet_send_record(struct transport_run *run, const struct strbuf *text, struct err *e) {
    unsigned char length[4];
    bytes_store(length, text->len, sizeof length);
    if (transport_run_send(run, length, sizeof length) < sizeof length ||
        transport_run_send(run, text->data, text->len) < text->len)
        return err_set(e, ERR_LIMIT, "the job specification has %zu bytes, too many", text->len);
    return 0;
}

char *fleet_line(struct fleet_node *n, enum node_verb_code verb, const char *rest) {
    struct arena *a = n->fleet->context->arena;
    return arena_printf(a, "%s --node %s --root %s%s%s", transport_path_word(a, n->facts.program),
                        node_verb_name(verb), transport_path_word(a, n->facts.root),
                        rest && *rest ? " " : "", rest ? rest : "");
}

// The last line of the text that is not empty.
static const char *last_line(struct arena *a, const char *text, size_t len) {
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    const char *line = memrchr(text, '\n', len);
    size_t from = line ? (size_t)(line + 1 - text) : 0;
    return str_printable(a, text + from, len - from);
}

int fleet_answer(const struct transport_result *r, struct err *e) {
    if (r->end.how == TRANSPORT_EXITED && r->end.status == 0)
        return 0;
    if (r->end.how == TRANSPORT_LOST)
        return err_set(e, ERR_NO_STATUS, "no answer: %s",
                       r->end.err ? r->end.err->text : "the connection ended");
    struct arena a = {0};
    struct json *j = NULL;
    struct err ignored = {0};
    const char *line = last_line(&a, r->out, r->out_len);
    const char *words = last_line(&a, r->err_text, r->err_len);
    int code = ERR_FAILED;
    if (*line == '{' && json_parse(&a, line, strlen(line), &j, &ignored) == 0 &&
        str_eq(json_get_str(j, "event", ""), "error")) {
        const char *name = json_get_str(j, "code", "");
        for (int i = 0; i <= ERR_NO_STATUS; i++)
            code = str_eq(err_name((enum err_code)i), name) ? i : code;
        err_set(e, (enum err_code)code, "%s", json_get_str(j, "text", "no reason given"));
    } else if (r->end.how == TRANSPORT_SIGNALED) {
        err_set(e, ERR_FAILED, "the agent was ended by signal %s", r->end.signal);
    } else {
        err_set(e, ERR_FAILED, "exit status %d%s%s", r->end.status, *words ? ": " : "", words);
    }
    arena_fini(&a);
    return -1;
}

size_t fleet_failures(const struct fleet *f) {
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++)
        n += f->nodes[i].failed;
    return n;
}

void fleet_report(struct fleet *f) {
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        if (!n->failed)
            continue;
        screen_erase(f->context->screen);
        // Errors of a transport already name the node.
        bool named = str_starts(n->err.text, "node ");
        log_error(arena_printf(f->context->arena, "%s%s%s%s", named ? "" : "node '",
                               named ? "" : n->info->name, named ? "" : "': ", n->err.text),
                  "%s", "");
        struct strbuf text = {0};
        struct json_out j;
        screen_event(&text, &j, "node-failed");
        json_str(&j, "node", n->info->name);
        json_str(&j, "code", err_name(n->err.code));
        json_str(&j, "text", n->err.text);
        screen_event_end(f->context->screen, &text, &j);
    }
}

int fleet_verdict(const struct fleet *f, const char *what, struct err *e) {
    struct arena a = {0};
    const char **names = arena_new(&a, const char *, f->count ? f->count : 1);
    size_t failed = 0;
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i].failed)
            names[failed++] = f->nodes[i].info->name;
    int result = 0;
    if (failed)
        result = err_set(e, ERR_SOME_FAILED, "%s: %zu of %zu nodes failed: %s", what, failed,
                         f->count, nodeset_fold(&a, names, failed));
    arena_fini(&a);
    return result;
}

// ---- steps that continue after a lost connection -----------------------------------------------

// True when the step failed here because the connection broke.
static bool was_cut(const struct fleet_node *n) {
    enum err_code c = n->err.code;
    return n->failed && !n->up && (c == ERR_NET || c == ERR_TIMEOUT || c == ERR_NO_STATUS);
}

// Includes the cut-off nodes again and leaves out the finished ones. Returns the number of the
// former.
static size_t take_back(struct fleet *f, const bool *failed_before, void *const *work) {
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct fleet_node *n = &f->nodes[i];
        bool again = !failed_before[i] && was_cut(n);
        n->left_out = again ? NULL : "its part is finished";
        if (!again)
            continue;
        log_warn("a connection was lost; trying again", "node=%s reason=\"%s\"", n->info->name,
                 n->err.text);
        n->failed = false;
        n->work = work[i];
        err_clear(&n->err);
        count++;
    }
    return count;
}

int fleet_each_resumed(struct fleet *f, const char *operation, fleet_start *start, struct err *e) {
    return fleet_each_resumed_of(f, operation, start, FLEET_MOVING_NODES_MAX, e);
}

int fleet_each_resumed_of(struct fleet *f, const char *operation, fleet_start *start,
                          size_t at_once, struct err *e) {
    struct arena *a = f->context->arena;
    bool *failed_before = arena_new(a, bool, f->count);
    void **work = arena_new(a, void *, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        failed_before[i] = f->nodes[i].failed;
        work[i] = f->nodes[i].work;
    }
    int result = fleet_each_of(f, operation, start, at_once, e);
    for (int retry = 0; result == 0 && retry < FLEET_RETRIES_MAX; retry++) {
        if (take_back(f, failed_before, work) == 0)
            break;
        result = context_pause(f->context, FLEET_RETRY_PAUSE_MS, e);
        if (result == 0)
            result = fleet_connect(f, true, e);
        if (result == 0)
            result = fleet_each_of(f, operation, start, at_once, e);
    }
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].left_out = NULL;
    return result;
}
