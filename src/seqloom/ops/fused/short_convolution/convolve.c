/* The short convolution of this package in one pass each way, in its letters:

       s_t = b + Σ_k taps_k x_{t-k},   y = silu(s), or s                ds = dy silu'(s)
       dx_t = Σ_k taps_k ds_{t+k},   dtaps_k = Σ_t ds_t x_{t-k},   db = Σ_t ds_t

   x and dy are (B, T, D) with any distance between tokens, taps (W, D), `window` (B, W-1, D) the inputs before x, NULL
   for zeros; bias may be NULL, which means 0. A task is SPAN tokens of a row. Each task has sums over its tokens, which
   the caller adds, so that no number depends on the threads. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

int omp_get_thread_num(void);

enum { SPAN = 128 }; /* native.py has the same number */

#define REAL float
#include "convolve.c"
#undef REAL

#define REAL double
#include "convolve.c"

#else

#include "vectors.h"

/* Numbers of scratch memory of a thread in `backward`: D zeros, and ds of the last W tokens. */
#define ROOM(W, D) (((W) + 1) * (D))

/* Pointers to x of the tokens t, t-1, …, t-W+1 of a row: into `window` before its first token, to zeros from T on. */
static void NAME(rows_)(
    int64_t W, int64_t D, int64_t t, int64_t T, int64_t step, const REAL *x, const REAL *window, const REAL *zeros,
    const REAL **rows)
{
    for (int64_t k = 0; k < W; k++) {
        const int64_t token = t - k;
        if (token >= T || (token < 0 && !window))
            rows[k] = zeros;
        else
            rows[k] = token >= 0 ? x + token * step : window + (W - 1 + token) * D;
    }
}

/* Calls `function`, which is inlined, for each vector of D channels. The size of whole vectors is a constant, so that
   their loads have no branch; so is the usual number of taps, four. */
#define FOR_VECTORS(function, ...) \
    if (W == 4) \
        FOR_VECTORS_OF(function, 4, __VA_ARGS__) \
    else \
        FOR_VECTORS_OF(function, W, __VA_ARGS__)
#define FOR_VECTORS_OF(function, W, ...) \
    { \
        int64_t d = 0; \
        for (; d + LANES <= D; d += LANES) \
            function(W, D, d, LANES, __VA_ARGS__); \
        if (d < D) \
            function(W, D, d, D - d, __VA_ARGS__); \
    }

/* s of the m channels from d on. */
INLINE VEC NAME(sum_of_)(
    const int64_t W, int64_t D, int64_t d, const int64_t m, const REAL *taps, const REAL *bias, const REAL **rows)
{
    VEC s = bias ? NAME(load_)(bias + d, m) : (VEC){0};
    for (int64_t k = 0; k < W; k++)
        s += NAME(load_)(taps + k * D + d, m) * NAME(load_)(rows[k] + d, m);
    return s;
}

/* y of the m channels from d on, for one token. */
INLINE void NAME(forward_some_)(
    const int64_t W, int64_t D, int64_t d, const int64_t m, int64_t silu, const REAL *taps, const REAL *bias,
    const REAL **rows, REAL *y)
{
    const VEC s = NAME(sum_of_)(W, D, d, m, taps, bias, rows);
    NAME(store_)(y + d, silu ? NAME(silu_)(s) : s, m);
}

/* For the m channels from d on of a token t: writes ds_t; adds its part to dtaps and to db, which lies after dtaps,
   unless dtaps is NULL; writes dx of token t-W+1, unless dx is NULL. `ds_rows` are ds of that token and of the W-1
   after it. */
