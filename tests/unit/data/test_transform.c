// SPDX-License-Identifier: Apache-2.0
// Views of lists of transforms; decoding of parts against decoding in full, and resizing against a
// reference in double precision.
#include "base/philox.h"
#include "data/decode.h"
#include "data/resize.h"
#include "tests/tap.h"
#include "tests/unit/data/pictures.h"

#include <string.h>

static struct err e;

// torchvision's get_params by other draws: the means that its parts of 500 x 375 have.
static void crop_means(double *area, double *ratio) {
    enum { DRAWS = 40000 };
    int n = 0;
    *area = *ratio = 0;
    for (int i = 0; i < DRAWS; i++) {
        struct philox r = philox(77, 0, (uint64_t)i);
        double part = 500.0 * 375 * (0.08 + 0.92 * (r.word[0] / 4294967296.0));
        double shape = exp(log(0.75) + log(16.0 / 9) * (r.word[1] / 4294967296.0));
        double w = rint(sqrt(part * shape)), h = rint(sqrt(part / shape));
        if (w > 500 || h > 375)
            continue;
        *area += w * h / (500.0 * 375);
        *ratio += log(w / h);
        n++;
    }
    *area /= n;
    *ratio /= n;
}

static void test_views(void) {
    static const struct transform random[] = {{TRANSFORM_RESIZED_CROP, 224}, {0}};
    static const struct transform middle[] = {
        {TRANSFORM_RESIZE, 256}, {TRANSFORM_CENTER_CROP, 224}, {0}};
    struct transform_view v;
    double area = 0, ratio = 0;
    bool inside = true;
    enum { DRAWS = 4000 };
    for (uint32_t i = 0; i < DRAWS; i++) {
        const struct transform_draw draw = {1, 2, i};
        transform_view(random, 500, 375, &draw, &v, &e);
        inside &=
            v.x >= 0 && v.y >= 0 && v.x + v.w <= 500 && v.y + v.h <= 375 && v.w > 0 && v.h > 0;
        area += (double)v.w * v.h / (500.0 * 375) / DRAWS;
        ratio += log((double)v.w / v.h) / DRAWS;
    }
    ok(inside && v.new_w == 224 && v.out_h == 224, "random parts lie inside");
    double want_area, want_ratio;
    crop_means(&want_area, &want_ratio);
    ok(fabs(area - want_area) < 0.015, "the mean area of random parts is %.3f, want %.3f", area,
       want_area);
    ok(fabs(ratio - want_ratio) < 0.015, "the mean shape of random parts is %.3f, want %.3f", ratio,
       want_ratio);
    const struct transform_draw draw = {1, 2, 3};
    transform_view(random, 1000, 10, &draw, &v, &e);
    ok(v.h == 10 && v.w == 13 && v.x == 493 && v.y == 0,
       "a random part that never fits is replaced by the middle");
    transform_view(random, 10, 1000, &draw, &v, &e);
    ok(v.w == 10 && v.h == 13 && v.y == 493 && v.x == 0,
       "a random part of an upright image is replaced by its middle, too");
    transform_view(middle, 500, 375, NULL, &v, &e);
    ok(v.new_w == 341 && v.new_h == 256 && v.left == 58 && v.top == 16 && v.out_w == 224,
       "256 and 224, as torchvision places them");
    transform_view(middle, 375, 500, NULL, &v, &e);
    ok(v.new_h == 341 && v.top == 58, "an upright image is placed as torchvision places it");
    is_int(transform_view(middle + 1, 100, 300, NULL, &v, &e), -1,
           "no middle larger than the image");
    v = (struct transform_view){.w = 900, .h = 450, .new_w = 224, .new_h = 224};
    is_int(transform_reduction(&v), 2, "450 pixels for 224 may be halved");
    v.h = 447;
    is_int(transform_reduction(&v), 1, "447 not");
}

// ---- decoding a part ----------------------------------------------------------------------------

// The result of the triangle filter for the part (x, y, w, h) of an image, in double precision.
static double reference(const uint8_t *rgb, int width, const struct transform_view *v, int ox,
                        int oy, int channel) {
    double sx = (double)v->w / v->new_w, sy = (double)v->h / v->new_h, sum = 0, weights = 0;
    double wx = sx < 1 ? 1 : sx, wy = sy < 1 ? 1 : sy;
    double cx = (ox + v->left + 0.5) * sx, cy = (oy + v->top + 0.5) * sy;
    for (int y = 0; y < v->h; y++) {
        double a = 1 - fabs(y + 0.5 - cy) / wy;
        for (int x = 0; a > 0 && x < v->w; x++) {
            double b = 1 - fabs(x + 0.5 - cx) / wx;
            if (b <= 0)
                continue;
            sum += a * b * rgb[((v->y + y) * width + v->x + x) * 3 + channel];
            weights += a * b;
        }
    }
    return sum / weights;
}

struct difference {
    double mean, most;
};

