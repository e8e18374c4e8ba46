// SPDX-License-Identifier: Apache-2.0
// test_scalar.c: instructions of one lane at the edges of their operands, against what the PTX
// manual says of them.
#include "tests/gpu/snippet.h"

#define INF  0x7f800000u
#define QNAN 0x7fffffffu
#define NEG0 0x80000000u

static void arithmetic(void) {
    gives("add.s32 %d, %a, %b;", "%d", 0x7fffffff, 1, 0, 0x80000000);
    gives("add.s16 %hd, %ha, %hb;", "%hd", 0xffff, 2, 0, 1);
    gives("add.s64 %qd, %qa, %qb;", "%qd", UINT64_MAX, 2, 0, 1);
    gives("sub.s32 %d, %a, %b;", "%d", 0, 1, 0, 0xffffffff);
    gives("mul.lo.s32 %d, %a, %b;", "%d", 0x10001, 0x10001, 0, 0x20001);
    gives("mul.hi.u32 %d, %a, %b;", "%d", 0xffffffff, 0xffffffff, 0, 0xfffffffe);
    gives("mul.hi.s32 %d, %a, %b;", "%d", 0xffffffff, 2, 0, 0xffffffff);
    gives("mul.hi.u64 %qd, %qa, %qb;", "%qd", UINT64_MAX, UINT64_MAX, 0, UINT64_MAX - 1);
    gives("mul.hi.s64 %qd, %qa, %qb;", "%qd", UINT64_MAX, 2, 0, UINT64_MAX);
    gives("mul.lo.s16 %hd, %ha, %hb;", "%hd", 0x101, 0x101, 0, 0x201);
    gives("mul.wide.s32 %qd, %a, %b;", "%qd", 0xffffffff, 2, 0, (uint64_t)-2);
    gives("mul.wide.u32 %qd, %a, %b;", "%qd", 0xffffffff, 2, 0, 0x1fffffffe);
    gives("mul.wide.u16 %d, %ha, %hb;", "%d", 0xffff, 0xffff, 0, 0xfffe0001);
    gives("mul.wide.s16 %d, %ha, %hb;", "%d", 0xffff, 3, 0, 0xfffffffd);
    gives("mad.lo.s32 %d, %a, %b, %c;", "%d", 7, 0xffffffff, 9, 2);
    gives("mad.hi.u32 %d, %a, %b, %c;", "%d", 0x80000000, 6, 1, 4);
    gives("mad.wide.s32 %qd, %a, %b, %qc;", "%qd", 0xffffffff, 5, 6, 1);
    gives("mad.wide.u32 %qd, %a, %b, %qc;", "%qd", 0xffffffff, 2, 2, 0x200000000);
    gives("div.s32 %d, %a, %b;", "%d", 0xfffffff9, 2, 0, 0xfffffffd);
    gives("div.s32 %d, %a, %b;", "%d", 0x80000000, 0xffffffff, 0, 0x80000000);
    gives("div.u32 %d, %a, %b;", "%d", 0xfffffff9, 2, 0, 0x7ffffffc);
    gives("rem.s32 %d, %a, %b;", "%d", 0xfffffff9, 2, 0, 0xffffffff);
    gives("rem.u32 %d, %a, %b;", "%d", 7, 4, 0, 3);
    gives("div.s64 %qd, %qa, %qb;", "%qd", (uint64_t)-9, 2, 0, (uint64_t)-4);
    gives("rem.u64 %qd, %qa, %qb;", "%qd", 9, 4, 0, 1);
    gives("abs.s32 %d, %a;", "%d", 0x80000000, 0, 0, 0x80000000);
    gives("abs.s64 %qd, %qa;", "%qd", (uint64_t)-5, 0, 0, 5);
    gives("neg.s32 %d, %a;", "%d", 5, 0, 0, 0xfffffffb);
    gives("neg.s16 %hd, %ha;", "%hd", 5, 0, 0, 0xfffb);
    gives("min.s32 %d, %a, %b;", "%d", 0xffffffff, 1, 0, 0xffffffff);
    gives("min.u32 %d, %a, %b;", "%d", 0xffffffff, 1, 0, 1);
    gives("max.s16 %hd, %ha, %hb;", "%hd", 0xffff, 1, 0, 1);
    gives("max.u16 %hd, %ha, %hb;", "%hd", 0xffff, 1, 0, 0xffff);
    gives("max.s64 %qd, %qa, %qb;", "%qd", (uint64_t)-1, 1, 0, 1);
    gives("dp4a.s32.s32 %d, %a, %b, %c;", "%d", 0xff02ff02, 0x03030303, 10, 16);
    gives("dp4a.u32.u32 %d, %a, %b, %c;", "%d", 0xff02ff02, 0x01010101, 1, 515);
}

