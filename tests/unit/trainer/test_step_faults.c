// SPDX-License-Identifier: Apache-2.0
// Mistakes in programs of steps: each is found at its rank and item, and the error says what it is.
#include "tests/tap.h"
#include "trainer/step_program.h"

enum { RANKS = 3, MICROS = 2, NONE = -1 };

static struct step_program program[RANKS];
static struct step_spec spec[RANKS];
static struct mesh mesh;

// The programs of three stages, of two ranks side by side, of rounds.
enum kind { PIPELINE, SHARED, PARTED, ALONE, JOIN };

static void made(enum kind kind) {
    static const struct mesh of[] = {{3, 1, 3, false}, {2, 2, 1, false}};
    struct err e;
    mesh = of[kind != PIPELINE];
    for (int rank = 0; rank < mesh.world; rank++) {
        spec[rank] = (struct step_spec){.micros = MICROS,
                                        .order = PIPE_GPIPE,
                                        .chunks = 1,
                                        .buckets = {2},
                                        .parted = kind == PARTED,
                                        .alone = kind == ALONE,
                                        .join = kind == JOIN};
        if (program_make(&program[rank], &mesh, rank, &spec[rank], &e) < 0)
            bail_out("%s", e.text);
    }
}

static int nth(const struct step_program *p, enum step_op op, int n) {
    for (int i = 0; i < p->items; i++)
        if (p->item[i].op == op && n-- == 0)
            return i;
    bail_out("no %s", step_op_name(op));
}

// Moves an item to another place; those between make room.
static void moved(struct step_program *p, int from, int to) {
    struct step_item item = p->item[from];
    for (; from < to; from++)
        p->item[from] = p->item[from + 1];
    for (; from > to; from--)
        p->item[from] = p->item[from - 1];
    p->item[to] = item;
}

// ---- a wrong number in an item -----------------------------------------------------------------

enum field { CHUNK, MICRO, SLOT, BUCKET, PEER, OP };

static const struct {
    enum kind kind;
    int rank;
    enum step_op op;
    int n; // which of them
    enum field field;
    int value;
    const char *error;
} numbers[] = {
    {PIPELINE, 0, STEP_LOAD, 0, CHUNK, 1, "out of range"},
    {PIPELINE, 0, STEP_LOAD, 1, MICRO, MICROS, "out of range"},
    {PIPELINE, 0, STEP_SEND_Y, 0, PEER, 3, "out of range"},
    {PIPELINE, 1, STEP_RECV_X, 0, PEER, 3, "out of range"},
    {PIPELINE, 1, STEP_RECV_X, 0, PEER, -1, "something else arrives"},
    {PIPELINE, 1, STEP_RECV_X, 0, MICRO, 1, "something else arrives"},
    {PIPELINE, 1, STEP_RECV_DY, 0, MICRO, 1, "something else arrives"},
    {PIPELINE, 0, STEP_SEND_Y, 0, PEER, -1, "to nobody"},
    {PIPELINE, 2, STEP_SEND_DX, 0, PEER, -1, "to nobody"},
    {PIPELINE, 0, STEP_LOAD, 0, SLOT, MICROS, "there is no such slot"},
    {PIPELINE, 1, STEP_FORWARD, 1, SLOT, 0, "the slot is in use"},
    {PIPELINE, 1, STEP_BACKWARD, 0, SLOT, 1, "its activations are not in that slot"},
    {PIPELINE, 1, STEP_BACKWARD, 0, SLOT, MICROS, "its activations are not in that slot"},
    {PIPELINE, 1, STEP_BACKWARD, 0, BUCKET, 1, "the bucket is not the next one"},
    {PIPELINE, 1, STEP_BACKWARD, 1, BUCKET, 2, "the bucket is not the next one"},
    {SHARED, 0, STEP_REDUCE, 0, BUCKET, 2, "there is no such bucket"},
    {SHARED, 1, STEP_NORM, 0, BUCKET, 2, "there is no such bucket"},
    {SHARED, 1, STEP_UPDATE, 1, BUCKET, 2, "there is no such bucket"},
    {SHARED, 1, STEP_JUDGE, 0, OP, STEP_OPS, "no such item"},
    {SHARED, 1, STEP_JUDGE, 0, OP, STEP_CHANGE, "it is of no round, or there is no such bucket"},
    {JOIN, 1, STEP_CHANGE, 1, BUCKET, 2, "it is of no round, or there is no such bucket"},
    {JOIN, 1, STEP_OUTER, 1, BUCKET, 2, "it is of no round, or there is no such bucket"},
    {JOIN, 1, STEP_CHANGE, 1, BUCKET, 0, "the change is not judged yet, on its way already, or "},
    {ALONE, 0, STEP_NORM, 0, OP, STEP_REDUCE, "inside a round no gradients are averaged"},
    {SHARED, 0, STEP_UPDATE, 0, OP, STEP_GATHER, "its parameters are not updated, or not in parts"},
    {PARTED, 0, STEP_AWAIT, 1, BUCKET, 0, "it is not on its way"},
};

