// SPDX-License-Identifier: Apache-2.0
// The protocol between an agent and its guard: fixed records over a SOCK_SEQPACKET pair, same
// binary on both ends. Private to guard.c and guard_process.c.
#ifndef WORKER_GUARD_PROTOCOL_H
#define WORKER_GUARD_PROTOCOL_H

#include "sys/file_entries.h"
#include "sys/proc.h"
#include "worker/guard.h"

enum guard_order_kind { ORDER_SIGNAL, ORDER_STOP, ORDER_KILL, ORDER_LEASE };
struct guard_order {
    enum guard_order_kind kind;
    int signal;
    int64_t lease_ms;
};

enum guard_report_kind { REPORT_STARTED, REPORT_EXITED, REPORT_GONE };
struct guard_report {
    enum guard_report_kind kind;
    int orphans;
    struct guard_exit exit; // STARTED: local_rank and pid
};

// Runs the guard in the forked child; fd is its end of the pair.
_Noreturn void guard_main(const struct guard_spec *spec, int fd);
// The next living child of parent in /proc, read as d; 0: none.
pid_t guard_next_child(struct file_entries *in, pid_t parent, struct proc_facts *f);
// Sends SIGKILL to every child of this process; returns their number.
int guard_kill_children(void);

#endif
