// SPDX-License-Identifier: Apache-2.0
// Takes what a share lacks from other nodes, one node after the other.
#include "copies/input_redeal.h"

#include "base/clock.h"
#include "base/log.h"
#include "content/extract.h"
#include "copies/input_shares.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct input_redeal {
    const struct keeper_state *keeper;
    struct loop *loop;
    struct cas cas;
    struct input_shares inputs[JOB_INPUTS_MAX];
    bool bad[REPLICA_PEERS_MAX]; // gave wrong content
    uint64_t bytes;              // that have come
};

// The content to take, or to count.
struct wants {
    struct content_item *items; // by hash, each once
    bool *came;
    int *holders; // NULL: take
    size_t count, left;
    bool paced;
};

// One connection to a node.
struct visit {
    struct input_redeal *redeal;
    struct wants *wants;
    struct channel link;
    struct timer limit;
    struct content_receiver receiver;
    struct content_item *batch;
    size_t *places; // of the batch's items in wants
    bool *came;
    int *holders;
    size_t next;
    bool over;
    struct err err;
};

// ---- one node -----------------------------------------------------------------------------------

static void on_batch(struct content_receiver *t, const struct err *e);

static void visit_over(struct visit *v, const struct err *e) {
    if (v->over)
        return;
    v->over = true;
    v->err = *e;
    content_receiver_close(&v->receiver);
}

static void on_limit(struct timer *t) {
    struct err e = {0};
    err_set(&e, ERR_TIMEOUT, "it does not answer");
    visit_over(container_of(t, struct visit, limit), &e);
}

// Asks for the next items that have not come.
static void begin_batch(struct visit *v) {
    const struct wants *w = v->wants;
    size_t count = 0;
    for (; v->next < w->count && count < CONTENT_ITEMS_MAX; v->next++)
        if (w->holders || !w->came[v->next]) {
            v->batch[count] = w->items[v->next];
            v->places[count] = v->next;
            v->came[count] = false;
            v->holders[count++] = 0;
        }
    if (count == 0) {
        visit_over(v, &(struct err){0});
        return;
    }
    v->receiver = (struct content_receiver){.loop = v->redeal->loop,
                                            .link = &v->link,
                                            .cas = &v->redeal->cas,
                                            .items = v->batch,
                                            .count = count,
                                            .came = v->came,
                                            .holders = w->holders ? v->holders : NULL,
                                            .paced = w->paced,
                                            .on_end = on_batch,
                                            .ctx = v};
    content_receiver_open(&v->receiver);
}

// Also after a failure: what has come is kept.
static void keep_batch(struct visit *v) {
    struct wants *w = v->wants;
    for (size_t i = 0; i < v->receiver.count; i++) {
        if (w->holders)
            w->holders[v->places[i]] += v->holders[i];
        if (v->came[i] && !w->came[v->places[i]]) {
            w->came[v->places[i]] = true;
            w->left--;
            v->redeal->bytes += v->batch[i].size;
        }
    }
    v->receiver.count = 0;
}

static void on_batch(struct content_receiver *t, const struct err *e) {
    struct visit *v = t->ctx;
    keep_batch(v);
    if (e->code)
        visit_over(v, e);
    else
        begin_batch(v);
}

static void on_ready(struct channel *l) {
    begin_batch(l->ctx);
}

static void on_message(struct channel *l, const struct wire_msg *m) {
    struct visit *v = l->ctx;
    timer_start(v->redeal->loop, &v->limit, KEEPER_IDLE_MS_MAX, on_limit);
    if (!v->over)
        content_receiver_message(&v->receiver, m);
}

static void on_end(struct channel *l, const struct err *e) {
    struct err closed = {0};
    err_set(&closed, ERR_NET, "its connection closed");
    visit_over(l->ctx, e->code ? e : &closed);
}

static const struct channel_events events = {on_ready, on_message, on_end};

