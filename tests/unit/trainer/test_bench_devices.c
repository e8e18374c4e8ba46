// SPDX-License-Identifier: Apache-2.0
// How a measurement moves numbers of devices, among three real processes: by collectives of the
// device, through the memory of the hosts, and what happens when one of them fails.
#include "tests/unit/trainer/device_fake.h"
#include "tests/unit/trainer/trainer_ranks.h"
#include "trainer/bench.h"
#include "trainer/trainer_impl.h"

enum { WORLD = 3, BYTES = 96, TIMES = 3 };

static struct comm *comm;
static struct bench_way way;
static struct trainer_config config;
static struct train_config options;

static int not_so(struct err *e, const char *what) {
    return err_set(e, ERR_FAILED, "not so: %s (calls: %.300s)", what, fake.log);
}

static int open_way(enum train_bench kind, struct err *e) {
    struct bench_size s = bench_size_of(kind, BYTES, WORLD);
    return bench_way_open(&way, &config, comm, kind, s.buffer, e);
}

static int close_way(struct err *e) {
    way.close(way.ctx);
    return fake.opened == 0 ? 0 : not_so(e, "all that was opened is closed");
}

// ---- from device to device ----------------------------------------------------------------------

static bool is_call(const struct comm_call *c, const struct bench_size *s, enum comm_kind kind) {
    bool parted = s->kind == TRAIN_BENCH_ALL_GATHER || s->kind == TRAIN_BENCH_REDUCE_SCATTER;
    return c->kind == kind && c->type == COMM_F32 && c->op == COMM_SUM && c->count == s->count &&
           c->each == (parted ? s->each : 0);
}

static int calls(enum train_bench kind, enum comm_kind want, struct err *e) {
    struct bench_size s = bench_size_of(kind, BYTES, WORLD);
    char log[256] = "";
    int rank = comm_rank(comm);
    float numbers[BYTES], back[BYTES];
    fake_begins();
    if (open_way(kind, e) < 0)
        return -1;
    if (strcmp(way.about, "from GPU to GPU by FAKE 1.0") != 0)
        return not_so(e, "it says how numbers travel");
    if (fake.bytes != s.buffer * sizeof(float) || s.buffer > BYTES)
        return not_so(e, "the memory has room for the buffer");
    for (size_t i = 0; i < s.buffer; i++)
        numbers[i] = (float)(i + 1);
    if (way.write(way.ctx, numbers, s.buffer, e) != 0 || way.move(way.ctx, &s, TIMES, e) != 0 ||
        way.read(way.ctx, back, s.buffer, e) != 0)
        return -1;
    if (memcmp(numbers, back, s.buffer * sizeof *back) != 0)
        return not_so(e, "numbers come back");
    for (int i = 0; i < TIMES; i++) {
        size_t at = strlen(log);
        snprintf(log + at, sizeof log - at, "begin 0;call %d;end 0 %d;", (int)want, i);
        if (!is_call(&fake.calls[i], &s, want) || fake.calls[i].buf != fake.calls[0].buf)
            return not_so(e, "calls are those of the kind");
    }
    size_t len = strlen(log);
    snprintf(log + len, sizeof log - len, "await 2;");
    if (strcmp(log, fake.log) != 0)
        return not_so(e, "calls have their marks, and the last one is awaited");
    const struct comm_call *r = &fake.received;
    if (kind == TRAIN_BENCH_SENDRECV &&
        (fake.calls[0].peer != (rank + 1) % WORLD || r->peer != (rank + WORLD - 1) % WORLD ||
         !is_call(r, &s, COMM_RECV) || r->buf != (float *)fake.calls[0].buf + s.count))
        return not_so(e, "the next rank gets numbers, and the last one gives some");
    if (fake.watches)
        return not_so(e, "calls that have ended are not watched");
    return close_way(e);
}

static int all_calls(struct err *e) {
    return calls(TRAIN_BENCH_ALL_REDUCE, COMM_ALL_REDUCE, e) < 0 ||
                   calls(TRAIN_BENCH_ALL_GATHER, COMM_ALL_GATHER, e) < 0 ||
                   calls(TRAIN_BENCH_REDUCE_SCATTER, COMM_REDUCE_SCATTER, e) < 0 ||
                   calls(TRAIN_BENCH_SENDRECV, COMM_SEND, e) < 0
               ? -1
               : 0;
}

// The first call takes 120 ms, the second one 80 ms more, the third one has ended by then.
static int watches(struct err *e) {
    static const struct {
        uint64_t ticket;
        int64_t waited_ms;
    } want[] = {{101, 50}, {101, 100}, {102, 30}, {102, 80}};
    enum { WATCHES = sizeof want / sizeof *want };
    struct bench_size s = bench_size_of(TRAIN_BENCH_ALL_REDUCE, BYTES, WORLD);
    fake_begins();
    if (open_way(TRAIN_BENCH_ALL_REDUCE, e) < 0)
        return -1;
    fake.end_ms[0] = 120;
    fake.end_ms[1] = 210;
    fake.end_ms[2] = 150;
    if (way.move(way.ctx, &s, TIMES, e) < 0)
        return -1;
    if (fake.watches != WATCHES)
        return not_so(e, "calls are watched every 50 ms");
    for (int i = 0; i < WATCHES; i++)
        if (fake.watched[i].ticket != want[i].ticket ||
            fake.watched[i].waited_ms != want[i].waited_ms)
            return not_so(e, "the first call that is under way is watched");
    return close_way(e);
}

