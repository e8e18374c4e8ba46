// SPDX-License-Identifier: Apache-2.0
// ptx.h: an interpreter of PTX for tests. It runs the text that ptxas gets, block by block, and
// checks every access: bounds, alignment, unwritten memory, races in shared memory and between
// blocks, barriers and shuffles in divergent code, asynchronous copies without a wait. Not
// thread-safe; the stand-in of the driver holds a lock.
//
// Device addresses are numbers that the host cannot dereference; ptx_host translates.
#ifndef GPU_EMU_PTX_H
#define GPU_EMU_PTX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PTX_TEXT_MAX = 1024,         // bytes of a message
    PTX_PARAMS_MAX = 4096,       // bytes of a kernel's parameters
    PTX_THREADS_MAX = 1024,      // of a block
    PTX_SHARED_MAX = 227 * 1024, // bytes of a block
    PTX_SHARED_STATIC_MAX = 48 * 1024,
};

struct ptx_module;
struct ptx_kernel;

// Exact counts of one or more launches.
struct ptx_counts {
    uint64_t launches, blocks;
    uint64_t warp_insns;       // instructions, one for each warp that executes it
    uint64_t lane_insns;       // the same for each active lane
    uint64_t mma;              // mma.sync
    uint64_t global_requests;  // loads and stores of a warp
    uint64_t global_sectors;   // of 32 bytes, that these touch
    uint64_t global_bytes;     // that lanes ask for
    uint64_t shared_requests;  // loads, stores and rows of ldmatrix
    uint64_t shared_conflicts; // passes over the banks beyond the first
    uint64_t barriers;
};

struct ptx_launch {
    unsigned grid[3], block[3];
    size_t dynamic_shared; // bytes
    uint64_t seed;         // order of blocks and warps; 0: ascending
    const void *params;    // offsets: ptx_param
    uint64_t insns_max;    // of a block that ends; 0: a number that only endless ones reach
    // Lanes and warps may write one value to one place. Else each word has one writer at a time.
    int same_values;
};

// Parses all of a module and decodes every instruction. NULL, and why in text (PTX_TEXT_MAX bytes),
// for syntax, for an instruction that the interpreter does not know, and for a module above
// sm, for example 90.
struct ptx_module *ptx_load(const char *source, size_t len, int sm, char *text);
void ptx_unload(struct ptx_module *m);

// NULL where there is none of that name. They live as long as the module.
struct ptx_kernel *ptx_find(struct ptx_module *m, const char *name);
const char *ptx_name(const struct ptx_kernel *k);
// Address and size of a variable of the module; 0 where there is none.
uint64_t ptx_variable(struct ptx_module *m, const char *name, size_t *bytes);

size_t ptx_param_count(const struct ptx_kernel *k);
void ptx_param(const struct ptx_kernel *k, size_t n, size_t *offset, size_t *bytes);
size_t ptx_static_shared(const struct ptx_kernel *k);
// Threads of a block by .maxntid or .reqntid; PTX_THREADS_MAX where the kernel does not say.
unsigned ptx_threads_max(const struct ptx_kernel *k);

// 0, or -1 and the first fault in text (PTX_TEXT_MAX bytes): what, kernel, block, warp, line.
int ptx_run(struct ptx_kernel *k, const struct ptx_launch *launch, char *text);

// Allocates memory of the device, initially unwritten. 0: no room.
uint64_t ptx_alloc(size_t bytes);
// -1 when address is not what ptx_alloc returned.
int ptx_free(uint64_t address);
// The host's pointer to bytes that lie inside one allocation, or NULL.
void *ptx_host(uint64_t address, size_t bytes);
// The host, or a copy, wrote these bytes.
void ptx_wrote(uint64_t address, size_t bytes);
// True when every one of the bytes has been written.
int ptx_written(uint64_t address, size_t bytes);
// A copy takes over which bytes have been written.
void ptx_copied(uint64_t to, uint64_t from, size_t bytes);
// Base and size of the allocation that holds address; 0 where none does.
uint64_t ptx_allocation(uint64_t address, size_t *bytes);

// A matrix as cp.async.bulk.tensor.2d copies boxes of it: element [y][x] is at address + y pitch +
// x bytes. Elements outside of dim come as zeros. Chunks of a box's rows are turned in shared
// memory.
struct ptx_tensor {
    uint64_t address, dim[2], pitch; // dim: columns, rows; pitch: in bytes
    uint32_t box[2], bytes;          // of an element
    uint32_t swizzle;                // bytes: 0, 32, 64, 128
};
enum { PTX_TENSOR_MAP_BYTES = 128 };
// Writes the map, for a kernel's parameters. -1, and why in text, where cuTensorMapEncodeTiled
// refuses it or the interpreter does not know it.
int ptx_tensor_map(void *to, const struct ptx_tensor *t, char *text);

// Changes of a kernel of the module, each of which takes away a barrier or wait, or half of a
// condition of the source (.loc: nvcc -lineinfo). They are numbered from 0; this is their number.
unsigned ptx_changes(struct ptx_module *m);
// Kernel, file, line, column, kind, and the instruction in PTX_TEXT_MAX bytes; "" where the number
// stands for no change.
void ptx_change_name(const struct ptx_module *m, unsigned change, char *text);
// Whether the change is one of this kernel.
int ptx_change_is_in(const struct ptx_kernel *k, unsigned change);
// Whether the change takes away a barrier or a wait.
int ptx_change_waits(const struct ptx_module *m, unsigned change);
// Makes it, for good.
void ptx_change(struct ptx_module *m, unsigned change);
// From now on launches of the kernel set seen[change] of each change that would make a difference
// to a result of its instruction.
void ptx_change_watch(struct ptx_kernel *k, unsigned char *seen);

// Since the last call; resets them.
struct ptx_counts ptx_take_counts(void);
// Without it, sectors and conflicts are not counted, which takes time. It is on at first.
void ptx_count_accesses(bool on);
#endif
