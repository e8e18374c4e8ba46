// SPDX-License-Identifier: Apache-2.0
// Shares of an input: what each node gets in a round, what moves to it in the next round, its
// folder and its list.
#include "copies/input_shares.h"

#include "content/generation.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/copies/input_list.h"
#include "tests/unit/shell.h"

#include <stdlib.h>
#include <string.h>

enum { FILES = 7, NODES_MAX = 4 };

static struct err e;
static struct arena arena;
static char folder[] = "/tmp/test_input_shares.XXXXXX";
static const char *run_dir;
static struct cas cas;
static struct job_deal rule;
static struct job_input input = {.name = "set", .mode = "sharded", .deal = &rule};
static struct input_shares shares;

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static void write_list(void) {
    if (!holds("mkdir -p set/a set/sub/hollow && for i in 0 1 2 3; do head -c $((i * 10 + 10)) "
               "/dev/zero | tr '\\0' $i >set/f$i; done && for i in 4 5; do head -c 300000 "
               "/dev/zero | tr '\\0' $i >set/sub/f$i; done && : >set/empty && ln -s f1 set/link"))
        bail_out("no files");
    manifest_free(input_list_write(&arena, arena_printf(&arena, "%s/set", folder),
                                   job_deal_list(&arena, run_dir, "set")));
}

static void store(const struct manifest_entry *n) {
    struct cas_part part;
    const char *path;
    char *text;
    size_t len;
    if (file_read(&arena, arena_printf(&arena, "%s/set/%s", folder, n->path), 1 << 20, &text, &len,
                  &e) < 0)
        bail_out("%s", e.text);
    if (len <= CAS_SMALL_BYTES_MAX
            ? cas_add_small(&cas, n->hash, text, len, &e) < 0
            : cas_part_open(&cas, &part, n->hash, len, &e) < 0 ||
                  cas_part_write(&part, 0, text, CAS_PIECE_BYTES, &e) < 0 ||
                  cas_part_write(&part, CAS_PIECE_BYTES, text + CAS_PIECE_BYTES,
                                 len - CAS_PIECE_BYTES, &e) < 0 ||
                  cas_part_hash(&part, len, &e) <= 0 || cas_part_finish(&cas, &part, &path, &e) < 0)
        bail_out("%s", e.text);
    if (len > CAS_SMALL_BYTES_MAX)
        cas_part_close(&part);
}

static bool is_in(const struct content_item *items, size_t count, const struct content_item *x) {
    for (size_t i = 0; i < count; i++)
        if (content_order(&items[i], x) == 0)
            return true;
    return false;
}

static size_t content_of(int nodes, int rank, struct content_item **items) {
    size_t count = 0, room = 0;
    *items = NULL;
    if (input_shares_deal(&shares, nodes, &e) < 0)
        bail_out("%s", e.text);
    input_shares_add_content(&shares, &arena, rank, items, &count, &room);
    return count;
}

// The content of a share that another share lacks.
static size_t moves(int nodes, int rank, int last_nodes, int last_rank) {
    struct content_item *now, *last;
    size_t moved = 0, last_count = content_of(last_nodes, last_rank, &last);
    size_t count = content_of(nodes, rank, &now);
    for (size_t i = 0; i < count; i++)
        moved += !is_in(last, last_count, &now[i]);
    return moved;
}

static void test_deal(void) {
    rule = (struct job_deal){.shard = DEAL_COUNT};
    is_int(input_shares_open(&shares, &input, run_dir, &e), 0, "a list is read%s", e.text);
    is_uint(shares.count, 8, "files and links are dealt");
    for (int nodes = 1; nodes <= NODES_MAX; nodes++) {
        struct content_item *all = NULL;
        size_t count = 0, room = 0, twice = 0;
        if (input_shares_deal(&shares, nodes, &e) < 0)
            bail_out("%s", e.text);
        for (int rank = 0; rank < nodes; rank++)
            input_shares_add_content(&shares, &arena, rank, &all, &count, &room);
        for (size_t i = 0; i < count; i++)
            twice += is_in(all, i, &all[i]);
        is_uint(count, 6, "%d nodes have all content between them", nodes);
        is_uint(twice, 0, "no content is dealt twice to %d nodes", nodes);
    }
    // In turn to 3 and 2 nodes: empty f0 f1 f2 f3 link sub/f4 sub/f5
    is_uint(moves(3, 0, 3, 0), 0, "nothing moves without a change");
    is_uint(moves(2, 0, 3, 0), 2, "of three nodes to two: the first node lacks f1 and f3");
    is_uint(moves(2, 1, 3, 1), 1, "the second one lacks f2");
    is_uint(moves(1, 0, 2, 0), 3, "one node lacks all that it did not have");
    is_int(input_shares_deal(&shares, 9, &e), -1, "there are more nodes than files");
    ok(strstr(e.text, "input 'set': 8 files are too few for 9 nodes"), "the error says so: %s",
       e.text);
}

