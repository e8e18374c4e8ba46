// SPDX-License-Identifier: Apache-2.0
// Initial values. Convolutions: normal with deviation sqrt(2 / fan_out), He, Zhang, Ren, Sun,
// "Delving deep into rectifiers", ICCV 2015, in the fan-out form that torchvision's ResNet uses.
// Linear layers: weight and bias uniform within 1 / sqrt(fan_in). Batch norm: 1 and 0. The scales
// are set where the layers are made; here they become numbers.
//
// Number i of a parameter is a pure function of (seed, parameter, i), so initial weights depend on
// neither world size nor threads.
#include "base/philox.h"
#include "nn/model.h"

#include <math.h>
#include <string.h>

enum { PHILOX_WORDS = 4 };
// Keeps clear of the streams that augmentation draws from with the same seed.
static const uint64_t INIT_STREAM = UINT64_C(1) << 48;

// 24 bits, so that every value is exact in a float and below 1.
static float unit(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}

static void uniforms(const uint32_t word[PHILOX_WORDS], float scale, float out[PHILOX_WORDS]) {
    for (int i = 0; i < PHILOX_WORDS; i++)
        out[i] = scale * (2 * unit(word[i]) - 1);
}

// Box and Muller, "A note on the generation of random normal deviates", 1958.
static void normals(const uint32_t word[PHILOX_WORDS], float scale, float out[PHILOX_WORDS]) {
    for (int i = 0; i < PHILOX_WORDS; i += 2) {
        float radius = scale * sqrtf(-2.0f * logf(1.0f - unit(word[i])));
        float angle = 6.28318530717958647692f * unit(word[i + 1]);
        out[i] = radius * cosf(angle);
        out[i + 1] = radius * sinf(angle);
    }
}

static void fill(const struct nn_param *p, uint64_t seed, uint64_t stream,
                 void (*draw)(const uint32_t word[PHILOX_WORDS], float scale,
                              float out[PHILOX_WORDS]),
                 float *values) {
    for (size_t i = 0; i < p->count; i += PHILOX_WORDS) {
        struct philox r = philox(seed, stream, i / PHILOX_WORDS);
        float four[PHILOX_WORDS];
        draw(r.word, (float)p->scale, four);
        size_t left = p->count - i;
        memcpy(values + i, four, (left < PHILOX_WORDS ? left : PHILOX_WORDS) * sizeof *four);
    }
}

// Filter o gives channel o of the input as it is.
static void copy_input(const struct nn_param *p, float *values) {
    size_t positions = (size_t)p->kh * (size_t)p->kw, in = (size_t)p->in, row = positions * in;
    int filters = p->out < p->in ? p->out : p->in;
    for (size_t o = 0; o < (size_t)filters; o++) {
        memset(values + o * row, 0, row * sizeof *values);
        values[o * row + positions / 2 * in + o] = 1;
    }
}

void model_init_param(const struct nn_model *m, int param, uint64_t seed, float *values) {
    const struct nn_param *p = &m->param[param];
    uint64_t stream = INIT_STREAM + (uint64_t)(m->first_param + param);
    switch (p->init) {
    case NN_INIT_ZERO: memset(values, 0, p->count * sizeof *values); break;
    case NN_INIT_ONE:
        for (size_t i = 0; i < p->count; i++)
            values[i] = 1;
        break;
    case NN_INIT_NORMAL: fill(p, seed, stream, normals, values); break;
    case NN_INIT_IDENTITY:
        fill(p, seed, stream, uniforms, values);
        copy_input(p, values);
        break;
    case NN_INIT_UNIFORM: fill(p, seed, stream, uniforms, values); break;
    }
}
