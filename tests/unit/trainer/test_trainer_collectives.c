// SPDX-License-Identifier: Apache-2.0
// Collectives of a device beside the compute: marks and tickets of calls, which of them is watched
// while the host waits, and how a lost rank ends the wait.
#include "tests/unit/trainer/device_fake.h"
#include "trainer/trainer_impl.h"

static struct err e;
static struct trainer *t;
static struct trainer_config config;

static void begin(void) {
    fake_begins();
    free(t ? t->calls : NULL);
    free(t);
    t = calloc(1, sizeof *t);
    config = (struct trainer_config){.device = &fake_device};
    t->config = &config;
    t->world = 2;
    t->mesh.pipe = 1;
    t->device = fake_collectives;
    t->calls = calloc(BESIDE_MARKS_MAX, sizeof *t->calls);
    t->chunk[0].net.k = &fake_kernels;
    t->chunk[0].net.ctx = fake_ctx;
}

static int start(int queue, int mark, enum comm_kind kind) {
    return trainer_device_start(t, t->device, queue, mark, &(struct comm_call){.kind = kind}, &e);
}

// The host has waited for so long, and looks.
static int look_after(int64_t ms) {
    clock_ahead_ms += ms;
    return fake.look(fake.look_arg);
}

static void is_watched(int number, uint64_t ticket, int64_t waited_ms, const char *what) {
    is_int(fake.watches, number, "%s: there is one more watch", what);
    is_uint(fake.watched[number - 1].ticket, ticket, "%s: of this call", what);
    is_int(fake.watched[number - 1].waited_ms, waited_ms, "%s: with the time so far", what);
}

static void test_watch(void) {
    begin();
    is_int(start(1, 5, COMM_ALL_REDUCE), 0, "a call is enqueued");
    is_int(start(2, 3, COMM_ALL_GATHER), 0, "another one is enqueued");
    is_str(fake.log, "begin 1;call 0;end 1 5;begin 2;call 2;end 2 3;",
           "each has its queue and its mark");
    ok(t->calls[5].ticket == 101 && t->calls[3].ticket == 102, "each has its ticket");
    is_int(look_after(0), 0, "calls that have ended are not waited for");
    is_int(fake.watches, 0, "calls that have ended are not watched");

    is_int(start(1, 5, COMM_ALL_REDUCE), 0, "a mark is used again");
    is_int(start(1, 0, COMM_ALL_REDUCE), 0, "the first mark is used");
    fake.end_ms[5] = fake.end_ms[0] = INT64_MAX;
    is_int(look_after(0), 1, "others are waited for");
    is_watched(1, 103, 0, "the first look");
    is_int(look_after(30), 1, "others are waited for longer");
    is_watched(2, 103, 30 + 2 * FAKE_LOOK_MS, "the second look");
    is_int(look_after(30), 1, "others are waited for still");
    is_watched(3, 103, 60 + 4 * FAKE_LOOK_MS, "the third look");
    fake.end_ms[5] = 0;
    is_int(look_after(0), 1, "the next call is waited for");
    is_watched(4, 104, 0, "the next call");
    fake.end_ms[0] = 0;
    is_int(look_after(0), 0, "no call is left");
    is_int(fake.watches, 4, "none is watched then");
    trainer_device_after(t, 7);
    has_str(fake.log, ";await 7;", "ops wait for the mark");
}

static void test_loss(void) {
    begin();
    is_int(start(0, 1, COMM_ALL_REDUCE), 0, "a call of a rank that is lost is enqueued");
    fake.end_ms[1] = INT64_MAX;
    fake.watch_fails = 1;
    t->at.step = 12;
    is_int(look_after(0), -1, "the wait ends");
    is_int(start(0, 2, COMM_ALL_REDUCE), -1, "no other call begins");
    is_str(e.text, "at step 12: rank 2 is lost", "the error has step and rank");
    is_str(fake.log, "begin 0;call 0;end 0 1;begin 0;end 0 2;", "the queue is left");
    begin();
    fake.failure = "it is hot";
    is_int(start(0, 2, COMM_ALL_REDUCE), -1, "a failed device enqueues nothing");
    is_str(e.text, "it is hot", "the error is the device's");
    begin();
    fake.enqueue_fails = true;
    is_int(start(0, 2, COMM_ALL_REDUCE), -1, "a call that is refused fails");
    is_uint(t->called, 0, "a call that was refused is not under way");
}

