// SPDX-License-Identifier: Apache-2.0
// Addresses, listening, connecting, blocking whole-buffer I/O.
#include "sys/net.h"

#include "base/clock.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int net_split(const char *text, int port_absent, char host[NET_HOST_BYTES_MAX], int *port,
              struct err *e) {
    const char *host_end, *port_text = NULL, *start = text;
    const char *colon = strchr(text, ':');
    if (text[0] == '[') {
        start = text + 1;
        host_end = strchr(start, ']');
        if (!host_end || (host_end[1] && host_end[1] != ':'))
            return err_set(e, ERR_FORMAT, "'%.200s': expected [address]:port", text);
        if (host_end[1])
            port_text = host_end + 2;
    } else if (colon && !strchr(colon + 1, ':')) {
        host_end = colon;
        port_text = colon + 1;
    } else { // no colon, or a bare IPv6 address
        host_end = text + strlen(text);
    }
    size_t len = (size_t)(host_end - start);
    if (len >= NET_HOST_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "host name of %zu bytes, limit %d", len,
                       NET_HOST_BYTES_MAX - 1);
    memcpy(host, start, len);
    host[len] = '\0';
    *port = port_absent;
    if (port_text) {
        int64_t v;
        if (str_parse_i64(port_text, 0, 65535, &v, e) < 0)
            return err_wrap(e, "port of '%.200s'", text);
        *port = (int)v;
    }
    return 0;
}

bool net_is_numeric(const char *host) {
    unsigned char buf[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, buf) == 1 || inet_pton(AF_INET6, host, buf) == 1;
}

int net_resolve_all(const char *host, int port, struct net_address *out, int max, struct err *e) {
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    int rc = getaddrinfo(host[0] ? host : "localhost", service, &hints, &list);
    if (rc != 0)
        return err_set(e, ERR_NET, "cannot resolve '%.200s': %s", host,
                       rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    int count = 0;
    for (struct addrinfo *i = list; i && count < max; i = i->ai_next, count++) {
        out[count] = (struct net_address){.len = i->ai_addrlen};
        memcpy(&out[count].ss, i->ai_addr, i->ai_addrlen);
    }
    freeaddrinfo(list);
    return count > 0 ? count : err_set(e, ERR_NET, "'%.200s' has no address", host);
}

int net_resolve(const char *host, int port, struct net_address *out, struct err *e) {
    return net_resolve_all(host, port, out, 1, e) < 0 ? -1 : 0;
}

static const struct sockaddr_in *as4(const struct net_address *a) {
    return (const struct sockaddr_in *)&a->ss;
}

static const struct sockaddr_in6 *as6(const struct net_address *a) {
    return (const struct sockaddr_in6 *)&a->ss;
}

// IPv4 address in host order, also for v4-mapped IPv6.
static bool ipv4_of(const struct net_address *a, uint32_t *out) {
    if (a->ss.ss_family == AF_INET) {
        *out = ntohl(as4(a)->sin_addr.s_addr);
        return true;
    }
    if (a->ss.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&as6(a)->sin6_addr)) {
        uint32_t v;
        memcpy(&v, &as6(a)->sin6_addr.s6_addr[12], 4);
        *out = ntohl(v);
        return true;
    }
    return false;
}

const char *net_format(const struct net_address *a, char out[NET_ADDRESS_BYTES_MAX]) {
    uint32_t v4;
    if (ipv4_of(a, &v4))
        snprintf(out, NET_ADDRESS_BYTES_MAX, "%u.%u.%u.%u", v4 >> 24, v4 >> 16 & 255, v4 >> 8 & 255,
                 v4 & 255);
    else if (a->ss.ss_family != AF_INET6 ||
             !inet_ntop(AF_INET6, &as6(a)->sin6_addr, out, NET_ADDRESS_BYTES_MAX))
        snprintf(out, NET_ADDRESS_BYTES_MAX, "?");
    return out;
}

int net_port(const struct net_address *a) {
    return ntohs(a->ss.ss_family == AF_INET ? as4(a)->sin_port : as6(a)->sin6_port);
}

bool net_same_host(const struct net_address *a, const struct net_address *b) {
    uint32_t x = 0, y = 0;
    bool a4 = ipv4_of(a, &x), b4 = ipv4_of(b, &y);
    if (a4 || b4)
        return a4 && b4 && x == y;
    return a->ss.ss_family == AF_INET6 && b->ss.ss_family == AF_INET6 &&
           memcmp(&as6(a)->sin6_addr, &as6(b)->sin6_addr, 16) == 0;
}

bool net_is_loopback(const struct net_address *a) {
    uint32_t v4;
    if (ipv4_of(a, &v4))
        return v4 >> 24 == 127;
    return a->ss.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&as6(a)->sin6_addr);
}

static bool is_loopback(const char *numeric) {
    struct net_address a;
    struct err e;
    return net_resolve(numeric, 0, &a, &e) == 0 && net_is_loopback(&a);
}

const char *net_sent_address(const char *address, const char *from) {
    bool both = net_is_numeric(address) && net_is_numeric(from);
    return both && is_loopback(address) && !is_loopback(from) ? from : address;
}

// ---- sockets ------------------------------------------------------------------------------------

static void set_flag(int fd, int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value); // advisory: failure changes speed only
}

