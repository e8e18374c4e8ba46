// SPDX-License-Identifier: Apache-2.0
// Makes the program of a step for each rank and order of passes.
#include "trainer/step_program.h"

#include "base/arena.h"
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

const char *step_op_name(enum step_op op) {
    static const char *const names[STEP_OPS] = {
        [STEP_LOAD] = "load",       [STEP_RECV_X] = "recv_x",   [STEP_FORWARD] = "forward",
        [STEP_SEND_Y] = "send_y",   [STEP_RECV_DY] = "recv_dy", [STEP_BACKWARD] = "backward",
        [STEP_SEND_DX] = "send_dx", [STEP_REDUCE] = "reduce",   [STEP_NORM] = "norm",
        [STEP_JUDGE] = "judge",     [STEP_UPDATE] = "update",   [STEP_GATHER] = "gather",
        [STEP_AWAIT] = "await",     [STEP_CHANGE] = "change",   [STEP_OUTER] = "outer"};
    return op < STEP_OPS ? names[op] : "unknown";
}

int mesh_data_rank(const struct mesh *l, int rank) {
    return l->spread ? rank % l->data : rank / l->pipe;
}

int mesh_pipe_rank(const struct mesh *l, int rank) {
    return l->spread ? rank / l->data : rank % l->pipe;
}

int mesh_rank(const struct mesh *l, int data_rank, int pipe_rank) {
    return l->spread ? pipe_rank * l->data + data_rank : data_rank * l->pipe + pipe_rank;
}

struct maker {
    struct step_program *out;
    const struct mesh *l;
    const struct step_spec *s;
    int rank, stage;               // stage of chunk 0
    int done[PROGRAM_CHUNKS_MAX];  // micro-batches that went backward
    int first[PROGRAM_CHUNKS_MAX]; // bucket of each chunk
    int begun, finished;           // passes
    uint16_t *slot;                // of chunk x micro
    bool *taken;                   // of chunk x slot
};

static void emit(struct maker *k, const struct step_item *item) {
    must((size_t)k->out->items < k->out->room);
    k->out->item[k->out->items++] = *item;
}

static int buckets_of(const struct step_spec *s) {
    int n = 0;
    for (int c = 0; c < s->chunks; c++)
        n += s->buckets[c];
    return n;
}

// The rank with a stage of this pipeline; stages go round the ranks.
static int16_t rank_of(const struct maker *k, int stage) {
    int data = mesh_data_rank(k->l, k->rank);
    return (int16_t)mesh_rank(k->l, data, stage % k->l->pipe);
}

static bool *taken_at(struct maker *k, int chunk, int slot) {
    return &k->taken[chunk * k->s->micros + slot];
}

static uint16_t take_slot(struct maker *k, int chunk) {
    int slot = 0;
    while (*taken_at(k, chunk, slot))
        slot++;
    *taken_at(k, chunk, slot) = true;
    if (slot >= k->out->slots)
        k->out->slots = slot + 1;
    return (uint16_t)slot;
}

static void forward(struct maker *k, int chunk, int micro) {
    int stage = chunk * k->l->pipe + k->stage, last = k->s->chunks * k->l->pipe - 1;
    struct step_item it = {.chunk = (uint8_t)chunk, .micro = (uint16_t)micro, .peer = -1};
    it.slot = k->slot[chunk * k->s->micros + micro] = take_slot(k, chunk);
    if (stage == 0 || stage == last) {
        it.op = STEP_LOAD;
        emit(k, &it);
    }
    if (stage > 0) {
        it.op = STEP_RECV_X;
        it.peer = rank_of(k, stage - 1);
        emit(k, &it);
    }
    it.op = STEP_FORWARD;
    it.peer = -1;
    emit(k, &it);
    if (stage < last) {
        it.op = STEP_SEND_Y;
        it.peer = rank_of(k, stage + 1);
        emit(k, &it);
    }
    if (k->s->forward)
        *taken_at(k, chunk, it.slot) = false;
}

static void backward(struct maker *k, int chunk, int micro) {
    int stage = chunk * k->l->pipe + k->stage, last = k->s->chunks * k->l->pipe - 1;
    struct step_item it = {.chunk = (uint8_t)chunk, .micro = (uint16_t)micro, .peer = -1};
    it.slot = k->slot[chunk * k->s->micros + micro];
    if (stage < last) {
        it.op = STEP_RECV_DY;
        it.peer = rank_of(k, stage + 1);
        emit(k, &it);
        it.peer = -1;
    }
    k->done[chunk]++;
    for (int b = 0; b < k->s->buckets[chunk]; b++) {
        it.bucket = (uint16_t)(k->first[chunk] + b);
        it.op = STEP_BACKWARD;
        emit(k, &it);
        it.op = STEP_REDUCE;
        if (k->done[chunk] == k->s->micros && !k->s->alone)
            emit(k, &it);
    }
    it.bucket = 0;
    if (stage > 0) {
        it.op = STEP_SEND_DX;
        it.peer = rank_of(k, stage - 1);
        emit(k, &it);
    }
    *taken_at(k, chunk, it.slot) = false;
}

