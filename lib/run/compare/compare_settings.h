// SPDX-License-Identifier: Apache-2.0
// The settings of runs as names and texts, and those in which runs differ.
//
// Names are those of the keys of dtctl.toml where there is one. All texts are safe to print on a
// terminal. The value of an environment variable is its digest, and the query of an address is left
// out: both may hold secrets. Pure.
#ifndef RUN_COMPARE_SETTINGS_H
#define RUN_COMPARE_SETTINGS_H

#include "base/json.h"
#include "cluster/run_record.h"

#include <stdbool.h>
#include <stddef.h>

enum { COMPARE_DIGITS = 12 }; // of a digest that is shown

struct compare_setting {
    const char *name, *value;
    bool is_digest; // of content
    bool is_new;    // records of older versions of dtctl do not have it
};

struct compare_settings {
    struct compare_setting *items;
    size_t count, room;
    bool is_old; // the record is of such a version
};

// inputs: the content of inputs.json; NULL: the run has none.
void compare_settings_of(struct arena *a, const struct run *r, const struct json *inputs,
                         struct compare_settings *out);

struct compare_row {
    const char *name;
    const char **values; // of each run; NULL: it has none, or its record is too old to say
    bool differs;
};

// All settings of the runs, in the order in which the runs have them.
void compare_settings_rows(struct arena *a, const struct compare_settings *runs, size_t count,
                           struct compare_row **rows, size_t *row_count);

#endif
