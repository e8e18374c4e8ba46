// SPDX-License-Identifier: Apache-2.0
// Looks through the list of an input.
#include "run/inputs/input_warn.h"

#include "base/log.h"
#include "content/extract.h"

#include <string.h>

struct found {
    const struct manifest_entry *first; // NULL: none
    size_t count;
};

static void add(struct found *f, const struct manifest_entry *n) {
    f->first = f->first ? f->first : n;
    f->count++;
}

// A path or a target in one line of the log.
static const char *shown(struct arena *a, const char *text) {
    return str_printable(a, text, strlen(text));
}

static void warn_links(struct arena *a, const struct run_start_input *in, const char *what,
                       const struct found *f) {
    if (f->count)
        log_warn(what, "input=%s links=%zu first=\"%s\" target=\"%s\"", in->name, f->count,
                 shown(a, f->first->path), shown(a, f->first->target));
}

void input_warn(const struct run_start_input *in) {
    const struct manifest *m = in->manifest;
    struct found out = {0}, apart = {0}, archives = {0}, files = {0};
    struct arena a = {0};
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *n = &m->entries[i];
        if (n->kind == MANIFEST_LINK)
            add(manifest_link_stays(n->path, n->target) ? &apart : &out, n);
        else if (n->kind == MANIFEST_FILE)
            add(extract_is_archive(n->path) ? &archives : &files, n);
    }
    warn_links(&a, in,
               "links lead out of an input; nodes get the links, and not the files that they name",
               &out);
    if (config_input_is_sharded(in->config))
        warn_links(&a, in, "a link of a share may name a file that another node has", &apart);
    if (config_input_is_extracted(in->config) && in->is_folder && !archives.count && files.count)
        log_warn("an input has no .tar or .tar.zst file, so deliver = extract unpacks nothing",
                 "input=%s files=%zu first=\"%s\"", in->name, files.count,
                 shown(&a, files.first->path));
    arena_fini(&a);
}
