// SPDX-License-Identifier: Apache-2.0
// Indices of shards in a bucket: list, serve, index, upload.
#include "run/inputs/index_bucket.h"

#include "content/manifest.h"
#include "data/shard_index.h"
#include "protocol/job_spec.h"
#include "run/dtdata.h"
#include "run/inputs/input_remote.h"
#include "sys/file.h"
#include "sys/net.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { END_LOOKS_MAX = 100, END_PAUSE_MS = 50 };

struct bucket_index {
    struct context *context;
    const char *source, *dir; // dir: of this command, here
    struct input_remote *remote;
    struct manifest *objects;
    const char *socket; // of the server; NULL before its start
    int server;         // connection to it, which it ends with; -1
};

static int run_dtdata(struct context *s, const char *const *args, int in, int64_t ms_max,
                      struct err *e) {
    char *text = NULL;
    const struct dtdata_call call = {
        .args = args, .bytes_max = INDEX_BUCKET_ANSWER_BYTES_MAX, .ms_max = ms_max, .in = in};
    int result = dtdata_run(s, &call, &text, e);
    free(text);
    return result;
}

// The lines for dtdata, in a file that it reads.
static int write_lines(const struct bucket_index *b, const char *path, struct err *e) {
    struct strbuf text = {0};
    const struct manifest *m = b->objects;
    size_t count = 0;
    strbuf_adds(&text, b->remote->header);
    strbuf_addf(&text, "{\"input\":\"shards\",\"window\":%d,\"cache_max\":%d}\n",
                INDEX_BUCKET_WINDOW_BYTES, INDEX_BUCKET_CACHE_BYTES);
    for (size_t i = 0; i < m->count; i++) {
        if (!shard_index_is_shard(m->entries[i].path))
            continue;
        const struct input_remote_object *o = input_remote_find(b->remote, m->entries[i].path);
        must(o);
        input_remote_numbered_line(o->line, (int64_t)count++, &text);
    }
    strbuf_adds(&text, INPUT_REMOTE_END);
    int result = count ? file_write_atomic(path, text.data, text.len, 0600, e)
                       : err_set(e, ERR_NOT_FOUND,
                                 "'%s' holds no shards: looked for *.tar, and for *.tar in folders "
                                 "such as train",
                                 b->source);
    strbuf_fini(&text);
    return result;
}

static int list(struct bucket_index *b, struct err *e) {
    b->objects = manifest_new();
    if (input_remote_list(b->context, b->source, &b->remote, b->objects, e) < 0 ||
        manifest_sort(b->objects, e) < 0)
        return -1;
    return b->remote->folder
               ? 0
               : err_set(e, ERR_CONFIG, "'%s' is one object; index takes a folder", b->source);
}

static int serve(struct bucket_index *b, struct err *e) {
    struct arena *a = b->context->arena;
    const char *lines = file_join(a, b->dir, "lines");
    const char *args[] = {"serve", file_join(a, b->dir, "cas"), b->dir, NULL};
    if (write_lines(b, lines, e) < 0)
        return -1;
    auto_close int in = open(lines, O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", lines);
    (void)unlink(lines); // signed addresses
    b->socket = file_join(a, b->dir, JOB_STREAM_SOCKET);
    if (run_dtdata(b->context, args, in, INDEX_BUCKET_START_MS_MAX, e) < 0)
        return -1;
    b->server = net_unix_connect(b->socket, e);
    return b->server < 0 ? -1 : 0;
}

// Ends the server, which writes nothing once its socket is gone. A server whose start was
// interrupted may run, too.
static void end_server(struct bucket_index *b) {
    static const char end[] = "end\n";
    struct err ignored;
    char byte;
    if (b->server < 0 && b->socket)
        b->server = net_unix_connect(b->socket, &ignored);
    if (b->server < 0)
        return;
    (void)file_write_all(b->server, end, strlen(end), &ignored);
    while (read(b->server, &byte, 1) > 0) // events
        continue;
    close(b->server);
    for (int i = 0; i < END_LOOKS_MAX && access(b->socket, F_OK) == 0; i++)
        poll(NULL, 0, END_PAUSE_MS);
}

static void close_all(struct bucket_index *b) {
    struct err ignored;
    end_server(b);
    manifest_free(b->objects);
    (void)file_remove_tree(b->dir, &ignored);
}

int index_bucket(struct context *s, const char *source,
                 int (*progress)(void *ctx, uint64_t done, uint64_t total, struct err *e),
                 void *ctx, struct data_indexed *out, struct err *e) {
    struct bucket_index b = {.context = s, .source = source, .server = -1};
    char *dir = file_join(s->arena, s->cluster.dir, "index.XXXXXX");
    const char *const check[] = {"check", source, NULL};
    if (!str_starts(source, "s3://"))
        return err_set(e, ERR_CONFIG, "'%s': index takes a folder, here or s3://BUCKET/PREFIX",
                       source);
    if (file_make_dirs(s->cluster.dir, 0700, e) < 0)
        return -1;
    if (!mkdtemp(dir))
        return err_errno(e, ERR_SYS, "cannot make a folder in '%s'", s->cluster.dir);
    b.dir = dir;
    const char *to = file_join(s->arena, dir, "to");
    const char *const put[] = {"put", to, source, NULL};
    int result = run_dtdata(s, check, 0, 0, e);
    if (result == 0)
        result = list(&b, e);
    if (result == 0)
        result = serve(&b, e);
    if (result == 0)
        result =
            data_index_served(file_join(s->arena, dir, "stream/shards"), to, progress, ctx, out, e);
    if (result == 0)
        result = run_dtdata(s, put, 0, 0, e);
    close_all(&b);
    return result;
}
