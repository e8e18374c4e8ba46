// SPDX-License-Identifier: Apache-2.0
// ssh_config: own cases, and the answers of the real client (ssh -G) for the same file.
#include "base/log.h"
#include "base/str.h"
#include "remote/ssh_config.h"
#include "sys/proc.h"
#include "tests/tap.h"

#include <unistd.h>

static struct arena arena;

static int read_included(void *ctx, struct arena *a, const char *pattern,
                         struct ssh_config_file **files, size_t *count, struct err *e) {
    const char *text = ctx;
    (void)e;
    *count = 0;
    if (!text || !str_eq(pattern, "/home/me/.ssh/more/*"))
        return 0;
    *files = arena_new(a, struct ssh_config_file, 1);
    (*files)[0] = (struct ssh_config_file){"more/one", text, strlen(text)};
    *count = 1;
    return 0;
}

static int look_up(const char *text, const char *included, const char *alias, struct ssh_config *c,
                   struct err *e) {
    struct ssh_config_query q = {.alias = alias,
                                 .home = "/home/me",
                                 .user = "me",
                                 .read_files = read_included,
                                 .ctx = (void *)included};
    struct ssh_config_file file = {"config", text, strlen(text)};
    *c = (struct ssh_config){0};
    if (ssh_config_add(&arena, &q, &file, c, e) < 0)
        return -1;
    return ssh_config_finish(&arena, &q, c, e);
}

static void test_values(void) {
    static const char text[] = "User first\n"
                               "# a comment\n"
                               "Host gpu* !gpu9\n"
                               "  HostName=%h.lab\n"
                               "\tport = 2200\r\n"
                               "  User second\n"
                               "  IdentityFile ~/.ssh/%r@%h-%p\n"
                               "  IdentityFile \"/keys/with space\"\n"
                               "  IdentitiesOnly yes\n"
                               "Host \"gpu9\" other\n"
                               "  ProxyJump a,b@c:22\n"
                               "  UserKnownHostsFile ~/kh1 /kh2\n"
                               "Match exec true\n"
                               "  HostName never\n"
                               "Match all\n"
                               "  HostKeyAlias alias\n"
                               "Host *\n"
                               "  HostName %h.last\n";
    struct ssh_config c;
    struct err e;
    is_int(look_up(text, NULL, "gpu1", &c, &e), 0, "a file parses");
    is_str(c.user, "first", "the first value wins");
    is_str(c.host_name, "gpu1.lab", "%%h in HostName is the alias");
    is_int(c.port, 2200, "Port with '=' and a carriage return");
    is_uint(c.identity_count, 2, "IdentityFile adds up");
    is_str(c.identities[0], "/home/me/.ssh/first@gpu1.lab-2200", "~ and tokens are expanded");
    is_str(c.identities[1], "/keys/with space", "quotes");
    ok(c.identities_only, "IdentitiesOnly is read");
    is_int(look_up(text, NULL, "gpu9", &c, &e), 0, "another host is looked up");
    is_str(c.host_name, "gpu9.last",
           "a negated pattern and a Match that would run a program are passed over");
    is_str(c.proxy_jump, "a,b@c:22", "ProxyJump is read");
    is_str(c.user_known_hosts, "/home/me/kh1\n/kh2", "several known_hosts files are kept");
    is_str(c.host_key_alias, "alias", "Match all is followed");
}

