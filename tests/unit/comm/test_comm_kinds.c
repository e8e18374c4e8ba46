// SPDX-License-Identifier: Apache-2.0
// Reduce-scatter, all-gather, broadcast, send and receive of every type, and groups of ranks, among
// real processes: worlds of 1 to 8 on one to four "nodes", odd sizes, equal bits in every run, and
// what happens when a rank dies, disagrees or asks for the impossible.
#include "comm/comm.h"
#include "comm/element.h"
#include "comm/group.h"
#include "tests/tap.h"
#include "tests/unit/comm/comm_ranks.h"

enum { TYPES = 4, GUARD_BYTES = 64 };
static const size_t type_bytes[TYPES] = {
    [COMM_BYTE] = 1, [COMM_F32] = 4, [COMM_F64] = 8, [COMM_BF16] = 2};
static const char *const type_names[TYPES] = {
    [COMM_BYTE] = "byte", [COMM_F32] = "float", [COMM_F64] = "double", [COMM_BF16] = "bfloat16"};
static const size_t counts[] = {1, 2, 3, 63, 64, 65, 1000, 4097, 70001, 700001};
enum { COUNTS = sizeof counts / sizeof counts[0], SHARED_FROM = 100000 };

static const struct topology topologies[] = {
    {1, {1}},          {1, {2}},    {1, {3}},    {1, {8}},       {2, {1, 1}},      {3, {1, 1, 1}},
    {4, {1, 1, 1, 1}}, {2, {2, 2}}, {2, {1, 3}}, {3, {2, 1, 2}}, {4, {2, 3, 1, 2}}};
enum { TOPOLOGIES = sizeof topologies / sizeof topologies[0] };

// ---- values of every type ----------------------------------------------------------------------

enum { PERIOD = 10007 }; // a prime, so that parts of a buffer that change places are noticed

static double value(int rank, size_t i) {
    return (double)((i * 2654435761U + (size_t)rank * 40503U) % PERIOD) / 100.0 - 30;
}

static float from_bf16(uint16_t v) {
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void put(enum comm_type type, void *buf, size_t i, double v) {
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == COMM_BYTE)
        ((unsigned char *)buf)[i] = (unsigned char)(1U << ((unsigned)(v + 30) % 8));
    else if (type == COMM_BF16)
        ((uint16_t *)buf)[i] = (uint16_t)(bits >> 16);
    else if (type == COMM_F32)
        ((float *)buf)[i] = f;
    else
        ((double *)buf)[i] = v;
}

static double get(enum comm_type type, const void *buf, size_t i) {
    return type == COMM_BYTE   ? ((const unsigned char *)buf)[i]
           : type == COMM_BF16 ? (double)from_bf16(((const uint16_t *)buf)[i])
           : type == COMM_F32  ? (double)((const float *)buf)[i]
                               : ((const double *)buf)[i];
}

// Computed once, before any rank begins: the values of each rank, and the sum of element i over the
// first `world` ranks with the permitted rounding error.
static unsigned char values[TYPES][RANKS_MAX][PERIOD * sizeof(double)];
struct sum {
    double sum, slack;
};
static struct sum sums[TYPES][RANKS_MAX + 1][PERIOD];

static void compute_values(enum comm_type type) {
    static const double unit[TYPES] = {
        [COMM_F32] = 1e-6, [COMM_F64] = 1e-14, [COMM_BF16] = 1.0 / 64};
    for (int k = 0; k < RANKS_MAX; k++)
        for (size_t i = 0; i < PERIOD; i++) {
            put(type, values[type][k], i, value(k, i));
            double one = get(type, values[type][k], i), before = sums[type][k][i].sum;
            sums[type][k + 1][i].sum =
                type == COMM_BYTE ? (unsigned char)before | (unsigned char)one : before + one;
            sums[type][k + 1][i].slack = sums[type][k][i].slack + unit[type] * fabs(one);
        }
}

