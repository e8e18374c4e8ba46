// SPDX-License-Identifier: Apache-2.0
// A cluster of provider aws whose Terraform is a script.
#ifndef DTCTL_TESTS_UNIT_AWS_CLUSTER_FAKE_H
#define DTCTL_TESTS_UNIT_AWS_CLUSTER_FAKE_H

#include "aws/aws_cluster.h"
#include "tests/unit/said.h"
#include "tests/unit/terraform_fake.h"

static struct arena a;
static struct screen screen;
static struct config config;
static struct context context;
static struct aws_cluster cluster;
static struct aws_gone gone;
static struct aws_found found;
static struct err error;

#define COMMON "apply -json -auto-approve -input=false -parallelism=30"
#define APPLY  "sweep: " COMMON

static void load(const char *toml) {
    struct err e = {0};
    config_open(&config, &a, "dtctl", context.env);
    option_set_file(&config.set, "t.toml", toml, strlen(toml));
    if (option_set_finish(&config.set, &e) < 0)
        bail_out("%s", e.text);
}

static void begin(void) {
    fake_terraform_begin();
    said_clear();
    err_clear(&error);
    gone = cluster.gone = (struct aws_gone){0};
    found = (struct aws_found){0};
    context.interrupt = 0;
}

TAP_UNUSED static const char *outputs(const char *items) {
    return arena_printf(
        &a, "{\"type\":\"outputs\",\"outputs\":{\"found\":{\"sensitive\":false,\"value\":[%s]}}}\n",
        items);
}

TAP_UNUSED static const char *problem(const char *summary, const char *detail) {
    return arena_printf(&a,
                        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"error\","
                        "\"summary\":\"%s\",\"detail\":\"%s\"}}\n",
                        summary, detail);
}

// A member of the variables of an apply, as text.
TAP_UNUSED static const char *variable(int number, const char *name) {
    const char *text = fake_text(arena_printf(&a, "vars-%d", number));
    struct json *j = NULL;
    struct err e = {0};
    if (!text || json_parse(&a, text, strlen(text), &j, &e) < 0)
        bail_out("no variables %d: %s", number, e.text);
    const struct json *v = json_get(j, name);
    if (!v)
        return "absent";
    if (v->type == JSON_STR)
        return v->str;
    if (v->type == JSON_BOOL)
        return json_get_bool(j, name, false) ? "true" : "false";
    if (v->type == JSON_NULL)
        return "null";
    char *all = arena_strdup(&a, "");
    for (const struct json *i = v->child; i; i = i->next)
        all = arena_printf(&a, "%s%s%s%s%s", all, *all ? " " : "", i->key ? i->key : "",
                           i->key ? "=" : "", i->str);
    return all;
}

TAP_UNUSED static const char *ids(const struct aws_gone *g) {
    char *all = arena_strdup(&a, "");
    for (size_t i = 0; i < g->count; i++)
        all = arena_printf(&a, "%s%s%s", all, i ? " " : "", g->ids[i]);
    return all;
}

static void open_all(void) {
    clock_stop();
    context.arena = &a;
    context.config = &config;
    context.screen = &screen;
    said_open(&screen);
    fake_terraform_open(&context, &cluster.terraform);
    cluster.terraform.cloud = &aws_terraform;
    cluster.context = &context;
    cluster.vars.region = "eu-west-1";
    load("[aws]\nowner = 'me'\n");
}

static void close_all(void) {
    said_close(&screen);
    fake_terraform_close(&context);
    arena_fini(&a);
}

#endif
