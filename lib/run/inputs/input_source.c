// SPDX-License-Identifier: Apache-2.0
// Serves files of this computer to the nodes of a run.
#include "run/inputs/input_source.h"

#include "base/bytes.h"
#include "base/log.h"
#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "run/dtdata.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_BYTES = 128 << 10, ERROR_BYTES_MAX = 4096 };
_Static_assert((int)PIECE_BYTES <= (int)SOURCE_ANSWER_BYTES_MAX, "a piece fits into a frame");

// ---- the list: "SIZE MTIME_NS PATH" of each file, with a NUL at its end -------------------------

static const char *list_path(const struct context *s, const struct run *run) {
    return run_path(&s->cluster, run, "sources");
}

static int64_t mtime_ns(const struct stat *st) {
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

int64_t input_source_add(struct strbuf *list, size_t *count, const struct manifest_entry *entry,
                         struct err *e) {
    struct arena a = {0};
    struct stat st;
    int64_t number = -1;
    const char *path = file_absolute(&a, entry->source, e);
    if (*count == INPUT_SOURCE_FILES_MAX)
        err_set(e, ERR_LIMIT, "the streamed inputs have more than %d files of this computer",
                INPUT_SOURCE_FILES_MAX);
    else if (path && stat(path, &st) < 0)
        err_errno(e, ERR_NOT_FOUND, "'%s'", path);
    else if (path && (uint64_t)st.st_size != entry->size)
        err_set(e, ERR_HASH, "'%s' has changed since it was hashed (try again)", path);
    else if (path) {
        strbuf_addf(list, "%lld %lld %s", (long long)st.st_size, (long long)mtime_ns(&st), path);
        strbuf_addc(list, '\0');
        number = (int64_t)(*count)++;
    }
    arena_fini(&a);
    return number;
}

int input_source_save(const struct context *s, const struct run *run, const struct strbuf *list,
                      struct err *e) {
    return file_write_atomic(list_path(s, run), list->data, list->len, 0600, e);
}

bool input_source_is_here(const struct context *s, const struct run *run) {
    return file_exists(list_path(s, run));
}

static int read_list(struct input_source *s, const char *path, struct err *e) {
    char *text = NULL, *end;
    size_t len = 0, lines = 0;
    if (file_read(&s->arena, path, INPUT_SOURCE_LIST_BYTES_MAX, &text, &len, e) < 0)
        return -1;
    for (size_t i = 0; i < len; i++)
        lines += !text[i];
    s->files = arena_new(&s->arena, struct input_source_file, lines + 1);
    for (char *p = text; p < text + len; p += strlen(p) + 1) {
        struct input_source_file *f = &s->files[s->count++];
        f->size = strtoll(p, &end, 10);
        f->mtime_ns = *end == ' ' ? strtoll(end + 1, &end, 10) : -1;
        f->path = end + 1;
        if (s->count > lines || f->size < 0 || end[0] != ' ' || end[1] != '/')
            return err_set(e, ERR_FORMAT, "'%s' is no list of streamed files", path);
    }
    return 0;
}

// ---- answers ------------------------------------------------------------------------------------

static void put_head(struct strbuf *out, int kind, uint32_t slot, size_t len) {
    unsigned char head[SOURCE_HEAD_BYTES];
    head[0] = (unsigned char)kind;
    bytes_store(head + 1, slot, 4);
    bytes_store(head + 5, len, 4);
    strbuf_add(out, head, sizeof head);
}

static void end_ask(struct input_source_ask *x) {
    if (x->used && x->fd >= 0)
        close(x->fd);
    *x = (struct input_source_ask){.fd = -1};
}

static void refuse(struct strbuf *out, struct input_source_ask *x, int kind, const char *path,
                   const char *why) {
    struct arena a = {0};
    const char *text = arena_printf(&a, "'%.2000s' on the operator's computer %s", path, why);
    put_head(out, kind, x->slot, strlen(text));
    strbuf_adds(out, text);
    arena_fini(&a);
    end_ask(x);
}

// The file is what was listed, before and after it is read.
static bool is_same(int fd, const struct input_source_file *f) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (int64_t)st.st_size == f->size &&
           mtime_ns(&st) == f->mtime_ns;
}

