/* Products with many small blocks, in the letters of __init__.py: rows of D = N n channels, N blocks of n.

       y[c] = Σ_i x[first(c) + i] w[i][c]        dw[i][c] = Σ_rows x[first(c) + i] dy[c]

   first(c) is the first channel of the block of channel c. w is (n, D): w[i][c] is number (i, j) of block b for c = b n
   + j. x and dy have any distance between rows. Where a vector consists of whole blocks, it is computed at once, by
   permutations of its numbers; else number by number. A task of the gradient is SPAN rows, with sums that the caller
   adds, so that no number depends on the threads. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

enum { SPAN = 64 }; /* native.py has the same number */

#define REAL float
#include "blocks.c"
#undef REAL

#define REAL double
#include "blocks.c"

#else

#include "vectors.h"

/* For each lane of a vector of whole blocks, the lane of number i of its block. */
INLINE INT NAME(places_)(const int64_t n, int64_t i)
{
    INT at;
    for (int l = 0; l < LANES; l++)
        at[l] = l - l % n + i;
    return at;
}

/* y of one row. Where this is inlined n is a constant, and so are the places. */
INLINE void NAME(apply_)(const int64_t n, int64_t D, const REAL *x, const REAL *w, REAL *y)
{
    int64_t c = 0;
    if (LANES % n == 0)
        for (; c + LANES <= D; c += LANES) {
            const VEC x_c = NAME(load_)(x + c, LANES);
            VEC sum = {0};
#pragma GCC unroll 4
            for (int64_t i = 0; i < n; i++)
                sum += NAME(chosen_)(x_c, x_c, NAME(places_)(n, i)) * NAME(load_)(w + i * D + c, LANES);
            NAME(store_)(y + c, sum, LANES);
        }
    for (; c < D; c++) {
        REAL sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[c - c % n + i] * w[i * D + c];
        y[c] = sum;
    }
}

/* Adds to dw the products of one row. */
INLINE void NAME(gather_)(const int64_t n, int64_t D, const REAL *x, const REAL *dy, REAL *dw)
{
    int64_t c = 0;
    if (LANES % n == 0)
        for (; c + LANES <= D; c += LANES) {
            const VEC x_c = NAME(load_)(x + c, LANES), dy_c = NAME(load_)(dy + c, LANES);
#pragma GCC unroll 4
            for (int64_t i = 0; i < n; i++) {
                REAL *dw_c = dw + i * D + c;
                const VEC x_i = NAME(chosen_)(x_c, x_c, NAME(places_)(n, i));
                NAME(store_)(dw_c, NAME(load_)(dw_c, LANES) + x_i * dy_c, LANES);
            }
        }
    for (; c < D; c++)
        for (int64_t i = 0; i < n; i++)
            dw[i * D + c] += x[c - c % n + i] * dy[c];
}

/* Calls `function` with n as a constant where it is a usual size. */
#define BY_SIZE(function, ...) \
    switch (n) { \
    case 2: function(2, __VA_ARGS__); break; \
    case 4: function(4, __VA_ARGS__); break; \
    case 8: function(8, __VA_ARGS__); break; \
    default: function(n, __VA_ARGS__); \
    }

/* apply_all and gather_all return 1 where the blocks do not fill the rows. */
int NAME(apply_all_)(
    int64_t threads, int64_t B, int64_t R, int64_t D, int64_t n, int64_t x_step, const REAL *x, const REAL *w, REAL *y)
{
    if (D % n)
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < B * R; r++)
        BY_SIZE(NAME(apply_), D, x + r * x_step, w, y + r * D)
    return 0;
}

int NAME(gather_all_)(
    int64_t threads, int64_t B, int64_t R, int64_t D, int64_t n, int64_t x_step, int64_t dy_step, const REAL *x,
    const REAL *dy, REAL *sums)
{
    if (D % n)
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t span = 0; span < parts(B * R, SPAN); span++) {
        REAL *dw = sums + span * n * D;
        memset(dw, 0, n * D * sizeof(REAL));
        for (int64_t r = span * SPAN; r < least((span + 1) * SPAN, B * R); r++)
            BY_SIZE(NAME(gather_), D, x + r * x_step, dy + r * dy_step, dw)
    }
    return 0;
}

#undef BY_SIZE
#endif
