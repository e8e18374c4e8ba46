// SPDX-License-Identifier: Apache-2.0
// A stop in progress: later orders shorten the grace period and send no second signal, whatever
// time lies between them.
#include "worker/workers.h"

#include "base/clock.h"
#include "base/log.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 60000, LONG_MS = 600000, SHORT_MS = 1000 };

static struct err e;
static bool gone, ran, ended; // as on_started and on_exited find the worker
static int status;

static void on_started(struct workers *w) {
    ran = w->list[0].running && !w->list[0].ended;
}

static void on_exited(struct workers *w, const struct worker *x) {
    (void)w;
    status = x->status;
    ended = x->ended && !x->running;
}

static void on_gone(struct workers *w, int orphans) {
    (void)w;
    gone = orphans == 0;
}

static const struct workers_events events = {on_started, on_exited, on_gone};

struct order {
    int signal;
    int64_t grace_ms;
};

struct streams {
    int in[2], out[2];
    char text[256];
    size_t len;
};

// Takes what the worker has printed. False when it cannot print more.
static bool collect(struct streams *s) {
    ssize_t n = read(s->out[0], s->text + s->len, sizeof s->text - 1 - s->len);
    if (n > 0)
        s->len += (size_t)n;
    return n > 0 || (n < 0 && errno == EAGAIN);
}

static bool has(struct streams *s, const char *word) {
    collect(s);
    return strstr(s->text, word) != NULL;
}

// The worker inherits the streams of this process.
static int start(struct workers *w, struct streams *s) {
    int kept[] = {dup(0), dup(1)};
    struct worker_facts facts = {.run = "r",
                                 .role = "default",
                                 .node = "n",
                                 .nproc = 1,
                                 .group_world = 1,
                                 .world_size = 1,
                                 .role_world = 1,
                                 .master_addr = "127.0.0.1",
                                 .ifname = "",
                                 .signals = ""};
    if (pipe2(s->in, O_CLOEXEC) < 0 || pipe2(s->out, O_CLOEXEC) < 0 || kept[0] < 0 || kept[1] < 0)
        bail_out("no pipes");
    (void)fcntl(s->out[0], F_SETFL, O_NONBLOCK);
    (void)fflush(stdout);
    dup2(s->in[0], 0);
    dup2(s->out[1], 1);
    int rc = workers_start(w, &facts, 0, &e);
    for (int i = 0; i < 2; i++) {
        dup2(kept[i], i);
        close(kept[i]);
    }
    close(s->in[0]);
    close(s->out[1]);
    return rc;
}

// Starts a worker that prints the name of each signal and ends when it reads a line, gives it the
// orders of one callback with a pause before each, and the line after its first signal. Returns
// its output.
static const char *stop_by(const struct order *orders, int count, int pause_ms, bool with_line) {
    static const char *const command[] = {
        "sh", "-c",
        "for s in TERM INT USR1; do trap \"echo $s\" $s; done; echo up; "
        "until read -r line; do :; done; exit 7",
        NULL};
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", *const env[] = {path, NULL};
    static const bool on_console[] = {true};
    static const unsigned char no_files[] = {0};
    static struct streams s;
    static const struct workers_config config = {.command = command,
                                                 .env = env,
                                                 .nproc = 1,
                                                 .streams_to_file = no_files,
                                                 .streams_to_both = no_files,
                                                 .on_console = on_console,
                                                 .role = "default",
                                                 .host = "host"};
    struct workers w = {0};
    struct loop *loop = loop_open(&e);
    s = (struct streams){.len = 0};
    gone = ran = ended = false;
    status = -1;
    if (!loop)
        bail_out("no loop: %s", e.text);
    workers_init(&w, loop, &config, &events);
    if (start(&w, &s) < 0)
        bail_out("no worker: %s", e.text);
    int64_t until = clock_mono_ms() + WAIT_MS_MAX;
    while (!has(&s, "up") && clock_mono_ms() < until)
        loop_once(loop, 5);
    for (int i = 0; i < count; i++) {
        nanosleep(&(struct timespec){0, pause_ms * 1000000L}, NULL);
        workers_stop(&w, orders[i].signal, orders[i].grace_ms);
    }
    while (!gone && clock_mono_ms() < until) {
        loop_once(loop, 5);
        if (with_line && has(&s, "USR1"))
            with_line = write(s.in[1], "\n", 1) < 0;
    }
    while (gone && collect(&s))
        ;
    close(s.in[1]);
    close(s.out[0]);
    workers_fini(&w);
    loop_close(loop);
    return s.text;
}

int main(void) {
    log_open("test", LOG_ERROR, LOG_PLAIN);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    for (int pause_ms = 0; pause_ms <= 4; pause_ms += 2) {
        const struct order same[] = {{SIGUSR1, LONG_MS}, {SIGTERM, LONG_MS}, {SIGINT, LONG_MS + 1}};
        is_str(stop_by(same, 3, pause_ms, true), "up\nUSR1\n",
               "orders %d ms apart send one signal to a worker", pause_ms);
        ok(gone && WIFEXITED(status) && WEXITSTATUS(status) == 7, "the worker ends by itself");
        ok(ran && ended, "the worker is running from its start to its end");
    }
    const struct order shorter[] = {{SIGUSR1, LONG_MS}, {SIGTERM, SHORT_MS}};
    is_str(stop_by(shorter, 2, 0, false), "up\nUSR1\n", "a shorter grace period has no signal");
    ok(gone && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "SIGKILL ends it then");
    const struct order longer[] = {{SIGUSR1, SHORT_MS}, {SIGTERM, LONG_MS}};
    is_str(stop_by(longer, 2, 0, false), "up\nUSR1\n", "a longer grace period has no signal");
    ok(gone && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the shorter period is kept");
    const struct order at_once[] = {{SIGUSR1, LONG_MS}, {SIGKILL, 0}};
    (void)stop_by(at_once, 2, 0, false);
    ok(gone && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "no grace period is SIGKILL");
    return done_testing();
}
