// SPDX-License-Identifier: Apache-2.0
// Nodes report their shares of a data set in a store: class ids of all nodes, images of a rank in
// an epoch, and reports that are refused.
#include "base/arena.h"
#include "tests/tap.h"
#include "trainer/trainer_impl.h"

enum { NODES = 3, MAGIC = 0x31534854 };

static struct err e;
static struct arena arena;
static struct train_config options;
static struct trainer_config config;
static struct trainer t;

// ---- the store ---------------------------------------------------------------------------------

static struct report {
    uint32_t head[4]; // magic, images, ranks, classes
    const char *names;
    size_t len;
    size_t cut; // bytes that the report has less
} reports[NODES];
static char published[4096], keys[512];
static size_t published_bytes;

static int set(void *ctx, const char *key, const void *value, size_t len, struct err *error) {
    (void)ctx, (void)error;
    snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "set %s;", key);
    published_bytes = len < sizeof published ? len : sizeof published;
    memcpy(published, value, published_bytes);
    return 0;
}

static int get(void *ctx, const char *key, void *value, size_t cap, size_t *len, int timeout_ms,
               struct err *error) {
    (void)ctx, (void)timeout_ms;
    int node = strrchr(key, '/')[1] - '0';
    const struct report *r = &reports[node];
    snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "get %s;", key);
    if (r->len + sizeof r->head > cap)
        return err_set(error, ERR_LIMIT, "no room");
    memcpy(value, r->head, sizeof r->head);
    memcpy((char *)value + sizeof r->head, r->names, r->len);
    *len = sizeof r->head + r->len - r->cut;
    return 0;
}

#define REPORT(images, ranks, classes, names)                                                      \
    ((struct report){{MAGIC, images, ranks, classes}, names, sizeof(names) - 1, 0})

static void reset(const char *kind, struct dataset *own) {
    static const char *const names[] = {"cat", "dog"};
    arena_fini(&arena);
    arena = (struct arena){0};
    err_clear(&e);
    *keys = '\0';
    published_bytes = 0;
    options = (struct train_config){.drop_last = false};
    config = (struct trainer_config){
        .options = &options,
        .comm = {.world = 3, .local_world = 1, .node = 1, .nodes = 3, .prefix = "run"}};
    config.comm.kv = (struct comm_kv){set, get, NULL};
    t = (struct trainer){
        .config = &config, .options = &options, .mesh = {.world = 3, .data = 3, .pipe = 1}};
    *own = (struct dataset){.kind = kind, .samples = 9, .classes = 2, .class_names = names};
    reports[0] = REPORT(10, 1, 2, "bird\0dog\0");
    reports[1] = REPORT(9, 2, 2, "cat\0dog\0");
    reports[2] = REPORT(25, 3, 1, "ant\0");
}

static int exchange(enum dataset_split split, const struct dataset *own, struct dataset *like) {
    *like = (struct dataset){0};
    return trainer_data_shares_exchange(&t, split, own, like, &arena, &e);
}

// ---- reports -----------------------------------------------------------------------------------

static void test_counts(void) {
    struct dataset own, like;
    reset("imagefolder", &own);
    is_int(exchange(DATASET_TRAIN, &own, &like), 0, "nodes exchange their shares: %s", e.text);
    is_str(keys, "set run/share/0/1;get run/share/0/0;get run/share/0/1;get run/share/0/2;",
           "a node publishes its share and reads all");
    const uint32_t head[] = {MAGIC, 9, 1, 2};
    ok(published_bytes == 24 && memcmp(published, head, 16) == 0 &&
           memcmp(published + 16, "cat\0dog\0", 8) == 0,
       "a share is counts and names");
    const struct data_shares *x = &t.shares[DATASET_TRAIN];
    ok(x->images == 44 && x->least == 9 && x->most == 25, "shares are added up and compared");
    is_uint(x->each, 10, "ranks have as many images as the one with the most");
    ok(like.classes == 4 && strcmp(like.class_names[0], "ant") == 0 &&
           strcmp(like.class_names[1], "bird") == 0 && strcmp(like.class_names[2], "cat") == 0 &&
           strcmp(like.class_names[3], "dog") == 0,
       "classes of all nodes are sorted, each once");
    reset("imagefolder", &own);
    options.drop_last = true;
    is_int(exchange(DATASET_TRAIN, &own, &like), 0, "nodes exchange their shares without tails");
    is_uint(t.shares[DATASET_TRAIN].each, 4,
            "ranks have as many images as the one with the fewest");
    reset("imagefolder", &own);
    config.comm.local_rank = 1;
    is_int(exchange(DATASET_TRAIN, &own, &like), 0, "another rank of a node reads, too");
    is_uint(published_bytes, 0, "the first rank of a node publishes alone");
}

