// SPDX-License-Identifier: Apache-2.0
// The I/O functions of libssh2: buffers in front of the socket, or of the channel of a jump host
// (see ssh_impl.h), and the marks between the output of login scripts and of a command.
#include "base/clock.h"
#include "base/hash.h"
#include "remote/ssh_impl.h"

#include <errno.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// ---- the agent's socket: libssh2 uses the same two functions for it
// ------------------------------

static ssize_t agent_send(int fd, const void *p, size_t len) {
    ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

static ssize_t agent_receive(int fd, void *p, size_t len) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (poll(&wait, 1, SSH_AGENT_ANSWER_MS_MAX) <= 0)
        return -ETIMEDOUT;
    ssize_t n = recv(fd, p, len, 0);
    return n < 0 ? -errno : n;
}

// ---- bytes ------------------------------------------------------------------------------------

// The number by which libssh2 knows the stream; a session through a jump host has no socket.
int ssh_bytes_fd(const struct ssh *s) {
    return s->tunnel ? INT_MAX : s->fd;
}

static ssize_t take_bytes(libssh2_socket_t fd, const void *p, size_t len, int flags, void **ctx) {
    struct ssh *s = *ctx;
    (void)flags;
    if (fd != ssh_bytes_fd(s))
        return agent_send(fd, p, len);
    if (s->state == SSH_DOWN)
        return -EPIPE;
    if (s->out_start == s->out_len)
        s->out_start = s->out_len = 0;
    if (s->out_start && s->out_len + len > s->out_room) {
        memmove(s->out, s->out + s->out_start, s->out_len - s->out_start);
        s->out_len -= s->out_start;
        s->out_start = 0;
    }
    if (s->out_len + len > s->out_room) {
        s->out_room = s->out_len + len + 2 * (size_t)SSH_OUT_BYTES_MAX;
        s->out = heap_realloc(s->out, s->out_room);
    }
    memcpy(s->out + s->out_len, p, len);
    s->out_len += len;
    return (ssize_t)len;
}

// Reads from the far end; 0 at the end, or -errno.
static ssize_t receive(struct ssh *s, void *p, size_t len) {
    ssize_t n;
    if (s->far_end_closed)
        return 0;
    if (s->tunnel)
        n = ssh_tunnel_read(s->tunnel, p, len);
    else if ((n = recv(s->fd, p, len, 0)) < 0)
        n = -errno;
    if (n > 0) {
        s->heard_ms = clock_mono_ms();
    } else if (n == 0) {
        s->far_end_closed = true;
    } else if (n == -EINTR || n == -EWOULDBLOCK) {
        n = -EAGAIN;
    } else if (n != -EAGAIN) {
        s->far_end_closed = true;
        s->io_error = (int)-n;
    }
    return n;
}

static ssize_t give_bytes(libssh2_socket_t fd, void *p, size_t len, int flags, void **ctx) {
    struct ssh *s = *ctx;
    (void)flags;
    if (fd != ssh_bytes_fd(s))
        return agent_receive(fd, p, len);
    if (s->state == SSH_DOWN)
        return 0;
    size_t left = s->in_len - s->in_start;
    ssize_t n;
    if (left == 0) {
        n = receive(s, p, len);
    } else {
        n = (ssize_t)(len < left ? len : left);
        memcpy(p, s->in + s->in_start, (size_t)n);
        s->in_start += (size_t)n;
    }
    s->taken += n > 0 ? (uint64_t)n : 0;
    return n;
}

// libssh2 reads the socket only for a channel. Without a reading channel, this function still reads
// the answers to keepalives and notices the end of the connection.
void ssh_bytes_take_idle(struct ssh *s) {
    if (!s->in)
        s->in = heap_alloc(SSH_IN_BYTES_MAX);
    if (s->in_start == s->in_len)
        s->in_start = s->in_len = 0;
    if (s->in_len < SSH_IN_BYTES_MAX) {
        ssize_t n = receive(s, s->in + s->in_len, SSH_IN_BYTES_MAX - s->in_len);
        s->in_len += n > 0 ? (size_t)n : 0;
    }
}

