// SPDX-License-Identifier: Apache-2.0
// Attending to a run from its start, or from any later moment, to its end: what people see of it,
// what signals mean, and what happens when it is over (results, summary, last screen).
//
//     attend_run(&fleet, &run, &(struct attend_options){…}, &exit_status, e);
//
// On a terminal the first Ctrl-C leaves the run going and says how to come back; a second one
// within ATTEND_SECOND_MS_MAX asks the agents to stop it. Elsewhere the first signal stops it. A
// hang-up always leaves it going, and so does any signal with until_now.
#ifndef RUN_MONITOR_H
#define RUN_MONITOR_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

enum { ATTEND_SECOND_MS_MAX = 2000 };

struct attend_options {
    bool quiet_lines;         // do not show worker lines (fetch)
    const char *only_node;    // show lines of this node alone; NULL: all
    int only_rank;            // show lines of this rank alone; -1: all
    bool replay;              // show what came before, too
    bool reader;              // end when nobody reads what is shown
    bool tail;                // of all that is shown until the end only the last tail_lines of each
    size_t tail_lines;        // rank's stdout and stderr
    bool goes_on;             // with until_now: it is attended to once more, from there on
    bool until_now;           // end when everything up to now is here, unless the run is over
    bool offline;             // only what is on this side already
    bool again;               // results are brought although they were before
    bool work;                // what the run left in its working folders as well
    bool work_only;           // and nothing else
    bool exit_code;           // the first failing rank's own status
    bool interactive;         // Ctrl-C leaves
    struct run_start *launch; // of a run that was started here: vanished agents are started again
    bool replace_nodes;       // machines that are gone are made anew
};

// *exit_status is what dtctl should end with. -1 only for errors on this side.
int attend_run(struct fleet *f, struct run *run, const struct attend_options *o, int *exit_status,
               struct err *e);

// Events of dtctl itself in events.jsonl of a run: kind, members, meaning. "node" is "operator".
// clang-format off
#define ATTEND_NOTES(X)                                                                            \
    X("made", "run", "the run has its record")                                                     \
    X("pushed", "", "its files are on the nodes")                                                  \
    X("started", "", "its agents run")                                                             \
    X("not-started", "reason", "it was called off")                                                \
    X("stop-asked", "by", "a command or a signal asked for its end")                               \
    X("agent-started-again", "peer try reason", "an agent that died on a living host runs again")  \
    X("replacing-nodes", "peers", "`dtctl up` was started for nodes that are gone")                \
    X("nodes-replaced", "", "that `up` has ended well")                                            \
    X("left", "", "the command that followed the run ended before the run did")                    \
    X("fetched", "complete", "the results are here; complete: yes or no")
// clang-format on

// Adds such an event to the run: kind, then pairs of name and text, NULL at the end.
void attend_note(const struct context *s, const struct run *run, const char *kind, ...)
    __attribute__((sentinel));

#endif
