/* The norm of a head's V numbers with its gain and gate, in the letters of __init__.py: one pass over memory forward and one
   backward.

   y and dy are (B, T, H, V); z and the output's gradient `dout` (B, T, H V), both with any distance between tokens. gain has
   N numbers, V for all heads or H V. A task is SPAN tokens. `sums` has the gradient of the gain for each task; the caller
   adds them up, so that results do not depend on the number of threads. The file includes itself once for each
   floating-point type. */
#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <tgmath.h>

int omp_get_thread_num(void);

enum { SPAN = 64 };                       /* the same number as in native.py */
enum { NONE, SILU, SIGMOID, SILU_FIRST }; /* the gates, in the order of native.py */

#define REAL float
#include "norm.c"
#undef REAL

#define REAL double
#include "norm.c"

#else

#include "vectors.h"

/* silu(z), σ(z) or 1, and its derivative. */
INLINE VEC NAME(gate_)(const int gate, VEC z, VEC *derivative)
{
    VEC unused;
    if (gate == NONE)
        return NAME(all_)(1);
    const VEC sigmoid = NAME(sigmoid_)(z, &unused);
    *derivative = gate == SIGMOID ? sigmoid * (1 - sigmoid) : sigmoid * (1 + z * (1 - sigmoid));
    return gate == SIGMOID ? sigmoid : z * sigmoid;
}

INLINE void NAME(forward_head_)(const int gate, int V, REAL eps, const REAL *y, const REAL *z, const REAL *gain, REAL *out)
{
    VEC squares = {0}, unused;
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        VEC x = NAME(load_)(y + v, m);
        if (gate == SILU_FIRST) {
            x *= NAME(gate_)(gate, NAME(load_)(z + v, m), &unused);
            NAME(store_)(out + v, x, m);
        }
        squares += x * x;
    }
    const REAL scale = 1 / sqrt(NAME(sum_)(squares) / V + eps);
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        VEC x = NAME(load_)((gate == SILU_FIRST ? out : y) + v, m) * scale * NAME(load_)(gain + v, m);
        if (gate == SILU || gate == SIGMOID)
            x *= NAME(gate_)(gate, NAME(load_)(z + v, m), &unused);
        NAME(store_)(out + v, x, m);
    }
}

/* The gradients of one head; that of the gain is added to dgain; `scratch` has room for V numbers. With x the input of the
   norm and n = x scale its output, dx = scale (dn - n mean(dn n)). */
INLINE void NAME(backward_head_)(
    const int gate, int V, REAL eps, const REAL *y, const REAL *z, const REAL *gain, const REAL *dout, REAL *dy, REAL *dz,
    REAL *dgain, REAL *scratch)
{
    VEC squares = {0}, products = {0}, derivative;
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        const VEC x = NAME(load_)(y + v, m), gains = NAME(load_)(gain + v, m), dout_v = NAME(load_)(dout + v, m);
        const VEC gates = NAME(gate_)(gate, gate == NONE ? x : NAME(load_)(z + v, m), &derivative);
        if (gate == SILU_FIRST) {
            const VEC gated = x * gates;
            squares += gated * gated;
            products += dout_v * gains * gated;
            NAME(store_)(scratch + v, gated, m);
            NAME(store_)(dy + v, gates, m);
            NAME(store_)(dz + v, x * derivative, m);
        } else {
            squares += x * x;
            products += dout_v * gates * gains * x;
            NAME(store_)(scratch + v, dout_v * gates, m);
            if (gate != NONE)
                NAME(store_)(dz + v, dout_v * gains * x * derivative, m);
        }
    }
    const REAL scale = 1 / sqrt(NAME(sum_)(squares) / V + eps), mean = scale * scale * NAME(sum_)(products) / V;
    for (int v = 0; v < V; v += LANES) {
        const int m = V - v;
        const VEC gains = NAME(load_)(gain + v, m);
        if (gate == SILU_FIRST) {
            const VEC gated = NAME(load_)(scratch + v, m), dout_v = NAME(load_)(dout + v, m);
            const VEC dgated = scale * (dout_v * gains - gated * mean);
            NAME(store_)(dy + v, dgated * NAME(load_)(dy + v, m), m);
            NAME(store_)(dz + v, dgated * NAME(load_)(dz + v, m), m);
            NAME(store_)(dgain + v, NAME(load_)(dgain + v, m) + dout_v * gated * scale, m);
        } else {
            const VEC x = NAME(load_)(y + v, m), dnormed = NAME(load_)(scratch + v, m);
            NAME(store_)(dy + v, scale * (dnormed * gains - x * mean), m);
            NAME(store_)(dgain + v, NAME(load_)(dgain + v, m) + dnormed * x * scale, m);
            if (gate != NONE)
                NAME(store_)(dz + v, scale * NAME(load_)(dz + v, m), m);
        }
    }
}

/* Calls `function` with the gate as a constant. */
#define BY_GATE(function, ...) \
    switch (gate) { \
    case NONE: function(NONE, __VA_ARGS__); break; \
    case SILU: function(SILU, __VA_ARGS__); break; \
    case SIGMOID: function(SIGMOID, __VA_ARGS__); break; \
    default: function(SILU_FIRST, __VA_ARGS__); \
    }

/* Forward and backward return 1 where the sizes or the gate do not fit together. */
int NAME(forward_)(
    int threads, int gate, int B, int T, int H, int V, int N, int64_t z_step, const REAL *y, const REAL *z,
    const REAL *gain, const REAL *eps, REAL *out)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
    if ((N != V && N != (int)D) || gate < NONE || gate > SILU_FIRST || (gate != NONE && !z))
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++)
        for (int head = 0; head < H; head++) {
            const size_t channel = (size_t)head * V;
            BY_GATE(NAME(forward_head_), V, *eps, y + row * D + channel, z ? z + row * z_step + channel : 0,
                   gain + (N == V ? 0 : channel), out + row * D + channel)
        }
    return 0;
}

int NAME(backward_)(
    int threads, int gate, int B, int T, int H, int V, int N, int64_t z_step, int64_t dout_step, const REAL *y,
    const REAL *z, const REAL *gain, const REAL *eps, const REAL *dout, REAL *dy, REAL *dz, REAL *sums, REAL *scratch)
{
    const size_t D = (size_t)H * V, rows = (size_t)B * T;
    if ((N != V && N != (int)D) || gate < NONE || gate > SILU_FIRST || (gate != NONE && (!z || !dz)))
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t span = 0; span < (rows + SPAN - 1) / SPAN; span++) {
        REAL *own_scratch = scratch + (size_t)omp_get_thread_num() * V, *dgain = sums + span * N;
        memset(dgain, 0, N * sizeof(REAL));
        for (size_t row = span * SPAN; row < rows && row < (span + 1) * SPAN; row++)
            for (int head = 0; head < H; head++) {
                const size_t channel = (size_t)head * V, start = row * D + channel, first_gain = N == V ? 0 : channel;
                BY_GATE(NAME(backward_head_), V, *eps, y + start, z ? z + row * z_step + channel : 0, gain + first_gain,
                        dout + row * dout_step + channel, dy + start, dz ? dz + start : 0, dgain + first_gain, own_scratch)
            }
    }
    return 0;
}

#undef BY_GATE
#endif
