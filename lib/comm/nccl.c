// SPDX-License-Identifier: Apache-2.0
// Collectives of GPUs by NCCL. The communicator does not block: whatever takes time is polled here,
// with our own time limits, while the ranks look after each other through the comm of the host.
#include "comm/nccl_library.h"

#include "base/arena.h"
#include "base/clock.h"
#include "comm/backend.h"
#include "comm/comm_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    NCCL_RECORDS = 1024,    // of the newest calls, for messages
    NCCL_POLL_NS = 50000,   // between two questions whether a call has been taken
    NCCL_GRACE_MS = 2000,   // for the host's connections to name a rank, when NCCL has lost it
    NCCL_SAY_MS = 1000,     // in one call, after which a rank says that it waits there
    NCCL_ASK_MS_MAX = 3000, // for the others to have said so: more than they need
    NCCL_KEY_BYTES_MAX = 320,
    NCCL_VERSION_GROUPED_ABORT = 22200, // the first one that aborts several as one
};

struct comm_device {
    struct nccl_library *library;
    struct comm_device *family; // the first communicator, which has the library and all ranks …
    struct comm_device *next;   // … and is the head of a list of those that are split from it
    struct comm *host;
    nccl_comm comm;
    bool joined;    // there was a communicator
    uint64_t calls; // enqueued so far; a ticket is its number, from 1
    uint64_t said;  // the newest ticket that this rank said it waits for
    struct comm_call record[NCCL_RECORDS];
    struct err broken;          // code ERR_NONE: not broken
    void (*release)(void *arg); // before an abort; or NULL
    void *release_arg;
    char about[COMM_DEVICE_ABOUT_BYTES_MAX];
};

static const struct {
    int number;
    size_t bytes;
} types[] = {[COMM_BYTE] = {NCCL_UINT8, 1},
             [COMM_F32] = {NCCL_FLOAT32, 4},
             [COMM_F64] = {NCCL_FLOAT64, 8},
             [COMM_BF16] = {NCCL_BFLOAT16, 2}};

static void nap(void) {
    const struct timespec pause = {.tv_nsec = NCCL_POLL_NS};
    nanosleep(&pause, NULL);
}

// Sets an error with NCCL's own text.
static int say(const struct comm_device *d, int code, const char *what, struct err *e) {
    const struct nccl_library *l = d->library;
    const char *more = l->last_error(d->comm);
    return err_set(e, ERR_NET, "NCCL, %s: %s%s%s (try: NCCL_DEBUG=INFO)", what, l->error_text(code),
                   more && *more ? ": " : "", more ? more : "");
}

// Every later call gives the same error, also in other groups, and the other ranks hear of it.
static int breaks(struct comm_device *d, struct err *e) {
    struct err *broken = &d->family->broken;
    if (broken->code == ERR_NONE) {
        *broken = *e;
        comm_fail(d->family->host, e);
    }
    *e = *broken;
    return -1;
}

static bool is_broken(const struct comm_device *d) {
    return d->family->broken.code != ERR_NONE;
}

// NCCL lost a rank. The host's connections name it a little later.
static int lost(struct comm_device *d, int code, const char *what, struct err *e) {
    for (int64_t end = clock_mono_ms() + NCCL_GRACE_MS; clock_mono_ms() < end; nap())
        if (comm_check(d->family->host, e) < 0)
            return -1;
    return say(d, code, what, e);
}

