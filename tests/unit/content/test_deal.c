// SPDX-License-Identifier: Apache-2.0
// Dealing the items of an input: every rule against what has to hold for it.
#include "base/clock.h"
#include "base/str.h"
#include "content/deal.h"
#include "tests/tap.h"

#include <string.h>

enum { NODES_MAX = 16, MANY = 1000000 };

static struct arena a;
static struct deal_share shares[NODES_MAX];
static struct err e;

// Items f00, f01, … whose sizes are 1, 2, …
static struct deal_item *items(size_t count) {
    struct deal_item *all = arena_new(&a, struct deal_item, count + 1);
    for (size_t i = 0; i < count; i++)
        all[i] = (struct deal_item){arena_printf(&a, "f%07zu", i), i + 1};
    return all;
}

// "4 3 3": the counts of the nodes, or the error.
static const char *deal(size_t count, size_t nodes, struct deal_rule rule) {
    struct strbuf text = {0};
    rule.what = "files";
    err_clear(&e);
    if (deal_out(&a, items(count), count, &rule, shares, nodes, &e) < 0)
        return e.text;
    for (size_t n = 0; n < nodes; n++)
        strbuf_addf(&text, "%s%zu", n ? " " : "", shares[n].count);
    const char *copy = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

// "f0 f1 f2": the items of a node.
static const char *share(size_t node) {
    struct strbuf text = {0};
    for (size_t i = 0; i < shares[node].count; i++)
        strbuf_addf(&text, "%s%zu", i ? " " : "", shares[node].items[i]);
    const char *copy = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static void by_key(void) {
    struct deal_rule key = {.shard = DEAL_KEY};
    is_str(deal(20, 6, key), "3 3 4 3 3 4", "20 files by key over 6 nodes are 3 or 4 each");
    is_str(share(0), "0 1 2", "contiguous by name");
    is_str(share(5), "16 17 18 19", "up to the last one");
    is_str(deal(3, 3, key), "1 1 1", "one each");
    is_str(deal(2, 3, key), "2 files are too few for 3 nodes (try: uneven = pad)", "too few");
    is_str(deal(0, 2, key), "0 files are too few for 2 nodes", "none");
    for (size_t nodes = 1; nodes <= NODES_MAX; nodes++)
        for (size_t count = nodes; count < 60; count++) {
            deal(count, nodes, key);
            size_t next = 0;
            for (size_t n = 0; n < nodes; n++) {
                bool fair =
                    shares[n].count == count / nodes || shares[n].count == count / nodes + 1;
                for (size_t i = 0; i < shares[n].count; i++)
                    fair = fair && shares[n].items[i] == next++;
                if (!fair)
                    bail_out("%zu over %zu: node %zu has %s", count, nodes, n, share(n));
            }
            if (next != count)
                bail_out("%zu over %zu: %zu were dealt", count, nodes, next);
        }
    pass("every count over every number of nodes is contiguous, whole and fair");
}

static void by_count(void) {
    struct deal_rule rule = {.shard = DEAL_COUNT};
    is_str(deal(7, 3, rule), "3 2 2", "by count");
    is_str(share(1), "1 4", "the files in turn");
    rule.shuffled = true;
    rule.seed = 7;
    is_str(deal(7, 3, rule), "3 2 2", "shuffled: the same counts");
    const char *first = share(0);
    deal(7, 3, rule);
    is_str(share(0), first, "the same seed deals the same");
    bool other = false;
    for (rule.seed = 8; rule.seed < 16 && !other; rule.seed++) {
        deal(7, 3, rule);
        other = strcmp(share(0), first) != 0;
    }
    ok(other, "another seed does not");
    size_t seen = 0;
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < shares[n].count; i++)
            seen |= (size_t)1 << shares[n].items[i];
    is_uint(seen, 127, "every file is dealt once");
}

static void by_size(void) {
    struct deal_rule rule = {.shard = DEAL_SIZE};
    uint64_t least = UINT64_MAX, most = 0, all = 0;
    deal(101, 4, rule);
    for (size_t n = 0; n < 4; n++) {
        uint64_t load = 0;
        for (size_t i = 0; i < shares[n].count; i++)
            load += shares[n].items[i] + 1;
        least = load < least ? load : least;
        most = load > most ? load : most;
        all += load;
    }
    is_uint(all, 101 * 102 / 2, "by size: every file is dealt once");
    ok(most - least <= 101, "and loads differ by less than the largest file: %llu to %llu",
       (unsigned long long)least, (unsigned long long)most);
    is_str(share(0), "100 93 92 85 84 77 76 69 68 61 60 53 52 45 44 37 36 29 28 21 20 13 12 5 4",
           "largest first, always to the lightest node");
}

static void uneven(void) {
    struct deal_rule rule = {.shard = DEAL_COUNT, .uneven = DEAL_UNEVEN_REFUSE};
    is_str(deal(7, 3, rule),
           "7 files make 2 to 3 for each of 3 nodes, and uneven = refuse (try: uneven = pad, or "
           "drop)",
           "refuse");
    is_str(deal(6, 3, rule), "2 2 2", "equal counts are not refused");
    rule.uneven = DEAL_UNEVEN_DROP;
    is_str(deal(7, 3, rule), "2 2 2", "drop");
    is_str(share(0), "0 3", "drop leaves out the last file");
    rule.uneven = DEAL_UNEVEN_PAD;
    is_str(deal(7, 3, rule), "3 3 3", "pad");
    is_str(share(1), "1 4 0", "repeats the first one that the node does not have");
    is_str(share(2), "2 5 0", "for every node");
    is_str(deal(2, 5, rule), "1 1 1 1 1", "fewer files than nodes");
    is_str(share(4), "0", "files are repeated for further nodes");
    rule.shard = DEAL_SIZE;
    deal(50, 3, rule);
    for (size_t n = 0; n < 3; n++) {
        bool twice = false;
        for (size_t i = 0; i < shares[n].count; i++)
            for (size_t k = 0; k < i; k++)
                twice = twice || shares[n].items[i] == shares[n].items[k];
        ok(!twice && shares[n].count == shares[0].count, "by size: node %zu has none twice", n);
    }
}

static void many(void) {
    struct deal_rule rule = {.what = "files", .shard = DEAL_SIZE};
    struct deal_item *all = items(MANY);
    int64_t began = clock_cpu_ns();
    is_int(deal_out(&a, all, MANY, &rule, shares, NODES_MAX, &e), 0, "a million files");
    diag("%d files were dealt in %lld ms of processor time", MANY,
         (long long)(clock_cpu_ns() - began) / 1000000);
}

int main(void) {
    by_key();
    by_count();
    by_size();
    uneven();
    many();
    arena_fini(&a);
    return done_testing();
}
