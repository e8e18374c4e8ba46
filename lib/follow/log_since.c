// SPDX-License-Identifier: Apache-2.0
// Parses the time of `dtctl logs --since`, and hides older lines.
#include "follow/log_since.h"

#include "base/str.h"
#include "follow/line_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DAY_MS = 24 * 60 * 60 * 1000 };

struct log_since_mark {
    size_t node;
    int attempt, local_rank;
    uint64_t before[2]; // bytes of stdout and stderr
    struct log_since_mark *next;
};

// ---- the time ----

// "", "Z", "+02:00", "-0530": seconds east; false: neither. is_local: nothing was said.
static bool read_zone(const char *s, int *east, bool *is_local) {
    int hours, minutes, used = 0;
    *east = 0;
    *is_local = *s == '\0';
    if (*is_local || strcmp(s, "Z") == 0 || strcmp(s, "z") == 0)
        return true;
    if ((*s != '+' && *s != '-') || (sscanf(s + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 &&
                                     sscanf(s + 1, "%2d%2d%n", &hours, &minutes, &used) != 2))
        return false;
    *east = (hours * 60 + minutes) * (*s == '-' ? -60 : 60);
    return s[1 + used] == '\0' && hours < 15 && minutes < 60;
}

static bool in_range(const struct tm *tm) {
    struct tm date = {.tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday};
    (void)timegm(&date); // makes a day that the month does not have one of another month
    return tm->tm_mon >= 0 && tm->tm_mon < 12 && tm->tm_mday == date.tm_mday && tm->tm_hour >= 0 &&
           tm->tm_hour < 24 && tm->tm_min >= 0 && tm->tm_min < 60 && tm->tm_sec >= 0 &&
           tm->tm_sec <= 60;
}

static bool read_clock(const char *s, int64_t now_ms, int64_t *ms) {
    struct tm tm = {0}, day;
    time_t now = (time_t)(now_ms / 1000);
    int used = 0, part = 0, east = 0;
    bool is_local, divided = false;
    localtime_r(&now, &tm);
    tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
    tm.tm_isdst = -1;
    bool dated = sscanf(s, "%4d-%2d-%2d%n", &day.tm_year, &day.tm_mon, &day.tm_mday, &used) == 3;
    if (dated) {
        tm.tm_year = day.tm_year - 1900;
        tm.tm_mon = day.tm_mon - 1;
        tm.tm_mday = day.tm_mday;
        s += used;
        if (*s && !strchr("Tt ", *s))
            return false;
        divided = *s != '\0';
        s += divided;
    }
    bool timed = sscanf(s, "%2d:%2d%n", &tm.tm_hour, &tm.tm_min, &part) == 2;
    s += timed ? part : 0;
    if (timed && *s == ':' && sscanf(s, ":%2d%n", &tm.tm_sec, &part) == 1)
        s += part;
    if (timed && *s == '.')
        s += 1 + strspn(s + 1, "0123456789"); // of a second
    if ((!timed && (divided || !dated)) || !in_range(&tm) || !read_zone(s, &east, &is_local))
        return false;
    int64_t seconds = is_local ? (int64_t)mktime(&tm) : (int64_t)timegm(&tm) - east;
    *ms = seconds * 1000;
    if (!dated && *ms > now_ms)
        *ms -= DAY_MS; // the last time that it was so late
    return true;
}

int log_since_parse(const char *text, int64_t now_ms, int64_t *ms, struct err *e) {
    struct err ignored = {0};
    char *end = NULL;
    int64_t ago_ms;
    if (text[0] == '@' && text[1] >= '0' && text[1] <= '9' && strlen(text) <= 12) {
        *ms = strtoll(text + 1, &end, 10) * 1000;
        if (*end)
            end = NULL;
    }
    if (!end && str_parse_duration_ms(text, &ago_ms, &ignored) == 0)
        *ms = now_ms > ago_ms ? now_ms - ago_ms : 1;
    else if (!end && !read_clock(text, now_ms, ms))
        return err_set(e, ERR_USAGE,
                       "'%.60s' is no time: say how long ago, such as 10m or 1h30m, or when, such "
                       "as 14:05 or 2026-01-02T14:05:06Z",
                       text);
    if (*ms > now_ms)
        return err_set(e, ERR_USAGE, "--since %.60s lies in the future", text);
    *ms = *ms > 0 ? *ms : 1;
    return 0;
}

// ---- the lines ----

static struct log_since_mark *find(const struct log_since *l, size_t node,
                                   const struct follow_file *file) {
    struct log_since_mark *m = l->marks;
    while (m &&
           (m->node != node || m->attempt != file->attempt || m->local_rank != file->local_rank))
        m = m->next;
    return m;
}

void log_since_take(struct log_since *l, size_t node, const struct follow_file *file,
                    const char *line, size_t len) {
    struct line_times_sizes x;
    if (!l->ms || !line_times_read(line, len, &x) || x.ms > l->ms)
        return;
    struct log_since_mark *m = find(l, node, file);
    if (!m) {
        m = arena_new(l->arena, struct log_since_mark, 1);
        *m = (struct log_since_mark){node, file->attempt, file->local_rank, {0}, l->marks};
        l->marks = m;
    }
    m->before[0] = x.out > m->before[0] ? x.out : m->before[0];
    m->before[1] = x.err > m->before[1] ? x.err : m->before[1];
}

bool log_since_hides(const struct log_since *l, size_t node, const struct follow_file *file,
                     uint64_t end) {
    const struct log_since_mark *m = l->ms ? find(l, node, file) : NULL;
    return m && end <= m->before[file->kind == FOLLOW_STDERR];
}