// Takes or counts what this node has.
static int visit(struct input_redeal *d, struct wants *w, const struct holder *h, struct err *e) {
    struct arena a = {0};
    struct visit v = {.redeal = d,
                      .wants = w,
                      .batch = arena_new(&a, struct content_item, CONTENT_ITEMS_MAX),
                      .places = arena_new(&a, size_t, CONTENT_ITEMS_MAX),
                      .came = arena_new(&a, bool, CONTENT_ITEMS_MAX),
                      .holders = arena_new(&a, int, CONTENT_ITEMS_MAX)};
    v.link.ctx = &v;
    int rc = keeper_connect(d->keeper, h, &v.link, d->loop, &events, e);
    if (rc == 0) {
        timer_start(d->loop, &v.limit, KEEPER_IDLE_MS_MAX, on_limit);
        while (!v.over)
            loop_once(d->loop, -1);
        keep_batch(&v);
        rc = v.err.code ? -1 : 0;
        *e = v.err;
    }
    timer_stop(&v.limit);
    content_receiver_close(&v.receiver);
    channel_close(&v.link);
    loop_once(d->loop, 0);
    arena_fini(&a);
    return rc;
}

// ---- all nodes ----------------------------------------------------------------------------------

// True when a node could not be asked.
static bool visit_all(struct input_redeal *d, struct wants *w) {
    const struct keeper_state *s = d->keeper;
    bool missed = false;
    for (int i = 0; i < s->count && (w->holders || w->left); i++) {
        struct err e = {0};
        if (d->bad[i] || visit(d, w, &s->ring[i], &e) == 0)
            continue;
        d->bad[i] = e.code == ERR_HASH;
        missed |= !d->bad[i];
        log_warn(d->bad[i] ? "a node gives wrong content, and is not asked again"
                           : "a node cannot be asked for files of inputs",
                 "node=%s reason=\"%s\"", s->ring[i].name, e.text);
    }
    return missed;
}

static void take(struct input_redeal *d, struct wants *w) {
    for (int try = 0; try < REDEAL_TRIES_MAX && w->left; try++) {
        if (try)
            usleep(REDEAL_PAUSE_MS * 1000);
        if (!visit_all(d, w))
            return;
    }
}

// The content of a list that the store lacks, each once.
static void find_missing(struct input_redeal *d, struct arena *a, struct content_item *items,
                         size_t count, struct wants *w) {
    *w = (struct wants){.items = items};
    if (count)
        qsort(items, count, sizeof *items, content_order);
    for (size_t i = 0; i < count; i++)
        if ((i == 0 || content_order(&items[i], &items[i - 1]) != 0) &&
            !content_is_here(&d->cas, &items[i]))
            items[w->count++] = items[i];
    w->left = w->count;
    w->came = arena_new(a, bool, w->count + 1);
}

static uint64_t bytes_of(const struct wants *w) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->count; i++)
        bytes += w->items[i].size;
    return bytes;
}

static uint64_t bytes_that_came(const struct wants *w) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < w->count; i++)
        bytes += w->came[i] ? w->items[i].size : 0;
    return bytes;
}

static int check_disk(const struct input_redeal *d, const struct wants *w, struct err *e) {
    uint64_t need = bytes_of(w) + REDEAL_DISK_SPARE_BYTES, free = 0;
    char want[STR_HUMAN_BYTES_MAX], have[STR_HUMAN_BYTES_MAX];
    if (w->count == 0)
        return 0;
    if (file_disk_free(d->cas.dir, &free, e) < 0)
        return -1;
    return free >= need ? 0
                        : err_set(e, ERR_LIMIT, "%s are needed on the disk, and %s are free",
                                  str_human_bytes(want, need), str_human_bytes(have, free));
}

// ---- notes --------------------------------------------------------------------------------------

