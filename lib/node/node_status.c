// SPDX-License-Identifier: Apache-2.0
// `dtrun --node status`: lists the runs of this node, or shows one.
#include "agent/control_socket.h"
#include "base/array.h"
#include "node/node_verb.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RUNS_MAX = 100000,
    TAIL_BYTES = 16 << 10, // of each stream of rank 0
    TAIL_METRICS_BYTES = 8 << 10,
};

struct run_entry {
    char *name;
    const char *owner;
    bool fetched;
    const struct json *status;
    enum node_state state;
    int64_t created_ms;
};

static int by_age(const void *pa, const void *pb) {
    const struct run_entry *a = pa, *b = pb;
    if (a->created_ms != b->created_ms)
        return a->created_ms < b->created_ms ? -1 : 1;
    return strcmp(a->name, b->name);
}

// The newest sample of the agent. An agent of an older version answers without "every_ms".
static void add_sample(struct arena *a, const char *run_dir, struct json_out *j) {
    struct json *answer = NULL;
    struct err e = {0};
    auto_close int fd = control_connect(run_dir, NODE_AGENT_WAIT_MS, &e);
    if (fd < 0 && e.code == ERR_NOT_FOUND)
        return;
    if (fd < 0 || control_ask(fd, CONTROL_SAMPLE, NODE_AGENT_WAIT_MS, a, &answer, &e) < 0 ||
        answer->type != JSON_OBJECT) {
        json_bool(j, "silent", true);
        return;
    }
    const struct json *every = json_get(answer, "every_ms"), *sample = json_get(answer, "sample");
    if (every)
        json_value(j, every);
    if (sample)
        json_value(j, sample);
}

// The last bytes of a file, from the beginning of a line.
static void add_tail(struct arena *a, const char *path, size_t bytes, const char *key,
                     struct json_out *j) {
    struct stat st;
    char *text = arena_new(a, char, bytes);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    off_t from = st.st_size > (off_t)bytes ? st.st_size - (off_t)bytes : 0;
    ssize_t n = pread(fd, text, bytes, from);
    const char *begin = from > 0 && n > 0 ? memchr(text, '\n', (size_t)n) : text;
    if (n > 0 && begin)
        json_strn(j, key, begin, (size_t)(text + n - begin));
}

static void add_tails(struct arena *a, const char *run_dir, const struct json *status,
                      struct json_out *j) {
    const struct json *w = json_get(status, "workers");
    int64_t round = json_get_int(status, "round", -1), local = -1;
    for (w = w && w->type == JSON_ARRAY ? w->child : NULL; w && local < 0; w = w->next)
        if (json_get_int(w, "rank", -1) == 0)
            local = json_get_int(w, "local_rank", -1);
    if (round < 0 || local < 0)
        return;
    const char *dir =
        arena_printf(a, "%s/attempt_%lld/%lld", run_dir, (long long)round, (long long)local);
    json_object(j, "tail");
    add_tail(a, file_join(a, dir, "stdout.log"), TAIL_BYTES, "stdout", j);
    add_tail(a, file_join(a, dir, "stderr.log"), TAIL_BYTES, "stderr", j);
    add_tail(a, file_join(a, run_dir, "output/metrics.jsonl"), TAIL_METRICS_BYTES, "metrics", j);
    json_end(j);
}

// run_dir NULL: without a sample.
static int print_run(struct arena *a, const struct run_entry *r, const char *run_dir) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    if (!r->status) {
        json_str(&j, "run", r->name);
        json_str(&j, "state", node_state_name(r->state));
    }
    for (const struct json *v = r->status ? r->status->child : NULL; v; v = v->next) {
        if (strcmp(v->key, "state") == 0)
            json_str(&j, "state", node_state_name(r->state));
        else
            json_value(&j, v);
    }
    json_str(&j, "owner", r->owner);
    json_bool(&j, "fetched", r->fetched);
    if (run_dir && !node_state_is_final(r->state)) {
        add_sample(a, run_dir, &j);
        add_tails(a, run_dir, r->status, &j);
    }
    json_end(&j);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc;
}

static struct run_entry look_at(struct arena *a, const struct node_args *args, const char *name) {
    struct run_entry r = {.name = arena_strdup(a, name),
                          .owner = node_run_owner(a, args, name),
                          .fetched = node_run_is_fetched(a, args, name)};
    r.status = node_run_state(a, node_run_dir(a, args, name), &r.state, NULL);
    r.created_ms = r.status ? json_get_int(r.status, "created_ms", 0) : 0;
    return r;
}

static int list_runs(struct arena *a, const struct node_args *args, struct run_entry **out,
                     size_t *count, struct err *e) {
    struct file_entries in = file_entries_open(file_join(a, args->root, "runs"));
    size_t room = 0;
    while (*count < RUNS_MAX && file_entries_next(&in)) {
        if (!node_is_run(a, args, in.name))
            continue;
        array_grow(*out, &room, *count + 1);
        (*out)[(*count)++] = look_at(a, args, in.name);
    }
    if (*count)
        qsort(*out, *count, sizeof **out, by_age);
    return file_entries_close(&in, 0, e);
}

int node_status(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e;
    struct run_entry *list = NULL;
    size_t count = 0;
    int rc = 0;
    if (node_args(&a, c, false, &args, &e) < 0)
        return node_fail(&e);
    if (args.run && !node_is_run(&a, &args, args.run)) {
        err_set(&e, ERR_NOT_FOUND, "run '%s' is not known on this node", args.run);
        rc = node_fail(&e);
    } else if (args.run) {
        struct run_entry one = look_at(&a, &args, args.run);
        const char *dir = args.sample ? node_run_dir(&a, &args, args.run) : NULL;
        rc = print_run(&a, &one, dir) < 0;
    } else {
        rc = list_runs(&a, &args, &list, &count, &e) < 0 ? node_fail(&e) : 0;
    }
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = print_run(&a, &list[i], NULL) < 0;
    free(list);
    arena_fini(&a);
    return rc;
}