// Until NCCL has taken a call of the communicator `c`.
static int settle(struct comm_device *d, nccl_comm c, int code, const char *what, struct err *e) {
    const struct comm_config *config = comm_configuration(d->host);
    int64_t since = clock_mono_ms(), looked = since;
    while (code == NCCL_IN_PROGRESS) {
        int64_t now = clock_mono_ms();
        int answer = d->library->get_async_error(c, &code);
        if (answer != NCCL_SUCCESS)
            return say(d, answer, what, e);
        if (code != NCCL_IN_PROGRESS)
            break;
        if (now - since > config->connect_timeout_ms_max)
            return err_set(e, ERR_TIMEOUT,
                           "NCCL, %s: the %d ranks have not reached each other within %d ms (try: "
                           "NCCL_DEBUG=INFO, NCCL_SOCKET_IFNAME, or train.collectives host)",
                           what, config->world, config->connect_timeout_ms_max);
        if (now - looked >= COMM_DEVICE_WATCH_MS && comm_check(d->family->host, e) < 0)
            return -1;
        looked = now - looked >= COMM_DEVICE_WATCH_MS ? now : looked;
        nap();
    }
    return code == NCCL_SUCCESS ? 0 : lost(d, code, what, e);
}

// ---- opening and closing -----------------------------------------------------------------------

static const struct nccl_config patient = {.size = sizeof(struct nccl_config),
                                           .magic = NCCL_CONFIG_MAGIC,
                                           .version = NCCL_VERSION_MIN, // that has these fields
                                           .blocking = 0,
                                           .cga_cluster_size = NCCL_CONFIG_UNSET,
                                           .ctas_min = NCCL_CONFIG_UNSET,
                                           .ctas_max = NCCL_CONFIG_UNSET,
                                           .split_share = NCCL_CONFIG_UNSET};

// Aborts and does not destroy: the others may have gone, and destroying waits for them. An abort
// frees memory of the device, and so waits for the calls of all communicators: they are aborted as
// one.
static void abort_calls(struct comm_device *family) {
    const struct nccl_library *l = family->library;
    bool grouped = l->version >= NCCL_VERSION_GROUPED_ABORT;
    if (grouped)
        (void)l->group_start();
    for (struct comm_device *d = family; d; d = d->next) {
        if (d->comm)
            (void)l->abort(d->comm);
        d->comm = NULL;
    }
    if (grouped)
        (void)l->group_end();
}

// A communicator that was split off ends with the first one of its family.
static void nccl_close(struct comm_device *d) {
    if (!d || d->family != d)
        return;
    if (d->joined)
        abort_calls(d);
    else // of others the device may yet come to calls, whose code is the library's
        nccl_library_close(d->library);
    free(d->library);
    for (struct comm_device *next; d; d = next) {
        next = d->next;
        free(d);
    }
}

// The library of one rank, for the others.
struct finding {
    int32_t version; // 0: no library
    char why[256];   // not, or where it is
};

// 1: all have the same version; 0: some have none; -1: they differ.
static int compare(const struct comm_device *d, const struct finding *all, struct err *e) {
    char one[NCCL_VERSION_TEXT_BYTES], other[NCCL_VERSION_TEXT_BYTES];
    int world = comm_world(d->host);
    for (int r = 0; r < world; r++)
        if (all[r].version == 0) {
            err_set(e, ERR_NOT_FOUND, "rank %d has no NCCL: %.*s", comm_shown(d->host, r),
                    (int)sizeof all[r].why - 1, all[r].why);
            return 0;
        }
    for (int r = 1; r < world; r++)
        if (all[r].version != all[0].version)
            return err_set(e, ERR_CONFIG,
                           "rank %d has NCCL %s (%.*s) and rank %d has %s (%.*s), which do not "
                           "work together (try: one version on all nodes, DTCTL_NCCL, or "
                           "train.collectives host)",
                           comm_shown(d->host, 0), nccl_version_text(one, all[0].version),
                           (int)sizeof all[0].why - 1, all[0].why, comm_shown(d->host, r),
                           nccl_version_text(other, all[r].version), (int)sizeof all[r].why - 1,
                           all[r].why);
    return 1;
}

