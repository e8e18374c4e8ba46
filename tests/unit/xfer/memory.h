// SPDX-License-Identifier: Apache-2.0
// A transfer in memory: sender and receiver exchange frames without a network.
#ifndef TESTS_UNIT_XFER_MEMORY_H
#define TESTS_UNIT_XFER_MEMORY_H

#include "base/str.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "tests/tap.h"
#include "tests/unit/bytes_read.h"
#include "tests/unit/shell.h"
#include "xfer/xfer_receiver.h"
#include "xfer/xfer_sender.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test_xfer.XXXXXX"; // made by begin
static struct arena arena;

static inline char *path_of(const char *name) {
    return arena_printf(&arena, "%s/%s", folder, name);
}

static inline void put(const char *name, const void *p, size_t len, mode_t mode) {
    struct err e;
    char *path = path_of(name);
    if (file_make_dirs(file_dir(&arena, path), 0755, &e) < 0 ||
        file_write_atomic(path, p, len, mode, &e) < 0)
        bail_out("%s", e.text);
}

static inline bool same_file(const char *a, const char *b) {
    char *command = arena_printf(&arena, "cmp -s %s %s", path_of(a), path_of(b));
    return shell(command) == 0;
}

static inline bool same_tree(const char *a, const char *b) {
    char *command =
        arena_printf(&arena, "diff -r --no-dereference %s %s >&2", path_of(a), path_of(b));
    return shell(command) == 0;
}

static inline struct manifest *scan(const char *name) {
    struct manifest *m = manifest_new();
    struct err e;
    if (manifest_add_path(m, path_of(name), "", NULL, &e) < 0 ||
        manifest_hash(m, NULL, NULL, NULL, &e) < 0)
        bail_out("%s", e.text);
    return m;
}

// ---- a transfer in memory ---------------------------------------------------------------------

struct run {
    struct receive r;
    struct send_plan plan;
    struct xfer_packer packer;
    struct xfer_unpacker to_r, to_s;
    struct strbuf forth, back;
    size_t frames_max; // content frames before the cut; 0: no cut
    bool compress, planned, ready, result;
    struct err err;
};

static uint64_t step_bytes_max; // that one step has read

static inline int steps(struct run *t) {
    int rc;
    do {
        uint64_t before = bytes_read();
        rc = xfer_receive_step(&t->r, &t->back, &t->err);
        uint64_t bytes = bytes_read() - before;
        step_bytes_max = bytes > step_bytes_max ? bytes : step_bytes_max;
    } while (rc > 0);
    return rc;
}

// Everything in `forth` goes to the receiver.
static inline int deliver(struct run *t) {
    struct xfer_frame f;
    size_t used = 0;
    int rc = 0;
    while ((rc = xfer_wire_take(&t->to_r, strbuf_cstr(&t->forth) + used, t->forth.len - used, &f,
                                &t->err)) > 0) {
        used += f.wire_bytes;
        if (xfer_receive_frame(&t->r, &f, &t->back, &t->err) < 0 || steps(t) < 0)
            return -1;
    }
    strbuf_clear(&t->forth);
    return rc;
}

// Everything in `back` goes to the sender.
static inline int answer(struct run *t, struct send_stream *s) {
    struct xfer_frame f;
    size_t used = 0;
    int rc = 0;
    while ((rc = xfer_wire_take(&t->to_s, strbuf_cstr(&t->back) + used, t->back.len - used, &f,
                                &t->err)) > 0) {
        used += f.wire_bytes;
        if (f.type == XFER_NEED && xfer_send_plan_need(&t->plan, &f, &t->err) < 0)
            return -1;
        if (f.type == XFER_ACK && s && xfer_send_stream_ack(s, bytes_load(f.data, 8), &t->err) < 0)
            return -1;
        t->ready |= f.type == XFER_NEED_END;
        t->result |= f.type == XFER_RESULT;
    }
    strbuf_clear(&t->back);
    return rc;
}

static inline int run_list(struct run *t, const struct manifest *m) {
    for (size_t next = 0; !xfer_wire_entries(&t->packer, &t->forth, m, &next, 1000, t->compress);)
        ;
    xfer_send_plan_init(&t->plan, m);
    t->planned = true;
    return deliver(t) < 0 || answer(t, NULL) < 0 ? -1 : 0;
}

static inline int run_content(struct run *t) {
    struct send_stream s;
    int rc = 0;
    xfer_send_plan_ready(&t->plan);
    xfer_send_stream_init(&s, &t->plan, false);
    for (size_t n = 0; rc == 0 && xfer_send_stream_fill(&s, &t->forth, t->compress, &t->err) > 0;
         n++) {
        if (t->frames_max && n == t->frames_max) {
            rc = err_set(&t->err, ERR_NET, "cut");
            break;
        }
        rc = deliver(t) < 0 || answer(t, &s) < 0 ? -1 : 0;
    }
    xfer_send_stream_fini(&s);
    if (rc == 0 && t->plan.files) {
        xfer_wire_frame(&t->forth, XFER_DONE, NULL, 0);
        rc = deliver(t) < 0 || answer(t, NULL) < 0 ? -1 : 0;
    }
    return rc;
}

static inline int transfer(struct run *t, const struct manifest *m, const char *dest,
                           const char *store, bool replace, bool keep) {
    struct receive_config config = {.dest = path_of(dest),
                                    .store = path_of(store),
                                    .replace = replace,
                                    .keep = keep,
                                    .acks = true};
    int rc = xfer_receive_open(&t->r, &config, &t->err);
    if (rc == 0)
        rc = run_list(t, m);
    if (rc == 0 && !t->ready)
        rc = err_set(&t->err, ERR_FAILED, "no answer to the list");
    if (rc == 0)
        rc = run_content(t);
    if (rc == 0 && !t->result)
        rc = err_set(&t->err, ERR_FAILED, "no result");
    xfer_receive_close(&t->r);
    if (t->planned && rc < 0)
        t->result = false;
    xfer_unpacker_fini(&t->to_r);
    xfer_unpacker_fini(&t->to_s);
    strbuf_fini(&t->forth);
    strbuf_fini(&t->back);
    return rc;
}

static inline uint64_t plan_bytes(struct run *t) {
    uint64_t bytes = t->plan.bytes;
    xfer_send_plan_fini(&t->plan);
    return bytes;
}

// ---- files ------------------------------------------------------------------------------------

static inline void make_tree(void) {
    size_t len = 13 << 20;
    unsigned char *p = heap_alloc(len);
    uint32_t x = 1;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (unsigned char)(x >> 24);
    }
    put("src/big", p, len, 0644);
    put("src/copy/big", p, len, 0600);
    put("src/edge", p + 7, XFER_SMALL_BYTES_MAX, 0644);
    put("src/edge1", p + 9, XFER_SMALL_BYTES_MAX + 1, 0644);
    put("src/unit", p + 11, CAS_UNIT_BYTES, 0644);
    put("src/unit1", p + 13, CAS_UNIT_BYTES + 1, 0644);
    put("src/empty", "", 0, 0644);
    memset(p, 'z', len);
    put("src/flat", p, 5 << 20, 0644);
    for (int i = 0; i < 300; i++) {
        char name[64];
        snprintf(name, sizeof name, "src/many/%d/%d", i % 7, i);
        put(name, p, (size_t)i * 3, i % 2 ? 0644 : 0755);
    }
    if (symlink("many/1", path_of("src/link")) < 0)
        bail_out("symlink");
    free(p);
}

#endif
