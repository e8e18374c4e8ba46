// SPDX-License-Identifier: Apache-2.0
// Tasks: the key of a run, the runs of a task, and the tasks that precede it.
#include "run/task.h"

#include "base/env.h"
#include "run/results/results_archive.h"
#include "run/results/results_owner.h"
#include "run/results/results_upload.h"
#include "run/task_files.h"

#include <string.h>

static const char KEY_FORMAT[] = "2"; // changes with what the parts of a key hold
enum { KEY_DIGITS = 32 };             // of the hash of a part

// ---- the key ------------------------------------------------------------------------------------

// With its NUL, so that no two lists of words give the same bytes.
static void add_text(struct hash *h, const char *text) {
    hash_add(h, text, strlen(text) + 1);
}

static void add_number(struct hash *h, uint64_t n) {
    hash_add(h, &n, sizeof n);
}

static void add_command(struct hash *h, const struct run_start *l) {
    for (size_t i = 0; i < l->run.command_count; i++)
        add_text(h, l->run.command[i]);
    add_text(h, l->run.nproc);
}

static void add_file(void *ctx, const char *path, const struct manifest_entry *x) {
    struct hash *h = ctx;
    add_text(h, path);
    add_number(h, x->mode);
    add_text(h, x->kind == MANIFEST_LINK ? x->target : "");
    hash_add(h, x->hash, x->kind == MANIFEST_FILE ? sizeof x->hash : 0);
}

// The settings of the native trainer are one of the files.
static void add_files(struct hash *h, const struct run_start *l) {
    task_files_each(l, add_file, h);
}

static void add_inputs(struct hash *h, const struct run_start *l) {
    for (size_t i = 0; i < l->input_count; i++) {
        add_text(h, l->inputs[i].name);
        const struct config_input *in = l->inputs[i].config;
        bool sharded = config_input_is_sharded(in);
        add_number(h, sharded);
        if (config_input_is_extracted(in))
            add_text(h, in->deliver);
        if (sharded) {
            add_number(h, (uint64_t)config_input_shard(in));
            add_number(h, (uint64_t)in->unit);
            add_number(h, (uint64_t)in->uneven);
            add_text(h, in->order);
        }
        hash_add(h, l->inputs[i].digest, sizeof l->inputs[i].digest);
    }
}

static void add_setup(struct hash *h, const struct run_start *l) {
    add_text(h, l->spec.setup ? l->spec.setup_hash : "");
}

// With a key, since values may be secrets.
static void add_environment(struct hash *h, const struct run_start *l) {
    hash_add(h, l->digest_key, sizeof l->digest_key);
    for (int i = 0; i < l->own_env_count; i++) {
        add_text(h, l->spec.env[i].name);
        add_text(h, l->spec.env[i].value);
    }
    if (l->spec.bundle_hash)
        add_text(h, l->spec.bundle_hash);
}

static void add_outputs(struct hash *h, const struct run_start *l) {
    add_number(h, l->run.bring_work);
    add_number(h, (uint64_t)l->run.merge);
    if (l->run.archive)
        add_number(h, (uint64_t)l->run.archive);
    if (l->run.wanted != RESULT_ALL)
        add_number(h, l->run.wanted);
    if (results_upload_is_wanted(&l->run))
        add_text(h, l->context->config->output_s3);
    if (l->context->config->compat_sagemaker)
        add_number(h, 1);
}

static void add_earlier(struct hash *h, const struct run_start *l) {
    for (size_t i = 0; i < l->after_count; i++)
        add_text(h, l->after_keys[i]);
}

static const struct {
    const char *name, *text; // in the key; in a message
    void (*add)(struct hash *h, const struct run_start *l);
    // Names the difference from an earlier run, "" if it cannot; NULL: the message has the part.
    const char *(*differing)(const struct run_start *l, const struct run *earlier);
} PARTS[] = {
    {"command", "its command", add_command, NULL},
    {"files", "its files", add_files, task_files_differing},
    {"inputs", "its inputs", add_inputs, NULL},
    {"setup", "its setup", add_setup, NULL},
    {"env", "its environment", add_environment, NULL},
    {"outputs", "its outputs", add_outputs, NULL},
    {"after", "a task before it", add_earlier, NULL},
};
enum { PARTS_COUNT = sizeof PARTS / sizeof PARTS[0] };

