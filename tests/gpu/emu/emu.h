// SPDX-License-Identifier: Apache-2.0
// emu.h: what the parts of the PTX interpreter share. A register of a warp is an array of 32 lanes,
// of 4 bytes each, or of 8 where it is wide; a predicate is a mask of lanes. Immediate operands are
// registers that are filled once.
#ifndef GPU_EMU_EMU_H
#define GPU_EMU_EMU_H
#include "ptx.h"

#include <stdbool.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

enum {
    LANES = 32,
    OPERANDS_MAX = 8,
    WARPS_MAX = PTX_THREADS_MAX / LANES,
    AGENT = WARPS_MAX, // the writer of what bulk copies bring
    ACTORS = WARPS_MAX + 1,
    CLOCKS = 2 * ACTORS,
    BARRIERS = 16,
    NAME_MAX_BYTES = 256,
    SECTOR = 32, // bytes
    DYNAMIC_ALIGN_MAX = 1024,
    SHARED_ROOM = PTX_SHARED_MAX + 2 * DYNAMIC_ALIGN_MAX,
    BANKS = 32,
};
#define ALL_LANES 0xffffffffu

enum type {
    T_NONE,
    T_B8,
    T_U8,
    T_S8,
    T_B16,
    T_U16,
    T_S16,
    T_F16,
    T_BF16,
    T_B32,
    T_U32,
    T_S32,
    T_F32,
    T_F16X2,
    T_BF16X2,
    T_TF32,
    T_B64,
    T_U64,
    T_S64,
    T_F64,
    T_B128,
    T_PRED,
    T_COUNT
};
int type_bytes(enum type t);
bool type_is_float(enum type t);
bool type_is_signed(enum type t);
enum type type_named(const char *name);
#define TYPE(t) (1u << T_##t)

// Modifiers between an instruction's name and its type. X(constant, text).
// clang-format off
#define MODIFIERS(X) \
    X(RN, "rn") X(RZ, "rz") X(RM, "rm") X(RP, "rp") X(RNA, "rna") X(RNI, "rni") X(RZI, "rzi") \
    X(RMI, "rmi") X(RPI, "rpi") X(SAT, "sat") X(FTZ, "ftz") X(APPROX, "approx") X(FULL, "full") \
    X(LO, "lo") X(HI, "hi") X(WIDE, "wide") X(CC, "cc") X(NANS, "NaN") X(RELU, "relu") \
    X(WRAP, "wrap") X(CLAMP, "clamp") X(L, "l") X(R, "r") X(TO, "to") X(UNI, "uni") \
    X(SYNC, "sync") X(ALIGNED, "aligned") X(WARP, "warp") X(CTA, "cta") X(GPU, "gpu") \
    X(SYS, "sys") X(GL, "gl") X(SC, "sc") X(ACQ_REL, "acq_rel") X(RELAXED, "relaxed") \
    X(ACQUIRE, "acquire") X(RELEASE, "release") X(VOLATILE, "volatile") X(WEAK, "weak") \
    X(CA, "ca") X(CG, "cg") X(CS, "cs") X(LU, "lu") X(CV, "cv") X(WB, "wb") X(WT, "wt") \
    X(NC, "nc") X(V2, "v2") X(V4, "v4") X(UP, "up") X(DOWN, "down") X(BFLY, "bfly") \
    X(IDX, "idx") X(ALL, "all") X(ANY, "any") X(BALLOT, "ballot") X(ADD, "add") X(MIN, "min") \
    X(MAX, "max") X(EXCH, "exch") X(CAS, "cas") X(AND, "and") X(OR, "or") X(XOR, "xor") \
    X(INC, "inc") X(DEC, "dec") X(ARRIVE, "arrive") X(GLOBAL, "global") X(SHARED, "shared") \
    X(LOCAL, "local") X(PARAM, "param") X(CONST, "const") X(ASYNC, "async") \
    X(COMMIT_GROUP, "commit_group") X(WAIT_GROUP, "wait_group") X(WAIT_ALL, "wait_all") \
    X(M8N8, "m8n8") X(X1, "x1") X(X2, "x2") X(X4, "x4") X(TRANS, "trans") X(M16N8K4, "m16n8k4") \
    X(M16N8K8, "m16n8k8") X(M16N8K16, "m16n8k16") X(ROW, "row") X(COL, "col") X(INIT, "init") \
    X(INVAL, "inval") X(EXPECT_TX, "expect_tx") X(TRY_WAIT, "try_wait") \
    X(TEST_WAIT, "test_wait") X(PARITY, "parity") X(NOINC, "noinc") X(BULK, "bulk") \
    X(COMPLETE_TX, "complete_tx") X(MBARRIER, "mbarrier") X(PROXY, "proxy") X(HINT, "hint") \
    X(MBARRIER_INIT, "mbarrier_init") X(SHIFTAMT, "shiftamt") X(FENCE, "fence") \
    X(MMA_ASYNC, "mma_async") X(M64, "m64") X(CLUSTER, "cluster") X(TENSOR, "tensor") \
    X(D2, "2d") X(TENSORMAP, "tensormap") X(BULK_GROUP, "bulk_group") X(READ, "read")
