// SPDX-License-Identifier: Apache-2.0
// The inputs of a run as a whole, without nodes: which node gets which files, from here and from a
// server, where they go, and the records of the run. A later run keeps, sends again or refuses.
#include "run/inputs/input_add.h"

#include "run/dtdata.h"
#include "run/inputs/input_elastic.h"
#include "run/inputs/input_fanout.h"
#include "run/inputs/input_keep.h"
#include "run/inputs/input_lists.h"
#include "run/inputs/input_record.h"
#include "run/inputs/input_remote.h"
#include "run/inputs/input_source.h"
#include "run/results/results_owner.h"
#include "tests/unit/expected.h"
#include "tests/unit/shell.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID(c) c c c c c c c c c c c c c c c c
#define OBJECT(path, size, id)                                                                     \
    "{\"path\":\"" path "\",\"name\":\"s3://b/" path "\",\"url\":\"u/" path "\",\"size\":" size    \
    ",\"etag\":\"e\",\"id\":\"" ID(id) "\"}\n"

// The list of a server, in place of that of dtdata.
int dtdata_run(struct context *s, const struct dtdata_call *call, char **text, struct err *e) {
    (void)s;
    bool one = str_ends(call->args[1], "x");
    *text = strdup(one ? "{\"folder\":false,\"ends\":9}\n" OBJECT("x", "5", "1a2b") "{\"end\":1}\n"
                       : "{\"folder\":true,\"ends\":7}\n" OBJECT("x", "5", "1a2b")
                             OBJECT("y/z", "3", "3c4d") OBJECT("y/w", "2", "5e6f") "{\"end\":3}\n");
    return str_ends(call->args[1], "gone") ? err_set(e, ERR_NOT_FOUND, "no such bucket") : 0;
}

static char folder[] = "/tmp/test_input_add.XXXXXX";
static struct arena a;
static struct screen screen;
static struct context context;
static struct config config;
static struct strbuf out;
static struct err e;

static void put(const char *name, const char *text) {
    const char *path = file_join(&a, folder, name);
    const struct timespec at[2] = {{1000, 0}, {1000, 5}};
    if (file_make_dirs(file_dir(&a, path), 0755, &e) < 0 ||
        file_write_atomic(path, text, strlen(text), 0644, &e) < 0 ||
        utimensat(AT_FDCWD, path, at, 0) < 0)
        bail_out("cannot write '%s'", path);
}

// ---- a run --------------------------------------------------------------------------------------

static const char *nodes[] = {"n0", "n1", "n2"};
static struct run_start l;
static bool native; // the next run

static void load(const char *text) {
    config_open(&config, &a, "dtctl", NULL);
    option_set_file(&config.set, file_join(&a, folder, "dtctl.toml"), text, strlen(text));
    if (option_set_finish(&config.set, &e) < 0)
        bail_out("%s", e.text);
    context.config = &config;
}

// Adds the inputs of that configuration to a run on so many nodes.
static int begin(const char *id, const char *text, size_t count, bool elastic) {
    load(text);
    err_clear(&e);
    l = (struct run_start){.context = &context,
                           .node_count = count,
                           .elastic = elastic,
                           .has_dtdata = true,
                           .common = manifest_new()};
    l.native = native;
    l.run = (struct run){.id = id,
                         .name = "t",
                         .cluster = "c",
                         .provider = "local",
                         .command = (const char *[]){NULL},
                         .nodes = nodes,
                         .node_count = count,
                         .nodes_min = elastic ? 1 : (int)count,
                         .nodes_max = (int)count,
                         .nproc = "1",
                         .output_dir = "/o",
                         .state = "finished"};
    return input_add_all(&l, &e);
}

static void end(void) {
    input_lists_close(&l);
    input_fanout_close(&l);
    input_keep_close(&l);
    input_elastic_close(&l);
    input_remote_close(&l);
    for (size_t n = 0; n < l.node_count; n++) {
        if (l.shards)
            manifest_free(l.shards[n]);
        if (l.streams)
            strbuf_fini(&l.streams[n].input);
    }
    strbuf_fini(&l.sources);
    input_add_close(&l);
    manifest_free(l.common);
}

// ---- its description ----------------------------------------------------------------------------

// The folder has another name each time.
static void add(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (len - i >= strlen(folder) && strncmp(text + i, folder, strlen(folder)) == 0)
            i += strlen(folder) - 1;
        else
            strbuf_addc(&out, text[i] ? text[i] : '\n');
    }
}

