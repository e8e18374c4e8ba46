// SPDX-License-Identifier: Apache-2.0
// The plan and the price of a cluster on AWS, as a user and a program read them, and the region of
// a profile.
#include "aws/aws_estimate.h"
#include "base/clock.h"
#include "conf/config.h"
#include "tests/tap.h"

static struct arena a;
static struct config config;
static struct strbuf text;

static void load(const char *toml) {
    struct err e = {0};
    config_open(&config, &a, "dtctl", NULL);
    option_set_file(&config.set, "t.toml", toml, strlen(toml));
    if (option_set_finish(&config.set, &e) < 0)
        bail_out("%s", e.text);
}

static struct aws_plan plan(const char *toml, int64_t nodes) {
    struct aws_plan p;
    load(arena_printf(&a, "%s", toml));
    aws_plan_make(&p, &config.aws, &config.lease, "demo", "us-east-1", nodes);
    return p;
}

static const char *shown(const struct aws_plan *p) {
    strbuf_clear(&text);
    aws_plan_format(p, &text);
    return strbuf_cstr(&text);
}

// ---- money --------------------------------------------------------------------------------------

static void test_prices(void) {
    static const struct {
        const char *toml, *type;
        enum aws_purchase purchase;
        int64_t mils;
    } cases[] = {
        {"", "g6.xlarge", AWS_ON_DEMAND, 805},
        {"", "g6.xlarge", AWS_SPOT, 805},
        {"", "p5.48xlarge", AWS_RESERVATION, 55040},
        {"", "p5.48xlarge", AWS_CAPACITY_BLOCK, 0},
        {"", "x9.huge", AWS_ON_DEMAND, 0},
        {"[aws]\nprice = 0.5\n", "g6.xlarge", AWS_ON_DEMAND, 500},
        {"[aws]\nprice = 0.5\n", "p5.48xlarge", AWS_CAPACITY_BLOCK, 500},
        {"[aws]\nprice = 0.5\n", "x9.huge", AWS_SPOT, 500},
        {"[aws]\nprice = 0.0014\n", "x9.huge", AWS_SPOT, 1},
        {"[aws]\nprice = 0.0015\n", "x9.huge", AWS_SPOT, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        load(cases[i].toml);
        is_int(aws_plan_price_mils(&config.aws, cases[i].type, cases[i].purchase), cases[i].mils,
               "price %zu is that of a node and hour", i);
    }
    struct aws_plan p = {.price_mils = 1000};
    is_int(aws_plan_cost_mils(&p, 2, 5400000), 3000, "two nodes cost an hour and a half");
    is_int(aws_plan_cost_mils(&p, 1, 1799), 0, "less than half of a thousandth is nothing");
    is_int(aws_plan_cost_mils(&p, 1, 1800), 1, "half of a thousandth is rounded up");
}

// ---- text ---------------------------------------------------------------------------------------

static void test_usual(void) {
    struct aws_plan p = plan("[aws]\ninstance_type = 'g6.xlarge'\n", 3);
    is_str(shown(&p),
           "  nodes      3 x g6.xlarge\n"
           "  GPUs       3 x L4 with 22.4 GiB, 1 per node\n"
           "  CPUs       12 vCPUs, 4 per node, with 16 GiB of memory\n"
           "  network    up to 10 Gb/s per node, no EFA\n"
           "  where      us-east-1, the first zone that has them\n"
           "  bought     on-demand\n"
           "  egress     open\n"
           "  price      $2.42 per hour, $0.81 per node (on-demand list price in us-east-1 of "
           "2026-02-09)\n"
           "  lease      12:00:00, at most $28.98 in it, without volumes and traffic\n"
           "  idle       nodes end after 1:00:00 without use\n"
           "  quota      12 vCPUs of 'Running On-Demand G and VT instances' (L-DB2E81BA)\n",
           "a usual cluster has its lines");
    p = plan("[aws]\ninstance_type = 'p4d.24xlarge'\nzones = ['us-east-1d', 'us-east-1a']\n"
             "fallback = ['spot', 'on-demand']\negress = 'closed'\n[lease]\nttl = '0s'\nidle = "
             "'0s'\n",
             2);
    is_str(shown(&p),
           "  nodes      2 x p4d.24xlarge\n"
           "  GPUs       16 x A100 with 40 GiB, 8 per node\n"
           "  CPUs       192 vCPUs, 96 per node, with 1152 GiB of memory\n"
           "  network    4x100 Gb/s per node, EFA on 4 interfaces\n"
           "  where      us-east-1, us-east-1d, then us-east-1a\n"
           "  bought     spot, then on-demand\n"
           "  egress     closed but for the cluster and S3\n"
           "  price      $43.92 per hour, $21.96 per node (on-demand list price in us-east-1 of "
           "2026-02-09; spot is less)\n"
           "  lease      none: the nodes run, and cost, until dtctl down\n"
           "  addresses  2 elastic (quota L-0263D0A3, at first 5 per region)\n"
           "  quota      192 vCPUs of 'All P4, P3 and P2 Spot Instance Requests' (L-7212CCBC)\n",
           "a cluster of many GPUs has its lines");
    p = plan("[aws]\ninstance_type = 'm7i.large'\nprice = 0.1\n", 1);
    is_str(shown(&p),
           "  nodes      1 x m7i.large (not in the table: sizes and list price not known)\n"
           "  where      us-east-1, the first zone that has them\n"
           "  bought     on-demand\n"
           "  egress     open\n"
           "  price      $0.10 per hour, $0.10 per node (aws.price)\n"
           "  lease      12:00:00, at most $1.20 in it, without volumes and traffic\n"
           "  idle       nodes end after 1:00:00 without use\n"
           "  quota      'Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances' "
           "(L-1216C47A)\n",
           "a type that is not in the table has what is known");
    p = plan("[aws]\ninstance_type = 'p5.48xlarge'\nfallback = ['capacity-block']\n", 1);
    has_str(shown(&p),
            "  price      paid with the capacity block\n"
            "  lease      12:00:00\n",
            "a capacity block is paid already");
    ok(!strstr(shown(&p), "quota      "), "a capacity block has no quota");
    p = plan("[aws]\ninstance_type = 'g7.2xlarge'\n", 1);
    has_str(shown(&p), "  price      not known; say it with aws.price\n  lease      12:00:00\n",
            "a type without a list price may have any");
}

// A cluster that exists is priced as it was bought, until its end.
static void test_bought(void) {
    struct aws_plan p = plan("[aws]\ninstance_type = 'g6.xlarge'\nfallback = ['spot']\n", 2);
    ok(!p.bought, "a new cluster is not bought yet");
    aws_plan_bought(&p, AWS_ON_DEMAND);
    ok(p.bought, "a cluster that exists is");
    has_str(shown(&p), "  bought     on-demand\n", "the way to buy is that of the nodes");
    has_str(shown(&p), " (L-DB2E81BA)\n", "the quota is that of the nodes");
    p.until_ms = clock_of_iso("2026-01-02T03:04:05Z");
    p.left_ms = 3600000;
    has_str(shown(&p),
            "  lease      ends in 1:00:00 (2026-01-02T03:04Z), at most $1.61 until then, without "
            "volumes and traffic\n",
            "the rest of the lease has its price");
    p = plan("[aws]\ninstance_type = 'x9.huge'\n", 2);
    p.until_ms = clock_of_iso("2026-01-02T03:04:05Z");
    p.left_ms = 3600000;
    has_str(shown(&p), "  lease      ends in 1:00:00 (2026-01-02T03:04Z)\n",
            "without a price the rest has none");
    p = plan("", 1);
    config.aws.fallback = (struct option_list){.items = (const char *[]){"stolen"}, .count = 1};
    aws_plan_make(&p, &config.aws, &config.lease, "demo", "us-east-1", 1);
    is_int(p.purchase, AWS_ON_DEMAND, "an unknown way to buy is on demand");
}

static void test_network(void) {
    static const struct {
        const char *toml;
        bool efa, elastic;
    } cases[] = {
        {"instance_type = 'p5.48xlarge'\n", true, true},
        {"instance_type = 'p5.48xlarge'\nefa = 'off'\n", false, false},
        {"instance_type = 'p5.48xlarge'\nsubnet = 'subnet-12345678'\n", true, false},
        {"instance_type = 'p5.48xlarge'\npublic_address = 'none'\n", true, false},
        {"instance_type = 'g6.8xlarge'\n", true, false},
        {"instance_type = 'g6.8xlarge'\npublic_address = 'elastic'\n", true, true},
        {"instance_type = 'g6e.24xlarge'\n", true, true},
        {"instance_type = 'x9.huge'\n", false, false},
        {"instance_type = 'x9.huge'\npublic_address = 'elastic'\n", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aws_plan p = plan(arena_printf(&a, "[aws]\n%s", cases[i].toml), 1);
        is_int(strstr(shown(&p), ", EFA on ") != NULL, cases[i].efa, "network %zu has EFA or not",
               i);
        is_int(strstr(shown(&p), "  addresses  1 elastic ") != NULL, cases[i].elastic,
               "network %zu needs elastic addresses or not", i);
    }
}

// ---- JSON ---------------------------------------------------------------------------------------

static const char *json(const struct aws_plan *p) {
    struct json_out j;
    strbuf_clear(&text);
    json_open(&j, &text);
    json_object(&j, NULL);
    aws_plan_json(p, &j);
    json_end(&j);
    return strbuf_cstr(&text);
}

static void test_json(void) {
    struct aws_plan p = plan("[aws]\ninstance_type = 'p4d.24xlarge'\nfallback = ['spot']\n", 2);
    is_str(json(&p),
           "{\"region\":\"us-east-1\",\"instance_type\":\"p4d.24xlarge\",\"nodes\":2,"
           "\"purchase\":\"spot\",\"gpus\":16,\"vcpus\":192,\"efa\":4,\"price_per_hour\":43.916,"
           "\"price_of\":\"2026-02-09\",\"price_of_lease\":526.992,\"ttl_ms\":43200000,"
           "\"idle_ms\":3600000,\"quota_code\":\"L-7212CCBC\",\"quota_name\":\"All P4, P3 and P2 "
           "Spot Instance Requests\"}",
           "a program reads the plan");
    p.until_ms = 4102444800000;
    p.left_ms = 3600000;
    has_str(json(&p), "\"price_of_lease\":43.916,\"until_ms\":4102444800000,\"ttl_ms\":43200000,",
            "a program reads the rest of a lease");
    p = plan("[aws]\ninstance_type = 'x9.huge'\nprice = 2.5\n[lease]\nttl = '0s'\n", 2);
    has_str(json(&p),
            "\"purchase\":\"on-demand\",\"price_per_hour\":5,\"price_of\":\"aws.price\","
            "\"ttl_ms\":0,",
            "without a lease there is no price of it");
    p.until_ms = 4102444800000;
    p.left_ms = 7200000;
    has_str(json(&p), "\"price_of_lease\":10,\"until_ms\":4102444800000,\"ttl_ms\":0,",
            "an end that was set by extend has its price");
    p = plan("[aws]\ninstance_type = 'x9.huge'\n", 2);
    ok(!strstr(json(&p), "price"), "without a price there is none: %s", json(&p));
}

// ---- ~/.aws/config ------------------------------------------------------------------------------

static void test_profiles(void) {
    static const struct {
        const char *text, *profile, *region; // NULL: none
    } cases[] = {
        {"[default]\nregion=us-west-2\n", "", "us-west-2"},
        {"[default]\nregion=us-west-2", "", "us-west-2"},
        {"[default]\nregion=us-west-2", "default", "us-west-2"},
        {"[profile default]\nregion=us-west-2\n", "", "us-west-2"},
        {"[ default ]\n\tregion =\tus-west-2 \r\n", "", "us-west-2"},
        {"[profile p]\nregion=us-west-2\n", "p", "us-west-2"},
        {"[p]\nregion=us-west-2\n", "p", NULL},
        {"[profile p]\nregion=us-west-2\n", "", NULL},
        {"[default]\nregion=us-west-2\n", "p", NULL},
        {"[profile default]\nregion=us-west-2\n", "p", NULL},
        {"region=us-west-2\n[default]\n", "", NULL},
        {"[default]\n[profile p]\nregion=us-west-2\n", "", NULL},
        {"[default]\nregions=us-west-2\nregion us-east-1\noutput=region\n", "", NULL},
        {"[default]\n\n\nregion=\n", "", ""},
        {"[default\nregion=us-west-2\n", "", "us-west-2"},
        {"[default]\nregion=a=b\nregion=c\n", "", "a=b"},
        {"[default] # mine\nregion = eu-west-1 # Ireland\n", "", "eu-west-1"},
        {"[default]\nregion = eu-west-1 ; Ireland\n", "", "eu-west-1"},
        {"[default]\nregion = eu-west-1\t#Ireland\n", "", "eu-west-1"},
        {"[default]\nregion = eu-west-1 Ireland # x\n", "", "eu-west-1 Ireland"},
        {"[default]\nregion = eu#west\n", "", "eu#west"},
        {"[default]\nregion = # none\n", "", ""},
        {"[default]\nregion =\n# none\n", "", ""},
        {"[default]\nregion =  \n", "", ""},
        {"", "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(aws_plan_profile_region(&a, cases[i].text, cases[i].profile), cases[i].region,
               "profile %zu has its region, or none", i);
}

int main(void) {
    test_prices();
    test_usual();
    test_bought();
    test_network();
    test_json();
    test_profiles();
    strbuf_fini(&text);
    arena_fini(&a);
    return done_testing();
}
