// SPDX-License-Identifier: Apache-2.0
// Nodes that did not become ready: what the user reads, which instances end, and which nodes stay.
// Terraform is a script.
#include "aws/aws_boot.h"
#include "aws/aws_cluster.h"
#include "provider/provider.h"
#include "tests/unit/said.h"
#include "tests/unit/terraform_fake.h"

#define NODES 3
#define APPLY "infra: apply -json -auto-approve -input=false -parallelism=30 -lock-timeout=0s"

static struct arena a;
static struct screen screen;
static struct config config;
static struct context context;
static struct aws_cluster cluster;
static struct inventory_node info[NODES];
static struct inventory inventory = {.name = "c", .nodes = info};
static struct aws_boot_node nodes[NODES];
static struct provider_made made;
static struct err error;

// One letter for each node: "." is ready, "f" has failed, "s" has failed and never answered, "k"
// has failed and keeps its key, since another folder made it.
static int settle(const char *states, bool keep) {
    static const char *const names[] = {"n0", "n1", "n2"}, *const ids[] = {"i-0", "i-1", "i-2"};
    size_t count = strlen(states);
    inventory.count = count;
    made = (struct provider_made){.inv = &inventory};
    config.aws.keep_failed = keep;
    for (size_t i = 0; i < count; i++) {
        info[i] = (struct inventory_node){
            .name = names[i], .instance_id = ids[i], .host_key = arena_printf(&a, "own %zu", i)};
        nodes[i] = (struct aws_boot_node){.info = &info[i],
                                          .first_key = states[i] == 'k' ? "" : "first",
                                          .failed = states[i] != '.',
                                          .silent = states[i] == 's'};
        if (nodes[i].failed)
            err_set(&nodes[i].err, ERR_TIMEOUT, "no answer");
    }
    fake_terraform_begin();
    struct err e;
    if (file_write_atomic(cluster.terraform.vars_path, "{}", 2, 0600, &e) < 0)
        bail_out("%s", e.text);
    said_clear();
    err_clear(&error);
    return aws_failed_settle(&cluster, &made, nodes, count, &error);
}

static const char *names_of(const char *const *list, size_t count) {
    char *all = arena_strdup(&a, "");
    for (size_t i = 0; i < count; i++)
        all = arena_printf(&a, "%s%s%s", all, i ? " " : "", list[i]);
    return all;
}

static const char *left(void) {
    const char *names[NODES];
    for (size_t i = 0; i < inventory.count; i++)
        names[i] = inventory.nodes[i].name;
    return names_of(names, inventory.count);
}

#define INSTANCE(n, state)                                                                         \
    "{\"mode\":\"managed\",\"type\":\"aws_instance\",\"name\":\"node\",\"instances\":["            \
    "{\"index_key\":" n ",\"attributes\":{\"id\":\"i-" n "\"," state "}}]}"
#define STATE(more)                                                                                \
    "{\"version\":4,\"resources\":[{\"mode\":\"managed\",\"type\":\"aws_vpc\",\"name\":\"v\","     \
    "\"instances\":[{\"attributes\":{\"id\":\"i-1\"}}]}," more "]}"
#define ALL                                                                                        \
    STATE(INSTANCE("0", "\"instance_state\":\"running\"") "," INSTANCE(                            \
        "1", "\"instance_state\":\"stopped\"") "," INSTANCE("2", "\"x\":1"))

