// SPDX-License-Identifier: Apache-2.0
// Fan-out of content that is on the nodes alone: givers, takers, and files that no node can give.
#include "tests/unit/xfer/fanout_nodes.h"

static struct xfer_peers peers[NODES_MAX];
static bool lack[NODES_MAX][FILES];

static struct fanout *group(int count) {
    struct fanout *g = fanout_new(loop);
    memset(lack, 0, sizeof lack);
    for (int i = 0; i < count; i++) {
        peers[i] = (struct xfer_peers){.lacks = lack[i], .gives = peers[i].gives};
        join(g, i, arena_printf(&arena, "10.0.0.%d", i + 1), &peers[i]);
    }
    return g;
}

// The files that the push to a node says no other node could give.
static const char *said(int i) {
    static char names[FILES + 1];
    size_t len = 0;
    for (int k = 0; k < FILES; k++)
        if (lack[i][k])
            names[len++] = (char)('a' + k);
    names[len] = '\0';
    return names;
}

// The nodes of the chain that begins now, by number; "": none. Each listens and is connected to.
static const char *stand(int count, int giver) {
    static char chain[NODES_MAX + 1];
    int len = 0;
    for (int i = count; i-- > 0;)
        if (hears(&nodes[i], XFER_RELAY_FROM))
            chain[len++] = (char)('0' + i);
    chain[len] = '\0';
    for (int i = 0; i < len; i++)
        says_port(&nodes[chain[i] - '0'], 7);
    for (int i = 0; i + 1 < len; i++)
        say(nodes[chain[i] - '0'].run, XFER_RELAY_READY, NULL, 0);
    if (len)
        say(nodes[giver].run, XFER_RELAY_READY, NULL, 0);
    return chain;
}

static const char *gives(struct node *n) {
    hear(n);
    is_uint(n->content, 0, "no content leaves this computer");
    return strbuf_cstr(&n->gives);
}

// Two of three nodes have something that others lack. No node has d and f.
static void test_chains(void) {
    struct fanout *g = group(3);
    lacks(&nodes[0], "abcdf");
    lacks(&nodes[1], "bdf");
    ok(hears_nothing(&nodes[0]), "a node that compares may have what others lack");
    lacks(&nodes[2], "Acdf");
    is_str(stand(3, 1), "20", "the node that can give most begins the chain of those that lack it");
    is_str(gives(&nodes[1]), "c:0 a:2 ", "the node gives what it has of what others lack");
    is_int(nodes[1].heard[XFER_RELAY_END], 1, "the list of what to give has an end");
    lacks(&nodes[1], "bdf");
    lacks(&nodes[2], "df");
    is_int(hears(&nodes[1], XFER_RELAY_FROM) + hears(&nodes[2], XFER_DONE), 0,
           "the next chain begins when the last one has ended");
    says_received(&nodes[0], sum_of("ac"));
    lacks(&nodes[0], "bdf");
    is_str(stand(3, 2), "10", "the next chain has another giver");
    is_str(gives(&nodes[2]), "b:1 ", "the other node gives what it has");
    says_received(&nodes[0], sum_of("ac") + sum_of("b"));
    for (int i = 0; i < 3; i++)
        lacks(&nodes[i], "df");
    for (int i = 0; i < 3; i++) {
        is_int(hears(&nodes[i], XFER_DONE), 1, "node %d: the push ends when none can give more", i);
        is_str(said(i), "df", "node %d: the push says what no node could give", i);
        says_result(&nodes[i]);
        is_int(nodes[i].err.code, ERR_NONE, "node %d: to lack files is no error", i);
        is_str(nodes[i].last.phase, "place", "node %d: the files are placed", i);
    }
    is_uint(nodes[0].last.bytes_total, sum_of("abc"), "the bytes are those that came");
    is_uint(peers[0].lacked, 5, "the first node lacked five files at first");
    is_uint(peers[1].lacked, 3, "the second node lacked three files at first");
    is_uint(peers[2].lacked, 4, "a part of a file is a file that is lacked");
    part(g);
}

// A node that only gives is awaited, is never behind another, and gets nothing.
static void test_only_gives(void) {
    for (int i = 0; i < 3; i++)
        peers[i].gives = i == 2;
    struct fanout *g = group(3);
    lacks(&nodes[0], "bc");
    lacks(&nodes[1], "c");
    lacks(&nodes[2], "abf");
    is_str(stand(3, 1), "0", "a node that only gives is not behind another");
    is_str(gives(&nodes[1]), "b:1 ", "the second node gives what the first one lacks");
    lacks(&nodes[1], "c");
    lacks(&nodes[0], "c");
    is_str(stand(3, 2), "10", "a node that only gives begins a chain");
    is_str(gives(&nodes[2]), "c:0 ", "the node gives what others lack, and nothing else");
    lacks(&nodes[2], "abf");
    lacks(&nodes[1], "");
    lacks(&nodes[0], "");
    for (int i = 0; i < 3; i++)
        is_int(hears(&nodes[i], XFER_DONE), 1, "node %d: the push ends when none lacks a file", i);
    is_str(said(0), "", "nothing is lacking in the end");
    for (int i = 0; i < 3; i++)
        peers[i].gives = false;
    part(g);
}

// A giver that gives nothing in three chains is asked no more.
static void test_gives_nothing(void) {
    struct fanout *g = group(2);
    for (int round = 0; round <= FANOUT_CHAINS_MAX; round++) {
        lacks(&nodes[1], "");
        lacks(&nodes[0], "c");
        is_str(stand(2, 1), round < FANOUT_CHAINS_MAX ? "0" : "", "round %d: the chain", round);
    }
    is_int(nodes[0].heard[XFER_DONE], 1, "the push ends all the same");
    is_str(said(0), "c", "the file is lacking in the end");
    part(g);
}

int main(void) {
    if (!mkdtemp(folder) || !(loop = loop_open(&e)))
        bail_out("cannot start");
    list = make_list();
    test_chains();
    test_only_gives();
    test_gives_nothing();
    manifest_free(list);
    loop_close(loop);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
