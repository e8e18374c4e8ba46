// SPDX-License-Identifier: Apache-2.0
// slow_link VETH TAP DELAY_MS LOSS_PERCENT SEED: a bad cable. Takes the place of a bridge port:
// what comes from the interface VETH leaves by the new interface TAP, later, or not at all, and the
// other way round. For kernels without the netem qdisc. The caller takes VETH out of its bridge
// before, and puts TAP into it when this says "ready"; TAP vanishes with this process.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// A frame carries a virtio header in front, so that segments and checksums which the kernel has not
// yet made stay its business on the far side.
enum { FRAME_BYTES_MAX = 70000, HELD_FRAMES_MAX = 4096, EVERY_PROTOCOL = 3 /* ETH_P_ALL */ };

struct frame {
    int64_t due_ns;
    int to;
    size_t len;
    unsigned char *data;
};

static struct frame held[HELD_FRAMES_MAX]; // a ring: every frame waits equally long
static size_t first, count;
static uint32_t chance;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "slow_link: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int open_veth(const char *name) {
    int on = 1, index = (int)if_nametoindex(name);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(EVERY_PROTOCOL));
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET, .sll_protocol = htons(EVERY_PROTOCOL), .sll_ifindex = index};
    struct packet_mreq all = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
    if (fd < 0 || index == 0)
        die(name);
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) < 0)
        die("packet socket");
    return fd;
}

static int open_tap(const char *name) {
    struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) < 0)
        die(name);
    return fd;
}

static void hold(int to, const unsigned char *data, size_t len, int64_t delay_ns) {
    if (count == HELD_FRAMES_MAX)
        return; // a full queue drops, as switches do
    struct frame *f = &held[(first + count++) % HELD_FRAMES_MAX];
    *f = (struct frame){now_ns() + delay_ns, to, len, malloc(len)};
    if (!f->data)
        die("memory");
    memcpy(f->data, data, len);
}

// xorshift (Marsaglia, 2003): the same losses for the same seed.
static uint32_t draw(void) {
    chance ^= chance << 13;
    chance ^= chance >> 17;
    chance ^= chance << 5;
    return chance;
}

static void take(int from, int to, int64_t delay_ns, uint32_t loss_percent) {
    static unsigned char data[FRAME_BYTES_MAX];
    ssize_t n;
    while ((n = read(from, data, sizeof data)) > 0)
        if (draw() % 100 >= loss_percent)
            hold(to, data, (size_t)n, delay_ns);
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENETDOWN && errno != EIO)
        die("read");
}

static int64_t release(void) { // ms until the next one, -1: none
    while (count > 0) {
        struct frame *f = &held[first];
        int64_t left = f->due_ns - now_ns();
        if (left > 0)
            return left / 1000000 + 1;
        if (write(f->to, f->data, f->len) < 0 && errno != EAGAIN && errno != ENETDOWN &&
            errno != EIO && errno != ENOBUFS)
            die("write");
        free(f->data);
        first = (first + 1) % HELD_FRAMES_MAX;
        count--;
    }
    return -1;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: slow_link VETH TAP DELAY_MS LOSS_PERCENT SEED\n");
        return 2;
    }
    int64_t delay_ns = strtoll(argv[3], NULL, 10) * 1000000;
    uint32_t loss = (uint32_t)strtoul(argv[4], NULL, 10);
    chance = (uint32_t)strtoul(argv[5], NULL, 10) | 1;
    int veth = open_veth(argv[1]), tap = open_tap(argv[2]);
    struct pollfd p[2] = {{.fd = veth, .events = POLLIN}, {.fd = tap, .events = POLLIN}};
    puts("ready");
    fflush(stdout);
    for (;;) {
        if (poll(p, 2, (int)release()) < 0 && errno != EINTR)
            die("poll");
        take(veth, tap, delay_ns, loss);
        take(tap, veth, delay_ns, loss);
    }
}
