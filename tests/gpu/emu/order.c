// SPDX-License-Identifier: Apache-2.0
// order.c: which of the instructions at which lanes of a warp wait goes first, so that they meet
// again where a GPU would let them meet: all of a loop before what follows it, and every way to an
// instruction before it. Compilers put parts of a loop anywhere in the text, so that its order does
// not say that. The weak topological order of F. Bourdoncle, "Efficient chaotic iteration
// strategies with widenings", 1993.
#include "emu.h"

#include <stdlib.h>

#define NONE UINT32_MAX

// Instructions without a label or a branch in between.
struct part {
    u32 first, end;
    u32 next[2]; // parts that may follow, or NONE
    u32 found;   // when the walk came here; 0: not yet; NONE: it has its place
    u32 place;
};

struct walk {
    struct part *part;
    u32 parts, *stack, depth, found;
    u32 places; // the next part to be placed goes before those that have been
};

static void place(struct walk *w, u32 n) {
    w->part[n].found = NONE;
    w->part[n].place = --w->places;
}

// Places all parts behind n that are in no loop around it. Returns the head of the outermost loop
// that n is in, as the time when it was found.
static u32 visit(struct walk *w, u32 n) {
    struct part *p = &w->part[n];
    u32 head = p->found = ++w->found;
    bool is_loop = false;
    w->stack[w->depth++] = n;
    for (u32 k = 0; k < 2; k++) {
        if (p->next[k] == NONE)
            continue;
        u32 least = w->part[p->next[k]].found;
        if (!least)
            least = visit(w, p->next[k]);
        if (least <= head)
            head = least, is_loop = true;
    }
    if (head != p->found)
        return head;
    p->found = NONE;
    for (u32 inner; (inner = w->stack[--w->depth]) != n;)
        w->part[inner].found = 0;
    for (u32 k = 0; k < 2 && is_loop; k++)
        if (p->next[k] != NONE && !w->part[p->next[k]].found)
            visit(w, p->next[k]);
    place(w, n);
    return head;
}

// part_of[i] becomes the part of instruction i.
static u32 cut(const struct ptx_kernel *k, struct part *part, u32 *part_of) {
    u32 parts = 0;
    for (u32 i = 0; i < k->n; i++)
        part_of[i] = i == 0 || k->code[i - 1].flow == F_BRANCH || k->code[i - 1].flow == F_EXIT;
    for (u32 i = 0; i < k->n; i++)
        if (k->code[i].flow == F_BRANCH && k->code[i].target < k->n)
            part_of[k->code[i].target] = 1;
    for (u32 i = 0; i < k->n; i++) {
        if (part_of[i])
            part[parts++] = (struct part){.first = i};
        part[parts - 1].end = i + 1;
        part_of[i] = parts - 1;
    }
    return parts;
}

static void connect(const struct ptx_kernel *k, struct part *p, const u32 *part_of) {
    const struct insn *last = &k->code[p->end - 1];
    bool goes_on =
        p->end < k->n && ((last->flow != F_BRANCH && last->flow != F_EXIT) || last->guard >= 0);
    p->next[0] = goes_on ? part_of[p->end] : NONE;
    p->next[1] = last->flow == F_BRANCH && last->target < k->n ? part_of[last->target] : NONE;
}

void order_make(struct ptx_kernel *k) {
    struct part *part = calloc(k->n + 1, sizeof *part);
    u32 *part_of = calloc(k->n + 1, sizeof *part_of), *at = calloc(k->n + 1, sizeof *at);
    struct walk w = {.part = part, .stack = calloc(k->n + 1, sizeof *w.stack)};
    if (!part || !part_of || !at || !w.stack)
        abort();
    w.parts = w.places = cut(k, part, part_of);
    for (u32 n = 0; n < w.parts; n++)
        connect(k, &part[n], part_of);
    for (u32 n = 0; n < w.parts; n++) // those behind the first one that nothing reaches follow it
        if (!part[n].found)
            visit(&w, n);
    for (u32 n = 0; n < w.parts; n++)
        at[part[n].place] = n;
    u32 rank = 0;
    for (u32 n = 0; n < w.parts; n++)
        for (u32 i = part[at[n]].first; i < part[at[n]].end; i++)
            k->code[i].rank = rank++;
    free(part), free(part_of), free(at), free(w.stack);
}
