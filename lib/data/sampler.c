// SPDX-License-Identifier: Apache-2.0
// The next sample of each rank, in the order of PyTorch's DistributedSampler. The generator is
// MT19937 (Matsumoto and Nishimura, 1998), seeded and drawn from as PyTorch does.
#include "data/sampler.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

enum { MT_WORDS = 624, MT_SHIFT = 397 };

struct mt {
    uint32_t word[MT_WORDS];
    int next;
};

static void mt_seed(struct mt *m, uint32_t seed) {
    m->word[0] = seed;
    for (uint32_t i = 1; i < MT_WORDS; i++) {
        uint32_t before = m->word[i - 1];
        m->word[i] = UINT32_C(1812433253) * (before ^ (before >> 30)) + i;
    }
    m->next = MT_WORDS;
}

static uint32_t mt_twist(uint32_t high, uint32_t low) {
    uint32_t y = (high & UINT32_C(0x80000000)) | (low & UINT32_C(0x7fffffff));
    return (y >> 1) ^ (low & 1 ? UINT32_C(0x9908b0df) : 0);
}

static uint32_t mt_next(struct mt *m) {
    if (m->next == MT_WORDS) {
        uint32_t *w = m->word;
        for (int i = 0; i < MT_WORDS; i++)
            w[i] = w[(i + MT_SHIFT) % MT_WORDS] ^ mt_twist(w[i], w[(i + 1) % MT_WORDS]);
        m->next = 0;
    }
    uint32_t y = m->word[m->next++];
    y ^= y >> 11;
    y ^= (y << 7) & UINT32_C(0x9d2c5680);
    y ^= (y << 15) & UINT32_C(0xefc60000);
    return y ^ (y >> 18);
}

void sampler_randperm(uint32_t *order, uint64_t n, uint64_t seed) {
    struct mt m;
    mt_seed(&m, (uint32_t)seed);
    // From this length on PyTorch draws 64 bits, so that the remainder's bias stays small.
    bool wide = n >= UINT32_MAX / 20;
    for (uint64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t draw = mt_next(&m);
        if (wide)
            draw = draw << 32 | mt_next(&m);
        uint64_t j = i + draw % (n - i);
        uint32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

int sampler_open(struct sampler *s, const struct sampler_config *config, struct err *e) {
    memset(s, 0, sizeof *s);
    if (config->samples < 1 || config->samples > SAMPLER_SAMPLES_MAX)
        return err_set(e, ERR_CONFIG, "a data set of %llu samples cannot be sampled (1 to %llu)",
                       (unsigned long long)config->samples,
                       (unsigned long long)SAMPLER_SAMPLES_MAX);
    if (config->world < 1 || config->rank < 0 || config->rank >= config->world)
        return err_set(e, ERR_CONFIG, "rank %d of %d ranks does not exist", config->rank,
                       config->world);
    s->config = *config;
    if (config->shuffle)
        s->order = heap_alloc(config->samples * sizeof *s->order);
    sampler_start(s, 0, 0);
    return 0;
}

void sampler_close(struct sampler *s) {
    free(s->order);
    s->order = NULL;
}

void sampler_start(struct sampler *s, uint64_t epoch, uint64_t consumed) {
    s->epoch = epoch;
    s->consumed = consumed;
    if (s->order)
        sampler_randperm(s->order, s->config.samples, s->config.seed + epoch);
}

uint64_t sampler_length(const struct sampler *s) {
    uint64_t n = s->config.samples, world = (uint64_t)s->config.world;
    uint64_t rank = (uint64_t)s->config.rank;
    uint64_t left = s->consumed < n ? n - s->consumed : 0;
    if (s->config.each)
        return s->consumed / world < s->config.each ? s->config.each - s->consumed / world : 0;
    switch (s->config.tail) {
    case SAMPLER_PAD: return (left + world - 1) / world;
    case SAMPLER_DROP: return left / world;
    case SAMPLER_EXACT: break;
    }
    return left > rank ? (left - rank + world - 1) / world : 0;
}

uint32_t sampler_at(const struct sampler *s, uint64_t i) {
    must(i < sampler_length(s));
    uint64_t p = s->consumed + (uint64_t)s->config.rank + i * (uint64_t)s->config.world;
    p %= s->config.samples; // padding repeats the list from its head, several times if need be
    return s->order ? s->order[p] : (uint32_t)p;
}

uint64_t sampler_consumed(const struct sampler *s, uint64_t taken) {
    return s->consumed + taken * (uint64_t)s->config.world;
}
