// SPDX-License-Identifier: Apache-2.0
// Signs the addresses of streamed inputs again.
#include "run/inputs/input_renew.h"

#include "base/clock.h"
#include "base/log.h"
#include "fleet/embedded_files.h"
#include "protocol/source_frames.h"
#include "run/inputs/input_remote.h"
#include "sys/file.h"

#include <string.h>

void input_renew_open(struct input_renew *r, struct run_start *l, struct follow *f) {
    *r = (struct input_renew){.launch = l, .follow = f};
}

void input_renew_close(struct input_renew *r) {
    for (struct input_renew_list *l = r->lists; l; l = l->next) {
        dtdata_beside_stop(&l->lister);
        strbuf_fini(&l->text);
    }
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

static struct input_renew_list *list_of(struct input_renew *r, const char *name) {
    struct arena *a = r->follow->context->arena;
    for (struct input_renew_list *l = r->lists; l; l = l->next)
        if (strcmp(l->name, name) == 0)
            return l;
    struct input_renew_list *l = arena_new(a, struct input_renew_list, 1);
    l->renew = r;
    l->name = arena_strdup(a, name);
    l->asks = arena_new(a, bool, r->follow->count);
    l->next = r->lists;
    r->lists = l;
    return l;
}

// Forgets the requests; the nodes will repeat them.
static void failed(struct input_renew_list *l, const struct err *e) {
    memset(l->asks, 0, l->renew->follow->count * sizeof *l->asks);
    l->old_ends_ms = 0;
    log_warn("the addresses of a streamed input are not renewed", "input=%s reason=\"%s\"", l->name,
             e->text);
}

// ---- to the nodes -------------------------------------------------------------------------------

static void on_answer(void *ctx, const struct transport_result *result) {
    const struct fleet_node *n = ctx;
    struct err e = {0};
    if (fleet_answer(result, &e) < 0)
        log_warn("a node does not take new addresses of a streamed input", "node=%s reason=\"%s\"",
                 n->info->name, e.text);
}

static int send_list(const struct fleet_node *n, const struct input_renew_list *l, struct err *e) {
    struct arena a = {0};
    const char *run_id = l->renew->follow->run->id;
    const char *program = file_join(&a, n->facts.root, embedded_program_path(&a, DTDATA_PROGRAM));
    const char *run_dir = file_join(&a, n->facts.root, run_node_dir(&a, run_id, ""));
    const char *line = arena_printf(&a, "%s renew %s", transport_path_word(&a, program),
                                    transport_path_word(&a, run_dir));
    source_clock_set(l->text.data, clock_wall_ms());
    int result = n->up && n->ready ? transport_collect(n->link, line, l->text.data, l->text.len,
                                                       on_answer, (void *)(uintptr_t)n, e)
                                   : err_set(e, ERR_NET, "the node is out of reach");
    arena_fini(&a);
    return result;
}

static void send_to_all(struct input_renew_list *l) {
    struct follow *f = l->renew->follow;
    for (size_t i = 0; i < f->count; i++) {
        const struct fleet_node *n = f->nodes[i].node;
        struct err e = {0};
        if (l->asks[i] && send_list(n, l, &e) < 0)
            log_warn("a node does not get new addresses of a streamed input",
                     "node=%s reason=\"%s\"", n->info->name, e.text);
        l->asks[i] = false;
    }
    l->old_ends_ms = 0;
}

// ---- the list -----------------------------------------------------------------------------------

int input_renew_lines(const char *input, const struct strbuf *list, struct strbuf *out,
                      int64_t *ends_ms, struct err *e) {
    struct arena a = {0};
    struct json *header;
    const char *text = strbuf_cstr(list);
    const char *first = memchr(text, '\n', list->len), *last = memrchr(text, '{', list->len);
    int result = first && last > first ? json_parse(&a, text, (size_t)(first - text), &header, e)
                                       : err_set(e, ERR_FORMAT, "the list of objects was cut off");
    if (result == 0) {
        struct json_out j;
        *ends_ms = json_get_int(header, "ends", 0);
        strbuf_clear(out);
        strbuf_adds(out, SOURCE_CLOCK_LINE);
        json_open(&j, out);
        json_object(&j, NULL);
        json_str(&j, "input", input);
        json_end(&j);
        strbuf_addc(out, '\n');
        strbuf_add(out, first + 1, (size_t)(last - first - 1));
        strbuf_addf(out, "{\"end\":true,\"ends\":%lld}\n", (long long)*ends_ms);
    }
    arena_fini(&a);
    return result;
}

// Refuses addresses that end no later than the old ones (the same key), since nodes would not take
// them.
static int check_later(const struct input_renew_list *l, struct err *e) {
    return l->ends_ms && l->old_ends_ms && l->ends_ms - l->old_ends_ms <= SOURCE_RENEW_GAIN_MS
               ? err_set(e, ERR_AUTH,
                         "the AWS key of this computer ends in %lld s, no later than the one that "
                         "signed before (try: log in to AWS again)",
                         (long long)(l->ends_ms - clock_wall_ms()) / 1000)
               : 0;
}

static void on_listed(struct dtdata_beside *d, const struct strbuf *list, const struct err *e) {
    struct input_renew_list *l = container_of(d, struct input_renew_list, lister);
    struct err why = *e;
    if (why.code == ERR_TIMEOUT)
        err_set(&why, ERR_TIMEOUT,
                "'%.200s' was not listed within %lld s; the nodes ask again (try: look at the way "
                "to its server, or use a source with fewer objects, or deliver = copy)",
                l->source, (long long)(l->limit_ms / 1000));
    if (why.code || input_renew_lines(l->name, list, &l->text, &l->ends_ms, &why) < 0 ||
        check_later(l, &why) < 0) {
        l->at_ms = 0;
        failed(l, &why);
    } else {
        l->at_ms = clock_mono_ms();
        send_to_all(l);
    }
}

static int begin(struct input_renew_list *l, struct err *e) {
    struct input_renew *r = l->renew;
    const char *source = source_of(r, l->name), *args[] = {"list", source, NULL};
    // A node of an earlier version does not say what is left.
    int64_t part_ms = l->old_ends_ms ? (l->old_ends_ms - clock_wall_ms()) / INPUT_RENEW_TRIES
                                     : INPUT_RENEW_MS_MAX;
    if (!source)
        return err_set(e, ERR_CONFIG, "dtctl.toml has no streamed input '%.64s' any more", l->name);
    l->source = source;
    l->limit_ms = part_ms < INPUT_RENEW_MS_MIN   ? INPUT_RENEW_MS_MIN
                  : part_ms < INPUT_RENEW_MS_MAX ? part_ms
                                                 : INPUT_RENEW_MS_MAX;
    const struct dtdata_call call = {
        .args = args, .bytes_max = INPUT_REMOTE_LIST_BYTES_MAX, .ms_max = l->limit_ms};
    return dtdata_beside_start(&l->lister, r->follow->context, &call, on_listed, e);
}

static bool is_fresh(const struct input_renew_list *l) {
    struct err ignored;
    return l->at_ms && clock_mono_ms() - l->at_ms < INPUT_RENEW_FRESH_MS_MAX &&
           check_later(l, &ignored) == 0;
}

void input_renew_node(struct input_renew *r, const struct follow_node *n,
                      const struct json *event) {
    const char *name = json_get_str(event, "input", "");
    int64_t left_ms = json_get_int(event, "left_ms", 0);
    struct err e = {0};
    if (!r->follow || r->follow->replaying || r->follow->stopping || !str_is_name(name, 64))
        return;
    struct input_renew_list *l = list_of(r, name);
    l->asks[n->index] = true;
    int64_t ends_ms = clock_wall_ms() + left_ms;
    if (left_ms > 0 && (!l->old_ends_ms || ends_ms < l->old_ends_ms))
        l->old_ends_ms = ends_ms;
    if (dtdata_beside_runs(&l->lister))
        return;
    if (is_fresh(l))
        send_to_all(l);
    else if (begin(l, &e) < 0)
        failed(l, &e);
}
