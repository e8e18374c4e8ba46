// SPDX-License-Identifier: Apache-2.0
// bulk.h: bulk copies in both directions, for bulk.c and bulk_store.c.
#ifndef GPU_EMU_BULK_H
#define GPU_EMU_BULK_H
#include "emu.h"

enum { CHUNK = 16 }; // bytes

// Rows of a bulk copy under way, in shared memory one behind the other, turned as in wgmma (16
// bytes wide: not turned). `there` bytes from byte `before` on of the rows from rows_before on
// exist outside of it; to shared memory all others become zeros, from it they are left out.
struct bulk {
    u32 shared, rows, row_bytes, width;
    u64 global, pitch; // of row 0, be it there or not
    u32 before, there, rows_before, rows_there;
    u32 mbarrier; // its offset
    struct warp *w;
};
// By the operands of an instruction for one lane: the address in shared memory, and either the
// other address and the size or the tensor map, behind which the coordinates are.
struct bulk bulk_of_bytes(struct warp *w, const struct insn *i, int shared, int global, int lane);
struct bulk bulk_of_box(struct warp *w, const struct insn *i, int shared, int map, int lane);
// The offset of a chunk in shared memory; how many of its bytes exist, from *from on.
u32 bulk_chunk_at(const struct bulk *c, u32 row, u32 byte);
u32 bulk_there(const struct bulk *c, u32 row, u32 byte, u32 *from);
void bulk_count(const struct bulk *c);
#endif