static void *new_buffer(struct rank *r, enum comm_type type, size_t count) {
    size_t bytes = count * type_bytes[type], period = PERIOD * type_bytes[type];
    unsigned char *p = malloc(bytes + GUARD_BYTES);
    for (size_t at = 0; at < bytes; at += period)
        memcpy(p + at, values[type][r->rank], bytes - at < period ? bytes - at : period);
    memset(p + bytes, 0x5a, GUARD_BYTES);
    return p;
}

static bool guard_whole(const void *buf, enum comm_type type, size_t count) {
    unsigned char guard[GUARD_BYTES];
    memset(guard, 0x5a, GUARD_BYTES);
    return memcmp((const char *)buf + count * type_bytes[type], guard, GUARD_BYTES) == 0;
}

// Blocking for even counts, by ticket for odd ones.
static int call(struct rank *r, const struct comm_call *c, struct err *e) {
    uint64_t ticket;
    if (c->count % 2 == 0)
        return comm_do(r->comm, c, e);
    return comm_start(r->comm, c, &ticket, e) < 0 ? -1 : comm_wait(r->comm, ticket, e);
}

// ---- reduce-scatter and all-gather -------------------------------------------------------------

static int look_at(const char *what, enum comm_type type, const void *buf, size_t count, size_t i,
                   const struct sum *want, struct err *e) {
    double is = get(type, buf, i);
    if (fabs(is - want->sum) <= want->slack)
        return 0;
    return err_set(e, ERR_FAILED, "%s of %zu %s: [%zu] is %g, not %g", what, count,
                   type_names[type], i, is, want->sum);
}

static int scatter_gather(struct rank *r, enum comm_type type, size_t count, size_t each,
                          struct err *e) {
    void *x = new_buffer(r, type, count), *all = new_buffer(r, type, count);
    struct comm_call c = {
        .kind = COMM_REDUCE_SCATTER, .type = type, .buf = x, .count = count, .each = each};
    size_t part = each ? each : comm_each(r->comm, count), bytes = type_bytes[type];
    const struct sum *want = sums[type][r->world];
    size_t begin = (size_t)r->rank * part, end = begin + part;
    begin = begin < count ? begin : count;
    end = end < count ? end : count;
    int bad = call(r, &c, e);
    for (size_t i = begin; i < end && bad == 0; i++)
        bad = look_at("reduce-scatter", type, x, count, i, &want[i % PERIOD], e);
    // Of the other parts nothing may be left by the gather.
    memset(x, 0xee, begin * bytes);
    memset((char *)x + end * bytes, 0xee, (count - end) * bytes);
    c.kind = COMM_ALL_GATHER;
    if (bad == 0)
        bad = call(r, &c, e);
    struct comm_call whole = {.kind = COMM_ALL_REDUCE, .type = type, .buf = all, .count = count};
    if (bad == 0)
        bad = call(r, &whole, e);
    bool same = memcmp(x, all, count * bytes) == 0;
    // Of many elements each rank looks at some: the digests of all ranks are compared.
    size_t step = count > SHARED_FROM ? (size_t)r->world : 1;
    for (size_t i = step > 1 ? (size_t)r->rank : 0; i < count && bad == 0; i += step)
        bad = look_at("all-gather", type, x, count, i, &want[i % PERIOD], e);
    for (size_t i = 0; i < count && bad == 0 && !same; i++)
        bad = look_at("all-reduce", type, all, count, i, &want[i % PERIOD], e);
    if (bad == 0 && !(guard_whole(x, type, count) && guard_whole(all, type, count)))
        bad = err_set(e, ERR_FAILED, "%zu %s: written beyond the end", count, type_names[type]);
    shared->digest[r->rank] = digest(x, count * bytes, shared->digest[r->rank]);
    if (!same)
        shared->ms[r->rank]++; // how often the halves give other bits than the whole
    free(x);
    free(all);
    return bad;
}