void task_key(struct run_start *l) {
    struct arena *a = l->context->arena;
    const char *key = KEY_FORMAT;
    for (size_t i = 0; i < PARTS_COUNT; i++) {
        struct hash h;
        unsigned char digest[HASH_BYTES];
        char hex[HASH_HEX_BYTES];
        hash_init(&h);
        PARTS[i].add(&h, l);
        hash_final(&h, digest);
        hash_hex(hex, digest);
        key = arena_printf(a, "%s %s=%.*s", key, PARTS[i].name, KEY_DIGITS, hex);
    }
    l->run.key = key;
}

const char *task_key_part(struct arena *a, const char *key, const char *part) {
    const char *name = arena_printf(a, " %s=", part), *at = strstr(key, name);
    return at && strlen(at) >= strlen(name) + KEY_DIGITS
               ? arena_strndup(a, at + strlen(name), KEY_DIGITS)
               : NULL;
}

// The first part of the key that differs from that of an earlier run, for a message; NULL: none.
static const char *changed_part(struct arena *a, const struct run_start *l,
                                const struct run *earlier) {
    const char *one = earlier->key, *other = l->run.key;
    for (size_t i = 0; i < PARTS_COUNT; i++) {
        const char *name = arena_printf(a, " %s=", PARTS[i].name);
        const char *x = strstr(one, name), *y = strstr(other, name);
        if (x && y && strncmp(x, y, strlen(name) + KEY_DIGITS) == 0)
            continue;
        const char *how = PARTS[i].differing ? PARTS[i].differing(l, earlier) : "";
        return arena_printf(a, "%s changed%s%s", PARTS[i].text, *how ? ": " : "", how);
    }
    return strcmp(one, other) == 0 ? NULL : "the form of keys changed";
}

// ---- runs of a task -----------------------------------------------------------------------------

int task_find(const struct cluster *c, const char *name, const char *state, struct run *out,
              struct err *e) {
    struct run_walk walk;
    if (run_walk_open(&walk, c, e) < 0)
        return -1;
    while (run_walk_next(&walk, out))
        if (strcmp(out->name, name) == 0 && (!state || strcmp(out->state, state) == 0))
            return 1;
    return 0;
}

int task_find_reusable(struct run_start *l, struct run *out, const char **why, struct err *e) {
    struct arena *a = l->context->arena;
    *why = NULL;
    int found = task_find(&l->context->cluster, l->run.name, NULL, out, e);
    if (found > 0 && !run_is_over(out))
        return err_set(e, ERR_BUSY,
                       "run '%s' of this task may be going on (try: dtctl logs -f %s, which brings "
                       "its results; --force starts another)",
                       out->id, out->id);
    if (found > 0)
        found = task_find(&l->context->cluster, l->run.name, "finished", out, e);
    if (found <= 0)
        return found;
    *why = changed_part(a, l, out);
    if (*why)
        return 0;
    if (!out->fetched)
        *why = arena_printf(a, "its results are not here (try: dtctl fetch %s)", out->id);
    else if (out->lost_count)
        *why = arena_printf(a, "its results of node %s are lost", out->lost[0]);
    else if (results_archive_is_due(out))
        *why = arena_printf(a, "its archives are not written (try: dtctl fetch %s)", out->id);
    else if (results_upload_is_due(out))
        *why = arena_printf(a, "its results are not in %s (try: dtctl fetch %s)", out->s3, out->id);
    else if (!str_eq(results_owner_of(a, out->output_dir), out->id))
        *why = arena_printf(a, "'%s' does not hold its results any more",
                            run_near_path(a, out->output_dir));
    return *why ? 0 : 1;
}

// ---- after --------------------------------------------------------------------------------------

int task_env(struct run_start *l, struct err *e) {
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    const struct option_list *after = &c->job.after;
    struct job_spec *spec = &l->spec;
    spec->env[spec->env_count++] = (struct job_pair){"DTCTL_TASK", l->run.name};
    l->after_keys = arena_new(a, const char *, after->count + 1);
    for (size_t i = 0; i < after->count; i++) {
        struct run earlier;
        const char *name = env_variable(a, "DTCTL_TASK_", after->items[i]);
        int found = task_find(&l->context->cluster, after->items[i], "finished", &earlier, e);
        if (found < 0)
            return -1;
        if (!found)
            return err_set(e, ERR_NOT_FOUND,
                           "%s: task '%s' has no finished run on cluster '%s' (try: dtctl run)",
                           config_where(c, "task.after"), after->items[i],
                           l->context->cluster.name);
        spec->env[spec->env_count++] = (struct job_pair){name, earlier.id};
        l->after_keys[l->after_count++] = earlier.key;
    }
    return 0;
}
