// SPDX-License-Identifier: Apache-2.0
// Resources with the tags of a cluster are found, also when AWS lists what is gone or refuses a
// part of the search. Terraform is a script of the test.
#include "tests/unit/aws/cluster_fake.h"

static const char *missing(const char *type, const char *id) {
    return problem(
        "Cannot import non-existent remote object",
        arena_printf(&a, "object to \\\"%s.found[\\\\\\\"%s\\\\\\\"]\\\", the provider", type, id));
}

static int find(const struct aws_wish *wish) {
    return aws_sweep_find(&cluster.terraform, wish, &gone, &found, &error);
}

// ---- finding ------------------------------------------------------------------------------------

static void test_wishes(void) {
    static const char *const keep[] = {"k1", "k2"};
    struct aws_wish wish = {.region = "eu-west-1", .keep = keep, .keep_count = 2, .roles = true};
    begin();
    fake_terraform_says("apply-1", outputs(""), 0);
    is_int(find(&wish), 0, "nothing is found: %s", error.text);
    is_uint(found.count, 0, "nothing is nothing");
    ok(found.whole && found.roles, "everything was searched");
    is_str(fake_terraform_calls(), APPLY "\n", "Terraform runs once");
    is_str(variable(1, "region"), "eu-west-1", "the region is the wish's");
    is_str(variable(1, "owner"), "me", "the owner is the user");
    is_str(variable(1, "cluster"), "null", "all clusters are searched");
    is_str(variable(1, "free_parts"), "true", "free parts are searched, too");
    is_str(variable(1, "roles"), "true", "roles are searched, too");
    is_str(variable(1, "ending"), "false", "instances that end are left out");
    is_str(variable(1, "keep_clusters"), "k1 k2", "clusters to keep are named");
    is_str(variable(1, "gone_ids"), "", "nothing is known to be gone");
    is_str(variable(1, "endpoints"), "", "the endpoints are AWS's");
    is_str(variable(1, "skip_checks"), "false", "AWS is checked");
    load("[aws]\nowner = 'me'\nendpoint_url = 'http://127.0.0.1:1'\n");
    wish = (struct aws_wish){
        .region = "r", .cluster = "c", .roles = true, .paid_only = true, .ending = true};
    begin();
    is_int(find(&wish), 0, "the search for what costs money succeeds: %s", error.text);
    ok(!found.whole && !found.roles, "the rest was not searched");
    is_str(variable(1, "cluster"), "c", "one cluster is searched");
    is_str(variable(1, "free_parts"), "false", "free parts are not");
    is_str(variable(1, "roles"), "false", "roles are not searched either");
    is_str(variable(1, "ending"), "true", "instances that end are");
    is_str(variable(1, "endpoints"),
           "ec2=http://127.0.0.1:1 iam=http://127.0.0.1:1 sts=http://127.0.0.1:1 "
           "tagging=http://127.0.0.1:1",
           "each service has the endpoint");
    is_str(variable(1, "skip_checks"), "true", "another server is not checked");
    fake_put(".dtctl/c/terraform/infra/terraform.tfvars.json",
             "{\"cluster_name\":\"c\",\"owner\":\"ann\",\"region\":\"r\",\"node_count\":1}", 0600);
    load("[aws]\nowner = 'me'\n");
    wish = (struct aws_wish){.region = "r", .cluster = "c"};
    begin();
    is_int(find(&wish), 0, "a cluster is searched: %s", error.text);
    is_str(variable(1, "owner"), aws_cluster_made_by(&context) ? "ann" : "me",
           "the cluster's owner is who has made it");
    is_str(variable(1, "roles"), "false", "roles are not wished for");
    wish.cluster = NULL;
    begin();
    is_int(find(&wish), 0, "all clusters are searched");
    is_str(variable(1, "owner"), "me", "the owner of all is the user");
    unlink(cluster.terraform.vars_path);
}

