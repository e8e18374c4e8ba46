// SPDX-License-Identifier: Apache-2.0
// The list of a run's files, and the names of those that differ in a later run of its task.
#include "run/task_files.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

static char folder[] = "/tmp/test_task_files.XXXXXX";
static struct arena a;
static struct context context;
static struct err e;

// A run whose working folder has these files; each word is NAME or NAME=CONTENT.
static struct run_start run_of(const char *id, const char *words) {
    struct run_start l = {.context = &context, .run.id = id, .common = manifest_new()};
    const char *work = run_node_dir(&a, id, "work");
    char **names;
    for (size_t n = *words ? str_split(&a, words, ' ', &names) : 0; n-- > 0;) {
        char *content = strchr(names[n], '=');
        if (content)
            *content++ = '\0';
        const char *bytes = content ? content : "";
        if (manifest_add_bytes(l.common, file_join(&a, work, names[n]), bytes, strlen(bytes), 0644,
                               &e) < 0)
            bail_out("%s", e.text);
    }
    if (manifest_add_bytes(l.common, "bin/program", id, strlen(id), 0755, &e) < 0 ||
        manifest_hash(l.common, NULL, NULL, NULL, &e) < 0 ||
        file_make_dirs(cluster_run_dir(&context.cluster, id), 0700, &e) < 0)
        bail_out("%s", e.text);
    return l;
}

static void differs(const char *was, const char *is, const char *want) {
    static int number;
    struct run_start first = run_of(arena_printf(&a, "t-%d", number++), was);
    struct run_start second = run_of(arena_printf(&a, "t-%d", number++), is);
    is_int(task_files_save(&first, &e), 0, "the list of '%s' is written %s", was, e.text);
    is_str(task_files_differing(&second, &first.run), want, "files that differ are: %s",
           *want ? want : "none");
    manifest_free(first.common);
    manifest_free(second.common);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    context.arena = &a;
    if (cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("%s", e.text);
    differs("x=1 y d/z=3", "x=1 y d/z=3", "");
    differs("x=1 y d/z=3", "x=1 y d/z=4", "'d/z'");
    differs("x=1 y", "x=2 y=3", "'x' and 1 other");
    differs("a=1 b=1 c=1 d=1", "a=2 b=2 c=2 d=1", "'a' and 2 others");
    differs("b", "a b", "'a' (new)");
    differs("a b c", "b c=1", "'a' (gone) and 1 other");
    differs("a z", "a", "'z' (gone)");
    differs("a", "a z", "'z' (new)");
    differs("a", "", "'a' (gone)");
    differs("b", "a\033[1m b", "'a\\x1b[1m' (new)");
    differs("", "a", ""); // nothing is known of the earlier run
    file_remove_tree(folder, &e);
    arena_fini(&a);
    return done_testing();
}
