// SPDX-License-Identifier: Apache-2.0
// A cluster is adopted from the records on its nodes: which files and runs are here afterwards, and
// which records are refused. The test is the nodes.
#include "tests/unit/aws/adopt_fake.h"

// A sealed line with another letter in its middle.
static const char *changed(const char *line) {
    char *text = arena_strdup(&a, line), *at = text + strlen(text) / 2;
    *at = *at == 'A' ? 'B' : 'A';
    return text;
}

static int mode_of(const char *path) {
    struct stat st;
    return stat(path, &st) < 0 ? -1 : (int)(st.st_mode & 07777);
}

// ---- what is adopted ----------------------------------------------------------------------------

static void test_adopted(void) {
    start();
    is_int(adopt("ubuntu@198.51.100.0:2222"), 0, "the cluster is adopted: %s", error.text);
    is_str(strbuf_cstr(&opened),
           "198.51.100.0 ubuntu@198.51.100.0:2222 by any key known_hosts.first key\n"
           "node0 ubuntu@198.51.100.0:0 by its key known_hosts id_ed25519\n"
           "node1 ubuntu@198.51.100.1:0 by its key known_hosts id_ed25519\n",
           "the first contact alone is without a host key");
    for (int i = 0; i < 3; i++)
        is_str(fake_run(i)->line, COMMAND, "each node is asked for its records (%d)", i);
    is_uint(adopted.inventory.count, 2, "the caller learns of both nodes");
    is_str(adopted.inventory.nodes[1].host, "198.51.100.1", "the nodes have their addresses");
    is_uint(adopted.runs, 0, "there are no runs");
    for (size_t i = 0; FILES[i].path; i++) {
        is_str(text_of(in_cluster(FILES[i].path)), FILES[i].text, "%s is here", FILES[i].path);
        is_int(mode_of(in_cluster(FILES[i].path)), 0600, "%s is the user's alone", FILES[i].path);
    }
    is_str(text_of(context.cluster.key_path), text_of(key_path), "the login key is copied");
    is_int(mode_of(context.cluster.key_path), 0600, "the login key is the user's alone");
    is_int(mode_of(in_cluster("terraform/infra")), 0700, "folders are the user's alone");
    ok(cluster_exists(&context.cluster), "the cluster is known from here");
    ok(context.cluster.lock_fd >= 0, "the folder stays locked for the caller");
    is_str(said(), "", "the user reads no warning");
}

static void test_first_keys(void) {
    start();
    if (file_make_dirs(context.cluster.dir, 0700, &error) < 0 ||
        file_write_atomic(in_cluster("known_hosts.first"), "x", 1, 0600, &error) < 0)
        bail_out("%s", error.text);
    is_int(adopt("198.51.100.0"), 0, "a login may be an address: %s", error.text);
    ok(str_starts(strbuf_cstr(&opened), "198.51.100.0 -@198.51.100.0:0 "),
       "the user is then that of the configuration: %s", strbuf_cstr(&opened));
    ok(!text_of(in_cluster("known_hosts.first")), "keys of the first contact are not kept");
}

// Records come from nodes, where anyone may write them.
static void test_files(void) {
    start();
    answers[0] = cluster_of("c",
                            (const struct file[FILES_MAX]){{"../evil", "x"},
                                                           {"runs/r/run.toml", "x"},
                                                           {"up.toml", "first"},
                                                           {"cluster.toml", INVENTORY}},
                            "[[file]]\npath = \"up.toml\"\ntext = \"second\"\n"
                            "[[file]]\npath = \"owner\"\n[[file]]\ntext = \"x\"\n"
                            "[[file]]\npath = \"digest.key\"\ntext = 7\n");
    is_int(adopt("198.51.100.0"), 0, "a record may have other files: %s", error.text);
    ok(file_is_absent(in_cluster("../evil")), "no file outside of the folder is written");
    ok(file_is_absent(in_cluster("runs/r")), "no file is written that up does not leave");
    is_str(text_of(in_cluster("up.toml")), "first", "the first file of a name counts");
    ok(file_is_absent(in_cluster("owner")), "a file without a text is left out");
    ok(file_is_absent(in_cluster("digest.key")), "a file whose text is a number is left out");
}

