// SPDX-License-Identifier: Apache-2.0
// Answers of `dtrun --node status --sample`: those of new and old agents, and hostile ones.
#include "fleet/fleet_samples.h"
#include "tests/tap.h"

#include <string.h>

static struct arena arena;

static struct node_look parse(const char *text) {
    struct node_look look;
    fleet_samples_parse(&arena, text, strlen(text), 1, &look);
    return look;
}

#define RUN "{\"run\":\"r-1\",\"state\":\"running\",\"round\":2,"

static void try_answers(void) {
    struct node_look l =
        parse(RUN "\"every_ms\":2000,\"sample\":{\"time_ms\":7,\"cpus\":4,\"cpu_percent\":12.5},"
                  "\"tail\":{\"stdout\":\"a\\nb\",\"stderr\":\"\",\"metrics\":\"{}\\n\"}}\n");
    ok(l.run && l.run->round == 2 && !l.run->over && l.run->node_index == 1, "the run's state");
    ok(l.knows_samples && l.every_ms == 2000 && !l.silent, "an agent that samples its host");
    ok(l.has_sample && l.sample.cpu_percent > 12 && l.sample.memory_bytes == -1,
       "the sample is read");
    is_mem(l.out.text, l.out.len, "a\nb", 3, "the end of what rank 0 has printed");
    is_mem(l.metrics.text, l.metrics.len, "{}\n", 3, "the end of the trainer's records");
    ok(l.err.len == 0, "nothing on standard error");

    l = parse(RUN "\"every_ms\":2000,\"sample\":null}");
    ok(l.run && l.knows_samples && !l.has_sample && l.out.len == 0, "no sample yet");
    l = parse(RUN "\"every_ms\":0,\"sample\":null}");
    ok(l.knows_samples && l.every_ms == 0, "a host that is not sampled");
    l = parse(RUN "\"owner\":null}");
    ok(l.run && !l.knows_samples && !l.silent, "an agent of an older version");
    l = parse(RUN "\"silent\":true}");
    ok(l.run && l.silent, "an agent that does not answer");
    l = parse(RUN "\"every_ms\":5}\n{\"run\":\"r-2\",\"every_ms\":6}\n");
    ok(l.run && strcmp(l.run->run, "r-1") == 0 && l.every_ms == 5, "one line counts");
}

static void try_hostile(void) {
    static const char *const none[] = {"",   "\n",        "x",    "[]",
                                       "{}", "{\"run\":", "null", "\n{\"run\":\"r-1\"}"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!parse(none[i]).run, "no answer: case %zu", i);
    static const char *const odd[] = {"-1", "1e9", "99999999999", "\"5\"", "null", "[5]"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct node_look l = parse(arena_printf(&arena, RUN "\"every_ms\":%s}", odd[i]));
        ok(l.run && !l.knows_samples && l.every_ms == 0, "no interval: %s", odd[i]);
    }
    struct node_look l = parse(RUN "\"every_ms\":1,\"sample\":[1],\"tail\":[\"a\"]}");
    ok(l.run && !l.has_sample && l.out.len == 0, "members of other types");
    l = parse(RUN "\"every_ms\":1,\"tail\":{\"stdout\":\"a\\u0000\\u001b[2Jb\",\"stderr\":5}}");
    is_mem(l.out.text, l.out.len, "a\0\033[2Jb", 7, "a tail may have any bytes, with its length");
    ok(l.err.len == 0, "a tail that is no text is empty");
}

int main(void) {
    try_answers();
    try_hostile();
    arena_fini(&arena);
    return done_testing();
}
