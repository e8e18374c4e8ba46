// SPDX-License-Identifier: Apache-2.0
// Both ends of a transfer without a network: sender and receiver exchange frames in memory, are
// interrupted at all kinds of places, and continue; and invalid frames.
#include "tests/unit/xfer/memory.h"

#include <fcntl.h>

// ---- tests ------------------------------------------------------------------------------------

static void test_whole(const struct manifest *m, bool replace, bool keep, bool compress) {
    const char *dest = arena_printf(&arena, "to-%d%d%d", replace, keep, compress);
    const char *store = arena_printf(&arena, "%s/store", keep ? "kept" : dest);
    struct run t = {.compress = compress};
    is_int(transfer(&t, m, dest, store, replace, keep), 0, "a transfer is completed: %s%s", dest,
           t.err.text[0] ? t.err.text : "");
    ok(same_tree("src", dest), "all is there");
    struct stat st;
    ok(stat(path_of(arena_printf(&arena, "%s/copy/big", dest)), &st) == 0 &&
           (st.st_mode & 0777) == 0600,
       "modes are set, too");
    (void)plan_bytes(&t);
    struct run again = {.compress = compress};
    is_int(transfer(&again, m, dest, store, replace, keep), 0, "the transfer is repeated");
    is_uint(plan_bytes(&again), 0, "nothing travels");
}

// Cuts after n content frames, again and again: each attempt must bring it further.
static void test_cuts(const struct manifest *m, bool keep) {
    const char *dest = keep ? "cut-kept" : "cut";
    const char *store = keep ? "cut-store" : "cut/.part";
    uint64_t left = UINT64_MAX;
    int attempts = 0, rc = -1;
    bool shrinks = true;
    while (rc < 0 && attempts++ < 30) {
        struct run t = {.compress = attempts % 2, .frames_max = 24};
        rc = transfer(&t, m, dest, store, false, keep);
        uint64_t bytes = plan_bytes(&t);
        shrinks &= bytes < left;
        left = bytes;
    }
    is_int(rc, 0, "a transfer that is cut %d times is completed", attempts - 1);
    ok(attempts > 2, "the transfer was cut more than once");
    ok(shrinks, "each attempt has less to send");
    ok(same_tree("src", dest), "all is there");
}

static void test_damage(const struct manifest *m) {
    struct run t = {.frames_max = 40};
    is_int(transfer(&t, m, "hurt", "hurt-store", true, true), -1, "a transfer that is cut fails");
    (void)plan_bytes(&t);
    ok(access(path_of("hurt"), F_OK) < 0, "a cut transfer leaves nothing visible");
    ok(shell(arena_printf(&arena,
                          "for f in %s/tmp/*.part; do printf X | dd of=$f bs=1 seek=99 "
                          "conv=notrunc 2>/dev/null; done",
                          path_of("hurt-store"))) == 0,
       "bytes of partial files are changed on the disk");
    struct run again = {0};
    is_int(transfer(&again, m, "hurt", "hurt-store", true, true), -1,
           "changed bytes fail the transfer");
    is_int(again.err.code, ERR_HASH, "changed bytes are a hash error");
    (void)plan_bytes(&again);
    ok(access(path_of("hurt"), F_OK) < 0, "changed bytes are not put in place");
    struct run third = {0};
    is_int(transfer(&third, m, "hurt", "hurt-store", true, true), 0, "the next one is good");
    (void)plan_bytes(&third);
    ok(same_tree("src", "hurt"), "all is there");
    ok(shell(arena_printf(&arena,
                          "for f in %s/packs/*.pack; do printf X | dd of=$f bs=1 seek=4000 "
                          "conv=notrunc 2>/dev/null; done",
                          path_of("hurt-store"))) == 0,
       "bytes of a pack are changed on the disk");
    int tries = 0, rc = -1;
    while (rc < 0 && tries++ < 4) {
        struct run other = {0};
        rc = transfer(&other, m, "hurt2", "hurt-store", true, true);
        (void)plan_bytes(&other);
    }
    ok(rc == 0 && tries > 1, "a changed pack is found and repaired");
    ok(same_tree("src", "hurt2"), "all is there");
}

