// SPDX-License-Identifier: Apache-2.0
// The story of a run on one node: events.jsonl (see NODE_EVENTS in node_protocol.h).
//
//     struct json_out *j = events_begin(&ev, EVENT_ROUND);
//     json_int(j, "round", 0);
//     events_end(&ev);
//
// Each event is one write of one line, so a reader never sees half of one for long. A file that
// cannot be written (a full disk) is reported once in the log and does not stop the run; what it
// took of a line is a line of its own, which is no event, when there is room again.
#ifndef AGENT_EVENT_LOG_H
#define AGENT_EVENT_LOG_H

#include "base/err.h"
#include "base/json.h"
#include "protocol/node_protocol.h"

struct events {
    int fd; // -1: nobody listens
    int64_t seq;
    bool broken;
    bool cut; // the file ends within a line
    char node[256];
    struct strbuf line;
    struct json_out json;
};

// path NULL: events are only counted.
int events_open(struct events *ev, const char *path, const char *node, struct err *e);
void events_close(struct events *ev);
struct json_out *events_begin(struct events *ev, enum node_event kind);
void events_end(struct events *ev);

#endif
