// SPDX-License-Identifier: Apache-2.0
// The window of pieces on their way, and their order.
#include "copies/pieces.h"

#include "base/clock.h"

static void ask(struct pieces *p) {
    uint64_t size = p->size(p, p->asked), left = size - p->asked_at;
    struct wire_msg m = {.type = WIRE_STATE_GET,
                         .file = p->number(p, p->asked),
                         .offset = (int64_t)p->asked_at,
                         .bytes =
                             (int64_t)(left < WIRE_DATA_BYTES_MAX ? left : WIRE_DATA_BYTES_MAX)};
    p->under_way++;
    p->asked_at += (uint64_t)m.bytes;
    if (p->asked_at == size) {
        p->asked++;
        p->asked_at = 0;
    }
    channel_send(p->link, &m);
}

static void ask_all(struct pieces *p) {
    p->burst_ms = clock_mono_ms();
    while (p->under_way < p->max && p->asked < p->count)
        ask(p);
}

static void on_pace(struct timer *timer) {
    ask_all(container_of(timer, struct pieces, pace));
}

void pieces_begin(struct pieces *p, size_t count) {
    p->count = count;
    p->asked = p->taken = 0;
    p->asked_at = p->taken_at = 0;
    p->under_way = 0;
    ask_all(p);
}

int pieces_take(struct pieces *p, const struct wire_msg *m, struct err *e) {
    bool known = p->under_way && p->taken < p->count && m->file == p->number(p, p->taken);
    uint64_t left = known ? p->size(p, p->taken) - p->taken_at : 0;
    if (!known || m->offset != (int64_t)p->taken_at || m->data_len < 1 ||
        (uint64_t)m->data_len > left)
        return err_set(e, ERR_FORMAT, "a piece comes out of turn");
    p->under_way--;
    return (uint64_t)m->data_len == left;
}

void pieces_took(struct pieces *p, const struct wire_msg *m) {
    p->taken_at += (uint64_t)m->data_len;
    if (p->taken_at < p->size(p, p->taken))
        return;
    p->taken++;
    p->taken_at = 0;
}

bool pieces_are_here(const struct pieces *p) {
    return p->taken == p->count;
}

// Without a pace, further pieces are asked for while the others come.
void pieces_continue(struct pieces *p) {
    int64_t took = clock_mono_ms() - p->burst_ms;
    if (!p->paced && p->under_way <= p->max / 2)
        ask_all(p);
    else if (!p->under_way && took > 0)
        timer_start(p->loop, &p->pace, took, on_pace);
    else if (!p->under_way)
        ask_all(p);
}

void pieces_stop(struct pieces *p) {
    timer_stop(&p->pace);
}

bool pieces_asked_rightly(const struct wire_msg *m, uint64_t size) {
    return m->bytes >= 1 && m->bytes <= WIRE_DATA_BYTES_MAX && m->offset >= 0 &&
           (uint64_t)m->offset <= size && (uint64_t)m->bytes <= size - (uint64_t)m->offset;
}
