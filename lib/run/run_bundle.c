// SPDX-License-Identifier: Apache-2.0
// The operator's side of env.bundle; lib/node/node_bundle.c is the node's.
#include "content/env_archive.h"
#include "fleet/hashing.h"
#include "fleet/local_work.h"
#include "run/run_start.h"
#include "sys/file.h"

#include <string.h>
#include <sys/stat.h>

static const char KEY[] = "env.bundle.archive";

int run_start_bundle_check(const struct config *c, struct err *e) {
    const char *path = c->job.env_bundle;
    struct tar t;
    struct tar_entry first;
    struct stat st;
    if (!path[0])
        return 0;
    if (stat(path, &st) < 0)
        return err_errno(e, ERR_CONFIG, "%s: '%s'", config_where(c, KEY), path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_CONFIG, "%s: '%s' is no file: an environment is sent as one archive",
                       config_where(c, KEY), path);
    int rc = tar_open(&t, path, e);
    if (rc == 0 && (rc = tar_next(&t, &first, e)) < 0)
        err_wrap(e, "'%s'", path);
    tar_close(&t);
    return rc < 0 ? err_wrap(e, "%s", config_where(c, KEY)) : 0;
}

static int check_archive(struct context *c, const char *path, struct env_archive *facts,
                         struct err *e) {
    struct local_work w;
    local_work_begin(&w, c, "check");
    int rc = env_archive_check(path, facts, w.ticks.tick, w.ticks.ctx, e);
    local_work_end(&w);
    return rc;
}

// Reads all of the archive as nodes will, before they get it; once for each content: the newest one
// that was found to be good is noted in the cluster's folder.
static int check_whole(struct run_start *l, const char *hex, struct err *e) {
    struct context *c = l->context;
    const char *mark = file_join(c->arena, c->cluster.dir, "bundle-checked");
    struct env_archive facts;
    struct err ignored;
    char *known;
    size_t len;
    if (c->config->dry_run) // run_start_bundle_show checks it
        return 0;
    if (file_read(c->arena, mark, HASH_HEX_BYTES, &known, &len, &ignored) == 0 &&
        len == strlen(hex) && memcmp(known, hex, len) == 0)
        return 0;
    if (check_archive(c, l->bundle, &facts, e) < 0)
        return -1;
    return file_write_atomic(mark, hex, strlen(hex), 0600, e);
}

int run_start_bundle(struct run_start *l, struct err *e) {
    struct context *c = l->context;
    const char *path = c->config->job.env_bundle;
    if (!path[0])
        return 0;
    struct manifest *one = manifest_new();
    int rc = manifest_add_path(one, path, JOB_BUNDLE_ARCHIVE, &(struct manifest_rules){0}, e);
    if (rc == 0)
        rc = hashing_run(c, one, e);
    if (rc == 0) {
        struct manifest_entry entry = one->entries[0];
        char *hex = arena_new(c->arena, char, HASH_HEX_BYTES);
        hash_hex(hex, entry.hash);
        entry.path = file_join(c->arena, job_bundle_dir(c->arena, hex), JOB_BUNDLE_ARCHIVE);
        l->bundle = path;
        rc = check_whole(l, hex, e);
        if (rc == 0)
            rc = manifest_append(l->common, &entry, e);
        l->spec.bundle_hash = hex;
        l->setup_dir = run_path(&c->cluster, &l->run, "setup");
    }
    manifest_free(one);
    return rc < 0 ? err_wrap(e, "%s", config_where(c->config, KEY)) : 0;
}

int run_start_bundle_show(struct run_start *l, struct err *e) {
    struct context *c = l->context;
    char size[STR_HUMAN_BYTES_MAX];
    struct env_archive facts;
    struct stat st;
    if (!l->bundle)
        return 0;
    if (stat(l->bundle, &st) < 0)
        return err_errno(e, ERR_CONFIG, "%s: '%s'", config_where(c->config, KEY), l->bundle);
    screen_note(c->screen, "bundle   %s, %s, unpacked once on each node", l->bundle,
                str_human_bytes(size, (uint64_t)st.st_size));
    if (!c->config->dry_run)
        return 0;
    if (check_archive(c, l->bundle, &facts, e) < 0)
        return err_wrap(e, "%s", config_where(c->config, KEY));
    screen_note(c->screen, "           %llu files and folders, %s unpacked",
                (unsigned long long)facts.total.entries, str_human_bytes(size, facts.total.bytes));
    if (facts.interpreter[0])
        screen_note(c->screen, "           a venv: it needs %s on each node", facts.interpreter);
    return 0;
}
