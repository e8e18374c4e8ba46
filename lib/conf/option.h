// SPDX-License-Identifier: Apache-2.0
// Options: one row says everything about an option; flags, file keys, environment variables,
// defaults, checks, help, manual, example file and completions all come from it.
//
//     static const struct option_row rows[] = {
//         {.key = "cluster.nodes", .flag = "nodes", .verbs = "plan up", .type = OPTION_INT,
//          .offset = offsetof(struct config, cluster.nodes), .text = "2", .min = 1, .max = 10000,
//          .arg = "N", .help = "Number of nodes to make."},
//     };
//     const struct option_table table = {"cluster", rows, 1};
//
//     struct option_set set;
//     option_set_init(&set, &arena, "dtctl", "DTCTL_");
//     option_set_add(&set, &table, &config);    // defaults are in place from here on
//     cli_scan(&set, …);                        // remembers flags (cli.h)
//     option_set_file(&set, "dtctl.toml", text, len);
//     option_set_env(&set, set.env);
//     cli_apply(&set);                          // flag > environment > file > default
//     if (option_set_finish(&set, e) < 0) …     // every problem found on the way, at once
//
// The arena owns all values. Problems are collected, not returned one by one.
#ifndef CONF_OPTION_H
#define CONF_OPTION_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "conf/toml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OPTION_TABLES_MAX = 32,   // in one set
    OPTION_ITEMS_MAX = 16384, // elements of one list, map or set of records
    OPTION_NAME_BYTES_MAX = 128,
    OPTION_PLAIN_BYTES_MAX = 64, // of a plain name
    OPTION_ENV_BYTES_MAX = 1024, // of the list of unknown variables
    OPTION_PROBLEMS_MAX = 200    // described; further ones are counted
};

// type, the C type stored at offset, its name in errors and help
#define OPTION_TYPES(X)                                                                            \
    X(OPTION_BOOL, bool, "true or false")                                                          \
    X(OPTION_INT, int64_t, "an integer")                                                           \
    X(OPTION_REAL, double, "a number")                                                             \
    X(OPTION_STRING, const char *, "a string")                                                     \
    X(OPTION_PATH, const char *, "a path")                                                         \
    X(OPTION_DURATION, int64_t, "a duration such as 90s, 15m or 250ms")                            \
    X(OPTION_BYTES, int64_t, "a size such as 512k, 25MiB or 1G")                                   \
    X(OPTION_CHOICE, int, "one of a list of words")                                                \
    X(OPTION_COUNT, int64_t, "a number or one of a list of words")                                 \
    X(OPTION_RANGE, struct option_range, "N or MIN:MAX")                                           \
    X(OPTION_LIST, struct option_list, "a list of strings")                                        \
    X(OPTION_PATHS, struct option_list, "a list of paths")                                         \
    X(OPTION_INTS, struct option_ints, "a list of integers")                                       \
    X(OPTION_REALS, struct option_reals, "a list of numbers")                                      \
    X(OPTION_MAP, struct option_map, "a table of strings")                                         \
    X(OPTION_RECORDS, struct option_records, "tables")

enum option_type {
#define X(name, c_type, text) name,
    OPTION_TYPES(X)
#undef X
};

// Stored values. An unset string is "" (never NULL), an unset list has count 0.
//
// DURATION: milliseconds. BYTES: bytes. PATH: "~/" expanded; a relative one that came from a file
// is relative to that file's folder. CHOICE: index into choices. COUNT: the number, or -1 - index
// of the word. RANGE: {N, N} or {MIN, MAX}; {0, 0} when unset.
struct option_range {
    int64_t min, max;
};
struct option_list {
    const char **items; // NULL-terminated
    size_t count;
};
struct option_ints {
    int64_t *items;
    size_t count;
};
struct option_reals {
    double *items;
    size_t count;
};
struct option_pair {
    const char *name, *value;
};
struct option_map {
    struct option_pair *items; // in order of appearance; names are unique
    size_t count;
};
struct option_records {
    void *items; // count structs of record->size bytes each
    size_t count;
};

// Where a value came from.
// In the order of precedence. OPTION_RECIPE: from a named set of settings (train_recipe_apply).
// OPTION_KEPT: from a flag or variable of an earlier command.
enum option_source {
    OPTION_DEFAULT,
    OPTION_RECIPE,
    OPTION_FILE,
    OPTION_KEPT,
    OPTION_ENV,
    OPTION_FLAG
};
struct option_place {
    enum option_source source;
    const char *name; // file name, variable, or flag as typed; NULL for a default
    int line, column; // OPTION_FILE and OPTION_KEPT only
};

struct name_map;
struct option_row;

