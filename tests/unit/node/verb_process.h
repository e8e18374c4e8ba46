// SPDX-License-Identifier: Apache-2.0
// Verbs of `dtrun --node` for tests: each runs in a process of its own, as on a node, on a root in
// a temporary folder.
//
//     node_root_open(); begin(); put("runs/r1/job.toml", "");
//     is_int(verb(node_status, "", "--run r1"), 0, "%s", said); // "+" in a word is a space
//     node_root_close();
#ifndef DTCTL_TESTS_UNIT_NODE_VERB_PROCESS_H
#define DTCTL_TESTS_UNIT_NODE_VERB_PROCESS_H

#include "node/node_verb.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/dtctl-node-XXXXXX";
static struct arena a;
static const char *root; // of the node
static const char *said; // by the last verb
static struct err error;

static const char *in(const char *path) {
    return file_join(&a, root, path);
}

TAP_UNUSED static void put(const char *path, const char *text) {
    if (file_make_dirs(file_dir(&a, in(path)), 0700, &error) < 0 ||
        file_write_atomic(in(path), text, strlen(text), 0600, &error) < 0)
        bail_out("%s", error.text);
}

TAP_UNUSED static const char *text_of(const char *path) {
    char *text;
    size_t len;
    return file_read(&a, in(path), 65536, &text, &len, &error) < 0 ? "absent" : text;
}

TAP_UNUSED static void begin(void) {
    if (file_remove_tree(folder, &error) < 0 || file_make_dirs(root, 0700, &error) < 0)
        bail_out("%s", error.text);
}

// Runs a verb; its exit status, or that it was ended by a signal.
TAP_UNUSED static int verb(node_verb *function, const char *input, const char *words) {
    static char text[65536];
    int to[2], from[2], status = 0;
    char **argv;
    const char *line = arena_printf(&a, "verb --root %s%s%s", root, *words ? " " : "", words);
    size_t argc = str_split(&a, arena_strdup(&a, line), ' ', &argv);
    for (size_t i = 0; i < argc; i++)
        for (char *p = argv[i]; *p; p++)
            *p = *p == '+' ? ' ' : *p;
    if (pipe(to) < 0 || pipe(from) < 0)
        bail_out("no pipes");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        _exit(function(&(struct node_call){.argc = (int)argc, .argv = argv}));
    }
    close(to[0]);
    close(from[1]);
    if (write(to[1], input, strlen(input)) < 0)
        diag("the input is not read");
    close(to[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(from[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    close(from[0]);
    text[len ? len - 1 : 0] = '\0'; // without the newline
    said = arena_strdup(&a, text);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TAP_UNUSED static void node_root_open(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    root = file_join(&a, folder, "root");
}

TAP_UNUSED static void node_root_close(void) {
    file_remove_tree(folder, &error);
    arena_fini(&a);
}

#endif
