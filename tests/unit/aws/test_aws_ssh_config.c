// SPDX-License-Identifier: Apache-2.0
// The files for `ssh NODE`: keys of hosts, the hosts of the cluster, and one line in the user's
// configuration, of which nothing else changes.
#include "aws/aws_cluster.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/said.h"

#include <unistd.h>

#define KEY   "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
#define OTHER "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA"

static char folder[] = "/tmp/test_aws_ssh_config.XXXXXX";
static struct arena a;
static struct config config;
static struct screen screen;
static struct context context;
static struct err error;
static struct inventory_node nodes[3];
static struct inventory inventory = {.name = "c", .nodes = nodes};

static const char *in(const char *name) {
    return file_join(&a, folder, name);
}

static const char *text_of(const char *name) {
    char *text;
    size_t len;
    struct err e;
    return file_read(&a, in(name), 1 << 20, &text, &len, &e) < 0 ? "-" : text;
}

static void put(const char *name, const char *text, size_t len) {
    struct err e;
    if (file_make_dirs(file_dir(&a, in(name)), 0700, &e) < 0 ||
        file_write_atomic(in(name), text, len, 0600, &e) < 0)
        bail_out("%s", e.text);
}

// One node of the table for each key; NULL: it has none.
static void hosts(size_t count, const char *const keys[]) {
    static const char *const names[] = {"n0", "n1", "n2"}, *const at[] = {"h0", "h1", "h2"};
    inventory.count = count;
    for (size_t i = 0; i < count; i++)
        nodes[i] = (struct inventory_node){
            .name = names[i], .host = at[i], .port = i == 1 ? 2222 : 0, .host_key = keys[i]};
}

