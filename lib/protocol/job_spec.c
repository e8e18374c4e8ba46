// SPDX-License-Identifier: Apache-2.0
// Job specifications and rosters: TOML in both directions; every input field is checked.
#include "protocol/job_spec.h"

#include "base/hash.h"

#include "conf/deal_words.h"
#include "conf/toml.h"
#include "sys/net.h"

#include <stdlib.h>
#include <string.h>

enum { SHUTDOWN_MS = 30 * 1000, JOIN_MS = 600 * 1000, TIMEOUT_DAYS_MAX = 7 };

void job_spec_init(struct job_spec *s) {
    *s = (struct job_spec){.run = "",
                           .name = "",
                           .node = "",
                           .nnodes_min = 1,
                           .nnodes_max = 1,
                           .nproc_per_node = "1",
                           .address = "127.0.0.1",
                           .workdir = "",
                           .shutdown_timeout_ms = SHUTDOWN_MS,
                           .join_timeout_ms = JOIN_MS};
}

static const char *text_at(const struct toml *t, const char *path, const char *absent) {
    const char *s = toml_get_str(t, path, absent);
    return s ? s : absent;
}

static int int_at(const struct toml *t, const char *path, int64_t min, int64_t max, int *out,
                  struct err *e) {
    int64_t v = *out;
    if (toml_get(t, path) && toml_need_int(t, path, min, max, &v, e) < 0)
        return -1;
    *out = (int)v;
    return 0;
}

static int ms_at(const struct toml *t, const char *path, int days_max, int64_t *out,
                 struct err *e) {
    const int64_t day_ms = 24 * 3600 * 1000;
    return toml_get(t, path) ? toml_need_int(t, path, 0, days_max * day_ms, out, e) : 0;
}

static int parse_run(struct arena *a, const struct toml *t, struct job_spec *s, struct err *e) {
    char **args;
    size_t count;
    if (toml_need_str(t, "run.id", &s->run, e) < 0 || toml_need_str(t, "run.node", &s->node, e) < 0)
        return -1;
    if (!str_is_name(s->run, JOB_RUN_BYTES_MAX))
        return err_set(e, ERR_CONFIG, "run.id '%.100s' does not fit a folder's name", s->run);
    s->name = text_at(t, "run.name", s->run);
    s->nproc_per_node = text_at(t, "run.nproc_per_node", s->nproc_per_node);
    const struct toml *nproc = toml_get(t, "run.nproc_per_node");
    if (nproc && nproc->type == TOML_INT)
        s->nproc_per_node = arena_printf(a, "%lld", (long long)nproc->integer);
    s->address = text_at(t, "run.address", s->address);
    s->workdir = text_at(t, "run.workdir", s->workdir);
    if (!net_is_numeric(s->address))
        return err_set(e, ERR_CONFIG, "run.address '%.100s' is not numeric", s->address);
    if (int_at(t, "run.node_rank", 0, JOB_NODES_MAX - 1, &s->node_rank, e) < 0 ||
        int_at(t, "run.nnodes_min", 1, JOB_NODES_MAX, &s->nnodes_min, e) < 0 ||
        int_at(t, "run.nnodes_max", s->nnodes_min, JOB_NODES_MAX, &s->nnodes_max, e) < 0 ||
        int_at(t, "run.max_restarts", 0, 1 << 20, &s->max_restarts, e) < 0 ||
        int_at(t, "run.agent_starts", 0, 1 << 20, &s->agent_starts, e) < 0 ||
        ms_at(t, "run.shutdown_timeout_ms", TIMEOUT_DAYS_MAX, &s->shutdown_timeout_ms, e) < 0 ||
        ms_at(t, "run.join_timeout_ms", TIMEOUT_DAYS_MAX, &s->join_timeout_ms, e) < 0 ||
        ms_at(t, "run.max_time_ms", JOB_DAYS_MAX, &s->max_time_ms, e) < 0 ||
        ms_at(t, "run.sample_ms", 1, &s->sample_ms, e) < 0)
        return -1;
    s->created_ms = toml_get_int(t, "run.created_ms", 0);
    if (toml_need_strs(a, t, "run.command", &args, &count, e) < 0)
        return -1;
    if (count == 0 || count > JOB_ARGS_MAX || !args[0][0])
        return err_set(e, ERR_CONFIG, "run.command has %zu words; 1 to %d are possible", count,
                       JOB_ARGS_MAX);
    s->command = (const char *const *)args;
    s->command_count = (int)count;
    return 0;
}

