// SPDX-License-Identifier: Apache-2.0
// dtctl push: sends files of this computer to the nodes.
#include "command.h"

#include "base/log.h"
#include "base/str.h"
#include "fleet/fleet_transfer.h"
#include "fleet/hashing.h"
#include "push_with.h"
#include "sys/file.h"

#include <string.h>
#include <sys/stat.h>

enum { LARGE_BYTES_MIB = 1024 };

struct push_flags {
    const char *node, *to, *with;
    struct option_list exclude;
    bool replace, all_files;
};

static const struct option_row ROWS[] = {
    {.flag = "node",
     .letter = 'w',
     .verbs = "push",
     .type = OPTION_STRING,
     .arg = "NODES",
     .offset = offsetof(struct push_flags, node),
     .marks = OPTION_NO_ENV,
     .help = "Only to these nodes, such as gpu[01-04]."},
    {.flag = "to",
     .verbs = "push",
     .type = OPTION_STRING,
     .text = "files",
     .arg = "DIR",
     .offset = offsetof(struct push_flags, to),
     .marks = OPTION_NO_ENV,
     .help = "Destination folder on the nodes; relative to dtctl's folder there unless it starts "
             "with / or ~/."},
    {.flag = "with",
     .verbs = "push",
     .type = OPTION_STRING,
     .arg = "nccl=FILE",
     .offset = offsetof(struct push_flags, with),
     .marks = OPTION_NO_ENV,
     .help =
         "Send a library that dttrain-cuda loads and dtctl does not carry: NCCL's libnccl.so.2, "
         "2.18 or newer. It goes beside the programs, where dttrain-cuda finds it; another "
         "one replaces it."},
    {.flag = "replace",
     .verbs = "push",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct push_flags, replace),
     .marks = OPTION_NO_ENV,
     .help = "Make the destination folder equal to the files sent; other files in it are removed."},
    {.flag = "all-files",
     .verbs = "push",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct push_flags, all_files),
     .marks = OPTION_NO_ENV,
     .help = "Also send .git and files that .dtctlignore leaves out."},
    {.flag = "exclude",
     .verbs = "push",
     .type = OPTION_LIST,
     .arg = "PATTERN",
     .offset = offsetof(struct push_flags, exclude),
     .marks = OPTION_NO_ENV,
     .help = "Leave out files that match a pattern, written as a line of .dtctlignore; may be "
             "repeated."},
};
static const struct option_table TABLE = {"Push", ROWS, sizeof ROWS / sizeof ROWS[0]};

// The destination of this push.
static const char *destination(const struct push_flags *f) {
    return f->with && *f->with ? PUSH_WITH_FOLDER : f->to;
}

static int check_arguments(const struct cli_rest *rest, const struct push_flags *f, struct err *e) {
    if (!f->with || !*f->with)
        return rest->count ? 0 : err_set(e, ERR_USAGE, "push: PATH is missing");
    if (rest->count || f->replace || strcmp(f->to, "files") != 0)
        return err_set(e, ERR_USAGE,
                       "push --with takes neither PATH nor --to nor --replace: a library has its "
                       "own place");
    return 0;
}

static int add_paths(struct manifest *m, const struct cli_rest *rest, const struct push_flags *f,
                     struct err *e) {
    if (f->with && *f->with)
        return push_with_add(m, f->with, e);
    struct manifest_rules rules = {.ignore_default = !f->all_files, .ignore = f->exclude.items};
    for (size_t i = 0; i < rest->count; i++) {
        const char *path = rest->args[i], *base = file_base(path);
        struct stat st;
        if (stat(path, &st) < 0)
            return err_errno(e, ERR_NOT_FOUND, "'%s'", path);
        // "DIR/" and "." give their content, "DIR" itself, as rsync does.
        bool content =
            S_ISDIR(st.st_mode) && (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0);
        if (manifest_add_path(m, path, content ? "" : base, &rules, e) < 0)
            return err_wrap(e, "'%s'", path);
    }
    return 0;
}

// Prints the size of a large upload before it begins, and asks for confirmation on a terminal.
static int confirm(struct context *s, const struct manifest *m, size_t nodes, struct err *e) {
    char size[STR_HUMAN_BYTES_MAX];
    screen_note(s->screen, "%zu file%s, %s, to %zu node%s%s", m->files, str_plural(m->files),
                str_human_bytes(size, m->bytes), nodes, str_plural(nodes),
                m->ignored ? "; ignored paths are left out" : "");
    if (m->bytes < (uint64_t)LARGE_BYTES_MIB << 20 || s->config->dry_run || !context_can_ask(s))
        return 0;
    int yes = context_ask(s, "continue?", e);
    return yes ? (yes > 0 ? 0 : -1) : err_set(e, ERR_FAILED, "nothing was sent");
}

