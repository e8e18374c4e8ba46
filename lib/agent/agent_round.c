// SPDX-License-Identifier: Apache-2.0
// Handles messages of the coordinator and reports about workers.
//
// The store of a round stays open until the next round or the end, since stopping workers of other
// nodes may still use it. The store of the next round is opened beside it.
#include "agent/agent_impl.h"

#include "agent/failure_report.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "worker/efa.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int agent_open_store(struct agent *a, struct err *e) {
    if (a->store_next)
        store_server_close(a->store_next);
    a->store_next = NULL;
    bool shared = a->config->store_at_endpoint && a->coordinator;
    int port = shared ? -1 : 0;
    a->store_next = store_server_open(a->loop, a->address, port, NULL, e);
    if (!a->store_next && !shared) // behind NAT the address is not local: listen on all
        a->store_next = store_server_open(a->loop, NULL, port, NULL, e);
    if (!a->store_next)
        return -1;
    return shared ? a->config->listen_port : store_server_port(a->store_next);
}

// ---- starting ----

static void find_interface(struct agent *a) {
    struct net_address master, local;
    struct err e;
    a->ifname[0] = '\0';
    if (net_resolve(a->master_addr, a->facts.master_port, &master, &e) < 0)
        return;
    if (net_is_loopback(&master))
        snprintf(a->ifname, sizeof a->ifname, "lo");
    else if (net_address_is_local(&master))
        net_interface_of(&master, a->ifname, &e);
    else if (net_route_source(&master, &local, &e) == 0)
        net_interface_of(&local, a->ifname, &e);
}

static void take_facts(struct agent *a, const struct wire_msg *m) {
    const struct agent_config *c = a->config;
    a->round = (int)m->round;
    a->restarts = (int)m->restarts;
    a->max_restarts = (int)m->max_restarts;
    a->group_rank = (int)m->group_rank;
    a->group_world = (int)m->group_world;
    a->rank = (int)m->rank;
    snprintf(a->master_addr, sizeof a->master_addr, "%s",
             net_sent_address(m->master_addr, a->peer.address));
    a->facts = (struct worker_facts){.run = c->run,
                                     .role = c->role,
                                     .node = c->name,
                                     .nproc = c->workers.nproc,
                                     .group_rank = a->group_rank,
                                     .group_world = a->group_world,
                                     .rank = a->rank,
                                     .world_size = (int)m->world_size,
                                     .role_rank = (int)m->role_rank,
                                     .role_world = (int)m->role_world,
                                     .restarts = a->restarts,
                                     .max_restarts = a->max_restarts,
                                     .round = a->round,
                                     .master_addr = a->master_addr,
                                     .master_port = (int)m->master_port,
                                     .ifname = a->ifname,
                                     .has_efa = efa_is_here(""),
                                     .signals = c->signals_text,
                                     .timer_file = c->timer_file,
                                     .virtual_local_rank = c->virtual_local_rank,
                                     .own_store = c->own_store,
                                     .extra = c->env,
                                     .extra_count = c->env_count,
                                     .defaults = c->env_defaults,
                                     .default_count = c->env_default_count};
    find_interface(a);
}

// The active nodes come first, by group rank; large runs do not tell all agents all of them.
static void take_addresses(struct agent *a, const struct wire_msg *m) {
    int count = a->group_world;
    arena_reset(&a->round_texts);
    const char **list = arena_new(&a->round_texts, const char *, (size_t)count + 1);
    bool known = a->config->workers.sagemaker && m->node_count >= count;
    for (int i = 0; known && i < count; i++) {
        list[i] = arena_strdup(&a->round_texts, m->nodes[i].address);
        known = net_is_numeric(list[i]);
    }
    a->facts.addresses = known ? list : NULL;
}

static void record_round(struct agent *a, const struct wire_msg *m) {
    struct json_out *j = events_begin(&a->events, EVENT_ROUND);
    json_int(j, "round", a->round);
    json_int(j, "restarts", a->restarts);
    json_int(j, "group_rank", a->group_rank);
    json_int(j, "nodes", a->group_world);
    json_int(j, "nproc", a->config->workers.nproc);
    json_int(j, "rank", a->rank);
    json_int(j, "world_size", m->world_size);
    json_str(j, "master_addr", a->master_addr);
    json_int(j, "master_port", m->master_port);
    json_str(j, "reason", m->reason);
    events_end(&a->events);
    log_info("ranks are assigned", "round=%d group_rank=%d rank=%d world_size=%lld master=%s:%lld",
             a->round, a->group_rank, a->rank, (long long)m->world_size, a->master_addr,
             (long long)m->master_port);
}

