// SPDX-License-Identifier: Apache-2.0
// Collects the settings for a host before connecting: the user's ssh configuration, key files and
// their order. Reads files; makes no trust decision.
#include "base/env.h"
#include "base/str.h"
#include "remote/known_hosts.h"
#include "remote/ssh_config.h"
#include "remote/ssh_impl.h"
#include "sys/file.h"

#include <glob.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_glob(void *ctx, struct arena *a, const char *pattern,
                     struct ssh_config_file **files, size_t *count, struct err *e) {
    glob_t g;
    (void)ctx;
    *count = 0;
    if (glob(pattern, 0, NULL, &g) != 0)
        return 0;
    *files = arena_new(a, struct ssh_config_file, g.gl_pathc);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        char *text;
        size_t len;
        if (file_read(a, g.gl_pathv[i], SSH_CONFIG_FILE_BYTES_MAX, &text, &len, e) < 0) {
            globfree(&g);
            return err_wrap(e, "ssh configuration");
        }
        (*files)[(*count)++] = (struct ssh_config_file){arena_strdup(a, g.gl_pathv[i]), text, len};
    }
    globfree(&g);
    return 0;
}

static int add_config(struct arena *a, const struct ssh_config_query *q, const char *path,
                      bool must_exist, struct ssh_config *c, struct err *e) {
    char *text;
    size_t len;
    if (file_read(a, path, SSH_CONFIG_FILE_BYTES_MAX, &text, &len, e) < 0) {
        if (e->code != ERR_NOT_FOUND || must_exist)
            return err_wrap(e, "ssh configuration");
        err_clear(e);
        return 0;
    }
    return ssh_config_add(a, q, &(struct ssh_config_file){path, text, len}, c, e);
}

static int read_config(struct arena *a, const struct transport_env *env,
                       const struct ssh_config_query *q, struct ssh_config *c, struct err *e) {
    const char *path = env->ssh_config_path;
    if (str_eq(path, "none"))
        return ssh_config_finish(a, q, c, e);
    if (path) {
        if (add_config(a, q, path, true, c, e) < 0)
            return -1;
    } else if (add_config(a, q, arena_printf(a, "%s/.ssh/config", q->home), false, c, e) < 0 ||
               add_config(a, q, "/etc/ssh/ssh_config", false, c, e) < 0) {
        return -1;
    }
    return ssh_config_finish(a, q, c, e);
}

static void who_am_i(struct arena *a, const struct transport_env *env, const char **home,
                     const char **user) {
    struct passwd *pw = getpwuid(getuid());
    const char *h = env_get(env->env, "HOME");
    const char *u = pw ? pw->pw_name : env_get(env->env, "USER");
    *home = arena_strdup(a, h && *h ? h : pw ? pw->pw_dir : "/");
    *user = arena_strdup(a, u && *u ? u : "root");
}

static void add_identities(struct arena *a, const struct transport_env *env, const char *home,
                           const struct ssh_config *c, struct ssh_host *out) {
    static const char *const defaults[] = {"id_ed25519", "id_ecdsa", "id_rsa"};
    enum { DEFAULTS = sizeof defaults / sizeof *defaults };
    out->identities =
        arena_new(a, const char *, env->identity_file_count + c->identity_count + DEFAULTS + 1);
    if (env->identity_path)
        out->identities[out->identity_count++] = env->identity_path;
    for (size_t i = 0; i < env->identity_file_count; i++)
        out->identities[out->identity_count++] = env->identity_files[i];
    for (size_t i = 0; i < c->identity_count; i++)
        out->identities[out->identity_count++] = c->identities[i];
    for (size_t i = 0; i < DEFAULTS && c->identity_count == 0; i++)
        out->identities[out->identity_count++] = arena_printf(a, "%s/.ssh/%s", home, defaults[i]);
    out->identities_only = c->identities_only;
    const char *agent = c->identity_agent;
    if (!agent || str_eq(agent, "SSH_AUTH_SOCK"))
        agent = env_get(env->env, "SSH_AUTH_SOCK");
    else if (agent[0] == '$')
        agent = env_get(env->env, agent + 1);
    if (agent && *agent && !str_eq(agent, "none"))
        out->agent_path = arena_strdup(a, agent);
}

