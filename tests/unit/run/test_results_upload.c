// SPDX-License-Identifier: Apache-2.0
// Results that go to a bucket: the words for dtdata, what its answer means, and what the record
// keeps. The program is a stand-in.
#include "run/results/results_upload.h"

#include "run/dtdata.h"
#include "run/results/results_owner.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/run/plain_run.h"
#include "tests/unit/said.h"

#include <unistd.h>

static struct arena a;
static struct screen screen;
static struct config config;
static struct context context = {.arena = &a, .config = &config, .screen = &screen};
static struct run run;
static struct err e;
static char root[] = "/tmp/test_results_upload.XXXXXX";

// ---- dtdata -------------------------------------------------------------------------------------

static struct {
    int calls;
    const char *words, *text, *fails;
    int64_t ms_max;
} program;

int dtdata_run(struct context *s, const struct dtdata_call *call, char **text, struct err *err) {
    struct strbuf words = {0};
    (void)s;
    for (const char *const *w = call->args; *w; w++)
        strbuf_addf(&words, "%s%s", w == call->args ? "" : " ", *w);
    program.calls++;
    program.words = arena_strdup(&a, strbuf_cstr(&words));
    program.ms_max = call->ms_max;
    if (call->on_progress)
        call->on_progress(call->ctx, 1, 2);
    strbuf_fini(&words);
    *text = heap_strdup(program.text);
    return program.fails ? err_set(err, ERR_NET, "%s", program.fails) : 0;
}

int dtdata_account(struct context *s, struct dtdata_account *out, struct err *err) {
    (void)s;
    *out = (struct dtdata_account){0};
    return err_set(err, ERR_AUTH, "no account");
}

static void answers(const char *text, const char *fails) {
    memset(&program, 0, sizeof program);
    program.text = text;
    program.fails = fails;
    err_clear(&e);
    said_clear();
}

// ---- before the run -----------------------------------------------------------------------------

static void test_check(void) {
    config.output_s3 = "";
    answers("", "not called");
    is_int(results_upload_check(&context, &e), 0, "without outputs.s3 there is nothing to check");
    is_int(program.calls, 0, "without outputs.s3 no program runs");
    config.output_s3 = "s3://bucket/below//";
    answers("fine", NULL);
    is_int(results_upload_check(&context, &e), 0, "a bucket that can be written is fine");
    is_str(program.words, "check s3://bucket/below//", "the program checks the bucket");
    is_int(program.ms_max, RESULTS_UPLOAD_CHECK_MS_MAX, "the check has a limit of time");
    answers("", "it cannot be listed");
    is_int(results_upload_check(&context, &e), -1, "a bucket that cannot be listed is refused");
    has_str(e.text, "results cannot be written to 's3://bucket/below//'", "the error names it");
    has_str(e.text, "outputs.s3", "the error names the setting");
    has_str(e.text, "it cannot be listed", "the error has the program's reason");
    is_int(e.code, ERR_NET, "the error keeps its kind");
}

static void test_uri(void) {
    is_str(results_upload_uri(&context, &run), "s3://bucket/below/task/runs/task-1",
           "slashes at the end of the bucket's URI are left out");
    config.output_s3 = "s3://b";
    is_str(results_upload_uri(&context, &run), "s3://b/task/runs/task-1", "a bucket may be alone");
    config.output_s3 = "///";
    is_str(results_upload_uri(&context, &run), "", "slashes alone are no URI");
    config.output_s3 = "";
    is_str(results_upload_uri(&context, &run), "", "without outputs.s3 there is no URI");
}

static void test_due(void) {
    struct run r = {.fetched = true};
    ok(!results_upload_is_wanted(&r) && !results_upload_is_due(&r), "a run may have no bucket");
    r.s3 = "";
    ok(!results_upload_is_wanted(&r) && !results_upload_is_due(&r), "an empty URI is no bucket");
    r.s3 = "s3://b";
    ok(results_upload_is_wanted(&r) && results_upload_is_due(&r), "fetched results are due");
    r.uploaded = true;
    ok(results_upload_is_wanted(&r) && !results_upload_is_due(&r), "results go once");
    r.uploaded = r.fetched = false;
    ok(!results_upload_is_due(&r), "results that are not here are not due");
}

// ---- after the run ------------------------------------------------------------------------------

static bool record_says_uploaded(void) {
    struct run r = {0};
    struct err why;
    if (run_load(&context.cluster, run.id, &r, &why) < 0)
        bail_out("%s", why.text);
    return r.uploaded;
}

static const char *events(void) {
    char *text;
    size_t len;
    struct err why;
    return file_read(&a, run_path(&context.cluster, &run, "events.jsonl"), 1 << 20, &text, &len,
                     &why) == 0
               ? text
               : "";
}

