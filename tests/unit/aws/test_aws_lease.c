// SPDX-License-Identifier: Apache-2.0
// Nodes are asked for their deadline and readiness, and get another deadline. The test is the
// nodes.
#include "aws/aws_lease.h"

#include "aws/aws_boot.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/file.h"
#include "tests/unit/fleet_fake.h"

#include <sys/mman.h>

#define PUT                                                                                        \
    "umask 022; d=/var/lib/dtctl; put() { [ \"$(cat $d/$1 2>/dev/null)\" = $2 ] || { echo $2 "     \
    ">$d/$1.$$ && mv -f $d/$1.$$ $d/$1 && echo $1; }; }; "

static char folder[] = "/tmp/test_aws_lease.XXXXXX";
static struct config config;
static struct err error;
static int said_fd;

static void say_line(const char *line, size_t len) {
    if (write(said_fd, line, len) < 0)
        bail_out("a line is lost");
}

static void begin(const char *n0, const char *n1, const char *n2) {
    fake_fleet_begin(n0, n1, n2);
    err_clear(&error);
    context.interrupt = 0;
    if (ftruncate(said_fd, 0) < 0 || lseek(said_fd, 0, SEEK_SET) != 0)
        bail_out("no log");
}

static const char *said(void) {
    static char text[4096];
    ssize_t n = pread(said_fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void test_get(void) {
    static const struct {
        const char *n0, *n1, *n2;
        int64_t at_ms;
    } cases[] = {
        {"", "", "", 0},
        {"1767323045\n", "", "", 1767323045000},
        {"1767323045\n", "1767323044\r\nmore", "1767323046", 1767323044000},
        {"0\n", "1767323046\n", "-5\n", 1767323046000},
        {"1\n", "7\n", "2 \n", 1000},
        {"99999999999\n", "", "", 99999999999000},
        {"100000000000\n", "", "x", 0},
        {"!not-found", "1767323046\n", "!failed", 1767323046000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t at_ms = 7;
        begin(cases[i].n0, cases[i].n1, cases[i].n2);
        is_int(aws_lease_get(&fleet, &at_ms, &error), 0, "nodes are asked (%zu)", i);
        is_int(at_ms, cases[i].at_ms, "the earliest deadline counts (%zu)", i);
        is_int(nodes[0].failed, cases[i].n0[0] == '!', "a failure stays with its node (%zu)", i);
        is_str(fake_run(0)->line,
               "cat /var/lib/dtctl/lease 2>/dev/null || sudo -n cat /var/lib/dtctl/own/lease "
               "2>/dev/null || true",
               "the node may need root (%zu)", i);
        fake_fleet_end();
    }
}

static void test_set(void) {
    static const struct {
        const char *n0, *n1, *n2;
        bool decided;
    } cases[] = {
        {"lease\n", "", "lease\n", true},
        {"!failed", "!failed", "lease\n", true},
        {"!failed", "!failed", "!failed", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        aws_lease_forget(&context);
        begin(cases[i].n0, cases[i].n1, cases[i].n2);
        is_int(aws_lease_set(&fleet, 4102444800999, &error), 0, "an end is set (%zu)", i);
        is_str(fake_run(0)->line, PUT "put lease 4102444800", "each node gets its seconds (%zu)",
               i);
        is_int(aws_lease_decided(&context), cases[i].decided ? 4102444800000 : 0,
               "the end is decided if a node has it (%zu)", i);
        fake_fleet_end();
    }
}

static void test_settle(void) {
    int64_t until_ms = (clock_wall_ms() / 1000 + 7230) * 1000; // two hours, and half a minute
    char stamp[CLOCK_ISO_BYTES];
    config.lease.idle_ms = 1800999;
    aws_lease_forget(&context);
    begin("idle_s\n", "", "!failed");
    is_int(aws_lease_settle(&fleet, &error), 0, "nodes without an end settle: %s", error.text);
    is_str(fake_run(0)->line, PUT "put idle_s 1800", "the limit has seconds");
    is_str(said(), "n0: ends after 30:00 without a run, a login or use of GPUs now\n",
           "the user reads which node changes");
    fake_fleet_end();
    config.lease.idle_ms = 0;
    must(aws_lease_decide(&context, until_ms, &error) == 0);
    begin("idle_s\nlease\n", "lease\n", "idle_s\n");
    is_int(aws_lease_settle(&fleet, &error), 0, "nodes with an end settle: %s", error.text);
    is_str(fake_run(0)->line,
           arena_printf(&arena, PUT "put idle_s 0 && put lease %lld", (long long)until_ms / 1000),
           "both numbers are sent");
    const char *ends =
        arena_printf(&arena, " now (%.16sZ)\nn0,n2: does not end for being idle any more\n",
                     clock_iso(stamp, until_ms));
    ok(str_starts(said(), "n[0-1]: the lease ends in 2:00:"), "the rest is about two hours: %s",
       said());
    has_str(said(), ends, "the user reads of both changes");
    fake_fleet_end();
    begin("", "", "");
    is_int(aws_lease_settle(&fleet, &error), 0, "nothing has changed");
    is_str(said(), "", "the user reads nothing");
    fake_fleet_end();
    aws_lease_forget(&context);
}

static void test_checks(void) {
    static const struct {
        const char *n0, *n1, *n2, *unchecked, *other; // folded names, NULL: none
    } cases[] = {
        {"config_hash=a\n", "config_hash=a\n", "config_hash=a\n", NULL, NULL},
        {"", "config_hash=a\n", "status=ok\n", "n0,n2", NULL},
        {"config_hash=b\n", "config_hash=a\n", "config_hash=c\n", NULL, "n0,n2"},
        {"!failed", "config_hash=b\n", "", "n2", "n1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].n0, cases[i].n1, cases[i].n2);
        for (size_t k = 0; k < NODES; k++)
            info[k].config_hash = "a";
        is_int(aws_ready_check(&fleet, &error), 0, "nodes are asked (%zu): %s", i, error.text);
        is_str(fake_run(0)->line, "cat /var/lib/dtctl/ready 2>/dev/null || true",
               "a node may have no file (%zu)", i);
        const char *unchecked =
            cases[i].unchecked
                ? arena_printf(&arena,
                               "test: warning: nodes have not passed their checks since they "
                               "booted; dtctl ssh to one and look at journalctl -u dtctl-boot "
                               "cluster=c nodes=%s\n",
                               cases[i].unchecked)
                : "";
        const char *other =
            cases[i].other
                ? arena_printf(&arena,
                               "test: warning: nodes are configured otherwise than this dtctl and "
                               "its configuration would do it now (login, metadata, or dtctl's "
                               "own scripts); they stay in use, and dtctl up --replace '%s' makes "
                               "them anew cluster=c nodes=%s\n",
                               cases[i].other, cases[i].other)
                : "";
        is_str(said(), arena_printf(&arena, "%s%s", unchecked, other),
               "the user reads which nodes differ (%zu)", i);
        fake_fleet_end();
    }
    begin("config_hash=b\n", "config_hash=b\n", "config_hash=b\n");
    info[0].config_hash = NULL;
    info[1].config_hash = "";
    is_int(aws_ready_check(&fleet, &error), 0, "nodes may have no wanted hash");
    has_str(said(), "--replace 'n2'", "one of them has");
    ok(!strstr(said(), "n0") && !strstr(said(), "n1"), "the others are left alone");
    fake_fleet_end();
}

static void test_stopped(void) {
    int64_t at_ms = 7;
    for (int i = 0; i < 4; i++) {
        begin("", "", "");
        context.interrupt = 2;
        is_int(i == 0   ? aws_lease_get(&fleet, &at_ms, &error)
               : i == 1 ? aws_lease_set(&fleet, 4102444800000, &error)
               : i == 2 ? aws_lease_settle(&fleet, &error)
                        : aws_ready_check(&fleet, &error),
               -1, "the user stops it (%d)", i);
        is_int(error.code, ERR_INTERRUPTED, "the error has its code (%d)", i);
        fake_fleet_end();
    }
    is_int(at_ms, 0, "no deadline is known then");
    is_int(aws_lease_decided(&context), 0, "no end is decided then");
}

int main(void) {
    struct err e;
    char *env[] = {NULL};
    if (!mkdtemp(folder))
        bail_out("no folder");
    fake_fleet_init();
    config_open(&config, &arena, "dtctl", env);
    context.config = &config;
    context.env = env;
    if (cluster_open(&context.cluster, &arena, folder, "c", &e) < 0 ||
        file_make_dirs(file_join(&arena, context.cluster.dir, "terraform"), 0700, &e) < 0)
        bail_out("%s", e.text);
    said_fd = memfd_create("said", MFD_CLOEXEC);
    log_open("test", LOG_WARN, LOG_PLAIN);
    log_sink(say_line);
    screen_fini(&screen);
    screen_init(&screen, said_fd, said_fd, SCREEN_PLAIN, false);
    test_get();
    test_set();
    test_settle();
    test_checks();
    test_stopped();
    cluster_close(&context.cluster);
    file_remove_tree(folder, &e);
    close(said_fd);
    fake_fleet_fini();
    return done_testing();
}
