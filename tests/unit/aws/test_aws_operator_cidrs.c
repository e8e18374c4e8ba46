// SPDX-License-Identifier: Apache-2.0
// The addresses that may connect over SSH: as given, from AWS's answer, or from this computer's
// routes. curl is a script of the test, and the routes are those of a network of its own.
#include "aws/aws_cluster.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test_operator_cidrs.XXXXXX";
static struct arena a;
static struct config config;
static struct context context;
static struct aws_cluster cluster;
static struct err error;

static const char *in(const char *name) {
    return file_join(&a, folder, name);
}

static void load(const char *toml) {
    struct err e = {0};
    config_open(&config, &a, "dtctl", NULL);
    option_set_file(&config.set, "t.toml", toml, strlen(toml));
    if (option_set_finish(&config.set, &e) < 0)
        bail_out("%s", e.text);
    cluster.vars = (struct aws_vars){0};
    err_clear(&error);
}

static int fill(const char *toml) {
    load(toml);
    return aws_operator_cidrs_fill(&cluster, &error);
}

// curl notes its words, prints the text and ends with the status.
static void curl(const char *text, int status) {
    const char *script = arena_printf(&a, "#!/bin/sh\necho \"$*\" >>%s\nprintf '%s'\nexit %d\n",
                                      in("calls"), text, status);
    struct err e = {0};
    unlink(in("calls"));
    if (file_write_atomic(in("curl"), script, strlen(script), 0755, &e) < 0)
        bail_out("%s", e.text);
}

static const char *calls(void) {
    char *text = NULL;
    size_t len;
    struct err e = {0};
    return file_read(&a, in("calls"), 4096, &text, &len, &e) == 0 ? text : "";
}

static void given(void) {
    curl("", 1);
    is_int(fill("[aws]\noperator_cidrs = ['198.51.100.7/32', '2001:db8::/48']\n"), 0,
           "ranges are given: %s", error.text);
    is_uint(cluster.vars.operator_cidr_count, 2, "each range that is given has its place");
    is_str(cluster.vars.operator_cidrs[0], "198.51.100.7/32", "the first range is as given");
    is_str(cluster.vars.operator_cidrs[1], "2001:db8::/48", "the second range is as given");
    is_str(calls(), "", "AWS is not asked for ranges that are given");
    is_int(fill("[aws]\noperator_cidrs = ['198.51.100.7/32']\n"), 0, "one range is given");
    is_uint(cluster.vars.operator_cidr_count, 1, "one range is one range");
}

static void of_aws(void) {
    static const char one[] = "[aws]\noperator_cidrs = ['auto', '198.51.100.0/24']\n";
    curl("203.0.113.9\\n", 0);
    is_int(fill(one), 0, "AWS has an address: %s", error.text);
    is_uint(cluster.vars.operator_cidr_count, 2, "other ranges stay");
    is_str(cluster.vars.operator_cidrs[0], "203.0.113.9/32", "the address is a range of one");
    is_str(cluster.vars.operator_cidrs[1], "198.51.100.0/24", "a range that is given stays");
    is_str(calls(), "-fsS --max-time 10 https://checkip.amazonaws.com\n",
           "AWS's service is asked once");
    is_int(aws_operator_cidrs_fill(&cluster, &error), 0, "the ranges are asked for again");
    is_str(calls(), "-fsS --max-time 10 https://checkip.amazonaws.com\n",
           "a command asks AWS no second time");
    is_str(cluster.vars.operator_cidrs[0], "203.0.113.9/32", "the ranges stay");
    curl("2001:db8::7\\r\\n", 0);
    is_int(fill(one), 0, "AWS has an address of version 6: %s", error.text);
    is_str(cluster.vars.operator_cidrs[0], "2001:db8::7/128", "the address is a range of one, too");
    curl("203.0.113.9 and more", 0);
    is_int(fill(one), 0, "words follow the address: %s", error.text);
    is_str(cluster.vars.operator_cidrs[0], "203.0.113.9/32", "the first word is the address");
}

