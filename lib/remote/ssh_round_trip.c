// SPDX-License-Identifier: Apache-2.0
// The round-trip time to the far end as measured by the kernel, independent of the load of this
// process.
#include "remote/ssh_impl.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

int64_t ssh_distance_us(const struct ssh *s) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (s->fd < 0 || getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
        len < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt ||
        info.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return info.tcpi_min_rtt;
}
