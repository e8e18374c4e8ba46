// SPDX-License-Identifier: Apache-2.0
// Two nodes of a chain on loopback: who has the key, who has not, and who stops.
#include "base/clock.h"
#include "base/hash.h"
#include "sys/net.h"
#include "tests/tap.h"
#include "xfer/xfer_relay.h"

#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct xfer_relay_peer here = {.address = "127.0.0.1"};

static void wait_readable(const struct relay *r) {
    struct pollfd p = {.fd = xfer_relay_fd(r), .events = POLLIN};
    if (poll(&p, 1, 10000) != 1)
        bail_out("nothing comes");
}

static pid_t begin(void) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bail_out("fork");
    return pid;
}

static int ended(pid_t pid) {
    int status = -1;
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A peer without the key, then the node before, which sends two frames.
static void test_frames(void) {
    struct relay r = RELAY_CLOSED;
    struct err e = {0};
    int port = 0;
    is_int(xfer_relay_listen(&r, &here, &port, &e), 0, "a node listens for the node before it");
    struct xfer_relay_peer to = here;
    to.port = (uint32_t)port;
    pid_t stranger = begin();
    if (stranger == 0) {
        struct relay s = RELAY_CLOSED;
        to.key[3] ^= 1;
        bool refused = xfer_relay_connect(&s, &to, &e) < 0 && s.to_fd < 0;
        _exit(refused ? 0 : 1);
    }
    wait_readable(&r);
    is_int(xfer_relay_read(&r, &e), 0, "a peer with another key does not end the relay");
    ok(r.from_fd < 0 && r.listen_fd >= 0, "a peer with another key is not accepted");
    is_int(ended(stranger), 0, "a peer that does not prove the key is refused by the sender");
    pid_t sender = begin();
    if (sender == 0) {
        struct relay s = RELAY_CLOSED;
        struct strbuf out = {0};
        xfer_wire_frame(&out, XFER_BATCH, "content", 7);
        xfer_wire_frame(&out, XFER_RELAY_END, NULL, 0);
        bool good =
            xfer_relay_connect(&s, &to, &e) == 0 && xfer_relay_send(&s, out.data, out.len, &e) == 0;
        _exit(good ? 0 : 1);
    }
    struct xfer_frame f;
    const void *wire = NULL;
    int count = 0, gone = 0;
    while (!gone) {
        wait_readable(&r);
        gone = xfer_relay_read(&r, &e) < 0;
        while (!gone && r.from_fd >= 0 && xfer_relay_take(&r, &f, &wire, &e) > 0) {
            count++;
            if (f.type == XFER_BATCH)
                ok(f.len == 7 && memcmp(f.data, "content", 7) == 0 &&
                       memcmp((const char *)wire + XFER_HEAD_BYTES, "content", 7) == 0,
                   "the frame arrives, and its bytes as they came");
        }
    }
    is_int(count, 2, "both frames arrive");
    is_int(ended(sender), 0, "the sender succeeds");
    has_str(e.text, "ended the relay", "the end of the connection is reported");
    xfer_relay_close(&r);
}

static void test_strangers(void) {
    struct relay r = RELAY_CLOSED;
    struct err e = {0};
    int port = 0, rc = 0, asked = 0;
    if (xfer_relay_listen(&r, &here, &port, &e) < 0)
        bail_out("%s", e.text);
    pid_t crowd = begin();
    if (crowd == 0) {
        static const char junk[4096] = "GET / HTTP/1.0\r\n\r\n";
        struct net_address to;
        for (int i = 0; i < RELAY_STRANGERS_MAX; i++) {
            int fd = net_resolve("127.0.0.1", port, &to, &e) < 0 ? -1 : net_connect(&to, 2000, &e);
            if (fd >= 0) {
                (void)net_send_all(fd, junk, sizeof junk, 2000, &e);
                close(fd);
            }
        }
        _exit(0);
    }
    while (rc == 0 && asked++ < 2 * RELAY_STRANGERS_MAX) {
        wait_readable(&r);
        rc = xfer_relay_read(&r, &e);
    }
    is_int(rc, -1, "a node gives the relay up after %d strangers", RELAY_STRANGERS_MAX);
    is_int(ended(crowd), 0, "the strangers are gone");
    xfer_relay_close(&r);
}

// The node behind accepts, then reads nothing.
static void test_stall(void) {
    struct relay r = RELAY_CLOSED, s = RELAY_CLOSED;
    struct err e = {0};
    int port = 0, ends[2];
    if (pipe(ends) < 0)
        bail_out("pipe");
    if (xfer_relay_listen(&r, &here, &port, &e) < 0)
        bail_out("%s", e.text);
    pid_t frozen = begin();
    if (frozen == 0) {
        char end;
        close(ends[1]);
        while (r.from_fd < 0 && xfer_relay_read(&r, &e) == 0)
            poll(&(struct pollfd){.fd = xfer_relay_fd(&r), .events = POLLIN}, 1, 100);
        _exit(read(ends[0], &end, 1) == 0 ? 0 : 1);
    }
    struct xfer_relay_peer to = here;
    to.port = (uint32_t)port;
    is_int(xfer_relay_connect(&s, &to, &e), 0, "the node behind accepts: %s", e.text);
    static const char piece[1 << 20];
    int64_t begin_ms = clock_mono_ms();
    int rc = 0, sent = 0;
    while (rc == 0 && sent++ < 1024)
        rc = xfer_relay_send(&s, piece, sizeof piece, &e);
    is_int(rc, -1, "a node that takes nothing is dropped");
    ok(clock_mono_ms() - begin_ms >= RELAY_STALL_MS, "a node has its time to take a piece");
    ok(s.to_fd < 0, "the connection to it is closed");
    is_int(xfer_relay_send(&s, piece, sizeof piece, &e), 0, "later frames are not sent to it");
    close(ends[0]);
    close(ends[1]);
    is_int(ended(frozen), 0, "the frozen node ends");
    xfer_relay_close(&s);
    xfer_relay_close(&r);
}

static void test_addresses(void) {
    struct relay r = RELAY_CLOSED;
    struct err e = {0};
    struct xfer_relay_peer to = {.address = "node7.example", .port = 9};
    is_int(xfer_relay_connect(&r, &to, &e), -1, "a name is refused");
    has_str(e.text, "numeric", "the error asks for a numeric address");
    struct strbuf b = {0}, frame = {0};
    struct xfer_unpacker u = {0};
    struct xfer_frame f;
    struct arena a = {0};
    struct xfer_relay_peer got;
    xfer_put_relay_peer(&b, &here);
    xfer_wire_frame(&frame, XFER_RELAY_FROM, b.data, b.len);
    ok(xfer_wire_take(&u, frame.data, frame.len, &f, &e) == 1 &&
           xfer_get_relay_peer(&f, &a, &got, &e) == 0 && strcmp(got.address, here.address) == 0 &&
           memcmp(got.key, here.key, sizeof got.key) == 0,
       "a peer is read as it was written");
    for (f.len = 0; f.len < b.len && xfer_get_relay_peer(&f, &a, &got, &e) < 0; f.len++)
        ;
    is_uint(f.len, b.len, "a peer that is cut anywhere is refused");
    arena_fini(&a);
    xfer_unpacker_fini(&u);
    strbuf_fini(&b);
    strbuf_fini(&frame);
}

int main(void) {
    hash_random(here.key, sizeof here.key);
    test_frames();
    test_strangers();
    test_stall();
    test_addresses();
    return done_testing();
}
