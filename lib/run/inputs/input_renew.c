// SPDX-License-Identifier: Apache-2.0
// Signs the addresses of streamed inputs again.
#include "run/inputs/input_renew.h"

#include "base/clock.h"
#include "base/log.h"
#include "fleet/embedded_files.h"
#include "run/dtdata.h"
#include "run/inputs/input_remote.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

void input_renew_open(struct input_renew *r, struct run_start *l, struct follow *f) {
    *r = (struct input_renew){.launch = l, .follow = f};
}

void input_renew_close(struct input_renew *r) {
    for (struct input_renew_list *l = r->lists; l; l = l->next)
        strbuf_fini(&l->text);
    *r = (struct input_renew){.follow = NULL};
}

// NULL: this side has no streamed input of that name.
static const char *source_of(const struct input_renew *r, const char *name) {
    const struct config *c = r->follow->context->config;
    const struct config_input *inputs = c->inputs.items;
    for (size_t i = 0; r->launch && i < r->launch->input_count; i++)
        if (str_eq(r->launch->inputs[i].name, name) && r->launch->inputs[i].remote)
            return r->launch->inputs[i].source;
    for (size_t i = 0; !r->launch && i < c->inputs.count; i++)
        if (str_eq(inputs[i].name, name) && config_input_is_streamed(&inputs[i]) &&
            input_remote_is(inputs[i].source))
            return inputs[i].source;
    return NULL;
}

// The lines of dtdata's list without its first one and its last one.
static int fill(struct input_renew_list *l, char *text, struct err *e) {
    struct arena a = {0};
    struct json *header;
    char *first = strchr(text, '\n'), *last = strrchr(text, '{');
    int result = first && last > first ? json_parse(&a, text, (size_t)(first - text), &header, e)
                                       : err_set(e, ERR_FORMAT, "the list of objects was cut off");
    if (result == 0) {
        struct json_out j;
        l->ends_ms = json_get_int(header, "ends", 0);
        strbuf_clear(&l->text);
        json_open(&j, &l->text);
        json_object(&j, NULL);
        json_str(&j, "input", l->name);
        json_end(&j);
        strbuf_addc(&l->text, '\n');
        strbuf_add(&l->text, first + 1, (size_t)(last - first - 1));
        strbuf_addf(&l->text, "{\"end\":true,\"ends\":%lld}\n", (long long)l->ends_ms);
    }
    arena_fini(&a);
    return result;
}

static struct input_renew_list *list_of(struct input_renew *r, const char *name) {
    struct arena *a = r->follow->context->arena;
    for (struct input_renew_list *l = r->lists; l; l = l->next)
        if (strcmp(l->name, name) == 0)
            return l;
    struct input_renew_list *l = arena_new(a, struct input_renew_list, 1);
    l->name = arena_strdup(a, name);
    l->next = r->lists;
    r->lists = l;
    return l;
}

// Lists the source, unless that was done a moment ago for another node.
static int refresh(struct input_renew *r, struct input_renew_list *l, struct err *e) {
    const char *source = source_of(r, l->name), *args[] = {"list", source, NULL};
    const struct dtdata_call call = {.args = args,
                                     .bytes_max = INPUT_REMOTE_LIST_BYTES_MAX,
                                     .ms_max = INPUT_REMOTE_LIST_MS_MAX,
                                     .alone = true};
    char *text = NULL;
    int64_t now = clock_mono_ms();
    if (!source)
        return err_set(e, ERR_CONFIG, "dtctl.toml has no streamed input '%.64s' any more", l->name);
    if (l->text.len && now - l->at_ms < INPUT_RENEW_LIST_MS_MAX)
        return 0;
    int result = dtdata_run(r->follow->context, &call, &text, e);
    if (result == 0)
        result = fill(l, text, e);
    free(text);
    l->at_ms = clock_mono_ms();
    return result;
}

static void say_failed(const struct fleet_node *n, const struct err *e) {
    screen_note(n->fleet->context->screen,
                "%s: the addresses of a streamed input are not renewed: %s", n->info->name,
                e->text);
}

static void on_answer(void *ctx, const struct transport_result *result) {
    const struct fleet_node *n = ctx;
    struct err e = {0};
    if (fleet_answer(result, &e) < 0)
        say_failed(n, &e);
}

static int send_list(const struct fleet_node *n, const char *run_id,
                     const struct input_renew_list *l, struct err *e) {
    struct arena a = {0};
    const char *program = file_join(&a, n->facts.root, embedded_program_path(&a, DTDATA_PROGRAM));
    const char *run_dir = file_join(&a, n->facts.root, run_node_dir(&a, run_id, ""));
    const char *line = arena_printf(&a, "%s renew %s", transport_path_word(&a, program),
                                    transport_path_word(&a, run_dir));
    int result = n->up && n->ready ? transport_collect(n->link, line, l->text.data, l->text.len,
                                                       on_answer, (void *)(uintptr_t)n, e)
                                   : err_set(e, ERR_NET, "the node is out of reach");
    arena_fini(&a);
    return result;
}

void input_renew_node(struct input_renew *r, const struct follow_node *n,
                      const struct json *event) {
    const char *name = json_get_str(event, "input", "");
    struct err e = {0};
    if (!r->follow || r->follow->replaying || r->follow->stopping || !str_is_name(name, 64))
        return;
    struct input_renew_list *l = list_of(r, name);
    if (refresh(r, l, &e) < 0 || send_list(n->node, r->follow->run->id, l, &e) < 0)
        say_failed(n->node, &e);
}
