// SPDX-License-Identifier: Apache-2.0
// The table of commands, and the tables derived from it.
#include "command.h"

#include "build_info.h"

#include <string.h>

#define POINTER(name) &cmd_##name,
const struct command *const commands[] = {COMMANDS(POINTER) NULL};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] - 1 };

#define VERB(name) &cmd_##name.verb,
static const struct render_verb *const VERBS[] = {COMMANDS(VERB) NULL};

static const char *topics[COMMAND_TOPICS_MAX + 1];

const struct render_program command_program = {
    .name = "dtctl",
    .summary = "distributed training on bare instances, listed hosts, or this computer",
    .version = DTCTL_VERSION,
    .synopsis = "[FLAGS] COMMAND [ARGUMENTS]",
    .text = "dtctl turns hosts that it can reach over SSH, or just this computer, into a cluster "
            "for distributed training. It brings its own agent and trainer; nothing has to be "
            "installed on a node before.",
    .verbs = VERBS,
    .topics = topics,
};

static const char TOPIC_BEGIN[] = "docs/", TOPIC_END[] = ".md";

void command_topics_find(struct arena *a) {
    const struct embed_file *file;
    size_t count = 0;
    for (size_t i = 0; count < COMMAND_TOPICS_MAX && (file = embedded_at(i)); i++)
        if (str_starts(file->name, TOPIC_BEGIN) && str_ends(file->name, TOPIC_END))
            topics[count++] =
                arena_strndup(a, file->name + strlen(TOPIC_BEGIN),
                              strlen(file->name) - strlen(TOPIC_BEGIN) - strlen(TOPIC_END));
}

const struct embed_file *command_topic(struct arena *a, const char *name) {
    return embedded_find(arena_printf(a, "%s%s%s", TOPIC_BEGIN, name, TOPIC_END));
}

const struct command *command_find(const char *name) {
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->verb.name, name) == 0)
            return commands[i];
    return NULL;
}

const char *const *command_names(void) {
    static const char *names[COMMAND_COUNT + 1];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i]->verb.name;
    return names;
}

// Verbs of other tools, and ours for the same. The nearest spelling would mislead: 'up' for cp.
static const struct {
    const char *ours, *theirs;
} OTHER_WORDS[] = {
    {"train", " launch start submit sbatch torchrun "},
    {"logs -f", " attach tail follow "},
    {"ps", " ls list queue jobs squeue runs "},
    {"stop", " cancel kill scancel abort "},
    {"down", " destroy delete rm terminate teardown "},
    {"up", " apply create provision "},
    {"push", " cp scp rsync copy upload put send sync "},
    {"fetch", " get pull download results collect "},
    {"ssh", " shell login connect "},
    {"exec", " srun clush pdsh pssh "},
    {"status", " nodes info sinfo show "},
};

const char *command_meant(struct arena *a, const char *word) {
    const char *key = arena_printf(a, " %s ", word);
    for (size_t i = 0; i < sizeof OTHER_WORDS / sizeof OTHER_WORDS[0]; i++)
        if (strstr(OTHER_WORDS[i].theirs, key))
            return arena_printf(a, " (did you mean '%s'?)", OTHER_WORDS[i].ours);
    return cli_nearest(a, word, command_names());
}

const char *command_line(struct arena *a, const struct cli_rest *rest) {
    const char *const *words = rest->command_count ? rest->command : rest->args;
    size_t count = rest->command_count ? rest->command_count : rest->count;
    struct strbuf line = {0};
    if (count == 1)
        strbuf_adds(&line, words[0]);
    for (size_t i = 0; count > 1 && i < count; i++)
        strbuf_addf(&line, "%s%s", i ? " " : "", str_shell_quote(a, words[i]));
    char *copy = arena_strdup(a, strbuf_cstr(&line));
    strbuf_fini(&line);
    return copy;
}

void command_all_options(struct option_set *set, struct arena *a) {
    for (size_t i = 0; commands[i]; i++) {
        if (!commands[i]->rows)
            continue;
        void *flags = arena_alloc(a, commands[i]->flags_bytes, 16, 1);
        option_set_add(set, commands[i]->rows, flags);
    }
}
