/* The lag sum under a tap for each channel and lag, its transpose, and the gradient of the taps, by Fourier transforms:

       y_t = sum_k x_{t-k} w_k      dx_t = sum_k g_{t+k} w_k      dw_k = sum_t x_{t-k} g_t

   x (B, T, D) and w (L, D) are without gaps. The signal is cut into chunks of N >= L times. Chunk c of y is the first N
   numbers of its own product plus the last N of the product of the chunk before: the real part of (X_c - i X_{c-1}) W, see
   transform.h. Chunk c of dx is the real part of (G_c + i G_{c+1}) conj(W), and dw that of the sum of (G_c + i G_{c+1})
   conj(X_c) over chunks and rows. A thread takes one vector of channels of some rows. */
#ifndef REAL

#define REAL float
#include "channels.c"
#undef REAL

#define REAL double
#include "channels.c"

#else

#include "transform.h"

/* Bytes of scratch memory that a thread needs. */
size_t NAME(scratch_)(int N)
{
    return (size_t)4 * 2 * N * BYTES;
}

void NAME(forward_)(
    int threads, int parts, int B, int T, int D, int L, int N, const REAL *turns, const REAL *x, const REAL *w, REAL *y,
    char *scratch)
{
    (void)parts;
#pragma omp parallel num_threads(threads)
    {
        VECTOR *W = (VECTOR *)(scratch + omp_get_thread_num() * NAME(scratch_)(N)), *z = W + 2 * (ptrdiff_t)N;
        int W_channel = -1;
#pragma omp for collapse(2) schedule(static)
        for (int from = 0; from < D; from += LANES)
            for (int b = 0; b < B; b++) {
                const int n = D - from < LANES ? D - from : LANES;
                const REAL *signal = x + (size_t)b * T * D + from;
                if (W_channel != from) {
                    NAME(place_)(W, N, w + from, D, L, 0, n, 0, 1);
                    NAME(place_)(W, N, w, D, L, -1, n, 1, 1);
                    NAME(spread_)(W, N, turns);
                    W_channel = from;
                }
                for (int first = 0; first < T; first += N) {
                    NAME(place_)(z, N, signal, D, T, first, n, 0, 1);
                    NAME(place_)(z, N, signal, D, T, first - N, n, 1, -1);
                    NAME(spread_)(z, N, turns);
                    for (int f = 0; f < 2 * N; f += 2) {
                        const VECTOR re = z[f] * W[f] - z[f + 1] * W[f + 1];
                        z[f + 1] = z[f] * W[f + 1] + z[f + 1] * W[f];
                        z[f] = re;
                    }
                    NAME(gather_)(z, N, turns);
                    NAME(fetch_)(z, N, y + (size_t)b * T * D + from, D, T, first, n, (REAL)1 / N);
                }
            }
    }
}

/* dx and dw are not computed where they are NULL; part p of dw (parts, L, D) is the sum over rows p, p + parts, ... */
void NAME(backward_)(
    int threads, int parts, int B, int T, int D, int L, int N, const REAL *turns, const REAL *x, const REAL *w,
    const REAL *g, REAL *dx, REAL *dw, char *scratch)
{
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int from = 0; from < D; from += LANES)
        for (int part = 0; part < parts; part++) {
            VECTOR *W = (VECTOR *)(scratch + omp_get_thread_num() * NAME(scratch_)(N)), *z = W + 2 * (ptrdiff_t)N;
            VECTOR *v = z + 2 * (ptrdiff_t)N, *sum = v + 2 * (ptrdiff_t)N;
            const int n = D - from < LANES ? D - from : LANES;
            if (dx) {
                NAME(place_)(W, N, w + from, D, L, 0, n, 0, 1);
                NAME(place_)(W, N, w, D, L, -1, n, 1, 1);
                NAME(spread_)(W, N, turns);
            }
            memset(sum, 0, (size_t)2 * N * BYTES);
            for (int b = part; b < B; b += parts)
                for (int first = 0; first < T; first += N) {
                    const size_t at = (size_t)b * T * D + from;
                    NAME(place_)(z, N, g + at, D, T, first, n, 0, 1);
                    NAME(place_)(z, N, g + at, D, T, first + N, n, 1, 1);
                    NAME(spread_)(z, N, turns);
                    if (dw) {
                        NAME(place_)(v, N, x + at, D, T, first, n, 0, 1);
                        NAME(place_)(v, N, x, D, T, -1, n, 1, 1);
                        NAME(spread_)(v, N, turns);
                        for (int f = 0; f < 2 * N; f += 2) {
                            sum[f] += z[f] * v[f] + z[f + 1] * v[f + 1];
                            sum[f + 1] += z[f + 1] * v[f] - z[f] * v[f + 1];
                        }
                    }
                    if (dx) {
                        for (int f = 0; f < 2 * N; f += 2) {
                            const VECTOR re = z[f] * W[f] + z[f + 1] * W[f + 1];
                            z[f + 1] = z[f + 1] * W[f] - z[f] * W[f + 1];
                            z[f] = re;
                        }
                        NAME(gather_)(z, N, turns);
                        NAME(fetch_)(z, N, dx + at, D, T, first, n, (REAL)1 / N);
                    }
                }
            if (dw) {
                NAME(gather_)(sum, N, turns);
                NAME(fetch_)(sum, N, dw + (size_t)part * L * D + from, D, L, 0, n, (REAL)1 / N);
            }
        }
}

#endif
