// SPDX-License-Identifier: Apache-2.0
// Files for ssh(1) on the operator's side: the cluster's known_hosts and a file to include in
// ~/.ssh/config.
#include "aws/aws_cluster.h"

#include "base/env.h"
#include "base/log.h"
#include "remote/known_hosts.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

static const char *include_path(struct context *s) {
    return file_join(s->arena, s->cluster.dir, "ssh_config");
}

static int port_of(const struct inventory_node *n) {
    return n->port ? n->port : 22;
}

static int write_known_hosts(struct context *s, const struct inventory *inv, struct err *e) {
    struct strbuf text = {0};
    int result = 0;
    for (size_t i = 0; i < inv->count && result == 0; i++) {
        const struct inventory_node *n = &inv->nodes[i];
        void *blob;
        size_t len;
        if (!n->host_key || !n->host_key[0])
            continue;
        result = known_hosts_parse_key(s->arena, n->host_key, &blob, &len, e);
        if (result == 0)
            strbuf_adds(&text, known_hosts_format(s->arena, n->host, port_of(n), blob, len));
    }
    // Keys that the user accepted by hand are kept. Without any key no file is written.
    if (result == 0 && text.len)
        result = file_write_atomic(s->cluster.known_hosts_path, text.data, text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

int aws_ssh_known_keys(struct context *s, struct inventory *inv, struct err *e) {
    const char *path = s->cluster.known_hosts_path;
    char *text;
    size_t len;
    if (file_is_absent(path))
        return 0;
    if (file_read(s->arena, path, KNOWN_HOSTS_FILE_BYTES_MAX, &text, &len, e) < 0)
        return -1;
    for (size_t i = 0; i < inv->count; i++) {
        struct inventory_node *n = &inv->nodes[i];
        struct known_hosts_found f = {0};
        if (n->host_key && n->host_key[0])
            continue;
        known_hosts_search(path, text, len, n->host, port_of(n), NULL, 0, &f);
        if (f.differs)
            n->host_key = arena_strndup(s->arena, f.differs_key, f.differs_key_len);
    }
    return 0;
}

static int write_include(struct context *s, const struct inventory *inv, struct err *e) {
    struct strbuf text = {0};
    const char *jump = s->config->ssh.proxy_jump;
    strbuf_addf(&text,
                "# Nodes of dtctl's cluster %s, for `ssh NODE`. `dtctl up` writes this file.\n",
                inv->name);
    for (size_t i = 0; i < inv->count; i++) {
        const struct inventory_node *n = &inv->nodes[i];
        strbuf_addf(&text, "Host %s %s.%s\n    HostName %s\n    Port %d\n", n->name, n->name,
                    inv->name, n->host, port_of(n));
        if (n->user)
            strbuf_addf(&text, "    User %s\n", n->user);
        strbuf_addf(&text,
                    "    IdentityFile \"%s\"\n    IdentitiesOnly yes\n"
                    "    UserKnownHostsFile \"%s\"\n    StrictHostKeyChecking yes\n",
                    s->cluster.key_path, s->cluster.known_hosts_path);
        if (jump[0])
            strbuf_addf(&text, "    ProxyJump %s\n", jump);
    }
    int result = file_write_atomic(include_path(s), text.data, text.len, 0600, e);
    strbuf_fini(&text);
    return result;
}

// ---- ~/.ssh/config ------------------------------------------------------------------------------

struct user_config {
    const char *path, *line; // line: our Include, without newline
    char *text;
    size_t len;
};

static int read_user_config(struct context *s, struct user_config *u, struct err *e) {
    const char *home = env_get(s->env, "HOME");
    u->path = arena_printf(s->arena, "%s/.ssh/config", home ? home : "");
    u->line = arena_printf(s->arena, "Include \"%s\"", include_path(s));
    u->text = arena_strdup(s->arena, "");
    u->len = 0;
    if (file_is_absent(u->path))
        return 0;
    return file_read(s->arena, u->path, CONFIG_BYTES_MAX, &u->text, &u->len, e);
}

// The position of the Include line, with its newline; NULL: absent.
static char *find_line(const struct user_config *u) {
    size_t len = strlen(u->line);
    for (char *p = strstr(u->text, u->line); p; p = strstr(p + 1, u->line))
        if ((p == u->text || p[-1] == '\n') && (p[len] == '\n' || p[len] == 0))
            return p;
    return NULL;
}

static int add_line(struct context *s, const struct user_config *u, struct err *e) {
    // At the top, since after a Host line it would apply to that host only.
    const char *text = arena_printf(s->arena, "%s\n%s", u->line, u->text);
    if (file_make_dirs(file_dir(s->arena, u->path), 0700, e) < 0)
        return -1;
    return file_write_atomic(u->path, text, strlen(text), 0600, e);
}

static int remove_line(struct context *s, const struct user_config *u, char *at, struct err *e) {
    size_t len = strlen(u->line);
    const char *rest = at + len + (at[len] == '\n');
    const char *text = arena_printf(s->arena, "%.*s%s", (int)(at - u->text), u->text, rest);
    if (strlen(text) + len + 1 < u->len) // the file contains a NUL byte, so a rewrite would cut it
        return err_set(e, ERR_FORMAT, "'%s' holds a NUL byte; take the line '%s' out by hand",
                       u->path, u->line);
    return file_write_atomic(u->path, text, strlen(text), 0600, e);
}

int aws_ssh_write(struct context *s, const struct inventory *inv, struct err *e) {
    struct user_config u;
    if (write_known_hosts(s, inv, e) < 0 || write_include(s, inv, e) < 0 ||
        read_user_config(s, &u, e) < 0)
        return -1;
    if (find_line(&u))
        return 0;
    if (s->config->aws.ssh_include)
        return add_line(s, &u, e);
    screen_note(s->screen,
                "for `ssh NODE`, put this line at the top of %s (aws.ssh_include = true does it): "
                "%s",
                u.path, u.line);
    return 0;
}

int aws_ssh_remove(struct context *s, struct err *e) {
    struct user_config u;
    unlink(include_path(s));
    unlink(s->cluster.known_hosts_path);
    if (read_user_config(s, &u, e) < 0)
        return -1;
    char *at = find_line(&u);
    return at ? remove_line(s, &u, at, e) : 0;
}
