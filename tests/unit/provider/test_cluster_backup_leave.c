// SPDX-License-Identifier: Apache-2.0
// Records that are left on nodes: which nodes get the cluster's, the files in it, failures that
// are warnings, and the records of runs. The test is the nodes.
#include "provider/cluster_backup.h"

#include "sys/file.h"
#include "tests/unit/said.h"
#include "tests/unit/transport_fake.h"

#include <unistd.h>

enum { NODES = RECORD_NODES_MAX + 2 };
static const char key_text[] = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\nBBBB\n"
                               "-----END OPENSSH PRIVATE KEY-----\n";

static char folder[] = "/tmp/test_cluster_backup.XXXXXX";
static struct arena arena;
static struct screen notes;
static struct context context = {.arena = &arena, .screen = &notes};
static struct inventory_node info[NODES];
static struct fleet_node nodes[NODES];
static struct fleet fleet = {.context = &context, .nodes = nodes, .count = NODES};
static struct timer turn;
static size_t fails; // the node that answers with an error; NODES: none
static struct err e;

static void answer(struct timer *t) {
    static const char error[] =
        "{\"event\":\"error\",\"code\":\"not-found\",\"text\":\"no disk\"}\n";
    (void)t;
    for (struct fake_run *r = fake_runs; r; r = r->older) {
        while (fake_take(r, SIZE_MAX))
            ;
        bool bad = fails < NODES && r->r.link == nodes[fails].link;
        if (bad)
            fake_say(r, error, strlen(error));
        fake_exit(r, bad);
    }
}

static void begin(void) {
    for (size_t i = 0; i < NODES; i++) {
        info[i] = (struct inventory_node){.name = arena_printf(&arena, "n%zu", i), .root = "/r"};
        nodes[i] = (struct fleet_node){.fleet = &fleet,
                                       .index = i,
                                       .info = &info[i],
                                       .up = true,
                                       .link = fake_link(context.loop, NULL, NULL)};
    }
    timer_start(context.loop, &turn, 0, answer);
    fails = NODES;
    said_clear();
    err_clear(&e);
}

static void end(void) {
    timer_stop(&turn);
    for (size_t i = 0; i < NODES; i++) {
        if (nodes[i].work)
            bail_out("a node has work");
        transport_close(nodes[i].link);
    }
    fake_free_all();
}

static void put(const char *path, const char *text, size_t len) {
    const char *full = file_join(&arena, context.cluster.dir, path);
    if (file_make_dirs(file_dir(&arena, full), 0700, &e) < 0 ||
        file_write_atomic(full, text, len, 0600, &e) < 0)
        bail_out("%s", e.text);
}

// The text of a record that was sealed with the cluster's key.
static const char *opened(enum record_kind kind, const char *line, size_t len) {
    unsigned char key[AES_GCM_KEY_BYTES];
    char *text;
    size_t text_len;
    if (len == 0 || line[len - 1] != '\n')
        return "no line";
    if (cluster_backup_key(&arena, context.cluster.key_path, key, &e) < 0 ||
        cluster_backup_open(&arena, key, kind, line, len - 1, &text, &text_len, &e) < 0)
        return e.text;
    return text;
}

// The nodes that were sent something, as digits.
static const char *sent(void) {
    const char *text = "";
    for (size_t i = 0; i < NODES; i++)
        for (struct fake_run *r = fake_runs; r; r = r->older)
            if (r->r.link == nodes[i].link)
                text = arena_printf(&arena, "%s%zu", text, i);
    return text;
}

static int leave(void) {
    return cluster_backup_leave(&fleet, &e);
}

// ---- the cluster's record -----------------------------------------------------------------------

static void test_without_key(void) {
    struct run r = {.id = "r-1"};
    struct manifest *m = manifest_new();
    begin();
    is_int(leave(), 0, "a cluster without a key leaves no record");
    is_str(sent(), "", "no node is sent anything without a key");
    is_int(cluster_backup_add_run(&context, &r, m, &e), 0, "a run without a key leaves no record");
    is_int((int)m->count, 0, "a run without a key adds no file");
    manifest_free(m);
    end();
}