static int all_parts(struct rank *r, struct err *e) {
    for (int k = 0; k < COUNTS; k++) {
        enum comm_type type = (enum comm_type)((k + 1) % TYPES);
        size_t least = (counts[k] + (size_t)r->world - 1) / (size_t)r->world;
        if (scatter_gather(r, type, counts[k], 0, e) < 0 ||
            scatter_gather(r, COMM_F32, counts[k], least, e) < 0 ||
            scatter_gather(r, type, counts[k], least + 5, e) < 0)
            return -1;
        usleep((useconds_t)(clock_mono_ns() % 700)); // never in step, never the same
    }
    return 0;
}

// ---- broadcast ---------------------------------------------------------------------------------

static int broadcasts(struct rank *r, struct err *e) {
    for (int root = 0; root < r->world; root++)
        for (int k = root % 2; k < COUNTS; k += 2) {
            enum comm_type type = (enum comm_type)(k % TYPES);
            size_t bytes = counts[k] * type_bytes[type];
            void *x = new_buffer(r, type, counts[k]);
            struct rank as_root = {.rank = root};
            void *want = new_buffer(&as_root, type, counts[k]);
            const struct comm_call c = {
                .kind = COMM_BROADCAST, .type = type, .buf = x, .count = counts[k], .peer = root};
            int bad = call(r, &c, e);
            if (bad == 0 && memcmp(x, want, bytes + GUARD_BYTES) != 0)
                bad = err_set(e, ERR_FAILED, "broadcast of %zu %s from %d differs", counts[k],
                              type_names[type], root);
            free(x);
            free(want);
            if (bad)
                return -1;
        }
    return comm_barrier(r->comm, e);
}

static void test_kinds(void) {
    for (int k = 0; k < TOPOLOGIES; k++) {
        const struct topology *t = &topologies[k];
        int world = world_of(t);
        char name[64];
        snprintf(name, sizeof name, "%d ranks on %d nodes", world, t->nodes);
        is_int(run(t, k % 3 + 1, all_parts), 0, "%s: reduce-scatter and all-gather are right",
               name);
        ok(same_digests(world), "%s: every rank has the same bits", name);
        if (t->nodes <= 2)
            is_int(shared->ms[0], 0, "%s: the halves give the bits of all-reduce", name);
        uint64_t first = shared->digest[0];
        if (!TAP_SANITIZED) {
            is_int(run(t, 4, all_parts), 0, "%s: both are right over 4 connections", name);
            ok(shared->digest[0] == first, "%s: every run has the same bits", name);
        }
        is_int(run(t, 2, broadcasts), 0, "%s: broadcasts from everyone", name);
    }
}

// ---- groups ------------------------------------------------------------------------------------

// Sums 1, 2, 4, … over a group: the set of ranks that are in it.
static int set_of(struct comm *group, int rank, unsigned *set, struct err *e) {
    float x[70000];
    for (int i = 0; i < 70000; i++)
        x[i] = (float)(1U << rank);
    if (comm_all_reduce(group, x, 70000, COMM_SUM, e) < 0)
        return -1;
    *set = (unsigned)x[69999];
    return x[0] == x[69999] ? 0 : err_set(e, ERR_FAILED, "a sum differs inside a group");
}

