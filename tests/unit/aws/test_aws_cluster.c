// SPDX-License-Identifier: Apache-2.0
// Region, owner and login key of a cluster before Terraform runs, and facts of an instance that
// stays. This computer and its user are those of the test.
#include "tests/unit/aws/cluster_opened.h"

#include <pwd.h>
#include <sys/stat.h>

static const char *user_name = "ann", *host_name = "laptop"; // NULL: not known

struct passwd *getpwuid(uid_t uid) {
    static struct passwd user;
    (void)uid;
    user.pw_name = (char *)(uintptr_t)user_name;
    return user_name ? &user : NULL;
}

int gethostname(char *name, size_t len) {
    memset(name, 0, len);
    if (!host_name) { // the name may be there in part
        snprintf(name, len, "lap");
        return -1;
    }
    snprintf(name, len, "%s", host_name);
    return 0;
}

// ---- region -------------------------------------------------------------------------------------

#define TOLD    "eu-west-1" // by aws.region
#define PROFILE "[default]\nregion = eu-north-1\n[profile p]\nregion = eu-south-1\n[profile q]\n"

static void test_region(void) {
    static const struct {
        const char *options, *other, *home, *file, *made, *flag, *region; // NULL: not set
    } cases[] = {
        {"region = '" TOLD "'\n", "us-west-2", "home", NULL, NULL, NULL, TOLD},
        {"region = '" TOLD "'\n", NULL, "home", NULL, "sa-east-1", NULL, "sa-east-1"},
        {"region = '" TOLD "'\n", NULL, "home", NULL, "sa-east-1", "us-east-2", "us-east-2"},
        {"region = '" TOLD "'\n", NULL, "home", NULL, "", NULL, TOLD},
        {"", "us-west-2", "home", NULL, "sa-east-1", NULL, "sa-east-1"},
        {"", "us-west-2", "home", NULL, NULL, NULL, "us-west-2"},
        {"", "", "home", NULL, NULL, NULL, "eu-north-1"},
        {"", NULL, "home", "", NULL, NULL, "eu-north-1"},
        {"", NULL, "home", "/other", NULL, NULL, "ap-south-1"},
        {"profile = 'p'\n", NULL, "home", NULL, NULL, NULL, "eu-south-1"},
        {"profile = 'q'\n", NULL, "home", NULL, NULL, NULL, NULL},
        {"", NULL, "home", "/empty", NULL, NULL, NULL},
        {"", NULL, "home", "/absent", NULL, NULL, NULL},
        {"", NULL, "home", "/large", NULL, NULL, "ap-east-1"},
        {"", NULL, "home", "/too-large", NULL, NULL, NULL},
        {"", NULL, NULL, NULL, NULL, NULL, NULL},
    };
    struct err e = {0};
    if (file_make_dirs(fake_in("home/.aws"), 0700, &e) < 0)
        bail_out("%s", e.text);
    fake_put("home/.aws/config", PROFILE, 0600);
    fake_put("other", "[default]\nregion = ap-south-1\n", 0600);
    fake_put("empty", "[default]\nregion =\n", 0600);
    enum { FILE_BYTES_MAX = 1 << 20 };
    char *large = arena_new(&a, char, FILE_BYTES_MAX + 2);
    memset(large, '#', FILE_BYTES_MAX + 1);
    memcpy(large, "[default]\nregion = ap-east-1\n", 29);
    fake_put("too-large", large, 0600);
    large[FILE_BYTES_MAX] = '\0';
    fake_put("large", large, 0600);
    char *const *env = context.env;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *words[4] = {NULL};
        size_t count = 0;
        if (cases[i].other)
            words[count++] = arena_printf(&a, "AWS_DEFAULT_REGION=%s", cases[i].other);
        if (cases[i].home)
            words[count++] = arena_printf(&a, "HOME=%s", fake_in(cases[i].home));
        if (cases[i].file)
            words[count++] = arena_printf(&a, "AWS_CONFIG_FILE=%s%s",
                                          cases[i].file[0] ? fake_folder : "", cases[i].file);
        start("");
        load(arena_printf(&a, "[aws]\n%s", cases[i].options));
        context.env = words;
        if (cases[i].made)
            fake_put(VARS, arena_printf(&a, "{\"region\":\"%s\"}", cases[i].made), 0600);
        if (cases[i].flag)
            option_set_text(&config.set, arena_printf(&a, "aws.region=%s", cases[i].flag),
                            (struct option_place){OPTION_FLAG, "--region", 0, 0});
        const char *region = NULL;
        is_int(aws_cluster_region(&context, &region, &error), cases[i].region ? 0 : -1,
               "region %zu is known or not: %s", i, error.text);
        if (cases[i].region)
            is_str(region, cases[i].region, "region %zu is chosen", i);
    }
    context.env = env;
    is_int(error.code, ERR_CONFIG, "the configuration is at fault");
    is_str(error.text,
           "aws.region: no region: neither here nor in AWS_REGION nor in '/.aws/config'; set one, "
           "such as --region us-east-1",
           "the error says where a region may come from");
}

