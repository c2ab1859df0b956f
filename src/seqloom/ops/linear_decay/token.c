/* One token of the decaying sum, and of the whole mixers `gla`, `hgrn2` and `mamba2`, for each row. S is (K, V) per head: S = e^g S
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
        NAME(decay_head_)(K, V, log_decays != NULL, q + key, k + key, v + head * V, g, state + S, new_state + S, y + head * V);
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
            NAME(decay_head_)(K, V, 1, q + key, k + key, v + value, g + key, S + key * V, S + key * V, out + value);
            NAME(norm_)(V, 1, scales[1], gain, z + value, out + value);
        }
        NAME(product_)(threads, D, values, w_o, NULL, out, y + row * D);
    }
    return 0;
}

/* β (D) of layer `number`: a softmax over the L layers of each channel of the table (L, D), summed over layers 1 to
   `number`. */
static void NAME(lower_bounds_)(int64_t L, int64_t number, int64_t D, const REAL *table, REAL *bounds)
{
    for (int64_t d = 0; d < D; d += LANES) {
        const int64_t m = least(D - d, LANES);
        VEC largest = NAME(load_)(table + d, m), sum = {0}, below = {0};
        for (int64_t l = 1; l < L; l++) {
            const VEC logit = NAME(load_)(table + l * D + d, m);
            largest = NAME(pick_)(logit > largest, logit, largest);
        }
        for (int64_t l = 0; l < L; l++) {
            const VEC weight = NAME(power_)((NAME(load_)(table + l * D + d, m) - largest) * (REAL)LOG2_E);
            sum += weight;
            if (0 < l && l <= number)
                below += weight;
        }
        NAME(store_)(bounds + d, below / sum, m);
    }
}

/* HGRN2, in the letters of its mixer: D = H K. The table of layer `number`'s bounds is NULL in the first layer, whose bounds
   are 0; `scales` is the norm's ε. The state is overwritten. */
int NAME(hgrn2_)(
    int threads, int B, int H, int K, int L, int number, const REAL *x, const REAL *w_q, const REAL *w_f,
    const REAL *w_i, const REAL *table, const REAL *gain, const REAL *scales, REAL *state, const REAL *w_o, REAL *y,
    REAL *scratch)
{
    const int64_t D = (int64_t)H * K;
    REAL *bounds = scratch, *q = bounds + D, *f = q + D, *v = f + D, *k = v + D, *out = k + D;
    memset(bounds, 0, D * sizeof(REAL));
    if (table)
        NAME(lower_bounds_)(L, number, D, table, bounds);
    for (int64_t row = 0; row < B; row++) {
        const REAL *x_row = x + row * D;
        NAME(product_)(threads, D, D, w_q, NULL, x_row, q);
        NAME(product_)(threads, D, D, w_f, NULL, x_row, f);
        NAME(product_)(threads, D, D, w_i, NULL, x_row, v);
        for (int64_t d = 0; d < D; d += LANES) {
            const int64_t m = least(D - d, LANES);
            const VEC logit = NAME(load_)(f + d, m), bound = NAME(load_)(bounds + d, m);
            VEC unused;
            NAME(store_)(q + d, NAME(silu_)(NAME(load_)(q + d, m)) / sqrt((REAL)K), m);
            NAME(store_)(f + d, bound + (1 - bound) * NAME(sigmoid_)(logit, &unused), m);
            NAME(store_)(k + d, (1 - bound) * NAME(sigmoid_)(-logit, &unused), m);
        }
        memset(out, 0, D * sizeof(REAL));
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t head = 0; head < H; head++)
            for (int64_t n = head * K; n < (head + 1) * K; n++) {
                REAL *S = state + (row * D + n) * K;
                const int slow = k[n] < (REAL)0.5; /* f = 1 - k, which would be rounded: see split_ */
                NAME(decay_row_)(K, slow, slow ? -k[n] : f[n], q[n], k[n], v + head * K, S, S, out + head * K);
            }
        NAME(norm_)(D, 0, scales[0], gain, NULL, out);
        NAME(product_)(threads, D, D, w_o, NULL, out, y + row * D);
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
            NAME(decay_head_)(N, P, 0, q + key, k + key, added + first, &g, S + first * N, S + first * N, out + first);
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

#endif
