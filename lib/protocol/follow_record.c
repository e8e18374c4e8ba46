// SPDX-License-Identifier: Apache-2.0
// Parses the records of `dtrun --node follow`.
#include "protocol/follow_record.h"

#include "base/bytes.h"
#include "base/json.h"
#include "protocol/node_protocol.h"
#include "protocol/node_sample.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES_MAX = 1024, LENGTH_BYTES = 4 };

static const struct {
    const char *name;
    enum follow_file_kind kind;
    bool of_worker;
} FILES[] = {
    {"events.jsonl", FOLLOW_EVENTS, false},
    {"agent.log", FOLLOW_AGENT_LOG, false},
    {"output/metrics.jsonl", FOLLOW_METRICS, false},
    {NODE_SAMPLE_FILE, FOLLOW_SAMPLES, false},
    {"stdout.log", FOLLOW_STDOUT, true},
    {"stderr.log", FOLLOW_STDERR, true},
    {"error.json", FOLLOW_ERROR_FILE, true},
    {"log-times", FOLLOW_LOG_TIMES, true},
};

// Reads a number without leading zeros followed by '/'. Returns the position after it, or NULL.
static const char *read_number(const char *s, int *out) {
    int64_t v = 0;
    const char *p = s;
    while (*p >= '0' && *p <= '9' && v <= FOLLOW_NUMBER_MAX)
        v = v * 10 + (*p++ - '0');
    if (p == s || *p != '/' || v > FOLLOW_NUMBER_MAX || (s[0] == '0' && p - s > 1))
        return NULL;
    *out = (int)v;
    return p + 1;
}

bool follow_file_parse(const char *name, struct follow_file *out) {
    *out = (struct follow_file){.attempt = -1, .local_rank = -1};
    const char *rest = name;
    bool of_worker = strncmp(name, "attempt_", 8) == 0;
    if (of_worker) {
        rest = read_number(name + 8, &out->attempt);
        rest = rest ? read_number(rest, &out->local_rank) : NULL;
    }
    for (size_t i = 0; rest && i < sizeof FILES / sizeof FILES[0]; i++) {
        if (FILES[i].of_worker != of_worker || strcmp(FILES[i].name, rest) != 0)
            continue;
        out->kind = FILES[i].kind;
        return true;
    }
    return false;
}

static int read_bytes(const struct json *j, struct follow_record *out, size_t left, struct err *e) {
    const char *name = json_get_str(j, "file", "");
    int64_t offset = json_get_int(j, "offset", -1), bytes = json_get_int(j, "bytes", -1);
    if (strlen(name) >= sizeof out->name)
        return err_set(e, ERR_FORMAT, "a file name of the node is too long");
    if (offset < 0 || bytes < 0 || (uint64_t)bytes != left || offset > INT64_MAX - bytes)
        return err_set(e, ERR_FORMAT, "a record of the node has wrong sizes");
    if (!follow_file_parse(name, &out->file))
        return err_set(e, ERR_FORMAT, "the node sent a file that no run has, '%.60s'", name);
    memcpy(out->name, name, strlen(name) + 1);
    out->offset = (uint64_t)offset;
    return 0;
}

static int read_end(const struct json *j, struct follow_record *out, struct err *e) {
    const char *state = json_get_str(j, "end", "");
    for (int i = 0; i <= NODE_LOST; i++) {
        const char *name = node_state_name((enum node_state)i);
        if (strcmp(name, state) != 0)
            continue;
        memcpy(out->state, name, strlen(name) + 1);
        int64_t status = json_get_int(j, "exit_status", 1);
        out->exit_status = status >= 0 && status <= 255 ? (int)status : 1;
        return 0;
    }
    return err_set(e, ERR_FORMAT, "the node named a state that no run has, '%.40s'", state);
}

static int read_header(const char *header, size_t len, struct follow_record *out, size_t left,
                       struct err *e) {
    struct arena a = {0};
    struct json *j = NULL;
    int result = json_parse(&a, header, len, &j, e);
    if (result == 0 && j->type != JSON_OBJECT)
        result = err_set(e, ERR_FORMAT, "a record of the node has no header");
    if (result == 0 && json_get(j, "file")) {
        out->kind = FOLLOW_BYTES;
        result = read_bytes(j, out, left, e);
    } else if (result == 0 && json_get(j, "end")) {
        out->kind = FOLLOW_END;
        result = read_end(j, out, e);
    } else if (result == 0) {
        out->kind = FOLLOW_BEAT; // also future records without data
    }
    arena_fini(&a);
    return result;
}

int64_t follow_record_read(const void *buffer, size_t len, struct follow_record *out,
                           struct err *e) {
    *out = (struct follow_record){0};
    if (len < LENGTH_BYTES)
        return 0;
    size_t size = (size_t)bytes_load(buffer, LENGTH_BYTES);
    if (size == 0 || size > NODE_RECORD_BYTES_MAX)
        return err_set(e, ERR_FORMAT, "a record of the node has %zu bytes, the limit is %d", size,
                       NODE_RECORD_BYTES_MAX);
    if (len - LENGTH_BYTES < size)
        return 0;
    const char *p = (const char *)buffer + LENGTH_BYTES;
    size_t header_max = size < HEADER_BYTES_MAX ? size : HEADER_BYTES_MAX;
    const char *end = memchr(p, '\n', header_max);
    if (!end)
        return err_set(e, ERR_FORMAT, "a record of the node has no header line");
    size_t header = (size_t)(end - p);
    out->data = (const unsigned char *)end + 1;
    out->len = size - header - 1;
    if (read_header(p, header, out, out->len, e) < 0)
        return -1;
    return (int64_t)(LENGTH_BYTES + size);
}
