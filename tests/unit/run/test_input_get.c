// SPDX-License-Identifier: Apache-2.0
// A list of objects goes to dtdata on a node, whose answers are hashes. The node is in the test.
#include "run/inputs/input_get.h"

#include "fleet/embedded_files.h"
#include "tests/unit/fleet_fake.h"

#define H1           "1111111111111111111111111111111111111111111111111111111111111111"
#define H2           "2222222222222222222222222222222222222222222222222222222222222222"
#define END          "{\"end\":2,\"read\":30,\"again\":4}\n"
#define HASH(i, hex) "{\"i\":" #i ",\"sha256\":\"" hex "\"}\n"

const struct embed_file embed_files[] = {{.name = "dtdata", .sha256 = "00112233445566778899"},
                                         {.name = NULL}};

static struct manifest_entry entries[3];
static struct manifest files = {.entries = entries, .count = 3};
static struct strbuf input;
static struct input_remote_list list;
static struct input_get get;
static int overs;
static struct err over;

static void on_over(struct input_get *g, const struct err *e) {
    is_int(g == &get && !g->run, true, "at the end nothing is under way");
    overs++;
    over = *e;
}

static void begin(void) {
    struct err e = {0};
    memset(entries, 0, sizeof entries);
    for (int i = 0; i < 3; i++)
        entries[i].source = "s3://b/x";
    strbuf_clear(&input);
    strbuf_adds(&input, "one\ntwo\n");
    list = (struct input_remote_list){.input = &input, .files = &files, .count = 2};
    overs = 0;
    err_clear(&over);
    fake_fleet_begin("{}\n", "{}\n", "{}\n");
    timer_stop(&turn); // nodes answer when the test lets them
    get = (struct input_get){.node = &nodes[0], .list = &list, .on_over = on_over};
    if (input_get_begin(&get, &e) < 0)
        bail_out("%s", e.text);
}

static void end(void) {
    input_get_close(&get);
    fake_fleet_end();
}

static void say(const char *text) {
    fake_say(fake_run(0), text, strlen(text));
}

static void test_all(void) {
    begin();
    struct fake_run *r = fake_run(0);
    ok(str_starts(r->line, "/r/") && str_ends(r->line, " get /r/cas"),
       "dtdata of the node is called (%s)", r->line);
    fake_take(r, SIZE_MAX);
    is_str(strbuf_cstr(&r->got), "one\ntwo\n{\"end\":true}\n", "the list has an end");
    say("{\"done\":1,\"total\":2}\n" HASH(1, H2));
    say("{\"i\":0,\"sha2");
    say("56\":\"" H1 "\"}\n");
    is_int(overs, 0, "each object has an answer");
    is_uint(get.known, 2, "both are known");
    ok(entries[0].hash[0] == 0x11 && entries[1].hash[31] == 0x22, "both have their hashes");
    say(END);
    is_int(overs, 0, "the program has to end, too");
    fake_exit(r, 0);
    is_int(overs, 1, "the end of the program is the end");
    is_int(over.code, ERR_NONE, "the node has all objects: %s", over.text);
    ok(get.read == 30 && get.again == 4, "the bytes that were read are counted");
    end();
    begin();
    struct err e = {0};
    input_get_close(&get);
    is_int(input_get_begin(&get, &e), 0, "the list can be sent again");
    fake_take(fake_run(0), SIZE_MAX);
    is_str(strbuf_cstr(&fake_run(0)->got), "one\ntwo\n{\"end\":true}\n", "the list has one end");
    end();
}

static void test_entries(void) {
    static const size_t order[] = {2, 0};
    bool came[3] = {true};
    begin();
    list.entries = order;
    list.came = came;
    memset(entries[0].hash, 0x22, HASH_BYTES);
    say(HASH(0, H1) HASH(1, H2));
    ok(entries[2].hash[0] == 0x11 && came[2] && !came[1], "an object belongs to its entry");
    is_int(overs, 0, "the same hash may come again");
    say(HASH(1, H1));
    is_int(over.code, ERR_HASH, "another hash may not");
    is_str(over.text, "'s3://b/x' is another one than the node before has read",
           "the error names the object");
    is_int(overs, 1, "this is the end");
    end();
}

static void test_wrong(void) {
    static const char *const wrong[] = {HASH(2, H1), HASH(-1, H1), HASH(0, "1234"), "{\"i\":\n",
                                        "words\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        begin();
        say(wrong[i]);
        is_int(overs, 1, "a wrong answer ends it (%zu)", i);
        is_int(over.code, ERR_FORMAT, "the error is one of the form");
        is_int(fake_run(0)->is_closed, true, "the program on the node is given up");
        end();
    }
    for (size_t more = 0; more < 2; more++) {
        char text[INPUT_REMOTE_ANSWER_BYTES_MAX + 2];
        memset(text, ' ', sizeof text);
        memcpy(text, "{\"a\":1}", 7);
        text[INPUT_REMOTE_ANSWER_BYTES_MAX + more] = '\n';
        begin();
        fake_say(fake_run(0), text, INPUT_REMOTE_ANSWER_BYTES_MAX + more + 1);
        is_int(overs, (int)more, "a line of %zu bytes is %s", INPUT_REMOTE_ANSWER_BYTES_MAX + more,
               more ? "too long" : "taken");
        end();
    }
}

static void test_ends(void) {
    begin();
    say(HASH(0, H1) END);
    fake_exit(fake_run(0), 0);
    is_int(over.code, ERR_NO_STATUS, "an object is missing");
    is_str(over.text, "dtdata ended without an answer", "the error says so");
    end();
    begin();
    say(HASH(0, H1) HASH(1, H2));
    fake_exit(fake_run(0), 0);
    is_int(over.code, ERR_NO_STATUS, "the last line is missing");
    end();
    begin();
    say(HASH(0, H1) "{\"event\":\"error\",\"code\":\"not-found\",\"text\":\"no such bucket\"}\n");
    fake_exit(fake_run(0), 1);
    has_str(over.text, "no such bucket", "the last line has the reason");
    is_int(overs, 1, "there is one end");
    end();
    begin();
    struct fake_run *r = fake_run(0);
    input_get_close(&get);
    is_int(r->is_closed, true, "closing gives the program up");
    is_int(overs, 0, "closing is no end");
    end();
    fake_refuses = 1;
    struct err e = {0};
    fake_fleet_begin("", "", "");
    timer_stop(&turn);
    get = (struct input_get){.node = &nodes[0], .list = &list, .on_over = on_over};
    is_int(input_get_begin(&get, &e), -1, "the program may not start");
    end();
}

int main(void) {
    fake_fleet_init();
    test_all();
    test_entries();
    test_wrong();
    test_ends();
    fake_fleet_fini();
    strbuf_fini(&input);
    return done_testing();
}
