// SPDX-License-Identifier: Apache-2.0
// The processor time, of one thread, that a job of many files and many lines takes on the computer
// that starts it. JSON lines:
//   deal     a million objects to 16 nodes: ms; floor_ms is sorting their sizes
//   metrics  64 expressions over lines of workers: seconds for 100 MB; floor_s is copying them;
//            beside one expression, and no line that matches
//   hostile  an expression whose search explodes: ms for a line, and lines until it is given up
#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "benchmarks/median.h"
#include "content/deal.h"
#include "follow/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OBJECTS = 1000000, NODES = 16, LINES = 100000, ROUNDS = 5, HOSTILE_LINES = 40 };
#define REPORTED_BYTES 100e6

static struct err e;

static void die(const char *what) {
    fprintf(stderr, "bench_jobs: %s: %s\n", what, e.text);
    exit(1);
}

// ---- the deal ----------------------------------------------------------------------------------
static int by_bytes(const void *a, const void *b) {
    uint64_t x = ((const struct deal_item *)a)->bytes, y = ((const struct deal_item *)b)->bytes;
    return x < y ? -1 : x > y;
}

static double deal_once(const struct deal_item *all, enum deal_shard shard) {
    struct arena a = {0};
    struct deal_share shares[NODES];
    struct deal_rule rule = {.what = "objects", .shard = shard};
    double began = cpu_s();
    if (deal_out(&a, all, OBJECTS, &rule, shares, NODES, &e) < 0)
        die("dealing");
    double took = cpu_s() - began;
    arena_fini(&a);
    return took;
}

static void deal(void) {
    static const char *const names[] = {"size", "key", "count"};
    struct arena a = {0};
    struct deal_item *all = arena_new(&a, struct deal_item, OBJECTS);
    struct deal_item *sorted = arena_new(&a, struct deal_item, OBJECTS);
    double took[ROUNDS], floor[ROUNDS];
    uint64_t x = 1;
    for (size_t i = 0; i < OBJECTS; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        all[i] = (struct deal_item){arena_printf(&a, "shard-%07zu.tar", i), x >> 40};
    }
    for (int shard = DEAL_SIZE; shard <= DEAL_COUNT; shard++) {
        for (int r = 0; r < ROUNDS; r++) {
            memcpy(sorted, all, OBJECTS * sizeof *all);
            double began = cpu_s();
            qsort(sorted, OBJECTS, sizeof *sorted, by_bytes);
            floor[r] = cpu_s() - began;
            took[r] = deal_once(all, (enum deal_shard)shard);
        }
        double ms = median(took, ROUNDS) * 1e3, least = median(floor, ROUNDS) * 1e3;
        printf("{\"bench\":\"deal\",\"by\":\"%s\",\"objects\":%d,\"nodes\":%d,\"ms\":%.0f,"
               "\"floor_ms\":%.0f,\"ratio\":%.2f}\n",
               names[shard], OBJECTS, NODES, ms, least, ms / least);
    }
    arena_fini(&a);
}

// ---- metrics -----------------------------------------------------------------------------------
static void on_value(void *ctx, const struct metric *m, double value) {
    *(double *)ctx += value;
    (void)m;
}

// Lines as trainers print them; every tenth has figures.
static size_t make_lines(char *text, size_t room) {
    size_t at = 0;
    for (int i = 0; i < LINES; i++) {
        int n = i % 10 ? snprintf(text + at, room - at,
                                  "[rank %d] INFO dataset: loaded shard %06d of the epoch, queue "
                                  "depth %d, prefetch on\n",
                                  i % 8, i, i % 7)
                       : snprintf(text + at, room - at,
                                  "Epoch: [%d][%5d/10000] Time 0.123 (0.125) Loss %.4e (2.1e+00) "
                                  "Acc@1 %5.2f ( 12.5)\n",
                                  i / 10000, i, 1.0 / (i + 1), i % 100 * 0.97);
        at += (size_t)n;
    }
    return at;
}

static double match_all(struct metric_set *set, const char *text, size_t len) {
    double sum = 0, began = cpu_s();
    for (const char *line = text, *end; line < text + len; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + len - line));
        metrics_match(set, 0, line, (size_t)(end - line), on_value, &sum);
    }
    return cpu_s() - began;
}

// Names differ, and with `numbered` the ends of the expressions.
static void metrics(const char *what, int count, const char *regex, int numbered, const char *text,
                    char *copy, size_t len) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    double took[ROUNDS], floor[ROUNDS], scale = REPORTED_BYTES / (double)len;
    for (int i = 0; i < count; i++)
        if (metrics_add(set, &a, arena_printf(&a, "m%d", i),
                        numbered ? arena_printf(&a, "%s%d", regex, i) : regex, &e) < 0)
            die("an expression");
    for (int r = 0; r < ROUNDS; r++) {
        double began = cpu_s();
        memcpy(copy, text, len);
        floor[r] = (cpu_s() - began) * scale;
        took[r] = match_all(set, text, len) * scale;
    }
    double s = median(took, ROUNDS);
    printf("{\"bench\":\"metrics\",\"what\":\"%s\",\"expressions\":%d,\"seconds_of_100_mb\":%.2f,"
           "\"floor_s\":%.4f,\"million_lines_per_s\":%.2f}\n",
           what, count, s, median(floor, ROUNDS), LINES * scale / s / 1e6);
    metrics_fini(set);
    arena_fini(&a);
}

static void hostile(void) {
    struct arena a = {0};
    struct metric_set *set = arena_new(&a, struct metric_set, 1);
    char line[METRIC_LINE_BYTES_MAX];
    double most = 0, sum = 0;
    int searched = 0;
    memset(line, 'a', sizeof line);
    if (metrics_add(set, &a, "bomb", "(?:(?:a+)+)+([0-9.]*)[bc]", &e) < 0)
        die("an expression");
    for (int i = 0; i < HOSTILE_LINES; i++) {
        double began = cpu_s();
        metrics_match(set, 0, line, sizeof line, on_value, &sum);
        double took = cpu_s() - began;
        searched += took > 1e-4;
        most = took > most ? took : most;
    }
    printf("{\"bench\":\"hostile\",\"ms_of_worst_line\":%.2f,\"lines_until_given_up\":%d}\n",
           most * 1e3, searched);
    metrics_fini(set);
    arena_fini(&a);
}

int main(void) {
    size_t room = (size_t)LINES * 128;
    char *text = malloc(room), *copy = malloc(room);
    if (!text || !copy)
        die("no memory");
    log_open("bench_jobs", LOG_ERROR, LOG_PLAIN);
    deal();
    size_t len = make_lines(text, room);
    metrics("one", 1, "Loss ([-+0-9.e]+)", 0, text, copy, len);
    metrics("none matches", 64, "figure=([-+0-9.e]+) of ", 1, text, copy, len);
    metrics("each matches a tenth of the lines", 64, "Epoch.*Loss ([-+0-9.e]+)", 0, text, copy,
            len);
    hostile();
    free(text);
    free(copy);
    return 0;
}
