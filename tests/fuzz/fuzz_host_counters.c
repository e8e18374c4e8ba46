// SPDX-License-Identifier: Apache-2.0
// The kernel's counters of a host, and lines of nvidia-smi: any bytes give figures in their bounds.
#include "agent/host_counters.h"
#include "base/err.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    const char *text = (const char *)data;
    struct host_pair p;
    struct host_gpu g;
    uint64_t v;
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    if (host_counters_cpu(text, size, &all, &p))
        must(p.first <= p.second);
    if (host_counters_memory(text, size, &p))
        must(p.first <= p.second && p.second <= INT64_MAX);
    host_counters_network(text, size, &p);
    host_counters_disks(text, size, &p);
    host_counters_number(text, size, &v);
    host_counters_named(text, size, "inactive_file", &v);
    if (host_counters_gpu(text, size, &g))
        must(g.index >= 0 && g.index < 64 && g.percent <= 100 && g.memory_mib >= -1);
    return 0;
}
