// SPDX-License-Identifier: Apache-2.0
// Lists the files of inputs, and compares their sizes with the disks of nodes that are to be made.
#include "run/inputs/input_look.h"

#include "base/log.h"
#include "content/extract.h"
#include "content/ignore.h"
#include "provider/provider.h"
#include "run/inputs/input_from_run.h"
#include "run/inputs/input_remote.h"
#include "run/inputs/input_stream.h"
#include "sys/file.h"

#include <string.h>
#include <sys/stat.h>

// ---- include ------------------------------------------------------------------------------------

// True when a pattern matches the path or a folder above it.
static bool is_included(const struct ignore *patterns, struct arena *a, const char *path) {
    char *copy = arena_strdup(a, path);
    for (char *p = strchr(copy, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (ignore_match(patterns, copy, true))
            return true;
        *p = '/';
    }
    return ignore_match(patterns, path, false);
}

static bool is_below(const char *path, const char *folder) {
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && path[len] == '/';
}

// Keeps the matching files and the folders that lead to them; with `but` those that do not match.
static int keep(struct run_start_input *in, const struct option_list *list, bool but,
                struct err *e) {
    struct manifest *all = in->manifest, *kept = manifest_new();
    struct arena a = {0};
    struct ignore patterns = {0};
    const char *last = "";
    int result = manifest_sort(all, e);
    for (size_t i = 0; result == 0 && i < list->count; i++)
        result = ignore_add(&a, &patterns, "", list->items[i], strlen(list->items[i]), e);
    // A folder is in front of its content, so its content is seen first.
    for (size_t i = all->count; result == 0 && i-- > 0;) {
        const struct manifest_entry *entry = &all->entries[i];
        bool index = !but && input_stream_is_index(entry); // it goes with its shards
        if (entry->kind == MANIFEST_FOLDER
                ? !is_below(last, entry->path)
                : !index && is_included(&patterns, &a, entry->path) == but)
            continue;
        last = entry->path;
        result = manifest_append(kept, entry, e);
    }
    if (result == 0 && kept->count == 0)
        result = err_set(e, ERR_CONFIG, "no file of '%s' %s", in->source,
                         but ? "is left by exclude" : "matches include");
    arena_fini(&a);
    in->manifest = kept;
    manifest_free(all);
    return result;
}

// ---- the files of one input ---------------------------------------------------------------------

// Patterns of files that are left out: exclude, and files that are no part of the results of a run.
static const char *const *patterns_of(struct arena *a, const struct run_start_input *in) {
    const struct option_list *exclude = &in->config->exclude;
    size_t count = 0;
    while (in->ignore && in->ignore[count])
        count++;
    const char **all = arena_new(a, const char *, count + exclude->count + 1);
    for (size_t i = 0; i < count; i++)
        all[i] = in->ignore[i];
    for (size_t i = 0; i < exclude->count; i++)
        all[count + i] = exclude->items[i];
    return all;
}

// Archives that no node could unpack are refused by their names, and so is a source without files.
static int sort_and_check(const struct run_start_input *in, struct err *e) {
    const struct manifest *m = in->manifest;
    if (manifest_sort(in->manifest, e) < 0)
        return -1;
    if (config_input_is_extracted(in->config) && m->files == 0)
        return err_set(e, ERR_CONFIG,
                       "'%s' has no files, and deliver = extract expects .tar or .tar.zst files",
                       in->source);
    for (size_t i = 0; config_input_is_extracted(in->config) && i < m->count; i++)
        if (m->entries[i].kind != MANIFEST_FOLDER && extract_check_name(m->entries[i].path, e) < 0)
            return -1;
    return 0;
}

int input_look_here(struct context *s, struct run_start_input *in, bool folder, struct err *e) {
    struct manifest_rules rules = {.ignore_default = !in->run, .ignore = patterns_of(s->arena, in)};
    if (!folder && (in->config->include.count || in->config->exclude.count))
        return err_set(e, ERR_CONFIG, "'%s' is one file; include and exclude are for a folder",
                       in->source);
    in->manifest = manifest_new();
    if (manifest_add_path(in->manifest, in->source, folder ? "" : file_base(in->source), &rules,
                          e) < 0 ||
        (in->config->include.count && keep(in, &in->config->include, false, e) < 0))
        return -1;
    if (in->run && in->manifest->files == 0)
        return err_set(e, ERR_CONFIG, "'%s': run '%s' left no file there", in->config->source,
                       in->run);
    return sort_and_check(in, e);
}

int input_look_remote(struct context *s, struct run_start_input *in, struct err *e) {
    const struct option_list *include = &in->config->include, *exclude = &in->config->exclude;
    bool sharded = config_input_is_sharded(in->config);
    in->manifest = manifest_new();
    if (input_remote_list(s, in->source, &in->remote, in->manifest, e) < 0)
        return -1;
    if (!in->remote->folder && (sharded || include->count || exclude->count))
        return err_set(e, ERR_CONFIG, "'%s' is one object; %s is for a folder", in->source,
                       sharded ? "mode = sharded" : "include or exclude");
    return (exclude->count && keep(in, exclude, true, e) < 0) ||
                   (include->count && keep(in, include, false, e) < 0)
               ? -1
               : sort_and_check(in, e);
}

// ---- before there are nodes ---------------------------------------------------------------------

// Bytes that a node gets of an input: at least, since a deal by name may be uneven.
static uint64_t part_of(const struct run_start_input *in, uint64_t nodes) {
    const struct manifest *m = in->manifest;
    uint64_t part = m->bytes;
    if (config_input_is_sharded(in->config))
        part = (m->bytes + nodes - 1) / nodes;
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].kind == MANIFEST_FILE && m->entries[i].size > part)
            part = m->entries[i].size;
    return part;
}

