/* The norm of a head's V numbers with its gain and gate, in the letters of __init__.py, in one pass over memory each way.

   y and dy (B, T, H, V), z and the output's gradient (B, T, H V), the latter two with any distance between tokens. gain has
   N numbers, V for all heads or H V. A task is SPAN tokens; sums over tokens are left to the caller, one of each task, so
   that no number depends on the threads. The file includes itself once for each type of number. */
#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <tgmath.h>

int omp_get_thread_num(void);

enum { SPAN = 64 };                       /* native.py has it too */
enum { NONE, SILU, SIGMOID, SILU_FIRST }; /* the gate: native.py's order */

#define REAL float
#include "norm.c"
#undef REAL

#define REAL double
#include "norm.c"

#else

#include "vectors.h"

/* The gate of z, and its slope. */
INLINE VEC NAME(gate_)(const int way, VEC z, VEC *slope)
{
    VEC unused;
    if (way == NONE)
        return NAME(all_)(1);
    const VEC share = NAME(sigmoid_)(z, &unused);
    *slope = way == SIGMOID ? share * (1 - share) : share * (1 + z * (1 - share));
    return way == SIGMOID ? share : z * share;
}

INLINE void NAME(forward_head_)(const int way, int V, REAL eps, const REAL *y, const REAL *z, const REAL *gain, REAL *out)
{
    VEC squares = {0}, slope;
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        VEC x = NAME(load_)(y + v, m);
        if (way == SILU_FIRST) {
            x *= NAME(gate_)(way, NAME(load_)(z + v, m), &slope);
            NAME(store_)(out + v, x, m);
        }
        squares += x * x;
    }
    const REAL over = 1 / sqrt(NAME(sum_)(squares) / V + eps);
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        VEC x = NAME(load_)((way == SILU_FIRST ? out : y) + v, m) * over * NAME(load_)(gain + v, m);
        if (way == SILU || way == SIGMOID)
            x *= NAME(gate_)(way, NAME(load_)(z + v, m), &slope);
        NAME(store_)(out + v, x, m);
    }
}

/* dgain is added to; `room` has V numbers. With x what is normed and n = x over, what reaches x is
   over (dn - n mean(dn n)). */
INLINE void NAME(backward_head_)(
    const int way, int V, REAL eps, const REAL *y, const REAL *z, const REAL *gain, const REAL *given, REAL *dy, REAL *dz,
    REAL *dgain, REAL *room)
{
    VEC squares = {0}, along = {0}, slope;
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        const VEC x = NAME(load_)(y + v, m), by = NAME(load_)(gain + v, m), out = NAME(load_)(given + v, m);
        const VEC open = NAME(gate_)(way, way == NONE ? x : NAME(load_)(z + v, m), &slope);
        if (way == SILU_FIRST) {
            const VEC gated = x * open;
            squares += gated * gated;
            along += out * by * gated;
            NAME(store_)(room + v, gated, m);
            NAME(store_)(dy + v, open, m);
            NAME(store_)(dz + v, x * slope, m);
        } else {
            squares += x * x;
            along += out * open * by * x;
            NAME(store_)(room + v, out * open, m);
            if (way != NONE)
                NAME(store_)(dz + v, out * by * x * slope, m);
        }
    }
    const REAL over = 1 / sqrt(NAME(sum_)(squares) / V + eps), mean = over * over * NAME(sum_)(along) / V;
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        const VEC by = NAME(load_)(gain + v, m), kept = NAME(load_)(room + v, m);
        if (way == SILU_FIRST) {
            const VEC out = NAME(load_)(given + v, m), to = over * (out * by - kept * mean);
            NAME(store_)(dy + v, to * NAME(load_)(dy + v, m), m);
            NAME(store_)(dz + v, to * NAME(load_)(dz + v, m), m);
            NAME(store_)(dgain + v, NAME(load_)(dgain + v, m) + out * kept * over, m);
        } else {
            const VEC x = NAME(load_)(y + v, m);
            NAME(store_)(dy + v, over * (kept * by - x * mean), m);
            NAME(store_)(dgain + v, NAME(load_)(dgain + v, m) + kept * x * over, m);
            if (way != NONE)
                NAME(store_)(dz + v, over * NAME(load_)(dz + v, m), m);
        }
    }
}

#define BY_WAY(some, ...) \
    switch (way) { \
    case NONE: some(NONE, __VA_ARGS__); break; \
    case SILU: some(SILU, __VA_ARGS__); break; \
    case SIGMOID: some(SIGMOID, __VA_ARGS__); break; \
    default: some(SILU_FIRST, __VA_ARGS__); \
    }

/* Both return 1 where sizes or the way do not belong together. */
int NAME(forward_)(
    int threads, int way, int B, int T, int H, int V, int N, int64_t z_step, const REAL *y, const REAL *z,
    const REAL *gain, const REAL *eps, REAL *out)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
    if ((N != V && N != (int)D) || way < NONE || way > SILU_FIRST || (way != NONE && !z))
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++)
        for (int head = 0; head < H; head++) {
            const size_t own = (size_t)head * V;
            BY_WAY(NAME(forward_head_), V, *eps, y + row * D + own, z ? z + row * z_step + own : 0,
                   gain + (N == V ? 0 : own), out + row * D + own)
        }
    return 0;
}

int NAME(backward_)(
    int threads, int way, int B, int T, int H, int V, int N, int64_t z_step, int64_t given_step, const REAL *y,
    const REAL *z, const REAL *gain, const REAL *eps, const REAL *given, REAL *dy, REAL *dz, REAL *sums, REAL *scratch)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
    if ((N != V && N != (int)D) || way < NONE || way > SILU_FIRST || (way != NONE && (!z || !dz)))
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t span = 0; span < (rows + SPAN - 1) / SPAN; span++) {
        REAL *room = scratch + (size_t)omp_get_thread_num() * V, *dgain = sums + span * N;
        memset(dgain, 0, N * sizeof(REAL));
        for (size_t row = span * SPAN; row < rows && row < (span + 1) * SPAN; row++)
            for (int head = 0; head < H; head++) {
                const size_t own = (size_t)head * V, at = row * D + own;
                BY_WAY(NAME(backward_head_), V, *eps, y + at, z ? z + row * z_step + own : 0, gain + (N == V ? 0 : own),
                       given + row * given_step + own, dy + at, dz ? dz + at : 0, dgain + (N == V ? 0 : own), room)
            }
    }
    return 0;
}

#undef BY_WAY
#endif
