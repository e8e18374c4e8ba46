// SPDX-License-Identifier: Apache-2.0
// Figures of the node's GPUs from NVIDIA's program nvidia-smi, which repeats them until it is
// killed. NVIDIA's library cannot be loaded by a static program.
//
// The agent never waits for the program, which may hang with its driver: it is started without a
// report (proc_spec.unawaited), its pipe is read when a sample is due and never blocks, and the
// last figures become unknown when they are old. It holds none of the agent's descriptors, and is
// no process of the run, so no round waits for its end.
#ifndef AGENT_GPU_QUERY_H
#define AGENT_GPU_QUERY_H

#include "agent/host_counters.h"
#include "protocol/node_sample.h"
#include "sys/loop.h"

enum {
    GPU_QUERY_MS_MIN = 1000,    // between two outputs of the program
    GPU_QUERY_AGAIN_MS = 60000, // until a program that has ended is started again
    GPU_QUERY_LINE_BYTES_MAX = 256,
    GPU_QUERY_READ_BYTES_MAX = 64 << 10, // at once
};

struct gpu_query {
    struct loop *loop; // NULL: closed
    struct child child;
    struct timer again;
    char *const *env;
    int64_t every_ms;
    int fd; // -1: closed
    bool answered;
    int count; // GPUs that were seen
    struct host_gpu gpus[NODE_SAMPLE_GPUS_MAX];
    int64_t seen_ms[NODE_SAMPLE_GPUS_MAX];
    char line[GPU_QUERY_LINE_BYTES_MAX];
    size_t len; // of the incomplete line; more than a line has: the rest of it is dropped
};

// env: of the agent, for PATH. Without the program there are no figures.
void gpu_query_open(struct gpu_query *q, struct loop *loop, char *const *env, int64_t every_ms);
void gpu_query_close(struct gpu_query *q);
// Takes text that the program has printed. Pure.
void gpu_query_take(struct gpu_query *q, const char *text, size_t len, int64_t now_ms);
// Reads what has come, and sets the GPUs of the sample.
void gpu_query_read(struct gpu_query *q, int64_t now_ms, struct node_sample *out);

#endif
