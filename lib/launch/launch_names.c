// SPDX-License-Identifier: Apache-2.0
// Resolves names of endpoints before a loop or worker exists, with default signal handling
// (cmd/dtrun/main.c), so that a slow resolver delays nothing else.
#include "launch/launch.h"

#include "base/clock.h"
#include "base/log.h"

#include <poll.h>

enum { AGAIN_MS = 500 };

// A name may become resolvable after this agent starts (a headless service, a slow resolver).
int launch_lookup(struct launch *l, const char *host, bool wait, struct launch_addresses *out,
                  struct err *e) {
    int64_t note_ms = 0;
    if (l->lookup_until_ms == 0)
        l->lookup_until_ms = clock_mono_ms() + launch_join_ms(l);
    for (;;) {
        out->count = net_resolve_all(host, 0, out->list, LAUNCH_ADDRESSES_MAX, e);
        int64_t now = clock_mono_ms();
        if (out->count > 0)
            return 0;
        if (!wait || now >= l->lookup_until_ms)
            return -1;
        if (now >= note_ms) {
            log_warn("the coordinator has no address yet", "endpoint=%s reason=%s", host, e->text);
            note_ms = now + AGENT_NOTE_MS;
        }
        poll(NULL, 0, AGAIN_MS);
    }
}

// Adds all addresses of a name, since this host may not reach every network.
int launch_endpoint(struct launch *l, const char *host, int port, bool first, struct err *e) {
    struct agent_config *c = &l->agent;
    struct launch_addresses found;
    char text[NET_ADDRESS_BYTES_MAX];
    if (launch_lookup(l, host, first, &found, e) < 0) {
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
