// SPDX-License-Identifier: Apache-2.0
// Counts votes, and the same over times: a time counts for all voters that spoke then or later.
#include "rendezvous/quorum.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

void quorum_fini(struct electorate *e) {
    free(e->voters);
    *e = (struct electorate){0};
}

void quorum_copy(struct electorate *to, const struct electorate *from) {
    struct voter *voters = heap_alloc((size_t)(from->count + 1) * sizeof *voters);
    memcpy(voters, from->voters ? from->voters : voters, (size_t)from->count * sizeof *voters);
    free(to->voters);
    *to = *from;
    to->voters = voters;
}

int quorum_find(const struct electorate *e, int64_t incarnation) {
    for (int i = 0; i < e->count; i++)
        if (e->voters[i].incarnation == incarnation)
            return i;
    return -1;
}

bool quorum_counts(const struct electorate *e, int at) {
    return (e->voters[at].rounds & QUORUM_THIS) || !e->committed;
}

bool quorum_is_single(const struct electorate *e, int64_t incarnation) {
    int living = 0, own = 0;
    for (int i = 0; i < e->count; i++) {
        bool lives = quorum_counts(e, i) && !e->voters[i].dead;
        living += lives;
        own += lives && e->voters[i].incarnation == incarnation;
    }
    return living == 1 && own == 1;
}

static int compare_down(const void *pa, const void *pb) {
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return (a < b) - (a > b);
}

// Of one round's voters. Half of them are enough with the tie breaker, or with the first voter if
// the tie breaker is dead.
static int64_t time_of(const struct electorate *e, unsigned part, int64_t tie_breaker,
                       const int64_t *spoke_ms, int64_t starts_ms) {
    int64_t *times = heap_alloc((size_t)(e->count + 1) * sizeof *times);
    int64_t first_ms = INT64_MIN, tie_breaker_ms = INT64_MIN;
    int count = 0;
    bool held = false;
    for (int i = 0; i < e->count; i++) {
        if (!(e->voters[i].rounds & part) || e->voters[i].dead)
            continue;
        int64_t t = spoke_ms[i] < starts_ms ? starts_ms : spoke_ms[i];
        if (count == 0)
            first_ms = t;
        if (e->voters[i].incarnation == tie_breaker) {
            tie_breaker_ms = t;
            held = true;
        }
        times[count++] = t;
    }
    qsort(times, (size_t)count, sizeof *times, compare_down);
    int64_t at = count ? times[count / 2] : INT64_MAX;
    if (count && count % 2 == 0) {
        int64_t tie_ms = held ? tie_breaker_ms : first_ms;
        int64_t half_ms = times[count / 2 - 1] < tie_ms ? times[count / 2 - 1] : tie_ms;
        if (half_ms > at)
            at = half_ms;
    }
    free(times);
    return at;
}

int64_t quorum_time(const struct electorate *e, const int64_t *spoke_ms, int64_t starts_ms) {
    int64_t at = time_of(e, QUORUM_THIS, e->tie_breaker, spoke_ms, starts_ms);
    int64_t last = e->committed ? INT64_MAX
                                : time_of(e, QUORUM_LAST, e->tie_breaker_last, spoke_ms, INT64_MIN);
    return at < last ? at : last;
}

bool quorum_agrees(const struct electorate *e, const bool *yes) {
    int64_t *times = heap_alloc((size_t)(e->count + 1) * sizeof *times);
    for (int i = 0; i < e->count; i++)
        times[i] = yes[i];
    bool agrees = quorum_time(e, times, 0) > 0;
    free(times);
    return agrees;
}