static void add_known_hosts(struct arena *a, const struct transport_env *env, const char *home,
                            const struct ssh_config *c, struct ssh_host *out) {
    const char *lists[] = {
        env->known_hosts_path,
        c->user_known_hosts
            ? c->user_known_hosts
            : arena_printf(a, "%s/.ssh/known_hosts\n%s/.ssh/known_hosts2", home, home),
        c->global_known_hosts ? c->global_known_hosts : "/etc/ssh/ssh_known_hosts",
    };
    size_t room = 0;
    char **parts[3];
    size_t counts[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        if (lists[i])
            counts[i] = str_split(a, lists[i], '\n', &parts[i]);
        room += counts[i];
    }
    out->known_hosts = arena_new(a, const char *, room + 1);
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < counts[i]; k++)
            out->known_hosts[out->known_hosts_count++] = parts[i][k];
    out->record_path = env->known_hosts_path ? env->known_hosts_path : out->known_hosts[0];
}

// As in ssh, a host that is its own jump host (Host * with ProxyJump) uses no jump.
static bool jumps_to_itself(const char *jump, const struct transport_target *t,
                            const struct ssh_config *c) {
    struct err ignored;
    char host[NET_HOST_BYTES_MAX];
    const char *at = strrchr(jump, '@');
    int port, own = c->port ? c->port : 22;
    if (strchr(jump, ',') || net_split(at ? at + 1 : jump, 0, host, &port, &ignored) < 0)
        return false;
    return (str_eq(host, t->host) && (port == 0 || port == own)) ||
           (str_eq(host, c->host_name) && (port ? port : 22) == own);
}

static int resolve(struct arena *a, const struct transport_env *env,
                   const struct transport_target *t, struct ssh_host *out, struct err *e) {
    struct ssh_config c = {.user = t->user, .port = t->port, .proxy_jump = t->proxy_jump};
    const char *home, *user;
    if (!t->host || !*t->host || t->host[0] == '-')
        return err_set(e, ERR_CONFIG, "a node needs a host name or an address");
    who_am_i(a, env, &home, &user);
    struct ssh_config_query q = {
        .alias = arena_strdup(a, t->host), .home = home, .user = user, .read_files = read_glob};
    if (read_config(a, env, &q, &c, e) < 0)
        return -1;
    if (c.proxy_command)
        return err_set(e, ERR_CONFIG,
                       "host '%s' uses ProxyCommand (%s), which is not supported; use ProxyJump",
                       t->host, c.proxy_command);
    out->host_name = c.host_name;
    out->port = c.port ? c.port : 22;
    out->user = c.user ? arena_strdup(a, c.user) : user;
    out->key_name = c.host_key_alias ? c.host_key_alias : c.host_name;
    if (c.proxy_jump && !str_eq(c.proxy_jump, "none") && !jumps_to_itself(c.proxy_jump, t, &c))
        out->jump = arena_strdup(a, c.proxy_jump);
    out->label =
        str_eq(t->host, c.host_name)
            ? arena_printf(a, "%s@%s:%d", out->user, out->host_name, out->port)
            : arena_printf(a, "%s (%s@%s:%d)", t->host, out->user, out->host_name, out->port);
    add_identities(a, env, home, &c, out);
    add_known_hosts(a, env, home, &c, out);
    if (t->host_key) {
        void *blob;
        if (known_hosts_parse_key(a, t->host_key, &blob, &out->pinned_len, e) < 0)
            return err_wrap(e, "host_key of '%s'", t->host);
        out->pinned = blob;
    }
    return 0;
}

static const char **keep_list(struct arena *a, const char **list, size_t count) {
    const char **kept = arena_new(a, const char *, count + 1);
    for (size_t i = 0; i < count; i++)
        kept[i] = arena_strdup(a, list[i]);
    return kept;
}

static const char *keep(struct arena *a, const char *text) {
    return text ? arena_strdup(a, text) : NULL;
}

// The texts of the files stay in an arena of their own, which is dropped: hundreds of sessions
// would each keep the settings of all hosts.
int ssh_host_resolve(struct arena *a, const struct transport_env *env,
                     const struct transport_target *t, struct ssh_host *out, struct err *e) {
    struct arena files = {0};
    struct ssh_host found = *out;
    int result = resolve(&files, env, t, &found, e);
    if (result == 0) {
        *out = found;
        out->host_name = keep(a, found.host_name);
        out->user = keep(a, found.user);
        out->key_name = keep(a, found.key_name);
        out->jump = keep(a, found.jump);
        out->label = keep(a, found.label);
        out->agent_path = keep(a, found.agent_path);
        out->record_path = keep(a, found.record_path);
        out->identities = keep_list(a, found.identities, found.identity_count);
        out->known_hosts = keep_list(a, found.known_hosts, found.known_hosts_count);
        if (found.pinned)
            out->pinned = arena_memdup(a, found.pinned, found.pinned_len);
    }
    arena_fini(&files);
    return result;
}