static void test_who(void) {
    static const struct {
        const char *states;
        bool keep;
        const char *calls, *failed, *left;
    } cases[] = {
        {"...", false, "", "", "n0 n1 n2"},
        {"f..", false, APPLY " -destroy -target=aws_instance.node[0]\n", "n0", "n1 n2"},
        {".f.", false, APPLY " -destroy -target=aws_instance.node[1]\n", "n1", "n0 n2"},
        {"f.f", false,
         APPLY " -destroy -target=aws_instance.node[0] -target=aws_instance.node[2]\n", "n0 n2",
         "n1"},
        {"fff", false, APPLY " -destroy\n", "n0 n1 n2", ""},
        {"f", false, APPLY " -destroy\n", "n0", ""},
        {"f..", true, "", "n0", "n0 n1 n2"},
        {"fff", true, "", "n0 n1 n2", "n0 n1 n2"},
        {"k..", false, "", "n0", "n0 n1 n2"},
        {"fk.", false, "", "n0 n1", "n0 n1 n2"},
        {"s..", false, APPLY " -refresh-only\n" APPLY " -destroy -target=aws_instance.node[0]\n",
         "n0", "n1 n2"},
        {".s.", true, APPLY " -refresh-only\n", "n1", "n0 n1 n2"},
    };
    fake_terraform_says("state-infra", ALL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *states = cases[i].states;
        is_int(settle(states, cases[i].keep), 0, "%s: the failures are settled: %s", states,
               error.text);
        is_str(fake_terraform_calls(), cases[i].calls, "%s: these instances end", states);
        is_str(names_of(made.failed, made.failed_count), cases[i].failed,
               "%s: the failed nodes are named", states);
        is_int(file_exists(cluster.terraform.vars_path), !strstr(cases[i].calls, "-destroy\n"),
               "%s: the variables go with the last node", states);
        is_str(left(), cases[i].left, "%s: these nodes stay", states);
    }
    settle("f.k", true);
    is_str(nodes[0].info->host_key, "first", "a node may still have the key of the first login");
    is_str(nodes[1].info->host_key, "own 1", "a ready node has its own key");
    is_str(nodes[2].info->host_key, "own 2", "a node of another folder has its own key");
}

static void test_words(void) {
    fake_terraform_says("state-infra", ALL, 0);
    settle("f.", false);
    has_str(said(), "node 'n0': no answer", "the failure is said");
    has_str(said(), "n0 was terminated; dtctl up creates another", "the end is said");
    ok(!strstr(said(), "console output") && !strstr(said(), "n1"), "nothing else is said");
    settle("f.", true);
    has_str(said(), "n0 is kept; dtctl ssh n0 logs in to it", "a login is possible");
    settle("s.", true);
    has_str(said(), "no answer; AWS says that i-0 is running", "the state in AWS is said");
    has_str(said(), "--region r --instance-id i-0", "the console has its command");
    has_str(said(), "n0 is kept; dtctl up --replace n0", "no login is possible");
    settle("fs", true);
    has_str(said(), "AWS says that i-1 is stopped", "another state is said");
    ok(!strstr(said(), "i-0"), "AWS is not asked about a node that answered");
    settle("ffs", true);
    has_str(said(), "AWS says that i-2 is in no state", "there may be no state");
    fake_terraform_says("state-infra", STATE(INSTANCE("0", "\"x\":1")), 0);
    settle("fs", true);
    has_str(said(), "no answer; AWS has no instance i-1 any more", "an instance may be gone");
    is_int(settle(".f", false), 0, "an instance that is gone need not end");
    is_str(fake_terraform_calls(), "", "no instance ends then");
}

static void test_faults(void) {
    fake_terraform_says("state-infra", ALL, 0);
    fake_terraform_says("apply-1", "", 1);
    is_int(settle("f.", false), -1, "an instance that does not end is an error");
    has_str(error.text, "ending failed nodes", "the error says what failed");
    is_int(settle("s.", true), 0, "AWS need not answer");
    has_str(said(), "node 'n0': no answer", "the failure is said all the same");
    ok(!strstr(said(), "AWS says"), "no state is said then");
    fake_terraform_says("apply-1", "", 0);
    fake_terraform_says("state-infra", "no state", 1);
    is_int(settle("f.", false), -1, "a state that cannot be read is an error");
    is_int(settle("f.", true), 0, "for nodes that are kept no state is needed");
}

int main(void) {
    clock_stop();
    config = (struct config){.aws = {.owner = "me", .state = ""}};
    context = (struct context){.arena = &a, .config = &config, .screen = &screen};
    said_open(&screen);
    fake_terraform_open(&context, &cluster.terraform);
    cluster.terraform.cloud = &aws_terraform;
    cluster.context = &context;
    cluster.vars.region = "r";
    test_who();
    test_words();
    test_faults();
    said_close(&screen);
    fake_terraform_close(&context);
    arena_fini(&a);
    return done_testing();
}
