// SPDX-License-Identifier: Apache-2.0
// The reachability check of a node: greetings of a listener, and the lines of a prober about its
// peers.
#include "base/clock.h"
#include "sys/net.h"
#include "tests/unit/node/verb_process.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { NAME_BYTES_MAX = 128, PEERS_MAX = 4096, INPUT_BYTES_MAX = 1 << 20, WAIT_MS_MAX = 60000 };

static char long_text[INPUT_BYTES_MAX + 2];

static const char *letters(size_t count) {
    memset(long_text, 'n', count);
    long_text[count] = '\0';
    return long_text;
}

static void test_usage(void) {
    static const char *const bad[] = {"",
                                      "--connect --listen 127.0.0.1 --name n",
                                      "--listen 127.0.0.1",
                                      "--listen",
                                      "--connect --timeout-ms",
                                      "--connect --timeout-ms 0",
                                      "--connect --timeout-ms 60001",
                                      "--connect --timeout-ms x",
                                      "--connect --loud yes"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ok(verb(node_probe, "", bad[i]) > 0, "the flags '%s' are refused", bad[i]);
        has_str(said, "{\"event\":\"error\",\"code\":\"", "the refusal has a code: %s", said);
    }
    is_int(verb(node_probe, "", "--connect --timeout-ms 1"), 0, "one millisecond is a limit");
    is_int(verb(node_probe, "", "--timeout-ms 60000 --connect"), 0, "a minute is a limit");
    is_str(said, "", "a prober without peers says nothing");
    const char *flags = arena_printf(&a, "--listen 127.0.0.1 --name %s", letters(NAME_BYTES_MAX));
    is_int(verb(node_probe, "", flags), 0, "a name may have %d bytes", NAME_BYTES_MAX);
    flags = arena_printf(&a, "--listen 127.0.0.1 --name %s", letters(NAME_BYTES_MAX + 1));
    ok(verb(node_probe, "", flags) > 0, "a longer name is refused");
    ok(verb(node_probe, "", "--listen 203.0.113.1 --name n") > 0,
       "a listener needs an address of its node");
    has_str(said, "203.0.113.1", "the error has the address: %s", said);
}

// ---- peers --------------------------------------------------------------------------------------

static const struct {
    const char *name, *greeting; // greeting: NULL: 128 or more bytes without a newline
    size_t bytes;                // of such a greeting
    bool closes;
    const char *want;
} peers[] = {
    {"honest", "honest\n", 0, true, "\"ok\":true,\"us\":"},
    {"early", "early\nmore", 0, false, "\"ok\":true,\"us\":"},
    {"other", "someone\n", 0, true, "\"ok\":false,\"why\":\"another program answers"},
    {"same7", "diff7\n", 0, true, "\"ok\":false,\"why\":\"another program answers"},
    {"short", "shor\n", 0, true, "\"ok\":false,\"why\":\"another program answers"},
    {"long", "longer\n", 0, true, "\"ok\":false,\"why\":\"another program answers"},
    {"empty", "\n", 0, true, "\"ok\":false,\"why\":\"another program answers"},
    {"closed", "", 0, true, "\"ok\":false,\"why\":\"closed without a greeting"},
    {"silent", "", 0, false, "\"ok\":false,\"why\":\""},
    {"full", NULL, NAME_BYTES_MAX, true, "\"ok\":false,\"why\":\"closed without a greeting"},
    {"flood", NULL, NAME_BYTES_MAX + 1, false, "\"ok\":false,\"why\":\"another program answers"},
};
enum { PEERS = sizeof peers / sizeof *peers };

// Answers one connection of each peer until it is killed.
static _Noreturn void serve(const int *fds) {
    struct pollfd p[PEERS];
    for (int i = 0; i < PEERS; i++)
        p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    while (poll(p, PEERS, -1) > 0)
        for (int i = 0; i < PEERS; i++) {
            int fd = p[i].revents ? accept(fds[i], NULL, NULL) : -1;
            const char *text = peers[i].greeting ? peers[i].greeting : letters(peers[i].bytes);
            if (fd >= 0 && write(fd, text, strlen(text)) < 0)
                _exit(1);
            if (fd >= 0 && peers[i].closes)
                close(fd);
        }
    _exit(1);
}

static const char *line_of(const char *name) {
    const char *start = strstr(said, arena_printf(&a, "{\"peer\":\"%s\",", name));
    return start ? arena_strndup(&a, start, strcspn(start, "\n")) : "";
}

