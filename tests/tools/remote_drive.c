// SPDX-License-Identifier: Apache-2.0
// Drives lib/remote from test scripts and benchmarks without the rest of dtctl:
//
//     remote_drive [OPTION…] exec HOST COMMAND          output and exit status of the command
//     remote_drive [OPTION…] talk HOST COMMANDS ROUNDS  so many at once that answer each line on
//     both
//                                                       streams; prints the longest wait in ms
//     remote_drive [OPTION…] hello HOST DTRUN ROOT      bootstrap: uploads DTRUN, prints the facts
//     remote_drive [OPTION…] push HOST DTRUN ROOT DEST PATH…
//     remote_drive [OPTION…] fetch HOST DTRUN ROOT DEST PATH…
//
// HOST "local:FOLDER" runs on this machine. Several hosts at once: "a,b,c".
// Options: --config F, --known-hosts F, --identity F, --accept, --host-key K, --jump J, --user U,
// --port N, --timeout-ms N, --keepalive-ms N, --connections N, --no-compress, --replace, --cache F,
// --idle-ms N (before exec; over each answer of talk), --pty, --input TEXT, --exclude P.
// Prints one JSON line per event on standard output for hello, push and fetch. Exit status: the
// command's, 1 for an error (text on standard error), 4 when a command gave no status.
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "remote/transport.h"
#include "sys/file.h"
#include "xfer/agent_bootstrap.h"
#include "xfer/xfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DRIVE_HOSTS_MAX = 64,
    DRIVE_PROGRAM_BYTES_MAX = 64 << 20,
    DRIVE_TALKS_MAX = 64,
    TALK_ANSWER_BYTES = 4
};

struct drive {
    struct loop *loop;
    struct transport_env env;
    struct transport_target target;
    const char *verb, *cache, *input, *exclude;
    char **args; // after HOST
    int arg_count;
    bool pty, no_compress, replace;
    int connections, idle_ms, left, status;
    struct arena arena;
    struct manifest *manifest;
    char *program;
    size_t program_len;
    char program_hash[HASH_HEX_BYTES];
};

struct node {
    struct transport_run *talks[DRIVE_TALKS_MAX];
    int talk_count, talks_left, rounds_left, answers_left;
    int64_t asked_ms, slowest_ms;
    struct drive *d;
    char *name;
    struct transport_link *link;
    int64_t start_ms;
    struct timer idle;
};

static void finish(struct node *n, int status) {
    timer_stop(&n->idle);
    if (status > n->d->status)
        n->d->status = status;
    transport_close(n->link);
    n->link = NULL;
    if (--n->d->left == 0)
        loop_stop(n->d->loop);
}

static void fail(struct node *n, const struct err *e) {
    fprintf(stderr, "error: %s: %s\n", err_name(e->code), e->text);
    finish(n, 1);
}

// ---- exec -------------------------------------------------------------------------------------

static void exec_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    (void)ctx;
    fwrite(p, 1, len, stdout);
}

static void exec_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    (void)ctx;
    fwrite(p, 1, len, stderr);
}

static void exec_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct node *n = ctx;
    (void)r;
    fflush(stdout);
    if (end->how == TRANSPORT_LOST) {
        fprintf(stderr, "no status: %s: %s\n", err_name(end->err->code), end->err->text);
        finish(n, 4);
        return;
    }
    if (end->how == TRANSPORT_SIGNALED)
        fprintf(stderr, "signal: %s\n", end->signal);
    finish(n, end->status);
}

static const struct transport_run_events exec_events = {
    .on_output = exec_output, .on_error = exec_error, .on_end = exec_end};

static void start_exec(struct node *n) {
    struct err e;
    struct transport_command c = {.line = n->d->arg_count ? n->d->args[0] : NULL,
                                  .pty = n->d->pty,
                                  .term = "xterm",
                                  .columns = 91,
                                  .rows = 31};
    struct transport_run *r = transport_run(n->link, &c, &exec_events, n, &e);
    if (!r) {
        fail(n, &e);
        return;
    }
    if (n->d->input)
        transport_run_send(r, n->d->input, strlen(n->d->input));
    if (!n->d->pty)
        transport_run_send_end(r);
}

static void on_idle(struct timer *t) {
    start_exec(container_of(t, struct node, idle));
}

