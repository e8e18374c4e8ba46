// SPDX-License-Identifier: Apache-2.0
// Names of verbs, states and events, from the tables of node_protocol.h.
#include "protocol/node_protocol.h"

static const struct {
    const char *name;
    int final, status;
} states[] = {
#define X(code, name, final, status, text) [code] = {name, final, status},
    NODE_STATES(X)
#undef X
};

static const char *const verbs[] = {
#define X(code, name, function, arguments, text) [code] = name,
    NODE_VERBS(X)
#undef X
};

static const char *const events[] = {
#define X(code, name, writer, members, text) [code] = name,
    NODE_EVENTS(X)
#undef X
};

const char *node_verb_name(enum node_verb_code verb) {
    return verbs[verb];
}
const char *node_state_name(enum node_state s) {
    return states[s].name;
}
int node_state_is_final(enum node_state s) {
    return states[s].final;
}
int node_state_exit_status(enum node_state s) {
    return states[s].status;
}
const char *node_event_name(enum node_event k) {
    return events[k];
}