static void test_changing_source(void) {
    put("moving/log", "0123456789", 10, 0644);
    put("moving/gone", "x", 1, 0644);
    put("moving/other", "aaaa", 4, 0644);
    struct manifest *m = scan("moving");
    put("moving/log", "0123456789 and more", 19, 0644);
    put("moving/other", "bbbb", 4, 0644);
    unlink(path_of("moving/gone"));
    struct run t = {0};
    is_int(transfer(&t, m, "moved", "moved/.part", false, false), -1,
           "a transfer of files that change meanwhile fails");
    has_str(t.err.text, "2 files are missing", "the missing files are counted");
    ok(same_file("moved/log", "moved/log") && access(path_of("moved/log"), F_OK) == 0,
       "a file that only grew is transferred");
    ok(access(path_of("moved/other"), F_OK) < 0, "a file with other content is not transferred");
    (void)plan_bytes(&t);
    manifest_free(m);
}

// Two streams on one plan; the second dies and gives its work back.
static void test_streams(const struct manifest *m) {
    struct run main_run = {0}, extra = {0};
    struct receive_config config = {.dest = path_of("two"),
                                    .store = path_of("two-store"),
                                    .replace = true,
                                    .keep = true,
                                    .acks = true};
    struct receive_config other = {.store = path_of("two-store"), .keep = true, .acks = true};
    struct send_stream a, b;
    struct err e;
    ok(xfer_receive_open(&main_run.r, &config, &e) == 0 &&
           xfer_receive_open(&extra.r, &other, &e) == 0,
       "two connections are opened");
    is_int(run_list(&main_run, m), 0, "one list is sent");
    xfer_send_plan_ready(&main_run.plan);
    uint64_t total = main_run.plan.bytes;
    xfer_send_stream_init(&a, &main_run.plan, false);
    xfer_send_stream_init(&b, &main_run.plan, true);
    for (int i = 0; i < 20; i++) {
        ok(xfer_send_stream_fill(&b, &extra.forth, false, &e) == 1, "the second sends");
        if (i < 17 && (deliver(&extra) < 0 || answer(&extra, &b) < 0))
            fail("%s", extra.err.text);
    }
    xfer_send_stream_return(&b);
    xfer_receive_close(&extra.r);
    int rc = 0;
    while (rc == 0 && xfer_send_stream_fill(&a, &main_run.forth, true, &e) > 0)
        rc = deliver(&main_run) < 0 || answer(&main_run, &a) < 0 ? -1 : 0;
    is_int(rc, 0, "the first does the rest");
    ok(a.sent < total, "the first connection does not repeat what the second has sent");
    ok(xfer_send_plan_empty(&main_run.plan), "nothing is left to do");
    xfer_wire_frame(&main_run.forth, XFER_DONE, NULL, 0);
    ok(deliver(&main_run) == 0 && answer(&main_run, NULL) == 0 && main_run.result,
       "the transfer is completed: %s", main_run.err.text);
    xfer_receive_close(&main_run.r);
    ok(same_tree("src", "two"), "all is there");
    xfer_send_stream_fini(&a);
    xfer_send_stream_fini(&b);
    xfer_send_plan_fini(&main_run.plan);
    struct run *both[] = {&main_run, &extra};
    for (int i = 0; i < 2; i++) {
        xfer_unpacker_fini(&both[i]->to_r);
        xfer_unpacker_fini(&both[i]->to_s);
        strbuf_fini(&both[i]->forth);
        strbuf_fini(&both[i]->back);
    }
}