// The host reads results steps later, so the first collective of the oldest step is watched.
static void test_async(void) {
    begin();
    t->async.on = true;
    is_int(start(0, 1, COMM_ALL_REDUCE), 0, "a step has a call");
    is_int(start(0, 2, COMM_ALL_REDUCE), 0, "a step has another call");
    is_int(look_after(0), 1, "the step is waited for");
    is_watched(1, 101, 0, "the step that is enqueued");
    t->async.pending[0].ticket = 90;
    t->async.enqueued = 1;
    is_int(look_after(5), 1, "the step before is waited for");
    is_watched(2, 90, 0, "the step before");
    is_int(look_after(5), 1, "the step before is waited for still");
    is_watched(3, 90, 5, "the step before, later");
    t->async.settled = 1;
    t->async.ticket = 0;
    is_int(look_after(0), 0, "a step without collectives waits for no rank");
    t->mesh.pipe = 2;
    fake.end_ms[2] = INT64_MAX;
    is_int(look_after(0), 1, "the calls of a pipeline are waited for one by one");
    is_watched(4, 102, 0, "a pipeline");
}

// ---- the choice ---------------------------------------------------------------------------------

static const char *said(void) {
    static struct strbuf line;
    line.len = 0;
    trainer_device_say(t, &line);
    return strbuf_cstr(&line);
}