static struct difference compare(const uint8_t *full, int width, const struct transform_view *v,
                                 const uint8_t *out) {
    struct difference d = {0};
    int n = v->out_w * v->out_h * 3;
    for (int i = 0; i < n; i++) {
        double want = reference(full, width, v, i / 3 % v->out_w, i / 3 / v->out_w, i % 3);
        double off = fabs(want - out[i]);
        d.mean += off / n;
        d.most = off > d.most ? off : d.most;
    }
    return d;
}

static void test_parts(void) {
    static const char *const names[STYLES] = {"half chroma", "full chroma", "progressive", "grey"};
    enum { W = 333, H = 251 };
    static uint8_t full[W * H * 3];
    struct jpeg *j, *k;
    if (jpeg_open(&j, &e) < 0 || jpeg_open(&k, &e) < 0)
        bail_out("%s", e.text);
    for (int style = 0; style < STYLES; style++) {
        unsigned char *data;
        const uint8_t *rgb;
        int w, h, wrong = 0;
        size_t len = make_jpeg(&data, W, H, 5, (enum jpeg_style)style);
        if (jpeg_decode(j, data, len, &rgb, &w, &h, &e) < 0)
            bail_out("%s", e.text);
        memcpy(full, rgb, sizeof full);
        for (int t = 0; t < 60; t++) {
            struct jpeg_part part = {t * 37 % 290, t * 53 % 220, 1 + t * 11 % 40, 1 + t * 7 % 30,
                                     1};
            struct jpeg_pixels p;
            if (jpeg_decode_part(k, data, len, &part, &p, &e) < 0)
                bail_out("%s", e.text);
            for (int y = 0; y < part.h && y + part.y < H; y++)
                for (int x = 0; x < part.w && x + part.x < W; x++)
                    wrong += memcmp(p.rgb + ((part.y - p.y + y) * p.width + part.x - p.x + x) * 3,
                                    full + ((part.y + y) * W + part.x + x) * 3, 3) != 0;
        }
        is_int(wrong, 0, "parts of a JPEG (%s) are the pixels of the whole", names[style]);
        free(data);
    }
    jpeg_close(j);
    jpeg_close(k);
}

// docs/datasets.md states these differences.
static void test_resized(void) {
    enum { W = 500, H = 375, SIZE = 64 };
    static uint8_t out[SIZE * SIZE * 3];
    struct decoder d;
    unsigned char *data;
    const uint8_t *full;
    int w, h;
    struct difference exact = {0}, reduced = {0};
    size_t len = make_jpeg(&data, W, H, 5, PLAIN);
    struct jpeg *j;
    if (decoder_open(&d, &e) < 0 || jpeg_open(&j, &e) < 0 ||
        jpeg_decode(j, data, len, &full, &w, &h, &e) < 0)
        bail_out("%s", e.text);
    struct decode_plan plan = {
        .list = {{TRANSFORM_RESIZED_CROP, SIZE}}, .width = SIZE, .height = SIZE};
    for (uint32_t i = 0; i < (TAP_SANITIZED ? 3 : 12); i++) {
        const struct transform_draw draw = {9, 0, i};
        struct transform_view v;
        struct difference off[2];
        transform_view(plan.list, W, H, &draw, &v, &e);
        for (int reduce = 0; reduce < 2; reduce++) {
            plan.reduce = reduce;
            if (decoder_image(&d, &plan, &draw, data, len, out, &e) < 0)
                bail_out("%s", e.text);
            off[reduce] = compare(full, W, &v, out);
        }
        exact.most = fmax(exact.most, off[0].most);
        reduced.mean = fmax(reduced.mean, off[1].mean);
        reduced.most = fmax(reduced.most, off[1].most);
    }
    diag("random parts: in full at most %.2f off; reduced %.2f in the mean, %.1f at most",
         exact.most, reduced.mean, reduced.most);
    ok(exact.most < 1.01, "a part that is decoded in full is the reference, rounded");
    ok(reduced.mean < 2, "a part decoded at a reduced scale differs by less than 2 of 255");
    decoder_close(&d);
    jpeg_close(j);
    free(data);
}

// Where the middle square begins when nothing is scaled: half of what is too much, rounded to even
// as Python's round does.
static void test_middle(void) {
    enum { SIDE = 4, MOST = 11 };
    static const int first[MOST + 1] = {0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5, 6};
    struct resize r = {0};
    for (int more = 0; more <= MOST; more++) {
        uint8_t src[(SIDE + MOST) * SIDE * RESIZE_CHANNELS], out[SIDE * SIDE * RESIZE_CHANNELS];
        for (int across = 0; across < 2; across++) {
            int w = across ? SIDE + more : SIDE, h = across ? SIDE : SIDE + more;
            for (int i = 0; i < w * h * RESIZE_CHANNELS; i++)
                src[i] = (uint8_t)(across ? i / RESIZE_CHANNELS % w : i / RESIZE_CHANNELS / w);
            resize_square(&r, src, w, h, SIDE, out);
            is_int(out[0], first[more], "of %d x %d the middle begins at %d", w, h, first[more]);
        }
    }
    resize_fini(&r);
}

int main(void) {
    test_middle();
    test_views();
    test_parts();
    test_resized();
    return done_testing();
}
