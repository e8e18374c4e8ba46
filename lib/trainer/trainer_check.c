// SPDX-License-Identifier: Apache-2.0
// Finds wrong numbers: the rank and the parameter that are no longer finite, and
// the rank whose parameters differ from those of the ranks that should have the same.
#include "base/arena.h"
#include "trainer/trainer_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 1 << 16 };

int trainer_diverged(const struct trainer *t, const char *what, int64_t step, struct err *e) {
    return err_set(e, ERR_FAILED,
                   "%s no longer a finite number at step %lld (epoch %lld) (try: a lower train.lr, "
                   "or a longer warm-up with train.warmup_epochs)",
                   what, (long long)step, (long long)t->at.epoch);
}

int trainer_rank_diverged(struct trainer *t, const char *noun, double own, int64_t step,
                          struct err *e) {
    char what[64]; // of numbers that each are finite:
    snprintf(what, sizeof what, "the mean of %s over all ranks is", noun);
    double *all = heap_alloc((size_t)t->world * sizeof *all);
    int r = comm_all_gather(t->comm, &own, all, sizeof own, e);
    for (int rank = t->world - 1; rank >= 0 && r == 0; rank--)
        if (!isfinite(all[rank]))
            snprintf(what, sizeof what, "%s of rank %d is", noun, rank);
    free(all);
    return r < 0 ? err_wrap(e, "looking for the rank of a number that is not finite")
                 : trainer_diverged(t, what, step, e);
}

// ---- gradients ---------------------------------------------------------------------------------

// Backward goes from the last parameter to the first, so the last one that is not finite is nearest
// to the cause.
struct culprit {
    int64_t param; // of the whole model; -1: none
    char name[NN_NAME_BYTES_MAX];
};

static bool is_finite(struct chunk *c, size_t begin, size_t end) {
    if (begin >= end)
        return true;
    network_squares(&c->net, end - begin, c->net.grads + begin * c->net.k->real_bytes);
    return isfinite(network_squares_sum(&c->net));
}

static void look_at_bucket(const struct trainer *t, struct chunk *c, const struct bucket *b,
                           struct culprit *out) {
    const struct nn_model *m = c->net.model;
    size_t begin, end;
    bucket_own(b, t->zero ? t->data_rank : 0, &begin, &end);
    for (int i = 0; i < m->params; i++) {
        const struct nn_param *p = &m->param[i];
        size_t from = p->begin > begin ? p->begin : begin, to = p->begin + p->count;
        to = to < end ? to : end;
        if (m->first_param + i <= out->param || is_finite(c, from, to))
            continue;
        out->param = m->first_param + i;
        snprintf(out->name, sizeof out->name, "%s", p->name);
    }
}

// Names the last culprit of all ranks.
static int name_culprit(struct trainer *t, const struct culprit *mine, int64_t step,
                        struct err *e) {
    char what[NN_NAME_BYTES_MAX + 64] = "the norm of all gradients is";
    struct culprit *all = heap_alloc((size_t)t->world * sizeof *all);
    int r = comm_all_gather(t->comm, mine, all, sizeof *mine, e);
    int64_t last = -1;
    for (int rank = 0; rank < t->world && r == 0; rank++)
        if (all[rank].param > last) {
            last = all[rank].param;
            snprintf(what, sizeof what, "the gradient of '%.*s' on rank %d is",
                     (int)strnlen(all[rank].name, NN_NAME_BYTES_MAX - 1), all[rank].name, rank);
        }
    free(all);
    return r < 0 ? err_wrap(e, "looking for a gradient that is not finite")
                 : trainer_diverged(t, what, step, e);
}

int trainer_gradient_diverged(struct trainer *t, int64_t step, struct err *e) {
    struct culprit mine = {.param = -1};
    for (int c = 0; c < t->chunks; c++)
        for (int b = 0; b < t->chunk[c].part->buckets.count; b++)
            look_at_bucket(t, &t->chunk[c], &t->chunk[c].part->buckets.bucket[b], &mine);
    return name_culprit(t, &mine, step, e);
}

