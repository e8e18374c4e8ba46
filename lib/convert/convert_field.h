// SPDX-License-Identifier: Apache-2.0
// Tables of the fields of other tools, and the two ways to read by them: a tree of JSON or YAML,
// and the words of a command line.
//
//     static const struct convert_field FIELDS[] = {
//         {.name = "ResourceConfig.InstanceCount", .key = "cluster.nodes"},
//         {.name = "RoleArn", .text = "dtctl uses the credentials of this computer"},
//         {0},
//     };
//     struct convert_walk w = {.draft = d, .fields = FIELDS};
//     convert_field_tree(&w, root);
//
// The documentation has the same tables.
#ifndef CONVERT_CONVERT_FIELD_H
#define CONVERT_CONVERT_FIELD_H

#include "base/json.h"
#include "convert/convert_draft.h"

struct convert_walk;

// The rest of the work with a value.
enum convert_next { CONVERT_DONE, CONVERT_INSIDE /* its members have rows, too */ };

struct convert_field {
    const char *name; // path ("Tags[].Key"), or a flag ("--nodes"); NULL ends a table
    const char *key;  // of dtctl.toml; "": the field needs nothing there; NULL: no equivalent
    const char *text; // how the value is converted; without an equivalent: what to do instead
    // NULL: a scalar becomes the key's value; without a key, the text becomes a note.
    enum convert_next (*take)(struct convert_walk *w, const struct json *v);
    unsigned types; // of JSON that take reads: sums of CONVERT_…; 0: any single value
    char letter;    // of a flag: its short name, 0: none
    char words;     // of a flag: '=' one value, '?' a value only behind '=', 'v' two, 0 none
};

// Rows of fields of a tree: without an equivalent; with a function; with one for certain types.
#define CONVERT_NONE(path, advice)                                                                 \
    { .name = path, .text = advice }
#define CONVERT_TAKE(path, to, function, remark)                                                   \
    { .name = path, .key = to, .text = remark, .take = function }
#define CONVERT_TYPED(path, to, function, remark, of)                                              \
    { .name = path, .key = to, .text = remark, .take = function, .types = of }

enum { CONVERT_PATH_BYTES_MAX = 1024 };

enum {
    CONVERT_BOOL = 1 << JSON_BOOL,
    CONVERT_INT = 1 << JSON_INT,
    CONVERT_TEXT = 1 << JSON_STR,
    CONVERT_LIST = 1 << JSON_ARRAY,
    CONVERT_MAP = 1 << JSON_OBJECT,
    CONVERT_SINGLE = CONVERT_BOOL | CONVERT_INT | CONVERT_TEXT | 1 << JSON_NUM,
};

struct convert_walk {
    struct convert_draft *draft;
    const struct convert_field *fields;
    void *state; // of the reader
    // Of the value that is being taken:
    const struct convert_field *field;
    struct convert_from from;
};

// Reads all members of an object below their paths. Fields without a row become notes.
void convert_field_tree(struct convert_walk *w, const struct json *root);
// Reads the flags at the begin of words; returns the number of words that they are.
size_t convert_field_flags(struct convert_walk *w, int line, const char *const *words,
                           size_t count);

// A scalar as text; NULL for null, arrays and objects.
const char *convert_field_text(struct arena *a, const struct json *v);
// Sets the key from the value that is being taken.
bool convert_field_set(struct convert_walk *w, const char *key, const char *text);
// One name of a table of texts, from a member; null, lists and objects become notes.
void convert_field_pair(struct convert_walk *w, const char *table, const char *path,
                        const struct json *member);
// Notes the members of an object that are not among the names; NULL ends them.
void convert_field_others(struct convert_walk *w, const struct json *v, const char *const *names);
// The same for a time in seconds, written in the largest unit that fits.
bool convert_field_seconds(struct convert_walk *w, const char *key, int64_t seconds);

#endif
