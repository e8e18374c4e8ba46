// SPDX-License-Identifier: Apache-2.0
// Fan-out: groups pushes into chains of nodes.
#include "xfer/fanout.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "sys/net.h"
#include "xfer/xfer_push_impl.h"

#include <stdlib.h>
#include <string.h>

struct fanout_chain {
    struct fanout *group;
    struct fanout_member *first; // NULL: it left
    struct send_plan plan;       // what any of its nodes lacks; moves to the first
    unsigned char key[XFER_RELAY_KEY_BYTES];
    size_t count; // of its nodes that have not said what they still lack
    bool started;
    bool gives;                   // the first has the content of the plan
    struct timer deadline, watch; // until, and once, its links stand
    struct fanout_chain *next;
};

struct fanout {
    struct loop *loop;
    struct fanout_member *members;
    struct fanout_chain *chains;
    size_t to_come; // pushes that have not joined yet
    size_t vacant;  // places of pushes that have ended after a chain
    struct timer wait;
    int64_t waits_ms; // of the timer; 0: it does not run
    bool late;        // peers that still compare are no longer awaited
};

struct fanout *fanout_new(struct loop *loop) {
    struct fanout *g = heap_alloc(sizeof *g);
    g->loop = loop;
    return g;
}

static void chain_free(struct fanout_chain *c) {
    struct fanout_chain **at = &c->group->chains;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    timer_stop(&c->deadline);
    timer_stop(&c->watch);
    xfer_send_plan_fini(&c->plan);
    free(c);
}

void fanout_free(struct fanout *g) {
    if (!g)
        return;
    must(!g->members);
    while (g->chains)
        chain_free(g->chains);
    timer_stop(&g->wait);
    free(g);
}

// ---- a chain ------------------------------------------------------------------------------------

static void forget(struct fanout_member *m) {
    struct fanout_chain *c = m->chain;
    if (m->before)
        m->before->behind = NULL;
    if (m->behind)
        m->behind->before = NULL;
    m->before = m->behind = NULL;
    m->chain = NULL;
    if (c->first == m)
        c->first = NULL;
    if (--c->count == 0)
        chain_free(c);
}

// The member and those behind it get nothing more from the one before: they say what they lack.
static void cut(struct fanout_member *m) {
    while (m) {
        struct fanout_member *behind = m->behind;
        forget(m);
        xfer_push_relay_end(m->push);
        m = behind;
    }
}

// Notes when the node has last received something. True: more is to come.
static bool member_look(struct fanout_member *m, int64_t now_ms) {
    const struct push *p = m->push;
    const struct push_conn *c = &p->conns[0];
    bool waits_for_us = c->state == CONN_CONTENT && c->stream.sent == c->stream.acked;
    if (m->received != c->stream.acked || waits_for_us) {
        m->received = c->stream.acked;
        m->received_ms = now_ms;
    }
    return m->received < p->x.progress.bytes_total;
}

// True when nodes behind this one wait, and neither they nor it have received anything for long.
static bool member_stalls(struct fanout_member *front, int64_t now_ms) {
    bool more = false;
    int64_t last_ms = 0;
    for (struct fanout_member *m = front; m; m = m->behind) {
        more |= member_look(m, now_ms) && m != front;
        last_ms = m->received_ms > last_ms ? m->received_ms : last_ms;
    }
    return more && now_ms - last_ms >= FANOUT_STALL_MS;
}

// A frozen node whose remaining content fits into socket buffers is not noticed by the one before.
static void on_watch(struct timer *t) {
    struct fanout_chain *c = container_of(t, struct fanout_chain, watch);
    int64_t now_ms = clock_mono_ms();
    timer_start(c->group->loop, &c->watch, FANOUT_WATCH_MS, on_watch);
    for (struct fanout_member *m = c->group->members; m; m = m->next) {
        if (m->chain != c || m->before || !member_stalls(m, now_ms))
            continue;
        log_debug("a node of a chain makes no progress", "node=%s", m->push->x.node);
        cut(m->behind); // it may end the chain
        return;
    }
}

