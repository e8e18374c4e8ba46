// SPDX-License-Identifier: Apache-2.0
// The key of a launch: where it comes from, and that neither arguments nor variables keep it. And
// the addresses of endpoints, from a resolver that is a stand-in.
#include "launch/launch.h"

#include "base/hash.h"
#include "sys/resolver.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <string.h>

static struct arena arena;
static struct err e;
static struct launch l;

// ---- the key ------------------------------------------------------------------------------------

static void test_hide(void) {
    static const char *const cases[][2] = {{"key=abc", "key=xxx"},
                                           {"a=1,key=abc,b=2", "a=1,key=xxx,b=2"},
                                           {"--rdzv-conf=key=a c", "--rdzv-conf=key=xxx"},
                                           {"--rdzv-conf key=a", "--rdzv-conf key=x"},
                                           {"key=a,key=bc", "key=x,key=xx"},
                                           {"a=1, key=b", "a=1, key=x"},
                                           {"monkey=abc,b=1", "monkey=abc,b=1"},
                                           {"monkey=a,key=b", "monkey=a,key=x"},
                                           {"key=", "key="},
                                           {"key", "key"},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = arena_strdup(&arena, cases[i][0]);
        launch_key_hide(text);
        is_str(text, cases[i][1], "the text '%s' has no key", cases[i][0]);
    }
}

static bool has_key(const char *text) {
    unsigned char want[HASH_BYTES];
    const struct channel_secret *s = &l.agent.coordinator.secret;
    hash_of(want, text, strlen(text));
    return s->key_len == HASH_BYTES && memcmp(s->key, want, HASH_BYTES) == 0;
}

// conf: the value of --rdzv-conf.
static void take_key(char **env, const char *conf) {
    launch_init(&l, &arena, env);
    l.options.rdzv_conf = conf;
    launch_key(&l);
}

static void test_sources(void) {
    char *none[] = {NULL};
    char *env[] = {arena_strdup(&arena, "A=1"), arena_strdup(&arena, "DTRUN_KEY=secret"),
                   arena_strdup(&arena, "B=2"), NULL};
    take_key(env, "key=other,x=1");
    ok(has_key("other"), "the flag's key counts before the variable's");
    ok(strcmp(l.env[0], "A=1") == 0 && strcmp(l.env[1], "B=2") == 0 && !l.env[2],
       "workers have no variable with a key");
    ok(l.agent.workers.env == l.env, "workers have the variables of the launch");
    for (int i = 0; i < 6; i++)
        is_int(env[1][strlen("DTRUN_KEY=") + (size_t)i], 0, "byte %d of the key is overwritten", i);
    env[1] = arena_strdup(&arena, "DTRUN_KEY=secret");
    take_key(env, "x=1");
    ok(has_key("secret"), "the variable has the key");
    env[1] = arena_strdup(&arena, "DTRUN_KEY=");
    take_key(env, "");
    ok(!l.agent.coordinator.secret.key && l.agent.coordinator.secret.key_len == 0,
       "an empty key is none");
    take_key(none, "key=");
    ok(!l.agent.coordinator.secret.key, "an empty entry is none");
    take_key(NULL, "");
    ok(!l.env[0] && !l.agent.coordinator.secret.key, "a program may have no variables");
}

static void test_conf_variable(void) {
    char *env[] = {arena_strdup(&arena, "PET_RDZV_CONF=a=1,key=secret,b=2"), NULL};
    const char *conf = env[0] + strlen("PET_RDZV_CONF=");
    take_key(env, conf);
    ok(has_key("secret"), "the variable of the flag has the key");
    is_str(l.env[0], "PET_RDZV_CONF=a=1,b=2", "workers have the flag without its key");
    is_str(env[0], "PET_RDZV_CONF=a=1,key=xxxxxx,b=2", "the variable of this program is hidden");
    is_str(l.options.rdzv_conf, "a=1,key=secret,b=2", "the flag keeps its value");
    char *alone[] = {arena_strdup(&arena, "PET_RDZV_CONF=key=a"), NULL};
    take_key(alone, "");
    is_str(l.env[0], "PET_RDZV_CONF=", "the key may be alone");
    char *without[] = {arena_strdup(&arena, "PET_RDZV_CONF=a=1"), NULL};
    take_key(without, "");
    ok(l.env[0] == without[0] && !l.env[1], "a flag without a key is the same");
}

// ---- endpoints ----------------------------------------------------------------------------------

static int fails, attempts, found_count; // so many attempts fail before that many addresses come
static int64_t attempt_ms;
static bool starts;

static void on_again(struct timer *t) {
    struct resolver *r = container_of(t, struct resolver, again);
    clock_ahead_ms += attempt_ms;
    attempts = ++r->attempts;
    if (r->attempts > fails) {
        r->count = found_count;
        for (int i = 0; i < found_count; i++)
            if (net_resolve(arena_printf(&arena, "10.0.0.%d", i + 1), 0, &r->found[i], &e) < 0)
                bail_out("%s", e.text);
    } else {
        err_set(&r->err, ERR_NET, "no such name");
        timer_start(r->loop, &r->again, 0, on_again);
    }
    r->cb(r);
}