static void test_hostile(void) {
    static const struct {
        const char *name;
        enum xfer_type type;
        const char *bytes;
        size_t len;
    } frames[] = {
        {"content before a list", XFER_BATCH, "x", 1},
        {"an end without a list", XFER_ENTRIES_END, "\1\0\0\0\0\0\0\0", 8},
        {"a cut list", XFER_ENTRIES, "\1\2", 2},
        {"an unknown kind", XFER_ENTRIES, "\7\0\0........\1\0x", 14},
        {"a path that leads out", XFER_ENTRIES, "\2\0\0........\4\0../x", 17},
        {"an absolute path", XFER_ENTRIES, "\2\0\0........\2\0/x", 15},
        {"an answer", XFER_NEED, "", 0},
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        struct receive r;
        struct strbuf out = {0};
        struct err e;
        struct receive_config config = {.dest = path_of("bad"), .store = path_of("bad/.part")};
        struct xfer_frame f = {frames[i].type, (const unsigned char *)frames[i].bytes,
                               frames[i].len, 0};
        ok(xfer_receive_open(&r, &config, &e) == 0, "a receiver opens");
        is_int(xfer_receive_frame(&r, &f, &out, &e), -1, "%s is refused", frames[i].name);
        xfer_receive_close(&r);
        strbuf_fini(&out);
    }
    struct xfer_unpacker u = {0};
    struct xfer_frame f;
    struct err e;
    is_int(xfer_wire_take(&u, "Last login: today", 17, &f, &e), -1, "chatter is no frame");
    has_str(e.text, "login script", "the error explains output of a login script");
    is_int(xfer_wire_take(&u, "\4\0\0\0\6\1\0\0\377\377\377\377", 12, &f, &e), -1,
           "a bomb is refused");
    is_int(xfer_wire_take(&u, "\4\0\0\0\6\0\0", 7, &f, &e), 0, "half a header waits for more");
    xfer_unpacker_fini(&u);
}

// A list of one file of this path and size, up to the answer.
static int list_of(const char *path, uint64_t size, struct err *e) {
    struct manifest *m = manifest_new();
    struct run t = {0};
    struct receive_config config = {
        .dest = path_of("limits"), .store = path_of("limits/.part"), .acks = true};
    struct manifest_entry n = {.path = "x", .kind = MANIFEST_FILE, .hashed = true};
    struct xfer_packer packer = {0};
    size_t next = 0;
    int rc = manifest_append(m, &n, e);
    m->entries[0].path = path; // a sender that has no limits
    m->entries[0].size = size;
    ok(xfer_receive_open(&t.r, &config, e) == 0, "a receiver opens");
    (void)xfer_wire_entries(&packer, &t.forth, m, &next, 1000, false);
    if (rc == 0 && (rc = deliver(&t)) < 0)
        *e = t.err;
    xfer_receive_close(&t.r);
    xfer_unpacker_fini(&t.to_r);
    strbuf_fini(&t.forth);
    strbuf_fini(&t.back);
    manifest_free(m);
    return rc;
}

// Pieces of files behind a list of one file.
static void test_pieces(void) {
    static const struct {
        const char *name;
        unsigned char hash;
        uint64_t size, offset;
        int result;
    } pieces[] = {
        {"a piece of a listed file", 1, 1 << 20, 0, 0},
        {"a piece of a file that is not listed", 2, 1 << 20, 0, -1},
        {"a piece of a listed file with another size", 1, 1 << 21, 0, -1},
        {"a piece of a file as small as those in batches", 1, XFER_SMALL_BYTES_MAX, 0, -1},
        {"a piece behind the end of its file", 1, 1 << 20, 1 << 20, -1},
        {"a piece that begins within a unit", 1, 1 << 20, 7, -1},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct manifest *m = manifest_new();
        struct manifest_entry n = {
            .path = "x", .kind = MANIFEST_FILE, .size = 1 << 20, .hash = {1}, .hashed = true};
        struct receive_config config = {
            .dest = path_of("pieces"), .store = path_of("pieces/.part"), .acks = true};
        struct run t = {0};
        struct err e;
        unsigned char piece[HASH_BYTES + 16 + 8] = {pieces[i].hash};
        bytes_store(piece + HASH_BYTES, pieces[i].size, 8);
        bytes_store(piece + HASH_BYTES + 8, pieces[i].offset, 8);
        struct xfer_frame f = {XFER_CHUNK, piece, sizeof piece, 0};
        if (manifest_append(m, &n, &e) < 0 || xfer_receive_open(&t.r, &config, &e) < 0)
            bail_out("%s", e.text);
        is_int(run_list(&t, m), 0, "a list of one file is sent");
        is_int(xfer_receive_frame(&t.r, &f, &t.back, &e), pieces[i].result, "%s", pieces[i].name);
        xfer_receive_close(&t.r);
        xfer_send_plan_fini(&t.plan);
        xfer_unpacker_fini(&t.to_r);
        xfer_unpacker_fini(&t.to_s);
        strbuf_fini(&t.forth);
        strbuf_fini(&t.back);
        manifest_free(m);
    }
}

