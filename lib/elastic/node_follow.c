// SPDX-License-Identifier: Apache-2.0
// `dtrun --node follow`: streams the files of a run as they grow, until the run ends here. The
// files are the truth and every record names file and offset, so a follower that was cut off goes
// on where it stopped. Folders are watched as they change; the agent's end is seen on its control
// socket.
#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "elastic/node_io.h"
#include "sys/changes.h"
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 128 << 10, FILES_MAX = 65536, FOLDERS_MAX = 65536, PATH_MAX_BYTES = 512 };

struct followed {
    char path[PATH_MAX_BYTES]; // relative to the run's folder
    int64_t offset;
};

struct folder {
    char path[PATH_MAX_BYTES]; // "" is the run's folder itself
    int watch;                 // 0: looked at every now and then
};

struct follow {
    struct arena arena;
    const char *run_dir;
    const char *only; // "", "events" or "logs"
    struct changes changes;
    int agent_fd;
    struct followed *files;
    int file_count;
    struct folder *folders;
    int folder_count;
    char *chunk;
    bool broken; // nobody reads any more
    int64_t wrote_ms;
};

static void send_record(struct follow *f, const struct strbuf *header, const char *p, size_t len) {
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

static void send_bytes(struct follow *f, struct followed *file, const char *p, size_t len) {
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

static bool is_story(const char *path) {
    return strcmp(path, "events.jsonl") == 0 || strcmp(path, "output/metrics.jsonl") == 0;
}

// Sends what is new in a file. last: also an unfinished line at its end.
static void pump(struct follow *f, struct followed *file, bool last) {
    char path[FILE_PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", f->run_dir, file->path);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !f->broken) {
        ssize_t n = pread(fd, f->chunk, CHUNK_BYTES, file->offset);
        if (n <= 0)
            return;
        size_t len = (size_t)n;
        if (is_story(file->path) && !last) {
            const char *end = memrchr(f->chunk, '\n', len);
            if (end)
                len = (size_t)(end - f->chunk) + 1;
            else if (len < CHUNK_BYTES) // a line longer than that is cut after all
                return;
        }
        send_bytes(f, file, f->chunk, len);
    }
}

static struct followed *file_named(struct follow *f, const char *path) {
    for (int i = 0; i < f->file_count; i++)
        if (strcmp(f->files[i].path, path) == 0)
            return &f->files[i];
    if (f->file_count >= FILES_MAX || strlen(path) >= PATH_MAX_BYTES)
        return NULL;
    if ((f->file_count & (f->file_count + 1)) == 0) // room for the next power of two
        f->files = heap_realloc(f->files, (size_t)(f->file_count + 1) * 2 * sizeof *f->files);
    struct followed *n = &f->files[f->file_count++];
    *n = (struct followed){0};
    snprintf(n->path, sizeof n->path, "%s", path);
    return n;
}

static bool all_digits(const char *s) {
    return s[0] && s[strspn(s, "0123456789")] == '\0';
}

static bool is_attempt(const char *s) {
    return str_starts(s, "attempt_") && all_digits(s + strlen("attempt_"));
}

// Which folders and files of a run are followed.
static bool want_folder(const char *parent, const char *name) {
    if (!parent[0])
        return is_attempt(name) || strcmp(name, "output") == 0;
    return is_attempt(parent) && all_digits(name);
}

static bool want_file(const struct follow *f, const char *parent, const char *name) {
    bool story = (!parent[0] && strcmp(name, "events.jsonl") == 0) ||
                 (strcmp(parent, "output") == 0 && strcmp(name, "metrics.jsonl") == 0);
    bool log = (!parent[0] && strcmp(name, "agent.log") == 0) ||
               (str_starts(parent, "attempt_") && strchr(parent, '/') &&
                (strcmp(name, "stdout.log") == 0 || strcmp(name, "stderr.log") == 0 ||
                 strcmp(name, "error.json") == 0));
    return (story && strcmp(f->only, "logs") != 0) || (log && strcmp(f->only, "events") != 0);
}

static void scan_folder(struct follow *f, const char *path, bool last);

static void watch_folder(struct follow *f, const char *path) {
    char full[FILE_PATH_BYTES_MAX];
    for (int i = 0; i < f->folder_count; i++)
        if (strcmp(f->folders[i].path, path) == 0)
            return;
    if (f->folder_count >= FOLDERS_MAX || strlen(path) >= PATH_MAX_BYTES)
        return;
    snprintf(full, sizeof full, "%s/%s", f->run_dir, path);
    int watch = changes_add(&f->changes, full, IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_ONLYDIR);
    if (watch < 0)
        return;
    if ((f->folder_count & (f->folder_count + 1)) == 0)
        f->folders =
            heap_realloc(f->folders, (size_t)(f->folder_count + 1) * 2 * sizeof *f->folders);
    struct folder *n = &f->folders[f->folder_count++];
    n->watch = watch;
    snprintf(n->path, sizeof n->path, "%s", path);
    scan_folder(f, path, false); // what was made before the watch
}

static void look_at(struct follow *f, const char *parent, const char *name, bool last) {
    char path[PATH_MAX_BYTES * 2];
    snprintf(path, sizeof path, "%s%s%s", parent, parent[0] ? "/" : "", name);
    if (want_file(f, parent, name)) {
        struct followed *file = file_named(f, path);
        if (file)
            pump(f, file, last);
    } else if (want_folder(parent, name)) {
        watch_folder(f, path);
        if (last)
            scan_folder(f, path, true);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return str_natural_cmp((*a)->d_name, (*b)->d_name);
}

static void scan_folder(struct follow *f, const char *path, bool last) {
    char full[FILE_PATH_BYTES_MAX], own[PATH_MAX_BYTES];
    struct dirent **list = NULL;
    snprintf(own, sizeof own, "%s", path); // may live in what grows below
    snprintf(full, sizeof full, "%s/%s", f->run_dir, own);
    int n = scandir(full, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.' && !f->broken)
            look_at(f, own, list[i]->d_name, last);
        free(list[i]);
    }
    free(list);
}

static void read_changes(struct follow *f) {
    char buf[65536] __attribute__((aligned(8)));
    size_t n;
    while ((n = changes_read(&f->changes, buf, sizeof buf)) > 0) {
        for (size_t at = 0; at < n;) {
            const struct inotify_event *ev = (const void *)(buf + at);
            at += sizeof *ev + ev->len;
            if (ev->mask & IN_Q_OVERFLOW)
                scan_folder(f, "", true);
            for (int i = 0; i < f->folder_count && ev->len > 0; i++) {
                char parent[PATH_MAX_BYTES];
                if (f->folders[i].watch != ev->wd)
                    continue;
                snprintf(parent, sizeof parent, "%s", f->folders[i].path);
                look_at(f, parent, ev->name, false);
                break;
            }
        }
    }
    bool look = changes_ticked(&f->changes);
    for (int i = 0; look && i < f->folder_count; i++)
        if (f->folders[i].watch == 0)
            scan_folder(f, f->folders[i].path, false);
}

static void send_beat(struct follow *f) {
    struct strbuf header = {0};
    strbuf_addf(&header, "{\"beat\":%lld}", (long long)clock_wall_ms());
    send_record(f, &header, NULL, 0);
    strbuf_fini(&header);
}

// Until the agent is gone or nobody reads.
static void follow_live(struct follow *f) {
    while (!f->broken) {
        struct pollfd p[] = {{.fd = f->changes.fd, .events = POLLIN},
                             {.fd = f->agent_fd, .events = POLLIN},
                             {.fd = 1, .events = 0}};
        int64_t left = f->wrote_ms + NODE_BEAT_MS - clock_mono_ms();
        int n = poll(p, 3, left > 0 ? (int)left : 0);
        if (n < 0 && errno != EINTR)
            return;
        if (p[2].revents & (POLLERR | POLLHUP))
            f->broken = true;
        if (p[0].revents)
            read_changes(f);
        char byte;
        if (p[1].revents && read(f->agent_fd, &byte, 1) <= 0)
            return;
        if (clock_mono_ms() - f->wrote_ms >= NODE_BEAT_MS)
            send_beat(f);
    }
}

static void send_end(struct follow *f) {
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

static int take_offsets(struct follow *f, const char *from, struct err *e) {
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

static int follow_open(struct follow *f, const struct node_args *args, struct err *e) {
    enum node_state state;
    f->run_dir = node_run_dir(&f->arena, args, args->run);
    f->only = args->only ? args->only : "";
    f->wrote_ms = clock_mono_ms();
    if (f->only[0] && strcmp(f->only, "events") != 0 && strcmp(f->only, "logs") != 0)
        return err_set(e, ERR_USAGE, "--only is neither events nor logs");
    if (!file_exists(file_join(&f->arena, f->run_dir, "job.toml")))
        return err_set(e, ERR_NOT_FOUND, "run '%s' is not known on this node", args->run);
    if (take_offsets(f, args->from, e) < 0)
        return -1;
    if (changes_open(&f->changes, e) < 0)
        return -1;
    f->chunk = heap_alloc(CHUNK_BYTES);
    node_run_state(&f->arena, f->run_dir, &state, &f->agent_fd);
    return 0;
}

int node_follow(int argc, char **argv) {
    struct follow f = {.changes = CHANGES_CLOSED, .agent_fd = -1};
    struct node_args args;
    struct err e;
    int rc = node_args(&f.arena, argc, argv, true, &args, &e);
    if (rc == 0)
        rc = follow_open(&f, &args, &e);
    if (rc == 0) {
        watch_folder(&f, "");
        if (f.agent_fd >= 0 && !args.once)
            follow_live(&f);
        scan_folder(&f, "", true); // whatever came last
        if (!f.broken)
            send_end(&f);
    }
    changes_close(&f.changes);
    free(f.files);
    free(f.folders);
    free(f.chunk);
    arena_fini(&f.arena);
    if (rc < 0)
        return node_fail(&e);
    return f.broken;
}
