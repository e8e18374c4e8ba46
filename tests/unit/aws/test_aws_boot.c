// SPDX-License-Identifier: Apache-2.0
// Nodes boot: logins, the wait for cloud-init, the new host key, and the time limit. The test is
// the nodes; a list of steps says when they answer.
#include "aws/aws_boot.h"
#include "tests/unit/aws/boot_rows.h"
#include "tests/unit/said.h"
#include "tests/unit/transport_fake.h"
#include "tests/unit/turned_clock.h"

#include <signal.h>
#include <sys/eventfd.h>

#define KEY    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
#define ROTATE "sudo -n /usr/local/lib/dtctl/rotate-host-key"
#define READY  "config_hash=abc\nstatus=ok\n"

enum { NODES = 2, STEPS_MAX = 40 };

struct step {
    enum { END, UP, DOWN, EXIT, SAY_ERROR, LOST, WAIT, STOP, NO_OPEN, NO_RUN } kind;
    size_t node;
    int value; // a code, a status, or milliseconds
    const char *text;
};

static struct arena a;
static struct screen screen;
static struct config config;
static struct context context;
static struct boot_progress phases;
static struct boot_progress_node progress_nodes[NODES];
static struct inventory_node info[NODES];
static struct aws_boot_node nodes[NODES];
static struct strbuf opened; // a line for each login
static struct watch turn;    // always readable: the nodes have a step in each turn of the loop
static const struct step *next_step;
static int refused_opens, turn_fd;
static int64_t began_ms;
static struct err error;

// ---- in place of SSH ---------------------------------------------------------------------------

static struct transport_link *open_link(const struct transport_env *env,
                                        const struct transport_target *t, struct err *e) {
    strbuf_addf(&opened, "%s %s %s %d %s %s %s %lld at %lld\n", t->node, t->host,
                t->user ? t->user : "-", t->port, t->host_key ? t->host_key : "-",
                t->proxy_jump ? t->proxy_jump : "-", t->folder, (long long)env->connect_timeout_ms,
                (long long)(clock_ahead_ms - began_ms));
    if (refused_opens > 0) {
        refused_opens--;
        (void)err_set(e, ERR_CONFIG, "no such user");
        return NULL;
    }
    return fake_open(env, t, e);
}

const struct transport transport_ssh = TRANSPORT_FAKE(open_link);

static struct transport_link *link_of(size_t node) {
    struct fake_link *l = fake_links;
    while (l && (l->is_closed || strcmp(l->l.target.node, info[node].name) != 0))
        l = l->older;
    if (!l)
        bail_out("node %zu has no link", node);
    return &l->l;
}

static struct fake_run *run_of(size_t node) {
    struct fake_run *r = fake_runs;
    while (r && r->r.link != link_of(node))
        r = r->older;
    if (!r)
        bail_out("node %zu runs nothing", node);
    return r;
}

static void on_turn(struct watch *w, unsigned events) {
    const struct step *s = next_step;
    struct err e;
    (void)w;
    (void)events;
    next_step += s->kind != END;
    switch (s->kind) {
    case END: bail_out("the nodes wait at the end of the steps"); break;
    case UP: fake_up(link_of(s->node)); break;
    case DOWN:
    case LOST:
        err_set(&e, (enum err_code)s->value, "%s", s->text);
        transport_notify_down(link_of(s->node), &e);
        break;
    case EXIT:
        fake_say(run_of(s->node), s->text, strlen(s->text));
        fake_exit(run_of(s->node), s->value);
        break;
    case SAY_ERROR: fake_say_error(run_of(s->node), s->text); break;
    case WAIT: clock_ahead_ms += s->value; break;
    case STOP: context.interrupt = SIGINT; break;
    case NO_OPEN: refused_opens = s->value; break;
    case NO_RUN: fake_refuses = s->value; break;
    }
}

