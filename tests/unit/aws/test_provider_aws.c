// SPDX-License-Identifier: Apache-2.0
// Provider aws as its callers see it before anything is made: the plan, its price, and the
// comparison with AWS. Terraform is a script of the test.
#include "base/clock.h"
#include "tests/unit/aws/provider_planned.h"

#define PLAN "plan -json -input=false -lock=false"

static struct provider_diff diff;
static struct inventory wanted;

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
    aws_lease_forget(&context);
    fake_terraform_says("apply-1", "", 0);
    open_fails = false;
    diff = (struct provider_diff){0};
}

// ---- the plan -----------------------------------------------------------------------------------

static void test_plan(void) {
    start("ssh_user = 'ec2-user'\n");
    is_int(plan(&wanted), 0, "two nodes are planned: %s", error.text);
    is_uint(wanted.count, 2, "both are there");
    const struct inventory_node *n = &wanted.nodes[1];
    is_str(n->name, "node1", "nodes have numbers");
    is_int(n->transport, INVENTORY_SSH, "nodes are reached over SSH");
    is_str(n->user, "ec2-user", "the login is that of the image");
    is_str(n->root, ".dtctl", "the folder is in the home folder");
    is_str(n->instance_type, "g6.xlarge", "nodes have their type");
    ok(!n->host && !n->address[0], "the addresses are not known yet");
    is_str(fake_terraform_calls(), "", "AWS is not asked");
    static const struct {
        int64_t nodes;
        bool fits;
    } counts[] = {{1, true}, {1000, true}, {0, false}, {1001, false}, {-1, false}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        start("");
        config.cluster.nodes = counts[i].nodes;
        is_int(plan(&wanted), counts[i].fits ? 0 : -1, "%lld nodes fit or not",
               (long long)counts[i].nodes);
        is_str(error.text,
               counts[i].fits ? ""
                              : arena_printf(&a,
                                             "t.toml:3:9: cluster.nodes: provider aws makes 1 to "
                                             "1000 nodes, not %lld",
                                             (long long)counts[i].nodes),
               "the error names the limits, or there is none");
        is_uint(wanted.count, counts[i].fits ? (size_t)counts[i].nodes : 0, "the nodes are there");
    }
    start("zones = ['eu-west-1a']\n");
    is_int(plan(&wanted), -1, "a setting does not fit");
    has_str(error.text, "zone 'eu-west-1a' is not in region us-east-1", "the error says which");
    load("[aws]\n");
    is_int(plan(&wanted), -1, "there is no region");
}

static const char *shown(size_t nodes, const struct inventory_node *current, size_t count) {
    diff = (struct provider_diff){
        .wanted = {.count = nodes},
        .current = {.nodes = (struct inventory_node *)(uintptr_t)current, .count = count}};
    said_clear();
    is_int(provider_aws.show(&context, &diff, &error), 0, "the plan is shown: %s", error.text);
    return said();
}