static void chain_watch(struct fanout_chain *c) {
    int64_t now_ms = clock_mono_ms();
    for (struct fanout_member *m = c->first; m; m = m->behind)
        m->received_ms = now_ms;
    timer_start(c->group->loop, &c->watch, FANOUT_WATCH_MS, on_watch);
}

// Sends content to the first node once all links of the chain stand.
static void chain_check(struct fanout_chain *c) {
    if (c->started || !c->first)
        return;
    for (const struct fanout_member *m = c->first->behind; m; m = m->behind)
        if (!m->linked)
            return;
    c->started = true;
    timer_stop(&c->deadline);
    chain_watch(c);
    struct send_plan plan = c->plan;
    c->plan = (struct send_plan){0};
    if (!c->gives) {
        xfer_push_relay_head(c->first->push, &plan);
        return;
    }
    xfer_push_relay_give(c->first->push, &plan);
    xfer_send_plan_fini(&plan);
}

static void on_deadline(struct timer *t) {
    struct fanout_chain *c = container_of(t, struct fanout_chain, deadline);
    struct fanout_member *m = c->first;
    while (m && (m == c->first || m->linked))
        m = m->behind;
    if (m)
        log_debug("a link of a chain does not stand", "node=%s", m->push->x.node);
    cut(m);
    chain_check(c);
}

static void chain_make(struct fanout *g, struct fanout_member *const *list, size_t count,
                       struct send_plan *plan, bool gives) {
    struct fanout_chain *c = heap_alloc(sizeof *c);
    uint64_t bytes = plan->bytes;
    *c = (struct fanout_chain){.group = g,
                               .first = list[0],
                               .plan = *plan,
                               .count = count,
                               .gives = gives,
                               .next = g->chains};
    g->chains = c;
    hash_random(c->key, sizeof c->key);
    timer_start(g->loop, &c->deadline, FANOUT_CONNECT_MS, on_deadline);
    for (size_t i = 0; i < count; i++) {
        struct fanout_member *m = list[i];
        m->state = FANOUT_RELAYED;
        m->chains += !gives || i == 0;
        m->chain = c;
        m->linked = false;
        m->before = i ? list[i - 1] : NULL;
        m->behind = i + 1 < count ? list[i + 1] : NULL;
        xfer_push_relayed(m->push, gives && i == 0 ? 0 : bytes);
    }
    for (size_t i = 1; i < count; i++) {
        struct xfer_relay_peer at = {.address = list[i]->address};
        memcpy(at.key, c->key, sizeof at.key);
        xfer_push_relay_peer(list[i]->push, XFER_RELAY_FROM, &at);
    }
}

int fanout_port(struct fanout_member *m, uint32_t port) {
    if (!m->chain || !m->before || m->linked)
        return 0; // an answer that came too late
    struct xfer_relay_peer to = {.address = m->address, .port = port};
    memcpy(to.key, m->chain->key, sizeof to.key);
    if (port > 0 && port <= UINT16_MAX)
        xfer_push_relay_peer(m->before->push, XFER_RELAY_TO, &to);
    else
        fanout_link(m->before, false);
    return 0;
}

void fanout_link(struct fanout_member *m, bool stands) {
    struct fanout_chain *c = m->chain;
    if (!c || !m->behind)
        return;
    if (stands) {
        m->behind->linked = true;
    } else {
        log_debug("a chain breaks", "node=%s behind=%s", m->push->x.node, m->behind->push->x.node);
        cut(m->behind);
    }
    chain_check(c);
}

// ---- grouping -----------------------------------------------------------------------------------

static void alone(struct fanout_member *m) {
    m->state = FANOUT_ALONE;
    xfer_push_direct(m->push);
}

