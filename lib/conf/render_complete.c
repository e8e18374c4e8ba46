// SPDX-License-Identifier: Apache-2.0
// Shell completions. bash and zsh get a function with one branch per command; fish gets one line
// per flag. All words come from the tables, none from the file system while they are made.
#include "conf/render.h"
#include "conf/render_row.h"

#include <ctype.h>
#include <string.h>

const char *const render_shells[] = {"bash", "zsh", "fish", NULL};

static bool is_shown(const struct option_row *r, const char *verb) {
    return render_is_global(r) || (verb && render_is_own(r, verb));
}

static bool takes_path(const struct option_row *r) {
    return r->type == OPTION_PATH || r->type == OPTION_PATHS;
}

// Placeholders of names that the program has on record; it lists them when a shell asks.
static const struct {
    const char *placeholder, *list;
} LISTS[] = {{"RUN", "runs"}, {"NODE", "nodes"}, {"NODES", "nodes"}, {"CLUSTER", "clusters"}};

// "runs" of "[RUN]" or "auto|never|RUN"; NULL: nothing lists that.
static const char *list_of(const struct render_program *p, const char *arg) {
    for (size_t i = 0; p->verbs && i < sizeof LISTS / sizeof LISTS[0]; i++) {
        size_t len = strlen(LISTS[i].placeholder);
        for (const char *at = arg; at && (at = strstr(at, LISTS[i].placeholder)); at += len)
            if ((at == arg || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[len]))
                return LISTS[i].list;
    }
    return NULL;
}

// "auto never" of "auto|never|RUN".
static void add_literals(struct strbuf *out, const char *arg) {
    for (size_t len; arg && strchr(arg, '|') && *arg; arg += len + (arg[len] == '|')) {
        len = strcspn(arg, "|");
        if (strspn(arg, "abcdefghijklmnopqrstuvwxyz") == len)
            strbuf_addf(out, " %.*s", (int)len, arg);
        if (!arg[len])
            break;
    }
}

// Text inside single quotes of a shell.
static void add_quoted(struct strbuf *out, const char *s) {
    strbuf_addc(out, '\'');
    for (; *s; s++)
        strbuf_adds(out, *s == '\'' ? "'\\''" : (char[]){*s, 0});
    strbuf_addc(out, '\'');
}

static void add_flags(struct strbuf *out, const struct option_set *s, const char *verb) {
    for (struct render_each x = {0}; render_next(&x, s);)
        if (is_shown(x.row, verb)) {
            strbuf_addf(out, " --%s", x.row->flag);
            if (x.row->letter)
                strbuf_addf(out, " -%c", x.row->letter);
        }
}

static void add_words(struct strbuf *out, const char *const *words) {
    for (; words && *words; words++)
        strbuf_addf(out, " %s", *words);
}

static void add_verbs(struct strbuf *out, const struct render_program *p) {
    for (const struct render_verb *const *v = p->verbs; v && *v; v++)
        strbuf_addf(out, " %s", (*v)->name);
}

// ---- bash ------------------------------------------------------------------------------------
// "up:--nodes | plan:--nodes" or "*:--config | *:-f"
static void bash_pattern(struct strbuf *out, struct arena *a, const struct option_row *r) {
    char **verbs;
    size_t count = str_split(a, option_row_has_verb(r, NULL) ? "*" : r->verbs, ' ', &verbs);
    for (size_t i = 0; i < count; i++) {
        strbuf_addf(out, "%s%s:--%s", i ? " | " : "    ", verbs[i], r->flag);
        if (r->letter)
            strbuf_addf(out, " | %s:-%c", verbs[i], r->letter);
    }
    strbuf_adds(out, ")\n");
}

static bool bash_takes_value(const struct option_row *r) {
    return r->flag && !(r->marks & OPTION_HIDDEN) && r->type != OPTION_BOOL;
}

