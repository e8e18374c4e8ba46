// SPDX-License-Identifier: Apache-2.0
// dtctl gc in the regions of AWS lists, removes and keeps resources. Terraform is a script of the
// test.
#include "aws/aws_gc.h"
#include "tests/unit/aws/terraform_opened.h"

#define FIND       APPLY "\n"
#define REMOVE     APPLY " -lock-timeout=0s -destroy\n"
#define VARS_OF(c) ".dtctl/" c "/terraform/infra/terraform.tfvars.json"
#define UNCLEAN    ".dtctl/c/terraform/unclean"
#define STATE      ".dtctl/c/terraform/sweep.tfstate"
#define VPC        "{\"kind\":\"vpc\",\"id\":\"v-1\",\"cluster\":\"-\"}"
#define LOOKING    "looking in eu-west-1 …\n"
#define LATER      "2100-01-01T00:00:00Z"
#define EARLIER    "2001-01-01T00:00:00Z"
#define DENIED     "operation error IAM: api error AccessDenied: no"
#define RECORDED(id)                                                                               \
    "{\"version\":4,\"resources\":[{\"mode\":\"managed\",\"type\":\"aws_vpc\",\"name\":\"x\","     \
    "\"instances\":[{\"attributes\":{\"id\":\"" id "\"}}]}]}"

enum { YES = 1, DRY_RUN = 2 }; // flags of the command

static struct provider_leftovers left;

static void says(int number, const char *text, int status) {
    fake_terraform_says(arena_printf(&a, "apply-%d", number), text, status);
}

static const char *instance(const char *id, const char *owner_cluster, const char *expires) {
    return arena_printf(&a,
                        "{\"kind\":\"instance\",\"id\":\"%s\",\"cluster\":\"%s\",\"name\":"
                        "\"node0\",\"type\":\"g6.xlarge\",\"since\":\"2026-01-02T03:04:05Z\","
                        "\"expires\":\"%s\"}",
                        id, owner_cluster, expires);
}

static const char *line(const char *kind, const char *id, const char *name, const char *type,
                        const char *rest) {
    return arena_printf(&a, "%-14s %-16s %-22s %-16s %-12s%s\n", "eu-west-1", kind, id, name, type,
                        rest);
}

// A folder without a cluster; nothing is left over.
static void start(unsigned flags) {
    load("[aws]\nowner = 'me'\nregion = 'eu-west-1'\n");
    config.yes = flags & YES;
    config.dry_run = flags & DRY_RUN;
    begin();
    open_fails = false;
    opened_in = NULL;
    unlink(fake_in(VARS_OF("c")));
    unlink(fake_in(STATE));
    terraform_set_clean(&opened);
    fake_terraform_says("state-infra", "", 0);
    fake_terraform_says("state-sweep", RECORDED("v-1"), 0);
    for (int i = 1; i <= 9; i++)
        says(i, outputs(""), 0);
    left = (struct provider_leftovers){.regions = 7};
}

static int gc(bool all_regions, bool in_use) {
    return aws_gc(&context, all_regions, in_use, &left, &error);
}

static void counts(size_t regions, size_t found_count, size_t removed, size_t in_use) {
    is_uint(left.regions, regions, "regions count");
    is_uint(left.found, found_count, "leftovers count");
    is_uint(left.removed, removed, "removed leftovers count");
    is_uint(left.in_use, in_use, "instances in use count");
}

// ---- one region ---------------------------------------------------------------------------------

static void test_nothing(void) {
    start(YES);
    is_int(gc(false, false), 0, "nothing is left over: %s", error.text);
    counts(1, 0, 0, 0);
    is_str(fake_terraform_calls(), FIND, "AWS is searched once");
    is_str(opened_in, "eu-west-1", "the region is that of the configuration");
    is_str(variable(1, "region"), "eu-west-1", "the search is in the region");
    is_str(variable(1, "cluster"), "null", "the search is for all clusters of the owner");
    is_str(variable(1, "owner"), "me", "the search is for this owner");
    is_str(variable(1, "free_parts"), "true", "networks are searched, too");
    is_str(variable(1, "roles"), "true", "roles are searched, too");
    is_str(variable(1, "keep_clusters"), "", "no cluster is kept");
    is_str(said(), LOOKING, "the user reads of the search");
    ok(!fake_text(STATE), "the search is forgotten");
}

