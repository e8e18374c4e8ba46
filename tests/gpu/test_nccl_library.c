// SPDX-License-Identifier: Apache-2.0
// Where NCCL's library is looked for. The program must not lie beside the stand-in for it:
// nccl_library.t runs a copy, with the folder of the stand-in in LD_LIBRARY_PATH.
#include "base/arena.h"
#include "comm/nccl_library.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// The first library that can be used, in a folder of CUDA before those that the loader knows.
static void test_places(const char *folder, const char *own_folder) {
    enum { LONG = 5000 };
    static char home[LONG + 16] = "CUDA_HOME=";
    char whole[512], *own[] = {home, NULL}, *none[] = {NULL};
    struct nccl_library l;
    struct err e;
    size_t at = strlen(home);
    snprintf(home + at, LONG, "%s/cuda", own_folder);
    snprintf(whole, sizeof whole, "%s/lib64", home + at);
    must(file_make_dirs(whole, 0700, &e) == 0);
    snprintf(whole + strlen(whole), 32, "/libnccl.so.2");
    static const struct {
        const char *to, *about; // the file of CUDA's folder
    } files[] = {{NULL, "an absent library"},
                 {"libcuda.so.1", "a library of something else"},
                 {"libnccl.so.2", "a library of NCCL"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char to[512];
        snprintf(to, sizeof to, "%s/%s", folder, files[i].to ? files[i].to : "");
        unlink(whole);
        must(!files[i].to || symlink(to, whole) == 0);
        bool last = i == sizeof files / sizeof *files - 1;
        is_int(nccl_library_open(&l, own, &e), 0, "%s in a folder of CUDA", files[i].about);
        is_str(l.path, last ? whole : "libnccl.so.2", "%s is taken, or passed over",
               files[i].about);
        is_int(l.version, 22809, "%s: the library has its version", files[i].about);
        nccl_library_close(&l);
        ok(!l.handle, "%s: the library is closed", files[i].about);
    }
    for (size_t length = 0; length <= LONG; length += LONG) {
        memset(home + at, 'x', length);
        home[at + length] = '\0';
        is_int(nccl_library_open(&l, own, &e), 0, "the name of the folder has %zu bytes", length);
        is_str(l.path, "libnccl.so.2", "a folder of %zu bytes is passed over", length);
        nccl_library_close(&l);
    }
    is_int(nccl_library_open(&l, none, &e), 0, "no variable is needed");
    nccl_library_close(&l);
}

// A library that the user names is taken, or the error says why not.
static void test_named(const char *folder, const char *own_folder) {
    static const struct {
        const char *file, *version, *error;
    } cases[] = {
        {"libnccl.so.2", "21799", "libnccl.so.2 is NCCL 2.17.99, and 2.18.0 or newer is needed"},
        {"libnccl.so.2", "21800", NULL},
        {"libcuda.so.1", "21800", "libcuda.so.1 has no ncclGetVersion (try: NCCL 2.18 or newer)"},
        {"absent.so", "21800", "absent.so: cannot open shared object file"}};
    static char named[600], cuda[600], *env[] = {named, NULL}, *both[] = {cuda, named, NULL};
    char whole[600];
    struct nccl_library l;
    struct err e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(named, sizeof named, "DTCTL_NCCL=%s/%s", folder, cases[i].file);
        setenv("EMU_NCCL_VERSION", cases[i].version, 1);
        is_int(nccl_library_open(&l, env, &e), cases[i].error ? -1 : 0, "library %zu is named", i);
        if (!cases[i].error) {
            is_str(l.path, named + strlen("DTCTL_NCCL="), "library %zu is taken", i);
            nccl_library_close(&l);
            continue;
        }
        ok(!l.handle, "library %zu is closed", i);
        has_str(e.text, cases[i].error, "the error says why library %zu is refused", i);
        ok(strncmp(e.text, "DTCTL_NCCL: ", 12) == 0, "the error of library %zu has the variable",
           i);
        is_int(e.code, ERR_CONFIG, "library %zu is an error of configuration", i);
    }
    // Of several that are too old, the first is named.
    snprintf(named, sizeof named, "DTCTL_NCCL=");
    snprintf(cuda, sizeof cuda, "CUDA_HOME=%s/cuda", own_folder);
    setenv("EMU_NCCL_VERSION", "20000", 1);
    is_int(nccl_library_open(&l, both, &e), -1, "libraries that are all too old are refused");
    snprintf(whole, sizeof whole, "%s/cuda/lib64/libnccl.so.2 is NCCL 2.0.0", own_folder);
    has_str(e.text, whole, "the error names the first of them");
    is_int(e.code, ERR_NOT_FOUND, "without the variable, no library is found");
    unsetenv("EMU_NCCL_VERSION");
    is_int(nccl_library_open(&l, both, &e), 0, "an empty variable names no library");
    nccl_library_close(&l);
}

