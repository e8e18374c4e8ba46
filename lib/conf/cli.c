// SPDX-License-Identifier: Apache-2.0
// Flags. Scanning finds the row and the value's text of each; applying parses them, after the file
// and the environment were read. A flag of the verb itself goes before one of every verb.
#include "conf/cli.h"

#include "conf/option_value.h"

#include <ctype.h>
#include <string.h>

enum { PREFIX_BYTES_MIN = 3 }; // of a flag's name, to suggest one that begins so

struct option_given {
    const struct option_bound *bound;
    const struct option_row *row;
    const char *typed; // "--nodes", "-c"
    const char *value;
    struct option_given *next;
};

struct found {
    const struct option_bound *bound;
    const struct option_row *row;
    bool negated;  // --no-x
    int ambiguous; // how many a prefix could be
};

const char *cli_nearest(struct arena *a, const char *typed, const char *const *names) {
    const char *near = str_nearest(typed, names);
    return near ? arena_printf(a, " (did you mean '%s'?)", near) : "";
}

static struct option_place place_of(const char *typed) {
    return (struct option_place){OPTION_FLAG, typed, 0, 0};
}

// ---- looking for rows ------------------------------------------------------------------------
static bool is_own(const struct option_row *r) {
    return r->verbs && strcmp(r->verbs, "*") != 0;
}

static bool same_flag(const struct option_row *r, const char *name, size_t len) {
    return r->flag && strlen(r->flag) == len && memcmp(r->flag, name, len) == 0;
}

// The row for a long name or (name NULL) a letter. Later tables and rows of the verb's own win.
static struct found find_exact(const struct option_set *s, const char *verb, const char *name,
                               size_t len, char letter) {
    struct found f = {0};
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            bool same = name ? same_flag(r, name, len) : r->letter == letter;
            if (same && s->tables[t].target && option_row_has_verb(r, verb) &&
                (!f.row || is_own(r)))
                f = (struct found){.bound = &s->tables[t], .row = r};
        }
    return f;
}

static struct found find_prefix(const struct option_set *s, const char *verb, const char *name,
                                size_t len) {
    struct found f = {0};
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            if (r->flag && option_row_has_verb(r, verb) && strncmp(r->flag, name, len) == 0)
                f = (struct found){&s->tables[t], r, false, f.ambiguous + 1};
        }
    return f;
}

static struct found find_long(const struct option_set *s, const char *verb, const char *name,
                              size_t len) {
    struct found f = find_exact(s, verb, name, len, 0);
    if (!f.row && len > 3 && memcmp(name, "no-", 3) == 0) {
        f = find_exact(s, verb, name + 3, len - 3, 0);
        f.negated = true;
        if (f.row && f.row->type != OPTION_BOOL)
            f.row = NULL;
    }
    if (!f.row && (s->style & OPTION_STYLE_PREFIXES) && len > 0)
        f = find_prefix(s, verb, name, len);
    return f;
}

// ---- unknown flags ---------------------------------------------------------------------------
// A flag of that name that other verbs take.
static const struct option_row *other_verbs(const struct option_set *s, const char *name,
                                            size_t len) {
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++)
            if (s->tables[t].target && same_flag(&s->tables[t].table->rows[i], name, len))
                return &s->tables[t].table->rows[i];
    return NULL;
}

// A key whose last part is the flag's name, where the verb has --set.
static const char *settable(const struct option_set *s, const char *verb, const char *name) {
    struct found set = find_exact(s, verb, "set", 3, 0);
    char *last = arena_strdup(s->arena, name);
    for (char *p = last; *p; p++)
        *p = *p == '-' ? '_' : *p;
    for (size_t t = 0; set.row && t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            const char *key = r->type == OPTION_RECORDS ? NULL : r->key;
            const char *dot = key ? strrchr(key, '.') : NULL;
            if (dot && s->tables[t].target && strcmp(dot + 1, last) == 0)
                return key;
        }
    return NULL;
}

