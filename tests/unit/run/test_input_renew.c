// SPDX-License-Identifier: Apache-2.0
// New addresses of streamed inputs: when a source is listed again, for how long that may take, and
// which nodes get the list. The test is the nodes and the lister, and turns the clock.
#include "run/inputs/input_renew.h"

#include "base/clock.h"
#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "run/inputs/input_remote.h"
#include "tests/unit/fleet_fake.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

static struct config config;
static struct config_input settings = {.deliver = "stream"};
static struct screen notes;
static struct run run = {.id = "r-1"};
static struct run_start launch;
static struct run_start_input inputs[2];
static char remote; // stands in for what is never looked into
static struct follow_node follow_nodes[NODES];
static struct follow follow;
static struct input_renew renew;
static struct err e;

const struct embed_file embed_files[] = {
    {"dtdata", (const unsigned char *)"", 0, 0, NULL,
     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
    {.name = NULL}};

// ---- the lister ---------------------------------------------------------------------------------

static struct dtdata_beside *listing; // NULL: none runs
static dtdata_beside_end *listing_end;
static char listed[64]; // its source
static int64_t limit_ms;
static int lists, stops;
static bool cannot_start;

int test_dtdata_beside_start(struct dtdata_beside *d, struct context *s,
                             const struct dtdata_call *call, dtdata_beside_end *on_end,
                             struct err *why) __asm__("dtdata_beside_start");

int test_dtdata_beside_start(struct dtdata_beside *d, struct context *s,
                             const struct dtdata_call *call, dtdata_beside_end *on_end,
                             struct err *why) {
    (void)s;
    if (cannot_start)
        return err_set(why, ERR_SYS, "no process");
    listing = d;
    listing_end = on_end;
    limit_ms = call->ms_max;
    snprintf(listed, sizeof listed, "%s %s", call->args[0], call->args[1]);
    lists++;
    return 0;
}

bool dtdata_beside_runs(const struct dtdata_beside *d) {
    return listing == d;
}

void dtdata_beside_stop(struct dtdata_beside *d) {
    stops += listing == d;
    listing = listing == d ? NULL : listing;
}

// The list is there; the addresses last so long from now on, 0: without an end.
static void list_comes(int64_t lasts_ms) {
    struct strbuf text = {0};
    struct dtdata_beside *d = listing;
    struct err none = {0};
    strbuf_addf(&text, "{\"ends\":%lld}\n{\"path\":\"a\"}\n{\"end\":true}\n",
                (long long)(lasts_ms ? clock_wall_ms() + lasts_ms : 0));
    listing = NULL;
    listing_end(d, &text, &none);
    strbuf_fini(&text);
}

static void list_fails(enum err_code code) {
    struct strbuf text = {0};
    struct dtdata_beside *d = listing;
    struct err why = {0};
    err_set(&why, code, "no server");
    listing = NULL;
    listing_end(d, &text, &why);
}

// ---- the nodes ----------------------------------------------------------------------------------

static void begin(void) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn); // no node answers
    context.screen = &notes;
    context.config = &config;
    follow = (struct follow){
        .context = &context, .fleet = &fleet, .run = &run, .nodes = follow_nodes, .count = NODES};
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].ready = true;
        follow_nodes[i] = (struct follow_node){.follow = &follow, .node = &nodes[i], .index = i};
    }
    inputs[0] = (struct run_start_input){.name = "here", .source = "/x", .config = &settings};
    inputs[1] = (struct run_start_input){.name = "in",
                                         .source = "s3://b/p",
                                         .config = &settings,
                                         .remote = (struct input_remote *)(void *)&remote};
    launch = (struct run_start){.context = &context, .inputs = inputs, .input_count = 2};
    lists = stops = 0;
    cannot_start = false;
    said_clear();
    input_renew_open(&renew, &launch, &follow);
}

static void end(void) {
    input_renew_close(&renew);
    listing = NULL;
    fake_fleet_end();
}

// The node asks; left_ms 0: it does not say what is left.
static void ask(size_t node, const char *input, int64_t left_ms) {
    struct json *j;
    const char *text =
        arena_printf(&arena, "{\"input\":\"%s\",\"left_ms\":%lld}", input, (long long)left_ms);
    if (json_parse(&arena, text, strlen(text), &j, &e) < 0)
        bail_out("%s", e.text);
    input_renew_node(&renew, &follow_nodes[node], j);
}

