// SPDX-License-Identifier: Apache-2.0
// Measures collectives: sizes, numbers and rows of results.
#include "trainer/bench.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "sys/file.h"
#include "trainer/trainer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 61, ALIGN_NUMBERS = 4 }; // nccl-tests cuts parts at 16 bytes

struct bench_size bench_size_of(enum train_bench kind, size_t bytes, int world) {
    struct bench_size s = {.kind = kind, .count = bytes / sizeof(float)};
    bool parted = kind == TRAIN_BENCH_ALL_GATHER || kind == TRAIN_BENCH_REDUCE_SCATTER;
    s.each = s.count ? s.count : 1;
    if (parted)
        s.each = s.count / (size_t)world / ALIGN_NUMBERS * ALIGN_NUMBERS;
    if (parted && s.each == 0)
        s.each = ALIGN_NUMBERS;
    s.count = parted ? s.each * (size_t)world : s.each;
    s.buffer = kind == TRAIN_BENCH_SENDRECV ? 2 * s.count : s.count;
    return s;
}

double bench_bus_factor(enum train_bench kind, int world) {
    double n = world;
    switch (kind) {
    case TRAIN_BENCH_ALL_REDUCE: return 2 * (n - 1) / n;
    case TRAIN_BENCH_ALL_GATHER:
    case TRAIN_BENCH_REDUCE_SCATTER: return (n - 1) / n;
    case TRAIN_BENCH_SENDRECV:
    case TRAIN_BENCH_NONE:
    case TRAIN_BENCHES: break;
    }
    return 1;
}

// ---- numbers that are known --------------------------------------------------------------------

// Small whole numbers: their sums are exact in any order.
static float given(int rank, size_t i) {
    return (float)((i * 7 + (size_t)rank * 13) % PERIOD);
}

void bench_fill(const struct bench_size *size, int rank, float *buffer) {
    for (size_t i = 0; i < size->count; i++)
        buffer[i] = given(rank, i);
    size_t own = size->kind == TRAIN_BENCH_ALL_GATHER ? (size_t)rank * size->each : 0;
    for (size_t i = 0; size->kind == TRAIN_BENCH_ALL_GATHER && i < size->count; i++)
        if (i < own || i >= own + size->each)
            buffer[i] = -1; // that no rank gives
    for (size_t i = size->count; i < size->buffer; i++)
        buffer[i] = -1;
}

size_t bench_wrong(const struct bench_size *size, int rank, int world, const float *buffer) {
    float sums[PERIOD] = {0};
    size_t begin = 0, end = size->count, wrong = 0;
    for (int r = 0; r < world; r++)
        for (size_t i = 0; i < PERIOD; i++)
            sums[i] += given(r, i);
    if (size->kind == TRAIN_BENCH_REDUCE_SCATTER) {
        begin = (size_t)rank * size->each;
        end = begin + size->each;
    }
    const float *results = size->kind == TRAIN_BENCH_SENDRECV ? buffer + size->count : buffer;
    for (size_t i = begin; i < end; i++) {
        float right = sums[i % PERIOD];
        if (size->kind == TRAIN_BENCH_ALL_GATHER)
            right = given((int)(i / size->each), i);
        else if (size->kind == TRAIN_BENCH_SENDRECV)
            right = given((rank + world - 1) % world, i);
        wrong += !(results[i] == right);
    }
    return wrong;
}

// ---- one size ----------------------------------------------------------------------------------

static int check(const struct bench_size *size, struct comm *comm, const struct bench_way *way,
                 float *numbers, double *wrong, struct err *e) {
    int rank = comm_rank(comm), world = comm_world(comm);
    bench_fill(size, rank, numbers);
    if (way->write(way->ctx, numbers, size->buffer, e) < 0 || way->move(way->ctx, size, 1, e) < 0 ||
        way->read(way->ctx, numbers, size->buffer, e) < 0)
        return -1;
    *wrong = (double)bench_wrong(size, rank, world, numbers);
    return comm_all_reduce_f64(comm, wrong, 1, COMM_SUM, e);
}

