// SPDX-License-Identifier: Apache-2.0
// Applies until all nodes exist: what is tried after each refusal, and what the user reads.
#include "tests/unit/aws/instances_made.h"

#include <sys/stat.h>

// ---- all goes well ------------------------------------------------------------------------------

static void test_made(void) {
    start("", 0);
    says(1,
         HOOK("apply_start", "aws_ami", "null", "read")
             HOOK("apply_start", "aws_vpc", "null", "create") HOOK("apply_complete", "aws_vpc",
                                                                   "null", "create")
                 HOOK("apply_start", "aws_instance", "1", "create")
                     HOOK("apply_start", "aws_key_pair", "null", "create")
                         HOOK("apply_complete", "aws_instance", "1", "create")
                             HOOK("apply_start", "aws_instance", "0", "delete")
                                 HOOK("apply_start", "aws_instance", "null", "create")
                                     HOOK("apply_complete", "aws_instance", "0", "delete")
                                         HOOK("apply_start", "aws_instance", "0", "create") MADE,
         0);
    is_int(make(), 0, "two nodes are made: %s", error.text);
    is_str(fake_terraform_calls(), NEW, "the first apply asks whether the name is free");
    is_str(strbuf_cstr(&boot_rows),
           "0: network, keys and groups exist\n1: network, keys and groups exist\n"
           "1: phase 0\n0: network, keys and groups exist\n1: phase 1\n"
           "0: waiting for the end of its old instance\n0: network, keys and groups exist\n"
           "0: phase 0\n",
           "each node has its row");
    is_str(said(), "", "nothing else is said");
    is_str(tried(1), "null on-demand", "the module chooses the zone");
    is_uint(now.count, 2, "both nodes are in the inventory");
    is_str(now.nodes[1].host, "198.51.100.1", "the second node has its address");
    ok(now.created[0] && str_eq(now.created, now.nodes[0].launched), "the cluster is new");
    start("", 0);
    says(1, MADE, 0);
    cluster.has_before = true; // an interrupted command had begun
    is_int(make(), 0, "an interrupted command is continued: %s", error.text);
    is_str(fake_terraform_calls(), UP "\n", "the cluster is not new");
    start("zones = ['us-east-1d', 'us-east-1e']\nfallback = ['spot', 'on-demand']\n", 0);
    says(1, MADE, 0);
    make();
    is_str(tried(1), "us-east-1d spot", "the user's first choices are tried first");
    start("", 1);
    says(1, MADE, 0);
    is_int(make(), 0, "a node joins: %s", error.text);
    is_str(fake_terraform_calls(), UP "\n", "the cluster is known");
    is_str(tried(1), "us-east-1c spot outside", "new nodes join the others");
    is_str(now.nodes[0].launched, "2026-01-02T03:04:05.678Z", "an old node has its time");
    is_str(now.created, "2026-01-01T00:00:00.000Z", "the cluster has its time");
    ok(!str_eq(now.nodes[1].launched, now.nodes[0].launched), "a new node is new");
}

static void test_no_inventory(void) {
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "terraform gave no inventory (log: "},
        {"{\"type\":\"outputs\",\"outputs\":{\"inventory\":{\"value\":7}}}\n",
         "terraform gave no inventory (log: "},
        {"{\"type\":\"outputs\",\"outputs\":{\"inventory\":{\"value\":\"x\"}}}\n",
         "terraform's inventory:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start("", 0);
        says(1, cases[i].text, 0);
        is_int(make(), -1, "there is no inventory (%zu)", i);
        is_int(error.code, ERR_FORMAT, "the error is one of the format (%zu)", i);
        has_str(error.text, cases[i].words, "the error says so (%zu)", i);
    }
}

// ---- one refusal after another ------------------------------------------------------------------