static int parse_key(const struct toml *t, struct job_spec *s, struct err *e) {
    const char *hex = toml_get_str(t, "run.key", NULL);
    s->has_key = hex != NULL;
    if (hex && str_unhex(s->key, sizeof s->key, hex, e) < 0)
        return err_set(e, ERR_CONFIG, "run.key is not %d hexadecimal bytes", JOB_KEY_BYTES);
    return 0;
}

static int parse_pairs(struct arena *a, const struct toml *t, const char *table,
                       struct job_pair **out, int *out_count, struct err *e) {
    const struct toml *v = toml_get(t, table);
    size_t count = v && v->type == TOML_TABLE ? v->len : 0;
    if (count > JOB_ENV_MAX)
        return err_set(e, ERR_LIMIT, "[%s] has %zu entries, more than %d", table, count,
                       JOB_ENV_MAX);
    *out = arena_new(a, struct job_pair, count);
    *out_count = 0;
    for (const struct toml *i = count ? v->child : NULL; i; i = i->next) {
        if (i->type != TOML_STRING || strlen(i->str) != i->len || strlen(i->key) != i->key_len ||
            !i->key[0] || strchr(i->key, '='))
            return err_set(e, ERR_CONFIG, "%s.%.100s is not a plain string with a plain name",
                           table, i->key);
        (*out)[(*out_count)++] = (struct job_pair){i->key, i->str};
    }
    return 0;
}

static int word_at(const struct toml *t, const char *path, const char *const *words, int *out,
                   struct err *e) {
    const char *word = text_at(t, path, words[0]);
    for (*out = 0; words[*out]; ++*out)
        if (str_eq(words[*out], word))
            return 0;
    return err_set(e, ERR_CONFIG, "%s '%.100s' is no value of dtctl", path, word);
}

static int parse_deal(struct arena *a, const struct toml *t, struct job_input *in, struct err *e) {
    struct job_deal *d = arena_new(a, struct job_deal, 1);
    if (!toml_get(t, "shard"))
        return 0;
    d->shuffled = toml_get(t, "seed") != NULL;
    d->extracts = toml_get_bool(t, "extracts", false);
    in->deal = d;
    return word_at(t, "shard", deal_shard_words, &d->shard, e) < 0 ||
                   word_at(t, "uneven", deal_uneven_words, &d->uneven, e) < 0 ||
                   int_at(t, "replicas", 0, JOB_REPLICAS_MAX, &d->replicas, e) < 0 ||
                   (d->shuffled && toml_need_int(t, "seed", 0, INT64_MAX, &d->seed, e) < 0)
               ? -1
               : 0;
}

static int parse_inputs(struct arena *a, const struct toml *t, struct job_spec *s, struct err *e) {
    const struct toml *v = toml_get(t, "inputs");
    size_t count = v && v->type == TOML_TABLE ? v->len : 0;
    if (count > JOB_INPUTS_MAX)
        return err_set(e, ERR_LIMIT, "%zu inputs, more than %d", count, JOB_INPUTS_MAX);
    s->inputs = arena_new(a, struct job_input, count);
    for (const struct toml *i = count ? v->child : NULL; i; i = i->next) {
        struct job_input *in = &s->inputs[s->input_count++];
        in->name = i->key;
        if (toml_need_str(i, "path", &in->path, e) < 0 || parse_deal(a, i, in, e) < 0)
            return err_wrap(e, "input '%.100s'", i->key);
        in->mode = text_at(i, "mode", "replicated");
        in->streamed = toml_get_bool(i, "streamed", false);
        in->archives = text_at(i, "archives", NULL);
        in->listed = toml_get_bool(i, "listed", false);
        if (!str_is_name(in->name, 64))
            return err_set(e, ERR_CONFIG, "input '%.100s' has no plain name", in->name);
    }
    return 0;
}

char *job_setup_dir(struct arena *a, const char *hash) {
    return arena_printf(a, "setup/%s", hash);
}

char *job_bundle_dir(struct arena *a, const char *hash) {
    enum { NAME_DIGITS = 16 };
    return arena_printf(a, "%s/bundle-%.*s", JOB_BUNDLES_DIR, NAME_DIGITS, hash);
}

char *job_share_folder(struct arena *a, const char *path, int nodes, int group_rank) {
    return arena_printf(a, "%s-of%d.%d", path, nodes, group_rank);
}