// Even and odd ranks, in reverse order; within them, halves; and one rank that is in no group.
static int groups(struct rank *r, struct err *e) {
    struct comm *half, *quarter, *none;
    unsigned set, want = 0;
    int members = 0, below = 0;
    for (int i = r->rank % 2; i < r->world; i += 2) {
        want |= 1U << i;
        members++;
        below += i > r->rank; // reversed
    }
    if (comm_split(&half, r->comm, r->rank % 2, -r->rank, e) < 0)
        return -1;
    if (comm_world(half) != members || comm_rank(half) != below)
        return err_set(e, ERR_FAILED, "rank %d of %d, not %d of %d", comm_rank(half),
                       comm_world(half), below, members);
    if (set_of(half, r->rank, &set, e) < 0)
        return -1;
    if (set != want)
        return err_set(e, ERR_FAILED, "the group is %x, not %x", set, want);
    struct rank in_half = {.rank = comm_rank(half), .world = members, .comm = half};
    if (scatter_gather(&in_half, COMM_F32, 30011, 0, e) < 0 || broadcasts(&in_half, e) < 0)
        return -1;
    if (comm_split(&quarter, half, comm_rank(half) / 2, 0, e) < 0 ||
        set_of(quarter, r->rank, &set, e) < 0)
        return -1;
    if (comm_world(quarter) > 2 || !(set & 1U << r->rank) || (set & ~want))
        return err_set(e, ERR_FAILED, "the group of the group is %x", set);
    if (comm_split(&none, r->comm, r->rank == 0 ? -1 : 7, 0, e) < 0)
        return -1;
    if ((none == NULL) != (r->rank == 0))
        return err_set(e, ERR_FAILED, "a negative color");
    comm_close(half);
    int bad = comm_barrier(r->comm, e); // the parent outlives its groups
    if (bad == 0 && none)
        bad = comm_barrier(none, e);
    comm_close(none);
    comm_close(quarter);
    return bad;
}

// Neighbours send along a chain while all ranks reduce: a wait in one group blocks no other group.
// Rank 0 starts the operation that the others wait for last.
static int links(struct rank *r, struct err *e) {
    enum { N = 200003 };
    struct comm *link[2]; // to the left, to the right
    for (int parity = 0; parity < 2; parity++) {
        int low = (r->rank + parity) % 2 == 0 ? r->rank : r->rank - 1; // the pair's lower rank
        bool pair = low >= 0 && low + 1 < r->world;
        struct comm **at = &link[r->rank == low];
        *at = NULL;
        if (comm_split(at, r->comm, pair ? low : -1, r->rank, e) < 0)
            return -1;
    }
    float *x = calloc(N, sizeof *x), *sum = calloc(N, sizeof *sum);
    uint64_t came = 0, went = 0;
    struct comm_call c = {.type = COMM_F32, .buf = x, .count = N};
    c.kind = COMM_RECV, c.peer = 0;
    int bad = link[0] ? comm_start(link[0], &c, &came, e) : 0;
    for (int i = 0; i < 3 && bad == 0; i++) {
        sum[0] = (float)r->rank;
        bad = comm_all_reduce(r->comm, sum, N, COMM_SUM, e);
    }
    if (bad == 0 && link[0])
        bad = comm_wait(link[0], came, e);
    for (int i = 0; i < N; i++)
        x[i] += (float)(r->rank + i % 3);
    c.kind = COMM_SEND, c.peer = 1;
    if (bad == 0 && link[1])
        bad = comm_start(link[1], &c, &went, e) < 0 ? -1 : comm_wait(link[1], went, e);
    int ranks = r->rank + 1, below = r->rank * ranks / 2;
    for (int i = 0; i < N && bad == 0; i++) {
        float want = (float)(below + ranks * (i % 3));
        if (fabsf(x[i] - want) > 0)
            bad = err_set(e, ERR_FAILED, "[%d] is %g, not %g", i, (double)x[i], (double)want);
    }
    if (bad == 0)
        bad = comm_barrier(r->comm, e);
    free(x), free(sum);
    comm_close(link[0]), comm_close(link[1]);
    return bad;
}

static void test_groups(void) {
    for (int k = 0; k < TOPOLOGIES; k++) {
        const struct topology *t = &topologies[k];
        char name[64];
        snprintf(name, sizeof name, "%d ranks on %d nodes", world_of(t), t->nodes);
        is_int(run(t, 2, groups), 0, "%s: groups, and groups of groups, are right", name);
        if (world_of(t) > 1)
            is_int(run(t, 1, links), 0, "%s: links beside sums", name);
    }
    // Where members sit: nodes without one do not count.
    struct group_member m[] = {{3, 0, 0, 0}, {1, 5, 1, 0}, {3, -1, 2, 4},
                               {3, 0, 3, 4}, {1, 2, 4, 2}, {3, 0, 4, 1}};
    struct comm_config c = {0};
    const struct group_member *first = group_place(&c, m, 6, 3, 3);
    ok(first[0].rank == 2 && first[1].rank == 0 && first[2].rank == 3 && first[3].rank == 4,
       "a group is ordered by key, then by rank");
    ok(c.rank == 2 && c.world == 4 && c.node == 2 && c.nodes == 3 && c.local_rank == 1 &&
           c.local_world == 2,
       "a group counts its nodes: rank %d of %d, node %d of %d, local rank %d of %d", c.rank,
       c.world, c.node, c.nodes, c.local_rank, c.local_world);
}

