// SPDX-License-Identifier: Apache-2.0
// Objects are fetched in ranges: which are asked for, what is ready, failures and checks. The test
// is the server.
#include "tests/unit/stream/object_server.h"

static uint64_t ready_at(size_t i, uint64_t at) {
    return stream_coming_ready(&store, object(i), at);
}

// Whether another process finds the hash of the object's content by its ETag.
static bool is_known(const struct stream_object *o) {
    struct known k;
    if (known_open(&k, file_join(&arena, folder, "known"), &error) < 0)
        bail_out("%s", error.text);
    const unsigned char *hash = known_find(&k, o->want.id);
    bool same = hash && memcmp(hash, o->hash, HASH_BYTES) == 0;
    known_close(&k);
    return same;
}

// ---- ranges -------------------------------------------------------------------------------------

static void test_ranges(void) {
    begin();
    add("a", 5 * UNIT + 100, "etag");
    ready();
    step();
    is_str(asked(), "a:0-8388607", "the first request is for two units");
    is_str(header(calls[0], "If-Match"), "\"etag\"", "the request is for this version");
    is_uint(store.to_come, 6 * UNIT, "all units are to come");
    step();
    is_str(asked(), "", "other requests wait until the server has shown that it knows ranges");
    answer(0, 1);
    step();
    is_str(asked(), "a:8388608-16777215 a:16777216-20971619", "the rest is asked for at once");
    answer(0, CAS_PIECE_BYTES);
    is_uint(ready_at(0, 0), CAS_PIECE_BYTES, "bytes are ready as they are written");
    is_uint(ready_at(0, CAS_PIECE_BYTES - 1), 1, "the last of them is ready");
    is_uint(ready_at(0, CAS_PIECE_BYTES), 0, "the next one is not");
    answer(1, 2 * CAS_PIECE_BYTES);
    is_uint(ready_at(0, 2 * UNIT), 2 * CAS_PIECE_BYTES, "other requests have ready bytes, too");
    is_uint(ready_at(0, 2 * UNIT - 1), 0, "there are none before them");
    answer(0, UNIT - CAS_PIECE_BYTES - 1);
    is_uint(ready_at(0, 10), UNIT - 10, "a unit is ready");
    is_uint(store.to_come, 5 * UNIT, "five units are to come");
    answer(1, UNIT - 2 * CAS_PIECE_BYTES - 1);
    is_uint(store.to_come, 5 * UNIT, "a unit counts when it is complete");
    answer(1, 1);
    is_uint(store.to_come, 4 * UNIT, "the last byte completes it");
    answer(0, UINT64_MAX);
    is_uint(ready_at(0, UNIT + 1), 2 * UNIT - 1, "units behind one another are ready together");
    answer(2, UINT64_MAX);
    is_uint(ready_at(0, 4 * UNIT + 1), UNIT + 99, "the last unit ends with the object");
    is_uint(store.to_come, UNIT, "one unit is to come");
    is_int(object(0)->state, STREAM_COMING, "the object is not complete");
    answer(1, UINT64_MAX);
    is_int(object(0)->state, STREAM_CHECKING, "a complete object is checked");
    ok(stream_coming_busy(object(0)), "nothing may remove an object meanwhile");
    await_check(object(0));
    is_int(object(0)->state, STREAM_WHOLE, "the object is whole");
    is_uint(store.read, 5 * UNIT + 100, "each byte came once");
    is_uint(store.to_come, 0, "nothing is to come");
    is_uint(store.inputs[0].missing, 0, "no object is missing");
    ok(is_known(object(0)), "the hash is known by the ETag");
    ok(!stream_coming_busy(object(0)), "a whole object is not busy");
    read_from(0, 0, UNIT - 5, 1000);
    ok(reads(0, 1000), "the content is right");
    stream_reader_end(&store, &readers[0]);
    step();
    is_str(asked(), "", "nothing more is asked for");
    end();
}

static void test_whole_answer(void) {
    begin();
    add("a", 3 * UNIT, "etag");
    ready();
    ignores_ranges = true;
    step();
    is_str(asked(), "a:0-8388607", "a range is asked for");
    answer(0, UNIT);
    is_uint(ready_at(0, 0), UNIT, "the server sends the whole object instead");
    step();
    is_str(asked(), "", "no range is asked for any more");
    ok(store.inputs[0].whole_only, "the input's server knows no ranges");
    refuse(0, "reset");
    has_str(object(0)->why->text, "'a': reset", "the object has the reason");
    step();
    is_str(asked(), "", "an object that has failed is not asked for by itself");
    read_from(0, 0, 0, 10);
    step();
    is_str(asked(), "a:4194304-12582911", "units that have not come are asked for again");
    end();
    begin();
    add("a", 3 * UNIT, "etag");
    ready();
    ignores_ranges = true;
    step();
    answer(0, UINT64_MAX);
    await_check(object(0));
    is_int(object(0)->state, STREAM_WHOLE, "an object that came by one answer is whole");
    end();
}

