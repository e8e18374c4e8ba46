// SPDX-License-Identifier: Apache-2.0
// Fetch, the operator's side: sends the request, receives (xfer_receiver.h) and replies, in steps
// between other work of the loop.
#include "base/log.h"
#include "sys/file.h"
#include "xfer/xfer_impl.h"
#include "xfer/xfer_receiver.h"

#include <stdlib.h>
#include <string.h>

// Folder for unfinished files, below the destination.
static const char parts_folder[] = ".dtctl-part";

struct fetch {
    struct xfer x; // first
    struct xfer_channel channel;
    struct receive receive;
    struct hash_cache *hashes; // shared by all nodes; NULL: none
    bool receiving, greeted, result;
    struct timer step;
};

static void on_step(struct timer *t);

static void fail(struct fetch *f, const struct err *e) {
    struct err named = *e;
    (void)err_wrap(&named, "node %s", f->x.node);
    xfer_finish(&f->x, &named);
}

static void stop(struct xfer *x) {
    struct fetch *f = (struct fetch *)x;
    timer_stop(&f->step);
    xfer_channel_close(&f->channel);
    if (f->receiving)
        xfer_receive_close(&f->receive);
    f->receiving = false;
    hash_cache_unshare(f->hashes);
    f->hashes = NULL;
}

static void destroy(struct xfer *x) {
    stop(x);
    xfer_free(x);
}

static void count(struct fetch *f) {
    struct xfer_progress *p = &f->x.progress;
    const struct receive *r = &f->receive;
    p->files_all = r->m->files;
    p->bytes_all = r->m->bytes;
    p->files_total = r->need_files;
    p->bytes_total = r->need_bytes;
    p->files_done = r->phase == RECEIVE_FINISHED ? r->need_files : r->got_files;
    p->bytes_done = r->got_bytes;
    p->phase = !f->greeted                   ? "connect"
               : r->phase <= RECEIVE_COMPARE ? "compare"
               : r->phase == RECEIVE_CONTENT ? "receive"
                                             : "place";
}

static void on_tick(struct xfer *x) {
    count((struct fetch *)x);
}

static void warn_of_strays(const struct fetch *f) {
    const struct receive *r = &f->receive;
    if (!r->strays)
        return;
    const struct manifest_entry *n = &r->m->entries[r->stray_first];
    log_warn("left out links that lead out of the folder",
             "node=%s count=%zu first=\"%s\" target=\"%s\"", f->x.node, r->strays, n->path,
             n->target);
}

// Works in steps; the loop runs between two steps.
static void work(struct fetch *f) {
    struct err e;
    int rc = xfer_receive_step(&f->receive, &f->channel.out, &e);
    count(f);
    if (rc < 0) {
        fail(f, &e);
        return;
    }
    if (rc > 0) {
        timer_start(f->x.loop, &f->step, 0, on_step);
        return;
    }
    if (f->receive.phase == RECEIVE_FINISHED && !f->result) {
        f->result = true;
        warn_of_strays(f);
    }
    if (xfer_channel_flush(&f->channel) && f->result)
        transport_run_send_end(f->channel.run);
}

static void on_step(struct timer *t) {
    work(container_of(t, struct fetch, step));
}

// ---- frames of the node -----------------------------------------------------------------------

static int take_frame(struct fetch *f, const struct xfer_frame *frame, struct err *e) {
    if (!f->greeted) {
        if (frame->type != XFER_HELLO || frame->len != 4 ||
            bytes_load(frame->data, 4) != XFER_VERSION)
            return xfer_wire_unexpected(frame, e);
        f->greeted = true;
        return 0;
    }
    if (frame->type == XFER_PROGRESS)
        return 0;
    f->x.progress.bytes_wire += frame->wire_bytes;
    if (xfer_receive_frame(&f->receive, frame, &f->channel.out, e) < 0)
        return -1;
    if (!f->step.loop && f->receive.phase != RECEIVE_LIST && f->receive.phase != RECEIVE_CONTENT)
        timer_start(f->x.loop, &f->step, 0, on_step);
    return 0;
}

