// SPDX-License-Identifier: Apache-2.0
// The inventory: written and read back, every error with its place, choice of nodes.
#include "cluster/inventory.h"
#include "tests/tap.h"

static const char HEAD[] = "format = 1\nname = 'demo'\nprovider = 'hosts'\ncreated = 'now'\n";

static struct inventory sample(struct arena *a) {
    struct inventory inv = {.name = "demo", .provider = "hosts", .created = "2026-01-02T03:04:05Z"};
    inv.count = 3;
    inv.nodes = arena_new(a, struct inventory_node, 3);
    inv.nodes[0] = (struct inventory_node){
        .name = "gpu01",
        .transport = INVENTORY_SSH,
        .user = "ubuntu",
        .host = "gpu01.lab",
        .port = 2222,
        .address = "10.0.0.11",
        .root = "~/.dtctl",
        .arch = "x86_64",
        .host_key = "ssh-ed25519 AAAA\"quoted\"",
        .dtrun = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .instance_id = "i-0123456789abcdef0",
        .instance_type = "p4d.24xlarge",
        .zone = "us-east-1a",
        .purchase = "spot",
        .launched = "2026-01-02T03:04:05.678Z",
        .config_hash = "0123abcd",
        .cpus = 96,
        .gpus = 8,
        .memory_bytes = 1152921504606846976};
    inv.nodes[1] = (struct inventory_node){.name = "gpu02",
                                           .transport = INVENTORY_SSH,
                                           .host = "gpu02",
                                           .address = "fe80::1%eth0",
                                           .root = "/tmp/with space",
                                           .arch = "",
                                           .dtrun = ""};
    inv.nodes[2] = (struct inventory_node){.name = "node0",
                                           .transport = INVENTORY_LOCAL,
                                           .address = "127.0.0.2",
                                           .root = "/x",
                                           .arch = "",
                                           .dtrun = ""};
    return inv;
}

static void round_trip(void) {
    struct arena a = {0};
    struct err e = {0};
    struct strbuf text = {0}, again = {0};
    struct inventory inv = sample(&a), back;
    inventory_format(&inv, &text);
    if (!is_int(inventory_parse(&a, text.data, text.len, "cluster.toml", &back, &e), 0,
                "a written inventory is read: %s", e.text))
        return;
    inventory_format(&back, &again);
    is_str(strbuf_cstr(&again), strbuf_cstr(&text), "a second write gives the same text");
    is_str(back.nodes[0].user, "ubuntu", "the user is read back");
    is_int(back.nodes[0].port, 2222, "the port is read back");
    is_int(back.nodes[0].memory_bytes, 1152921504606846976, "the memory is read back");
    is_str(back.nodes[0].instance_id, "i-0123456789abcdef0", "the id of the instance is read back");
    is_str(back.nodes[0].launched, "2026-01-02T03:04:05.678Z", "the time of launch is read back");
    is_str(back.nodes[0].config_hash, "0123abcd", "the hash of the configuration is read back");
    is_str(back.nodes[1].instance_id, "", "no instance is an empty text");
    is_str(back.nodes[1].root, "/tmp/with space", "the root is read back");
    ok(back.nodes[1].user == NULL, "no user stays none");
    is_int(back.nodes[2].transport, INVENTORY_LOCAL, "the transport is read back");
    strbuf_fini(&text);
    strbuf_fini(&again);
    arena_fini(&a);
}

static void refuses(const char *rest, const char *why) {
    struct arena a = {0};
    struct err e = {0};
    struct inventory inv;
    char *text = arena_printf(&a, "%s%s", HEAD, rest);
    is_int(inventory_parse(&a, text, strlen(text), "c.toml", &inv, &e), -1,
           "the inventory is refused: %s", why);
    has_str(e.text, why, "the error has the reason: %s", why);
    has_str(e.text, "c.toml:", "the error has the place: %s", why);
    arena_fini(&a);
}

// A line of a node beside those that it needs.
static void line_of_node(const char *line, bool good) {
    struct arena a = {0};
    struct err e = {0};
    struct inventory inv;
    char *text = arena_printf(&a,
                              "%s[[node]]\nname = 'n'\ntransport = 'local'\naddress = 'a'\n"
                              "root = '/r'\n%s\n",
                              HEAD, line);
    is_int(inventory_parse(&a, text, strlen(text), "c.toml", &inv, &e), good ? 0 : -1, "%.40s: %s",
           line, e.text);
    has_str(e.text, good ? "" : "c.toml:", "%.40s: the error has the place", line);
    arena_fini(&a);
}