static void begin(void) {
    static const char *const names[] = {"n0", "n1"}, *const hosts[] = {"198.51.100.0", "h1"};
    strbuf_clear(&boot_rows);
    strbuf_clear(&opened);
    said_clear();
    err_clear(&error);
    context.interrupt = refused_opens = fake_refuses = 0;
    for (size_t i = 0; i < NODES; i++) {
        info[i] = (struct inventory_node){
            .name = names[i], .host = hosts[i], .root = ".dtctl", .user = i ? "" : "ubuntu"};
        nodes[i] =
            (struct aws_boot_node){.info = &info[i], .first_key = i ? "" : "first", .row = 1 - i};
    }
    info[1].port = 2222;
    info[1].host_key = "own";
}

static int boot(size_t count, const struct step *steps) {
    next_step = steps;
    began_ms = clock_ahead_ms;
    if (watch_start(context.loop, &turn, turn_fd, LOOP_READ, on_turn, &error) < 0)
        bail_out("%s", error.text);
    int result = aws_boot(&context, &phases, nodes, count, &error);
    watch_stop(&turn);
    for (struct fake_link *l = fake_links; l; l = l->older)
        ok(l->is_closed, "every login is closed");
    return result;
}

// ---- tests --------------------------------------------------------------------------------------

static void test_ready(void) {
    static const struct step steps[] = {{WAIT, 0, 0, ""},    {UP, 0, 0, ""},
                                        {UP, 1, 0, ""},      {EXIT, 1, 0, READY},
                                        {EXIT, 0, 0, READY}, {EXIT, 0, 0, KEY "\r\nmore"},
                                        {END, 0, 0, ""}};
    begin();
    is_int(boot(2, steps), 0, "both nodes become ready: %s", error.text);
    is_str(strbuf_cstr(&opened),
           "n0 198.51.100.0 ubuntu 0 first - .dtctl 5000 at 0\n"
           "n1 h1 - 2222 own - .dtctl 5000 at 0\n",
           "each login has its address and key");
    is_str(strbuf_cstr(&boot_rows),
           "1: waiting for ssh\n0: waiting for ssh\n1: phase 2\n1: waiting for cloud-init\n"
           "0: phase 2\n0: waiting for cloud-init\n0: phase 3\n1: phase 3\n",
           "each node has its row");
    is_str(info[0].host_key, KEY, "the new key of the first node is known");
    is_str(info[1].host_key, "own", "the second node keeps its own key");
    is_str(fake_run(0)->line, ROTATE, "the key is made on the node");
    is_int(fake_run_count(), 3, "the second node makes no key");
    has_str(fake_run(1)->line, "end=$((${up%.*}+898)); ", "the wait ends before the limit");
    has_str(fake_run(1)->line, "log 3; }; fi; ", "an end without a ready node has its status");
    has_str(fake_run(1)->line, "|| log 4; sleep", "a wait that is too long has its status");
    ok(!nodes[0].failed && !nodes[1].failed, "no node has failed");
    is_str(said(), "", "the user reads nothing else");
    begin();
    is_int(boot(0, steps), 0, "there may be no node to wait for");
    fake_free_all();
}

