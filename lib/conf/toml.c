// SPDX-License-Identifier: Apache-2.0
// TOML statements and tables (https://toml.io/en/v1.0.0). An invalid statement is reported and
// skipped; parsing continues at the next line that looks like a statement.
#include "conf/toml.h"

#include "conf/toml_parser.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_MIN = 64 };

int toml_parser_fail(struct toml_parser *ps, struct toml_pos pos, const char *fmt, ...) {
    ps->error_count++;
    if (ps->error_count > TOML_ERRORS_MAX)
        return -1;
    struct toml_error *x = arena_new(ps->a, struct toml_error, 1);
    va_list ap;
    va_start(ap, fmt);
    x->text = arena_vprintf(ps->a, fmt, ap);
    va_end(ap);
    x->line = pos.line;
    x->column = pos.column;
    if (ps->errors_last)
        ps->errors_last->next = x;
    else
        ps->errors = x;
    ps->errors_last = x;
    return -1;
}

struct toml_pos toml_parser_pos(struct toml_parser *ps) {
    if (!ps->column_at || ps->column_at < ps->line_start || ps->column_at > ps->p) {
        ps->column_at = ps->line_start;
        ps->column = 1;
    }
    for (; ps->column_at < ps->p; ps->column_at++)
        ps->column += ((unsigned char)*ps->column_at & 0xC0) != 0x80;
    return (struct toml_pos){ps->line, ps->column};
}

bool toml_parser_at(const struct toml_parser *ps, char c) {
    return ps->p < ps->end && *ps->p == c;
}

void toml_parser_blanks(struct toml_parser *ps) {
    while (toml_parser_at(ps, ' ') || toml_parser_at(ps, '\t'))
        ps->p++;
}

bool toml_parser_newline(struct toml_parser *ps) {
    size_t n = 1;
    if (ps->end - ps->p >= 2 && ps->p[0] == '\r' && ps->p[1] == '\n')
        n = 2;
    else if (!toml_parser_at(ps, '\n'))
        return false;
    ps->p += n;
    ps->line++;
    ps->line_start = ps->p;
    return true;
}

int toml_parser_comment(struct toml_parser *ps) {
    if (!toml_parser_at(ps, '#'))
        return 0;
    for (; ps->p < ps->end && *ps->p != '\n'; ps->p++) {
        unsigned char c = (unsigned char)*ps->p;
        if (c == '\r' && ps->end - ps->p >= 2 && ps->p[1] == '\n')
            break;
        if ((c < 0x20 && c != '\t') || c == 0x7F)
            return toml_parser_fail(ps, toml_parser_pos(ps),
                                    "control character 0x%02x in a comment", c);
    }
    return 0;
}

const char *toml_parser_found(struct toml_parser *ps) {
    if (ps->p >= ps->end)
        return "the end of the file";
    unsigned char c = (unsigned char)*ps->p;
    if (c == '\n' || (c == '\r' && ps->end - ps->p >= 2 && ps->p[1] == '\n'))
        return "the end of the line";
    if (c == '\r')
        return "a carriage return without a line feed";
    if (c < 0x20 || c == 0x7F)
        return arena_printf(ps->a, "control character 0x%02x", c);
    size_t n = 1;
    while (c >= 0x80 && ps->p + n < ps->end && ((unsigned char)ps->p[n] & 0xC0) == 0x80)
        n++;
    return arena_printf(ps->a, "'%.*s'", (int)n, ps->p);
}

// ---- members by (table, key) -----------------------------------------------------------------
// FNV-1a (Fowler, Noll, Vo) over the key, started from the table's address.
static size_t slot_of(const struct toml_parser *ps, const struct toml *parent, const char *key,
                      size_t len) {
    uint64_t h = 14695981039346656037u ^ (uint64_t)(uintptr_t)parent;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)key[i]) * 1099511628211u;
    size_t i = (size_t)((h ^ (h >> 32)) & (ps->slot_room - 1));
    for (;; i = (i + 1) & (ps->slot_room - 1)) {
        const struct toml_slot *s = &ps->slots[i];
        if (!s->node ||
            (s->parent == parent && s->node->key_len == len && memcmp(s->node->key, key, len) == 0))
            return i;
    }
}

static struct toml *member(struct toml_parser *ps, const struct toml *parent,
                           const struct toml *key) {
    return ps->slots[slot_of(ps, parent, key->key, key->key_len)].node;
}

