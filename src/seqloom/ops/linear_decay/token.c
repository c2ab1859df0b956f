/* One token of the decaying sum, and of the whole mixers `gla`, `mamba2` and `mlstm`, for each row. S is (K, V) per head: S = e^g S
   + kᵀ v, y = q S. A thread computes whole heads, so that results do not depend on the number of threads. The file includes
   itself once for each floating-point type. */
#ifndef REAL

#include <stddef.h>

#define REAL float
#include "token.c"
#undef REAL

#define REAL double
#include "token.c"

#else

#include "vectors.h"
#include "one_row.h"

/* One head: the state after the token from that before it, which may be the same memory, and the output y (V). g has one
   number, or one for each channel if `by_channel`. */
static void NAME(head_)(
    int64_t K, int64_t V, int by_channel, const REAL *q, const REAL *k, const REAL *v, const REAL *g,
    const REAL *state, REAL *new_state, REAL *y)
{
    for (int64_t c = 0; c < V; c++)
        y[c] = 0;
    REAL whole, part = NAME(split_)(g[0], &whole);
    for (int64_t n = 0; n < K; n++) {
        const REAL key = k[n], query = q[n], *before = state + n * V;
        REAL *row = new_state + n * V;
        if (by_channel)
            part = NAME(split_)(g[n], &whole);
#pragma omp simd
        for (int64_t c = 0; c < V; c++) {
            row[c] = whole * before[c] + (part * before[c] + key * v[c]);
            y[c] += query * row[c];
        }
    }
}

/* q and k are (B, G, K), v and y (B, H, V), states (B, H, K, V), all without gaps; H/G heads of v share one of q and k. g is
   `log_decay` (B, H) or `log_decays` (B, H, K); one of them or both are NULL. Where `new_state` is NULL the state is
   overwritten. Returns 1 where H is no multiple of G. */
int NAME(token_)(
    int threads, int B, int G, int H, int K, int V, const REAL *q, const REAL *k, const REAL *v, const REAL *log_decay,
    const REAL *log_decays, REAL *state, REAL *y, REAL *new_state)
{
    const REAL none = 0;
    if (H % G)
        return 1;
    if (!new_state)
        new_state = state;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t head = 0; head < (int64_t)B * H; head++) {
        const int64_t key = head / (H / G) * K, S = head * K * V;
        const REAL *g = log_decays ? log_decays + head * K : log_decay ? log_decay + head : &none;
        NAME(head_)(K, V, log_decays != NULL, q + key, k + key, v + head * V, g, state + S, new_state + S, y + head * V);
    }
    return 0;
}

/* Gated linear attention, in the letters of its mixer: R is the rank of w_1; `scales` are τ and the norm's ε. The state is
   overwritten. */
int NAME(gla_)(
    int threads, int B, int D, int H, int K, int V, int R, const REAL *x, const REAL *w_q, const REAL *w_k,
    const REAL *w_v, const REAL *w_1, const REAL *w_2, const REAL *b_2, const REAL *w_g, const REAL *gain,
    const REAL *scales, REAL *state, const REAL *w_o, REAL *y, REAL *scratch)
{
    const int64_t keys = (int64_t)H * K, values = (int64_t)H * V;
    REAL *q = scratch, *k = q + keys, *g = k + keys, *v = g + keys, *z = v + values, *out = z + values;
    REAL *low_rank = out + values;
    for (int64_t row = 0; row < B; row++) {
        const REAL *x_row = x + row * D;
        REAL *S = state + row * keys * V;
        NAME(product_)(threads, keys, D, w_q, NULL, x_row, q);
        NAME(product_)(threads, keys, D, w_k, NULL, x_row, k);
        NAME(product_)(threads, values, D, w_v, NULL, x_row, v);
        NAME(product_)(threads, values, D, w_g, NULL, x_row, z);
        NAME(product_)(1, R, D, w_1, NULL, x_row, low_rank);
        NAME(product_)(1, keys, R, w_2, b_2, low_rank, g);
        for (int64_t n = 0; n < keys; n++) {
            q[n] /= sqrt((REAL)K);
            g[n] = -NAME(log_sum_)(-g[n]) / scales[0];
        }
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t head = 0; head < H; head++) {
            const int64_t key = head * K, value = head * V;
            NAME(head_)(K, V, 1, q + key, k + key, v + value, g + key, S + key * V, S + key * V, out + value);
            NAME(norm_)(V, 1, scales[1], gain, z + value, out + value);
        }
        NAME(product_)(threads, D, values, w_o, NULL, out, y + row * D);
    }
    return 0;
}

/* Mamba-2, in the letters of its mixer: H heads of P channels in G groups, W taps. The outputs of w_in are z, (u, B, C) and
   Δ; `scales` is the norm's ε. The window and the state (H, N, P) are overwritten. Returns 1 where H is no multiple of G. */
int NAME(mamba2_)(
    int threads, int B, int D, int W, int H, int G, int N, int P, const REAL *x, const REAL *w_in, const REAL *taps,
    const REAL *bias, REAL *window, const REAL *a_log, const REAL *step_bias, const REAL *skip, const REAL *gain,
    const REAL *scales, REAL *state, const REAL *w_out, REAL *y, REAL *scratch)
{
    if (H % G)
        return 1;
    const int64_t E = (int64_t)H * P, shared = (int64_t)G * N, C = E + 2 * shared, group = E / G;
    REAL *z = scratch, *inputs = z + E, *steps = inputs + C, *u = steps + H, *k = u + E, *q = k + shared;
    REAL *added = q + shared, *out = added + E;
    for (int64_t row = 0; row < B; row++) {
        REAL *past = window + row * (W - 1) * C, *S = state + row * E * N;
        NAME(product_)(threads, E + C + H, D, w_in, NULL, x + row * D, z);
        for (int64_t d = 0; d < C; d += LANES)
            NAME(convolve_some_)(d, C, W - 1, inputs, taps, bias, past, past, u);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t head = 0; head < H; head++) {
            const int64_t key = head / (H / G) * N, first = head * P;
            const REAL step = NAME(log_sum_)(steps[head] + step_bias[head]), g = -exp(a_log[head]) * step;
            for (int64_t n = first; n < first + P; n++)
                added[n] = step * u[n];
            NAME(head_)(N, P, 0, q + key, k + key, added + first, &g, S + first * N, S + first * N, out + first);
            for (int64_t n = first; n < first + P; n++)
                out[n] += skip[head] * u[n];
        }
        for (int64_t n = 0; n < E; n += LANES) {
            const int64_t m = least(E - n, LANES);
            NAME(store_)(out + n, NAME(load_)(out + n, m) * NAME(silu_)(NAME(load_)(z + n, m)), m);
        }
        for (int64_t n = 0; n < E; n += group)
            NAME(norm_)(group, 0, scales[0], gain + n, NULL, out + n);
        NAME(product_)(threads, D, E, w_out, NULL, out, y + row * D);
    }
    return 0;
}

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
    NAME(head_)(K, K + 1, 0, q, k, added, &g, state, state, sums);
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
