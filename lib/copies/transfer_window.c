// SPDX-License-Identifier: Apache-2.0
// The window of pieces on their way, and their order.
#include "copies/transfer_window.h"

#include "base/clock.h"

static void ask(struct transfer_window *w) {
    uint64_t size = w->size(w, w->asked), left = size - w->asked_at;
    struct wire_msg m = {.type = WIRE_STATE_GET,
                         .file = w->number(w, w->asked),
                         .offset = (int64_t)w->asked_at,
                         .bytes =
                             (int64_t)(left < WIRE_DATA_BYTES_MAX ? left : WIRE_DATA_BYTES_MAX)};
    w->under_way++;
    w->asked_at += (uint64_t)m.bytes;
    if (w->asked_at == size) {
        w->asked++;
        w->asked_at = 0;
    }
    channel_send(w->link, &m);
}

static void ask_all(struct transfer_window *w) {
    w->burst_ms = clock_mono_ms();
    while (w->under_way < w->max && w->asked < w->count)
        ask(w);
}

static void on_pace(struct timer *timer) {
    ask_all(container_of(timer, struct transfer_window, pace));
}

void transfer_window_begin(struct transfer_window *w, size_t count) {
    w->count = count;
    w->asked = w->taken = 0;
    w->asked_at = w->taken_at = 0;
    w->under_way = 0;
    ask_all(w);
}

int transfer_window_take(struct transfer_window *w, const struct wire_msg *m, struct err *e) {
    bool known = w->under_way && w->taken < w->count && m->file == w->number(w, w->taken);
    uint64_t left = known ? w->size(w, w->taken) - w->taken_at : 0;
    if (!known || m->offset != (int64_t)w->taken_at || m->data_len < 1 ||
        (uint64_t)m->data_len > left)
        return err_set(e, ERR_FORMAT, "a piece comes out of turn");
    w->under_way--;
    return (uint64_t)m->data_len == left;
}

void transfer_window_took(struct transfer_window *w, const struct wire_msg *m) {
    w->taken_at += (uint64_t)m->data_len;
    if (w->taken_at < w->size(w, w->taken))
        return;
    w->taken++;
    w->taken_at = 0;
}

bool transfer_window_is_complete(const struct transfer_window *w) {
    return w->taken == w->count;
}

// Without a pace, further pieces are asked for while the others come.
void transfer_window_continue(struct transfer_window *w) {
    int64_t took = clock_mono_ms() - w->burst_ms;
    if (!w->paced && w->under_way <= w->max / 2)
        ask_all(w);
    else if (!w->under_way && took > 0)
        timer_start(w->loop, &w->pace, took, on_pace);
    else if (!w->under_way)
        ask_all(w);
}

void transfer_window_stop(struct transfer_window *w) {
    timer_stop(&w->pace);
}

bool transfer_window_is_request(const struct wire_msg *m, uint64_t size) {
    return m->bytes >= 1 && m->bytes <= WIRE_DATA_BYTES_MAX && m->offset >= 0 &&
           (uint64_t)m->offset <= size && (uint64_t)m->bytes <= size - (uint64_t)m->offset;
}
