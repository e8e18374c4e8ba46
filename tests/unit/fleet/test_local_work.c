// SPDX-License-Identifier: Apache-2.0
// Long work on files of this computer, between whose pieces or beside which the loop runs.
#include "base/clock.h"
#include "content/tree_merge.h"
#include "fleet/hashing.h"
#include "fleet/local_work.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000 };
#define LARGE_BYTES ((uint64_t)1 << 28)

static char folder[] = "/tmp/test_local_work.XXXXXX";
static struct arena arena;
static struct screen screen;
static struct context context = {.arena = &arena, .screen = &screen};
static struct err e;

static const char *in(const char *name) {
    return file_join(&arena, folder, name);
}

static void put_large(const char *name) {
    if (file_make_dirs(file_dir(&arena, in(name)), 0755, &e) < 0)
        bail_out("%s", e.text);
    int fd = open(in(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)LARGE_BYTES) < 0)
        bail_out("%s", in(name));
    close(fd);
}

// ---- between pieces -----------------------------------------------------------------------------

static int turns; // of the loop, by a timer

static void on_turn(struct timer *t) {
    turns++;
    timer_start(context.loop, t, 0, on_turn);
}

// A signal that comes with the second turn ends the work, long before all is read.
static void on_second(struct timer *t) {
    turns++;
    if (turns == 2)
        raise(SIGTERM);
    timer_start(context.loop, t, 0, on_second);
}

static int merge(struct local_work *w, const char *to) {
    const char *folders[] = {in("a"), in("b"), NULL};
    static const char *const nodes[] = {"a", "b", NULL};
    return tree_merge(in(to), folders, nodes, &w->ticks, &e);
}

static void test_between(void) {
    struct local_work w;
    struct timer turn = {0};
    put_large("a/large");
    put_large("b/large");
    e = (struct err){0};
    turns = 0;
    timer_start(context.loop, &turn, 0, on_second);
    local_work_begin(&w, &context, "merge");
    is_int(merge(&w, "merged"), -1, "a signal ends a merge");
    is_int(e.code, ERR_INTERRUPTED, "the error says that it was stopped: %s", e.text);
    ok(w.bytes < 2 * LARGE_BYTES, "the merge has not read all: %llu MiB",
       (unsigned long long)w.bytes >> 20);
    local_work_end(&w);
    ok(file_is_absent(in("merged")), "nothing is merged");
    is_int(context_take_interrupt(&context), SIGTERM, "the signal is the context's");
    e = (struct err){0};
    timer_stop(&turn);
    turns = 0;
    timer_start(context.loop, &turn, 0, on_turn);
    local_work_begin(&w, &context, "merge");
    is_int(merge(&w, "merged"), 0, "a merge is completed: %s", e.text);
    local_work_end(&w);
    timer_stop(&turn);
    ok(turns > 1, "the loop has turned meanwhile: %d times", turns);
    is_uint(w.bytes, 2 * LARGE_BYTES, "the bytes that were compared are counted");
}

// ---- beside the loop ----------------------------------------------------------------------------

static int ends;
static struct err ended_with;

static void on_hashed(struct hashing *h, const struct err *why) {
    (void)h;
    ends++;
    ended_with = *why;
}

static int follow(struct hashing *h, struct manifest *m, const char *local) {
    ends = 0;
    return hashing_follow(h, &context, m, local, "state", on_hashed, &e);
}

static void wait_for_end(void) {
    int64_t until = clock_mono_ms() + PATIENCE_MS;
    while (!ends && clock_mono_ms() < until)
        loop_once(context.loop, 100);
}

static void test_beside(void) {
    static struct hashing h;
    struct manifest *m = manifest_new();
    put_large("state/large");
    uint64_t before = bytes_read();
    is_int(follow(&h, m, in("state")), 0, "a folder is hashed beside the loop: %s", e.text);
    int64_t until = clock_mono_ms() + PATIENCE_MS;
    while (bytes_read() - before < 8 << 20 && clock_mono_ms() < until)
        loop_once(context.loop, 1);
    hashing_cancel(&h);
    ok(bytes_read() - before < LARGE_BYTES, "a cancel does not wait for all of it");
    ok(!h.context && !ends, "a cancelled one calls nothing");
    hashing_cancel(&h);
    manifest_free(m);
    if (truncate(in("state/large"), 5 << 20) < 0)
        bail_out("truncate");
    m = manifest_new();
    is_int(follow(&h, m, in("state")), 0, "a smaller folder is hashed: %s", e.text);
    is_int(ends, 0, "the end does not come at once");
    wait_for_end();
    is_int(ends, 1, "the loop brings the end once");
    ok(ended_with.code == ERR_NONE && !h.context, "the folder is hashed without an error");
    ok(m->count == 2 && m->entries[1].hashed,
       "the list has the folder and its file, which is hashed");
    is_str(m->entries[1].path, "state/large", "the file has its path at the destination");
    manifest_free(m);
    m = manifest_new();
    is_int(follow(&h, m, in("nothing")), 0, "a folder that is absent is followed, too");
    wait_for_end();
    is_int(ended_with.code, ERR_NOT_FOUND, "the error is that of the absent folder: %s",
           ended_with.text);
    manifest_free(m);
}

int main(void) {
    auto_close int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (!mkdtemp(folder) || nowhere < 0)
        bail_out("mkdtemp");
    screen_init(&screen, nowhere, nowhere, SCREEN_PLAIN, false);
    context.loop = loop_open(&e);
    if (!context.loop || context_signals(&context, &e) < 0)
        bail_out("%s", e.text);
    test_between();
    test_beside();
    loop_close(context.loop);
    screen_fini(&screen);
    is_int(file_remove_tree(folder, &e), 0, "all files are removed");
    arena_fini(&arena);
    return done_testing();
}
