// SPDX-License-Identifier: Apache-2.0
// Inputs whose content nodes may have: lists of a run's inputs, and the content of an earlier run.
#include "run/inputs/input_keep.h"

#include "content/generation.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_record.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/run/manifest_words.h"
#include "tests/unit/run/plain_run.h"

#include <string.h>
#include <sys/stat.h>

enum { NODES = 3 };

static struct arena a;
static char folder[] = "/tmp/test_input_keep.XXXXXX";
static struct config_input config = {
    .source = "/data", .deliver = "copy", .on_change = CONFIG_CHANGE_KEEP};
static struct context context;
static struct run_start launch;
static struct run_start_input inputs[2];
static struct manifest *passed; // of input_fanout
static struct err e;

struct manifest *input_fanout_files(const struct run_start *l) {
    (void)l;
    return passed;
}

// ---- inputs -------------------------------------------------------------------------------------

// "PATH=CONTENT …", with "@SOURCE" behind files that are here.
static const char *text_of(const struct manifest *m) {
    const char *text = "";
    for (size_t i = 0; i < m->count; i++) {
        const struct manifest_entry *x = &m->entries[i];
        text = arena_printf(&a, "%s%s%s", text, i ? " " : "", x->path);
        if (x->kind == MANIFEST_FILE)
            text = arena_printf(&a, "%s=%c%s%s", text, x->hash[HASH_BYTES - 1],
                                x->source ? "@" : "", x->source ? x->source : "");
    }
    return text;
}

static struct run_start_input *input(const char *name, const char *words) {
    struct run_start_input *in = &inputs[launch.input_count++];
    *in = (struct run_start_input){.name = name,
                                   .source = "/data",
                                   .config = &config,
                                   .path = arena_printf(&a, "inputs/%s", name),
                                   .is_folder = true,
                                   .manifest = manifest_of(&a, words)};
    manifest_digest(in->manifest, in->digest);
    return in;
}

static void begin(const char *task, const char *id) {
    launch = (struct run_start){
        .context = &context, .run = plain_run(id), .node_count = NODES, .inputs = inputs};
    launch.run.name = task;
    err_clear(&e);
}

static void end(void) {
    for (size_t i = 0; i < launch.input_count; i++)
        manifest_free(inputs[i].manifest);
}

// ---- lists --------------------------------------------------------------------------------------

// The saved list of an input of the run.
static const char *saved(const char *name) {
    const char *path = run_path(&context.cluster, &launch.run, file_join(&a, "inputs", name));
    struct manifest *m = NULL;
    char *text;
    size_t len;
    if (!file_exists(path))
        return "none";
    if (file_read(&a, path, GENERATION_LIST_BYTES_MAX, &text, &len, &e) < 0 ||
        generation_decode(text, len, &m, &e) < 0)
        return e.text;
    const char *is = text_of(m);
    manifest_free(m);
    return is;
}

static void saves(const char *about) {
    is_int(input_keep_save(&launch, &e), 0, "%s: lists are saved: %s", about, e.text);
}

static void test_lists(void) {
    static struct config_input streamed = {.source = "/data", .deliver = "stream"},
                               dealt = {.source = "/data",
                                        .deliver = "copy",
                                        .unit = CONFIG_UNIT_SAMPLE};
    begin("lists", "lists-1");
    input("one", "b=b d/ d/a=a");
    input("two", "c=c")->config = &streamed;
    saves("a copied and a streamed input");
    is_str(saved("one"), "b=b d d/a=a", "the list has the files and folders of an input");
    is_str(saved("two"), "none", "a streamed input has no list");
    inputs[1].config = &dealt;
    saves("samples");
    is_str(saved("two"), "none", "an input of samples has no list");
    inputs[1].config = &config;
    inputs[1].manifest->names_bytes = GENERATION_LIST_BYTES_MAX / 2 + 1;
    saves("long names");
    is_str(saved("two"), "none", "an input with too many names has no list");
    inputs[1].manifest->names_bytes = GENERATION_LIST_BYTES_MAX / 2;
    saves("names of half the list");
    is_str(saved("two"), "c=c", "an input with just as many names as fit has a list");
    end();
}