static void test_keys(void) {
    static const struct {
        const char *about, *keys[3];
        int result;
        const char *want;
    } cases[] = {
        {"no key", {NULL, "", NULL}, 0, "-"},
        {"keys of all", {KEY, OTHER, KEY}, 0, "h0 " KEY "\n[h1]:2222 " OTHER "\nh2 " KEY "\n"},
        {"one key", {NULL, KEY, ""}, 0, "[h1]:2222 " KEY "\n"},
        {"a damaged key", {"ssh-ed25519 !", KEY, KEY}, -1, "-"},
        {"a damaged key in the middle", {KEY, "x", KEY}, -1, "-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unlink(in("known_hosts"));
        hosts(3, cases[i].keys);
        is_int(aws_ssh_write(&context, &inventory, &error), cases[i].result, "%s: the call says so",
               cases[i].about);
        is_str(text_of("known_hosts"), cases[i].want, "%s: the file has the keys", cases[i].about);
    }
    static const char *const none[] = {NULL, OTHER, ""};
    put("known_hosts", "h0 " KEY "\n[h1]:2222 " KEY "\n",
        strlen("h0 " KEY "\n[h1]:2222 " KEY "\n"));
    hosts(3, none);
    is_int(aws_ssh_known_keys(&context, &inventory, &error), 0, "known keys are read");
    has_str(nodes[0].host_key, KEY, "a node without a key has the one that is known");
    is_str(nodes[1].host_key, OTHER, "a node's own key stays");
    is_str(nodes[2].host_key, "", "a node without a known key has none");
    unlink(in("known_hosts"));
    hosts(1, none);
    is_int(aws_ssh_known_keys(&context, &inventory, &error), 0, "there may be no known keys");
    ok(!nodes[0].host_key, "no node has one then");
}

static void test_hosts(void) {
    static const char *const none[] = {NULL, NULL, NULL};
    hosts(2, none);
    nodes[1].user = "u";
    is_int(aws_ssh_write(&context, &inventory, &error), 0, "hosts are written");
    const char *text = text_of("ssh_config");
    has_str(text, "Host n0 n0.c\n    HostName h0\n    Port 22\n    IdentityFile",
            "a host has its section");
    has_str(text, "Host n1 n1.c\n    HostName h1\n    Port 2222\n    User u\n",
            "a host has its user and its port");
    ok(!strstr(text, "ProxyJump"), "no host is between");
    config.ssh.proxy_jump = "j";
    is_int(aws_ssh_write(&context, &inventory, &error), 0, "hosts behind a host are written");
    has_str(text_of("ssh_config"), "    ProxyJump j\n", "the host is named");
    config.ssh.proxy_jump = "";
}

// "@" stands for the line.
static const char *with_line(const char *text) {
    const char *at = text ? strchr(text, '@') : NULL;
    return at ? arena_printf(&a, "%.*sInclude \"%s\"%s", (int)(at - text), text, in("ssh_config"),
                             with_line(at + 1))
              : text;
}

static void test_line(void) {
    static const char *const none[] = {NULL};
    static const struct {
        const char *about, *before, *written, *removed;
    } cases[] = {
        {"no file", NULL, "@\n", ""},
        {"an empty file", "", "@\n", ""},
        {"other lines", "Host x\n", "@\nHost x\n", "Host x\n"},
        {"the line", "@\nHost x\n", "@\nHost x\n", "Host x\n"},
        {"the line at the end", "Host x\n@", "Host x\n@", "Host x\n"},
        {"the line between others", "A\n@\nB\n", "A\n@\nB\n", "A\nB\n"},
        {"more behind the line", "@x\n", "@\n@x\n", "@x\n"},
        {"a remark with the line", "#@\n", "@\n#@\n", "#@\n"},
        {"a remark before the line", "#@\n@\n", "#@\n@\n", "#@\n"},
    };
    hosts(1, none);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *before = with_line(cases[i].before);
        unlink(in("home/.ssh/config"));
        if (before)
            put("home/.ssh/config", before, strlen(before));
        config.aws.ssh_include = false;
        said_clear();
        is_int(aws_ssh_write(&context, &inventory, &error), 0, "%s: the files are written",
               cases[i].about);
        bool has = before && strcmp(before, with_line(cases[i].written)) == 0;
        is_str(text_of("home/.ssh/config"), before ? before : "-", "%s: nothing changes unasked",
               cases[i].about);
        is_int(strstr(said(), "put this line at the top") != NULL, !has, "%s: it is asked for",
               cases[i].about);
        config.aws.ssh_include = true;
        is_int(aws_ssh_write(&context, &inventory, &error), 0,
               "%s: the files are written with the line", cases[i].about);
        is_str(text_of("home/.ssh/config"), with_line(cases[i].written), "%s: the line is there",
               cases[i].about);
        is_int(aws_ssh_remove(&context, &error), 0, "%s: the files are removed", cases[i].about);
        is_str(text_of("home/.ssh/config"), with_line(cases[i].removed), "%s: the line is gone",
               cases[i].about);
        is_str(text_of("ssh_config"), "-", "%s: the hosts are gone", cases[i].about);
    }
    is_int(aws_ssh_remove(&context, &error), 0, "nothing is there to remove");
    const char *line = with_line("@\n");
    char *cut = arena_printf(&a, "%s.x\n", line);
    cut[strlen(line)] = '\0';
    put("home/.ssh/config", cut, strlen(line) + strlen(".x\n"));
    is_int(aws_ssh_remove(&context, &error), -1, "a file with a NUL byte is not written");
    has_str(error.text, "holds a NUL byte", "the error says why");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    static char *env[] = {NULL, NULL};
    env[0] = arena_printf(&a, "HOME=%s", in("home"));
    config = (struct config){.ssh = {.proxy_jump = ""}};
    context = (struct context){.arena = &a, .env = env, .config = &config, .screen = &screen};
    context.cluster = (struct cluster){
        .dir = folder, .key_path = in("key"), .known_hosts_path = in("known_hosts")};
    said_open(&screen);
    test_keys();
    test_hosts();
    test_line();
    said_close(&screen);
    struct err e;
    file_remove_tree(folder, &e);
    arena_fini(&a);
    return done_testing();
}
