// SPDX-License-Identifier: Apache-2.0
// Lists of the files that each node has of its inputs: replicated, dealt, read by the nodes, kept
// there. Transfers are stand-ins.
#include "run/inputs/input_lists.h"

#include "run/inputs/input_fanout.h"
#include "run/inputs/input_keep.h"
#include "tests/tap.h"

#include <string.h>

enum { NODES = 2 };

static struct arena a;
static struct config_input copied = {.deliver = "copy"}, streamed = {.deliver = "stream"};
static struct context context = {.arena = &a};
static struct fleet fleet = {.context = &context, .count = NODES};
static struct run_start launch;
static struct run_start_input inputs[4];
static struct run_start_share shares[NODES];
static struct manifest *kept[NODES], *passed; // of input_keep and input_fanout
static struct err e;

// ---- in place of transfers ----------------------------------------------------------------------

static int sends;
static bool send_fails;

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *err) {
    (void)totals;
    sends++;
    ok(f == &fleet && !operation && !*dest && mode == XFER_MERGE && manifests == launch.listed,
       "each node gets its lists");
    return send_fails ? err_set(err, ERR_NET, "no node answers") : 0;
}

struct manifest *input_keep_shard(struct run_start *l, size_t node) {
    (void)l;
    return kept[node];
}

struct manifest *input_fanout_files(const struct run_start *l) {
    (void)l;
    return passed;
}

// ---- inputs -------------------------------------------------------------------------------------

static void add(struct manifest *m, const char *path, enum manifest_kind kind, uint64_t size) {
    struct manifest_entry x = {.path = path,
                               .kind = kind,
                               .mode = 0644,
                               .size = kind == MANIFEST_FILE ? size : 0,
                               .target = kind == MANIFEST_LINK ? "to" : NULL,
                               .hashed = true};
    x.hash[0] = (unsigned char)size;
    if (manifest_append(m, &x, &e) < 0)
        bail_out("%s", e.text);
}

static struct manifest *manifest_of(const char *words) {
    struct manifest *m = manifest_new();
    char **all;
    size_t count = str_split(&a, words, ' ', &all);
    for (size_t i = 0; i < count; i++)
        add(m, all[i],
            str_ends(all[i], "/link")  ? MANIFEST_LINK
            : str_ends(all[i], "/dir") ? MANIFEST_FOLDER
                                       : MANIFEST_FILE,
            i + 1);
    return m;
}

// The input has these files; its path on the nodes is "inputs/x".
static struct run_start_input *input(const char *name, const char *words) {
    struct run_start_input *in = &inputs[launch.input_count++];
    *in = (struct run_start_input){
        .name = name, .config = &copied, .path = "inputs/x", .manifest = manifest_of(words)};
    return in;
}

static void begin(void) {
    launch = (struct run_start){
        .context = &context, .run.id = "r-1", .node_count = NODES, .inputs = inputs};
    sends = 0;
    send_fails = false;
    err_clear(&e);
}

static void end(void) {
    input_lists_close(&launch);
    ok(!launch.listed, "closed lists are gone");
    for (size_t i = 0; i < launch.input_count; i++)
        manifest_free(inputs[i].manifest);
}

// The list of an input on a node, as "PATH:SIZE:INDEX …".
static const char *list_of(size_t node, const char *name) {
    const char *path = arena_printf(&a, "runs/r-1/inputs/%s.jsonl", name), *text = "";
    const struct manifest *m = launch.listed[node];
    for (size_t i = 0; i < m->count; i++) {
        char **lines;
        const struct manifest_entry *x = &m->entries[i];
        if (strcmp(x->path, path) != 0)
            continue;
        ok(x->hashed && x->mode == 0644, "the list of '%s' can be sent", name);
        size_t count = str_split(&a, arena_strndup(&a, x->bytes, (size_t)x->size), '\n', &lines);
        for (size_t k = 0; k + 1 < count; k++) {
            struct json *j;
            if (json_parse(&a, lines[k], strlen(lines[k]), &j, &e) < 0)
                bail_out("%s", e.text);
            const char *hash = json_get_str(j, "sha256", "");
            ok(strlen(hash) == 64, "a line has a hash");
            text = arena_printf(&a, "%s%s%s:%d:%d", text, *text ? " " : "",
                                json_get_str(j, "path", "?"), (int)json_get_int(j, "size", -1),
                                (int)json_get_int(j, "index", -1));
        }
        return text;
    }
    return "no list";
}

