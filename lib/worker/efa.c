// SPDX-License-Identifier: Apache-2.0
// Looks for adapters among the devices of the kernel's InfiniBand layer, to which EFA's driver adds
// them. Adapters of other makers, which manage NVSwitches, are there, too.
#include "worker/efa.h"

#include "sys/file_entries.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char amazon[] = "0x1d0f\n"; // vendor of a PCI device

static bool is_of_amazon(int adapters, const char *name) {
    char path[NAME_MAX + sizeof "/device/vendor"], vendor[sizeof amazon] = "";
    snprintf(path, sizeof path, "%s/device/vendor", name);
    int fd = openat(adapters, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, vendor, sizeof vendor - 1);
    if (fd >= 0)
        close(fd);
    return n > 0 && strcmp(vendor, amazon) == 0;
}

bool efa_is_here(const char *root) {
    char path[PATH_MAX];
    bool found = false;
    snprintf(path, sizeof path, "%s/sys/class/infiniband", root);
    struct file_entries in = file_entries_open(path);
    while (!found && file_entries_next(&in))
        found = is_of_amazon(in.fd, in.name);
    (void)file_entries_close(&in, 0, NULL);
    return found;
}
