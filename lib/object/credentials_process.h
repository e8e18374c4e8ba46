// SPDX-License-Identifier: Apache-2.0
// The credential_process of a profile: a command line that is split into words and started without
// a shell, so no variable, pattern or pipe in it means anything.
#ifndef OBJECT_CREDENTIALS_PROCESS_H
#define OBJECT_CREDENTIALS_PROCESS_H

#include "object/credentials_answer.h"

enum {
    CREDENTIALS_PROCESS_WORDS_MAX = 64,
    CREDENTIALS_PROCESS_LINE_BYTES_MAX = 8192,
    CREDENTIALS_PROCESS_MS_MAX = 120 * 1000,
};

// Pure: words between blanks; '…' is taken as it is; in "…" a backslash stands before " and \;
// elsewhere it stands before any character. argv has room for CREDENTIALS_PROCESS_WORDS_MAX + 1 and
// ends with NULL. ERR_CONFIG.
int credentials_process_split(struct arena *a, const char *line, const char **argv, struct err *e);

// Runs it with the environment. ERR_AUTH has the program's name and the first line of its standard
// error.
int credentials_process_run(struct arena *a, const char *line, char *const *env,
                            struct aws_credentials *out, struct err *e);

#endif
