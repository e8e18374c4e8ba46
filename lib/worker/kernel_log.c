// SPDX-License-Identifier: Apache-2.0
// Parses lines of the kernel's log.
#include "worker/kernel_log.h"

#include <string.h>

struct line {
    const char *at, *end;
};

// Moves past the next `word`. Returns false and does not move if there is none.
static bool skip_to(struct line *l, const char *word) {
    const char *p = memmem(l->at, (size_t)(l->end - l->at), word, strlen(word));
    if (p)
        l->at = p + strlen(word);
    return p != NULL;
}

static bool take(struct line *l, char c) {
    bool there = l->at < l->end && *l->at == c;
    l->at += there;
    return there;
}

// Reads a number; 0 when there is none or it is too large.
static int64_t number(struct line *l) {
    int64_t v = 0;
    bool fits = true;
    for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++) {
        fits = fits && v < INT64_MAX / 16;
        v = fits ? v * 10 + (*l->at - '0') : 0;
    }
    return v;
}

// Copies text up to any character in stop, or the end; unprintable characters become '?'.
static void word(struct line *l, const char *stop, char *out, size_t room) {
    size_t n = 0;
    for (; l->at < l->end && !strchr(stop, *l->at); l->at++)
        if (n + 1 < room)
            out[n++] = *l->at >= ' ' && *l->at <= '~' ? *l->at : '?';
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

// "Memory cgroup out of memory: Killed process 77 (python3) total-vm:1kB, anon-rss:2kB, …"
static bool out_of_memory(struct line l, struct kernel_note *out) {
    struct line head = l;
    if (!skip_to(&l, "Killed process ") && !skip_to(&l, "Kill process "))
        return false;
    out->kind = KERNEL_OUT_OF_MEMORY;
    out->in_cgroup = skip_to(&head, "emory cgroup");
    out->pid = number(&l);
    if (take(&l, ' ') && take(&l, '('))
        word(&l, ")", out->name, sizeof out->name);
    if (skip_to(&l, "anon-rss:"))
        out->resident_kb = number(&l);
    return out->pid > 0;
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=77, name=python, GPU has fallen off the bus."
static bool xid(struct line l, struct kernel_note *out) {
    if (!skip_to(&l, "NVRM: Xid ("))
        return false;
    out->kind = KERNEL_XID;
    skip_to(&l, "PCI:");
    word(&l, ")", out->device, sizeof out->device);
    if (!skip_to(&l, "): "))
        return false;
    out->xid = (int)(number(&l) & 0xffff);
    struct line rest = l;
    if (skip_to(&rest, "pid=")) {
        take(&rest, '\'');
        out->pid = number(&rest);
        l = rest;
    }
    if (skip_to(&rest, "name=")) {
        word(&rest, ",\n", out->name, sizeof out->name);
        l = rest;
    }
    while (take(&l, ',') || take(&l, ' ') || take(&l, '\''))
        ;
    word(&l, "\n", out->text, sizeof out->text);
    return out->xid > 0;
}

bool kernel_log_parse(const char *record, size_t len, struct kernel_note *out) {
    struct line l = {
        record,
        record + (len < KERNEL_LOG_RECORD_BYTES_MAX ? len : (size_t)KERNEL_LOG_RECORD_BYTES_MAX)};
    const char *end = memchr(l.at, '\n', (size_t)(l.end - l.at)); // variables follow the newline
    if (end)
        l.end = end;
    if (l.at < l.end && *l.at >= '0' && *l.at <= '9')
        skip_to(&l, ";");
    memset(out, 0, sizeof *out);
    if (out_of_memory(l, out))
        return true;
    memset(out, 0, sizeof *out);
    return xid(l, out);
}
