// SPDX-License-Identifier: Apache-2.0
// dtctl doctor: checks this computer and the nodes, and prints a remedy for each fault.
#include "command.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/str.h"
#include "build_info.h"
#include "cluster/run_record.h"
#include "fleet/device_check.h"
#include "fleet/embedded_files.h"
#include "fleet/fleet_runs.h"
#include "fleet/network_check.h"
#include "provider/provider.h"
#include "run/dtdata.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "ui/findings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    DISK_HERE_MIB_MIN = 1024,
    DISK_NODE_MIB_MIN = 1024,
    SKEW_MS_MAX = 2000,
    DESCRIPTORS_MIN = 1024,
};

// ---- this computer -----------------------------------------------------------------------------

static void check_machine(struct findings *d) {
    struct utsname u;
    struct rlimit r;
    uint64_t disk = 0;
    struct err e = {0};
    char size[STR_HUMAN_BYTES_MAX];
    uname(&u);
    findings_add(d, FINDING_GOOD, "dtctl", NULL, "%s on Linux %s %s, %d cpus", DTCTL_VERSION,
                 u.release, u.machine, proc_cpu_count());
    bool agent = embedded_find("dtrun") != NULL, trainer = embedded_find("dttrain") != NULL;
    findings_add(d, agent && trainer ? FINDING_GOOD : FINDING_BAD, "programs inside",
                 "build dtctl with make, all of it", "%s, %s", agent ? "agent" : "no agent",
                 trainer ? "trainer" : "no trainer");
    if (getrlimit(RLIMIT_NOFILE, &r) == 0)
        findings_add(d, r.rlim_cur >= DESCRIPTORS_MIN ? FINDING_GOOD : FINDING_WARN, "open files",
                     "raise it with ulimit -n for clusters of many nodes", "%llu allowed",
                     (unsigned long long)r.rlim_cur);
    if (file_disk_free(d->context->cluster.base, &disk, &e) < 0)
        findings_add(d, FINDING_BAD, "disk", "choose a folder that can be written", "%s", e.text);
    else
        findings_add(d, disk >= (uint64_t)DISK_HERE_MIB_MIN << 20 ? FINDING_GOOD : FINDING_WARN,
                     "disk", "results of runs come here; make room", "%s free in %s",
                     str_human_bytes(size, disk), d->context->cluster.base);
    findings_add(d, access(d->context->cluster.base, W_OK) == 0 ? FINDING_GOOD : FINDING_BAD,
                 "working folder", "dtctl keeps its state in .dtctl here; go where you may write",
                 "%s", d->context->cluster.base);
}

static void check_config(struct findings *d) {
    const struct config *c = d->context->config;
    if (c->file_found)
        findings_add(d, FINDING_GOOD, "configuration", NULL, "%s, provider %s", c->file,
                     provider_of(c)->name);
    else
        findings_add(d, FINDING_GOOD, "configuration", NULL, "no %s; defaults hold, provider %s",
                     c->file, provider_of(c)->name);
}

static void check_ssh(struct findings *d) {
    const struct config *c = d->context->config;
    const char *agent = env_get(d->context->env, "SSH_AUTH_SOCK"),
               *home = env_get(d->context->env, "HOME");
    static const char *const keys[] = {"id_ed25519", "id_ecdsa", "id_rsa"};
    struct stat st;
    size_t found = 0;
    if (c->cluster.provider == CONFIG_LOCAL)
        return;
    if (provider_of(c)->makes_keys) {
        findings_add(d, FINDING_GOOD, "ssh login", NULL, "by a key that dtctl up makes");
        return;
    }
    for (size_t i = 0; home && i < sizeof keys / sizeof keys[0]; i++)
        found += file_exists(arena_printf(d->context->arena, "%s/.ssh/%s", home, keys[i]));
    for (size_t i = 0; i < c->ssh.identity_files.count; i++) {
        const char *path = c->ssh.identity_files.items[i];
        if (stat(path, &st) < 0)
            findings_add(d, FINDING_BAD, "ssh key", "correct ssh.identity_files",
                         "'%s' is not there", path);
        else if (st.st_mode & 077)
            findings_add(d, FINDING_WARN, "ssh key", "chmod 600 it", "'%s' can be read by others",
                         path);
        else
            found++;
    }
    bool has_agent = agent && *agent && stat(agent, &st) == 0 && S_ISSOCK(st.st_mode);
    findings_add(d, found || has_agent ? FINDING_GOOD : FINDING_BAD, "ssh login",
                 "make a key with ssh-keygen and put it on the hosts, or start an agent",
                 "%zu key file%s, %s", found, str_plural(found),
                 has_agent ? "an agent" : "no agent");
}

