// SPDX-License-Identifier: Apache-2.0
// Collectives among real processes: every topology of up to four ranks on up to four "nodes" (their
// addresses are 127.0.0.2, 127.0.0.3, …), all sizes that take different ways, agreement to the bit,
// death, departure and disagreement of a rank.
#include "comm/comm.h"
#include "comm/element.h"

#include "tests/tap.h"
#include "tests/unit/comm/comm_ranks.h"

// ---- sums --------------------------------------------------------------------------------------

enum { PERIOD = 10007 }; // a prime, so that parts of a buffer that change places are noticed

// Values with rounding errors of their own, so that a different order gives different bits.
static float value(int rank, size_t i) {
    return (float)((i * 2654435761U + (size_t)rank * 40503U) % PERIOD) / 10.0F - 300.0F;
}

// The means that a world of ranks must get.
static void means(int world, double want[PERIOD]) {
    for (size_t i = 0; i < PERIOD; i++) {
        want[i] = 0;
        for (int k = 0; k < world; k++)
            want[i] += (double)value(k, i) / world;
    }
}

static const size_t counts[] = {1,      2,      3,      7,      63,     64,    1000,
                                2047,   2048,   2049,   8191,   8193,   65536, 65537,
                                100003, 131072, 524288, 524289, 1500001};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static int sum_once(struct rank *r, size_t n, bool asynchronous, const double want[PERIOD],
                    struct err *e) {
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = value(r->rank, i);
    uint64_t ticket = 0;
    int bad = asynchronous ? comm_all_reduce_start(r->comm, x, n, COMM_MEAN, &ticket, e)
                           : comm_all_reduce(r->comm, x, n, COMM_MEAN, e);
    if (bad == 0 && asynchronous)
        bad = comm_wait(r->comm, ticket, e);
    for (size_t i = 0; i < n && bad == 0; i++)
        if (!(fabs((double)x[i] - want[i % PERIOD]) <= 1e-3))
            bad = err_set(e, ERR_FAILED, "%zu elements: [%zu] is %g, not %g", n, i, (double)x[i],
                          want[i % PERIOD]);
    shared->digest[r->rank] = digest(x, n * sizeof *x, shared->digest[r->rank]);
    free(x);
    return bad;
}

static int sums(struct rank *r, struct err *e) {
    static double want[PERIOD];
    means(r->world, want);
    for (int k = 0; k < COUNTS; k++)
        if (sum_once(r, counts[k], k % 2, want, e) < 0)
            return -1;
    return 0;
}

