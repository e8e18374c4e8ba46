// SPDX-License-Identifier: Apache-2.0
// Rules between rows: values that are right by themselves and wrong together.
#include "conf/option_value.h"

#include <string.h>

static const void *value_of(const struct option_bound *b, const struct option_row *r) {
    return (const char *)b->target + r->offset;
}

static double number_of(const struct option_row *r, const void *value) {
    must(r->type == OPTION_INT || r->type == OPTION_REAL);
    return r->type == OPTION_INT ? (double)*(const int64_t *)value : *(const double *)value;
}

// Whether the row asks for anything.
static bool applies(const struct option_bound *b, const struct option_row *r) {
    if (b->places[r - b->table->rows].source == OPTION_DEFAULT)
        return false;
    return r->type != OPTION_BOOL || *(const bool *)value_of(b, r);
}

static void check(struct option_set *s, const struct option_bound *b, const struct option_row *r,
                  const struct option_rule *rule) {
    const struct option_bound *other_b;
    const struct option_row *other = option_find(s, rule->other, &other_b);
    must(other && other_b->target);
    const struct option_place place = b->places[r - b->table->rows];
    const void *value = value_of(other_b, other);
    switch (rule->kind) {
    case OPTION_RULE_POSITIVE:
        if (number_of(other, value) <= 0)
            option_problem(s, place, "%s needs %s above 0", r->key, rule->other);
        break;
    case OPTION_RULE_WORD:
        if (strcmp(other->choices[*(const int *)value], rule->word) != 0)
            option_problem(s, place, "%s needs %s = \"%s\", and it is \"%s\"", r->key, rule->other,
                           rule->word, other->choices[*(const int *)value]);
        break;
    case OPTION_RULE_AT_MOST:
        if (number_of(r, value_of(b, r)) > number_of(other, value))
            option_problem(s, place, "%s is %g, and %s only %g", r->key,
                           number_of(r, value_of(b, r)), rule->other, number_of(other, value));
        break;
    }
}

void option_verify_rules(struct option_set *s) {
    for (size_t t = 0; t < s->table_count; t++) {
        const struct option_bound *b = &s->tables[t];
        for (size_t i = 0; b->target && i < b->table->count; i++) {
            const struct option_row *r = &b->table->rows[i];
            for (const struct option_rule *u = r->rules; u && u->other && applies(b, r); u++)
                check(s, b, r, u);
        }
    }
}
