// SPDX-License-Identifier: Apache-2.0
// libyaml's events, one by one, onto a stack of open nodes.
#include "convert/convert_yaml.h"

#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct open_node {
    struct json *node;
    struct json **tail;
    const char *key; // of the next member; NULL: a key comes
    int key_line;
    size_t began; // nodes counted when the node began
    const char *anchor;
};

struct anchor {
    const char *name;
    struct json *node;
    size_t weight; // nodes in it
};

struct reader {
    struct arena *a;
    struct err *e;
    yaml_parser_t parser;
    yaml_event_t event;
    struct open_node open[JSON_DEPTH_MAX];
    int depth;
    struct anchor anchors[CONVERT_YAML_ANCHORS_MAX];
    size_t anchor_count, nodes;
    struct json *root;
};

static int line_of(const struct reader *r) {
    return (int)r->event.start_mark.line + 1;
}

static int refuse(struct reader *r, const char *what) {
    return err_set(r->e, ERR_CONFIG, "line %d: %s", line_of(r), what);
}

// ---- scalars ------------------------------------------------------------------------------------

// The type of a plain scalar.
static void resolve(struct json *v) {
    static const char *const none[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    struct err ignored = {0};
    if (strlen(v->str) != v->len)
        return;
    if (str_is_one_of(v->str, none)) {
        v->type = JSON_NULL;
    } else if (str_is_one_of(v->str, yes) || str_is_one_of(v->str, no)) {
        v->type = JSON_BOOL;
        v->boolean = str_is_one_of(v->str, yes);
    } else if (strspn(v->str, "-0123456789") == v->len &&
               str_parse_i64(v->str, INT64_MIN, INT64_MAX, &v->integer, &ignored) == 0) {
        v->type = JSON_INT;
        v->number = (double)v->integer;
    } else if (strspn(v->str, "+-.0123456789eE") == v->len && strpbrk(v->str, "0123456789") &&
               str_parse_f64(v->str, -HUGE_VAL, HUGE_VAL, &v->number, &ignored) == 0 &&
               isfinite(v->number)) {
        v->type = JSON_NUM;
    }
}

// ---- the tree -----------------------------------------------------------------------------------

static bool has_key(const struct json *object, const char *key) {
    for (const struct json *c = object->child; c; c = c->next)
        if (strcmp(c->key, key) == 0)
            return true;
    return false;
}

// Puts a finished or just opened node below the innermost open one.
static int attach(struct reader *r, struct json *v) {
    if (r->depth == 0) {
        r->root = v;
        return 0;
    }
    struct open_node *top = &r->open[r->depth - 1];
    if (top->node->type == JSON_OBJECT) {
        v->key = top->key;
        v->line = top->key_line;
        top->key = NULL;
    }
    *top->tail = v;
    top->tail = &v->next;
    top->node->len++;
    return 0;
}

static bool wants_key(const struct reader *r) {
    const struct open_node *top = r->depth ? &r->open[r->depth - 1] : NULL;
    return top && top->node->type == JSON_OBJECT && !top->key;
}

static struct json *make(struct reader *r, enum json_type type) {
    struct json *v = arena_new(r->a, struct json, 1);
    v->type = type;
    v->line = line_of(r);
    return v;
}

static int count(struct reader *r, size_t nodes) {
    r->nodes += nodes;
    if (r->nodes <= CONVERT_YAML_NODES_MAX)
        return 0;
    return err_set(r->e, ERR_CONFIG, "line %d: the file has more than %d values, aliases counted",
                   line_of(r), CONVERT_YAML_NODES_MAX);
}

static int remember(struct reader *r, const char *name, struct json *node, size_t weight) {
    if (!name)
        return 0;
    if (r->anchor_count >= CONVERT_YAML_ANCHORS_MAX)
        return err_set(r->e, ERR_CONFIG, "line %d: the file has more than %d anchors", line_of(r),
                       CONVERT_YAML_ANCHORS_MAX);
    r->anchors[r->anchor_count++] = (struct anchor){name, node, weight};
    return 0;
}

static const char *copy(struct reader *r, const yaml_char_t *text) {
    return text ? arena_strdup(r->a, (const char *)text) : NULL;
}

static int take_key(struct reader *r, const char *key, size_t len) {
    struct open_node *top = &r->open[r->depth - 1];
    if (strlen(key) != len)
        return refuse(r, "a key holds a NUL");
    if (strcmp(key, "<<") == 0)
        return refuse(r, "merging by '<<' is not read; write the members out");
    if (top->node->len >= CONVERT_YAML_MEMBERS_MAX)
        return err_set(r->e, ERR_CONFIG, "line %d: a mapping has more than %d members", line_of(r),
                       CONVERT_YAML_MEMBERS_MAX);
    if (has_key(top->node, key))
        return err_set(r->e, ERR_CONFIG, "line %d: key '%.100s' is given twice", line_of(r), key);
    top->key = key;
    top->key_line = line_of(r);
    return 0;
}

static int take_scalar(struct reader *r) {
    size_t len = r->event.data.scalar.length;
    const char *text = arena_strndup(r->a, (const char *)r->event.data.scalar.value, len);
    if (wants_key(r))
        return take_key(r, text, len);
    struct json *v = make(r, JSON_STR);
    v->str = text;
    v->len = len;
    if (strlen(text) != len)
        return refuse(r, "a value holds a NUL");
    if (r->event.data.scalar.plain_implicit)
        resolve(v);
    if (count(r, 1) < 0 || remember(r, copy(r, r->event.data.scalar.anchor), v, 1) < 0)
        return -1;
    return attach(r, v);
}

static int open_container(struct reader *r, enum json_type type, const yaml_char_t *anchor) {
    if (wants_key(r))
        return refuse(r, "a key is a list or a mapping");
    if (r->depth >= JSON_DEPTH_MAX)
        return err_set(r->e, ERR_CONFIG, "line %d: nested deeper than %d", line_of(r),
                       JSON_DEPTH_MAX);
    struct json *v = make(r, type);
    size_t began = r->nodes;
    if (count(r, 1) < 0 || attach(r, v) < 0)
        return -1;
    r->open[r->depth++] =
        (struct open_node){.node = v, .tail = &v->child, .began = began, .anchor = copy(r, anchor)};
    return 0;
}

static int close_container(struct reader *r) {
    const struct open_node *top = &r->open[--r->depth];
    return remember(r, top->anchor, top->node, r->nodes - top->began);
}

// Takes the newest anchor of the name. An anchor counts from the end of its node, so that no node
// holds itself.
static int take_alias(struct reader *r) {
    const char *name = (const char *)r->event.data.alias.anchor;
    size_t i = r->anchor_count;
    while (i > 0 && strcmp(r->anchors[i - 1].name, name) != 0)
        i--;
    if (i == 0)
        return err_set(r->e, ERR_CONFIG, "line %d: alias '%.100s' has no anchor before it",
                       line_of(r), name);
    const struct anchor *found = &r->anchors[i - 1];
    if (wants_key(r))
        return refuse(r, "a key is an alias");
    struct json *v = arena_memdup(r->a, found->node, sizeof *found->node);
    v->key = NULL;
    v->next = NULL;
    return count(r, found->weight) < 0 ? -1 : attach(r, v);
}

// The types of YAML 1.1 by their full names; another one would change what a value is.
static int check_tag(struct reader *r) {
    static const char *const known[] = {"str", "int", "float", "bool", "null", "seq", "map", NULL};
    static const char prefix[] = "tag:yaml.org,2002:";
    const yaml_event_t *v = &r->event;
    const yaml_char_t *tag = v->type == YAML_SCALAR_EVENT           ? v->data.scalar.tag
                             : v->type == YAML_SEQUENCE_START_EVENT ? v->data.sequence_start.tag
                             : v->type == YAML_MAPPING_START_EVENT  ? v->data.mapping_start.tag
                                                                    : NULL;
    const char *text = (const char *)tag;
    if (!text || strcmp(text, "!") == 0 ||
        (str_starts(text, prefix) && str_is_one_of(text + strlen(prefix), known)))
        return 0;
    return err_set(r->e, ERR_CONFIG, "line %d: the tag '%.100s' is not read", line_of(r), text);
}

static int take_event(struct reader *r) {
    if (check_tag(r) < 0)
        return -1;
    switch (r->event.type) {
    case YAML_DOCUMENT_START_EVENT:
        return r->root ? refuse(r, "a second document begins; one is read") : 0;
    case YAML_SCALAR_EVENT: return take_scalar(r);
    case YAML_SEQUENCE_START_EVENT:
        return open_container(r, JSON_ARRAY, r->event.data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return open_container(r, JSON_OBJECT, r->event.data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return close_container(r);
    case YAML_ALIAS_EVENT: return take_alias(r);
    default: return 0;
    }
}

static int read_events(struct reader *r) {
    for (bool over = false; !over;) {
        if (!yaml_parser_parse(&r->parser, &r->event)) {
            const char *why = r->parser.problem ? r->parser.problem : "no memory";
            bool marked = r->parser.problem_mark.line > 0 || r->parser.problem_mark.column > 0;
            size_t line = marked ? r->parser.problem_mark.line : r->parser.mark.line;
            return err_set(r->e, ERR_CONFIG, "line %zu: %.200s", line + 1, why);
        }
        int result = take_event(r);
        over = r->event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&r->event);
        if (result < 0)
            return -1;
    }
    return 0;
}

int convert_yaml_parse(struct arena *a, const char *text, size_t len, struct json **out,
                       struct err *e) {
    struct reader *r = arena_new(a, struct reader, 1);
    r->a = a;
    r->e = e;
    if (!yaml_parser_initialize(&r->parser))
        return err_set(e, ERR_FAILED, "libyaml has no memory");
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, len);
    int result = read_events(r);
    yaml_parser_delete(&r->parser);
    if (result < 0)
        return -1;
    if (!r->root || r->root->type != JSON_OBJECT)
        return err_set(e, ERR_CONFIG, "line 1: the file is no mapping of names to values");
    *out = r->root;
    return 0;
}
