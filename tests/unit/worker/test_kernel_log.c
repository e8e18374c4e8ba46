// SPDX-License-Identifier: Apache-2.0
// Parses lines of the kernel's log in the formats of kernels and drivers of several years.
#include "tests/tap.h"
#include "worker/kernel_log.h"

#include <string.h>

static struct kernel_note parsed(const char *line) {
    struct kernel_note n;
    ok(kernel_log_parse(line, strlen(line), &n), "the line is understood: %.60s", line);
    return n;
}

static void memory(void) {
    static const struct {
        const char *line;
        int pid, in_cgroup, resident_kb;
        const char *name;
    } rows[] = {
        {"3,812,90125,-;Out of memory: Killed process 4711 (python3) total-vm:9000kB, "
         "anon-rss:8123456kB, file-rss:4kB, shmem-rss:0kB, UID:1000 pgtables:88kB "
         "oom_score_adj:0\n SUBSYSTEM=memory\n",
         4711, 0, 8123456, "python3"},
        {"3,813,90125,-;Memory cgroup out of memory: Killed process 77 (pt_data_worker) "
         "total-vm:1kB, anon-rss:524288kB, file-rss:0kB",
         77, 1, 524288, "pt_data_worker"},
        {"[ 1.5] Out of memory: Kill process 12 (a.out) score 900 or sacrifice child", 12, 0, 0,
         "a.out"},
        {"Killed process 5 (odd (name) total-vm:1kB, anon-rss:7kB", 5, 0, 7, "odd (name"},
        {"Killed process 5 (odd\x1b[31m) x", 5, 0, 0, "odd?[31m"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kernel_note n = parsed(rows[i].line);
        is_int(n.kind, KERNEL_OUT_OF_MEMORY, "the line reports a kill");
        is_int(n.pid, rows[i].pid, "the killed process is named");
        is_int(n.in_cgroup, rows[i].in_cgroup, "the kind of limit is found");
        is_int(n.resident_kb, rows[i].resident_kb, "the size of the killed process is found");
        is_str(n.name, rows[i].name, "the name of the killed process is kept");
    }
}

static void xid(void) {
    static const struct {
        const char *line;
        int xid, pid;
        const char *device, *name, *text;
    } rows[] = {
        {"4,99,1,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off "
         "the bus.",
         79, 1234, "0000:3b:00", "python3", "GPU has fallen off the bus."},
        {"4,99,1,-;NVRM: Xid (PCI:0000:86:00): 31, pid=9, name=python, Ch 00000008, intr "
         "10000000. MMU Fault",
         31, 9, "0000:86:00", "python", "Ch 00000008, intr 10000000. MMU Fault"},
        {"NVRM: Xid (PCI:0000:3b:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1).",
         94, 0, "0000:3b:00", "<unknown>", "Contained: SM (0x1)."},
        {"[77.1] NVRM: Xid (0000:03:00): 13, Graphics Exception", 13, 0, "0000:03:00", "",
         "Graphics Exception"},
        {"NVRM: Xid (PCI:0000:3b:00): 48", 48, 0, "0000:3b:00", "", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kernel_note n = parsed(rows[i].line);
        is_int(n.kind, KERNEL_XID, "the line reports an Xid");
        is_int(n.xid, rows[i].xid, "the number of the Xid is found");
        is_int(n.pid, rows[i].pid, "the process of the Xid is found");
        is_str(n.device, rows[i].device, "the GPU of the Xid is found");
        is_str(n.name, rows[i].name, "the name of the process of the Xid is kept");
        is_str(n.text, rows[i].text, "the text of the Xid is kept");
    }
}

static void other(void) {
    static const char *const lines[] = {
        "",
        ";",
        "6,1,2,-;",
        "6,1,2,-;usb 1-1: new device",
        "Killed process ",
        "Killed process 0 (x)",
        "Killed process 99999999999999999999 (x)",
        "NVRM: Xid (PCI:0000:3b:00",
        "NVRM: Xid (PCI:0000:3b:00): GPU",
        "6,1,2,-;a line\n KEY=Killed process 4 (x)",
    };
    struct kernel_note n;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ok(!kernel_log_parse(lines[i], strlen(lines[i]), &n), "nothing is found in '%.40s'",
           lines[i]);
}

int main(void) {
    memory();
    xid();
    other();
    return done_testing();
}