static void test_listed(void) {
    static const unsigned flags[] = {0, DRY_RUN, DRY_RUN | YES};
    for (size_t i = 0; i < 3; i++) {
        start(flags[i]);
        fake_put(STATE, "x", 0600);
        says(1,
             outputs(arena_printf(&a, "%s,%s,%s", VPC, instance("i-1", "old", EARLIER),
                                  instance("i-2", "old", ""))),
             0);
        is_int(gc(false, false), i ? 0 : -1, "leftovers are listed (%zu): %s", i, error.text);
        is_str(fake_terraform_calls(), FIND, "nothing is removed (%zu)", i);
        is_str(
            error.text,
            i ? ""
              : arena_printf(
                    &a,
                    "3 things of owner 'me' belong to no cluster in '%s/.dtctl' (try: dtctl gc -y)",
                    fake_folder),
            "the error says how to remove them, or there is none (%zu)", i);
        is_int(error.code, i ? ERR_NONE : ERR_USAGE, "the error has its code (%zu)", i);
        counts(1, 3, 0, 0);
        is_str(said(),
               arena_printf(&a, LOOKING "%s%s%s", line("vpc", "v-1", "-", "", ""),
                            line("instance", "i-1", "old", "g6.xlarge",
                                 " since 2026-01-02T03:04:05Z, lease until " EARLIER),
                            line("instance", "i-2", "old", "g6.xlarge",
                                 " since 2026-01-02T03:04:05Z, lease until ?")),
               "the user reads of each (%zu)", i);
        ok(!fake_text(STATE), "the search is forgotten (%zu)", i);
    }
}

static void test_removed(void) {
    start(YES);
    fake_put(STATE, "x", 0600);
    says(1, outputs(arena_printf(&a, VPC ",%s", instance("i-1", "old", EARLIER))), 0);
    says(2, "", 0);
    is_int(gc(false, false), 0, "leftovers are removed: %s", error.text);
    is_str(fake_terraform_calls(), FIND REMOVE, "the search is destroyed");
    counts(1, 2, 2, 0);
    start(YES);
    says(1, outputs(VPC), 0);
    says(2, problem("deleting", "in use"), 1);
    is_int(gc(false, false), -1, "leftovers cannot be removed");
    has_str(error.text, "removing leftovers: deleting: in use", "the error says why");
    counts(1, 1, 0, 0);
    start(YES);
    says(1, problem("x", "api error ExpiredToken: y"), 1);
    is_int(gc(false, false), -1, "AWS cannot be searched");
    ok(str_starts(error.text, "region eu-west-1: looking for leftovers: x: api error"),
       "the error names the region: %s", error.text);
    start(YES);
    open_fails = true;
    is_int(gc(false, false), -1, "there is no Terraform");
    is_str(error.text, "there is no terraform", "the error says so");
    counts(0, 0, 0, 0);
    load("[aws]\nowner = 'me'\n");
    is_int(gc(false, false), -1, "there is no region");
    is_int(error.code, ERR_CONFIG, "the configuration is at fault");
}

static void test_json(void) {
    struct screen json;
    start(0);
    says(1, outputs(arena_printf(&a, "%s,%s", instance("i-1", "live", LATER), VPC)), 0);
    says(2, outputs(VPC), 0);
    screen_init(&json, said_fd, said_fd, SCREEN_JSON, false);
    context.screen = &json;
    is_int(gc(false, false), -1, "leftovers are listed");
    context.screen = &screen;
    screen_fini(&json);
    const char *first = said(), *second = strchr(first, '\n');
    ok(str_starts(first, "{\"event\":\"in-use\","), "an instance in use has its event");
    has_str(first,
            ",\"region\":\"eu-west-1\",\"kind\":\"instance\",\"id\":\"i-1\",\"cluster\":\"live\","
            "\"type\":\"g6.xlarge\",\"launched\":\"2026-01-02T03:04:05Z\",\"lease_end\":\"" LATER
            "\"}\n{\"event\":\"leftover\",",
            "the event has the instance, and a leftover follows");
    has_str(second ? second : "",
            ",\"region\":\"eu-west-1\",\"kind\":\"vpc\",\"id\":\"v-1\",\"cluster\":\"-\",\"type\":"
            "\"\",\"launched\":\"\",\"lease_end\":\"\"}\n",
            "facts that are not known are empty");
}

