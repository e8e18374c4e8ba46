// SPDX-License-Identifier: Apache-2.0
// A small XML reader in one pass.
#include "object/xml.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

struct reader {
    const char *p, *end;
    struct strbuf path, text;
    size_t depth;
    size_t starts[XML_DEPTH_MAX]; // of the names in path
    bool closed;                  // the root has ended
    const struct xml_events *events;
    void *ctx;
};

static int broken(struct err *e, const char *what) {
    return err_set(e, ERR_FORMAT, "the server's answer is not XML: %s", what);
}

static int skip_past(struct reader *r, const char *word, struct err *e) {
    const char *at = memmem(r->p, (size_t)(r->end - r->p), word, strlen(word));
    if (!at)
        return broken(e, "it ends too early");
    r->p = at + strlen(word);
    return 0;
}

// ---- text ---------------------------------------------------------------------------------------

static int add_character(struct reader *r, unsigned long c, struct err *e) {
    if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return broken(e, "a character that does not exist");
    if (c < 0x80) {
        strbuf_addc(&r->text, (char)c);
    } else if (c < 0x800) {
        strbuf_addc(&r->text, (char)(0xc0 | c >> 6));
    } else if (c < 0x10000) {
        strbuf_addc(&r->text, (char)(0xe0 | c >> 12));
        strbuf_addc(&r->text, (char)(0x80 | (c >> 6 & 0x3f)));
    } else {
        strbuf_addc(&r->text, (char)(0xf0 | c >> 18));
        strbuf_addc(&r->text, (char)(0x80 | (c >> 12 & 0x3f)));
        strbuf_addc(&r->text, (char)(0x80 | (c >> 6 & 0x3f)));
    }
    if (c >= 0x80)
        strbuf_addc(&r->text, (char)(0x80 | (c & 0x3f)));
    return 0;
}

static int add_entity(struct reader *r, struct err *e) {
    static const struct {
        const char *name;
        char c;
    } known[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    char name[12];
    const char *end = memchr(r->p, ';', (size_t)(r->end - r->p));
    size_t len = end ? (size_t)(end - r->p) - 1 : 0;
    if (!end || len == 0 || len >= sizeof name)
        return broken(e, "an '&' without an entity");
    memcpy(name, r->p + 1, len);
    name[len] = '\0';
    r->p = end + 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            strbuf_addc(&r->text, known[i].c);
            return 0;
        }
    const char *digits = name + (name[1] == 'x' ? 2 : 1);
    if (name[0] != '#' ||
        strspn(digits, name[1] == 'x' ? "0123456789abcdefABCDEF" : "0123456789") !=
            strlen(digits) ||
        !*digits)
        return broken(e, "an unknown entity");
    return add_character(r, strtoul(digits, NULL, name[1] == 'x' ? 16 : 10), e);
}

static int add_text(struct reader *r, struct err *e) {
    if (*r->p == '&')
        return add_entity(r, e);
    const char *end = r->p;
    while (end < r->end && *end != '<' && *end != '&')
        end++;
    if (memchr(r->p, '\0', (size_t)(end - r->p)))
        return broken(e, "a NUL");
    strbuf_add(&r->text, r->p, (size_t)(end - r->p));
    r->p = end;
    return 0;
}

// ---- elements -----------------------------------------------------------------------------------

static bool ends_name(char c) {
    return strchr(" \t\r\n/>", c);
}

// The name after its prefix; p is behind it then.
static int read_name(struct reader *r, const char **name, size_t *len, struct err *e) {
    const char *start = r->p;
    while (r->p < r->end && !ends_name(*r->p) && *r->p != '<')
        r->p++;
    const char *colon = memchr(start, ':', (size_t)(r->p - start));
    *name = colon ? colon + 1 : start;
    *len = (size_t)(r->p - *name);
    if (r->p == r->end || *len == 0 || *len > XML_NAME_BYTES_MAX)
        return broken(e, "a tag without a name, or with a long one");
    return 0;
}

