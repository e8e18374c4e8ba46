// SPDX-License-Identifier: Apache-2.0
// The tree and the variables of compat.sagemaker: each way to show the tree, what a round changes,
// and what a program leaves.
#include "worker/sagemaker.h"

#include "base/json.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static struct arena a;
static struct err e;
static char dir[] = "/tmp/dtctl-sagemaker.XXXXXX";
static struct job_pair texts[] = {{"hyperparameters", "{\"lr\":\"3e-5\",\"kind\":\"adam\"}"},
                                  {"hps", "{\"lr\":3e-05,\"kind\":\"adam\"}"},
                                  {"user_args", "[\"--kind\",\"adam\"]"},
                                  {"entry_point", "train.py"}};
static struct job_input inputs[2];
static const char *const addresses[] = {"10.0.0.1", "fd00::2"};
static const struct worker_facts facts = {
    .nproc = 2, .group_rank = 1, .group_world = 2, .rank = 2, .world_size = 4, .ifname = "eth7"};

static const char *made(const char *name, bool folder) {
    const char *path = file_join(&a, dir, name);
    if (file_make_dirs(folder ? path : file_dir(&a, path), 0777, &e) < 0 ||
        (!folder && file_write_atomic(path, "x", 1, 0666, &e) < 0))
        bail_out("%s", e.text);
    chmod(path, 0777);
    return path;
}

static struct sagemaker run_of(const char *name) {
    struct sagemaker s = {.run = name, .texts = texts, .text_count = 4, .gpus = 3};
    s.root = arena_printf(&a, "%s/%s/opt-ml", dir, name);
    s.output = made(arena_printf(&a, "%s/output", name), true);
    s.model = made(arena_printf(&a, "%s/model", name), true);
    s.state = made(arena_printf(&a, "%s/state", name), true);
    s.work = made(arena_printf(&a, "%s/work", name), true);
    made(arena_printf(&a, "%s/model/weights", name), false);
    chmod(file_dir(&a, s.root), 0777);
    inputs[0] = (struct job_input){
        .name = "train-set", .path = made("data/train", true), .mode = "sharded"};
    inputs[1] = (struct job_input){.name = "one", .path = made("data/file", false)};
    made("data/train/deep/x", false);
    s.inputs = inputs;
    s.input_count = 2;
    return s;
}

static const char *value_of(const struct job_pair *pairs, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(pairs[i].name, name) == 0)
            return pairs[i].value;
    return NULL;
}

static const char *content(const struct sagemaker *s, const char *name) {
    char *text;
    size_t len;
    if (file_read(&a, file_join(&a, s->root, name), 1 << 20, &text, &len, &e) < 0)
        bail_out("%s", e.text);
    return text;
}

static void test_variables(void) {
    struct sagemaker s = run_of("r1");
    struct worker_facts f = facts;
    struct job_pair *v;
    is_int(sagemaker_open(&s, SAGEMAKER_VARIABLES, &e), 0, "a tree that only variables name%s",
           e.text);
    f.addresses = addresses;
    int n = sagemaker_variables(&s, &a, &f, 1, &v);
    is_str(value_of(v, n, "SM_HOSTS"), "[\"algo-1\",\"algo-2\"]", "the nodes have names by rank");
    is_str(value_of(v, n, "SM_CURRENT_HOST"), "algo-2", "this node has a name");
    is_str(value_of(v, n, "SM_NETWORK_INTERFACE_NAME"), "eth7", "the interface is known");
    is_str(value_of(v, n, "SM_NUM_GPUS"), "3", "GPUs are counted");
    is_str(value_of(v, n, "SM_CHANNELS"), "[\"one\",\"train-set\"]", "channels are sorted");
    is_str(value_of(v, n, "SM_MODULE_NAME"), "train", "a module is a script without its ending");
    is_str(value_of(v, n, "SM_HP_LR"), "3e-05", "a hyperparameter is a number");
    is_str(value_of(v, n, "SM_HP_KIND"), "adam", "a hyperparameter is a text");
    is_str(value_of(v, n, "SM_CHANNEL_TRAIN-SET"), value_of(v, n, "SSM_CHANNEL_TRAIN_SET"),
           "a channel has both spellings");
    is_str(value_of(v, n, "SM_MODEL_DIR"), file_join(&a, s.root, "model"),
           "variables name the tree");
    is_str(value_of(v, n, "SAGEMAKER_BASE_DIR"), s.root, "the toolkit finds the tree");
    is_str(value_of(v, n, "TF_CONFIG"),
           "{\"cluster\":{\"worker\":[\"10.0.0.1:8890\",\"10.0.0.1:8891\",\"[fd00::2]:8892\","
           "\"[fd00::2]:8893\"]},\"task\":{\"type\":\"worker\",\"index\":3},"
           "\"environment\":\"cloud\"}",
           "TensorFlow knows every rank");
    f.addresses = NULL;
    n = sagemaker_variables(&s, &a, &f, 1, &v);
    is_str(value_of(v, n, "TF_CONFIG"), NULL, "without addresses there is no TF_CONFIG");
    f.addresses = addresses;
    f.world_size = 3;
    n = sagemaker_variables(&s, &a, &f, 0, &v);
    is_str(value_of(v, n, "TF_CONFIG"), NULL, "with uneven nodes there is no TF_CONFIG");
    is_int(access(file_join(&a, s.root, "model/weights"), R_OK), 0, "links lead to the folders");
    is_int(access(file_join(&a, s.root, "input/data/one/file"), R_OK), 0,
           "a channel of one file is a folder");
    sagemaker_close(&s);
}

