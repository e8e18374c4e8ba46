// SPDX-License-Identifier: Apache-2.0
// A fleet of three nodes over transport_fake.h whose nodes answer commands with a line each: for
// modules that ask every node one thing.
//
//     fake_fleet_init(); fake_fleet_begin("{…}\n", "!not-found", "{}\n"); …_ask(&fleet, …);
//     fake_fleet_end();
#ifndef DTCTL_TESTS_UNIT_FLEET_FAKE_H
#define DTCTL_TESTS_UNIT_FLEET_FAKE_H

#include "fleet/fleet.h"
#include "tests/tap.h"
#include "tests/unit/transport_fake.h"

#include <unistd.h>

enum { NODES = 3 };

static struct arena arena;
static struct screen screen;
static struct context context;
static struct inventory_node info[NODES];
static struct fleet_node nodes[NODES];
static struct fleet fleet;
static const char *answers[NODES]; // a line; "!…": an error of that code
static struct timer turn;

// The nodes answer once all are asked, in order.
static inline void fake_fleet_answer(struct timer *t) {
    (void)t;
    for (size_t i = 0; i < NODES; i++)
        for (struct fake_run *r = fake_runs; r; r = r->older) {
            if (r->r.link != nodes[i].link)
                continue;
            bool fails = answers[i][0] == '!';
            const char *line = fails ? arena_printf(&arena,
                                                    "{\"event\":\"error\",\"code\":\"%s\","
                                                    "\"text\":\"why\"}\n",
                                                    answers[i] + 1)
                                     : answers[i];
            fake_say(r, line, strlen(line));
            fake_exit(r, fails);
        }
}

// All nodes are connected.
static inline void fake_fleet_begin(const char *n0, const char *n1, const char *n2) {
    fleet = (struct fleet){.context = &context, .nodes = nodes, .count = NODES};
    answers[0] = n0;
    answers[1] = n1;
    answers[2] = n2;
    for (size_t i = 0; i < NODES; i++) {
        info[i].name = arena_printf(&arena, "n%zu", i);
        nodes[i] = (struct fleet_node){.fleet = &fleet,
                                       .index = i,
                                       .info = &info[i],
                                       .up = true,
                                       .facts = {.program = "/p", .root = "/r"},
                                       .link = fake_link(context.loop, NULL, NULL)};
    }
    timer_start(context.loop, &turn, 0, fake_fleet_answer);
}

static inline void fake_fleet_end(void) {
    timer_stop(&turn);
    for (size_t i = 0; i < NODES; i++)
        transport_close(nodes[i].link);
    fake_free_all();
}

static inline void fake_fleet_init(void) {
    struct err e;
    context.loop = loop_open(&e);
    if (!context.loop)
        bail_out("%s", e.text);
    context.arena = &arena;
    context.screen = &screen;
    screen_init(&screen, STDERR_FILENO, STDERR_FILENO, SCREEN_PLAIN, true);
}

static inline void fake_fleet_fini(void) {
    screen_fini(&screen);
    loop_close(context.loop);
    arena_fini(&arena);
}

#endif