// The i-th pass of a rank: micro-batches in groups as many as there are ranks, each group through
// all chunks before the next one.
static void pass(struct maker *k, int i, bool back) {
    int pipe = k->l->pipe, chunks = k->s->chunks;
    int chunk = chunks > 1 ? i / pipe % chunks : 0;
    int micro = chunks > 1 ? i / (pipe * chunks) * pipe + i % pipe : i;
    if (back)
        backward(k, chunks - 1 - chunk, micro);
    else
        forward(k, chunk, micro);
}

// Number of forward passes before the first backward pass.
static int warm_up(const struct maker *k) {
    int all = k->s->micros * k->s->chunks, behind = k->l->pipe - 1 - k->stage, n = all;
    if (k->s->order == PIPE_1F1B)
        n = behind;
    else if (k->s->order == PIPE_INTERLEAVED)
        n = 2 * behind + (k->s->chunks - 1) * k->l->pipe;
    return n < all ? n : all;
}

static int check_spec(const struct mesh *l, const struct step_spec *s, struct err *e) {
    if (l->data < 1 || l->pipe < 1 || l->data * l->pipe != l->world)
        return err_set(e, ERR_CONFIG, "%d ranks are not %d times %d", l->world, l->data, l->pipe);
    if (s->chunks < 1 || s->chunks > PROGRAM_CHUNKS_MAX)
        return err_set(e, ERR_CONFIG, "%d stages of each rank: 1 to %d", s->chunks,
                       PROGRAM_CHUNKS_MAX);
    if (s->chunks > 1 && s->order != PIPE_INTERLEAVED)
        return err_set(e, ERR_CONFIG, "several stages of each rank are for order interleaved");
    for (int c = 0; c < s->chunks; c++)
        if (s->buckets[c] < 1)
            return err_set(e, ERR_CONFIG, "stage %d of a rank has nothing to train", c);
    if (s->micros < 1 || s->micros * s->chunks > PROGRAM_NUMBER_MAX ||
        buckets_of(s) > PROGRAM_NUMBER_MAX)
        return err_set(e, ERR_CONFIG, "%d micro-batches: 1 to %d", s->micros,
                       PROGRAM_NUMBER_MAX / s->chunks);
    if ((s->alone || s->join) && (l->pipe > 1 || s->parted || s->forward))
        return err_set(e, ERR_CONFIG, "a rank that trains by itself has the whole model");
    if (s->chunks > 1 && s->micros % l->pipe)
        return err_set(e, ERR_CONFIG,
                       "order interleaved needs a multiple of %d micro-batches, not %d", l->pipe,
                       s->micros);
    return 0;
}

// The items after all micro-batches, bucket by bucket.
static void end_step(struct maker *k, int buckets) {
    static const enum step_op end[] = {STEP_NORM, STEP_JUDGE, STEP_UPDATE, STEP_AWAIT};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        for (int b = 0; b < (end[i] == STEP_JUDGE ? 1 : buckets); b++) {
            struct step_item it = {.op = (uint8_t)end[i], .bucket = (uint16_t)b, .peer = -1};
            if (it.op != STEP_AWAIT || k->s->parted)
                emit(k, &it);
            it.op = STEP_GATHER;
            if (end[i] == STEP_UPDATE && k->s->parted)
                emit(k, &it);
        }
}

// A round is judged as a step is: before anything is applied.
static void end_round(struct maker *k, int buckets) {
    static const enum step_op end[] = {STEP_CHANGE, STEP_JUDGE, STEP_OUTER};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        for (int b = 0; b < (end[i] == STEP_JUDGE ? 1 : buckets); b++) {
            struct step_item it = {.op = (uint8_t)end[i], .bucket = (uint16_t)b, .peer = -1};
            emit(k, &it);
        }
}

int program_make(struct step_program *out, const struct mesh *l, int rank,
                 const struct step_spec *s, struct err *e) {
    if (check_spec(l, s, e) < 0)
        return -1;
    int passes = s->micros * s->chunks, buckets = buckets_of(s);
    int most = passes * 6 + s->micros * buckets + 6 * buckets + 1;
    array_grow(out->item, &out->room, (size_t)most);
    out->items = out->slots = 0;
    struct maker k = {.out = out,
                      .l = l,
                      .s = s,
                      .rank = rank,
                      .stage = mesh_pipe_rank(l, rank),
                      .slot = heap_alloc((size_t)passes * sizeof *k.slot),
                      .taken = heap_alloc((size_t)passes * sizeof *k.taken)};
    for (int c = 1; c < s->chunks; c++)
        k.first[c] = k.first[c - 1] + s->buckets[c - 1];
    int ahead = s->join ? 0 : s->forward ? passes : warm_up(&k);
    for (int i = 0; i < ahead; i++)
        pass(&k, i, false);
    for (int i = 0; i < passes && !s->forward && !s->join; i++) {
        if (ahead + i < passes)
            pass(&k, ahead + i, false);
        pass(&k, i, true);
    }
    free(k.slot);
    free(k.taken);
    if (s->join)
        end_round(&k, buckets);
    else if (!s->forward)
        end_step(&k, buckets);
    return 0;
}

void program_free(struct step_program *p) {
    free(p->item);
    *p = (struct step_program){0};
}
