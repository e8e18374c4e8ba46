// SPDX-License-Identifier: Apache-2.0
// Merges folders of several nodes into one: nothing outside of it changes, also across file
// systems.
#include "base/str.h"
#include "content/tree_merge.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"
#include "tests/unit/shell.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test_tree_merge.XXXXXX", other[] = "/dev/shm/test_tree_merge.XXXXXX";
static struct arena arena;

// Runs a line in the folder of this test.
static void prepare(const char *line) {
    if (shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) != 0)
        bail_out("%s", line);
}

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static struct content_ticks ticks;

static int merge(const char *dest, const char *a, const char *b, struct err *e) {
    const char *folders[] = {file_join(&arena, folder, a), b ? file_join(&arena, folder, b) : NULL,
                             NULL};
    const char *const nodes[] = {"alpha", "beta", NULL};
    *e = (struct err){0};
    return tree_merge(file_join(&arena, folder, dest), folders, nodes, &ticks, e);
}

static void test_links(void) {
    struct err e;
    prepare("mkdir -p victim out a/logs b && ln -s ../victim out/logs &&"
            "echo key >a/logs/authorized_keys && echo v >victim/here");
    is_int(merge("out", "a", NULL, &e), 0, "a folder is merged where a link is%s", e.text);
    ok(holds("[ \"$(ls victim)\" = here ]"), "the folder that it leads to stays as it was");
    ok(holds("[ ! -L out/logs ] && [ -f out/logs/authorized_keys ] && [ ! -e a ]"),
       "a folder takes the place of the link");
    prepare("mkdir -p one two/x && ln -s ../victim one/x && echo key >two/x/authorized_keys");
    is_int(merge("both", "one", NULL, &e), 0, "the first node's link is merged");
    is_int(merge("both", "two", NULL, &e), 0, "the second node's file below the link is merged");
    ok(holds("[ \"$(ls victim)\" = here ] && [ -f both/x/authorized_keys ]"),
       "the file is written into a folder, not through the link");
    prepare("mkdir -p deep/p/q && echo 1 >deep/p/q/f && ln -s ../../victim both/p");
    is_int(merge("both", "deep", NULL, &e), 0, "a link further up");
    ok(holds("[ \"$(ls victim)\" = here ] && [ -f both/p/q/f ]"),
       "a link in a parent folder is not followed");
}

static void test_own(void) {
    struct err e;
    prepare("mkdir -p here/.dtctl/default bad/.dtctl/default && echo good >here/.dtctl/default/k &&"
            "echo evil >bad/.dtctl/default/k");
    is_int(merge("here", "bad", NULL, &e), -1, "dtctl's own folder is no place for results");
    has_str(e.text, "node alpha sent '.dtctl", "the error names the node and the path");
    is_int(e.code, ERR_EXISTS, "the error is 'exists'");
    ok(holds("[ \"$(cat here/.dtctl/default/k)\" = good ]"), "nothing has changed");
    is_int(merge("there", "bad", NULL, &e), 0, "elsewhere '.dtctl' is an ordinary folder");
}

static void test_together(void) {
    struct err e;
    prepare("mkdir -p n1/d n2/d n3 && echo 1 >n1/d/one && echo 2 >n2/d/two && echo s >n1/same &&"
            "echo s >n2/same && echo t >n3/same && ln -s same n1/link && mkdir n1/empty");
    is_int(merge("sum", "n1", "n3", &e), -1, "files that contradict each other are refused");
    is_int(e.code, ERR_EXISTS, "contradicting files are an error");
    ok(holds("[ ! -e sum ] && [ -e n1/d/one ]"), "contradicting files move nothing");
    has_str(e.text, "1 files differ between alpha and beta, the first one is 'same'",
            "the error names nodes and file");
    prepare("mkdir m1 m2 m3 && echo 1 >m1/a && echo 2 >m2/a && echo 1 >m1/b && echo 2 >m2/b &&"
            "echo 1 >m1/c && echo 3 >m3/b && echo 3 >m3/d && ln -s x m3/c");
    is_int(merge("sum", "m1", "m2", &e), -1, "the first file differs");
    has_str(e.text, "2 files differ between alpha and beta, the first one is 'a'",
            "all differing files are counted");
    is_int(merge("sum", "m1", "m3", &e), -1, "files in the middle differ");
    has_str(e.text, "2 files differ between alpha and beta, the first one is 'b'",
            "a link that differs is counted");
    is_int(merge("sum", "m3", "m1", &e), -1, "the nodes are swapped");
    has_str(e.text, "2 files differ between alpha and beta, the first one is 'b'",
            "swapped nodes give the same error");
    prepare("mkdir l1 l2 l3 && ln -s x l1/k && ln -s x l2/k && ln -s y l3/k");
    is_int(merge("links", "l1", "l3", &e), -1, "two links that lead elsewhere clash");
    is_int(merge("links", "l1", "l2", &e), 0, "two equal links are merged%s", e.text);
    is_int(merge("sum", "n1", "n2", &e), 0, "two links that agree are merged%s", e.text);
    ok(holds("cd sum && [ \"$(cat d/one d/two same link | tr -d '\\n')\" = 12ss ] && [ -d empty ]"),
       "equal files become one");
}

