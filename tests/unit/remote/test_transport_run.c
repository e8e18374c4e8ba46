// SPDX-License-Identifier: Apache-2.0
// The part that all transports share, on one whose node is the test: input buffers and their room,
// events after the end, distances, parking.
#include "tests/unit/transport_fake.h"

#include "remote/transport.h"
#include "tests/tap.h"

static int wakes, resizes, trims;

static void count_wake(struct transport_run *r) {
    (void)r;
    wakes++;
}

static void count_resize(struct transport_run *r, int columns, int rows) {
    (void)r;
    resizes += columns == 80 && rows == 24;
}

static void count_trim(struct transport_link *l) {
    (void)l;
    trims++;
}

static const struct transport counting = {
    .name = "counting",
    .open = fake_open,
    .close = fake_close,
    .run = fake_start,
    .run_wake = count_wake,
    .run_resize = count_resize,
    .run_close = fake_run_close,
    .trim = count_trim,
};

// ---- what the caller sees -----------------------------------------------------------------------

static struct seen {
    int opens, downs, rooms, ends;
    size_t output, errors;
    enum transport_how how; // of the newest end
} seen;
static struct transport_link *to_close; // by on_end
static struct err e;

static void on_open(struct transport_link *l, void *ctx) {
    (void)l, (void)ctx;
    seen.opens++;
}

static void on_down(struct transport_link *l, void *ctx, const struct err *why) {
    (void)l, (void)ctx, (void)why;
    seen.downs++;
}

static void on_output(struct transport_run *r, void *ctx, const void *data, size_t len) {
    (void)r, (void)ctx, (void)data;
    seen.output += len;
}

static void on_error(struct transport_run *r, void *ctx, const void *data, size_t len) {
    (void)r, (void)ctx, (void)data;
    seen.errors += len;
}

static void on_room(struct transport_run *r, void *ctx) {
    (void)r, (void)ctx;
    seen.rooms++;
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    (void)r, (void)ctx;
    seen.ends++;
    seen.how = end->how;
    transport_close(to_close);
}

static const struct transport_link_events link_events = {on_open, on_down};
static const struct transport_run_events run_events = {on_output, on_error, on_room, on_end};
static const struct transport_run_events end_alone = {.on_end = on_end};

static struct transport_link *open_link(const struct transport *kind) {
    static struct transport_env env;
    struct transport_target target = {.node = "n1", .host = "h1"};
    memset(&seen, 0, sizeof seen);
    wakes = resizes = trims = 0;
    to_close = NULL;
    struct transport_link *l = transport_open(kind, &env, &target, &link_events, NULL, &e);
    transport_notify_open(l);
    return l;
}

static struct transport_run *start(struct transport_link *l, const char *line) {
    struct transport_run *r =
        transport_run(l, &(struct transport_command){.line = line}, &run_events, NULL, &e);
    if (!r)
        bail_out("%s", e.text);
    return r;
}

// ---- input --------------------------------------------------------------------------------------

static char bytes[3 * TRANSPORT_INPUT_BYTES_MAX];

static void sent(struct transport_run *r, size_t len) {
    transport_input_sent(r, len);
}

static void test_room(void) {
    enum { MOST = TRANSPORT_INPUT_BYTES_MAX };
    struct transport_run *r = start(open_link(&counting), "cat");
    size_t len;
    is_uint(transport_run_room(r), MOST, "a new command has room");
    ok(!transport_input_peek(r, &len) && len == 0, "a new command has no input");
    is_uint(transport_run_send(r, bytes, MOST), MOST, "as much as fits is taken");
    ok(wakes == 1 && transport_run_room(r) == 0, "the kind is woken once, and no room is left");
    sent(r, MOST);
    is_int(seen.rooms, 0, "a caller whose bytes were all taken waits for no room");
    is_uint(transport_run_send(r, bytes, MOST + 1), MOST, "a byte more is not taken");
    is_uint(transport_run_send(r, bytes, 1), 0, "a full buffer takes nothing");
    is_int(wakes, 2, "an idle buffer wakes the kind, and a full one does not");
    sent(r, MOST / 2 - 1);
    is_int(seen.rooms, 0, "with more than half of the buffer full there is no room yet");
    sent(r, 1);
    is_int(seen.rooms, 1, "with half of the buffer full there is room");
    sent(r, 1);
    is_int(seen.rooms, 1, "room is reported once");
    is_uint(transport_run_unsent(r), MOST / 2 - 1, "unsent bytes are counted");
    fake_free_all();
}

// Bytes of several sends stay in order while the node takes them piece by piece.
static void test_order(void) {
    enum { PIECE = TRANSPORT_INPUT_BYTES_MAX / 2 + 1, PIECES = 9 };
    struct transport_run *r = start(open_link(&counting), "cat");
    struct fake_run *node = fake_run(0);
    size_t at = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 31 + i / 255);
    while (at < sizeof bytes) {
        size_t len = sizeof bytes - at < PIECE ? sizeof bytes - at : PIECE;
        at += transport_run_send(r, bytes + at, len);
        fake_take(node, PIECE / 3 * 2);
    }
    fake_take(node, SIZE_MAX);
    ok(node->got.len == sizeof bytes && memcmp(node->got.data, bytes, sizeof bytes) == 0,
       "every byte arrives once, in order");
    fake_free_all();
}