static void limits(void) {
    static const struct {
        const char *key;
        long long max;
    } numbers[] = {{"port", 65535}, {"cpus", 1 << 20}, {"gpus", 1 << 16}};
    struct arena a = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *key = numbers[i].key;
        line_of_node(arena_printf(&a, "%s = 0", key), true);
        line_of_node(arena_printf(&a, "%s = %lld", key, numbers[i].max), true);
        line_of_node(arena_printf(&a, "%s = %lld", key, numbers[i].max + 1), false);
        line_of_node(arena_printf(&a, "%s = -1", key), false);
        line_of_node(arena_printf(&a, "%s = '1'", key), false);
        line_of_node(arena_printf(&a, "%s = 1.0", key), false);
        line_of_node(arena_printf(&a, "%s = []", key), false);
    }
    char *longest = arena_alloc(&a, 1, 1, INVENTORY_TEXT_BYTES_MAX + 2);
    memset(longest, 'x', INVENTORY_TEXT_BYTES_MAX + 1);
    longest[INVENTORY_TEXT_BYTES_MAX + 1] = '\0';
    line_of_node(arena_printf(&a, "zone = '%s'", longest), false);
    longest[INVENTORY_TEXT_BYTES_MAX] = '\0';
    line_of_node(arena_printf(&a, "zone = '%s'", longest), true);
    line_of_node("zone = 'z'", true);
    line_of_node("zone = ''", true);
    line_of_node("user = ''", false);
    line_of_node("zone = 1", false);
    line_of_node("zone = \"a\\tb\"", false);
    line_of_node("zone = \"a\\u007fb\"", false);
    line_of_node("zone = 'a b'", true);
    arena_fini(&a);
}

static void errors_together(void) {
    struct arena a = {0};
    struct err e = {0};
    struct inventory inv;
    char *text = arena_printf(&a,
                              "%s[[node]]\nname='a b'\nport=70000\ntransport='ssh'\n"
                              "colour='red'\n\"a\\nb\"=1\n",
                              HEAD);
    inventory_parse(&a, text, strlen(text), "c.toml", &inv, &e);
    has_str(e.text, "c.toml:6:6: name", "the error names the bad name with its place");
    has_str(e.text, "c.toml:7:6: port", "the bad port is reported");
    has_str(e.text, "needs the key 'host'", "the missing host is reported");
    has_str(e.text, "\nc.toml:9:1: unknown key 'colour' of a node\n", "an error has its own line");
    has_str(e.text, "unknown key 'a\\nb'", "a line break in a key is none in the error");
    arena_fini(&a);
}

// Twenty errors are shown, and the number of the others.
static void many_errors(void) {
    for (int count = 20; count <= 22; count++) {
        struct arena a = {0};
        struct err e = {0};
        struct inventory inv;
        struct strbuf text = {0};
        strbuf_addf(&text, "%s[[node]]\nname='a'\ntransport='local'\naddress='1'\nroot='/'\n",
                    HEAD);
        for (int i = 1; i <= count; i++)
            strbuf_addf(&text, "x%d=1\n", i);
        is_int(inventory_parse(&a, text.data, text.len, "c", &inv, &e), -1,
               "an inventory with %d errors is refused", count);
        has_str(e.text, "'x20' of a node", "the twentieth of %d errors is shown", count);
        ok(!strstr(e.text, "'x21'"), "no more than twenty of %d errors are shown", count);
        const char *end = strstr(e.text, "\nand ");
        is_str(end ? end : "",
               count == 20   ? ""
               : count == 21 ? "\nand 1 more"
                             : "\nand 2 more",
               "the others of %d errors are counted", count);
        strbuf_fini(&text);
        arena_fini(&a);
    }
}

static void selects(void) {
    struct arena a = {0};
    struct err e = {0};
    struct inventory inv = sample(&a);
    size_t *at = NULL, n = 0;
    is_int(inventory_select(&a, &inv, NULL, &at, &n, &e), 0, "no wish chooses");
    is_uint(n, 3, "without a wish all nodes are chosen");
    is_int(inventory_select(&a, &inv, "node0,gpu[01-01]", &at, &n, &e), 0, "a set chooses");
    is_uint(n, 2, "the set chooses two nodes");
    is_uint(at[0], 0, "chosen nodes are in inventory order");
    is_uint(at[1], 2, "the second node is found");
    is_int(inventory_select(&a, &inv, "gpu1", &at, &n, &e), -1, "an unknown name is refused");
    has_str(e.text, "did you mean 'gpu01'", "the nearest is suggested");
    arena_fini(&a);
}