static int listen_on(const struct net_address *a, struct err *e) {
    int fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket");
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (a->ss.ss_family == AF_INET6)
        set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(fd, (const struct sockaddr *)&a->ss, a->len) < 0 || listen(fd, 4096) < 0) {
        char text[NET_ADDRESS_BYTES_MAX];
        err_errno(e, errno == EADDRINUSE ? ERR_BUSY : ERR_NET, "cannot listen on %s port %d",
                  net_format(a, text), net_port(a));
        close(fd);
        return -1;
    }
    return fd;
}

int net_listen(const char *host, int port, int *fd_out, int *port_out, struct err *e) {
    struct net_address a = {0};
    int fd;
    if (host && host[0]) {
        if (net_resolve(host, port, &a, e) < 0)
            return -1;
        fd = listen_on(&a, e);
    } else {
        struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
        memcpy(&a.ss, &any6, a.len = sizeof any6);
        fd = listen_on(&a, e);
        if (fd < 0 && e->code != ERR_BUSY) { // a host without IPv6
            struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
            a = (struct net_address){0};
            memcpy(&a.ss, &any4, a.len = sizeof any4);
            fd = listen_on(&a, e);
        }
    }
    if (fd < 0)
        return -1;
    a.len = sizeof a.ss;
    if (getsockname(fd, (struct sockaddr *)&a.ss, &a.len) < 0) {
        err_errno(e, ERR_SYS, "getsockname");
        close(fd);
        return -1;
    }
    *fd_out = fd;
    *port_out = net_port(&a);
    return 0;
}

int net_accept(int listen_fd, struct net_address *peer, struct err *e) {
    peer->len = sizeof peer->ss;
    int fd =
        accept4(listen_fd, (struct sockaddr *)&peer->ss, &peer->len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        err_clear(e);
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            err_errno(e, ERR_SYS, "cannot accept a connection");
        return -1;
    }
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    return fd;
}

void net_retry_evenly(int fd) {
    set_flag(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
}

int net_connect_start(const struct net_address *to, struct err *e) {
    int fd = socket(to->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket");
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (connect(fd, (const struct sockaddr *)&to->ss, to->len) < 0 && errno != EINPROGRESS) {
        char text[NET_ADDRESS_BYTES_MAX];
        int error = errno;
        err_set(e, ERR_NET, "cannot connect to %s port %d: %s", net_format(to, text), net_port(to),
                net_why(error));
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

// Waits for readiness until the deadline (monotonic ms, -1 none): 1 ready, 0 deadline passed.
static int wait_fd(int fd, short events, int64_t deadline_ms) {
    for (;;) {
        int64_t left = deadline_ms < 0 ? -1 : deadline_ms - clock_mono_ms();
        if (deadline_ms >= 0 && left <= 0)
            left = 0;
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, (int)left);
        if (n > 0)
            return 1;
        if (n == 0)
            return 0;
        must(errno == EINTR);
    }
}

static int64_t deadline(int timeout_ms) {
    return timeout_ms < 0 ? -1 : clock_mono_ms() + timeout_ms;
}

int net_connect(const struct net_address *to, int timeout_ms, struct err *e) {
    char text[NET_ADDRESS_BYTES_MAX];
    int fd = net_connect_start(to, e);
    if (fd < 0)
        return -1;
    int error = ETIMEDOUT;
    socklen_t len = sizeof error;
    if (wait_fd(fd, POLLOUT, deadline(timeout_ms)))
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error) {
        err_set(e, error == ETIMEDOUT ? ERR_TIMEOUT : ERR_NET, "cannot connect to %s port %d: %s",
                net_format(to, text), net_port(to), net_why(error));
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

int net_send_all(int fd, const void *p, size_t len, int timeout_ms, struct err *e) {
    int64_t end = deadline(timeout_ms);
    const char *c = p;
    while (len) {
        ssize_t n = send(fd, c, len, MSG_NOSIGNAL | (timeout_ms >= 0 ? MSG_DONTWAIT : 0));
        if (n < 0 && errno == EAGAIN && wait_fd(fd, POLLOUT, end))
            continue;
        if (err_interrupted(n))
            continue;
        if (n < 0 && errno == EAGAIN)
            return err_set(e, ERR_TIMEOUT, "cannot send: no progress within %d ms", timeout_ms);
        if (n < 0)
            return err_errno(e, ERR_NET, "cannot send");
        c += n;
        len -= (size_t)n;
    }
    return 0;
}

int net_recv_all(int fd, void *p, size_t len, int timeout_ms, struct err *e) {
    int64_t end = deadline(timeout_ms);
    char *c = p;
    while (len) {
        ssize_t n = recv(fd, c, len, timeout_ms >= 0 ? MSG_DONTWAIT : 0);
        if (n < 0 && errno == EAGAIN && wait_fd(fd, POLLIN, end))
            continue;
        if (err_interrupted(n))
            continue;
        if (n < 0 && errno == EAGAIN)
            return err_set(e, ERR_TIMEOUT, "no answer within %d ms", timeout_ms);
        if (n < 0)
            return err_errno(e, ERR_NET, "cannot receive");
        if (n == 0)
            return err_set(e, ERR_NET, "the peer closed the connection");
        c += n;
        len -= (size_t)n;
    }
    return 0;
}
