// SPDX-License-Identifier: Apache-2.0
// dtctl doctor on nodes that the test is: what is fine, what is not, its remedy, and the exit
// status.
#include "tests/unit/cmd/nodes_fake.h"

static const char *status_of[NODES];
static const char *reaches[NODES]; // answers to `probe --connect`

static const char *answer(size_t node, const char *verb, const char *words) {
    if (str_eq(verb, "status"))
        return status_of[node];
    if (str_eq(verb, "probe") && str_starts(words, "--listen"))
        return "{\"port\":7000}\n";
    return str_eq(verb, "probe") ? reaches[node] : "{}\n";
}

static void begin(void) {
    for (size_t i = 0; i < NODES; i++) {
        status_of[i] = reaches[i] = "";
        nodes_down[i] = nodes_silent[i] = false;
    }
    unlink(".dtctl/c/reached"); // else the network counts as checked
    nodes_gpus = 0;
    nodes_disk_bytes = 1 << 30;
    nodes_ahead_ms = 0;
}

// The finding of that name, with its remedy; "": none.
static const char *finding(const char *name) {
    const char *at = strstr(dtctl_out(), arena_printf(&nodes_arena, " %-22s ", name));
    if (!at)
        return "";
    while (at > dtctl_out() && at[-1] != '\n')
        at--;
    size_t len = strcspn(at, "\n");
    const char *next = at + len + (at[len] != '\0');
    if (strspn(next, " ") > 10)
        len += 1 + strcspn(next, "\n");
    return arena_strndup(&nodes_arena, at, len);
}

static void test_fine(void) {
    begin();
    status_of[1] =
        "{\"run\":\"a-1\",\"state\":\"running\"}\n{\"run\":\"a-2\",\"state\":\"finished\"}\n";
    is_int(dtctl("doctor", NULL), 1, "a dtctl without its trainer is bad");
    is_str(finding("programs inside"),
           "bad   programs inside        agent, no trainer\n"
           "                             -> build dtctl with make, all of it",
           "a bad finding has its remedy");
    has_str(finding("configuration"), "ok    configuration          ", "the configuration is fine");
    has_str(finding("configuration"), "dtctl.toml, provider local",
            "the file and provider are named");
    is_str(finding("lock"), "ok    lock                   free", "the lock is free");
    is_str(finding("runs"), "ok    runs                   0 here, 0 with results still on nodes",
           "no run waits");
    is_str(finding("n0"), "ok    n0                     h, x86_64, 4 cpus, 0 gpus, 0 runs going",
           "a node is fine");
    is_str(finding("n1"), "ok    n1                     h, x86_64, 4 cpus, 0 gpus, 1 run going",
           "active runs of a node are counted");
    is_str(finding("network"), "ok    network                every node reaches every other one",
           "the network is fine");
    is_str(finding("ssh login"), "", "local nodes need no login");
    ok(str_ends(dtctl_out(), " to look at, 1 bad\n"), "the findings are counted");
}

static void test_nodes(void) {
    begin();
    nodes_disk_bytes = (1 << 30) - 1;
    nodes_ahead_ms = 3000;
    status_of[2] = "{\"run\":\"a-1\",\"state\":\"lost\"}\n{\"run\":\"a-2\",\"state\":\"lost\"}\n";
    dtctl("doctor", NULL);
    has_str(dtctl_out(),
            "warn  n0                     only 1.1 GB free in /r\n"
            "                             -> dtctl gc, or make room there\n",
            "a full disk of a node has its remedy");
    has_str(dtctl_out(), "warn  n1                     its clock is 3", "a wrong clock is found");
    has_str(dtctl_out(), " ahead\n                             -> set its clock (chrony or ",
            "a wrong clock has its remedy");
    has_str(dtctl_out(), "warn  n2                     2 runs whose agent vanished\n",
            "lost runs are counted");
    nodes_ahead_ms = -3000;
    dtctl("doctor", NULL);
    has_str(dtctl_out(), " behind\n", "a clock may be behind");
    begin();
    nodes_ahead_ms = 1500;
    dtctl("doctor", NULL);
    ok(!strstr(dtctl_out(), "its clock"), "a clock may be a little wrong");
    ok(!strstr(dtctl_out(), "only "), "a node needs one GiB of disk");
    begin();
    nodes_down[1] = true;
    is_int(dtctl("doctor", NULL), 1, "a node that does not answer is bad");
    has_str(finding("n1"), "bad   n1                     no route\n",
            "the reason of a node is shown");
    has_str(finding("n1"), "dtctl down --forget drops it", "the remedy of a node is shown");
    is_str(finding("network"), "ok    network                every node reaches every other one",
           "the other nodes reach each other");
    nodes_down[2] = true;
    dtctl("doctor", NULL);
    is_str(finding("network"), "", "one node has no network to check");
    begin();
    reaches[1] = "{\"peer\":\"n0\",\"ok\":true}\n{\"peer\":\"n2\",\"why\":\"refused\"}\n";
    dtctl("doctor", NULL);
    has_str(dtctl_out(),
            "bad   n1                     it does not reach 1 of its peers: n2 (refused); open all "
            "TCP ports between the nodes\n"
            "                             -> open TCP between the nodes\n",
            "a node that does not reach another one has its remedy");
    is_str(finding("network"), "", "a broken network is not fine");
}

