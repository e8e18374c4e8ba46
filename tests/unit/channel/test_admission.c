// SPDX-License-Identifier: Apache-2.0
// Connections that have not joined: the order of eviction when all slots are taken.
#include "channel/admission.h"

#include "tests/tap.h"

enum { COUNT = 64 };
static struct newcomer newcomers[COUNT];
static int evicted[COUNT], evicted_count;

static void on_evict(struct newcomer *g) {
    evicted[evicted_count++] = (int)(g - newcomers);
    admission_leave(g);
}

static struct net_address from(const char *host) {
    struct net_address a;
    struct err e;
    net_resolve(host, 0, &a, &e);
    return a;
}

static void add(struct admission *g, int i, const char *host) {
    struct net_address a = from(host);
    admission_add(g, &newcomers[i], &a, on_evict);
}

int main(void) {
    struct admission g = {.max = 6};
    for (int i = 0; i < 3; i++)
        add(&g, i, "10.0.0.1");
    is_int(evicted_count, 0, "one host can have half of the places");
    add(&g, 3, "10.0.0.1");
    is_int(evicted_count, 1, "one host cannot have more than half of the places");
    is_int(evicted[0], 0, "a host's own oldest newcomer is evicted");
    for (int i = 4; i < 7; i++)
        add(&g, i, i == 4 ? "10.0.0.2" : "10.0.0.3");
    is_int(g.count, 6, "others have the rest");
    is_int(evicted_count, 1, "no other host's newcomer is evicted");
    add(&g, 7, "10.0.0.4");
    is_int(evicted_count, 2, "all places are taken");
    is_int(evicted[1], 1, "the oldest of all gives way");
    add(&g, 8, "10.0.0.3");
    is_int(evicted[2], 2, "the oldest newcomer is evicted even if its host has few");
    admission_leave(&newcomers[3]);
    admission_leave(&newcomers[3]);
    is_int(g.count, 5, "a newcomer that leaves twice is counted once");
    add(&g, 9, "10.0.0.1");
    is_int(evicted_count, 3, "a newcomer that leaves frees a place");
    is_int(g.first - newcomers, 4, "the oldest is first");
    is_int(g.last - newcomers, 9, "the newest is last");
    struct admission one = {.max = 1};
    add(&one, 10, "10.0.0.1");
    add(&one, 11, "::ffff:10.0.0.1");
    is_int(one.count, 1, "a single place is filled");
    ok(one.first == &newcomers[11], "a single place belongs to the newest newcomer");
    return done_testing();
}
