// SPDX-License-Identifier: Apache-2.0
// Inputs beside the disks of nodes that are to be made: what does not fit is refused, what leaves
// no room for an image is a warning. The files have holes, and their sizes alone are looked at.
#include "run/inputs/input_look.h"
#include "sys/file.h"
#include "tests/unit/said.h"

#include <fcntl.h>
#include <unistd.h>

static char folder[] = "/tmp/test_input_look.XXXXXX";
static struct arena a;
static struct screen screen;
static struct context context;
static struct config config;
static struct err e;

#define GIB ((uint64_t)1 << 30)
enum { DISK_GB = 100, ROOM_GB = DISK_GB - 60 }; // without the image

static void put(const char *name, uint64_t bytes) {
    int fd = open(file_join(&a, folder, name), O_WRONLY | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        bail_out("no file of %llu bytes", (unsigned long long)bytes);
    close(fd);
}

// Looks at the input `in` with these settings, on two nodes.
static int look(const char *source, const char *more) {
    struct input_look l = {0};
    const char *text = arena_printf(&a,
                                    "[cluster]\nprovider = \"aws\"\nnodes = 2\n[aws]\nroot_gb = "
                                    "%d\n[inputs.in]\nsource = \"%s\"\n%s",
                                    DISK_GB, file_join(&a, folder, source), more);
    err_clear(&e);
    said_clear();
    config_open(&config, &a, "dtctl", NULL);
    option_set_file(&config.set, file_join(&a, folder, "dtctl.toml"), text, strlen(text));
    if (option_set_finish(&config.set, &e) < 0)
        bail_out("%s", e.text);
    int result = input_look_open(&l, &context, &e);
    input_look_close(&l);
    return result;
}

// With so many bytes there is room, with two more a warning: one for each of two nodes.
static void edge(const char *what, const char *source, const char *name, const char *more,
                 uint64_t bytes) {
    put(name, bytes);
    is_int(look(source, more), 0, "%s: a node has room: %s", what, e.text);
    is_str(said(), "", "%s: the user reads no warning", what);
    put(name, bytes + 2);
    is_int(look(source, more), 0, "%s: with more it may not fit: %s", what, e.text);
    ok(strstr(said(), "the inputs of a node may not fit on its disk") &&
           strstr(said(), "key=aws.root_gb"),
       "%s: the user reads a warning then: %s", what, said());
    put(name, bytes);
}

static void test_edges(void) {
    edge("whole", "one", "one", "", ROOM_GB * GIB);
    edge("unpacked", "x.tar", "x.tar", "deliver = \"extract\"\n", ROOM_GB * GIB / 2);
    if (file_make_dirs(file_join(&a, folder, "set"), 0755, &e) < 0)
        bail_out("%s", e.text);
    put("set/a", ROOM_GB * GIB);
    edge("shared out", "set", "set/b", "mode = \"sharded\"\n", ROOM_GB * GIB);
    put("set/a", 0);
    edge("one large file", "set", "set/b", "mode = \"sharded\"\n", ROOM_GB * GIB);
}

static void test_too_large(void) {
    put("one", DISK_GB * GIB - 1);
    is_int(look("one", ""), 0, "an input that the disk just holds is not refused: %s", e.text);
    put("one", DISK_GB * GIB);
    is_int(look("one", ""), -1, "an input that fills the disk is refused");
    is_int(e.code, ERR_CONFIG, "the error is one of the configuration");
    ok(strstr(e.text, "aws.root_gb") && strstr(e.text, "a larger disk, mode = sharded, or deliver "
                                                       "= stream"),
       "the error has the setting and what to do: %s", e.text);
    is_int(look("one", "deliver = \"stream\"\n"), 0, "a streamed input takes no disk: %s", e.text);
    is_str(said(), "", "a streamed input needs no warning");
}

static void test_absent(void) {
    is_int(look("absent", ""), -1, "an input that is not there is an error");
    is_int(e.code, ERR_NOT_FOUND, "the error says so");
    ok(strstr(e.text, "input 'in'") != NULL, "the error names the input: %s", e.text);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    context = (struct context){.arena = &a, .config = &config, .screen = &screen};
    said_open(&screen);
    test_edges();
    test_too_large();
    test_absent();
    said_close(&screen);
    file_remove_tree(folder, &e);
    arena_fini(&a);
    return done_testing();
}
