// SPDX-License-Identifier: Apache-2.0
// The control socket of an agent. Socket paths are limited to 108 bytes, folders of runs are not,
// so both sides use /proc/self/fd/<folder>/.
#include "agent/control_socket.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/conn.h"
#include "sys/net.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct control_client {
    struct conn conn;
    struct control *control;
    struct control_client *prev, *next;
    struct deferred gone;
};

static void client_free(struct deferred *d) {
    free(container_of(d, struct control_client, gone));
}

static void client_drop(struct control_client *i) {
    struct control *c = i->control;
    conn_close(&i->conn);
    *(i->prev ? &i->prev->next : &c->clients) = i->next;
    if (i->next)
        i->next->prev = i->prev;
    c->count--;
    loop_defer(c->loop, &i->gone, client_free);
}

static void send_answer(struct control_client *i, const struct json *command) {
    struct control *c = i->control;
    struct strbuf text = {0};
    struct json_out j;
    json_open(&j, &text);
    json_object(&j, NULL);
    json_bool(&j, "ok", true);
    if (c->on_answer)
        c->on_answer(c, command, &j);
    json_end(&j);
    strbuf_addc(&text, '\n');
    conn_send(&i->conn, text.data, text.len);
    strbuf_fini(&text);
}

static void on_line(struct control_client *i, const char *line, size_t len) {
    struct arena a = {0};
    struct json *command;
    struct err e;
    if (json_parse(&a, line, len, &command, &e) < 0 || command->type != JSON_OBJECT) {
        static const char no[] = "{\"ok\":false,\"text\":\"not a command\"}\n";
        conn_send(&i->conn, no, sizeof no - 1);
    } else {
        send_answer(i, command);
        conn_idle_limit(&i->conn, 0); // the client waits for the end
        i->control->on_command(i->control, command);
    }
    arena_fini(&a);
}

static void on_data(struct conn *conn) {
    struct control_client *i = container_of(conn, struct control_client, conn);
    while (conn_is_open(conn)) {
        const char *end = memchr(conn->in.data, '\n', conn->in.len);
        if (!end)
            break;
        size_t len = (size_t)(end - conn->in.data);
        on_line(i, conn->in.data, len);
        if (conn_is_open(conn))
            strbuf_consume(&conn->in, len + 1);
    }
    if (conn_is_open(conn) && conn->in.len >= CONTROL_LINE_BYTES_MAX)
        client_drop(i);
}

static void on_end(struct conn *conn, const struct err *e) {
    (void)e;
    client_drop(container_of(conn, struct control_client, conn));
}

static const struct conn_events conn_table = {.on_data = on_data, .on_end = on_end};

static void on_accept(struct listener *l, int fd, const struct net_address *peer) {
    struct control *c = container_of(l, struct control, listener);
    struct err e;
    (void)peer;
    if (c->count >= CONTROL_CLIENTS_MAX) { // waiting clients are kept
        close(fd);
        return;
    }
    struct control_client *i = heap_alloc(sizeof *i);
    i->control = c;
    if (conn_open(&i->conn, c->loop, fd, &conn_table, CONTROL_LINE_BYTES_MAX, 65536, &e) < 0) {
        close(fd);
        free(i);
        return;
    }
    conn_idle_limit(&i->conn, CONTROL_CLIENT_MS_MAX); // until its first command
    i->next = c->clients;
    if (i->next)
        i->next->prev = i;
    c->clients = i;
    c->count++;
}

static int folder_path(const char *run_dir, char out[64], struct err *e) {
    int fd = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_NOT_FOUND, "no run folder '%s'", run_dir);
    snprintf(out, 64, "/proc/self/fd/%d/" CONTROL_NAME, fd);
    return fd;
}

int control_listen(const char *run_dir, struct err *e) {
    char path[64];
    int dir_fd = folder_path(run_dir, path, e);
    if (dir_fd < 0)
        return -1;
    int fd = net_unix_listen(path, e);
    close(dir_fd);
    return fd < 0 ? err_wrap(e, "control socket in '%s'", run_dir) : fd;
}

int control_open(struct control *c, struct loop *loop, const char *run_dir, int door_fd,
                 void (*on_command)(struct control *c, const struct json *command), struct err *e) {
    char path[64];
    *c = (struct control){
        .on_command = on_command, .on_answer = c->on_answer, .ctx = c->ctx, .dir_fd = -1};
    c->dir_fd = folder_path(run_dir, path, e);
    if (c->dir_fd < 0)
        return -1;
    if (listener_open(&c->listener, loop, door_fd, "commands", on_accept, e) < 0) {
        close(c->dir_fd);
        return -1;
    }
    c->loop = loop;
    return 0;
}

void control_close(struct control *c) {
    if (!c->loop)
        return;
    listener_close(&c->listener);
    unlinkat(c->dir_fd, CONTROL_NAME, 0);
    close(c->dir_fd);
    while (c->clients)
        client_drop(c->clients);
    c->loop = NULL;
}

int control_connect(const char *run_dir, int wait_ms, struct err *e) {
    char path[64];
    int dir = folder_path(run_dir, path, e);
    if (dir < 0)
        return -1;
    int fd = net_unix_connect_within(path, wait_ms, e);
    close(dir);
    if (fd < 0 && e->code != ERR_TIMEOUT)
        e->code = ERR_NOT_FOUND;
    return fd;
}

int control_ask(int fd, const char *command, int timeout_ms, struct arena *a, struct json **answer,
                struct err *e) {
    char *text = arena_new(a, char, CONTROL_ANSWER_BYTES_MAX), *end = NULL;
    size_t len = 0;
    int64_t until_ms = clock_mono_ms() + timeout_ms;
    if (send(fd, command, strlen(command), MSG_NOSIGNAL) < 0)
        return err_errno(e, ERR_NET, "cannot ask the agent");
    while (!end && len < CONTROL_ANSWER_BYTES_MAX) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = until_ms - clock_mono_ms();
        int ready = poll(&p, 1, left > 0 ? (int)left : 0);
        if (err_interrupted(ready))
            continue;
        if (ready <= 0)
            return err_set(e, ERR_TIMEOUT, "the agent has not answered within %d ms", timeout_ms);
        ssize_t n = read(fd, text + len, CONTROL_ANSWER_BYTES_MAX - len);
        if (n <= 0)
            return err_set(e, ERR_NET, "the agent has ended");
        end = memchr(text + len, '\n', (size_t)n);
        len += (size_t)n;
    }
    if (!end)
        return err_set(e, ERR_LIMIT, "the agent's answer is longer than %d bytes",
                       CONTROL_ANSWER_BYTES_MAX);
    return json_parse(a, text, (size_t)(end - text), answer, e);
}
