// SPDX-License-Identifier: Apache-2.0
// adopt_fake.h: a cluster of two nodes that is adopted; the test is its nodes.
#ifndef TESTS_UNIT_AWS_ADOPT_FAKE_H
#define TESTS_UNIT_AWS_ADOPT_FAKE_H
#include "aws/aws_adopt.h"
#include "provider/cluster_backup.h"
#include "sys/file.h"
#include "terraform/terraform.h"
#include "tests/unit/said.h"
#include "tests/unit/transport_fake.h"

#include <signal.h>
#include <sys/stat.h>

#define HOST_KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
#define NODE(n)                                                                                    \
    "[[node]]\nname = \"node" n "\"\ntransport = \"ssh\"\nuser = \"ubuntu\"\nhost = "              \
    "\"198.51.100." n "\"\naddress = \"10.0.0." n "\"\nroot = \".dtctl\"\nhost_key = \"" HOST_KEY  \
    "\"\n"
#define INVENTORY "format = 1\nname = \"c\"\nprovider = \"aws\"\n" NODE("0") NODE("1")
#define CUT       "\x1"
#define COMMAND   "cat .dtctl/record .dtctl/runs/*/record 2>/dev/null; true"

enum { HOSTS = 2, FILES_MAX = 4 };

static char folder[] = "/tmp/test_aws_adopt.XXXXXX";
static struct arena a;
static struct screen screen;
static struct config config;
static struct context context;
static struct strbuf opened; // a line for each login
static struct provider_adopted adopted;
static struct err error;
static struct timer turn;
static unsigned char key[AES_GCM_KEY_BYTES];
static const char *key_path, *answers[HOSTS]; // of 198.51.100.0 …; NULL: the host is down
static int stops_at;                          // the user presses Ctrl-C in this login; 0: never
static size_t more_bytes;                     // of an answer, that follow its text

// ---- in place of SSH ----------------------------------------------------------------------------

static const char *answer_of(const struct transport_link *l) {
    const char *host = l->target.host;
    return str_starts(host, "198.51.100.") ? answers[host[11] - '0'] : NULL;
}

static void answer(struct fake_run *r) {
    static const char filler[1 << 20];
    const char *text = answer_of(r->r.link);
    const char *cut = strstr(text, CUT); // the connection breaks there
    size_t len = cut ? (size_t)(cut - text) : strlen(text);
    fake_say(r, text, len / 2);
    fake_say(r, text + len / 2, len - len / 2);
    for (size_t n = 0; n < more_bytes; n += sizeof filler)
        fake_say(r, filler, sizeof filler < more_bytes - n ? sizeof filler : more_bytes - n);
    if (cut) {
        struct err e;
        err_set(&e, ERR_NET, "the line is cut");
        transport_notify_lost(&r->r, &e);
    } else {
        fake_exit(r, 0);
    }
}

static void on_turn(struct timer *t) {
    (void)t;
    for (struct fake_link *l = fake_links; l; l = l->older) {
        struct err e;
        const char *text = answer_of(&l->l);
        if (l->is_closed || l->l.state != TRANSPORT_OPENING)
            continue;
        if (text) {
            fake_up(&l->l);
        } else {
            err_set(&e, ERR_NET, "node %s: no route to host", l->l.target.node);
            transport_notify_down(&l->l, &e);
        }
    }
    for (struct fake_run *r = fake_runs; r; r = r->older)
        if (!r->is_closed && !r->r.ended)
            answer(r);
    timer_start(context.loop, &turn, 0, on_turn);
}

static struct transport_link *open_link(const struct transport_env *env,
                                        const struct transport_target *t, struct err *e) {
    const char *known = strrchr(env->known_hosts_path, '/');
    strbuf_addf(&opened, "%s %s@%s:%d %s %s %s\n", t->node, t->user ? t->user : "-", t->host,
                t->port,
                t->host_key             ? "by its key"
                : env->accept_host_keys ? "by any key"
                                        : "-",
                known + 1, strrchr(env->identity_path ? env->identity_path : "/-", '/') + 1);
    if (stops_at && --stops_at == 0)
        context.interrupt = SIGINT;
    timer_start(context.loop, &turn, 0, on_turn);
    return fake_open(env, t, e);
}

