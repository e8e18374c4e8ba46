// SPDX-License-Identifier: Apache-2.0
// The agent's main loop. Its inputs are the connection to the coordinator (agent_uplink.c), reports
// of the guard about workers (agent_round.c), signals, the control socket, the listening socket for
// agents that join or ask (agent_peers.c), and the connections of agents while this one coordinates
// (coordinator.c). Every message causes at most one step of one of these.
#include "agent/agent_impl.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "worker/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

// Agents and, in a static start, the workers' store share one port. The first byte tells them
// apart: a letter from agents and from keepers of states, a small number from store clients.
struct door { // an accepted connection before its first byte
    struct watch watch;
    struct timer late;
    struct newcomer newcomer;
    struct agent *agent;
};

static void door_close(struct door *d, bool close_fd) {
    int fd = d->watch.fd;
    admission_leave(&d->newcomer);
    watch_stop(&d->watch);
    timer_stop(&d->late);
    if (close_fd)
        close(fd);
    free(d);
}

static void on_evict(struct newcomer *g) {
    door_close(container_of(g, struct door, newcomer), true);
}

static void door_hand_over(struct door *d, unsigned char first) {
    struct agent *a = d->agent;
    int fd = d->watch.fd;
    struct net_address peer = d->newcomer.from;
    struct store_server *store = a->store ? a->store : a->store_next;
    bool to_keeper = first == WIRE_MAGIC_COPIES[0];
    bool to_store = !to_keeper && first != WIRE_MAGIC[0];
    bool taken = !to_store || (a->config->store_at_endpoint && store);
    door_close(d, !taken);
    if (to_keeper)
        keeper_adopt(&a->keeper, fd);
    else if (taken && to_store)
        store_server_adopt(store, fd, &peer);
    else if (taken && a->coordinator)
        coordinator_adopt(a->coordinator, fd, &peer);
    else if (taken)
        agent_elect_adopt(a, fd, &peer);
}

static void on_door(struct watch *w, unsigned events) {
    struct door *d = container_of(w, struct door, watch);
    unsigned char first;
    (void)events;
    ssize_t n = recv(w->fd, &first, 1, MSG_PEEK);
    if (err_not_yet(n))
        return;
    if (n <= 0)
        door_close(d, true);
    else
        door_hand_over(d, first);
}

// Silent for long: a second connection of an old store client, or a foreign connection.
static void on_door_late(struct timer *t) {
    door_hand_over(container_of(t, struct door, late), 0);
}

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    struct agent *a = container_of(l, struct agent, listener);
    struct door *d = heap_alloc(sizeof *d);
    struct err e;
    d->agent = a;
    if (watch_start(a->loop, &d->watch, fd, LOOP_READ, on_door, &e) < 0) {
        close(fd);
        free(d);
        return;
    }
    admission_add(&a->admission, &d->newcomer, peer, on_evict);
    timer_start(a->loop, &d->late, LINK_GREETING_MS_MAX, on_door_late);
}

static void on_signal(void *ctx, const struct signalfd_siginfo *info) {
    struct agent *a = ctx;
    int signal = (int)info->ssi_signo;
    char reason[64];
    if (signal == SIGPIPE)
        return;
    snprintf(reason, sizeof reason, "%s received", proc_signal_name(signal));
    log_warn("a signal was received", "signal=%s", proc_signal_name(signal));
    if (a->signals_seen >= 2) { // the guard notices the end of this process and kills the workers
        a->exit_status = 1;
        loop_stop(a->loop);
        return;
    }
    if (a->signals_seen++ > 0) { // the second one does not wait for workers
        agent_stop_workers(a, SIGKILL, 0, reason);
        agent_end(a, NODE_STOPPED, reason, NULL, 0);
        return;
    }
    int64_t grace_ms = a->config->coordinator.shutdown_timeout_ms;
    const struct rendezvous *r = a->coordinator ? coordinator_rendezvous(a->coordinator) : NULL;
    // An agent that is alone leaves, so that one that joins meanwhile does not inherit its end.
    if (r && rendezvous_member_count(r) > 1 && !rendezvous_can_hand_over(r))
        agent_request_stop(a, reason, signal, grace_ms);
    else
        agent_leave(a, reason, signal, grace_ms);
}

static void on_command(struct control *c, const struct json *command) {
    struct agent *a = c->ctx;
    if (!str_eq(json_get_str(command, "op", ""), "stop"))
        return;
    int64_t grace_ms = json_get_int(command, "grace_ms", -1);
    int64_t signal = json_get_int(command, "signal", SIGTERM);
    if (grace_ms < 0)
        grace_ms = a->config->coordinator.shutdown_timeout_ms;
    if (signal < 1 || signal >= NSIG)
        signal = SIGTERM;
    agent_request_stop(a, "stopped on request", (int)signal, grace_ms);
}

