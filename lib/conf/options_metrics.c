// SPDX-License-Identifier: Apache-2.0
// [metrics]: numbers to take out of the workers' lines. A table of its own, since its check brings
// PCRE2 along, which only dtctl is linked with.
#include "conf/config.h"
#include "conf/metric_regex.h"

#include <stddef.h>

static const struct option_row rows[] = {
    {.key = "metrics",
     .flag = "metric",
     .verbs = "train",
     .type = OPTION_MAP,
     .offset = offsetof(struct config, metrics),
     .arg = "NAME=REGEX",
     .items_max = METRIC_COUNT_MAX,
     .check_name = metric_regex_check_name,
     .check = metric_regex_check,
     .help = "Metric to read from the workers' lines: a regular expression as in Python (PCRE2), "
             "whose first named group, or else first group, is the number; may be repeated."},
};

const struct option_table options_metrics = {"Metrics", rows, sizeof rows / sizeof rows[0]};
