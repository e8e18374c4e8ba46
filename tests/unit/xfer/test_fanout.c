// SPDX-License-Identifier: Apache-2.0
// Fan-out, the operator's side: which nodes form a chain, how its links come to stand, what a chain
// does when a node is lost.
#include "base/clock.h"
#include "tests/unit/xfer/fanout_nodes.h"

// Every push says how far it is.
static void let_tick(void) {
    for (int64_t until = clock_mono_ms() + 2 * XFER_TICK_MS; clock_mono_ms() < until;)
        loop_once(loop, XFER_TICK_MS / 4);
}

// Three nodes that lack the same files. The one that joined last is the first of the chain.
static struct fanout *three(const char *names) {
    static const char *const at[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
    struct fanout *g = fanout_new(loop);
    for (int i = 0; i < 3; i++)
        join(g, i, at[i], NULL);
    for (int i = 0; i < 3; i++)
        lacks(&nodes[i], names);
    loop_once(loop, 0);
    return g;
}

static void test_chain(void) {
    static const char *const at[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
    struct node *n = nodes;
    struct fanout *g = fanout_new(loop);
    for (int i = 0; i < 3; i++)
        join(g, i, at[i], NULL);
    lacks(&n[0], "abc");
    lacks(&n[1], "abd");
    ok(hears_nothing(&n[0]) && hears_nothing(&n[1]), "a node that compares is awaited");
    lacks(&n[2], "ab");
    hear(&n[1]);
    is_int(n[1].heard[XFER_RELAY_FROM], 1, "the second node waits for the first");
    is_str(n[1].from.address, at[1], "a node listens at its own address");
    is_uint(n[1].from.port, 0, "a node chooses its port");
    is_int(hears(&n[0], XFER_RELAY_FROM), 1, "the last node waits for the one before");
    is_mem(n[0].from.key, XFER_RELAY_KEY_BYTES, n[1].from.key, XFER_RELAY_KEY_BYTES,
           "a chain has one key");
    ok(hears_nothing(&n[2]), "the first node waits for nothing");
    says_port(&n[0], 65535);
    is_int(hears(&n[1], XFER_RELAY_TO), 1, "the node before the last connects to it");
    is_str(n[1].to.address, at[0], "the node connects to the address of the next one");
    is_uint(n[1].to.port, 65535, "the node connects to the port of the next one");
    is_mem(n[1].to.key, XFER_RELAY_KEY_BYTES, n[0].from.key, XFER_RELAY_KEY_BYTES,
           "the key is the chain's");
    says_port(&n[1], 1);
    is_int(hears(&n[2], XFER_RELAY_TO), 1, "the first node connects to the second");
    is_uint(n[2].to.port, 1, "the first node connects to the port of the second");
    say(n[2].run, XFER_RELAY_READY, NULL, 0);
    ok(hears_nothing(&n[2]), "content waits until all links stand");
    say(n[1].run, XFER_RELAY_READY, NULL, 0);
    hear(&n[2]);
    is_str(strbuf_cstr(&n[2].content_names), "cdab", "the first node gets all that any lacks");
    is_uint(n[2].content, sum_of("abcd"), "each file is sent once");
    is_int(n[2].heard[XFER_RELAY_END], 1, "the content of a chain has an end");
    ok(hears_nothing(&n[0]) && hears_nothing(&n[1]), "the others get nothing from here");
    let_tick();
    for (int i = 0; i < 3; i++) {
        is_str(n[i].last.phase, "send", "node %d: content is under way", i);
        is_uint(n[i].last.bytes_total, sum_of("abcd"), "node %d: all of the chain passes", i);
        says_received(&n[i], sum_of("ab"));
    }
    let_tick();
    for (int i = 0; i < 3; i++)
        is_uint(n[i].last.bytes_done, sum_of("ab"), "node %d: content of a chain counts", i);
    lacks(&n[0], "");
    lacks(&n[1], "d");
    let_tick();
    ok(hears_nothing(&n[0]), "a node that lacks nothing hears nothing more");
    is_str(n[0].last.phase, "place", "a node that lacks nothing places its files");
    lacks(&n[2], "");
    hear(&n[1]);
    is_uint(n[1].content, sum_of("d"), "the rest is sent from here");
    is_int(n[1].heard[XFER_DONE], 1, "the rest has an end");
    let_tick();
    is_uint(n[1].last.bytes_total, sum_of("abd"), "content that came before counts");
    for (int i = 0; i < 3; i++) {
        says_result(&n[i]);
        is_int(n[i].ends, 1, "node %d: the push has ended", i);
        is_int(n[i].err.code, ERR_NONE, "node %d: the push is a success: %s", i, n[i].err.text);
    }
    is_uint(n[0].last.files_total, 3, "files are those that the node lacked at first");
    part(g);
}

// More than was sent is never received; less than before neither.
static void test_acknowledged(void) {
    for (int i = 0; i < 3; i++) {
        struct fanout *g = three("ab");
        struct node *n = &nodes[0];
        says_received(n, sum_of("ab") - 1);
        loop_once(loop, 0);
        is_int(n->ends, 0, "the last byte of a chain is awaited");
        says_received(n, sum_of("ab") - (i == 1 ? 2 : i == 0 ? 0 : (size_t)-1));
        loop_once(loop, 0);
        is_int(n->ends, i > 0, "case %d: a node cannot receive more than all, or less than it had",
               i);
        if (i > 0)
            has_str(n->err.text, "bytes that were not sent", "case %d: the error says so", i);
        part(g);
    }
}

// ---- chains that do not pay ---------------------------------------------------------------------

static void test_saving(void) {
    static const struct {
        const char *lacks[2], *address[2];
        bool chain, no_group;
        const char *name;
    } rows[] = {
        {{"b", "b"}, {"10.0.0.1", "10.0.0.2"}, true, false, "enough is saved"},
        {{"f", "f"}, {"10.0.0.1", "10.0.0.2"}, false, false, "a byte too little is saved"},
        {{"fc", "fd"}, {"10.0.0.1", "10.0.0.2"}, false, false, "the nodes lack little in common"},
        {{"a", "b"}, {"10.0.0.1", "10.0.0.2"}, false, false, "the nodes lack different files"},
        {{"ab", ""}, {"10.0.0.1", "10.0.0.2"}, false, false, "one node lacks nothing"},
        {{"ab", "ab"}, {"10.0.0.1", "host"}, false, false, "a name is no address"},
        {{"ab", "ab"}, {NULL, "10.0.0.2"}, false, false, "one node has no address"},
        {{"ab", "ab"}, {"10.0.0.1", "10.0.0.2"}, false, true, "the pushes have no group"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fanout *g = rows[i].no_group ? NULL : fanout_new(loop);
        for (int k = 0; k < 2; k++)
            join(g, k, rows[i].address[k], NULL);
        for (int k = 0; k < 2; k++)
            lacks(&nodes[k], rows[i].lacks[k]);
        hear(&nodes[0]);
        is_int(nodes[0].heard[XFER_RELAY_FROM], rows[i].chain, "%s: a chain or not", rows[i].name);
        is_uint(nodes[0].content, rows[i].chain ? 0 : sum_of(rows[i].lacks[0]),
                "%s: content comes from here or not", rows[i].name);
        hear(&nodes[1]);
        is_uint(nodes[1].content, rows[i].chain ? 0 : sum_of(rows[i].lacks[1]),
                "%s: the other node has the same", rows[i].name);
        part(g);
    }
}

// Nodes of two lists form two chains.
static void test_lists(void) {
    struct fanout *g = fanout_new(loop);
    struct manifest *mine = list, *other = make_list();
    for (int i = 0; i < 4; i++) {
        list = i % 2 ? other : mine;
        join(g, i, "10.0.0.1", NULL);
    }
    list = mine;
    for (int i = 0; i < 4; i++)
        lacks(&nodes[i], "ab");
    for (int i = 0; i < 4; i++)
        is_int(hears(&nodes[i], XFER_RELAY_FROM), i < 2, "node %d: a chain is of one list", i);
    ok(memcmp(nodes[0].from.key, nodes[1].from.key, XFER_RELAY_KEY_BYTES) != 0,
       "each chain has a key");
    part(g);
    manifest_free(other);
}

// The third node compares for long.
static void test_wait(void) {
    struct fanout *g = fanout_new(loop);
    for (int i = 0; i < 3; i++)
        join(g, i, "10.0.0.1", NULL);
    int64_t began = clock_mono_ms();
    lacks(&nodes[0], "ab");
    loop_once(loop, FANOUT_WAIT_MS / 2);
    lacks(&nodes[1], "ab");
    while (hears(&nodes[0], XFER_RELAY_FROM) == 0 && clock_mono_ms() - began < 10000)
        loop_once(loop, 50);
    int64_t took = clock_mono_ms() - began;
    ok(took >= FANOUT_WAIT_MS, "a node that compares is awaited for a second: %lld ms",
       (long long)took);
    ok(took < 10000, "a node that compares for long does not hold up the others");
    lacks(&nodes[2], "ab");
    hear(&nodes[2]);
    is_uint(nodes[2].content, sum_of("ab"), "the node that comes late gets its content from here");
    part(g);
}

// Two pushes at a time; the others begin as these end, which they do not at once.
static void test_to_come(void) {
    struct fanout *g = fanout_new(loop);
    struct node *n = nodes;
    fanout_expect(g, 4);
    for (int i = 0; i < 2; i++)
        join(g, i, "10.0.0.1", NULL);
    lacks(&n[0], "ab");
    lacks(&n[1], "ab");
    is_int(hears(&n[0], XFER_RELAY_FROM), 1, "pushes that are to come do not hold up the first");
    says_port(&n[0], 1);
    say(n[1].run, XFER_RELAY_READY, NULL, 0);
    is_int(hears(&n[1], XFER_RELAY_END), 1, "the first chain has its content");
    lacks(&n[1], "");
    says_result(&n[1]);
    join(g, 2, "10.0.0.1", NULL);
    lacks(&n[2], "ab");
    ok(hears_nothing(&n[2]), "a node waits for the others while a chain has content");
    lacks(&n[0], "");
    says_result(&n[0]);
    join(g, 3, "10.0.0.1", NULL);
    lacks(&n[3], "ab");
    is_int(hears(&n[2], XFER_RELAY_FROM), 1, "the nodes that came later form one chain");
    part(g);
    g = fanout_new(loop);
    fanout_expect(g, 3);
    for (int i = 0; i < 2; i++)
        join(g, i, "10.0.0.1", NULL);
    lacks(&n[0], "ab");
    lacks(&n[1], "ab");
    hear(&n[0]);
    join(g, 2, "10.0.0.1", NULL);
    lacks(&n[2], "ab");
    hear(&n[2]);
    is_uint(n[2].content, sum_of("ab"), "the last node waits for none");
    part(g);
}

// ---- chains that break --------------------------------------------------------------------------

enum breaks {
    BY_NO_PORT,   // the second node cannot listen
    BY_BAD_PORT,  // or so it seems
    BY_LOST,      // the first node cannot connect to the second
    BY_LOST_NEXT, // the second node cannot connect to the third
    BY_END_FIRST, // a node is lost
    BY_END_SECOND,
    BY_END_THIRD,
};

static void break_chain(enum breaks how) {
    static const int lost[] = {[BY_END_FIRST] = 2, [BY_END_SECOND] = 1, [BY_END_THIRD] = 0};
    if (how == BY_NO_PORT)
        says_port(&nodes[1], 0);
    else if (how == BY_BAD_PORT)
        says_port(&nodes[1], 65536);
    else if (how == BY_LOST)
        say(nodes[2].run, XFER_RELAY_LOST, NULL, 0);
    else if (how == BY_LOST_NEXT)
        say(nodes[1].run, XFER_RELAY_LOST, NULL, 0);
    else
        fake_exit(nodes[lost[how]].run, 1);
}

static void test_breaks(void) {
    static const struct {
        const char *name;
        bool starts, ends[3]; // the first gets content now; nodes that hear an end: third to first
    } rows[] = {
        [BY_NO_PORT] = {"a node cannot listen", true, {true, true, true}},
        [BY_BAD_PORT] = {"a port is none", true, {true, true, true}},
        [BY_LOST] = {"the first link is lost", true, {true, true, true}},
        [BY_LOST_NEXT] = {"the second link is lost", false, {true, false, false}},
        [BY_END_FIRST] = {"the first node is lost", false, {true, true, false}},
        [BY_END_SECOND] = {"the second node is lost", true, {true, false, true}},
        [BY_END_THIRD] = {"the third node is lost", false, {false, false, false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fanout *g = three("ab");
        for (int k = 0; k < 3; k++)
            hear(&nodes[k]);
        break_chain((enum breaks)i);
        for (int k = 0; k < 3; k++)
            is_int(nodes[k].ends ? rows[i].ends[k] : hears(&nodes[k], XFER_RELAY_END),
                   rows[i].ends[k], "%s: node %d hears of an end or not", rows[i].name, k);
        if (!nodes[2].ends)
            is_uint(nodes[2].content, rows[i].starts ? sum_of("ab") : 0,
                    "%s: the first node gets content now, or waits", rows[i].name);
        if (!rows[i].starts && !nodes[2].ends) {
            say(nodes[2].run, XFER_RELAY_READY, NULL, 0);
            hear(&nodes[2]);
            is_uint(nodes[2].content, sum_of("ab"), "%s: the remaining link is enough",
                    rows[i].name);
        }
        part(g);
    }
}

// Nodes that were cut off and lack all again are in the next chain; a node takes part in three.
static void test_again(void) {
    struct fanout *g = fanout_new(loop);
    struct node *behind = join(g, 0, "10.0.0.1", NULL), *first = join(g, 1, "10.0.0.2", NULL);
    for (int round = 0; round <= FANOUT_CHAINS_MAX; round++) {
        bool chain = round < FANOUT_CHAINS_MAX;
        lacks(behind, "ab");
        lacks(first, "ab");
        is_int(hears(behind, XFER_RELAY_FROM), chain, "round %d: the node is in a chain or not",
               round);
        hear(first);
        is_uint(first->content + behind->content, chain ? 0 : 2 * sum_of("ab"),
                "round %d: content comes from here or not", round);
        if (!chain)
            break;
        says_port(behind, 0);
        is_int(hears(behind, XFER_RELAY_END), 1, "round %d: the node is cut off", round);
        says_port(behind, 7);
        say(first->run, XFER_RELAY_READY, NULL, 0);
        say(first->run, XFER_RELAY_LOST, NULL, 0);
        ok(hears_nothing(behind), "round %d: late answers change nothing", round);
        hear(first);
        is_uint(first->content, sum_of("ab"), "round %d: the first node gets content alone", round);
    }
    part(g);
}

int main(void) {
    if (!mkdtemp(folder) || !(loop = loop_open(&e)))
        bail_out("cannot start");
    list = make_list();
    test_chain();
    test_acknowledged();
    test_saving();
    test_lists();
    test_wait();
    test_to_come();
    test_breaks();
    test_again();
    manifest_free(list);
    loop_close(loop);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