// ---- owner --------------------------------------------------------------------------------------

static void test_owner(void) {
    static const char *const many =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const struct {
        const char *user, *host, *owner;
    } cases[] = {
        {"ann", "laptop", "ann@laptop"},
        {"ann.b_c-d", "x.lan", "ann.b_c-d@x.lan"},
        {"ann b", "x/y", "ann-b@x-y"},
        {"\xc3\xa4nn", "x", "x-nn@x"},
        {"_ann", "", "xann"},
        {"ann", NULL, "ann"},
        {"", "laptop", "unknown@laptop"},
        {NULL, "laptop", "env@laptop"},
        {arena_printf(&a, "%.60s", many), "abc", arena_printf(&a, "%.60s@abc", many)},
        {arena_printf(&a, "%.60s", many), "abcd", arena_printf(&a, "%.60s@abc", many)},
    };
    char *const *env = context.env;
    static char word[] = "USER=env";
    char *words[] = {word, NULL};
    start("");
    is_str(aws_cluster_owner(&context), "me", "the owner is that of the configuration");
    load("[aws]\n");
    context.env = words;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        user_name = cases[i].user;
        host_name = cases[i].host;
        is_str(aws_cluster_owner(&context), cases[i].owner, "owner %zu is fit for a tag", i);
    }
    words[0] = NULL;
    user_name = NULL;
    host_name = "laptop";
    is_str(aws_cluster_owner(&context), "unknown@laptop", "a user may be unknown altogether");
    context.env = env;
    user_name = "ann";
    ok(!aws_cluster_made_by(&context), "no cluster has been made");
    made("");
    is_str(aws_cluster_made_by(&context), "ann", "a cluster keeps its owner");
    fake_put(VARS, "{\"region\":\"eu-west-1\"}", 0600);
    ok(!aws_cluster_made_by(&context), "variables may have no owner");
    fake_put(VARS, "{\"owner\":\"ann\"", 0600);
    ok(!aws_cluster_made_by(&context), "broken variables have no owner");
}

// ---- opening ------------------------------------------------------------------------------------

static void test_new(void) {
    struct stat st;
    start("");
    is_int(open_cluster(), 0, "a new cluster is opened: %s", error.text);
    ok(!cluster.has_before, "nothing has been applied before");
    is_str(opened_in, "eu-west-1", "Terraform works in the region");
    is_str(cluster.vars.cluster, "c", "the cluster has its name");
    is_str(cluster.vars.owner, "me", "the owner is the user");
    is_str(cluster.vars.region, "eu-west-1", "the region is that of the configuration");
    is_str(cluster.vars.purchase, "on-demand", "instances are bought on demand at first");
    ok(!cluster.vars.zone && !cluster.vars.outside_group, "zone and group are open");
    is_int(stat(context.cluster.key_path, &st), 0, "the login key is made");
    is_int(st.st_mode & 0777, 0600, "the login key is the user's alone");
    ok(str_ends(cluster.vars.ssh_public_key, " dtctl-c"),
       "the comment of the key names the cluster");
    const char *first = cluster.vars.ssh_public_key;
    is_int(open_cluster(), 0, "the cluster is opened again");
    is_str(cluster.vars.ssh_public_key, first, "the login key stays");
}

