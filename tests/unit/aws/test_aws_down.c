// SPDX-License-Identifier: Apache-2.0
// A cluster is taken down: Terraform destroys its state, and the search for leftovers ends when
// AWS lists none. Then the end of a lease as a tag, and nodes that AWS has ended.
#include "tests/unit/aws/terraform_opened.h"

#define UP             "infra: " COMMON " -lock-timeout=0s"
#define DESTROY        UP " -destroy\n"
#define FIND           APPLY "\n"
#define REMOVE         APPLY " -lock-timeout=0s -destroy\n"
#define VARS           ".dtctl/c/terraform/infra/terraform.tfvars.json"
#define LOG            ".dtctl/c/terraform/terraform.log"
#define ITEM(kind, id) "{\"kind\":\"" kind "\",\"id\":\"" id "\"}"
#define STATE_OF(id)                                                                               \
    "{\"version\":4,\"resources\":[{\"mode\":\"managed\",\"type\":\"aws_vpc\",\"name\":\"x\","     \
    "\"instances\":[{\"attributes\":{\"id\":\"" id "\"}}]}]}"
#define STATE  STATE_OF("v-1")
#define ENDING "ending the instances of cluster c …\n"

static struct provider_down_result result;

static void says(int number, const char *text, int status) {
    fake_terraform_says(arena_printf(&a, "apply-%d", number), text, status);
}

static void start(void) {
    static struct inventory_node nodes[] = {{.name = "node0",
                                             .transport = INVENTORY_SSH,
                                             .host = "198.51.100.1",
                                             .address = "10.0.0.1",
                                             .root = ".dtctl",
                                             .instance_id = "i-0"},
                                            {.name = "node1",
                                             .transport = INVENTORY_SSH,
                                             .host = "198.51.100.2",
                                             .address = "10.0.0.2",
                                             .root = ".dtctl",
                                             .instance_id = "i-1"}};
    struct inventory inv = {.name = "c", .provider = "aws", .created = "", .nodes = nodes};
    struct err e = {0};
    load("[aws]\nowner = 'me'\nregion = 'eu-west-1'\n");
    begin();
    open_fails = false;
    opened_in = NULL;
    inv.count = 2;
    if (cluster_save(&context.cluster, &inv, &e) < 0)
        bail_out("%s", e.text);
    fake_put(VARS, "{\"region\":\"eu-west-1\",\"owner\":\"ann\",\"expires\":\"\"}", 0600);
    terraform_set_clean(&opened);
    fake_terraform_says("state-infra", STATE, 0);
    fake_terraform_says("state-sweep", STATE, 0);
    for (int i = 1; i <= 8; i++)
        says(i, "", 9); // no more are expected
    result = (struct provider_down_result){0};
}

static int down(void) {
    return aws_take_down(&context, &result, &error);
}

// ---- down ---------------------------------------------------------------------------------------

static void test_down(void) {
    start();
    fake_put(".dtctl/c/terraform/lease", "2030-01-02T03:04:05Z\n", 0600);
    says(1, "", 0);
    says(2, outputs(""), 0);
    is_int(down(), 0, "the cluster ends: %s", error.text);
    is_str(fake_terraform_calls(), DESTROY FIND, "the state is destroyed, and AWS is searched");
    is_str(variable(2, "gone_ids"), "v-1", "the resources of the state are gone");
    is_str(variable(2, "cluster"), "c", "the search is for this cluster");
    is_str(variable(2, "roles"), "false", "without S3 there are no roles");
    is_str(said(), ENDING, "the user reads of the end");
    is_uint(result.removed, 2, "two nodes have ended");
    is_uint(result.swept, 0, "nothing else was there");
    ok(result.made_here, "the nodes were made here");
    is_int(result.spent_mils, 0, "the costs are known");
    is_str(result.verified,
           "AWS has no instance, volume, address, network, group or key with the tags of cluster c "
           "in eu-west-1",
           "the search was whole");
    ok(!fake_text(VARS) && !fake_text(".dtctl/c/terraform/lease"), "the folder has no cluster");
    ok(!cluster_exists(&context.cluster), "the inventory is gone");
    ok(!terraform_is_unclean(&opened), "the folder is clean");
    begin();
    result.removed = 7;
    is_int(down(), 0, "there is no cluster any more");
    is_str(fake_terraform_calls(), "", "nothing is asked");
    is_uint(result.removed, 7, "there is nothing to report");
}

