// SPDX-License-Identifier: Apache-2.0
// New signed addresses for streamed inputs, while a dtctl follows the run: a node asks by the event
// `stream` with `ends`, the source is listed and signed again here, and dtdata on the node gets the
// addresses. A node can ask for a name alone: the source is that of this side.
//
//     input_renew_open(&r, launch, &follow);
//     … input_renew_node(&r, n, event) for that event …
//     input_renew_close(&r); // ends lists that are being made
//
// A list is made beside the work of the loop, once for all nodes that ask meanwhile. It may take a
// quarter of the time that the addresses are still good for, and INPUT_RENEW_MS_MAX: nodes ask
// again every 30 seconds, so that another try, at least, begins before the addresses end.
#ifndef RUN_INPUT_RENEW_H
#define RUN_INPUT_RENEW_H

#include "follow/follow.h"
#include "run/dtdata_beside.h"
#include "run/run_start.h"

enum {
    INPUT_RENEW_MS_MAX = 3 * 60 * 1000,      // for a list
    INPUT_RENEW_MS_MIN = 5 * 1000,           // for a list, however little time is left
    INPUT_RENEW_TRIES = 4,                   // lists in the time that is left
    INPUT_RENEW_FRESH_MS_MAX = 5 * 60 * 1000 // how long a list serves other nodes as well
};

struct input_renew {
    struct run_start *launch; // NULL: the configuration has the sources
    struct follow *follow;
    struct input_renew_list {
        struct input_renew_list *next;
        struct input_renew *renew;
        const char *name, *source;
        struct dtdata_beside lister;
        int64_t limit_ms;    // of the lister
        bool *asks;          // by node
        int64_t old_ends_ms; // of the addresses that end first, of nodes that ask, by the wall
                             // clock here; 0: unknown
        struct strbuf text;  // for the nodes
        int64_t at_ms;       // monotonic time of the text; 0: it is of no use
        int64_t ends_ms;     // of the addresses, on the wall clock; 0: they do not end
    } * lists;
};

void input_renew_open(struct input_renew *r, struct run_start *l, struct follow *f);
void input_renew_node(struct input_renew *r, const struct follow_node *n, const struct json *event);
void input_renew_close(struct input_renew *r);
// For the nodes: the objects of dtdata's list, whose first line has the end of the addresses
// (*ends_ms; 0: none).
int input_renew_lines(const char *input, const struct strbuf *list, struct strbuf *out,
                      int64_t *ends_ms, struct err *e);

#endif
