// SPDX-License-Identifier: Apache-2.0
// Reads and writes the variables of infra/variables.tf.
#include "aws/aws_tfvars.h"

#include "base/json.h"
#include "terraform/terraform.h"

#include <stdio.h>
#include <string.h>

static const char *or_null(const char *text) {
    return text && *text ? text : NULL;
}

static void number_or_null(struct json_out *j, const char *key, int64_t value) {
    if (value > 0)
        json_int(j, key, value);
    else
        json_null(j, key);
}

void aws_vars_split_s3(struct arena *a, const char *url, const char **bucket, const char **folder) {
    const char *at = url + strlen("s3://");
    size_t len = strcspn(at, "/");
    *bucket = arena_strndup(a, at, len);
    at += len + (at[len] == '/');
    len = strlen(at);
    while (len && at[len - 1] == '/')
        len--;
    *folder = arena_strndup(a, at, len);
}

static void write_nodes(struct json_out *j, const struct aws_vars *v) {
    json_int(j, "nodes", (int64_t)v->nodes);
    json_array(j, "node_names");
    for (size_t i = 0; i < v->nodes; i++)
        json_str(j, NULL, v->names[i]);
    json_end(j);
    json_array(j, "bootstrap_host_keys");
    for (size_t i = 0; v->keys && i < v->nodes; i++) {
        json_object(j, NULL);
        json_str(j, "private", v->keys[i].private_key);
        json_str(j, "public", v->keys[i].public_key);
        json_end(j);
    }
    json_end(j);
}

static void write_purchase(struct json_out *j, const struct aws_config *c,
                           const struct aws_vars *v) {
    char price[32];
    bool spot = strcmp(v->purchase, "spot") == 0;
    bool reserved =
        strcmp(v->purchase, "reservation") == 0 || strcmp(v->purchase, "capacity-block") == 0;
    snprintf(price, sizeof price, "%.4f", c->spot_max_price);
    json_str(j, "purchase", v->purchase);
    json_str(j, "spot_max_price", spot && c->spot_max_price > 0 ? price : NULL);
    json_str(j, "capacity_reservation_id", reserved ? or_null(c->capacity_reservation) : NULL);
}

static void write_network(struct json_out *j, const struct aws_config *c,
                          const struct aws_vars *v) {
    json_array(j, "operator_cidrs");
    for (size_t i = 0; i < v->operator_cidr_count; i++)
        json_str(j, NULL, v->operator_cidrs[i]);
    json_end(j);
    json_bool(j, "allow_open_ssh", c->allow_open_ssh);
    json_str(j, "vpc_id", or_null(c->vpc));
    json_str(j, "subnet_id", or_null(c->subnet));
    json_str(j, "vpc_cidr", c->vpc_cidr);
    json_str(j, "egress", aws_config_egress[c->egress]);
    json_str(j, "efa", aws_config_efa[c->efa]);
    json_str(j, "placement_group", aws_config_placement[c->placement_group]);
    json_str(j, "placement_group_name", or_null(c->placement_group_name));
    json_bool(j, "outside_group", v->outside_group);
    json_str(j, "public_address", aws_config_address[c->public_address]);
}

static void write_access(struct json_out *j, const struct aws_config *c) {
    struct arena a = {0};
    const char *bucket = NULL, *folder = NULL;
    if (c->s3[0])
        aws_vars_split_s3(&a, c->s3, &bucket, &folder);
    json_str(j, "s3_bucket", bucket);
    json_str(j, "s3_prefix", or_null(folder));
    json_str(j, "instance_profile", or_null(c->instance_profile));
    json_str(j, "permissions_boundary", or_null(c->permissions_boundary));
    arena_fini(&a);
}

static void write_image(struct json_out *j, const struct aws_config *c) {
    bool is_id = strncmp(c->image, "ami-", 4) == 0;
    json_str(j, "instance_type", c->instance_type);
    json_str(j, "ami_id", is_id ? c->image : NULL);
    json_str(j, "ami_ssm_parameter", is_id ? NULL : or_null(c->image));
    json_int(j, "root_gb", c->root_gb);
    number_or_null(j, "root_iops", c->root_iops);
    number_or_null(j, "root_throughput", c->root_throughput);
    json_str(j, "kms_key_id", or_null(c->kms_key));
}

static void write_api(struct json_out *j, const struct aws_config *c) {
    static const char *const services[] = {"ec2", "iam", "ssm", "sts"};
    json_object(j, "endpoints");
    for (size_t i = 0; c->endpoint_url[0] && i < sizeof services / sizeof services[0]; i++)
        json_str(j, services[i], c->endpoint_url);
    json_end(j);
    json_bool(j, "skip_checks", c->endpoint_url[0] != 0); // the checks would contact AWS itself
}

void aws_vars_write(struct strbuf *out, const struct aws_config *c, const struct aws_vars *v) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "cluster", v->cluster);
    json_str(&j, "owner", v->owner);
    json_str(&j, "expires", v->expires);
    json_str(&j, "made", v->made ? v->made : "");
    json_str(&j, "region", v->region);
    json_str(&j, "az", v->zone);
    write_nodes(&j, v);
    write_image(&j, c);
    write_purchase(&j, c, v);
    write_network(&j, c, v);
    write_access(&j, c);
    json_str(&j, "ssh_user", c->ssh_user);
    json_str(&j, "ssh_public_key", v->ssh_public_key);
    json_int(&j, "ttl_s", v->ttl_s);
    json_int(&j, "idle_s", v->idle_s);
    if (c->closed_metadata == AWS_CONFIG_METADATA_AUTO)
        json_null(&j, "closed_metadata");
    else
        json_bool(&j, "closed_metadata", c->closed_metadata == AWS_CONFIG_METADATA_ON);
    json_object(&j, "tags");
    for (size_t i = 0; i < c->tags.count; i++)
        json_str(&j, c->tags.items[i].name, c->tags.items[i].value);
    json_end(&j);
    write_api(&j, c);
    json_end(&j);
    strbuf_addc(out, '\n');
}

