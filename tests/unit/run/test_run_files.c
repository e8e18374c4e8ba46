// SPDX-License-Identifier: Apache-2.0
// The files that a run sends: those that its command needs, those that the user names, those of
// [setup], and the trainer's own. The cluster is a file.
#include "run/run_start.h"

#include "fleet/embedded_files.h"
#include "run/run_setup.h"
#include "tests/unit/said.h"

#include "tests/unit/conf/config_fixture.h"

#include <sys/stat.h>
#include <zstd.h>

#define DTRUN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// In place of the table that the build makes.
extern struct embed_file embed_files[2];
struct embed_file embed_files[2] = {{.name = "dttrain"}};
static unsigned char frame[256];

static char root[] = "/tmp/test_run_files.XXXXXX";
static struct screen screen;
static struct context context = {.arena = &a, .config = &c, .screen = &screen};
static struct run_start start;
static struct err e;

static void put(const char *path, const char *text) {
    if (file_make_dirs(file_dir(&a, path), 0755, &e) < 0 ||
        file_write_atomic(path, text, strlen(text), 0644, &e) < 0)
        bail_out("%s", e.text);
}

enum { NODES = 3 };

static void save_cluster(void) {
    struct inventory_node nodes[NODES];
    struct inventory all = {
        .name = "c", .provider = "local", .created = "", .nodes = nodes, .count = NODES};
    for (int i = 0; i < NODES; i++)
        nodes[i] = (struct inventory_node){.name = arena_printf(&a, "n%d", i),
                                           .root = "/r",
                                           .address = "127.0.0.1",
                                           .arch = "",
                                           .dtrun = DTRUN};
    if (cluster_open(&context.cluster, &a, "..", "c", &e) < 0 ||
        cluster_create(&context.cluster, &e) < 0 || cluster_save(&context.cluster, &all, &e) < 0)
        bail_out("%s", e.text);
}

// command NULL: the native trainer.
static int files_of(const char *words, const char *file, const char *const *command) {
    size_t count = 0;
    while (command && command[count])
        count++;
    const char *problem = load("train", words, file, NULL);
    unlink("dtctl.toml"); // it is no file of the run
    if (*problem)
        bail_out("'%s': %s", words, problem);
    const struct run_start_request request = {.command = command, .command_count = count};
    said_clear();
    err_clear(&e);
    if (run_start_plan(&start, &context, &request, &e) < 0)
        bail_out("%s", e.text);
    return run_start_files(&start, &e);
}

// Files of the working folder, in order.
static const char *sent(void) {
    const char *work = run_node_dir(&a, start.run.id, "work/"), *text = "";
    for (size_t i = 0; i < start.common->count; i++) {
        const struct manifest_entry *x = &start.common->entries[i];
        if (x->kind == MANIFEST_FILE && str_starts(x->path, work))
            text = arena_printf(&a, "%s%s%s", text, *text ? " " : "", x->path + strlen(work));
    }
    return text;
}

#define COMMAND(...) ((const char *const[]){__VA_ARGS__, NULL})

static void sends(const char *words, const char *const *command, const char *want, bool implicit) {
    const char *about = arena_printf(&a, "%s %s", words, command[0]);
    is_int(files_of(words, NULL, command), 0, "'%s': files are listed: %s", about, e.text);
    is_str(sent(), want, "'%s' sends its files", about);
    ok(start.work_is_implicit == implicit, "'%s': the current folder is %s", about,
       implicit ? "sent" : "not sent by itself");
    run_start_close(&start);
}

// ---- the current folder -------------------------------------------------------------------------

#define ALL "data/one data/two sub/y.py x.py"

static void test_implicit(void) {
    sends("", COMMAND("python", "x.py"), ALL, true);
    sends("", COMMAND("python", "./x.py"), ALL, true);
    sends("", COMMAND("python", "././sub/y.py"), ALL, true);
    sends("", COMMAND("sh", "-c", "cat none; (cat<x.py)"), ALL, true);
    sends("", COMMAND("sh", "-c", " x.py"), ALL, true);
    sends("", COMMAND("true"), "", false);
    sends("", COMMAND("ls", "data"), "", false);
    sends("", COMMAND("python", "../outside.py"), "", false);
    sends("", COMMAND("cat", "data/../x.py"), "", false);
}

