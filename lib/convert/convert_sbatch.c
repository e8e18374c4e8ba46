// SPDX-License-Identifier: Apache-2.0
// Batch scripts of Slurm: the #SBATCH lines in front of the first command, then the script.
#include "convert/convert.h"
#include "convert/convert_script.h"

#include "base/hostlist.h"

#include <ctype.h>
#include <string.h>

enum { HOSTS_MAX = 4096 }; // as in a node set

#define MARK      "#SBATCH"
#define SCHEDULER "dtctl has no queue; it uses the nodes that it is given"
#define MEMORY    "ranks may use all memory of their node"
#define OUTPUT    "dtctl keeps the output of every rank: dtctl logs, and logs/ of the run's folder"
#define GPUS      "ranks may use all GPUs of their node; set train.nproc_per_node"
#define MACHINES  "set cluster.provider = \"hosts\" and name the machines in hosts.list"

// ---- values -------------------------------------------------------------------------------------

static struct convert_script *script_of(struct convert_walk *w) {
    return w->state;
}

static enum convert_next take_nodes(struct convert_walk *w, const struct json *v) {
    struct convert_script *s = script_of(w);
    struct arena *a = w->draft->arena;
    char *dash = strchr(v->str, '-');
    struct convert_number min = {w->from, v->str}, max = min;
    int64_t least, most;
    struct err ignored = {0};
    if (dash) {
        min.text = arena_strndup(a, v->str, (size_t)(dash - v->str));
        max.text = dash + 1;
    }
    if (str_parse_i64(min.text, 1, INT32_MAX, &least, &ignored) < 0 ||
        str_parse_i64(max.text, least, INT32_MAX, &most, &ignored) < 0) {
        convert_draft_note(w->draft, w->from,
                           "left out: it is no number of nodes; set "
                           "cluster.nodes and train.nodes");
        return CONVERT_DONE;
    }
    s->nodes_min = min;
    s->nodes_max = max;
    return CONVERT_DONE;
}

static enum convert_next take_tasks(struct convert_walk *w, const struct json *v) {
    script_of(w)->tasks = (struct convert_number){w->from, v->str};
    return CONVERT_DONE;
}

static enum convert_next take_per_node(struct convert_walk *w, const struct json *v) {
    script_of(w)->tasks_per_node = (struct convert_number){w->from, v->str};
    return CONVERT_DONE;
}

// "90", "90:30", "8:00:00", "2-12", "2-12:30:00": minutes, or days and hours first.
static bool duration_of(const char *text, int64_t *seconds) {
    static const int with_days[] = {3600, 60, 1},
                     without_days[3][3] = {{60}, {60, 1}, {3600, 60, 1}};
    enum { PARTS_MAX = 3, DAY_S = 86400, PART_MAX = 1000000 };
    int64_t parts[PARTS_MAX] = {0}, days = 0;
    size_t count = 0;
    const char *dash = strchr(text, '-');
    if (dash == text)
        return false;
    if (dash) {
        for (const char *p = text; p < dash; p++) {
            if (!isdigit((unsigned char)*p) || days > PART_MAX)
                return false;
            days = days * 10 + *p - '0';
        }
        text = dash + 1;
    }
    for (const char *p = text;; p++) {
        if ((*p == ':' || !*p) && (p == text || p[-1] == ':'))
            return false;
        if (*p == ':' || !*p)
            count++;
        else if (!isdigit((unsigned char)*p) || parts[count] > PART_MAX)
            return false;
        else
            parts[count] = parts[count] * 10 + *p - '0';
        if (!*p)
            break;
        if (count == PARTS_MAX)
            return false;
    }
    const int *units = dash ? with_days : without_days[count - 1];
    *seconds = days * DAY_S;
    for (size_t i = 0; i < count; i++)
        *seconds += parts[i] * units[i];
    return *text != '\0';
}