// Variables that are not called as their options.
static const struct {
    const char *variable, *option;
} RENAMED[] = {
    {"ami_id", "aws.image"},     {"ami_ssm_parameter", "aws.image"},
    {"az", "aws.zones"},         {"capacity_reservation_id", "aws.capacity_reservation"},
    {"cluster", "cluster.name"}, {"expires", "lease.ttl"},
    {"idle_s", "lease.idle"},    {"kms_key_id", "aws.kms_key"},
    {"nodes", "cluster.nodes"},  {"purchase", "aws.fallback"},
    {"s3_bucket", "aws.s3"},     {"s3_prefix", "aws.s3"},
    {"subnet_id", "aws.subnet"}, {"ttl_s", "lease.ttl"},
    {"vpc_id", "aws.vpc"},
};

const char *aws_vars_option(const struct config *c, const char *variable) {
    for (size_t i = 0; i < sizeof RENAMED / sizeof RENAMED[0]; i++)
        if (strcmp(RENAMED[i].variable, variable) == 0)
            return RENAMED[i].option;
    const char *same = arena_printf(c->set.arena, "aws.%s", variable);
    return option_find(&c->set, same, NULL) ? same : NULL;
}

// ---- reading ------------------------------------------------------------------------------------

static size_t elements(const struct json *v) {
    return v && v->type == JSON_ARRAY ? v->len : 0;
}

static const char **read_list(struct arena *a, const struct json *v, size_t *count) {
    const char **items = arena_new(a, const char *, elements(v) + 1);
    *count = 0;
    for (const struct json *i = elements(v) ? v->child : NULL; i; i = i->next)
        items[(*count)++] = i->type == JSON_STR ? i->str : "";
    return items;
}

int aws_vars_read(struct arena *a, const char *text, size_t len, struct aws_vars *out,
                  struct err *e) {
    struct json *j = NULL;
    *out = (struct aws_vars){0};
    if (len > TERRAFORM_VARS_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the variables are larger than %d MiB",
                       TERRAFORM_VARS_BYTES_MAX >> 20);
    if (json_parse(a, text, len, &j, e) < 0)
        return -1;
    out->cluster = json_get_str(j, "cluster", "");
    out->owner = json_get_str(j, "owner", "");
    out->expires = json_get_str(j, "expires", "");
    out->made = json_get_str(j, "made", "");
    out->region = json_get_str(j, "region", "");
    out->purchase = json_get_str(j, "purchase", "");
    out->zone = json_get_str(j, "az", NULL);
    out->outside_group = json_get_bool(j, "outside_group", false);
    out->ssh_public_key = json_get_str(j, "ssh_public_key", "");
    out->ttl_s = json_get_int(j, "ttl_s", 0);
    out->idle_s = json_get_int(j, "idle_s", 0);
    out->names = read_list(a, json_get(j, "node_names"), &out->nodes);
    out->operator_cidrs = read_list(a, json_get(j, "operator_cidrs"), &out->operator_cidr_count);
    const struct json *keys = json_get(j, "bootstrap_host_keys");
    if (elements(keys) == out->nodes && out->nodes) {
        struct aws_vars_key *key = out->keys = arena_new(a, struct aws_vars_key, out->nodes);
        for (const struct json *i = keys->child; i; i = i->next, key++)
            *key = (struct aws_vars_key){json_get_str(i, "private", ""),
                                         json_get_str(i, "public", "")};
    }
    return 0;
}

// ---- backend ------------------------------------------------------------------------------------

// Escapes a string for a .tf.json file, where "${" and "%{" begin a template: the first character
// is doubled.
static const char *plain(struct arena *a, const char *text) {
    char *out = arena_new(a, char, 2 * strlen(text) + 1);
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if ((p[0] == '$' || p[0] == '%') && p[1] == '{')
            out[n++] = *p;
        out[n++] = *p;
    }
    return out;
}

static void write_s3(struct json_out *j, const struct aws_config *c, const char *region,
                     const char *cluster) {
    struct arena a = {0};
    const char *bucket, *folder;
    aws_vars_split_s3(&a, c->state, &bucket, &folder);
    json_object(j, "s3");
    json_str(j, "bucket", plain(&a, bucket));
    json_str(j, "key",
             plain(&a, arena_printf(&a, "%s%s%s/terraform.tfstate", folder, *folder ? "/" : "",
                                    cluster)));
    json_str(j, "region", plain(&a, c->state_region[0] ? c->state_region : region));
    json_bool(j, "encrypt", true);
    json_bool(j, "use_lockfile", true);
    if (c->endpoint_url[0]) {
        json_object(j, "endpoints");
        json_str(j, "s3", plain(&a, c->endpoint_url));
        json_str(j, "sts", plain(&a, c->endpoint_url));
        json_end(j);
        json_bool(j, "use_path_style", true);
        json_bool(j, "skip_credentials_validation", true);
        json_bool(j, "skip_metadata_api_check", true);
        json_bool(j, "skip_region_validation", true);
    }
    json_end(j);
    arena_fini(&a);
}

void aws_vars_backend(struct strbuf *out, const struct aws_config *c, const char *region,
                      const char *cluster, const char *path) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_object(&j, "terraform");
    json_object(&j, "backend");
    if (c->state[0]) {
        write_s3(&j, c, region, cluster);
    } else {
        json_object(&j, "local");
        struct arena a = {0};
        json_str(&j, "path", plain(&a, path));
        arena_fini(&a);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    json_end(&j);
    strbuf_addc(out, '\n');
}
