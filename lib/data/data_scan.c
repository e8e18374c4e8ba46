// SPDX-License-Identifier: Apache-2.0
// Opens a source, reads its samples in order, and makes the folder for a result.
#include "data/data_scan.h"

#include "sys/file.h"
#include "sys/file_entries.h"

#include <pthread.h>
#include <stdlib.h>

int data_scan_open(struct data_scan *t, const struct dataset_config *c, struct err *e) {
    struct dataset_store *store = t->store = heap_alloc(sizeof *t->store);
    pthread_mutex_init(&store->bad.lock, NULL);
    store->config = *c;
    store->config.source = arena_strdup(&store->source.arena, c->source);
    return dataset_open_kind(store, e);
}

void data_scan_close(struct data_scan *t) {
    if (!t->store)
        return;
    source_close(&t->store->source);
    pthread_mutex_destroy(&t->store->bad.lock);
    free(t->store);
    t->store = NULL;
}

int data_scan_each(struct data_scan *t, source_each *each, void *ctx, struct err *e) {
    struct source *s = &t->store->source;
    const struct dataset_config *c = &t->store->config;
    struct source_reader reader = {0};
    int bad = 0;
    if (s->kind->is_sequential && s->kind->is_sequential(s))
        return s->kind->sequential(s, each, ctx, e); // a source is of one kind of archives
    for (uint32_t i = 0; i < s->samples && bad >= 0; i++) {
        struct sample sample = {0};
        if (i % DATA_SCAN_PROGRESS_EVERY == 0 && c->progress)
            bad = c->progress(c->progress_ctx, i, s->samples, e);
        if (bad == 0 && s->kind->read(s, i, &reader, &sample, e) < 0)
            bad = dataset_note_bad(t->store, i, false, e);
        else if (bad == 0)
            bad = each(ctx, i, &sample, e);
    }
    source_reader_close(&reader);
    return bad < 0 ? -1 : 0;
}

int data_scan_folder(const char *dir, struct err *e) {
    if (file_make_dirs(dir, 0755, e) < 0)
        return -1;
    struct file_entries in = file_entries_open(dir);
    bool used = file_entries_next(&in);
    if (file_entries_close(&in, 0, e) < 0)
        return -1;
    return used ? err_set(e, ERR_EXISTS, "'%s' is not empty (try: another folder)", dir) : 0;
}
