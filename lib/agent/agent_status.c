// SPDX-License-Identifier: Apache-2.0
// Writes status.json, the output of `--node status`. Replaced as a whole at every change; not
// synced to disk, because a state has no value after its agent's end.
#include "agent/agent_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "sys/atomic_file.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_MEMBERS_MS = 100 };

static void add_workers(struct json_out *j, const struct workers *w) {
    json_array(j, "workers");
    for (int i = 0; i < w->count; i++) {
        const struct worker *x = &w->list[i];
        bool signalled = x->ended && x->status > 0 && WIFSIGNALED(x->status);
        json_object(j, NULL);
        json_int(j, "local_rank", x->local_rank);
        json_int(j, "rank", x->rank);
        json_int(j, "pid", x->pid);
        json_str(j, "state", x->ended ? "exited" : x->running ? "running" : "starting");
        if (x->ended)
            json_int(j, "status", x->status < 0 ? 127 : proc_status_code(x->status));
        else
            json_null(j, "status");
        json_str(j, "signal", signalled ? proc_signal_name(WTERMSIG(x->status)) : NULL);
        json_end(j);
    }
    json_end(j);
}

static const char *member_state(const struct rendezvous_member *m) {
    static const char *const names[] = {"waiting", "running", "done", "stopping"};
    return names[m->state];
}

static void add_members(struct json_out *j, const struct coordinator *c) {
    const struct rendezvous *r = coordinator_rendezvous(c);
    int left = rendezvous_member_count(r);
    json_array(j, "members");
    for (int id = 0; left > 0; id++) {
        const struct rendezvous_member *m = rendezvous_member(r, id);
        if (!m)
            continue;
        left--;
        json_object(j, NULL);
        json_str(j, "name", m->name);
        json_int(j, "node_rank", m->node_rank);
        json_str(j, "state", member_state(m));
        json_end(j);
    }
    json_end(j);
}

// Before nothing remains, workers have their grace period, or other nodes have workers: results are
// still written. The state is no final one then.
static enum node_state current_state(const struct agent *a) {
    if (!node_state_is_final(a->state) || a->ended)
        return a->state;
    return workers_is_idle(&a->workers) ? NODE_WAITING : NODE_STOPPING;
}

static void format(struct agent *a, struct strbuf *out) {
    const struct agent_config *c = a->config;
    enum node_state state = current_state(a);
    struct json_out j;
    json_open(&j, out);
    json_object(&j, NULL);
    json_str(&j, "run", c->run);
    json_str(&j, "name", c->run_name);
    json_str(&j, "node", c->name);
    json_int(&j, "node_rank", c->node_rank);
    json_int(&j, "nnodes", a->group_world ? a->group_world : a->expected);
    json_str(&j, "state", node_state_name(state));
    json_int(&j, "pid", getpid());
    json_int(&j, "round", a->round);
    json_int(&j, "restarts", a->restarts);
    json_int(&j, "max_restarts", a->max_restarts);
    json_int(&j, "agent_starts", c->agent_starts);
    json_str(&j, "reason", a->reason);
    if (node_state_is_final(state))
        json_int(&j, "exit_status", a->exit_status);
    else
        json_null(&j, "exit_status");
    json_int(&j, "created_ms", c->created_ms);
    json_int(&j, "updated_ms", clock_wall_ms());
    json_bool(&j, "coordinator", a->coordinator != NULL);
    if (a->coordinator)
        add_members(&j, a->coordinator);
    add_workers(&j, &a->workers);
    json_end(&j);
    strbuf_addc(out, '\n');
}

// Written at each change without a sync.
static int replace_file(const char *dir, const struct strbuf *text, struct err *e) {
    char path[FILE_PATH_BYTES_MAX];
    struct atomic_file f;
    snprintf(path, sizeof path, "%s/status.json", dir);
    if (atomic_file_open(&f, path, 0644, e) < 0)
        return -1;
    if (file_write_all(f.fd, text->data, text->len, e) == 0)
        return atomic_file_commit_unsynced(&f, e);
    atomic_file_abort(&f);
    return err_wrap(e, "'%s'", path);
}

void agent_write_status(struct agent *a) {
    timer_stop(&a->members_due); // this write has them
    if (!a->config->run_dir)
        return;
    struct strbuf text = {0};
    struct err e;
    format(a, &text);
    if (replace_file(a->config->run_dir, &text, &e) < 0)
        log_error("cannot write the status", "reason=\"%s\"", e.text);
    strbuf_fini(&text);
}

static void write_due(struct deferred *d) {
    agent_write_status(container_of(d, struct agent, status_due));
}

// Each write has every worker, so hundreds of workers that exit at once would keep the agent from
// its heartbeats for seconds if each exit had a write of its own.
void agent_write_status_soon(struct agent *a) {
    if (!a->status_due.loop)
        loop_defer(a->loop, &a->status_due, write_due);
}

static void on_members_due(struct timer *t) {
    struct agent *a = container_of(t, struct agent, members_due);
    if (!node_state_is_final(a->state))
        agent_write_status(a);
}

// Each write has every member, so a thousand nodes that join one after another must not cause a
// write each.
void agent_write_members_soon(struct agent *a) {
    if (!a->members_due.loop)
        timer_start(a->loop, &a->members_due, STATUS_MEMBERS_MS, on_members_due);
}

void agent_set_state(struct agent *a, enum node_state state, const char *reason) {
    a->state = state;
    if (reason != a->reason)
        snprintf(a->reason, sizeof a->reason, "%s", reason);
    agent_write_status(a);
}
