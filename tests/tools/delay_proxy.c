// SPDX-License-Identifier: Apache-2.0
// Simulates a long cable for tests and benchmarks: a TCP relay that delivers every byte a fixed
// time after its arrival, in both directions.
//
//     delay_proxy LISTEN_PORT TARGET DELAY_MS [FLIP]
//
// Listens on 127.0.0.1 and runs until killed. TARGET is address:port. With FLIP it turns one bit
// over in the byte at that offset of what the target answers, once per connection. Prints "ready"
// when it listens. Data in transit is bounded per direction, far above what any window of the
// programs under test lets out.
#include "base/arena.h"
#include "base/clock.h"
#include "base/str.h"
#include "sys/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIPES_MAX = 128, PIECE_BYTES = 64 << 10, PIECES_MAX = 1024 };

struct piece {
    int64_t due_ns;
    size_t len, sent;
    char data[PIECE_BYTES];
};

// One direction.
struct cable {
    int from, to;
    struct piece *pieces[PIECES_MAX]; // ring
    size_t first, count;
    bool ended;
    int64_t flip; // bytes until the one that is damaged; -1: none
};

struct relay {
    struct cable way[2];
    bool used;
};

static struct relay relays[PIPES_MAX];

static void relay_close(struct relay *r) {
    close(r->way[0].from);
    close(r->way[0].to);
    for (int w = 0; w < 2; w++)
        for (; r->way[w].count; r->way[w].count--, r->way[w].first++)
            free(r->way[w].pieces[r->way[w].first % PIECES_MAX]);
    *r = (struct relay){0};
}

static void take(struct cable *c, int64_t delay_ns) {
    while (!c->ended && c->count < PIECES_MAX) {
        struct piece *p = malloc(sizeof *p);
        if (!p)
            err_out_of_memory(sizeof *p);
        ssize_t n = recv(c->from, p->data, sizeof p->data, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            free(p);
            return;
        }
        p->len = n > 0 ? (size_t)n : 0;
        if (c->flip >= 0 && c->flip < n)
            p->data[c->flip] ^= 4;
        c->flip = c->flip < n ? -1 : c->flip - n;
        p->sent = 0;
        p->due_ns = clock_mono_ns() + delay_ns;
        c->pieces[(c->first + c->count++) % PIECES_MAX] = p;
        c->ended = n <= 0;
    }
}

// False when the other side is gone.
static bool give(struct cable *c) {
    int64_t now_ns = clock_mono_ns();
    while (c->count && c->pieces[c->first % PIECES_MAX]->due_ns <= now_ns) {
        struct piece *p = c->pieces[c->first % PIECES_MAX];
        if (p->len == 0)
            shutdown(c->to, SHUT_WR);
        ssize_t n =
            p->len ? send(c->to, p->data + p->sent, p->len - p->sent, MSG_DONTWAIT | MSG_NOSIGNAL)
                   : 0;
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        p->sent += (size_t)n;
        if (p->sent < p->len)
            return true;
        free(p);
        c->first++;
        c->count--;
    }
    return true;
}

static void accept_one(int listener, const struct net_address *target, int64_t flip) {
    struct err e;
    struct net_address peer;
    int fd = net_accept(listener, &peer, &e), one = 1;
    if (fd < 0)
        return;
    int to = net_connect(target, 1000, &e);
    struct relay *r = relays;
    while (r < relays + PIPES_MAX && r->used)
        r++;
    if (to < 0 || r == relays + PIPES_MAX) {
        close(fd);
        if (to >= 0)
            close(to);
        return;
    }
    (void)setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    r->used = true;
    r->way[0] = (struct cable){.from = fd, .to = to, .flip = -1};
    r->way[1] = (struct cable){.from = to, .to = fd, .flip = flip};
}

// Descriptors to wait for; the earliest due time decides how long.
static nfds_t watch(struct pollfd *fds, int listener, int64_t *due_ns) {
    nfds_t n = 0;
    fds[n++] = (struct pollfd){.fd = listener, .events = POLLIN};
    *due_ns = INT64_MAX;
    for (struct relay *r = relays; r < relays + PIPES_MAX; r++)
        for (int w = 0; r->used && w < 2; w++) {
            struct cable *c = &r->way[w];
            int64_t due = c->count ? c->pieces[c->first % PIECES_MAX]->due_ns : INT64_MAX;
            bool late = due <= clock_mono_ns();
            if (!late && due < *due_ns)
                *due_ns = due;
            if (!c->ended && c->count < PIECES_MAX)
                fds[n++] = (struct pollfd){.fd = c->from, .events = POLLIN};
            if (late) // it was not taken just now: the far side is full
                fds[n++] = (struct pollfd){.fd = c->to, .events = POLLOUT};
        }
    return n;
}

static void serve(int listener, const struct net_address *target, int64_t delay_ns, int64_t flip) {
    static struct pollfd fds[4 * PIPES_MAX + 1];
    for (;;) {
        int64_t due_ns;
        nfds_t n = watch(fds, listener, &due_ns);
        int64_t wait_ns = due_ns == INT64_MAX ? 1000000000 : due_ns - clock_mono_ns();
        struct timespec t = {.tv_sec = wait_ns > 0 ? wait_ns / 1000000000 : 0,
                             .tv_nsec = wait_ns > 0 ? wait_ns % 1000000000 : 0};
        (void)ppoll(fds, n, &t, NULL);
        if (fds[0].revents)
            accept_one(listener, target, flip);
        for (struct relay *r = relays; r < relays + PIPES_MAX; r++) {
            if (!r->used)
                continue;
            take(&r->way[0], delay_ns);
            take(&r->way[1], delay_ns);
            if (!give(&r->way[0]) || !give(&r->way[1]) ||
                (r->way[0].ended && !r->way[0].count && r->way[1].ended && !r->way[1].count))
                relay_close(r);
        }
    }
}

int main(int argc, char **argv) {
    struct err e = {0};
    struct net_address target;
    char host[NET_HOST_BYTES_MAX];
    int64_t port, delay_ms, flip = -1;
    int listener, target_port, real_port;
    if (argc < 4 || argc > 5 || str_parse_i64(argv[1], 0, 65535, &port, &e) < 0 ||
        net_split(argv[2], 22, host, &target_port, &e) < 0 ||
        net_resolve(host, target_port, &target, &e) < 0 ||
        str_parse_i64(argv[3], 0, 60000, &delay_ms, &e) < 0 ||
        (argc == 5 && str_parse_i64(argv[4], 0, INT64_MAX, &flip, &e) < 0) ||
        net_listen("127.0.0.1", (int)port, &listener, &real_port, &e) < 0) {
        fprintf(stderr, "usage: delay_proxy LISTEN_PORT TARGET DELAY_MS [FLIP]: %s\n", e.text);
        return 2;
    }
    puts("ready");
    fflush(stdout);
    serve(listener, &target, delay_ms * 1000000, flip);
}
