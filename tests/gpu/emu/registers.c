// SPDX-License-Identifier: Apache-2.0
// registers.c: setmaxnreg: warps give up registers, and others take them. Registers that are given
// up belong to the block; a warp that wants more than there are waits.
#include "emu.h"

enum { REGISTERS_MIN = 24, REGISTERS_MAX = 256, REGISTERS_STEP = 8 };

static void setmaxnreg(struct warp *w, const struct insn *i, u32 mask) {
    struct block *b = w->b;
    u32 n = (u32)i->op[0].imm, more = n > w->registers ? (n - w->registers) * LANES : 0;
    if (!b->k->registers)
        fault("'%s' in a kernel without .maxnreg", i->name);
    if (n < REGISTERS_MIN || n > REGISTERS_MAX || n % REGISTERS_STEP)
        fault("'%s' with %u registers", i->name, n);
    if (more && HAS(DEC))
        fault("'%s' with %u registers in a warp that has %u", i->name, n, w->registers);
    if (more > b->spare_registers) { // the same instruction again, later
        w->group[0].pc--;
        w->stop = STOP_YIELD;
        return;
    }
    group_together(w, i, mask, 0, 0);
    if (HAS(DEC))
        b->spare_registers += (w->registers - n) * LANES;
    b->spare_registers -= more;
    b->progress++;
    w->registers = HAS(DEC) || more ? n : w->registers;
}

const struct op ops_registers[] = {
    {"setmaxnreg", TYPE(U32), 0, MOD(SYNC) | MOD(ALIGNED), "i", setmaxnreg, F_MAY_STOP,
     MOD(INC) | MOD(DEC)},
    {0},
};
