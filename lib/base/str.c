// SPDX-License-Identifier: Apache-2.0
// Parses, quotes, compares and formats text.
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool str_starts(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

bool str_is_one_of(const char *s, const char *const *words) {
    for (; *words; words++)
        if (strcmp(s, *words) == 0)
            return true;
    return false;
}

bool str_is_among(const char *s, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(s, words[i]) == 0)
            return true;
    return false;
}

bool str_eq(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool str_is_name(const char *s, size_t len_max) {
    size_t n = strlen(s);
    if (n == 0 || n > len_max || !isalnum((unsigned char)s[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-')
            return false;
    return true;
}

// ---- numbers ------------------------------------------------------------------------------------

// False for "+5", " 5" and "0x5", which C's functions read.
static bool is_decimal(const char *s) {
    const char *digits = s + (s[0] == '-');
    bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    return !isspace((unsigned char)s[0]) && s[0] != '+' && !hexadecimal;
}

int str_parse_i64(const char *s, int64_t min, int64_t max, int64_t *out, struct err *e) {
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || *end || !is_decimal(s))
        return err_set(e, ERR_FORMAT, "'%.100s' is not a whole number", s);
    if (v < min || (errno == ERANGE && v < 0))
        return err_set(e, ERR_LIMIT, "%.100s is below the minimum %lld", s, (long long)min);
    if (errno == ERANGE || v > max)
        return err_set(e, ERR_LIMIT, "%.100s is above the maximum %lld", s, (long long)max);
    *out = v;
    return 0;
}

int str_parse_f64(const char *s, double min, double max, double *out, struct err *e) {
    char *end;
    double v = strtod(s, &end);
    if (end == s || *end || !is_decimal(s) || isnan(v))
        return err_set(e, ERR_FORMAT, "'%.100s' is not a number", s);
    if (v < min)
        return err_set(e, ERR_LIMIT, "%.100s is below the minimum %g", s, min);
    if (v > max)
        return err_set(e, ERR_LIMIT, "%.100s is above the maximum %g", s, max);
    *out = v;
    return 0;
}

struct unit {
    const char *name;
    double factor;
};

// A non-negative decimal number followed by one of the units; "" is units[0]'s meaning.
static int parse_with_unit(const char *s, const struct unit *units, const char *what, double *out,
                           struct err *e) {
    char *end;
    double v = strtod(s, &end);
    if (end == s || !isdigit((unsigned char)s[0]) || !is_decimal(s) || !isfinite(v))
        return err_set(e, ERR_FORMAT, "'%.100s' is not a %s", s, what);
    while (*end == ' ')
        end++;
    for (const struct unit *u = units; u->name; u++)
        if (strcasecmp(end, u->name) == 0) {
            *out = v * u->factor;
            if (*out >= 0x1p62)
                return err_set(e, ERR_LIMIT, "'%.100s' is too large a %s", s, what);
            return 0;
        }
    return err_set(e, ERR_FORMAT, "'%.100s' is not a %s: unknown unit '%.20s'", s, what, end);
}

int str_parse_bytes(const char *s, uint64_t *out, struct err *e) {
    static const struct unit units[] = {
        {"", 1},         {"b", 1},       {"k", 0x1p10},   {"kb", 0x1p10},  {"kib", 0x1p10},
        {"m", 0x1p20},   {"mb", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},   {"gb", 0x1p30},
        {"gib", 0x1p30}, {"t", 0x1p40},  {"tb", 0x1p40},  {"tib", 0x1p40}, {NULL, 0},
    };
    double v;
    if (parse_with_unit(s, units, "size (such as 64 MB)", &v, e) < 0)
        return -1;
    *out = (uint64_t)v;
    return 0;
}

int str_parse_duration_ms(const char *s, int64_t *out, struct err *e) {
    static const struct unit units[] = {
        {"", 1e3},     {"s", 1e3},    {"ms", 1},      {"m", 60e3},
        {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}, {NULL, 0},
    };
    static const char what[] = "duration (such as 90s, 15m or 1h30m)";
    double sum = 0, v;
    char part[32];
    for (const char *p = s;;) { // each number with its unit; the last one may lack it
        size_t n = strcspn(p, "abcdefghijklmnopqrstuvwxyz"), end;
        end = n + strspn(p + n, "abcdefghijklmnopqrstuvwxyz");
        if (!p[end]) {
            if (p != s && n == end)
                return err_set(e, ERR_FORMAT, "'%.100s' is not a %s", s, what);
            if (parse_with_unit(p, units, what, &v, e) < 0)
                return -1;
            *out = (int64_t)llround(sum + v);
            return 0;
        }
        snprintf(part, sizeof part, "%.*s", (int)(end < 31 ? end : 31), p);
        if (end >= sizeof part)
            return err_set(e, ERR_FORMAT, "'%.100s' is not a %s", s, what);
        if (parse_with_unit(part, units, what, &v, e) < 0)
            return -1;
        sum += v;
        p += end;
    }
}

// ---- comparing ----------------------------------------------------------------------------------

enum { DISTANCE_LEN_MAX = 64 };

// Damerau-Levenshtein, restricted (adjacent transpositions).
int str_distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    if (n > DISTANCE_LEN_MAX || m > DISTANCE_LEN_MAX)
        return strcmp(a, b) ? DISTANCE_LEN_MAX : 0;
    int rows[3][DISTANCE_LEN_MAX + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= m; j++)
        last[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int d = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < d)
                d = last[j] + 1;
            if (now[j - 1] + 1 < d)
                d = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            now[j] = d;
        }
        int *t = before;
        before = last;
        last = now;
        now = t;
    }
    return last[m];
}