static void add_manifest(const char *title, const struct manifest *m) {
    for (size_t i = 0; m && i < m->count; i++) {
        const struct manifest_entry *x = &m->entries[i];
        strbuf_addf(&out, "%s: %s%s %llu", title, x->path,
                    x->kind == MANIFEST_FOLDER ? "/"
                    : x->kind == MANIFEST_LINK ? "@"
                                               : "",
                    (unsigned long long)x->size);
        if (x->source) {
            strbuf_adds(&out, " from ");
            add(x->source, strlen(x->source));
        }
        strbuf_addc(&out, '\n');
    }
}

// Archives that were split, and their members.
static void add_parts(void) {
    char *text;
    size_t len;
    if (shell(arena_printf(&a, "cd %s && for f in */*/*; do echo $f: $(tar -tf $f); done >%s/list",
                           l.parts.dir, folder)) != 0 ||
        file_read(&a, file_join(&a, folder, "list"), 4096, &text, &len, &e) < 0)
        bail_out("the parts are no archives");
    strbuf_adds(&out, text);
}

static void describe(const char *name) {
    struct strbuf text = {0};
    struct json_out j;
    for (size_t i = 0; i < l.input_count; i++) {
        struct run_start_input *in = &l.inputs[i];
        strbuf_addf(&out, "input %s at %s%s%s%s%s%s%s\n", in->name, in->path,
                    in->is_folder ? " folder" : "", in->elastic ? " elastic" : "",
                    in->held ? " held" : "", in->kept ? " kept from " : "",
                    in->kept ? in->kept : "", input_lists_has(in) ? " listed" : "");
        for (size_t k = 0; k < in->manifest->count; k++)
            strbuf_addf(&out, " %s=%zu", in->manifest->entries[k].path,
                        input_lists_number(&l, in, k));
        strbuf_addc(&out, '\n');
        const struct job_input *job = &l.spec.inputs[i];
        strbuf_addf(&out, " job: %s %s%s%s", job->mode, job->path,
                    job->archives ? " unpacked from " : "", job->archives ? job->archives : "");
        if (job->deal)
            strbuf_addf(&out, " shard=%d uneven=%d replicas=%d seed=%lld%s%s", job->deal->shard,
                        job->deal->uneven, job->deal->replicas, (long long)job->deal->seed,
                        job->deal->shuffled ? " shuffled" : "",
                        job->deal->extracts ? " unpacked" : "");
        strbuf_addf(&out, "%s\n", job->streamed ? " streamed" : "");
        for (size_t n = 0; in->share && n < l.node_count; n++)
            strbuf_addf(&out, " share %zu begins with %s\n", n,
                        in->share[n].files ? in->share[n].names[0] : "nothing");
    }
    for (size_t i = 0; i < l.input_count; i++)
        for (size_t rank = 0; rank < 2 && l.inputs[i].elastic; rank++) {
            struct manifest *m = input_elastic_share(&l.inputs[i], 2, rank, &e);
            add_manifest("of two nodes", m);
            manifest_free(m);
        }
    add_manifest("all", l.common);
    add_manifest("all read", input_fanout_files(&l));
    for (size_t n = 0; n < l.node_count; n++) {
        add_manifest(nodes[n], l.shards ? l.shards[n] : NULL);
        add_manifest(nodes[n], l.dealt ? l.dealt[n] : NULL);
        add_manifest(nodes[n], l.keep ? input_keep_shard(&l, n) : NULL);
        if (l.remote)
            strbuf_addf(&out, "%s reads: %s", nodes[n], strbuf_cstr(&l.remote[n].input));
        add_manifest(nodes[n], l.remote ? l.remote[n].files : NULL);
        if (l.streams)
            strbuf_addf(&out, "%s streams: %s", nodes[n], strbuf_cstr(&l.streams[n].input));
    }
    if (l.parts.dir)
        add_parts();
    add_manifest("all held", l.keep ? input_keep_common(&l) : NULL);
    add(l.sources.data, l.sources.len);
    json_open(&j, &text);
    json_object(&j, NULL);
    input_record_json(&l, &j);
    json_end(&j);
    add(strbuf_cstr(&text), text.len);
    strbuf_addc(&out, '\n');
    strbuf_fini(&text);
    is_expected(&out, name);
}

static void test_whole(const char *name, const char *text, size_t count, bool elastic) {
    if (begin("t-20260104T000000Z-000004", text, count, elastic) < 0)
        bail_out("%s: %s", name, e.text);
    describe(name);
    end();
}

