// SPDX-License-Identifier: Apache-2.0
// A shell script that starts a distributed program (srun, torchrun, mpirun, python), to a command,
// its environment, and the numbers of nodes and processes.
//
//     struct convert_script s = {.draft = d, .what = "run", .variables = VARIABLES};
//     convert_script_read(&s, text, len, first_line);
//     convert_script_finish(&s);
#ifndef CONVERT_CONVERT_SCRIPT_H
#define CONVERT_CONVERT_SCRIPT_H

#include "convert/convert_field.h"
#include "convert/convert_shell.h"

// A variable that the other tool sets.
struct convert_variable {
    const char *theirs;
    const char *ours;  // "$RANK": what a rank has instead; NULL: nothing
    const char *means; // "nodes", "gpu": the number that it holds; NULL: another one
    bool of_rank;      // programs that srun starts read it from their environment
};

// A number that a flag gave, with its place.
struct convert_number {
    struct convert_from from;
    const char *text; // NULL: not given
};

struct convert_script {
    struct convert_draft *draft;
    const char *what;                         // name of the script in notes
    const struct convert_field *srun;         // flags of srun; NULL: it is no launcher here
    const struct convert_variable *variables; // theirs NULL ends the table
    bool has_hosts;                           // the nodes are listed by name
    // Numbers of the other tool, of its flags and of the script.
    struct convert_number nodes_min, nodes_max, tasks, tasks_per_node;
    struct convert_number launch_nodes, launch_nproc; // of torchrun and its like
    bool by_srun, by_mpirun, by_torchrun;
    bool module, program;     // torchrun's --module, --no-python
    bool empty;               // there is no script, only numbers
    struct strbuf options;    // "set -e" and its like, not yet in front of another line
    const char *lost;         // why the program is not in the configuration; NULL: nothing known
    struct convert_assigned { // by the script
        const char *name, *value;
        int line;
        bool expands; // bash changes the value
        bool list;    // value: the words between the parentheses
        bool gone;    // the line is left out, and no rank has the variable
    } * assigned;
    size_t assigned_count, assigned_room;
};

void convert_script_read(struct convert_script *s, const char *text, size_t len, int first_line);
// Sets the numbers of nodes and processes, and the task's name. ERR_CONFIG: the draft does not hold
// the whole program of the script.
int convert_script_finish(struct convert_script *s, struct err *e);

// A place with text of the script as its name: on one line, cut, without runs of blanks.
struct convert_from convert_script_at(const struct convert_script *s, const struct convert_line *l,
                                      const char *text);

// ---- numbers ------------------------------------------------------------------------------------

int64_t convert_number_of(const struct convert_number *n); // 0: not given, or no count
// The flags of a step (srun) are for the run; those of the job before it are for the cluster.
void convert_number_separate(struct convert_script *s, const struct convert_script *job);
void convert_number_set(struct convert_script *s);

// ---- remarks ------------------------------------------------------------------------------------

// Notes the programs in the text of a line that nodes do not have, or that start ranks themselves.
void convert_remark_programs(struct convert_script *s, const struct convert_line *l,
                             const char *text);
// Notes the variables in the text for bash that nothing sets.
void convert_remark_variables(struct convert_script *s, const char *text, int line);

// ---- variables of the script --------------------------------------------------------------------

// Remembers the assignments of a line, if it has no other words.
void convert_variable_remember(struct convert_script *s, const struct convert_line *l);
// Sorts them: into [env], and into those that only find the other nodes. False: bash still has to
// run the line.
bool convert_variable_take(struct convert_script *s, const struct convert_line *l);
// Notes a line for bash that changes what a rank has from its agent.
void convert_variable_warn(struct convert_script *s, const struct convert_line *l);
// The line with "$NAME" and "${NAME[@]}" replaced where the script assigns plain words.
struct convert_line convert_variable_expand(struct convert_script *s, const struct convert_line *l);

// ---- for the tables of launchers ----------------------------------------------------------------

// Flags of torchrun and mpirun; w->state is a struct convert_script.
extern const struct convert_field convert_launch_torchrun[], convert_launch_mpirun[];

// The value that "$NAME" stands for: a literal, or "nodes", "gpu"; else NULL. Other text is itself.
const char *convert_script_value(const struct convert_script *s, const char *text);
// Takes the launcher and its flags off the line and makes settings of them; returns the index of
// the program's first word. prefix: receives words that go before it, such as "python3 -m".
size_t convert_launch_words(struct convert_script *s, const struct convert_line *line,
                            const char **prefix);
// True when the flags of srun ask for one task or one node: a step beside the program.
bool convert_launch_is_single(const struct convert_line *line);
// How likely the line starts the program: 0 not, 1 a program, 2 a launcher, 3 torchrun.
int convert_launch_rank(const struct convert_script *s, const struct convert_line *line);

#endif
