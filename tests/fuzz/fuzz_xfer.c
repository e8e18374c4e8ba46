// SPDX-License-Identifier: Apache-2.0
// A hostile sender: any bytes as frames, received into a real folder. Nothing may appear outside of
// it. And a hostile receiver: the same bytes as answers to a plan.
#include "sys/file.h"
#include "xfer/xfer_receiver.h"
#include "xfer/xfer_sender.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 1000 };

static char top[64], dest[128], store[128];

static void prepare(void) {
    snprintf(top, sizeof top, "/tmp/fuzz_xfer.XXXXXX");
    must(mkdtemp(top) != NULL);
    snprintf(dest, sizeof dest, "%s/dest", top);
    snprintf(store, sizeof store, "%s/dest/.part", top);
    struct err e;
    must(file_make_dirs(dest, 0700, &e) == 0);
}

static void check_outside(void) {
    DIR *d = opendir(top);
    must(d != NULL);
    for (struct dirent *i; (i = readdir(d));)
        must(i->d_name[0] == '.' || strncmp(i->d_name, "dest", 4) == 0);
    closedir(d);
}

static void as_receiver(const uint8_t *data, size_t size) {
    struct receive r;
    struct receive_config config = {
        .dest = dest, .store = store, .replace = size % 2, .keep = size % 3 == 0, .acks = true};
    struct xfer_unpacker u = {0};
    struct xfer_frame f;
    struct strbuf out = {0};
    struct err e;
    int rc = xfer_receive_open(&r, &config, &e);
    while (rc >= 0 && xfer_wire_take(&u, data, size, &f, &e) > 0) {
        data += f.wire_bytes;
        size -= f.wire_bytes;
        struct arena a = {0};
        struct xfer_relay_peer peer;
        struct xfer_push_hello hello;
        (void)xfer_get_relay_peer(&f, &a, &peer, &e);
        (void)xfer_get_push_hello(&f, &a, &hello, &e);
        arena_fini(&a);
        rc = xfer_receive_frame(&r, &f, &out, &e);
        for (int i = 0; rc >= 0 && i < STEPS_MAX && (rc = xfer_receive_step(&r, &out, &e)) > 0; i++)
            ;
    }
    xfer_receive_close(&r);
    xfer_unpacker_fini(&u);
    strbuf_fini(&out);
}

static void as_sender(const uint8_t *data, size_t size) {
    static const char content[] = "content";
    struct manifest *m = manifest_new();
    struct err e;
    struct manifest_entry large = {.path = "large",
                                   .source = "/nonexistent",
                                   .kind = MANIFEST_FILE,
                                   .size = 3 * (uint64_t)CAS_UNIT_BYTES + 5,
                                   .hashed = true};
    manifest_add_bytes(m, "small", content, sizeof content, 0644, &e);
    manifest_append(m, &large, &e);
    must(manifest_hash(m, NULL, NULL, NULL, &e) == 0);
    struct send_plan plan;
    struct send_stream s;
    struct strbuf out = {0};
    struct xfer_frame f = {XFER_NEED, data, size, size};
    xfer_send_plan_init(&plan, m);
    if (xfer_send_plan_need(&plan, &f, &e) == 0) {
        xfer_send_plan_ready(&plan);
        xfer_send_stream_init(&s, &plan, size % 2);
        for (int i = 0; i < 100 && xfer_send_stream_fill(&s, &out, true, &e) > 0; i++)
            (void)xfer_send_stream_ack(&s, size > 8 ? bytes_load(data, 8) : 0, &e);
        xfer_send_stream_return(&s);
        xfer_send_stream_fini(&s);
    }
    xfer_send_plan_fini(&plan);
    strbuf_fini(&out);
    manifest_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    prepare();
    as_receiver(data, size);
    check_outside();
    as_sender(data, size);
    struct err e;
    (void)file_remove_tree(top, &e);
    return 0;
}
