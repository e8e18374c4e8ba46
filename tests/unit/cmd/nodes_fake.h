// SPDX-License-Identifier: Apache-2.0
// Commands of dtctl on a cluster of three nodes that the test is: it sees what each node is asked
// for and answers. Everything takes place in one folder, which is the working folder.
//
//     nodes_open();
//     nodes_answer = answer;                         // a line of output; "!code": an error
//     is_int(dtctl("gc", "--older-than", "1d", NULL), 0, "…");   // its exit status
//     … dtctl_out() … said() … dtctl_err.text …      // standard output; notes and the log
//     is_str(nodes_asked(), "n0 status;n1 status;", "…");
//     nodes_close();
#ifndef DTCTL_TESTS_UNIT_CMD_NODES_FAKE_H
#define DTCTL_TESTS_UNIT_CMD_NODES_FAKE_H

#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/run_record.h"
#include "cmd/dtctl/command.h"
#include "fleet/embedded_files.h"
#include "sys/file.h"
#include "tests/unit/said.h"
#include "tests/unit/transport_fake.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NODES = 3 };

static char nodes_folder[] = "/tmp/dtctl-nodes.XXXXXX";
static struct arena nodes_arena;
static struct context nodes_context; // of the newest command
static const char *(*nodes_answer)(size_t node, const char *verb, const char *words);
static bool nodes_down[NODES];
static bool nodes_silent[NODES]; // the connection ends instead of an answer
static int nodes_gpus = 2;
static int64_t nodes_disk_bytes = 1 << 30, nodes_ahead_ms; // what all nodes say in their hello
static struct strbuf nodes_log;
static struct err dtctl_err;
static int out_fd = -1;
static const char *NODE_NAMES[NODES] = {"n0", "n1", "n2"}; // a test may name them before

// The agent of dtctl: the begin of a program for x86-64, as zstd keeps it.
static const unsigned char agent_packed[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 20,        0xa1, 0,
                                             0,    0x7f, 'E',  'L',  'F',  [27] = 62, 0};
#define AGENT_SHA256 "2f881d0368b676e44fa9188fd979b877551d39b1e9db9770395cfef228f32350"
const struct embed_file embed_files[] = {
    {"dtrun", agent_packed, sizeof agent_packed, 20, NULL, AGENT_SHA256}, {.name = NULL}};

// ---- the nodes ----------------------------------------------------------------------------------

const struct transport transport_local = TRANSPORT_FAKE(fake_open);

static struct timer nodes_turn;

static size_t node_of(const struct transport_link *l) {
    for (size_t i = 0; i < NODES; i++)
        if (str_eq(l->target.node, NODE_NAMES[i]))
            return i;
    bail_out("no node is called %s", l->target.node);
}

static void nodes_say_hello(struct fake_run *r) {
    const char *line = arena_printf(
        &nodes_arena,
        "{\"program\":\"/r/bin/dtrun\",\"root\":\"/r\",\"cpus\":4,\"gpus\":%d,\"memory_bytes\":"
        "8589934592,\"disk_free_bytes\":%lld,\"arch\":\"x86_64\",\"hostname\":\"h\",\"sha256\":"
        "\"%s\",\"clock_ms\":%lld}\n",
        nodes_gpus, (long long)nodes_disk_bytes, AGENT_SHA256,
        (long long)(clock_wall_ms() + nodes_ahead_ms));
    fake_say(r, line, strlen(line));
    fake_exit(r, 0);
}

// Records of `follow`, with NODES_RECORD between them.
#define NODES_RECORD "\x1e"
static void nodes_say_records(struct fake_run *r, const char *text) {
    unsigned char length[4];
    for (size_t len; *text; text += len + (text[len] != '\0')) {
        len = strcspn(text, NODES_RECORD);
        bytes_store(length, len, sizeof length);
        fake_say(r, length, sizeof length);
        fake_say(r, text, len);
    }
}

