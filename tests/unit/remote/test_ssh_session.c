// SPDX-License-Identifier: Apache-2.0
// Connections over SSH, to a real sshd and to servers that are none: how they begin, what ends
// them, what the user reads, and jump hosts.
#include "remote/ssh_impl.h"
#include "tests/unit/remote/link_seen.h"
#include "tests/unit/said.h"
#include "tests/unit/turned_clock.h"

static char folder[] = "/tmp/test_ssh_session.XXXXXX";
static struct screen screen;

// libssh2 sends keepalives by this clock.
time_t turned_time(time_t *t) __asm__("time");

time_t turned_time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}

// Words around the label of a server.
static const char *of_server(const struct sshd *s, const char *before, const char *words) {
    return arena_printf(&sshd_arena, "%sroot@127.0.0.1:%d%s", before, s->port, words);
}

// ---- servers that are no SSH servers ------------------------------------------------------------

static int kept_fd = -1;

static void keep_silent(struct sshd *s, int fd) {
    (void)s;
    kept_fd = fd;
}

static void hang_up(struct sshd *s, int fd) {
    (void)s;
    close(fd);
}

static void reset(struct sshd *s, int fd) {
    const struct linger at_once = {.l_onoff = 1};
    (void)s;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

static void test_no_server(void) {
    struct sshd server = {.on_connection = keep_silent};
    sshd_listen(&server, "");
    link_env.connect_timeout_ms = 800;
    struct link_seen *l = link_begin_to(server.port, NULL);
    ok(sshd_wait(server.connections), "a silent server has a connection");
    clock_turn(sshd_loop, 799);
    is_int(l->downs, 0, "a connection may take as long as its timeout");
    clock_turn(sshd_loop, 1);
    is_int(l->downs, 1, "a connection that takes longer is down");
    is_int(l->err.code, ERR_TIMEOUT, "a silent server is a timeout");
    is_str(l->err.text,
           of_server(&server, "node n1: ",
                     arena_printf(&sshd_arena,
                                  ": no answer within 0.8 s while exchanging keys; is the node "
                                  "up, and does a firewall let port %d through?",
                                  server.port)),
           "the error of a silent server has the time and the port");
    close(kept_fd);
    link_drop(l);
    link_env.connect_timeout_ms = 0;
    l = link_begin_to(server.port, NULL);
    ok(sshd_wait(server.connections == 2), "a silent server has a second connection");
    clock_turn(sshd_loop, TRANSPORT_CONNECT_TIMEOUT_MS_DEFAULT - 1);
    is_int(l->downs, 0, "without a timeout in the settings a connection may take 15 s");
    clock_turn(sshd_loop, 1);
    has_str(l->err.text, ": no answer within 15.0 s while ",
            "a connection without a timeout may not take longer");
    close(kept_fd);
    link_drop(l);
    server.on_connection = hang_up;
    l = link_to(server.port, NULL);
    is_str(l->err.text,
           of_server(&server, "node n1: ",
                     ": the connection was lost while exchanging keys (closed by the far end)"),
           "a server that hangs up is reported");
    is_int(l->err.code, ERR_NET, "a server that hangs up is an error of the network");
    server.on_connection = reset;
    l = link_to(server.port, NULL);
    has_str(l->err.text, "reset by ", "a reset connection has its reason");
    sshd_end(&server);
    l = link_to(server.port, NULL);
    is_str(l->err.text,
           of_server(&server, "node n1: ", ": cannot connect: refused (nothing listens there)"),
           "a port where nothing listens is reported");
    is_int(l->opens, 0, "a connection that is refused does not open");
}

// The label is too long for any name server, so that none is asked.
static void test_no_address(void) {
    char name[80];
    memset(name, 'x', sizeof name);
    snprintf(name + 64, sizeof name - 64, ".invalid");
    link_env.connect_timeout_ms = 2000;
    struct link_seen *l = link_begin(&(struct transport_target){.node = "n1", .host = name});
    ok(sshd_wait(strstr(said(), "\n")), "a name without an address is reported");
    has_str(said(), "a host name has no address yet; trying again", "the name is tried again");
    said_clear();
    clock_turn(sshd_loop, 600);
    for (int i = 0; i < 5; i++)
        loop_once(sshd_loop, 20);
    is_str(said(), "", "a second failure is not reported");
    is_int(l->downs, 0, "a name without an address is tried until the timeout");
    clock_turn(sshd_loop, 1400);
    ok(l->downs == 1 && l->err.code == ERR_NET, "behind the timeout the connection is down");
    has_str(l->err.text, "@xxx", "the error has the name");
    has_str(l->err.text, ": the host name has no address after 2.0 s: ", "the error has the time");
    link_drop(l);
    link_env.connect_timeout_ms = 0;
    l = link_begin(&(struct transport_target){.node = "n1", .host = "-x"});
    ok(!l->link, "a name that looks like an option is refused at once");
}

// ---- logging in ---------------------------------------------------------------------------------

static void test_host_keys(const struct sshd *server) {
    const char *known = file_join(&sshd_arena, folder, "new/known_hosts");
    const char *pinned = link_host_key;
    struct ssh_key other;
    struct err e = {0};
    if (ssh_key_make(&sshd_arena, "other", &other, &e) < 0)
        bail_out("%s", e.text);
    link_env.known_hosts_path = known;
    link_host_key = NULL;
    struct link_seen *l = link_to(server->port, NULL);
    is_int(l->err.code, ERR_HOSTKEY, "an unknown host key is refused");
    has_str(l->err.text, ": the host key is not known: ssh-ed25519 SHA256:", "the key is shown");
    has_str(l->err.text, "then accept it with --accept-host-keys, or set host_key",
            "the error has the next step");
    ok(!file_exists(known), "a refused key is not recorded");
    link_env.accept_host_keys = true;
    said_clear();
    l = link_to(server->port, NULL);
    is_int(l->opens, 1, "an unknown host key can be accepted");
    has_str(said(), "accepted an unknown host key", "an accepted key is reported");
    link_drop(l);
    link_env.accept_host_keys = false;
    l = link_to(server->port, NULL);
    is_int(l->opens, 1, "an accepted key is known");
    link_drop(l);
    void *blob;
    size_t len;
    if (known_hosts_parse_key(&sshd_arena, other.public_key, &blob, &len, &e) < 0)
        bail_out("%s", e.text);
    const char *line = known_hosts_format(&sshd_arena, "127.0.0.1", server->port, blob, len);
    link_env.accept_host_keys = true;
    link_env.known_hosts_path = sshd_file("other_hosts", line);
    l = link_to(server->port, NULL);
    is_int(l->err.code, ERR_HOSTKEY, "a changed host key is refused, accepted or not");
    has_str(l->err.text,
            "the host key HAS CHANGED: it shows ssh-ed25519 SHA256:", "the changed key is shown");
    has_str(l->err.text, "/other_hosts:1 lists another one;",
            "the error has the other key's place");
    link_env.known_hosts_path = sshd_file(
        "revoked", arena_printf(&sshd_arena, "@revoked * %s\n", sshd_host_key.public_key));
    l = link_to(server->port, NULL);
    has_str(l->err.text, " is marked @revoked", "a revoked host key is refused");
    link_host_key = other.public_key;
    l = link_to(server->port, NULL);
    has_str(l->err.text, ": the host key is not the one in host_key: it shows ssh-ed25519 SHA256:",
            "a host key other than the pinned one is refused");
    link_env.accept_host_keys = false;
    link_env.known_hosts_path = NULL;
    link_host_key = pinned;
}

static void test_logins(const struct sshd *server) {
    struct ssh_key other;
    struct err e = {0};
    struct sshd strict = {0};
    if (ssh_key_make(&sshd_arena, "other", &other, &e) < 0)
        bail_out("%s", e.text);
    link_env.identity_path = sshd_file("strange", other.private_key);
    struct link_seen *l = link_to(server->port, NULL);
    is_int(l->err.code, ERR_AUTH, "a strange key is refused");
    has_str(l->err.text,
            "/strange); is the public key in ~/.ssh/authorized_keys of user root there?",
            "the error has the key");
    link_env.identity_path = NULL;
    l = link_to(server->port, NULL);
    has_str(l->err.text,
            ": no key to log in with: ", "a login without keys is an error of its own");
    link_env.identity_path = sshd_login;
    sshd_listen(&strict, "PubkeyAuthentication no\nPasswordAuthentication yes\n");
    l = link_to(strict.port, NULL);
    is_str(l->err.text,
           of_server(&strict, "node n1: ",
                     ": the server takes no public keys (it offers: password); put your key into "
                     "~/.ssh/authorized_keys there and allow PubkeyAuthentication"),
           "a server that takes no keys is reported with what it takes");
    is_int(l->err.code, ERR_AUTH, "a server that takes no keys is an error of the login");
    sshd_end(&strict);
}

// ---- silence ------------------------------------------------------------------------------------

// So much passes, and the server answers what it is asked.
static void pass_ms(int64_t ms) {
    for (; ms > 0; ms -= 1500) {
        clock_turn(sshd_loop, ms < 1500 ? ms : 1500);
        for (int i = 0; i < 3; i++)
            loop_once(sshd_loop, 20);
    }
}

static void test_silence(void) {
    static const struct {
        int64_t keepalive_ms, up_ms, down_ms;
        const char *text;
    } rows[] = {
        {1500, 5900, 100,
         ": nothing was heard for 6 s, the connection counts as lost; the node may "
         "be down or its network cut"},
        {1, 3900, 100, ": nothing was heard for 4 s, "},
        {0, 19900, 100, ": nothing was heard for 20 s, "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sshd server = {0};
        sshd_listen(&server, "");
        link_env.keepalive_ms = rows[i].keepalive_ms;
        struct link_seen *l = link_to(server.port, NULL);
        if (i == 0) {
            pass_ms(9000);
            is_int(l->downs, 0, "a server that answers keepalives is not silent");
        }
        is_int(run_on(l, "exit 3")->end.status, 3, "a command runs before the silence, %d",
               (int)rows[i].keepalive_ms);
        sshd_signal(&server, SIGSTOP);
        clock_turn(sshd_loop, rows[i].up_ms);
        is_int(l->downs, 0, "with keepalives every %d ms the link is up after %d ms",
               (int)rows[i].keepalive_ms, (int)rows[i].up_ms);
        clock_turn(sshd_loop, rows[i].down_ms);
        is_int(l->downs, 1, "with keepalives every %d ms the link is down after %d ms",
               (int)rows[i].keepalive_ms, (int)(rows[i].up_ms + rows[i].down_ms));
        is_int(l->err.code, ERR_TIMEOUT, "silence behind keepalives every %d ms is a timeout",
               (int)rows[i].keepalive_ms);
        has_str(l->err.text, rows[i].text, "the error has the time of silence, %d",
                (int)rows[i].keepalive_ms);
        link_drop(l);
        sshd_end(&server);
    }
    link_env.keepalive_ms = 0;
}

// ---- jump hosts ---------------------------------------------------------------------------------

static const char *jump_to(const struct sshd *s) {
    return arena_printf(&sshd_arena, "root@127.0.0.1:%d", s->port);
}

static void test_jump(const struct sshd *server) {
    struct sshd first = {0}, second = {0};
    sshd_listen(&first, "");
    sshd_listen(&second, "");
    // Keys of jump hosts are in known_hosts.
    struct strbuf known = {0};
    for (int i = 0; i < 2; i++)
        strbuf_addf(&known, "[127.0.0.1]:%d %s\n", i ? first.port : second.port,
                    sshd_host_key.public_key);
    link_env.known_hosts_path = sshd_file("known_hosts", strbuf_cstr(&known));
    strbuf_fini(&known);

    struct link_seen *l = link_to(server->port, jump_to(&first));
    if (!ok(l->opens == 1, "a node behind a jump host is reached"))
        diag("%s", l->err.text);
    struct run_seen *r = run_on(l, "head -c 600000 /dev/zero; exit 3");
    ok(r->out.len == 600000 && r->end.status == 3, "a command behind a jump host has all output");
    r = run_begin(l, &(struct transport_command){.line = "wc -c"});
    r->to_send = 600000;
    run_seen_room(r->run, r);
    ok(sshd_wait(r->ends) && str_eq(strbuf_cstr(&r->out), "600000\n"),
       "a command behind a jump host gets all input");
    is_int((int)transport_distance_us(l->link), 0, "the distance behind a jump host is unknown");
    struct link_seen *beside = link_to(server->port, jump_to(&first));
    is_int(beside->opens, 1, "a second link goes through the jump host");
    is_int(first.connections, 1, "links through one jump host share its connection");
    link_drop(l);
    is_int(run_on(beside, "exit 4")->end.status, 4, "the second link goes on without the first");
    link_drop(beside);
    ok(sshd_wait(sshd_has_ended(&first, 0)), "with its last link the jump host's connection ends");

    const char *chain = arena_printf(&sshd_arena, "ssh://%s,%s", jump_to(&first), jump_to(&second));
    l = link_to(server->port, chain);
    ok(l->opens == 1 && first.connections == 2 && second.connections == 1,
       "a chain of jump hosts is followed");
    is_int(run_on(l, "exit 5")->end.status, 5, "a command runs behind a chain of jump hosts");
    r = run_begin(l, &(struct transport_command){.line = "echo x; exec cat"});
    ok(sshd_wait(r->out.len), "a command has begun behind a chain of jump hosts");
    sshd_signal(&first, SIGKILL);
    ok(sshd_wait(l->downs), "the end of a jump host ends the links behind it");
    is_int(r->end.how, TRANSPORT_LOST, "a command behind the jump host is lost");
    is_int(l->err.code, ERR_NET, "the end of a jump host is an error of the network");
    link_drop(l);
    l = link_to(server->port, jump_to(&first));
    is_int(l->opens, 1, "a new link opens a connection to the jump host anew");
    link_drop(l);
    sshd_end(&first);
    l = link_to(server->port, jump_to(&first));
    has_str(l->err.text, of_server(&first, "node n1: jump host: ", ": cannot connect: refused"),
            "a jump host that is not there is reported");
    sshd_end(&second);
}

static void test_jump_refused(const struct sshd *server) {
    struct sshd closed = {0};
    sshd_listen(&closed, "AllowTcpForwarding no\n");
    link_env.known_hosts_path =
        sshd_file("known_closed", arena_printf(&sshd_arena, "[127.0.0.1]:%d %s\n", closed.port,
                                               sshd_host_key.public_key));
    struct link_seen *l = link_to(server->port, jump_to(&closed));
    has_str(l->err.text, of_server(server, "node n1: ", ": the jump host cannot reach it: "),
            "a jump host that does not forward is reported");
    has_str(l->err.text, of_server(&closed, "", ": connecting onward: "), "the jump host is named");
    l = link_to(server->port, "a,b,c,d,e,f,g,h,i");
    ok(!l->link, "more than eight jump hosts are refused at once");
    has_str(l->open_err.text,
            of_server(server, "", ": jump host: ProxyJump names more than 8 hosts"),
            "the error has the limit of jump hosts");
    l = link_to(server->port, "a:x");
    has_str(l->open_err.text, "jump host: ProxyJump 'a:x': ", "a malformed jump host is refused");
    link_env.ssh_config_path = sshd_file("circle", "Host a\n ProxyJump b\nHost b\n ProxyJump a\n");
    l = link_to(server->port, "a");
    has_str(l->open_err.text, "ProxyJump leads in a circle, or over more than 8 hosts",
            "a circle of jump hosts is refused");
    link_env.ssh_config_path = "none";
    sshd_end(&closed);
}

int main(void) {
    struct err e = {0};
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (!mkdtemp(folder) || !(link_env.loop = loop_open(&e)))
        bail_out("cannot start");
    if (geteuid() != 0 || !sshd_can_run()) {
        skip(1, "no sshd can run here");
        rmdir(folder);
        return done_testing();
    }
    clock_stop();
    said_open(&screen);
    sshd_prepare(folder, link_env.loop);
    char *env[] = {arena_printf(&sshd_arena, "HOME=%s", folder), NULL};
    link_env.env = env;
    link_env.ssh_config_path = "none";
    link_env.identity_path = sshd_login;
    link_host_key = sshd_host_key.public_key;
    struct sshd server = {0};
    sshd_listen(&server, "");
    test_no_server();
    test_no_address();
    test_host_keys(&server);
    test_logins(&server);
    test_silence();
    test_jump(&server);
    test_jump_refused(&server);
    link_free_all();
    sshd_end(&server);
    loop_close(link_env.loop);
    said_close(&screen);
    arena_fini(&sshd_arena);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    return done_testing();
}
