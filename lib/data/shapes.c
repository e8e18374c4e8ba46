// SPDX-License-Identifier: Apache-2.0
// The built-in data set: one filled figure per image, of ten classes, with random place, size,
// angle and colours before a random texture, and noise on top. Figures are brighter or darker than
// the background with equal probability, so no linear function of the pixels separates the classes.
//
// Images are computed in integers, and the one division of floats gives the quotient of integers
// exactly (quotient): the images are the same bits on every machine and compiler.
#include "base/philox.h"
#include "data/source.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 32,
    SUB = 4,           // samples per pixel and axis
    STEP = 2 * SUB,    // positions are counted in 1/8 pixels, samples lie at odd ones
    UNIT = 4096,       // circumradius of a figure in its own coordinates
    RADIUS_MIN = 76,   // 9.5 pixels, in 1/8
    RADIUS_RANGE = 36, // up to 14 pixels
    CONTRAST_MIN = 72, // of 255, between the mean of figure and background
    NOISE = 24,        // peak to peak
    GRID = 5           // value noise: control points per axis
};

// ---- figures: where (u, v) is inside; all fit into the circle of radius 9/8 UNIT ----------------
// A pixel's samples of one row at once, in vectors of the compiler's (GCC and clang have them at
// any level of optimisation); a comparison gives -1 where it holds.

enum { LANES = SUB };
typedef int32_t lanes __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef float float_lanes __attribute__((vector_size(LANES * sizeof(float))));

static lanes magnitude(lanes n) {
    lanes sign = n >> 31;
    return (n ^ sign) - sign;
}

static lanes in_disc(lanes u, lanes v) {
    return u * u + v * v < UNIT * UNIT * 81 / 100;
}

static lanes in_ring(lanes u, lanes v) {
    lanes d = u * u + v * v;
    return (d < UNIT * UNIT) & (d > UNIT / 10 * 6 * (UNIT / 10 * 6));
}

static lanes in_square(lanes u, lanes v) {
    return (magnitude(u) < UNIT * 3 / 4) & (magnitude(v) < UNIT * 3 / 4);
}

static lanes in_bar(lanes u, lanes v) {
    return (magnitude(u) < UNIT) & (magnitude(v) < UNIT / 4);
}

static lanes in_triangle(lanes u, lanes v) {
    return (v < UNIT / 2) & (magnitude(u) * 1774 >> 10 < v + UNIT); // 1774/1024: root of three
}

// A pentagram: inside all of its five lines but at most one.
static lanes in_star(lanes u, lanes v) {
    static const int normal[5][2] = {
        {0, 4096}, {3896, 1266}, {2408, -3314}, {-2408, -3314}, {-3896, 1266}};
    lanes outside = {0};
    for (int i = 0; i < 5; i++)
        outside -= u * normal[i][0] + v * normal[i][1] >= UNIT * (UNIT * 36 / 100 + 1);
    return (outside <= 1) & (u * u + v * v < UNIT * UNIT * 121 / 100);
}

static lanes in_cross(lanes u, lanes v) {
    u = magnitude(u), v = magnitude(v);
    return ((u < UNIT * 3 / 10) | (v < UNIT * 3 / 10)) & (u < UNIT) & (v < UNIT);
}

static lanes in_crescent(lanes u, lanes v) {
    lanes w = u - UNIT / 2;
    return (u * u + v * v < UNIT * UNIT) & (w * w + v * v > UNIT * UNIT * 64 / 100);
}

static lanes in_hourglass(lanes u, lanes v) {
    return (magnitude(u) < magnitude(v) + UNIT / 16) & (magnitude(v) < UNIT * 3 / 4);
}

static lanes in_half_disc(lanes u, lanes v) {
    v += UNIT * 4 / 10;
    return (v > 0) & (u * u + v * v < UNIT * UNIT);
}

static const struct {
    const char *name;
    lanes (*inside)(lanes u, lanes v);
} shapes_classes[] = {
    {"bar", in_bar},           {"crescent", in_crescent},   {"cross", in_cross},
    {"disc", in_disc},         {"half_disc", in_half_disc}, {"hourglass", in_hourglass},
    {"ring", in_ring},         {"square", in_square},       {"star", in_star},
    {"triangle", in_triangle},
};

enum { CLASSES = sizeof shapes_classes / sizeof shapes_classes[0] };

// ---- random draws ------------------------------------------------------------------------------

struct draws {
    uint64_t key, image;
    uint32_t block;
    struct philox words;
    int used; // words taken of the block
};