static void set(struct step_item *it, enum field field, int value) {
    switch (field) {
    case CHUNK: it->chunk = (uint8_t)value; break;
    case MICRO: it->micro = (uint16_t)value; break;
    case SLOT: it->slot = (uint16_t)value; break;
    case BUCKET: it->bucket = (uint16_t)value; break;
    case PEER: it->peer = (int16_t)value; break;
    case OP: it->op = (uint8_t)value; break;
    }
}

static void found(int rank, int at, const char *error, const char *about, size_t k) {
    struct err e;
    char place[40];
    err_clear(&e);
    is_int(program_verify(program, spec, &mesh, &e), -1, "%s %zu is found", about, k);
    snprintf(place, sizeof place, "rank %d, item %d (", rank, at);
    if (at >= 0)
        ok(strncmp(e.text, place, strlen(place)) == 0, "%s %zu is found at rank %d, item %d: %s",
           about, k, rank, at, e.text);
    has_str(e.text, error, "%s %zu has its error", about, k);
    is_int(e.code, ERR_FAILED, "%s %zu has its code", about, k);
}

static void test_numbers(void) {
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        made(numbers[k].kind);
        struct step_program *p = &program[numbers[k].rank];
        int at = nth(p, numbers[k].op, numbers[k].n);
        set(&p->item[at], numbers[k].field, numbers[k].value);
        found(numbers[k].rank, at, numbers[k].error, "wrong number", k);
    }
}

// ---- an item in a wrong place ------------------------------------------------------------------

static const struct {
    enum kind kind;
    int rank;
    enum step_op op;
    int n;
    enum step_op before; // the item's new place
    int before_n;
    int at; // where it is found, beside the new place; NONE: at some other item
    const char *error;
} places[] = {
    {PIPELINE, 0, STEP_FORWARD, 0, STEP_LOAD, 0, 0, "its input is not there"},
    {PIPELINE, 1, STEP_FORWARD, 0, STEP_RECV_X, 0, 0, "its input is not there"},
    {PIPELINE, 1, STEP_SEND_Y, 0, STEP_FORWARD, 0, 0, "nothing is to be sent here"},
    {PIPELINE, 1, STEP_SEND_DX, 0, STEP_BACKWARD, 1, 0, "nothing is to be sent here"},
    {PIPELINE, 1, STEP_BACKWARD, 0, STEP_RECV_DY, 0, 0, "the gradient of its output is not there"},
    {PIPELINE, 2, STEP_BACKWARD, 0, STEP_FORWARD, 0, 0, "the gradient of its output is not there"},
    {SHARED, 1, STEP_BACKWARD, 1, STEP_BACKWARD, 0, 0, "the bucket is not the next one"},
    {SHARED, 1, STEP_REDUCE, 0, STEP_BACKWARD, 2, 0, "the gradients are not complete, or on"},
    {SHARED, 1, STEP_NORM, 0, STEP_REDUCE, 0, 0, "it is not on its way"},
    {SHARED, 0, STEP_JUDGE, 0, STEP_NORM, 1, 0, "not all gradients are known"},
    {SHARED, 0, STEP_UPDATE, 0, STEP_JUDGE, 0, 0, "the step is not judged yet, or applied already"},
    {SHARED, 0, STEP_REDUCE, 1, STEP_REDUCE, 0, NONE, "the gradients are not complete"},
    {PARTED, 0, STEP_GATHER, 0, STEP_UPDATE, 0, 0, "its parameters are not updated, or not in"},
    {PARTED, 0, STEP_AWAIT, 0, STEP_GATHER, 0, 0, "it is not on its way"},
    {PARTED, 0, STEP_AWAIT, 0, STEP_UPDATE, 0, 0, "it is not on its way"},
    {ALONE, 0, STEP_NORM, 0, STEP_BACKWARD, 2, 0, "the gradients are not complete"},
    {ALONE, 0, STEP_UPDATE, 0, STEP_NORM, 0, 0, "the step is not judged yet, or applied already"},
    {JOIN, 0, STEP_OUTER, 0, STEP_JUDGE, 0, 0, "the change is not judged yet"},
    {JOIN, 0, STEP_JUDGE, 0, STEP_CHANGE, 1, 0, "not all gradients are known"},
};

