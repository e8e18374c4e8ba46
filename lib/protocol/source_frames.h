// SPDX-License-Identifier: Apache-2.0
// Frames between `dtdata source`, on a node, and the dtctl that follows the run and has the files
// of a streamed input. Integers are little-endian.
//
// To dtctl, SOURCE_ASK_BYTES each: u32 slot, with SOURCE_ASK_URGENT where a reader waits; u64 file,
// u64 from, u64 len.
// From dtctl, SOURCE_HEAD_BYTES and then len bytes: u8 kind, u32 slot, u32 len. They are of the
// range, in order; or the text of a failure, after which the slot gets no more.
//
// The input of `dtdata serve` and of `dtdata renew` begins with SOURCE_CLOCK_LINE, which has the
// time of dtctl's clock at the moment of sending: addresses end by that clock.
#ifndef PROTOCOL_SOURCE_FRAMES_H
#define PROTOCOL_SOURCE_FRAMES_H

#include <stdint.h>

enum {
    SOURCE_ASK_BYTES = 28,
    SOURCE_ASK_URGENT = 1 << 30,
    SOURCE_HEAD_BYTES = 9,
    SOURCE_ANSWER_BYTES_MAX = 256 << 10, // of one frame, without its head
    // Addresses that last less longer are the same ones, for dtctl and for the node.
    SOURCE_RENEW_GAIN_MS = 30 * 1000,
};

#define SOURCE_CLOCK_LINE "{\"now\":                    }\n"
enum { SOURCE_CLOCK_KEY = 7, SOURCE_CLOCK_DIGITS = 20 }; // the bytes before the time, and its own
// Sets the time in such a line.
void source_clock_set(char *line, int64_t wall_ms);

enum source_answer {
    SOURCE_BYTES = 1,
    SOURCE_CHANGED, // the file is not what was listed
    SOURCE_FAILED,
};

#endif
