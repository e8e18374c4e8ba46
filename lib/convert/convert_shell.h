// SPDX-License-Identifier: Apache-2.0
// The lines of a shell script, joined where the shell joins them, and the words of each line's
// first command. Nothing is run or expanded.
#ifndef CONVERT_CONVERT_SHELL_H
#define CONVERT_CONVERT_SHELL_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

struct convert_word {
    const char *text; // without quotes; "$NAME" as it is written
    const char *raw;  // as it is written
    bool expands;     // the shell would change the text: $, `, *, ?, ~
};

struct convert_line {
    int line;        // the first one, from 1
    const char *raw; // with its indentation, without the newline at its end
    struct convert_word *words;
    size_t count;
    const char *rest; // from the operator after the first command on: "| tee log"; "": none
    bool and;         // "&&" joins it to the next one
};

// The redirections behind the first command of a line.
struct convert_streams {
    const char *in;  // "<data.txt", "<<END" with its lines; "": none
    const char *out; // ">log 2>&1"; "": none
};

// All lines of the text that are neither blank nor comments, in the arena.
size_t convert_shell_lines(struct arena *a, const char *text, size_t len, int first_line,
                           struct convert_line **lines);
// The words of the first command from p to end, which is the text's NUL.
void convert_shell_words(struct arena *a, const char *p, const char *end,
                         struct convert_line *line);
// Takes the redirections off line->rest. The words among and behind them join line->words.
struct convert_streams convert_shell_streams(struct arena *a, struct convert_line *line);
// "NAME=VALUE": the length of NAME; 0: the word is no assignment.
size_t convert_shell_assigns(const char *word);

#endif
