// SPDX-License-Identifier: Apache-2.0
// Finds the program and checks its version.
#include "terraform/terraform.h"

#include "base/env.h"
#include "base/json.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION_MS_MAX = 60000, VERSION_BYTES_MAX = 65536 };

// The minimum version is also in infra/versions.tf and infra/sweep/versions.tf. A lock beside the
// state in S3 needs a later version.
enum { MAJOR = 1, MINOR_MIN = 7, MINOR_S3_MIN = 10 };

static const char *on_path(struct context *s, const char *name) {
    struct arena *a = s->arena;
    const char *path = env_get(s->env, "PATH");
    char **folders = NULL;
    size_t count = str_split(a, path ? path : "/usr/local/bin:/usr/bin:/bin", ':', &folders);
    for (size_t i = 0; i < count; i++) {
        const char *file = file_join(a, folders[i][0] ? folders[i] : ".", name);
        if (access(file, X_OK) == 0)
            return file;
    }
    return NULL;
}

int terraform_program(struct context *s, const struct terraform_settings *set, const char **program,
                      struct err *e) {
    const char *wanted = set->program;
    if (wanted[0]) {
        *program = strchr(wanted, '/') ? wanted : on_path(s, wanted);
        if (*program && access(*program, X_OK) == 0)
            return 0;
        return err_set(e, ERR_NOT_FOUND, "%s: there is no program '%s'",
                       config_where(s->config, "aws.terraform"), wanted);
    }
    *program = on_path(s, "terraform");
    if (!*program)
        *program = on_path(s, "tofu");
    if (*program)
        return 0;
    return err_set(
        e, ERR_NOT_FOUND,
        "neither terraform nor tofu is on PATH; provider aws needs one of them: install "
        "OpenTofu or Terraform 1.7 or newer with your system's packages, or put the binary "
        "somewhere and name it in aws.terraform");
}

// The version of `version -json`; NULL: unreadable.
static const char *version_of(struct context *s, const struct terraform_settings *set,
                              const char *program, struct err *e) {
    const char *const argv[] = {program, "version", "-json", NULL};
    struct proc_spec spec = {.argv = argv, .env = terraform_env(s, set), .in = -1, .err = -1};
    struct arena *a = s->arena;
    struct json *said = NULL;
    char *text = NULL;
    int status = 0;
    const char *version = NULL;
    if (proc_run(&spec, &text, VERSION_BYTES_MAX, VERSION_MS_MAX, &status, e) == 0 && status == 0 &&
        json_parse(a, text, strlen(text), &said, e) == 0) {
        version = json_get_str(said, "terraform_version", NULL);
        version = version ? str_printable(a, version, strlen(version)) : NULL;
    }
    free(text);
    err_clear(e);
    return version;
}

int terraform_version(struct context *s, const struct terraform_settings *set, const char *program,
                      const char **version, struct err *e) {
    int major = 0, minor = 0;
    *version = version_of(s, set, program, e);
    if (!*version || sscanf(*version, "%4d.%4d", &major, &minor) != 2)
        return err_set(e, ERR_CONFIG,
                       "'%s version -json' does not say which version of Terraform it is; name the "
                       "program in aws.terraform",
                       program);
    if (major == MAJOR && minor >= (set->in_s3 ? MINOR_S3_MIN : MINOR_MIN))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "'%s' is version %s; dtctl needs %d.%d or newer, and below %d.0%s; install one, "
                   "or name it in aws.terraform",
                   program, *version, MAJOR, set->in_s3 ? MINOR_S3_MIN : MINOR_MIN, MAJOR + 1,
                   set->in_s3 ? " (with aws.state)" : "");
}
