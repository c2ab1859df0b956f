/* One token of the whole mixer `mlstm` for each row. A thread computes whole heads, so that results do not depend on the
   number of threads. The file includes itself once for each floating-point type. */
#ifndef REAL

#include <stddef.h>

#define REAL float
#include "mlstm.c"
#undef REAL

#define REAL double
#include "mlstm.c"

#else

#include "vectors.h"
#include "one_row.h"

/* y (E) = x (E) times E/N blocks w (N, N), each block of x as a row. */
static void NAME(blocks_)(int64_t E, int64_t N, const REAL *w, const REAL *x, REAL *y)
{
    for (int64_t first = 0; first < E; first += N)
        for (int64_t o = 0; o < N; o++) {
            REAL sum = 0;
            for (int64_t i = 0; i < N; i++)
                sum += x[first + i] * w[(first + i) * N + o];
            y[first + o] = sum;
        }
}

/* One head of mLSTM: the gates relative to the maximum m, the state (K, K + 1) and its maximum after the token, and h (K),
   the sum over its normalizer. `added` and `sums` have room for K + 1 numbers. */
static void NAME(memory_)(
    int64_t K, REAL log_i, REAL log_f, const REAL *q, const REAL *k, const REAL *v, REAL *maximum, REAL *state,
    REAL *added, REAL *sums, REAL *h)
{
    const REAL before = *maximum, m = fmax(log_f + before, log_i), g = log_f + (before - m);
    const REAL weight = exp(log_i - m) / sqrt((REAL)K);
    for (int64_t n = 0; n < K; n++)
        added[n] = weight * v[n];
    added[K] = weight;
    NAME(decay_head_)(K, K + 1, 0, q, k, added, &g, state, state, sums);
    const REAL normalizer = fmax(fabs(sums[K]), exp(-m)) + (REAL)1e-6;
    for (int64_t n = 0; n < K; n++)
        h[n] = sums[n] / normalizer;
    *maximum = m;
}

/* h ← (norm(h) ∘ gain + skip ∘ c) ∘ silu(z) over the K numbers of a head; the norm is of mean and variance. */
static void NAME(skip_norm_)(int64_t K, const REAL *gain, const REAL *skip, const REAL *c, const REAL *z, REAL *h)
{
    REAL mean = 0, variance = 0;
    for (int64_t n = 0; n < K; n++)
        mean += h[n] / K;
    for (int64_t n = 0; n < K; n++)
        variance += (h[n] - mean) * (h[n] - mean) / K;
    const REAL scale = 1 / sqrt(variance + (REAL)1e-5);
    for (int64_t n = 0; n < K; n += LANES) {
        const int64_t some = least(K - n, LANES);
        const VEC skipped = NAME(load_)(skip + n, some) * NAME(load_)(c + n, some);
        const VEC normed = (NAME(load_)(h + n, some) - mean) * scale * NAME(load_)(gain + n, some);
        NAME(store_)(h + n, (normed + skipped) * NAME(silu_)(NAME(load_)(z + n, some)), some);
    }
}

/* mLSTM, in the letters of its mixer: H heads of K channels, E = H K, blocks of N, W taps. `exponential` is the forget gate
   e^x in place of σ(x). The window, the state (H, K, K + 1) and the maxima are overwritten. */
int NAME(mlstm_)(
    int threads, int B, int D, int W, int H, int K, int N, int exponential, const REAL *x, const REAL *w_up,
    const REAL *taps, const REAL *bias, REAL *window, const REAL *qkv, const REAL *w_gates,
    const REAL *b_gates, const REAL *gain, const REAL *skip, REAL *state, REAL *maxima, const REAL *w_down, REAL *y,
    REAL *scratch)
{
    const int64_t E = (int64_t)H * K, columns = K + 1;
    REAL *u = scratch, *z = u + E, *c = z + E, *q = c + E, *k = q + E, *v = k + E, *h = v + E, *gates = h + E;
    REAL *added = gates + 2 * H, *sums = added + H * columns;
    for (int64_t row = 0; row < B; row++) {
        REAL *past = window + row * (W - 1) * E, *S = state + row * E * columns, *m = maxima + row * H;
        NAME(product_)(threads, 2 * E, D, w_up, NULL, x + row * D, u);
        for (int64_t d = 0; d < E; d += LANES)
            NAME(convolve_some_)(d, E, W - 1, u, taps, bias, past, past, c);
        NAME(blocks_)(E, N, qkv, c, q);
        NAME(blocks_)(E, N, qkv + E * N, c, k);
        NAME(blocks_)(E, N, qkv + 2 * E * N, u, v);
        NAME(product_)(1, 2 * H, 3 * E, w_gates, b_gates, q, gates);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t head = 0; head < H; head++) {
            const int64_t first = head * K, wide = head * columns;
            const REAL logit = gates[H + head], log_f = exponential ? logit : -NAME(log_sum_)(-logit);
            NAME(memory_)(K, gates[head], log_f, q + first, k + first, v + first, m + head, S + first * columns,
                          added + wide, sums + wide, h + first);
            NAME(skip_norm_)(K, gain + first, skip + first, c + first, z + first, h + first);
        }
        NAME(product_)(threads, D, E, w_down, NULL, h, y + row * D);
    }
    return 0;
}

#endif
