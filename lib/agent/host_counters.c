// SPDX-License-Identifier: Apache-2.0
// Parses the kernel's counters of a host. A walk over words in a bounded text serves all files.
#include "agent/host_counters.h"

#include "base/cpu_list.h"

#include <string.h>

enum { SECTOR_BYTES = 512, PERCENT_MAX = 100, GPU_INDEX_MAX = 63, GPU_MIB_MAX = 1 << 30 };

// The part of a text that is not read yet.
struct words {
    const char *at, *end;
};

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

// Cuts the next line off the text; false at its end. A last line without a newline is cut off in
// the middle, perhaps, and is left out.
static bool next_line(struct words *text, struct words *line) {
    size_t left = (size_t)(text->end - text->at);
    const char *newline = left ? memchr(text->at, '\n', left) : NULL;
    if (!newline)
        return false;
    *line = (struct words){text->at, newline};
    text->at = newline + 1;
    return true;
}

static bool next_word(struct words *line, struct words *word) {
    while (line->at < line->end && is_blank(*line->at))
        line->at++;
    *word = (struct words){line->at, line->at};
    while (line->at < line->end && !is_blank(*line->at))
        line->at++;
    word->end = line->at;
    return word->at < word->end;
}

// Decimal digits at the beginning; false without one, or when the number does not fit.
static bool take_number(struct words *w, uint64_t *out) {
    const char *begin = w->at;
    uint64_t v = 0;
    for (; w->at < w->end && *w->at >= '0' && *w->at <= '9'; w->at++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*w->at - '0'), &v))
            return false;
    *out = v;
    return w->at > begin;
}

static bool next_number(struct words *line, uint64_t *out) {
    struct words word;
    return next_word(line, &word) && take_number(&word, out) && word.at == word.end;
}

static bool is(const struct words *w, const char *text) {
    size_t len = strlen(text);
    return (size_t)(w->end - w->at) == len && memcmp(w->at, text, len) == 0;
}

static bool begins(const struct words *w, const char *text) {
    size_t len = strlen(text);
    return (size_t)(w->end - w->at) >= len && memcmp(w->at, text, len) == 0;
}

static void add(uint64_t *sum, uint64_t v) {
    if (__builtin_add_overflow(*sum, v, sum))
        *sum = UINT64_MAX;
}

// ---- the host -----------------------------------------------------------------------------------

bool host_counters_cpu(const char *text, size_t len, const cpu_set_t *allowed,
                       struct host_pair *out) {
    enum { FIELDS = 8, IDLE = 3, IOWAIT = 4 }; // guest time is in user time already
    struct words rest = {text, text + len}, line, word;
    bool found = false;
    *out = (struct host_pair){0};
    while (next_line(&rest, &line)) {
        uint64_t cpu, v[FIELDS] = {0};
        if (!next_word(&line, &word) || !begins(&word, "cpu"))
            break;
        word.at += strlen("cpu");
        if (!take_number(&word, &cpu) || word.at < word.end || cpu >= CPU_LIST_MAX ||
            !CPU_ISSET((size_t)cpu, allowed))
            continue;
        int fields = 0;
        while (fields < FIELDS && next_number(&line, &v[fields]))
            fields++;
        for (int i = 0; i < FIELDS; i++) {
            add(&out->second, v[i]);
            if (i != IDLE && i != IOWAIT)
                add(&out->first, v[i]);
        }
        found |= fields > IDLE;
    }
    return found;
}

bool host_counters_memory(const char *text, size_t len, struct host_pair *out) {
    struct words rest = {text, text + len}, line, word;
    uint64_t total = 0, available = 0, kib;
    bool known = false;
    while (next_line(&rest, &line)) {
        if (!next_word(&line, &word))
            continue;
        bool is_total = is(&word, "MemTotal:"), is_available = is(&word, "MemAvailable:");
        if ((!is_total && !is_available) || !next_number(&line, &kib) || kib > INT64_MAX / 1024)
            continue;
        *(is_total ? &total : &available) = kib * 1024;
        known |= is_available;
    }
    *out = (struct host_pair){total > available ? total - available : 0, total};
    return known && total > 0;
}

// Devices in front of others, whose bytes would be counted twice, and ends of containers.
static bool is_virtual_device(const struct words *name) {
    static const char *const prefixes[] = {"veth", "docker",  "br-",   "virbr", "cali",
                                           "cni",  "flannel", "dummy", "tun",   "tap",
                                           "bond", "vxlan",   "wg",    "ifb"};
    if (is(name, "lo") || memchr(name->at, '.', (size_t)(name->end - name->at)))
        return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (begins(name, prefixes[i]))
            return true;
    return false;
}

