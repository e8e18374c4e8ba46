// SPDX-License-Identifier: Apache-2.0
// OpenSSH's server on loopback, in the loop of the test: each connection has an sshd of its own.
// The key in `sshd_login` opens it. Servers that are no SSH servers can listen in the same way.
//
//     if (!sshd_can_run()) …skip…
//     sshd_prepare(folder, loop);
//     sshd_listen(&server, "MaxSessions 1\n");       // then connect to server.port
//     sshd_signal(&server, SIGSTOP);                 // to the sshd of the newest connection
//     sshd_end(&server);
#ifndef DTCTL_TESTS_UNIT_REMOTE_SSHD_REAL_H
#define DTCTL_TESTS_UNIT_REMOTE_SSHD_REAL_H

#include "remote/known_hosts.h"
#include "remote/ssh_key.h"
#include "sys/file.h"
#include "sys/loop.h"
#include "tests/tap.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SSHD_PROGRAM "/usr/sbin/sshd"

enum { SSHD_CONNECTIONS_MAX = 16, SSHD_WAIT_MS_MAX = 20000 };

struct sshd {
    struct watch watch;
    int port;
    const char *config;                                 // a file; NULL: no sshd
    void (*on_connection)(struct sshd *server, int fd); // instead of sshd; owns fd
    pid_t started[SSHD_CONNECTIONS_MAX];
    int connections;
};

static struct arena sshd_arena;
static struct loop *sshd_loop;
static const char *sshd_folder, *sshd_login; // the file of the key
static struct ssh_key sshd_host_key;

static int64_t sshd_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now); // no test turns it
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Runs the loop until the condition holds.
#define sshd_wait(condition)                                                                       \
    __extension__({                                                                                \
        int64_t sshd_until = sshd_now_ms() + SSHD_WAIT_MS_MAX;                                     \
        while (!(condition) && sshd_now_ms() < sshd_until)                                         \
            loop_once(sshd_loop, 20);                                                              \
        (condition);                                                                               \
    })

// As root sshd needs a folder below /run: this program gets a /run of its own.
TAP_UNUSED static bool sshd_can_run(void) {
    if (access(SSHD_PROGRAM, X_OK) < 0)
        return false;
    return geteuid() != 0 ||
           (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
            mount("tmpfs", "/run", "tmpfs", 0, "mode=755") == 0 && mkdir("/run/sshd", 0755) == 0);
}

static const char *sshd_file(const char *name, const char *text) {
    struct err e = {0};
    const char *path = file_join(&sshd_arena, sshd_folder, name);
    if (file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
    return path;
}

TAP_UNUSED static void sshd_prepare(const char *folder, struct loop *loop) {
    struct ssh_key login;
    struct err e = {0};
    sshd_folder = folder;
    sshd_loop = loop;
    if (ssh_key_make(&sshd_arena, "host", &sshd_host_key, &e) < 0 ||
        ssh_key_make(&sshd_arena, "login", &login, &e) < 0)
        bail_out("%s", e.text);
    sshd_file("host", sshd_host_key.private_key);
    sshd_login = sshd_file("login", login.private_key);
    sshd_file("authorized", login.public_key);
}

static void sshd_start(struct sshd *s, int fd) {
    pid_t pid = fork();
    if (pid < 0)
        bail_out("no process");
    if (pid == 0) {
        int log =
            open(file_join(&sshd_arena, sshd_folder, "log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
        setpgid(0, 0);
        dup2(fd, 0);
        dup2(fd, 1);
        dup2(log, 2);
        execl(SSHD_PROGRAM, SSHD_PROGRAM, "-i", "-e", "-f", s->config, (char *)NULL);
        _exit(127);
    }
    setpgid(pid, pid);
    s->started[s->connections - 1] = pid;
    close(fd);
}

static void sshd_on_accept(struct watch *w, unsigned events) {
    struct sshd *s = container_of(w, struct sshd, watch);
    (void)events;
    int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (s->connections == SSHD_CONNECTIONS_MAX)
        bail_out("too many connections");
    s->connections++;
    if (s->on_connection)
        s->on_connection(s, fd);
    else
        sshd_start(s, fd);
}

// With AES-GCM libssh2 1.11.1 loses 96 bytes for each connection. options: lines of sshd_config
// that come before the usual ones.
TAP_UNUSED static void sshd_listen(struct sshd *s, const char *options) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof to;
    struct err e = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&to, len) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&to, &len) < 0 ||
        watch_start(sshd_loop, &s->watch, fd, LOOP_READ, sshd_on_accept, &e) < 0)
        bail_out("no port");
    s->port = ntohs(to.sin_port);
    s->config = sshd_file(
        arena_printf(&sshd_arena, "config.%d", s->port),
        arena_printf(&sshd_arena,
                     "%sCiphers aes256-ctr\nSetEnv HOME=/\nHostKey %s/host\nAuthorizedKeysFile "
                     "%s/authorized\nStrictModes no\n"
                     "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                     "PermitRootLogin yes\nPrintMotd no\nPrintLastLog no\nLogLevel ERROR\n",
                     options, sshd_folder, sshd_folder));
}

TAP_UNUSED static void sshd_signal(const struct sshd *s, int signal) {
    if (s->connections == 0 || kill(-s->started[s->connections - 1], signal) < 0)
        bail_out("there is no sshd");
}

// Whether the sshd of that connection has ended.
TAP_UNUSED static bool sshd_has_ended(struct sshd *s, int connection) {
    if (s->started[connection] && waitpid(s->started[connection], NULL, WNOHANG) != 0)
        s->started[connection] = 0;
    return s->started[connection] == 0;
}

TAP_UNUSED static void sshd_end(struct sshd *s) {
    int fd = s->watch.fd;
    watch_stop(&s->watch);
    close(fd);
    for (int i = 0; i < s->connections; i++)
        if (!sshd_has_ended(s, i)) {
            kill(-s->started[i], SIGKILL);
            waitpid(s->started[i], NULL, 0);
        }
    s->connections = 0;
}

#endif