static void note(struct input_redeal *d, enum keeper_note kind, const char *input, size_t files,
                 uint64_t bytes, const char *reason) {
    struct wire_msg m = {.type = WIRE_STATE_NOTE,
                         .kind = kind,
                         .name = input,
                         .number = d->keeper->round,
                         .file = (int64_t)files,
                         .bytes = (int64_t)bytes,
                         .group_rank = d->keeper->rank,
                         .group_world = d->keeper->nodes,
                         .reason = reason};
    keeper_send_note(d->keeper, &m);
}

// ---- shares -------------------------------------------------------------------------------------

// The name of a file with this content.
static const char *name_of(const struct input_shares *s, const struct content_item *item) {
    for (size_t i = 0; i < s->manifest->count; i++)
        if (s->manifest->entries[i].kind == MANIFEST_FILE &&
            memcmp(s->manifest->entries[i].hash, item->hash, HASH_BYTES) == 0)
            return s->manifest->entries[i].path;
    return "";
}

static int say_nowhere(const struct input_shares *s, const struct wants *w, struct err *e) {
    size_t first = 0;
    while (w->came[first])
        first++;
    return err_set(e, ERR_NOT_FOUND,
                   "%zu of the files of this node's share, such as '%.200s', are on no node that "
                   "is left (try: start the run again, which sends them; a larger "
                   "inputs.%s.replicas than %d keeps them on more nodes)",
                   w->left, name_of(s, &w->items[first]), s->input->name, s->input->deal->replicas);
}

static int64_t time_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000
                                : 0;
}

// When the newest bytes of the share came, by the wall clock.
static int64_t newest_ms(struct input_redeal *d, const struct wants *w, const char *folder) {
    int64_t newest = time_of(folder);
    for (size_t i = 0; i < w->count; i++) {
        int64_t ms = w->came[i] ? 0 : time_of(cas_part_path(&d->cas, w->items[i].hash, ".part"));
        newest = ms > newest ? ms : newest;
    }
    cas_forget_paths(&d->cas);
    return newest;
}

// The operator's side sends the share as a whole, with its folder.
static bool comes_from_source(struct input_redeal *d, const struct input_shares *s,
                              const struct wants *w) {
    const struct keeper_state *k = d->keeper;
    struct arena a = {0};
    const char *folder = job_share_folder(&a, s->input->path, s->nodes, k->rank);
    int64_t until = clock_mono_ms() + k->spec->source_ms, newest = newest_ms(d, w, folder), now;
    bool placed = false;
    note(d, KEEPER_LACKS, s->input->name, w->left, 0, "");
    while (!(placed = input_shares_is_placed(s, &d->cas, k->rank)) && clock_mono_ms() < until) {
        usleep(REDEAL_LOOK_MS * 1000);
        now = newest_ms(d, w, folder);
        if (now != newest)
            until = clock_mono_ms() + k->spec->source_ms;
        newest = now;
    }
    arena_fini(&a);
    return placed;
}

static int unpack_share(const struct input_redeal *d, const struct input_shares *s, struct err *e) {
    const struct keeper_state *k = d->keeper;
    struct arena a = {0};
    const char *folder = job_share_folder(&a, s->input->path, s->nodes, k->rank);
    bool made = false;
    int rc = s->input->deal->extracts ? extract_once(folder, job_input_tree(&a, folder),
                                                     k->spec->locks, NULL, NULL, &made, e)
                                      : 0;
    if (made && rc == 0)
        log_info("archives of an input were unpacked", "input=%s", s->input->name);
    arena_fini(&a);
    return rc;
}