static void test_same(void) {
    struct stat x, y;
    begin("lists", "lists-2");
    struct run_start_input *in = input("one", "b=b d/ d/a=a");
    in->same_as = "lists-1";
    saves("the same content");
    const char *path = run_path(&context.cluster, &launch.run, "inputs/one");
    launch.run.id = "lists-1";
    ok(stat(path, &x) == 0 &&
           stat(run_path(&context.cluster, &launch.run, "inputs/one"), &y) == 0 &&
           x.st_ino == y.st_ino,
       "runs with the same content share a file");
    launch.run.id = "lists-3";
    in->same_as = "lists-none";
    saves("the same content as a run without a list");
    is_str(saved("one"), "b=b d d/a=a", "a run whose list cannot be shared has its own");
    launch.run.id = "lists-4";
    if (file_make_dirs(run_path(&context.cluster, &launch.run, "inputs/one"), 0700, &e) < 0)
        bail_out("%s", e.text);
    in->same_as = NULL;
    is_int(input_keep_save(&launch, &e), -1, "a list that cannot be written is an error");
    ok(str_starts(e.text, "the list of input 'one': "), "the error names the input: %s", e.text);
    end();
}

static void test_learns(void) {
    struct input_remote folder_there = {.folder = true}, object = {.folder = false};
    struct run_start_remote own[NODES] = {
        {.files = manifest_of(&a, "inputs/one/a=A inputs/other/b=X")},
        {.files = manifest_of(&a, "inputs/one/c=C inputs/oneb=X")},
        {.files = manifest_of(&a, "inputs/one/none=X")}};
    begin("remote", "remote-1");
    struct run_start_input *in = input("one", "a=0 b=0 c=0 d/ e=0");
    in->remote = &folder_there;
    in->same_as = "lists-1"; // had other hashes, which are those of the server
    launch.remote = own;
    passed = manifest_of(&a, "inputs/one/b=B");
    saves("objects that nodes have read");
    is_str(saved("one"), "a=A b=B c=C d", "the list has the hashes of nodes, and no unread object");
    in->elastic = true;
    saves("an elastic input");
    is_str(saved("one"), "a=0 b=0 c=0 d e=0", "an elastic input has hashes of its own");
    in->elastic = false;
    launch.remote = NULL;
    saves("objects that all nodes read");
    is_str(saved("one"), "b=B d", "objects that all nodes have read are enough");
    end();
    manifest_free(passed);
    passed = manifest_of(&a, "inputs/two/x=X");
    begin("remote", "remote-2");
    in = input("two", "x=0");
    in->remote = &object;
    in->path = "inputs/two/x";
    saves("one object");
    is_str(saved("two"), "x=X", "an object is in the folder of its path");
    end();
    manifest_free(passed);
    passed = NULL;
    for (size_t n = 0; n < NODES; n++)
        manifest_free(own[n].files);
}

// ---- the earlier content ------------------------------------------------------------------------

static void save_run(const char *task, const char *id, const char *words, bool list) {
    begin(task, id);
    input("one", words);
    if (run_save(&context.cluster, &launch.run, &e) < 0 || input_record_save(&launch, &e) < 0 ||
        (list && input_keep_save(&launch, &e) < 0))
        bail_out("%s", e.text);
    end();
}

// The run "t-20260109…" has the input with these files, and takes what it had before.
static int takes(const char *words, bool is_folder) {
    begin("t", "t-20260109T000000Z-000009");
    return input_keep_take(&launch, input("one", words), is_folder, &e);
}

#define T1 "t-20260101T000000Z-000001"
#define T2 "t-20260102T000000Z-000002"

