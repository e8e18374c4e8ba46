// SPDX-License-Identifier: Apache-2.0
// Proves that the programs of all ranks end. Sends do not wait, and messages arrive in order.
// Receiving and NORM wait. Programs that end under these rules also end with real connections.
#include "base/arena.h"
#include "trainer/step_program.h"

#include <stdlib.h>

// How far a micro-batch is in a chunk.
enum stage_state { NOTHING, ARRIVED, FORWARDED, GRADIENT, BACKWARDED };
// And a bucket.
enum bucket_state { OPEN, REDUCED, NORMED, UPDATED, GATHERED, AWAITED };
// A change that is on its way is REDUCED, and UPDATED when it is applied.

struct micro_state {
    uint8_t state;
    bool loaded, sent_y, sent_dx;
    int buckets; // that went backward
};

struct runner {
    const struct step_program *p;
    const struct step_spec *s;
    int rank, stage, at;       // next item
    struct micro_state *micro; // chunk x micro
    int *holder;               // of chunk x slot: chunk x micro + 1
    uint8_t *bucket;           // enum bucket_state
    int *summed;               // micro-batches in each bucket
    int buckets, reduces, norms;
    bool judged;
};

struct check {
    const struct mesh *l;
    struct runner *run;
    int *heard[2]; // receiver x sender: items of the sender already checked, by kind
    struct err *e;
};

static int fault(struct check *c, const struct runner *r, const char *what) {
    const struct step_item *it = &r->p->item[r->at < r->p->items ? r->at : r->p->items - 1];
    return err_set(c->e, ERR_FAILED,
                   "rank %d, item %d (%s of micro-batch %d, chunk %d, bucket %d): %s", r->rank,
                   r->at, step_op_name(it->op), it->micro, it->chunk, it->bucket, what);
}

static int *holder_of(const struct runner *r, const struct step_item *it) {
    return &r->holder[it->chunk * r->p->slots + it->slot];
}

static int last_stage(const struct check *c, const struct runner *r) {
    return r->s->chunks * c->l->pipe - 1;
}

static int stage_of(const struct check *c, const struct runner *r, const struct step_item *it) {
    return it->chunk * c->l->pipe + r->stage;
}

// Receives the next item sent to this rank in that direction. 1: it is the expected one, 0: not
// sent yet, -1: another one.
static int receive(struct check *c, struct runner *r, const struct step_item *it) {
    bool forward = it->op == STEP_RECV_X;
    enum step_op op = forward ? STEP_SEND_Y : STEP_SEND_DX;
    struct runner *from = &c->run[it->peer];
    int *at = &c->heard[forward][r->rank * c->l->world + it->peer];
    for (; *at < from->at; ++*at) {
        const struct step_item *sent = &from->p->item[*at];
        if (sent->op != op || sent->peer != r->rank)
            continue;
        ++*at;
        int stage = stage_of(c, r, it), other = stage_of(c, from, sent);
        return sent->micro == it->micro && other == stage + (forward ? -1 : 1) ? 1 : -1;
    }
    return 0;
}

// Whether all ranks of this stage have begun to reduce, or gather, as many buckets as this one
// waits for; they have begun the same ones.
static int begun_by_all(struct check *c, const struct runner *r, enum step_op op, int bucket) {
    int begun = 0, nth = -1;
    for (int i = 0; i < r->at; i++)
        if (r->p->item[i].op == op) {
            nth = r->p->item[i].bucket == bucket ? begun : nth;
            begun++;
        }
    for (int d = 0; d < c->l->data; d++) {
        const struct runner *o = &c->run[mesh_rank(c->l, d, r->stage)];
        int seen = 0, found = -1;
        for (int i = 0; i < o->at && found < 0; i++)
            if (o->p->item[i].op == op && seen++ == nth)
                found = o->p->item[i].bucket;
        if (found < 0)
            return 0;
        if (found != bucket)
            return -1;
    }
    return 1;
}

static int first_bucket(const struct runner *r, int chunk) {
    int first = 0;
    for (int c = 0; c < chunk; c++)
        first += r->s->buckets[c];
    return first;
}

// LOAD, RECV_X and FORWARD: the slot is this micro-batch's from the first of them on.
static int take(struct check *c, struct runner *r, const struct step_item *it) {
    int id = it->chunk * r->s->micros + it->micro + 1;
    if (it->slot >= r->p->slots)
        return fault(c, r, "there is no such slot");
    if (*holder_of(r, it) && *holder_of(r, it) != id)
        return fault(c, r, "the slot is in use");
    *holder_of(r, it) = id;
    return 0;
}

// Behind the last item of a micro-batch on a way that is forward alone.
static void leave(struct runner *r, const struct step_item *it) {
    if (r->s->forward)
        *holder_of(r, it) = 0;
}

