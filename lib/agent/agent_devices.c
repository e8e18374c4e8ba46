// SPDX-License-Identifier: Apache-2.0
// Between two rounds: the next one starts when no process of the run has a GPU open any more. The
// guard has ended everything below it by then; what is left was started by somebody else on a
// worker's behalf (a container runtime, systemd-run), or belongs to an agent that was killed.
#include "agent/agent_impl.h"

#include "base/log.h"
#include "worker/gpu_holders.h"

#include <stdio.h>

static void on_look(struct timer *t);

static void fail(struct agent *a, const struct device_holder *h) {
    char text[RENDEZVOUS_REASON_BYTES_MAX];
    snprintf(
        text, sizeof text,
        "%s is still held by %s (pid %d) of this run, %d s after its workers ended: end it, or "
        "restart the node",
        h->device, h->name, (int)h->pid, AGENT_DEVICES_MS_MAX / 1000);
    agent_end(a, NODE_FAILED, text, NULL, 0);
}

static void look(struct agent *a, bool first) {
    struct device_holder h;
    if (a->over || !worker_devices_held("", a->config->run, &h)) {
        agent_round_gone(a);
        return;
    }
    if (first) {
        log_warn("a GPU of the last round is not free yet", "device=%s pid=%d name=%s", h.device,
                 (int)h.pid, h.name);
        a->devices_until_ms = loop_now_ms(a->loop) + AGENT_DEVICES_MS_MAX;
    }
    if (loop_now_ms(a->loop) >= a->devices_until_ms)
        fail(a, &h);
    else
        timer_start(a->loop, &a->devices, AGENT_DEVICES_LOOK_MS, on_look);
}

static void on_look(struct timer *t) {
    look(container_of(t, struct agent, devices), false);
}

void agent_devices_wait(struct agent *a) {
    look(a, true);
}

bool agent_devices_waits(const struct agent *a) {
    return a->devices.loop != NULL;
}

void agent_devices_close(struct agent *a) {
    timer_stop(&a->devices);
}
