// SPDX-License-Identifier: Apache-2.0
// One node of a ring between neighbours that are this test: what the node reports when one of them
// ends, fails, stalls or is in another collective, and what it passes on.
#include "tests/unit/comm/ring_table.h"

enum { FAULT_BYTES = 8 + RING_FAULT_TEXT_BYTES, MAGIC = 0x746c6661 };

// ---- neighbours that end or fail ---------------------------------------------------------------

static int gather(struct table *t, struct err *e) {
    float x[6] = {0};
    err_clear(e);
    return ring_all_gather(&t->r, &element_f32, x, thirds, e);
}

static void fault_comes(int fd, unsigned magic, unsigned code, const char *text, size_t bytes) {
    unsigned char m[FAULT_BYTES + 1] = {0};
    bytes_store(m, magic, 4);
    bytes_store(m + 4, code, 4);
    memset(m + 8, 'x', RING_FAULT_TEXT_BYTES);
    memcpy(m + 8, text, strlen(text) + 1);
    if (write(fd, m, bytes) != (ssize_t)bytes)
        bail_out("a neighbour cannot report a fault");
}

// The code of the fault that a neighbour got, with its text; -1: none, or not in the right form.
static int fault_went(int fd, char text[RING_FAULT_TEXT_BYTES]) {
    unsigned char m[FAULT_BYTES + 1];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (read(fd, m, sizeof m) != FAULT_BYTES || bytes_load(m, 4) != MAGIC ||
        m[FAULT_BYTES - 1] != 0)
        return -1;
    memcpy(text, m + 8, RING_FAULT_TEXT_BYTES);
    return (int)bytes_load(m + 4, 4);
}

static void test_fault_goes(void) {
    struct table *t = seated(1, 3, 1);
    struct err e, other;
    char text[RING_FAULT_TEXT_BYTES], longest[400];
    memset(longest, 'y', sizeof longest);
    err_set(&e, ERR_LIMIT, "%.*s", (int)sizeof longest, longest);
    err_set(&other, ERR_SYS, "another");
    ring_fault(&t->r, &e);
    ring_fault(&t->r, &other);
    is_int(fault_went(t->control_left, text), ERR_LIMIT, "the left neighbour gets a fault's code");
    is_int(fault_went(t->control_right, text), ERR_LIMIT,
           "the right neighbour gets a fault's code");
    is_uint(strlen(text), RING_FAULT_TEXT_BYTES - 1, "the text of a fault is cut at its limit");
    ok(silent(t->control_left) && silent(t->control_right), "a node reports one fault");
    cleared(t);
    t = seated(0, 1, 1);
    ring_fault(&t->r, &e);
    ok(silent(t->control_left), "a single node has none to report to");
    is_int(ring_check(&t->r, &e), 0, "a single node has none to look after");
    cleared(t);
}

static void test_fault_comes(void) {
    static const struct {
        unsigned code;
        int want;
    } cases[] = {{ERR_LIMIT, ERR_LIMIT},       {ERR_NO_STATUS, ERR_NO_STATUS},
                 {ERR_NO_STATUS + 1, ERR_NET}, {ERR_NONE, ERR_NET},
                 {ERR_NONE + 1, ERR_NONE + 1}, {4000000000U, ERR_NET}};
    char text[RING_FAULT_TEXT_BYTES];
    struct err e;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct table *t = seated(1, 3, 1);
        bool left = k % 2;
        fault_comes(left ? t->control_left : t->control_right, MAGIC, cases[k].code, "no memory",
                    FAULT_BYTES);
        is_int(gather(t, &e), -1, "code %u of a neighbour ends the operation", cases[k].code);
        is_int(e.code, cases[k].want, "code %u of a neighbour is code %d here", cases[k].code,
               cases[k].want);
        is_str(e.text, "no memory", "the error is the neighbour's text for code %u", cases[k].code);
        is_int(fault_went(left ? t->control_right : t->control_left, text), cases[k].want,
               "code %u is passed on", cases[k].code);
        is_int(ring_check(&t->r, &e), 0, "a fault is read once for code %u", cases[k].code);
        cleared(t);
    }
}

// Neither is a report: the connection counts as closed.
static void test_fault_malformed(void) {
    struct err e;
    for (int k = 0; k < 3; k++) {
        struct table *t = seated(1, 3, 1);
        if (k < 2)
            fault_comes(t->control_left, MAGIC + (k == 1), ERR_LIMIT, "no memory",
                        k == 0 ? FAULT_BYTES - 1 : FAULT_BYTES);
        else
            leave(&t->control_left);
        is_int(ring_check(&t->r, &e), -1, "end %d of a control connection is found", k);
        is_str(e.text, "rank 2 (node 0, left.example) closed its connections",
               "end %d of a control connection names the neighbour", k);
        is_int(e.code, ERR_NET, "end %d of a control connection is of the network", k);
        cleared(t);
    }
    struct table *t = seated(1, 3, 1);
    leave(&t->control_right);
    is_int(ring_check(&t->r, &e), -1, "the end of the right control connection is found");
    has_str(e.text, "rank 7 (node 2, right.example) closed", "the right neighbour is named");
    cleared(t);
}