static uint32_t draw(struct draws *r, uint32_t bound) {
    if (r->used == 4) {
        r->words = philox(r->key, r->image, r->block++);
        r->used = 0;
    }
    return philox_below(r->words.word[r->used++], bound);
}

// A rotation by a random angle, times UNIT: a rational point of a quarter circle, then quarter
// turns.
static void draw_angle(struct draws *r, int *cosine, int *sine) {
    int t = (int)draw(r, 1024);
    int square = t * t, d = (1 << 20) + square;
    int c = (int)((int64_t)UNIT * ((1 << 20) - square) / d);
    int s = (int)((int64_t)UNIT * 2 * 1024 * t / d);
    uint32_t turns = draw(r, 4);
    *cosine = turns == 0 ? c : turns == 1 ? -s : turns == 2 ? -c : s;
    *sine = turns == 0 ? s : turns == 1 ? c : turns == 2 ? -s : -c;
}

struct colour {
    int c[3];
};

static struct colour draw_colour(struct draws *r) {
    struct colour k;
    for (int i = 0; i < 3; i++)
        k.c[i] = 20 + (int)draw(r, 216);
    return k;
}

static int brightness(struct colour k) {
    return (k.c[0] * 77 + k.c[1] * 150 + k.c[2] * 29) >> 8;
}

// ---- backgrounds: a weight 0 … 256 between two colours for every pixel -------------------------

static void texture_gradient(struct draws *r, int *weight) {
    int c, s;
    draw_angle(r, &c, &s);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int along = ((i % SIDE - SIDE / 2) * c + (i / SIDE - SIDE / 2) * s) / UNIT;
        weight[i] = 128 + along * 5;
    }
}

static void texture_stripes(struct draws *r, int *weight) {
    int c, s;
    draw_angle(r, &c, &s);
    int period = 24 + (int)draw(r, 72), phase = (int)draw(r, 1024); // in 1/8 pixels
    for (int i = 0; i < SIDE * SIDE; i++) {
        int along = (i % SIDE * c + i / SIDE * s) / (UNIT / 8) + phase + 4096;
        int saw = along % period * 512 / period; // 0 … 511
        weight[i] = saw < 256 ? saw : 511 - saw;
    }
}

static void texture_checks(struct draws *r, int *weight) {
    int c, s;
    draw_angle(r, &c, &s);
    int size = 24 + (int)draw(r, 40);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE, y = i / SIDE;
        int a = (x * c + y * s) / (UNIT / 8) + 4096, b = (y * c - x * s) / (UNIT / 8) + 4096;
        weight[i] = (a / size + b / size) % 2 ? 224 : 32;
    }
}

static void texture_clouds(struct draws *r, int *weight) {
    int grid[GRID][GRID];
    for (int i = 0; i < GRID * GRID; i++)
        grid[i / GRID][i % GRID] = (int)draw(r, 257);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE, y = i / SIDE, gx = x / 8, gy = y / 8, fx = x % 8, fy = y % 8;
        int top = grid[gy][gx] * (8 - fx) + grid[gy][gx + 1] * fx;
        int low = grid[gy + 1][gx] * (8 - fx) + grid[gy + 1][gx + 1] * fx;
        weight[i] = (top * (8 - fy) + low * fy) / 64;
    }
}

static void (*const textures[])(struct draws *r, int *weight) = {texture_gradient, texture_stripes,
                                                                 texture_checks, texture_clouds};

// ---- one image ---------------------------------------------------------------------------------

// n / d like C's, for |n| < 2^20 and 0 < d < 2^7: a float holds both, and the rounding of a
// quotient below 2^14 is less than its distance from the next integer, which is 1 / d or more.
static lanes quotient(lanes n, int d) {
    return __builtin_convertvector(__builtin_convertvector(n, float_lanes) / (float)d, lanes);
}

// Share of every pixel that the figure covers, 0 … SUB * SUB.
static void shapes_cover(struct draws *r, int class, uint8_t *cover) {
    int radius = RADIUS_MIN + (int)draw(r, RADIUS_RANGE);
    int room = SIDE * STEP - 2 * radius; // the circle stays in the picture
    int cx = radius + (int)draw(r, (uint32_t)room), cy = radius + (int)draw(r, (uint32_t)room);
    int c, s;
    draw_angle(r, &c, &s);
    int reach = radius * 9 / 8 + STEP; // of a pixel's first sample
    lanes along = {0, 2, 4, 6};
    for (int i = 0; i < SIDE * SIDE; i++) {
        int dx = i % SIDE * STEP + 1 - cx, dy = i / SIDE * STEP + 1 - cy;
        cover[i] = 0;
        if (dx * dx + dy * dy > reach * reach)
            continue;
        lanes un = along * c + (dx * c + dy * s), vn = (dy * c - dx * s) - along * s, in = {0};
        for (int y = 0; y < SUB; y++, un += 2 * s, vn += 2 * c)
            in -= shapes_classes[class].inside(quotient(un, radius), quotient(vn, radius));
        cover[i] = (uint8_t)(in[0] + in[1] + in[2] + in[3]);
    }
}