// A host is known by its address, too, in each form of it.
static void selects_by_address(void) {
    struct inventory_node nodes[] = {{.name = "a", .host = "fd77::1", .address = "fd77::1"},
                                     {.name = "b", .host = "b.lab", .address = "10.0.0.2"},
                                     {.name = "c", .host = "c.lab", .address = "10.0.0.3"},
                                     {.name = "d", .host = "c.lab", .address = "10.0.0.4"},
                                     {.name = "c.lab2", .address = "127.0.0.2"}};
    static const struct {
        const char *wanted;
        int at; // -1: refused
    } cases[] = {{"fd77::1", 0},    {"[fd77::1]", 0}, {"FD77:0::01", 0}, {"b.lab", 1},
                 {"10.0.0.2", 1},   {"c.lab", -1},    {"127.0.0.2", 4},  {"fd77::2", -1},
                 {"[fd77::2]", -1}, {"10.0.0.5", -1}, {"fd77::1,b", -1}};
    struct inventory inv = {.name = "lab", .nodes = nodes, .count = 5};
    struct arena a = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        size_t *at = NULL, n = 0;
        int rc = inventory_select(&a, &inv, cases[i].wanted, &at, &n, &e);
        is_int(rc < 0 || n != 1 ? -1 : (int)at[0], cases[i].at, "'%s' chooses its node %s",
               cases[i].wanted, e.text);
    }
    arena_fini(&a);
}

// Names that ssh would take for options, and texts that are empty or have a control character.
static void doubtful_texts(void) {
    static const struct {
        const char *line, *want;
    } cases[] = {{"user = '-oProxyCommand=x'", "user: begins with '-'"},
                 {"host = '-oProxyCommand=x'", "host: begins with '-'"},
                 {"user = ''", "user: expected plain text of 1 to"},
                 {"zone = \"\\t\"", "zone: expected plain text of 0 to"},
                 {"zone = ''", ""},
                 {"user = 'a-b'\nhost = 'c-d'", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena a = {0};
        struct err e = {0};
        struct inventory inv;
        char *text =
            arena_printf(&a,
                         "%s[[node]]\nname = 'n'\ntransport = 'ssh'\naddress = 'a'\n"
                         "root = '/r'\n%s%s\n",
                         HEAD, strstr(cases[i].line, "host") ? "" : "host = 'h'\n", cases[i].line);
        int result = inventory_parse(&a, text, strlen(text), "cluster.toml", &inv, &e);
        is_int(result, cases[i].want[0] ? -1 : 0, "%s: %s", cases[i].line, e.text);
        has_str(e.text, cases[i].want, "%s: the error says why", cases[i].line);
        arena_fini(&a);
    }
}

int main(void) {
    doubtful_texts();
    round_trip();
    refuses("[[node]]\nname='a'\ntransport='ssh'\nhost='-oProxyCommand=x'\naddress='1'\nroot='/'\n",
            "begins with '-'");
    refuses("[[node]]\nname='a'\ntransport='ftp'\nhost='h'\naddress='1'\nroot='/'\n",
            "\"local\" or \"ssh\"");
    refuses("[[node]]\nname='a'\ntransport='local'\naddress='1'\nroot=\"a\\u0007b\"\n",
            "root: expected plain text");
    refuses("[[node]]\nname='a'\ntransport='local'\naddress='1'\nroot='/'\ndtrun='zz'\n",
            "64 lower-case hex");
    refuses("[[node]]\nname='a'\ntransport='local'\naddress='1'\nroot='/'\n"
            "[[node]]\nname='a'\ntransport='local'\naddress='2'\nroot='/'\n",
            "listed twice");
    refuses("node = []\n", "tables [[node]]");
    refuses("node = [1]\n", "expected a table");
    refuses("", "tables [[node]]");
    struct arena a = {0};
    struct err e = {0};
    struct inventory inv;
    is_int(inventory_parse(&a, "format = 2\n", 11, "c.toml", &inv, &e), -1,
           "another format is refused");
    has_str(e.text, "reads format 1", "the error has the format that is read");
    is_int(inventory_parse(&a, "name = [", 8, "c.toml", &inv, &e), -1, "broken TOML is refused");
    arena_fini(&a);
    errors_together();
    many_errors();
    limits();
    selects();
    selects_by_address();
    return done_testing();
}
