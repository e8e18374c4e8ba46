// SPDX-License-Identifier: Apache-2.0
// Ignore patterns of pushed folders: a subset of gitignore(5). Pure.
//
// One pattern per line; "#" begins a comment; "\#" and "\!" escape these characters; trailing
// spaces are dropped. "!" includes a path again. A trailing "/" matches folders only. A "/"
// elsewhere anchors the pattern at the folder of its file; otherwise it matches at any depth. "*"
// and "?" do not match "/"; "**" does ("**/x", "x/**", "a/**/b"); "[a-z]" and "[!a-z]" are classes.
// The last matching pattern decides. As in git, nothing below an ignored folder can be included
// again.
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
    const char *base; // folder of the pattern, "" or "a/b"
    const char *text; // without '!', leading and trailing '/'
    bool negated, folder_only, tied;
};

struct ignore {
    struct ignore_pattern *patterns;
    size_t count, room;
};

// Adds the lines of a file in folder `base` (relative, "" for the top). Memory is from the arena.
// The only error is ERR_LIMIT.
int ignore_add(struct arena *a, struct ignore *ig, const char *base, const char *text, size_t len,
               struct err *e);
// path is relative to the top. Parents must be matched first.
bool ignore_match(const struct ignore *ig, const char *path, bool is_folder);
// Matches one pattern against a relative path.
bool ignore_glob(const char *pattern, const char *path);

#endif
