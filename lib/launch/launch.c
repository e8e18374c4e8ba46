// SPDX-License-Identifier: Apache-2.0
// A manual launch: torchrun's rules for the leader, its address and the workers' command.
#include "launch/launch.h"

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "sys/file.h"
#include "sys/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool is_local_name(struct launch *l, const char *host, bool wait) {
    char own[256];
    struct launch_addresses found;
    struct err e;
    if (!host[0] || strcmp(host, "localhost") == 0)
        return true;
    if (gethostname(own, sizeof own) == 0 && strcasecmp(own, host) == 0)
        return true;
    bool known = launch_resolve(l, host, wait, &found, &e) == 0;
    for (int i = 0; known && i < found.count; i++)
        if (net_is_loopback(&found.list[i]) || net_address_is_local(&found.list[i]))
            return true;
    return false;
}

static int yes_or_no(const char *text) {
    static const char *const yes[] = {"1", "true", "t", "yes", "y", NULL};
    for (int i = 0; yes[i]; i++)
        if (strcasecmp(yes[i], text) == 0)
            return 1;
    return 0;
}

// The numeric address of this node for others; "": derived from the route.
static int own_address(struct launch *l, const char *leader_host, struct err *e) {
    const char *name = l->options.local_addr[0] ? l->options.local_addr
                       : l->agent.leads         ? leader_host
                                                : "";
    struct launch_addresses found;
    char text[NET_ADDRESS_BYTES_MAX];
    int at = 0;
    if (!name[0] || (l->agent.leads && strcmp(name, "localhost") == 0)) {
        l->agent.address = l->agent.leads ? "127.0.0.1" : "";
        return 0;
    }
    if (launch_resolve(l, name, true, &found, e) < 0)
        return err_wrap(e, "own address");
    while (at < found.count - 1 && !net_address_is_local(&found.list[at]))
        at++;
    l->agent.address = arena_strdup(l->arena, net_format(&found.list[at], text));
    return 0;
}

// Binds the port for agents. *taken: another process has it.
static int bind_endpoint(struct launch *l, int port, bool *taken, struct err *e) {
    *taken = false;
    if (net_listen(NULL, port, &l->agent.listen_fd, &l->agent.listen_port, e) == 0)
        return 0;
    *taken = strstr(e->text, strerror(EADDRINUSE)) != NULL;
    l->agent.listen_fd = -1;
    return -1;
}

static void lead_alone(struct launch *l) {
    l->agent.leads = l->agent.bootstrap_at_once = true;
    l->agent.address = "127.0.0.1";
}

static int choose_static(struct launch *l, struct err *e) {
    struct launch_options *o = &l->options;
    char host[NET_HOST_BYTES_MAX];
    bool taken;
    int port = o->master_port ? (int)o->master_port : LAUNCH_PORT_STATIC;
    snprintf(host, sizeof host, "%s", o->master_addr);
    if (o->nnodes.min != o->nnodes.max)
        return err_set(e, ERR_USAGE, "--nnodes %lld:%lld: a range needs --rdzv-backend c10d",
                       (long long)o->nnodes.min, (long long)o->nnodes.max);
    if (o->rdzv_endpoint[0] && net_split(o->rdzv_endpoint, port, host, &port, e) < 0)
        return err_wrap(e, "--rdzv-endpoint");
    int rank = o->node_rank < 0 ? 0 : (int)o->node_rank;
    const char *in_conf = launch_conf(l->arena, o->rdzv_conf, "rank");
    int64_t number;
    if (o->node_rank < 0 && in_conf && str_parse_i64(in_conf, 0, JOB_NODES_MAX, &number, e) == 0)
        rank = (int)number;
    if (rank < 0 || rank >= o->nnodes.max)
        return err_set(e, ERR_USAGE, "--node-rank %d is not below --nnodes %lld", rank,
                       (long long)o->nnodes.max);
    l->agent.node_rank = rank;
    l->agent.leads = l->agent.bootstrap_at_once = rank == 0;
    l->agent.store_at_endpoint = true;
    if (!l->agent.leads && launch_endpoint(l, host, port, true, e) < 0)
        return -1;
    if (own_address(l, host, e) < 0)
        return -1;
    if (l->agent.leads && bind_endpoint(l, port, &taken, e) < 0)
        return err_wrap(e, "port of node rank 0 (--master-port)");
    return 0;
}

// Adds one endpoint. The agent of the first one coordinates, unless a coordinator exists.
static int take_endpoint(struct launch *l, const char *text, bool first, struct err *e) {
    struct launch_options *o = &l->options;
    char host[NET_HOST_BYTES_MAX] = "localhost";
    int port = LAUNCH_PORT_C10D;
    bool taken = false;
    if (text[0] && net_split(text, port, host, &port, e) < 0)
        return err_wrap(e, "--rdzv-endpoint");
    if (!host[0])
        snprintf(host, sizeof host, "localhost");
    const char *forced = first ? launch_conf(l->arena, o->rdzv_conf, "is_host") : NULL;
    bool here = forced ? yes_or_no(forced) : is_local_name(l, host, first);
    if (here && l->agent.listen_fd < 0 && o->nnodes.max > 1 &&
        bind_endpoint(l, port, &taken, e) < 0) {
        if (taken && forced)
            return err_set(e, ERR_BUSY,
                           "rendezvous endpoint: port %d of this host is in use, and is_host says "
                           "that it is this agent's (give is_host=1 to one agent only)",
                           port);
        if (!taken)
            return err_wrap(e, "rendezvous endpoint");
        here = false; // another agent of this host uses the port
    }
    if (!here && launch_endpoint(l, host, port, first, e) < 0)
        return -1;
    if (first)
        l->agent.leads = here;
    return here || first ? own_address(l, host, e) : 0;
}