char *job_share_list(struct arena *a, const char *run_dir, const char *name, int nodes,
                     int group_rank) {
    return arena_printf(a, "%s/inputs/%s-of%d.%d.jsonl", run_dir, name, nodes, group_rank);
}

char *job_input_list(struct arena *a, const char *run_dir, const char *name) {
    return arena_printf(a, "%s/inputs/%s.jsonl", run_dir, name);
}

char *job_deal_list(struct arena *a, const char *run_dir, const char *name) {
    return arena_printf(a, "%s/inputs/%s.list", run_dir, name);
}

char *job_input_tree(struct arena *a, const char *archives) {
    return arena_printf(a, "%s" JOB_TREE_END, archives);
}

bool job_needs_setup(const struct job_spec *s) {
    bool extracts = false;
    for (int i = 0; i < s->input_count; i++)
        extracts |= s->inputs[i].archives != NULL;
    return s->setup || s->bundle_hash || extracts;
}

static int parse_bundle(const struct toml *t, struct job_spec *s, struct err *e) {
    if (!toml_get(t, "bundle"))
        return 0;
    if (toml_need_str(t, "bundle.hash", &s->bundle_hash, e) < 0)
        return -1;
    return hash_is_hex(s->bundle_hash) ? 0
                                       : err_set(e, ERR_CONFIG, "bundle.hash is no value of dtctl");
}

static int parse_setup(const struct toml *t, struct job_spec *s, struct err *e) {
    if (!toml_get(t, "setup"))
        return 0;
    if (toml_need_str(t, "setup.run", &s->setup, e) < 0 ||
        toml_need_str(t, "setup.hash", &s->setup_hash, e) < 0)
        return -1;
    if (!hash_is_hex(s->setup_hash) || !s->setup[0])
        return err_set(e, ERR_CONFIG, "setup.hash or setup.run is no value of dtctl");
    return 0;
}

static int parse_state(const struct toml *t, struct job_spec *s, struct err *e) {
    if (!toml_get(t, "state"))
        return 0;
    if (int_at(t, "state.replicas", 1, JOB_REPLICAS_MAX, &s->state_replicas, e) < 0 ||
        ms_at(t, "state.every_ms", JOB_DAYS_MAX, &s->state_every_ms, e) < 0)
        return -1;
    return s->state_every_ms > 0 ? 0 : err_set(e, ERR_CONFIG, "state.every_ms is missing");
}

int job_spec_parse(struct arena *a, const char *text, size_t len, struct job_spec *s,
                   struct err *e) {
    struct toml *root;
    job_spec_init(s);
    if (toml_parse(a, "job", text, len, &root, e) < 0)
        return -1;
    if (parse_run(a, root, s, e) < 0 || parse_key(root, s, e) < 0 ||
        parse_pairs(a, root, "env", &s->env, &s->env_count, e) < 0 ||
        parse_pairs(a, root, "torchrun", &s->torchrun, &s->torchrun_count, e) < 0 ||
        parse_pairs(a, root, "sagemaker", &s->sagemaker, &s->sagemaker_count, e) < 0 ||
        parse_inputs(a, root, s, e) < 0 || parse_setup(root, s, e) < 0 ||
        parse_bundle(root, s, e) < 0 || parse_state(root, s, e) < 0)
        return err_wrap(e, "job specification");
    return 0;
}

static void format_pairs(struct strbuf *out, const char *table, const struct job_pair *pairs,
                         int count) {
    if (count == 0)
        return;
    toml_write_table(out, table, NULL);
    for (int i = 0; i < count; i++)
        toml_write_str(out, pairs[i].name, pairs[i].value);
}

static void format_input(struct strbuf *out, const struct job_input *in) {
    toml_write_table(out, "inputs", in->name);
    toml_write_str(out, "path", in->path);
    toml_write_str(out, "mode", in->mode ? in->mode : "replicated");
    if (in->streamed)
        toml_write_bool(out, "streamed", true);
    if (in->archives)
        toml_write_str(out, "archives", in->archives);
    if (in->listed)
        toml_write_bool(out, "listed", true);
    if (!in->deal)
        return;
    toml_write_str(out, "shard", deal_shard_words[in->deal->shard]);
    toml_write_str(out, "uneven", deal_uneven_words[in->deal->uneven]);
    if (in->deal->shuffled)
        toml_write_int(out, "seed", in->deal->seed);
    toml_write_int(out, "replicas", in->deal->replicas);
    if (in->deal->extracts)
        toml_write_bool(out, "extracts", true);
}