static void test_test_part(void) {
    struct dataset own, like;
    reset("imagefolder", &own);
    reports[0] = REPORT(0, 1, 0, "");
    reports[1] = REPORT(9, 1, 0, "");
    reports[2] = REPORT(0, 1, 0, "");
    is_int(exchange(DATASET_TEST, &own, &like), 0, "a node may have no test images");
    const struct data_shares *x = &t.shares[DATASET_TEST];
    ok(x->images == 9 && x->least == 0 && x->most == 9 && x->each == 0, "test images are counted");
    is_uint(published_bytes, 16, "no names go with test images");
    has_str(keys, "set run/share/1/1;", "test images have keys of their own");
    reports[1] = REPORT(0, 1, 0, "");
    t.shares[DATASET_TEST] = (struct data_shares){0};
    is_int(exchange(DATASET_TEST, &own, &like), -1, "no test images at all are refused");
    is_str(e.text, "no node has test images", "the error names the part");
    is_int(e.code, ERR_NOT_FOUND, "missing images are not found");
}

// Numbers are ids, and a name that is more than the number is for people.
static void test_numbered(void) {
    struct dataset own, like;
    reset("webdataset", &own);
    reports[0] = REPORT(10, 1, 2, "0\0one\0");
    reports[1] = REPORT(9, 1, 3, "zero\0001\0002\0");
    reports[2] = REPORT(8, 1, 1, "other\0");
    is_int(exchange(DATASET_TRAIN, &own, &like), 0, "numbered classes are exchanged");
    ok(like.classes == 3 && strcmp(like.class_names[0], "zero") == 0 &&
           strcmp(like.class_names[1], "one") == 0 && strcmp(like.class_names[2], "2") == 0,
       "the first name that is more than its number counts");
}

static void test_refused(void) {
    static const struct {
        struct report r;
        const char *error;
    } cases[] = {
        {{{MAGIC + 1, 9, 1, 0}, "", 0, 0}, "node 2 sent nonsense about its data"},
        {{{MAGIC, 9, 0, 0}, "", 0, 0}, "node 2 sent nonsense about its data"},
        {{{MAGIC, 9, 1, 65537}, "", 0, 0}, "node 2 sent nonsense about its data"},
        {{{MAGIC, 9, 1, 2}, "a\0", 2, 0}, "node 2 sent nonsense about its data"},
        {{{MAGIC, 9, 1, 1}, "a\0b\0", 4, 0}, "node 2 sent nonsense about its data"},
        {{{MAGIC, 9, 1, 1}, "ab", 2, 0}, "node 2 sent nonsense about its data"},
        {{{MAGIC, 9, 1, 0}, "", 0, 1}, "node 2 sent 15 bytes about its data"},
        {{{MAGIC, 0, 2, 0}, "", 0, 0},
         "the share of node 2 has 0 training images for 2 ranks (try: more and smaller files"}};
    struct dataset own, like;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset("imagefolder", &own);
        reports[2] = cases[i].r;
        is_int(exchange(DATASET_TRAIN, &own, &like), -1, "report %zu is refused", i);
        has_str(e.text, cases[i].error, "report %zu has its error", i);
    }
    static char longest[DATASET_CLASS_NAME_BYTES_MAX + 1];
    for (size_t len = DATASET_CLASS_NAME_BYTES_MAX - 1; len <= DATASET_CLASS_NAME_BYTES_MAX;
         len++) {
        reset("imagefolder", &own);
        memset(longest, 'n', len);
        longest[len] = '\0';
        reports[2] = (struct report){{MAGIC, 9, 1, 1}, longest, len + 1, 0};
        is_int(exchange(DATASET_TRAIN, &own, &like), len < DATASET_CLASS_NAME_BYTES_MAX ? 0 : -1,
               "a class name of %zu bytes has its verdict", len);
    }
    reset("imagefolder", &own);
    options.drop_last = true;
    reports[2] = REPORT(2, 3, 0, "");
    is_int(exchange(DATASET_TRAIN, &own, &like), -1, "fewer images than ranks are refused");
    has_str(e.text, "the share of node 2 has 2 training images for 3 ranks", "the error counts");
    reset("imagefolder", &own);
    t.mesh.pipe = 2;
    is_int(exchange(DATASET_TRAIN, &own, &like), -1, "stages have no shares");
    has_str(e.text, "stages of a pipeline read the same images", "the error names the pipeline");
}

