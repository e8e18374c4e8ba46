// SPDX-License-Identifier: Apache-2.0
// Finds the files of the inputs and deals sharded ones to the nodes.
#include "run/inputs/input_add.h"

#include "content/deal.h"
#include "content/extract.h"
#include "fleet/hashing.h"
#include "run/inputs/input_elastic.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_from_run.h"
#include "run/inputs/input_keep.h"
#include "run/inputs/input_lists.h"
#include "run/inputs/input_look.h"
#include "run/inputs/input_remote.h"
#include "run/inputs/input_samples.h"
#include "run/inputs/input_stream.h"
#include "run/inputs/input_warn.h"
#include "sys/file.h"

#include <string.h>
#include <sys/stat.h>

enum { DIGEST_DIGITS = 16 };

// ---- the deal -----------------------------------------------------------------------------------

static int copy_entry(struct manifest *to, struct arena *a, const struct manifest_entry *entry,
                      const char *below, struct err *e) {
    struct manifest_entry copy = *entry;
    copy.path = arena_printf(a, "%s/%s", below, entry->path);
    return manifest_append(to, &copy, e);
}

// Adds an entry of the input to what a node gets.
static int give(struct run_start *l, struct run_start_input *in, size_t node,
                const struct manifest_entry *entry, struct err *e) {
    struct arena *a = l->context->arena;
    if (in->held)
        return copy_entry(input_keep_shard(l, node), a, entry, in->path, e);
    if (config_input_is_streamed(in->config))
        return input_stream_add(l, node, in, entry, e);
    if (in->remote && !in->share) // every node gets it
        return node ? 0
                    : input_fanout_add(l, in->remote, entry,
                                       arena_printf(a, "%s/%s", in->path, entry->path), e);
    return in->remote ? input_remote_add(l, node, in->remote, entry,
                                         arena_printf(a, "%s/%s", in->path, entry->path), e)
                      : copy_entry(l->shards[node], a, entry, in->path, e);
}

static void count_file(struct run_start_share *share, const struct manifest_entry *entry,
                       uint64_t bytes) {
    if (share->files < RUN_START_NAMES_MAX)
        share->names[share->files] = entry->path;
    share->files++;
    share->bytes += bytes;
    struct hash h;
    hash_init(&h);
    hash_add(&h, share->digest, sizeof share->digest);
    hash_add(&h, entry->path, strlen(entry->path) + 1);
    if (entry->kind == MANIFEST_LINK)
        hash_add(&h, entry->target, strlen(entry->target));
    else
        hash_add(&h, entry->hash, sizeof entry->hash);
    hash_final(&h, share->digest);
}

struct deal_rule input_add_rule(const struct run_start_input *in) {
    struct deal_rule rule = {
        .what = in->config->unit == CONFIG_UNIT_SAMPLE ? "samples" : "files",
        .shard = (enum deal_shard)config_input_shard(in->config), // input_elastic.c compares them
        .uneven = (enum deal_uneven)in->config->uneven,
    };
    rule.shuffled = config_input_seed(in->config, &rule.seed);
    return rule;
}

static int give_folder(struct run_start *l, struct run_start_input *in, size_t node,
                       const struct manifest_entry *entry, struct err *e) {
    struct manifest *to = in->held ? input_keep_shard(l, node) : l->shards[node];
    return copy_entry(to, l->context->arena, entry, in->path, e);
}

// Gives a node all folders, its files, and the indices of shards, which are no part of the deal
// unless the input is elastic.
static int give_share(struct run_start *l, struct run_start_input *in, size_t node,
                      const size_t *entries, const struct deal_share *share, struct err *e) {
    const struct manifest *m = in->manifest;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->count; i++) {
        const struct manifest_entry *entry = &m->entries[i];
        if (entry->kind == MANIFEST_FOLDER && config_input_is_streamed(in->config))
            continue;
        if (entry->kind == MANIFEST_FOLDER)
            rc = in->elastic ? input_elastic_add(l, in, node, i, e)
                             : give_folder(l, in, node, entry, e);
        else if (!in->elastic && input_stream_is_index(entry))
            rc = give(l, in, node, entry, e);
    }
    for (size_t i = 0; rc == 0 && i < share->count; i++) {
        size_t at = entries[share->items[i]];
        rc = in->elastic ? input_elastic_add(l, in, node, at, e)
                         : give(l, in, node, &m->entries[at], e);
        count_file(&in->share[node], &m->entries[at], m->entries[at].size);
    }
    return rc;
}

