// SPDX-License-Identifier: Apache-2.0
// Parses lines and states of Terraform ("machine-readable UI" 1.2, state format 4).
#include "terraform/terraform_output.h"

#include "base/clock.h"
#include "base/str.h"

#include <limits.h>
#include <string.h>

enum { STATE_FORMAT = 4, LOCK_VALUE_BYTES_MAX = 128 };

static const char *const KIND_NAMES[] = {[TERRAFORM_TEXT] = "",
                                         [TERRAFORM_OTHER] = "",
#define X(id, name) [id] = name,
                                         TERRAFORM_KINDS(X)
#undef X
};

static int index_of(const struct json *object, const char *key) {
    int64_t index = json_get_int(object, key, -1);
    return index < 0 || index > INT_MAX ? -1 : (int)index;
}

static void read_resource(const struct json *around, struct terraform_line *out) {
    const struct json *resource = json_get(around, "resource");
    out->action = json_get_str(around, "action", "");
    out->id = json_get_str(around, "id_value", "");
    out->elapsed_s = json_get_int(around, "elapsed_seconds", 0);
    if (!resource)
        return;
    out->address = json_get_str(resource, "addr", "");
    out->type = json_get_str(resource, "resource_type", "");
    out->index = index_of(resource, "resource_key");
}

static void read_diagnostic(const struct json *d, struct terraform_line *out) {
    if (!d)
        return;
    out->is_error = strcmp(json_get_str(d, "severity", ""), "error") == 0;
    out->summary = json_get_str(d, "summary", "");
    out->detail = json_get_str(d, "detail", "");
    out->address = json_get_str(d, "address", "");
}

static void read_summary(const struct json *changes, struct terraform_line *out) {
    if (!changes)
        return;
    out->add = json_get_int(changes, "add", 0);
    out->change = json_get_int(changes, "change", 0);
    out->remove = json_get_int(changes, "remove", 0);
    out->operation = json_get_str(changes, "operation", "");
}

void terraform_line_parse(struct arena *a, const char *line, size_t len,
                          struct terraform_line *out) {
    struct err ignored = {0};
    struct json *j = NULL;
    *out = (struct terraform_line){.index = -1};
    out->message = out->address = out->type = out->action = out->id = "";
    out->summary = out->detail = out->operation = "";
    if (len == 0 || len > TERRAFORM_LINE_BYTES_MAX || line[0] != '{' ||
        json_parse(a, line, len, &j, &ignored) < 0 || j->type != JSON_OBJECT) {
        out->message = arena_strndup(a, line, len < 4096 ? len : 4096);
        return;
    }
    const char *name = json_get_str(j, "type", "");
    out->kind = TERRAFORM_OTHER;
    out->json = j;
    out->message = json_get_str(j, "@message", "");
    for (int i = TERRAFORM_OTHER + 1; i <= TERRAFORM_OUTPUTS; i++)
        if (strcmp(KIND_NAMES[i], name) == 0)
            out->kind = (enum terraform_kind)i;
    const struct json *hook = json_get(j, "hook"), *change = json_get(j, "change");
    if (hook || change)
        read_resource(hook ? hook : change, out);
    if (out->kind == TERRAFORM_DIAGNOSTIC)
        read_diagnostic(json_get(j, "diagnostic"), out);
    if (out->kind == TERRAFORM_SUMMARY)
        read_summary(json_get(j, "changes"), out);
    if (out->kind == TERRAFORM_OUTPUTS)
        out->outputs = json_get(j, "outputs");
}

const struct json *terraform_line_output(const struct json *outputs, const char *name) {
    const struct json *output = outputs ? json_get(outputs, name) : NULL;
    return output ? json_get(output, "value") : NULL;
}

bool terraform_line_missing(struct arena *a, const struct terraform_line *l, const char **type,
                            const char **id) {
    static const char import[] = "non-existent remote object", data[] = "data.";
    bool reads = str_starts(l->address, data);
    if (l->kind != TERRAFORM_DIAGNOSTIC || !l->is_error ||
        !(reads ? strstr(l->summary, "no matching ") != NULL : strstr(l->summary, import) != NULL))
        return false;
    // An import has its address as a quoted word: "aws_vpc.found[\"vpc-0a\"]".
    const char *at = reads ? l->address + sizeof data - 1 : strchr(l->detail, '"');
    at = at && *at == '"' ? at + 1 : at;
    const char *key = at ? strchr(at, '[') : NULL;
    size_t type_len = at ? strcspn(at, ".[ ") : 0, len;
    if (!key || at[type_len] != '.')
        return false;
    key += 1 + strspn(key + 1, "\\\"");
    len = strcspn(key, "\\\"]");
    if (type_len == 0 || len == 0)
        return false;
    *type = arena_strndup(a, at, type_len);
    *id = arena_strndup(a, key, len);
    return true;
}

