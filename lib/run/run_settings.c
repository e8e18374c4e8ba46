// SPDX-License-Identifier: Apache-2.0
// Settings of a run that its record keeps, so that runs can be compared later.
#include "run/run_start.h"

#include "conf/render.h"
#include "conf/train_config.h"

#include <string.h>

#if __has_include("build_info.h")
#include "build_info.h"
#endif
#ifndef DTCTL_VERSION
#define DTCTL_VERSION "unknown"
#endif

enum { DIGITS = 16 }; // of a digest

static const char *digest_of(const struct run_start *l, const char *name, const char *value) {
    struct hash h;
    unsigned char digest[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    hash_init(&h);
    hash_add(&h, l->digest_key, sizeof l->digest_key);
    hash_add(&h, name, strlen(name) + 1);
    hash_add(&h, value, strlen(value));
    hash_final(&h, digest);
    hash_hex(hex, digest);
    return arena_strndup(l->context->arena, hex, DIGITS);
}

static struct option_map digests_of(const struct run_start *l, const struct option_map *env) {
    struct arena *a = l->context->arena;
    struct option_map out = {.items = arena_new(a, struct option_pair, env->count + 1)};
    for (size_t i = 0; i < env->count; i++)
        out.items[out.count++] = (struct option_pair){
            env->items[i].name, digest_of(l, env->items[i].name, env->items[i].value)};
    return out;
}

static struct option_map hyperparameters_of(struct arena *a, const struct option_map *hp) {
    struct option_map out = {.items = arena_new(a, struct option_pair, hp->count + 1)};
    for (size_t i = 0; i < hp->count; i++)
        out.items[out.count++] = (struct option_pair){
            arena_printf(a, "hyperparameters.%s", hp->items[i].name), hp->items[i].value};
    return out;
}

// The distinct types of the nodes' instances, in the order of the nodes.
static const char *types_of(struct arena *a, const struct run_start *l) {
    const char *out = "", **seen = arena_new(a, const char *, l->node_count + 1);
    size_t count = 0;
    for (size_t i = 0; i < l->node_count; i++) {
        const char *type = l->inventory.nodes[l->indices[i]].instance_type;
        size_t k = 0;
        while (k < count && !str_eq(seen[k], type))
            k++;
        if (k < count || !type || !type[0])
            continue;
        seen[count++] = type;
        out = arena_printf(a, "%s%s%s", out, *out ? "," : "", type);
    }
    return out;
}

void run_start_settings(struct run_start *l) {
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    struct run *r = &l->run;
    r->version = DTCTL_VERSION;
    r->types = types_of(a, l);
    r->settings = l->native ? render_map(a, &c->set, train_tables)
                            : hyperparameters_of(a, &c->hyperparameters);
    r->env = digests_of(l, &c->env);
}
