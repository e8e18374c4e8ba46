// SPDX-License-Identifier: Apache-2.0
// The operator's exact copy of one node's log and event files of a run, below
// `runs/<run>/nodes/<node>/`, under the names they have on the node.
//
// The size of a local file is the offset to continue from, so a dtctl that was killed neither loses
// nor repeats bytes. Several programs may follow at once: a program does not write bytes again that
// another has written, it only hands them out. Lines are assembled across records and across
// restarts. The files of a replacement machine begin behind those of the machine before it; file
// `.begin` holds the length of the earlier part of each file.
#ifndef FOLLOW_LOG_MIRROR_H
#define FOLLOW_LOG_MIRROR_H

#include "base/arena.h"
#include "base/name_map.h"
#include "base/str.h"
#include "protocol/follow_record.h"

#include <stdbool.h>

enum {
    MIRROR_LINE_BYTES_MAX = 64 * 1024,
    MIRROR_MARK_BYTES_MAX = 48, // behind a line that is cut
    MIRROR_FILES_MAX = 65536,
    MIRROR_OPEN_FILES_MAX = 32, // of all mirrors of one follower
};

// The kinds of text handed out of a file. Workers draw progress bars by returning to the beginning
// of the line (CR). Each state is an update; only the last one, ended by a newline, is a line.
enum mirror_part {
    MIRROR_LINE,
    MIRROR_UPDATE,  // a later state of the same line follows
    MIRROR_PARTIAL, // the newest update as far as it has arrived
};

struct mirror_file {
    const char *name, *path;
    struct follow_file file;
    uint64_t size;         // bytes on this side
    uint64_t begin;        // of these, bytes of earlier machines
    uint64_t at;           // where the text that is handed out ends
    struct strbuf line;    // beginning of an incomplete line
    uint64_t dropped;      // bytes of that line beyond MIRROR_LINE_BYTES_MAX
    bool returned;         // a carriage return follows `line`
    bool is_bar;           // the line had a carriage return
    enum mirror_part part; // kind of the text handed out
    bool ours; // this program, not another one, wrote the end of the line that is handed out
    int fd;    // for appending; -1: closed
    struct mirror_file *next;
};

// The files that were written last stay open, so a record costs no search for its path. One more
// file closes the one that was opened first.
struct mirror_open_files {
    struct mirror_file *file[MIRROR_OPEN_FILES_MAX]; // NULL: free
    size_t next;
};

struct mirror {
    struct arena *arena;
    const char *dir;
    struct mirror_file *files;
    struct name_map by_name; // the same files, by name
    size_t count;
    struct mirror_open_files *open_files; // shared with the mirrors of other nodes
};

// One complete line without its newline, or an update of a line: see f->part. Of a longer line
// MIRROR_LINE_BYTES_MAX bytes, and, from a worker, a mark with the number of the others.
typedef void mirror_line_cb(void *ctx, const struct mirror_file *f, const char *line, size_t len);

// Finds the files that an earlier dtctl wrote. open_files begins as zeroes and outlives the mirror.
int log_mirror_open(struct mirror *m, struct mirror_open_files *open_files, struct arena *a,
                    const char *dir, struct err *e);
void log_mirror_close(struct mirror *m);
// From now on the node is a replacement machine without any of the files. An incomplete line of the
// old machine ends here.
int log_mirror_begin(struct mirror *m, mirror_line_cb *cb, void *ctx, struct err *e);
// {"events.jsonl": 123, …}: the input of `follow --from`.
void log_mirror_offsets(const struct mirror *m, struct strbuf *out);
// Appends the new bytes of the record, then hands out the lines that they complete. Bytes that are
// already here are skipped; a gap is ERR_FORMAT.
int log_mirror_write(struct mirror *m, const struct follow_record *r, mirror_line_cb *cb, void *ctx,
                     struct err *e);
// Hands out the incomplete last lines at the end of the stream.
void log_mirror_flush(struct mirror *m, mirror_line_cb *cb, void *ctx);
// Hands out every complete line that is here, of all files of one kind; with to_end also the
// incomplete last lines, because nothing will be added to these files.
int log_mirror_replay(struct mirror *m, enum follow_file_kind kind, bool to_end, mirror_line_cb *cb,
                      void *ctx, struct err *e);

#endif
