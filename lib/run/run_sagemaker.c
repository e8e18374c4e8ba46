// SPDX-License-Identifier: Apache-2.0
// Hyperparameters, metrics and the entry point, as SageMaker hands them to a program.
#include "run/run_sagemaker.h"

#include "base/json.h"
#include "provider/provider.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

static const char *kept(struct arena *a, struct strbuf *text) {
    const char *copy = arena_strndup(a, strbuf_cstr(text), text->len);
    strbuf_fini(text);
    return copy;
}

// The value of a hyperparameter; NULL: a plain text.
static struct json *typed_value(struct arena *a, const char *text) {
    struct json *value = NULL;
    struct err ignored = {0};
    bool is_text =
        json_parse(a, text, strlen(text), &value, &ignored) < 0 || value->type == JSON_STR;
    return is_text ? NULL : value;
}

const char *run_sagemaker_values(struct arena *a, const struct option_map *hp) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    for (size_t i = 0; i < hp->count; i++) {
        struct json *value = typed_value(a, hp->items[i].value);
        if (value) {
            value->key = hp->items[i].name;
            json_value(&j, value);
        } else {
            json_str(&j, hp->items[i].name, hp->items[i].value);
        }
    }
    json_end(&j);
    return kept(a, &text);
}

// hyperparameters.json: all values are texts.
static const char *as_texts(struct arena *a, const struct option_map *hp) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    for (size_t i = 0; i < hp->count; i++)
        json_str(&j, hp->items[i].name, hp->items[i].value);
    json_end(&j);
    return kept(a, &text);
}

static int compare_names(const void *a, const void *b) {
    const struct option_pair *x = a, *y = b;
    return strcmp(x->name, y->name);
}

// SM_USER_ARGS, as the toolkit makes it with Python: --name value, by name.
static const char *as_arguments(struct arena *a, const struct option_map *hp) {
    struct option_pair *sorted = arena_new(a, struct option_pair, hp->count + 1);
    struct strbuf text = {0};
    struct json_out j;
    for (size_t i = 0; i < hp->count; i++)
        sorted[i] = hp->items[i];
    qsort(sorted, hp->count, sizeof *sorted, compare_names);
    json_open(&j, &text);
    json_array(&j, NULL);
    for (size_t i = 0; i < hp->count; i++) {
        const char *name = sorted[i].name, *value = sorted[i].value;
        const struct json *typed = typed_value(a, value);
        struct strbuf number = {0};
        struct json_out n;
        json_open(&n, &number);
        json_str(&j, NULL, arena_printf(a, name[1] ? "--%s" : "-%s", name));
        if (typed && typed->type == JSON_BOOL)
            value = typed->boolean ? "True" : "False";
        else if (typed && typed->type == JSON_NUM)
            json_num(&n, NULL, typed->number), value = strbuf_cstr(&number);
        json_str(&j, NULL, value);
        strbuf_fini(&number);
    }
    json_end(&j);
    return kept(a, &text);
}

static const char *metric_definitions(struct arena *a, const struct option_map *metrics) {
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_array(&j, NULL);
    for (size_t i = 0; i < metrics->count; i++) {
        json_object(&j, NULL);
        json_str(&j, "Name", metrics->items[i].name);
        json_str(&j, "Regex", metrics->items[i].value);
        json_end(&j);
    }
    json_end(&j);
    return kept(a, &text);
}

// The script of the command. The user's SAGEMAKER_PROGRAM goes before it.
static const char *entry_point(const struct run_start *l) {
    const struct option_map *env = &l->context->config->env;
    for (size_t i = 0; i < env->count; i++)
        if (strcmp(env->items[i].name, "SAGEMAKER_PROGRAM") == 0)
            return env->items[i].value;
    for (size_t i = 0; i < l->run.command_count; i++) {
        const char *word = l->run.command[i];
        if ((str_ends(word, ".py") || str_ends(word, ".sh")) && !strpbrk(word, " ;|&$"))
            return str_starts(word, "./") ? word + 2 : word;
    }
    return file_base(l->run.command[0]);
}

void run_sagemaker_fill(struct run_start *l) {
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    const struct option_map *hp = &c->hyperparameters;
    const char *type = l->inventory.nodes[l->indices[0]].instance_type;
    bool on_aws = type && type[0];
    const struct job_pair pairs[] = {
        {"hyperparameters", as_texts(a, hp)},
        {"hps", run_sagemaker_values(a, hp)},
        {"user_args", as_arguments(a, hp)},
        {"metrics", metric_definitions(a, &c->metrics)},
        {"entry_point", entry_point(l)},
        {"instance_type", on_aws ? type : "local"},
        {"region", on_aws ? provider_account(c).region : ""},
    };
    if (!c->compat_sagemaker)
        return;
    l->spec.sagemaker = arena_memdup(a, pairs, sizeof pairs);
    l->spec.sagemaker_count = sizeof pairs / sizeof *pairs;
}
