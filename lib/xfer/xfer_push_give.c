// SPDX-License-Identifier: Apache-2.0
// The operator's side of a chain of nodes: asks the first one to give content from its store.
#include "base/log.h"
#include "xfer/xfer_push_impl.h"

#include <string.h>

static void put_give(struct push *p, struct strbuf *b, size_t bytes_max) {
    if (b->len > bytes_max)
        xfer_wire_frame(&p->conns[0].channel.out, XFER_RELAY_GIVE, b->data, b->len);
    if (b->len > bytes_max)
        strbuf_clear(b);
}

void xfer_push_relay_give(struct push *p, const struct send_plan *plan) {
    struct strbuf b = {0}, have = {0};
    for (size_t i = 0; i < plan->small_count; i++) {
        xfer_put_need(&b, &(struct xfer_need){.index = plan->small[i]});
        put_give(p, &b, XFER_BATCH_BYTES);
    }
    for (size_t i = 0; i < plan->count;) {
        uint32_t entry = plan->units[i].entry;
        struct xfer_need need = {.index = entry};
        need.units = (uint32_t)cas_unit_count(plan->m->entries[entry].size);
        strbuf_clear(&have);
        unsigned char *bits = (unsigned char *)strbuf_reserve(&have, (need.units + 7) / 8);
        memset(bits, 0xff, (need.units + 7) / 8);
        for (; i < plan->count && plan->units[i].entry == entry; i++)
            bits[plan->units[i].unit / 8] &= (unsigned char)~(1u << (plan->units[i].unit % 8));
        need.have = bits;
        xfer_put_need(&b, &need);
        put_give(p, &b, XFER_BATCH_BYTES);
    }
    put_give(p, &b, 0);
    strbuf_fini(&b);
    strbuf_fini(&have);
    log_debug("giving to a chain", "node=%s files=%zu bytes=%llu", p->x.node, plan->files,
              (unsigned long long)plan->bytes);
    xfer_push_relay_end(p);
}