static enum convert_next take_time(struct convert_walk *w, const struct json *v) {
    int64_t seconds;
    if (duration_of(v->str, &seconds))
        convert_field_seconds(w, "task.max_time", seconds);
    else if (strcasecmp(v->str, "infinite") == 0 || strcasecmp(v->str, "unlimited") == 0)
        convert_draft_needless(w->draft, w->from);
    else
        convert_draft_note(w->draft, w->from, "left out: the time cannot be read");
    return CONVERT_DONE;
}

static enum convert_next take_hosts(struct convert_walk *w, const struct json *v) {
    if (strchr(v->str, '/')) {
        convert_draft_note(w->draft, w->from, "left out: %s", MACHINES);
        return CONVERT_DONE;
    }
    struct hostlist list;
    const char *why = NULL;
    for (const char *p = v->str, *end; *p && !why; p = *end ? end + 1 : end) {
        end = hostlist_end(p);
        why = hostlist_parse(w->draft->arena, p, end, "", HOSTS_MAX, &list);
    }
    if (why) {
        convert_draft_note(w->draft, w->from, "left out: %s", why);
    } else if (convert_draft_add(w->draft, w->from, "hosts.list", v->str)) {
        convert_field_set(w, "cluster.provider", "hosts");
        script_of(w)->has_hosts = true;
    }
    return CONVERT_DONE;
}

static enum convert_next take_export(struct convert_walk *w, const struct json *v) {
    struct arena *a = w->draft->arena;
    char **items;
    size_t count = str_split(a, v->str, ',', &items);
    for (size_t i = 0; i < count; i++) {
        size_t len = convert_shell_assigns(items[i]);
        if (len)
            convert_draft_pair(w->draft, w->from, "env", arena_strndup(a, items[i], len),
                               items[i] + len + 1);
        else if (*items[i] && strcasecmp(items[i], "ALL") != 0 &&
                 strcasecmp(items[i], "NONE") != 0 && strcasecmp(items[i], "NIL") != 0)
            convert_draft_note(w->draft, w->from, "'%s' has no value here; set it in [env]",
                               items[i]);
        else
            convert_draft_needless(w->draft, (struct convert_from){w->from.line, items[i]});
    }
    return CONVERT_DONE;
}

// "[{R|B}:]SIGNAL[@SECONDS]"
static enum convert_next take_signal(struct convert_walk *w, const struct json *v) {
    struct arena *a = w->draft->arena;
    const char *colon = strchr(v->str, ':'), *name = colon ? colon + 1 : v->str;
    const char *at = strchr(name, '@');
    if (colon && memchr(v->str, 'B', (size_t)(colon - v->str)))
        convert_draft_note(w->draft, w->from,
                           "left out: 'B:', the signal for the shell of the script alone; every "
                           "rank gets the signal, so the program has to handle it");
    if (colon && memchr(v->str, 'R', (size_t)(colon - v->str)))
        convert_draft_note(w->draft, w->from, "left out: 'R:', since %s", SCHEDULER);
    convert_field_set(w, "train.notice_signal", arena_strndup(a, name, strcspn(name, "@")));
    if (at)
        convert_draft_note(w->draft, w->from,
                           "the signal comes one minute before task.max_time, at nine tenths of a "
                           "short limit");
    return CONVERT_DONE;
}

// ---- the table ----------------------------------------------------------------------------------

#define NONE(flag, advice)                                                                         \
    { .name = "--" flag, .words = '=', .text = advice }
#define NEEDLESS(flag, advice)                                                                     \
    { .name = "--" flag, .words = '=', .key = "", .text = advice }