static void carry(void) {
    gives("add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;", "%d", 0xffffffff, 1, 5, 6);
    gives("add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;", "%d", 0xfffffffe, 1, 5, 5);
    gives("add.cc.u32 %d, %a, %b; addc.cc.u32 %d, %c, 0; addc.u32 %d, 0, 0;", "%d", 0xffffffff, 1,
          0xffffffff, 1);
    gives("sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;", "%d", 0, 1, 5, 4);
    gives("sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;", "%d", 1, 1, 5, 5);
    gives("add.cc.s64 %qd, %qa, %qb; addc.s64 %qd, %qc, 0;", "%qd", UINT64_MAX, 1, 5, 6);
}

static void bits(void) {
    gives("shl.b32 %d, %a, %b;", "%d", 1, 31, 0, 0x80000000);
    gives("shl.b32 %d, %a, %b;", "%d", 1, 32, 0, 0);
    gives("shl.b32 %d, %a, %b;", "%d", 1, 0x80000000, 0, 0);
    gives("shl.b16 %hd, %ha, %b;", "%hd", 1, 15, 0, 0x8000);
    gives("shl.b16 %hd, %ha, %b;", "%hd", 1, 16, 0, 0);
    gives("shl.b64 %qd, %qa, %b;", "%qd", 1, 63, 0, (uint64_t)1 << 63);
    gives("shl.b64 %qd, %qa, %b;", "%qd", 1, 64, 0, 0);
    gives("shr.u32 %d, %a, %b;", "%d", 0x80000000, 32, 0, 0);
    gives("shr.s32 %d, %a, %b;", "%d", 0x80000000, 32, 0, 0xffffffff);
    gives("shr.s32 %d, %a, %b;", "%d", 0x80000000, 31, 0, 0xffffffff);
    gives("shr.s32 %d, %a, %b;", "%d", 0x40000000, 99, 0, 0);
    gives("shr.u16 %hd, %ha, %b;", "%hd", 0x8000, 4, 0, 0x800);
    gives("shr.s16 %hd, %ha, %b;", "%hd", 0x8000, 20, 0, 0xffff);
    gives("shr.u64 %qd, %qa, %b;", "%qd", UINT64_MAX, 63, 0, 1);
    gives("shr.s64 %qd, %qa, %b;", "%qd", (uint64_t)-8, 64, 0, UINT64_MAX);
    gives("shf.l.wrap.b32 %d, %a, %b, %c;", "%d", 0x80000000, 1, 33, 3);
    gives("shf.r.wrap.b32 %d, %a, %b, %c;", "%d", 0x80000000, 1, 1, 0xc0000000);
    gives("shf.l.clamp.b32 %d, %a, %b, %c;", "%d", 5, 1, 40, 5);
    gives("shf.r.clamp.b32 %d, %a, %b, %c;", "%d", 5, 1, 40, 1);
    gives("and.b32 %d, %a, %b;", "%d", 12, 10, 0, 8);
    gives("or.b16 %hd, %ha, %hb;", "%hd", 12, 10, 0, 14);
    gives("xor.b64 %qd, %qa, %qb;", "%qd", 12, 10, 0, 6);
    gives("not.b32 %d, %a;", "%d", 1, 0, 0, 0xfffffffe);
    gives("not.b16 %hd, %ha;", "%hd", 1, 0, 0, 0xfffe);
    gives("popc.b32 %d, %a;", "%d", 0xf0f0, 0, 0, 8);
    gives("popc.b64 %d, %qa;", "%d", UINT64_MAX, 0, 0, 64);
    gives("clz.b32 %d, %a;", "%d", 0, 0, 0, 32);
    gives("clz.b32 %d, %a;", "%d", 1, 0, 0, 31);
    gives("clz.b64 %d, %qa;", "%d", 0, 0, 0, 64);
    gives("brev.b32 %d, %a;", "%d", 1, 0, 0, 0x80000000);
    gives("bfind.u32 %d, %a;", "%d", 0, 0, 0, 0xffffffff);
    gives("bfind.u32 %d, %a;", "%d", 0x100, 0, 0, 8);
    gives("bfind.s32 %d, %a;", "%d", 0xfffffeff, 0, 0, 8);
    gives("bfind.shiftamt.u32 %d, %a;", "%d", 0x100, 0, 0, 23);
    gives("lop3.b32 %d, %a, %b, %c, 0x80;", "%d", 0xf0, 0xcc, 0xaa, 0x80);
    gives("lop3.b32 %d, %a, %b, %c, 0x96;", "%d", 0xf0, 0xcc, 0xaa, 0x96);
    gives("prmt.b32 %d, %a, %b, 0x7610;", "%d", 0x33221100, 0x77665544, 0, 0x77661100);
    gives("prmt.b32 %d, %a, %b, 0x9a90;", "%d", 0x00807f11, 0, 0, 0x00ff0011);
    gives("bfe.u32 %d, %a, %b, %c;", "%d", 0xabcd, 4, 8, 0xbc);
    gives("bfe.s32 %d, %a, %b, %c;", "%d", 0xabcd, 4, 8, 0xffffffbc);
    gives("bfe.s32 %d, %a, %b, %c;", "%d", 0x80000000, 28, 16, 0xfffffff8);
    gives("bfe.u32 %d, %a, %b, %c;", "%d", 0xffffffff, 40, 8, 0);
    gives("bfe.u32 %d, %a, %b, %c;", "%d", 0xffffffff, 0, 0, 0);
    gives("bfe.u64 %qd, %qa, %b, %c;", "%qd", UINT64_MAX, 60, 64, 15);
    gives("bfi.b32 %d, %a, %b, 8, 8;", "%d", 0x1ab, 0xffffffff, 0, 0xffffabff);
    gives("bfi.b32 %d, %a, %b, 40, 8;", "%d", 0xab, 0x12345678, 0, 0x12345678);
    gives("mov.b64 %qd, {%a, %b};", "%qd", 1, 2, 0, 0x200000001);
    gives("mov.b64 {%e, %d}, %qa;", "%d", 0x500000004, 0, 0, 5);
    gives("mov.b32 %d, {%ha, %hb};", "%d", 0x1234, 0x5678, 0, 0x56781234);
    gives("mov.b32 {%ha, %hd}, %a;", "%hd", 0x56781234, 0, 0, 0x5678);
}

