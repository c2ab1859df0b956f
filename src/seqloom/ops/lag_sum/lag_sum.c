/* The lag sum under a tap for each channel and lag, its transpose, and what the taps receive:

       y_t = sum_k x_{t-k} w_k      dx_t = sum_k g_{t+k} w_k      dw_k = sum_t x_{t-k} g_t

   Inputs are (B, T, D) and taps (L, D), without gaps. A thread takes a few neighbouring channels (one vector) of some
   rows and lays them out one time after another. Then all three are the same walk: SIDE sums in registers, each moving
   along one factor, while the other is read once. The file includes itself once for each type of number. */
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
#define LAGS 128 /* taps taken at a time: these, their inputs and outputs stay in the nearest cache */
#define TIMES (8 * SIDE)
#define SPAN 256 /* products that are summed up before they join a double */

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
        const VECTOR one = held[n], *other = moving + (ptrdiff_t)n * along;
#pragma GCC unroll 16
        for (int i = 0; i < SIDE; i++)
            sum[i] += one * other[i * across];
    }
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        sums[i] = sum[i];
}

/* n channels of each of `many` places, `stride` numbers apart, one vector a place; the rest of it 0. */
static void NAME(lay_)(VECTOR *out, const REAL *from, size_t stride, int many, int n)
{
    if (n == LANES)
        for (int t = 0; t < many; t++)
            memcpy(out + t, from + t * stride, sizeof(VECTOR));
    else
        for (int t = 0; t < many; t++) {
            VECTOR lane = {0};
            memcpy(&lane, from + t * stride, n * sizeof(REAL));
            out[t] = lane;
        }
}

static void NAME(fetch_)(REAL *to, const VECTOR *from, size_t stride, int many, int n)
{
    if (n == LANES)
        for (int t = 0; t < many; t++)
            memcpy(to + t * stride, from + t, sizeof(VECTOR));
    else
        for (int t = 0; t < many; t++)
            memcpy(to + t * stride, from + t, n * sizeof(REAL));
}

/* One row: y from x (back = 0), or dx from g (back = 1). SIDE - 1 zeros lie before x or behind g, T laid out. */
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
        NAME(fetch_)(y + from * D, sums, D, to - from, n);
    }
}

/* What one row adds to dw (L, vector of doubles). SIDE - 1 zeros lie before x. */
static void NAME(taps_)(int T, int L, const VECTOR *x, const VECTOR *g, double *dw)
{
    for (int from = 0; from < T; from += SPAN) {
        const int to = T - from < SPAN ? T : from + SPAN;
        for (int k = 0; k < L && k < to; k += SIDE) {
            const int begin = from > k ? from : k; /* what is earlier meets no input */
            VECTOR sums[SIDE];
            memset(sums, 0, sizeof sums);
            NAME(walk_)(sums, g + begin, x + begin - k, -1, 1, to - begin);
            for (int i = 0; i < SIDE && k + i < L; i++)
                for (int d = 0; d < LANES; d++)
                    dw[(size_t)(k + i) * LANES + d] += sums[i][d];
        }
    }
}

/* Bytes of scratch memory that a thread needs: the taps, the inputs, what is given for the outputs, dw. */
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
            NAME(lay_)(taps, w + from, D, L, n);
            NAME(lay_)(inputs, x + at, D, T, n);
            NAME(row_)(0, T, L, D, n, inputs, taps, y + at);
        }
}

/* dx or dw may be NULL, which is not computed; dw is (parts, L, D) of doubles, each the sum of every parts-th row. */
void NAME(backward_)(
    int threads, int parts, int B, int T, int D, int L, const REAL *x, const REAL *w, const REAL *g, REAL *dx,
    double *dw, char *scratch)
{
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int from = 0; from < D; from += LANES)
        for (int part = 0; part < parts; part++) {
            VECTOR *taps = (VECTOR *)(scratch + omp_get_thread_num() * NAME(scratch_)(T, L)), *inputs = taps + L + SIDE;
            VECTOR *given = inputs + T;
            double *sums = (double *)(given + T + SIDE);
            const int n = D - from < LANES ? D - from : LANES;
            memset(inputs - SIDE, 0, SIDE * sizeof(VECTOR));
            memset(given + T, 0, SIDE * sizeof(VECTOR));
            memset(sums, 0, sizeof(double) * LANES * L);
            NAME(lay_)(taps, w + from, D, L, n);
            for (int b = part; b < B; b += parts) {
                const size_t at = (size_t)b * T * D + from;
                NAME(lay_)(given, g + at, D, T, n);
                if (dx)
                    NAME(row_)(1, T, L, D, n, given, taps, dx + at);
                if (dw) {
                    NAME(lay_)(inputs, x + at, D, T, n);
                    NAME(taps_)(T, L, inputs, given, sums);
                }
            }
            for (int k = 0; k < L && dw; k++)
                memcpy(dw + ((size_t)part * L + k) * D + from, sums + (size_t)k * LANES, n * sizeof(double));
        }
}

#endif
