/* One token of RWKV-7's time mixing for each row of x (B, D), in the letters of its mixer: H heads of K channels, D = H K.
   The state of a head is (K, K). The file includes itself once for each floating-point type. */
#ifndef REAL

#include <stddef.h>

#define REAL float
#include "rwkv7.c"
#undef REAL

#define REAL double
#include "rwkv7.c"

#else

#include "vectors.h"
#include "one_row.h"

/* y (D) = x + (last - x) ∘ μ. */
static void NAME(shift_)(int64_t D, const REAL *x, const REAL *last, const REAL *mu, REAL *y)
{
#pragma omp simd
    for (int64_t c = 0; c < D; c++)
        y[c] = x[c] + (last[c] - x[c]) * mu[c];
}

/* x (n) ← tanh(x). */
static void NAME(to_tanh_)(int64_t n, REAL *x)
{
    for (int64_t c = 0; c < n; c += LANES)
        NAME(store_)(x + c, NAME(tanh_)(NAME(load_)(x + c, least(n - c, LANES))), least(n - c, LANES));
}

/* x (n) ← σ(x). */
static void NAME(to_sigmoid_)(int64_t n, REAL *x)
{
    VEC unused;
    for (int64_t c = 0; c < n; c += LANES)
        NAME(store_)(x + c, NAME(sigmoid_)(NAME(load_)(x + c, least(n - c, LANES)), &unused), least(n - c, LANES));
}

/* One head: κ = k ∘ ξ over its length, k ← k ∘ (1 + (a - 1) ∘ α), then
   S ← diag(e^g) S - (a ∘ κ)ᵀ (κ S) + kᵀ v,   y = r S.   `read` and `kappa` have room for K numbers each. */
static void NAME(head_)(
    int64_t K, const REAL *r, const REAL *g, REAL *k, const REAL *v, const REAL *a, const REAL *xi, const REAL *alpha,
    REAL *S, REAL *kappa, REAL *read, REAL *y)
{
    REAL square = 0;
    for (int64_t c = 0; c < K; c++) {
        kappa[c] = k[c] * xi[c];
        square += kappa[c] * kappa[c];
        k[c] *= 1 + (a[c] - 1) * alpha[c];
        y[c] = read[c] = 0;
    }
    const REAL scale = 1 / sqrt(square > (REAL)1e-24 ? square : (REAL)1e-24);
    for (int64_t c = 0; c < K; c++) {
        const REAL *row = S + c * K;
        kappa[c] *= scale;
#pragma omp simd
        for (int64_t n = 0; n < K; n++)
            read[n] += kappa[c] * row[n];
    }
    for (int64_t c = 0; c < K; c++) {
        REAL whole, *row = S + c * K;
        const REAL part = NAME(split_)(g[c], &whole), write = a[c] * kappa[c], key = k[c], query = r[c];
#pragma omp simd
        for (int64_t n = 0; n < K; n++) {
            row[n] = whole * row[n] + (part * row[n] + (key * v[n] - write * read[n]));
            y[n] += query * row[n];
        }
    }
}

/* y ← (GN(y) ∘ gain + shift + (r · (ρ ∘ k)) v) ∘ gate over the K numbers of a head. */
static void NAME(out_)(
    int64_t K, const REAL *r, const REAL *k, const REAL *v, const REAL *rho, const REAL *gain, const REAL *shift,
    const REAL *gate, REAL *y)
{
    REAL mean = 0, variance = 0, bonus = 0;
    for (int64_t c = 0; c < K; c++) {
        mean += y[c] / K;
        bonus += r[c] * (k[c] * rho[c]);
    }
    for (int64_t c = 0; c < K; c++)
        variance += (y[c] - mean) * (y[c] - mean) / K;
    const REAL scale = 1 / sqrt(variance + K * (REAL)1e-5);
    for (int64_t c = 0; c < K; c++)
        y[c] = ((y[c] - mean) * scale * gain[c] + shift[c] + bonus * v[c]) * gate[c];
}

