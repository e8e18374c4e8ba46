// SPDX-License-Identifier: Apache-2.0
// doc_tables NAME: prints one table of README.md or docs/ as Markdown, from the tables that the
// programs use.
//
//     doc_tables commands | flags | errors | json | notes | events | states | verbs | dtrun |
//     trainer | models | fields | recipes | election | rendezvous | timings
//     doc_tables keys TABLE…
//     doc_tables import FORMAT
//
// `keys` takes the tables of dtctl.toml. docs/tables puts the output into the documents.
#include "agent/agent.h"
#include "base/err.h"
#include "cmd/dtctl/command.h"
#include "conf/render_row.h"
#include "conf/train_model.h"
#include "convert/convert.h"
#include "convert/convert_script.h"
#include "launch/launch.h"
#include "protocol/node_protocol.h"
#include "rendezvous/election_impl.h"
#include "rendezvous/rendezvous_impl.h"
#include "run/monitor.h"

#include <stdio.h>
#include <string.h>

// A cell may hold no '|' of its own, and '<' would begin HTML.
static void cell(const char *text) {
    bool code = false;
    for (; *text; text++) {
        code ^= *text == '`';
        if (*text == '|')
            fputs("\\|", stdout);
        else if (*text == '<' && !code)
            fputs("&lt;", stdout);
        else
            putchar(*text);
    }
}

// "| `flag` | …": the words between backquotes as they are.
static void quoted(const char *text) {
    if (!*text)
        return;
    putchar('`');
    for (; *text; text++)
        fputs(*text == '|' ? "\\|" : (const char[]){*text, 0}, stdout);
    putchar('`');
}

static void head(const char *const *titles) {
    for (size_t i = 0; titles[i]; i++)
        printf("| %s ", titles[i]);
    fputs("|\n", stdout);
    for (size_t i = 0; titles[i]; i++)
        fputs("|---", stdout);
    fputs("|\n", stdout);
}

static const char *flag_of(struct arena *a, const struct option_row *r) {
    const char *flag = render_flag(a, r);
    return flag + strspn(flag, " ");
}

static int print_commands(void) {
    head((const char *const[]){"command", "what it does", NULL});
    for (size_t i = 0; commands[i]; i++) {
        const struct render_verb *v = &commands[i]->verb;
        printf("| `%s%s", v->name, v->args ? " " : "");
        cell(v->args ? v->args : "");
        fputs("` | ", stdout);
        cell(v->summary);
        fputs(" |\n", stdout);
    }
    return 0;
}

// The flags of all commands, each with who takes it.
static int print_flags(struct arena *a) {
    struct config c;
    config_open(&c, a, "dtctl", NULL);
    command_all_options(&c.set, a);
    head((const char *const[]){"flag", "of", "key", "default", "meaning", NULL});
    for (struct render_each x = {0}; render_next(&x, &c.set);) {
        const struct option_row *r = x.row;
        if (!r->flag || (r->marks & OPTION_HIDDEN))
            continue;
        fputs("| ", stdout);
        quoted(flag_of(a, r));
        printf(" | %s | ", render_is_global(r) ? "all" : r->verbs);
        quoted(r->key ? r->key : "");
        fputs(" | ", stdout);
        quoted(r->text && r->type != OPTION_BOOL ? r->text : "");
        fputs(" | ", stdout);
        cell(r->help);
        fputs(" |\n", stdout);
    }
    return 0;
}

static bool in_tables(const struct option_row *r, char **tables) {
    for (; *tables; tables++)
        if (str_eq(r->key, *tables) ||
            (str_starts(r->key, *tables) && r->key[strlen(*tables)] == '.'))
            return true;
    return false;
}

static void key_row(struct arena *a, const struct option_row *r, const char *key) {
    fputs("| ", stdout);
    quoted(key);
    fputs(" | ", stdout);
    quoted(r->type == OPTION_BOOL ? "true|false" : render_arg(a, r));
    fputs(" | ", stdout);
    quoted(r->text ? r->text : "");
    fputs(" | ", stdout);
    cell(r->help);
    fputs(" |\n", stdout);
}

static int print_keys(struct arena *a, char **tables) {
    struct config c;
    int found = 0;
    config_open(&c, a, "dtctl", NULL);
    head((const char *const[]){"key", "value", "default", "meaning", NULL});
    for (struct render_each x = {0}; render_next(&x, &c.set);) {
        const struct option_row *r = x.row;
        if (!r->key || (r->marks & OPTION_HIDDEN) || !in_tables(r, tables))
            continue;
        found++;
        const struct option_record *record = r->type == OPTION_RECORDS ? r->record : NULL;
        key_row(a, r,
                !record         ? r->key
                : record->named ? arena_printf(a, "[%s.NAME]", r->key)
                                : arena_printf(a, "[[%s]]", r->key));
        for (size_t i = record && record->named; record && i < record->count; i++)
            key_row(a, &record->rows[i],
                    arena_printf(a, "%s%s.%s", r->key, record->named ? ".NAME" : "",
                                 record->rows[i].key));
    }
    return found == 0;
}

