// SPDX-License-Identifier: Apache-2.0
// `dtrun --node follow`: streams the files of a run as they grow, until the run ends on this node.
// Every record has a file name and an offset, so an interrupted follower continues where it
// stopped. Folders are watched for changes; the control socket shows the end of the agent.
//
// events.jsonl goes first: after a piece of a log is read, the existing events are sent before the
// piece. The follower therefore knows all earlier events, such as a worker's rank, when it gets a
// line. Files take turns of a few pieces each, so that a fast-growing file does not delay the
// others or the end.
#include "agent/control_socket.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/name_map.h"
#include "node/node_verb.h"
#include "protocol/node_sample.h"
#include "sys/file.h"
#include "sys/file_changes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 128 << 10,
    TURN_CHUNKS = 4, // of one file, before the next one's turn
    FILES_MAX = 65536,
    FOLDERS_MAX = 65536,
    PATH_MAX_BYTES = 512,
};

static const char EVENTS[] = "events.jsonl";

struct followed {
    const char *path; // relative to the run's folder
    int64_t offset;
    int64_t until; // size limit for the last pass
    bool queued;
    struct followed *next; // in the queue
};

struct folder {
    const char *path; // "": the run's folder itself
    int watch;        // 0: polled at intervals
};

struct follow_writer {
    struct arena arena;
    const char *run_dir;
    const char *only; // "", "events" or "logs"
    struct file_changes changes;
    int agent_fd;
    struct name_map files, folders;    // of struct followed, struct folder
    struct folder **watched, **polled; // folders by watch; folders without a watch
    size_t watched_room, polled_room;
    int polled_count;
    struct followed *queue, **queue_end; // files that may have grown, in order
    struct followed *events;             // NULL: not followed, or does not exist yet
    bool last;                           // send everything, also incomplete lines
    char *chunk, *events_chunk;
    bool broken; // the reader is gone
    int64_t wrote_ms;
};

static void send_record(struct follow_writer *f, const struct strbuf *header, const char *p,
                        size_t len) {
    struct strbuf out = {0};
    unsigned char size[4];
    bytes_store(size, header->len + 1 + len, 4);
    strbuf_add(&out, size, 4);
    strbuf_add(&out, header->data, header->len);
    strbuf_addc(&out, '\n');
    strbuf_add(&out, p, len);
    if (!f->broken && node_write(out.data, out.len) < 0)
        f->broken = true;
    f->wrote_ms = clock_mono_ms();
    strbuf_fini(&out);
}

static void send_bytes(struct follow_writer *f, struct followed *file, const char *p, size_t len) {
    struct strbuf header = {0};
    struct json_out j;
    json_open(&j, &header);
    json_object(&j, NULL);
    json_str(&j, "file", file->path);
    json_int(&j, "offset", file->offset);
    json_int(&j, "bytes", (int64_t)len);
    json_end(&j);
    send_record(f, &header, p, len);
    strbuf_fini(&header);
    file->offset += (int64_t)len;
}

static bool is_json_lines(const char *path) {
    return strcmp(path, EVENTS) == 0 || strcmp(path, NODE_SAMPLE_FILE) == 0 ||
           strcmp(path, "output/metrics.jsonl") == 0;
}

// Reads new bytes of a file, at most one chunk. Event files are sent in complete lines, except at
// the end.
static size_t read_chunk(struct follow_writer *f, const struct followed *file, char *chunk) {
    char path[FILE_PATH_BYTES_MAX];
    int64_t room = f->last ? file->until - file->offset : CHUNK_BYTES;
    size_t want = room < CHUNK_BYTES ? (room > 0 ? (size_t)room : 0) : CHUNK_BYTES;
    snprintf(path, sizeof path, "%s/%s", f->run_dir, file->path);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : pread(fd, chunk, want, file->offset);
    if (n <= 0)
        return 0;
    const char *end = is_json_lines(file->path) ? memrchr(chunk, '\n', (size_t)n) : NULL;
    if (end && (!f->last || n == CHUNK_BYTES))
        return (size_t)(end - chunk) + 1;
    return is_json_lines(file->path) && !f->last && n < CHUNK_BYTES ? 0 : (size_t)n;
}

static void send_events(struct follow_writer *f) {
    size_t n;
    while (f->events && !f->broken && (n = read_chunk(f, f->events, f->events_chunk)) > 0)
        send_bytes(f, f->events, f->events_chunk, n);
}

static void enqueue(struct follow_writer *f, struct followed *file) {
    if (file->queued)
        return;
    file->queued = true;
    file->next = NULL;
    *f->queue_end = file;
    f->queue_end = &file->next;
}

// The turn of the first file in the queue; if it may have more it goes to the end of the queue.
static void send_turn(struct follow_writer *f) {
    struct followed *file = f->queue;
    size_t n = 1;
    f->queue = file->next;
    if (!f->queue)
        f->queue_end = &f->queue;
    file->queued = false;
    for (int i = 0; i < TURN_CHUNKS && !f->broken; i++) {
        n = read_chunk(f, file, f->chunk);
        send_events(f);
        if (n == 0 || file == f->events)
            return;
        send_bytes(f, file, f->chunk, n);
    }
    enqueue(f, file);
}