/* `mu` are those of r, w, k, v, a, g. The `in` and `out` matrices are the factors of low rank, and w_0, a_0, v_0, g_0
   their biases; those of the value are NULL in the first layer. `first_values` (B, D) are the values that are mixed in; where they
   are NULL, a layer mixes in its own. `values` are those before they are mixed. `last` and `state` are overwritten. Returns 1
   where the matrices of the value are not all there or all missing. */
int NAME(rwkv7_)(
    int threads, int B, int D, int H, int K, int W, int A, int V, int G, const REAL *x, REAL *last, const REAL *mu,
    const REAL *w_r, const REAL *w_k, const REAL *w_v, const REAL *decay_in, const REAL *decay_out, const REAL *w_0,
    const REAL *rate_in, const REAL *rate_out, const REAL *a_0, const REAL *value_in, const REAL *value_out,
    const REAL *v_0, const REAL *gate_in, const REAL *gate_out, const REAL *g_0, const REAL *xi, const REAL *alpha, const REAL *rho,
    const REAL *gain, const REAL *shift, const REAL *first_values, REAL *values, REAL *state, const REAL *w_o, REAL *y,
    REAL *scratch)
{
    if (!value_in != !value_out || !value_in != !v_0)
        return 1;
    REAL *shifted = scratch, *r = shifted + D, *g = r + D, *k = g + D, *v = k + D, *a = v + D, *gate = a + D;
    REAL *mixed = gate + D, *kappa = mixed + D, *read = kappa + D, *out = read + D, *low_rank = out + D;
    for (int64_t row = 0; row < B; row++) {
        const REAL *now = x + row * D;
        REAL *before = last + row * D, *S = state + row * D * K, *own = values + row * D;
        NAME(shift_)(D, now, before, mu, shifted);
        NAME(product_)(threads, D, D, w_r, NULL, shifted, r);
        NAME(shift_)(D, now, before, mu + D, shifted);
        NAME(product_)(1, W, D, decay_in, NULL, shifted, low_rank);
        NAME(to_tanh_)(W, low_rank);
        NAME(product_)(1, D, W, decay_out, w_0, low_rank, g);
        NAME(to_sigmoid_)(D, g);
        for (int64_t c = 0; c < D; c++)
            g[c] *= (REAL)-0.60653065971263342360; /* -e^{-1/2} */
        NAME(shift_)(D, now, before, mu + 2 * D, shifted);
        NAME(product_)(threads, D, D, w_k, NULL, shifted, k);
        NAME(shift_)(D, now, before, mu + 3 * D, shifted);
        NAME(product_)(threads, D, D, w_v, NULL, shifted, own);
        memcpy(v, own, D * sizeof *v);
        if (value_in && first_values) {
            NAME(product_)(1, V, D, value_in, NULL, shifted, low_rank);
            NAME(product_)(1, D, V, value_out, v_0, low_rank, mixed);
            NAME(to_sigmoid_)(D, mixed);
            for (int64_t c = 0; c < D; c++)
                v[c] += (first_values[row * D + c] - v[c]) * mixed[c];
        }
        NAME(shift_)(D, now, before, mu + 4 * D, shifted);
        NAME(product_)(1, A, D, rate_in, NULL, shifted, low_rank);
        NAME(product_)(1, D, A, rate_out, a_0, low_rank, a);
        NAME(to_sigmoid_)(D, a);
        NAME(shift_)(D, now, before, mu + 5 * D, shifted);
        NAME(product_)(1, G, D, gate_in, NULL, shifted, low_rank);
        NAME(to_sigmoid_)(G, low_rank);
        NAME(product_)(1, D, G, gate_out, g_0, low_rank, gate);
        memcpy(before, now, D * sizeof *now);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t h = 0; h < D; h += K) {
            NAME(head_)(K, r + h, g + h, k + h, v + h, a + h, xi + h, alpha + h, S + h * K, kappa + h, read + h, out + h);
            NAME(out_)(K, r + h, k + h, v + h, rho + h, gain + h, shift + h, gate + h, out + h);
        }
        NAME(product_)(threads, D, D, w_o, NULL, out, y + row * D);
    }
    return 0;
}

#endif
