// SPDX-License-Identifier: Apache-2.0
// Terraform is a script that prints what the test has laid down, and pauses pass at once: for
// modules that drive Terraform.
//
//     fake_terraform_open(&context, &terraform);        // cluster's folder below a temporary one
//     fake_terraform_says("state-infra", text, 0); // each `state pull` in infra, and its status
//     fake_terraform_says("apply-1", lines, 1);    // the first apply …
//     is_str(fake_terraform_calls(), "apply …\n", …); fake_terraform_close();
#ifndef DTCTL_TESTS_UNIT_TERRAFORM_FAKE_H
#define DTCTL_TESTS_UNIT_TERRAFORM_FAKE_H

#include "sys/file.h"
#include "terraform/terraform.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <signal.h>
#include <unistd.h>

static char fake_folder[] = "/tmp/dtctl-terraform.XXXXXX";
static struct arena fake_arena;
static int fake_pauses;         // so many were made, each with its time
static int fake_stops_in_pause; // the user presses Ctrl-C in this pause; 0: never

// ---- in place of the context --------------------------------------------------------------------

int context_interrupt(struct context *s) {
    return s->interrupt;
}

int context_take_interrupt(struct context *s) {
    int signal = s->interrupt;
    s->interrupt = 0;
    return signal;
}

int context_check(struct context *s, struct err *e) {
    return s->interrupt ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

int context_pause(struct context *s, int64_t ms, struct err *e) {
    clock_ahead_ms += ms;
    if (++fake_pauses == fake_stops_in_pause)
        s->interrupt = SIGINT;
    return context_check(s, e);
}

// ---- the script ---------------------------------------------------------------------------------

static const char *fake_in(const char *name) {
    return file_join(&fake_arena, fake_folder, name);
}

TAP_UNUSED static const char *fake_text(const char *name) {
    char *text;
    size_t len;
    struct err e = {0};
    return file_read(&fake_arena, fake_in(name), 16 << 20, &text, &len, &e) < 0 ? NULL : text;
}

static void fake_put(const char *name, const char *text, unsigned mode) {
    struct err e = {0};
    if (file_write_atomic(fake_in(name), text, strlen(text), mode, &e) < 0)
        bail_out("%s", e.text);
}

TAP_UNUSED static void fake_terraform_says(const char *name, const char *text, int status) {
    fake_put(name, text, 0600);
    fake_put(arena_printf(&fake_arena, "%s.status", name),
             arena_printf(&fake_arena, "%d\n", status), 0600);
}

// All calls since the last one, without -chdir; applies and plans have the root in front, and their
// variables are kept as vars-1 … With a file "wait" an apply ends by SIGINT alone; while there is a
// file "deaf" it does not end at all.
TAP_UNUSED static const char *fake_terraform_calls(void) {
    const char *text = fake_text("calls");
    unlink(fake_in("calls"));
    return text ? text : "";
}

// The next apply is number 1 again.
TAP_UNUSED static void fake_terraform_begin(void) {
    unlink(fake_in("calls"));
    unlink(fake_in("count"));
    fake_pauses = fake_stops_in_pause = 0;
}

TAP_UNUSED static void fake_terraform_open(struct context *s, struct terraform *t) {
    static const char script[] = "#!/bin/sh\n"
                                 "here=${0%/*} dir=${1#-chdir=} && shift\n"
                                 "root=${dir##*/}\n"
                                 "[ ! -e $here/deaf ] || trap '' INT\n"
                                 "say() {\n"
                                 "    [ ! -s $here/$1 ] || cat $here/$1\n"
                                 "    [ ! -e $here/$1.err ] || cat $here/$1.err >&2\n"
                                 "    s=0\n"
                                 "    [ ! -e $here/$1.status ] || read s <$here/$1.status\n"
                                 "    exit $s\n"
                                 "}\n"
                                 "case $1 in\n"
                                 "init) say init ;;\n"
                                 "state) say state-$root ;;\n"
                                 "force-unlock) echo $* >>$here/calls; say $4 ;;\n"
                                 "esac\n"
                                 "echo $root: $* >>$here/calls\n"
                                 "n=0\n"
                                 "[ ! -e $here/count ] || read n <$here/count\n"
                                 "n=$((n + 1))\n"
                                 "echo $n >$here/count\n"
                                 "v=$dir/terraform.tfvars.json\n"
                                 "for w; do [ $w = ${w#-var-file=} ] || v=${w#*=}; done\n"
                                 "[ ! -e $v ] || cp $v $here/vars-$n\n"
                                 "[ ! -e $here/wait ] || exec sleep 100\n"
                                 "while [ -e $here/deaf ]; do sleep 0.02; done\n"
                                 "say apply-$n\n";
    static char path[] = "PATH=/usr/bin:/bin";
    static char *env[] = {path, NULL};
    struct err e = {0};
    if (!mkdtemp(fake_folder) || cluster_open(&s->cluster, s->arena, fake_folder, "c", &e) < 0)
        bail_out("no folder: %s", e.text);
    fake_put("terraform", script, 0755);
    s->env = env;
    s->loop = loop_open(&e);
    if (!s->loop)
        bail_out("%s", e.text);
    t->context = s;
    t->program = fake_in("terraform");
    t->folder = file_join(&fake_arena, s->cluster.dir, "terraform");
    t->log_path = file_join(&fake_arena, t->folder, "terraform.log");
    t->state_path = file_join(&fake_arena, t->folder, "terraform.tfstate");
    t->vars_path = file_join(&fake_arena, t->folder, "infra/terraform.tfvars.json");
    t->env = env;
    if (file_make_dirs(file_join(&fake_arena, t->folder, "infra/sweep"), 0700, &e) < 0)
        bail_out("%s", e.text);
}

TAP_UNUSED static void fake_terraform_close(struct context *s) {
    struct err e = {0};
    loop_close(s->loop);
    cluster_close(&s->cluster);
    file_remove_tree(fake_folder, &e);
    arena_fini(&fake_arena);
}

#endif
