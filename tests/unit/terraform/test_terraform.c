// SPDX-License-Identifier: Apache-2.0
// Terraform's calls: its lines, its end, interrupts, locks, and what a failure is called. Terraform
// is a script of the test.
#include "terraform/terraform.h"

#include "tests/unit/said.h"
#include "tests/unit/terraform_fake.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct arena a;
static struct screen screen;
static struct config config;
static struct context context;
static struct terraform terraform;
static struct terraform_result result;
static struct err error;
static int lines;

// ---- the cloud ----------------------------------------------------------------------------------

static const char *explained; // words that concern the place of the state; NULL: none do
static const char *advice = "";
static bool refuses;

static bool explain(const struct context *s, const char *words, struct err *e) {
    (void)s;
    if (!explained || !strstr(words, explained))
        return false;
    (void)err_set(e, ERR_CONFIG, "the bucket is missing");
    return true;
}

static bool refused(const struct terraform *t, const struct terraform_result *r, struct err *e) {
    (void)t, (void)r;
    if (refuses)
        (void)err_set(e, ERR_CONFIG, "aws.zones: no");
    return refuses;
}

static const char *next_step(const struct context *s, const char *problem) {
    (void)s, (void)problem;
    return advice;
}

static const struct terraform_cloud cloud = {
    .explain = explain, .refused = refused, .next_step = next_step};

// ---- calls --------------------------------------------------------------------------------------

static void begin(void) {
    fake_terraform_begin();
    said_clear();
    err_clear(&error);
    context.interrupt = 0;
    explained = NULL;
    advice = "";
    refuses = false;
    lines = 0;
}

static void on_line(void *ctx, const struct terraform_line *l) {
    (void)ctx, (void)l;
    lines++;
}

static int run(const char *text, int status) {
    static const char *const args[] = {"plan", NULL};
    begin();
    fake_terraform_says("apply-1", text, status);
    return terraform_run(&terraform, "infra", args, on_line, NULL, &result, &error);
}

static const char *problem(const char *severity, const char *summary, const char *detail) {
    return arena_printf(&a,
                        "{\"type\":\"diagnostic\",\"diagnostic\":{\"severity\":\"%s\","
                        "\"summary\":\"%s\",\"detail\":\"%s\"}}\n",
                        severity, summary, detail);
}

static void test_lines(void) {
    is_int(run("{\"type\":\"version\"}\n"
               "{\"type\":\"change_summary\",\"changes\":{\"add\":1,\"change\":2,\"remove\":3}}\n"
               "{\"type\":\"outputs\",\"outputs\":{\"n\":{\"value\":\"v\"}}}\n"
               "last line",
               0),
           0, "terraform runs: %s", error.text);
    is_int(lines, 4, "each line is passed on, also an incomplete one at the end");
    is_int(result.status, 0, "the status is read");
    is_str(result.problem, "", "there is no problem");
    ok(result.add == 1 && result.change == 2 && result.remove == 3, "changes are counted");
    const struct json *v = terraform_line_output(result.outputs, "n");
    ok(v && str_eq(v->str, "v"), "outputs outlive the call");
    is_str(fake_terraform_calls(), "infra: plan\n", "terraform has its words");
    is_int(run("one\n", 0), 0, "terraform runs again");
    is_int(lines, 1, "lines of earlier calls in the log are not read again");
    size_t most = TERRAFORM_LINE_BYTES_MAX;
    for (size_t k = 0; k < 2; k++) {
        char *large = arena_new(&a, char, most + 16);
        memset(large, 'x', most + k);
        memcpy(large + most + k, "\nafter\n", 8);
        run(large, 0);
        is_int(lines, k ? 1 : 2, "a line of %zu bytes is %s", most + k, k ? "left out" : "taken");
    }
    result.interrupted = true;
    context.interrupt = SIGINT;
    static const char *const args[] = {"plan", NULL};
    is_int(terraform_run(&terraform, "infra", args, NULL, NULL, &result, &error), -1,
           "an interrupt before the call stops it");
    is_int(error.code, ERR_INTERRUPTED, "the error says so");
    ok(!result.interrupted && context.interrupt,
       "terraform was not interrupted, and others see it");
}

