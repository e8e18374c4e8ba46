// SPDX-License-Identifier: Apache-2.0
// Variables of the module in infra/ and the place of its state, as Terraform reads them, and
// variables that come back from a file or a state.
#include "aws/aws_tfvars.h"
#include "conf/config.h"
#include "terraform/terraform.h"
#include "tests/tap.h"

static struct arena a;
static struct config config;
static struct strbuf text;
static struct err error;

static void load(const char *toml) {
    config_open(&config, &a, "dtctl", NULL);
    option_set_file(&config.set, "t.toml", toml, strlen(toml));
    if (option_set_finish(&config.set, &error) < 0)
        bail_out("%s", error.text);
}

static const char *written(const char *toml, const struct aws_vars *v) {
    load(toml);
    strbuf_clear(&text);
    aws_vars_write(&text, &config.aws, v);
    return strbuf_cstr(&text);
}

static struct aws_vars few(const char *purchase) {
    return (struct aws_vars){.cluster = "demo",
                             .owner = "me",
                             .region = "us-east-1",
                             .purchase = purchase,
                             .ssh_public_key = "ssh-ed25519 AAAA"};
}

// ---- writing ------------------------------------------------------------------------------------

static void test_all(void) {
    static const char *names[] = {"node0", "node1"}, *ranges[] = {"198.51.100.7/32", "2001::/32"};
    static struct aws_vars_key keys[] = {{"p \"0\"\n", "k0"}, {"p1", "k1"}};
    struct aws_vars v = few("spot");
    v.expires = "2026-01-02T03:04:05Z";
    v.made = "m";
    v.zone = "us-east-1b";
    v.outside_group = true;
    v.nodes = 2;
    v.names = names;
    v.keys = keys;
    v.operator_cidrs = ranges;
    v.operator_cidr_count = 2;
    v.ttl_s = 43200;
    v.idle_s = 3600;
    is_str(written("[aws]\ninstance_type = 'g6.xlarge'\nimage = 'ami-12345678'\n"
                   "spot_max_price = 1.25\ncapacity_reservation = 'cr-12345678'\n"
                   "s3 = 's3://bucket/a/b/'\nendpoint_url = 'http://127.0.0.1:1'\n"
                   "root_gb = 200\nroot_iops = 4000\nroot_throughput = 250\n"
                   "allow_open_ssh = true\nclosed_metadata = 'on'\nssh_user = 'me'\n"
                   "[aws.tags]\nteam = 'x'\nof = 'y'\n",
                   &v),
           "{\"cluster\":\"demo\",\"owner\":\"me\",\"expires\":\"2026-01-02T03:04:05Z\","
           "\"made\":\"m\",\"region\":\"us-east-1\",\"az\":\"us-east-1b\",\"nodes\":2,"
           "\"node_names\":[\"node0\",\"node1\"],\"bootstrap_host_keys\":[{\"private\":\"p "
           "\\\"0\\\"\\n\","
           "\"public\":\"k0\"},{\"private\":\"p1\",\"public\":\"k1\"}],"
           "\"instance_type\":\"g6.xlarge\",\"ami_id\":\"ami-12345678\",\"ami_ssm_parameter\":null,"
           "\"root_gb\":200,\"root_iops\":4000,\"root_throughput\":250,\"kms_key_id\":null,"
           "\"purchase\":\"spot\",\"spot_max_price\":\"1.2500\",\"capacity_reservation_id\":null,"
           "\"operator_cidrs\":[\"198.51.100.7/32\",\"2001::/32\"],\"allow_open_ssh\":true,"
           "\"vpc_id\":null,\"subnet_id\":null,\"vpc_cidr\":\"10.77.0.0/16\",\"egress\":\"open\","
           "\"efa\":\"auto\",\"placement_group\":\"auto\",\"placement_group_name\":null,"
           "\"outside_group\":true,\"public_address\":\"auto\",\"s3_bucket\":\"bucket\","
           "\"s3_prefix\":\"a/b\",\"instance_profile\":null,\"permissions_boundary\":null,"
           "\"ssh_user\":\"me\",\"ssh_public_key\":\"ssh-ed25519 AAAA\",\"ttl_s\":43200,"
           "\"idle_s\":3600,\"closed_metadata\":true,\"tags\":{\"team\":\"x\",\"of\":\"y\"},"
           "\"endpoints\":{\"ec2\":\"http://127.0.0.1:1\",\"iam\":\"http://127.0.0.1:1\","
           "\"ssm\":\"http://127.0.0.1:1\",\"sts\":\"http://127.0.0.1:1\"},\"skip_checks\":true}\n",
           "Terraform reads all variables");
}

