// SPDX-License-Identifier: Apache-2.0
// Connections that bring new addresses: each has a place, and one more takes that of the oldest.
#include "stream/stream_server_impl.h"
#include "tests/tap.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS = 8 };
static struct stream_server server;
static int peers[PEERS], count;

// No connection sends a line here, so the server is not asked.
struct stream_object *stream_server_named(struct stream_server *s, const char *input,
                                          const char *path) {
    (void)s, (void)input, (void)path;
    return NULL;
}
void stream_server_event(struct stream_server *s, const char *what, const char *input,
                         const char *text) {
    (void)s, (void)what, (void)input, (void)text;
}
void stream_server_ends(struct stream_server *s, const char *input, int64_t left_ms) {
    (void)s, (void)input, (void)left_ms;
}

static void connect_one(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        bail_out("no sockets");
    peers[count++] = pair[0];
    stream_renew_accept(&server, pair[1]);
}

static bool is_served(int n) {
    char byte;
    return recv(peers[n], &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

// The digits of the connections that are served, in their order.
static const char *served(void) {
    static char text[PEERS + 1];
    char *to = text;
    for (int n = 0; n < count; n++)
        if (is_served(n))
            *to++ = (char)('1' + n);
    *to = '\0';
    return text;
}

int main(void) {
    struct err e;
    server.loop = loop_open(&e);
    if (!server.loop)
        bail_out("%s", e.text);
    for (int n = 0; n < STREAM_RENEW_CONNS_MAX; n++)
        connect_one();
    is_str(served(), "1234", "four connections are served");
    connect_one();
    is_str(served(), "2345", "the fifth takes the place of the first");
    connect_one();
    is_str(served(), "3456", "the sixth takes the place of the second, which is the oldest then");
    conn_close(&server.renew.conns[3].conn); // the fourth
    is_str(served(), "356", "the fourth has ended");
    connect_one();
    is_str(served(), "3567", "the seventh takes the place that is free");
    conn_close(&server.renew.conns[0].conn); // the fifth
    connect_one();
    is_str(served(), "3678", "the eighth takes the first place, which is free");
    for (size_t i = 0; i < STREAM_RENEW_CONNS_MAX; i++)
        conn_close(&server.renew.conns[i].conn);
    is_str(served(), "", "no connection is served at the end");
    for (int n = 0; n < count; n++)
        close(peers[n]);
    loop_close(server.loop);
    return done_testing();
}