bool host_counters_network(const char *text, size_t len, struct host_pair *out) {
    enum { SENT = 8 }; // the bytes that were sent come behind eight numbers of what was received
    struct words rest = {text, text + len}, line;
    bool found = false;
    *out = (struct host_pair){0};
    while (next_line(&rest, &line)) {
        const char *colon = memchr(line.at, ':', (size_t)(line.end - line.at));
        uint64_t v[SENT + 1];
        int fields = 0;
        if (!colon)
            continue;
        while (line.at < colon && is_blank(*line.at))
            line.at++;
        struct words name = {line.at, colon};
        line.at = colon + 1;
        while (fields <= SENT && next_number(&line, &v[fields]))
            fields++;
        if (fields <= SENT)
            continue;
        found = true;
        if (is_virtual_device(&name))
            continue;
        add(&out->first, v[0]);
        add(&out->second, v[SENT]);
    }
    return found;
}

// Partitions follow their disk: sda1 behind sda, nvme0n1p1 behind nvme0n1.
static bool is_partition(const struct words *name, const struct words *disks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t len = (size_t)(disks[i].end - disks[i].at);
        if ((size_t)(name->end - name->at) <= len || memcmp(name->at, disks[i].at, len) != 0)
            continue;
        const char *p = name->at + len;
        p += *p == 'p' && p + 1 < name->end;
        while (p < name->end && *p >= '0' && *p <= '9')
            p++;
        if (p == name->end)
            return true;
    }
    return false;
}

bool host_counters_disks(const char *text, size_t len, struct host_pair *out) {
    static const char *const stacked[] = {"loop", "ram", "zram", "dm-", "md", "sr", "fd", "drbd"};
    enum { READ = 2, WRITTEN = 6 }; // numbers behind the name
    struct words rest = {text, text + len}, line, name, disks[HOST_DISKS_MAX];
    size_t count = 0;
    bool found = false;
    *out = (struct host_pair){0};
    while (next_line(&rest, &line)) {
        uint64_t major, minor, v[WRITTEN + 1];
        int fields = 0;
        if (!next_number(&line, &major) || !next_number(&line, &minor) || !next_word(&line, &name))
            continue;
        while (fields <= WRITTEN && next_number(&line, &v[fields]))
            fields++;
        if (fields <= WRITTEN || v[READ] > INT64_MAX / SECTOR_BYTES ||
            v[WRITTEN] > INT64_MAX / SECTOR_BYTES)
            continue;
        bool above = false;
        for (size_t i = 0; i < sizeof stacked / sizeof *stacked; i++)
            above |= begins(&name, stacked[i]);
        found = true;
        if (above || count == HOST_DISKS_MAX || is_partition(&name, disks, count))
            continue;
        disks[count++] = name;
        add(&out->first, v[READ] * SECTOR_BYTES);
        add(&out->second, v[WRITTEN] * SECTOR_BYTES);
    }
    return found;
}

// ---- control groups -----------------------------------------------------------------------------

bool host_counters_number(const char *text, size_t len, uint64_t *out) {
    struct words rest = {text, text + len}, line, word;
    if (!next_line(&rest, &line) || !next_word(&line, &word))
        return false;
    return take_number(&word, out) && word.at == word.end;
}

bool host_counters_named(const char *text, size_t len, const char *name, uint64_t *out) {
    struct words rest = {text, text + len}, line, word;
    while (next_line(&rest, &line))
        if (next_word(&line, &word) && is(&word, name))
            return next_number(&line, out);
    return false;
}

// ---- GPUs ---------------------------------------------------------------------------------------

// A number up to the next comma; -1 where it is none or too large. False: the line has no field.
static bool next_field(struct words *line, uint64_t max, int64_t *out) {
    if (!line->at)
        return false;
    const char *comma = memchr(line->at, ',', (size_t)(line->end - line->at));
    struct words field = {line->at, comma ? comma : line->end};
    uint64_t v;
    *out = next_number(&field, &v) && v <= max ? (int64_t)v : -1;
    line->at = comma ? comma + 1 : NULL;
    return true;
}

bool host_counters_gpu(const char *text, size_t len, struct host_gpu *out) {
    struct words line = {text, text + len};
    int64_t index, percent, used, limit;
    if (!next_field(&line, GPU_INDEX_MAX, &index) || index < 0 ||
        !next_field(&line, PERCENT_MAX, &percent) || !next_field(&line, GPU_MIB_MAX, &used) ||
        !next_field(&line, GPU_MIB_MAX, &limit))
        return false;
    *out = (struct host_gpu){(int)index, (int)percent, used, limit};
    return true;
}
