// SPDX-License-Identifier: Apache-2.0
// The trainer's pure parts: schedules, memory plan, buckets, models and their shapes on disk,
// initial values, shares of CPUs, progress lines.
#include "base/arena.h"
#include "base/json.h"
#include "data/dataset.h"
#include "nn/lr_schedule.h"
#include "nn/memory_plan.h"
#include "nn/optimizer.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "trainer/bucket.h"
#include "trainer/cores.h"
#include "trainer/meter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct nn_model model;

static void build(const char *name, const char *stem, int size) {
    struct nn_model_spec spec = {.name = name,
                                 .stem = stem,
                                 .hidden = {32, 16},
                                 .nhidden = 2,
                                 .h = size,
                                 .w = size,
                                 .c = 3,
                                 .classes = 10};
    struct err e;
    if (model_build(&model, &spec, &e) < 0)
        bail_out("%s", e.text);
}

static void test_schedule(void) {
    struct lr_schedule s = {.kind = TRAIN_CONSTANT, .lr = 0.1, .epochs = 10};
    near(lr_schedule_rate(&s, 7.5, 7.5 + 0.001), 0.1, 0, "a constant rate is kept");
    s = (struct lr_schedule){
        .kind = TRAIN_STEP, .lr = 1, .epochs = 90, .step_epochs = 30, .gamma = 0.1};
    near(lr_schedule_rate(&s, 29.999, 29.999 + 0.001), 1, 0,
         "step: the rate is kept before the first drop");
    near(lr_schedule_rate(&s, 30, 30 + 0.001), 0.1, 1e-15, "step: the rate drops");
    near(lr_schedule_rate(&s, 60.5, 60.5 + 0.001), 0.01, 1e-15, "step: the rate drops twice");
    s = (struct lr_schedule){
        .kind = TRAIN_COSINE, .lr = 1, .lr_min = 0.2, .epochs = 12, .warmup_epochs = 2};
    near(lr_schedule_rate(&s, 0, 0.5), 0.25, 1e-15,
         "warm-up: the rate of a step is that of its end");
    near(lr_schedule_rate(&s, 0.5, 1), 0.5, 1e-15, "warm-up: the rate at its half");
    near(lr_schedule_rate(&s, 1.9, 2.4), 1, 1e-15, "the rate is never above the peak");
    near(lr_schedule_rate(&s, 2, 2 + 0.001), 1, 1e-15, "the rate reaches the peak");
    near(lr_schedule_rate(&s, 7, 7 + 0.001), 0.6, 1e-15, "cosine: the rate is at its half");
    near(lr_schedule_rate(&s, 12, 12 + 0.001), 0.2, 1e-15, "cosine: the rate is right at the end");
    near(lr_schedule_rate(&s, 13, 13 + 0.001), 0.2, 1e-15,
         "cosine: the rate is right past the end");
    s.kind = TRAIN_LINEAR;
    near(lr_schedule_rate(&s, 4.5, 4.6), 0.8, 1e-15,
         "linear: the rate is right at a quarter of the line");
    static const int64_t milestones[] = {3, 5};
    s = (struct lr_schedule){.kind = TRAIN_MULTISTEP, .lr = 1, .epochs = 9, .gamma = 0.5};
    s.milestones = milestones, s.nmilestones = 2;
    near(lr_schedule_rate(&s, 2.9, 3), 1, 0,
         "multistep: the rate is kept before the first milestone");
    near(lr_schedule_rate(&s, 3 - 1e-12, 3.1), 0.5, 0,
         "multistep: the rate drops at the milestone, whatever the rounding");
    near(lr_schedule_rate(&s, 8, 8.1), 0.25, 0, "multistep: the rate drops at both milestones");
    s.kind = TRAIN_EXPONENTIAL;
    near(lr_schedule_rate(&s, 2.9, 3), 0.25, 0, "exponential: the rate drops with whole epochs");
    s = (struct lr_schedule){.kind = TRAIN_TRIANGLE, .lr = 2, .epochs = 10};
    s.peak = 0.5, s.cycle_start = 0.1, s.cycle_end = 0.25;
    near(lr_schedule_rate(&s, 0, 1), 0.2, 1e-15, "triangle: the first step has its rate");
    near(lr_schedule_rate(&s, 2, 3), 1.1, 1e-15, "triangle: the rate is right at half of the rise");
    near(lr_schedule_rate(&s, 4, 5), 2, 1e-15, "the last step of the rise is at the peak");
    near(lr_schedule_rate(&s, 9, 10), 0.5, 1e-15, "triangle: the last step of all has its rate");
    near(lr_schedule_rate(&s, 12, 13), 0.5, 1e-15, "triangle: the rate is right past the end");
    s.kind = TRAIN_ONECYCLE;
    near(lr_schedule_rate(&s, 2, 3), 1.1, 1e-15, "onecycle: the rate is right at half of the rise");
    near(lr_schedule_rate(&s, 1, 2), 0.2 + 0.9 * (1 - sqrt(0.5)), 1e-15,
         "onecycle: the rate is right at a quarter of the rise");
}

