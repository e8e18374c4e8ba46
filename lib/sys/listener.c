// SPDX-License-Identifier: Apache-2.0
// Accepts connections, with a pause when descriptors run out.
#include "sys/listener.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

// False: nothing can be accepted now.
static bool shed(struct listener *l, const char *why) {
    struct net_address peer;
    struct err e;
    if (log_admits(&l->full))
        log_warn("connections cannot be accepted", "for=%s reason=%s (ulimit -n)", l->name, why);
    close(l->spare_fd);
    int fd = net_accept(l->watch.fd, &peer, &e);
    if (fd >= 0)
        close(fd);
    l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void on_listen(struct watch *w, unsigned events) {
    struct listener *l = container_of(w, struct listener, watch);
    (void)events;
    for (int i = 0; i < LISTENER_BATCH_MAX && w->loop; i++) {
        struct net_address peer;
        struct err e = {0};
        int fd = net_accept(w->fd, &peer, &e);
        if (fd >= 0)
            l->on_accept(l, fd, &peer);
        else if (e.code == ERR_NONE || !shed(l, e.text))
            return;
    }
}

int listener_open(struct listener *l, struct loop *loop, int fd, const char *name,
                  listener_cb *on_accept, struct err *e) {
    *l = (struct listener){.on_accept = on_accept, .name = name, .spare_fd = -1};
    if (watch_start(loop, &l->watch, fd, LOOP_READ, on_listen, e) < 0) {
        close(fd);
        return -1;
    }
    l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return 0;
}

void listener_close(struct listener *l) {
    if (!l->watch.loop)
        return;
    int fd = l->watch.fd;
    watch_stop(&l->watch);
    close(fd);
    close(l->spare_fd);
}

int listener_wait(int listen_fd, int64_t deadline_ms, struct net_address *peer, struct err *e) {
    for (;;) {
        struct pollfd p = {.fd = listen_fd, .events = POLLIN};
        int64_t left = deadline_ms - clock_mono_ms();
        if (left <= 0)
            return err_set(e, ERR_TIMEOUT, "no connection came in time");
        int n = poll(&p, 1, left > INT32_MAX ? INT32_MAX : (int)left);
        if (n < 0 && errno != EINTR)
            return err_errno(e, ERR_SYS, "cannot wait for a connection");
        if (n <= 0)
            continue;
        int fd = net_accept(listen_fd, peer, e);
        if (fd >= 0 || e->code != ERR_NONE)
            return fd;
    }
}
