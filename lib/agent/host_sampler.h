// SPDX-License-Identifier: Apache-2.0
// Samples the agent's host at intervals: the newest sample answers requests on the control socket,
// and samples.jsonl has the history.
//
//     host_sampler_open(&s, loop, run_dir, env, 2000);
//     host_sampler_answer(&s, &json);
//     host_sampler_close(&s);
#ifndef AGENT_HOST_SAMPLER_H
#define AGENT_HOST_SAMPLER_H

#include "agent/gpu_query.h"
#include "agent/host_reader.h"
#include "agent/sample_log.h"

enum { HOST_SAMPLER_FIRST_MS = 500 }; // until the first sample, or the interval if that is less

struct host_sampler {
    struct loop *loop; // NULL: closed, or the host is not sampled
    struct timer timer;
    int64_t every_ms;
    struct host_reader reader;
    struct gpu_query gpus;
    struct sample_log log;
    struct host_reading last, logged; // at the newest sample, at the newest line
    int64_t last_us, logged_us;       // monotonic
    struct node_sample newest;
    bool has_newest;
    int64_t gpu_sum[NODE_SAMPLE_GPUS_MAX], gpu_times[NODE_SAMPLE_GPUS_MAX]; // since that line
};

// run_dir and env must outlive the sampler. every_ms 0: the host is not sampled.
void host_sampler_open(struct host_sampler *s, struct loop *loop, const char *run_dir,
                       char *const *env, int64_t every_ms);
void host_sampler_close(struct host_sampler *s); // no-op when closed
// Adds "every_ms" and "sample" to the innermost object.
void host_sampler_answer(const struct host_sampler *s, struct json_out *j);

// Figures of the time between two readings, `us` microseconds apart; states are those of the second
// one. Pure.
void host_sampler_figures(const struct host_reading *before, const struct host_reading *now,
                          int64_t us, struct node_sample *out);

#endif