// Chains the waiting members that send one list. Others, and those for which it does not pay, send
// from here.
static void form(struct fanout *g, const struct manifest *list) {
    struct fanout_member *members[FANOUT_NODES_MAX];
    const struct send_plan *plans[FANOUT_NODES_MAX];
    size_t count = 0;
    uint64_t bytes = 0;
    for (struct fanout_member *m = g->members; m && count < FANOUT_NODES_MAX; m = m->next) {
        if (m->state != FANOUT_WAITING || m->push->m != list)
            continue;
        members[count] = m;
        plans[count++] = &m->push->plan;
        bytes += m->push->plan.bytes;
    }
    struct send_plan all;
    xfer_send_plan_init(&all, list);
    xfer_send_plan_unite(&all, plans, count);
    if (count > 1 && bytes - all.bytes >= FANOUT_SAVED_BYTES_MIN) {
        chain_make(g, members, count, &all, false);
        return;
    }
    xfer_send_plan_fini(&all);
    for (size_t i = 0; i < count; i++)
        alone(members[i]);
}

// ---- peers --------------------------------------------------------------------------------------

// Marks with 1 the entries that a node lacks.
static void mark_lacks(unsigned char *lacks, const struct send_plan *p) {
    memset(lacks, 0, p->m->count + 1);
    for (size_t i = 0; i < p->small_count; i++)
        lacks[p->small[i]] = 1;
    for (size_t i = 0; i < p->count; i++)
        lacks[p->units[i].entry] = 1;
}

// The bytes of a plan that a node has which lacks these entries. The plan is left unchanged.
static uint64_t can_give(const struct send_plan *wanted, const unsigned char *lacks) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < wanted->small_count; i++)
        bytes += lacks[wanted->small[i]] ? 0 : wanted->m->entries[wanted->small[i]].size;
    for (size_t i = 0; i < wanted->count; i++)
        bytes += lacks[wanted->units[i].entry] ? 0 : wanted->units[i].bytes;
    return bytes;
}

static bool shares_entry(const struct send_plan *p, const unsigned char *given) {
    for (size_t i = 0; i < p->small_count; i++)
        if (given[p->small[i]])
            return true;
    for (size_t i = 0; i < p->count; i++)
        if (given[p->units[i].entry])
            return true;
    return false;
}

// The member that can give most of what is wanted; NULL: none can.
static struct fanout_member *find_giver(struct fanout_member *const *list, size_t count,
                                        const struct send_plan *wanted, unsigned char *lacks) {
    struct fanout_member *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i]->chains == FANOUT_CHAINS_MAX)
            continue;
        mark_lacks(lacks, &list[i]->push->plan);
        uint64_t bytes = can_give(wanted, lacks);
        if (bytes > most) {
            most = bytes;
            best = list[i];
        }
    }
    return best;
}

// A chain from a node to those that lack some of what it has. False: no node can give anything.
static bool form_giving(struct fanout *g, struct fanout_member *const *list, size_t count) {
    const struct send_plan *plans[FANOUT_NODES_MAX];
    struct fanout_member *chain[FANOUT_NODES_MAX];
    struct send_plan wanted, given;
    const struct manifest *m = list[0]->push->m;
    unsigned char *lacks = heap_alloc(m->count + 1);
    size_t length = 0, takers = 0;
    for (size_t i = 0; i < count; i++)
        if (!list[i]->push->peers->gives)
            plans[takers++] = &list[i]->push->plan;
    xfer_send_plan_init(&wanted, m);
    xfer_send_plan_unite(&wanted, plans, takers);
    chain[length++] = find_giver(list, count, &wanted, lacks);
    if (chain[0]) {
        mark_lacks(lacks, &chain[0]->push->plan);
        xfer_send_plan_init(&given, m);
        xfer_send_plan_without(&given, &wanted, lacks);
        mark_lacks(lacks, &given);
        for (size_t i = 0; i < count; i++)
            if (list[i] != chain[0] && !list[i]->push->peers->gives &&
                shares_entry(&list[i]->push->plan, lacks))
                chain[length++] = list[i];
        chain_make(g, chain, length, &given, true);
    }
    xfer_send_plan_fini(&wanted);
    free(lacks);
    return chain[0] != NULL;
}

// The next chain begins when the last one has ended, so that each content passes each node once.
static void form_peers(struct fanout *g) {
    struct fanout_member *list[FANOUT_NODES_MAX];
    size_t count = 0;
    for (struct fanout_member *m = g->members; m; m = m->next) {
        if (m->state == FANOUT_RELAYED)
            return;
        if (m->state == FANOUT_WAITING && count < FANOUT_NODES_MAX)
            list[count++] = m;
    }
    if (count == 0 || form_giving(g, list, count))
        return;
    for (size_t i = 0; i < count; i++)
        alone(list[i]);
}