// Flags of torchrun, sbatch, SkyPilot and others, and ours for the same. The nearest spelling would
// mislead: '--name' for --time.
static const struct {
    const char *ours, *theirs;
} OTHER_FLAGS[] = {
    {"nodes", " nnodes num-nodes "},
    {"nproc-per-node", " gpu gpus num-gpus gpus-per-node ntasks-per-node nproc nprocs procs "},
    {"max-time", " time timeout time-limit walltime "},
    {"max-restarts", " restart restarts retries max-retries "},
    {"name", " job-name run-name "},
    {"detach", " background "},
    {"file", " workdir working-dir "},
    {"env", " envs environment setenv "},
    {"fallback", " spot use-spot "},
    {"tail", " lines last n "},
    {"node", " host hosts "},
};

static const char *other_flag(const struct option_set *s, const char *verb, const char *name) {
    char *key = arena_printf(s->arena, " %s ", name);
    for (char *p = key; *p; p++)
        *p = *p == '_' ? '-' : *p;
    for (size_t i = 0; i < sizeof OTHER_FLAGS / sizeof OTHER_FLAGS[0]; i++) {
        const char *ours = OTHER_FLAGS[i].ours;
        if (strstr(OTHER_FLAGS[i].theirs, key) && find_exact(s, verb, ours, strlen(ours), 0).row)
            return ours;
    }
    return NULL;
}

static bool begins_so(const char *name, const char *with) {
    return strlen(with) >= PREFIX_BYTES_MIN && str_starts(name, with);
}

static const char *nearest_flag(const struct option_set *s, const char *verb, const char *name) {
    size_t n = 0;
    const char **names = arena_new(s->arena, const char *, option_set_row_count(s) + 1);
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            if (r->flag && s->tables[t].target && option_row_has_verb(r, verb) &&
                !(r->marks & OPTION_HIDDEN))
                names[n++] = r->flag;
        }
    const char *near = str_nearest(name, names);
    if (!near)
        for (size_t i = 0; names[i] && !near; i++)
            near = begins_so(names[i], name) || begins_so(name, names[i]) ? names[i] : NULL;
    return near ? arena_printf(s->arena, " (did you mean '--%s'?)", near) : "";
}

static void unknown_flag(struct option_set *s, const char *verb, const char *typed,
                         const char *name, size_t len) {
    const char *word = arena_strndup(s->arena, name, len);
    const struct option_row *other = other_verbs(s, name, len);
    const char *key = settable(s, verb, word), *ours = other_flag(s, verb, word);
    if (ours)
        option_problem(s, place_of(typed), "unknown flag (did you mean '--%s'?)", ours);
    else if (key)
        option_problem(s, place_of(typed), "unknown flag; write --set %s=VALUE", key);
    else if (other && other->verbs && verb)
        option_problem(s, place_of(typed), "'%s %s' does not take this flag; it is for: %s",
                       s->program, verb, other->verbs);
    else if (other && other->verbs)
        option_problem(s, place_of(typed), "this flag goes behind the command; it is for: %s",
                       other->verbs);
    else
        option_problem(s, place_of(typed), "unknown flag%s", nearest_flag(s, verb, word));
}

static void ambiguous_flag(struct option_set *s, const char *verb, const char *typed,
                           const char *name, size_t len) {
    struct strbuf b = {0};
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            if (r->flag && option_row_has_verb(r, verb) && strncmp(r->flag, name, len) == 0)
                strbuf_addf(&b, "%s--%s", b.len ? ", " : "", r->flag);
        }
    option_problem(s, place_of(typed), "this could be %s", strbuf_cstr(&b));
    strbuf_fini(&b);
}

// ---- scanning --------------------------------------------------------------------------------
struct scan {
    struct option_set *s;
    const char *verb;
    int argc, at;
    const char *const *argv;
    const char **args;
    size_t count;
};

