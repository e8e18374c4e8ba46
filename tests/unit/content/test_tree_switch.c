// SPDX-License-Identifier: Apache-2.0
// A folder takes the place of another one: in one step, and on file systems (NFS, some of FUSE)
// that cannot exchange two names.
#include "base/str.h"
#include "content/tree_writer.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[] = "/tmp/test_tree_switch.XXXXXX";
static struct arena arena;
static struct err e;

// From now on renameat2 fails in this process as it does where a file system lacks flags.
static bool exchange_no_more(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

// A folder with one file, `new`, is ready to take the place of `dest`.
static struct place prepared(const char *dest) {
    static const struct manifest_entry n = {
        .path = "new", .kind = MANIFEST_FILE, .mode = 0644, .size = 1};
    struct place p = PLACE_CLOSED;
    struct stat st;
    if (tree_open(&p, file_join(&arena, folder, dest), true, &e) < 0 ||
        tree_bytes(&p, &n, "2", 1, &st, &e) < 0)
        bail_out("%s", e.text);
    return p;
}

static void test_switch(const char *how) {
    struct place p;
    must(holds("mkdir -p here/below && echo 1 >here/old && echo 1 >here/below/older"));
    p = prepared("here");
    ok(holds("[ -e here/old ] && [ ! -e here/new ]"), "%s: nothing changes before the switch", how);
    is_int(tree_switch(&p, &e), 0, "%s: a folder takes the place of another one", how);
    tree_close(&p);
    ok(holds("[ \"$(ls -A here)\" = new ] && [ \"$(cat here/new)\" = 2 ]"),
       "%s: the new content is there, and nothing else", how);
    ok(holds("[ \"$(ls -A)\" = here ]"), "%s: no folder is left beside it", how);
    must(holds("rm -r here"));
    p = prepared("here");
    is_int(tree_switch(&p, &e), 0, "%s: a folder comes where none is", how);
    tree_close(&p);
    ok(holds("[ \"$(ls -A)\" = here ] && [ \"$(ls -A here)\" = new ]"),
       "%s: only the new folder is there", how);
    must(holds("rm -r here"));
}

// The new folder is gone before it is in place.
static void test_failure(const char *how) {
    struct place p;
    must(holds("mkdir here && echo 1 >here/old"));
    p = prepared("here");
    must(shell(arena_printf(&arena, "mv %s %s/away", p.staging, folder)) == 0);
    is_int(tree_switch(&p, &e), -1, "%s: without its new folder a switch fails", how);
    has_str(e.text, "cannot rename '", "%s: the error says what failed", how);
    has_str(e.text, "here'", "%s: the error names the folder", how);
    tree_close(&p);
    ok(holds("[ \"$(cat here/old)\" = 1 ] && [ \"$(ls -A | xargs)\" = 'away here' ]"),
       "%s: the old folder is at its place again", how);
    must(holds("rm -r here away"));
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    test_switch("with an exchange");
    test_failure("with an exchange");
    if (!exchange_no_more())
        bail_out("seccomp: %s", strerror(errno));
    test_switch("without an exchange");
    test_failure("without an exchange");
    file_remove_tree(folder, &e);
    arena_fini(&arena);
    return done_testing();
}
