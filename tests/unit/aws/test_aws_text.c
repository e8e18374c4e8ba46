// SPDX-License-Identifier: Apache-2.0
// Provider aws: what is written for Terraform and read back, what is shown before money is spent.
#include "aws/aws_boot.h"
#include "aws/aws_estimate.h"
#include "aws/aws_lease.h"
#include "aws/aws_settings.h"
#include "aws/aws_tfvars.h"
#include "base/clock.h"
#include "base/json.h"
#include "conf/config.h"
#include "remote/ssh_key.h"
#include "tests/tap.h"

static struct arena a;

static struct config load(const char *toml) {
    struct config c;
    config_open(&c, &a, "dtctl", NULL);
    option_set_file(&c.set, "t.toml", toml, strlen(toml));
    struct err e = {0};
    is_int(option_set_finish(&c.set, &e), 0, "the configuration loads: %s", e.text);
    return c;
}

static const struct json *written(const struct aws_config *aws, const struct aws_vars *v) {
    struct strbuf text = {0};
    struct json *j = NULL;
    struct err e = {0};
    aws_vars_write(&text, aws, v);
    is_int(json_parse(&a, text.data, text.len, &j, &e), 0, "the configuration is JSON: %s", e.text);
    strbuf_fini(&text);
    return j;
}

static bool is_null(const struct json *j, const char *key) {
    const struct json *v = json_get(j, key);
    return v && v->type == JSON_NULL;
}

static const char *names[] = {"node0", "node1"};
static const char *cidrs[] = {"198.51.100.7/32"};
static struct aws_vars_key keys[] = {{"private \"0\"\n", "public0"}, {"private1", "public1"}};

static struct aws_vars sample(void) {
    return (struct aws_vars){.cluster = "demo",
                             .owner = "me",
                             .expires = "2026-01-02T03:04:05Z",
                             .made = "a1b2",
                             .region = "us-east-1",
                             .purchase = "spot",
                             .zone = "us-east-1b",
                             .outside_group = true,
                             .nodes = 2,
                             .names = names,
                             .keys = keys,
                             .ssh_public_key = "ssh-ed25519 AAAA me",
                             .operator_cidrs = cidrs,
                             .operator_cidr_count = 1,
                             .ttl_s = 43200,
                             .idle_s = 0};
}

static void vars(void) {
    struct config c = load("[aws]\nimage = 'ami-12345678'\nspot_max_price = 1.25\n"
                           "capacity_reservation = 'cr-12345678'\ns3 = 's3://bucket/a/b/'\n"
                           "endpoint_url = 'http://127.0.0.1:1'\n[aws.tags]\nteam = 'x'\n");
    struct aws_vars v = sample(), back;
    const struct json *j = written(&c.aws, &v);
    is_str(json_get_str(j, "ami_id", ""), "ami-12345678", "an image given by its id is written");
    ok(is_null(j, "ami_ssm_parameter"), "an image by id sets no image parameter");
    is_str(json_get_str(j, "spot_max_price", ""), "1.2500",
           "the price limit of spot instances is written");
    ok(is_null(j, "capacity_reservation_id"), "a reservation belongs to its own way to buy");
    is_str(json_get_str(j, "s3_bucket", ""), "bucket", "the bucket is written");
    is_str(json_get_str(j, "s3_prefix", ""), "a/b", "the folder in the bucket is written");
    is_str(json_get_str(json_get(j, "endpoints"), "ec2", ""), "http://127.0.0.1:1",
           "the endpoint is written");
    is_str(json_get_str(json_get(j, "tags"), "team", ""), "x", "the tags are written");
    ok(is_null(j, "root_iops"), "0 is gp3's own");
    ok(is_null(j, "placement_group_name"), "no group of others is entered unless it is named");
    ok(is_null(j, "closed_metadata"), "whether the role is the runs' is the module's to choose");
    struct strbuf text = {0};
    struct err e = {0};
    aws_vars_write(&text, &c.aws, &v);
    is_int(aws_vars_read(&a, text.data, text.len, &back, &e), 0, "the variables are read back: %s",
           e.text);
    is_str(back.zone, "us-east-1b", "the zone is read back");
    is_str(back.purchase, "spot", "the way to buy is read back");
    ok(back.outside_group, "nodes that are outside of the group are so later, too");
    is_str(back.expires, "2026-01-02T03:04:05Z", "the end of the lease is read back");
    is_str(back.made, "a1b2", "the backup names the cluster that was made");
    is_uint(back.nodes, 2, "the number of nodes is read back");
    is_str(back.names[1], "node1", "the name of the second node is read back");
    is_str(back.keys ? back.keys[0].private_key : "", "private \"0\"\n",
           "a key with its line breaks");
    is_int(aws_vars_read(&a, "{", 1, &back, &e), -1, "a truncated file is refused");
    strbuf_fini(&text);
    v.zone = NULL;
    v.purchase = "reservation";
    j = written(&c.aws, &v);
    ok(is_null(j, "az"), "no zone: the module chooses");
    ok(is_null(j, "spot_max_price"), "only spot instances have a price limit");
    is_str(json_get_str(j, "capacity_reservation_id", ""), "cr-12345678",
           "the reservation is written");
    c = load("[aws]\nimage = '/aws/service/x'\nclosed_metadata = 'off'\n"
             "placement_group_name = 'ours of 2026'\n");
    j = written(&c.aws, &v);
    is_str(json_get_str(j, "placement_group_name", ""), "ours of 2026",
           "the name of an existing placement group is written");
    const struct json *closed = json_get(j, "closed_metadata");
    ok(closed && closed->type == JSON_BOOL && !closed->boolean,
       "the port is closed unless it was opened by option");
    is_str(json_get_str(j, "ami_ssm_parameter", ""), "/aws/service/x",
           "an image given by a parameter is written");
}