static void on_collected(void *ctx, const struct transport_result *r) {
    *(int *)ctx += r->end.how == TRANSPORT_EXITED;
}

// The input of a collected command is longer than the buffer.
static void test_collected(void) {
    struct transport_link *l = open_link(&counting);
    int done = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 31 + i / 255);
    is_int(transport_collect(l, "cat", bytes, sizeof bytes, on_collected, &done, &e), 0,
           "a command gets much input");
    struct fake_run *node = fake_run(0);
    while (!node->got_end && node->got.len < sizeof bytes)
        fake_take(node, TRANSPORT_INPUT_BYTES_MAX);
    fake_take(node, SIZE_MAX);
    ok(node->got.len == sizeof bytes && memcmp(node->got.data, bytes, sizeof bytes) == 0,
       "all of a long input arrives once, in order");
    ok(node->got_end, "a long input ends");
    fake_exit(node, 0);
    is_int(done, 1, "a command with a long input is collected");
    fake_free_all();
}

static void test_send_end(void) {
    struct transport_run *r = start(open_link(&counting), "cat");
    transport_run_send_end(r);
    ok(wakes == 1 && transport_run_room(r) == 0, "the end of the input wakes the kind");
    is_uint(transport_run_send(r, "x", 1), 0, "no byte follows the end of the input");
    transport_run_send_end(r);
    is_int(wakes, 1, "an input ends once");
    transport_run_resize(r, 80, 24);
    is_int(resizes, 1, "a terminal is resized");
    struct transport_run *closed = start(r->link, "cat");
    transport_run_close(closed);
    transport_run_send_end(closed);
    transport_run_resize(closed, 80, 24);
    ok(wakes == 1 && resizes == 1, "a closed command gets nothing more");
    is_uint(transport_run_room(closed), 0, "a closed command has no room");
    struct transport_run *ended = start(r->link, "cat");
    fake_exit(fake_run(0), 0);
    transport_run_send_end(ended);
    transport_run_resize(ended, 80, 24);
    ok(wakes == 1 && resizes == 1, "a command that has ended gets nothing more");
    is_uint(transport_run_room(ended), 0, "a command that has ended has no room");
    fake_free_all();
}

// ---- events -------------------------------------------------------------------------------------

// A full buffer of a caller that waits for room.
static struct transport_run *full(struct transport_link *l, const struct transport_run_events *x) {
    struct transport_run *r =
        transport_run(l, &(struct transport_command){.line = "cat"}, x, NULL, &e);
    (void)transport_run_send(r, bytes, sizeof bytes);
    return r;
}

static void test_late_room(void) {
    struct transport_link *l = open_link(&counting);
    struct transport_run *r = full(l, &run_events);
    transport_run_close(r);
    sent(r, TRANSPORT_INPUT_BYTES_MAX);
    is_int(seen.rooms, 0, "a closed command reports no room");
    r = full(l, &run_events);
    fake_exit(fake_run(0), 0);
    sent(r, TRANSPORT_INPUT_BYTES_MAX);
    is_int(seen.rooms, 0, "a command that has ended reports no room");
    r = full(l, &end_alone);
    sent(r, TRANSPORT_INPUT_BYTES_MAX);
    ok(!r->room_wanted, "a caller need not hear of room");
    transport_notify_output(r, false, "x", 1);
    transport_notify_output(r, true, "x", 1);
    ok(seen.output + seen.errors == 0, "a caller need not hear of output");
    fake_free_all();
}

static void test_late_events(void) {
    struct transport_link *l = open_link(&counting);
    struct transport_run *r = start(l, "cat"), *other = start(l, "cat");
    struct transport_end end = {.how = TRANSPORT_EXITED};
    transport_notify_output(r, false, "abc", 3);
    transport_notify_output(r, true, "ab", 2);
    ok(seen.output == 3 && seen.errors == 2, "output and errors go their own ways");
    is_int(l->run_count, 2, "two commands run");
    transport_notify_end(r, &end);
    transport_notify_end(r, &end);
    transport_notify_output(r, false, "abc", 3);
    ok(seen.ends == 1 && seen.output == 3, "a command ends once, and says nothing more");
    is_int(l->run_count, 1, "a command that has ended needs no place");
    transport_run_close(other);
    transport_notify_end(other, &end);
    transport_notify_output(other, true, "abc", 3);
    ok(seen.ends == 1 && seen.errors == 2, "a closed command says nothing more");
    transport_run_close(other);
    transport_run_close(r);
    is_int(l->run_count, 0, "each command gives its place back once");
    fake_free_all();
}

