// SPDX-License-Identifier: Apache-2.0
// Provider aws: how long a boot may take, the readiness of a node, the end of a lease, and keys.
#include "aws/aws_boot.h"
#include "aws/aws_lease.h"
#include "base/clock.h"
#include "conf/config.h"
#include "remote/ssh_key.h"
#include "tests/tap.h"

static struct arena a;

static struct config load(const char *toml) {
    struct config c;
    config_open(&c, &a, "dtctl", NULL);
    option_set_file(&c.set, "t.toml", toml, strlen(toml));
    struct err e = {0};
    is_int(option_set_finish(&c.set, &e), 0, "the configuration loads: %s", e.text);
    return c;
}

static void boot_times(void) {
    static const struct {
        const char *text;
        int64_t minutes;
    } cases[] = {
        {"[aws]\n", 15},
        {"[aws]\ninstance_type = 'g4dn.metal'\n", 40},
        {"[aws]\ninstance_type = 'm7i.metal-24xl'\n", 40},
        {"[aws]\ninstance_type = 'g4dn.metal'\nboot_timeout = '5m'\n", 5},
        {"[aws]\nboot_timeout = '20m'\n", 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config c = load(cases[i].text);
        is_int(aws_boot_timeout_ms(&c.aws), cases[i].minutes * 60000, "%s", cases[i].text);
    }
}

static void readiness(void) {
    static const char text[] = "config_hash=abc\nstatus=degraded\ncheck.gpu=ok\n"
                               "check.scratch=no \x1b[31mdisk\ncheck.efa=0 of 4\n";
    struct aws_ready r;
    aws_ready_parse(&a, text, sizeof text - 1, &r);
    is_int(r.status, AWS_READY_DEGRADED, "the status is read");
    is_str(r.config_hash, "abc", "the hash of the configuration is read");
    has_str(r.problems, "efa: 0 of 4", "the problems name the EFA interfaces");
    ok(strchr(r.problems, 0x1b) == NULL, "control characters do not get through");
    ok(strstr(r.problems, "gpu") == NULL, "a sound GPU is not listed as a problem");
    aws_ready_parse(&a, "status=perfect\n", 15, &r);
    is_int(r.status, AWS_READY_UNKNOWN, "an unknown word is no success");
    aws_ready_parse(&a, "", 0, &r);
    is_int(r.status, AWS_READY_UNKNOWN, "nothing is no success");
}

static void lease_ends(void) {
    static const int64_t now = 1767323045678, hour = 3600000; // 2026-01-02T03:04:05.678Z
    struct aws_vars before = {.ttl_s = 12 * 3600, .expires = "2026-01-02T05:00:00Z"};
    struct aws_lease_end end = aws_lease_choose(now, 12 * hour, NULL, 0, false);
    is_int(end.at_ms, (now / 1000 + 12 * 3600) * 1000, "the lease of a new cluster begins now");
    ok(!end.moved, "a new cluster notifies no node");
    end = aws_lease_choose(now, 12 * hour, &before, 0, true);
    is_int(end.at_ms, clock_of_iso(before.expires), "an unchanged lease keeps its end");
    end = aws_lease_choose(now, 12 * hour, &before, now + hour, true);
    is_int(end.at_ms, now + hour, "an end that was extended since is kept");
    ok(!end.moved, "a kept end notifies no node");
    end = aws_lease_choose(now, 3 * hour, &before, now + hour, true);
    is_int(end.at_ms, (now / 1000 + 3 * 3600) * 1000, "another lease counts from now");
    ok(end.moved && !end.cut, "another lease replaces an extended end and notifies the nodes");
    end = aws_lease_choose(now, 3 * hour, &before, 0, false);
    ok(!end.moved, "new nodes get the lease at their start");
    end = aws_lease_choose(now, 0, &before, 0, true);
    is_int(end.at_ms, (now / 1000 + AWS_LEASE_AHEAD_S_MAX) * 1000,
           "without a lease, the end is the latest that nodes accept");
    ok(end.moved && end.cut, "an end that had to be shortened is reported");
    before.expires = "2026-01-02T03:00:00Z";
    end = aws_lease_choose(now, 12 * hour, &before, now - hour, true);
    is_int(end.at_ms, (now / 1000 + 12 * 3600) * 1000, "an end in the past does not hold");
}

static void ssh_keys(void) {
    struct ssh_key one, two;
    struct err e = {0};
    is_int(ssh_key_make(&a, "me", &one, &e), 0, "a key is made: %s", e.text);
    is_int(ssh_key_make(&a, "me", &two, &e), 0, "a second key is made");
    ok(strcmp(one.public_key, two.public_key) != 0, "two keys differ");
    ok(str_starts(one.public_key, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"),
       "the key has its public half");
    ok(str_starts(one.private_key, "-----BEGIN OPENSSH PRIVATE KEY-----\n"),
       "the key has its private half");
    const char *again = NULL;
    is_int(ssh_key_public(&a, one.private_key, "me", &again, &e), 0,
           "the public half is read from the private key: %s", e.text);
    is_str(again, one.public_key, "both public halves are equal");
    char *damaged = arena_strdup(&a, one.private_key);
    damaged[60] = '!';
    is_int(ssh_key_public(&a, damaged, "me", &again, &e), -1, "a damaged key is refused");
    is_int(ssh_key_public(&a, "ssh-ed25519 AAAA", "me", &again, &e), -1,
           "a public key is no private key");
    const char *long_comment = arena_printf(&a, "%0200d", 0);
    is_int(ssh_key_make(&a, long_comment, &one, &e), -1, "a long comment is refused");
}

int main(void) {
    boot_times();
    readiness();
    lease_ends();
    ssh_keys();
    arena_fini(&a);
    return done_testing();
}
