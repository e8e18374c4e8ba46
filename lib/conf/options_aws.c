// SPDX-License-Identifier: Apache-2.0
// [aws] and [lease]: provider aws, and the lease of its instances.
#include "base/bucket_name.h"
#include "conf/aws_config.h"
#include "conf/config.h"
#include "sys/net.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(field) .offset = offsetof(struct config, field)

const char *const aws_config_egress[] = {"open", "closed", NULL};
const char *const aws_config_efa[] = {"auto", "off", NULL};
const char *const aws_config_placement[] = {"auto", "on", "off", NULL};
const char *const aws_config_address[] = {"auto", "elastic", "none", NULL};
const char *const aws_config_metadata[] = {"auto", "on", "off", NULL};

// ---- checks ------------------------------------------------------------------------------------

static bool only(const char *text, const char *further) {
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr(further, *p))
            return false;
    return *text != 0;
}

static int check_region(const char *text, struct err *e) {
    size_t len = strlen(text);
    if (only(text, "-") && strchr(text, '-') && len < 32 && isdigit((unsigned char)text[len - 1]))
        return 0;
    return err_set(e, ERR_CONFIG, "'%.64s' is no region such as us-east-1", text);
}

static int check_zone(const char *text, struct err *e) {
    size_t len = strlen(text);
    if (only(text, "-") && strchr(text, '-') && len < 64 && isalpha((unsigned char)text[len - 1]))
        return 0;
    return err_set(e, ERR_CONFIG, "'%.64s' is no zone such as us-east-1a", text);
}

static int check_tag(const char *name, struct err *e) {
    enum { BYTES_MAX = 128 };
    if (only(name, "._:/=+@ -") && strlen(name) <= BYTES_MAX && strcmp(name, "Name") != 0 &&
        strncasecmp(name, "aws:", 4) != 0 && !str_starts(name, "dtctl-"))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.100s' is no tag: a name has 1 to %d letters, digits, blanks and . _ : / = + "
                   "@ -, is not Name, and does not begin with aws: or dtctl-",
                   name, BYTES_MAX);
}

static int check_owner(const char *text, struct err *e) {
    if (only(text, "._@-") && isalnum((unsigned char)text[0]) && strlen(text) <= 64)
        return 0;
    return err_set(e, ERR_CONFIG, "'%.80s': letters, digits, '.', '_', '@', '-', at most 64", text);
}

static int check_type(const char *text, struct err *e) {
    if (only(text, ".-") && strchr(text, '.') && strlen(text) <= 64)
        return 0;
    return err_set(e, ERR_CONFIG, "'%.64s' is no instance type such as g6.12xlarge", text);
}

// An id of AWS: the prefix, and 8 to 17 hexadecimal digits.
static bool is_id(const char *text, const char *prefix) {
    enum { DIGITS_MIN = 8, DIGITS_MAX = 17 };
    if (!str_starts(text, prefix))
        return false;
    size_t len = strlen(text += strlen(prefix));
    return len >= DIGITS_MIN && len <= DIGITS_MAX && strspn(text, "0123456789abcdef") == len;
}

static int check_image(const char *text, struct err *e) {
    if (is_id(text, "ami-"))
        return 0;
    if (text[0] == '/' && only(text, "/._-"))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.100s' is neither an image (ami-…) nor the path of a public SSM parameter "
                   "(/aws/service/…)",
                   text);
}

static int check_purchase(const char *text, struct err *e) {
    static const char *const words[] = {"on-demand", "spot", "reservation", "capacity-block", NULL};
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.64s' is no way to buy: on-demand, spot, reservation, capacity-block", text);
}

int aws_config_range_bits(const char *text) {
    enum { ADDRESS_BYTES_MAX = 64, BITS_MAX_V4 = 32, BITS_MAX_V6 = 128 };
    char address[ADDRESS_BYTES_MAX];
    const char *slash = strchr(text, '/');
    struct err no_number = {0};
    int64_t bits = -1;
    if (!slash ||
        snprintf(address, sizeof address, "%.*s", (int)(slash - text), text) >=
            (int)sizeof address ||
        !net_is_numeric(address))
        return -1;
    int64_t most = strchr(address, ':') ? BITS_MAX_V6 : BITS_MAX_V4;
    return str_parse_i64(slash + 1, 0, most, &bits, &no_number) < 0 ? -1 : (int)bits;
}

static int check_cidr(const char *text, struct err *e) {
    if (strcmp(text, "auto") == 0 || aws_config_range_bits(text) >= 0)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.64s' is neither a range of addresses such as 198.51.100.7/32 nor auto",
                   text);
}