static int number(const char *s) {
    struct err e;
    int64_t v;
    if (str_parse_i64(s, 0, 1000000, &v, &e) == 0)
        return (int)v;
    fprintf(stderr, "%s\n", e.text);
    exit(2);
}

// ---- talk -------------------------------------------------------------------------------------

// All at once, so that nothing else comes once the last answer is here.
static void talk_ask(struct node *n) {
    n->asked_ms = clock_mono_ms();
    n->answers_left = TALK_ANSWER_BYTES * n->talk_count;
    bool more = n->rounds_left-- > 0;
    for (int i = 0; i < n->talk_count; i++) {
        if (more)
            transport_run_send(n->talks[i], "x\n", 2);
        else
            transport_run_send_end(n->talks[i]);
    }
}

static void talk_waited(struct node *n) {
    int64_t ms = clock_mono_ms() - n->asked_ms;
    n->slowest_ms = ms > n->slowest_ms ? ms : n->slowest_ms;
}

static void talk_answer(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct node *n = ctx;
    (void)r;
    (void)p;
    usleep((useconds_t)n->d->idle_ms * 1000); // meanwhile others answer
    n->answers_left -= (int)len;
    if (n->answers_left > 0)
        return;
    talk_waited(n);
    talk_ask(n);
}

static void talk_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct node *n = ctx;
    (void)r;
    if (end->how != TRANSPORT_EXITED || end->status || n->rounds_left >= 0)
        n->d->status = 1;
    if (--n->talks_left == 0) {
        talk_waited(n);
        printf("%lld\n", (long long)n->slowest_ms);
        finish(n, n->d->status);
    }
}

static const struct transport_run_events talk_events = {
    .on_output = talk_answer, .on_error = talk_answer, .on_end = talk_end};

static void start_talks(struct node *n) {
    struct transport_command c = {.line = "while read -r x; do echo $x >&2; echo $x; done"};
    struct err e;
    n->talks_left = n->talk_count = number(n->d->args[0]);
    n->rounds_left = number(n->d->args[1]);
    if (n->talk_count < 1 || n->talk_count > DRIVE_TALKS_MAX)
        exit(2);
    for (int i = 0; i < n->talk_count; i++) {
        n->talks[i] = transport_run(n->link, &c, &talk_events, n, &e);
        if (!n->talks[i]) {
            fail(n, &e);
            return;
        }
    }
    talk_ask(n);
}

// ---- push and fetch ---------------------------------------------------------------------------

static void print_event(struct node *n, const char *event, const struct xfer_progress *p) {
    struct strbuf b = {0};
    struct json_out j;
    json_open(&j, &b);
    json_object(&j, NULL);
    json_str(&j, "event", event);
    json_str(&j, "node", n->name);
    json_int(&j, "ms", clock_mono_ms() - n->start_ms);
    json_str(&j, "phase", p->phase);
    json_int(&j, "bytes_done", (int64_t)p->bytes_done);
    json_int(&j, "bytes_total", (int64_t)p->bytes_total);
    json_int(&j, "bytes_wire", (int64_t)p->bytes_wire);
    json_int(&j, "files_done", (int64_t)p->files_done);
    json_int(&j, "files_total", (int64_t)p->files_total);
    json_int(&j, "files_all", (int64_t)p->files_all);
    json_end(&j);
    printf("%s\n", strbuf_cstr(&b));
    strbuf_fini(&b);
}

static void xfer_progress(struct xfer *x, void *ctx, const struct xfer_progress *p) {
    (void)x;
    print_event(ctx, "progress", p);
    fflush(stdout);
}

static void xfer_end(struct xfer *x, void *ctx, const struct err *e,
                     const struct xfer_progress *p) {
    struct node *n = ctx;
    (void)x;
    print_event(n, e->code ? "failed" : "done", p);
    if (e->code)
        fail(n, e);
    else
        finish(n, 0);
}

static const struct xfer_events xfer_driven = {.on_progress = xfer_progress, .on_end = xfer_end};

