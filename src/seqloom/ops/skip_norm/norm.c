/* The norm of __init__.py with its skip and gate, in its letters, in one pass over memory each way.

   x and dx (B, T, H, V), gain and skip (H V), c, z and the output's gradient (B, T, H V) with any distance between tokens.
   A task is SPAN tokens; sums over tokens are left to the caller, one of each task, so that no number depends on the
   threads. The file includes itself once for each type of number. */
#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <tgmath.h>

int omp_get_thread_num(void);

enum { SPAN = 64 }; /* native.py has it too */

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
        const VEC off = NAME(load_)(x + v, V - v) - mean;
        NAME(store_)(n + v, off, V - v);
        if (V - v >= LANES)
            squares += off * off;
        else
            for (int l = 0; l < V - v; l++)
                squares[l] += off[l] * off[l];
    }
    const REAL over = 1 / sqrt(NAME(sum_)(squares) / V + eps);
    for (int v = 0; v < V; v += LANES)
        NAME(store_)(n + v, NAME(load_)(n + v, V - v) * over, V - v);
    return over;
}

void NAME(forward_)(
    int threads, int B, int T, int H, int V, int64_t c_step, int64_t z_step, const REAL *x, const REAL *gain,
    const REAL *skip, const REAL *c, const REAL *z, const REAL *eps, REAL *y)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++)
        for (int head = 0; head < H; head++) {
            const size_t own = (size_t)head * V;
            REAL *out = y + row * D + own;
            NAME(normed_)(V, *eps, x + row * D + own, out);
            for (int v = 0; v < V; v += LANES) {
                const int m = V - v;
                const size_t at = own + v;
                const VEC sum = NAME(load_)(out + v, m) * NAME(load_)(gain + at, m) +
                                NAME(load_)(skip + at, m) * NAME(load_)(c + row * c_step + at, m);
                NAME(store_)(out + v, sum * NAME(silu_)(NAME(load_)(z + row * z_step + at, m)), m);
            }
        }
}

/* sums (tasks, 2, H V): what reaches gain and skip. */
void NAME(backward_)(
    int threads, int B, int T, int H, int V, int64_t c_step, int64_t z_step, int64_t dy_step, const REAL *x,
    const REAL *gain, const REAL *skip, const REAL *c, const REAL *z, const REAL *eps, const REAL *dy, REAL *dx, REAL *dc,
    REAL *dz, REAL *sums, REAL *scratch)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t span = 0; span < (rows + SPAN - 1) / SPAN; span++) {
        REAL *n = scratch + (size_t)omp_get_thread_num() * V, *dgain = sums + span * 2 * D, *dskip = dgain + D;
        memset(dgain, 0, 2 * D * sizeof(REAL));
        for (size_t row = span * SPAN; row < rows && row < (span + 1) * SPAN; row++)
            for (int head = 0; head < H; head++) {
                const size_t own = (size_t)head * V;
                REAL *to = dx + row * D + own;
                const REAL over = NAME(normed_)(V, *eps, x + row * D + own, n);
                VEC all = {0}, along = {0};
                for (int v = 0; v < V; v += LANES) {
                    const int m = V - v;
                    const size_t at = own + v;
                    const VEC by = NAME(load_)(gain + at, m), other = NAME(load_)(skip + at, m);
                    const VEC normed = NAME(load_)(n + v, m), given = NAME(load_)(c + row * c_step + at, m);
                    const VEC gate = NAME(load_)(z + row * z_step + at, m), out = NAME(load_)(dy + row * dy_step + at, m);
                    VEC unused;
                    const VEC share = NAME(sigmoid_)(gate, &unused), reached = out * gate * share, to_n = reached * by;
                    NAME(store_)(dz + row * D + at,
                                 out * (normed * by + other * given) * share * (1 + gate * (1 - share)), m);
                    NAME(store_)(dc + row * D + at, reached * other, m);
                    NAME(store_)(dskip + at, NAME(load_)(dskip + at, m) + reached * given, m);
                    NAME(store_)(dgain + at, NAME(load_)(dgain + at, m) + reached * normed, m);
                    NAME(store_)(to + v, to_n, m);
                    all += to_n;
                    along += to_n * normed;
                }
                const REAL mean = NAME(sum_)(all) / V, slope = NAME(sum_)(along) / V;
                for (int v = 0; v < V; v += LANES)
                    NAME(store_)(to + v, over * (NAME(load_)(to + v, V - v) - mean - NAME(load_)(n + v, V - v) * slope),
                                 V - v);
            }
    }
}

#endif
