// SPDX-License-Identifier: Apache-2.0
// Metrics: the values that expressions find in worker lines, and their figures.
#include "follow/metrics.h"

#include "base/log.h"
#include "base/str.h"

#include <math.h>
#include <string.h>

int metrics_add(struct metric_set *set, struct arena *a, const char *name, const char *regex,
                struct err *e) {
    struct metric *m = &set->metrics[set->count];
    if (set->count == METRIC_COUNT_MAX)
        return err_set(e, ERR_CONFIG, "more than %d metrics", METRIC_COUNT_MAX);
    *m = (struct metric){.name = arena_strdup(a, name)};
    if (metric_regex_check_name(name, e) < 0 || metric_regex_compile(&m->expression, regex, e) < 0)
        return err_wrap(e, "metric '%.80s'", name);
    m->literal_len = metric_literal(regex, m->literal);
    set->count++;
    return 0;
}

void metrics_fini(struct metric_set *set) {
    for (size_t i = 0; i < set->count; i++)
        metric_regex_fini(&set->metrics[i].expression);
    set->count = 0;
}

static void note_overrun(struct metric *m) {
    if (m->overruns++ == 0)
        log_warn("the expression of a metric takes too long on a line; such lines are skipped",
                 "metric=%s given_up_after=%d", m->name, METRIC_OVERRUNS_MAX);
}

// "1,234" is 1234 to some users and 1.234 to others, so it is not read as either.
static void note_text(struct metric *m, const char *line) {
    enum { SHOWN_BYTES_MAX = 64 };
    struct arena a = {0};
    size_t len;
    const char *text = metric_regex_text(&m->expression, line, &len);
    bool first = !m->warned;
    m->warned = m->matched = true;
    if (first)
        log_warn("the value of a metric is no number; such lines are left out",
                 "metric=%s value=\"%s\"", m->name,
                 str_printable(&a, text, len < SHOWN_BYTES_MAX ? len : SHOWN_BYTES_MAX));
    arena_fini(&a);
}

// A rank that is not known, -1, comes behind all others.
static void note_value(struct metric *m, int rank, double value) {
    m->matched = true;
    if (!isfinite(value))
        return;
    bool is_lower = m->count == 0 || (unsigned)rank < (unsigned)m->rank;
    if (is_lower)
        m->first = value;
    if (is_lower || rank == m->rank)
        m->last = value;
    m->rank = is_lower ? rank : m->rank;
    m->min = m->count ? fmin(m->min, value) : value;
    m->max = m->count ? fmax(m->max, value) : value;
    m->count++;
}

static bool may_match(const struct metric *m, const struct metric_pairs *pairs, const char *line,
                      size_t len) {
    return m->literal_len == 0 || (metric_pairs_may_hold(pairs, m->literal, m->literal_len) &&
                                   memmem(line, len, m->literal, m->literal_len));
}

void metrics_match(struct metric_set *set, int rank, const char *line, size_t len, metric_cb *cb,
                   void *ctx) {
    if (len > METRIC_LINE_BYTES_MAX)
        len = METRIC_LINE_BYTES_MAX;
    struct metric_pairs pairs;
    metric_pairs_of(&pairs, line, set->count ? len : 0);
    for (size_t i = 0; i < set->count; i++) {
        struct metric *m = &set->metrics[i];
        double value = 0;
        if (m->overruns >= METRIC_OVERRUNS_MAX || !may_match(m, &pairs, line, len))
            continue;
        switch (metric_regex_find(&m->expression, line, len, &value)) {
        case METRIC_NONE: break;
        case METRIC_FOUND:
            note_value(m, rank, value);
            cb(ctx, m, value);
            break;
        case METRIC_NO_NUMBER: note_text(m, line); break;
        case METRIC_OVERRUN: note_overrun(m); break;
        }
    }
}

void metrics_count_line(struct metric_set *set, const char *line, size_t len, bool is_first) {
    enum { SHOWN_BYTES_MAX = 200 };
    struct strbuf names = {0};
    if (set->lines == 0 && !is_first)
        set->lines = METRIC_SILENT_LINES_MAX;
    if (set->lines == METRIC_SILENT_LINES_MAX || ++set->lines < METRIC_SILENT_LINES_MAX)
        return;
    for (size_t i = 0; i < set->count; i++)
        if (!set->metrics[i].matched)
            strbuf_addf(&names, "%s%s", names.len ? ", " : "", set->metrics[i].name);
    struct arena a = {0};
    if (names.len)
        log_warn("no line of rank 0 has matched the expression of a metric",
                 "metric=\"%s\" lines=%d newest=\"%s\"", strbuf_cstr(&names),
                 METRIC_SILENT_LINES_MAX,
                 str_printable(&a, line, len < SHOWN_BYTES_MAX ? len : SHOWN_BYTES_MAX));
    arena_fini(&a);
    strbuf_fini(&names);
}
