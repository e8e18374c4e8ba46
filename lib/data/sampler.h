// SPDX-License-Identifier: Apache-2.0
// The order in which ranks read samples: PyTorch's DistributedSampler, index for index, and a
// resume on any number of ranks.
//
// An epoch is a fixed list of positions p = 0, 1, 2, …; position p is sample order[p mod N], where
// order is PyTorch's randperm(N) seeded with seed + epoch (or 0 … N-1). Rank r of W takes positions
// K+r, K+r+W, K+r+2W, …, where K is what was consumed before a resume (0 at the start of an epoch):
// after s steps of batch b on W ranks exactly the positions below K + s*b*W are consumed, whatever
// W is, so (seed, epoch, K) is the whole state. The tail rule decides where the list ends.
//
//     struct sampler_config c = {.samples = n, .rank = r, .world = w, .shuffle = true, .seed = 1};
//     sampler_open(&s, &c, e);
//     sampler_start(&s, epoch, 0);
//     for (uint64_t i = 0; i < sampler_length(&s); i++) use(sampler_at(&s, i));
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum sampler_tail {
    SAMPLER_PAD,  // fill up to a multiple of W with the head of the list (drop_last=False)
    SAMPLER_DROP, // leave out what does not fill a multiple of W (drop_last=True)
    SAMPLER_EXACT // every sample once, ranks may differ by one: for evaluation
};

struct sampler_config {
    uint64_t samples; // N, 1 … SAMPLER_SAMPLES_MAX
    int rank, world;
    bool shuffle;
    enum sampler_tail tail;
    uint64_t seed;
    uint64_t each; // indices of a rank in a whole epoch, whatever `tail` says: the list is repeated
                   // or left early, as DistributedSampler does to make ranks alike; 0: by `tail`
};

#define SAMPLER_SAMPLES_MAX UINT64_C(0xfffffffe)

struct sampler {
    struct sampler_config config;
    uint64_t epoch;    // set by sampler_start
    uint64_t consumed; // K
    uint32_t *order;   // N entries, owned; NULL without shuffle
};

// Refuses impossible numbers with ERR_CONFIG. sampler_close frees; safe on a zeroed one.
int sampler_open(struct sampler *s, const struct sampler_config *config, struct err *e);
void sampler_close(struct sampler *s);

// Begins an epoch, or continues one after `consumed` positions (summed over all ranks). Padding is
// computed again for the rest; with an unchanged W this gives the same list as the first run.
void sampler_start(struct sampler *s, uint64_t epoch, uint64_t consumed);
uint64_t sampler_length(const struct sampler *s);         // indices of this rank from `consumed` on
uint32_t sampler_at(const struct sampler *s, uint64_t i); // i < sampler_length
// `consumed` for the state file after every rank took `taken` indices since sampler_start.
uint64_t sampler_consumed(const struct sampler *s, uint64_t taken);

// torch.randperm(n) from a generator seeded with `seed` (the lower 32 bits count, as there).
void sampler_randperm(uint32_t *order, uint64_t n, uint64_t seed);

#endif
