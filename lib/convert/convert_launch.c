// SPDX-License-Identifier: Apache-2.0
// The launchers that a script may use: srun, torchrun and python -m torch.distributed.run, mpirun.
#include "convert/convert_script.h"

#include <ctype.h>
#include <string.h>

#define AGENTS "dtctl connects the nodes itself"

static enum convert_next take_nodes(struct convert_walk *w, const struct json *v) {
    struct convert_script *s = w->state;
    const char *value = convert_script_value(s, v->str);
    if (!value)
        convert_draft_note(w->draft, w->from,
                           "left out: only bash knows the value; the number of "
                           "nodes is that of the rest of the file");
    else if (strcmp(value, "nodes") != 0)
        s->launch_nodes = (struct convert_number){w->from, value};
    return CONVERT_DONE;
}

static enum convert_next take_nproc(struct convert_walk *w, const struct json *v) {
    struct convert_script *s = w->state;
    const char *value = convert_script_value(s, v->str);
    if (value && strcmp(value, "tasks") == 0)
        value = s->tasks_per_node.text;
    if (!value)
        convert_draft_note(w->draft, w->from,
                           "only bash knows the value; train.nproc_per_node is \"auto\", one "
                           "process per GPU");
    s->launch_nproc = (struct convert_number){w->from, value ? value : "auto"};
    return CONVERT_DONE;
}

static enum convert_next take_module(struct convert_walk *w, const struct json *v) {
    (void)v;
    ((struct convert_script *)w->state)->module = true;
    return CONVERT_DONE;
}

static enum convert_next take_program(struct convert_walk *w, const struct json *v) {
    (void)v;
    ((struct convert_script *)w->state)->program = true;
    return CONVERT_DONE;
}

#define PASS(dashed, underscored, sentence)                                                        \
    { .name = "--" dashed, .words = '=', .key = "train.torchrun." underscored, .text = sentence }
#define IGNORED(flag, sentence)                                                                    \
    { .name = "--" flag, .words = '=', .key = "", .text = sentence }
#define NO_VALUE(flag, sentence)                                                                   \
    { .name = "--" flag, .key = "", .text = sentence }

const struct convert_field convert_launch_torchrun[] = {
    {.name = "--nnodes",
     .letter = 'n',
     .words = '=',
     .key = "train.nodes",
     .text = "also cluster.nodes",
     .take = take_nodes},
    {.name = "--nproc-per-node",
     .words = '=',
     .key = "train.nproc_per_node",
     .text = "`$SLURM_GPUS_ON_NODE` and its like are `gpu`",
     .take = take_nproc},
    {.name = "--ppn",
     .words = '=',
     .key = "train.nproc_per_node",
     .text = "the same",
     .take = take_nproc},
    {.name = "--max-restarts", .words = '=', .key = "train.max_restarts"},
    PASS("monitor-interval", "monitor_interval", NULL),
    PASS("role", "role", NULL),
    PASS("redirects", "redirects", NULL),
    PASS("tee", "tee", NULL),
    PASS("local-ranks-filter", "local_ranks_filter", NULL),
    PASS("duplicate-stdout-filters", "duplicate_stdout_filters", NULL),
    PASS("duplicate-stderr-filters", "duplicate_stderr_filters", NULL),
    PASS("log-line-prefix-template", "log_line_prefix_template", NULL),
    PASS("rdzv-conf", "rdzv_conf", NULL),
    PASS("signals-to-handle", "signals_to_handle", NULL),
    PASS("shutdown-timeout", "shutdown_timeout", NULL),
    IGNORED("rdzv-backend", AGENTS),
    IGNORED("rdzv-endpoint", AGENTS),
    IGNORED("rdzv-id", "dtctl names the run"),
    IGNORED("master-addr", AGENTS),
    IGNORED("master-port", AGENTS),
    IGNORED("node-rank", "the order of the nodes gives it"),
    IGNORED("local-addr", AGENTS),
    IGNORED("start-method", "a script is always started as a new process"),
    IGNORED("log-dir", "dtctl keeps the output of every rank (dtctl logs)"),
    NO_VALUE("standalone", AGENTS),
    NO_VALUE("use-env", "scripts read LOCAL_RANK"),
    NO_VALUE("run-path", "the script runs by the interpreter of its name"),
    {.name = "--module",
     .letter = 'm',
     .key = "train.command",
     .text = "`python3 -m MODULE`",
     .take = take_module},
    {.name = "--no-python",
     .key = "train.command",
     .text = "the program as it is",
     .take = take_program},
    {.name = "--numa-binding", .words = '=', .text = "start the program with numactl"},
    {.name = "--logs-specs", .words = '=', .text = "plug-ins for logs are not available"},
    {.name = "--event-log-handler", .words = '=', .text = "dtctl writes events.jsonl"},
    {.name = "--virtual-local-rank",
     .text = "set CUDA_VISIBLE_DEVICES from LOCAL_RANK in the script"},
    {.name = NULL},
};

