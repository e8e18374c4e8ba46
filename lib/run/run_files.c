// SPDX-License-Identifier: Apache-2.0
// The files that a run sends to its nodes: programs, work folder; inputs and state of an earlier
// run are in files of their own.
#include "run/run_start.h"

#include "base/log.h"
#include "conf/render.h"
#include "fleet/cluster_owner.h"
#include "fleet/embedded_files.h"
#include "fleet/fleet_transfer.h"
#include "fleet/hashing.h"
#include "provider/cluster_backup.h"
#include "run/inputs/input_add.h"
#include "run/inputs/input_elastic.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_keep.h"
#include "run/inputs/input_lists.h"
#include "run/inputs/input_remote.h"
#include "run/inputs/input_stream.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORK_FILES_MAX = 100000 };

// ---- the work folder ---------------------------------------------------------------------------

// True when a word of the command is the relative path of a file in the current folder.
static bool names_file_here(const char *word) {
    struct stat st;
    while (str_starts(word, "./"))
        word += 2;
    return file_is_safe_relative(word, strlen(word)) && stat(word, &st) == 0 && S_ISREG(st.st_mode);
}

// The first file of this folder that a word names, or that a shell line in one word names; NULL:
// none.
static const char *find_file_here(struct arena *a, const char *word) {
    static const char between[] = " \t\n;|&()<>'\"`";
    if (names_file_here(word))
        return word;
    for (const char *p = word + strspn(word, between); *p; p += strspn(p, between)) {
        size_t len = strcspn(p, between);
        const char *part = arena_strndup(a, p, len);
        if (names_file_here(part))
            return part;
        p += len;
    }
    return NULL;
}

// Nodes have no other files than those that are sent, so that such a command fails there.
static void warn_of_script(const struct run_start *l) {
    const char *word;
    for (size_t i = 0; (word = l->run.command[i]); i++) { // NULL-terminated
        bool script = str_ends(word, ".py") || str_ends(word, ".sh");
        if (!script || str_starts(word, "/") || strpbrk(word, " \t\n;|&$"))
            continue;
        if (file_exists(word))
            log_warn("the command names a file outside of the current folder, which is not sent",
                     "path=%s try=\"--file %s -- %s\"", word, word, file_base(word));
        else if (!l->context->config->setup.run[0])
            log_warn("the command names a file that is not in the current folder", "path=%s", word);
        return;
    }
}

// Without --file the current folder is sent when the command names a file in it, since scripts
// often need other files. A size limit prevents sending a large folder by accident.
static int add_current_folder(struct run_start *l, const char *work, struct err *e) {
    char size[STR_HUMAN_BYTES_MAX];
    struct manifest_rules rules = {.ignore_default = true};
    uint64_t before = l->common->bytes;
    size_t files = l->common->files;
    const char *named = NULL;
    for (size_t i = 0; i < l->run.command_count && !named; i++)
        named = find_file_here(l->context->arena, l->run.command[i]);
    if (!named)
        warn_of_script(l);
    if (!named)
        return 0;
    if (manifest_add_path(l->common, ".", work, &rules, e) < 0)
        return err_wrap(e, "the current folder");
    uint64_t bytes = l->common->bytes - before;
    files = l->common->files - files;
    if (bytes > (uint64_t)LAUNCH_IMPLICIT_BYTES_MAX_MIB << 20 || files > WORK_FILES_MAX)
        return err_set(e, ERR_LIMIT,
                       "the command names '%s', so the current folder would be sent, and it has "
                       "%zu files, %s; say what is needed with --file, or what is not in "
                       ".dtctlignore",
                       named, files, str_human_bytes(size, bytes));
    l->work_is_implicit = true;
    return 0;
}

