// SPDX-License-Identifier: Apache-2.0
// Kinds of results of a run, as sets of bits: outputs.fetch, --fetch, records of runs.
#ifndef CONF_RESULT_KINDS_H
#define CONF_RESULT_KINDS_H

#include "conf/option.h"

enum result_kind {
    RESULT_LOGS = 1, // what the ranks print
    RESULT_OUTPUT = 2,
    RESULT_MODEL = 4,
    RESULT_STATE = 8,
    RESULT_ALL = 15
};
enum { RESULT_KINDS = 4 }; // kind i is the bit 1 << i
// Where it is said so, sets also have this bit: new files of the working folders.
enum { RESULT_WORK = 16 };

const char *result_kind_name(int i); // "logs", …; i below RESULT_KINDS
// Reads "logs,model"; "" is no kind. ERR_CONFIG names a word that is none.
int result_kinds_parse(const char *text, unsigned *kinds, struct err *e);
// For the check of an option whose items are such texts.
int result_kinds_check(const char *text, struct err *e);
// All items together; they have passed the check.
unsigned result_kinds_of(const struct option_list *items);
// "logs and model", "logs, model and state"; "" for none. In the arena.
const char *result_kinds_words(struct arena *a, unsigned kinds);
// "logs,model", as --fetch takes it.
const char *result_kinds_list(struct arena *a, unsigned kinds);
// The names, for lists in files and JSON. Returns their number, at most RESULT_KINDS.
size_t result_kinds_names(unsigned kinds, const char *names[RESULT_KINDS]);

#endif
