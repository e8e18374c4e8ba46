// SPDX-License-Identifier: Apache-2.0
// Commands over SSH, on a real sshd: their output, input, terminals and ends; what a login shell
// prints before them; and limits of the server.
#include "remote/ssh_impl.h"
#include "tests/unit/remote/link_seen.h"

static char folder[] = "/tmp/test_transport_ssh.XXXXXX";

static int number_in(const struct strbuf *b) {
    return (int)strtol(b->len ? b->data : "-1", NULL, 10);
}

static void test_ends(const struct link_seen *l) {
    struct run_seen *r = run_on(l, "echo out; echo err >&2; exit 3");
    is_str(strbuf_cstr(&r->out), "out\n", "standard output arrives");
    is_str(strbuf_cstr(&r->err_text), "err\n", "standard error arrives");
    is_int(r->end.how, TRANSPORT_EXITED, "a command that exits has exited");
    is_int(r->end.status, 3, "the exit status arrives");
    is_int(run_on(l, "exit 255")->end.status, 255, "the largest exit status arrives");
    r = run_on(l, "exec >&- 2>&-; sleep 0.1; exit 6");
    is_int(r->end.status, 6, "a command that closes its output has its status all the same");
    is_int(r->ends, 1, "a command ends once");
    r = run_on(l, "ulimit -c 0; kill -KILL $$");
    is_int(r->end.how, TRANSPORT_SIGNALED, "a command that a signal ends has not exited");
    is_int(r->end.status, 137, "the status of a command that a signal ends is 128 and its number");
    is_str(r->end.signal, "KILL", "the signal has its name");
    r = run_on(l, "kill -USR2 $$");
    is_int(r->end.status, 140, "the last signal of the protocol has its number");
    r = run_on(l, "ulimit -c 0; kill -ABRT $$");
    is_int(r->end.status, 134, "the first signal of the protocol has its number");
    r = run_on(l, "kill -VTALRM $$");
    is_int(r->end.status, 255, "a signal that the protocol does not name has status 255");
    r = run_on(l, "head -c 2000000 /dev/zero; head -c 500000 /dev/zero >&2");
    is_uint(r->out.len, 2000000, "all output arrives");
    is_uint(r->err_text.len, 500000, "all of the standard error arrives");
}

static void test_input(const struct link_seen *l) {
    struct run_seen *r = run_begin(l, &(struct transport_command){.line = "wc -c"});
    r->to_send = 1500000;
    run_seen_room(r->run, r);
    ok(sshd_wait(r->ends), "a command that reads its input ends");
    is_int(number_in(&r->out), 1500000, "all input arrives");
    r = run_begin(l, &(struct transport_command){.line = "exec <&-; echo late; exit 4"});
    r->to_send = 1500000;
    run_seen_room(r->run, r);
    ok(sshd_wait(r->ends), "a command that closes its input ends");
    is_str(strbuf_cstr(&r->out), "late\n", "the output of a command without input arrives");
    is_int(r->end.status, 4, "the status of a command without input arrives");
    r = run_begin(l, &(struct transport_command){.line = "read x; echo $x; read x; echo $x"});
    transport_run_send(r->run, "a\n", 2);
    ok(sshd_wait(r->out.len == 2), "a line of input is answered before the next one is sent");
    transport_run_send(r->run, "b\n", 2);
    ok(sshd_wait(r->ends) && str_eq(strbuf_cstr(&r->out), "a\nb\n"),
       "both lines of input are answered");
}

// A nearby sshd is given little that its command does not read.
static void test_near(struct link_seen *l) {
    struct run_seen *r =
        run_begin(l, &(struct transport_command){.line = "echo $$; exec sleep 77"});
    ok(sshd_wait(r->out.len > 0), "a command that does not read has begun");
    transport_round_trip_seen(l->link, 100);
    r->to_send = 4 << 20;
    run_seen_room(r->run, r);
    for (size_t before = 0; before != r->to_send;) {
        before = r->to_send;
        for (int i = 0; i < 5; i++)
            loop_once(sshd_loop, 20);
    }
    size_t sent = (4 << 20) - r->to_send - transport_run_unsent(r->run);
    ok(sent >= 512 << 10 && sent <= 768 << 10,
       "a nearby node holds little more than 512 KiB of unread input: %zu", sent);
    kill(number_in(&r->out), SIGKILL);
    ok(sshd_wait(r->ends) && r->end.status == 137, "a command with unread input has its end");
}