static void comparisons(void) {
    gives("setp.lt.s32 %p, %a, %b;", "%p", 0xffffffff, 0, 0, 1);
    gives("setp.lt.u32 %p, %a, %b;", "%p", 0xffffffff, 0, 0, 0);
    gives("setp.lo.u32 %p, %a, %b;", "%p", 1, 2, 0, 1);
    gives("setp.hs.u32 %p, %a, %b;", "%p", 2, 2, 0, 1);
    gives("setp.ge.s64 %p, %qa, %qb;", "%p", (uint64_t)-1, 0, 0, 0);
    gives("setp.gt.s16 %p, %ha, %hb;", "%p", 0x8000, 1, 0, 0);
    gives("setp.eq.b32 %p|%r, %a, %b;", "%r", 3, 3, 0, 0);
    gives("setp.ne.and.s32 %p, %a, %b, %q;", "%p", 1, 2, 0, 0);
    gives("setp.ne.or.s32 %p, %a, %b, %q;", "%p", 1, 1, 1, 1);
    gives("setp.ne.xor.s32 %p, %a, %b, %q;", "%p", 1, 2, 1, 0);
    gives("setp.ne.and.s32 %p, %a, %b, !%q;", "%p", 1, 2, 0, 1);
    gives("setp.lt.f32 %p, %a, %b;", "%p", QNAN, F(1), 0, 0);
    gives("setp.ltu.f32 %p, %a, %b;", "%p", QNAN, F(1), 0, 1);
    gives("setp.ne.f32 %p, %a, %b;", "%p", QNAN, QNAN, 0, 0);
    gives("setp.neu.f32 %p, %a, %b;", "%p", QNAN, QNAN, 0, 1);
    gives("setp.eq.f32 %p, %a, %b;", "%p", NEG0, 0, 0, 1);
    gives("setp.nan.f32 %p, %a, %b;", "%p", QNAN, F(1), 0, 1);
    gives("setp.num.f32 %p, %a, %b;", "%p", F(2), F(1), 0, 1);
    gives("setp.gt.f64 %p, %qa, %qb;", "%p", D(2), D(1), 0, 1);
    gives("selp.b32 %d, %a, %b, %p;", "%d", 1, 2, 1, 1);
    gives("selp.b64 %qd, %qa, %qb, %p;", "%qd", 1, 2, 0, 2);
    gives("and.pred %r, %p, %q;", "%r", 0, 0, 1, 1);
    gives("not.pred %r, %p;", "%r", 0, 0, 1, 0);
    gives("xor.pred %r, %p, %q;", "%r", 0, 0, 1, 0);
    gives("@%p mov.b32 %d, %a;", "%d", 7, 0, 0, 0);
    gives("mov.pred %r, 0;", "%r", 0, 0, 0, 0);
    gives("mov.pred %r, -1;", "%r", 0, 0, 0, 1);
    gives("mov.pred %r, %p;", "%r", 0, 0, 4, 1);
    gives("@!%p mov.b32 %d, %a;", "%d", 7, 0, 0, 7);
}

