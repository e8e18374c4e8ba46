// SPDX-License-Identifier: Apache-2.0
// The destination of a push. Folders are compared by device and inode, independent of spelling,
// links and bind mounts.
#include "node/push_destination.h"

#include "base/env.h"
#include "base/str.h"
#include "sys/file.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PEOPLE_UID_MIN = 1000, NOBODY_UID = 65534 };

static const char *home_folder(char *const *env) {
    const char *home = env_get(env, "HOME");
    return home && *home ? home : "/";
}

char *push_destination_path(struct arena *a, char *const *env, const char *root,
                            const char *given) {
    if (str_eq(given, "~"))
        return arena_strdup(a, home_folder(env));
    return str_starts(given, "~/") ? file_join(a, home_folder(env), given + 2)
                                   : file_join(a, root, given);
}

// Normalises a path without "." and empty components; NULL if it contains "..".
static char *tidy(struct arena *a, const char *path) {
    char **parts, *out = arena_strdup(a, "");
    size_t count = str_split(a, path, '/', &parts);
    for (size_t i = 0; i < count; i++) {
        if (str_eq(parts[i], ".."))
            return NULL;
        if (*parts[i] && !str_eq(parts[i], "."))
            out = arena_printf(a, "%s/%s", out, parts[i]);
    }
    return *out ? out : arena_strdup(a, "/");
}

static bool is_folder(const struct stat *folder, const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == folder->st_dev && st.st_ino == folder->st_ino;
}

// True when the folder is this path or one of its parents.
static bool leads_to(const struct stat *folder, const char *path) {
    char *real = path ? realpath(path, NULL) : NULL;
    bool hit = real && (is_folder(folder, "/") || is_folder(folder, real));
    for (char *slash; real && !hit && (slash = strrchr(real, '/')) && slash > real;) {
        *slash = '\0';
        hit = is_folder(folder, real);
    }
    free(real);
    return hit;
}

// Checks homes of users and root; those of services may be managed by an operator.
static bool leads_to_a_home(const struct stat *folder, char *const *env) {
    bool hit = leads_to(folder, home_folder(env));
    setpwent();
    for (struct passwd *p; !hit && (p = getpwent());)
        if (p->pw_uid == 0 || (p->pw_uid >= PEOPLE_UID_MIN && p->pw_uid != NOBODY_UID))
            hit = leads_to(folder, p->pw_dir);
    endpwent();
    return hit;
}

static bool is_kept(struct arena *a, const struct stat *folder, const char *root) {
    static const char *const own[] = {"bin", "cas", "inputs", "runs", "setup", "envs", NULL};
    for (const char *const *p = own; *p; p++)
        if (is_folder(folder, file_join(a, root, *p)))
            return true;
    return leads_to(folder, root);
}

char *push_destination(struct arena *a, char *const *env, const char *root, const char *given,
                       bool replace, struct err *e) {
    struct stat st;
    char *path = tidy(a, push_destination_path(a, env, root, given));
    if (!path) {
        (void)err_set(e, ERR_CONFIG, "'%s' leads through '..'; name the folder itself", given);
        return NULL;
    }
    if (!replace || stat(path, &st) < 0)
        return path;
    if (leads_to_a_home(&st, env))
        (void)err_set(e, ERR_CONFIG,
                      "refusing to replace the whole folder '%s': it is or holds a home folder",
                      path);
    else if (is_kept(a, &st, root))
        (void)err_set(e, ERR_CONFIG,
                      "refusing to replace the whole folder '%s': dtctl keeps its own things there",
                      path);
    else
        return path;
    return NULL;
}
