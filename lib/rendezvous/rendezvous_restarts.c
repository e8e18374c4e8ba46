// SPDX-License-Identifier: Apache-2.0
// Failures of workers: whether another round starts (max_restarts), and when (crash loops,
// backoff).
#include "rendezvous/rendezvous_impl.h"

#include <stdio.h>

// A round that fails within crash_ms of its start is a crash. The start after the second crash in
// a row waits, each one longer than the one before. crashes_max crashes in a row end the run.
static bool note_crash(struct rendezvous *r) {
    const struct rendezvous_config *c = &r->config;
    bool soon = c->crash_ms > 0 && r->now_ms - r->round_ms < c->crash_ms;
    r->crashes = soon ? r->crashes + 1 : 0;
    if (r->crashes > 1)
        r->backoff_until_ms = r->now_ms + c->backoff_ms * (r->crashes - 1);
    return soon && r->crashes >= c->crashes_max;
}

void rendezvous_failed(struct rendezvous *r, int64_t now_ms, int id, int round, const char *why) {
    struct rendezvous_member *m = rendezvous_slot(r, id);
    char text[RENDEZVOUS_REASON_BYTES_MAX];
    if (!m || round != r->round || r->phase != PHASE_RUN || m->state != MEMBER_ACTIVE)
        return;
    r->now_ms = now_ms;
    r->blame.open = true;
    r->blame.restarts = r->restarts;
    r->blame.crashes = r->crashes;
    r->blame.backoff_until_ms = r->backoff_until_ms;
    bool again = r->restarts < r->config.max_restarts;
    if (again && note_crash(r)) {
        snprintf(text, sizeof text, "crash loop: %d times in a row within %lld s; the last: %.300s",
                 r->crashes, (long long)(r->config.crash_ms / 1000), why);
        rendezvous_begin_stop(r, VERDICT_FAILED, false, text);
    } else {
        rendezvous_begin_stop(r, again ? VERDICT_NONE : VERDICT_FAILED, true, why);
    }
    rendezvous_settle(r);
}

void rendezvous_excuse(struct rendezvous *r, const struct rendezvous_member *m,
                       enum rendezvous_verdict verdict, const char *why) {
    if (!r->blame.open || m->state != MEMBER_STOPPING || m->leaving ||
        m->heard_ms > r->stop_ms + RENDEZVOUS_BLAME_MS)
        return;
    r->blame.open = false;
    r->restarts = r->blame.restarts;
    r->crashes = r->blame.crashes;
    r->backoff_until_ms = r->blame.backoff_until_ms;
    r->verdict_next = verdict;
    snprintf(r->reason, sizeof r->reason, "%s", why);
    if (verdict == VERDICT_NONE) {
        struct rendezvous_action *a = rendezvous_push(r, ACTION_EXCUSED);
        snprintf(a->reason, sizeof a->reason, "%s", why);
    }
}