#define IN(name, more) "[inputs." name "]\n" more "\n"
#define HERE           "source='data'\n"
#define SHARDED        "mode='sharded'\n"

static void test_places(void) {
    test_whole("copies",
               IN("all", HERE) IN("one", "source='data/a'") IN("none", "source='empty'")
                   IN("some", HERE "include=['*/c','a']\nexclude=['l']"),
               2, false);
    test_whole("shares",
               IN("size", HERE SHARDED) IN("key", HERE SHARDED "shard='key'\norder='shuffle:3'")
                   IN("count", HERE SHARDED "shard='count'\nuneven='drop'"),
               2, false);
    test_whole("streams",
               IN("s", HERE SHARDED "deliver='stream'\nexclude=['l']")
                   IN("w", HERE "deliver='stream'\ninclude=['b']\nwindow='2k'\n"
                                "cache_max='4k'"),
               2, false);
    test_whole("elastic shares", IN("d", HERE SHARDED "replicas=2\nshard='key'\norder='shuffle:9'"),
               3, true);
    test_whole("archives",
               IN("x", "source='tars'\ndeliver='extract'\nexclude=['*.gz']")
                   IN("f", "source='tars/t.tar'\ndeliver='extract'"),
               1, false);
    test_whole("samples", IN("s", "source='samples'\n" SHARDED "unit='sample'"), 2, false);
    test_whole("objects",
               IN("all", "source='s3://bkt/p/'") IN("one", "source='s3://bkt/x'")
                   IN("part", "source='s3://bkt/q/'\n" SHARDED)
                       IN("few", "source='s3://bkt/r/'\ninclude=['y']\nexclude=['w']"),
               2, false);
    test_whole("streamed objects", IN("s", "source='s3://bkt/p/'\n" SHARDED "deliver='stream'"), 2,
               false);
    test_whole("elastic objects", IN("s", "source='s3://bkt/p/'\n" SHARDED), 2, true);
}

// ---- refusals -----------------------------------------------------------------------------------

static void refused(const char *text, const char *why) {
    is_int(begin("t-20260101T000000Z-000001", text, 2, false), -1, "the inputs are refused: %s",
           why);
    has_str(e.text, why, "the error says: %s", why);
    end();
}

static void test_refusals(void) {
    refused(IN("d", "source='gone'"), "input 'd': '");
    refused(IN("d", "source='data/a'\n" SHARDED), "is one file; only a folder can be sharded");
    refused(IN("d", "source='data/a'\ninclude=['*']"), "include and exclude are for a folder");
    refused(IN("d", "source='data/a'\nexclude=['*']"), "include and exclude are for a folder");
    refused(IN("d", HERE "include=['nope']"), "matches include");
    refused(IN("d", HERE "deliver='stream'"), "'l' is a symbolic link");
    refused(IN("d", HERE "deliver='stream'\nexclude=['l']\nwindow=1\ncache_max=2"),
            "cache_max = 2 B does not hold 'b/c'");
    refused(IN("d", "source='tars'\ndeliver='extract'\ninclude=['*.gz']"), "v.tar.gz");
    refused(IN("d", "source='s3://bkt/x'\n" SHARDED), "is one object; mode = sharded is for a");
    refused(IN("d", "source='s3://bkt/x'\ninclude=['*']"), "is one object; include or exclude");
    refused(IN("d", "source='s3://bkt/p/'\nexclude=['*']"), "is left by exclude");
    refused(IN("d", "source='s3://bkt/gone'"), "input 'd': no such bucket");
    native = true;
    refused(IN("d", HERE "deliver='stream'\nexclude=['l']"), "reads webdataset shards (.tar) as");
    refused(IN("d", "source='shards'\ndeliver='stream'"), "reads 'val/c.tar' by the file 'val/");
    is_int(begin("t-20260101T000000Z-000001",
                 IN("d", "source='shards'\ndeliver='stream'\nexclude=['val']"), 2, false),
           0, "shards with an index beside them are streamed %s", e.text);
    end();
    native = false;
    refused(IN("d", HERE SHARDED "shard='count'\nuneven='refuse'\nexclude=['l']"), "3 files");
}

// ---- a later run --------------------------------------------------------------------------------

#define CHANGE(how) IN("d", HERE "exclude=['l']\non_change='" how "'")

