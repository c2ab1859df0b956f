/* The short convolution of this package in one pass each way, in its letters:

       s_t = b + Σ_k taps_k x_{t-k},   y = silu(s), or s                ds = dy silu'(s)
       dx_t = Σ_k taps_k ds_{t+k},   dtaps_k = Σ_t ds_t x_{t-k},   db = Σ_t ds_t

   x and dy are (B, T, D) with any distance between tokens, taps (W, D), `window` (B, W-1, D) what x was before, NULL for
   zeros; bias may be NULL, which means 0. A task is SPAN tokens of a row; sums over tokens are left to the caller, one of
   each task, so that no number depends on the threads. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

int omp_get_thread_num(void);

enum { SPAN = 128 }; /* native.py has it too */

#define REAL float
#include "convolve.c"
#undef REAL

#define REAL double
#include "convolve.c"

#else

#include "vectors.h"
#include "one_row.h"

/* Numbers of a thread: a row of zeros, ds of the last W tokens. */
#define ROOM(W, D) (((W) + 1) * (D))

/* Where x of tokens t, t-1, … t-W+1 of a row begins. */
static void NAME(rows_)(
    int64_t W, int64_t D, int64_t t, int64_t T, int64_t step, const REAL *x, const REAL *window, const REAL *zeros,
    const REAL **rows)
{
    for (int64_t k = 0; k < W; k++) {
        const int64_t at = t - k;
        rows[k] = at >= T ? zeros : at >= 0 ? x + at * step : window ? window + (W - 1 + at) * D : zeros;
    }
}

/* `some` for all vectors of D channels: whole ones apart, so that they are loaded without a question. Where there are four
   taps, which is usual, the compiler knows it. */
#define ALL_OF(some, ...) \
    if (W == 4) \
        EACH(some, 4, __VA_ARGS__) \
    else \
        EACH(some, W, __VA_ARGS__)
#define EACH(some, W, ...) \
    { \
        int64_t d = 0; \
        for (; d + LANES <= D; d += LANES) \
            some(W, D, d, LANES, __VA_ARGS__); \
        if (d < D) \
            some(W, D, d, D - d, __VA_ARGS__); \
    }

INLINE VEC NAME(sum_of_)(
    const int64_t W, int64_t D, int64_t d, const int64_t m, const REAL *taps, const REAL *bias, const REAL **rows)
{
    VEC s = bias ? NAME(load_)(bias + d, m) : (VEC){0};
    for (int64_t k = 0; k < W; k++)
        s += NAME(load_)(taps + k * D + d, m) * NAME(load_)(rows[k] + d, m);
    return s;
}

INLINE void NAME(forward_some_)(
    const int64_t W, int64_t D, int64_t d, const int64_t m, int64_t silu, const REAL *taps, const REAL *bias,
    const REAL **rows, REAL *y)
{
    const VEC s = NAME(sum_of_)(W, D, d, m, taps, bias, rows);
    NAME(store_)(y + d, silu ? NAME(silu_)(s) : s, m);
}

/* ds of a token to `now`; what it adds to the taps and the bias, unless to_taps is NULL; dx of the token that lies W-1 before,
   unless `to` is NULL. `held` is ds of that one and of those after it. */
INLINE void NAME(backward_some_)(
    const int64_t W, int64_t D, int64_t d, const int64_t m, int64_t silu, const REAL *taps, const REAL *bias,
    const REAL **rows, const REAL *given, REAL *now, REAL *to_taps, REAL **held, REAL *to)
{
    VEC ds = NAME(load_)(given + d, m), unused;
    if (silu) {
        const VEC s = NAME(sum_of_)(W, D, d, m, taps, bias, rows), share = NAME(sigmoid_)(s, &unused);
        ds *= share * (1 + s * (1 - share));
    }
    NAME(store_)(now + d, ds, m);
    if (to_taps) {
        for (int64_t k = 0; k < W; k++)
            NAME(store_)(to_taps + k * D + d, NAME(load_)(to_taps + k * D + d, m) + ds * NAME(load_)(rows[k] + d, m), m);
        NAME(store_)(to_taps + W * D + d, NAME(load_)(to_taps + W * D + d, m) + ds, m);
    }
    if (to) {
        VEC sum = {0};
        for (int64_t k = 0; k < W; k++)
            sum += NAME(load_)(taps + k * D + d, m) * NAME(load_)(held[k] + d, m);
        NAME(store_)(to + d, sum, m);
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
            const REAL *rows[W];
            for (int64_t t = first; t < least(first + SPAN, T); t++) {
                NAME(rows_)(W, D, t, T, x_step, x + row * T * x_step, window ? window + row * (W - 1) * D : 0, scratch, rows);
                REAL *out = y + (row * T + t) * D;
                ALL_OF(NAME(forward_some_), silu, taps, bias, rows, out)
            }
        }
}

/* sums (B, parts, W + 1, D): dtaps and db of each task. dwindow may be NULL. */
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
            REAL *zeros = scratch + omp_get_thread_num() * ROOM(W, D), *held = zeros + D;
            REAL *to_taps = sums + (row * spans + span) * (W + 1) * D;
            const REAL *rows[W];
            memset(zeros, 0, ROOM(W, D) * sizeof(REAL));
            memset(to_taps, 0, (W + 1) * D * sizeof(REAL));
            for (int64_t t = first; t < last + W - 1; t++) {
                NAME(rows_)(W, D, t, T, x_step, x + row * T * x_step, window ? window + row * (W - 1) * D : 0, zeros, rows);
                const REAL *given = t < T ? dy + (row * T + t) * dy_step : zeros;
                const int64_t done = t - (W - 1); /* the token that all of its ds are known of */
                REAL *to = done >= first ? dx + (row * T + done) * D : 0, *later[W];
                if (done < 0 && dwindow)
                    to = dwindow + (row * (W - 1) + done + W - 1) * D;
                for (int64_t k = 0; k < W; k++)
                    later[k] = held + (done + k + W) % W * D;
                ALL_OF(NAME(backward_some_), silu, taps, bias, rows, given, later[W - 1], t < last ? to_taps : 0, later, to)
            }
        }
}

/* One token x (B, D) of each row, with silu; `new_window` may be NULL, then the window is overwritten. `length` (B) is not
   read, because the window has zeros for the inputs before the first; its size is checked before the call. */
void NAME(token_)(
    int64_t threads, int64_t B, int64_t D, int64_t W, int64_t x_step, const REAL *x, const REAL *taps, const REAL *bias,
    REAL *window, const int64_t *length, REAL *y, REAL *new_window)
{
    const int64_t past = W - 1;
    REAL *after = new_window ? new_window : window;
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int64_t row = 0; row < B; row++)
        for (int64_t d = 0; d < D; d += LANES)
            NAME(convolve_some_)(d, D, past, x + row * x_step, taps, bias, window + row * past * D, after + row * past * D,
                                 y + row * D);
}

#undef ROOM
#undef ALL_OF
#undef EACH
#endif
