// SPDX-License-Identifier: Apache-2.0
// Hashes what is to be sent. The work blocks, so the loop is turned by hand for signals.
#include "job/hashing.h"

#include "base/clock.h"
#include "job/progress.h"
#include "sys/file.h"

struct hashing {
    struct session *session;
    struct progress progress;
    int interrupts;
};

static int on_progress(void *ctx, uint64_t done, uint64_t total) {
    struct hashing *h = ctx;
    progress_set(&h->progress, 0, done, total);
    progress_show(&h->progress, clock_mono_ms());
    loop_once(h->session->loop, 0);
    return h->session->interrupts != h->interrupts;
}

int hashing_run(struct session *s, struct manifest *m, struct err *e) {
    static const char *const names[] = {"here"};
    struct hashing h = {.session = s, .interrupts = s->interrupts};
    progress_init(&h.progress, s->arena, s->screen, "hash", names, 1, clock_mono_ms());
    int result =
        manifest_hash(m, file_join(s->arena, s->cluster.dir, "hashes"), on_progress, &h, e);
    screen_erase(s->screen);
    return result;
}
