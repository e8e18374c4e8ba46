// SPDX-License-Identifier: Apache-2.0
// `dtrun --node start`: reads the job, opens the agent's port, reads the roster, and leaves the
// agent running in a session of its own.
#include "agent/control_socket.h"
#include "base/clock.h"
#include "base/log.h"
#include "launch/launch.h"
#include "node/node_verb.h"
#include "sys/file.h"
#include "sys/net.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct start {
    struct arena arena;
    struct node_args args;
    char *const *env;
    struct job_spec spec;
    struct roster roster;
    struct launch launch;
    char *run_dir;
    int listen_fd, listen_port;
    bool made_job;
};

// Writes job.toml without the key; the file makes the run known on this node.
static int write_job(struct start *s, struct err *e) {
    struct strbuf text = {0};
    char *path = file_join(&s->arena, s->run_dir, "job.toml");
    if (file_make_dirs(s->run_dir, 0755, e) < 0)
        return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return err_set(e, ERR_EXISTS, "run '%s' exists on this node already", s->spec.run);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", path);
    s->made_job = true;
    job_spec_format(&s->spec, false, &text);
    int rc = file_write_all(fd, text.data, text.len, e);
    close(fd);
    strbuf_fini(&text);
    return rc;
}

// Checks that the agent has vanished. Files of the run stay, and the other nodes continue
// meanwhile.
static int check_again(struct start *s, struct err *e) {
    enum node_state state;
    int fd = -1;
    if (file_is_absent(file_join(&s->arena, s->run_dir, "job.toml")))
        return err_set(e, ERR_NOT_FOUND, "run '%s' is not known on this node", s->spec.run);
    node_run_state(&s->arena, s->run_dir, &state, &fd);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 || state != NODE_LOST)
        return err_set(e, ERR_BUSY, "run '%s' is %s on this node", s->spec.run,
                       node_state_name(state));
    return 0;
}

static int read_job(struct start *s, struct err *e) {
    char *text;
    size_t len;
    if (node_read_record(&s->arena, NODE_ROSTER_WAIT_MS_MAX, &text, &len, e) < 0 ||
        job_spec_parse(&s->arena, text, len, &s->spec, e) < 0)
        return -1;
    memset(text, 0, len); // keep only one copy of the key
    if (s->args.run && strcmp(s->args.run, s->spec.run) != 0)
        return err_set(e, ERR_USAGE, "--run %s is not the job's run %s", s->args.run, s->spec.run);
    if (!s->spec.has_key)
        return err_set(e, ERR_CONFIG, "run.key is missing");
    if (s->spec.created_ms == 0)
        s->spec.created_ms = clock_wall_ms();
    s->run_dir = node_run_dir(&s->arena, &s->args, s->spec.run);
    return s->args.again ? check_again(s, e) : write_job(s, e);
}

static int answer_listening(struct start *s) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "listening");
    json_int(&j, "port", s->listen_port);
    json_str(&j, "address", s->spec.address);
    json_end(&j);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc;
}

static int answer_started(pid_t pid) {
    struct strbuf line = {0};
    strbuf_addf(&line, "{\"event\":\"started\",\"pid\":%d}", (int)pid);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc;
}

static int prepare(struct start *s, struct err *e) {
    char *text;
    size_t len;
    if (read_job(s, e) < 0)
        return -1;
    if (net_listen(s->spec.address, 0, &s->listen_fd, &s->listen_port, e) < 0)
        return err_wrap(e, "agent's port on %s", s->spec.address);
    if (answer_listening(s) < 0)
        return err_set(e, ERR_NET, "cannot send the answer");
    if (node_read_record(&s->arena, NODE_ROSTER_WAIT_MS_MAX, &text, &len, e) < 0)
        return err_wrap(e, "roster");
    if (job_roster_parse(&s->arena, text, len, &s->roster, e) < 0)
        return -1;
    launch_init(&s->launch, &s->arena, s->env);
    if (launch_job(&s->launch, &s->spec, &s->roster, s->args.root, s->run_dir, s->listen_fd,
                   s->listen_port, e) < 0)
        return -1;
    if (s->args.again || s->args.join) // a group exists, or nothing is left to join
        s->launch.agent.leads = s->launch.agent.bootstrap_at_once = false;
    // Before the answer: a caller that asks for the run at once must not see it as lost.
    s->launch.agent.door_fd = control_listen(s->run_dir, e);
    return s->launch.agent.door_fd < 0 ? -1 : 0;
}

static int run_agent(struct start *s) {
    char role[300];
    struct err e;
    snprintf(role, sizeof role, "agent %.250s", s->spec.node);
    log_open(role, LOG_INFO, LOG_STAMPED);
    int status = agent_run(&s->launch.agent, &e);
    if (s->launch.agent.workers.sagemaker)
        sagemaker_close(s->launch.agent.workers.sagemaker);
    if (status < 0) {
        log_error("cannot run the agent", "reason=%s", e.text);
        return err_status(e.code);
    }
    return status;
}

int node_start(const struct node_call *c) {
    static struct start start; // lives as long as the agent
    struct start *s = &start;
    struct err e;
    s->listen_fd = -1;
    s->env = c->env;
    int rc = node_args(&s->arena, c, false, &s->args, &e);
    if (rc == 0)
        rc = prepare(s, &e);
    int log_fd = -1;
    if (rc == 0) {
        char *path = file_join(&s->arena, s->run_dir, "agent.log");
        log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        rc = log_fd < 0 ? err_errno(&e, ERR_SYS, "cannot write '%s'", path) : 0;
    }
    pid_t pid = rc == 0 ? proc_detach(log_fd, &e) : -1;
    if (pid == 0)
        return run_agent(s);
    if (pid < 0) {
        if (s->made_job) // so that the start can be repeated
            unlink(file_join(&s->arena, s->run_dir, "job.toml"));
        return node_fail(&e);
    }
    return answer_started(pid) < 0;
}
