// SPDX-License-Identifier: Apache-2.0
// A data set of which every node has a share of its own (inputs.NAME.mode = sharded). Before the
// ranks connect, each node tells the others at the store how many images it has and the names of
// their classes. From that every rank knows what must be the same everywhere: class ids, the number
// of steps, and the totals.
#include "base/arena.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/str.h"
#include "trainer/trainer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES_BYTES_MAX = 4 << 20, // of the classes of a node
    SHARE_MAGIC = 0x31534854,
};

// Counts of a split on one node. Of the training images the names of the classes follow, each with
// a NUL.
struct share_header {
    uint32_t magic, images, ranks, classes;
};

static const char *split_name(enum dataset_split split) {
    return split == DATASET_TRAIN ? "training" : "test";
}

// The names of the classes in the order of their ids, of all nodes.
struct names {
    const char **name;
    size_t count, room;
    bool numbered; // ids are numbers in the data, and names are only for people
};

static int compare(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static bool is_number(const char *name, size_t number) {
    char text[24];
    snprintf(text, sizeof text, "%zu", number);
    return strcmp(name, text) == 0;
}

// Ids that are numbers: a name that is more than the number counts, from whichever node.
static void add_numbered(struct arena *a, struct names *n, const char *name, size_t id) {
    if (id < n->count && !is_number(n->name[id], id))
        return;
    array_grow_in(a, n->name, &n->room, id + 1);
    n->name[id] = arena_strdup(a, name);
    n->count = id < n->count ? n->count : id + 1;
}

// Ids that follow the sorted names of all nodes. The first `sorted` names of the list are in order.
static void add_sorted(struct arena *a, struct names *n, const char *name, size_t sorted) {
    if (sorted && bsearch(&name, n->name, sorted, sizeof *n->name, compare))
        return;
    array_grow_in(a, n->name, &n->room, n->count + 1);
    n->name[n->count++] = arena_strdup(a, name);
}

static int add_names(struct arena *a, struct names *n, const struct share_header *s,
                     const char *text, size_t len) {
    size_t at = 0, sorted = n->count;
    for (uint32_t i = 0; i < s->classes; i++) {
        size_t left = len - at, name = strnlen(text + at, left);
        if (name == left || name >= DATASET_CLASS_NAME_BYTES_MAX)
            return -1;
        if (n->numbered)
            add_numbered(a, n, text + at, i);
        else
            add_sorted(a, n, text + at, sorted);
        at += name + 1;
    }
    if (!n->numbered && n->count > sorted)
        qsort(n->name, n->count, sizeof *n->name, compare);
    return at == len ? 0 : -1;
}

static const char *key_of(struct arena *a, const struct trainer *t, enum dataset_split split,
                          int node) {
    const char *prefix = t->config->comm.prefix ? t->config->comm.prefix : "train";
    return arena_printf(a, "%s/share/%d/%d", prefix, (int)split, node);
}

static int publish_share(struct arena *a, const struct trainer *t, enum dataset_split split,
                         const struct dataset *d, struct err *e) {
    const struct comm_config *c = &t->config->comm;
    struct strbuf text = {0};
    int classes = split == DATASET_TRAIN ? d->classes : 0;
    struct share_header s = {SHARE_MAGIC, d->samples, (uint32_t)c->local_world, (uint32_t)classes};
    strbuf_add(&text, &s, sizeof s);
    for (int i = 0; i < classes; i++)
        strbuf_add(&text, d->class_names[i], strlen(d->class_names[i]) + 1);
    int r = text.len <= NAMES_BYTES_MAX
                ? c->kv.set(c->kv.ctx, key_of(a, t, split, c->node), text.data, text.len, e)
                : err_set(e, ERR_LIMIT, "the names of the classes have more than %d MiB",
                          NAMES_BYTES_MAX >> 20);
    strbuf_fini(&text);
    return r;
}

// Images of a rank in an epoch, where a node shares out its own: as the sampler's rules have it.
static uint64_t each_of(const struct trainer *t, const struct share_header *s) {
    return ((uint64_t)s->images + (t->options->drop_last ? 0 : s->ranks - 1)) / s->ranks;
}

static void count(struct trainer *t, enum dataset_split split, const struct share_header *s) {
    struct data_shares *x = &t->shares[split];
    uint64_t each = each_of(t, s);
    x->images += s->images;
    x->least = x->least < s->images ? x->least : s->images;
    x->most = x->most > s->images ? x->most : s->images;
    if (split == DATASET_TRAIN &&
        (x->each == 0 || (t->options->drop_last ? each < x->each : each > x->each)))
        x->each = each;
}

// text: room for NAMES_BYTES_MAX.
static int hear(struct arena *a, struct trainer *t, enum dataset_split split, int node,
                struct names *names, char *text, struct err *e) {
    struct share_header s;
    size_t len;
    if (trainer_data_await(t, key_of(a, t, split, node), text, NAMES_BYTES_MAX, &len, e) < 0)
        return err_wrap(e, "waiting for node %d to have its %s data", node, split_name(split));
    if (len < sizeof s)
        return err_set(e, ERR_FORMAT, "node %d sent %zu bytes about its data", node, len);
    memcpy(&s, text, sizeof s);
    if (s.magic != SHARE_MAGIC || s.ranks < 1 || s.classes > DATASET_CLASSES_MAX ||
        add_names(a, names, &s, text + sizeof s, len - sizeof s) < 0)
        return err_set(e, ERR_FORMAT, "node %d sent nonsense about its data", node);
    if (split == DATASET_TRAIN && each_of(t, &s) == 0)
        return err_set(e, ERR_CONFIG,
                       "the share of node %d has %u training images for %u ranks (try: more and "
                       "smaller files, inputs.NAME.shard count, or fewer nodes)",
                       node, s.images, s.ranks);
    count(t, split, &s);
    return 0;
}

int trainer_data_shares_exchange(struct trainer *t, enum dataset_split split,
                                 const struct dataset *own, struct dataset *like,
                                 struct arena *keep, struct err *e) {
    const struct comm_config *c = &t->config->comm;
    struct data_shares *x = &t->shares[split];
    struct names names = {.numbered = str_eq(own->kind, "webdataset")};
    x->least = UINT32_MAX;
    if (t->mesh.pipe > 1)
        return err_set(e, ERR_CONFIG,
                       "stages of a pipeline read the same images, and every node has a share of "
                       "its own (try: inputs.NAME.mode replicated, or train.pipeline 1)");
    if (c->local_rank == 0 && publish_share(keep, t, split, own, e) < 0)
        return -1;
    char *text = heap_alloc(NAMES_BYTES_MAX);
    int r = 0;
    for (int node = 0; r == 0 && node < c->nodes; node++)
        r = hear(keep, t, split, node, &names, text, e);
    free(text);
    if (r < 0)
        return r;
    if (x->images == 0)
        return err_set(e, ERR_NOT_FOUND, "no node has %s images", split_name(split));
    *like =
        (struct dataset){.kind = own->kind, .classes = (int)names.count, .class_names = names.name};
    return 0;
}

int64_t trainer_data_shares_digest(const struct trainer *t) {
    const struct data_shares *x = &t->shares[DATASET_TRAIN];
    const struct dataset *d = &t->train;
    unsigned char digest[HASH_BYTES];
    struct hash h;
    int64_t result;
    hash_init(&h);
    hash_add(&h, &x->images, sizeof x->images);
    for (int i = 0; i < d->classes; i++)
        hash_add(&h, d->class_names[i], strlen(d->class_names[i]) + 1);
    hash_final(&h, digest);
    memcpy(&result, digest, sizeof result);
    result &= INT64_MAX;
    return result ? result : 1;
}