// ---- failures -----------------------------------------------------------------------------------

static int moves_badly(const char *why, struct err *e) {
    struct bench_size s = bench_size_of(TRAIN_BENCH_ALL_REDUCE, BYTES, WORLD);
    struct err got = {0};
    if (way.move(way.ctx, &s, TIMES, &got) == 0 || !strstr(got.text, why))
        return not_so(e, why);
    return close_way(e);
}

static int failures(struct err *e) {
    fake_begins();
    if (open_way(TRAIN_BENCH_ALL_REDUCE, e) < 0)
        return -1;
    fake.end_ms[1] = 1000;
    fake.watch_fails = 2;
    if (moves_badly("rank 2 is lost", e) < 0)
        return -1;
    fake_begins();
    if (open_way(TRAIN_BENCH_ALL_REDUCE, e) < 0)
        return -1;
    fake.enqueue_fails = true;
    if (moves_badly("rank 2 is lost", e) < 0)
        return -1;
    if (strcmp(fake.log, "begin 0;call 0;end 0 0;") != 0)
        return not_so(e, "the queue is left after a call that failed, and no other begins");
    fake_begins();
    if (open_way(TRAIN_BENCH_ALL_REDUCE, e) < 0)
        return -1;
    float number = 0;
    struct err got = {0};
    fake.failure = "it is hot";
    if (way.write(way.ctx, &number, 1, &got) == 0 || way.read(way.ctx, &number, 1, &got) == 0)
        return not_so(e, "a failed device gives no numbers");
    return moves_badly("it is hot", e);
}

static int opens_badly(const char *why, struct err *e) {
    struct err got = {0};
    memset(&way, 1, sizeof way);
    if (open_way(TRAIN_BENCH_ALL_REDUCE, &got) == 0 || !strstr(got.text, why))
        return not_so(e, why);
    if (way.move || way.close || way.ctx)
        return not_so(e, "nothing is left of a way that does not open");
    return fake.opened == 0 ? 0 : not_so(e, "all that was opened is closed");
}

static int openings(struct err *e) {
    fake_begins();
    fake.open_fails = ENODEV;
    if (opens_badly("a fake: its kernels cannot be used: No such device", e) < 0)
        return -1;
    fake_begins();
    fake.no_memory = true;
    if (opens_badly("a fake: no memory for ", e) < 0)
        return -1;
    fake_begins();
    fake.failure = "it is cold";
    if (opens_badly("it is cold", e) < 0)
        return -1;
    fake_begins();
    fake.answer = -1;
    return opens_badly("rank 1 has no library", e);
}

// ---- through the hosts --------------------------------------------------------------------------

static int through_hosts(struct err *e) {
    struct bench_size s = bench_size_of(TRAIN_BENCH_SENDRECV, BYTES, WORLD);
    int rank = comm_rank(comm);
    float numbers[BYTES];
    fake_begins();
    fake.answer = 0;
    if (open_way(TRAIN_BENCH_SENDRECV, e) < 0)
        return -1;
    if (strcmp(way.about, "through the memory of the hosts, with the copies, by ring: rank 1 has "
                          "no library") != 0)
        return not_so(e, way.about);
    for (size_t i = 0; i < s.buffer; i++)
        numbers[i] = i < s.count ? (float)(rank * 100 + (int)i) : -1;
    if (way.write(way.ctx, numbers, s.buffer, e) < 0 || way.move(way.ctx, &s, 2, e) < 0 ||
        way.read(way.ctx, numbers, s.buffer, e) < 0)
        return -1;
    for (size_t i = 0; i < s.count; i++)
        if (numbers[s.count + i] != (float)((rank + WORLD - 1) % WORLD * 100 + (int)i))
            return not_so(e, "the last rank's numbers are in the device's memory");
    struct err got = {0};
    fake.failure = "it is hot";
    if (way.move(way.ctx, &s, 1, &got) == 0 || !strstr(got.text, "it is hot"))
        return not_so(e, "a failed device moves nothing");
    return close_way(e);
}

static int between_processors(struct err *e) {
    config.device = NULL;
    fake_begins();
    if (open_way(TRAIN_BENCH_ALL_REDUCE, e) < 0)
        return -1;
    if (strcmp(way.about, "between processors by ring") != 0)
        return not_so(e, way.about);
    return close_way(e);
}

// ---- the choice ---------------------------------------------------------------------------------

