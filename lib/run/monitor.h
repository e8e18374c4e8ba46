// SPDX-License-Identifier: Apache-2.0
// Monitors a run from its start, or from any later moment, to its end: shows its progress, handles
// signals, and at the end fetches results, writes the summary and prints the last screen.
//
//     monitor_run(&fleet, &run, &(struct monitor_options){…}, &exit_status, e);
//
// On a terminal the first Ctrl-C detaches and prints how to reattach; a second one within
// MONITOR_SECOND_MS_MAX asks the agents to stop the run. Without a terminal the first signal stops
// the run. A later one detaches from a run that stops, unless it comes within MONITOR_SAME_MS_MAX:
// timeout(1), and wrappers that pass signals on, send one request twice. A hang-up, or any signal
// with until_now, always detaches.
#ifndef RUN_MONITOR_H
#define RUN_MONITOR_H

#include "cluster/run_record.h"
#include "fleet/fleet.h"

enum { MONITOR_SECOND_MS_MAX = 2000, MONITOR_SAME_MS_MAX = 1000 };

struct monitor_options {
    bool quiet_lines;         // do not show worker lines (fetch)
    const char *only_node;    // show lines of this node only; NULL: all
    int only_rank;            // show lines of this rank only; -1: all
    bool replay;              // show earlier lines, too
    int64_t since_ms;         // but none of before that time of the wall clock; 0: all
    bool timestamps;          // show the time of each line
    bool reader;              // end when the reader of the output is gone
    bool tail;                // show at the end only the last tail_lines lines of each
    size_t tail_lines;        // rank's stdout and stderr
    bool goes_on;             // with until_now: a second monitor_run continues from there
    bool until_now;           // end when all existing data is here, unless the run is over
    bool offline;             // use local data only
    bool again;               // fetch results although they were fetched before
    bool work;                // also fetch new files of the working folders
    const unsigned *kinds;    // of results to fetch (enum result_kind); NULL: the run's own
    bool rest;                // what was fetched before stays fetched if this fails
    bool exit_code;           // return the exit status of the first failing rank
    bool interactive;         // Ctrl-C detaches
    struct run_start *launch; // set for a run started here: vanished agents are restarted
    bool replace_nodes;       // lost machines are replaced
};

// *exit_status is the exit status for dtctl. -1 only for errors on this side.
int monitor_run(struct fleet *f, struct run *run, const struct monitor_options *o, int *exit_status,
                struct err *e);

// Events that dtctl itself writes to a run's events.jsonl: kind, members, meaning. "node" is
// "operator".
// clang-format off
#define MONITOR_NOTES(X)                                                                           \
    X("made", "run", "the record of the run was written")                                          \
    X("pushed", "", "all nodes have the files of the run")                                         \
    X("prepared", "", "the setup of all nodes is done")                                            \
    X("started", "", "the agents run")                                                             \
    X("not-started", "reason", "the start was called off")                                         \
    X("stop-asked", "by", "a command or a signal asked the run to stop")                           \
    X("agent-started-again", "peer try reason", "an agent that died on a living host runs again")  \
    X("input-sent-again", "peer input", "a node was sent files of its share that no node had")     \
    X("replacing-nodes", "peers", "`dtctl up` was started for nodes that are gone")                \
    X("nodes-replaced", "", "`dtctl up` has succeeded")                                            \
    X("state-published", "peer files bytes",                                                       \
      "state.every: a whole generation of a node's state is here")                                 \
    X("output-published", "peer files bytes",                                                      \
      "outputs.every: what a node has finished of its output and model is here")                   \
    X("output-uploaded", "to files bytes",                                                         \
      "outputs.every with outputs.s3: finished files are in the bucket; bytes: sent this time")    \
    X("left", "", "the command that followed the run ended before the run did")                    \
    X("fetched", "complete", "the results were fetched; complete: yes or no")                      \
    X("uploaded", "to complete", "the results were uploaded to outputs.s3; complete: yes or no")
// clang-format on

// Appends an event to the run: kind, then pairs of name and text, NULL at the end.
void monitor_note(const struct context *s, const struct run *run, const char *kind, ...)
    __attribute__((sentinel));

#endif
