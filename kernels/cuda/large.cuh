// SPDX-License-Identifier: Apache-2.0
// Operands of products with tiles of 128 x 128: copies of packed memory into stages in shared memory,
// and fragments of stages. For GPUs of 8.0 and newer.
//
// An operand is a class with by_terms and copy(to). With by_terms, memory is contiguous along the
// terms, and a stage is [row][term]; without, along the rows, and a stage is [term][row]. copy
// starts four copies of a chunk by each thread, and moves to the next stage. Chunks of a row lie
// where the row's number turns them, so that reads of fragments meet no bank twice. Classes for both
// have the bytes of a word as their parameter: 2, or 4 for tf32, which has half as many terms in a
// stage. Words of four bytes are always by terms, since no fragment can be transposed.
#ifndef DTCTL_KERNELS_CUDA_LARGE_CUH
#define DTCTL_KERNELS_CUDA_LARGE_CUH
#include "kernels/cuda/product.cuh"

#ifndef CUDA_WARPGROUP
#define CUDA_WARPGROUP 0 // 1: stages lie as wgmma reads them
#endif

enum {
    SIDE = CUDA_LARGE_TILE,
    CHUNK_BYTES = CUDA_CHUNK_BYTES,
    THREADS = CUDA_LARGE_THREADS,
    ROW_BYTES = CUDA_LARGE_BYTES, // by terms
    OPERAND = SIDE * ROW_BYTES,   // bytes
    COPIES = OPERAND / CHUNK_BYTES / THREADS,
    STAGE = 2 * OPERAND,
    STAGES = 3,
    WARP = SIDE / 2,
    SUM_PITCH = SIDE + 8, // of half of the results on their way through shared memory
};
static_assert(STAGES * STAGE == CUDA_LARGE_SHARED, "what the host asks for");

template <int BYTES> struct large_words {
    enum { DEPTH = ROW_BYTES / BYTES, CHUNK = CHUNK_BYTES / BYTES }; // terms of a stage, of a chunk
};

// So many terms fill stages.
template <int BYTES> __device__ __forceinline__ int whole_stages(int terms) {
    const int depth = large_words<BYTES>::DEPTH;
    return (terms + depth - 1) / depth * depth;
}

// Stages of words of two bytes by rows. As many chunks of a term as wgmma reads lie side by side,
// or all.
struct rows_stage : large_words<2> {
    enum {
        WORD = 2,
        TERM_CHUNKS = SIDE / CHUNK,
        SIDE_CHUNKS = CUDA_WARPGROUP ? 8 : TERM_CHUNKS,
        TERM_BYTES = SIDE_CHUNKS * CHUNK_BYTES,
        SIDE_BYTES = DEPTH * TERM_BYTES,
        TERMS_APART = THREADS / TERM_CHUNKS, // of the copies of a thread
    };
    static __device__ __forceinline__ u32 place_of(u32 term, u32 chunk) {
        return chunk / SIDE_CHUNKS * SIDE_BYTES + term * TERM_BYTES +
               (chunk % SIDE_CHUNKS ^ term % 8) * CHUNK_BYTES;
    }
};

// ---- copies to shared memory --------------------------------------------------------------------

// With bytes 0 nothing is read, and the chunk is zero.
__device__ __forceinline__ void copy_chunk(u32 to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
}
// A value that stays in a register: ptxas would work it out again in every step.
__device__ __forceinline__ int keep(int v) {
    return __shfl_sync(0xffffffff, v, threadIdx.x % 32);
}
__device__ __forceinline__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// By terms: chunk i of a thread is (threadIdx.x % 4) of row threadIdx.x / 4 + 32 i.
enum { ROW_CHUNKS = ROW_BYTES / CHUNK_BYTES, ROWS_APART = THREADS / ROW_CHUNKS };
__device__ __forceinline__ int chunk_row() {
    return threadIdx.x / ROW_CHUNKS;
}
template <int BYTES> __device__ __forceinline__ int chunk_term() {
    return threadIdx.x % ROW_CHUNKS * large_words<BYTES>::CHUNK;
}
__device__ __forceinline__ u32 place_by_terms() {
    u32 row = chunk_row(), chunk = threadIdx.x % ROW_CHUNKS;
    return row * ROW_BYTES + (chunk ^ (row / 2 % 4)) * 16;
}
// By rows: chunk i of a thread is (threadIdx.x % 16) of term threadIdx.x / 16 + 8 i.
__device__ __forceinline__ u32 place_by_rows() {
    return rows_stage::place_of(threadIdx.x / rows_stage::TERM_CHUNKS,
                                threadIdx.x % rows_stage::TERM_CHUNKS);
}

