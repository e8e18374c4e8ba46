// SPDX-License-Identifier: Apache-2.0
// linear FILE…: are the histories that store_load wrote linearizable?
//
// Each file is one client's. Operations on one key in one group of workers (one store) belong
// together; no value of an earlier store may be seen in a later one. And never do two groups work
// at once: every answer of one comes before the first call of the next.
#include "tests/tools/linear.h"
#include "base/arena.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINE_BYTES_MAX = 8192, SHOWN_MAX = 60 };

struct record {
    const char *group, *key;
    struct linear_op op;
};

static struct arena arena;
static struct record *records;
static size_t count, room;

static void die(const char *what, const char *name) {
    fprintf(stderr, "linear: %s '%s'\n", what, name);
    exit(2);
}

static const char *text_of(const char *word) {
    return strcmp(word, "-") == 0 ? "" : arena_strdup(&arena, word);
}

// c GROUP KEY TIME KIND A B
static void read_call(char *line, int client, const char *name) {
    char **word;
    if (str_split(&arena, line, ' ', &word) != 7)
        die("not a call in", name);
    if (count == room) {
        room = room * 2 + 4096;
        records = heap_realloc(records, room * sizeof *records);
    }
    struct record *r = &records[count++];
    *r = (struct record){word[1], word[2], {.client = client, .a = text_of(word[5])}};
    r->op.b = text_of(word[6]);
    r->op.call = strtoll(word[3], NULL, 10);
    r->op.kind = LINEAR_KINDS;
    for (int k = 0; k < LINEAR_KINDS; k++)
        if (strcmp(word[4], linear_names[k]) == 0)
            r->op.kind = (enum linear_kind)k;
    if (r->op.kind == LINEAR_KINDS)
        die("an unknown operation in", name);
}

// r TIME RESULT
static void read_return(char *line, const char *name) {
    char **word;
    if (str_split(&arena, line, ' ', &word) != 3 || count == 0)
        die("not a return in", name);
    records[count - 1].op.back = strtoll(word[1], NULL, 10);
    records[count - 1].op.result = text_of(word[2]);
    if (records[count - 1].op.kind == LINEAR_SET || records[count - 1].op.kind == LINEAR_APPEND)
        records[count - 1].op.result = NULL;
}

static void read_file(const char *name, int client) {
    static char line[LINE_BYTES_MAX];
    FILE *f = fopen(name, "re");
    if (!f)
        die("cannot read", name);
    while (fgets(line, sizeof line, f)) {
        char *end = strchr(line, '\n');
        if (!end) // its client was killed meanwhile
            break;
        *end = '\0';
        if (line[0] == 'c')
            read_call(line, client, name);
        else
            read_return(line, name);
    }
    fclose(f);
}

static int by_key(const void *pa, const void *pb) {
    const struct record *a = pa, *b = pb;
    int order = strcmp(a->group, b->group);
    if (order == 0)
        order = strcmp(a->key, b->key);
    return order ? order : a->op.call < b->op.call ? -1 : a->op.call > b->op.call;
}

static bool tells_nothing(const struct linear_op *o) { // it changes nothing, and has no result
    return !o->back &&
           (o->kind == LINEAR_GET || o->kind == LINEAR_CHECK || o->kind == LINEAR_PRESENT);
}

static void show(const struct record *r, const struct linear_op *ops, size_t n,
                 const struct linear_verdict *v) {
    int64_t zero = ops[0].call;
    printf("%s: key %s of %s\n", v->gave_up ? "not decided" : "NOT LINEARIZABLE", r->key, r->group);
    size_t from = v->stuck_at > SHOWN_MAX / 2 ? (size_t)v->stuck_at - SHOWN_MAX / 2 : 0;
    for (size_t i = from; i < n && i < from + SHOWN_MAX; i++)
        printf("%s %8.3f %8.3f ms client %d %s %s %s = %s\n", (int)i == v->stuck_at ? "->" : "  ",
               (double)(ops[i].call - zero) / 1e6,
               ops[i].back ? (double)(ops[i].back - zero) / 1e6 : -1.0, ops[i].client,
               linear_names[ops[i].kind], ops[i].a, ops[i].b,
               !ops[i].back    ? "?"
               : ops[i].result ? ops[i].result
                               : "");
}

// Records [from, to) are of one key and one group.
static bool check_key(size_t from, size_t to) {
    struct linear_op *ops = heap_alloc((to - from) * sizeof *ops);
    struct linear_verdict v;
    size_t n = 0;
    for (size_t i = from; i < to; i++)
        if (!tells_nothing(&records[i].op))
            ops[n++] = records[i].op;
    bool good = linear_check(ops, n, &v);
    if (!good)
        show(&records[from], ops, n, &v);
    free(ops);
    return good;
}

struct span { // of a group
    const char *group;
    int64_t first, last;
};

static int by_first(const void *pa, const void *pb) {
    const struct span *a = pa, *b = pb;
    return a->first < b->first ? -1 : a->first > b->first;
}

static size_t groups, overlaps;

static void check_groups(void) {
    struct span *all = heap_alloc((count + 1) * sizeof *all);
    for (size_t i = 0; i < count; i++) { // in the order of groups
        const struct linear_op *o = &records[i].op;
        if (i == 0 || strcmp(records[i].group, records[i - 1].group) != 0)
            all[groups++] = (struct span){records[i].group, o->call, o->back};
        struct span *s = &all[groups - 1];
        s->first = o->call < s->first ? o->call : s->first;
        s->last = o->back > s->last ? o->back : s->last;
    }
    qsort(all, groups, sizeof *all, by_first);
    for (size_t i = 1, last = 0; i < groups; i++) {
        if (all[i].first < all[last].last) {
            overlaps++;
            printf("TWO GROUPS AT ONCE: %s worked %.3f ms beside %s\n", all[last].group,
                   (double)(all[last].last - all[i].first) / 1e6, all[i].group);
        }
        last = all[i].last > all[last].last ? i : last;
    }
    free(all);
}

int main(int argc, char **argv) {
    size_t keys = 0, wrong = 0, lost = 0;
    for (int i = 1; i < argc; i++)
        read_file(argv[i], i);
    if (count > 1)
        qsort(records, count, sizeof *records, by_key);
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && strcmp(records[to].group, records[from].group) == 0 &&
                            strcmp(records[to].key, records[from].key) == 0;)
            to++;
        keys++;
        wrong += !check_key(from, to);
    }
    for (size_t i = 0; i < count; i++)
        lost += !records[i].op.back;
    check_groups();
    printf("operations=%zu keys=%zu groups=%zu unanswered=%zu wrong=%zu overlaps=%zu\n", count,
           keys, groups, lost, wrong, overlaps);
    free(records);
    arena_fini(&arena);
    return wrong || overlaps;
}