static int add_work(struct run_start *l, struct err *e) {
    struct arena *a = l->context->arena;
    const struct option_list *files = &l->context->config->job.files;
    struct manifest_rules rules = {.ignore_default = true};
    const char *work = run_node_dir(a, l->run.id, "work");
    if (files->count == 0)
        return l->native ? 0 : add_current_folder(l, work, e);
    for (size_t i = 0; i < files->count; i++) {
        struct stat st;
        const char *path = files->items[i];
        if (stat(path, &st) < 0)
            return err_errno(e, ERR_NOT_FOUND, "--file '%s'", path);
        // As in rsync, "DIR/" and "." send the content of the folder, "DIR" the folder itself.
        const char *base = file_base(path);
        bool content =
            S_ISDIR(st.st_mode) && (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0);
        const char *to = content ? work : file_join(a, work, base);
        if (manifest_add_path(l->common, path, to, &rules, e) < 0)
            return err_wrap(e, "--file '%s'", path);
    }
    return 0;
}

// ---- the trainer's own file ------------------------------------------------------------------

static int add_trainer(struct run_start *l, struct err *e) {
    struct arena *a = l->context->arena;
    struct strbuf text = {0};
    if (embedded_add_program(l->common, a, l->trainer, e) < 0)
        return -1;
    render_toml(&text, &l->context->config->set, train_tables);
    const char *path = run_node_dir(a, l->run.id, "work/train.toml");
    char *copy = arena_strndup(a, strbuf_cstr(&text), text.len);
    size_t len = text.len;
    strbuf_fini(&text);
    // The state folder belongs to this run; it starts with the state of the resumed run, if any.
    // train.resume of the user is about earlier runs, while restarts of this run always resume.
    l->run.command[l->run.command_count++] = "--set";
    l->run.command[l->run.command_count++] = "train.resume=auto";
    l->spec.command_count = (int)l->run.command_count;
    return manifest_add_bytes(l->common, path, copy, len, 0644, e);
}

void run_start_make_shards(struct run_start *l) {
    if (l->shards)
        return;
    l->shards = arena_new(l->context->arena, struct manifest *, l->node_count + 1);
    for (size_t n = 0; n < l->node_count; n++)
        l->shards[n] = manifest_new();
}

int run_start_files(struct run_start *l, struct err *e) {
    l->common = manifest_new();
    if (run_start_state(l, e) < 0 || (l->native && add_trainer(l, e) < 0) || add_work(l, e) < 0 ||
        run_start_bundle(l, e) < 0 || run_start_setup(l, e) < 0 || input_add_all(l, e) < 0 ||
        cluster_backup_add_run(l->context, &l->run, l->common, e) < 0 ||
        cluster_owner_add_run(l->context, &l->run, l->common, e) < 0)
        return -1;
    for (size_t n = 0; l->shards && n < l->node_count; n++)
        if (hashing_run(l->context, l->shards[n], e) < 0)
            return -1;
    for (size_t n = 0; l->dealt && n < l->node_count; n++)
        if (l->dealt[n]->count && hashing_run(l->context, l->dealt[n], e) < 0)
            return -1;
    return l->common->count ? hashing_run(l->context, l->common, e) : 0;
}

void run_start_close(struct run_start *l) {
    if (l->common)
        manifest_free(l->common);
    input_add_close(l);
    input_remote_close(l);
    input_stream_close(l);
    input_lists_close(l);
    input_fanout_close(l);
    input_keep_close(l);
    input_elastic_close(l);
    for (size_t n = 0; l->shards && n < l->node_count; n++)
        manifest_free(l->shards[n]);
    memset(l->spec.key, 0, sizeof l->spec.key);
    l->common = NULL;
    l->shards = NULL;
}

int run_start_send(struct run_start *l, struct fleet *f, struct err *e) {
    struct manifest **all = arena_new(l->context->arena, struct manifest *, f->count + 1);
    for (size_t i = 0; i < f->count; i++)
        all[i] = l->common;
    if (l->common->count && fleet_send_manifests(f, "push", all, "", XFER_MERGE, &l->sent, e) < 0)
        return -1;
    if (l->shards &&
        fleet_send_manifests(f, "push parts", l->shards, "", XFER_MERGE, &l->sent, e) < 0)
        return -1;
    return input_keep_send(l, f, e) < 0 || input_elastic_send(l, f, e) < 0 ||
                   input_remote_send(l, f, e) < 0
               ? -1
               : input_lists_send(l, f, e);
}