static void test_match(void) {
    static const struct {
        const char *criteria;
        bool holds;
    } cases[] = {{"host gpu1.lab", true},
                 {"host gpu1", false}, // HostName was given before
                 {"originalhost gpu1", true},
                 {"originalhost gpu2,gpu?", true},
                 {"originalhost gpu*,!gpu1", false},
                 {"!originalhost gpu1", false},
                 {"Host *.lab User ubuntu", true},
                 {"host *.lab user root", false},
                 {"localuser me", true},
                 {"localuser you", false},
                 {"host", false},
                 {"final", false},
                 {"host *.lab exec true", false},
                 {"all", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ssh_config c;
        struct err e;
        char text[256];
        snprintf(text, sizeof text,
                 "Host gpu1\n HostName gpu1.lab\n User ubuntu\nMatch %s\n Port 7\n",
                 cases[i].criteria);
        is_int(look_up(text, NULL, "gpu1", &c, &e), 0, "Match %s is followed", cases[i].criteria);
        is_int(c.port, cases[i].holds ? 7 : 0, "%s",
               cases[i].holds ? "a host of this Match" : "no host of this Match");
    }
}

static struct strbuf logged;

static void keep_log(const char *line, size_t len) {
    strbuf_add(&logged, line, len);
}

static void test_skipped(void) {
    struct ssh_config c;
    struct err e;
    log_sink(keep_log);
    is_int(look_up("Match host gpu2\n Port 7\n", NULL, "gpu1", &c, &e), 0, "a Match is followed");
    is_str(strbuf_cstr(&logged), "", "a Match of another host is no cause for a warning");
    is_int(look_up("Match host gpu1 exec true\n Port 7\n", NULL, "gpu1", &c, &e), 0,
           "a Match that would run a program is passed over");
    log_sink(NULL);
    has_str(strbuf_cstr(&logged), "skipping a Match block", "a warning reports the skipped block");
    has_str(strbuf_cstr(&logged), "host=gpu1 criterion=exec",
            "the warning names the host and the criterion");
    strbuf_fini(&logged);
}

static void test_include(void) {
    struct ssh_config c;
    struct err e;
    static const char more[] = "Host a\n HostName in-a\nHost *\n Port 7\n";
    is_int(look_up("Host a\n Include more/*\nHost *\n User z\n", more, "a", &c, &e), 0,
           "Include is followed");
    is_str(c.host_name, "in-a", "the included file counts");
    is_str(c.user, "z", "a Host line of an included file ends with the file");
    is_int(look_up("Host b\n Include more/*\n", more, "a", &c, &e), 0,
           "Include inside the block of another host is read");
    is_int(c.port, 0, "an Include inside another host's block does not count");
    is_int(look_up("Include more/*\n", "Include more/*\n", "a", &c, &e), -1, "a circle ends");
    has_str(e.text, "deeper than 16", "the error has the depth limit");
}

static void test_errors(void) {
    struct ssh_config c;
    struct err e;
    is_int(look_up("\n\nPort http\n", NULL, "a", &c, &e), -1, "a port must be a number");
    has_str(e.text, "config:3: Port", "file and line are named");
    is_int(look_up("User \"x\n", NULL, "a", &c, &e), -1, "an open quote");
    is_int(look_up("User\n", NULL, "a", &c, &e), -1, "a keyword without a value is refused");
    is_int(look_up("Host a\nHostName %z\n", NULL, "a", &c, &e), -1, "an unknown token is refused");
    is_int(look_up("ProxyCommand nc %h %p\n", NULL, "a", &c, &e), 0, "ProxyCommand is noted");
    is_str(c.proxy_command, "nc", "ProxyCommand is kept for the caller to refuse");
}

static void test_glob(void) {
    ok(ssh_config_glob("*.lab", "a.lab"), "a star matches a label");
    ok(!ssh_config_glob("*.lab", "a.lab2"), "star does not reach past the end");
    ok(ssh_config_glob("g??1", "gpu1"), "question marks");
    ok(ssh_config_glob("*a*b*", "xxaxxbxx"), "a pattern of several stars matches");
    ok(!ssh_config_glob("a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
       "a pattern made to take long does not");
}

// Value of a keyword in the output of ssh -G, or "".
static const char *value_of(const char *output, const char *keyword) {
    size_t len = strlen(keyword);
    for (const char *p = output; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (strncmp(p, keyword, len) == 0 && p[len] == ' ')
            return arena_strndup(&arena, p + len + 1, strcspn(p + len + 1, "\n"));
    return "";
}

static void test_peer(void) {
    static const char text[] = "Host one two*\n  HostName %h.example\n  User u1\n"
                               "Host *two !twotwo\n  Port 99\n  User u2\n  ProxyJump hop:8022\n"
                               "Host *.net *\n  IdentityFile /k/%h\n  User u3\n  HostName=[x]\n";
    static const char *const names[] = {"one", "two", "onetwo", "twotwo", "a.net", "ONE"};
    char path[] = "/tmp/test_ssh_config.XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, text, sizeof text - 1) < 0 || access("/usr/bin/ssh", X_OK) < 0) {
        skip(1, "no /usr/bin/ssh to compare with");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct ssh_config c;
        struct err e;
        char *output = NULL;
        int status;
        struct proc_spec spec = {
            .argv = (const char *const[]){"/usr/bin/ssh", "-G", "-F", path, names[i], NULL},
            .env = environ,
            .in = -1,
            .err = -1};
        is_int(proc_run(&spec, &output, 65536, 10000, &status, &e), 0,
               "ssh -G %s prints its settings", names[i]);
        is_int(look_up(text, NULL, names[i], &c, &e), 0, "%s parses", names[i]);
        if (strcmp(names[i], "ONE") != 0) // ssh lowers HostName's %h only when it canonicalises
            is_str(c.host_name, value_of(output, "hostname"), "%s: HostName is that of ssh",
                   names[i]);
        is_str(c.user, value_of(output, "user"), "%s: User is that of ssh", names[i]);
        is_str(arena_printf(&arena, "%d", c.port ? c.port : 22), value_of(output, "port"),
               "%s: Port is that of ssh", names[i]);
        is_str(c.proxy_jump ? c.proxy_jump : "", value_of(output, "proxyjump"),
               "%s: ProxyJump is that of ssh", names[i]);
        free(output);
    }
    close(fd);
    unlink(path);
}

int main(void) {
    test_values();
    test_match();
    test_skipped();
    test_include();
    test_errors();
    test_glob();
    test_peer();
    arena_fini(&arena);
    return done_testing();
}
