// SPDX-License-Identifier: Apache-2.0
// Shares one copy of the AWS provider, several hundred megabytes, among all clusters of this user.
//
// Terraform downloads and verifies the provider according to the user's configuration. A package
// that Terraform has unpacked moves into the cache by one rename, so a stored package is always
// complete. The cluster's folder gets a link, as from a mirror of Terraform. Later clusters are
// initialised from the cache without a network. Terraform's own cache is unsafe with concurrent
// use, so it is used only when the user has configured it.
//
//     ~/.cache/dtctl/terraform/registry.terraform.io/hashicorp/aws/5.100.0/linux_amd64/
#include "terraform/terraform.h"

#include "base/env.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FETCH_PAUSE_MS = 500, FETCH_MS_MAX = 1800000, COPY_MS_MAX = 600000 };

#ifdef __aarch64__
#define PLATFORM "linux_arm64"
#else
#define PLATFORM "linux_amd64"
#endif

// Paths of Terraform's registry and of OpenTofu's.
static const char *const PACKAGES[] = {
    "registry.terraform.io/hashicorp/aws/" TERRAFORM_PROVIDER_VERSION "/" PLATFORM,
    "registry.opentofu.org/hashicorp/aws/" TERRAFORM_PROVIDER_VERSION "/" PLATFORM,
};
enum { PACKAGE_COUNT = sizeof PACKAGES / sizeof PACKAGES[0] };

static bool has_package(struct arena *a, const char *folder) {
    for (size_t i = 0; i < PACKAGE_COUNT; i++)
        if (access(file_join(a, folder, PACKAGES[i]), X_OK) == 0)
            return true;
    return false;
}

static const char *providers_of(const struct terraform *t, const char *root) {
    return arena_printf(t->context->arena, "%s/%s/.terraform/providers", t->folder, root);
}

bool terraform_plugin_cache_serves(const struct terraform *t, const char *root) {
    return has_package(t->context->arena, providers_of(t, root));
}

// Files of the cache are executed, so no other user may own or write them.
static bool is_ours(const char *folder) {
    struct stat st;
    return stat(folder, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

static const char *cache_folder(const struct terraform *t) {
    struct arena *a = t->context->arena;
    char *const *env = t->context->env;
    const char *name = strstr(file_base(t->program), "tofu") ? "dtctl/tofu" : "dtctl/terraform";
    const char *cache = env_get(env, "XDG_CACHE_HOME"), *home = env_get(env, "HOME"), *own;
    const char *others = env_get(env, "TF_PLUGIN_CACHE_DIR");
    struct err ignored = {0};
    if (others && *others)
        return NULL;
    if (!cache || cache[0] != '/')
        cache = home && home[0] == '/' ? file_join(a, home, ".cache") : NULL;
    own = cache ? file_join(a, cache, name) : NULL;
    return own && file_make_dirs(own, 0700, &ignored) == 0 && is_ours(own) ? own : NULL;
}

int terraform_plugin_cache_open(struct terraform_plugin_cache *cache, struct terraform *t,
                                struct err *e) {
    struct context *s = t->context;
    *cache = (struct terraform_plugin_cache){.terraform = t, .lock = -1, .folder = cache_folder(t)};
    if (!cache->folder)
        return 0;
    const char *path = file_join(s->arena, cache->folder, "lock");
    for (int64_t waited = 0; !has_package(s->arena, cache->folder); waited += FETCH_PAUSE_MS) {
        err_clear(e);
        if (waited > FETCH_MS_MAX || file_lock(path, "fetching", 0, &cache->lock, e) == 0 ||
            e->code != ERR_BUSY)
            break; // without the lock two commands may download; one copy is kept
        if (waited == 0)
            screen_note(s->screen, "another dtctl downloads AWS's provider; waiting for it");
        if (context_pause(s, FETCH_PAUSE_MS, e) < 0)
            return err_set(e, ERR_INTERRUPTED,
                           "stopped while another dtctl downloads the provider");
    }
    err_clear(e);
    if (has_package(s->arena, cache->folder))
        cache->option = arena_printf(s->arena, "-plugin-dir=%s", cache->folder);
    return 0;
}

// Copies the package when the cache is on another file system.
static bool copy(char *const *env, const char *from, const char *to) {
    const char *const argv[] = {"cp", "-R", "--", from, to, NULL};
    struct proc_spec spec = {
        .argv = argv, .env = env, .in = -1, .err = -1, .parent_death_signal = SIGKILL};
    struct err ignored = {0};
    char *said = NULL;
    int status = 0;
    bool done = proc_run(&spec, &said, FILE_PATH_BYTES_MAX, COPY_MS_MAX, &status, &ignored) == 0 &&
                status == 0;
    free(said);
    return done;
}

// Copies to a temporary name first: an interrupted copy is replaced by the next one.
static bool move(struct context *s, const char *package, const char *stored) {
    struct err ignored = {0};
    struct arena *a = s->arena;
    const char *beside = arena_printf(a, "%s.new", stored);
    if (file_make_dirs(file_dir(a, stored), 0700, &ignored) < 0 ||
        file_sync_disk(package, &ignored) < 0)
        return false;
    if (rename(package, stored) == 0 || errno == ENOTEMPTY || errno == EEXIST)
        return true;
    return errno == EXDEV && file_remove_tree(beside, &ignored) == 0 &&
           copy(s->env, package, beside) && file_sync_disk(beside, &ignored) == 0 &&
           rename(beside, stored) == 0;
}

void terraform_plugin_cache_keep(struct terraform_plugin_cache *cache, const char *root) {
    struct arena *a = cache->terraform->context->arena;
    for (size_t i = 0; cache->folder && i < PACKAGE_COUNT; i++) {
        const char *package = file_join(a, providers_of(cache->terraform, root), PACKAGES[i]);
        const char *stored = file_join(a, cache->folder, PACKAGES[i]);
        struct err e = {0};
        struct stat st;
        if (lstat(package, &st) < 0 || !S_ISDIR(st.st_mode)) // a link leads to a mirror or a cache
            continue;
        if (cache->lock < 0 || !move(cache->terraform->context, package, stored) ||
            access(stored, X_OK) < 0)
            log_debug("the provider stays in the cluster's folder", "folder=%s", package);
        else if (file_remove_tree(package, &e) < 0 || symlink(stored, package) < 0)
            log_warn("the provider in the cluster's folder cannot be replaced by a link to the "
                     "cache; the next command makes it again",
                     "folder=%s", package);
    }
}

void terraform_plugin_cache_close(struct terraform_plugin_cache *cache) {
    if (cache->lock >= 0)
        close(cache->lock);
    cache->lock = -1;
}