// An error of a run as a finding: its "(try: …)" is the remedy.
static void add_error(struct findings *d, enum findings_verdict v, const char *what,
                      const char *text) {
    static const char mark[] = " (try: ";
    const char *remedy = strstr(text, mark), *end = text + strlen(text);
    if (!remedy || end[-1] != ')') {
        findings_add(d, v, what, NULL, "%s", text);
        return;
    }
    const char *words = remedy + sizeof mark - 1;
    findings_add(d, v, what, arena_strndup(d->context->arena, words, (size_t)(end - 1 - words)),
                 "%.*s", (int)(remedy - text), text);
}

// Whether anything here is done with an AWS account.
static bool needs_account(const struct config *c) {
    bool needs = provider_of(c)->account || c->output_s3[0];
    const struct config_input *inputs = c->inputs.items;
    for (size_t i = 0; i < c->inputs.count; i++)
        needs = needs || str_starts(inputs[i].source, "s3://");
    return needs;
}

static void check_account(struct findings *d) {
    struct dtdata_account found;
    struct err e = {0};
    char when[CLOCK_ISO_BYTES];
    if (!needs_account(d->context->config) || !embedded_find(DTDATA_PROGRAM))
        return;
    if (dtdata_account(d->context, &found, &e) < 0)
        add_error(d, FINDING_BAD, "credentials", e.text);
    else if (found.ends_ms)
        findings_add(d, FINDING_GOOD, "credentials", NULL, "%s until %.19sZ, region %s", found.from,
                     clock_iso(when, found.ends_ms), found.region);
    else
        findings_add(d, FINDING_GOOD, "credentials", NULL, "%s, without an end, region %s",
                     found.from, found.region);
}

static void check_provider(struct findings *d) {
    const struct provider *p = provider_of(d->context->config);
    if (p->doctor)
        p->doctor(d);
}

static void check_cluster(struct findings *d) {
    struct context *s = d->context;
    struct err e = {0};
    char **runs = NULL;
    size_t count = 0, waiting = 0;
    int fd = -1;
    if (!file_exists(s->cluster.dir)) {
        findings_add(d, FINDING_GOOD, "cluster", NULL, "'%s' has never been up here",
                     s->cluster.name);
        return;
    }
    if (file_lock(s->cluster.lock_path, "doctor", 0, &fd, &e) == 0) {
        close(fd);
        findings_add(d, FINDING_GOOD, "lock", NULL, "free");
    } else {
        findings_add(d, FINDING_WARN, "lock", "wait for it, or end that process", "%s", e.text);
    }
    if (cluster_runs(&s->cluster, &runs, &count, &e) < 0) {
        findings_add(d, FINDING_BAD, "runs", "look at the folder", "%s", e.text);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct run r;
        struct err why = {0};
        if (run_load(&s->cluster, runs[i], &r, &why) < 0)
            findings_add(d, FINDING_WARN, "runs", "move its folder away", "%s", why.text);
        else
            waiting += !r.fetched || r.left;
    }
    findings_add(d, waiting ? FINDING_WARN : FINDING_GOOD, "runs",
                 "dtctl ps lists them; dtctl fetch RUN brings them",
                 "%zu here, %zu with results still on nodes", count, waiting);
}