static void test_digest(void) {
    static const char *const two[] = {"cat", "dog"}, *const other[] = {"cat", "dot"};
    int64_t digest[4];
    for (int i = 0; i < 4; i++) {
        struct dataset own;
        reset("imagefolder", &own);
        t.shares[DATASET_TRAIN].images = i == 1 ? 45 : 44;
        t.train = own;
        t.train.class_names = i == 2 ? other : two;
        t.train.classes = i == 3 ? 1 : 2;
        digest[i] = trainer_data_shares_digest(&t);
        ok(digest[i] > 0, "digest %d is positive", i);
    }
    ok(digest[0] != digest[1] && digest[0] != digest[2] && digest[0] != digest[3],
       "another number of images, another name and another number of classes are other data");
    t = (struct trainer){0};
}

// Both parts of the data are opened by their own settings.
static void test_parts(void) {
    static const char names[] = "bar\0crescent\0cross\0disc\0half_disc\0hourglass\0ring\0square\0"
                                "star\0triangle";
    static const struct {
        bool val, data_out, val_out, more_nodes, train_on, test_on;
    } cases[] = {{false, true, false, true, true, true},
                 {false, false, true, true, false, false},
                 {true, true, false, true, true, false},
                 {true, false, true, true, false, true},
                 {true, true, true, false, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset own;
        reset("shapes", &own);
        options = (struct train_config){.dataset = TRAIN_DATA_SHAPES,
                                        .train_size = 6,
                                        .test_size = 4,
                                        .eval = true,
                                        .eval_batch = 4};
        config.val = cases[i].val ? "validation" : NULL;
        config.data_shared_out = cases[i].data_out;
        config.val_shared_out = cases[i].val_out;
        config.comm.nodes = cases[i].more_nodes ? 3 : 1;
        t.shards = 3;
        t.micro_batch = 2;
        CPU_SET(0, &t.allowed);
        for (int node = 0; node < NODES; node++)
            reports[node] =
                (struct report){{MAGIC, (uint32_t)(6 + node), 1, 10}, names, sizeof names, 0};
        is_int(trainer_data_open(&t, &e), 0, "data %zu opens: %s", i, e.text);
        const struct data_shares *train = &t.shares[DATASET_TRAIN], *test = &t.shares[DATASET_TEST];
        ok(train->on == cases[i].train_on && test->on == cases[i].test_on,
           "each part of data %zu is shared out by its own setting", i);
        ok(train->images == (train->on ? 21 : 6) && test->images == (test->on ? 21 : 4),
           "the images of data %zu are those of all nodes, or of each", i);
        const struct sampler_config *s = &t.shard[0].sampler.config;
        ok(train->on ? s->each == 8 && s->world == 1 : s->each == 0 && s->world == 3,
           "ranks of data %zu divide the data of their node", i);
        trainer_data_close(&t);
    }
    // Ids of this node's classes have to be those of all.
    struct dataset own;
    reset("shapes", &own);
    options = (struct train_config){.dataset = TRAIN_DATA_SHAPES, .train_size = 6};
    config.data_shared_out = true;
    CPU_SET(0, &t.allowed);
    is_int(trainer_data_open(&t, &e), -1,
           "classes of other nodes that it does not have are refused");
    has_str(e.text,
            "the nodes have 4 classes together, and this one cannot number its 10 like them",
            "the error counts classes");
    trainer_data_close(&t);
}

int main(void) {
    test_counts();
    test_test_part();
    test_numbered();
    test_refused();
    test_digest();
    test_parts();
    arena_fini(&arena);
    return done_testing();
}