static void warns(const char *const *command, const char *file, const char *want) {
    is_int(files_of("", file, command), 0, "'%s': the run is possible", command[1]);
    if (want)
        has_str(said(), want, "'%s': the user reads a warning", command[1]);
    else
        ok(!strstr(said(), "names a file"), "'%s': the user reads none", command[1]);
    run_start_close(&start);
}

static void test_warnings(void) {
    warns(COMMAND("python", "none.py"), NULL, "that is not in the current folder");
    warns(COMMAND("sh", "none.sh"), NULL, "path=none.sh");
    warns(COMMAND("python", "../outside.py"), NULL,
          "outside of the current folder, which is not sent");
    warns(COMMAND("python", "none.txt"), NULL, NULL);
    warns(COMMAND("python", "/none.py"), NULL, NULL);
    warns(COMMAND("sh", "a b.py"), NULL, NULL);
    warns(COMMAND("python", "none.py"), "[setup]\nrun = \"make\"\n", NULL);
}

static void test_large(void) {
    put("large/file", "");
    if (truncate("large/file", ((off_t)LAUNCH_IMPLICIT_BYTES_MAX_MIB << 20) + 1) < 0)
        bail_out("truncate");
    is_int(files_of("", NULL, COMMAND("python", "x.py")), -1, "a large folder is not sent");
    is_int(e.code, ERR_LIMIT, "a large folder is an error of limits");
    has_str(e.text, "the command names 'x.py'", "the error has the file");
    has_str(e.text, "it has 5 files, 1.1 GB", "the error has the number of files and their size");
    run_start_close(&start);
    is_int(files_of("", NULL, COMMAND("true")), 0, "a large folder does no harm otherwise");
    run_start_close(&start);
    (void)file_remove_tree("large", &e);
}

// ---- files that are named -----------------------------------------------------------------------

static void test_named(void) {
    sends("--file=data", COMMAND("true"), "data/one data/two", false);
    sends("--file=data/", COMMAND("true"), "one two", false);
    sends("--file=.", COMMAND("true"), ALL, false);
    sends("--file=data/..", COMMAND("true"), ALL, false);
    sends("--file=data/one|--file=sub", COMMAND("python", "x.py"), "one sub/y.py", false);
    sends("--file=data/one|--file=../outside.py", COMMAND("true"), "one outside.py", false);
    is_int(files_of("--file=none", NULL, COMMAND("true")), -1, "an absent file is refused");
    has_str(e.text, "--file 'none'", "the error names the file");
    is_int(e.code, ERR_NOT_FOUND, "an absent file is not found");
    run_start_close(&start);
}

// ---- shares -------------------------------------------------------------------------------------

// Files of one manifest without a hash.
static size_t without_hash(const struct manifest *m) {
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++)
        count += m->entries[i].kind == MANIFEST_FILE && !m->entries[i].hashed;
    return count;
}

static void test_shares(void) {
    const char *file = "[inputs.d]\nsource = \"many\"\nmode = \"sharded\"\n";
    for (int i = 0; i < 2 * NODES; i++)
        put(arena_printf(&a, "many/%d", i), arena_printf(&a, "file %d", i));
    is_int(files_of("", file, COMMAND("true")), 0, "an input is dealt: %s", e.text);
    is_uint(without_hash(start.common), 0, "files for all nodes are hashed");
    for (int i = 0; i < NODES; i++) {
        is_uint(start.shards[i]->files, 2, "node %d has its share", i);
        is_uint(without_hash(start.shards[i]), 0, "the share of node %d is hashed", i);
    }
    run_start_close(&start);
    (void)file_remove_tree("many", &e);
}

