// SPDX-License-Identifier: Apache-2.0
// Ranks of one node that share memory: whom the first rank serves, what a rank that joins accepts,
// where things lie in the memory, and what a rank that waits reports.
#include "comm/shm.h"

#include "base/clock.h"
#include "base/str.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAME_BYTES = 16, HELLO = 0x64746d31, SHORT_MS = 40, JOIN_MS = 700, LONG_MS = 20000 };

static void (*while_waiting)(void); // runs once in the next poll
static bool passes_at_once;         // where nothing has come, the time of a wait is over at once

int poll(struct pollfd *fds, nfds_t nfds, int timeout) {
    void (*action)(void) = while_waiting;
    while_waiting = NULL;
    if (action)
        action();
    int n = (int)syscall(SYS_poll, fds, nfds, passes_at_once ? 0 : timeout);
    if (passes_at_once && n == 0)
        clock_ahead_ms += timeout;
    return n;
}

// ---- a store, and the first rank's socket ------------------------------------------------------

static unsigned char name[NAME_BYTES];
static size_t name_bytes = NAME_BYTES;
static void (*when_named)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool named;
static char key_read[600];

static int store_set(void *ctx, const char *key, const void *value, size_t len, struct err *e) {
    (void)ctx, (void)e;
    pthread_mutex_lock(&lock);
    snprintf(key_read, sizeof key_read, "%s", key);
    memcpy(name, value, len < sizeof name ? len : sizeof name);
    named = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (when_named)
        when_named();
    return 0;
}

static int store_get(void *ctx, const char *key, void *value, size_t cap, size_t *len,
                     int timeout_ms, struct err *e) {
    (void)ctx, (void)key, (void)timeout_ms, (void)e;
    pthread_mutex_lock(&lock);
    while (!named)
        pthread_cond_wait(&changed, &lock);
    memcpy(value, name, cap < NAME_BYTES ? cap : NAME_BYTES);
    *len = name_bytes;
    pthread_mutex_unlock(&lock);
    return 0;
}

static struct comm_config config_of(int local_rank, int local_world, int limit_ms) {
    return (struct comm_config){.rank = local_rank,
                                .world = local_world,
                                .local_rank = local_rank,
                                .local_world = local_world,
                                .node = 3,
                                .nodes = 1,
                                .kv = {store_set, store_get, NULL},
                                .prefix = "first",
                                .connect_timeout_ms_max = limit_ms};
}

static socklen_t address_of(struct sockaddr_un *to) {
    memset(to, 0, sizeof *to);
    to->sun_family = AF_UNIX;
    memcpy(to->sun_path + 1, "dtctl-comm-", 11);
    str_hex(to->sun_path + 12, name, NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 12 + 2 * NAME_BYTES);
}

// ---- the first rank ----------------------------------------------------------------------------

enum { VISITORS = 6 };
static int visitor[VISITORS];
static const struct {
    uint32_t hello[2];
    size_t bytes;
    const char *about;
    bool served;
} visits[VISITORS] = {
    {{HELLO + 1, 1}, 8, "another program", false}, {{HELLO, 0}, 8, "local rank 0", false},
    {{HELLO, 4}, 8, "local rank 4 of 4", false},   {{HELLO, 1}, 7, "half a greeting", false},
    {{HELLO, 2}, 8, "local rank 2", true},         {{HELLO, 2}, 8, "a second local rank 2", false}};

static void visitors_come(void) {
    struct sockaddr_un to;
    socklen_t len = address_of(&to);
    for (int i = 0; i < VISITORS; i++) {
        visitor[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(visitor[i], (struct sockaddr *)&to, len) < 0 ||
            send(visitor[i], visits[i].hello, visits[i].bytes, 0) != (ssize_t)visits[i].bytes)
            bail_out("no way to the first rank: %s", strerror(errno));
    }
}

