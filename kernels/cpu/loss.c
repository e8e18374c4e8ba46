// SPDX-License-Identifier: Apache-2.0
// The loss: softmax and cross entropy, its gradient, and the ranks of the labels.
#include <assert.h>
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/ctx.h"
#include "kernels/cpu/share.h"

enum { loss_parts = 64 }; // sums are made per part, then in order: the same for any workers

struct loss_job {
    const struct softmax_xent_args *a;
    struct loss_totals part[loss_parts];
};

// How many logits come before the label's: larger ones, and equal ones with a smaller index. A
// NaN anywhere puts it last.
static int rank_of_label(int classes, const float *z, int label) {
    int rank = 0;
    for (int j = 0; j < classes; j++) {
        if (z[j] != z[j])
            return classes;
        rank += z[j] > z[label] || (z[j] == z[label] && j < label);
    }
    return rank;
}

static void loss_row(const struct softmax_xent_args *a, int64_t i, struct loss_totals *t) {
    const float *z = (const float *)a->logits + i * a->classes;
    float *dz = a->dlogits ? (float *)a->dlogits + i * a->classes : NULL;
    int label = a->labels[i];
    assert(label >= 0 && label < a->classes);
    int rank = rank_of_label(a->classes, z, label);
    float max = z[0];
    double sum = 0, sum_z = 0, each = a->smoothing / a->classes;
    for (int j = 1; j < a->classes; j++)
        max = z[j] > max ? z[j] : max;
    for (int j = 0; j < a->classes; j++) {
        sum += (double)expf(z[j] - max);
        sum_z += (double)z[j] - (double)max; // of two floats it may be infinite
    }
    double log_sum = log(sum); // -log p[j] = log_sum - (z[j] - max)
    t->loss_sum += (1 - a->smoothing) * (log_sum - ((double)z[label] - (double)max)) +
                   each * (a->classes * log_sum - sum_z);
    t->top1 += rank < 1;
    t->top5 += rank < 5 && rank < a->classes;
    for (int j = 0; dz && j < a->classes; j++) {
        double target = each + (j == label ? 1 - a->smoothing : 0);
        dz[j] = (float)(a->grad_scale * ((double)expf(z[j] - max) / sum - target));
    }
}

static void loss_rows(void *arg, int worker, int workers) {
    struct loss_job *job = arg;
    struct share mine = share_of(loss_parts, worker, workers);
    for (int64_t part = mine.begin; part < mine.end; part++) {
        struct share rows = share_of(job->a->rows, (int)part, loss_parts);
        for (int64_t i = rows.begin; i < rows.end; i++)
            loss_row(job->a, i, &job->part[part]);
    }
}

// logits[rows][classes], labels[rows] -> dlogits[rows][classes]
void cpu_softmax_xent(struct kernel_ctx *ctx, const struct softmax_xent_args *a,
                      struct loss_totals *out) {
    struct loss_job job = {.a = a};
    ctx_parallel(ctx, loss_rows, &job);
    *out = (struct loss_totals){.rows = a->rows};
    for (int i = 0; i < loss_parts; i++) {
        out->loss_sum += job.part[i].loss_sum;
        out->top1 += job.part[i].top1;
        out->top5 += job.part[i].top5;
    }
}