// ---- mpirun -------------------------------------------------------------------------------------

static enum convert_next take_total(struct convert_walk *w, const struct json *v) {
    ((struct convert_script *)w->state)->tasks = (struct convert_number){w->from, v->str};
    return CONVERT_DONE;
}

static enum convert_next take_per_node(struct convert_walk *w, const struct json *v) {
    ((struct convert_script *)w->state)->tasks_per_node = (struct convert_number){w->from, v->str};
    return CONVERT_DONE;
}

static enum convert_next take_export(struct convert_walk *w, const struct json *v) {
    size_t len = convert_shell_assigns(v->str);
    if (len)
        convert_draft_pair(w->draft, w->from, "env", arena_strndup(w->draft->arena, v->str, len),
                           v->str + len + 1);
    else
        convert_draft_note(w->draft, w->from, "it has no value here; set it in [env]");
    return CONVERT_DONE;
}

#define PLACEMENT "ranks follow the order of the nodes; bind processors in the program"

const struct convert_field convert_launch_mpirun[] = {
    {.name = "--np",
     .letter = 'n',
     .words = '=',
     .key = "train.nproc_per_node",
     .text = "divided by the number of nodes",
     .take = take_total},
    {.name = "--npernode",
     .letter = 'N',
     .words = '=',
     .key = "train.nproc_per_node",
     .take = take_per_node},
    {.name = "--ppn", .words = '=', .key = "train.nproc_per_node", .take = take_per_node},
    {.name = "--x",
     .words = '=',
     .key = "env",
     .text = "NAME=VALUE; set a name without a value in [env]",
     .take = take_export},
    {.name = "--hostfile", .words = '=', .text = "name the machines in hosts.list"},
    {.name = "--machinefile", .words = '=', .text = "name the machines in hosts.list"},
    {.name = "--host", .letter = 'H', .words = '=', .text = "name the machines in hosts.list"},
    {.name = "--mca", .words = 'v', .key = "", .text = "settings of Open MPI itself"},
    IGNORED("bind-to", PLACEMENT),
    IGNORED("map-by", PLACEMENT),
    IGNORED("rank-by", PLACEMENT),
    NO_VALUE("allow-run-as-root", "not needed"),
    NO_VALUE("oversubscribe", "not needed"),
    NO_VALUE("tag-output", "every line has the name of its rank"),
    {.name = NULL},
};

// ---- lines --------------------------------------------------------------------------------------

static const char *base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_python(const char *word) {
    const char *name = base(word);
    return strcmp(name, "python") == 0 || strcmp(name, "python3") == 0 ||
           str_starts(name, "python3.");
}

// Words in front of a command that change how the shell starts it.
static size_t skip_prefix(const struct convert_line *l, size_t i) {
    static const char *const prefixes[] = {"exec", "time", "nohup", "command", NULL};
    while (i < l->count &&
           (convert_shell_assigns(l->words[i].raw) || str_is_one_of(l->words[i].text, prefixes)))
        i++;
    return i;
}

// Words of torchrun at i: "torchrun", "python -m torch.distributed.run", with python's own flags.
static size_t torchrun_words(const struct convert_line *l, size_t i, bool *old) {
    static const char *const modules[] = {"torch.distributed.run", "torch.distributed.launch",
                                          NULL};
    *old = false;
    if (i < l->count && strcmp(base(l->words[i].text), "torchrun") == 0)
        return 1;
    if (i >= l->count || !is_python(l->words[i].text))
        return 0;
    size_t k = i + 1;
    while (k < l->count && l->words[k].text[0] == '-' && strcmp(l->words[k].text, "-m") != 0)
        k++;
    if (k + 1 >= l->count || strcmp(l->words[k].text, "-m") != 0 ||
        !str_is_one_of(l->words[k + 1].text, modules))
        return 0;
    *old = str_ends(l->words[k + 1].text, "launch");
    return k + 2 - i;
}

// The index of the launcher behind words that only prepare it ("timeout 9h srun …", "apptainer exec
// IMAGE torchrun …"); i: there is none.
static size_t behind_wrapper(const struct convert_script *s, const struct convert_line *l,
                             size_t i) {
    static const char *const wrappers[] = {
        "apptainer", "singularity", "docker", "podman", "enroot",     "env",     "timeout",
        "numactl",   "taskset",     "nice",   "ionice", "stdbuf",     "conda",   "uv",
        "poetry",    "nsys",        "ncu",    "time",   "micromamba", "shifter", NULL};
    bool old;
    if (i >= l->count || !str_is_one_of(base(l->words[i].text), wrappers))
        return i;
    for (size_t k = i + 1; k < l->count; k++)
        if (torchrun_words(l, k, &old) || (s->srun && strcmp(l->words[k].text, "srun") == 0))
            return k;
    return i;
}

