// SPDX-License-Identifier: Apache-2.0
// The step itself: one thread adds up its losses, and decides about its update.
#include "kernels/cuda/cuda_params.h"

#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_THREADS)
enum { LOSS, TOP1, TOP5, REQUESTS, SQUARES = REQUESTS + 2, TAIL = SQUARES };

__device__ __forceinline__ double sum(const double *x, int n) {
    double all = 0.0;
    for (int i = 0; i < n; i++)
        all += x[i];
    return all;
}

// Floats in the order of the micro-batches, as a host adds them up.
// losses[nlosses], squares[nsquares] -> step, tail[TAIL]
KERNEL step_totals(const step_totals_params p) {
    if (threadIdx.x)
        return;
    double own = 0.0;
    float tail[TAIL] = {0, 0, 0, (float)p.step->request[0], (float)p.step->request[1]};
    for (int i = 0; i < p.nlosses; i++) {
        const loss_params &l = p.losses[i];
        own += l.loss_sum;
        tail[LOSS] += (float)(l.loss_sum * p.scale);
        tail[TOP1] += (float)((double)l.top1 * p.scale);
        tail[TOP5] += (float)((double)l.top5 * p.scale);
    }
    p.step->own_loss = own;
    for (int i = 0; i < TAIL; i++)
        if (p.tail)
            p.tail[i] = tail[i];
        else
            p.step->totals[i] = (double)tail[i] / p.ranks;
    if (!p.tail)
        p.step->totals[SQUARES] = sum(p.squares, p.nsquares);
}

// The loss scale after squares that are or are not finite; the run is not halted.
__device__ __forceinline__ void rescale(step_params &s, bool finite, const step_judge_params &p) {
    if (!finite) {
        s.loss_scale *= 0.5, s.good = 0.0;
        s.halted = s.loss_scale < p.scale_least;
    } else if (++s.good >= p.scale_updates) {
        s.loss_scale = fmin(2 * s.loss_scale, p.scale_most), s.good = 0.0;
    }
}

// Whether the gradients of this step halt the run.
__device__ __forceinline__ bool judge(const step_judge_params &p) {
    const double TINY = 1e-6; // as torch.nn.utils.clip_grad_norm_
    step_params &s = *p.step;
    for (int i = 0; p.tail && i < TAIL; i++)
        s.totals[i] = p.tail[i];
    double squares = p.tail ? sum(p.squares, p.nsquares) : s.totals[SQUARES];
    bool finite = isfinite(squares), before = s.halted != 0.0;
    bool halted = before || !isfinite(s.totals[LOSS]) || (!finite && !p.scaling);
    double unscale = 1 / s.loss_scale, norm = sqrt(squares) * unscale;
    s.totals[SQUARES] = squares * unscale * unscale;
    s.grad_scale = (s.clip > 0 ? fmin(1.0, s.clip / (norm + TINY)) : 1.0) * unscale;
    s.halted = halted, s.apply = finite && !halted;
    if (s.apply != 0.0)
        s.updates++, s.power1 *= p.beta1, s.power2 *= p.beta2;
    s.correct1 = 1 - s.power1, s.correct2 = 1 - s.power2;
    if (p.scaling && !halted)
        rescale(s, finite, p);
    return !finite && !before && s.halted != 0.0;
}

// The gradients of later steps take the place of these before the host looks at a step that halts.
// Backward goes from the last one to the first, so the last one is nearest to the cause.
// step, tail[TAIL], squares[nsquares], grads[ngrads] -> step
KERNEL step_judge(const step_judge_params p) {
    __shared__ int64_t last[CUDA_THREADS];
    __shared__ int halts;
    if (threadIdx.x == 0)
        halts = judge(p);
    __syncthreads(); // it is decided
    if (!halts)
        return;
    int64_t mine = 0;
    for (int64_t i = threadIdx.x; i < p.ngrads; i += CUDA_THREADS)
        if (!isfinite(p.grads[i]))
            mine = i + 1;
    last[threadIdx.x] = mine;
    __syncthreads(); // every thread has left its last one
    if (threadIdx.x)
        return;
    for (int i = 1; i < CUDA_THREADS; i++)
        mine = max(mine, last[i]);
    p.step->culprit = (double)mine;
}
