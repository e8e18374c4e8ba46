// SPDX-License-Identifier: Apache-2.0
// Shares memory among the ranks of a node. The first rank makes the memory, and serves it on an
// abstract unix socket to processes of the same user only. The other ranks read the random name of
// the socket from the store.
#include "comm/shm.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "sys/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { SHM_NAME_BYTES = 16, SHM_KEY_BYTES_MAX = 512, SHM_HELLO = 0x64746d31 };

struct shm_hello {
    uint32_t magic, local_rank;
};

static size_t shm_align(size_t v) {
    return (v + 4095) / 4096 * 4096;
}

static void shm_place(struct shm *s, const struct comm_config *config) {
    size_t world = (size_t)config->local_world;
    bool local = config->nodes == 1;
    s->chunk_bytes = local ? SHM_CHUNK_BYTES_LOCAL : SHM_CHUNK_BYTES_NODES;
    s->depth = local ? SHM_DEPTH_LOCAL : SHM_DEPTH_NODES;
    s->lead = local ? SHM_LEAD_LOCAL : SHM_LEAD_NODES;
    size_t head = shm_align(sizeof(struct shm_head) + world * sizeof(struct shm_rank));
    s->map_bytes = head + (world + 1) * s->depth * s->chunk_bytes;
    if (!s->map)
        return;
    s->head = s->map;
    s->ranks = (struct shm_rank *)(s->head + 1);
    s->slots = (char *)s->map + head;
    s->results = s->slots + world * s->depth * s->chunk_bytes;
}

static int shm_map(struct shm *s, int fd, struct err *e) {
    void *map = mmap(NULL, s->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return err_errno(e, ERR_LIMIT, "mapping %zu bytes of shared memory", s->map_bytes);
    s->map = map;
    return 0;
}

static void shm_address(struct sockaddr_un *to, socklen_t *len,
                        const unsigned char name[SHM_NAME_BYTES]) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX; // a leading NUL: abstract, gone with its last user
    int n = snprintf(to->sun_path + 1, sizeof to->sun_path - 1, "dtctl-comm-");
    str_hex(to->sun_path + 1 + n, name, SHM_NAME_BYTES);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n + 2 * SHM_NAME_BYTES);
}

// ---- the first rank ----------------------------------------------------------------------------

static int shm_make(struct shm *s, struct err *e) {
    int fd = memfd_create("dtctl-comm", MFD_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "making shared memory");
    // Reserved at once: later it would be a signal and not an error.
    int error = posix_fallocate(fd, 0, (off_t)s->map_bytes);
    if (error) {
        close(fd);
        errno = error;
        return err_errno(e, ERR_LIMIT, "%zu bytes of shared memory for %d ranks", s->map_bytes,
                         s->local_world);
    }
    if (shm_map(s, fd, e) == 0)
        return fd;
    close(fd);
    return -1;
}

static int shm_pass_fd(int to, int fd, struct err *e) {
    char byte = 1;
    struct iovec iov = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    if (sendmsg(to, &m, MSG_NOSIGNAL) != 1)
        return err_errno(e, ERR_SYS, "passing shared memory on");
    return 0;
}

static bool shm_poll(int fd, int64_t deadline_ms) {
    int64_t left = deadline_ms - clock_mono_ms();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return left > 0 && poll(&p, 1, (int)left) > 0;
}

// One connection: the same user, a rank that was not served yet. 1 served, 0 a stray, -1.
static int shm_serve_one(struct shm *s, int conn, int fd, bool *served, int64_t deadline_ms,
                         struct err *e) {
    struct ucred who;
    socklen_t len = sizeof who;
    struct shm_hello hello;
    if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.uid != geteuid() ||
        !shm_poll(conn, deadline_ms) ||
        recv(conn, &hello, sizeof hello, MSG_DONTWAIT) != (ssize_t)sizeof hello ||
        hello.magic != SHM_HELLO || hello.local_rank == 0 ||
        hello.local_rank >= (uint32_t)s->local_world || served[hello.local_rank])
        return 0;
    if (shm_pass_fd(conn, fd, e) < 0)
        return -1;
    served[hello.local_rank] = true;
    return 1;
}

static int shm_serve(struct shm *s, int listener, int fd, int64_t deadline_ms, struct err *e) {
    bool served[COMM_LOCAL_WORLD_MAX] = {true};
    int missing = s->local_world - 1, bad = 0;
    while (missing > 0 && bad == 0) {
        struct net_address from;
        int conn = listener_wait(listener, deadline_ms, &from, e);
        if (conn < 0 && e->code == ERR_TIMEOUT) {
            int first = 1;
            while (first < s->local_world && served[first])
                first++;
            bad = err_set(e, ERR_TIMEOUT,
                          "%d of %d ranks of this node did not come (first: local "
                          "rank %d)",
                          missing, s->local_world, first);
            break;
        }
        if (conn < 0)
            return err_wrap(e, "waiting for the ranks of this node");
        int r = shm_serve_one(s, conn, fd, served, deadline_ms, e);
        close(conn);
        missing -= r > 0;
        bad = r < 0 ? -1 : 0;
    }
    return bad;
}

