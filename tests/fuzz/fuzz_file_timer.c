// SPDX-License-Identifier: Apache-2.0
// Input of the timer FIFO: any line is refused with a reason, or is a request within bounds.
#include "worker/file_timer.h"

#include <signal.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct file_timer_request r;
    struct arena a = {0};
    struct err e = {0};
    if (file_timer_parse(&a, (const char *)data, size, &r, &e) < 0) {
        must(e.code != ERR_NONE && e.text[0]);
    } else {
        must(size <= FILE_TIMER_LINE_BYTES_MAX && r.scope_len <= size);
        must(r.pid > 1 && r.signal >= 0 && r.signal < NSIG);
        must(r.scope[r.scope_len] == '\0' && r.expires_s == r.expires_s);
    }
    arena_fini(&a);
    return 0;
}
