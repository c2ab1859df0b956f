/* One token of the lag sum under taps (L, D) or (L,), with later outputs computed ahead (see __init__.py):

       y = z W_0 + ahead[now],        then the last n inputs are added to the next n outputs by the taps 1 ... 2n-1

   Both rings are (B, P, D) without gaps: `past` is filled backwards, so that its slots run from the newest input on, `ahead`
   forwards. Every row has its own count of tokens, and a thread its own channels, so results do not depend on the number of
   threads. `per` is the number of weights of a tap: D, or 0 where all channels share one. The file includes itself once for
   each floating-point type. */
#include "token.h"
#ifndef REAL

#define REAL float
#include "token.c"
#undef REAL

#define REAL double
#include "token.c"

#else

/* n channels of `count` slots p, p+1, ... of a ring of P, a vector for each slot, padded with 0. */
static void NAME(load_slots_)(VECTOR *out, const REAL *ring, size_t D, int P, int p, int count, int n)
{
    for (int i = 0; i < count; i++, p = p + 1 < P ? p + 1 : 0)
        if (n == LANES)
            out[i] = NAME(load_)(ring + p * D);
        else {
            out[i] = (VECTOR){0};
            memcpy(out + i, ring + p * D, n * sizeof(REAL));
        }
}

/* n channels of the `count` taps first, first + 1, ..., a vector for each; those beyond P are 0. */
static void NAME(load_taps_)(VECTOR *out, const REAL *w, size_t per, int P, int first, int count, int n)
{
    for (int i = 0; i < count; i++) {
        out[i] = (VECTOR){0};
        if (first + i > P)
            continue;
        if (per == 0)
            out[i] += w[first + i];
        else
            memcpy(out + i, w + (first + i) * per, n == LANES ? sizeof(VECTOR) : n * sizeof(REAL));
    }
}

/* Adds the last `size` inputs to the next `size` outputs, for n channels of one row. */
static void NAME(add_block_)(
    int size, int P, size_t D, int n, const REAL *past, int newest, REAL *ahead, int next, const REAL *w, size_t per)
{
    VECTOR inputs[SPAN], taps[2 * SPAN], sums[SPAN];
    for (int a = 0; a < size; a += SPAN) {
        const int outputs = size - a < SPAN ? size - a : SPAN, sides = (outputs + SIDE - 1) / SIDE * SIDE;
        memset(sums, 0, sides * sizeof(VECTOR));
        for (int b = 0; b < size && a + b < P; b += SPAN) {
            const int count = size - b < SPAN ? size - b : SPAN, rounded = (count + SIDE - 1) / SIDE * SIDE;
            NAME(load_slots_)(inputs, past, D, P, (newest + b) % P, count, n);
            memset(inputs + count, 0, (rounded - count) * sizeof(VECTOR));
            NAME(load_taps_)(taps, w, per, P, a + b + 1, rounded + sides, n);
            for (int i = 0; i < sides; i += SIDE) {
                VECTOR sum[SIDE];
#pragma GCC unroll 8
                for (int k = 0; k < SIDE; k++)
                    sum[k] = sums[i + k];
                for (int j = 0; j < rounded; j += SIDE) {
                    VECTOR tap[2 * SIDE - 1];
#pragma GCC unroll 16
                    for (int k = 0; k < 2 * SIDE - 1; k++)
                        tap[k] = taps[i + j + k];
#pragma GCC unroll 8
                    for (int m = 0; m < SIDE; m++) {
                        const VECTOR input = inputs[j + m];
#pragma GCC unroll 8
                        for (int k = 0; k < SIDE; k++)
                            sum[k] += input * tap[m + k];
                    }
                }
#pragma GCC unroll 8
                for (int k = 0; k < SIDE; k++)
                    sums[i + k] = sum[k];
            }
        }
        for (int i = 0, p = (next + a) % P; i < outputs; i++, p = p + 1 < P ? p + 1 : 0)
            for (int d = 0; d < n; d++)
                ahead[p * D + d] += sums[i][d];
    }
}

/* Computes y, and returns 0; or returns a `state_error`, and then writes nothing. */
int NAME(each_read_)(TOKEN(D, per))
{
    const int error = state_error(B, length, origin);
    if (error)
        return error;
    for (int b = 0; b < B; b++, z += across, y += D) {
        const int slot = length[b] % P;
        const size_t row = (size_t)b * P * D;
        for (int d = 0; d < D; d++)
            y[d] = z[d] * w[per ? d : 0] + ahead[row + (size_t)slot * D + d];
        NAME(write_token_)(P, D, slot, z, past + row, ahead + row);
    }
    return 0;
}

/* Adds the blocks after the token. Returns whether a row's block is longer than `leaf`, and therefore not added; -2 as
   `state_error`. Where an `ahead` is not valid nothing is added. */
int NAME(each_push_)(TOKEN(D, per))
{
    int longer = 0;
    double products = 0;
    const int error = state_error(B, length, origin);
    if (error)
        return error == -1 ? 0 : error;
    for (int b = 0; b < B; b++) {
        const double size = block(length[b] + 1 - origin[b], P, longest);
        longer |= size > leaf;
        products += size > leaf ? 0 : size * size * D;
    }
    threads = threads_for(threads, products);
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static) if (threads > 1)
    for (int b = 0; b < B; b++)
        for (int from = 0; from < D; from += LANES) {
            const int size = block(length[b] + 1 - origin[b], P, longest), slot = length[b] % P;
            const size_t ring = (size_t)b * P * D + from;
            if (size <= leaf)
                NAME(add_block_)(size, P, D, D - from < LANES ? D - from : LANES, past + ring, P - 1 - slot, ahead + ring,
                                 (slot + 1) % P, per ? w + from : w, per);
        }
    return longer;
}

/* `read`, then `push`: returns a `state_error`, or else whether a row's block is longer than `leaf`. */
int NAME(each_token_)(TOKEN(D, per))
{
    const int error = NAME(each_read_)(threads, B, P, D, per, longest, leaf, across, z, w, past, ahead, length, origin, y);
    if (error)
        return error;
    return NAME(each_push_)(threads, B, P, D, per, longest, leaf, across, z, w, past, ahead, length, origin, y);
}

#endif