// A variable above the kernel's limit would keep every worker from starting.
static void test_large(void) {
    struct sagemaker s = run_of("r2");
    struct worker_facts f = facts;
    struct job_pair *v;
    size_t longest = 0;
    is_int(sagemaker_open(&s, SAGEMAKER_VARIABLES, &e), 0, "a tree of a large run%s", e.text);
    f.group_world = 5000;
    f.world_size = 10000;
    int n = sagemaker_variables(&s, &a, &f, 0, &v);
    for (int i = 0; i < n; i++)
        longest = strlen(v[i].value) > longest ? strlen(v[i].value) : longest;
    ok(longest > 50000 && longest < SAGEMAKER_VARIABLE_BYTES_MAX, "no variable is too long");
    is_str(value_of(v, n, "SM_TRAINING_ENV"), NULL, "a variable that would be is left out");
    sagemaker_close(&s);
}

static void test_round(void) {
    static const char *const names[] = {
        "hyperparameters",   "inputdataconfig",          "init-config",   "metric-definition-regex",
        "trainingjobconfig", "upstreamoutputdataconfig", "resourceconfig"};
    struct sagemaker s = run_of("r3");
    struct worker_facts f = facts;
    struct json *root;
    is_int(sagemaker_open(&s, SAGEMAKER_VARIABLES, &e), 0, "a tree%s", e.text);
    f.addresses = addresses;
    is_int(sagemaker_round(&s, &f, &e), 0, "a round%s", e.text);
    for (size_t i = 0; i < 7; i++) {
        const char *text = content(&s, arena_printf(&a, "input/config/%s.json", names[i]));
        is_int(json_parse(&a, text, strlen(text), &root, &e), 0, "%s.json is JSON", names[i]);
    }
    is_str(json_get_str(root, "current_host", ""), "algo-2", "the round's name is in its file");
    is_str(content(&s, "input/data/train-set-manifest"),
           arena_printf(&a, "[{\"prefix\":\"%s/input/data/train-set/\"},\"deep/x\"]", s.root),
           "a manifest lists this node's files");
    ok(strncmp(content(&s, "../opt-ml.hosts"), "10.0.0.1 algo-1\nfd00::2 algo-2\n", 31) == 0,
       "the names have addresses");
    ok(file_exists(file_join(&a, s.state, "algo-2")), "the node has a state folder of its own");
    is_str(sagemaker_failure(&s, &a), "", "there is no failure");
    char big[3000];
    memset(big, 'f', sizeof big);
    (void)file_write_atomic(file_join(&a, s.root, "output/failure"), big, sizeof big, 0644, &e);
    is_int(strlen(sagemaker_failure(&s, &a)), 1024, "of a failure 1,024 bytes count");
    is_int(sagemaker_round(&s, &f, &e), 0, "the next round%s", e.text);
    is_str(sagemaker_failure(&s, &a), "", "the failure of an earlier round is gone");
    is_int(mkfifo(file_join(&a, s.root, "output/failure"), 0600), 0, "a pipe");
    is_str(sagemaker_failure(&s, &a), "", "a pipe instead of the file is not waited for");
    sagemaker_close(&s);
    texts[1].value = "[1]";
    is_int(sagemaker_open(&s, SAGEMAKER_VARIABLES, &e), -1, "hyperparameters that are a list fail");
    has_str(e.text, "sagemaker.hps", "the error names them");
    sagemaker_close(&s);
    err_clear(&e);
    texts[1].value = "{\"lr\":3e-05,\"kind\":\"adam\"}";
}

