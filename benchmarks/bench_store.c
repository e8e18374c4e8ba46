// SPDX-License-Identifier: Apache-2.0
// Load for a TCPStore, and our server to put under it. bench_store.py sets it against PyTorch's.
//
//     bench_store serve     prints its port, serves until its input ends
//     bench_store floor     the same with a server that looks nothing up: what the kernel costs
//     bench_store load HOST PORT CLIENTS DEPTH MS PID
//                           one JSON line per operation; PID: the server's
//     bench_store           our server and the floor, with 1, 8 and 64 clients
//
// Each client has DEPTH requests in flight; PyTorch's clients have one. With many, requests share
// system calls and packets, so that the server is the limit and not the kernel. get is WAIT then
// GET, as theirs; set is at least 16 SETs (which have no answer) and a PING.
#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "tcpstore/store_protocol.h"
#include "tcpstore/store_server.h"

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
enum { KEY_FIELD_BYTES = 8 + 13, VALUE_FIELD_BYTES = 8 + VALUE_BYTES };
enum { GREETING_TIMEOUT_MS = 120000 }; // a server may look up the names of its clients

struct step {
    struct strbuf request;
    size_t reply_bytes;
};

struct operation {
    const char *name;
    int steps, per_round; // operations in one round of steps
    struct step step[STEPS_MAX];
};

static void num(struct strbuf *b, uint64_t v, size_t width) {
    unsigned char bytes[8];
    bytes_store(bytes, v, 8);
    strbuf_add(b, bytes, width);
}

static void key(struct strbuf *b, int i) {
    num(b, KEY_FIELD_BYTES - 8, 8);
    strbuf_addf(b, "/bench/key/%02d", i);
}

static void sets(struct strbuf *b, int count) {
    char value[VALUE_BYTES];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < count; i++) {
        strbuf_addc(b, STORE_OP_SET);
        key(b, i % KEYS);
        num(b, sizeof value, 8);
        strbuf_add(b, value, sizeof value);
    }
    strbuf_addc(b, STORE_OP_PING);
    num(b, 7, 4);
}

static void keyed(struct step *s, int op, int depth, size_t reply_bytes) {
    for (int i = 0; i < depth; i++) {
        strbuf_addc(&s->request, (char)op);
        if (op == STORE_OP_WAIT)
            num(&s->request, 1, 8);
        key(&s->request, op == STORE_OP_ADD ? 99 : 3);
        if (op == STORE_OP_ADD)
            num(&s->request, 1, 8);
    }
    s->reply_bytes = reply_bytes * (size_t)depth;
}

static void multi_gets(struct step *s, int depth) {
    for (int i = 0; i < depth; i++) {
        strbuf_addc(&s->request, STORE_OP_MULTI_GET);
        num(&s->request, KEYS, 8);
        for (int k = 0; k < KEYS; k++)
            key(&s->request, k);
    }
    s->reply_bytes = (size_t)depth * KEYS * VALUE_FIELD_BYTES;
}

