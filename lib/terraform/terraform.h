// SPDX-License-Identifier: Apache-2.0
// Runs Terraform (or OpenTofu) as the client of AWS's API. The program is found on PATH, works on
// the module that dtctl carries, runs in a process group of its own, and its output lines become
// events.
//
//     struct terraform t;
//     terraform_open(&t, context, &cloud, region, e);
//     terraform_apply(&t, "infra", args, on_line, ctx, &result, e);
//     if (result.status != 0) … result.problem, t.log_path
//
// All files are in .dtctl/<cluster>/terraform/: infra/ and cloud-init/ as embedded in dtctl,
// terraform.tfstate, terraform.log. Terraform writes to that log and dtctl reads it. If dtctl dies,
// Terraform therefore continues and records its changes.
//
// Terraform holds a lock on the log as long as it lives, so a later dtctl knows that it still
// works. The state has a lock of its own (with S3, shared by all folders); apply reports its holder
// and waits.
//
// Terraform is never killed. The first interrupt of dtctl is passed on as one SIGINT; Terraform
// then finishes current operations and records them. Further interrupts only print a note.
#ifndef TERRAFORM_TERRAFORM_H
#define TERRAFORM_TERRAFORM_H

#include "terraform/terraform_output.h"
#include "ui/context.h"

#include <stdbool.h>
#include <stdint.h>

#define TERRAFORM_PROVIDER_VERSION "5.100.0" // infra/versions.tf

enum { TERRAFORM_LOCK_TIMEOUT_S = 120, TERRAFORM_PROBLEM_BYTES_MAX = 1500 };
enum { TERRAFORM_VARS_BYTES_MAX = 8 << 20 };

// Of apply. Terraform's own 10 makes the 33 interfaces of a p5 node in four turns; more would only
// meet AWS's limits of requests sooner.
#define TERRAFORM_PARALLELISM "-parallelism=30"

struct terraform;
struct terraform_result;

struct terraform_settings {
    const char *program; // of option aws.terraform; "": terraform or tofu on PATH
    const char *profile; // AWS_PROFILE of Terraform; "": none
    bool in_s3;          // the state
};

// The hooks of the cloud whose resources the module describes.
struct terraform_cloud {
    struct terraform_settings (*settings)(const struct config *c);
    // Writes backend_override.tf.json: the place of the state. region NULL: the local file `path`,
    // whatever the configuration says.
    void (*backend)(struct strbuf *out, const struct context *s, const char *region,
                    const char *path);
    // True when the error text of a failed command concerns the place of the state; *e then names
    // the fault and a remedy.
    bool (*explain)(const struct context *s, const char *words, struct err *e);
    // True when the module refused a setting, before anything was created; *e then names the
    // option.
    bool (*refused)(const struct terraform *t, const struct terraform_result *r, struct err *e);
    // The advice for the error text of a failed command; "": none.
    const char *(*next_step)(const struct context *s, const char *problem);
};

struct terraform {
    struct context *context;
    const struct terraform_cloud *cloud;
    const char *program;
    const char *folder; // <cluster>/terraform
    const char *log_path, *state_path, *vars_path;
    char **env;
    int64_t spent_ms; // total time in Terraform
};

typedef void terraform_on_line(void *ctx, const struct terraform_line *l);

#define TERRAFORM_NOT_LOCKED "Error acquiring the state lock"

struct terraform_result {
    int status;                 // as in a shell
    bool interrupted;           // a signal was passed on
    const char *problem;        // text of the first error, "" when there was none; context's arena
    const struct json *outputs; // NULL: none
    int64_t add, change, remove;
    bool diagnosed;             // problem is a diagnostic of Terraform itself
    bool not_locked;            // the state's lock was not acquired; nothing was done
    struct terraform_lock lock; // id not "": the failure was caused by the holder of this lock
};

// True when the folder has variables, that is, after the first apply from here.
bool terraform_was_used(struct context *s);
const char *terraform_vars_path(struct context *s);
// Finds the program: aws.terraform, else terraform or tofu on PATH. terraform_program.c
int terraform_program(struct context *s, const struct terraform_settings *set, const char **program,
                      struct err *e);