static int bring_share(struct input_redeal *d, struct input_shares *s, struct err *e) {
    const struct keeper_state *k = d->keeper;
    struct arena a = {0};
    struct content_item *items = NULL;
    struct wants w = {0};
    size_t count = 0, room = 0;
    int rc = 0;
    if (!input_shares_is_placed(s, &d->cas, k->rank)) {
        input_shares_add_content(s, &a, k->rank, &items, &count, &room);
        find_missing(d, &a, items, count, &w);
        rc = check_disk(d, &w, e);
        if (rc == 0)
            take(d, &w);
        bool placed = rc == 0 && w.left && comes_from_source(d, s, &w);
        if (rc == 0 && w.left && !placed)
            rc = say_nowhere(s, &w, e);
        if (rc == 0 && !placed)
            rc = input_shares_place(s, &d->cas, k->rank, e);
    }
    if (rc == 0)
        rc = input_shares_write_list(s, k->spec->run_dir, k->rank, e);
    if (rc == 0)
        rc = unpack_share(d, s, e);
    if (rc == 0)
        note(d, KEEPER_DEALT, s->input->name, w.count - w.left, bytes_that_came(&w), "");
    arena_fini(&a);
    return rc < 0 ? err_wrap(e, "input '%s'", s->input->name) : 0;
}

static int bring_shares(struct input_redeal *d, struct err *e) {
    const struct keeper_spec *spec = d->keeper->spec;
    for (int i = 0; i < spec->input_count; i++) {
        struct input_shares *s = &d->inputs[i];
        if (input_shares_open(s, &spec->inputs[i], spec->run_dir, e) < 0 ||
            input_shares_deal(s, d->keeper->nodes, e) < 0 || bring_share(d, s, e) < 0)
            return -1;
    }
    struct err ignored; // of the cache: content is hashed again
    (void)hash_cache_save(d->cas.hashes, &ignored);
    return cas_flush(&d->cas, e);
}

// ---- copies -------------------------------------------------------------------------------------

// Leaves what fewer nodes have than are to keep it.
static void leave_rare(struct input_redeal *d, struct wants *w, struct arena *a, int holders) {
    size_t count = 0;
    w->holders = arena_new(a, int, w->count);
    (void)visit_all(d, w);
    for (size_t i = 0; i < w->count; i++)
        if (w->holders[i] < holders)
            w->items[count++] = w->items[i];
    w->holders = NULL;
    w->count = w->left = count;
}

// The shares of the nodes in front of this one.
static void keep_copies(struct input_redeal *d, const struct input_shares *s) {
    const struct keeper_state *k = d->keeper;
    int replicas = s->input->deal->replicas;
    struct arena a = {0};
    struct content_item *items = NULL;
    struct wants w;
    struct err e = {0};
    size_t count = 0, room = 0;
    for (int i = 1; i <= replicas && i < s->nodes; i++)
        input_shares_add_content(s, &a, (k->rank + s->nodes - i) % s->nodes, &items, &count, &room);
    find_missing(d, &a, items, count, &w);
    if (w.count)
        leave_rare(d, &w, &a, replicas + 1);
    w.paced = true;
    uint64_t before = d->bytes;
    if (check_disk(d, &w, &e) == 0)
        take(d, &w);
    if (cas_flush(&d->cas, &e) < 0 || w.left)
        log_warn("files of an input are on fewer nodes than they should", "input=%s files=%zu%s%s",
                 s->input->name, w.left, e.code ? " reason=" : "", e.code ? e.text : "");
    else
        note(d, KEEPER_KEPT, s->input->name, w.count, d->bytes - before, "");
    arena_fini(&a);
}

_Noreturn void input_redeal_main(const struct keeper_state *s) {
    static struct input_redeal redeal; // the fork's own
    struct input_redeal *d = &redeal;
    struct err e = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "dtrun-redeal");
    keeper_close_others(s->fd);
    *d = (struct input_redeal){.keeper = s, .loop = loop_open(&e)};
    if (!d->loop || cas_open(&d->cas, s->spec->store, &e) < 0 || cas_load(&d->cas, &e) < 0 ||
        bring_shares(d, &e) < 0) {
        note(d, KEEPER_INPUTS, "", 0, 0, e.text);
        _exit(0);
    }
    note(d, KEEPER_INPUTS, "", 0, 0, "");
    for (int i = 0; i < s->spec->input_count; i++)
        keep_copies(d, &d->inputs[i]);
    (void)hash_cache_save(d->cas.hashes, &e);
    _exit(0);
}
