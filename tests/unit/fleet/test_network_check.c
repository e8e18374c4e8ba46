// SPDX-License-Identifier: Apache-2.0
// The reachability check with nodes whose agents answer what they like: no byte of theirs reaches a
// terminal raw.
#include "fleet/network_check.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <signal.h>
#include <unistd.h>

enum { NODES = 2 };
#define TITLE "\\u001b]0;P\\u0007" // sets the title of a terminal

static char dir[] = "/tmp/test_network_check.XXXXXX";
static struct arena arena;
static struct context context;
static struct err e;
static int up;

static void on_open(struct transport_link *l, void *ctx) {
    (void)l, (void)ctx;
    up++;
}

static void on_down(struct transport_link *l, void *ctx, const struct err *why) {
    (void)l, (void)ctx;
    bail_out("a link is down: %s", why->text);
}

// Checks two nodes whose agent is this script.
static void check(struct fleet *f, const char *script) {
    static const struct transport_link_events events = {on_open, on_down};
    static struct inventory_node info[NODES] = {{.name = "n0", .address = "127.0.0.1"},
                                                {.name = "n1", .address = "127.0.0.2"}};
    const char *program = file_join(&arena, dir, "agent");
    if (file_write_atomic(program, script, strlen(script), 0755, &e) < 0)
        bail_out("%s", e.text);
    *f = (struct fleet){
        .context = &context, .count = NODES, .env = {.loop = context.loop, .env = environ}};
    f->nodes = arena_new(&arena, struct fleet_node, NODES);
    up = 0;
    for (size_t i = 0; i < NODES; i++) {
        struct fleet_node *n = &f->nodes[i];
        struct transport_target target = {.node = info[i].name, .folder = dir};
        *n = (struct fleet_node){
            .fleet = f, .index = i, .info = &info[i], .facts = {.program = program, .root = dir}};
        n->link = transport_open(&transport_local, &f->env, &target, &events, n, &e);
        if (!n->link)
            bail_out("no link: %s", e.text);
    }
    while (up < NODES)
        loop_once(context.loop, -1);
    is_int(network_check(f, &e), 0, "the check ends");
    for (size_t i = 0; i < NODES; i++)
        transport_close(f->nodes[i].link);
}

static void all_failed(const struct fleet *f, const char *words) {
    for (size_t i = 0; i < NODES; i++) {
        const char *text = f->nodes[i].err.text;
        ok(f->nodes[i].failed, "node %zu fails", i);
        has_str(text, words, "the error has the words of the node");
        ok(strchr(text, '\033') == NULL && strchr(text, '\a') == NULL,
           "the words of the node are safe to print");
    }
}

static void hostile_answers(void) {
    struct fleet f;
    check(&f, "#!/bin/sh\n"
              "case \"$*\" in\n"
              "*--listen*) echo '{\"event\":\"listening\",\"port\":7}'; exec cat ;;\n"
              "*) cat >/dev/null; cat <<'END'\n"
              "{\"peer\":\"a" TITLE "\",\"ok\":false,\"why\":\"b" TITLE "\"}\n"
              "END\n"
              "esac\n");
    all_failed(&f, "1 of its peers: a\\x1b]0;P\\x07 (b\\x1b]0;P\\x07)");
    check(&f, "#!/bin/sh\n"
              "cat <<'END'\n"
              "{\"event\":\"error\",\"text\":\"c" TITLE "\"}\n"
              "END\n"
              "exec cat\n");
    all_failed(&f, ": c\\x1b]0;P\\x07");
}

int main(void) {
    struct screen screen;
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (!mkdtemp(dir))
        bail_out("mkdtemp");
    screen_init(&screen, 1, 2, SCREEN_PLAIN, true);
    context = (struct context){.arena = &arena, .screen = &screen, .loop = loop_open(&e)};
    context.cluster.reached_path = file_join(&arena, dir, "reached");
    if (!context.loop || context_signals(&context, &e) < 0)
        bail_out("no loop: %s", e.text);
    hostile_answers();
    loop_close(context.loop);
    file_remove_tree(dir, &e);
    arena_fini(&arena);
    return done_testing();
}
