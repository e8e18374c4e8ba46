// SPDX-License-Identifier: Apache-2.0
// A session keeps nothing of the files of known hosts and of ssh's configuration, which list
// hundreds of other hosts.
#include "remote/known_hosts.h"
#include "remote/ssh_impl.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

enum { HOSTS = 5000, KEPT_BYTES_MAX = 64 << 10 };

static void test_config(const char *dir) {
    struct arena a = {0}, kept = {0};
    struct strbuf text = {0};
    struct err e = {0};
    for (int i = 0; i < HOSTS; i++)
        strbuf_addf(&text, "Host node%d\n  HostName 10.0.0.%d\n  User u%d\n  Port %d\n", i, i % 250,
                    i, 1000 + i);
    strbuf_adds(&text, "Host *\n  IdentityFile /keys/%u\n  UserKnownHostsFile /kh/1 /kh/2\n");
    const char *path = file_join(&a, dir, "config");
    if (file_write_atomic(path, text.data, text.len, 0600, &e) < 0)
        bail_out("%s", e.text);
    const struct transport_env env = {.ssh_config_path = path};
    const struct transport_target target = {.node = "n", .host = "node4321"};
    struct ssh_host host = {0};
    is_int(ssh_host_resolve(&kept, &env, &target, &host, &e), 0, "a host is looked up: %s", e.text);
    ok(text.len > 2 * (size_t)KEPT_BYTES_MAX && kept.total_bytes <= KEPT_BYTES_MAX,
       "of %zu bytes of configuration a session keeps %zu", text.len, kept.total_bytes);
    is_str(host.host_name, "10.0.0.71", "the address of the host is kept");
    is_str(host.user, "u4321", "the user of the host is kept");
    is_int(host.port, 5321, "the port of the host is kept");
    is_str(host.label, "node4321 (u4321@10.0.0.71:5321)", "the label of the host is kept");
    is_uint(host.identity_count, 1, "the host has one key");
    has_str(host.identities[0], "/keys/", "the path of the key is kept");
    ok(host.known_hosts_count >= 2, "the files of known hosts are kept");
    is_str(host.known_hosts[1], "/kh/2", "the path of a file of known hosts is kept");
    is_str(host.record_path, "/kh/1", "the file for new keys is kept");
    strbuf_fini(&text);
    arena_fini(&kept);
    arena_fini(&a);
}

int main(void) {
    char dir[] = "/tmp/test_ssh_host_key.XXXXXX";
    static const unsigned char blob[] = "\0\0\0\13ssh-ed25519\0\0\0\40"
                                        "0123456789abcdef0123456789abcdef";
    struct arena a = {0};
    struct strbuf text = {0};
    struct err e = {0};
    if (!mkdtemp(dir))
        bail_out("no folder");
    for (int i = 0; i < HOSTS; i++)
        strbuf_adds(&text, known_hosts_format(&a, arena_printf(&a, "node%d", i), 22, blob,
                                              sizeof blob - 1));
    const char *path = file_join(&a, dir, "known_hosts");
    if (file_write_atomic(path, text.data, text.len, 0600, &e) < 0)
        bail_out("%s", e.text);
    const char *files[] = {path, file_join(&a, dir, "absent")};
    struct ssh s = {.fd = -1,
                    .host = {.label = "n",
                             .key_name = "node4999",
                             .port = 22,
                             .known_hosts = files,
                             .known_hosts_count = 2}};
    s.session = libssh2_session_init_ex(NULL, NULL, NULL, &s);
    is_int(ssh_hostkey_prefer(&s, &e), 0, "the key's type is looked up: %s", e.text);
    ok(text.len > 4 * (size_t)KEPT_BYTES_MAX && s.arena.total_bytes <= KEPT_BYTES_MAX,
       "of %zu bytes of known hosts a session keeps %zu", text.len, s.arena.total_bytes);
    const char *folder[] = {dir};
    s.host.known_hosts = folder;
    s.host.known_hosts_count = 1;
    is_int(ssh_hostkey_prefer(&s, &e), -1, "a file of known hosts that cannot be read is an error");
    has_str(e.text, "n: known hosts", "the error names the host");
    libssh2_session_free(s.session);
    test_config(dir);
    arena_fini(&s.arena);
    strbuf_fini(&text);
    file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