int bench_measure(const struct train_bench_options *options, size_t bytes, struct comm *comm,
                  const struct bench_way *way, float *numbers, struct bench_row *out,
                  struct err *e) {
    struct bench_size size = bench_size_of(options->kind, bytes, comm_world(comm));
    *out = (struct bench_row){.bytes = size.count * sizeof(float), .count = size.each, .wrong = -1};
    memset(numbers, 0, size.buffer * sizeof *numbers); // sums of sums stay finite
    if (way->write(way->ctx, numbers, size.buffer, e) < 0 ||
        (options->warmup && way->move(way->ctx, &size, options->warmup, e) < 0) ||
        comm_barrier(comm, e) < 0)
        return -1;
    int64_t began = clock_mono_ns();
    if (way->move(way->ctx, &size, options->iterations, e) < 0)
        return -1;
    out->us = (double)(clock_mono_ns() - began) / 1e3 / (double)options->iterations;
    if (comm_all_reduce_f64(comm, &out->us, 1, COMM_MEAN, e) < 0)
        return -1;
    out->algbw = out->us > 0 ? (double)out->bytes / out->us / 1e3 : 0;
    out->busbw = out->algbw * bench_bus_factor(options->kind, comm_world(comm));
    return options->check ? check(&size, comm, way, numbers, &out->wrong, e) : 0;
}

// ---- output ------------------------------------------------------------------------------------

struct report {
    const struct trainer_config *config;
    const struct train_bench_options *options;
    bool speaks, json;
    const char *metrics; // path; NULL: none
    int world;
    double busbw, wrong; // sums
    int rows;
};

static const char *redop(const struct report *r) {
    bool sums = r->options->kind == TRAIN_BENCH_ALL_REDUCE ||
                r->options->kind == TRAIN_BENCH_REDUCE_SCATTER;
    return sums ? "sum" : "none";
}

static void say(const struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct report *r, const char *fmt, ...) {
    struct strbuf line = {0};
    va_list args;
    va_start(args, fmt);
    strbuf_vaddf(&line, fmt, args);
    va_end(args);
    if (r->speaks && r->config->say)
        r->config->say(r->config->say_ctx, strbuf_cstr(&line));
    strbuf_fini(&line);
}

static void say_head(const struct report *r, const struct bench_way *way) {
    if (r->json)
        return;
    int nodes = r->config->comm.nodes;
    say(r, "# %s between %d rank%s on %d node%s, %s", train_bench_words[r->options->kind], r->world,
        str_plural(r->world), nodes, str_plural(nodes), way->about);
    say(r, "# %lld calls after %lld, in place; time is the mean of all ranks",
        (long long)r->options->iterations, (long long)r->options->warmup);
    say(r, "#%12s %13s %9s %7s %7s %10s %7s %7s %7s", "size", "count", "type", "redop", "root",
        "time", "algbw", "busbw", "#wrong");
    say(r, "#%12s %13s %9s %7s %7s %10s %7s %7s", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)",
        "(GB/s)");
}

static int write_row(const struct report *r, const struct bench_row *row, struct err *e) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "bench");
    json_str(&j, "kind", train_bench_words[r->options->kind]);
    json_int(&j, "ranks", r->world);
    json_int(&j, "size", (int64_t)row->bytes);
    json_int(&j, "count", (int64_t)row->count);
    json_str(&j, "type", "float");
    json_str(&j, "redop", redop(r));
    json_num(&j, "time_us", row->us);
    json_num(&j, "algbw", row->algbw);
    json_num(&j, "busbw", row->busbw);
    if (row->wrong >= 0)
        json_int(&j, "wrong", (int64_t)row->wrong);
    else
        json_null(&j, "wrong");
    json_end(&j);
    if (r->json)
        say(r, "%s", strbuf_cstr(&line));
    strbuf_add(&line, "\n", 1);
    int result = r->metrics ? file_append(r->metrics, line.data, line.len, e) : 0;
    strbuf_fini(&line);
    return result;
}