// Each answer of cloud-init, and the failure of the node.
static void test_answers(void) {
    static const char log[] = "; its last lines are above (all of it on the node: "
                              "/var/log/cloud-init-output.log)";
    static const struct {
        int status;
        const char *out, *error; // NULL: none
        bool logged;
        enum err_code code;
    } cases[] = {
        {0, "status=ok\n", NULL, false, ERR_NONE},
        {0, "status=degraded\ncheck.efa=0 of 4\n", NULL, false, ERR_NONE},
        {0, "status=failed\ncheck.gpu=none\ncheck.efa=0 of 4\n",
         "its own checks failed: gpu: none; efa: 0 of 4", false, ERR_FAILED},
        {0, "status=failed\n", "its own checks failed: no reason given", false, ERR_FAILED},
        {0, "", "its own checks failed: no reason given", false, ERR_FAILED},
        {3, "", "cloud-init failed", true, ERR_FAILED},
        {5, "", "cloud-init failed", true, ERR_FAILED},
        {4, "", "it did not become ready in 15:00 (aws.boot_timeout): cloud-init has not ended",
         true, ERR_TIMEOUT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct step steps[] = {{WAIT, 0, 0, ""},
                                     {UP, 0, 0, ""},
                                     {SAY_ERROR, 0, 0, "one\n\ntwo \x1b[31m"},
                                     {EXIT, 0, cases[i].status, cases[i].out},
                                     {END, 0, 0, ""}};
        begin();
        nodes[0].first_key = "";
        is_int(boot(1, steps), 0, "answer %zu ends the wait", i);
        is_int(nodes[0].failed, cases[i].error != NULL, "answer %zu is judged", i);
        ok(!nodes[0].silent, "a node that answers is not silent (%zu)", i);
        if (cases[i].error) {
            is_str(nodes[0].err.text,
                   arena_printf(&a, "%s%s", cases[i].error, cases[i].logged ? log : ""),
                   "answer %zu has its words", i);
            is_int(nodes[0].err.code, cases[i].code, "answer %zu has its code", i);
            has_str(strbuf_cstr(&boot_rows), arena_printf(&a, "1 failed: %s", cases[i].error),
                    "the row has the failure (%zu)", i);
        }
        is_int(strstr(said(), "warning: a node is degraded node=n0 problems=\"efa: 0 of 4\"\n") !=
                   NULL,
               i == 1, "a degraded node has a warning, and no other (%zu)", i);
        has_str(said(), "  n0 | one\n  n0 | two ", "the user reads the lines of its log (%zu)", i);
        ok(!strchr(said(), 0x1b), "control characters do not get through (%zu)", i);
    }
    fake_free_all();
}

static void test_long_log(void) {
    for (int lines = 39; lines <= 41; lines++) {
        char *text = arena_strdup(&a, "line 1");
        for (int i = 2; i <= lines; i++)
            text = arena_printf(&a, "%s\nline %d", text, i);
        const struct step steps[] = {{WAIT, 0, 0, ""},
                                     {UP, 0, 0, ""},
                                     {SAY_ERROR, 0, 0, text},
                                     {EXIT, 0, 3, ""},
                                     {END, 0, 0, ""}};
        begin();
        boot(1, steps);
        is_int(strstr(said(), "| line 1\n") != NULL, lines <= 40, "%d lines: the first one", lines);
        has_str(said(), "| line 2\n", "the second of %d lines is said", lines);
    }
    fake_free_all();
}

static void test_keys(void) {
    static const struct {
        int status;
        const char *out, *says, *error;
    } cases[] = {
        {1, KEY "\n", "sudo: a password\nmore\n",
         "it could not make a host key of its own: sudo: a password"},
        {0, "", "", "the host key it made: "},
        {0, "ssh-ed25519 ???\n", "", "the host key it made: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct step steps[] = {{WAIT, 0, 0, ""},
                                     {UP, 0, 0, ""},
                                     {EXIT, 0, 0, READY},
                                     {SAY_ERROR, 0, 0, cases[i].says},
                                     {EXIT, 0, cases[i].status, cases[i].out},
                                     {END, 0, 0, ""}};
        begin();
        boot(1, steps);
        ok(nodes[0].failed && !info[0].host_key, "key %zu is not taken", i);
        is_str(arena_printf(&a, "%.*s", (int)strlen(cases[i].error), nodes[0].err.text),
               cases[i].error, "key %zu has its words", i);
        ok(!strstr(nodes[0].err.text, "more"), "the first line is enough (%zu)", i);
        ok(!strstr(strbuf_cstr(&boot_rows), "phase 3"), "cloud-init is not over (%zu)", i);
    }
    fake_free_all();
}

// Logins that fail, and when a node is given up.
static const struct {
    struct step steps[STEPS_MAX];
    int logins;
    const char *error; // NULL: the node becomes ready
    bool silent;
} LOGINS[] = {
    {{{WAIT, 0, 0, ""},
      {DOWN, 0, ERR_NET, "refused"},
      {WAIT, 0, 1000, ""},
      {WAIT, 0, 0, ""},
      {UP, 0, 0, ""},
      {EXIT, 0, 0, READY}},
     2,
     NULL,
     false},
    {{{WAIT, 0, 0, ""},
      {DOWN, 0, ERR_TIMEOUT, "slow"},
      {WAIT, 0, 1000, ""},
      {WAIT, 0, 0, ""},
      {UP, 0, 0, ""},
      {LOST, 0, ERR_NO_STATUS, "reset"},
      {WAIT, 0, 1000, ""},
      {WAIT, 0, 0, ""},
      {UP, 0, 0, ""},
      {EXIT, 0, 0, READY}},
     3,
     NULL,
     false},
    {{{WAIT, 0, 0, ""}, {DOWN, 0, ERR_HOSTKEY, "another key"}}, 1, "another key", false},
    {{{WAIT, 0, 0, ""},
      {DOWN, 0, ERR_AUTH, "not yet"},
      {WAIT, 0, 119999, ""},
      {WAIT, 0, 0, ""},
      {DOWN, 0, ERR_AUTH, "not yet"},
      {WAIT, 0, 1000, ""},
      {WAIT, 0, 0, ""},
      {DOWN, 0, ERR_AUTH, "never"}},
     3,
     "never",
     false},
    {{{WAIT, 0, 0, ""},
      {DOWN, 0, ERR_AUTH, "not yet"},
      {WAIT, 0, 120000, ""},
      {WAIT, 0, 0, ""},
      {DOWN, 0, ERR_AUTH, "never"}},
     2,
     "never",
     false},
    {{{WAIT, 0, 0, ""},
      {DOWN, 0, ERR_NET, "refused"},
      {WAIT, 0, 899999, ""},
      {WAIT, 0, 0, ""},
      {WAIT, 0, 1, ""},
      {WAIT, 0, 0, ""}},
     2,
     "it did not answer in 15:00 (aws.boot_timeout): refused",
     true},
    {{{WAIT, 0, 0, ""}, {WAIT, 0, 900000, ""}, {WAIT, 0, 0, ""}},
     1,
     "it did not answer in 15:00 (aws.boot_timeout): the login has not ended",
     true},
    {{{WAIT, 0, 0, ""}, {UP, 0, 0, ""}, {WAIT, 0, 900000, ""}, {WAIT, 0, 0, ""}},
     1,
     "it did not become ready in 15:00 (aws.boot_timeout): it no longer says how far it is",
     false},
    {{{NO_OPEN, 0, 1, ""}, {WAIT, 0, 0, ""}}, 1, "node n0: no such user", false},
    {{{WAIT, 0, 0, ""}, {NO_RUN, 0, 1, ""}, {UP, 0, 0, ""}}, 1, "node n0: no more commands", false},
};

static void test_again(void) {
    for (size_t i = 0; i < sizeof LOGINS / sizeof *LOGINS; i++) {
        begin();
        nodes[0].first_key = "";
        refused_opens = LOGINS[i].steps[0].kind == NO_OPEN;
        is_int(boot(1, LOGINS[i].steps), 0, "login %zu ends", i);
        int logins = 0;
        for (const char *c = strbuf_cstr(&opened); *c; c++)
            logins += *c == '\n';
        is_int(logins, LOGINS[i].logins, "login %zu is tried so often", i);
        is_int(nodes[0].failed, LOGINS[i].error != NULL, "login %zu is judged", i);
        is_str(nodes[0].err.text, LOGINS[i].error ? LOGINS[i].error : "", "login %zu has its words",
               i);
        is_int(nodes[0].silent, LOGINS[i].silent, "login %zu says who is silent", i);
    }
    fake_free_all();
}

// A login is lost while the node makes its key.
static void test_lost_key(void) {
    static const struct step steps[] = {
        {WAIT, 0, 0, ""},    {UP, 0, 0, ""},   {EXIT, 0, 0, READY}, {LOST, 0, ERR_NET, "reset"},
        {WAIT, 0, 1000, ""}, {WAIT, 0, 0, ""}, {UP, 0, 0, ""},      {EXIT, 0, 0, READY},
        {EXIT, 0, 0, KEY},   {END, 0, 0, ""}};
    begin();
    is_int(boot(1, steps), 0, "the node becomes ready: %s", error.text);
    ok(!nodes[0].failed, "the loss is no failure");
    is_str(info[0].host_key, KEY, "the second key counts");
    fake_free_all();
}

// A node that has failed keeps its reason while others still boot.
static void test_two(void) {
    static const struct step steps[] = {{WAIT, 0, 0, ""},
                                        {DOWN, 0, ERR_HOSTKEY, "another key"},
                                        {WAIT, 0, 900000, ""},
                                        {WAIT, 0, 0, ""},
                                        {END, 0, 0, ""}};
    begin();
    is_int(boot(2, steps), 0, "the wait ends");
    is_str(nodes[0].err.text, "another key", "the first node has its reason");
    is_str(nodes[1].err.text,
           "it did not answer in 15:00 (aws.boot_timeout): the login has not ended",
           "the second node has its own reason");
    fake_free_all();
}

static void test_limits(void) {
    static const struct {
        int64_t limit_ms;
        int wait_ms;
        const char *line;
    } cases[] = {
        {60000, 57000, "${up%.*}+1))"},
        {60000, 57001, "${up%.*}+0))"},
        {60000, 59000, "${up%.*}+0))"},
        {0, 0, "${up%.*}+898))"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct step steps[] = {{WAIT, 0, cases[i].wait_ms, ""},
                                     {WAIT, 0, 0, ""},
                                     {UP, 0, 0, ""},
                                     {EXIT, 0, 0, READY},
                                     {END, 0, 0, ""}};
        begin();
        nodes[0].first_key = "";
        config.aws.boot_timeout_ms = cases[i].limit_ms;
        boot(1, steps);
        has_str(fake_run(0)->line, cases[i].line, "limit %zu leaves so many seconds", i);
    }
    fake_free_all();
}

static void test_stop(void) {
    static const struct step steps[] = {
        {WAIT, 0, 0, ""}, {UP, 0, 0, ""}, {UP, 1, 0, ""}, {EXIT, 1, 0, READY}, {STOP, 0, 0, ""}};
    begin();
    is_int(boot(2, steps), -1, "the user stops the wait");
    is_int(error.code, ERR_INTERRUPTED, "the error has its code");
    is_str(error.text,
           "stopped while nodes boot; they run: dtctl up continues with them, dtctl down ends them",
           "the error has both next steps");
    ok(!nodes[0].failed && !nodes[1].failed, "no node has failed");
    fake_free_all();
}

int main(void) {
    struct err e;
    turn_fd = eventfd(1, EFD_CLOEXEC);
    clock_stop();
    char *env[] = {NULL};
    config_open(&config, &a, "dtctl", env);
    config.aws.instance_type = "g6.xlarge";
    config.aws.boot_timeout_ms = 0;
    config.ssh.proxy_jump = "";
    context = (struct context){.arena = &a, .config = &config, .screen = &screen, .env = env};
    context.cluster.key_path = "/nonexistent";
    context.loop = loop_open(&e);
    phases = (struct boot_progress){.nodes = progress_nodes, .count = NODES};
    said_open(&screen);
    test_ready();
    test_answers();
    test_long_log();
    test_keys();
    test_again();
    test_lost_key();
    test_two();
    test_limits();
    test_stop();
    said_close(&screen);
    strbuf_fini(&boot_rows);
    strbuf_fini(&opened);
    loop_close(context.loop);
    close(turn_fd);
    arena_fini(&a);
    return done_testing();
}
