// SPDX-License-Identifier: Apache-2.0
// Finished files of an active run go to a bucket: when, with which words for dtdata, what its
// answer means, and how often the user reads of failures. The program is a stand-in.
#include "run/results/output_upload.h"

#include "run/monitor.h"
#include "run/results/output_published.h"
#include "tests/unit/fleet_cluster.h"

#include <stdarg.h>

enum { EVERY_MS = 2000, DAY_MS = 1000000 };

static struct run run;
static struct follow follow;
static struct publish outputs;
static struct output_upload upload;
static struct err e;

// ---- in place of dtdata and of the run's events -------------------------------------------------

static const char *words, *noted;
static int starts, stops;
static bool runs, cannot_start;
static dtdata_beside_end *on_end;

int dtdata_beside_start(struct dtdata_beside *d, struct context *s, const struct dtdata_call *call,
                        dtdata_beside_end *end, struct err *err) {
    if (d != &upload.program || s != &context || call->bytes_max != 1 << 20 ||
        call->ms_max != 86400000)
        bail_out("another program starts");
    words = "";
    for (const char *const *w = call->args; *w; w++)
        words = arena_printf(&arena, "%s%s%s", words, *words ? " " : "", *w);
    starts++;
    on_end = end;
    if (cannot_start)
        return err_set(err, ERR_SYS, "no process");
    runs = true;
    return 0;
}

bool dtdata_beside_runs(const struct dtdata_beside *d) {
    (void)d;
    return runs;
}

void dtdata_beside_stop(struct dtdata_beside *d) {
    (void)d;
    stops++;
    runs = false;
}

void monitor_note(const struct context *s, const struct run *r, const char *kind, ...) {
    va_list ap;
    const char *word;
    (void)s;
    noted = arena_printf(&arena, "%s%s %s", noted, r->id, kind);
    va_start(ap, kind);
    while ((word = va_arg(ap, const char *)))
        noted = arena_printf(&arena, "%s %s", noted, word);
    va_end(ap);
    noted = arena_printf(&arena, "%s\n", noted);
}

// dtdata ends with this line; NULL: it fails.
static void answer(const char *line) {
    struct strbuf text = {0};
    struct err why = {0};
    runs = false;
    if (line)
        strbuf_adds(&text, line);
    else
        err_set(&why, ERR_NET, "no bucket");
    on_end(&upload.program, &text, &why);
    strbuf_fini(&text);
}

// ---- a run --------------------------------------------------------------------------------------

static void begin(const char *s3, const char *id) {
    run = (struct run){.id = id, .name = "task", .s3 = s3};
    follow = (struct follow){.context = &context, .run = &run};
    outputs = (struct publish){.follow = &follow, .every_ms = EVERY_MS, .lock = 0, .kept = 1};
    starts = stops = 0;
    runs = cannot_start = false;
    noted = "";
    clock_day_ms = DAY_MS;
    clock_ahead_ms = 0;
    if (file_make_dirs(output_published_path(&context, &run, NULL), 0700, &e) < 0)
        bail_out("%s", e.text);
    said_clear();
    output_upload_open(&upload, &follow, &outputs);
}

// One interval passes; true when dtdata was started.
static bool turn_starts(void) {
    int before = starts;
    clock_turn(context.loop, EVERY_MS);
    return starts > before;
}

static void test_turns(void) {
    begin("s3://b/p", "r-1");
    clock_turn(context.loop, EVERY_MS - 1);
    is_int(starts, 0, "nothing is uploaded before the interval is over");
    clock_turn(context.loop, 1);
    is_int(starts, 1, "an upload starts after an interval");
    is_str(words,
           arena_printf(&arena, "live %s s3://b/p/live 0",
                        output_published_path(&context, &run, NULL)),
           "the first upload looks at all files");
    ok(!turn_starts(), "one upload runs at a time");
    answer("{\"end\":3,\"sent\":77,\"changed\":0}\n");
    is_str(noted, "r-1 output-uploaded to s3://b/p/live files 3 bytes 77\n",
           "the run has an event with its counts");
    ok(!turn_starts(), "nothing is uploaded again without new files");
    outputs.kept = 2;
    ok(turn_starts(), "new files are uploaded");
    ok(str_ends(words, arena_printf(&arena, " %d", DAY_MS + EVERY_MS)),
       "files are looked at since the begin of the last upload: %s", words);
    outputs.kept = 3; // while it runs
    answer("{\"end\":1,\"sent\":1}\n");
    ok(turn_starts(), "files that came during an upload are uploaded at the next turn");
    answer("{\"end\":1,\"sent\":1,\"changed\":2}\n");
    ok(turn_starts(), "files that changed during an upload are uploaded again");
    noted = "";
    answer("no JSON");
    is_str(noted, "", "an answer that is none makes no event");
    output_upload_close(&upload);
    is_int(stops, 1, "closing ends an upload in progress");
    output_upload_close(&upload);
    is_int(stops, 1, "closing twice does nothing");
    outputs.kept = 9;
    ok(!turn_starts(), "nothing starts after the close");
}

static void test_not(void) {
    begin("", "r-2");
    ok(!turn_starts(), "a run without a bucket uploads nothing");
    output_upload_close(&upload);
    is_int(stops, 0, "a run without a bucket has nothing to end");
    begin("s3://b/p", "r-2");
    output_upload_close(&upload);
    outputs.follow = NULL;
    output_upload_open(&upload, &follow, &outputs);
    ok(!turn_starts(), "files that do not come here are not uploaded");
    begin("s3://b/p", "r-2");
    outputs.lock = -1;
    ok(!turn_starts(), "another dtctl that fetches the files uploads them");
    outputs.lock = 0;
    if (file_remove_tree(output_published_path(&context, &run, NULL), &e) < 0)
        bail_out("%s", e.text);
    ok(!turn_starts(), "nothing is uploaded before a file has come");
    output_upload_close(&upload);
}

static void test_failures(void) {
    const char *last = "";
    begin("s3://b/p", "r-3");
    for (int i = 1; i <= 8; i++) {
        said_clear();
        if (!turn_starts())
            bail_out("a failure is tried again");
        answer(NULL);
        bool want = i == 1 || i == 2 || i == 4 || i == 8;
        ok(want == (*said() != '\0'), "the user reads of failure %d %s", i, want ? "now" : "never");
        last = arena_printf(&arena, " to='s3://b/p/live' tries=%d reason=\"no bucket\"", i);
    }
    has_str(said(), "finished files are not in the bucket yet",
            "the warning names the missing files");
    has_str(said(), last, "the warning has the bucket, the tries and the reason");
    turn_starts();
    ok(str_ends(words, " 0"), "an upload that failed is made anew");
    answer("{\"end\":1,\"sent\":1}\n");
    ok(!turn_starts(), "an answer without a count of changes has none");
    outputs.kept = 2;
    cannot_start = true;
    said_clear();
    ok(turn_starts(), "an upload is tried");
    has_str(said(), "tries=1 reason=\"no process\"", "failures are counted anew after a success");
    cannot_start = false;
    ok(turn_starts(), "a program that could not start is started at the next turn");
    output_upload_close(&upload);
}

int main(void) {
    fleet_cluster_open();
    test_turns();
    test_not();
    test_failures();
    fleet_cluster_close();
    return done_testing();
}
