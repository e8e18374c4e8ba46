// SPDX-License-Identifier: Apache-2.0
// Sends a node its list of objects, and follows the answers of dtdata there.
#include "run/inputs/input_get.h"

#include "fleet/embedded_files.h"
#include "run/dtdata.h"
#include "sys/file.h"

#include <string.h>

void input_get_close(struct input_get *g) {
    if (g->run)
        transport_run_close(g->run);
    g->run = NULL;
    strbuf_fini(&g->line);
    strbuf_fini(&g->words);
    arena_fini(&g->scratch);
}

static void finish(struct input_get *g, const struct err *e) {
    input_get_close(g);
    g->on_over(g, e);
}

static void on_room(struct transport_run *r, void *ctx) {
    struct input_get *g = ctx;
    const struct strbuf *input = g->list->input;
    while (g->sent < input->len) {
        size_t n = transport_run_send(r, input->data + g->sent, input->len - g->sent);
        g->sent += n;
        if (n == 0)
            return;
    }
}

static int take_hash(struct input_get *g, const struct json *j, struct err *e) {
    int64_t i = json_get_int(j, "i", -1);
    const char *hex = json_get_str(j, "sha256", "");
    const struct input_remote_list *list = g->list;
    unsigned char hash[HASH_BYTES];
    if (i < 0 || (uint64_t)i >= list->count || !hash_is_hex(hex))
        return err_set(e, ERR_FORMAT, "dtdata answers with an object that it was not asked for");
    if (str_unhex(hash, HASH_BYTES, hex, e) < 0)
        return -1;
    size_t at = list->entries ? list->entries[i] : (size_t)i;
    struct manifest_entry *entry = &list->files->entries[at];
    g->known++;
    if (list->came && list->came[at] && memcmp(entry->hash, hash, HASH_BYTES) != 0)
        return err_set(e, ERR_HASH, "'%s' is another one than the node before has read",
                       entry->source);
    if (list->came)
        list->came[at] = true;
    memcpy(entry->hash, hash, HASH_BYTES);
    return 0;
}

static int take_line(struct input_get *g, struct err *e) {
    struct json *j;
    arena_reset(&g->scratch);
    if (json_parse(&g->scratch, g->line.data, g->line.len, &j, e) < 0)
        return -1;
    strbuf_clear(&g->words);
    strbuf_add(&g->words, g->line.data, g->line.len);
    if (json_get(j, "i"))
        return take_hash(g, j, e);
    if (json_get(j, "total"))
        fleet_amount(g->node, (uint64_t)json_get_int(j, "done", 0),
                     (uint64_t)json_get_int(j, "total", 0));
    if (json_get(j, "end")) {
        g->ended = true;
        g->read = (uint64_t)json_get_int(j, "read", 0);
        g->again = (uint64_t)json_get_int(j, "again", 0);
    }
    return 0;
}

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct input_get *g = ctx;
    struct err e = {0};
    (void)r;
    for (const char *c = p; len; c++, len--) {
        if (*c != '\n') {
            strbuf_addc(&g->line, *c);
            if (g->line.len <= INPUT_REMOTE_ANSWER_BYTES_MAX)
                continue;
            err_set(&e, ERR_LIMIT, "dtdata answers with a line of more than %d bytes",
                    INPUT_REMOTE_ANSWER_BYTES_MAX);
        }
        if (e.code || take_line(g, &e) < 0) {
            finish(g, &e);
            return;
        }
        strbuf_clear(&g->line);
    }
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct input_get *g = ctx;
    struct transport_result result = {
        .end = *end, .out = strbuf_cstr(&g->words), .out_len = g->words.len, .err_text = ""};
    struct err e = {0};
    (void)r;
    if (fleet_answer(&result, &e) == 0 && (!g->ended || g->known != g->list->count))
        err_set(&e, ERR_NO_STATUS, "dtdata ended without an answer");
    g->run = NULL;
    finish(g, &e);
}

int input_get_begin(struct input_get *g, struct err *e) {
    static const struct transport_run_events events = {
        .on_output = on_output, .on_room = on_room, .on_end = on_end};
    const struct fleet_node *n = g->node;
    struct arena a = {0};
    *g = (struct input_get){.node = g->node, .list = g->list, .on_over = g->on_over};
    if (!str_ends(strbuf_cstr(g->list->input), INPUT_REMOTE_END))
        strbuf_adds(g->list->input, INPUT_REMOTE_END);
    const char *program = file_join(&a, n->facts.root, embedded_program_path(&a, DTDATA_PROGRAM));
    struct transport_command command = {
        .line = arena_printf(&a, "%s get %s", transport_path_word(&a, program),
                             transport_path_word(&a, file_join(&a, n->facts.root, "cas")))};
    g->run = transport_run(n->link, &command, &events, g, e);
    arena_fini(&a);
    if (!g->run)
        return -1;
    on_room(g->run, g);
    return 0;
}
