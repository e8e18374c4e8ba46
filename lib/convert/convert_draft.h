// SPDX-License-Identifier: Apache-2.0
// The configuration that an import makes: settings with their origins, and the fields of the
// foreign file that have no equivalent.
//
//     struct convert_draft d = {.arena = &arena, .tool = "sbatch", .file = "job.sbatch"};
//     convert_draft_set(&d, (struct convert_from){7, "--nodes"}, "cluster.nodes", "2");
//     convert_draft_note(&d, (struct convert_from){8, "--mem"}, "nodes have all their memory");
//     if (convert_draft_write(&d, &text, e) < 0) …
//
// Every setting passes the reader of dtctl.toml when it is added. A value that this reader refuses
// becomes a note with the reader's reason, so that the configuration is always valid. The arena
// owns all texts.
#ifndef CONVERT_CONVERT_DRAFT_H
#define CONVERT_CONVERT_DRAFT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    CONVERT_ENTRIES_MAX = 1000,       // settings
    CONVERT_ITEMS_MAX = 1000,         // of one list
    CONVERT_NOTES_MAX = 500,          // described; further ones are counted
    CONVERT_TEXT_BYTES_MAX = 1 << 20, // of the foreign file
};

// The place of a field in the foreign file.
struct convert_from {
    int line;         // from 1; 0: the whole file
    const char *name; // "--nodes", "ResourceConfig.InstanceCount"
};

struct convert_note {
    struct convert_from from;
    const char *text;
};

struct convert_entry {
    struct convert_from from;
    const char *table, *key; // "inputs.train", "source"
    const char *value;       // TOML; NULL: a list
    const char **items;      // of a list: each as TOML
    size_t item_count, item_room;
};

struct convert_draft {
    struct arena *arena;
    const char *tool, *file; // for the head of the configuration
    struct convert_entry *entries;
    size_t entry_count, entry_room;
    struct convert_note *notes;
    size_t note_count, note_room;
    size_t notes_left;             // above CONVERT_NOTES_MAX
    struct convert_from *needless; // fields that need nothing here, CONVERT_NOTES_MAX at most
    size_t needless_count, needless_room;
};

// A single value in the syntax of a flag: "2", "8h", "true". A later value replaces an earlier one.
// Returns false after a refusal, which has become a note.
bool convert_draft_set(struct convert_draft *d, struct convert_from from, const char *key,
                       const char *text);
// One more item of a list.
bool convert_draft_add(struct convert_draft *d, struct convert_from from, const char *key,
                       const char *item);
// One name of a table of texts: env, metrics, hyperparameters, aws.tags.
bool convert_draft_pair(struct convert_draft *d, struct convert_from from, const char *table,
                        const char *name, const char *value);
// One field of [inputs.NAME]; "source" comes first.
bool convert_draft_input(struct convert_draft *d, struct convert_from from, const char *name,
                         const char *field, const char *text);
bool convert_draft_has(const struct convert_draft *d, const char *key);

void convert_draft_note(struct convert_draft *d, struct convert_from from, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Names a field that needs nothing here: the configuration lists it, without a remark.
void convert_draft_needless(struct convert_draft *d, struct convert_from from);

// The text of the newest note; "" without one.
const char *convert_draft_last_note(const struct convert_draft *d);

// Appends the configuration. Its head has the notes and the needless fields as comments.
int convert_draft_write(const struct convert_draft *d, struct strbuf *out, struct err *e);

#endif
