// SPDX-License-Identifier: Apache-2.0
// Takes rank and world size from the variables of MPI launchers. One row per family of launchers;
// the first one whose rank is set counts.
#include "launch/mpi.h"

#include "base/env.h"
#include "base/hostlist.h"
#include "base/str.h"

#include <string.h>

static const struct family {
    const char *rank, *size, *local, *tasks, *run, *uri; // uri: of Open MPI 4
} families[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID", NULL},
};

const char *mpi_uri_address(struct arena *a, const char *uri) {
    const char *from = strstr(uri, "tcp://");
    if (!from)
        return "";
    from += strlen("tcp://");
    size_t len = strcspn(from, ":;");
    char **parts;
    size_t count = str_split(a, arena_strndup(a, from, len), ',', &parts);
    for (size_t i = 0; i < count; i++)
        if (parts[i][0] && !str_starts(parts[i], "127.") &&
            strspn(parts[i], "0123456789.") == strlen(parts[i]))
            return parts[i];
    return "";
}

const char *mpi_namespace_host(struct arena *a, const char *name) {
    static const char *const programs[] = {"prterun-", "prte-"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        size_t before = strlen(programs[i]);
        if (!str_starts(name, programs[i]))
            continue;
        const char *host = name + before, *at = strrchr(host, '@'), *end = at;
        while (end && end > host && end[-1] >= '0' && end[-1] <= '9')
            end--;
        if (!end || end == at || end - host < 2 || end[-1] != '-')
            return "";
        char *text = arena_strndup(a, host, (size_t)(end - 1 - host));
        return str_is_name(text, HOSTLIST_NAME_BYTES_MAX) ? text : "";
    }
    return "";
}

static int read_int(char *const *env, const char *name, int64_t min, int64_t absent, int *out,
                    struct err *e) {
    int64_t value = absent;
    const char *text = env_get(env, name);
    if (text && str_parse_i64(text, min, MPI_RANKS_MAX, &value, e) < 0)
        return err_wrap(e, "%s", name);
    *out = (int)value;
    return 0;
}

int mpi_read(struct arena *a, char *const *env, struct mpi_place *out, struct err *e) {
    const struct family *f = families;
    const struct family *end = families + sizeof families / sizeof *families;
    while (f < end && !env_get(env, f->rank))
        f++;
    if (f == end)
        return 0;
    *out = (struct mpi_place){.run = env_get(env, f->run), .leader = ""};
    if (read_int(env, f->rank, 0, 0, &out->rank, e) < 0 ||
        read_int(env, f->size, 1, 1, &out->size, e) < 0 ||
        read_int(env, f->local, 0, 0, &out->local, e) < 0 ||
        read_int(env, f->tasks, 1, 1, &out->tasks, e) < 0)
        return -1;
    if (out->rank >= out->size || out->local >= out->tasks || out->size % out->tasks != 0)
        return err_set(e, ERR_CONFIG,
                       "mpirun: rank %d of %d, %d of %d on this node: every node needs as many "
                       "processes (mpirun -N 1)",
                       out->rank, out->size, out->local, out->tasks);
    const char *uri = f->uri ? env_get(env, f->uri) : NULL;
    out->run = out->run ? out->run : "";
    out->nodes = out->size / out->tasks;
    out->leader = uri ? mpi_uri_address(a, uri) : mpi_namespace_host(a, out->run);
    if (!out->leader[0] && out->nodes == 1)
        out->leader = "127.0.0.1";
    return 1;
}
