// SPDX-License-Identifier: Apache-2.0
// label.c: labels and the branches that name them. A label is known in its scope and in the scopes
// within that one; inner ones hide outer ones.
#include "parse.h"

#include <string.h>

void label_add(struct parser *p, const char *name) {
    if (p->n_labels == LABELS_MAX)
        parse_fail(p, "more than %d labels", LABELS_MAX);
    p->label[p->n_labels++] = (struct label){name, p->k->n, parse_hash(name)};
}

void label_want(struct parser *p, const char *name) {
    if (p->n_wanted == LABELS_MAX)
        parse_fail(p, "more than %d branches", LABELS_MAX);
    p->wanted[p->n_wanted++] = (struct label){name, p->k->n, parse_hash(name)};
}

static const struct label *find(struct parser *p, u32 first, const struct label *wanted) {
    const struct label *found = NULL;
    for (u32 n = first; n < p->n_labels; n++)
        if (p->label[n].hash == wanted->hash && strcmp(p->label[n].name, wanted->name) == 0) {
            if (found)
                parse_fail(p, "the label '%s' is there twice", wanted->name);
            found = &p->label[n];
        }
    return found;
}

// Branches that find no label here may find one further out.
void label_close(struct parser *p, struct label_scope from) {
    u32 left = from.wanted;
    for (u32 n = from.wanted; n < p->n_wanted; n++) {
        const struct label *to = find(p, from.labels, &p->wanted[n]);
        if (to)
            p->k->code[p->wanted[n].at].target = to->at;
        else
            p->wanted[left++] = p->wanted[n];
    }
    p->n_wanted = left;
    p->n_labels = from.labels;
}

void label_end(struct parser *p) {
    label_close(p, (struct label_scope){0, 0});
    if (p->n_wanted)
        parse_fail(p, "no label is called '%s'", p->wanted[0].name);
}