static void real(void) {
    gives("add.f32 %d, %a, %b;", "%d", INF, INF | NEG0, 0, QNAN);
    gives("add.rn.f32 %d, %a, %b;", "%d", F(1), F(0x1p-24f), 0, F(1));
    gives("add.rp.f32 %d, %a, %b;", "%d", F(1), F(0x1p-30f), 0, 0x3f800001);
    gives("add.rm.f32 %d, %a, %b;", "%d", F(1), F(-0x1p-30f), 0, 0x3f7fffff);
    gives("add.rz.f32 %d, %a, %b;", "%d", F(1), F(0x1.fp-24f), 0, F(1));
    gives("add.sat.f32 %d, %a, %b;", "%d", F(1), F(1), 0, F(1));
    gives("add.sat.f32 %d, %a, %b;", "%d", QNAN, F(1), 0, 0);
    gives("add.ftz.f32 %d, %a, %b;", "%d", 1, 1, 0, 0);
    gives("add.f32 %d, %a, %b;", "%d", 1, 1, 0, 2);
    gives("mul.f32 %d, %a, %b;", "%d", INF, 0, 0, QNAN);
    gives("mul.ftz.f32 %d, %a, %b;", "%d", 0x80000001, F(1), 0, NEG0);
    gives("fma.rn.f32 %d, %a, %b, %c;", "%d", 0x3f800001, 0x3f800001, F(-1), F(0x1.000001p-22f));
    gives("fma.rm.f32 %d, %a, %b, %c;", "%d", F(1), F(1), F(-0x1p-30f), 0x3f7fffff);
    gives("sub.f64 %qd, %qa, %qb;", "%qd", D(1), D(0x1p-54), 0, D(1));
    gives("fma.rn.f64 %qd, %qa, %qb, %qc;", "%qd", D(3), D(4), D(5), D(17));
    gives("div.rn.f32 %d, %a, %b;", "%d", F(1), 0, 0, INF);
    gives("div.full.f32 %d, %a, %b;", "%d", F(6), F(3), 0, F(2));
    gives("div.rn.f64 %qd, %qa, %qb;", "%qd", D(1), D(3), 0, D(1.0 / 3));
    gives("min.f32 %d, %a, %b;", "%d", QNAN, F(1), 0, F(1));
    gives("max.f32 %d, %a, %b;", "%d", F(1), QNAN, 0, F(1));
    gives("max.f32 %d, %a, %b;", "%d", QNAN, QNAN | 1, 0, QNAN);
    gives("min.NaN.f32 %d, %a, %b;", "%d", QNAN, F(1), 0, QNAN);
    gives("min.f32 %d, %a, %b;", "%d", 0, NEG0, 0, NEG0);
    gives("max.f32 %d, %a, %b;", "%d", NEG0, 0, 0, 0);
    gives("max.f64 %qd, %qa, %qb;", "%qd", D(1), D(2), 0, D(2));
    gives("neg.f32 %d, %a;", "%d", 0, 0, 0, NEG0);
    gives("abs.f32 %d, %a;", "%d", NEG0, 0, 0, 0);
    gives("abs.f64 %qd, %qa;", "%qd", D(-2), 0, 0, D(2));
    gives("copysign.f32 %d, %a, %b;", "%d", NEG0, F(3), 0, F(-3));
    gives("sqrt.rn.f32 %d, %a;", "%d", F(-1), 0, 0, QNAN);
    gives("sqrt.rn.f64 %qd, %qa;", "%qd", D(9), 0, 0, D(3));
    gives("rcp.rn.f32 %d, %a;", "%d", NEG0, 0, 0, INF | NEG0);
    gives("rsqrt.approx.f32 %d, %a;", "%d", F(4), 0, 0, F(0.5f));
    gives("rsqrt.approx.f32 %d, %a;", "%d", 0, 0, 0, INF);
    gives("ex2.approx.f32 %d, %a;", "%d", F(-3), 0, 0, F(0.125f));
    gives("ex2.approx.ftz.f32 %d, %a;", "%d", F(-140), 0, 0, 0);
    gives("lg2.approx.f32 %d, %a;", "%d", 0, 0, 0, INF | NEG0);
    gives("tanh.approx.f32 %d, %a;", "%d", INF, 0, 0, F(1));
    gives("sin.approx.f32 %d, %a;", "%d", NEG0, 0, 0, NEG0);
    gives("cos.approx.f32 %d, %a;", "%d", 0, 0, 0, F(1));
}