// clang-format on

enum modifier {
#define X(constant, text) M_##constant,
    MODIFIERS(X)
#undef X
        M_COUNT
};
_Static_assert(M_COUNT <= 128, "a mask has a bit for each");
typedef unsigned __int128 modifiers;
#define MOD(m) ((modifiers)1 << M_##m)

enum compare { C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE, C_NUM, C_NAN, C_NONE };

enum space { SP_GENERIC, SP_GLOBAL, SP_SHARED, SP_LOCAL, SP_PARAM, SP_CONST };
// Generic addresses of shared and local memory.
#define SHARED_WINDOW ((u64)1 << 60)
#define LOCAL_WINDOW  ((u64)2 << 60)
#define PARAM_WINDOW  ((u64)3 << 60)
#define WINDOW_MASK   ((u64)0xf << 60)

enum operand_kind { O_NONE, O_REGISTERS, O_PREDICATE, O_ADDRESS, O_LABEL };

struct operand {
    u8 kind;
    u16 n;        // registers, predicates
    bool wide;    // registers of 8 bytes
    bool negated; // predicate: !p
    bool is_imm;  // imm is its value, too
    bool sink;    // written as _
    bool paired;  // written as a|p
    u32 *r;       // offset of each register in the warp's bytes; index of a predicate
    s64 imm;      // immediate; offset of an address
};

struct warp;
struct insn;
// Executes for the lanes of mask, which is never 0.
typedef void handler(struct warp *w, const struct insn *i, u32 mask);

enum flow { F_NEXT, F_BRANCH, F_EXIT, F_MAY_STOP };

struct insn {
    handler *run;
    u8 flow, type, type2, more_types[3], n_more, space, compare, n_operands;
    bool compare_more; // unordered floats, unsigned integers
    s32 guard;         // predicate, or -1
    bool guard_negated;
    bool touches_sums; // reads or writes a register of the sums of a wgmma.mma_async
    u16 columns;       // of wgmma.mma_async
    modifiers mods;
    struct operand op[OPERANDS_MAX];
    u32 target; // of a branch
    u32 rank;   // among lanes of a warp at several instructions the least one goes first
    u32 line;
    struct source_place {
        u32 file, line, column;
    } source;         // by .loc; 0: not known
    u32 group;        // of changes; see change.c
    handler *plain;   // what executes it where its changes are watched
    const char *name; // as written
};

