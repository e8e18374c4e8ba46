// SPDX-License-Identifier: Apache-2.0
// AWS's facts about each instance type, in AWS's units, and what the names of types say.
#include "aws/aws_instance_types.h"
#include "base/str.h"
#include "tests/tap.h"

#include <stdlib.h>

// DescribeInstanceTypes and the price list of Linux in us-east-1; 0: sold in capacity blocks only,
// or not listed yet.
static const struct fact {
    const char *name;
    int gpus, memory_gib, efa;
    double dollars_per_hour;
} FACTS[] = {
    {"g4dn.xlarge", 1, 16, 0, 0.526},
    {"g4dn.2xlarge", 1, 32, 0, 0.752},
    {"g4dn.4xlarge", 1, 64, 0, 1.204},
    {"g4dn.8xlarge", 1, 128, 1, 2.176},
    {"g4dn.12xlarge", 4, 192, 1, 3.912},
    {"g4dn.16xlarge", 1, 256, 1, 4.352},
    {"g4dn.metal", 8, 384, 1, 7.824},
    {"g5.xlarge", 1, 16, 0, 1.006},
    {"g5.2xlarge", 1, 32, 0, 1.212},
    {"g5.4xlarge", 1, 64, 0, 1.624},
    {"g5.8xlarge", 1, 128, 1, 2.448},
    {"g5.12xlarge", 4, 192, 1, 5.672},
    {"g5.16xlarge", 1, 256, 1, 4.096},
    {"g5.24xlarge", 4, 384, 1, 8.144},
    {"g5.48xlarge", 8, 768, 1, 16.288},
    {"g6.xlarge", 1, 16, 0, 0.8048},
    {"g6.2xlarge", 1, 32, 0, 0.9776},
    {"g6.4xlarge", 1, 64, 0, 1.3232},
    {"g6.8xlarge", 1, 128, 1, 2.0144},
    {"g6.12xlarge", 4, 192, 1, 4.6016},
    {"g6.16xlarge", 1, 256, 1, 3.3968},
    {"g6.24xlarge", 4, 384, 1, 6.6752},
    {"g6.48xlarge", 8, 768, 1, 13.3504},
    {"gr6.4xlarge", 1, 128, 0, 1.5392},
    {"gr6.8xlarge", 1, 256, 1, 2.4464},
    {"g6e.xlarge", 1, 32, 0, 1.861},
    {"g6e.2xlarge", 1, 64, 0, 2.24208},
    {"g6e.4xlarge", 1, 128, 0, 3.00424},
    {"g6e.8xlarge", 1, 256, 1, 4.52856},
    {"g6e.12xlarge", 4, 384, 1, 10.49264},
    {"g6e.16xlarge", 1, 512, 1, 7.57719},
    {"g6e.24xlarge", 4, 768, 2, 15.06559},
    {"g6e.48xlarge", 8, 1536, 4, 30.13118},
    {"g7.2xlarge", 1, 32, 0, 0},
    {"g7.4xlarge", 1, 64, 0, 0},
    {"g7.8xlarge", 1, 128, 1, 0},
    {"g7.12xlarge", 2, 192, 1, 0},
    {"g7.24xlarge", 4, 384, 1, 0},
    {"g7.48xlarge", 8, 768, 2, 0},
    {"g7e.2xlarge", 1, 64, 0, 3.363},
    {"g7e.4xlarge", 1, 128, 0, 3.998},
    {"g7e.8xlarge", 1, 256, 1, 5.268},
    {"g7e.12xlarge", 2, 512, 1, 8.286},
    {"g7e.24xlarge", 4, 1024, 2, 16.572},
    {"g7e.48xlarge", 8, 2048, 4, 33.144},
    {"p3dn.24xlarge", 8, 768, 1, 31.212},
    {"p4d.24xlarge", 8, 1152, 4, 21.9576},
    {"p4de.24xlarge", 8, 1152, 4, 27.4470},
    {"p5.4xlarge", 1, 256, 1, 6.88},
    {"p5.48xlarge", 8, 2048, 32, 55.04},
    {"p5e.48xlarge", 8, 2048, 32, 0},
    {"p5en.48xlarge", 8, 2048, 16, 63.296},
    {"p6-b200.48xlarge", 8, 2048, 8, 113.9328},
    {"p6-b300.48xlarge", 8, 4096, 16, 0},
};
enum { FACT_COUNT = sizeof FACTS / sizeof *FACTS };

static const struct {
    const char *gpu;
    double memory_gib;
} GPUS[] = {{"T4", 16},    {"A10G", 22.4},       {"L4", 22.4},         {"L40S", 44.7},
            {"V100", 32},  {"RTX PRO 4500", 32}, {"RTX PRO 6000", 96}, {"H100", 80},
            {"H200", 141}, {"B200", 179},        {"B300", 269}};

// A size of "24xlarge" has 24 times the 4 vCPUs of an "xlarge".
static int vcpus_of(const char *name) {
    const char *size = strchr(name, '.') + 1;
    return strcmp(size, "metal") == 0 ? 96 : 4 * (*size == 'x' ? 1 : (int)strtol(size, NULL, 10));
}

