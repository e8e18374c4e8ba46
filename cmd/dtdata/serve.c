// SPDX-License-Identifier: Apache-2.0
// Serves the streamed inputs of a run on this node.
//
// Standard input is lines of JSON: for each input {"ca":"PEM"}, where it is read from a server,
// {"input":"NAME","window":BYTES,"cache_max":BYTES,"total":OBJECTS,"ends":MS} and its objects in
// the order of reading, as `list` has them, each with its "index" in the whole; and {"end":true}.
// The first line is {"now":MS}, the time of the clock that "ends" is of.
// An object without "url" is the "file" of that number on the operator's computer
// (stream/stream_source.h), with "sha256".
#include "serve.h"

#include "base/log.h"
#include "json_lines.h"
#include "stream/stream_server.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SERVE_STARTS_MAX = 8 }; // of a server that is killed

static int read_object(struct stream_store *s, const struct json *j, struct err *e) {
    struct object_want want = {.name = json_get_str(j, "name", NULL),
                               .url = json_get_str(j, "url", NULL),
                               .etag = json_get_str(j, "etag", "")};
    const char *path = json_get_str(j, "path", ""), *id = json_get_str(j, "id", "");
    int64_t size = json_get_int(j, "size", -1), index = json_get_int(j, "index", -1);
    int64_t file = json_get_int(j, "file", -1);
    const char *hash = json_get_str(j, "sha256", "");
    want.hashed = hash_is_hex(hash) && str_unhex(want.hash, HASH_BYTES, hash, e) == 0;
    want.file = (uint64_t)file;
    if (!want.name || (!want.url && (file < 0 || !want.hashed)) || size < 0 || index < 0 ||
        !hash_is_hex(id) || !file_is_safe_relative(path, strlen(path)) ||
        str_unhex(want.id, HASH_BYTES, id, e) < 0)
        return err_set(e, ERR_FORMAT, "line %zu of the input is no object", s->count + 2);
    want.size = (uint64_t)size;
    return stream_store_add(s, &want, path, (uint64_t)index, e);
}

static int read_name(struct stream_store *s, const struct stream_clock *clock, const struct json *j,
                     struct err *e) {
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
    in->ends_ms = stream_clock_end(clock, json_get_int(j, "ends", 0));
    return 0;
}

struct lines {
    struct stream_store *store;
    const char *ca;
    struct stream_clock clock;
};

static int take_line(void *ctx, const struct json *j, size_t number, struct err *e) {
    struct lines *l = ctx;
    (void)number;
    if (json_get(j, "ca")) { // all inputs have those of the user's settings
        l->ca = json_get_str(j, "ca", "");
        return 0;
    }
    if (json_get(j, "now")) {
        l->clock = stream_clock_of(j);
        return 0;
    }
    if (json_get(j, "input"))
        return read_name(l->store, &l->clock, j, e);
    return l->store->input_count ? read_object(l->store, j, e)
                                 : err_set(e, ERR_FORMAT, "the list of objects names no input");
}

// Each reader takes a descriptor, and so does each file that is read.
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

// store: NULL the first time; then it is looked through again, since a killed server has changed
// it.
static int serve_once(struct stream_server *s, const char *store, const char *ca) {
    struct err e = {0};
    int result = store ? stream_store_reopen(&s->store, store, &e) : 0;
    s->first_served = store != NULL; // once a run
    if (result == 0)
        result = stream_server_run(s, ca, &e);
    if (result < 0)
        log_error("the server of streamed inputs has failed", "reason=%s", e.text);
    stream_server_close(s);
    return result;
}

// Whether a process was killed by a signal that does not ask it to end.
static bool was_killed(int status) {
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return signal && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
}

// Runs in a process of its own; its errors are in the agent's log. The server is a child of it:
// when the kernel kills that for its memory, another one takes the same port. No other
// process has the signed addresses.
static int serve_detached(struct stream_server *s, const char *store, const char *ca) {
    prctl(PR_SET_DUMPABLE, 0); // signed addresses stay out of core files
    log_open("stream", LOG_INFO, LOG_STAMPED);
    for (int starts = 1;; starts++) {
        int status = 0;
        pid_t pid = fork();
        if (pid <= 0) // if fork fails, this process serves
            return serve_once(s, starts > 1 ? store : NULL, ca);
        while (err_interrupted(waitpid(pid, &status, 0)))
            continue;
        bool again = was_killed(status) && starts < SERVE_STARTS_MAX;
        if (was_killed(status))
            log_error(again ? "the server of streamed inputs was killed, and starts again"
                            : "the server of streamed inputs was killed, and starts no more",
                      "signal=%d starts=%d", WTERMSIG(status), starts);
        if (again)
            continue;
        stream_server_close(s);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
}

int serve(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    static struct stream_server s;
    struct lines l = {.store = &s.store, .ca = ""};
    const char *log = file_join(a, args[1], "agent.log");
    s.listen_fd = s.agent_fd = s.renew.listen_fd = s.source.listen_fd = -1;
    if (file_make_dirs(args[1], 0755, e) < 0 || stream_store_open(&s.store, args[0], e) < 0 ||
        json_lines_read(STDIN_FILENO, a, take_line, &l, e) < 0 ||
        stream_store_scan(&s.store, e) < 0 || stream_server_open(&s, args[1], e) < 0)
        return -1;
    auto_close int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", log);
    raise_descriptors();
    if (answer(line, &s, e) < 0)
        return -1;
    pid_t pid = proc_detach(fd, e);
    return pid == 0 ? serve_detached(&s, args[0], l.ca) : pid < 0 ? -1 : 0;
}
