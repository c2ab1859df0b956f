/* One token of the lag sum under taps (L, D) or (L,), its later outputs paid ahead (see online.py):

       y = z W_0 + ahead[now],        then the last n inputs are added to the next n outputs by the taps 1 ... 2n-1

   Both rings are (B, P, D) without gaps: `past` is filled backwards, so that it runs from the newest input on, `ahead`
   forwards. Every row has its own count of tokens, and a thread its own channels, so the numbers do not depend on how
   many threads there are. `per` is how many numbers a tap has: D, or 0 where all channels share one. The file includes itself once for each type of number. */
#include "token.h"
#ifndef REAL

#define REAL float
#include "token.c"
#undef REAL

#define REAL double
#include "token.c"

#else

/* n channels of places p, p+1, ... of a ring of P, one vector a place; the rest of it 0. */
static void NAME(lay_)(VECTOR *out, const REAL *ring, size_t D, int P, int p, int many, int n)
{
    for (int i = 0; i < many; i++, p = p + 1 < P ? p + 1 : 0)
        if (n == LANES)
            out[i] = NAME(load_)(ring + p * D);
        else {
            out[i] = (VECTOR){0};
            memcpy(out + i, ring + p * D, n * sizeof(REAL));
        }
}

/* Taps first, first + 1, ...; those beyond P are 0. Where `per` is 0 a tap is one number for all channels. */
static void NAME(taps_)(VECTOR *out, const REAL *w, size_t per, int P, int first, int many, int n)
{
    for (int i = 0; i < many; i++) {
        out[i] = (VECTOR){0};
        if (first + i > P)
            continue;
        if (per == 0)
            out[i] += w[first + i];
        else
            memcpy(out + i, w + (first + i) * per, n == LANES ? sizeof(VECTOR) : n * sizeof(REAL));
    }
}

/* What n places right after read in the n inputs before them, for some channels of one row. */
static void NAME(join_)(
    int size, int P, size_t D, int n, const REAL *past, int newest, REAL *ahead, int next, const REAL *w, size_t per)
{
    VECTOR inputs[SPAN], taps[2 * SPAN], sums[SPAN];
    for (int a = 0; a < size; a += SPAN) {
        const int outputs = size - a < SPAN ? size - a : SPAN, sides = (outputs + SIDE - 1) / SIDE * SIDE;
        memset(sums, 0, sides * sizeof(VECTOR));
        for (int b = 0; b < size && a + b < P; b += SPAN) {
            const int many = size - b < SPAN ? size - b : SPAN, rounded = (many + SIDE - 1) / SIDE * SIDE;
            NAME(lay_)(inputs, past, D, P, (newest + b) % P, many, n);
            memset(inputs + many, 0, (rounded - many) * sizeof(VECTOR));
            NAME(taps_)(taps, w, per, P, a + b + 1, rounded + sides, n);
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
                        const VECTOR one = inputs[j + m];
#pragma GCC unroll 8
                        for (int k = 0; k < SIDE; k++)
                            sum[k] += one * tap[m + k];
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

/* y, and 0; less than 0 where the rows are `unfit`, and then nothing is written. */
int NAME(each_read_)(TOKEN(D, per))
{
    const int wrong = unfit(B, seen, origin);
    if (wrong)
        return wrong;
    for (int b = 0; b < B; b++, z += across, y += D) {
        const int slot = seen[b] % P;
        const size_t row = (size_t)b * P * D;
        for (int d = 0; d < D; d++)
            y[d] = z[d] * w[per ? d : 0] + ahead[row + (size_t)slot * D + d];
        NAME(written_)(P, D, slot, z, past + row, ahead + row);
    }
    return 0;
}

/* What comes after the token: whether a row's block is longer than `leaf`, which then is not done; -2 as `unfit`. Where
   an `ahead` is not valid there is nothing to add to. */
int NAME(each_push_)(TOKEN(D, per))
{
    int longer = 0;
    double products = 0;
    const int wrong = unfit(B, seen, origin);
    if (wrong)
        return wrong == -1 ? 0 : wrong;
    for (int b = 0; b < B; b++) {
        const double size = block(seen[b] + 1 - origin[b], P, cap);
        longer |= size > leaf;
        products += size > leaf ? 0 : size * size * D;
    }
    threads = team(threads, products);
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static) if (threads > 1)
    for (int b = 0; b < B; b++)
        for (int from = 0; from < D; from += LANES) {
            const int size = block(seen[b] + 1 - origin[b], P, cap), slot = seen[b] % P;
            const size_t at = (size_t)b * P * D + from;
            if (size <= leaf)
                NAME(join_)(size, P, D, D - from < LANES ? D - from : LANES, past + at, P - 1 - slot, ahead + at,
                            (slot + 1) % P, per ? w + from : w, per);
        }
    return longer;
}

/* Both: less than 0 where the rows are `unfit`, else whether a row's block is longer than `leaf`. */
int NAME(each_token_)(TOKEN(D, per))
{
    const int wrong = NAME(each_read_)(threads, B, P, D, per, cap, leaf, across, z, w, past, ahead, seen, origin, y);
    if (wrong)
        return wrong;
    return NAME(each_push_)(threads, B, P, D, per, cap, leaf, across, z, w, past, ahead, seen, origin, y);
}

#endif
