// SPDX-License-Identifier: Apache-2.0
// Keeps and counts messages of a session for resumption.
#include "channel/replay.h"

#include "base/bytes.h"

enum { LENGTH_BYTES = 4 };

void replay_open(struct replay *s, int64_t id) {
    replay_close(s);
    s->id = id;
    s->open = true;
    strbuf_init(&s->kept, SESSION_KEPT_BYTES_MAX);
}

void replay_close(struct replay *s) {
    strbuf_fini(&s->kept);
    *s = (struct replay){0};
}

void replay_keep(struct replay *s, const void *message, size_t len) {
    unsigned char head[LENGTH_BYTES];
    if (!s->open)
        return;
    s->sent++;
    bytes_store(head, len, sizeof head);
    strbuf_add(&s->kept, head, sizeof head);
    strbuf_add(&s->kept, message, len);
}

bool replay_can_resume(const struct replay *s) {
    return s->open && s->id != 0 && !s->kept.overflow;
}

void replay_take(struct replay *s) {
    s->taken += s->open;
}

int replay_acked(struct replay *s, int64_t count, struct err *e) {
    size_t at = 0, len;
    if (!s->open || s->kept.overflow)
        return 0;
    if (count < s->acked || count > s->sent)
        return err_set(e, ERR_FORMAT, "%lld messages taken, of %lld to %lld", (long long)count,
                       (long long)s->acked, (long long)s->sent);
    for (; s->acked < count; s->acked++)
        replay_unacked(s, &at, &len);
    strbuf_consume(&s->kept, at);
    return 0;
}

const char *replay_unacked(const struct replay *s, size_t *at, size_t *len) {
    if (*at >= s->kept.len)
        return NULL;
    *len = (size_t)bytes_load(s->kept.data + *at, LENGTH_BYTES);
    const char *message = s->kept.data + *at + LENGTH_BYTES;
    *at += LENGTH_BYTES + *len;
    return message;
}
