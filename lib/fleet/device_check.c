// SPDX-License-Identifier: Apache-2.0
// Asks the nodes for their GPUs, by the trainer for GPUs.
#include "fleet/device_check.h"

#include "fleet/embedded_files.h"
#include "fleet/fleet_transfer.h"

#include <string.h>

static const char PROGRAM[] = "dttrain-cuda";

static const char *text_of(struct arena *a, const struct json *j, const char *key) {
    const char *text = json_get_str(j, key, "");
    return str_printable(a, text, strlen(text));
}

static void read_list(struct arena *a, const char *text, struct device_check *c) {
    char **lines = NULL;
    size_t count = str_split(a, text, '\n', &lines);
    c->lines = arena_new(a, struct device_check_line, DEVICE_CHECK_LINES_MAX);
    for (size_t i = 0; i < count && c->count < DEVICE_CHECK_LINES_MAX; i++) {
        struct json *j = NULL;
        struct err ignored = {0};
        if (lines[i][0] && json_parse(a, lines[i], strlen(lines[i]), &j, &ignored) == 0)
            c->lines[c->count++] = (struct device_check_line){
                .ok = json_get_bool(j, "ok", false),
                .nccl = strcmp(json_get_str(j, "device", ""), "nccl") == 0,
                .index = (int)json_get_int(j, "index", -1),
                .version = text_of(a, j, "version"),
                .text = text_of(a, j, "text"),
            };
    }
}

static void on_listed(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct device_check *c = n->work;
    struct err e = {0};
    if (fleet_answer(r, &e) == 0)
        read_list(n->fleet->context->arena, r->out, c);
    if (e.code == ERR_NONE && c->count == 0)
        err_set(&e, ERR_FAILED, "%s --devices printed nothing there", PROGRAM);
    fleet_done(n, &e);
}

static int start_listing(struct fleet_node *n, struct err *e) {
    struct arena *a = n->fleet->context->arena;
    if (n->facts.gpus <= 0) {
        fleet_done(n, NULL);
        return 0;
    }
    const char *path = arena_printf(a, "%s/%s", n->facts.root, embedded_program_path(a, PROGRAM));
    const char *line = arena_printf(a, "%s --devices", transport_path_word(a, path));
    return transport_collect(n->link, line, NULL, 0, on_listed, n, e);
}

int device_check(struct fleet *f, struct device_check *checks, struct err *e) {
    struct arena *a = f->context->arena;
    struct manifest *program = manifest_new(),
                    **all = arena_new(a, struct manifest *, f->count + 1);
    size_t with = 0;
    for (size_t i = 0; i < f->count; i++)
        if (!f->nodes[i].failed && f->nodes[i].facts.gpus > 0) {
            all[i] = program;
            with++;
        }
    int result = 0;
    if (with && embedded_find(PROGRAM)) {
        result = embedded_add_program(program, a, PROGRAM, e);
        if (result == 0)
            result = manifest_hash(program, NULL, NULL, NULL, e);
        if (result == 0)
            result = fleet_send_manifests(f, NULL, all, "", XFER_MERGE, NULL, e);
        for (size_t i = 0; i < f->count; i++)
            f->nodes[i].work = &checks[i];
        if (result == 0)
            result = fleet_each(f, NULL, start_listing, e);
        for (size_t i = 0; i < f->count; i++)
            f->nodes[i].work = NULL;
    }
    manifest_free(program);
    return result;
}
