// SPDX-License-Identifier: Apache-2.0
// Where a command's words go: results and worker lines to one descriptor, notes to another, a live
// block of lines that is redrawn at the bottom of a terminal, or JSON events instead of all of it.
//
//     screen_init(&s, 1, 2, SCREEN_TERMINAL, false);
//     screen_out(&s, "%s\n", line);             // erases the live block, prints
//     screen_live(&s, text, lines);             // draws the block anew
//     screen_fini(&s);                          // leaves the last block standing
//
// The caller owns the descriptors. Control characters of what is said are made visible here, but
// for newlines and colours; one line of foreign text has gone through str_printable or
// screen_foreign before, so that it stays one line. Output errors (a closed pipe) are kept in
// `broken` and otherwise ignored.
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

// Objects of --json that are dtctl's own: event, command, members, meaning. "…" in the members:
// more of them, by the case. `train` and `logs` also pass on the agents' events (NODE_EVENTS).
// clang-format off
#define SCREEN_EVENTS(X)                                                                           \
    X("error", "any", "code text exit_status", "the command failed")                               \
    X("node-failed", "any", "node code text", "one node failed; the command may go on")            \
    X("progress", "up train push fetch",                                                           \
      "operation node bytes bytes_total bytes_per_second state text", "a transfer, now and then")  \
    X("plan", "plan up", "cluster provider added kept removed changes …",                          \
      "nodes that up would make; aws adds type, prices and quota")                                 \
    X("plan", "train",                                                                             \
      "run name cluster native command nodes files bytes inputs resumes output_dir …",             \
      "a run that is about to start")                                                              \
    X("refused", "up", "kind code zone purchase next_zone next_purchase",                          \
      "AWS refused an attempt; the next one follows")                                              \
    X("phase", "up", "node phase ms", "an instance reached a phase of its boot")                   \
    X("up", "up", "cluster nodes installed ms …",                                                  \
      "the cluster is up; aws adds where the time went")                                           \
    X("started", "train",                                                                          \
      "run name cluster native command nodes files bytes inputs resumes output_dir …",             \
      "the run has started")                                                                       \
    X("line", "train logs", "node rank stream text", "one line of a rank")                         \
    X("line", "exec", "node stream text", "one line of a command")                                 \
    X("update", "train logs", "node rank stream text",                                             \
      "a rank's progress bar, which carriage returns redraw")                                      \
    X("metric", "train logs", "node rank name value", "a number found by [metrics]")               \
    X("summary", "train logs", "…", "the run is over: the content of summary.json")                \
    X("output", "exec -b", "nodes count text", "equal output of several nodes")                    \
    X("exit", "exec", "node status", "the command ended on a node; null: no status came")          \
    X("node", "status", "node address state error run ranks_running …", "one node")                \
    X("lease", "status", "until_ms left_ms spent_usd", "time and money of a cluster on aws")       \
    X("run", "ps",                                                                                 \
      "run name state reason nodes nodes_seen ranks_running round restarts max_restarts "          \
      "round_reason agent_starts coordinator fetched lost work_left results created_ms",           \
      "one run")                                                                                   \
    X("stopped", "stop", "run", "the run has stopped")                                             \
    X("pushed", "push", "files bytes files_sent bytes_sent bytes_wire", "the files are there")     \
    X("would-push", "push --dry-run", "to nodes files bytes ignored", "files that would be sent")  \
    X("fetched", "fetch --path", "to files bytes", "the files are here")                           \
    X("here", "fetch", "run to lost", "the results of a run are here")                             \
    X("extend", "extend", "cluster until_ms nodes", "the lease ends then")                         \
    X("adopt", "adopt", "cluster provider nodes runs", "the cluster was taken over")               \
    X("down", "down",                                                                              \
      "cluster nodes_removed freed_bytes runs_left runs_without_results …",                        \
      "the nodes are given back; aws adds verified, swept, cost_usd")                              \
    X("would-remove", "up down --dry-run", "nodes not_fetched going",                              \
      "nodes that would go, and runs that would lose results")                                     \
    X("gc", "gc", "dry_run runs contents folders freed_bytes regions leftovers",                   \
      "totals of the sweep")                                                                       \
    X("leftover", "gc", "region kind id cluster type launched lease_end",                          \
      "a thing on AWS that belongs to no cluster of this folder")                                  \
    X("in-use", "gc", "region kind id cluster type launched lease_end",                            \
      "the same, of a cluster whose lease has not ended")                                          \
    X("finding", "doctor", "verdict what fact remedy", "one check")                                \
    X("wrote", "init", "file", "the file is written")                                              \
    X("version", "version", "version build_date third_party carries",                             \
      "what dtctl is and carries")
// clang-format on

struct screen {
    int out_fd, note_fd;
    enum screen_style style;
    bool quiet; // notes and progress are dropped; results and errors stay
    bool broken;
    bool hurried; // a signal came: whoever does not read soon gets nothing any more
    bool log_stuck;
    int write_error; // errno, when a result could not be written
    int live_lines;  // drawn and not yet erased
    bool out_is_terminal;
};

void screen_init(struct screen *s, int out_fd, int note_fd, enum screen_style style, bool quiet);
void screen_fini(struct screen *s);
// Log lines go where notes go, and stop nobody either. s must outlive the program's last line.
void screen_take_log(struct screen *s);

// A result, as given (the newline too); nothing in JSON style.
void screen_out(struct screen *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void screen_write(struct screen *s, const void *p, size_t len); // a result, in any style
// One line of a program that runs on a node, behind a label: a result in any style, on the notes'
// descriptor when it is an error's. Made printable for a terminal.
void screen_words(struct screen *s, const char *label, const char *line, size_t len, bool is_error);
// A remark for a person, one line without newline; nothing when quiet or in JSON style.
void screen_note(struct screen *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// One JSON object; j has been opened on text and closed. Nothing in other styles.
void screen_json(struct screen *s, const struct strbuf *text);
// {"event":kind,"time_ms":…, then the caller's members. Use with screen_event_end.
void screen_event(struct strbuf *text, struct json_out *j, const char *kind);
void screen_event_end(struct screen *s, struct strbuf *text, struct json_out *j);

// Replaces the live block (lines of text, each ended by a newline). Only in terminal style.
void screen_live(struct screen *s, const char *text);
void screen_erase(struct screen *s); // the block vanishes
void screen_keep(struct screen *s);  // the block as it is becomes ordinary text

int screen_columns(const struct screen *s);
int screen_rows(const struct screen *s);

// Appends foreign bytes for a terminal: colour sequences (SGR) stay but for concealing ones, every
// other control character becomes visible; a carriage return starts the line again, so only the
// last part is kept.
void screen_foreign(struct strbuf *out, const char *line, size_t len);
// Cuts one line of such text, with an ellipsis, where it would be wider than that many cells.
void screen_fit(struct strbuf *text, int columns);

#endif
