// SPDX-License-Identifier: Apache-2.0
// Generations in a folder: numbers, the two that are kept, what a killed process leaves, and lists
// from other nodes.
#include "base/clock.h"
#include "content/generation.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <unistd.h>

static struct err e;
static struct arena arena;
static char folder[] = "/tmp/test_generation.XXXXXX";

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static void test_folder(void) {
    is_int(generation_newest(folder), 0, "an empty folder has no generation");
    ok(generation_next(folder) >= clock_wall_ms() - 60000, "a number is the time");
    for (int i = 1; i <= 3; i++) {
        is_int(generation_begin(folder, &e), 0, "generation %d begins", i);
        holds("echo x >new/state/x");
        is_int(generation_publish(folder, i, "list", 4, &e), 0, "generation %d is published", i);
    }
    ok(holds("[ \"$(echo *)\" = '2 3' ]"), "the two newest are kept, and nothing else");
    ok(holds("[ -s 3/state/x ] && [ \"$(cat 3/list)\" = list ]"),
       "a generation has its files and its list");
    is_int(generation_newest(folder), 3, "the newest generation is found");
    holds("mkdir 9999999999999");
    is_int(generation_next(folder), 10000000000000, "a clock that was set back changes no order");
    holds("rmdir 9999999999999; mkdir -p new/state old/state && echo half >new/state/x");
    is_int(generation_newest(folder), 3, "remains of a killed process are no generation");
    is_int(generation_begin(folder, &e), 0, "another one begins");
    ok(holds("[ -z \"$(ls new/state)\" ] && [ ! -e old ]"), "a new one removes the remains");
}

static void put(struct manifest *m, const char *path, enum manifest_kind kind, const char *target) {
    struct manifest_entry n = {.path = path,
                               .kind = kind,
                               .mode = 0640,
                               .mtime_ns = 1234567890123456789,
                               .size = kind == MANIFEST_FILE ? 77 : 0,
                               .target = target,
                               .hash = {1, 2, 3}};
    if (manifest_append(m, &n, &e) < 0)
        bail_out("%s", e.text);
}

static void test_list(void) {
    struct manifest *m = manifest_new(), *back = NULL;
    struct strbuf list = {0};
    put(m, "a", MANIFEST_FOLDER, NULL);
    put(m, "a/b", MANIFEST_FILE, NULL);
    put(m, "c", MANIFEST_LINK, "a/b");
    manifest_sort(m, &e);
    generation_encode(m, &list);
    is_int(generation_decode(list.data, list.len, &back, &e), 0, "a list is read back");
    is_uint(back->count, 3, "all entries are read back");
    is_str(back->entries[1].path, "a/b", "a path is read back");
    is_int(back->entries[1].mtime_ns, 1234567890123456789, "a time is read back");
    is_uint(back->entries[1].size, 77, "a size is read back");
    is_str(back->entries[2].target, "a/b", "the target of a link is read back");
    manifest_free(back);
    int wrong = 0;
    for (size_t len = 0; len < list.len; len++)
        if (generation_decode(list.data, len, &back, &e) == 0) {
            wrong += back->count >= 3;
            manifest_free(back);
        }
    is_int(wrong, 0, "no prefix is the whole");
    strbuf_fini(&list);
    put(m, "c/d", MANIFEST_FILE, NULL); // below a link
    generation_encode(m, &list);
    is_int(generation_decode(list.data, list.len, &back, &e), -1, "a file below a link is refused");
    list.data[8 + 1 + 2 + 8 + 8 + HASH_BYTES + 2] = '/';
    is_int(generation_decode(list.data, list.len, &back, &e), -1, "an absolute path is refused");
    strbuf_fini(&list);
    manifest_free(m);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_folder();
    test_list();
    file_remove_tree(folder, &e);
    arena_fini(&arena);
    return done_testing();
}
