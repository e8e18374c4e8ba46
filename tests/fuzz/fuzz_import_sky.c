// SPDX-License-Identifier: Apache-2.0
// Tasks of SkyPilot: any bytes.
#include "tests/fuzz/import.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    return import_any("sky", data, size);
}
