// SPDX-License-Identifier: Apache-2.0
// Finds the ends of lines and words as a POSIX shell does: quotes, backslashes, substitutions,
// comments, documents in the script (<<WORD).
#include "convert/convert_shell.h"

#include "base/array.h"

#include <ctype.h>
#include <string.h>

enum { NESTING_MAX = 32, MARKER_BYTES_MAX = 64 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

// The end of what a quote or a substitution at p begins: behind its last character, or the end of
// the text. A character that begins neither is passed over by itself.
static const char *skip_unit(const char *p, const char *end, int depth);

static const char *skip_until(const char *p, const char *end, char close, int depth) {
    while (p < end && *p != close) {
        bool comment = close == ')' && *p == '#' && (is_blank(p[-1]) || p[-1] == '\n');
        const char *newline = comment ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        bool group = close == ')' && *p == '(' && depth + 1 < NESTING_MAX; // "$((1 + (2)))"
        p = newline ? newline
            : group ? skip_until(p + 1, end, ')', depth + 1)
                    : skip_unit(p, end, depth + 1);
    }
    return p < end ? p + 1 : end;
}

static const char *skip_unit(const char *p, const char *end, int depth) {
    char next = end - p > 1 ? p[1] : '\0';
    if (depth >= NESTING_MAX)
        return p + 1;
    if (*p == '\\')
        return end - p > 1 ? p + 2 : end;
    if (*p == '\'') {
        const char *close = memchr(p + 1, '\'', (size_t)(end - p - 1));
        return close ? close + 1 : end;
    }
    if (*p == '"') {
        p++;
        while (p < end && *p != '"')
            p = *p == '\'' ? p + 1 : skip_unit(p, end, depth + 1);
        return p < end ? p + 1 : end;
    }
    if (*p == '`')
        return skip_until(p + 1, end, '`', depth);
    if ((*p == '$' || *p == '=') && next == '(') // "=(": a list
        return skip_until(p + 2, end, ')', depth);
    if (*p == '$' && next == '{')
        return skip_until(p + 2, end, '}', depth);
    return p + 1;
}

// ---- lines --------------------------------------------------------------------------------------

// "<<WORD", "<<-'WORD'": the word that ends the document; "" for other text. tabs: that line may
// begin with some.
static void read_marker(const char *p, const char *end, char marker[MARKER_BYTES_MAX], bool *tabs) {
    size_t n = 0;
    marker[0] = '\0';
    if (end - p < 3 || p[0] != '<' || p[1] != '<' || p[2] == '<')
        return;
    *tabs = p[2] == '-';
    p += *tabs ? 3 : 2;
    while (p < end && is_blank(*p))
        p++;
    for (; p < end && n + 1 < MARKER_BYTES_MAX &&
           (isalnum((unsigned char)*p) || strchr("_'\"\\", *p));
         p++)
        if (isalnum((unsigned char)*p) || *p == '_')
            marker[n++] = *p;
    marker[n] = '\0';
}

// Behind the line that is the marker alone.
static const char *skip_document(const char *p, const char *end, const char *marker, bool tabs) {
    size_t len = strlen(marker);
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end, *text = p;
        while (tabs && text < stop && *text == '\t')
            text++;
        p = newline ? newline + 1 : end;
        if ((size_t)(stop - text) == len && memcmp(text, marker, len) == 0)
            break;
    }
    return p;
}

// The end of the logical line at p: its newline, or the end of the text.
static const char *line_end(const char *p, const char *end) {
    char marker[MARKER_BYTES_MAX] = "";
    bool tabs = false, fresh = true; // a word may begin here
    while (p < end && *p != '\n') {
        if (*p == '#' && fresh) {
            while (p < end && *p != '\n')
                p++;
            break;
        }
        if (!*marker && *p == '<')
            read_marker(p, end, marker, &tabs);
        fresh = is_blank(*p);
        p = *p == '<' && end - p > 2 && p[1] == '<' && p[2] == '<' ? p + 3 : skip_unit(p, end, 0);
    }
    if (*marker && p < end) {
        p = skip_document(p + 1, end, marker, tabs);
        return p > end || p[-1] != '\n' ? p : p - 1;
    }
    return p;
}

size_t convert_shell_lines(struct arena *a, const char *text, size_t len, int first_line,
                           struct convert_line **lines) {
    const char *p = text, *end = text + len;
    size_t count = 0, room = 0;
    int line = first_line;
    *lines = NULL;
    while (p < end) {
        const char *stop = line_end(p, end), *begin = p;
        while (begin < stop && is_blank(*begin))
            begin++;
        if (begin < stop && *begin != '#') {
            array_grow_in(a, *lines, &room, count + 1);
            struct convert_line *l = &(*lines)[count++];
            const char *last = stop;
            while (last > begin && is_blank(last[-1]))
                last--;
            l->line = line;
            l->raw = arena_strndup(a, p, (size_t)(last - p));
            convert_shell_words(a, l->raw, l->raw + (last - p), l);
        }
        for (; p < stop; p++)
            line += *p == '\n';
        if (p < end) {
            line++;
            p++;
        }
    }
    return count;
}

// ---- words --------------------------------------------------------------------------------------

static bool is_operator(char c) {
    return c != '\0' && strchr("|&;<>()\n", c) != NULL;
}

