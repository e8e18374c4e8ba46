// SPDX-License-Identifier: Apache-2.0
// The command of a run: where its words come from, the interpreter of a script, hyperparameters,
// and the name of the task.
#include "run/run_start.h"

#include "base/env.h"
#include "fleet/embedded_files.h"
#include "run/run_sagemaker.h"
#include "run/task.h"
#include "sys/file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const INTERPRETERS[] = {"python", "python3", "sh", "bash", "env", "perl", NULL};

static bool is_interpreter(const char *word) {
    const char *base = file_base(word);
    for (size_t i = 0; INTERPRETERS[i]; i++)
        if (strcmp(base, INTERPRETERS[i]) == 0)
            return true;
    return str_starts(base, "python3.");
}

const char *run_start_task_name(struct arena *a, const char *const *command, size_t count) {
    // After an interpreter, the script gives the task its name.
    const char *word = count ? command[0] : "run";
    for (size_t i = 1; i < count && is_interpreter(command[0]); i++) {
        if (command[i][0] == '-')
            continue;
        bool plain = !strpbrk(command[i], " $;|&='\"");
        word = plain ? command[i] : command[0];
        break;
    }
    char *name = run_make_name(a, file_base(word));
    char *dot = strrchr(name, '.');
    if (dot && dot != name)
        *dot = 0;
    return name;
}

// A word like --nnodes shows that the user connects the groups of the nodes.
static bool names_nodes(const char *word) {
    static const char *const flags[] = {
        "--nnodes",       "--node",         "--rdzv",         "--master",
        "--num_machines", "--machine_rank", "--main_process", NULL};
    for (size_t i = 0; flags[i]; i++)
        if (str_starts(word, flags[i]))
            return true;
    return false;
}

const char *run_start_launcher(const char *const *command, size_t count) {
    static const char *const names[] = {
        "torchrun", "dtrun", "accelerate", "torch.distributed.run", "torch.distributed.launch",
        NULL};
    const char *word = count ? file_base(command[0]) : "";
    size_t at = 0;
    if (count && is_interpreter(command[0])) {
        while (at < count && strcmp(command[at], "-m") != 0)
            at++;
        word = ++at < count ? command[at] : "";
    }
    if (!str_is_one_of(word, names) ||
        (str_eq(word, "accelerate") && (count < 2 || !str_eq(command[1], "launch"))))
        return NULL;
    while (++at < count)
        if (names_nodes(command[at]))
            return NULL;
    return word;
}

static const char *model_name(struct arena *a, const struct config *c) {
    return arena_strndup(a, c->train.model, strcspn(c->train.model, "("));
}

// ---- the words ----------------------------------------------------------------------------------

struct words {
    const char **items; // NULL-terminated, of the arena
    size_t count;
};

static void words_add(struct words *w, const char *word) {
    w->items[w->count++] = word;
}

// A flag goes before a variable, and a variable before the file, as everywhere. Two commands of one
// place are a mistake.
static int choose(const struct config *c, const struct run_start_request *request, bool *shell,
                  struct err *e) {
    enum option_source line = option_place(&c->set, "train.shell")->source;
    enum option_source list =
        request->command_count ? OPTION_FLAG : option_place(&c->set, "train.command")->source;
    *shell = c->job.shell[0] != '\0' && line >= list;
    if (*shell && line == list)
        return err_set(e, ERR_CONFIG, "%s: a command is given too (%s); choose one of them",
                       config_where(c, "train.shell"),
                       request->command_count ? "after --" : config_where(c, "train.command"));
    return 0;
}

// An executable that is named with a folder (./train.sh) runs by its own first line.
static const char *interpreter_of(const char *script) {
    if (strchr(script, '/') && access(script, X_OK) == 0)
        return NULL;
    return str_ends(script, ".py") ? "python3" : str_ends(script, ".sh") ? "bash" : NULL;
}

static void add_command(struct words *w, const char *const *command, size_t count) {
    const char *interpreter = count ? interpreter_of(command[0]) : NULL;
    if (interpreter)
        words_add(w, interpreter);
    if (interpreter && str_ends(command[0], ".py"))
        words_add(w, "-u"); // as torchrun: lines are seen when they are printed
    for (size_t i = 0; i < count; i++)
        words_add(w, command[i]);
}

static void add_native(struct words *w, const char *program, const char *const *more) {
    words_add(w, program);
    words_add(w, "--config");
    words_add(w, "train.toml");
    for (size_t i = 0; more && more[i]; i++)
        words_add(w, more[i]);
}

static void add_hyperparameters(struct words *w, struct arena *a, const struct option_map *hp) {
    for (size_t i = 0; i < hp->count; i++) {
        words_add(w, arena_printf(a, "--%s", hp->items[i].name));
        words_add(w, hp->items[i].value);
    }
}

// The program of a container for SageMaker: no command, and an executable 'train' in the current
// folder, or a command of that name alone. SageMaker calls it with its name as the only word;
// hyperparameters are in a file.
static const char *const CONTAINER[] = {"./train", NULL};

static bool is_container(const struct config *c, const char *const *command, size_t count) {
    struct stat st;
    if (!c->compat_sagemaker || count > 1)
        return false;
    if (count)
        return strcmp(file_base(command[0]), file_base(CONTAINER[0])) == 0;
    return stat(CONTAINER[0], &st) == 0 && S_ISREG(st.st_mode) && access(CONTAINER[0], X_OK) == 0;
}

static int check_once(const struct config *c, struct err *e) {
    static const char *const others[] = {"train.nodes", "train.nproc_per_node", "train.spares"};
    if (!c->job.once)
        return 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (option_place(&c->set, others[i])->source == OPTION_FLAG)
            return err_set(e, ERR_USAGE, "%s: task.once runs one process on one node",
                           config_where(c, others[i]));
    return 0;
}