// An `up` was interrupted before the cluster had nodes.
static void test_half(void) {
    start();
    struct err e;
    cluster_forget(&context.cluster, &e);
    says(1, "", 0);
    says(2, outputs(""), 0);
    is_int(down(), 0, "a cluster without nodes ends: %s", error.text);
    is_str(fake_terraform_calls(), DESTROY FIND, "the state is destroyed all the same");
    is_uint(result.removed, 0, "no node has ended");
    is_int(result.spent_mils, -1, "the costs are not known");
    start();
    unlink(fake_in(VARS));
    says(1, outputs(""), 0);
    is_int(down(), 0, "a cluster without variables ends: %s", error.text);
    is_str(fake_terraform_calls(), FIND, "there is no state to destroy");
    start();
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    fake_terraform_says("state-sweep", STATE_OF("v-9"), 0);
    says(1, outputs(ITEM("vpc", "v-9")), 0);
    says(2, "", 0);
    says(3, "", 0);
    says(4, outputs(ITEM("vpc", "v-8")), 0);
    says(5, "", 0);
    says(6, outputs(""), 0);
    is_int(down(), 0, "a cluster of a killed command ends: %s", error.text);
    is_uint(result.swept, 2, "both leftovers count");
}

static void test_leftovers(void) {
    start();
    says(1, "", 0);
    for (int i = 2; i <= 4; i += 2) {
        says(i,
             outputs(i == 2 ? ITEM("volume", "vol-1") "," ITEM("group", "g")
                            : ITEM("volume", "vol-2")),
             0);
        says(i + 1, "", 0);
    }
    says(6, outputs(""), 0);
    is_int(down(), 0, "leftovers are removed: %s", error.text);
    is_str(fake_terraform_calls(), DESTROY FIND REMOVE FIND REMOVE FIND,
           "the search goes on until nothing is found");
    is_uint(result.swept, 3, "three leftovers count");
    is_str(said(),
           ENDING "test: warning: removing an unrecorded resource kind=volume id=vol-1\n"
                  "test: warning: removing an unrecorded resource kind=group id=g\n"
                  "test: warning: removing an unrecorded resource kind=volume id=vol-2\n",
           "the user reads of each");
    start();
    says(1, "", 0);
    for (int i = 2; i <= 6; i += 2) {
        says(i, outputs(ITEM("volume", "vol-1") "," ITEM("group", "g")), 0);
        says(i + 1, "", 0);
    }
    is_int(down(), -1, "a volume stays");
    is_str(fake_terraform_calls(), DESTROY FIND REMOVE FIND REMOVE FIND REMOVE,
           "three rounds are enough");
    is_str(error.text,
           "volume vol-1 and 1 others are still there after 3 rounds; see the EC2 console (tag "
           "dtctl-cluster = c)",
           "the error names it");
    ok(fake_text(VARS) != NULL, "the cluster is still known");
    start();
    says(1, "", 0);
    for (int i = 2; i <= 6; i += 2) {
        says(i, outputs(ITEM("group", "g") "," ITEM("key", "k")), 0);
        says(i + 1, "", 0);
    }
    is_int(down(), 0, "a group without cost may stay: %s", error.text);
    const char *end = strstr(said(), "test: warning: a resource without cost");
    is_str(end ? end : "",
           "test: warning: a resource without cost is left; dtctl gc removes it later kind=group "
           "id=g\n"
           "test: warning: a resource without cost is left; dtctl gc removes it later kind=key "
           "id=k\n",
           "the user reads of both");
    is_str(result.verified,
           "AWS has no instance, volume or address with the tags of cluster c in eu-west-1; some "
           "things that cost nothing are left",
           "the sentence says so");
    ok(!fake_text(VARS), "the cluster is forgotten");
    ok(!fake_text(".dtctl/c/terraform/sweep.tfstate"), "the search is forgotten");
}