static void test_peers(void) {
    struct strbuf input = {0};
    int fds[PEERS], port, free_port, fd;
    for (int i = 0; i < PEERS; i++) {
        if (net_listen("127.0.0.1", 0, &fds[i], &port, &error) < 0)
            bail_out("%s", error.text);
        strbuf_addf(&input, "%s 127.0.0.1 %d\n\n", peers[i].name, port);
    }
    if (net_listen("127.0.0.1", 0, &fd, &free_port, &error) < 0)
        bail_out("%s", error.text);
    close(fd);
    strbuf_addf(&input, "named localhost %d\nabsent 127.0.0.1 %d", port, free_port);
    fflush(stdout);
    pid_t server = fork();
    if (server == 0)
        serve(fds);
    int64_t started = clock_mono_ns();
    is_int(verb(node_probe, strbuf_cstr(&input), "--connect --timeout-ms 1000"), 0,
           "a prober that cannot reach peers ends well");
    int64_t took_us = (clock_mono_ns() - started) / 1000;
    int count = 1;
    for (const char *p = said; *p; p++)
        count += *p == '\n';
    is_int(count, PEERS + 2, "each peer has one line");
    for (int i = 0; i < PEERS; i++) {
        has_str(line_of(peers[i].name), peers[i].want, "peer '%s' is judged", peers[i].name);
        close(fds[i]);
    }
    const char *us = strstr(line_of("honest"), "\"us\":");
    int64_t peer_us = us ? strtoll(us + 5, NULL, 10) : 0;
    ok(peer_us > 0 && peer_us <= took_us, "a connection takes no longer than the prober");
    has_str(line_of("named"), "\"why\":\"the address is not numeric\"", "names are not resolved");
    has_str(line_of("absent"), "refused", "a closed port refuses: %s", line_of("absent"));
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    strbuf_fini(&input);
}

static void test_lists(void) {
    static const char *const bad[] = {"a 127.0.0.1", "a 127.0.0.1 1 x", "a 127.0.0.1 x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *input = arena_printf(&a, "first - 1\n%s\n", bad[i]);
        ok(verb(node_probe, input, "--connect") > 0, "the peer '%s' is refused", bad[i]);
        has_str(said, "line 2 is not 'name address port'", "the refusal has the line");
    }
    ok(verb(node_probe, "a - 0", "--connect") > 0, "port 0 is refused");
    ok(verb(node_probe, "a - 65536", "--connect") > 0, "port 65536 is refused");
    is_int(verb(node_probe, "a - 1\nb - 65535\n", "--connect"), 0, "ports have 16 bits");
    ok(verb(node_probe, letters(INPUT_BYTES_MAX), "--connect") > 0, "a long line is no peer");
    has_str(said, "line 1 is not", "a list may have %d bytes", INPUT_BYTES_MAX);
    ok(verb(node_probe, letters(INPUT_BYTES_MAX + 1), "--connect") > 0, "a list has a limit");
    has_str(said, "more than 1048576 bytes of peers", "the refusal has the limit");
    struct strbuf many = {0};
    for (int i = 0; i < PEERS_MAX; i++)
        strbuf_add(&many, "\n", 1);
    is_int(verb(node_probe, strbuf_cstr(&many), "--connect"), 0, "%d lines are a list", PEERS_MAX);
    strbuf_adds(&many, "n - 1");
    ok(verb(node_probe, strbuf_cstr(&many), "--connect") > 0, "more lines are refused");
    has_str(said, "more than 4096 peers", "the refusal has the number of peers");
    strbuf_fini(&many);
}

// ---- a listener ---------------------------------------------------------------------------------

struct listening {
    pid_t pid;
    int in, port;
};

static struct listening listen_as(const char *name) {
    int to[2], from[2];
    char line[256];
    if (pipe(to) < 0 || pipe(from) < 0)
        bail_out("no pipes");
    fflush(stdout);
    struct listening l = {.pid = fork(), .in = to[1]};
    if (l.pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        const char *argv[] = {"probe", "--listen", "127.0.0.1", "--name", name, NULL};
        _exit(node_probe(&(struct node_call){.argc = 5, .argv = (char **)argv}));
    }
    close(to[0]);
    close(from[1]);
    ssize_t n = read(from[0], line, sizeof line - 1);
    close(from[0]);
    line[n > 0 ? n : 0] = '\0';
    if (sscanf(line, "{\"event\":\"listening\",\"port\":%d}\n", &l.port) != 1)
        bail_out("no port: %s", line);
    return l;
}

// Everything that a listener sends to one connection.
static const char *greeting_of(const struct listening *l) {
    static char text[256];
    struct net_address to;
    size_t len = 0;
    if (net_resolve("127.0.0.1", l->port, &to, &error) < 0)
        bail_out("%s", error.text);
    int fd = net_connect(&to, WAIT_MS_MAX, &error);
    if (fd < 0)
        return error.text;
    for (struct pollfd p = {.fd = fd, .events = POLLIN}; poll(&p, 1, WAIT_MS_MAX) == 1;) {
        ssize_t n = read(fd, text + len, sizeof text - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    close(fd);
    text[len] = '\0';
    return text;
}

static bool ends_well(pid_t pid) {
    int status = -1;
    for (int64_t until = clock_mono_ms() + WAIT_MS_MAX; clock_mono_ms() < until; usleep(1000))
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status == 0;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return false;
}

static void test_listener(void) {
    struct listening l = listen_as("node-7");
    is_str(greeting_of(&l), "node-7\n", "a connection gets the name of the node");
    ok(write(l.in, "x", 1) == 1, "a listener has an input");
    is_str(greeting_of(&l), "node-7\n", "a listener stays while its input is open");
    close(l.in);
    ok(ends_well(l.pid), "a listener ends with its input");
    l = listen_as("n");
    int greeted = 0;
    while (greeted < PEERS_MAX && strcmp(greeting_of(&l), "n\n") == 0)
        greeted++;
    is_int(greeted, PEERS_MAX, "a listener greets as many peers as a list may have");
    ok(ends_well(l.pid), "a listener ends after that");
    close(l.in);
}

int main(void) {
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    node_root_open();
    begin();
    test_usage();
    test_peers();
    test_lists();
    test_listener();
    node_root_close();
    return done_testing();
}