// ---- faults ------------------------------------------------------------------------------------

static int victim;
static enum comm_kind fatal;

// Everyone is in the middle of an operation that never gets the victim's part.
static int dies(struct rank *r, struct err *e) {
    enum { N = 3000000 };
    struct comm *pair = NULL;
    if (comm_split(&pair, r->comm, r->rank < 2 ? 0 : -1, 0, e) < 0)
        return -1;
    bool linked = fatal == COMM_SEND;
    if (linked && r->rank >= 2)
        return 0;
    if (r->rank == victim) {
        usleep(100000);
        kill(getpid(), SIGKILL);
    }
    float *x = calloc(N, sizeof *x);
    struct comm_call c = {.kind = fatal, .type = COMM_F32, .buf = x, .count = N, .peer = victim};
    if (linked)
        c.kind = COMM_RECV;
    int bad = comm_do(linked ? pair : r->comm, &c, e);
    free(x);
    return bad;
}

static int other_kind(struct rank *r, struct err *e) {
    float x[600] = {0};
    const struct comm_call c = {.kind = r->rank == victim ? COMM_ALL_GATHER : fatal,
                                .type = COMM_F32,
                                .buf = x,
                                .count = 600};
    return comm_do(r->comm, &c, e);
}

// The same bytes, another number of elements.
static int other_count(struct rank *r, struct err *e) {
    float x[700] = {0};
    const struct comm_call c = {
        .kind = COMM_BROADCAST, .type = COMM_F32, .buf = x, .count = r->rank == victim ? 700 : 600};
    return comm_do(r->comm, &c, e) < 0 ? -1 : comm_barrier(r->comm, e);
}

static int impossible(struct rank *r, struct err *e) {
    float x[64] = {0};
    const struct comm_call calls[] = {
        {.kind = COMM_BROADCAST, .type = COMM_F32, .buf = x, .count = 64, .peer = r->world},
        {.kind = COMM_SEND, .type = COMM_F32, .buf = x, .count = 64, .peer = 1},
        {.kind = COMM_RECV, .type = COMM_F32, .buf = x, .count = 64, .peer = -1},
        {.kind = COMM_ALL_GATHER, .type = COMM_F32, .buf = x, .count = 64, .each = 2}};
    static const char *const words[] = {"broadcast from rank 3 of 3", "group of two",
                                        "receive from rank -1 of 3", "parts of 2"};
    uint64_t ticket;
    for (int i = 0; i < 4; i++)
        if (comm_start(r->comm, &calls[i], &ticket, e) == 0 || e->code != ERR_CONFIG ||
            !strstr(e->text, words[i]))
            return err_set(e, ERR_FAILED, "call %d is not refused", i);
    err_clear(e);
    return comm_barrier(r->comm, e); // and harms nothing
}

