// SPDX-License-Identifier: Apache-2.0
// States, inputs and environments that nodes keep: lines of their answers, and removals, one after
// the other on each node.
#include "fleet/fleet_kept.h"

#include "tests/unit/fleet_fake.h"

static struct err e;

// "KIND NAME NODE FILES BYTES CHANGED", a line for each item.
static const char *items_of(const struct kept *k) {
    const char *text = "";
    for (size_t i = 0; i < k->count; i++) {
        const struct kept_item *x = &k->items[i];
        text =
            arena_printf(&arena, "%s%s %s %zu %d %d %d\n", text, kept_kind_names[x->kind], x->name,
                         x->node_index, (int)x->files, (int)x->bytes, (int)x->changed_ms);
    }
    return text;
}

static void test_lines(void) {
    static const struct {
        const char *line, *want;
    } cases[] = {
        {"{\"kind\":\"state\",\"name\":\"r-1\",\"files\":2,\"bytes\":3,\"changed_ms\":4}",
         "state r-1 7 2 3 4\n"},
        {"{\"kind\":\"input\",\"name\":\"set\",\"files\":0,\"bytes\":0}", "input set 7 0 0 0\n"},
        {"{\"kind\":\"environment\",\"name\":\"e\",\"files\":1,\"bytes\":1}",
         "environment e 7 1 1 0\n"},
        {"{\"kind\":\"other\",\"name\":\"e\",\"files\":1,\"bytes\":1}", ""},
        {"{\"name\":\"e\",\"files\":1,\"bytes\":1}", ""},
        {"{\"kind\":\"state\",\"name\":\"../e\",\"files\":1,\"bytes\":1}", ""},
        {"{\"kind\":\"state\",\"files\":1,\"bytes\":1}", ""},
        {"{\"kind\":\"state\",\"name\":\"e\",\"files\":-1,\"bytes\":1}", ""},
        {"{\"kind\":\"state\",\"name\":\"e\",\"files\":1}", ""},
        {"{\"kind\":\"state\",\"name\":\"e\",\"bytes\":1}", ""},
        {"{\"kind\":\"state\",\"name\":\"e\",\"files\":1,\"bytes\":1", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kept k = {0};
        fleet_kept_parse(&arena, cases[i].line, strlen(cases[i].line), 7, &k);
        is_str(items_of(&k), cases[i].want, "line %zu is read", i);
    }
    struct kept k = {0};
    const char *text =
        arena_printf(&arena, "welcome\n%s\n\n%s\nmore", cases[0].line, cases[1].line);
    fleet_kept_parse(&arena, text, strlen(text), 7, &k);
    is_str(items_of(&k), "state r-1 7 2 3 4\ninput set 7 0 0 0\n",
           "each line of an answer is read");
    text = cases[0].line;
    k.count = KEPT_ITEMS_MAX;
    fleet_kept_parse(&arena, text, strlen(text), 7, &k);
    is_uint(k.count, KEPT_ITEMS_MAX, "more items than the limit are left out");
}

#define ITEM(name) "{\"kind\":\"state\",\"name\":\"" name "\",\"files\":1,\"bytes\":2}\n"

static void test_ask(void) {
    struct kept k;
    fake_fleet_begin(ITEM("b") ITEM("a"), ITEM("a"), ITEM("c") ITEM("a"));
    is_int(fleet_kept_ask(&fleet, &k, &e), 0, "the nodes are asked: %s", e.text);
    is_str(items_of(&k),
           "state a 0 1 2 0\nstate a 1 1 2 0\nstate a 2 1 2 0\nstate b 0 1 2 0\nstate c 2 1 2 0\n",
           "items have the order of their names and nodes");
    has_str(fake_run(0)->line, " --node kept --root /r", "the verb is sent");
    for (size_t i = 0; i < NODES; i++)
        ok(!nodes[i].work && !nodes[i].failed, "node %zu has done its work", i);
    fake_fleet_end();
    fake_fleet_begin(ITEM("a"), "!failed", "");
    is_int(fleet_kept_ask(&fleet, &k, &e), 0, "a node may fail");
    ok(nodes[1].failed && !nodes[0].failed && !nodes[2].failed, "one node alone has failed");
    is_str(items_of(&k), "state a 0 1 2 0\n", "the others have their items");
    fake_fleet_end();
}

// ---- removals -----------------------------------------------------------------------------------

// The node answers each command that it gets.
static void answer_all(struct timer *t) {
    for (size_t i = 0; i < NODES; i++)
        for (struct fake_run *r = fake_runs; r; r = r->older) {
            bool fails = answers[i][0] == '!';
            if (r->r.link != nodes[i].link || r->r.ended)
                continue;
            const char *line =
                fails ? "{\"event\":\"error\",\"code\":\"failed\",\"text\":\"no\"}\n" : "{}\n";
            fake_say(r, line, strlen(line));
            fake_exit(r, fails);
        }
    timer_start(context.loop, t, 0, answer_all);
}

// Words of the commands that a node got, in order.
static const char *words_of(size_t node) {
    const char *text = "";
    for (struct fake_run *r = fake_runs; r; r = r->older)
        if (r->r.link == nodes[node].link)
            text = arena_printf(&arena, "%s%s%s", strstr(r->line, "--root /r") + 10,
                                *text ? "; " : "", text);
    return text;
}

static void drop(const struct kept *k, const char *n0, const char *n1, const char *n2) {
    fake_fleet_begin(n0, n1, n2);
    timer_start(context.loop, &turn, 0, answer_all);
    is_int(fleet_kept_drop(&fleet, k, &e), 0, "items are removed: %s", e.text);
}

static void test_drop(void) {
    struct kept_item items[] = {{.kind = KEPT_STATE, .name = "a", .node_index = 2},
                                {.kind = KEPT_INPUT, .name = "b", .node_index = 0},
                                {.kind = KEPT_ENVIRONMENT, .name = "c", .node_index = 2},
                                {.kind = KEPT_STATE, .name = "d", .node_index = 2}};
    const struct kept k = {.items = items, .count = 4};
    drop(&k, "", "", "");
    is_str(words_of(0), "--input b", "one node removes an input");
    is_str(words_of(1), "", "a node without items is not asked");
    is_str(words_of(2), "--run a; --bundle c; --run d", "a node removes one item after the other");
    fake_fleet_end();
    drop(&k, "", "", "!");
    is_str(words_of(2), "--run a", "a node that fails is asked no more");
    ok(nodes[2].failed && !nodes[0].failed, "one node alone has failed");
    fake_fleet_end();
}

int main(void) {
    fake_fleet_init();
    test_lines();
    test_ask();
    test_drop();
    fake_fleet_fini();
    return done_testing();
}
