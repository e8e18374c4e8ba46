// SPDX-License-Identifier: Apache-2.0
// lib/convert: lines and words of scripts, the flags of launchers, drafts, and each format.
#include "convert/convert_shell.h"
#include "convert/convert_yaml.h"
#include "tests/unit/convert/imported.h"

// ---- scripts ------------------------------------------------------------------------------------

// "LINE:word|word;…" of a script.
static const char *shown(const char *script) {
    struct strbuf out = {0};
    struct convert_line *lines;
    size_t count = convert_shell_lines(&a, script, strlen(script), 1, &lines);
    for (size_t i = 0; i < count; i++) {
        strbuf_addf(&out, "%s%d:", i ? ";" : "", lines[i].line);
        for (size_t k = 0; k < lines[i].count; k++)
            strbuf_addf(&out, "%s%s%s", k ? "|" : "", lines[i].words[k].text,
                        lines[i].words[k].expands ? "!" : "");
        if (*lines[i].rest)
            strbuf_addf(&out, "<%s>", lines[i].rest);
    }
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

static void test_shell(void) {
    static const struct {
        const char *script, *want;
    } cases[] = {
        {"a b  c\n\n# remark\nd # e\n", "1:a|b|c;4:d"},
        {"a \\\n  b\nc", "1:a|b;3:c"},
        {"a 'b c' \"d e\" f\\ g", "1:a|b c|d e|f g"},
        {"a '$b' \"$c\" $d \\$e", "1:a|$b|$c!|$d!|$e"},
        {"a *.py 'x*' ~/b", "1:a|*.py!|x*|~/b!"},
        {"a | b", "1:a<| b>"},
        {"a 2>&1 | b", "1:a<2>&1 | b>"},
        {"a x2 >b", "1:a|x2<>b>"},
        {"x=$(a b | c) d", "1:x=$(a b | c)!|d"},
        {"x=\"$(a \"b c\")\" d", "1:x=$(a b c)!|d"},
        {"x=`a b` ${y:-z w}", "1:x=`a b`!|${y:-z w}!"},
        {"n=( $(a)\n# )\nc )\nb", "1:n=( $(a)\n# )\nc )!;4:b"},
        {"a 'two\nlines' b\nc", "1:a|two\nlines|b;3:c"},
        {"cat <<E >f\na b\nE\nc", "1:cat<<<E >f\na b\nE>;4:c"},
        {"cat <<-'E'\n\ta\n\tE\nc", "1:cat<<<-'E'\n\ta\n\tE>;4:c"},
        {"a <<<b\nc", "1:a<<<<b>;2:c"},
        {"a 'open\nb", "1:a|open\nb"},
        {"a\r\nb\r\n", "1:a;2:b"},
        {"a#b c", "1:a#b|c"},
        {"$($($($(", "1:$($($($(!"},
        {"a $((2*(3+1))) b\nc", "1:a|$((2*(3+1)))!|b;2:c"},
        {"a $(b (c) d) e", "1:a|$(b (c) d)!|e"},
        {"a \"x 'y\" z", "1:a|x 'y|z"},
        {"a \"open\nb", "1:a|open\nb"},
        {"a `open b\nc", "1:a|`open b\nc!"},
        {"a ${open b", "1:a|${open b!"},
        {"a ${x:-\"}\"} b", "1:a|${x:-}}!|b"},
        {"a $(b ')' \\) \")\") c", "1:a|$(b ) ) ))!|c"},
        {"a $(b # )\nc) d", "1:a|$(b # )\nc)!|d"},
        {"a $(b#) c", "1:a|$(b#)!|c"},
        {"a '", "1:a|"},
        {"a ''", "1:a|"},
        {"a \\", "1:a|\\"},
        {"a \\\n", "1:a"},
        {"a $", "1:a|$!"},
        {"a x=(b c) y=", "1:a|x=(b c)|y="},
        {"cat <<E", "1:cat<<<E>"},
        {"cat <<E\na", "1:cat<<<E\na>"},
        {"cat <<E\nE", "1:cat<<<E\nE>"},
        {"cat <<E\n\tE\nEE\nE\nb", "1:cat<<<E\n\tE\nEE\nE>;5:b"},
        {"cat << 'A_1'\nA\nA_1\nb", "1:cat<<< 'A_1'\nA\nA_1>;4:b"},
        {"a <<\nb", "1:a<<<>;2:b"},
        {"a 12>b", "1:a<12>b>"},
        {"a 1x>b", "1:a|1x<>b>"},
        {">b a", "1:<>b a>"},
        {"a 9<b", "1:a<9<b>"},
        {"a;b", "1:a<;b>"},
        {"a ~ x~ '~'", "1:a|~!|x~|~"},
        {"a [x] x? \"y*\"", "1:a|[x]!|x?!|y*"},
        {"a \"\\$b \\\" \\x \\\nc\"", "1:a|$b \" \\x c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        is_str(shown(cases[i].script), cases[i].want, "script %zu", i);
    is_int((int)convert_shell_assigns("A_1=x"), 3, "an assignment");
    is_int((int)convert_shell_assigns("1A=x"), 0, "a digit begins no name");
    is_int((int)convert_shell_assigns("a-b=x"), 0, "a flag is no assignment");
}

// ---- drafts -------------------------------------------------------------------------------------

static void test_draft(void) {
    struct convert_from from = {3, "here\nand there"};
    begin("sbatch");
    ok(convert_draft_set(&d, from, "cluster.nodes", "3"), "a number");
    ok(!convert_draft_set(&d, from, "cluster.nodes", "0"), "a number below the minimum");
    ok(has(d.notes[0].text, "minimum"), "the refusal is a note");
    ok(!convert_draft_set(&d, from, "cluster.nodes", "many"), "no number");
    ok(convert_draft_set(&d, from, "train.nproc_per_node", "gpu"), "a word for a number");
    ok(convert_draft_set(&d, from, "train.nodes", "2:3"), "a range");
    ok(convert_draft_set(&d, from, "task.max_time", "90m"), "a duration");
    ok(convert_draft_add(&d, from, "train.command", "a"), "an item");
    ok(convert_draft_add(&d, from, "train.command", "b]\""), "another item");
    ok(!convert_draft_add(&d, from, "hosts.list", "c d"), "an item that the table refuses");
    ok(convert_draft_pair(&d, from, "env", "A", "x\ny"), "a pair");
    ok(!convert_draft_pair(&d, from, "aws.tags", "aws:x", "y"), "a tag of AWS's own");
    ok(!convert_draft_pair(&d, from, "env", "1A", "x"), "a name that the table refuses");
    ok(!convert_draft_input(&d, from, "in", "mode", "sharded"), "an input without a source");
    ok(convert_draft_input(&d, from, "in", "source", "s3://b/k"), "the source of an input");
    ok(convert_draft_input(&d, from, "in", "mode", "sharded"), "the mode of an input");
    ok(!convert_draft_input(&d, from, "in", "mode", "torn"), "a mode that there is not");
    ok(!convert_draft_input(&d, from, "IN", "source", "s3://b/k") &&
           has(convert_draft_last_note(&d), "'in' has the variable DTCTL_INPUT_IN already"),
       "an input with the variable of another is refused");
    ok(convert_draft_pair(&d, from, "hyperparameters", "a-b", "1"), "a hyperparameter is taken");
    ok(!convert_draft_pair(&d, from, "hyperparameters", "a_b", "1"),
       "a hyperparameter with the variable of another is refused");
    ok(convert_draft_set(&d, from, "train.shell", "a '''\nb"), "text that cannot be a block");
    ok(convert_draft_set(&d, from, "setup.run", "pip install x\n"), "a block");
    const char *text = written();
    is_int(toml_get_int(root, "cluster.nodes", 0), 3, "the number is kept");
    is_str(toml_get_str(root, "train.shell", ""), "a '''\nb", "quotes survive");
    is_str(toml_get_str(root, "setup.run", ""), "pip install x\n", "lines survive");
    is_str(toml_get_str(root, "inputs.in.mode", ""), "sharded", "the input is kept");
    is_str(toml_first(root, "train.command")->next->str, "b]\"", "a bracket in an item survives");
    ok(has(text, "# line 3: here\\nand there\nnodes = 3"), "the comment is one line");
    ok(has(text, "'''\npip install x\n'''"), "a block can be read");
}

static void test_limits(void) {
    begin("sbatch");
    for (int i = 0; i < CONVERT_ENTRIES_MAX + 2; i++)
        convert_draft_pair(&d, (struct convert_from){1, "x"}, "env", arena_printf(&a, "A%d", i),
                           "v");
    is_int((int)d.entry_count, CONVERT_ENTRIES_MAX, "settings have a limit");
    is_int((int)d.note_count, 2, "those above it are noted");
    for (int i = 0; i < CONVERT_NOTES_MAX; i++)
        convert_draft_note(&d, (struct convert_from){1, "x"}, "y");
    is_int((int)d.notes_left, 2, "notes above their limit are counted");
    begin("sbatch");
    for (int i = 0; i <= CONVERT_ITEMS_MAX; i++)
        convert_draft_add(&d, (struct convert_from){1, "x"}, "train.command", "w");
    written();
    is_int((int)toml_get(root, "train.command")->len, CONVERT_ITEMS_MAX, "items have a limit");
    is_int((int)d.note_count, 1, "an item above it is noted");
    begin("sagemaker");
    for (int i = 0; i < 66; i++)
        convert_draft_pair(&d, (struct convert_from){1, "x"}, "metrics", arena_printf(&a, "m%d", i),
                           "(a)");
    written();
    is_int((int)toml_get(root, "metrics")->len, 64, "a table has the limit of its row");
    is_int((int)d.note_count, 2, "names above it are noted");
}

// ---- formats ------------------------------------------------------------------------------------

static void test_times(void) {
    static const struct {
        const char *slurm, *want;
    } cases[] = {
        {"90", "90m"},
        {"1:30", "90s"},
        {"8:00:00", "8h"},
        {"2-12", "60h"},
        {"2-12:30", "3630m"},
        {"1-0:0:1", "86401s"},
        {"infinite", ""},
        {"UNLIMITED", ""},
        {"1:2:3:4", ""},
        {"x", ""},
        {"-", ""},
        {"9999999999", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        import("sbatch", arena_printf(&a, "#!/bin/sh\n#SBATCH -t %s\n./x.py\n", cases[i].slurm));
        is_str(value("task.max_time"), cases[i].want, "--time %s", cases[i].slurm);
    }
}

static void test_launch(void) {
    static const struct {
        const char *line, *command, *shell, *nodes, *nproc;
    } cases[] = {
        {"torchrun --nproc_per_node=4 a.py --x 1", "a.py|--x|1", "", "", "4"},
        {"torchrun a.py", "a.py", "", "", ""},
        {"torchrun train --x", "python3|train|--x", "", "", ""},
        {"torchrun --nnodes 1:4 --nproc-per-node gpu -m pkg.a b", "python3|-m|pkg.a|b", "", "1:4",
         "gpu"},
        {"torchrun --no-python --tee 3 ./a", "./a", "", "", ""},
        {"python -u -m torch.distributed.launch --nproc_per_node 2 a.py", "a.py", "", "", "2"},
        {"python3 -m torch.distributed.run train", "python3|train", "", "", ""},
        {"N=3\ntorchrun --nnodes=$N --nproc-per-node=${N} a.py", "a.py", "", "3", "3"},
        {"torchrun --nproc-per-node $(nvidia-smi -L | wc -l) a.py", "a.py", "", "", "gpu"},
        {"torchrun --nproc-per-node $(other) a.py", "a.py", "", "", "auto"},
        {"torchrun a.py --out $HOME/x", "", "exec python3 -u a.py --out $HOME/x", "", ""},
        {"exec env2 x\npython a.py", "", "exec env2 x\nexec python a.py\n", "", ""},
        {"cd x && python3 a.py && b", "", "cd x &&\nexec python3 a.py\n", "", ""},
        {"[ -f x ] && . x\npython3 a.py", "", "[ -f x ] && . x\nexec python3 a.py\n", "", ""},
        {"echo a >b\npython3 a.py", "", "echo a >b\nexec python3 a.py\n", "", ""},
        {"python3 a.py $((2*3)) c", "", "exec python3 a.py $((2*3)) c", "", ""},
        {"python3 - <<E | b\nimport x\nE", "", "exec python3 - <<E\nimport x\nE\n", "", ""},
        {"python3 a.py <b >c --d 2>&1", "", "exec python3 a.py --d <b", "", ""},
        {"python3 a.py >c --d e", "python3|a.py|--d|e", "", "", ""},
        {"python3 a.py <(b) c", "", "exec python3 a.py <(b) c", "", ""},
        {"set -eu\ncd x\nset +u\npython3 a.py", "", "set -eu\ncd x\nset +u\nexec python3 a.py\n",
         "", ""},
        {"set -e\npython3 a.py", "python3|a.py", "", "", ""},
        {"srun ./a $((SLURM_NPROCS*2))", "",
         "export SLURM_PROCID=$RANK\nexport SLURM_LOCALID=$LOCAL_RANK\n"
         "export SLURM_NODEID=$GROUP_RANK\nexport SLURM_NTASKS=$WORLD_SIZE\n"
         "export SLURM_NPROCS=$WORLD_SIZE\nexport SLURM_NNODES=$GROUP_WORLD_SIZE\n"
         "exec ./a $((SLURM_NPROCS*2))",
         "", ""},
        {"mpirun -np 8 -npernode 4 -x A=b -mca c d ./a e", "./a|e", "", "2", "4"},
        {"L=torchrun A=(--nproc_per_node=$G # x\n --tee 3)\nG=4\nP=( --x 'y z' )\n"
         "srun -l \"${C[@]}\" ${L} \"${A[@]}\" a.py ${P[@]} \"$L\"",
         "a.py|--x|y z|torchrun", "", "", "4"},
        {"A=($(x))\n[ ${A[0]} ]\ntorchrun a.py", "",
         "A=($(x))\n[ ${A[0]} ]\nexec python3 -u a.py\n", "", ""},
        {"A=1 B=2 python a.py", "python|a.py", "", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        import("sbatch", arena_printf(&a, "#!/bin/sh\n%s\n", cases[i].line));
        is_str(command(), cases[i].command, "line %zu: the command", i);
        is_str(value("train.shell"), cases[i].shell, "line %zu: the shell", i);
        is_str(value("train.nodes"), cases[i].nodes, "line %zu: the nodes", i);
        is_str(value("train.nproc_per_node"), cases[i].nproc, "line %zu: the processes", i);
    }
    is_str(value("env.B"), "2", "assignments in front of a command");
}

static void test_scripts(void) {
    import("sbatch", "#!/bin/sh\n#SBATCH -N3 -n7\nsrun ./a\n");
    ok(noted("--ntasks", "7 processes do not divide among 3 nodes"), "tasks that do not divide");
    import("sbatch", "#!/bin/sh\nfor i in 1 2; do torchrun a.py; done\n");
    is_str(command(), "", "a launcher inside of a loop is no command");
    ok(has(value("train.shell"), "for i in"), "the loop is kept");
    import("sbatch", "#!/bin/sh\na\n");
    is_str(value("train.shell"), "a\n", "a script of one line");
    struct strbuf text = {0};
    strbuf_adds(&text, "#!/bin/sh\n");
    while (text.len < 100000)
        strbuf_adds(&text, "a; ");
    ok(!import("sbatch", strbuf_cstr(&text)), "a script that is too long is refused");
    ok(has(e.text, "65536 bytes"), "the limit is named");
    strbuf_clear(&text);
    strbuf_adds(&text, "envs:\n");
    for (int i = 0; i < 1900; i++)
        strbuf_addf(&text, "  A%d: x\n", i);
    strbuf_adds(&text, "run: python3 a.py\n");
    ok(!import("sky", strbuf_cstr(&text)), "a program behind too many settings is refused");
    ok(has(e.text, "the program is not taken"), "the error says so");
    strbuf_fini(&text);
    import("sbatch", "#!/bin/bash -e\ncd x\n./a.py\n");
    is_str(value("train.shell"), "set -e\ncd x\nexec ./a.py\n", "options of the first line");
    is_str(value("train.name"), "file", "the task has the name of the file");
    import("sbatch", "#!/bin/sh\nX=$(srun hostname)\ntorchrun a.py --at $X\n");
    ok(noted("$X", "left out"), "a variable that is not set any more is noted");
}

static void test_refused(void) {
    static const struct {
        const char *format, *text, *why;
    } cases[] = {
        {"sbatch", "srun a", "line 1: a batch script begins with"},
        {"sbatch", "", "line 1: "},
        {"sbatch", "#!/bin/sh\n#SBATCH -N2\n", "line 2: the script has no command"},
        {"sagemaker", "", "line 1: "},
        {"sagemaker", "{\n\"a\": [1,\n}", "line 3: "},
        {"sagemaker", "[]", "no CreateTrainingJob"},
        {"sagemaker", "{\"x\\u0000y\": 1}", "a member name holds a NUL"},
        {"sagemaker", "{\"ResourceConfig\": {},\n\"A\": [{\"B\": \"x\\u0000y\"}]}",
         "line 2: a value holds a NUL"},
        {"sagemaker",
         "{\"ResourceConfig\": {},\n"
         "\"AlgorithmSpecification\": {\"ContainerEntrypoint\": \"a\"}}",
         "line 2: ContainerEntrypoint is no list"},
        {"pcluster", "a: 1\n", "line 1: this is no configuration of ParallelCluster 3"},
        {"pcluster", "a: 1\n b: 2\n", "line 2: "},
        {"sky", "a: 1\n", "line 1: this is no task of SkyPilot"},
        {"sbatch", "#!/usr/bin/env -S python3\nimport os\n", "line 1: 'python3' is no shell"},
        {"sbatch", "#!/usr/bin/python3\nimport os\n", "line 1: 'python3' is no shell"},
        {"sbatch", "#!/bin/sh\ntorchrun --tee 3\n", "line 2 names no program"},
        {"sky", "run: [x]\n", "line 1: run is no text"},
        {"sky", "run: \"\"\nnum_nodes: 2\n", "the program is not taken"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ok(!import(cases[i].format, cases[i].text), "%s %zu is refused", cases[i].format, i);
        is_int(e.code, ERR_CONFIG, "%s %zu: its code", cases[i].format, i);
        ok(has(e.text, cases[i].why), "%s %zu: the reason", cases[i].format, i);
    }
    ok(!convert_find("slurm"), "a format that does not exist");
}

static void test_sagemaker(void) {
    ok(import("sagemaker", "{\"AlgorithmSpecification\": {\"ContainerArguments\": [\"b\", 3],\n"
                           "\"ContainerEntrypoint\": [\"./a\"]}, \"ResourceConfig\":\n"
                           "{\"InstanceType\": \"ml.p5.48xlarge\", \"InstanceCount\": \"x\"},\n"
                           "\"HyperParameters\": {\"sagemaker_mpi_enabled\": \"true\",\n"
                           "\"sagemaker_mpi_num_of_processes_per_host\": \"8\", \"a b\": \"1\"}}"),
       "a job with an entry point");
    is_str(command(), "./a|b|3", "the entry point goes before the arguments");
    is_str(value("train.nproc_per_node"), "8", "processes per host");
    is_str(value("cluster.nodes"), "", "a count that is no number is left out");
    ok(noted("InstanceCount", "left out"), "the count is noted");
    ok(noted("HyperParameters.a b", "left out"), "a name that dtctl refuses is noted");
    ok(import("sagemaker", "{\"ResourceConfig\": {}, \"AlgorithmSpecification\": {}}"),
       "a job that names no program");
    ok(noted("TrainingJob", "no program"), "the program is missed");
    import("sagemaker",
           "{\"ResourceConfig\": {\"VolumeSizeInGB\": 2.5}, \"Environment\": \"x\",\n"
           "\"AlgorithmSpecification\": {\"ContainerArguments\": [\"a\"]},\n"
           "\"HyperParameters\": {\"sagemaker_program\": \"b.py\", \"c\": [1]},\n"
           "\"EnableManagedSpotTraining\": \"true\", \"Tags\": [{\"Key\": \"k\", \"Values\": 1}]}");
    is_str(command(), "b.py", "arguments without an entry point are not the program");
    ok(noted("ContainerArguments", "entry point of the image"), "the arguments are noted");
    ok(noted("VolumeSizeInGB", "a whole number is expected"), "a fraction of a GB is noted");
    ok(noted("Environment", "a mapping is expected"), "an environment that is a text is noted");
    ok(noted("HyperParameters.c", "a single value"), "a hyperparameter that is a list is noted");
    ok(noted("EnableManagedSpot", "true or false is expected"), "a text for a flag is noted");
    ok(noted("Tags[].Values", "does not know"), "an unknown member is noted");
    ok(noted("Tags[]", "Key and Value"), "a tag without a value is noted");
    import("sagemaker", "{\"ResourceConfig\": {\"VolumeSizeInGB\": 9223372036854775807},\n"
                        "\"HyperParameters\": [1]}");
    ok(noted("VolumeSizeInGB", "no volume has"), "a volume that is too large is noted");
    ok(noted("HyperParameters", ""), "hyperparameters that are a list are noted");
}

// ---- YAML ---------------------------------------------------------------------------------------

// The tree as JSON, or the error.
static const char *yaml(const char *text) {
    struct json *v;
    struct strbuf out = {0};
    struct json_out j;
    err_clear(&e);
    if (convert_yaml_parse(&a, text, strlen(text), &v, &e) < 0)
        return arena_strdup(&a, e.text);
    json_open(&j, &out);
    json_value(&j, v);
    const char *copy = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return copy;
}

static void test_yaml(void) {
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"a: 1\nb: -2.5\nc: x y\nd: [true, no, ~, '1', \"2\"]\n",
         "{\"a\":1,\"b\":-2.5,\"c\":\"x y\",\"d\":[true,false,null,\"1\",\"2\"]}"},
        {"a: |\n  x\n  y\nb: >\n  x\n  y\n", "{\"a\":\"x\\ny\\n\",\"b\":\"x y\\n\"}"},
        {"a: 99999999999999999999\nb: 1e3\nc: 1.2.3\nd: 0x10\n",
         "{\"a\":1e+20,\"b\":1000,\"c\":\"1.2.3\",\"d\":\"0x10\"}"},
        {"a: &x {b: 1}\nc: *x\nd: [*x, *x]\n",
         "{\"a\":{\"b\":1},\"c\":{\"b\":1},\"d\":[{\"b\":1},{\"b\":1}]}"},
        {"a: &x 1\nb: &x 2\nc: *x\n", "{\"a\":1,\"b\":2,\"c\":2}"},
        {"a:\n", "{\"a\":null}"},
        {"", "line 1: the file is no mapping of names to values"},
        {"- a\n", "line 1: the file is no mapping of names to values"},
        {"a: 1\nb: [\n", "line 3: did not find expected node content"},
        {"a: 1\n\tb: 2\n", "line 2: found a tab character that violates indentation"},
        {"a: 1\n---\nb: 2\n", "line 2: a second document begins; one is read"},
        {"a: 1\nb: 2\na: 3\n", "line 3: key 'a' is given twice"},
        {"a: &x {b: 1}\nc:\n  <<: *x\n",
         "line 3: merging by '<<' is not read; write the members out"},
        {"a: *x\n", "line 1: alias 'x' has no anchor before it"},
        {"a: &x [*x]\n", "line 1: alias 'x' has no anchor before it"},
        {"[a, b]: 1\n", "line 1: a key is a list or a mapping"},
        {"a: \"x\\x00y\"\n", "line 1: a value holds a NUL"},
        {"a: !!python/object/apply:x [b]\n",
         "line 1: the tag 'tag:yaml.org,2002:python/object/apply:x' is not read"},
        {"a: !Sub b\n", "line 1: the tag '!Sub' is not read"},
        {"a: !!str 1\n", "{\"a\":\"1\"}"},
        {"a: \xff\n", "line 1: invalid leading UTF-8 octet"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        is_str(yaml(cases[i].text), cases[i].want, "YAML %zu", i);
}

static void test_yaml_limits(void) {
    struct strbuf text = {0};
    for (int i = 0; i < 70; i++)
        strbuf_adds(&text, "{a: ");
    ok(has(yaml(strbuf_cstr(&text)), "nested deeper than 64"), "depth has a limit");
    strbuf_clear(&text);
    strbuf_adds(&text, "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
    for (int i = 1; i < 30; i++)
        strbuf_addf(&text, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1,
                    i - 1);
    ok(has(yaml(strbuf_cstr(&text)), "more than 100000 values, aliases counted"),
       "aliases of aliases have a limit");
    strbuf_clear(&text);
    for (int i = 0; i <= CONVERT_YAML_ANCHORS_MAX; i++)
        strbuf_addf(&text, "a%d: &a%d 1\n", i, i);
    ok(has(yaml(strbuf_cstr(&text)), "more than 100 anchors"), "anchors have a limit");
    strbuf_clear(&text);
    for (int i = 0; i <= CONVERT_YAML_MEMBERS_MAX; i++)
        strbuf_addf(&text, "a%d: 1\n", i);
    ok(has(yaml(strbuf_cstr(&text)), "more than 2000 members"), "members have a limit");
    strbuf_fini(&text);
}

static void test_pcluster(void) {
    const char *head = "Region: eu-west-1\nScheduling:\n  SlurmQueues:\n  - ComputeResources:\n";
    ok(import("pcluster",
              arena_printf(&a, "%s    - InstanceType: c5.large\n      MaxCount: 4\n", head)),
       "a queue that grows");
    is_str(value("cluster.nodes"), "4", "MaxCount without MinCount");
    ok(noted("MaxCount", "do not come and go"), "nodes do not come and go");
    import("pcluster", arena_printf(&a, "%s    - MinCount: 2\n      MaxCount: 2\n", head));
    is_str(value("cluster.nodes"), "2", "MinCount");
    ok(!noted("MaxCount", ""), "a fixed number is not noted");
    import("pcluster", "Scheduling: {SlurmSettings: {ScaledownIdletime: 5, Dns: {A: true}}}\n"
                       "Image: {Os: alinux2}\n");
    is_str(value("lease.idle"), "5m", "the idle time has an equivalent inside of SlurmSettings");
    ok(noted("SlurmSettings.Dns", "no Slurm"), "another one has the advice of its parent");
    ok(noted("Image.Os", "alinux2"), "the note names the other system");
}

static void test_sky(void) {
    ok(import("sky", "resources: {cloud: gcp, region: us-central1, accelerators: A100:8}\n"
                     "num_nodes: 3\nrun: torchrun a.py\n"),
       "a task on another cloud");
    is_str(value("cluster.provider"), "", "another cloud is no provider");
    is_str(value("aws.region"), "", "the region of another cloud is left out");
    is_str(value("train.nodes"), "3", "the number of nodes is taken");
    ok(noted("resources", "gcp has no provider"), "the cloud is noted");
    import("sky", "resources:\n  infra: aws/us-east-1/us-east-1b\n  accelerators: {L4: 4}\n"
                  "  autostop: 30\n  image_id: docker:x\nrun: echo $SKYPILOT_NODE_RANK\n");
    is_str(value("aws.region"), "us-east-1", "the region of infra");
    is_str(value("aws.instance_type"), "g6.12xlarge", "a type for the GPUs");
    is_str(value("lease.idle"), "30m", "minutes until the end");
    ok(has(value("train.shell"), "export SKYPILOT_NODE_RANK=$GROUP_RANK\necho"),
       "a variable of SkyPilot is set from ours");
    ok(noted("image_id", "no containers"), "a container is noted");
    import("sky", "file_mounts: {/a/data: s3://b/c, /d/data: s3://e/f, /g/DATA: s3://h/i}\n"
                  "resources: {use_spot: maybe}\nrun: ./a\n");
    is_str(value("inputs.data.source"), "s3://b/c", "an input");
    is_str(value("inputs.data_2.source"), "s3://e/f", "another one with the same last part");
    is_str(value("inputs.DATA_3.source"), "s3://h/i", "an input with the same variable");
    ok(noted("resources.use_spot", "true or false"), "a word for a flag is noted");
    import("sky", "resources: {accelerators: 'TPU:4'}\nrun: a.py\n");
    ok(noted("accelerators", "no type of EC2 is known with TPU:4"), "an accelerator of no type");
}

int main(void) {
    test_shell();
    test_draft();
    test_limits();
    test_times();
    test_launch();
    test_scripts();
    test_refused();
    test_sagemaker();
    test_yaml();
    test_yaml_limits();
    test_pcluster();
    test_sky();
    arena_fini(&a);
    return done_testing();
}
