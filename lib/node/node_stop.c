// SPDX-License-Identifier: Apache-2.0
// `dtrun --node stop`: asks the agent of a run to stop its workers, and waits until the agent ends.
#include "agent/agent.h"
#include "base/clock.h"
#include "node/node_verb.h"
#include "sys/proc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(NODE_STOP_MARGIN_MS >= AGENT_DEVICES_MS_MAX + 10000,
               "the margin covers the wait for GPUs");

int node_await_end(int fd, int64_t wait_ms, struct err *e) {
    int64_t end_ms = clock_mono_ms() + wait_ms;
    char buf[256];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end_ms - clock_mono_ms();
        int n = poll(&p, 1, left > 0 ? (int)left : 0);
        if (err_interrupted(n))
            continue;
        if (n == 0)
            return err_set(e, ERR_TIMEOUT, "the agent did not end within %lld ms",
                           (long long)wait_ms);
        if (read(fd, buf, sizeof buf) <= 0)
            return 0;
    }
}

static int stop_running(int fd, int signal, int64_t grace_ms, struct err *e) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "op", "stop");
    json_int(&j, "signal", signal);
    if (grace_ms >= 0)
        json_int(&j, "grace_ms", grace_ms);
    json_end(&j);
    strbuf_addc(&line, '\n');
    // An agent that is just ending, because another node was asked first, does not read the
    // request.
    ssize_t n = send(fd, line.data, line.len, MSG_NOSIGNAL);
    bool gone = n < 0 && (errno == EPIPE || errno == ECONNRESET);
    int rc = 0;
    if (!gone && n != (ssize_t)line.len)
        rc = err_errno(e, ERR_SYS, "cannot ask the agent to stop");
    strbuf_fini(&line);
    if (rc == 0 && !gone) {
        node_answer_event("stopping");
        rc = node_await_end(fd, (grace_ms >= 0 ? grace_ms : 60000) + NODE_STOP_MARGIN_MS, e);
    }
    return rc;
}

int node_stop(const struct node_call *c) {
    struct arena a = {0};
    struct node_args args;
    struct err e;
    enum node_state state;
    int64_t grace_ms = -1;
    int fd = -1;
    int signal = SIGTERM;
    int rc = node_args(&a, c, true, &args, &e);
    if (rc == 0 && args.grace_ms)
        rc = str_parse_i64(args.grace_ms, 0, 7 * 86400 * 1000, &grace_ms, &e);
    if (rc == 0 && args.signal)
        rc = (signal = proc_signal_parse(args.signal, &e)) < 0 ? -1 : 0;
    if (rc == 0 && !node_is_run(&a, &args, args.run))
        rc = err_set(&e, ERR_NOT_FOUND, "run '%s' is not known on this node", args.run);
    if (rc == 0) {
        node_run_state(&a, node_run_dir(&a, &args, args.run), &state, &fd);
        rc = fd < 0 ? 0 : stop_running(fd, signal, grace_ms, &e);
    }
    if (fd >= 0)
        close(fd);
    arena_fini(&a);
    if (rc < 0)
        return node_fail(&e);
    return node_answer_event("stopped") < 0;
}
