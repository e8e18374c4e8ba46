// SPDX-License-Identifier: Apache-2.0
// Folders of a node that a push may replace: no spelling leads to a home folder.
#include "base/str.h"
#include "node/push_destination.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/test_push_destination.XXXXXX";
static struct arena arena;

static const char *in(const char *name) {
    return file_join(&arena, folder, name);
}

static const char *dest(const char *given, bool replace, struct err *e) {
    *e = (struct err){0};
    char *env[] = {arena_printf(&arena, "HOME=%s", in("home/ada")), NULL};
    return push_destination(&arena, env, in("home/ada/.dtctl"), given, replace, e);
}

static void refused(const char *given, const char *why) {
    struct err e;
    ok(!dest(given, true, &e), "'%s' is refused", given);
    has_str(e.text, why, "the refusal has the reason");
}

static void test_refused(void) {
    static const char *const homes[] = {"~",   "~/",   "~/.", "~//",   "~/./.", "/",  "//",
                                        "/./", "~/me", ".",   "~/me/", "/root", "./", ""};
    static const char *const own[] = {"bin", "cas", "./cas/", "inputs", "runs//", "~/.dtctl/bin"};
    static const char *const up[] = {"..", "~/..", "~/../ada", "../../ada", "a/../b", "/a/.."};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++)
        refused(homes[i], "refusing to replace the whole folder");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        refused(own[i], "dtctl keeps its own things there");
    for (size_t i = 0; i < sizeof up / sizeof *up; i++)
        refused(up[i], "leads through '..'");
    refused(in("home/ada"), "home folder");
    refused(in("home/ada/."), "home folder");
    refused(in("home"), "home folder");
    refused(in("link/ada"), "home folder");
    refused(folder, "home folder");
    refused("/tmp", "home folder");
}

static void test_taken(void) {
    struct err e;
    is_str(dest("work", true, &e), in("home/ada/.dtctl/work"), "a name is below the root");
    is_str(dest("inputs/x/", true, &e), in("home/ada/.dtctl/inputs/x"),
           "a name with a slash is below the root");
    is_str(dest("~/data/./set//", true, &e), in("home/ada/data/set"),
           "a path below the home folder is found");
    is_str(dest("/srv/nothing/there", true, &e), "/srv/nothing/there",
           "an absolute path that does not exist");
    is_str(dest("~", false, &e), in("home/ada"),
           "without --replace, files may be pushed to the home folder");
    is_str(dest("", false, &e), in("home/ada/.dtctl"),
           "without --replace, files may be pushed to the root");
    ok(!dest("../x", false, &e), "a path through '..' is refused");
}

int main(void) {
    struct err e;
    static const char *const made[] = {"home/ada/.dtctl/bin",    "home/ada/.dtctl/cas",
                                       "home/ada/.dtctl/inputs", "home/ada/.dtctl/runs",
                                       "home/ada/.dtctl/work",   "home/ada/data/set"};
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (file_make_dirs(in(made[i]), 0755, &e) < 0)
            bail_out("%s", e.text);
    if (symlink(in("home/ada"), in("home/ada/me")) < 0 || symlink("home", in("link")) < 0)
        bail_out("links");
    test_refused();
    test_taken();
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
