// SPDX-License-Identifier: Apache-2.0
// The settings for a host before connecting: those of the caller before those of the user's ssh
// configuration, key files and known hosts in their order, and jumps.
#include "base/str.h"
#include "remote/ssh_impl.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[] = "/tmp/test_ssh_target.XXXXXX";
static struct arena arena;
static char *environment[4];

static char *in_home(const char *name) {
    return arena_printf(&arena, "%s/%s", home, name);
}

// Resolves a host with this text as the only configuration. The error's text, or NULL.
static const char *resolve(const char *config, const struct transport_env *env,
                           const struct transport_target *t, struct ssh_host *out) {
    struct err e;
    struct transport_env with = *env;
    with.env = environment;
    if (!with.ssh_config_path)
        with.ssh_config_path = in_home(".ssh/config");
    *out = (struct ssh_host){0};
    if (file_write_atomic(in_home(".ssh/config"), config, strlen(config), 0600, &e) < 0)
        bail_out("%s", e.text);
    return ssh_host_resolve(&arena, &with, t, out, &e) < 0 ? arena_strdup(&arena, e.text) : NULL;
}

// The jump of `host` to itself is none, as in ssh; any other is kept.
static void test_jumps(void) {
    static const struct {
        const char *config, *host;
        int port;
        const char *jump, *want;
    } cases[] = {
        {"", "a", 0, NULL, NULL},
        {"", "a", 0, "b", "b"},
        {"", "a", 0, "none", NULL},
        {"", "a", 0, "a", NULL},
        {"", "a", 0, "me@a", NULL},
        {"", "a", 0, "a:22", NULL},
        {"", "a", 0, "a:2222", "a:2222"},
        {"", "a", 2222, "a", NULL},
        {"", "a", 2222, "a:22", "a:22"},
        {"", "a", 2222, "a:2222", NULL},
        {"", "a", 0, "a,b", "a,b"},
        {"", "a", 0, "b,a", "b,a"},
        {"", "a", 0, "a:x", "a:x"},
        {"Host *\n ProxyJump b\n", "b", 0, NULL, NULL},
        {"Host *\n ProxyJump b\n", "a", 0, NULL, "b"},
        {"Host *\n ProxyJump b\n", "a", 0, "none", NULL},
        {"Host *\n ProxyJump b\n", "a", 0, "c", "c"},
        {"Host a\n Hostname 10.0.0.1\n", "a", 0, "10.0.0.1", NULL},
        {"Host a\n Hostname 10.0.0.1\n", "a", 0, "10.0.0.1:22", NULL},
        {"Host a\n Hostname 10.0.0.1\n", "a", 0, "10.0.0.2", "10.0.0.2"},
        {"Host a\n Hostname 10.0.0.1\n Port 23\n", "a", 0, "10.0.0.1", "10.0.0.1"},
        {"Host a\n Hostname 10.0.0.1\n Port 23\n", "a", 0, "10.0.0.1:23", NULL},
        {"Host a\n Hostname 10.0.0.1\n Port 23\n", "a", 0, "a:23", NULL},
        {"Host a\n Hostname 10.0.0.1\n Port 23\n", "a", 0, "a:22", "a:22"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct transport_target t = {
            .host = cases[i].host, .port = cases[i].port, .proxy_jump = cases[i].jump};
        struct ssh_host out;
        const char *bad = resolve(cases[i].config, &(struct transport_env){0}, &t, &out);
        is_str(bad ? bad : out.jump, cases[i].want, "%s:%d by way of %s is reached through %s",
               cases[i].host, cases[i].port, cases[i].jump ? cases[i].jump : "its configuration",
               cases[i].want ? cases[i].want : "no other host");
    }
}

static void test_address(void) {
    static const char config[] = "Host gpu\n Hostname 10.0.0.1\n Port 23\n User alice\n"
                                 " HostKeyAlias farm\n";
    struct transport_target t = {.host = "gpu"};
    struct transport_env env = {0};
    struct ssh_host out;
    is_str(resolve(config, &env, &t, &out), NULL, "a configured host is resolved");
    ok(str_eq(out.host_name, "10.0.0.1") && out.port == 23 && str_eq(out.user, "alice") &&
           str_eq(out.key_name, "farm"),
       "address, port, user and the name of its key are those of the configuration");
    is_str(out.label, "gpu (alice@10.0.0.1:23)", "messages name the alias and the address");
    struct err e;
    env.env = environment;
    out = (struct ssh_host){0};
    is_int(ssh_host_resolve(&arena, &env, &t, &out, &e), 0, "~/.ssh/config is the default");
    is_str(out.label, "gpu (alice@10.0.0.1:23)", "settings of ~/.ssh/config are used");
    t = (struct transport_target){.host = "gpu", .port = 24, .user = "bob"};
    is_str(resolve(config, &env, &t, &out), NULL, "the caller's own settings are taken");
    is_str(out.label, "gpu (bob@10.0.0.1:24)", "settings of the caller precede the configuration");
    t = (struct transport_target){.host = "10.0.0.9", .user = "bob"};
    is_str(resolve(config, &env, &t, &out), NULL, "a host without configuration is resolved");
    is_str(out.label, "bob@10.0.0.9:22", "the port is 22 without a configuration");
    is_str(out.key_name, "10.0.0.9", "the key is looked up by the address");
    env.ssh_config_path = "none";
    t = (struct transport_target){.host = "gpu", .user = "bob"};
    is_str(resolve(config, &env, &t, &out), NULL, "no configuration may be read");
    is_str(out.label, "bob@gpu:22", "the name is the address without a configuration");
    env.ssh_config_path = in_home("absent");
    has_str(resolve(config, &env, &t, &out), "ssh configuration",
            "a configuration that is named has to exist");
}

static void test_refused(void) {
    static const char *const hosts[] = {NULL, "", "-oProxyCommand=x"};
    struct ssh_host out;
    for (size_t i = 0; i < 3; i++)
        has_str(resolve("", &(struct transport_env){0},
                        &(struct transport_target){.host = hosts[i]}, &out),
                "needs a host name or an address", "'%s' is no host", hosts[i] ? hosts[i] : "NULL");
    has_str(resolve("Host a\n ProxyCommand nc %h %p\n", &(struct transport_env){0},
                    &(struct transport_target){.host = "a"}, &out),
            "which is not supported; use ProxyJump", "a ProxyCommand is refused");
    has_str(resolve("", &(struct transport_env){0},
                    &(struct transport_target){.host = "a", .host_key = "ssh-ed25519 ?"}, &out),
            "host_key of 'a'", "a pinned key that is malformed is refused");
}

static void test_keys(void) {
    static const char *const files[] = {"/one", "/two"};
    struct transport_env env = {
        .identity_path = "/cluster", .identity_files = files, .identity_file_count = 2};
    struct transport_target t = {.host = "a"};
    struct ssh_host out;
    is_str(resolve("", &env, &t, &out), NULL, "keys of a host are listed");
    ok(out.identity_count == 6 && str_eq(out.identities[0], "/cluster") &&
           str_eq(out.identities[1], "/one") && str_eq(out.identities[2], "/two") &&
           str_eq(out.identities[3], in_home(".ssh/id_ed25519")) &&
           str_eq(out.identities[4], in_home(".ssh/id_ecdsa")) &&
           str_eq(out.identities[5], in_home(".ssh/id_rsa")),
       "the cluster's key is first, then the caller's, then ssh's defaults");
    ok(!out.identities_only, "keys of the agent may be used");
    is_str(out.agent_path, "/agent", "the agent is the one of the environment");
    is_str(resolve("IdentityFile /mine\nIdentitiesOnly yes\nIdentityAgent none\n", &env, &t, &out),
           NULL, "keys of the configuration are listed");
    ok(out.identity_count == 4 && str_eq(out.identities[3], "/mine") && out.identities_only,
       "keys of the configuration replace the defaults");
    is_str(out.agent_path, NULL, "an agent may be turned off");
    (void)resolve("IdentityAgent $OTHER_AGENT\n", &env, &t, &out);
    is_str(out.agent_path, "/other", "a variable may name the agent");
    (void)resolve("IdentityAgent SSH_AUTH_SOCK\n", &env, &t, &out);
    is_str(out.agent_path, "/agent", "SSH_AUTH_SOCK is the agent of the environment");
    (void)resolve("IdentityAgent /fixed\n", &env, &t, &out);
    is_str(out.agent_path, "/fixed", "a path may name the agent");
}

static void test_known_hosts(void) {
    struct transport_env env = {0};
    struct transport_target t = {.host = "a"};
    struct ssh_host out;
    is_str(resolve("", &env, &t, &out), NULL, "known hosts are listed");
    ok(out.known_hosts_count == 3 && str_eq(out.known_hosts[0], in_home(".ssh/known_hosts")) &&
           str_eq(out.known_hosts[1], in_home(".ssh/known_hosts2")) &&
           str_eq(out.known_hosts[2], "/etc/ssh/ssh_known_hosts"),
       "known hosts are the user's two files, then the machine's");
    is_str(out.record_path, in_home(".ssh/known_hosts"), "accepted keys are added to the first");
    env.known_hosts_path = "/cluster_hosts";
    is_str(resolve("UserKnownHostsFile /mine\nGlobalKnownHostsFile /all\n", &env, &t, &out), NULL,
           "other files may be named");
    ok(out.known_hosts_count == 3 && str_eq(out.known_hosts[0], "/cluster_hosts") &&
           str_eq(out.known_hosts[1], "/mine") && str_eq(out.known_hosts[2], "/all"),
       "the cluster's own is searched first");
    is_str(out.record_path, "/cluster_hosts", "accepted keys are added to it");
}

int main(void) {
    struct err e;
    if (!mkdtemp(home) || mkdir(in_home(".ssh"), 0700) < 0)
        bail_out("mkdtemp");
    environment[0] = arena_printf(&arena, "HOME=%s", home);
    environment[1] = arena_strdup(&arena, "SSH_AUTH_SOCK=/agent");
    environment[2] = arena_strdup(&arena, "OTHER_AGENT=/other");
    test_jumps();
    test_address();
    test_refused();
    test_keys();
    test_known_hosts();
    is_int(file_remove_tree(home, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
