// SPDX-License-Identifier: Apache-2.0
// Samples of nodes: what is written is read again, and figures outside their bounds are unknown.
#include "protocol/node_sample.h"
#include "tests/tap.h"

#include <string.h>

static struct arena arena;

static bool read_text(const char *text, struct node_sample *out) {
    struct json *j;
    struct err e;
    if (json_parse(&arena, text, strlen(text), &j, &e) < 0)
        bail_out("%s", e.text);
    return node_sample_read(j, out);
}

static void write_text(const struct node_sample *s, struct strbuf *out) {
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    node_sample_write(s, &j);
    json_end(&j);
}

static void try_unknown(void) {
    struct node_sample s, back;
    struct strbuf text = {0}, again = {0};
    node_sample_init(&s);
    s.time_ms = 5;
    write_text(&s, &text);
    is_str(text.data,
           "{\"time_ms\":5,\"cpu_percent\":null,\"cpus\":null,\"memory_bytes\":null,"
           "\"memory_limit_bytes\":null,\"received_bytes_s\":null,\"sent_bytes_s\":null,"
           "\"read_bytes_s\":null,\"written_bytes_s\":null,\"disk_free_bytes\":null}",
           "figures that are not known are null");
    ok(read_text(text.data, &back), "a sample without figures is one");
    write_text(&back, &again);
    is_str(again.data, text.data, "such figures stay unknown");
    strbuf_fini(&text);
    strbuf_fini(&again);
}

static void try_hostile(void) {
    static const char *const none[] = {"[]",
                                       "5",
                                       "null",
                                       "\"x\"",
                                       "{}",
                                       "{\"time_ms\":-1}",
                                       "{\"time_ms\":1e300}",
                                       "{\"time_ms\":\"5\"}"};
    struct node_sample s;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ok(!read_text(none[i], &s), "no sample: %s", none[i]);
    ok(read_text("{\"time_ms\":1,\"cpu_percent\":1e308,\"cpus\":-4,\"memory_bytes\":-1,"
                 "\"memory_limit_bytes\":9223372036854775807,\"received_bytes_s\":1.5,"
                 "\"sent_bytes_s\":[1],\"read_bytes_s\":{\"a\":1},\"written_bytes_s\":\"9\","
                 "\"disk_free_bytes\":true}",
                 &s),
       "a sample without one good figure");
    ok(s.cpu_percent < 0 && s.cpus < 0 && s.memory_bytes == -1 && s.memory_limit_bytes == -1 &&
           s.received_bytes_s == -1 && s.sent_bytes_s == -1 && s.read_bytes_s == -1 &&
           s.written_bytes_s == -1 && s.disk_free_bytes == -1 && s.gpu_count == 0,
       "all of them are unknown");
    ok(read_text("{\"time_ms\":1,\"gpu_percent\":[5,101,\"x\",null],\"gpu_memory_mib\":[1,-2],"
                 "\"gpu_limit_mib\":{\"a\":5}}",
                 &s),
       "lists that do not fit each other");
    is_int(s.gpu_count, 4, "the first list counts");
    ok(s.gpus[0].percent == 5 && s.gpus[0].memory_mib == 1 && s.gpus[1].percent == -1 &&
           s.gpus[1].memory_mib == -1 && s.gpus[3].memory_mib == -1 &&
           s.gpus[0].memory_limit_mib == -1,
       "figures in their bounds are taken");
    struct strbuf many = {0};
    strbuf_adds(&many, "{\"time_ms\":1,\"gpu_percent\":[0");
    for (int i = 0; i < 10000; i++)
        strbuf_adds(&many, ",7");
    strbuf_adds(&many, "]}");
    ok(read_text(many.data, &s) && s.gpu_count == NODE_SAMPLE_GPUS_MAX, "GPUs are bounded");
    strbuf_fini(&many);
}

int main(void) {
    try_unknown();
    try_hostile();
    arena_fini(&arena);
    return done_testing();
}