static void test_earlier(void) {
    static struct config_input resent = {.source = "/data", .deliver = "copy"},
                               elsewhere = {.source = "/other",
                                            .deliver = "copy",
                                            .on_change = CONFIG_CHANGE_KEEP};
    is_int(takes("a=a", true), 0, "a first run takes nothing");
    end();
    save_run("u", "u-20260104T000000Z-000004", "u=u", true);
    save_run("t", T1, "a=a d/ gone=g moved=m", true);
    save_run("t", T2, "z=z", false);
    save_run("t", "t-20260109T000000Z-000009", "own=o", true);
    is_int(takes("a=n d/ here=m", true), 1, "a changed input takes earlier content: %s", e.text);
    is_str(text_of(inputs[0].manifest), "a=a d gone=g moved=m@/data/here=m",
           "the content is that of the newest run of the task with a list");
    ok(str_eq(inputs[0].kept, T1) && str_eq(inputs[0].changed_since, T1),
       "the run that had the content is known");
    unsigned char digest[HASH_BYTES];
    struct manifest *old = manifest_of(&a, "a=a d/ gone=g moved=m");
    manifest_digest(old, digest);
    ok(memcmp(digest, inputs[0].digest, HASH_BYTES) == 0, "the digest is that of the content");
    manifest_free(old);
    end();
    is_int(takes("a=a d/ gone=g moved=m", true), 0, "the same content is not taken");
    ok(!inputs[0].kept, "the same content comes from no run");
    end();
    is_int(takes("", true), 1, "an empty folder takes earlier content");
    end();
    begin("t", "t-20260109T000000Z-000009");
    input("one", "a=n")->config = &resent;
    is_int(input_keep_take(&launch, &inputs[0], true, &e), 0, "on_change = resend takes nothing");
    inputs[0].config = &elsewhere;
    is_int(input_keep_take(&launch, &inputs[0], true, &e), 0, "another source takes nothing");
    inputs[0].config = &config;
    inputs[0].name = "two";
    is_int(input_keep_take(&launch, &inputs[0], true, &e), 0, "another input takes nothing");
    end();
    struct input_remote remote = {.folder = true};
    begin("t", "t-20260109T000000Z-000009");
    input("one", "a=n here=m")->remote = &remote;
    is_int(input_keep_take(&launch, &inputs[0], true, &e), 1, "objects take earlier content");
    is_str(text_of(inputs[0].manifest), "a=a d gone=g moved=m", "no content of objects is here");
    ok(!inputs[0].remote, "no object is read");
    end();
}

static void test_refused(void) {
    is_int(takes("a=n", false), -1, "a file that was a folder is refused");
    is_str(e.text,
           "'/data' is a file now and was a folder in run '" T1 "', and on_change = keep "
           "(try: --set inputs.one.on_change=resend)",
           "the error names the former folder");
    end();
    begin("f", "f-20260101T000000Z-000001");
    input("one", "a=a")->is_folder = false;
    if (run_save(&context.cluster, &launch.run, &e) < 0 || input_record_save(&launch, &e) < 0 ||
        input_keep_save(&launch, &e) < 0)
        bail_out("%s", e.text);
    end();
    begin("f", "f-20260102T000000Z-000002");
    is_int(input_keep_take(&launch, input("one", "a=n"), true, &e), -1,
           "a folder that was a file is refused");
    has_str(e.text, "is a folder now and was a file in", "the error names the former file");
    end();
    struct run r = plain_run(T1);
    const char *path = run_path(&context.cluster, &r, "inputs/one");
    if (file_write_atomic(path, "x", 1, 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(takes("a=n", true), -1, "a damaged list is an error");
    has_str(e.text, arena_printf(&a, "'%s': ", path), "the error names the list");
    end();
    const char *record = run_path(&context.cluster, &r, "inputs.json"),
               *text = "{\"inputs\":[{\"name\":\"one\",\"source\":\"/data\",\"digest\":\"x\"}]}";
    if (file_write_atomic(record, text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(takes("a=n", true), 0, "a record without a digest is no earlier content");
    end();
}

int main(void) {
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("no folder");
    context.arena = &a;
    test_lists();
    test_same();
    test_learns();
    test_earlier();
    test_refused();
    cluster_close(&context.cluster);
    is_int(file_remove_tree(folder, &e), 0, "the folder is removed");
    arena_fini(&a);
    return done_testing();
}
