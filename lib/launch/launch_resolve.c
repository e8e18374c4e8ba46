// SPDX-License-Identifier: Apache-2.0
// Resolves names of endpoints before an agent's loop or worker exists, with default signal handling
// (cmd/dtrun/main.c).
#include "launch/launch.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/resolver.h"

enum { ATTEMPT_MS_MIN = 1000 }; // also after the time for all lookups is over

struct search {
    struct resolver resolver;
    int64_t note_ms; // time of the next report
};

static void on_attempt(struct resolver *l) {
    struct search *s = container_of(l, struct search, resolver);
    int64_t now = clock_mono_ms();
    if (l->count > 0 || now < s->note_ms)
        return;
    log_warn("the coordinator has no address yet", "endpoint=%s reason=%s", l->host, l->err.text);
    s->note_ms = now + AGENT_NOTE_MS;
}

static int search(struct launch *l, struct loop *loop, const char *host, bool wait,
                  struct launch_addresses *out, struct err *e) {
    struct search s = {.note_ms = wait ? 0 : INT64_MAX};
    int64_t now = clock_mono_ms(), until_ms = now + ATTEMPT_MS_MIN;
    if (until_ms < l->resolve_until_ms)
        until_ms = l->resolve_until_ms;
    if (resolver_start(loop, &s.resolver, host, 0, on_attempt, e) < 0)
        return -1;
    err_set(&s.resolver.err, ERR_NET, "cannot resolve '%.200s': the resolver does not answer",
            host);
    while (s.resolver.count == 0 && now < until_ms && (wait || s.resolver.attempts == 0)) {
        loop_once(loop, (int)(until_ms - now));
        now = clock_mono_ms();
    }
    out->count = s.resolver.count < LAUNCH_ADDRESSES_MAX ? s.resolver.count : LAUNCH_ADDRESSES_MAX;
    for (int i = 0; i < out->count; i++)
        out->list[i] = s.resolver.found[i];
    *e = s.resolver.err;
    resolver_stop(&s.resolver);
    return out->count > 0 ? 0 : -1;
}

int launch_resolve(struct launch *l, const char *host, bool wait, struct launch_addresses *out,
                   struct err *e) {
    struct loop *loop = loop_open(e);
    out->count = 0;
    if (!loop)
        return -1;
    if (l->resolve_until_ms == 0)
        l->resolve_until_ms = clock_mono_ms() + launch_join_ms(l);
    int result = search(l, loop, host, wait, out, e);
    loop_close(loop);
    return result;
}

// Adds all addresses of a name, since this host may not reach every network.
int launch_endpoint(struct launch *l, const char *host, int port, bool first, struct err *e) {
    struct agent_config *c = &l->agent;
    struct launch_addresses found;
    char text[NET_ADDRESS_BYTES_MAX];
    if (launch_resolve(l, host, first, &found, e) < 0) {
        if (first)
            return err_wrap(e, "coordinator");
        log_warn("an endpoint has no address", "endpoint=%s reason=%s", host, e->text);
        return 0;
    }
    const char *name = arena_strdup(l->arena, host);
    for (int i = 0; i < found.count && c->endpoint_count < AGENT_ENDPOINTS_MAX; i++)
        c->endpoints[c->endpoint_count++] = (struct agent_endpoint){
            .host = arena_strdup(l->arena, net_format(&found.list[i], text)),
            .port = port,
            .name = name,
            .same = i > 0};
    return 0;
}