static void test_served(void) {
    struct shm s;
    struct err e;
    struct comm_watch watch = {.stall_timeout_ms_max = 1234};
    const struct comm_config c = config_of(0, 4, LONG_MS);
    passes_at_once = true;
    when_named = visitors_come;
    is_int(shm_open_group(&s, &c, 0, &watch, &e), -1, "two of four ranks do not come");
    when_named = NULL;
    passes_at_once = false;
    is_str(e.text, "2 of 4 ranks of this node did not come (first: local rank 1)",
           "the error counts those that are missing");
    is_int(e.code, ERR_TIMEOUT, "the error is of time");
    is_str(key_read, "first/local/3", "the key has the prefix and the node");
    is_int(s.limit_ms, 1234, "later waits have their own limit");
    for (int i = 0; i < VISITORS; i++) {
        char byte;
        ssize_t n = recv(visitor[i], &byte, 1, MSG_DONTWAIT);
        ok(visits[i].served ? n == 1 : n <= 0, "%s is %s", visits[i].about,
           visits[i].served ? "served" : "sent away");
        close(visitor[i]);
    }
    shm_close_group(&s);
    named = false;
}

// ---- a rank that joins -------------------------------------------------------------------------

static int listener;
static uint32_t greeting[2];
static enum { CLOSES, SENDS_A_BYTE, SHARES_TOO_LITTLE, SHARES } reply;
static size_t shared_bytes;

static void first_rank_answers(void) {
    int conn = accept(listener, NULL, NULL);
    if (recv(conn, greeting, sizeof greeting, 0) != sizeof greeting)
        bail_out("no greeting");
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.room = {0}};
    char byte = 1;
    struct iovec iov = {&byte, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    int fd = memfd_create("test", MFD_CLOEXEC);
    if (reply >= SHARES_TOO_LITTLE) {
        if (ftruncate(fd, (off_t)(shared_bytes - (reply == SHARES_TOO_LITTLE))) < 0)
            bail_out("no memory to share");
        m.msg_control = control.room;
        m.msg_controllen = sizeof control.room;
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    if (reply != CLOSES && sendmsg(conn, &m, 0) != 1)
        bail_out("no answer to a greeting");
    close(fd);
    close(conn);
}

static void test_joining(void) {
    static const struct {
        int reply;
        enum err_code code;
        const char *text;
    } cases[] = {{CLOSES, ERR_NET, "local rank 0 refused to share its memory"},
                 {SENDS_A_BYTE, ERR_NET, "local rank 0 sent no shared memory"},
                 {SHARES_TOO_LITTLE, ERR_CONFIG, "the ranks do not agree on how many they are"},
                 {SHARES, ERR_TIMEOUT, "rank 0 (local rank 0) did not take part within"}};
    struct sockaddr_un at;
    struct comm_watch watch = {.stall_timeout_ms_max = 1234};
    struct err e;
    struct shm s;
    memset(name, 0x5a, sizeof name);
    memcpy(name, &(pid_t){getpid()}, sizeof(pid_t));
    named = true;
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = address_of(&at);
    if (bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 4) < 0)
        bail_out("no listener");
    struct comm_config c = config_of(2, 3, LONG_MS);
    passes_at_once = true;
    is_int(shm_open_group(&s, &c, 2, &watch, &e), -1, "a first rank that is silent is left");
    is_str(e.text, "local rank 0 did not share its memory in time", "the error is of its silence");
    is_int(e.code, ERR_TIMEOUT, "silence is an error of time");
    shared_bytes = s.map_bytes;
    shm_close_group(&s);
    close(accept(listener, NULL, NULL));
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        reply = cases[k].reply;
        c.connect_timeout_ms_max = reply == SHARES ? JOIN_MS : LONG_MS;
        while_waiting = first_rank_answers;
        is_int(shm_open_group(&s, &c, 2, &watch, &e), -1, "answer %zu is no group", k);
        has_str(e.text, cases[k].text, "the error says so of answer %zu", k);
        is_int(e.code, cases[k].code, "the error has its code for answer %zu", k);
        shm_close_group(&s);
    }
    passes_at_once = false;
    ok(greeting[0] == HELLO && greeting[1] == 2, "a rank says which one it is");
    close(listener);
    is_int(shm_open_group(&s, &c, 2, &watch, &e), -1, "a socket without a process is no group");
    has_str(e.text, "reaching local rank 0 (are all ranks of a node in one network namespace?)",
            "the error asks for the network namespace");
    shm_close_group(&s);
    name_bytes = NAME_BYTES - 1;
    is_int(shm_open_group(&s, &c, 2, &watch, &e), -1, "a short name in the store is refused");
    is_str(e.text, "store key 'first/local/3' has 15 bytes", "the error has the key");
    shm_close_group(&s);
    name_bytes = NAME_BYTES;
    named = false;
}

