// SPDX-License-Identifier: Apache-2.0
// Private to the option code: values by type, shared by option.c (sets), option_parse.c (text),
// option_list.c (lists, maps, records), option_toml.c (files) and option_format.c.
#ifndef CONF_OPTION_VALUE_H
#define CONF_OPTION_VALUE_H

#include "conf/option.h"

// How a TOML value is read: relative paths from dir, complaints to fail (at is the culprit, name
// the dotted key, text the reason).
struct option_reader {
    struct arena *a;
    const char *dir;
    const char *file; // for the places of records
    void (*fail)(void *ctx, const struct toml *at, const char *name, const char *text);
    // True for a table of keys of its own inside the table of a map; NULL: there are none.
    bool (*has_keys)(void *ctx, const char *name);
    void *ctx;
};

size_t option_value_bytes(enum option_type type);
// Sets strings to "" and lists to empty, numbers to 0.
void option_value_unset(enum option_type type, void *dest);
const char *option_type_text(enum option_type type);

// A word of the row's choices -> its index, or -1 with all of them (and the nearest) in e.
int option_parse_choice(struct arena *a, const struct option_row *r, const char *text, int *index,
                        struct err *e);
int option_parse_scalar(struct arena *a, const struct option_row *r, const char *text, void *dest,
                        struct err *e);
// Checks the bounds of a parsed number.
int option_verify_bounds(const struct option_row *r, double v, struct err *e);
int option_verify_items(const struct option_row *r, size_t count, struct err *e);
// Splits a list at commas outside brackets and quotes. Returns at least one element; an element
// that is quoted as a whole loses its quotes.
size_t option_split(struct arena *a, const char *text, char ***parts);
void option_verify_rules(struct option_set *s); // a problem for each rule that is broken
// "~" and "~/…" at the beginning of each path in a value of this row, with the set's HOME.
void option_expand_home(const struct option_set *s, const struct option_row *r, void *value);

// One element at the end of a LIST or PATHS (checked); a pair into a MAP, which replaces one of the
// first `before` pairs that has its name; room for a record, in the place of one with its name.
int option_put_item(struct arena *a, const struct option_row *r, const char *text, void *dest,
                    struct err *e);
int option_put_pair(struct arena *a, const struct option_row *r, const char *name,
                    const char *value, size_t before, void *dest, struct err *e);
int option_put_record(struct arena *a, const struct option_row *r, const void *element,
                      size_t before, void *dest, struct err *e);
// A new element with the defaults of its rows.
void *option_new_record(struct arena *a, const struct option_record *record);
const char *option_record_name(const struct option_record *record, const void *element);

// -1 after something was reported.
int option_read_toml(struct option_reader *rd, const struct option_row *r, const struct toml *v,
                     const char *name, void *dest);

void option_format_duration(struct strbuf *out, int64_t ms);
void option_format_bytes(struct strbuf *out, int64_t bytes);

// Sets one value from text; element: the text is one element of a list, not the whole of it.
void option_apply(struct option_set *s, const struct option_bound *b, const struct option_row *r,
                  const char *text, bool element, struct option_place place);
// A field of a record by its key, without the name of a named one; NULL: none.
const struct option_row *option_find_field(const struct option_record *record, const char *key);
// The key of the field that is nearest to a mistyped one, or NULL.
const char *option_nearest_field(struct arena *a, const struct option_record *record,
                                 const char *key);
// " (did you mean 'x'?)" for a key, or "".
const char *option_nearest_key(const struct option_set *s, const char *key);

#endif
