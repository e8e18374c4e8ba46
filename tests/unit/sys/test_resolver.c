// SPDX-License-Identifier: Apache-2.0
// Resolvers beside a running loop: numeric, by name, failing, stopped at every stage.
#include "sys/resolver.h"

#include "base/clock.h"
#include "tests/tap.h"
#include "tests/unit/descriptors.h"

#include <string.h>

enum { MANY = 40, WAIT_MS = 20000 };

// A label of more than 63 bytes is no name, so that no resolver asks a server.
static const char NO_NAME[] =
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid";

static struct resolver one, many[MANY];
static int calls, ended;

static void on_one(struct resolver *l) {
    calls++;
    if (l->attempts >= 2)
        resolver_stop(l);
}

static void on_many(struct resolver *l) {
    ended++;
    resolver_stop(l);
    memset(l, 0xa5, sizeof *l); // the memory belongs to the owner again
}

static bool runs_until(struct loop *loop, const int *count, int wanted) {
    int64_t until_ms = clock_mono_ms() + WAIT_MS;
    while (*count < wanted && clock_mono_ms() < until_ms)
        loop_once(loop, 100);
    return *count == wanted;
}

static void look(struct loop *loop, const char *host, int attempts) {
    struct err e;
    calls = 0;
    if (resolver_start(loop, &one, host, 22, on_one, &e) < 0)
        bail_out("resolver_start: %s", e.text);
    is_int(calls, 0, "the callback is not called at once");
    ok(runs_until(loop, &calls, attempts), "the callback is called %d times", attempts);
}

static void stops(struct loop *loop) {
    struct err e;
    for (int i = 0; i < MANY; i++)
        if (resolver_start(loop, &many[i], i % 2 ? NO_NAME : "localhost", i, on_many, &e) < 0)
            bail_out("resolver_start: %s", e.text);
    for (int i = 0; i < MANY; i += 4)
        resolver_stop(&many[i]);
    ok(runs_until(loop, &ended, MANY * 3 / 4), "of many, those that are not stopped end");
    loop_once(loop, 2 * RESOLVER_AGAIN_MS);
    is_int(ended, MANY * 3 / 4, "each callback is called once");
}

int main(void) {
    struct err e;
    char text[NET_ADDRESS_BYTES_MAX], long_name[NET_HOST_BYTES_MAX + 1];
    struct loop *loop = loop_open(&e);
    if (!loop)
        bail_out("no loop: %s", e.text);
    int before = descriptors();
    look(loop, "127.0.0.3", 1);
    is_int(one.count, 1, "a numeric address is one address");
    is_str(net_format(&one.found[0], text), "127.0.0.3", "an address resolves to itself");
    is_int(net_port(&one.found[0]), 22, "the port is set");
    look(loop, "localhost", 1);
    ok(one.count >= 1 && net_is_loopback(&one.found[0]), "a name has addresses");
    int64_t began_ms = clock_mono_ms();
    look(loop, NO_NAME, 2);
    is_int(one.count, 0, "a name without an address is asked for again");
    ok(clock_mono_ms() - began_ms >= RESOLVER_AGAIN_MS, "the next attempt follows after a pause");
    has_str(one.err.text, "cannot resolve", "the reason of the failure is kept");
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    is_int(resolver_start(loop, &one, long_name, 1, on_one, &e), -1,
           "a name that is longer than any is refused");
    has_str(e.text, "more than 255 bytes", "a name above 255 bytes is an error");
    resolver_stop(&one);
    resolver_stop(&one);
    stops(loop);
    int64_t until_ms = clock_mono_ms() + WAIT_MS; // threads of stopped resolvers
    while (descriptors() > before && clock_mono_ms() < until_ms)
        loop_once(loop, 10);
    is_int(descriptors(), before, "no descriptor is left");
    loop_close(loop);
    return done_testing();
}
