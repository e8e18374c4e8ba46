// SPDX-License-Identifier: Apache-2.0
// Sends the share of an elastic input to a node that says that files of it are on no node, as far
// as the files are on this computer. Only the dtctl that started the run can do this.
//
//     input_resend_open(&r, launch, &follow);
//     … input_resend_node(&r, n, event) for an event input-lacking …
//     input_resend_close(&r); // drops transfers in progress
#ifndef RUN_INPUT_RESEND_H
#define RUN_INPUT_RESEND_H

#include "follow/follow.h"
#include "run/run_start.h"
#include "xfer/xfer.h"

struct input_resend {
    struct run_start *launch; // NULL: nothing is sent
    struct follow *follow;
    struct input_resend_node {
        struct input_resend *resend;
        const struct follow_node *node;
        struct manifest *share;
        struct xfer *xfer; // NULL: no transfer
    } * nodes;
};

void input_resend_open(struct input_resend *r, struct run_start *l, struct follow *f);
void input_resend_node(struct input_resend *r, const struct follow_node *n,
                       const struct json *event);
void input_resend_close(struct input_resend *r);

#endif
