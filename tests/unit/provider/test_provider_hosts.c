// SPDX-License-Identifier: Apache-2.0
// Machines of a list: the inventory that a configuration makes of them, and the addresses that they
// report.
#include "provider/provider.h"

#include "fleet/network_check.h"
#include "tests/unit/fleet_fake.h"

#include "tests/unit/conf/config_fixture.h"

#include <sys/utsname.h>

static struct err e;
static char root[] = "/tmp/test_provider_hosts.XXXXXX";
static int networks; // checks of the network between nodes

int network_check(struct fleet *f, struct err *err) {
    (void)f, (void)err;
    networks++;
    return 0;
}

// ---- the plan -----------------------------------------------------------------------------------

#define HOSTS "[cluster]\nprovider = \"hosts\"\n[hosts]\nroot = \"/data\"\n"

static int plan(const char *file, struct inventory *out) {
    const char *problem = load("up", "", file, NULL);
    if (*problem)
        bail_out("%s", problem);
    context.config = &c;
    context.arena = &a;
    *out = (struct inventory){0};
    err_clear(&e);
    int r = provider_hosts.plan(&context, out, &e);
    context.arena = &arena;
    return r;
}

// "NAME USER@HOST:PORT ROOT KEY", a line for each node.
static const char *nodes_of(const struct inventory *inv) {
    const char *text = "";
    for (size_t i = 0; i < inv->count; i++) {
        const struct inventory_node *n = &inv->nodes[i];
        text = arena_printf(&a, "%s%s %s@%s:%d %s %s\n", text, n->name, n->user ? n->user : "-",
                            n->host, n->port, n->root, n->host_key ? n->host_key : "-");
        ok(n->transport == INVENTORY_SSH && strcmp(n->address, n->host) == 0,
           "%s is reached by SSH at its address", n->name);
    }
    return text;
}

static void test_plan(void) {
    struct inventory inv;
    is_int(plan(HOSTS "list = [\"me@gpu[1-2].lab:2222\", \"last\"]\n", &inv), 0,
           "a list of hosts is planned: %s", e.text);
    is_str(nodes_of(&inv),
           "gpu1.lab me@gpu1.lab:2222 /data/nodes/gpu1.lab -\n"
           "gpu2.lab me@gpu2.lab:2222 /data/nodes/gpu2.lab -\n"
           "last -@last:0 /data/nodes/last -\n",
           "each host of the list is a node");
    is_int(plan(HOSTS "list = [\"one\", \"you@two:5\"]\n"
                      "[[hosts.host]]\naddress = \"two\"\nname = \"second\"\nuser = \"me\"\n"
                      "port = 77\nhost_key = \"SHA256:x\"\n"
                      "[[hosts.host]]\naddress = \"three\"\nuser = \"her\"\nport = 88\n"
                      "[[hosts.host]]\naddress = \"fe80::1%eth0\"\n",
                &inv),
           0, "hosts have details: %s", e.text);
    is_str(nodes_of(&inv),
           "one -@one:0 /data/nodes/one -\n"
           "second you@two:5 /data/nodes/second SHA256:x\n"
           "three her@three:88 /data/nodes/three -\n"
           "fe80--1-eth0 -@fe80::1%eth0:0 /data/nodes/fe80--1-eth0 -\n",
           "details add to the list, whose login comes first");
    is_int(plan(HOSTS "[[hosts.host]]\naddress = \"one\"\nport = 9\n"
                      "[[hosts.host]]\naddress = \"two\"\nname = \"b\"\nuser = \"me\"\n",
                &inv),
           0, "hosts may have details alone");
    is_str(nodes_of(&inv), "one -@one:9 /data/nodes/one -\nb me@two:0 /data/nodes/b -\n",
           "each of them is a node");
}