// Returns the status of a process that runs check on s.
static int in_process(int (*check)(struct sagemaker *s), struct sagemaker *s) {
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(check(s));
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int sees_tree(struct sagemaker *s) {
    struct stat st;
    struct err own = {0};
    if (sagemaker_enter(s, &own) < 0)
        return printf("# %s\n", own.text), 1;
    bool fine = access("/opt/ml/model/weights", R_OK) == 0 &&
                access("/opt/ml/input/data/train-set/deep/x", R_OK) == 0 &&
                access("/opt/ml/input/data/one/file", R_OK) == 0 &&
                lstat("/opt/ml/model", &st) == 0 && S_ISDIR(st.st_mode);
    FILE *f = fopen("/opt/ml/output/data/written", "w");
    return fine && f && fclose(f) == 0 ? 0 : 2;
}

// As an agent does: no rights, and a process that no debugger may read.
static int sees_tree_as_user(struct sagemaker *s) {
    if (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
        return 3;
    prctl(PR_SET_DUMPABLE, 0);
    return sees_tree(s);
}

static void test_mounted(void) {
    struct sagemaker s = run_of("r4");
    struct stat before = {0}, after = {0};
    bool was = stat("/opt/ml", &before) == 0;
    is_int(sagemaker_open(&s, SAGEMAKER_MOUNTED, &e), 0, "a tree%s", e.text);
    if (s.way != SAGEMAKER_MOUNTED) {
        ok(s.why[0], "no mount here, and it says why: %s", s.why);
        sagemaker_close(&s);
        return;
    }
    is_int(sagemaker_round(&s, &facts, &e), 0, "a round%s", e.text);
    is_int(in_process(sees_tree, &s), 0, "a process sees the tree at /opt/ml");
    ok(file_exists(file_join(&a, s.output, "written")), "what it writes is in the run's folder");
    unlink(file_join(&a, s.output, "written"));
    is_int(stat("/opt/ml", &after) == 0, was, "others see /opt/ml as before");
    sagemaker_close(&s);
}

static void test_user(void) {
    struct sagemaker s = run_of("r5");
    if (getuid() != 0 || chmod(dir, 0755) < 0) {
        skip(1, "only root can become another user");
        return;
    }
    is_int(sagemaker_open(&s, SAGEMAKER_MOUNTED, &e), 0, "a tree%s", e.text);
    int status = s.way == SAGEMAKER_MOUNTED ? in_process(sees_tree_as_user, &s) : 1;
    if (status == 1)
        skip(1, "no user namespaces here");
    else
        is_int(status, 0, "a process without rights sees the tree");
    sagemaker_close(&s);
}

// In a mount namespace with an empty /opt, which no other test sees.
static int links(struct sagemaker *s) {
    struct sagemaker other = run_of("r7"), third = run_of("r8");
    struct err own = {0};
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/opt", "tmpfs", 0, NULL) < 0)
        return 77;
    if (sagemaker_open(s, SAGEMAKER_LINKED, &own) < 0 || s->way != SAGEMAKER_LINKED)
        return 1;
    if (access("/opt/ml/model/weights", R_OK) < 0)
        return 2;
    if (sagemaker_open(&other, SAGEMAKER_LINKED, &own) < 0 || other.way != SAGEMAKER_VARIABLES)
        return 3;
    sagemaker_close(&other);
    if (access("/opt/ml/model/weights", R_OK) < 0)
        return 4;      // the end of the other run has taken it away
    close(s->lock_fd); // as if the agent was killed
    s->lock_fd = -1;
    if (sagemaker_open(&third, SAGEMAKER_LINKED, &own) < 0 || third.way != SAGEMAKER_LINKED)
        return 5;
    sagemaker_close(s);
    if (access("/opt/ml/model/weights", R_OK) < 0)
        return 6;
    sagemaker_close(&third);
    if (access("/opt/ml", F_OK) == 0)
        return 7;
    return file_make_dirs("/opt/ml/own", 0755, &own) == 0 &&
                   sagemaker_open(&third, SAGEMAKER_LINKED, &own) == 0 &&
                   third.way == SAGEMAKER_VARIABLES && third.why[0]
               ? 0
               : 8;
}

static void test_linked(void) {
    struct sagemaker s = run_of("r6");
    int status = in_process(links, &s);
    if (status == 77)
        skip(1, "no mount namespaces here");
    else
        is_int(status, 0, "one run at a time has the link, and takes that of a killed one");
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    test_variables();
    test_large();
    test_round();
    test_linked();
    test_user();
    test_mounted();
    (void)file_remove_tree(dir, &e);
    arena_fini(&a);
    return done_testing();
}
