// SPDX-License-Identifier: Apache-2.0
// driver.h: what the parts of the stand-in for libcuda.so.1 share. Everything that is asynchronous
// waits in queues and runs as late as a synchronisation allows, streams in an order that a seed
// decides.
#ifndef GPU_DRIVER_DRIVER_H
#define GPU_DRIVER_DRIVER_H
#include "tests/gpu/driver/cuda_abi.h"
#include "tests/gpu/emu/ptx.h"

#include <stdbool.h>

// Callers find these functions by name, with dlsym, and no header declares them.
#define API __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { DEPENDENCIES_MAX = 64, MESSAGE_MAX = 2048 };
enum { OP_AGAIN = -1 }; // of op_run: it has not ended

enum kind {
    K_LAUNCH,
    K_TO_DEVICE,
    K_TO_HOST,
    K_ON_DEVICE,
    K_FILL,
    K_RECORD,
    K_WAIT,
    K_HOST,
    K_WORK,
    K_GRAPH
};

struct op {
    enum kind kind;
    struct ptx_kernel *k;
    struct ptx_launch launch;
    unsigned char *params;
    CUdeviceptr to, from;
    void *host;
    size_t bytes;
    uint32_t value, width; // of a fill
    struct event *event;
    uint64_t tick; // record number of the event
    CUhostFn *function;
    emu_work *work;
    void (*drop)(void *);
    void *argument;
    struct graph *graph;
};

struct event {
    uint64_t recorded, done; // the number of records that are enqueued, and that have run
    double at;               // seconds, when the last one ran
    uint64_t capture;        // number of the capture that recorded it, behind these nodes; 0: none
    struct node *behind[DEPENDENCIES_MAX];
    size_t n_behind;
};

struct stream {
    struct op *queue; // of which from … n are still to run
    size_t from, n, cap;
    struct graph *capture; // that it belongs to, or NULL
    bool origin;
    struct node *last[DEPENDENCIES_MAX]; // what the next node depends on
    size_t n_last;
    struct stream *next;
};

struct node {
    struct op op;
    struct node *after[DEPENDENCIES_MAX];
    size_t n_after;
    bool done, joined; // joined: another node, or the origin's end, comes behind it
    bool lost;         // not run
    const struct stream *in;
    struct node *next;
};

struct graph {
    uint64_t id; // never used twice
    struct node *nodes, **tail;
    size_t n, left; // nodes; those of the launch under way that have not run
    bool invalid;
    int users; // the graph, its executable, launches
};

extern struct stream *streams;
extern uint64_t schedule; // state of the random order
extern struct graph *capturing;

void driver_lock(void);
void driver_unlock(void);
// Remembers why, for emu_fault and the error's text, and returns code.
__attribute__((format(printf, 2, 3))) CUresult driver_fail(CUresult code, const char *fmt, ...);
// As driver_fail; from then on every call fails with code, as after a fault on a device.
__attribute__((format(printf, 1, 2))) CUresult driver_broken(const char *fmt, ...);
long driver_setting(const char *name, long otherwise); // of the environment
CUresult driver_state(void);                           // 0, or the code that every call returns
// A call that no capture permits.
CUresult driver_unsafe(const char *call);
// Marks that the calling thread is in a host function, which may not call the driver.
void driver_in_host(bool in);

CUresult op_run(struct op *o);
void op_drop(struct op *o);
uint32_t driver_random(uint32_t n);
// Takes over o: into the queue, or the graph that is captured.
CUresult stream_push(struct stream *s, struct op *o);
// Runs until the queue of `wanted` is empty; of all streams where that is NULL.
CUresult stream_drain(struct stream *wanted);
CUresult stream_progress(void); // one operation of any stream

CUresult graph_add(struct stream *s, struct op *o);
CUresult graph_record(struct stream *s, struct event *e);
CUresult graph_wait(struct stream *s, struct event *e);
CUresult graph_run(struct graph *g);
void graph_release(struct graph *g);
#endif