// One row for each instruction: its types (a mask; 0: none), the modifiers that it may have, its
// operands, and what executes it. Letters of operands: d register of the type's size, s the same or
// an immediate, e and t like these of the second type, D register of twice the size, w of 4 bytes,
// q of 8, Q the same or several of 4, i immediate, x registers of any size, p predicate, P the same
// or an immediate, m address, a and c the address and the coordinates of [a, {x, y}], l label, ?
// before what may be left out.
struct op {
    const char *name;
    u32 types, types2;
    modifiers mods;
    const char *form;
    handler *run;
    u8 flow;
    modifiers needs; // of these modifiers one at least
};
extern const struct op ops_integer[], ops_choice[], ops_float[], ops_half[], ops_convert[],
    ops_access[], ops_warp[], ops_block[], ops_async[], ops_mbarrier[], ops_bulk[],
    ops_bulk_store[], ops_tensor[], ops_warpgroup[], ops_registers[];

// ---- a module -------------------------------------------------------------------------------
struct ptx_kernel {
    const char *name;
    struct ptx_module *module;
    struct insn *code;
    u32 n, cap;
    u32 reg_bytes, n_predicates; // of a warp
    struct constant {
        u64 value;
        u32 at;
        bool wide;
    } * constant;
    u32 n_constants, constants_cap;
    u32 *special;     // offset of each special register that is used, else 0
    u32 dynamic_wide; // offset of a wide register with the address of the dynamic array, else 0
    u32 local_bytes;  // of a lane
    u32 shared_bytes; // static
    // Of an extern array, behind the static bytes; 0 and the same where there is none.
    u32 dynamic_align, dynamic_at;
    u8 *sums; // by register, whether it is one of a wgmma.mma_async; NULL: there is none
    u32 params, param_offset[128], param_size[128], param_bytes;
    unsigned threads_max;
    u32 registers; // of a thread, by .maxnreg; 0: it does not say
};

struct variable {
    const char *name;
    u64 address;
    size_t bytes;
};

struct ptx_module {
    struct piece *pieces; // memory that the module owns
    struct ptx_kernel *kernel[256];
    u32 n_kernels;
    struct variable variable[256];
    u32 n_variables;
    const char *file[256]; // by the numbers of .file
    struct change_group *group;
    u32 n_groups, groups_cap;
};
void *module_memory(struct ptx_module *m, size_t bytes);
void order_make(struct ptx_kernel *k); // ranks of its instructions

enum special {
    S_TID_X = 1,
    S_TID_Y,
    S_TID_Z,
    S_NTID_X,
    S_NTID_Y,
    S_NTID_Z,
    S_CTAID_X,
    S_CTAID_Y,
    S_CTAID_Z,
    S_NCTAID_X,
    S_NCTAID_Y,
    S_NCTAID_Z,
    S_LANEID,
    S_WARPID,
    S_LANEMASK_EQ,
    S_LANEMASK_LT,
    S_LANEMASK_LE,
    S_LANEMASK_GT,
    S_LANEMASK_GE,
    S_DYNAMIC_SMEM_SIZE,
    S_SMID,
    S_NSMID,
    S_CLOCK,
    S_DYNAMIC_BASE,
    S_COUNT
};
enum special special_named(const char *name); // 0: none

// ---- a block that runs ----------------------------------------------------------------------
enum stop { STOP_NONE, STOP_BARRIER, STOP_YIELD };

struct lanes { // lanes of a warp that are at the same instruction
    u32 pc, mask;
};

struct copy { // of cp.async, under way to shared memory; of no bytes: an arrival behind the others
    u32 to, bytes, from_bytes;
    u64 from;
    u32 group;    // number of its commit_group
    u32 mbarrier; // offset of that of an arrival
    u32 lane;     // that started it
};

