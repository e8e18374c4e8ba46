// SPDX-License-Identifier: Apache-2.0
// Chooses the line that starts the program, and sorts the lines in front of it: into variables,
// into lines that dtctl makes needless, and into lines that bash still has to run.
#include "convert/convert_script.h"

#include "base/array.h"

#include <ctype.h>
#include <string.h>

enum { SHELL_BYTES_MAX = 64 << 10 };

#define PRINTS "it only prints; the output of a run is that of its ranks"

// ---- lines in front of the program --------------------------------------------------------------

static const struct {
    const char *word, *remedy;
} LEFT_OUT[] = {
    {"echo", PRINTS},
    {"printf", PRINTS},
    {"date", PRINTS},
    {"hostname", PRINTS},
    {"pwd", PRINTS},
    {"wait", "a run waits for all of its ranks"},
    {"exit", "a run ends with its ranks"},
    {"sleep", "the ranks start when every node is there"},
    {"nvidia-smi", "dtctl doctor shows the GPUs; put a line that sets them up into setup.run"},
    {"scontrol", "nodes have no Slurm"},
    {"sinfo", "nodes have no Slurm"},
    {"squeue", "nodes have no Slurm"},
    {"module", "put what the module sets into [env], or prepare the nodes in setup.run"},
    {"ml", "put what the module sets into [env], or prepare the nodes in setup.run"},
    {"spack", "put what it sets into [env], or prepare the nodes in setup.run"},
    {"ulimit", "set the limit on the nodes; the agent passes its own on"},
};

// True when the line is left out.
static bool leave_out(struct convert_script *s, const struct convert_line *l) {
    const char *word = l->count && !*l->rest ? l->words[0].text : ""; // "echo … >file" counts
    for (size_t i = 0; i < sizeof LEFT_OUT / sizeof LEFT_OUT[0]; i++)
        if (strcmp(word, LEFT_OUT[i].word) == 0) {
            convert_draft_note(s->draft, convert_script_at(s, l, l->raw), "left out: %s",
                               LEFT_OUT[i].remedy);
            return true;
        }
    return false;
}

// How many blocks (if, for, …) the line opens less how many it closes. *any: it has one.
static int nesting(const struct convert_line *l, bool *any) {
    static const char *const open[] = {"if", "for", "while", "until", "case", "select", "{", NULL};
    static const char *const close[] = {"fi", "done", "esac", "}", NULL};
    static const char *const between[] = {"then", "do", "else", NULL};
    struct convert_line part;
    struct arena a = {0};
    int depth = 0;
    *any = false;
    for (const char *raw = l->raw, *end = raw + strlen(raw); raw < end;) {
        convert_shell_words(&a, raw, end, &part);
        size_t i = 0;
        while (i < part.count && str_is_one_of(part.words[i].text, between))
            i++;
        bool opens = i < part.count && str_is_one_of(part.words[i].text, open);
        depth += opens - (i < part.count && str_is_one_of(part.words[i].text, close));
        *any |= opens;
        raw = part.rest + strspn(part.rest, "0123456789");
        raw += strspn(raw, "|&;<>()\n \t");
    }
    arena_fini(&a);
    return depth;
}

// True when a command behind "&&" or ";" may start the program.
static bool launches(const struct convert_script *s, const char *raw) {
    static const char *const openings[] = {"if",    "then", "else", "elif", "while",
                                           "until", "do",   "{",    "!",    NULL};
    struct arena a = {0};
    struct convert_line part = {.rest = raw};
    bool found = false;
    while (*raw && !found) {
        convert_shell_words(&a, raw, raw + strlen(raw), &part);
        while (part.count && str_is_one_of(part.words[0].text, openings)) {
            part.words++;
            part.count--;
        }
        found = convert_launch_rank(s, &part) > 0;
        raw = part.rest + strspn(part.rest, "|&;<>() \t\n");
    }
    arena_fini(&a);
    return found;
}