const struct convert_field convert_sbatch_fields[] = {
    {.name = "--job-name", .letter = 'J', .words = '=', .key = "train.name"},
    {.name = "--nodes",
     .letter = 'N',
     .words = '=',
     .key = "train.nodes",
     .text = "also cluster.nodes; `2-4` is `2:4`",
     .take = take_nodes},
    {.name = "--ntasks-per-node",
     .words = '=',
     .key = "train.nproc_per_node",
     .text = "where srun starts the ranks, and not torchrun",
     .take = take_per_node},
    {.name = "--ntasks",
     .letter = 'n',
     .words = '=',
     .key = "train.nproc_per_node",
     .text = "the same, divided by the nodes",
     .take = take_tasks},
    {.name = "--time", .letter = 't', .words = '=', .key = "task.max_time", .take = take_time},
    {.name = "--nodelist",
     .letter = 'w',
     .words = '=',
     .key = "hosts.list",
     .text = "with cluster.provider = \"hosts\"",
     .take = take_hosts},
    {.name = "--export",
     .words = '=',
     .key = "env",
     .text =
         "names with values; ALL means nothing here: nodes do not get this computer's variables",
     .take = take_export},
    {.name = "--signal", .words = '=', .key = "train.notice_signal", .take = take_signal},
    {.name = "--output", .letter = 'o', .words = '=', .key = "", .text = OUTPUT},
    {.name = "--error", .letter = 'e', .words = '=', .key = "", .text = OUTPUT},
    NEEDLESS("open-mode", OUTPUT),
    {.name = "--input", .letter = 'i', .words = '=', .text = "ranks have no standard input"},
    {.name = "--chdir",
     .letter = 'D',
     .words = '=',
     .text = "run dtctl train in that folder: it is sent to the nodes"},
    {.name = "--partition", .letter = 'p', .words = '=', .text = MACHINES},
    {.name = "--account", .letter = 'A', .words = '=', .text = SCHEDULER},
    {.name = "--qos", .letter = 'q', .words = '=', .text = SCHEDULER},
    {.name = "--constraint", .letter = 'C', .words = '=', .text = MACHINES},
    {.name = "--exclude",
     .letter = 'x',
     .words = '=',
     .text = "leave the machine out of hosts.list"},
    NONE("reservation", SCHEDULER),
    NONE("priority", SCHEDULER),
    NONE("nice", SCHEDULER),
    NONE("begin", SCHEDULER),
    NONE("deadline", SCHEDULER),
    {.name = "--licenses", .letter = 'L', .words = '=', .text = SCHEDULER},
    {.name = "--dependency",
     .letter = 'd',
     .words = '=',
     .text = "make both jobs tasks of one file: [tasks.NAME] with after (dtctl run)"},
    {.name = "--array",
     .letter = 'a',
     .words = '=',
     .text = "start dtctl train once for each value, with --env or --hp"},
    {.name = "--mem", .words = '=', .text = MEMORY},
    NONE("mem-per-cpu", MEMORY),
    NONE("mem-per-gpu", MEMORY),
    NONE("tmp", "check the disk of the nodes with dtctl doctor"),
    {.name = "--cpus-per-task",
     .letter = 'c',
     .words = '=',
     .text = "ranks may use all processors of their node; set OMP_NUM_THREADS in [env]"},
    NONE("cpus-per-gpu", "ranks may use all processors of their node"),
    NONE("gres", GPUS),
    {.name = "--gpus", .letter = 'G', .words = '=', .text = GPUS},
    NONE("gpus-per-node", GPUS),
    NONE("gpus-per-task", "a rank takes the GPU of its LOCAL_RANK"),
    NONE("ntasks-per-gpu", GPUS),
    NONE("ntasks-per-socket", "set train.nproc_per_node"),
    NONE("container-image", "dtctl runs no containers; prepare the nodes in setup.run"),
    {.name = "--no-container-mount-home", .key = "", .text = "dtctl runs no containers"},
    {.name = "--container-mount-home", .key = "", .text = "dtctl runs no containers"},
    NONE("container-mounts", "dtctl runs no containers; name data in [inputs.NAME]"),
    NONE("mail-type", "let a script wait for dtctl train, and send the mail"),
    NONE("mail-user", "let a script wait for dtctl train, and send the mail"),
    NONE("switches", "list machines of one switch in hosts.list"),
    {.name = "--requeue", .text = "train.max_restarts starts failed ranks again"},
    {.name = "--no-requeue", .key = "", .text = "failed ranks are not started again by default"},
    {.name = "--exclusive", .words = '?', .key = "", .text = "a cluster has one user"},
    {.name = "--oversubscribe", .letter = 's', .text = "a cluster has one user"},
    {.name = "--hold", .letter = 'H', .text = SCHEDULER},
    {.name = "--parsable", .words = '?', .key = "", .text = "dtctl train --detach --json"},
    {.name = "--wait", .letter = 'W', .words = '?', .key = "", .text = "dtctl train waits"},
    {.name = "--verbose", .letter = 'v', .key = "", .text = "dtctl -v"},
    {.name = "--quiet", .letter = 'Q', .key = "", .text = "dtctl -q"},
    NEEDLESS("comment", "a remark"),
    NEEDLESS("hint", "processors are not bound"),
    NEEDLESS("distribution", "ranks are numbered node by node"),
    {.name = "--gpu-bind",
     .words = '=',
     .key = "",
     .text = "a rank takes the GPU of its LOCAL_RANK"},
    // srun's own
    NEEDLESS("mpi", "ranks find each other by the agents' store"),
    NEEDLESS("cpu-bind", "processors are not bound"),
    {.name = "--kill-on-bad-exit",
     .letter = 'K',
     .words = '?',
     .key = "",
     .text = "a rank that fails ends its group"},
    {.name = "--label", .letter = 'l', .key = "", .text = "every line has the name of its rank"},
    {.name = "--unbuffered", .letter = 'u', .key = "", .text = "lines come as they are printed"},
    NEEDLESS("jobid", "there is no allocation"),
    NEEDLESS("wait-all-nodes", "a run starts when every node is there"),
    NEEDLESS("ntasks-per-core", "processors are not bound"),
    {.name = "--overlap", .key = "", .text = "there is no allocation"},
    {.name = "--exact", .key = "", .text = "there is no allocation"},
    {.name = "--multi-prog", .text = "ranks of one run have one program"},
    {.name = "--pty", .text = "use dtctl ssh NODE"},
    {.name = NULL},
};

