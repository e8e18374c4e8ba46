// SPDX-License-Identifier: Apache-2.0
// Provider hosts: the machines listed in the configuration, reached over SSH with ssh(1)'s
// settings.
#include "provider/provider.h"

#include "cluster/nodeset.h"
#include "fleet/network_check.h"
#include "sys/net.h"

#include <string.h>

static const char *node_name(struct arena *a, const struct config *c, const char *host) {
    for (size_t i = 0; i < c->hosts.host.count; i++) {
        const struct config_host *h = config_host(c, i);
        if (strcmp(h->address, host) == 0 && h->name[0])
            return h->name;
    }
    char *name = arena_strdup(a, host);
    for (char *p = name; *p; p++)
        if (*p == ':' || *p == '%')
            *p = '-'; // an IPv6 address
    return name;
}

static const struct config_host *details(const struct config *c, const char *host) {
    for (size_t i = 0; i < c->hosts.host.count; i++)
        if (strcmp(config_host(c, i)->address, host) == 0)
            return config_host(c, i);
    return NULL;
}

static void fill(struct context *s, struct inventory_node *n, const struct nodeset_login *login) {
    const struct config_host *h = details(s->config, login->host);
    *n = (struct inventory_node){
        .name = node_name(s->arena, s->config, login->host),
        .transport = INVENTORY_SSH,
        .user = login->user       ? login->user
                : h && h->user[0] ? h->user
                                  : NULL,
        .host = login->host,
        .port = login->port ? login->port
                : h         ? (int)h->port
                            : 0,
        .address = login->host, // until the node reports its address
        // Nodes may share a home folder on a file server, so each has a subfolder of its own.
        .root = arena_printf(s->arena, "%s/nodes/%s", s->config->hosts.root,
                             node_name(s->arena, s->config, login->host)),
        .host_key = h && h->host_key[0] ? h->host_key : NULL,
        .arch = "",
        .dtrun = "",
    };
}

static int hosts_plan(struct context *s, struct inventory *out, struct err *e) {
    const struct config *c = s->config;
    struct nodeset set = {0};
    if (c->hosts.list.count + c->hosts.host.count == 0)
        return err_set(e, ERR_CONFIG,
                       "%s is empty: name your hosts there (list = [\"user@gpu[01-04].lab\"] in "
                       "[hosts]), or give --host",
                       config_where(c, "hosts.list"));
    if (!c->hosts.root[0])
        return err_set(e, ERR_CONFIG, "%s: '' is not a folder of the nodes",
                       config_where(c, "hosts.root"));
    const char **texts =
        arena_new(s->arena, const char *, c->hosts.list.count + c->hosts.host.count);
    size_t count = c->hosts.list.count;
    for (size_t i = 0; i < count; i++)
        texts[i] = c->hosts.list.items[i];
    if (count && nodeset_parse_list(s->arena, texts, count, &set, e) < 0)
        return err_wrap(e, "%s", config_where(c, "hosts.list"));
    size_t listed = set.count;
    out->nodes = arena_new(s->arena, struct inventory_node, listed + c->hosts.host.count);
    for (size_t i = 0; i < listed; i++)
        fill(s, &out->nodes[i], &set.logins[i]);
    out->count = listed;
    for (size_t i = 0; i < c->hosts.host.count; i++) {
        const struct config_host *h = config_host(c, i);
        bool known = false;
        for (size_t k = 0; k < listed; k++)
            known |= strcmp(set.logins[k].host, h->address) == 0;
        struct nodeset_login login = {.host = h->address};
        if (!known)
            fill(s, &out->nodes[out->count++], &login);
    }
    for (size_t i = 0; i < out->count; i++) {
        if (!str_is_name(out->nodes[i].name, INVENTORY_NAME_BYTES_MAX))
            return err_set(e, ERR_CONFIG,
                           "node name '%s' is no name of at most %d bytes; give "
                           "one with [[hosts.host]] name",
                           out->nodes[i].name, INVENTORY_NAME_BYTES_MAX);
        for (size_t k = 0; k < i; k++)
            if (strcmp(out->nodes[i].name, out->nodes[k].name) == 0)
                return err_set(e, ERR_CONFIG,
                               "two nodes are called '%s'; give one another name "
                               "with [[hosts.host]] name",
                               out->nodes[i].name);
    }
    return 0;
}

static int hosts_make(struct context *s, const struct inventory *before, struct provider_made *m,
                      struct err *e) {
    (void)s;
    (void)before;
    (void)m;
    (void)e;
    return 0; // they exist already
}

// ---- checks ------------------------------------------------------------------------------------

// SSH_CONNECTION is "client port server port". The third word is the address by which this node was
// reached; other nodes use it, too.
static void on_address(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct arena *a = n->fleet->context->arena;
    struct err e = {0};
    char **words = NULL;
    char *text = arena_strndup(a, r->out, r->out_len);
    text[strcspn(text, "\r\n")] = 0;
    if (r->end.how != TRANSPORT_EXITED) {
        err_set(&e, ERR_NO_STATUS, "no answer about its address");
    } else if (str_split(a, text, ' ', &words) == 4) {
        const char *address = words[2];
        if (str_starts(address, "::ffff:") && strchr(address, '.'))
            address += strlen("::ffff:");
        if (net_is_numeric(address))
            n->info->address = address;
    }
    if (!e.code && !net_is_numeric(n->info->address))
        err_set(&e, ERR_FAILED, "its SSH server does not report the address of the node");
    fleet_done(n, &e);
}

static int ask_address(struct fleet_node *n, struct err *e) {
    return transport_collect(n->link, "echo \"$SSH_CONNECTION\"", NULL, 0, on_address, n, e);
}

// Refuses two names for one machine, since they would be two nodes with the same processors.
static void find_twins(struct fleet *f) {
    for (size_t i = 0; i < f->count; i++) {
        for (size_t k = 0; k < i; k++) {
            struct fleet_node *a = &f->nodes[k], *b = &f->nodes[i];
            struct err e = {0};
            if (a->failed || b->failed || strcmp(a->info->address, b->info->address) != 0 ||
                strcmp(a->facts.user, b->facts.user) != 0)
                continue;
            err_set(&e, ERR_CONFIG, "it is the same machine and login as node '%s' (address %s)",
                    a->info->name, a->info->address);
            fleet_fail(b, &e);
        }
    }
}

static int hosts_check(struct context *s, struct fleet *f, struct err *e) {
    (void)s;
    if (fleet_each(f, NULL, ask_address, e) < 0)
        return -1;
    provider_judge(f);
    find_twins(f);
    return f->count > 1 ? network_check(f, e) : 0;
}

static int hosts_give_back(struct context *s, const struct inventory_node *n, struct err *e) {
    (void)s;
    (void)n;
    (void)e;
    return 0;
}

const struct provider provider_hosts = {.name = "hosts",
                                        .plan = hosts_plan,
                                        .make = hosts_make,
                                        .check = hosts_check,
                                        .give_back = hosts_give_back};