static void test_leave(void) {
    put("id_ed25519", key_text, sizeof key_text - 1);
    put("known_hosts", "hosts\n", 6);
    put("owner", "me\n", 3);
    put("terraform/lease", "lease\n", 6);
    put("cluster.toml", "name = \"c\"\n", 11);
    put("other", "secret\n", 7);
    begin();
    nodes[1].failed = true;
    is_int(leave(), 0, "records are left: %s", e.text);
    is_str(sent(), "023", "the first three nodes in reach get the record");
    struct fake_run *r = fake_run(0);
    is_str(r->line,
           "umask 077 && mkdir -p /r && cat >/r/record.new && mv -f /r/record.new /r/record",
           "the record is whole at its place, and its owner's alone");
    is_str(opened(RECORD_CLUSTER, r->got.data, r->got.len),
           "cluster = \"c\"\n"
           "\n[[file]]\npath = \"owner\"\ntext = \"me\\n\"\n"
           "\n[[file]]\npath = \"known_hosts\"\ntext = \"hosts\\n\"\n"
           "\n[[file]]\npath = \"terraform/lease\"\ntext = \"lease\\n\"\n"
           "\n[[file]]\npath = \"cluster.toml\"\ntext = \"name = \\\"c\\\"\\n\"\n",
           "the record has the files that are there, and the inventory last");
    is_str(said(), "", "records that are left are not mentioned");
    end();
}

static void test_warnings(void) {
    begin();
    fails = 2;
    is_int(leave(), 0, "a node that fails is no failure");
    has_str(said(), "cannot put the record for `dtctl adopt` on a node node=n2 reason=\"no disk\"",
            "the user reads which node has no record");
    ok(!nodes[2].failed, "the node has not failed");
    end();
    begin();
    fake_refuses = 1;
    is_int(leave(), 0, "a command that cannot start is no failure");
    has_str(said(), "node=n0 reason=\"node n1: no more commands\"",
            "the user reads why there is no record");
    ok(!nodes[0].failed && !nodes[1].failed, "the nodes are well");
    end();
    if (truncate(file_join(&arena, context.cluster.dir, "owner"), RECORD_LINE_BYTES_MAX + 1) < 0)
        bail_out("no large file");
    begin();
    is_int(leave(), 0, "a file that is too long for a record is no failure");
    has_str(said(), "node=* reason=\"", "the user reads that no node has a record");
    is_str(sent(), "", "no node is sent a part of a record");
    end();
    put("owner", "me\n", 3);
    put("id_ed25519", "no key\n", 7);
    begin();
    is_int(leave(), 0, "a key that cannot be read is no failure");
    has_str(said(), "node=* reason=\"'", "the user reads which key it is");
    end();
    put("id_ed25519", key_text, sizeof key_text - 1);
}

static void test_length(void) {
    static const unsigned char key[AES_GCM_KEY_BYTES];
    const char *line;
    // Of four bytes of base64, three are sealed text.
    size_t most = (size_t)RECORD_LINE_BYTES_MAX / 4 * 3;
    err_clear(&e);
    is_int(cluster_backup_close(&arena, key, RECORD_RUN, NULL, most, &line, &e), -1,
           "a record that is too long is refused");
    is_int(e.code, ERR_LIMIT, "the length is at fault");
    has_str(e.text, "bytes long; a record has at most 25165824", "the error has the limit");
}

// ---- a run's record -----------------------------------------------------------------------------

static void test_run(void) {
    static const char *names[] = {"n0"}, *words[] = {"train", NULL};
    struct run r = {.id = "r-1",
                    .name = "task",
                    .cluster = "c",
                    .provider = "local",
                    .state = "started",
                    .nproc = "1",
                    .nodes = names,
                    .node_count = 1,
                    .command = words,
                    .command_count = 1,
                    .s3 = "",
                    .output_dir = "/x"};
    struct strbuf text = {0};
    struct manifest *m = manifest_new();
    err_clear(&e);
    is_int(cluster_backup_add_run(&context, &r, m, &e), 0, "a run leaves a record: %s", e.text);
    is_int((int)m->count, 1, "the record is one file");
    is_str(m->entries[0].path, "runs/r-1/record", "the record is in the run's folder");
    is_int((int)m->entries[0].mode, 0600, "the record is its owner's alone");
    run_format(&r, &text);
    is_str(opened(RECORD_RUN, m->entries[0].bytes, (size_t)m->entries[0].size), strbuf_cstr(&text),
           "the record is that of the run");
    put("id_ed25519", "no key\n", 7);
    is_int(cluster_backup_add_run(&context, &r, m, &e), -1, "a run needs a key that can be read");
    ok(str_starts(e.text, "the record of run 'r-1': "), "the error names the run: %s", e.text);
    strbuf_fini(&text);
    manifest_free(m);
}

int main(void) {
    said_open(&notes);
    context.loop = loop_open(&e);
    if (!context.loop || !mkdtemp(folder) ||
        cluster_open(&context.cluster, &arena, folder, "c", &e) < 0)
        bail_out("cannot start: %s", e.text);
    test_without_key();
    test_leave();
    test_warnings();
    test_length();
    test_run();
    cluster_close(&context.cluster);
    said_close(&notes);
    loop_close(context.loop);
    is_int(file_remove_tree(folder, &e), 0, "the folder is removed");
    arena_fini(&arena);
    return done_testing();
}
