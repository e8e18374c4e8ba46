// SPDX-License-Identifier: Apache-2.0
// Reads options from the environment, and finds variables with similar names that nothing reads.
#include "conf/option.h"

#include "base/env.h"
#include "conf/option_value.h"

#include <string.h>
#include <strings.h>

void option_set_env(struct option_set *s, char *const *env) {
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            const char *name = option_row_env(s->arena, s, r);
            const char *value = name ? env_get(env, name) : NULL;
            if (value && value[0])
                option_apply(s, &s->tables[t], r, value, false,
                             (struct option_place){OPTION_ENV, name, 0, 0});
        }
}

// Whether one of these is the name: as it is, or, with '*' at its end, as its beginning.
static bool is_listed(const char *const *names, const char *name) {
    for (; *names; names++) {
        size_t len = strlen(*names);
        bool open = len && (*names)[len - 1] == '*';
        if (open ? strncmp(*names, name, len - 1) == 0 : strcmp(*names, name) == 0)
            return true;
    }
    return false;
}

// " (did you mean X or Y?)": the variables of every key with that name in some table, else the
// nearest one.
static const char *meant(const struct option_set *s, const char *const *known, const char *name) {
    size_t prefix = strlen(s->env_prefix), n = 0;
    const char **near = arena_new(s->arena, const char *, option_set_row_count(s) + 1);
    struct strbuf b = {0};
    for (; *known; known++)
        near[n++] = *known + prefix;
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const struct option_row *r = &s->tables[t].table->rows[i];
            const char *dot = r->key ? strrchr(r->key, '.') : NULL;
            const char *variable = dot ? option_row_env(s->arena, s, r) : NULL;
            if (variable && strcasecmp(dot + 1, name + prefix) == 0)
                strbuf_addf(&b, "%s%s", b.len ? " or " : "", variable);
        }
    const char *nearest = b.len ? NULL : str_nearest(name + prefix, near);
    if (nearest)
        strbuf_addf(&b, "%s%s", s->env_prefix, nearest);
    const char *text = b.len ? arena_printf(s->arena, " (did you mean %s?)", b.data) : "";
    strbuf_fini(&b);
    return text;
}

const char *option_unknown_env(const struct option_set *s, const char *const *others) {
    const char **known = arena_new(s->arena, const char *, option_set_row_count(s) + 1);
    size_t n = 0, more = 0;
    struct strbuf b;
    strbuf_init(&b, OPTION_ENV_BYTES_MAX);
    for (size_t t = 0; t < s->table_count; t++)
        for (size_t i = 0; i < s->tables[t].table->count; i++) {
            const char *name = option_row_env(s->arena, s, &s->tables[t].table->rows[i]);
            if (name)
                known[n++] = name;
        }
    for (char *const *v = s->env; v && *v; v++) {
        size_t len = strcspn(*v, "=");
        if (!str_starts(*v, s->env_prefix) || !(*v)[len] || !(*v)[len + 1])
            continue;
        const char *raw = arena_strndup(s->arena, *v, len);
        if (is_listed(known, raw) || is_listed(others, raw))
            continue;
        const char *name = str_printable(s->arena, raw, len);
        const char *text = len > OPTION_NAME_BYTES_MAX
                               ? NULL
                               : arena_printf(s->arena, "%s%s", name, meant(s, known, raw));
        if (!text || b.len + strlen(text) + 2 > OPTION_ENV_BYTES_MAX)
            more++;
        else
            strbuf_addf(&b, "%s%s", b.len ? ", " : "", text);
    }
    const char *list = arena_strdup(s->arena, strbuf_cstr(&b));
    strbuf_fini(&b);
    return more ? arena_printf(s->arena, "%s%s%zu more", list, *list ? ", and " : "", more) : list;
}