static void remember(struct toml_parser *ps, const struct toml *parent, struct toml *node) {
    if (2 * (ps->slot_count + 1) > ps->slot_room) {
        struct toml_slot *old = ps->slots;
        size_t old_room = ps->slot_room;
        ps->slot_room *= 2;
        ps->slots = heap_alloc(ps->slot_room * sizeof *ps->slots);
        for (size_t i = 0; i < old_room; i++)
            if (old[i].node)
                ps->slots[slot_of(ps, old[i].parent, old[i].node->key, old[i].node->key_len)] =
                    old[i];
        free(old);
    }
    ps->slots[slot_of(ps, parent, node->key, node->key_len)] = (struct toml_slot){parent, node};
    ps->slot_count++;
}

struct toml *toml_parser_add(struct toml_parser *ps, struct toml *parent, const struct toml *key,
                             enum toml_type type, struct toml_pos pos) {
    unsigned depth = (parent->made_by >> TOML_DEPTH_SHIFT) + 1;
    if (depth > TOML_DEPTH_MAX) {
        toml_parser_fail(ps, pos, "tables and arrays are nested more than %d deep", TOML_DEPTH_MAX);
        return NULL;
    }
    struct toml *n = arena_new(ps->a, struct toml, 1);
    n->type = type;
    n->line = pos.line;
    n->column = pos.column;
    n->made_by = depth << TOML_DEPTH_SHIFT;
    n->parent = parent;
    if (key) {
        n->key = key->key;
        n->key_len = key->key_len;
        n->key_line = key->key_line;
        n->key_column = key->key_column;
        remember(ps, parent, n);
    }
    if (parent->last)
        parent->last->next = n;
    else
        parent->child = n;
    parent->last = n;
    parent->len++;
    return n;
}

// ---- keys ------------------------------------------------------------------------------------
static bool is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

// One part of a key into *key (key, key_len, key_line, key_column).
static int read_key(struct toml_parser *ps, struct toml *key) {
    struct toml_pos pos = toml_parser_pos(ps);
    *key = (struct toml){.key_line = pos.line, .key_column = pos.column};
    if (toml_parser_at(ps, '"') || toml_parser_at(ps, '\''))
        return toml_parser_string(ps, false, &key->key, &key->key_len);
    const char *from = ps->p;
    while (ps->p < ps->end && is_bare(*ps->p))
        ps->p++;
    if (ps->p == from)
        return toml_parser_fail(ps, pos, "expected a key, found %s", toml_parser_found(ps));
    key->key_len = (size_t)(ps->p - from);
    key->key = arena_strndup(ps->a, from, key->key_len);
    return 0;
}

static int duplicate(struct toml_parser *ps, const struct toml *key, const struct toml *first) {
    struct toml_pos pos = {key->key_line, key->key_column};
    const char *name = str_printable(ps->a, key->key, key->key_len);
    if (first->type == TOML_TABLE || (first->made_by & TOML_BY_ELEMENTS))
        return toml_parser_fail(ps, pos, "table '%s' is defined already, at %d:%d", name,
                                first->key_line, first->key_column);
    return toml_parser_fail(ps, pos, "key '%s' is given twice, first at %d:%d", name,
                            first->key_line, first->key_column);
}

static int closed(struct toml_parser *ps, const struct toml *key, const struct toml *found) {
    return toml_parser_fail(ps, (struct toml_pos){key->key_line, key->key_column},
                            "'%s' is %s since %d:%d and cannot get members here",
                            str_printable(ps->a, key->key, key->key_len),
                            toml_type_name(found->type), found->key_line, found->key_column);
}

static struct toml *table_new(struct toml_parser *ps, struct toml *table, const struct toml *key,
                              unsigned made_by) {
    struct toml_pos pos = {key->key_line, key->key_column};
    struct toml *made = toml_parser_add(ps, table, key, TOML_TABLE, pos);
    if (made)
        made->made_by |= made_by;
    return made;
}

// The table of part `key` in `key.x = …`: a new one, or one created by dotted keys.
static struct toml *dotted_step(struct toml_parser *ps, struct toml *table,
                                const struct toml *key) {
    struct toml *next = member(ps, table, key);
    if (!next)
        return table_new(ps, table, key, TOML_BY_DOTTED);
    if (next->type == TOML_TABLE && (next->made_by & TOML_BY_DOTTED))
        return next;
    closed(ps, key, next);
    return NULL;
}