static void start_xfer(struct node *n, const struct node_facts *f) {
    struct drive *d = n->d;
    struct err e;
    struct xfer *x;
    if (str_eq(d->verb, "push")) {
        struct xfer_push_spec spec = {
            .program = f->program,
            .root = f->root,
            .dest = d->args[2],
            .mode = d->replace ? XFER_REPLACE : XFER_MERGE,
            .manifest = d->manifest,
            .connections = d->connections,
            .no_compress = d->no_compress,
        };
        x = xfer_push(n->link, &spec, &xfer_driven, n, &e);
    } else {
        const char *exclude[] = {d->exclude, NULL};
        struct xfer_fetch_spec spec = {
            .program = f->program,
            .root = f->root,
            .paths = (const char *const *)d->args + 3,
            .dest = d->args[2],
            .hash_cache_path = d->cache,
            .exclude = exclude,
            .no_compress = d->no_compress,
        };
        x = xfer_fetch(n->link, &spec, &xfer_driven, n, &e);
    }
    if (!x)
        fail(n, &e);
}

// ---- bootstrap --------------------------------------------------------------------------------

static void print_facts(struct node *n, const struct node_facts *f) {
    struct strbuf b = {0};
    struct json_out j;
    json_open(&j, &b);
    json_object(&j, NULL);
    json_str(&j, "node", n->name);
    json_str(&j, "program", f->program);
    json_str(&j, "root", f->root);
    json_str(&j, "sha256", f->sha256);
    json_str(&j, "arch", f->arch);
    json_str(&j, "hostname", f->hostname);
    json_str(&j, "user", f->user);
    json_int(&j, "cpus", f->cpus);
    json_int(&j, "memory_bytes", (int64_t)f->memory_bytes);
    json_int(&j, "disk_free_bytes", (int64_t)f->disk_free_bytes);
    json_int(&j, "clock_skew_ms", f->clock_skew_ms);
    json_bool(&j, "uploaded", f->uploaded);
    json_end(&j);
    printf("%s\n", strbuf_cstr(&b));
    strbuf_fini(&b);
}

static void installed(void *ctx, const struct node_facts *facts, const struct err *e) {
    struct node *n = ctx;
    if (e) {
        fail(n, e);
        return;
    }
    if (str_eq(n->d->verb, "hello")) {
        print_facts(n, facts);
        finish(n, 0);
        return;
    }
    start_xfer(n, facts);
}

static const struct agent_install_events install_events = {.on_done = installed};

static void opened(struct transport_link *l, void *ctx) {
    struct node *n = ctx;
    struct drive *d = n->d;
    struct err e;
    if (str_eq(d->verb, "exec")) {
        timer_start(d->loop, &n->idle, d->idle_ms, on_idle);
        return;
    }
    if (str_eq(d->verb, "talk")) {
        start_talks(n);
        return;
    }
    struct agent_install_spec spec = {.root = d->args[1],
                                      .data = d->program,
                                      .size = d->program_len,
                                      .sha256 = d->program_hash,
                                      .stay = !str_eq(d->verb, "hello")};
    if (agent_install(l, &spec, &install_events, n, &e) < 0)
        fail(n, &e);
}

static void down(struct transport_link *l, void *ctx, const struct err *e) {
    (void)l;
    struct node *n = ctx;
    if (n->link && !(str_eq(n->d->verb, "exec") && n->d->status == 4))
        fail(n, e);
}

static const struct transport_link_events link_events = {.on_open = opened, .on_down = down};

// ---- main -------------------------------------------------------------------------------------

static int options(struct drive *d, int argc, char **argv) {
    int i = 1;
    for (; i < argc && str_starts(argv[i], "--"); i++) {
        const char *o = argv[i] + 2;
        if (str_eq(o, "accept"))
            d->env.accept_host_keys = true;
        else if (str_eq(o, "pty"))
            d->pty = true;
        else if (str_eq(o, "no-compress"))
            d->no_compress = true;
        else if (str_eq(o, "replace"))
            d->replace = true;
        else if (i + 1 == argc)
            return -1;
        else if (str_eq(o, "config"))
            d->env.ssh_config_path = argv[++i];
        else if (str_eq(o, "known-hosts"))
            d->env.known_hosts_path = argv[++i];
        else if (str_eq(o, "identity"))
            d->env.identity_path = argv[++i];
        else if (str_eq(o, "host-key"))
            d->target.host_key = argv[++i];
        else if (str_eq(o, "jump"))
            d->target.proxy_jump = argv[++i];
        else if (str_eq(o, "user"))
            d->target.user = argv[++i];
        else if (str_eq(o, "port"))
            d->target.port = number(argv[++i]);
        else if (str_eq(o, "timeout-ms"))
            d->env.connect_timeout_ms = number(argv[++i]);
        else if (str_eq(o, "keepalive-ms"))
            d->env.keepalive_ms = number(argv[++i]);
        else if (str_eq(o, "connections"))
            d->connections = number(argv[++i]);
        else if (str_eq(o, "idle-ms"))
            d->idle_ms = number(argv[++i]);
        else if (str_eq(o, "cache"))
            d->cache = argv[++i];
        else if (str_eq(o, "input"))
            d->input = argv[++i];
        else if (str_eq(o, "exclude"))
            d->exclude = argv[++i];
        else
            return -1;
    }
    return i;
}

