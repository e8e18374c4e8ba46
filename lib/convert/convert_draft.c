// SPDX-License-Identifier: Apache-2.0
// Settings with their origins, checked one by one, written table by table.
#include "convert/convert_draft.h"

#include "base/array.h"
#include "base/env.h"
#include "conf/config.h"

#include <ctype.h>
#include <string.h>

#define INPUTS "inputs."

enum { COMMENT_BYTES_MAX = 90, PROBLEM_BYTES_MAX = 300 };

// The order of the tables; the tables of inputs follow [train].
static const char *const ORDER[] = {
    "cluster", "hosts",   "aws",   "aws.tags", "lease",   "task", "setup",           "train",
    "inputs",  "outputs", "state", "compat",   "metrics", "env",  "hyperparameters", NULL};

static size_t order_of(const char *table) {
    size_t best = 0, len = 0, i = 0;
    for (; ORDER[i]; i++) {
        size_t n = strlen(ORDER[i]);
        if (n >= len && strncmp(table, ORDER[i], n) == 0 && (!table[n] || table[n] == '.'))
            best = i, len = n;
    }
    return len ? best : i;
}

// ---- notes --------------------------------------------------------------------------------------

void convert_draft_note(struct convert_draft *d, struct convert_from from, const char *fmt, ...) {
    va_list ap;
    if (d->note_count >= CONVERT_NOTES_MAX) {
        d->notes_left++;
        return;
    }
    array_grow_in(d->arena, d->notes, &d->note_room, d->note_count + 1);
    va_start(ap, fmt);
    const char *text = arena_vprintf(d->arena, fmt, ap);
    va_end(ap);
    d->notes[d->note_count++] =
        (struct convert_note){{from.line, str_printable(d->arena, from.name, strlen(from.name))},
                              str_printable(d->arena, text, strlen(text))};
}

void convert_draft_needless(struct convert_draft *d, struct convert_from from) {
    if (d->needless_count >= CONVERT_NOTES_MAX)
        return;
    array_grow_in(d->arena, d->needless, &d->needless_room, d->needless_count + 1);
    from.name = str_printable(d->arena, from.name, strlen(from.name));
    d->needless[d->needless_count++] = from;
}

const char *convert_draft_last_note(const struct convert_draft *d) {
    if (d->notes_left)
        return "there are too many remarks to name the reason";
    return d->note_count ? d->notes[d->note_count - 1].text : "";
}

// ---- values as TOML -----------------------------------------------------------------------------

// Lines in ''' can be read and edited; text that they cannot hold is escaped.
static bool is_block(const char *text) {
    size_t len = strlen(text);
    if (!strchr(text, '\n') || strstr(text, "'''") || text[len - 1] == '\'')
        return false;
    for (size_t i = 0, n; i < len; i += n) {
        n = str_utf8((const unsigned char *)text + i, len - i);
        unsigned char c = (unsigned char)text[i];
        if (n == 0 || c == 0x7F || (c < 0x20 && c != '\n' && c != '\t'))
            return false;
    }
    return true;
}

static void put_text(struct strbuf *out, const char *text) {
    if (is_block(text))
        strbuf_addf(out, "'''\n%s'''", text);
    else
        toml_write_quoted(out, text, strlen(text));
}

// A number as TOML writes it; false: the text is none.
static bool put_number(struct strbuf *out, const char *text) {
    struct err ignored = {0};
    int64_t whole;
    double real;
    if (str_parse_i64(text, INT64_MIN, INT64_MAX, &whole, &ignored) == 0)
        strbuf_addf(out, "%lld", (long long)whole);
    else if (str_parse_f64(text, -1e300, 1e300, &real, &ignored) == 0)
        toml_write_real_value(out, real);
    else
        return false;
    return true;
}