static int shm_lead(struct shm *s, const struct comm_config *config, const char *key,
                    int64_t deadline_ms, struct err *e) {
    unsigned char name[SHM_NAME_BYTES];
    struct sockaddr_un at;
    socklen_t len;
    hash_random(name, sizeof name);
    shm_address(&at, &len, name);
    int fd = shm_make(s, e), bad = -1;
    if (fd < 0)
        return -1;
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, len) < 0 ||
        listen(listener, COMM_LOCAL_WORLD_MAX) < 0)
        err_errno(e, ERR_SYS, "listening for the ranks of this node");
    else if (config->kv.set(config->kv.ctx, key, name, sizeof name, e) == 0)
        bad = shm_serve(s, listener, fd, deadline_ms, e);
    if (listener >= 0)
        close(listener);
    close(fd);
    return bad;
}

// ---- the others --------------------------------------------------------------------------------

static int shm_receive_fd(int from, struct err *e) {
    char byte;
    struct iovec iov = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) != 1)
        return err_set(e, ERR_NET, "local rank 0 refused to share its memory");
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        c->cmsg_len != CMSG_LEN(sizeof(int)))
        return err_set(e, ERR_NET, "local rank 0 sent no shared memory");
    int fd;
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static int shm_follow(struct shm *s, const struct comm_config *config, const char *key,
                      int64_t deadline_ms, struct err *e) {
    unsigned char name[SHM_NAME_BYTES];
    size_t got = 0;
    int left_ms = (int)(deadline_ms - clock_mono_ms());
    if (config->kv.get(config->kv.ctx, key, name, sizeof name, &got, left_ms, e) < 0)
        return err_wrap(e, "waiting for local rank 0");
    if (got != sizeof name)
        return err_set(e, ERR_FORMAT, "store key '%s' has %zu bytes", key, got);
    struct sockaddr_un to;
    socklen_t len;
    shm_address(&to, &len, name);
    int conn = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1, bad = -1;
    const struct shm_hello hello = {SHM_HELLO, (uint32_t)s->local_rank};
    if (conn < 0 || connect(conn, (struct sockaddr *)&to, len) < 0 ||
        send(conn, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        err_errno(e, ERR_NET,
                  "reaching local rank 0 (are all ranks of a node in one network "
                  "namespace?)");
    else if (!shm_poll(conn, deadline_ms))
        err_set(e, ERR_TIMEOUT, "local rank 0 did not share its memory in time");
    else
        fd = shm_receive_fd(conn, e);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) < 0 || (size_t)st.st_size != s->map_bytes))
        err_set(e, ERR_CONFIG,
                "local rank 0 shares %lld bytes, expected %zu: the ranks do not agree "
                "on how many they are",
                (long long)st.st_size, s->map_bytes);
    else if (fd >= 0)
        bad = shm_map(s, fd, e);
    if (fd >= 0)
        close(fd);
    if (conn >= 0)
        close(conn);
    return bad;
}

// ---- both --------------------------------------------------------------------------------------

// Every rank opens a handle on every other rank, then reports it. A rank that passes the second
// step was alive when its handles were opened, so they refer to the right processes.
static int shm_meet(struct shm *s, int rank, struct err *e) {
    struct shm_rank *me = &s->ranks[s->local_rank];
    atomic_store(&me->pid, getpid());
    atomic_store(&me->rank, rank);
    atomic_store(&me->state, SHM_JOINED);
    shm_set(&me->arrived, 1);
    if (shm_wait_all(s, offsetof(struct shm_rank, arrived), 1, e) < 0)
        return -1;
    for (int i = 0; i < s->local_world; i++) {
        if (i == s->local_rank)
            continue;
        pid_t pid = atomic_load(&s->ranks[i].pid);
        s->pidfd[i] = (int)syscall(SYS_pidfd_open, pid, 0);
        if (s->pidfd[i] < 0)
            return err_errno(e, ERR_SYS, "watching local rank %d (process %d)", i, (int)pid);
        fcntl(s->pidfd[i], F_SETFD, FD_CLOEXEC);
    }
    shm_set(&me->arrived, 2);
    return shm_wait_all(s, offsetof(struct shm_rank, arrived), 2, e);
}

int shm_open_group(struct shm *s, const struct comm_config *config, int shown,
                   struct comm_watch *watch, struct err *e) {
    memset(s, 0, sizeof *s);
    s->local_rank = config->local_rank;
    s->local_world = config->local_world;
    s->watch = watch;
    s->limit_ms = config->connect_timeout_ms_max;
    s->pidfd = heap_alloc((size_t)s->local_world * sizeof *s->pidfd);
    for (int i = 0; i < s->local_world; i++)
        s->pidfd[i] = -1;
    int64_t deadline_ms = clock_mono_ms() + config->connect_timeout_ms_max;
    char key[SHM_KEY_BYTES_MAX];
    snprintf(key, sizeof key, "%s/local/%d", config->prefix, config->node);
    shm_place(s, config);
    int bad = s->local_rank == 0 ? shm_lead(s, config, key, deadline_ms, e)
                                 : shm_follow(s, config, key, deadline_ms, e);
    if (bad == 0) {
        shm_place(s, config);
        bad = shm_meet(s, shown, e);
    }
    s->limit_ms = watch->stall_timeout_ms_max;
    return bad;
}

void shm_close_group(struct shm *s) {
    if (s->head)
        atomic_store(&s->ranks[s->local_rank].state, SHM_LEFT);
    if (s->map)
        munmap(s->map, s->map_bytes);
    for (int i = 0; s->pidfd && i < s->local_world; i++)
        if (s->pidfd[i] >= 0)
            close(s->pidfd[i]);
    free(s->pidfd);
    memset(s, 0, sizeof *s);
}