static void nodes_reply(struct fake_run *r, size_t node) {
    static const char started[] = "{\"event\":\"started\"}\n";
    while (fake_take(r, SIZE_MAX))
        ;
    if (strstr(r->line, " --node start ") && r->got_end) {
        fake_say(r, started, strlen(started));
        fake_exit(r, 0);
    }
    if (strstr(r->line, " --node start ") && r->is_heard)
        return;
    r->is_heard = true;
    const char *at = strstr(r->line, " --node "), *root = at ? strstr(at, " --root /r") : NULL;
    if (at && str_starts(at + 8, "hello")) {
        nodes_say_hello(r);
        return;
    }
    const char *verb = root ? arena_strndup(&nodes_arena, at + 8, (size_t)(root - at - 8)) : "sh";
    const char *words = root ? root + 10 : r->line;
    words += *words == ' ';
    strbuf_addf(&nodes_log, "%s %s%s%s;", NODE_NAMES[node], verb, *words ? " " : "", words);
    if (nodes_silent[node]) {
        const struct err lost = {.code = ERR_NET, .text = "the connection was lost"};
        transport_notify_down(r->r.link, &lost);
        return;
    }
    const char *answer = nodes_answer ? nodes_answer(node, verb, words) : "";
    bool fails = answer[0] == '!';
    if (!fails && str_eq(verb, "start")) { // its end follows the addresses of all nodes
        const char *port = "{\"event\":\"listening\",\"port\":7000}\n";
        fake_say(r, port, strlen(port));
        return;
    }
    if (fails)
        answer = arena_printf(
            &nodes_arena, "{\"event\":\"error\",\"code\":\"%s\",\"text\":\"why\"}\n", answer + 1);
    if (!fails && str_eq(verb, "follow"))
        nodes_say_records(r, answer);
    else
        fake_say(r, answer, strlen(answer));
    fake_exit(r, fails);
}

static void nodes_live(struct timer *t) {
    const struct err down = {.code = ERR_NET, .text = "no route"};
    for (struct fake_link *l = fake_links; l; l = l->older)
        if (!l->is_closed && l->l.state == TRANSPORT_OPENING) {
            if (nodes_down[node_of(&l->l)])
                transport_notify_down(&l->l, &down);
            else
                fake_up(&l->l);
        }
    for (size_t i = 0; i < NODES; i++)
        for (struct fake_run *r = fake_runs; r; r = r->older)
            if (!r->is_closed && !r->r.ended && !r->r.link->closed && node_of(r->r.link) == i)
                nodes_reply(r, i);
    timer_start(t->loop ? t->loop : nodes_context.loop, t, 0, nodes_live);
}

// ---- commands -----------------------------------------------------------------------------------

TAP_UNUSED static struct run nodes_run(const char *id, const char *state, bool fetched) {
    static const char *words[] = {"train", NULL};
    const char *dash = strchr(id, '-');
    return (struct run){.id = id,
                        .name = arena_strndup(&nodes_arena, id, (size_t)(dash - id)),
                        .cluster = "c",
                        .provider = "local",
                        .state = state,
                        .fetched = fetched,
                        .created_ms = clock_wall_ms() - 3600 * 1000,
                        .nproc = "1",
                        .nodes = NODE_NAMES,
                        .node_count = NODES,
                        .nodes_min = NODES,
                        .nodes_max = NODES,
                        .command = words,
                        .command_count = 1,
                        .version = "",
                        .types = "",
                        .key = "",
                        .resumes = "",
                        .s3 = "",
                        .output_dir = file_join(&nodes_arena, nodes_folder, "out")};
}

TAP_UNUSED static void nodes_keep_run(const struct run *r) {
    struct cluster c = {0};
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &dtctl_err) < 0 ||
        run_save(&c, r, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    cluster_close(&c);
}

// The record of a run as it is now.
TAP_UNUSED static struct run nodes_run_now(const char *id) {
    struct cluster c = {0};
    struct run r = {.state = "", .id = ""};
    struct err e = {0};
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &e) == 0)
        (void)run_load(&c, id, &r, &e);
    cluster_close(&c);
    return r;
}

