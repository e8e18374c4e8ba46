// SPDX-License-Identifier: Apache-2.0
// The expression of a metric.
#include "conf/metric_regex.h"

#include "base/clock.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

// Python's text patterns know Unicode. A line need not be UTF-8 throughout, and other bytes match
// nothing. \C would split a character.
static const uint32_t OPTIONS = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF |
                                PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;

static size_t characters(const char *text, size_t bytes) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static int refuse(const char *text, int code, size_t at, struct err *e) {
    PCRE2_UCHAR why[200] = "";
    if (code == PCRE2_ERROR_NOMEMORY)
        return err_set(e, ERR_LIMIT, "out of memory");
    pcre2_get_error_message(code, why, sizeof why);
    return err_set(e, ERR_CONFIG, "%s, at character %zu of %zu", (const char *)why,
                   characters(text, at), characters(text, strlen(text)));
}

// The first group that has a name, or 1.
static uint32_t value_group(const pcre2_code *code) {
    uint32_t names = 0, entry_bytes = 0, first = UINT32_MAX;
    PCRE2_SPTR entry = NULL;
    pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &names);
    pcre2_pattern_info(code, PCRE2_INFO_NAMEENTRYSIZE, &entry_bytes);
    pcre2_pattern_info(code, PCRE2_INFO_NAMETABLE, &entry);
    for (uint32_t i = 0; i < names; i++, entry += entry_bytes) {
        uint32_t group = (uint32_t)entry[0] << 8 | entry[1];
        first = group < first ? group : first;
    }
    return names ? first : 1;
}

static int prepare(struct metric_regex *x, const char *text, struct err *e) {
    uint32_t groups = 0;
    int code = 0;
    size_t at = 0;
    if (strlen(text) > METRIC_REGEX_BYTES_MAX)
        return err_set(e, ERR_CONFIG, "it is longer than %d bytes", METRIC_REGEX_BYTES_MAX);
    x->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, OPTIONS, &code, &at, NULL);
    if (!x->code)
        return refuse(text, code, at, e);
    pcre2_pattern_info(x->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    if (groups == 0)
        return err_set(e, ERR_CONFIG, "it has no group (try: put the number between parentheses)");
    x->group = value_group(x->code);
    x->match = pcre2_match_data_create(x->group + 1, NULL);
    x->limits = pcre2_match_context_create(NULL);
    if (!x->match || !x->limits)
        return err_set(e, ERR_LIMIT, "out of memory");
    pcre2_set_match_limit(x->limits, METRIC_STEPS_MAX);
    pcre2_set_depth_limit(x->limits, METRIC_DEPTH_MAX);
    pcre2_set_heap_limit(x->limits, METRIC_HEAP_KIB_MAX);
    return 0;
}

int metric_regex_compile(struct metric_regex *x, const char *text, struct err *e) {
    *x = (struct metric_regex){0};
    if (prepare(x, text, e) == 0)
        return 0;
    metric_regex_fini(x);
    return err_wrap(e, "expression '%.200s'", text);
}

void metric_regex_fini(struct metric_regex *x) {
    pcre2_match_context_free(x->limits);
    pcre2_match_data_free(x->match);
    pcre2_code_free(x->code);
    *x = (struct metric_regex){0};
}

// The number in the text between from and to; false when it is none. As Python's float() does, it
// passes over white space around the number.
static bool read_value(const char *from, const char *to, double *value) {
    char text[64];
    while (to > from && isspace((unsigned char)to[-1]))
        to--;
    size_t len = to > from ? (size_t)(to - from) : 0;
    if (len == 0 || len >= sizeof text)
        return false;
    memcpy(text, from, len);
    text[len] = 0;
    char *end = NULL;
    *value = strtod(text, &end);
    return end == text + len;
}

// PCRE2 counts its steps anew from each place of the line, so the line is searched in parts and the
// clock is read between them.
static int search(const struct metric_regex *x, const char *line, size_t len) {
    int64_t began = len > METRIC_PART_BYTES ? clock_cpu_ns() : 0;
    for (size_t at = 0;; at += METRIC_PART_BYTES) {
        pcre2_set_offset_limit(x->limits, at + METRIC_PART_BYTES - 1);
        int count = pcre2_match(x->code, (PCRE2_SPTR)line, len, at, 0, x->match, x->limits);
        if (count != PCRE2_ERROR_NOMATCH || len - at < METRIC_PART_BYTES)
            return count;
        if (clock_cpu_ns() - began > METRIC_LINE_MS_MAX * 1000000LL)
            return PCRE2_ERROR_MATCHLIMIT;
    }
}

enum metric_found metric_regex_find(const struct metric_regex *x, const char *line, size_t len,
                                    double *value) {
    int count = search(x, line, len);
    if (count < 0)
        return count == PCRE2_ERROR_NOMATCH ? METRIC_NONE : METRIC_OVERRUN;
    size_t text_len;
    const char *text = metric_regex_text(x, line, &text_len);
    if (text_len == 0)
        return METRIC_NONE;
    return read_value(text, text + text_len, value) ? METRIC_FOUND : METRIC_NO_NUMBER;
}

const char *metric_regex_text(const struct metric_regex *x, const char *line, size_t *len) {
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(x->match) + 2 * (size_t)x->group;
    bool set = at[0] != PCRE2_UNSET && at[1] > at[0]; // \K may put the end before the beginning
    *len = set ? at[1] - at[0] : 0;
    return set ? line + at[0] : line;
}

int metric_regex_check_name(const char *name, struct err *e) {
    size_t len = strlen(name);
    bool fine = len && len <= METRIC_NAME_BYTES_MAX && isalnum((unsigned char)name[0]);
    for (size_t i = 0; i < len; i++)
        fine = fine && (isalnum((unsigned char)name[i]) || strchr("._-:/@", name[i]));
    if (fine)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.100s' is not a valid name of a metric; use letters, digits, '.', '_', '-', "
                   "':', '/', '@', at most %d, the first a letter or digit",
                   name, METRIC_NAME_BYTES_MAX);
}

int metric_regex_check(const char *text, struct err *e) {
    struct metric_regex x;
    if (metric_regex_compile(&x, text, e) < 0)
        return -1;
    metric_regex_fini(&x);
    return 0;
}
