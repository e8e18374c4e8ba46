// SPDX-License-Identifier: Apache-2.0
// Lines of the kernel's log that explain a worker's end: kills for want of memory, and the NVIDIA
// driver's Xid errors. Pure.
//
//     struct kernel_note n;
//     if (kernel_log_parse(record, len, &n)) …        // a record of /dev/kmsg, or a line of dmesg
//
// Record: "priority,sequence,time,flags[,…];text\n KEY=value\n…" (Documentation/ABI/testing/
// dev-kmsg); without that head the whole is text. The texts are mm/oom_kill.c's and the driver's
// ("NVRM: Xid (PCI:0000:3b:00): 79, pid=…, name=…, words"); any version of either is taken that
// still has the words looked for. Process ids are those of the first process namespace.
#ifndef WORKER_KERNEL_LOG_H
#define WORKER_KERNEL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KERNEL_LOG_RECORD_BYTES_MAX = 8192, // of one record of /dev/kmsg; the rest is not looked at
    KERNEL_LOG_NAME_BYTES_MAX = 32,
    KERNEL_LOG_TEXT_BYTES_MAX = 160,
};

enum kernel_note_kind { KERNEL_OUT_OF_MEMORY, KERNEL_XID };

struct kernel_note {
    enum kernel_note_kind kind;
    int64_t pid;                          // 0: not told
    char name[KERNEL_LOG_NAME_BYTES_MAX]; // of the process, "" when not told
    bool in_cgroup;                       // out of memory: a cgroup's limit, not the machine's
    int64_t resident_kb;                  // out of memory: anonymous pages; 0: not told
    int xid;
    char device[KERNEL_LOG_NAME_BYTES_MAX]; // Xid: "0000:3b:00"
    char text[KERNEL_LOG_TEXT_BYTES_MAX];   // Xid: the words, printable ASCII
};

bool kernel_log_parse(const char *record, size_t len, struct kernel_note *out);

#endif