static void form_all(struct fanout *g) {
    struct fanout_member *m = g->members;
    g->waits_ms = 0;
    if (m && m->push->peers) {
        form_peers(g);
        return;
    }
    while (m) {
        if (m->state == FANOUT_WAITING) {
            form(g, m->push->m);
            m = g->members; // sending may have ended any of them
        } else {
            m = m->next;
        }
    }
}

static void on_wait(struct timer *t) {
    struct fanout *g = container_of(t, struct fanout, wait);
    g->late |= g->members && g->members->push->peers;
    form_all(g);
}

static void on_turn(struct timer *t) {
    form_all(container_of(t, struct fanout, wait));
}

// How long nodes that wait are held for others; 0: there are no others. A node that has its content
// of a chain ends soon, and another push begins in its place.
static int64_t wait_ms(const struct fanout *g) {
    int64_t ms = g->to_come > 0 && g->vacant > 0 ? FANOUT_WAIT_MS : 0;
    for (const struct fanout_member *m = g->members; m; m = m->next) {
        bool peers = m->push->peers != NULL, more = g->to_come > 0 && !peers;
        if (m->state == FANOUT_RELAYED && more)
            return FANOUT_TO_COME_WAIT_MS;
        if (m->state == FANOUT_COMPARING && !g->late)
            ms = peers ? FANOUT_PEERS_WAIT_MS : FANOUT_WAIT_MS;
        if (m->state == FANOUT_ALONE && more && m->chains > 0)
            ms = FANOUT_WAIT_MS;
    }
    return ms;
}

static void consider(struct fanout *g) {
    bool waiting = false;
    int64_t ms = wait_ms(g);
    for (const struct fanout_member *m = g->members; m; m = m->next)
        waiting |= m->state == FANOUT_WAITING;
    if (waiting && ms == 0)
        timer_start(g->loop, &g->wait, 0, on_turn); // from the loop: a push may be calling
    else if (waiting && ms != g->waits_ms)
        timer_start(g->loop, &g->wait, ms, on_wait);
    else if (!waiting)
        timer_stop(&g->wait);
    g->waits_ms = waiting ? ms : 0;
}

void fanout_expect(struct fanout *g, size_t pushes) {
    if (g)
        g->to_come = pushes;
}

void fanout_join(struct fanout *g, struct fanout_member *m, struct push *p, const char *address) {
    *m = (struct fanout_member){.push = p};
    if (g && g->to_come > 0) {
        g->to_come--;
        g->vacant -= g->vacant > 0;
    }
    if (!g || !net_is_numeric(address) || transport_is_local(p->x.link))
        return;
    m->group = g;
    m->address = arena_strdup(&p->x.arena, address);
    m->state = FANOUT_COMPARING;
    m->next = g->members;
    if (m->next)
        m->next->prev = m;
    g->members = m;
}

void fanout_ready(struct fanout_member *m) {
    if (m->chain)
        forget(m); // it has sent RELAY_END to the one behind
    bool peers = m->push->peers != NULL;
    if (m->state == FANOUT_ALONE ||
        (!peers && (m->push->plan.files == 0 || m->chains == FANOUT_CHAINS_MAX)))
        alone(m);
    else
        m->state = FANOUT_WAITING;
    if (m->group)
        consider(m->group);
}

void fanout_leave(struct fanout_member *m) {
    struct fanout *g = m->group;
    if (!g)
        return;
    struct fanout_chain *c = m->chain;
    if (c) {
        cut(m->behind);
        bool last = c->count == 1;
        forget(m);
        if (!last)
            chain_check(c);
    }
    if (m->prev)
        m->prev->next = m->next;
    else
        g->members = m->next;
    if (m->next)
        m->next->prev = m->prev;
    m->group = NULL;
    m->state = FANOUT_ALONE;
    g->vacant += m->chains > 0;
    consider(g);
}
