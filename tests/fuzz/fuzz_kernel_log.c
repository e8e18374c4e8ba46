// SPDX-License-Identifier: Apache-2.0
// Records of the kernel's log: any bytes give nothing, or a note whose texts are safe to show.
#include "base/err.h"
#include "worker/kernel_log.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void is_plain(const char *text, size_t room) {
    must(memchr(text, '\0', room) != NULL);
    for (; *text; text++)
        must(*text >= ' ' && *text <= '~');
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct kernel_note n;
    if (!kernel_log_parse((const char *)data, size, &n))
        return 0;
    must(n.kind == KERNEL_OUT_OF_MEMORY || n.kind == KERNEL_XID);
    must(n.pid >= 0 && n.resident_kb >= 0 && n.xid >= 0);
    must(n.kind == KERNEL_XID ? n.xid > 0 : n.pid > 0);
    is_plain(n.name, sizeof n.name);
    is_plain(n.device, sizeof n.device);
    is_plain(n.text, sizeof n.text);
    return 0;
}