static void remember(struct scan *c, const struct found *f, const char *typed, const char *value) {
    // A flag without a key belongs to this command alone. An empty word there comes from a variable
    // that was not set. Where there is a key, it says that the file's value is not wanted.
    if (!*value && !f->row->key)
        option_problem(c->s, place_of(typed), "the value is empty");
    // A flag may replace a value of the file, and never that of another flag.
    size_t name = strcspn(value, "=") + 1;
    bool named = f->row->type == OPTION_RECORDS && f->row->record->named;
    for (const struct option_given *g = c->s->given; named && g; g = g->next)
        if (g->row == f->row && strncmp(g->value, value, name) == 0)
            option_problem(c->s, place_of(typed), "'%.*s' is given twice", (int)name - 1, value);
    struct option_given *g = arena_new(c->s->arena, struct option_given, 1);
    *g = (struct option_given){f->bound, f->row, typed, value, NULL};
    if (c->s->given_last)
        c->s->given_last->next = g;
    else
        c->s->given = g;
    c->s->given_last = g;
}

// The next argument as a value; NULL after a complaint. "-5" is a value, "-x" is not.
static const char *next_value(struct scan *c, const struct found *f, const char *typed) {
    const char *v = c->at + 1 < c->argc ? c->argv[c->at + 1] : NULL;
    bool dash = v && v[0] == '-' && v[1] && !isdigit((unsigned char)v[1]) && v[1] != '.';
    if (v && !dash) {
        c->at++;
        return v;
    }
    const char *what = f->row->arg ? f->row->arg : option_type_text(f->row->type);
    if (dash)
        option_problem(c->s, place_of(typed),
                       "needs a value (%s); one that starts with '-' is joined with '='", what);
    else
        option_problem(c->s, place_of(typed), "needs a value (%s)", what);
    return NULL;
}

// Hyphens for underscores in a name, where the program takes both.
static const char *plain_name(struct scan *c, const char *name, size_t len) {
    char *plain = arena_strndup(c->s->arena, name, len);
    for (char *p = plain; *p && (c->s->style & OPTION_STYLE_UNDERSCORES); p++)
        *p = *p == '_' ? '-' : *p;
    return plain;
}

static void scan_long(struct scan *c, const char *arg) {
    size_t len = strcspn(arg + 2, "=");
    const char *name = plain_name(c, arg + 2, len);
    const char *typed = arena_strndup(c->s->arena, arg, len + 2);
    const char *value = arg[len + 2] == '=' ? arg + len + 3 : NULL;
    struct found f = find_long(c->s, c->verb, name, len);
    if (!f.row) {
        unknown_flag(c->s, c->verb, typed, name, len);
    } else if (f.ambiguous > 1) {
        ambiguous_flag(c->s, c->verb, typed, name, len);
    } else if (f.row->type == OPTION_BOOL) {
        if (f.negated && value)
            option_problem(c->s, place_of(typed), "takes no value");
        else
            remember(c, &f, typed, value ? value : f.negated ? "false" : "true");
    } else if (value || (value = next_value(c, &f, typed))) {
        remember(c, &f, typed, value);
    }
}

// -WORD VALUE, -WORD=VALUE
static bool scan_word(struct scan *c, const char *arg) {
    size_t len = strcspn(arg + 1, "=");
    for (size_t t = 0; t < c->s->table_count; t++)
        for (size_t i = 0; i < c->s->tables[t].table->count; i++) {
            struct found f = {.bound = &c->s->tables[t], .row = &c->s->tables[t].table->rows[i]};
            if (!f.row->word || strlen(f.row->word) != len ||
                memcmp(f.row->word, arg + 1, len) != 0)
                continue;
            const char *typed = arena_strndup(c->s->arena, arg, len + 1);
            const char *value = arg[len + 1] == '=' ? arg + len + 2 : next_value(c, &f, typed);
            if (value)
                remember(c, &f, typed, value);
            return true;
        }
    return false;
}

