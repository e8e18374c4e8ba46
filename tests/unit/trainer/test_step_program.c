// SPDX-License-Identifier: Apache-2.0
// Programs of steps: those of all ranks run against each other, for shapes of up to 64 ranks; and a
// program with an item too few, too many or in the wrong place is found out.
#include "tests/tap.h"
#include "trainer/step_program.h"

enum { RANKS_MAX = 64 };

static struct step_program program[RANKS_MAX];
static struct step_spec spec[RANKS_MAX];
static bool parted, forward; // of the specs that are made

static int make(const struct mesh *l, enum pipe_order order, int micros, int chunks,
                struct err *e) {
    for (int rank = 0; rank < l->world; rank++) {
        spec[rank] = (struct step_spec){.micros = micros,
                                        .order = order,
                                        .chunks = chunks,
                                        .parted = parted,
                                        .forward = forward};
        for (int c = 0; c < chunks; c++) // stages differ
            spec[rank].buckets[c] = 1 + (mesh_pipe_rank(l, rank) + c) % 3;
        if (program_make(&program[rank], l, rank, &spec[rank], e) < 0)
            return -1;
    }
    return 0;
}

// Slots that a rank needs, where that is known.
static int slots_of(const struct mesh *l, int rank, enum pipe_order order, int micros) {
    if (forward)
        return 1;
    int behind = l->pipe - mesh_pipe_rank(l, rank);
    return order == PIPE_GPIPE ? micros : behind < micros ? behind : micros;
}

static void test_shapes(void) {
    static const int micro_counts[] = {1, 2, 3, 8, 16};
    struct err e;
    for (int order = 0; order < PIPE_ORDERS; order++) {
        int shapes = 0, bad = 0, wide = 0;
        for (int world = 1; world <= RANKS_MAX; world += world < 9 ? 1 : 11)
            for (int pipe = 1; pipe <= world && pipe <= 16; pipe++)
                for (int i = 0; i < 5 * 2 * 3; i++) {
                    struct mesh l = {world, world / pipe, pipe, i % 2};
                    int chunks = order == PIPE_INTERLEAVED ? 2 + i / 2 % 3 : 1;
                    int micros = micro_counts[i / 6] * (order == PIPE_INTERLEAVED ? pipe : 1);
                    if (world % pipe || (order != PIPE_INTERLEAVED && i / 2 % 3))
                        continue;
                    shapes++;
                    forward = i % 5 == 4;
                    parted = !forward && i % 5 == 2;
                    if (make(&l, (enum pipe_order)order, micros, chunks, &e) < 0 ||
                        program_verify(program, spec, &l, &e) < 0) {
                        diag("%d ranks, pipe %d, %d x %d: %s", world, pipe, micros, chunks, e.text);
                        bad++;
                    }
                    for (int rank = 0; rank < world; rank++)
                        wide +=
                            chunks == 1 && program[rank].slots !=
                                               slots_of(&l, rank, (enum pipe_order)order, micros);
                }
        is_int(bad, 0, "order %d: %d shapes end, complete", order, shapes);
        is_int(wide, 0, "each program has as few slots as its order needs");
    }
    forward = parted = false;
}

// The items of a sharded update, and an evaluation.
static void test_variants(void) {
    struct mesh l = {.world = 4, .data = 2, .pipe = 2};
    struct err e;
    parted = true;
    make(&l, PIPE_1F1B, 4, 1, &e);
    is_int(program_verify(program, spec, &l, &e), 0,
           "a program in which each rank updates a part passes");
    const struct step_program *p = &program[0];
    ok(p->item[p->items - 1].op == STEP_AWAIT && p->item[p->items - 2].op == STEP_GATHER,
       "the parts are collected, and waited for");
    program[0].items--;
    is_int(program_verify(program, spec, &l, &e), -1, "a missing wait for a part is found");
    program[0].items++;
    for (int rank = 0; rank < l.world; rank++)
        spec[rank].parted = false;
    is_int(program_verify(program, spec, &l, &e), -1,
           "a wait for parts that were not requested is found");
    parted = false;
    forward = true;
    make(&l, PIPE_GPIPE, 3, 1, &e);
    is_int(program_verify(program, spec, &l, &e), 0, "the program of an evaluation is right");
    is_int(program[0].items, 3 * 3, "a program with one slot passes");
    is_int(program[0].slots, 1, "an evaluation needs one slot");
    program[1].items--;
    is_int(program_verify(program, spec, &l, &e), -1, "a micro-batch that ends too early is found");
    forward = false;
}