struct warp {
    struct block *b;
    u32 id, live;
    struct lanes group[LANES + 1];
    u32 n_groups;
    u8 *reg;
    u32 *pred;
    u32 carry; // lanes whose condition code holds a carry
    u8 stop;
    u32 barrier; // that it waits at
    // The time of each actor up to which it has seen every access; and behind these, the time up
    // to which it knows that a fence followed the writes of each: the async proxy may access them.
    u32 clock[CLOCKS];
    u32 floor; // what it has seen of every warp, or an earlier time
    u32 span;  // number of the time since its lanes last waited for each other
    struct copy *copies;
    u32 n_copies, copies_cap, committed;
    struct product *products; // of wgmma, under way
    u32 n_products, products_cap, product_groups;
    u32 issued;       // instructions of wgmma, counted with the other warps of its four
    bool fenced_sums; // has executed a wgmma.fence
    s64 awaits;       // offset of the mbarrier whose phase was not complete at its last wait, or -1
    u8 *sums;         // what is known of each register; NULL where there is no wgmma.mma_async
    u32 bulk_committed[LANES]; // groups of bulk copies from shared memory, of each lane
    u32 storing;               // lanes of a st whose places are being checked
    u32 registers;             // of each lane, by .maxnreg and setmaxnreg
    const struct insn *at;
};

struct barrier {
    u32 arrived; // warps
    u32 threads, expected;
    u32 clock[CLOCKS];
};

struct mbarrier {
    u64 address;
    u32 expected, pending;
    s64 bytes; // that are still to arrive: the tx-count
    u32 phase;
    u32 filled, seen; // phases up to the last one that had bytes, and that a wait has seen complete
    u32 warp, lanes;  // that initialised it
    bool fenced;      // and a fence followed: the async proxy may use it
    u32 clock[CLOCKS], published[CLOCKS];
};

struct warpgroup { // four warps
    struct issue *issue;
    u32 n, cap;
};

struct block {
    struct ptx_kernel *k;
    const struct ptx_launch *launch;
    u32 index[3], n_warps, serial;
    bool synchronised; // has executed an atomic: may read what other blocks wrote
    struct warp *warp;
    u8 *shared, *local;
    u32 shared_bytes;
    struct barrier barrier[BARRIERS];
    struct mbarrier *mbarrier;
    u32 n_mbarriers, mbarriers_cap;
    struct bulk *bulk; // under way
    u32 n_bulk, bulk_cap;
    bool has_bulk;                 // has started one
    struct bulk_store *bulk_store; // that the block may still be reading for
    u32 n_bulk_stores, bulk_stores_cap;
    u32 spare_registers; // that warps have given up
    struct warpgroup warpgroup[WARPS_MAX / 4 + 1];
    u64 rng;
    u64 progress; // counts what lets a waiting warp continue
};

// Where not NULL: what changes would make a difference to is noted there; see change.c.
extern u8 *change_seen;
void change_watch_branch(const struct insn *i, u32 at, u32 taken);

// Ends the launch with a message.
_Noreturn __attribute__((format(printf, 1, 2))) void fault(const char *fmt, ...);
u32 random_below(u64 *state, u32 n);
extern struct ptx_counts counts;

// Appends to a list, whose capacity grows.
void *grown(void *list, u32 n, u32 *cap, size_t bytes);

