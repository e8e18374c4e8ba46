// SPDX-License-Identifier: Apache-2.0
// The order of tasks: what comes before what, a part of a graph, circles, random graphs.
#include "run/inputs/input_from_run.h"
#include "run/task_order.h"
#include "tests/tap.h"

#include <string.h>

enum { TASKS_MAX = 40 };

struct graph {
    struct task_node nodes[TASKS_MAX];
    const char *after[TASKS_MAX][TASKS_MAX + 1];
    size_t count, order[TASKS_MAX], wanted;
};

static void add(struct graph *g, const char *name, const char *const *after, bool wanted) {
    size_t i = g->count++;
    for (size_t k = 0; after[k]; k++)
        g->after[i][k] = after[k];
    g->nodes[i] = (struct task_node){.name = name, .after = g->after[i], .wanted = wanted};
}

#define ADD(g, name, wanted, ...) add(g, name, (const char *const[]){__VA_ARGS__ NULL}, wanted)

static const char *ordered(struct arena *a, struct graph *g, struct err *e) {
    const char *text = "";
    if (task_order(a, g->nodes, g->count, g->order, &g->wanted, e) < 0)
        return e->text;
    for (size_t i = 0; i < g->wanted; i++)
        text = arena_printf(a, "%s%s%s", text, i ? " " : "", g->nodes[g->order[i]].name);
    return text;
}

static void orders(void) {
    struct arena a = {0};
    struct err e = {0};
    struct graph g = {0};
    ADD(&g, "train", true, "prep", "data", );
    ADD(&g, "prep", true, "data", );
    ADD(&g, "report", true, "train", );
    ADD(&g, "data", true, );
    ADD(&g, "other", true, );
    is_str(ordered(&a, &g, &e), "data prep train report other",
           "each task follows its earlier ones");
    for (size_t i = 0; i < g.count; i++)
        g.nodes[i].wanted = i == 1;
    is_str(ordered(&a, &g, &e), "data prep", "a wanted task brings its earlier ones");
    g = (struct graph){0};
    ADD(&g, "one", true, "two", "two", );
    ADD(&g, "two", true, );
    is_str(ordered(&a, &g, &e), "two one", "an earlier task may be named twice");
    g = (struct graph){0};
    is_str(ordered(&a, &g, &e), "", "no task gives an empty order");
    arena_fini(&a);
}

static void refusals(void) {
    struct arena a = {0};
    struct err e = {0};
    struct graph g = {0};
    ADD(&g, "train", true, "perp", );
    ADD(&g, "prep", true, );
    is_str(ordered(&a, &g, &e),
           "task 'train' comes after 'perp', which is no task (did you mean 'prep'?)",
           "an unknown task is refused");
    g = (struct graph){0};
    ADD(&g, "a", true, "b", );
    ADD(&g, "b", true, "c", );
    ADD(&g, "c", true, "d", "b", );
    ADD(&g, "d", true, );
    is_str(ordered(&a, &g, &e), "tasks wait for each other: 'b' after 'c' after 'b'",
           "a circle is named without the tasks outside of it");
    g = (struct graph){0};
    ADD(&g, "a", true, "a", );
    is_str(ordered(&a, &g, &e), "tasks wait for each other: 'a' after 'a'",
           "a task cannot follow itself");
    g = (struct graph){0};
    ADD(&g, "a", true, );
    ADD(&g, "b", false, "c", );
    ADD(&g, "c", false, "b", );
    is_str(ordered(&a, &g, &e), "a", "a circle of unwanted tasks does no harm");
    arena_fini(&a);
}

// Random graphs: an order is right, or there is a circle. Without backward edges there is none.
static void random_graphs(void) {
    enum { ROUNDS = 300 };
    static const char names[] = "abcdefghijklmnopqrst";
    unsigned state = 7, wrong = 0, circles = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct arena a = {0};
        struct err e = {0};
        struct graph g = {0};
        bool forward = round % 2;
        g.count = 2 + (unsigned)round % 19;
        for (size_t i = 0; i < g.count; i++) {
            size_t n = 0;
            for (size_t k = forward ? i + 1 : 0; k < g.count; k++) {
                state = state * 1103515245 + 12345;
                if ((state >> 16) % 6 == 0)
                    g.after[i][n++] = arena_printf(&a, "%c", names[k]);
            }
            g.nodes[i] = (struct task_node){arena_printf(&a, "%c", names[i]), g.after[i], true, 0};
        }
        int result = task_order(&a, g.nodes, g.count, g.order, &g.wanted, &e);
        circles += result < 0;
        wrong +=
            result < 0 ? forward || !strstr(e.text, "wait for each other") : g.wanted != g.count;
        for (size_t i = 0; result == 0 && i < g.count; i++)
            for (const char *const *after = g.after[i]; *after; after++)
                wrong += g.nodes[*after[0] - 'a'].place >= g.nodes[i].place;
        arena_fini(&a);
    }
    is_uint(wrong, 0, "%d random graphs have right orders or circles", ROUNDS);
    ok(circles > 10 && circles < ROUNDS / 2 + 1, "%u of them have a circle", circles);
}

static void sources(void) {
    struct arena a = {0};
    const char *run = NULL;
    is_str(input_from_run_task(&a, "run:prep/output", &run), "prep", "a source names its task");
    is_str(input_from_run_task(&a, "run:prep@prep-1/output/x", &run), "prep",
           "a source with a run does, too");
    is_str(run, "prep-1", "the run of a source is found, too");
    is_str(input_from_run_task(&a, "run:prep/output/a@b", &run), "prep", "a path may have an '@'");
    is_str(run, "", "an '@' in a path names no run");
    ok(input_from_run_task(&a, "./run:prep", &run) == NULL, "a path names none");
    arena_fini(&a);
}

int main(void) {
    orders();
    refusals();
    random_graphs();
    sources();
    return done_testing();
}