static int run_forward(struct check *c, struct runner *r, const struct step_item *it,
                       struct micro_state *m) {
    int stage = stage_of(c, r, it);
    bool ends = stage == 0 || stage == last_stage(c, r);
    if (take(c, r, it) < 0)
        return -1;
    if (it->op == STEP_LOAD) {
        if (m->loaded || !ends || r->judged)
            return fault(c, r, "not to be loaded here");
        m->loaded = true;
        if (stage == 0)
            m->state = ARRIVED;
    } else if (it->op == STEP_RECV_X) {
        if (m->state != NOTHING || stage == 0)
            return fault(c, r, "nothing is to be received here");
        m->state = ARRIVED;
    } else {
        if (m->state != ARRIVED || (ends && !m->loaded) || r->judged)
            return fault(c, r, "its input is not there");
        m->state = FORWARDED;
        if (stage == last_stage(c, r))
            leave(r, it);
    }
    return 1;
}

static int run_backward(struct check *c, struct runner *r, const struct step_item *it,
                        struct micro_state *m) {
    int stage = stage_of(c, r, it);
    bool last = stage == last_stage(c, r);
    if (it->slot >= r->p->slots || *holder_of(r, it) != it->chunk * r->s->micros + it->micro + 1)
        return fault(c, r, "its activations are not in that slot");
    if (m->state != GRADIENT && !(last && m->state == FORWARDED))
        return fault(c, r, "the gradient of its output is not there");
    if (it->bucket != first_bucket(r, it->chunk) + m->buckets)
        return fault(c, r, "the bucket is not the next one");
    if (r->bucket[it->bucket] != OPEN)
        return fault(c, r, "the gradients of the bucket are on their way already");
    r->summed[it->bucket]++;
    m->state = GRADIENT;
    if (++m->buckets == r->s->buckets[it->chunk]) {
        m->state = BACKWARDED;
        if (stage == 0)
            *holder_of(r, it) = 0;
    }
    return 1;
}

static int run_send(struct check *c, struct runner *r, const struct step_item *it,
                    struct micro_state *m) {
    int stage = stage_of(c, r, it);
    bool forward = it->op == STEP_SEND_Y;
    bool *sent = forward ? &m->sent_y : &m->sent_dx;
    if (*sent || m->state < (forward ? FORWARDED : BACKWARDED) ||
        stage == (forward ? last_stage(c, r) : 0))
        return fault(c, r, "nothing is to be sent here");
    *sent = true;
    leave(r, it);
    if (!forward)
        *holder_of(r, it) = 0;
    return 1;
}

// The end of a round.
static int run_round(struct check *c, struct runner *r, const struct step_item *it) {
    uint8_t *state = &r->bucket[it->bucket];
    bool change = it->op == STEP_CHANGE;
    if (!r->s->join || it->bucket >= r->buckets)
        return fault(c, r, "it is of no round, or there is no such bucket");
    if (*state != (change ? OPEN : REDUCED) || r->judged == change)
        return fault(c, r, "the change is not judged yet, on its way already, or applied already");
    int there = change ? 1 : begun_by_all(c, r, STEP_CHANGE, it->bucket);
    if (there < 0)
        return fault(c, r, "the ranks average the changes of different buckets");
    if (there == 0)
        return 0;
    *state = change ? REDUCED : UPDATED;
    r->norms += change;
    return 1;
}

static int run_norm(struct check *c, struct runner *r, const struct step_item *it) {
    uint8_t *state = &r->bucket[it->bucket];
    bool norm = it->op == STEP_NORM, own = norm && r->s->alone;
    if (*state != (own ? OPEN : norm ? REDUCED : GATHERED))
        return fault(c, r, "it is not on its way");
    if (own && r->summed[it->bucket] != r->s->micros)
        return fault(c, r, "the gradients are not complete");
    int there = own ? 1 : begun_by_all(c, r, norm ? STEP_REDUCE : STEP_GATHER, it->bucket);
    if (there < 0)
        return fault(c, r, "the ranks reduce different buckets");
    if (there == 0)
        return 0;
    *state = norm ? NORMED : AWAITED;
    r->norms += norm;
    return 1;
}

