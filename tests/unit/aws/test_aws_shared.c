// SPDX-License-Identifier: Apache-2.0
// A cluster whose state is in S3: this folder learns of it from the state, or forgets it. Then the
// words about its bucket.
#include "base/clock.h"
#include "remote/ssh_key.h"
#include "tests/unit/aws/terraform_opened.h"

#include <sys/stat.h>

#define VARS     ".dtctl/c/terraform/infra/terraform.tfvars.json"
#define KNOWN    ".dtctl/c/known_hosts"
#define HOST_KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
#define NODE(n)                                                                                    \
    "[[node]]\nname = \"node" n "\"\ntransport = \"ssh\"\nhost = \"198.51.100." n "\"\naddress = " \
    "\"10.0.0.1\"\nroot = \".dtctl\"\ninstance_id = \"i-" n "\"\n"
#define INVENTORY "format = 1\nname = \"c\"\nprovider = \"aws\"\n" NODE("0") NODE("1")

static const char *login_key; // of this folder

static const char *state_of(const char *variables, const char *inventory, const char *resources) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_int(&j, "version", 4);
    json_object(&j, "outputs");
    const char *const outputs[][2] = {{"variables", variables}, {"inventory", inventory}};
    for (size_t i = 0; i < 2; i++) {
        if (!outputs[i][1])
            continue;
        json_object(&j, outputs[i][0]);
        json_str(&j, "value", outputs[i][1]);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    const char *all = arena_printf(&a, "%.*s,\"resources\":[%s]}", (int)text.len - 1,
                                   strbuf_cstr(&text), resources);
    strbuf_fini(&text);
    return all;
}

// Variables as the state has them: of two nodes, with public keys only.
static const char *variables(const char *first_key, const char *expires, int64_t ttl_s) {
    const char *names[] = {"node0", "node1"};
    struct aws_vars_key keys[] = {{"", first_key}, {"", "ssh-ed25519 second"}};
    struct aws_vars v = {.cluster = "c",
                         .owner = "ann",
                         .region = "eu-west-1",
                         .purchase = "spot",
                         .made = "m",
                         .expires = expires,
                         .ttl_s = ttl_s,
                         .nodes = 2,
                         .names = names,
                         .keys = keys,
                         .ssh_public_key = login_key};
    struct strbuf text = {0};
    aws_vars_write(&text, &config.aws, &v);
    const char *all = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return all;
}

static const char *usual(void) {
    return variables("ssh-ed25519 first", "2026-01-02T15:04:05Z", 43200);
}

static void pull(const char *text) {
    fake_terraform_says("state-infra", text, 0);
}

// The folder has its login key, and nothing else.
static void start(void) {
    struct err e = {0};
    load("[aws]\nowner = 'me'\nregion = 'eu-west-1'\nstate = 's3://bucket/team'\n");
    config.cluster.name = "c";
    begin();
    open_fails = false;
    cluster_forget(&context.cluster, &e);
    unlink(fake_in(VARS));
    unlink(fake_in(KNOWN));
    terraform_set_clean(&opened);
    if (ssh_key_file(&a, context.cluster.key_path, "dtctl-c", &login_key, &e) < 0)
        bail_out("%s", e.text);
    pull(state_of(usual(), INVENTORY, ""));
}

static int find(bool needs_key) {
    return aws_shared_find(&context, needs_key, &error);
}

static struct inventory now(void) {
    struct inventory inv = {0};
    struct err e = {0};
    if (cluster_load(&context.cluster, &inv, &e) < 0)
        bail_out("%s", e.text);
    return inv;
}

// ---- learning -----------------------------------------------------------------------------------

static void test_found(void) {
    start();
    config.ssh.accept_host_keys = true;
    is_int(find(true), 0, "the cluster is found: %s", error.text);
    is_str(said(), "cluster c is now as recorded in s3://bucket/team\n", "the user reads of it");
    is_str(opened_in, "eu-west-1", "Terraform works in the region");
    is_int(context.cluster.lock_fd, -1, "the folder is free again");
    is_uint(now().count, 2, "both nodes are known");
    is_str(now().nodes[0].launched, "2026-01-02T03:04:05.000Z",
           "the node began when its lease did");
    struct aws_vars v = {0};
    const char *text = fake_text(VARS);
    is_int(aws_vars_read(&a, text, strlen(text), &v, &error), 0, "the variables are here");
    is_str(v.owner, "ann", "the owner is whoever made the cluster");
    for (int i = 0; i < 2; i++)
        is_str(v.keys[i].public_key, "", "the first key of a node of another folder is of no use");
    said_clear();
    is_int(find(true), 0, "the cluster is found again: %s", error.text);
    is_str(said(), "", "the user reads nothing");
    must(cluster_lock(&context.cluster, "test", 0, &error) == 0);
    is_int(find(true), 0, "the folder may be locked already: %s", error.text);
    ok(context.cluster.lock_fd >= 0, "the folder is locked then");
    cluster_unlock(&context.cluster);
    load("[aws]\nowner = 'me'\nregion = 'eu-west-1'\n");
    open_fails = true;
    is_int(find(true), 0, "a cluster with a state of its own is not looked for");
}

