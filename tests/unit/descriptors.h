// SPDX-License-Identifier: Apache-2.0
// How many descriptors the process has open, for tests that look for one that stays.
#ifndef DTCTL_TESTS_UNIT_DESCRIPTORS_H
#define DTCTL_TESTS_UNIT_DESCRIPTORS_H

#include <dirent.h>

// The one that counts is among them.
static inline int descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    int count = 0;
    while (d && readdir(d))
        count++;
    if (d)
        closedir(d);
    return count;
}

#endif