// -y, -yv, -c NAME, -cNAME, -c=NAME
static void scan_letters(struct scan *c, const char *arg) {
    for (const char *p = arg + 1; *p; p++) {
        const char *typed = arena_printf(c->s->arena, "-%c", *p);
        struct found f = find_exact(c->s, c->verb, NULL, 0, *p);
        if (!f.row) {
            option_problem(c->s, place_of(typed), "unknown flag%s%s", p > arg + 1 ? " in " : "",
                           p > arg + 1 ? arg : "");
            return;
        }
        if (f.row->type == OPTION_BOOL) {
            remember(c, &f, typed, "true");
            continue;
        }
        const char *value = p[1] == '=' ? p + 2 : p[1] ? p + 1 : next_value(c, &f, typed);
        if (value)
            remember(c, &f, typed, value);
        return;
    }
}

static void take_command(struct scan *c, int from, struct cli_rest *rest) {
    rest->command = c->argv + from;
    rest->command_count = (size_t)(c->argc - from);
    for (size_t t = 0; t < c->s->table_count; t++)
        for (size_t i = 0; i < c->s->tables[t].table->count; i++) {
            const struct option_row *r = &c->s->tables[t].table->rows[i];
            struct found f = {.bound = &c->s->tables[t], .row = r};
            if ((r->marks & OPTION_REST) && f.bound->target && option_row_has_verb(r, c->verb))
                for (int k = from; k < c->argc; k++)
                    remember(c, &f, "--", c->argv[k]);
        }
}

void cli_scan(struct option_set *s, const char *verb, unsigned how, int argc,
              const char *const *argv, struct cli_rest *rest) {
    static const char *const none[] = {NULL};
    struct scan c = {.s = s, .verb = verb, .argc = argc, .argv = argv};
    c.args = arena_new(s->arena, const char *, (size_t)argc + 1);
    *rest = (struct cli_rest){.args = c.args, .command = none, .used = argc};
    for (; c.at < argc; c.at++) {
        const char *arg = argv[c.at];
        bool flag = arg[0] == '-' && arg[1];
        if (flag && strcmp(arg, "--") == 0) {
            rest->dashes = true;
            take_command(&c, c.at + 1, rest);
            break;
        }
        if (!flag && (how & CLI_UNTIL_VERB)) {
            rest->used = c.at;
            break;
        }
        if (!flag && (s->style & OPTION_STYLE_REMAINDER)) {
            take_command(&c, c.at, rest);
            break;
        }
        if (!flag)
            c.args[rest->count++] = arg;
        else if (arg[1] == '-')
            scan_long(&c, arg);
        else if (!scan_word(&c, arg))
            scan_letters(&c, arg);
    }
}

void cli_apply(struct option_set *s) {
    for (const struct option_given *g = s->given; g; g = g->next) {
        option_apply(s, g->bound, g->row, g->value, true, place_of(g->typed));
        if (g->row->marks & OPTION_ASSIGN)
            option_set_text(s, g->value, place_of(g->typed));
    }
}

bool cli_has(const struct option_set *s, const char *flag, const char **value) {
    bool has = false;
    for (const struct option_given *g = s->given; g; g = g->next)
        if (str_eq(g->row->flag, flag)) {
            has = true;
            if (value)
                *value = g->value;
        }
    return has;
}

const char *const *cli_again(const struct option_set *s, const struct option_table *without,
                             size_t *count) {
    size_t n = 0;
    for (const struct option_given *g = s->given; g; g = g->next)
        n++;
    const char **words = arena_new(s->arena, const char *, n + 1);
    *count = 0;
    for (const struct option_given *g = s->given; g; g = g->next)
        if (g->bound->table != without && g->row->flag)
            words[(*count)++] = arena_printf(s->arena, "--%s=%s", g->row->flag, g->value);
    return words;
}
