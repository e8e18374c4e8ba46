// SPDX-License-Identifier: Apache-2.0
// The state of an earlier run that a run resumes from. The native trainer's state is the same on
// every node; a command's state goes back to the node that wrote it.
#include "run/run_start.h"

#include "base/bytes.h"
#include "base/json.h"
#include "base/log.h"
#include "run/results/results_bring.h"
#include "run/results/results_owner.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHECKPOINT_HEADER_BYTES_MAX = 4 << 20 };

enum { NO_STATE = 1 }; // beside 0 and -1: there is none that could be taken, and e says so

// ---- the trainer's checkpoints -----------------------------------------------------------------

static int64_t meta_int(const struct json *meta, const char *key) {
    int64_t value = 0;
    struct err ignored = {0};
    return str_parse_i64(json_get_str(meta, key, ""), 0, INT64_MAX, &value, &ignored) < 0 ? 0
                                                                                          : value;
}

// Reads the metadata of a safetensors file: eight bytes of length, then a JSON header.
static bool read_position(struct arena *a, const char *path, struct run_start_position *out) {
    unsigned char length[8];
    struct json *j = NULL;
    struct err ignored = {0};
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || file_read_all(fd, length, sizeof length, &ignored) < 0)
        return false;
    uint64_t len = bytes_load(length, sizeof length);
    if (len > CHECKPOINT_HEADER_BYTES_MAX)
        return false;
    char *text = arena_new(a, char, len + 1);
    if (file_read_all(fd, text, len, &ignored) < 0 || json_parse(a, text, len, &j, &ignored) < 0)
        return false;
    const struct json *meta = json_get(j, "__metadata__");
    if (!meta || !json_get(meta, "step"))
        return false;
    *out = (struct run_start_position){.step = meta_int(meta, "step"),
                                       .epoch = meta_int(meta, "epoch"),
                                       .consumed = meta_int(meta, "consumed"),
                                       .seed = meta_int(meta, "seed"),
                                       .has_seed = json_get(meta, "seed") != NULL};
    return true;
}

static bool is_further(const struct run_start_position *p, const struct run_start_position *than) {
    if (p->epoch != than->epoch)
        return p->epoch > than->epoch;
    return p->consumed != than->consumed ? p->consumed > than->consumed : p->step > than->step;
}

bool run_start_find_checkpoint(const char *dir, struct run_start_position *out) {
    struct arena a = {0};
    bool found = false;
    struct file_entries in = file_entries_open(dir);
    while (file_entries_next(&in)) {
        struct run_start_position p;
        if (!str_starts(in.name, "checkpoint-") ||
            !read_position(&a, file_join(&a, file_join(&a, dir, in.name), "state.safetensors"), &p))
            continue;
        if (!found || is_further(&p, out))
            *out = p;
        found = true;
    }
    (void)file_entries_close(&in, 0, NULL);
    arena_fini(&a);
    return found;
}

static int add_trainer_state(struct run_start *l, const struct run *earlier, const char *state,
                             struct err *e) {
    const struct config *c = l->context->config;
    struct manifest_rules rules = {.ignore_default = false};
    struct run_start_position *p = &l->resume_at;
    if (!run_start_find_checkpoint(state, p))
        return err_set(e, ERR_NOT_FOUND, "it left no checkpoint");
    if (p->epoch > c->train.epochs)
        return err_set(e, ERR_CONFIG,
                       "%s: run '%s' is at epoch %lld, train.epochs is %lld (try: more epochs, or "
                       "--resume never)",
                       config_where(c, "train.resume"), earlier->id, (long long)p->epoch,
                       (long long)c->train.epochs);
    if (p->has_seed && p->seed != c->train.seed && !c->train.resume_other)
        return err_set(e, ERR_CONFIG,
                       "%s: run '%s' was trained with seed %lld, train.seed is %lld (try: --resume "
                       "never, or --set train.resume_other=true to continue from it all the same)",
                       config_where(c, "train.resume"), earlier->id, (long long)p->seed,
                       (long long)c->train.seed);
    return manifest_add_path(l->common, state, run_node_dir(l->context->arena, l->run.id, "state"),
                             &rules, e);
}

// ---- a command's state -------------------------------------------------------------------------

static int no_state(const char *where, struct err *e) {
    err_set(e, ERR_NOT_FOUND, "it left no state%s", where);
    return NO_STATE;
}

