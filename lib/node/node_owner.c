// SPDX-License-Identifier: Apache-2.0
// `dtrun --node own`, `fetched` and `clean`: owners of the root and of its runs, fetched results,
// and removal.
#include "base/array.h"
#include "node/node_verb.h"
#include "sys/file.h"
#include "sys/file_entries.h"

#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUNS_MAX = 100000, OWNERS_MAX = 1000, LIST_BYTES_MAX = 16 << 20, LEFT_SHOWN_MAX = 20 };

struct names {
    char **items;
    size_t count;
};

// ---- marks --------------------------------------------------------------------------------------

static int write_mark(const char *path, const char *text, struct err *e) {
    char *line = NULL;
    struct arena a = {0};
    line = arena_printf(&a, "%s\n", text);
    int rc = file_write_atomic(path, line, strlen(line), 0644, e);
    arena_fini(&a);
    return rc;
}

static int list(struct arena *a, const char *dir, size_t max, struct names *out, struct err *e) {
    size_t room = 0;
    struct file_entries in = file_entries_open(dir);
    while (out->count < max && file_entries_next(&in)) {
        if (in.name[0] == '.')
            continue;
        array_grow_in(a, out->items, &room, out->count + 1);
        out->items[out->count++] = arena_strdup(a, in.name);
    }
    return file_entries_close(&in, 0, e);
}

static char *words_of(struct arena *a, const char *dir, const char *id) {
    char *text = NULL;
    size_t len = 0;
    struct err ignored = {0};
    if (file_read(a, file_join(a, dir, id), NODE_OWNER_TEXT_BYTES_MAX + 1, &text, &len, &ignored) <
        0)
        return arena_strdup(a, id);
    text[strcspn(text, "\n")] = 0;
    return text;
}

// The folder of this cluster had another id before, which is lost. Files with that id have no other
// owner.
static void replace_marks(struct arena *a, const char *dir, const struct node_args *args) {
    struct names ids = {0};
    (void)list(a, dir, OWNERS_MAX, &ids, NULL); // a mark that stays only hinders removal
    for (size_t i = 0; i < ids.count; i++)
        if (strcmp(ids.items[i], args->owner) != 0 &&
            strcmp(words_of(a, dir, ids.items[i]), args->text) == 0)
            unlink(file_join(a, dir, ids.items[i]));
}

int node_own(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e;
    int rc = node_args(&a, c, false, &args, &e);
    if (rc == 0 && (!args.owner || !args.text || strlen(args.text) > NODE_OWNER_TEXT_BYTES_MAX))
        rc = err_set(&e, ERR_USAGE, "--node own: needs --owner and --text of at most %d bytes",
                     NODE_OWNER_TEXT_BYTES_MAX);
    const char *dir = rc == 0 ? file_join(&a, args.root, "owners") : NULL;
    if (rc == 0)
        rc = file_make_dirs(dir, 0700, &e);
    if (rc == 0)
        rc = write_mark(file_join(&a, dir, args.owner), args.text, &e);
    if (rc == 0)
        replace_marks(&a, dir, &args);
    arena_fini(&a);
    return rc < 0 ? node_fail(&e) : node_answer_event("owned") < 0;
}

int node_fetched(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e;
    enum node_state state = NODE_LOST;
    int fd = -1;
    int rc = node_args(&a, c, true, &args, &e);
    if (rc == 0 && !node_is_run(&a, &args, args.run))
        rc = err_set(&e, ERR_NOT_FOUND, "run '%s' is not known on this node", args.run);
    const char *dir = rc == 0 ? node_run_dir(&a, &args, args.run) : NULL;
    if (rc == 0)
        node_run_state(&a, dir, &state, &fd);
    if (fd >= 0)
        close(fd);
    if (rc == 0 && fd >= 0 && !node_state_is_final(state))
        rc = err_set(&e, ERR_BUSY, "run '%s' is %s", args.run, node_state_name(state));
    if (rc == 0)
        rc = write_mark(file_join(&a, dir, "fetched"), "1", &e);
    arena_fini(&a);
    return rc < 0 ? node_fail(&e) : node_answer_event("fetched") < 0;
}

