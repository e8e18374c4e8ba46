// SPDX-License-Identifier: Apache-2.0
// Resolves host names: a queue of names, and threads that live while the queue has names.
#include "sys/resolver.h"

#include "base/arena.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DONE, JOB_DROPPED /* its thread frees it */ };

// One attempt. The result is written by a thread and read by the owner once the state is DONE.
struct resolver_job {
    struct resolver_job *next;
    enum job_state state;
    int end_fd;
    int port;
    int count;
    struct net_address found[RESOLVER_ADDRESSES_MAX];
    struct err err;
    char host[NET_HOST_BYTES_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct resolver_job *queue, **queue_end = &queue;
static int threads;

static void job_free(struct resolver_job *j) {
    close(j->end_fd);
    free(j);
}

static struct resolver_job *take(void) {
    struct resolver_job *j = queue;
    if (!j)
        return NULL;
    queue = j->next;
    if (!queue)
        queue_end = &queue;
    j->state = JOB_RUNNING;
    return j;
}

static void *resolve(void *arg) {
    struct resolver_job *j;
    pthread_mutex_lock(&lock);
    while ((j = take())) {
        pthread_mutex_unlock(&lock);
        j->count = net_resolve_all(j->host, j->port, j->found, RESOLVER_ADDRESSES_MAX, &j->err);
        pthread_mutex_lock(&lock);
        if (j->state == JOB_DROPPED) {
            job_free(j);
            continue;
        }
        j->state = JOB_DONE;
        (void)eventfd_write(j->end_fd, 1); // the owner closes it, with the lock held
    }
    threads--;
    pthread_mutex_unlock(&lock);
    return arg;
}

// With the lock held. One thread is enough; further ones save time.
static int add_thread(struct err *e) {
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t id;
    if (threads == RESOLVER_THREADS_MAX)
        return 0;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); // signals are handled by the loop's thread
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&id, &attr, resolve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    threads += !error;
    return threads > 0
               ? 0
               : err_set(e, ERR_SYS, "cannot start a thread to resolve with: %s", strerror(error));
}

static void unqueue(struct resolver_job *j) {
    struct resolver_job **at = &queue;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    if (!*at)
        queue_end = at;
}

static int job_start(struct resolver *l, struct err *e) {
    struct resolver_job *j = heap_alloc(sizeof *j);
    j->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (j->end_fd < 0) {
        free(j);
        return err_errno(e, ERR_SYS, "cannot make an eventfd");
    }
    j->port = l->port;
    memcpy(j->host, l->host, sizeof j->host);
    pthread_mutex_lock(&lock);
    *queue_end = j;
    queue_end = &j->next;
    int result = add_thread(e);
    if (result < 0)
        unqueue(j);
    pthread_mutex_unlock(&lock);
    if (result < 0)
        job_free(j);
    else
        l->job = j;
    return result;
}

static void job_stop(struct resolver *l) {
    struct resolver_job *j = l->job;
    watch_stop(&l->end);
    l->job = NULL;
    if (!j)
        return;
    pthread_mutex_lock(&lock);
    if (j->state == JOB_QUEUED)
        unqueue(j);
    bool is_running = j->state == JOB_RUNNING;
    if (is_running)
        j->state = JOB_DROPPED;
    pthread_mutex_unlock(&lock);
    if (!is_running)
        job_free(j);
}

static void on_again(struct timer *t);

static void attempt_over(struct resolver *l) {
    l->attempts++;
    if (l->count <= 0) {
        l->count = 0;
        timer_start(l->loop, &l->again, RESOLVER_AGAIN_MS, on_again);
    }
    l->cb(l); // may free l
}

static void on_end(struct watch *w, unsigned events) {
    struct resolver *l = container_of(w, struct resolver, end);
    (void)events;
    pthread_mutex_lock(&lock); // the thread has written the result before it took the lock
    l->count = l->job->count;
    memcpy(l->found, l->job->found, sizeof l->found);
    l->err = l->job->err;
    pthread_mutex_unlock(&lock);
    job_stop(l);
    attempt_over(l);
}

static int attempt(struct resolver *l, struct err *e) {
    if (job_start(l, e) < 0)
        return -1;
    if (watch_start(l->loop, &l->end, l->job->end_fd, LOOP_READ, on_end, e) == 0)
        return 0;
    job_stop(l);
    return -1;
}

static void on_again(struct timer *t) {
    struct resolver *l = container_of(t, struct resolver, again);
    if (attempt(l, &l->err) < 0)
        attempt_over(l);
}

static void on_numeric(struct timer *t) {
    struct resolver *l = container_of(t, struct resolver, again);
    l->count = net_resolve_all(l->host, l->port, l->found, RESOLVER_ADDRESSES_MAX, &l->err);
    attempt_over(l);
}

int resolver_start(struct loop *loop, struct resolver *l, const char *host, int port,
                   resolver_cb *cb, struct err *e) {
    *l = (struct resolver){.loop = loop, .cb = cb, .port = port};
    if (strlen(host) >= sizeof l->host)
        return err_set(e, ERR_CONFIG, "the host name '%.40s…' has more than %d bytes", host,
                       NET_HOST_BYTES_MAX - 1);
    memcpy(l->host, host, strlen(host) + 1);
    if (!net_is_numeric(host))
        return attempt(l, e);
    timer_start(loop, &l->again, 0, on_numeric);
    return 0;
}

void resolver_stop(struct resolver *l) {
    timer_stop(&l->again);
    job_stop(l);
}
