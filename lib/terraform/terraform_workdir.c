// SPDX-License-Identifier: Apache-2.0
// Terraform's working folder: the module embedded in dtctl, the place of its state, and whether
// `init` must run (again).
#include "terraform/terraform.h"

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "fleet/embedded_files.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAMP_BYTES_MAX = 4096 };

static const char *folder_of(struct context *s) {
    return file_join(s->arena, s->cluster.dir, "terraform");
}

const char *terraform_vars_path(struct context *s) {
    return file_join(s->arena, folder_of(s), "infra/terraform.tfvars.json");
}

bool terraform_was_used(struct context *s) {
    return !file_is_absent(terraform_vars_path(s));
}

// ---- the environment ---------------------------------------------------------------------------

// The caller's environment without variables that would change the meaning of these calls.
char **terraform_env(struct context *s, const struct terraform_settings *set) {
    static const char *const dropped[] = {
        "TF_CLI_ARGS", "TF_WORKSPACE=", "TF_DATA_DIR=", "TF_VAR_", "TF_INPUT=", "AWS_PROFILE=",
        NULL};
    struct arena *a = s->arena;
    size_t n = 0, count = 0;
    while (s->env[count])
        count++;
    char **env = arena_new(a, char *, count + 7);
    for (size_t i = 0; i < count; i++) {
        bool drop = false;
        for (size_t k = 0; dropped[k]; k++)
            drop |= str_starts(s->env[i], dropped[k]);
        if (!drop)
            env[n++] = s->env[i];
    }
    env[n++] = arena_strdup(a, "TF_IN_AUTOMATION=1");
    env[n++] = arena_strdup(a, "CHECKPOINT_DISABLE=1");
    // The lock file belongs to dtctl's own folder; a cache that the user has configured works
    // without it.
    env[n++] = arena_strdup(a, "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=1");
    if (!env_get(s->env, "GOGC")) // AWS's provider spends a third of its time on garbage collection
        env[n++] = arena_strdup(a, "GOGC=400");
    if (set->profile[0])
        env[n++] = arena_printf(a, "AWS_PROFILE=%s", set->profile);
    return env;
}

// ---- the module --------------------------------------------------------------------------------

static bool is_module_file(const char *name) {
    return str_starts(name, "infra/") || str_starts(name, "cloud-init/");
}

// One hash of all embedded files, by name and content.
static size_t hash_module(char hex[HASH_HEX_BYTES]) {
    unsigned char digest[HASH_BYTES];
    const struct embed_file *file;
    struct hash h;
    size_t files = 0;
    hash_init(&h);
    for (size_t i = 0; (file = embedded_at(i)); i++) {
        if (!is_module_file(file->name))
            continue;
        hash_add(&h, file->name, strlen(file->name) + 1);
        hash_add(&h, file->sha256, sizeof file->sha256);
        files++;
    }
    hash_final(&h, digest);
    hash_hex(hex, digest);
    return files;
}

static int unpack_module(struct terraform *t, struct err *e) {
    const struct embed_file *file;
    int result = 0;
    for (size_t i = 0; result == 0 && (file = embedded_at(i)); i++) {
        struct arena a = {0};
        if (is_module_file(file->name)) {
            const char *path = file_join(&a, t->folder, file->name);
            const void *data = embedded_unpack(&a, file, e);
            if (!data || file_make_dirs(file_dir(&a, path), 0700, e) < 0 ||
                file_write_atomic(path, data, file->size, 0600, e) < 0)
                result = -1;
        }
        arena_fini(&a);
    }
    return result;
}

// A relative path from a root to the state, since a cluster's folder may be moved or restored from
// a copy.
static const char *state_from(struct arena *a, const char *root, const char *name) {
    const char *up = "../";
    for (const char *p = root; *p; p++)
        if (*p == '/')
            up = arena_printf(a, "%s../", up);
    return arena_printf(a, "%s%s.tfstate", up, name);
}

static int write_backend(struct terraform *t, const char *root, const char *text, struct err *e) {
    const char *path =
        arena_printf(t->context->arena, "%s/%s/backend_override.tf.json", t->folder, root);
    return file_write_atomic(path, text, strlen(text), 0600, e);
}

static int run_init(struct terraform *t, const char *root, const char *option, struct err *e) {
    const char *args[] = {"init", "-no-color", "-input=false", "-reconfigure", option, NULL};
    struct terraform_result r;
    const char *words;
    if (terraform_run_words(t, root, args, &words, &r, e) < 0)
        return -1;
    if (r.status == 0)
        return 0;
    if (!r.interrupted && t->cloud->explain(t->context, words, e))
        return -1;
    terraform_failure(t, &r, "preparing terraform (init)", e);
    if (!r.interrupted && strstr(r.problem, "provider"))
        err_wrap(e, "without internet, terraform needs the provider "
                    "hashicorp/aws " TERRAFORM_PROVIDER_VERSION
                    " in a mirror that its configuration (TF_CLI_CONFIG_FILE) names");
    return -1;
}

static int init(struct terraform *t, const char *root, struct err *e) {
    struct terraform_plugin_cache cache;
    if (terraform_plugin_cache_open(&cache, t, e) < 0)
        return -1;
    int result = run_init(t, root, cache.option, e);
    if (result < 0 && cache.option &&
        strstr(e->text, "provider")) { // the stored provider does not suit this program
        err_clear(e);
        result = run_init(t, root, NULL, e);
    }
    if (result == 0)
        terraform_plugin_cache_keep(&cache, root);
    terraform_plugin_cache_close(&cache);
    return result;
}

