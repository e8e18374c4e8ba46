// SPDX-License-Identifier: Apache-2.0
// Objects and readers: what is on the disk, what may go, and what a reader gets.
#include "stream/stream_store_impl.h"

#include "base/array.h"
#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_folder(struct stream_store *s, const char *dir, struct err *e) {
    if (cas_open(&s->cas, dir, e) < 0 || cas_load(&s->cas, e) < 0)
        return -1;
    return known_open(&s->known, file_join(&s->arena, dir, "known"), e);
}

int stream_store_open(struct stream_store *s, const char *dir, struct err *e) {
    *s = (struct stream_store){.http = NULL};
    object_checks_open(&s->checks);
    return open_folder(s, dir, e);
}

void stream_store_close(struct stream_store *s) {
    struct err ignored;
    object_checks_close(&s->checks);
    for (size_t k = 0; k < OBJECT_CALLS_MAX; k++)
        object_range_close(&s->slots[k].range);
    http_close(s->http);
    for (size_t i = 0; i < s->count; i++) {
        stream_coming_close(s, &s->objects[i]);
        free(s->objects[i].why);
        free(s->objects[i].url);
    }
    if (s->cas.hashes)
        hash_cache_save(s->cas.hashes, &ignored);
    cas_close(&s->cas, false, &ignored);
    known_close(&s->known);
    free(s->objects);
    arena_fini(&s->arena);
    *s = (struct stream_store){.http = NULL};
}

struct stream_input *stream_store_input(struct stream_store *s, const char *name, struct err *e) {
    if (s->input_count == STREAM_INPUTS_MAX) {
        err_set(e, ERR_LIMIT, "there are more than %d streamed inputs", STREAM_INPUTS_MAX);
        return NULL;
    }
    struct stream_input *in = &s->inputs[s->input_count++];
    *in = (struct stream_input){.name = name, .first = s->count};
    return in;
}

int stream_store_add(struct stream_store *s, const struct object_want *want, const char *path,
                     uint64_t index, struct err *e) {
    struct stream_input *in = &s->inputs[s->input_count - 1];
    if (s->count == STREAM_OBJECTS_MAX)
        return err_set(e, ERR_LIMIT, "the streamed inputs have more than %d objects",
                       STREAM_OBJECTS_MAX);
    array_grow(s->objects, &s->room, s->count + 1);
    s->objects[s->count++] = (struct stream_object){.want = *want, .path = path, .index = index};
    in->count++;
    in->bytes += want->size;
    return 0;
}

// ---- use ----------------------------------------------------------------------------------------

static void list_remove(struct stream_object *o) {
    struct stream_input *in = o->input;
    if (!o->older && in->oldest != o)
        return; // not in the list
    *(o->older ? &o->older->newer : &in->oldest) = o->newer;
    *(o->newer ? &o->newer->older : &in->newest) = o->older;
    o->older = o->newer = NULL;
}

void stream_object_use(struct stream_object *o) {
    struct stream_input *in = o->input;
    list_remove(o);
    o->older = in->newest;
    *(in->newest ? &in->newest->newer : &in->oldest) = o;
    in->newest = o;
}

static void forget_unread(struct stream_object *o) {
    if (o->unread)
        o->input->unread -= o->want.size;
    o->unread = false;
}

// Its bytes are not on the disk any more.
void stream_object_gone(struct stream_object *o) {
    forget_unread(o);
    list_remove(o);
    if (!o->packed)
        o->input->kept -= o->want.size;
    if (o->state == STREAM_WHOLE)
        o->input->missing++;
    o->packed = false;
    o->state = STREAM_ABSENT;
}

static void evict(struct stream_store *s, struct stream_object *o) {
    if (o->state == STREAM_WHOLE) {
        (void)unlink(cas_object_path(&s->cas, o->hash));
    } else {
        cas_part_discard(&s->cas, stream_coming_part(o));
        stream_coming_close(s, o);
    }
    s->evicted += o->want.size;
    stream_object_gone(o);
}