// Terms of a convolution are (tap, channel). All channels of a stage have one tap, which both
// operands count together.
struct no_taps {
    __device__ __forceinline__ void next() {}
};
template <int BYTES> struct tap_counter {
    int low, x, y, number, lows, across;
    __device__ __forceinline__ tap_counter(int at, int lows, int across)
        : lows(lows), across(max(across, 1)) {
        number = at / lows, low = at % lows, x = number % this->across, y = number / this->across;
    }
    __device__ __forceinline__ void next() {
        low += large_words<BYTES>::DEPTH;
        if (low < lows)
            return;
        low = 0, number++, x++;
        if (x == across)
            x = 0, y++;
    }
};

template <int BYTES> struct packed_by_terms { // p[row][term], zero behind the last term
    static const bool by_terms = true;
    const char *p;
    int64_t step; // bytes from chunk to chunk
    u32 place;
    int bytes[COPIES];
    __device__ __forceinline__ packed_by_terms(const void *m, int pitch, int row0, int rows,
                                               int k0) {
        p = (const char *)m + ((int64_t)(row0 + chunk_row()) * pitch + k0 + chunk_term<BYTES>()) * BYTES;
        step = (int64_t)ROWS_APART * pitch * BYTES, place = place_by_terms();
        for (int i = 0; i < COPIES; i++)
            bytes[i] = row0 + chunk_row() + ROWS_APART * i < rows ? 16 : 0;
    }
    template <class Taps> __device__ __forceinline__ void copy(u32 to, const Taps &) {
        for (int i = 0; i < COPIES; i++)
            copy_chunk(to + place + i * ROWS_APART * ROW_BYTES, p + i * step, bytes[i]);
        p += ROW_BYTES;
    }
};

struct packed_by_rows : rows_stage { // p[term][row], and whole stages: zero behind the last term
    static const bool by_terms = false;
    const char *p;
    int64_t step; // bytes from chunk to chunk
    u32 place;
    int bytes;
    __device__ __forceinline__ packed_by_rows(const void *m, int pitch, int row0, int rows,
                                              int k0) {
        int row = row0 + threadIdx.x % TERM_CHUNKS * CHUNK, k = k0 + threadIdx.x / TERM_CHUNKS;
        p = (const char *)m + ((int64_t)k * pitch + row) * WORD;
        step = (int64_t)TERMS_APART * pitch * WORD;
        place = place_by_rows(), bytes = row < rows ? 16 : 0;
    }
    __device__ __forceinline__ void copy(u32 to, const no_taps &) {
        for (int i = 0; i < COPIES; i++, p += step)
            copy_chunk(to + place + i * TERMS_APART * TERM_BYTES, p, bytes);
    }
};

// large_patches and large_gradients read one pixel for each row of the product. A copy has the
// address of each pixel, and a bit for each tap of it that is inside the image.
template <int BYTES> struct pixels_by_terms {
    static const bool by_terms = true;
    const char *p[COPIES];
    u32 taps[COPIES], place;
    int along_x, along_y; // bytes from tap to tap
    // Row i is at y, x of an image of h x w; a step of a tap is `way` pixels.
    __device__ __forceinline__ void set(int i, const void *m, int64_t image, int y, int x, int h,
                                        int w, int channels, int down, int across, int way,
                                        bool there) {
        p[i] = (const char *)m + (((image * h + y) * w + x) * channels + chunk_term<BYTES>()) * BYTES;
        taps[i] = 0;
#pragma unroll 1
        for (int t = 0; there && t < down * across; t++)
            if ((u32)(y + t / across * way) < h && (u32)(x + t % across * way) < w)
                taps[i] |= 1u << t;
        along_x = way * channels * BYTES, along_y = way * w * channels * BYTES, place = place_by_terms();
    }
    __device__ __forceinline__ void copy(u32 to, const tap_counter<BYTES> &at) {
        int tap = at.y * along_y + at.x * along_x + at.low * BYTES;
        for (int i = 0; i < COPIES; i++)
            copy_chunk(to + place + i * ROWS_APART * ROW_BYTES, p[i] + tap,
                       taps[i] >> at.number & 1 ? 16 : 0);
    }
};

