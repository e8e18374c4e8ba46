// SPDX-License-Identifier: Apache-2.0
// Inputs from servers for a node that comes later: which sources are listed again, which objects
// the node reads, and what has changed since. The test is the nodes and the lister, and turns the
// clock.
#include "run/inputs/input_again.h"

#include "base/hash.h"
#include "fleet/embedded_files.h"
#include "tests/unit/fleet_fake.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

#define ID1  "1111111111111111111111111111111111111111111111111111111111111111"
#define ID2  "2222222222222222222222222222222222222222222222222222222222222222"
#define HEAD "{\"folder\":true,\"ca\":\"\",\"ends\":9}\n"
#define END  "{\"end\":2}\n"
#define LINE(path, etag, id)                                                                       \
    "{\"path\":\"" path "\",\"name\":\"s3://b/" path                                               \
    "\",\"url\":\"u\",\"size\":5,\"etag\":\"" etag "\",\"id\":\"" id "\"}\n"
#define BOTH HEAD LINE("x", "e", ID1) LINE("y", "e", ID2) END

static struct config_input copied = {.deliver = "copy"}, streamed = {.deliver = "stream"};
static struct screen notes;
static struct run run = {.id = "r-1"};
static struct run_start launch;
static struct run_start_input inputs[3];
static struct run_start_remote remotes[NODES];
static struct input_remote was[2]; // at the run's start
static struct follow_node follow_nodes[NODES];
static struct follow follow;
static struct input_again again;
static struct err e, over_err;
static int overs;

const struct embed_file embed_files[] = {
    {"dtdata", (const unsigned char *)"", 0, 0, NULL,
     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
    {.name = NULL}};

// ---- the lister ---------------------------------------------------------------------------------

enum { LISTERS_MAX = 4 };
static struct dtdata_beside *listing[LISTERS_MAX];
static const char *sources[LISTERS_MAX];
static dtdata_beside_end *listing_end;
static int listers, lists, stops;
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
    listing_end = on_end;
    sources[listers] = arena_printf(&arena, "%s %s", call->args[0], call->args[1]);
    listing[listers++] = d;
    lists++;
    return 0;
}

bool dtdata_beside_runs(const struct dtdata_beside *d) {
    for (int i = 0; i < listers; i++)
        if (listing[i] == d)
            return true;
    return false;
}

void dtdata_beside_stop(struct dtdata_beside *d) {
    stops += dtdata_beside_runs(d);
}

// The first lister ends; NULL: it fails.
static void list_comes(const char *list) {
    struct strbuf text = {0};
    struct dtdata_beside *d = listing[0];
    struct err why = {0};
    if (list)
        strbuf_adds(&text, list);
    else
        err_set(&why, ERR_NET, "no server");
    listers--;
    memmove(listing, listing + 1, (size_t)listers * sizeof *listing);
    memmove(sources, sources + 1, (size_t)listers * sizeof *sources);
    listing_end(d, &text, &why);
    strbuf_fini(&text);
}

// ---- a run --------------------------------------------------------------------------------------

static void on_over(struct input_again_node *x, const struct err *why) {
    (void)x;
    overs++;
    over_err = *why;
}

