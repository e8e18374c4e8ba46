// SPDX-License-Identifier: Apache-2.0
// Variables of a cluster before Terraform runs: keys of first logins, the lease, the mark of the
// cluster. Then settings that the module refuses.
#include "base/clock.h"
#include "tests/unit/aws/cluster_opened.h"

#include <sys/stat.h>

// ---- the variables ------------------------------------------------------------------------------

static int fill(size_t nodes, const struct inventory *inv) {
    return aws_cluster_fill(&cluster, nodes, inv, &error);
}

#define KEYS(x, y)                                                                                 \
    ",\"nodes\":2,\"node_names\":[\"node0\",\"node1\"],\"bootstrap_host_keys\":[{\"private\":"     \
    "\"p" x "\",\"public\":\"" x "\"},{\"private\":\"p" y "\",\"public\":\"" y "\"}]"

// The first login of a node is by a key of its own, as long as it may come to that.
static void test_keys(void) {
    struct inventory_node nodes[] = {{.name = "node0"}, {.name = "node1"}};
    struct inventory inv = {.nodes = nodes, .count = 2}, none = {0};
    start("");
    is_int(open_cluster(), 0, "a new cluster is opened: %s", error.text);
    is_int(fill(2, &none), 0, "variables of two nodes are filled: %s", error.text);
    is_uint(cluster.vars.nodes, 2, "both nodes count");
    is_str(cluster.vars.names[0], "node0", "nodes are numbered");
    is_str(cluster.vars.names[1], "node1", "numbers go up");
    is_str(cluster.vars.operator_cidrs[0], "198.51.100.7/32", "the operator's range is filled in");
    const struct aws_vars_key *keys = cluster.vars.keys;
    for (int i = 0; i < 2; i++) {
        ok(str_starts(keys[i].private_key, "-----BEGIN OPENSSH PRIVATE KEY-----\n"),
           "node %d has a private key", i);
        ok(str_starts(keys[i].public_key, "ssh-ed25519 ") &&
               str_ends(keys[i].public_key, " bootstrap"),
           "node %d has a public key", i);
    }
    ok(strcmp(keys[0].public_key, keys[1].public_key) != 0, "no two nodes share a key");
    static const struct {
        const char *host_key; // of both nodes
        bool first, second;   // the key of the variables stays
    } cases[] = {{NULL, true, true}, {"", true, true}, {"one", true, false}, {"k", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start("");
        made(KEYS("one", "two"));
        nodes[0].host_key = nodes[1].host_key = cases[i].host_key;
        is_int(open_cluster(), 0, "a cluster is opened (%zu)", i);
        is_int(fill(3, &inv), 0, "variables are filled (%zu): %s", i, error.text);
        keys = cluster.vars.keys;
        is_int(str_eq(keys[0].private_key, "pone") && str_eq(keys[0].public_key, "one"),
               cases[i].first, "the first key stays or not (%zu)", i);
        is_int(str_eq(keys[1].private_key, "ptwo") && str_eq(keys[1].public_key, "two"),
               cases[i].second, "the second key stays or not (%zu)", i);
        ok(str_ends(keys[2].public_key, " bootstrap"), "a third node has a new key (%zu)", i);
    }
    start("");
    made(KEYS("", "two"));
    is_int(open_cluster(), 0, "a cluster of another folder is opened");
    is_int(fill(2, &none), 0, "variables are filled: %s", error.text);
    ok(str_ends(cluster.vars.keys[0].public_key, " bootstrap"), "an absent key is made anew");
    is_str(cluster.vars.keys[1].public_key, "two", "a node that is not known keeps its key");
    start("");
    made("");
    is_int(open_cluster(), 0, "a cluster without keys is opened");
    is_int(fill(1, &none), 0, "variables are filled: %s", error.text);
    ok(str_ends(cluster.vars.keys[0].public_key, " bootstrap"), "the key is made");
}

static const char *stamp_of(int64_t ms) {
    char stamp[CLOCK_ISO_BYTES];
    return arena_printf(&a, "%.19sZ", clock_iso(stamp, ms));
}

static void test_lease(void) {
    static struct inventory_node node = {.name = "node0"};
    struct inventory none = {0}, one = {.nodes = &node, .count = 1};
    static const char lease[] = "[lease]\nttl = '2h'\nidle = '30m'\n";
    start(lease);
    is_int(open_cluster(), 0, "a new cluster is opened: %s", error.text);
    int64_t now_ms = clock_wall_ms();
    is_int(fill(1, &none), 0, "the lease begins: %s", error.text);
    is_int(cluster.vars.ttl_s, 7200, "the length of the lease is in seconds");
    is_int(cluster.vars.idle_s, 1800, "the limit without use is in seconds");
    int64_t end_ms = clock_of_iso(cluster.vars.expires);
    ok(end_ms >= now_ms / 1000 * 1000 + 7200000 && end_ms <= clock_wall_ms() + 7200000,
       "the lease ends in two hours: %s", cluster.vars.expires);
    is_str(cluster.vars.expires, stamp_of(cluster.end.at_ms), "the end is that of the command");
    ok(!cluster.end.moved, "no running node has another end");
    cluster.vars.expires = "then";
    is_int(fill(1, &none), 0, "variables are filled once more");
    is_str(cluster.vars.expires, "then", "the end is decided once per command");
    struct aws_lease_end end = aws_cluster_lease_end(&context, true);
    ok(!end.moved && end.at_ms >= end_ms, "a cluster that was not applied has no lease to move");
    static const struct {
        const char *ttl_s, *decided;
        bool running, moved, stays;
    } cases[] = {
        {"7200", NULL, true, false, true},
        {"7200", "2099-01-01T00:00:00Z", true, false, false},
        {"3600", NULL, true, true, false},
        {"3600", NULL, false, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(lease);
        made(
            arena_printf(&a, ",\"expires\":\"2100-01-01T00:00:00Z\",\"ttl_s\":%s", cases[i].ttl_s));
        if (cases[i].decided)
            must(aws_lease_decide(&context, clock_of_iso(cases[i].decided), &error) == 0);
        is_int(open_cluster(), 0, "a cluster with a lease is opened (%zu)", i);
        is_int(fill(1, cases[i].running ? &one : &none), 0, "variables are filled (%zu)", i);
        is_int(cluster.end.moved, cases[i].moved, "the lease is moved or not (%zu)", i);
        if (cases[i].decided || cases[i].stays)
            is_str(cluster.vars.expires,
                   cases[i].decided ? cases[i].decided : "2100-01-01T00:00:00Z",
                   "the lease has its end (%zu)", i);
        end = aws_cluster_lease_end(&context, cases[i].running);
        is_int(end.moved, cases[i].moved, "other commands see the same move (%zu)", i);
        ok(end.at_ms - cluster.end.at_ms >= 0 && end.at_ms - cluster.end.at_ms < 60000,
           "other commands see the same end (%zu)", i);
    }
}

static void test_mark(void) {
    struct inventory none = {0};
    start("");
    is_int(open_cluster(), 0, "a new cluster is opened: %s", error.text);
    is_int(fill(1, &none), 0, "the variables are filled: %s", error.text);
    const char *first = cluster.vars.made;
    is_uint(strlen(first), HASH_HEX_BYTES - 1, "a new cluster has a mark");
    is_int(fill(2, &none), 0, "variables are filled once more");
    is_str(cluster.vars.made, first, "the mark is made once per command");
    is_int(open_cluster(), 0, "the cluster is opened anew");
    is_int(fill(1, &none), 0, "the variables are filled");
    ok(strcmp(cluster.vars.made, first) != 0, "no two clusters have the same mark");
    start("");
    made(",\"made\":\"m\"");
    is_int(open_cluster(), 0, "a cluster that was applied is opened");
    is_int(fill(1, &none), 0, "the variables are filled");
    is_str(cluster.vars.made, "m", "the mark stays");
    start("");
    made("");
    is_int(open_cluster(), 0, "a cluster of an older dtctl is opened");
    is_int(fill(1, &none), 0, "the variables are filled");
    is_uint(strlen(cluster.vars.made), HASH_HEX_BYTES - 1, "the cluster has a mark from then on");
}

static void test_written(void) {
    struct inventory none = {0};
    struct stat st;
    struct aws_vars v;
    start("instance_type = 'g6.xlarge'\n");
    is_int(open_cluster(), 0, "a new cluster is opened: %s", error.text);
    cluster.terraform.vars_path = fake_in(VARS);
    is_int(fill(2, &none), 0, "the variables are filled");
    is_int(aws_cluster_write(&cluster, &error), 0, "the variables are written: %s", error.text);
    const char *text = fake_text(VARS);
    is_int(aws_vars_read(&a, text, strlen(text), &v, &error), 0, "the variables can be read");
    is_str(v.made, cluster.vars.made, "the mark is there");
    is_uint(v.nodes, 2, "both nodes are there");
    is_str(v.keys[1].private_key, cluster.vars.keys[1].private_key, "the keys of both are there");
    has_str(text, "\"instance_type\":\"g6.xlarge\"", "the settings are there");
    is_int(stat(fake_in(VARS), &st), 0, "the file is there");
    is_int(st.st_mode & 0777, 0600, "the file is the user's alone");
    load("[aws]\nregion = 'eu-west-1'\noperator_cidrs = ['auto']\n");
    static char nowhere[] = "PATH=/nowhere";
    char *words[] = {nowhere, NULL};
    char *const *env = context.env;
    context.env = words;
    is_int(open_cluster(), 0, "a cluster is opened where AWS cannot be asked: %s", error.text);
    is_int(fill(1, &none), -1, "without an address nothing is filled");
    is_int(error.code, ERR_NET, "the network is at fault");
    context.env = env;
}

// ---- failures -----------------------------------------------------------------------------------

static void test_refused(void) {
    struct terraform_result r = {.problem = "Invalid value for variable: az: no such zone. "};
    start("\nzones = ['eu-west-1a']\n");
    is_int(open_cluster(), 0, "a cluster is opened: %s", error.text);
    struct terraform *t = &cluster.terraform;
    ok(aws_terraform.refused(t, &r, &error), "a setting is refused");
    is_int(error.code, ERR_CONFIG, "the configuration is at fault");
    is_str(error.text,
           arena_printf(&a,
                        "t.toml:6:9: aws.zones: no such zone (refused before anything was created; "
                        "log: %s)",
                        t->log_path),
           "the error names the option and its place");
    r.problem = "Invalid value for variable: max_retries: too many";
    ok(aws_terraform.refused(t, &r, &error), "a variable without an option is refused");
    ok(str_starts(error.text, "max_retries: too many (refused before"), "the error names it: %s",
       error.text);
    r.problem = "creating EC2 Instance: api error VcpuLimitExceeded: no";
    ok(!aws_terraform.refused(t, &r, &error), "another failure is no refusal of a setting");
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    test_keys();
    test_lease();
    test_mark();
    test_written();
    test_refused();
    close_all();
    return done_testing();
}