int trainer_gradient_halted(struct trainer *t, int64_t element, int64_t step, struct err *e) {
    struct culprit mine = {.param = -1};
    const struct nn_model *m = t->chunk[0].net.model;
    for (int i = 0; i < m->params; i++) {
        const struct nn_param *p = &m->param[i];
        if (element < (int64_t)p->begin || element >= (int64_t)(p->begin + p->count))
            continue;
        mine.param = m->first_param + i;
        snprintf(mine.name, sizeof mine.name, "%s", p->name);
    }
    return name_culprit(t, &mine, step, e);
}

// ---- checksums ---------------------------------------------------------------------------------

// Every step is a bijection of the sum, so one changed number always changes it. Four sums side by
// side, since one multiplication waits for the one before.
struct checksum {
    uint64_t lane[4];
};

static void add_words(struct checksum *s, const float *values, size_t count) {
    static const uint64_t ODD = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        uint64_t sum = (s->lane[i % 4] ^ word) * ODD;
        s->lane[i % 4] = sum ^ sum >> 32;
    }
}

static struct checksum sum_params(const struct trainer *t) {
    struct checksum sum = {{1, 2, 3, 4}};
    float *piece = heap_alloc(PIECE_ELEMENTS * sizeof *piece);
    for (int c = 0; c < t->chunks; c++) {
        const struct network *net = &t->chunk[c].net;
        size_t all = net->model->param_elements;
        for (size_t done = 0; done < all; done += PIECE_ELEMENTS) {
            size_t n = all - done < PIECE_ELEMENTS ? all - done : PIECE_ELEMENTS;
            network_get(net, net->params, done, n, piece);
            add_words(&sum, piece, n);
        }
    }
    free(piece);
    return sum;
}

// How many ranks have a stage's parameters as `rank` has them.
static int count_same(const struct trainer *t, const struct checksum *all, int rank) {
    int stage = mesh_pipe_rank(&t->mesh, rank), same = 0;
    for (int i = 0; i < t->mesh.data; i++) {
        int other = mesh_rank(&t->mesh, i, stage);
        same += memcmp(&all[other], &all[rank], sizeof *all) == 0;
    }
    return same;
}

// The fewer are taken for wrong. Of two ranks none can be.
static int compare_sums(const struct trainer *t, const struct checksum *all, struct err *e) {
    static const char *const TRY = "(try: start again from the newest checkpoint, and have the "
                                   "memory of the node checked if that comes again)";
    int odd = 0;
    for (int rank = 1; rank < t->world; rank++)
        if (count_same(t, all, rank) < count_same(t, all, odd))
            odd = rank;
    int same = count_same(t, all, odd), ranks = t->mesh.data;
    if (same == ranks)
        return 0;
    int other = odd, stage = mesh_pipe_rank(&t->mesh, odd);
    for (int i = ranks - 1; i >= 0; i--) {
        int rank = mesh_rank(&t->mesh, i, stage);
        if (memcmp(&all[rank], &all[odd], sizeof *all) != 0)
            other = rank;
    }
    if (2 * same == ranks)
        return err_set(e, ERR_FAILED,
                       "the parameters of ranks %d and %d, which should be the same, differ at "
                       "step %lld %s",
                       other < odd ? other : odd, other < odd ? odd : other, (long long)t->at.step,
                       TRY);
    return err_set(e, ERR_FAILED,
                   "the parameters of rank %d differ from those of rank %d and %d other rank%s at "
                   "step %lld %s",
                   odd, other, count_same(t, all, other) - 1,
                   count_same(t, all, other) == 2 ? "" : "s", (long long)t->at.step, TRY);
}

int trainer_check_ranks(struct trainer *t, struct err *e) {
    if (t->mesh.data == 1 || t->checked_step == t->at.step)
        return 0;
    struct checksum mine = sum_params(t), *all = heap_alloc((size_t)t->world * sizeof *all);
    int r = comm_all_gather(t->comm, &mine, all, sizeof mine, e);
    if (r < 0)
        err_wrap(e, "comparing the parameters of all ranks at step %lld", (long long)t->at.step);
    else
        r = compare_sums(t, all, e);
    free(all);
    t->checked_step = t->at.step;
    return r;
}