static uint64_t bytes_of(const struct input_look *look, uint64_t nodes) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < look->count; i++) {
        const struct run_start_input *in = &look->inputs[i];
        if (in->manifest && !config_input_is_streamed(in->config))
            bytes += part_of(in, nodes);
        if (in->manifest && config_input_is_extracted(in->config))
            bytes += part_of(in, nodes); // an unpacked archive is not smaller
    }
    return bytes;
}

static int check_disk(struct context *s, const struct input_look *look, uint64_t disk,
                      struct err *e) {
    const struct config *c = s->config;
    char need[STR_HUMAN_BYTES_MAX], has[STR_HUMAN_BYTES_MAX], image[STR_HUMAN_BYTES_MAX];
    uint64_t nodes = c->job.once            ? 1
                     : c->job.nodes.max > 0 ? (uint64_t)c->job.nodes.max
                                            : (uint64_t)c->cluster.nodes;
    uint64_t bytes = bytes_of(look, nodes);
    str_human_bytes(need, bytes);
    str_human_bytes(has, disk);
    str_human_bytes(image, INPUT_LOOK_SYSTEM_BYTES);
    if (bytes >= disk)
        return err_set(e, ERR_CONFIG,
                       "%s: the disk of a node has %s, and its inputs have %s (try: a larger disk, "
                       "mode = sharded, or deliver = stream)",
                       config_where(c, look->disk_key), has, need);
    if (bytes + INPUT_LOOK_SYSTEM_BYTES > disk)
        log_warn("the inputs of a node may not fit on its disk",
                 "disk=\"%s\" inputs=\"%s\" system=\"about %s\" key=%s", has, need, image,
                 look->disk_key);
    return 0;
}

static int look_at(struct context *s, struct run_start_input *in, bool sizes, struct err *e) {
    struct stat st;
    if (input_remote_is(in->source))
        return input_look_remote(s, in, e);
    if (!sizes || input_from_run_is(in->source))
        return 0;
    if (stat(in->source, &st) < 0)
        return err_errno(e, ERR_NOT_FOUND, "'%s'", in->source);
    return input_look_here(s, in, S_ISDIR(st.st_mode), e);
}

int input_look_open(struct input_look *look, struct context *s, struct err *e) {
    const struct config *c = s->config;
    const struct provider *p = provider_of(c);
    uint64_t disk = p && p->disk_bytes ? p->disk_bytes(c, &look->disk_key) : 0;
    look->inputs = arena_new(s->arena, struct run_start_input, c->inputs.count + 1);
    for (size_t i = 0; i < c->inputs.count; i++) {
        const struct config_input *from = config_input(c, i);
        struct run_start_input *in = &look->inputs[look->count++];
        *in = (struct run_start_input){.name = from->name, .source = from->source, .config = from};
        if (look_at(s, in, disk || c->dry_run, e) < 0)
            return err_wrap(e, "input '%s'", from->name);
    }
    return disk ? check_disk(s, look, disk, e) : 0;
}

void input_look_take(struct input_look *look, size_t i, struct run_start_input *in) {
    if (!look->inputs[i].remote)
        return; // a file of this computer may have changed since
    *in = look->inputs[i];
    look->inputs[i].manifest = NULL;
    look->inputs[i].remote = NULL;
}

void input_look_close(struct input_look *look) {
    for (size_t i = 0; i < look->count; i++)
        if (look->inputs[i].manifest)
            manifest_free(look->inputs[i].manifest);
    look->count = 0;
}