int toml_parser_pair(struct toml_parser *ps, struct toml *table) {
    struct toml key;
    bool lost = false; // a wrong key was reported; its value is read, and dropped
    for (;;) {
        if (read_key(ps, &key) < 0)
            return -1;
        toml_parser_blanks(ps);
        if (!toml_parser_at(ps, '.'))
            break;
        ps->p++;
        toml_parser_blanks(ps);
        struct toml *next = lost ? NULL : dotted_step(ps, table, &key);
        lost = !next;
        table = next ? next : table;
    }
    if (!toml_parser_at(ps, '='))
        return toml_parser_fail(ps, toml_parser_pos(ps), "expected '=' after key '%s', found %s",
                                str_printable(ps->a, key.key, key.key_len), toml_parser_found(ps));
    ps->p++;
    toml_parser_blanks(ps);
    struct toml *first = lost ? NULL : member(ps, table, &key);
    if (first)
        duplicate(ps, &key, first);
    if (lost || first)
        table = ps->stray;
    struct toml *before = table->last;
    struct toml *node = toml_parser_add(ps, table, table == ps->stray ? NULL : &key, TOML_BOOL,
                                        toml_parser_pos(ps));
    if (!node || toml_parser_value(ps, node) == 0)
        return node ? 0 : -1;
    // No half-read value stays in the tree; a second one of that key is still noticed.
    if (before)
        before->next = NULL;
    else
        table->child = NULL;
    table->last = before;
    table->len--;
    return -1;
}

// ---- headers ---------------------------------------------------------------------------------
// Table for a part of a header that is not its last.
static struct toml *header_step(struct toml_parser *ps, struct toml *table,
                                const struct toml *key) {
    struct toml *next = member(ps, table, key);
    if (!next)
        return table_new(ps, table, key, TOML_BY_PARENT);
    if (next->type == TOML_ARRAY && (next->made_by & TOML_BY_ELEMENTS))
        return next->last;
    if (next->type == TOML_TABLE && !(next->made_by & TOML_BY_VALUE))
        return next;
    closed(ps, key, next);
    return NULL;
}

static struct toml *define_table(struct toml_parser *ps, struct toml *table, const struct toml *key,
                                 struct toml_pos pos) {
    struct toml *t = member(ps, table, key);
    if (!t)
        t = toml_parser_add(ps, table, key, TOML_TABLE, pos);
    else if (t->type == TOML_TABLE && (t->made_by & TOML_BY_PARENT))
        t->made_by &= ~(unsigned)TOML_BY_PARENT;
    else
        return duplicate(ps, key, t), NULL;
    if (t) {
        t->made_by |= TOML_BY_HEADER;
        t->line = pos.line;
        t->column = pos.column;
    }
    return t;
}

static struct toml *define_element(struct toml_parser *ps, struct toml *table,
                                   const struct toml *key, struct toml_pos pos) {
    struct toml *list = member(ps, table, key);
    if (!list) {
        list = toml_parser_add(ps, table, key, TOML_ARRAY, pos);
        if (!list)
            return NULL;
        list->made_by |= TOML_BY_ELEMENTS;
    } else if (list->type != TOML_ARRAY || !(list->made_by & TOML_BY_ELEMENTS)) {
        return duplicate(ps, key, list), NULL;
    }
    struct toml *t = toml_parser_add(ps, list, NULL, TOML_TABLE, pos);
    if (t)
        t->made_by |= TOML_BY_HEADER;
    return t;
}

// [a.b] or [[a.b]]; after an error the following keys go to the stray table.
static int read_header(struct toml_parser *ps) {
    struct toml_pos pos = toml_parser_pos(ps);
    bool element = ps->end - ps->p >= 2 && ps->p[1] == '[';
    struct toml *table = ps->table; // set to the root by the caller
    ps->table = ps->stray = arena_new(ps->a, struct toml, 1);
    ps->stray->type = TOML_TABLE;
    ps->p += element ? 2 : 1;
    struct toml key;
    bool lost = false;
    for (;;) {
        toml_parser_blanks(ps);
        if (read_key(ps, &key) < 0)
            return -1;
        toml_parser_blanks(ps);
        if (!toml_parser_at(ps, '.'))
            break;
        ps->p++;
        struct toml *next = lost ? NULL : header_step(ps, table, &key);
        lost = !next;
        table = next ? next : table;
    }
    for (int i = 0; i < (element ? 2 : 1); i++) {
        if (!toml_parser_at(ps, ']'))
            return toml_parser_fail(ps, toml_parser_pos(ps), "expected '%s', found %s",
                                    element ? "]]" : "]", toml_parser_found(ps));
        ps->p++;
    }
    if (lost)
        return 0;
    struct toml *t =
        element ? define_element(ps, table, &key, pos) : define_table(ps, table, &key, pos);
    if (t)
        ps->table = t;
    return 0;
}

// ---- statements ------------------------------------------------------------------------------
static bool skip_name(const char **p, const char *end) {
    const char *from = *p;
    while (*p < end && (is_bare(**p) || strchr(".\"' \t", **p)) && **p)
        ++*p;
    return *p > from;
}