static void test_folder(void) {
    input.path = arena_printf(&arena, "%s/inputs/set-x", folder);
    rule = (struct job_deal){.shard = DEAL_KEY};
    if (input_shares_deal(&shares, 2, &e) < 0)
        bail_out("%s", e.text);
    ok(!input_shares_is_placed(&shares, &cas, 0), "no folder is there yet");
    is_int(input_shares_place(&shares, &cas, 0, &e), -1, "content is missing");
    ok(holds("[ ! -e inputs/set-x-of2.0 ]"), "half of a folder is not placed");
    for (size_t i = 0; i < shares.manifest->count; i++)
        if (shares.manifest->entries[i].kind == MANIFEST_FILE && shares.manifest->entries[i].size)
            store(&shares.manifest->entries[i]);
    for (int rank = 0; rank < 2; rank++) {
        is_int(input_shares_place(&shares, &cas, rank, &e), 0, "share %d is placed%s", rank,
               e.text);
        ok(input_shares_is_placed(&shares, &cas, rank), "the folder is complete");
    }
    ok(holds("cd inputs && cmp set-x-of2.0/f2 ../set/f2 && cmp set-x-of2.1/sub/f5 ../set/sub/f5 && "
             "[ \"$(readlink set-x-of2.1/link)\" = f1 ] && [ -e set-x-of2.0/empty ]"),
       "the folders have files and links");
    ok(holds("cd inputs && for i in 0 1; do [ -d set-x-of2.$i/a ] && "
             "[ -d set-x-of2.$i/sub/hollow ] || exit 1; done"),
       "both have all folders");
    ok(holds("[ $(find inputs -type f -o -type l | wc -l) = 8 ]"), "every file is there once");
}

// Changes of a complete folder; each is made again.
static void test_changes(void) {
    static const struct {
        const char *name;
        int rank;
        const char *change;
        bool complete;
    } rows[] = {
        {"a further file", 0, "echo x >more", false},
        {"a missing file", 0, "rm f2", false},
        {"a file with other content", 0, "printf %030d 0 >f2", false},
        {"a file with more at its end", 0, "printf x >>f2", false},
        {"a file with less", 0, "truncate -s 29 f2", false},
        {"a file of another time", 0, "touch -d 2001-01-01 f2", true},
        {"a pipe for an empty file", 0, "rm empty && mkfifo empty", false},
        {"a link for a file", 0, "cp f2 ../f2 && ln -sf ../f2 f2", false},
        {"a missing folder", 0, "rmdir a", false},
        {"a file for a folder", 0, "rmdir a && : >a", false},
        {"a missing link", 1, "rm link", false},
        {"a link to another file", 1, "ln -sfn f2 link", false},
        {"a link with a longer target", 1, "ln -sfn f1x link", false},
        {"a link with a shorter target", 1, "ln -sfn f link", false},
        {"a file for a link", 1, "rm link && printf f1 >link", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int rank = rows[i].rank;
        if (!holds(arena_printf(&arena, "cd inputs/set-x-of2.%d && %s", rank, rows[i].change)))
            bail_out("no change: %s", rows[i].change);
        ok(input_shares_is_placed(&shares, &cas, rank) == rows[i].complete,
           "a folder with %s is %scomplete", rows[i].name, rows[i].complete ? "" : "not ");
        is_int(input_shares_place(&shares, &cas, rank, &e), 0, "the folder is made again");
        ok(input_shares_is_placed(&shares, &cas, rank), "the new folder is complete");
    }
}

static void test_list(void) {
    is_int(input_shares_write_list(&shares, run_dir, 1, &e), 0, "a list is written%s", e.text);
    ok(holds(
           "[ $(wc -l <run/inputs/set-of2.1.jsonl) = 3 ] && "
           "grep -q '^{\"path\":\"sub/f5\",\"size\":300000,\"sha256\":\"[0-9a-f]*\",\"index\":7}$' "
           "run/inputs/set-of2.1.jsonl"),
       "the list has the files of the share");
    input_shares_close(&shares);
    input.name = "other";
    is_int(input_shares_open(&shares, &input, run_dir, &e), -1, "there is no list");
    ok(strstr(e.text, "the list of input 'other'"), "the error says so: %s", e.text);
}

int main(void) {
    if (!mkdtemp(folder) || cas_open(&cas, arena_printf(&arena, "%s/cas", folder), &e) < 0 ||
        cas_load(&cas, &e) < 0)
        bail_out("no folder: %s", e.text);
    run_dir = arena_printf(&arena, "%s/run", folder);
    write_list();
    test_deal();
    test_folder();
    test_changes();
    test_list();
    cas_close(&cas, false, &e);
    shell(arena_printf(&arena, "rm -rf %s", folder));
    arena_fini(&arena);
    return done_testing();
}
