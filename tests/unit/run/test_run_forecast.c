// SPDX-License-Identifier: Apache-2.0
// The needs of a run come from the trainer that dtctl carries: its words, its settings, its
// variables, and what its status means. A shell script is the trainer.
#include "run/run_forecast.h"

#include "fleet/embedded_files.h"
#include "tests/tap.h"

#include <zstd.h>

enum { ROOM = 4096 };

// In place of the table that the build makes.
extern struct embed_file embed_files[2];
struct embed_file embed_files[2];
static unsigned char frame[ROOM];

static struct arena a;
static struct config config;
static struct err e;
static char path[] = "PATH=/usr/bin:/bin", old[] = "DTCTL_INPUT_OLD=kept", code[16];
static char *env[] = {path, old, code, NULL};
static struct context context = {.arena = &a, .config = &config, .env = env};
static struct run_start_input inputs[] = {
    {.name = "one", .source = "/data/one"},
    {.name = "two-b", .source = "/data/two"},
    {.name = "three", .source = "/data/three"},
};
static struct run_start start = {.context = &context, .inputs = inputs, .input_count = 3};
static const char *out;

static void carry(const char *script) {
    unsigned char digest[HASH_BYTES];
    size_t len = strlen(script), n = ZSTD_compress(frame, ROOM, script, len, 1);
    if (ZSTD_isError(n))
        bail_out("%s", ZSTD_getErrorName(n));
    embed_files[0] =
        (struct embed_file){.name = "dttrain", .data = frame, .size_packed = n, .size = len};
    hash_of(digest, script, len);
    hash_hex(embed_files[0].sha256, digest);
}

// The trainer ends with that status.
static int forecast(bool json, int status) {
    snprintf(code, sizeof code, "CODE=%d", status);
    out = "before";
    err_clear(&e);
    return run_forecast(&start, json, &out, &e);
}

static void test_answer(void) {
    carry("#!/bin/sh\nshift\necho \"words: $*\" | sed 's|/proc/self/fd/[0-9]*|FILE|'\ncat \"$1\"\n"
          "env | sort | grep ^DTCTL\nexit $CODE\n");
    start.run = (struct run){.nproc = "4", .nodes_max = 3};
    is_int(forecast(false, 0), 0, "the trainer answers: %s", e.text);
    has_str(out, "words: FILE --plan --ranks 12 --ranks-per-node 4\n", "all ranks are asked for");
    has_str(out, "\n[train]\n", "the trainer reads the settings");
    has_str(out, "epochs = 77\n", "the settings are those of the run");
    has_str(out,
            "DTCTL_INPUT_OLD=kept\nDTCTL_INPUT_ONE=/data/one\nDTCTL_INPUT_THREE=/data/three\n"
            "DTCTL_INPUT_TWO_B=/data/two\n",
            "each input has its variable, beside those of the user");
    is_int(forecast(true, 0), 0, "the trainer answers in JSON");
    has_str(out, "--ranks-per-node 4 --json\n", "JSON is asked for");
    start.run = (struct run){.nproc = "auto", .nodes_max = 2};
    is_int(forecast(false, 0), 0, "the number of ranks of a node is not known");
    has_str(out, "--ranks 2 --ranks-per-node 1\n", "a node has one rank then");
    start.run.nproc = "1";
    start.run.nodes_max = 1;
    start.input_count = 0;
    is_int(forecast(false, 0), 0, "a run has one rank and no input");
    has_str(out, "--ranks 1 --ranks-per-node 1\n", "one rank is asked for");
    ok(!strstr(out, "DTCTL_INPUT_ONE"), "no input has no variable");
}

static void test_errors(void) {
    is_int(forecast(false, 1), -1, "a trainer that fails has no answer");
    ok(!out && e.code == ERR_FAILED, "the failure is no refusal");
    has_str(e.text, "ended with status 1", "the error has the status");
    is_int(forecast(false, err_status(ERR_CONFIG)), -1, "a trainer refuses the settings");
    ok(!out && e.code == ERR_CONFIG, "the settings are at fault");
    has_str(e.text, "refuses", "the error says that the trainer refuses");
    carry("#!/bin/sh\nkill -9 $$\n");
    is_int(forecast(false, 0), -1, "a trainer that is killed has no answer");
    has_str(e.text, "status 137", "the error has the status of the signal");
    carry("#!/nonexistent/sh\n");
    is_int(forecast(false, 0), -1, "a program that cannot run has no answer");
    ok(!out, "no text is left");
    carry("");
    is_int(forecast(false, 0), -1, "an empty program cannot run");
    carry("#!/bin/sh\n");
    embed_files[0].sha256[0] ^= 1;
    is_int(forecast(false, 0), -1, "a damaged program is not run");
    is_int(e.code, ERR_HASH, "a damaged program has another hash");
    embed_files[0].name = "dtrun";
    is_int(forecast(false, 0), -1, "without the trainer there is no answer");
    has_str(e.text, "carries no native trainer", "the error says what is missing");
}

int main(void) {
    config_open(&config, &a, "dtctl", NULL);
    option_set_text(&config.set, "train.epochs=77", (struct option_place){0});
    test_answer();
    test_errors();
    arena_fini(&a);
    return done_testing();
}