static void backend(void) {
    struct config c = load("");
    struct strbuf text = {0};
    aws_vars_backend(&text, &c.aws, "us-east-1", "demo", "/x/terraform.tfstate");
    has_str(strbuf_cstr(&text), "{\"local\":{\"path\":\"/x/terraform.tfstate\"}}",
            "a local state has its path");
    strbuf_clear(&text);
    c = load("[aws]\nstate = 's3://bucket/team'\n");
    aws_vars_backend(&text, &c.aws, "eu-west-1", "demo", "/x");
    has_str(strbuf_cstr(&text), "\"key\":\"team/demo/terraform.tfstate\"",
            "a state in a bucket has its key");
    has_str(strbuf_cstr(&text), "\"use_lockfile\":true", "state in a bucket has a lock");
    has_str(strbuf_cstr(&text), "\"region\":\"eu-west-1\"",
            "state in a bucket is in the cluster's region");
    strbuf_clear(&text);
    c = load("[aws]\nstate = 's3://bucket/team'\nstate_region = 'us-west-2'\n");
    aws_vars_backend(&text, &c.aws, "eu-west-1", "demo", "/x");
    has_str(strbuf_cstr(&text), "\"region\":\"us-west-2\"",
            "state in a bucket can be in another region");
    strbuf_clear(&text);
    c = load("");
    aws_vars_backend(&text, &c.aws, "us-east-1", "demo", "/a${b}%{c}$d%/x");
    has_str(strbuf_cstr(&text), "\"/a$${b}%%{c}$d%/x\"", "nothing in a path is a template");
    strbuf_fini(&text);
}