bool convert_launch_is_single(const struct convert_line *l) {
    static const char *const words[] = {"-n1", "-N1", "--ntasks=1", "--nodes=1", NULL};
    static const char *const flags[] = {"-n", "-N", "--ntasks", "--nodes", NULL};
    size_t i = skip_prefix(l, 0), values = 0;
    if (i >= l->count || strcmp(base(l->words[i].text), "srun") != 0)
        return false;
    for (i++; i < l->count && values < 2; i++) { // two words without '-': the program began
        const char *next = i + 1 < l->count ? l->words[i + 1].text : "";
        if (str_is_one_of(l->words[i].text, words) ||
            (str_is_one_of(l->words[i].text, flags) && strcmp(next, "1") == 0))
            return true;
        values = l->words[i].text[0] == '-' ? 0 : values + 1;
    }
    return false;
}

int convert_launch_rank(const struct convert_script *s, const struct convert_line *l) {
    static const char *const launchers[] = {"mpirun", "mpiexec", "accelerate", "deepspeed", NULL};
    size_t i = behind_wrapper(s, l, skip_prefix(l, 0));
    bool old;
    if (i >= l->count)
        return 0;
    const char *name = base(l->words[i].text);
    if (strcmp(name, "srun") == 0 && s->srun) {
        for (size_t k = i + 1; k < l->count; k++)
            if (torchrun_words(l, k, &old))
                return 3;
        return 2;
    }
    if (torchrun_words(l, i, &old))
        return 3;
    if (str_is_one_of(name, launchers))
        return 2;
    return is_python(name) || str_ends(name, ".py") ? 1 : 0;
}

static size_t drop_wrapper(struct convert_script *s, const struct convert_line *l, size_t i) {
    size_t k = behind_wrapper(s, l, i);
    if (k > i)
        convert_draft_note(s->draft, (struct convert_from){l->line, l->words[i].text},
                           "left out, with the words up to %s: dtctl starts the ranks, and runs no "
                           "containers; prepare the nodes in setup.run",
                           l->words[k].text);
    return k;
}

// Reads flags by a table; returns the index behind them.
static size_t take_flags(struct convert_script *s, const struct convert_field *fields,
                         const struct convert_line *l, size_t i) {
    struct convert_walk w = {.draft = s->draft, .fields = fields, .state = s};
    const char **words = arena_new(s->draft->arena, const char *, l->count + 1);
    for (size_t k = i; k < l->count; k++)
        words[k - i] = l->words[k].text;
    return i + convert_field_flags(&w, l->line, words, l->count - i);
}

static size_t take_torchrun(struct convert_script *s, const struct convert_line *l, size_t i,
                            size_t words, bool old, const char **prefix) {
    if (old)
        convert_draft_note(s->draft, (struct convert_from){l->line, l->words[i].text},
                           "scripts get no --local-rank; they read LOCAL_RANK");
    s->by_torchrun = true;
    s->launch_nproc.text = s->launch_nproc.text ? s->launch_nproc.text : "1";
    i = take_flags(s, convert_launch_torchrun, l, i + words);
    const char *name = i < l->count ? l->words[i].text : "";
    *prefix = s->module                                        ? "python3 -m"
              : !s->program && !str_ends(name, ".py") && *name ? "python3"
                                                               : "";
    return i;
}

size_t convert_launch_words(struct convert_script *s, const struct convert_line *l,
                            const char **prefix) {
    size_t i = drop_wrapper(s, l, skip_prefix(l, 0)), words;
    bool old;
    *prefix = "";
    if (s->srun && i < l->count && strcmp(base(l->words[i].text), "srun") == 0) {
        s->by_srun = true;
        i = take_flags(s, s->srun, l, i + 1);
        for (; i < l->count && strstr(l->words[i].raw, "[@]}");
             i = take_flags(s, s->srun, l, i + 1))
            convert_draft_note(s->draft, (struct convert_from){l->line, l->words[i].raw},
                               "left out: only bash knows these words");
        i = drop_wrapper(s, l, skip_prefix(l, i));
    }
    if (i >= l->count)
        return i;
    words = torchrun_words(l, i, &old);
    if (words)
        return take_torchrun(s, l, i, words, old, prefix);
    const char *name = base(l->words[i].text);
    if (strcmp(name, "mpirun") == 0 || strcmp(name, "mpiexec") == 0) {
        s->by_mpirun = true;
        convert_draft_note(s->draft, (struct convert_from){l->line, l->words[i].text},
                           "ranks have RANK, WORLD_SIZE and LOCAL_RANK, and none of MPI's own "
                           "variables; a program that calls MPI_Init is alone");
        return take_flags(s, convert_launch_mpirun, l, i + 1);
    }
    if (strcmp(name, "accelerate") == 0 || strcmp(name, "deepspeed") == 0)
        convert_draft_note(s->draft, (struct convert_from){l->line, l->words[i].text},
                           "it starts ranks by itself; give the script alone as train.command and "
                           "train.nproc_per_node = \"gpu\": dtctl starts the ranks");
    return i;
}