// Files and links are the items. Spare nodes have no share.
static int deal_files(struct run_start *l, struct run_start_input *in, struct err *e) {
    struct arena *a = l->context->arena;
    size_t nodes = in->elastic ? (size_t)l->run.nodes_max : l->node_count;
    struct deal_item *items;
    size_t *entries;
    size_t count =
        deal_items(a, in->manifest, in->elastic ? NULL : input_stream_is_index, &items, &entries);
    struct deal_share *deal = arena_new(a, struct deal_share, nodes);
    struct deal_rule rule = input_add_rule(in);
    if (in->elastic && input_elastic_check_deal(l, in, items, count, &rule, e) < 0)
        return -1;
    if (deal_out(a, items, count, &rule, deal, nodes, e) < 0)
        return err_wrap(e, "'%s'", in->source);
    for (size_t n = 0; n < nodes; n++)
        if (give_share(l, in, n, entries, &deal[n], e) < 0)
            return -1;
    return 0;
}

// Counts what a node gets, without writing it.
static void count_samples(struct run_start *l, struct run_start_input *in, size_t node,
                          const struct input_samples *s, const struct deal_share *deal) {
    struct arena *a = l->context->arena;
    uint64_t *bytes = arena_new(a, uint64_t, in->manifest->count);
    for (size_t i = 0; i < deal->count; i++)
        bytes[s->samples[deal->items[i]].entry] += s->samples[deal->items[i]].bytes;
    for (size_t i = 0; i < in->manifest->count; i++)
        if (bytes[i])
            count_file(&in->share[node], &in->manifest->entries[i], bytes[i]);
    in->share[node].samples = deal->count;
}

// A node gets an archive of its samples for each archive that has any, and all other files.
static int deal_samples(struct run_start *l, struct run_start_input *in, struct err *e) {
    struct arena *a = l->context->arena;
    const struct manifest *m = in->manifest;
    struct input_samples s = {0};
    struct deal_share *deal = arena_new(a, struct deal_share, l->node_count);
    struct deal_rule rule = input_add_rule(in);
    int result = input_samples_index(&s, a, m, e);
    if (result == 0 && !l->context->config->dry_run)
        result = input_parts_open(&l->parts, &l->context->cluster, l->run.id, e);
    if (result == 0)
        result = deal_out(a, s.items, s.count, &rule, deal, l->node_count, e);
    if (result < 0)
        err_wrap(e, "'%s'", in->source);
    in->samples = s.count;
    for (size_t n = 0; result == 0 && n < l->node_count; n++) {
        const char *dir = arena_printf(a, "%s/%s/%zu", l->parts.dir, in->name, n);
        count_samples(l, in, n, &s, &deal[n]);
        if (!l->context->config->dry_run)
            result =
                input_samples_write(l->context, &s, m, &deal[n], dir, in->path, l->shards[n], e);
        for (size_t i = 0; result == 0 && i < m->count; i++) {
            const struct manifest_entry *entry = &m->entries[i];
            if (input_samples_is_archive(entry))
                continue;
            result = copy_entry(l->shards[n], a, entry, in->path, e);
            if (entry->kind != MANIFEST_FOLDER)
                count_file(&in->share[n], entry, entry->size);
        }
    }
    input_samples_free(&s);
    return result;
}

// ---- one input ----------------------------------------------------------------------------------