static void test_items(void) {
    struct aws_wish wish = {.region = "r"};
    begin();
    fake_terraform_says("apply-1",
                        outputs("{\"kind\":\"instance\",\"id\":\"i-1\",\"cluster\":\"c\",\"name\":"
                                "\"n\",\"type\":\"t\",\"zone\":\"z\",\"state\":\"s\",\"since\":"
                                "\"b\",\"expires\":\"e\"},{\"kind\":\"vpc\"}"),
                        0);
    is_int(find(&wish), 0, "two resources are found: %s", error.text);
    is_uint(found.count, 2, "both are listed");
    const struct aws_found_item *i = found.items;
    is_str(arena_printf(&a, "%s %s %s %s %s %s %s %s %s", i->kind, i->id, i->cluster, i->name,
                        i->type, i->zone, i->state, i->since, i->expires),
           "instance i-1 c n t z s b e", "each has its facts");
    is_str(i[1].id, "", "facts that are not known are empty");
    static const char *const costs[] = {"instance", "address", "volume"};
    for (size_t k = 0; k < 3; k++)
        ok(aws_sweep_costs(&(struct aws_found_item){.kind = costs[k]}), "%s costs money", costs[k]);
    ok(!aws_sweep_costs(&i[1]), "a network costs none");
    struct strbuf many = {0};
    for (int k = 0; k < 10000; k++)
        strbuf_addf(&many, "%s{}", k ? "," : "");
    begin();
    fake_terraform_says("apply-1", outputs(strbuf_cstr(&many)), 0);
    is_int(find(&wish), 0, "ten thousand are found: %s", error.text);
    is_uint(found.count, 10000, "all of them are listed");
    strbuf_addf(&many, ",{}");
    static const char none[] = "{\"type\":\"outputs\",\"outputs\":{\"found\":{\"value\":7}}}\n";
    const char *const bad[] = {outputs(strbuf_cstr(&many)), none, "{\"type\":\"version\"}\n"};
    for (size_t k = 0; k < 3; k++) {
        begin();
        fake_terraform_says("apply-1", bad[k], 0);
        is_int(find(&wish), -1, "an answer without a list is refused (%zu)", k);
        is_int(error.code, ERR_FORMAT, "the answer has a wrong form");
    }
    is_str(error.text,
           arena_printf(&a, "the sweep gave no list of what it found (log: %s)",
                        cluster.terraform.log_path),
           "the error names the log");
    strbuf_fini(&many);
}

static void test_gone(void) {
    struct aws_wish wish = {.region = "r"};
    begin();
    fake_terraform_says(
        "apply-1",
        arena_printf(&a, "%s%s", missing("aws_vpc", "vpc-1"), missing("aws_subnet", "subnet-1")),
        1);
    fake_terraform_says("apply-2", missing("aws_key_pair", "key-1"), 1);
    fake_terraform_says("apply-3", outputs("{\"id\":\"i-1\"}"), 0);
    is_int(find(&wish), 0, "resources that are gone are left out: %s", error.text);
    is_uint(found.count, 1, "the rest is found");
    ok(found.whole, "everything was searched");
    is_str(variable(2, "gone_ids"), "vpc-1 subnet-1", "the second search knows what is gone");
    is_str(variable(3, "gone_ids"), "vpc-1 subnet-1 key-1", "the third search does, too");
    is_str(ids(&gone), "vpc-1 subnet-1 key-1", "the caller learns it");
    is_int(fake_pauses, 0, "nothing is waited for");
    is_str(said(), "", "the user reads nothing");
    begin();
    fake_terraform_says("apply-1", missing("aws_vpc", "vpc-1"), 1);
    fake_terraform_says(
        "apply-2",
        arena_printf(&a, "%s%s", missing("aws_vpc", "vpc-1"), missing("aws_subnet", "subnet-1")),
        1);
    fake_terraform_says("apply-3", outputs(""), 0);
    is_int(find(&wish), 0, "a resource that is known to be gone is listed all the same: %s",
           error.text);
    ok(!found.whole, "free parts are left out");
    is_str(variable(3, "free_parts"), "false", "the third search goes without them");
    has_str(said(), "cannot search for networks, groups and keys", "the user reads so");
    begin();
    fake_terraform_says("apply-1",
                        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"warning\","
                        "\"summary\":\"old\",\"detail\":\"\"}}\nError: words\n",
                        1);
    fake_terraform_says("apply-2", outputs(""), 0);
    is_int(find(&wish), 0, "a warning is no error: %s", error.text);
    has_str(said(), "reason=\"words\"", "without a diagnostic its words are the reason");
}

static void test_settles(void) {
    static const char *const paid[] = {"aws_instance", "aws_eip", "aws_ebs_volume"};
    struct aws_wish wish = {.region = "r"};
    for (size_t i = 0; i < 3; i++) {
        begin();
        fake_terraform_says("apply-1", missing(paid[i], "x-1"), 1);
        fake_terraform_says("apply-2", outputs(""), 0);
        is_int(find(&wish), 0, "%s: what has cost money is asked for again: %s", paid[i],
               error.text);
        is_int(fake_pauses, 1, "after a pause");
        is_str(ids(&gone), "", "the resource is not taken for gone");
        has_str(said(), "AWS still lists removed resources; asking again …\n",
                "the user reads why it takes longer");
        ok(found.whole, "nothing is left out");
    }
    wish.paid_only = true;
    begin();
    for (int i = 1; i <= 40; i++)
        fake_terraform_says(arena_printf(&a, "apply-%d", i), missing("aws_instance", "i-1"), 1);
    is_int(find(&wish), -1, "AWS lists it for ever");
    is_int(fake_pauses, 36, "AWS is asked for three minutes");
    has_str(error.text, "looking for leftovers: Cannot import non-existent remote object",
            "the last answer is the error");
    begin();
    fake_terraform_says(
        "apply-1",
        arena_printf(&a, "%s%s", missing("aws_instance", "i-1"), problem("reading", "no")), 1);
    is_int(find(&wish), -1, "another error is not waited for");
    is_int(fake_pauses, 0, "there is no pause");
    begin();
    fake_terraform_says("apply-1", missing("aws_instance", "i-1"), 1);
    fake_stops_in_pause = 1;
    is_int(find(&wish), -1, "the user stops it");
    is_str(error.text, "stopped while looking for leftovers", "the error says so");
    is_int(error.code, ERR_INTERRUPTED, "the error has the code of a stop");
}

