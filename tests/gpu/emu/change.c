// SPDX-License-Identifier: Apache-2.0
// change.c: changes of kernels that a test must notice. A barrier, a wait and a fence is taken away
// alone; a wait for an mbarrier then says at once that its phase is complete. Branches, selections,
// minima, and predicates that are joined belong to a condition of the source: all that a kernel has
// of one kind at one place of the source change together, since the compiler makes several of one
// condition. Each has two changes: the branch is never taken or always, the result is the first
// operand or the second.
#include "emu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { K_NONE, K_WAIT, K_AHEAD, K_BACK, K_SELECT, K_JOIN, K_LIMIT };
static const char *const kind_name[][2] = {
    [K_WAIT] = {"removed", ""},
    [K_AHEAD] = {"never taken", "always taken"},
    [K_BACK] = {"never repeated", ""},
    [K_SELECT] = {"always the first", "always the second"},
    [K_JOIN] = {"only the first", "only the second"},
    [K_LIMIT] = {"always the first", "always the second"},
};

struct change_group {
    struct ptx_kernel *k;
    struct source_place source;
    enum kind kind;
    const struct insn *first;
};
enum { CHANGES_OF_GROUP = 2 };

u8 *change_seen;

static bool named(const struct insn *i, const char *start) {
    return strncmp(i->name, start, strlen(start)) == 0;
}

// Before a division of 64 bits the compiler looks whether 32 are enough: no condition of the
// source.
static bool of_division(const struct ptx_kernel *k, const struct insn *i) {
    return i - k->code > 2 && named(&i[-1], "setp.") && named(&i[-2], "and.b64") &&
           i[-2].op[2].is_imm && (u64)i[-2].op[2].imm == 0xffffffff00000000;
}

static enum kind kind_of(const struct ptx_kernel *k, const struct insn *i) {
    static const char *const waits[] = {
        "bar.",          "barrier.",        "fence.",      "membar.",      "mbarrier.",
        "cp.async.wait", "cp.async.commit", "wgmma.fence", "wgmma.commit", "wgmma.wait"};
    if (i->flow == F_BRANCH)
        return i->guard < 0 || of_division(k, i) ? K_NONE
               : i->target > (u32)(i - k->code)  ? K_AHEAD
                                                 : K_BACK;
    for (size_t n = 0; n < sizeof waits / sizeof *waits; n++)
        if (named(i, waits[n]))
            return K_WAIT;
    if (named(i, "selp."))
        return K_SELECT;
    if (i->type == T_PRED && (named(i, "and.") || named(i, "or.")))
        return K_JOIN;
    if (!type_is_float((enum type)i->type) && (named(i, "min.") || named(i, "max.")))
        return K_LIMIT;
    return K_NONE;
}

static u32 group_of(struct ptx_module *m, struct ptx_kernel *k, const struct insn *i,
                    enum kind kind) {
    struct change_group g = {k, i->source, kind, i};
    for (u32 n = 0; m->group && n < m->n_groups && kind != K_WAIT; n++)
        if (m->group[n].k == k && m->group[n].kind == kind &&
            memcmp(&m->group[n].source, &g.source, sizeof g.source) == 0)
            return n;
    if (!m->group || m->n_groups == m->groups_cap) {
        m->groups_cap = m->groups_cap ? 2 * m->groups_cap : 256;
        m->group = realloc(m->group, m->groups_cap * sizeof *m->group);
        if (!m->group)
            abort();
    }
    m->group[m->n_groups] = g;
    return m->n_groups++;
}

unsigned ptx_changes(struct ptx_module *m) {
    bool known = m->group != NULL;
    for (u32 n = 0; n < m->n_kernels && !known; n++)
        for (struct insn *i = m->kernel[n]->code; i < m->kernel[n]->code + m->kernel[n]->n; i++) {
            enum kind kind = kind_of(m->kernel[n], i);
            i->group = kind ? 1 + group_of(m, m->kernel[n], i, kind) : 0;
        }
    return CHANGES_OF_GROUP * m->n_groups;
}