const struct transport transport_ssh = TRANSPORT_FAKE(open_link);

// ---- records ------------------------------------------------------------------------------------

struct file {
    const char *path, *text;
};
static const struct file FILES[FILES_MAX] = {
    {"id_ed25519.pub", "ssh-ed25519 pub\n"},
    {"terraform/infra/terraform.tfvars.json", "{}"},
    {"cluster.toml", INVENTORY},
};

static const char *sealed(enum record_kind kind, const char *text) {
    const char *line;
    if (cluster_backup_close(&a, key, kind, text, strlen(text), &line, &error) < 0)
        bail_out("%s", error.text);
    return line;
}

static const char *cluster_of(const char *name, const struct file *files, const char *more) {
    struct strbuf text = {0};
    toml_write_str(&text, "cluster", name);
    for (size_t i = 0; i < FILES_MAX && files[i].path; i++) {
        toml_write_element(&text, "file");
        toml_write_str(&text, "path", files[i].path);
        toml_write_str(&text, "text", files[i].text);
    }
    strbuf_adds(&text, more);
    const char *line = sealed(RECORD_CLUSTER, strbuf_cstr(&text));
    strbuf_fini(&text);
    return line;
}

static const char *usual(void) {
    return cluster_of("c", FILES, "");
}

static const char *run_of(const char *id) {
    static const char *command[] = {"true", NULL}, *names[] = {"node0", "node1"};
    struct run r = {.id = id,
                    .name = "task",
                    .cluster = "c",
                    .provider = "aws",
                    .created_ms = 1,
                    .command = command,
                    .command_count = 1,
                    .nodes = names,
                    .node_count = 2,
                    .nproc = "auto",
                    .output_dir = "/home/ann/results",
                    .state = "succeeded",
                    .fetched = true};
    struct strbuf text = {0};
    run_format(&r, &text);
    const char *line = sealed(RECORD_RUN, strbuf_cstr(&text));
    strbuf_fini(&text);
    return line;
}

static const char *in_cluster(const char *name) {
    return file_join(&a, context.cluster.dir, name);
}

static const char *text_of(const char *path) {
    char *text;
    size_t len;
    struct err e = {0};
    return file_read(&a, path, 1 << 20, &text, &len, &e) < 0 ? NULL : text;
}

// A folder without the cluster; its nodes have the usual record.
static void start(void) {
    struct err e = {0};
    cluster_close(&context.cluster);
    if (file_remove_tree(file_join(&a, folder, ".dtctl"), &e) < 0 ||
        cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("%s", e.text);
    fake_free_all();
    said_clear();
    strbuf_clear(&opened);
    err_clear(&error);
    context.interrupt = 0;
    more_bytes = 0;
    stops_at = 0;
    answers[0] = answers[1] = usual();
}

static int adopt(const char *login) {
    int result = aws_adopt_cluster(&context, login, key_path, &adopted, &error);
    timer_stop(&turn);
    return result;
}

static struct run run_here(const char *id) {
    struct run r = {0};
    struct err e = {0};
    if (run_load(&context.cluster, id, &r, &e) < 0)
        diag("%s", e.text);
    return r;
}

static void write_key(void) {
    static const char text[] = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n"
                               "-----END OPENSSH PRIVATE KEY-----\n";
    struct err e = {0};
    key_path = file_join(&a, folder, "key");
    if (file_write_atomic(key_path, text, strlen(text), 0644, &e) < 0 ||
        cluster_backup_key(&a, key_path, key, &e) < 0)
        bail_out("%s", e.text);
}

static void begin(void) {
    static char *env[] = {NULL};
    struct err e = {0};
    if (!mkdtemp(folder))
        bail_out("no folder");
    context = (struct context){.arena = &a, .config = &config, .screen = &screen, .env = env};
    context.loop = loop_open(&e);
    if (!context.loop || cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("%s", e.text);
    config_open(&config, &a, "dtctl", env);
    said_open(&screen);
    write_key();
}

static void end(void) {
    struct err e = {0};
    fake_free_all();
    cluster_close(&context.cluster);
    said_close(&screen);
    loop_close(context.loop);
    file_remove_tree(folder, &e);
    strbuf_fini(&opened);
    arena_fini(&a);
}

#endif