static void test_again(void) {
    start("");
    is_int(open_cluster(), 0, "the login key is made: %s", error.text);
    const char *same =
        arena_printf(&a, "%.*s comment of another folder",
                     (int)strcspn(strchr(cluster.vars.ssh_public_key, ' ') + 1, " ") + 12,
                     cluster.vars.ssh_public_key);
    start("");
    made(arena_printf(&a, ",\"outside_group\":true,\"ssh_public_key\":\"%s\"", same));
    is_int(open_cluster(), 0, "a cluster that was applied is opened: %s", error.text);
    ok(cluster.has_before, "the last apply is known");
    is_str(cluster.vars.owner, "ann", "the owner stays");
    ok(cluster.vars.outside_group, "a choice outside of the group stays");
    is_str(cluster.vars.ssh_public_key, same, "the comment of the login key stays");
    start("");
    made(",\"ssh_public_key\":\"ssh-ed25519 AAAAother x\"");
    is_int(open_cluster(), 0, "another login key is no error here: %s", error.text);
    ok(str_ends(cluster.vars.ssh_public_key, " dtctl-c"), "the key of this folder counts");
    start("");
    fake_put(VARS, "{\"owner\":\"ann\"}", 0600);
    is_int(open_cluster(), 0, "variables without a region are opened: %s", error.text);
    ok(!cluster.has_before, "variables without a region are of no apply");
    is_str(cluster.vars.owner, "me", "the owner in them does not count");
}

static void test_not_opened(void) {
    start("");
    made("");
    option_set_text(&config.set, "aws.region=us-east-1",
                    (struct option_place){OPTION_FLAG, "--region", 0, 0});
    is_int(open_cluster(), -1, "the cluster is in another region");
    is_int(error.code, ERR_CONFIG, "the configuration is at fault");
    is_str(error.text,
           "--region aws.region: cluster 'c' is in eu-west-1, not us-east-1; bring it down first, "
           "or choose "
           "another name with -c",
           "the error names both regions");
    start("");
    fake_put(VARS, "{", 0600);
    is_int(open_cluster(), -1, "the variables are broken");
    ok(str_starts(error.text, arena_printf(&a, "'%s': ", fake_in(VARS))),
       "the error names the file: %s", error.text);
    start("");
    open_fails = true;
    is_int(open_cluster(), -1, "there is no Terraform");
    is_str(error.text, "there is no terraform", "the error says so");
    start("");
    unlink(file_join(&a, context.cluster.dir, "id_ed25519.pub"));
    fake_put(".dtctl/c/id_ed25519", "x", 0600);
    is_int(open_cluster(), -1, "the login key is broken");
    ok(!opened_in, "Terraform is not opened then");
    unlink(context.cluster.key_path);
    load("[aws]\n");
    is_int(open_cluster(), -1, "there is no region");
}

