// SPDX-License-Identifier: Apache-2.0
// Answers of an agent to a command on its node: in pieces, too long, none, no JSON. Each message of
// the socket is one read.
#include "agent/control_socket.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 10000, SHORT_MS = 50 };
static struct arena a;
static struct err e;

// The parts are the agent's answer; NULL ends them. 0, or the code of the error.
static int ask(const char *const *parts, bool ends, int timeout_ms, struct json **answer) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
        bail_out("no sockets");
    for (; *parts; parts++)
        if (send(fds[1], *parts, strlen(*parts), 0) < 0)
            bail_out("cannot send");
    if (ends && shutdown(fds[1], SHUT_WR) < 0)
        bail_out("cannot end");
    err_clear(&e);
    int result = control_ask(fds[0], CONTROL_WAIT, timeout_ms, &a, answer, &e);
    close(fds[0]);
    close(fds[1]);
    return result < 0 ? (int)e.code : 0;
}

int main(void) {
    struct json *j = NULL;
    is_int(ask((const char *[]){"{\"ok\":true}\n", NULL}, false, WAIT_MS, &j), 0,
           "an answer is read");
    is_int(json_get_bool(j, "ok", false), true, "the answer has its members");
    is_int(ask((const char *[]){"{\"o", "k\":", "true}\nrest", NULL}, false, WAIT_MS, &j), 0,
           "an answer may come in pieces");
    is_int(json_get_bool(j, "ok", false), true, "pieces are one text");

    // The longest answer, and one byte more; its first part is read before the rest.
    for (size_t more = 0; more < 2; more++) {
        static const char begin[] = "{\"x\":\"";
        size_t len = CONTROL_ANSWER_BYTES_MAX - strlen(begin) + more;
        char *rest = heap_alloc(len + 1);
        memset(rest, 'x', len);
        memcpy(rest + len - 3, "\"}\n", 3);
        int code = ask((const char *[]){begin, rest, NULL}, false, WAIT_MS, &j);
        is_int(code, more ? ERR_LIMIT : 0, "an answer of %zu bytes more than the limit: %s", more,
               e.text);
        free(rest);
    }
    is_int(ask((const char *[]){NULL}, false, SHORT_MS, &j), ERR_TIMEOUT,
           "an agent without an answer is left");
    is_int(ask((const char *[]){"{\"ok\":", NULL}, false, SHORT_MS, &j), ERR_TIMEOUT,
           "an agent that stops in its answer is left");
    is_int(ask((const char *[]){"{\"ok\":", NULL}, true, WAIT_MS, &j), ERR_NET,
           "an agent that ends in its answer is reported");
    is_int(ask((const char *[]){"ok\n", NULL}, false, WAIT_MS, &j), ERR_FORMAT,
           "an answer that is no JSON is refused");
    arena_fini(&a);
    return done_testing();
}