// A server that does not say which version it sends.
static void test_no_etag(void) {
    begin();
    add("a", 3 * UNIT, "");
    ready();
    read_from(0, 0, 2 * UNIT, 10);
    step();
    is_str(asked(), "a:all", "an object without an ETag comes by one request");
    answer(0, UNIT);
    step();
    is_str(asked(), "", "there is no second one");
    is_uint(stream_reader_ready(&store, &readers[0]), 0, "no byte is read before the check");
    refuse(0, "reset");
    stream_reader_end(&store, &readers[0]);
    read_from(0, 0, 2 * UNIT, 10);
    step();
    is_str(asked(), "a:all", "the object comes from the beginning again");
    answer(1, UINT64_MAX);
    await_check(object(0));
    ok(reads(0, 10), "the content is right");
    ok(!is_known(object(0)), "the hash is not known by an ETag");
    stream_reader_end(&store, &readers[0]);
    end();
}

static void test_wrong(void) {
    struct stream_input *in = begin();
    add("a", UNIT, "etag");
    object(0)->want.hashed = true;
    ready();
    step();
    answer(0, UINT64_MAX);
    await_check(object(0));
    is_str(object(0)->why->text, "'a': its content has changed since it was listed (try again)",
           "another content than the list has is an error");
    is_int(object(0)->why->code, ERR_HASH, "the error is one of content");
    is_int(object(0)->state, STREAM_ABSENT, "nothing of it stays");
    is_uint(in->kept, 0, "a wrong object takes no room");
    ok(!is_known(object(0)), "the hash is not known");
    end();
    begin();
    add("a", UNIT, "0123456789abcdef0123456789abcdef");
    ready();
    step();
    answer(0, UINT64_MAX);
    await_check(object(0));
    has_str(object(0)->why->text, "the received bytes have the MD5",
            "an ETag that is an MD5 is compared");
    end();
    begin();
    add("a", UNIT, "0123456789abcdef0123456789abcdef");
    ready();
    step();
    calls[0]->kms = true;
    answer(0, UINT64_MAX);
    await_check(object(0));
    is_int(object(0)->state, STREAM_WHOLE, "an ETag of an encrypted object is no MD5");
    end();
}

// ---- requests that fail -------------------------------------------------------------------------

static void test_failures(void) {
    begin();
    add("a", 8 * UNIT, "etag");
    ready();
    step();
    refuse(0, "reset");
    read_from(0, 0, 0, 8 * UNIT);
    step();
    is_str(asked(), "a:0-8388607 a:0-8388607", "after a failure the first request is made again");
    step();
    is_str(asked(), "", "the request is a first one again");
    answer(1, 1);
    step();
    is_str(asked(), "a:8388608-16777215 a:16777216-25165823 a:25165824-33554431",
           "the rest follows");
    answer(2, UNIT + 1);
    refuse(2, "reset");
    answer(3, UINT64_MAX);
    stream_reader_end(&store, &readers[0]);
    read_from(0, 0, 0, 8 * UNIT);
    step();
    is_str(asked(), "a:12582912-16777215", "only units that have not come are asked for again");
    answer(5, UINT64_MAX);
    answer(1, UINT64_MAX);
    answer(4, UINT64_MAX);
    await_check(object(0));
    is_int(object(0)->state, STREAM_WHOLE, "the object is whole");
    ok(!object(0)->why, "the object has no reason any more");
    stream_reader_end(&store, &readers[0]);
    end();
}

static void test_new_try(void) {
    begin();
    add("a", 2 * UNIT, "etag");
    ready();
    step();
    answer(0, UNIT);
    calls[0]->on_try(calls[0], &error);
    is_uint(store.to_come, UNIT, "a unit that has come stays when the request is tried again");
    answer(0, UINT64_MAX);
    is_uint(store.to_come, 0, "each unit counts once");
    await_check(object(0));
    is_int(object(0)->state, STREAM_WHOLE, "the object is whole");
    is_uint(store.read, 3 * UNIT, "all that came is counted");
    end();
}