static int others(struct rank *r, struct err *e) {
    double d[5] = {r->rank + 1, 0.5, -1, 1e300, 1};
    if (comm_all_reduce_f64(r->comm, d, 5, COMM_SUM, e) < 0)
        return -1;
    int w = r->world;
    if (fabs(d[0] - w * (w + 1) / 2.0) > 0 || fabs(d[1] - w * 0.5) > 0 || fabs(d[4] - w) > 0)
        return err_set(e, ERR_FAILED, "double sums are %g %g %g", d[0], d[1], d[4]);
    for (int root = 0; root < w; root++) {
        size_t n = root % 2 ? 300001 : 5;
        unsigned char *b = malloc(n);
        for (size_t i = 0; i < n; i++)
            b[i] = (unsigned char)(r->rank == root ? i * 7 + (size_t)root : 0xee);
        if (comm_broadcast(r->comm, b, n, root, e) < 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            if (b[i] != (unsigned char)(i * 7 + (size_t)root))
                return err_set(e, ERR_FAILED, "broadcast from %d: byte %zu is wrong", root, i);
        free(b);
    }
    char mine[7], all[RANKS_MAX * 7];
    memset(mine, 'a' + r->rank, sizeof mine);
    if (comm_all_gather(r->comm, mine, all, sizeof mine, e) < 0)
        return -1;
    for (int i = 0; i < w * 7; i++)
        if (all[i] != 'a' + i / 7)
            return err_set(e, ERR_FAILED, "all-gather: byte %d is wrong", i);
    memset(all, 0, sizeof all);
    memcpy(all + r->rank * 7, mine, 7); // in place
    if (comm_all_gather(r->comm, all + r->rank * 7, all, 7, e) < 0)
        return -1;
    return all[7 * (w - 1)] == 'a' + w - 1 ? comm_barrier(r->comm, e)
                                           : err_set(e, ERR_FAILED, "all-gather in place");
}

// Buckets as a trainer uses them: several on their way, waited for in another order.
static int buckets(struct rank *r, struct err *e) {
    enum { N = 6, EACH = 70001 };
    float *x = malloc(N * EACH * sizeof *x);
    for (int step = 0; step < 5; step++) {
        uint64_t ticket[N];
        for (size_t i = 0; i < (size_t)N * EACH; i++)
            x[i] = value(r->rank + step, i);
        for (int b = 0; b < N; b++) {
            if (comm_all_reduce_start(r->comm, x + b * EACH, EACH, COMM_SUM, &ticket[b], e) < 0)
                return -1;
            if ((b + r->rank) % 3 == 0)
                usleep(500); // ranks are never in step
        }
        for (int b = N - 1; b >= 0; b--)
            if (comm_wait(r->comm, ticket[b], e) < 0)
                return -1;
        shared->digest[r->rank] = digest(x, N * EACH * sizeof *x, shared->digest[r->rank]);
    }
    struct comm_stats stats;
    comm_stats(r->comm, &stats);
    free(x);
    return stats.operations == 5 * N && stats.bytes == 5U * N * EACH * 4
               ? 0
               : err_set(e, ERR_FAILED, "%llu operations are counted",
                         (unsigned long long)stats.operations);
}

static void test_topologies(void) {
    static const struct topology all[] = {
        {1, {1}},       {1, {2}},          {1, {3}},    {1, {4}},    {2, {1, 1}},
        {3, {1, 1, 1}}, {4, {1, 1, 1, 1}}, {2, {2, 2}}, {2, {3, 1}}, {3, {1, 2, 1}}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const struct topology *t = &all[k];
        int world = world_of(t), sockets = k % 2 ? 3 : 1;
        char name[64];
        snprintf(name, sizeof name, "%d ranks on %d nodes", world, t->nodes);
        is_int(run(t, sockets, sums), 0, "%s: means of all sizes", name);
        ok(same_digests(world), "%s: every rank has the same bits", name);
        uint64_t first = shared->digest[0];
        if (!TAP_SANITIZED) {
            is_int(run(t, 4, sums), 0, "%s: sums are right over 4 connections", name);
            ok(shared->digest[0] == first, "%s: every run has the same bits", name);
        }
        is_int(run(t, sockets, others), 0,
               "%s: double, broadcast, all-gather and barrier are right", name);
        is_int(run(t, sockets, buckets), 0, "%s: buckets that overlap are right", name);
        ok(same_digests(world), "%s: buckets agree to the bit", name);
    }
    run(&all[1], 1, sums);
    uint64_t local = shared->digest[0];
    run(&all[4], 1, sums);
    ok(shared->digest[0] == local, "two ranks give the same bits on one node and on two");
    merge = true;
    is_int(run(&all[7], 1, sums), 0, "4 ranks on 2 nodes of one machine share memory");
    ok(same_digests(4), "ranks that share memory agree");
    uint64_t merged = shared->digest[0];
    run(&all[3], 1, sums);
    ok(shared->digest[0] == merged, "the sum equals that of 4 ranks on one node, to the bit");
    merge = false;
}

// ---- faults ------------------------------------------------------------------------------------

static int victim, long_count = 3000000;

static int dies(struct rank *r, struct err *e) {
    if (comm_barrier(r->comm, e) < 0)
        return -1;
    if (r->rank == victim) {
        usleep(100000); // the others wait already
        kill(getpid(), SIGKILL);
    }
    float *x = calloc((size_t)long_count, sizeof *x);
    int64_t start = clock_mono_ms();
    int bad = comm_all_reduce(r->comm, x, (size_t)long_count, COMM_SUM, e);
    shared->ms[r->rank] = clock_mono_ms() - start;
    free(x);
    return bad;
}

static int leaves(struct rank *r, struct err *e) {
    if (comm_barrier(r->comm, e) < 0)
        return -1;
    if (r->rank == victim) {
        usleep(50000);
        return 0; // comm_close, and the process continues for a while
    }
    float x[3] = {0};
    int bad = comm_all_reduce(r->comm, x, 3, COMM_SUM, e);
    return bad;
}

static int miscounts(struct rank *r, struct err *e) {
    float x[4000] = {0};
    return comm_all_reduce(r->comm, x, r->rank == victim ? 3000 : 4000, COMM_SUM, e);
}

static int hangs(struct rank *r, struct err *e) {
    if (r->rank == victim) {
        sleep(7); // above the stall limit of 5 s, below that of a died process
        return 0;
    }
    return comm_barrier(r->comm, e);
}

// The victim gives up between two operations; the others find out when they look.
static int gives_up(struct rank *r, struct err *e) {
    struct err why;
    err_set(&why, ERR_BUSY, "the victim gives up");
    if (comm_check(r->comm, e) < 0 || comm_barrier(r->comm, e) < 0)
        return -1;
    if (r->rank == victim)
        comm_fail(r->comm, &why);
    for (int64_t end = clock_mono_ms() + 5000; clock_mono_ms() < end; usleep(1000))
        if (comm_check(r->comm, e) < 0)
            return comm_check(r->comm, e) < 0 ? -1 : err_set(e, ERR_FAILED, "a fault is forgotten");
    return err_set(e, ERR_FAILED, "no fault is found");
}

static void test_given_up(void) {
    static const struct topology all[] = {{1, {3}}, {3, {1, 1, 1}}, {2, {2, 1}}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        victim = 1;
        is_int(run(&all[k], 1, gives_up), 3, "one of 3 ranks on %d nodes gives up", all[k].nodes);
        for (int i = 0; i < 3; i++) {
            has_str(shared->text[i], "the victim gives up", "rank %d finds the reason", i);
            is_int(shared->code[i], ERR_BUSY, "rank %d finds the code", i);
        }
    }
}

static void test_faults(void) {
    static const struct topology all[] = {{1, {2}},       {1, {4}},    {2, {1, 1}},
                                          {3, {1, 1, 1}}, {2, {2, 2}}, {2, {1, 2}}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        int world = world_of(&all[k]);
        for (victim = 0; victim<world; victim += world> 1 ? world - 1 : 1) {
            char name[64], who[32];
            snprintf(name, sizeof name, "rank %d of %d on %d nodes", victim, world, all[k].nodes);
            snprintf(who, sizeof who, "rank %d ", victim);
            is_int(run(&all[k], 2, dies), world, "%s killed: all other ranks end", name);
            for (int i = 0; i < world; i++) {
                if (i == victim)
                    continue;
                is_int(shared->code[i], ERR_NET, "%s killed: rank %d has a network error", name, i);
                has_str(shared->text[i], who, "%s killed: rank %d names it", name, i);
                ok(shared->ms[i] < 2000, "%s killed: rank %d fails after %d ms", name, i,
                   (int)shared->ms[i]);
            }
        }
        victim = world - 1;
        run(&all[k], 2, leaves);
        is_int(shared->code[0], ERR_NET, "a rank of %d on %d nodes leaves: an error", world,
               all[k].nodes);
        run(&all[k], 2, miscounts);
        ok(shared->code[0] != 0, "a rank of %d on %d nodes with another count: an error", world,
           all[k].nodes);
    }
    victim = 1;
    run(&all[0], 1, hangs);
    is_int(shared->code[0], ERR_TIMEOUT,
           "a rank that is missing locally: the time limit ends the wait");
    has_str(shared->text[0], "rank 1", "the error names the missing rank");
    run(&all[2], 1, hangs);
    is_int(shared->code[0], ERR_TIMEOUT,
           "a rank that is missing over TCP: the time limit ends the wait");
}

static void test_absent(void) {
    static const struct topology local = {1, {3}}, remote = {2, {1, 1}};
    connect_ms = 700;
    absent = 2;
    is_int(run(&local, 1, sums), 2, "a local rank is missing: all others end");
    is_int(shared->code[0], ERR_TIMEOUT, "a missing local rank is a time limit error");
    has_str(shared->text[0], "local rank 2", "the error names the missing local rank");
    absent = 0;
    is_int(run(&local, 1, sums), 2, "the first local rank is missing: all others end");
    has_str(shared->text[1], "waiting for local rank 0",
            "the error names the missing first local rank");
    absent = 1;
    is_int(run(&remote, 1, sums), 1, "a node is missing: all others end");
    has_str(shared->text[0], "waiting for node 1", "the error names the missing node");
    absent = -1;
    connect_ms = 20000;
}

// Ranks that do not agree on their places.
static void test_liars(void) {
    static const struct topology three = {2, {2, 1}};
    connect_ms = 700;
    liar = 2;
    is_int(run(&three, 1, sums), 3, "all ranks end when one says that it is another");
    for (int i = 0; i < 3; i++) {
        is_int(shared->code[i], ERR_CONFIG, "rank %d has an error of configuration", i);
        has_str(shared->text[i], "rank 1 says it is on node 2 of 2",
                "rank %d names the rank that two have said to be", i);
    }
    liar = -1;
    liar_local = 2;
    is_int(run(&three, 1, sums), 3, "all ranks end when one has no local rank");
    has_str(shared->text[2], "local rank -1 of 1 is not possible", "the error has the local rank");
    liar_local = -1;
    connect_ms = 20000;
}

static void test_strangers(void) {
    static const struct topology two = {2, {1, 1}};
    strangers = true;
    is_int(run(&two, 2, sums), 0, "foreign connections that are loud, forged or silent do no harm");
    strangers = false;
}

// ---- elements ----------------------------------------------------------------------------------

static bool same_bits(float a, float b) {
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static void test_elements(void) {
    float a[130], b[130], d[130], out[130], copy[130];
    for (int i = 0; i < 130; i++) {
        a[i] = value(1, (size_t)i);
        b[i] = value(2, (size_t)i);
        d[i] = value(3, (size_t)i);
    }
    const void *src[3] = {a, b, d};
    bool same = true;
    for (size_t n = 0; n <= 130; n++) {
        element_reduce(&element_f32, out, copy, src, 3, n, 0.5);
        for (size_t i = 0; i < n; i++) {
            float want = ((a[i] + b[i]) + d[i]) * 0.5F;
            same &= same_bits(want, out[i]) && same_bits(want, copy[i]);
        }
        element_reduce(&element_f32, out, NULL, src, 2, n, 0.25);
        for (size_t i = 0; i < n; i++) {
            float want = (a[i] + b[i]) * 0.25F;
            same &= same_bits(want, out[i]);
        }
    }
    ok(same, "sums of 2 and 3 sources at every length, to the bit");
    float mine[130];
    memcpy(mine, a, sizeof mine);
    src[0] = mine;
    element_reduce(&element_f32, out, mine, src, 3, 130, 1);
    same = true;
    for (int i = 0; i < 130; i++)
        same &= same_bits(out[i], mine[i]);
    ok(same, "the second place may be a source");
}

int main(void) {
    snprintf(store_dir, sizeof store_dir, "/tmp/dtctl-comm-test.XXXXXX");
    if (!mkdtemp(store_dir))
        bail_out("no temporary folder");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    test_elements();
    test_topologies();
    test_strangers();
    test_liars();
    test_absent();
    test_given_up();
    test_faults();
    struct err e;
    if (file_remove_tree(store_dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