// Branches on "command:word before": the values of a flag. A command's own flags come first.
static void bash_values(struct strbuf *out, struct arena *a, const struct option_set *s,
                        const struct render_program *p, bool global) {
    for (struct render_each x = {0}; render_next(&x, s);) {
        const struct option_row *r = x.row;
        if (!bash_takes_value(r) || option_row_has_verb(r, NULL) != global)
            continue;
        bash_pattern(out, a, r);
        if (takes_path(r)) {
            strbuf_adds(out, "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
                             "        compopt -o filenames 2>/dev/null\n"
                             "        return\n        ;;\n");
            continue;
        }
        strbuf_adds(out, "        COMPREPLY=(");
        if (r->choices) {
            strbuf_adds(out, "$(compgen -W '");
            add_words(out, r->choices);
            strbuf_adds(out, "' -- \"$word\")");
        } else if (list_of(p, r->arg)) {
            strbuf_adds(out, "$(compgen -W \"");
            add_literals(out, r->arg);
            strbuf_addf(out, " $(_%s_list %s)\" -- \"$word\")", p->name, list_of(p, r->arg));
        }
        strbuf_adds(out, ")\n        return\n        ;;\n");
    }
}

// The verb is the first word that is one, and not the value of a flag before it.
static void bash_verb(struct strbuf *out, const struct option_set *s,
                      const struct render_program *p) {
    struct strbuf flags = {0};
    for (struct render_each x = {0}; render_next(&x, s);) {
        if (!bash_takes_value(x.row) || !option_row_has_verb(x.row, NULL))
            continue;
        strbuf_addf(&flags, "%s--%s", flags.len ? " | " : "", x.row->flag);
        if (x.row->letter)
            strbuf_addf(&flags, " | -%c", x.row->letter);
    }
    strbuf_adds(out, "    for ((i = 1; i < COMP_CWORD; i++)); do\n");
    if (flags.len)
        strbuf_addf(out,
                    "        case ${COMP_WORDS[i]} in %s)\n            ((i++))\n"
                    "            [[ ${COMP_WORDS[i]} != = ]] || ((i++))\n"
                    "            continue ;;\n        esac\n",
                    strbuf_cstr(&flags));
    strbuf_fini(&flags);
    strbuf_adds(out, "        case \" ");
    add_verbs(out, p);
    strbuf_adds(out, " \" in *\" ${COMP_WORDS[i]} \"*) verb=${COMP_WORDS[i]}; break ;; esac\n"
                     "    done\n");
}

// Bash cuts --cluster=NAME into three words.
static const char BASH_LIST[] = "_%s_list() {\n"
                                "    local words=() i\n"
                                "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                                "        case ${COMP_WORDS[i]} in\n"
                                "        =) words[${#words[@]} - 1]+==${COMP_WORDS[++i]} ;;\n"
                                "        *) words+=(\"${COMP_WORDS[i]}\") ;;\n"
                                "        esac\n"
                                "    done\n"
                                "    %s completion \"$1\" -- \"${words[@]}\" 2>/dev/null\n"
                                "}\n";

static void bash(struct strbuf *out, struct arena *a, const struct option_set *s,
                 const struct render_program *p) {
    strbuf_addf(out, "# bash completion of %s\n", p->name);
    if (p->verbs)
        strbuf_addf(out, BASH_LIST, p->name, p->name);
    strbuf_addf(out, "_%s() {\n", p->name);
    strbuf_adds(out, "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
                     "verb= i\n");
    if (p->verbs)
        bash_verb(out, s, p);
    strbuf_adds(out, "    [[ $word == = ]] && word=\n"
                     "    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}\n"
                     "    COMPREPLY=()\n"
                     "    case $verb:$before in\n");
    bash_values(out, a, s, p, false);
    bash_values(out, a, s, p, true);
    strbuf_adds(out, "    esac\n    case $verb in\n    '') COMPREPLY=($(compgen -W '");
    add_verbs(out, p);
    add_flags(out, s, NULL);
    strbuf_adds(out, "' -- \"$word\")) ;;\n");
    for (const struct render_verb *const *v = p->verbs; v && *v; v++) {
        const char *list = list_of(p, (*v)->args);
        strbuf_addf(out, "    %s) COMPREPLY=($(compgen -W \"", (*v)->name);
        add_words(out, (*v)->words);
        add_flags(out, s, (*v)->name);
        if (list)
            strbuf_addf(out, " $(_%s_list %s)", p->name, list);
        strbuf_adds(out, "\" -- \"$word\")) ;;\n");
    }
    strbuf_addf(out, "    esac\n}\ncomplete -o default -F _%s %s\n", p->name, p->name);
}

