// SPDX-License-Identifier: Apache-2.0
// Up with provider aws: instances come, boot or fail, in this folder or in another one. Terraform
// is a script of the test; making and booting instances are lists of the test.
#include "aws/aws_boot.h"
#include "base/clock.h"
#include "fleet/network_check.h"
#include "tests/unit/aws/boot_rows.h"
#include "tests/unit/aws/provider_planned.h"

#define KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

enum { NODES = 2 };

static struct provider_made made;
static struct inventory wanted, old;

// ---- in place of instances ----------------------------------------------------------------------

static struct boot_progress progress;
static struct boot_progress_node progress_nodes[NODES];
static struct inventory_node instances[NODES]; // that AWS has after the next attempt
static size_t instance_count;
static int makes_fail;            // so many attempts fail …
static enum err_code fails_with;  // … with this
static struct strbuf calls;       // a line for each call of what follows
static const char *boot_fails;    // a node; NULL: none
static int checks_fail, networks; // checks of readiness that fail; checks of the network

struct boot_progress *boot_progress_open(struct context *s, const char *const *names,
                                         size_t count) {
    (void)s;
    progress = (struct boot_progress){.nodes = progress_nodes, .count = count};
    for (size_t i = 0; i < count; i++) {
        strbuf_addf(&boot_rows, "%s%s", i ? " " : "", names[i]);
        for (int k = 0; k < PHASE_COUNT; k++)
            progress_nodes[i].at_ms[k] = -1;
    }
    strbuf_addc(&boot_rows, '\n');
    return &progress;
}

int aws_make_nodes(struct aws_cluster *c, struct boot_progress *p, const struct inventory *before,
                   struct inventory *out, struct err *e) {
    strbuf_addf(&calls, "make %zu of %zu\n", c->vars.nodes, before->count);
    c->terraform.spent_ms += 7;
    if (makes_fail > 0 && makes_fail--)
        return err_set(e, fails_with, "no instance was made");
    for (size_t i = 0; i < instance_count; i++)
        if (i >= before->count)
            p->nodes[i].at_ms[PHASE_RUNNING] = 0; // in the first millisecond
    out->nodes = instances;
    out->count = instance_count;
    return 0;
}

