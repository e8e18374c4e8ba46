// SPDX-License-Identifier: Apache-2.0
// Memory plans: places of blocks, and the bytes that a step of some models needs.
#include "nn/memory_plan.h"
#include "tests/tap.h"

// ---- blocks ------------------------------------------------------------------------------------

static void test_place(void) {
    static const struct {
        struct memory_plan_block block[5]; // with the offsets that are expected
        size_t total;
        const char *about;
    } cases[] = {
        {{{64, 0, 1, 0}, {64, 2, 3, 0}}, 64, "blocks one after the other share their place"},
        {{{64, 0, 2, 0}, {64, 2, 3, 64}}, 128, "blocks of one moment lie beside each other"},
        {{{64, 2, 3, 0}, {64, 0, 2, 64}}, 128, "the order of time does not count"},
        {{{64, 0, 9, 128}, {128, 0, 9, 0}}, 192, "the largest block is the lowest"},
        {{{256, 0, 2, 0}, {64, 0, 9, 256}, {128, 3, 5, 0}, {64, 3, 9, 128}},
         320,
         "the lowest gap is taken"},
        {{{256, 0, 4, 0}, {192, 3, 9, 256}, {128, 5, 9, 0}, {128, 5, 9, 128}},
         448,
         "a gap is filled to its end"},
        {{{256, 0, 4, 0}, {192, 3, 9, 256}, {160, 5, 9, 0}, {128, 5, 9, 448}},
         576,
         "a gap that is too small is left"},
        {{{0, 0, 9, 0}}, 0, "a block of nothing needs nothing"},
        {{{64, 0, 0, 0}, {64, 0, 0, 64}, {64, 1, 1, 0}, {64, 0, 1, 128}, {64, 1, 1, 64}},
         192,
         "equal blocks keep their order"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct memory_plan_block b[5];
        int count = 0, wrong = 0;
        for (; count < 5 && (cases[k].block[count].bytes || cases[k].block[count].to); count++) {
            b[count] = cases[k].block[count];
            b[count].offset = 999;
        }
        is_uint(memory_plan_place(b, count), cases[k].total,
                "blocks of case %zu need so many bytes", k);
        for (int i = 0; i < count; i++)
            if (b[i].offset != cases[k].block[i].offset)
                diag("block %d is at %zu", i, b[i].offset), wrong++;
        is_int(wrong, 0, "%s", cases[k].about);
    }
}

// ---- models ------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int side;
    struct memory_plan_spec spec; // n, bytes of a number, training, slots, again, store, acts, sums
    size_t bytes, least, kept;
} models[] = {
    {"mlp(hidden=7,9)", 4, {4, 4, false, 1, false, 0, false, false}, 896, 896, 0},
    {"mlp(hidden=7,9)", 4, {4, 4, true, 1, false, 0, false, false}, 1472, 1472, 0},
    {"mlp(hidden=7,9)", 4, {4, 4, true, 3, false, 0, false, false}, 320, 1472, 1280},
    {"mlp(hidden=7,9)", 4, {4, 4, true, 1, true, 0, true, true}, 1472, 1472, 0},
    {"mlp(hidden=7,9)", 4, {4, 4, true, 2, true, 0, false, false}, 320, 1472, 1280},
    {"mlp(hidden=7,9)", 4, {3, 2, true, 1, false, 0, true, true}, 576, 576, 0},
    {"resnet18(width=16)", 32, {4, 4, false, 1, false, 0, false, false}, 786560, 786560, 0},
    {"resnet18(width=16)", 32, {4, 4, true, 1, false, 0, false, false}, 4810112, 4810112, 0},
    {"resnet18(width=16)", 32, {4, 4, true, 3, false, 0, false, false}, 786432, 4810112, 4746816},
    {"resnet18(width=16)", 32, {4, 4, true, 1, true, 0, true, true}, 2409088, 2409088, 0},
    {"resnet18(width=16)", 32, {4, 4, true, 2, true, 0, false, false}, 1310848, 2408960, 1564480},
    {"resnet18(width=16)", 32, {3, 2, true, 1, false, 0, true, true}, 1804992, 1804992, 0},
    {"resnet50(width=8)", 32, {4, 4, false, 1, false, 0, false, false}, 1573120, 1573120, 0},
    {"resnet50(width=8)", 32, {4, 4, true, 1, false, 0, false, false}, 12953536, 12953536, 0},
    {"resnet50(width=8)", 32, {4, 4, true, 3, false, 0, false, false}, 1179648, 12953536, 12826752},
    {"resnet50(width=8)", 32, {4, 4, true, 1, true, 0, true, true}, 4258752, 4258752, 0},
    {"resnet50(width=8)", 32, {4, 4, true, 2, true, 0, false, false}, 2621568, 4254784, 3939072},
    {"resnet50(width=8)", 32, {3, 2, true, 1, false, 0, true, true}, 4861120, 4861120, 0},
    {"vit(dim=16,depth=2,heads=2,patch=4)",
     16,
     {4, 4, false, 1, false, 0, false, false},
     39168,
     39168,
     0},
    {"vit(dim=16,depth=2,heads=2,patch=4)",
     16,
     {4, 4, true, 1, false, 0, false, false},
     176768,
     176768,
     0},
    {"vit(dim=16,depth=2,heads=2,patch=4)",
     16,
     {4, 4, true, 3, false, 0, false, false},
     26112,
     176768,
     155776},
    {"vit(dim=16,depth=2,heads=2,patch=4)",
     16,
     {4, 4, true, 1, true, 0, true, true},
     109760,
     109760,
     0},
    {"vit(dim=16,depth=2,heads=2,patch=4)",
     16,
     {4, 4, true, 2, true, 0, false, false},
     88768,
     109760,
     21760},
    {"vit(dim=16,depth=2,heads=2,patch=4)",
     16,
     {3, 2, true, 1, false, 0, true, true},
     66944,
     66944,
     0},
    {"airbench(width=16)", 32, {4, 4, false, 1, false, 0, false, false}, 738048, 738048, 0},
    {"airbench(width=16)", 32, {4, 4, true, 1, false, 0, false, false}, 1594688, 1562432, 0},
    {"airbench(width=16)", 32, {4, 4, true, 3, false, 0, false, false}, 615040, 1562432, 1512960},
    {"airbench(width=16)", 32, {4, 4, true, 1, true, 0, true, true}, 1416640, 1402240, 0},
    {"airbench(width=16)", 32, {4, 4, true, 2, true, 0, false, false}, 629440, 1402240, 896448},
    {"airbench(width=16)", 32, {3, 2, true, 1, false, 0, true, true}, 612992, 596480, 0},
};

static void test_models(void) {
    static struct nn_model model;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        const struct memory_plan_spec *s = &models[k].spec;
        struct nn_model_spec wanted = {.name = models[k].name,
                                       .stem = "cifar",
                                       .h = models[k].side,
                                       .w = models[k].side,
                                       .c = 3,
                                       .classes = 10};
        struct memory_plan p;
        struct err e = {0};
        model_free(&model);
        if (model_build(&model, &wanted, &e) < 0)
            bail_out("%s", e.text);
        memory_plan_make(&p, &model, s);
        is_int(memory_plan_verify(&p, &model, s, &e), 0, "plan %zu of %s keeps every tensor", k,
               models[k].name);
        is_uint(p.bytes, models[k].bytes, "plan %zu of %s has its bytes", k, models[k].name);
        is_uint(p.bytes_least, models[k].least, "plan %zu of %s has its least", k, models[k].name);
        is_uint(p.kept_bytes, models[k].kept, "plan %zu of %s has its slot", k, models[k].name);
        memory_plan_free(&p);
    }
    model_free(&model);
}

int main(void) {
    test_place();
    test_models();
    return done_testing();
}
