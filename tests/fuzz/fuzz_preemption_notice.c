// SPDX-License-Identifier: Apache-2.0
// The file that announces a node's end: any bytes are refused with words or give a bounded notice.
#include "agent/preemption_notice.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct notice n;
    struct err e = {0};
    if (preemption_notice_parse((const char *)data, size, &n, &e) < 0) {
        must(e.code != ERR_NONE && e.text[0]);
        return 0;
    }
    must(n.kind > NOTICE_NONE && preemption_notice_word(n.kind)[0]);
    must(n.deadline_s >= 0 && n.deadline_s <= INT32_MAX * 4LL);
    must(memchr(n.node, '\0', sizeof n.node) != NULL && !strchr(n.node, '\n'));
    return 0;
}