// ---- zsh -------------------------------------------------------------------------------------
// '--flag=[help]:arg:action' for _arguments.
static void zsh_flag(struct strbuf *out, struct arena *a, const struct render_program *p,
                     const struct option_row *r) {
    struct strbuf b = {0};
    for (const char *h = r->help; *h; h++) { // brackets and colons have a meaning there
        if (*h == '[' || *h == ']' || *h == ':' || *h == '\\')
            strbuf_addc(&b, '\\');
        strbuf_addc(&b, *h);
    }
    bool value = r->type != OPTION_BOOL;
    const char *action = takes_path(r) ? "_files" : " ", *list = list_of(p, r->arg);
    if (list) {
        struct strbuf w = {0};
        add_literals(&w, r->arg);
        action = arena_printf(a, "{ _%s_list %s%s }", p->name, list, strbuf_cstr(&w));
        strbuf_fini(&w);
    } else if (r->choices) {
        struct strbuf w = {0};
        add_words(&w, r->choices);
        action = arena_printf(a, "(%s)", strbuf_cstr(&w) + 1);
        strbuf_fini(&w);
    }
    for (int letter = 0; letter < (r->letter ? 2 : 1); letter++) {
        const char *name = letter ? arena_printf(a, "-%c%s", r->letter, value ? "+" : "")
                                  : arena_printf(a, "--%s%s", r->flag, value ? "=" : "");
        strbuf_adds(out, " \\\n            ");
        add_quoted(out, arena_printf(a, "%s[%s]%s%s", name, strbuf_cstr(&b), value ? ":value:" : "",
                                     value ? action : ""));
    }
    strbuf_fini(&b);
}

static void zsh_flags(struct strbuf *out, struct arena *a, const struct option_set *s,
                      const struct render_program *p, const char *verb) {
    for (struct render_each x = {0}; render_next(&x, s);)
        if (is_shown(x.row, verb))
            zsh_flag(out, a, p, x.row);
}

static void zsh(struct strbuf *out, struct arena *a, const struct option_set *s,
                const struct render_program *p) {
    strbuf_addf(out, "#compdef %s\n", p->name);
    if (p->verbs)
        strbuf_addf(out,
                    "_%s_list() {\n"
                    "    compadd -- $@[2,-1] "
                    "${(f)\"$(%s completion $1 -- $words[2,CURRENT-1] 2>/dev/null)\"}\n"
                    "}\n",
                    p->name, p->name);
    strbuf_addf(out,
                "_%s() {\n"
                "    local context state line verb\n"
                "    local -A opt_args\n"
                "    local -a verbs\n"
                "    verbs=(\n",
                p->name);
    for (const struct render_verb *const *v = p->verbs; v && *v; v++) {
        strbuf_adds(out, "        ");
        add_quoted(out, arena_printf(a, "%s:%s", (*v)->name, (*v)->summary));
        strbuf_addc(out, '\n');
    }
    strbuf_adds(out, "    )\n"
                     "    for verb in $words[2,CURRENT-1] ''; do\n"
                     "        (( ${+verbs[(r)$verb:*]} )) && break\n"
                     "    done\n"
                     "    case $verb in\n");
    for (const struct render_verb *const *v = p->verbs; v && *v; v++) {
        struct strbuf w = {0};
        add_words(&w, (*v)->words);
        strbuf_addf(out, "    %s)\n        _arguments -s", (*v)->name);
        zsh_flags(out, a, s, p, (*v)->name);
        strbuf_adds(out, " \\\n            ");
        add_quoted(out, "1:command: ");
        strbuf_adds(out, " \\\n            ");
        const char *list = list_of(p, (*v)->args);
        add_quoted(out, w.len  ? arena_printf(a, "*:argument:(%s)", strbuf_cstr(&w) + 1)
                        : list ? arena_printf(a, "*:argument:{ _%s_list %s }", p->name, list)
                               : "*:argument:_files");
        strbuf_adds(out, "\n        ;;\n");
        strbuf_fini(&w);
    }
    strbuf_adds(out, "    *)\n        _arguments -s");
    zsh_flags(out, a, s, p, NULL);
    strbuf_addf(
        out,
        " \\\n            '1:command:{ _describe command verbs }'\n        ;;\n    esac\n}\n"
        // As a file of fpath this text is the function's first call.
        "if [[ $funcstack[1] == _%s ]]; then\n    _%s \"$@\"\nelse\n    compdef _%s %s\nfi\n",
        p->name, p->name, p->name, p->name);
}