static void test_words(void) {
    static const struct {
        int pipe, data, world;
        bool device;
        const char *why, *want;
    } cases[] = {
        {1, 2, 2, true, "", "; gradients travel from GPU to GPU by FAKE 1.0"},
        {2, 1, 2, true, "", "; micro-batches travel from GPU to GPU by FAKE 1.0"},
        {2, 2, 4, true, "", "; micro-batches and gradients travel from GPU to GPU by FAKE 1.0"},
        {1, 2, 2, false, "", "; gradients travel through the memory of the hosts"},
        {1, 2, 2, false, "no library", "hosts: no library"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        t->mesh.pipe = cases[i].pipe;
        t->mesh.data = cases[i].data;
        t->world = cases[i].world;
        t->device = cases[i].device ? fake_collectives : NULL;
        if (cases[i].why[0])
            err_set(&t->no_device, ERR_NOT_FOUND, "%s", cases[i].why);
        const char *line = said();
        size_t len = strlen(line), want = strlen(cases[i].want);
        ok(len >= want && strcmp(line + len - want, cases[i].want) == 0, "the line ends with '%s'",
           cases[i].want);
    }
    t->world = 1;
    ok(!strstr(said(), "travel"), "with one rank nothing travels");
}

// ---- links of devices --------------------------------------------------------------------------

// Numbers go from device to device: each pass has a queue of its direction and a mark of its own.
static void test_links(void) {
    enum { FIRST = TRAINER_MARKS_LINKS, MARKS = BESIDE_MARKS_MAX - TRAINER_MARKS_LINKS };
    static float params[4], numbers[8];
    static struct sending sent[2];
    static const enum step_op receives[] = {STEP_RECV_X, STEP_RECV_DY},
                              sends[] = {STEP_SEND_Y, STEP_SEND_DX};
    const struct comm_config one = {.world = 1, .cpu = -1};
    struct comm *host;
    char want[80];
    if (comm_open(&host, NULL, &one, &e) < 0)
        bail_out("%s", e.text);
    begin();
    t->chunks = 1;
    t->slots = 2;
    t->links.sent = sent;
    t->chunk[0].net.params = (char *)params;
    for (int i = 0; i < STEP_OPS; i++)
        t->links.of[i] = (struct stage_link){.host = host, .device = fake_collectives};
    for (int i = 0; i < 2; i++) {
        struct step_item it = {.op = (uint8_t)receives[i]};
        *fake.log = '\0';
        is_int(trainer_links_receive(t, &it, numbers, 8, &e), 0, "numbers of direction %d come", i);
        snprintf(want, sizeof want, "begin %d;call %d;end %d %d;await %d;", 1 + 2 * i, COMM_RECV,
                 1 + 2 * i, FIRST + 2 * i, FIRST + 2 * i);
        is_str(fake.log, want, "operations wait for numbers of direction %d", i);
        it = (struct step_item){.op = (uint8_t)sends[i], .slot = (uint16_t)i};
        *fake.log = '\0';
        is_int(trainer_links_send(t, &it, numbers, 3, &e), 0, "numbers of direction %d go", i);
        snprintf(want, sizeof want, "begin %d;call %d;end %d %d;", 2 + 2 * i, COMM_SEND, 2 + 2 * i,
                 FIRST + 1 + 2 * i);
        is_str(fake.log, want, "nothing waits for a send of direction %d", i);
        is_int(sent[i].mark, FIRST + 1 + 2 * i, "the slot knows its send of direction %d", i);
    }
    ok(fake.calls[0].count == 32 && fake.calls[1].count == 12 && fake.calls[1].buf == numbers &&
           fake.calls[0].peer == 1 && fake.calls[0].type == COMM_BYTE,
       "calls have the bytes of the numbers");
    *fake.log = '\0';
    struct step_item it = {.op = STEP_FORWARD, .slot = 1};
    is_int(trainer_links_clear(t, &it, &e), 0, "a slot is cleared");
    snprintf(want, sizeof want, "await %d;", FIRST + 3);
    is_str(fake.log, want, "operations wait for the send from the slot");
    is_int(trainer_links_clear(t, &it, &e), 0, "a slot is cleared again");
    is_str(fake.log, want, "a slot that is clear needs no wait");
    *fake.log = '\0';
    is_int(trainer_links_end(t, &e), 0, "all slots are cleared");
    snprintf(want, sizeof want, "await %d;", FIRST + 1);
    is_str(fake.log, want, "the other send is waited for");
    it = (struct step_item){.op = STEP_RECV_X};
    for (int i = 4; i < MARKS; i++) {
        *fake.log = '\0';
        if (trainer_links_receive(t, &it, numbers, 1, &e) < 0)
            bail_out("%s", e.text);
    }
    snprintf(want, sizeof want, "begin 1;call %d;end 1 %d;await %d;", COMM_RECV,
             BESIDE_MARKS_MAX - 1, BESIDE_MARKS_MAX - 1);
    is_str(fake.log, want, "each call has a mark of its own");
    *fake.log = '\0';
    is_int(trainer_links_receive(t, &it, numbers, 1, &e), 0, "there are more calls than marks");
    snprintf(want, sizeof want, "begin 1;call %d;end 1 %d;await %d;", COMM_RECV, FIRST, FIRST);
    is_str(fake.log, want, "marks are used in turn");
    fake.enqueue_fails = true;
    t->at.step = 12;
    is_int(trainer_links_receive(t, &it, numbers, 1, &e), -1, "a receive of a lost rank fails");
    is_str(e.text, "passing a micro-batch between stages at step 12: rank 2 is lost",
           "the error has step and rank");
    it.op = STEP_SEND_Y;
    is_int(trainer_links_send(t, &it, numbers, 1, &e), -1, "a send to a lost rank fails");
    has_str(e.text, "passing a micro-batch between stages at step 12: ", "the error has the step");
    comm_close(host);
}

int main(void) {
    test_links();
    test_watch();
    test_loss();
    test_async();
    test_words();
    free(t->calls);
    free(t);
    return done_testing();
}