// Offsets are into shared memory; each checks bounds, alignment, and the shadow.
// lane: that accesses them; LANES: all of the warp together.
u8 *shared_read(struct warp *w, u64 offset, u32 bytes, u32 lane);
u8 *shared_write(struct warp *w, u64 offset, u32 bytes, u32 lane);
u8 *shared_atomic(struct warp *w, u64 offset, u32 bytes, u32 lane);
// The same of so many lanes from `first` on with `each` bytes that lie side by side; NULL: lane by
// lane it will show why not.
u8 *shared_read_row(struct warp *w, u64 offset, u32 each, u32 first, u32 lanes);
u8 *shared_write_row(struct warp *w, u64 offset, u32 each, u32 first, u32 lanes);
// An asynchronous write begins (its bytes are in flight), and is complete.
void shared_begin(struct warp *w, u64 offset, u32 bytes, u32 lane);
void shared_arrived(struct warp *w, u32 offset, u32 bytes, u32 lane);
// The same of a bulk copy, which belongs to the async proxy: generic writes need a fence before it.
// The time of what has arrived is that of the AGENT.
void shared_bulk_begins(struct warp *w, u32 offset, u32 bytes, u32 lane);
void shared_bulk_arrived(struct warp *w, u32 offset, u32 bytes, u32 time);
u32 shadow_time(void); // a new one
// An mbarrier is initialised, used by a thread that must have seen that, and no more.
void shared_mbarrier_begins(struct warp *w, u64 offset, u32 bytes, u32 lane);
void shared_mbarrier_used(struct warp *w, u64 offset, u32 bytes, u32 lane);
void shared_mbarrier_ends(struct warp *w, u64 offset, u32 bytes, u32 lane);
// A wgmma begins to read, and has read; a bulk copy, too. fenced: what w knows that a fence
// followed, of every warp.
u32 shared_fenced(const struct warp *w);
void shared_product_begins(struct warp *w, const char *what, u32 fenced, u32 offset, u32 bytes);
void shared_product_ends(struct warp *w, u32 offset, u32 bytes);
void shadow_clear(struct block *b); // before each block
// Clocks have seen what others have; w has; and w begins a time that no other warp has seen.
void clock_join(u32 *to, const u32 *from);
void clock_learn(struct warp *w, const u32 *from);
void clock_tick(struct warp *w);
void clock_fence(struct warp *w); // the async proxy may access all writes that w has seen
void span_begin(struct warp *w);  // the lanes of the warp have waited for each other
// The st that is being checked leaves these bytes of shared memory as they are.
bool store_keeps(struct warp *w, u64 from, u64 end);

u8 *global_read(struct warp *w, u64 address, u32 bytes);
u8 *global_write(struct warp *w, u64 address, u32 bytes);
u8 *global_atomic(struct warp *w, u64 address, u32 bytes);
// The same for so many lanes with `each` bytes that lie side by side; NULL: lane by lane it will
// show why not.
u8 *global_read_row(struct warp *w, u64 address, u32 each, u32 lanes);
u8 *global_write_row(struct warp *w, u64 address, u32 each, u32 lanes);
void not_for_copies(void *at, size_t bytes); // whole pages: after a fork they are zeros
u32 global_serial(u32 blocks);               // the first of as many new numbers of blocks

// The bytes at the address of an operand for one lane.
u64 lane_address(struct warp *w, const struct insn *i, int operand, int lane);
u8 *space_read(struct warp *w, enum space s, u64 address, u32 bytes, int lane);
u8 *space_write(struct warp *w, enum space s, u64 address, u32 bytes, int lane);
// The offset of an address in shared memory, be it generic or not.
u64 shared_offset(const struct insn *i, u64 address);

extern bool counting; // requests of the lanes of mask, for so many bytes each
void count_global(const u64 *address, u32 mask, u32 bytes);
void count_shared(const u64 *address, u32 mask, u32 bytes);
void count_lanes(const struct insn *i, const u64 *address, u32 mask, u32 bytes);
void count_row(const struct insn *i, u64 address, u32 lanes, u32 each, bool apart);
void async_complete(struct warp *w, struct copy *c);
bool async_complete_arrival(struct block *b); // behind cp.async; false: none is under way
bool bulk_complete_one(struct block *b);      // false: none is under way
void bulk_store_end(struct block *b);         // checks that reads of shared memory were waited for
void bulk_store_free(struct block *b);
void async_end(struct warp *w); // checks that a warp that ends waited for its copies
struct mbarrier *mbarrier_at(struct block *b, u64 offset);
// The same for a thread that uses it; the lanes of mask must agree about operand k.
struct mbarrier *mbarrier_used(struct warp *w, const struct insn *i, int k, u32 mask);
void mbarrier_arrive(struct warp *w, struct mbarrier *m, u32 n, bool releases);
void mbarrier_bytes(struct block *b, struct mbarrier *m, s64 n); // added to the tx-count
void mbarrier_fence(struct warp *w, u32 mask); // the async proxy may use those these lanes made
bool mbarriers_awaited(const struct block *b); // by every warp that could run
void mbarrier_end(struct block *b);            // checks that bytes were waited for
void mbarrier_deadlock(struct block *b);       // faults where a warp waits for one
void mbarrier_pass(struct warp *w, const struct insn *i, u32 mask); // a wait that does not wait
bool mbarrier_is_wait(const struct insn *i);

