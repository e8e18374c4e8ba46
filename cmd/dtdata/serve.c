// SPDX-License-Identifier: Apache-2.0
// Standard input is lines of JSON: {"ca":"PEM"}; then, for each input, {"input":"NAME",
// "window":BYTES,"cache_max":BYTES,"total":OBJECTS} and its objects in the order of reading, as
// `list` has them, each with its "index" in the whole; and {"end":true}.
#include "serve.h"

#include "base/json.h"
#include "base/log.h"
#include "stream/stream_server.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define SERVE_INPUT_BYTES_MAX ((uint64_t)1 << 30)

static int read_object(struct stream_store *s, const struct json *j, struct err *e) {
    struct object_want want = {.name = json_get_str(j, "name", NULL),
                               .url = json_get_str(j, "url", NULL),
                               .etag = json_get_str(j, "etag", "")};
    const char *path = json_get_str(j, "path", ""), *id = json_get_str(j, "id", "");
    int64_t size = json_get_int(j, "size", -1), index = json_get_int(j, "index", -1);
    if (!want.name || !want.url || size < 0 || index < 0 || !hash_is_hex(id) ||
        !file_is_safe_relative(path, strlen(path)) || str_unhex(want.id, HASH_BYTES, id, e) < 0)
        return err_set(e, ERR_FORMAT, "line %zu of the input is no object", s->count + 2);
    want.size = (uint64_t)size;
    return stream_store_add(s, &want, path, (uint64_t)index, e);
}

static int read_name(struct stream_store *s, const struct json *j, struct err *e) {
    const char *name = json_get_str(j, "input", "");
    int64_t window = json_get_int(j, "window", 0), cache_max = json_get_int(j, "cache_max", 0);
    if (!str_is_name(name, 64) || window < 1 || cache_max < 0)
        return err_set(e, ERR_FORMAT, "the list of objects names no input");
    struct stream_input *in = stream_store_input(s, name, e);
    if (!in)
        return -1;
    in->window = (uint64_t)window;
    in->cache_max = (uint64_t)cache_max;
    in->total = (uint64_t)json_get_int(j, "total", 0);
    return 0;
}

// An input that ends without its last line is that of a dtctl that is gone.
static int read_input(struct stream_store *s, struct arena *a, const char **ca, struct err *e) {
    char *line = NULL;
    size_t room = 0;
    uint64_t total = 0;
    bool ended = false;
    int result = 0;
    *ca = NULL;
    for (ssize_t n; result == 0 && !ended && (n = getline(&line, &room, stdin)) > 0;) {
        struct json *j;
        total += (uint64_t)n;
        if (total > SERVE_INPUT_BYTES_MAX)
            result = err_set(e, ERR_LIMIT, "the list of objects has more than 1 GiB");
        else if (json_parse(a, line, (size_t)n, &j, e) < 0)
            result = -1;
        else if (json_get(j, "end"))
            ended = true;
        else if (!*ca)
            *ca = json_get_str(j, "ca", "");
        else if (json_get(j, "input"))
            result = read_name(s, j, e);
        else
            result = s->input_count ? read_object(s, j, e)
                                    : err_set(e, ERR_FORMAT, "the list of objects names no input");
    }
    free(line);
    return result == 0 && !ended ? err_set(e, ERR_FORMAT, "the list of objects was cut off")
                                 : result;
}

// One descriptor for each reader, and for what it reads.
static void raise_descriptors(void) {
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
        return;
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
}

static int answer(struct strbuf *line, const struct stream_server *s, struct err *e) {
    strbuf_addf(line, "{\"end\":%zu,\"port\":%d}\n", s->store.count, s->port);
    int result = file_write_all(STDOUT_FILENO, line->data, line->len, e);
    strbuf_clear(line);
    return result;
}

// Runs in a process of its own; its errors are in the agent's log.
static int serve_detached(struct stream_server *s, const char *ca) {
    struct err e = {0};
    prctl(PR_SET_DUMPABLE, 0); // signed addresses stay out of core files
    log_open("stream", LOG_INFO, LOG_STAMPED);
    int result = stream_server_run(s, ca, &e);
    if (result < 0)
        log_error("the server of streamed inputs has failed", "reason=%s", e.text);
    stream_server_close(s);
    return result;
}

int serve(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    static struct stream_server s;
    const char *ca, *log = file_join(a, args[1], "agent.log");
    s.listen_fd = s.agent_fd = -1;
    if (file_make_dirs(args[1], 0755, e) < 0 || stream_store_open(&s.store, args[0], e) < 0 ||
        read_input(&s.store, a, &ca, e) < 0 || stream_store_look(&s.store, e) < 0 ||
        stream_server_open(&s, args[1], e) < 0)
        return -1;
    auto_close int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", log);
    raise_descriptors();
    if (answer(line, &s, e) < 0)
        return -1;
    pid_t pid = proc_detach(fd, e);
    return pid == 0 ? serve_detached(&s, ca) : pid < 0 ? -1 : 0;
}
