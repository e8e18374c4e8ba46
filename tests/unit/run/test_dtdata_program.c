// SPDX-License-Identifier: Apache-2.0
// dtdata from memory: its words, its lines and its end, waited for or beside a loop. A shell script
// is the program.
#include "fleet/embedded_files.h"
#include "run/dtdata.h"
#include "run/dtdata_beside.h"

#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

enum { ROOM = 4096, BYTES_MAX = 1000 };

// In place of the table that the build makes.
extern struct embed_file embed_files[2];
struct embed_file embed_files[2];
static unsigned char frame[ROOM];

static struct arena a;
static struct config config;
static struct err e;
static char path[] = "PATH=/usr/bin:/bin", *env[] = {path, NULL};
static struct context context = {.arena = &a, .config = &config, .env = env};

// A script is opened by its shell, once more, where a program needs no second look.
int test_memfd(const char *name, unsigned flags) __asm__("memfd_create");

int test_memfd(const char *name, unsigned flags) {
    return (int)syscall(SYS_memfd_create, name, flags & ~MFD_CLOEXEC);
}

static void carry(const char *script) {
    unsigned char digest[HASH_BYTES];
    const char *whole = arena_printf(&a, "#!/bin/sh\n%s\n", script);
    size_t len = strlen(whole), n = ZSTD_compress(frame, ROOM, whole, len, 1);
    if (ZSTD_isError(n))
        bail_out("%s", ZSTD_getErrorName(n));
    embed_files[0] =
        (struct embed_file){.name = DTDATA_PROGRAM, .data = frame, .size_packed = n, .size = len};
    hash_of(digest, whole, len);
    hash_hex(embed_files[0].sha256, digest);
}

// ---- waited for ---------------------------------------------------------------------------------

static uint64_t seen_done, seen_total;

static void on_progress(void *ctx, uint64_t done, uint64_t total) {
    ok(ctx == &seen_done, "the caller's context comes along");
    seen_done = done;
    seen_total = total;
}

static const char *const WORDS[] = {"list", "two words", NULL};
static char *text; // of the last run

static int run_within(const char *script, int64_t ms_max) {
    const struct dtdata_call call = {.args = WORDS, .bytes_max = BYTES_MAX, .ms_max = ms_max};
    carry(script);
    free(text);
    text = NULL;
    err_clear(&e);
    return dtdata_run(&context, &call, &text, &e);
}

static int run(const char *script) {
    return run_within(script, 0);
}

static void test_words(void) {
    is_int(run("shift 0; for w; do echo \"<$w>\"; done"), 0, "the program runs: %s", e.text);
    is_str(text, "<--asks>\n<list>\n<two words>\n", "the program gets its words");
    is_int(run("printf 'one\\ntwo'"), 0, "the last line may have no end");
    is_str(text, "one\ntwo", "the last line is kept");
    is_int(run("echo \"$PATH\""), 0, "the program has an environment");
    is_str(text, "/usr/bin:/bin\n", "the environment is that of the context");
}

static void test_input(void) {
    struct dtdata_call call = {.args = WORDS, .bytes_max = BYTES_MAX};
    int ends[2];
    if (pipe(ends) < 0 || write(ends[1], "given\n", 6) != 6)
        bail_out("pipe");
    close(ends[1]);
    call.in = ends[0];
    carry("cat");
    free(text);
    is_int(dtdata_run(&context, &call, &text, &e), 0, "the program reads its input");
    is_str(text, "given\n", "the bytes are those of the caller");
    close(ends[0]);
}

static void test_questions(void) {
    is_int(
        run("echo '{\"ask\":\"account\"}'; read -r x; echo \"$x\"; echo '{\"account\":{\"k\":1}}'"),
        0, "the program asks for the account: %s", e.text);
    is_str(text, "{}\n", "no account is known, and lines about it are no text");
    is_int(run("echo '{\"ask\":\"account\"}'; read -r x; echo \"$x\""), 0,
           "the program asks again");
    is_str(text, "{\"k\":1}\n", "the account that another program found is known");
    is_int(run("echo '{\"ask\":7}'; echo '{\"account\":7}'; echo '{\"done\":1x}'"), 0,
           "the program prints other lines");
    is_str(text, "{\"ask\":7}\n{\"account\":7}\n", "lines that ask for nothing are text");
}