static void send_start_failure(struct agent *a, const char *text) {
    struct worker_failure f = {.rank = a->rank,
                               .status = 1,
                               .wall_ms = clock_wall_ms(),
                               .host = a->config->name,
                               .error_file = "",
                               .message = text,
                               .tail = ""};
    struct wire_msg m = {
        .type = WIRE_FAILED, .round = a->round, .failures = &f, .failure_count = 1};
    log_error("cannot start workers", "reason=%s", text);
    a->round_failed = true;
    agent_send(a, &m);
}

static void on_round(struct agent *a, const struct wire_msg *m) {
    if (!workers_is_idle(&a->workers)) { // impossible with a correct coordinator
        agent_end(a, NODE_FAILED, "a round began while the last one was not over", NULL, 0);
        return;
    }
    int64_t now = clock_mono_ms();
    agent_elect_round(a, m);
    election_heartbeat_acked(&a->election, now, 0, m->left_ms);
    agent_link_beat(a); // confirms the round to the coordinator
    int64_t until = election_lease_end(&a->election);
    if (now >=
        until) { // a message from before a long pause: others may already run without this node
        agent_coordinator_lost(a, "this agent was stopped for too long", 0);
        return;
    }
    a->round_failed = a->stop_requested = a->done_sent = a->rejoin = false;
    a->round_ms = clock_mono_ms();
    store_server_close(a->store);
    a->store = a->store_next;
    a->store_next = NULL;
    take_facts(a, m);
    if (a->group_rank != 0 || a->config->own_store) { // its port is free now
        store_server_close(a->store);
        a->store = NULL;
    }
    record_round(a, m);
    agent_set_state(a, NODE_RUNNING,
                    m->reason); // the reason of the restart; "" for the first round
    take_addresses(a, m);
    if (!agent_copies_wait(a))
        agent_start_round(a);
}

void agent_start_round(struct agent *a) {
    struct err e;
    int64_t until = election_lease_end(&a->election);
    file_timers_hold(&a->timers, true); // until each process is assigned to its worker
    agent_copies_env(a);
    if (a->inputs_round == a->round && a->inputs_reason[0])
        send_start_failure(a, a->inputs_reason);
    else if (workers_start(&a->workers, &a->facts, until == INT64_MAX ? 0 : until, &e) < 0)
        send_start_failure(a, e.text);
    a->facts.addresses = NULL;
    agent_stuck_watch(a);
}

static void on_allow(struct agent *a, const struct wire_msg *m) {
    struct net_address *hosts = heap_alloc((size_t)m->node_count * sizeof *hosts + 1);
    size_t count = 0;
    struct err e;
    for (int64_t i = 0; i < m->node_count; i++)
        if (net_is_numeric(m->nodes[i].address) &&
            net_resolve(m->nodes[i].address, 0, &hosts[count], &e) == 0)
            count++;
    if (a->store_next)
        store_server_allow(a->store_next, hosts, count);
    free(hosts);
}

// ---- stopping ----

void agent_stop_workers(struct agent *a, int signal, int64_t grace_ms, const char *why) {
    if (workers_is_idle(&a->workers))
        return;
    if (!a->workers.stopping) {
        a->stop_ms = clock_mono_ms();
        struct json_out *j = events_begin(&a->events, EVENT_STOPPING);
        json_int(j, "round", a->round);
        json_str(j, "reason", why);
        json_str(j, "signal", proc_signal_name(signal));
        json_int(j, "grace_ms", grace_ms);
        events_end(&a->events);
        agent_set_state(a, NODE_STOPPING, why);
    }
    workers_stop(&a->workers, signal, grace_ms);
}

static void send_stopped(struct agent *a) {
    struct err e;
    struct wire_msg m = {.type = WIRE_STOPPED, .round = a->round};
    if (!a->stop_final && !a->over) {
        int port = agent_open_store(a, &e);
        if (port < 0) {
            agent_end(a, NODE_FAILED, e.text, NULL, 0);
            return;
        }
        m.store_port = port;
        agent_set_state(a, NODE_JOINING, a->reason);
    }
    a->stop_requested = false;
    agent_send(a, &m);
}

