/* The walk of averages.py, token by token, in its letters: each task is one row of the batch and some channels.

   Numbers are (B, T, D), means and logarithms before the first and after each token (B, T+1, D), all without gaps. The
   file includes itself once for each type of number. e^-a and ln(1 + e) are computed by series, since not every
   compiler has them for vectors; NaN and infinity have the same effect as in the equation. */
#ifndef REAL

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h>

/* Channels of one task: memory is read faster in long rows, but there must be a task for each thread. */
static int task_channels(int threads, int B, int D)
{
    int channels = 256;
    while (channels > 64 && B * ((D + channels - 1) / channels) < threads)
        channels /= 2;
    return channels;
}

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)

#define REAL float
#define BITS uint32_t
#define FRACTION 23 /* bits of a number's fraction */
#define BIAS 127u
#define FARTHEST 87 /* e^-87 is the smallest power that is not denormal */
#define POWERS 7    /* terms of e^r, |r| <= ln 2 / 2 */
#define ODD 7       /* terms of ln(1 + e), e <= 1 */
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f
#include "wkv.c"
#undef REAL
#undef BITS
#undef FRACTION
#undef BIAS
#undef FARTHEST
#undef POWERS
#undef ODD
#undef LN2_HIGH
#undef LN2_LOW

#define REAL double
#define BITS uint64_t
#define FRACTION 52
#define BIAS 1023u
#define FARTHEST 708
#define POWERS 13
#define ODD 16
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW 1.90821492927058770002e-10
#include "wkv.c"

#else

/* e^-a for a >= 0, and 0 where that is denormal. */
static inline REAL NAME(faded_)(REAL a)
{
    static const REAL inverse[] = {1, 1, 1 / 2., 1 / 6., 1 / 24., 1 / 120., 1 / 720., 1 / 5040., 1 / 40320.,
                                   1 / 362880., 1 / 3628800., 1 / 39916800., 1 / 479001600., 1 / 6227020800.};
    const REAL nearest = (REAL)1.5 * ((BITS)1 << FRACTION); /* added, it leaves the whole number in the lowest bits */
    const REAL x = a > FARTHEST ? -(REAL)FARTHEST : -a;
    const REAL shifted = x * (REAL)1.4426950408889634 + nearest;
    const REAL n = shifted - nearest;
    const REAL r = x - n * LN2_HIGH - n * LN2_LOW;
    REAL power = inverse[POWERS], scale;
    BITS bits;
#pragma GCC unroll 16
    for (int i = POWERS - 1; i >= 0; i--)
        power = power * r + inverse[i];
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + BIAS) << FRACTION;
    memcpy(&scale, &bits, sizeof bits);
    return a > FARTHEST ? 0 : power * scale;
}

/* ln(1 + e) = 2 artanh(e / (2 + e)) for 0 <= e <= 1. */
static inline REAL NAME(log_one_more_)(REAL e)
{
    const REAL z = e / (2 + e), square = z * z;
    REAL sum = 1 / (REAL)(2 * ODD - 1);
#pragma GCC unroll 16
    for (int i = ODD - 2; i >= 0; i--)
        sum = sum * square + 1 / (REAL)(2 * i + 1);
    return 2 * z * sum;
}

/* a + share (b - a), exact at both ends; rest is 1 - share. */
static inline REAL NAME(between_)(REAL a, REAL b, REAL share, REAL rest)
{
    return share < (REAL)0.5 ? a + share * (b - a) : b - rest * (b - a);
}

/* One token for n channels: y, and the mean and logarithm after it from those before it. With a = e^-|odds|, `faded`,
   the larger one of σ(odds) and 1 - σ(odds) is 1 / (1 + a), the smaller one a / (1 + a); `rest` of g and s is 1 - g and
   1 - s. */
static inline void NAME(forward_token_)(
    int n, const REAL *restrict k, const REAL *restrict v, const REAL *restrict w, const REAL *restrict u,
    const REAL *restrict mean, const REAL *restrict log, REAL *restrict y, REAL *restrict mean_after,
    REAL *restrict log_after)
{
#pragma omp simd
    for (int d = 0; d < n; d++) {
        const REAL past = log[d] - w[d], odds_g = k[d] - past;
        const REAL faded_g = NAME(faded_)(fabs(odds_g)), large_g = 1 / (1 + faded_g);
        const REAL g = odds_g >= 0 ? large_g : faded_g * large_g, rest_g = odds_g >= 0 ? faded_g * large_g : large_g;
        log_after[d] = (past > k[d] ? past : k[d]) + NAME(log_one_more_)(faded_g);
        mean_after[d] = NAME(between_)(mean[d], v[d], g, rest_g);
        const REAL odds_s = k[d] + u[d] - log[d];
        const REAL faded_s = NAME(faded_)(fabs(odds_s)), large_s = 1 / (1 + faded_s);
        const REAL s = odds_s >= 0 ? large_s : faded_s * large_s, rest_s = odds_s >= 0 ? faded_s * large_s : large_s;
        y[d] = NAME(between_)(mean[d], v[d], s, rest_s);
    }
}