static void test_problems(void) {
    run("Error: no such file\nError: another\n", 1);
    is_str(result.problem, "no such file", "the first text that is an error is the problem");
    ok(!result.diagnosed, "a text is no diagnostic");
    is_int(result.status, 1, "the status is that of a failure");
    run(arena_printf(&a, "Error: text\n%s%s%s", problem("warning", "old", ""),
                     problem("error", "one\\n\\ttwo", "detail"), problem("error", "later", "")),
        1);
    is_str(result.problem, "one  two: detail", "the first diagnostic that is an error counts more");
    ok(result.diagnosed && !result.not_locked, "the problem is a diagnostic, and none of the lock");
    char *longer = arena_new(&a, char, 2000);
    memset(longer, 'x', 1000);
    run(problem("error", longer, longer), 1);
    is_uint(strlen(result.problem), TERRAFORM_PROBLEM_BYTES_MAX + 2, "a long problem is cut");
    run(problem("error", "Error acquiring the state lock",
                "Lock Info:\\n  ID:        a1\\n  Who:       ann@laptop\\n"),
        1);
    ok(result.not_locked, "the lock was not acquired");
    is_str(result.lock.id, "a1", "the lock has its id");
}

static void interrupt(struct timer *t) {
    if (fake_text("count"))
        context.interrupt = SIGINT;
    else
        timer_start(context.loop, t, 0, interrupt);
}

static void interrupt_more(struct timer *t) {
    if (strstr(said(), "still waiting"))
        unlink(fake_in("deaf"));
    else if (fake_text("count"))
        context.interrupt = SIGTERM;
    if (file_exists(fake_in("deaf")))
        timer_start(context.loop, t, 0, interrupt_more);
}

static void test_interrupts(void) {
    struct timer soon = {0};
    fake_terraform_begin();
    fake_put("wait", "", 0600);
    timer_start(context.loop, &soon, 0, interrupt);
    is_int(run("", 0), 0, "an interrupt is passed on: %s", error.text);
    unlink(fake_in("wait"));
    ok(result.interrupted, "the result says so");
    is_int(result.status, 128 + SIGINT, "terraform was asked to stop");
    has_str(said(), "terraform was asked to stop; it finishes current operations and records them",
            "the user reads what happens");
    is_int(context.interrupt, 0, "the interrupt was taken");
    fake_terraform_begin();
    fake_put("deaf", "", 0600);
    timer_start(context.loop, &soon, 0, interrupt_more);
    is_int(run("", 0), 0, "terraform takes its time");
    has_str(said(), "still waiting: terraform records its changes", "the user reads that, too");
    ok(result.interrupted && result.status == 0, "terraform has ended by itself");
}

// ---- apply --------------------------------------------------------------------------------------

static int apply(const char *text, int status) {
    static const char *const more[] = {"-target=x", "-var=y", NULL};
    begin();
    fake_terraform_says("apply-1", text, status);
    return terraform_apply(&terraform, "infra", more, on_line, NULL, &result, &error);
}

#define APPLY "infra: apply -json -auto-approve -input=false -parallelism=30 "