static void plan(void) {
    struct config c = load("[aws]\ninstance_type = 'p4d.24xlarge'\nfallback = ['spot']\n");
    struct aws_plan p;
    struct strbuf text = {0};
    aws_plan_make(&p, &c.aws, &c.lease, "demo", "us-east-1", 2);
    aws_plan_format(&p, &text);
    has_str(strbuf_cstr(&text), "16 x A100", "the plan counts the GPUs of all nodes");
    has_str(strbuf_cstr(&text),
            "192 vCPUs of 'All P4, P3 and P2 Spot Instance Requests' (L-7212CCBC)",
            "the plan has number, name and code of the quota");
    has_str(strbuf_cstr(&text), "$43.92 per hour", "the plan has the price of all nodes");
    has_str(strbuf_cstr(&text), AWS_INSTANCE_TYPES_PRICES_OF, "the plan has the day of the price");
    has_str(strbuf_cstr(&text), "at most $526.99", "the plan has the price of the whole lease");
    has_str(strbuf_cstr(&text), "EFA on 4 interfaces", "the plan names the network");
    has_str(strbuf_cstr(&text), "2 elastic (quota L-0263D0A3",
            "the plan counts the addresses that EFA needs");
    strbuf_clear(&text);
    p.until_ms = clock_of_iso("2026-01-02T03:04:05Z");
    p.left_ms = 3600000;
    aws_plan_format(&p, &text);
    has_str(strbuf_cstr(&text),
            "ends in 1:00:00 (2026-01-02T03:04Z), at most $43.92 until then, without volumes",
            "the plan of a cluster that exists has the end of its lease, and what is still to pay");
    strbuf_clear(&text);
    c = load("[aws]\ninstance_type = 'g6.8xlarge'\n");
    aws_plan_make(&p, &c.aws, &c.lease, "demo", "us-east-1", 6);
    aws_plan_format(&p, &text);
    has_str(strbuf_cstr(&text), "EFA on 1 interface\n", "a type with one card has EFA");
    ok(!strstr(strbuf_cstr(&text), "elastic"), "one card needs no elastic address");
    strbuf_clear(&text);
    c = load("[aws]\ninstance_type = 'p5.48xlarge'\nfallback = ['capacity-block']\n");
    aws_plan_make(&p, &c.aws, &c.lease, "demo", "us-east-1", 4);
    aws_plan_format(&p, &text);
    has_str(strbuf_cstr(&text), "paid with the capacity block", "a block has its own price");
    ok(!strstr(strbuf_cstr(&text), "per hour"),
       "a capacity block does not show the on-demand price");
    strbuf_clear(&text);
    c = load("[aws]\ninstance_type = 'x9.huge'\nprice = 2.5\n[lease]\nttl = '0s'\n");
    aws_plan_make(&p, &c.aws, &c.lease, "demo", "us-east-1", 3);
    aws_plan_format(&p, &text);
    has_str(strbuf_cstr(&text), "$7.50 per hour, $2.50 per node (aws.price)",
            "the plan uses a price that the user gave");
    has_str(strbuf_cstr(&text), "until dtctl down", "no lease is said loudly");
    is_int(aws_plan_cost_mils(&p, 3, 1800000), 3750,
           "three nodes cost half an hour of their price");
    strbuf_fini(&text);
}

// Refused settings and their messages.
static void rules(void) {
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"[aws]\n", ""},
        {"[aws]\nregion = 'us-esat-1'\n", "no region 'us-esat-1' (did you mean us-east-"},
        {"[aws]\nregion = 'us-esat-1'\nendpoint_url = 'http://127.0.0.1:1'\n", ""},
        {"[aws]\nregion = 'ap-southeast-9'\n", ""},
        {"[aws]\nzones = ['us-east-2a']\n", "zone 'us-east-2a' is not in region us-east-1"},
        {"[aws]\nzones = ['us-east-1a', 'us-east-1-atl-1a']\n", ""},
        {"[aws]\noperator_cidrs = ['0.0.0.0/0']\n", "would let the world try SSH"},
        {"[aws]\noperator_cidrs = ['2000::/3']\n", "would let the world try SSH"},
        {"[aws]\noperator_cidrs = ['10.0.0.0/8', '8.0.0.0/7']\n",
         "'8.0.0.0/7' would let the world try SSH"},
        {"[aws]\noperator_cidrs = ['10.0.0.0/8', '10.0.0.0/9', '198.51.100.7/32']\n", ""},
        {"[aws]\noperator_cidrs = ['2000::/15']\n", "would let the world try SSH"},
        {"[aws]\noperator_cidrs = ['2001::/16', '2001:db8::/32']\n", ""},
        {"[aws]\noperator_cidrs = ['0.0.0.0/0']\nallow_open_ssh = true\n", ""},
        {"[aws]\nfallback = ['capacity-block']\n", "needs the id of one"},
        {"[aws]\nfallback = ['reservation']\ncapacity_reservation = 'cr-12345678'\n",
         "is in one zone"},
        {"[aws]\nfallback = ['capacity-block']\ncapacity_reservation = 'cr-12345678'\n"
         "zones = ['us-east-1a']\nplacement_group = 'on'\n",
         "aws.placement_group: a capacity block places its instances itself"},
        {"[aws]\nfallback = ['spot', 'capacity-block']\ncapacity_reservation = 'cr-12345678'\n"
         "zones = ['us-east-1a']\nplacement_group_name = 'ours'\n",
         "aws.placement_group_name: a capacity block places its instances itself"},
        {"[aws]\nfallback = ['capacity-block']\ncapacity_reservation = 'cr-12345678'\n"
         "zones = ['us-east-1a']\nplacement_group = 'off'\n",
         ""},
        {"[aws]\nplacement_group = 'on'\n", ""},
        {"[aws]\nplacement_group_name = 'ours'\n", ""},
        {"[aws]\nplacement_group_name = 'ours'\nplacement_group = 'off'\n",
         "aws.placement_group_name: 'ours' belongs with aws.placement_group = \"auto\""},
        {"[aws]\ninstance_type = 'g5g.xlarge'\n", "is for arm64"},
        {"[aws]\ninstance_type = 'g6f.large'\n", "'g6f.large' has a part of a GPU"},
        {"[aws]\ninstance_type = 'gr6f.4xlarge'\n", "GRID driver is in no default image"},
        {"[aws]\ninstance_type = 'g6f.large'\nimage = 'ami-12345678'\n", ""},
        {"[aws]\ninstance_type = 'g6.xlarge'\n", ""},
        {"[aws]\nboot_timeout = '9s'\n", "no node is ready in less than 10 s"},
        {"[aws]\ninstance_type = 'p3dn.24xlarge'\n",
         "'p3dn.24xlarge' has GPUs that the driver of the default image does not know"},
        {"[aws]\ninstance_type = 'p3.2xlarge'\n", "does not know"},
        {"[aws]\ninstance_type = 'p3dn.24xlarge'\nimage = 'ami-12345678'\n", ""},
        {"[aws]\nvpc = 'vpc-12345678'\n", "needs a subnet"},
        {"[aws]\nstate_region = 'us-west-2'\n", "of the bucket of aws.state"},
        {"[aws]\nstate = 's3://bucket'\nstate_region = 'us-west-2'\n", ""},
        {"[aws]\ns3 = 's3://bucket'\ninstance_profile = 'p'\n", "omit one of the two"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c = load(cases[i].text);
        struct err e = {0};
        const char *region = c.aws.region[0] ? c.aws.region : "us-east-1";
        is_int(aws_settings_check(&c, region, &e), cases[i].words[0] ? -1 : 0, "%s", cases[i].text);
        has_str(e.text, cases[i].words, "the plan's error has the expected words");
    }
}