static int agree(struct comm_device *d, char *const *env, struct err *e) {
    struct finding mine = {0}, *all = heap_alloc((size_t)comm_world(d->host) * sizeof *all);
    struct err why;
    int found = nccl_library_open(d->library, env, &why);
    mine.version = found < 0 ? 0 : d->library->version;
    snprintf(mine.why, sizeof mine.why, "%.250s", found < 0 ? why.text : d->library->path);
    int r = comm_all_gather(d->host, &mine, all, sizeof mine, e);
    r = r < 0 ? -1 : compare(d, all, e);
    if (r == 0 && found < 0 && why.code == ERR_CONFIG) { // it was asked for by name
        *e = why;
        r = -1;
    }
    free(all);
    return r;
}

static int join(struct comm_device *d, struct err *e) {
    struct nccl_id id = {{0}};
    int rank = comm_rank(d->host), code = rank == 0 ? d->library->get_id(&id) : NCCL_SUCCESS;
    unsigned char bad = code != NCCL_SUCCESS;
    if (comm_broadcast(d->host, &bad, sizeof bad, 0, e) < 0 ||
        (!bad && comm_broadcast(d->host, &id, sizeof id, 0, e) < 0))
        return -1;
    if (bad)
        return rank == 0
                   ? say(d, code, "making an id", e)
                   : err_set(e, ERR_NET, "NCCL of rank %d makes no id", comm_shown(d->host, 0));
    d->joined = true;
    code = d->library->init(&d->comm, comm_world(d->host), id, rank, &patient);
    return settle(d, d->comm, code, "connecting", e);
}

static int nccl_open(struct comm_device **out, struct comm *host, char *const *env, struct err *e) {
    char version[NCCL_VERSION_TEXT_BYTES];
    struct comm_device *d = heap_alloc(sizeof *d);
    *out = NULL;
    d->library = heap_alloc(sizeof *d->library);
    d->family = d;
    d->host = host;
    int r = agree(d, env, e);
    if (r > 0 && join(d, e) < 0)
        r = breaks(d, e);
    if (r <= 0) {
        nccl_close(d);
        return r;
    }
    snprintf(d->about, sizeof d->about, "NCCL %s of %.200s",
             nccl_version_text(version, d->library->version), d->library->path);
    *out = d;
    return 1;
}

static int nccl_split(struct comm_device **out, struct comm_device *parent, int color, int key,
                      struct comm *host, struct err *e) {
    nccl_comm made = NULL;
    *out = NULL;
    int code = parent->library->split(parent->comm, color < 0 ? NCCL_NO_COLOR : color, key, &made,
                                      &patient);
    if (settle(parent, parent->comm, code, "splitting", e) < 0)
        return breaks(parent, e);
    if (color < 0)
        return 0;
    struct comm_device *d = heap_alloc(sizeof *d);
    d->library = parent->library;
    d->family = parent->family;
    d->next = d->family->next;
    d->family->next = d;
    d->host = host;
    d->comm = made;
    memcpy(d->about, parent->about, sizeof d->about);
    if (settle(d, made, NCCL_IN_PROGRESS, "splitting", e) < 0)
        return breaks(d, e);
    *out = d;
    return 0;
}

// ---- calls -------------------------------------------------------------------------------------

// Parts of the buffer that are not all of one size: a call for each, as one.
static int uneven(const struct comm_device *d, const struct comm_call *call, size_t each, int op,
                  void *stream) {
    const struct nccl_library *l = d->library;
    int type = types[call->type].number, code = l->group_start();
    for (int r = 0; r < comm_world(d->host) && code == NCCL_SUCCESS; r++) {
        size_t begin = (size_t)r * each, left = begin < call->count ? call->count - begin : 0;
        size_t count = left < each ? left : each;
        char *part = (char *)call->buf + begin * types[call->type].bytes;
        if (count == 0)
            break;
        code = call->kind == COMM_ALL_GATHER
                   ? l->broadcast(part, part, count, type, r, d->comm, stream)
                   : l->reduce(part, part, count, type, op, r, d->comm, stream);
        code = code == NCCL_IN_PROGRESS ? NCCL_SUCCESS : code;
    }
    int end = l->group_end(); // in any case
    return code == NCCL_SUCCESS ? end : code;
}

