// SPDX-License-Identifier: Apache-2.0
// Expands names with number brackets in the notation of Slurm and pdsh: gpu[01-04,07].lab has five
// names.
//
//     const char *end = hostlist_end(text);
//     const char *why = hostlist_parse(&arena, text, end, "", 4096, &list);
//     for (size_t i = 0; !why && i < list.count; i++)
//         name = hostlist_name(&arena, &list, i);
//
// Grammar: a name has letters, digits, '.', '-' and '_'. `[1-4,07]` stands for each number; the
// numbers of a range have the width of the first one (01-04). Several brackets multiply; the last
// one varies fastest. Pure; everything is in the arena.
#ifndef BASE_HOSTLIST_H
#define BASE_HOSTLIST_H

#include "base/arena.h"

#include <stddef.h>

enum {
    HOSTLIST_BRACKETS_MAX = 4,
    HOSTLIST_DIGITS_MAX = 9,
    HOSTLIST_NAME_BYTES_MAX = 255, // a DNS name
};

struct hostlist_range {
    unsigned first, last;
    int width; // at least so many digits
};

struct hostlist {
    char *literal[HOSTLIST_BRACKETS_MAX + 1]; // text before bracket i; the last one ends the name
    struct {
        struct hostlist_range *ranges;
        size_t count;
        size_t total; // numbers in all ranges
    } bracket[HOSTLIST_BRACKETS_MAX];
    size_t bracket_count;
    size_t count; // names
};

// The end of the element at s: a comma or white space outside brackets, or the end of the text.
const char *hostlist_end(const char *s);
// Parses one element. `also`: further bytes that a name may have. Returns NULL, or why the element
// is refused: its form, or more than names_max names.
const char *hostlist_parse(struct arena *a, const char *s, const char *end, const char *also,
                           size_t names_max, struct hostlist *out);
// The i-th name.
char *hostlist_name(struct arena *a, const struct hostlist *list, size_t i);
// NULL, or why this is no name: empty, too long, or without a letter or a digit at its beginning,
// where another program could take it for an option.
const char *hostlist_check_name(const char *name);
// Reads a number of at most HOSTLIST_DIGITS_MAX digits. Returns how many digits it has; 0: none, or
// too many.
int hostlist_number(const char *s, const char *end, unsigned *out);

#endif