static int dry_run(struct context *s, const struct manifest *m, size_t nodes, const char *to) {
    char size[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "would-push");
    json_str(&j, "to", to);
    json_int(&j, "nodes", (int64_t)nodes);
    json_int(&j, "files", (int64_t)m->files);
    json_int(&j, "bytes", (int64_t)m->bytes);
    json_int(&j, "ignored", (int64_t)m->ignored);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "would send %zu file%s, %s, to '%s' of %zu node%s\n", m->files,
               str_plural(m->files), str_human_bytes(size, m->bytes), to, nodes, str_plural(nodes));
    return 0;
}

// The node refuses it as well; here it is known before anything is read.
static int check_to(const char *to, struct err *e) {
    struct arena a = {0};
    char **parts;
    size_t count = str_split(&a, to, '/', &parts);
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        if (str_eq(parts[i], ".."))
            result =
                err_set(e, ERR_USAGE, "--to '%s' leads through '..'; name the folder itself", to);
    arena_fini(&a);
    return result;
}

static void show(struct context *s, const struct transfer_totals *t) {
    char all[STR_HUMAN_BYTES_MAX], sent[STR_HUMAN_BYTES_MAX], wire[STR_HUMAN_BYTES_MAX];
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "pushed");
    json_int(&j, "files", (int64_t)t->files_all);
    json_int(&j, "bytes", (int64_t)t->bytes_all);
    json_int(&j, "files_sent", (int64_t)t->files);
    json_int(&j, "bytes_sent", (int64_t)t->bytes);
    json_int(&j, "bytes_wire", (int64_t)t->bytes_wire);
    screen_event_end(s->screen, &text, &j);
    screen_out(s->screen, "%zu file%s, %s in place; sent %zu file%s, %s, %s on the wire\n",
               t->files_all, str_plural(t->files_all), str_human_bytes(all, t->bytes_all), t->files,
               str_plural(t->files), str_human_bytes(sent, t->bytes),
               str_human_bytes(wire, t->bytes_wire));
}

static int push(struct context *s, struct manifest *m, const struct cli_rest *rest,
                const struct push_flags *f, struct err *e) {
    struct inventory inv;
    struct fleet fleet;
    struct transfer_totals totals = {0};
    size_t *indices = NULL, count = 0;
    const char *to = destination(f);
    if (check_arguments(rest, f, e) < 0 || check_to(to, e) < 0 ||
        cluster_load(&s->cluster, &inv, e) < 0 ||
        inventory_select(s->arena, &inv, f->node, &indices, &count, e) < 0 ||
        add_paths(m, rest, f, e) < 0)
        return -1;
    if (s->config->dry_run)
        return dry_run(s, m, count, to);
    if (confirm(s, m, count, e) < 0)
        return -1;
    struct hashing hashing;
    if (hashing_start(&hashing, s, m, e) < 0)
        return -1;
    fleet_open(&fleet, s, &inv, indices, count);
    fleet.transfers = true;
    struct manifest **all = arena_new(s->arena, struct manifest *, count + 1);
    for (size_t i = 0; i < count; i++)
        all[i] = m;
    int result = fleet_connect(&fleet, true, e);
    if (result == 0)
        result = hashing_finish(&hashing, e);
    else
        hashing_cancel(&hashing);
    if (result == 0)
        result = fleet_send_manifests(&fleet, "push", all, to,
                                      f->replace ? XFER_REPLACE : XFER_MERGE, &totals, e);
    fleet_report(&fleet);
    if (result == 0)
        result = fleet_verdict(&fleet, "push", e);
    fleet_close(&fleet);
    if (result == 0)
        show(s, &totals);
    return result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    struct manifest *m = manifest_new();
    int result = push(s, m, rest, flags, e);
    manifest_free(m);
    return result;
}

const struct command cmd_push = {
    .verb =
        {.name = "push",
         .summary = "send files to the nodes",
         .args = "PATH… | --with nccl=FILE",
         .text =
             "Sends files and folders to every node. Only content that a node lacks is sent; the "
             "node verifies every file by hash. For a folder with a slash at its end, push sends "
             "its content. A folder '.dtctl' is never sent, since it holds the keys to the nodes.",
         .examples = "dtctl push data/ --to inputs/data   # the content of data\n"
                     "dtctl push model.pt --to ~/   # to the login folder\n"
                     "dtctl push --with nccl=/usr/lib/x86_64-linux-gnu/libnccl.so.2\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct push_flags),
    .args_max = 65536,
    .run = run,
};