static void test_reasons(void) {
    for (int i = 0; i < 3; i++) {
        begin();
        add("a", UNIT, "etag");
        ready();
        step();
        object(0)->changed = i != 0;
        object(0)->gone = i == 2;
        refuse(0, "denied");
        is_str(object(0)->why->text,
               i == 0   ? "'a': denied"
               : i == 1 ? "'a': it has changed since it was listed (try again)"
                        : "'a': it is not in the source any more",
               "the reason is what the list says (%d)", i);
        is_int(object(0)->why->code, i ? ERR_HASH : ERR_NET, "the code is that of the reason");
        end();
    }
    begin();
    add("a", UNIT, "etag");
    ready();
    step();
    object(0)->changed = true;
    answer(0, UINT64_MAX);
    ok(!object(0)->why, "a request that succeeds needs no reason");
    end();
}

static void test_resumed(void) {
    begin();
    add("a", 4 * UNIT, "etag");
    ready();
    step();
    answer(0, UINT64_MAX);
    end();
    begin_again();
    add("a", 4 * UNIT, "etag");
    ready();
    step();
    is_str(asked(), "a:8388608-16777215", "units on the disk are not asked for");
    is_uint(store.to_come, 2 * UNIT, "the others are to come");
    is_uint(ready_at(0, 0), 2 * UNIT, "units on the disk are ready");
    answer(0, UINT64_MAX);
    end(); // before the check has ended
    struct stream_input *in = begin_again();
    add("a", 4 * UNIT, "etag");
    ready();
    step();
    is_str(asked(), "", "an object that is there is not asked for");
    await_check(object(0));
    is_int(object(0)->state, STREAM_WHOLE, "the object is checked");
    is_uint(in->kept, 4 * UNIT, "the object takes its room");
    end();
}

// ---- the operator's computer --------------------------------------------------------------------

static size_t asks[REQUESTS_MAX], ask_count;

static void ask(void *ctx, size_t slot, const struct stream_slot *x) {
    is_int(ctx == &ask_count && x == &store.slots[slot], true, "the slot is that of the request");
    asks[ask_count++] = slot;
}

static void send_source(size_t slot, uint64_t len) {
    const struct object_range *r = &store.slots[slot].range;
    unsigned char *p = content(r->want, r->from + r->got, len);
    stream_source_bytes(&store, slot, p, (size_t)len);
    free(p);
}

static void test_source(void) {
    begin();
    add_at("a", 4 * UNIT, "etag", false);
    ready();
    ask_count = 0;
    step();
    is_str(asked(), "", "no server is asked for an object of the operator's computer");
    store.ask_ctx = &ask_count;
    store.ask = ask;
    step();
    is_uint(ask_count, 1, "the operator's computer is asked once it can be reached");
    ok(stream_source_asks(&store, asks[0]), "a range of it is under way");
    ok(!stream_source_asks(&store, asks[0] + 1), "another slot is idle");
    send_source(asks[0], UNIT);
    step();
    is_uint(ask_count, 2, "the answers of that computer are ranges");
    stream_source_lost(&store);
    ok(!object(0)->why, "a lost connection is no failure of the object");
    ok(!stream_source_asks(&store, asks[0]), "no range is under way");
    store.ask = NULL;
    step();
    is_uint(ask_count, 2, "without a connection it is not asked");
    store.ask = ask;
    step();
    is_uint(ask_count, 4, "the operator's computer is asked for the missing units");
    is_uint(store.slots[asks[2]].range.from, UNIT, "the first unit is here");
    send_source(asks[2], 2 * UNIT);
    send_source(asks[3], UNIT);
    await_check(object(0));
    is_int(object(0)->state, STREAM_WHOLE, "the object is whole");
    end();
    begin();
    add_at("a", UNIT, "etag", false);
    add("b", UNIT, "etag");
    ready();
    store.ask_ctx = &ask_count;
    store.ask = ask;
    step();
    size_t slot = asks[ask_count - 1];
    ok(!stream_source_asks(&store, !slot), "a request to a server is none to this computer");
    stream_source_lost(&store);
    is_int(object(1)->state, STREAM_COMING, "requests to servers continue");
    ok(stream_coming_busy(object(1)), "the request to the server is under way");
    step();
    struct err e = {0};
    (void)err_set(&e, ERR_NOT_FOUND, "no such file");
    stream_source_failed(&store, asks[ask_count - 1], &e);
    is_str(object(0)->why->text, "'a': no such file", "the object has the reason");
    end();
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_ranges();
    test_whole_answer();
    test_no_etag();
    test_wrong();
    test_failures();
    test_new_try();
    test_reasons();
    test_resumed();
    test_source();
    file_remove_tree(folder, &error);
    arena_fini(&arena);
    return done_testing();
}
