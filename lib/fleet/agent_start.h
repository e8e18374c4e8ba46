// SPDX-License-Identifier: Apache-2.0
// Starts the agent of one node with `dtrun --node start`. The roster is sent between its two steps
// (protocol/node_protocol.h).
//
//     struct agent_start s = {.node = n, .on_listening = …, .on_over = …};
//     agent_start_begin(&s, &spec, "", e); // on_listening follows: s.port is set
//     agent_start_roster(&s, &text, e); // text of job_roster_format; on_over follows
//     agent_start_close(&s);                      // at any time
#ifndef FLEET_AGENT_START_H
#define FLEET_AGENT_START_H

#include "fleet/fleet.h"
#include "protocol/job_spec.h"

enum { AGENT_START_MS_MAX = 60 * 1000 };

struct agent_start {
    struct fleet_node *node;
    void (*on_listening)(struct agent_start *s);
    // Called once; e->code is ERR_NONE when the agent runs. Not called after agent_start_close.
    void (*on_over)(struct agent_start *s, const struct err *e);
    struct transport_run *run; // NULL: idle
    struct strbuf out, err_text;
    struct timer limit;
    int port; // 0 until the agent listens
    bool started;
};

// common: the part that is the same on every node; the node's own part is filled in here. flags:
// further words of the verb.
int agent_start_begin(struct agent_start *s, const struct job_spec *common, const char *flags,
                      struct err *e);
int agent_start_roster(struct agent_start *s, const struct strbuf *roster, struct err *e);
void agent_start_close(struct agent_start *s);

#endif