/* One token for n channels backward: changes M and N from those after it to those before it, and adds to dw and du. */
static inline void NAME(backward_token_)(
    int n, const REAL *restrict k, const REAL *restrict v, const REAL *restrict w, const REAL *restrict u,
    const REAL *restrict mean, const REAL *restrict log, const REAL *restrict dy, REAL *restrict dk, REAL *restrict dv,
    double *restrict dw, double *restrict du, REAL *restrict M, REAL *restrict N)
{
#pragma omp simd
    for (int d = 0; d < n; d++) {
        const REAL odds_g = k[d] - (log[d] - w[d]);
        const REAL faded_g = NAME(faded_)(fabs(odds_g)), large_g = 1 / (1 + faded_g);
        const REAL g = odds_g >= 0 ? large_g : faded_g * large_g, rest_g = odds_g >= 0 ? faded_g * large_g : large_g;
        const REAL odds_s = k[d] + u[d] - log[d];
        const REAL faded_s = NAME(faded_)(fabs(odds_s)), large_s = 1 / (1 + faded_s);
        const REAL s = odds_s >= 0 ? large_s : faded_s * large_s, rest_s = odds_s >= 0 ? faded_s * large_s : large_s;
        const REAL difference = v[d] - mean[d], dy_rest = rest_s * dy[d];
        const REAL e = s * dy_rest * difference, f = g * rest_g * M[d] * difference, rest_N = rest_g * N[d];
        dv[d] = s * dy[d] + g * M[d];
        dk[d] = e + f + g * N[d];
        dw[d] += f - rest_N;
        du[d] += e;
        M[d] = rest_g * M[d] + dy_rest;
        N[d] = rest_N - e - f;
    }
}

void NAME(forward_)(
    int threads, int B, int T, int D, const REAL *k, const REAL *v, const REAL *w, const REAL *u, const REAL *mean,
    const REAL *log, REAL *y, REAL *means, REAL *logs)
{
    const int channels = task_channels(threads, B, D);
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int b = 0; b < B; b++)
        for (int from = 0; from < D; from += channels) {
            const int n = D - from < channels ? D - from : channels;
            const size_t row = (size_t)b * D + from, first = (size_t)b * T * D + from, start = first + (size_t)b * D;
            memcpy(means + start, mean + row, n * sizeof(REAL));
            memcpy(logs + start, log + row, n * sizeof(REAL));
            for (int t = 0; t < T; t++) {
                const size_t at = first + (size_t)t * D, before = start + (size_t)t * D;
                NAME(forward_token_)(n, k + at, v + at, w + from, u + from, means + before, logs + before, y + at,
                                     means + before + D, logs + before + D);
            }
        }
}

/* dmeans and dlogs may be NULL, which means 0. dw and du are (B, D) of doubles, one sum over tokens for each row of the
   batch. M and N are in the end the gradients of the first mean and logarithm. */
void NAME(backward_)(
    int threads, int B, int T, int D, const REAL *k, const REAL *v, const REAL *w, const REAL *u, const REAL *means,
    const REAL *logs, const REAL *dy, const REAL *dmeans, const REAL *dlogs, REAL *dk, REAL *dv, double *dw, double *du,
    REAL *M, REAL *N)
{
    const int channels = task_channels(threads, B, D);
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static)
    for (int b = 0; b < B; b++)
        for (int from = 0; from < D; from += channels) {
            const int n = D - from < channels ? D - from : channels;
            const size_t row = (size_t)b * D + from, first = (size_t)b * T * D + from, start = first + (size_t)b * D;
            memset(dw + row, 0, n * sizeof(double));
            memset(du + row, 0, n * sizeof(double));
            for (int d = 0; d < n; d++) {
                M[row + d] = dmeans ? dmeans[start + (size_t)T * D + d] : 0;
                N[row + d] = dlogs ? dlogs[start + (size_t)T * D + d] : 0;
            }
            for (int t = T - 1; t >= 0; t--) {
                const size_t at = first + (size_t)t * D, before = start + (size_t)t * D;
                NAME(backward_token_)(n, k + at, v + at, w + from, u + from, means + before, logs + before, dy + at,
                                      dk + at, dv + at, dw + row, du + row, M + row, N + row);
                for (int d = 0; d < n && dmeans; d++)
                    M[row + d] += dmeans[before + d];
                for (int d = 0; d < n && dlogs; d++)
                    N[row + d] += dlogs[before + d];
            }
        }
}

#endif