static void test_faults(void) {
    static const struct topology all[] = {{1, {3}}, {3, {1, 1, 1}}, {2, {2, 1}}};
    static const struct {
        enum comm_kind kind;
        const char *name;
    } kinds[] = {{COMM_REDUCE_SCATTER, "reduce-scatter"},
                 {COMM_ALL_GATHER, "all-gather"},
                 {COMM_BROADCAST, "broadcast"},
                 {COMM_SEND, "receive"}};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 4; i++) {
            fatal = kinds[i].kind;
            victim = 1;
            run(&all[k], 2, dies);
            is_int(shared->code[0], ERR_NET,
                   "%s on %d nodes fails with a network error when rank 1 is killed", kinds[i].name,
                   all[k].nodes);
            has_str(shared->text[0], "rank 1 (", "the error names the rank that died");
            has_str(shared->text[0], "rank 0, ", "the error names the rank that reports");
            has_str(shared->text[0], kinds[i].name, "the error names the operation");
        }
        victim = 2;
        fatal = COMM_REDUCE_SCATTER;
        run(&all[k], 2, other_kind);
        ok(shared->code[0] != 0, "ranks that call different operations on %d nodes get an error",
           all[k].nodes);
        run(&all[k], 2, other_count);
        ok(shared->code[0] != 0 && shared->code[2] != 0,
           "a broadcast of another count on %d nodes: an error", all[k].nodes);
        is_int(run(&all[k], 2, impossible), 0, "impossible calls on %d nodes are refused",
               all[k].nodes);
    }
}

// Values in the store are not trusted either.
static int opens(struct rank *r, struct err *e) {
    (void)r, (void)e;
    return 0;
}

static void test_forged(void) {
    static const struct topology two = {2, {1, 1}};
    static const char *const texts[] = {"",
                                        "1",
                                        "-1 4000 127.0.0.3",
                                        "65536 4000 127.0.0.3",
                                        "1 0 127.0.0.3",
                                        "1 65536 127.0.0.3",
                                        "1 99999999999999 x"};
    connect_ms = 700;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        forged = texts[i];
        is_int(run(&two, 1, opens), 2, "a node at '%s' is nowhere", texts[i]);
        is_int(shared->code[0], ERR_FORMAT, "a malformed address is a format error");
    }
    forged = NULL;
    connect_ms = 20000;
}

// ---- elements ----------------------------------------------------------------------------------

static void test_bf16(void) {
    // 1 + 1/256 is halfway between 1 and 1 + 1/128 and rounds to even; anything above rounds up.
    static const struct {
        float sum;
        uint16_t want;
    } cases[] = {{1.0F, 0x3f80},          {1.00390625F, 0x3f80},    {1.01171875F, 0x3f82},
                 {1.0039063692F, 0x3f81}, {-1.0039063692F, 0xbf81}, {3.4e38F, 0x7f80},
                 {INFINITY, 0x7f80},      {-INFINITY, 0xff80},      {0.0F, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint16_t got;
        element_bf16.narrow(&got, &cases[i].sum, 1);
        is_int(got, cases[i].want, "%g is rounded to bfloat16", (double)cases[i].sum);
    }
    float nan = NAN, back;
    uint32_t quiet = 0x7f800001; // whose upper half alone would be infinite
    uint16_t half;
    memcpy(&nan, &quiet, sizeof nan);
    element_bf16.narrow(&half, &nan, 1);
    element_bf16.widen(&back, &half, 1);
    ok(isnan(back), "a NaN stays one");
    // 256 ones: rounded after each addition the sum would stop at 256 only by luck; halves do stop.
    enum { SOURCES = 200, N = 3001 };
    static uint16_t one[N], out[N];
    const void *src[SOURCES];
    for (int i = 0; i < N; i++)
        one[i] = 0x3f81; // 1 + 1/128
    for (int i = 0; i < SOURCES; i++)
        src[i] = one;
    element_reduce(&element_bf16, out, NULL, src, SOURCES, N, 1);
    ok(fabsf(from_bf16(out[0]) - 201.5625F) <= 0.5F && memcmp(out, out + 1, 2 * (N - 1)) == 0,
       "sums of bfloat16 grow in float: %g", (double)from_bf16(out[0]));
}

int main(void) {
    snprintf(store_dir, sizeof store_dir, "/tmp/dtctl-comm-test.XXXXXX");
    if (!mkdtemp(store_dir))
        bail_out("no temporary folder");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int type = 0; type < TYPES; type++)
        compute_values((enum comm_type)type);
    test_bf16();
    test_kinds();
    test_groups();
    test_faults();
    test_forged();
    struct err e;
    if (file_remove_tree(store_dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