// ---- the nodes ---------------------------------------------------------------------------------

static void check_node(struct findings *d, const struct fleet_node *n,
                       const struct node_runs *runs) {
    char free_text[STR_HUMAN_BYTES_MAX], skew[STR_HUMAN_BYTES_MAX];
    const struct embed_file *agent = embedded_find("dtrun");
    const char *name = n->info->name;
    size_t lost = 0, going = 0;
    if (n->failed) {
        findings_add(d, FINDING_BAD, name,
                     n->info->transport == INVENTORY_LOCAL
                         ? arena_printf(n->fleet->context->arena,
                                        "look at its folder '%s'; dtctl down --forget drops it",
                                        n->info->root)
                         : "try ssh to it; dtctl down --forget drops it",
                     "%s", n->err.text);
        return;
    }
    if (!n->info->dtrun[0])
        findings_add(d, FINDING_BAD, name, "dtctl up, which names the fault",
                     "it is not ready: its last 'dtctl up' failed");
    for (size_t i = 0; i < runs->count; i++)
        if (runs->items[i].node_index == n->index) {
            lost += strcmp(runs->items[i].state, "lost") == 0;
            going += !runs->items[i].over;
        }
    int64_t off = n->facts.clock_skew_ms < 0 ? -n->facts.clock_skew_ms : n->facts.clock_skew_ms;
    bool current = agent && strcmp(agent->sha256, n->facts.sha256) == 0;
    findings_add(d, FINDING_GOOD, name, NULL, "%s, %s, %d cpus, %d gpus, %zu run%s going",
                 n->facts.hostname, n->facts.arch, n->facts.cpus, n->facts.gpus, going,
                 str_plural(going));
    if (!current)
        findings_add(d, FINDING_WARN, name, "dtctl up", "its agent is another version (%s)",
                     n->facts.version);
    if (n->facts.disk_free_bytes < (uint64_t)DISK_NODE_MIB_MIN << 20)
        findings_add(d, FINDING_WARN, name, "dtctl gc, or make room there", "only %s free in %s",
                     str_human_bytes(free_text, n->facts.disk_free_bytes), n->facts.root);
    if (off > SKEW_MS_MAX)
        findings_add(d, FINDING_WARN, name, "set its clock (chrony or systemd-timesyncd)",
                     "its clock is %s %s", str_human_ms(skew, off),
                     n->facts.clock_skew_ms > 0 ? "ahead" : "behind");
    if (lost)
        findings_add(d, FINDING_WARN, name,
                     "its log is in the run's folder there: agent.log; dtctl gc clears it",
                     "%zu run%s whose agent vanished", lost, str_plural(lost));
}

// first: NCCL's version on the first node that has one; "": none yet.
static void check_nccl(struct findings *d, const char *node, const struct device_check_line *l,
                       bool needed, const char **first) {
    if (!l->ok) {
        if (needed) // a run works without it
            findings_add(d, FINDING_WARN, node, "dtctl push --with nccl=FILE",
                         "no NCCL, so gradients of GPUs go through the hosts: %s", l->text);
        return;
    }
    if (!**first)
        *first = l->version;
    bool same = strcmp(*first, l->version) == 0;
    findings_add(d, same ? FINDING_GOOD : FINDING_BAD, node,
                 "one version on all nodes: dtctl push --with nccl=FILE", "NCCL %s of %s%s%s",
                 l->version, l->text, same ? "" : "; another node has NCCL ", same ? "" : *first);
}