// One piece of an answer.
static void answer(struct input_source_node *n, struct input_source_ask *x) {
    const struct input_source_file *f = &n->all->files[x->file];
    size_t len = x->end - x->at < PIECE_BYTES ? (size_t)(x->end - x->at) : PIECE_BYTES;
    size_t before = n->out.len;
    if (x->fd < 0)
        x->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (x->fd < 0) {
        refuse(&n->out, x, errno == ENOENT ? SOURCE_CHANGED : SOURCE_FAILED, f->path,
               errno == ENOENT ? "is not there any more" : strerror(errno));
        return;
    }
    put_head(&n->out, SOURCE_BYTES, x->slot, len);
    char *to = strbuf_reserve(&n->out, len);
    ssize_t got = 0;
    size_t have = 0;
    while (have < len && (got = pread(x->fd, to + have, len - have, (off_t)(x->at + have))) > 0)
        have += (size_t)got;
    bool failed = got < 0;
    if (have < len || !is_same(x->fd, f)) {
        n->out.len = before;
        refuse(&n->out, x, failed ? SOURCE_FAILED : SOURCE_CHANGED, f->path,
               failed ? "cannot be read" : "has changed since it was listed (try again)");
        return;
    }
    n->out.len += len;
    x->at += len;
    if (x->urgent)
        x->number = ++n->number;
    if (x->at == x->end)
        end_ask(x);
}

// Requests of readers that wait come first, in turn and piece by piece, so that a short one does
// not wait for all of a long one. The others come one after the other: the first file is there
// first.
static struct input_source_ask *choose(struct input_source_node *n) {
    struct input_source_ask *best = NULL;
    for (size_t i = 0; i < INPUT_SOURCE_ASKS_MAX; i++) {
        struct input_source_ask *x = &n->asks[i];
        if (x->used && (!best || x->urgent > best->urgent ||
                        (x->urgent == best->urgent && x->number < best->number)))
            best = x;
    }
    return best;
}

static void work(struct input_source_node *n) {
    while (n->run) {
        if (n->out_sent < n->out.len) {
            n->out_sent +=
                transport_run_send(n->run, n->out.data + n->out_sent, n->out.len - n->out_sent);
            if (n->out_sent < n->out.len)
                return; // on_room continues
        }
        strbuf_clear(&n->out);
        n->out_sent = 0;
        struct input_source_ask *x = choose(n);
        if (!x)
            return;
        answer(n, x);
    }
}

// ---- the connection -----------------------------------------------------------------------------

static void on_next(struct timer *t);

static void drop(struct input_source_node *n) {
    for (size_t i = 0; i < INPUT_SOURCE_ASKS_MAX; i++)
        end_ask(&n->asks[i]);
    strbuf_clear(&n->in);
    strbuf_clear(&n->out);
    n->out_sent = 0;
    n->run = NULL;
}

// False: no request that dtdata makes.
static bool take_ask(struct input_source_node *n, const char *p) {
    uint32_t word = (uint32_t)bytes_load(p, 4), slot = word & ~(uint32_t)SOURCE_ASK_URGENT;
    uint64_t file = bytes_load(p + 4, 8), from = bytes_load(p + 12, 8), len = bytes_load(p + 20, 8);
    struct input_source_ask *x = NULL;
    for (size_t i = 0; i < INPUT_SOURCE_ASKS_MAX; i++) {
        if (n->asks[i].used && n->asks[i].slot == slot)
            return false;
        x = n->asks[i].used ? x : &n->asks[i];
    }
    if (!x || file >= n->all->count || len == 0 || from > (uint64_t)n->all->files[file].size ||
        len > (uint64_t)n->all->files[file].size - from)
        return false;
    *x = (struct input_source_ask){.used = true,
                                   .urgent = word & SOURCE_ASK_URGENT,
                                   .slot = slot,
                                   .file = file,
                                   .at = from,
                                   .end = from + len,
                                   .number = ++n->number,
                                   .fd = -1};
    return true;
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct input_source_node *n = ctx;
    size_t used = 0;
    strbuf_add(&n->in, p, len);
    n->came = true;
    n->shut = 0;
    for (; n->in.len - used >= SOURCE_ASK_BYTES; used += SOURCE_ASK_BYTES)
        if (!take_ask(n, n->in.data + used)) {
            log_warn("a node asks for what no streamed input has", "node=%s",
                     n->node->node->info->name);
            transport_run_close(r);
            drop(n);
            return; // not again
        }
    strbuf_consume(&n->in, used);
    work(n);
}

