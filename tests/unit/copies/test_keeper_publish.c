// SPDX-License-Identifier: Apache-2.0
// States that become generations, and generations that become the state again: which content is
// hashed anew, which files are newer than a generation, and failures.
#include "copies/keeper_impl.h"

#include "content/generation.h"
#include "sys/file.h"
#include "tests/unit/copies/pauses_pass.h"
#include "tests/unit/said.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct err e;
static struct arena arena;
static struct screen notes;
static char root[] = "/tmp/test_keeper_publish.XXXXXX";
static struct keeper_spec spec = {.node = "n0"};
static const char *own;
// ---- files --------------------------------------------------------------------------------------

static const char *at(const char *path) {
    return file_join(&arena, root, path);
}

static void lose(const char *path) {
    if (file_remove_tree(at(path), &e) < 0)
        bail_out("%s", e.text);
}

// The file was written that many seconds after the beginning of time.
static void put(const char *path, const char *text, int seconds) {
    const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    if (file_make_dirs(file_dir(&arena, at(path)), 0755, &e) < 0 ||
        file_write_atomic(at(path), text, strlen(text), 0640, &e) < 0 ||
        utimensat(AT_FDCWD, at(path), times, AT_SYMLINK_NOFOLLOW) < 0)
        bail_out("cannot write '%s'", path);
}

static void link_to(const char *path, const char *target) {
    if (symlink(target, at(path)) < 0)
        bail_out("cannot write '%s'", path);
}

static const char *text_of(const char *path) {
    char *text;
    size_t len;
    return file_read(&arena, at(path), 1 << 20, &text, &len, &e) < 0 ? "absent" : text;
}

// The list of the newest generation.
static struct manifest *newest(void) {
    struct manifest *m = NULL;
    char *list;
    size_t len;
    if (generation_list(&arena, own, generation_newest(own), &list, &len, &e) < 0 ||
        generation_decode(list, len, &m, &e) < 0)
        bail_out("%s", e.text);
    return m;
}

static const struct manifest_entry *entry(const struct manifest *m, const char *path) {
    size_t i = manifest_lower_bound(m, path);
    if (i == m->count || strcmp(m->entries[i].path, path) != 0)
        bail_out("the generation lacks '%s'", path);
    return &m->entries[i];
}

static bool has_hash_of(const struct manifest_entry *x, const char *text) {
    unsigned char hash[HASH_BYTES];
    hash_of(hash, text, strlen(text));
    return memcmp(hash, x->hash, HASH_BYTES) == 0;
}

static int publish(void) {
    said_clear();
    return keeper_publish(&spec, own, 0);
}

static void forget(void) {
    lose("state");
    lose("generations");
    lose("state.new");
}

// ---- publishing ---------------------------------------------------------------------------------

static void test_entries(void) {
    put("state/model", "one", 100);
    put("state/deep/.dtctl/part", "two", 100);
    link_to("state/newest", "model");
    is_int(publish(), KEEPER_NEW, "a state is published");
    struct manifest *m = newest();
    ok(has_hash_of(entry(m, "model"), "one") && has_hash_of(entry(m, "deep/.dtctl/part"), "two"),
       "each file has its hash, whatever its name");
    ok(entry(m, "newest")->kind == MANIFEST_LINK &&
           strcmp(entry(m, "newest")->target, "model") == 0,
       "a link has its target");
    ok(entry(m, "model")->mtime_ns == 100 * (int64_t)1000000000, "a file has its time");
    manifest_free(m);
    is_int(publish(), KEEPER_SAME, "the same state is published once");
    lose("generations/known");
    is_int(publish(), KEEPER_NEW, "a state that is not known to be there is published");
    while (generation_newest(own) > 0)
        if (file_remove_tree(file_dir(&arena, generation_path(&arena, own, generation_newest(own))),
                             &e) < 0)
            bail_out("%s", e.text);
    is_int(publish(), KEEPER_NEW, "a state whose generations are gone is published");
    is_str(said(), "", "nothing is logged");
}

enum { LARGE_BYTES = (1 << 20) + 1 }; // files that are linked, not copied

static const char *large(char fill) {
    char *text = arena_new(&arena, char, LARGE_BYTES + 1);
    memset(text, fill, LARGE_BYTES);
    return text;
}

static void rewrite(const char *path, const char *text, int seconds) {
    const struct timespec times[] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    int fd = open(at(path), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0 || file_write_all(fd, text, strlen(text), &e) < 0 || close(fd) < 0 ||
        utimensat(AT_FDCWD, at(path), times, 0) < 0)
        bail_out("cannot write '%s'", path);
}

static void test_hashes(void) {
    forget();
    put("state/b", large('b'), 100);
    put("state/d", large('d'), 100);
    put("state/f", large('f'), 100);
    put("state/h", "small", 100);
    is_int(publish(), KEEPER_NEW, "large files are published");
    lose("state/b");
    put("state/a", "new", 100);
    put("state/c", large('c'), 100);
    put("state/d", large('D'), 100);     // another file of the same size and time
    rewrite("state/f", large('F'), 200); // the same file, later
    put("state/z", "last", 100);
    is_int(publish(), KEEPER_NEW, "a changed state is published");
    struct manifest *m = newest();
    is_int((int)m->count, 6, "the generation has the files that are there");
    ok(has_hash_of(entry(m, "c"), large('c')), "a file between others has its hash");
    ok(has_hash_of(entry(m, "d"), large('D')), "a file that was replaced is hashed anew");
    ok(has_hash_of(entry(m, "f"), large('F')), "a file that was written anew is hashed anew");
    ok(has_hash_of(entry(m, "a"), "new") && has_hash_of(entry(m, "h"), "small") &&
           has_hash_of(entry(m, "z"), "last"),
       "the first, the last and a copied file have their hashes");
    manifest_free(m);
}