// A node has lines of others before, between and behind its records.
static void test_lines(void) {
    static const char *const before[] = {"", "\n", "motd\n", "dtctl-record-1 cluste x\n"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        start();
        const char *record = usual();
        size_t len = strlen(record) - (i % 2); // with its newline, or without
        answers[0] = arena_printf(&a, "%s%s%.*s", before[i], i == 3 ? run_of("task-1") : "",
                                  (int)len, record);
        is_int(adopt("198.51.100.0"), 0, "answer %zu has a record: %s", i, error.text);
        is_uint(adopted.runs, i == 3, "answer %zu has its runs", i);
    }
}

// ---- its runs -----------------------------------------------------------------------------------

static void test_runs(void) {
    start();
    const char *first = run_of("task-1"), *second = run_of("task-2");
    answers[0] = arena_printf(&a, "%s%s%s%s", first, usual(), second, first);
    answers[1] = arena_printf(&a, "%s%s", second, run_of("task-3"));
    is_int(adopt("198.51.100.1"), -1, "a node without the cluster's record does not do");
    is_int(adopt("198.51.100.0"), 0, "the cluster is adopted with its runs: %s", error.text);
    is_uint(adopted.runs, 3, "a run of two nodes counts once");
    for (int i = 1; i <= 3; i++) {
        struct run r = run_here(arena_printf(&a, "task-%d", i));
        is_str(r.state, "started", "run %d may still be running", i);
        ok(!r.fetched, "the results of run %d are not here", i);
        is_str(r.output_dir, in_cluster(arena_printf(&a, "runs/task-%d/output", i)),
               "the results of run %d will come to this folder", i);
    }
    is_str(said(), "", "the user reads no warning");
}

static void test_bad_runs(void) {
    static const char name[] = "../../evil";
    start();
    const char *good = run_of("task-1"), *other = changed(run_of("task-2"));
    answers[1] = arena_printf(&a, "%s%s%s%s%s", run_of(name), sealed(RECORD_RUN, "id = 7\n"), other,
                              good, "dtctl-record-1 run AAAA\n");
    is_int(adopt("198.51.100.0"), 0, "runs that cannot be used do no harm: %s", error.text);
    is_uint(adopted.runs, 1, "the good one is here");
    ok(run_here("task-1").id != NULL, "the good one has its record");
    ok(file_is_absent(file_join(&a, folder, ".dtctl/evil")), "no folder is made elsewhere");
#define WARNING "test: warning: cannot use the record of a run node=node1 reason=\""
    const char *at = said();
    static const char *const why[] = {WARNING "'../../evil' is no name of a run\"\n",
                                      WARNING "'record': ", WARNING, WARNING};
    for (size_t i = 0; i < sizeof why / sizeof *why; i++) {
        ok(str_starts(at, why[i]), "the user reads of bad run %zu: %.200s", i, at);
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : "";
    }
    is_str(at, "", "there is no further warning");
}

// ---- what fails ---------------------------------------------------------------------------------

static void refused(const char *login, enum err_code code, const char *words, const char *what) {
    is_int(adopt(login), -1, "%s", what);
    is_int(error.code, code, "%s: the error has its code", what);
    is_str(error.text, words, "%s: the error has its words", what);
    ok(!cluster_exists(&context.cluster), "%s: no cluster is here", what);
}

static void test_refused(void) {
    start();
    refused("198.51.100.[0-1]", ERR_USAGE, "'198.51.100.[0-1]' are 2 nodes; one is enough",
            "two nodes");
    is_str(strbuf_cstr(&opened), "", "no node is contacted then");
    start();
    is_int(adopt("a@"), -1, "a login without a host");
    start();
    answers[0] = NULL;
    refused("198.51.100.0", ERR_NET, "node 198.51.100.0: no route to host", "a node that is down");
    start();
    answers[0] = CUT;
    refused("198.51.100.0", ERR_NET, "the line is cut", "a node that is cut off");
    ok(!text_of(in_cluster("known_hosts.first")), "the key of the node is not kept either");
    start();
    answers[0] = run_of("task-1");
    refused("198.51.100.0", ERR_NOT_FOUND,
            "node 198.51.100.0 has no record of a cluster; dtctl up leaves one on the first 3 "
            "nodes that it makes on AWS",
            "a node without a record");
    start();
    answers[0] = cluster_of("other", FILES, "");
    refused("198.51.100.0", ERR_CONFIG,
            "the record on node 198.51.100.0: it is of cluster 'other', not 'c'; say -c other",
            "a cluster of another name");
    ok(file_is_absent(context.cluster.key_path), "no key is copied then");
    start();
    answers[0] = sealed(RECORD_CLUSTER, "name = 'c'\n");
    is_int(adopt("198.51.100.0"), -1, "a record without a name");
    answers[0] = sealed(RECORD_CLUSTER, "= 'c'\n");
    is_int(adopt("198.51.100.0"), -1, "a record that is no TOML");
    answers[0] = changed(usual());
    is_int(adopt("198.51.100.0"), -1, "a record of another key");
    is_int(error.code, ERR_AUTH, "the record cannot be opened");
    ok(str_starts(error.text,
                  arena_printf(&a, "the record on node 198.51.100.0 cannot be opened with '%s': ",
                               key_path)),
       "the error names the key: %s", error.text);
    start();
    answers[0] = "";
    more_bytes = ADOPT_BYTES_MAX + 1;
    refused("198.51.100.0", ERR_LIMIT, "its records are longer than 67108864 bytes",
            "a node without an end");
}

