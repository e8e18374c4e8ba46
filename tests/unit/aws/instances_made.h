// SPDX-License-Identifier: Apache-2.0
// Instances are made by a script in place of Terraform, and the rows of `up` are a list of calls.
//
//     start("zones = ['us-east-1d']\n", 0); says(1, FULL, 1); make();
#ifndef DTCTL_TESTS_UNIT_AWS_INSTANCES_MADE_H
#define DTCTL_TESTS_UNIT_AWS_INSTANCES_MADE_H

#include "tests/unit/aws/boot_rows.h"
#include "tests/unit/aws/cluster_fake.h"

#define UP      "infra: " COMMON " -lock-timeout=0s"
#define NEW     UP " -var=new_cluster=true\n"
#define AGAIN   UP " -refresh=false\n"
#define UNDO    UP " -destroy -refresh=false\n"
#define OPTIONS "operator_cidrs = ['198.51.100.7/32']\n"
#define LOG     ".dtctl/c/terraform/terraform.log"

static struct boot_progress phases;
static struct boot_progress_node progress_nodes[2];
static struct inventory before, now;
static struct inventory_node old_nodes[2];

// ---- texts of Terraform ------------------------------------------------------------------------

#define NODE(n, more)                                                                              \
    "[[node]]\\nroot = \\\".dtctl\\\"\\naddress = \\\"10.0.0." n "\\\"\\nname = \\\"node" n        \
    "\\\"\\ntransport = \\\"ssh\\\"\\nhost = \\\"198.51.100." n                                    \
    "\\\"\\ninstance_id = \\\"i-" n more "\\\"\\n"
#define MADE_OF(nodes, facts)                                                                      \
    "{\"type\":\"outputs\",\"outputs\":{\"inventory\":{\"value\":\"format = 1\\nname = "           \
    "\\\"c\\\"\\nprovider = \\\"aws\\\"\\n" nodes "\"}" facts "}}\n"
#define MADE MADE_OF(NODE("0", "") NODE("1", ""), "")
#define HOOK(kind, type, index, action)                                                            \
    "{\"type\":\"" kind "\",\"hook\":{\"resource\":{\"addr\":\"x\",\"resource_type\":\"" type      \
    "\",\"resource_key\":" index "},\"action\":\"" action "\"}}\n"
#define REFUSED(detail)                                                                            \
    "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\",\"summary\":\"creating EC2 "  \
    "Instance\",\"detail\":\"" detail "\"}}\n"
#define FULL REFUSED("api error InsufficientInstanceCapacity: none")

#define RESOURCE(mode, type, attributes)                                                           \
    "{\"mode\":\"" mode "\",\"type\":\"" type                                                      \
    "\",\"name\":\"x\",\"instances\":[{\"attributes\":{" attributes "}}]}"
#define STATE(resources) "{\"version\":4,\"resources\":[" resources "]}"
#define OFFERINGS        "aws_ec2_instance_type_offerings"
#define ZONES                                                                                      \
    RESOURCE("managed", "aws_subnet", "\"id\":\"s\",\"availability_zone\":\"us-east-1a\"")         \
    "," RESOURCE("data", OFFERINGS, "\"id\":\"n\"") "," RESOURCE(                                  \
        "data", "aws_other",                                                                       \
        "\"id\":\"o\",\"locations\":[\"us-east-1f\"]") "," RESOURCE("data",                        \
                                                                    "aws_ec2_instance_type_"       \
                                                                    "offerings",                   \
                                                                    "\"id\":\"o\",\"locations\":[" \
                                                                    "\"us-east-1a\",7,\"us-east-"  \
                                                                    "1b\",\"us-east-1-atl-1a\"]")

static void fill(size_t nodes) {
    cluster.vars.cluster = "c";
    cluster.vars.owner = "me";
    cluster.vars.region = "us-east-1";
    cluster.vars.purchase = "on-demand";
    cluster.vars.ssh_public_key = "ssh-ed25519 AAAA";
    cluster.vars.zone = cluster.vars.expires = NULL;
    cluster.vars.outside_group = false;
    if (aws_cluster_fill(&cluster, nodes, &before, &error) < 0)
        bail_out("%s", error.text);
}

// A cluster with no nodes, or with so many.
TAP_UNUSED static void start(const char *options, size_t nodes) {
    load(arena_printf(&a, "[aws]\n" OPTIONS "%s", options));
    begin();
    unlink(fake_in("apply-1"));
    fake_terraform_says("state-infra", "", 0);
    for (int i = 1; i <= 5; i++)
        fake_terraform_says(arena_printf(&a, "apply-%d", i), "", 9); // no more are expected
    unlink(cluster.terraform.vars_path);
    terraform_set_clean(&cluster.terraform);
    strbuf_clear(&boot_rows);
    for (size_t i = 0; i < 2; i++) {
        old_nodes[i] = (struct inventory_node){.name = i ? "node1" : "node0",
                                               .instance_id = i ? "i-1" : "i-0",
                                               .launched = "2026-01-02T03:04:05.678Z"};
        for (int k = 0; k < PHASE_COUNT; k++)
            progress_nodes[i].at_ms[k] = -1;
    }
    before = (struct inventory){
        .name = "c", .created = "2026-01-01T00:00:00.000Z", .nodes = old_nodes, .count = nodes};
    phases = (struct boot_progress){.nodes = progress_nodes, .count = 2};
    now = (struct inventory){0};
    cluster.has_before = nodes > 0;
    cluster.before = (struct aws_vars){.region = nodes ? "us-east-1" : "",
                                       .purchase = "spot",
                                       .zone = "us-east-1c",
                                       .made = "m",
                                       .outside_group = nodes > 0};
    fill(2);
}

TAP_UNUSED static void says(int number, const char *text, int status) {
    fake_terraform_says(arena_printf(&a, "apply-%d", number), text, status);
}

TAP_UNUSED static int make(void) {
    return aws_make_nodes(&cluster, &phases, &before, &now, &error);
}

TAP_UNUSED static const char *log_path(void) {
    return fake_in(LOG);
}

TAP_UNUSED static bool has_vars(void) {
    return !file_is_absent(cluster.terraform.vars_path);
}

// "zone purchase" of an attempt, and whether it is outside of the group.
TAP_UNUSED static const char *tried(int number) {
    return arena_printf(&a, "%s %s%s", variable(number, "az"), variable(number, "purchase"),
                        str_eq(variable(number, "outside_group"), "true") ? " outside" : "");
}

#endif