// row: an output position; term: (tap, channel) of x
template <int BYTES> struct large_patches : pixels_by_terms<BYTES> {
    __device__ __forceinline__ large_patches(const conv_params &s, int row0) {
        for (int i = 0; i < COPIES; i++) {
            int row = row0 + chunk_row() + ROWS_APART * i;
            this->set(i, s.a, row / (s.oh * s.ow), row / s.ow % s.oh * s.stride - s.pad,
                row % s.ow * s.stride - s.pad, s.h, s.w, s.c, s.kh, s.kw, 1, row < s.out.m);
        }
    }
};

// row: an input position; term: (tap, filter) of dy
template <int BYTES> struct large_gradients : pixels_by_terms<BYTES> {
    __device__ __forceinline__ large_gradients(const conv_params &s, const phase &f, int row0) {
        for (int i = 0; i < COPIES; i++) {
            int row = row0 + chunk_row() + ROWS_APART * i, image = row / (f.rows_y * f.rows_x);
            this->set(i, s.a, image, row / f.rows_x % f.rows_y + (f.y + s.pad - f.first_y) / s.stride,
                row % f.rows_x + (f.x + s.pad - f.first_x) / s.stride, s.oh, s.ow, s.o, f.taps_y,
                f.taps_x, -1, row < f.rows(s));
        }
    }
};

// row: a channel; term: (tap, filter) of w
template <int BYTES> struct large_filters;
template <> struct large_filters<2> : rows_stage { // w[filter][tap][channel]
    static const bool by_terms = false;
    const char *p;
    int64_t step;                 // bytes from chunk to chunk
    int filter, along_x, along_y; // bytes of a filter, and from tap to tap
    u32 place;
    int bytes;
    __device__ __forceinline__ large_filters(const conv_params &s, const phase &f, int row0) {
        int row = row0 + threadIdx.x % TERM_CHUNKS * CHUNK;
        filter = s.kh * s.kw * s.c * WORD, step = (int64_t)TERMS_APART * filter;
        p = (const char *)s.b + (int64_t)(threadIdx.x / TERM_CHUNKS) * filter +
            ((int64_t)(f.first_y * s.kw + f.first_x) * s.c + row) * WORD;
        along_x = s.stride * s.c * WORD, along_y = s.stride * s.kw * s.c * WORD;
        bytes = row < s.c ? 16 : 0, place = place_by_rows();
    }
    __device__ __forceinline__ void copy(u32 to, const tap_counter<2> &at) {
        const char *from = p + (u32)(at.y * along_y + at.x * along_x + at.low * filter);
        for (int i = 0; i < COPIES; i++, from += step)
            copy_chunk(to + place + i * TERMS_APART * TERM_BYTES, from, bytes);
    }
};
template <> struct large_filters<4> : packed_by_terms<4> { // w[tap][channel][filter]
    int along_x, along_y; // bytes from tap to tap
    __device__ __forceinline__ large_filters(const conv_params &s, const phase &f, int row0)
        : packed_by_terms<4>(s.b, s.o, row0, s.c, 0) {
        along_x = s.stride * s.c * s.o * 4, along_y = along_x * s.kw;
        p += (int64_t)(f.first_y * s.kw + f.first_x) * s.c * s.o * 4;
    }
    __device__ __forceinline__ void copy(u32 to, const tap_counter<4> &at) {
        const char *from = p + (u32)(at.y * along_y + at.x * along_x + at.low * 4);
        for (int i = 0; i < COPIES; i++, from += step)
            copy_chunk(to + place + i * ROWS_APART * ROW_BYTES, from, bytes[i]);
    }
};

