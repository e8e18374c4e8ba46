// SPDX-License-Identifier: Apache-2.0
// Keys of one provider in a configuration of another: a warning names the first, and counts others.
#include "tests/unit/conf/config_fixture.h"

#include "sys/file.h"

#include <stdlib.h>

static void warns(const char *provider, const char *words, const char *lines, const char *want) {
    char *text = arena_printf(&a, "%s\n[cluster]\nprovider = '%s'\n", lines, provider);
    const char *bad = load("up", words, text, NULL);
    is_str(*bad ? bad : config_without_effect(&c), want, "%s with %s %s", provider, lines, words);
}

static void test_keys(void) {
    static const struct {
        const char *lines, *key, *providers; // the key has an effect with these
    } cases[] = {
        {"[aws]\nregion = 'us-east-1'", "dtctl.toml:2:10: aws.region", "aws"},
        {"[aws]\nzones = ['us-east-1a']", "dtctl.toml:2:9: aws.zones", "aws"},
        {"[lease]\nttl = '1h'", "dtctl.toml:2:7: lease.ttl", "aws"},
        {"[hosts]\nlist = ['a']", "dtctl.toml:2:8: hosts.list", "hosts"},
        {"[ssh]\nport = 23", "dtctl.toml:2:8: ssh.port", "hosts and aws"},
    };
    static const char *const providers[] = {"local", "hosts", "aws"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t p = 0; p < 3; p++) {
            bool fine = strstr(cases[i].providers, providers[p]);
            warns(providers[p], "", cases[i].lines,
                  fine ? ""
                       : arena_printf(&a, "%s has no effect: it is for provider %s, and this is %s",
                                      cases[i].key, cases[i].providers, providers[p]));
        }
}

static void test_sources(void) {
    warns("hosts", "--nodes=3", "",
          "--nodes: cluster.nodes has no effect: it is for provider local and aws, and this is "
          "hosts");
    warns("local", "--nodes=3", "", "");
    warns("local", "", "[train]\nepochs = 3", "");
    warns("local", "", "[lease]\nttl = '1h'\n[ssh]\nport = 23",
          "dtctl.toml:4:8: ssh.port has no effect: it is for provider hosts and aws, and this is "
          "local (and 1 more such key)");
    warns("local", "", "[ssh]\nport = 23\nuser = 'u'\n[lease]\nttl = '1h'",
          "dtctl.toml:3:8: ssh.user has no effect: it is for provider hosts and aws, and this is "
          "local (and 2 more such keys)");
    warns("aws", "--provider=local", "[lease]\nttl = '1h'", "");
    warns("aws", "--provider=local|--ttl=1h", "",
          "--ttl: lease.ttl has no effect: it is for provider aws, and this is local");
}

int main(void) {
    char dir[] = "/tmp/test_config_provider.XXXXXX";
    struct err e;
    if (!mkdtemp(dir) || chdir(dir) < 0)
        bail_out("no folder");
    test_keys();
    test_sources();
    arena_fini(&a);
    is_int(file_remove_tree(dir, &e), 0, "cleaned up");
    return done_testing();
}
