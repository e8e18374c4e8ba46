// SPDX-License-Identifier: Apache-2.0
// The check of the tables themselves; a test runs it over every program's set.
#include "conf/option.h"

#include "conf/option_value.h"

#include <string.h>

struct check {
    const struct option_set *s;
    struct strbuf *out;
    struct arena a;
    int count;
};

static void __attribute__((format(printf, 3, 4)))
fault(struct check *c, const struct option_row *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    strbuf_addf(c->out, "%s: ", option_row_name(r));
    strbuf_vaddf(c->out, fmt, ap);
    strbuf_addc(c->out, '\n');
    va_end(ap);
    c->count++;
}

static bool is_number(enum option_type t) {
    return t == OPTION_INT || t == OPTION_REAL || t == OPTION_DURATION || t == OPTION_BYTES ||
           t == OPTION_COUNT || t == OPTION_RANGE || t == OPTION_INTS || t == OPTION_REALS;
}

static void check_text(struct check *c, const struct option_row *r) {
    struct err e;
    char value[64];
    must(option_value_bytes(r->type) <= sizeof value);
    option_value_unset(r->type, value);
    bool needs = r->type == OPTION_BOOL || r->type == OPTION_INT || r->type == OPTION_REAL ||
                 r->type == OPTION_DURATION || r->type == OPTION_BYTES ||
                 r->type == OPTION_CHOICE || r->type == OPTION_COUNT;
    if ((r->type == OPTION_CHOICE || r->type == OPTION_COUNT) && !r->choices)
        return; // reported already
    if (needs && !r->text)
        fault(c, r, "has no default");
    else if (r->text && option_parse(&c->a, r, r->text, value, &e) < 0)
        fault(c, r, "its default: %s", e.text);
}

static void check_row(struct check *c, const struct option_row *r) {
    if (!r->key && !r->flag)
        fault(c, r, "has neither key nor flag");
    if (!r->help || !str_ends(r->help, "."))
        fault(c, r, "has no help that ends with a full stop");
    if ((r->type == OPTION_CHOICE || r->type == OPTION_COUNT) != (r->choices != NULL))
        fault(c, r, "has words without being a choice, or the other way round");
    if ((r->type == OPTION_RECORDS) != (r->record != NULL))
        fault(c, r, "has a record without being records, or the other way round");
    if (r->min > r->max)
        fault(c, r, "its minimum is above its maximum");
    if (!is_number(r->type) && (r->min != 0 || r->max != 0))
        fault(c, r, "has bounds but no numbers");
    if (r->letter && !r->flag)
        fault(c, r, "has a letter but no flag");
    if (r->flag && (strchr(r->flag, '_') || r->flag[0] == '-' || str_starts(r->flag, "no-no-")))
        fault(c, r, "its flag has a wrong form");
    check_text(c, r);
    for (size_t i = 0; r->record && i < r->record->count; i++) {
        const struct option_row *f = &r->record->rows[i];
        if (!f->key || !f->help || !str_ends(f->help, "."))
            fault(c, r, "field %zu has no key or no help", i);
        check_text(c, f);
    }
}

// Whether some verb, or every command line, takes both flags with the same claim to them.
static bool same_takers(const struct option_row *a, const struct option_row *b,
                        const char *const *verbs) {
    bool all_a = option_row_has_verb(a, NULL), all_b = option_row_has_verb(b, NULL);
    if (all_a || all_b)
        return all_a && all_b;
    for (; verbs && *verbs; verbs++)
        if (option_row_has_verb(a, *verbs) && option_row_has_verb(b, *verbs))
            return true;
    return false;
}

// flags: both tables are bound, so that both rows' flags are really taken.
static void check_pair(struct check *c, const struct option_row *a, const struct option_row *b,
                       bool flags, const char *const *verbs) {
    const char *env_a = option_row_env(&c->a, c->s, a), *env_b = option_row_env(&c->a, c->s, b);
    if (a->key && str_eq(a->key, b->key))
        fault(c, a, "two rows have this key");
    if (env_a && str_eq(env_a, env_b))
        fault(c, a, "shares the variable %s with %s", env_a, option_row_name(b));
    bool below = a->key && b->key && str_starts(b->key, a->key) && b->key[strlen(a->key)] == '.';
    if (below && a->type != OPTION_MAP) // a map's names are those that no table of keys has
        fault(c, a, "is a value, and a table because of %s", b->key);
    if (!flags || !same_takers(a, b, verbs))
        return;
    if (a->flag && str_eq(a->flag, b->flag))
        fault(c, a, "shares the flag --%s with %s", a->flag, option_row_name(b));
    if (a->letter && a->letter == b->letter)
        fault(c, a, "shares the flag -%c with %s", a->letter, option_row_name(b));
}

// Every name in "up plan" is a verb.
static void check_verbs(struct check *c, const struct option_row *r, const char *const *verbs) {
    char **names;
    size_t count = r->verbs && verbs && strcmp(r->verbs, "*") != 0
                       ? str_split(&c->a, r->verbs, ' ', &names)
                       : 0;
    for (size_t i = 0; i < count; i++) {
        const char *const *v = verbs;
        while (*v && strcmp(*v, names[i]) != 0)
            v++;
        if (!*v)
            fault(c, r, "'%s' is no verb", names[i]);
    }
}

int option_verify(const struct option_set *s, const char *const *verbs, struct strbuf *out) {
    struct check c = {.s = s, .out = out};
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *a = &s->tables[t].table->rows[i];
            check_row(&c, a);
            check_verbs(&c, a, verbs);
            for (size_t u = 0; u < s->table_count; u++)
                for (size_t k = 0; k < s->tables[u].table->count; k++)
                    if (u != t || k != i)
                        check_pair(&c, a, &s->tables[u].table->rows[k],
                                   s->tables[t].target && s->tables[u].target, verbs);
        }
    arena_fini(&c.a);
    return c.count;
}