// ---- clusters that are kept ---------------------------------------------------------------------

static void test_in_use(void) {
    start(YES);
    says(1,
         outputs(arena_printf(&a, "%s,%s,%s,%s", instance("i-1", "live", LATER),
                              instance("i-2", "live", LATER), instance("i-3", "old", EARLIER),
                              instance("i-4", "also", LATER))),
         0);
    says(2, outputs(instance("i-5", "late", LATER)), 0);
    says(3, outputs(instance("i-3", "old", EARLIER)), 0);
    says(4, "", 0);
    is_int(gc(false, false), 0, "clusters of other folders are kept: %s", error.text);
    is_str(fake_terraform_calls(), FIND FIND FIND REMOVE,
           "AWS is searched again without the clusters in use");
    is_str(variable(1, "keep_clusters"), "", "the first search has no cluster to keep");
    is_str(variable(2, "keep_clusters"), "live also", "the second search keeps those in use");
    is_str(variable(3, "keep_clusters"), "live also late", "the third search keeps a later one");
    counts(1, 1, 1, 4);
    const char *use = " since 2026-01-02T03:04:05Z, lease until " LATER " (in use)";
    is_str(said(),
           arena_printf(&a, LOOKING "%s%s%s%s%s", line("instance", "i-1", "live", "g6.xlarge", use),
                        line("instance", "i-2", "live", "g6.xlarge", use),
                        line("instance", "i-4", "also", "g6.xlarge", use),
                        line("instance", "i-5", "late", "g6.xlarge", use),
                        line("instance", "i-3", "old", "g6.xlarge",
                             " since 2026-01-02T03:04:05Z, lease until " EARLIER)),
           "the user reads which are in use");
    start(YES);
    says(1, outputs(instance("i-1", "live", LATER)), 0);
    says(2, "", 0);
    is_int(gc(false, true), 0, "clusters in use end on request: %s", error.text);
    is_str(fake_terraform_calls(), FIND REMOVE, "the search is destroyed");
    counts(1, 1, 1, 0);
    start(0);
    says(1, outputs(instance("i-1", "live", LATER)), 0);
    is_int(gc(false, false), 0, "clusters in use alone are no leftovers: %s", error.text);
    counts(1, 0, 0, 1);
    start(0);
    says(1,
         outputs("{\"kind\":\"volume\",\"id\":\"v\",\"cluster\":\"x\",\"expires\":\"" LATER "\"}"),
         0);
    is_int(gc(false, false), -1, "instances alone are in use");
    is_str(fake_terraform_calls(), FIND, "there is no second search");
    counts(1, 1, 0, 0);
}

// Clusters of this folder are up as long as they have variables.
static void test_known(void) {
    static const char *const others[] = {"a", "b", "z"};
    struct err e = {0};
    start(YES);
    for (size_t i = 0; i < 3; i++)
        if (file_make_dirs(fake_in(arena_printf(&a, ".dtctl/%s/terraform/infra", others[i])), 0700,
                           &e) < 0)
            bail_out("%s", e.text);
    fake_put(VARS_OF("a"), "{}", 0600);
    fake_put(VARS_OF("z"), "{}", 0600);
    fake_put(VARS_OF("c"), "{\"region\":\"eu-west-1\",\"owner\":\"ann\"}", 0600);
    says(1, outputs(instance("i-1", "live", LATER)), 0);
    is_int(gc(false, false), 0, "clusters of this folder are kept: %s", error.text);
    is_str(variable(1, "keep_clusters"), "a c z", "clusters without variables are not kept");
    is_str(variable(2, "keep_clusters"), "a c z live", "a cluster in use is kept besides");
    is_str(variable(1, "owner"), "me", "the search is for this user's clusters");
    says(1, outputs(instance("i-1", "z", LATER)), 0);
    fake_terraform_begin();
    is_int(gc(false, false), 0, "a cluster in use may have the name of another: %s", error.text);
    is_str(variable(2, "keep_clusters"), "a c z", "a name is kept once");
    for (size_t i = 0; i < 3; i++)
        file_remove_tree(fake_in(arena_printf(&a, ".dtctl/%s", others[i])), &e);
}

