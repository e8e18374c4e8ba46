// SPDX-License-Identifier: Apache-2.0
// The local host: routes, interfaces, unix sockets, texts for errors.
#include "sys/net.h"

#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

int net_route_source(const struct net_address *to, struct net_address *local, struct err *e) {
    // Connecting a datagram socket sends nothing and makes the kernel choose the source address.
    int fd = socket(to->ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket");
    local->len = sizeof local->ss;
    int rc = 0;
    if (connect(fd, (const struct sockaddr *)&to->ss, to->len) < 0 ||
        getsockname(fd, (struct sockaddr *)&local->ss, &local->len) < 0) {
        char text[NET_ADDRESS_BYTES_MAX];
        rc = err_errno(e, ERR_NET, "no route to %s", net_format(to, text));
    }
    close(fd);
    return rc;
}

// Finds the interface that owns `local`; out may be NULL. false when none does.
static bool find_interface(const struct net_address *local, char out[NET_IFNAME_BYTES_MAX]) {
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) < 0)
        return false;
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
        if (!i->ifa_addr)
            continue;
        int family = i->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6)
            continue;
        struct net_address a = {0};
        a.len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        memcpy(&a.ss, i->ifa_addr, a.len);
        // All of 127/8 belongs to the loopback interface, although only one address is listed.
        found = net_same_host(&a, local) ||
                ((i->ifa_flags & IFF_LOOPBACK) && family == AF_INET && net_is_loopback(local));
        if (found && out)
            snprintf(out, NET_IFNAME_BYTES_MAX, "%s", i->ifa_name);
    }
    freeifaddrs(list);
    return found;
}

int net_interface_of(const struct net_address *local, char ifname[NET_IFNAME_BYTES_MAX],
                     struct err *e) {
    char text[NET_ADDRESS_BYTES_MAX];
    if (!find_interface(local, ifname))
        return err_set(e, ERR_NOT_FOUND, "no interface has the address %s",
                       net_format(local, text));
    return 0;
}

bool net_address_is_local(const struct net_address *a) {
    return find_interface(a, NULL);
}

// A path that does not fit is named by its folder, which *dir then holds open.
static int unix_address(const char *path, struct sockaddr_un *un, int *dir, struct err *e) {
    struct arena a = {0};
    int rc = 0;
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    *dir = -1;
    if (strlen(path) < sizeof un->sun_path) {
        memcpy(un->sun_path, path, strlen(path));
        return 0;
    }
    *dir = open(file_dir(&a, path), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0)
        rc = err_errno(e, ERR_NOT_FOUND, "no folder of the socket '%s'", path);
    else if ((size_t)snprintf(un->sun_path, sizeof un->sun_path, "/proc/self/fd/%d/%s", *dir,
                              file_base(path)) >= sizeof un->sun_path)
        rc = err_set(e, ERR_LIMIT, "socket name '%.200s' is longer than 80 bytes", file_base(path));
    arena_fini(&a);
    return rc;
}

// A listener that takes no connections has room for some; the next connect waits. 0: for ever.
static int set_send_limit(int fd, int wait_ms) {
    struct timeval limit = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

int net_unix_connect(const char *path, struct err *e) {
    return net_unix_connect_within(path, 0, e);
}

int net_unix_connect_within(const char *path, int wait_ms, struct err *e) {
    struct sockaddr_un un;
    auto_close int dir = -1;
    if (unix_address(path, &un, &dir, e) < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket");
    if (set_send_limit(fd, wait_ms) < 0 || connect(fd, (struct sockaddr *)&un, sizeof un) < 0 ||
        set_send_limit(fd, 0) < 0) {
        err_errno(e, errno == EAGAIN ? ERR_TIMEOUT : ERR_NET, "cannot connect to '%s'", path);
        close(fd);
        return -1;
    }
    return fd;
}

int net_unix_listen(const char *path, struct err *e) {
    struct sockaddr_un un;
    auto_close int dir = -1;
    if (unix_address(path, &un, &dir, e) < 0)
        return -1;
    struct err ignored;
    int probe = net_unix_connect(path, &ignored);
    if (probe >= 0) {
        close(probe);
        return err_set(e, ERR_BUSY, "another process listens on '%s'", path);
    }
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot create a socket");
    mode_t before = umask(0177);
    int rc = bind(fd, (struct sockaddr *)&un, sizeof un);
    int saved = errno;
    umask(before);
    errno = saved;
    if (rc < 0 || listen(fd, 128) < 0) {
        err_errno(e, ERR_SYS, "cannot listen on '%s'", path);
        close(fd);
        return -1;
    }
    return fd;
}

const char *net_why(int error) {
    static const struct {
        int error;
        const char *why;
    } words[] = {
        {ECONNREFUSED, "refused (nothing listens there)"},
        {ETIMEDOUT, "no answer (filtered, or the host is down)"},
        {EHOSTUNREACH, "host unreachable"},
        {ENETUNREACH, "no route to that network"},
        {ECONNRESET, "reset by the peer"},
        {EACCES, "not permitted (local firewall)"},
        {EPERM, "not permitted (local firewall)"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].error == error)
            return words[i].why;
    return strerror(error);
}