static int print_trainer(struct arena *a) {
    head((const char *const[]){"key", "value", "default", "meaning", NULL});
    for (const struct option_table *const *t = train_tables; *t; t++)
        for (size_t i = 0; i < (*t)->count; i++)
            if ((*t)->rows[i].key && !((*t)->rows[i].marks & OPTION_HIDDEN))
                key_row(a, &(*t)->rows[i], (*t)->rows[i].key);
    return 0;
}

static int print_models(void) {
    head((const char *const[]){"model", "fields", "what it is", NULL});
    for (int i = 0; i < TRAIN_MODELS; i++)
        printf("| `%s` | `%s` | %s |\n", train_model_words[i],
               train_model_fields((enum train_model)i), train_model_text((enum train_model)i));
    return 0;
}

static int print_fields(void) {
    head((const char *const[]){"field", "meaning", NULL});
    for (int i = 0; i < TRAIN_FIELDS; i++)
        printf("| `%s` | %s |\n", train_field_words[i], train_field_text((enum train_field)i));
    return 0;
}

static int print_recipes(void) {
    const char *key, *text;
    head((const char *const[]){"recipe", "what it is", "settings", NULL});
    for (int i = TRAIN_RECIPE_NONE + 1; i < TRAIN_RECIPES; i++) {
        printf("| `%s` | %s | `", train_recipe_words[i], train_recipe_text((enum train_recipe)i));
        for (size_t s = 0; train_recipe_setting((enum train_recipe)i, s, &key, &text); s++)
            printf("%s%s=%s", s ? " " : "", key + strlen("train."), text);
        puts("` |");
    }
    return 0;
}

static int print_dtrun(struct arena *a) {
    head((const char *const[]){"flag", "default", "meaning", NULL});
    for (size_t i = 0; i < launch_table.count; i++) {
        const struct option_row *r = &launch_table.rows[i];
        if (!r->flag || (r->marks & OPTION_HIDDEN))
            continue;
        fputs("| ", stdout);
        quoted(flag_of(a, r));
        fputs(" | ", stdout);
        quoted(r->text && r->type != OPTION_BOOL ? r->text : "");
        fputs(" | ", stdout);
        cell(r->help);
        fputs(" |\n", stdout);
    }
    return 0;
}

static int print_errors(void) {
    head((const char *const[]){"status", "code", "meaning", NULL});
#define X(code, name, status, text) printf("| %d | `%s` | %s |\n", status, name, text);
    ERR_CODES(X)
#undef X
    return 0;
}

static int print_states(void) {
    head((const char *const[]){"state", "final", "meaning", NULL});
#define X(code, name, final, status, text)                                                         \
    printf("| `%s` | %s | %s |\n", name, final ? "yes" : "", text);
    NODE_STATES(X)
#undef X
    return 0;
}

static int print_verbs(void) {
    head((const char *const[]){"verb", "arguments", "what it does", NULL});
#define X(code, name, function, arguments, text)                                                   \
    printf("| `%s` | ", name);                                                                     \
    quoted(arguments);                                                                             \
    printf(" | %s |\n", text);
    NODE_VERBS(X)
#undef X
    return 0;
}

static int print_events(void) {
    head((const char *const[]){"kind", "written by", "members", "meaning", NULL});
#define X(code, name, writer, members, text)                                                       \
    printf("| `%s` | %s | %s | %s |\n", name, writer, members, text);
    NODE_EVENTS(X)
#undef X
    return 0;
}

static int print_json(void) {
    head((const char *const[]){"event", "of", "members", "meaning", NULL});
#define X(name, verbs, members, text)                                                              \
    printf("| `%s` | %s | %s | %s |\n", name, verbs, members, text);
    SCREEN_EVENTS(X)
#undef X
    return 0;
}

static int print_notes(void) {
    head((const char *const[]){"kind", "members", "meaning", NULL});
#define X(name, members, text) printf("| `%s` | %s | %s |\n", name, members, text);
    MONITOR_NOTES(X)
#undef X
    return 0;
}

static void transition(const char *from, const char *event, const char *action, const char *to) {
    printf("| %s | %s | %s | %s |\n", from, event, action, to);
}

static int print_election(void) {
    int count;
    const struct election_transition *t = election_transitions(&count);
    head((const char *const[]){"state", "event", "action", "next state", NULL});
    for (int i = 0; i < count; i++)
        transition(election_state_name(t[i].from), election_event_name(t[i].event), t[i].action,
                   election_state_name(t[i].to));
    return 0;
}