// A cluster of another folder with the same state in S3 is up, and its login key is not here.
static void test_shared(void) {
    struct err e = {0};
    start(YES);
    load("[aws]\nowner = 'me'\nregion = 'eu-west-1'\nstate = 's3://bucket/team'\n");
    fake_terraform_says("state-infra",
                        "{\"version\":4,\"outputs\":{\"variables\":{\"value\":"
                        "\"{\\\"region\\\":\\\"eu-west-1\\\",\\\"owner\\\":\\\"me\\\"}\"}},"
                        "\"resources\":[]}",
                        0);
    unlink(context.cluster.key_path);
    is_int(gc(false, false), 0, "leftovers beside a shared cluster are looked for: %s", error.text);
    is_str(variable(1, "keep_clusters"), "c", "the shared cluster is kept");
    cluster_forget(&context.cluster, &e);
    start(YES);
    load("[aws]\nowner = 'me'\nregion = 'eu-west-1'\nstate = 's3://bucket/team'\n");
    fake_terraform_says("state-infra", "", 1);
    is_int(gc(false, false), -1, "a shared state cannot be read");
    is_str(fake_terraform_calls(), "", "no leftovers are looked for then");
}

// ---- all regions --------------------------------------------------------------------------------

static void test_regions(void) {
    size_t count = 0;
    while (aws_sweep_regions[count])
        count++;
    start(YES);
    says(1, outputs(instance("i-1", "live", LATER)), 0);
    says(3, problem("IAM", DENIED), 1);
    says(5, problem("x", "api error ExpiredToken: y"), 1);
    says(6, outputs(VPC), 0);
    says(7, "", 0);
    says(8, outputs(VPC), 0);
    says(9, problem("deleting", "in use"), 1);
    is_int(gc(true, false), -1, "two regions are not cleared");
    is_int(error.code, ERR_FAILED, "the error has its code");
    is_str(error.text,
           arena_printf(&a, "2 of %zu regions could not be cleared: %s, %s", count,
                        aws_sweep_regions[2], aws_sweep_regions[4]),
           "the error names both regions");
    counts(count - 1, 2, 1, 1);
    is_str(variable(2, "keep_clusters"), "live", "a cluster in use is kept in its region");
    is_str(variable(3, "keep_clusters"), "", "the name means another cluster in another region");
    is_str(variable(2, "region"), aws_sweep_regions[0], "the first region is searched twice");
    is_str(variable(3, "region"), aws_sweep_regions[1], "the next region follows");
    is_str(variable(3, "roles"), "true", "roles are searched there, too");
    is_str(variable(4, "roles"), "false", "roles are left out when that is not permitted");
    is_str(variable(5, "roles"), "false", "the permission is not asked for again");
    is_str(variable(8, "region"), aws_sweep_regions[4], "a region after a refusal is searched");
    is_str(variable(8, "gone_ids"), "v-1", "the search knows what has been removed");
    has_str(said(),
            arena_printf(&a,
                         "test: error: region %s: looking for leftovers: x: api error "
                         "ExpiredToken: y",
                         aws_sweep_regions[2]),
            "the user reads why a region refuses");
    start(YES);
    context.interrupt = SIGINT;
    is_int(gc(true, false), -1, "the user stops it");
    is_int(error.code, ERR_INTERRUPTED, "the error has the code of a stop");
    is_str(said(), "looking in us-east-1 …\n", "no further region is searched");
}

// ---- what a killed command has left -------------------------------------------------------------