static void test_here(void) {
    struct run r = nodes_run("a-1", "finished", true);
    struct cluster c = {0};
    int fd = -1;
    begin();
    nodes_keep_run(&r);
    r = nodes_run("a-2", "finished", false);
    nodes_keep_run(&r);
    r = nodes_run("a-3", "finished", true);
    r.left = RESULT_LOGS;
    nodes_keep_run(&r);
    if (cluster_open(&c, &nodes_arena, nodes_folder, "c", &dtctl_err) < 0 ||
        file_lock(c.lock_path, "a test", 0, &fd, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    dtctl("doctor", NULL);
    is_str(finding("runs"),
           "warn  runs                   3 here, 2 with results still on nodes\n"
           "                             -> dtctl ps lists them; dtctl fetch RUN brings them",
           "runs whose results are on nodes are counted");
    has_str(finding("lock"), "warn  lock ", "a lock that is held is found");
    has_str(finding("lock"), "-> wait for it, or end that process",
            "the remedy of a lock is shown");
    close(fd);
    cluster_close(&c);
    const char *broken = file_join(&nodes_arena, nodes_folder, ".dtctl/c/runs/a-4");
    if (file_make_dirs(broken, 0700, &dtctl_err) < 0 ||
        file_write_atomic(file_join(&nodes_arena, broken, "run.toml"), "x", 1, 0600, &dtctl_err) <
            0)
        bail_out("%s", dtctl_err.text);
    dtctl("doctor", NULL);
    has_str(dtctl_out(), "-> move its folder away\n",
            "a record that cannot be read has its remedy");
    dtctl("doctor", "--json", NULL);
    has_str(dtctl_out(),
            "\"verdict\":\"ok\",\"what\":\"network\",\"fact\":", "findings are events");
}

// Writes dtctl.toml with a host, and this key; NULL: none.
static void set_hosts(const char *key) {
    const char *text =
        arena_printf(&nodes_arena,
                     "[cluster]\nname = \"c\"\nprovider = \"hosts\"\n[hosts]\nlist = [\"h\"]\n"
                     "[ssh]\nidentity_files = [%s%s%s]\n",
                     key ? "\"" : "", key ? key : "", key ? "\"" : "");
    if (file_write_atomic("dtctl.toml", text, strlen(text), 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
}

static void test_logins(void) {
    begin();
    set_hosts(NULL);
    dtctl("doctor", NULL);
    is_str(finding("ssh login"),
           "bad   ssh login              0 key files, no agent\n"
           "                             -> make a key with ssh-keygen and put it on the hosts, or "
           "start an agent",
           "hosts need a key or an agent");
    const char *keys = file_join(&nodes_arena, nodes_folder, ".ssh/id_rsa");
    const char *own = file_join(&nodes_arena, nodes_folder, "own");
    if (file_make_dirs(file_dir(&nodes_arena, keys), 0700, &dtctl_err) < 0 ||
        file_write_atomic(keys, "", 0, 0600, &dtctl_err) < 0 ||
        file_write_atomic(own, "", 0, 0600, &dtctl_err) < 0)
        bail_out("%s", dtctl_err.text);
    dtctl("doctor", NULL);
    is_str(finding("ssh login"), "ok    ssh login              1 key file, no agent",
           "one key is enough");
    set_hosts(own);
    dtctl("doctor", NULL);
    is_str(finding("ssh login"), "ok    ssh login              2 key files, no agent",
           "keys that are named are counted");
    chmod(own, 0640);
    dtctl("doctor", NULL);
    has_str(finding("ssh key"),
            "can be read by others\n                             -> chmod 600 it",
            "a key that others can read is found");
    unlink(own);
    dtctl("doctor", NULL);
    has_str(finding("ssh key"), "bad   ssh key ", "a key that is not there is found");
}

int main(void) {
    nodes_open();
    nodes_answer = answer;
    test_fine();
    test_nodes();
    test_here();
    test_logins();
    nodes_close();
    return done_testing();
}