// The statements of the script: lines, cut outside of blocks at ";", and at "&&" in front of what
// starts a program.
static size_t find_statements(struct convert_script *s, const struct convert_line *lines,
                              size_t count, struct convert_line **statements) {
    struct arena *a = s->draft->arena;
    size_t found = 0, room = 0;
    int depth = 0;
    *statements = NULL;
    for (size_t i = 0; i < count; i++) {
        struct convert_line l = lines[i];
        const char *end = l.raw + strlen(l.raw);
        bool any;
        int before = depth;
        depth += nesting(&l, &any);
        while (!any && before <= 0 && depth <= 0 &&
               ((str_starts(l.rest, "&&") && launches(s, l.rest + 2)) ||
                (l.rest[0] == ';' && l.rest[1] != ';'))) {
            const char *next = l.rest + strspn(l.rest, "&; \t\n");
            struct convert_line first = l;
            if (!*next)
                break;
            size_t len = (size_t)(l.rest - l.raw);
            while (len && (l.raw[len - 1] == ' ' || l.raw[len - 1] == '\t'))
                len--;
            first.raw = arena_strndup(a, l.raw, len);
            first.and = l.rest[0] == '&';
            first.rest = "";
            array_grow_in(a, *statements, &room, found + 1);
            (*statements)[found++] = first;
            l.raw = next;
            convert_shell_words(a, next, end, &l);
        }
        array_grow_in(a, *statements, &room, found + 1);
        (*statements)[found++] = l;
    }
    return found;
}

// True for a list that another line, or a word that is left of the program's, still reads.
static bool is_used(const struct convert_script *s, const struct convert_line *lines, size_t count,
                    size_t i, const struct convert_line *launch) {
    struct arena a = {0};
    bool used = false;
    for (size_t k = 0; k < s->assigned_count; k++)
        if (s->assigned[k].line == lines[i].line && s->assigned[k].gone)
            return false;
    const char *word = lines[i].words[lines[i].count - 1].raw;
    size_t len = convert_shell_assigns(word);
    const char *name = arena_printf(&a, "${%.*s[", (int)len, word);
    for (size_t k = 0; k < count && word[len + 1] == '(' && !used; k++)
        used = k != i && strstr(lines[k].raw, name);
    for (size_t k = 0; k < launch->count && word[len + 1] == '(' && !used; k++)
        used = strstr(launch->words[k].raw, name);
    arena_fini(&a);
    return used;
}

// Appends the options of bash ("set -e") that the lines so far have set: without other lines for
// bash there is nothing that they hold for.
static void put_options(struct convert_script *s, struct strbuf *kept) {
    strbuf_adds(kept, strbuf_cstr(&s->options));
    strbuf_clear(&s->options);
}

// Lines that bash runs in front of the program, on every rank.
static void prepare(struct convert_script *s, const struct convert_line *lines, size_t count,
                    const struct convert_line *launch, struct strbuf *kept) {
    int depth = 0;
    size_t chain = count; // "cd x && program"
    while (chain > 0 && lines[chain - 1].and)
        chain--;
    for (size_t i = 0; i < count; i++) {
        const struct convert_line *l = &lines[i];
        bool any, joined = i < chain && (l->and || (i > 0 && lines[i - 1].and));
        int before = depth;
        depth += nesting(l, &any);
        bool simple = !any && !joined && before <= 0 && depth <= 0;
        if (simple && l->count && strcmp(l->words[0].text, "set") == 0) {
            strbuf_addf(&s->options, "%s\n", l->raw);
            continue;
        }
        if (simple && convert_variable_take(s, l) && !is_used(s, lines, count, i, launch))
            continue;
        if (simple && leave_out(s, l))
            continue;
        if (simple && convert_launch_rank(s, l) >= 2) {
            convert_draft_note(s->draft, convert_script_at(s, l, l->raw),
                               "left out: a run has one command; give it a task of its own "
                               "([tasks.NAME])");
            continue;
        }
        convert_variable_warn(s, l);
        if (!kept->len)
            convert_draft_note(s->draft, convert_script_at(s, l, l->raw),
                               "every rank runs this line, and those after it; lines that prepare "
                               "a node once belong in setup.run");
        put_options(s, kept);
        convert_remark_programs(s, l, l->raw);
        strbuf_addf(kept, "%s%s\n", l->raw, l->and ? " &&" : "");
    }
}

// ---- the program --------------------------------------------------------------------------------

// The line to take: torchrun before other launchers before programs; a step of one task after
// others of its kind; the last one of its kind.
static size_t choose(struct convert_script *s, const struct convert_line *lines, size_t count) {
    size_t best = count;
    int rank = 0, depth = 0;
    bool large = convert_number_of(&s->nodes_max) > 1 || convert_number_of(&s->tasks) > 1 ||
                 convert_number_of(&s->tasks_per_node) > 1;
    for (size_t i = 0; i < count; i++) {
        bool any;
        struct convert_line l = convert_variable_expand(s, &lines[i]);
        int r = 2 * convert_launch_rank(s, &l);
        r -= r && large && convert_launch_is_single(&l);
        if (r && r >= rank && depth <= 0) {
            best = i;
            rank = r;
        }
        depth += nesting(&lines[i], &any);
    }
    return best;
}