// ---- removing -----------------------------------------------------------------------------------

static int64_t removed_bytes;

static int add_size(const char *path, const struct stat *st, int type, struct FTW *f) {
    (void)path;
    (void)type;
    (void)f;
    removed_bytes += (int64_t)st->st_blocks * 512;
    return 0;
}

static int remove_tree(const char *path, struct err *e) {
    enum { OPEN_FOLDERS_MAX = 32 };
    nftw(path, add_size, OPEN_FOLDERS_MAX, FTW_PHYS);
    return file_remove_tree(path, e);
}

static bool is_mine(struct arena *a, const struct node_args *args, const char *run) {
    const char *owner = args->owner ? node_run_owner(a, args, run) : NULL;
    return !owner || strcmp(owner, args->owner) == 0;
}

// --force ignores a living agent. An agent whose run is over ends by itself.
static int check_idle(struct arena *a, const struct node_args *args, const char *run,
                      struct err *e) {
    enum node_state state;
    int fd = -1;
    int rc = 0;
    node_run_state(a, node_run_dir(a, args, run), &state, &fd);
    if (fd >= 0 && !args->force && node_state_is_final(state))
        rc = node_await_end(fd, NODE_STOP_MARGIN_MS, e);
    else if (fd >= 0 && !args->force)
        rc = err_set(e, ERR_BUSY, "run '%s' is %s (try: dtctl stop %s)", run,
                     node_state_name(state), run);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int check_fetched(struct arena *a, const struct node_args *args, const char *run,
                         struct err *e) {
    if (!args->discard && !node_run_is_fetched(a, args, run))
        return err_set(e, ERR_EXISTS,
                       "the results of run '%s' were not fetched (try: dtctl fetch %s)", run, run);
    return 0;
}

static int end_run(struct arena *a, const struct node_args *args, const char *run, struct err *e) {
    enum node_state state;
    int fd = -1;
    const struct json *status = node_run_state(a, node_run_dir(a, args, run), &state, &fd);
    if (fd < 0)
        return 0;
    int64_t pid = status ? json_get_int(status, "pid", 0) : 0;
    if (pid > 1)
        kill((pid_t)pid, SIGKILL); // its guard kills the workers
    int rc = node_await_end(fd, NODE_STOP_MARGIN_MS, e);
    close(fd);
    return rc;
}

static int clean_run(struct arena *a, const struct node_args *args, const char *run,
                     struct err *e) {
    return end_run(a, args, run, e) < 0 ? -1 : remove_tree(node_run_dir(a, args, run), e);
}

// Reads the runs that were fetched according to the caller, from standard input.
static int read_fetched(struct arena *a, struct names *out, struct err *e) {
    struct strbuf text = {0};
    char part[65536];
    ssize_t n;
    strbuf_init(&text, LIST_BYTES_MAX);
    while ((n = read(0, part, sizeof part)) > 0 || err_interrupted(n))
        if (n > 0)
            strbuf_add(&text, part, (size_t)n);
    int rc = n < 0 ? err_errno(e, ERR_SYS, "cannot read standard input") : 0;
    if (rc == 0 && text.overflow)
        rc = err_set(e, ERR_LIMIT, "the list of runs is longer than %d bytes", LIST_BYTES_MAX);
    if (rc == 0)
        out->count = str_split(a, arena_strdup(a, strbuf_cstr(&text)), '\n', &out->items);
    strbuf_fini(&text);
    return rc;
}

// Names the other clusters that use this root; their marks are kept.
static int add_others(struct arena *a, const struct node_args *args, struct names *others,
                      struct err *e) {
    const char *dir = file_join(a, args->root, "owners");
    struct names ids = {0};
    if (list(a, dir, OWNERS_MAX, &ids, e) < 0)
        return -1;
    others->items = arena_new(a, char *, ids.count + 1);
    for (size_t i = 0; i < ids.count && args->owner; i++)
        if (strcmp(ids.items[i], args->owner) != 0)
            others->items[others->count++] = words_of(a, dir, ids.items[i]);
    return 0;
}

// Removes the root if it is empty, and its parent folder after the last node's part.
static void remove_root(struct arena *a, const char *root) {
    const char *nodes = file_dir(a, root);
    if (rmdir(root) == 0 && str_eq(file_base(nodes), "nodes") && rmdir(nodes) == 0)
        rmdir(file_dir(a, nodes));
}

static int clean_all(struct arena *a, const struct node_args *args, struct names *others,
                     struct err *e) {
    static const char *const made[] = {"runs",  "cas",    "bin",   "tmp",  "inputs", "files",
                                       "cache", "hashes", "setup", "envs", "owners"};
    const char *runs_dir = file_join(a, args->root, "runs");
    struct names runs = {0}, fetched = {0};
    int rc = list(a, runs_dir, RUNS_MAX, &runs, e);
    if (rc == 0 && args->fetched)
        rc = read_fetched(a, &fetched, e);
    for (size_t i = 0; i < runs.count && rc == 0; i++)
        if (is_mine(a, args, runs.items[i]) && node_is_run(a, args, runs.items[i]))
            rc = check_idle(a, args, runs.items[i], e);
    for (size_t i = 0; i < runs.count && rc == 0; i++)
        if (is_mine(a, args, runs.items[i]) && node_is_run(a, args, runs.items[i]) &&
            !str_is_among(runs.items[i], (const char *const *)fetched.items, fetched.count))
            rc = check_fetched(a, args, runs.items[i], e);
    for (size_t i = 0; i < runs.count && rc == 0; i++)
        if (is_mine(a, args, runs.items[i]))
            rc = clean_run(a, args, runs.items[i], e);
    if (rc == 0)
        rc = add_others(a, args, others, e);
    if (rc == 0 && others->count)
        return remove_tree(arena_printf(a, "%s/owners/%s", args->root, args->owner), e);
    for (size_t i = 0; i < sizeof made / sizeof *made && rc == 0; i++)
        rc = remove_tree(file_join(a, args->root, made[i]), e);
    if (rc == 0)
        remove_root(a, args->root);
    return rc;
}

static int answer(struct arena *a, const struct node_args *args, const struct names *others) {
    struct strbuf line = {0};
    struct json_out j;
    struct names left = {0};
    if (args->all && others->count == 0)
        (void)list(a, args->root, LEFT_SHOWN_MAX, &left, NULL);
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "cleaned");
    json_int(&j, "removed_bytes", removed_bytes);
    json_array(&j, "others");
    for (size_t i = 0; i < others->count; i++)
        json_str(&j, NULL, others->items[i]);
    json_end(&j);
    json_array(&j, "left");
    for (size_t i = 0; i < left.count; i++)
        json_str(&j, NULL, left.items[i]);
    json_end(&j);
    json_end(&j);
    int rc = node_answer(&line) < 0;
    strbuf_fini(&line);
    return rc;
}

int node_clean(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct names others = {0};
    struct err e;
    removed_bytes = 0;
    int rc = node_args(&a, c, false, &args, &e);
    if (rc == 0 && args.all)
        rc = clean_all(&a, &args, &others, &e);
    else if (rc == 0 && args.run && !is_mine(&a, &args, args.run))
        rc = err_set(&e, ERR_EXISTS, "run '%s' belongs to another cluster", args.run);
    else if (rc == 0 && args.run && node_is_run(&a, &args, args.run) &&
             (check_idle(&a, &args, args.run, &e) < 0 ||
              check_fetched(&a, &args, args.run, &e) < 0))
        rc = -1;
    else if (rc == 0 && args.run)
        rc = clean_run(&a, &args, args.run, &e);
    else if (rc == 0)
        rc = err_set(&e, ERR_USAGE, "--node clean: --run or --all is missing");
    if (rc == 0)
        rc = answer(&a, &args, &others);
    else
        rc = node_fail(&e);
    arena_fini(&a);
    return rc;
}