static void halves(void) {
    gives("add.f16 %hd, %ha, %hb;", "%hd", 0x3c00, 0x1000, 0, 0x3c00);
    gives("add.rn.f16x2 %d, %a, %b;", "%d", 0x3c007bff, 0x40007bff, 0, 0x42007c00);
    gives("fma.rn.f16x2 %d, %a, %b, %c;", "%d", 0x40004000, 0x42003c00, 0x3c003c00, 0x47004200);
    gives("fma.rn.bf16x2 %d, %a, %b, %c;", "%d", 0x40003f80, 0x40003f80, 0x3f803f80, 0x40a04000);
    gives("mul.bf16 %hd, %ha, %hb;", "%hd", 0x3fc0, 0x4000, 0, 0x4040);
    gives("max.f16x2 %d, %a, %b;", "%d", 0x7fffbc00, 0x3c003c00, 0, 0x3c003c00);
    gives("max.NaN.bf16 %hd, %ha, %hb;", "%hd", 0x7fff, 0x3f80, 0, 0x7fff);
    gives("neg.bf16x2 %d, %a;", "%d", 0x3f800000, 0, 0, 0xbf808000);
    gives("abs.f16 %hd, %ha;", "%hd", 0xbc00, 0, 0, 0x3c00);
    gives("setp.lt.f16 %p, %ha, %hb;", "%p", 0xbc00, 0x3c00, 0, 1);
}

