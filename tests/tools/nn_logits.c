// SPDX-License-Identifier: Apache-2.0
// nn_logits NAME MODEL.safetensors STEM SIZE CLASSES COUNT < floats: loads a model and prints the
// logits of COUNT images, one line each. Standard input is COUNT x SIZE x SIZE x 3 floats.
#include "base/arena.h"
#include "base/str.h"
#include "nn/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT_MAX = 1024, SIZE_MAX_PIXELS = 512, CLASSES_MAX = 100000 };

static int number(const char *text, int max, int *out, struct err *e) {
    int64_t value;
    if (str_parse_i64(text, 1, max, &value, e) < 0)
        return -1;
    *out = (int)value;
    return 0;
}

static int print_logits(struct network *net, int count, struct err *e) {
    const struct nn_layer *in = &net->model->layer[0];
    size_t elements = layer_elements(in, count);
    float *x = network_input(net, NETWORK_EVAL);
    if (fread(x, sizeof *x, elements, stdin) != elements)
        return err_set(e, ERR_FORMAT, "standard input is too short");
    network_forward(net, count, NETWORK_EVAL);
    const float *y = network_logits(net);
    for (int i = 0; i < count; i++)
        for (int c = 0; c < net->model->classes; c++)
            printf("%.9g%c", (double)y[i * net->model->classes + c],
                   c + 1 < net->model->classes ? ' ' : '\n');
    return 0;
}

static int read_weights(struct network *net, const char *path, struct err *e) {
    struct checkpoint_image image;
    checkpoint_image_init(&image, net->model, 0);
    int r = checkpoint_read_model(&image, path, false, e);
    checkpoint_image_give(&image, net);
    checkpoint_image_fini(&image);
    return r;
}

static int run(char **argv, struct err *e) {
    static struct nn_model model;
    struct nn_model_spec spec = {.name = argv[1], .stem = argv[3], .c = 3};
    struct network net = {0};
    int count;
    if (number(argv[4], SIZE_MAX_PIXELS, &spec.h, e) < 0 ||
        number(argv[5], CLASSES_MAX, &spec.classes, e) < 0 ||
        number(argv[6], COUNT_MAX, &count, e) < 0)
        return -1;
    spec.w = spec.h;
    struct network_config c = {
        .model = &model, .backend = kernels_find("cpu"), .batch = 1, .eval_batch = count};
    int r = model_build(&model, &spec, e);
    if (r == 0)
        r = network_open(&net, &c, e);
    if (r == 0)
        r = read_weights(&net, argv[2], e);
    if (r == 0)
        r = print_logits(&net, count, e);
    network_close(&net);
    model_free(&model);
    return r;
}

int main(int argc, char **argv) {
    struct err e;
    if (argc != 7) {
        fprintf(stderr, "usage: nn_logits NAME MODEL STEM SIZE CLASSES COUNT < floats\n");
        return 2;
    }
    if (run(argv, &e) == 0)
        return 0;
    fprintf(stderr, "nn_logits: %s\n", e.text);
    return 1;
}