static void on_stop(struct agent *a, const struct wire_msg *m) {
    if (m->round != a->round)
        return;
    a->stop_requested = true;
    a->stop_final = m->final != 0;
    election_merge_counters(&a->election, &(struct election_counters){
                                              (int)m->round, (int)m->restarts, (int)m->crashes});
    snprintf(a->reason, sizeof a->reason, "%s", m->reason);
    if (agent_devices_waits(a))
        return; // on_gone follows
    if (workers_is_idle(&a->workers))
        send_stopped(a);
    else
        agent_stop_workers(a, (int)m->signal, m->grace_ms, m->reason);
}

// ---- joining, waiting, the end ----

static void on_joined(struct agent *a, const struct wire_msg *m) {
    bool another = a->leader[0] && strcmp(a->leader, m->name) != 0;
    if (!agent_elect_joined(a, m))
        return;
    a->joined = true;
    a->session.id = m->session;
    struct json_out *j = events_begin(&a->events, another ? EVENT_LEADER : EVENT_JOINED);
    json_str(j, another ? "peer" : "coordinator", m->name);
    if (another)
        json_str(j, "reason", a->leader);
    events_end(&a->events);
    snprintf(a->leader, sizeof a->leader, "%s", m->name);
    agent_link_beat(a);
    a->present = (int)m->present;
    a->expected = (int)m->expected;
    agent_write_status(a);
    agent_notice_joined(a);
}

static void on_waiting(struct agent *a, const struct wire_msg *m) {
    if (a->state != NODE_JOINING)
        return;
    log_warn("waiting for nodes", "present=%lld expected=%lld %s", (long long)m->present,
             (long long)m->expected, m->reason);
    struct json_out *j = events_begin(&a->events, EVENT_WAITING);
    json_int(j, "present", m->present);
    json_int(j, "expected", m->expected);
    json_str(j, "reason", m->reason);
    events_end(&a->events);
}

static void on_finish(struct agent *a, const struct wire_msg *m) {
    enum node_state state = m->state == NODE_FINISHED || m->state == NODE_STOPPED
                                ? (enum node_state)m->state
                                : NODE_FAILED;
    a->restarts = (int)m->restarts;
    // The coordinator has recorded it, but its disk may be full or its host may fail right after.
    if (m->failure_count > 0 && !a->coordinator)
        failure_report_event(&a->events, &m->failures[0], m->round, true);
    agent_end(a, state, m->reason, m->failures, m->failure_count);
}

typedef void agent_handler(struct agent *a, const struct wire_msg *m);
static agent_handler *const handlers[WIRE_TYPE_COUNT] = {
    [WIRE_JOINED] = on_joined,
    [WIRE_WAITING] = on_waiting,
    [WIRE_ROUND] = on_round,
    [WIRE_ALLOW] = on_allow,
    [WIRE_STOP] = on_stop,
    [WIRE_FINISH] = on_finish,
    [WIRE_NOTICE] = agent_notice_received,
    [WIRE_COPIES] = agent_copies_ring,
};

void agent_on_message(struct agent *a, const struct wire_msg *m) {
    if (!handlers[m->type] || a->over)
        return;
    if (a->joined || m->type == WIRE_JOINED)
        handlers[m->type](a, m);
    else // ignore all of it, in particular the electorate of a round
        agent_coordinator_lost(a, "it gave orders before it let this agent join", 0);
}

// ---- workers ----

static void on_started(struct workers *w) {
    struct agent *a = w->ctx;
    a->started_ms = clock_mono_ms();
    struct json_out *j = events_begin(&a->events, EVENT_STARTED);
    json_int(j, "round", a->round);
    json_int(j, "attempt", a->round);
    json_array(j, "pids");
    for (int i = 0; i < w->count; i++)
        json_int(j, NULL, w->list[i].pid);
    json_end(j);
    json_int(j, "ms", a->started_ms - a->round_ms);
    events_end(&a->events);
    log_info("workers run", "round=%d count=%d ms=%lld", a->round, w->count,
             (long long)(a->started_ms - a->round_ms));
    agent_write_status(a);
    file_timers_hold(&a->timers, false);
    if (a->config->run_dir)
        log_times_begin(&a->log_times, a->loop, w);
}

