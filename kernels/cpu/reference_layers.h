// SPDX-License-Identifier: Apache-2.0
// The part of reference_body.h for pooling, loss and image input. Included by it.

#ifdef REF_TABLE

static int ref_open(struct kernel_ctx **out, const struct kernel_config *cfg) {
    return cfg->isa ? -EINVAL : ctx_open(out, cfg, NULL, "plain");
}

static size_t ref_gemm_workspace(const struct kernel_ctx *ctx, enum kernel_type type, int m, int n,
                                 int k) {
    (void)ctx, (void)type, (void)m, (void)n, (void)k;
    return 0;
}

static size_t ref_conv2d_workspace(const struct kernel_ctx *ctx, const struct conv2d_shape *s) {
    (void)ctx, (void)s;
    return 0;
}

static size_t ref_rows_workspace(const struct kernel_ctx *ctx, int64_t rows, int cols) {
    (void)ctx, (void)rows, (void)cols;
    return 0;
}

static size_t ref_attention_workspace(const struct kernel_ctx *ctx,
                                      const struct attention_shape *s) {
    (void)ctx, (void)s;
    return 0;
}

// The largest element of one window; the first of equals. A NaN wins, as in PyTorch.
static REAL ref_window_max(const struct pool2d_shape *s, const REAL *image, int oy, int ox, int c,
                           uint8_t *index) {
    REAL best = 0;
    int found = 0;
    for (int ky = 0; ky < s->k; ky++) {
        for (int kx = 0; kx < s->k; kx++) {
            int y = oy * s->stride - s->pad + ky, x = ox * s->stride - s->pad + kx;
            if (y < 0 || y >= s->h || x < 0 || x >= s->w)
                continue;
            REAL v = image[((size_t)y * s->w + x) * s->c + c];
            if (!found || v > best || v != v) {
                best = v;
                *index = (uint8_t)(ky * s->k + kx);
                found = 1;
            }
        }
    }
    return best;
}

static void ref_maxpool_forward(struct kernel_ctx *ctx, const struct pool2d_shape *s,
                                const void *vx, void *vy, uint8_t *index) {
    (void)ctx;
    const REAL *x = vx;
    REAL *y = vy;
    int oh = kernel_conv_out(s->h, s->k, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->k, s->stride, s->pad);
    for (int n = 0; n < s->n; n++, x += (size_t)s->h * s->w * s->c)
        for (int oy = 0; oy < oh; oy++)
            for (int ox = 0; ox < ow; ox++)
                for (int c = 0; c < s->c; c++)
                    *y++ = ref_window_max(s, x, oy, ox, c, index++);
}

static void ref_maxpool_backward(struct kernel_ctx *ctx, const struct pool2d_shape *s,
                                 const void *vdy, const uint8_t *index, void *vdx) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *dx = vdx;
    int oh = kernel_conv_out(s->h, s->k, s->stride, s->pad);
    int ow = kernel_conv_out(s->w, s->k, s->stride, s->pad);
    size_t image = (size_t)s->h * s->w * s->c;
    memset(dx, 0, s->n * image * sizeof *dx);
    for (int n = 0; n < s->n; n++)
        for (int oy = 0; oy < oh; oy++)
            for (int ox = 0; ox < ow; ox++)
                for (int c = 0; c < s->c; c++, index++) {
                    int y = oy * s->stride - s->pad + *index / s->k;
                    int x = ox * s->stride - s->pad + *index % s->k;
                    dx[n * image + ((size_t)y * s->w + x) * s->c + c] += *dy++;
                }
}

static void ref_avgpool_forward(struct kernel_ctx *ctx, int n, int hw, int c, const void *vx,
                                void *vy) {
    (void)ctx;
    const REAL *x = vx;
    REAL *y = vy;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < c; j++) {
            double sum = 0;
            for (int p = 0; p < hw; p++)
                sum += (double)x[((size_t)i * hw + p) * c + j];
            *y++ = (REAL)(sum / hw);
        }
}

static void ref_avgpool_backward(struct kernel_ctx *ctx, int n, int hw, int c, const void *vdy,
                                 void *vdx) {
    (void)ctx;
    const REAL *dy = vdy;
    REAL *dx = vdx;
    for (int i = 0; i < n; i++)
        for (int p = 0; p < hw; p++)
            for (int j = 0; j < c; j++)
                *dx++ = (REAL)((double)dy[(size_t)i * c + j] / hw);
}

// How many logits come before the label's: larger ones, and equal ones with a smaller index. A
// NaN anywhere puts it last.
static int ref_rank_of_label(int classes, const REAL *z, int label) {
    int rank = 0;
    for (int j = 0; j < classes; j++) {
        if (z[j] != z[j])
            return classes;
        rank += z[j] > z[label] || (z[j] == z[label] && j < label);
    }
    return rank;
}

static void ref_softmax_xent(struct kernel_ctx *ctx, const struct softmax_xent_args *a,
                             struct loss_totals *out) {
    (void)ctx;
    *out = (struct loss_totals){.rows = a->rows};
    for (int i = 0; i < a->rows; i++) {
        const REAL *z = (const REAL *)a->logits + (size_t)i * a->classes;
        REAL *dz = a->dlogits ? (REAL *)a->dlogits + (size_t)i * a->classes : NULL;
        int label = a->labels[i];
        assert(label >= 0 && label < a->classes);
        int rank = ref_rank_of_label(a->classes, z, label);
        double max = (double)z[0], sum = 0, sum_z = 0, each = a->smoothing / a->classes;
        for (int j = 1; j < a->classes; j++)
            max = (double)z[j] > max ? (double)z[j] : max;
        for (int j = 0; j < a->classes; j++) {
            sum += exp((double)z[j] - max);
            sum_z += (double)z[j] - max;
        }
        double log_sum = log(sum); // -log p[j] = log_sum - (z[j] - max)
        out->loss_sum += (1 - a->smoothing) * (log_sum - ((double)z[label] - max)) +
                         each * (a->classes * log_sum - sum_z);
        out->top1 += rank < 1;
        out->top5 += rank < 5 && rank < a->classes;
        for (int j = 0; dz && j < a->classes; j++) {
            double p = exp((double)z[j] - max) / sum;
            double target = each + (j == label ? 1 - a->smoothing : 0);
            dz[j] = (REAL)(a->grad_scale * (p - target));
        }
    }
}

static void ref_image_normalize(struct kernel_ctx *ctx, const struct image_args *a) {
    (void)ctx;
    REAL *out = a->out;
    for (int n = 0; n < a->n; n++) {
        int top = a->offset_y ? a->offset_y[n] : 0, left = a->offset_x ? a->offset_x[n] : 0;
        for (int y = 0; y < a->dst_h; y++)
            for (int x = 0; x < a->dst_w; x++)
                for (int c = 0; c < a->channels; c++) {
                    int sy = top + y, sx = left + (a->flip && a->flip[n] ? a->dst_w - 1 - x : x);
                    if (a->reflect) {
                        sy = kernel_reflect(sy, a->src_h);
                        sx = kernel_reflect(sx, a->src_w);
                    }
                    int inside = sy >= 0 && sy < a->src_h && sx >= 0 && sx < a->src_w;
                    size_t at = ((size_t)sy * a->src_w + sx) * a->channels + c;
                    double v = inside ? a->src[n][at] : 0;
                    *out++ = (REAL)((v / 255 - a->mean[c]) / a->std[c]);
                }
    }
}

#endif