static double memory_of(const struct aws_type *t) {
    if (strcmp(t->gpu, "A100") == 0)
        return str_starts(t->name, "p4de.") ? 80 : 40;
    for (size_t i = 0; i < sizeof GPUS / sizeof *GPUS; i++)
        if (strcmp(GPUS[i].gpu, t->gpu) == 0)
            return GPUS[i].memory_gib;
    return 0;
}

static void facts(void) {
    for (size_t i = 0; i < FACT_COUNT; i++) {
        const struct fact *f = &FACTS[i];
        const struct aws_type *t = aws_instance_types_find(f->name);
        ok(t, "%s is known", f->name);
        if (!t)
            continue;
        is_int(t->gpus, f->gpus, "%s has its GPUs", f->name);
        is_int(t->memory_gib, f->memory_gib, "%s has its memory", f->name);
        is_int(t->efa, f->efa, "%s has its EFA interfaces", f->name);
        is_int(t->vcpus, vcpus_of(f->name), "%s has the vCPUs of its size", f->name);
        is_int(t->price_mils, (int64_t)(f->dollars_per_hour * 1000 + 0.5), "%s has its price",
               f->name);
        near(t->gpu_memory_gib, memory_of(t), 1e-9, "the GPUs of %s have their memory", f->name);
    }
}

static void names(void) {
    static const char *const old[] = {"g3.4xlarge", "g3s.xlarge", "p2.xlarge", "p3.2xlarge",
                                      "p3dn.24xlarge"};
    static const char *const newer[] = {"g4dn.xlarge", "p4d.24xlarge", "p30.xlarge", "g3",
                                        "m5.large"};
    static const char *const metal[] = {"g4dn.metal", "m7i.metal-24xl"};
    static const char *const virtual[] = {"g4dn.xlarge", "metal", "x.y.metal"};
    static const char *const shared[] = {"g6f.xlarge", "gr6f.4xlarge"};
    static const char *const whole[] = {"g6.xlarge", "gr6.4xlarge", "g6f"};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        ok(aws_instance_types_has_old_gpu(old[i]), "%s needs an older driver", old[i]);
    for (size_t i = 0; i < sizeof newer / sizeof *newer; i++)
        ok(!aws_instance_types_has_old_gpu(newer[i]), "%s needs no older driver", newer[i]);
    for (size_t i = 0; i < sizeof metal / sizeof *metal; i++)
        ok(aws_instance_types_is_metal(metal[i]), "%s has no hypervisor", metal[i]);
    for (size_t i = 0; i < sizeof virtual / sizeof *virtual; i++)
        ok(!aws_instance_types_is_metal(virtual[i]), "%s has a hypervisor", virtual[i]);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        ok(aws_instance_types_has_shared_gpu(shared[i]), "%s has a part of a GPU", shared[i]);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        ok(!aws_instance_types_has_shared_gpu(whole[i]), "%s has no part of a GPU", whole[i]);
    ok(!aws_instance_types_is_arm("a100.large"), "a100 is not the family a1");
    ok(!aws_instance_types_is_arm("m5.gigantic"), "the size of a type does not count");
    ok(!aws_instance_types_is_arm("g"), "a family without a generation is not for arm64");
}

static void quotas(void) {
    static const struct {
        const char *type, *on_demand, *spot;
    } cases[] = {
        {"inf2.xlarge", "", ""},
        {"trn1.2xlarge", "", ""},
        {"dl1.24xlarge", "", ""},
        {"hpc7a.96xlarge", "", ""},
        {"f1.2xlarge", "", ""},
        {"u-6tb1.metal", "", ""},
        {"x2idn.32xlarge", "", ""},
        {"g6e.xlarge", "L-DB2E81BA", "L-3819A6DF"},
        {"vt1.3xlarge", "L-DB2E81BA", "L-3819A6DF"},
        {"p5.4xlarge", "L-417A185B", "L-C4BD4855"},
        {"p6-b200.48xlarge", "L-417A185B", "L-C4BD4855"},
        {"p3dn.24xlarge", "L-417A185B", "L-7212CCBC"},
        {"m7i.large", "L-1216C47A", "L-34B43A08"},
        {"d3.xlarge", "L-1216C47A", "L-34B43A08"},
        {"i4i.large", "L-1216C47A", "L-34B43A08"},
        {"hs1.8xlarge", "L-1216C47A", "L-34B43A08"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *type = cases[i].type;
        is_str(aws_instance_types_quota(type, AWS_ON_DEMAND).code, cases[i].on_demand,
               "%s has a quota on demand", type);
        is_str(aws_instance_types_quota(type, AWS_SPOT).code, cases[i].spot,
               "%s has a quota for spot instances", type);
        is_str(aws_instance_types_quota(type, AWS_RESERVATION).code, cases[i].on_demand,
               "%s in a reservation counts as on-demand", type);
        is_str(aws_instance_types_quota(type, AWS_CAPACITY_BLOCK).code, "",
               "%s in a capacity block needs no quota", type);
    }
    for (int i = 0; aws_purchase_names[i]; i++)
        is_int(aws_purchase_named(aws_purchase_names[i]), i, "'%s' is found by its name",
               aws_purchase_names[i]);
    is_int(aws_purchase_named("capacity-block"), AWS_CAPACITY_BLOCK, "a block is the last way");
}

int main(void) {
    facts();
    names();
    quotas();
    return done_testing();
}
