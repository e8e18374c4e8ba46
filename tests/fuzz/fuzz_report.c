// SPDX-License-Identifier: Apache-2.0
// Pages of runs: a text as lines of events and as a metric's name. No mark of HTML comes through,
// a page's parts keep to their sizes, and times are in order.
#include "run/report/html.h"
#include "run/report/report.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check_escaped(const char *text, size_t len) {
    struct strbuf out = {0};
    html_text(&out, text, len);
    for (size_t i = 0; i < out.len; i++)
        must(!strchr("<>\"'", out.data[i]) &&
             (out.data[i] == '\n' || out.data[i] == '\t' || (unsigned char)out.data[i] >= ' '));
    strbuf_fini(&out);
}

static void take_events(struct arena *a, const char *text, size_t size) {
    struct compare_run run = {.run = {.state = "finished", .created_ms = 1}};
    struct report_run r = {.run = &run};
    struct strbuf out = {0};
    r.events = arena_new(a, struct report_event, REPORT_EVENTS_HEAD + REPORT_EVENTS_TAIL);
    for (const char *end, *stop = text + size; text < stop; text = end + (end < stop)) {
        struct json *j = NULL;
        struct err ignored = {0};
        end = memchr(text, '\n', (size_t)(stop - text));
        end = end ? end : stop;
        if (json_parse(a, text, (size_t)(end - text), &j, &ignored) == 0 && j->type == JSON_OBJECT)
            report_take_event(&r, j);
    }
    bool exact = false;
    double share = report_productive(&r, &exact);
    must(!exact && isfinite(share) && share <= 1 && report_running_ms(&r) >= 0);
    must(r.times.round_count <= REPORT_ROUNDS_MAX);
    report_time_line(&r, &out);
    must(out.len < 100000 && (!out.len || (!strstr(out.data, "nan") && !strstr(out.data, "inf"))));
    strbuf_fini(&out);
}

// Eight bytes are a place and a value.
static void take_points(struct arena *a, const unsigned char *data, size_t size) {
    struct plot_set s;
    struct strbuf out = {0};
    plot_set_init(&s, a, "Metrics", "rank");
    int at = plot_find(&s, "loss", PLOT_TIME, PLOT_PLAIN);
    for (size_t i = 0; i + 10 <= size; i += 10) {
        int64_t place = 0;
        double value = 0;
        memcpy(&place, data + i, 2);
        memcpy((char *)&value + 4, data + i + 2, 4);
        memcpy((char *)&place + 4, data + i + 6, 4);
        plot_add(&s, (size_t)at, 0, data[i] % 4 - 1, place, value);
    }
    plot_set_svg(&s, 1, 200000, &out);
    must(out.len < 200000 && (!out.len || (!strstr(out.data, "nan") && !strstr(out.data, "inf"))));
    plot_set_end(&s);
    strbuf_fini(&out);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct arena a = {0};
    const char *text = arena_strndup(&a, (const char *)data, size);
    check_escaped(text, size);
    take_events(&a, text, size);
    take_points(&a, data, size);
    arena_fini(&a);
    return 0;
}