static void boot_times(void) {
    static const struct {
        const char *text;
        int64_t minutes;
    } cases[] = {
        {"[aws]\n", 15},
        {"[aws]\ninstance_type = 'g4dn.metal'\n", 40},
        {"[aws]\ninstance_type = 'm7i.metal-24xl'\n", 40},
        {"[aws]\ninstance_type = 'g4dn.metal'\nboot_timeout = '5m'\n", 5},
        {"[aws]\nboot_timeout = '20m'\n", 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c = load(cases[i].text);
        is_int(aws_boot_timeout_ms(&c.aws), cases[i].minutes * 60000, "%s", cases[i].text);
    }
}

// The options behind the variables that infra/ may refuse.
static void options(void) {
    static const struct {
        const char *variable, *option;
    } cases[] = {
        {"ami_id", "aws.image"},
        {"az", "aws.zones"},
        {"cluster", "cluster.name"},
        {"nodes", "cluster.nodes"},
        {"ttl_s", "lease.ttl"},
        {"s3_prefix", "aws.s3"},
        {"purchase", "aws.fallback"},
        {"vpc_id", "aws.vpc"},
        {"root_iops", "aws.root_iops"},
        {"instance_type", "aws.instance_type"},
        {"made", NULL},
        {"", NULL},
    };
    struct config c = load("");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *option = aws_vars_option(&c, cases[i].variable);
        is_str(option ? option : "", cases[i].option ? cases[i].option : "",
               "the variable '%s' has its option", cases[i].variable);
    }
}

static void profiles(void) {
    static const char text[] = "[default]\nregion = us-west-2\n# [profile x]\n[profile work]\n"
                               "output=json\n  region=eu-west-1  \n[profile bare]\n";
    is_str(aws_plan_profile_region(&a, text, ""), "us-west-2",
           "the default profile has its region");
    is_str(aws_plan_profile_region(&a, text, "default"), "us-west-2",
           "the profile 'default' has its region");
    is_str(aws_plan_profile_region(&a, text, "work"), "eu-west-1",
           "another profile has its own region");
    ok(aws_plan_profile_region(&a, text, "bare") == NULL, "a profile without a region has none");
    ok(aws_plan_profile_region(&a, text, "none") == NULL, "an unknown profile has no region");
    ok(aws_plan_profile_region(&a, "[default", "") == NULL, "a cut file gives no region");
}