// ---- steps --------------------------------------------------------------------------------------

static uint64_t read_before, most_read, counted_bytes;
static size_t ticks_count, ticks_max; // ticks_max: the tick that ends the work

static int on_tick(void *ctx, uint64_t bytes, struct err *e) {
    uint64_t now = bytes_read();
    (void)ctx;
    most_read = now - read_before > most_read ? now - read_before : most_read;
    counted_bytes += bytes;
    read_before = bytes_read();
    return ++ticks_count == ticks_max ? err_set(e, ERR_INTERRUPTED, "enough") : 0;
}

static int merge_in_steps(const char *dest, const char *b, size_t ticks_to_end, struct err *e) {
    ticks = (struct content_ticks){.tick = on_tick};
    most_read = counted_bytes = ticks_count = 0;
    ticks_max = ticks_to_end;
    read_before = bytes_read();
    int rc = merge(dest, "s1", b, e);
    ticks = (struct content_ticks){0};
    return rc;
}

// The caller of a merge is called between entries and between pieces of files.
static void test_steps(void) {
    enum { LARGE = 5000000, ENTRIES = 40, SPARE = 64 << 10 };
    struct err e;
    prepare("mkdir -p s1/d s2/d && for i in $(seq 38); do echo $i >s1/d/$i; done &&"
            "cp s1/d/7 s2/d && head -c 5000000 /dev/urandom >s1/large && cp s1/large s2");
    is_int(merge_in_steps("stepped", "s2", 1, &e), -1, "the first call ends a merge");
    is_int(e.code, ERR_INTERRUPTED, "the error is that of the call");
    ok(holds("[ ! -e stepped ]"), "nothing is moved before all is compared");
    is_int(merge_in_steps("stepped", "s2", 0, &e), 0, "a merge is completed%s", e.text);
    ok(most_read <= CONTENT_TICK_BYTES + SPARE, "little is read between two calls: %llu KiB",
       (unsigned long long)most_read >> 10);
    is_uint(counted_bytes, 2 * LARGE + 4, "progress counts the bytes that were compared");
    size_t all = ticks_count;
    ok(all >= (size_t)3 * ENTRIES + 2 * LARGE / CONTENT_TICK_BYTES,
       "each entry is a call when it is listed, compared and moved: %zu", all);
    prepare("mv stepped s1 && rm -f s1/large && head -c 5000000 /dev/zero >s1/large &&"
            "cp -r s1 copy && mkdir -p s2 && cp s1/large s2");
    is_int(merge_in_steps("again", "s2", all - 10, &e), -1, "a late call ends another merge");
    ok(holds("[ -e again/d/1 ] && [ -e s2/large ]"), "some files are moved by then");
    is_int(merge_in_steps("again", "s2", 0, &e), 0, "a further merge takes what is left%s", e.text);
    ok(holds("diff -r copy again"), "all files are there");
}

static void test_file_systems(void) {
    struct stat a, b;
    struct err e;
    if (!mkdtemp(other) || stat(folder, &a) < 0 || stat(other, &b) < 0 || a.st_dev == b.st_dev) {
        pass("# SKIP there is no second file system at /dev/shm");
        return;
    }
    prepare("mkdir -p far/d && echo 1 >far/d/one && ln -s d/one far/link && chmod 750 far/d/one &&"
            "touch -d @1000000000 far/d/one && head -c 17000000 /dev/zero >far/large");
    ticks = (struct content_ticks){.tick = on_tick};
    most_read = ticks_max = 0;
    read_before = bytes_read();
    is_int(merge(file_join(&arena, other, "out"), "far", NULL, &e), 0,
           "the destination is on another file system%s", e.text);
    ticks = (struct content_ticks){0};
    ok(most_read <= CONTENT_TICK_BYTES + (64 << 10), "little is copied between two calls: %llu KiB",
       (unsigned long long)most_read >> 10);
    ok(holds(arena_printf(&arena,
                          "cd %s/out && [ \"$(cat link)\" = 1 ] && "
                          "[ \"$(stat -c '%%a %%Y' d/one)\" = '750 1000000000' ] &&"
                          "[ $(wc -c <large) = 17000000 ] && [ -w large ]",
                          other)),
       "files, links, modes and times are there");
    ok(holds("[ ! -e far ]"), "merged files are moved away from the source");
    (void)file_remove_tree(other, &e);
}

int main(void) {
    struct err e;
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    test_links();
    test_own();
    test_together();
    test_steps();
    test_file_systems();
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
