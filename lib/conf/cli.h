// SPDX-License-Identifier: Apache-2.0
// The command line: finds flags by the option tables, keeps them until files and environment are
// read, then applies them.
//
//     struct cli_rest rest;
//     cli_scan(&set, NULL, CLI_UNTIL_VERB, argc - 1, argv + 1, &rest); // flags before the verb
//     cli_scan(&set, "train", 0, …, &rest);                           // and after it
//     …                                                              // file, environment
//     cli_apply(&set);
//
// Forms: --flag value, --flag=value, --bool, --no-bool, -c value, -cvalue, -yv; "--" ends flags.
// A value that starts with '-' (and is not a number) has to be joined with '='. A flag of the verb
// itself hides one of everybody's with the same letter. Unknown flags suggest the nearest.
#ifndef CONF_CLI_H
#define CONF_CLI_H

#include "conf/option.h"

#include <stdbool.h>
#include <stddef.h>

enum { CLI_UNTIL_VERB = 1 }; // stop in front of the first argument that is not a flag

struct cli_rest {
    const char *const *args; // words that are no flags, NULL-terminated, in order
    size_t count;
    const char *const *command; // the words after "--" (or, with OPTION_STYLE_REMAINDER, from the
    size_t command_count;       // first argument on), NULL-terminated
    bool dashes;                // there was a "--"
    int used;                   // arguments read; with CLI_UNTIL_VERB argv[used] is the verb
};

// argv is without the program's name. Errors go into the set's problems.
void cli_scan(struct option_set *s, const char *verb, unsigned how, int argc,
              const char *const *argv, struct cli_rest *rest);
// Parses and stores every flag scanned so far; once, after file and environment.
void cli_apply(struct option_set *s);
// Whether a flag was scanned, before or after cli_apply ("help", "file"); its last value in *value
// (value may be NULL; a bool gives "true" or "false").
bool cli_has(const struct option_set *s, const char *flag, const char **value);
// The flags that were scanned, as words for another command line ("--cluster=x"), without those of
// one table; NULL-terminated.
const char *const *cli_again(const struct option_set *s, const struct option_table *without,
                             size_t *count);
// The nearest of names to the word typed, as " (did you mean 'x'?)", or "".
const char *cli_nearest(struct arena *a, const char *typed, const char *const *names);

#endif
