// SPDX-License-Identifier: Apache-2.0
// Variables of Slurm and mpirun: node lists, task counts, complete environments, and the resulting
// flags.
#include "base/str.h"
#include "launch/mpi.h"
#include "launch/scheduler.h"
#include "launch/slurm.h"
#include "tests/tap.h"

#include <string.h>

static void lists(void) {
    static const struct {
        const char *text, *want; // want: names with blanks between
    } good[] = {
        {"n1", "n1"},
        {"gpu[01-04,7],x", "gpu01 gpu02 gpu03 gpu04 gpu7 x"},
        {"a[8-11]", "a8 a9 a10 a11"},
        {"a[008-011]b", "a008b a009b a010b a011b"},
        {"rack[0-1]n[1-2,5].lab", "rack0n1.lab rack0n2.lab rack0n5.lab rack1n1.lab rack1n2.lab "
                                  "rack1n5.lab"},
        {"ip-10-0-0-[1,3]", "ip-10-0-0-1 ip-10-0-0-3"},
        {"[1-2]", "1 2"},
    };
    static const char *const bad[] = {"",
                                      ",",
                                      "a,",
                                      "a[",
                                      "a[1",
                                      "a[]",
                                      "a[1-]",
                                      "a[2-1]",
                                      "a[1,]",
                                      "a[x]",
                                      "a]",
                                      "a b",
                                      "a;b",
                                      "-a",
                                      "a[1-99999]",
                                      "a[1234567890]",
                                      "a[1][1][1][1][1]",
                                      "a[0-9999][0-9999]",
                                      "a[1-2]]"};
    struct arena a = {0};
    struct err e;
    char **names;
    size_t count;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct strbuf b = {0};
        is_int(slurm_nodelist(&a, good[i].text, &names, &count, &e), 0, "'%s' is a list",
               good[i].text);
        for (size_t k = 0; k < count; k++)
            strbuf_addf(&b, "%s%s", k ? " " : "", names[k]);
        is_str(strbuf_cstr(&b), good[i].want, "the list expands to these names");
        strbuf_fini(&b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.text[0] = '\0';
        is_int(slurm_nodelist(&a, bad[i], &names, &count, &e), -1, "'%s' is refused", bad[i]);
        ok(e.text[0], "the refusal has a text");
    }
    arena_fini(&a);
}