static void on_output(struct transport_run *r, void *ctx, const void *data, size_t len) {
    struct fetch *f = ctx;
    struct xfer_frame frame;
    struct err e;
    size_t used = 0;
    int rc = 1;
    (void)r;
    strbuf_add(&f->channel.in, data, len);
    while ((rc = xfer_wire_take(&f->channel.unpacker, f->channel.in.data + used,
                                f->channel.in.len - used, &frame, &e)) > 0) {
        used += frame.wire_bytes;
        if (take_frame(f, &frame, &e) < 0) {
            rc = -1;
            break;
        }
    }
    if (rc < 0)
        fail(f, &e);
    else
        strbuf_consume(&f->channel.in, used);
}

static void on_error(struct transport_run *r, void *ctx, const void *data, size_t len) {
    (void)r;
    strbuf_add(&((struct fetch *)ctx)->channel.err_text, data, len);
}

static void on_room(struct transport_run *r, void *ctx) {
    struct fetch *f = ctx;
    (void)r;
    if (xfer_channel_flush(&f->channel) && f->result)
        transport_run_send_end(f->channel.run);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct fetch *f = ctx;
    struct err e;
    (void)r;
    f->channel.in_ended = true;
    if (f->x.ended)
        return;
    if (f->result) { // all files are in place, so the end of the other side does not matter
        xfer_finish_now(&f->x, NULL);
        return;
    }
    xfer_channel_explain(&f->channel, end, f->x.node, &e);
    xfer_finish_now(&f->x, &e);
}

static const struct transport_run_events run_events = {
    .on_output = on_output, .on_error = on_error, .on_room = on_room, .on_end = on_end};

// ---- starting ---------------------------------------------------------------------------------

static int start(struct fetch *f, const struct xfer_fetch_spec *spec, struct err *e) {
    struct arena *a = &f->x.arena;
    if (spec->hash_cache_path)
        f->hashes = hash_cache_share(spec->hash_cache_path);
    struct receive_config config = {
        .dest = arena_strdup(a, spec->dest),
        .store = file_join(a, spec->dest, parts_folder),
        .hashes = f->hashes,
    };
    f->receiving = true;
    if (file_make_dirs(spec->dest, 0755, e) < 0 || xfer_receive_open(&f->receive, &config, e) < 0)
        return -1;
    if (xfer_channel_open(&f->channel, f->x.link, spec->program, NODE_VERB_FETCH, spec->root,
                          &run_events, f, e) < 0)
        return -1;
    struct strbuf b = {0};
    struct xfer_fetch_hello hello = {
        .missing_ok = spec->missing_ok,
        .compress = !spec->no_compress && !transport_is_local(f->x.link),
        .paths = (const char **)spec->paths,
        .exclude = (const char **)spec->exclude,
    };
    xfer_put_fetch_hello(&b, &hello);
    bool fits = b.len < XFER_FRAME_BYTES_MAX;
    if (fits)
        xfer_wire_frame(&f->channel.out, XFER_HELLO, b.data, b.len);
    strbuf_fini(&b);
    (void)xfer_channel_flush(&f->channel);
    return fits ? 0 : err_set(e, ERR_LIMIT, "too many paths to fetch");
}

struct xfer *xfer_fetch(struct transport_link *l, const struct xfer_fetch_spec *spec,
                        const struct xfer_events *events, void *ctx, struct err *e) {
    struct fetch *f = heap_alloc(sizeof *f);
    f->x.on_tick = on_tick;
    f->x.stop = stop;
    f->x.destroy = destroy;
    f->x.progress = (struct xfer_progress){.phase = "connect"};
    xfer_start(&f->x, l, events, ctx);
    if (start(f, spec, e) < 0) {
        (void)err_wrap(e, "node %s", transport_node(l));
        destroy(&f->x);
        return NULL;
    }
    return &f->x;
}