// Objects that are read, or come, stay. Objects that were fetched ahead go for a reader alone.
static bool evict_oldest(struct stream_store *s, struct stream_input *in, bool for_reader) {
    for (struct stream_object *o = in->oldest; o; o = o->newer)
        if (o->readers == 0 && !o->packed && !stream_coming_busy(o) && (for_reader || !o->unread)) {
            evict(s, o);
            return true;
        }
    return false;
}

// 1: there is room for the object; 0: not now; -1: there is none. A reader's object is limited by
// the disk alone when all others are being read.
int stream_make_room(struct stream_store *s, struct stream_object *o, bool for_reader,
                     struct err *e) {
    struct stream_input *in = o->input;
    char need[STR_HUMAN_BYTES_MAX], has[STR_HUMAN_BYTES_MAX];
    uint64_t free_bytes;
    while (in->cache_max && in->kept + o->want.size > in->cache_max)
        if (!evict_oldest(s, in, for_reader)) {
            if (!for_reader)
                return 0;
            break;
        }
    for (;;) {
        if (file_disk_free(s->cas.dir, &free_bytes, e) < 0)
            return -1;
        if (s->to_come + o->want.size + STREAM_SPARE_BYTES <= free_bytes)
            return 1;
        if (evict_oldest(s, in, for_reader))
            continue;
        return for_reader
                   ? err_set(e, ERR_LIMIT, "the disk has %s free, and the object needs %s",
                             str_human_bytes(has, free_bytes), str_human_bytes(need, o->want.size))
                   : 0;
    }
}

void stream_object_fail(struct stream_store *s, struct stream_object *o, const struct err *e) {
    bool first = !o->why;
    forget_unread(o);
    if (first)
        o->why = heap_alloc(sizeof *o->why);
    *o->why = *e;
    err_wrap(o->why, "'%.300s'", o->want.name);
    if (first && s->on_failed)
        s->on_failed(s->ctx, o);
}

// ---- what is there ------------------------------------------------------------------------------

void stream_object_whole(struct stream_store *s, struct stream_object *o) {
    struct stream_input *in = o->input;
    o->state = STREAM_WHOLE;
    in->missing--;
    if (in->missing || in->reported_whole)
        return;
    in->reported_whole = true;
    if (s->on_whole)
        s->on_whole(s->ctx, in);
}

static bool is_there(struct stream_store *s, struct stream_object *o) {
    const struct object_want *want = &o->want;
    const unsigned char *hash = want->hashed    ? want->hash
                                : want->etag[0] ? known_find(&s->known, want->id)
                                                : NULL;
    if (want->size == 0) {
        hash_of(o->hash, "", 0);
        o->packed = true;
        return true;
    }
    if (!hash)
        return false;
    memcpy(o->hash, hash, HASH_BYTES);
    o->packed = want->size <= OBJECT_SMALL_BYTES_MAX && cas_has_small(&s->cas, hash, want->size);
    return o->packed || cas_has_object(&s->cas, hash, want->size);
}

int stream_store_scan(struct stream_store *s, struct err *e) {
    (void)e;
    for (size_t k = 0; k < s->input_count; k++) {
        struct stream_input *in = &s->inputs[k];
        in->missing = in->count;
        for (size_t i = in->first; i < in->first + in->count; i++) {
            struct stream_object *o = &s->objects[i];
            o->input = in;
            if (!is_there(s, o))
                continue;
            if (!o->packed) {
                in->kept += o->want.size;
                stream_object_use(o);
            }
            stream_object_whole(s, o);
            cas_forget_paths(&s->cas);
        }
    }
    return 0;
}

int stream_store_reopen(struct stream_store *s, const char *dir, struct err *e) {
    struct err ignored;
    cas_close(&s->cas, false, &ignored);
    known_close(&s->known);
    for (size_t k = 0; k < s->input_count; k++) {
        struct stream_input *in = &s->inputs[k];
        in->kept = 0;
        in->reported_whole = false;
        in->oldest = in->newest = NULL;
    }
    for (size_t i = 0; i < s->count; i++) {
        struct stream_object *o = &s->objects[i];
        o->state = STREAM_ABSENT;
        o->packed = false;
        o->older = o->newer = NULL;
    }
    return open_folder(s, dir, e) < 0 ? -1 : stream_store_scan(s, e);
}

