/* The recurrence of recurrence.py, token by token, in its letters: each thread takes one row of the batch and some
   channels.

   Numbers are (B, T, N), states (B, N), all without gaps; a complex number is its real and its imaginary part. An `a`
   of (N,), `fixed`, is the same at every token. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>
#include <string.h>

/* Channels of one task: memory is read faster in long rows, but there must be a task for each thread. */
static int task_channels(int threads, int B, int N)
{
    int most = 256;
    while (most > 16 && B * ((N + most - 1) / most) < threads)
        most /= 2;
    return most;
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
static inline void NAME(join_)(
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
static inline void NAME(return_)(
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
static inline void NAME(turn_)(int n, int paired, const REAL *restrict g, const REAL *restrict before, REAL *restrict da)
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

/* The same, added up in doubles. */
static inline void NAME(turns_)(
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
    const size_t line = (size_t)N * parts;
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int row = 0; row < B; row++)
        for (int from = 0; from < N; from += channels) {
            const int n = N - from < channels ? N - from : channels;
            const size_t first = (size_t)from * parts, at = row * T * line + first;
            const REAL *before = state + row * line + first, *by = fixed ? a + first : a + at;
            for (int t = 0; t < T; t++) {
                REAL *here = h + at + t * line;
                NAME(join_)(n, paired, by, before, b + at + t * line, here);
                before = here;
                by += fixed ? 0 : line;
            }
        }
}

/* da is (B, N) of doubles where `fixed`, one sum for each row of the batch; db is g. */
void NAME(backward_)(
    int threads, int paired, int fixed, int B, int T, int N, const REAL *a, const REAL *h, const REAL *state,
    const REAL *dh, void *da, REAL *db, REAL *dstate)
{
    const int channels = task_channels(threads, B, N), parts = 1 + paired;
    const size_t line = (size_t)N * parts;
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int row = 0; row < B; row++)
        for (int from = 0; from < N; from += channels) {
            const int n = N - from < channels ? N - from : channels;
            const size_t first = (size_t)from * parts, at = row * T * line + first, held = row * line + first;
            const REAL *by = fixed ? a + first : a + at;
            if (fixed)
                memset((double *)da + held, 0, (size_t)n * parts * sizeof(double));
            for (int t = T - 1; t >= 0; t--) {
                const size_t here = at + t * line;
                const REAL *before = t ? h + here - line : state + held;
                if (t == T - 1)
                    memcpy(db + here, dh + here, (size_t)n * parts * sizeof(REAL));
                else
                    NAME(return_)(n, paired, fixed ? by : by + (t + 1) * line, db + here + line, dh + here, db + here);
                if (fixed)
                    NAME(turns_)(n, paired, db + here, before, (double *)da + held);
                else
                    NAME(turn_)(n, paired, db + here, before, (REAL *)da + here);
            }
            NAME(return_)(n, paired, by, db + at, NULL, dstate + held);
        }
}

#endif
