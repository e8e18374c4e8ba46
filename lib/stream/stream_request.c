// SPDX-License-Identifier: Apache-2.0
// The grammar of requests.
#include "stream/stream_request.h"

#include <string.h>
#include <strings.h>

struct span {
    const char *p;
    size_t len;
};

static bool is(struct span s, const char *word) {
    return s.len == strlen(word) && strncasecmp(s.p, word, s.len) == 0;
}

// A byte of a token (RFC 9110, 5.6.2).
static bool is_token_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int refuse(int *status, int code) {
    *status = code;
    return -1;
}

// ---- the range ----------------------------------------------------------------------------------

// Digits of a number; false: none. A number that is too large is the largest one.
static bool take_number(const char **p, const char *end, uint64_t *out) {
    const char *begin = *p;
    uint64_t n = 0;
    for (; *p < end && is_digit(**p); (*p)++) {
        uint64_t digit = (uint64_t)(**p - '0');
        n = n > (UINT64_MAX - digit) / 10 ? UINT64_MAX : n * 10 + digit;
    }
    *out = n;
    return *p > begin;
}

// Anything but a single range of bytes does not count (RFC 9110, 14.2).
static void parse_range(struct span v, struct stream_request *r) {
    static const char unit[] = "bytes=";
    const char *p = v.p + strlen(unit), *end = v.p + v.len;
    uint64_t from = 0, to = UINT64_MAX;
    if (v.len < strlen(unit) || strncasecmp(v.p, unit, strlen(unit)) != 0)
        return;
    bool has_from = take_number(&p, end, &from);
    if (p == end || *p++ != '-')
        return;
    bool has_to = take_number(&p, end, &to);
    if (p != end || (!has_from && !has_to) || (has_from && has_to && to < from))
        return;
    r->range = has_from ? STREAM_RANGE_FROM : STREAM_RANGE_SUFFIX;
    r->from = from;
    r->to = has_to ? to : UINT64_MAX;
}

int stream_request_part(const struct stream_request *r, uint64_t size, uint64_t *from,
                        uint64_t *len) {
    *from = 0;
    *len = size;
    if (r->range == STREAM_RANGE_NONE)
        return 200;
    if (r->range == STREAM_RANGE_SUFFIX) {
        *len = r->to < size ? r->to : size;
        *from = size - *len;
        return *len ? 206 : 416;
    }
    if (r->from >= size)
        return 416;
    *from = r->from;
    *len = (r->to < size - 1 ? r->to : size - 1) - r->from + 1;
    return 206;
}

// ---- the head -----------------------------------------------------------------------------------

// Takes a line without its CR LF (a bare LF ends one too). False: there is no whole line.
static bool take_line(const char **p, const char *end, struct span *line) {
    const char *newline = memchr(*p, '\n', (size_t)(end - *p));
    if (!newline)
        return false;
    *line = (struct span){*p, (size_t)(newline - *p)};
    if (line->len && line->p[line->len - 1] == '\r')
        line->len--;
    *p = newline + 1;
    return true;
}

static int parse_first(struct span line, struct stream_request *r, int *status) {
    const char *end = line.p + line.len;
    const char *space = memchr(line.p, ' ', line.len);
    const char *last = memrchr(line.p, ' ', line.len);
    if (!space || last == space || space == line.p)
        return refuse(status, 400);
    struct span method = {line.p, (size_t)(space - line.p)};
    struct span version = {last + 1, (size_t)(end - last - 1)};
    r->target = space + 1;
    r->target_len = (size_t)(last - r->target);
    for (size_t i = 0; i < method.len; i++)
        if (!is_token_byte(method.p[i]))
            return refuse(status, 400);
    for (size_t i = 0; i < r->target_len; i++)
        if (r->target[i] <= ' ' || r->target[i] > '~')
            return refuse(status, 400);
    if (version.len != 8 || memcmp(version.p, "HTTP/", 5) != 0 || !is_digit(version.p[5]) ||
        version.p[6] != '.' || !is_digit(version.p[7]))
        return refuse(status, 400);
    if (version.p[5] != '1')
        return refuse(status, 505);
    r->keep_alive = version.p[7] != '0';
    r->head = method.len == 4 && memcmp(method.p, "HEAD", 4) == 0;
    if (!r->head && (method.len != 3 || memcmp(method.p, "GET", 3) != 0))
        return refuse(status, 405);
    return r->target[0] == '/' ? 0 : refuse(status, 400);
}

