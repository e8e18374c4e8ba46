// SPDX-License-Identifier: Apache-2.0
// The agent's door for commands on its own node: a unix socket (mode 0600) in the run's folder. One
// JSON line per command: {"op":"stop","signal":15,"grace_ms":30000}, or {"op":"wait"} by a client
// that only waits. The answer is {"ok":true}; the connection then stays open until the agent ends,
// so that its end is news without asking. A client that sends no command is sent away after
// CONTROL_CLIENT_MS_MAX.
#ifndef AGENT_CONTROL_SOCKET_H
#define AGENT_CONTROL_SOCKET_H

#include "base/err.h"
#include "base/json.h"
#include "sys/listener.h"

enum { CONTROL_LINE_BYTES_MAX = 4096, CONTROL_CLIENTS_MAX = 64, CONTROL_CLIENT_MS_MAX = 5000 };
#define CONTROL_NAME "control.sock"
#define CONTROL_WAIT "{\"op\":\"wait\"}\n"

struct control_client;

struct control {
    struct loop *loop; // NULL: closed
    struct listener listener;
    int dir_fd;
    struct control_client *clients; // newest first
    int count;
    void (*on_command)(struct control *c, const struct json *command);
    void *ctx;
};

// Makes the door; from then on the run is known to go on here, and who comes waits until
// control_open lets him in. The fd is the caller's.
int control_listen(const char *run_dir, struct err *e);
// door_fd: of control_listen, taken over.
int control_open(struct control *c, struct loop *loop, const char *run_dir, int door_fd,
                 void (*on_command)(struct control *c, const struct json *command), struct err *e);
void control_close(struct control *c);
// Blocking; a connection to the agent of that run. ERR_NOT_FOUND when it does not run any more.
int control_connect(const char *run_dir, struct err *e);

#endif
