// SPDX-License-Identifier: Apache-2.0
// Terraform (or OpenTofu) as the client of AWS's API: found on PATH, given the module that dtctl
// carries, started in a process group of its own, its lines turned into events.
//
//     struct terraform t;
//     terraform_open(&t, context, &cloud, region, e);
//     terraform_apply(&t, "infra", args, on_line, ctx, &result, e);
//     if (result.status != 0) … result.problem, t.log_path
//
// Everything lies in .dtctl/<cluster>/terraform/: infra/ and cloud-init/ as they are in dtctl,
// terraform.tfstate, terraform.log. Its output goes to that log and is read from there, so that a
// dtctl that dies takes nothing with it: Terraform goes on and records what it made.
//
// It keeps the log locked as long as it lives, so a later dtctl knows whether it still works. The
// state has a lock of its own (in S3: for all who share it): apply says who holds it, and waits.
//
// Terraform is never killed. The first interrupt of dtctl is passed on as one SIGINT, upon which it
// ends what is under way and records it; further ones only say so.
#ifndef TERRAFORM_TERRAFORM_H
#define TERRAFORM_TERRAFORM_H

#include "terraform/terraform_output.h"
#include "ui/context.h"

#include <stdbool.h>
#include <stdint.h>

#define TERRAFORM_PROVIDER_VERSION "5.100.0" // infra/versions.tf

enum { TERRAFORM_LOCK_TIMEOUT_S = 120, TERRAFORM_PROBLEM_BYTES_MAX = 1500 };
enum { TERRAFORM_VARS_BYTES_MAX = 8 << 20 };

// What this layer does not know of the cloud whose resources the module describes.
struct terraform_cloud {
    // backend_override.tf.json: where the state is. region NULL: in the local file `path`, whatever
    // the configuration says.
    void (*backend)(struct strbuf *out, const struct context *s, const char *region,
                    const char *path);
    // Whether these words of a command that failed are about the place of the state: *e then says
    // what is wrong with it, and what to do.
    bool (*explain)(const struct context *s, const char *words, struct err *e);
};

struct terraform {
    struct context *context;
    const struct terraform_cloud *cloud;
    const char *program;
    const char *folder; // <cluster>/terraform
    const char *log_path, *state_path, *vars_path;
    char **env;
    int64_t spent_ms; // in Terraform, altogether
};

typedef void terraform_on_line(void *ctx, const struct terraform_line *l);

#define TERRAFORM_NOT_LOCKED "Error acquiring the state lock"

struct terraform_result {
    int status;                 // as a shell has it
    bool interrupted;           // a signal was passed on
    const char *problem;        // of the first error, "" when there was none; context's arena
    const struct json *outputs; // NULL: none
    int64_t add, change, remove;
    bool diagnosed;             // problem is Terraform's own, not words of a program around it
    bool not_locked;            // it did not get the state's lock, and has done nothing
    struct terraform_lock lock; // id not "": somebody else works on the state, so it failed
};

// Whether anything was ever made from here: then the folder has variables.
bool terraform_was_used(struct context *s);
const char *terraform_vars_path(struct context *s);
// The program that aws.terraform names, else terraform or tofu on PATH. terraform_program.c
int terraform_program(struct context *s, const char **program, struct err *e);
// The environment that it runs in; context's arena. terraform_workdir.c
char **terraform_env(struct context *s);
// Its version; ERR_CONFIG, which names it, when it will not do. Both in the context's arena.
int terraform_version(struct context *s, const char *program, const char **version, struct err *e);
// Finds the program; makes the folder what it should be, and `init` where that changed it.
int terraform_open(struct terraform *t, struct context *s, const struct terraform_cloud *cloud,
                   const char *region, struct err *e);
// root is "infra" or "infra/sweep"; args come after -chdir and end with NULL. 0 when it ran to its
// end, whatever that was; -1 when it could not be started.
int terraform_run(struct terraform *t, const char *root, const char *const *args,
                  terraform_on_line *on_line, void *ctx, struct terraform_result *out,
                  struct err *e);
// The same; what it said to people, line by line, is in *words (the context's arena).
int terraform_run_words(struct terraform *t, const char *root, const char *const *args,
                        const char **words, struct terraform_result *out, struct err *e);
// The same for `apply` with what every apply has, waiting for the state's lock; further ends with
// NULL, or is NULL. Marks the folder as unclean meanwhile, and keeps a copy of the local state.
int terraform_apply(struct terraform *t, const char *root, const char *const *further,
                    terraform_on_line *on_line, void *ctx, struct terraform_result *out,
                    struct err *e);
// Waits until no Terraform of an earlier command works in this folder; ERR_BUSY after
// TERRAFORM_LOCK_TIMEOUT_S.
int terraform_settle(struct terraform *t, struct err *e);
// Who holds the lock of a state in S3; out->id "": nobody.
int terraform_locked(struct terraform *t, const char *root, struct terraform_lock *out,
                     struct err *e);
// Whether that can only have been a Terraform of this folder that was killed: the lock is of this
// user and computer, and came into being with the apply that left the folder unclean.
bool terraform_lock_is_left(const struct terraform *t, const struct terraform_lock *lock);
int terraform_unlock(struct terraform *t, const char *root, const struct terraform_lock *lock,
                     struct err *e);
// "ann@laptop (apply, since 2026-01-02T03:04:05Z)", and how to end it by hand.
const char *terraform_lock_words(const struct terraform *t, const struct terraform_lock *lock);
const char *terraform_lock_remedy(const struct terraform *t, const struct terraform_lock *lock);

// Something was going on when a dtctl or a Terraform was killed: what it made may be unrecorded.
bool terraform_is_unclean(const struct terraform *t);
void terraform_set_clean(const struct terraform *t);
// Reads the state wherever it is (`state pull`).
int terraform_state(struct terraform *t, const char *root, struct terraform_state *out,
                    struct err *e);
// The result as an error: what failed, Terraform's words, and where all of them are.
int terraform_failure(const struct terraform *t, const struct terraform_result *r, const char *what,
                      struct err *e);

// The words of a line that says what went wrong; NULL when it says something else.
const char *terraform_problem(struct arena *a, const struct terraform_line *l);

// AWS's provider, once for all clusters of this user. terraform_store.c
struct terraform_store {
    struct terraform *terraform;
    const char *folder; // NULL: there is none
    const char *option; // of init, to take the provider from there; NULL: it is not there
    int lock;           // held while it is fetched; -1: not held
};
// Waits while another dtctl fetches it. keep comes after a good init, close in any case.
int terraform_store_open(struct terraform_store *store, struct terraform *t, struct err *e);
void terraform_store_keep(struct terraform_store *store, const char *root);
void terraform_store_close(struct terraform_store *store);
// Whether the provider of this root is where its folder says.
bool terraform_store_serves(const struct terraform *t, const char *root);

// The folder's contents. terraform_workdir.c
int terraform_folder_fill(struct terraform *t, const char *region, struct err *e);
// Of a root other than the cluster's own: its state is <folder>/<name>.tfstate.
int terraform_folder_root(struct terraform *t, const char *root, const char *state_name,
                          struct err *e);

#endif
