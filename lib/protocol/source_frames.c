// SPDX-License-Identifier: Apache-2.0
// Parts of the frames by which a node reads files of dtctl's computer.
#include "protocol/source_frames.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

void source_clock_set(char *line, int64_t wall_ms) {
    char digits[SOURCE_CLOCK_DIGITS + 1];
    must(strncmp(line, SOURCE_CLOCK_LINE, SOURCE_CLOCK_KEY) == 0);
    snprintf(digits, sizeof digits, "%*lld", SOURCE_CLOCK_DIGITS, (long long)wall_ms);
    memcpy(line + SOURCE_CLOCK_KEY, digits, SOURCE_CLOCK_DIGITS);
}
