// SPDX-License-Identifier: Apache-2.0
// The output of a command: results and worker lines to one descriptor, notes to another, a live
// block of lines that is redrawn at the bottom of a terminal, or JSON events instead of all of
// these.
//
//     screen_init(&s, 1, 2, SCREEN_TERMINAL, false);
//     screen_out(&s, "%s\n", line); // erases the live block, prints
//     screen_live(&s, text, lines); // redraws the block
//     screen_fini(&s); // keeps the last block
//
// The caller owns the descriptors. Control characters are made visible, except newlines and
// colours. Foreign text must pass str_printable or screen_foreign first, so that it stays on one
// line. Output errors (a closed pipe) set `broken` and are otherwise ignored.
#ifndef UI_SCREEN_H
#define UI_SCREEN_H

#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum screen_style {
    SCREEN_PLAIN,    // lines only
    SCREEN_TERMINAL, // lines and a live block
    SCREEN_JSON,     // one JSON object per line on the out descriptor
};

enum { SCREEN_COLUMNS_DEFAULT = 80, SCREEN_ROWS_DEFAULT = 24, SCREEN_LINE_BYTES_MAX = 64 * 1024 };

// Events of dtctl itself in --json: event, command, members, meaning. "…" in the members stands for
// further ones that depend on the case. `train` and `logs` also pass on the agents' events
// (NODE_EVENTS).
// clang-format off
#define SCREEN_EVENTS(X)                                                                           \
    X("error", "any", "code text exit_status", "the command failed")                               \
    X("node-failed", "any", "node code text", "one node failed; the command may continue")         \
    X("progress", "up train push fetch",                                                           \
      "operation node bytes bytes_total bytes_per_second state text", "a transfer, at intervals")  \
    X("plan", "plan up", "cluster provider added kept removed changes …",                          \
      "nodes that up would make; aws adds type, prices and quota")                                 \
    X("plan", "train",                                                                             \
      "run name cluster native command nodes files bytes inputs resumes output_dir …",             \
      "a run that is about to start")                                                              \
    X("refused", "up", "kind code zone purchase next_zone next_purchase next_outside_group",       \
      "AWS refused an attempt; the next one follows")                                              \
    X("phase", "up", "node phase ms", "an instance reached a phase of its boot")                   \
    X("up", "up", "cluster nodes installed ms …",                                                  \
      "the cluster is up; aws adds the times of each part")                                        \
    X("started", "train",                                                                          \
      "run name cluster native command nodes files bytes inputs resumes output_dir …",             \
      "the run has started")                                                                       \
    X("forecast", "train --dry-run", "run forecast",                                               \
      "what the native trainer would take: the object of dttrain --plan --json")                   \
    X("bench", "bench", "kind ranks size count type redop time_us algbw busbw wrong",              \
      "one size that dtctl bench has measured; wrong null: not checked")                           \
    X("skipped", "train", "name run output_dir", "a finished run is reused for a task")            \
    X("task", "run", "task run stood_in ms", "a task has finished, or a run was reused")      \
    X("line", "train logs", "node rank stream text",                                               \
      "one line of a rank; logs --timestamps adds written_ms")                                     \
    X("line", "exec", "node stream text", "one line of a command")                                 \
    X("update", "train logs", "node rank stream text",                                             \
      "a rank's progress bar, which carriage returns redraw")                                      \
    X("metric", "train logs", "node rank name value", "a number found by [metrics]")               \
    X("summary", "train logs", "…", "the run is over: the content of summary.json")                \
    X("output", "exec -b", "nodes count text", "equal output of several nodes")                    \
    X("exit", "exec", "node status", "the command ended on a node; null: no status")               \
    X("node", "status", "node address state error run ranks_running …", "one node")                \
    X("lease", "status", "until_ms left_ms spent_usd", "time and money of a cluster on aws")       \
    X("run", "ps",                                                                                 \
      "run name state reason nodes nodes_seen ranks_running round restarts max_restarts "          \
      "round_reason agent_starts coordinator fetched lost left work_left results created_ms",      \
      "one run")                                                                                   \
    X("top", "top",                                                                                \
      "run name state reason nodes_going ranks_running round restarts elapsed_ms cost_usd metrics "\
      "steps nodes",                                                                               \
      "one look at a run; steps: of the native trainer, or null; nodes: node, state, sample (or "  \
      "null, and the reason) of each")                                                             \
    X("stopped", "stop", "run", "the run has stopped")                                             \
    X("pushed", "push", "files bytes files_sent bytes_sent bytes_wire", "the nodes have them")     \
    X("would-push", "push --dry-run", "to nodes files bytes ignored", "files that would be sent")  \
    X("fetched", "fetch --path", "to files bytes", "the files are on this side")                   \
    X("here", "fetch", "run to lost", "the results of a run are on this side")                     \
    X("path", "path", "run name state path here s3 uploaded left lost",                            \
      "where the results of a run are")                                                            \
    X("compared", "compare",                                                                       \
      "run name state active exit_status created_ms train_ms nodes world_size restarts settings "  \
      "results metrics problems",                                                                  \
      "one run; metrics: count, not_finite, goal and best of each, last, min and max with value, " \
      "number, step and epoch")                                                                    \
    X("left-out", "compare", "run code text", "the record of this run cannot be read")             \
    X("differences", "compare", "runs settings equal",                                             \
      "settings in which the runs differ, name and values; how many are equal")                    \
    X("report", "report", "runs file bytes points problems",                                       \
      "the page is written; points: values in its curves")                                         \
    X("state", "state ls", "run name node copy_of files bytes changed_ms",                         \
      "the state of a run on a node; node null: the copy here, or with copy_of that of a "         \
      "node, by state.every")                                                                      \
    X("state-removed", "state rm", "runs", "their states are gone")                                \
    X("extend", "extend", "cluster until_ms nodes", "the lease ends at this time")                 \
    X("adopt", "adopt", "cluster provider nodes runs", "the cluster was adopted")                  \
    X("down", "down",                                                                              \
      "cluster nodes_removed freed_bytes runs_left runs_without_results …",                        \
      "the nodes were removed; aws adds verified, swept, cost_usd")                                \
    X("would-remove", "up down --dry-run", "nodes not_fetched going",                              \
      "nodes that would be removed, and runs that would lose results")                             \
    X("gc", "gc", "dry_run runs contents folders freed_bytes regions leftovers",                   \
      "totals of the sweep")                                                                       \
    X("leftover", "gc", "region kind id cluster type launched lease_end",                          \
      "a resource on AWS outside all clusters of this folder")                                     \
    X("in-use", "gc", "region kind id cluster type launched lease_end",                            \
      "the same, of a cluster whose lease has not ended")                                          \
    X("data-inspected", "data inspect",                                                            \
      "source kind split samples bytes classes sizes first bad bad_samples", "one part of a set")  \
    X("data-packed", "data pack", "to split samples files bytes bad", "one part is written")       \
    X("input", "data ls", "name node kind folder files bytes changed_ms",                          \
      "an input, or the environment of env.bundle, on a node")                                     \
    X("input-removed", "data rm", "name folders", "an input is gone from the nodes")               \
    X("data-indexed", "data index", "to folders shards samples", "the index files are written")    \
    X("data-made", "data make-shapes", "to train_images test_images size", "the folder is there")  \
    X("finding", "doctor", "verdict what fact remedy", "one check")                                \
    X("wrote", "init", "file", "the file is written")                                              \
    X("imported", "import", "format file to settings text notes",                                  \
      "a configuration was made; notes: line, name and text of fields without an equivalent")      \
    X("version", "version", "version build_date third_party carries",                              \
      "versions of dtctl and its parts")