static void test_kept(void) {
    forget();
    put("state/a", large('a'), 100);
    put("state/x", "1", 100);
    is_int(publish(), KEEPER_NEW, "a large and a small file are published");
    // A file whose content changes without a trace is the one that was hashed.
    rewrite("state/a", large('b'), 100);
    put("state/x", "2", 101);
    is_int(publish(), KEEPER_NEW, "a state with another small file is published");
    struct manifest *m = newest();
    ok(has_hash_of(entry(m, "a"), large('a')), "a file of the same inode and time is not hashed");
    ok(entry(m, "a")->mtime_ns == 100 * (int64_t)1000000000, "the file has its time");
    manifest_free(m);
}

static void write_on(void) {
    static int count;
    count++;
    put("state/model", arena_printf(&arena, "%d", count), 1000 + count);
}

static void test_failures(void) {
    forget();
    is_int(publish(), KEEPER_SAME, "a state without files is none");
    put("state/model", "x", 100);
    in_pause = write_on;
    said_clear();
    is_int(keeper_publish(&spec, own, 61999), KEEPER_NOT_WHOLE,
           "a state that changes is not whole");
    has_str(said(),
            "the state is never whole for a second, so no other node has a copy seconds=61 "
            "reason=\"",
            "the user reads that the state is late");
    is_int(publish(), KEEPER_NOT_WHOLE, "a state that changes is not whole again");
    is_str(said(), "", "a state that is not late is not mentioned");
    in_pause = NULL;
    if (file_write_atomic(own, "", 0, 0600, &e) < 0) {
        lose("generations");
        if (file_write_atomic(own, "", 0, 0600, &e) < 0)
            bail_out("%s", e.text);
    }
    is_int(publish(), KEEPER_FAILED, "generations need their folder");
    has_str(said(), "the state of this node cannot be published reason=\"", "the user reads why");
    unlink(own);
    lose("state");
    put("state", "no folder", 100);
    is_int(publish(), KEEPER_FAILED, "a state that is no folder cannot be published");
    unlink(at("state"));
}

// ---- restoring ----------------------------------------------------------------------------------

static void begin_restore(void) {
    forget();
    put("state/model", "one", 100);
    put("state/deep/part", "two", 200);
    link_to("state/newest", "model");
    if (mkdir(at("state/hollow"), 0700) < 0 || publish() != KEEPER_NEW)
        bail_out("no generation");
}

static void test_restore(void) {
    struct stat x, y;
    char target[16] = "";
    begin_restore();
    lose("state");
    put("state.new/left", "over", 100); // of a process that was killed
    is_int(keeper_restore(&spec, own, &e), 0, "a generation becomes the state: %s", e.text);
    is_str(text_of("state/model"), "one", "a file is back");
    is_str(text_of("state/deep/part"), "two", "a file of a folder is back");
    ok(readlink(at("state/newest"), target, sizeof target - 1) == 5 && strcmp(target, "model") == 0,
       "a link is back");
    ok(!file_exists(at("state/left")) && !file_exists(at("state.new")),
       "nothing of an earlier attempt is there");
    ok(stat(at("state/model"), &x) == 0 &&
           stat(file_join(&arena, generation_path(&arena, own, generation_newest(own)), "model"),
                &y) == 0 &&
           x.st_ino == y.st_ino,
       "content is linked, not copied");
}

static void test_newer(void) {
    begin_restore();
    put("state/model", "older", 199);
    lose("state/deep");
    is_int(keeper_restore(&spec, own, &e), 0, "an older state is replaced");
    is_str(text_of("state/model"), "one", "the file is that of the generation");
    put("state/model", "same", 200);
    is_int(keeper_restore(&spec, own, &e), 0, "a state of the same time is replaced");
    is_str(text_of("state/model"), "one", "the file of the same time is that of the generation");
    lose("state/newest");
    link_to("state/newest", "deep"); // has the time of today
    is_int(keeper_restore(&spec, own, &e), 0, "a state with a new link is replaced");
    char target[16] = "";
    ok(readlink(at("state/newest"), target, sizeof target - 1) == 5, "the link is the old one");
    put("state/model", "sent", 201);
    is_int(keeper_restore(&spec, own, &e), 0, "a newer state is no error");
    is_str(text_of("state/model"), "sent", "a file that was written later stays");
    is_str(text_of("state/deep/part"), "two", "the other files of a newer state stay");
    put("state/model", "mine", 150);
    put("state/empty", "", 201);
    is_int(keeper_restore(&spec, own, &e), 0, "a newer state of an empty file is no error");
    is_str(text_of("state/model"), "mine", "an empty file that was written later counts, too");
}

static void test_unrestored(void) {
    begin_restore();
    const char *folder = generation_path(&arena, own, generation_newest(own));
    lose("state");
    unlink(file_join(&arena, folder, "model"));
    is_int(keeper_restore(&spec, own, &e), -1, "a generation that lacks a file is no state");
    is_str(
        e.text,
        arena_printf(&arena, "cannot make '%s/state.new/model': No such file or directory", root),
        "the error names the file");
    ok(!file_exists(at("state/deep/part")), "no part of it becomes the state");
    lose("generations");
    is_int(keeper_restore(&spec, own, &e), -1, "without a generation nothing is restored");
}

int main(void) {
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    umask(022);
    said_open(&notes);
    if (!mkdtemp(root))
        bail_out("no folder");
    spec.run_dir = root;
    own = at("generations");
    test_entries();
    test_hashes();
    test_kept();
    test_failures();
    test_restore();
    test_newer();
    test_unrestored();
    said_close(&notes);
    is_int(file_remove_tree(root, &e), 0, "the folder is removed");
    arena_fini(&arena);
    return done_testing();
}