static void test_none(void) {
    struct aws_vars v = few("on-demand");
    is_str(written("[aws]\ninstance_type = 'g6.xlarge'\nspot_max_price = 1.25\n", &v),
           "{\"cluster\":\"demo\",\"owner\":\"me\",\"expires\":null,\"made\":\"\","
           "\"region\":\"us-east-1\",\"az\":null,\"nodes\":0,\"node_names\":[],"
           "\"bootstrap_host_keys\":[],\"instance_type\":\"g6.xlarge\",\"ami_id\":null,"
           "\"ami_ssm_parameter\":null,\"root_gb\":100,\"root_iops\":null,"
           "\"root_throughput\":null,\"kms_key_id\":null,\"purchase\":\"on-demand\","
           "\"spot_max_price\":null,\"capacity_reservation_id\":null,\"operator_cidrs\":[],"
           "\"allow_open_ssh\":false,\"vpc_id\":null,\"subnet_id\":null,"
           "\"vpc_cidr\":\"10.77.0.0/16\",\"egress\":\"open\",\"efa\":\"auto\","
           "\"placement_group\":\"auto\",\"placement_group_name\":null,\"outside_group\":false,"
           "\"public_address\":\"auto\",\"s3_bucket\":null,\"s3_prefix\":null,"
           "\"instance_profile\":null,\"permissions_boundary\":null,\"ssh_user\":\"ubuntu\","
           "\"ssh_public_key\":\"ssh-ed25519 AAAA\",\"ttl_s\":0,\"idle_s\":0,"
           "\"closed_metadata\":null,\"tags\":{},\"endpoints\":{},\"skip_checks\":false}\n",
           "settings that were not given are the module's own");
    v.nodes = 1;
    v.names = (const char *[]){"node0"};
    has_str(written("", &v), "\"node_names\":[\"node0\"],\"bootstrap_host_keys\":[],",
            "nodes may have no keys");
}

