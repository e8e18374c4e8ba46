// SPDX-License-Identifier: Apache-2.0
// Content by hash from one store to another one over a channel: all of it, what the sender has,
// what may not be asked for, other content, pieces out of turn, questions that are none.
#include "copies/content_transfer.h"

#include "base/clock.h"
#include "content/hash_cache.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"
#include "tests/unit/shell.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60000, ITEMS = 40 };

static struct err e, taken_err;
static struct arena arena;
static char folder[] = "/tmp/test_content.XXXXXX";
static struct loop *loop;
static struct channel ends[2]; // the sender's, the receiver's
static struct cas from, to;
static struct content_sender sender;
static struct content_receiver receiver;
static struct content_item items[ITEMS];
static size_t item_count;
static bool came[ITEMS], over;
static int holders[ITEMS], pieces;
static void (*spoil)(struct wire_msg *m); // of the sender's messages
static struct content_look look;
static uint64_t event_bytes_max; // that one turn of the loop has read
static int looks;                // answers without bits

static void on_taken(struct content_receiver *t, const struct err *why) {
    (void)t;
    taken_err = *why;
    over = true;
}

static void on_ready(struct channel *l) {
    if (l == &ends[1])
        content_receiver_open(&receiver);
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct wire_msg copy = *m;
    int rc = 0;
    if (l == &ends[1]) {
        looks += m->type == WIRE_CONTENT_HAVE && m->data_len == 0;
        if (spoil)
            spoil(&copy);
        content_receiver_message(&receiver, &copy);
        return;
    }
    if (m->type == WIRE_CONTENT_ASK)
        rc = content_sender_ask(&sender, l, m, &taken_err);
    else
        rc = content_sender_get(&sender, l, m, &taken_err);
    pieces += m->type == WIRE_STATE_GET;
    over |= rc < 0;
}

static void on_end(struct channel *l, const struct err *why) {
    (void)l;
    (void)why;
}

// Adds content of so many bytes to a store.
static void add(struct cas *c, size_t size, unsigned seed) {
    struct content_item *item = &items[item_count++];
    unsigned char *p = arena_new(&arena, unsigned char, size);
    struct cas_part part;
    const char *path;
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1103515245 + 12345;
        p[i] = (unsigned char)(seed >> 16);
    }
    hash_of(item->hash, p, size);
    item->size = size;
    if (!c)
        return;
    if (size <= CAS_SMALL_BYTES_MAX) {
        if (cas_add_small(c, item->hash, p, size, &e) < 0)
            bail_out("%s", e.text);
        return;
    }
    if (cas_part_open(c, &part, item->hash, size, &e) < 0)
        bail_out("%s", e.text);
    for (size_t at = 0; at < size; at += CAS_PIECE_BYTES)
        if (cas_part_write(&part, at, p + at,
                           size - at < CAS_PIECE_BYTES ? size - at : CAS_PIECE_BYTES, &e) < 0)
            bail_out("%s", e.text);
    if (cas_part_hash(&part, size, &e) <= 0 || cas_part_finish(c, &part, &path, &e) < 0)
        bail_out("%s", e.text);
    cas_part_close(&part);
}

static struct content_item *known(size_t count) {
    struct content_item *copy = arena_new(&arena, struct content_item, count + 1);
    memcpy(copy, items, count * sizeof *copy);
    qsort(copy, count, sizeof *copy, content_order);
    return copy;
}

// Opens an empty store for the receiver.
static void begin(const char *name) {
    if (to.dir && cas_close(&to, false, &e) < 0)
        bail_out("%s", e.text);
    if (cas_open(&to, arena_printf(&arena, "%s/%s", folder, name), &e) < 0 || cas_load(&to, &e) < 0)
        bail_out("%s", e.text);
    memset(came, 0, sizeof came);
    spoil = NULL;
    receiver = (struct content_receiver){
        .cas = &to, .items = items, .count = item_count, .came = came, .on_end = on_taken};
}

static void turn(void) {
    uint64_t before = bytes_read();
    loop_once(loop, 100);
    uint64_t bytes = bytes_read() - before;
    event_bytes_max = bytes > event_bytes_max ? bytes : event_bytes_max;
    if (content_sender_looks(&sender))
        sender.said_ms -= CONTENT_LOOKS_MS; // its time is over
}