static void test_refused(void) {
    static const struct {
        const char *file, *want;
    } cases[] = {
        {HOSTS, "hosts.list"},
        {"[cluster]\nprovider = \"hosts\"\n[hosts]\nroot = \"\"\nlist = [\"one\"]\n",
         "'' is not a folder of the nodes"},
        {HOSTS "list = [\"one\", \"one\"]\n", "hosts.list"},
        {HOSTS "list = [\"one\"]\n[[hosts.host]]\naddress = \"one\"\nname = \"two\"\n"
               "[[hosts.host]]\naddress = \"two\"\n",
         "two nodes are called 'two'"},
        {HOSTS "[[hosts.host]]\naddress = \"a\"\n[[hosts.host]]\naddress = \"b\"\n"
               "[[hosts.host]]\naddress = \"c\"\nname = \"b\"\n",
         "two nodes are called 'b'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct inventory inv;
        is_int(plan(cases[i].file, &inv), -1, "hosts %zu are refused", i);
        is_int(e.code, ERR_CONFIG, "hosts %zu are an error of the configuration", i);
        has_str(e.text, cases[i].want, "hosts %zu have their reason", i);
    }
}

// ---- the machines -------------------------------------------------------------------------------

static struct utsname here;

static void check(const char *n0, const char *n1, const char *n2, const char *const users[NODES]) {
    fake_fleet_begin(n0, n1, n2);
    for (size_t i = 0; i < NODES; i++) {
        info[i].address = "name";
        nodes[i].facts.arch = here.machine;
        nodes[i].facts.disk_free_bytes = 1ULL << 40;
        nodes[i].facts.user = arena_strdup(&arena, users[i]);
    }
    networks = 0;
    is_int(provider_hosts.check(&context, &fleet, &e), 0, "the nodes are checked: %s", e.text);
    is_int(networks, 1, "the network between them is checked");
    fake_fleet_end();
}

static const char *const SAME[NODES] = {"me", "me", "me"};

static void test_addresses(void) {
    check("10.0.0.9 50 10.0.0.1 22\n", "9.9.9.9 50 ::ffff:10.0.0.2 22\r\n",
          "fe80::9 50 fe80::ffff 22\n", SAME);
    is_str(info[0].address, "10.0.0.1", "a node has the address that it was reached by");
    is_str(info[1].address, "10.0.0.2", "an IPv4 address within IPv6 is one of IPv4");
    is_str(info[2].address, "fe80::ffff", "an IPv6 address is left as it is");
    ok(!nodes[0].failed && !nodes[1].failed && !nodes[2].failed, "no node fails");
    check("10.0.0.9 50 here 22\n", "10.0.0.9 50 10.0.0.2\n", "!failed", SAME);
    for (size_t i = 0; i < 2; i++) {
        ok(nodes[i].failed, "a node without an address fails: %zu", i);
        has_str(nodes[i].err.text, "does not report the address", "the node has the reason: %zu",
                i);
    }
}

static void test_twins(void) {
    check("x 5 10.0.0.1 22\n", "x 5 10.0.0.2 22\n", "x 5 10.0.0.1 22\n", SAME);
    ok(!nodes[0].failed && !nodes[1].failed && nodes[2].failed,
       "the second name of a machine is refused");
    has_str(nodes[2].err.text, "same machine and login as node 'n0' (address 10.0.0.1)",
            "the error names the first one");
    check("x 5 10.0.0.1 22\n", "x 5 10.0.0.1 22\n", "x 5 10.0.0.1 22\n", SAME);
    ok(!nodes[0].failed && nodes[1].failed && nodes[2].failed, "each further name is refused");
    static const char *const apart[NODES] = {"me", "you", "her"};
    check("x 5 10.0.0.1 22\n", "x 5 10.0.0.1 22\n", "x 5 10.0.0.3 22\n", apart);
    ok(!nodes[0].failed && !nodes[1].failed && !nodes[2].failed,
       "two logins of one machine are two nodes");
}

int main(void) {
    if (!mkdtemp(root) || chdir(root) < 0 || uname(&here) < 0)
        bail_out("no folder");
    fake_fleet_init();
    test_plan();
    test_refused();
    test_addresses();
    test_twins();
    is_int(provider_hosts.give_back(&context, NULL, &e), 0, "a host is given back as it is");
    fake_fleet_fini();
    if (chdir("/") < 0 || file_remove_tree(root, &e) < 0)
        bail_out("the folder stays");
    arena_fini(&a);
    return done_testing();
}