static int choose_c10d(struct launch *l, struct err *e) {
    struct launch_options *o = &l->options;
    const char *store = launch_conf(l->arena, o->rdzv_conf, "store_type");
    char **list;
    size_t count = str_split(l->arena, o->rdzv_endpoint, ',', &list);
    if (store && strcmp(store, "tcp") != 0)
        return err_set(e, ERR_USAGE, "--rdzv-conf store_type=%.40s: only tcp is served", store);
    if (count > AGENT_ENDPOINTS_MAX)
        return err_set(e, ERR_USAGE, "--rdzv-endpoint: %zu endpoints; %d are enough", count,
                       AGENT_ENDPOINTS_MAX);
    l->agent.node_rank = (int)o->node_rank;
    for (size_t i = 0; i < count; i++)
        if (take_endpoint(l, list[i], i == 0, e) < 0)
            return -1;
    l->agent.bootstrap_at_once = count == 1;
    return count == 0 ? take_endpoint(l, "", true, e) : 0;
}

static int choose_leader(struct launch *l, struct err *e) {
    struct launch_options *o = &l->options;
    bool is_static = strcmp(o->rdzv_backend, "static") == 0;
    bool alone = is_static && !o->rdzv_endpoint[0] && !o->master_port && o->nnodes.max == 1;
    if (o->standalone || alone) {
        if (o->standalone) {
            unsigned char id[8];
            char hex[2 * sizeof id + 1];
            hash_random(id, sizeof id);
            str_hex(hex, id, sizeof id);
            o->rdzv_id = arena_strdup(l->arena, hex);
            o->nnodes = (struct option_range){1, 1};
        }
        lead_alone(l);
        return 0;
    }
    if (is_static)
        return choose_static(l, e);
    if (strcmp(o->rdzv_backend, "c10d") == 0)
        return choose_c10d(l, e);
    if (str_starts(o->rdzv_backend, "etcd"))
        return err_set(e, ERR_USAGE,
                       "--rdzv-backend %s: etcd is not served; c10d needs no server at all",
                       o->rdzv_backend);
    return err_set(e, ERR_USAGE, "--rdzv-backend '%.40s': only static and c10d are served",
                   o->rdzv_backend);
}

// Other agents connect here when the coordinator is lost.
static int listen_to_agents(struct launch *l, struct err *e) {
    if (l->agent.listen_fd >= 0 || l->options.nnodes.max <= 1)
        return 0;
    return net_listen(NULL, 0, &l->agent.listen_fd, &l->agent.listen_port, e);
}

static int make_log_base(struct launch *l, struct err *e) {
    const char *dir = l->options.log_dir;
    unsigned char id[4];
    char hex[2 * sizeof id + 1];
    if (strcmp(dir, "/dev/null") == 0)
        return 0;
    if (!dir[0]) {
        const char *tmp = env_get(l->env, "TMPDIR");
        char *made = arena_printf(l->arena, "%s/torchelastic_XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
        if (!mkdtemp(made))
            return err_errno(e, ERR_SYS, "cannot create a log folder '%s'", made);
        l->log_dir_made = file_absolute(l->arena, made, e);
        dir = l->log_dir_made;
    }
    hash_random(id, sizeof id);
    str_hex(hex, id, sizeof id);
    char *absolute = dir ? file_absolute(l->arena, dir, e) : NULL;
    if (!absolute)
        return -1;
    l->agent.workers.log_base =
        arena_printf(l->arena, "%s/%s_%s", absolute, l->options.rdzv_id, hex);
    return 0;
}

static int refuse_unserved(const struct launch_options *o, struct err *e) {
    if (o->logs_specs[0])
        return err_set(e, ERR_USAGE, "--logs-specs: Python plug-ins are not served");
    if (strcmp(o->event_log_handler, "null") != 0)
        return err_set(e, ERR_USAGE, "--event-log-handler: only null is served");
    if (strcmp(o->start_method, "spawn") != 0 && strcmp(o->start_method, "fork") != 0 &&
        strcmp(o->start_method, "forkserver") != 0)
        return err_set(e, ERR_USAGE, "--start-method '%.40s' is none of spawn, fork, forkserver",
                       o->start_method);
    return 0;
}

int launch_by_hand(struct launch *l, const char *const *args, size_t count, struct err *e) {
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    l->agent.listen_fd = -1;
    l->agent.name = arena_strdup(l->arena, l->options.local_addr[0] ? l->options.local_addr : host);
    if (refuse_unserved(&l->options, e) < 0 || launch_command(l, args, count, e) < 0 ||
        choose_leader(l, e) < 0 || listen_to_agents(l, e) < 0 || launch_fill(l, e) < 0 ||
        launch_watch(l, e) < 0 || make_log_base(l, e) < 0)
        return -1;
    l->agent.run = l->agent.coordinator.secret.run = l->options.rdzv_id;
    launch_key(l);
    const char *error_file = env_get(l->env, "TORCHELASTIC_ERROR_FILE");
    const char *no_sharing = env_get(l->env, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
    l->agent.error_file = error_file && error_file[0] ? error_file : NULL;
    l->agent.own_store = no_sharing && strcmp(no_sharing, "1") == 0 && !l->agent.store_at_endpoint;
    struct worker_facts f = {.nproc = l->agent.workers.nproc};
    if (worker_env_limits_threads(l->env, &f))
        log_warn("OMP_NUM_THREADS is set to 1 for each worker",
                 "reason=several workers share this node's cores; set it to choose another value");
    return 0;
}

void launch_end(struct launch *l) {
    if (l->log_dir_made)
        file_remove_empty(l->log_dir_made);
}