static int run_bucket(struct check *c, struct runner *r, const struct step_item *it) {
    uint8_t *state = &r->bucket[it->bucket];
    if (it->bucket >= r->buckets)
        return fault(c, r, "there is no such bucket");
    if (it->op == STEP_REDUCE && r->s->alone)
        return fault(c, r, "inside a round no gradients are averaged");
    if (it->op == STEP_NORM || it->op == STEP_AWAIT)
        return run_norm(c, r, it);
    if (it->op == STEP_REDUCE) {
        if (*state != OPEN || r->summed[it->bucket] != r->s->micros)
            return fault(c, r, "the gradients are not complete, or on their way already");
        *state = REDUCED;
    } else if (it->op == STEP_GATHER) {
        if (*state != UPDATED || !r->s->parted)
            return fault(c, r, "its parameters are not updated, or not in parts");
        *state = GATHERED;
    } else {
        if (*state != NORMED || !r->judged)
            return fault(c, r, "the step is not judged yet, or applied already");
        *state = UPDATED;
    }
    return 1;
}

// One item: 1 it is done, 0 it has to wait.
static int run_item(struct check *c, struct runner *r) {
    const struct step_item *it = &r->p->item[r->at];
    if (it->chunk >= r->s->chunks || it->micro >= r->s->micros || it->peer >= c->l->world)
        return fault(c, r, "out of range");
    struct micro_state *m = &r->micro[it->chunk * r->s->micros + it->micro];
    int there = 1;
    switch ((enum step_op)it->op) {
    case STEP_RECV_X:
    case STEP_RECV_DY:
        there = it->peer < 0 ? -1 : receive(c, r, it);
        if (there < 0)
            return fault(c, r, "something else arrives");
        if (there == 0)
            return 0;
        if (it->op == STEP_RECV_X)
            return run_forward(c, r, it, m);
        if (m->state != FORWARDED)
            return fault(c, r, "the gradient of what was not computed");
        m->state = GRADIENT;
        return 1;
    case STEP_LOAD:
    case STEP_FORWARD: return run_forward(c, r, it, m);
    case STEP_BACKWARD: return run_backward(c, r, it, m);
    case STEP_SEND_Y:
    case STEP_SEND_DX: return it->peer < 0 ? fault(c, r, "to nobody") : run_send(c, r, it, m);
    case STEP_REDUCE:
    case STEP_NORM:
    case STEP_UPDATE:
    case STEP_GATHER:
    case STEP_AWAIT: return run_bucket(c, r, it);
    case STEP_CHANGE:
    case STEP_OUTER: return run_round(c, r, it);
    case STEP_JUDGE:
        if (r->judged || r->norms != r->buckets)
            return fault(c, r, "not all gradients are known");
        r->judged = true;
        return 1;
    case STEP_OPS: break;
    }
    return fault(c, r, "no such item");
}

static int check_done(struct check *c, struct runner *r) {
    for (int i = 0; i < r->s->chunks * r->s->micros; i++)
        if (r->micro[i].state != (r->s->join ? NOTHING : r->s->forward ? FORWARDED : BACKWARDED))
            return fault(c, r, "ends without every micro-batch");
    for (int b = 0; b < r->buckets; b++)
        if (r->bucket[b] != (r->s->forward ? OPEN : r->s->parted ? AWAITED : UPDATED))
            return fault(c, r, "ends without every update");
    return 0;
}

static int run_all(struct check *c) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < c->l->world; i++) {
            struct runner *r = &c->run[i];
            int done = 1;
            while (r->at < r->p->items && (done = run_item(c, r)) > 0) {
                r->at++;
                moved = true;
            }
            if (done < 0)
                return -1;
        }
    }
    for (int i = 0; i < c->l->world; i++)
        if (c->run[i].at < c->run[i].p->items)
            return fault(c, &c->run[i], "waits for ever");
    for (int i = 0; i < c->l->world; i++)
        if (check_done(c, &c->run[i]) < 0)
            return -1;
    return 0;
}

int program_verify(const struct step_program *ranks, const struct step_spec *specs,
                   const struct mesh *l, struct err *e) {
    size_t world = (size_t)l->world;
    struct arena a = {0};
    struct check c = {.l = l, .run = arena_new(&a, struct runner, world), .e = e};
    for (int kind = 0; kind < 2; kind++)
        c.heard[kind] = arena_new(&a, int, world *world);
    for (int i = 0; i < l->world; i++) {
        struct runner *r = &c.run[i];
        const struct step_spec *s = &specs[i];
        *r = (struct runner){.p = &ranks[i], .s = s, .rank = i, .stage = mesh_pipe_rank(l, i)};
        r->buckets = first_bucket(r, s->chunks);
        r->micro = arena_new(&a, struct micro_state, (size_t)(s->chunks * s->micros));
        r->holder = arena_new(&a, int, (size_t)(s->chunks * r->p->slots) + 1);
        r->bucket = arena_new(&a, uint8_t, (size_t)r->buckets + 1);
        r->summed = arena_new(&a, int, (size_t)r->buckets + 1);
    }
    int result = run_all(&c);
    arena_fini(&a);
    return result;
}