static int copy(void) {
    static const struct channel_events events = {on_ready, on_message, on_end};
    static const struct channel_secret secret = {.run = "x", .magic = WIRE_MAGIC_COPIES};
    int fds[2];
    over = false;
    pieces = 0;
    taken_err = (struct err){0};
    loop = loop_open(&e);
    receiver.loop = loop;
    sender.loop = loop;
    sender.look = &look;
    event_bytes_max = 0;
    looks = 0;
    receiver.link = &ends[1];
    if (!loop || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ||
        channel_open(&ends[0], loop, fds[0], CHANNEL_COORDINATOR, false, &secret, &events, &e) <
            0 ||
        channel_open(&ends[1], loop, fds[1], CHANNEL_AGENT, false, &secret, &events, &e) < 0)
        bail_out("no link: %s", e.text);
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; !over && clock_mono_ms() < until;)
        turn();
    if (!over)
        bail_out("nothing happens");
    content_receiver_close(&receiver);
    content_sender_close(&sender);
    channel_close(&ends[0]);
    channel_close(&ends[1]);
    loop_close(loop);
    return taken_err.code ? -1 : 0;
}

static size_t count_came(void) {
    size_t count = 0;
    for (size_t i = 0; i < item_count; i++)
        count += came[i] && content_is_here(&to, &items[i]);
    return count;
}

static void test_all(void) {
    for (size_t i = 0; i < 30; i++)
        add(&from, 100 + 1000 * i, (unsigned)i);
    add(&from, CAS_SMALL_BYTES_MAX, 100);
    add(&from, CAS_SMALL_BYTES_MAX + 1, 101);
    add(&from, 3 * CAS_UNIT_BYTES + 5, 102);
    add(NULL, 5000, 103);  // the sender lacks it
    add(&from, 6000, 104); // may not be asked for
    sender = (struct content_sender){
        .cas = &from, .known = known(item_count - 1), .known_count = item_count - 1};
    begin("all");
    is_int(copy(), 0, "content is copied%s", taken_err.text);
    is_uint(count_came(), 33, "all comes that the sender has and that may be asked for");
    ok(!came[33], "content that the sender lacks does not come");
    ok(!came[34], "content of no input of the run does not come");
    ok(pieces > 3 * CAS_UNIT_BYTES / WIRE_DATA_BYTES_MAX, "content comes in pieces");
    receiver = (struct content_receiver){
        .cas = &to, .items = items, .count = item_count, .came = came, .on_end = on_taken};
    is_int(copy(), 0, "the same is asked for again");
    is_int(pieces, 0, "nothing is sent again");
    begin("paced");
    receiver.paced = true;
    is_int(copy(), 0, "content is copied with pauses%s", taken_err.text);
    is_uint(count_came(), 33, "the same comes");
    begin("counted");
    receiver.holders = holders;
    is_int(copy(), 0, "content is counted");
    is_int(holders[0] + holders[32] + holders[33] + holders[34], 2,
           "the sender is counted as a holder");
    is_int(pieces, 0, "nothing is sent");
}

// Another process adds content to the sender's store, and damages some.
static void test_others(void) {
    struct cas other = {0};
    item_count = 0;
    if (cas_open(&other, arena_printf(&arena, "%s/from", folder), &e) < 0)
        bail_out("%s", e.text);
    add(&other, 777, 200);
    add(&other, CAS_UNIT_BYTES, 201);
    add(&other, CAS_UNIT_BYTES + 1, 202);
    if (cas_flush(&other, &e) < 0 || hash_cache_save(other.hashes, &e) < 0)
        bail_out("%s", e.text);
    sender.known = known(item_count);
    sender.known_count = item_count;
    ok(shell(arena_printf(&arena,
                          "f=%s && chmod u+w $f && printf x | dd of=$f conv=notrunc "
                          "status=none",
                          cas_object_path(&other, items[2].hash))) == 0,
       "content is damaged");
    begin("others");
    is_int(copy(), 0, "content of another process is copied%s", taken_err.text);
    ok(came[0] && came[1], "whole content comes");
    ok(!came[2], "damaged content is not given");
    cas_close(&other, false, &e);
}