static void test_places(void) {
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        made(places[k].kind);
        struct step_program *p = &program[places[k].rank];
        int to = nth(p, places[k].before, places[k].before_n);
        moved(p, nth(p, places[k].op, places[k].n), to);
        found(places[k].rank, places[k].at == NONE ? NONE : to + places[k].at, places[k].error,
              "wrong place", k);
    }
}

// ---- an item twice, and items that are missing -------------------------------------------------

static void repeated(enum kind kind, int rank, enum step_op op, int after, const char *error,
                     size_t k) {
    made(kind);
    struct step_program *p = &program[rank];
    int at = nth(p, op, 0);
    p->item = realloc(p->item, (size_t)(p->items + 1) * sizeof *p->item);
    p->item[p->items++] = p->item[at];
    p->room = (size_t)p->items;
    moved(p, p->items - 1, at + after);
    found(rank, at + after, error, "repeated item", k);
}

static void test_repeated(void) {
    repeated(PIPELINE, 0, STEP_LOAD, 1, "not to be loaded here", 0);
    repeated(PIPELINE, 1, STEP_FORWARD, 1, "its input is not there", 1);
    repeated(PIPELINE, 1, STEP_SEND_Y, 1, "nothing is to be sent here", 2);
    repeated(PIPELINE, 1, STEP_SEND_DX, 1, "nothing is to be sent here", 3);
    repeated(SHARED, 1, STEP_REDUCE, 1, "the gradients are not complete, or on their way", 4);
    repeated(SHARED, 1, STEP_NORM, 1, "it is not on its way", 5);
    repeated(SHARED, 1, STEP_JUDGE, 1, "not all gradients are known", 6);
    repeated(SHARED, 1, STEP_UPDATE, 1, "the step is not judged yet, or applied already", 7);
    repeated(PARTED, 1, STEP_AWAIT, 1, "it is not on its way", 8);
    repeated(JOIN, 1, STEP_OUTER, 1, "the change is not judged yet", 9);
    // Batches are not loaded by a stage in the middle, nor after the step is judged.
    made(PIPELINE);
    struct step_program *p = &program[1];
    p->item[nth(p, STEP_RECV_X, 0)].op = STEP_LOAD;
    found(1, 0, "not to be loaded here", "batch", 0);
    made(SHARED);
    p = &program[0];
    p->item[nth(p, STEP_UPDATE, 0)].op = STEP_LOAD;
    found(0, nth(p, STEP_LOAD, 2), "not to be loaded here", "batch", 1);
    made(SHARED);
    p = &program[0];
    p->item[nth(p, STEP_UPDATE, 0)].op = STEP_RECV_X;
    p->item[nth(p, STEP_RECV_X, 0)].peer = 1;
    found(0, nth(p, STEP_RECV_X, 0), "waits for ever", "input", 0);
}

// A missing item is found where a program ends, or where others wait for it.
static void test_missing(void) {
    made(SHARED);
    program[1].items -= 1;
    found(1, program[1].items, "ends without every update", "missing update", 0);
    made(PARTED);
    program[1].items -= 1;
    found(1, program[1].items, "ends without every update", "missing part", 0);
    made(SHARED);
    program[0].items = nth(&program[0], STEP_BACKWARD, 3);
    found(1, nth(&program[1], STEP_NORM, 1), "waits for ever", "missing gradient", 0);
    made(PIPELINE);
    program[0].items = nth(&program[0], STEP_SEND_Y, 1);
    found(1, nth(&program[1], STEP_RECV_X, 1), "waits for ever", "missing input", 0);
    made(JOIN);
    program[0].items = nth(&program[0], STEP_CHANGE, 1);
    found(1, nth(&program[1], STEP_OUTER, 1), "waits for ever", "missing change", 0);
    made(SHARED);
    for (int rank = 0; rank < 2; rank++)
        program[rank].items = 0;
    struct err e;
    program[0].items = 1;
    is_int(program_verify(program, spec, &mesh, &e), -1, "programs of one item are found");
    has_str(e.text, "rank 0, item 1 (load of micro-batch 0, chunk 0, bucket 0): ends without every",
            "the error has all of the last item");
}

// The ranks of one stage average the same buckets in the same order.
static void test_agreement(void) {
    made(SHARED);
    struct step_program *p = &program[1];
    p->item[nth(p, STEP_REDUCE, 0)].bucket = 1;
    p->item[nth(p, STEP_REDUCE, 1)].bucket = 0;
    moved(p, nth(p, STEP_REDUCE, 0), nth(p, STEP_BACKWARD, 3));
    found(1, nth(p, STEP_NORM, 0), "the ranks reduce different buckets", "order", 0);
    made(PARTED);
    p = &program[1];
    moved(p, nth(p, STEP_UPDATE, 1), nth(p, STEP_UPDATE, 0));
    moved(p, nth(p, STEP_GATHER, 1), nth(p, STEP_GATHER, 0));
    found(0, nth(&program[0], STEP_AWAIT, 0), "the ranks reduce different buckets", "order", 1);
    made(JOIN);
    p = &program[1];
    moved(p, nth(p, STEP_CHANGE, 1), nth(p, STEP_CHANGE, 0));
    found(1, nth(p, STEP_OUTER, 0), "the ranks average the changes of different buckets", "order",
          2);
}

