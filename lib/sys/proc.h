// SPDX-License-Identifier: Apache-2.0
// Starting and ending processes. Standard streams are decided explicitly, everything else is
// close-on-exec, signals are reset, and a failed exec is reported to the caller with its errno.
#ifndef SYS_PROC_H
#define SYS_PROC_H

#include "base/err.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_spec {
    const char *const *argv; // NULL-terminated; argv[0] is searched on PATH of env when without '/'
    char *const *env;        // all that the program gets; NULL-terminated
    const char *cwd;         // NULL: inherit
    int in, out, err;        // fds for 0, 1, 2; -1: the null device. Not closed in the parent
    const int *keep;         // further fds to pass on under the same number; ends with -1; or NULL
    bool new_session;        // setsid: own session and process group
    bool new_group;          // own process group
    int parent_death_signal; // 0: none. Fires when the *thread* that starts it ends
    // proc_start returns without waiting for the program to be loaded, which takes for ever on a
    // file system that hangs. A failed exec is exit status 127. No other descriptor is open in the
    // child meanwhile.
    bool unawaited;
};

pid_t proc_start(const struct proc_spec *spec, struct err *e); // pid, or -1
// Signals the process group; no error when it is gone.
void proc_kill_group(pid_t pgid, int signal);
// Runs to the end, collecting standard output (capped); exit status in *status (waitpid's).
// Blocking, for set-up work outside a loop. timeout_ms -1: none.
int proc_run(const struct proc_spec *spec, char **out, size_t out_bytes_max, int timeout_ms,
             int *status, struct err *e); // *out is heap memory, free() it

// Asks a program to end, kills it after timeout_ms, and reaps it. Blocking.
void proc_end(pid_t pid, int timeout_ms);

// The first call of main: opens the null device for each standard stream that is closed, so that no
// other file gets its number, and ignores SIGXFSZ: a write(2) beyond the limit of a file's size
// fails with EFBIG instead.
void proc_prepare(void);
int proc_status_code(int status);                       // shell's convention: 128 + signal
const char *proc_signal_name(int signal);               // "SIGKILL"
int proc_signal_parse(const char *name, struct err *e); // "SIGTERM", "TERM", "15"
// Detaches: double fork, new session, standard streams to the null device (err to err_fd if >= 0).
// Returns 0 in the detached process, its pid in the original one, -1 on error.
pid_t proc_detach(int err_fd, struct err *e);
struct proc_facts {
    pid_t parent;
    char state;             // 'Z': ended, not reaped
    uint64_t started_ticks; // since boot; with the pid it names one process for ever
};
int proc_look(pid_t pid, struct proc_facts *out); // -1: there is none. No allocation
// Signals this process, never a later one with the same number; ERR_NOT_FOUND when it has ended.
int proc_signal(pid_t pid, uint64_t started_ticks, int signal, struct err *e);
int proc_cpu_count(void); // that this process may run on

#endif