// ---- without the loader's help -----------------------------------------------------------------

enum { FOUND = 40, ABSENT = 41, OTHER = 42 };

// In a program of its own: the first library that is found with these variables.
static int found(const char *want, const char *folder, char *env[]) {
    char driver[600];
    struct nccl_library l;
    struct err e;
    snprintf(driver, sizeof driver, "%s/libcuda.so.1", folder); // the library needs this one
    must(dlopen(driver, RTLD_NOW));
    if (nccl_library_open(&l, env, &e) < 0)
        return strcmp(e.text, "no libnccl.so.2 is here") == 0 ? ABSENT : OTHER;
    bool right = strcmp(l.path, want) == 0;
    nccl_library_close(&l);
    return right ? FOUND : OTHER;
}

static int run(const char *program, const char *want, const char *folder, const char *variable) {
    const char *argv[] = {program, want, folder, variable, NULL};
    char *const env[] = {NULL};
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execve(program, (char *const *)(uintptr_t)argv, env);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void library_at(const char *path, const char *folder, const char *file) {
    char parent[600], to[600];
    struct err e;
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = 0;
    snprintf(to, sizeof to, "%s/%s", folder, file);
    must(file_make_dirs(parent, 0700, &e) == 0);
    must(symlink(to, path) == 0);
}

// In an environment of Python, for any version of it, and beside the program.
static void test_alone(const char *folder, const char *own_folder) {
    static const char within[] = "site-packages/nvidia/nccl/lib/libnccl.so.2";
    char variable[600], old[600], right[600], self[600], beside[600];
    if (run("/proc/self/exe", "", folder, "NONE=") != ABSENT) {
        skip(4, "a library of NCCL is installed here");
        return;
    }
    pass("without any library, the error says so");
    snprintf(variable, sizeof variable, "VIRTUAL_ENV=%s/env", own_folder);
    snprintf(old, sizeof old, "%s/env/lib/python3.10/%s", own_folder, within);
    snprintf(right, sizeof right, "%s/env/lib/python3.11/%s", own_folder, within);
    library_at(old, folder, "libcuda.so.1");
    is_int(run("/proc/self/exe", "", folder, variable), OTHER,
           "a library of something else is an error of its own");
    library_at(right, folder, "libnccl.so.2");
    is_int(run("/proc/self/exe", right, folder, variable), FOUND,
           "the first usable library of a virtual environment is taken");
    snprintf(self, sizeof self, "%s/program", own_folder);
    snprintf(beside, sizeof beside, "%s/libnccl.so.2", own_folder);
    library_at(beside, folder, "libnccl.so.2");
    struct arena a = {0};
    struct err e;
    char *bytes;
    size_t len;
    must(file_read(&a, "/proc/self/exe", 64 << 20, &bytes, &len, &e) == 0);
    must(file_write_atomic(self, bytes, len, 0700, &e) == 0);
    arena_fini(&a);
    is_int(run(self, beside, folder, variable), FOUND, "a library beside the program comes first");
}

int main(int argc, char **argv) {
    if (argc == 4)
        return found(argv[1], argv[2], argv + 3);
    const char *folder = getenv("LD_LIBRARY_PATH");
    char own_folder[] = "/tmp/nccl_library.XXXXXX", text[NCCL_VERSION_TEXT_BYTES];
    struct err e;
    if (!folder || !mkdtemp(own_folder))
        bail_out("no folder");
    is_str(nccl_version_text(text, 22809), "2.28.9", "a version has three parts");
    is_str(nccl_version_text(text, 30100), "3.1.0", "each part of a version may be small");
    test_places(folder, own_folder);
    test_named(folder, own_folder);
    test_alone(folder, own_folder);
    file_remove_tree(own_folder, &e);
    return done_testing();
}
