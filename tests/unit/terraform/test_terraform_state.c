// SPDX-License-Identifier: Apache-2.0
// `state pull` of a program that stands in for Terraform: its state, its failure, its half output.
#include "sys/file.h"
#include "terraform/terraform.h"
#include "tests/tap.h"

#include <sys/stat.h>
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

// Runs terraform_state with this script as the program; returns its result.
static int pull(const char *script, bool explains, struct terraform_state *out) {
    static char *env[] = {NULL};
    struct terraform_cloud cloud = {.explain = explains ? explained : not_explained};
    struct context context = {.arena = &a};
    struct terraform t = {.context = &context,
                          .cloud = &cloud,
                          .program = file_join(&a, dir, "terraform"),
                          .folder = dir,
                          .log_path = file_join(&a, dir, "log"),
                          .env = env};
    const char *text = arena_printf(&a, "#!/bin/sh\n%s\n", script);
    if (file_write_atomic(t.program, text, strlen(text), 0755, &e) < 0)
        bail_out("%s", e.text);
    e = (struct err){0};
    *out = (struct terraform_state){.count = 77};
    return terraform_state(&t, "infra", out, &e);
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
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
