// SPDX-License-Identifier: Apache-2.0
// Where NCCL's library is looked for. The program must not lie beside the stand-in for it:
// nccl_library.t runs a copy, with the folder of the stand-in in LD_LIBRARY_PATH.
#include "comm/nccl_library.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
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

int main(void) {
    const char *folder = getenv("LD_LIBRARY_PATH");
    char own_folder[] = "/tmp/nccl_library.XXXXXX", text[NCCL_VERSION_TEXT_BYTES];
    struct err e;
    if (!folder || !mkdtemp(own_folder))
        bail_out("no folder");
    is_str(nccl_version_text(text, 22809), "2.28.9", "a version has three parts");
    is_str(nccl_version_text(text, 30100), "3.1.0", "each part of a version may be small");
    test_places(folder, own_folder);
    file_remove_tree(own_folder, &e);
    return done_testing();
}
