// SPDX-License-Identifier: Apache-2.0
// Tables of instance types and of quotas.
#include "aws/aws_instance_types.h"

#include "base/str.h"

#include <string.h>

// clang-format off
static const struct aws_type TYPES[] = {
    {"g4dn.xlarge",   1, "T4",   16,   4,   16, "up to 25", 0,   526},
    {"g4dn.2xlarge",  1, "T4",   16,   8,   32, "up to 25", 0,   752},
    {"g4dn.4xlarge",  1, "T4",   16,  16,   64, "up to 25", 0,  1204},
    {"g4dn.8xlarge",  1, "T4",   16,  32,  128, "50",       1,  2176},
    {"g4dn.12xlarge", 4, "T4",   16,  48,  192, "50",       1,  3912},
    {"g4dn.16xlarge", 1, "T4",   16,  64,  256, "50",       1,  4352},
    {"g4dn.metal",    8, "T4",   16,  96,  384, "100",      1,  7824},
    {"g5.xlarge",     1, "A10G", 22.4,  4,  16, "up to 10", 0,  1006},
    {"g5.2xlarge",    1, "A10G", 22.4,  8,  32, "up to 10", 0,  1212},
    {"g5.4xlarge",    1, "A10G", 22.4, 16,  64, "up to 25", 0,  1624},
    {"g5.8xlarge",    1, "A10G", 22.4, 32, 128, "25",       1,  2448},
    {"g5.12xlarge",   4, "A10G", 22.4, 48, 192, "40",       1,  5672},
    {"g5.16xlarge",   1, "A10G", 22.4, 64, 256, "25",       1,  4096},
    {"g5.24xlarge",   4, "A10G", 22.4, 96, 384, "50",       1,  8144},
    {"g5.48xlarge",   8, "A10G", 22.4, 192, 768, "100",     1, 16288},
    {"g6.xlarge",     1, "L4",   22.4,  4,  16, "up to 10", 0,   805},
    {"g6.2xlarge",    1, "L4",   22.4,  8,  32, "up to 10", 0,   978},
    {"g6.4xlarge",    1, "L4",   22.4, 16,  64, "up to 25", 0,  1323},
    {"g6.8xlarge",    1, "L4",   22.4, 32, 128, "25",       1,  2014},
    {"g6.12xlarge",   4, "L4",   22.4, 48, 192, "40",       1,  4602},
    {"g6.16xlarge",   1, "L4",   22.4, 64, 256, "25",       1,  3397},
    {"g6.24xlarge",   4, "L4",   22.4, 96, 384, "50",       1,  6675},
    {"g6.48xlarge",   8, "L4",   22.4, 192, 768, "100",     1, 13350},
    {"gr6.4xlarge",   1, "L4",   22.4, 16, 128, "up to 25", 0,  1539},
    {"gr6.8xlarge",   1, "L4",   22.4, 32, 256, "25",       1,  2446},
    {"g6e.xlarge",    1, "L40S", 44.7,  4,  32, "up to 20", 0,  1861},
    {"g6e.2xlarge",   1, "L40S", 44.7,  8,  64, "up to 20", 0,  2242},
    {"g6e.4xlarge",   1, "L40S", 44.7, 16, 128, "20",       0,  3004},
    {"g6e.8xlarge",   1, "L40S", 44.7, 32, 256, "25",       1,  4529},
    {"g6e.12xlarge",  4, "L40S", 44.7, 48, 384, "100",      1, 10493},
    {"g6e.16xlarge",  1, "L40S", 44.7, 64, 512, "35",       1,  7577},
    {"g6e.24xlarge",  4, "L40S", 44.7, 96, 768, "200",      2, 15066},
    {"g6e.48xlarge",  8, "L40S", 44.7, 192, 1536, "400",    4, 30131},
    {"g7.2xlarge",    1, "RTX PRO 4500", 32,   8,  32, "up to 60",  0, 0},
    {"g7.4xlarge",    1, "RTX PRO 4500", 32,  16,  64, "up to 100", 0, 0},
    {"g7.8xlarge",    1, "RTX PRO 4500", 32,  32, 128, "100",       1, 0},
    {"g7.12xlarge",   2, "RTX PRO 4500", 32,  48, 192, "175",       1, 0},
    {"g7.24xlarge",   4, "RTX PRO 4500", 32,  96, 384, "350",       1, 0},
    {"g7.48xlarge",   8, "RTX PRO 4500", 32, 192, 768, "700",       2, 0},
    {"g7e.2xlarge",   1, "RTX PRO 6000", 96,   8,   64, "50",   0,  3363},
    {"g7e.4xlarge",   1, "RTX PRO 6000", 96,  16,  128, "50",   0,  3998},
    {"g7e.8xlarge",   1, "RTX PRO 6000", 96,  32,  256, "100",  1,  5268},
    {"g7e.12xlarge",  2, "RTX PRO 6000", 96,  48,  512, "400",  1,  8286},
    {"g7e.24xlarge",  4, "RTX PRO 6000", 96,  96, 1024, "800",  2, 16572},
    {"g7e.48xlarge",  8, "RTX PRO 6000", 96, 192, 2048, "1600", 4, 33144},
    {"p3dn.24xlarge", 8, "V100", 32,  96,  768, "100",   1, 31212},
    {"p4d.24xlarge",  8, "A100", 40,  96, 1152, "4x100", 4, 21958},
    {"p4de.24xlarge", 8, "A100", 80,  96, 1152, "4x100", 4, 27447},
    {"p5.4xlarge",    1, "H100", 80,  16,  256, "100",   1,  6880},
    {"p5.48xlarge",   8, "H100", 80, 192, 2048, "3200", 32, 55040},
    {"p5e.48xlarge",  8, "H200", 141, 192, 2048, "3200", 32, 0},
    {"p5en.48xlarge", 8, "H200", 141, 192, 2048, "3200", 16, 63296},
    {"p6-b200.48xlarge", 8, "B200", 179, 192, 2048, "3200", 8, 113933},
    {"p6-b300.48xlarge", 8, "B300", 269, 192, 4096, "6400", 16, 0},
};
// clang-format on
enum { NEAR_MAX = 2, TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

const struct aws_type *aws_instance_types_find(const char *name) {
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (strcmp(TYPES[i].name, name) == 0)
            return &TYPES[i];
    return NULL;
}

const char *aws_instance_types_nearest(const char *name) {
    const char *names[TYPE_COUNT + 1] = {NULL};
    const char *found;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        names[i] = TYPES[i].name;
    found = str_nearest(name, names);
    return found && str_distance(name, found) <= NEAR_MAX ? found : NULL;
}

const char *const aws_purchase_names[] = {"on-demand", "spot", "reservation", "capacity-block",
                                          NULL};

int aws_purchase_named(const char *name) {
    for (int i = 0; aws_purchase_names[i]; i++)
        if (strcmp(aws_purchase_names[i], name) == 0)
            return i;
    return -1;
}

// Families by prefix; the first matching row applies. The last row matches all others (A, C, D, H,
// I, M, R, T, Z). Families with an unknown quota have "".
static const struct {
    const char *begin;
    struct aws_quota on_demand, spot;
} FAMILIES[] = {
    {"inf", {"", ""}, {"", ""}},
    {"trn", {"", ""}, {"", ""}},
    {"dl", {"", ""}, {"", ""}},
    {"hpc", {"", ""}, {"", ""}},
    {"f", {"", ""}, {"", ""}},
    {"u", {"", ""}, {"", ""}},
    {"x", {"", ""}, {"", ""}},
    {"g",
     {"L-DB2E81BA", "Running On-Demand G and VT instances"},
     {"L-3819A6DF", "All G and VT Spot Instance Requests"}},
    {"vt",
     {"L-DB2E81BA", "Running On-Demand G and VT instances"},
     {"L-3819A6DF", "All G and VT Spot Instance Requests"}},
    {"p5",
     {"L-417A185B", "Running On-Demand P instances"},
     {"L-C4BD4855", "All P5 Spot Instance Requests"}},
    {"p6",
     {"L-417A185B", "Running On-Demand P instances"},
     {"L-C4BD4855", "All P5 Spot Instance Requests"}},
    {"p",
     {"L-417A185B", "Running On-Demand P instances"},
     {"L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"}},
    {"",
     {"L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"},
     {"L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"}},
};

// A reservation counts as on-demand; a capacity block includes its capacity.
struct aws_quota aws_instance_types_quota(const char *type, enum aws_purchase purchase) {
    if (purchase == AWS_CAPACITY_BLOCK)
        return (struct aws_quota){"", ""};
    for (size_t i = 0;; i++)
        if (str_starts(type, FAMILIES[i].begin))
            return purchase == AWS_SPOT ? FAMILIES[i].spot : FAMILIES[i].on_demand;
}

// ARM types have a "g" after the generation: "g5g.xlarge", "p6e-gb200.36xlarge", "m7gd.metal".
bool aws_instance_types_is_arm(const char *name) {
    size_t family = strcspn(name, "0123456789");
    const char *rest = name + family + strspn(name + family, "0123456789");
    if (str_starts(name, "a1."))
        return true;
    for (const char *p = rest; *p && *p != '.'; p++)
        if (*p == 'g')
            return true;
    return false;
}

// Families before NVIDIA's Turing, which the open kernel modules of the default image leave out.
bool aws_instance_types_has_old_gpu(const char *name) {
    static const char *const old[] = {"g3.", "g3s.", "p2.", "p3.", "p3dn."};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++)
        if (str_starts(name, old[i]))
            return true;
    return false;
}

bool aws_instance_types_is_metal(const char *name) {
    const char *size = strchr(name, '.');
    return size && str_starts(size, ".metal");
}

bool aws_instance_types_has_shared_gpu(const char *name) {
    return str_starts(name, "g6f.") || str_starts(name, "gr6f.");
}
