// SPDX-License-Identifier: Apache-2.0
// Parses lines of the kernel's log that explain a worker's end: out-of-memory kills and the NVIDIA
// driver's Xid errors. Pure.
//
//     struct kernel_note n;
//     if (kernel_log_parse(record, len, &n)) …        // a record of /dev/kmsg, or a line of dmesg
//
// Record: "priority,sequence,time,flags[,…];text\n KEY=value\n…"
// (Documentation/ABI/testing/dev-kmsg); without that header the whole input is text. The texts are
// those of mm/oom_kill.c and of the driver ("NVRM: Xid (PCI:0000:3b:00): 79, pid=…, name=…,
// words"). Any version with these words is accepted. Process ids are those of the initial process
// namespace.
#ifndef WORKER_KERNEL_LOG_H
#define WORKER_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KERNEL_LOG_RECORD_BYTES_MAX = 8192, // of one record of /dev/kmsg; the rest is ignored
    KERNEL_LOG_NAME_BYTES_MAX = 32,
    KERNEL_LOG_TEXT_BYTES_MAX = 160,
};

enum kernel_note_kind { KERNEL_OUT_OF_MEMORY, KERNEL_XID };

struct kernel_note {
    enum kernel_note_kind kind;
    int64_t pid;                          // 0: missing
    char name[KERNEL_LOG_NAME_BYTES_MAX]; // of the process, "" when missing
    bool in_cgroup;      // out of memory: the limit of a cgroup, not of the machine
    int64_t resident_kb; // out of memory: anonymous pages; 0: missing
    int xid;
    char device[KERNEL_LOG_NAME_BYTES_MAX]; // Xid: "0000:3b:00"
    char text[KERNEL_LOG_TEXT_BYTES_MAX];   // Xid: message, printable ASCII
};

bool kernel_log_parse(const char *record, size_t len, struct kernel_note *out);

#endif