static void test_limits(void) {
    struct err e = {0};
    char deep[2 * MANIFEST_DEPTH_MAX + 4];
    is_int(list_of("f", (uint64_t)1 << 61, &e), -1, "a file of 2^61 bytes is refused");
    has_str(e.text, "the limit is", "the error of a file of 2^61 bytes has the limit");
    is_int(list_of("f", UINT64_MAX, &e), -1, "a file of 2^64 - 1 bytes is refused");
    is_int(list_of("f", MANIFEST_FILE_BYTES_MAX, &e), -1,
           "a file above the free disk space is refused");
    has_str(e.text, "needs 35.2 TB more, and its disk has",
            "the error has the needed and the free space");
    has_str(e.text, "dtctl gc", "the error names 'dtctl gc'");
    is_int(list_of("f", 1 << 20, &e), 0, "a file that fits is requested");
    for (size_t i = 0; i < sizeof deep - 1; i++)
        deep[i] = i % 2 ? '/' : 'd';
    deep[sizeof deep - 1] = '\0';
    is_int(list_of(deep, 0, &e), -1, "folders that are too deep are refused");
    has_str(e.text, "deeper than 128 folders", "the error has the limit of folders");
    deep[2 * MANIFEST_DEPTH_MAX + 1] = '\0';
    is_int(list_of(deep, 0, &e), 0, "folders up to the limit are accepted%s", e.text);
    struct manifest *m = manifest_new();
    int rc = 0;
    while (rc == 0 && m->count < 1000000) {
        char path[4000];
        memset(path, 'x', sizeof path);
        for (size_t i = 200; i < sizeof path; i += 200)
            path[i] = '/';
        snprintf(path + sizeof path - 12, 12, "%011zu", m->count);
        rc =
            manifest_append(m, &(struct manifest_entry){.path = path, .kind = MANIFEST_FOLDER}, &e);
    }
    is_int(rc, -1, "too many names are refused");
    has_str(e.text, "256 MiB of names", "the error has the limit of names");
    manifest_free(m);
}

static void test_strays(void) {
    struct stat st;
    put("led/inside/file", "x", 1, 0644);
    if (symlink("/etc/shadow", path_of("led/out")) < 0 ||
        symlink("../../../etc", path_of("led/inside/up")) < 0 ||
        symlink("../inside/file", path_of("led/inside/fine")) < 0)
        bail_out("symlink");
    struct manifest *m = scan("led");
    struct run here = {0}, there = {0};
    is_int(transfer(&here, m, "led-here", "led-here/.part", false, false), 0,
           "links are fetched from a node");
    ok(lstat(path_of("led-here/out"), &st) < 0 && lstat(path_of("led-here/inside/up"), &st) < 0,
       "links that point outside are left out");
    ok(same_file("led-here/inside/fine", "led/inside/file"), "others are there");
    is_int(transfer(&there, m, "led-there", "led-store", false, true), 0,
           "links are pushed to a node");
    ok(same_tree("led", "led-there"), "links arrive unchanged");
    (void)plan_bytes(&here);
    (void)plan_bytes(&there);
    manifest_free(m);
}

static struct stat stat_of(const char *name) {
    struct stat st;
    if (lstat(path_of(name), &st) < 0)
        bail_out("stat of %s", name);
    return st;
}

