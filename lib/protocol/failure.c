// SPDX-License-Identifier: Apache-2.0
// Shortens the texts of a failure.
#include "protocol/failure.h"

#include <stdbool.h>
#include <string.h>

static size_t cut(struct arena *a, const char **text, size_t over, bool keeps_end) {
    size_t len = strlen(*text), gone = over < len ? over : len;
    *text = keeps_end ? *text + gone : arena_strndup(a, *text, len - gone);
    return over - gone;
}

void failure_fit(struct arena *a, struct worker_failure *f, size_t most) {
    size_t len = strlen(f->node) + strlen(f->host) + strlen(f->error_file) + strlen(f->message) +
                 strlen(f->tail) + strlen(f->evidence);
    if (len <= most)
        return;
    size_t over = cut(a, &f->tail, len - most, true);
    over = cut(a, &f->message, over, true);
    over = cut(a, &f->evidence, over, false);
    over = cut(a, &f->error_file, over, false);
    over = cut(a, &f->host, over, false);
    cut(a, &f->node, over, false);
}
