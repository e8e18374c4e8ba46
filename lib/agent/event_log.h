// SPDX-License-Identifier: Apache-2.0
// Writes the events of a run on one node to events.jsonl (see NODE_EVENTS in node_protocol.h).
//
//     struct json_out *j = events_begin(&ev, EVENT_ROUND);
//     json_int(j, "round", 0);
//     events_end(&ev);
//
// Each event is one line in one write, so readers do not see partial events for long. A write error
// (a full disk) is logged once and does not stop the run. A partially written line is terminated
// when there is room again; readers skip it.
#ifndef AGENT_EVENT_LOG_H
#define AGENT_EVENT_LOG_H

#include "base/err.h"
#include "base/json.h"
#include "protocol/node_protocol.h"

struct events {
    int fd; // -1: no file
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