int stand_in_start(struct loop *loop, struct resolver *r, const char *host, int port,
                   resolver_cb *cb, struct err *why) __asm__("resolver_start");

int stand_in_start(struct loop *loop, struct resolver *r, const char *host, int port,
                   resolver_cb *cb, struct err *why) {
    if (!starts)
        return err_set(why, ERR_SYS, "no thread");
    r->loop = loop;
    r->cb = cb;
    r->port = port;
    snprintf(r->host, sizeof r->host, "%s", host);
    timer_start(loop, &r->again, 0, on_again);
    return 0;
}

void stand_in_stop(struct resolver *r) __asm__("resolver_stop");

void stand_in_stop(struct resolver *r) {
    timer_stop(&r->again);
}

static void begin_names(int64_t join_s) {
    launch_init(&l, &arena, NULL);
    l.options.rdzv_backend = "c10d";
    l.options.rdzv_conf = arena_printf(&arena, "join_timeout=%d", (int)join_s);
    fails = attempts = 0;
    found_count = 1;
    attempt_ms = 500;
    starts = true;
    err_clear(&e);
}

static void test_resolve(void) {
    struct launch_addresses out;
    static const struct {
        bool wait;
        int fails, join_s, result, attempts;
    } cases[] = {{true, 0, 10, 0, 1},  {true, 19, 10, 0, 20}, {true, 20, 10, -1, 20},
                 {false, 0, 10, 0, 1}, {false, 1, 10, -1, 1}, {true, 1, 0, 0, 2},
                 {true, 99, 0, -1, 2}, {true, 99, 1, -1, 2},  {true, 99, 2, -1, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_names(cases[i].join_s);
        fails = cases[i].fails;
        is_int(launch_resolve(&l, "n0", cases[i].wait, &out, &e), cases[i].result,
               "name %zu is resolved in time", i);
        is_int(attempts, cases[i].attempts, "name %zu has its attempts", i);
        if (cases[i].result < 0)
            is_str(e.text, "no such name", "name %zu has the error of the last attempt", i);
    }
    begin_names(10);
    fails = 15;
    is_int(launch_resolve(&l, "n0", true, &out, &e), 0, "the first name has its time");
    fails = 99;
    is_int(launch_resolve(&l, "n1", true, &out, &e), -1, "all names share their time");
    is_int(attempts, 4, "the second name has the rest of the time");
    found_count = 6;
    fails = 0;
    is_int(launch_resolve(&l, "n2", true, &out, &e), 0, "a name has some time in any case");
    is_int(out.count, LAUNCH_ADDRESSES_MAX, "addresses of one name have a limit");
    starts = false;
    is_int(launch_resolve(&l, "n2", true, &out, &e), -1, "a resolver may be refused");
    is_int(out.count, 0, "a refused resolver has no addresses");
}

static void test_endpoints(void) {
    begin_names(1);
    found_count = 2;
    is_int(launch_endpoint(&l, "n0", 4100, true, &e), 0, "an endpoint is added");
    found_count = 1;
    launch_endpoint(&l, "n1", 4200, false, &e);
    const struct agent_endpoint *p = l.agent.endpoints;
    is_int(l.agent.endpoint_count, 3, "each address is an endpoint");
    ok(strcmp(p[0].host, "10.0.0.1") == 0 && p[0].port == 4100 && strcmp(p[0].name, "n0") == 0 &&
           !p[0].same && strcmp(p[1].host, "10.0.0.2") == 0 && p[1].same && p[1].port == 4100,
       "further addresses of a name are the same agent");
    ok(strcmp(p[2].name, "n1") == 0 && !p[2].same && p[2].port == 4200,
       "another name is another agent");
    fails = 99;
    is_int(launch_endpoint(&l, "n2", 4200, false, &e), 0, "a further endpoint may have no address");
    is_int(attempts, 1, "nothing waits for the address of a further endpoint");
    is_int(l.agent.endpoint_count, 3, "an endpoint without an address is left out");
    is_int(launch_endpoint(&l, "n2", 4200, true, &e), -1, "the first endpoint needs an address");
    is_str(e.text, "coordinator: no such name", "the error has the reason");
    fails = 0;
    found_count = 4;
    for (int i = 0; i < 4; i++)
        launch_endpoint(&l, "n3", 4300, true, &e);
    is_int(l.agent.endpoint_count, AGENT_ENDPOINTS_MAX, "endpoints have a limit");
}

int main(void) {
    clock_stop();
    test_hide();
    test_sources();
    test_conf_variable();
    test_resolve();
    test_endpoints();
    arena_fini(&arena);
    return done_testing();
}