// clang-format on

struct screen {
    int out_fd, note_fd;
    enum screen_style style;
    bool quiet; // drops notes and progress; keeps results and errors
    bool broken;
    bool hurried; // a signal came: output that is not read soon is dropped
    bool log_stuck;
    int write_error; // errno of a failed write of a result
    int live_lines;  // lines of the live block on the screen
    bool out_is_terminal;
    bool gathers;           // results wait in `gathered`
    struct strbuf gathered; // of screen_gather
};

void screen_init(struct screen *s, int out_fd, int note_fd, enum screen_style style, bool quiet);
void screen_fini(struct screen *s);
// Sends log lines to the notes' descriptor, where they never block either. s must outlive the last
// log line of the program.
void screen_take_log(struct screen *s);

// Prints a result as given (with its newline); nothing in JSON style.
void screen_out(struct screen *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void screen_write(struct screen *s, const void *p, size_t len); // prints a result in any style
// Prints one line of a program on a node behind a label, made safe for a terminal: a result in any
// style, or on the notes' descriptor when is_error.
void screen_words(struct screen *s, const char *label, const char *line, size_t len, bool is_error);
// Gathers results until screen_flush, so that many lines are one write; never on a terminal. What
// goes to the notes' descriptor or the log meanwhile comes after the results before it.
void screen_gather(struct screen *s);
void screen_flush(struct screen *s);
// Prints a remark for the user, one line without newline; nothing when quiet or in JSON style.
void screen_note(struct screen *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Prints one JSON object; j was opened on text and closed. Nothing in other styles.
void screen_json(struct screen *s, const struct strbuf *text);
// Begins {"event":kind,"time_ms":…; the caller adds members and calls screen_event_end.
void screen_event(struct strbuf *text, struct json_out *j, const char *kind);
void screen_event_end(struct screen *s, struct strbuf *text, struct json_out *j);

// Replaces the live block (lines of text, each ended by a newline). Only in terminal style.
void screen_live(struct screen *s, const char *text);
void screen_erase(struct screen *s); // removes the block
void screen_keep(struct screen *s);  // turns the block into ordinary text

int screen_columns(const struct screen *s);
int screen_rows(const struct screen *s);

// Appends foreign bytes for a terminal. Colour sequences (SGR) are kept except concealing ones;
// other control characters become visible. A carriage return restarts the line, so only the last
// part is kept.
void screen_foreign(struct strbuf *out, const char *line, size_t len);
// Cuts one line of such text to the given number of cells, with an ellipsis.
void screen_fit(struct strbuf *text, int columns);
// The bytes of text without colours that fit into so many cells, at least one character; *used: the
// cells that they take.
size_t screen_cut(const char *text, size_t len, int columns, int *used);

#endif