static void on_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct input_source_node *n = ctx;
    (void)r;
    if (n->err_text.len < ERROR_BYTES_MAX)
        strbuf_add(&n->err_text, p, len);
}

static void on_room(struct transport_run *r, void *ctx) {
    (void)r;
    work(ctx);
}

static void again(struct input_source_node *n) {
    timer_start(n->all->follow->context->loop, &n->next, INPUT_SOURCE_RETRY_MS, on_next);
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct input_source_node *n = ctx;
    (void)r;
    drop(n);
    bool shut = end->how == TRANSPORT_EXITED && end->status != 0;
    n->shut = shut ? n->shut + 1 : 0;
    if (n->shut > INPUT_SOURCE_SHUT_MAX && !n->warned && !n->node->over) {
        n->warned = true;
        log_warn("streamed inputs of this computer cannot be served to a node",
                 "node=%s reason=\"%.*s\"", n->node->node->info->name,
                 (int)strcspn(strbuf_cstr(&n->err_text), "\n"), strbuf_cstr(&n->err_text));
    }
    strbuf_clear(&n->err_text);
    again(n);
}

static int start(struct input_source_node *n, struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_error = on_error, .on_room = on_room, .on_end = on_end};
    struct fleet_node *to = n->node->node;
    struct arena a = {0};
    const char *program = file_join(&a, to->facts.root, embedded_program_path(&a, DTDATA_PROGRAM));
    const char *dir = file_join(&a, to->facts.root, run_node_dir(&a, n->all->follow->run->id, ""));
    const char *line = arena_printf(&a, "%s source %s", transport_path_word(&a, program),
                                    transport_path_word(&a, dir));
    n->run = transport_run(to->link, &(struct transport_command){.line = line}, &events, n, e);
    arena_fini(&a);
    return n->run ? 0 : -1;
}

static void on_next(struct timer *t) {
    struct input_source_node *n = container_of(t, struct input_source_node, next);
    struct err ignored = {0};
    const struct fleet_node *to = n->node->node;
    bool there = to->up && to->ready && !n->node->over;
    if (!there || start(n, &ignored) < 0)
        again(n);
}

int input_source_open(struct input_source *s, struct follow *f, struct err *e) {
    *s = (struct input_source){.follow = NULL};
    if (!input_source_is_here(f->context, f->run))
        return 0;
    if (read_list(s, list_path(f->context, f->run), e) < 0) {
        arena_fini(&s->arena);
        return -1;
    }
    s->follow = f;
    s->nodes = arena_new(&s->arena, struct input_source_node, f->count + 1);
    for (size_t i = 0; i < f->count; i++) {
        struct input_source_node *n = &s->nodes[i];
        n->all = s;
        n->node = &f->nodes[i];
        for (size_t k = 0; k < INPUT_SOURCE_ASKS_MAX; k++)
            n->asks[k].fd = -1;
        timer_start(f->context->loop, &n->next, 0, on_next);
    }
    return 0;
}

void input_source_close(struct input_source *s) {
    for (size_t i = 0; s->follow && i < s->follow->count; i++) {
        struct input_source_node *n = &s->nodes[i];
        timer_stop(&n->next);
        if (n->run)
            transport_run_close(n->run);
        drop(n);
        strbuf_fini(&n->in);
        strbuf_fini(&n->out);
        strbuf_fini(&n->err_text);
    }
    s->follow = NULL;
    arena_fini(&s->arena);
}
