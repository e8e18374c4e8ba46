// SPDX-License-Identifier: Apache-2.0
// Variables that a script assigns: plain words are put in their places, so that a launcher and its
// flags are found behind them; the others are left to bash.
#include "base/array.h"
#include "convert/convert_script.h"

#include <ctype.h>
#include <string.h>

enum { CHAIN_MAX = 4, ASSIGNED_MAX = 256, EXPANDED_MAX = 10000, NAME_BYTES_MAX = 200 };

struct convert_from convert_script_at(const struct convert_script *s, const struct convert_line *l,
                                      const char *text) {
    char *name = arena_new(s->draft->arena, char, NAME_BYTES_MAX + 1);
    size_t len = 0;
    for (const char *p = text + strspn(text, " \t"); *p && len < NAME_BYTES_MAX; p++) {
        bool joins = p[0] == '\\' && p[1] == '\n', blank = joins || strchr(" \t\n", *p);
        p += joins;
        if (!blank || (len && name[len - 1] != ' '))
            name[len++] = blank ? ' ' : *p;
    }
    return (struct convert_from){l->line, name};
}

// ---- values -------------------------------------------------------------------------------------

static const struct convert_assigned *find_assigned(const struct convert_script *s,
                                                    const char *name) {
    for (size_t i = s->assigned_count; i-- > 0;)
        if (strcmp(s->assigned[i].name, name) == 0)
            return &s->assigned[i];
    return NULL;
}

// NAME of "$NAME", "${NAME}", "${NAME:-…}"; NULL: other text.
static const char *variable_of(struct arena *a, const char *text) {
    if (text[0] != '$')
        return NULL;
    const char *name = text + 1 + (text[1] == '{');
    size_t len = 0;
    while (isalnum((unsigned char)name[len]) || name[len] == '_')
        len++;
    bool whole = text[1] == '{' ? strchr(text, '}') == text + strlen(text) - 1 : !name[len];
    return len && whole ? arena_strndup(a, name, len) : NULL;
}

const char *convert_script_value(const struct convert_script *s, const char *text) {
    struct arena *a = s->draft->arena;
    for (int chain = 0; chain < CHAIN_MAX; chain++) {
        if (!strpbrk(text, "$`"))
            return text;
        if (strstr(text, "nvidia-smi") || strstr(text, "device_count"))
            return "gpu";
        const char *name = variable_of(a, text);
        const struct convert_variable *v = s->variables;
        while (name && v->theirs && strcmp(v->theirs, name) != 0)
            v++;
        if (!name)
            return NULL;
        if (v->theirs)
            return v->means;
        const struct convert_assigned *known = find_assigned(s, name);
        if (!known || known->list)
            return NULL;
        text = known->value;
    }
    return NULL;
}

// The words of a list without its parentheses, newlines and comments.
static const char *list_of(struct arena *a, const char *raw) {
    size_t len = strlen(raw), n = 0;
    char *out = arena_strndup(a, raw + 1, len > 1 ? len - 2 : 0);
    for (const char *p = out; *p; p++) {
        bool comment = *p == '#' && (p == out || strchr(" \t\n", p[-1]));
        if (comment)
            p += strcspn(p, "\n") - (strchr(p, '\n') == NULL);
        out[n++] = *p == '\n' || comment ? ' ' : *p;
    }
    out[n] = '\0';
    return out;
}

// The index of the first assignment of a line of assignments; the number of words: the line is
// another one.
static size_t first_assignment(const struct convert_line *l) {
    static const char *const words[] = {"export", "declare", "readonly", "local", "typeset", NULL};
    size_t i = l->count && str_is_one_of(l->words[0].text, words);
    while (i && i < l->count && l->words[i].text[0] == '-')
        i++;
    for (size_t k = i; k < l->count; k++)
        if (!convert_shell_assigns(l->words[k].raw))
            return l->count;
    return *l->rest ? l->count : i;
}

void convert_variable_remember(struct convert_script *s, const struct convert_line *l) {
    struct arena *a = s->draft->arena;
    for (size_t i = first_assignment(l); i < l->count && s->assigned_count < ASSIGNED_MAX; i++) {
        const struct convert_word *w = &l->words[i];
        size_t len = convert_shell_assigns(w->raw);
        bool list = w->raw[len + 1] == '(';
        array_grow_in(a, s->assigned, &s->assigned_room, s->assigned_count + 1);
        s->assigned[s->assigned_count++] = (struct convert_assigned){
            .name = arena_strndup(a, w->raw, len),
            .value = list ? list_of(a, w->raw + len + 1) : w->text + len + 1,
            .line = l->line,
            .expands = w->expands,
            .list = list};
    }
}

// ---- sorting ------------------------------------------------------------------------------------

// Variables that every rank has from its agent.
static const char *const AGENTS[] = {"MASTER_ADDR", "MASTER_PORT", "RANK",
                                     "LOCAL_RANK",  "WORLD_SIZE",  NULL};