static void test_same_key(void) {
    static const struct {
        const char *one, *other;
        bool same;
    } cases[] = {
        {"ssh-ed25519 AAAA", "ssh-ed25519 AAAA", true},
        {"ssh-ed25519 AAAA me", "ssh-ed25519 AAAA you", true},
        {"ssh-ed25519 AAAA me", "ssh-ed25519 AAAA\r\n", true},
        {"ssh-ed25519 AAAA\n", "ssh-ed25519 AAAA", true},
        {"ssh-ed25519 AAAA\r\n", "ssh-ed25519 AAAA me", true},
        {"ssh-ed25519 AAAA", "ssh-ed25519 AAAAB", false},
        {"ssh-ed25519 AAAAB", "ssh-ed25519 AAAA", false},
        {"ssh-ed25519 AAAA me", "ssh-ed25519 AAAB me", false},
        {"ssh-rsa AAAA", "ssh-ed25519 AAAA", false},
        {"", "ssh-ed25519 AAAA", false},
        {NULL, "ssh-ed25519 AAAA", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_int(aws_cluster_same_key(cases[i].one, cases[i].other), cases[i].same,
               "keys %zu are the same or not", i);
}

// ---- instances ----------------------------------------------------------------------------------

static void test_remember(void) {
#define FACTS                                                                                      \
    .launched = "2026-01-01T00:00:00.000Z", .host_key = "k", .dtrun = "d", .arch = "x86_64",       \
    .cpus = 4, .gpus = 1, .memory_bytes = 5
    static struct inventory_node old[] = {
        {.name = "node0", .instance_id = "i-0", FACTS},
        {.name = "node1", .instance_id = "i-1", FACTS},
    };
    static const char launch[] = "2026-02-02T00:00:00.000Z";
    struct inventory before = {.created = "2025-01-01T00:00:00.000Z", .nodes = old, .count = 2};
    struct inventory_node nodes[] = {{.name = "node2", .instance_id = "i-1"},
                                     {.name = "node1", .instance_id = "i-9", .host_key = "t"},
                                     {.name = "node0", .instance_id = "i-0"}};
    struct inventory now = {.nodes = nodes, .count = 3};
    aws_cluster_remember(&context, &before, launch, &now);
    is_str(now.created, "2025-01-01T00:00:00.000Z", "the cluster keeps its time");
    is_str(nodes[2].launched, "2026-01-01T00:00:00.000Z", "an instance keeps its launch");
    is_str(nodes[2].host_key, "k", "an instance keeps its host key");
    is_str(nodes[2].dtrun, "d", "an instance keeps its agent");
    is_str(nodes[2].arch, "x86_64", "an instance keeps its architecture");
    is_int(nodes[2].cpus + 10 * nodes[2].gpus + 100 * nodes[2].memory_bytes, 514,
           "an instance keeps its sizes");
    for (int i = 0; i <= 1; i++) {
        is_str(nodes[i].launched, launch, "instance %d is new", i);
        ok(!nodes[i].dtrun && nodes[i].cpus == 0, "facts of a new instance are not known");
    }
    is_str(nodes[1].host_key, "t", "a new instance has the key of the state");
    before.created = "";
    aws_cluster_remember(&context, &before, launch, &now);
    is_str(now.created, launch, "a cluster without a time begins with its launch");
    before = (struct inventory){.created = "2025-01-01T00:00:00.000Z"};
    aws_cluster_remember(&context, &before, launch, &now);
    is_str(now.created, launch, "a cluster without nodes begins anew");
    is_str(nodes[2].launched, launch, "instances are new then");
}

// ---- advice -------------------------------------------------------------------------------------

static void test_next_step(void) {
    static const struct {
        const char *problem, *words;
    } cases[] = {
        {"api error ExpiredToken: x", "log in again (aws sso login), or renew them"},
        {"operation error EC2: RunInstances, api error UnauthorizedOperation: x",
         "allow ec2:RunInstances to these credentials"},
        {"api error VcpuLimitExceeded: x", NULL},
        {"api error Unsupported: x", NULL},
    };
    start("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *step = aws_terraform.next_step(&context, cases[i].problem);
        if (cases[i].words)
            has_str(step, cases[i].words, "problem %zu has a next step", i);
        else
            is_str(step, "", "problem %zu has none besides its own words", i);
    }
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    test_region();
    test_owner();
    test_new();
    test_again();
    test_not_opened();
    test_same_key();
    test_remember();
    test_next_step();
    close_all();
    return done_testing();
}
