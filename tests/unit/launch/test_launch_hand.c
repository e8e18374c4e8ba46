// SPDX-License-Identifier: Apache-2.0
// A launch by hand: who leads, at which address and port, and which flags are refused. Names are
// resolved by a stand-in: "here…" is this computer, "far…" is another one.
#include "launch/launch.h"

#include "sys/file.h"
#include "sys/resolver.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <string.h>
#include <unistd.h>

static struct arena arena;
static struct err e;
static struct launch l;
static struct option_set set;
static char *no_variables[] = {NULL};
static const char *const args[] = {"train.py"};
static int listening = -1, used_port, free_port; // a port of another process, and a free one
static char root[] = "/tmp/test_launch_hand.XXXXXX";

static void on_answer(struct timer *t) {
    struct resolver *r = container_of(t, struct resolver, again);
    const char *address = str_starts(r->host, "here")  ? "127.0.0.1"
                          : str_starts(r->host, "far") ? "192.0.2.7"
                                                       : NULL;
    clock_ahead_ms += 1000;
    r->attempts++;
    if (!address) {
        err_set(&r->err, ERR_NET, "no such name");
        timer_start(r->loop, &r->again, 0, on_answer);
    } else if (net_resolve(address, 0, &r->found[0], &e) == 0) {
        r->count = 1;
    }
    r->cb(r);
}

int stand_in_start(struct loop *loop, struct resolver *r, const char *host, int port,
                   resolver_cb *cb, struct err *why) __asm__("resolver_start");

int stand_in_start(struct loop *loop, struct resolver *r, const char *host, int port,
                   resolver_cb *cb, struct err *why) {
    (void)port, (void)why;
    r->loop = loop;
    r->cb = cb;
    snprintf(r->host, sizeof r->host, "%s", host);
    timer_start(loop, &r->again, 0, on_answer);
    return 0;
}

void stand_in_stop(struct resolver *r) __asm__("resolver_stop");

void stand_in_stop(struct resolver *r) {
    timer_stop(&r->again);
}

static void begin(char *const *env) {
    if (l.agent.listen_fd > 0)
        close(l.agent.listen_fd);
    launch_init(&l, &arena, env);
    option_set_init(&set, &arena, "dtrun", "", env);
    option_set_add(&set, &launch_table, &l.options);
    l.options.log_dir = "/dev/null";
    l.options.rdzv_id = "r1";
    err_clear(&e);
}

static int launch(void) {
    return launch_by_hand(&l, args, 1, &e);
}

static const char *endpoints(void) {
    struct strbuf text = {0};
    for (int i = 0; i < l.agent.endpoint_count; i++)
        strbuf_addf(&text, "%s:%d;", l.agent.endpoints[i].host, l.agent.endpoints[i].port);
    const char *all = arena_strdup(&arena, strbuf_cstr(&text));
    strbuf_fini(&text);
    return all;
}

static void set_nodes(int count) {
    l.options.nnodes = (struct option_range){.min = count, .max = count};
}

// ---- alone --------------------------------------------------------------------------------------

static void test_alone(void) {
    begin(no_variables);
    is_int(launch(), 0, "one node may be alone");
    ok(l.agent.leads && l.agent.bootstrap_at_once && l.agent.listen_fd == -1 &&
           !l.agent.store_at_endpoint && strcmp(l.agent.address, "127.0.0.1") == 0,
       "a node that is alone leads at its loopback address");
    is_str(l.agent.run, "r1", "the run has its id");
    begin(no_variables);
    l.options.standalone = true;
    set_nodes(4);
    is_int(launch(), 0, "a standalone run is alone");
    ok(l.options.nnodes.max == 1 && strlen(l.agent.run) == 16,
       "a standalone run has one node and an id of its own");
    begin(no_variables);
    l.options.master_addr = "here0";
    l.options.master_port = free_port;
    is_int(launch(), 0, "one node may have a port");
    ok(l.agent.leads && l.agent.listen_fd >= 0 && l.agent.listen_port == free_port &&
           l.agent.store_at_endpoint,
       "the port is bound for others");
}

// ---- static starts ------------------------------------------------------------------------------

static void begin_static(int rank, const char *endpoint) {
    begin(no_variables);
    set_nodes(2);
    l.options.node_rank = rank;
    l.options.rdzv_endpoint = endpoint;
    l.options.master_addr = "far0";
    l.options.master_port = free_port;
}

