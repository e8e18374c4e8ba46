// SPDX-License-Identifier: Apache-2.0
// Plans of runs, as text and JSON, compared with trainer_plan.txt. The times of layers are those of
// the test, the kernels those of the reference, and there is one processor: every number is the
// same on each computer.
#include "tests/unit/expected.h"

#include "base/json.h"
#include "tests/tap.h"
#include "trainer/trainer_plan_impl.h"

#include <sched.h>

static struct strbuf out;
static struct arena arena;
static struct err e;

// Layers later in the model take longer.
int trainer_plan_measure(struct plan *p, struct err *err) {
    (void)err;
    for (int i = 1; i < p->t->model->layers; i++) {
        p->layer[i].forward_s = i * 1e-5;
        p->layer[i].backward_s = i * 3e-5;
    }
    p->measured_n = p->t->micro_batch > 1 ? 2 : 1;
    p->update_s = 1e-9;
    p->moved_bytes_per_s = 4e9;
    return 0;
}

// ---- a plan -------------------------------------------------------------------------------------

static int plan(const struct trainer_plan_request *request, const char *const *settings) {
    struct train_config options;
    struct train_flags flags;
    struct option_set set;
    const char *argv[64];
    int argc = 0;
    static const char *const common[] = {"train.dataset=shapes",    "train.train_size=256",
                                         "train.test_size=130",     "train.threads=1",
                                         "train.hidden=32,16",      "train.batch=32",
                                         "train.bucket_bytes=4096", "train.kernels=reference"};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        argv[argc++] = "--set";
        argv[argc++] = common[i];
    }
    for (int i = 0; settings[i]; i++) {
        argv[argc++] = "--set";
        argv[argc++] = settings[i];
    }
    if (train_config_load(&options, &flags, &set, &arena, argc, argv, NULL, &e) < 0)
        bail_out("%s", e.text);
    const struct trainer_config c = {.options = &options};
    return trainer_plan(&c, request, &out, &e);
}

static void is_json(const struct trainer_plan_request *request, const char *const *settings,
                    const char *name) {
    struct trainer_plan_request r = *request;
    struct strbuf lines = {0};
    r.json = true;
    if (plan(&r, settings) < 0)
        bail_out("%s: %s", name, e.text);
    for (size_t i = 0; i < out.len; i++) {
        if (out.data[i] == '{' && i > 0)
            strbuf_addc(&lines, '\n');
        strbuf_addc(&lines, out.data[i]);
    }
    strbuf_clear(&out);
    is_expected(&lines, name);
    strbuf_fini(&lines);
}

static void is_text(const struct trainer_plan_request *request, const char *const *settings,
                    const char *name) {
    if (plan(request, settings) < 0)
        bail_out("%s: %s", name, e.text);
    is_expected(&out, name);
}

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_plans(void) {
    const struct trainer_plan_request one = {.ranks = 1, .ranks_per_node = 1};
    const struct trainer_plan_request four = {
        .ranks = 4, .ranks_per_node = 2, .network_bits_per_s = 1e9};
    const struct trainer_plan_request three = {.ranks = 3, .ranks_per_node = 2};
    const struct trainer_plan_request node = {.ranks = 4, .ranks_per_node = 8};
    const struct trainer_plan_request far = {
        .ranks = 2, .ranks_per_node = 1, .network_bits_per_s = 1e8};
    is_text(&one, SETTINGS("train.model=mlp"), "one rank");
    is_json(&one, SETTINGS("train.model=mlp"), "one rank, as JSON");
    is_text(&four, SETTINGS("train.model=mlp", "train.pipeline=2"), "four ranks, two stages");
    is_json(&four, SETTINGS("train.model=mlp", "train.pipeline=2"),
            "four ranks, two stages, as JSON");
    is_text(&three, SETTINGS("train.model=mlp", "train.local_steps=4"), "rounds");
    is_json(&three, SETTINGS("train.model=mlp", "train.local_steps=4"), "rounds, as JSON");
    is_text(&node, SETTINGS("train.model=mlp", "train.zero=true", "train.wire=bf16"),
            "sharded updates");
    is_json(&node, SETTINGS("train.model=mlp", "train.zero=true", "train.wire=bf16"),
            "sharded updates, as JSON");
    is_text(&far, SETTINGS("train.model=mlp", "train.pipeline=2"), "a stage on each node");
    is_json(&far, SETTINGS("train.model=mlp", "train.pipeline=2"), "a stage on each node, as JSON");
    static const char *const vit[] = {"train.model=vit_tiny(patch=8,depth=3)",
                                      "train.recompute=blocks", "train.accumulate=2",
                                      "train.dtype=bf16", NULL};
    is_text(&one, vit, "blocks that are computed again");
    is_json(&one, vit, "blocks that are computed again, as JSON");
    static const char *const staged[] = {"train.model=vit_tiny(patch=8,depth=3)",
                                         "train.recompute=blocks", "train.pipeline=2",
                                         "train.accumulate=4", NULL};
    is_text(&far, staged, "stages that are computed again");
    is_json(&far, staged, "stages that are computed again, as JSON");
}

// The sum is that of all kinds, and a rank by itself holds nothing for others.
static void test_sums(void) {
    const struct trainer_plan_request one = {.ranks = 1, .ranks_per_node = 1, .json = true};
    struct json *j;
    int64_t sum = 0;
    if (plan(&one, SETTINGS("train.model=mlp")) < 0 ||
        json_parse(&arena, strbuf_cstr(&out), out.len, &j, &e) < 0)
        bail_out("%s", e.text);
    const struct json *memory = json_get(json_get(j, "ranks")->child, "memory_bytes");
    static const char *const kinds[] = {
#define X(name, word) word,
        PLAN_MEMORIES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        sum += json_get_int(memory, kinds[i], -1);
    is_int(json_get_int(memory, "all", 0), sum, "the memory of a rank is the sum of its kinds");
    is_int(json_get_int(memory, "transit", -1), 0, "a rank by itself has nothing in transit");
    strbuf_clear(&out);
}

int main(int argc, char **argv) {
    cpu_set_t first;
    int cpu = sched_getcpu();
    (void)argv;
    CPU_ZERO(&first);
    CPU_SET(cpu < 0 ? 0 : (size_t)cpu, &first);
    if (sched_setaffinity(0, sizeof first, &first) < 0)
        bail_out("no processor");
    expected_open("tests/unit/trainer/trainer_plan.txt", argc);
    test_plans();
    test_sums();
    strbuf_fini(&out);
    arena_fini(&arena);
    return expected_end();
}