static const char *dtctl_out(void) {
    static char text[64 * 1024];
    ssize_t n = pread(out_fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

// Since the last call.
TAP_UNUSED static const char *nodes_asked(void) {
    const char *text = arena_printf(&nodes_arena, "%s", strbuf_cstr(&nodes_log));
    strbuf_clear(&nodes_log);
    return text;
}

static int dtctl_run(const struct command *c, int argc, const char *const *argv) {
    static struct config config;
    struct context *s = &nodes_context;
    struct cli_rest rest = {0};
    struct screen screen;
    static char home[sizeof nodes_folder + 5];
    snprintf(home, sizeof home, "HOME=%s", nodes_folder);
    char *env[] = {home, NULL};
    void *flags = arena_alloc(&nodes_arena, c->flags_bytes ? c->flags_bytes : 1, 16, 1);
    struct config_verb verb = {c->verb.name, c->rows, flags, (c->marks & COMMAND_FILE) != 0};
    config = (struct config){0};
    config_open(&config, &nodes_arena, "dtctl", env);
    if (config_load(&config, &verb, argc, argv, &rest, &dtctl_err) < 0)
        return err_status(dtctl_err.code);
    screen_init(&screen, out_fd, said_fd, config.json ? SCREEN_JSON : SCREEN_PLAIN, false);
    *s = (struct context){.arena = &nodes_arena, .config = &config, .env = env, .screen = &screen};
    s->loop = loop_open(&dtctl_err);
    if (!s->loop || cluster_open(&s->cluster, &nodes_arena, nodes_folder, "c", &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    timer_start(s->loop, &nodes_turn, 0, nodes_live);
    int result = c->run(s, &rest, flags, &dtctl_err);
    timer_stop(&nodes_turn);
    fake_free_all();
    screen_fini(&screen);
    cluster_close(&s->cluster);
    loop_close(s->loop);
    return result < 0 ? err_status(dtctl_err.code) : result;
}

// The command's name and its arguments, NULL at the end. Returns its exit status.
__attribute__((sentinel)) static int dtctl(const char *name, ...) {
    const char *argv[32];
    int argc = 0;
    va_list ap;
    va_start(ap, name);
    while (argc < 31 && (argv[argc] = va_arg(ap, const char *)))
        argc++;
    va_end(ap);
    argv[argc] = NULL;
    const struct command *c = command_find(name);
    err_clear(&dtctl_err);
    said_clear();
    strbuf_clear(&nodes_log);
    if (ftruncate(out_fd, 0) < 0 || lseek(out_fd, 0, SEEK_SET) != 0)
        bail_out("the output cannot be emptied");
    return c ? dtctl_run(c, argc, argv) : -1;
}

static struct screen nodes_screen;

static void nodes_open(void) {
    static struct inventory_node nodes[NODES];
    struct inventory inv = {.name = "c",
                            .provider = "local",
                            .created = "2026-01-02T03:04:05.678Z",
                            .nodes = nodes,
                            .count = NODES};
    struct cluster c = {0};
    said_open(&nodes_screen);
    out_fd = memfd_create("out", MFD_CLOEXEC);
    if (out_fd < 0 || !mkdtemp(nodes_folder) || chdir(nodes_folder) < 0)
        bail_out("no folder");
    for (size_t i = 0; i < NODES; i++) {
        const char *root =
            arena_printf(&nodes_arena, "%s/.dtctl/c/nodes/%s", nodes_folder, NODE_NAMES[i]);
        const char *agent = arena_printf(&nodes_arena, "%s/bin/dtrun-%.16s", root, AGENT_SHA256);
        nodes[i] =
            (struct inventory_node){.name = NODE_NAMES[i],
                                    .address = arena_printf(&nodes_arena, "127.0.0.%zu", i + 2),
                                    .root = root,
                                    .arch = "x86_64",
                                    .dtrun = AGENT_SHA256};
        // The nodes have the agent.
        if (file_make_dirs(file_dir(&nodes_arena, agent), 0700, &dtctl_err) < 0 ||
            file_write_atomic(agent, "", 0, 0700, &dtctl_err) < 0)
            bail_out("%s", dtctl_err.text);
    }
    static const char settings[] = "[cluster]\nname = \"c\"\nnodes = 3\n";
    if (file_write_atomic("dtctl.toml", settings, strlen(settings), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &dtctl_err) < 0 ||
        file_make_dirs(c.dir, 0700, &dtctl_err) < 0 || cluster_save(&c, &inv, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    cluster_close(&c);
}

static void nodes_close(void) {
    struct err e = {0};
    strbuf_fini(&nodes_log);
    said_close(&nodes_screen);
    close(out_fd);
    if (chdir("/") < 0 || file_remove_tree(nodes_folder, &e) < 0)
        fail("the folder is removed: %s", e.text);
    arena_fini(&nodes_arena);
}

#endif