// ---- specifications ----------------------------------------------------------------------------

static const struct {
    struct mesh l;
    struct step_spec s;
    const char *error; // NULL: it is sound
} specs[] = {
    {{4, 4, 0, false},
     {.micros = 1, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}},
     "4 ranks are not 4 times 0"},
    {{4, 0, 4, false},
     {.micros = 1, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}},
     "4 ranks are not 0 times 4"},
    {{1, 1, 1, false},
     {.micros = 1, .order = PIPE_1F1B, .chunks = 0, .buckets = {1}},
     "0 stages of each rank: 1 to 16"},
    {{1, 1, 1, false},
     {.micros = 1, .order = PIPE_INTERLEAVED, .chunks = 17, .buckets = {1}},
     "17 stages of each rank: 1 to 16"},
    {{1, 1, 1, false},
     {.micros = 1,
      .order = PIPE_INTERLEAVED,
      .chunks = 16,
      .buckets = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
     NULL},
    {{1, 1, 1, false},
     {.micros = 1, .order = PIPE_1F1B, .chunks = 1, .buckets = {0}},
     "stage 0 of a rank has nothing to train"},
    {{1, 1, 1, false},
     {.micros = 1, .order = PIPE_INTERLEAVED, .chunks = 2, .buckets = {1, 0}},
     "stage 1 of a rank has nothing to train"},
    {{1, 1, 1, false},
     {.micros = 0, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}},
     "0 micro-batches: 1 to 65535"},
    {{1, 1, 1, false},
     {.micros = 65536, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}},
     "65536 micro-batches: 1 to 65535"},
    {{1, 1, 1, false},
     {.micros = 65535, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}, .forward = true},
     NULL},
    {{1, 1, 1, false},
     {.micros = 32768, .order = PIPE_INTERLEAVED, .chunks = 2, .buckets = {1, 1}},
     "32768 micro-batches: 1 to 32767"},
    {{1, 1, 1, false},
     {.micros = 1, .order = PIPE_1F1B, .chunks = 1, .buckets = {65536}},
     "1 micro-batches: 1 to 65535"},
    {{1, 1, 1, false}, {.micros = 1, .order = PIPE_1F1B, .chunks = 1, .buckets = {65535}}, NULL},
    {{2, 1, 2, false},
     {.micros = 2, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}, .alone = true},
     "has the whole model"},
    {{2, 2, 1, false},
     {.micros = 2, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}, .alone = true, .parted = true},
     "has the whole"},
    {{2, 2, 1, false},
     {.micros = 2, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}, .join = true, .forward = true},
     "has the whole"},
    {{2, 1, 2, false},
     {.micros = 2, .order = PIPE_1F1B, .chunks = 1, .buckets = {1}, .join = true},
     "has the whole model"},
    {{3, 1, 3, false},
     {.micros = 6, .order = PIPE_INTERLEAVED, .chunks = 2, .buckets = {1, 1}},
     NULL},
    {{3, 1, 3, false},
     {.micros = 7, .order = PIPE_INTERLEAVED, .chunks = 2, .buckets = {1, 1}},
     "a multiple of 3 micro-batches, not 7"},
};

static void test_specs(void) {
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        struct step_program p = {0};
        struct err e;
        err_clear(&e);
        is_int(program_make(&p, &specs[k].l, 0, &specs[k].s, &e), specs[k].error ? -1 : 0,
               "specification %zu has its verdict", k);
        has_str(e.text, specs[k].error ? specs[k].error : "", "specification %zu has its error", k);
        is_int(e.code, specs[k].error ? ERR_CONFIG : ERR_NONE, "specification %zu has its code", k);
        program_free(&p);
    }
}

int main(void) {
    for (int kind = PIPELINE; kind <= JOIN; kind++) {
        struct err e;
        made((enum kind)kind);
        is_int(program_verify(program, spec, &mesh, &e), 0, "programs of kind %d pass", kind);
    }
    test_numbers();
    test_places();
    test_repeated();
    test_missing();
    test_agreement();
    test_specs();
    for (int rank = 0; rank < RANKS; rank++)
        program_free(&program[rank]);
    return done_testing();
}
