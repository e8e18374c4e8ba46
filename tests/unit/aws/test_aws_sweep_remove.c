// SPDX-License-Identifier: Apache-2.0
// Resources that were found are removed, those apart that are to be kept or that the state records.
// Terraform is a script of the test.
#include "tests/unit/aws/cluster_fake.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>

// ---- what is gone -------------------------------------------------------------------------------

static struct terraform_state state(const char *text) {
    struct terraform_state s;
    if (terraform_state_parse(&a, text, strlen(text), &s, &error) < 0)
        bail_out("%s", error.text);
    return s;
}

static const char *resource(const char *mode, const char *type, const char *id, const char *more) {
    return arena_printf(&a,
                        "{\"mode\":\"%s\",\"type\":\"%s\",\"name\":\"x\",\"instances\":[{"
                        "\"index_key\":\"%s\",\"attributes\":{\"id\":\"%s\"%s}}]}",
                        mode, type, id, id, more);
}

static const char *state_of(const char *resources) {
    return arena_printf(&a, "{\"version\":4,\"resources\":[%s]}", resources);
}

static void test_gone_state(void) {
    struct aws_gone g = {0};
    struct terraform_state s = state(state_of(arena_printf(
        &a, "%s,%s,%s,%s,%s", resource("managed", "aws_vpc", "v", ""),
        resource("data", "aws_vpc", "vpc-2", ""),
        resource("managed", "aws_key_pair", "name", ",\"key_pair_id\":\"key-1\""),
        resource("managed", "aws_vpc", "", ""), resource("managed", "aws_vpc", "v", ""))));
    aws_gone_add_state(&g, &a, &s);
    is_str(ids(&g), "v name key-1", "managed resources are gone, each once, keys by both ids");
    struct terraform_resource *many = arena_new(&a, struct terraform_resource, 10001);
    for (size_t i = 0; i < 10001; i++)
        many[i] = (struct terraform_resource){.managed = true, .id = arena_printf(&a, "%zu", i)};
    g = (struct aws_gone){0};
    aws_gone_add_state(&g, &a, &(struct terraform_state){.resources = many, .count = 10001});
    is_uint(g.count, 10000, "ten thousand ids are kept");
    bool same = true;
    for (size_t i = 0; i < g.count; i++)
        same &= str_eq(g.ids[i], many[i].id);
    ok(same, "the first ones are kept, in order");
}

// ---- removing -----------------------------------------------------------------------------------

static void put_found(void) {
    fake_put(".dtctl/c/terraform/sweep.tfstate", "{}", 0600);
    fake_put(".dtctl/c/terraform/sweep.tfstate.backup", "{}", 0600);
}

static bool is_forgotten(void) {
    return !fake_text(".dtctl/c/terraform/sweep.tfstate") &&
           !fake_text(".dtctl/c/terraform/sweep.tfstate.backup");
}

static void test_remove(void) {
    const char *two = state_of(arena_printf(&a, "%s,%s,%s", resource("managed", "aws_vpc", "v", ""),
                                            resource("managed", "aws_instance", "i1", ""),
                                            resource("data", "aws_vpc", "d1", "")));
    const char *kept[] = {"v", "i1"};
    struct terraform *t = &cluster.terraform;
    begin();
    put_found();
    is_int(aws_sweep_remove(t, &found, &gone, NULL, 0, &error), 0, "nothing is there to remove");
    is_str(fake_terraform_calls(), "", "Terraform does not run");
    ok(is_forgotten(), "the search is forgotten");
    found.count = 2;
    put_found();
    fake_terraform_says("state-sweep", two, 0);
    fake_terraform_says("apply-1", "", 0);
    is_int(aws_sweep_remove(t, &found, &gone, NULL, 0, &error), 0, "all is removed: %s",
           error.text);
    is_str(fake_terraform_calls(), APPLY " -lock-timeout=0s -destroy\n", "Terraform destroys all");
    is_str(ids(&gone), "v i1", "both resources are gone");
    ok(is_forgotten(), "the search is forgotten");
    begin();
    found.count = 2;
    put_found();
    is_int(aws_sweep_remove(t, &found, &gone, kept, 1, &error), 0, "all but one is removed: %s",
           error.text);
    is_str(fake_terraform_calls(),
           APPLY " -lock-timeout=0s -destroy -target=aws_instance.x[\"i1\"]\n",
           "Terraform destroys the others");
    is_str(ids(&gone), "i1", "a resource that is kept is not gone");
    ok(is_forgotten(), "the search is forgotten");
    begin();
    found.count = 2;
    put_found();
    is_int(aws_sweep_remove(t, &found, &gone, kept, 2, &error), 0, "all is kept: %s", error.text);
    is_str(fake_terraform_calls(), "", "Terraform destroys nothing");
    ok(is_forgotten(), "the search is forgotten");
}

