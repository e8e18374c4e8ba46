// SPDX-License-Identifier: Apache-2.0
// measure FILE…: refuses lines of more than 100 columns (UTF-8 characters), files of more than 500
// lines, functions of more than 70 lines, tabs and trailing blanks in C, and a C or shell file
// whose head does not name its licence and, in the next line, its purpose. A function is what
// clang-format's layout makes plain: text from column one that ends in ") {", up to a "}" in column
// one; shell functions look the same.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS_MAX = 100, FILE_LINES_MAX = 500, FUNCTION_LINES_MAX = 70, HEAD_LINES = 3 };

struct measure {
    const char *path;
    int line;         // current line, from 1
    int start;        // line where the text at column one began that may become a function
    bool in_function; // between ") {" and "}"
    bool in_macro;    // the line before ended in a backslash
    int licence;      // its line; 0: none
    bool is_c;
    int complaints;
};

static void complain(struct measure *m, int line, const char *what, int got, int limit) {
    if (limit)
        fprintf(stderr, "%s:%d: %s: %d, the limit is %d\n", m->path, line, what, got, limit);
    else
        fprintf(stderr, "%s:%d: %s\n", m->path, line, what);
    m->complaints++;
}

static int columns(const char *s, size_t len) {
    int n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

static bool ends_with(const char *s, size_t len, const char *end) {
    size_t n = strlen(end);
    return len >= n && memcmp(s + len - n, end, n) == 0;
}

// Length without a trailing comment of a shell function's head: "name() { # FILE".
static size_t code_length(const struct measure *m, const char *s, size_t len) {
    const char *hash = m->is_c ? NULL : strstr(s, ") { #");
    return hash ? (size_t)(hash - s) + 3 : len;
}

static void measure_function(struct measure *m, const char *s, size_t len) {
    bool macro = m->in_macro || s[0] == '#';
    m->in_macro = macro && ends_with(s, len, "\\");
    if (m->in_function) {
        int lines = m->line - m->start + 1;
        if (s[0] != '}')
            return;
        m->in_function = false;
        if (lines > FUNCTION_LINES_MAX)
            complain(m, m->start, "lines in this function", lines, FUNCTION_LINES_MAX);
        return;
    }
    if (macro || len == 0)
        return;
    if (!strchr(" \t}/", s[0]))
        m->start = m->line;
    m->in_function = m->start && ends_with(s, code_length(m, s, len), ") {");
}

// A comment of two words or more.
static bool is_purpose(const struct measure *m, const char *s, size_t len) {
    const char *mark = m->is_c ? "// " : "# ";
    size_t n = strlen(mark);
    return strncmp(s, mark, n) == 0 && len > n && memchr(s + n, ' ', len - n);
}

static void measure_line(struct measure *m, const char *s, size_t len) {
    int width = columns(s, len);
    m->line++;
    if (width > COLUMNS_MAX)
        complain(m, m->line, "columns", width, COLUMNS_MAX);
    if (m->is_c && strchr(s, '\t'))
        complain(m, m->line, "a tab", 0, 0);
    if (len && strchr(" \t\r", s[len - 1]))
        complain(m, m->line, "blanks at the end of the line", 0, 0);
    if (m->line <= HEAD_LINES && strstr(s, "SPDX-License-Identifier: Apache-2.0"))
        m->licence = m->line;
    else if (m->licence && m->line == m->licence + 1 && !is_purpose(m, s, len))
        complain(m, m->line, "no comment that says what the file is for (try: one line)", 0, 0);
    measure_function(m, s, len);
}

static int measure_file(const char *path) {
    static char text[1 << 16];
    struct measure m = {.path = path};
    size_t n = strlen(path);
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        return 1;
    }
    m.is_c = ends_with(path, n, ".c") || ends_with(path, n, ".h");
    while (fgets(text, sizeof text, f)) {
        size_t len = strlen(text);
        if (len && text[len - 1] == '\n')
            text[--len] = '\0';
        measure_line(&m, text, len);
    }
    fclose(f);
    if (m.line > FILE_LINES_MAX)
        complain(&m, m.line, "lines in this file", m.line, FILE_LINES_MAX);
    if (!m.licence)
        complain(&m, 1, "SPDX-License-Identifier: Apache-2.0 is missing from the head", 0, 0);
    return m.complaints;
}

int main(int argc, char **argv) {
    int complaints = 0;
    for (int i = 1; i < argc; i++)
        complaints += measure_file(argv[i]);
    return complaints ? 1 : 0;
}