static struct followed *file_named(struct follow_writer *f, const char *path) {
    struct followed *file = name_map_find(&f->files, path);
    if (file || f->files.count >= FILES_MAX || strlen(path) >= PATH_MAX_BYTES)
        return file;
    file = arena_new(&f->arena, struct followed, 1);
    file->path = arena_strdup(&f->arena, path);
    name_map_put(&f->files, file->path, file);
    return file;
}

static bool all_digits(const char *s) {
    return s[0] && s[strspn(s, "0123456789")] == '\0';
}

static bool is_attempt(const char *s) {
    return str_starts(s, "attempt_") && all_digits(s + strlen("attempt_"));
}

// Selects the folders and files of a run to follow.
static bool want_folder(const char *parent, const char *name) {
    if (!parent[0])
        return is_attempt(name) || strcmp(name, "output") == 0;
    return is_attempt(parent) && all_digits(name);
}

static bool want_file(const struct follow_writer *f, const char *parent, const char *name) {
    bool lines =
        (!parent[0] && (strcmp(name, EVENTS) == 0 || strcmp(name, NODE_SAMPLE_FILE) == 0)) ||
        (strcmp(parent, "output") == 0 && strcmp(name, "metrics.jsonl") == 0);
    bool log = (!parent[0] && strcmp(name, "agent.log") == 0) ||
               (str_starts(parent, "attempt_") && strchr(parent, '/') &&
                (strcmp(name, "stdout.log") == 0 || strcmp(name, "stderr.log") == 0 ||
                 strcmp(name, "error.json") == 0 || strcmp(name, "log-times") == 0));
    return (lines && strcmp(f->only, "logs") != 0) || (log && strcmp(f->only, "events") != 0);
}

static void scan_folder(struct follow_writer *f, const char *path, bool deep);

static void watch_folder(struct follow_writer *f, const char *path) {
    char full[FILE_PATH_BYTES_MAX];
    if (name_map_find(&f->folders, path) || f->folders.count >= FOLDERS_MAX ||
        strlen(path) >= PATH_MAX_BYTES)
        return;
    snprintf(full, sizeof full, "%s/%s", f->run_dir, path);
    int watch =
        file_changes_add(&f->changes, full, IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_ONLYDIR);
    if (watch < 0)
        return;
    struct folder *n = arena_new(&f->arena, struct folder, 1);
    *n = (struct folder){arena_strdup(&f->arena, path), watch};
    name_map_put(&f->folders, n->path, n);
    array_grow(f->watched, &f->watched_room, (size_t)watch + 1);
    if (watch > 0) {
        f->watched[watch] = n;
    } else {
        int count = ++f->polled_count;
        array_grow(f->polled, &f->polled_room, (size_t)count);
        f->polled[count - 1] = n;
    }
    scan_folder(f, path, false); // files created before the watch
}

static int64_t size_of(struct follow_writer *f, const char *path) {
    char full[FILE_PATH_BYTES_MAX];
    struct stat st;
    snprintf(full, sizeof full, "%s/%s", f->run_dir, path);
    return stat(full, &st) == 0 ? st.st_size : 0;
}