static int parted(const struct comm_device *d, const struct comm_call *call, int op, void *stream) {
    const struct nccl_library *l = d->library;
    size_t each = call->each ? call->each : comm_each(d->host, call->count);
    if (each * (size_t)comm_world(d->host) != call->count)
        return uneven(d, call, each, op, stream);
    char *own = (char *)call->buf + (size_t)comm_rank(d->host) * each * types[call->type].bytes;
    return call->kind == COMM_ALL_GATHER
               ? l->all_gather(own, call->buf, each, types[call->type].number, d->comm, stream)
               : l->reduce_scatter(call->buf, own, each, types[call->type].number, op, d->comm,
                                   stream);
}

static int start(const struct comm_device *d, const struct comm_call *call, void *stream) {
    const struct nccl_library *l = d->library;
    int type = types[call->type].number, op = call->op == COMM_MEAN ? NCCL_AVERAGE : NCCL_SUM;
    void *buf = call->buf;
    size_t n = call->count;
    switch (call->kind) {
    case COMM_ALL_REDUCE: return l->all_reduce(buf, buf, n, type, op, d->comm, stream);
    case COMM_BROADCAST: return l->broadcast(buf, buf, n, type, call->peer, d->comm, stream);
    case COMM_SEND: return l->send(buf, n, type, call->peer, d->comm, stream);
    case COMM_RECV: return l->recv(buf, n, type, call->peer, d->comm, stream);
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_GATHER: break;
    }
    return parted(d, call, op, stream);
}

static int nccl_enqueue(struct comm_device *d, const struct comm_call *call, void *stream,
                        uint64_t *ticket, struct err *e) {
    bool sums = call->kind == COMM_ALL_REDUCE || call->kind == COMM_REDUCE_SCATTER;
    if (is_broken(d))
        return breaks(d, e);
    if (comm_possible(d->host, call, e) < 0)
        return -1;
    if (sums && call->type == COMM_BYTE)
        return err_set(e, ERR_CONFIG, "NCCL has no sum of bytes");
    d->record[d->calls % NCCL_RECORDS] = *call;
    *ticket = ++d->calls;
    if (call->count == 0)
        return 0;
    int code = start(d, call, stream);
    if (settle(d, d->comm, code, "starting", e) == 0)
        return 0;
    comm_blame(d->host, call, e);
    return breaks(d, e);
}

static int nccl_exchange(struct comm_device *d, const struct comm_call *send,
                         const struct comm_call *receive, void *stream, uint64_t *ticket,
                         struct err *e) {
    const struct nccl_library *l = d->library;
    const struct comm_call *calls[] = {send, receive};
    if (is_broken(d))
        return breaks(d, e);
    d->record[d->calls % NCCL_RECORDS] = *receive;
    *ticket = ++d->calls;
    int code = l->group_start();
    for (int i = 0; i < 2 && code == NCCL_SUCCESS; i++) {
        code = start(d, calls[i], stream);
        code = code == NCCL_IN_PROGRESS ? NCCL_SUCCESS : code;
    }
    int end = l->group_end(); // in any case
    if (settle(d, d->comm, code == NCCL_SUCCESS ? end : code, "starting", e) == 0)
        return 0;
    comm_blame(d->host, receive, e);
    return breaks(d, e);
}

// ---- failures ----------------------------------------------------------------------------------

static void key_of(char key[NCCL_KEY_BYTES_MAX], const struct comm_device *d, uint64_t ticket,
                   int rank) {
    snprintf(key, NCCL_KEY_BYTES_MAX, "%s/waits/%llu/%d", comm_configuration(d->host)->prefix,
             (unsigned long long)ticket, rank);
}

