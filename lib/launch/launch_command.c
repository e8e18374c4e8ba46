// SPDX-License-Identifier: Apache-2.0
// The workers' command line: torchrun's rules, with a Python looked for instead of its own.
#include "launch/launch.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool on_path(const char *name) {
    const char *path = getenv("PATH");
    char file[FILE_PATH_BYTES_MAX];
    for (const char *p = path ? path : ""; *p;) {
        size_t len = strcspn(p, ":");
        snprintf(file, sizeof file, "%.*s/%s", (int)len, p, name);
        if (len > 0 && access(file, X_OK) == 0)
            return true;
        p += len + (p[len] == ':');
    }
    return false;
}

// PYTHON_EXEC, an active virtual environment, python3, python.
static const char *interpreter(struct arena *a) {
    const char *chosen = getenv("PYTHON_EXEC"), *venv = getenv("VIRTUAL_ENV");
    if (chosen && chosen[0])
        return chosen;
    if (venv && venv[0]) {
        const char *python = arena_printf(a, "%s/bin/python", venv);
        if (access(python, X_OK) == 0)
            return python;
    }
    return !on_path("python3") && on_path("python") ? "python" : "python3";
}

// What the child does that torchrun spawns: a failure also writes an error file, as with @record.
static const char run_path[] =
    "import os, runpy, sys\n"
    "sys.argv = sys.argv[1:]\n"
    "sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))\n"
    "try:\n"
    "    from torch.distributed.elastic.multiprocessing.errors import record\n"
    "except ImportError:\n"
    "    record = lambda function: function\n"
    "record(runpy.run_path)(sys.argv[0], run_name='__main__')\n";

int launch_command(struct launch *l, const char *const *args, size_t count, struct err *e) {
    const struct launch_options *o = &l->options;
    bool python = o->run_path || !o->no_python; // as in torchrun, --run-path is looked at first
    if (count == 0)
        return err_set(e, ERR_USAGE, "no training script is given");
    if (!python && o->module)
        return err_set(e, ERR_USAGE, "--no-python and --module exclude each other");
    if (o->use_env && !o->launch)
        return err_set(e, ERR_USAGE, "--use-env belongs to --launch");
    const char **argv = arena_new(l->arena, const char *, count + 6);
    size_t n = 0;
    if (python) {
        argv[n++] = interpreter(l->arena);
        argv[n++] = "-u";
        if (o->run_path) {
            argv[n++] = "-c";
            argv[n++] = run_path;
        } else if (o->module) {
            argv[n++] = "-m";
        }
    }
    argv[n++] = args[0];
    if (o->launch && !o->use_env)
        argv[n++] = "--local-rank=${local_rank}"; // replaced for each worker
    for (size_t i = 1; i < count; i++)
        argv[n++] = args[i];
    l->agent.workers.command = argv;
    l->agent.title = args[0];
    return 0;
}