static void readiness(void) {
    static const char text[] = "config_hash=abc\nstatus=degraded\ncheck.gpu=ok\n"
                               "check.scratch=no \x1b[31mdisk\ncheck.efa=0 of 4\n";
    struct aws_ready r;
    aws_ready_parse(&a, text, sizeof text - 1, &r);
    is_int(r.status, AWS_READY_DEGRADED, "the status is read");
    is_str(r.config_hash, "abc", "the hash of the configuration is read");
    has_str(r.problems, "efa: 0 of 4", "the problems name the EFA interfaces");
    ok(strchr(r.problems, 0x1b) == NULL, "control characters do not get through");
    ok(strstr(r.problems, "gpu") == NULL, "a sound GPU is not listed as a problem");
    aws_ready_parse(&a, "status=perfect\n", 15, &r);
    is_int(r.status, AWS_READY_UNKNOWN, "an unknown word is no success");
    aws_ready_parse(&a, "", 0, &r);
    is_int(r.status, AWS_READY_UNKNOWN, "nothing is no success");
}

static void lease_ends(void) {
    static const int64_t now = 1767323045678, hour = 3600000; // 2026-01-02T03:04:05.678Z
    struct aws_vars before = {.ttl_s = 12 * 3600, .expires = "2026-01-02T05:00:00Z"};
    struct aws_lease_end end = aws_lease_choose(now, 12 * hour, NULL, 0, false);
    is_int(end.at_ms, (now / 1000 + 12 * 3600) * 1000, "the lease of a new cluster begins now");
    ok(!end.moved, "a new cluster notifies no node");
    end = aws_lease_choose(now, 12 * hour, &before, 0, true);
    is_int(end.at_ms, clock_of_iso(before.expires), "an unchanged lease keeps its end");
    end = aws_lease_choose(now, 12 * hour, &before, now + hour, true);
    is_int(end.at_ms, now + hour, "an end that was extended since is kept");
    ok(!end.moved, "a kept end notifies no node");
    end = aws_lease_choose(now, 3 * hour, &before, now + hour, true);
    is_int(end.at_ms, (now / 1000 + 3 * 3600) * 1000, "another lease counts from now");
    ok(end.moved && !end.cut, "another lease replaces an extended end and notifies the nodes");
    end = aws_lease_choose(now, 3 * hour, &before, 0, false);
    ok(!end.moved, "new nodes get the lease at their start");
    end = aws_lease_choose(now, 0, &before, 0, true);
    is_int(end.at_ms, (now / 1000 + AWS_LEASE_AHEAD_S_MAX) * 1000,
           "without a lease, the end is the latest that nodes accept");
    ok(end.moved && end.cut, "an end that had to be shortened is reported");
    before.expires = "2026-01-02T03:00:00Z";
    end = aws_lease_choose(now, 12 * hour, &before, now - hour, true);
    is_int(end.at_ms, (now / 1000 + 12 * 3600) * 1000, "an end in the past does not hold");
}

static void ssh_keys(void) {
    struct ssh_key one, two;
    struct err e = {0};
    is_int(ssh_key_make(&a, "me", &one, &e), 0, "a key is made: %s", e.text);
    is_int(ssh_key_make(&a, "me", &two, &e), 0, "a second key is made");
    ok(strcmp(one.public_key, two.public_key) != 0, "two keys differ");
    ok(str_starts(one.public_key, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"),
       "the key has its public half");
    ok(str_starts(one.private_key, "-----BEGIN OPENSSH PRIVATE KEY-----\n"),
       "the key has its private half");
    const char *again = NULL;
    is_int(ssh_key_public(&a, one.private_key, "me", &again, &e), 0,
           "the public half is read from the private key: %s", e.text);
    is_str(again, one.public_key, "both public halves are equal");
    char *damaged = arena_strdup(&a, one.private_key);
    damaged[60] = '!';
    is_int(ssh_key_public(&a, damaged, "me", &again, &e), -1, "a damaged key is refused");
    is_int(ssh_key_public(&a, "ssh-ed25519 AAAA", "me", &again, &e), -1,
           "a public key is no private key");
    const char *long_comment = arena_printf(&a, "%0200d", 0);
    is_int(ssh_key_make(&a, long_comment, &one, &e), -1, "a long comment is refused");
}

int main(void) {
    vars();
    backend();
    plan();
    rules();
    options();
    boot_times();
    profiles();
    readiness();
    lease_ends();
    ssh_keys();
    arena_fini(&a);
    return done_testing();
}