static int check_vpc_cidr(const char *text, struct err *e) {
    enum { VPC_BITS_MIN = 16, VPC_BITS_MAX = 27 };
    int bits = strchr(text, ':') ? -1 : aws_config_range_bits(text);
    if (bits >= VPC_BITS_MIN && bits <= VPC_BITS_MAX)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%.64s' is no range of IPv4 addresses from /%d to /%d, such as 10.77.0.0/16",
                   text, VPC_BITS_MIN, VPC_BITS_MAX);
}

static int check_user(const char *text, struct err *e) {
    enum { BYTES_MAX = 32 };
    size_t len = strlen(text);
    if (len > 0 && len <= BYTES_MAX && (islower((unsigned char)text[0]) || text[0] == '_') &&
        strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len)
        return 0;
    return err_set(e, ERR_CONFIG, "'%.64s' is no login such as ubuntu", text);
}

static int check_profile(const char *text, struct err *e) {
    if (only(text, "+=,.@_-") && strlen(text) <= 128)
        return 0;
    return err_set(e, ERR_CONFIG, "'%.100s' is no instance profile (try: its name, not its ARN)",
                   text);
}

static int check_boundary(const char *text, struct err *e) {
    if (str_starts(text, "arn:") && strstr(text, ":iam::") && strstr(text, ":policy/"))
        return 0;
    return err_set(e, ERR_CONFIG, "'%.100s' is no policy such as arn:aws:iam::ACCOUNT:policy/NAME",
                   text);
}

static int check_group(const char *text, struct err *e) {
    enum { BYTES_MAX = 255 };
    size_t len = strlen(text);
    bool plain = len > 0 && len <= BYTES_MAX;
    for (size_t i = 0; i < len; i++)
        plain &= text[i] >= ' ' && text[i] <= '~';
    return plain
               ? 0
               : err_set(e, ERR_CONFIG, "'%.64s' is no name of a placement group (ASCII, 1 to %d)",
                         text, BYTES_MAX);
}

static int check_s3(const char *text, struct err *e) {
    if (bucket_name_len(text) && only(text + strlen("s3://"), "./_=-"))
        return 0;
    return err_set(
        e, ERR_CONFIG,
        "'%.100s' is not s3://BUCKET or s3://BUCKET/FOLDER (a bucket has " BUCKET_NAME_RULE ")",
        text);
}

static int check_url(const char *text, struct err *e) {
    if (str_starts(text, "http://") || str_starts(text, "https://"))
        return 0;
    return err_set(e, ERR_CONFIG, "'%.100s' is no address that begins with http:// or https://",
                   text);
}

static int check_id(const char *text, const char *prefix, struct err *e) {
    if (is_id(text, prefix))
        return 0;
    return err_set(e, ERR_CONFIG, "'%.64s' is no id such as %s0123456789abcdef0", text, prefix);
}

static int check_vpc(const char *text, struct err *e) {
    return check_id(text, "vpc-", e);
}

static int check_subnet(const char *text, struct err *e) {
    return check_id(text, "subnet-", e);
}

static int check_reservation(const char *text, struct err *e) {
    return check_id(text, "cr-", e);
}

#define YEAR_MS 31536000000.0