// The text of a word without its quotes. expands: the shell would change it.
static const char *unquote(struct arena *a, const char *raw, size_t len, bool *expands) {
    char *out = arena_strndup(a, raw, len), *q = out;
    char quote = '\0';
    *expands = raw[0] == '~';
    for (size_t i = 0; i < len; i++) {
        char c = raw[i];
        if (quote == '\'' && c != '\'') {
            *q++ = c;
        } else if (quote && c == quote) {
            quote = '\0';
        } else if (!quote && (c == '\'' || c == '"')) {
            quote = c;
        } else if (c == '\\' && i + 1 < len) {
            char next = raw[++i];
            if (quote == '"' && !strchr("$`\"\\\n", next))
                *q++ = c;
            if (next != '\n')
                *q++ = next;
        } else {
            *expands |= c == '$' || c == '`' || (!quote && strchr("*?[", c) != NULL);
            *q++ = c;
        }
    }
    *q = '\0';
    return out;
}

void convert_shell_words(struct arena *a, const char *p, const char *end,
                         struct convert_line *line) {
    size_t room = 0;
    line->words = NULL;
    line->count = 0;
    for (;;) {
        while (p < end && (is_blank(*p) || (p[0] == '\\' && p[1] == '\n')))
            p += *p == '\\' ? 2 : 1;
        if (p >= end || *p == '#' || is_operator(*p))
            break;
        const char *begin = p;
        while (p < end && !is_blank(*p) && !is_operator(*p) && !(p[0] == '\\' && p[1] == '\n'))
            p = skip_unit(p, end, 0);
        size_t len = (size_t)(p - begin);
        bool stream = (*p == '<' || *p == '>') && strspn(begin, "0123456789") >= len;
        if (stream) { // "2>log"
            p = begin;
            break;
        }
        array_grow_in(a, line->words, &room, line->count + 1);
        struct convert_word *w = &line->words[line->count++];
        w->raw = arena_strndup(a, begin, len);
        w->text = unquote(a, w->raw, len, &w->expands);
    }
    line->rest = p < end && *p != '#' ? p : end;
}

// The length of "2>>", "<<-", "&>"; 0: no redirection. "<(" begins a word.
static size_t operator_length(const char *p) {
    size_t n = strspn(p, "0123456789");
    if (p[0] == '&' && p[1] == '>')
        return p[2] == '>' ? 3 : 2;
    if (strchr("<>", p[n]) == NULL || !p[n] || p[n + 1] == '(')
        return 0;
    static const char *const operators[] = {"<<<", "<<-", "<<", "<>", "<&", "<",
                                            ">>",  ">&",  ">|", ">",  NULL};
    for (size_t i = 0; operators[i]; i++)
        if (strncmp(p + n, operators[i], strlen(operators[i])) == 0)
            return n + strlen(operators[i]);
    return 0;
}

static const char *skip_blanks(const char *p) {
    while (is_blank(*p) || (p[0] == '\\' && p[1] == '\n'))
        p += *p == '\\' ? 2 : 1;
    return p;
}

static const char *skip_word(const char *p, const char *end) {
    if ((*p == '<' || *p == '>') && p[1] == '(')
        p = skip_until(p + 2, end, ')', 0);
    while (p < end && !is_blank(*p) && !is_operator(*p) && !(p[0] == '\\' && p[1] == '\n'))
        p = skip_unit(p, end, 0);
    return p;
}

struct convert_streams convert_shell_streams(struct arena *a, struct convert_line *line) {
    struct convert_streams s = {"", ""};
    const char *p = line->rest, *end = p + strlen(p), *tail;
    struct convert_word *words = line->words;
    size_t room = 0;
    bool document = false;
    line->words = NULL;
    for (size_t i = 0; i < line->count; i++) {
        array_grow_in(a, line->words, &room, i + 1);
        line->words[i] = words[i];
    }
    for (p = skip_blanks(p); *p && *p != '#'; p = skip_blanks(p)) {
        size_t sign = operator_length(p);
        const char *begin = p;
        if (!sign && is_operator(*p) && !(strchr("<>", *p) && p[1] == '('))
            break;
        p = skip_word(skip_blanks(p + sign), end);
        const char *text = arena_strndup(a, begin, (size_t)(p - begin));
        if (sign && memchr(begin, '<', sign)) {
            s.in = arena_printf(a, "%s %s", s.in, text);
            document |= strstr(text, "<<") != NULL && strstr(text, "<<<") == NULL;
        } else if (sign) {
            s.out = arena_printf(a, "%s%s%s", s.out, *s.out ? " " : "", text);
        } else {
            array_grow_in(a, line->words, &room, line->count + 1);
            struct convert_word *w = &line->words[line->count++];
            w->raw = text;
            w->text = unquote(a, text, strlen(text), &w->expands);
            w->expands |= strchr("<>", *text) != NULL;
        }
    }
    tail = *p == '#' ? strchr(p, '\n') : p;
    tail = tail ? tail : end;
    for (p = tail; p < end && *p != '\n';)
        p = skip_unit(p, end, 0);
    if (document)
        s.in = arena_printf(a, "%s%s", s.in, p);
    line->rest = arena_strndup(a, tail, (size_t)(document ? p - tail : end - tail));
    return s;
}

size_t convert_shell_assigns(const char *word) {
    size_t n = 0;
    if (isdigit((unsigned char)word[0]))
        return 0;
    while (isalnum((unsigned char)word[n]) || word[n] == '_')
        n++;
    return word[n] == '=' ? n : 0;
}
