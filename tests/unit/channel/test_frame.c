// SPDX-License-Identifier: Apache-2.0
// Frames between agents: every message both ways, every truncation, wrong lengths, seals, proofs.
#include "base/bytes.h"
#include "channel/frame.h"
#include "channel/proof.h"
#include "tests/tap.h"

static struct err e;

static struct wire_node nodes[] = {{0, 29500, 77, 3, "alpha", "10.0.0.1"},
                                   {-1, 1, 78, 1, "", "::1"}};
static struct worker_failure failures[] = {{3, 1, 1, 4242, 137, 9, 250, 1700000000000, "node2",
                                            "beta", "/x/error.json", "boom", "last\nlines",
                                            "killed by the kernel"}};

// Every field has a value of its own, so that two that are swapped show.
static struct wire_msg full(enum wire_type type) {
    struct wire_msg m = {
        .type = type, .nodes = nodes, .node_count = 2, .failures = failures, .failure_count = 1};
    int64_t n = 1000;
#define NUM(field)  m.field = n++;
#define TEXT(field) m.field = #field;
    WIRE_FIELDS(NUM, TEXT)
#undef NUM
#undef TEXT
    return m;
}

static void test_round_trips(void) {
    for (int type = WIRE_NONE + 1; type < WIRE_TYPE_COUNT; type++) {
        struct arena a = {0};
        struct strbuf one = {0}, two = {0};
        struct wire_msg m = full((enum wire_type)type), back;
        size_t used = 0;
        frame_put(&one, &m, NULL);
        int rc = frame_take(&a, one.data, one.len, WIRE_FRAME_BYTES_MAX, &back, &used, NULL, &e);
        is_int(rc, 1, "%s is decoded", frame_name(m.type));
        is_uint(used, one.len, "%s: the whole frame is used", frame_name(m.type));
        frame_put(&two, &back, NULL);
        is_mem(two.data, two.len, one.data, one.len, "%s encodes to the same bytes",
               frame_name(m.type));
        int early = 0;
        for (size_t cut = 0; cut < one.len; cut++) {
            rc = frame_take(&a, one.data, cut, WIRE_FRAME_BYTES_MAX, &back, &used, NULL, &e);
            early += rc != 0;
        }
        is_int(early, 0, "%s: every prefix asks for more", frame_name(m.type));
        int wrong = 0;
        for (size_t cut = 5; cut < one.len; cut++) { // a frame that ends inside its fields
            bytes_store(one.data, cut - 4, 4);
            rc = frame_take(&a, one.data, cut, WIRE_FRAME_BYTES_MAX, &back, &used, NULL, &e);
            wrong += rc != -1;
        }
        is_int(wrong, 0, "%s: every shortened frame is refused", frame_name(m.type));
        strbuf_fini(&one), strbuf_fini(&two);
        arena_fini(&a);
    }
}

static void test_values(void) {
    struct arena a = {0};
    struct strbuf b = {0};
    struct wire_msg m = full(WIRE_ROUND), back;
    size_t used;
    frame_put(&b, &m, NULL);
    frame_take(&a, b.data, b.len, WIRE_FRAME_BYTES_MAX, &back, &used, NULL, &e);
    is_int(back.world_size, m.world_size, "a number is decoded");
    is_str(back.master_addr, "master_addr", "a text is decoded");
    is_str(back.nodes[0].address, "10.0.0.1", "the address of a node is decoded");
    is_int(back.nodes[1].node_rank, -1, "a negative number is decoded");
    strbuf_clear(&b);
    m = full(WIRE_FAILED);
    frame_put(&b, &m, NULL);
    frame_take(&a, b.data, b.len, WIRE_FRAME_BYTES_MAX, &back, &used, NULL, &e);
    is_str(back.failures[0].node, "node2", "the node of a failure is decoded");
    is_str(back.failures[0].tail, "last\nlines", "the last lines of a failure are decoded");
    is_str(back.failures[0].evidence, "killed by the kernel", "a failure's evidence is decoded");
    is_int(back.failures[0].signal, 9, "a failure's signal is decoded");
    strbuf_fini(&b);
    arena_fini(&a);
}