INLINE void NAME(backward_some_)(
    const int64_t W, int64_t D, int64_t d, const int64_t m, int64_t silu, const REAL *taps, const REAL *bias,
    const REAL **rows, const REAL *dy, REAL *ds_t, REAL *dtaps, REAL **ds_rows, REAL *dx)
{
    VEC ds = NAME(load_)(dy + d, m), unused;
    if (silu) {
        const VEC s = NAME(sum_of_)(W, D, d, m, taps, bias, rows), sigma = NAME(sigmoid_)(s, &unused);
        ds *= sigma * (1 + s * (1 - sigma));
    }
    NAME(store_)(ds_t + d, ds, m);
    if (dtaps) {
        for (int64_t k = 0; k < W; k++)
            NAME(store_)(dtaps + k * D + d, NAME(load_)(dtaps + k * D + d, m) + ds * NAME(load_)(rows[k] + d, m), m);
        NAME(store_)(dtaps + W * D + d, NAME(load_)(dtaps + W * D + d, m) + ds, m);
    }
    if (dx) {
        VEC sum = {0};
        for (int64_t k = 0; k < W; k++)
            sum += NAME(load_)(taps + k * D + d, m) * NAME(load_)(ds_rows[k] + d, m);
        NAME(store_)(dx + d, sum, m);
    }
}

void NAME(forward_)(
    int64_t threads, int64_t silu, int64_t B, int64_t T, int64_t D, int64_t W, int64_t x_step, const REAL *x,
    const REAL *taps, const REAL *bias, const REAL *window, REAL *y, REAL *scratch)
{
    memset(scratch, 0, D * sizeof(REAL));
#pragma omp parallel for collapse(2) num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t row = 0; row < B; row++)
        for (int64_t first = 0; first < T; first += SPAN) {
            const REAL *own_window = window ? window + row * (W - 1) * D : 0, *rows[W];
            for (int64_t t = first; t < least(first + SPAN, T); t++) {
                NAME(rows_)(W, D, t, T, x_step, x + row * T * x_step, own_window, scratch, rows);
                REAL *y_t = y + (row * T + t) * D;
                FOR_VECTORS(NAME(forward_some_), silu, taps, bias, rows, y_t)
            }
        }
}

/* sums (B, spans, W + 1, D): dtaps and db of each task. dwindow may be NULL. Of its last token a task needs ds of the
   W-1 tokens after it, which it computes as well. */
void NAME(backward_)(
    int64_t threads, int64_t silu, int64_t B, int64_t T, int64_t D, int64_t W, int64_t x_step, int64_t dy_step,
    const REAL *x, const REAL *taps, const REAL *bias, const REAL *window, const REAL *dy, REAL *dx, REAL *dwindow,
    REAL *sums, REAL *scratch)
{
    const int64_t spans = parts(T, SPAN);
#pragma omp parallel for collapse(2) num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t row = 0; row < B; row++)
        for (int64_t span = 0; span < spans; span++) {
            const int64_t first = span * SPAN, last = least(first + SPAN, T);
            REAL *zeros = scratch + omp_get_thread_num() * ROOM(W, D), *last_ds = zeros + D; /* (W, D), a ring */
            REAL *dtaps = sums + (row * spans + span) * (W + 1) * D;
            const REAL *own_window = window ? window + row * (W - 1) * D : 0, *rows[W];
            memset(zeros, 0, ROOM(W, D) * sizeof(REAL));
            memset(dtaps, 0, (W + 1) * D * sizeof(REAL));
            for (int64_t t = first; t < last + W - 1; t++) {
                NAME(rows_)(W, D, t, T, x_step, x + row * T * x_step, own_window, zeros, rows);
                const REAL *dy_t = t < T ? dy + (row * T + t) * dy_step : zeros;
                const int64_t done = t - (W - 1); /* the token whose dx needs no later ds than that of t */
                REAL *dx_done = done >= first ? dx + (row * T + done) * D : 0, *ds_rows[W];
                if (done < 0 && dwindow)
                    dx_done = dwindow + (row * (W - 1) + done + W - 1) * D;
                for (int64_t k = 0; k < W; k++)
                    ds_rows[k] = last_ds + (done + k + W) % W * D;
                FOR_VECTORS(NAME(backward_some_), silu, taps, bias, rows, dy_t, ds_rows[W - 1], t < last ? dtaps : 0,
                            ds_rows, dx_done)
            }
        }
}

#undef ROOM
#undef FOR_VECTORS
#undef FOR_VECTORS_OF
#endif