// ---- [setup] ------------------------------------------------------------------------------------

static const char *setup_hash(const char *file) {
    is_int(files_of("", file, COMMAND("true")), 0, "a run has a setup: %s", e.text);
    const char *hash = start.spec.setup ? arena_strdup(&a, start.spec.setup_hash) : NULL;
    return hash;
}

static void test_setup(void) {
    const char *needs = "[setup]\nrun = \"make\"\nneeds = [\"./data/one\", \"sub\"]\n";
    const char *first = setup_hash(needs);
    is_str(sent(), "data/one sub/y.py", "files that the script needs are sent");
    is_str(start.spec.setup, "make", "the nodes have the script");
    has_str(start.setup_dir, start.run.id, "the logs of a setup are those of the run");
    run_start_close(&start);
    is_str(setup_hash(needs), first, "an unchanged setup has the same hash");
    run_start_close(&start);
    put("data/one", "changed");
    ok(strcmp(setup_hash(needs), first) != 0, "other content of a file is another setup");
    run_start_close(&start);
    put("data/one", "1");
    ok(strcmp(setup_hash("[setup]\nrun = \"make \"\nneeds = [\"data/one\", \"sub\"]\n"), first) !=
           0,
       "another script is another setup");
    run_start_close(&start);
    ok(!setup_hash("[setup]\nrun = \" \\n\\t\"\n"), "white space is no script");
    run_start_close(&start);
    is_int(files_of("", "[setup]\nrun = \"make\"\nneeds = [\"none\"]\n", COMMAND("true")), -1,
           "an absent file is refused");
    has_str(e.text, "setup.needs", "the error names the setting");
    run_start_close(&start);
    is_int(files_of("--file=data", needs, COMMAND("true")), 0, "a file may be sent anyway");
    is_str(sent(), "data/one data/two sub/y.py", "each file is sent once");
    run_start_close(&start);
}

// ---- the native trainer -------------------------------------------------------------------------

static void test_native(void) {
    unsigned char digest[HASH_BYTES];
    size_t len = strlen("program");
    size_t n = ZSTD_compress(frame, sizeof frame, "program", len, 1);
    embed_files[0] =
        (struct embed_file){.name = "dttrain", .data = frame, .size_packed = n, .size = len};
    hash_of(digest, "program", len);
    hash_hex(embed_files[0].sha256, digest);
    is_int(files_of("--set=train.epochs=77", NULL, NULL), 0, "the trainer has files: %s", e.text);
    is_str(sent(), "train.toml", "the settings are sent");
    size_t count = start.run.command_count;
    ok(count > 2 && str_eq(start.run.command[count - 2], "--set") &&
           str_eq(start.run.command[count - 1], "train.resume=auto") &&
           start.spec.command_count == (int)count,
       "restarts of this run resume its own state");
    bool program = false;
    for (size_t i = 0; i < start.common->count; i++)
        program |= str_starts(start.common->entries[i].path, "bin/dttrain-");
    ok(program, "the program is sent");
    run_start_close(&start);
    ok(!start.common && start.spec.key[0] + start.spec.key[JOB_KEY_BYTES - 1] == 0,
       "a closed run has no files and no key");
}

int main(void) {
    said_open(&screen);
    if (!mkdtemp(root) || chdir(root) < 0 || mkdir("here", 0700) < 0 || chdir("here") < 0 ||
        !(context.loop = loop_open(&e)))
        bail_out("no folder");
    put("../outside.py", "x");
    put("x.py", "x");
    put("sub/y.py", "y");
    put("data/one", "1");
    put("data/two", "2");
    put(".git/config", "x");
    save_cluster();
    test_implicit();
    test_warnings();
    test_large();
    test_named();
    test_shares();
    test_setup();
    test_native();
    loop_close(context.loop);
    said_close(&screen);
    if (chdir("/") < 0 || file_remove_tree(root, &e) < 0)
        bail_out("the folder stays");
    arena_fini(&a);
    return done_testing();
}