// The variables of the other tool that the text uses, set from those of a rank.
static void put_variables(const struct convert_script *s, const char *text, int line,
                          struct strbuf *out) {
    struct arena *a = s->draft->arena;
    for (const struct convert_variable *v = s->variables; v->theirs; v++) {
        size_t len = strlen(v->theirs);
        bool used = false;
        for (const char *p = strstr(text, v->theirs); p && !used; p = strstr(p + len, v->theirs))
            used = (p == text || (p[-1] != '_' && !isalnum((unsigned char)p[-1]))) &&
                   p[len] != '_' && !isalnum((unsigned char)p[len]); // also "$((NAME * 2))"
        used |= v->of_rank && s->by_srun && !s->by_torchrun;
        if (used && v->ours)
            strbuf_addf(out, "export %s=%s\n", v->theirs, v->ours);
        else if (used)
            convert_draft_note(s->draft,
                               (struct convert_from){line, arena_printf(a, "$%s", v->theirs)},
                               "it is not set; change the line that uses it");
    }
    for (size_t i = 0; i < s->assigned_count; i++) {
        const struct convert_assigned *v = &s->assigned[i];
        const char *name = arena_printf(a, "$%s", v->name);
        if (v->gone && (strstr(text, name) || strstr(text, arena_printf(a, "${%s", v->name))))
            convert_draft_note(s->draft, (struct convert_from){v->line, name},
                               "line %d uses it, and the line that sets it is left out", line);
    }
}

static void set_shell(struct convert_script *s, struct convert_from from, const char *text) {
    struct strbuf all = {0};
    put_variables(s, text, from.line, &all);
    strbuf_adds(&all, text);
    convert_remark_variables(s, strbuf_cstr(&all), from.line);
    if (all.len > SHELL_BYTES_MAX)
        s->lost = arena_printf(s->draft->arena,
                               "train.shell holds at most %d bytes here; put the lines into a "
                               "file, and name it",
                               SHELL_BYTES_MAX);
    else if (!convert_draft_set(s->draft, from, "train.shell", strbuf_cstr(&all)))
        s->lost = convert_draft_last_note(s->draft);
    strbuf_fini(&all);
}

// Notes the text behind the program's words. True: bash has to run the program.
static bool take_rest(struct convert_script *s, const struct convert_line *l,
                      const struct convert_streams *streams) {
    if (*streams->out)
        convert_draft_note(s->draft, convert_script_at(s, l, streams->out),
                           "left out: dtctl keeps the output of every rank (dtctl logs)");
    if (*streams->in)
        convert_draft_note(s->draft, convert_script_at(s, l, streams->in),
                           "every rank reads this input on its node");
    if (*l->rest)
        convert_draft_note(s->draft, convert_script_at(s, l, l->rest),
                           "left out: a run ends with its command, and dtctl keeps the output of "
                           "every rank (dtctl logs)");
    return *streams->in != '\0';
}

static void add_command(struct convert_script *s, struct convert_from from, const char *word) {
    if (!convert_draft_add(s->draft, from, "train.command", word) && !s->lost)
        s->lost = convert_draft_last_note(s->draft);
}

static void set_command(struct convert_script *s, const struct convert_line *l,
                        const struct convert_streams *streams, struct strbuf *kept) {
    struct arena *a = s->draft->arena;
    const char *prefix;
    const struct convert_script job = *s;
    size_t first = convert_launch_words(s, l, &prefix);
    convert_number_separate(s, &job);
    bool expands = false;
    for (size_t i = 0; i < l->count; i++)
        if (convert_shell_assigns(l->words[i].raw) && i < first)
            convert_draft_pair(
                s->draft, convert_script_at(s, l, l->words[i].text), "env",
                arena_strndup(a, l->words[i].text, convert_shell_assigns(l->words[i].text)),
                l->words[i].text + convert_shell_assigns(l->words[i].text) + 1);
    if (first >= l->count) {
        s->lost = arena_printf(a, "line %d names no program to start", l->line);
        return;
    }
    for (size_t i = first; i < l->count; i++) {
        expands |= l->words[i].expands;
        convert_remark_programs(s, l, l->words[i].text);
    }
    expands |= s->by_srun && !s->by_torchrun && !s->by_mpirun;
    expands |= take_rest(s, l, streams);
    const char *program = l->words[first].text;
    if (!expands && !kept->len) {
        struct convert_from from = convert_script_at(s, l, l->raw);
        char **words;
        size_t count = *prefix ? str_split(a, prefix, ' ', &words) : 0;
        for (size_t i = 0; i < count; i++)
            add_command(s, from, words[i]);
        for (size_t i = first; i < l->count; i++)
            add_command(s, from, l->words[i].text);
        return;
    }
    struct strbuf text = {0};
    put_options(s, kept);
    strbuf_addf(&text, "%sexec ", strbuf_cstr(kept));
    if (*prefix)
        strbuf_addf(&text, "%s ", prefix);
    else if (s->by_torchrun && !s->program)
        strbuf_adds(&text, "python3 -u ");
    for (size_t i = first; i < l->count; i++)
        strbuf_addf(&text, "%s%s", i > first ? " " : "", l->words[i].raw);
    strbuf_adds(&text, streams->in);
    strbuf_adds(&text, strchr(strbuf_cstr(&text), '\n') ? "\n" : "");
    set_shell(s, convert_script_at(s, l, arena_printf(a, "%s %s", s->what, program)),
              strbuf_cstr(&text));
    strbuf_fini(&text);
}