// The fields of one element of OPTION_RECORDS.
struct option_record {
    size_t size;                   // of the element struct
    const struct option_row *rows; // keys are plain ("source"), offsets inside the element
    size_t count;
    bool named;          // [table.NAME], stored in rows[0] (a string); else [[table]]
    size_t place_offset; // of a struct option_place in the element
    // Fills an element from one flag value ("NAME=SOURCE:sharded").
    int (*from_text)(struct arena *a, const char *text, void *element, struct err *e);
};

enum option_mark {
    OPTION_PASS_ON = 1,  // torchrun's: handed to the agent under its own name
    OPTION_REST = 2,     // a list that takes the arguments after "--"
    OPTION_NO_ENV = 4,   // no environment variable
    OPTION_REQUIRED = 8, // of a record: must be given
    OPTION_UNSERVED =
        16,             // parses, and the program refuses it with a clear message when it is given
    OPTION_HIDDEN = 32, // not in help
    OPTION_ASSIGN = 64, // --set: a list whose items are assignments to other rows
    OPTION_KEEP = 128,  // given as a flag or variable it is kept for later commands
    OPTION_OPEN_MAX = 256, // the maximum itself is not allowed
    OPTION_BRACKETS = 512, // a list whose elements may begin with '[': TOML only where it parses
    OPTION_ADDRESS = 1024  // a path, or an address (option_is_address), which is in no folder
};

// A condition on another row that holds when this row is given (a BOOL: as true). Checked at the
// end, when every value is right by itself.
enum option_rule_kind {
    OPTION_RULE_POSITIVE, // other > 0
    OPTION_RULE_WORD,     // other, a CHOICE, is word
    OPTION_RULE_AT_MOST   // this one <= other
};
struct option_rule {
    enum option_rule_kind kind;
    const char *other, *word; // key of the other row; NULL ends a list of rules
};

struct option_row {
    const char *key;   // "table.key" in the file; NULL: not in the file
    const char *flag;  // long name without dashes; NULL: no flag (reached with --set KEY=VALUE)
    char letter;       // short name, 0: none
    const char *word;  // another one behind one hyphen, of more letters; NULL: none
    const char *verbs; // "up plan": commands that take the flag; "*": all; NULL: as "*"
    const char *env;   // full variable name; NULL: prefix + key (or flag) in upper case
    enum option_type type;
    unsigned marks;
    size_t offset;
    const char *text;            // default, in the flag's syntax; NULL and "" mean unset
    double min, max;             // numbers, durations (ms), sizes, list items; both 0: no bounds
    size_t items_min, items_max; // list lengths, checked when not empty; 0: no bound
    const char *const *choices;  // CHOICE and COUNT, NULL-terminated
    const char *arg;             // placeholder in help ("N", "DIR"); NULL: from the type
    const char *help;            // one sentence
    const struct option_record *record;
    // Extra check of a string, of every item of a list, of every value of a map.
    int (*check)(const char *value, struct err *e);
    int (*check_name)(const char *name, struct err *e); // names of a map or of named records
    const struct option_rule *rules;                    // NULL: none
};

struct option_table {
    const char *title; // heading in help: "Training"
    const struct option_row *rows;
    size_t count;
};

struct option_problem {
    struct option_place place;
    const char *text; // "cluster.nodes: 0 is below the minimum 1"
    struct option_problem *next;
};

// A value of the file that a kept one took the place of.
struct option_shadow {
    const struct option_row *row;
    struct option_place place;
    const char *text; // as TOML
    struct option_shadow *next;
};

enum option_style {
    OPTION_STYLE_UNDERSCORES = 1, // --nproc_per_node is --nproc-per-node
    OPTION_STYLE_PREFIXES = 2,    // --redirect is --redirects when nothing else starts so
    OPTION_STYLE_REMAINDER = 4    // the first argument that is no flag ends the flags
};

struct option_bound {
    const struct option_table *table;
    void *target;
    struct option_place *places; // one per row
};

struct option_given; // a flag as scanned (cli.c)

// The row that every program has, for a table whose target has `help` at the place given.
#define OPTION_ROW_HELP(...)                                                                       \
    {                                                                                              \
        .flag = "help", .letter = 'h', .type = OPTION_BOOL, .marks = OPTION_NO_ENV, __VA_ARGS__,   \
        .text = "false", .help = "Show help."                                                      \
    }

// Named sections of a file that have values for the same rows: [tasks.NAME]. A member of a section
// is one of the tables in `whole`, or a key of one of the tables in `own`, the first that has it.
// Values of the chosen section follow those of the file; of the others the keys are checked only.
struct option_sections {
    const char *table; // "tasks"
    const char *const *whole, *const *own;
    const char *const *refused; // keys that no section may have
    const char *variable;       // a worker's, of a section's name behind this: no two have the same
    const char *chosen;         // NULL: none
    const char **names;         // of all sections in the file, in its order; NULL-terminated
    size_t count;
};