static void test_terminals(const struct link_seen *l) {
    struct run_seen *r = run_begin(
        l, &(struct transport_command){.line = "stty size; echo $TERM; echo err >&2; exit 4",
                                       .pty = true,
                                       .term = "xterm",
                                       .columns = 91,
                                       .rows = 31});
    ok(sshd_wait(r->ends), "a command with a terminal ends");
    is_str(strbuf_cstr(&r->out), "31 91\r\nxterm\r\nerr\r\n",
           "a terminal has its size and its name, and serves both streams");
    is_int(r->end.status, 4, "a command with a terminal has its status");
    r = run_begin(l,
                  &(struct transport_command){
                      .line = "stty -echo; stty size; echo $TERM; read x; stty size", .pty = true});
    const char *usual = "24 80\r\ndumb\r\n";
    ok(sshd_wait(r->out.len >= strlen(usual)), "a terminal without a size is opened");
    is_str(strbuf_cstr(&r->out), usual, "a terminal has 24 rows and 80 columns");
    transport_run_resize(r->run, 100, 40);
    transport_run_send(r->run, "\n", 1);
    ok(sshd_wait(r->ends), "a command with a terminal reads a line");
    has_str(strbuf_cstr(&r->out), "40 100\r\n", "a terminal gets another size");
    r = run_begin(l, &(struct transport_command){.line = NULL});
    transport_run_send(r->run, "echo $((6 * 7)); exit 5\n", 24);
    ok(sshd_wait(r->ends), "a login shell ends");
    is_str(strbuf_cstr(&r->out), "42\n", "a login shell runs what is sent");
    is_int(r->end.status, 5, "a login shell has its status");
    r = run_begin(l, &(struct transport_command){.line = "echo $$; exec sleep 77", .pty = true});
    ok(sshd_wait(r->out.len > 0), "a command with a terminal has begun");
    int pid = number_in(&r->out);
    transport_run_close(r->run);
    ok(pid > 1 && sshd_wait(kill(pid, 0) < 0), "a command whose run is closed gets a hang-up");
    is_int(r->ends, 0, "a closed run calls its owner no more");
}

static void test_distance(const struct link_seen *l) {
    int64_t us = transport_distance_us(l->link);
    ok(us > 0 && us < 1000000, "the kernel knows the distance: %lld us", (long long)us);
    us = transport_round_trip_us(l->link);
    ok(us > 0 && us < 5000000, "the round trip of a command is known: %lld us", (long long)us);
    ok(!transport_is_local(l->link), "a node behind SSH is not local");
}

// The text of a login shell comes before the output of each command.
static void test_login_text(void) {
    struct sshd server = {0};
    sshd_listen(&server, "ForceCommand echo welcome; case $SSH_ORIGINAL_COMMAND in "
                         "*locked*) echo locked; exit 9;; "
                         "*much*) head -c 200000 /dev/zero; exit 8;; "
                         "*flood*) exec head -c 300000 /dev/zero;; "
                         "*) eval \"$SSH_ORIGINAL_COMMAND\";; esac\n");
    struct link_seen *l = link_to(server.port, NULL);
    struct run_seen *r = run_on(l, "echo x; exit 2");
    is_str(strbuf_cstr(&r->out), "x\n", "the text of a login shell is not output");
    is_uint(r->err_text.len, 0, "the text of a login shell is no error of the command");
    is_int(r->end.status, 2, "a command behind a login shell has its status");
    r = run_on(l, "printf abc");
    is_str(strbuf_cstr(&r->out), "abc", "output behind a login shell needs no line end");
    r = run_on(l, "locked");
    is_str(strbuf_cstr(&r->err_text), "welcome\nlocked\n",
           "the text of a login shell that does not run the command is its error");
    is_uint(r->out.len, 0, "the text of a login shell is never output");
    is_int(r->end.status, 9, "a login shell has its status");
    r = run_on(l, "much");
    is_uint(r->err_text.len, 200008, "long text of a login shell is kept");
    is_int(r->end.status, 8, "a login shell with long text has its status");
    r = run_on(l, "flood");
    is_int(r->end.how, TRANSPORT_LOST, "a login shell that prints without end ends the command");
    is_int(r->err.code, ERR_FORMAT, "a login shell that prints without end is an error of format");
    has_str(r->err.text,
            ": its login shell prints more than 256 KiB before it does anything (try: ",
            "the error has the limit");
    is_int(run_on(l, "exit 7")->end.status, 7, "the connection goes on behind that login shell");
    link_drop(l);
    sshd_end(&server);
}

