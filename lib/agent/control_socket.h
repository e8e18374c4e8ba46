// SPDX-License-Identifier: Apache-2.0
// The control socket for commands on the agent's own node: a unix socket (mode 0600) in the run's
// folder. A command is one JSON line: {"op":"stop","signal":15,"grace_ms":30000}, {"op":"wait"} or
// {"op":"sample"}. The answer is {"ok":true}, with the members of on_answer. The connection then
// stays open until the agent ends, which notifies the client. A client without a command is
// disconnected after CONTROL_CLIENT_MS_MAX.
#ifndef AGENT_CONTROL_SOCKET_H
#define AGENT_CONTROL_SOCKET_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "sys/listener.h"

enum {
    CONTROL_LINE_BYTES_MAX = 4096,
    CONTROL_ANSWER_BYTES_MAX = 16384,
    CONTROL_CLIENTS_MAX = 64,
    CONTROL_CLIENT_MS_MAX = 5000,
};
#define CONTROL_NAME   "control.sock"
#define CONTROL_WAIT   "{\"op\":\"wait\"}\n"
#define CONTROL_SAMPLE "{\"op\":\"sample\"}\n"

struct control_client;

struct control {
    struct loop *loop; // NULL: closed
    struct listener listener;
    int dir_fd;
    struct control_client *clients; // newest first
    int count;
    void (*on_command)(struct control *c, const struct json *command);
    // Adds members to the answer; NULL: there are none.
    void (*on_answer)(struct control *c, const struct json *command, struct json_out *answer);
    void *ctx;
};

// Creates the socket. From then on the run counts as active; clients wait until control_open. The
// caller owns the fd.
int control_listen(const char *run_dir, struct err *e);
// door_fd: of control_listen; ownership passes.
int control_open(struct control *c, struct loop *loop, const char *run_dir, int door_fd,
                 void (*on_command)(struct control *c, const struct json *command), struct err *e);
void control_close(struct control *c);
// Connects to the agent of a run. ERR_NOT_FOUND when it does not run any more; ERR_TIMEOUT when it
// has taken no connection for wait_ms (0: no limit), so it is there.
int control_connect(const char *run_dir, int wait_ms, struct err *e);
// Sends a command and reads its answer (blocking), in the arena. ERR_TIMEOUT after timeout_ms.
int control_ask(int fd, const char *command, int timeout_ms, struct arena *a, struct json **answer,
                struct err *e);

#endif