// A pixel in one word: y in the upper half, x in the lower one, each of 15 bits and a sign. So one
// addition moves both, and their signs show whether both are inside of an image.
enum { OUTSIDE = -CUDA_LARGE_PIXELS * 65536 };
const u32 PIXEL_SIGNS = 0x80008000;
__device__ __forceinline__ int pixel_of(int y, int x) {
    return y * 65536 + x;
}
__device__ __forceinline__ bool is_inside(int pixel, int last) {
    return (((u32)pixel | ((u32)last - pixel)) & PIXEL_SIGNS) == 0;
}

// Row: (tap, channel) of x; term: an output position. All chunks of a thread have the same term:
// eight lanes have eight terms, so that their chunks meet no bank twice.
struct large_patches_by_rows : rows_stage {
    static const bool by_terms = false;
    enum {
        TERMS = DEPTH / (THREADS / 32), // of a warp
        CHUNKS_APART = TERM_CHUNKS / COPIES,
    };
    const char *p;                   // the first corner of the position
    int offset[COPIES], tap[COPIES]; // of a chunk's tap, as a pixel
    int x, pixel, left, by_x, by_pixel, end_x, end_pixel, wide, tall, next_row, last;
    int on, on_row, on_image; // bytes to the next term; and where a row, an image ends
    u32 place;
    __device__ __forceinline__ large_patches_by_rows(const conv_params &s, int row0, int k0,
                                                     int end)
        : wide(keep(s.ow * s.stride)), tall(keep(pixel_of(s.oh * s.stride, 0))),
          last(pixel_of(s.h - 1, s.w - 1)) {
        int term = threadIdx.x % TERMS + threadIdx.x / 32 * TERMS;
        int chunk = threadIdx.x / TERMS % CHUNKS_APART;
        int k = k0 + term, row_bytes = s.w * s.c * WORD, jump = s.stride * s.c * WORD;
        left = end - k;
        place = place_of(term, chunk);
        int y = k / s.ow % s.oh * s.stride - s.pad;
        x = k % s.ow * s.stride - s.pad, pixel = pixel_of(y, x);
        p = (const char *)s.b + ((int64_t)(k / s.ow / s.oh) * s.h + y) * row_bytes + x * s.c * WORD;
        int across = DEPTH % s.ow, down = DEPTH / s.ow % s.oh, images = DEPTH / s.ow / s.oh;
        by_x = across * s.stride, by_pixel = pixel_of(down * s.stride, by_x);
        end_x = wide - s.pad, end_pixel = pixel_of(s.oh * s.stride - s.pad, -s.pad);
        next_row = pixel_of(s.stride, -wide);
        on = (images * s.h + down * s.stride) * row_bytes + across * jump;
        on_row = keep(s.stride * row_bytes - s.ow * jump);
        on_image = keep((s.h - s.oh * s.stride) * row_bytes);
        for (int i = 0; i < COPIES; i++) {
            int row = row0 + (chunk + CHUNKS_APART * i) * CHUNK;
            int ky = row / s.c / s.kw, kx = row / s.c % s.kw;
            tap[i] = row < s.out.n ? pixel_of(ky, kx) : OUTSIDE;
            offset[i] = ky * row_bytes + (kx * s.c + row % s.c) * WORD;
        }
    }
    __device__ __forceinline__ void copy(u32 to, const no_taps &) {
        int there = left > 0 ? pixel : OUTSIDE;
        for (int i = 0; i < COPIES; i++) {
            u32 on = i * CHUNKS_APART; // chunks
            copy_chunk(to + on / SIDE_CHUNKS * SIDE_BYTES +
                           (place ^ on % SIDE_CHUNKS * CHUNK_BYTES),
                       p + offset[i], is_inside(there + tap[i], last) ? 16 : 0);
        }
        left -= DEPTH, x += by_x, pixel += by_pixel, p += on;
        if (x >= end_x)
            x -= wide, pixel += next_row, p += on_row;
        if (pixel >= end_pixel)
            pixel -= tall, p += on_image;
    }
};