static bool has_word(struct span list, const char *word) {
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= list.len; i++)
        if (strncasecmp(list.p + i, word, len) == 0 && (i == 0 || strchr(" ,", list.p[i - 1])) &&
            (i + len == list.len || strchr(" ,", list.p[i + len])))
            return true;
    return false;
}

static int parse_header(struct span line, struct stream_request *r, bool *ranged, int *status) {
    const char *colon = memchr(line.p, ':', line.len);
    if (!colon || colon == line.p)
        return refuse(status, 400);
    struct span name = {line.p, (size_t)(colon - line.p)};
    struct span v = {colon + 1, line.len - name.len - 1};
    for (size_t i = 0; i < name.len; i++) // also a line that continues after white space
        if (!is_token_byte(name.p[i]))
            return refuse(status, 400);
    while (v.len && (*v.p == ' ' || *v.p == '\t')) {
        v.p++;
        v.len--;
    }
    while (v.len && (v.p[v.len - 1] == ' ' || v.p[v.len - 1] == '\t'))
        v.len--;
    if (memchr(v.p, '\0', v.len) || memchr(v.p, '\r', v.len))
        return refuse(status, 400);
    if (is(name, "transfer-encoding"))
        return refuse(status, 501);
    if (is(name, "content-length") && !is(v, "0"))
        return refuse(status, 413);
    if (is(name, "expect"))
        return refuse(status, 417);
    if (is(name, "connection"))
        r->keep_alive = has_word(v, "close")        ? false
                        : has_word(v, "keep-alive") ? true
                                                    : r->keep_alive;
    if (is(name, "if-range")) {
        r->if_range = v.p;
        r->if_range_len = v.len;
    }
    if (is(name, "range")) {
        if (*ranged) // two of them: neither counts
            r->range = STREAM_RANGE_NONE;
        else
            parse_range(v, r);
        *ranged = true;
    }
    return 0;
}

ssize_t stream_request_parse(const char *in, size_t len, struct stream_request *out, int *status) {
    const char *p = in,
               *end = in + (len < STREAM_REQUEST_BYTES_MAX ? len : STREAM_REQUEST_BYTES_MAX);
    struct span line;
    bool ranged = false;
    *out = (struct stream_request){.keep_alive = false};
    while (p < end && (*p == '\r' || *p == '\n')) // empty lines in front of a request
        p++;
    if (!take_line(&p, end, &line))
        return len < STREAM_REQUEST_BYTES_MAX ? 0 : refuse(status, 431);
    if (parse_first(line, out, status) < 0)
        return -1;
    for (size_t count = 0; take_line(&p, end, &line); count++) {
        if (line.len == 0)
            return p - in;
        if (count == STREAM_HEADERS_MAX)
            return refuse(status, 431);
        if (parse_header(line, out, &ranged, status) < 0)
            return -1;
    }
    return len < STREAM_REQUEST_BYTES_MAX ? 0 : refuse(status, 431);
}

// ---- the path -----------------------------------------------------------------------------------

static int digit_of(char c) {
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool stream_request_path(const char *target, size_t len, char *out, size_t room) {
    size_t n = 0;
    for (size_t i = 0; i < len && target[i] != '?' && target[i] != '#'; i++) {
        char c = target[i];
        if (c == '%') {
            int high = i + 2 < len ? digit_of(target[i + 1]) : -1;
            int low = i + 2 < len ? digit_of(target[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || n + 1 >= room)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

const char *stream_status_text(int status) {
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {206, "Partial Content"},
        {400, "Bad Request"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {431, "Request Header Fields Too Large"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Error";
}
