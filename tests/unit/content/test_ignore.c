// SPDX-License-Identifier: Apache-2.0
// Ignore rules: own cases, and what git itself says about the same patterns and paths.
#include "content/ignore.h"
#include "sys/proc.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <unistd.h>

static struct arena arena;

static bool left_out(const char *patterns, const char *path, bool is_folder) {
    struct ignore ig = {0};
    struct err e;
    if (ignore_add(&arena, &ig, "", patterns, strlen(patterns), &e) < 0)
        fail("%s", e.text);
    return ignore_match(&ig, path, is_folder);
}

// Patterns, path, is it left out? A path with '/' at the end is a folder.
static const struct {
    const char *patterns, *path;
    bool out;
} cases[] = {
    {"*.o", "a.o", true},
    {"*.o", "deep/a.o", true},
    {"*.o", "a.oo", false},
    {"/top", "top", true},
    {"/top", "a/top", false},
    {"a/b", "a/b", true},
    {"a/b", "x/a/b", false},
    {"build/", "build/", true},
    {"build/", "build", false},
    {"build/", "x/build/", true},
    {"**/c", "c", true},
    {"**/c", "a/b/c", true},
    {"a/**", "a/x", true},
    {"a/**/b", "a/b", true},
    {"a/**/b", "a/x/y/b", true},
    {"a/**/b", "a/bb", false},
    {"a/*", "a/b", true},
    {"?", "x", true},
    {"?", "xy", false},
    {"[a-c]x", "bx", true},
    {"[!a-c]x", "bx", false},
    {"[!a-c]x", "dx", true},
    {"*.log\n!keep.log", "keep.log", false},
    {"*.log\n!keep.log\n", "drop.log", true},
    {"!keep.log\n*.log\n", "keep.log", true},
    {"# comment\n\nx", "x", true},
    {"\\#x", "#x", true},
    {"\\!x", "!x", true},
    {"x  ", "x", true},
    {"x\r\ny", "x", true},
    {"a*b*c", "aXXbYYc", true},
    {"a*b*c", "aXXbYY", false},
    {"*", "anything", true},
    {"/", "x", false},
};

static void test_cases(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s", cases[i].path);
        size_t len = strlen(path);
        bool is_folder = path[len - 1] == '/';
        path[len - is_folder] = '\0';
        is_int(left_out(cases[i].patterns, path, is_folder), cases[i].out,
               "case %zu is judged right: %s", i, cases[i].path);
    }
}

// git check-ignore --no-index, one repository per case.
static void test_git(void) {
    char folder[] = "/tmp/test_ignore.XXXXXX", command[512];
    if (shell("git --version >/dev/null 2>&1") != 0 || !mkdtemp(folder)) {
        skip(1, "no git to compare with");
        return;
    }
    snprintf(command, sizeof command, "git -c init.defaultBranch=x init -q %s", folder);
    if (shell(command) != 0) {
        skip(1, "git makes no repository here");
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/.gitignore", folder);
        FILE *f = fopen(path, "w");
        fputs(cases[i].patterns, f);
        fclose(f);
        // The path must exist: git distinguishes folders and files by stat.
        snprintf(command, sizeof command,
                 "cd %s && find . -mindepth 1 -maxdepth 1 ! -name '.git*' -exec rm -rf {} + && "
                 "p='%s' && mkdir -p \"$(dirname \"$p\")\" && case $p in */) mkdir -p \"$p\";; "
                 "*) : >\"$p\";; esac && git check-ignore -q --no-index -- \"$p\"",
                 folder, cases[i].path);
        int status = shell(command);
        is_int(status == 0, cases[i].out, "git agrees about case %zu: %s", i, cases[i].path);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ok(shell(command) == 0, "cleaned up");
}

static void test_bases(void) {
    struct ignore ig = {0};
    struct err e;
    ignore_add(&arena, &ig, "", "*.tmp", 5, &e);
    ignore_add(&arena, &ig, "sub", "/only\n!x.tmp", 12, &e);
    ok(!ignore_glob("a/*", "a/b/c"), "a star does not cross a slash");
    ok(ignore_glob("a**c", "abbc") && ignore_glob("a**c", "ac") && !ignore_glob("a**c", "ab/c"),
       "two stars within a name are one");
    ok(ignore_match(&ig, "sub/only", false), "a tied pattern counts from its own folder");
    ok(!ignore_match(&ig, "only", false),
       "a pattern with a slash does not match in a higher folder");
    ok(!ignore_match(&ig, "sub/x.tmp", false), "an inner file can take back");
    ok(ignore_match(&ig, "x.tmp", false), "an inner file's exception holds only in its folder");
    ok(!ignore_match(&ig, "subway/only", false), "a folder is not a prefix of a name");
    ok(!ignore_glob("a**a**a**a**a**a**a**a**b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
       "a pattern made to take long ends");
}

int main(void) {
    test_cases();
    test_git();
    test_bases();
    arena_fini(&arena);
    return done_testing();
}
