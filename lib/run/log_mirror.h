// SPDX-License-Identifier: Apache-2.0
// The operator's exact copy of one node's log and event files of a run, below
// `runs/<run>/nodes/<node>/`, under the names they have on the node.
//
// The size of each local file is the offset to go on from, so a dtctl that was killed loses and
// repeats nothing. Several programs may follow at once: bytes that another one has written are only
// handed out, so each is kept once. Lines are put together across records and across restarts.
// Where another machine has taken the node's place, its files begin behind what the last one's had:
// file `.begin` has how much of each that is.
#ifndef RUN_LOG_MIRROR_H
#define RUN_LOG_MIRROR_H

#include "base/arena.h"
#include "base/names.h"
#include "base/str.h"
#include "protocol/follow_stream.h"

#include <stdbool.h>

enum { MIRROR_LINE_BYTES_MAX = 64 * 1024, MIRROR_FILES_MAX = 65536 };

// What is handed out of a file. Workers draw progress bars by going back to the line's beginning
// (CR): each state is an update, and only the last one, ended by a newline, is a line.
enum mirror_part {
    MIRROR_LINE,
    MIRROR_UPDATE,  // something else takes its place now
    MIRROR_PARTIAL, // the newest update as far as it is here
};

struct mirror_file {
    const char *name, *path;
    struct follow_file file;
    uint64_t size;         // bytes that are here
    uint64_t begin;        // of them, those of earlier machines
    struct strbuf line;    // beginning of a line that is not complete
    bool returned;         // a carriage return follows what `line` has
    bool is_bar;           // the line has had a carriage return
    enum mirror_part part; // of what is handed out
    bool ours;             // this program kept the end of the line that is handed out, no other one
    struct mirror_file *next;
};

struct mirror {
    struct arena *arena;
    const char *dir;
    struct mirror_file *files;
    struct names by_name; // the same
    size_t count;
};

// One complete line without its newline (or MIRROR_LINE_BYTES_MAX bytes of a longer one), or an
// update of one: see f->part.
typedef void mirror_line_cb(void *ctx, const struct mirror_file *f, const char *line, size_t len);

// Finds the files that an earlier dtctl left.
int mirror_open(struct mirror *m, struct arena *a, const char *dir, struct err *e);
void mirror_close(struct mirror *m);
// The node is another machine from now on, which has none of the files. A line that the last one
// did not complete ends here.
int mirror_begin(struct mirror *m, mirror_line_cb *cb, void *ctx, struct err *e);
// {"events.jsonl": 123, …}: what `follow --from` takes.
void mirror_offsets(const struct mirror *m, struct strbuf *out);
// Appends what is new in the record, then hands out the lines that it completed. Bytes that are
// here already are passed over; a gap is ERR_FORMAT.
int mirror_write(struct mirror *m, const struct follow_record *r, mirror_line_cb *cb, void *ctx,
                 struct err *e);
// Hands out the incomplete last lines, when nothing more will come.
void mirror_flush(struct mirror *m, mirror_line_cb *cb, void *ctx);
// Hands out every complete line of the files of one kind that are here.
int mirror_replay(struct mirror *m, enum follow_file_kind kind, mirror_line_cb *cb, void *ctx,
                  struct err *e);

#endif