static void test_static(void) {
    begin_static(0, "");
    l.options.master_addr = "here0";
    is_int(launch(), 0, "rank 0 starts");
    ok(l.agent.leads && l.agent.bootstrap_at_once && l.agent.node_rank == 0 &&
           l.agent.listen_port == free_port && l.agent.endpoint_count == 0,
       "rank 0 leads at the port");
    is_str(l.agent.address, "127.0.0.1", "rank 0 has the address of its name");
    begin_static(0, "");
    l.options.master_addr = "localhost";
    launch();
    is_str(l.agent.address, "127.0.0.1", "localhost is the loopback address");
    begin_static(1, "");
    is_int(launch(), 0, "rank 1 starts");
    ok(!l.agent.leads && !l.agent.bootstrap_at_once && l.agent.node_rank == 1 &&
           l.agent.store_at_endpoint && l.agent.listen_fd >= 0 && l.agent.listen_port != free_port,
       "rank 1 listens at another port");
    is_str(endpoints(), arena_printf(&arena, "192.0.2.7:%d;", free_port), "rank 1 asks rank 0");
    is_str(l.agent.address, "", "the address of rank 1 comes from its route");
    begin_static(1, "far1:77");
    launch();
    is_str(endpoints(), "192.0.2.7:77;", "--rdzv-endpoint counts before --master-addr");
    begin_static(1, "far1");
    l.options.master_port = 0;
    launch();
    is_str(endpoints(), "192.0.2.7:29500;", "a static start has torchrun's port");
    begin_static(1, "");
    l.options.local_addr = "here1";
    launch();
    is_str(l.agent.address, "127.0.0.1", "--local-addr is resolved");
    is_str(l.agent.name, "here1", "--local-addr is the node's name");
    begin_static(-1, "");
    l.options.rdzv_conf = "rank=1";
    launch();
    is_int(l.agent.node_rank, 1, "--rdzv-conf may have the rank");
    begin_static(-1, "");
    l.options.master_addr = "here0";
    launch();
    is_int(l.agent.node_rank, 0, "a node without a rank is the first");
}

static void test_static_refused(void) {
    begin_static(2, "");
    is_int(launch(), -1, "a rank must be below the number of nodes");
    is_str(e.text, "--node-rank 2 is not below --nnodes 2", "the error has rank and nodes");
    begin_static(0, "");
    l.options.nnodes.min = 1;
    is_int(launch(), -1, "a static start has no range of nodes");
    is_str(e.text, "--nnodes 1:2: a range needs --rdzv-backend c10d", "the error has the range");
    begin_static(1, "far:x");
    is_int(launch(), -1, "an endpoint has a port");
    is_int(strncmp(e.text, "--rdzv-endpoint: ", 17), 0, "the error names the flag");
    begin_static(1, "");
    l.options.rdzv_conf = "timeout=3";
    l.options.master_addr = "nowhere";
    is_int(launch(), -1, "the first node must have an address");
    is_str(e.text, "coordinator: no such name", "the error is that of the name");
    begin_static(0, "");
    l.options.master_addr = "here0";
    l.options.master_port = used_port;
    is_int(launch(), -1, "the port must be free");
    is_int(strncmp(e.text, "port of node rank 0 (--master-port): ", 37), 0, "the error names it");
}

// ---- c10d ---------------------------------------------------------------------------------------

static void begin_c10d(const char *endpoint, const char *conf) {
    begin(no_variables);
    set_nodes(2);
    l.options.rdzv_backend = "c10d";
    l.options.rdzv_endpoint = endpoint;
    l.options.rdzv_conf = conf;
}

