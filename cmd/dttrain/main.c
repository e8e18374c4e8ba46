// SPDX-License-Identifier: Apache-2.0
// dttrain: one rank of the native trainer. Reads the [train] options and the launcher's
// environment, connects to the other ranks through the launcher's store, and trains or measures.
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "build_info.h"
#include "conf/render.h"
#include "conf/train_config.h"
#include "rank_env.h"
#include "sys/file.h"
#include "sys/net.h"
#include "sys/proc.h"
#include "tcpstore/store_client.h"
#include "train_device.h"
#include "trainer/bench.h"
#include "trainer/trainer.h"
#include "trainer/trainer_plan.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { CAUSE_FIRST_MS = 500, STORE_TIMEOUT_MS = 60 * 1000, STATUS_SIGTERM = 128 + SIGTERM };

static volatile sig_atomic_t stop_wanted, saves_wanted;

// The first signal asks for a checkpoint at the next step boundary, a second one kills.
static void on_stop(int signal) {
    (void)signal;
    stop_wanted = 1;
}

// SIGUSR1: writes a checkpoint and continues. dtrun --notice-signal USR1 sends it before a
// preemption.
static void on_save(int signal) {
    (void)signal;
    saves_wanted = (saves_wanted + 1) & 0xffff;
}

static void catch_signals(void) {
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction sa = {.sa_handler = on_stop, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&sa.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &sa, NULL);
    struct sigaction save = {.sa_handler = on_save, .sa_flags = SA_RESTART};
    sigemptyset(&save.sa_mask);
    sigaction(SIGUSR1, &save, NULL);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
}

static void say(void *ctx, const char *line) {
    (void)ctx;
    puts(line);
    fflush(stdout);
}

static int kv_set(void *ctx, const char *key, const void *value, size_t len, struct err *e) {
    return store_client_set(ctx, key, value, len, e);
}

static int kv_get(void *ctx, const char *key, void *value, size_t cap, size_t *len, int timeout_ms,
                  struct err *e) {
    return store_client_get(ctx, key, value, cap, len, timeout_ms, e);
}

// The address at which other ranks reach this node: the source address of its route to the master.
static int own_address(const struct rank_env *r, char out[NET_ADDRESS_BYTES_MAX], struct err *e) {
    struct net_address master, local;
    if (net_resolve(r->master_host, r->master_port, &master, e) < 0 ||
        net_route_source(&master, &local, e) < 0)
        return err_wrap(e, "own address towards %s", r->master_host);
    net_format(&local, out);
    return 0;
}

struct rank_store {
    struct store_client store;
    char address[NET_ADDRESS_BYTES_MAX];
    char prefix[64];
};

static int connect_ranks(const struct rank_env *r, struct rank_store *v, struct comm_config *comm,
                         struct err *e) {
    *comm = (struct comm_config){.rank = r->rank,
                                 .world = r->world,
                                 .local_rank = r->local_rank,
                                 .local_world = r->local_world,
                                 .node = r->node,
                                 .nodes = r->nodes};
    v->store.fd = -1;
    if (r->world == 1)
        return 0;
    if (store_client_open(&v->store, r->master_host, r->master_port, STORE_TIMEOUT_MS, e) < 0)
        return err_wrap(e, "the launcher's store");
    if (own_address(r, v->address, e) < 0)
        return -1;
    snprintf(v->prefix, sizeof v->prefix, "dttrain/%d", r->restart);
    comm->kv = (struct comm_kv){kv_set, kv_get, &v->store};
    comm->prefix = v->prefix;
    comm->address = v->address;
    return 0;
}

static int read_env(struct rank_env *env, struct trainer_config *config,
                    const struct train_config *options, struct arena *a, struct err *e) {
    if (rank_env_read(env, a, environ, e) < 0)
        return -1;
    *config = (struct trainer_config){
        .options = options,
        .data = rank_env_input(env, a, options->data, "data"),
        .val = rank_env_input(env, a, options->val, "val"),
        .data_shared_out = rank_env_shared_out(env, a, options->data, "data"),
        .val_shared_out = rank_env_shared_out(env, a, options->val, "val"),
        .weights = rank_env_input(env, a, options->weights, "weights"),
        .output_dir = env->output_dir,
        .model_dir = env->model_dir,
        .state_dir = env->state_dir,
        .cache_dir = env->cache_dir,
        .node_name = env_get(environ, "DTCTL_NODE"),
        .run = env_get(environ, "DTCTL_RUN"),
        .stop = &stop_wanted,
        .save = &saves_wanted,
        .say = say,
    };
    return 0;
}