static void shapes_image(uint64_t seed, enum dataset_split split, uint32_t index, int class,
                         uint8_t *out) {
    struct draws r = {.key = seed, .image = (uint64_t)split << 32 | index, .used = 4};
    uint8_t cover[SIDE * SIDE];
    int weight[SIDE * SIDE];
    shapes_cover(&r, class, cover);
    textures[draw(&r, sizeof textures / sizeof textures[0])](&r, weight);

    struct colour back[2], front;
    back[0] = draw_colour(&r);
    for (int i = 0; i < 3; i++) { // the texture itself is of low contrast
        int c = back[0].c[i] + (int)draw(&r, 65) - 32;
        back[1].c[i] = c < 0 ? 0 : c > 255 ? 255 : c;
    }
    int mean = (brightness(back[0]) + brightness(back[1])) / 2;
    for (int tries = 0; tries < 64; tries++) {
        front = draw_colour(&r);
        if (abs(brightness(front) - mean) >= CONTRAST_MIN)
            break;
    }
    for (int i = 0; i < SIDE * SIDE; i++)
        for (int k = 0; k < 3; k++) {
            int v = back[0].c[k] + (back[1].c[k] - back[0].c[k]) * weight[i] / 256;
            if (cover[i])
                v += (front.c[k] - v) * cover[i] / (SUB * SUB);
            v += (int)draw(&r, NOISE + 1) - NOISE / 2;
            out[i * 3 + k] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
}

// ---- source ------------------------------------------------------------------------------------

static bool shapes_detect(const char *path) {
    return strcmp(path, "shapes") == 0 && !file_exists(path); // a folder of that name is meant
}

static int shapes_identify(struct source *s, struct err *e) {
    (void)e;
    const uint64_t numbers[] = {s->config->seed, s->config->samples_max};
    hash_add(&s->identity, numbers, sizeof numbers);
    return 0;
}

static int shapes_open(struct source *s, struct err *e) {
    const struct dataset_config *c = s->config;
    if (c->image_size != 0 && c->image_size != SIDE)
        return err_set(e, ERR_CONFIG, "data set shapes has images of %d pixels, not %d", SIDE,
                       c->image_size);
    uint32_t usual = c->split == DATASET_TRAIN ? DATASET_SHAPES_TRAIN : DATASET_SHAPES_TEST;
    s->samples = c->samples_max > 0 ? c->samples_max : usual;
    s->height = s->width = SIDE;
    s->channels = 3;
    s->classes = CLASSES;
    const char **name = arena_new(&s->arena, const char *, CLASSES);
    for (int i = 0; i < CLASSES; i++)
        name[i] = shapes_classes[i].name;
    s->class_names = name;
    int32_t *label = s->impl = heap_alloc(s->samples * sizeof *label);
    for (uint32_t i = 0; i < s->samples; i++)
        label[i] = (int32_t)(i % CLASSES);
    s->labels = label;
    return 0;
}

static int shapes_read(const struct source *s, uint32_t i, struct source_reader *r,
                       struct sample *out, struct err *e) {
    uint8_t *room = source_room(r, SIDE * SIDE * 3, 0, e);
    if (!room)
        return -1;
    shapes_image(s->config->seed, s->config->split, i, (int)(i % CLASSES), room);
    *out = (struct sample){room, SIDE * SIDE * 3, true};
    return 0;
}

static void shapes_where(const struct source *s, uint32_t i, struct strbuf *out) {
    (void)s;
    strbuf_addf(out, "image %u", i);
}

static void shapes_close(struct source *s) {
    free(s->impl);
}

const struct source_kind source_shapes = {.name = "shapes",
                                          .detect = shapes_detect,
                                          .wanted = "the word shapes",
                                          .identify = shapes_identify,
                                          .open = shapes_open,
                                          .read = shapes_read,
                                          .where = shapes_where,
                                          .close = shapes_close};