// The assignments outside of blocks.
static void remember(struct convert_script *s, const struct convert_line *lines, size_t count) {
    int depth = 0;
    for (size_t i = 0; i < count; i++) {
        bool any;
        int more = nesting(&lines[i], &any);
        if (depth <= 0 && !any)
            convert_variable_remember(s, &lines[i]);
        depth += more;
    }
}

void convert_script_read(struct convert_script *s, const char *text, size_t len, int first_line) {
    struct arena *a = s->draft->arena;
    struct convert_line *lines;
    size_t count = convert_shell_lines(a, text, len, first_line, &lines);
    count = find_statements(s, lines, count, &lines);
    struct strbuf kept = {0};
    if (count == 0)
        return;
    remember(s, lines, count);
    size_t chosen = choose(s, lines, count);
    if (chosen == count) {
        bool inside = false; // of a block or a list
        put_options(s, &kept);
        strbuf_fini(&s->options);
        for (size_t i = 0; i < count; i++) {
            inside |= launches(s, lines[i].raw);
            strbuf_addf(&kept, "%s%s\n", lines[i].raw, lines[i].and ? " &&" : "");
        }
        convert_draft_note(s->draft, convert_script_at(s, &lines[0], s->what),
                           inside ? "the program is started inside of a block (if, for, …) or "
                                    "behind another command; every rank runs all of it"
                                  : "no line starts a program with torchrun, srun, mpirun or "
                                    "python; every rank runs all of it");
        for (size_t i = 0; i < count; i++)
            convert_remark_programs(s, &lines[i], lines[i].raw);
        set_shell(s, convert_script_at(s, &lines[0], s->what), strbuf_cstr(&kept));
        strbuf_fini(&kept);
        return;
    }
    struct convert_line launch = lines[chosen];
    struct convert_streams streams = convert_shell_streams(a, &launch);
    launch = convert_variable_expand(s, &launch);
    prepare(s, lines, chosen, &launch, &kept);
    set_command(s, &launch, &streams, &kept);
    strbuf_fini(&s->options);
    for (size_t i = chosen + 1; i < count; i++)
        if (!leave_out(s, &lines[i]))
            convert_draft_note(s->draft, convert_script_at(s, &lines[i], lines[i].raw),
                               "left out: a run ends with its command; give this line a task of "
                               "its own ([tasks.NAME] with after)");
    strbuf_fini(&kept);
}

// ---- the end ------------------------------------------------------------------------------------

// The task's name is that of the file, as for sbatch; lines for bash would name it by their first
// word.
static void set_name(struct convert_script *s) {
    enum { LENGTH_MAX = 40 };
    const char *file = s->draft->file, *dot = strrchr(file, '.');
    size_t len = dot && dot > file ? (size_t)(dot - file) : strlen(file);
    char *name = arena_strndup(s->draft->arena, file, len < LENGTH_MAX ? len : LENGTH_MAX);
    if (convert_draft_has(s->draft, "train.name"))
        return;
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) || (unsigned char)*p > 0x7F)
            *p = '-';
    name += strspn(name, "-");
    if (*name)
        convert_draft_set(s->draft, (struct convert_from){0, "the name of the file"}, "train.name",
                          name);
}

int convert_script_finish(struct convert_script *s, struct err *e) {
    convert_number_set(s);
    set_name(s);
    if (s->empty)
        return 0;
    if (!s->lost && (convert_draft_has(s->draft, "train.command") ||
                     convert_draft_has(s->draft, "train.shell")))
        return 0;
    return err_set(e, ERR_CONFIG, "the program is not taken: %s",
                   s->lost ? s->lost : "no line starts one");
}