// ---- readers ------------------------------------------------------------------------------------

void stream_reader_begin(struct stream_store *s, struct stream_reader *r, struct stream_object *o,
                         uint64_t from, uint64_t len) {
    struct stream_input *in = o->input;
    *r = (struct stream_reader){.object = o, .at = from, .end = from + len, .fd = -1};
    r->before = s->last;
    *(s->last ? &s->last->after : &s->first) = r;
    s->last = r;
    o->readers++;
    free(o->why);
    o->why = NULL;
    forget_unread(o);
    if (o->state != STREAM_ABSENT && !o->packed)
        stream_object_use(o);
    in->next = (size_t)(o - s->objects) - in->first;
}

void stream_reader_end(struct stream_store *s, struct stream_reader *r) {
    if (!r->object)
        return;
    *(r->before ? &r->before->after : &s->first) = r->after;
    *(r->after ? &r->after->before : &s->last) = r->before;
    r->object->readers--;
    for (size_t k = 0; r->asks && k < OBJECT_CALLS_MAX; k++)
        if (s->slots[k].reader == r)
            s->slots[k].reader = NULL;
    if (r->fd >= 0)
        close(r->fd);
    free(r->small);
    free(r->own);
    *r = (struct stream_reader){.fd = -1};
}

static bool has_own(const struct stream_reader *r) {
    return r->own && r->at >= r->own_from && r->at < r->own_end;
}

uint64_t stream_reader_ready(struct stream_store *s, struct stream_reader *r) {
    const struct stream_object *o = r->object;
    uint64_t n = 0, left = r->end - r->at;
    if (o->state == STREAM_WHOLE)
        n = left;
    else if (o->coming && o->want.etag[0]) {
        // The last byte waits for the check: no reader takes a wrong object for a whole one.
        uint64_t safe = o->want.size - 1;
        n = r->at < safe ? stream_coming_ready(s, o, r->at) : 0;
        n = n == 0 && has_own(r) ? r->own_end - r->at : n;
        n = n < safe - r->at || r->at >= safe ? n : safe - r->at;
    }
    return n < left ? n : left;
}

static ssize_t read_small(struct stream_store *s, struct stream_reader *r, void *buf, size_t len,
                          struct err *e) {
    const struct stream_object *o = r->object;
    if (!r->small) {
        r->small = heap_alloc((size_t)o->want.size);
        if (cas_read_small(&s->cas, o->hash, r->small, (size_t)o->want.size, e) < 0)
            return -1;
    }
    memcpy(buf, r->small + r->at, len);
    return (ssize_t)len;
}

ssize_t stream_reader_read(struct stream_store *s, struct stream_reader *r, void *buf, size_t len,
                           struct err *e) {
    struct stream_object *o = r->object;
    uint64_t ready = stream_reader_ready(s, r);
    ssize_t n;
    len = len < ready ? len : (size_t)ready;
    if (len == 0)
        return 0;
    if (o->packed)
        n = read_small(s, r, buf, len, e);
    else if (has_own(r)) {
        n = (ssize_t)(len < r->own_end - r->at ? len : r->own_end - r->at);
        memcpy(buf, r->own + (r->at - r->own_from), (size_t)n);
    } else {
        if (o->state == STREAM_WHOLE && r->fd < 0)
            r->fd = cas_object_open(&s->cas, o->hash);
        if (o->state == STREAM_WHOLE && r->fd < 0 && errno == ENOENT) {
            stream_object_gone(o); // another process has removed it
            return 0;
        }
        int fd = o->state == STREAM_WHOLE ? r->fd : stream_coming_part(o)->fd;
        do
            n = pread(fd, buf, len, (off_t)r->at);
        while (err_interrupted(n));
        if (n <= 0)
            return n < 0 ? err_errno(e, ERR_SYS, "cannot read '%.300s'", o->want.name)
                         : err_set(e, ERR_HASH, "'%.300s' has become shorter", o->want.name);
    }
    if (n > 0) {
        r->at += (uint64_t)n;
        s->served += (uint64_t)n;
    }
    return n;
}