// One of the ranks computes on a processor.
static int mixes(struct err *e) {
    for (int odd = 0; odd <= WORLD; odd++) {
        struct err got = {0};
        char want[64] = "";
        config.device = comm_rank(comm) == odd ? NULL : &fake_device;
        int r = trainer_device_compare(&config, comm, &got);
        if (odd < WORLD)
            snprintf(want, sizeof want, "rank 0 computes on a %s and rank %d on a %s",
                     odd ? "GPU" : "CPU", odd ? odd : 1, odd ? "CPU" : "GPU");
        if (r != (odd < WORLD ? -1 : 0) || !strstr(got.text, want))
            return not_so(e, "a mix of processors and GPUs is refused");
    }
    return 0;
}

static int choices(struct err *e) {
    static const struct {
        int collectives;
        bool device;
        int answer, want;
        const char *why;
    } cases[] = {{TRAIN_COLLECTIVES_NCCL, false, 1, -1, "nccl is for GPUs"},
                 {TRAIN_COLLECTIVES_HOST, true, 1, 0, ""},
                 {TRAIN_COLLECTIVES_AUTO, false, 1, 0, ""},
                 {TRAIN_COLLECTIVES_AUTO, true, 1, 1, ""},
                 {TRAIN_COLLECTIVES_AUTO, true, 0, 0, "rank 1 has no library"},
                 {TRAIN_COLLECTIVES_NCCL, true, 0, -1, "train.collectives nccl: rank 1 has no"},
                 {TRAIN_COLLECTIVES_NCCL, true, -1, -1, "rank 1 has no library"},
                 {TRAIN_COLLECTIVES_NCCL, true, 1, 1, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comm_device *out;
        struct err got = {0};
        fake_begins();
        fake.answer = cases[i].answer;
        options.collectives = cases[i].collectives;
        config.device = cases[i].device ? &fake_device : NULL;
        int r = trainer_device_choose(&config, comm, &out, &got);
        if (r != cases[i].want || (out != NULL) != (r > 0) || fake.opened != (r > 0) ||
            !strstr(got.text, cases[i].why) || (!cases[i].why[0] && got.code))
            return not_so(e, got.code ? got.text : "collectives are those that are asked for");
    }
    return 0;
}

static int opens(int world, bool async, int answer, bool device, struct err *e) {
    struct trainer *t = heap_alloc(sizeof *t);
    struct comm_device *group = fake_collectives;
    fake_begins();
    fake.answer = answer;
    options.collectives = TRAIN_COLLECTIVES_AUTO;
    options.accumulate = 1;
    config.device = device ? &fake_device : NULL;
    t->config = &config;
    t->options = &options;
    t->comm = comm;
    t->world = world;
    t->mesh.pipe = t->chunks = t->micros = 1;
    t->round.steps = async ? 0 : 4;
    int r = trainer_device_open(t, e);
    bool has = answer > 0 && device && world > 1, tried = device && world > 1;
    bool right = (t->device != NULL) == has && (t->calls != NULL) == has &&
                 t->apart == (has && !async) && (t->no_device.code != 0) == (tried && answer == 0);
    if (has)
        t->calls[BESIDE_MARKS_MAX - 1].order = 1;
    else if (r == 0 && (trainer_device_split(t, &group, 0, 0, comm, e) != 0 || group))
        right = false;
    trainer_device_close(t);
    right &= !t->device && !t->calls && fake.opened == 0;
    free(t);
    if (r != (tried && answer < 0 ? -1 : 0) || !right)
        return not_so(e, "a trainer has the collectives of its devices");
    return 0;
}

static int trainers(struct err *e) {
    for (int answer = -1; answer <= 1; answer++)
        for (int k = 0; k < 8; k++)
            if (opens(k & 1 ? WORLD : 1, k & 2, answer, k & 4, e) < 0)
                return -1;
    return 0;
}

static int (*part)(struct err *e);

static int rank_part(const struct trainer_config *c, struct trainer_result *result, struct err *e) {
    (void)result;
    options = *c->options;
    config = *c;
    config.options = &options;
    config.device = &fake_device;
    if (comm_open(&comm, NULL, &c->comm, e) < 0)
        return -1;
    int r = part(e);
    if (r == 0)
        r = comm_barrier(comm, e);
    comm_close(comm);
    return r;
}

int main(void) {
    static const struct {
        const char *name;
        int (*part)(struct err *e);
    } parts[] = {{"calls", all_calls},
                 {"watches", watches},
                 {"failures", failures},
                 {"openings", openings},
                 {"through-hosts", through_hosts},
                 {"between-processors", between_processors},
                 {"mixes", mixes},
                 {"choices", choices},
                 {"trainers", trainers}};
    struct err e;
    ranks_begin();
    rank_main = rank_part;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        part = parts[i].part;
        run_all(&(struct run){.world = WORLD, .nodes = 1, .name = parts[i].name});
    }
    is_int(file_remove_tree(dir, &e), 0, "cleaned up");
    return done_testing();
}
