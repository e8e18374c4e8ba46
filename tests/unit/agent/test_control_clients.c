// SPDX-License-Identifier: Apache-2.0
// The agent's side of its control socket: clients that wait, ask, misbehave and go.
#include "agent/control_socket.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char folder[] = "/tmp/test_control.XXXXXX";
static struct arena a;
static struct loop *loop;
static struct control control;
static const char *commands; // that have come
static struct err error;

static void turn(void) {
    for (int i = 0; i < 20; i++)
        loop_once(loop, 0);
}

static void on_command(struct control *c, const struct json *command) {
    is_int(c == &control, true, "a command is for this agent");
    commands = arena_printf(&a, "%s%s ", commands, json_get_str(command, "op", "?"));
}

static void add_answer(struct control *c, const struct json *command, struct json_out *answer) {
    (void)c;
    json_str(answer, "to", json_get_str(command, "op", "?"));
}

static void begin(void) {
    int door = control_listen(folder, &error);
    commands = "";
    control = (struct control){.on_answer = NULL};
    if (door < 0 || control_open(&control, loop, folder, door, on_command, &error) < 0)
        bail_out("%s", error.text);
}

static int client(void) {
    int fd = control_connect(folder, 0, &error);
    if (fd < 0)
        bail_out("%s", error.text);
    turn();
    return fd;
}

// Sends it; the answer. "-": none yet; "over": the agent has closed the connection.
static const char *say(int fd, const char *text, size_t len) {
    char got[256];
    (void)send(fd, text, len, MSG_NOSIGNAL);
    turn();
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);
    return n > 0 ? arena_strndup(&a, got, (size_t)n) : n == 0 ? "over" : "-";
}

static const char *ask(int fd, const char *text) {
    return say(fd, text, strlen(text));
}

static void test_before(void) {
    is_int(control_connect(folder, 0, &error), -1, "there is no agent yet");
    is_int(error.code, ERR_NOT_FOUND, "the agent is not found");
    is_int(control_connect("/nowhere", 0, &error), -1, "a run may have no folder");
    int door = control_listen(folder, &error);
    ok(door >= 0, "an agent that begins has its socket: %s", error.text);
    int fd = control_connect(folder, 0, &error);
    ok(fd >= 0, "a client may come before the agent listens");
    (void)send(fd, CONTROL_WAIT, strlen(CONTROL_WAIT), MSG_NOSIGNAL);
    commands = "";
    is_int(control_open(&control, loop, folder, door, on_command, &error), 0, "the agent listens");
    is_str(ask(fd, ""), "{\"ok\":true}\n", "the client has its answer then");
    is_str(commands, "wait ", "the command was taken");
    control_close(&control);
    is_str(ask(fd, ""), "over", "at its end the agent leaves its clients");
    ok(!file_exists(file_join(&a, folder, CONTROL_NAME)), "the socket of the agent is gone");
    is_int(control_connect(folder, 0, &error), -1, "no client can come any more");
    close(fd);
    control_close(&control);
    int none = control_listen("/nowhere", &error);
    is_int(none, -1, "an agent needs a folder");
    is_int(control_open(&control, loop, "/nowhere", dup(0), on_command, &error), -1,
           "a folder may be gone meanwhile");
}

static void test_commands(void) {
    begin();
    control.on_answer = add_answer;
    int fd = client(), other = client();
    is_str(ask(fd, "{\"op\":\"one\"}\n"), "{\"ok\":true,\"to\":\"one\"}\n", "answers have members");
    is_str(ask(fd, "{\"op\":"), "-", "half a command has no answer");
    is_str(ask(fd, "\"two\"}\n"), "{\"ok\":true,\"to\":\"two\"}\n", "the other half completes it");
    is_str(commands, "one two ", "both commands were taken, in order");
    is_str(ask(other, "{\"op\":\"a\"}\n{\"op\":\"b\"}\n{\"op\":"),
           "{\"ok\":true,\"to\":\"a\"}\n{\"ok\":true,\"to\":\"b\"}\n",
           "commands that come at once are answered, each by its line");
    is_str(ask(other, "\"c\"}\n"), "{\"ok\":true,\"to\":\"c\"}\n",
           "the rest of a third one is kept");
    is_str(commands, "one two a b c ", "all of them were taken");
    static const char *const wrong[] = {"words\n", "[1]\n", "\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        is_str(ask(fd, wrong[i]), "{\"ok\":false,\"text\":\"not a command\"}\n",
               "a line that is no command is refused (%zu)", i);
    is_str(commands, "one two a b c ", "such a line is no command");
    is_str(ask(other, "{\"op\":\"three\"}\n"), "{\"ok\":true,\"to\":\"three\"}\n",
           "another client is served");
    static char line[CONTROL_LINE_BYTES_MAX];
    memset(line, ' ', sizeof line);
    memcpy(line, "{\"op\":\"x\"}", 10);
    line[sizeof line - 1] = '\n';
    is_str(say(fd, line, sizeof line), "{\"ok\":true,\"to\":\"x\"}\n", "a line may have its limit");
    line[sizeof line - 1] = ' ';
    is_str(say(fd, line, sizeof line), "over", "a line without an end is none");
    is_str(ask(other, "{\"op\":\"y\"}\n"), "{\"ok\":true,\"to\":\"y\"}\n",
           "other clients are served as before");
    close(fd);
    close(other);
    turn();
    is_int(control.count, 0, "clients that have gone are forgotten");
    control_close(&control);
}

static void test_many(void) {
    int fds[CONTROL_CLIENTS_MAX + 1];
    begin();
    for (int i = 0; i <= CONTROL_CLIENTS_MAX; i++)
        fds[i] = client();
    is_int(control.count, CONTROL_CLIENTS_MAX, "clients have a limit");
    is_str(ask(fds[CONTROL_CLIENTS_MAX], "{\"op\":\"x\"}\n"), "over", "one more is refused");
    is_str(ask(fds[CONTROL_CLIENTS_MAX - 1], "{\"op\":\"x\"}\n"), "{\"ok\":true}\n",
           "the last one is served");
    close(fds[5]);
    turn();
    close(fds[CONTROL_CLIENTS_MAX]);
    fds[5] = client();
    is_str(ask(fds[5], "{\"op\":\"x\"}\n"), "{\"ok\":true}\n", "the place of another one is free");
    is_str(ask(fds[4], "{\"op\":\"x\"}\n"), "{\"ok\":true}\n", "older clients are served");
    is_str(ask(fds[6], "{\"op\":\"x\"}\n"), "{\"ok\":true}\n", "newer clients are served");
    control_close(&control);
    is_int(control.count, 0, "at its end the agent has no clients");
    for (int i = 0; i < CONTROL_CLIENTS_MAX; i++)
        close(fds[i]);
}

int main(void) {
    loop = loop_open(&error);
    if (!loop || !mkdtemp(folder))
        bail_out("no folder");
    test_before();
    test_commands();
    test_many();
    loop_close(loop);
    file_remove_tree(folder, &error);
    arena_fini(&a);
    return done_testing();
}
