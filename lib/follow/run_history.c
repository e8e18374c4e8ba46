// SPDX-License-Identifier: Apache-2.0
// The history of a run from its agents' events.
#include "follow/run_history.h"

#include "base/str.h"
#include "protocol/node_protocol.h"
#include "ui/screen.h"

#include <string.h>

enum { ROUND_MAX = 1 << 30 };

void run_history_init(struct run_history *s, struct arena *a, const char *const *nodes,
                      size_t count) {
    *s = (struct run_history){.arena = a, .node_count = count, .round = -1};
    s->nodes = arena_new(a, struct history_node, count ? count : 1);
    for (size_t i = 0; i < count; i++) {
        s->nodes[i].name = nodes[i];
        s->nodes[i].round = -1;
    }
}

static int number(const struct json *j, const char *key, int absent, int max) {
    int64_t v = json_get_int(j, key, absent);
    return v < -1 || v > max ? absent : (int)v;
}

static const char *text(struct run_history *s, const struct json *j, const char *key) {
    const struct json *v = json_get(j, key);
    if (!v || v->type != JSON_STR)
        return NULL;
    size_t len = v->len < HISTORY_TAIL_BYTES_MAX ? v->len : HISTORY_TAIL_BYTES_MAX;
    return arena_strndup(s->arena, v->str, strnlen(v->str, len));
}

static int peer(const struct run_history *s, const struct json *j) {
    const char *name = json_get_str(j, "peer", "");
    for (size_t i = 0; i < s->node_count; i++)
        if (strcmp(s->nodes[i].name, name) == 0)
            return (int)i;
    return -1;
}

// ---- one function per kind of event that changes something -------------------------------------

// Records a loss or a departure. Events of one node arrive in order, those of several nodes do not:
// the times decide.
static void gone(struct run_history *s, const struct json *j, bool left) {
    int at = peer(s, j);
    int64_t time_ms = json_get_int(j, "time_ms", 0);
    if (at < 0 || time_ms < s->nodes[at].here_ms)
        return;
    s->nodes[at].lost = !left;
    s->nodes[at].left = left;
    s->nodes[at].gone_why = text(s, j, "reason");
    s->nodes[at].gone_ms = time_ms;
}

static void here(struct history_node *n, const struct json *j) {
    int64_t time_ms = json_get_int(j, "time_ms", 0);
    if (time_ms > n->here_ms)
        n->here_ms = time_ms;
    if (time_ms < n->gone_ms)
        return;
    n->lost = n->left = false;
    n->gone_why = NULL;
}

static void add_round(struct run_history *s, const struct json *j) {
    const char *reason = text(s, j, "reason");
    if (s->round_count == HISTORY_ROUNDS_MAX)
        return;
    struct history_round *r = arena_new(s->arena, struct history_round, 1);
    *r = (struct history_round){.round = s->round,
                                .restarts = s->restarts,
                                .nodes = s->nodes_in_round,
                                .world_size = s->world_size,
                                .reason = reason ? reason : "",
                                .time_ms = json_get_int(j, "time_ms", 0)};
    if (s->last_round)
        s->last_round->next = r;
    else
        s->rounds = r;
    s->last_round = r;
    s->round_count++;
}

// Adds an attempt. Attempts are numbered by their rounds.
static void add_attempt(struct run_history *s, struct history_node *n, int attempt) {
    struct history_attempt *a = n->attempts;
    if (!a || (a->attempt != attempt && n->attempt_count < HISTORY_ATTEMPTS_MAX)) {
        a = arena_new(s->arena, struct history_attempt, 1);
        a->next = n->attempts;
        n->attempts = a;
        n->attempt_count++;
    }
    a->attempt = attempt;
    a->first_rank = n->first_rank;
    a->rank_count = n->rank_count;
}

// Reuses the memory of the earlier rounds where it is large enough.
static void make_ranks(struct run_history *s, struct history_node *n) {
    if (n->rank_count > n->rank_room || !n->ranks) {
        n->rank_room = n->rank_count > 8 ? HISTORY_LOCAL_MAX : 8;
        n->ranks = arena_new(s->arena, struct history_rank, (size_t)n->rank_room);
    }
    for (int i = 0; i < n->rank_count; i++)
        n->ranks[i] = (struct history_rank){.rank = n->first_rank + i, .local_rank = i};
}

static void on_round(struct run_history *s, struct history_node *n, const struct json *j) {
    int round = number(j, "round", -1, ROUND_MAX), count = number(j, "nproc", 0, HISTORY_LOCAL_MAX);
    if (round < 0 || count < 0)
        return;
    here(n, j);
    n->round = round;
    n->first_rank = number(j, "rank", 0, HISTORY_RANKS_MAX);
    n->rank_count = count;
    n->world_size = number(j, "world_size", 0, HISTORY_RANKS_MAX);
    make_ranks(s, n);
    add_attempt(s, n, round);
    s->restarts = number(j, "restarts", s->restarts, ROUND_MAX);
    bool first = round > s->round;
    if (round >= s->round) {
        const struct json *nodes = json_get(j, "nodes");
        s->round = round;
        s->world_size = n->world_size;
        s->nodes_in_round =
            nodes && nodes->type == JSON_ARRAY ? (int)nodes->len : number(j, "nodes", 0, 1 << 20);
    }
    if (first)
        add_round(s, j);
    s->waiting = NULL;
}