static void test_owner(void) {
    answers("{}", NULL);
    is_int(results_upload(&context, &run, &e), -1, "a folder of no run is not sent");
    is_int(e.code, ERR_NOT_FOUND, "the results of the run are not found");
    if (results_owner_set(run.output_dir, "task-2", &e) < 0)
        bail_out("%s", e.text);
    answers("{}", NULL);
    is_int(results_upload(&context, &run, &e), -1, "a folder of another run is not sent");
    is_int(program.calls, 0, "no program runs for results of another run");
    ok(!run.uploaded, "results of another run do not count");
    if (results_owner_set(run.output_dir, run.id, &e) < 0)
        bail_out("%s", e.text);
}

static void test_failed(void) {
    answers("", "access denied");
    is_int(results_upload(&context, &run, &e), -1, "an upload fails");
    has_str(e.text, "access denied", "the error has the program's reason");
    has_str(e.text, "dtctl fetch task-1", "the error says how to go on");
    has_str(said(), "not all of it is there", "the progress says so");
    ok(!run.uploaded && !record_says_uploaded(), "an upload that failed does not count");
    has_str(events(), "\"complete\":\"no\"", "the event says so");
    answers("{\"end\":", NULL);
    is_int(results_upload(&context, &run, &e), -1, "an answer that is cut is an error");
    ok(!run.uploaded && !record_says_uploaded(), "an answer that is cut does not count");
    ok(!strstr(events(), "\"complete\":\"yes\""), "no event says that the results are there");
}

static void test_done(void) {
    answers("{\"end\":3,\"there\":1,\"copied\":1,\"sent\":2048,\"stay\":0,\"links\":0}", NULL);
    run.left = RESULT_MODEL;
    is_int(results_upload(&context, &run, &e), 0, "an upload is done: %s", e.text);
    has_str(program.words, arena_printf(&a, "results %s/out ", root), "the folder is named first");
    has_str(program.words, "/logs s3://b/task/runs/task-1 output", "logs, bucket and kinds follow");
    ok(!strstr(program.words, "model") && !strstr(program.words, "state"),
       "kinds that are on the nodes, and states, are left out");
    is_int(program.ms_max, 0, "an upload takes its time");
    has_str(said(),
            "uploaded 3 files to s3://b/task/runs/task-1 (2.0 kB sent, 2 of them were "
            "there)",
            "the user reads what was sent");
    has_str(said(), "upload  b  2.0 kB in ", "the progress names the bucket");
    ok(!strstr(said(), "could not be removed") && !strstr(said(), "symbolic link"),
       "nothing else is said");
    ok(run.uploaded && record_says_uploaded(), "the record has the upload");
    has_str(events(), "\"complete\":\"yes\"", "the event says that all is there");
    has_str(events(), "\"to\":\"s3://b/task/runs/task-1\"", "the event has the bucket");
}

static void test_remarks(void) {
    run.left = 0;
    answers("{\"end\":1,\"stay\":1,\"links\":1}", NULL);
    is_int(results_upload(&context, &run, &e), 0, "an upload has remarks");
    has_str(program.words, "output,model", "all kinds are sent");
    has_str(said(), "uploaded 1 file to", "one file is one");
    has_str(said(), "0 of them were there", "no file was there");
    has_str(said(), "1 object of s3://b/task/runs/task-1/live could", "one object stays");
    has_str(said(), "1 symbolic link of the results is only here", "one link is left out");
    answers("{\"end\":2,\"stay\":2,\"links\":2}", NULL);
    is_int(results_upload(&context, &run, &e), 0, "an upload is done again");
    has_str(said(), "2 objects of", "two objects stay");
    has_str(said(), "2 symbolic links of the results are only here", "two links are left out");
    answers("{}", NULL);
    is_int(results_upload(&context, &run, &e), 0, "an answer may be empty");
    has_str(said(), "uploaded 0 files to s3://b/task/runs/task-1 (0 B sent, 0 of them were there)",
            "an empty answer counts nothing");
    ok(!strstr(said(), "object") && !strstr(said(), "link"), "an empty answer has no remarks");
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("mkdtemp");
    said_open(&screen);
    config_open(&config, &a, "dtctl", NULL);
    if (cluster_open(&context.cluster, &a, root, "c", &e) < 0)
        bail_out("%s", e.text);
    run = plain_run("task-1");
    run.s3 = "s3://b/task/runs/task-1";
    run.output_dir = file_join(&a, root, "out");
    run.fetched = true;
    if (run_save(&context.cluster, &run, &e) < 0)
        bail_out("%s", e.text);
    test_check();
    test_uri();
    test_due();
    test_owner();
    test_failed();
    test_done();
    test_remarks();
    said_close(&screen);
    (void)file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