// ---- large content, hashed again ----------------------------------------------------------------

enum { LARGE = 2 * CONTENT_STEP_BYTES + 5, SPARE = 1 << 20 };

// A store after a reboot: nothing is known of its object, which has LARGE bytes and is so old that
// its hash is kept.
static void begin_large(const char *name) {
    static unsigned char hash[HASH_BYTES];
    static struct cas c;
    item_count = 1;
    items[0] = (struct content_item){.size = LARGE};
    if (hash[0] == 0) {
        char *p = heap_alloc(LARGE);
        hash_of(hash, p, LARGE);
        free(p);
    }
    memcpy(items[0].hash, hash, HASH_BYTES);
    const char *dir = arena_printf(&arena, "%s/%s", folder, name);
    if (cas_open(&c, dir, &e) < 0)
        bail_out("%s", e.text);
    const char *path = cas_object_path(&c, hash);
    if (file_make_dirs(file_dir(&arena, path), 0755, &e) < 0 ||
        file_write_atomic(path, "", 0, 0444, &e) < 0 || truncate(path, LARGE) < 0)
        bail_out("no object");
    usleep(2 * HASH_CACHE_FRESH_NS / 1000);
    cas_close(&c, false, &e);
    if (cas_open(&c, dir, &e) < 0)
        bail_out("%s", e.text);
    sender = (struct content_sender){.cas = &c, .known = known(1), .known_count = 1};
}

static void test_large(void) {
    begin_large("large");
    begin("large-to");
    holders[0] = 0;
    receiver.holders = holders;
    is_int(copy(), 0, "large content is looked for%s", taken_err.text);
    is_int(holders[0], 1, "large content is here, says its hash");
    ok(event_bytes_max <= CONTENT_STEP_BYTES + SPARE,
       "an event of the loop hashes little: %llu KiB", (unsigned long long)event_bytes_max >> 10);
    ok(looks >= 1, "the sender says that it still looks");
    ok(!look.by && !look.check.open, "the object is closed");
    cas_close(sender.cas, false, &e);
}

static void ask(struct content_sender *s) {
    static struct channel closed;
    struct wire_msg m = {.type = WIRE_CONTENT_ASK, .data = items[0].hash, .data_len = HASH_BYTES};
    s->loop = loop;
    s->look = &look;
    is_int(content_sender_ask(s, &closed, &m, &e), 0, "a sender is asked");
}

// Two connections ask for one object.
static void test_turns(void) {
    static struct channel closed;
    begin_large("turns");
    struct content_sender other = sender;
    struct wire_msg get = {.type = WIRE_STATE_GET, .bytes = 1};
    loop = loop_open(&e);
    ask(&sender);
    ask(&other);
    ok(content_sender_looks(&sender) && content_sender_looks(&other), "both of them look");
    is_int(content_sender_get(&sender, &closed, &get, &e), -1, "nothing is given before");
    loop_once(loop, 0);
    content_sender_close(&sender);
    ok(!look.by && !look.check.open, "the object is closed with the connection that had it");
    uint64_t before = bytes_read();
    ask(&sender);
    while (content_sender_looks(&sender) || content_sender_looks(&other))
        loop_once(loop, 100);
    uint64_t bytes = bytes_read() - before;
    ok(bytes <= LARGE + SPARE, "one object is hashed once for both: %llu KiB",
       (unsigned long long)bytes >> 10);
    is_int(content_sender_get(&sender, &closed, &get, &e), 0, "one gives it");
    is_int(content_sender_get(&other, &closed, &get, &e), 0, "the other one gives it");
    content_sender_close(&sender);
    content_sender_close(&other);
    loop_close(loop);
    cas_close(sender.cas, false, &e);
}

// ---- hostile senders ----------------------------------------------------------------------------

static void other_data(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA && m->data_len)
        m->data = memset(arena_new(&arena, char, (size_t)m->data_len), 'x', (size_t)m->data_len);
}

static void other_large(struct wire_msg *m) {
    if (m->file == 32)
        other_data(m);
}

static void out_of_turn(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA)
        m->offset++;
}

static void cut(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA)
        m->data_len--;
}