static void on_started(struct run_history *s, struct history_node *n, const struct json *j) {
    const struct json *pids = json_get(j, "pids");
    int64_t now = json_get_int(j, "time_ms", 0);
    const struct json *pid = pids && pids->type == JSON_ARRAY ? pids->child : NULL;
    for (int i = 0; i < n->rank_count; i++) {
        n->ranks[i].started = true;
        n->ranks[i].pid = pid && pid->type == JSON_INT ? (int)pid->integer : 0;
        pid = pid ? pid->next : NULL;
    }
    add_attempt(s, n, number(j, "attempt", n->round, ROUND_MAX));
    if (!s->first_started_ms || now < s->first_started_ms)
        s->first_started_ms = now;
}

static void on_exited(struct run_history *s, struct history_node *n, const struct json *j) {
    int local = number(j, "local_rank", -1, HISTORY_LOCAL_MAX);
    if (local < 0 || local >= n->rank_count || number(j, "round", -1, ROUND_MAX) != n->round)
        return;
    struct history_rank *r = &n->ranks[local];
    r->ended = true;
    r->status = number(j, "status", 1, 255);
    r->signal = text(s, j, "signal");
    r->reason = text(s, j, "reason");
    r->ms = json_get_int(j, "ms", 0);
}

// The index of the failure; failure_count when it is not reported yet.
static size_t find_failure(const struct run_history *s, int round, int rank) {
    size_t i = 0;
    while (i < s->failure_count && (s->failures[i].round != round || s->failures[i].rank != rank))
        i++;
    return i;
}

// Several nodes report the same failure: the coordinator at once, the others when it fails the run.
static void on_failure(struct run_history *s, struct history_node *n, const struct json *j) {
    int at = peer(s, j), round = number(j, "round", 0, ROUND_MAX);
    int rank = number(j, "rank", -1, HISTORY_RANKS_MAX);
    bool root = json_get_bool(j, "root", false);
    size_t place = find_failure(s, round, rank);
    if (place < s->failure_count)
        s->failures[place].root |= root;
    if (place < s->failure_count || place == HISTORY_FAILURES_MAX)
        return;
    struct history_failure f = {
        .node = at >= 0 ? s->nodes[at].name : n->name,
        .reporter = n->name,
        .round = round,
        .rank = rank,
        .local_rank = number(j, "local_rank", -1, HISTORY_LOCAL_MAX),
        .pid = number(j, "pid", 0, 1 << 30),
        .status = number(j, "status", 1, 255),
        .signal = text(s, j, "signal"),
        .message = text(s, j, "message"),
        .tail = text(s, j, "tail"),
        .evidence = text(s, j, "evidence"),
        .failed_ms = json_get_int(j, "failed_ms", json_get_int(j, "time_ms", 0)),
        .root = root,
        .seq = json_get_int(j, "seq", 0),
    };
    s->failures[s->failure_count++] = f;
}

static void on_waiting(struct run_history *s, struct history_node *n, const struct json *j) {
    (void)n;
    static const char intro[] = "missing: "; // prefix of the coordinator's text
    const char *reason = text(s, j, "reason");
    const char *missing = reason ? strstr(reason, intro) : NULL;
    s->waiting = missing && missing[sizeof intro - 1] ? missing + sizeof intro - 1 : NULL;
}

static void on_joined(struct run_history *s, struct history_node *n, const struct json *j) {
    n->joined = true;
    n->state = n->why = NULL; // a replacement of this node may have ended before
    const char *leader = text(s, j, "coordinator");
    s->coordinator = leader ? leader : s->coordinator;
}

static void on_leader(struct run_history *s, struct history_node *n, const struct json *j) {
    (void)n;
    const char *leader = text(s, j, "peer");
    s->coordinator = leader ? leader : s->coordinator;
}

static void on_lost(struct run_history *s, struct history_node *n, const struct json *j) {
    (void)n;
    gone(s, j, false);
}

static void on_left(struct run_history *s, struct history_node *n, const struct json *j) {
    (void)n;
    gone(s, j, true);
}

static void on_notice(struct run_history *s, struct history_node *n, const struct json *j) {
    (void)n;
    int at = peer(s, j);
    if (at >= 0)
        s->nodes[at].announced = true;
}

static void on_present(struct run_history *s, struct history_node *n, const struct json *j) {
    (void)n;
    int at = peer(s, j);
    if (at < 0)
        return;
    here(&s->nodes[at], j);
    s->nodes[at].joined = true;
}