static int check_devices(struct findings *d, struct fleet *f, struct err *e) {
    struct arena *a = d->context->arena;
    struct device_check *checks = arena_new(a, struct device_check, f->count + 1);
    bool *failed = arena_new(a, bool, f->count); // before, and reported
    const char *first = "";
    int64_t gpus = 0;
    for (size_t i = 0; i < f->count; i++) {
        failed[i] = f->nodes[i].failed;
        gpus += failed[i] ? 0 : f->nodes[i].facts.gpus;
    }
    if (device_check(f, checks, e) < 0)
        return -1;
    for (size_t i = 0; i < f->count; i++) {
        const char *node = f->nodes[i].info->name;
        if (f->nodes[i].failed && !failed[i])
            add_error(d, FINDING_BAD, node, f->nodes[i].err.text);
        for (size_t k = 0; k < checks[i].count; k++) {
            const struct device_check_line *l = &checks[i].lines[k];
            const char *gpu = l->index < 0 ? node : arena_printf(a, "%s gpu %d", node, l->index);
            if (l->nccl)
                check_nccl(d, node, l, gpus > 1, &first);
            else if (l->ok)
                findings_add(d, FINDING_GOOD, gpu, NULL, "%s", l->text);
            else
                add_error(d, FINDING_BAD, gpu, l->text);
        }
    }
    return 0;
}

// The addresses of nodes are known when all of them are ready.
static bool all_are_ready(const struct inventory *inv) {
    for (size_t i = 0; i < inv->count; i++)
        if (!inv->nodes[i].dtrun[0])
            return false;
    return true;
}

static int check_nodes(struct findings *d, struct err *e) {
    struct context *s = d->context;
    struct inventory inv;
    struct fleet f;
    struct node_runs runs;
    struct err why = {0};
    if (!cluster_exists(&s->cluster))
        return 0;
    if (cluster_load(&s->cluster, &inv, &why) < 0) {
        findings_add(d, FINDING_BAD, "inventory", "move it away; dtctl up writes it again", "%s",
                     why.text);
        return 0;
    }
    fleet_open(&f, s, &inv, NULL, 0);
    int result = fleet_connect(&f, true, e);
    if (result == 0)
        result = fleet_runs_ask(&f, NULL, &runs, e);
    for (size_t i = 0; i < f.count && result == 0; i++)
        check_node(d, &f.nodes[i], &runs);
    if (result == 0)
        result = check_devices(d, &f, e);
    size_t before = fleet_failures(&f);
    if (result == 0 && f.count - before > 1 && all_are_ready(&inv)) {
        result = network_check(&f, e);
        for (size_t i = 0; i < f.count && result == 0; i++)
            if (f.nodes[i].failed && f.nodes[i].ready)
                findings_add(d, FINDING_BAD, f.nodes[i].info->name, "open TCP between the nodes",
                             "%s", f.nodes[i].err.text);
        if (result == 0 && fleet_failures(&f) == before)
            findings_add(d, FINDING_GOOD, "network", NULL, "every node reaches every other one");
    }
    fleet_close(&f);
    return result;
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)rest;
    (void)flags;
    struct findings d = {.context = s};
    check_machine(&d);
    check_config(&d);
    check_ssh(&d);
    check_provider(&d);
    check_account(&d);
    check_cluster(&d);
    if (check_nodes(&d, e) < 0)
        return -1;
    screen_out(s->screen, "%zu fine, %zu to look at, %zu bad\n", d.counts[FINDING_GOOD],
               d.counts[FINDING_WARN], d.counts[FINDING_BAD]);
    return d.counts[FINDING_BAD] ? err_status(ERR_FAILED) : 0;
}

const struct command cmd_doctor = {
    .verb = {.name = "doctor",
             .summary = "check this computer and the nodes, and print remedies",
             .text = "Checks the programs, the configuration, keys and the cluster's folder, and "
                     "every node: login, agent, disk, clock, lost runs, GPUs and NCCL as a run "
                     "would find them, and whether nodes reach each other. doctor installs a "
                     "missing agent, and the trainer for GPUs where there are GPUs, and changes "
                     "nothing else."},
    .run = run,
};