// True for a variable whose only use is to find the other nodes.
static bool finds_nodes(const char *name, const char *raw) {
    static const char *const names[] = {"NODE_RANK", "NNODES", "NUM_NODES", NULL};
    static const char *const marks[] = {"scontrol",
                                        "srun",
                                        "$(hostname",
                                        "SLURM_JOB_NODELIST",
                                        "SLURM_PROCID",
                                        "SLURM_NODEID",
                                        "SLURM_NODELIST",
                                        "SLURM_LAUNCH_NODE",
                                        "SLURM_NNODES",
                                        "SLURM_NTASKS",
                                        "SKYPILOT_NODE_IPS",
                                        "SKYPILOT_NODE_RANK",
                                        "$nodes",
                                        "${nodes",
                                        "SKYPILOT_NUM_NODES",
                                        "SLURM_JOB_NUM_NODES",
                                        NULL};
    if (str_is_one_of(name, names))
        return true;
    for (size_t i = 0; marks[i]; i++)
        if (strstr(raw, marks[i]))
            return true;
    return false;
}

// A list of flags may name the nodes among other things.
static bool has_flags(const char *raw) {
    return strstr(raw, "--") != NULL;
}

static void forget(struct convert_script *s, const char *name, int line) {
    for (size_t i = 0; i < s->assigned_count; i++)
        if (s->assigned[i].line == line && strcmp(s->assigned[i].name, name) == 0)
            s->assigned[i].gone = true;
}

bool convert_variable_take(struct convert_script *s, const struct convert_line *l) {
    struct arena *a = s->draft->arena;
    size_t first = first_assignment(l);
    bool all = first < l->count;
    for (size_t i = first; i < l->count; i++) {
        const struct convert_word *w = &l->words[i];
        size_t len = convert_shell_assigns(w->raw);
        const char *name = arena_strndup(a, w->raw, len);
        bool list = w->raw[len + 1] == '(', agents = str_is_one_of(name, AGENTS);
        bool gone =
            (w->expands || list) && !(list && has_flags(w->raw)) && finds_nodes(name, w->raw);
        if (gone && !agents)
            forget(s, name, l->line);
        if (agents || gone)
            convert_draft_note(s->draft, convert_script_at(s, l, w->raw),
                               "not needed: dtctl connects the nodes, and every rank has "
                               "MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE");
        else if (list)
            continue;
        else if (w->expands)
            all = false;
        else
            convert_draft_pair(s->draft, convert_script_at(s, l, w->text), "env", name,
                               w->text + len + 1);
    }
    return all;
}

void convert_variable_warn(struct convert_script *s, const struct convert_line *l) {
    struct arena a = {0};
    for (size_t i = 0; AGENTS[i]; i++)
        if (strstr(l->raw, arena_printf(&a, " %s=", AGENTS[i])))
            convert_draft_note(s->draft, convert_script_at(s, l, l->raw),
                               "it changes %s, which every rank has from its agent; remove that",
                               AGENTS[i]);
    arena_fini(&a);
}

// ---- expanding ----------------------------------------------------------------------------------

struct expansion {
    struct convert_line line;
    size_t room;
};

static void add(struct arena *a, struct expansion *x, const struct convert_word *word) {
    if (x->line.count >= EXPANDED_MAX)
        return;
    array_grow_in(a, x->line.words, &x->room, x->line.count + 1);
    x->line.words[x->line.count++] = *word;
}

// "$NAME" in quotes or without; NULL: the word has other text.
static const char *whole_variable(struct arena *a, const char *raw) {
    size_t len = strlen(raw);
    bool quoted = len > 2 && raw[0] == '"' && raw[len - 1] == '"';
    const char *inner = quoted ? arena_strndup(a, raw + 1, len - 2) : raw;
    return strchr(inner, '"') ? NULL : inner;
}

// Adds the words that the word stands for; false: it stays as it is.
static bool expand(struct convert_script *s, struct expansion *x, const struct convert_word *w) {
    struct arena *a = s->draft->arena;
    const char *text = whole_variable(a, w->raw), *bracket = text ? strchr(text, '[') : NULL;
    bool list = bracket && (strcmp(bracket, "[@]}") == 0 || strcmp(bracket, "[*]}") == 0);
    if (!text || text[0] != '$')
        return false;
    if (list)
        text = arena_printf(a, "%.*s}", (int)(bracket - text), text);
    const char *name = variable_of(a, text);
    const struct convert_assigned *v = name && !strchr(text, ':') ? find_assigned(s, name) : NULL;
    if (!v || v->list != list || (!list && v->expands))
        return false;
    bool one = !list && w->raw[0] == '"';
    if (one) {
        add(a, x, &(struct convert_word){v->value, str_shell_quote(a, v->value), false});
        return true;
    }
    struct convert_line words;
    convert_shell_words(a, v->value, v->value + strlen(v->value), &words);
    for (size_t i = 0; i < words.count; i++)
        add(a, x, &words.words[i]);
    return true;
}

struct convert_line convert_variable_expand(struct convert_script *s,
                                            const struct convert_line *l) {
    struct expansion x = {.line = *l};
    bool any = false;
    for (size_t i = 0; i < l->count && !any; i++)
        any = l->words[i].expands && strchr("$\"", l->words[i].raw[0]);
    if (!any)
        return *l;
    x.line.words = NULL;
    x.line.count = 0;
    for (size_t i = 0; i < l->count; i++)
        if (!l->words[i].expands || !expand(s, &x, &l->words[i]))
            add(s->draft->arena, &x, &l->words[i]);
    return x.line;
}
