// SPDX-License-Identifier: Apache-2.0
// Is a history of operations on one key of the store linearizable: is there one order, in which
// each operation takes effect at once somewhere between its call and its return, that explains
// every result?
//
// Wing and Gong's search ("Testing and verifying concurrent objects", 1993) with Lowe's memoisation
// ("Testing for linearizability", 2017): the set of operations that have taken effect, with the
// resulting value, is never searched twice. An operation without a return (its client was killed,
// or lost the store) may take effect at any time after its call, or never.
//
//     struct linear_op ops[] = {{.kind = LINEAR_SET, .a = "x", .call = 1, .back = 2}, …};
//     bool good = linear_check(ops, 2, &verdict);
#ifndef TESTS_TOOLS_LINEAR_H
#define TESTS_TOOLS_LINEAR_H

#include "base/arena.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINEAR_OPS_MAX = 4096, LINEAR_WORDS = LINEAR_OPS_MAX / 64 + 1, LINEAR_TRIES_MAX = 4000000 };

enum linear_kind {
    LINEAR_SET,     // a
    LINEAR_GET,     // result: the value, "" for none
    LINEAR_ADD,     // a: decimal; result: the sum
    LINEAR_CAS,     // a: expected, b: desired; result: what is there now
    LINEAR_APPEND,  // a
    LINEAR_DELETE,  // result: "1" it was there, "0"
    LINEAR_CHECK,   // result: "1" it is there, "0"
    LINEAR_PRESENT, // a wait that came back
    LINEAR_KINDS
};

static const char *const linear_names[LINEAR_KINDS] = {"set",    "get",    "add",   "cas",
                                                       "append", "delete", "check", "wait"};

struct linear_op {
    enum linear_kind kind;
    const char *a, *b, *result; // NULL result of one that came back: it has none
    int64_t call, back;         // back 0: it never did
    int client;
};

// The values that a key can have, each once: compared by place.
struct linear_values {
    struct arena arena;
    const char **all; // NULL: no value
    size_t count, room;
};

static int linear_value(struct linear_values *v, const char *text) {
    for (size_t i = 0; i < v->count; i++)
        if (v->all[i] == text || (v->all[i] && text && strcmp(v->all[i], text) == 0))
            return (int)i;
    if (v->count == v->room) {
        v->room = v->room * 2 + 64;
        v->all = heap_realloc(v->all, v->room * sizeof *v->all);
    }
    v->all[v->count] = text ? arena_strdup(&v->arena, text) : NULL;
    return (int)v->count++;
}

static bool linear_same(const char *result, const char *want) {
    return !result || strcmp(result, want) == 0;
}

// The effect of `o` on the value `now`; -1: with this value its result would differ.
static int linear_step(struct linear_values *v, int now, const struct linear_op *o) {
    const char *value = v->all[now], *got = o->back ? o->result : NULL;
    switch (o->kind) {
    case LINEAR_SET: return linear_value(v, o->a);
    case LINEAR_GET: return linear_same(got, value ? value : "") ? now : -1;
    case LINEAR_CHECK: return linear_same(got, value ? "1" : "0") ? now : -1;
    case LINEAR_PRESENT: return value ? now : -1;
    case LINEAR_DELETE: return linear_same(got, value ? "1" : "0") ? linear_value(v, NULL) : -1;
    case LINEAR_APPEND:
        return linear_value(v, arena_printf(&v->arena, "%s%s", value ? value : "", o->a));
    case LINEAR_ADD: {
        long long sum = strtoll(value ? value : "0", NULL, 10) + strtoll(o->a, NULL, 10);
        const char *text = arena_printf(&v->arena, "%lld", sum);
        return linear_same(got, text) ? linear_value(v, text) : -1;
    }
    case LINEAR_CAS:
        if (value ? strcmp(value, o->a) == 0 : !*o->a)
            return linear_same(got, o->b) ? linear_value(v, o->b) : -1;
        return linear_same(got, value ? value : o->a) ? now : -1;
    case LINEAR_KINDS: break;
    }
    return -1;
}

struct linear_event { // a call or a return, in a list by time
    int op;
    bool back;
    int64_t at;
    struct linear_event *prev, *next, *match;
};

struct linear_verdict {
    size_t tries;
    int stuck_at; // the operation whose return nothing explains, of the longest explanation
    bool gave_up;
};

struct linear_search {
    const struct linear_op *ops;
    size_t count, words;
    struct linear_values values;
    struct linear_event *events;    // the first one is the list's head
    uint64_t key[1 + LINEAR_WORDS]; // the value's place + 1, and which operations took effect
    uint64_t *seen;                 // an open table of such keys
    size_t seen_count, seen_room;
};

static int linear_by_time(const void *pa, const void *pb) {
    const struct linear_event *a = pa, *b = pb;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->back - b->back;
}

