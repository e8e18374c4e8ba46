// SPDX-License-Identifier: Apache-2.0
// Parses Terraform's output: one line of `-json` output, its state (`state pull`, format 4), and
// the holder of the state's lock. Pure and bounded; the bytes are untrusted.
//
//     while ((len = next line)) {
//         struct terraform_line l;
//         terraform_line_parse(&arena, line, len, &l);
//         if (l.kind == TERRAFORM_COMPLETE && str_eq(l.type, "aws_instance")) …
//     }
#ifndef TERRAFORM_TERRAFORM_OUTPUT_H
#define TERRAFORM_TERRAFORM_OUTPUT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TERRAFORM_LINE_BYTES_MAX = 8 << 20,   // all outputs are in one line
    TERRAFORM_STATE_BYTES_MAX = 64 << 20, // about 20 kB per node
};

// Types of lines that dtctl uses; others are TERRAFORM_OTHER.
#define TERRAFORM_KINDS(X)                                                                         \
    X(TERRAFORM_PLANNED, "planned_change")                                                         \
    X(TERRAFORM_DRIFT, "resource_drift")                                                           \
    X(TERRAFORM_SUMMARY, "change_summary")                                                         \
    X(TERRAFORM_START, "apply_start")                                                              \
    X(TERRAFORM_PROGRESS, "apply_progress")                                                        \
    X(TERRAFORM_COMPLETE, "apply_complete")                                                        \
    X(TERRAFORM_ERRORED, "apply_errored")                                                          \
    X(TERRAFORM_DIAGNOSTIC, "diagnostic")                                                          \
    X(TERRAFORM_OUTPUTS, "outputs")

enum terraform_kind {
    TERRAFORM_TEXT,  // not JSON: text of a wrapping program
    TERRAFORM_OTHER, // JSON of another type
#define X(id, name) id,
    TERRAFORM_KINDS(X)
#undef X
};

// Strings are "" when absent.
struct terraform_line {
    enum terraform_kind kind;
    const char *message;          // human-readable
    const char *address, *type;   // of the resource: "module.nodes.aws_instance.node[0]"
    const char *action;           // "create", "update", "delete", "replace", "read"
    int index;                    // of the resource; -1 without an index
    const char *id;               // of the created resource
    int64_t elapsed_s;            //
    bool is_error;                // of a diagnostic; else it is a warning
    const char *summary, *detail; // of a diagnostic
    int64_t add, change, remove;  // of a summary
    const char *operation;        // of a summary: "plan", "apply", "destroy"
    const struct json *outputs;   // NULL unless TERRAFORM_OUTPUTS with values
    const struct json *json;      // the complete line
};

// Never fails: an unknown line becomes TERRAFORM_TEXT with the line as message.
void terraform_line_parse(struct arena *a, const char *line, size_t len,
                          struct terraform_line *out);
// The value of an output, or NULL.
const struct json *terraform_line_output(const struct json *outputs, const char *name);

// True for a diagnostic that says that AWS has no object to import or read. Returns its type and
// id, as in aws_internet_gateway.found["igw-0a"].
bool terraform_line_missing(struct arena *a, const struct terraform_line *l, const char **type,
                            const char **id);

// The contents of a state.
struct terraform_state {
    struct terraform_resource {
        const char *type, *name, *module; // module "" for the root
        const char *id;                   // "" without an id
        int index;                        // -1 without an index
        const char *key;                  // of for_each; "" without
        bool managed;                     // false: data source
        bool tainted;
        const struct json *attributes; // NULL without attributes
    } * resources;
    size_t count, managed_count;
    const struct json *outputs; // NULL: none
};

// Empty text is an empty state.
int terraform_state_parse(struct arena *a, const char *text, size_t len,
                          struct terraform_state *out, struct err *e);

// The address "module.nodes.aws_instance.node[0]" for -target and -replace.
const char *terraform_state_address(struct arena *a, const struct terraform_resource *r);

// The holder of the lock of a state, from an error text that quotes it ("Lock Info:" and the
// following lines). Strings are printable, "" when missing.
struct terraform_lock {
    const char *id;        // hexadecimal digits and '-'; "?": malformed; "": unlocked
    const char *who;       // "ann@laptop"
    const char *operation; // "apply"
    int64_t since_ms;      // wall clock of its owner; 0: missing
};
// text may be anything; false when it quotes no lock.
bool terraform_lock_parse(struct arena *a, const char *text, struct terraform_lock *out);

#endif