// A rank has these from its agent under other names.
static const struct convert_variable VARIABLES[] = {
    {"SLURM_PROCID", "$RANK", NULL, true},
    {"SLURM_LOCALID", "$LOCAL_RANK", NULL, true},
    {"SLURM_NODEID", "$GROUP_RANK", NULL, true},
    {"SLURM_NTASKS", "$WORLD_SIZE", NULL, true},
    {"SLURM_NPROCS", "$WORLD_SIZE", NULL, false},
    {"SLURM_NNODES", "$GROUP_WORLD_SIZE", "nodes", true},
    {"SLURM_JOB_NUM_NODES", "$GROUP_WORLD_SIZE", "nodes", false},
    {"SLURM_NTASKS_PER_NODE", "$LOCAL_WORLD_SIZE", "tasks", false},
    {"SLURM_TASKS_PER_NODE", "$LOCAL_WORLD_SIZE", "tasks", false},
    {"SLURM_GPUS_ON_NODE", "$LOCAL_WORLD_SIZE", "gpu", false},
    {"SLURM_GPUS_PER_NODE", "$LOCAL_WORLD_SIZE", "gpu", false},
    {"SLURM_JOB_ID", "$DTCTL_RUN", NULL, false},
    {"SLURM_JOBID", "$DTCTL_RUN", NULL, false},
    {"SLURM_JOB_NAME", "$DTCTL_RUN", NULL, false},
    {"SLURM_SUBMIT_DIR", "$PWD", NULL, false},
    {"SLURM_JOB_NODELIST", NULL, NULL, false},
    {"SLURM_NODELIST", NULL, NULL, false},
    {"SLURM_CPUS_PER_TASK", NULL, NULL, false},
    {"SLURM_ARRAY_TASK_ID", NULL, NULL, false},
    {"SLURM_TMPDIR", NULL, NULL, false},
    {NULL, NULL, NULL, false},
};