static void test_profile(void) {
    option_set_text(&config.set, "cluster.provider=aws", (struct option_place){0});
    option_set_text(&config.set, "aws.profile=mine", (struct option_place){0});
    is_int(run("echo \"$*\""), 0, "an account may have a profile: %s", e.text);
    is_str(text, "--asks --profile mine list two words\n", "the profile goes before the words");
    option_set_text(&config.set, "aws.profile=", (struct option_place){0});
    is_int(run("echo \"$*\""), 0, "an account may have none");
    is_str(text, "--asks list two words\n", "no profile has no word");
}

static void test_progress(void) {
    const struct dtdata_call call = {
        .args = WORDS, .bytes_max = BYTES_MAX, .on_progress = on_progress, .ctx = &seen_done};
    carry(
        "echo before; echo '{\"done\":3,\"total\":7}'; echo '{\"done\":'; echo after; sleep 0.01");
    free(text);
    is_int(dtdata_run(&context, &call, &text, &e), 0, "the program shows its progress");
    is_str(text, "before\nafter\n", "lines of progress are no text");
    ok(seen_done == 3 && seen_total == 7, "the caller sees the progress");
}

static void test_limit(void) {
    is_int(run("i=0; while [ $i -lt 10 ]; do printf '%099d\\n' 0; i=$((i+1)); done"), 0,
           "as many bytes as the limit are taken: %s", e.text);
    is_uint(strlen(text), BYTES_MAX, "every byte is there");
    is_int(run("i=0; while [ $i -lt 10 ]; do printf '%099d\\n' 0; i=$((i+1)); done; echo"), -1,
           "a byte more is refused");
    is_int(e.code, ERR_LIMIT, "a byte more is an error of limits");
    clock_ahead_ms = 0;
    is_int(run_within("exec sleep 77", 1), -1, "a program that takes too long is killed");
    is_int(e.code, ERR_TIMEOUT, "the time of a program is over");
    clock_stop();
}

// ---- errors -------------------------------------------------------------------------------------

static void test_errors(void) {
    is_int(run("echo line; echo '{\"event\":\"error\",\"code\":\"auth\",\"text\":\"no key\"}'; "
               "exit 3"),
           -1, "the program fails");
    ok(e.code == ERR_AUTH && strcmp(e.text, "no key") == 0, "the error is that of the program");
    has_str(text, "line\n", "lines before the error are kept");
    is_int(run("echo '{\"event\":\"error\",\"code\":\"odd\"}'; exit 1"), -1, "the error is odd");
    ok(e.code == ERR_FAILED && strstr(e.text, "gives no reason"), "an odd error is a failure");
    is_int(run("exit 7"), -1, "the program ends with a status");
    has_str(e.text, "ended with status 7", "the error has the status");
    is_int(run("exec >&-; sleep 0.02; exit 7"), -1, "the program ends after its output");
    has_str(e.text, "ended with status 7", "the program is left to end by itself");
    is_int(run("kill -9 $$"), -1, "the program is killed");
    has_str(e.text, "ended with status 137", "the error has the signal's status");
    is_int(run("echo '{\"event\":\"error\",'; exit 5"), -1, "the error's line is cut");
    has_str(e.text, "status 5", "a line that is cut is no error");
    is_int(run("echo '{\"event\":\"error\",\"code\":\"auth\",\"text\":\"x\"}'; exit 0"), 0,
           "a program that ends well has no error");
    carry("true");
    embed_files[0].sha256[0] ^= 1;
    const struct dtdata_call call = {.args = WORDS, .bytes_max = BYTES_MAX};
    free(text);
    is_int(dtdata_run(&context, &call, &text, &e), -1, "a damaged program does not run");
    ok(e.code == ERR_HASH && !*text, "a damaged program has another hash, and no text");
    embed_files[0].name = "other";
    free(text);
    is_int(dtdata_run(&context, &call, &text, &e), -1, "an absent program does not run");
    has_str(e.text, "carries no dtdata", "the error names the program");
}