static void empty(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA)
        m->data_len = 0;
}

static void short_answer(struct wire_msg *m) {
    if (m->type == WIRE_CONTENT_HAVE)
        m->data_len--;
}

static void unasked(struct wire_msg *m) {
    if (m->type == WIRE_CONTENT_HAVE)
        *m = (struct wire_msg){.type = WIRE_STATE_DATA, .data = "x", .data_len = 1};
}

static void gives_up(struct wire_msg *m) {
    if (m->type == WIRE_STATE_DATA)
        *m = (struct wire_msg){.type = WIRE_STATE_END, .reason = "no more"};
}

static void hostile(void (*how)(struct wire_msg *m), int code, const char *text, const char *what) {
    static int number;
    begin(arena_printf(&arena, "hostile%d", number++));
    spoil = how;
    is_int(copy(), -1, "%s", what);
    is_int(taken_err.code, code, "  the code says so");
    ok(strstr(taken_err.text, text), "  the reason says so: %s", taken_err.text);
}

static void test_hostile(void) {
    hostile(other_data, ERR_HASH, "does not match its hash", "other content");
    is_uint(count_came(), 0, "the content is not stored");
    hostile(other_large, ERR_HASH, "does not match its hash", "other large content");
    ok(!came[32] && !content_is_here(&to, &items[32]), "the content is not stored");
    is_uint(count_came(), 32, "the content in front is stored");
    spoil = NULL;
    receiver = (struct content_receiver){
        .cas = &to, .items = items, .count = item_count, .came = came, .on_end = on_taken};
    is_int(copy(), 0, "an honest sender is asked%s", taken_err.text);
    is_uint(count_came(), 33, "the honest sender gives the rest");
    hostile(out_of_turn, ERR_FORMAT, "out of turn", "a piece out of turn");
    hostile(cut, ERR_FORMAT, "into pieces", "half of small content");
    hostile(empty, ERR_FORMAT, "out of turn", "a piece without a byte");
    hostile(short_answer, ERR_FORMAT, "another question", "too few bits come");
    hostile(unasked, ERR_FORMAT, "out of turn", "content before the answer");
    hostile(gives_up, ERR_FAILED, "no more", "a sender gives up");
}

// ---- hostile receivers --------------------------------------------------------------------------

static int give(struct wire_msg m) {
    static struct channel closed;
    sender.look = &look;
    err_clear(&e);
    return m.type == WIRE_CONTENT_ASK ? content_sender_ask(&sender, &closed, &m, &e)
                                      : content_sender_get(&sender, &closed, &m, &e);
}

static void test_giver(void) {
    struct wire_msg asks = {
        .type = WIRE_CONTENT_ASK, .data = items[0].hash, .data_len = HASH_BYTES};
    struct wire_msg get_it = {.type = WIRE_STATE_GET, .bytes = (int64_t)items[0].size};
    is_int(give(get_it), -1, "content is refused without a question");
    is_int(give(asks), 0, "a question is answered");
    is_int(give(get_it), 0, "the content is given");
    for (int i = 0; i < 6; i++) {
        struct wire_msg m = get_it;
        m.file = i == 0 ? 1 : i == 1 ? -1 : 0;
        m.offset = i == 2 ? 1 : i == 3 ? -1 : 0;
        m.bytes = i == 4 ? 0 : i == 5 ? WIRE_DATA_BYTES_MAX + 1 : m.bytes;
        is_int(give(m), -1, "bytes that there are not are refused, case %d", i);
    }
    asks.data_len = HASH_BYTES - 1;
    is_int(give(asks), -1, "half of a hash is refused");
    asks.data_len = 0;
    is_int(give(asks), -1, "no hash is refused");
    content_sender_close(&sender);
}

int main(void) {
    if (!mkdtemp(folder) || cas_open(&from, arena_printf(&arena, "%s/from", folder), &e) < 0)
        bail_out("no folder: %s", e.text);
    test_all();
    test_hostile();
    test_giver();
    test_others();
    test_large();
    test_turns();
    cas_close(&from, false, &e);
    cas_close(&to, false, &e);
    shell(arena_printf(&arena, "rm -rf %s", folder));
    arena_fini(&arena);
    return done_testing();
}