// deep: also scans known folders.
static void look_at(struct follow_writer *f, const char *parent, const char *name, bool deep) {
    char path[PATH_MAX_BYTES * 2];
    snprintf(path, sizeof path, "%s%s%s", parent, parent[0] ? "/" : "", name);
    if (want_file(f, parent, name)) {
        struct followed *file = file_named(f, path);
        if (file && strcmp(path, EVENTS) == 0)
            f->events = file;
        if (file && f->last)
            file->until = size_of(f, path);
        if (file)
            enqueue(f, file);
    } else if (want_folder(parent, name)) {
        if (deep && name_map_find(&f->folders, path))
            scan_folder(f, path, true);
        else
            watch_folder(f, path);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return str_natural_cmp((*a)->d_name, (*b)->d_name);
}

static void scan_folder(struct follow_writer *f, const char *path, bool deep) {
    char full[FILE_PATH_BYTES_MAX];
    struct dirent **list = NULL;
    snprintf(full, sizeof full, "%s/%s", f->run_dir, path);
    int n = scandir(full, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.')
            look_at(f, path, list[i]->d_name, deep);
        free(list[i]);
    }
    free(list);
}

static void read_changes(struct follow_writer *f) {
    char buf[65536] __attribute__((aligned(8)));
    size_t n;
    while ((n = file_changes_read(&f->changes, buf, sizeof buf)) > 0) {
        for (size_t at = 0; at < n;) {
            const struct inotify_event *ev = (const void *)(buf + at);
            at += sizeof *ev + ev->len;
            if (ev->mask & IN_Q_OVERFLOW)
                scan_folder(f, "", true);
            if (ev->len > 0 && ev->wd > 0 && (size_t)ev->wd < f->watched_room && f->watched[ev->wd])
                look_at(f, f->watched[ev->wd]->path, ev->name, false);
        }
    }
    if (file_changes_ticked(&f->changes))
        for (int i = 0; i < f->polled_count; i++)
            scan_folder(f, f->polled[i]->path, false);
}

static void send_beat(struct follow_writer *f) {
    struct strbuf header = {0};
    strbuf_addf(&header, "{\"beat\":%lld}", (long long)clock_wall_ms());
    send_record(f, &header, NULL, 0);
    strbuf_fini(&header);
}

// Runs until the agent or the reader is gone.
static void follow_live(struct follow_writer *f) {
    while (!f->broken) {
        struct pollfd p[] = {{.fd = f->changes.fd, .events = POLLIN},
                             {.fd = f->agent_fd, .events = POLLIN},
                             {.fd = 1, .events = 0}};
        int64_t left = f->wrote_ms + NODE_BEAT_MS - clock_mono_ms();
        int n = poll(p, sizeof p / sizeof *p, left > 0 && !f->queue ? (int)left : 0);
        if (n < 0 && errno != EINTR)
            return;
        if (p[2].revents & (POLLERR | POLLHUP))
            f->broken = true;
        if (p[0].revents)
            read_changes(f);
        if (f->queue)
            send_turn(f);
        char byte;
        if (p[1].revents && read(f->agent_fd, &byte, 1) <= 0)
            return;
        if (clock_mono_ms() - f->wrote_ms >= NODE_BEAT_MS)
            send_beat(f);
    }
}

static void send_end(struct follow_writer *f) {
    enum node_state state;
    struct strbuf header = {0};
    struct json_out j;
    const struct json *status = node_run_state(&f->arena, f->run_dir, &state, NULL);
    int64_t exit_status = status ? json_get_int(status, "exit_status", -1) : -1;
    json_open(&j, &header);
    json_object(&j, NULL);
    json_str(&j, "end", node_state_name(state));
    json_int(&j, "exit_status", exit_status >= 0 ? exit_status : node_state_exit_status(state));
    json_end(&j);
    send_record(f, &header, NULL, 0);
    strbuf_fini(&header);
}

static int take_offsets(struct follow_writer *f, const char *from, struct err *e) {
    char *text;
    size_t len;
    struct json *root;
    if (!from)
        return 0;
    if (strcmp(from, "-") == 0) {
        if (node_read_record(&f->arena, NODE_ROSTER_WAIT_MS_MAX, &text, &len, e) < 0)
            return -1;
    } else {
        text = arena_strdup(&f->arena, from);
        len = strlen(from);
    }
    if (json_parse(&f->arena, text, len, &root, e) < 0)
        return err_wrap(e, "--from");
    for (const struct json *v = root->child; v && root->type == JSON_OBJECT; v = v->next) {
        struct followed *file =
            v->type == JSON_INT && v->integer >= 0 ? file_named(f, v->key) : NULL;
        if (!file)
            return err_set(e, ERR_USAGE, "--from: '%.100s' has no usable offset", v->key);
        file->offset = v->integer;
    }
    return 0;
}

static int follow_open(struct follow_writer *f, const struct node_args *args, struct err *e) {
    enum node_state state;
    f->run_dir = node_run_dir(&f->arena, args, args->run);
    f->only = args->only ? args->only : "";
    f->wrote_ms = clock_mono_ms();
    if (f->only[0] && strcmp(f->only, "events") != 0 && strcmp(f->only, "logs") != 0)
        return err_set(e, ERR_USAGE, "--only is neither events nor logs");
    if (file_is_absent(file_join(&f->arena, f->run_dir, "job.toml")))
        return err_set(e, ERR_NOT_FOUND, "run '%s' is not known on this node", args->run);
    if (take_offsets(f, args->from, e) < 0)
        return -1;
    if (file_changes_open(&f->changes, e) < 0)
        return -1;
    f->chunk = heap_alloc(CHUNK_BYTES);
    f->events_chunk = heap_alloc(CHUNK_BYTES);
    node_run_state(&f->arena, f->run_dir, &state, &f->agent_fd);
    // An error shows as the end of the connection.
    if (f->agent_fd >= 0)
        (void)!send(f->agent_fd, CONTROL_WAIT, sizeof CONTROL_WAIT - 1, MSG_NOSIGNAL);
    return 0;
}

int node_follow(const struct node_call *c) {
    struct follow_writer f = {.changes = CHANGES_CLOSED, .agent_fd = -1, .queue_end = &f.queue};
    struct node_args args;
    struct err e;
    int rc = node_args(&f.arena, c, true, &args, &e);
    if (rc == 0)
        rc = follow_open(&f, &args, &e);
    if (rc == 0) {
        watch_folder(&f, "");
        if (f.agent_fd >= 0 && !args.once)
            follow_live(&f);
        f.last = true; // the last pass
        scan_folder(&f, "", true);
        while (f.queue && !f.broken)
            send_turn(&f);
        if (!f.broken)
            send_end(&f);
    }
    file_changes_close(&f.changes);
    name_map_fini(&f.files);
    name_map_fini(&f.folders);
    free(f.watched);
    free(f.polled);
    free(f.chunk);
    free(f.events_chunk);
    arena_fini(&f.arena);
    if (rc < 0)
        return node_fail(&e);
    return f.broken;
}