static void test_c10d(void) {
    static const struct {
        const char *host, *conf;
        bool leads;
    } cases[] = {{"here0", "", true},
                 {"localhost", "", true},
                 {"", "", true},
                 {"far0", "", false},
                 {"far0", "is_host=1", true},
                 {"here0", "is_host=0", false},
                 {"far0", "is_host=TRUE", true},
                 {"here0", "is_host=n", false},
                 {"far0", "is_host=y", true},
                 {"far0", "is_host=yes", true},
                 {"far0", "is_host=t", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_c10d(arena_printf(&arena, "%s:%d", cases[i].host, free_port), cases[i].conf);
        is_int(launch(), 0, "endpoint '%s' with '%s' starts", cases[i].host, cases[i].conf);
        ok(l.agent.leads == cases[i].leads && l.agent.bootstrap_at_once &&
               (l.agent.listen_port == free_port) == cases[i].leads &&
               l.agent.endpoint_count == !cases[i].leads && !l.agent.store_at_endpoint,
           "endpoint '%s' with '%s' leads or is asked", cases[i].host, cases[i].conf);
    }
    begin_c10d("far0", "");
    launch();
    is_str(endpoints(), "192.0.2.7:29400;", "c10d has torchrun's port");
    begin_c10d(arena_printf(&arena, "here0:%d,far1:5,far2:6", free_port), "");
    is_int(launch(), 0, "there may be several endpoints");
    is_str(endpoints(), "192.0.2.7:5;192.0.2.7:6;", "the other endpoints are asked");
    ok(l.agent.leads && !l.agent.bootstrap_at_once, "a group may exist at another endpoint");
    begin_c10d(arena_printf(&arena, "far1:5,here0:%d", free_port), "");
    launch();
    ok(!l.agent.leads && l.agent.listen_port == free_port, "the second endpoint leads no group");
    begin_c10d(arena_printf(&arena, "here0:%d", used_port), "");
    is_int(launch(), 0, "another agent of this computer may have the port");
    ok(!l.agent.leads && l.agent.endpoint_count == 1, "the other agent is asked");
    begin_c10d(arena_printf(&arena, "here0:%d", used_port), "is_host=1");
    is_int(launch(), -1, "one agent is the host");
    has_str(e.text, "(give is_host=1 to one agent only)", "the error says so");
}

static void test_c10d_refused(void) {
    begin_c10d("far0", "store_type=file");
    is_int(launch(), -1, "another store is not served");
    is_str(e.text, "--rdzv-conf store_type=file: only tcp is served", "the error has the store");
    begin_c10d("far0", "store_type=tcp");
    is_int(launch(), 0, "a store may be tcp");
    struct strbuf many = {0};
    for (int i = 0; i < AGENT_ENDPOINTS_MAX; i++)
        strbuf_addf(&many, "%sfar%d:5", i ? "," : "", i);
    begin_c10d(arena_strdup(&arena, strbuf_cstr(&many)), "");
    is_int(launch(), 0, "the most endpoints are accepted");
    begin_c10d(arena_printf(&arena, "%s,far:5", strbuf_cstr(&many)), "");
    is_int(launch(), -1, "more endpoints are refused");
    is_str(e.text, "--rdzv-endpoint: 17 endpoints; 16 are enough", "the error has the limit");
    strbuf_fini(&many);
    begin_c10d("far0:x", "");
    is_int(launch(), -1, "a port is a number");
    begin_c10d("nowhere", "join_timeout=2");
    is_int(launch(), -1, "the first endpoint must have an address");
    begin_c10d(arena_printf(&arena, "here0:%d,nowhere:1", free_port), "");
    is_int(launch(), 0, "another endpoint may have none");
}

// ---- other flags --------------------------------------------------------------------------------

static void test_refused(void) {
    static const struct {
        const char *backend, *want;
    } backends[] = {{"etcd-v2", "--rdzv-backend etcd-v2: etcd is not served; c10d needs no server "
                                "at all"},
                    {"mpi", "--rdzv-backend 'mpi': only static and c10d are served"}};
    for (int i = 0; i < 2; i++) {
        begin(no_variables);
        l.options.rdzv_backend = backends[i].backend;
        is_int(launch(), -1, "%s is refused", backends[i].backend);
        is_str(e.text, backends[i].want, "the error has %s", backends[i].backend);
    }
    static const char *const methods[] = {"spawn", "fork", "forkserver", "other"};
    for (int i = 0; i < 4; i++) {
        begin(no_variables);
        l.options.start_method = methods[i];
        is_int(launch(), i == 3 ? -1 : 0, "the start method %s is known or not", methods[i]);
    }
    begin(no_variables);
    l.options.logs_specs = "x";
    is_int(launch(), -1, "plug-ins are refused");
    begin(no_variables);
    l.options.event_log_handler = "console";
    is_int(launch(), -1, "handlers of events are refused");
}

static void test_variables(void) {
    static const struct {
        const char *error_file, *no_sharing, *backend;
        bool own;
    } cases[] = {{"/e", "1", "c10d", true}, {"", "0", "c10d", false}, {"/e", "1", "static", false}};
    for (int i = 0; i < 3; i++) {
        char *env[] = {
            arena_printf(&arena, "TORCHELASTIC_ERROR_FILE=%s", cases[i].error_file),
            arena_printf(&arena, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=%s", cases[i].no_sharing),
            NULL};
        begin(env);
        l.options.rdzv_backend = cases[i].backend;
        l.options.rdzv_endpoint = arena_printf(&arena, "here0:%d", free_port);
        is_int(launch(), 0, "variables %d are read", i);
        is_str(l.agent.error_file, cases[i].error_file[0] ? "/e" : NULL, "the error file is %d's",
               i);
        is_int(l.agent.own_store, cases[i].own, "the store is shared or not, %d", i);
    }
}

static void test_logs(void) {
    char *env[] = {arena_printf(&arena, "TMPDIR=%s", root), NULL};
    begin(env);
    launch();
    ok(!l.agent.workers.log_base && !l.log_dir_made, "no logs are kept on request");
    launch_end(&l);
    begin(env);
    l.options.log_dir = "";
    is_int(launch(), 0, "logs have a folder");
    const char *made = l.log_dir_made;
    ok(made && str_starts(made, arena_printf(&arena, "%s/torchelastic_", root)) &&
           str_starts(l.agent.workers.log_base, arena_printf(&arena, "%s/r1_", made)),
       "the folder is one for temporary files");
    launch_end(&l);
    ok(file_is_absent(made), "an empty folder is removed");
    begin(env);
    l.options.log_dir = root;
    launch();
    ok(!l.log_dir_made &&
           str_starts(l.agent.workers.log_base, arena_printf(&arena, "%s/r1_", root)),
       "--log-dir is used");
}

int main(void) {
    int fd;
    if (!mkdtemp(root) || net_listen(NULL, 0, &listening, &used_port, &e) < 0 ||
        net_listen(NULL, 0, &fd, &free_port, &e) < 0)
        bail_out("no folder or ports");
    close(fd);
    clock_stop();
    test_alone();
    test_static();
    test_static_refused();
    test_c10d();
    test_c10d_refused();
    test_refused();
    test_variables();
    test_logs();
    begin(no_variables);
    close(listening);
    file_remove_tree(root, &e);
    arena_fini(&arena);
    return done_testing();
}