static const struct option_row rows[] = {
    {.key = "aws.region",
     .flag = "region",
     .verbs = "init plan up gc",
     .marks = OPTION_KEEP,
     .env = "AWS_REGION",
     .type = OPTION_STRING,
     AT(aws.region),
     .arg = "REGION",
     .check = check_region,
     .help = "AWS region; empty: AWS_DEFAULT_REGION, else the profile's region in ~/.aws/config."},
    {.key = "aws.profile",
     .env = "AWS_PROFILE",
     .type = OPTION_STRING,
     AT(aws.profile),
     .arg = "NAME",
     .help =
         "Profile of ~/.aws with the credentials for Terraform and s3://; empty: the AWS tools' "
         "own rules."},
    {.key = "aws.owner",
     .type = OPTION_STRING,
     AT(aws.owner),
     .arg = "NAME",
     .check = check_owner,
     .help = "Owner of the instances, a tag that gc searches for; empty: USER@COMPUTER."},
    {.key = "aws.zones",
     .flag = "zone",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_LIST,
     AT(aws.zones),
     .arg = "ZONE",
     .check = check_zone,
     .help = "Availability zones, in the order to try; empty: all zones that offer the type."},
    {.key = "aws.instance_type",
     .flag = "instance-type",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_STRING,
     AT(aws.instance_type),
     .text = "g6.xlarge",
     .arg = "TYPE",
     .check = check_type,
     .help = "EC2 instance type of each node."},
    {.key = "aws.image",
     .type = OPTION_STRING,
     AT(aws.image),
     .arg = "IMAGE",
     .check = check_image,
     .help = "Machine image (ami-…), or the path of a public SSM parameter that holds one; "
             "empty: AWS's base image with NVIDIA driver."},
    {.key = "aws.fallback",
     .flag = "fallback",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_LIST,
     AT(aws.fallback),
     .text = "on-demand",
     .arg = "WAY",
     .check = check_purchase,
     .help = "Ways to buy in the order to try: on-demand, spot, reservation, "
             "capacity-block; the flag may be repeated. Every zone is tried in one way before the "
             "next way."},
    {.key = "aws.spot_max_price",
     .type = OPTION_REAL,
     AT(aws.spot_max_price),
     .text = "0",
     .min = 0,
     .max = 1000,
     .arg = "USD",
     .help = "Highest price of a spot node, USD per hour; 0: the on-demand price."},
    {.key = "aws.capacity_reservation",
     .type = OPTION_STRING,
     AT(aws.capacity_reservation),
     .arg = "ID",
     .check = check_reservation,
     .help = "Reservation or capacity block to start in; aws.zones names its zone."},
    {.key = "aws.ssh_user",
     .type = OPTION_STRING,
     AT(aws.ssh_user),
     .text = "ubuntu",
     .arg = "USER",
     .check = check_user,
     .help = "Login of the image."},
    {.key = "aws.operator_cidrs",
     .flag = "operator-cidr",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_LIST,
     AT(aws.operator_cidrs),
     .arg = "RANGE",
     .check = check_cidr,
     .help = "Address ranges that may open SSH connections to nodes; empty: this computer's own "
             "address, if it is public; auto: ask AWS which address this computer has."},
    {.key = "aws.allow_open_ssh",
     .type = OPTION_BOOL,
     AT(aws.allow_open_ssh),
     .text = "false",
     .help = "Accept ranges that open SSH to the whole internet."},
    {.key = "aws.vpc",
     .type = OPTION_STRING,
     AT(aws.vpc),
     .arg = "ID",
     .check = check_vpc,
     .help = "Existing VPC; empty: make one."},
    {.key = "aws.subnet",
     .type = OPTION_STRING,
     AT(aws.subnet),
     .arg = "ID",
     .check = check_subnet,
     .help = "Existing subnet for the nodes; empty: make one."},
    {.key = "aws.vpc_cidr",
     .type = OPTION_STRING,
     AT(aws.vpc_cidr),
     .text = "10.77.0.0/16",
     .arg = "RANGE",
     .check = check_vpc_cidr,
     .help = "Addresses of an own VPC."},
    {.key = "aws.egress",
     .type = OPTION_CHOICE,
     AT(aws.egress),
     .text = "open",
     .choices = aws_config_egress,
     .help = "Network access of nodes; closed: only the cluster and S3."},
    {.key = "aws.efa",
     .type = OPTION_CHOICE,
     AT(aws.efa),
     .text = "auto",
     .choices = aws_config_efa,
     .help = "Whether nodes get all EFA interfaces of their type."},
    {.key = "aws.placement_group",
     .type = OPTION_CHOICE,
     AT(aws.placement_group),
     .text = "auto",
     .choices = aws_config_placement,
     .help =
         "Whether nodes share a placement group; auto: several nodes, or nodes with EFA, if the "
         "type supports it and the group has capacity."},
    {.key = "aws.placement_group_name",
     .type = OPTION_STRING,
     AT(aws.placement_group_name),
     .arg = "NAME",
     .check = check_group,
     .help = "Existing placement group for the nodes, such as that of a reservation; empty: make "
             "one (see aws.placement_group)."},
    {.key = "aws.public_address",
     .type = OPTION_CHOICE,
     AT(aws.public_address),
     .text = "auto",
     .choices = aws_config_address,
     .help = "Public addresses of nodes; with none, nodes are reached by ssh.proxy_jump or a VPN."},
    {.key = "aws.root_gb",
     .type = OPTION_INT,
     AT(aws.root_gb),
     .text = "100",
     .min = 8,
     .max = 16384,
     .help = "Root volume in GiB."},
    {.key = "aws.root_iops",
     .type = OPTION_INT,
     AT(aws.root_iops),
     .text = "0",
     .min = 0,
     .max = 16000,
     .help = "Operations per second of the root volume; 0: 3000."},
    {.key = "aws.root_throughput",
     .type = OPTION_INT,
     AT(aws.root_throughput),
     .text = "0",
     .min = 0,
     .max = 1000,
     .help = "Throughput of the root volume in MiB/s; 0: 125."},
    {.key = "aws.s3",
     .type = OPTION_STRING,
     AT(aws.s3),
     .arg = "s3://BUCKET/FOLDER",
     .check = check_s3,
     .help = "Bucket and folder that runs may use, by a role made for it. Users who are logged in "
             "to a node have the same rights (see aws.closed_metadata)."},
    {.key = "aws.instance_profile",
     .type = OPTION_STRING,
     AT(aws.instance_profile),
     .arg = "NAME",
     .check = check_profile,
     .help = "Existing instance profile for the nodes, instead of a role."},
    {.key = "aws.permissions_boundary",
     .type = OPTION_STRING,
     AT(aws.permissions_boundary),
     .arg = "ARN",
     .check = check_boundary,
     .help = "Permissions boundary of the role for aws.s3."},
    {.key = "aws.kms_key",
     .type = OPTION_STRING,
     AT(aws.kms_key),
     .arg = "ARN",
     .help = "KMS key that encrypts the volumes; empty: the account's default key."},
    {.key = "aws.closed_metadata",
     .type = OPTION_CHOICE,
     AT(aws.closed_metadata),
     .text = "auto",
     .choices = aws_config_metadata,
     .help = "Whether only root on a node can reach the metadata service with the role's "
             "credentials; auto: yes unless runs have a role (aws.s3, aws.instance_profile)."},
    {.key = "aws.tags",
     .type = OPTION_MAP,
     AT(aws.tags),
     .check_name = check_tag,
     .arg = "NAME=VALUE",
     .help = "Additional tags of all AWS resources."},
    {.key = "aws.price",
     .type = OPTION_REAL,
     AT(aws.price),
     .text = "0",
     .min = 0,
     .max = 10000,
     .arg = "USD",
     .help = "Price of a node, USD per hour; 0: the built-in list price."},
    {.key = "aws.endpoint_url",
     .env = "AWS_ENDPOINT_URL",
     .type = OPTION_STRING,
     AT(aws.endpoint_url),
     .arg = "URL",
     .check = check_url,
     .help = "An API server other than AWS, for tests and private clouds."},
    {.key = "aws.terraform",
     .type = OPTION_STRING,
     AT(aws.terraform),
     .arg = "PROGRAM",
     .help = "Program that talks to AWS; empty: terraform, else tofu, on PATH."},
    {.key = "aws.state",
     .type = OPTION_STRING,
     AT(aws.state),
     .arg = "s3://BUCKET/FOLDER",
     .check = check_s3,
     .help = "Bucket and folder of Terraform's state, for several operators; empty: "
             ".dtctl/CLUSTER/terraform."},
    {.key = "aws.state_region",
     .type = OPTION_STRING,
     AT(aws.state_region),
     .arg = "REGION",
     .check = check_region,
     .help = "Region of the bucket of aws.state; empty: the cluster's region."},
    {.key = "aws.boot_timeout",
     .flag = "boot-timeout",
     .verbs = "up",
     .type = OPTION_DURATION,
     AT(aws.boot_timeout_ms),
     .text = "0s",
     .min = 0,
     .max = 7200000,
     .arg = "TIME",
     .help = "Time for a node from its start until it is ready; 0: 15 min, and 40 min for a bare "
             "metal type."},
    {.key = "aws.keep_failed",
     .flag = "keep",
     .verbs = "up",
     .type = OPTION_BOOL,
     AT(aws.keep_failed),
     .text = "false",
     .help = "Keep nodes that do not become ready, for inspection."},
    {.key = "aws.ssh_include",
     .type = OPTION_BOOL,
     AT(aws.ssh_include),
     .text = "false",
     .help =
         "up adds an Include line to ~/.ssh/config, so that `ssh NODE` works; down removes it."},
    {.flag = "replace",
     .verbs = "up",
     .type = OPTION_STRING,
     .marks = OPTION_NO_ENV,
     AT(aws.replace),
     .arg = "NODES",
     .help = "Nodes to end and replace, such as node[1-2], although they run."},
    {.key = "lease.ttl",
     .flag = "ttl",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_DURATION,
     AT(lease.ttl_ms),
     .text = "12h",
     .min = 0,
     .max = YEAR_MS,
     .arg = "TIME",
     .help = "Time from the start of a node until it ends itself; 0: never. `dtctl extend`, or an "
             "up with another value, sets a new end, counted from then."},
    {.key = "lease.idle",
     .flag = "idle",
     .verbs = "init plan up",
     .marks = OPTION_KEEP,
     .type = OPTION_DURATION,
     AT(lease.idle_ms),
     .text = "60m",
     .min = 0,
     .max = YEAR_MS,
     .arg = "TIME",
     .help = "Time without a run, a login or GPU use until a node ends itself; 0: never."},
};

const struct option_table options_aws = {"Provider aws", rows, sizeof rows / sizeof rows[0]};