static void test_apply(void) {
    terraform_set_clean(&terraform);
    unlink(terraform.state_path);
    is_int(apply("", 0), 0, "terraform applies: %s", error.text);
    is_str(fake_terraform_calls(), APPLY "-lock-timeout=0s -target=x -var=y\n",
           "terraform has all words");
    ok(!terraform_is_unclean(&terraform), "the folder is clean");
    ok(!file_exists(arena_printf(&a, "%s.before", terraform.state_path)), "there was no state");
    fake_put(".dtctl/c/terraform/terraform.tfstate", "state", 0600);
    apply("", 1);
    ok(!terraform_is_unclean(&terraform), "a terraform that has failed has recorded all");
    is_str(fake_text(".dtctl/c/terraform/terraform.tfstate.before"), "state",
           "the state of before is kept");
    apply("", 127);
    ok(!terraform_is_unclean(&terraform), "a terraform that has ended with any status has, too");
    apply("", 128);
    ok(terraform_is_unclean(&terraform), "one that was killed may have recorded nothing");
    apply("", 0);
    ok(terraform_is_unclean(&terraform), "a later success does not find what is in no state");
    terraform_set_clean(&terraform);
    begin();
    context.interrupt = SIGINT;
    is_int(terraform_apply(&terraform, "infra", NULL, NULL, NULL, &result, &error), -1,
           "an interrupt before it stops it");
    ok(!terraform_is_unclean(&terraform), "the folder stays clean");
    begin();
    fake_terraform_says("apply-1", "", 0);
    is_int(terraform_apply(&terraform, "infra", NULL, NULL, NULL, &result, &error), 0,
           "no further words are needed");
    is_str(fake_terraform_calls(), APPLY "-lock-timeout=0s\n", "terraform has the common words");
    unlink(terraform.state_path);
}

static void test_waits(void) {
    const char *lock =
        problem("error", "Error acquiring the state lock",
                "Lock Info:\\n  ID: a1\\n  Who: ann@laptop\\n  Operation: "
                "OperationTypeApply\\n  Created: 2026-01-02 03:04:05.6 +0000 UTC\\n");
    begin();
    fake_terraform_says("apply-1", lock, 1);
    fake_terraform_says("apply-2", "", 0);
    is_int(terraform_apply(&terraform, "infra", NULL, NULL, NULL, &result, &error), 0,
           "another one holds the lock: %s", error.text);
    is_str(fake_terraform_calls(), APPLY "-lock-timeout=0s\n" APPLY "-lock-timeout=120s\n",
           "terraform waits for it");
    has_str(said(),
            "another command works on this cluster; waiting for its end for_s=120 "
            "holder=\"ann@laptop (apply, since 2026-01-02T03:04:05Z)\" remedy=\"if no "
            "terraform runs there any more: ",
            "the user reads who");
    has_str(said(), "/infra force-unlock a1\"\n", "the remedy has the lock");
    is_int(result.status, 0, "the second result counts");
    fake_terraform_says("apply-2", lock, 1);
    begin();
    terraform_apply(&terraform, "infra", NULL, NULL, NULL, &result, &error);
    is_int(terraform_failure(&terraform, &result, "making", &error), -1, "the lock stays");
    is_int(error.code, ERR_BUSY, "the cluster is busy");
    has_str(error.text, "making: another command works on this cluster: ann@laptop (apply, since",
            "the error has the holder");
}

// ---- failures -----------------------------------------------------------------------------------

static const char *failure(struct terraform_result r) {
    r.problem = r.problem ? r.problem : "";
    r.lock.id = r.lock.id ? r.lock.id : "";
    err_clear(&error);
    is_int(terraform_failure(&terraform, &r, "making nodes", &error), -1, "a failure is one");
    return error.text;
}