// A second push of a folder in which something of every kind has changed, into the same place.
static void test_update(bool replace, bool keep) {
    const char *source = arena_printf(&arena, "new-%d%d", replace, keep);
    const char *dest = arena_printf(&arena, "old-%d%d", replace, keep);
    const char *store = arena_printf(&arena, keep ? "%s-store" : "%s/.part", dest);
    struct run first = {0}, second = {0};
    put(arena_printf(&arena, "%s/same", source), "same", 4, 0640);
    put(arena_printf(&arena, "%s/in/same", source), "also same", 9, 0644);
    put(arena_printf(&arena, "%s/mode", source), "mode", 4, 0644);
    put(arena_printf(&arena, "%s/text", source), "before", 6, 0644);
    put(arena_printf(&arena, "%s/gone/file", source), "gone", 4, 0644);
    struct manifest *m = scan(source);
    is_int(transfer(&first, m, dest, store, replace, keep), 0, "%s: a first push", dest);
    (void)plan_bytes(&first);
    manifest_free(m);
    struct stat same = stat_of(arena_printf(&arena, "%s/in/same", dest));
    put(arena_printf(&arena, "%s/text", source), "after it", 8, 0644);
    put(arena_printf(&arena, "%s/more/file", source), "more", 4, 0600);
    if (chmod(path_of(arena_printf(&arena, "%s/mode", source)), 0755) < 0 ||
        symlink("same", path_of(arena_printf(&arena, "%s/link", source))) < 0 ||
        shell(arena_printf(&arena, "rm -r %s/%s/gone", folder, source)) != 0)
        bail_out("chmod");
    m = scan(source);
    is_int(transfer(&second, m, dest, store, replace, keep), 0, "%s: a second push: %s", dest,
           second.err.text);
    is_uint(plan_bytes(&second), 12, "%s: only changed files travel", dest);
    const char *gone = arena_printf(&arena, "%s/gone/file", dest);
    is_int(access(path_of(gone), F_OK) == 0, !replace,
           "%s: a removed file is removed when the folder is replaced, and only then", dest);
    ok(shell(arena_printf(&arena, "rm -rf %s/%s/gone %s/%s/.part", folder, dest, folder, dest)) ==
               0 &&
           same_tree(source, dest),
       "%s: all else is as in the source", dest);
    ok(stat_of(arena_printf(&arena, "%s/in/same", dest)).st_ino == same.st_ino,
       "%s: a file that is the same stays where it is", dest);
    ok((stat_of(arena_printf(&arena, "%s/mode", dest)).st_mode & 0777) == 0755 &&
           (stat_of(arena_printf(&arena, "%s/same", dest)).st_mode & 0777) == 0640,
       "%s: modes are those of the source", dest);
    manifest_free(m);
}

// Leftovers of a killed receiver beside a folder that it replaces.
static void test_left_behind(const struct manifest *m) {
    struct run t = {0};
    const char *const line = "cd %s && mkdir -p left%s999999999 left%s999999998 left%s1 left%s99 &&"
                             "echo 1 >left%s999999998/only && touch -d '2 days ago' left.*[81]";
    ok(shell(arena_printf(&arena, line, folder, PLACE_NEW, PLACE_OLD, PLACE_NEW, ".old-",
                          PLACE_OLD)) == 0,
       "folders of earlier receivers are left there");
    is_int(transfer(&t, m, "left", "left-store", true, true), 0, "a transfer is completed%s",
           t.err.text);
    ok(same_tree("src", "left"), "the destination equals the source");
    ok(shell(arena_printf(&arena,
                          "cd %s && export LC_ALL=C && [ \"$(echo left*)\" = 'left left-store "
                          "left.dtctl-new-1 left.dtctl-new-999999999 left.old-99' ]",
                          folder)) == 0,
       "abandoned old files are removed, the rest is kept");
    (void)plan_bytes(&t);
}