static void test_account(void) {
    struct dtdata_account x = {0};
    carry("[ \"$2\" = account ] && echo '{\"from\":\"a file\",\"region\":\"eu\",\"ends\":5}'");
    is_int(dtdata_account(&context, &x, &e), 0, "the account is asked for: %s", e.text);
    ok(strcmp(x.from, "a file") == 0 && strcmp(x.region, "eu") == 0 && x.ends_ms == 5,
       "the account has its source, region and end");
    carry("echo '{}'");
    is_int(dtdata_account(&context, &x, &e), 0, "an account may say nothing");
    ok(strcmp(x.from, "?") == 0 && strcmp(x.region, "?") == 0 && x.ends_ms == 0,
       "an account that says nothing is unknown");
    carry("echo no");
    is_int(dtdata_account(&context, &x, &e), -1, "an answer that is no JSON is refused");
}

// ---- beside a loop ------------------------------------------------------------------------------

static struct {
    int ends;
    const char *text;
    struct err e;
} beside;

static void on_end(struct dtdata_beside *d, const struct strbuf *out, const struct err *why) {
    ok(!dtdata_beside_runs(d), "a program that has ended does not run");
    beside.ends++;
    beside.text = arena_strndup(&a, out->data ? out->data : "", out->len);
    beside.e = *why;
    loop_stop(context.loop);
}

static void start_beside(struct dtdata_beside *d, const char *script) {
    const struct dtdata_call call = {.args = WORDS, .bytes_max = BYTES_MAX, .ms_max = 10000};
    carry(script);
    beside.ends = 0;
    err_clear(&e);
    if (dtdata_beside_start(d, &context, &call, on_end, &e) < 0)
        bail_out("%s", e.text);
    ok(dtdata_beside_runs(d), "a program runs beside the loop");
}

static void test_beside(void) {
    struct dtdata_beside d = {0};
    dtdata_beside_stop(&d);
    start_beside(&d, "echo one; echo '{\"done\":1,\"total\":2}'; echo two");
    loop_run(context.loop);
    ok(beside.ends == 1 && beside.e.code == ERR_NONE, "the program ends once: %s", beside.e.text);
    is_str(beside.text, "one\ntwo\n", "the text of the program is there");
    start_beside(&d, "echo '{\"event\":\"error\",\"code\":\"auth\",\"text\":\"far\"}'; exit 1");
    loop_run(context.loop);
    ok(beside.e.code == ERR_AUTH && strcmp(beside.e.text, "far") == 0,
       "the error of the program is there");
    start_beside(&d, "head -c 1001 /dev/zero; exec sleep 77");
    loop_run(context.loop);
    is_int(beside.e.code, ERR_LIMIT, "a program that prints too much is killed");
    start_beside(&d, "echo '{\"ask\":\"code\"}'; read -r x; echo \"$x\"");
    loop_run(context.loop);
    is_str(beside.text, "{}\n", "the user is not asked by a program beside the loop");
    start_beside(&d, "exec sleep 77");
    clock_turn(context.loop, 9900);
    is_int(beside.ends, 0, "a program has its time");
    clock_turn(context.loop, 100);
    for (int i = 0; i < 600 && !beside.ends; i++)
        loop_once(context.loop, 50);
    is_int(beside.e.code, ERR_TIMEOUT, "a program that takes longer is killed");
    has_str(beside.e.text, "within 10 s", "the error has the limit");
    start_beside(&d, "exec sleep 77");
    pid_t pid = d.program.pid;
    dtdata_beside_stop(&d);
    ok(!dtdata_beside_runs(&d) && kill(pid, 0) < 0, "a program that is stopped is gone");
    loop_once(context.loop, 0);
    is_int(beside.ends, 0, "a program that is stopped does not call back");
}

int main(void) {
    config_open(&config, &a, "dtctl", NULL);
    if (!(context.loop = loop_open(&e)))
        bail_out("%s", e.text);
    test_words();
    test_input();
    test_questions();
    test_profile();
    test_progress();
    test_limit();
    test_errors();
    test_account();
    test_beside();
    free(text);
    loop_close(context.loop);
    arena_fini(&a);
    return done_testing();
}
