// SPDX-License-Identifier: Apache-2.0
// Text made from the option tables and the list of commands: help, manual pages, completions, the
// example file and the list of values. All of it appends to a strbuf; nothing is printed here.
#ifndef CONF_RENDER_H
#define CONF_RENDER_H

#include "conf/option.h"

#include <stdbool.h>

// The description of one command; cmd/'s command table holds one each.
struct render_verb {
    const char *name;     // "train"
    const char *summary;  // half a sentence, lower case: "train on the cluster"
    const char *args;     // after the flags in the synopsis: "[-- COMMAND…]", "NODE"; NULL: none
    const char *text;     // paragraphs for --help and the manual, blank line between; NULL: none
    const char *examples; // lines "command   # remark"; NULL: none
    const char *const *words; // values of the first argument (completions), NULL-terminated
};

// A program for the manual and the top-level help.
struct render_program {
    const char *name;    // "dtctl"
    const char *summary; // "train on a cluster made of anything"
    const char *version;
    const char *synopsis;                   // after the name: "[FLAGS] COMMAND [ARGUMENTS]"
    const char *text;                       // paragraphs; NULL: none
    const struct render_verb *const *verbs; // NULL-terminated list; NULL: no verbs
    const char *const *topics; // documents of `NAME help TOPIC`, NULL-terminated; NULL: none
};

// `dtctl --help` and `dtctl VERB --help`. width 0: 80 columns.
void render_help(struct strbuf *out, const struct option_set *s, const struct render_program *p,
                 int width);
void render_help_verb(struct strbuf *out, const struct option_set *s,
                      const struct render_program *p, const struct render_verb *verb, int width);
// roff (man(7) macros): NAME SYNOPSIS DESCRIPTION COMMANDS OPTIONS FILES ENVIRONMENT EXIT STATUS.
void render_man(struct strbuf *out, const struct option_set *s, const struct render_program *p);
// The keys of the file: dtctl.toml(5).
void render_man_file(struct strbuf *out, const struct option_set *s, const struct render_program *p,
                     const char *file);

// shell: "bash", "zsh" or "fish"; else ERR_USAGE.
int render_completion(struct strbuf *out, const struct option_set *s,
                      const struct render_program *p, const char *shell, struct err *e);
extern const char *const render_shells[]; // NULL-terminated

// `dtctl init`: writes the given keys (flag, environment, file) as active lines with their help.
// found: strings that were discovered, by key, written likewise; NULL: none. others: keys to write
// commented out with their default, NULL-terminated; NULL: all keys.
void render_init(struct strbuf *out, const struct option_set *s, const struct option_map *found,
                 const char *const *others);
// `dtctl config show`: value and origin of every key; only_given leaves the defaults out.
void render_show(struct strbuf *out, const struct option_set *s, bool only_given);
void render_show_json(struct strbuf *out, const struct option_set *s, bool only_given);
// Values that later commands on the same cluster keep: rows with OPTION_KEEP that a flag, a
// variable or an earlier command set. For option_set_kept.
void render_kept(struct strbuf *out, const struct option_set *s);
// The trainer's or the agent's share as a TOML file: all keys that start with prefix ("train."),
// restricted to the rows of those tables (NULL-terminated).
void render_toml(struct strbuf *out, const struct option_set *s,
                 const struct option_table *const *tables);
// The same rows as texts, by their keys. All memory is in the arena.
struct option_map render_map(struct arena *a, const struct option_set *s,
                             const struct option_table *const *tables);

#endif
