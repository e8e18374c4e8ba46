// SPDX-License-Identifier: Apache-2.0
// The agent's side of the keeper: starts it, passes orders and connections on, starts it again when
// it was killed. It is no child of the loop: the end of a killed guard reaps all children.
#include "copies/keeper.h"

#include "base/log.h"
#include "copies/keeper_impl.h"
#include "sys/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_socket(struct watch *w, unsigned events);

// The order as one message of the socket pair; fd: passed along, or -1.
static bool order(const struct keeper *k, const void *p, size_t len, int fd) {
    char room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {(void *)p, len};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = room;
        m.msg_controllen = sizeof room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return k->fd >= 0 && sendmsg(k->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

static void send_ring(struct keeper *k) {
    if (k->ring.len && !order(k, k->ring.data, k->ring.len, -1))
        log_warn("an order to the keeper of states was lost", "errno=%d", errno);
}

static int start(struct keeper *k, struct err *e) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket pair");
    k->pid = fork();
    if (k->pid == 0)
        keeper_main(k->spec, pair[1]);
    close(pair[1]);
    k->fd = pair[0];
    if (k->pid > 0 && watch_start(k->loop, &k->watch, k->fd, LOOP_READ, on_socket, e) == 0) {
        send_ring(k);
        return 0;
    }
    if (k->pid < 0)
        err_errno(e, ERR_SYS, "cannot start the keeper of states");
    close(k->fd);
    k->fd = -1;
    return -1;
}

static void on_again(struct timer *t) {
    struct keeper *k = container_of(t, struct keeper, again);
    struct err e;
    if (start(k, &e) == 0)
        return;
    log_warn("states are not copied to other nodes", "reason=\"%s\"", e.text);
    timer_start(k->loop, &k->again, KEEPER_AGAIN_MS, on_again);
}

static void on_gone(struct keeper *k) {
    watch_stop(&k->watch);
    close(k->fd);
    k->fd = -1;
    waitpid(k->pid, NULL, 0); // it has closed its end, so it is dead or about to be
    log_warn("the keeper of states has ended; another one is started", "pid=%d", (int)k->pid);
    timer_start(k->loop, &k->again, KEEPER_AGAIN_MS, on_again);
}

static void on_socket(struct watch *w, unsigned events) {
    struct keeper *k = container_of(w, struct keeper, watch);
    static char text[KEEPER_ORDER_BYTES_MAX];
    (void)events;
    for (;;) {
        ssize_t n = recv(k->fd, text, sizeof text, MSG_DONTWAIT);
        if (err_not_yet(n))
            return;
        if (n <= 0) {
            on_gone(k);
            return;
        }
        struct arena a = {0};
        struct wire_msg m;
        struct err e;
        size_t used;
        bool good = frame_take(&a, text, (size_t)n, sizeof text, &m, &used, NULL, &e) == 1 &&
                    m.type == WIRE_STATE_NOTE;
        if (good)
            k->on_note(k, &m);
        arena_fini(&a);
        if (!k->loop)
            return;
    }
}

int keeper_open(struct keeper *k, struct loop *loop, const struct keeper_spec *spec,
                keeper_noted *on_note, struct err *e) {
    *k = (struct keeper){.loop = loop, .spec = spec, .on_note = on_note, .fd = -1, .ctx = k->ctx};
    if (start(k, e) == 0)
        return 0;
    k->loop = NULL;
    return -1;
}

void keeper_close(struct keeper *k) {
    if (!k->loop)
        return;
    k->loop = NULL;
    watch_stop(&k->watch);
    timer_stop(&k->again);
    if (k->fd >= 0)
        close(k->fd); // which ends it
    strbuf_fini(&k->ring);
}

void keeper_ring(struct keeper *k, const struct wire_msg *m) {
    if (!k->loop)
        return;
    strbuf_clear(&k->ring);
    frame_put(&k->ring, m, NULL);
    if (k->fd >= 0)
        send_ring(k);
}

void keeper_adopt(struct keeper *k, int fd) {
    if (k->loop)
        order(k, "", 1, fd); // one that finds no room is closed, and its sender tries again
    close(fd);
}

bool keeper_is_needed(const struct keeper *k, int round) {
    char path[FILE_PATH_BYTES_MAX];
    if (!k->loop || round == 0 || k->spec->replicas == 0)
        return false;
    snprintf(path, sizeof path, "%s/generations/here", k->spec->run_dir);
    return !file_exists(path);
}