// Leftovers that cannot be removed.
static void test_refused(void) {
    static const struct {
        const char *items;
        int result;
    } cases[] = {
        {ITEM("group", "g") "," ITEM("key", "k"), 0},
        {ITEM("group", "g") "," ITEM("address", "a"), -1},
        {ITEM("instance", "i"), -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start();
        says(1, "", 0);
        says(2, outputs(cases[i].items), 0);
        says(3, problem("deleting", "in use"), 1);
        is_int(down(), cases[i].result, "leftovers %zu cannot be removed: %s", i, error.text);
        if (cases[i].result == 0)
            has_str(said(),
                    arena_printf(&a,
                                 "warning: cannot remove resources without cost reason=\"removing "
                                 "leftovers: deleting: in use (log: %s)\"\n",
                                 fake_in(LOG)),
                    "the user reads why");
        else
            has_str(error.text, "removing leftovers: deleting: in use", "the error says why");
        is_int(fake_text(VARS) != NULL, cases[i].result != 0, "cluster %zu is known or not", i);
    }
    start();
    says(1, "", 0);
    says(2, outputs(ITEM("group", "g")), 0);
    for (int i = 3; i <= 4; i++)
        says(i, problem(TERRAFORM_NOT_LOCKED, "Lock Info:\\n  ID: a1\\n  Who: ann@laptop\\n"), 1);
    is_int(down(), -1, "another command works on the leftovers");
    is_int(error.code, ERR_BUSY, "the cluster is busy");
    ok(fake_text(VARS) != NULL, "the cluster stays known");
    start();
    says(1, "", 0);
    says(2, problem("x", "api error ExpiredToken: y"), 1);
    is_int(down(), -1, "AWS cannot be searched");
    has_str(error.text, "cannot check for leftovers: looking for leftovers: x: api error",
            "the error says so");
    start();
    says(1, "", 0);
    says(2, problem("x", "api error AccessDenied: tag:GetResources"), 1);
    says(3, outputs(""), 0);
    is_int(down(), 0, "AWS lists a part: %s", error.text);
    is_str(result.verified,
           "AWS has no instance, volume or address with the tags of cluster c in eu-west-1; "
           "networks, groups and keys were not looked for",
           "the sentence says which");
}

static void test_not_destroyed(void) {
    start();
    says(1, problem("deleting", "in use"), 1);
    is_int(down(), -1, "Terraform fails");
    is_str(error.text,
           arena_printf(&a,
                        "instances may still run and cost money: down: deleting: in use (log: %s)",
                        fake_in(LOG)),
           "the error says that costs go on");
    is_str(fake_terraform_calls(), DESTROY, "AWS is not searched");
    ok(fake_text(VARS) && cluster_exists(&context.cluster), "the cluster is still known");
    start();
    fake_terraform_says("state-infra", "", 1);
    is_int(down(), -1, "the state cannot be read");
    is_str(fake_terraform_calls(), "", "nothing is destroyed");
    start();
    open_fails = true;
    is_int(down(), -1, "there is no Terraform");
    is_str(error.text, "there is no terraform", "the error says so");
    start();
    fake_put(".dtctl/c/cluster.toml", "x", 0600);
    fake_put(".dtctl/c/inventory.toml", "x", 0600);
    is_int(down(), -1, "the inventory cannot be read");
    is_str(fake_terraform_calls(), "", "nothing is asked");
    struct err e;
    cluster_forget(&context.cluster, &e);
}

// ---- the lease ----------------------------------------------------------------------------------

static int tag(int64_t at_ms) {
    return aws_lease_tag(&context, at_ms, &error);
}

static void test_tag(void) {
    start();
    says(1, "", 0);
    is_int(tag(1767323045678), 0, "the instances are tagged: %s", error.text);
    is_str(fake_terraform_calls(), UP " -refresh=false -var=expires=2026-01-02T03:04:05Z\n",
           "the tag has whole seconds");
    is_str(opened_in, "eu-west-1", "the region is that of the cluster");
    is_str(said(), "tagging the instances with the new end …\n", "the user reads of it");
    start();
    says(1, problem("tagging", "no"), 1);
    is_int(tag(1767323045678), 0, "a tag that is refused is no error");
    has_str(said(),
            arena_printf(&a,
                         "warning: the nodes have the new end, but their tag dtctl-expires has the "
                         "old one until the next up reason=\"tagging: no\" log=%s\n",
                         fake_in(LOG)),
            "the user reads why");
    start();
    unlink(fake_in(VARS));
    is_int(tag(1767323045678), 0, "a folder without variables tags nothing");
    is_str(fake_terraform_calls(), "", "Terraform does not run then");
    start();
    open_fails = true;
    is_int(tag(1767323045678), -1, "there is no Terraform");
    start();
    context.interrupt = SIGINT;
    is_int(tag(1767323045678), -1, "the user stops it");
}

static void test_decided(void) {
    static const struct {
        const char *text; // NULL: no file
        int64_t at_ms;
    } cases[] = {
        {NULL, 0},
        {"", 0},
        {"soon\n", 0},
        {"2001-02-03T04:05:06Z\n", 0},
        {"2100-01-01T00:00:00Z\n", 4102444800000},
    };
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        aws_lease_forget(&context);
        if (cases[i].text)
            fake_put(".dtctl/c/terraform/lease", cases[i].text, 0600);
        is_int(aws_lease_decided(&context), cases[i].at_ms, "end %zu is read", i);
    }
    is_int(aws_lease_decide(&context, 4102444800999, &error), 0, "an end is decided");
    is_str(fake_text(".dtctl/c/terraform/lease"), "2100-01-01T00:00:00Z\n",
           "the end has whole seconds");
    aws_lease_forget(&context);
    ok(!fake_text(".dtctl/c/terraform/lease"), "an end is forgotten");
}