// Behind the '>' of a tag; attributes may hold '>' in quotes.
static int skip_attributes(struct reader *r, bool *empty, struct err *e) {
    char quote = 0;
    for (; r->p < r->end; r->p++) {
        if (quote)
            quote = *r->p == quote ? 0 : quote;
        else if (*r->p == '"' || *r->p == '\'')
            quote = *r->p;
        else if (*r->p == '>') {
            *empty = r->p[-1] == '/';
            r->p++;
            return 0;
        }
    }
    return broken(e, "it ends inside a tag");
}

static int end_element(struct reader *r, struct err *e) {
    strbuf_addc(&r->text, '\0');
    int result = r->events->on_end(r->ctx, strbuf_cstr(&r->path), r->text.data, e);
    size_t start = r->starts[--r->depth];
    r->path.len = start;
    if (r->path.data)
        r->path.data[start] = '\0';
    strbuf_clear(&r->text);
    r->closed = r->depth == 0;
    return result;
}

static int begin_element(struct reader *r, struct err *e) {
    const char *name;
    size_t len;
    bool empty = false;
    if (r->closed)
        return broken(e, "a second root");
    if (r->depth == XML_DEPTH_MAX)
        return err_set(e, ERR_LIMIT, "the server's answer nests more than %d elements",
                       XML_DEPTH_MAX);
    r->p++;
    if (read_name(r, &name, &len, e) < 0 || skip_attributes(r, &empty, e) < 0)
        return -1;
    r->starts[r->depth++] = r->path.len;
    if (r->path.len)
        strbuf_addc(&r->path, '/');
    strbuf_add(&r->path, name, len);
    strbuf_clear(&r->text);
    return empty ? end_element(r, e) : 0;
}

static int close_element(struct reader *r, struct err *e) {
    const char *name;
    size_t len;
    bool empty;
    r->p += 2;
    if (read_name(r, &name, &len, e) < 0 || skip_attributes(r, &empty, e) < 0)
        return -1;
    size_t start = r->depth ? r->starts[r->depth - 1] + (r->depth > 1) : 0;
    if (!r->depth || r->path.len - start != len || memcmp(r->path.data + start, name, len) != 0)
        return broken(e, "an end tag that does not match");
    return end_element(r, e);
}

static int markup(struct reader *r, struct err *e) {
    size_t left = (size_t)(r->end - r->p);
    if (left >= 4 && memcmp(r->p, "<!--", 4) == 0)
        return skip_past(r, "-->", e);
    if (left >= 9 && memcmp(r->p, "<![CDATA[", 9) == 0) {
        const char *start = r->p + 9;
        if (skip_past(r, "]]>", e) < 0)
            return -1;
        size_t len = (size_t)(r->p - 3 - start);
        if (r->p - 3 < start || memchr(start, '\0', len))
            return broken(e, "a broken section of text");
        strbuf_add(&r->text, start, len);
        return 0;
    }
    if (left >= 2 && r->p[1] == '!')
        return broken(e, "it has a document type");
    if (left >= 2 && r->p[1] == '?')
        return skip_past(r, "?>", e);
    return left >= 2 && r->p[1] == '/' ? close_element(r, e) : begin_element(r, e);
}

int xml_read(const char *p, size_t len, const struct xml_events *events, void *ctx, struct err *e) {
    struct reader r = {.p = p, .end = p + len, .events = events, .ctx = ctx};
    int result = 0;
    strbuf_init(&r.path, XML_DEPTH_MAX * (XML_NAME_BYTES_MAX + 1));
    strbuf_init(&r.text, XML_TEXT_BYTES_MAX);
    while (result == 0 && r.p < r.end) {
        result = *r.p == '<' ? markup(&r, e) : add_text(&r, e);
        if (result == 0 && r.text.overflow)
            result = err_set(e, ERR_LIMIT, "the server's answer has a text of more than %d bytes",
                             XML_TEXT_BYTES_MAX);
    }
    if (result == 0 && !r.closed)
        result = broken(e, "it ends too early");
    strbuf_fini(&r.path);
    strbuf_fini(&r.text);
    return result;
}
