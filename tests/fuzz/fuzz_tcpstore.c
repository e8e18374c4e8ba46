// SPDX-License-Identifier: Apache-2.0
// The store fed by two hostile clients: the first byte of each record says who speaks and how many
// bytes follow. Nothing may crash, leak, or be left behind when both are gone.
#include "base/err.h"
#include "tcpstore/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct store_limits limits = {.key_bytes_max = 256,
                                  .value_bytes_max = 4096,
                                  .request_bytes_max = 1 << 16,
                                  .request_keys_max = 64,
                                  .total_bytes_max = 1 << 20,
                                  .reply_bytes_max = 1 << 16};
    struct err e;
    struct store *s = store_open(&limits);
    struct store_session *c[2];
    for (int i = 0; i < 2; i++)
        c[i] = store_session_open(s, NULL, &e);
    for (size_t at = 0; at < size;) {
        int who = data[at] & 1;
        size_t len = data[at] >> 1;
        at++;
        if (len > size - at)
            len = size - at;
        if (c[who] && store_feed(c[who], data + at, len, &e) < 0) {
            store_session_close(c[who]);
            c[who] = NULL;
        }
        at += len;
        for (struct store_session *r; (r = store_ready(s));)
            strbuf_clear(&r->out);
    }
    store_session_close(c[0]);
    store_session_close(c[1]);
    must(store_figures(s).sessions == 0);
    must(store_figures(s).waits == 0);
    store_close(s);
    return 0;
}
