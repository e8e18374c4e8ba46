// SPDX-License-Identifier: Apache-2.0
// A rendezvous with its members, as the unit tests of it see them. Included once by each.
#ifndef TESTS_UNIT_RENDEZVOUS_NODES_H
#define TESTS_UNIT_RENDEZVOUS_NODES_H

#include "rendezvous/rendezvous.h"

#include "base/str.h"
#include "tests/tap.h"

static const struct rendezvous_config base = {.nodes_min = 2,
                                              .nodes_max = 2,
                                              .join_timeout_ms = 60000,
                                              .rejoin_timeout_ms = 30000,
                                              .last_call_ms = 5000,
                                              .regroup_call_ms = 500,
                                              .silent_ms_max = 1500,
                                              .lease_ms = 2000,
                                              .stop_ms_max = 40000,
                                              .note_ms = 5000};
static struct err e;

TAP_UNUSED static int join(struct rendezvous *r, int64_t now, const char *name, int node_rank,
                           int nproc) {
    struct rendezvous_node n = {.name = name,
                                .address = "10.0.0.1",
                                .role = "default",
                                .node_rank = node_rank,
                                .last_round = -1,
                                .nproc = nproc,
                                .store_port = 7};
    int id = -1;
    return rendezvous_join(r, now, &n, &id, &e) < 0 ? -1 : id;
}

// Drains the actions; true when one of that kind was there (its copy in *out).
TAP_UNUSED static bool did(struct rendezvous *r, enum rendezvous_action_kind kind,
                           struct rendezvous_action *out) {
    struct rendezvous_action a;
    bool found = false;
    while (rendezvous_next(r, &a)) {
        if (a.kind == kind) {
            found = true;
            if (out)
                *out = a;
        }
    }
    return found;
}

TAP_UNUSED static const char *order(struct rendezvous *r) {
    static struct strbuf text;
    strbuf_clear(&text);
    for (int i = 0; i < rendezvous_active_count(r); i++) {
        const struct rendezvous_member *m = rendezvous_active(r, i);
        strbuf_addf(&text, "%s%s:%d", i ? " " : "", m ? m->name : "-", m ? m->rank : -1);
    }
    return strbuf_cstr(&text);
}

TAP_UNUSED static int join_as(struct rendezvous *r, int64_t now, const char *name,
                              int64_t incarnation, int64_t session, int64_t connection) {
    struct rendezvous_node n = {.name = name,
                                .address = "10.0.0.1",
                                .role = "default",
                                .node_rank = -1,
                                .incarnation = incarnation,
                                .session = session,
                                .connection = connection,
                                .port = 5,
                                .last_round = -1,
                                .nproc = 1};
    int id = -1;
    return rendezvous_join(r, now, &n, &id, &e) < 0 ? -1 : id;
}

#endif