// A step inside a round, and the end of one.
static void test_rounds(void) {
    static const enum step_op want[] = {STEP_CHANGE, STEP_CHANGE, STEP_JUDGE, STEP_OUTER,
                                        STEP_OUTER};
    struct mesh l = {.world = 3, .data = 3, .pipe = 1};
    struct mesh pipe = {.world = 2, .data = 1, .pipe = 2};
    struct err e;
    for (int rank = 0; rank < 3; rank++) {
        spec[rank] = (struct step_spec){.micros = 2, .chunks = 1, .buckets = {2}, .alone = true};
        program_make(&program[rank], &l, rank, &spec[rank], &e);
    }
    is_int(program_verify(program, spec, &l, &e), 0, "a step inside a round passes");
    int reduces = 0;
    for (int i = 0; i < program[0].items; i++)
        reduces += program[0].item[i].op == STEP_REDUCE;
    is_int(reduces, 0, "a step inside a round averages nothing");
    spec[0].alone = false;
    is_int(program_verify(program, spec, &l, &e), -1, "a missing average is found");
    for (int rank = 0; rank < 3; rank++) {
        spec[rank] = (struct step_spec){.micros = 1, .chunks = 1, .buckets = {2}, .join = true};
        program_make(&program[rank], &l, rank, &spec[rank], &e);
    }
    is_int(program_verify(program, spec, &l, &e), 0, "the end of a round passes");
    int same = 0;
    for (int i = 0; i < 5 && i < program[0].items; i++)
        same += program[0].item[i].op == want[i];
    ok(same == 5 && program[0].items == 5, "the end of a round has its items in order");
    struct step_item *item = program[1].item, first = item[0];
    item[0] = item[1];
    item[1] = first;
    is_int(program_verify(program, spec, &l, &e), -1, "changes in another order are found");
    item[1] = item[0];
    item[0] = first;
    program[1].items--;
    is_int(program_verify(program, spec, &l, &e), -1, "a change that is not applied is found");
    program[1].items++;
    item[2].op = STEP_OUTER;
    is_int(program_verify(program, spec, &l, &e), -1, "a change that is not judged is found");
    item[2].op = STEP_JUDGE;
    spec[0].alone = true;
    spec[0].join = false;
    is_int(program_make(&program[0], &pipe, 0, &spec[0], &e), -1,
           "stages of a pipeline have no rounds");
}

static void test_plain(void) {
    static const enum step_op want[] = {STEP_LOAD,     STEP_FORWARD, STEP_BACKWARD, STEP_BACKWARD,
                                        STEP_LOAD,     STEP_FORWARD, STEP_BACKWARD, STEP_REDUCE,
                                        STEP_BACKWARD, STEP_REDUCE,  STEP_NORM,     STEP_NORM,
                                        STEP_JUDGE,    STEP_UPDATE,  STEP_UPDATE};
    enum { ITEMS = sizeof want / sizeof *want };
    struct mesh l = {.world = 1, .data = 1, .pipe = 1};
    struct step_spec s = {.micros = 2, .order = PIPE_1F1B, .chunks = 1, .buckets = {2}};
    struct err e;
    is_int(program_make(&program[0], &l, 0, &s, &e), 0,
           "a program of two micro-batches and two buckets is made");
    is_int(program[0].items, ITEMS, "the program has all items");
    int same = 0;
    for (int i = 0; i < ITEMS && i < program[0].items; i++)
        same += program[0].item[i].op == want[i];
    is_int(same, ITEMS, "the items are in the expected order");
    is_int(program[0].slots, 1, "one micro-batch is kept at a time");
    const struct step_item *before = program[0].item;
    s.micros = 1;
    is_int(program_make(&program[0], &l, 0, &s, &e), 0, "a program for one micro-batch is made");
    ok(program[0].item == before && program[0].items == 11,
       "a second program uses the same memory");
}

static void test_refused(void) {
    struct mesh l = {.world = 6, .data = 2, .pipe = 3};
    struct err e;
    is_int(make(&l, PIPE_INTERLEAVED, 4, 2, &e), -1,
           "interleaved stages refuse 4 micro-batches on 3 stages");
    has_str(e.text, "multiple of 3", "need a multiple");
    is_int(make(&l, PIPE_1F1B, 4, 2, &e), -1,
           "several stages of a rank need the order 'interleaved'");
    is_int(make(&l, PIPE_1F1B, 0, 1, &e), -1, "no micro-batch is refused");
    l.data = 3;
    is_int(make(&l, PIPE_1F1B, 4, 1, &e), -1, "3 times 3 are not 6");
    has_str(e.text, "6 ranks are not 3 times 3", "the error says that 6 ranks are not 3 times 3");
}

// ---- mistakes ----