static void test_zones(void) {
    start("fallback = ['spot', 'on-demand']\n", 0);
    fake_terraform_says("state-infra", STATE(ZONES), 0);
    says(1, HOOK("apply_start", "aws_vpc", "null", "create") FULL, 1);
    says(2, FULL, 1);
    says(3, FULL, 1);
    says(4, MADE, 0);
    is_int(make(), 0, "the fourth attempt succeeds: %s", error.text);
    is_str(fake_terraform_calls(), NEW AGAIN AGAIN AGAIN, "later attempts have a fresh state");
    is_str(tried(1), "null spot", "first the module chooses");
    is_str(tried(2), "us-east-1b spot", "the other zone of the region is tried second");
    is_str(tried(3), "us-east-1a on-demand", "the other way to buy is tried third");
    is_str(tried(4), "us-east-1b on-demand", "the other zone is tried again");
    is_str(said(),
           "us-east-1a, spot: refused (capacity, InsufficientInstanceCapacity); trying "
           "us-east-1b, spot\n"
           "us-east-1b, spot: refused (capacity, InsufficientInstanceCapacity); trying "
           "us-east-1a, on-demand\n"
           "us-east-1a, on-demand: refused (capacity, InsufficientInstanceCapacity); trying "
           "us-east-1b, on-demand\n",
           "the user reads of each refusal");
    has_str(strbuf_cstr(&boot_rows), "hide\nshow\nhide\nshow\nhide\nshow\n",
            "the rows make room for the words");
    ok(has_vars(), "the variables are those of the nodes");
    start("subnet = 'subnet-12345678'\nfallback = ['spot', 'on-demand']\n", 0);
    fake_terraform_says("state-infra", STATE(ZONES), 0);
    says(1, FULL, 1);
    says(2, MADE, 0);
    is_int(make(), 0, "a subnet is in one zone: %s", error.text);
    is_str(tried(2), "null on-demand", "no other zone is tried");
    is_str(said(),
           "first zone, spot: refused (capacity, InsufficientInstanceCapacity); trying first "
           "zone, on-demand\n",
           "the zone has no name");
}

// AWS may have more zones than are tried.
static void test_many_zones(void) {
    const char *list = "\"us-east-1Z\"";
    for (int i = 0; i < 32; i++)
        list = arena_printf(&a, "%s,\"us-east-1%c\"", list, 'a' + i % 26);
    start("", 0);
    fake_terraform_says(
        "state-infra",
        arena_printf(&a,
                     "{\"version\":4,\"resources\":[{\"mode\":\"data\",\"type\":"
                     "\"aws_ec2_instance_type_offerings\",\"name\":\"x\",\"instances\":["
                     "{\"attributes\":{\"id\":\"o\",\"locations\":[%s]}}]}]}",
                     list),
        0);
    says(1, FULL, 1);
    says(2, MADE, 0);
    is_int(make(), 0, "33 zones are no error: %s", error.text);
    is_str(tried(2), "us-east-1Z on-demand", "the first one is tried");
}

static void test_event(void) {
    start("zones = ['us-east-1d', 'us-east-1e']\n", 0);
    screen.style = SCREEN_JSON;
    says(1, REFUSED("t9.x is not offered in us-east-1d; it is in: ."), 1);
    says(2, MADE, 0);
    is_int(make(), 0, "the second zone has the type: %s", error.text);
    screen.style = SCREEN_PLAIN;
    has_str(said(),
            "\"kind\":\"unsupported\",\"code\":\"\",\"zone\":\"us-east-1d\",\"purchase\":"
            "\"on-demand\",\"next_zone\":\"us-east-1e\",\"next_purchase\":\"on-demand\","
            "\"next_outside_group\":false}\n",
            "a program reads of the refusal");
    start("zones = ['us-east-1d', 'us-east-1e']\n", 0);
    says(1, REFUSED("t9.x is not offered in us-east-1d; it is in: ."), 1);
    says(2, MADE, 0);
    make();
    is_str(said(),
           "us-east-1d, on-demand: refused (unsupported, no code); trying us-east-1e, "
           "on-demand\n",
           "a refusal may have no code");
}

