// SPDX-License-Identifier: Apache-2.0
// Remarks on lines for bash that cannot work on a node: programs that are not there, and variables
// that are not set.
#include "convert/convert_script.h"

#include <ctype.h>
#include <string.h>

#define SLURM "nodes have no Slurm, and this line fails there; change it"
#define STARTS                                                                                     \
    "it starts ranks by itself, and every rank runs this line; start the program alone, and set "  \
    "train.nproc_per_node"

static const struct {
    const char *word, *advice;
} PROGRAMS[] = {
    {"srun", SLURM},
    {"sbatch", SLURM},
    {"salloc", SLURM},
    {"scontrol", SLURM},
    {"squeue", SLURM},
    {"sinfo", SLURM},
    {"sacct", SLURM},
    {"scancel", SLURM},
    {"torchrun", STARTS},
    {"mpirun", STARTS},
    {"mpiexec", STARTS},
    {"torch.distributed.run", STARTS},
    {"apptainer", "nodes need this program and its image; prepare them in setup.run"},
    {"singularity", "nodes need this program and its image; prepare them in setup.run"},
    {"docker", "nodes need this program and its image; prepare them in setup.run"},
    {"podman", "nodes need this program and its image; prepare them in setup.run"},
    {"enroot", "nodes need this program and its image; prepare them in setup.run"},
};

static bool is_part(char c) {
    return isalnum((unsigned char)c) || (c && strchr("_.-/", c));
}

// True when the text has the word as a command or an argument, also behind a path.
static bool has_word(const char *text, const char *word) {
    size_t len = strlen(word);
    for (const char *p = strstr(text, word); p; p = strstr(p + len, word)) {
        bool begins = p == text || p[-1] == '/' || (!is_part(p[-1]) && p[-1] != '$');
        if (begins && (!p[len] || strchr(" \t\n;|&)", p[len])))
            return true;
    }
    return false;
}

void convert_remark_programs(struct convert_script *s, const struct convert_line *l,
                             const char *text) {
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof PROGRAMS[0]; i++)
        if (has_word(text, PROGRAMS[i].word))
            convert_draft_note(s->draft, (struct convert_from){l->line, PROGRAMS[i].word}, "%s",
                               PROGRAMS[i].advice);
}

// True when the text has the name without a dollar: as an assignment, in "for" or in "read".
static bool is_set_in(const char *text, const char *name) {
    size_t len = strlen(name);
    for (const char *p = strstr(text, name); p; p = strstr(p + len, name))
        if ((p == text ||
             (p[-1] != '$' && p[-1] != '{' && p[-1] != '_' && !isalnum((unsigned char)p[-1]))) &&
            p[len] != '_' && !isalnum((unsigned char)p[len]))
            return true;
    return false;
}

static bool is_known(const struct convert_script *s, const char *text, const char *name) {
    static const char *const known[] = {"HOME",
                                        "PATH",
                                        "PWD",
                                        "OLDPWD",
                                        "USER",
                                        "LOGNAME",
                                        "SHELL",
                                        "HOSTNAME",
                                        "RANDOM",
                                        "SECONDS",
                                        "UID",
                                        "EUID",
                                        "PPID",
                                        "LANG",
                                        "IFS",
                                        "BASH",
                                        "BASH_SOURCE",
                                        "PIPESTATUS",
                                        "LINENO",
                                        "OPTARG",
                                        "TMPDIR",
                                        "RANK",
                                        "LOCAL_RANK",
                                        "GROUP_RANK",
                                        "WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "LOCAL_WORLD_SIZE",
                                        "GROUP_WORLD_SIZE",
                                        "LD_LIBRARY_PATH",
                                        "PYTHONPATH",
                                        NULL};
    for (size_t i = 0; known[i]; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    for (const struct convert_variable *v = s->variables; v->theirs; v++)
        if (strcmp(v->theirs, name) == 0)
            return true; // set, or noted
    for (size_t i = 0; i < s->assigned_count; i++)
        if (s->assigned[i].gone && strcmp(s->assigned[i].name, name) == 0)
            return true; // noted
    for (size_t i = 0; i < s->draft->entry_count; i++)
        if (strcmp(s->draft->entries[i].table, "env") == 0 &&
            strcmp(s->draft->entries[i].key, name) == 0)
            return true;
    return str_starts(name, "DTCTL_") || is_set_in(text, name);
}

void convert_remark_variables(struct convert_script *s, const char *text, int line) {
    enum { NAMES_MAX = 20 };
    const char *noted[NAMES_MAX];
    size_t count = 0;
    bool quoted = false; // by '…' outside of "…"
    bool inside = false; // of "…"
    for (const char *p = text; *p && count < NAMES_MAX; p++) {
        if (*p == '\\' && !quoted && p[1]) {
            p++;
            continue;
        }
        inside ^= *p == '"' && !quoted;
        quoted ^= *p == '\'' && !inside;
        if (*p != '$' || quoted)
            continue;
        const char *begin = p + 1 + (p[1] == '{');
        size_t len = 0, i = 0;
        while (isalnum((unsigned char)begin[len]) || begin[len] == '_')
            len++;
        bool absent = p[1] == '{' && begin[len] && strchr(":-+=?", begin[len]); // has a default
        if (!len || isdigit((unsigned char)*begin) || absent)
            continue;
        const char *name = arena_strndup(s->draft->arena, begin, len);
        while (i < count && strcmp(noted[i], name) != 0)
            i++;
        if (i < count || is_known(s, text, name))
            continue;
        noted[count++] = name;
        convert_draft_note(s->draft,
                           (struct convert_from){line, arena_printf(s->draft->arena, "$%s", name)},
                           "the script does not set it, and nodes do not get this computer's "
                           "variables; set it in [env]");
    }
}
