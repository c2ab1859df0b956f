/* The lag sum under a tap for each channel and lag, its transpose, and the gradient of the taps:

       y_t = sum_k x_{t-k} w_k      dx_t = sum_k g_{t+k} w_k      dw_k = sum_t x_{t-k} g_t

   Inputs are (B, T, D) and taps (L, D), without gaps. A thread takes a few neighboring channels (one vector) of some rows
   and copies them to vectors, one for each time. Then all three are the same loop (`walk_`): SIDE sums in registers, each
   of which multiplies the vectors of one factor by other vectors of the second one. The file includes itself once for
   each floating-point type. */
#ifndef REAL

#include <stddef.h>
#include <string.h>

int omp_get_thread_num(void);

#ifdef __AVX512F__
#define BYTES 64 /* of a vector */
#define SIDE 14  /* sums held in registers */
#else
#define BYTES 32
#define SIDE 8
#endif
#define LAGS 128 /* taps at a time: these, their inputs and outputs stay in the nearest cache */
#define TIMES (8 * SIDE)
#define SPAN 256 /* products that are summed before they are added to a double */

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)

#define REAL float
#include "lag_sum.c"
#undef REAL

#define REAL double
#include "lag_sum.c"

#else

#define LANES (BYTES / (int)sizeof(REAL))
typedef REAL NAME(vector_) __attribute__((vector_size(BYTES)));
#define VECTOR NAME(vector_)

/* sums[i] += sum_n held[n] * moving[i * across + n * along], i < SIDE */
static inline __attribute__((always_inline)) void NAME(walk_)(
    VECTOR *sums, const VECTOR *held, const VECTOR *moving, int across, int along, int count)
{
    VECTOR sum[SIDE];
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        sum[i] = sums[i];
    for (int n = 0; n < count; n++) {
        const VECTOR factor = held[n], *factors = moving + (ptrdiff_t)n * along;
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            sum[i] += factor * factors[i * across];
    }
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        sums[i] = sum[i];
}

/* n channels at each of `count` times, `stride` numbers apart, to a vector for each time, padded with 0; and back. */
static void NAME(to_vectors_)(VECTOR *out, const REAL *from, size_t stride, int count, int n)
{
    if (n == LANES)
        for (int t = 0; t < count; t++)
            memcpy(out + t, from + t * stride, sizeof(VECTOR));
    else
        for (int t = 0; t < count; t++) {
            VECTOR lane = {0};
            memcpy(&lane, from + t * stride, n * sizeof(REAL));
            out[t] = lane;
        }
}

static void NAME(from_vectors_)(REAL *to, const VECTOR *from, size_t stride, int count, int n)
{
    if (n == LANES)
        for (int t = 0; t < count; t++)
            memcpy(to + t * stride, from + t, sizeof(VECTOR));
    else
        for (int t = 0; t < count; t++)
            memcpy(to + t * stride, from + t, n * sizeof(REAL));
}

/* One row: y from x (back = 0), or dx from g (back = 1), T vectors with SIDE - 1 zeros before x or behind g. */
static inline __attribute__((always_inline)) void NAME(row_)(
    int back, int T, int L, size_t D, int n, const VECTOR *x, const VECTOR *w, REAL *y)
{
    VECTOR sums[TIMES];
    for (int from = 0; from < T; from += TIMES) {
        const int to = T - from < TIMES ? T : from + TIMES;
        memset(sums, 0, sizeof sums);
        for (int first = 0; first < L; first += LAGS) {
            const int last = L - first < LAGS ? L : first + LAGS;
            for (int t = from; t < to; t += SIDE) {
                const int reach = back ? T - t : t + SIDE, end = last < reach ? last : reach;
                if (end > first)
                    NAME(walk_)(sums + (t - from), w + first, back ? x + t + first : x + t - first, 1, back ? 1 : -1,
                                end - first);
            }
        }
        NAME(from_vectors_)(y + from * D, sums, D, to - from, n);
    }
}

/* Adds the gradient of one row to dw (L, a vector of doubles). SIDE - 1 zeros are before x. */
static void NAME(taps_)(int T, int L, const VECTOR *x, const VECTOR *g, double *dw)
{
    for (int from = 0; from < T; from += SPAN) {
        const int to = T - from < SPAN ? T : from + SPAN;
        for (int k = 0; k < L && k < to; k += SIDE) {
            const int begin = from > k ? from : k; /* before time k there is no input at lag k */
            VECTOR sums[SIDE];
            memset(sums, 0, sizeof sums);
            NAME(walk_)(sums, g + begin, x + begin - k, -1, 1, to - begin);
            for (int i = 0; i < SIDE && k + i < L; i++)
                for (int d = 0; d < LANES; d++)
                    dw[(size_t)(k + i) * LANES + d] += sums[i][d];
        }
    }
}

/* Bytes of scratch memory that a thread needs: for the taps, the inputs, the gradients of the outputs, and dw. */
size_t NAME(scratch_)(int T, int L)
{
    return BYTES * (L + 2 * ((size_t)T + SIDE)) + sizeof(double) * LANES * L;
}

void NAME(forward_)(int threads, int B, int T, int D, int L, const REAL *x, const REAL *w, REAL *y, char *scratch)
{
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int b = 0; b < B; b++)
        for (int from = 0; from < D; from += LANES) {
            VECTOR *taps = (VECTOR *)(scratch + omp_get_thread_num() * NAME(scratch_)(T, L)), *inputs = taps + L + SIDE;
            const int n = D - from < LANES ? D - from : LANES;
            const size_t at = (size_t)b * T * D + from;
            memset(inputs - SIDE, 0, SIDE * sizeof(VECTOR));
            NAME(to_vectors_)(taps, w + from, D, L, n);
            NAME(to_vectors_)(inputs, x + at, D, T, n);
            NAME(row_)(0, T, L, D, n, inputs, taps, y + at);
        }
}

/* dx and dw are not computed where they are NULL; part p of dw (parts, L, D), in double, is the sum over rows p, p + parts,
   p + 2 parts, ... */
void NAME(backward_)(
    int threads, int parts, int B, int T, int D, int L, const REAL *x, const REAL *w, const REAL *g, REAL *dx,
    double *dw, char *scratch)
{
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int from = 0; from < D; from += LANES)
        for (int part = 0; part < parts; part++) {
            VECTOR *taps = (VECTOR *)(scratch + omp_get_thread_num() * NAME(scratch_)(T, L)), *inputs = taps + L + SIDE;
            VECTOR *gradients = inputs + T;
            double *sums = (double *)(gradients + T + SIDE);
            const int n = D - from < LANES ? D - from : LANES;
            memset(inputs - SIDE, 0, SIDE * sizeof(VECTOR));
            memset(gradients + T, 0, SIDE * sizeof(VECTOR));
            memset(sums, 0, sizeof(double) * LANES * L);
            NAME(to_vectors_)(taps, w + from, D, L, n);
            for (int b = part; b < B; b += parts) {
                const size_t at = (size_t)b * T * D + from;
                NAME(to_vectors_)(gradients, g + at, D, T, n);
                if (dx)
                    NAME(row_)(1, T, L, D, n, gradients, taps, dx + at);
                if (dw) {
                    NAME(to_vectors_)(inputs, x + at, D, T, n);
                    NAME(taps_)(T, L, inputs, gradients, sums);
                }
            }
            for (int k = 0; k < L && dw; k++)
                memcpy(dw + ((size_t)part * L + k) * D + from, sums + (size_t)k * LANES, n * sizeof(double));
        }
}

#endif
