// SPDX-License-Identifier: Apache-2.0
// Messages that a session keeps and resends.
#include "channel/replay.h"
#include "tests/tap.h"

#include <string.h>

static struct err e;

static void keep(struct replay *s, const char *text) {
    replay_keep(s, text, strlen(text));
}

// All that is not acknowledged, one after the other.
static const char *unacked(const struct replay *s) {
    static struct strbuf text;
    const char *message;
    size_t at = 0, len;
    strbuf_clear(&text);
    while ((message = replay_unacked(s, &at, &len)))
        strbuf_addf(&text, "%.*s ", (int)len, message);
    return strbuf_cstr(&text);
}

static void test_counts(void) {
    struct replay s = {0};
    keep(&s, "lost");
    ok(!replay_can_resume(&s) && replay_acked(&s, 9, &e) == 0, "none: nothing is kept");
    replay_open(&s, 0);
    ok(!replay_can_resume(&s), "a session without a name cannot be resumed");
    s.id = 7;
    keep(&s, "one");
    keep(&s, "");
    keep(&s, "three");
    ok(replay_can_resume(&s), "a session with a name can be resumed");
    is_str(unacked(&s), "one  three ", "all messages are unacknowledged at first");
    is_int(replay_acked(&s, 1, &e), 0, "the other side has the first");
    is_str(unacked(&s), " three ", "an acknowledged message is dropped");
    is_int(replay_acked(&s, 1, &e), 0, "the same acknowledgement is accepted again");
    is_int(replay_acked(&s, 0, &e), -1, "less than before cannot be");
    is_int(replay_acked(&s, 4, &e), -1, "an acknowledgement beyond what was sent is refused");
    is_str(e.text, "4 messages taken, of 1 to 3", "the error has the count and its bounds");
    is_int(replay_acked(&s, 3, &e), 0, "all frames are acknowledged");
    is_str(unacked(&s), "", "nothing is missing");
    replay_take(&s);
    is_int(s.taken, 1, "received messages are counted apart");
    replay_open(&s, 8);
    ok(s.taken == 0 && s.sent == 0, "the next one begins with nothing");
    replay_close(&s);
}

static void test_too_much(void) {
    static char large[SESSION_KEPT_BYTES_MAX / 2];
    struct replay s = {0};
    replay_open(&s, 1);
    replay_keep(&s, large, sizeof large);
    ok(replay_can_resume(&s), "half of the limit is kept");
    replay_keep(&s, large, sizeof large);
    ok(!replay_can_resume(&s), "above the limit the session cannot be resumed");
    is_int(replay_acked(&s, 1, &e), 0, "above the limit the session still takes acknowledgements");
    replay_close(&s);
}

int main(void) {
    test_counts();
    test_too_much();
    return done_testing();
}