static void test_down(void) {
    struct transport_link *l = open_link(&counting);
    struct err why = {.code = ERR_NET};
    start(l, "one");
    start(l, "two");
    is_int(seen.opens, 1, "a link opens");
    transport_notify_down(l, &why);
    ok(seen.ends == 2 && seen.how == TRANSPORT_LOST && seen.downs == 1,
       "a link that goes down ends its commands as lost");
    transport_notify_down(l, &why);
    is_int(seen.downs, 1, "a link goes down once");
    ok(!transport_run(l, &(struct transport_command){.line = "x"}, &run_events, NULL, &e),
       "a link that is down takes no command");
    has_str(e.text, "node n1: not connected", "the error names the node");
    fake_free_all();
    l = open_link(&counting);
    start(l, "one");
    start(l, "two");
    to_close = l;
    transport_notify_down(l, &why);
    ok(seen.ends == 1 && seen.downs == 0, "a link that is closed by a callback says nothing more");
    transport_notify_open(l);
    is_int(seen.opens, 1, "a closed link does not open");
    transport_close(l);
    transport_close(NULL);
    is_int(l->run_count, 0, "a closed link runs nothing");
    fake_free_all();
}

static void test_refused(void) {
    struct transport_link *l = open_link(&counting);
    fake_refuses = 1;
    ok(!transport_run(l, &(struct transport_command){.line = "x"}, &run_events, NULL, &e),
       "a command may be refused");
    has_str(e.text, "node n1: no more commands", "the error names the node and the reason");
    is_int(l->run_count, 0, "a refused command needs no place");
    is_int(transport_collect(l, "true", NULL, 0, NULL, NULL, &e), 0, "the next one is taken");
    fake_free_all();
}

// ---- distances ----------------------------------------------------------------------------------

static void test_distance(void) {
    struct transport_link *l = open_link(&transport_fake);
    fake_distance_us = 500;
    is_int(transport_distance_us(l), 500, "a link that is up has a distance");
    is_int(transport_round_trip_us(l), 0, "a round trip is unknown at first");
    transport_round_trip_seen(l, 300);
    is_int(transport_round_trip_us(l), 300, "the first round trip counts");
    transport_round_trip_seen(l, 400);
    is_int(transport_round_trip_us(l), 300, "a longer round trip does not count");
    transport_round_trip_seen(l, 200);
    is_int(transport_round_trip_us(l), 200, "a shorter round trip counts");
    transport_round_trip_seen(l, 0);
    is_int(transport_round_trip_us(l), 1, "a round trip takes some time");
    transport_notify_down(l, &(struct err){.code = ERR_NET});
    is_int(transport_distance_us(l), 0, "a link that is down has no distance");
    ok(!transport_is_local(l), "the node is not this computer");
    l = open_link(&counting);
    is_int(transport_distance_us(l), 0, "a kind may know no distance");
    l->kind = &transport_local;
    transport_round_trip_seen(l, 300);
    ok(transport_is_local(l) && transport_round_trip_us(l) == 0, "this computer has no round trip");
    l->kind = &counting;
    fake_free_all();
}

// ---- parking ------------------------------------------------------------------------------------

static void test_parking(void) {
    struct transport_link *l = open_link(&counting);
    struct transport_run *one = start(l, "one"), *two = start(l, "two");
    (void)transport_run_send(one, "x", 1);
    transport_run_park(one, "a");
    ok(trims == 1 && one->input.data, "a parked command keeps input that was not sent");
    transport_run_park(two, "b");
    ok(one->closed && l->parked == two, "a second parked command is in place of the first");
    ok(!transport_run_unpark(l, "a", &run_events, NULL), "the first one cannot be taken");
    struct transport_run *three = start(l, "three");
    transport_run_park(three, "b");
    ok(transport_run_unpark(l, "b", &run_events, NULL) == three, "the newest one has the name");
    ok(!transport_run_unpark(l, "b", &run_events, NULL), "a parked command can be taken once");
    fake_exit(fake_run(0), 0);
    is_int(seen.ends, 1, "the new owner gets the end of a parked command");
    transport_run_park(three, "b");
    ok(!l->parked, "a command that has ended is not parked");
    struct transport_run *four = start(l, "four");
    transport_run_close(four);
    transport_run_park(four, "b");
    ok(!l->parked, "a closed command is not parked");
    struct transport_run *five = start(l, "five");
    transport_run_park(five, "b");
    transport_run_close(five);
    ok(!l->parked, "a parked command may be closed");
    transport_run_park(start(l, "six"), "b");
    transport_notify_down(l, &(struct err){.code = ERR_NET});
    ok(!l->parked && !transport_run_unpark(l, "b", &run_events, NULL),
       "a link that is down has no parked command");
    fake_free_all();
}

static void test_words(void) {
    struct arena a = {0};
    is_str(transport_path_word(&a, "~"), "~", "the home folder is not quoted");
    is_str(transport_path_word(&a, "~/"), "~/", "nothing below the home folder is not quoted");
    is_str(transport_path_word(&a, "~/a b"), "~/'a b'", "a path below it is quoted");
    is_str(transport_path_word(&a, "~a b"), "'~a b'", "another tilde is quoted");
    arena_fini(&a);
}

int main(void) {
    test_room();
    test_order();
    test_collected();
    test_send_end();
    test_late_room();
    test_late_events();
    test_down();
    test_refused();
    test_distance();
    test_parking();
    test_words();

    return done_testing();
}