static bool overlap(const struct memory_plan_block *a, const struct memory_plan_block *b) {
    bool together = a->from <= b->to && b->from <= a->to;
    return together && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void test_plan(void) {
    struct memory_plan_block block[200];
    uint32_t x = 12345;
    bool good = true;
    for (int i = 0; i < 200; i++) {
        x = x * 1664525 + 1013904223;
        int from = (int)(x >> 8) % 100;
        block[i] = (struct memory_plan_block){
            .bytes = 64 * (1 + (x >> 16) % 50), .from = from, .to = from + (int)(x >> 24) % 20};
    }
    size_t total = memory_plan_place(block, 200);
    for (int i = 0; i < 200; i++) {
        good = good && block[i].offset + block[i].bytes <= total && block[i].offset % 64 == 0;
        for (int j = 0; j < i; j++)
            good = good && !overlap(&block[i], &block[j]);
    }
    ok(good, "200 random tensors: none overlaps another that is alive");
    struct memory_plan p;
    const struct memory_plan_spec train = {64, 4, true, 1, false, 0, false, false},
                                  eval = {64, 4, false, 1, false, 0, false, false};
    static const char *const stems[] = {"imagenet", "cifar"};
    for (int i = 0; i < 2; i++) {
        build("resnet18", stems[i], 32);
        memory_plan_make(&p, &model, &train);
        ok(p.bytes >= p.bytes_least && (double)p.bytes <= 1.1 * (double)p.bytes_least,
           "resnet18 %s takes %zu bytes, at most a tenth above the %zu alive at once", stems[i],
           p.bytes, p.bytes_least);
        size_t trained = p.bytes;
        memory_plan_free(&p);
        memory_plan_make(&p, &model, &eval);
        ok(p.bytes * 3 < trained, "evaluation needs %zu bytes, less than a third", p.bytes);
        memory_plan_free(&p);
    }
}

static void test_buckets(void) {
    struct bucket_list list;
    build("resnet18", "imagenet", 32);
    bucket_cut(&list, &model, 1 << 20, 25 << 20);
    size_t end = model.param_elements + NETWORK_TAIL;
    bool good = true;
    for (int i = 0; i < list.count; i++) {
        good = good && list.bucket[i].end == end && list.bucket[i].begin < end;
        end = list.bucket[i].begin;
    }
    ok(good && end == 0, "buckets cover everything from the end to the start, once");
    ok(list.count >= 3, "%d buckets are made: of 1 MiB, then of 25 MiB", list.count);
    ok((list.bucket[0].end - list.bucket[0].begin) * 4 >= 1 << 20, "the first has its size");
    bucket_free(&list);
    bucket_cut(&list, &model, 1, 1);
    ok(list.count > 40, "tiny buckets hold one layer each (%d)", list.count);
    bucket_free(&list);
    build("mlp", NULL, 4);
    bucket_cut(&list, &model, 1 << 20, 25 << 20);
    is_int(list.count, 1, "a small model is one bucket");
    bucket_free(&list);
}

static const struct nn_param *param(const char *name) {
    for (int i = 0; i < model.params; i++)
        if (strcmp(model.param[i].name, name) == 0)
            return &model.param[i];
    bail_out("no parameter %s", name);
}

static void test_resnets(void) {
    int dim[4];
    build("resnet18", "imagenet", 224);
    is_uint(model.param_count, 11181642, "resnet18 with 10 classes has 11,181,642 parameters");
    is_int(model_disk_shape(param("layer2.0.downsample.0.weight"), dim), 4,
           "a convolution has four dimensions on disk");
    ok(dim[0] == 128 && dim[1] == 64 && dim[2] == 1 && dim[3] == 1,
       "a convolution has its shape on disk");
    is_int(model_disk_shape(param("fc.weight"), dim), 2, "a linear layer has two dimensions");
    ok(dim[0] == 10 && dim[1] == 512, "a linear layer is stored as out and in");
    // Convolutions have channels x channels, norms 2 x channels, all in proportion to the width.
    build("resnet18(width=16)", "imagenet", 224);
    is_uint(model.param_count, 703386, "resnet18 of a quarter of the width has 703,386 parameters");
    build("resnet50(width=32)", "imagenet", 224);
    is_uint(model.param_count, 5902890, "resnet50 of half the width has 5,902,890 parameters");
    build("resnet34", "imagenet", 224);
    is_uint(model.param_count, 21797672 - 990 * 513,
            "resnet34 has as many parameters as torchvision's");
    build("resnet50", "imagenet", 224);
    is_uint(model.param_count, 25557032 - 990 * 2049,
            "resnet50 has as many parameters as torchvision's");
    is_int(model_disk_shape(param("layer4.0.conv2.weight"), dim), 4,
           "the middle of a bottleneck has four dimensions on disk");
    ok(dim[0] == 512 && dim[1] == 512 && dim[2] == 3,
       "the middle of a bottleneck is a 3x3 convolution");
    const struct nn_layer *strided = &model.layer[1];
    while (strcmp(strided->name, "layer4.0.conv2") != 0)
        strided++;
    ok(strided->as.window.stride == 2 && strided->h == 7, "the middle has the stride");
    build("resnet18(stem=cifar)", "imagenet", 32);
    is_str(model_stem(&model), "cifar", "the text says more than the key");
}

static void test_transformers(void) {
    int dim[4];
    build("vit_tiny", NULL, 224); // timm's with 1000 classes, less 990 rows of the head
    is_uint(model.param_count, 5717416 - 990 * 193, "vit_tiny has as many parameters as timm's");
    is_int(model_disk_shape(param("pos_embed"), dim), 3, "positions have three dimensions");
    ok(dim[0] == 1 && dim[1] == 197 && dim[2] == 192, "positions are stored as 1, tokens, width");
    is_int(model_disk_shape(param("patch_embed.proj.weight"), dim), 4, "patches are a convolution");
    ok(dim[0] == 192 && dim[1] == 3 && dim[2] == 16 && dim[3] == 16,
       "patches are a convolution of 16 x 16 pixels");
    build("vit_small", NULL, 224);
    is_uint(model.param_count, 22050664 - 990 * 385, "vit_small has as many parameters as timm's");
    build("vit_base", NULL, 224);
    is_uint(model.param_count, 86567656 - 990 * 769, "vit_base has as many parameters as timm's");
    build("linformer(dim=1536)", NULL, 224);
    is_uint(model.param_count, 344804354 + 8 * 1537, "linformer of width 1536 has its parameters");
    build("linformer", NULL, 224);
    is_uint(model.param_count, 2851842 + 8 * 129,
            "linformer of width 128 with ten classes for two has its parameters");
    is_int(model_disk_shape(param("to_patch_embedding.1.weight"), dim), 2, "patches are a matrix");
    ok(dim[0] == 128 && dim[1] == 32 * 32 * 3, "patches are a matrix of 32 x 32 pixels");
}

static void test_mlp(void) {
    int dim[4];
    build("mlp(hidden=7,9)", NULL, 4);
    is_int(model.layers, 4, "mlp has two hidden layers");
    build("mlp", NULL, 4);
    is_uint(model.param_count, 48 * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10,
            "mlp has its parameters");
    const struct nn_param *p = param("fc1.weight");
    is_int(model_disk_shape(p, dim), 2, "a linear layer on an image has two dimensions too");
    is_int(dim[1], 48, "an input of mlp has channels times positions");
    float memory[48 * 32], disk[48 * 32], back[48 * 32];
    for (int i = 0; i < 48 * 32; i++)
        memory[i] = (float)i;
    model_to_disk(p, memory, disk);
    near(disk[1], 3, 0, "on disk the position is the inner dimension");
    near(disk[16], 1, 0, "on disk the channel is the outer dimension");
    model_from_disk(p, disk, back);
    is_mem(back, sizeof back, memory, sizeof memory, "the layout converts to disk and back");
}

static void test_wrong_models(void) {
    struct nn_model_spec spec = {.name = "vgg", .h = 4, .w = 4, .c = 3, .classes = 10};
    struct err e;
    is_int(model_build(&model, &spec, &e), -1, "an unknown model is refused");
    spec = (struct nn_model_spec){
        .name = "resnet18", .stem = "none", .h = 32, .w = 32, .c = 3, .classes = 10};
    is_int(model_build(&model, &spec, &e), -1, "an unknown stem is refused");
    spec = (struct nn_model_spec){.name = "vit(dim=10)", .h = 32, .w = 32, .c = 3, .classes = 10};
    is_int(model_build(&model, &spec, &e), -1, "heads that do not divide the width are refused");
    is_str(e.text, "model vit(dim=10): dim 10 is no multiple of heads 3",
           "the error names heads that do not divide the width");
    spec.name = "vit(patch=5)";
    is_int(model_build(&model, &spec, &e), -1, "patches that do not divide the image are refused");
    ok(strstr(e.text, "images of 32 x 32 pixels are no multiple of patch 5") != NULL,
       "the error names patches that do not divide the image");
}

static bool is_in(const char *const *words, const char *word) {
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

static int repeated(const char *const *words) {
    int found = 0;
    for (; *words; words++)
        found += is_in(words + 1, *words);
    return found;
}

// Each constant has a word of its own, and behind it is what the word says.
static void test_names(void) {
#define WORDS(list, name, count, words)                                                            \
    ok(words[count] == NULL && !is_in(words, "") && repeated(words) == 0, #words);
    TRAIN_NAMES(WORDS)
#undef WORDS
    for (int i = 0; i < TRAIN_MODELS; i++) {
        build(train_model_words[i], "cifar", 32);
        ok(model.layers > 2, "model %s can be built", train_model_words[i]);
    }
    for (int i = 0; i < TRAIN_DATASETS; i++)
        ok(i == TRAIN_DATA_AUTO || is_in(dataset_kinds, train_dataset_words[i]),
           "data set %s can be read", train_dataset_words[i]);
    for (int i = 0; i < TRAIN_KERNEL_SETS; i++)
        ok(kernels_find(train_kernels_words[i]) != NULL, "kernels %s are there",
           train_kernels_words[i]);
    for (int i = 0; i < TRAIN_SCHEDULES; i++) {
        struct lr_schedule s = {.kind = (enum train_schedule)i, .lr = 1, .epochs = 2, .gamma = 0.5};
        s.peak = 0.5, s.cycle_start = 1;
        near(lr_schedule_rate(&s, 0, 0.1), 1, 0, "schedule %s begins at the rate",
             train_schedule_words[i]);
    }
    for (int i = 0; i < TRAIN_OPTIMIZERS; i++) {
        struct optimizer o = {.kind = (enum train_optimizer)i, .momentum = 0.9};
        int states = optimizer_states(&o);
        ok(states > 0 && optimizer_state_name(&o, states - 1) != NULL, "optimizer %s has state",
           train_optimizer_words[i]);
    }
}

static void test_init(void) {
    build("resnet18", "imagenet", 32);
    int conv = (int)(param("layer4.1.conv2.weight") - model.param);
    int fc = (int)(param("fc.weight") - model.param);
    size_t n = model.param[conv].count;
    float *v = heap_alloc(n * sizeof *v), *w = heap_alloc(n * sizeof *w);
    double sum = 0, squares = 0, most = 0;
    model_init_param(&model, conv, 1, v);
    for (size_t i = 0; i < n; i++) {
        sum += (double)v[i];
        squares += (double)v[i] * (double)v[i];
    }
    near(sum / (double)n, 0, 1e-4, "convolution: mean 0");
    near(sqrt(squares / (double)n) / sqrt(2.0 / (512 * 9)), 1, 2e-3,
         "convolutions have the deviation sqrt(2 / fan_out)");
    model_init_param(&model, conv, 1, w);
    is_mem(v, n * sizeof *v, w, n * sizeof *w, "the same seed gives the same numbers");
    model_init_param(&model, conv, 2, w);
    ok(memcmp(v, w, n * sizeof *v) != 0, "another seed gives other numbers");
    int wide = (int)(param("layer2.0.conv1.weight") - model.param); // 64 channels in, 128 out
    size_t half = model.param[wide].count;
    squares = 0;
    model_init_param(&model, wide, 1, v);
    for (size_t i = 0; i < half; i++)
        squares += (double)v[i] * (double)v[i];
    near(sqrt(squares / (double)half) / sqrt(2.0 / (128 * 9)), 1, 5e-3, "fan_out is not fan_in");
    n = model.param[fc].count;
    model_init_param(&model, fc, 1, v);
    squares = 0;
    for (size_t i = 0; i < n; i++) {
        most = fabs((double)v[i]) > most ? fabs((double)v[i]) : most;
        squares += (double)v[i] * (double)v[i];
    }
    ok(most <= 1 / sqrt(512.0) && most > 0.99 / sqrt(512.0),
       "linear layers are within 1 / sqrt(fan_in)");
    near(sqrt(squares / (double)n) * sqrt(3 * 512.0), 1, 0.02,
         "the weights are uniform within their bound");
    free(v);
    free(w);
}

// Last: from then on the kernel takes no set of fewer CPUs, as that of a machine of 8192 CPUs does.
static void test_many_cpus(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_getaffinity, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 8192 / 8, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    cpu_set_t set;
    struct err e = {0};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        bail_out("seccomp: %s", strerror(errno));
    ok(sched_getaffinity(0, sizeof set, &set) < 0, "the kernel refuses a set of 1024 CPUs");
    is_int(cores_allowed(&set, &e), 0, "a machine of 8192 CPUs is no error: %s", e.text);
    ok(CPU_COUNT(&set) > 0, "the first CPUs of the machine are used");
}

static void test_cores(void) {
    cpu_set_t four, one, many;
    struct cores c;
    struct cores_id id[4] = {{{1}}, {{2}}, {{1}}, {{2}}};
    const struct machine_limits idle = {0}, some = {.cpus = 1.5}, plenty = {.cpus = 8},
                                busy = {.load = 2.5};
    CPU_ZERO(&four);
    CPU_ZERO(&one);
    CPU_ZERO(&many);
    for (int i = 0; i < 4; i++)
        CPU_SET(2 * i, &four);
    CPU_SET(3, &one);
    cores_share(&c, &four, &idle, id, 1, 0, 0);
    ok(c.threads == 4 && c.pinned && c.cpu[3] == 6, "one process alone uses every CPU");
    cores_share(&c, &four, &idle, id, 4, 2, 0);
    ok(c.threads == 2 && c.pinned && c.cpu[0] == 4 && c.cpu[1] == 6,
       "two of four ranks on this machine get the second half");
    cores_share(&c, &four, &idle, id, 4, 1, 1);
    ok(c.threads == 1 && !c.pinned, "fewer threads than the share are not pinned");
    cores_share(&c, &four, &idle, id, 4, 1, 3);
    ok(c.threads == 3 && !c.pinned && c.most == 2, "more threads than the share are not pinned");
    cores_share(&c, &four, &some, id, 1, 0, 0);
    ok(c.threads == 2 && !c.pinned && c.quota,
       "a quota of 1.5 CPUs gives two threads that are not pinned");
    cores_share(&c, &four, &some, id, 4, 2, 0);
    ok(c.threads == 1 && !c.pinned, "two ranks on two CPUs get one thread each");
    cores_share(&c, &four, &plenty, id, 1, 0, 0);
    ok(c.threads == 4 && c.pinned, "a quota above the number of CPUs does not count");
    cores_share(&c, &four, &busy, id, 1, 0, 0);
    ok(c.threads == 4 && !c.pinned && c.busy,
       "threads are not pinned while others use the machine");
    cores_share(&c, &one, &idle, id, 4, 2, 0);
    ok(c.threads == 1 && !c.pinned, "more ranks than CPUs get one thread each that is not pinned");
    is_int(cores_decoding(96, 96, &idle, 1), 96, "one rank decodes on all processors");
    is_int(cores_decoding(96, 48, &idle, 8), 12, "each of 8 ranks decodes on its share of a node");
    is_int(cores_decoding(96, 48, &idle, 1), 48, "a rank decodes on its own processors");
    is_int(cores_decoding(96, 48, &plenty, 2), 4, "a quota of 8 gives two ranks 4 threads each");
    is_int(cores_decoding(2, 2, &idle, 8), 1, "each of 8 ranks on two processors decodes");
    for (int i = 0; i < 192; i++)
        CPU_SET(i, &many);
    cores_share(&c, &many, &idle, id, 1, 0, 0);
    ok(c.threads == 192 && c.pinned && c.cpu[191] == 191, "all of 192 CPUs are used");
    cores_share(&c, &many, &idle, id, 4, 2, 0);
    ok(c.threads == 96 && c.cpu[0] == 96 && c.cpu[95] == 191, "a half of 192 CPUs is 96");
}

static void put(struct arena *a, const char *root, const char *path, const char *text) {
    struct err e;
    const char *full = arena_printf(a, "%s/%s", root, path);
    if (file_make_dirs(file_dir(a, full), 0755, &e) < 0 ||
        file_write_atomic(full, text, strlen(text), 0644, &e) < 0)
        bail_out("%s", e.text);
}

static void test_limits(void) {
    char root[] = "/tmp/test_trainer_parts.XXXXXX";
    struct arena a = {0};
    struct machine_limits l;
    struct err e;
    if (!mkdtemp(root))
        bail_out("no folder");
    machine_limits_read(&l, root);
    ok(l.cpus <= 0 && l.memory_bytes == 0 && l.load <= 0, "no /proc, no limits");
    put(&a, root, "proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   4096 kB\n");
    put(&a, root, "proc/loadavg", "2.50 1.00 0.50 3/400 123\n");
    put(&a, root, "proc/self/cgroup", "0::/a/b\n");
    put(&a, root, "sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    machine_limits_read(&l, root);
    near(l.cpus, 1.5, 0, "the quota of the group is found");
    is_uint(l.memory_bytes, 4 << 20, "the available memory is found");
    near(l.load, 2.5, 0, "the load is found");
    put(&a, root, "sys/fs/cgroup/a/b/memory.max", "1048576\n");
    machine_limits_read(&l, root);
    is_uint(l.memory_bytes, 1 << 20, "the limit of a group is less");
    put(&a, root, "sys/fs/cgroup/a/b/memory.max", "8388608\n");
    machine_limits_read(&l, root);
    is_uint(l.memory_bytes, 4 << 20, "the limit of a group is more than there is");
    file_remove_tree(root, &e);
    arena_fini(&a);
}

static void test_lines(void) {
    struct strbuf out = {0};
    struct meter_set m = {0};
    meter_add(&m.time_s, 0.127, 1);
    meter_add(&m.time_s, 0.123, 1);
    meter_add(&m.data_s, 0.001, 1);
    meter_add(&m.loss, 2.5, 64);
    meter_add(&m.loss, 1.2345, 64);
    meter_add(&m.top1, 43.75, 64);
    meter_add(&m.top5, 100, 64);
    meter_train_line(&out, 0, 10, 782, &m);
    is_str(strbuf_cstr(&out),
           "Epoch: [0][ 10/782]\tTime  0.123 ( 0.125)\tData  0.001 ( 0.001)\t"
           "Loss 1.2345e+00 (1.8672e+00)\tAcc@1  43.75 ( 43.75)\tAcc@5 100.00 (100.00)",
           "a line of training is in torchvision's layout");
    strbuf_clear(&out);
    meter_eval_line(&out, 46.34, 72.484);
    is_str(strbuf_cstr(&out), " * Acc@1 46.340 Acc@5 72.484",
           "a line of evaluation is in torchvision's layout");
    strbuf_clear(&out);
    struct meter_interval i = {.step = 7, .loss = 0.5, .lr = (double)NAN};
    meter_interval_json(&out, &i);
    struct arena a = {0};
    struct json *j;
    struct err e;
    is_int(json_parse(&a, out.data, out.len, &j, &e), 0, "a line of metrics is JSON");
    is_int(json_get_int(j, "step", 0), 7, "a line of metrics has the step");
    is_int(json_get(j, "lr")->type, JSON_NULL, "a number that is not finite is null");
    arena_fini(&a);
    strbuf_fini(&out);
}

int main(void) {
    test_schedule();
    test_plan();
    test_buckets();
    test_resnets();
    test_transformers();
    test_mlp();
    test_wrong_models();
    test_names();
    test_init();
    test_cores();
    test_limits();
    test_lines();
    test_many_cpus();
    return done_testing();
}
