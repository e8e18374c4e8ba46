// SPDX-License-Identifier: Apache-2.0
// Checks the settings of [aws]. infra/ checks most of them, too, for use without dtctl, but only
// after Terraform has queried AWS.
#include "aws/aws_settings.h"

#include "aws/aws_instance_types.h"
#include "base/str.h"

#include <string.h>

enum { WIDE_BITS = 8, WIDE_BITS_V6 = 16 };

// Without the number, since AWS adds numbers to known prefixes more often than new prefixes.
static const char *const PLACES[] = {
    "af-south-", "ap-east-",      "ap-northeast-", "ap-south-",    "ap-southeast-", "ca-central-",
    "ca-west-",  "cn-north-",     "cn-northwest-", "eu-central-",  "eu-north-",     "eu-south-",
    "eu-west-",  "eusc-de-east-", "il-central-",   "me-central-",  "me-south-",     "mx-central-",
    "sa-east-",  "us-east-",      "us-gov-east-",  "us-gov-west-", "us-west-",      NULL};

static int check_region(const struct config *c, const char *region, struct err *e) {
    size_t len = strlen(region);
    while (len && region[len - 1] >= '0' && region[len - 1] <= '9')
        len--;
    if (c->aws.endpoint_url[0]) // another implementation has its own regions
        return 0;
    for (int i = 0; PLACES[i]; i++)
        if (region[len] && strlen(PLACES[i]) == len && strncmp(PLACES[i], region, len) == 0)
            return 0;
    const char *near = str_nearest(region, PLACES);
    return err_set(e, ERR_CONFIG, "%s: AWS has no region '%s'%s%s%s", config_where(c, "aws.region"),
                   region, near ? " (did you mean " : "", near ? near : "", near ? "…?)" : "");
}

static int check_zones(const struct config *c, const char *region, struct err *e) {
    for (size_t i = 0; i < c->aws.zones.count; i++) {
        const char *zone = c->aws.zones.items[i];
        if (!str_starts(zone, region))
            return err_set(e, ERR_CONFIG, "%s: zone '%s' is not in region %s (try: %sa)",
                           config_where(c, "aws.zones"), zone, region, region);
    }
    return 0;
}

static bool is_wide(const char *range) {
    int bits = aws_config_range_bits(range);
    return bits >= 0 && bits < (strchr(range, ':') ? WIDE_BITS_V6 : WIDE_BITS);
}

static int check_cidrs(const struct config *c, struct err *e) {
    for (size_t i = 0; i < c->aws.operator_cidrs.count && !c->aws.allow_open_ssh; i++)
        if (is_wide(c->aws.operator_cidrs.items[i]))
            return err_set(e, ERR_CONFIG,
                           "%s: '%s' would let the world try SSH (try: your own address, such as "
                           "198.51.100.7/32, or aws.allow_open_ssh)",
                           config_where(c, "aws.operator_cidrs"), c->aws.operator_cidrs.items[i]);
    return 0;
}

static int check_purchase(const struct config *c, struct err *e) {
    const struct aws_config *aws = &c->aws;
    const char *reserved = NULL;
    for (size_t i = 0; i < aws->fallback.count; i++) {
        int way = aws_purchase_named(aws->fallback.items[i]);
        if (way == AWS_RESERVATION || way == AWS_CAPACITY_BLOCK)
            reserved = aws->fallback.items[i];
    }
    if (reserved && !aws->capacity_reservation[0])
        return err_set(e, ERR_CONFIG,
                       "%s: '%s' needs the id of one (try: aws.capacity_reservation = \"cr-…\")",
                       config_where(c, "aws.fallback"), reserved);
    if (reserved && aws->zones.count == 0 && !aws->subnet[0])
        return err_set(e, ERR_CONFIG,
                       "%s: a reservation is in one zone (try: name it in aws.zones)",
                       config_where(c, "aws.capacity_reservation"));
    return 0;
}