// ---- a group -----------------------------------------------------------------------------------

enum { RANKS = 3 };
static struct member {
    struct shm s;
    struct comm_watch watch;
    struct err e;
    int bad, nodes, local_rank;
} member[RANKS];

static void *joins(void *arg) {
    struct member *m = arg;
    struct comm_config c = config_of(m->local_rank, RANKS, LONG_MS);
    c.nodes = m->nodes;
    m->bad = shm_open_group(&m->s, &c, 10 + m->local_rank, &m->watch, &m->e);
    return NULL;
}

static void all_join(int nodes) {
    pthread_t thread[RANKS];
    for (int i = 0; i < RANKS; i++) {
        member[i] = (struct member){
            .local_rank = i, .nodes = nodes, .watch = {.stall_timeout_ms_max = SHORT_MS}};
        pthread_create(&thread[i], NULL, joins, &member[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(thread[i], NULL);
        is_int(member[i].bad, 0, "rank %d of a node joins, of %d nodes", i, nodes);
    }
    named = false;
}

static void all_leave(void) {
    for (int i = 0; i < RANKS; i++)
        shm_close_group(&member[i].s);
}

// Between the ranks' parts nothing overlaps, and all of it is inside the memory.
static void test_places(int nodes) {
    const struct shm *s = &member[1].s;
    const char *map = s->map, *end = map + s->map_bytes;
    ok((const char *)(s->ranks + RANKS) <= s->slots, "%d nodes: buffers follow the counters",
       nodes);
    is_uint((size_t)(s->slots - map) % 4096, 0, "%d nodes: buffers begin on a page", nodes);
    ok((size_t)(s->slots - (const char *)(s->ranks + RANKS)) < 4096,
       "%d nodes: no page lies between counters and buffers", nodes);
    ok(shm_slot(s, RANKS - 1, s->depth - 1) + s->chunk_bytes == s->results,
       "%d nodes: results follow the last rank's buffers", nodes);
    ok(shm_result(s, s->depth - 1) + s->chunk_bytes == end, "%d nodes: results are the end", nodes);
    ok(shm_slot(s, 0, s->depth) == s->slots && shm_slot(s, 1, 0) > shm_slot(s, 0, s->depth - 1),
       "%d nodes: buffers are used in turn", nodes);
    is_uint(s->depth, nodes == 1 ? 16 : 4, "%d nodes: so many chunks are on their way", nodes);
    is_uint(s->lead, nodes == 1 ? 6 : 1, "%d nodes: so many chunks are copied ahead", nodes);
    memset(shm_slot(s, 2, 1), 0x77, s->chunk_bytes);
    is_int(shm_slot(&member[0].s, 2, 1)[s->chunk_bytes - 1], 0x77,
           "%d nodes: a rank sees the bytes of another", nodes);
}

static void test_waits(void) {
    struct shm *s = &member[0].s;
    struct err e;
    err_clear(&e);
    is_int(atomic_load(&s->ranks[2].rank), 12, "a rank has its number of the run");
    shm_set(&s->ranks[1].taken, 5);
    is_int(shm_wait(s, &s->ranks[1].taken, 5, 1, &e), 0, "a rank waits for a chunk that is there");
    is_int(shm_wait(s, &s->ranks[1].taken, 4, 1, &e), 0, "a rank waits for an earlier chunk");
    shm_set(&s->ranks[1].taken, 2);
    is_int(shm_wait(s, &s->ranks[1].taken, 0xfffffff0U, 1, &e), 0, "chunk numbers wrap around");
    is_int(shm_check(s, &e), 0, "a group without a fault is well");
    int64_t start = clock_mono_ms();
    is_int(shm_wait(s, &s->ranks[1].taken, 3, 1, &e), -1, "a chunk that does not come has a limit");
    ok(clock_mono_ms() - start >= SHORT_MS, "a rank waits as long as its limit");
    is_str(e.text, "rank 11 (local rank 1) did not take part within 40 ms",
           "the error names the rank that is missing");
    is_int(e.code, ERR_TIMEOUT, "the error of a missing chunk is of time");
    err_clear(&e);
    is_int(shm_wait_all(&member[2].s, offsetof(struct shm_rank, taken), 9, &e), -1,
           "the others do not wait any longer");
    is_str(e.text, "rank 11 (local rank 1) did not take part within 40 ms",
           "the others get the same error");
    is_int(e.code, ERR_TIMEOUT, "the others get the same code");
}

static void test_faults(void) {
    static const struct {
        int code, want;
    } codes[] = {{ERR_NO_STATUS, ERR_NO_STATUS},
                 {ERR_NO_STATUS + 1, ERR_NET},
                 {ERR_NONE, ERR_NET},
                 {ERR_NONE + 1, ERR_NONE + 1},
                 {-1, ERR_NET}};
    struct shm *s = &member[0].s, *other = &member[2].s, none = {.watch = &member[0].watch};
    struct err e, longest;
    for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++) {
        s->head->fault_code = codes[k].code;
        is_int(shm_check(other, &e), -1, "code %d of a rank ends the others", codes[k].code);
        is_int(e.code, codes[k].want, "code %d of a rank is %d in the others", codes[k].code,
               codes[k].want);
    }
    atomic_store(&s->head->fault, 1);
    is_int(shm_check(other, &e), 0, "a fault that is being written is not read");
    atomic_store(&s->head->fault, 0);
    char text[400];
    memset(text, 'z', sizeof text);
    err_set(&longest, ERR_LIMIT, "%.*s", (int)sizeof text, text);
    is_int(shm_fault(s, &longest), -1, "a fault ends the rank that has it");
    err_set(&e, ERR_SYS, "a second fault");
    is_int(shm_fault(other, &e), -1, "a second fault ends its rank");
    is_int(shm_check(other, &e), -1, "the others find the fault");
    is_uint(strlen(e.text), SHM_FAULT_BYTES - 1, "the first fault is kept, cut at its limit");
    is_int(e.code, ERR_LIMIT, "the first fault's code is kept");
    atomic_store(&member[2].watch.cancel, true);
    is_int(shm_check(other, &e), -1, "a rank that is closed gives up");
    is_int(e.code, ERR_INTERRUPTED, "giving up is an interruption");
    is_int(shm_check(&none, &e), 0, "before the memory is there, all is well");
    is_int(shm_fault(&none, &longest), -1, "before the memory is there, a fault ends the rank");
}

static void test_left(void) {
    struct err e;
    shm_close_group(&member[1].s);
    is_int(shm_wait_all(&member[0].s, offsetof(struct shm_rank, arrived), 9, &e), -1,
           "a rank that has left is not waited for");
    is_str(e.text, "rank 11 (local rank 1) left the run in the middle of a collective",
           "the error names the rank that has left");
    is_int(e.code, ERR_NET, "the error of a rank that has left is of the network");
    ok(!member[1].s.map && !member[1].s.pidfd, "a closed group has nothing");
}

int main(void) {
    test_served();
    test_joining();
    all_join(1);
    test_places(1);
    test_waits();
    test_faults();
    all_leave();
    all_join(2);
    test_places(2);
    test_left();
    all_leave();
    return done_testing();
}