static void no_answer(void) {
    static const struct {
        const char *text;
        int status;
        const char *why;
    } cases[] = {
        {"", 6, "curl ended with status 6 and said ''"},
        {"203.0.113.9", 22, "curl ended with status 22 and said '203.0.113.9'"},
        {"<html>", 0, "curl ended with status 0 and said '<html>'"},
        {"example.com", 0, "curl ended with status 0 and said 'example.com'"},
        {"10.0.0.1", 0, "curl ended with status 0 and said '10.0.0.1'"},
        {"\\033[31m", 0, "curl ended with status 0 and said '\\x1b[31m'"},
        {"", 0, "curl ended with status 0 and said ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        curl(cases[i].text, cases[i].status);
        is_int(fill("[aws]\noperator_cidrs = ['auto']\n"), -1, "'%s' (%d) is no address",
               cases[i].text, cases[i].status);
        is_int(error.code, ERR_NET, "the error is one of the network");
        has_str(error.text, cases[i].why, "the error has curl's end and its words");
    }
    is_str(error.text,
           "t.toml:2:18: aws.operator_cidrs: auto: https://checkip.amazonaws.com does not say this "
           "computer's address: curl ended with status 0 and said ''; say where SSH may come from, "
           "such as --operator-cidr 198.51.100.7/32",
           "the error has the option and a remedy");
    is_uint(cluster.vars.operator_cidr_count, 0, "no range is kept after an error");
    unlink(in("curl"));
    is_int(fill("[aws]\noperator_cidrs = ['auto']\n"), -1, "there is no curl");
    has_str(error.text, "address: cannot start 'curl'", "the error says that there is none");
}

// Addresses that AWS never sees.
static void private_addresses(void) {
    static const char *const inside[] = {
        "10.255.0.1", "127.0.0.1",      "169.254.1.1", "192.168.0.1", "172.16.0.1",
        "172.31.0.1", "100.64.0.1",     "100.127.0.1", "0.0.0.0",     "fe80::1",
        "fc00::1",    "fd12:3456::789", "::1",
    };
    static const char *const outside[] = {
        "11.0.0.1",   "172.15.0.1",  "172.32.0.1",  "172.64.0.1",  "100.63.0.1", "100.128.0.1",
        "100.16.0.1", "128.0.0.1",   "169.253.1.1", "192.167.0.1", "110.0.0.1",  "2001:db8::1",
        "72.16.0.1",  "172.160.0.1", "100.6.0.1",   "1.0.0.1",
    };
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        curl(inside[i], 0);
        is_int(fill("[aws]\noperator_cidrs = ['auto']\n"), -1, "%s is private", inside[i]);
    }
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        curl(outside[i], 0);
        is_int(fill("[aws]\noperator_cidrs = ['auto']\n"), 0, "%s is public", outside[i]);
    }
}

// This computer's own address, in a network that has one interface and one route.
static void of_routes(void) {
    static const char need[] =
        "aws.operator_cidrs: this computer's address as AWS sees it cannot be found out from here";
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
        skip(10, "no network of its own here");
        return;
    }
    is_int(fill(""), -1, "there is no route");
    is_int(error.code, ERR_CONFIG, "the error is one of the configuration");
    is_str(error.text,
           arena_printf(&a,
                        "%s; say where SSH may come from, such as --operator-cidr "
                        "198.51.100.7/32, or let dtctl ask AWS: --operator-cidr auto",
                        need),
           "the error has the option and both remedies");
    if (shell("ip link set lo up && ip addr add 198.51.100.20/24 dev lo && "
              "ip addr add 192.168.7.7/24 dev lo && "
              "ip route add 203.0.113.0/24 dev lo src 198.51.100.20") != 0)
        bail_out("no route");
    curl("", 1);
    is_int(fill(""), 0, "this computer has a public address: %s", error.text);
    is_uint(cluster.vars.operator_cidr_count, 1, "the address is one range");
    is_str(cluster.vars.operator_cidrs[0], "198.51.100.20/32", "the range is the address");
    is_str(calls(), "", "AWS is not asked unless the user says so");
    if (shell("ip route replace 203.0.113.0/24 dev lo src 192.168.7.7") != 0)
        bail_out("no other route");
    is_int(fill(""), -1, "a private address is not what AWS sees");
    has_str(error.text, arena_printf(&a, "%s (it is 192.168.7.7, behind NAT); say", need),
            "the error has the address");
    is_int(fill("[aws]\npublic_address = 'none'\n"), 0, "nodes without public addresses: %s",
           error.text);
    is_str(cluster.vars.operator_cidrs[0], "192.168.7.7/32",
           "nodes are reached from a private address");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    char *env[] = {arena_printf(&a, "PATH=%s", folder), NULL};
    context = (struct context){.arena = &a, .config = &config, .env = env};
    cluster.context = &context;
    given();
    of_aws();
    no_answer();
    private_addresses();
    of_routes();
    file_remove_tree(folder, &error);
    arena_fini(&a);
    return done_testing();
}
