// SPDX-License-Identifier: Apache-2.0
// `dtrun wait PATH…`: blocks until other processes have written files of this node.
#ifndef DTRUN_WAIT_PATH_H
#define DTRUN_WAIT_PATH_H

enum { WAIT_PATH_TICK_MS = 100 };

// A file is there when it has not changed between two looks and no process of this node has it open
// for writing. A folder is there when it exists.
// argv without the program's name and the verb. Returns the exit status: 1 after the time limit.
int wait_path_run(int argc, const char *const *argv, char *const *env);

#endif
