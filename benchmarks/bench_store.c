// SPDX-License-Identifier: Apache-2.0
// Load for a TCPStore, and our server to put under it. bench_store.py sets it against PyTorch's.
//
//     bench_store serve                          prints its port, serves until its input ends
//     bench_store load HOST PORT CLIENTS MS PID  one JSON line per operation; PID: the server's
//     bench_store                                both, with 1, 8 and 64 clients
//
// Each client has one operation in flight, as PyTorch's clients have. get is WAIT then GET, as
// theirs; set is 16 SETs (which have no answer) and a PING.
#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "elastic/store_server.h"
#include "elastic/store_wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 16, VALUE_BYTES = 32, STEPS_MAX = 2, SAMPLES_MAX = 1 << 20, WARM_MS = 100 };

struct step {
    struct strbuf request;
    size_t reply_bytes;
};

struct operation {
    const char *name;
    int steps, per_round; // operations that one round of steps stands for
    struct step step[STEPS_MAX];
};

static void num(struct strbuf *b, uint64_t v, size_t width) {
    unsigned char bytes[8];
    bytes_store(bytes, v, 8);
    strbuf_add(b, bytes, width);
}

static void key(struct strbuf *b, int i) {
    char text[32];
    int n = snprintf(text, sizeof text, "/bench/key/%02d", i);
    num(b, (uint64_t)n, 8);
    strbuf_add(b, text, (size_t)n);
}

static void sets(struct strbuf *b) {
    char value[VALUE_BYTES];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < KEYS; i++) {
        strbuf_addc(b, STORE_OP_SET);
        key(b, i);
        num(b, sizeof value, 8);
        strbuf_add(b, value, sizeof value);
    }
    strbuf_addc(b, STORE_OP_PING);
    num(b, 7, 4);
}

static void keyed(struct step *s, int op, bool counted, size_t reply_bytes) {
    strbuf_addc(&s->request, (char)op);
    if (counted)
        num(&s->request, 1, 8);
    key(&s->request, 3);
    s->reply_bytes = reply_bytes;
}

static int make_operations(struct operation *o) {
    static const char *const names[] = {"set", "get", "add", "wait", "multi_get16"};
    int n = 0;
    for (; n < 5; n++)
        o[n] = (struct operation){.name = names[n], .steps = 1, .per_round = 1};
    sets(&o[0].step[0].request);
    o[0].step[0].reply_bytes = 4;
    o[0].per_round = KEYS;
    o[1].steps = 2;
    keyed(&o[1].step[0], STORE_OP_WAIT, true, 1);
    keyed(&o[1].step[1], STORE_OP_GET, false, 8 + VALUE_BYTES);
    strbuf_addc(&o[2].step[0].request, STORE_OP_ADD);
    key(&o[2].step[0].request, 99);
    num(&o[2].step[0].request, 1, 8);
    o[2].step[0].reply_bytes = 8;
    keyed(&o[3].step[0], STORE_OP_WAIT, true, 1);
    strbuf_addc(&o[4].step[0].request, STORE_OP_MULTI_GET);
    num(&o[4].step[0].request, KEYS, 8);
    for (int i = 0; i < KEYS; i++)
        key(&o[4].step[0].request, i);
    o[4].step[0].reply_bytes = KEYS * (8 + VALUE_BYTES);
    return n;
}

struct client {
    int fd, step;
    size_t got;
    int64_t sent_ns;
};

static _Noreturn void die(const char *what) {
    perror(what);
    exit(1);
}

static void send_step(struct client *c, const struct operation *o) {
    const struct strbuf *r = &o->step[c->step].request;
    if (c->step == 0)
        c->sent_ns = clock_mono_ns();
    c->got = 0;
    if (send(c->fd, r->data, r->len, MSG_NOSIGNAL) != (ssize_t)r->len)
        die("send");
}

static int dial(const char *host, int port) {
    struct net_address to;
    struct err e;
    int fd, on = 1;
    if (net_resolve(host, port, &to, &e) < 0 || (fd = net_connect(&to, 5000, &e)) < 0) {
        fprintf(stderr, "bench_store: %s\n", e.text);
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct strbuf b = {0};
    char echo[4];
    strbuf_addc(&b, STORE_OP_VALIDATE);
    num(&b, STORE_WIRE_MAGIC, 4);
    sets(&b); // also proves that it is served
    if (net_send_all(fd, b.data, b.len, 5000, &e) < 0 ||
        net_recv_all(fd, echo, sizeof echo, 5000, &e) < 0) {
        fprintf(stderr, "bench_store: greeting: %s\n", e.text);
        exit(1);
    }
    strbuf_fini(&b);
    return fd;
}

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float samples[SAMPLES_MAX];

// Nanoseconds that all threads of a process have been on a processor: what an operation costs the
// server, however busy the machine is otherwise.
static int64_t cpu_ns(int pid) {
    char path[300];
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *d = opendir(path);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        long long ns = 0;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pid, entry->d_name);
        FILE *f = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (f && fscanf(f, "%lld", &ns) == 1)
            sum += ns;
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return sum;
}

