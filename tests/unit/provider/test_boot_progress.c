// SPDX-License-Identifier: Apache-2.0
// Steps of new nodes: when each is reached, what is said of it in each style, and the table at the
// end. The test turns the clock.
#include "provider/boot_progress.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

static struct arena a;
static struct screen screen;
static struct context context;
static const char *const NODES[] = {"n0", "n1"};

static struct boot_progress *begin(enum screen_style style) {
    said_open(&screen);
    screen.style = style;
    return boot_progress_open(&context, NODES, 2);
}

static const char *ended(void) {
    const char *text = arena_strdup(&a, said());
    said_close(&screen);
    return text;
}

static const char *table(const struct boot_progress *p) {
    struct strbuf out = {0};
    boot_progress_format(p, &out);
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

static const char *json(const struct boot_progress *p) {
    struct strbuf out = {0};
    struct json_out j;
    json_open(&j, &out);
    json_object(&j, NULL);
    boot_progress_json(p, &j);
    json_end(&j);
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

static void test_steps(void) {
    struct boot_progress *p = begin(SCREEN_PLAIN);
    boot_progress_show(p);
    ok(!p->shown, "no rows are shown without a terminal");
    boot_progress_reach(p, 0, PHASE_REQUESTED); // at once
    clock_ahead_ms += 1500;
    boot_progress_reach(p, 0, PHASE_RUNNING);
    boot_progress_reach(p, 1, PHASE_REQUESTED);
    clock_ahead_ms += 500;
    boot_progress_reach(p, 0, PHASE_REQUESTED);
    boot_progress_reach(p, 0, PHASE_RUNNING);
    boot_progress_reach(p, 2, PHASE_RUNNING);
    boot_progress_say(p, 0, "words");
    boot_progress_fail(p, 1, "words");
    boot_progress_fail(p, 2, "words");
    is_int(p->nodes[0].at_ms[PHASE_REQUESTED], 0, "a step may be reached at once");
    is_int(p->nodes[0].at_ms[PHASE_RUNNING], 1500, "a step is reached once");
    is_int(p->nodes[1].at_ms[PHASE_RUNNING], -1, "other steps are not reached");
    ok(p->nodes[1].failed && !p->nodes[0].failed, "one node has failed");
    clock_ahead_ms += 8000;
    boot_progress_finish(p, 3000, 5000);
    is_str(ended(),
           "n0: requested after 0 ms\nn0: running after 1.5 s\nn1: requested after 1.5 s\n",
           "each step of a node that is there is said once");
    is_str(table(p),
           "NODE              REQUESTED    RUNNING        SSH CLOUD-INIT     CHECKS      READY\n"
           "n0                     0 ms      1.5 s          -          -          -          -\n"
           "n1                    1.5 s          -          -          -          -          -"
           "  failed\n"
           "terraform 3.0 s, boot 5.0 s, dtctl itself 2.0 s\n",
           "the table has the steps of each node and the parts of the time");
    is_str(json(p),
           "{\"terraform_ms\":3000,\"boot_ms\":5000,\"own_ms\":2000,\"phases\":[{\"node\":\"n0\","
           "\"requested\":0,\"running\":1500},{\"node\":\"n1\",\"requested\":1500}]}",
           "JSON has the steps that are reached");
    static const int boots[] = {7000, 7001};
    for (size_t i = 0; i < 2; i++) {
        boot_progress_finish(p, 3000, boots[i]);
        has_str(json(p), "\"own_ms\":0,", "dtctl's own time is never negative (%d)", boots[i]);
    }
}

static void test_rows(void) {
    struct boot_progress *p = begin(SCREEN_TERMINAL);
    boot_progress_show(p);
    boot_progress_show(p);
    ok(p->shown, "rows are shown on a terminal");
    boot_progress_say(p, 0, "spoken");
    boot_progress_say(p, 2, "nowhere");
    boot_progress_reach(p, 1, PHASE_SSH);
    clock_turn(context.loop, 1000);
    has_str(said(), "spoken", "words are in the row of their node");
    has_str(said(), "ssh after 0 ms", "a step is in the row of its node");
    ok(!strstr(said(), "n1: ssh"), "a step has no line of its own");
    boot_progress_reach(p, 0, PHASE_CLOUD_INIT);
    boot_progress_fail(p, 1, "broken");
    clock_turn(context.loop, 1000);
    has_str(said(), "cloud-init after 1.0 s", "the end of the boot ends the row");
    has_str(said(), "failed: broken", "a failure ends the row");
    boot_progress_hide(p);
    boot_progress_hide(p);
    ok(!p->shown, "rows are hidden");
    said_clear();
    clock_turn(context.loop, 1000);
    is_str(said(), "", "hidden rows are not drawn");
    boot_progress_reach(p, 0, PHASE_CHECKS);
    has_str(ended(), "n0: checks after", "a step has a line of its own then");
}

static void test_events(void) {
    struct boot_progress *p = begin(SCREEN_JSON);
    clock_ahead_ms += 20;
    boot_progress_reach(p, 1, PHASE_READY);
    has_str(ended(), "\"node\":\"n1\",\"phase\":\"ready\",\"ms\":20}", "a step is an event");
}

int main(void) {
    struct err e;
    clock_stop();
    context = (struct context){.arena = &a, .screen = &screen, .loop = loop_open(&e)};
    if (!context.loop)
        bail_out("%s", e.text);
    test_steps();
    test_rows();
    test_events();
    loop_close(context.loop);
    arena_fini(&a);
    return done_testing();
}