static struct fake_run *run_of(size_t node) {
    for (struct fake_run *r = fake_runs; r; r = r->older)
        if (r->r.link == nodes[node].link)
            return r;
    return NULL;
}

static void test_lists(void) {
    begin();
    ask(1, "in", 0);
    is_str(listed, "list s3://b/p", "the source of the input is listed");
    is_int(limit_ms, INPUT_RENEW_MS_MAX, "a list may take three minutes");
    ask(2, "in", 0);
    is_int(lists, 1, "a source is listed once for all nodes that ask meanwhile");
    is_int(fake_run_count(), 0, "no node gets a list before it is there");
    list_comes(3600 * 1000);
    is_int(fake_run_count(), 2, "the nodes that have asked get the list");
    is_str(run_of(1)->line, "/r/bin/dtdata-0123456789abcdef renew /r/runs/r-1",
           "dtdata on the node gets the list for its run");
    ok(!run_of(0), "a node that has not asked gets none");
    fake_take(run_of(1), SIZE_MAX);
    const char *got = strbuf_cstr(&run_of(1)->got);
    ok(str_starts(got, "{\"now\":") && strtoll(got + 7, NULL, 10) > 1000000000000LL,
       "the list begins with the time");
    has_str(got, "}\n{\"input\":\"in\"}\n{\"path\":\"a\"}\n{\"end\":true,\"ends\":",
            "the list has the input, the objects and their end");
    ask(0, "in", 0);
    ok(lists == 1 && fake_run_count() == 3, "a fresh list serves other nodes, too");
    clock_ahead_ms += INPUT_RENEW_FRESH_MS_MAX - 1;
    ask(0, "in", 0);
    is_int(lists, 1, "a list is fresh for five minutes");
    clock_ahead_ms += 1;
    ask(0, "in", 0);
    is_int(lists, 2, "an old list is made again");
    is_str(said(), "", "nothing is said of lists that come");
    fake_say(run_of(1), "{\"event\":\"error\",\"code\":\"failed\",\"text\":\"no server\"}\n", 52);
    fake_exit(run_of(1), 1);
    has_str(said(), "a node does not take new addresses of a streamed input node=n1 reason=\"",
            "the user reads of a node that refuses the list");
    end();
    is_int(stops, 1, "a list that is being made ends with the run");
}

static void test_limits(void) {
    static const struct {
        int64_t left_ms, limit_ms;
    } rows[] = {{100 * 1000, 25 * 1000},
                {12 * 60 * 1000 + 4000, INPUT_RENEW_MS_MAX},
                {3600 * 1000, INPUT_RENEW_MS_MAX},
                {16 * 1000, INPUT_RENEW_MS_MIN},
                {1, INPUT_RENEW_MS_MIN}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        ask(0, "in", rows[i].left_ms);
        ok(limit_ms <= rows[i].limit_ms && limit_ms > rows[i].limit_ms - 500,
           "with %lld ms left a list may take %lld ms: %lld", (long long)rows[i].left_ms,
           (long long)rows[i].limit_ms, (long long)limit_ms);
        end();
    }
    begin();
    ask(0, "in", 100 * 1000);
    ask(1, "in", 40 * 1000);
    list_fails(ERR_TIMEOUT);
    has_str(said(), "'s3://b/p' was not listed within 2", "the user reads how long a list took");
    has_str(said(), "the nodes ask again (try: ", "the user reads the next step");
    ask(0, "in", 40 * 1000);
    ok(lists == 2 && limit_ms <= 10 * 1000, "a list that failed is made again");
    end();
}

// Addresses of the same key end at the same time, so that a new list is of no use.
static void test_same_key(void) {
    begin();
    ask(0, "in", 60 * 1000);
    list_comes(60 * 1000 + SOURCE_RENEW_GAIN_MS - 1000);
    is_int(fake_run_count(), 0, "addresses that end as early are not sent");
    has_str(said(), "the AWS key of this computer ends in 8", "the user reads when the key ends");
    has_str(said(), " s, no later than the one that signed before (try: log in to AWS again)",
            "the user reads what to do");
    ask(0, "in", 60 * 1000);
    is_int(lists, 2, "the source is listed again all the same");
    list_comes(60 * 1000 + SOURCE_RENEW_GAIN_MS + 1000);
    is_int(fake_run_count(), 1, "addresses that last longer are sent");
    ask(1, "in", 120 * 1000);
    is_int(lists, 3, "a fresh list does not serve a node that has as good addresses");
    list_comes(0);
    is_int(fake_run_count(), 2, "addresses without an end are sent");
    end();
}

