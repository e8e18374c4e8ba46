// SPDX-License-Identifier: Apache-2.0
// Starting the agent of one node: `dtrun --node start`, in two steps with the roster in between
// (protocol/node_protocol.h).
//
//     struct agent_start s = {.node = n, .on_listening = …, .on_over = …};
//     agent_start_begin(&s, &spec, "", e);        // later on_listening: s.port is known
//     agent_start_roster(&s, &text, e);           // of roster_format; later on_over
//     agent_start_close(&s);                      // at any time
#ifndef FLEET_AGENT_START_H
#define FLEET_AGENT_START_H

#include "fleet/fleet.h"
#include "protocol/job_spec.h"

enum { AGENT_START_MS_MAX = 60 * 1000 };

struct agent_start {
    struct fleet_node *node;
    void (*on_listening)(struct agent_start *s);
    // Once: e->code is ERR_NONE when the agent runs. Not after agent_start_close.
    void (*on_over)(struct agent_start *s, const struct err *e);
    struct transport_run *run; // NULL: nothing goes on
    struct strbuf out, err_text;
    struct timer limit;
    int port; // 0 until the agent listens
    bool started;
};

// common: what is the same on every node; the node's own part is filled in here. flags: further
// words of the verb.
int agent_start_begin(struct agent_start *s, const struct job_spec *common, const char *flags,
                      struct err *e);
int agent_start_roster(struct agent_start *s, const struct strbuf *roster, struct err *e);
void agent_start_close(struct agent_start *s);

#endif