void ptx_change_name(const struct ptx_module *m, unsigned change, char *text) {
    const struct change_group *g = &m->group[change / CHANGES_OF_GROUP];
    const char *file = m->file[g->source.file],
               *kind = kind_name[g->kind][change % CHANGES_OF_GROUP];
    *text = 0;
    if (*kind)
        snprintf(text, PTX_TEXT_MAX, "%s %s:%u:%u %s: %s", g->k->name, file ? file : "-",
                 g->source.line, g->source.column, kind, g->first->name);
}

int ptx_change_is_in(const struct ptx_kernel *k, unsigned change) {
    return k->module->group[change / CHANGES_OF_GROUP].k == k;
}

int ptx_change_waits(const struct ptx_module *m, unsigned change) {
    return m->group[change / CHANGES_OF_GROUP].kind == K_WAIT;
}

// ---- what a change does ------------------------------------------------------------------------
static void nothing(struct warp *w, const struct insn *i, u32 mask) {
    (void)w, (void)i, (void)mask;
}

static void copy(struct warp *w, const struct insn *i, u32 mask, int from) {
    if (i->op[0].kind == O_PREDICATE)
        set_predicate(w, &i->op[0], 0, mask, predicate(w, &i->op[from]));
    else
        EACH(set_lane(w, &i->op[0], 0, l, lane_value(w, &i->op[from], 0, l)));
}
static void copy_first(struct warp *w, const struct insn *i, u32 mask) {
    copy(w, i, mask, 1);
}
static void copy_second(struct warp *w, const struct insn *i, u32 mask) {
    copy(w, i, mask, 2);
}

void ptx_change(struct ptx_module *m, unsigned change) {
    u32 group = change / CHANGES_OF_GROUP, which = change % CHANGES_OF_GROUP;
    struct ptx_kernel *k = m->group[group].k;
    for (struct insn *i = k->code; i < k->code + k->n; i++) {
        if (i->group != group + 1)
            continue;
        if (i->flow == F_BRANCH && which == 0)
            i->flow = F_NEXT, i->run = nothing;
        else if (m->group[group].kind == K_WAIT)
            i->run = mbarrier_is_wait(i) ? mbarrier_pass : nothing;
        else if (i->flow != F_BRANCH)
            i->run = which ? copy_second : copy_first;
        i->guard = -1;
    }
}

// ---- whether it would make a difference --------------------------------------------------------
static void see(const struct insn *i, u32 which) {
    change_seen[(i->group - 1) * CHANGES_OF_GROUP + which] = 1;
}

void change_watch_branch(const struct insn *i, u32 at, u32 taken) {
    if (i->group && taken)
        see(i, 0);
    if (i->group && taken != at && !i->plain)
        see(i, 1);
}

static void watched(struct warp *w, const struct insn *i, u32 mask) {
    bool predicates = i->op[0].kind == O_PREDICATE;
    u64 was[CHANGES_OF_GROUP][LANES] = {{0}};
    for (int k = 0; k < CHANGES_OF_GROUP; k++)
        for (int l = 0; l < LANES; l++)
            was[k][l] = predicates ? predicate(w, &i->op[k + 1]) >> l & 1
                                   : lane_value(w, &i->op[k + 1], 0, l);
    i->plain(w, i, mask);
    for (int k = 0; k < CHANGES_OF_GROUP; k++)
        for (int l = 0; l < LANES; l++)
            if ((mask >> l & 1) && was[k][l] != (predicates ? w->pred[i->op[0].r[0]] >> l & 1
                                                            : lane_value(w, &i->op[0], 0, l)))
                see(i, (u32)k);
}
static void waited(struct warp *w, const struct insn *i, u32 mask) {
    see(i, 0);
    i->plain(w, i, mask);
}

void ptx_change_watch(struct ptx_kernel *k, unsigned char *seen) {
    change_seen = seen;
    for (struct insn *i = k->code; i < k->code + k->n; i++) {
        if (!i->group)
            continue;
        enum kind kind = k->module->group[i->group - 1].kind;
        i->plain = kind == K_AHEAD ? NULL : i->run;
        if (i->flow != F_BRANCH)
            i->run = kind == K_WAIT ? waited : watched;
    }
}