static void test_not_removed(void) {
    struct terraform *t = &cluster.terraform;
    begin();
    found.count = 2;
    put_found();
    fake_terraform_says("apply-1", problem("deleting", "in use"), 1);
    is_int(aws_sweep_remove(t, &found, &gone, NULL, 0, &error), -1, "AWS refuses");
    has_str(error.text, "removing leftovers: deleting: in use", "the error has the reason");
    is_str(ids(&gone), "", "nothing counts as gone");
    ok(!is_forgotten(), "the search stays for the next try");
    begin();
    found.count = 2;
    fake_terraform_says("state-sweep", "", 1);
    is_int(aws_sweep_remove(t, &found, &gone, NULL, 0, &error), -1, "the state cannot be read");
    is_str(fake_terraform_calls(), "", "nothing is destroyed");
    begin();
    found.count = 2;
    fake_terraform_says("state-sweep", state_of(resource("managed", "aws_vpc", "v", "")), 0);
    context.interrupt = SIGINT;
    is_int(aws_sweep_remove(t, &found, &gone, NULL, 0, &error), -1, "the user stops it before");
    is_int(error.code, ERR_INTERRUPTED, "the error says so");
}

// ---- what no state records ----------------------------------------------------------------------

static bool is_unclean(void) {
    return terraform_is_unclean(&cluster.terraform);
}

static void test_orphans(void) {
    static const char warning[] = "an earlier command left an unrecorded resource; removing it";
    size_t removed = 7;
    begin();
    terraform_set_clean(&cluster.terraform);
    is_int(aws_sweep_orphans(&cluster, &removed, &error), 0, "the last command has ended well");
    is_uint(removed, 0, "nothing is removed");
    is_str(fake_terraform_calls(), "", "nothing is searched");
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    fake_terraform_says(
        "state-infra",
        state_of(arena_printf(&a, "%s,%s,%s", resource("managed", "aws_vpc", "v", ""),
                              resource("managed", "aws_vpc", "", ""),
                              resource("data", "aws_instance", "i3", ""))),
        0);
    fake_terraform_says(
        "state-sweep",
        state_of(arena_printf(&a, "%s,%s,%s", resource("managed", "aws_vpc", "v", ""),
                              resource("managed", "aws_instance", "i2", ""),
                              resource("managed", "aws_instance", "i3", ""))),
        0);
    fake_terraform_says("apply-1",
                        outputs("{\"kind\":\"vpc\",\"id\":\"v\"},{\"kind\":\"instance\","
                                "\"id\":\"i2\"},{\"kind\":\"instance\",\"id\":\"i3\"}"),
                        0);
    fake_terraform_says("apply-2", "", 0);
    put_found();
    is_int(aws_sweep_orphans(&cluster, &removed, &error), 0, "leftovers are removed: %s",
           error.text);
    is_uint(removed, 2, "two of them were recorded nowhere");
    is_str(fake_terraform_calls(),
           APPLY "\n" APPLY " -lock-timeout=0s -destroy -target=aws_instance.x[\"i2\"] "
                 "-target=aws_instance.x[\"i3\"]\n",
           "recorded ones are kept");
    is_str(said(),
           arena_printf(&a,
                        "test: warning: the last command on this cluster was stopped or killed; "
                        "looking for leftovers cluster=c\n"
                        "test: warning: %s kind=instance id=i2\n"
                        "test: warning: %s kind=instance id=i3\n",
                        warning, warning),
           "the user reads which");
    is_str(ids(&cluster.gone), "i2 i3", "the command knows that they are gone");
    ok(!is_unclean() && is_forgotten(), "the folder is clean");
    is_str(variable(1, "cluster"), "c", "the search is for this cluster");
    is_str(variable(1, "region"), "eu-west-1", "in its region");
    is_str(variable(1, "roles"), "false", "without S3 there are no roles");
}

