// SPDX-License-Identifier: Apache-2.0
// Rows and table of `up`.
#include "provider/boot_progress.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

static const char *const NAMES[] = {
#define X(id, name, heading) name,
    PHASES(X)
#undef X
};
static const char *const HEADINGS[] = {
#define X(id, name, heading) heading,
    PHASES(X)
#undef X
};

struct boot_progress *boot_progress_open(struct context *s, const char *const *names,
                                         size_t count) {
    struct boot_progress *p = arena_new(s->arena, struct boot_progress, 1);
    p->context = s;
    p->count = count;
    p->names = arena_new(s->arena, const char *, count + 1);
    p->nodes = arena_new(s->arena, struct boot_progress_node, count);
    p->started_ms = clock_mono_ms();
    for (size_t i = 0; i < count; i++) {
        p->names[i] = names[i];
        for (int k = 0; k < PHASE_COUNT; k++)
            p->nodes[i].at_ms[k] = -1;
    }
    return p;
}

static void on_tick(struct timer *t) {
    struct boot_progress *p = container_of(t, struct boot_progress, tick);
    progress_show(&p->progress, clock_mono_ms());
    timer_start(p->context->loop, t, PROGRESS_DRAW_MS, on_tick);
}

void boot_progress_show(struct boot_progress *p) {
    // Without a terminal each step prints a line of its own.
    if (p->shown || p->context->screen->style != SCREEN_TERMINAL)
        return;
    progress_init(&p->progress, p->context->arena, p->context->screen, "up", p->names, p->count,
                  clock_mono_ms());
    for (size_t i = 0; i < p->count; i++)
        progress_state(&p->progress, i, "waiting");
    p->shown = true;
    timer_start(p->context->loop, &p->tick, PROGRESS_DRAW_MS, on_tick);
}

void boot_progress_hide(struct boot_progress *p) {
    timer_stop(&p->tick);
    if (p->shown)
        progress_fini(&p->progress, clock_mono_ms());
    p->shown = false;
}

void boot_progress_say(struct boot_progress *p, size_t node, const char *words) {
    if (p->shown && node < p->count)
        progress_state(&p->progress, node, words);
}

static void write_event(struct boot_progress *p, size_t node, enum boot_phase phase) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "phase");
    json_str(&j, "node", p->names[node]);
    json_str(&j, "phase", NAMES[phase]);
    json_int(&j, "ms", p->nodes[node].at_ms[phase]);
    screen_event_end(p->context->screen, &text, &j);
}

void boot_progress_reach(struct boot_progress *p, size_t node, enum boot_phase phase) {
    char took[STR_HUMAN_BYTES_MAX], words[64];
    if (node >= p->count || p->nodes[node].at_ms[phase] >= 0)
        return;
    p->nodes[node].at_ms[phase] = clock_mono_ms() - p->started_ms;
    write_event(p, node, phase);
    snprintf(words, sizeof words, "%s after %s", NAMES[phase],
             str_human_ms(took, p->nodes[node].at_ms[phase]));
    if (!p->shown)
        screen_note(p->context->screen, "%s: %s", p->names[node], words);
    else if (phase == PHASE_CLOUD_INIT)
        progress_end(&p->progress, node, true, words);
    else
        progress_state(&p->progress, node, words);
}

void boot_progress_fail(struct boot_progress *p, size_t node, const char *words) {
    if (node >= p->count)
        return;
    p->nodes[node].failed = true;
    if (p->shown)
        progress_end(&p->progress, node, false, words);
}

void boot_progress_finish(struct boot_progress *p, int64_t outside_ms, int64_t boot_ms) {
    p->outside_ms = outside_ms;
    p->boot_ms = boot_ms;
    p->total_ms = clock_mono_ms() - p->started_ms;
}

static int64_t own_ms(const struct boot_progress *p) {
    int64_t own = p->total_ms - p->outside_ms - p->boot_ms;
    return own > 0 ? own : 0;
}

void boot_progress_format(const struct boot_progress *p, struct strbuf *out) {
    char time[STR_HUMAN_BYTES_MAX], boot[STR_HUMAN_BYTES_MAX], own[STR_HUMAN_BYTES_MAX];
    strbuf_addf(out, "%-16s", "NODE");
    for (int k = 0; k < PHASE_COUNT; k++)
        strbuf_addf(out, " %10s", HEADINGS[k]);
    strbuf_addc(out, '\n');
    for (size_t i = 0; i < p->count; i++) {
        strbuf_addf(out, "%-16s", p->names[i]);
        for (int k = 0; k < PHASE_COUNT; k++) {
            int64_t at = p->nodes[i].at_ms[k];
            strbuf_addf(out, " %10s", at < 0 ? "-" : str_human_ms(time, at));
        }
        strbuf_addf(out, "%s\n", p->nodes[i].failed ? "  failed" : "");
    }
    strbuf_addf(out, "terraform %s, boot %s, dtctl itself %s\n", str_human_ms(time, p->outside_ms),
                str_human_ms(boot, p->boot_ms), str_human_ms(own, own_ms(p)));
}

void boot_progress_json(const struct boot_progress *p, struct json_out *j) {
    json_int(j, "terraform_ms", p->outside_ms);
    json_int(j, "boot_ms", p->boot_ms);
    json_int(j, "own_ms", own_ms(p));
    json_array(j, "phases");
    for (size_t i = 0; i < p->count; i++) {
        json_object(j, NULL);
        json_str(j, "node", p->names[i]);
        for (int k = 0; k < PHASE_COUNT; k++)
            if (p->nodes[i].at_ms[k] >= 0)
                json_int(j, NAMES[k], p->nodes[i].at_ms[k]);
        json_end(j);
    }
    json_end(j);
}
