// SPDX-License-Identifier: Apache-2.0
// Configurations of ParallelCluster: any bytes.
#include "tests/fuzz/import.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    return import_any("pcluster", data, size);
}