static void test_recorded(void) {
    size_t removed = 7;
    begin();
    load("[aws]\nowner = 'me'\ns3 = 's3://bucket/x'\n");
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    fake_terraform_says("apply-1", outputs("{\"kind\":\"vpc\",\"id\":\"v\"}"), 0);
    put_found();
    is_int(aws_sweep_orphans(&cluster, &removed, &error), 0, "all is recorded: %s", error.text);
    is_uint(removed, 0, "nothing is removed");
    is_str(fake_terraform_calls(), APPLY "\n", "nothing is destroyed");
    ok(!is_unclean() && is_forgotten(), "the folder is clean");
    is_str(variable(1, "roles"), "true", "with S3 there may be roles");
    for (int i = 0; i < 3; i++) {
        begin();
        fake_put(".dtctl/c/terraform/unclean", "", 0600);
        fake_terraform_says("state-infra", "", i == 0);
        fake_terraform_says("apply-1", problem("x", "api error ExpiredToken: y"), i == 1);
        if (i == 2)
            fake_terraform_says("apply-1", outputs("{\"kind\":\"vpc\",\"id\":\"v9\"}"), 0);
        fake_terraform_says("apply-2", problem("deleting", "in use"), 1);
        is_int(aws_sweep_orphans(&cluster, &removed, &error), -1, "a step fails (%d)", i);
        ok(is_unclean(), "the next command looks again");
    }
    load("[aws]\nowner = 'me'\n");
    terraform_set_clean(&cluster.terraform);
}

// The lock of a shared state, of another user or of a killed Terraform of this folder.
static void test_lock(void) {
    static const struct timespec killed[] = {{1767323040, 0}, {1767323040, 0}}; // 03:04:00
    size_t removed;
    char host[256] = "";
    const struct passwd *me = getpwuid(getuid());
    load("[aws]\nowner = 'me'\nstate = 's3://bucket/state'\n");
    begin();
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    fake_terraform_says("state-infra", "", 0);
    fake_terraform_says("apply-1", outputs(""), 0);
    fake_terraform_says("none", "Lock Info:\n  ID: a1\n  Who: ann@laptop\n", 1);
    is_int(aws_sweep_unrecorded(&cluster, "why", &removed, &error), -1, "another user works");
    is_int(error.code, ERR_BUSY, "the cluster is busy");
    is_str(fake_terraform_calls(), "force-unlock -force -no-color none\n", "nothing is searched");
    ok(is_unclean(), "the folder stays unclean");
    fake_terraform_says("none", "Lock Info:\n  ID: (odd)\n  Who: ann@laptop\n", 1);
    is_int(aws_sweep_unrecorded(&cluster, "why", &removed, &error), -1, "a lock has an odd id");
    is_int(error.code, ERR_BUSY, "the cluster is busy all the same");
    fake_terraform_calls();
    if (!me || gethostname(host, sizeof host - 1) < 0)
        bail_out("no name of this user and computer");
    utimensat(AT_FDCWD, fake_in(".dtctl/c/terraform/unclean"), killed, 0);
    begin();
    fake_terraform_says("none",
                        arena_printf(&a,
                                     "Lock Info:\n  ID: a1\n  Who: %s@%s\n"
                                     "  Created:   2026-01-02 03:04:05.678901234 +0000 UTC\n",
                                     me->pw_name, host),
                        1);
    is_int(aws_sweep_unrecorded(&cluster, "why", &removed, &error), 0, "the lock was left: %s",
           error.text);
    is_str(fake_terraform_calls(),
           "force-unlock -force -no-color none\n" APPLY "\nforce-unlock -force -no-color a1\n",
           "the lock is released after the search");
    has_str(said(), "releasing the lock lock=a1\n", "the user reads so");
    ok(!is_unclean(), "the folder is clean");
    begin();
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    utimensat(AT_FDCWD, fake_in(".dtctl/c/terraform/unclean"), killed, 0);
    fake_terraform_says("a1", "", 1);
    is_int(aws_sweep_unrecorded(&cluster, "why", &removed, &error), -1,
           "the lock cannot be released");
    ok(is_unclean(), "the folder stays unclean");
    load("[aws]\nowner = 'me'\n");
}

int main(void) {
    open_all();
    test_gone_state();
    test_remove();
    test_not_removed();
    test_orphans();
    test_recorded();
    test_lock();
    close_all();
    return done_testing();
}
