// SPDX-License-Identifier: Apache-2.0
// Two ends of a link over a socket pair: what a refusal at each point of the greeting shows.
#include "channel/channel.h"

#include "base/clock.h"
#include "tests/tap.h"

#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60000 };

static const unsigned char key[32] = "any thirty-two bytes are a key.";
static struct err e;
static struct channel agent, coordinator;
static bool refuse_at_once; // as soon as the agent is ready, so before its proof is read
static int ends;
static char agent_end[ERR_TEXT_BYTES_MAX];

static void on_ready(struct channel *l) {
    if (refuse_at_once && l == &agent)
        channel_refuse(&coordinator, true, "all places are taken");
    else if (!refuse_at_once && l == &coordinator)
        channel_refuse(&coordinator, true, "the run is over");
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    (void)l;
    (void)m;
}

static void on_end(struct channel *l, const struct err *why) {
    if (l == &agent)
        snprintf(agent_end, sizeof agent_end, "%s", why->text);
    ends += l == &agent;
}

// Until the agent's end is over.
static void talk(bool at_once, const struct channel_secret *a, const struct channel_secret *b) {
    static const struct channel_events events = {on_ready, on_message, on_end};
    int fds[2];
    struct loop *loop = loop_open(&e);
    refuse_at_once = at_once;
    ends = 0;
    if (!loop || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ||
        channel_open(&agent, loop, fds[0], CHANNEL_AGENT, false, a, &events, &e) < 0 ||
        channel_open(&coordinator, loop, fds[1], CHANNEL_COORDINATOR, false, b, &events, &e) < 0)
        bail_out("no link: %s", e.text);
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; !ends && clock_mono_ms() < until;)
        loop_once(loop, 100);
    channel_close(&agent);
    channel_close(&coordinator);
    loop_close(loop);
}

int main(void) {
    struct channel_secret keyed = {.run = "x", .key = key, .key_len = sizeof key};
    struct channel_secret open = {.run = "x"}, elsewhere = keyed, open_elsewhere = {.run = "y"};
    elsewhere.run = "y";
    talk(false, &keyed, &keyed);
    is_str(agent_end, "the run is over", "a sealed refusal is delivered");
    ok(agent.refused_final, "a sealed refusal is final");
    talk(true, &keyed, &keyed);
    is_str(agent_end, "all places are taken",
           "a refusal that crosses the agent's proof has no seal");
    ok(!agent.refused_final, "a refusal without a seal is not final");
    talk(true, &open, &open);
    is_str(agent_end, "all places are taken", "a run without a key refuses in clear text");
    ok(agent.refused_final, "a refusal is final in a run without a key");
    talk(true, &elsewhere, &keyed);
    is_str(agent_end, "this is another run than 'y'", "a member gets the name of the other run");
    talk(true, &open_elsewhere, &open);
    is_str(agent_end, "this is run 'x', not 'y'",
           "without a key, every agent gets the name of the run");
    talk(true, &open, &keyed);
    has_str(agent_end, "has no key", "an agent without a key is refused");
    return done_testing();
}
