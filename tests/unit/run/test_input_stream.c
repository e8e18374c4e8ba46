// SPDX-License-Identifier: Apache-2.0
// Streamed inputs: which ones are refused, the lists of nodes, also of one that comes later, and
// the programs that serve them. The test is the nodes.
#include "run/inputs/input_stream.h"

#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "run/inputs/input_remote.h"
#include "run/inputs/input_source.h"
#include "tests/unit/fleet_cluster.h"
#include "tests/unit/run/manifest_words.h"

#define ID1   "1111111111111111111111111111111111111111111111111111111111111111"
#define ID2   "2222222222222222222222222222222222222222222222222222222222222222"
#define HEAD  "{\"folder\":true,\"ca\":\"\",\"ends\":9}\n"
#define AGAIN "{\"folder\":true,\"ca\":\"new\",\"ends\":20}\n"
#define END   "{\"end\":2}\n"
#define REST(path, url, id)                                                                        \
    "\"path\":\"" path "\",\"name\":\"s3://b/" path "\",\"url\":\"" url                            \
    "\",\"size\":1,\"etag\":\"e\",\"id\":\"" id "\"}\n"
#define CLOCK "{\"now\":                    }\n"
#define INPUT(name, ends)                                                                          \
    "{\"input\":\"" name "\",\"window\":3,\"cache_max\":50,\"ends\":" ends "}\n"

static struct config_input config = {.deliver = "stream", .window = 3, .cache_max = 50};
static struct run_start launch;
static struct run_start_input inputs[2];
static struct err e;

const struct embed_file embed_files[] = {{.name = "dtdata", .sha256 = "00112233445566778899"},
                                         {.name = NULL}};

static struct run_start_input *input(const char *name, const char *words) {
    struct run_start_input *in = &inputs[launch.input_count++];
    *in = (struct run_start_input){
        .name = name, .source = "/data", .config = &config, .manifest = manifest_of(&arena, words)};
    return in;
}

static void begin(void) {
    launch = (struct run_start){
        .context = &context, .run.id = "r-1", .node_count = NODES, .inputs = inputs};
    err_clear(&e);
}

static void end(void) {
    input_stream_close(&launch);
    if (launch.streams || launch.sources.len)
        bail_out("closed streams are gone");
    for (size_t i = 0; i < launch.input_count; i++)
        manifest_free(inputs[i].manifest);
}

// ---- checks -------------------------------------------------------------------------------------

// The refusal of an input with these files; "": none.
static const char *refusal(bool native, const char *words) {
    begin();
    launch.native = native;
    struct run_start_input *in = input("one", words);
    int result = input_stream_check(&launch, in, &e);
    if ((result < 0) != (e.code == ERR_CONFIG))
        bail_out("a refusal is an error");
    end();
    return e.text;
}

#define NO_INDEX(tar, index)                                                                       \
    "deliver = stream: the native trainer reads '" tar "' by the file '" index                     \
    "', and '/data' has none (try: dtctl data index FOLDER, here or s3://BUCKET/PREFIX)"
#define NO_SHARDS                                                                                  \
    "deliver = stream: the native trainer reads webdataset shards (.tar) as they come, and "       \
    "'/data' has none (try: dtctl data pack, or deliver = copy)"