// The environment of Terraform; context's arena. terraform_workdir.c
char **terraform_env(struct context *s, const struct terraform_settings *set);
// Reads its version. ERR_CONFIG, which names the version, when it is unsupported. Strings are in
// the context's arena.
int terraform_version(struct context *s, const struct terraform_settings *set, const char *program,
                      const char **version, struct err *e);
// Finds the program, updates the folder, and runs `init` after a change.
int terraform_open(struct terraform *t, struct context *s, const struct terraform_cloud *cloud,
                   const char *region, struct err *e);
// Runs Terraform. root is "infra" or "infra/sweep"; args follow -chdir and end with NULL. 0 when it
// ran to its end, with success or failure; -1 when it could not be started.
int terraform_run(struct terraform *t, const char *root, const char *const *args,
                  terraform_on_line *on_line, void *ctx, struct terraform_result *out,
                  struct err *e);
// The same; *words (context's arena) receives its human-readable output, line by line.
int terraform_run_words(struct terraform *t, const char *root, const char *const *args,
                        const char **words, struct terraform_result *out, struct err *e);
// Runs `apply` with the common arguments and waits for the state's lock. further ends with NULL, or
// is NULL. Marks the folder as unclean during the run, and keeps a copy of the local state.
int terraform_apply(struct terraform *t, const char *root, const char *const *further,
                    terraform_on_line *on_line, void *ctx, struct terraform_result *out,
                    struct err *e);
// Waits until no Terraform of an earlier command works in this folder; ERR_BUSY after
// TERRAFORM_LOCK_TIMEOUT_S.
int terraform_settle(struct terraform *t, struct err *e);
// The holder of the lock of a state in S3; out->id "": unlocked.
int terraform_locked(struct terraform *t, const char *root, struct terraform_lock *out,
                     struct err *e);
// True when the holder must be a killed Terraform of this folder: the lock belongs to this user and
// computer, and dates from the apply that left the folder unclean.
bool terraform_lock_is_left(const struct terraform *t, const struct terraform_lock *lock);
int terraform_unlock(struct terraform *t, const char *root, const struct terraform_lock *lock,
                     struct err *e);
// Text "ann@laptop (apply, since 2026-01-02T03:04:05Z)", and how to release the lock by hand.
const char *terraform_lock_words(const struct terraform *t, const struct terraform_lock *lock);
const char *terraform_lock_remedy(const struct terraform *t, const struct terraform_lock *lock);

// True when a dtctl or Terraform was killed during a change: resources may be unrecorded.
bool terraform_is_unclean(const struct terraform *t);
void terraform_set_clean(const struct terraform *t);
// Reads the state, local or remote (`state pull`).
int terraform_state(struct terraform *t, const char *root, struct terraform_state *out,
                    struct err *e);
// Formats the result as an error: the failed operation, Terraform's message, the path of the log,
// and the cloud's next step.
int terraform_failure(const struct terraform *t, const struct terraform_result *r, const char *what,
                      struct err *e);

// The error text of a line; NULL when the line reports no error.
const char *terraform_problem(struct arena *a, const struct terraform_line *l);

// The shared copy of the AWS provider of this user. terraform_plugin_cache.c
struct terraform_plugin_cache {
    struct terraform *terraform;
    const char *folder; // NULL: no cache
    const char *option; // option of init to use the cache; NULL: the provider is not stored
    int lock;           // held while the provider is downloaded; -1: not held
};
// Waits while another dtctl downloads the provider. Call _keep after a successful init, _close
// always.
int terraform_plugin_cache_open(struct terraform_plugin_cache *cache, struct terraform *t,
                                struct err *e);
void terraform_plugin_cache_keep(struct terraform_plugin_cache *cache, const char *root);
void terraform_plugin_cache_close(struct terraform_plugin_cache *cache);
// True when the provider of this root is installed.
bool terraform_plugin_cache_serves(const struct terraform *t, const char *root);

// Writes the contents of the folder. terraform_workdir.c
int terraform_folder_fill(struct terraform *t, const char *region, struct err *e);
// For a root other than the cluster's own; its state is <folder>/<name>.tfstate.
int terraform_folder_root(struct terraform *t, const char *root, const char *state_name,
                          struct err *e);

#endif