// When the nodes were made, by the end of their lease.
static void test_times(void) {
    static const struct {
        const char *expires;
        int64_t ttl_s;
        const char *launched; // NULL: now
    } cases[] = {
        {"2026-01-02T15:04:05Z", 43200, "2026-01-02T03:04:05.000Z"},
        {"2026-01-02T15:04:05Z", 1, "2026-01-02T15:04:04.000Z"},
        {"2026-01-02T15:04:05Z", 0, NULL},
        {"1970-01-01T00:00:09Z", 9, "1970-01-01T00:00:00.000Z"},
        {"1970-01-01T00:00:09Z", 10, NULL},
        {"2100-01-01T00:00:00Z", 9, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start();
        config.ssh.accept_host_keys = true;
        pull(state_of(variables("", cases[i].expires, cases[i].ttl_s), INVENTORY, ""));
        int64_t before_ms = clock_wall_ms() / 1000 * 1000;
        is_int(find(false), 0, "lease %zu is read: %s", i, error.text);
        const char *launched = now().nodes[0].launched;
        if (cases[i].launched)
            is_str(launched, cases[i].launched, "lease %zu begins", i);
        else
            ok(clock_of_iso(launched) >= before_ms && clock_of_iso(launched) <= clock_wall_ms(),
               "lease %zu begins now: %s", i, launched);
    }
}

static void test_keys(void) {
    start();
    rename(context.cluster.key_path, fake_in("key"));
    is_int(find(true), -1, "the login key is not here");
    is_int(error.code, ERR_NOT_FOUND, "the error says that it is missing");
    is_str(error.text,
           arena_printf(&a,
                        "cluster c was made from another folder, and its login key is not here; "
                        "copy id_ed25519 and known_hosts from there to %s",
                        context.cluster.dir),
           "the error says which files to copy");
    err_clear(&error);
    is_int(find(false), 0, "some commands need no key: %s", error.text);
    rename(fake_in("key"), context.cluster.key_path);
    start();
    login_key = "ssh-ed25519 AAAAother";
    pull(state_of(usual(), INVENTORY, ""));
    is_int(find(true), -1, "the login key is another one");
    is_int(error.code, ERR_CONFIG, "the configuration is at fault");
    is_str(error.text,
           arena_printf(&a,
                        "'%s' is not the login key of cluster c; copy id_ed25519 from the folder "
                        "that made the cluster, and remove '%s.pub'",
                        context.cluster.key_path, context.cluster.key_path),
           "the error has the remedy");
}

static void test_host_keys(void) {
    start();
    is_int(find(true), -1, "the node is unknown here");
    is_int(error.code, ERR_HOSTKEY, "the host key is at fault");
    is_str(error.text,
           arena_printf(&a,
                        "node node0 was made from another folder, and its host key is not known "
                        "here; copy known_hosts from there to %s when its up has ended, or say "
                        "--accept-host-keys",
                        context.cluster.dir),
           "the error has both remedies");
    ok(!cluster_exists(&context.cluster), "the cluster is not known then");
    start();
    is_int(find(false), 0, "a command that needs no login needs no host key: %s", error.text);
    start();
    fake_put(KNOWN, "198.51.100.0 " HOST_KEY "\n", 0600);
    is_int(find(true), -1, "the second node is not in known_hosts");
    has_str(error.text, "node node1 was made from another folder", "the error names it");
    start();
    fake_put(KNOWN, "198.51.100.0,198.51.100.1 " HOST_KEY "\n", 0600);
    is_int(find(true), 0, "both nodes are in known_hosts: %s", error.text);
    is_str(now().nodes[0].host_key, HOST_KEY, "the node has that key");
}

// This folder has made the node, so it has the private key of the first login.
static void test_made_here(void) {
    static const struct {
        const char *name, *private_key, *public_key, *first, *second;
        bool here;
    } cases[] = {
        {"node0", "private", "ssh-ed25519 first", "ssh-ed25519 first", "node1", true},
        {"node0", "private", "ssh-ed25519 first", "ssh-ed25519 first", "node7", false},
        {"node0", "private", "ssh-ed25519 other", "ssh-ed25519 first", "node1", false},
        {"node7", "private", "ssh-ed25519 first", "ssh-ed25519 first", "node1", false},
        {"node0", "", "", "", "node1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start();
        pull(state_of(variables(cases[i].first, "2026-01-02T15:04:05Z", 43200), INVENTORY, ""));
        fake_put(VARS,
                 arena_printf(&a,
                              "{\"cluster\":\"c\",\"region\":\"eu-west-1\",\"nodes\":2,"
                              "\"node_names\":[\"%s\",\"%s\"],\"bootstrap_host_keys\":["
                              "{\"private\":\"%s\",\"public\":\"%s\"},"
                              "{\"private\":\"also\",\"public\":\"ssh-ed25519 second\"}]}",
                              cases[i].name, cases[i].second, cases[i].private_key,
                              cases[i].public_key),
                 0600);
        is_int(find(true), cases[i].here ? 0 : -1, "key %zu is known or not: %s", i, error.text);
        if (!cases[i].here)
            continue;
        struct aws_vars v = {0};
        struct stat one, other;
        const char *text = fake_text(VARS);
        is_int(aws_vars_read(&a, text, strlen(text), &v, &error), 0, "the variables are anew");
        is_str(v.owner, "ann", "the owner is that of the state");
        is_str(v.keys[0].private_key, "private", "the first private key stays");
        is_str(v.keys[1].private_key, "also", "the second private key stays");
        must(stat(fake_in(VARS), &one) == 0);
        is_int(one.st_mode & 0777, 0600, "the file is the user's alone");
        is_int(find(true), 0, "the cluster is found again");
        must(stat(fake_in(VARS), &other) == 0);
        is_int(other.st_ino, one.st_ino, "variables that are the same are not written");
    }
}

static void test_faults(void) {
    static const struct {
        const char *variables, *inventory, *words;
    } cases[] = {
        {"{", INVENTORY, "the variables in the state: "},
        {NULL, "x", NULL},
        {"", "x", "the inventory in the state:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start();
        const char *text =
            cases[i].variables && !cases[i].variables[0] ? usual() : cases[i].variables;
        pull(state_of(text, cases[i].inventory, ""));
        is_int(find(false), cases[i].words ? -1 : 0, "state %zu is refused or not", i);
        has_str(error.text, cases[i].words ? cases[i].words : "", "state %zu has its words", i);
        ok(!fake_text(VARS), "state %zu leaves no variables", i);
        is_int(context.cluster.lock_fd, -1, "the folder is free again (%zu)", i);
    }
    start();
    pull("{\"version\":4,\"outputs\":{\"variables\":{\"value\":7}},\"resources\":[]}");
    is_int(find(false), 0, "variables that are no text are none: %s", error.text);
    start();
    fake_put(VARS, "{", 0600);
    is_int(find(false), -1, "the variables here are broken");
    has_str(error.text, arena_printf(&a, "'%s': ", fake_in(VARS)), "the error has their path");
    start();
    pull(state_of(usual(), NULL, ""));
    is_int(find(true), 0, "an up was stopped before it had nodes: %s", error.text);
    ok(!cluster_exists(&context.cluster) && fake_text(VARS), "the variables are here");
    start();
    fake_put(".dtctl/c/cluster.toml", "x", 0600);
    open_fails = true;
    is_int(find(false), -1, "there is no Terraform");
    start();
    fake_terraform_says("state-infra", "", 1);
    is_int(find(false), -1, "the state cannot be read");
}

// ---- forgetting ---------------------------------------------------------------------------------

static void known_here(void) {
    start();
    config.ssh.accept_host_keys = true;
    is_int(find(false), 0, "the cluster is known: %s", error.text);
    fake_put(".dtctl/c/terraform/lease", "2100-01-01T00:00:00Z\n", 0600);
    said_clear();
}

static void test_forgotten(void) {
    static const char vpc[] = "{\"mode\":\"managed\",\"type\":\"aws_vpc\",\"name\":\"x\","
                              "\"instances\":[{\"attributes\":{\"id\":\"v\"}}]}";
    known_here();
    pull(state_of(NULL, NULL, vpc));
    is_int(find(true), 0, "a state without variables has a network");
    ok(cluster_exists(&context.cluster) && fake_text(VARS), "the cluster stays known");
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    pull(state_of(NULL, NULL, ""));
    is_int(find(true), 0, "the last command here was killed");
    ok(cluster_exists(&context.cluster) && fake_text(VARS), "the folder knows more");
    terraform_set_clean(&opened);
    is_int(find(true), 0, "the state is empty");
    is_str(said(), "cluster c was taken down from another folder\n", "the user reads of it");
    ok(!cluster_exists(&context.cluster) && !fake_text(VARS), "the cluster is forgotten");
    ok(!fake_text(".dtctl/c/terraform/lease"), "the end of its lease is forgotten");
    said_clear();
    is_int(find(true), 0, "the state is still empty");
    is_str(said(), "", "the user reads nothing");
}

// ---- the bucket ---------------------------------------------------------------------------------

static void test_bucket(void) {
#define WHERE "t.toml:4:9: aws.state: "
#define MAY   WHERE "bucket 'bucket' may not be used ("
#define NEEDS                                                                                      \
    "); dtctl needs s3:ListBucket of it, and s3:GetObject, s3:PutObject and s3:DeleteObject of "   \
    "what is in 'team/c/'"
    static const struct {
        const char *words, *error; // NULL: another matter
        enum err_code code;
    } cases[] = {
        {"Error: Failed to get existing workspaces: S3 bucket \"bucket\" does not exist.",
         WHERE "there is no bucket 'bucket'; make it, with versioning, or name another",
         ERR_CONFIG},
        {"\xe2\x94\x82 Error: S3 bucket\n\xe2\x94\x82 does not\n\xe2\x94\x82   exist.",
         WHERE "there is no bucket 'bucket'; make it, with versioning, or name another",
         ERR_CONFIG},
        {"The folder does not exist.", NULL, ERR_NONE},
        {"api error ExpiredToken: x",
         MAY "ExpiredToken); the credentials have expired: log in again (aws sso login), or renew "
             "them",
         ERR_AUTH},
        {"Initializing the backend...\n\nError: No valid credential sources found\n",
         MAY "No valid credential sources found); give some: "
             "aws.profile, AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
         ERR_AUTH},
        {"operation error S3: ListObjectsV2, api error AccessDenied: no",
         MAY "AccessDenied: s3:ListBucket" NEEDS, ERR_AUTH},
        {"operation error S3: HeadObject, api error Forbidden: no",
         MAY "Forbidden: s3:GetObject" NEEDS, ERR_AUTH},
        {"operation error S3: HeadBucket, api error Forbidden: no",
         MAY "Forbidden: s3:ListBucket" NEEDS, ERR_AUTH},
        {"operation error S3: PutObject,\n  api error\tAccessDenied: no",
         MAY "AccessDenied: s3:PutObject" NEEDS, ERR_AUTH},
        {"api error AccessDenied: no", MAY "AccessDenied" NEEDS, ERR_AUTH},
        {"api error VpcLimitExceeded: x", NULL, ERR_NONE},
        {"", NULL, ERR_NONE},
    };
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err_clear(&error);
        is_int(aws_terraform.explain(&context, cases[i].words, &error), cases[i].error != NULL,
               "'%.40s' is about the bucket or not", cases[i].words);
        is_str(error.text, cases[i].error ? cases[i].error : "", "bucket %zu has its words", i);
        is_int(error.code, cases[i].code, "bucket %zu has its code", i);
    }
    load("[aws]\nregion = 'eu-west-1'\n");
    ok(!aws_terraform.explain(&context, "S3 bucket does not exist", &error),
       "without aws.state no bucket is at fault");
    load("[aws]\n\nregion = 'eu-west-1'\nstate = 's3://bucket'\n");
    ok(aws_terraform.explain(&context, "api error AccessDenied: no", &error),
       "the state may be at the top of its bucket");
    has_str(error.text, "of what is in 'c/'", "the error has the folder");
}

static void test_settings(void) {
    struct strbuf text = {0};
    start();
    ok(aws_terraform.settings(&config).in_s3, "the state is in S3");
    aws_terraform.backend(&text, &context, "eu-west-1", "/x");
    has_str(strbuf_cstr(&text), "\"key\":\"team/c/terraform.tfstate\"", "the cluster has its key");
    strbuf_clear(&text);
    aws_terraform.backend(&text, &context, NULL, "/x");
    has_str(strbuf_cstr(&text), "{\"local\":{\"path\":\"/x\"}}", "a search has a local state");
    strbuf_fini(&text);
    load("[aws]\nregion = 'eu-west-1'\n");
    ok(!aws_terraform.settings(&config).in_s3, "another state is not in S3");
    is_str(aws_terraform.next_step(&context, "api error VpcLimitExceeded: x"), "",
           "a limit has no next step");
    has_str(aws_terraform.next_step(&context, "api error ExpiredToken: x"), "log in again",
            "credentials have a next step");
    has_str(aws_terraform.next_step(&context, "api error AccessDenied: x"), "allow",
            "a permission has a next step");
}

int main(void) {
    open_all();
    opened = cluster.terraform;
    test_found();
    test_times();
    test_keys();
    test_host_keys();
    test_made_here();
    test_faults();
    test_forgotten();
    test_bucket();
    test_settings();
    close_all();
    return done_testing();
}