void ssh_bytes_flush(struct ssh *s) {
    while (s->out_start < s->out_len && !s->io_error) {
        const char *p = s->out + s->out_start;
        size_t len = s->out_len - s->out_start;
        ssize_t n;
        if (s->tunnel)
            n = ssh_tunnel_write(s->tunnel, p, len);
        else if ((n = send(s->fd, p, len, MSG_NOSIGNAL)) < 0)
            n = -errno;
        if (n > 0)
            s->out_start += (size_t)n;
        else if (n == -EAGAIN || n == 0)
            break;
        else if (n != -EINTR)
            s->io_error = (int)-n;
    }
    if (s->watch.loop)
        watch_modify(&s->watch, (s->in_len < SSH_IN_BYTES_MAX ? LOOP_READ : 0) |
                                    (s->out_start < s->out_len ? LOOP_WRITE : 0));
}

// Of hundreds of sessions only a few send at any time.
void ssh_bytes_trim(struct ssh *s) {
    if (s->in_start == s->in_len) {
        free(s->in);
        s->in = NULL;
        s->in_start = s->in_len = 0;
    }
    if (s->out_start < s->out_len)
        return;
    free(s->out);
    s->out = NULL;
    s->out_start = s->out_len = s->out_room = 0;
}

bool ssh_has_room(const struct ssh *s) {
    return s->out_len - s->out_start < SSH_OUT_BYTES_MAX;
}

void ssh_bytes_attach(struct ssh *s) {
#if LIBSSH2_VERSION_NUM >= 0x010b01
    libssh2_session_callback_set2(s->session, LIBSSH2_CALLBACK_SEND,
                                  (libssh2_cb_generic *)take_bytes);
    libssh2_session_callback_set2(s->session, LIBSSH2_CALLBACK_RECV,
                                  (libssh2_cb_generic *)give_bytes);
#else
    libssh2_session_callback_set(s->session, LIBSSH2_CALLBACK_SEND, (void *)take_bytes);
    libssh2_session_callback_set(s->session, LIBSSH2_CALLBACK_RECV, (void *)give_bytes);
#endif
}

// The round-trip time to the far end as measured by the kernel, independent of the load of this
// process.
int64_t ssh_distance_us(const struct ssh *s) {
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (s->fd < 0 || getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
        len < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt ||
        info.tcpi_min_rtt == UINT32_MAX)
        return 0;
    return info.tcpi_min_rtt;
}

// ---- the begin of a command's output, behind that of login scripts ------------------------------

const char *ssh_mark_text(void) {
    static char mark[SSH_MARK_BYTES];
    unsigned char random[8];
    char hex[2 * sizeof random + 1];
    if (*mark)
        return mark;
    hash_random(random, sizeof random);
    str_hex(hex, random, sizeof random);
    snprintf(mark, sizeof mark, "dtctl-%s", hex);
    return mark;
}

char *ssh_mark_line(const char *line) {
    struct strbuf b = {0};
    strbuf_addf(&b, "echo %s; %s", ssh_mark_text(), line); // the same in every shell
    char *copy = heap_strdup(strbuf_cstr(&b));
    strbuf_fini(&b);
    return copy;
}

int ssh_mark_take(struct ssh_early *m, const char **p, size_t *len) {
    const char *mark = ssh_mark_text();
    size_t mark_len = strlen(mark), before = m->text.len;
    if (m->over)
        return 1;
    size_t from = before > mark_len ? before - mark_len : 0;
    strbuf_add(&m->text, *p, *len);
    const char *data = m->text.data + from;
    const char *hit = memmem(data, m->text.len - from, mark, mark_len);
    const char *end = hit ? hit + mark_len : NULL, *all = m->text.data + m->text.len;
    if (end && end < all && *end == '\n') {
        size_t left = (size_t)(all - end) - 1;
        m->over = true;
        *p += *len - left;
        *len = left;
        return 1;
    }
    return m->text.len > SSH_EARLY_BYTES_MAX ? -1 : 0;
}
