// SPDX-License-Identifier: Apache-2.0
// The text of a log file in lines. A worker draws a progress bar by returning to the beginning of
// its line (CR): each state of the bar is handed out as an update, and only the last one as a line.
#ifndef FOLLOW_LOG_LINES_H
#define FOLLOW_LOG_LINES_H

#include "follow/log_mirror.h"

enum { LOG_LINES_ROOM = MIRROR_LINE_BYTES_MAX + MIRROR_MARK_BYTES_MAX }; // of f->line

// Takes the next len bytes of the file, and hands out the lines and updates that they complete. An
// incomplete line stays in f->line; bytes of a line beyond MIRROR_LINE_BYTES_MAX are dropped,
// and counted.
void log_lines_take(struct mirror_file *f, const char *p, size_t len, mirror_line_cb *cb,
                    void *ctx);
// Hands out the newest state of a progress bar as far as it has arrived.
void log_lines_show(struct mirror_file *f, mirror_line_cb *cb, void *ctx);
// Hands out the incomplete last line at the end of the text.
void log_lines_flush(struct mirror_file *f, mirror_line_cb *cb, void *ctx);

#endif