static void test_failures(void) {
    const char *log = terraform.log_path;
    begin();
    is_str(failure((struct terraform_result){.status = 1, .problem = "no"}),
           arena_printf(&a, "making nodes: no (log: %s)", log),
           "the problem and the log are named");
    is_str(failure((struct terraform_result){.status = 1}),
           arena_printf(&a, "making nodes: terraform failed without a reason (log: %s)", log),
           "a failure may have no reason");
    is_str(
        failure((struct terraform_result){.status = 128 + SIGKILL}),
        arena_printf(&a,
                     "making nodes: terraform was ended by SIGKILL; dtctl up, down or gc removes "
                     "leftovers (log: %s)",
                     log),
        "a signal is named");
    has_str(failure((struct terraform_result){.status = 128, .problem = "no"}), "making nodes: no",
            "128 is no signal");
    advice = "do this";
    has_str(failure((struct terraform_result){.status = 1, .problem = "no"}), "; do this",
            "the cloud has an advice");
    char *longer = arena_new(&a, char, 1500);
    memset(longer, 'x', 1400);
    has_str(failure((struct terraform_result){.status = 1, .problem = longer}), "x; do this",
            "the advice fits behind a long problem");
    is_str(failure((struct terraform_result){.status = 130, .interrupted = true}),
           "making nodes was stopped; dtctl up continues it, dtctl down removes what was made",
           "an interrupt is no failure of the cloud");
    is_int(error.code, ERR_INTERRUPTED, "an interrupt has its own code");
    refuses = true;
    is_str(failure((struct terraform_result){.status = 1, .problem = "no"}),
           "making nodes: aws.zones: no", "the module may have refused a setting");
    has_str(failure((struct terraform_result){.interrupted = true}), "was stopped",
            "an interrupt is no refusal");
    refuses = false;
    explained = "bucket";
    is_str(failure((struct terraform_result){.not_locked = true, .problem = "no bucket"}),
           "the bucket is missing", "the place of the state may be the reason");
    has_str(failure((struct terraform_result){.status = 1, .problem = "no bucket"}),
            "making nodes: no bucket", "this holds for the lock alone");
}

static void test_state(void) {
    struct terraform_state s;
    begin();
    fake_terraform_says("state-infra", "{\"version\":4,\"resources\":[]}", 0);
    is_int(terraform_state(&terraform, "infra", &s, &error), 0, "the state is read: %s",
           error.text);
    fake_terraform_says("state-infra", "{", 0);
    is_int(terraform_state(&terraform, "infra", &s, &error), -1, "half a state is refused");
    fake_terraform_says("state-infra", "", 3);
    fake_put("state-infra.err", "no such bucket", 0600);
    is_int(terraform_state(&terraform, "infra", &s, &error), -1, "terraform cannot read it");
    is_str(
        error.text,
        arena_printf(&a, "cannot read terraform's state (status 3; log: %s)", terraform.log_path),
        "the error has the status and the log");
    explained = "no such bucket";
    terraform_state(&terraform, "infra", &s, &error);
    is_str(error.text, "the bucket is missing", "the words of terraform may be explained");
    unlink(fake_in("state-infra.err"));
    terraform_state(&terraform, "infra", &s, &error);
    has_str(error.text, "status 3", "words of an earlier call are not read again");
    fake_terraform_says("state-infra", "", 0);
}

// ---- locks --------------------------------------------------------------------------------------

// Another process that holds the log's lock until the byte comes.
static pid_t hold(int *release) {
    int ends[2], ready[2];
    char byte;
    if (pipe(ends) < 0 || pipe(ready) < 0)
        bail_out("no pipes");
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(terraform.log_path, O_WRONLY | O_CREAT, 0600);
        (void)file_lock_fd(fd, F_WRLCK, false);
        close(ends[1]);
        _exit(write(ready[1], "x", 1) == 1 && read(ends[0], &byte, 1) < 0);
    }
    close(ends[0]);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        bail_out("no holder");
    close(ready[0]);
    *release = ends[1];
    return pid;
}

static void test_settle(void) {
    int release;
    begin();
    is_int(terraform_settle(&terraform, &error), 0, "no terraform works");
    is_int(fake_pauses, 0, "nothing is waited for");
    pid_t pid = hold(&release);
    is_int(terraform_settle(&terraform, &error), -1, "one works for too long");
    is_int(error.code, ERR_BUSY, "the cluster is busy");
    is_str(error.text,
           arena_printf(&a,
                        "terraform of an earlier command is still running after 120 s; its log "
                        "is %s",
                        terraform.log_path),
           "the error has the time and the log");
    ok(fake_pauses > 300 && fake_pauses <= 401, "two minutes are waited for (%d pauses)",
       fake_pauses);
    const char *once = strstr(said(), "waiting until it has recorded");
    ok(once && !strstr(once + 1, "waiting until it has recorded"), "the user reads it once");
    begin();
    fake_stops_in_pause = 2;
    is_int(terraform_settle(&terraform, &error), -1, "the user stops the waiting");
    is_str(error.text, "stopped while an earlier terraform is still running", "the error says so");
    close(release);
    waitpid(pid, NULL, 0);
    begin();
    is_int(terraform_settle(&terraform, &error), 0, "the end of the other one is seen");
}

