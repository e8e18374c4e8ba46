// SPDX-License-Identifier: Apache-2.0
// The expression of a metric: a compiled regular expression with a group that captures a number.
// The check of the option and the reader of worker lines both use it, so every accepted expression
// works.
//
//     struct metric_regex x;
//     if (metric_regex_compile(&x, "Loss ([0-9.]+)", e) == 0)
//         metric_regex_find(&x, "Loss 2.5", strlen("Loss 2.5"), &value);
//     metric_regex_fini(&x);
//
// The syntax is PCRE2's, of which Python's is nearly a part. Text is UTF-8, and \d, \w and \s know
// Unicode. The value is the first named group, or the first group where none has a name.
#ifndef CONF_METRIC_EXPRESSION_H
#define CONF_METRIC_EXPRESSION_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    METRIC_COUNT_MAX = 64,
    METRIC_NAME_BYTES_MAX = 64,
    METRIC_REGEX_BYTES_MAX = 1024,
};

// Limits of one search, so that no expression takes long on any line.
enum {
    METRIC_STEPS_MAX = 50000,   // steps from one place of the line
    METRIC_DEPTH_MAX = 10000,   // places to go back to, at a time
    METRIC_HEAP_KIB_MAX = 4096, // memory for these
    METRIC_LINE_MS_MAX = 20,    // CPU time; looked at between the parts of a line
    METRIC_PART_BYTES = 64,     // places of a line that are tried as one part
};

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;

struct metric_regex {
    struct pcre2_real_code_8 *code;
    struct pcre2_real_match_data_8 *match;
    struct pcre2_real_match_context_8 *limits;
    uint32_t group; // the group that holds the value
};

enum metric_found {
    METRIC_NONE,      // nothing matches, or the group is empty
    METRIC_FOUND,     // *value is set
    METRIC_NO_NUMBER, // the group's text is none
    METRIC_OVERRUN,   // a limit was reached first
};

// ERR_CONFIG says what is wrong and where; nothing is to be freed then.
int metric_regex_compile(struct metric_regex *x, const char *text, struct err *e);
void metric_regex_fini(struct metric_regex *x);
// The number in a line. One search at a time: it uses memory of x.
enum metric_found metric_regex_find(const struct metric_regex *x, const char *line, size_t len,
                                    double *value);
// After METRIC_NO_NUMBER: the group's text in that line.
const char *metric_regex_text(const struct metric_regex *x, const char *line, size_t *len);

// Letters, digits and ._-:/@, the first a letter or digit: train:loss, val/acc@1.
int metric_regex_check_name(const char *name, struct err *e);
int metric_regex_check(const char *text, struct err *e); // compiles it, and frees it

#endif