// Half of a short word may differ from a word of another meaning: one mistake is the most there.
enum { SHORT_WORD_BYTES = 5 };

const char *str_nearest(const char *s, const char *const *names) {
    const char *best = NULL;
    size_t len = strlen(s);
    int best_distance = len < SHORT_WORD_BYTES ? 2 : (int)len / 3 + 2;
    for (; *names; names++) {
        int d = str_distance(s, *names);
        if (d < best_distance) {
            best_distance = d;
            best = *names;
        }
    }
    return best;
}

int str_natural_cmp(const char *a, const char *b) {
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            const char *za = a, *zb = b;
            while (*a == '0')
                a++;
            while (*b == '0')
                b++;
            size_t n = strspn(a, "0123456789"), m = strspn(b, "0123456789");
            if (n != m)
                return n < m ? -1 : 1;
            int c = memcmp(a, b, n);
            if (c)
                return c;
            if (a - za != b - zb) // equal value: fewer leading zeros first
                return a - za < b - zb ? -1 : 1;
            a += n;
            b += m;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (unsigned char)*a - (unsigned char)*b;
}

size_t str_split(struct arena *a, const char *s, char sep, char ***parts) {
    size_t count = 1;
    for (const char *p = s; *p; p++)
        count += *p == sep;
    char **out = arena_new(a, char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        const char *end = strchr(s, sep);
        size_t len = end ? (size_t)(end - s) : strlen(s);
        out[i] = arena_strndup(a, s, len);
        s += len + 1;
    }
    *parts = out;
    return count;
}

// ---- quoting ------------------------------------------------------------------------------------

char *str_shell_quote(struct arena *a, const char *s) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=./:,@%";
    if (*s && strspn(s, plain) == strlen(s))
        return arena_strdup(a, s);
    size_t n = 3;
    for (const char *p = s; *p; p++)
        n += *p == '\'' ? 4 : 1;
    char *out = arena_alloc(a, 1, 1, n), *q = out;
    *q++ = '\'';
    for (; *s; s++) {
        if (*s == '\'') {
            memcpy(q, "'\\''", 4);
            q += 4;
        } else {
            *q++ = *s;
        }
    }
    *q++ = '\'';
    return out;
}

