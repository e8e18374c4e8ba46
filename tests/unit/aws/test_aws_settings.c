// SPDX-License-Identifier: Apache-2.0
// Settings of provider aws that AWS would refuse are refused before it is asked, and settings at
// the limits pass.
#include "aws/aws_settings.h"
#include "conf/config.h"
#include "tests/tap.h"

static struct arena a;
static struct config config;
static struct err error;

// words NULL: the settings pass.
static void check(const char *region, const char *settings, const char *words) {
    config_open(&config, &a, "dtctl", NULL);
    const char *toml = arena_printf(&a, "[aws]\n%s", settings);
    option_set_file(&config.set, "t.toml", toml, strlen(toml));
    err_clear(&error);
    if (option_set_finish(&config.set, &error) < 0)
        bail_out("%s", error.text);
    is_int(aws_settings_check(&config, region, &error), words ? -1 : 0, "%s %s pass or not", region,
           settings);
    is_int(error.code, words ? ERR_CONFIG : ERR_NONE, "the configuration is at fault, or not");
    is_str(error.text, words ? words : "", "the error has its words, or there is none");
}

#define HERE "us-east-1"

static void test_regions(void) {
    check("us-east-1", "", NULL);
    check("af-south-1", "", NULL);
    check("us-east-0", "", NULL);
    check("us-east-9", "", NULL);
    check("ap-southeast-12", "", NULL);
    check("us-gov-west-1", "", NULL);
    check("us-east-", "", "aws.region: AWS has no region 'us-east-' (did you mean us-east-…?)");
    check("us-east", "", "aws.region: AWS has no region 'us-east' (did you mean us-east-…?)");
    check("us-east-1a", "", "aws.region: AWS has no region 'us-east-1a' (did you mean us-east-…?)");
    check("us-esat-1", "", "aws.region: AWS has no region 'us-esat-1' (did you mean us-east-…?)");
    check("mars", "", "aws.region: AWS has no region 'mars'");
    check("", "", "aws.region: AWS has no region ''");
    check("mars", "endpoint_url = 'http://127.0.0.1:1'\n", NULL);
    check(HERE, "zones = ['us-east-1a', 'us-east-1-atl-1a']\n", NULL);
    check(HERE, "zones = ['us-east-2a']\n",
          "t.toml:2:9: aws.zones: zone 'us-east-2a' is not in region us-east-1 (try: us-east-1a)");
    check(HERE, "zones = ['us-east-1a', 'us-east-2a']\n",
          "t.toml:2:9: aws.zones: zone 'us-east-2a' is not in region us-east-1 (try: us-east-1a)");
}

#define WIDE(range)                                                                                \
    "t.toml:2:18: aws.operator_cidrs: '" range                                                     \
    "' would let the world try SSH (try: your own address, such as 198.51.100.7/32, or "           \
    "aws.allow_open_ssh)"

static void test_ranges(void) {
    check(HERE, "operator_cidrs = ['198.51.100.7/32', '10.0.0.0/8', '2001::/16']\n", NULL);
    check(HERE, "operator_cidrs = ['198.51.100.7/32', '10.0.0.0/7']\n", WIDE("10.0.0.0/7"));
    check(HERE, "operator_cidrs = ['0.0.0.0/0']\n", WIDE("0.0.0.0/0"));
    check(HERE, "operator_cidrs = ['::/0']\n", WIDE("::/0"));
    check(HERE, "operator_cidrs = ['2000::/15']\n", WIDE("2000::/15"));
    check(HERE, "operator_cidrs = ['auto']\n", NULL);
    check(HERE, "operator_cidrs = ['0.0.0.0/0']\nallow_open_ssh = true\n", NULL);
}

#define RESERVED "capacity_reservation = 'cr-12345678'\n"

static void test_purchases(void) {
    static const char *const ways[] = {"reservation", "capacity-block"};
    for (size_t i = 0; i < 2; i++) {
        const char *way = arena_printf(&a, "fallback = ['%s', 'spot']\n", ways[i]);
        check(HERE, way,
              arena_printf(&a,
                           "t.toml:2:12: aws.fallback: '%s' needs the id of one (try: "
                           "aws.capacity_reservation = \"cr-…\")",
                           ways[i]));
        check(HERE, arena_printf(&a, RESERVED "%s", way),
              "t.toml:2:24: aws.capacity_reservation: a reservation is in one zone (try: name it "
              "in aws.zones)");
        check(HERE, arena_printf(&a, RESERVED "zones = ['us-east-1a']\n%s", way), NULL);
        check(HERE, arena_printf(&a, RESERVED "subnet = 'subnet-12345678'\n%s", way), NULL);
    }
    check(HERE, RESERVED "fallback = ['spot', 'on-demand']\n", NULL);
    check(HERE, "fallback = ['spot', 'reservation']\n",
          "t.toml:2:12: aws.fallback: 'reservation' needs the id of one (try: "
          "aws.capacity_reservation = \"cr-…\")");
}

