/* The norm of __init__.py with its skip and gate, in its letters, in one pass over memory each way.

   x and dx are (B, T, H, V), gain and skip (H V), c, z and dy (B, T, H V) with any distance between tokens. A task is
   SPAN tokens. Each task has sums over its tokens, which the caller adds, so that no number depends on the threads. The
   file includes itself once for each type of number. */
#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <tgmath.h>

int omp_get_thread_num(void);

enum { SPAN = 64 }; /* native.py has the same number */

#define REAL float
#include "norm.c"
#undef REAL

#define REAL double
#include "norm.c"

#else

#include "vectors.h"

/* The norm of V numbers to n; returns 1 / √(variance + ε). */
INLINE REAL NAME(normed_)(int V, REAL eps, const REAL *x, REAL *n)
{
    VEC sum = {0}, squares = {0};
    for (int v = 0; v < V; v += LANES)
        sum += NAME(load_)(x + v, V - v);
    const REAL mean = NAME(sum_)(sum) / V;
    for (int v = 0; v < V; v += LANES) {
        const VEC centered = NAME(load_)(x + v, V - v) - mean;
        NAME(store_)(n + v, centered, V - v);
        if (V - v >= LANES)
            squares += centered * centered;
        else /* the other lanes are -mean */
            for (int l = 0; l < V - v; l++)
                squares[l] += centered[l] * centered[l];
    }
    const REAL inverse = 1 / sqrt(NAME(sum_)(squares) / V + eps);
    for (int v = 0; v < V; v += LANES)
        NAME(store_)(n + v, NAME(load_)(n + v, V - v) * inverse, V - v);
    return inverse;
}

void NAME(forward_)(
    int threads, int B, int T, int H, int V, int64_t c_step, int64_t z_step, const REAL *x, const REAL *gain,
    const REAL *skip, const REAL *c, const REAL *z, const REAL *eps, REAL *y)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++)
        for (int head = 0; head < H; head++) {
            const size_t first = (size_t)head * V;
            REAL *y_head = y + row * D + first;
            NAME(normed_)(V, *eps, x + row * D + first, y_head);
            for (int v = 0; v < V; v += LANES) {
                const int m = V - v;
                const size_t at = first + v;
                const VEC sum = NAME(load_)(y_head + v, m) * NAME(load_)(gain + at, m) +
                                NAME(load_)(skip + at, m) * NAME(load_)(c + row * c_step + at, m);
                NAME(store_)(y_head + v, sum * NAME(silu_)(NAME(load_)(z + row * z_step + at, m)), m);
            }
        }
}

/* sums (tasks, 2, H V): the gradients of gain and skip. */
void NAME(backward_)(
    int threads, int B, int T, int H, int V, int64_t c_step, int64_t z_step, int64_t dy_step, const REAL *x,
    const REAL *gain, const REAL *skip, const REAL *c, const REAL *z, const REAL *eps, const REAL *dy, REAL *dx,
    REAL *dc, REAL *dz, REAL *sums, REAL *scratch)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t span = 0; span < (rows + SPAN - 1) / SPAN; span++) {
        REAL *n = scratch + (size_t)omp_get_thread_num() * V, *dgain = sums + span * 2 * D, *dskip = dgain + D;
        memset(dgain, 0, 2 * D * sizeof(REAL));
        for (size_t row = span * SPAN; row < rows && row < (span + 1) * SPAN; row++)
            for (int head = 0; head < H; head++) {
                const size_t first = (size_t)head * V;
                REAL *dx_head = dx + row * D + first;
                const REAL inverse = NAME(normed_)(V, *eps, x + row * D + first, n);
                VEC sum_dn = {0}, sum_dn_n = {0};
                for (int v = 0; v < V; v += LANES) {
                    const int m = V - v;
                    const size_t at = first + v;
                    const VEC gain_v = NAME(load_)(gain + at, m), skip_v = NAME(load_)(skip + at, m);
                    const VEC n_v = NAME(load_)(n + v, m), c_v = NAME(load_)(c + row * c_step + at, m);
                    const VEC z_v = NAME(load_)(z + row * z_step + at, m);
                    const VEC dy_v = NAME(load_)(dy + row * dy_step + at, m);
                    VEC unused;
                    const VEC sigma = NAME(sigmoid_)(z_v, &unused);
                    const VEC dsum = dy_v * z_v * sigma; /* of norm ∘ gain + skip ∘ c */
                    const VEC dn = dsum * gain_v;
                    NAME(store_)(dz + row * D + at,
                                 dy_v * (n_v * gain_v + skip_v * c_v) * sigma * (1 + z_v * (1 - sigma)), m);
                    NAME(store_)(dc + row * D + at, dsum * skip_v, m);
                    NAME(store_)(dskip + at, NAME(load_)(dskip + at, m) + dsum * c_v, m);
                    NAME(store_)(dgain + at, NAME(load_)(dgain + at, m) + dsum * n_v, m);
                    NAME(store_)(dx_head + v, dn, m);
                    sum_dn += dn;
                    sum_dn_n += dn * n_v;
                }
                const REAL mean_dn = NAME(sum_)(sum_dn) / V, mean_dn_n = NAME(sum_)(sum_dn_n) / V;
                for (int v = 0; v < V; v += LANES) {
                    const VEC dn = NAME(load_)(dx_head + v, V - v), n_v = NAME(load_)(n + v, V - v);
                    NAME(store_)(dx_head + v, inverse * (dn - mean_dn - n_v * mean_dn_n), V - v);
                }
            }
    }
}

#endif
