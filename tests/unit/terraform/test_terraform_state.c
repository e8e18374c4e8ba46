// SPDX-License-Identifier: Apache-2.0
// A program that stands in for Terraform: what `state pull` gives, whole, failed or half; a signal
// as it ends.
#include "sys/file.h"
#include "terraform/terraform.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[] = "/tmp/test_terraform_state.XXXXXX";
static struct arena a;
static struct err e;

static bool not_explained(const struct context *s, const char *words, struct err *why) {
    (void)s, (void)words, (void)why;
    return false;
}

static bool explained(const struct context *s, const char *words, struct err *why) {
    (void)s;
    if (!strstr(words, "NoSuchBucket"))
        return false;
    err_set(why, ERR_NOT_FOUND, "no bucket");
    return true;
}

// A Terraform with this script as the program.
static struct terraform stand_in(struct context *context, const struct terraform_cloud *cloud,
                                 const char *script) {
    static char *env[] = {NULL};
    struct terraform t = {.context = context,
                          .cloud = cloud,
                          .program = file_join(&a, dir, "terraform"),
                          .folder = dir,
                          .log_path = file_join(&a, dir, "log"),
                          .env = env};
    const char *text = arena_printf(&a, "#!/bin/sh\n%s\n", script);
    if (file_write_atomic(t.program, text, strlen(text), 0755, &e) < 0)
        bail_out("%s", e.text);
    e = (struct err){0};
    return t;
}

// Runs terraform_state with this script as the program; returns its result.
static int pull(const char *script, bool explains, struct terraform_state *out) {
    struct terraform_cloud cloud = {.explain = explains ? explained : not_explained};
    struct context context = {.arena = &a};
    struct terraform t = stand_in(&context, &cloud, script);
    *out = (struct terraform_state){.count = 77};
    return terraform_state(&t, "infra", out, &e);
}

static struct loop *loop;

// Runs in each turn of the loop. The signal comes in the turn that has seen the end of the program.
static void on_turn(struct timer *t) {
    siginfo_t info;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD)
        raise(SIGINT);
    else
        timer_start(loop, t, 0, on_turn);
}

static void late_signal(void) {
    static const char *const args[] = {"apply", NULL};
    struct terraform_cloud cloud = {.explain = not_explained};
    struct screen screen;
    struct timer turns = {0};
    struct terraform_result result;
    screen_init(&screen, 1, 2, SCREEN_PLAIN, true);
    loop = loop_open(&e);
    struct context context = {.arena = &a, .screen = &screen, .loop = loop};
    if (!loop || context_signals(&context, &e) < 0)
        bail_out("no loop: %s", e.text);
    struct terraform t = stand_in(&context, &cloud, "exit 0");
    timer_start(loop, &turns, 0, on_turn);
    is_int(terraform_run(&t, "infra", args, NULL, NULL, &result, &e), 0, "a program runs");
    is_int(result.status, 0, "the program ends well");
    ok(!result.interrupted, "a signal after the end of the program does not interrupt it");
    is_int(context_check(&context, &e), -1, "a signal after the end stops the next step");
    is_int(e.code, ERR_INTERRUPTED, "the step says that it was interrupted");
    timer_stop(&turns);
    loop_close(loop);
}

int main(void) {
    static const char STATE[] = "echo '{\"version\":4,\"resources\":[{\"mode\":\"managed\","
                                "\"type\":\"aws_vpc\",\"name\":\"x\",\"instances\":[{"
                                "\"attributes\":{\"id\":\"vpc-1\"}}]}]}'";
    struct terraform_state s;
    if (!mkdtemp(dir))
        bail_out("mkdtemp");
    is_int(pull(STATE, false, &s), 0, "a state is pulled: %s", e.text);
    is_uint(s.count, 1, "the state has its resource");
    is_int(pull("exit 0", false, &s), 0, "a state without output is accepted");
    is_uint(s.count, 0, "no output is an empty state");
    const char *failed = arena_printf(&a, "%s; echo 'NoSuchBucket' >&2; exit 3", STATE);
    is_int(pull(failed, false, &s), -1, "a state of a program that fails is no state");
    has_str(e.text, "status 3", "the error has the status");
    has_str(e.text, "/log", "the error has the path of the log");
    is_int(pull(failed, true, &s), -1, "the cloud explains the failure");
    is_str(e.text, "no bucket", "the cloud's words are the error");
    is_int(pull("echo '{'", false, &s), -1, "half a state is refused");
    late_signal();
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
