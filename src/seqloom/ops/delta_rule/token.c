/* One token of a whole mixer of the delta rule, for each row of x (B, D), in the letters of its mixers
   (seqloom.mixers.linear): C = 2 H K + G V channels go through the convolution: H heads of q and k and G of v; a head of q
   and k serves G/H of v. A is the number of decays: 0, G or G K. The matrices of decay and gate have D inputs, or R, the
   outputs of a first matrix of low rank. The file includes itself once for each floating-point type. */
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

/* x (H heads of K numbers) over √(Σ x² + 1e-6), times `factor`. */
static void NAME(unit_)(int64_t H, int64_t K, REAL factor, REAL *x)
{
    for (int64_t h = 0; h < H; h++, x += K) {
        REAL square = 0;
#pragma omp simd reduction(+ : square)
        for (int64_t c = 0; c < K; c++)
            square += x[c] * x[c];
        const REAL scale = factor / sqrt(square + (REAL)1e-6);
        for (int64_t c = 0; c < K; c++)
            x[c] *= scale;
    }
}

/* The state (K, V) of one head: S ← e^g S + β kᵀ (v - e^g k S),  y = q S. e^g is whole + part, one for each channel if
   `by_channel`; `error` has room for V numbers. */
static void NAME(rule_)(
    int64_t K, int64_t V, int by_channel, REAL beta, const REAL *whole, const REAL *part, const REAL *q, const REAL *k,
    const REAL *v, REAL *S, REAL *error, REAL *y)
{
    for (int64_t n = 0; n < V; n++)
        y[n] = error[n] = 0;
    for (int64_t c = 0; c < K; c++) {
        const REAL erase = k[c] * (whole[by_channel ? c : 0] + part[by_channel ? c : 0]), *row = S + c * V;
#pragma omp simd
        for (int64_t n = 0; n < V; n++)
            error[n] += erase * row[n];
    }
#pragma omp simd
    for (int64_t n = 0; n < V; n++)
        error[n] = v[n] - error[n];
    for (int64_t c = 0; c < K; c++) {
        const REAL row_whole = whole[by_channel ? c : 0], row_part = part[by_channel ? c : 0];
        const REAL write = beta * k[c], query = q[c];
        REAL *row = S + c * V;
#pragma omp simd
        for (int64_t n = 0; n < V; n++) {
            row[n] = row_whole * row[n] + (row_part * row[n] + write * error[n]);
            y[n] += query * row[n];
        }
    }
}

/* `scales` are the largest β and the norm's ε. May be NULL: rate_in and gate_in (no matrices of low rank), w_a, b_a and
   a_log (no decay), w_g (no gate), b_g. `window` and `state` are overwritten. Returns 1 where sizes do not fit together. */
int NAME(mixer_)(
    int threads, int B, int D, int W, int H, int G, int K, int V, int A, int P, int Q, int R, int silu, const REAL *x,
    const REAL *w_qkv, const REAL *taps, REAL *window, const REAL *w_b, const REAL *rate_in, const REAL *w_a,
    const REAL *b_a, const REAL *a_log, const REAL *gate_in, const REAL *w_g, const REAL *b_g, const REAL *gain,
    const REAL *scales, REAL *state, const REAL *w_o, REAL *y, REAL *scratch)
{
    const int64_t keys = (int64_t)H * K, values = (int64_t)G * V, C = 2 * keys + values;
    const int by_channel = A == G * (int64_t)K && A != G;
    const int decay_fits = w_a ? b_a && a_log && (A == G || by_channel) && P == (rate_in ? R : D) : A == 0;
    const int gate_fits = !w_g || Q == (gate_in ? R : D);
    if (H < 1 || G % H || !decay_fits || !gate_fits)
        return 1;
    REAL *qkv = scratch, *q = qkv + C, *k = q + keys, *v = k + keys, *low_rank = q + C, *beta = low_rank + R;
    REAL *rates = beta + G, *whole = rates + A, *part = whole + A + G, *z = part + A + G, *error = z + values;
    REAL *out = error + values;
    for (int64_t row = 0; row < B; row++) {
        const REAL *x_row = x + row * D;
        REAL *past = window + row * (W - 1) * C, *S = state + row * values * K;
        NAME(product_)(threads, C, D, w_qkv, NULL, x_row, qkv);
        for (int64_t d = 0; d < C; d += LANES)
            NAME(convolve_some_)(d, C, W - 1, qkv, taps, NULL, past, past, q);
        NAME(unit_)(H, K, 1 / sqrt((REAL)K), q);
        NAME(unit_)(H, K, 1, k);
        NAME(product_)(1, G, D, w_b, NULL, x_row, beta);
        if (w_a) {
            if (rate_in)
                NAME(product_)(1, R, D, rate_in, NULL, x_row, low_rank);
            NAME(product_)(1, A, P, w_a, b_a, rate_in ? low_rank : x_row, rates);
        }
        if (w_g) {
            if (gate_in)
                NAME(product_)(1, R, D, gate_in, NULL, x_row, low_rank);
            NAME(product_)(threads, values, Q, w_g, b_g, gate_in ? low_rank : x_row, z);
        }
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t head = 0; head < G; head++) {
            const int64_t key = head / (G / H) * K, value = head * V, decay = by_channel ? head * K : head;
            whole[decay] = 1, part[decay] = 0;
            for (int64_t n = decay; w_a && n < decay + (by_channel ? K : 1); n++)
                part[n] = NAME(split_)(-exp(a_log[head]) * NAME(log_sum_)(rates[n]), whole + n);
            NAME(rule_)(K, V, by_channel, scales[0] * NAME(logistic_)(beta[head]), whole + decay, part + decay, q + key,
                        k + key, v + value, S + value * K, error + value, out + value);
            NAME(norm_)(V, silu, scales[1], gain, w_g ? z + value : NULL, out + value);
        }
        NAME(product_)(threads, D, values, w_o, NULL, out, y + row * D);
    }
    return 0;
}

#endif