static void on_answer(struct control *c, const struct json *command, struct json_out *answer) {
    struct agent *a = c->ctx;
    if (str_eq(json_get_str(command, "op", ""), "sample"))
        host_sampler_answer(&a->sampler, answer);
}

// One descriptor per client of the store and per agent; workers get the old limit back.
static uint64_t raise_descriptors(void) {
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
        return 0;
    uint64_t before = lim.rlim_cur;
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
    return before;
}

static int open_events(struct agent *a, struct err *e) {
    const struct agent_config *c = a->config;
    char path[4096];
    if (!c->run_dir)
        return events_open(&a->events, NULL, c->name, e);
    snprintf(path, sizeof path, "%s/events.jsonl", c->run_dir);
    a->control.ctx = a;
    a->control.on_answer = on_answer;
    if (events_open(&a->events, path, c->name, e) < 0 ||
        control_open(&a->control, a->loop, c->run_dir, c->door_fd, on_command, e) < 0)
        return -1;
    struct json_out *j = events_begin(&a->events, EVENT_LISTENING);
    json_str(j, "address", a->address);
    json_int(j, "port", c->listen_port);
    events_end(&a->events);
    const struct sagemaker *tree = c->workers.sagemaker;
    if (tree) {
        j = events_begin(&a->events, EVENT_SAGEMAKER);
        json_str(j, "tree", sagemaker_ways[tree->way]);
        json_str(j, "reason", tree->why);
        events_end(&a->events);
    }
    return 0;
}

static int agent_open(struct agent *a, struct workers_config *workers, struct err *e) {
    const struct agent_config *c = a->config;
    if (guard_subreaper(e) < 0)
        return -1;
    *workers = c->workers;
    workers->descriptors_max = raise_descriptors();
    struct rlimit lim = {.rlim_cur = 0};
    getrlimit(RLIMIT_NOFILE, &lim);
    a->admission.max =
        lim.rlim_cur < 2 * AGENT_UNJOINED_MAX ? (int)lim.rlim_cur / 2 : AGENT_UNJOINED_MAX;
    a->workers.ctx = a;
    workers_init(&a->workers, a->loop, workers, &agent_workers_table);
    sigset_t set = c->signals;
    sigaddset(&set, SIGPIPE);
    if (loop_signals(a->loop, &set, on_signal, a, e) < 0 || open_events(a, e) < 0)
        return -1;
    if (c->listen_fd >= 0 &&
        listener_open(&a->listener, a->loop, c->listen_fd, "agents", on_accept, e) < 0)
        return -1;
    if (agent_stream_open(a, e) < 0)
        return -1;
    agent_set_state(a, NODE_STARTING, "");
    agent_limit_open(a);
    if (agent_copies_open(a, e) < 0 || agent_notice_open(a, e) < 0)
        return -1;
    host_sampler_open(&a->sampler, a->loop, c->run_dir, c->workers.env, c->sample_ms);
    return agent_elect_open(a, e) < 0 ? -1 : agent_watch_open(a, e);
}

static void agent_close(struct agent *a) {
    host_sampler_close(&a->sampler);
    agent_watch_close(a);
    agent_stuck_close(a);
    agent_notice_close(a);
    agent_stream_close(a);
    timer_stop(&a->time_limit);
    agent_devices_close(a);
    agent_copies_close(a);
    agent_link_close(a, "its agent ends");
    agent_elect_close(a);
    listener_close(&a->listener);
    control_close(&a->control);
    coordinator_close(a->coordinator);
    timer_stop(&a->members_due);
    store_server_close(a->store);
    store_server_close(a->store_next);
    workers_fini(&a->workers);
    events_close(&a->events);
    arena_fini(&a->end_arena);
}

int agent_run(const struct agent_config *config, struct err *e) {
    struct agent *a = heap_alloc(sizeof *a);
    struct workers_config workers;
    // Keeps the key out of core files and from debuggers of the same user. Workers are unaffected,
    // since exec resets this.
    if (config->coordinator.secret.key_len > 0)
        prctl(PR_SET_DUMPABLE, 0);
    a->config = config;
    a->round = -1;
    a->begin_ms = clock_mono_ms();
    snprintf(a->address, sizeof a->address, "%s", config->address ? config->address : "");
    a->loop = loop_open(e);
    int rc = a->loop && console_open(e) == 0 ? agent_open(a, &workers, e) : -1;
    if (rc == 0) {
        loop_run(a->loop);
        rc = a->exit_status;
    }
    // The process ends after this, which closes connections without a first byte.
    if (rc >= 0)
        agent_close(a);
    console_close();
    return rc;
}