static bool is_left(const char *who, int64_t since_ms) {
    struct terraform_lock lock = {.id = "a1", .who = who, .since_ms = since_ms};
    return terraform_lock_is_left(&terraform, &lock);
}

static void test_left(void) {
    static const struct timespec at[] = {{1000, 900000000}, {1000, 900000000}};
    char host[256] = "";
    const struct passwd *user = getpwuid(getuid());
    int release;
    if (!user || gethostname(host, sizeof host - 1) < 0)
        bail_out("no name of this user and computer");
    const char *me = arena_printf(&a, "%s@%s", user->pw_name, host);
    terraform_set_clean(&terraform);
    ok(!is_left(me, 1000000), "a clean folder has left no lock");
    fake_put(".dtctl/c/terraform/unclean", "", 0600);
    utimensat(AT_FDCWD, fake_in(".dtctl/c/terraform/unclean"), at, 0);
    ok(is_left(me, 1000000), "a lock of the moment of the last apply is left");
    ok(!is_left(me, 999999), "an older one is another's");
    ok(is_left(me, 1059999), "terraform may need a minute to acquire it");
    ok(!is_left(me, 1060000), "a later one is another's");
    ok(!is_left("ann@laptop", 1000000), "another user's lock is not");
    pid_t pid = hold(&release);
    ok(!is_left(me, 1000000), "the lock of a terraform that still works is not");
    close(release);
    waitpid(pid, NULL, 0);
    terraform_set_clean(&terraform);
}

static void test_unlock(void) {
    struct terraform_lock lock = {.id = "a1", .who = "", .operation = ""};
    begin();
    fake_terraform_says("none", "Lock Info:\n  ID: a1\n  Who: ann@laptop\n", 1);
    is_int(terraform_locked(&terraform, "infra", &lock, &error), 0, "the holder is asked for");
    is_str(lock.who, "ann@laptop", "the holder is known");
    is_str(fake_terraform_calls(), "force-unlock -force -no-color none\n", "no lock is released");
    fake_terraform_says("none", "Failed to unlock state: no lock\n", 1);
    is_int(terraform_locked(&terraform, "infra", &lock, &error), 0, "nothing is locked");
    is_str(lock.id, "", "there is no lock");
    lock = (struct terraform_lock){.id = "a2", .who = "", .operation = ""};
    fake_terraform_says("a2", "", 0);
    fake_terraform_calls();
    is_int(terraform_unlock(&terraform, "infra", &lock, &error), 0, "a lock is released");
    is_str(fake_terraform_calls(), "force-unlock -force -no-color a2\n", "this lock is released");
    fake_terraform_says("a2", "Error: no\n", 1);
    is_int(terraform_unlock(&terraform, "infra", &lock, &error), -1,
           "the lock may not be released");
    has_str(error.text, "releasing a stale lock: no", "the error has the reason");
    is_str(terraform_lock_words(&terraform, &lock), "an unknown user (terraform)",
           "a lock may have no facts");
}

int main(void) {
    clock_stop();
    context.arena = &a;
    context.config = &config;
    context.screen = &screen;
    said_open(&screen);
    fake_terraform_open(&context, &terraform);
    terraform.cloud = &cloud;
    test_lines();
    test_problems();
    test_interrupts();
    test_apply();
    test_waits();
    test_failures();
    test_state();
    test_settle();
    test_left();
    test_unlock();
    said_close(&screen);
    fake_terraform_close(&context);
    arena_fini(&a);
    return done_testing();
}
