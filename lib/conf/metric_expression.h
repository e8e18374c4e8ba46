// SPDX-License-Identifier: Apache-2.0
// The expression of a metric: people's regular expression, compiled, and the number that its first
// group holds in a line. The check of an option and the reader of worker lines both use it, so an
// expression that is taken is one that works.
//
//     struct metric_expression x;
//     if (metric_expression_compile(&x, "Loss ([0-9.]+)", e) == 0)
//         metric_expression_find(&x, "Loss 2.5", &value);
//     metric_expression_fini(&x);
//
// Expressions are POSIX extended ones, with \d \w \s (and capitals) and (?: ) as people write them.
// Of the lazy forms, (.*?) is taken where one character follows and ends the expression. Pure.
#ifndef CONF_METRIC_EXPRESSION_H
#define CONF_METRIC_EXPRESSION_H

#include "base/err.h"
#include "base/str.h"

#include <regex.h>
#include <stdbool.h>

enum {
    METRIC_COUNT_MAX = 64,
    METRIC_NAME_BYTES_MAX = 64,
    METRIC_REGEX_BYTES_MAX = 1024,
    METRIC_GROUPS_MAX = 16,
};

struct metric_expression {
    regex_t regex;
    size_t group; // the group that holds the value
};

// ERR_CONFIG says what is wrong; nothing is to be freed then.
int metric_expression_compile(struct metric_expression *x, const char *text, struct err *e);
void metric_expression_fini(struct metric_expression *x);
// The number in a line; false when the line has none.
bool metric_expression_find(const struct metric_expression *x, const char *line, double *value);

// Letters, digits and ._-:/@, the first a letter or digit: train:loss, val/acc@1.
int metric_expression_check_name(const char *name, struct err *e);
int metric_expression_check(const char *text, struct err *e); // compiles it, and frees it

#endif
