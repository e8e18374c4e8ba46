// SPDX-License-Identifier: Apache-2.0
// The keeper's process: orders of the agent, intervals, and the process that publishes.
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "copies/keeper_impl.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "sys/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NICE = 10 };

static void on_next(struct timer *t);

void keeper_send_note(const struct keeper_state *s, const struct wire_msg *note) {
    struct strbuf text = {0};
    frame_put(&text, note, NULL);
    if (send(s->fd, text.data, text.len, MSG_NOSIGNAL) < 0)
        _exit(1); // the agent is gone
    strbuf_fini(&text);
}

bool keeper_is_name(const char *name) {
    return file_is_safe_relative(name, strlen(name)) && !strchr(name, '/');
}

// ---- publishing ---------------------------------------------------------------------------------

static void schedule_next(struct keeper_state *s, int64_t ms) {
    timer_start(s->loop, &s->next, ms, on_next);
}

static void on_published(struct child *c, int status) {
    struct keeper_state *s = container_of(c, struct keeper_state, publisher);
    int what = proc_status_code(status);
    s->publishing = false;
    if (what == KEEPER_NEW || what == KEEPER_SAME) {
        s->whole_ms = clock_mono_ms();
        s->warned = false;
        schedule_next(s, s->spec->every_ms);
        if (s->task == TASK_NONE)
            keeper_send(s);
        return;
    }
    s->warned |= what == KEEPER_NOT_WHOLE && s->warns;
    schedule_next(s, what == KEEPER_NOT_WHOLE && s->spec->every_ms > KEEPER_BUSY_MS
                         ? KEEPER_BUSY_MS
                         : s->spec->every_ms);
}

static void publish(struct keeper_state *s) {
    struct err e;
    int64_t late_ms = clock_mono_ms() - s->whole_ms;
    s->warns = !s->warned && late_ms > KEEPER_LATE * s->spec->every_ms;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(keeper_publish(s->spec, s->own, s->warns ? late_ms : 0));
    }
    if (pid > 0 && child_start(s->loop, &s->publisher, pid, on_published, &e) == 0)
        s->publishing = true;
    else
        schedule_next(s, s->spec->every_ms);
}

// Not while a state is on its way back: the folder of generations has one writer.
static void on_next(struct timer *t) {
    struct keeper_state *s = container_of(t, struct keeper_state, next);
    if (s->task == TASK_FIND || s->task == TASK_RESTORE)
        schedule_next(s, KEEPER_BUSY_MS);
    else if (!s->publishing)
        publish(s);
}

// ---- orders -------------------------------------------------------------------------------------

static void mark_here(struct keeper_state *s) {
    struct err e;
    const char *mark = file_join(&s->arena, s->own, "here");
    if (!file_exists(mark) &&
        (file_make_dirs(s->own, 0700, &e) < 0 || file_write_atomic(mark, "", 0, 0600, &e) < 0))
        log_warn("cannot mark the state of this node", "reason=\"%s\"", e.text);
}

void keeper_ready(struct keeper_state *s, const char *why) {
    struct wire_msg m = {
        .type = WIRE_STATE_NOTE, .kind = KEEPER_READY, .number = s->round, .reason = why};
    mark_here(s);
    keeper_send_note(s, &m);
    if (!s->next.loop && !s->publishing)
        schedule_next(s, s->spec->every_ms);
    keeper_send(s);
}

static void take_ring(struct keeper_state *s, const struct wire_msg *m) {
    arena_reset(&s->ring_arena);
    s->count = 0;
    for (int64_t i = 0; i < m->node_count && s->count < REPLICA_PEERS_MAX; i++)
        s->ring[s->count++] =
            (struct holder){.name = arena_strdup(&s->ring_arena, m->nodes[i].name),
                            .address = arena_strdup(&s->ring_arena, m->nodes[i].address),
                            .port = (int)m->nodes[i].port};
    s->round = m->round;
    s->rank = (int)m->group_rank;
    s->nodes = (int)m->group_world;
    s->states = s->count < REPLICA_RING_MAX ? s->count : REPLICA_RING_MAX;
    s->states = s->states < s->nodes - 1 ? s->states : s->nodes - 1;
    s->heir_of = arena_strdup(&s->ring_arena, m->name);
    keeper_stop(s);
    if (s->spec->input_count)
        keeper_deal(s);
    if (s->spec->replicas == 0)
        return;
    bool here = file_exists(file_join(&s->arena, s->own, "here"));
    if (here || s->round == 0)
        keeper_ready(s, "");
    else
        keeper_search(s);
}

static void take_order(struct keeper_state *s, const char *p, size_t len) {
    struct arena a = {0};
    struct wire_msg m;
    struct err e;
    size_t used;
    if (frame_take(&a, p, len, KEEPER_ORDER_BYTES_MAX, &m, &used, NULL, &e) == 1 &&
        m.type == WIRE_COPIES && m.group_world > 0 && m.group_world <= JOB_NODES_MAX &&
        m.group_rank >= 0 && m.group_rank < m.group_world)
        take_ring(s, &m);
    arena_fini(&a);
}

static void on_order(struct watch *w, unsigned events) {
    struct keeper_state *s = container_of(w, struct keeper_state, orders);
    static char text[KEEPER_ORDER_BYTES_MAX];
    char room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {text, sizeof text};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    (void)events;
    ssize_t n = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (err_not_yet(n))
        return;
    if (n <= 0)
        _exit(0); // the agent has ended; a publisher ends with this process
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    if (fd >= 0)
        keeper_accept(s, fd);
    else
        take_order(s, text, (size_t)n);
}

// ---- the process --------------------------------------------------------------------------------

// The agent's port must close with the agent: a refused connection proves that it is dead.
void keeper_close_others(int kept) {
    int fds[1024], count;
    do {
        struct file_entries in = file_entries_open("/proc/self/fd");
        count = 0;
        while (count < 1024 && file_entries_next(&in)) {
            int64_t fd = -1;
            struct err ignored;
            if (str_parse_i64(in.name, STDERR_FILENO + 1, INT32_MAX, &fd, &ignored) == 0 &&
                fd != kept && fd != in.fd)
                fds[count++] = (int)fd;
        }
        (void)file_entries_close(&in, 0, NULL);
        for (int i = 0; i < count; i++)
            close(fds[i]);
    } while (count == 1024);
}

static void become_keeper(int fd) {
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "dtrun-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    log_sink(NULL); // the agent's threads are not here
    keeper_close_others(fd);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int signal = 1; signal < SIGSYS; signal++)
        sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    static const int ignored[] = {SIGPIPE, SIGIO, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) // they are for the agent
        sigaction(ignored[i], &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    setpriority(PRIO_PROCESS, 0, NICE);
}

_Noreturn void keeper_main(const struct keeper_spec *spec, int fd) {
    static struct keeper_state state; // the fork's own copy
    struct keeper_state *s = &state;
    struct err e;
    become_keeper(fd);
    *s = (struct keeper_state){.spec = spec, .fd = fd, .whole_ms = clock_mono_ms()};
    s->own = file_join(&s->arena, spec->run_dir, "generations");
    s->copies = file_join(&s->arena, spec->run_dir, "copies");
    s->loop = loop_open(&e);
    if (!s->loop || watch_start(s->loop, &s->orders, fd, LOOP_READ, on_order, &e) < 0) {
        log_error("cannot keep copies of states", "reason=\"%s\"", e.text);
        _exit(1);
    }
    for (;;)
        loop_run(s->loop);
}