// ---- nodes that do not answer -------------------------------------------------------------------

static void test_gone(void) {
    static const struct {
        const char *state, *words;
        bool gone;
    } cases[] = {
        {"running", "no answer", false},
        {"stopped", "AWS says that i-1 is stopped (try: start it there, or dtctl up --replace n1)",
         false},
        {"shutting-down",
         "AWS is ending it (shutting-down); dtctl up waits for that and creates another one", true},
        {"terminated", "AWS has ended it; dtctl up creates another one", true},
        {"", "AWS has ended it; dtctl up creates another one", true},
    };
    struct inventory_node info[] = {{.name = "n0", .instance_id = "i-0"},
                                    {.name = "n1", .instance_id = "i-1"},
                                    {.name = "n2", .instance_id = ""},
                                    {.name = "n3"}};
    struct inventory inv = {.name = "c", .nodes = info, .count = 4};
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        bool none = i == sizeof cases / sizeof *cases;
        struct fleet_node nodes[3] = {{.info = &info[1], .failed = true},
                                      {.info = &info[2], .failed = true},
                                      {.info = &info[3], .failed = true}};
        struct fleet f = {.context = &context, .nodes = nodes, .count = 3};
        start();
        for (size_t k = 0; k < 3; k++)
            err_set(&nodes[k].err, ERR_NET, "no answer");
        says(1,
             none ? problem("x", "api error ExpiredToken: y")
                  : outputs(arena_printf(&a,
                                         "{\"kind\":\"instance\",\"id\":\"i-9\",\"state\":"
                                         "\"running\"},{\"id\":\"%s\",\"state\":\"%s\"}",
                                         cases[i].state[0] ? "i-1" : "i-7", cases[i].state)),
             none);
        const bool *ended = aws_lease_gone(&f, &inv);
        has_str(said(), "asking AWS about nodes that do not answer …\n", "the user reads of it");
        is_str(nodes[0].err.text, none ? "no answer" : cases[i].words, "state %zu has its words",
               i);
        is_int(ended[1], !none && cases[i].gone, "state %zu is an end or not", i);
        ok(!ended[0] && !ended[2] && !ended[3], "no other node is gone (%zu)", i);
        is_str(nodes[1].err.text, "no answer", "a node without an instance keeps its error");
        is_str(nodes[2].err.text, "no answer", "a node without any instance keeps its error");
        is_int(strstr(said(), "warning: cannot ask AWS about nodes that do not answer reason=") !=
                   NULL,
               none, "AWS answers or not (%zu)", i);
        is_str(variable(1, "free_parts"), "false", "parts without cost are not searched");
        is_str(variable(1, "ending"), "true", "instances that end are searched, too");
        ok(!fake_text(".dtctl/c/terraform/sweep.tfstate"), "the search is forgotten");
    }
    struct fleet_node one = {.info = &info[0]};
    struct fleet f = {.context = &context, .nodes = &one, .count = 1};
    start();
    ok(!aws_lease_gone(&f, &inv)[0], "a node that answers is not gone");
    is_str(fake_terraform_calls(), "", "AWS is not asked then");
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    test_down();
    test_half();
    test_leftovers();
    test_refused();
    test_not_destroyed();
    test_tag();
    test_decided();
    test_gone();
    close_all();
    return done_testing();
}