static void measure(const struct operation *o, struct client *clients, int count, int epoll_fd,
                    int ms, int pid) {
    struct epoll_event events[256];
    char buf[65536];
    size_t taken = 0;
    int64_t begin = clock_mono_ns() + WARM_MS * 1000000L, end = begin + ms * 1000000L, now = 0;
    long rounds = 0, all = 0;
    int64_t cpu = cpu_ns(pid);
    for (int i = 0; i < count; i++) {
        clients[i].step = 0;
        send_step(&clients[i], o);
    }
    for (int flying = count; flying > 0;) {
        int n = epoll_wait(epoll_fd, events, 256, 5000);
        if (n <= 0)
            die("the server does not answer");
        now = clock_mono_ns();
        for (int i = 0; i < n; i++) {
            struct client *c = &clients[events[i].data.u32];
            ssize_t got = recv(c->fd, buf, sizeof buf, 0);
            if (got <= 0)
                die("recv");
            c->got += (size_t)got;
            if (c->got < o->step[c->step].reply_bytes)
                continue;
            c->step = (c->step + 1) % o->steps;
            all += c->step == 0;
            if (c->step == 0 && now >= begin && now < end) {
                rounds++;
                if (taken < SAMPLES_MAX)
                    samples[taken++] = (float)(now - c->sent_ns) / 1000;
            }
            if (c->step == 0 && now >= end)
                flying--;
            else
                send_step(c, o);
        }
    }
    cpu = cpu_ns(pid) - cpu;
    qsort(samples, taken, sizeof *samples, by_value);
    printf("{\"bench\":\"store\",\"op\":\"%s\",\"clients\":%d,\"ops_per_s\":%.0f,\"p50_us\":%.1f,"
           "\"p99_us\":%.1f,\"server_cpu_us\":%.2f}\n",
           o->name, count, (double)rounds * o->per_round * 1000 / ms, (double)samples[taken / 2],
           (double)samples[taken * 99 / 100], (double)cpu / 1000 / (double)all / o->per_round);
    fflush(stdout);
}

static void load(const char *host, int port, int count, int ms, int pid) {
    struct operation o[8];
    int operations = make_operations(o);
    struct client *clients = heap_alloc((size_t)count * sizeof *clients);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < count; i++) {
        clients[i].fd = dial(host, port);
        struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, clients[i].fd, &ev);
    }
    for (int i = 0; i < operations; i++) {
        measure(&o[i], clients, count, epoll_fd, ms, pid);
        for (int k = 0; k < o[i].steps; k++)
            strbuf_fini(&o[i].step[k].request);
    }
    for (int i = 0; i < count; i++)
        close(clients[i].fd);
    close(epoll_fd);
    free(clients);
}

static void on_input(struct watch *w, unsigned events) {
    (void)events;
    exit(w->fd); // 0: the one who started this has gone
}

static void serve(int out_fd) {
    struct err e;
    struct watch input = {0};
    struct loop *loop = loop_open(&e);
    struct store_server *s = loop ? store_server_open(loop, "127.0.0.1", 0, NULL, &e) : NULL;
    if (!s || (out_fd == 1 && watch_start(loop, &input, 0, LOOP_READ, on_input, &e) < 0)) {
        fprintf(stderr, "bench_store: %s\n", e.text);
        exit(1);
    }
    dprintf(out_fd, "%d\n", store_server_port(s));
    loop_run(loop);
}

static void both(void) {
    int fds[2], port = 0;
    char text[32] = {0};
    if (pipe(fds) < 0)
        die("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        serve(fds[1]);
    }
    if (read(fds[0], text, sizeof text - 1) > 0)
        port = (int)strtol(text, NULL, 10);
    load("127.0.0.1", port, 1, 300, pid);
    load("127.0.0.1", port, 8, 300, pid);
    load("127.0.0.1", port, 64, 300, pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
    if (argc == 7 && strcmp(argv[1], "load") == 0)
        load(argv[2], (int)strtol(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10),
             (int)strtol(argv[5], NULL, 10), (int)strtol(argv[6], NULL, 10));
    else if (argc == 2 && strcmp(argv[1], "serve") == 0)
        serve(1);
    else if (argc == 1)
        both();
    else
        return 2;
    return 0;
}
