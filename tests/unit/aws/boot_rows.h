// SPDX-License-Identifier: Apache-2.0
// The rows of `up` as a list of calls, in place of provider/boot_progress.
#ifndef DTCTL_TESTS_UNIT_AWS_BOOT_ROWS_H
#define DTCTL_TESTS_UNIT_AWS_BOOT_ROWS_H

#include "provider/boot_progress.h"

static struct strbuf boot_rows;

void boot_progress_show(struct boot_progress *p) {
    (void)p;
    strbuf_adds(&boot_rows, "show\n");
}

void boot_progress_hide(struct boot_progress *p) {
    (void)p;
    strbuf_adds(&boot_rows, "hide\n");
}

void boot_progress_reach(struct boot_progress *p, size_t node, enum boot_phase phase) {
    p->nodes[node].at_ms[phase] = 0;
    strbuf_addf(&boot_rows, "%zu: phase %d\n", node, (int)phase);
}

void boot_progress_say(struct boot_progress *p, size_t node, const char *words) {
    (void)p;
    strbuf_addf(&boot_rows, "%zu: %s\n", node, words);
}

void boot_progress_fail(struct boot_progress *p, size_t node, const char *words) {
    (void)p;
    strbuf_addf(&boot_rows, "%zu failed: %s\n", node, words);
}

#endif
