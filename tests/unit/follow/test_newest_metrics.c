// SPDX-License-Identifier: Apache-2.0
// The newest values of metrics, from ends of logs and of the trainer's records.
#include "follow/newest_metrics.h"
#include "tests/tap.h"

#include <string.h>

static struct arena arena;
static struct strbuf got;

static void on_metric(void *ctx, const char *name, double value) {
    (void)ctx;
    strbuf_addf(&got, "%s=%.6g ", name, value);
}

static const char *now(const struct newest_metrics *m) {
    strbuf_clear(&got);
    newest_metrics_each(m, on_metric, NULL);
    return strbuf_cstr(&got);
}

static void lines(struct newest_metrics *m, const char *text) {
    newest_metrics_lines(m, text, strlen(text));
}

static void records(struct newest_metrics *m, const char *text) {
    newest_metrics_records(m, text, strlen(text));
}

int main(void) {
    struct option_pair pairs[] = {{"loss", "loss ([0-9.]+)"}, {"rate", "([0-9]+) it/s"}};
    struct option_map all = {.items = pairs, .count = 2};
    struct newest_metrics m;
    newest_metrics_open(&m, &arena, &all);
    is_str(now(&m), "", "nothing has come");
    lines(&m, "");
    lines(&m, "loss 0.5\nloss 0.25\nother\n");
    is_str(now(&m), "loss=0.25 ", "the last line counts");
    lines(&m, "loss 0.25\nloss 0.1");
    is_str(now(&m), "loss=0.25 ", "a line that is not over yet does not");
    lines(&m, " 10 it/s\r 12 it/s\r 1");
    is_str(now(&m), "loss=0.25 rate=12 ", "states of a progress bar do");
    lines(&m, "nothing\n");
    is_str(now(&m), "loss=0.25 rate=12 ", "a value stays when its line has left the tail");
    records(&m, "");
    records(&m,
            "\"loss\":5}\n{\"step\":7,\"loss\":1.5,\"acc1\":null,\"epoch\":\"9\"}\n[1]\nx\n{\"st");
    is_str(now(&m), "loss=0.25 rate=12 step=7 loss=1.5 ", "numbers of the trainer's whole records");
    lines(&m, "loss 1.2.3\nloss 9e999\n\n\n");
    is_str(now(&m), "loss=9 rate=12 step=7 loss=1.5 ", "a text that is no number is no value");
    is_int((long)m.steps.records, 0, "records without durations have no steps");
#define STEP(data, compute, comm)                                                                  \
    "{\"data_ms\":" #data ",\"compute_ms\":" #compute ",\"comm_exposed_ms\":" #comm "}\n"
    for (int i = 0; i < 2; i++) { // the same text again
        records(&m, STEP(50, 100, 50) STEP(10, 80, 10) STEP(-1, 80, 10) STEP(1e300, 1, 1));
        is_int((long)m.steps.records, 2, "records with durations within their bounds count");
        ok(m.steps.newest_ms == 100 && m.steps.least_ms == 100 && m.steps.most_ms == 200,
           "the newest, the least and the greatest time of a step");
        ok(m.steps.data_percent == 20 && m.steps.comm_percent == 20, "both waits");
    }
    records(&m, STEP(0, 0, 0));
    ok(m.steps.records == 1 && m.steps.data_percent == 0, "steps without a duration");
    records(&m, "{\"event\":\"eval\"}\n");
    is_int((long)m.steps.records, 1, "a text without steps leaves the figures of before");
    newest_metrics_close(&m);

    pairs[0].value = "loss (";
    newest_metrics_open(&m, &arena, &all);
    lines(&m, "loss 5 7 it/s\n");
    is_str(now(&m), "rate=7 ", "an expression that cannot be used is left out");
    newest_metrics_close(&m);
    strbuf_fini(&got);
    arena_fini(&arena);
    return done_testing();
}