// ---- fish ------------------------------------------------------------------------------------
static void fish_flag(struct strbuf *out, const struct render_program *p,
                      const struct option_row *r) {
    strbuf_addf(out, "complete -c %s", p->name);
    if (!option_row_has_verb(r, NULL))
        strbuf_addf(out, " -n '__fish_seen_subcommand_from %s'", r->verbs);
    strbuf_addf(out, " -l %s", r->flag);
    if (r->letter)
        strbuf_addf(out, " -s %c", r->letter);
    if (r->type != OPTION_BOOL)
        strbuf_adds(out, takes_path(r) ? " -r -F" : " -x");
    if (r->choices) {
        strbuf_adds(out, " -a '");
        add_words(out, r->choices);
        strbuf_addc(out, '\'');
    } else if (list_of(p, r->arg)) {
        strbuf_adds(out, " -a '");
        add_literals(out, r->arg);
        strbuf_addf(out, " (__%s_list %s)'", p->name, list_of(p, r->arg));
    }
    strbuf_adds(out, " -d ");
    add_quoted(out, r->help);
    strbuf_addc(out, '\n');
}

static void fish(struct strbuf *out, const struct option_set *s, const struct render_program *p) {
    strbuf_addf(out, "# fish completion of %s\n", p->name);
    if (p->verbs)
        strbuf_addf(out,
                    "function __%s_list\n"
                    "    set -l words (commandline -opc)\n"
                    "    %s completion $argv[1] -- $words[2..-1] 2>/dev/null\n"
                    "end\n",
                    p->name, p->name);
    strbuf_addf(out, "complete -c %s -f\n", p->name);
    for (const struct render_verb *const *v = p->verbs; v && *v; v++) {
        strbuf_addf(out, "complete -c %s -n __fish_use_subcommand -a %s -d ", p->name, (*v)->name);
        add_quoted(out, (*v)->summary);
        strbuf_addc(out, '\n');
        if ((*v)->words) {
            strbuf_addf(out, "complete -c %s -n '__fish_seen_subcommand_from %s' -a '", p->name,
                        (*v)->name);
            add_words(out, (*v)->words);
            strbuf_adds(out, "'\n");
        }
        if (list_of(p, (*v)->args))
            strbuf_addf(out,
                        "complete -c %s -n '__fish_seen_subcommand_from %s' -a '(__%s_list %s)'\n",
                        p->name, (*v)->name, p->name, list_of(p, (*v)->args));
    }
    for (struct render_each x = {0}; render_next(&x, s);)
        if (x.row->flag && !(x.row->marks & OPTION_HIDDEN))
            fish_flag(out, p, x.row);
}

int render_completion(struct strbuf *out, const struct option_set *s,
                      const struct render_program *p, const char *shell, struct err *e) {
    struct arena a = {0};
    int result = 0;
    if (str_eq(shell, "bash"))
        bash(out, &a, s, p);
    else if (str_eq(shell, "zsh"))
        zsh(out, &a, s, p);
    else if (str_eq(shell, "fish"))
        fish(out, s, p);
    else
        result = err_set(e, ERR_USAGE, "no completion for shell '%.40s': choose bash, zsh or fish",
                         shell);
    arena_fini(&a);
    return result;
}