static void test_later(void) {
    is_int(begin("t-20260101T000000Z-000001", CHANGE("resend"), 2, false), 0, "a first run begins");
    is_int(input_record_compare(&l, &e), 0, "there is no run to compare with");
    ok(!l.inputs[0].changed_since && !l.inputs[0].same_as,
       "the input is neither changed nor the same");
    if (run_save(&context.cluster, &l.run, &e) < 0 || input_record_save(&l, &e) < 0 ||
        input_keep_save(&l, &e) < 0)
        bail_out("%s", e.text);
    end();
    is_int(begin("t-20260102T000000Z-000002", CHANGE("refuse"), 2, false), 0,
           "a second run begins");
    is_int(input_record_compare(&l, &e), 0, "the same content is not refused");
    is_str(l.inputs[0].same_as, "t-20260101T000000Z-000001", "the input is that of the first run");
    if (input_keep_save(&l, &e) < 0)
        bail_out("%s", e.text);
    struct stat st;
    ok(stat(run_path(&context.cluster, &l.run, "inputs/d"), &st) == 0 && st.st_nlink == 2,
       "both runs share the list");
    end();
    put("data/b/c", "new");
    is_int(begin("t-20260103T000000Z-000003", CHANGE("refuse"), 2, false), 0, "a third run begins");
    is_int(input_record_compare(&l, &e), -1, "other content is refused");
    has_str(e.text, "is not what run 't-20260101T000000Z-000001' had, and on_change = refuse",
            "the error names the run");
    end();
    is_int(begin("t-20260103T000000Z-000003", CHANGE("resend"), 2, false), 0, "a third run begins");
    is_int(input_record_compare(&l, &e), 0, "other content is sent");
    is_str(l.inputs[0].changed_since, "t-20260101T000000Z-000001", "the change is known");
    end();
    test_whole("earlier content", CHANGE("keep"), 2, false);
    // Results of the first run.
    l.run.id = "t-20260101T000000Z-000001";
    l.run.output_dir = file_join(&a, folder, "results");
    l.run.fetched = true;
    put("results/model/m", "m");
    put("results/out", "o");
    if (results_owner_set(l.run.output_dir, l.run.id, &e) < 0 ||
        run_save(&context.cluster, &l.run, &e) < 0)
        bail_out("%s", e.text);
    test_whole("results", IN("o", "source='run:t/output'") IN("m", "source='run:t/model'"), 2,
               false);
}

int main(int argc, char **argv) {
    (void)argv;
    umask(022);
    expected_open("tests/unit/run/input_add.txt", argc);
    if (!mkdtemp(folder) || cluster_open(&context.cluster, &a, folder, "c", &e) < 0)
        bail_out("no folder");
    context.arena = &a;
    context.screen = &screen;
    context.loop = loop_open(&e);
    if (file_make_dirs(context.cluster.dir, 0700, &e) < 0)
        bail_out("%s", e.text);
    put("data/a", "1");
    put("data/b/c", "123");
    put("data/b/d", "12");
    put("tars/t.tar", "x");
    put("tars/u.tar.zst", "y");
    put("tars/v.tar.gz", "z");
    put("samples/notes", "n");
    put("shards/a.tar", "a");
    put("shards/shards.dtindex", "i");
    put("shards/train/b.tar", "b");
    put("shards/train/shards.dtindex", "i");
    put("shards/train/deep/x.tar", "x"); // no folder of shards
    put("shards/val/c.tar", "c");
    if (shell(arena_printf(
            &a,
            "cd %s && mkdir w && for i in 1 2 3 4 5; do echo $i >w/$i.txt && echo $i >w/$i.cls; "
            "done && tar='tar --format=gnu --mtime=@0 --owner=0 --group=0 --numeric-owner "
            "--mode=644 -C w' && $tar -cf samples/a.tar 1.cls 1.txt 2.cls 2.txt 3.txt && "
            "$tar -cf samples/b.tar 4.txt 5.cls 5.txt && chmod 644 samples/*",
            folder)) != 0)
        bail_out("no tar");
    if (mkdir(file_join(&a, folder, "data/e"), 0755) < 0 ||
        mkdir(file_join(&a, folder, "empty"), 0755) < 0 ||
        symlink("a", file_join(&a, folder, "data/l")) < 0)
        bail_out("no data");
    test_places();
    test_refusals();
    test_later();
    loop_close(context.loop);
    cluster_close(&context.cluster);
    file_remove_tree(folder, &e);
    strbuf_fini(&out);
    arena_fini(&a);
    return expected_end();
}
