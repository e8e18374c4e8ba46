// SPDX-License-Identifier: Apache-2.0
// A generation from one folder to another over a channel: all of it, only what is new, damaged
// files, hostile peers, pieces out of turn.
#include "copies/state_transfer.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60000 };

static struct err e, taken_err;
static struct arena arena;
static char folder[] = "/tmp/test_state_transfer.XXXXXX";
static const char *from, *to;
static struct loop *loop;
static struct channel ends[2]; // the sender's, the receiver's
static struct state_sender sender;
static struct state_receiver receiver;
static bool over;
static void (*spoil)(struct wire_msg *m); // of the sender's messages
static int pieces;

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static void on_taken(struct state_receiver *t, const struct err *why) {
    (void)t;
    taken_err = *why;
    over = true;
}

static void on_ready(struct channel *l) {
    if (l == &ends[0])
        state_sender_offer(&sender, l, "node");
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct wire_msg copy = *m;
    if (l == &ends[0]) {
        pieces++;
        if (state_sender_get(&sender, l, m, &taken_err) < 0)
            over = true;
        return;
    }
    if (spoil)
        spoil(&copy);
    if (m->type == WIRE_STATE_DATA) {
        state_receiver_data(&receiver, &copy);
        return;
    }
    receiver = (struct state_receiver){.loop = loop, .link = l, .folder = to, .on_end = on_taken};
    if (state_receiver_open(&receiver, &copy, &taken_err) < 0)
        over = true;
}

static void on_end(struct channel *l, const struct err *why) {
    (void)l;
    (void)why;
}

static void publish(const char *line) {
    struct manifest *m = manifest_new();
    struct strbuf list = {0};
    if (generation_begin(from, &e) < 0 ||
        !holds(arena_printf(&arena, "cd from/new/state && { %s; }", line)) ||
        manifest_add_path(m, generation_new(&arena, from), "", &(struct manifest_rules){0}, &e) <
            0 ||
        manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("%s: %s", line, e.text);
    generation_encode(m, &list);
    if (generation_publish(from, generation_next(from), list.data, list.len, &e) < 0)
        bail_out("%s", e.text);
    strbuf_fini(&list);
    manifest_free(m);
}

static int copy(void) {
    static const struct channel_events events = {on_ready, on_message, on_end};
    static const struct channel_secret secret = {.run = "x", .magic = WIRE_MAGIC_COPIES};
    int fds[2];
    over = false;
    pieces = 0;
    taken_err = (struct err){0};
    loop = loop_open(&e);
    if (!loop || state_sender_open(&sender, from, generation_newest(from), &e) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ||
        channel_open(&ends[0], loop, fds[0], CHANNEL_AGENT, false, &secret, &events, &e) < 0 ||
        channel_open(&ends[1], loop, fds[1], CHANNEL_COORDINATOR, false, &secret, &events, &e) < 0)
        bail_out("no link: %s", e.text);
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; !over && clock_mono_ms() < until;)
        loop_once(loop, 100);
    state_receiver_close(&receiver);
    state_sender_close(&sender);
    channel_close(&ends[0]);
    channel_close(&ends[1]);
    loop_close(loop);
    return over && !taken_err.code ? 0 : -1;
}

static const char same[] =
    "diff -r --no-dereference from/$(ls from | grep '^[0-9]' | tail -n 1)/state "
    "to/$(ls to | grep '^[0-9]' | tail -n 1)/state";

static void test_all(void) {
    publish("mkdir -p a/b && head -c 3000000 /dev/urandom >a/b/big && : >empty && echo x >y && "
            "ln -s a/b/big link && chmod 600 y && mkdir hollow");
    is_int(copy(), 0, "a generation is copied%s", taken_err.text);
    ok(holds(same), "the copy is the same");
    ok(holds("[ $(stat -c %a to/*/state/y) = 600 ]"), "with modes");
    ok(pieces > 3000000 / STATE_TRANSFER_PIECE_BYTES, "in pieces");
    publish("p=../../$(ls .. -d >/dev/null; ls ../.. | grep '^[0-9]' | tail -n 1)/state && "
            "cp -a $p/. . && echo more >z");
    is_int(copy(), 0, "the next generation is copied%s", taken_err.text);
    ok(holds(same), "the next copy is the same");
    is_int(pieces, 2, "only its list and the new file were sent");
    ok(holds("[ $(ls to | grep -c '^[0-9]') = 2 ]"), "two generations are there");
    publish("echo third >z");
    is_int(copy(), 0, "a third generation");
    ok(holds("[ $(ls to | grep -c '^[0-9]') = 2 ] && [ ! -e to/new ] && [ ! -e to/old ]"),
       "two are kept, and nothing else");
}

static void cut_data(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA && m->file >= 0)
        m->data_len--;
}

static void fill(struct wire_msg *m) {
    m->data = memset(arena_new(&arena, char, (size_t)m->data_len + 1), 'x', (size_t)m->data_len);
}

static void other_data(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA && m->file >= 0)
        fill(m);
}

static void out_of_turn(struct wire_msg *m) {
    m->offset++;
}

static void too_long(struct wire_msg *m) {
    if (m->type == WIRE_STATE_OFFER)
        m->bytes = GENERATION_LIST_BYTES_MAX + 1LL;
}

static void no_list(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA)
        fill(m);
}

static void test_bad(void) {
    static const struct {
        void (*spoil)(struct wire_msg *m);
        const char *what, *text;
    } cases[] = {{cut_data, "a piece that is too short", "out of turn"},
                 {other_data, "other content", "was written again"},
                 {out_of_turn, "another piece", "out of turn"},
                 {too_long, "a list that is too long", "cannot be"},
                 {no_list, "a list that is none", "another format"}};
    publish("echo third >other && echo longer than other >longer");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spoil = cases[i].spoil;
        is_int(copy(), -1, "%s is refused", cases[i].what);
        has_str(taken_err.text, cases[i].text, "the error has the reason");
        ok(holds("[ $(ls to | grep -c '^[0-9]') = 2 ] && grep -q third to/*/state/z"),
           "the copies that were there are as they were");
    }
    spoil = NULL;
    holds("echo other >from/$(ls from | grep '^[0-9]' | tail -n 1)/state/other");
    is_int(copy(), -1, "a file that was written again is refused");
    has_str(taken_err.text, "'other' was written again", "the error has the name");
    holds(": >from/$(ls from | grep '^[0-9]' | tail -n 1)/state/longer");
    is_int(copy(), -1, "a file that was cut is refused");
}

static void test_asking(void) {
    static const struct wire_msg wrong[] = {{.file = 99, .bytes = 1},
                                            {.file = -2, .bytes = 1},
                                            {.file = STATE_TRANSFER_LIST, .bytes = 1 << 20},
                                            {.file = STATE_TRANSFER_LIST, .offset = -1, .bytes = 1},
                                            {.file = 0, .offset = INT64_MAX, .bytes = 1},
                                            {.file = 0, .bytes = INT64_MIN}};
    if (state_sender_open(&sender, from, generation_newest(from), &e) < 0)
        bail_out("%s", e.text);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        is_int(state_sender_get(&sender, &ends[0], &wrong[i], &e), -1, "wrong question %zu", i);
    state_sender_close(&sender);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    from = file_join(&arena, folder, "from");
    to = file_join(&arena, folder, "to");
    test_all();
    test_bad();
    test_asking();
    file_remove_tree(folder, &e);
    arena_fini(&arena);
    return done_testing();
}
