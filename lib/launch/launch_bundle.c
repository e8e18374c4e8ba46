// SPDX-License-Identifier: Apache-2.0
// The variables of an environment that the command runs in.
#include "launch/launch.h"
#include "sys/file.h"

const char launch_path_default[] = "/usr/local/bin:/usr/bin:/bin";

int launch_bundle_fill(struct arena *a, const char *env_dir, const char *path,
                       struct job_pair *out) {
    static const struct {
        const char *mark, *variable; // a name in the environment, and what it stands for
    } kinds[] = {{"pyvenv.cfg", "VIRTUAL_ENV"}, {"conda-meta", "CONDA_PREFIX"}};
    int n = 0;
    out[n++] = (struct job_pair){"PATH", arena_printf(a, "%s/bin:%s", env_dir, path)};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (file_exists(file_join(a, env_dir, kinds[i].mark)))
            out[n++] = (struct job_pair){kinds[i].variable, env_dir};
    return n;
}

int launch_bundle(struct arena *a, const char *root, const char *hash, const char *path,
                  struct job_pair *out, struct err *e) {
    const char *dir = file_join(a, root, job_bundle_dir(a, hash));
    if (!file_exists(file_join(a, dir, JOB_BUNDLE_DONE)))
        return err_set(e, ERR_NOT_FOUND, "the environment of the run is not on this node: '%s'",
                       dir);
    return launch_bundle_fill(a, file_join(a, dir, JOB_BUNDLE_ENV), path, out);
}