// Sends state/<node> of the results to the node of that name.
static int add_command_state(struct run_start *l, const struct run *earlier, const char *state,
                             struct err *e) {
    struct arena *a = l->context->arena;
    struct manifest_rules rules = {.ignore_default = false};
    const char *to = run_node_dir(a, l->run.id, "state");
    for (size_t n = 0; n < l->node_count; n++) {
        const char *from = file_join(a, state, l->run.nodes[n]);
        if (file_is_absent(from))
            continue;
        run_start_make_shards(l);
        if (manifest_add_path(l->shards[n], from, to, &rules, e) < 0)
            return -1;
        l->resume_nodes++;
    }
    for (size_t i = 0; i < earlier->node_count; i++) {
        bool here = false;
        for (size_t n = 0; n < l->node_count; n++)
            here |= str_eq(l->run.nodes[n], earlier->nodes[i]);
        if (!here && !file_is_absent(file_join(a, state, earlier->nodes[i])))
            screen_note(
                l->context->screen, "state of node %s stays in %s: the node is not in this run",
                earlier->nodes[i], run_near_path(a, file_join(a, state, earlier->nodes[i])));
    }
    return l->resume_nodes ? 0 : no_state(" for these nodes", e);
}

// ---- both --------------------------------------------------------------------------------------

// A state that outputs.fetch has left on the nodes comes here now.
static int bring_state(const struct run_start *l, struct run *earlier, struct err *e) {
    const struct results_wish wish = {.kinds = RESULT_STATE};
    struct context *s = l->context;
    if (!(earlier->left & RESULT_STATE))
        return 0;
    if (!s->config->dry_run && results_bring(s, earlier->id, &wish, earlier, e) < 0)
        return -1;
    if (earlier->left & RESULT_STATE)
        return err_set(e, ERR_NOT_FOUND,
                       "its state is on its nodes (try: dtctl fetch %s --fetch state)",
                       earlier->id);
    return 0;
}

// 0, NO_STATE or -1.
static int look_for_state(struct run_start *l, struct run *earlier, struct err *e) {
    struct arena *a = l->context->arena;
    if (!run_is_over(earlier))
        return err_set(e, ERR_BUSY, "it may still be running (try: dtctl fetch %s)", earlier->id);
    if (!earlier->fetched)
        return err_set(e, ERR_NOT_FOUND, "its results are not here (try: dtctl fetch %s)",
                       earlier->id);
    if (earlier->native != l->native)
        return err_set(e, ERR_NOT_FOUND, "it belongs to %s",
                       earlier->native ? "the native trainer" : "a command");
    const char *owner = results_owner_of(a, earlier->output_dir);
    if (!owner[0] && file_is_absent(file_join(a, earlier->output_dir, "state")))
        return no_state("", e);
    if (!str_eq(owner, earlier->id))
        return err_set(e, ERR_NOT_FOUND, "'%s' holds the results of %s%s", earlier->output_dir,
                       owner[0] ? "run " : "no known run", owner);
    if (bring_state(l, earlier, e) < 0)
        return -1;
    const char *state = file_join(a, earlier->output_dir, "state");
    return earlier->native ? add_trainer_state(l, earlier, state, e)
                           : add_command_state(l, earlier, state, e);
}

int run_start_state(struct run_start *l, struct err *e) {
    struct context *s = l->context;
    struct run earlier;
    struct err why = {0};
    if (!l->resume_run)
        return 0;
    if (run_load(&s->cluster, l->resume_run, &earlier, e) < 0)
        return -1;
    int found = look_for_state(l, &earlier, &why);
    if (found == 0) {
        l->run.resumes = l->resume_run;
        log_info("the state of an earlier run is sent", "run=%s", earlier.id);
        return 0;
    }
    l->resume_run = NULL;
    if (why.code != ERR_NOT_FOUND && why.code != ERR_BUSY) {
        *e = why;
        return -1;
    }
    if (strcmp(s->config->train.resume, "auto") != 0)
        return err_set(e, ERR_CONFIG, "%s: run '%s' cannot be resumed: %s",
                       config_where(s->config, "train.resume"), earlier.id, why.text);
    // A command may have no state, so its absence is not worth a note.
    if (l->native || found != NO_STATE)
        screen_note(s->screen, "run %s (%s) is not resumed: %s", earlier.id, earlier.state,
                    why.text);
    return 0;
}

int run_start_output(struct run_start *l, struct err *e) {
    struct context *s = l->context;
    if (!s->config->output_dir[0]) // below the run's own folder
        return 0;
    const char *dir = l->run.output_dir, *where = config_where(s->config, "outputs.dir");
    const char *owner = results_owner_of(s->arena, dir);
    struct err why = {0};
    if (owner[0] && !str_eq(owner, l->run.id) && !str_eq(owner, l->resume_run))
        return err_set(e, ERR_CONFIG,
                       "%s: '%s' holds the results of run '%s', and results of two runs are not "
                       "mixed (try: another folder)",
                       where, run_near_path(s->arena, dir), owner);
    if (s->config->dry_run)
        return 0;
    if (file_make_dirs(dir, 0755, &why) < 0)
        return err_set(e, ERR_CONFIG, "%s: %s", where, why.text);
    if (access(dir, W_OK | X_OK) < 0)
        return err_errno(e, ERR_CONFIG, "%s: '%s'", where, dir);
    return 0;
}