static int say_row(struct report *r, const struct bench_row *row, struct err *e) {
    char wrong[32] = "N/A";
    r->rows++;
    r->busbw += row->busbw;
    r->wrong += row->wrong > 0 ? row->wrong : 0;
    if (row->wrong >= 0)
        snprintf(wrong, sizeof wrong, "%.0f", row->wrong);
    if (!r->json)
        say(r, " %12zu %13zu %9s %7s %7d %10.2f %7.2f %7.2f %7s", row->bytes, row->count, "float",
            redop(r), -1, row->us, row->algbw, row->busbw, wrong);
    return r->speaks ? write_row(r, row, e) : 0;
}

static int say_end(const struct report *r, struct err *e) {
    if (!r->json && r->options->check)
        say(r, "# Out of bounds values : %.0f %s", r->wrong, r->wrong > 0 ? "FAILED" : "OK");
    if (!r->json)
        say(r, "# Avg bus bandwidth    : %g", r->rows ? r->busbw / r->rows : 0);
    return r->wrong > 0 ? err_set(e, ERR_FAILED,
                                  "bench %s: %.0f numbers of the results are wrong (try: "
                                  "train.collectives host, and NCCL_DEBUG=INFO)",
                                  train_bench_words[r->options->kind], r->wrong)
                        : 0;
}

// ---- all sizes ---------------------------------------------------------------------------------

static int sizes(struct report *r, struct comm *comm, struct err *e) {
    const struct train_bench_options *options = r->options;
    struct bench_way way = {0};
    struct bench_row row;
    size_t max = bench_size_of(options->kind, (size_t)options->bytes_max, r->world).buffer,
           last = 0;
    float *numbers = malloc(max * sizeof *numbers);
    if (!numbers)
        return err_set(e, ERR_LIMIT, "no memory for %zu numbers (try: a smaller --max-bytes)", max);
    int result = bench_way_open(&way, r->config, comm, options->kind, max, e);
    if (result == 0)
        say_head(r, &way);
    for (int64_t bytes = options->bytes_min; bytes <= options->bytes_max && result == 0;
         bytes *= options->factor) {
        size_t count = bench_size_of(options->kind, (size_t)bytes, r->world).count;
        if (count == last) // small sizes are rounded up to the same one
            continue;
        last = count;
        if (r->config->stop && *r->config->stop)
            result = err_set(e, ERR_INTERRUPTED, "stopped by a signal");
        if (result == 0)
            result = bench_measure(options, (size_t)bytes, comm, &way, numbers, &row, e);
        if (result == 0)
            result = say_row(r, &row, e);
    }
    if (way.close)
        way.close(way.ctx);
    free(numbers);
    return result == 0 ? say_end(r, e) : -1;
}

static int check_options(const struct train_bench_options *options, int world, struct err *e) {
    if (train_bench_check(options, e) < 0)
        return -1;
    if (options->kind == TRAIN_BENCH_SENDRECV && world < 2)
        return err_set(e, ERR_CONFIG,
                       "bench sendrecv needs two ranks or more (try: --nproc-per-node 2)");
    return 0;
}

int bench_run(const struct trainer_config *config, const struct train_bench_options *options,
              bool json, struct err *e) {
    struct comm_config settings = config->comm;
    struct report r = {.config = config, .options = options, .json = json, .world = settings.world};
    struct arena a = {0};
    struct comm *comm = NULL;
    settings.cpu = -1;
    settings.sockets = (int)config->options->comm_sockets;
    settings.stall_timeout_ms_max = (int)config->options->comm_timeout;
    r.speaks = settings.rank == 0;
    int result = check_options(options, settings.world, e);
    if (result == 0 && r.speaks && config->run) {
        r.metrics = file_join(&a, config->output_dir, "metrics.jsonl");
        result = file_make_dirs(config->output_dir, 0755, e);
    }
    if (result == 0)
        result = comm_open(&comm, NULL, &settings, e) < 0
                     ? err_wrap(e, "connecting to the other ranks")
                     : trainer_device_compare(config, comm, e);
    if (result == 0)
        result = sizes(&r, comm, e);
    if (result == 0)
        result = comm_barrier(comm, e); // the others may still be at work
    comm_close(comm);
    arena_fini(&a);
    return result;
}