static void late_fault(struct table *t) {
    fault_comes(t->control_left, MAGIC, ERR_FAILED, "rank 1 gave up", FAULT_BYTES);
}

static void test_lost(void) {
    struct err e;
    char text[RING_FAULT_TEXT_BYTES];
    struct table *t = seated(1, 3, 1);
    leave(&t->left[0]);
    leave(&t->control_left);
    is_int(gather(t, &e), -1, "the end of a data connection ends the operation");
    is_str(e.text, "rank 2 (node 0, left.example) closed its connections",
           "the error names the neighbour that has gone");
    is_int(fault_went(t->control_right, text), ERR_NET, "the other neighbour gets the reason");
    is_str(text, e.text, "the other neighbour gets the text");
    cleared(t);

    t = seated(1, 3, 1);
    leave(&t->right[0]);
    leave(&t->control_right);
    is_int(gather(t, &e), -1, "a neighbour that does not read ends the operation");
    is_str(e.text, "rank 7 (node 2, right.example) closed its connections",
           "the error names the neighbour that does not read");
    cleared(t);

    // Its reason is on the way.
    t = seated(1, 3, 1);
    leave(&t->left[0]);
    while_idle = late_fault;
    is_int(gather(t, &e), -1, "a data connection ends before the reason comes");
    is_str(e.text, "rank 1 gave up", "the reason that comes later is the error");
    is_int(e.code, ERR_FAILED, "the reason's code is the error's");
    cleared(t);

    // No reason comes.
    t = seated(1, 3, 1);
    leave(&t->left[0]);
    int64_t start = clock_mono_ms();
    is_int(gather(t, &e), -1, "a data connection ends and no reason comes");
    ok(clock_mono_ms() - start >= RING_GRACE_MS, "a node waits for the reason");
    has_str(e.text, "closed its connections", "without a reason the neighbour is the reason");
    cleared(t);
}

static void test_differs(void) {
    struct err e;
    char text[RING_FAULT_TEXT_BYTES];
    struct table *t = seated(1, 3, 1);
    come(t->left[0], 0, 0, "12345678", 7);
    is_int(gather(t, &e), -1, "another number of bytes ends the operation");
    is_str(e.text,
           "rank 2 (node 0) is in another collective than rank 4: all ranks must make the same "
           "calls with the same counts",
           "the error names the rank in another collective");
    is_int(fault_went(t->control_right, text), ERR_FAILED, "the others learn of it");
    cleared(t);
}

// ---- waiting -----------------------------------------------------------------------------------

static void data_comes(struct table *t) {
    const float all[] = {1, 2, 6};
    come(t->left[0], 0, 0, all, 8);
    come(t->left[0], 1, 0, all + 2, 4);
}

static void test_refused(void) {
    static const int errors[] = {EAGAIN, EINTR};
    struct err e;
    for (int k = 0; k < 2; k++) {
        struct table *t = seated(1, 3, 1);
        refusals = 1;
        refusal_errno = errors[k];
        data_comes(t);
        is_int(gather(t, &e), 0, "a call that ends with %s is made again", strerror(errors[k]));
        cleared(t);
    }
    struct table *t = seated(1, 3, 1);
    refusals = 1;
    refusal_errno = ETIMEDOUT;
    leave(&t->control_right);
    is_int(gather(t, &e), -1, "a connection that times out ends the operation");
    has_str(e.text, "was lost: ", "the error says that the neighbour was lost");
    has_str(e.text, strerror(ETIMEDOUT), "the error has the system's reason");
    cleared(t);
}

static int looks;

static int looked(void *ctx, struct err *e) {
    looks++;
    return ctx ? err_set(e, ERR_FAILED, "a rank of this node has ended") : 0;
}

static void test_stalled(void) {
    struct err e;
    char text[RING_FAULT_TEXT_BYTES];
    struct table *t = seated(1, 3, 1);
    t->watch.stall_timeout_ms_max = 20;
    t->r.check = looked;
    int64_t start = clock_mono_ms();
    is_int(gather(t, &e), -1, "a node waits for no longer than its limit");
    ok(clock_mono_ms() - start >= 20, "a node waits for as long as its limit");
    is_str(e.text,
           "rank 2 (node 0, left.example) or rank 7 (node 2, right.example): nothing moved for "
           "20 ms",
           "the error names both neighbours");
    is_int(e.code, ERR_TIMEOUT, "the error is of time");
    is_int(fault_went(t->control_left, text), ERR_TIMEOUT, "the neighbours learn of a stall");
    ok(looks > 0, "a node that waits looks after its local ranks");
    cleared(t);

    t = seated(1, 3, 1);
    t->r.check = looked;
    t->r.check_ctx = t;
    is_int(gather(t, &e), -1, "the end of a local rank ends the operation");
    is_str(e.text, "a rank of this node has ended", "the error is that of the local rank");
    is_int(fault_went(t->control_left, text), ERR_FAILED, "the neighbours learn of a local end");
    cleared(t);

    t = seated(1, 3, 1);
    while_idle = data_comes;
    is_int(gather(t, &e), 0, "data that comes while a node waits is taken");
    cleared(t);
}

int main(void) {
    test_fault_goes();
    test_fault_comes();
    test_fault_malformed();
    test_lost();
    test_differs();
    test_refused();
    test_stalled();
    return done_testing();
}