enum { SET, GET, ADD, WAIT, MULTI_GET, OPERATIONS };
static void make_operations(struct operation o[OPERATIONS], int depth) {
    int keys = depth > KEYS ? depth : KEYS;
    o[SET] = (struct operation){.name = "set", .steps = 1, .per_round = keys};
    sets(&o[SET].step[0].request, keys);
    o[SET].step[0].reply_bytes = 4;
    o[GET] = (struct operation){.name = "get", .steps = 2, .per_round = depth};
    keyed(&o[GET].step[0], STORE_OP_WAIT, depth, 1);
    keyed(&o[GET].step[1], STORE_OP_GET, depth, VALUE_FIELD_BYTES);
    o[ADD] = (struct operation){.name = "add", .steps = 1, .per_round = depth};
    keyed(&o[ADD].step[0], STORE_OP_ADD, depth, 8);
    o[WAIT] = (struct operation){.name = "wait", .steps = 1, .per_round = depth};
    keyed(&o[WAIT].step[0], STORE_OP_WAIT, depth, 1);
    o[MULTI_GET] = (struct operation){.name = "multi_get16", .steps = 1, .per_round = keys / KEYS};
    multi_gets(&o[MULTI_GET].step[0], keys / KEYS);
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
    sets(&b, KEYS); // also proves that it is served
    if (net_send_all(fd, b.data, b.len, 5000, &e) < 0 ||
        net_recv_all(fd, echo, sizeof echo, GREETING_TIMEOUT_MS, &e) < 0) {
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

struct load {
    const char *host, *server;
    int port, count, depth, ms, server_pid;
    int epoll_fd;
    struct client *clients;
};

static void report(const struct load *l, const struct operation *o, size_t rounds, double cpu_us) {
    size_t taken = rounds < SAMPLES_MAX ? rounds : SAMPLES_MAX;
    if (taken == 0)
        die("nothing was answered in time");
    qsort(samples, taken, sizeof *samples, by_value);
    printf("{\"bench\":\"store\",\"server\":\"%s\",\"op\":\"%s\",\"clients\":%d,\"depth\":%d,"
           "\"ops_per_s\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"server_cpu_us\":%.3f}\n",
           l->server, o->name, l->count, l->depth, (double)rounds * o->per_round * 1000 / l->ms,
           (double)samples[taken / 2], (double)samples[taken * 99 / 100], cpu_us / o->per_round);
    fflush(stdout);
}

// True when the bytes that are there end an operation.
static bool receive(struct client *c, const struct operation *o) {
    static char buf[1 << 18];
    ssize_t got = recv(c->fd, buf, sizeof buf, 0);
    if (got <= 0)
        die("recv");
    c->got += (size_t)got;
    if (c->got < o->step[c->step].reply_bytes)
        return false;
    c->step = (c->step + 1) % o->steps;
    if (c->step > 0)
        send_step(c, o);
    return c->step == 0;
}

static void measure(const struct load *l, const struct operation *o) {
    struct epoll_event events[256];
    int64_t begin = clock_mono_ns() + WARM_MS * 1000000L, end = begin + l->ms * 1000000L;
    size_t rounds = 0, all = 0;
    int64_t cpu = cpu_ns(l->server_pid);
    for (int i = 0; i < l->count; i++) {
        l->clients[i].step = 0;
        send_step(&l->clients[i], o);
    }
    for (int flying = l->count; flying > 0;) {
        int n = epoll_wait(l->epoll_fd, events, 256, 5000);
        if (n <= 0)
            die("the server does not answer");
        int64_t now = clock_mono_ns();
        for (int i = 0; i < n; i++) {
            struct client *c = &l->clients[events[i].data.u32];
            if (!receive(c, o))
                continue;
            all++;
            if (now >= begin && now < end && rounds++ < SAMPLES_MAX)
                samples[rounds - 1] = (float)(now - c->sent_ns) / 1000;
            if (now >= end)
                flying--;
            else
                send_step(c, o);
        }
    }
    report(l, o, rounds, (double)(cpu_ns(l->server_pid) - cpu) / 1000 / (double)all);
}

static void load(struct load *l) {
    struct operation o[OPERATIONS];
    make_operations(o, l->depth);
    l->clients = heap_alloc((size_t)l->count * sizeof *l->clients);
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < l->count; i++) {
        l->clients[i].fd = dial(l->host, l->port);
        struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->clients[i].fd, &ev);
    }
    for (int i = 0; i < OPERATIONS; i++) {
        measure(l, &o[i]);
        for (int k = 0; k < o[i].steps; k++)
            strbuf_fini(&o[i].step[k].request);
    }
    for (int i = 0; i < l->count; i++)
        close(l->clients[i].fd);
    close(l->epoll_fd);
    free(l->clients);
}

// ---- servers ----

static void on_input(struct watch *w, unsigned events) {
    (void)events;
    exit(w->fd); // 0: the one who started this has gone
}

static struct loop *open_loop(int out_fd, struct watch *input) {
    struct err e;
    struct loop *loop = loop_open(&e);
    if (!loop || (out_fd == 1 && watch_start(loop, input, 0, LOOP_READ, on_input, &e) < 0)) {
        fprintf(stderr, "bench_store: %s\n", e.text);
        exit(1);
    }
    return loop;
}

static void serve(int out_fd) {
    struct err e;
    struct watch input = {0};
    struct loop *loop = open_loop(out_fd, &input);
    struct store_server *s = store_server_open(loop, "127.0.0.1", 0, NULL, &e);
    if (!s) {
        fprintf(stderr, "bench_store: %s\n", e.text);
        exit(1);
    }
    dprintf(out_fd, "%d\n", store_server_port(s));
    loop_run(loop);
}