size_t str_utf8(const unsigned char *p, size_t left) {
    static const struct {
        unsigned char lo, hi, second_lo, second_hi, bytes;
    } forms[] = {
        {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        if (p[0] < forms[f].lo || p[0] > forms[f].hi)
            continue;
        size_t n = forms[f].bytes;
        if (n > left || (n > 1 && (p[1] < forms[f].second_lo || p[1] > forms[f].second_hi)))
            return 0;
        for (size_t i = 2; i < n; i++)
            if ((p[i] & 0xC0) != 0x80)
                return 0;
        return n;
    }
    return 0;
}

bool str_is_utf8(const char *s) {
    size_t left = strlen(s), n = 1;
    for (; left > 0 && n > 0; s += n, left -= n)
        n = str_utf8((const unsigned char *)s, left);
    return n > 0;
}

// Characters that control a terminal: C0, DEL, C1, and bidirectional overrides.
static bool drives_terminal(const unsigned char *p, size_t n) {
    if (n == 1)
        return (p[0] < 0x20 && p[0] != '\t') || p[0] == 0x7F;
    if (n == 2)
        return p[0] == 0xC2 && p[1] < 0xA0;
    return n == 3 && p[0] == 0xE2 &&
           ((p[1] == 0x80 && p[2] >= 0xAA && p[2] <= 0xAE) || // U+202A to U+202E
            (p[1] == 0x81 && p[2] >= 0xA6 && p[2] <= 0xA9));  // U+2066 to U+2069
}

size_t str_visible(const char *s, size_t left, char shown[STR_VISIBLE_BYTES_MAX]) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = (const unsigned char *)s;
    size_t n = str_utf8(p, left);
    if (n && !drives_terminal(p, n)) {
        memcpy(shown, p, n);
        shown[n] = '\0';
        return n;
    }
    if (p[0] == '\n' || p[0] == '\r') {
        memcpy(shown, p[0] == '\n' ? "\\n" : "\\r", 3);
        return 1;
    }
    n = n ? n : 1;
    for (size_t i = 0; i < n; i++, shown += 4)
        memcpy(shown, (char[]){'\\', 'x', hex[p[i] >> 4], hex[p[i] & 15]}, 4);
    *shown = '\0';
    return n;
}

char *str_printable(struct arena *a, const char *s, size_t len) {
    char shown[STR_VISIBLE_BYTES_MAX], *out = arena_alloc(a, 1, 1, 4 * len + 1), *q = out;
    for (size_t i = 0; i < len;) {
        i += str_visible(s + i, len - i, shown);
        size_t n = strlen(shown);
        memcpy(q, shown, n);
        q += n;
    }
    return out;
}

// ---- for people ---------------------------------------------------------------------------------

const char *str_plural(int64_t n) {
    return n == 1 ? "" : "s";
}

const char *str_human_bytes(char out[STR_HUMAN_BYTES_MAX], uint64_t bytes) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 999.5 && u + 1 < sizeof units / sizeof *units) {
        v /= 1000;
        u++;
    }
    snprintf(out, STR_HUMAN_BYTES_MAX, u && v < 99.95 ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

const char *str_human_ms(char out[STR_HUMAN_BYTES_MAX], int64_t ms) {
    if (ms < 1000)
        snprintf(out, STR_HUMAN_BYTES_MAX, "%d ms", (int)ms);
    else if (ms < 99950)
        snprintf(out, STR_HUMAN_BYTES_MAX, "%.1f s", (double)ms / 1000);
    else if (ms < 3600 * 1000)
        snprintf(out, STR_HUMAN_BYTES_MAX, "%d:%02d", (int)(ms / 60000), (int)(ms / 1000 % 60));
    else
        snprintf(out, STR_HUMAN_BYTES_MAX, "%lld:%02d:%02d", (long long)(ms / 3600000 % 1000000),
                 (int)(ms / 60000 % 60), (int)(ms / 1000 % 60));
    return out;
}

void str_hex(char *out, const void *p, size_t len) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *c = p;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = hex[c[i] >> 4];
        out[2 * i + 1] = hex[c[i] & 15];
    }
    out[2 * len] = '\0';
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int str_unhex(void *out, size_t len, const char *hex, struct err *e) {
    unsigned char *q = out;
    if (strlen(hex) != 2 * len)
        return err_set(e, ERR_FORMAT, "expected %zu hex digits, found %zu characters", 2 * len,
                       strlen(hex));
    for (size_t i = 0; i < len; i++) {
        int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return err_set(e, ERR_FORMAT, "not a hex digit at position %zu", 2 * i);
        q[i] = (unsigned char)(hi << 4 | lo);
    }
    return 0;
}

const char *str_money(char out[STR_MONEY_BYTES_MAX], int64_t mils) {
    snprintf(out, STR_MONEY_BYTES_MAX, "$%.2f", (double)mils / 1000);
    return out;
}