static int plan(const struct train_config *options, const struct train_flags *flags,
                struct arena *a, struct err *e) {
    struct rank_env env;
    struct trainer_config config;
    struct strbuf out = {0};
    const struct trainer_plan_request request = {.ranks = (int)flags->ranks,
                                                 .ranks_per_node = (int)flags->ranks_per_node,
                                                 .network_bits_per_s = flags->network * 1e9,
                                                 .json = flags->json};
    if (read_env(&env, &config, options, a, e) < 0)
        return -1;
    int r = trainer_plan(&config, &request, &out, e);
    if (r == 0)
        r = file_print(strbuf_cstr(&out), e);
    strbuf_fini(&out);
    return r;
}

// Trains, or measures a collective between the same ranks on the same devices.
static int train(const struct train_config *options, const struct train_flags *flags,
                 struct arena *a, int64_t started_ms, struct err *e) {
    struct rank_env env;
    struct rank_store v;
    struct trainer_result result = {0};
    struct trainer_config config;
    if (read_env(&env, &config, options, a, e) < 0)
        return -1;
    config.started_ms = started_ms;
    char role[32];
    snprintf(role, sizeof role, "dttrain rank %d", env.rank);
    log_open(role, LOG_INFO, LOG_PLAIN);
    struct trainer_device device;
    v.store.fd = -1;
    int r = train_device_open(&device, options, env.local_rank, e);
    if (r > 0)
        config.device = &device;
    if (r >= 0)
        r = connect_ranks(&env, &v, &config.comm, e);
    if (r == 0)
        r = flags->bench.kind ? bench_run(&config, &flags->bench, flags->json, e)
                              : trainer_run(&config, &result, e);
    store_client_close(&v.store);
    if (config.device)
        train_device_close(&device);
    return r == 0 && result.stopped ? STATUS_SIGTERM : r;
}

// A rank that lost a peer is not the root cause. It ends CAUSE_FIRST_MS later, so that the agents
// report the failed peer first. After a request to stop it ends at once.
static void let_cause_go_first(const struct err *e) {
    const struct timespec wait = {.tv_nsec = CAUSE_FIRST_MS * 1000000L};
    if (e->code == ERR_NET && !stop_wanted)
        nanosleep(&wait, NULL);
}

static const struct render_program program = {
    .name = "dttrain",
    .summary = "one rank of the native trainer",
    .version = DTCTL_VERSION,
    .synopsis = "[--config FILE] [--set train.KEY=VALUE]... [--plan [--ranks N]] [--bench KIND] "
                "[--devices]",
    .text = "Trains the model that the [train] table of FILE describes; without a file, the "
            "built-in demonstration. Started once per rank by dtctl, dtrun or torchrun; alone, it "
            "trains in one process and writes below dttrain-output/.",
};

static int print_help(const struct option_set *set, struct err *e) {
    struct strbuf text = {0};
    render_help(&text, set, &program, 0);
    int r = file_print(strbuf_cstr(&text), e);
    strbuf_fini(&text);
    return r;
}

static int print_devices(struct err *e) {
    struct strbuf out = {0};
    train_device_list(&out);
    int r = file_print(strbuf_cstr(&out), e);
    strbuf_fini(&out);
    return r;
}

int main(int argc, char **argv) {
    int64_t started_ms = clock_mono_ms();
    struct arena a = {0};
    struct train_config options;
    struct train_flags flags;
    struct option_set set;
    struct err e;
    proc_prepare();
    catch_signals(); // before anything else: an early signal must not end the process
    log_open("dttrain", LOG_INFO, LOG_PLAIN);
    int r = train_config_load(&options, &flags, &set, &a, argc - 1, (const char *const *)(argv + 1),
                              environ, &e);
    if (r == 0 && flags.help)
        r = print_help(&set, &e);
    else if (r == 0 && flags.version)
        r = file_print("dttrain " DTCTL_VERSION "\n", &e);
    else if (r == 0 && flags.devices)
        r = print_devices(&e);
    else if (r == 0 && flags.plan)
        r = plan(&options, &flags, &a, &e);
    else if (r == 0)
        r = train(&options, &flags, &a, started_ms, &e);
    if (r < 0) {
        fprintf(stderr, "dttrain: %s\n", e.text);
        let_cause_go_first(&e);
        r = e.code == ERR_INTERRUPTED && stop_wanted ? STATUS_SIGTERM : err_status(e.code);
    }
    arena_fini(&a);
    return r;
}