static void test_failures(void) {
    begin();
    ask(0, "here", 0);
    has_str(said(), "input=here reason=\"dtctl.toml has no streamed input 'here' any more\"",
            "an input of this computer has no addresses");
    ask(0, "a/b", 0);
    ask(0, "", 0);
    is_int(lists, 0, "a name that is none is ignored");
    follow.stopping = true;
    ask(0, "in", 0);
    follow.stopping = false;
    follow.replaying = true;
    ask(0, "in", 0);
    follow.replaying = false;
    is_int(lists, 0, "old events, and those of a run that stops, are ignored");
    cannot_start = true;
    said_clear();
    ask(0, "in", 0);
    has_str(said(),
            "the addresses of a streamed input are not renewed input=in reason=\"no process\"",
            "a lister that cannot start is reported");
    cannot_start = false;
    ask(1, "in", 0);
    nodes[1].up = false;
    list_comes(3600 * 1000);
    is_int(fake_run_count(), 0, "a request of before a failure is forgotten");
    has_str(said(), "node=n1 reason=\"the node is out of reach\"",
            "a node that is away is reported");
    end();
    ask(0, "in", 0);
    is_int(listing != NULL, 0, "nothing is listed for a run that is not followed");
}

// A dtctl that has not started the run has the sources in its configuration.
static void test_configuration(void) {
    static struct config_input items[] = {
        {.name = "copied", .source = "s3://b/c", .deliver = "copy"},
        {.name = "file", .source = "/y", .deliver = "stream"},
        {.name = "in", .source = "s3://b/q", .deliver = "stream"}};
    begin();
    config.inputs.items = items;
    config.inputs.count = 3;
    input_renew_close(&renew);
    input_renew_open(&renew, NULL, &follow);
    ask(0, "in", 0);
    is_str(listed, "list s3://b/q", "the source of the configuration is listed");
    ask(0, "copied", 0);
    ask(0, "file", 0);
    is_int(lists, 1, "other inputs of the configuration have no addresses");
    config.inputs.count = 0;
    end();
}

static void test_lines(void) {
    struct strbuf list = {0}, out = {0};
    int64_t ends_ms = -1;
    strbuf_adds(&list, "{\"ends\":77}\n{\"path\":\"a\"}\n{\"path\":\"b\"}\n{\"end\":true}\n");
    is_int(input_renew_lines("x", &list, &out, &ends_ms, &e), 0, "a list is read");
    is_int(ends_ms, 77, "a list has the end of its addresses");
    is_str(strbuf_cstr(&out),
           SOURCE_CLOCK_LINE "{\"input\":\"x\"}\n{\"path\":\"a\"}\n{\"path\":\"b\"}\n"
                             "{\"end\":true,\"ends\":77}\n",
           "the objects go to the nodes, with the end of the addresses");
    strbuf_clear(&list);
    strbuf_adds(&list, "{\"ends\":77}\n");
    is_int(input_renew_lines("x", &list, &out, &ends_ms, &e), -1, "a list that was cut is refused");
    is_str(e.text, "the list of objects was cut off", "the error has the list");
    strbuf_clear(&list);
    strbuf_adds(&list, "{\"ends\":\n{\"end\":true}\n");
    is_int(input_renew_lines("x", &list, &out, &ends_ms, &e), -1, "a malformed list is refused");
    strbuf_fini(&list);
    strbuf_fini(&out);
}

int main(void) {
    fake_fleet_init();
    screen_fini(&screen);
    said_open(&notes);
    clock_stop();
    test_lists();
    test_limits();
    test_same_key();
    test_failures();
    test_configuration();
    test_lines();
    said_close(&notes);
    loop_close(context.loop);
    arena_fini(&arena);
    return done_testing();
}