// ---- reading ------------------------------------------------------------------------------------

// The words of one #SBATCH line: split at blanks outside of quotes, nothing else is special.
static void take_options(struct convert_walk *w, int line, const char *text) {
    struct arena *a = w->draft->arena;
    struct convert_line words;
    convert_shell_words(a, text, text + strlen(text), &words);
    const char **list = arena_new(a, const char *, words.count + 1);
    for (size_t i = 0; i < words.count; i++)
        list[i] = words.words[i].text;
    size_t used = convert_field_flags(w, line, list, words.count);
    if (used < words.count)
        convert_draft_note(w->draft, (struct convert_from){line, list[used]},
                           "left out: it is no flag of sbatch");
}

// The first line: "#!/bin/bash -e", "#!/usr/bin/env python3".
static int take_interpreter(struct convert_script *s, const char *text, size_t len, struct err *e) {
    static const char *const shells[] = {"sh", "bash", "dash", "ksh", "zsh", NULL};
    const char *newline = memchr(text, '\n', len);
    struct convert_line l;
    size_t i = 0, known = 0;
    char *first =
        arena_strndup(s->draft->arena, text + 2, newline ? (size_t)(newline - text) - 2 : len - 2);
    convert_shell_words(s->draft->arena, first, first + strlen(first), &l);
    const char *name = l.count ? strrchr(l.words[0].text, '/') : NULL;
    name = name ? name + 1 : l.count ? l.words[0].text : "";
    if (strcmp(name, "env") == 0) {
        for (i = 1; i + 1 < l.count && l.words[i].text[0] == '-';)
            i++;
        name = i < l.count ? l.words[i].text : "";
    }
    while (shells[known] && strcmp(shells[known], name) != 0)
        known++;
    if (!shells[known])
        return err_set(e, ERR_CONFIG,
                       "line 1: '%.80s' is no shell, and scripts of shells are read; name this "
                       "program in train.command",
                       name);
    for (i++; i < l.count; i++)
        if (strcmp(l.words[i].text, "-l") != 0 && strcmp(l.words[i].text, "--login") != 0)
            strbuf_addf(&s->options, "set %s\n", l.words[i].raw);
    if (known > 2)
        convert_draft_note(s->draft, (struct convert_from){1, name},
                           "bash runs the lines of this script");
    return 0;
}

int convert_sbatch_read(struct convert_draft *d, const char *text, size_t len, struct err *e) {
    struct convert_script s = {
        .draft = d, .what = "script", .srun = convert_sbatch_fields, .variables = VARIABLES};
    struct convert_walk w = {.draft = d, .fields = convert_sbatch_fields, .state = &s};
    int line = 1;
    bool commands = false;
    if (memchr(text, '\0', len))
        return err_set(e, ERR_CONFIG, "line 1: the file is not text");
    if (len < 2 || text[0] != '#' || text[1] != '!')
        return err_set(e, ERR_CONFIG,
                       "line 1: a batch script begins with '#!', as sbatch wants it");
    for (const char *p = text, *end = text + len; p < end; line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
        const char *raw = arena_strndup(d->arena, p, (size_t)(stop - p));
        const char *begin = raw + strspn(raw, " \t\r");
        if (str_starts(raw, MARK) && isspace((unsigned char)raw[strlen(MARK)]) && !commands)
            take_options(&w, line, raw + strlen(MARK));
        else if (str_starts(raw, MARK) && commands)
            convert_draft_note(d, (struct convert_from){line, raw},
                               "sbatch ignores it, too: it comes after the first command");
        commands |= *begin && *begin != '#';
        p = newline ? newline + 1 : end;
    }
    if (!commands)
        return err_set(e, ERR_CONFIG, "line %d: the script has no command", line - 1);
    if (take_interpreter(&s, text, len, e) < 0)
        return -1;
    convert_script_read(&s, text, len, 1);
    return convert_script_finish(&s, e);
}