// ---- state -------------------------------------------------------------------------------------

static size_t count_instances(const struct json *resources) {
    size_t n = 0;
    for (const struct json *r = resources->child; r; r = r->next) {
        const struct json *all = json_get(r, "instances");
        n += all && all->type == JSON_ARRAY ? all->len : 0;
    }
    return n;
}

static void read_instances(const struct json *r, struct terraform_state *out) {
    const struct json *all = json_get(r, "instances");
    if (!all || all->type != JSON_ARRAY)
        return;
    for (const struct json *i = all->child; i; i = i->next) {
        const struct json *attributes = json_get(i, "attributes");
        out->resources[out->count++] = (struct terraform_resource){
            .type = json_get_str(r, "type", ""),
            .name = json_get_str(r, "name", ""),
            .module = json_get_str(r, "module", ""),
            .id = attributes ? json_get_str(attributes, "id", "") : "",
            .index = index_of(i, "index_key"),
            .key = json_get_str(i, "index_key", ""),
            .managed = strcmp(json_get_str(r, "mode", ""), "managed") == 0,
            .tainted = strcmp(json_get_str(i, "status", ""), "tainted") == 0,
            .attributes = attributes,
        };
        out->managed_count += out->resources[out->count - 1].managed;
    }
}

int terraform_state_parse(struct arena *a, const char *text, size_t len,
                          struct terraform_state *out, struct err *e) {
    struct json *j = NULL;
    *out = (struct terraform_state){0};
    if (strspn(text, " \r\n\t") >= len)
        return 0;
    if (len > TERRAFORM_STATE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "terraform's state is larger than %d MiB",
                       TERRAFORM_STATE_BYTES_MAX >> 20);
    if (json_parse(a, text, len, &j, e) < 0)
        return err_wrap(e, "terraform's state");
    int64_t version = json_get_int(j, "version", 0);
    if (version != STATE_FORMAT)
        return err_set(e, ERR_FORMAT, "terraform's state has format %lld; this dtctl reads %d",
                       (long long)version, STATE_FORMAT);
    const struct json *resources = json_get(j, "resources");
    out->outputs = json_get(j, "outputs");
    if (!resources || resources->type != JSON_ARRAY)
        return 0;
    out->resources = arena_new(a, struct terraform_resource, count_instances(resources) + 1);
    for (const struct json *r = resources->child; r; r = r->next)
        read_instances(r, out);
    return 0;
}

const char *terraform_state_address(struct arena *a, const struct terraform_resource *r) {
    const char *name =
        arena_printf(a, "%s%s%s.%s", r->module, r->module[0] ? "." : "", r->type, r->name);
    if (r->key[0])
        return arena_printf(a, "%s[\"%s\"]", name, r->key);
    return r->index < 0 ? name : arena_printf(a, "%s[%d]", name, r->index);
}

// ---- lock --------------------------------------------------------------------------------------

// Returns the text after "Name:" on a line, which may begin with the frame of an error.
static const char *lock_value(struct arena *a, const char *text, const char *name) {
    for (const char *p = strstr(text, name); p; p = strstr(p + 1, name)) {
        const char *value = p + strlen(name);
        if (p == text || !strchr(" \n\t", p[-1]) || *value != ':')
            continue;
        value += 1 + strspn(value + 1, " ");
        size_t len = strcspn(value, "\r\n");
        return str_printable(a, value, len < LOCK_VALUE_BYTES_MAX ? len : LOCK_VALUE_BYTES_MAX);
    }
    return "";
}

bool terraform_lock_parse(struct arena *a, const char *text, struct terraform_lock *out) {
    static const char mark[] = "Lock Info:", type[] = "OperationType";
    const char *info = strstr(text, mark);
    *out = (struct terraform_lock){.id = "", .who = "", .operation = ""};
    if (!info)
        return false;
    out->id = lock_value(a, info, "ID");
    // The id is used on command lines, also by hand: replace an id that Terraform cannot have made.
    if (strspn(out->id, "0123456789abcdef-") != strlen(out->id) || out->id[0] == '-')
        out->id = "?";
    out->who = lock_value(a, info, "Who");
    out->operation = lock_value(a, info, "Operation");
    if (str_starts(out->operation, type)) {
        char *word = arena_strdup(a, out->operation + strlen(type));
        for (char *c = word; *c; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
        out->operation = word;
    }
    // Format "2026-01-02 03:04:05.678 +0000 UTC", as Go prints times.
    char *since = arena_strdup(a, lock_value(a, info, "Created"));
    since[strcspn(since, " ")] = 'T';
    int64_t since_ms = clock_of_iso(since);
    out->since_ms = since_ms < 0 ? 0 : since_ms;
    return out->id[0] != 0;
}