// A group of others is entered by its name; its choice is made already. A capacity block is in a
// group of its own.
static int check_placement(const struct config *c, struct err *e) {
    const struct aws_config *aws = &c->aws;
    const char *choice = aws_config_placement[aws->placement_group];
    bool named = aws->placement_group_name[0] != 0, block = false;
    for (size_t i = 0; i < aws->fallback.count; i++)
        block |= aws_purchase_named(aws->fallback.items[i]) == AWS_CAPACITY_BLOCK;
    if (block && (named || strcmp(choice, "on") == 0))
        return err_set(e, ERR_CONFIG,
                       "%s: a capacity block places its instances itself (try: "
                       "aws.placement_group = \"auto\", and no name)",
                       config_where(c, named ? "aws.placement_group_name" : "aws.placement_group"));
    if (named && strcmp(choice, "auto") != 0)
        return err_set(
            e, ERR_CONFIG, "%s: '%s' belongs with aws.placement_group = \"auto\", not %s",
            config_where(c, "aws.placement_group_name"), aws->placement_group_name, choice);
    return 0;
}

static int check_volume(const struct config *c, struct err *e) {
    enum { IOPS_MIN = 3000, THROUGHPUT_MIN = 125 }; // of a gp3 volume
    const struct aws_config *aws = &c->aws;
    if (aws->root_iops && aws->root_iops < IOPS_MIN)
        return err_set(e, ERR_CONFIG, "%s: %lld is below the least that AWS has, %d",
                       config_where(c, "aws.root_iops"), (long long)aws->root_iops, IOPS_MIN);
    if (aws->root_throughput && aws->root_throughput < THROUGHPUT_MIN)
        return err_set(e, ERR_CONFIG, "%s: %lld is below the least that AWS has, %d MiB/s",
                       config_where(c, "aws.root_throughput"), (long long)aws->root_throughput,
                       THROUGHPUT_MIN);
    return 0;
}

static int check_boot(const struct config *c, struct err *e) {
    enum { BOOT_S_MIN = 10 };
    int64_t ms = c->aws.boot_timeout_ms;
    if (ms == 0 || ms >= BOOT_S_MIN * 1000)
        return 0;
    return err_set(e, ERR_CONFIG, "%s: no node is ready in less than %d s (try: 15m)",
                   config_where(c, "aws.boot_timeout"), BOOT_S_MIN);
}

static int check_parts(const struct config *c, struct err *e) {
    const struct aws_config *aws = &c->aws;
    if (aws_instance_types_is_arm(aws->instance_type))
        return err_set(
            e, ERR_CONFIG,
            "%s: '%s' is for arm64, and dtctl's programs are for x86_64 (try: g6.xlarge)",
            config_where(c, "aws.instance_type"), aws->instance_type);
    if (!aws->image[0] && aws_instance_types_has_old_gpu(aws->instance_type))
        return err_set(e, ERR_CONFIG,
                       "%s: '%s' has GPUs that the driver of the default image does not know (try: "
                       "g6.xlarge, or aws.image)",
                       config_where(c, "aws.instance_type"), aws->instance_type);
    if (!aws->image[0] && aws_instance_types_has_shared_gpu(aws->instance_type))
        return err_set(e, ERR_CONFIG,
                       "%s: '%s' has a part of a GPU, whose GRID driver is in no default image "
                       "(try: g6.xlarge, or aws.image)",
                       config_where(c, "aws.instance_type"), aws->instance_type);
    if (aws->vpc[0] && !aws->subnet[0])
        return err_set(e, ERR_CONFIG, "%s: '%s' needs a subnet in it (try: aws.subnet)",
                       config_where(c, "aws.vpc"), aws->vpc);
    if (aws->state_region[0] && !aws->state[0])
        return err_set(e, ERR_CONFIG, "%s: '%s' is of the bucket of aws.state (try: set that, too)",
                       config_where(c, "aws.state_region"), aws->state_region);
    if (aws->s3[0] && aws->instance_profile[0])
        return err_set(e, ERR_CONFIG,
                       "%s: with aws.instance_profile no role is made for '%s' (try: omit one of "
                       "the two)",
                       config_where(c, "aws.s3"), aws->s3);
    return 0;
}

int aws_settings_check(const struct config *c, const char *region, struct err *e) {
    return check_region(c, region, e) < 0 || check_zones(c, region, e) < 0 ||
                   check_cidrs(c, e) < 0 || check_purchase(c, e) < 0 || check_volume(c, e) < 0 ||
                   check_placement(c, e) < 0 || check_boot(c, e) < 0 || check_parts(c, e) < 0
               ? -1
               : 0;
}