struct option_set {
    struct arena *arena;
    const char *program;    // "dtctl", for messages
    const char *env_prefix; // "DTCTL_"
    char *const *env;       // of the program; NULL: empty. HOME is for "~" in paths
    unsigned style;
    struct option_bound tables[OPTION_TABLES_MAX];
    size_t table_count;
    struct option_given *given, *given_last;
    struct option_problem *problems, *problems_last;
    struct option_shadow *shadows;
    struct option_sections *sections; // NULL: files have none
    int problem_count;
};

void option_set_init(struct option_set *s, struct arena *a, const char *program,
                     const char *env_prefix, char *const *env);
// Binds the rows to a struct and puts the defaults there. A default that does not parse is a bug
// and aborts (option_verify finds it in tests). target NULL: the keys are known, and left alone.
void option_set_add(struct option_set *s, const struct option_table *table, void *target);
// Rows of all tables together.
size_t option_set_row_count(const struct option_set *s);
// Reads TOML text; unknown keys, wrong types and bad values become problems with name:line:column.
void option_set_file(struct option_set *s, const char *name, const char *text, size_t len);
// Reads what render_kept wrote: values of OPTION_KEEP rows that no flag or variable has set. To be
// called last. Differing values of the file go to set->shadows.
void option_set_kept(struct option_set *s, const char *name, const char *text, size_t len);
// env is a NULL-terminated list of "NAME=value": the program's own, or one made for it.
void option_set_env(struct option_set *s, char *const *env);
// Names (never values) of the variables that begin with the prefix, have a value, and are neither a
// row's nor one of others ("NAME", or "BEGINNING*"; NULL-terminated): each with the names that may
// be meant, in one line. "": there are none.
const char *option_unknown_env(const struct option_set *s, const char *const *others);
// One "train.epochs=3", as a flag or test gives it; place says who did. Problems are collected.
void option_set_text(struct option_set *s, const char *assignment, struct option_place place);
// 0 when no problem was collected, else -1 with ERR_CONFIG (ERR_USAGE if only flags are to blame)
// and one line per problem in e, as many as fit; the whole list is in s->problems.
int option_set_finish(struct option_set *s, struct err *e);

void option_problem(struct option_set *s, struct option_place place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Adds a problem, and returns false, where another name has the variable already. taken: variables,
// to their names. what: "inputs".
bool option_take_variable(struct option_set *s, struct name_map *taken, struct option_place place,
                          const char *what, const char *name, const char *variable);
// "dtctl.toml:12:9: cluster.nodes: 0 is …", "--nodes: …", "DTCTL_NODES: …"
const char *option_problem_line(struct arena *a, const struct option_problem *p);

// Rows by key; index receives where its place is. NULL when there is none.
const struct option_row *option_find(const struct option_set *s, const char *key,
                                     struct option_bound const **bound);
const struct option_place *option_place(const struct option_set *s, const char *key);
bool option_given(const struct option_set *s, const char *key); // not the default
// "dtctl.toml:12:9", "--nodes", "DTCTL_NODES", "default"
const char *option_place_text(struct arena *a, const struct option_place *p);

// ---- rows by themselves ----
// For check and check_name: a plain name, as of a cluster, task or hyperparameter (str_is_name).
int option_plain_name(const char *name, struct err *e);
// True for "SCHEME://…" and "run:…".
bool option_is_address(const char *text);
const char *option_row_name(const struct option_row *r);                // key, else "--flag"
bool option_row_has_verb(const struct option_row *r, const char *verb); // NULL verb: only "*"
const char *option_row_env(struct arena *a, const struct option_set *s, const struct option_row *r);
// Reads text in the flag's syntax into dest (an object of the row's type). Lists and maps:
// separated by commas outside of brackets and quotes, or in TOML's own syntax ([…], {…}).
int option_parse(struct arena *a, const struct option_row *r, const char *text, void *dest,
                 struct err *e);
// Adds one element to a LIST, PATHS, MAP or RECORDS; an existing element of the same name is
// replaced.
int option_append(struct arena *a, const struct option_row *r, const char *text, void *dest,
                  struct err *e);
// The value in TOML's syntax, as a file has it.
void option_format(struct strbuf *out, const struct option_row *r, const void *value);
bool option_is_scalar(enum option_type type); // one flag gives the whole value

// Finds contradictions inside the tables: two rows with one name, a default that does not parse or
// breaks its own bounds, a missing help sentence, a choice without words. verbs is NULL-terminated.
// Flags are compared among the tables that are bound to a struct. Returns the number of faults and
// writes one line each.
int option_verify(const struct option_set *s, const char *const *verbs, struct strbuf *out);

#endif
