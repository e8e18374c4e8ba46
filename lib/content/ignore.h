// SPDX-License-Identifier: Apache-2.0
// What is left out when a folder is pushed: a subset of gitignore(5). Pure.
//
// One pattern per line; "#" comments; "\#" and "\!" for names that begin so; trailing spaces are
// dropped. "!" takes a path back in. A "/" at the end matches folders only; one anywhere else ties
// the pattern to the folder of its file; without, it matches at any depth. "*" and "?" do not cross
// "/", "**" does ("**/x", "x/**", "a/**/b"), "[a-z]" and "[!a-z]" are classes. The last pattern
// that matches decides. As in git, nothing below a folder that is left out can be taken back in.
#ifndef CONTENT_IGNORE_H
#define CONTENT_IGNORE_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    IGNORE_PATTERNS_MAX = 10000,
    IGNORE_PATTERN_BYTES_MAX = 1024,
    IGNORE_FILE_BYTES_MAX = 1 << 20,
};

struct ignore_pattern {
    const char *base; // folder the pattern belongs to, "" or "a/b"
    const char *text; // without '!', leading and trailing '/'
    bool negated, folder_only, tied;
};

struct ignore {
    struct ignore_pattern *patterns;
    size_t count, room;
};

// Adds the lines of a file that lies in folder `base` (relative, "" for the top). Memory from the
// arena; ERR_LIMIT only.
int ignore_add(struct arena *a, struct ignore *ig, const char *base, const char *text, size_t len,
               struct err *e);
// path is relative to the top. Parents must have been asked before.
bool ignore_match(const struct ignore *ig, const char *path, bool is_folder);
// Glob of one pattern against a relative path.
bool ignore_glob(const char *pattern, const char *path);

#endif