static int add_paths(struct drive *d, struct err *e) {
    struct manifest_rules rules = {.ignore_default = true};
    d->manifest = manifest_new();
    for (int i = 3; i < d->arg_count; i++) {
        bool content = str_ends(d->args[i], "/");
        char *path = arena_strndup(&d->arena, d->args[i], strlen(d->args[i]) - content);
        if (manifest_add_path(d->manifest, path, content ? "" : file_base(path), &rules, e) < 0)
            return -1;
    }
    return manifest_hash(d->manifest, d->cache, NULL, NULL, e);
}

static int prepare(struct drive *d, struct err *e) {
    unsigned char digest[HASH_BYTES];
    if (str_eq(d->verb, "exec"))
        return 0;
    if (str_eq(d->verb, "talk"))
        return d->arg_count == 2 ? 0 : err_set(e, ERR_USAGE, "talk wants COMMANDS and ROUNDS");
    if (d->arg_count < (str_eq(d->verb, "hello") ? 2 : 4))
        return err_set(e, ERR_USAGE, "too few arguments");
    if (file_read(&d->arena, d->args[0], DRIVE_PROGRAM_BYTES_MAX, &d->program, &d->program_len, e) <
        0)
        return -1;
    hash_of(digest, d->program, d->program_len);
    hash_hex(d->program_hash, digest);
    return str_eq(d->verb, "push") ? add_paths(d, e) : 0;
}

static void open_node(struct drive *d, struct node *n, struct err *e) {
    struct transport_target t = d->target;
    bool local = str_starts(n->name, "local:");
    t.node = t.host = n->name;
    if (local)
        t.folder = n->name + 6;
    n->d = d;
    n->start_ms = clock_mono_ms();
    n->link =
        transport_open(local ? &transport_local : &transport_ssh, &d->env, &t, &link_events, n, e);
    if (!n->link)
        fail(n, e);
}

int main(int argc, char **argv) {
    struct drive d = {0};
    struct err e = {0};
    static struct node nodes[DRIVE_HOSTS_MAX];
    char **names;
    int i = options(&d, argc, argv);
    if (i < 0 || argc - i < 2) {
        fprintf(stderr, "usage: see the top of tests/tools/remote_drive.c\n");
        return 2;
    }
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    log_open("remote_drive", getenv("DRIVE_DEBUG") ? LOG_DEBUG : LOG_WARN, LOG_PLAIN);
    d.verb = argv[i];
    d.args = argv + i + 2;
    d.arg_count = argc - i - 2;
    d.env.env = environ;
    d.loop = d.env.loop = loop_open(&e);
    if (!d.loop || prepare(&d, &e) < 0) {
        fprintf(stderr, "error: %s: %s\n", err_name(e.code), e.text);
        loop_close(d.loop);
        return 1;
    }
    size_t count = str_split(&d.arena, argv[i + 1], ',', &names);
    d.left = count > DRIVE_HOSTS_MAX ? DRIVE_HOSTS_MAX : (int)count;
    int opening = d.left;
    for (int k = 0; k < opening; k++) {
        nodes[k] = (struct node){.name = names[k]};
        open_node(&d, &nodes[k], &e);
    }
    if (d.left > 0)
        loop_run(d.loop);
    loop_close(d.loop);
    manifest_free(d.manifest);
    arena_fini(&d.arena);
    return d.status;
}