static void test_unclean(void) {
    start(YES);
    fake_put(UNCLEAN, "", 0600);
    fake_put(VARS_OF("c"), "{\"region\":\"eu-west-1\",\"owner\":\"me\"}", 0600);
    says(1, outputs(VPC ",{\"kind\":\"volume\",\"id\":\"vol-1\"}"), 0);
    says(2, "", 0);
    says(3, outputs(VPC), 0);
    says(4, "", 0);
    is_int(gc(false, false), 0, "the leftovers of a killed command are removed: %s", error.text);
    is_str(fake_terraform_calls(), FIND REMOVE FIND REMOVE,
           "the search of the cluster goes before that of the region");
    is_str(variable(1, "cluster"), "c", "the first search is for this cluster");
    is_str(variable(3, "gone_ids"), "v-1", "the second search knows what has been removed");
    counts(1, 3, 3, 0);
    ok(!terraform_is_unclean(&opened), "the folder is clean");
    start(0);
    fake_put(UNCLEAN, "", 0600);
    says(1, outputs(VPC), 0);
    says(3, outputs("{\"kind\":\"volume\",\"id\":\"vol-2\"}"), 0);
    is_int(gc(false, false), -1, "leftovers of other commands have to be confirmed");
    ok(str_starts(error.text, "1 thing of owner 'me' belongs to no cluster in "),
       "the error counts those alone: %s", error.text);
    counts(1, 2, 1, 0);
    start(DRY_RUN);
    fake_put(UNCLEAN, "", 0600);
    is_int(gc(false, false), 0, "a dry run leaves them: %s", error.text);
    is_str(fake_terraform_calls(), FIND, "the region alone is searched");
    ok(terraform_is_unclean(&opened), "the folder stays as it is");
    start(YES);
    fake_put(UNCLEAN, "", 0600);
    says(1, problem("x", "api error ExpiredToken: y"), 1);
    is_int(gc(false, false), -1, "the cluster cannot be searched");
    ok(terraform_is_unclean(&opened), "the folder stays unclean");
    counts(0, 0, 0, 0);
    start(YES);
    fake_put(UNCLEAN, "", 0600);
    fake_put(VARS_OF("c"), "{\"region\":\"eu-west-1\",\"owner\":\"me\"}", 0600);
    option_set_text(&config.set, "aws.region=us-east-1",
                    (struct option_place){OPTION_FLAG, "--region", 0, 0});
    says(1, outputs(VPC), 0);
    says(2, "", 0);
    is_int(gc(false, false), 0, "another region has nothing of the cluster: %s", error.text);
    is_str(fake_terraform_calls(), FIND REMOVE, "the other region alone is cleared");
    is_str(variable(1, "region"), "us-east-1", "the search is in the region of the flag");
    ok(terraform_is_unclean(&opened), "the folder stays unclean");
    start(YES);
    fake_put(UNCLEAN, "", 0600);
    fake_put(VARS_OF("c"), "{", 0600);
    is_int(gc(false, false), -1, "the variables are broken");
    is_str(fake_terraform_calls(), "", "AWS is not searched then");
}

// ---- whether AWS is asked at all ----------------------------------------------------------------

static void test_wanted(void) {
    start(0);
    ok(!aws_gc_wanted(&context), "a region alone is no wish to search AWS");
    fake_put(VARS_OF("c"), "{}", 0600);
    ok(aws_gc_wanted(&context), "a cluster on AWS is");
    load("[cluster]\nprovider = 'aws'\n");
    unlink(fake_in(VARS_OF("c")));
    ok(aws_gc_wanted(&context), "the provider is");
    start(0);
    option_set_text(&config.set, "aws.region=eu-west-1",
                    (struct option_place){OPTION_ENV, "x", 0, 0});
    ok(!aws_gc_wanted(&context), "a region of the environment is not");
    option_set_text(&config.set, "aws.region=eu-west-1",
                    (struct option_place){OPTION_FLAG, "--region", 0, 0});
    ok(aws_gc_wanted(&context), "a region as a flag is");
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    for (int i = 10; i <= 25; i++) // of later regions
        says(i, outputs(""), 0);
    test_nothing();
    test_listed();
    test_removed();
    test_json();
    test_in_use();
    test_known();
    test_shared();
    test_regions();
    test_unclean();
    test_wanted();
    close_all();
    return done_testing();
}