// A step of many files, or of one that is large, hashes no more than its limit: the loop runs
// between two steps.
static void test_steps(void) {
    enum { LEN = 9 << 20, FILES = 7, LARGE = 41 << 20, SPARE = 1 << 20 };
    static const char *const what[] = {"a fetch that has nothing", "a fetch that has all files",
                                       "a push of what the store has"};
    char *p = heap_alloc(LEN);
    for (int i = 0; i < FILES; i++) {
        p[0] = (char)('a' + i);
        put(arena_printf(&arena, "steps/%d", i), p, LEN, 0644);
    }
    free(p);
    if (truncate(path_of("steps/0"), LARGE) < 0)
        bail_out("truncate");
    struct manifest *m = scan("steps");
    struct run first = {0};
    is_int(transfer(&first, m, "stepped-first", "steps-store", true, true), 0,
           "a store has the files: %s", first.err.text);
    (void)plan_bytes(&first);
    for (int i = 0; i < 3; i++) {
        struct run t = {0};
        (void)unlink(path_of("steps-store/hashes"));
        step_bytes_max = 0;
        is_int(transfer(&t, m, i < 2 ? "stepped" : "stepped-last",
                        i < 2 ? "stepped-parts" : "steps-store", i == 2, i == 2),
               0, "%s: the files come: %s", what[i], t.err.text);
        is_uint(plan_bytes(&t), i ? 0 : m->bytes, "%s: no more is sent than needed", what[i]);
        ok(step_bytes_max <= RECEIVE_STEP_BYTES + LEN + SPARE, "%s: a step reads little: %llu KiB",
           what[i], (unsigned long long)step_bytes_max >> 10);
    }
    ok(step_bytes_max == 0 || step_bytes_max > SPARE, "the store is hashed again");
    manifest_free(m);
}

// Files of one content that a user may write to, each with a mode and a time of its own.
static void test_alike(void) {
    enum { FILES = 3, LEN = RECEIVE_STEP_BYTES + (9 << 20), SPARE = 1 << 20 };
    static const char *const names[FILES] = {"alike/a", "alike/b", "alike/c"};
    char *p = heap_alloc(LEN);
    for (int i = 0; i < FILES; i++) {
        struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        put(names[i], p, LEN, i ? 0640 : 0600);
        if (utimensat(AT_FDCWD, path_of(names[i]), times, 0) < 0)
            bail_out("utimensat");
    }
    free(p);
    struct manifest *m = scan("alike");
    for (int keep = 0; keep < 2; keep++) {
        struct run t = {0};
        bool apart = true, like = true;
        step_bytes_max = 0;
        is_int(transfer(&t, m, keep ? "pushed/alike" : "fetched/alike",
                        keep ? "alike-store" : "fetched/.part", false, keep),
               0, "files of one content come: %s", t.err.text);
        (void)plan_bytes(&t);
        ok(step_bytes_max <= RECEIVE_STEP_BYTES + SPARE, "a step copies little: %llu KiB",
           (unsigned long long)step_bytes_max >> 10);
        for (int i = 0; i < FILES && !keep; i++) {
            struct stat st = stat_of(arena_printf(&arena, "fetched/%s", names[i]));
            apart &= st.st_nlink == 1;
            like &= (st.st_mode & 0777) == (i ? 0640U : 0600U) && st.st_mtim.tv_sec == 1000 + i;
        }
        ok(apart, "a fetched file shares its bytes with no other one");
        ok(like, "a fetched file has its own mode and time");
    }
    manifest_free(m);
}

int main(void) {
    struct err e;
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    make_tree();
    struct manifest *m = scan("src");
    test_whole(m, false, false, false);
    test_whole(m, false, true, true);
    test_whole(m, true, true, false);
    test_cuts(m, false);
    test_cuts(m, true);
    test_damage(m);
    test_changing_source();
    test_streams(m);
    test_hostile();
    test_pieces();
    test_limits();
    test_strays();
    test_steps();
    test_alike();
    test_left_behind(m);
    test_update(true, true);
    test_update(true, false);
    test_update(false, true);
    test_update(false, false);
    manifest_free(m);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