// The path on the nodes contains the hash of the content, so that the next run can reuse it. That
// of a sharded input also depends on the rule and on the order of the nodes: a folder never has
// shares of two deals. A share of an elastic input has a folder of its own.
static const char *node_path(const struct run_start *l, const struct run_start_input *in) {
    struct arena *a = l->context->arena;
    const struct config_input *c = in->config;
    unsigned char digest[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    memcpy(digest, in->digest, sizeof digest);
    if (in->share) {
        const char *rule =
            arena_printf(a, "%d %d %d %s", config_input_shard(c), c->unit, c->uneven, c->order);
        struct hash h;
        hash_init(&h);
        hash_add(&h, digest, sizeof digest);
        hash_add(&h, rule, strlen(rule) + 1);
        for (size_t n = 0; n < l->node_count && !in->elastic; n++)
            hash_add(&h, l->run.nodes[n], strlen(l->run.nodes[n]) + 1);
        hash_final(&h, digest);
    }
    hash_hex(hex, digest);
    return in->share && !in->elastic
               ? arena_printf(a, "inputs/%s-%.*s-of%zu", in->name, DIGEST_DIGITS, hex,
                              l->node_count)
               : arena_printf(a, "inputs/%s-%.*s", in->name, DIGEST_DIGITS, hex);
}

static int give_to_all(struct run_start *l, struct run_start_input *in, struct err *e) {
    in->path = in->path ? in->path : input_stream_path(l, in);
    for (size_t n = 0; n < l->node_count; n++)
        for (size_t i = 0; i < in->manifest->count; i++)
            if (in->manifest->entries[i].kind == MANIFEST_FILE &&
                give(l, in, n, &in->manifest->entries[i], e) < 0)
                return -1;
    return 0;
}

// All of an input that every node gets: a folder is there also when nothing is in it.
static int copy_all(const struct run_start *l, const struct run_start_input *in,
                    struct manifest *to, struct err *e) {
    struct manifest_entry top = {.path = in->path, .mode = 0755, .kind = MANIFEST_FOLDER};
    if (in->manifest->count == 0)
        return manifest_append(to, &top, e);
    for (size_t i = 0; i < in->manifest->count; i++)
        if (copy_entry(to, l->context->arena, &in->manifest->entries[i], in->path, e) < 0)
            return -1;
    return 0;
}

// Content that nodes may have: of an earlier run of the task, or the results of one.
static int add_held(struct run_start *l, struct run_start_input *in, struct err *e) {
    struct arena *a = l->context->arena;
    in->held = true;
    if (config_input_is_sharded(in->config))
        in->share = arena_new(a, struct run_start_share, l->node_count);
    in->path = node_path(l, in);
    if (in->share)
        return deal_files(l, in, e);
    if (copy_all(l, in, input_keep_common(l), e) < 0)
        return -1;
    if (!in->is_folder)
        in->path = file_join(a, in->path, in->manifest->entries[0].path);
    return 0;
}

// Every node reads its own part.
static int add_remote(struct run_start *l, struct run_start_input *in, struct err *e) {
    bool sharded = config_input_is_sharded(in->config);
    if ((!in->remote && input_look_remote(l->context, in, e) < 0) ||
        input_remote_add_program(l, e) < 0)
        return -1;
    manifest_digest(in->manifest, in->digest);
    in->is_folder = in->remote->folder;
    int kept = input_keep_take(l, in, in->is_folder, e);
    if (kept)
        return kept < 0 ? -1 : add_held(l, in, e);
    bool streamed = config_input_is_streamed(in->config);
    if (streamed && input_stream_check(l, in, e) < 0)
        return -1;
    in->elastic = sharded && l->elastic;
    if (in->elastic && input_elastic_check_run(l, in, e) < 0)
        return -1;
    if (sharded)
        in->share = arena_new(l->context->arena, struct run_start_share, l->node_count);
    in->path = streamed ? input_stream_path(l, in) : node_path(l, in);
    if (sharded) {
        run_start_make_shards(l);
        return deal_files(l, in, e);
    }
    if (give_to_all(l, in, e) < 0)
        return -1;
    if (!in->remote->folder && !streamed)
        in->path = file_join(l->context->arena, in->path, in->manifest->entries[0].path);
    return 0;
}

static int add_input(struct run_start *l, struct run_start_input *in, struct err *e) {
    struct arena *a = l->context->arena;
    struct input_from_run from = {0};
    struct stat st;
    if (input_remote_is(in->source))
        return add_remote(l, in, e);
    if (input_from_run_is(in->source)) {
        if (input_from_run_find(l->context, in->source, &from, e) < 0)
            return -1;
        in->source = from.path;
        in->run = from.run;
        in->ignore = from.ignore;
    }
    if (stat(in->source, &st) < 0)
        return err_errno(e, ERR_NOT_FOUND, "'%s'", in->source);
    bool folder = S_ISDIR(st.st_mode), sharded = config_input_is_sharded(in->config);
    if (sharded && !folder)
        return err_set(e, ERR_CONFIG, "'%s' is one file; only a folder can be sharded", in->source);
    if (input_look_here(l->context, in, folder, e) < 0 ||
        hashing_run(l->context, in->manifest, e) < 0)
        return -1;
    manifest_digest(in->manifest, in->digest);
    in->is_folder = folder;
    int kept = input_keep_take(l, in, folder, e);
    if (kept)
        return kept < 0 ? -1 : add_held(l, in, e);
    if (config_input_is_streamed(in->config) &&
        (input_stream_check(l, in, e) < 0 || input_remote_add_program(l, e) < 0))
        return -1;
    in->elastic = sharded && l->elastic;
    if (in->elastic && input_elastic_check_run(l, in, e) < 0)
        return -1;
    bool whole = !config_input_is_streamed(in->config) && in->config->unit == CONFIG_UNIT_FILE;
    if (in->run && whole)
        input_keep_add_results(l, from.on_nodes);
    if (in->run && whole && !in->elastic)
        return add_held(l, in, e);
    if (sharded) {
        in->share = arena_new(a, struct run_start_share, l->node_count);
        in->path =
            config_input_is_streamed(in->config) ? input_stream_path(l, in) : node_path(l, in);
        run_start_make_shards(l);
        return in->config->unit == CONFIG_UNIT_SAMPLE ? deal_samples(l, in, e)
                                                      : deal_files(l, in, e);
    }
    if (config_input_is_streamed(in->config))
        return give_to_all(l, in, e);
    in->path = node_path(l, in);
    if (copy_all(l, in, l->common, e) < 0)
        return -1;
    if (!folder)
        in->path = file_join(a, in->path, file_base(in->source));
    return 0;
}

// Its archives lie where copy would leave them; workers get the tree beside it, or the one file
// that is no archive in it.
static void extract_on_nodes(struct run_start *l, const struct run_start_input *in,
                             struct job_input *out) {
    struct arena *a = l->context->arena;
    const char *tree;
    if (!config_input_is_extracted(in->config) || in->elastic) // input_elastic_rule has it
        return;
    out->archives = node_path(l, in);
    out->path = tree = job_input_tree(a, out->archives);
    if (strcmp(in->path, out->archives) != 0 && !extract_is_archive(in->path))
        out->path = file_join(a, tree, file_base(in->path));
    l->setup_dir = run_path(&l->context->cluster, &l->run, "setup");
}

int input_add_all(struct run_start *l, struct err *e) {
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    l->inputs = arena_new(a, struct run_start_input, c->inputs.count + 1);
    l->spec.inputs = arena_new(a, struct job_input, c->inputs.count + 1);
    for (size_t i = 0; i < c->inputs.count; i++) {
        const struct config_input *from = config_input(c, i);
        struct run_start_input *in = &l->inputs[l->input_count++];
        *in = (struct run_start_input){.name = from->name, .source = from->source, .config = from};
        if (l->looked)
            input_look_take(l->looked, i, in);
        if (add_input(l, in, e) < 0)
            return err_wrap(e, "input '%s'", from->name);
        input_warn(in);
        struct job_input *out = &l->spec.inputs[l->spec.input_count++];
        *out = (struct job_input){.name = in->name,
                                  .path = in->path,
                                  .mode = in->share ? "sharded" : "replicated",
                                  .deal = in->elastic ? input_elastic_rule(a, from) : NULL,
                                  .listed = input_lists_has(in),
                                  .streamed = config_input_is_streamed(from)};
        extract_on_nodes(l, in, out);
    }
    return 0;
}

void input_add_close(struct run_start *l) {
    for (size_t i = 0; i < l->input_count; i++)
        if (l->inputs[i].manifest)
            manifest_free(l->inputs[i].manifest);
    input_parts_close(&l->parts);
    l->input_count = 0;
}