#define GROUP RESOURCE("managed", "aws_placement_group", "\"id\":\"g\"")
#define TYPE(efa)                                                                                  \
    RESOURCE("data", "aws_ec2_instance_type", "\"id\":\"t\",\"efa_maximum_interfaces\":" efa)

// A group makes capacity scarcer: nodes may leave a group that they entered by default.
static void test_group(void) {
    static const struct {
        const char *options, *state, *second;
        size_t nodes;
    } cases[] = {
        {"", STATE(GROUP), "us-east-1d on-demand outside", 2},
        {"", STATE(GROUP), NULL, 1},
        {"", STATE(GROUP "," TYPE("1")), "us-east-1d on-demand outside", 1},
        {"", STATE(GROUP "," TYPE("0")), NULL, 1},
        {"efa = 'off'\n", STATE(GROUP "," TYPE("1")), NULL, 1},
        {"efa = 'off'\n", STATE(GROUP "," TYPE("1")), "us-east-1d on-demand outside", 2},
        {"placement_group = 'on'\n", STATE(GROUP), NULL, 2},
        {"", STATE(TYPE("1")), NULL, 2},
        {"", STATE(GROUP "," RESOURCE("data", "aws_ec2_instance_type", "\"id\":\"t\"")), NULL, 1},
        {"", "no state", NULL, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(arena_printf(&a, "zones = ['us-east-1d']\n%s", cases[i].options), 0);
        fill(cases[i].nodes);
        fake_terraform_says("state-infra", cases[i].state, 0);
        says(1, FULL, 1);
        says(2, MADE, 0);
        is_int(make(), cases[i].second ? 0 : -1, "group %zu: %s", i, error.text);
        if (cases[i].second)
            is_str(tried(2), cases[i].second, "group %zu is left", i);
    }
    start("zones = ['us-east-1d']\n", 0);
    fake_terraform_says("state-infra", STATE(GROUP), 0);
    says(1, FULL, 1);
    says(2, FULL, 1);
    is_int(make(), -1, "outside there is no capacity either");
    is_str(said(),
           "us-east-1d, on-demand: refused (capacity, InsufficientInstanceCapacity); trying "
           "us-east-1d, on-demand outside of the placement group\n",
           "the user reads of the second try");
}

// The refusal of most weight decides, and waiting for the lock is none.
static void test_ranks(void) {
    start("zones = ['us-east-1d', 'us-east-1e']\n", 0);
    says(1,
         FULL REFUSED("api error UnauthorizedOperation: no")
             REFUSED("api error InsufficientInstanceCapacity: none"),
         1);
    is_int(make(), -1, "a refusal that holds everywhere decides");
    has_str(error.text, "(permission, UnauthorizedOperation): no;", "the error has it");
    start("zones = ['us-east-1d', 'us-east-1e']\n", 0);
    says(1, problem("Error acquiring the state lock", "x"), 1);
    is_int(make(), -1, "the lock of the state is not free");
    is_str(fake_terraform_calls(), NEW, "no zone helps");
    has_str(error.text, "up: Error acquiring the state lock: x (log: ", "the error says so");
    ok(!has_vars(), "another command has made the cluster, so these variables are of none");
    start("zones = ['us-east-1d', 'us-east-1e']\n", 0);
    cluster.has_before = true;
    says(1, problem("Error acquiring the state lock", "x"), 1);
    is_int(make(), -1, "the lock of a cluster that is known is not free");
    ok(has_vars(), "the variables of that cluster stay");
}

static void test_repeated(void) {
    start("", 0);
    says(1, REFUSED("api error RequestLimitExceeded: slow down"), 1);
    says(2, REFUSED("api error Throttling: slow down"), 1);
    says(3, MADE, 0);
    int64_t began = clock_ahead_ms;
    is_int(make(), 0, "the third call is in time: %s", error.text);
    is_int(fake_pauses, 2, "a pause is before each");
    is_int(clock_ahead_ms - began, 40000, "each takes 20 s");
    start("", 0);
    fake_stops_in_pause = 1;
    says(1, REFUSED("api error RequestLimitExceeded: slow down"), 1);
    is_int(make(), -1, "the user stops the pause");
    is_int(error.code, ERR_INTERRUPTED, "the error says so");
    is_str(error.text, "stopped; dtctl up continues, dtctl down removes what was made",
           "both next steps are named");
    for (int i = 0; i < 2; i++) {
        start("", 0);
        for (int k = 1; k <= 3; k++)
            says(k, REFUSED("api error RequestLimitExceeded: slow down"), 1);
        is_int(make(), -1, "AWS is too slow");
        has_str(error.text,
                "(throttle, RequestLimitExceeded): slow down; nothing is left of it; "
                "try again in some minutes (log: ",
                "the error says when to try again");
    }
}

static void test_stopped(void) {
    start("", 0);
    says(1, FULL, 130);
    is_int(make(), -1, "Terraform is killed");
    has_str(error.text, "up: terraform was ended by SIGINT;", "the error says by what");
    is_str(fake_terraform_calls(), NEW, "nothing else is tried");
    start("", 0);
    says(1, FULL, 128);
    is_int(make(), -1, "Terraform ends with a status of a shell");
    has_str(error.text, "up: creating EC2 Instance: api error", "the failure is Terraform's");
    is_str(fake_terraform_calls(), NEW, "nothing else is tried then");
    start("", 0);
    context.interrupt = SIGINT;
    is_int(make(), -1, "the user stops it before");
    is_int(error.code, ERR_INTERRUPTED, "the error says so");
    is_str(fake_terraform_calls(), "", "nothing is tried");
}

// Another folder has made a cluster of this name.
static void test_taken(void) {
    start("", 0);
    says(1, problem("Resource precondition failed", "cluster c runs already, made by ann."), 1);
    is_int(make(), -1, "the name is taken");
    is_int(error.code, ERR_EXISTS, "the error says that it exists");
    is_str(error.text,
           "cluster c runs already, made by ann. Work from there, choose another name with -c, or "
           "end it with dtctl gc -y --in-use",
           "the error has three remedies");
    ok(!has_vars(), "the variables are removed, so that down does not end the other cluster");
    start("", 0);
    says(1, problem("It", "runs already."), 1);
    make();
    has_str(error.text, "It: runs already. Work from there,", "other words are kept whole");
}

// A rule of the module, before anything is made.
static void test_rules(void) {
    static const char rule[] = "Invalid value for variable";
    start("", 0);
    says(1, problem(rule, "root_gb: too small."), 1);
    is_int(make(), -1, "a setting is refused");
    is_int(error.code, ERR_CONFIG, "the configuration is at fault");
    has_str(error.text, "aws.root_gb: too small (refused before anything was created; log: ",
            "the error names the option");
    ok(!has_vars(), "a new cluster has no variables then");
    start("", 1);
    fake_put(".dtctl/c/terraform/infra/terraform.tfvars.json", "{\"old\":1}", 0600);
    says(1, problem(rule, "root_gb: too small."), 1);
    is_int(make(), -1, "a setting of further nodes is refused");
    is_str(fake_text(".dtctl/c/terraform/infra/terraform.tfvars.json"), "{\"old\":1}",
           "the old variables are put back");
    struct stat st;
    must(stat(cluster.terraform.vars_path, &st) == 0);
    is_int(st.st_mode & 0777, 0600, "the file is the user's alone");
    start("", 0);
    says(1,
         arena_printf(&a, "%s%s", HOOK("apply_start", "aws_vpc", "null", "create"),
                      problem(rule, "root_gb: too small.")),
         1);
    make();
    ok(has_vars(), "variables of what was made stay");
}

int main(void) {
    open_all();
    test_made();
    test_no_inventory();
    test_zones();
    test_many_zones();
    test_event();
    test_group();
    test_ranks();
    test_repeated();
    test_stopped();
    test_taken();
    test_rules();
    strbuf_fini(&boot_rows);
    close_all();
    return done_testing();
}