static void test_native(void) {
    static const struct {
        const char *about, *words, *refusal;
    } rows[] = {
        {"shards with their index", "a.tar=a b.tar=b shards.dtindex=i", ""},
        {"shards of a folder with their index", "train/a.tar=a train/shards.dtindex=i", ""},
        {"shards of two folders",
         "train/a.tar=a train/shards.dtindex=i val/b.tar=b val/shards.dtindex=i", ""},
        {"a shard without an index", "a.tar=a", NO_INDEX("a.tar", "shards.dtindex")},
        {"the second of two folders without an index",
         "train/a.tar=a train/b.tar=b train/shards.dtindex=i valid/c.tar=c",
         NO_INDEX("valid/c.tar", "valid/shards.dtindex")},
        {"a folder whose name is as long as that of one with an index",
         "train/a.tar=a train/shards.dtindex=i traix/c.tar=c",
         NO_INDEX("traix/c.tar", "traix/shards.dtindex")},
        {"an index above the folder", "shards.dtindex=i train/a.tar=a",
         NO_INDEX("train/a.tar", "train/shards.dtindex")},
        {"an index below the top", "a.tar=a train/shards.dtindex=i",
         NO_INDEX("a.tar", "shards.dtindex")},
        {"a folder with the name of an index", "a.tar=a shards.dtindex/",
         NO_INDEX("a.tar", "shards.dtindex")},
        {"shards that are too deep", "train/deep/a.tar=a train/deep/shards.dtindex=i", NO_SHARDS},
        {"files that are no shards", "a.jpg=a shards.dtindex=i", NO_SHARDS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        is_str(refusal(true, rows[i].words), rows[i].refusal, "the native trainer is given %s",
               rows[i].about);
    is_str(refusal(false, "a.jpg=a"), "", "a command is given any files");
}

static void test_limits(void) {
    begin();
    struct run_start_input *in = input("one", "a=a big=b");
    in->manifest->entries[1].size = 50;
    is_int(input_stream_check(&launch, in, &e), 0, "the cache holds an object of its size");
    in->manifest->entries[1].size = 51;
    is_int(input_stream_check(&launch, in, &e), -1, "the cache does not hold a larger object");
    is_str(e.text, "cache_max = 50 B does not hold 'big', which has 51 B",
           "the error names the object and both sizes");
    config.cache_max = 0;
    is_int(input_stream_check(&launch, in, &e), 0, "a cache without a limit holds all");
    config.cache_max = 50;
    in->manifest->entries[0].kind = MANIFEST_LINK;
    is_int(input_stream_check(&launch, in, &e), -1, "a link is not streamed");
    is_str(e.text,
           "deliver = stream: 'a' is a symbolic link, and files alone are streamed (try: exclude, "
           "or deliver = copy)",
           "the error names the link");
    is_str(input_stream_path(&launch, in), "runs/r-1/stream/one", "the lists have a folder");
    end();
}

// ---- lists --------------------------------------------------------------------------------------

static const char *list_of(size_t node) {
    return strbuf_cstr(&launch.streams[node].input);
}

// Adds a file with a content of 64 equal digits to this computer's input.
static struct manifest_entry *file_here(struct run_start_input *in, size_t i, int byte) {
    struct manifest_entry *x = &in->manifest->entries[i];
    const char *path = arena_printf(&arena, "%s/%s", folder, x->path);
    x->source = path;
    memset(x->hash, byte, HASH_BYTES);
    if (file_write_atomic(path, "x", 1, 0644, &e) < 0)
        bail_out("%s", e.text);
    return x;
}

static void add(size_t node, struct run_start_input *in, const struct manifest_entry *x) {
    if (input_stream_add(&launch, node, in, x, &e) < 0)
        bail_out("%s", e.text);
}

#define FILE_LINE(index, path, file, id)                                                           \
    "{\"index\":" index ",\"path\":\"" path "\",\"name\":\"" path "\",\"file\":" file              \
    ",\"size\":1,\"etag\":\"" id "\",\"id\":\"" id "\",\"sha256\":\"" id "\"}\n"

static void test_files(void) {
    begin();
    struct run_start_input *one = input("one", "a=a b=b c=c"), *two = input("two", "d=d");
    struct manifest_entry *b = file_here(one, 1, 0x11), *c = file_here(one, 2, 0x22),
                          *d = file_here(two, 0, 0x22);
    add(1, one, c);
    add(1, one, b);
    add(1, two, d);
    add(2, one, c);
    is_str(list_of(1),
           CLOCK INPUT("one", "0") FILE_LINE("2", "c", "0", ID2) FILE_LINE("1", "b", "1", ID1)
               INPUT("two", "0") FILE_LINE("0", "d", "2", ID2),
           "a list has each input once, and files in the order of the deal");
    is_str(list_of(2), CLOCK INPUT("one", "0") FILE_LINE("2", "c", "0", ID2),
           "a file of two nodes has one number");
    is_str(list_of(0), "", "a node without files has no list");
    is_int((int)launch.source_count, 3, "each file is kept once");
    c->size = 2;
    d->size = 2;
    is_int(input_stream_add(&launch, 0, one, c, &e), 0, "a file that is kept is not looked at");
    two->files[0] = 0;
    is_int(input_stream_add(&launch, 0, two, d, &e), -1, "a file that has changed is refused");
    end();
}

static void test_count(void) {
    begin();
    struct run_start_input *in = input("one", "a=a");
    struct manifest_entry *x = file_here(in, 0, 0x11);
    add(0, in, x);
    launch.streams[0].objects = INPUT_STREAM_OBJECTS_MAX - 1;
    is_int(input_stream_add(&launch, 0, in, x, &e), 0, "a node has as many objects as dtdata has");
    is_int(input_stream_add(&launch, 0, in, x, &e), -1, "a node has no more objects");
    is_str(e.text, "a node would have more than 200000 streamed objects",
           "the error has the limit");
    is_int(input_stream_add(&launch, 1, in, x, &e), 0, "other nodes have theirs");
    end();
}

static struct input_remote parsed(const char *text) {
    struct input_remote r = {.folder = false};
    if (input_remote_parse(&arena, text, &r, NULL, &e) < 0)
        bail_out("%s", e.text);
    return r;
}

static void test_objects(void) {
    struct input_remote was = parsed(HEAD "{" REST("x", "u", ID1) "{" REST("y", "u", ID2) END),
                        now = parsed(AGAIN "{" REST("x", "v", ID1) "{" REST("y", "v", ID2) END),
                        gone = parsed(AGAIN "{" REST("x", "v", ID1) END);
    struct strbuf out = {0};
    begin();
    struct run_start_input *one = input("one", "x=0 y=0"), *two = input("two", "d=d");
    one->remote = &was;
    struct manifest_entry *d = file_here(two, 0, 0x22);
    add(0, one, &one->manifest->entries[1]);
    add(0, two, d);
    add(0, one, &one->manifest->entries[0]);
    is_str(list_of(0),
           CLOCK HEAD INPUT("one", "9") "{\"index\":1," REST("y", "u", ID2) INPUT("two", "0")
               FILE_LINE("0", "d", "0", ID2)
                   HEAD INPUT("one", "9") "{\"index\":0," REST("x", "u", ID1),
           "objects have their addresses, and places in the input");
    strbuf_adds(&launch.streams[0].input, INPUT_REMOTE_END);
    source_clock_set(launch.streams[0].input.data, 5); // as the programs start
    one->again = &now;
    is_int(input_stream_again(&launch, 0, &out, &e), 0, "a node that comes later has a list: %s",
           e.text);
    is_str(strbuf_cstr(&out),
           CLOCK AGAIN INPUT("one", "20") "{\"index\":1," REST("y", "v", ID2) INPUT("two", "0")
               FILE_LINE("0", "d", "0", ID2)
                   AGAIN INPUT("one", "20") "{\"index\":0," REST("x", "v", ID1) INPUT_REMOTE_END,
           "the list has new addresses, and the files as they were");
    one->again = &gone;
    strbuf_clear(&out);
    is_int(input_stream_again(&launch, 0, &out, &e), -1, "an object that is gone is an error");
    has_str(e.text, "'s3://b/y' was removed since the run began", "the error names the object");
    strbuf_fini(&out);
    end();
}

// ---- programs -----------------------------------------------------------------------------------

static void begin_start(void) {
    begin();
    struct run_start_input *in = input("one", "a=a");
    struct manifest_entry *x = file_here(in, 0, 0x11);
    for (size_t n = 0; n < NODES; n++)
        add(n, in, x);
    fake_fleet_begin("{}\n", "!not-found", "{}\n");
    if (file_make_dirs(run_path(&context.cluster, &launch.run, ""), 0700, &e) < 0)
        bail_out("%s", e.text);
}

static void test_start(void) {
    begin();
    is_int(input_stream_start(&launch, &fleet, &e), 0, "nothing starts without streamed inputs");
    end();
    begin_start();
    is_int(input_stream_start(&launch, &fleet, &e), 0, "programs start: %s", e.text);
    is_int(fake_run_count(), NODES, "each node has a program");
    struct fake_run *r = fake_run(0);
    ok(str_starts(r->line, "/r/") && str_ends(r->line, " serve /r/cas /r/runs/r-1"),
       "dtdata serves the run from the store: %s", r->line);
    fake_take(r, SIZE_MAX);
    ok(str_starts(strbuf_cstr(&r->got), "{\"now\":  ") &&
           !strstr(strbuf_cstr(&r->got), ":    "
                                         "                }"),
       "the list has the time");
    ok(str_ends(strbuf_cstr(&r->got), "\n" INPUT_REMOTE_END), "the list has its end");
    ok(!nodes[0].failed && nodes[1].failed && !nodes[2].failed, "a node that fails has failed");
    is_str(nodes[1].err.text, "streamed inputs: why", "the error says of what");
    ok(!nodes[0].work && !nodes[2].work, "nodes have no more work");
    ok(input_source_is_here(&context, &launch.run), "the files of this computer are kept");
    fake_fleet_end();
    end();
    begin_start();
    context.cluster.runs_dir = file_join(&arena, folder, "a");
    is_int(input_stream_start(&launch, &fleet, &e), -1, "files that cannot be kept are an error");
    is_int(fake_run_count(), 0, "no program starts then");
    fake_fleet_end();
    end();
}

int main(void) {
    fleet_cluster_open();
    test_native();
    test_limits();
    test_files();
    test_count();
    test_objects();
    test_start();
    fleet_cluster_close();
    return done_testing();
}