// Ways to buy, with the settings that belong to each.
static void test_purchases(void) {
    static const struct {
        const char *purchase, *options, *words;
    } cases[] = {
        {"spot", "spot_max_price = 0.5\n", "\"spot_max_price\":\"0.5000\","},
        {"spot", "", "\"spot_max_price\":null,"},
        {"on-demand", "spot_max_price = 0.5\n", "\"spot_max_price\":null,"},
        {"reservation", "", "\"capacity_reservation_id\":\"cr-12345678\","},
        {"capacity-block", "", "\"capacity_reservation_id\":\"cr-12345678\","},
        {"on-demand", "", "\"capacity_reservation_id\":null,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct aws_vars v = few(cases[i].purchase);
        has_str(written(arena_printf(&a, "[aws]\ncapacity_reservation = 'cr-12345678'\n%s",
                                     cases[i].options),
                        &v),
                cases[i].words, "purchase %zu has its settings", i);
    }
}

static void test_settings(void) {
    static const struct {
        const char *options, *words;
    } cases[] = {
        {"placement_group_name = 'ours of 2026'\n", "\"placement_group_name\":\"ours of 2026\","},
        {"image = '/aws/x'\n", "\"ami_id\":null,\"ami_ssm_parameter\":\"/aws/x\","},
        {"closed_metadata = 'off'\n", "\"closed_metadata\":false,"},
        {"closed_metadata = 'auto'\n", "\"closed_metadata\":null,"},
        {"root_iops = 0\n", "\"root_iops\":null,"},
        {"root_iops = 1\n", "\"root_iops\":1,"},
        {"vpc = 'vpc-12345678'\nsubnet = 'subnet-12345678'\n",
         "\"vpc_id\":\"vpc-12345678\",\"subnet_id\":\"subnet-12345678\","},
        {"s3 = 's3://bucket'\n", "\"s3_bucket\":\"bucket\",\"s3_prefix\":null,"},
        {"s3 = 's3://bucket/'\n", "\"s3_bucket\":\"bucket\",\"s3_prefix\":null,"},
        {"s3 = 's3://bucket/a//'\n", "\"s3_bucket\":\"bucket\",\"s3_prefix\":\"a\","},
    };
    struct aws_vars v = few("on-demand");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        has_str(written(arena_printf(&a, "[aws]\n%s", cases[i].options), &v), cases[i].words,
                "setting %zu is a variable", i);
}

// ---- reading ------------------------------------------------------------------------------------

static int read_vars(const char *json, struct aws_vars *out) {
    return aws_vars_read(&a, json, strlen(json), out, &error);
}

static void test_read(void) {
    struct aws_vars v;
    is_int(read_vars("{}", &v), 0, "no variables are read: %s", error.text);
    is_str(arena_printf(&a, "%s|%s|%s|%s|%s|%s|%s|%s", v.cluster, v.owner, v.expires, v.made,
                        v.region, v.purchase, v.ssh_public_key, v.zone ? v.zone : "-"),
           "|||||||-", "absent variables are empty");
    ok(v.nodes == 0 && !v.keys && v.ttl_s == 0 && v.idle_s == 0 && !v.outside_group &&
           v.operator_cidr_count == 0,
       "absent numbers are zero");
    is_int(read_vars("{\"cluster\":\"c\",\"owner\":\"o\",\"expires\":\"e\",\"made\":\"m\","
                     "\"region\":\"r\",\"purchase\":\"p\",\"az\":\"z\",\"outside_group\":true,"
                     "\"ssh_public_key\":\"k\",\"ttl_s\":5,\"idle_s\":6,\"nodes\":9,"
                     "\"node_names\":[\"node0\",7],\"operator_cidrs\":[\"x\",\"y\",\"z\"],"
                     "\"bootstrap_host_keys\":[{\"private\":\"p0\",\"public\":\"k0\"},{}]}",
                     &v),
           0, "all variables are read: %s", error.text);
    is_str(arena_printf(&a, "%s|%s|%s|%s|%s|%s|%s|%s", v.cluster, v.owner, v.expires, v.made,
                        v.region, v.purchase, v.ssh_public_key, v.zone),
           "c|o|e|m|r|p|k|z", "each has its value");
    ok(v.outside_group && v.ttl_s == 5 && v.idle_s == 6, "numbers have their values");
    is_uint(v.nodes, 2, "nodes are those that have names");
    is_str(v.names[0], "node0", "the first name is read");
    is_str(v.names[1], "", "a name that is no text is empty");
    is_uint(v.operator_cidr_count, 3, "ranges are counted");
    is_str(v.operator_cidrs[2], "z", "ranges are read");
    is_str(v.keys[0].private_key, "p0", "private keys are read");
    is_str(v.keys[0].public_key, "k0", "public keys are read");
    is_str(v.keys[1].public_key, "", "absent keys are empty");
    static const char *const odd[] = {
        "{\"node_names\":[\"a\",\"b\"],\"bootstrap_host_keys\":[{}]}",
        "{\"node_names\":[],\"bootstrap_host_keys\":[]}",
        "{\"node_names\":[\"a\"],\"bootstrap_host_keys\":\"x\"}",
        "{\"node_names\":[\"a\"]}",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        is_int(read_vars(odd[i], &v), 0, "odd keys are read (%zu)", i);
        ok(!v.keys, "keys that fit no nodes are none (%zu)", i);
    }
    is_int(read_vars("{\"node_names\":\"ab\",\"operator_cidrs\":{\"a\":1}}", &v), 0,
           "lists may be something else");
    ok(v.nodes == 0 && v.operator_cidr_count == 0, "such lists are empty");
    is_int(read_vars("{", &v), -1, "a truncated file is refused");
}

static void test_limit(void) {
    struct aws_vars v;
    char *large = arena_new(&a, char, TERRAFORM_VARS_BYTES_MAX + 2);
    memset(large, ' ', TERRAFORM_VARS_BYTES_MAX + 1);
    memcpy(large, "{}", 2);
    is_int(aws_vars_read(&a, large, TERRAFORM_VARS_BYTES_MAX, &v, &error), 0,
           "large variables are read: %s", error.text);
    is_int(aws_vars_read(&a, large, TERRAFORM_VARS_BYTES_MAX + 1, &v, &error), -1,
           "larger variables are refused");
    is_str(error.text, "the variables are larger than 8 MiB", "the error has the limit");
}

static void test_options(void) {
    static const struct {
        const char *variable, *option;
    } cases[] = {
        {"ami_id", "aws.image"},
        {"az", "aws.zones"},
        {"capacity_reservation_id", "aws.capacity_reservation"},
        {"cluster", "cluster.name"},
        {"expires", "lease.ttl"},
        {"instance_type", "aws.instance_type"},
        {"nodes", "cluster.nodes"},
        {"purchase", "aws.fallback"},
        {"root_iops", "aws.root_iops"},
        {"s3_prefix", "aws.s3"},
        {"ttl_s", "lease.ttl"},
        {"vpc_id", "aws.vpc"},
        {"made", NULL},
        {"skip_checks", NULL},
        {"", NULL},
    };
    load("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(aws_vars_option(&config, cases[i].variable), cases[i].option,
               "variable %s has its option, or none", cases[i].variable);
}

// ---- the place of the state ---------------------------------------------------------------------

static const char *backend(const char *toml, const char *path) {
    load(toml);
    strbuf_clear(&text);
    aws_vars_backend(&text, &config.aws, "eu-west-1", "demo", path);
    return strbuf_cstr(&text);
}

static void test_backend(void) {
    static const struct {
        const char *path, *written;
    } paths[] = {
        {"/x", "/x"}, {"/${a}", "/$${a}"}, {"/%{a}", "/%%{a}"}, {"/$a", "/$a"},
        {"/%", "/%"}, {"/{", "/{"},        {"${${", "$${$${"},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        is_str(backend("", paths[i].path),
               arena_printf(&a, "{\"terraform\":{\"backend\":{\"local\":{\"path\":\"%s\"}}}}\n",
                            paths[i].written),
               "path %zu is no template", i);
    is_str(backend("[aws]\nstate = 's3://bucket/team'\n", "/x"),
           "{\"terraform\":{\"backend\":{\"s3\":{\"bucket\":\"bucket\","
           "\"key\":\"team/demo/terraform.tfstate\",\"region\":\"eu-west-1\",\"encrypt\":true,"
           "\"use_lockfile\":true}}}}\n",
           "a state in S3 is encrypted and locked");
    is_str(backend("[aws]\nstate = 's3://bucket'\nstate_region = 'us-west-2'\n"
                   "endpoint_url = 'http://127.0.0.1:1'\n",
                   "/x"),
           "{\"terraform\":{\"backend\":{\"s3\":{\"bucket\":\"bucket\","
           "\"key\":\"demo/terraform.tfstate\",\"region\":\"us-west-2\",\"encrypt\":true,"
           "\"use_lockfile\":true,\"endpoints\":{\"s3\":\"http://127.0.0.1:1\","
           "\"sts\":\"http://127.0.0.1:1\"},\"use_path_style\":true,"
           "\"skip_credentials_validation\":true,\"skip_metadata_api_check\":true,"
           "\"skip_region_validation\":true}}}}\n",
           "another server is not checked");
}

int main(void) {
    test_all();
    test_none();
    test_purchases();
    test_settings();
    test_read();
    test_limit();
    test_options();
    test_backend();
    strbuf_fini(&text);
    arena_fini(&a);
    return done_testing();
}