// The same by terms, of x[channel][y][x][image] in words of four bytes. A term is (position,
// image), so that four neighbours are of one position, and lie side by side whatever the stride.
struct large_patches_by_terms {
    static const bool by_terms = true;
    enum { BYTES = 4, DEPTH = large_words<BYTES>::DEPTH };
    const char *p[COPIES]; // pixel 0, 0 of a chunk's tap
    int tap[COPIES];       // as a pixel
    int at, image, x, pixel, left, by_image, by_x, by_pixel, images, stride, end_x, wide, next_row;
    int last;
    int on, on_position, on_row; // bytes to the next term; and where a position, a row ends
    u32 place;
    __device__ __forceinline__ large_patches_by_terms(const conv_params &s, int row0, int k0,
                                                      int end)
        : wide(s.ow * s.stride), images(s.images), stride(s.stride) {
        int k = k0 + chunk_term<BYTES>(), position = k / images, bytes = images * BYTES;
        int plane = whole_stages<BYTES>(s.h * s.w * images) * BYTES;
        int y = position / s.ow * stride - s.pad, by_y = DEPTH / images / s.ow * stride;
        x = position % s.ow * stride - s.pad, by_x = DEPTH / images % s.ow * stride;
        image = k % images, by_image = DEPTH % images, left = end - k, end_x = wide - s.pad;
        pixel = pixel_of(y, x), by_pixel = pixel_of(by_y, by_x);
        next_row = pixel_of(stride, -wide), last = pixel_of(s.h - 1, s.w - 1);
        at = (y * s.w + x) * bytes + image * BYTES;
        on = (by_y * s.w + by_x) * bytes + by_image * BYTES;
        on_position = (stride - 1) * bytes, on_row = (stride * s.w - wide) * bytes;
        place = place_by_terms();
        for (int i = 0; i < COPIES; i++) {
            int row = row0 + chunk_row() + ROWS_APART * i;
            int ky = row / s.c / s.kw, kx = row / s.c % s.kw;
            tap[i] = row < s.out.n ? pixel_of(ky, kx) : OUTSIDE;
            p[i] = (const char *)s.b + (int64_t)(row % s.c) * plane + (ky * s.w + kx) * bytes;
        }
    }
    __device__ __forceinline__ void copy(u32 to, const no_taps &) {
        int there = left > 0 ? pixel : OUTSIDE;
        for (int i = 0; i < COPIES; i++)
            copy_chunk(to + place + i * ROWS_APART * ROW_BYTES, p[i] + at,
                       is_inside(there + tap[i], last) ? 16 : 0);
        left -= DEPTH, image += by_image, x += by_x, pixel += by_pixel, at += on;
        if (image >= images)
            image -= images, x += stride, pixel += stride, at += on_position;
        if (x >= end_x)
            x -= wide, pixel += next_row, at += on_row;
    }
};

// ---- fragments ----------------------------------------------------------------------------------

// Reads 64 rows and 32 bytes of the terms, 16 rows at a time: of 8 x 16 bytes each, first the other
// rows, or with terms_first the other terms.
template <bool by_terms, bool terms_first> struct fragments {
    typedef rows_stage words;
    u32 at[4];
    __device__ __forceinline__ fragments(u32 row0) {
        u32 lane = threadIdx.x % 32, half = lane / 8 % 2, quarter = lane / 16;
        u32 of_row = terms_first ? quarter : half, of_term = terms_first ? half : quarter;
        u32 row = row0 + of_row * 8 + lane % 8, term = of_term * 8 + lane % 8;
        for (u32 i = 0; i < 4; i++)
            at[i] = by_terms ? row * ROW_BYTES + ((of_term + i % 2 * 2) ^ (row / 2 % 4)) * 16
                             : term * words::TERM_BYTES +
                                   ((row0 / 8 + i * 2 + of_row) ^ term % 8) * 16;
    }
    // Terms from 32 bytes times j on.
    __device__ __forceinline__ void get(u32 (&r)[4][4], u32 tile, int j) const {
        for (int i = 0; i < 4; i++)
            load_parts<!by_terms>(r[i], tile + (by_terms ? at[j] + i * 16 * ROW_BYTES
                                                         : at[i] + j * 16 * words::TERM_BYTES));
    }
};
#endif