void job_spec_format(const struct job_spec *s, bool with_key, struct strbuf *out) {
    toml_write_table(out, "run", NULL);
    toml_write_str(out, "id", s->run);
    toml_write_str(out, "name", s->name);
    toml_write_str(out, "node", s->node);
    toml_write_int(out, "node_rank", s->node_rank);
    toml_write_int(out, "nnodes_min", s->nnodes_min);
    toml_write_int(out, "nnodes_max", s->nnodes_max);
    toml_write_str(out, "nproc_per_node", s->nproc_per_node);
    toml_write_int(out, "max_restarts", s->max_restarts);
    toml_write_int(out, "agent_starts", s->agent_starts);
    if (s->has_key && with_key) {
        char hex[2 * JOB_KEY_BYTES + 1];
        str_hex(hex, s->key, sizeof s->key);
        toml_write_str(out, "key", hex);
    }
    toml_write_str(out, "address", s->address);
    toml_write_str(out, "workdir", s->workdir);
    toml_write_strs(out, "command", s->command, (size_t)s->command_count);
    toml_write_int(out, "shutdown_timeout_ms", s->shutdown_timeout_ms);
    toml_write_int(out, "join_timeout_ms", s->join_timeout_ms);
    toml_write_int(out, "max_time_ms", s->max_time_ms);
    toml_write_int(out, "created_ms", s->created_ms);
    toml_write_int(out, "sample_ms", s->sample_ms);
    format_pairs(out, "env", s->env, s->env_count);
    format_pairs(out, "torchrun", s->torchrun, s->torchrun_count);
    format_pairs(out, "sagemaker", s->sagemaker, s->sagemaker_count);
    if (s->setup) {
        toml_write_table(out, "setup", NULL);
        toml_write_str(out, "run", s->setup);
        toml_write_str(out, "hash", s->setup_hash);
    }
    if (s->bundle_hash) {
        toml_write_table(out, "bundle", NULL);
        toml_write_str(out, "hash", s->bundle_hash);
    }
    if (s->state_replicas) {
        toml_write_table(out, "state", NULL);
        toml_write_int(out, "replicas", s->state_replicas);
        toml_write_int(out, "every_ms", s->state_every_ms);
    }
    for (int i = 0; i < s->input_count; i++)
        format_input(out, &s->inputs[i]);
}

static int compare_ranks(const void *a, const void *b) {
    const struct roster_node *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

int job_roster_parse(struct arena *a, const char *text, size_t len, struct roster *r,
                     struct err *e) {
    struct toml *root;
    *r = (struct roster){0};
    if (toml_parse(a, "roster", text, len, &root, e) < 0)
        return -1;
    const struct toml *list = toml_get(root, "node");
    size_t count = list && list->type == TOML_ARRAY ? list->len : 0;
    if (count == 0 || count > JOB_NODES_MAX)
        return err_set(e, ERR_CONFIG, "roster: %zu nodes; 1 to %d are possible", count,
                       JOB_NODES_MAX);
    r->nodes = arena_new(a, struct roster_node, count);
    for (const struct toml *i = list->child; i; i = i->next) {
        struct roster_node *n = &r->nodes[r->count++];
        int64_t rank, port;
        if (toml_need_int(i, "rank", 0, JOB_NODES_MAX - 1, &rank, e) < 0 ||
            toml_need_int(i, "port", 1, 65535, &port, e) < 0 ||
            toml_need_str(i, "name", &n->name, e) < 0 ||
            toml_need_str(i, "address", &n->address, e) < 0)
            return err_wrap(e, "roster, node %d", r->count);
        if (!net_is_numeric(n->address))
            return err_set(e, ERR_CONFIG, "roster: address '%.100s' is not numeric", n->address);
        n->rank = (int)rank;
        n->port = (int)port;
    }
    qsort(r->nodes, (size_t)r->count, sizeof *r->nodes, compare_ranks);
    for (int i = 1; i < r->count; i++)
        if (r->nodes[i].rank == r->nodes[i - 1].rank)
            return err_set(e, ERR_CONFIG, "roster: rank %d is given twice", r->nodes[i].rank);
    return 0;
}

void job_roster_format(const struct roster *r, struct strbuf *out) {
    for (int i = 0; i < r->count; i++) {
        toml_write_element(out, "node");
        toml_write_int(out, "rank", r->nodes[i].rank);
        toml_write_str(out, "name", r->nodes[i].name);
        toml_write_str(out, "address", r->nodes[i].address);
        toml_write_int(out, "port", r->nodes[i].port);
    }
}