static void cut(struct step_program *p, int at) {
    memmove(&p->item[at], &p->item[at + 1], (size_t)(--p->items - at) * sizeof *p->item);
}

static void insert(struct step_program *p, int at, struct step_item item) {
    memmove(&p->item[at + 1], &p->item[at], (size_t)(p->items++ - at) * sizeof *p->item);
    p->item[at] = item;
}

static void test_mistakes(enum pipe_order order, int chunks) {
    struct mesh l = {.world = 4, .data = 2, .pipe = 2};
    struct err e;
    int missed = 0, doubled = 0, items = 0;
    make(&l, order, 4, chunks, &e);
    for (int rank = 0; rank < l.world; rank++) {
        struct step_program *p = &program[rank];
        p->item = realloc(p->item, (size_t)++p->room * sizeof *p->item);
        for (int i = 0; i < p->items; i++) {
            struct step_item item = p->item[i];
            items++;
            cut(p, i);
            missed += program_verify(program, spec, &l, &e) == 0;
            insert(p, i, item);
            insert(p, i, item);
            doubled += program_verify(program, spec, &l, &e) == 0;
            cut(p, i);
        }
    }
    is_int(missed, 0, "order %d: each of %d items is missed", (int)order, items);
    is_int(doubled, 0, "an item that is there twice is found");
    is_int(program_verify(program, spec, &l, &e), 0, "all is well otherwise");
}

static int find(const struct step_program *p, enum step_op op, int from) {
    while (p->item[from].op != op)
        from++;
    return from;
}

static void swap(struct step_program *p, int a, int b) {
    struct step_item item = p->item[a];
    p->item[a] = p->item[b];
    p->item[b] = item;
}

static void test_order(void) {
    struct mesh l = {.world = 4, .data = 2, .pipe = 2};
    struct err e;
    make(&l, PIPE_1F1B, 4, 1, &e);
    struct step_program *p = &program[mesh_rank(&l, 0, 0)];
    int send = find(p, STEP_SEND_Y, 0), receive = find(p, STEP_RECV_DY, 0);
    struct step_item item = p->item[receive];
    cut(p, receive);
    insert(p, send, item);
    is_int(program_verify(program, spec, &l, &e), -1,
           "a gradient before what it is the gradient of is found");
    has_str(e.text, "waits for ever", "the error says that a rank waits for ever");
    make(&l, PIPE_GPIPE, 4, 1, &e);
    p = &program[mesh_rank(&l, 1, 1)];
    int one = find(p, STEP_RECV_X, 0), two = find(p, STEP_RECV_X, one + 1);
    swap(p, one, two);
    is_int(program_verify(program, spec, &l, &e), -1,
           "micro-batches that are received in another order than sent are found");
    make(&l, PIPE_GPIPE, 4, 1, &e);
    for (int d = 0; d < 2; d++)
        spec[mesh_rank(&l, d, 1)].buckets[0] = 2;
    for (int d = 0; d < 2; d++) {
        int rank = mesh_rank(&l, d, 1);
        program_make(&program[rank], &l, rank, &spec[rank], &e);
    }
    is_int(program_verify(program, spec, &l, &e), 0, "two buckets of a stage are accepted");
    int reduce = find(p, STEP_REDUCE, 0);
    item = p->item[reduce];
    cut(p, reduce);
    insert(p, find(p, STEP_REDUCE, 0) + 1, item);
    is_int(program_verify(program, spec, &l, &e), -1,
           "buckets that are reduced in another order than elsewhere are found");
    has_str(e.text, "different buckets", "the error says 'different buckets'");
    make(&l, PIPE_GPIPE, 4, 1, &e);
    program[2].slots--;
    is_int(program_verify(program, spec, &l, &e), -1, "a slot too few is found");
    has_str(e.text, "no such slot", "the error says that the slot does not exist");
    make(&l, PIPE_GPIPE, 4, 1, &e);
    p = &program[0];
    for (int i = 0; i < p->items; i++)
        p->item[i].slot = 0;
    is_int(program_verify(program, spec, &l, &e), -1,
           "a program with one slot for all micro-batches is refused");
    has_str(e.text, "slot is in use", "the error says that the slot is in use");
}

int main(void) {
    test_plain();
    test_rounds();
    test_shapes();
    test_variants();
    test_refused();
    test_mistakes(PIPE_GPIPE, 1);
    test_mistakes(PIPE_1F1B, 1);
    test_mistakes(PIPE_INTERLEAVED, 2);
    test_order();
    for (int rank = 0; rank < RANKS_MAX; rank++)
        program_free(&program[rank]);
    return done_testing();
}