// True when the folder was made by this dtctl version, with this program and place of the state,
// and its provider still exists.
static bool is_current(struct terraform *t, const char *stamp_path, const char *stamp) {
    struct err ignored = {0};
    char *text;
    size_t len;
    return file_read(t->context->arena, stamp_path, STAMP_BYTES_MAX, &text, &len, &ignored) == 0 &&
           strcmp(text, stamp) == 0 && terraform_plugin_cache_serves(t, "infra");
}

// Refuses a changed backend: Terraform would start with an empty state and lose its resources.
static int check_backend(struct terraform *t, const char *text, struct err *e) {
    const char *path = file_join(t->context->arena, t->folder, "infra/backend_override.tf.json");
    char *before;
    size_t len;
    if (file_is_absent(path) || file_is_absent(t->vars_path))
        return 0;
    if (file_read(t->context->arena, path, STAMP_BYTES_MAX, &before, &len, e) < 0)
        return -1;
    if (strcmp(before, text) == 0)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "%s: the cluster exists, and its state is elsewhere; set it back, or bring the "
                   "cluster down with the old setting first",
                   config_where(t->context->config, "aws.state"));
}

static int make_anew(struct terraform *t, const char *backend, struct err *e) {
    struct arena *a = t->context->arena;
    char *vars = NULL;
    size_t len = 0;
    // The variables keep earlier choices; all other files in these folders are replaced.
    if (file_exists(t->vars_path) &&
        file_read(a, t->vars_path, TERRAFORM_VARS_BYTES_MAX, &vars, &len, e) < 0)
        return -1;
    const char *saved = file_join(a, t->folder, "terraform.tfvars.saved");
    if (vars && file_write_atomic(saved, vars, len, 0600, e) < 0)
        return -1;
    if (file_remove_tree(file_join(a, t->folder, "infra"), e) < 0 ||
        file_remove_tree(file_join(a, t->folder, "cloud-init"), e) < 0 || unpack_module(t, e) < 0 ||
        write_backend(t, "infra", backend, e) < 0)
        return -1;
    if (file_exists(saved) && file_read(a, saved, TERRAFORM_VARS_BYTES_MAX, &vars, &len, e) == 0 &&
        file_write_atomic(t->vars_path, vars, len, 0600, e) == 0)
        unlink(saved);
    return init(t, "infra", e);
}

int terraform_folder_fill(struct terraform *t, const char *region, struct err *e) {
    struct context *s = t->context;
    struct strbuf backend = {0};
    char module[HASH_HEX_BYTES];
    if (hash_module(module) == 0)
        return err_set(e, ERR_FAILED, "this dtctl carries no infra/: it was built without it");
    if (file_make_dirs(t->folder, 0700, e) < 0)
        return -1;
    t->cloud->backend(&backend, s, region, state_from(s->arena, "infra", "terraform"));
    const char *text = arena_strdup(s->arena, strbuf_cstr(&backend));
    strbuf_fini(&backend);
    const char *stamp_path = file_join(s->arena, t->folder, "stamp");
    struct stat st = {0}; // detects a replaced program file
    (void)stat(t->program, &st);
    const char *stamp =
        arena_printf(s->arena, "%s\n%s %" PRId64 " %" PRId64 "\n%s", module, t->program,
                     (int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, text);
    if (is_current(t, stamp_path, stamp))
        return 0;
    const char *version;
    struct terraform_settings set = t->cloud->settings(s->config);
    if (check_backend(t, text, e) < 0 || terraform_version(s, &set, t->program, &version, e) < 0)
        return -1;
    log_debug("preparing terraform's folder", "folder=%s version=%s", t->folder, version);
    if (unlink(stamp_path) < 0 && file_exists(stamp_path))
        return err_errno(e, ERR_SYS, "cannot remove '%s'", stamp_path);
    if (make_anew(t, text, e) < 0)
        return -1;
    return file_write_atomic(stamp_path, stamp, strlen(stamp), 0600, e);
}

int terraform_folder_root(struct terraform *t, const char *root, const char *state_name,
                          struct err *e) {
    struct arena *a = t->context->arena;
    struct strbuf backend = {0};
    const char *ready = arena_printf(a, "%s/%s/.terraform/terraform.tfstate", t->folder, root);
    t->cloud->backend(&backend, t->context, NULL, state_from(a, root, state_name));
    int result = write_backend(t, root, strbuf_cstr(&backend), e);
    strbuf_fini(&backend);
    if (result < 0 || (file_exists(ready) && terraform_plugin_cache_serves(t, root)))
        return result;
    return init(t, root, e);
}

int terraform_open(struct terraform *t, struct context *s, const struct terraform_cloud *cloud,
                   const char *region, struct err *e) {
    *t = (struct terraform){.context = s, .cloud = cloud, .folder = folder_of(s)};
    t->log_path = file_join(s->arena, t->folder, "terraform.log");
    t->state_path = file_join(s->arena, t->folder, "terraform.tfstate");
    t->vars_path = terraform_vars_path(s);
    struct terraform_settings set = cloud->settings(s->config);
    if (terraform_program(s, &set, &t->program, e) < 0)
        return -1;
    t->env = terraform_env(s, &set);
    return terraform_folder_fill(t, region, e);
}
