// SPDX-License-Identifier: Apache-2.0
// The inventory file: one table of fields reads, checks and writes every member of a node.
#include "cluster/inventory.h"

#include "cluster/nodeset.h"
#include "conf/toml.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { ERRORS_SHOWN_MAX = 20 };

static const char *const TRANSPORTS[] = {"local", "ssh", NULL};

enum field_type { FIELD_STR, FIELD_INT };

// A member of struct inventory_node other than name and transport.
struct field {
    const char *key;
    enum field_type type;
    size_t offset;
    enum { NEVER, SSH_ONLY, ALWAYS } needed;
    int64_t max;
    const char *absent; // strings: value when absent
};

#define AT(member) offsetof(struct inventory_node, member)
static const struct field FIELDS[] = {
    {"user", FIELD_STR, AT(user), NEVER, 0, NULL},
    {"host", FIELD_STR, AT(host), SSH_ONLY, 0, NULL},
    {"port", FIELD_INT, AT(port), NEVER, 65535, NULL},
    {"address", FIELD_STR, AT(address), ALWAYS, 0, NULL},
    {"root", FIELD_STR, AT(root), ALWAYS, 0, NULL},
    {"host_key", FIELD_STR, AT(host_key), NEVER, 0, NULL},
    {"arch", FIELD_STR, AT(arch), NEVER, 0, ""},
    {"dtrun", FIELD_STR, AT(dtrun), NEVER, 0, ""},
    {"instance_id", FIELD_STR, AT(instance_id), NEVER, 0, ""},
    {"instance_type", FIELD_STR, AT(instance_type), NEVER, 0, ""},
    {"zone", FIELD_STR, AT(zone), NEVER, 0, ""},
    {"purchase", FIELD_STR, AT(purchase), NEVER, 0, ""},
    {"launched", FIELD_STR, AT(launched), NEVER, 0, ""},
    {"config_hash", FIELD_STR, AT(config_hash), NEVER, 0, ""},
    {"cpus", FIELD_INT, AT(cpus), NEVER, 1 << 20, NULL},
    {"gpus", FIELD_INT, AT(gpus), NEVER, 1 << 16, NULL},
    {"memory_bytes", FIELD_INT, AT(memory_bytes), NEVER, INT64_MAX, NULL},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

struct reader {
    struct arena *arena;
    const char *file;
    struct strbuf errors;
    int error_count;
};

__attribute__((format(printf, 4, 5))) static void complain(struct reader *r, int line, int column,
                                                           const char *fmt, ...) {
    if (r->error_count++ >= ERRORS_SHOWN_MAX)
        return;
    va_list ap;
    strbuf_addf(&r->errors, "%s%s:%d:%d: ", r->errors.len ? "\n" : "", r->file, line, column);
    va_start(ap, fmt);
    strbuf_vaddf(&r->errors, fmt, ap);
    va_end(ap);
}

// Text for command lines, paths and messages: no control characters, limited length.
static bool is_text(const struct toml *v) {
    if (v->len > INVENTORY_TEXT_BYTES_MAX || v->len == 0)
        return false;
    for (size_t i = 0; i < v->len; i++)
        if ((unsigned char)v->str[i] < 0x20 || v->str[i] == 0x7f)
            return false;
    return true;
}

static const char *read_text(struct reader *r, const struct toml *v, const char *absent) {
    if (v->type == TOML_STRING && v->len == 0 && absent)
        return absent;
    if (v->type == TOML_STRING && is_text(v))
        return arena_strndup(r->arena, v->str, v->len);
    complain(r, v->line, v->column, "%.64s: expected plain text of %d to %d bytes", v->key,
             absent ? 0 : 1, INVENTORY_TEXT_BYTES_MAX);
    return absent;
}

static void read_field(struct reader *r, const struct toml *table, const struct field *f,
                       struct inventory_node *n) {
    void *at = (char *)n + f->offset;
    const struct toml *v = toml_member(table, f->key);
    if (f->type == FIELD_STR)
        *(const char **)at = f->absent;
    bool needed = f->needed == ALWAYS || (f->needed == SSH_ONLY && n->transport == INVENTORY_SSH);
    if (!v && needed)
        complain(r, table->line, table->column, "a node needs the key '%s'", f->key);
    if (!v)
        return;
    if (f->type == FIELD_STR) {
        *(const char **)at = read_text(r, v, f->absent);
    } else if (v->type != TOML_INT || v->integer < 0 || v->integer > f->max) {
        complain(r, v->line, v->column, "%s: expected a number from 0 to %lld", f->key,
                 (long long)f->max);
    } else if (f->offset == AT(port)) {
        n->port = (int)v->integer;
    } else {
        *(int64_t *)at = v->integer;
    }
}

static void check_names(struct reader *r, const struct toml *table) {
    for (const struct toml *v = table->child; v; v = v->next) {
        bool known = str_eq(v->key, "name") || str_eq(v->key, "transport");
        for (size_t i = 0; i < FIELD_COUNT && !known; i++)
            known = str_eq(v->key, FIELDS[i].key);
        if (!known)
            complain(r, v->key_line, v->key_column, "unknown key '%.64s' of a node",
                     str_printable(r->arena, v->key, strlen(v->key)));
    }
}

static void read_node(struct reader *r, const struct toml *table, struct inventory_node *n) {
    *n = (struct inventory_node){.name = "", .transport = INVENTORY_SSH};
    if (table->type != TOML_TABLE) {
        complain(r, table->line, table->column, "node: expected a table");
        return;
    }
    const struct toml *name = toml_member(table, "name");
    if (name && name->type == TOML_STRING && strlen(name->str) == name->len &&
        str_is_name(name->str, INVENTORY_NAME_BYTES_MAX))
        n->name = arena_strdup(r->arena, name->str);
    else
        complain(r, name ? name->line : table->line, name ? name->column : table->column,
                 "name: letters, digits, '.', '_', '-', at most %d bytes",
                 INVENTORY_NAME_BYTES_MAX);
    const char *transport = toml_get_str(table, "transport", "");
    if (strcmp(transport, "local") == 0)
        n->transport = INVENTORY_LOCAL;
    else if (strcmp(transport, "ssh") != 0)
        complain(r, table->line, table->column, "transport: expected \"local\" or \"ssh\"");
    for (size_t i = 0; i < FIELD_COUNT; i++)
        read_field(r, table, &FIELDS[i], n);
    check_names(r, table);
    if (n->host && n->host[0] == '-')
        complain(r, table->line, table->column, "host: begins with '-'");
    if (n->user && n->user[0] == '-')
        complain(r, table->line, table->column, "user: begins with '-'");
    if (n->dtrun && n->dtrun[0] && !hash_is_hex(n->dtrun))
        complain(r, table->line, table->column, "dtrun: expected 64 lower-case hex digits");
}

static int compare_names(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static void check_duplicates(struct reader *r, const struct inventory *inv) {
    if (inv->count < 2)
        return;
    const char **names = arena_new(r->arena, const char *, inv->count);
    for (size_t i = 0; i < inv->count; i++)
        names[i] = inv->nodes[i].name;
    qsort(names, inv->count, sizeof names[0], compare_names);
    for (size_t i = 1; i < inv->count; i++)
        if (names[i][0] && strcmp(names[i - 1], names[i]) == 0)
            complain(r, 1, 1, "node '%s' is listed twice", names[i]);
}

static const char *read_head(struct reader *r, const struct toml *root, const char *key,
                             bool needed) {
    const struct toml *v = toml_member(root, key);
    if (!v && needed)
        complain(r, 1, 1, "the key '%s' is missing", key);
    const char *text = v ? read_text(r, v, NULL) : NULL;
    return text ? text : "";
}

static void read_root(struct reader *r, const struct toml *root, struct inventory *out) {
    const struct toml *format = toml_member(root, "format");
    if (!format || format->type != TOML_INT || format->integer != INVENTORY_FORMAT) {
        complain(r, format ? format->line : 1, format ? format->column : 1,
                 "format: this dtctl reads format %d", INVENTORY_FORMAT);
        return;
    }
    out->name = read_head(r, root, "name", true);
    out->provider = read_head(r, root, "provider", true);
    out->created = read_head(r, root, "created", false);
    if (out->name[0] && !str_is_name(out->name, INVENTORY_NAME_BYTES_MAX))
        complain(r, 1, 1, "name: letters, digits, '.', '_', '-'");
    const struct toml *nodes = toml_member(root, "node");
    if (!nodes || nodes->type != TOML_ARRAY || nodes->len == 0 ||
        nodes->len > INVENTORY_NODES_MAX) {
        complain(r, nodes ? nodes->line : 1, nodes ? nodes->column : 1,
                 "node: expected 1 to %d tables [[node]]", INVENTORY_NODES_MAX);
        return;
    }
    out->nodes = arena_new(r->arena, struct inventory_node, nodes->len);
    for (const struct toml *v = nodes->child; v; v = v->next)
        read_node(r, v, &out->nodes[out->count++]);
    check_duplicates(r, out);
}

int inventory_parse(struct arena *a, const char *text, size_t len, const char *file,
                    struct inventory *out, struct err *e) {
    *out = (struct inventory){.name = "", .provider = "", .created = ""};
    struct toml *root = NULL;
    if (len > INVENTORY_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "'%s' is larger than %d bytes", file, INVENTORY_BYTES_MAX);
    if (toml_parse(a, file, text, len, &root, e) < 0)
        return -1;
    struct reader r = {.arena = a, .file = file};
    read_root(&r, root, out);
    int result = 0;
    if (r.error_count > ERRORS_SHOWN_MAX)
        strbuf_addf(&r.errors, "\nand %d more", r.error_count - ERRORS_SHOWN_MAX);
    if (r.error_count)
        result = err_set_lines(e, ERR_FORMAT, strbuf_cstr(&r.errors));
    strbuf_fini(&r.errors);
    return result;
}

static void format_field(const struct inventory_node *n, const struct field *f,
                         struct strbuf *out) {
    const void *at = (const char *)n + f->offset;
    const char *text = f->type == FIELD_STR ? *(const char *const *)at : NULL;
    if (text && text[0])
        toml_write_str(out, f->key, text);
    int64_t number = 0;
    if (f->type == FIELD_INT)
        number = f->offset == AT(port) ? n->port : *(const int64_t *)at;
    if (number)
        toml_write_int(out, f->key, number);
}

void inventory_format(const struct inventory *inv, struct strbuf *out) {
    strbuf_adds(out, "# The nodes of this cluster. `dtctl up` and `dtctl down` write this file.\n");
    toml_write_int(out, "format", INVENTORY_FORMAT);
    toml_write_str(out, "name", inv->name);
    toml_write_str(out, "provider", inv->provider);
    if (inv->created[0])
        toml_write_str(out, "created", inv->created);
    for (size_t i = 0; i < inv->count; i++) {
        const struct inventory_node *n = &inv->nodes[i];
        toml_write_element(out, "node");
        toml_write_str(out, "name", n->name);
        toml_write_str(out, "transport", inventory_transport_name(n->transport));
        for (size_t k = 0; k < FIELD_COUNT; k++)
            format_field(n, &FIELDS[k], out);
    }
}

int inventory_find(const struct inventory *inv, const char *name) {
    for (size_t i = 0; i < inv->count; i++)
        if (strcmp(inv->nodes[i].name, name) == 0)
            return (int)i;
    return -1;
}

const char *inventory_transport_name(enum inventory_transport t) {
    return TRANSPORTS[t];
}

static bool same_host(const char *x, const char *y) {
    struct in6_addr a, b;
    if (!x || !y || strcmp(x, y) == 0)
        return x && y;
    return inet_pton(AF_INET6, x, &a) == 1 && inet_pton(AF_INET6, y, &b) == 1 &&
           memcmp(&a, &b, sizeof a) == 0;
}

// The node of this name, or else the only one of this host or address; -1: none.
static int find_named(const struct inventory *inv, const char *text) {
    int found = inventory_find(inv, text);
    size_t matches = 0;
    for (size_t i = 0; i < inv->count && found < 0; i++)
        matches += same_host(inv->nodes[i].host, text) || same_host(inv->nodes[i].address, text);
    for (size_t i = 0; i < inv->count && found < 0 && matches == 1; i++)
        if (same_host(inv->nodes[i].host, text) || same_host(inv->nodes[i].address, text))
            found = (int)i;
    return found;
}

int inventory_select(struct arena *a, const struct inventory *inv, const char *wanted,
                     size_t **indices, size_t *count, struct err *e) {
    *indices = arena_new(a, size_t, inv->count ? inv->count : 1);
    *count = 0;
    bool *chosen = arena_new(a, bool, inv->count ? inv->count : 1);
    char **names = NULL;
    size_t name_count = 0;
    struct in6_addr ignored;
    if (wanted && inet_pton(AF_INET6, wanted, &ignored) == 1)
        wanted = arena_printf(a, "[%s]", wanted); // as in a set
    if (wanted && *wanted && nodeset_parse_names(a, wanted, &names, &name_count, e) < 0)
        return -1;
    const char **all = arena_new(a, const char *, inv->count + 1);
    for (size_t i = 0; i < inv->count; i++) {
        all[i] = inv->nodes[i].name;
        chosen[i] = !wanted || !*wanted;
    }
    for (size_t i = 0; i < name_count; i++) {
        int at = find_named(inv, names[i]);
        if (at < 0) {
            const char *near = str_nearest(names[i], all);
            return err_set(e, ERR_NOT_FOUND, "cluster '%s' has no node '%.80s'%s%s%s", inv->name,
                           names[i], near ? " (did you mean '" : "", near ? near : "",
                           near ? "'?)" : "");
        }
        chosen[at] = true;
    }
    for (size_t i = 0; i < inv->count; i++)
        if (chosen[i])
            (*indices)[(*count)++] = i;
    return 0;
}