static void record_exit(struct agent *a, const struct worker *x) {
    bool signalled = x->status > 0 && WIFSIGNALED(x->status);
    struct json_out *j = events_begin(&a->events, EVENT_EXITED);
    json_int(j, "round", a->round);
    json_int(j, "rank", x->rank);
    json_int(j, "local_rank", x->local_rank);
    json_int(j, "pid", x->pid);
    json_int(j, "status", x->status < 0 ? 127 : proc_status_code(x->status));
    json_str(j, "signal", signalled ? proc_signal_name(WTERMSIG(x->status)) : NULL);
    json_int(j, "ms", x->started_mono_ms ? x->ended_mono_ms - x->started_mono_ms : 0);
    json_str(j, "reason", x->text ? x->text : a->workers.stopping ? a->reason : NULL);
    json_str(j, "log",
             x->dir ? arena_printf(&a->workers.arena, "attempt_%d/%d", a->round, x->local_rank)
                    : NULL);
    events_end(&a->events);
}

static void report_failure(struct agent *a, const struct worker *x) {
    struct arena texts = {0};
    struct worker_failure f;
    workers_failure(&a->workers, x, &texts, &f);
    log_error("failed", "exitcode=%d local_rank=%d rank=%d pid=%d binary=%s%s%s",
              f.signal ? -(int)f.signal : (int)f.status, x->local_rank, x->rank, (int)x->pid,
              a->config->workers.command[0], x->text ? " reason=" : "", x->text ? x->text : "");
    struct wire_msg m = {
        .type = WIRE_FAILED, .round = a->round, .failures = &f, .failure_count = 1};
    agent_send(a, &m);
    arena_fini(&texts);
}

static void on_exited(struct workers *w, const struct worker *x) {
    struct agent *a = w->ctx;
    bool caused = w->stopping && x->stopped;
    if (x->lease_ended) // the agent's own lease may have been renewed since
        caused = a->round_failed = true;
    record_exit(a, x);
    if (a->config->run_dir)
        log_times_note(x);
    agent_write_status_soon(a);
    if (!caused && agent_notice_takes(a, x))
        return;
    if (!caused && !worker_succeeded(x) && !a->stop_requested && !a->over) {
        report_failure(a, x);
        a->round_failed = true;
        snprintf(a->reason, sizeof a->reason, "rank %d failed", x->rank);
        agent_stop_workers(a, SIGTERM, a->config->coordinator.shutdown_timeout_ms, a->reason);
    }
    int succeeded = 0;
    for (int i = 0; i < w->count; i++)
        succeeded += worker_succeeded(&w->list[i]);
    if (succeeded == w->count && !a->round_failed && !a->stop_requested && !a->done_sent) {
        struct wire_msg m = {.type = WIRE_DONE, .round = a->round};
        a->done_sent = true;
        agent_send(a, &m);
        agent_set_state(a, NODE_WAITING, "the workers of this node are done");
    }
}

void agent_round_gone(struct agent *a) {
    if (a->over) {
        if (a->leaving)
            send_stopped(a);
        agent_maybe_leave_loop(a);
    } else if (a->rejoin) {
        a->rejoin = false;
        agent_link_join(a);
    } else if (a->stop_requested) {
        send_stopped(a);
    } else if (a->round_failed && a->joined && !a->workers.stopping) { // their lease expired
        agent_coordinator_lost(a, "this agent was stopped for too long", 0);
    }
}

static void on_gone(struct workers *w, int orphans) {
    struct agent *a = w->ctx;
    file_timers_clear(&a->timers);
    log_times_end(&a->log_times);
    struct json_out *j = events_begin(&a->events, EVENT_STOPPED);
    json_int(j, "round", a->round);
    json_int(j, "ms", w->stopping ? clock_mono_ms() - a->stop_ms : 0);
    json_int(j, "orphans", orphans);
    events_end(&a->events);
    if (orphans > 0)
        log_warn("stray processes of workers were killed", "count=%d", orphans);
    agent_devices_wait(a);
}

const struct workers_events agent_workers_table = {on_started, on_exited, on_gone};