static void test_sessions_max(void) {
    struct sshd server = {0};
    sshd_listen(&server, "MaxSessions 1\n");
    struct link_seen *l = link_to(server.port, NULL);
    const struct transport_command cat = {.line = "cat; exit 3"};
    struct run_seen *first = run_begin(l, &cat), *second = run_begin(l, &cat);
    ok(sshd_wait(first->ends || second->ends), "one command above the server's limit ends");
    struct run_seen *lost = first->ends ? first : second, *goes_on = first->ends ? second : first;
    is_int(lost->end.how, TRANSPORT_LOST, "a command above the server's limit has no status");
    is_int(lost->end.status, -1, "the status of a lost command is -1");
    has_str(lost->err.text, "starting a command (does MaxSessions of sshd allow it?)",
            "the error names the server's limit");
    transport_run_send(goes_on->run, "x", 1);
    transport_run_send_end(goes_on->run);
    ok(sshd_wait(goes_on->ends) && goes_on->end.status == 3, "the other command goes on");
    link_drop(l);
    sshd_end(&server);
}

static void test_lost(void) {
    struct sshd server = {0};
    sshd_listen(&server, "");
    struct link_seen *l = link_to(server.port, NULL);
    struct run_seen *r = run_begin(l, &(struct transport_command){.line = "echo x; exec cat"});
    ok(sshd_wait(r->out.len > 0), "a command has begun");
    sshd_signal(&server, SIGKILL);
    ok(sshd_wait(l->downs), "a killed server is noticed");
    is_int(r->ends, 1, "the command ends with its connection");
    is_int(r->end.how, TRANSPORT_LOST, "a command without its connection is lost");
    is_int(r->downs, 0, "commands end before their link");
    char want[128];
    snprintf(want, sizeof want, "@127.0.0.1:%d: the connection was lost while ", server.port);
    has_str(l->err.text, want, "the error names the server");
    ok(str_starts(l->err.text, "node n1: "), "the error names the node");
    is_int(l->downs, 1, "a link goes down once");
    link_drop(l);
    sshd_end(&server);
}

int main(void) {
    struct err e = {0};
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (!mkdtemp(folder) || !(link_env.loop = loop_open(&e)))
        bail_out("cannot start");
    if (!sshd_can_run()) {
        skip(1, "no sshd can run here");
        rmdir(folder);
        return done_testing();
    }
    sshd_prepare(folder, link_env.loop);
    char *env[] = {arena_printf(&sshd_arena, "HOME=%s", folder), NULL};
    link_env.env = env;
    link_env.ssh_config_path = "none";
    link_env.identity_path = sshd_login;
    link_host_key = sshd_host_key.public_key;
    struct sshd server = {0};
    sshd_listen(&server, "");
    struct link_seen *l = link_to(server.port, NULL);
    if (!l->opens)
        bail_out("%s", l->err.text);
    test_ends(l);
    test_distance(l);
    test_input(l);
    test_near(l);
    test_terminals(l);
    link_drop(l);
    ok(sshd_wait(sshd_has_ended(&server, 0)), "a closed link ends its session on the server");
    sshd_end(&server);
    test_login_text();
    test_sessions_max();
    test_lost();
    link_free_all();
    loop_close(link_env.loop);
    arena_fini(&sshd_arena);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    return done_testing();
}