static void add_file(struct manifest *m, const char *path, int hash) {
    if (manifest_add_bytes(m, path, arena_printf(&arena, "%d", hash), 1, 0644, &e) < 0 ||
        manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
}

// Node 1 has a share of two copied inputs, which have one content in common.
static void begin(void) {
    fake_fleet_begin("", "", "");
    timer_stop(&turn); // the test answers
    context.screen = &notes;
    follow = (struct follow){
        .context = &context, .fleet = &fleet, .run = &run, .nodes = follow_nodes, .count = NODES};
    static struct run_start_share shares[NODES];
    for (size_t i = 0; i < NODES; i++) {
        nodes[i].ready = true;
        follow_nodes[i] = (struct follow_node){.follow = &follow, .node = &nodes[i], .index = i};
        remotes[i] = (struct run_start_remote){.files = manifest_new()};
    }
    for (size_t i = 0; i < 2; i++) {
        was[i] = (struct input_remote){.folder = false};
        if (input_remote_parse(&arena, BOTH, &was[i], NULL, &e) < 0)
            bail_out("%s", e.text);
        inputs[i] = (struct run_start_input){.name = i ? "two" : "one",
                                             .source = i ? "s3://b/2" : "s3://b/1",
                                             .config = &copied,
                                             .remote = &was[i],
                                             .share = shares,
                                             .path = i ? "inputs/2" : "inputs/1"};
    }
    inputs[2] = (struct run_start_input){.name = "here", .source = "/x", .config = &copied};
    add_file(remotes[1].files, "inputs/1/x", 7);
    add_file(remotes[1].files, "inputs/2/x", 7);
    add_file(remotes[1].files, "inputs/2/y", 8);
    launch = (struct run_start){
        .context = &context, .inputs = inputs, .input_count = 3, .remote = remotes};
    listers = lists = stops = overs = 0;
    cannot_start = false;
    said_clear();
    input_again_open(&again, &launch, &follow);
    for (size_t i = 0; i < NODES; i++)
        again.nodes[i].on_over = on_over;
}

static void end(void) {
    input_again_close(&again);
    input_again_close(&again); // does nothing
    for (size_t i = 0; i < NODES; i++)
        manifest_free(remotes[i].files);
    fake_fleet_end();
}

static int ask(size_t node) {
    err_clear(&e);
    return input_again_begin(&again.nodes[node], false, &e);
}

static void test_has(void) {
    static struct run_start_stream streams[NODES];
    begin();
    ok(input_again_has(&launch, 1, false), "a node with a share has a part");
    ok(!input_again_has(&launch, 0, false), "a node without a share has none");
    ok(!input_again_has(&launch, 1, true), "a run without streamed inputs has no part of them");
    launch.streams = streams;
    strbuf_adds(&streams[2].input, "x");
    ok(input_again_has(&launch, 2, true) && !input_again_has(&launch, 1, true),
       "a node may have a part of streamed inputs");
    strbuf_fini(&streams[2].input);
    inputs[0].elastic = inputs[1].elastic = true;
    ok(!input_again_has(&launch, 1, false), "shares of elastic inputs come from the other nodes");
    inputs[0].elastic = false;
    inputs[0].config = inputs[1].config = &streamed;
    ok(!input_again_has(&launch, 1, false), "streamed inputs are not read before");
    end();
}

static void test_reads(void) {
    begin();
    is_int(ask(1), 0, "a node is begun: %s", e.text);
    is_int(lists, 2, "each source is listed again");
    is_str(sources[0], "list s3://b/1", "the first source is listed");
    is_str(sources[1], "list s3://b/2", "the second source is listed at once");
    ok(again.nodes[1].busy && overs == 0, "the node waits for the lists");
    list_comes(BOTH);
    is_int(fake_run_count(), 0, "a node waits for all lists");
    list_comes(HEAD LINE("x", "e", ID1) LINE("y", "e", ID2) LINE("z", "e", ID2) END);
    is_int(fake_run_count(), 1, "the node reads when all lists are there");
    has_str(said(), "n1 reads 2 objects of the inputs (2 B)\n", "the user reads how much");
    while (fake_take(fake_run(0), SIZE_MAX))
        ;
    const char *got = strbuf_cstr(&fake_run(0)->got), *first = strstr(got, "\"sha256\":\"");
    ok(str_starts(got, HEAD), "dtdata gets the head of the list");
    ok(first && (first = strstr(first + 1, "\"sha256\":\"")) && !strstr(first + 1, "\"sha256\":\""),
       "content that two inputs have is read once");
    const char *answer = "";
    for (size_t i = 0; i < again.nodes[1].files->count; i++) {
        char hex[HASH_HEX_BYTES];
        hash_hex(hex, again.nodes[1].files->entries[i].hash);
        answer = arena_printf(&arena, "%s{\"i\":%zu,\"sha256\":\"%s\"}\n", answer, i, hex);
    }
    answer = arena_printf(&arena, "%s{\"end\":true,\"read\":2,\"again\":0}\n", answer);
    fake_say(fake_run(0), answer, strlen(answer));
    fake_exit(fake_run(0), 0);
    is_int(overs, 1, "a node that has read all is over");
    is_int(over_err.code, 0, "a node that has read all has no error: %s", over_err.text);
    ok(!again.nodes[1].busy, "a node that is over can be begun again");
    is_int(ask(1), 0, "a node is begun again");
    is_int(lists, 2, "fresh lists serve again");
    fake_exit(fake_run(0), 1);
    ok(overs == 2 && over_err.code, "a node that ends without its objects has failed");
    clock_ahead_ms += INPUT_AGAIN_FRESH_MS_MAX - 1;
    ask(1);
    is_int(lists, 2, "a list is fresh for five minutes");
    fake_exit(fake_run(0), 1);
    clock_ahead_ms += 1;
    ask(1);
    is_int(lists, 4, "old lists are made again");
    end();
    is_int(stops, 2, "lists that are being made end");
}

static void test_changed(void) {
    static const struct {
        const char *list, *text;
    } rows[] = {{HEAD LINE("x", "f", ID2) LINE("y", "e", ID2) END,
                 "input 'one': 's3://b/x' has changed since the run began, and a new node needs it "
                 "as it was (try: put it back, or start a new run)"},
                {HEAD LINE("y", "e", ID2) END,
                 "input 'one': 's3://b/x' was removed since the run began, and a new node needs it "
                 "as it was (try: put it back, or start a new run)"},
                {HEAD, "input 'one': "},
                {NULL, "input 'one': no server"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin();
        ask(1);
        ask(2);
        list_comes(rows[i].list);
        if (overs == 0)
            list_comes(BOTH);
        ok(str_starts(over_err.text, rows[i].text) && overs >= 1,
           "an input that is not what it was is an error: %s", over_err.text);
        ok(!again.nodes[1].busy && fake_run_count() <= 1, "a node without its input reads nothing");
        end();
    }
}

static void test_failures(void) {
    begin();
    cannot_start = true;
    is_int(ask(1), -1, "a lister that cannot start is an error");
    is_str(e.text, "input 'one': no process", "the error names the input");
    ok(!again.nodes[1].busy && overs == 0, "a node that was not begun is not over");
    cannot_start = false;
    ask(1);
    nodes[1].up = false;
    list_comes(BOTH);
    list_comes(BOTH);
    is_str(over_err.text, "the node is out of reach", "a node that is away has failed");
    is_int(ask(1), -1, "a node that is away is not begun with fresh lists");
    nodes[1].up = true;
    nodes[1].ready = false;
    is_int(ask(1), -1, "a node that is not ready is not begun");
    nodes[1].ready = true;
    fake_refuses = 1;
    is_int(ask(1), -1, "a command that cannot start is an error");
    ok(!again.nodes[1].files, "nothing of such a node is kept");
    end();
}

// A node that has a part of a streamed input.
static void begin_streamed(void) {
    static struct run_start_stream streams[NODES];
    begin();
    inputs[0].config = &streamed;
    launch.run = run;
    launch.streams = streams;
    strbuf_clear(&streams[1].input);
    strbuf_adds(&streams[1].input,
                "{\"input\":\"one\"}\n{\"index\":4,\"path\":\"x\"}\n{\"end\":true}\n");
    err_clear(&e);
    is_int(input_again_begin(&again.nodes[1], true, &e), 0, "a streamed part is begun: %s", e.text);
    is_int(lists, 1, "the sources of streamed inputs alone are listed again");
    list_comes(BOTH);
}

static void end_streamed(void) {
    strbuf_fini(&launch.streams[1].input);
    end();
}

static void test_streamed(void) {
    begin_streamed();
    struct fake_run *r = fake_run(0);
    ok(strstr(r->line, " serve /r/cas /r/runs/r-1"), "the node serves the objects: %s", r->line);
    fake_take(r, SIZE_MAX);
    has_str(strbuf_cstr(&r->got), "{\"index\":4,\"path\":\"x\",\"name\":\"s3://b/x\",\"url\":\"u\"",
            "the list has the new address of an object");
    fake_say(r, "{}\n", 3);
    fake_exit(r, 0);
    ok(overs == 1 && !over_err.code, "a node that serves is over: %s", over_err.text);
    end_streamed();
    static const struct {
        const char *code, *text;
    } rows[] = {{"busy", ""}, {"not-found", "streamed inputs: why"}};
    for (size_t i = 0; i < 2; i++) {
        begin_streamed();
        const char *line = arena_printf(
            &arena, "{\"event\":\"error\",\"code\":\"%s\",\"text\":\"why\"}\n", rows[i].code);
        fake_say(fake_run(0), line, strlen(line));
        fake_exit(fake_run(0), 1);
        is_str(over_err.text, rows[i].text, "a server that ends with '%s' has its error",
               rows[i].code);
        ok(overs == 1 && !again.nodes[1].busy, "the node is over after '%s'", rows[i].code);
        end_streamed();
    }
    begin_streamed();
    input_again_close(&again);
    fake_exit(fake_run(0), 0);
    is_int(overs, 0, "a server that ends after the close is not reported");
    end_streamed();
}

int main(void) {
    fake_fleet_init();
    screen_fini(&screen);
    said_open(&notes);
    clock_stop();
    test_has();
    test_reads();
    test_changed();
    test_failures();
    test_streamed();
    said_close(&notes);
    loop_close(context.loop);
    arena_fini(&arena);
    return done_testing();
}