// A rank that waits long in one call says so in the store. The rank that does not is the cause.
static void say_waiting(struct comm_device *d, uint64_t ticket) {
    const struct comm_kv *kv = &comm_configuration(d->host)->kv;
    char key[NCCL_KEY_BYTES_MAX];
    struct err ignored;
    key_of(key, d, ticket, comm_rank(d->host));
    if (d->said < ticket && kv->set(kv->ctx, key, "1", 1, &ignored) == 0)
        d->said = ticket;
}

static int stalled(const struct comm_device *d, uint64_t ticket, int64_t waited_ms, struct err *e) {
    const struct comm_kv *kv = &comm_configuration(d->host)->kv;
    char key[NCCL_KEY_BYTES_MAX], byte;
    int64_t end = clock_mono_ms() + NCCL_ASK_MS_MAX;
    for (int r = 0; d->said == ticket && r < comm_world(d->host); r++) {
        size_t len;
        int64_t left = end - clock_mono_ms();
        key_of(key, d, ticket, r);
        if (kv->get(kv->ctx, key, &byte, 1, &len, left > 1 ? (int)left : 1, e) == 0)
            continue;
        if (e->code != ERR_TIMEOUT)
            return err_wrap(e, "nothing moved for %lld ms, and the store does not say why",
                            (long long)waited_ms);
        return err_set(e, ERR_TIMEOUT,
                       "rank %d has not come to it within %lld ms (try: what that rank does, "
                       "or a higher train.comm_timeout)",
                       comm_shown(d->host, r), (long long)waited_ms);
    }
    return err_set(e, ERR_TIMEOUT,
                   "all ranks have come, and nothing moved for %lld ms (try: NCCL_DEBUG=INFO, or "
                   "train.collectives host)",
                   (long long)waited_ms);
}

static int nccl_watch(struct comm_device *d, uint64_t ticket, int64_t waited_ms, struct err *e) {
    int code = NCCL_SUCCESS;
    struct comm_device *family = d->family;
    int bad = is_broken(d) ? breaks(d, e) : comm_check(family->host, e);
    if (bad == 0)
        (void)d->library->get_async_error(d->comm, &code);
    if (bad == 0 && code != NCCL_SUCCESS && code != NCCL_IN_PROGRESS)
        bad = lost(d, code, "at work", e);
    if (bad == 0 && waited_ms >= NCCL_SAY_MS)
        say_waiting(d, ticket);
    if (bad == 0 && waited_ms > comm_configuration(d->host)->stall_timeout_ms_max)
        bad = stalled(d, ticket, waited_ms, e);
    if (bad == 0 || is_broken(d))
        return bad;
    must(ticket > 0 && ticket <= d->calls);
    struct err plain = *e; // the others say what they themselves wait in
    comm_fail(family->host, &plain);
    if (d->calls - ticket < NCCL_RECORDS)
        comm_blame(d->host, &d->record[(ticket - 1) % NCCL_RECORDS], e);
    family->broken = *e;
    if (family->release)
        family->release(family->release_arg);
    abort_calls(family); // what waits in the device ends
    return -1;
}

static uint64_t nccl_again(struct comm_device *d, const struct comm_call *calls, int count) {
    uint64_t first = d->calls + 1;
    for (int i = 0; i < count; i++)
        d->record[d->calls++ % NCCL_RECORDS] = calls[i];
    return first;
}

static void nccl_before_abort(struct comm_device *d, void (*release)(void *arg), void *arg) {
    d->family->release = release;
    d->family->release_arg = arg;
}

static const char *nccl_about(const struct comm_device *d) {
    return d->about;
}

const struct comm_device_table comm_nccl = {.name = "nccl",
                                            .open = nccl_open,
                                            .split = nccl_split,
                                            .enqueue = nccl_enqueue,
                                            .exchange = nccl_exchange,
                                            .watch = nccl_watch,
                                            .again = nccl_again,
                                            .before_abort = nccl_before_abort,
                                            .about = nccl_about,
                                            .close = nccl_close};