#define BLOCK RESERVED "zones = ['us-east-1a']\nfallback = ['spot', 'capacity-block']\n"
#define ITSELF                                                                                     \
    ": a capacity block places its instances itself (try: aws.placement_group = \"auto\", and no " \
    "name)"

static void test_placement(void) {
    check(HERE, BLOCK, NULL);
    check(HERE, BLOCK "placement_group = 'off'\n", NULL);
    check(HERE, BLOCK "placement_group = 'on'\n", "t.toml:5:19: aws.placement_group" ITSELF);
    check(HERE,
          RESERVED "zones = ['us-east-1a']\nfallback = ['capacity-block']\n"
                   "placement_group = 'on'\n",
          "t.toml:5:19: aws.placement_group" ITSELF);
    check(HERE, BLOCK "placement_group_name = 'ours'\n",
          "t.toml:5:24: aws.placement_group_name" ITSELF);
    check(HERE, "placement_group_name = 'ours'\n", NULL);
    check(HERE, "placement_group = 'on'\n", NULL);
    static const char *const choices[] = {"on", "off"};
    for (size_t i = 0; i < 2; i++)
        check(
            HERE,
            arena_printf(&a, "placement_group_name = 'ours'\nplacement_group = '%s'\n", choices[i]),
            arena_printf(&a,
                         "t.toml:2:24: aws.placement_group_name: 'ours' belongs with "
                         "aws.placement_group = \"auto\", not %s",
                         choices[i]));
}

static void test_limits(void) {
    check(HERE, "root_iops = 3000\nroot_throughput = 125\nboot_timeout = '10s'\n", NULL);
    check(HERE, "root_iops = 0\nroot_throughput = 0\nboot_timeout = '0s'\n", NULL);
    check(HERE, "root_iops = 2999\n",
          "t.toml:2:13: aws.root_iops: 2999 is below the least that AWS has, 3000");
    check(HERE, "root_iops = 1\n",
          "t.toml:2:13: aws.root_iops: 1 is below the least that AWS has, 3000");
    check(HERE, "root_throughput = 124\n",
          "t.toml:2:19: aws.root_throughput: 124 is below the least that AWS has, 125 MiB/s");
    check(HERE, "boot_timeout = '9999ms'\n",
          "t.toml:2:16: aws.boot_timeout: no node is ready in less than 10 s (try: 15m)");
    check(HERE, "boot_timeout = '1ms'\n",
          "t.toml:2:16: aws.boot_timeout: no node is ready in less than 10 s (try: 15m)");
}

// Settings that need another one, or that exclude one another.
static void test_parts(void) {
    check(HERE, "vpc = 'vpc-12345678'\n",
          "t.toml:2:7: aws.vpc: 'vpc-12345678' needs a subnet in it (try: aws.subnet)");
    check(HERE, "vpc = 'vpc-12345678'\nsubnet = 'subnet-12345678'\n", NULL);
    check(HERE, "subnet = 'subnet-12345678'\n", NULL);
    check(HERE, "state_region = 'us-west-2'\n",
          "t.toml:2:16: aws.state_region: 'us-west-2' is of the bucket of aws.state (try: set "
          "that, too)");
    check(HERE, "state = 's3://bucket'\nstate_region = 'us-west-2'\n", NULL);
    check(HERE, "state = 's3://bucket'\n", NULL);
    check(HERE, "s3 = 's3://bucket'\ninstance_profile = 'p'\n",
          "t.toml:2:6: aws.s3: with aws.instance_profile no role is made for 's3://bucket' (try: "
          "omit one of the two)");
    check(HERE, "s3 = 's3://bucket'\n", NULL);
    check(HERE, "instance_profile = 'p'\n", NULL);
    check(HERE, "instance_type = 'g5g.xlarge'\nimage = 'ami-12345678'\n",
          "t.toml:2:17: aws.instance_type: 'g5g.xlarge' is for arm64, and dtctl's programs are for "
          "x86_64 (try: g6.xlarge)");
    check(HERE, "instance_type = 'p3.2xlarge'\n",
          "t.toml:2:17: aws.instance_type: 'p3.2xlarge' has GPUs that the driver of the default "
          "image does not know (try: g6.xlarge, or aws.image)");
    check(HERE, "instance_type = 'p3.2xlarge'\nimage = 'ami-12345678'\n", NULL);
    check(HERE, "instance_type = 'g6f.large'\n",
          "t.toml:2:17: aws.instance_type: 'g6f.large' has a part of a GPU, whose GRID driver is "
          "in no default image (try: g6.xlarge, or aws.image)");
    check(HERE, "instance_type = 'gr6f.4xlarge'\n",
          "t.toml:2:17: aws.instance_type: 'gr6f.4xlarge' has a part of a GPU, whose GRID driver "
          "is in no default image (try: g6.xlarge, or aws.image)");
    check(HERE, "instance_type = 'g6f.large'\nimage = 'ami-12345678'\n", NULL);
}

int main(void) {
    test_regions();
    test_ranges();
    test_purchases();
    test_placement();
    test_limits();
    test_parts();
    arena_fini(&a);
    return done_testing();
}