static void lists(const char *about) {
    is_int(input_lists_send(&launch, &fleet, &e), 0, "%s: lists are sent: %s", about, e.text);
    is_int(sends, 1, "%s: all lists go at once", about);
}

static void test_replicated(void) {
    begin();
    input("one", "a/dir a/dir/x a/link b");
    input("two", "c");
    lists("replicated");
    for (size_t n = 0; n < NODES; n++) {
        is_str(list_of(n, "one"), "a/dir/x:2:0 b:4:2", "folders have no place, and links no line");
        is_str(list_of(n, "two"), "c:1:0", "the second input has its list");
    }
    end();
}

static void test_dealt(void) {
    begin();
    struct run_start_input *in = input("one", "a b c");
    in->share = shares;
    struct manifest *parts[] = {manifest_of("inputs/x/c inputs/other/a inputs/xx/b"),
                                manifest_of("inputs/x/a inputs/x/b inputs/x/none")};
    launch.shards = parts;
    lists("dealt");
    is_str(list_of(0, "one"), "c:1:2", "a node has the files of its share");
    is_str(list_of(1, "one"), "a:1:0 b:2:1", "files keep their place in the whole input");
    end();
    manifest_free(parts[0]);
    manifest_free(parts[1]);
}

static void test_read(void) {
    struct input_remote folder = {.folder = true}, file = {.folder = false};
    begin();
    struct run_start_input *in = input("one", "a b");
    in->remote = &folder;
    passed = manifest_of("inputs/x/b");
    lists("read by all nodes");
    is_str(list_of(1, "one"), "b:1:1", "files that all nodes read are listed");
    in->share = shares;
    struct run_start_remote own[] = {{.files = manifest_of("inputs/x/a")},
                                     {.files = manifest_of("inputs/x/b")}};
    launch.remote = own;
    input_lists_close(&launch);
    sends = 0;
    lists("read in parts");
    is_str(list_of(0, "one"), "a:1:0", "the first node has its part");
    is_str(list_of(1, "one"), "b:1:1", "the second node has its part");
    end();
    manifest_free(own[0].files);
    manifest_free(own[1].files);
    manifest_free(passed);
    begin();
    in = input("one", "x");
    in->remote = &file;
    passed = manifest_of("inputs/x");
    lists("one object");
    is_str(list_of(0, "one"), "x:1:0", "an object is in the folder of its path");
    end();
    manifest_free(passed);
    passed = NULL;
}

static void test_kept(void) {
    begin();
    struct run_start_input *in = input("one", "a b");
    in->held = true;
    lists("kept");
    is_str(list_of(1, "one"), "a:1:0 b:2:1", "content that nodes keep is replicated");
    in->share = shares;
    kept[0] = manifest_of("inputs/x/b");
    kept[1] = manifest_of("inputs/x/a");
    input_lists_close(&launch);
    sends = 0;
    lists("kept shares");
    is_str(list_of(0, "one"), "b:1:1", "a kept share of the first node is listed");
    is_str(list_of(1, "one"), "a:1:0", "a kept share of the second node is listed");
    end();
    manifest_free(kept[0]);
    manifest_free(kept[1]);
}

static void test_none(void) {
    begin();
    input("one", "a")->elastic = true;
    input("two", "b")->config = &streamed;
    is_int(input_lists_send(&launch, &fleet, &e), 0, "other inputs have no lists");
    ok(sends == 0 && !launch.listed, "nothing is sent for them");
    input("three", "c");
    lists("one of three");
    is_str(list_of(0, "one"), "no list", "an elastic input has its list from the agents");
    is_str(list_of(0, "two"), "no list", "a streamed input has its list from its server");
    is_str(list_of(0, "three"), "c:1:0", "a copied input has its list");
    end();
    begin();
    input("one", "a");
    send_fails = true;
    is_int(input_lists_send(&launch, &fleet, &e), -1, "lists that are not sent are an error");
    end();
}

int main(void) {
    test_replicated();
    test_dealt();
    test_read();
    test_kept();
    test_none();
    arena_fini(&a);
    return done_testing();
}