int aws_boot(struct context *s, struct boot_progress *p, struct aws_boot_node *nodes, size_t count,
             struct err *e) {
    (void)p;
    clock_ahead_ms += 5000;
    for (size_t i = 0; i < count; i++) {
        bool fails = str_eq(nodes[i].info->name, boot_fails) || str_eq(boot_fails, "all");
        strbuf_addf(&calls, "boot %s in row %zu by %s\n", nodes[i].info->name, nodes[i].row,
                    nodes[i].first_key[0] ? nodes[i].first_key : "known_hosts");
        nodes[i].failed = fails;
        if (fails)
            err_set(&nodes[i].err, ERR_TIMEOUT, "not ready");
        else
            nodes[i].info->host_key = KEY;
    }
    return s->interrupt ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

int aws_ready_check(struct fleet *f, struct err *e) {
    (void)f;
    return checks_fail > 0 ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

int network_check(struct fleet *f, struct err *e) {
    (void)f;
    networks++;
    return err_set(e, ERR_NET, "no way");
}

// ---- the cluster --------------------------------------------------------------------------------

static void start(const char *options) {
    struct err e = {0};
    load(arena_printf(&a,
                      "[cluster]\nprovider = 'aws'\nnodes = 2\n[aws]\nowner = 'me'\n"
                      "region = 'us-east-1'\ninstance_type = 'g6.xlarge'\n"
                      "operator_cidrs = ['198.51.100.7/32']\n%s",
                      options));
    config.cluster.name = "c";
    begin();
    cluster_unlock(&context.cluster);
    cluster_forget(&context.cluster, &e);
    unlink(fake_in(".dtctl/c/terraform/" VARS));
    unlink(fake_in(".dtctl/c/known_hosts"));
    aws_lease_forget(&context);
    terraform_set_clean(&opened);
    fake_terraform_says("state-infra", "", 0);
    fake_terraform_says("apply-1", "", 0);
    strbuf_clear(&boot_rows);
    strbuf_clear(&calls);
    open_fails = false;
    boot_fails = NULL;
    makes_fail = checks_fail = networks = 0;
    instance_count = NODES;
    for (size_t i = 0; i < NODES; i++)
        instances[i] = (struct inventory_node){.name = i ? "node1" : "node0",
                                               .transport = INVENTORY_SSH,
                                               .host = i ? "198.51.100.1" : "198.51.100.0",
                                               .address = i ? "10.0.0.1" : "10.0.0.0",
                                               .root = ".dtctl",
                                               .instance_id = i ? "i-1" : "i-0"};
    wanted = old = (struct inventory){.name = "c", .provider = "aws", .created = ""};
    made = (struct provider_made){.inv = &wanted};
}

// ---- up -----------------------------------------------------------------------------------------

static int make(void) {
    if (plan(&wanted) < 0)
        bail_out("%s", error.text);
    for (size_t i = 0; i < wanted.count; i++)
        wanted.nodes[i].host = "planned";
    return provider_aws.make(&context, &old, &made, &error);
}

static struct inventory saved(void) {
    struct inventory inv = {0};
    struct err e = {0};
    if (cluster_load(&context.cluster, &inv, &e) < 0)
        diag("%s", e.text);
    return inv;
}

static const char *first_key(const char *log, size_t node) {
    const char *line = strstr(log, arena_printf(&a, "boot node%zu in row %zu by ", node, node));
    const char *key = line ? strstr(line, " by ") + 4 : "";
    return arena_strndup(&a, key, strcspn(key, "\n"));
}

static void test_up(void) {
    start("");
    is_int(make(), 0, "two nodes come up: %s", error.text);
    const char *log = strbuf_cstr(&calls);
    ok(str_starts(log, "make 2 of 0\nboot node0 in row 0 by ssh-ed25519 "), "both are booted: %s",
       log);
    ok(str_starts(first_key(log, 1), "ssh-ed25519 "), "the first login is by a key of its own");
    is_str(strbuf_cstr(&boot_rows), "node0 node1\nshow\nhide\nhide\n",
           "the rows are shown till then");
    is_int(made.outside_ms, 7, "time in Terraform is known");
    is_int(made.boot_ms, 5000, "the time of the boot is known");
    is_uint(made.failed_count, 0, "no node has failed");
    is_str(made.inv->nodes[0].host, "198.51.100.0", "the caller learns of the machines");
    is_uint(saved().count, 2, "the cluster is known");
    has_str(fake_text(".dtctl/c/known_hosts"), "198.51.100.1 " KEY "\n", "ssh knows the nodes");
    ok(!fake_text(".dtctl/c/terraform/lease"), "the lease is that of the nodes");
    is_str(fake_terraform_calls(), "", "no leftovers are looked for");
}

// Nodes that are up already have keys of their own.
static void test_again(void) {
    start("");
    applied(
        ",\"nodes\":2,\"node_names\":[\"node0\",\"node1\"],\"bootstrap_host_keys\":[{\"private\":"
        "\"p\",\"public\":\"first\"},{\"private\":\"q\",\"public\":\"second\"}]");
    struct inventory_node there[NODES] = {{.name = "node0", .host_key = KEY},
                                          {.name = "node1", .host_key = "second"}};
    old.nodes = there;
    old.count = NODES;
    instances[0].host_key = KEY;
    instances[1].host_key = "second";
    is_int(make(), 0, "the nodes stay: %s", error.text);
    is_str(strbuf_cstr(&calls), "make 2 of 2\nboot node1 in row 1 by second\n",
           "a node with the key of its first login is booted");
    start("");
    old.nodes = there;
    old.count = 1;
    instances[0].host_key = "";
    is_int(make(), 0, "the folder has lost its variables: %s", error.text);
    is_str(first_key(strbuf_cstr(&calls), 0), "known_hosts",
           "a node of unknown origin has its own key");
    ok(str_starts(first_key(strbuf_cstr(&calls), 1), "ssh-ed25519 "),
       "a new node has the key from here");
    instances[0].host_key = NULL;
    instances[1].name = "node7";
    start("");
    instances[1].name = "node7";
    is_int(make(), 0, "AWS has a node of another name: %s", error.text);
    has_str(strbuf_cstr(&calls), "boot node7 in row 1 by known_hosts\n", "there is no key for it");
    // Another folder with the same state has made the node.
    struct inventory_node unknown = {.name = "node0"};
    for (int accepts = 0; accepts < 2; accepts++) {
        start("state = 's3://bucket/team'\n");
        config.ssh.accept_host_keys = accepts;
        applied(
            ",\"nodes\":2,\"node_names\":[\"node0\",\"node1\"],\"bootstrap_host_keys\":[{"
            "\"private\":\"p\",\"public\":\"first\"},{\"private\":\"q\",\"public\":\"second\"}]");
        old.nodes = &unknown;
        old.count = 1;
        is_int(make(), 0, "nodes of another folder are used (%d): %s", accepts, error.text);
        is_str(first_key(strbuf_cstr(&calls), 0), accepts ? "known_hosts" : "first",
               "accepted keys are not rotated (%d)", accepts);
        is_str(first_key(strbuf_cstr(&calls), 1), "second", "new nodes are of this folder (%d)",
               accepts);
    }
    start("");
    config.ssh.accept_host_keys = true;
    applied(",\"nodes\":1,\"node_names\":[\"node0\"],\"bootstrap_host_keys\":[{\"private\":\"p\","
            "\"public\":\"first\"}]");
    old.nodes = &unknown;
    old.count = 1;
    is_int(make(), 0, "a state of this folder alone is used: %s", error.text);
    is_str(first_key(strbuf_cstr(&calls), 0), "first",
           "the nodes of such a state are of this folder");
}

static void test_boot_fails(void) {
    start("");
    boot_fails = "node1";
    is_int(make(), 0, "a node fails: %s", error.text);
    is_uint(made.failed_count, 1, "the caller learns of one");
    is_str(made.failed[0], "node1", "the caller learns which");
    is_uint(made.inv->count, 1, "the other one stays");
    start("");
    boot_fails = "all";
    is_int(make(), -1, "all nodes fail");
    is_int(error.code, ERR_FAILED, "the error has its code");
    is_str(error.text,
           arena_printf(&a, "no node became ready; nothing is left of them (log: %s)",
                        opened.log_path),
           "the error says so");
    ok(!cluster_exists(&context.cluster), "there is no cluster");
    ok(!fake_text(".dtctl/c/known_hosts"), "ssh does not know of it");
    start("");
    context.interrupt = SIGINT;
    is_int(make(), -1, "the user stops the boot");
    is_int(error.code, ERR_INTERRUPTED, "the error has the code of a stop");
    is_uint(saved().count, 2, "status and down know the nodes");
    is_int(made.outside_ms, 7, "time in Terraform is known");
    is_int(made.boot_ms, 5000, "the time of the boot is known");
}

static void test_not_made(void) {
    start("");
    makes_fail = 1;
    fails_with = ERR_LIMIT;
    is_int(make(), -1, "AWS makes no instance");
    is_str(error.text, "no instance was made", "the error says why");
    is_str(strbuf_cstr(&calls), "make 2 of 0\n", "nothing is booted");
    is_int(made.boot_ms, 0, "no time has gone into the boot");
    is_str(strbuf_cstr(&boot_rows), "node0 node1\nshow\nhide\n", "the rows are hidden");
    ok(!cluster_exists(&context.cluster), "there is no cluster");
    start("");
    open_fails = true;
    is_int(make(), -1, "there is no Terraform");
    is_str(strbuf_cstr(&calls), "", "nothing is made");
    start("");
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    fake_terraform_says("apply-1", problem("x", "api error ExpiredToken: y"), 1);
    is_int(make(), -1, "AWS cannot be searched after a killed command");
    is_str(strbuf_cstr(&calls), "", "nothing is made then");
    is_str(strbuf_cstr(&boot_rows), "node0 node1\n", "no rows are shown");
}

// Another folder has made the cluster while this one waited for the lock of the state.
static void test_made_elsewhere(void) {
#define NODE(n)                                                                                    \
    "[[node]]\\nname = \\\"node" n "\\\"\\ntransport = \\\"ssh\\\"\\nhost = \\\"198.51.100." n     \
    "\\\"\\naddress = \\\"10.0.0." n "\\\"\\nroot = \\\".dtctl\\\"\\ninstance_id = \\\"i-" n       \
    "\\\"\\n"
#define SHARED(nodes)                                                                              \
    "{\"version\":4,\"outputs\":{\"variables\":{\"value\":\"{\\\"region\\\":\\\"us-east-1\\\","    \
    "\\\"owner\\\":\\\"ann\\\",\\\"ssh_public_key\\\":\\\"%s\\\"}\"},\"inventory\":{\"value\":"    \
    "\"format = 1\\nname = \\\"c\\\"\\nprovider = \\\"aws\\\"\\n" nodes "\"}},\"resources\":[]}"
    static const char shared[] = "state = 's3://bucket/team'\n[ssh]\naccept_host_keys = true\n";
    start(shared);
    makes_fail = 1;
    fails_with = ERR_EXISTS;
    is_int(make(), -1, "a cluster of this name is not in the state");
    is_str(error.text, "no instance was made", "the first error stays");
    is_str(strbuf_cstr(&calls), "make 2 of 0\n", "there is no second attempt");
    char *text;
    size_t len;
    if (file_read(&a, arena_printf(&a, "%s.pub", context.cluster.key_path), 1000, &text, &len,
                  &error) < 0)
        bail_out("%s", error.text);
    const char *key = arena_strndup(&a, text, strcspn(text, "\n"));
    start(shared);
    makes_fail = 1;
    fake_terraform_says("state-infra", arena_printf(&a, SHARED(NODE("0")), key), 0);
    is_int(make(), 0, "the other folder's cluster is used: %s", error.text);
    ok(str_starts(strbuf_cstr(&calls), "make 2 of 0\nmake 2 of 1\nboot node0 in row 0 by "
                                       "known_hosts\nboot node1 in row 1 by ssh-ed25519 "),
       "the node of that folder is taken, and another one is made: %s", strbuf_cstr(&calls));
    is_str(strbuf_cstr(&boot_rows), "node0 node1\nshow\nhide\nshow\nhide\nhide\n",
           "the rows are hidden while the state is read");
    is_int(error.code, ERR_NONE, "the first error is forgotten");
    start(shared);
    makes_fail = 1;
    fake_terraform_says("state-infra", arena_printf(&a, SHARED(NODE("0")), "ssh-ed25519 AAAA"), 0);
    is_int(make(), -1, "the login key of the other folder is another one");
    has_str(error.text, "is not the login key of cluster c", "the error says so");
    start(shared);
    makes_fail = 2;
    is_int(make(), -1, "the second attempt fails, too");
    start(shared);
    makes_fail = 1;
    fake_terraform_says("state-infra", "", 1);
    is_int(make(), -1, "the state cannot be read");
    ok(strcmp(error.text, "no instance was made") != 0, "the error is that of the state: %s",
       error.text);
    static const struct {
        const char *options;
        enum err_code code;
    } others[] = {{"", ERR_EXISTS}, {shared, ERR_LIMIT}};
    for (size_t i = 0; i < 2; i++) {
        start(others[i].options);
        makes_fail = 1;
        fails_with = others[i].code;
        fake_terraform_says("state-infra", arena_printf(&a, SHARED(NODE("0")), key), 0);
        is_int(make(), -1, "no other folder is concerned (%zu)", i);
        is_str(strbuf_cstr(&calls), "make 2 of 0\n", "there is one attempt (%zu)", i);
    }
}

static void test_moved_lease(void) {
    struct inventory_node there[NODES] = {{.name = "node0", .host_key = KEY},
                                          {.name = "node1", .host_key = KEY}};
    static const struct {
        const char *ttl, *warning;
    } cases[] = {{"2h", ""},
                 {"90d", "test: warning: running nodes accept no later end; dtctl extend can move "
                         "it again where=\"t.toml:10:7: lease.ttl\" limit=744:00:00\n"}};
    for (size_t i = 0; i < 2; i++) {
        start(arena_printf(&a, "[lease]\nttl = '%s'\n", cases[i].ttl));
        applied(",\"ttl_s\":3600,\"expires\":\"2100-01-01T00:00:00Z\"");
        old.nodes = there;
        old.count = NODES;
        instances[0].host_key = instances[1].host_key = KEY;
        int64_t from_ms = clock_wall_ms() / 1000 * 1000, for_ms = i ? 31 * 86400000LL : 7200000;
        is_int(make(), 0, "a lease of running nodes moves (%zu): %s", i, error.text);
        int64_t end_ms = aws_lease_decided(&context);
        ok(end_ms >= from_ms + for_ms && end_ms <= clock_wall_ms() + for_ms,
           "the new end is decided (%zu)", i);
        is_str(arena_strndup(&a, said(), strlen(cases[i].warning)), cases[i].warning,
               "an end that nodes refuse has a warning (%zu)", i);
        is_int(strstr(said(), "warning") != NULL, i, "a usual end has none (%zu)", i);
    }
    start("[lease]\nttl = '2h'\n");
    applied(",\"ttl_s\":3600,\"expires\":\"2100-01-01T00:00:00Z\"");
    old.nodes = there;
    old.count = NODES;
    if (file_make_dirs(fake_in(".dtctl/c/terraform/lease"), 0700, &error) < 0)
        bail_out("%s", error.text);
    is_int(make(), -1, "a new end cannot be kept");
    is_str(strbuf_cstr(&calls), "", "nothing is made then");
    rmdir(fake_in(".dtctl/c/terraform/lease"));
}

// ---- nodes that are connected -------------------------------------------------------------------

static void test_check(void) {
    static struct inventory_node info[NODES] = {{.name = "node0"}, {.name = "node1"}};
    struct fleet_node nodes[NODES] = {{.info = &info[0], .failed = true},
                                      {.info = &info[1], .failed = true}};
    struct fleet f = {.context = &context, .nodes = nodes, .count = NODES};
    nodes[0].fleet = nodes[1].fleet = &f;
    start("");
    is_int(provider_aws.check(&context, &f, &error), -1, "nodes do not reach each other");
    is_str(error.text, "no way", "the error says so");
    is_int(networks, 1, "the network is checked");
    f.count = 1;
    is_int(provider_aws.check(&context, &f, &error), 0, "a node alone reaches itself");
    is_int(networks, 1, "the network is not checked for it");
    context.interrupt = SIGINT;
    is_int(provider_aws.check(&context, &f, &error), -1, "the user stops it");
    context.interrupt = 0;
    checks_fail = 1;
    is_int(provider_aws.check(&context, &f, &error), -1, "the checks are stopped");
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    test_up();
    test_again();
    test_boot_fails();
    test_not_made();
    test_made_elsewhere();
    test_moved_lease();
    test_check();
    strbuf_fini(&calls);
    strbuf_fini(&boot_rows);
    close_all();
    return done_testing();
}
