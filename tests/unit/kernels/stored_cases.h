// SPDX-License-Identifier: Apache-2.0
// Ops on activations in bfloat16: every instruction set this machine has against the plain
// reference on the same bits, and one thread against three. Behind each tensor are bytes that
// nothing may touch, and then a page that cannot be read.
#ifndef DTCTL_TESTS_UNIT_KERNELS_STORED_CASES_H
#define DTCTL_TESTS_UNIT_KERNELS_STORED_CASES_H

#include <sys/mman.h>

#include "kernels/bf16.h"
#include "kernels/kernels.h"
#include "tests/tap.h"
#include "tests/unit/kernels/random_floats.h"

enum { TENSORS_MAX = 12, ARGS_MAX = 12, THREADS = 3, GUARD = 8, PAGE = 4096 };
#define F KERNEL_FLOAT
#define H KERNEL_BF16

// A tensor of an op, with bytes behind it that nothing may touch.
struct tensor {
    enum kernel_type store;
    size_t n;
    unsigned char *at;
};
struct tensors {
    int count;
    struct tensor of[TENSORS_MAX];
};

static size_t bytes_of(const struct tensor *t) {
    return t->n * (t->store == H ? sizeof(uint16_t) : sizeof(float));
}

// Memory of that many bytes, at a multiple of 64, that ends soon before the page.
static unsigned char *guarded(size_t bytes) {
    size_t all = (bytes + GUARD + PAGE - 1) / PAGE * PAGE;
    unsigned char *p =
        mmap(NULL, all + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + all, PAGE, PROT_NONE) != 0)
        bail_out("out of memory");
    return p + (all - bytes - GUARD) / 64 * 64;
}

static void unguard(unsigned char *at, size_t bytes) {
    size_t all = (bytes + GUARD + PAGE - 1) / PAGE * PAGE;
    munmap(at - (all - bytes - GUARD) / 64 * 64, all + PAGE);
}

static void add_tensor(struct tensors *all, enum kernel_type store, size_t n) {
    struct tensor *t = &all->of[all->count++];
    *t = (struct tensor){.store = store, .n = n};
    t->at = guarded(bytes_of(t));
    memset(t->at, 0xa5, bytes_of(t) + GUARD);
    for (size_t i = 0; i < n; i++)
        if (store == H)
            ((uint16_t *)(void *)t->at)[i] = bf16_narrow(random_float());
        else
            ((float *)(void *)t->at)[i] = random_float();
}

static struct tensors copy_of(const struct tensors *all) {
    struct tensors copy = *all;
    for (int i = 0; i < all->count; i++) {
        copy.of[i].at = guarded(bytes_of(&all->of[i]));
        memcpy(copy.of[i].at, all->of[i].at, bytes_of(&all->of[i]) + GUARD);
    }
    return copy;
}

static void free_tensors(struct tensors *all) {
    for (int i = 0; i < all->count; i++)
        unguard(all->of[i].at, bytes_of(&all->of[i]));
}

static double number(const struct tensor *t, size_t i) {
    return t->store == H ? (double)bf16_widen(((const uint16_t *)(const void *)t->at)[i])
                         : (double)((const float *)(const void *)t->at)[i];
}

// Numbers that are further apart than a last bit of their type and a share of the largest one.
static size_t count_apart(const struct tensors *got, const struct tensors *want, double share) {
    size_t apart = 0;
    for (int k = 0; k < got->count; k++) {
        const struct tensor *g = &got->of[k], *w = &want->of[k];
        double scale = 0, last = w->store == H ? 0x1.02p-7 : 0;
        for (size_t i = 0; i < w->n; i++)
            scale = fmax(scale, fabs(number(w, i)));
        for (size_t i = 0; i < w->n; i++)
            apart +=
                !(fabs(number(g, i) - number(w, i)) <= last * fabs(number(w, i)) + share * scale);
        for (size_t i = 0; i < GUARD; i++)
            apart += g->at[bytes_of(g) + i] != 0xa5;
    }
    return apart;
}

static bool same(const struct tensors *a, const struct tensors *b) {
    for (int k = 0; k < a->count; k++)
        if (memcmp(a->of[k].at, b->of[k].at, bytes_of(&a->of[k])) != 0)
            return false;
    return true;
}

typedef void run_op(const struct kernel_backend *k, struct kernel_ctx *ctx, const int *arg,
                    const struct tensors *t);
typedef void make_op(const int *arg, struct tensors *t);

static void reserve(const struct kernel_backend *k, struct kernel_ctx *ctx, size_t bytes) {
    if (k->reserve(ctx, bytes) != 0)
        bail_out("out of memory");
}

struct op_case {
    const char *what;
    make_op *make;
    run_op *run;
    double share;
    int arg[ARGS_MAX];
};

static struct kernel_ctx *open_ctx(const char *isa, int threads) {
    struct kernel_ctx *ctx;
    struct kernel_config config = {.isa = isa, .threads = threads, .keep = KERNEL_KEEP_ALWAYS};
    int rc = kernels_cpu.open(&ctx, &config);
    if (rc == -95) // ENOTSUP
        return NULL;
    if (rc != 0)
        bail_out("cannot open %s", isa);
    return ctx;
}

static void check_isa(const char *isa, const struct op_case *cases, int count,
                      const struct tensors *before, const struct tensors *want) {
    struct kernel_ctx *one = open_ctx(isa, 1), *several = one ? open_ctx(isa, THREADS) : NULL;
    if (!one) {
        skip(1, "this machine has no %s", isa);
        return;
    }
    ok(kernels_cpu.keeps_bf16(one), "%s: activations are kept in bfloat16 where that is asked for",
       isa);
    for (int i = 0; i < count; i++) {
        struct tensors got = copy_of(&before[i]), again = copy_of(&before[i]);
        cases[i].run(&kernels_cpu, one, cases[i].arg, &got);
        cases[i].run(&kernels_cpu, several, cases[i].arg, &again);
        is_uint(count_apart(&got, &want[i], cases[i].share), 0, "%s: %s, case %d", isa,
                cases[i].what, i);
        ok(same(&got, &again), "%s: %s, case %d: three threads give the bits of one", isa,
           cases[i].what, i);
        free_tensors(&got);
        free_tensors(&again);
    }
    kernels_cpu.close(one);
    kernels_cpu.close(several);
}

// Sums of every number and quarters of its last bit: to the nearest, ties to even. One op rounds
// numbers that follow each other, the other one those of a tile.
static const char *const isas[] = {"avx512-amx", "avx512-bf16", "avx512", "avx2", "base"};
enum { ISAS = sizeof isas / sizeof isas[0], CASES_MAX = 64 };

static void check_cases(const struct op_case *cases, int count) {
    static struct tensors before[CASES_MAX], want[CASES_MAX];
    struct kernel_ctx *plain;
    if (count > CASES_MAX || kernels_reference.open(&plain, &(struct kernel_config){0}) != 0)
        bail_out("cannot open the reference");
    for (int i = 0; i < count; i++) {
        cases[i].make(cases[i].arg, &before[i]);
        want[i] = copy_of(&before[i]);
        cases[i].run(&kernels_reference, plain, cases[i].arg, &want[i]);
    }
    kernels_reference.close(plain);
    for (size_t i = 0; i < ISAS; i++)
        check_isa(isas[i], cases, count, before, want);
    for (int i = 0; i < count; i++) {
        free_tensors(&before[i]);
        free_tensors(&want[i]);
    }
}

#endif
