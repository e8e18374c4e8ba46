// SPDX-License-Identifier: Apache-2.0
// The order in which objects are fetched: readers first, in turn, then ahead, in a window and as
// far as the cache has room. The test is the server.
#include "tests/unit/stream/object_server.h"

// ---- readers ------------------------------------------------------------------------------------

static void test_turns(void) {
    begin();
    add("a", 9 * UNIT, "etag");
    add("b", 9 * UNIT, "etag");
    ready();
    read_from(0, 0, 0, 9 * UNIT);
    read_from(1, 1, 2 * UNIT + 1, 3 * UNIT - 1);
    step();
    is_str(asked(), "a:0-8388607 b:8388608-16777215", "each reader has a request");
    ok(store.slots[0].urgent && store.slots[1].urgent, "a reader waits for both");
    answer(0, 1);
    answer(1, 1);
    step();
    is_str(asked(),
           "a:8388608-16777215 b:16777216-20971519 a:16777216-25165823 a:25165824-33554431 "
           "a:33554432-37748735 b:0-8388607 b:20971520-29360127 b:29360128-37748735",
           "readers take turns, up to their last bytes, and the rest is fetched ahead");
    ok(store.slots[5].urgent && !store.slots[7].urgent, "a reader waits for what it asks for");
    for (size_t k = 0; k < 2; k++)
        stream_reader_end(&store, &readers[k]);
    end();
}

// Whether the bytes of a reader are a request of their own. parts: of the input, that came so.
static bool alone(uint64_t size, uint64_t from, uint64_t len, bool ranged, uint64_t before) {
    struct stream_input *in = begin();
    add("a", size, "etag");
    ready();
    in->ranged = ranged;
    in->alone = before;
    read_from(0, 0, from, len);
    step();
    bool is = store.slots[0].alone;
    const char *want = arena_printf(&arena, "a:%llu-%llu", (unsigned long long)from,
                                    (unsigned long long)(from + len - 1));
    if (is && strncmp(asked(), want, strlen(want)) != 0)
        fail("the request is not '%s'", want);
    stream_reader_end(&store, &readers[0]);
    end();
    return is;
}

static void test_alone(void) {
    static const uint64_t MIB = 1 << 20, BIG = 40 * MIB;
    ok(alone(BIG, 9 * MIB, 1000, true, 0), "few bytes are a request of their own");
    ok(alone(BIG, 9 * MIB, MIB, true, 0), "a megabyte is few bytes");
    ok(!alone(BIG, 9 * MIB, MIB + 1, true, 0), "a byte more is not");
    ok(!alone(BIG, 9 * MIB, 1000, false, 0), "the server may know no ranges");
    ok(alone(16 * MIB, 9 * MIB, 1000, false, 0), "a smaller object may come as a whole");
    ok(!alone(16 * MIB + 1, 9 * MIB, 1000, false, 0), "a larger one may not");
    ok(alone(BIG, BIG - 1000, 999, true, 0), "the last byte but one is asked for alone");
    ok(!alone(BIG, BIG - 1000, 1000, true, 0), "the last byte waits for the check");
    ok(!alone(UNIT, 0, 1000, true, 0), "an object of one unit comes by one request");
    ok(alone(UNIT + 1, 0, 1000, true, 0), "an object of two units is larger");
    ok(alone(BIG, 9 * MIB, 1000, true, 5 * MIB - 1000), "an eighth of an input may come so");
    ok(!alone(BIG, 9 * MIB, 1000, true, 5 * MIB - 999), "a byte more may not");
}

static void test_own_bytes(void) {
    struct stream_input *in = begin();
    add("a", 10 * UNIT, "etag");
    ready();
    in->ranged = true;
    read_from(0, 0, 5 * UNIT + 7, 1000);
    read_from(1, 0, 7 * UNIT, 100);
    step();
    is_str(asked(), "a:20971527-20972526 a:29360128-29360227 a:0-8388607",
           "two readers ask for their bytes");
    is_uint(in->alone, 1100, "the bytes are counted");
    stream_reader_end(&store, &readers[1]);
    answer(1, UINT64_MAX);
    answer(0, 999);
    is_uint(stream_reader_ready(&store, &readers[0]), 0, "a part of the bytes is not ready");
    answer(0, 1);
    is_uint(stream_reader_ready(&store, &readers[0]), 1000, "all of them are");
    is_uint(store.to_come, 10 * UNIT, "no unit has come by it");
    ok(reads(0, 400) && reads(0, 600), "the content is right");
    is_uint(store.served, 1000, "the bytes were served");
    is_uint(store.read, 1100, "the server has sent them");
    stream_reader_end(&store, &readers[0]);
    read_from(0, 0, 5 * UNIT, 1000);
    in->whole_only = true;
    step();
    is_str(asked(), "", "a server without ranges is asked for units alone, one at first");
    in->whole_only = false;
    step();
    is_str(asked(), "a:20971520-20972519", "another one is asked");
    refuse(3, "reset");
    ok(!readers[0].asks, "a request that has failed is over");
    stream_reader_end(&store, &readers[0]);
    end();
}

