// SPDX-License-Identifier: Apache-2.0
// Trees of files as texts: "a/b=text", "a/" for a folder, "a>target" for a link, "a=@x" for a large
// file with x at its end. For tests of results; all is below one folder.
#ifndef DTCTL_TESTS_UNIT_RUN_RESULTS_TREE_H
#define DTCTL_TESTS_UNIT_RUN_RESULTS_TREE_H

#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGE_BYTES = 2 * 64 * 1024 + 1 }; // more than are compared at a time

static char root[] = "/tmp/test_results.XXXXXX"; // made by the test
static struct arena a;
static struct err e;

TAP_UNUSED static const char *in(const char *folder, const char *path) {
    return file_join(&a, file_join(&a, root, folder), path);
}

TAP_UNUSED static void put(const char *folder, const char *word) {
    size_t len = strcspn(word, "=>");
    const char *path = in(folder, arena_strndup(&a, word, len)), *text = word + len;
    static char large[LARGE_BYTES];
    if (file_make_dirs(*text ? file_dir(&a, path) : path, 0755, &e) < 0)
        bail_out("%s", e.text);
    memset(large, '.', sizeof large);
    large[sizeof large - 1] = text[0] && text[1] == '@' ? text[2] : '.';
    bool is_large = text[0] == '=' && text[1] == '@';
    if (*text == '>' ? symlink(text + 1, path) < 0
        : *text      ? file_write_atomic(path, is_large ? large : text + 1,
                                    is_large ? sizeof large : strlen(text + 1), 0644, &e) < 0
                     : false)
        bail_out("cannot make '%s'", path);
}

TAP_UNUSED static void put_all(const char *folder, const char *words) {
    char **all;
    if (file_make_dirs(in(folder, "."), 0755, &e) < 0)
        bail_out("%s", e.text);
    for (size_t n = *words ? str_split(&a, words, ' ', &all) : 0; n-- > 0;)
        put(folder, all[n]);
}

TAP_UNUSED static int by_name(const struct dirent **x, const struct dirent **y) {
    return strcmp((*x)->d_name, (*y)->d_name);
}

TAP_UNUSED static void list(struct strbuf *out, const char *dir, const char *below) {
    struct dirent **names;
    int n = scandir(dir, &names, NULL, by_name), shown = 0;
    for (int i = 0; i < n; i++) {
        const char *path = file_join(&a, dir, names[i]->d_name);
        const char *name = arena_printf(&a, "%s%s", below, names[i]->d_name);
        char *text, target[128];
        struct stat st;
        size_t len = 0;
        if (strcmp(names[i]->d_name, ".") != 0 && strcmp(names[i]->d_name, "..") != 0) {
            shown++;
            if (lstat(path, &st) < 0)
                bail_out("no '%s'", path);
            if (S_ISDIR(st.st_mode)) {
                list(out, path, arena_printf(&a, "%s/", name));
            } else if (S_ISLNK(st.st_mode)) {
                ssize_t size = readlink(path, target, sizeof target);
                strbuf_addf(out, "%s>%.*s ", name, (int)size, target);
            } else if (file_read(&a, path, LARGE_BYTES, &text, &len, &e) == 0) {
                strbuf_addf(out, "%s=%s%s ", name, len == LARGE_BYTES ? "@" : "",
                            len == LARGE_BYTES ? text + len - 1 : text);
            }
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    if (!shown && *below)
        strbuf_addf(out, "%s ", below);
}

TAP_UNUSED static void is_tree(const char *folder, const char *want, const char *about) {
    struct strbuf text = {0};
    list(&text, in(folder, "."), "");
    if (text.len)
        text.data[text.len - 1] = '\0';
    is_str(text.len ? text.data : "", want, "%s: %s has the files", about, folder);
    strbuf_fini(&text);
}

TAP_UNUSED static void clear(void) {
    if (file_remove_tree(root, &e) < 0 || file_make_dirs(root, 0755, &e) < 0)
        bail_out("%s", e.text);
}

#endif