// Whether this looks like the start of a statement: "[name]" or "name =". Used after an error only.
static bool looks_like_statement(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (p < end && *p == '[') {
        while (p < end && *p == '[')
            p++;
        if (p < end && *p >= '0' && *p <= '9')
            return false; // more likely the inside of an array
        if (!skip_name(&p, end) || p == end || *p != ']')
            return false;
        while (p < end && (*p == ']' || *p == ' ' || *p == '\t' || *p == '\r'))
            p++;
        return p == end || *p == '\n' || *p == '#';
    }
    return skip_name(&p, end) && p < end && *p == '=';
}

// Moves from an error at ps->p to the start of the next statement. `from` is the start of the
// invalid one.
static void resume(struct toml_parser *ps, const char *from) {
    if (ps->line_start > from && looks_like_statement(ps->line_start, ps->end)) {
        ps->p = ps->line_start; // the error is that the one before did not end
        return;
    }
    while (ps->p < ps->end) {
        if (toml_parser_newline(ps)) {
            if (looks_like_statement(ps->p, ps->end))
                return;
        } else {
            ps->p++;
        }
    }
}

static int read_statement(struct toml_parser *ps, struct toml *root) {
    if (toml_parser_at(ps, '[')) {
        ps->table = root;
        if (read_header(ps) < 0)
            return -1;
    } else if (toml_parser_pair(ps, ps->table) < 0) {
        return -1;
    }
    toml_parser_blanks(ps);
    if (toml_parser_comment(ps) < 0)
        return -1;
    if (ps->p < ps->end && !toml_parser_newline(ps))
        return toml_parser_fail(ps, toml_parser_pos(ps), "expected the end of the line, found %s",
                                toml_parser_found(ps));
    return 0;
}

static void read_all(struct toml_parser *ps, struct toml *root) {
    while (ps->p < ps->end) {
        toml_parser_blanks(ps);
        if (toml_parser_newline(ps))
            continue;
        if (ps->p == ps->end)
            break;
        const char *from = ps->p;
        int failed = toml_parser_at(ps, '#') ? toml_parser_comment(ps) : read_statement(ps, root);
        if (failed < 0)
            resume(ps, from);
    }
}

// The whole text must be UTF-8; with this the rest of the parser need not look again.
static int check_utf8(struct toml_parser *ps) {
    const char *from = ps->p;
    while (ps->p < ps->end) {
        if (toml_parser_newline(ps))
            continue;
        size_t n = str_utf8((const unsigned char *)ps->p, (size_t)(ps->end - ps->p));
        if (n == 0)
            return toml_parser_fail(ps, toml_parser_pos(ps), "byte 0x%02x is not UTF-8",
                                    (unsigned char)*ps->p);
        ps->p += n;
    }
    ps->p = ps->line_start = from;
    ps->column_at = NULL;
    ps->line = 1;
    return 0;
}

int toml_parse_all(struct arena *a, const char *text, size_t len, struct toml **root,
                   struct toml_error **errors) {
    struct toml_parser ps = {.a = a, .p = text, .end = text + len, .line_start = text, .line = 1};
    *root = arena_new(a, struct toml, 1);
    **root = (struct toml){.type = TOML_TABLE, .line = 1, .column = 1, .made_by = TOML_BY_HEADER};
    ps.stray = arena_new(a, struct toml, 1);
    ps.stray->type = TOML_TABLE;
    ps.table = *root;
    ps.slot_room = SLOTS_MIN;
    ps.slots = heap_alloc(ps.slot_room * sizeof *ps.slots);
    strbuf_init(&ps.text, 0);
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        ps.line_start = ps.p += 3; // byte order mark
    if (len > TOML_TEXT_BYTES_MAX)
        toml_parser_fail(&ps, (struct toml_pos){1, 1}, "%zu bytes are above the maximum %d", len,
                         TOML_TEXT_BYTES_MAX);
    else if (check_utf8(&ps) == 0)
        read_all(&ps, *root);
    strbuf_fini(&ps.text);
    free(ps.slots);
    *errors = ps.errors;
    return ps.error_count;
}

int toml_parse(struct arena *a, const char *name, const char *text, size_t len, struct toml **root,
               struct err *e) {
    struct toml_error *x;
    int count = toml_parse_all(a, text, len, root, &x);
    if (count == 0)
        return 0;
    struct strbuf b;
    strbuf_init(&b, ERR_TEXT_BYTES_MAX - 1);
    for (; x && !b.overflow; x = x->next)
        strbuf_addf(&b, "%s%s:%d:%d: %s", b.len ? "\n" : "", name, x->line, x->column, x->text);
    err_set_lines(e, ERR_FORMAT, strbuf_cstr(&b));
    strbuf_fini(&b);
    return -1;
}
