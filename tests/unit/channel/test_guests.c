// SPDX-License-Identifier: Apache-2.0
// The order of eviction when all slots are taken.
#include "channel/guests.h"

#include "tests/tap.h"

enum { COUNT = 64 };
static struct guest all_guests[COUNT];
static int evicted[COUNT], evicted_count;

static void on_evict(struct guest *g) {
    evicted[evicted_count++] = (int)(g - all_guests);
    guests_leave(g);
}

static struct net_address from(const char *host) {
    struct net_address a;
    struct err e;
    net_resolve(host, 0, &a, &e);
    return a;
}

static void add(struct guests *g, int i, const char *host) {
    struct net_address a = from(host);
    guests_add(g, &all_guests[i], &a, on_evict);
}

int main(void) {
    struct guests g = {.max = 6};
    for (int i = 0; i < 3; i++)
        add(&g, i, "10.0.0.1");
    is_int(evicted_count, 0, "one host can have half of the places");
    add(&g, 3, "10.0.0.1");
    is_int(evicted_count, 1, "one host cannot have more than half of the places");
    is_int(evicted[0], 0, "a host's own oldest guest is evicted");
    for (int i = 4; i < 7; i++)
        add(&g, i, i == 4 ? "10.0.0.2" : "10.0.0.3");
    is_int(g.count, 6, "others have the rest");
    is_int(evicted_count, 1, "no other host's guest is evicted");
    add(&g, 7, "10.0.0.4");
    is_int(evicted_count, 2, "all places are taken");
    is_int(evicted[1], 1, "the oldest of all gives way");
    add(&g, 8, "10.0.0.3");
    is_int(evicted[2], 2, "the oldest guest is evicted even if its host has few");
    guests_leave(&all_guests[3]);
    guests_leave(&all_guests[3]);
    is_int(g.count, 5, "a guest that leaves twice is counted once");
    add(&g, 9, "10.0.0.1");
    is_int(evicted_count, 3, "a guest that leaves frees a place");
    is_int(g.first - all_guests, 4, "the oldest is first");
    is_int(g.last - all_guests, 9, "the newest last");
    struct guests one = {.max = 1};
    add(&one, 10, "10.0.0.1");
    add(&one, 11, "::ffff:10.0.0.1");
    is_int(one.count, 1, "a single place is filled");
    ok(one.first == &all_guests[11], "a single place belongs to the newest guest");
    return done_testing();
}
