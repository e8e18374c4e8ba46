// SPDX-License-Identifier: Apache-2.0
// Checks and unpacks the archive of a Python environment.
#include "content/env_archive.h"

#include "base/str.h"
#include "content/archive_pass.h"
#include "content/member_names.h"
#include "content/tree_writer.h"

#include <string.h>

// ---- names --------------------------------------------------------------------------------------

// The length of "NAME/" in front of a path; 0: the path has one component.
static size_t first_part(const char *path) {
    const char *slash = strchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

// ---- checking -----------------------------------------------------------------------------------

struct check {
    struct archive_pass pass;
    struct env_archive *out;
    struct member_names names;
    char top[256];                  // first component of the first member
    bool some, one_top;             // some: a member was seen; one_top: all are below `top`
    bool bin, below_bin;            // bin/… at the front, and below one folder
    bool venv, below_venv;          // the same of pyvenv.cfg
    char rises[TAR_PATH_BYTES_MAX]; // a link that may not rise as far when there is a top; "": none
};

static void look_at_top(struct check *c) {
    const char *name = c->pass.name;
    size_t len = first_part(name);
    size_t named = len ? len - 1 : strlen(name);
    if (!c->some) {
        memcpy(c->top, name, named); // a component has at most 255 bytes
        c->top[named] = 0;
        c->one_top = true;
    }
    c->some = true;
    c->one_top &= strlen(c->top) == named && memcmp(c->top, name, named) == 0 &&
                  (len || c->pass.entry.type == TAR_FOLDER);
    c->bin |= str_starts(name, "bin/");
    c->below_bin |= len && str_starts(name + len, "bin/");
    c->venv |= strcmp(name, "pyvenv.cfg") == 0;
    c->below_venv |= len && strcmp(name + len, "pyvenv.cfg") == 0;
}

// bin/python3 -> /usr/bin/python3.11
static bool is_interpreter(const struct check *c) {
    const char *name = c->pass.name, *target = c->pass.entry.link;
    size_t len = str_starts(name, "bin/") ? 0 : first_part(name);
    return str_starts(name + len, "bin/python") && !strchr(name + len + 4, '/') &&
           target[0] == '/' && file_is_safe_relative(target + 1, strlen(target + 1)) &&
           str_starts(file_base(target), "python");
}

static int look_at_symlink(struct check *c, struct err *e) {
    const char *name = c->pass.name, *target = c->pass.entry.link;
    if (!target[0])
        return archive_pass_refuse(&c->pass, e, "is a link to nothing");
    if (is_interpreter(c)) {
        memcpy(c->out->interpreter, target, strlen(target) + 1);
        return 0;
    }
    if (!manifest_link_stays(name, target))
        return archive_pass_refuse(&c->pass, e, "is a link that leads out of its folder");
    if (!manifest_link_stays(name + first_part(name), target) && !c->rises[0])
        memcpy(c->rises, name, strlen(name) + 1);
    return 0;
}

static int look_at_hard_link(struct check *c, const char *target, struct err *e) {
    return file_is_safe_relative(target, strlen(target))
               ? 0
               : archive_pass_refuse(&c->pass, e, "is a link that leads out of its folder");
}

static int look(struct check *c, struct err *e) {
    const struct tar_entry *entry = &c->pass.entry;
    if (!c->pass.name[0])
        return 0;
    look_at_top(c);
    const char *target = entry->type == TAR_HARD_LINK ? archive_pass_plain(c->pass.entry.link) : "";
    if ((entry->type == TAR_SYMLINK && look_at_symlink(c, e) < 0) ||
        (entry->type == TAR_HARD_LINK && look_at_hard_link(c, target, e) < 0) ||
        member_names_add(&c->names, c->pass.name, entry->type, target, e) < 0)
        return -1;
    return archive_pass_count(&c->pass, e);
}

// The rules that need the whole archive.
static int conclude(struct check *c, struct err *e) {
    bool top = !c->bin && c->one_top && c->below_bin;
    if (!c->bin && !top)
        return err_set(
            e, ERR_FORMAT,
            "it has no folder bin (try: conda-pack -o env.tar.zst, or tar -C VENV --zstd "
            "-cf env.tar.zst .)");
    c->out->top_len = top ? strlen(c->top) + 1 : 0;
    if (top && c->rises[0])
        return err_set(e, ERR_FORMAT, "member '%s' is a link that leads out of its folder",
                       c->rises);
    if (c->out->interpreter[0] && !(top ? c->below_venv : c->venv))
        return err_set(e, ERR_FORMAT,
                       "bin/python is a link to '%s', and without pyvenv.cfg it is no venv",
                       c->out->interpreter);
    return 0;
}

static int check(struct check *c, struct err *e) {
    int r;
    *c->out = (struct env_archive){0};
    while ((r = archive_pass_next(&c->pass, e)) > 0)
        if ((r = look(c, e)) < 0)
            break;
    member_names_fini(&c->names);
    c->out->total = c->pass.total;
    return r < 0 ? -1 : conclude(c, e);
}

int env_archive_check_input(struct tar_input *in, struct env_archive *out, content_tick *tick,
                            void *ctx, struct err *e) {
    struct check c = {.pass = {.ticks = {tick, ctx}}, .out = out};
    tar_open_input(&c.pass.tar, in);
    int rc = check(&c, e);
    tar_close(&c.pass.tar);
    return rc;
}

int env_archive_check(const char *path, struct env_archive *out, content_tick *tick, void *ctx,
                      struct err *e) {
    struct check c = {.pass = {.ticks = {tick, ctx}}, .out = out};
    if (tar_open(&c.pass.tar, path, e) < 0)
        return -1;
    int rc = check(&c, e);
    tar_close(&c.pass.tar);
    return rc < 0 ? err_wrap(e, "'%s'", path) : 0;
}

// ---- unpacking ----------------------------------------------------------------------------------

struct unpack {
    struct archive_pass pass;
    const struct env_archive *facts;
    struct place place;
};

static int unpack(struct unpack *u, const char *dest, struct err *e) {
    int r;
    if (tree_open(&u->place, dest, true, e) < 0)
        return -1;
    while ((r = archive_pass_next(&u->pass, e)) > 0)
        if (archive_pass_write(&u->pass, &u->place, u->facts->top_len, "", e) < 0)
            return -1;
    return r < 0 || file_sync_disk(u->place.staging, e) < 0 ? -1 : tree_switch(&u->place, e);
}

int env_archive_unpack(const char *path, const struct env_archive *facts, const char *dest,
                       content_tick *tick, void *ctx, struct err *e) {
    struct unpack u = {.pass = {.ticks = {tick, ctx}}, .facts = facts, .place = PLACE_CLOSED};
    if (tar_open(&u.pass.tar, path, e) < 0)
        return -1;
    int rc = unpack(&u, dest, e);
    tree_close(&u.place);
    tar_close(&u.pass.tar);
    return rc < 0 ? err_wrap(e, "'%s'", path) : 0;
}
