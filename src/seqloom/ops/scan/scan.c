/* The recurrence of __init__.py and its gradients of recurrence.py, token by token, in their letters: each task is one
   row of the batch and some channels.

   Numbers are (B, T, N), states (B, N), all without gaps. Where `paired`, they are complex: real and imaginary part in
   turn. Where `fixed`, a is (N,) and the same at every token. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>
#include <string.h>

/* Channels of one task: memory is read faster in long rows, but there must be a task for each thread. */
static int task_channels(int threads, int B, int N)
{
    int channels = 256;
    while (channels > 16 && B * ((N + channels - 1) / channels) < threads)
        channels /= 2;
    return channels;
}

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)

#define REAL float
#include "scan.c"
#undef REAL

#define REAL double
#include "scan.c"

#else

/* h = a before + b for n channels. */
static inline void NAME(step_)(
    int n, int paired, const REAL *restrict a, const REAL *restrict before, const REAL *restrict b, REAL *restrict h)
{
    if (paired) {
#pragma omp simd
        for (int d = 0; d < n; d++) {
            const REAL re = a[2 * d], im = a[2 * d + 1], x = before[2 * d], y = before[2 * d + 1];
            h[2 * d] = re * x - im * y + b[2 * d];
            h[2 * d + 1] = re * y + im * x + b[2 * d + 1];
        }
    } else {
#pragma omp simd
        for (int d = 0; d < n; d++)
            h[d] = a[d] * before[d] + b[d];
    }
}

/* g = conj(a) after + dh for n channels; dh may be NULL, which means 0. */
static inline void NAME(step_back_)(
    int n, int paired, const REAL *restrict a, const REAL *restrict after, const REAL *restrict dh, REAL *restrict g)
{
    if (paired) {
#pragma omp simd
        for (int d = 0; d < n; d++) {
            const REAL re = a[2 * d], im = a[2 * d + 1], x = after[2 * d], y = after[2 * d + 1];
            g[2 * d] = re * x + im * y + (dh ? dh[2 * d] : 0);
            g[2 * d + 1] = re * y - im * x + (dh ? dh[2 * d + 1] : 0);
        }
    } else {
#pragma omp simd
        for (int d = 0; d < n; d++)
            g[d] = a[d] * after[d] + (dh ? dh[d] : 0);
    }
}

/* da = g conj(before) for n channels. */
static inline void NAME(da_)(int n, int paired, const REAL *restrict g, const REAL *restrict before, REAL *restrict da)
{
    if (paired) {
#pragma omp simd
        for (int d = 0; d < n; d++) {
            const REAL re = g[2 * d], im = g[2 * d + 1], x = before[2 * d], y = before[2 * d + 1];
            da[2 * d] = re * x + im * y;
            da[2 * d + 1] = im * x - re * y;
        }
    } else {
#pragma omp simd
        for (int d = 0; d < n; d++)
            da[d] = g[d] * before[d];
    }
}

/* da += g conj(before) for n channels, summed in doubles. */
static inline void NAME(add_da_)(
    int n, int paired, const REAL *restrict g, const REAL *restrict before, double *restrict da)
{
    if (paired) {
#pragma omp simd
        for (int d = 0; d < n; d++) {
            const REAL re = g[2 * d], im = g[2 * d + 1], x = before[2 * d], y = before[2 * d + 1];
            da[2 * d] += re * x + im * y;
            da[2 * d + 1] += im * x - re * y;
        }
    } else {
#pragma omp simd
        for (int d = 0; d < n; d++)
            da[d] += g[d] * before[d];
    }
}

void NAME(forward_)(
    int threads, int paired, int fixed, int B, int T, int N, const REAL *a, const REAL *b, const REAL *state, REAL *h)
{
    const int channels = task_channels(threads, B, N), parts = 1 + paired;
    const size_t token_size = (size_t)N * parts;
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int row = 0; row < B; row++)
        for (int from = 0; from < N; from += channels) {
            const int n = N - from < channels ? N - from : channels;
            const size_t first = (size_t)from * parts, at = row * T * token_size + first;
            const REAL *before = state + row * token_size + first, *a_t = fixed ? a + first : a + at;
            for (int t = 0; t < T; t++) {
                REAL *h_t = h + at + t * token_size;
                NAME(step_)(n, paired, a_t, before, b + at + t * token_size, h_t);
                before = h_t;
                a_t += fixed ? 0 : token_size;
            }
        }
}

/* db is g. Where `fixed`, da is (B, N) in doubles, one sum over tokens for each row of the batch. */
void NAME(backward_)(
    int threads, int paired, int fixed, int B, int T, int N, const REAL *a, const REAL *h, const REAL *state,
    const REAL *dh, void *da, REAL *db, REAL *dstate)
{
    const int channels = task_channels(threads, B, N), parts = 1 + paired;
    const size_t token_size = (size_t)N * parts;
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int row = 0; row < B; row++)
        for (int from = 0; from < N; from += channels) {
            const int n = N - from < channels ? N - from : channels;
            const size_t first = (size_t)from * parts;
            const size_t at = row * T * token_size + first, at_state = row * token_size + first;
            const REAL *a_0 = fixed ? a + first : a + at;
            if (fixed)
                memset((double *)da + at_state, 0, (size_t)n * parts * sizeof(double));
            for (int t = T - 1; t >= 0; t--) {
                const size_t at_t = at + t * token_size;
                const REAL *before = t ? h + at_t - token_size : state + at_state;
                if (t == T - 1)
                    memcpy(db + at_t, dh + at_t, (size_t)n * parts * sizeof(REAL));
                else
                    NAME(step_back_)(n, paired, fixed ? a_0 : a_0 + (t + 1) * token_size, db + at_t + token_size,
                                     dh + at_t, db + at_t);
                if (fixed)
                    NAME(add_da_)(n, paired, db + at_t, before, (double *)da + at_state);
                else
                    NAME(da_)(n, paired, db + at_t, before, (REAL *)da + at_t);
            }
            NAME(step_back_)(n, paired, a_0, db + at, NULL, dstate + at_state);
        }
}

#endif
