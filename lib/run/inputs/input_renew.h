// SPDX-License-Identifier: Apache-2.0
// New signed addresses for streamed inputs, while a dtctl follows the run: a node asks by the event
// `stream` with `ends`, the source is listed and signed again here, and dtdata on the node gets the
// addresses. A node can ask for a name alone: the source is that of this side.
//
//     input_renew_open(&r, launch, &follow);
//     … input_renew_node(&r, n, event) for that event …
//     input_renew_close(&r);
#ifndef RUN_INPUT_RENEW_H
#define RUN_INPUT_RENEW_H

#include "follow/follow.h"
#include "run/run_start.h"

enum { INPUT_RENEW_LIST_MS_MAX = 5 * 60 * 1000 }; // how long a list serves other nodes as well

struct input_renew {
    struct run_start *launch; // NULL: the configuration has the sources
    struct follow *follow;
    struct input_renew_list {
        struct input_renew_list *next;
        const char *name;
        struct strbuf text; // for the nodes
        int64_t at_ms;      // monotonic time
        int64_t ends_ms;    // wall clock
    } * lists;
};

void input_renew_open(struct input_renew *r, struct run_start *l, struct follow *f);
void input_renew_node(struct input_renew *r, const struct follow_node *n, const struct json *event);
void input_renew_close(struct input_renew *r);

#endif