// The floor: one recv, one send of as many bytes as the answers have, nothing between but finding
// the ends of requests, whose lengths are those of the load.
struct caller {
    struct watch watch;
    size_t missing; // bytes of a request that are still to come
    size_t owed;    // its answer
};

static void floor_event(struct watch *w, unsigned events) {
    (void)events;
    static char in[1 << 18], out[1 << 20];
    static const struct {
        size_t request, reply;
    } op[STORE_OP_COUNT] = {
        [STORE_OP_VALIDATE] = {5, 0},
        [STORE_OP_SET] = {1 + KEY_FIELD_BYTES + VALUE_FIELD_BYTES, 0},
        [STORE_OP_GET] = {1 + KEY_FIELD_BYTES, VALUE_FIELD_BYTES},
        [STORE_OP_ADD] = {1 + KEY_FIELD_BYTES + 8, 8},
        [STORE_OP_WAIT] = {9 + KEY_FIELD_BYTES, 1},
        [STORE_OP_MULTI_GET] = {9 + KEYS * KEY_FIELD_BYTES, KEYS * VALUE_FIELD_BYTES},
        [STORE_OP_PING] = {5, 4},
    };
    struct caller *c = container_of(w, struct caller, watch);
    ssize_t got = recv(w->fd, in, sizeof in, 0);
    if (got <= 0) {
        int fd = w->fd;
        watch_stop(w);
        close(fd);
        free(c);
        return;
    }
    size_t reply = 0;
    for (size_t at = 0; at < (size_t)got;) {
        unsigned char code = (unsigned char)in[at];
        if (c->missing == 0) {
            c->missing = op[code % STORE_OP_COUNT].request;
            c->owed = op[code % STORE_OP_COUNT].reply;
        }
        size_t taken = c->missing < (size_t)got - at ? c->missing : (size_t)got - at;
        at += taken;
        c->missing -= taken;
        reply += c->missing == 0 ? c->owed : 0;
    }
    if (reply > 0 && send(w->fd, out, reply, MSG_NOSIGNAL) != (ssize_t)reply)
        die("floor: send");
}

static void floor_listen(struct watch *w, unsigned events) {
    (void)events;
    struct net_address peer;
    struct err e;
    int fd = net_accept(w->fd, &peer, &e), on = 1;
    if (fd < 0)
        return;
    struct caller *c = heap_alloc(sizeof *c);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    must(watch_start(w->loop, &c->watch, fd, LOOP_READ, floor_event, &e) == 0);
}

static void serve_floor(int out_fd) {
    struct err e;
    struct watch input = {0}, listen = {0};
    int fd, port;
    struct loop *loop = open_loop(out_fd, &input);
    must(net_listen("127.0.0.1", 0, &fd, &port, &e) == 0 &&
         watch_start(loop, &listen, fd, LOOP_READ, floor_listen, &e) == 0);
    dprintf(out_fd, "%d\n", port);
    loop_run(loop);
}

static void measure_server(const char *name, void (*server)(int)) {
    static const int counts[] = {1, 8, 64}, depths[] = {1, 64};
    int fds[2];
    char text[32] = {0};
    if (pipe(fds) < 0)
        die("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        server(fds[1]);
    }
    must(read(fds[0], text, sizeof text - 1) > 0);
    for (int i = 0; i < 6; i++) {
        struct load l = {.host = "127.0.0.1",
                         .server = name,
                         .port = (int)strtol(text, NULL, 10),
                         .count = counts[i % 3],
                         .depth = depths[i / 3],
                         .ms = 300,
                         .server_pid = pid};
        load(&l);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
    if (argc == 8 && strcmp(argv[1], "load") == 0) {
        int n[5];
        for (int i = 0; i < 5; i++)
            n[i] = (int)strtol(argv[3 + i], NULL, 10);
        struct load l = {.host = argv[2],
                         .server = "given",
                         .port = n[0],
                         .count = n[1],
                         .depth = n[2],
                         .ms = n[3],
                         .server_pid = n[4]};
        load(&l);
    } else if (argc == 2 && strcmp(argv[1], "serve") == 0) {
        serve(1);
    } else if (argc == 2 && strcmp(argv[1], "floor") == 0) {
        serve_floor(1);
    } else if (argc == 1) {
        measure_server("dtctl", serve);
        measure_server("floor", serve_floor);
    } else {
        return 2;
    }
    return 0;
}