static void test_show(void) {
    static const struct inventory_node spot = {.name = "node0", .purchase = "spot"},
                                       odd = {.name = "node0", .purchase = "stolen"},
                                       old = {.name = "node0"};
    start("zones = ['us-east-1d', 'us-east-1a']\nfallback = ['spot', 'on-demand']\n");
    has_str(shown(3, NULL, 0), "  nodes      3 x g6.xlarge\n", "new nodes count");
    has_str(said(), "  where      us-east-1, us-east-1d, then us-east-1a\n",
            "the zones have order");
    has_str(said(), "  bought     spot, then on-demand\n", "the ways to buy have order");
    has_str(said(), "  lease      12:00:00, at most $", "the lease begins with the nodes");
    ok(!strstr(said(), "did you mean"), "a known type has no remark");
    has_str(shown(3, &spot, 1), "  bought     spot\n", "further nodes are bought like the first");
    has_str(said(), "; spot is less)\n", "the price is that of the way to buy");
    has_str(shown(3, &odd, 1), "  bought     on-demand\n", "an unknown way is on demand");
    has_str(shown(3, &old, 1), "  bought     on-demand\n", "a node of an older dtctl is on demand");
    applied(",\"expires\":\"2100-01-01T00:00:00Z\",\"ttl_s\":43200");
    has_str(shown(3, &spot, 1), "(2100-01-01T00:00Z), at most $",
            "nodes have the end that they have");
    has_str(shown(3, NULL, 0), "  lease      12:00:00, at most $", "new nodes get a new end");
    char stamp[CLOCK_ISO_BYTES];
    int64_t soon_ms = clock_wall_ms() + (90 * 60 + 30) * 1000; // and half a minute
    applied(arena_printf(&a, ",\"expires\":\"%.19sZ\",\"ttl_s\":43200", clock_iso(stamp, soon_ms)));
    has_str(shown(3, &spot, 1), "  lease      ends in 1:30:", "the rest of the lease is known");
    applied(",\"expires\":\"2100-01-01T00:00:00Z\",\"ttl_s\":7");
    has_str(shown(3, &spot, 1), "  lease      12:00:00, at most $", "a changed lease begins now");
    config.lease.ttl_ms = 0;
    applied(",\"expires\":\"2100-01-01T00:00:00Z\",\"ttl_s\":0");
    has_str(shown(3, &spot, 1), "  lease      none: the nodes run, and cost, until dtctl down\n",
            "a cluster without a lease has no end");
    must(aws_lease_decide(&context, clock_of_iso("2099-01-01T00:00:00Z"), &error) == 0);
    has_str(shown(3, &spot, 1), "(2099-01-01T00:00Z), at most $", "extend gives it one");
    start("");
    config.aws.instance_type = "g6.xlarg";
    has_str(shown(1, NULL, 0), "'g6.xlarg' is not in the table; did you mean g6.xlarge?\n",
            "an unknown type may be a slip");
    config.aws.instance_type = "m7i.metal-48xl";
    ok(!strstr(shown(1, NULL, 0), "did you mean"), "another type may be meant");
    config.aws.instance_type = "g6.xlarge";
    config.aws.sagemaker_type = "ml.g6.xlarge";
    has_str(shown(1, NULL, 0),
            "aws.instance_type: 'ml.g6.xlarge' is taken as g6.xlarge, its name on EC2\n",
            "SageMaker's name is translated");
    load("[aws]\n");
    struct json_out j;
    struct strbuf text = {0};
    is_int(provider_aws.show(&context, &diff, &error), -1, "without a region nothing is shown");
    json_open(&j, &text);
    json_object(&j, NULL);
    is_int(provider_aws.show_json(&context, &diff, &j, &error), -1, "programs see nothing either");
    start("");
    applied(",\"expires\":\"2100-01-01T00:00:00Z\",\"ttl_s\":43200");
    diff = (struct provider_diff){
        .wanted = {.count = 3},
        .current = {.nodes = &(struct inventory_node){.name = "node0"}, .count = 1}};
    is_int(provider_aws.show_json(&context, &diff, &j, &error), 0, "programs see the plan");
    json_end(&j);
    has_str(strbuf_cstr(&text),
            "\"region\":\"us-east-1\",\"instance_type\":\"g6.xlarge\",\"nodes\":3,",
            "the plan has its facts");
    has_str(strbuf_cstr(&text), "\"until_ms\":4102444800000,", "the plan has the end of the lease");
    strbuf_fini(&text);
}

// ---- the comparison with AWS --------------------------------------------------------------------

#define CHANGE(action, address)                                                                    \
    "{\"type\":\"planned_change\",\"change\":{\"resource\":{\"addr\":\"" address                   \
    "\"},\"action\":\"" action "\"}}\n"

static int compare(size_t *changes) {
    *changes = 7;
    return provider_aws.compare(&context, &diff, changes, &error);
}

static void test_compare(void) {
    size_t changes;
    struct inventory_node node = {.name = "node0"};
    start("");
    is_int(compare(&changes), 0, "a new cluster is not compared");
    is_uint(changes, 0, "a new cluster has no changes");
    is_str(fake_terraform_calls(), "", "Terraform does not run");
    start("zones = ['us-east-1a']\n");
    applied(",\"az\":\"us-east-1d\",\"purchase\":\"spot\",\"ttl_s\":43200,\"idle_s\":3600");
    const char *vars = fake_text(".dtctl/c/terraform/" VARS);
    diff.wanted.count = 2;
    diff.current = (struct inventory){.nodes = &node, .count = 1};
    fake_terraform_says("apply-1",
                        CHANGE("create", "aws_instance.node[1]") CHANGE("noop", "aws_vpc.vpc")
                            CHANGE("update", "aws_key_pair.key") "{\"type\":\"outputs\"}\n",
                        0);
    is_int(compare(&changes), 0, "a cluster is compared: %s", error.text);
    is_uint(changes, 2, "both changes count");
    is_str(said(), "  create   aws_instance.node[1]\n  update   aws_key_pair.key\n",
           "the user reads of both");
    is_str(fake_terraform_calls(),
           arena_printf(&a, "infra: " PLAN " -var-file=%s/plan.tfvars.json\n", opened.folder),
           "Terraform plans with variables of its own");
    is_str(variable(1, "az"), "us-east-1d", "the zone is that of the nodes");
    is_str(variable(1, "purchase"), "spot", "the way to buy is that of the nodes");
    is_str(variable(1, "node_names"), "node0 node1", "both nodes are wanted");
    ok(file_is_absent(file_join(&a, opened.folder, "plan.tfvars.json")),
       "the variables of the plan are removed");
    is_str(fake_text(".dtctl/c/terraform/" VARS), vars, "the variables of the last up stay");
    ok(context.cluster.lock_fd >= 0, "the cluster is locked for it");
    static const struct {
        const char *vars;
        size_t nodes, changes;
    } leases[] = {
        {",\"ttl_s\":43200,\"idle_s\":3600", 1, 0}, {",\"ttl_s\":7200,\"idle_s\":3600", 1, 1},
        {",\"ttl_s\":43200,\"idle_s\":60", 1, 1},   {",\"ttl_s\":7200,\"idle_s\":60", 0, 0},
        {",\"region\":\"\",\"ttl_s\":7", 1, 0},
    };
    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        start("");
        applied(leases[i].vars);
        if (strstr(leases[i].vars, "region"))
            fake_put(".dtctl/c/terraform/" VARS, "{\"ttl_s\":7}", 0600);
        diff.wanted.count = 1;
        diff.current = (struct inventory){.nodes = &node, .count = leases[i].nodes};
        is_int(compare(&changes), 0, "lease %zu is compared: %s", i, error.text);
        is_uint(changes, leases[i].changes, "a changed lease counts (%zu)", i);
        is_str(said(), leases[i].changes ? "  update   lease of the nodes\n" : "",
               "the user reads of it (%zu)", i);
    }
}