// The server sends a smaller object as a whole when a reader asks for few bytes.
static void test_alone_whole(void) {
    begin();
    add("a", 2 * UNIT, "etag");
    ready();
    ignores_ranges = true;
    read_from(0, 0, UNIT + 5, 1000);
    step();
    is_str(asked(), "a:4194309-4195308 a:all", "few bytes are asked for, and the object");
    answer(0, UINT64_MAX);
    ok(reads(0, 1000), "the reader's bytes are those of its place");
    is_uint(store.to_come, 2 * UNIT, "no unit has come by it");
    stream_reader_end(&store, &readers[0]);
    end();
}

// ---- ahead --------------------------------------------------------------------------------------

static void add_many(size_t count, uint64_t size) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                        "i", "j", "k", "l", "m", "n", "o", "p"};
    for (size_t i = 0; i < count; i++)
        add(names[i], size, "etag");
    ready();
}

static void test_ahead(void) {
    struct stream_input *in = begin();
    add_many(16, 100);
    in->window = 299;
    read_from(0, 2, 0, 10);
    stream_reader_end(&store, &readers[0]);
    step();
    is_str(asked(), "c:all d:all",
           "objects come from the last one that was asked for, in a window");
    is_uint(in->unread, 200, "two objects are unread");
    in->window = 300;
    step();
    is_str(asked(), "e:all", "a larger window has room for one more");
    ok(!store.slots[0].urgent, "no reader waits for it");
    in->window = 1;
    answer(0, UINT64_MAX);
    await_check(object(2));
    read_from(0, 2, 0, 10);
    read_from(1, 3, 0, 10);
    read_from(2, 4, 0, 10);
    is_uint(in->unread, 0, "objects that are read are not unread");
    step();
    is_str(asked(), "f:all", "one object may be larger than the window");
    for (size_t k = 0; k < 3; k++)
        stream_reader_end(&store, &readers[k]);
    in->window = 100000;
    in->next = 14;
    step();
    is_str(asked(), "o:all p:all a:all b:all g:all h:all i:all j:all k:all",
           "the order goes round, and twelve requests are under way");
    end();
    begin();
    add_many(16, 100);
    step();
    is_uint(call_count, STREAM_AHEAD_CALLS_MAX, "twelve requests are under way ahead");
    for (size_t k = 0; k < 4; k++)
        read_from(k, 12 + k, 0, 10);
    step();
    is_uint(call_count, OBJECT_CALLS_MAX, "readers have some more");
    for (size_t k = 0; k < 4; k++)
        stream_reader_end(&store, &readers[k]);
    end();
}

static void test_room(void) {
    struct stream_input *in = begin();
    add_many(3, 100);
    in->cache_max = 299;
    struct stream_input *other = add_input("other");
    add("x", 100, "etag");
    ready();
    step();
    is_str(asked(), "a:all b:all x:all", "an input's cache is full, and another input has its own");
    is_uint(in->kept, 200, "two objects take room");
    is_uint(other->kept, 100, "the other input has one");
    for (size_t i = 0; i < 3; i++)
        answer(i, UINT64_MAX);
    for (size_t i = 0; i < 4; i++)
        await_check(object(i));
    is_uint(other->missing, 0, "the other input is whole");
    step();
    is_str(asked(), "", "objects that were not read stay");
    read_from(0, 2, 0, 10);
    step();
    is_str(asked(), "c:all", "a reader's object takes the place of the oldest one");
    is_int(object(0)->state, STREAM_ABSENT, "the oldest one has gone");
    stream_reader_end(&store, &readers[0]);
    end();
    begin();
    add_many(2, 100);
    step();
    refuse(0, "no");
    answer(1, UINT64_MAX);
    await_check(object(1));
    step();
    is_str(asked(), "a:all b:all", "an object that has failed is left out");
    is_int(object(1)->state, STREAM_WHOLE, "the others come");
    end();
}

// An object of which a part has come goes, too, and its missing units are not to come any more.
static void test_part_goes(void) {
    struct stream_input *in = begin();
    in->cache_max = 3 * UNIT;
    add("a", 2 * UNIT, "etag");
    add("b", 2 * UNIT, "etag");
    ready();
    step();
    is_str(asked(), "a:all", "one object has room");
    answer(0, UNIT);
    refuse(0, "reset");
    is_uint(store.to_come, UNIT, "one unit of it is to come");
    read_from(0, 1, 0, 2 * UNIT);
    step();
    is_str(asked(), "b:all", "a reader's object takes its place");
    is_int(object(0)->state, STREAM_ABSENT, "the part has gone");
    is_uint(store.to_come, 2 * UNIT, "the units of the reader's object alone are to come");
    is_uint(in->kept, 2 * UNIT, "the reader's object alone takes room");
    stream_reader_end(&store, &readers[0]);
    end();
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_turns();
    test_alone();
    test_own_bytes();
    test_alone_whole();
    test_ahead();
    test_room();
    test_part_goes();
    file_remove_tree(folder, &error);
    arena_fini(&arena);
    return done_testing();
}