static void test_refused(void) {
    static const char denied[] = "api error UnauthorizedOperation: You may not";
    struct aws_wish wish = {.region = "r", .roles = true};
    begin();
    fake_terraform_says(
        "apply-1", problem("listing IAM Roles", "operation error IAM: api error AccessDenied: no"),
        1);
    fake_terraform_says("apply-2",
                        problem("reading",
                                "operation error Resource Groups Tagging API: GetResources, "
                                "api error AccessDeniedException: no"),
                        1);
    fake_terraform_says("apply-3", outputs(""), 0);
    is_int(find(&wish), 0, "two searches are refused: %s", error.text);
    ok(!found.roles && !found.whole, "both are left out");
    is_str(variable(2, "roles"), "false", "the second search goes without roles");
    is_str(variable(2, "free_parts"), "true", "the second search has the free parts");
    is_str(said(),
           "test: warning: skipping roles: permission denied permission=iam:ListRoles\n"
           "test: warning: skipping networks, groups and keys: permission denied "
           "permission=tag:GetResources\n",
           "the user reads which permissions are missing");
    wish.cluster = "c";
    begin();
    fake_terraform_says("apply-2", outputs(""), 0);
    is_int(find(&wish), 0, "roles of one cluster are refused");
    ok(found.whole && !found.roles, "roles alone are left out");
    is_str(said(), "", "of one cluster that is no news");
    wish.roles = false;
    begin();
    is_int(find(&wish), 0, "a refusal that concerns IAM without roles");
    ok(!found.whole, "the search leaves the free parts out");
    has_str(said(), "cannot search for networks, groups and keys reason=\"listing IAM Roles: ",
            "the user reads the reason");
    begin();
    fake_terraform_says("apply-1", problem("reading", "GetResources: timeout"), 1);
    is_int(find(&wish), 0, "another failure of the tagging API");
    has_str(said(),
            arena_printf(&a, "reason=\"reading: GetResources: timeout\" log=%s\n",
                         cluster.terraform.log_path),
            "the user reads the reason and the log");
    wish.roles = true;
    begin();
    fake_terraform_says("apply-1", problem("IAM", "timeout"), 1);
    is_int(find(&wish), 0, "a failure of IAM that is no refusal");
    ok(!found.whole && !found.roles, "the search leaves out all that is free");
    begin();
    fake_terraform_says("apply-1", problem("first", "reason"), 1);
    fake_terraform_says(
        "apply-2", arena_printf(&a, "%s%s", problem("second", denied), problem("third", "x")), 1);
    is_int(find(&wish), -1, "resources that cost money cannot be searched");
    has_str(error.text, "looking for leftovers: second: api error UnauthorizedOperation",
            "the first error of the last search is the reason");
    begin();
    fake_terraform_says("apply-1", problem("x", "api error ExpiredToken: expired"), 1);
    is_int(find(&wish), -1, "expired credentials end the search");
    is_str(said(), "", "nothing is tried without them");
    begin();
    context.interrupt = SIGTERM;
    is_int(find(&wish), -1, "a search that is stopped before");
    is_int(error.code, ERR_INTERRUPTED, "a stopped search does not begin");
    is_str(fake_terraform_calls(), "", "Terraform does not run");
}

// Ctrl-C once Terraform works.
static void interrupt(struct timer *t) {
    if (fake_text("count"))
        context.interrupt = SIGINT;
    else
        timer_start(context.loop, t, 0, interrupt);
}

static void test_stopped(void) {
    struct aws_wish wish = {.region = "r"};
    struct timer soon = {0};
    begin();
    fake_put("wait", "", 0600);
    timer_start(context.loop, &soon, 0, interrupt);
    is_int(find(&wish), -1, "the user stops Terraform");
    is_int(error.code, ERR_INTERRUPTED, "the search ends");
    has_str(error.text, "looking for leftovers was stopped", "the error says what was stopped");
    unlink(fake_in("wait"));
}

int main(void) {
    open_all();
    test_wishes();
    test_items();
    test_gone();
    test_settles();
    test_refused();
    test_stopped();
    close_all();
    return done_testing();
}