static void linear_lay_out(struct linear_search *s) {
    size_t n = 0;
    struct linear_event **calls = heap_alloc((s->count + 1) * sizeof(void *));
    s->events = heap_alloc((2 * s->count + 1) * sizeof *s->events);
    for (size_t i = 0; i < s->count; i++) {
        s->events[++n] = (struct linear_event){.op = (int)i, .at = s->ops[i].call};
        if (s->ops[i].back)
            s->events[++n] =
                (struct linear_event){.op = (int)i, .back = true, .at = s->ops[i].back};
    }
    qsort(s->events + 1, n, sizeof *s->events, linear_by_time);
    for (size_t i = 0; i <= n; i++) {
        struct linear_event *x = &s->events[i];
        x->prev = i > 0 ? x - 1 : NULL;
        x->next = i < n ? x + 1 : NULL;
        if (i > 0 && !x->back)
            calls[x->op] = x;
        else if (i > 0)
            calls[x->op]->match = x;
    }
    free(calls);
}

static void linear_unlink(struct linear_event *x) {
    x->prev->next = x->next;
    if (x->next)
        x->next->prev = x->prev;
}
static void linear_relink(struct linear_event *x) {
    x->prev->next = x;
    if (x->next)
        x->next->prev = x;
}
static void linear_lift(struct linear_event *call) {
    linear_unlink(call);
    if (call->match)
        linear_unlink(call->match);
}
static void linear_put_back(struct linear_event *call) {
    if (call->match)
        linear_relink(call->match);
    linear_relink(call);
}

// As FNV-1a does it, with words for bytes.
static uint64_t linear_hash(const uint64_t *p, size_t words) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < words; i++)
        h = (h ^ p[i] ^ p[i] >> 29) * 0x100000001b3u;
    return h ^ h >> 31;
}

static uint64_t *linear_slot(struct linear_search *s, const uint64_t *key) {
    size_t mask = s->seen_room - 1;
    for (size_t at = linear_hash(key, s->words) & mask;; at = (at + 1) & mask) {
        uint64_t *slot = s->seen + at * s->words;
        if (!slot[0] || memcmp(slot, key, s->words * sizeof *key) == 0)
            return slot;
    }
}

static void linear_grow(struct linear_search *s) {
    uint64_t *old = s->seen;
    size_t room = s->seen_room;
    s->seen_room = room ? room * 2 : 1024;
    s->seen = heap_alloc(s->seen_room * s->words * sizeof *s->seen);
    for (size_t i = 0; i < room; i++)
        if (old[i * s->words])
            memcpy(linear_slot(s, old + i * s->words), old + i * s->words, s->words * sizeof *old);
    free(old);
}

// True: not seen before, and remembered.
static bool linear_is_new(struct linear_search *s) {
    if (2 * s->seen_count >= s->seen_room)
        linear_grow(s);
    uint64_t *slot = linear_slot(s, s->key);
    if (slot[0])
        return false;
    memcpy(slot, s->key, s->words * sizeof *slot);
    s->seen_count++;
    return true;
}

// Whether `call` may be the next to take effect; then s->key is what follows.
static bool linear_take(struct linear_search *s, const struct linear_event *call) {
    uint64_t bit = UINT64_C(1) << call->op % 64, *word = &s->key[1 + call->op / 64];
    uint64_t before = s->key[0];
    int value = linear_step(&s->values, (int)before - 1, &s->ops[call->op]);
    if (value < 0)
        return false;
    s->key[0] = (uint64_t)value + 1;
    *word |= bit;
    if (linear_is_new(s))
        return true;
    s->key[0] = before;
    *word &= ~bit;
    return false;
}

static bool linear_search(struct linear_search *s, struct linear_verdict *out) {
    struct linear_event **stack = heap_alloc((s->count + 1) * sizeof(void *));
    uint64_t *values = heap_alloc((s->count + 1) * sizeof *values);
    struct linear_event *x = s->events[0].next;
    size_t depth = 0, deepest = 0;
    while (x && !(out->gave_up = out->tries > LINEAR_TRIES_MAX)) {
        uint64_t before = s->key[0];
        out->tries++;
        if (!x->back && linear_take(s, x)) {
            values[depth] = before;
            stack[depth++] = x;
            linear_lift(x);
            x = s->events[0].next;
        } else if (!x->back) {
            x = x->next;
        } else {
            if (depth >= deepest) {
                deepest = depth;
                out->stuck_at = x->op;
            }
            if (depth == 0)
                break;
            x = stack[--depth];
            s->key[0] = values[depth];
            s->key[1 + x->op / 64] &= ~(UINT64_C(1) << x->op % 64);
            linear_put_back(x);
            x = x->next;
        }
    }
    free(stack);
    free(values);
    return !x;
}

__attribute__((unused)) static bool linear_check(const struct linear_op *ops, size_t count,
                                                 struct linear_verdict *out) {
    struct linear_search s = {.ops = ops, .count = count, .words = 2 + count / 64};
    *out = (struct linear_verdict){.stuck_at = -1, .gave_up = count > LINEAR_OPS_MAX};
    if (out->gave_up)
        return false;
    s.key[0] = (uint64_t)linear_value(&s.values, NULL) + 1;
    linear_lay_out(&s);
    bool good = linear_search(&s, out);
    free(s.events);
    free(s.seen);
    free(s.values.all);
    arena_fini(&s.values.arena);
    return good;
}

#endif
