// SPDX-License-Identifier: Apache-2.0
// Backend self: one rank, which has every sum and every part already.
#include "comm/backend.h"

static int self_open(void **impl, const struct comm_config *config, int shown,
                     struct comm_watch *watch, struct err *e) {
    (void)shown, (void)watch;
    *impl = NULL;
    if (config->world == 1)
        return 0;
    return err_set(e, ERR_CONFIG, "the collectives called self are for one rank, not %d",
                   config->world);
}

static int self_run(void *impl, const struct comm_work *work, struct err *e) {
    (void)impl, (void)work, (void)e; // the sum of one is itself
    return 0;
}

static void self_close(void *impl) {
    (void)impl;
}

const struct comm_backend comm_self = {
    .name = "self", .open = self_open, .run = self_run, .close = self_close};