static void on_ended(struct run_history *s, struct history_node *n, const struct json *j) {
    n->state = text(s, j, "kind");
    n->why = text(s, j, "reason");
    n->ended_ms = json_get_int(j, "time_ms", 0);
    s->restarts = number(j, "restarts", s->restarts, ROUND_MAX);
}

typedef void story_step(struct run_history *s, struct history_node *n, const struct json *j);
static story_step *const STEPS[NODE_EVENT_COUNT] = {
    [EVENT_JOINED] = on_joined,   [EVENT_PRESENT] = on_present,  [EVENT_WAITING] = on_waiting,
    [EVENT_ROUND] = on_round,     [EVENT_STARTED] = on_started,  [EVENT_EXITED] = on_exited,
    [EVENT_FAILURE] = on_failure, [EVENT_NODE_LOST] = on_lost,   [EVENT_NODE_LEFT] = on_left,
    [EVENT_LEADER] = on_leader,   [EVENT_LEADER_LOST] = on_lost, [EVENT_FINISHED] = on_ended,
    [EVENT_FAILED] = on_ended,    [EVENT_ENDED] = on_ended,      [EVENT_NOTICE] = on_notice,
};

// Members whose text is shown as several lines, with colours.
static bool has_lines(const char *key) {
    return str_eq(key, "tail") || str_eq(key, "message") || str_eq(key, "evidence");
}

// Makes every text of an event safe for a terminal. All readers of events rely on this.
static void clean(struct arena *a, struct json *j) {
    for (struct json *c = j->child; c; c = c->next)
        clean(a, c);
    if (j->type != JSON_STR)
        return;
    if (!has_lines(j->key)) {
        j->str = str_printable(a, j->str, j->len);
    } else {
        struct strbuf text = {0};
        for (size_t at = 0; at < j->len;) {
            const char *end = memchr(j->str + at, '\n', j->len - at);
            size_t line = end ? (size_t)(end - j->str) - at : j->len - at;
            screen_foreign(&text, j->str + at, line);
            if (end)
                strbuf_addc(&text, '\n');
            at += line + (end != NULL);
        }
        j->str = arena_strndup(a, strbuf_cstr(&text), text.len);
        strbuf_fini(&text);
    }
    j->len = strlen(j->str);
}

const char *run_history_add(struct run_history *s, struct arena *scratch, size_t node,
                            const char *line, size_t len, const struct json **event) {
    struct json *j = NULL;
    struct err e = {0};
    *event = NULL;
    if (node >= s->node_count || json_parse(scratch, line, len, &j, &e) < 0 ||
        j->type != JSON_OBJECT)
        return NULL;
    const char *kind = json_get_str(j, "kind", "");
    for (int k = 0; k < NODE_EVENT_COUNT; k++) {
        const char *name = node_event_name((enum node_event)k);
        if (strcmp(name, kind) != 0)
            continue;
        clean(scratch, j);
        if (STEPS[k])
            STEPS[k](s, &s->nodes[node], j);
        *event = j;
        return name;
    }
    return NULL;
}

int run_history_rank_of(const struct run_history *s, size_t node, int attempt, int local_rank) {
    if (node >= s->node_count)
        return -1;
    for (const struct history_attempt *a = s->nodes[node].attempts; a; a = a->next)
        if (a->attempt == attempt)
            return local_rank < a->rank_count ? a->first_rank + local_rank : -1;
    return -1;
}

const struct history_failure *run_history_root(const struct run_history *s) {
    const struct history_failure *first = NULL;
    // The last failed round ended the run. Within it the marked failure is the root, else the
    // earliest.
    for (size_t i = 0; i < s->failure_count; i++) {
        const struct history_failure *f = &s->failures[i];
        if (!first || f->round > first->round ||
            (f->round == first->round &&
             (f->root > first->root ||
              (f->root == first->root && f->failed_ms < first->failed_ms))))
            first = f;
    }
    return first;
}

bool run_history_is_known(const struct run_history *s, size_t node, const struct json *event) {
    if (!str_eq(json_get_str(event, "kind", ""), node_event_name(EVENT_FAILURE)))
        return false;
    size_t place = find_failure(s, number(event, "round", 0, ROUND_MAX),
                                number(event, "rank", -1, HISTORY_RANKS_MAX));
    return place < s->failure_count && (s->failures[place].reporter != s->nodes[node].name ||
                                        s->failures[place].seq != json_get_int(event, "seq", 0));
}

void run_history_count(const struct run_history *s, int *started, int *ended) {
    *started = *ended = 0;
    for (size_t i = 0; i < s->node_count; i++) {
        const struct history_node *n = &s->nodes[i];
        if (n->round != s->round)
            continue;
        for (int k = 0; k < n->rank_count; k++) {
            *started += n->ranks[k].started;
            *ended += n->ranks[k].ended;
        }
    }
}