static int check_hyperparameters(const struct run_start *l, struct err *e) {
    const struct config *c = l->context->config;
    const struct option_map *hp = &c->hyperparameters;
    const char *where = config_where(c, "hyperparameters");
    if (l->native && hp->count)
        return err_set(e, ERR_CONFIG,
                       "%s: the native trainer has keys of its own (try: --set train.%s=%s)", where,
                       hp->items[0].name, hp->items[0].value);
    return 0;
}

// Settings that are for commands alone.
static int check_native(const struct config *c, const char *program, struct err *e) {
    if (c->compat_sagemaker)
        return err_set(e, ERR_CONFIG,
                       "%s: it is for commands, not for the native trainer (try: an executable "
                       "'train' in this folder, or a command after '--')",
                       config_where(c, "compat.sagemaker"));
    if (c->job.env_bundle[0])
        return err_set(e, ERR_CONFIG, "%s: it is for commands, not for the native trainer",
                       config_where(c, "env.bundle.archive"));
    for (size_t i = 0; i < c->inputs.count; i++)
        if (config_input_is_extracted(config_input(c, i)))
            return err_set(e, ERR_CONFIG,
                           "input '%s': deliver = extract is for commands: the native trainer "
                           "reads archives as they are (try: deliver = copy)",
                           config_input(c, i)->name);
    return program
               ? 0
               : err_set(e, ERR_FAILED, "this dtctl carries no trainer; give a command after '--'");
}

static int check_program(const struct config *c, const struct run_start_request *request,
                         const char *program, struct err *e) {
    return !program || *program
               ? 0
               : err_set(e, ERR_CONFIG, "%s: the name of the program is empty%s",
                         request->command_count ? "after --" : config_where(c, "train.command"),
                         request->command_count ? " (is a variable not set?)" : "");
}

int run_start_command_check(const struct config *c, struct err *e) {
    bool shell;
    struct run_start_request none = {0};
    if (check_once(c, e) < 0 || choose(c, &none, &shell, e) < 0)
        return -1;
    bool list = !shell && c->job.command.count > 0;
    return check_program(c, &none, list ? c->job.command.items[0] : NULL, e);
}

int run_start_command(struct run_start *l, const struct run_start_request *request, struct err *e) {
    enum { WORDS_MORE = 16 }; // interpreter, shell, or the trainer's own flags
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    const struct option_map *hp = &c->hyperparameters;
    const char *const *command = request->command_count ? request->command : c->job.command.items;
    size_t count = request->command_count ? request->command_count : c->job.command.count;
    struct run *r = &l->run;
    struct words w = {
        .items = arena_new(a, const char *, count + 2 * hp->count + WORDS_MORE),
    };
    bool shell = false;
    if (check_once(c, e) < 0 || choose(c, request, &shell, e) < 0 ||
        check_program(c, request, !shell && count ? command[0] : NULL, e) < 0)
        return -1;
    bool container = !shell && is_container(c, command, count);
    if (container && count == 0)
        command = CONTAINER;
    count = container ? 1 : count;
    l->native = r->native = !shell && count == 0;
    l->measures = l->native && request->bench;
    const char *program = l->native ? embedded_program_path(a, "dttrain") : NULL;
    if ((l->native && check_native(c, program, e) < 0) || check_hyperparameters(l, e) < 0)
        return -1;
    if (l->native) {
        add_native(&w, program, request->bench);
        r->name = model_name(a, c);
    } else if (shell) {
        const char *line = c->job.shell;
        const char *first = arena_strndup(a, line, strcspn(line, " \t\n;|&"));
        add_command(&w, (const char *const[]){"bash", "-c", line, "bash"}, 4); // "bash" is $0
        r->name = run_start_task_name(a, &first, 1);
    } else {
        add_command(&w, command, count);
        r->name = run_start_task_name(a, command, count);
    }
    if (container)
        words_add(&w, "train");
    else
        add_hyperparameters(&w, a, hp);
    const char *given = c->job.name[0] ? c->job.name : c->job.task;
    r->name = run_make_name(a, given[0] ? given : r->name);
    r->command = w.items;
    r->command_count = w.count;
    return 0;
}

// ---- the environment ----------------------------------------------------------------------------

// As python -u, which torchrun starts its scripts with: lines are seen when they are printed, and a
// worker that is killed has lost none.
static void add_unbuffered(struct run_start *l) {
    static const char name[] = "PYTHONUNBUFFERED";
    const struct option_map *env = &l->context->config->env;
    for (size_t i = 0; i < env->count; i++)
        if (strcmp(env->items[i].name, name) == 0)
            return;
    if (!l->native)
        l->spec.env[l->spec.env_count++] = (struct job_pair){name, "1"};
}

void run_start_env(struct run_start *l) {
    struct arena *a = l->context->arena;
    const struct config *c = l->context->config;
    const struct option_map *hp = &c->hyperparameters;
    struct job_spec *spec = &l->spec;
    spec->env = arena_new(a, struct job_pair,
                          c->env.count + hp->count + 3 + c->job.after.count + TASK_VARIABLES_MORE);
    if (hp->count)
        spec->env[spec->env_count++] = (struct job_pair){"SM_HPS", run_sagemaker_values(a, hp)};
    for (size_t i = 0; i < hp->count; i++)
        spec->env[spec->env_count++] =
            (struct job_pair){env_variable(a, "SM_HP_", hp->items[i].name), hp->items[i].value};
    for (size_t i = 0; i < c->env.count; i++)
        spec->env[spec->env_count++] =
            (struct job_pair){c->env.items[i].name, c->env.items[i].value};
    l->own_env_count = spec->env_count;
    add_unbuffered(l);
    run_sagemaker_fill(l);
}
