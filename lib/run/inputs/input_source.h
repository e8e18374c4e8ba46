// SPDX-License-Identifier: Apache-2.0
// Streamed inputs of this computer: while a run is followed, dtctl answers the requests of its
// nodes for ranges of files (protocol/source_frames.h).
//
//     input_source_add(&list, entry) for every file, input_source_save(…);  // when the run is made
//     input_source_open(&s, &follow);  // nothing where the run has no such files
//     … follow_wait …
//     input_source_close(&s);
//
// runs/<run>/sources has the files, so that any later dtctl here can serve them. A file that is not
// as it was listed is refused. A connection that was cut is made again.
#ifndef RUN_INPUT_SOURCE_H
#define RUN_INPUT_SOURCE_H

#include "content/manifest.h"
#include "follow/follow.h"

enum {
    INPUT_SOURCE_FILES_MAX = 200000, // of a run
    INPUT_SOURCE_LIST_BYTES_MAX = 256 << 20,
    INPUT_SOURCE_ASKS_MAX = 16, // of a node at a time, as dtdata asks
    INPUT_SOURCE_RETRY_MS = 500,
    INPUT_SOURCE_SHUT_MAX = 20, // tries in a row without a byte, until the user is warned
};

struct input_source_file {
    const char *path;
    int64_t size, mtime_ns;
};

struct input_source_ask {
    bool used, urgent; // urgent: a reader waits
    uint32_t slot;
    uint64_t file, at, end;
    uint64_t number; // of its kind, urgent or not; the lowest is answered next
    int fd;          // -1: not open yet
};

struct input_source {
    struct follow *follow; // NULL: closed
    struct arena arena;
    struct input_source_file *files;
    size_t count;
    struct input_source_node {
        struct input_source *all;
        struct follow_node *node;
        struct transport_run *run; // NULL: not connected
        struct timer next;
        struct strbuf in, out;
        size_t out_sent;
        struct input_source_ask asks[INPUT_SOURCE_ASKS_MAX];
        uint64_t number; // of the newest request
        int shut;        // tries in a row without a byte
        bool warned, came;
        struct strbuf err_text;
    } * nodes;
};

// Adds a file to the list and returns its number. ERR_LIMIT.
int64_t input_source_add(struct strbuf *list, size_t *count, const struct manifest_entry *entry,
                         struct err *e);
int input_source_save(const struct context *s, const struct run *run, const struct strbuf *list,
                      struct err *e);
bool input_source_is_here(const struct context *s, const struct run *run);

int input_source_open(struct input_source *s, struct follow *f, struct err *e);
void input_source_close(struct input_source *s);

#endif