static void test_limits(void) {
    struct arena a = {0};
    struct wire_msg m;
    size_t used;
    is_int(frame_take(&a, "\xff\xff\xff\x7f\1", 5, WIRE_FRAME_BYTES_MAX, &m, &used, NULL, &e), -1,
           "a frame longer than the limit is refused");
    is_int(e.code, ERR_LIMIT, "a frame above the limit is a limit error");
    is_int(frame_take(&a, "\0\0\0\0\1", 5, 100, &m, &used, NULL, &e), -1,
           "an empty frame is refused");
    is_int(frame_take(&a, "\1\0\0\0\0", 5, 100, &m, &used, NULL, &e), -1,
           "a frame of type 0 is refused");
    is_int(frame_take(&a, "\1\0\0\0\xff", 5, 100, &m, &used, NULL, &e), -1,
           "a frame of type 255 is refused");
    // REFUSE: final, then a text that says it is 4 GiB long.
    is_int(frame_take(&a, "\x0d\0\0\0\4\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 17, 100, &m, &used, NULL,
                      &e),
           -1, "a text longer than its frame is refused");
    is_int(frame_take(&a, "\x0f\0\0\0\4\0\0\0\0\0\0\0\0\2\0\0\0a\0", 19, 100, &m, &used, NULL, &e),
           -1, "a text with a NUL is refused");
    arena_fini(&a);
}

static void test_seals(void) {
    struct arena a = {0};
    struct wire_seals agent, coordinator;
    struct wire_msg m = full(WIRE_BEAT), back;
    struct strbuf b = {0};
    size_t used;
    proof_seals_start(&agent, "key", 3, 0, "run", "n1", "n2");
    proof_seals_start(&coordinator, "key", 3, 1, "run", "n1", "n2");
    frame_put(&b, &m, &agent);
    is_int(frame_take(&a, b.data, b.len, 1000, &back, &used, &coordinator, &e), 1,
           "a sealed frame is taken");
    is_int(frame_take(&a, b.data, b.len, 1000, &back, &used, &coordinator, &e), -1,
           "a replayed one is not");
    is_int(e.code, ERR_AUTH, "a replayed frame is an authentication error");
    strbuf_clear(&b);
    proof_seals_start(&agent, "key", 3, 0, "run", "n1", "n2");
    frame_put(&b, &m, &agent);
    int taken = 0;
    for (size_t i = 4; i < b.len; i++) {
        proof_seals_start(&coordinator, "key", 3, 1, "run", "n1", "n2");
        b.data[i] ^= 1;
        taken += frame_take(&a, b.data, b.len, 1000, &back, &used, &coordinator, &e) == 1;
        b.data[i] ^= 1;
    }
    is_int(taken, 0, "no frame with a changed bit is taken");
    proof_seals_start(&coordinator, "key", 3, 0, "run", "n1", "n2");
    is_int(frame_take(&a, b.data, b.len, 1000, &back, &used, &coordinator, &e), -1,
           "a frame reflected to its sender is refused");
    proof_seals_start(&coordinator, "yek", 3, 1, "run", "n1", "n2");
    is_int(frame_take(&a, b.data, b.len, 1000, &back, &used, &coordinator, &e), -1,
           "a frame sealed with another key is refused");
    strbuf_fini(&b);
    arena_fini(&a);
}

static void test_proofs(void) {
    char proof[WIRE_PROOF_BYTES], nonce[WIRE_NONCE_TEXT_BYTES], other[WIRE_NONCE_TEXT_BYTES];
    proof_nonce(nonce);
    proof_nonce(other);
    ok(strcmp(nonce, other) != 0, "nonces differ");
    proof_make(proof, "k", 1, 0, "run", nonce, other);
    ok(proof_matches(proof, "k", 1, 0, "run", nonce, other), "a proof holds");
    ok(!proof_matches(proof, "k", 1, 1, "run", nonce, other),
       "a proof does not hold for the other side");
    ok(!proof_matches(proof, "k", 1, 0, "nur", nonce, other),
       "a proof does not hold for another run");
    ok(!proof_matches(proof, "k", 1, 0, "run", other, nonce),
       "a proof does not hold for other nonces");
    ok(!proof_matches(proof, "j", 1, 0, "run", nonce, other),
       "a proof does not hold for another key");
    ok(!proof_matches("", "k", 1, 0, "run", nonce, other), "an empty one does not");
}

int main(void) {
    test_round_trips();
    test_values();
    test_limits();
    test_seals();
    test_proofs();
    return done_testing();
}