// wgmma: finds the registers of sums of a kernel; before an instruction that touches one; and at
// the end of a block.
void products_prepare(struct ptx_kernel *k);
void products_touch(struct warp *w, const struct insn *i);
void products_end(struct block *b);
// The four warps of w's group execute the same instruction with the same operands.
void group_together(struct warp *w, const struct insn *i, u32 mask, u64 a, u64 b);

// Faults unless the lanes named by member are exactly those that execute.
void lanes_named(const struct warp *w, u32 member, u32 mask);

enum rounding { R_NEAREST, R_ZERO, R_DOWN, R_UP, R_AWAY };
// A number in a format of `bits` of fraction and exponent from emin; see convert.c.
u32 half_from(long double v, enum rounding r);
u32 bfloat_from(long double v, enum rounding r);
u32 tf32_from(float v);
static inline u32 float_bits(float v) {
    u32 bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
static inline float bits_float(u32 bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static inline float bfloat_to(u32 h) {
    return bits_float(h << 16);
}
// Without a branch, so that many are converted at once.
static inline float half_to(u32 h) {
    u32 sign = (h & 0x8000) << 16, low = h & 0x7fff;
    u32 subnormal = float_bits((float)(s32)low * 0x1p-24f), normal = (low << 13) + (112u << 23);
    u32 finite = low < 0x400 ? subnormal : normal;
    return bits_float(low > 0x7c00    ? 0x7fffffff
                      : low == 0x7c00 ? sign | 0x7f800000
                                      : sign | finite);
}

// ---- writing handlers -----------------------------------------------------------------------
#define REG(k)     ((void *)(w->reg + i->op[k].r[0]))
#define REGN(k, n) ((void *)(w->reg + i->op[k].r[n]))
#define EACH(body) EACH_LANE(, body)
#ifdef __clang__ // its own pragma would warn in builds that do not optimise
#define AT_ONCE
#else
#define AT_ONCE _Pragma("GCC ivdep")
#endif
#define EACH_AT_ONCE(body) EACH_LANE(AT_ONCE, body)
#define EACH_LANE(how, body)                                                                       \
    do {                                                                                           \
        if (mask == ALL_LANES)                                                                     \
            how for (int l = 0; l < LANES; l++) {                                                  \
                body;                                                                              \
            }                                                                                      \
        else                                                                                       \
            for (int l = 0; l < LANES; l++)                                                        \
                if (mask >> l & 1) {                                                               \
                    body;                                                                          \
                }                                                                                  \
    } while (0)
#define HAS(m) ((i->mods & MOD(m)) != 0)
static inline u32 predicate(const struct warp *w, const struct operand *o) {
    return o->negated ? ~w->pred[o->r[0]] : w->pred[o->r[0]];
}
static inline void set_predicate(struct warp *w, const struct operand *o, u32 n, u32 mask, u32 v) {
    w->pred[o->r[n]] = (w->pred[o->r[n]] & ~mask) | (v & mask);
}
static inline u64 lane_value(const struct warp *w, const struct operand *o, u32 n, int lane) {
    return o->wide ? ((const u64 *)(const void *)(w->reg + o->r[n]))[lane]
                   : ((const u32 *)(const void *)(w->reg + o->r[n]))[lane];
}
static inline void set_lane(struct warp *w, const struct operand *o, u32 n, int lane, u64 v) {
    if (o->wide)
        ((u64 *)(void *)(w->reg + o->r[n]))[lane] = v;
    else
        ((u32 *)(void *)(w->reg + o->r[n]))[lane] = (u32)v;
}
#endif