static void conversions(void) {
    gives("cvt.rni.s32.f32 %d, %a;", "%d", F(2.5f), 0, 0, 2);
    gives("cvt.rni.s32.f32 %d, %a;", "%d", F(3.5f), 0, 0, 4);
    gives("cvt.rzi.s32.f32 %d, %a;", "%d", F(-2.9f), 0, 0, (uint32_t)-2);
    gives("cvt.rmi.s32.f32 %d, %a;", "%d", F(-2.1f), 0, 0, (uint32_t)-3);
    gives("cvt.rpi.s32.f32 %d, %a;", "%d", F(-2.9f), 0, 0, (uint32_t)-2);
    gives("cvt.rpi.s32.f32 %d, %a;", "%d", F(2.1f), 0, 0, 3);
    gives("cvt.rzi.s32.f32 %d, %a;", "%d", F(3e9f), 0, 0, 0x7fffffff);
    gives("cvt.rzi.s32.f32 %d, %a;", "%d", INF | NEG0, 0, 0, 0x80000000);
    gives("cvt.rzi.u32.f32 %d, %a;", "%d", F(-5), 0, 0, 0);
    gives("cvt.rzi.u32.f32 %d, %a;", "%d", F(5e9f), 0, 0, 0xffffffff);
    gives("cvt.rzi.s32.f32 %d, %a;", "%d", QNAN, 0, 0, 0);
    gives("cvt.rzi.s64.f32 %qd, %a;", "%qd", QNAN, 0, 0, (uint64_t)1 << 63);
    gives("cvt.rzi.s32.f64 %d, %qa;", "%d", D((double)NAN), 0, 0, 0x80000000);
    gives("cvt.rzi.u8.f32 %d, %a;", "%d", F(300), 0, 0, 255);
    gives("cvt.rzi.u64.f64 %qd, %qa;", "%qd", D(1.8e19), 0, 0, 18000000000000000000u);
    gives("cvt.rn.f32.s32 %d, %a;", "%d", 0x7fffffff, 0, 0, F(0x1p31f));
    gives("cvt.rz.f32.s32 %d, %a;", "%d", 0x7fffffff, 0, 0, 0x4effffff);
    gives("cvt.rm.f32.s32 %d, %a;", "%d", 0x80000001, 0, 0, F(-0x1p31f));
    gives("cvt.rp.f32.u32 %d, %a;", "%d", 0x1000001, 0, 0, 0x4b800001);
    gives("cvt.rn.f32.u64 %d, %qa;", "%d", UINT64_MAX, 0, 0, F(0x1p64f));
    gives("cvt.rn.f64.s64 %qd, %qa;", "%qd", (uint64_t)-1, 0, 0, D(-1));
    gives("cvt.rn.f32.u8 %d, %a;", "%d", 0x1ff, 0, 0, F(255));
    gives("cvt.rn.f32.f64 %d, %qa;", "%d", D(1 + 0x1p-24), 0, 0, F(1));
    gives("cvt.rp.f32.f64 %d, %qa;", "%d", D(1 + 0x1p-30), 0, 0, 0x3f800001);
    gives("cvt.rz.f32.f64 %d, %qa;", "%d", D(1e300), 0, 0, 0x7f7fffff);
    gives("cvt.rn.f32.f64 %d, %qa;", "%d", D(1e300), 0, 0, INF);
    gives("cvt.rn.f32.f64 %d, %qa;", "%d", D(0x1p-149), 0, 0, 1);
    gives("cvt.rn.f32.f64 %d, %qa;", "%d", D(0x1p-150), 0, 0, 0);
    gives("cvt.f64.f32 %qd, %a;", "%qd", F(0.1f), 0, 0, D((double)0.1f));
    gives("cvt.rn.f16.f32 %hd, %a;", "%hd", F(65519), 0, 0, 0x7bff);
    gives("cvt.rn.f16.f32 %hd, %a;", "%hd", F(65520), 0, 0, 0x7c00);
    gives("cvt.rz.f16.f32 %hd, %a;", "%hd", F(1e6f), 0, 0, 0x7bff);
    gives("cvt.rn.f16.f32 %hd, %a;", "%hd", F(0x1p-24f), 0, 0, 1);
    gives("cvt.rn.f16.f32 %hd, %a;", "%hd", F(0x1p-25f), 0, 0, 0);
    gives("cvt.rn.f16.f32 %hd, %a;", "%hd", F(0x1.8p-25f), 0, 0, 1);
    gives("cvt.rn.f16.f32 %hd, %a;", "%hd", QNAN, 0, 0, 0x7fff);
    gives("cvt.f32.f16 %d, %ha;", "%d", 0x8001, 0, 0, F(-0x1p-24f));
    gives("cvt.f32.f16 %d, %ha;", "%d", 0xfc00, 0, 0, INF | NEG0);
    gives("cvt.rn.bf16.f32 %hd, %a;", "%hd", 0x3f808000, 0, 0, 0x3f80);
    gives("cvt.rn.bf16.f32 %hd, %a;", "%hd", 0x3f818000, 0, 0, 0x3f82);
    gives("cvt.rz.bf16.f32 %hd, %a;", "%hd", 0x3f81ffff, 0, 0, 0x3f81);
    gives("cvt.rn.bf16.f32 %hd, %a;", "%hd", 0x7f7fffff, 0, 0, 0x7f80);
    gives("cvt.rn.bf16.f32 %hd, %a;", "%hd", 0x7f800001, 0, 0, 0x7fff);
    gives("cvt.f32.bf16 %d, %ha;", "%d", 0xbf80, 0, 0, F(-1));
    gives("cvt.rn.bf16x2.f32 %d, %a, %b;", "%d", F(1), F(2), 0, 0x3f804000);
    gives("cvt.rn.f16x2.f32 %d, %a, %b;", "%d", F(1), F(2), 0, 0x3c004000);
    gives("cvt.rn.relu.f16x2.f32 %d, %a, %b;", "%d", F(-1), F(2), 0, 0x00004000);
    gives("cvt.rna.tf32.f32 %d, %a;", "%d", 0x3f801000, 0, 0, 0x3f802000);
    gives("cvt.rna.tf32.f32 %d, %a;", "%d", 0x3f800fff, 0, 0, 0x3f800000);
    gives("cvt.sat.f32.f32 %d, %a;", "%d", F(7), 0, 0, F(1));
    gives("cvt.sat.f32.f32 %d, %a;", "%d", QNAN, 0, 0, 0);
    gives("cvt.rmi.f32.f32 %d, %a;", "%d", F(-0.5f), 0, 0, F(-1));
    gives("cvt.rzi.f32.f32 %d, %a;", "%d", F(-0.5f), 0, 0, NEG0);
    gives("cvt.rni.f64.f64 %qd, %qa;", "%qd", D(0.5), 0, 0, 0);
    gives("cvt.u32.u8 %d, %a;", "%d", 0x1ff, 0, 0, 0xff);
    gives("cvt.s32.s8 %d, %a;", "%d", 0x80, 0, 0, 0xffffff80);
    gives("cvt.s64.s32 %qd, %a;", "%qd", 0x80000000, 0, 0, 0xffffffff80000000);
    gives("cvt.u64.u32 %qd, %a;", "%qd", 0x80000000, 0, 0, 0x80000000);
    gives("cvt.u16.u32 %hd, %a;", "%hd", 0x12345, 0, 0, 0x2345);
    gives("cvt.sat.u8.s32 %d, %a;", "%d", 0xffffff00, 0, 0, 0);
    gives("cvt.sat.s8.s32 %d, %a;", "%d", 200, 0, 0, 127);
    gives("cvt.s32.s64 %d, %qa;", "%d", 0x1ffffffff, 0, 0, 0xffffffff);
}

