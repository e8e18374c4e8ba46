// SPDX-License-Identifier: Apache-2.0
// Inputs that each round deals anew: starts the process of a round, and finds what other nodes may
// ask for.
#include "base/log.h"
#include "copies/input_redeal.h"
#include "copies/input_shares.h"
#include "sys/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void begin(struct keeper_state *s);

static void report_failure(const struct keeper_state *s, const char *why) {
    struct wire_msg m = {
        .type = WIRE_STATE_NOTE, .kind = KEEPER_INPUTS, .number = s->round, .reason = why};
    keeper_send_note(s, &m);
}

static void on_redealt(struct child *c, int status) {
    struct keeper_state *s = container_of(c, struct keeper_state, redeal);
    s->redeals = false;
    if (s->redeal_waits)
        begin(s);
    else if (status != 0) // its note may be lost
        report_failure(s, "the process that fetches the files of inputs was killed");
}

static void begin(struct keeper_state *s) {
    struct err e = {0};
    s->redeal_waits = false;
    pid_t pid = fork();
    if (pid == 0)
        input_redeal_main(s);
    if (pid < 0)
        err_errno(&e, ERR_SYS, "cannot start a process for the files of inputs");
    else if (child_start(s->loop, &s->redeal, pid, on_redealt, &e) < 0)
        kill(pid, SIGKILL);
    s->redeals = !e.code;
    if (e.code)
        report_failure(s, e.text);
}

// An open store is not pruned, so copies stay.
static void hold_store(struct keeper_state *s) {
    struct err e;
    if (s->store_open)
        return;
    s->store_open = cas_open(&s->store, s->spec->store, &e) == 0;
    if (!s->store_open)
        log_warn("cannot open the content store", "reason=\"%s\"", e.text);
}

void keeper_deal(struct keeper_state *s) {
    hold_store(s);
    if (!s->redeals) {
        begin(s);
        return;
    }
    s->redeal_waits = true;
    kill(s->redeal.pid, SIGKILL); // that of the last round
}

static int find_known(struct keeper_state *s, struct err *e) {
    const struct keeper_spec *spec = s->spec;
    struct arena a = {0};
    struct content_item *items = NULL;
    size_t count = 0, room = 0, kept = 0;
    int rc = 0;
    for (int i = 0; rc == 0 && i < spec->input_count; i++) {
        struct input_shares x;
        rc = input_shares_open(&x, &spec->inputs[i], spec->run_dir, e);
        if (rc == 0)
            rc = input_shares_deal(&x, 1, e); // all of it
        if (rc == 0)
            input_shares_add_content(&x, &a, 0, &items, &count, &room);
        input_shares_close(&x);
    }
    if (count)
        qsort(items, count, sizeof *items, content_order);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || content_order(&items[i], &items[i - 1]) != 0)
            items[kept++] = items[i];
    if (rc == 0 && kept) {
        s->known = memcpy(heap_alloc(kept * sizeof *items), items, kept * sizeof *items);
        s->known_count = kept;
    }
    arena_fini(&a);
    return rc;
}

int keeper_open_store(struct keeper_state *s, struct err *e) {
    if (!s->spec->input_count)
        return err_set(e, ERR_NOT_FOUND, "this node deals no inputs");
    if (!s->store_open && cas_open(&s->store, s->spec->store, e) < 0)
        return -1;
    s->store_open = true;
    return s->known_count ? 0 : find_known(s, e);
}
