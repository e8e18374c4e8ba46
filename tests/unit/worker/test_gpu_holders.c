// SPDX-License-Identifier: Apache-2.0
// Finds processes that hold a GPU, on a simulated machine.
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "worker/gpu_holders.h"

#include <string.h>
#include <unistd.h>

static struct arena arena;
static char dir[] = "/tmp/dtctl-devices-XXXXXX";

static char *made(const char *path) { // its folders are there
    struct err e;
    char *file = file_join(&arena, dir, path);
    if (file_make_dirs(file_dir(&arena, file), 0755, &e) < 0)
        bail_out("%s", e.text);
    return file;
}

static void process(int pid, const char *name, const char *env, size_t env_len, const char *fd3) {
    struct err e;
    char *base = arena_printf(&arena, "proc/%d", pid);
    char *comm = made(arena_printf(&arena, "%s/comm", base));
    char *environ_file = made(arena_printf(&arena, "%s/environ", base));
    if (file_write_atomic(comm, name, strlen(name), 0644, &e) < 0 ||
        file_write_atomic(environ_file, env, env_len, 0644, &e) < 0)
        bail_out("%s", e.text);
    if (symlink("/dev/null", made(arena_printf(&arena, "%s/fd/0", base))) < 0 ||
        symlink(fd3, made(arena_printf(&arena, "%s/fd/3", base))) < 0)
        bail_out("no link");
}

#define ENV(text) text, sizeof text

int main(void) {
    struct device_holder h;
    struct err e;
    if (!mkdtemp(dir))
        bail_out("no folder");
    process(41, "python3\n", ENV("A=b\0TORCHELASTIC_RUN_ID=run-2\0RANK=0"), "/dev/nvidia0");
    ok(!worker_devices_held(dir, "run-2", &h), "without a driver no holder is found");
    made("proc/driver/nvidia/version");
    ok(!worker_devices_held(dir, "run-1", &h), "a process of another run does not count");
    process(42, "train\n", ENV("TORCHELASTIC_RUN_ID=run-1"), "/dev/nvidiactl");
    process(43, "train\n", ENV("TORCHELASTIC_RUN_ID=run-1"), "/dev/nvidia-uvm");
    process(44, "train\n", ENV("TORCHELASTIC_RUN_ID=run-11"), "/dev/nvidia1");
    process(45, "train\n", ENV("X=TORCHELASTIC_RUN_ID=run-1"), "/dev/nvidia1");
    ok(!worker_devices_held(dir, "run-1", &h),
       "a process with the driver's control file does not count");
    process(46, "pt_data\x1b[2J\n", ENV("TORCHELASTIC_RUN_ID=run-1"), "/dev/nvidia7");
    ok(worker_devices_held(dir, "run-1", &h), "a process that was left behind is found");
    is_int(h.pid, 46, "the pid of the holder is found");
    is_str(h.device, "/dev/nvidia7", "the GPU of the holder is found");
    is_str(h.name, "pt_data\\x1b[2J", "the name of the holder is safe to print");
    file_remove_tree(dir, &e);
    arena_fini(&arena);
    return done_testing();
}