static void refusals(void) {
    refused_insn("add.rq.f32 %d, %a, %b;", "'add.rq.f32' is not known");
    refused_insn("frobnicate.b32 %d, %a;", "'frobnicate.b32' is not known");
    refused_insn("mul.s32 %d, %a, %b;", "'mul.s32' is not known");
    refused_insn("add.s32 %d, %a;", "'add.s32' ends early");
    refused_insn("add.s32 %d, %a, %b, %c;", "more operands");
    refused_insn("add.s32 %d, %qa, %b;", "operand 2 of 'add.s32' has 64 bits");
    refused_insn("add.s32 5, %a, %b;", "operand 1 of 'add.s32' is not a register");
    refused_insn("add.s32 %d, %a, %zz;", "the name '%zz' is not known");
    refused_insn("selp.b32 %d, %a, %b, %c;", "is not a predicate");
    refused_insn("bra NOWHERE;", "no label is called 'NOWHERE'");
    refused_insn("bra INSIDE; { INSIDE: }", "no label is called 'INSIDE'");
    refused_insn("bra TWICE; TWICE: TWICE:", "the label 'TWICE' is there twice");
    refused_insn("ld.global.f128 %d, [%o];", "'.f128'");
    refused_insn("tex.2d.v4.f32.f32 {%d}, [%a];", "is not known");
    refused(".version 9.0\n.target sm_120\n", "the module is for sm_120, the device is sm_100");
    refused(".version 9.0\n.func f() {}\n", "functions");
    refused(".version 9.0\n.target sm_80\n.entry k() { ", "ends early");
    refused(".version 9.0\n.target sm_80\n.entry k() { .reg .b32 %a; mov.b32 %a, 1; }",
            "does not end in ret");
    refused(".version 9.0\n.target sm_80\n", "no kernel");
}

int main(void) {
    arithmetic();
    carry();
    bits();
    comparisons();
    real();
    halves();
    conversions();
    refusals();
    return done_testing();
}
