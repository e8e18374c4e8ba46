// SPDX-License-Identifier: Apache-2.0
// lib/convert: the numbers of jobs and steps of Slurm, and remarks on lines that nodes cannot run.
#include "tests/unit/convert/imported.h"

// Behind "exec " of the text for bash, or the command.
static const char *program(void) {
    const char *exec = strstr(value("train.shell"), "exec ");
    return exec ? exec + strlen("exec ") : command();
}

static void test_numbers(void) {
    static const struct {
        const char *flags, *lines;
        int cluster, run, processes; // 0: not set
        const char *note;            // NULL: none about the flags
        const char *program;
    } cases[] = {
        {"-n 16", "srun ./a", 0, 0, 16, "no number of nodes", "./a"},
        {"-n 16 --ntasks-per-node=4", "srun ./a", 4, 4, 4, NULL, "./a"},
        {"-n 7 --ntasks-per-node=4", "srun ./a", 0, 0, 4, "no number of nodes", "./a"},
        {"-n 4 --ntasks-per-node=1", "srun torchrun a.py", 4, 4, 0, NULL, "a.py"},
        {"-N 2 -n 4 --ntasks-per-node=8", "srun ./a", 2, 2, 2, NULL, "./a"},
        {"-N 2", "srun -n8 ./a", 2, 2, 4, NULL, "./a"},
        {"-N 4-2", "srun ./a", 0, 0, 0, "no number of nodes", "./a"},
        {"-N 2 -n 8", "srun ./prepare\nsrun ./a\nsrun -N1 -n1 ./eval", 2, 2, 4, NULL, "./a"},
        {"-N 2 -n 8", "srun -N1 -n1 ./eval", 2, 1, 1, "the run takes 1", "./eval"},
        {"-N 2 --ntasks-per-node=4", "srun --ntasks 1 ./eval", 2, 1, 1, "the run takes 1",
         "./eval"},
        {"-N 1 -n 1", "srun ./a\nsrun -n1 ./b", 1, 1, 1, NULL, "./b"},
        {"-N 1 -n 2", "srun ./a\nsrun -n1 ./b", 1, 1, 2, NULL, "./a"},
        {"-N 2", "srun ./a\nsrun -n 1 ./b", 2, 2, 0, NULL, "./a"},
        {"--ntasks-per-node=1", "srun ./a\nsrun --ntasks 1 ./b", 0, 0, 1, NULL, "./b"},
        {"--ntasks-per-node=2", "srun ./a\nsrun --ntasks=1 ./b", 0, 0, 2, NULL, "./a"},
        {"-N 2", "srun ./a\nsrun ./b x y -n 1", 2, 2, 0, NULL, "./b x y -n 1"},
        {"-N 2", "srun ./a\nsrun ./b", 2, 2, 0, NULL, "./b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ok(import("sbatch",
                  arena_printf(&a, "#!/bin/sh\n#SBATCH %s\n%s\n", cases[i].flags, cases[i].lines)),
           "job %zu: the script", i);
        is_int(toml_get_int(root, "cluster.nodes", 0), cases[i].cluster, "job %zu: nodes", i);
        is_int(toml_get_int(root, "train.nodes", 0), cases[i].run, "job %zu: nodes of the run", i);
        is_int(toml_get_int(root, "train.nproc_per_node", 0), cases[i].processes,
               "job %zu: processes", i);
        ok(!cases[i].note || noted("-", cases[i].note), "job %zu: the remark", i);
        is_str(program(), cases[i].program, "job %zu: the program", i);
    }
    static const char *const times[] = {"-5", "1::2", ":", "5-"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        import("sbatch", arena_printf(&a, "#!/bin/sh\n#SBATCH --time=%s\n./a.py\n", times[i]));
        ok(noted("--time", "cannot be read"), "the time %s is noted", times[i]);
    }
    import("sbatch", "#!/bin/sh\n#SBATCH --nodelist=n[1-100000000]\n./a.py\n");
    ok(noted("--nodelist", "left out"), "a list of too many nodes is noted");
}

static void test_remarks(void) {
    static const char *const modules[] = {"run", "launch"};
    for (int old = 0; old < 2; old++) {
        import("sbatch", arena_printf(&a, "#!/bin/sh\npython -u -m torch.distributed.%s a.py\n",
                                      modules[old]));
        is_int(noted("python", "LOCAL_RANK"), old, "torch.distributed.%s is old: %d", modules[old],
               old);
    }
    import("sbatch", "#!/bin/sh\ntimeout 9h srun python a.py\ntorchrun b.py\n");
    ok(noted("timeout 9h srun", "one command"), "a second launcher is left out");
    is_str(toml_get_str(root, "train.shell", ""), "",
           "the line of the left-out launcher is not kept");
    import("sbatch", "#!/bin/sh\nif true; then srun $PY a.py; fi\n");
    ok(noted("srun", "no Slurm"), "srun in a block is noted");
    ok(noted("$PY", "does not set it"), "a variable that nobody sets is noted");
    ok(noted("script", "inside of a block"), "the reason is the block");
    import("sbatch", "#!/bin/sh -e\nif true; then ./a; fi\n");
    is_str(toml_get_str(root, "train.shell", ""), "set -e\nif true; then ./a; fi\n",
           "options of the first line hold for the whole script");
    import("sbatch", "#!/bin/sh\nif [ -f x ]; then torchrun a.py; else torchrun b.py; fi\n");
    ok(noted("script", "inside of a block"), "a choice of launchers is a block");
    ok(noted("torchrun", "ranks by itself"), "torchrun on every rank is noted");
    ok(import("sbatch",
              "#!/bin/sh\nsrun apptainer exec i.sif torchrun --nproc-per-node=4 a.py --h $H\n"),
       "a container is read");
    ok(noted("apptainer", "no containers"), "the container is noted");
    ok(noted("$H", "does not set it"), "a variable of the user is noted");
    is_str(toml_get_str(root, "train.shell", ""), "exec python3 -u a.py --h $H",
           "the program of the container is that of the run");
    is_int(toml_get_int(root, "train.nproc_per_node", 0), 4,
           "the processes of the container are those of the run");
    import("sbatch", "#!/bin/sh\nfor i in 1 2; do ./a $i \"${B:-c}\" '$d' \\$e $HOME; done\n");
    is_int((int)d.note_count, 1, "variables that are set, and text, are not noted");
    import("sbatch", "#!/bin/sh\nsrun bash -c \"torchrun a.py\"\n");
    ok(noted("torchrun", "ranks by itself"), "torchrun in a text for bash is noted");
}

int main(void) {
    test_numbers();
    test_remarks();
    arena_fini(&a);
    return done_testing();
}
