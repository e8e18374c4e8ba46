// SPDX-License-Identifier: Apache-2.0
// Findings of `dtctl doctor`, as lines and as events.
#include "ui/findings.h"

void findings_add(struct findings *f, enum findings_verdict v, const char *what, const char *remedy,
                  const char *fmt, ...) {
    static const char *const verdicts[] = {"ok", "warn", "bad"};
    struct screen *screen = f->context->screen;
    struct strbuf text = {0};
    struct json_out j;
    va_list ap;
    va_start(ap, fmt);
    char *fact = arena_vprintf(f->context->arena, fmt, ap);
    va_end(ap);
    f->counts[v]++;
    screen_event(&text, &j, "finding");
    json_str(&j, "verdict", verdicts[v]);
    json_str(&j, "what", what);
    json_str(&j, "fact", fact);
    json_str(&j, "remedy", v == FINDING_GOOD ? NULL : remedy);
    screen_event_end(screen, &text, &j);
    screen_out(screen, "%-5s %-22s %s\n", verdicts[v], what, fact);
    if (v != FINDING_GOOD && remedy)
        screen_out(screen, "%-5s %-22s -> %s\n", "", "", remedy);
}