// Nothing of a cluster that is here is changed.
static void test_known(void) {
    static const char *const files[] = {"cluster.toml", "terraform/infra/terraform.tfvars.json"};
    for (size_t i = 0; i < 2; i++) {
        start();
        const char *path = in_cluster(files[i]);
        if (file_make_dirs(file_dir(&a, path), 0700, &error) < 0 ||
            file_write_atomic(path, "mine", 4, 0600, &error) < 0)
            bail_out("%s", error.text);
        is_int(adopt("198.51.100.0"), -1, "a cluster with %s is not adopted", files[i]);
        is_int(error.code, ERR_EXISTS, "the error has its code");
        is_str(error.text,
               arena_printf(&a,
                            "cluster 'c' is known in this folder already ('%s'); nothing was "
                            "changed",
                            context.cluster.dir),
               "the error names the folder");
        is_str(text_of(path), "mine", "%s stays", files[i]);
        is_str(strbuf_cstr(&opened), "", "no node is contacted");
    }
}

static void test_no_key(void) {
    const char *good = key_path;
    start();
    key_path = file_join(&a, folder, "absent");
    is_int(adopt("198.51.100.0"), -1, "the key is absent");
    is_str(strbuf_cstr(&opened), "", "no node is contacted then");
    key_path = good;
}

static void test_some_fail(void) {
    const char *const says[] = {NULL, arena_printf(&a, "%s" CUT, run_of("task-2"))};
    for (size_t i = 0; i < 2; i++) {
        start();
        answers[0] = arena_printf(&a, "%s%s", usual(), run_of("task-1"));
        answers[1] = says[i];
        is_int(adopt("198.51.100.0"), -1, "a node does not answer (%zu)", i);
        is_int(error.code, ERR_SOME_FAILED, "the error has its code (%zu)", i);
        is_str(error.text, "adopt: 1 of 2 nodes failed: node1", "the error names the node (%zu)",
               i);
        is_str(said(),
               i ? "test: error: node 'node1': the line is cut\n"
                 : "test: error: node node1: no route to host\n",
               "the user reads why (%zu)", i);
        ok(cluster_exists(&context.cluster), "the cluster is adopted all the same (%zu)", i);
        is_uint(adopted.runs, 1, "the run of the other node is here (%zu)", i);
    }
    start();
    answers[0] = cluster_of("c", (const struct file[FILES_MAX]){{"cluster.toml", "x"}}, "");
    is_int(adopt("198.51.100.0"), -1, "the inventory in the record is broken");
    ok(!cluster_exists(&context.cluster), "a broken cluster is not adopted");
}

// After Ctrl-C the cluster can be adopted with its runs.
static void test_stopped(void) {
    for (int i = 1; i <= 2; i++) {
        start();
        answers[1] = run_of("task-1");
        stops_at = i;
        is_int(adopt("198.51.100.0"), -1, "the user stops contact %d", i);
        is_int(error.code, ERR_INTERRUPTED, "the error has the code of a stop");
        ok(!cluster_exists(&context.cluster), "the cluster is not here then");
        ok(!terraform_was_used(&context) && file_is_absent(in_cluster("id_ed25519.pub")),
           "no file of the cluster is here");
        is_uint(adopted.inventory.count, 0, "there is nothing to report");
        is_str(said(), "", "no node is at fault");
        context.interrupt = 0;
        is_int(adopt("198.51.100.0"), 0, "the cluster is adopted later: %s", error.text);
        is_uint(adopted.runs, 1, "the run is here, too");
    }
}
int main(void) {
    begin();
    test_adopted();
    test_first_keys();
    test_files();
    test_lines();
    test_runs();
    test_bad_runs();
    test_refused();
    test_known();
    test_no_key();
    test_some_fail();
    test_stopped();
    end();
    return done_testing();
}
