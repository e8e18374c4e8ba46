// SPDX-License-Identifier: Apache-2.0
// The sampler against lists that PyTorch 2.13 printed, and what a resume must keep.
#include "base/philox.h"
#include "data/sampler.h"

#include "base/hash.h"
#include "tests/tap.h"

static struct err e;

static void test_randperm(void) {
    static const uint32_t seed0[10] = {4, 1, 7, 5, 3, 9, 0, 8, 6, 2};
    static const uint32_t seed1[10] = {5, 6, 1, 2, 0, 8, 9, 3, 7, 4};
    static const uint32_t seed12345[20] = {10, 5, 1,  19, 8, 12, 14, 13, 17, 0,
                                           11, 2, 18, 16, 3, 7,  4,  15, 6,  9};
    static const uint32_t seed7[10] = {5, 0, 3, 4, 1, 7, 9, 6, 8, 2};
    uint32_t got[20];
    sampler_randperm(got, 10, 0);
    is_mem(got, 40, seed0, 40, "randperm(10), seed 0");
    sampler_randperm(got, 10, 1);
    is_mem(got, 40, seed1, 40, "randperm(10), seed 1");
    sampler_randperm(got, 20, 12345);
    is_mem(got, 80, seed12345, 80, "randperm(20), seed 12345");
    sampler_randperm(got, 10, (UINT64_C(1) << 40) + 7);
    is_mem(got, 40, seed7, 40, "only the lower 32 bits of a seed count");

    uint32_t *large = malloc(50000 * sizeof *large);
    unsigned char digest[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    sampler_randperm(large, 50000, 3);
    hash_of(digest, large, 50000 * sizeof *large);
    hash_hex(hex, digest);
    is_str(hex, "2d40e722cbb438d5cf4f3f2c1771568d22e93b5630ed8a3cafe41da4528d4fc3",
           "randperm(50000), seed 3: all of it");
    sampler_randperm(large, 1, 3);
    is_uint(large[0], 0, "randperm(1)");
    free(large);
}

static void is_list(const struct sampler_config *c, uint64_t epoch, const uint32_t *want,
                    uint64_t n, uint64_t shown, const char *name) {
    struct sampler s;
    is_int(sampler_open(&s, c, &e), 0, "%s: opens", name);
    sampler_start(&s, epoch, 0);
    is_uint(sampler_length(&s), n, "%s: length", name);
    bool same = true;
    for (uint64_t i = 0; i < shown; i++)
        same &= sampler_at(&s, i) == want[i];
    ok(same, "%s: indices", name);
    sampler_close(&s);
}

static void test_distributed(void) {
    const struct {
        struct sampler_config c;
        uint64_t epoch;
        uint32_t want[14];
        uint64_t length, shown;
        const char *name;
    } cases[] = {
        {{.samples = 10, .rank = 0, .world = 3, .shuffle = true, .tail = SAMPLER_PAD, .seed = 0},
         0,
         {4, 5, 0, 2},
         4,
         4,
         "10 samples, rank 0 of 3"},
        {{.samples = 10, .rank = 2, .world = 3, .shuffle = true, .tail = SAMPLER_PAD, .seed = 0},
         0,
         {7, 9, 6, 1},
         4,
         4,
         "10 samples, rank 2 of 3, padded"},
        {{.samples = 10, .rank = 1, .world = 3, .shuffle = true, .tail = SAMPLER_DROP, .seed = 5},
         2,
         {0, 1, 6},
         3,
         3,
         "epoch 2, drop_last"},
        {{.samples = 10, .rank = 3, .world = 4, .shuffle = false, .tail = SAMPLER_PAD, .seed = 0},
         1,
         {3, 7, 1},
         3,
         3,
         "not shuffled"},
        {{.samples = 3, .rank = 7, .world = 8, .shuffle = true, .tail = SAMPLER_PAD, .seed = 0},
         0,
         {0},
         1,
         1,
         "more ranks than samples, padded twice"},
        {{.samples = 3, .rank = 2, .world = 8, .shuffle = true, .tail = SAMPLER_DROP, .seed = 0},
         0,
         {0},
         0,
         0,
         "more ranks than samples, drop_last"},
        {{.samples = 1027, .rank = 5, .world = 8, .shuffle = true, .tail = SAMPLER_PAD, .seed = 42},
         3,
         {110, 264, 1011, 603, 479, 359, 0, 286, 619, 429, 627, 769, 411, 354},
         129,
         14,
         "1027 samples on 8 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        is_list(&cases[i].c, cases[i].epoch, cases[i].want, cases[i].length, cases[i].shown,
                cases[i].name);
}

// The samples that W ranks read from position K on, in order of positions; returns their number.
static uint64_t epoch_list(uint64_t samples, int world, enum sampler_tail tail, uint64_t consumed,
                           uint64_t taken_max, uint32_t *out) {
    uint64_t total = 0;
    for (int r = 0; r < world; r++) {
        struct sampler s;
        struct sampler_config c = {.samples = samples,
                                   .rank = r,
                                   .world = world,
                                   .shuffle = true,
                                   .tail = tail,
                                   .seed = 11};
        sampler_open(&s, &c, &e);
        sampler_start(&s, 4, consumed);
        for (uint64_t i = 0; i < sampler_length(&s) && i < taken_max; i++, total++)
            out[i * (uint64_t)world + (uint64_t)r] = sampler_at(&s, i);
        sampler_close(&s);
    }
    return total;
}

static void test_resume(void) {
    enum { N = 1003 };
    static uint32_t whole[2 * N], parts[2 * N];
    uint64_t n = epoch_list(N, 4, SAMPLER_PAD, 0, UINT64_MAX, whole);
    is_uint(n, 1004, "4 ranks read 1004 positions of 1003 samples");
    // 30 of each of 4 ranks, then the rest with the same 4.
    uint64_t first = epoch_list(N, 4, SAMPLER_PAD, 0, 30, parts);
    uint64_t second = epoch_list(N, 4, SAMPLER_PAD, first, UINT64_MAX, parts + first);
    is_uint(first + second, n, "a resume on as many ranks reads as much");
    is_mem(parts, n * 4, whole, n * 4, "a resumed epoch has the same list");
    static const int worlds[] = {1, 2, 3, 5, 8, 16};
    for (size_t k = 0; k < sizeof worlds / sizeof worlds[0]; k++) {
        int w = worlds[k];
        uint64_t rest = epoch_list(N, w, SAMPLER_PAD, first, UINT64_MAX, parts + first);
        uint64_t left = N - first;
        is_uint(rest, (left + (uint64_t)w - 1) / (uint64_t)w * (uint64_t)w,
                "on %d ranks the tail is padded to a multiple of %d", w, w);
        is_mem(parts, N * 4, whole, N * 4, "on %d ranks every sample comes once, in order", w);
    }
    struct sampler s;
    struct sampler_config c = {
        .samples = N, .rank = 1, .world = 4, .shuffle = true, .tail = SAMPLER_PAD, .seed = 11};
    sampler_open(&s, &c, &e);
    sampler_start(&s, 4, 120);
    is_uint(sampler_consumed(&s, 30), 240, "consumed counts all ranks");
    sampler_start(&s, 4, N + 5);
    is_uint(sampler_length(&s), 0, "nothing is left after a padded end");
    sampler_close(&s);
}

// As many indices as ranks with other samples take.
static void test_each(void) {
    enum { N = 10 };
    static const uint64_t lengths[] = {1, 4, 5, 6, 23};
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++)
        for (int rank = 0; rank < 2; rank++) {
            uint64_t each = lengths[k];
            struct sampler s;
            struct sampler_config c = {.samples = N, .rank = rank, .world = 2, .each = each};
            bool in_turn = true;
            sampler_open(&s, &c, &e);
            is_uint(sampler_length(&s), each, "rank %d takes %d of its 5 samples", rank, (int)each);
            for (uint64_t i = 0; i < each; i++)
                in_turn &= sampler_at(&s, i) == ((uint64_t)rank + 2 * i) % N;
            ok(in_turn, "in order, and again from the first");
            sampler_start(&s, 0, 2 * (each - 1));
            is_uint(sampler_length(&s), 1, "one is left before the last one");
            is_uint(sampler_at(&s, 0), ((uint64_t)rank + 2 * (each - 1)) % N, "the last one");
            sampler_start(&s, 0, 2 * each + 1);
            is_uint(sampler_length(&s), 0, "none is left at the end");
            sampler_close(&s);
        }
}

static void test_exact(void) {
    for (int world = 1; world <= 9; world++) {
        unsigned char seen[1003] = {0};
        uint64_t longest = 0, shortest = UINT64_MAX;
        bool once = true;
        for (int r = 0; r < world; r++) {
            struct sampler s;
            struct sampler_config c = {.samples = 1003,
                                       .rank = r,
                                       .world = world,
                                       .shuffle = false,
                                       .tail = SAMPLER_EXACT,
                                       .seed = 0};
            sampler_open(&s, &c, &e);
            uint64_t n = sampler_length(&s);
            longest = n > longest ? n : longest;
            shortest = n < shortest ? n : shortest;
            for (uint64_t i = 0; i < n; i++)
                once &= seen[sampler_at(&s, i)]++ == 0;
            sampler_close(&s);
        }
        for (int i = 0; i < 1003; i++)
            once &= seen[i] == 1;
        ok(once && longest - shortest <= 1, "evaluation on %d ranks: every sample once", world);
    }
}

static void test_refused(void) {
    struct sampler s;
    struct sampler_config c = {
        .samples = 0, .rank = 0, .world = 1, .shuffle = true, .tail = SAMPLER_PAD, .seed = 0};
    is_int(sampler_open(&s, &c, &e), -1, "no samples");
    is_int(e.code, ERR_CONFIG, "no samples are a configuration error");
    c = (struct sampler_config){
        .samples = 5, .rank = 2, .world = 2, .shuffle = true, .tail = SAMPLER_PAD, .seed = 0};
    is_int(sampler_open(&s, &c, &e), -1, "rank 2 of 2");
    has_str(e.text, "rank 2 of 2", "the error names rank 2 of 2");
}

// The known answers that come with the Random123 library of the paper's authors.
static void test_philox(void) {
    struct philox zero = philox(0, 0, 0);
    const uint32_t want_zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    is_mem(zero.word, 16, want_zero, 16, "Philox of zeros");
    struct philox ones = philox(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    const uint32_t want_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    is_mem(ones.word, 16, want_ones, 16, "Philox of ones");
    struct philox pi = philox(UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e),
                              UINT64_C(0x85a308d3243f6a88));
    const uint32_t want_pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    is_mem(pi.word, 16, want_pi, 16, "Philox of pi's digits");
    ok(philox_below(UINT32_MAX, 10) == 9 && philox_below(0, 10) == 0, "bounds of a draw");
}

int main(void) {
    test_randperm();
    test_distributed();
    test_resume();
    test_each();
    test_exact();
    test_refused();
    test_philox();
    return done_testing();
}