static const char *value_of(struct arena *a, enum option_type type, const char *text) {
    struct strbuf out = {0};
    bool bare =
        type == OPTION_INT || type == OPTION_REAL || type == OPTION_COUNT || type == OPTION_RANGE;
    if (type == OPTION_BOOL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        strbuf_adds(&out, text);
    else if (!bare || !put_number(&out, text))
        put_text(&out, text);
    const char *copy = arena_strdup(a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return copy;
}

static void put_header(struct strbuf *out, const char *table) {
    bool input = str_starts(table, INPUTS);
    toml_write_table(out, input ? "inputs" : table, input ? table + strlen(INPUTS) : NULL);
}

static void put_entry(struct strbuf *out, const struct convert_entry *entry) {
    toml_write_key(out, entry->key);
    if (!entry->items) {
        strbuf_addf(out, " = %s\n", entry->value);
        return;
    }
    strbuf_adds(out, " = [");
    for (size_t i = 0; i < entry->item_count; i++)
        strbuf_addf(out, "%s%s", i ? ", " : "", entry->items[i]);
    strbuf_adds(out, "]\n");
}

// ---- adding -------------------------------------------------------------------------------------

// The reader of dtctl.toml on a text; its first problem goes to e, without the place.
static int check_text(const struct strbuf *text, struct err *e) {
    struct arena scratch = {0};
    struct config *c = arena_new(&scratch, struct config, 1);
    int result = 0;
    config_open(c, &scratch, "dtctl", NULL);
    option_set_file(&c->set, "dtctl.toml", text->data, text->len);
    if (c->set.problems)
        result = err_set(e, ERR_CONFIG, "%.*s", PROBLEM_BYTES_MAX, c->set.problems->text);
    arena_fini(&scratch);
    return result;
}

// An input is complete only with its source, so its earlier fields are checked along.
static int check_entry(const struct convert_draft *d, const struct convert_entry *entry,
                       struct err *e) {
    struct strbuf text = {0};
    put_header(&text, entry->table);
    if (str_starts(entry->table, INPUTS))
        for (size_t i = 0; i < d->entry_count; i++)
            if (strcmp(d->entries[i].table, entry->table) == 0 &&
                strcmp(d->entries[i].key, entry->key) != 0)
                put_entry(&text, &d->entries[i]);
    put_entry(&text, entry);
    int result = check_text(&text, e);
    strbuf_fini(&text);
    return result;
}

static struct convert_entry *find(const struct convert_draft *d, const char *table,
                                  const char *key) {
    for (size_t i = 0; i < d->entry_count; i++)
        if (strcmp(d->entries[i].table, table) == 0 && strcmp(d->entries[i].key, key) == 0)
            return &d->entries[i];
    return NULL;
}

// The variable that a run makes of the name of an input or a hyperparameter; NULL: of no name.
static const char *variable_of(struct arena *a, const struct convert_entry *entry) {
    if (strcmp(entry->table, "hyperparameters") == 0)
        return env_variable(a, "SM_HP_", entry->key);
    return str_starts(entry->table, INPUTS)
               ? env_variable(a, "DTCTL_INPUT_", entry->table + strlen(INPUTS))
               : NULL;
}

// Notes a name whose variable another name has already.
static bool has_twin(struct convert_draft *d, const struct convert_entry *entry) {
    struct arena scratch = {0};
    const char *variable = variable_of(&scratch, entry);
    bool found = false;
    for (size_t i = 0; variable && !found && i < d->entry_count; i++) {
        const struct convert_entry *other = &d->entries[i];
        bool input = strcmp(entry->table, "hyperparameters") != 0;
        bool self = strcmp(other->table, entry->table) == 0 &&
                    (input || strcmp(other->key, entry->key) == 0);
        found = !self && str_eq(variable_of(&scratch, other), variable);
        if (found)
            convert_draft_note(d, entry->from, "left out: '%s' has the variable %s already",
                               input ? other->table + strlen(INPUTS) : other->key, variable);
    }
    arena_fini(&scratch);
    return found;
}

static bool put(struct convert_draft *d, struct convert_entry entry) {
    struct err e = {0};
    struct convert_entry *old = find(d, entry.table, entry.key);
    if (!old && d->entry_count >= CONVERT_ENTRIES_MAX) {
        convert_draft_note(d, entry.from, "left out: the maximum is %d settings",
                           CONVERT_ENTRIES_MAX);
        return false;
    }
    if (check_entry(d, &entry, &e) < 0) {
        convert_draft_note(d, entry.from, "left out: %s", e.text);
        return false;
    }
    if (!old && has_twin(d, &entry))
        return false;
    const char *name = entry.from.name;
    entry.from.name = str_printable(d->arena, name, strlen(name));
    if (old) {
        *old = entry;
        return true;
    }
    array_grow_in(d->arena, d->entries, &d->entry_room, d->entry_count + 1);
    d->entries[d->entry_count++] = entry;
    return true;
}

// "train.torchrun.tee" -> table "train.torchrun", key "tee".
static struct convert_entry entry_of(const struct convert_draft *d, struct convert_from from,
                                     const char *key) {
    const char *dot = strrchr(key, '.');
    must(dot != NULL);
    return (struct convert_entry){
        .from = from, .table = arena_strndup(d->arena, key, (size_t)(dot - key)), .key = dot + 1};
}

// The row of a key, without what points into its configuration.
static struct option_row row_of(const char *key) {
    struct arena scratch = {0};
    struct config *c = arena_new(&scratch, struct config, 1);
    config_open(c, &scratch, "dtctl", NULL);
    const struct option_row *r = option_find(&c->set, key, NULL);
    must(r != NULL);
    struct option_row copy = *r;
    arena_fini(&scratch);
    return copy;
}

bool convert_draft_set(struct convert_draft *d, struct convert_from from, const char *key,
                       const char *text) {
    struct convert_entry entry = entry_of(d, from, key);
    entry.value = value_of(d->arena, row_of(key).type, text);
    return put(d, entry);
}

// Each item is checked alone, so that a long list takes no more time per item.
bool convert_draft_add(struct convert_draft *d, struct convert_from from, const char *key,
                       const char *item) {
    struct convert_entry entry = entry_of(d, from, key);
    struct convert_entry *old = find(d, entry.table, entry.key);
    struct err e = {0};
    const char *value = value_of(d->arena, OPTION_STRING, item);
    if (!old || !old->items) {
        array_grow_in(d->arena, entry.items, &entry.item_room, 1);
        entry.items[entry.item_count++] = value;
        return put(d, entry);
    }
    if (old->item_count >= CONVERT_ITEMS_MAX) {
        convert_draft_note(d, from, "left out: the maximum is %d items", CONVERT_ITEMS_MAX);
        return false;
    }
    entry.items = &value;
    entry.item_count = 1;
    if (check_entry(d, &entry, &e) < 0) {
        convert_draft_note(d, from, "left out: %s", e.text);
        return false;
    }
    array_grow_in(d->arena, old->items, &old->item_room, old->item_count + 1);
    old->items[old->item_count++] = value;
    return true;
}

bool convert_draft_pair(struct convert_draft *d, struct convert_from from, const char *table,
                        const char *name, const char *value) {
    bool full = d->entry_count >= CONVERT_ENTRIES_MAX; // put() reports that
    size_t count = 0, most = full ? 0 : row_of(table).items_max;
    for (size_t i = 0; i < d->entry_count; i++)
        count += strcmp(d->entries[i].table, table) == 0;
    if (most && count >= most && !find(d, table, name)) {
        convert_draft_note(d, from, "left out: the maximum is %zu", most);
        return false;
    }
    return put(d, (struct convert_entry){.from = from,
                                         .table = table,
                                         .key = arena_strdup(d->arena, name),
                                         .value = value_of(d->arena, OPTION_STRING, value)});
}

bool convert_draft_input(struct convert_draft *d, struct convert_from from, const char *name,
                         const char *field, const char *text) {
    return put(d, (struct convert_entry){.from = from,
                                         .table = arena_printf(d->arena, "inputs.%s", name),
                                         .key = field,
                                         .value = value_of(d->arena, OPTION_STRING, text)});
}

bool convert_draft_has(const struct convert_draft *d, const char *key) {
    struct arena scratch = {0};
    const char *dot = strrchr(key, '.');
    must(dot != NULL);
    bool has = find(d, arena_strndup(&scratch, key, (size_t)(dot - key)), dot + 1) != NULL;
    arena_fini(&scratch);
    return has;
}

// ---- writing ------------------------------------------------------------------------------------

// "# line 3: --nodes=2"
static void put_comment(struct strbuf *out, const struct convert_from *from) {
    size_t len = strlen(from->name), shown = 0;
    while (shown < len) {
        size_t n = str_utf8((const unsigned char *)from->name + shown, len - shown);
        if (shown + n > COMMENT_BYTES_MAX || n == 0)
            break;
        shown += n;
    }
    strbuf_adds(out, "# ");
    if (from->line)
        strbuf_addf(out, "line %d: ", from->line);
    strbuf_addf(out, "%.*s%s", (int)shown, from->name, shown < len ? "…" : "");
}

// The fields and lines of the file that are no settings, as comments.
static void put_notes(struct strbuf *out, const struct convert_draft *d) {
    if (d->note_count)
        strbuf_adds(out, "#\n# Without an equivalent, or with a remark:\n");
    for (size_t i = 0; i < d->note_count; i++) {
        put_comment(out, &d->notes[i].from);
        strbuf_addf(out, ": %s\n", d->notes[i].text);
    }
    if (d->notes_left)
        strbuf_addf(out, "# %zu more fields have no equivalent\n", d->notes_left);
    if (d->needless_count)
        strbuf_adds(out, "#\n# Not needed here:\n");
    for (size_t i = 0; i < d->needless_count; i++) {
        put_comment(out, &d->needless[i]);
        strbuf_adds(out, "\n");
    }
}

static void put_table(struct strbuf *out, const struct convert_draft *d, const char *table) {
    put_header(out, table);
    for (size_t i = 0; i < d->entry_count; i++)
        if (strcmp(d->entries[i].table, table) == 0) {
            put_comment(out, &d->entries[i].from);
            strbuf_adds(out, "\n");
            put_entry(out, &d->entries[i]);
        }
}

static bool is_first(const struct convert_draft *d, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (strcmp(d->entries[k].table, d->entries[i].table) == 0)
            return false;
    return true;
}

int convert_draft_write(const struct convert_draft *d, struct strbuf *out, struct err *e) {
    struct strbuf text = {0};
    const char *name = str_printable(d->arena, d->file, strlen(d->file));
    strbuf_addf(&text,
                "# Made by `dtctl import %s` from %s.\n"
                "# The comment above a setting says which field it comes from.\n",
                d->tool, name);
    put_notes(&text, d);
    for (size_t rank = 0; rank <= sizeof ORDER / sizeof ORDER[0]; rank++)
        for (size_t i = 0; i < d->entry_count; i++)
            if (order_of(d->entries[i].table) == rank && is_first(d, i))
                put_table(&text, d, d->entries[i].table);
    int result = check_text(&text, e);
    if (result == 0)
        strbuf_add(out, text.data, text.len);
    else
        e->code = ERR_FAILED;
    strbuf_fini(&text);
    return result < 0 ? err_wrap(e, "the settings contradict each other") : 0;
}