static int print_rendezvous(void) {
    int count;
    const struct rendezvous_transition *t = rendezvous_transitions(&count);
    head((const char *const[]){"phase", "event", "action", "next phase", NULL});
    for (int i = 0; i < count; i++)
        transition(rendezvous_phase_name(t[i].from), rendezvous_event_name(t[i].event), t[i].action,
                   rendezvous_phase_name(t[i].to));
    return 0;
}

static int print_timings(void) {
    static const struct {
        const char *name;
        int ms;
        const char *meaning;
    } rows[] = {
        {"beat_ms", AGENT_BEAT_MS, "between two heartbeats"},
        {"silent_ms_max", AGENT_SILENT_MS_MAX, "an agent that is not heard for longer is lost"},
        {"lease_ms", AGENT_LEASE_MS(AGENT_SILENT_MS_MAX, AGENT_BEAT_MS),
         "workers end so long after the last answered heartbeat was sent"},
        {"request_ms", AGENT_REQUEST_MS, "between two requests of an agent without a leader"},
        {"request_ms_max", AGENT_REQUEST_MS_MAX, "the same for an agent that may not stand"},
        {"stagger_ms", AGENT_STAGGER_MS, "each candidate waits so much longer than the one before"},
        {"election_timeout_ms", AGENT_ELECTION_TIMEOUT_MS,
         "for an agent that got a vote, to win; no other agent gets the vote before"},
        {"RENDEZVOUS_BLAME_MS", RENDEZVOUS_BLAME_MS,
         "a loss excuses a failure when the lost node was not heard so long after the failure"},
    };
    head((const char *const[]){"name", "ms", "meaning", NULL});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("| `%s` | %d | %s |\n", rows[i].name, rows[i].ms, rows[i].meaning);
    return 0;
}

static bool is_same(const struct convert_field *a, const struct convert_field *b) {
    return str_eq(a->key, b->key) && str_eq(a->text, b->text);
}

// Fields with one equivalent and one remark are one row.
static void import_row(const struct convert_field *all, const struct convert_field *f) {
    for (const struct convert_field *before = all; before < f; before++)
        if (is_same(before, f))
            return;
    const char *between = "| ";
    for (const struct convert_field *g = f; g->name; g++)
        if (is_same(f, g)) {
            fputs(between, stdout);
            quoted(g->name);
            between = ", ";
        }
    fputs(" | ", stdout);
    quoted(f->key ? f->key : "");
    fputs(*(f->key ? f->key : " ") ? " | " : "– | ", stdout);
    cell(f->text ? f->text : "");
    fputs(" |\n", stdout);
}

static int print_import(const char *name) {
    const struct convert_format *format = convert_find(name);
    const struct convert_field *fields = format                     ? format->fields
                                         : str_eq(name, "torchrun") ? convert_launch_torchrun
                                         : str_eq(name, "mpirun")   ? convert_launch_mpirun
                                                                    : NULL;
    head((const char *const[]){"field", "key", "how it is taken, or what to do instead", NULL});
    for (const struct convert_field *f = fields; f && f->name; f++)
        import_row(fields, f);
    return fields == NULL;
}

int main(int argc, char **argv) {
    struct arena a = {0};
    const char *name = argc > 1 ? argv[1] : "";
    int failed = str_eq(name, "commands")            ? print_commands()
                 : str_eq(name, "flags")             ? print_flags(&a)
                 : str_eq(name, "errors")            ? print_errors()
                 : str_eq(name, "states")            ? print_states()
                 : str_eq(name, "verbs")             ? print_verbs()
                 : str_eq(name, "events")            ? print_events()
                 : str_eq(name, "json")              ? print_json()
                 : str_eq(name, "notes")             ? print_notes()
                 : str_eq(name, "trainer")           ? print_trainer(&a)
                 : str_eq(name, "models")            ? print_models()
                 : str_eq(name, "fields")            ? print_fields()
                 : str_eq(name, "recipes")           ? print_recipes()
                 : str_eq(name, "dtrun")             ? print_dtrun(&a)
                 : str_eq(name, "election")          ? print_election()
                 : str_eq(name, "rendezvous")        ? print_rendezvous()
                 : str_eq(name, "timings")           ? print_timings()
                 : str_eq(name, "keys") && argv[2]   ? print_keys(&a, argv + 2)
                 : str_eq(name, "import") && argv[2] ? print_import(argv[2])
                                                     : -1;
    arena_fini(&a);
    if (failed || fflush(stdout) != 0)
        fprintf(stderr, "doc_tables: there is no table '%s'\n", name);
    return failed ? 1 : 0;
}
