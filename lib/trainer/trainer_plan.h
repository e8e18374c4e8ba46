// SPDX-License-Identifier: Apache-2.0
// The needs of a run, before it is started: work and memory of each layer and rank, bytes on the
// network, and a prediction of the time of a step.
#ifndef TRAINER_TRAINER_PLAN_H
#define TRAINER_TRAINER_PLAN_H

#include "base/str.h"
#include "trainer/trainer.h"

struct trainer_plan_request {
    int ranks, ranks_per_node;
    double network_bits_per_s; // between two nodes; 0: not known
    bool json;                 // one object instead of text
};

// Measures the layers on this machine's processors for a moment; config.comm is not used. The
// report is added to out.
int trainer_plan(const struct trainer_config *config, const struct trainer_plan_request *request,
                 struct strbuf *out, struct err *e);

#endif