static void tasks(void) {
    static const struct {
        const char *text;
        int node, want; // -1: refused
    } cases[] = {{"4", 0, 4},
                 {"4(x2)", 1, 4},
                 {"4(x2),1", 2, 1},
                 {"2,3,4", 1, 3},
                 {"4", 1, -1},
                 {"", 0, -1},
                 {"4(x2", 0, -1},
                 {"x", 0, -1},
                 {"0", 0, -1},
                 {"4(x0),2", 0, 2},
                 {"4;", 0, -1},
                 {"99999999", 0, -1},
                 {"4(x999999999),2", 5, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e;
        int got = -1;
        if (slurm_tasks_of(cases[i].text, cases[i].node, &got, &e) < 0)
            got = -1;
        is_int(got, cases[i].want, "node %d has its tasks in '%s'", cases[i].node, cases[i].text);
    }
}

// All flags that follow, with blanks between; "none" without surroundings, else the error.
static void flags(const char *want, const struct around_given *g, const char *const *env,
                  const char *what) {
    struct arena a = {0};
    struct err e;
    struct around x;
    struct strbuf b = {0};
    int rc = scheduler_read(&a, (char *const *)env, &x, &e);
    if (rc > 0)
        x.per_task = scheduler_is_per_task(&x, g);
    char *const *list = rc < 0 ? NULL : scheduler_variables(&a, &x, g, &e);
    if (!list)
        strbuf_addf(&b, "error: %s", e.text);
    else if (rc == 0)
        strbuf_adds(&b, "none");
    for (; list && *list; list++)
        strbuf_addf(&b, "%s%s", b.len ? " " : "", *list);
    if (str_starts(want, "error") && list == NULL)
        has_str(strbuf_cstr(&b), want + strlen("error: "), "%s", what);
    else
        is_str(strbuf_cstr(&b), want, "%s", what);
    strbuf_fini(&b);
    arena_fini(&a);
}

#define SLURM(node, local, tasks_per_node, ...)                                                    \
    (const char *const[]) {                                                                        \
        "PATH=/bin", "SLURM_JOB_ID=12", "SLURM_STEP_ID=0", "SLURM_PROCID=3", "SLURM_NODEID=" node, \
            "SLURM_LOCALID=" local, "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST=gpu[07-08]",    \
            "SLURM_JOB_NODELIST=gpu[01-08]", "SLURM_STEP_TASKS_PER_NODE=" tasks_per_node,          \
            "SLURMD_NODENAME=gpu08", __VA_ARGS__ NULL                                              \
    }
#define START(node)                                                                                \
    "PET_NNODES=2 PET_NODE_RANK=" node " PET_RDZV_ID=slurm-12.0 PET_RDZV_BACKEND=static "          \
    "PET_MASTER_ADDR=gpu07 PET_MASTER_PORT=14702"

static void slurm(void) {
    const struct around_given none = {0}, alone = {.standalone = true}, one = {.nnodes = "1"},
                              range = {.nnodes = "1:2"}, c10d = {.rdzv_backend = "c10d"},
                              at = {.rdzv_backend = "c10d", .rdzv_endpoint = "h:1"};
    flags(START("1"), &none, SLURM("1", "0", "1(x2)", ), "one task per node");
    flags("PET_NPROC_PER_NODE=4 " START("1"), &none, SLURM("1", "2", "8,4", ),
          "a task per worker: as many workers");
    flags("PET_NPROC_PER_NODE=8 " START("0"), &none,
          SLURM("0", "0", "1(x2)", "SLURM_GPUS_ON_NODE=8", ),
          "one task and GPUs: a worker for each");
    static const char tasks[] = "PET_NNODES=4 PET_NODE_RANK=3 PET_RDZV_ID=slurm-12.0 "
                                "PET_RDZV_BACKEND=static PET_MASTER_ADDR=gpu07 "
                                "PET_MASTER_PORT=14702";
    const struct around_given ranked = {.nnodes = "4", .node_rank = "3"}, four = {.nnodes = "4"},
                              three = {.nnodes = "3"};
    flags(tasks, &ranked, SLURM("1", "1", "2(x2)", "SLURM_NTASKS=4", ),
          "a node rank for each task: each is an agent");
    flags(tasks, &four, SLURM("1", "1", "2(x2)", "SLURM_NTASKS=4", ),
          "as many nodes as tasks, too");
    flags("PET_NPROC_PER_NODE=2 " START("1"), &three, SLURM("1", "1", "2(x2)", "SLURM_NTASKS=4", ),
          "any other number of nodes: one agent per node");
    flags("PET_NPROC_PER_NODE=4", &alone, SLURM("1", "0", "4(x2)", ), "--standalone wins");
    flags("PET_NPROC_PER_NODE=4", &one, SLURM("1", "0", "4(x2)", ), "with --nnodes 1");
    flags("PET_NNODES=2 PET_NODE_RANK=0 PET_RDZV_ID=slurm-12.0 PET_RDZV_BACKEND=c10d "
          "PET_RDZV_ENDPOINT=gpu07:14702 PET_RDZV_CONF=is_host=1",
          &range, SLURM("0", "0", "1(x2)", ), "a range joins at the first node");
    flags("PET_NNODES=2 PET_NODE_RANK=1 PET_RDZV_ID=slurm-12.0 PET_RDZV_BACKEND=c10d "
          "PET_RDZV_ENDPOINT=gpu07:14702 PET_RDZV_CONF=is_host=0",
          &c10d, SLURM("1", "0", "1(x2)", ), "c10d gives the same");
    flags("PET_NNODES=2 PET_NODE_RANK=1 PET_RDZV_ID=slurm-12.0 PET_RDZV_BACKEND=c10d "
          "PET_RDZV_ENDPOINT=gpu07:14702",
          &at, SLURM("1", "0", "1(x2)", ), "an endpoint of one's own decides who leads");
    const char *const batch[] = {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=a[1-2]", "SLURM_PROCID=0",
                                 "SLURM_NODEID=0", NULL};
    flags("none", &none, batch, "a batch script is no step");
    flags("error: SLURM_NODEID", &none, SLURM("x", "0", "1(x2)", ), "a rank that is no number");
    flags("error: SLURM_NODEID 2", &none, SLURM("2", "0", "1(x3)", ), "a rank outside the list");
    flags("error: do not cover node 1", &none, SLURM("1", "0", "1", ), "counts that stop short");
}

// The variables that mpirun of Open MPI 5.0.11 sets, on its second node.
#define OPEN_MPI_5(rank, size, local, local_size, name)                                            \
    (const char *const[]) {                                                                        \
        "OMPI_VERSION=5.0.11", "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=" size,         \
            "OMPI_COMM_WORLD_LOCAL_RANK=" local, "OMPI_COMM_WORLD_LOCAL_SIZE=" local_size,         \
            "PMIX_NAMESPACE=" name, "PMIX_RANK=" rank, "PMIX_HOSTNAME=node2",                      \
            "PMIX_SERVER_URI41=prterun-node1-129@0.1;tcp4://127.0.0.1:4817", "PRTE_LAUNCHED=1",    \
            NULL                                                                                   \
    }

static void open_mpi_5(void) {
    const struct around_given none = {0}, each = {.nnodes = "2"};
    flags("PET_NNODES=2 PET_NODE_RANK=1 PET_RDZV_ID=mpi-prterun-gpu-node-1-129@1 "
          "PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=gpu-node-1:14964",
          &none, OPEN_MPI_5("1", "2", "0", "1", "prterun-gpu-node-1-129@1"),
          "the leader is mpirun's host");
    flags("PET_NPROC_PER_NODE=2", &none, OPEN_MPI_5("1", "2", "1", "2", "x"),
          "one node needs no leader");
    flags("PET_NNODES=2 PET_NODE_RANK=1 PET_RDZV_ID=mpi-x PET_RDZV_BACKEND=c10d "
          "PET_RDZV_ENDPOINT=127.0.0.1:22038",
          &each, OPEN_MPI_5("1", "2", "1", "2", "x"), "agents of one host meet over loopback");
    flags("error: mpirun -N 1 dtrun --rdzv-endpoint node1:29400 train.py", &none,
          OPEN_MPI_5("1", "2", "0", "1", "x"), "the error has a line to run");
    static const char *const names[][2] = {
        {"prte-node7.lab-1@2", "node7.lab"},
        {"prterun-a@b-1@2", ""},
        {"prterun--1@2", ""},
        {"prterun-1@2", ""},
        {"prterun-n-1", ""},
        {"prterun-n-@1", ""},
        {"prterun--x-1@2", ""},
        {"prterun-n-1x@2", ""},
        {"slurm.pmix.7.0", ""},
    };
    struct arena a = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_str(mpi_namespace_host(&a, names[i][0]), names[i][1], "%s has the host '%s'",
               names[i][0], names[i][1]);
    arena_fini(&a);
}

static void mpi(void) {
    const struct around_given none = {0}, named = {.master_addr = "fd00::7"};
    const char *const open_mpi[] = {
        "OMPI_COMM_WORLD_RANK=3",
        "OMPI_COMM_WORLD_SIZE=4",
        "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=2",
        "PMIX_NAMESPACE=77",
        "SLURM_JOB_ID=1",
        "SLURM_STEP_ID=0",
        "SLURM_PROCID=0",
        "OMPI_MCA_orte_hnp_uri=77.0;tcp://127.0.0.1,10.1.2.3:4;tcp6://[fd00::2]:5",
        NULL};
    flags("PET_NPROC_PER_NODE=2 PET_NNODES=2 PET_NODE_RANK=3 PET_RDZV_ID=mpi-77 "
          "PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=10.1.2.3:19120",
          &none, open_mpi, "Open MPI, also inside Slurm");
    const char *const mpich[] = {"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=0",
                                 "MPI_LOCALNRANKS=1", NULL};
    flags("error: --rdzv-endpoint", &none, mpich, "MPICH does not say where");
    flags("PET_NNODES=2 PET_NODE_RANK=1 PET_RDZV_ID=mpi PET_RDZV_BACKEND=c10d "
          "PET_RDZV_ENDPOINT=[fd00::7]:19267",
          &named, mpich, "the leader is given");
    const char *const master[] = {"PMI_RANK=1", "PMI_SIZE=2", "MASTER_ADDR=h", NULL};
    flags("PET_NNODES=2 PET_NODE_RANK=1 PET_RDZV_ID=mpi PET_RDZV_BACKEND=c10d "
          "PET_RDZV_ENDPOINT=h:19267",
          &none, master, "in the environment too");
    const char *const uneven[] = {"PMI_RANK=1", "PMI_SIZE=3", "MPI_LOCALNRANKS=2", NULL};
    flags("error: mpirun -N 1", &none, uneven, "nodes that are not alike");
    const char *const nothing[] = {"PATH=/bin", NULL};
    flags("none", &none, nothing, "no launcher at all");
    struct arena a = {0};
    is_str(mpi_uri_address(&a, "1.0;tcp6://[::1]:4"), "",
           "an address that is not there has no name");
    is_str(mpi_uri_address(&a, ";tcp://"), "", "an address that is absent is empty");
    arena_fini(&a);
}

int main(void) {
    lists();
    tasks();
    slurm();
    mpi();
    open_mpi_5();
    return done_testing();
}
