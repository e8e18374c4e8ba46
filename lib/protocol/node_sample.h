// SPDX-License-Identifier: Apache-2.0
// One sample of a node: processors, memory, network, disks and GPUs at one moment. An agent writes
// its samples to samples.jsonl and answers with the newest one on its control socket.
//
//     {"time_ms":T,"cpu_percent":P,"cpus":C,"memory_bytes":U,"memory_limit_bytes":L,
//      "received_bytes_s":R,"sent_bytes_s":S,"read_bytes_s":I,"written_bytes_s":O,
//      "disk_free_bytes":F,
//      "gpu_percent":[…],"gpu_memory_mib":[…],"gpu_limit_mib":[…]}
//
// Figures that are not known are null. The three lists have one number for each GPU of the node, in
// the order of nvidia-smi and in its unit; without GPUs they are absent. Pure; on the operator's
// side the bytes are those of a node, and untrusted.
#ifndef PROTOCOL_NODE_SAMPLE_H
#define PROTOCOL_NODE_SAMPLE_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define NODE_SAMPLE_FILE "samples.jsonl"
enum { NODE_SAMPLE_GPUS_MAX = 64, NODE_SAMPLE_CPUS_MAX = 65536 };
// A larger figure in bytes (or bytes per second) is no figure: 1 EiB.
#define NODE_SAMPLE_BYTES_MAX ((int64_t)1 << 60)
#define NODE_SAMPLE_MIB_MAX   (NODE_SAMPLE_BYTES_MAX >> 20)

// -1: not known.
struct node_sample_gpu {
    int percent;
    int64_t memory_mib, memory_limit_mib;
};

struct node_sample {
    int64_t time_ms;    // wall clock of the node
    double cpu_percent; // of all `cpus` together
    double cpus;        // processors that the agent may use; a quota can be less than one
    int64_t memory_bytes, memory_limit_bytes; // without what the kernel can drop at once
    int64_t received_bytes_s, sent_bytes_s, read_bytes_s, written_bytes_s; // per second
    int64_t disk_free_bytes; // of the file system with the run's folder
    int gpu_count;
    struct node_sample_gpu gpus[NODE_SAMPLE_GPUS_MAX];
};

// Of all GPUs whose figures are known: returns the mean of their use in percent; *used and *all are
// sums of MiB, over those that have both. -1: none is known.
double node_sample_gpus(const struct node_sample *s, int64_t *used, int64_t *all);
void node_sample_init(struct node_sample *s); // all figures are unknown
// Adds the members to the innermost object.
void node_sample_write(const struct node_sample *s, struct json_out *j);
// Takes the figures that are in their bounds; others become unknown. False: it is no sample.
bool node_sample_read(const struct json *object, struct node_sample *out);

#endif