static void test_not_compared(void) {
    size_t changes;
    start("");
    applied(",\"ttl_s\":7");
    diff.current =
        (struct inventory){.nodes = &(struct inventory_node){.name = "node0"}, .count = 1};
    fake_terraform_says("apply-1", problem("reading", "no"), 1);
    is_int(compare(&changes), -1, "Terraform fails");
    has_str(error.text, "plan: reading: no (log: ", "the error says why");
    is_str(said(), "", "nothing else is reported");
    ok(file_is_absent(file_join(&a, opened.folder, "plan.tfvars.json")),
       "the variables of the plan are removed all the same");
    start("");
    applied("");
    open_fails = true;
    is_int(compare(&changes), -1, "there is no Terraform");
    is_str(error.text, "there is no terraform", "the error says so");
}

// ---- costs and settings -------------------------------------------------------------------------

static void test_costs(void) {
    static const struct {
        const char *type, *purchase;
        int64_t ms, mils;
    } cases[] = {
        {"g6.xlarge", "on-demand", 3600000, 805},
        {"g6.xlarge", "on-demand", 7200000, 1610},
        {NULL, NULL, 3600000, 805},
        {"", "", 3600000, 805},
        {"g6.12xlarge", "spot", 3600000, 4602},
        {"g6.xlarge", "stolen", 3600000, 805},
        {"x.large", "on-demand", 3600000, -1},
        {"g6.xlarge", "capacity-block", 3600000, -1},
    };
    start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct inventory_node n = {.instance_type = cases[i].type, .purchase = cases[i].purchase};
        is_int(provider_aws.cost_mils(&context, &n, cases[i].ms), cases[i].mils,
               "node %zu has its cost", i);
    }
    start("price = 2.5\n");
    struct inventory_node n = {.instance_type = "x.large", .purchase = "capacity-block"};
    is_int(provider_aws.cost_mils(&context, &n, 3600000), 2500, "aws.price is the price of all");
}

static void test_settings(void) {
    const char *setting = NULL;
    struct option_pair found_region = {0};
    start("root_gb = 200\nprofile = 'p'\ntags = { team = 'x' }\n");
    config.aws.replace = "node1";
    is_uint(provider_aws.disk_bytes(&config, &setting), 200ULL << 30, "a node has its disk");
    is_str(setting, "aws.root_gb", "the disk has its setting");
    is_str(provider_aws.replaced(&config), "node1", "a node to replace is named");
    struct provider_account account = provider_aws.account(&config);
    is_str(account.profile, "p", "the account has its profile");
    is_str(account.region, "us-east-1", "the account has its region");
    is_uint(account.tags.count, 1, "the account has its tags");
    ok(provider_aws.discover(&context, &found_region), "a region is found for a new file");
    is_str(found_region.name, "aws.region", "the region has its setting");
    is_str(found_region.value, "us-east-1", "the region has its value");
    load("[aws]\n");
    ok(!provider_aws.discover(&context, &found_region), "there may be no region");
    is_int(provider_aws.lease->ahead_ms_max, 31 * 86400000LL, "nodes accept an end within 31 days");
    ok(provider_aws.costs && provider_aws.makes_keys, "machines cost money and get a key");
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    test_plan();
    test_show();
    test_compare();
    test_not_compared();
    test_costs();
    test_settings();
    close_all();
    return done_testing();
}
